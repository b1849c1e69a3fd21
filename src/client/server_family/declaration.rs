//! What is declared of a family of servers.
//!
//! Names of metrics are those in files: counters lack `_total`.

use std::sync::Arc;

use serde::{Deserialize, Serialize};

use base::units::Nanos;

/// A family of servers, which expose the same metrics.
#[derive(Debug, PartialEq)]
pub struct ServerFamily {
    /// Its name in files.
    pub name: &'static str,
    /// Its name in tables.
    pub title: &'static str,
    /// The prefix of the names of its metrics, which no other family has.
    pub prefix: &'static str,
    pub role: Role,
    /// Its important metrics, in the order in which to read them.
    pub watched: &'static [Watched],
    /// Its counts of what the client counts, too.
    pub counts: &'static [Count],
    /// Its times of requests.
    pub times: Times,
    /// Its counters of the prefix cache, if it has any.
    pub prefix_cache: Option<PrefixCounters>,
    /// Its metrics of speculative decoding, if it has any.
    pub speculation: Option<Speculation>,
    /// Its counters of events whose time is within a stage.
    pub hidden: &'static [Hidden],
    /// A metric of its workers, and the label that is `prefill` on workers that do nothing else.
    pub worker_label: Option<(&'static str, &'static str)>,
}

/// What a server counts of its prefix cache, in tokens. Several metrics are added up; of histograms, it
/// is the sum.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PrefixCounters {
    /// Tokens that were looked up.
    pub queries: &'static [&'static str],
    /// Tokens that were found.
    pub hits: &'static [&'static str],
}

/// A counter of events whose time is within a stage, where no time shows it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Hidden {
    pub metric: &'static str,
    /// What happened, and in which stage its time is.
    pub what: &'static str,
}

/// The part of a server in the processing of a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Role {
    /// Receives each request once, and passes it on to engines.
    FrontEnd,
    /// Processes requests, of clients or of a front end.
    Engine,
}

impl ServerFamily {
    /// Returns an engine of which no metric is known.
    pub(super) const fn engine(
        name: &'static str,
        title: &'static str,
        prefix: &'static str,
    ) -> Self {
        Self {
            name,
            title,
            prefix,
            role: Role::Engine,
            watched: &[],
            counts: &[],
            times: Times::NONE,
            prefix_cache: None,
            speculation: None,
            hidden: &[],
            worker_label: None,
        }
    }
}

/// The kind of a family's series.
#[derive(
    Debug,
    Clone,
    Copy,
    PartialEq,
    Eq,
    PartialOrd,
    Ord,
    Hash,
    Serialize,
    Deserialize,
    schemars::JsonSchema,
)]
#[serde(rename_all = "lowercase")]
pub enum SeriesKind {
    /// Any number.
    Gauge,
    /// Only increases, except for resets.
    Counter,
    /// Cumulative buckets, a sum and a count.
    Histogram,
    /// No declared type, or `untyped`; has the statistics of a gauge.
    Unknown,
    /// Labels that do not change, with the value 1. Named `…_info`.
    Info,
    /// Quantiles over the server's whole lifetime, a sum and a count.
    Summary,
}

/// An important metric.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Watched {
    pub name: &'static str,
    /// The name in earlier versions, used if the metric is missing.
    pub earlier: Option<&'static str>,
    pub kind: SeriesKind,
    /// The most informative statistic.
    pub statistic: Statistic,
    /// Whether its values are shares from 0 to 1, which are shown in percent.
    is_share: bool,
    pub meaning: &'static str,
    /// The requests that it counts, if it counts those in the server.
    pub counts: Option<InServer>,
    /// Whether it is the share of the KV cache that is in use.
    pub is_kv_cache: bool,
}

/// Where requests are in a server.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum InServer {
    /// In the batch, or in slots.
    Running,
    /// In the queue.
    Waiting,
}

