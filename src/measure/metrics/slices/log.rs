//! A compact log of the requests of a phase.

use std::collections::HashMap;

use crate::metrics::output::Output;
use base::column::{Column, Store, fixed_struct};
use client::record::RequestError;
use client::schedule::PhaseKind;

use crate::metrics::metric::{Observation, RecordValues, Value};
use crate::metrics::registry::Registry;
use crate::metrics::tag::MetricTag;

/// Marks the slot of a list, whose first value is its length.
const LIST: u16 = 1 << 15;

/// Consecutive observations: 10 bytes per value, 8 per value of a list.
#[derive(Debug, Clone)]
pub(in crate::metrics) struct Log {
    requests: Column<Request>,
    /// The metrics of all requests' values.
    slots: Column<u16>,
    values: Column<f64>,
    /// The different errors, and their indices.
    errors: Vec<RequestError>,
    error_numbers: HashMap<RequestError, u32>,
}

fixed_struct! {
    /// The other data of a request, and where its values are.
    #[derive(Debug, Clone, Copy, Default)]
    struct Request {
        is_warmup: u8,
        start_wall_ns: u64,
        end_wall_ns: u64,
        /// The requested output tokens plus 1; 0 for none.
        requested_output_tokens: u64,
        missing_answers: u32,
        /// The index of its error plus 1; 0 for none.
        error: u32,
        slots_from: u64,
        slots_until: u64,
        values_from: u64,
        values_until: u64,
    }
}

impl Log {
    /// Creates a log without requests.
    pub(in crate::metrics) fn new(store: Store) -> Self {
        Self {
            requests: Column::new(store.clone()),
            slots: Column::new(store.clone()),
            values: Column::new(store),
            errors: Vec::new(),
            error_numbers: HashMap::new(),
        }
    }

    /// Iterates over the wall times at which the requests were sent.
    pub(super) fn starts_ns(&self) -> impl Iterator<Item = u64> + '_ {
        self.requests.iter().map(|request| request.start_wall_ns)
    }

    /// Adds a request; values of metrics that `registry` does not have are left out.
    pub(in crate::metrics) fn push(&mut self, observation: &Observation, registry: &Registry) {
        let (slots_from, values_from) = (self.slots.len() as u64, self.values.len() as u64);
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
                    self.values.extend(list.iter().copied());
                }
            }
        }
        let request = Request {
            is_warmup: u8::from(observation.phase == PhaseKind::Warmup),
            start_wall_ns: observation.start_wall_ns,
            end_wall_ns: observation.end_wall_ns,
            requested_output_tokens: observation
                .requested_output_tokens
                .map_or(0, |tokens| tokens.saturating_add(1)),
            missing_answers: observation.missing_answers,
            error: observation.error.as_ref().map_or(0, |error| self.number(error)),
            slots_from,
            slots_until: self.slots.len() as u64,
            values_from,
            values_until: self.values.len() as u64,
        };
        self.requests.push(request);
    }

    /// Returns the observation of the request at the index `at`.
    pub(super) fn observation(&self, at: u32) -> Observation {
        let at = at as usize;
        let request = self.requests.at(at..at + 1).pop().unwrap_or_default();
        let slots = self.slots.at(request.slots_from as usize..request.slots_until as usize);
        let values = self.values.at(request.values_from as usize..request.values_until as usize);
        let mut rest = values.into_iter();
        let mut values = RecordValues::default();
        for slot in slots {
            let Some(first) = rest.next() else { break };
            let value = if slot & LIST == 0 {
                Value::Scalar(first)
            } else {
                Value::List(rest.by_ref().take(first as usize).collect())
            };
            values.set(MetricTag::in_slot(usize::from(slot & !LIST)), value);
        }
        let is_warmup = request.is_warmup == 1;
        Observation {
            phase: if is_warmup { PhaseKind::Warmup } else { PhaseKind::Profiling },
            start_wall_ns: request.start_wall_ns,
            end_wall_ns: request.end_wall_ns,
            requested_output_tokens: request.requested_output_tokens.checked_sub(1),
            missing_answers: request.missing_answers,
            // What is left out of statistics is not in a slice, and no statistic reads the rest.
            output: Output::default(),
            error: request
                .error
                .checked_sub(1)
                .and_then(|number| self.errors.get(number as usize).cloned()),
            values,
        }
    }

    /// Returns the number of an error, from 1.
    fn number(&mut self, error: &RequestError) -> u32 {
        if let Some(number) = self.error_numbers.get(error) {
            return *number;
        }
        self.errors.push(error.clone());
        let number = self.errors.len() as u32;
        self.error_numbers.insert(error.clone(), number);
        number
    }
}
