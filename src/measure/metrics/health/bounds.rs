//! Error bounds: how far the client may have shifted the statistics that people read, and how far
//! they would differ with other requests.

use serde::{Deserialize, Serialize};

use base::column::{Column, Store, fixed_struct};
use base::statistics::order::{self, Interval};
use base::statistics::percentile::{Neighbours, exact_sum, percentiles_of, sorted_at};

use super::ends::Ends;
use super::errors::ClientErrors;
use super::likely::{self, Span};
use crate::metrics::histogram::Histogram;
use crate::metrics::metric::RecordValues;
use crate::metrics::tag::{self, MetricTag};

/// The percentiles that have bounds, beside the mean.
const PERCENTS: [f64; 2] = [50.0, 99.0];

/// Error bounds of each metric; absent if no request has it.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(default)]
pub struct ErrorBounds {
    /// Bounds of the time to first token.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub time_to_first_token: Option<MetricBounds>,
    /// Bounds of the inter-token latency.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub inter_token_latency: Option<MetricBounds>,
    /// Bounds of the request latency.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub request_latency: Option<MetricBounds>,
}

impl ErrorBounds {
    /// Returns the bounds of the statistic of `metric` with this name.
    pub fn get(&self, metric: MetricTag, statistic: &str) -> Option<Bound> {
        let (_, bounds) = [
            (tag::TIME_TO_FIRST_TOKEN, self.time_to_first_token),
            (tag::INTER_TOKEN_LATENCY, self.inter_token_latency),
            (tag::REQUEST_LATENCY, self.request_latency),
        ]
        .into_iter()
        .find(|(tag, _)| *tag == metric)?;
        let bounds = bounds?;
        match statistic {
            "avg" => Some(bounds.avg),
            "p50" => Some(bounds.p50),
            "p99" => Some(bounds.p99),
            _ => None,
        }
    }

    /// Returns a text about each percentile that too few requests have.
    pub fn too_few(&self) -> Vec<String> {
        let few = self.iter().flat_map(|(_, of)| {
            of.percentiles().filter_map(move |(percent, found)| {
                Some((found.requests_needed?, percent, of.count))
            })
        });
        // The same requests have all metrics, apart from a few.
        let mut few: Vec<_> = few.collect();
        few.sort_unstable();
        few.dedup_by_key(|(needed, ..)| *needed);
        few.into_iter()
            .map(|(needed, percent, count)| {
                format!("Too few requests to judge p{percent}: {count}, at least {needed} needed")
            })
            .collect()
    }

    /// Iterates over the bounds, with the name of the metric.
    pub fn iter(&self) -> impl Iterator<Item = (&'static str, MetricBounds)> + use<> {
        [
            ("time to first token", self.time_to_first_token),
            ("inter-token latency", self.inter_token_latency),
            ("request latency", self.request_latency),
        ]
        .into_iter()
        .filter_map(|(name, bounds)| Some((name, bounds?)))
    }
}

/// Error bounds of a metric's statistics.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize, schemars::JsonSchema)]
pub struct MetricBounds {
    /// Number of values.
    pub count: u64,
    /// Mean, without the confidence interval.
    pub avg: Bound,
    /// Median.
    pub p50: Bound,
    /// 99th percentile.
    pub p99: Bound,
}

impl MetricBounds {
    /// Iterates over the percentiles.
    pub fn percentiles(&self) -> impl Iterator<Item = (i64, Bound)> + use<> {
        [(50, self.p50), (99, self.p99)].into_iter()
    }
}

/// Error bounds of a statistic, in milliseconds.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(default)]
pub struct Bound {
    /// The statistic.
    pub value: f64,
    /// How much lower it may be, since the client may have measured too much.
    pub below: f64,
    /// How much higher it may be, since the client may have measured too little.
    pub above: f64,
    /// How much lower it is at most with a probability of 95%; absent while the run goes on.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub likely_below: Option<f64>,
    /// How much higher it is at most with a probability of 95%.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub likely_above: Option<f64>,
    /// How much higher it is if times count from when each request was due, without its waits for
    /// the server; absent in a closed loop.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub late: Option<f64>,
    /// The 95% confidence interval for other requests of the same kind: how far below the statistic
    /// it begins. Absent with too few requests.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub sample_below: Option<f64>,
    /// How far above the statistic the interval ends.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub sample_above: Option<f64>,
    /// The number of requests from which the statistic can be judged; present if there are fewer.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub requests_needed: Option<u64>,
}

impl Bound {
    /// Returns the ends of the confidence interval for other requests, as far as there are enough.
    pub fn sample_interval(&self) -> [Option<f64>; 2] {
        let low = self.sample_below.map(|below| self.value - below);
        [low, self.sample_above.map(|above| self.value + above)]
    }

    /// Returns how far the client may have shifted the statistic, in either direction.
    pub const fn error(&self) -> f64 {
        self.below.max(self.above)
    }

