//! Statistics of one series over one phase.
//!
//! A phase's samples are those of the scrapes in its window, and each counts the
//! same. What is cumulative is compared with the last scrape before the window.

mod cumulative;
mod histogram;
mod slices;

use std::ops::Range;

use crate::metrics::percentile::{exact_sum, percentile};
use crate::units::Nanos;

use super::report::{
    CounterSlice, CounterStats, GaugeSlice, GaugeStats, PERCENTILES, RateSpread, Stats,
    SummaryStats, Timeslice, Window,
};
use super::scrape::FetchTimes;
use super::snapshot::Kind;
use super::store::{Column, EndpointStore, SummaryColumns, Values};
use cumulative::Rise;
use slices::Slice;

pub use slices::MAX_SLICES;

/// One phase as one endpoint was scraped in it.
#[derive(Debug)]
pub struct Phase<'a> {
    times: &'a [FetchTimes],
    within: Range<usize>,
    reference: Option<usize>,
    slices: Vec<Slice>,
}

impl<'a> Phase<'a> {
    /// The phase that `window` is, in slices of `slice_duration` where one is wanted:
    /// all as long, from the start of the phase on, the last one cut by its end.
    ///
    /// A duration below the median time between updates of the endpoint, or one
    /// that would give more than [`MAX_SLICES`], gives a slice from each update to
    /// the next instead.
    #[must_use]
    pub fn new(
        endpoint: &'a EndpointStore,
        window: Window,
        slice_duration: Option<Nanos>,
    ) -> Phase<'a> {
        Self {
            times: endpoint.scrapes(),
            within: endpoint.within(window),
            reference: endpoint.reference(window),
            slices: slice_duration
                .map(|duration| slices::of(endpoint, window, duration))
                .unwrap_or_default(),
        }
    }

    /// The statistics of a series whose values are `values`; `None` where it has
    /// no sample in the phase.
    #[must_use]
    pub fn statistics(&self, kind: Kind, values: &Values) -> Option<Stats> {
        match values {
            Values::Number(column) if kind == Kind::Counter => {
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
            .iter(self.within.clone())
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

    /// The slices that have samples. Each sample is in one of them: the end of the
    /// phase belongs to the last.
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

    fn counter(&self, column: &Column) -> Option<CounterStats> {
        let rise = Rise::of(self, column)?;
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
            rate: per_second(total, rise.seconds()),
            slice_rates: spread(&rates),
            point_rates: rise.point_rates(),
            resets: rise.resets(&rise.falls()),
            timeslices,
        })
    }

    /// Quantiles as the last sample in the phase has them.
    fn summary(&self, columns: &SummaryColumns) -> Option<SummaryStats> {
        let quantiles = columns.quantiles.iter();
        let all = quantiles.clone().map(|(_, column)| column).chain([&columns.sum, &columns.count]);
        let last = all.filter_map(|column| column.last_in(self.within.clone())).max()?;
        let rise = |column| Rise::of(self, column);
        let total = |rise: &Option<Rise>| rise.as_ref().map_or(0.0, Rise::total);
        let rate = |rise: &Option<Rise>, total| {
            rise.as_ref().map_or(0.0, |rise| per_second(total, rise.seconds()))
        };
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

/// Mean, extremes and sample standard deviation (ddof 1; 0 of a single value) of
/// `values`; `None` where there are none. Values that are all the same are exactly
/// their own mean.
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

/// `amount` over `seconds`; 0 where no time passed.
fn per_second(amount: f64, seconds: f64) -> f64 {
    if seconds > 0.0 { amount / seconds } else { 0.0 }
}

#[cfg(test)]
mod properties;
#[cfg(test)]
mod tests;
