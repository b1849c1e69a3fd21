//! The health of the client: the part of every result that states whether the client kept up.

use std::borrow::Cow;

use serde::{Deserialize, Serialize};

use base::statistics::percentile::distribution;
use client::runner::{CpuShares, QueueStats};

use super::bounds::ErrorBounds;
use super::host::HostActivity;
use super::selfcheck::SelfCheck;
use super::throughput::RateBounds;
use crate::metrics::histogram::Histogram;
use crate::metrics::metric::{ByDuration, Metric};

/// Whether the results are reliable as far as the client is concerned, or the server's outputs.
#[derive(
    Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, schemars::JsonSchema,
)]
#[serde(rename_all = "lowercase")]
pub enum Verdict {
    /// The client did not affect the results; the outputs are as they should be.
    Valid,
    /// The client may have affected the results; some outputs may be corrupt.
    Suspect,
    /// The results reflect the client more than the server; outputs are corrupt.
    Invalid,
}

impl Verdict {
    /// All verdicts, the best first.
    pub const ALL: [Self; 3] = [Self::Valid, Self::Suspect, Self::Invalid];

    /// Returns `valid`, `suspect` or `invalid`.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Valid => "valid",
            Self::Suspect => "suspect",
            Self::Invalid => "invalid",
        }
    }

    /// Returns the verdict as a number: 0 for valid, 1 for suspect, 2 for invalid.
    #[must_use]
    pub const fn level(self) -> u8 {
        self as u8
    }
}

/// A reason for a verdict that is not [`Verdict::Valid`].
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema)]
pub struct Reason {
    /// The severity.
    pub verdict: Verdict,
    /// Its name for `aiperf explain`; empty in files of other versions.
    #[serde(default)]
    pub name: Cow<'static, str>,
    /// The finding: a sentence without a full stop.
    pub finding: String,
    /// What to do about it: a sentence without a full stop.
    pub advice: String,
}

/// The health of the client in a measurement.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(default)]
pub struct ClientHealth {
    /// Absent if no request succeeded or the run did not complete.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub verdict: Option<Verdict>,
    /// The most serious reason first; empty if the verdict is `valid`.
    pub reasons: Vec<Reason>,
    /// How far the client may have shifted the statistics, and how far other requests would; absent
    /// if no request succeeded.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub error_bounds_ms: Option<ErrorBounds>,
    /// How far the client may have shifted the throughput of requests and tokens; absent if no request
    /// succeeded or the delays are not known.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub throughput_bounds: Option<RateBounds>,
    /// From the due time of a request until it was handed to the transport, before waiting for
    /// a connection; absent in a closed loop.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub schedule_slip_ms: Option<TimeStatistics>,
    /// The part of the slip for which the client could have been on time: without the wait for a
    /// slot of the concurrency limit and for the response that a request follows. The verdict
    /// judges it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub client_slip_ms: Option<TimeStatistics>,
    /// The slip of requests that were due while the worker slept, and so were not delayed by
    /// its own work.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub schedule_slip_idle_ms: Option<TimeStatistics>,
    /// The slip of the other requests.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub schedule_slip_loaded_ms: Option<TimeStatistics>,
    /// From the kernel's receive timestamp of an event until the program read it; absent
    /// without kernel timestamps.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub read_lag_ms: Option<TimeStatistics>,
    /// How much earlier than its timestamp an event may have arrived.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub stamp_uncertainty_ms: Option<TimeStatistics>,
    /// The part of it that the client caused. Absent if neither the kernel's timestamps nor its
    /// count of how long the client waited for a core are available.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub arrival_error_ms: Option<TimeStatistics>,
    /// Reads from the sockets, and the source of their timestamps.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reads: Option<Reads>,
    /// The record queue.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub queue: Option<Queue>,
    /// CPU time.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cpu: Option<Cpu>,
    /// Achieved request rate divided by the configured one; absent without a rate.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub rate_ratio: Option<f64>,
    /// Highest concurrency divided by the configured one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub concurrency_ratio: Option<f64>,
    /// Number of retries because a reused connection was dead.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub retries: Option<u64>,
    /// Energy of the client's processors in the profiling phase, in joules; absent if its counters
    /// cannot be read.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub energy_joules: Option<f64>,
    /// What the machine did to the client in the profiling phase; absent if the phase did not begin.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub host: Option<HostActivity>,
    /// This machine's saved self-check, if there is one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub selfcheck: Option<SelfCheck>,
}

