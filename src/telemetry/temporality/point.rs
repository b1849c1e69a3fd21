//! Differences between the totals of a series.

use std::collections::BTreeMap;

use opentelemetry_proto::tonic::common::v1::KeyValue;
use opentelemetry_proto::tonic::metrics::v1::exponential_histogram_data_point::Buckets;
use opentelemetry_proto::tonic::metrics::v1::number_data_point::Value;
use opentelemetry_proto::tonic::metrics::v1::{
    ExponentialHistogramDataPoint, HistogramDataPoint, NumberDataPoint,
};

/// The totals of a series at some time, without attributes and exemplars.
#[derive(Debug)]
pub(super) enum Total {
    Number(NumberDataPoint),
    Explicit(HistogramDataPoint),
    Exponential(ExponentialHistogramDataPoint),
}

/// What has happened to a series between two times.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Change {
    /// Nothing was added.
    None,
    /// Something was added.
    Grown,
    /// The totals have begun anew.
    Restarted,
}

/// A data point with totals, which can be converted to the difference from earlier ones.
pub(super) trait Point {
    fn attributes(&self) -> &[KeyValue];

    /// Returns the start of the interval that it covers, in nanoseconds since the epoch.
    fn start(&self) -> u64;

    fn set_start(&mut self, start: u64);

    /// Returns the end of that interval, in nanoseconds since the epoch.
    fn time(&self) -> u64;

    /// Returns its values and times.
    fn total(&self) -> Total;

    /// Returns `total` as a point of this type; `None` if it has another.
    fn from_total(total: &Total) -> Option<&Self>;

    /// Subtracts earlier totals, unless the series has restarted since.
    fn subtract(&mut self, before: &Self) -> Change;
}

/// The members that all data points have.
macro_rules! fields {
    () => {
        fn attributes(&self) -> &[KeyValue] {
            &self.attributes
        }

        fn start(&self) -> u64 {
            self.start_time_unix_nano
        }

        fn set_start(&mut self, start: u64) {
            self.start_time_unix_nano = start;
        }

        fn time(&self) -> u64 {
            self.time_unix_nano
        }
    };
}

impl Point for NumberDataPoint {
    fields!();

    fn total(&self) -> Total {
        Total::Number(Self { attributes: Vec::new(), exemplars: Vec::new(), ..*self })
    }

    fn from_total(total: &Total) -> Option<&Self> {
        if let Total::Number(point) = total { Some(point) } else { None }
    }

    fn subtract(&mut self, before: &Self) -> Change {
        let (now, earlier) = (number(self.value), number(before.value));
        if !now.is_finite() || now == earlier {
            return Change::None;
        }
        if is_restarted(self.start(), before) || earlier.is_nan() || now < earlier {
            return Change::Restarted;
        }
        self.value = match (self.value, before.value) {
            (Some(Value::AsInt(now)), Some(Value::AsInt(before))) => {
                Some(Value::AsInt(now.saturating_sub(before)))
            }
            _ => Some(Value::AsDouble(now - earlier)),
        };
        Change::Grown
    }
}

fn number(value: Option<Value>) -> f64 {
    match value {
        Some(Value::AsDouble(value)) => value,
        Some(Value::AsInt(value)) => value as f64,
        None => f64::NAN,
    }
}

impl Point for HistogramDataPoint {
    fields!();

    fn total(&self) -> Total {
        Total::Explicit(Self {
            attributes: Vec::new(),
            exemplars: Vec::new(),
            bucket_counts: self.bucket_counts.clone(),
            explicit_bounds: self.explicit_bounds.clone(),
            ..*self
        })
    }

    fn from_total(total: &Total) -> Option<&Self> {
        if let Total::Explicit(point) = total { Some(point) } else { None }
    }

    fn subtract(&mut self, before: &Self) -> Change {
        if is_restarted(self.start(), before) || self.explicit_bounds != before.explicit_bounds {
            return Change::Restarted;
        }
        let (now, earlier) = (&self.bucket_counts, &before.bucket_counts);
        let buckets = now.iter().zip(earlier).map(|(now, earlier)| now.checked_sub(*earlier));
        let buckets: Option<Vec<u64>> = buckets.collect();
        let (Some(count), Some(buckets)) = (self.count.checked_sub(before.count), buckets) else {
            return Change::Restarted;
        };
        if count == 0 {
            return Change::None;
        }
        self.count = count;
        self.bucket_counts = buckets;
        self.sum = difference(self.sum, before.sum);
        // The totals do not tell which values are new.
        (self.min, self.max) = (None, None);
        Change::Grown
    }
}

