//! Exemplars: single values of histograms and counters, with the trace of the request that they are
//! from.
//!
//! The SDK does not have any, so they are collected beside it, where values are recorded, and added
//! to the exported points just before these are encoded. Each series has a reservoir, which an
//! export empties; what a failed export contained is put back.

mod reservoir;
#[cfg(test)]
mod tests;

use std::collections::HashMap;
use std::sync::Arc;

use opentelemetry::KeyValue;
use opentelemetry_proto::tonic::collector::metrics::v1::ExportMetricsServiceRequest;
use opentelemetry_proto::tonic::common::v1::KeyValue as ProtoKeyValue;
use opentelemetry_proto::tonic::metrics::v1::metric::Data;
use opentelemetry_proto::tonic::metrics::v1::{Exemplar, exemplar};
use opentelemetry_proto::transform::common::tonic::Attributes;

use base::lock::Lock;
use base::semconv::{InstrumentKind, MetricSpec};
use base::setting::named;
use base::units::Clock;
use client::record::TraceContext;

use super::protobuf::attributes_key;

use self::reservoir::{Reservoir, Sample};

/// The requests whose values may become exemplars (`OTEL_METRICS_EXEMPLAR_FILTER`).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) enum ExemplarFilter {
    /// All, although most do not have an exported trace.
    AlwaysOn,
    /// None.
    AlwaysOff,
    /// Those whose traces are exported.
    #[default]
    TraceBased,
}

named! {
    ExemplarFilter {
        "always_on" => AlwaysOn,
        "always_off" => AlwaysOff,
        "trace_based" => TraceBased,
    }
}

impl ExemplarFilter {
    /// Returns whether any request may be selected in a run that exports traces, or does not.
    pub(super) const fn may_select(self, has_traces: bool) -> bool {
        match self {
            Self::AlwaysOn => true,
            Self::TraceBased => has_traces,
            Self::AlwaysOff => false,
        }
    }
}

/// Number of exemplars of an exponential histogram in an export.
const OF_EXPONENTIAL: usize = 20;

/// The reservoir of a series.
pub(super) type Slot = Arc<Lock<Reservoir>>;

/// The reservoirs of all series.
#[derive(Debug)]
pub(super) struct Exemplars {
    exponential: bool,
    /// Whether points cover the whole run, and therefore keep earlier exemplars.
    is_cumulative: bool,
    /// By the name of the metric and its attributes.
    slots: Lock<HashMap<Vec<u8>, Slot>>,
}

/// What becomes of the values of a request.
#[derive(Debug)]
pub(super) enum Offers {
    /// They are not exemplars.
    None,
    /// They are exemplars: the trace of the request, and the current time in nanoseconds since the
    /// epoch.
    Now(TraceContext, u64),
    /// They may become exemplars at the end of the run: the largest value of each series.
    Later(TraceContext, Vec<(Slot, f64)>),
}

/// The exemplars of an export.
#[derive(Debug, Default)]
pub(super) struct Attached(Vec<(Slot, Vec<Sample>)>);

impl Exemplars {
    /// Creates reservoirs for histograms that are `exponential` or explicit, and points that are
    /// cumulative or differences.
    pub(super) fn new(exponential: bool, is_cumulative: bool) -> Self {
        Self { exponential, is_cumulative, slots: Lock::default() }
    }

    /// Returns the reservoir of a series of the instrument `spec`.
    pub(super) fn slot(&self, spec: &MetricSpec, attributes: &[KeyValue]) -> Slot {
        let attributes = Attributes::from(attributes.iter().cloned()).0;
        let reservoir = || match spec.kind {
            InstrumentKind::Histogram if self.exponential => Reservoir::of_values(OF_EXPONENTIAL),
            InstrumentKind::Histogram => Reservoir::of_buckets(&spec.boundaries),
            _ => Reservoir::of_values(1),
        };
        let mut slots = self.slots.lock();
        let slot = slots.entry(key(&spec.name, &attributes));
        Arc::clone(slot.or_insert_with(|| Arc::new(Lock::new(reservoir()))))
    }

    /// Adds the exemplars of its interval to each point of `message`. Those that were recorded since
    /// the last export leave their reservoirs.
    pub(super) fn attach(&self, message: &mut ExportMetricsServiceRequest) -> Attached {
        let slots = self.slots.lock();
        let mut attached = Attached::default();
        let resources = message.resource_metrics.iter_mut();
        let scopes = resources.flat_map(|resource| &mut resource.scope_metrics);
        for metric in scopes.flat_map(|scope| &mut scope.metrics) {
            let name = &metric.name;
            let mut of = |attributes: &[ProtoKeyValue], time| {
                let Some(slot) = slots.get(&key(name, attributes)) else { return Vec::new() };
                let mut reservoir = slot.lock();
                let samples = reservoir.take_until(time);
                let exemplars = if self.is_cumulative {
                    reservoir.with_earlier(&samples).iter().map(exemplar).collect()
                } else {
                    samples.iter().map(exemplar).collect()
                };
                drop(reservoir);
                if !samples.is_empty() {
                    attached.0.push((Arc::clone(slot), samples));
                }
                exemplars
            };
            match &mut metric.data {
                Some(Data::Sum(sum)) => {
                    for point in &mut sum.data_points {
                        point.exemplars = of(&point.attributes, point.time_unix_nano);
                    }
                }
                Some(Data::Histogram(histogram)) => {
                    for point in &mut histogram.data_points {
                        point.exemplars = of(&point.attributes, point.time_unix_nano);
                    }
                }
                Some(Data::ExponentialHistogram(histogram)) => {
                    for point in &mut histogram.data_points {
                        point.exemplars = of(&point.attributes, point.time_unix_nano);
                    }
                }
                Some(Data::Gauge(_) | Data::Summary(_)) | None => {}
            }
        }
        attached
    }
}

impl Attached {
    /// Puts the exemplars of a failed export back, for the next one.
    pub(super) fn restore(self) {
        for (slot, samples) in self.0 {
            let mut reservoir = slot.lock();
            for sample in samples {
                reservoir.offer(sample);
            }
        }
    }
}

impl Offers {
    /// Creates the offers of a request whose trace is exported.
    pub(super) fn now(context: TraceContext) -> Self {
        Self::Now(context, Clock::wall_now_ns())
    }

    /// Offers a value of a series.
    pub(super) fn offer(&mut self, slot: &Slot, value: f64) {
        match self {
            Self::None => {}
            Self::Now(context, at) => {
                slot.lock().offer(Sample { value, at: *at, context: *context });
            }
            Self::Later(_, offered) => match offered.last_mut() {
                // The values of a list follow each other.
                Some((last, largest)) if Arc::ptr_eq(last, slot) => *largest = largest.max(value),
                _ => offered.push((Arc::clone(slot), value)),
            },
        }
    }

    /// Makes exemplars of the values that were offered for later.
    pub(super) fn redeem(self) {
        if let Self::Later(context, offered) = self {
            let at = Clock::wall_now_ns();
            for (slot, value) in offered {
                slot.lock().offer(Sample { value, at, context });
            }
        }
    }
}

/// Returns bytes that identify a series.
fn key(name: &str, attributes: &[ProtoKeyValue]) -> Vec<u8> {
    [name.as_bytes(), b"\0", &attributes_key(attributes)].concat()
}

fn exemplar(sample: &Sample) -> Exemplar {
    Exemplar {
        time_unix_nano: sample.at,
        value: Some(exemplar::Value::AsDouble(sample.value)),
        trace_id: sample.context.trace_id.to_vec(),
        span_id: sample.context.span_id.to_vec(),
        ..Exemplar::default()
    }
}
