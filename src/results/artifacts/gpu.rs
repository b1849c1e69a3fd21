//! GPU telemetry: `gpu_telemetry_export.jsonl`, and the sections of the summaries.

pub(super) mod table;

use std::collections::BTreeMap;
use std::io;
use std::path::{Path, PathBuf};

use serde::{Serialize, Serializer};
use serde_json::Number;

use base::redact::ShownUrl;
use base::setting::Named as _;
use measure::gpu::identity::Gpu;
use measure::gpu::report::{Exporter, GpuEntry, GpuMetric, GpuReport, Spread, display};
use measure::gpu::sample::GpuSample;
use measure::metrics::gpu::Energy;
use measure::server_metrics::Scrape;

use super::entry::{Average, Entry};
use super::error::{ArtifactError, WriteFailure};
use super::local_time::local_time;
use super::record_file::FLUSH_INTERVAL;
use super::sections::{Sections, number};
use super::sink::LineSink;

/// The file of samples, which is created with the first one.
#[derive(Debug)]
pub struct GpuLines {
    path: PathBuf,
    sink: Option<LineSink>,
    failure: Option<ArtifactError>,
    batch_size: usize,
    unflushed: usize,
    /// Time of the last sample that was flushed.
    flushed_ns: u64,
}

/// A sample of one GPU.
#[derive(Debug, Serialize)]
struct Line<'a> {
    #[serde(flatten)]
    gpu: &'a Gpu,
    platform: &'static str,
    timestamp_ns: u64,
    telemetry_source_url: &'a str,
    telemetry_data: BTreeMap<&'a str, Number>,
}

impl GpuLines {
    /// Creates a writer of the file `path`, which is flushed every `batch_size` lines and after a
    /// second.
    pub(super) fn new(path: &Path, batch_size: usize) -> Self {
        let path = path.to_owned();
        Self { path, sink: None, failure: None, batch_size, unflushed: 0, flushed_ns: 0 }
    }

    /// Appends a line for each GPU of a scrape, unless nothing has changed since the previous one.
    pub fn append(&mut self, scrape: &Scrape<'_>, samples: &[GpuSample]) {
        if scrape.is_duplicate {
            return;
        }
        for sample in samples {
            self.write(&line(sample, scrape));
        }
        let now = scrape.times.last_byte_ns;
        // Wall time may be set back.
        let is_due = now.abs_diff(self.flushed_ns) >= FLUSH_INTERVAL.0;
        if is_due || self.unflushed >= self.batch_size {
            self.flush();
            self.flushed_ns = now;
        }
    }

    fn write(&mut self, line: &io::Result<Vec<u8>>) {
        if self.sink.is_none() && self.failure.is_none() {
            match LineSink::create(&self.path) {
                Ok(sink) => self.sink = Some(sink),
                Err(error) => self.failure = Some(error),
            }
        }
        if let Some(sink) = &mut self.sink {
            sink.append(match line {
                Ok(line) => Ok(line.as_slice()),
                Err(error) => Err(io::Error::new(error.kind(), error.to_string())),
            });
            self.unflushed += 1;
        }
    }

    /// Passes appended lines to the operating system.
    pub fn flush(&mut self) {
        if let Some(sink) = self.sink.as_mut().filter(|_| self.unflushed > 0) {
            sink.flush();
            self.unflushed = 0;
        }
    }

    /// Flushes and closes the file; `None` without a sample.
    pub(super) fn finish(self) -> Option<Result<PathBuf, WriteFailure>> {
        let failure =
            |error: ArtifactError| WriteFailure { path: self.path, error: error.to_string() };
        let failed = self.failure.map(|error| Err(failure(error)));
        self.sink.map(LineSink::finish).or(failed)
    }
}

/// Returns the line of a sample in `scrape`, including its line feed.
fn line(sample: &GpuSample, scrape: &Scrape<'_>) -> io::Result<Vec<u8>> {
    let values = sample.values.iter();
    let values = values.filter_map(|(tag, value)| Some((&**tag, Number::from_f64(*value)?)));
    let mut line = serde_json::to_vec(&Line {
        gpu: &sample.gpu,
        platform: sample.vendor.name(),
        timestamp_ns: scrape.times.first_byte_ns,
        telemetry_source_url: &scrape.endpoint.url,
        telemetry_data: values.collect(),
    })?;
    line.push(b'\n');
    Ok(line)
}

