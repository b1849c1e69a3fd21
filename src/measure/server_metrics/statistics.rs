//! Statistics of one series over one phase.
//!
//! The samples of a phase are those of the scrapes of its [`Span`], each with the same weight.
//! Cumulative values are compared with the span's reference.

mod cumulative;
mod histogram;
mod slices;

use base::statistics::percentile::{exact_sum, percentile};
use base::units::Nanos;

use client::server_family::SeriesKind;

use super::report::{
    CounterSlice, CounterStats, Doubts, GaugeSlice, GaugeStats, PERCENTILES, PhaseWindow,
    RateSpread, Stats, SummaryStats, Timeslice,
};
use super::scrape::FetchTimes;
use super::span::Span;
use super::store::{Column, EndpointStore, SummaryColumns, Values};
use cumulative::Rise;
use slices::Slice;

/// A phase of one endpoint.
#[derive(Debug)]
pub struct Phase<'a> {
    times: &'a [FetchTimes],
    /// Whether the values of the reference are known.
    knows_reference: bool,
    span: Span,
    slices: Vec<Slice>,
}

impl<'a> Phase<'a> {
    /// Creates the phase in `window`, in slices of `slice_duration` if it is given: slices have equal
    /// lengths from the start of the phase on, except the last one, which ends with the endpoint's
    /// final scrape.
    ///
    /// If the duration is below the median time between updates of the endpoint (between its
    /// scrapes, if its values never change), or would yield more than
    /// [`MAX_SLICES`](crate::metrics::slices::MAX_SLICES), each slice extends from one update to
    /// the next instead.
    #[must_use]
    pub fn new(
        endpoint: &'a EndpointStore,
        window: PhaseWindow,
        slice_duration: Option<Nanos>,
    ) -> Phase<'a> {
        let (times, span) = (endpoint.scrapes(), endpoint.span_within(window));
        let mut window = window.own;
        if let Some(last) = span.last() {
            window.end_ns = times[last].first_byte_ns.max(window.end_ns);
        }
        let slices = slice_duration.map(|duration| slices::slices(endpoint, window, duration));
        let knows_reference = !endpoint.is_relative();
        Self { times, knows_reference, span, slices: slices.unwrap_or_default() }
    }

    /// Returns the statistics of a series with `values`; `None` without a sample in the phase.
    #[must_use]
    pub fn statistics(&self, kind: SeriesKind, values: &Values) -> Option<Stats> {
        match values {
            Values::Number(column) if kind == SeriesKind::Counter => {
                self.counter(column).map(Stats::Counter)
            }
            Values::Number(column) => self.gauge(column).map(Stats::Gauge),
            Values::Histogram(columns) => {
                histogram::statistics(self, columns).map(Stats::Histogram)
            }
            Values::Summary(columns) => self.summary(columns).map(Stats::Summary),
        }
    }

    fn time(&self, scrape: usize) -> u64 {
        self.times.get(scrape).map_or(0, |times| times.first_byte_ns)
    }

    fn gauge(&self, column: &Column) -> Option<GaugeStats> {
        let samples: Vec<(u64, f64)> = column
            .iter(self.span.samples.clone())
            .map(|(scrape, value)| (self.time(scrape), value))
            .collect();
        let mut ascending: Vec<f64> = samples.iter().map(|(_, value)| *value).collect();
        ascending.sort_unstable_by(f64::total_cmp);
        let spread = spread(&ascending)?;
        Some(GaugeStats {
            avg: spread.avg,
            min: spread.min,
            max: spread.max,
            std: spread.std,
            percentiles: PERCENTILES
                .map(|percent| percentile(&ascending, percent.into()).unwrap_or(spread.max)),
            timeslices: self.gauge_slices(&samples),
        })
    }

    /// Returns the slices that have samples. Each sample is in one of them; the end of the phase
    /// belongs to the last.
    fn gauge_slices(&self, samples: &[(u64, f64)]) -> Vec<Timeslice<GaugeSlice>> {
        let last = self.slices.len().saturating_sub(1);
        let slice = |(index, slice): (usize, &Slice)| {
            let from = samples.partition_point(|(time, _)| *time < slice.start_ns);
            let until_end = samples.partition_point(|(time, _)| *time < slice.end_ns);
            let to = if index == last { samples.len() } else { until_end };
            let values: Vec<f64> = samples.get(from..to)?.iter().map(|(_, value)| *value).collect();
            let RateSpread { avg, min, max, .. } = spread(&values)?;
            Some(slice.with(GaugeSlice { avg, min, max }))
        };
        self.slices.iter().enumerate().filter_map(slice).collect()
    }

    /// Returns the doubts due to the start and the end of the phase, the first value, and the increase
    /// after the phase.
    const fn doubts(&self, has_large_first_value: bool, late_increase: Option<f64>) -> Doubts {
        Doubts {
            late_increase,
            has_inexact_start: !self.span.has_exact_start,
            has_inexact_end: !self.span.has_exact_end,
            has_large_first_value,
        }
    }

    fn counter(&self, column: &Column) -> Option<CounterStats> {
        let late = self.span.late_of(column);
        let rise = Rise::and_late(self, column, late.scrapes)?;
        let total = rise.total().max(0.0);
        let timeslices: Vec<Timeslice<CounterSlice>> = self
            .slices
            .iter()
            .zip(rise.cuts(&self.slices))
            .map(|(slice, cut)| {
                let total = rise.between(&cut).max(0.0);
                slice.with(CounterSlice { total, rate: per_second(total, slice.seconds()) })
            })
            .collect();
        let rates: Vec<f64> = timeslices
            .iter()
            .filter(|slice| slice.is_complete)
            .map(|slice| slice.stats.rate)
            .collect();
        Some(CounterStats {
            total,
            rate: rise.rate(total),
            slice_rates: spread(&rates),
            point_rates: rise.point_rates(),
            resets: rise.resets(&rise.falls()),
            doubts: self.doubts(rise.has_large_first_value(), late.doubtful),
            timeslices,
        })
    }

    /// Returns the quantiles of the last sample in the phase.
    fn summary(&self, columns: &SummaryColumns) -> Option<SummaryStats> {
        let quantiles = columns.quantiles.iter();
        let all = quantiles.clone().map(|(_, column)| column).chain([&columns.sum, &columns.count]);
        let last = all.filter_map(|column| column.last_in(self.span.samples.clone())).max()?;
        let late = self.span.late_of(&columns.count).scrapes;
        let rise = |column| Rise::and_late(self, column, late.clone());
        let total = |rise: &Option<Rise>| rise.as_ref().map_or(0.0, Rise::total);
        let rate = |rise: &Option<Rise>, total| rise.as_ref().map_or(0.0, |rise| rise.rate(total));
        let (counts, sums) = (rise(&columns.count), rise(&columns.sum));
        let fell = total(&counts) < 0.0;
        let count = total(&counts).max(0.0);
        let sum = if fell { total(&sums).max(0.0) } else { total(&sums) };
        Some(SummaryStats {
            quantiles: quantiles
                .filter_map(|(quantile, column)| Some((quantile.clone(), column.at(last)?)))
                .collect(),
            count,
            sum,
            count_rate: rate(&counts, count),
            sum_rate: rate(&sums, sum),
        })
    }
}

/// Returns mean, extremes and sample standard deviation (ddof 1; 0 for a single value) of `values`;
/// `None` if there are none. The mean of identical values is exactly that value.
fn spread(values: &[f64]) -> Option<RateSpread> {
    let min = values.iter().copied().reduce(f64::min)?;
    let max = values.iter().copied().reduce(f64::max)?;
    if min == max {
        return Some(RateSpread { avg: min, min, max, std: 0.0 });
    }
    let avg = exact_sum(values.iter().copied()) / values.len() as f64;
    let squares = exact_sum(values.iter().map(|value| (value - avg).powi(2)));
    let std = (squares / (values.len() - 1) as f64).sqrt();
    Some(RateSpread { avg, min, max, std })
}

/// Returns `amount / seconds`; 0 if no time passed.
fn per_second(amount: f64, seconds: f64) -> f64 {
    if seconds > 0.0 { amount / seconds } else { 0.0 }
}

#[cfg(test)]
mod properties;
#[cfg(test)]
mod tests;
