//! Compares the two halves of the reader: every series that was kept exactly
//! with the point that the last cumulative export has for it.

use std::collections::{BTreeMap, HashMap, HashSet};

use opentelemetry_proto::tonic::collector::metrics::v1::ExportMetricsServiceRequest;
use opentelemetry_proto::tonic::common::v1::any_value::Value as AnyValue;
use opentelemetry_proto::tonic::common::v1::{AnyValue as Wrapped, KeyValue};
use opentelemetry_proto::tonic::metrics::v1::metric::Data;
use opentelemetry_proto::tonic::metrics::v1::number_data_point::Value as Number;
use opentelemetry_proto::tonic::metrics::v1::{
    ExponentialHistogramDataPoint, HistogramDataPoint, exponential_histogram_data_point,
};

use super::exact::{Buckets, EXPONENTIAL_MAX_SCALE, Exact, Exponential, Series};

/// Sums may differ by this much of the sum of magnitudes: threads add in any order.
const SUM_TOLERANCE: f64 = 1e-9;

/// The attribute of the point that takes what is above the cardinality limit.
const OVERFLOW: &str = "otel.metric.overflow";

/// More than this many differences say nothing more.
const MAX_DISCREPANCIES: usize = 20;

/// Differences between `series` and `exported`, one sentence each; empty when
/// both halves agree.
pub(super) fn compare(series: &[Series], exported: &ExportMetricsServiceRequest) -> Vec<String> {
    let points = points(exported);
    let mut differences = Vec::new();
    let mut expected = HashSet::new();
    for one in series {
        let attributes: Vec<KeyValue> = one.attributes.iter().map(KeyValue::from).collect();
        let key = key(&one.name, &attributes);
        let outcome = match points.get(&key) {
            Some(point) => difference(&one.exact, point),
            None => Some("is not in the final export".into()),
        };
        differences.extend(outcome.map(|what| format!("{key} {what}")));
        expected.insert(key);
    }
    for (key, point) in &points {
        if key.contains(OVERFLOW) {
            differences.push(format!("{key} took values beyond the cardinality limit"));
        } else if !matches!(point, Point::Gauge) && !expected.contains(key) {
            differences.push(format!("{key} is exported, but nothing was recorded for it"));
        }
    }
    differences.sort();
    let more = differences.len().saturating_sub(MAX_DISCREPANCIES);
    if more > 0 {
        differences.truncate(MAX_DISCREPANCIES);
        differences.push(format!("and {more} more"));
    }
    differences
}

/// A data point of the export.
enum Point<'a> {
    Sum(f64),
    /// A last value: there is nothing to add up.
    Gauge,
    Explicit(&'a HistogramDataPoint),
    Exponential(&'a ExponentialHistogramDataPoint),
}

/// Every point of the export by its series' [`key`].
fn points(exported: &ExportMetricsServiceRequest) -> HashMap<String, Point<'_>> {
    let metrics = exported
        .resource_metrics
        .iter()
        .flat_map(|resource| &resource.scope_metrics)
        .flat_map(|scope| &scope.metrics);
    let mut points = HashMap::new();
    for metric in metrics {
        let key = |attributes: &[KeyValue]| key(&metric.name, attributes);
        match &metric.data {
            Some(Data::Sum(sum)) => points.extend(sum.data_points.iter().map(|point| {
                let value = match point.value {
                    Some(Number::AsDouble(value)) => value,
                    Some(Number::AsInt(value)) => value as f64,
                    None => f64::NAN,
                };
                (key(&point.attributes), Point::Sum(value))
            })),
            Some(Data::Gauge(gauge)) => points.extend(
                gauge.data_points.iter().map(|point| (key(&point.attributes), Point::Gauge)),
            ),
            Some(Data::Histogram(histogram)) => points.extend(
                histogram
                    .data_points
                    .iter()
                    .map(|point| (key(&point.attributes), Point::Explicit(point))),
            ),
            Some(Data::ExponentialHistogram(histogram)) => points.extend(
                histogram
                    .data_points
                    .iter()
                    .map(|point| (key(&point.attributes), Point::Exponential(point))),
            ),
            Some(Data::Summary(_)) | None => {}
        }
    }
    points
}

