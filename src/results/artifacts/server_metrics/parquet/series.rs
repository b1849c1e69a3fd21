//! The rows of one series.

use std::ops::Range;
use std::sync::Arc;

use parquet::data_type::ByteArray;
use parquet::errors::ParquetError;

use client::schedule::PhaseKind;
use client::server_family::SeriesKind;
use measure::server_metrics::report::ServerMetrics;
use measure::server_metrics::span::Span;
use measure::server_metrics::store::{Column, EndpointStore, HistogramColumns, Series, Values};

use crate::artifacts::table::Cell;

/// The cells of a row that differ between those of a series.
#[derive(Default)]
pub(super) struct SampleCells<'b> {
    pub(super) timestamp_ns: i64,
    value: Option<f64>,
    sum: Option<f64>,
    count: Option<f64>,
    bucket_le: Option<&'b ByteArray>,
    bucket_count: Option<f64>,
}

impl<'b> SampleCells<'b> {
    /// Returns the cells after the labels.
    pub(super) fn values(self) -> [Cell<'b>; 5] {
        let number = |value| Cell::any(value, Cell::Double);
        [
            number(self.value),
            number(self.sum),
            number(self.count),
            Cell::any(self.bucket_le, Cell::Shared),
            number(self.bucket_count),
        ]
    }
}

/// A series and the scrapes from which it has rows.
pub(super) struct SeriesRows<'a> {
    endpoint: &'a EndpointStore,
    values: &'a Values,
    is_cumulative: bool,
    /// Absent if there was no profiling phase.
    span: Option<Span>,
}

impl<'a> SeriesRows<'a> {
    pub(super) fn new(
        endpoint: &'a EndpointStore,
        series: &'a Series,
        kind: SeriesKind,
        metrics: &ServerMetrics,
    ) -> Self {
        let windows = &metrics.report.summary.windows;
        Self {
            endpoint,
            values: &series.values,
            is_cumulative: kind == SeriesKind::Counter,
            span: endpoint.span(windows, PhaseKind::Profiling),
        }
    }

    fn samples(&self) -> Range<usize> {
        self.span.as_ref().map_or(0..0, |span| span.samples.clone())
    }

    fn reference(&self) -> Option<usize> {
        self.span.as_ref()?.reference
    }

    /// Returns the scrapes of the phase and, if they contain late counts of `counter`, those after
    /// it.
    fn counted(&self, counter: &Column) -> Range<usize> {
        let Range { start, end } = self.samples();
        start..self.span.as_ref().map_or(end, |span| span.late_of(counter).scrapes.end.max(end))
    }

    /// Returns whether a cumulative value decreased, because the server restarted.
    pub(super) fn has_reset(&self) -> bool {
        match self.values {
            Values::Number(column) if self.is_cumulative => {
                Self::falls(column, &self.rise(column), self.counted(column))
            }
            Values::Histogram(columns) => {
                let mut all = self.bucket_rises(columns);
                let counted = self.counted(&columns.count);
                Self::falls(&columns.count, &self.rise(&columns.count), counted.clone())
                    || all.any(|(_, column, rise)| Self::falls(column, &rise, counted.clone()))
            }
            _ => false,
        }
    }

    fn falls(column: &Column, rise: &Rise, scrapes: Range<usize>) -> bool {
        let mut before = rise.from;
        column.iter(scrapes).any(|(_, value)| {
            let falls = value < before;
            before = value;
            falls
        })
    }

    /// Passes each row to `take`.
    pub(super) fn each(
        &self,
        mut take: impl FnMut(SampleCells<'_>) -> Result<(), ParquetError>,
    ) -> Result<(), ParquetError> {
        match self.values {
            Values::Number(column) => {
                let rise = self.rise(column);
                let scrapes =
                    if self.is_cumulative { self.counted(column) } else { self.samples() };
                for (scrape, value) in column.iter(scrapes) {
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
        mut take: impl FnMut(SampleCells<'_>) -> Result<(), ParquetError>,
    ) -> Result<(), ParquetError> {
        let text = |le: &Arc<str>| ByteArray::from(le.as_bytes().to_vec());
        let buckets: Vec<(ByteArray, &Column, Rise)> =
            self.bucket_rises(columns).map(|(le, column, rise)| (text(le), column, rise)).collect();
        let (sums, counts) = (self.rise(&columns.sum), self.rise(&columns.count));
        for (scrape, count) in columns.count.iter(self.counted(&columns.count)) {
            let timestamp_ns = self.time(scrape);
            let sum = columns.sum.at(scrape).map(|sum| sums.by(sum));
            for (le, column, rise) in &buckets {
                let Some(bucket) = column.at(scrape) else { continue };
                take(SampleCells {
                    timestamp_ns,
                    value: None,
                    sum,
                    count: Some(counts.by(count)),
                    bucket_le: Some(le),
                    bucket_count: Some(rise.by(bucket)),
                })?;
            }
        }
        Ok(())
    }

    fn rise(&self, column: &Column) -> Rise {
        let baseline = column.baseline(self.reference(), self.samples());
        Rise { from: baseline.map_or(0.0, |(_, value)| value) }
    }

    /// Returns the buckets of the histogram's baseline, with the baseline of each.
    fn bucket_rises<'c>(
        &'c self,
        columns: &'c HistogramColumns,
    ) -> impl Iterator<Item = (&'c Arc<str>, &'c Column, Rise)> {
        columns.buckets.iter().filter_map(|(le, column)| {
            let from = columns.bucket_baseline(column, self.reference(), self.samples())?;
            Some((le, column, Rise { from }))
        })
    }

    fn time(&self, scrape: usize) -> i64 {
        let times = self.endpoint.scrapes().get(scrape);
        times.map_or(0, |times| times.first_byte_ns).try_into().unwrap_or(i64::MAX)
    }
}

/// The baseline of a cumulative value.
struct Rise {
    from: f64,
}

impl Rise {
    fn by(&self, value: f64) -> f64 {
        (value - self.from).max(0.0)
    }
}