impl Watched {
    /// Returns the same metric, which had another name in earlier versions.
    pub(super) const fn once(self, earlier: &'static str) -> Self {
        Self { earlier: Some(earlier), ..self }
    }

    /// Returns the same metric, which counts the requests there.
    pub(super) const fn counts(self, place: InServer) -> Self {
        Self { counts: Some(place), ..self }
    }

    /// Returns the same metric, which is the share of the KV cache in use.
    pub(super) const fn of_kv_cache(self) -> Self {
        Self { is_kv_cache: true, ..self }
    }

    /// Returns the unit in which values are shown, if it is not the metric's own.
    pub fn shown_unit(&self) -> Option<&'static str> {
        self.is_share.then_some("%")
    }

    /// Returns a value as it is shown.
    pub fn shown(&self, value: f64) -> f64 {
        if self.is_share { 100.0 * value } else { value }
    }
}

/// Returns an important gauge.
pub const fn gauge(name: &'static str, statistic: Statistic, meaning: &'static str) -> Watched {
    Watched {
        name,
        earlier: None,
        kind: SeriesKind::Gauge,
        statistic,
        is_share: false,
        meaning,
        counts: None,
        is_kv_cache: false,
    }
}

/// Returns an important gauge whose values are shares from 0 to 1.
pub(super) const fn share(
    name: &'static str,
    statistic: Statistic,
    meaning: &'static str,
) -> Watched {
    Watched { is_share: true, ..gauge(name, statistic, meaning) }
}

/// Returns an important counter.
pub(super) const fn counter(
    name: &'static str,
    statistic: Statistic,
    meaning: &'static str,
) -> Watched {
    Watched {
        name,
        earlier: None,
        kind: SeriesKind::Counter,
        statistic,
        is_share: false,
        meaning,
        counts: None,
        is_kv_cache: false,
    }
}

/// Returns an important histogram.
pub(super) const fn histogram(name: &'static str, meaning: &'static str) -> Watched {
    Watched {
        name,
        earlier: None,
        kind: SeriesKind::Histogram,
        statistic: Statistic::P99,
        is_share: false,
        meaning,
        counts: None,
        is_kv_cache: false,
    }
}

/// A statistic of a series.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Statistic {
    /// Mean of a gauge.
    Avg,
    /// Maximum of a gauge.
    Max,
    /// Increase of a counter.
    Total,
    /// Increase of a counter per second.
    Rate,
    /// Estimate of the 99th percentile of a histogram.
    P99,
}

impl Statistic {
    /// Returns its name in files.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Avg => "avg",
            Self::Max => "max",
            Self::Total => "total",
            Self::Rate => "rate",
            Self::P99 => "p99_estimate",
        }
    }
}

/// A quantity that the server and the client count.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Quantity {
    /// Requests that succeeded.
    Requests,
    PromptTokens,
    CompletionTokens,
}

/// A server's count of a quantity: the increase of a counter, or of the sum of a histogram.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Count {
    pub quantity: Quantity,
    pub metric: &'static str,
    /// The metric of the cached tokens, which `metric` does not include. Servers that do not have it
    /// count fewer tokens than the client.
    pub cached: Option<&'static str>,
    /// Label and values of the series that are excluded.
    pub except: Option<(&'static str, &'static [&'static str])>,
    /// Label and value of the series that are included; all series without one.
    pub only: Option<(&'static str, &'static str)>,
    /// A label each of whose values counts the same requests again.
    pub parallel: Option<&'static str>,
    /// Whether each choice of a request is counted, as a request of its own.
    pub by_choice: bool,
}

const fn count(quantity: Quantity, metric: &'static str) -> Count {
    Count {
        quantity,
        metric,
        cached: None,
        except: None,
        only: None,
        parallel: None,
        by_choice: false,
    }
}

/// Returns a count of requests that succeeded.
pub(super) const fn requests(metric: &'static str) -> Count {
    count(Quantity::Requests, metric)
}

/// Returns a count of prompt tokens, including those of requests that fail later.
pub(super) const fn prompt_tokens(metric: &'static str) -> Count {
    count(Quantity::PromptTokens, metric)
}

/// Returns a count of completion tokens, including those of requests that fail later.
pub(super) const fn completion_tokens(metric: &'static str) -> Count {
    count(Quantity::CompletionTokens, metric)
}

/// A time that a server adds up over requests, in a histogram or a counter.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Time {
    pub metric: &'static str,
    /// Label and value of its series; all series without one.
    pub only: Option<(&'static str, &'static str)>,
    pub unit: Nanos,
}