/// `name{a="x",b=1}` with the attributes in order.
fn key(name: &str, attributes: &[KeyValue]) -> String {
    let mut pairs: Vec<String> = attributes
        .iter()
        .map(|pair| match pair.value.as_ref().and_then(inner) {
            Some(AnyValue::StringValue(text)) => format!("{}={text:?}", pair.key),
            Some(AnyValue::IntValue(number)) => format!("{}={number}", pair.key),
            other => format!("{}={other:?}", pair.key),
        })
        .collect();
    pairs.sort();
    format!("{name}{{{}}}", pairs.join(","))
}

fn inner(value: &Wrapped) -> Option<&AnyValue> {
    value.value.as_ref()
}

/// How `point` differs from what it must be.
fn difference(exact: &Exact, point: &Point<'_>) -> Option<String> {
    match (point, &exact.buckets) {
        (Point::Sum(sum), Buckets::None) => sums(exact, Some(*sum)),
        (Point::Explicit(point), Buckets::Explicit(bounds, counts)) => {
            counted(exact, point.count).or_else(|| sums(exact, point.sum)).or_else(|| {
                let same =
                    point.explicit_bounds[..] == bounds[..] && point.bucket_counts == *counts;
                (!same).then(|| {
                    format!("has bucket counts {:?} instead of {counts:?}", point.bucket_counts)
                })
            })
        }
        (Point::Exponential(point), Buckets::Exponential(buckets)) => counted(exact, point.count)
            .or_else(|| sums(exact, point.sum))
            .or_else(|| exponential(buckets, point)),
        _ => Some("is exported as another kind".into()),
    }
}

fn counted(exact: &Exact, count: u64) -> Option<String> {
    (count != exact.count).then(|| format!("has count {count} instead of {}", exact.count))
}

fn sums(exact: &Exact, sum: Option<f64>) -> Option<String> {
    let sum = sum.unwrap_or(f64::NAN);
    let close = (sum - exact.sum).abs() <= SUM_TOLERANCE * exact.magnitude;
    (!close).then(|| format!("has sum {sum} instead of {}", exact.sum))
}

fn exponential(exact: &Exponential, point: &ExponentialHistogramDataPoint) -> Option<String> {
    let coarser = i32::from(EXPONENTIAL_MAX_SCALE) - point.scale;
    if !(0..31).contains(&coarser) {
        return Some(format!("has the scale {}", point.scale));
    }
    if point.zero_count != exact.zero {
        return Some(format!("has {} zeros instead of {}", point.zero_count, exact.zero));
    }
    let agrees = |exact: &BTreeMap<i32, u64>, exported: Option<&_>| {
        interlaced(&downscaled(exact, coarser), &indexed(exported))
    };
    let same = agrees(&exact.positive, point.positive.as_ref())
        && agrees(&exact.negative, point.negative.as_ref());
    (!same).then(|| "has other bucket counts than were recorded".into())
}

/// Counts at a scale that is `coarser` steps lower: each step joins two buckets.
fn downscaled(fine: &BTreeMap<i32, u64>, coarser: i32) -> BTreeMap<i32, u64> {
    let mut coarse = BTreeMap::new();
    for (index, count) in fine {
        *coarse.entry(index >> coarser).or_default() += count;
    }
    coarse
}

/// Exported buckets by index.
fn indexed(buckets: Option<&exponential_histogram_data_point::Buckets>) -> BTreeMap<i32, u64> {
    let Some(buckets) = buckets else { return BTreeMap::new() };
    (buckets.offset..)
        .zip(&buckets.bucket_counts)
        .filter(|(_, count)| **count > 0)
        .map(|(index, count)| (index, *count))
        .collect()
}

/// Whether two distributions are the same but for values at a boundary, which
/// rounding may put one bucket further: each running count lies between the
/// other's at the buckets beside it.
fn interlaced(one: &BTreeMap<i32, u64>, other: &BTreeMap<i32, u64>) -> bool {
    let total = |of: &BTreeMap<i32, u64>| of.values().sum::<u64>();
    let indices: Vec<i32> = one.keys().chain(other.keys()).copied().collect();
    let running = |of: &BTreeMap<i32, u64>, to: i32| of.range(..=to).map(|(_, n)| n).sum::<u64>();
    total(one) == total(other)
        && indices.iter().all(|&index| {
            running(one, index - 1) <= running(other, index)
                && running(other, index - 1) <= running(one, index)
        })
}

#[cfg(test)]
mod tests;