/// `telemetry_data` of the summary.
#[derive(Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub(super) struct Section<'a> {
    summary: Summary<'a>,
    /// By host, or by URL if the host is not enough.
    endpoints: BTreeMap<String, OfExporter<'a>>,
    /// Always empty, as AIPerf's is without errors.
    error_summary: [(); 0],
}

#[derive(Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[cfg_attr(test, schemars(rename = "GpuSummary"))]
struct Summary<'a> {
    endpoints_configured: &'a [ShownUrl],
    endpoints_successful: Vec<&'a ShownUrl>,
    /// Start of the profiling phase in local time.
    start_time: String,
    /// End of the profiling phase in local time.
    end_time: String,
}

#[derive(Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[cfg_attr(test, schemars(rename = "GpuExporter"))]
struct OfExporter<'a> {
    gpus: Keyed<'a>,
}

/// GPUs by name, in their order.
#[cfg_attr(test, derive(schemars::JsonSchema))]
struct Keyed<'a>(
    #[cfg_attr(test, schemars(with = "BTreeMap<String, OfGpu<'a>>"))] Vec<(String, OfGpu<'a>)>,
);

impl Serialize for Keyed<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_map(self.0.iter().map(|(key, gpu)| (key, gpu)))
    }
}

#[derive(Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[cfg_attr(test, schemars(rename = "Gpu"))]
struct OfGpu<'a> {
    /// Its index on its host.
    gpu_index: u64,
    /// Its model.
    gpu_name: &'a str,
    gpu_uuid: &'a str,
    platform: &'static str,
    hostname: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    namespace: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pod_name: Option<&'a str>,
    metrics: Metrics<'a>,
    #[serde(skip_serializing_if = "Option::is_none")]
    energy: Option<&'a Energy>,
    /// Its power before the load.
    #[serde(skip_serializing_if = "Option::is_none")]
    idle_watts: Option<f64>,
}

/// The fields of a GPU, by name.
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[cfg_attr(test, schemars(rename = "GpuMetrics"))]
struct Metrics<'a>(
    #[cfg_attr(test, schemars(with = "BTreeMap<String, Entry<'a>>"))] &'a [GpuMetric],
);

impl Serialize for Metrics<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_map(self.0.iter().map(|metric| (&metric.tag, entry(metric))))
    }
}

impl<'a> Section<'a> {
    pub(super) fn from_report(report: &'a GpuReport) -> Self {
        let exporters = report.exporters.iter();
        Self {
            summary: Summary {
                endpoints_configured: &report.configured,
                endpoints_successful: exporters.clone().map(|one| &one.url).collect(),
                start_time: local_time(report.window.start_ns),
                end_time: local_time(report.window.end_ns),
            },
            endpoints: exporters
                .map(|one| (display(&one.url), OfExporter::from_exporter(one)))
                .collect(),
            error_summary: [],
        }
    }
}

