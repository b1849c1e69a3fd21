//! The statistics of GPUs over the profiling phase.

use std::sync::Arc;

use serde::{Deserialize, Serialize};
use url::Url;

use base::redact::ShownUrl;
use base::statistics::percentile::{exact_sum, percentile};
use client::schedule::PhaseKind;

use super::doubts;
use super::energy::{self, Sample};
use super::fields::{ENERGY, Field, Fields, JOULES, MAX_WATTS, POWER, Summary};
use super::identity::Gpu;
use super::series::GpuSeries;
use crate::metrics::gpu::{Energy, Fleet, Vendor};
use crate::metrics::health::Reason;
use crate::server_metrics::report::{PERCENTILES, Window, Windows};
use crate::server_metrics::scrape::FetchTimes;
use crate::server_metrics::store::{EndpointStore, Store};

/// Error of the power and of the energy that sensors measure, as a share: NVIDIA states 5 % for each.
const SENSOR_ERROR: f64 = 0.1;

/// The telemetry of GPUs in the profiling phase.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct GpuReport {
    /// Whether the user asked for it, so that tables are printed.
    pub is_asked: bool,
    /// The profiling phase.
    pub window: Window,
    /// The URLs of exporters that were configured by the user, or that responded.
    pub configured: Vec<ShownUrl>,
    /// The exporters that responded.
    pub exporters: Vec<Exporter>,
    /// The GPUs of each vendor.
    pub fleets: Vec<Fleet>,
    /// Reasons why the results may not be those of healthy GPUs.
    pub doubts: Vec<Reason>,
}

/// An exporter and its GPUs.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Exporter {
    /// Its URL without credentials.
    pub url: ShownUrl,
    /// Its GPUs, by index.
    pub gpus: Vec<GpuEntry>,
}

/// The statistics of one GPU.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct GpuEntry {
    #[serde(flatten)]
    pub gpu: Gpu,
    pub vendor: Vendor,
    /// Its fields, in the order of tables.
    pub metrics: Vec<GpuMetric>,
    /// Its energy in the phase, if it can be determined.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub energy: Option<Energy>,
    /// Its mean power before the first request, in watts.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub idle_watts: Option<f64>,
}

/// A field of a GPU.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct GpuMetric {
    pub tag: Arc<str>,
    pub title: Arc<str>,
    pub unit: Arc<str>,
    /// Mean; the increase of a counter; the last sample of a code.
    pub avg: f64,
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub spread: Option<Spread>,
}

/// Statistics of samples, each with the same weight.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Spread {
    pub min: f64,
    pub max: f64,
    /// Sample standard deviation (ddof 1); 0 for a single sample.
    pub std: f64,
    /// The values at each of [`PERCENTILES`], by numpy's linear method.
    pub percentiles: [f64; 9],
    pub count: u64,
    pub sum: f64,
}

/// The statistics of `store`; `None` if the run did not reach the profiling phase.
/// `discovered` are the URLs that the user did not name, which are left out unless they responded.
#[must_use]
pub fn build(
    store: &Store,
    fields: &Fields,
    windows: &Windows,
    discovered: &[ShownUrl],
    is_asked: bool,
) -> Option<GpuReport> {
    let window = windows.profiling?;
    let mut doubts = Vec::new();
    let mut exporters = Vec::new();
    for endpoint in store.endpoints() {
        let phase = Phase::new(endpoint, windows, window);
        let series = GpuSeries::all(endpoint, fields);
        let name = display(&endpoint.url);
        for gpu in &series {
            doubts.extend(doubts::doubts(gpu, fields, &phase, &name));
        }
        let gpus: Vec<_> = series.iter().map(|gpu| phase.entry(gpu, fields)).collect();
        if !gpus.is_empty() {
            exporters.push(Exporter { url: endpoint.url.clone(), gpus });
        }
    }
    let responded = |url: &ShownUrl| exporters.iter().any(|exporter| exporter.url == *url);
    let urls = store.endpoints().iter().map(|endpoint| endpoint.url.clone());
    let configured = urls.filter(|url| !discovered.contains(url) || responded(url)).collect();
    let fleets = fleets(&exporters, window);
    Some(GpuReport { is_asked, window, configured, exporters, fleets, doubts })
}

/// Returns whether the energy of every GPU at the end of the last phase can be determined as
/// exactly as its exporter permits.
#[must_use]
pub fn is_settled(store: &Store, fields: &Fields, end_ns: u64) -> bool {
    store.endpoints().iter().all(|endpoint| {
        let times = endpoint.scrapes();
        GpuSeries::all(endpoint, fields).iter().all(|gpu| {
            let samples = samples_of(gpu, fields, times, &ENERGY, JOULES);
            samples.is_empty() || energy::is_known_at(&samples, end_ns)
        })
    })
}

