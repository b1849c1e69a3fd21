//! Collects what records reveal about the client.

use base::column::{Column, Store, fixed_struct};
use base::units::Nanos;
use client::runner::{CpuShares, QueueStats};

use super::bounds::{Collector, ErrorBounds};
use super::client_health::{ClientHealth, Cpu, Reads, TimeStatistics, Verdict};
use super::errors::{ArrivalErrors, ClientErrors};
use super::load::LoadReport;
use super::throughput::{RateBounds, SlotTimes, SlotUse};
use super::verdict::{self, Facts};
use crate::metrics::histogram::Histogram;
use crate::metrics::metric::{MeasuredRecord, Observation};

/// Collects what the records of a measurement reveal about the client.
#[derive(Debug, Clone, Default)]
pub struct Health {
    requests: u64,
    /// Number of requests that succeeded.
    successes: u64,
    /// Successful requests of which it is not known what the client added to their times.
    vague: u64,
    errors: ArrivalErrors,
    bounds: Collector,
    slots: SlotTimes,
    retries: u64,
    sends: Column<SendDelay>,
    /// The same delays, for the health [so far](Health::so_far).
    slip: Histogram,
    late: Histogram,
    idle_late: Histogram,
    read_lag: Histogram,
    uncertainty: Histogram,
    arrival_error: Histogram,
    reads: u64,
    kernel_stamps: u64,
}

fixed_struct! {
    /// The delay of a request.
    #[derive(Debug, Clone, Copy, Default)]
    struct SendDelay {
        /// Nanoseconds from its due time until it was handed to the transport.
        slip: u64,
        /// The part of the delay that only the client caused.
        late: u64,
        /// Whether the worker was asleep when the request was due: 0 or 1.
        asleep: u8,
    }
}

impl Health {
    /// Creates the health of a measurement without records, whose values will be in `store`.
    pub fn keeping_in(store: Store) -> Self {
        Self { bounds: Collector::keeping_in(&store), sends: Column::new(store), ..Self::default() }
    }

    /// Adds a record.
    pub fn observe(&mut self, measured: &MeasuredRecord) {
        let record = &measured.record;
        let errors = self.errors;
        let own = errors.of_request(measured);
        let is_asleep = record.due_while_asleep;
        self.add(
            &measured.observation,
            record.into(),
            record.retry_count.into(),
            Some(own),
            is_asleep,
        );
        let trace = &record.trace;
        self.reads += trace.socket_reads;
        self.kernel_stamps += trace.kernel_stamps;
        // Without a count of reads nothing is known about them.
        if trace.socket_reads == 0 {
            return;
        }
        // All events of one read have the same arrival.
        for events in record.body.events.chunk_by(|one, other| one.arrival == other.arrival) {
            let Some(arrival) = events.first().map(|event| event.arrival) else { continue };
            let count = events.len() as u64;
            self.uncertainty.add(arrival.uncertainty.into(), count);
            if trace.kernel_stamps > 0 {
                self.read_lag.add(arrival.read_lag.into(), count);
            }
            if let Some(error) = errors.bound(record, arrival) {
                self.arrival_error.add(error.into(), count);
            }
        }
    }

    /// Adds a request of which only the line is known: when it was due, its retries, and what the client
    /// added to its times, unless an earlier version wrote the line.
    pub fn observe_line(
        &mut self,
        request: &Observation,
        due_wall_ns: Option<u64>,
        retries: u64,
        errors: Option<ClientErrors>,
    ) {
        let slot = SlotUse {
            start: Nanos(request.start_wall_ns),
            end: Nanos(request.end_wall_ns),
            due: due_wall_ns.map(Nanos),
        };
        self.add(request, slot, retries, errors, false);
    }

    fn add(
        &mut self,
        request: &Observation,
        slot: SlotUse,
        retries: u64,
        errors: Option<ClientErrors>,
        is_asleep: bool,
    ) {
        let known = errors.unwrap_or_default();
        self.requests += 1;
        self.retries = self.retries.saturating_add(retries);
        if let Some(due) = slot.due {
            let (slip, late) = (slot.start.since(due).0, known.late.unwrap_or(0));
            self.take_send(SendDelay { slip, late, asleep: is_asleep.into() });
        }
        self.slots.observe(slot, &known);
        if request.error.is_none() {
            self.successes += 1;
            self.vague += u64::from(errors.is_none());
            self.bounds.observe(&request.values, &known, slot.due.is_some());
        }
    }

    fn take_send(&mut self, send: SendDelay) {
        self.slip.add(send.slip, 1);
        self.late.add(send.late, 1);
        if send.asleep > 0 {
            self.idle_late.add(send.late, 1);
        }
        self.sends.push(send);
    }

    /// Returns how far the client may have shifted the statistics; absent if that is not known of a
    /// successful request.
    pub(super) fn error_bounds(&self) -> Option<ErrorBounds> {
        (self.vague == 0).then(|| self.bounds.bounds()).flatten()
    }

    /// Returns how far the client may have shifted the rates under this load.
    pub(super) fn rate_bounds(&self, load: &LoadReport) -> Option<RateBounds> {
        self.slots.bounds(load).filter(|_| self.successes > 0)
    }