    /// Sets how far the statistic likely is from the interval `likely`, in nanoseconds.
    fn set_likely(&mut self, likely: Span) {
        let within = |off: f64, most: f64| Some(off.clamp(0.0, most.max(0.0)));
        self.likely_below = within(self.value - likely.low / 1e6, self.below);
        self.likely_above = within(likely.high / 1e6 - self.value, self.above);
    }

    /// Returns how much lower and higher it is at most with a probability of 95%, or at most if
    /// that is not known.
    pub fn likely(&self) -> [f64; 2] {
        [self.likely_below.unwrap_or(self.below), self.likely_above.unwrap_or(self.above)]
    }
}

/// Collects the values of the measurement's successful requests, each with its own errors.
#[derive(Debug, Clone, Default)]
pub(super) struct Collector {
    first_token: Timings,
    between: Timings,
    latency: Timings,
    ends: Ends,
}

impl Collector {
    /// Creates a collector whose values will be in `store`.
    pub(super) fn keeping_in(store: &Store) -> Self {
        let timings = || Timings { all: Column::new(store.clone()), ..Timings::default() };
        Self {
            first_token: timings(),
            between: timings(),
            latency: timings(),
            ends: Ends::keeping_in(store.clone()),
        }
    }

    /// Adds a successful request with these `values` and `errors`; `is_due` is whether it was due at a
    /// certain time.
    pub(super) fn observe(&mut self, values: &RecordValues, errors: &ClientErrors, is_due: bool) {
        let first = f64::from(errors.first_content_uncertainty);
        let last = f64::from(errors.last_content_uncertainty);
        let late = errors.late.filter(|_| is_due).map(|late| late as f64);
        let is_merged_with_end = errors.end_gap == Some(0);
        let gaps_if_merged = |gaps: f32| if is_merged_with_end { gaps } else { 0.0 };
        let sent = |value: f64, uncertainty: f64, gaps: f32| Timing {
            value,
            too_high: errors.send_delay as f32,
            below: uncertainty as f32,
            gaps,
            ..Timing::default()
        };
        let latency = values.scalar(tag::REQUEST_LATENCY);
        if let Some(value) = values.scalar(tag::TIME_TO_FIRST_TOKEN) {
            // The first content may be the last, too.
            let gaps = if latency == Some(value) { 1.0 } else { 0.0 };
            self.first_token.push(sent(value, first, gaps_if_merged(gaps)), late);
        }
        if let Some(value) = latency {
            self.latency.push(sent(value, last, gaps_if_merged(1.0)), late);
        }
        if let Some(gap) = errors.end_gap {
            self.ends.push(gap, errors.last_content_uncertainty);
        }
        if let Some(value) = values.scalar(tag::INTER_TOKEN_LATENCY)
            && let Some(gaps) = gaps(values)
        {
            let (below, above) = ((last / gaps) as f32, (first / gaps) as f32);
            let gaps = gaps_if_merged(gaps as f32);
            self.between.push(Timing { value, below, above, gaps, ..Timing::default() }, None);
        }
    }

    /// Computes the bounds; `None` without values.
    pub(super) fn bounds(&self) -> Option<ErrorBounds> {
        let gap = self.ends.likely_gap();
        self.by(|timings| timings.bounds(gap))
    }

    /// Computes the bounds so far: fast, but with percentiles at most 0.8% too high, and without
    /// the confidence intervals.
    pub(super) fn bounds_so_far(&self) -> Option<ErrorBounds> {
        self.by(Timings::bounds_so_far)
    }

    fn by(&self, bounds: impl Fn(&Timings) -> Option<MetricBounds>) -> Option<ErrorBounds> {
        let all = ErrorBounds {
            time_to_first_token: bounds(&self.first_token),
            inter_token_latency: bounds(&self.between),
            request_latency: bounds(&self.latency),
        };
        Some(all).filter(|all| *all != ErrorBounds::default())
    }
}

/// Returns the number of times between tokens that the inter-token latency is the mean of.
fn gaps(values: &RecordValues) -> Option<f64> {
    let tokens = values.scalar(tag::OUTPUT_SEQUENCE_LENGTH)?;
    let decode = values.scalar(tag::REQUEST_LATENCY)? - values.scalar(tag::TIME_TO_FIRST_TOKEN)?;
    // Fewer than all tokens after the first one if the server reports those of the first event.
    let counted = decode / values.scalar(tag::INTER_TOKEN_LATENCY)?;
    let gaps = if counted.is_finite() { counted.round().min(tokens - 1.0) } else { tokens - 1.0 };
    Some(gaps).filter(|gaps| *gaps >= 1.0)
}

fixed_struct! {
    /// A value and its errors, in nanoseconds.
    #[derive(Debug, Clone, Copy, Default)]
    struct Timing {
        value: f64,
        /// How much too high it is in any case.
        too_high: f32,
        /// How much lower than without that it may be.
        below: f32,
        /// How much higher it may be.
        above: f32,
        /// How late the request was sent.
        late: f32,
        /// If the last content is merged with the end of the response: the number of times between
        /// tokens that the value is the mean of, or 1 if it is the time of the last content. Otherwise,
        /// and if it does not depend on the last content, 0.
        gaps: f32,
    }
}

