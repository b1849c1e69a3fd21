//! A compact log of the requests of a phase.

use std::collections::HashSet;
use std::sync::Arc;

use crate::metrics::metric::{Observation, RecordValues, Value};
use crate::metrics::registry::Registry;
use crate::metrics::tag::MetricTag;
use crate::record::RequestError;
use crate::schedule::PhaseKind;

/// Marks the slot of a list, whose first value is its length.
const LIST: u16 = 1 << 15;

/// Consecutive observations: 10 bytes per value, 8 per value of a list.
#[derive(Debug, Clone, Default)]
pub(in crate::metrics) struct Log {
    requests: Vec<Request>,
    /// The metrics of all requests' values.
    slots: Vec<u16>,
    values: Vec<f64>,
    errors: HashSet<Arc<RequestError>>,
}

/// The other data of a request, and where its values start.
#[derive(Debug, Clone)]
struct Request {
    phase: PhaseKind,
    start_wall_ns: u64,
    end_wall_ns: u64,
    requested_output_tokens: Option<u64>,
    missing_answers: u32,
    error: Option<Arc<RequestError>>,
    slots_from: usize,
    values_from: usize,
}

impl Log {
    /// Returns the number of requests.
    pub(super) fn len(&self) -> u32 {
        u32::try_from(self.requests.len()).unwrap_or(u32::MAX)
    }

    /// Returns the wall time at which `request` was sent.
    pub(super) fn start_ns(&self, request: u32) -> u64 {
        self.requests.get(request as usize).map_or(0, |request| request.start_wall_ns)
    }

    /// Adds a request; values of metrics that `registry` does not have are left out.
    pub(in crate::metrics) fn push(&mut self, observation: &Observation, registry: &Registry) {
        let error = observation.error.as_ref().map(|error| self.interned(error));
        self.requests.push(Request {
            phase: observation.phase,
            start_wall_ns: observation.start_wall_ns,
            end_wall_ns: observation.end_wall_ns,
            requested_output_tokens: observation.requested_output_tokens,
            missing_answers: observation.missing_answers,
            error,
            slots_from: self.slots.len(),
            values_from: self.values.len(),
        });
        for (tag, value) in observation.values.iter() {
            if registry.position(tag).is_none() {
                continue;
            }
            let slot = tag.slot() as u16;
            match value {
                Value::Scalar(value) => {
                    self.slots.push(slot);
                    self.values.push(*value);
                }
                Value::List(list) => {
                    self.slots.push(slot | LIST);
                    self.values.push(list.len() as f64);
                    self.values.extend(list);
                }
            }
        }
    }

    pub(super) fn observation(&self, request: u32) -> Observation {
        let at = request as usize;
        let slots_until =
            self.requests.get(at + 1).map_or(self.slots.len(), |next| next.slots_from);
        let request = &self.requests[at];
        let slots = &self.slots[request.slots_from..slots_until];
        let mut values = RecordValues::default();
        let mut rest = self.values[request.values_from..].iter().copied();
        for slot in slots {
            let Some(first) = rest.next() else { break };
            let value = if slot & LIST == 0 {
                Value::Scalar(first)
            } else {
                Value::List(rest.by_ref().take(first as usize).collect())
            };
            values.set(MetricTag::in_slot(usize::from(slot & !LIST)), value);
        }
        Observation {
            phase: request.phase,
            start_wall_ns: request.start_wall_ns,
            end_wall_ns: request.end_wall_ns,
            requested_output_tokens: request.requested_output_tokens,
            missing_answers: request.missing_answers,
            error: request.error.as_deref().cloned(),
            values,
        }
    }

    /// Returns a shared copy of the error.
    fn interned(&mut self, error: &RequestError) -> Arc<RequestError> {
        if let Some(known) = self.errors.get(error) {
            return Arc::clone(known);
        }
        let error = Arc::new(error.clone());
        self.errors.insert(Arc::clone(&error));
        error
    }
}