/// Returns whether an exporter reports a GPU.
#[must_use]
pub fn has_any(store: &Store, fields: &Fields) -> bool {
    store.endpoints().iter().any(|endpoint| !GpuSeries::all(endpoint, fields).is_empty())
}

/// Returns the host, port and path of an exporter, without `/metrics`.
#[must_use]
pub fn display(url: &str) -> String {
    let Ok(parsed) = Url::parse(url) else { return url.to_owned() };
    let path = parsed.path();
    let path = path.strip_suffix("/metrics").unwrap_or(path);
    format!("{}{}", parsed.authority(), path.trim_end_matches('/'))
}

/// The scrapes of an exporter in the profiling phase.
pub(super) struct Phase<'a> {
    pub(super) times: &'a [FetchTimes],
    pub(super) window: Window,
    /// The scrape that counters are compared with.
    pub(super) reference: Option<usize>,
    pub(super) samples: std::ops::Range<usize>,
    /// Number of scrapes before the first phase.
    idle: usize,
}

impl<'a> Phase<'a> {
    fn new(endpoint: &'a EndpointStore, windows: &Windows, window: Window) -> Self {
        let times = endpoint.scrapes();
        let begin = windows.warmup.map_or(window.start_ns, |warmup| warmup.start_ns);
        let idle = times.partition_point(|scrape| scrape.first_byte_ns <= begin);
        let span = endpoint.span(windows, PhaseKind::Profiling);
        let (reference, samples) = span.map_or((None, 0..0), |span| (span.reference, span.samples));
        Self { times, window, reference, samples, idle }
    }

    fn entry(&self, gpu: &GpuSeries<'_>, fields: &Fields) -> GpuEntry {
        let shown = fields.iter().enumerate().filter(|(_, field)| field.is_shown);
        let metrics = shown.filter_map(|(index, field)| {
            self.metric(field, &gpu.values((index, field), self.times.len())?)
        });
        let power = samples_of(gpu, fields, self.times, &POWER, 1.0);
        GpuEntry {
            gpu: gpu.gpu.clone(),
            vendor: gpu.vendor,
            metrics: metrics.collect(),
            energy: self.energy(gpu, fields),
            idle_watts: self.idle_watts(&power),
        }
    }

    /// Returns the energy by the counter of the GPU, or else by its power. If the two contradict each
    /// other, the range has both.
    fn energy(&self, gpu: &GpuSeries<'_>, fields: &Fields) -> Option<Energy> {
        let counted = self.counted_energy(gpu, fields).filter(|energy| self.is_possible(energy));
        let by_power = || self.energy_by_power(gpu, fields);
        match (counted, self.contradiction(gpu, fields)) {
            (Some(counted), Some([_, other])) => Some(Energy {
                min_joules: counted.min_joules.min(other.min_joules),
                max_joules: counted.max_joules.max(other.max_joules),
                ..counted
            }),
            (counted, _) => counted.or_else(by_power),
        }
    }

    fn energy_by_power(&self, gpu: &GpuSeries<'_>, fields: &Fields) -> Option<Energy> {
        energy::by_power(&samples_of(gpu, fields, self.times, &POWER, 1.0), self.window)
    }

    /// Returns the energy by the counter and by the power, if their ranges are further from each other
    /// than sensors are inexact.
    pub(super) fn contradiction(
        &self,
        gpu: &GpuSeries<'_>,
        fields: &Fields,
    ) -> Option<[Energy; 2]> {
        let counted = self.counted_energy(gpu, fields).filter(|energy| self.is_possible(energy))?;
        let by_power = self.energy_by_power(gpu, fields)?;
        let gap = (counted.min_joules - by_power.max_joules)
            .max(by_power.min_joules - counted.max_joules);
        let largest = counted.joules.max(by_power.joules);
        (gap > SENSOR_ERROR * largest).then_some([counted, by_power])
    }

    /// Returns the energy by the counter of the GPU, if it has one.
    pub(super) fn counted_energy(&self, gpu: &GpuSeries<'_>, fields: &Fields) -> Option<Energy> {
        let joules = samples_of(gpu, fields, self.times, &ENERGY, JOULES);
        energy::by_counter(&joules, self.window)
    }

    /// Returns whether a GPU can use this much energy in the phase.
    pub(super) fn is_possible(&self, energy: &Energy) -> bool {
        let Window { start_ns, end_ns } = self.window;
        energy.joules <= MAX_WATTS * end_ns.saturating_sub(start_ns) as f64 / 1e9
    }

    fn idle_watts(&self, power: &[Sample]) -> Option<f64> {
        let until = self.times.get(self.idle.checked_sub(1)?)?.first_byte_ns;
        let idle = power.partition_point(|sample| sample.at_ns <= until);
        mean(power[..idle].iter().map(|sample| sample.value))
    }

