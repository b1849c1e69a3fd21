//! Computes the statistics of stored series.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::sync::Arc;

use base::redact::ShownUrl;
use base::statistics::percentile::percentile;
use base::units::Nanos;
use client::schedule::PhaseKind;

use crate::metrics::breakdown::PhaseTimes;

use client::server_family::SeriesKind;

use super::super::statistics::Phase;
use super::super::store::{EndpointStore, FamilyStore, Store};
use super::super::unit;
use super::{
    Edges, EndpointInfo, MetricReport, PhaseWindow, SeriesReport, ServerMetricsReport, Summary,
    Window, Windows,
};

/// Computes the statistics of `store` for each phase, and for slices of `slice_duration` if it is
/// given.
#[must_use]
pub fn build(
    store: &Store,
    windows: Windows,
    slice_duration: Option<Nanos>,
) -> ServerMetricsReport {
    let window_of = |kind| {
        let window = windows.around(kind);
        window.map_or_else(Vec::new, |window| metrics(store, window, slice_duration))
    };
    ServerMetricsReport {
        summary: summary(store, windows),
        metrics: window_of(PhaseKind::Profiling),
        warmup_metrics: window_of(PhaseKind::Warmup),
        phases: Vec::new(),
    }
}

/// Computes the statistics of each phase of a run, which `phases` has in order.
#[must_use]
pub(super) fn of_phases(store: &Store, phases: &[PhaseTimes]) -> Vec<Vec<MetricReport>> {
    let window = |at: usize| {
        let PhaseTimes { start_wall_ns, end_wall_ns } = *phases.get(at)?;
        Some(Window { start_ns: start_wall_ns, end_ns: end_wall_ns })
    };
    let metric_at = |at: usize| {
        let before = at.checked_sub(1).and_then(window);
        let window = PhaseWindow { before, own: window(at)?, after: window(at + 1) };
        Some(metrics(store, window, None))
    };
    (0..).map_while(metric_at).collect()
}

/// Returns a key for each of `metrics`, which are sorted by name: the name, followed by the kind in
/// parentheses for all but the first metric of that name.
#[must_use]
pub fn keys(metrics: &[MetricReport]) -> Vec<Cow<'_, str>> {
    let mut before = None;
    let key = |metric: &'_ MetricReport| -> Option<String> {
        let is_second = before.replace(Arc::clone(&metric.name)).as_ref() == Some(&metric.name);
        let kind = || format!("{:?}", metric.kind).to_lowercase();
        is_second.then(|| format!("{} ({})", metric.name, kind()))
    };
    let names = metrics.iter().map(|metric| Cow::Borrowed(&*metric.name));
    let others: Vec<Option<String>> = metrics.iter().map(key).collect();
    names.zip(others).map(|(name, other)| other.map_or(name, Cow::Owned)).collect()
}

fn summary(store: &Store, windows: Windows) -> Summary {
    let endpoints = store.endpoints();
    let info: Vec<(ShownUrl, EndpointInfo)> = endpoints
        .iter()
        .filter_map(|endpoint| Some((endpoint.url.clone(), endpoint_info(endpoint, &windows)?)))
        .collect();
    Summary {
        endpoints_configured: endpoints
            .iter()
            .map(|endpoint| endpoint.configured_url.clone())
            .collect(),
        endpoints_successful: info.iter().map(|(url, _)| url.clone()).collect(),
        endpoint_info: info,
        windows,
    }
}

/// Returns how `endpoint` was scraped; `None` if it never exposed metrics.
#[must_use]
pub(super) fn endpoint_info(endpoint: &EndpointStore, windows: &Windows) -> Option<EndpointInfo> {
    let scrapes = endpoint.scrapes();
    let (first, last) = (scrapes.first()?, scrapes.last()?);
    let latencies: f64 = scrapes.iter().map(|times| Nanos(times.latency_ns()).as_millis()).sum();
    let updates = update_times(endpoint);
    let (first_update_ns, last_update_ns) = (*updates.first()?, *updates.last()?);
    let duration = Nanos(last_update_ns.saturating_sub(first_update_ns));
    let intervals = updates.len().saturating_sub(1).max(1) as f64;
    Some(EndpointInfo {
        total_fetches: scrapes.len() as u64,
        first_fetch_ns: first.first_byte_ns,
        last_fetch_ns: last.first_byte_ns,
        avg_fetch_latency_ms: latencies / scrapes.len() as f64,
        unique_updates: updates.len() as u64,
        first_update_ns,
        last_update_ns,
        duration_seconds: duration.as_seconds(),
        avg_update_interval_ms: duration.as_millis() / intervals,
        median_update_interval_ms: median_update_interval_ns(endpoint).map(|median| median / 1e6),
        failed_fetches: endpoint.failures(),
        profiling: edges(endpoint, windows),
    })
}

