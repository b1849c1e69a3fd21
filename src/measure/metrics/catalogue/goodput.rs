//! Requests that meet the service level objectives.

use base::units::Unit;

use super::per_second;
use crate::metrics::ConsoleGroup::Default;
use crate::metrics::Registry;
use crate::metrics::metric::{Metric, MetricFlags as Flag, MetricKind, Objective, RecordValues};
use crate::metrics::tag;

pub(super) const ABOUT: &str = "Requests that meet every service level objective given with \
    `--goodput`, such as `--goodput \"time_to_first_token<=200ms inter_token_latency<=10ms\"`. Only with \
    objectives.";

pub(super) static ROWS: &[Metric] = &[
    Metric::aggregate(
        tag::GOOD_REQUEST_COUNT,
        "Good Request Count",
        Unit::Requests,
        MetricKind::Count(|values, settings| {
            settings.objectives.iter().all(|objective| is_met(objective, values))
        }),
    )
    .float()
    .flagged(Flag::GOODPUT)
    .off_console()
    .says(
        "Requests that meet every objective. A good request has the value 1.",
        "count(successful records in which each objective's metric is ≤ its threshold, or ≥ if \
         larger is better). An absent metric does not meet its objective.",
    ),
    Metric::derived(tag::GOOD_REQUEST_FRACTION, "GoodRequestFraction", Unit::Ratio, |totals| {
        let succeeded = totals.total(tag::REQUEST_COUNT).unwrap_or(0.0);
        let attempted = succeeded + totals.total(tag::ERROR_REQUEST_COUNT).unwrap_or(0.0);
        let good = totals.total(tag::GOOD_REQUEST_COUNT).unwrap_or(0.0);
        Some(if attempted > 0.0 { good / attempted } else { 0.0 })
    })
    .short("GoodReqFrac")
    .flagged(Flag::GOODPUT.union(Flag::LARGER_IS_BETTER))
    .off_console()
    .requires(&[tag::GOOD_REQUEST_COUNT, tag::REQUEST_COUNT, tag::ERROR_REQUEST_COUNT])
    .says(
        "Fraction of all attempted requests, including failed ones, that are good.",
        "good_request_count / (request_count + error_request_count); 0 if none was attempted.",
    ),
    Metric::derived(tag::GOODPUT, "Goodput", Unit::RequestsPerSecond, |totals| {
        per_second(totals, totals.total(tag::GOOD_REQUEST_COUNT)?)
    })
    .flagged(Flag::GOODPUT)
    .at(Default, 1000)
    .requires(&[tag::BENCHMARK_DURATION, tag::GOOD_REQUEST_COUNT])
    .says("Good requests per second.", "good_request_count / benchmark_duration in seconds."),
];

fn is_met(objective: &Objective, values: &RecordValues) -> bool {
    let Some(metric) = Registry::row(objective.tag) else { return false };
    values.scalar(objective.tag).is_some_and(|value| objective.is_met(metric.to_display(value)))
}