impl Time {
    /// Returns whether it is in the series with `labels`.
    pub fn includes(&self, labels: &[(Arc<str>, Arc<str>)]) -> bool {
        let has = |(name, value): (&str, &str)| {
            labels.iter().any(|(label, of)| &**label == name && &**of == value)
        };
        self.only.is_none_or(has)
    }
}

/// Returns the time that `metric` has in seconds.
pub const fn seconds(metric: &'static str) -> Time {
    Time { metric, only: None, unit: Nanos(1_000_000_000) }
}

/// Returns the time that `metric` has in milliseconds.
pub(super) const fn milliseconds(metric: &'static str) -> Time {
    Time { metric, only: None, unit: Nanos(1_000_000) }
}

/// Returns the time that `metric` has in microseconds.
pub(super) const fn microseconds(metric: &'static str) -> Time {
    Time { metric, only: None, unit: Nanos(1_000) }
}

/// The times that a server observes once for each request.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Times {
    pub queue: Option<Time>,
    pub prefill: Option<Time>,
    pub decode: Option<Time>,
    /// From the arrival of a request to its first token.
    pub first_token: Option<Time>,
    /// From the arrival of a request to its end.
    pub whole: Option<Time>,
    /// From the first token of a request to its end, divided by the number of tokens after the
    /// first.
    pub per_token: Option<Time>,
    /// The transfer of the KV cache between separate workers.
    pub transfer: Option<Time>,
    /// Whether the queue of a worker for decode contains the transfer.
    pub queue_has_transfer: bool,
    /// Other times, which overlap the stages.
    pub further: &'static [Time],
    /// The counter that shows how many requests the times cover, if they are counters.
    pub counter: Option<(&'static str, Quantity)>,
    /// Whether the histograms of stages do not observe times of zero.
    pub omits_zeros: bool,
    /// The number of significant digits of the sums, if the server does not write all.
    pub digits: Option<i32>,
}

impl Times {
    pub(super) const NONE: Self = Self {
        queue: None,
        prefill: None,
        decode: None,
        first_token: None,
        whole: None,
        per_token: None,
        transfer: None,
        queue_has_transfer: false,
        further: &[],
        counter: None,
        omits_zeros: false,
        digits: None,
    };

    /// Returns the times of the stages.
    pub fn stages(&self) -> impl Iterator<Item = Time> {
        [self.queue, self.prefill, self.decode].into_iter().flatten()
    }

    /// Returns the times of the stages, and those from the arrival of a request.
    pub fn stages_and_totals(&self) -> impl Iterator<Item = Time> {
        self.stages().chain([self.first_token, self.whole].into_iter().flatten())
    }
}

/// What a server reports about the tokens that it drafts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Speculation {
    /// Counters, whose totals over all series are those of all engines and models.
    Counters {
        /// Drafts, each of several tokens.
        drafts: &'static str,
        /// Tokens of the drafts.
        drafted: &'static str,
        /// Tokens that the model accepted.
        accepted: &'static str,
        /// Accepted tokens by their `position` in the draft, counted from 0.
        accepted_at: &'static str,
    },
    /// Gauges, which are 0 while nothing is drafted.
    Gauges {
        /// Accepted tokens per drafted token.
        rate: &'static str,
        /// Tokens per step of the model.
        length: &'static str,
    },
}