fn edges(endpoint: &EndpointStore, windows: &Windows) -> Option<Edges> {
    let span = endpoint.span(windows, PhaseKind::Profiling)?;
    let time = |scrape: usize| endpoint.scrapes().get(scrape).map(|times| times.first_byte_ns);
    Some(Edges {
        reference_ns: span.reference.and_then(time),
        final_ns: span.last().and_then(time),
        has_exact_start: span.has_exact_start,
        has_exact_end: span.has_exact_end,
    })
}

/// Returns the median time between scrapes with new values; `None` with fewer than two intervals.
pub(in super::super) fn median_update_interval_ns(endpoint: &EndpointStore) -> Option<f64> {
    median_interval_ns(&update_times(endpoint))
}

/// Returns the median time between ascending `times`; `None` with fewer than two intervals.
pub(in super::super) fn median_interval_ns(times: &[u64]) -> Option<f64> {
    let interval = |pair: &[u64]| pair[1].saturating_sub(pair[0]) as f64;
    let mut intervals: Vec<f64> = times.windows(2).map(interval).collect();
    intervals.sort_unstable_by(f64::total_cmp);
    if intervals.len() < 2 { None } else { percentile(&intervals, 50.0) }
}

/// Returns the times of scrapes with new values.
pub(in super::super) fn update_times(endpoint: &EndpointStore) -> Vec<u64> {
    let scrapes = endpoint.scrapes();
    let updates = endpoint.updates().iter();
    updates.filter_map(|update| Some(scrapes.get(*update as usize)?.first_byte_ns)).collect()
}

fn metrics(store: &Store, window: PhaseWindow, slice_duration: Option<Nanos>) -> Vec<MetricReport> {
    let mut metrics: BTreeMap<(Arc<str>, SeriesKind), Gathered> = BTreeMap::new();
    for endpoint in store.endpoints() {
        let phase = Phase::new(endpoint, window, slice_duration);
        for family in &endpoint.families {
            let series = series(endpoint, family, &phase);
            if !series.is_empty() {
                metrics
                    .entry((Arc::clone(&family.name), family.kind))
                    .or_default()
                    .add(family, series);
            }
        }
    }
    metrics.into_iter().map(|((name, kind), gathered)| gathered.metric(name, kind)).collect()
}

fn series(endpoint: &EndpointStore, family: &FamilyStore, phase: &Phase<'_>) -> Vec<SeriesReport> {
    let report = |series: &super::super::store::Series| {
        Some(SeriesReport {
            endpoint_url: endpoint.url.clone(),
            labels: Arc::clone(&series.labels),
            stats: phase.statistics(family.kind, &series.values)?,
        })
    };
    family.series.iter().filter_map(report).collect()
}

/// A metric of all endpoints. The first declaration applies.
#[derive(Default)]
struct Gathered {
    description: Option<Arc<str>>,
    unit: Option<Arc<str>>,
    series: Vec<SeriesReport>,
}

impl Gathered {
    fn add(&mut self, family: &FamilyStore, series: Vec<SeriesReport>) {
        self.description = self.description.take().or_else(|| family.description.clone());
        self.unit = self.unit.take().or_else(|| family.unit.clone());
        self.series.extend(series);
    }

    fn metric(mut self, name: Arc<str>, kind: SeriesKind) -> MetricReport {
        self.series.sort_by(|a, b| (&a.endpoint_url, &a.labels).cmp(&(&b.endpoint_url, &b.labels)));
        let description = self.description.unwrap_or_default();
        let unit = self.unit.or_else(|| unit::infer(&name, kind, &description).map(Arc::from));
        MetricReport { name, kind, description, unit, series: self.series }
    }
}