impl Point for ExponentialHistogramDataPoint {
    fields!();

    fn total(&self) -> Total {
        Total::Exponential(Self {
            attributes: Vec::new(),
            exemplars: Vec::new(),
            positive: self.positive.clone(),
            negative: self.negative.clone(),
            ..*self
        })
    }

    fn from_total(total: &Total) -> Option<&Self> {
        if let Total::Exponential(point) = total { Some(point) } else { None }
    }

    fn subtract(&mut self, before: &Self) -> Change {
        let Some(earlier) = Coarse::downscaled(before, self.scale, self.zero_threshold) else {
            return Change::Restarted;
        };
        let positive = without(self.positive.as_ref(), &earlier.positive);
        let negative = without(self.negative.as_ref(), &earlier.negative);
        let counts =
            (self.count.checked_sub(before.count), self.zero_count.checked_sub(earlier.zero_count));
        let (Some(positive), Some(negative), (Some(count), Some(zero_count))) =
            (positive, negative, counts)
        else {
            return Change::Restarted;
        };
        if is_restarted(self.start(), before) {
            return Change::Restarted;
        }
        if count == 0 {
            return Change::None;
        }
        (self.count, self.zero_count) = (count, zero_count);
        (self.positive, self.negative) = (Some(positive), Some(negative));
        self.sum = difference(self.sum, before.sum);
        (self.min, self.max) = (None, None);
        Change::Grown
    }
}

/// Returns whether a series that began at `start` has begun after the time of `before`.
fn is_restarted(start: u64, before: &impl Point) -> bool {
    start > before.time()
}

fn difference(now: Option<f64>, before: Option<f64>) -> Option<f64> {
    Some(now? - before?)
}

/// The buckets of an exponential histogram at a coarser scale and with a wider zero bucket.
struct Coarse {
    positive: BTreeMap<i32, u64>,
    negative: BTreeMap<i32, u64>,
    zero_count: u64,
}

impl Coarse {
    /// Returns `None` if `scale` is finer than that of `point`, or `zero_threshold` narrower.
    fn downscaled(
        point: &ExponentialHistogramDataPoint,
        scale: i32,
        zero_threshold: f64,
    ) -> Option<Self> {
        let shift = u32::try_from(point.scale.checked_sub(scale)?).ok()?;
        if zero_threshold < point.zero_threshold {
            return None;
        }
        let mut coarse = Self {
            positive: BTreeMap::new(),
            negative: BTreeMap::new(),
            zero_count: point.zero_count,
        };
        let sides =
            [(&point.positive, &mut coarse.positive), (&point.negative, &mut coarse.negative)];
        for (buckets, side) in sides {
            let Some(Buckets { offset, bucket_counts }) = buckets else { continue };
            for (index, count) in (*offset..).zip(bucket_counts).filter(|(_, count)| **count > 0) {
                // Two neighbours become one with each step.
                let index = index >> shift.min(31);
                // The upper bound is base^(index + 1) with base 2^(2^-scale).
                let upper = (f64::from(index) + 1.0) * (-f64::from(scale)).exp2();
                if upper.exp2() <= zero_threshold {
                    coarse.zero_count += count;
                } else {
                    *side.entry(index).or_default() += count;
                }
            }
        }
        Some(coarse)
    }
}

/// Subtracts the counts of `before`. `None` if one of them is larger.
fn without(now: Option<&Buckets>, before: &BTreeMap<i32, u64>) -> Option<Buckets> {
    let mut now = now.cloned().unwrap_or_default();
    for (index, count) in before {
        let place = usize::try_from(index.checked_sub(now.offset)?).ok()?;
        let bucket = now.bucket_counts.get_mut(place)?;
        *bucket = bucket.checked_sub(*count)?;
    }
    Some(now)
}
