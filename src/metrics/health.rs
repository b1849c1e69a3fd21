//! Whether the client itself kept up: part of every result.
//!
//! [`Health`] takes each record of the measurement once; with what queue,
//! workers and schedule say of themselves it gives [`ClientHealth`], which bears
//! a verdict. The rules are in `docs/decisions/client-health.md`. What is not
//! known is absent, never 0.

mod combined;
mod histogram;
mod selfcheck;
#[cfg(test)]
mod tests;
mod verdict;

use serde::{Deserialize, Serialize};

use self::histogram::LagHistogram;
pub use self::selfcheck::{Limits, Machine, SelfCheck};
use self::verdict::Facts;
use super::metric::MetricResult;
use super::percentile::distribution;
use crate::record::RequestRecord;
use crate::runner::{CpuShares, QueueStats};
use crate::units::Nanos;

/// A read this long after the last byte's stamp is late: bytes before it may have
/// waited for the client. What comes by a prompt read was merged by the server.
const LATE_READ_NS: u32 = 500_000;

/// May the results be believed, as far as the client is concerned.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Verdict {
    /// The client is not what was measured.
    Valid,
    /// Part of what was measured may be the client.
    Suspect,
    /// The results say more of the client than of the server.
    Invalid,
}

impl Verdict {
    /// `valid`, `suspect` or `invalid`.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Valid => "valid",
            Self::Suspect => "suspect",
            Self::Invalid => "invalid",
        }
    }

    /// As a number that grows with the doubt: 0, 1, 2.
    #[must_use]
    pub const fn level(self) -> u8 {
        self as u8
    }
}

/// A reason for a verdict that is not [`Verdict::Valid`].
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Reason {
    /// How grave it is.
    pub verdict: Verdict,
    /// What was found, in a sentence without its period.
    pub finding: String,
    /// What to do about it, the same way.
    pub advice: String,
}

/// What the client says of itself in a measurement.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct ClientHealth {
    /// Absent where nothing was measured or the run did not live to tell.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub verdict: Option<Verdict>,
    /// The gravest first; empty where the verdict is `valid`.
    pub reasons: Vec<Reason>,
    /// From when a request was due until its first byte was written; absent in a
    /// closed loop.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub schedule_slip_ms: Option<Spread>,
    /// The same of those that were due while the worker slept: not its own work
    /// made them late.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub schedule_slip_idle_ms: Option<Spread>,
    /// The same of the others.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub schedule_slip_loaded_ms: Option<Spread>,
    /// From the kernel's receive stamp of an event until the program had read
    /// it; absent where the kernel stamped nothing.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub read_lag_ms: Option<Spread>,
    /// How much earlier than stamped an event may have come.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub stamp_uncertainty_ms: Option<Spread>,
    /// As much of it as is the client's fault: that of events that were read
    /// late, half a millisecond or more; 0 for all others. Absent where the
    /// kernel stamped nothing.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub arrival_error_ms: Option<Spread>,
    /// Reads from the sockets, and by which clock they are stamped.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reads: Option<Reads>,
    /// The queue of records.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub queue: Option<Queue>,
    /// Processor time.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cpu: Option<Cpu>,
    /// Requests per second sent over those asked for; absent without a rate.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub rate_ratio: Option<f64>,
    /// Most requests in flight over the concurrency asked for.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub concurrency_ratio: Option<f64>,
    /// Attempts repeated because a reused connection had died.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub retries: Option<u64>,
    /// What `aiperf selfcheck` found on this machine, where it was saved.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub selfcheck: Option<SelfCheck>,
}

/// Statistics of times, in milliseconds.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize)]
pub struct Spread {
    /// How many.
    pub count: u64,
    /// Mean.
    pub avg: f64,
    /// Median.
    pub p50: f64,
    /// 90th percentile.
    pub p90: f64,
    /// 99th percentile.
    pub p99: f64,
    /// Largest.
    pub max: f64,
}

impl Spread {
    /// Of exact values in nanoseconds; `None` where there are none.
    #[must_use]
    pub fn of(values: impl IntoIterator<Item = u64>) -> Option<Self> {
        let mut values: Vec<f64> = values.into_iter().map(|value| value as f64).collect();
        let nanos = distribution(&mut values)?;
        Some(Self {
            count: nanos.count,
            avg: nanos.sum / nanos.count as f64 / 1e6,
            p50: nanos.p50 / 1e6,
            p90: nanos.p90 / 1e6,
            p99: nanos.p99 / 1e6,
            max: nanos.max / 1e6,
        })
    }

