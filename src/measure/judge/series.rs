//! The series of server metrics that a gate limits.

use client::server_family::SeriesKind;

use super::gate::Series;
use crate::server_metrics::report::{MetricReport, SeriesReport};

/// The value of a series.
pub(super) struct SeriesValue<'a> {
    metric: &'a MetricReport,
    series: &'a SeriesReport,
    statistic: &'a str,
    pub(super) value: f64,
}

impl Series {
    /// Returns the value of each matching series; or why there is none.
    pub(super) fn find<'a>(
        &'a self,
        metrics: &'a [MetricReport],
    ) -> Result<Vec<SeriesValue<'a>>, String> {
        let has_name = |metric: &&MetricReport| {
            let is_counter = metric.kind == SeriesKind::Counter;
            *metric.name == *self.name
                || (is_counter && self.name.strip_suffix("_total") == Some(&*metric.name))
        };
        let metrics: Vec<&MetricReport> = metrics.iter().filter(has_name).collect();
        if metrics.is_empty() {
            return Err(format!("no server exposed {}", self.name));
        }
        let has_labels = |series: &SeriesReport| {
            let label = |name: &str| series.labels.iter().find(|(known, _)| **known == *name);
            // In Prometheus an empty label is the same as no label.
            self.labels.iter().all(|(name, value)| label(name).map_or("", |(_, own)| own) == value)
        };
        let all =
            metrics.iter().flat_map(|metric| metric.series.iter().map(move |one| (*metric, one)));
        let matching: Vec<_> = all.filter(|(_, series)| has_labels(series)).collect();
        if matching.is_empty() {
            return Err(format!("no series of {} has the labels", self.name));
        }
        let value = |(metric, series): &(&'a MetricReport, &'a SeriesReport)| {
            let value = series.stats.named(&self.statistic)?;
            Some(SeriesValue { metric, series, statistic: &self.statistic, value })
        };
        Ok(matching.iter().filter_map(value).collect())
    }
}

impl SeriesValue<'_> {
    /// Returns the unit, as far as it is known; rates and counts have none here.
    pub(super) fn unit(&self) -> Option<&str> {
        let is_plain = !matches!(self.statistic, "rate" | "count" | "count_rate" | "sum_rate");
        self.metric.unit.as_deref().filter(|_| is_plain)
    }

    /// Returns which of several series it is, and the reasons to doubt it.
    pub(super) fn note(&self, found: usize) -> Option<String> {
        let labels = self.series.labels.iter().map(|(name, value)| format!("{name}={value:?}"));
        let labels = labels.collect::<Vec<_>>().join(",");
        let which = (found > 1)
            .then(|| format!("of {found} series, {{{labels}}} at {}", self.series.endpoint_url));
        let doubts = self.series.stats.flags();
        let doubts = (!doubts.is_empty()).then(|| format!("doubtful: {}", doubts.join(", ")));
        let notes: Vec<String> = which.into_iter().chain(doubts).collect();
        (!notes.is_empty()).then(|| notes.join("; "))
    }
}