    /// Returns the statistics of a field with `values` at each scrape; `None` without a value in the
    /// phase.
    fn metric(&self, field: &Field, values: &[f64]) -> Option<GpuMetric> {
        let within: Vec<f64> =
            values.get(self.samples.clone())?.iter().copied().filter(|v| !v.is_nan()).collect();
        let (first, last) = (*within.first()?, *within.last()?);
        let (avg, spread) = match field.summary {
            Summary::Distribution => {
                let spread = Spread::from_values(&within)?;
                (spread.sum / spread.count as f64, Some(spread))
            }
            Summary::Increase => {
                let before = self.reference.and_then(|reference| {
                    values[..=reference].iter().rev().copied().find(|v| !v.is_nan())
                });
                ((last - before.unwrap_or(first)).max(0.0), None)
            }
            Summary::Last => (last, None),
        };
        let (tag, title, unit) = (&field.tag, &field.title, &field.unit);
        Some(GpuMetric {
            tag: Arc::clone(tag),
            title: Arc::clone(title),
            unit: Arc::clone(unit),
            avg,
            spread,
        })
    }
}

/// Returns the samples of the vendor's field among `tags`, each multiplied by `scale`.
fn samples_of(
    gpu: &GpuSeries<'_>,
    fields: &Fields,
    times: &[FetchTimes],
    tags: &[(Vendor, &str)],
    scale: f64,
) -> Vec<Sample> {
    let tag = tags.iter().find(|(vendor, _)| *vendor == gpu.vendor).map(|(_, tag)| *tag);
    let field = fields.iter().enumerate().find(|(_, field)| Some(&*field.tag) == tag);
    let values = field.and_then(|field| gpu.values(field, times.len())).unwrap_or_default();
    let all = times.iter().zip(values).filter(|(_, value)| !value.is_nan());
    all.map(|(times, value)| Sample {
        requested_ns: times.request_sent_ns,
        at_ns: times.first_byte_ns,
        value: value * scale,
    })
    .collect()
}

impl Spread {
    fn from_values(values: &[f64]) -> Option<Self> {
        let mut ascending = values.to_vec();
        ascending.sort_unstable_by(f64::total_cmp);
        let (min, max) = (*ascending.first()?, *ascending.last()?);
        let count = values.len();
        let sum = exact_sum(values.iter().copied());
        let average = sum / count as f64;
        let squares = exact_sum(values.iter().map(|value| (value - average).powi(2)));
        let std = if count > 1 { (squares / (count - 1) as f64).sqrt() } else { 0.0 };
        let percentiles =
            PERCENTILES.map(|percent| percentile(&ascending, percent.into()).unwrap_or(max));
        Some(Self { min, max, std, percentiles, count: count as u64, sum })
    }
}

fn mean(values: impl Iterator<Item = f64> + Clone) -> Option<f64> {
    let count = values.clone().count();
    (count > 0).then(|| exact_sum(values) / count as f64)
}

/// Returns the sums over the GPUs of each vendor. A sum is absent unless every GPU has a value.
fn fleets(exporters: &[Exporter], window: Window) -> Vec<Fleet> {
    let power = |entry: &GpuEntry| {
        let tag = POWER.iter().find(|(vendor, _)| *vendor == entry.vendor).map(|(_, tag)| *tag);
        entry.metrics.iter().find(|metric| Some(&*metric.tag) == tag).map(|metric| metric.avg)
    };
    let fleet = |vendor: Vendor| {
        let mut gpus: Vec<&GpuEntry> = Vec::new();
        for entry in exporters.iter().flat_map(|exporter| &exporter.gpus) {
            // Two exporters may report the same GPU.
            let is_again = |known: &&GpuEntry| known.gpu.gpu_uuid == entry.gpu.gpu_uuid;
            let is_unknown = entry.gpu.gpu_uuid.starts_with("unknown-");
            if entry.vendor == vendor && (is_unknown || !gpus.iter().any(is_again)) {
                gpus.push(entry);
            }
        }
        let energies: Option<Vec<Energy>> = gpus.iter().map(|entry| entry.energy).collect();
        (!gpus.is_empty()).then(|| Fleet {
            vendor,
            gpus: gpus.len() as u64,
            seconds: window.end_ns.saturating_sub(window.start_ns) as f64 / 1e9,
            energy: energies.and_then(|all| all.into_iter().reduce(Energy::and)),
            power_watts: gpus.iter().map(|entry| power(entry)).sum(),
            idle_watts: gpus.iter().map(|entry| entry.idle_watts).sum(),
        })
    };
    [Vendor::Nvidia, Vendor::Amd].into_iter().filter_map(fleet).collect()
}
