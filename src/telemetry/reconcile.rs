//! Compares the final export with the totals of the files, the phases and the queue.
//!
//! Telemetry is not involved in these totals, so that a value that is lost or recorded twice on its
//! way to the SDK or within it is detected. The points of an instrument are summed over all
//! attribute sets of a phase, because the files do not distinguish these.

mod expected;

use std::collections::HashMap;

use opentelemetry_proto::tonic::collector::metrics::v1::ExportMetricsServiceRequest;
use opentelemetry_proto::tonic::common::v1::KeyValue;
use opentelemetry_proto::tonic::common::v1::any_value::Value as AnyValue;
use opentelemetry_proto::tonic::metrics::v1::metric::Data;
use opentelemetry_proto::tonic::metrics::v1::number_data_point::Value as Number;
use opentelemetry_proto::tonic::metrics::v1::{
    ExponentialHistogramDataPoint, HistogramDataPoint, Metric, NumberDataPoint,
};

use base::semconv::{InstrumentKind, MetricSpec};

pub use self::expected::RunTotals;
pub(super) use self::expected::{Expected, of_client, of_outputs, of_phases, of_requests};

/// Attribute of the point that collects values above the cardinality limit.
const OVERFLOW: &str = "otel.metric.overflow";

/// Maximum number of differences that are reported.
const MAX_DISCREPANCIES: usize = 20;

/// Returns the differences between what is `expected` and what was `exported`, one
/// sentence each; empty if they agree. Histograms must be `exponential`, or have explicit
/// bounds otherwise.
pub(super) fn compare(
    expected: &[Expected],
    exported: &ExportMetricsServiceRequest,
    exponential: bool,
) -> Vec<String> {
    let mut by_name: HashMap<&str, Vec<Compared<'_>>> = HashMap::new();
    for one in expected {
        by_name.entry(&one.spec.name).or_default().push(Compared::new(one));
    }
    let mut differences = Vec::new();
    for metric in metrics(exported) {
        let mut points = points(metric);
        points.retain(|point| {
            let is_overflow = point.attributes().iter().any(|pair| pair.key == OVERFLOW);
            if is_overflow {
                let key = key(&metric.name, point.attributes());
                differences.push(format!("{key} has values beyond the cardinality limit"));
            }
            !is_overflow
        });
        let shape = Shape::of_data(metric);
        match by_name.get_mut(metric.name.as_str()) {
            Some(compared) if compared.iter().any(|one| shape != Some(one.shape(exponential))) => {
                differences.push(format!("{} is exported as another kind", metric.name));
                by_name.remove(metric.name.as_str());
            }
            Some(compared) => differences.extend(take(compared, &metric.name, &points)),
            // A gauge contains a last value, which cannot be summed.
            None if shape == Some(Shape::Gauge) => {}
            None => differences.extend(take(&mut [], &metric.name, &points)),
        }
    }
    differences.extend(by_name.into_values().flatten().filter_map(|one| one.difference()));
    differences.sort();
    let more = differences.len().saturating_sub(MAX_DISCREPANCIES);
    if more > 0 {
        differences.truncate(MAX_DISCREPANCIES);
        differences.push(format!("and {more} more"));
    }
    differences
}

/// Adds the points of the metric `name` to what they are compared with, and returns what
/// is wrong with single points.
fn take(compared: &mut [Compared<'_>], name: &str, points: &[Point<'_>]) -> Vec<String> {
    let mut differences = Vec::new();
    for point in points {
        let key = || key(name, point.attributes());
        match compared.iter_mut().find(|one| one.expected.covers(point.attributes())) {
            Some(one) => {
                one.add(point);
                differences.extend(
                    point.fault(&one.expected.spec).map(|fault| format!("{} {fault}", key())),
                );
            }
            None => {
                differences.push(format!("{} is exported, but nothing was recorded for it", key()));
            }
        }
    }
    differences
}

/// An expectation, and the points found for it.
struct Compared<'a> {
    expected: &'a Expected,
    points: usize,
    count: u64,
    sum: f64,
}

impl<'a> Compared<'a> {
    const fn new(expected: &'a Expected) -> Self {
        Self { expected, points: 0, count: 0, sum: 0.0 }
    }

    fn shape(&self, exponential: bool) -> Shape {
        Shape::of_kind(self.expected.spec.kind, exponential)
    }

    fn add(&mut self, point: &Point<'_>) {
        self.points += 1;
        self.count += point.count();
        self.sum += point.sum();
    }

    fn difference(&self) -> Option<String> {
        let Expected { count, sum, .. } = self.expected;
        let what = if self.points == 0 {
            self.expected.must_be_exported().then(|| "is not in the final export".to_owned())
        } else if let Some(count) = count.filter(|count| *count != self.count) {
            Some(format!("has count {} instead of {count}", self.count))
        } else {
            let sum = sum.as_ref().filter(|sum| !sum.contains(self.sum));
            sum.map(|sum| format!("has sum {} instead of {sum}", self.sum))
        };
        what.map(|what| format!("{} {what}", self.expected))
    }
}

