//! Important metrics of the servers, which show their load and speed.

use std::collections::BTreeSet;

use client::server_family::SeriesKind;
use client::server_family::{self, InServer, ServerFamily, Watched};

use super::report::{MetricReport, SeriesReport, ServerMetricsReport};
use super::snapshot::{Family, Snapshot, Value};

/// An important metric that is in a report.
#[derive(Debug, Clone, Copy)]
pub struct WatchedMetric<'a> {
    /// The entry in the list of metrics.
    pub watched: &'static Watched,
    pub metric: &'a MetricReport,
}

impl<'a> WatchedMetric<'a> {
    /// Returns each series with the value of the statistic, in descending order. Left out are
    /// series without a value, and those of a counter that did not increase at an endpoint where
    /// others did: they belong to earlier loads, or to errors that did not occur.
    #[must_use]
    pub fn values(&self) -> Vec<(&'a SeriesReport, f64)> {
        let value = |series: &'a SeriesReport| {
            Some((series, series.stats.named(self.watched.statistic.name())?))
        };
        let mut values: Vec<_> = self.metric.series.iter().filter_map(value).collect();
        if self.watched.kind == SeriesKind::Counter {
            let rose = values.iter().filter(|(_, value)| *value > 0.0);
            let busy: BTreeSet<_> = rose.map(|(series, _)| &series.endpoint_url).collect();
            values.retain(|(series, value)| *value > 0.0 || !busy.contains(&series.endpoint_url));
        }
        values.sort_by(|a, b| b.1.total_cmp(&a.1));
        values
    }
}

/// Returns the families whose important metrics are in `report`, with these metrics, for the profiling
/// phase.
#[must_use]
pub fn families(
    report: &ServerMetricsReport,
) -> Vec<(&'static ServerFamily, Vec<WatchedMetric<'_>>)> {
    let found = |family: &'static ServerFamily| {
        let watched = family.watched.iter();
        let found: Vec<_> = watched.filter_map(|watched| find(report, watched)).collect();
        (!found.is_empty()).then_some((family, found))
    };
    server_family::ALL.iter().copied().filter_map(found).collect()
}

/// Returns the mean numbers of requests that ran and that waited in the servers, if they count both.
#[must_use]
pub fn in_servers(report: &ServerMetricsReport) -> Option<[f64; 2]> {
    let families = families(report);
    let sum = |place| -> Option<f64> {
        let mut metrics = families.iter().flat_map(|(_, metrics)| metrics);
        let found = metrics.find(|shown| shown.watched.counts == Some(place))?;
        found.metric.series.iter().map(|series| series.stats.named("avg")).sum()
    };
    Some([sum(InServer::Running)?, sum(InServer::Waiting)?])
}

/// The latest value of an important gauge.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct LiveGauge {
    /// The entry in the list of metrics.
    pub watched: &'static Watched,
    /// The highest value of its series.
    pub value: f64,
    pub series: usize,
}

impl LiveGauge {
    /// Returns the important gauges of a scrape, in the order in which to read them.
    #[must_use]
    pub fn all(snapshot: &Snapshot<'_>) -> Vec<Self> {
        let watched = server_family::ALL.iter().flat_map(|family| family.watched);
        let gauges = watched.filter(|watched| watched.kind == SeriesKind::Gauge);
        let named = |name: &str| {
            let mut families = snapshot.families.iter();
            families.find(|family| *family.name == *name && family.kind == SeriesKind::Gauge)
        };
        let found = |watched: &'static Watched| {
            let family = named(watched.name).or_else(|| named(watched.earlier?))?;
            Some(Self { watched, value: highest(family)?, series: family.series.len() })
        };
        gauges.filter_map(found).collect()
    }

    /// Combines the gauges of several servers.
    #[must_use]
    pub fn combined<'a>(servers: impl Iterator<Item = &'a Vec<Self>>) -> Vec<Self> {
        let mut all: Vec<Self> = Vec::new();
        for gauge in servers.flatten() {
            match all.iter_mut().find(|known| known.watched == gauge.watched) {
                Some(known) => {
                    known.value = known.value.max(gauge.value);
                    known.series += gauge.series;
                }
                None => all.push(*gauge),
            }
        }
        all
    }
}

fn highest(family: &Family<'_>) -> Option<f64> {
    let value = |value: &Value<'_>| match value {
        Value::Number(number) => Some(*number),
        _ => None,
    };
    family.series.iter().filter_map(|point| value(&point.value)).reduce(f64::max)
}

fn find<'a>(
    report: &'a ServerMetricsReport,
    watched: &'static Watched,
) -> Option<WatchedMetric<'a>> {
    let named = |name: &str| {
        let mut metrics = report.metrics.iter();
        metrics.find(|metric| {
            *metric.name == *name && metric.kind == watched.kind && !metric.series.is_empty()
        })
    };
    let metric = named(watched.name).or_else(|| named(watched.earlier?))?;
    Some(WatchedMetric { watched, metric })
}

#[cfg(test)]
mod tests;
