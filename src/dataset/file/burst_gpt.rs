//! `BurstGPT` traces: CSV with one request per row.

use super::mapping::{Columns, Mapping};

/// The format `burst_gpt_trace`.
pub(super) const FORMAT: Mapping = Mapping::csv(Columns {
    timestamp: "Timestamp",
    input_tokens: "Request tokens",
    output_tokens: "Response tokens",
});