    /// Returns the delays of the requests that had a due time.
    pub(super) fn slips(&self) -> Option<TimeStatistics> {
        TimeStatistics::from_values(|| self.sends.iter().map(|send| send.slip))
    }

    /// Returns the number of retries on dead connections.
    pub(super) const fn retries(&self) -> u64 {
        self.retries
    }

    /// Returns the health of a run whose lines were entered: slips and retries replace those of
    /// `earlier`, and bounds are only added; the rest is unchanged or absent.
    #[must_use]
    pub fn recomputed(
        &self,
        earlier: Option<ClientHealth>,
        load: &LoadReport,
    ) -> Option<ClientHealth> {
        let (schedule_slip_ms, error_bounds) = (self.slips(), self.error_bounds());
        let retries = (earlier.is_some() || self.retries > 0).then_some(self.retries);
        let is_known = earlier.is_some()
            || schedule_slip_ms.is_some()
            || retries.is_some()
            || error_bounds.is_some();
        is_known.then(|| {
            let earlier = earlier.unwrap_or_default();
            let error_bounds_ms = earlier.error_bounds_ms.or(error_bounds);
            let rates = self.rate_bounds(load).filter(|_| error_bounds_ms.is_some());
            let throughput_bounds = earlier.throughput_bounds.or(rates);
            ClientHealth {
                error_bounds_ms,
                throughput_bounds,
                schedule_slip_ms,
                retries,
                ..earlier
            }
        })
    }

    /// Computes the client's health.
    #[must_use]
    pub fn report(
        &self,
        load: &LoadReport,
        queue: &QueueStats,
        shares: &CpuShares,
    ) -> ClientHealth {
        let ratio = |reached: f64, asked: f64| Some(reached / asked).filter(|r| r.is_finite());
        let slip = |of: &dyn Fn(&SendDelay) -> bool| {
            let sends = || self.sends.iter().filter(|send| of(send));
            TimeStatistics::from_values(|| sends().map(|send| send.slip))
        };
        let late = |of: &dyn Fn(&SendDelay) -> bool| {
            let sends = || self.sends.iter().filter(|send| of(send));
            TimeStatistics::from_values(|| sends().map(|send| send.late))
        };
        let client_slip_ms = late(&|_| true);
        let mut health = ClientHealth {
            error_bounds_ms: self.bounds.bounds(),
            throughput_bounds: self.rate_bounds(load),
            schedule_slip_ms: self.slips(),
            client_slip_ms,
            schedule_slip_idle_ms: slip(&|send| send.asleep > 0),
            schedule_slip_loaded_ms: slip(&|send| send.asleep == 0),
            cpu: Cpu::from_shares(shares),
            rate_ratio: load
                .requested_rate
                .zip(load.reached_rate)
                .and_then(|(asked, reached)| ratio(reached, asked)),
            concurrency_ratio: load
                .requested_concurrency
                .and_then(|asked| ratio(load.reached_concurrency as f64, asked as f64)),
            ..self.measured(queue)
        };
        self.judge(&mut health, client_slip_ms, late(&|send| send.asleep > 0));
        health
    }

    /// Computes the client's health during the measurement. CPU time and the load reached are not
    /// known yet, and percentiles are at most 0.8% too high.
    #[must_use]
    pub fn so_far(&self, queue: &QueueStats) -> ClientHealth {
        let of = TimeStatistics::of_histogram;
        let client_slip_ms = of(&self.late);
        let mut health = ClientHealth {
            error_bounds_ms: self.bounds.bounds_so_far(),
            schedule_slip_ms: of(&self.slip),
            client_slip_ms,
            ..self.measured(queue)
        };
        self.judge(&mut health, client_slip_ms, of(&self.idle_late));
        health
    }

    /// Adds the verdict. If no request succeeded, nothing was measured that the client could have
    /// affected.
    fn judge(
        &self,
        health: &mut ClientHealth,
        late: Option<TimeStatistics>,
        idle_late: Option<TimeStatistics>,
    ) {
        if self.successes > 0 {
            let facts = Facts { requests: self.requests, late, idle_late };
            health.reasons = verdict::reasons(health, &facts);
            let worst = health.reasons.first();
            health.verdict = Some(worst.map_or(Verdict::Valid, |reason| reason.verdict));
        }
    }

    /// Returns what is known at any time.
    fn measured(&self, queue: &QueueStats) -> ClientHealth {
        ClientHealth {
            read_lag_ms: TimeStatistics::of_histogram(&self.read_lag),
            stamp_uncertainty_ms: TimeStatistics::of_histogram(&self.uncertainty),
            arrival_error_ms: TimeStatistics::of_histogram(&self.arrival_error),
            reads: (self.reads > 0).then(|| Reads {
                total: self.reads,
                kernel_stamped: self.kernel_stamps,
                kernel_share: self.kernel_stamps as f64 / self.reads as f64,
            }),
            queue: Some(queue.into()),
            retries: Some(self.retries),
            ..ClientHealth::default()
        }
    }
}

#[cfg(test)]
mod tests;
