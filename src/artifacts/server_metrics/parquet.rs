//! `server_metrics_export.parquet`: every sample of the profiling phase.
//!
//! There is one row per sample, and one for each bucket of a histogram; labels are columns.
//! Counters and histograms are relative to the reference, never below 0. Rows are written in
//! groups, so that memory is bounded.

mod group;
mod metadata;
mod read;
mod series;

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::io::Write;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use parquet::errors::ParquetError;
use parquet::file::metadata::KeyValue;
use parquet::file::writer::SerializedFileWriter;
use tempfile::NamedTempFile;

use super::members::kind_name;
use crate::artifacts::error::WriteFailure;
use crate::artifacts::{parquet as records, replace};
use crate::run::RunReport;
use crate::server_family::Kind;
use crate::server_metrics::report::{MetricReport, ServerMetrics};
use crate::server_metrics::store::{EndpointStore, FamilyStore, Labels};

use group::{RowGroup, SeriesCells};
use series::SeriesRows;

pub(in crate::artifacts) use read::{Samples, TableError, read};

/// Maximum number of rows of a row group.
const MAX_ROWS: usize = 1 << 16;
/// Maximum number of cells of a row group, which limits its rows if there are many labels.
const MAX_CELLS: usize = 1 << 22;

/// Column of the times of samples.
const TIMESTAMP: &str = "timestamp_ns";

/// Columns that are not labels: those before the labels, and those after.
const BEFORE: [&str; 6] =
    ["endpoint_url", "metric_name", "metric_type", "unit", "description", TIMESTAMP];
const AFTER: [&str; 5] = ["value", "sum", "count", "bucket_le", "bucket_count"];

/// Replaces the file at `path` with the samples of a run.
pub(in crate::artifacts) fn write(
    path: &Path,
    run: &RunReport,
    metrics: &ServerMetrics,
) -> Result<PathBuf, WriteFailure> {
    let outcome = write_table(path, run, metrics);
    let failure = |error: ParquetError| WriteFailure {
        path: path.to_owned(),
        error: match error {
            // Only the cause, since the user knows that it is a file.
            ParquetError::External(cause) => cause.to_string(),
            other => other.to_string(),
        },
    };
    outcome.map(|()| path.to_owned()).map_err(failure)
}

fn write_table(path: &Path, run: &RunReport, metrics: &ServerMetrics) -> Result<(), ParquetError> {
    let families = families(metrics);
    let labels = LabelColumns::of(&families);
    let group = RowGroup::new(labels.names());
    let schema = Arc::new(group.schema()?);
    let file = replace::beside(path)?;
    let writer = SerializedFileWriter::new(file, Arc::clone(&schema), records::properties())?;
    let most_rows = (MAX_CELLS / (labels.0.len() + BEFORE.len() + AFTER.len())).min(MAX_ROWS);
    let mut table = Table { writer, group, most_rows: most_rows.max(1) };
    let mut resets = 0;
    for family in &families {
        for series in &family.store.series {
            let rows = SeriesRows::new(family.endpoint, series, family.store.kind, metrics);
            resets += u64::from(rows.has_reset());
            table.add(&family.cells(&labels, &series.labels), &rows)?;
        }
    }
    let about = metadata::of(run, metrics, &labels, resets).into_iter();
    let about = about.map(|(key, value)| (key.to_owned(), value)).collect();
    table.finish(path, about)
}

/// A family of an endpoint, with its statistics.
struct Family<'a> {
    endpoint: &'a EndpointStore,
    store: &'a FamilyStore,
    metric: &'a MetricReport,
}

/// Returns the families with rows, by name and endpoint.
fn families(metrics: &ServerMetrics) -> Vec<Family<'_>> {
    let mut stores: HashMap<(&str, Kind), Vec<(&EndpointStore, &FamilyStore)>> = HashMap::new();
    for endpoint in metrics.store.endpoints() {
        for family in &endpoint.families {
            stores.entry((&family.name, family.kind)).or_default().push((endpoint, family));
        }
    }
    let exported = metrics.report.metrics.iter().filter(|metric| metric.kind != Kind::Summary);
    exported
        .flat_map(|metric| {
            let stores = stores.remove(&(&*metric.name, metric.kind)).unwrap_or_default();
            stores.into_iter().map(move |(endpoint, store)| Family { endpoint, store, metric })
        })
        .collect()
}

impl Family<'_> {
    fn cells(&self, columns: &LabelColumns, labels: &Labels) -> SeriesCells {
        let mut cells = vec![None; columns.0.len()];
        for (name, value) in labels.iter() {
            if let Ok(at) = columns.0.binary_search_by(|(label, _)| label.as_str().cmp(name)) {
                cells[at] = Some(value.as_bytes().to_vec().into());
            }
        }
        let text = |text: &str| text.as_bytes().to_vec().into();
        let description = Some(&*self.metric.description).filter(|text| !text.is_empty());
        SeriesCells {
            endpoint_url: text(&self.endpoint.url),
            metric_name: text(&self.metric.name),
            metric_type: text(kind_name(self.metric.kind)),
            unit: self.metric.unit.as_deref().map(text),
            description: description.map(text),
            labels: cells,
        }
    }
}

/// The labels and their columns, sorted by label.
struct LabelColumns(Vec<(String, String)>);

impl LabelColumns {
    fn of(families: &[Family<'_>]) -> Self {
        let series = families.iter().flat_map(|family| &family.store.series);
        let labels: BTreeSet<&str> =
            series.flat_map(|series| series.labels.iter().map(|(name, _)| &**name)).collect();
        let column = |label: &str| {
            let mut column = label.to_owned();
            let is_fixed = |name: &str| BEFORE.contains(&name) || AFTER.contains(&name);
            while is_fixed(&column) || (column != label && labels.contains(&*column)) {
                column.insert_str(0, "label_");
            }
            column
        };
        Self(labels.iter().map(|label| ((*label).to_owned(), column(label))).collect())
    }

    fn names(&self) -> Vec<&str> {
        self.0.iter().map(|(_, column)| column.as_str()).collect()
    }

    /// Returns the columns whose names differ from their labels, with these.
    fn renamed(&self) -> BTreeMap<String, String> {
        let renamed = self.0.iter().filter(|(label, column)| label != column);
        renamed.map(|(label, column)| (column.clone(), label.clone())).collect()
    }
}

/// The open file.
struct Table {
    writer: SerializedFileWriter<NamedTempFile>,
    group: RowGroup,
    most_rows: usize,
}

impl Table {
    fn add(&mut self, series: &SeriesCells, rows: &SeriesRows<'_>) -> Result<(), ParquetError> {
        let mut run = 0;
        let group = &mut self.group;
        let writer = &mut self.writer;
        let most_rows = self.most_rows;
        rows.each(|cells| {
            group.push(cells);
            run += 1;
            if group.rows() < most_rows {
                return Ok(());
            }
            group.repeat(series, std::mem::take(&mut run));
            group.write(writer)
        })?;
        self.group.repeat(series, run);
        Ok(())
    }

    /// Writes the footer and renames the file to its final name.
    fn finish(mut self, path: &Path, metadata: Vec<(String, String)>) -> Result<(), ParquetError> {
        if self.group.rows() > 0 {
            self.group.write(&mut self.writer)?;
        }
        for (key, value) in metadata {
            self.writer.append_key_value_metadata(KeyValue::new(key, value));
        }
        let mut file = self.writer.into_inner()?;
        file.flush()?;
        file.persist(path).map_err(|error| error.error)?;
        Ok(())
    }
}
