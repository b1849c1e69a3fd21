//! `gpu_telemetry_export.parquet`: a row for each GPU and scrape, with a column for each field.
//!
//! It is made of the lines, once the run has ended or a report is made: the fields of all GPUs are
//! known then, and nothing has to be kept in memory during the run.

use std::collections::{BTreeMap, BTreeSet};
use std::io::{BufReader, Write as _};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use parquet::data_type::ByteArray;
use parquet::errors::ParquetError;
use parquet::file::metadata::KeyValue;
use parquet::file::writer::SerializedFileWriter;
use parquet::schema::types::{Type, TypePtr};
use serde::Deserialize;
use tempfile::NamedTempFile;

use crate::artifacts::error::WriteFailure;
use crate::artifacts::parquet::{FlatColumn, properties};
use crate::artifacts::{open, replace};
use crate::gpu::identity::Gpu;
use crate::gpu::report::GpuReport;
use crate::input;
use crate::input::lines::{LineFault, Lines};
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
    let failure = |error: ParquetError| WriteFailure {
        path: path.to_owned(),
        error: match error {
            // Only the cause, since the user knows that it is a file.
            ParquetError::External(cause) => cause.to_string(),
            other => other.to_string(),
        },
    };
    write_table(path, lines, run, gpus).map(|()| path.to_owned()).map_err(failure)
}

fn write_table(
    path: &Path,
    lines: &Path,
    run: &RunReport,
    gpus: &GpuReport,
) -> Result<(), ParquetError> {
    let mut fields = BTreeSet::new();
    each(lines, |line| {
        fields.extend(line.telemetry_data.into_keys());
        Ok(())
    })?;
    let units = units(gpus);
    let mut rows = Rows::new(fields);
    let schema = rows.schema()?;
    let file = replace::beside(path)?;
    let mut writer = SerializedFileWriter::new(file, Arc::clone(&schema), properties())?;
    each(lines, |line| {
        rows.push(line);
        if rows.count() < MAX_ROWS { Ok(()) } else { rows.write(&mut writer) }
    })?;
    if rows.count() > 0 {
        rows.write(&mut writer)?;
    }
    let about = [
        ("aiperf.schema_version".to_owned(), SCHEMA_VERSION.to_owned()),
        ("aiperf.version".to_owned(), env!("CARGO_PKG_VERSION").to_owned()),
        ("aiperf.benchmark_id".to_owned(), run.run.benchmark_id.to_string()),
        ("aiperf.units".to_owned(), serde_json::to_string(&units).unwrap_or_default()),
    ];
    for (key, value) in about {
        writer.append_key_value_metadata(KeyValue::new(key, value));
    }
    let mut file = writer.into_inner()?;
    file.flush()?;
    file.persist(path).map_err(|error| error.error)?;
    Ok(())
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

/// Returns the units of the fields.
fn units(gpus: &GpuReport) -> BTreeMap<String, String> {
    let entries = gpus.exporters.iter().flat_map(|exporter| &exporter.gpus);
    let metrics = entries.flat_map(|entry| &entry.metrics);
    metrics.map(|metric| (metric.tag.to_string(), metric.unit.to_string())).collect()
}

/// The rows of a row group, by column.
struct Rows {
    timestamps: FlatColumn<i64>,
    indices: FlatColumn<i64>,
    texts: [FlatColumn<ByteArray>; TEXTS.len()],
    /// By name, in this order.
    fields: Vec<(String, FlatColumn<f64>)>,
}

impl Rows {
    fn new(fields: BTreeSet<String>) -> Self {
        let field = |name: String| {
            let column = FlatColumn::new(&name);
            (name, column)
        };
        Self {
            timestamps: FlatColumn::new(TIMESTAMP),
            indices: FlatColumn::new(INDEX),
            texts: TEXTS.map(FlatColumn::new),
            fields: fields.into_iter().map(field).collect(),
        }
    }

    const fn count(&self) -> usize {
        self.timestamps.rows()
    }

    fn push(&mut self, line: Line) {
        let Line { gpu, platform, timestamp_ns, telemetry_source_url, telemetry_data } = line;
        self.timestamps.push(i64::try_from(timestamp_ns).ok());
        self.indices.push(i64::try_from(gpu.gpu_index).ok());
        let texts = [
            Some(telemetry_source_url),
            Some(platform),
            gpu.hostname,
            Some(gpu.gpu_uuid),
            Some(gpu.gpu_model_name),
            gpu.pci_bus_id,
            gpu.device,
            gpu.namespace,
            gpu.pod_name,
        ];
        for (column, text) in self.texts.iter_mut().zip(texts) {
            column.push(text.map(|text| text.into_bytes().into()));
        }
        for (name, column) in &mut self.fields {
            column.push(telemetry_data.get(name).copied());
        }
    }

    fn schema(&self) -> Result<TypePtr, ParquetError> {
        let mut columns = vec![self.timestamps.schema()?, self.indices.schema()?];
        for text in &self.texts {
            columns.push(text.schema()?);
        }
        for (_, field) in &self.fields {
            columns.push(field.schema()?);
        }
        let columns = columns.into_iter().map(Arc::new).collect();
        Ok(Arc::new(Type::group_type_builder("sample").with_fields(columns).build()?))
    }

    /// Writes the rows, in the order of the schema, and empties the columns.
    fn write(
        &mut self,
        writer: &mut SerializedFileWriter<NamedTempFile>,
    ) -> Result<(), ParquetError> {
        let mut group = writer.next_row_group()?;
        self.timestamps.write(&mut group)?;
        self.indices.write(&mut group)?;
        for text in &mut self.texts {
            text.write(&mut group)?;
        }
        for (_, field) in &mut self.fields {
            field.write(&mut group)?;
        }
        group.close().map(drop)
    }
}
