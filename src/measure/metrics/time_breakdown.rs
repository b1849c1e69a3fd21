//! Mean latencies as sums of parts, each of which is a stage of a request.

mod growth;

use serde::{Deserialize, Serialize};

use super::metric::MetricResult;
use super::tag::{self, MetricTag};

pub use growth::Growth;

/// The client's mean latencies by the server's times, or why they are not divided.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(untagged)]
pub enum TimeBreakdown {
    /// Each latency as the sum of its parts.
    Found(Division),
    /// The server's times are not known, or not those of the client's requests.
    None {
        /// Why.
        reason: String,
        /// Whether the server reports no times at all, so that nothing is wrong with them.
        #[serde(default, skip_serializing_if = "std::ops::Not::not")]
        is_unreported: bool,
    },
}

/// The client's mean latencies, each as the sum of its parts.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, schemars::JsonSchema)]
pub struct Division {
    /// Number of requests, the same for client and server.
    pub request_count: u64,
    /// The latencies that were measured.
    pub metrics: Vec<Divided>,
}

/// A mean latency of the client.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, schemars::JsonSchema)]
pub struct Divided {
    /// Its tag.
    pub metric: MetricTag,
    /// The mean in milliseconds, which is the sum of the parts.
    pub mean_ms: f64,
    /// Its parts, in order of time; the last is what no one measures.
    pub parts: Vec<Part>,
}

/// A part of a latency.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize, schemars::JsonSchema)]
pub struct Part {
    /// Its name.
    pub stage: Stage,
    /// Its mean over all requests, in milliseconds.
    pub mean_ms: f64,
    /// Maximum error of the mean, in milliseconds.
    pub bound_ms: f64,
}

/// A stage of a request.
#[derive(
    Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, schemars::JsonSchema,
)]
#[serde(rename_all = "snake_case")]
pub enum Stage {
    /// The client waits for an established connection.
    Connection,
    /// The client sends the request.
    Sending,
    /// The server has the request, but it is in none of the following stages.
    FrontEnd,
    /// It waits in the server's queue.
    Queue,
    /// The server computes the first token.
    Prefill,
    /// Queue and prefill together.
    QueueAndPrefill,
    /// The KV cache is sent from the worker for prefill to the worker for decode.
    KvTransfer,
    /// The server computes the other tokens.
    Decode,
    /// Prefill and decode together.
    PrefillAndDecode,
    /// Transfer of the KV cache and decode together.
    KvTransferAndDecode,
    /// The token that ends the output, which is in the server's decode, but after the last text and so
    /// not in the latency: less than 0.
    EndToken,
    /// The server has the request, and does not report in which stage.
    Server,
    /// The rest: the network, and whatever the server does before it takes its first time.
    Unattributed,
}

impl Stage {
    /// Returns its name in files and in telemetry.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Connection => "connection",
            Self::Sending => "sending",
            Self::FrontEnd => "front_end",
            Self::Queue => "queue",
            Self::Prefill => "prefill",
            Self::QueueAndPrefill => "queue_and_prefill",
            Self::KvTransfer => "kv_transfer",
            Self::Decode => "decode",
            Self::PrefillAndDecode => "prefill_and_decode",
            Self::KvTransferAndDecode => "kv_transfer_and_decode",
            Self::EndToken => "end_token",
            Self::Server => "server",
            Self::Unattributed => "unattributed",
        }
    }

    /// Returns the stage of the server whose time the metric `tag` is.
    pub(super) fn of_server(tag: MetricTag) -> Option<Self> {
        let (stage, _) = STAGES.into_iter().find(|(_, own)| *own == tag)?;
        (!matches!(stage, Self::Connection | Self::Sending | Self::EndToken)).then_some(stage)
    }

    /// Returns what `time`, the value of its metric, contributes to the latency.
    pub fn part_of_latency(self, time: f64) -> f64 {
        if self == Self::EndToken { -time } else { time }
    }

    /// Returns whether it includes decode.
    pub const fn is_decode(self) -> bool {
        matches!(self, Self::Decode | Self::PrefillAndDecode | Self::KvTransferAndDecode)
    }

    /// Returns its name for people, as within a sentence.
    pub(crate) fn title_within(self) -> String {
        let title = self.title();
        if title.starts_with("KV") { title.to_owned() } else { title.to_lowercase() }
    }

    /// Returns its name for people.
    pub const fn title(self) -> &'static str {
        match self {
            Self::Connection => "Connection",
            Self::Sending => "Sending",
            Self::FrontEnd => "Front end",
            Self::Queue => "Queue",
            Self::Prefill => "Prefill",
            Self::QueueAndPrefill => "Queue + prefill",
            Self::KvTransfer => "KV transfer",
            Self::Decode => "Decode",
            Self::PrefillAndDecode => "Prefill + decode",
            Self::KvTransferAndDecode => "KV transfer + decode",
            Self::EndToken => "End token, after the latency",
            Self::Server => "Server, undivided",
            Self::Unattributed => "Unattributed",
        }
    }
}

/// The metrics of requests that are stages, in order of time.
const STAGES: [(Stage, MetricTag); 11] = [
    (Stage::Connection, tag::HTTP_REQ_CONNECTION_OVERHEAD),
    (Stage::Sending, tag::HTTP_REQ_SENDING),
    (Stage::FrontEnd, tag::SERVER_FRONT_END_TIME),
    (Stage::Queue, tag::SERVER_QUEUE_TIME),
    (Stage::Prefill, tag::SERVER_PREFILL_TIME),
    (Stage::QueueAndPrefill, tag::SERVER_QUEUE_AND_PREFILL_TIME),
    (Stage::KvTransfer, tag::SERVER_KV_TRANSFER_TIME),
    (Stage::Decode, tag::SERVER_DECODE_TIME),
    (Stage::PrefillAndDecode, tag::SERVER_PREFILL_AND_DECODE_TIME),
    (Stage::KvTransferAndDecode, tag::SERVER_KV_TRANSFER_AND_DECODE_TIME),
    (Stage::EndToken, tag::END_TOKEN_TIME),
];

