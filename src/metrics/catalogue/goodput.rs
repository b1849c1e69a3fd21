//! Requests that meet the service level objectives.

use super::per_second;
use crate::metrics::ConsoleGroup::Default;
use crate::metrics::Registry;
use crate::metrics::metric::{Kind, Metric, MetricFlags as Flag, Objective, RecordValues};
use crate::units::Unit;

pub(super) const ABOUT: &str = "Requests that meet every service level objective given with \
    `--goodput`, as in `--goodput \"time_to_first_token:200 inter_token_latency:10\"`. Only with \
    objectives.";

pub(super) static ROWS: &[Metric] = &[
    Metric::aggregate(
        "good_request_count",
        "Good Request Count",
        Unit::Requests,
        Kind::Count(|values, settings| {
            settings.objectives.iter().all(|objective| is_met(objective, values))
        }),
    )
    .float()
    .flagged(Flag::GOODPUT)
    .off_console()
    .says(
        "Requests that meet every objective. A good request has the value 1.",
        "count(successful records of which each objective's metric is ≤ its bound, or ≥ where \
         larger is better). A metric that is absent fails its objective.",
    ),
    Metric::derived("good_request_fraction", "GoodRequestFraction", Unit::Ratio, |totals| {
        let succeeded = totals.total("request_count").unwrap_or(0.0);
        let attempted = succeeded + totals.total("error_request_count").unwrap_or(0.0);
        let good = totals.total("good_request_count").unwrap_or(0.0);
        Some(if attempted > 0.0 { good / attempted } else { 0.0 })
    })
    .short("GoodReqFrac")
    .flagged(Flag::GOODPUT.union(Flag::LARGER_IS_BETTER))
    .off_console()
    .requires(&["good_request_count", "request_count", "error_request_count"])
    .says(
        "Share of good requests among all attempted, failed ones included.",
        "good_request_count / (request_count + error_request_count); 0 where none was attempted.",
    ),
    Metric::derived("goodput", "Goodput", Unit::RequestsPerSecond, |totals| {
        per_second(totals, totals.total("good_request_count")?)
    })
    .flagged(Flag::GOODPUT)
    .at(Default, 1000)
    .requires(&["benchmark_duration", "good_request_count"])
    .says("Good requests per second.", "good_request_count / benchmark_duration in seconds."),
];

fn is_met(objective: &Objective, values: &RecordValues) -> bool {
    let Some(metric) = Registry::find(objective.tag) else { return false };
    let Some(value) = values.scalar(objective.tag) else { return false };
    let value = metric.to_display(value);
    if metric.flags.contains(Flag::LARGER_IS_BETTER) {
        value >= objective.threshold
    } else {
        value <= objective.threshold
    }
}
