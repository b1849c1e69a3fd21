//! Delta temporality: each export contains what was added since the last one that was accepted.
//!
//! The values are kept as totals everywhere else. Here totals are subtracted from each other, just
//! before a message is encoded. Only an accepted message becomes the base of the next, so that the
//! values of a failed export are part of the next one: none is lost, and none is sent twice.

mod point;
#[cfg(test)]
mod tests;

use std::collections::HashMap;

use bytes::Bytes;
use opentelemetry_proto::tonic::collector::metrics::v1::ExportMetricsServiceRequest;
use opentelemetry_proto::tonic::metrics::v1::metric::Data;
use opentelemetry_proto::tonic::metrics::v1::{
    AggregationTemporality, Metric, ResourceMetrics, ScopeMetrics,
};
use prost::Message as _;

use base::setting::named;

use super::protobuf::attributes_key;

use self::point::{Change, Point, Total};

/// What the exported counters and histograms cover: everything since the start of the run, or what
/// was added since the last export.
///
/// The last two differ only for asynchronous instruments, of which aiperf has none.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Temporality {
    /// Totals of the run.
    #[default]
    Cumulative,
    /// Differences from the last export.
    Delta,
    /// The same, from instruments that need no memory for it.
    LowMemory,
}

named! {
    Temporality {
        "cumulative" => Cumulative,
        "delta" => Delta,
        "low_memory" => LowMemory,
        // As the standard variable has it.
        "lowmemory" => LowMemory,
    }
}

impl Temporality {
    /// Returns whether differences are exported.
    pub(super) fn is_delta(self) -> bool {
        self != Self::Cumulative
    }
}

const CUMULATIVE: i32 = AggregationTemporality::Cumulative as i32;
const DELTA: i32 = AggregationTemporality::Delta as i32;

/// The accepted totals, which the next message is compared with.
#[derive(Debug)]
pub(super) struct Deltas {
    /// Whether the first totals of a series are its first difference. Otherwise they were counted
    /// before anybody listened, and are only a base.
    counts_from_start: bool,
    accepted: Targets,
}

/// What becomes the base once a message is accepted.
#[derive(Debug, Default)]
pub(super) struct Pending(Targets);

/// Totals by encoded resource.
type Targets = HashMap<Vec<u8>, Target>;

/// The totals of one resource.
#[derive(Debug, Default)]
struct Target {
    /// Time of the latest ones, in nanoseconds since the epoch; 0 before the first.
    latest: u64,
    /// The totals by series: scope, metric and attributes.
    series: HashMap<Vec<u8>, Total>,
}

impl Deltas {
    /// Creates a base for instruments that begin with the run.
    pub(super) fn of_run() -> Self {
        Self { counts_from_start: true, accepted: Targets::new() }
    }

    /// Creates a base for totals of servers, which have counted before.
    pub(super) fn of_servers() -> Self {
        Self { counts_from_start: false, accepted: Targets::new() }
    }

    /// Converts a message with totals to one with differences from the base, and returns it with
    /// what to [`accept`](Deltas::accept) once the collector has it. Series without change are
    /// omitted; sums that may fall, gauges and summaries are not changed.
    pub(super) fn convert(
        &mut self,
        mut message: ExportMetricsServiceRequest,
    ) -> (ExportMetricsServiceRequest, Pending) {
        let mut pending = Targets::new();
        message.resource_metrics.retain_mut(|resource| self.resource(resource, &mut pending));
        (message, Pending(pending))
    }

    /// Like [`Deltas::convert`], for an encoded message. The result is empty if nothing has
    /// changed.
    pub(super) fn convert_encoded(&mut self, body: &Bytes) -> (Bytes, Pending) {
        let Ok(message) = ExportMetricsServiceRequest::decode(body.clone()) else {
            return (body.clone(), Pending::default());
        };
        let (message, pending) = self.convert(message);
        (message.encode_to_vec().into(), pending)
    }

    /// Makes the totals of an accepted message the base of the next.
    pub(super) fn accept(&mut self, Pending(targets): Pending) {
        for (key, target) in targets {
            let accepted = self.accepted.entry(key).or_default();
            accepted.latest = accepted.latest.max(target.latest);
            accepted.series.extend(target.series);
        }
    }

