//! Mean latencies as sums of parts, each of which is a stage of a request.

use serde::{Deserialize, Serialize};

use super::tag::MetricTag;

/// The client's mean latencies by the server's times, or why they are not divided.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(untagged)]
pub enum TimeBreakdown {
    /// Each latency as the sum of its parts.
    Found(Division),
    /// The server's times are not those of the client's requests.
    None {
        /// Why.
        reason: String,
    },
}

/// The client's mean latencies, each as the sum of its parts.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct Division {
    /// Number of requests, the same for client and server.
    pub(crate) request_count: u64,
    /// The latencies that were measured.
    pub(crate) metrics: Vec<Divided>,
}

/// A mean latency of the client.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub(crate) struct Divided {
    /// Its tag.
    pub(crate) metric: MetricTag,
    /// The mean in milliseconds, which is the sum of the parts.
    pub(crate) mean_ms: f64,
    /// Its parts, in order of time; the last is what no one measures.
    pub(crate) parts: Vec<Part>,
}

/// A part of a latency.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub(crate) struct Part {
    /// Its name.
    pub(crate) stage: Stage,
    /// Its mean over all requests, in milliseconds.
    pub(crate) mean_ms: f64,
    /// Maximum error of the mean, in milliseconds.
    pub(crate) bound_ms: f64,
}

/// What happens to a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub(crate) enum Stage {
    /// The client waits for an established connection.
    Connection,
    /// The server has the request, but it is in none of the following stages.
    FrontEnd,
    /// It waits in the server's queue.
    Queue,
    /// The server computes the first token.
    Prefill,
    /// The server computes the other tokens.
    Decode,
    /// The server has the request, and does not report in which stage.
    Server,
    /// The rest: the network, and whatever the server does before it takes its first time.
    Unattributed,
}

impl Stage {
    /// Returns its name in files and in telemetry.
    pub(crate) const fn name(self) -> &'static str {
        match self {
            Self::Connection => "connection",
            Self::FrontEnd => "front_end",
            Self::Queue => "queue",
            Self::Prefill => "prefill",
            Self::Decode => "decode",
            Self::Server => "server",
            Self::Unattributed => "unattributed",
        }
    }

    /// Returns its name for people.
    pub(crate) const fn title(self) -> &'static str {
        match self {
            Self::Connection => "Connection",
            Self::FrontEnd => "Front end",
            Self::Queue => "Queue",
            Self::Prefill => "Prefill",
            Self::Decode => "Decode",
            Self::Server => "Server, undivided",
            Self::Unattributed => "Unattributed",
        }
    }
}

impl Division {
    /// Returns the latency `metric`, if it is divided.
    pub(crate) fn of(&self, metric: MetricTag) -> Option<&Divided> {
        self.metrics.iter().find(|divided| divided.metric == metric)
    }
}

impl Divided {
    /// Returns the part `stage`, if it has it.
    pub(crate) fn part(&self, stage: Stage) -> Option<&Part> {
        self.parts.iter().find(|part| part.stage == stage)
    }
}

impl Part {
    /// Returns what remains of it without `parts`.
    pub(crate) fn without(self, parts: &[Self], stage: Stage) -> Self {
        let sum = |of: fn(&Self) -> f64| parts.iter().map(of).sum::<f64>();
        Self {
            stage,
            mean_ms: self.mean_ms - sum(|part| part.mean_ms),
            bound_ms: self.bound_ms + sum(|part| part.bound_ms),
        }
    }
}