/// The representation of an instrument's data.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Shape {
    Counter,
    UpDownCounter,
    Gauge,
    Explicit,
    Exponential,
}

impl Shape {
    const fn of_kind(kind: InstrumentKind, exponential: bool) -> Self {
        match kind {
            InstrumentKind::Histogram if exponential => Self::Exponential,
            InstrumentKind::Histogram => Self::Explicit,
            InstrumentKind::Counter => Self::Counter,
            InstrumentKind::UpDownCounter => Self::UpDownCounter,
            InstrumentKind::Gauge => Self::Gauge,
        }
    }

    /// Returns `None` for data that no instrument exports.
    const fn of_data(metric: &Metric) -> Option<Self> {
        match &metric.data {
            Some(Data::Sum(sum)) if sum.is_monotonic => Some(Self::Counter),
            Some(Data::Sum(_)) => Some(Self::UpDownCounter),
            Some(Data::Gauge(_)) => Some(Self::Gauge),
            Some(Data::Histogram(_)) => Some(Self::Explicit),
            Some(Data::ExponentialHistogram(_)) => Some(Self::Exponential),
            Some(Data::Summary(_)) | None => None,
        }
    }
}

/// A data point of the export.
enum Point<'a> {
    Number(&'a NumberDataPoint),
    Explicit(&'a HistogramDataPoint),
    Exponential(&'a ExponentialHistogramDataPoint),
}

fn metrics(exported: &ExportMetricsServiceRequest) -> impl Iterator<Item = &Metric> {
    let scopes = exported.resource_metrics.iter().flat_map(|resource| &resource.scope_metrics);
    scopes.flat_map(|scope| &scope.metrics)
}

fn points(metric: &Metric) -> Vec<Point<'_>> {
    match &metric.data {
        Some(Data::Sum(sum)) => sum.data_points.iter().map(Point::Number).collect(),
        Some(Data::Gauge(gauge)) => gauge.data_points.iter().map(Point::Number).collect(),
        Some(Data::Histogram(of)) => of.data_points.iter().map(Point::Explicit).collect(),
        Some(Data::ExponentialHistogram(of)) => {
            of.data_points.iter().map(Point::Exponential).collect()
        }
        Some(Data::Summary(_)) | None => Vec::new(),
    }
}

impl Point<'_> {
    fn attributes(&self) -> &[KeyValue] {
        match self {
            Self::Number(point) => &point.attributes,
            Self::Explicit(point) => &point.attributes,
            Self::Exponential(point) => &point.attributes,
        }
    }

    const fn count(&self) -> u64 {
        match self {
            Self::Number(_) => 0,
            Self::Explicit(point) => point.count,
            Self::Exponential(point) => point.count,
        }
    }

    /// Returns NaN if the point does not have a sum.
    fn sum(&self) -> f64 {
        let sum = match self {
            Self::Number(point) => point.value.map(|value| match value {
                Number::AsDouble(value) => value,
                Number::AsInt(value) => value as f64,
            }),
            Self::Explicit(point) => point.sum,
            Self::Exponential(point) => point.sum,
        };
        sum.unwrap_or(f64::NAN)
    }

    /// Returns what is wrong with the buckets, if anything.
    fn fault(&self, spec: &MetricSpec) -> Option<String> {
        let in_buckets: u64 = match self {
            Self::Number(_) => return None,
            Self::Explicit(point) if point.explicit_bounds != spec.boundaries => {
                return Some("has other bucket bounds than its instrument".into());
            }
            // Without boundaries, buckets are not counted.
            Self::Explicit(point) if point.explicit_bounds.is_empty() => return None,
            Self::Explicit(point) => point.bucket_counts.iter().sum(),
            Self::Exponential(point) => {
                let sides = [&point.positive, &point.negative].into_iter().flatten();
                point.zero_count + sides.flat_map(|side| &side.bucket_counts).sum::<u64>()
            }
        };
        let count = self.count();
        (in_buckets != count)
            .then(|| format!("has {in_buckets} values in its buckets but count {count}"))
    }
}

/// Formats `name{a="x",b=1}`, with the attributes in order.
fn key(name: &str, attributes: &[KeyValue]) -> String {
    let mut pairs: Vec<String> = attributes
        .iter()
        .map(|pair| match pair.value.as_ref().and_then(|value| value.value.as_ref()) {
            Some(AnyValue::StringValue(text)) => format!("{}={text:?}", pair.key),
            Some(AnyValue::IntValue(number)) => format!("{}={number}", pair.key),
            other => format!("{}={other:?}", pair.key),
        })
        .collect();
    pairs.sort();
    format!("{name}{{{}}}", pairs.join(","))
}

#[cfg(test)]
mod tests;
