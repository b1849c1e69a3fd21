//! Converts the samples of the table to series.

mod cells;

use std::borrow::Cow;
use std::collections::BTreeSet;
use std::path::Path;

use parquet::data_type::ByteArray;
use parquet::errors::ParquetError;

use client::server_family::SeriesKind;
use measure::server_metrics::snapshot::{Family, Point, Value};
use measure::server_metrics::store::{Store, bound};

use super::BEFORE;
use super::metadata::{METADATA_OF_REPORT, ReportMetadata};
use crate::artifacts::open;
use crate::artifacts::table::Table;

use cells::Group;

/// The series of a table. Cumulative ones are relative to the reference, of which only the time is
/// known.
#[derive(Debug)]
pub(in crate::artifacts) struct Samples {
    pub(in crate::artifacts) store: Store,
    /// The data that rows do not contain.
    pub(in crate::artifacts) about: ReportMetadata,
}

/// The reason why a table could not be read.
#[derive(Debug, thiserror::Error)]
pub(in crate::artifacts) enum TableError {
    /// The file could not be read.
    #[error(transparent)]
    Io(#[from] std::io::Error),
    /// It is not a Parquet file, or is damaged.
    #[error(transparent)]
    Parquet(#[from] ParquetError),
    /// Its metadata does not have the expected form.
    #[error("its metadata {METADATA_OF_REPORT} is not in the expected format: {0}")]
    Metadata(#[from] serde_json::Error),
    /// A column is missing or has another type.
    #[error("it does not have a column {0} of the expected type")]
    Column(String),
    /// A row lacks a value that a sample needs.
    #[error("a row is not a valid sample: {0}")]
    Row(&'static str),
}

/// Reads the table at `path`; `None` if it was written by another program.
pub(in crate::artifacts) fn read(path: &Path) -> Result<Option<Samples>, TableError> {
    let table = Table::new(open::regular(path)?)?;
    let Some(about) = table.metadata(METADATA_OF_REPORT) else { return Ok(None) };
    let about: ReportMetadata = serde_json::from_str(about)?;
    let labels = cells::labels(&table, &about)?;
    let mut samples = SampleReader::new(&about, &labels, &table)?;
    for group in table.groups() {
        let group = Group::read(&group?, &labels)?;
        for row in 0..group.rows() {
            samples.take(&group, row)?;
        }
    }
    let store = samples.finish()?;
    Ok(Some(Samples { store, about }))
}

/// Collects rows to samples.
struct SampleReader<'a> {
    about: &'a ReportMetadata,
    /// Label names, with their columns.
    labels: &'a [(String, String)],
    store: Store,
    /// Times of the scrapes of each endpoint, beginning with the reference.
    times: Vec<Vec<i64>>,
    /// The histogram whose buckets are currently read.
    histogram: Option<HistogramRows>,
}

/// The identity of a row.
#[derive(PartialEq)]
struct Sample {
    endpoint: usize,
    scrape: usize,
    name: ByteArray,
    kind: SeriesKind,
    unit: Option<ByteArray>,
    description: Option<ByteArray>,
    /// Index of each label and its value.
    labels: Vec<(usize, ByteArray)>,
}

/// The rows of one histogram at one time.
struct HistogramRows {
    sample: Sample,
    buckets: Vec<(ByteArray, f64)>,
    sum: f64,
    count: f64,
}

impl<'a> SampleReader<'a> {
    fn new(
        about: &'a ReportMetadata,
        labels: &'a [(String, String)],
        table: &Table,
    ) -> Result<Self, TableError> {
        let mut store = Store::new(about.endpoints.iter().map(|end| end.configured_url.clone()));
        let times = times(about, table)?;
        for (number, (endpoint, times)) in about.endpoints.iter().zip(&times).enumerate() {
            if endpoint.url != endpoint.configured_url {
                store.moved(number, endpoint.url.clone());
            }
            let phase = about.windows.profiling;
            let at =
                times.iter().map(|time| endpoint.times((*time).try_into().unwrap_or(0), phase));
            store.scraped(number, at.collect());
        }
        Ok(Self { about, labels, store, times, histogram: None })
    }

    fn take(&mut self, group: &Group, row: usize) -> Result<(), TableError> {
        let sample = self.sample(group, row)?;
        if sample.kind != SeriesKind::Histogram {
            let value = group.value[row].ok_or(TableError::Row("the value is missing"))?;
            return self.place(&sample, Value::Number(value));
        }
        let [Some(sum), Some(count), Some(bucket)] =
            [group.sum[row], group.count[row], group.bucket_count[row]]
        else {
            return Err(TableError::Row("a histogram lacks its sum, count or buckets"));
        };
        let le = group.bucket_le[row].clone();
        let bucket = (le.ok_or(TableError::Row("a bucket lacks its upper bound"))?, bucket);
        match &mut self.histogram {
            Some(histogram) if histogram.sample == sample => histogram.buckets.push(bucket),
            _ => {
                self.place_histogram()?;
                let buckets = vec![bucket];
                self.histogram = Some(HistogramRows { sample, buckets, sum, count });
            }
        }
        Ok(())
    }

    fn sample(&self, group: &Group, row: usize) -> Result<Sample, TableError> {
        let text = |column: usize| group.texts[column][row].clone();
        let url = text(0).ok_or(TableError::Row("the endpoint is missing"))?;
        let endpoint = self.about.endpoints.iter().position(|end| end.url.as_bytes() == url.data());
        let endpoint = endpoint.ok_or(TableError::Row("its endpoint is unknown"))?;
        let scrape = self.times[endpoint].binary_search(&group.times[row]);
        let name = text(1).ok_or(TableError::Row("the name is missing"))?;
        let kind = text(2).and_then(|kind| kind_of(kind.data(), name.data()));
        let labels = group.labels.iter().enumerate();
        Ok(Sample {
            endpoint,
            scrape: scrape.map_err(|_| TableError::Row("its time is unknown"))?,
            kind: kind.ok_or(TableError::Row("its type is unknown"))?,
            name,
            unit: text(3),
            description: text(4),
            labels: labels.filter_map(|(at, cells)| Some((at, cells[row].clone()?))).collect(),
        })
    }

    fn place_histogram(&mut self) -> Result<(), TableError> {
        let Some(HistogramRows { sample, buckets, sum, count }) = self.histogram.take() else {
            return Ok(());
        };
        let buckets = buckets.iter().map(|(le, count)| Ok((le.as_utf8()?.into(), *count)));
        let mut buckets: Vec<(Cow<'_, str>, f64)> = buckets.collect::<Result<_, ParquetError>>()?;
        buckets.sort_by(|a, b| bound(&a.0).total_cmp(&bound(&b.0)));
        self.place(&sample, Value::Histogram { buckets, sum, count })
    }

    fn place(&mut self, sample: &Sample, value: Value<'_>) -> Result<(), TableError> {
        let text = |text: &'_ Option<ByteArray>| match text {
            Some(text) => text.as_utf8().map(|text| Some(text.to_owned().into())),
            None => Ok(None),
        };
        let labels = sample
            .labels
            .iter()
            .map(|(at, value)| Ok((self.labels[*at].0.as_str().into(), value.as_utf8()?.into())));
        let family = Family {
            name: sample.name.as_utf8()?.into(),
            kind: sample.kind,
            description: text(&sample.description)?,
            unit: text(&sample.unit)?,
            series: vec![Point { labels: labels.collect::<Result<_, ParquetError>>()?, value }],
        };
        self.store.place(sample.endpoint, sample.scrape, &family);
        Ok(())
    }

    fn finish(mut self) -> Result<Store, TableError> {
        self.place_histogram()?;
        for endpoint in 0..self.times.len() {
            self.store.placed(endpoint);
        }
        Ok(self.store)
    }
}

/// Returns the kind of a series according to the columns `metric_type` and `metric_name`.
fn kind_of(metric_type: &[u8], name: &[u8]) -> Option<SeriesKind> {
    match metric_type {
        b"gauge" if name.ends_with(b"_info") => Some(SeriesKind::Info),
        b"gauge" => Some(SeriesKind::Gauge),
        b"counter" => Some(SeriesKind::Counter),
        b"histogram" => Some(SeriesKind::Histogram),
        b"unknown" => Some(SeriesKind::Unknown),
        _ => None,
    }
}

/// Returns the times at which each endpoint was scraped: its reference, then the times in its rows.
fn times(about: &ReportMetadata, table: &Table) -> Result<Vec<Vec<i64>>, TableError> {
    let mut times = vec![BTreeSet::new(); about.endpoints.len()];
    for group in table.groups() {
        let group = group?;
        let urls = group.bytes(BEFORE[0])?;
        let mut last = None;
        for (url, time) in urls.iter().zip(cells::times(&group)?) {
            let here = Some((url, time));
            if std::mem::replace(&mut last, here) == here {
                continue;
            }
            let url = url.as_ref().map(ByteArray::data);
            let is_it =
                |url: &[u8]| about.endpoints.iter().position(|end| end.url.as_bytes() == url);
            if let Some(endpoint) = url.and_then(is_it) {
                times[endpoint].insert(time);
            }
        }
    }
    let with_reference =
        |(endpoint, times): (&super::metadata::EndpointMetadata, BTreeSet<i64>)| {
            let reference = endpoint.reference_ns.and_then(|at| i64::try_from(at).ok());
            let is_before =
                reference.is_none_or(|at| times.first().is_none_or(|first| at < *first));
            let all = reference.into_iter().chain(times).collect();
            is_before.then_some(all).ok_or(TableError::Row("it is older than its reference"))
        };
    about.endpoints.iter().zip(times).map(with_reference).collect()
}
