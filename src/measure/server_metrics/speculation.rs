//! How many of the tokens that a server drafts with speculative decoding it accepts.

use std::collections::BTreeMap;

use base::redact::ShownUrl;
use client::server_family::{self, Speculation};

use super::report::ServerMetricsReport;

/// The acceptance of drafts by one endpoint in the profiling phase.
#[derive(Debug, Clone, PartialEq)]
pub struct Acceptance {
    pub endpoint_url: ShownUrl,
    /// Accepted tokens per drafted token.
    pub rate: Option<f64>,
    /// Mean tokens per step: the accepted ones, and the one that the model itself adds.
    pub length: Option<f64>,
    /// Share of the drafts whose token at each position, counted from 0, is accepted.
    pub by_position: Vec<(u64, f64)>,
}

impl Acceptance {
    /// Returns the doubt about the numbers, if there is one: no draft can have more tokens accepted
    /// than it has.
    pub fn doubt(&self) -> Option<&'static str> {
        let shares = self.by_position.iter().map(|(_, share)| *share).chain(self.rate);
        let is_too_high = shares.into_iter().any(|share| share > 1.0 + TOLERANCE);
        is_too_high.then_some(
            "more tokens were accepted than drafted: the server counts the two at different times, or \
             several processes into one counter",
        )
    }
}

/// Rounding of a share.
const TOLERANCE: f64 = 1e-9;

/// The label of a position in a draft.
const POSITION: &str = "position";

/// Returns the acceptance of each endpoint that drafted tokens in the profiling phase.
pub fn acceptance(report: &ServerMetricsReport) -> Vec<Acceptance> {
    let known = || server_family::ALL.iter().filter_map(|family| family.speculation);
    let acceptance_of = |url: &ShownUrl| {
        known().find_map(|speculation| match speculation {
            Speculation::Counters { drafts, drafted, accepted, accepted_at } => {
                by_counters(report, url, [drafts, drafted, accepted], accepted_at)
            }
            Speculation::Gauges { rate, length } => by_gauges(report, url, rate, length),
        })
    };
    report.summary.endpoints_successful.iter().filter_map(acceptance_of).collect()
}

fn by_counters(
    report: &ServerMetricsReport,
    url: &ShownUrl,
    counters: [&str; 3],
    accepted_at: &str,
) -> Option<Acceptance> {
    let total = |name| values(report, url, name, "total").map(|(_, total)| total).sum::<f64>();
    let [drafts, drafted, accepted] = counters.map(total);
    if drafts <= 0.0 {
        return None;
    }
    let mut by_position = BTreeMap::new();
    for (position, accepted) in values(report, url, accepted_at, "total") {
        if let Some(position) = position {
            *by_position.entry(position).or_insert(0.0) += accepted / drafts;
        }
    }
    Some(Acceptance {
        endpoint_url: url.clone(),
        rate: (drafted > 0.0).then(|| accepted / drafted),
        length: Some(1.0 + accepted / drafts),
        by_position: by_position.into_iter().collect(),
    })
}

/// The means of the gauges, which are 0 while nothing is drafted.
fn by_gauges(
    report: &ServerMetricsReport,
    url: &ShownUrl,
    rate: &str,
    length: &str,
) -> Option<Acceptance> {
    let mean = |name| {
        let values = values(report, url, name, "avg").map(|(_, mean)| mean);
        let values: Vec<f64> = values.filter(|mean| *mean > 0.0).collect();
        (!values.is_empty()).then(|| values.iter().sum::<f64>() / values.len() as f64)
    };
    let (rate, length) = (mean(rate), mean(length));
    (rate.is_some() || length.is_some()).then(|| Acceptance {
        endpoint_url: url.clone(),
        rate,
        length,
        by_position: Vec::new(),
    })
}

/// Iterates over a statistic of the series of a metric of an endpoint, each with its position in a
/// draft if it has one.
fn values<'a>(
    report: &'a ServerMetricsReport,
    url: &'a ShownUrl,
    name: &'a str,
    statistic: &'a str,
) -> impl Iterator<Item = (Option<u64>, f64)> + 'a {
    let has_name = move |found: &str| found.strip_suffix("_total").unwrap_or(found) == name;
    let metrics = report.metrics.iter().filter(move |metric| has_name(&metric.name));
    let series = metrics.flat_map(|metric| &metric.series);
    series.filter(move |series| series.endpoint_url == *url).filter_map(move |series| {
        let position = series.labels.iter().find(|(label, _)| &**label == POSITION);
        let position = position.and_then(|(_, position)| position.parse().ok());
        Some((position, series.stats.named(statistic)?))
    })
}

#[cfg(test)]
mod tests;
