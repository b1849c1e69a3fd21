//! `gpu_telemetry_export.parquet`: a row for each GPU and scrape, with a column for each field.
//!
//! It is made of the lines, once the run has ended or a report is made: the fields of all GPUs are
//! known then, and nothing has to be kept in memory during the run.

use std::collections::{BTreeMap, BTreeSet};
use std::io::BufReader;
use std::path::{Path, PathBuf};

use parquet::errors::ParquetError;
use serde::Deserialize;

use base::input;
use base::input::lines::{LineFault, Lines};
use measure::gpu::fields::POWER;
use measure::gpu::identity::Gpu;
use measure::gpu::report::GpuReport;

use crate::artifacts::error::WriteFailure;
use crate::artifacts::open;
use crate::artifacts::parquet::Samples;
use crate::artifacts::table::{self, Cell, Column, Rows, TableWriter};
use crate::run::RunReport;

/// Maximum number of rows of a row group.
const MAX_ROWS: usize = 1 << 16;

/// Version of the columns and of the file's metadata.
const SCHEMA_VERSION: &str = "1.0";

/// Columns of text, in order, after the time and the index.
const TEXTS: [&str; 9] = [
    "telemetry_source_url",
    "platform",
    "hostname",
    "gpu_uuid",
    "gpu_model_name",
    "pci_bus_id",
    "device",
    "namespace",
    "pod_name",
];
const TIMESTAMP: &str = "timestamp_ns";
const INDEX: &str = "gpu_index";

/// A line of the samples.
#[derive(Deserialize)]
struct Line {
    #[serde(flatten)]
    gpu: Gpu,
    platform: String,
    timestamp_ns: u64,
    telemetry_source_url: String,
    telemetry_data: BTreeMap<String, f64>,
}

/// Replaces the file at `path` with the samples in the file `lines`.
pub(in crate::artifacts) fn write(
    path: &Path,
    lines: &Path,
    run: &RunReport,
    gpus: &GpuReport,
) -> Result<PathBuf, WriteFailure> {
    write_table(path, lines, run, gpus).map_err(|error| table::failure(path, error))
}

fn write_table(
    path: &Path,
    lines: &Path,
    run: &RunReport,
    gpus: &GpuReport,
) -> Result<PathBuf, ParquetError> {
    let mut fields = BTreeSet::new();
    each(lines, |line| {
        fields.extend(line.telemetry_data.into_keys());
        Ok(())
    })?;
    let columns = [Column::int(TIMESTAMP), Column::int(INDEX)].into_iter();
    let columns = columns.chain(TEXTS.map(Column::text));
    let columns = columns.chain(fields.iter().cloned().map(Column::double)).collect();
    let mut table = TableWriter::create(path, Rows::new("sample", columns))?;
    each(lines, |line| {
        let times = [Cell::int(line.timestamp_ns), Cell::int(line.gpu.gpu_index)];
        let numbers = fields.iter().map(|name| line.telemetry_data.get(name));
        let numbers = numbers.map(|number| Cell::any(number.copied(), Cell::Double));
        table.push(times.into_iter().chain(texts(&line)).chain(numbers), MAX_ROWS)
    })?;
    table.close(table::metadata(
        SCHEMA_VERSION,
        [
            ("aiperf.benchmark_id", run.run.benchmark_id.to_string()),
            ("aiperf.units", serde_json::to_string(&units(gpus)).unwrap_or_default()),
        ],
    ))
}

/// Returns the cells of the columns of text.
fn texts(Line { gpu, platform, telemetry_source_url, .. }: &Line) -> [Cell<'_>; TEXTS.len()] {
    [
        Some(telemetry_source_url),
        Some(platform),
        gpu.hostname.as_ref(),
        Some(&gpu.gpu_uuid),
        Some(&gpu.gpu_model_name),
        gpu.pci_bus_id.as_ref(),
        gpu.device.as_ref(),
        gpu.namespace.as_ref(),
        gpu.pod_name.as_ref(),
    ]
    .map(|text| Cell::any(text, Cell::text))
}

/// Passes each sample to `take`. A line that was not written to its end is left out.
fn each(
    lines: &Path,
    mut take: impl FnMut(Line) -> Result<(), ParquetError>,
) -> Result<(), ParquetError> {
    let lines = BufReader::new(open::decompressed(lines)?);
    let mut lines = Lines::new(lines, input::MAX_PART_BYTES);
    loop {
        match lines.next() {
            Ok(None) => return Ok(()),
            Ok(Some(line)) => {
                if let Ok(line) = serde_json::from_slice(line.bytes) {
                    take(line)?;
                }
            }
            Err(LineFault::TooLong { .. }) => {}
            Err(LineFault::Read(error)) => return Err(error.into()),
        }
    }
}

/// Returns the power of each GPU over time, in watts, from the file `lines`; nothing if there is none.
pub(in crate::artifacts) fn power(lines: &Path) -> Result<Vec<Samples>, ParquetError> {
    let mut gpus: BTreeMap<(String, u64, String), Samples> = BTreeMap::new();
    if !lines.exists() {
        return Ok(Vec::new());
    }
    each(lines, |line| {
        let mut known = POWER.iter().filter_map(|(_, tag)| line.telemetry_data.get(*tag));
        if let Some(watts) = known.next() {
            let gpu = (line.telemetry_source_url, line.gpu.gpu_index, line.gpu.gpu_uuid);
            gpus.entry(gpu).or_default().push((line.timestamp_ns, *watts));
        }
        Ok(())
    })?;
    Ok(gpus.into_values().collect())
}

/// Returns the units of the fields.
fn units(gpus: &GpuReport) -> BTreeMap<String, String> {
    let entries = gpus.exporters.iter().flat_map(|exporter| &exporter.gpus);
    let metrics = entries.flat_map(|entry| &entry.metrics);
    metrics.map(|metric| (metric.tag.to_string(), metric.unit.to_string())).collect()
}
