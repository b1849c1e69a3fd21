//! Packs metrics into requests of a size that a collector accepts.
//!
//! Each metric is encoded once, when it arrives, and only the bytes are kept, whose size is known.
//! A request consists of its resource and scopes, encoded beforehand, followed by the metrics.

use std::collections::HashMap;

use bytes::Bytes;
use opentelemetry_proto::tonic::common::v1::InstrumentationScope;
use opentelemetry_proto::tonic::metrics::v1::metric::Data;
use opentelemetry_proto::tonic::metrics::v1::{
    ExponentialHistogram, Gauge, Histogram, Metric, ResourceMetrics, ScopeMetrics, Sum, Summary,
};
use prost::Message as _;
use prost::encoding::message;

use otlp::append;

use super::super::protobuf::FRAME;

/// `ExportMetricsServiceRequest.resource_metrics`
const RESOURCE_METRICS: u32 = 1;
/// `ResourceMetrics.scope_metrics`
const SCOPE_METRICS: u32 = 2;
/// `ScopeMetrics.metrics`
const METRICS: u32 = 2;

/// An encoded `ExportMetricsServiceRequest`.
#[derive(Debug, Clone)]
pub(super) struct Request {
    pub(super) body: Bytes,
    /// Number of data points in it.
    pub(super) points: u64,
}

/// The scope of a metric, with the conventions that its name follows.
pub(super) struct Scope {
    /// Name, version and attributes.
    pub(super) scope: InstrumentationScope,
    /// The schema URL, which may be empty.
    pub(super) schema_url: String,
}

/// Fills requests with the metrics of one resource.
pub(super) struct Packer {
    /// An encoded `ResourceMetrics` without its metrics.
    resource: Vec<u8>,
    scopes: Vec<Filling>,
    /// Indices in `scopes`, by their heads.
    places: HashMap<Vec<u8>, usize>,
    /// Size in bytes and number of points of the current request.
    bytes: usize,
    points: u64,
    most_bytes: usize,
    requests: Vec<Request>,
    /// Number of points that are too large for any request.
    oversized: u64,
}

/// The metrics of one scope in the current request.
struct Filling {
    /// An encoded `ScopeMetrics` without its metrics.
    head: Vec<u8>,
    metrics: Vec<u8>,
}

impl Packer {
    /// Creates a packer for requests of at most `most_bytes`, whose metrics have the resource
    /// `resource` and, by default, the scope `scope`, which has the index 0.
    pub(super) fn new(resource: &ResourceMetrics, scope: Scope, most_bytes: usize) -> Self {
        let resource = resource.encode_to_vec();
        let bytes = FRAME + resource.len();
        let mut packer = Self {
            resource,
            scopes: Vec::new(),
            places: HashMap::new(),
            bytes,
            points: 0,
            most_bytes,
            requests: Vec::new(),
            oversized: 0,
        };
        packer.scope(scope);
        packer
    }

    pub(super) fn scope(&mut self, scope: Scope) -> usize {
        let Scope { scope, schema_url } = scope;
        let head = ScopeMetrics { scope: Some(scope), metrics: Vec::new(), schema_url };
        let head = head.encode_to_vec();
        let number = *self.places.entry(head.clone()).or_insert(self.scopes.len());
        if number == self.scopes.len() {
            self.scopes.push(Filling { head, metrics: Vec::new() });
        }
        number
    }

    /// Adds `metric` to a scope, split into as many requests as necessary.
    pub(super) fn push(&mut self, scope: usize, metric: Metric) {
        let length = FRAME + metric.encoded_len();
        let alone = 2 * FRAME + self.resource.len() + self.scopes[scope].head.len() + length;
        if alone > self.most_bytes {
            return self.push_halves(scope, metric);
        }
        if self.bytes + self.cost_of_scope(scope) + length > self.most_bytes {
            self.close();
        }
        self.bytes += self.cost_of_scope(scope) + length;
        self.points += points(&metric);
        message::encode(METRICS, &metric, &mut self.scopes[scope].metrics);
    }

    fn push_halves(&mut self, scope: usize, metric: Metric) {
        let count = points(&metric);
        match halves(metric) {
            Some((first, second)) => {
                self.push(scope, first);
                self.push(scope, second);
            }
            None => self.oversized += count,
        }
    }

    /// Returns the size that the first metric of a scope adds to a request.
    fn cost_of_scope(&self, scope: usize) -> usize {
        let scope = &self.scopes[scope];
        if scope.metrics.is_empty() { FRAME + scope.head.len() } else { 0 }
    }

    /// Ends the current request.
    fn close(&mut self) {
        if self.points == 0 {
            return;
        }
        let mut content = self.resource.clone();
        for scope in self.scopes.iter_mut().filter(|scope| !scope.metrics.is_empty()) {
            append(SCOPE_METRICS, &[&scope.head, &scope.metrics], &mut content);
            scope.metrics.clear();
        }
        let mut body = Vec::with_capacity(FRAME + content.len());
        append(RESOURCE_METRICS, &[&content], &mut body);
        self.requests.push(Request { body: body.into(), points: self.points });
        self.bytes = FRAME + self.resource.len();
        self.points = 0;
    }

    /// Returns the requests, and the number of points that do not fit into any.
    pub(super) fn finish(mut self) -> (Vec<Request>, u64) {
        self.close();
        (self.requests, self.oversized)
    }
}

/// Returns the number of data points of a metric.
fn points(metric: &Metric) -> u64 {
    let count = match &metric.data {
        Some(Data::Gauge(gauge)) => gauge.data_points.len(),
        Some(Data::Sum(sum)) => sum.data_points.len(),
        Some(Data::Histogram(histogram)) => histogram.data_points.len(),
        Some(Data::ExponentialHistogram(histogram)) => histogram.data_points.len(),
        Some(Data::Summary(summary)) => summary.data_points.len(),
        None => 0,
    };
    count as u64
}

/// Splits a metric into two, each with half of the points; `None` if there is only one point.
fn halves(mut first: Metric) -> Option<(Metric, Metric)> {
    fn half<T>(points: &mut Vec<T>) -> Vec<T> {
        points.split_off(points.len() / 2)
    }
    if points(&first) < 2 {
        return None;
    }
    let data = match first.data.as_mut()? {
        Data::Gauge(of) => Data::Gauge(Gauge { data_points: half(&mut of.data_points) }),
        Data::Sum(of) => Data::Sum(Sum { data_points: half(&mut of.data_points), ..*of }),
        Data::Histogram(of) => {
            Data::Histogram(Histogram { data_points: half(&mut of.data_points), ..*of })
        }
        Data::ExponentialHistogram(of) => Data::ExponentialHistogram(ExponentialHistogram {
            data_points: half(&mut of.data_points),
            ..*of
        }),
        Data::Summary(of) => Data::Summary(Summary { data_points: half(&mut of.data_points) }),
    };
    let second = Metric {
        name: first.name.clone(),
        description: first.description.clone(),
        unit: first.unit.clone(),
        metadata: first.metadata.clone(),
        data: Some(data),
    };
    Some((first, second))
}