/// A value as measured, and with its errors.
#[derive(Debug, Clone, Copy)]
enum Reading {
    Measured,
    Lowest,
    Highest,
    FromDue,
}

impl Reading {
    const ALL: [Self; 4] = [Self::Measured, Self::Lowest, Self::Highest, Self::FromDue];
}

impl Timing {
    fn read(self, reading: Reading) -> f64 {
        match reading {
            Reading::Measured => self.value,
            Reading::Lowest => self.span().low,
            Reading::Highest => self.value + f64::from(self.above),
            Reading::FromDue => self.value + f64::from(self.late),
        }
    }

    /// Returns where the value likely would be if the client had never been late: if its last
    /// content did not arrive more than `gap` before the end of the response.
    fn likely_span(self, gap: Option<f64>) -> Span {
        let below = match gap {
            Some(gap) if self.gaps > 0.0 => self.below.min(gap as f32 / self.gaps),
            _ => self.below,
        };
        Self { below, ..self }.span()
    }

    /// Returns where the value would be if the client had never been late.
    fn span(self) -> Span {
        let known = self.value - f64::from(self.too_high);
        Span {
            low: (known - f64::from(self.below)).max(0.0),
            high: (known + f64::from(self.above)).max(0.0),
        }
    }
}

/// The values of a metric.
#[derive(Debug, Clone, Default)]
struct Timings {
    all: Column<Timing>,
    /// Whether any request was due at a certain time.
    had_due: bool,
    /// The same values, for the bounds so far, by [`Reading`].
    so_far: [Histogram; 4],
}

impl Timings {
    fn push(&mut self, timing: Timing, late: Option<f64>) {
        let timing = Timing { late: late.unwrap_or(0.0) as f32, ..timing };
        self.had_due |= late.is_some();
        self.all.push(timing);
        for (values, reading) in self.so_far.iter_mut().zip(Reading::ALL) {
            values.add(timing.read(reading).round() as u64, 1);
        }
    }

    /// Computes the bounds; responses likely end at most `gap` after their last content.
    fn bounds(&self, gap: Option<f64>) -> Option<MetricBounds> {
        let count = self.all.len() as u64;
        let values = |reading| move || self.all.iter().map(move |timing| timing.read(reading));
        let statistics = |reading| {
            let [p50, p99] = percentiles_of(values(reading), PERCENTS)?;
            Some([exact_sum(values(reading)()) / count as f64, p50, p99])
        };
        let mut bounds = self.with(count, &statistics)?;
        let intervals = PERCENTS.map(|percent| order::interval(count, percent / 100.0));
        let ranks = intervals.iter().flat_map(|Interval { low, high }| [*low, *high]).flatten();
        let found = sorted_at(values(Reading::Measured), ranks);
        for (bound, Interval { low, high }) in
            [&mut bounds.p50, &mut bounds.p99].into_iter().zip(intervals)
        {
            let at = |rank: Option<u64>| found.get(&rank?).map(|nanos| nanos / 1e6);
            bound.sample_below = at(low).map(|low| bound.value - low);
            bound.sample_above = at(high).map(|high| high - bound.value);
        }
        let spans = || self.all.iter().map(|timing| timing.likely_span(gap));
        bounds.avg.set_likely(likely::mean(spans));
        for (bound, percent) in [&mut bounds.p50, &mut bounds.p99].into_iter().zip(PERCENTS) {
            bound
                .set_likely(likely::percentile(spans, &Neighbours::at_percent(percent, count - 1)));
        }
        Some(bounds)
    }

    fn bounds_so_far(&self) -> Option<MetricBounds> {
        let statistics = |reading: Reading| {
            let values = &self.so_far[reading as usize];
            let [p50, p99] = PERCENTS.map(|percent| values.interpolated(percent));
            Some([values.mean()?, p50?, p99?])
        };
        self.with(self.all.len() as u64, &statistics)
    }

    /// Returns the bounds by the mean and the [`PERCENTS`] of each reading, without the confidence
    /// intervals.
    fn with(
        &self,
        count: u64,
        statistics: &dyn Fn(Reading) -> Option<[f64; 3]>,
    ) -> Option<MetricBounds> {
        let [measured, lowest, highest, from_due] = Reading::ALL.map(statistics);
        let (measured, lowest, highest, from_due) = (measured?, lowest?, highest?, from_due?);
        let bound = |at: usize| Bound {
            value: measured[at] / 1e6,
            below: (measured[at] - lowest[at]) / 1e6,
            above: (highest[at] - measured[at]) / 1e6,
            late: self.had_due.then(|| (from_due[at] - measured[at]) / 1e6),
            ..Bound::default()
        };
        let [p50, p99] = [0, 1].map(|at| {
            let needed = order::needed(PERCENTS[at] / 100.0);
            let requests_needed = Some(needed).filter(|needed| count < *needed);
            Bound { requests_needed, ..bound(at + 1) }
        });
        Some(MetricBounds { count, avg: bound(0), p50, p99 })
    }
}
