//! The rows of one series.

use std::ops::Range;
use std::sync::Arc;

use parquet::data_type::ByteArray;
use parquet::errors::ParquetError;

use super::group::SampleCells;
use crate::server_metrics::report::ServerMetrics;
use crate::server_metrics::snapshot::Kind;
use crate::server_metrics::store::{Column, EndpointStore, HistogramColumns, Series, Values};

/// A series and the scrapes that give it rows.
pub(super) struct SeriesRows<'a> {
    endpoint: &'a EndpointStore,
    values: &'a Values,
    is_cumulative: bool,
    within: Range<usize>,
    reference: Option<usize>,
}

impl<'a> SeriesRows<'a> {
    pub(super) fn new(
        endpoint: &'a EndpointStore,
        series: &'a Series,
        kind: Kind,
        metrics: &ServerMetrics,
    ) -> Self {
        let window = metrics.report.summary.windows.profiling;
        Self {
            endpoint,
            values: &series.values,
            is_cumulative: kind == Kind::Counter,
            within: window.map_or(0..0, |window| endpoint.within(window)),
            reference: window.and_then(|window| endpoint.reference(window)),
        }
    }

    /// Whether a cumulative number fell: the server began anew.
    pub(super) fn has_reset(&self) -> bool {
        match self.values {
            Values::Number(column) if self.is_cumulative => self.falls(column, &self.rise(column)),
            Values::Histogram(columns) => {
                let mut all = self.bucket_rises(columns);
                self.falls(&columns.count, &self.rise(&columns.count))
                    || all.any(|(_, column, rise)| self.falls(column, &rise))
            }
            _ => false,
        }
    }

    fn falls(&self, column: &Column, rise: &Rise) -> bool {
        let mut before = rise.from;
        column.iter(self.within.clone()).any(|(_, value)| {
            let falls = value < before;
            before = value;
            falls
        })
    }

    /// Gives each row to `take`.
    pub(super) fn each(
        &self,
        mut take: impl FnMut(SampleCells) -> Result<(), ParquetError>,
    ) -> Result<(), ParquetError> {
        match self.values {
            Values::Number(column) => {
                let rise = self.rise(column);
                for (scrape, value) in column.iter(self.within.clone()) {
                    let value = if self.is_cumulative { rise.by(value) } else { value };
                    let timestamp_ns = self.time(scrape);
                    take(SampleCells { timestamp_ns, value: Some(value), ..Default::default() })?;
                }
                Ok(())
            }
            Values::Histogram(columns) => self.each_bucket(columns, take),
            Values::Summary(_) => Ok(()),
        }
    }

    fn each_bucket(
        &self,
        columns: &HistogramColumns,
        mut take: impl FnMut(SampleCells) -> Result<(), ParquetError>,
    ) -> Result<(), ParquetError> {
        let text = |le: &Arc<str>| ByteArray::from(le.as_bytes().to_vec());
        let buckets: Vec<(ByteArray, &Column, Rise)> =
            self.bucket_rises(columns).map(|(le, column, rise)| (text(le), column, rise)).collect();
        let (sums, counts) = (self.rise(&columns.sum), self.rise(&columns.count));
        for (scrape, count) in columns.count.iter(self.within.clone()) {
            let timestamp_ns = self.time(scrape);
            let sum = columns.sum.at(scrape).map(|sum| sums.by(sum));
            for (le, column, rise) in &buckets {
                let Some(bucket) = column.at(scrape) else { continue };
                take(SampleCells {
                    timestamp_ns,
                    value: None,
                    sum,
                    count: Some(counts.by(count)),
                    bucket_le: Some(le.clone()),
                    bucket_count: Some(rise.by(bucket)),
                })?;
            }
        }
        Ok(())
    }

    fn rise(&self, column: &Column) -> Rise {
        let baseline = column.baseline(self.reference, self.within.clone());
        Rise { from: baseline.map_or(0.0, |(_, value)| value) }
    }

    /// The buckets that the histogram's baseline has, and what each rises from.
    fn bucket_rises<'c>(
        &'c self,
        columns: &'c HistogramColumns,
    ) -> impl Iterator<Item = (&'c Arc<str>, &'c Column, Rise)> {
        columns.buckets.iter().filter_map(|(le, column)| {
            let from = columns.bucket_baseline(column, self.reference, self.within.clone())?;
            Some((le, column, Rise { from }))
        })
    }

    fn time(&self, scrape: usize) -> i64 {
        let times = self.endpoint.scrapes().get(scrape);
        times.map_or(0, |times| times.first_byte_ns).try_into().unwrap_or(i64::MAX)
    }
}

/// What a cumulative number rises from.
struct Rise {
    from: f64,
}

impl Rise {
    fn by(&self, value: f64) -> f64 {
        (value - self.from).max(0.0)
    }
}
