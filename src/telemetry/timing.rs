//! `aiperf.timing.*`: progress of the phases.

use std::collections::HashMap;

use opentelemetry::KeyValue;
use opentelemetry::metrics::{Counter, Meter, UpDownCounter};

use base::semconv::{Definition, InstrumentKind, metric};
use client::schedule::PhaseStats;

use super::attributes::PhaseAttributes;

/// Differences smaller than this are ignored.
const SMALLEST: f64 = 1e-9;

/// A metric, and the accessor of its value in a snapshot.
pub(super) type Row = (Definition, fn(&PhaseStats) -> f64);

/// All instruments of `aiperf.timing.*`.
pub(super) const ROWS: [Row; 15] = [
    (metric::AIPERF_TIMING_REQUESTS_SENT, |s| s.requests_sent as f64),
    (metric::AIPERF_TIMING_REQUESTS_COMPLETED, |s| s.requests_completed as f64),
    (metric::AIPERF_TIMING_REQUESTS_CANCELLED, |s| s.requests_cancelled as f64),
    (metric::AIPERF_TIMING_REQUESTS_ERRORS, |s| s.request_errors as f64),
    (metric::AIPERF_TIMING_SESSIONS_SENT, |s| s.sessions_sent as f64),
    (metric::AIPERF_TIMING_SESSIONS_COMPLETED, |s| s.sessions_completed as f64),
    (metric::AIPERF_TIMING_SESSIONS_FAILED, |s| s.sessions_failed as f64),
    (metric::AIPERF_TIMING_SESSIONS_CANCELLED, |s| s.sessions_cancelled as f64),
    (metric::AIPERF_TIMING_SESSIONS_TURNS_TOTAL, |s| s.session_turns_total as f64),
    (metric::AIPERF_TIMING_REQUESTS_IN_FLIGHT, |s| s.requests_in_flight() as f64),
    (metric::AIPERF_TIMING_SESSIONS_IN_FLIGHT, |s| s.sessions_in_flight() as f64),
    (metric::AIPERF_TIMING_PHASE_TIMEOUT_TRIGGERED, |s| f64::from(s.timeout_triggered)),
    (metric::AIPERF_TIMING_PHASE_GRACE_TIMEOUT_TRIGGERED, |s| f64::from(s.grace_timeout_triggered)),
    (metric::AIPERF_TIMING_PHASE_WAS_CANCELLED, |s| f64::from(s.was_cancelled)),
    (metric::AIPERF_TIMING_PHASE_ELAPSED_SEC, PhaseStats::elapsed_seconds),
];

/// The instruments, and the values that they have received.
#[derive(Debug)]
pub(super) struct Timing {
    instruments: Vec<Instrument>,
    attributes: PhaseAttributes,
    /// The values of the last snapshot of each phase of the run.
    previous: HashMap<u32, [f64; ROWS.len()]>,
}

#[derive(Debug)]
enum Instrument {
    Counter(Counter<u64>),
    UpDown(UpDownCounter<f64>),
}

impl Timing {
    pub(super) fn new(meter: &Meter, attributes: PhaseAttributes) -> Self {
        let instruments = ROWS.iter().map(|(definition, _)| Instrument::new(meter, definition));
        Self { instruments: instruments.collect(), attributes, previous: HashMap::new() }
    }

    /// Adds the difference from the phase's previous snapshot to each instrument.
    pub(super) fn snapshot(&mut self, stats: &PhaseStats) {
        let attributes = self.attributes.of_one(stats.phase, stats.phase_index);
        let previous = self.previous.entry(stats.phase_index).or_default();
        for (row, (_, value)) in ROWS.iter().enumerate() {
            let value = value(stats);
            let difference = value - previous[row];
            if self.instruments[row].add(difference, &attributes) {
                previous[row] = value;
            }
        }
    }
}

impl Instrument {
    fn new(meter: &Meter, definition: &Definition) -> Self {
        match definition.kind {
            InstrumentKind::Counter => Self::Counter(
                meter
                    .u64_counter(definition.name)
                    .with_unit(definition.unit)
                    .with_description(definition.brief)
                    .build(),
            ),
            _ => Self::UpDown(
                meter
                    .f64_up_down_counter(definition.name)
                    .with_unit(definition.unit)
                    .with_description(definition.brief)
                    .build(),
            ),
        }
    }

    /// Adds `difference`, unless it is zero or a counter would decrease, as with a snapshot whose
    /// counters were read an instant apart. Returns whether it was added.
    fn add(&self, difference: f64, attributes: &[KeyValue]) -> bool {
        let told = match self {
            Self::Counter(_) => difference > SMALLEST,
            Self::UpDown(_) => difference.abs() > SMALLEST,
        };
        match self {
            _ if !told => {}
            Self::Counter(counter) => counter.add(difference as u64, attributes),
            Self::UpDown(counter) => counter.add(difference, attributes),
        }
        told
    }
}
