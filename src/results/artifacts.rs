//! The files of a run: JSON, CSV, JSONL, Parquet, console text.
//!
//! Every path is checked before the first request. Records are appended to files with their final
//! names during the run; summaries are written to a temporary file in the same directory and
//! renamed. Times in files are wall time in nanoseconds since the epoch; values are in display
//! units. A failed write does not end a run; it is reported at the end.

mod adaptive;
pub mod aggregate;
mod claim;
mod config;
mod csv;
mod decimal;
mod entry;
mod error;
pub mod gpu;
mod inputs;
pub mod json;
mod jsonl;
pub mod layout;
mod local_time;
mod manifest;
pub mod network_latency;
mod object;
pub mod open;
mod outputs;
mod pairs;
mod parquet;
mod payload;
mod raw;
pub mod rebuild;
mod record_file;
mod redacted;
mod replace;
#[cfg(test)]
mod schema;
pub mod search;
mod sections;
pub mod server_metrics;
mod sessions;
mod set;
mod sink;
mod summaries;
pub mod sweep;
mod table;
mod timeslices;
mod trace;
mod whole;

pub use claim::{Claim, Wanted, newest};
pub use config::{Config, ExportLevel};
pub(crate) use entry::with_header;
pub use error::{ArtifactError, WriteFailure};
pub use inputs::MAX_INPUT_BYTES;
pub(crate) use local_time::{local_minute, local_second};
pub use set::ArtifactSet;
pub(crate) use table::Table;
