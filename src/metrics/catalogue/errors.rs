//! What is known of requests that failed.

use crate::metrics::metric::{Metric, MetricFlags as Flag};
use crate::units::Unit;

pub(super) const ABOUT: &str = "What is known of requests that failed; a cancelled request has \
    failed. No other metric of a single request counts them.";

pub(super) static ROWS: &[Metric] = &[
    Metric::record("error_isl", "Error Input Sequence Length", Unit::Tokens, |facts, _| {
        facts.input_tokens.map(|tokens| tokens as f64)
    })
    .short("Error ISL")
    .flagged(Flag::ERROR_ONLY.union(Flag::LARGER_IS_BETTER).union(Flag::TOKENIZES_INPUT_ONLY))
    .off_console()
    .says(
        "Input tokens of a request that failed.",
        "As input_sequence_length, of failed requests.",
    ),
    Metric::sum_of(
        "total_error_isl",
        "Total Error Input Sequence Length",
        Unit::Tokens,
        &["error_isl"],
    )
    .short("Total Error ISL")
    .flagged(Flag::ERROR_ONLY.union(Flag::LARGER_IS_BETTER).union(Flag::TOKENIZES_INPUT_ONLY))
    .off_console()
    .says("Input tokens of all requests that failed.", "Σ error_isl."),
];