impl<'a> OfExporter<'a> {
    fn from_exporter(exporter: &'a Exporter) -> Self {
        let mut keyed: Vec<(String, OfGpu<'_>)> = Vec::new();
        for entry in &exporter.gpus {
            let key = format!("gpu_{}", entry.gpu.gpu_index);
            let is_taken = keyed.iter().any(|(known, _)| *known == key);
            // An exporter may report the GPUs of several hosts.
            let key = if is_taken { format!("{key}_{}", entry.gpu.gpu_uuid) } else { key };
            keyed.push((key, OfGpu::from_entry(entry)));
        }
        Self { gpus: Keyed(keyed) }
    }
}

impl<'a> OfGpu<'a> {
    fn from_entry(entry: &'a GpuEntry) -> Self {
        let gpu = &entry.gpu;
        Self {
            gpu_index: gpu.gpu_index,
            gpu_name: &gpu.gpu_model_name,
            gpu_uuid: &gpu.gpu_uuid,
            platform: entry.vendor.name(),
            hostname: gpu.hostname.as_deref(),
            namespace: gpu.namespace.as_deref(),
            pod_name: gpu.pod_name.as_deref(),
            metrics: Metrics(&entry.metrics),
            energy: entry.energy.as_ref(),
            idle_watts: entry.idle_watts,
        }
    }
}

/// Returns the statistics of a field.
fn entry(metric: &GpuMetric) -> Entry<'_> {
    let GpuMetric { unit, avg, spread, .. } = metric;
    let known = Entry { unit, avg: Some(Average::Number(*avg)), ..Entry::default() };
    let Some(Spread { min, max, std, percentiles, count, sum }) = *spread else { return known };
    let [p1, p5, p10, p25, p50, p75, p90, p95, p99] = percentiles.map(Some);
    let [min, max, std, sum] = [min, max, std, sum].map(Some);
    let count = Some(count);
    Entry { p1, p5, p10, p25, p50, p75, p90, p95, p99, min, max, std, count, sum, ..known }
}

/// The columns of the section of the CSV before the statistics.
const COLUMNS: [&str; 6] = ["Endpoint", "GPU_Index", "GPU_Name", "GPU_UUID", "Platform", "Metric"];

/// Returns a label of a GPU.
type GpuLabel = fn(&Gpu) -> Option<&String>;

/// The columns that are only written if a GPU has a value.
const PLACES: [(&str, GpuLabel); 3] = [
    ("Hostname", |gpu| gpu.hostname.as_ref()),
    ("Namespace", |gpu| gpu.namespace.as_ref()),
    ("Pod Name", |gpu| gpu.pod_name.as_ref()),
];

/// Appends the section of the CSV, after two empty lines.
pub(super) fn write_csv(sections: &mut Sections<'_>, report: &GpuReport) -> io::Result<()> {
    let entries = || {
        report.exporters.iter().flat_map(|exporter| {
            let name = display(&exporter.url);
            exporter.gpus.iter().map(move |entry| (name.clone(), entry))
        })
    };
    let has = |get: GpuLabel| entries().any(|(_, entry)| get(&entry.gpu).is_some());
    let places: Vec<_> = PLACES.into_iter().filter(|(_, get)| has(*get)).collect();
    let names = places.iter().map(|(name, _)| *name);
    let header = COLUMNS.into_iter().chain(super::csv::STATISTICS).chain(names);
    let rows = entries().flat_map(|(name, entry)| {
        let places = &places;
        entry.metrics.iter().map(move |metric| {
            let gpu = &entry.gpu;
            let mut row = vec![
                name.clone(),
                gpu.gpu_index.to_string(),
                gpu.gpu_model_name.clone(),
                gpu.gpu_uuid.clone(),
                entry.vendor.name().to_owned(),
                format!("{} ({})", metric.title, metric.unit),
            ];
            row.extend(statistics(metric));
            row.extend(places.iter().map(|(_, get)| get(gpu).cloned().unwrap_or_default()));
            row
        })
    });
    let rows: Vec<Vec<String>> = rows.collect();
    if rows.is_empty() {
        return Ok(());
    }
    sections.write_empty_line()?;
    sections.write(header.map(str::to_owned), rows.into_iter())
}

/// Returns the statistics in the order of the columns.
fn statistics(metric: &GpuMetric) -> Vec<String> {
    let GpuMetric { avg, spread, .. } = metric;
    // A megajoule is so much that two decimals would always be zero.
    let shown = |value: f64| {
        if &*metric.unit == "MJ" { format!("{value:.9}") } else { number(value) }
    };
    let mut row = vec![shown(*avg)];
    match spread {
        None => row.resize(super::csv::STATISTICS.len(), String::new()),
        Some(Spread { min, max, std, percentiles, sum, .. }) => {
            row.extend([min, max, sum].map(|value| shown(*value)));
            row.extend(percentiles.map(shown));
            row.push(shown(*std));
        }
    }
    row
}
