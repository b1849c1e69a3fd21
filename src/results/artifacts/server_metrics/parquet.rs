//! `server_metrics_export.parquet`: every sample of the profiling phase.
//!
//! There is one row per sample, and one for each bucket of a histogram; labels are columns.
//! Counters and histograms are relative to the reference, never below 0. Rows are written in
//! groups, so that memory is bounded.

mod metadata;
mod read;
mod series;

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::path::{Path, PathBuf};

use parquet::data_type::ByteArray;
use parquet::errors::ParquetError;

use client::server_family::SeriesKind;
use measure::server_metrics::report::{MetricReport, ServerMetrics};
use measure::server_metrics::store::{EndpointStore, FamilyStore, Labels};

use super::members::kind_name;
use crate::artifacts::error::WriteFailure;
use crate::artifacts::table::{self, Cell, Column, Rows, TableWriter};
use crate::run::RunReport;

use series::SeriesRows;

pub(in crate::artifacts) use read::{Samples, TableError, read};

/// Maximum number of rows of a row group.
const MAX_ROWS: usize = 1 << 16;
/// Maximum number of cells of a row group, which limits its rows if there are many labels.
const MAX_CELLS: usize = 1 << 22;

/// Column of the times of samples.
const TIMESTAMP: &str = "timestamp_ns";

/// Column of the upper bounds of buckets.
const BUCKET_LE: &str = "bucket_le";

/// Columns that are not labels: those before the labels, and those after.
const BEFORE: [&str; 6] =
    ["endpoint_url", "metric_name", "metric_type", "unit", "description", TIMESTAMP];
const AFTER: [&str; 5] = ["value", "sum", "count", BUCKET_LE, "bucket_count"];

/// Replaces the file at `path` with the samples of a run.
pub(in crate::artifacts) fn write(
    path: &Path,
    run: &RunReport,
    metrics: &ServerMetrics,
) -> Result<PathBuf, WriteFailure> {
    write_table(path, run, metrics).map_err(|error| table::failure(path, error))
}

fn write_table(
    path: &Path,
    run: &RunReport,
    metrics: &ServerMetrics,
) -> Result<PathBuf, ParquetError> {
    let families = families(metrics);
    let labels = LabelColumns::from_families(&families);
    let rows = Rows::new("sample", columns(&labels));
    let most = (MAX_CELLS / rows.columns.len()).clamp(1, MAX_ROWS);
    let mut table = TableWriter::create(path, rows)?;
    let mut resets = 0;
    for family in &families {
        for series in &family.store.series {
            let rows = SeriesRows::new(family.endpoint, series, family.store.kind, metrics);
            resets += u64::from(rows.has_reset());
            let (before, after) = family.cells(&labels, &series.labels);
            rows.each(|sample| {
                let time = std::iter::once(Cell::Int(sample.timestamp_ns));
                let texts = shared(&before).chain(time).chain(shared(&after));
                table.push(texts.chain(sample.values()), most)
            })?;
        }
    }
    table.close(metadata::file_metadata(run, metrics, &labels, resets))
}

/// Returns the cells of texts that many rows have.
fn shared(texts: &[Option<ByteArray>]) -> impl Iterator<Item = Cell<'_>> {
    texts.iter().map(|text| Cell::any(text.as_ref(), Cell::Shared))
}

/// Returns the columns: those of all samples, the labels, and the values.
fn columns(labels: &LabelColumns) -> Vec<Column> {
    let before = BEFORE.map(|name| match name {
        TIMESTAMP => Column::int(name),
        _ => Column::text(name),
    });
    let labels = labels.names().into_iter().map(|name| Column::text(name.to_owned()));
    let after = AFTER.map(|name| match name {
        BUCKET_LE => Column::text(name),
        _ => Column::double(name),
    });
    before.into_iter().chain(labels).chain(after).collect()
}

/// A family of an endpoint, with its statistics.
struct Family<'a> {
    endpoint: &'a EndpointStore,
    store: &'a FamilyStore,
    metric: &'a MetricReport,
}

/// Returns the families with rows, by name and endpoint.
fn families(metrics: &ServerMetrics) -> Vec<Family<'_>> {
    let mut stores: HashMap<(&str, SeriesKind), Vec<(&EndpointStore, &FamilyStore)>> =
        HashMap::new();
    for endpoint in metrics.store.endpoints() {
        for family in &endpoint.families {
            stores.entry((&family.name, family.kind)).or_default().push((endpoint, family));
        }
    }
    let exported =
        metrics.report.metrics.iter().filter(|metric| metric.kind != SeriesKind::Summary);
    exported
        .flat_map(|metric| {
            let stores = stores.remove(&(&*metric.name, metric.kind)).unwrap_or_default();
            stores.into_iter().map(move |(endpoint, store)| Family { endpoint, store, metric })
        })
        .collect()
}

impl Family<'_> {
    /// Returns the texts that all rows of a series have, before the time and after it.
    fn cells(
        &self,
        columns: &LabelColumns,
        labels: &Labels,
    ) -> ([Option<ByteArray>; 5], Vec<Option<ByteArray>>) {
        let mut cells = vec![None; columns.0.len()];
        for (name, value) in labels.iter() {
            if let Ok(at) = columns.0.binary_search_by(|(label, _)| label.as_str().cmp(name)) {
                cells[at] = Some(value.as_bytes().to_vec().into());
            }
        }
        let text = |text: &str| text.as_bytes().to_vec().into();
        let description = Some(&*self.metric.description).filter(|text| !text.is_empty());
        let before = [
            Some(text(&self.endpoint.url)),
            Some(text(&self.metric.name)),
            Some(text(kind_name(self.metric.kind))),
            self.metric.unit.as_deref().map(text),
            description.map(text),
        ];
        (before, cells)
    }
}

/// The labels and their columns, sorted by label.
struct LabelColumns(Vec<(String, String)>);

impl LabelColumns {
    fn from_families(families: &[Family<'_>]) -> Self {
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
