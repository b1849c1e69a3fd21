//! Tool calls in responses.

use base::units::Unit;

use crate::metrics::metric::{Metric, MetricFlags as Flag};
use crate::metrics::tag;

pub(super) const ABOUT: &str = "Tool calls of responses, and their totals over successful requests, \
    for endpoint types that produce tokens. Absent from responses without tool calls.";

pub(super) static ROWS: &[Metric] = &[
    Metric::record(tag::TOOL_CALL_COUNT, "Tool Calls", Unit::Count, |facts, _| {
        let calls = facts.response.tool_calls;
        (calls.count > 0).then_some(calls.count as f64)
    })
    .flagged(Flag::PRODUCES_TOKENS_ONLY)
    .off_console()
    .says("Tool calls in a response.", "count(calls of tools and functions). Absent without any."),
    Metric::record(tag::INVALID_TOOL_CALL_COUNT, "Invalid Tool Calls", Unit::Count, |facts, _| {
        let calls = facts.response.tool_calls;
        (calls.count > 0).then_some(calls.invalid as f64)
    })
    .short("Invalid Tool Calls")
    .flagged(Flag::PRODUCES_TOKENS_ONLY)
    .off_console()
    .says(
        "Tool calls in a response whose arguments are not a JSON object.",
        "count(calls whose arguments cannot be parsed as an object). Absent without tool calls.",
    ),
    Metric::sum_of(tag::TOTAL_TOOL_CALLS, "Total Tool Calls", Unit::Count, &[tag::TOOL_CALL_COUNT])
        .flagged(Flag::PRODUCES_TOKENS_ONLY)
        .off_console()
        .says("Tool calls of all responses.", "Σ tool_call_count."),
    Metric::sum_of(
        tag::TOTAL_INVALID_TOOL_CALLS,
        "Total Invalid Tool Calls",
        Unit::Count,
        &[tag::INVALID_TOOL_CALL_COUNT],
    )
    .flagged(Flag::PRODUCES_TOKENS_ONLY)
    .off_console()
    .says(
        "Tool calls of all responses whose arguments are not a JSON object.",
        "Σ invalid_tool_call_count.",
    ),
];