/// Statistics of times, in milliseconds.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize, schemars::JsonSchema)]
pub struct TimeStatistics {
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

impl TimeStatistics {
    /// Computes statistics of exact values in nanoseconds, which are asked for several times; `None`
    /// if there are none.
    #[must_use]
    pub fn from_values<I: Iterator<Item = u64>>(values: impl Fn() -> I) -> Option<Self> {
        let nanos = distribution(|| values().map(|value| value as f64))?;
        Some(Self {
            count: nanos.count,
            avg: nanos.sum / nanos.count as f64 / 1e6,
            p50: nanos.p50 / 1e6,
            p90: nanos.p90 / 1e6,
            p99: nanos.p99 / 1e6,
            max: nanos.max / 1e6,
        })
    }

    /// Computes statistics of counted values in nanoseconds, at most 0.8% too high; `None` if there are
    /// none.
    pub(super) fn of_histogram(values: &Histogram) -> Option<Self> {
        let at = |percent| values.percentile(percent).map(|value| value as f64 / 1e6);
        Some(Self {
            count: values.count(),
            avg: values.mean()? / 1e6,
            p50: at(50.0)?,
            p90: at(90.0)?,
            p99: at(99.0)?,
            max: values.max() as f64 / 1e6,
        })
    }
}

/// Reads from the sockets.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize, schemars::JsonSchema)]
pub struct Reads {
    /// Number of reads.
    pub total: u64,
    /// Number of reads with a kernel timestamp; the others have the program's own.
    pub kernel_stamped: u64,
    /// Reads with a kernel timestamp divided by all reads.
    pub kernel_share: f64,
}

/// The queue of records between workers and processors.
#[derive(
    Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema,
)]
pub struct Queue {
    /// Memory limit in bytes.
    pub budget_bytes: u64,
    /// Peak size in memory in bytes.
    pub peak_bytes: u64,
    /// Number of sends that were delayed because the queue was full.
    pub pauses: u64,
    /// Number of records that were spilled to a file.
    pub spilled_records: u64,
    /// Their size in bytes.
    pub spilled_bytes: u64,
    /// Number of records beyond the limit that stayed in memory.
    pub kept_over_budget: u64,
    /// Number of records that were never measured because they could not be read back from the
    /// file, or the user interrupted.
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

/// CPU time divided by wall time; 1 is one fully used core.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize, schemars::JsonSchema)]
pub struct Cpu {
    /// Number of worker threads.
    pub workers: u64,
    /// CPU usage of the busiest worker.
    pub worker_max: f64,
    /// Mean CPU usage of the workers.
    pub worker_mean: f64,
    /// CPU usage of the whole program.
    pub process: f64,
    /// Number of cores available to the program.
    pub cores: u64,
}

impl Cpu {
    /// Computes CPU usage; `None` if no worker ended the phase.
    pub(super) fn from_shares(shares: &CpuShares) -> Option<Self> {
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

/// How far the client may have shifted the statistics of a run.
#[derive(Debug, Clone, Copy, Default)]
pub struct ClientBounds {
    /// Bounds of latencies.
    pub latencies: Option<ErrorBounds>,
    /// Bounds of rates.
    pub rates: Option<RateBounds>,
}

impl ClientBounds {
    /// Returns how much lower and higher the `statistic` of `metric` may be, which is `value`; `None` if
    /// that is not known.
    pub fn errors(&self, metric: &Metric, statistic: &str, value: f64) -> Option<[f64; 2]> {
        match metric.by_duration() {
            Some(ByDuration::Rate) => return Some(self.rates?.errors(value)),
            Some(ByDuration::Cost) => return Some(self.rates?.cost_errors(value)),
            None => {}
        }
        let bound = self.latencies?.get(metric.tag, statistic)?;
        Some([bound.below, bound.above])
    }
}

impl ClientHealth {
    /// Returns how far the client may have shifted the statistics.
    pub const fn bounds(&self) -> ClientBounds {
        ClientBounds { latencies: self.error_bounds_ms, rates: self.throughput_bounds }
    }

    /// Adds reasons for doubt that are not due to the client. A run without a verdict stays without
    /// one.
    pub fn doubt(&mut self, reasons: impl IntoIterator<Item = Reason>) {
        self.reasons.extend(reasons);
        // A stable sort keeps reasons of the same severity in order.
        self.reasons.sort_by_key(|reason| std::cmp::Reverse(reason.verdict));
        let worst = self.reasons.first().map(|reason| reason.verdict);
        self.verdict =
            self.verdict.map(|verdict| worst.map_or(verdict, |worst| worst.max(verdict)));
    }
}
