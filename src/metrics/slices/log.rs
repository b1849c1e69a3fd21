//! The requests of a phase in little room.

use std::collections::HashSet;
use std::sync::Arc;

use crate::metrics::metric::{Observation, RecordValues, Value};
use crate::metrics::registry::Registry;
use crate::record::RequestError;
use crate::schedule::PhaseKind;

/// Marks the row of a list, whose first value is its length.
const LIST: u16 = 1 << 15;

/// Observations one after the other: 10 bytes for a value, 8 for one of a list.
#[derive(Debug, Clone, Default)]
pub(in crate::metrics) struct Log {
    requests: Vec<Request>,
    /// Rows of the registry, of all requests' values.
    rows: Vec<u16>,
    values: Vec<f64>,
    errors: HashSet<Arc<RequestError>>,
}

/// What is no value, and where the values are.
#[derive(Debug, Clone)]
struct Request {
    phase: PhaseKind,
    start_wall_ns: u64,
    end_wall_ns: u64,
    requested_output_tokens: Option<u64>,
    error: Option<Arc<RequestError>>,
    rows_from: usize,
    values_from: usize,
}

impl Log {
    /// Requests in it.
    pub(super) fn len(&self) -> u32 {
        u32::try_from(self.requests.len()).unwrap_or(u32::MAX)
    }

    /// When `request` was sent: wall time.
    pub(super) fn start_ns(&self, request: u32) -> u64 {
        self.requests.get(request as usize).map_or(0, |request| request.start_wall_ns)
    }

    /// Notes a request; values of metrics that `registry` does not have are left out.
    pub(in crate::metrics) fn push(&mut self, observation: &Observation, registry: &Registry) {
        let error = observation.error.as_ref().map(|error| self.interned(error));
        self.requests.push(Request {
            phase: observation.phase,
            start_wall_ns: observation.start_wall_ns,
            end_wall_ns: observation.end_wall_ns,
            requested_output_tokens: observation.requested_output_tokens,
            error,
            rows_from: self.rows.len(),
            values_from: self.values.len(),
        });
        for (tag, value) in observation.values.iter() {
            let row = registry.position(tag).and_then(|row| u16::try_from(row).ok());
            let Some(row) = row.filter(|row| row & LIST == 0) else { continue };
            match value {
                Value::Scalar(value) => {
                    self.rows.push(row);
                    self.values.push(*value);
                }
                Value::List(list) => {
                    self.rows.push(row | LIST);
                    self.values.push(list.len() as f64);
                    self.values.extend(list);
                }
            }
        }
    }

    /// Takes in what `other`, of the same registry, has noted.
    pub(in crate::metrics) fn merge(&mut self, other: &Self) {
        let (rows, values) = (self.rows.len(), self.values.len());
        self.requests.extend(other.requests.iter().cloned().map(|mut request| {
            request.rows_from += rows;
            request.values_from += values;
            request
        }));
        self.rows.extend(&other.rows);
        self.values.extend(&other.values);
        self.errors.extend(other.errors.iter().cloned());
    }

    /// The observation that was noted as number `request`.
    pub(super) fn observation(&self, request: u32, registry: &Registry) -> Observation {
        let at = request as usize;
        let rows_until = self.requests.get(at + 1).map_or(self.rows.len(), |next| next.rows_from);
        let request = &self.requests[at];
        let rows = &self.rows[request.rows_from..rows_until];
        let mut values = RecordValues::with_capacity(rows.len());
        let mut rest = self.values[request.values_from..].iter().copied();
        for row in rows {
            let Some(first) = rest.next() else { break };
            let value = if row & LIST == 0 {
                Value::Scalar(first)
            } else {
                Value::List(rest.by_ref().take(first as usize).collect())
            };
            values.push(registry.rows()[usize::from(row & !LIST)].tag, value);
        }
        Observation {
            phase: request.phase,
            start_wall_ns: request.start_wall_ns,
            end_wall_ns: request.end_wall_ns,
            requested_output_tokens: request.requested_output_tokens,
            error: request.error.as_deref().cloned(),
            values,
        }
    }

    /// One copy of each error, however often it comes.
    fn interned(&mut self, error: &RequestError) -> Arc<RequestError> {
        if let Some(known) = self.errors.get(error) {
            return Arc::clone(known);
        }
        let error = Arc::new(error.clone());
        self.errors.insert(Arc::clone(&error));
        error
    }
}