    /// Converts the metrics of a resource. Returns whether any are left.
    fn resource(&mut self, resource: &mut ResourceMetrics, pending: &mut Targets) -> bool {
        let of = resource.resource.as_ref().map_or(&[][..], |resource| &resource.attributes);
        let key = attributes_key(of);
        let accepted = self.accepted.entry(key.clone()).or_default();
        let pending = pending.entry(key).or_default();
        let mut converter = Converter {
            counts_from_start: self.counts_from_start,
            since: accepted.latest.max(pending.latest),
            until: 0,
            accepted,
            pending,
            stream: Vec::new(),
        };
        resource.scope_metrics.retain_mut(|scope| converter.scope(scope));
        let Converter { since, until, accepted, pending, .. } = converter;
        if since == 0 {
            accepted.latest = until;
        }
        pending.latest = since.max(until);
        !resource.scope_metrics.is_empty()
    }
}

/// Converts the metrics of one resource.
struct Converter<'a> {
    counts_from_start: bool,
    /// Time of the totals before these; 0 if there are none.
    since: u64,
    /// Time of the latest of these totals.
    until: u64,
    accepted: &'a mut Target,
    pending: &'a mut Target,
    /// Scope and name of the current metric.
    stream: Vec<u8>,
}

impl Converter<'_> {
    /// Converts the metrics of a scope. Returns whether any are left.
    fn scope(&mut self, of: &mut ScopeMetrics) -> bool {
        let scope = of.scope.as_ref().map(|scope| scope.name.clone()).unwrap_or_default();
        of.metrics.retain_mut(|metric| {
            self.stream = [scope.as_bytes(), b"\0", metric.name.as_bytes(), b"\0"].concat();
            self.metric(metric)
        });
        !of.metrics.is_empty()
    }

    /// Converts a metric. Returns whether any of its points are left.
    fn metric(&mut self, metric: &mut Metric) -> bool {
        match &mut metric.data {
            Some(Data::Sum(sum))
                if sum.is_monotonic && sum.aggregation_temporality == CUMULATIVE =>
            {
                sum.aggregation_temporality = DELTA;
                self.points(&mut sum.data_points)
            }
            Some(Data::Histogram(of)) if of.aggregation_temporality == CUMULATIVE => {
                of.aggregation_temporality = DELTA;
                self.points(&mut of.data_points)
            }
            Some(Data::ExponentialHistogram(of)) if of.aggregation_temporality == CUMULATIVE => {
                of.aggregation_temporality = DELTA;
                self.points(&mut of.data_points)
            }
            // Sums that may fall have to be cumulative, and the others do not have a temporality.
            Some(Data::Sum(sum)) => !sum.data_points.is_empty(),
            other => other.is_some(),
        }
    }

    fn points<P: Point>(&mut self, points: &mut Vec<P>) -> bool {
        points.retain_mut(|point| self.point(point));
        !points.is_empty()
    }

    /// Converts a point to the difference from the totals before. Returns whether it has one.
    fn point<P: Point>(&mut self, point: &mut P) -> bool {
        let (total, time) = (point.total(), point.time());
        self.until = self.until.max(time);
        let key = [self.stream.as_slice(), &attributes_key(point.attributes())].concat();
        let before = self.pending.series.get(&key).or_else(|| self.accepted.series.get(&key));
        let start = match before.and_then(P::from_total) {
            // There is no interval between totals of the same time.
            Some(before) if before.time() >= time => return false,
            Some(before) => match point.subtract(before) {
                Change::None => return false,
                Change::Grown => before.time(),
                // An unknown start is somewhere between the two.
                Change::Restarted => point.start().max(before.time()),
            },
            None if self.counts_from_start => point.start(),
            // The server counts something that it did not have before.
            None if self.since > 0 && self.since < time => self.since,
            None => {
                self.accepted.series.insert(key, total);
                return false;
            }
        };
        point.set_start(start);
        self.pending.series.insert(key, total);
        true
    }
}