    fn of_histogram(values: &LagHistogram) -> Option<Self> {
        let at = |percent| values.percentile(percent).map(|value| f64::from(value) / 1e6);
        Some(Self {
            count: values.count(),
            avg: values.mean()? / 1e6,
            p50: at(50.0)?,
            p90: at(90.0)?,
            p99: at(99.0)?,
            max: f64::from(values.max()) / 1e6,
        })
    }
}

/// Reads from the sockets.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize)]
pub struct Reads {
    /// All of them.
    pub total: u64,
    /// Those that the kernel stamped; the others bear the program's own time.
    pub kernel_stamped: u64,
    /// The second over the first.
    pub kernel_share: f64,
}

/// The queue from the workers to the processors.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Queue {
    /// Bytes that may be in memory.
    pub budget_bytes: u64,
    /// Most bytes that were.
    pub peak_bytes: u64,
    /// Sends that were held back for want of room.
    pub pauses: u64,
    /// Records that went through a file.
    pub spilled_records: u64,
    /// Bytes of them.
    pub spilled_bytes: u64,
    /// Records beyond the budget that stayed in memory.
    pub kept_over_budget: u64,
    /// Records that were never measured: they could not be read back from the file,
    /// or the user did not wait for them.
    pub lost_records: u64,
}

impl From<&QueueStats> for Queue {
    fn from(stats: &QueueStats) -> Self {
        Self {
            budget_bytes: stats.budget_bytes as u64,
            peak_bytes: stats.peak_bytes as u64,
            pauses: stats.pauses,
            spilled_records: stats.spilled_records,
            spilled_bytes: stats.spilled_bytes,
            kept_over_budget: stats.kept_over_budget,
            lost_records: stats.lost,
        }
    }
}

/// Processor time over wall time: 1 is one core, fully used.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize)]
pub struct Cpu {
    /// Worker threads.
    pub workers: u64,
    /// Share of the busiest worker.
    pub worker_max: f64,
    /// Mean of the workers' shares.
    pub worker_mean: f64,
    /// Share of the whole program.
    pub process: f64,
    /// Cores that the program may use.
    pub cores: u64,
}

impl Cpu {
    /// `None` where no worker has ended the phase.
    fn of(shares: &CpuShares) -> Option<Self> {
        let workers = shares.workers.len();
        let worker_max = shares.workers.iter().copied().reduce(f64::max)?;
        Some(Self {
            workers: workers as u64,
            worker_max,
            worker_mean: shares.workers.iter().sum::<f64>() / workers as f64,
            process: shares.process,
            cores: std::thread::available_parallelism().map_or(1, |cores| cores.get() as u64),
        })
    }
}

/// The load asked for and the load reached.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct LoadReport {
    /// Concurrency asked for; with a rate it is a bound.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub requested_concurrency: Option<u64>,
    /// Most requests in flight at once.
    pub reached_concurrency: u64,
    /// Requests per second asked for.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub requested_rate: Option<f64>,
    /// Requests per second sent.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reached_rate: Option<f64>,
}

/// Gathers, over the records of a measurement, what they say of the client.
#[derive(Debug, Clone, Default)]
pub struct Health {
    requests: u64,
    retries: u64,
    sends: Vec<SendDelay>,
    shortest_connect: Option<Nanos>,
    read_lag: LagHistogram,
    uncertainty: LagHistogram,
    arrival_error: LagHistogram,
    reads: u64,
    kernel_stamps: u64,
}

/// How late a request left.
#[derive(Debug, Clone, Copy)]
struct SendDelay {
    /// From when it was due until its first byte was written.
    slip: Nanos,
    /// The same from when nothing but the client held it up, if that was later.
    late: Nanos,
    /// Whether a connection was made in between.
    connected: bool,
    /// Whether the worker slept when it was due.
    asleep: bool,
}

impl Health {
    /// Takes a record.
    pub fn observe(&mut self, record: &RequestRecord) {
        self.requests += 1;
        self.retries += u64::from(record.retry_count);
        self.take_send(record);
        let trace = &record.trace;
        self.reads += trace.socket_reads;
        self.kernel_stamps += trace.kernel_stamps;
        // Without a count of reads nothing is known of them.
        if trace.socket_reads == 0 {
            return;
        }
        // Events of one read have one arrival.
        for events in record.body.events.chunk_by(|one, other| one.arrival == other.arrival) {
            let Some(arrival) = events.first().map(|event| event.arrival) else { continue };
            let count = events.len() as u64;
            self.uncertainty.add(arrival.uncertainty, count);
            if trace.kernel_stamps > 0 {
                self.read_lag.add(arrival.read_lag, count);
                let was_late = arrival.read_lag >= LATE_READ_NS;
                self.arrival_error.add(if was_late { arrival.uncertainty } else { 0 }, count);
            }
        }
    }

