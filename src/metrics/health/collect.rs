//! Collects what records reveal about the client.

use super::bounds::Collector;
use super::client_health::{ClientHealth, Cpu, Reads, TimeStatistics, Verdict};
use super::errors::{self, ArrivalErrors};
use super::load::LoadReport;
use super::throughput::SlotTimes;
use super::verdict::{self, Facts};
use crate::column::{Column, Store, fixed_struct};
use crate::metrics::histogram::Histogram;
use crate::metrics::metric::MeasuredRecord;
use crate::record::RequestRecord;
use crate::runner::{CpuShares, QueueStats};

/// Collects what the records of a measurement reveal about the client.
#[derive(Debug, Clone, Default)]
pub struct Health {
    requests: u64,
    /// Number of requests that succeeded.
    successes: u64,
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
    pub(crate) fn keeping_in(store: Store) -> Self {
        Self { bounds: Collector::keeping_in(&store), sends: Column::new(store), ..Self::default() }
    }

    /// Adds a record.
    pub fn observe(&mut self, measured: &MeasuredRecord) {
        let record = &measured.record;
        let errors = self.errors;
        self.requests += 1;
        self.retries += u64::from(record.retry_count);
        self.take_send(record);
        let own = errors.of_request(measured);
        self.slots.observe(record.into(), &own);
        if measured.observation.error.is_none() {
            self.successes += 1;
            let is_due = record.due.is_some();
            self.bounds.observe(&measured.observation.values, &own, is_due);
        }
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
            if let Some(error) = errors.of(record, arrival) {
                self.arrival_error.add(error.into(), count);
            }
        }
    }

    /// Records when the request was sent, if it was due at a certain time.
    fn take_send(&mut self, record: &RequestRecord) {
        let Some(due) = record.due else { return };
        let late = errors::lateness(record);
        let send = SendDelay {
            slip: record.start.since(due).0,
            late: late.0,
            asleep: record.due_while_asleep.into(),
        };
        self.slip.add(send.slip, 1);
        self.late.add(send.late, 1);
        if send.asleep > 0 {
            self.idle_late.add(send.late, 1);
        }
        self.sends.push(send);
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
            TimeStatistics::of(|| sends().map(|send| send.slip))
        };
        let late = |of: &dyn Fn(&SendDelay) -> bool| {
            let sends = || self.sends.iter().filter(|send| of(send));
            TimeStatistics::of(|| sends().map(|send| send.late))
        };
        let client_slip_ms = late(&|_| true);
        let mut health = ClientHealth {
            error_bounds_ms: self.bounds.bounds(),
            throughput_bounds: self.slots.bounds(load).filter(|_| self.successes > 0),
            schedule_slip_ms: slip(&|_| true),
            client_slip_ms,
            schedule_slip_idle_ms: slip(&|send| send.asleep > 0),
            schedule_slip_loaded_ms: slip(&|send| send.asleep == 0),
            cpu: Cpu::of(shares),
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
    pub(crate) fn so_far(&self, queue: &QueueStats) -> ClientHealth {
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