/// The latencies that stages divide.
pub const DIVIDED: [MetricTag; 2] = [tag::TIME_TO_FIRST_TOKEN, tag::REQUEST_LATENCY];

/// Returns the metrics of requests that add up to the metric `latency`, in order of time; the rest
/// is last. None if stages do not divide it.
pub fn parts(latency: MetricTag) -> impl Iterator<Item = (Stage, MetricTag)> {
    let found = LATENCIES.into_iter().filter(move |(own, ..)| *own == latency);
    found.flat_map(|(_, stages, rest)| {
        STAGES.into_iter().take(stages).chain([(Stage::Unattributed, rest)])
    })
}

/// The latencies that stages divide, the number of [`STAGES`] in each, and the rest.
const LATENCIES: [(MetricTag, usize, MetricTag); 2] = [
    (tag::TIME_TO_FIRST_TOKEN, 7, tag::SERVER_UNATTRIBUTED_TIME_TO_FIRST_TOKEN),
    (tag::REQUEST_LATENCY, 11, tag::SERVER_UNATTRIBUTED_TIME),
];

impl Division {
    /// Divides the mean latencies among the `results` of a phase by the stages that servers reported
    /// of each request; `None` unless all requests have the same stages. `arrival_error_ms` is the
    /// client's mean error of the end of a latency.
    pub fn of_requests(results: &[MetricResult], arrival_error_ms: f64) -> Option<Self> {
        let mean = |tag: MetricTag| {
            let result = results.iter().find(|result| result.metric.tag == tag)?;
            Some((result.stats.distribution?.count, result.stats.avg))
        };
        let (request_count, _) = mean(tag::REQUEST_LATENCY)?;
        // The server may have the request before the client knows that it was sent.
        let sending_ms = mean(tag::HTTP_REQ_SENDING).map_or(0.0, |(_, mean_ms)| mean_ms);
        let divided = |metric: MetricTag| {
            let (_, mean_ms) = mean(metric).filter(|(count, _)| *count == request_count)?;
            let known: Vec<_> =
                parts(metric).filter_map(|(stage, tag)| Some((stage, mean(tag)?))).collect();
            let decodes = known.iter().any(|(stage, _)| stage.is_decode());
            let known = known.into_iter().filter_map(|(stage, (count, mean_ms))| {
                let time = stage.part_of_latency(mean_ms);
                // Of those that a limit did not end.
                let of_all = time * count as f64 / request_count as f64;
                match stage {
                    Stage::EndToken if !decodes => None,
                    Stage::EndToken => Some((stage, (request_count, of_all))),
                    _ => Some((stage, (count, time))),
                }
            });
            let parts = known.map(|(stage, (count, mean_ms))| {
                let is_rest = stage == Stage::Unattributed;
                let bound_ms = if is_rest { arrival_error_ms + sending_ms } else { 1e-6 };
                (count == request_count).then_some(Part { stage, mean_ms, bound_ms })
            });
            let parts: Vec<Part> = parts.collect::<Option<_>>()?;
            // Without the rest, they do not add up.
            let is_whole = parts.last().is_some_and(|last| last.stage == Stage::Unattributed);
            is_whole.then_some(Divided { metric, mean_ms, parts })
        };
        let metrics: Vec<Divided> = DIVIDED.into_iter().filter_map(divided).collect();
        (!metrics.is_empty()).then_some(Self { request_count, metrics })
    }

    /// Returns whether servers reported a stage of any request, by the `results` of a phase.
    pub(crate) fn is_reported(results: &[MetricResult]) -> bool {
        let is_of_server =
            |(_, tag): &(Stage, MetricTag)| results.iter().any(|result| result.metric.tag == *tag);
        STAGES.iter().filter(|(_, tag)| Stage::of_server(*tag).is_some()).any(is_of_server)
    }

    /// Returns the number of parts of all latencies.
    pub fn parts(&self) -> usize {
        self.metrics.iter().map(|divided| divided.parts.len()).sum()
    }

    /// Returns the latency `metric`, if it is divided.
    pub fn get(&self, metric: MetricTag) -> Option<&Divided> {
        self.metrics.iter().find(|divided| divided.metric == metric)
    }
}

impl Divided {
    /// Returns the part `stage`, if it has it.
    pub fn part(&self, stage: Stage) -> Option<&Part> {
        self.parts.iter().find(|part| part.stage == stage)
    }
}

impl Part {
    /// Returns it together with `other`, if that is known.
    pub fn with(self, other: Option<Self>, stage: Stage) -> Self {
        let other = other.unwrap_or(Self { stage, mean_ms: 0.0, bound_ms: 0.0 });
        let (mean_ms, bound_ms) = (self.mean_ms + other.mean_ms, self.bound_ms + other.bound_ms);
        Self { stage, mean_ms, bound_ms }
    }

    /// Returns what remains of it without `parts`.
    pub fn without(self, parts: &[Self], stage: Stage) -> Self {
        let sum = |of: fn(&Self) -> f64| parts.iter().map(of).sum::<f64>();
        Self {
            stage,
            mean_ms: self.mean_ms - sum(|part| part.mean_ms),
            bound_ms: self.bound_ms + sum(|part| part.bound_ms),
        }
    }
}