    fn take_send(&mut self, record: &RequestRecord) {
        let Some(due) = record.due else { return };
        let trace = &record.trace;
        // A retry's connection is made after the first attempt was written.
        let began =
            if record.retry_count == 0 { trace.dns_start.or(trace.connect_start) } else { None };
        let connecting = trace.connect_end.zip(began).map(|(end, began)| end.since(began));
        if let Some(took) = connecting {
            self.shortest_connect = Some(self.shortest_connect.map_or(took, |have| have.min(took)));
        }
        self.sends.push(SendDelay {
            slip: record.start.since(due),
            late: record.start.since(due.max(record.free_from)),
            connected: connecting.is_some(),
            asleep: record.due_while_asleep,
        });
    }

    /// What it all comes to, with the `results` that the client's faults are
    /// held against.
    #[must_use]
    pub fn report(
        &self,
        load: &LoadReport,
        queue: &QueueStats,
        shares: &CpuShares,
        results: &[MetricResult],
    ) -> ClientHealth {
        let ratio = |reached: f64, asked: f64| Some(reached / asked).filter(|r| r.is_finite());
        let slip = |of: &dyn Fn(&SendDelay) -> bool| {
            Spread::of(self.sends.iter().filter(|send| of(send)).map(|send| send.slip.0))
        };
        let mut health = ClientHealth {
            schedule_slip_ms: slip(&|_| true),
            schedule_slip_idle_ms: slip(&|send| send.asleep),
            schedule_slip_loaded_ms: slip(&|send| !send.asleep),
            read_lag_ms: Spread::of_histogram(&self.read_lag),
            stamp_uncertainty_ms: Spread::of_histogram(&self.uncertainty),
            arrival_error_ms: Spread::of_histogram(&self.arrival_error),
            reads: (self.reads > 0).then(|| Reads {
                total: self.reads,
                kernel_stamped: self.kernel_stamps,
                kernel_share: self.kernel_stamps as f64 / self.reads as f64,
            }),
            queue: Some(queue.into()),
            cpu: Cpu::of(shares),
            rate_ratio: load
                .requested_rate
                .zip(load.reached_rate)
                .and_then(|(asked, reached)| ratio(reached, asked)),
            concurrency_ratio: load
                .requested_concurrency
                .and_then(|asked| ratio(load.reached_concurrency as f64, asked as f64)),
            retries: Some(self.retries),
            ..ClientHealth::default()
        };
        if self.requests > 0 {
            let late_ms = self.late_ms(&|_| true);
            let idle_late_ms = self.late_ms(&|send| send.asleep);
            health.judge(&Facts::new(self.requests, late_ms, idle_late_ms, results));
        }
        health
    }

    /// The 99th percentile of how late requests of a kind left by the client's
    /// fault, in milliseconds: not for want of a slot or of the answer before, and
    /// not for the time that any connection takes.
    fn late_ms(&self, of: &dyn Fn(&SendDelay) -> bool) -> Option<f64> {
        let connect = self.shortest_connect.unwrap_or_default();
        let late = |send: &SendDelay| {
            if send.connected { send.late.since(connect).0 } else { send.late.0 }
        };
        let sends = self.sends.iter().filter(|send| of(send));
        Spread::of(sends.map(late)).map(|spread| spread.p99)
    }
}

impl ClientHealth {
    /// The health of a run whose records were read again: what they say, `slips`
    /// in nanoseconds and `retries`, replaces what `earlier` said of it; the rest
    /// is left as it was, or absent.
    #[must_use]
    pub fn recomputed(earlier: Option<Self>, slips: Vec<u64>, retries: u64) -> Option<Self> {
        let schedule_slip_ms = Spread::of(slips);
        let retries = (earlier.is_some() || retries > 0).then_some(retries);
        let is_known = earlier.is_some() || schedule_slip_ms.is_some() || retries.is_some();
        is_known.then(|| Self { schedule_slip_ms, retries, ..earlier.unwrap_or_default() })
    }

    fn judge(&mut self, facts: &Facts) {
        self.reasons = verdict::reasons(self, facts);
        self.verdict = Some(self.reasons.first().map_or(Verdict::Valid, |reason| reason.verdict));
    }
}
