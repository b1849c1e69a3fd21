//! Parsing of service level objectives.

use base::setting;

use super::error::MetricsError;
use super::limit::{Limit, Operator};
use super::metric::{Metric, MetricFlags, MetricKind, Objective, Statistic};
use super::registry::Registry;
use super::tag::MetricTag;
use crate::metrics::tag;

/// Maximum number of suggestions for an unknown metric.
const MAX_SUGGESTIONS: usize = 3;

/// Parses objectives separated by white space: limits such as `time_to_first_token<=200ms`, or
/// `tag:threshold` in display units as in AIPerf, `time_to_first_token:200`.
///
/// # Errors
///
/// Fails if a pair is malformed or repeated, or its metric is unknown or does not have a single
/// value per request.
pub fn parse_objectives(text: &str) -> Result<Vec<Objective>, MetricsError> {
    let mut objectives: Vec<Objective> = Vec::new();
    for pair in text.split_whitespace() {
        let objective = parse_one(pair)?;
        if objectives.iter().any(|earlier| earlier.tag == objective.tag) {
            return Err(MetricsError::RepeatedObjective(objective.tag));
        }
        objectives.push(objective);
    }
    Ok(objectives)
}

/// Common abbreviations of metrics.
const SHORT_NAMES: &[(&str, MetricTag)] = &[
    ("ttft", tag::TIME_TO_FIRST_TOKEN),
    ("ttst", tag::TIME_TO_SECOND_TOKEN),
    ("ttfo", tag::TIME_TO_FIRST_OUTPUT_TOKEN),
    ("itl", tag::INTER_TOKEN_LATENCY),
    ("tpot", tag::INTER_TOKEN_LATENCY),
    ("e2el", tag::REQUEST_LATENCY),
    ("e2e", tag::REQUEST_LATENCY),
    ("latency", tag::REQUEST_LATENCY),
    ("rps", tag::REQUEST_THROUGHPUT),
    ("qps", tag::REQUEST_THROUGHPUT),
    ("throughput", tag::REQUEST_THROUGHPUT),
    ("tps", tag::OUTPUT_TOKEN_THROUGHPUT),
    ("error_rate", tag::REQUEST_ERROR_RATE),
];

/// Returns the metric with the tag or abbreviation `name`.
#[must_use]
pub fn find(name: &str) -> Option<&'static Metric> {
    let short = SHORT_NAMES.iter().find(|(short, _)| short.eq_ignore_ascii_case(name));
    short.map_or_else(|| Registry::find(name), |(_, meant)| Registry::row(*meant))
}

fn parse_one(pair: &str) -> Result<Objective, MetricsError> {
    if pair.contains(['<', '>', '=']) {
        return parse_limit(pair);
    }
    let (tag, bound) = pair
        .split_once(':')
        .filter(|(tag, bound)| !tag.is_empty() && !bound.is_empty())
        .ok_or_else(|| MetricsError::MalformedObjective(pair.to_owned()))?;
    let metric = find(tag).ok_or_else(|| MetricsError::UnknownObjective {
        tag: tag.to_owned(),
        near: names_like(tag, |metric| matches!(metric.kind, MetricKind::Record(_))),
    })?;
    if !matches!(metric.kind, MetricKind::Record(_)) {
        return Err(MetricsError::NotPerRequest(metric.tag));
    }
    let threshold =
        bound.parse().ok().filter(|bound: &f64| bound.is_finite()).ok_or_else(|| {
            MetricsError::ObjectiveThreshold {
                tag: metric.tag,
                threshold: bound.to_owned(),
                unit: metric.display_unit.label(),
            }
        })?;
    Ok(Objective { tag: metric.tag, threshold })
}

fn parse_limit(text: &str) -> Result<Objective, MetricsError> {
    let Limit { metric, statistic, operator, bound } = Limit::parse(text)?;
    if !matches!(metric.kind, MetricKind::Record(_)) || statistic != Statistic::Avg {
        return Err(MetricsError::NotPerRequest(metric.tag));
    }
    let wanted = if metric.flags.contains(MetricFlags::LARGER_IS_BETTER) {
        Operator::AtLeast
    } else {
        Operator::AtMost
    };
    if operator != wanted {
        return Err(MetricsError::ObjectiveDirection { tag: metric.tag, wanted: wanted.symbol() });
    }
    Ok(Objective { tag: metric.tag, threshold: bound })
}

/// Returns the tags of the metrics that `is_candidate` accepts and that are similar to `name`,
/// nearest first.
pub(crate) fn names_like(name: &str, is_candidate: fn(&Metric) -> bool) -> Vec<MetricTag> {
    let candidates = Registry::catalogue().iter().filter(|metric| is_candidate(metric));
    let near = setting::similar(name, candidates.map(|metric| metric.tag.name()));
    near.into_iter().take(MAX_SUGGESTIONS).filter_map(MetricTag::find).collect()
}

#[cfg(test)]
mod tests;
