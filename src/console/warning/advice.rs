//! What to do about a warning.

use serde_json::Value;

use super::Warning;
use super::counts::{Cause, CountDifference, Side};
use super::servers;
use crate::console::server_spans;
use crate::metrics::health::LoadVerdict;
use crate::redact::printable;
use crate::run::{RunDescription, RunReport};
use crate::server_family::Quantity;
use crate::server_metrics::conservation::Comparison;

/// What to do about requests that time out.
const TIMED_OUT: &[&str] = &[
    "Raise --request-timeout-seconds, so that the latencies include these requests.",
    "Or lower the load until the server responds in time.",
];

/// The settings of a run that advice depends on.
#[derive(Debug, Default)]
pub(crate) struct Given {
    /// Whether requests ask not to end at the end token.
    ignores_eos: bool,
    /// Whether requests have a minimum of output tokens.
    has_min_tokens: bool,
    /// Whether prompts are counted with the model's chat template.
    applies_chat_template: bool,
    /// Whether the server's token counts are used.
    uses_server_count: bool,
    /// Whether the number of requests in flight is limited.
    has_concurrency: bool,
    /// Whether the run waits for the model.
    waits_for_model: bool,
    /// Whether the server's prefix cache is reset before the run.
    resets_cache: bool,
    /// The tokenizer, unless it is the builtin one.
    tokenizer: Option<String>,
}

impl Given {
    /// Returns the settings of a run.
    #[must_use]
    pub(crate) fn of(report: &RunReport) -> Self {
        let RunDescription { setup, settings, provenance, .. } = &report.run;
        let is_set = |name: &str| {
            setup.extra_inputs.get(name).is_some_and(|value| *value != Value::Bool(false))
        };
        let tokenizer = provenance.tokenizer.as_ref().map(|tokenizer| tokenizer.name.as_str());
        Self {
            ignores_eos: is_set("ignore_eos"),
            has_min_tokens: is_set("min_tokens"),
            applies_chat_template: report.run.config.pointer("/apply_chat_template")
                == Some(&Value::Bool(true)),
            uses_server_count: settings.use_server_token_count,
            has_concurrency: report.outcome.load.requested_concurrency.is_some(),
            waits_for_model: setup.waits_for_model,
            resets_cache: report
                .run
                .config
                .pointer("/server/control/reset_kv_cache")
                .is_some_and(|reset| !reset.is_null()),
            tokenizer: tokenizer.filter(|name| *name != "builtin").map(printable),
        }
    }

    fn connections(&self) -> Vec<String> {
        let wait = "To start the run when the server is ready, use --wait-for-model-timeout.";
        let check =
            "See the messages in the error summary, and check that the server keeps running.";
        [Some(check), (!self.waits_for_model).then_some(wait)]
            .into_iter()
            .flatten()
            .map(str::to_owned)
            .collect()
    }

    /// How to start with an empty prefix cache.
    fn cold_cache(&self) -> Vec<String> {
        let reset = if self.resets_cache {
            "The cache was reset before the run; check that all servers behind the URL were, and that no \
             other client sends these prompts."
        } else {
            "Empty the server's cache before the run with --reset-kv-cache."
        };
        let others = "Or send prompts that it does not know, with another --random-seed or with \
                      --cache-bust.";
        [reset, others].map(str::to_owned).into()
    }

    fn rate(&self) -> Vec<String> {
        let limit = "Raise or remove --concurrency, which delays requests when responses are slow.";
        let busy = "If this machine was busy, run aiperf on a dedicated machine.";
        let limit = self.has_concurrency.then_some(limit);
        limit.into_iter().chain([busy]).map(str::to_owned).collect()
    }

    /// How to make the client count as the server does.
    fn token_counts(&self, differences: &[CountDifference]) -> Vec<String> {
        let has = |cause| differences.iter().any(|one| one.cause == Some(cause));
        let of_input = differences.iter().any(|one| one.side == Side::Input);
        let mut advice = Vec::new();
        if of_input && !self.applies_chat_template && !has(Cause::Tokenizer) {
            let what =
                "To count prompts with the model's chat template, use --apply-chat-template.";
            advice.push(what.to_owned());
        }
        advice.extend([
            "See usage_*_diff_pct of each request in profile_export.jsonl.".to_owned(),
            match &self.tokenizer {
                Some(name) => {
                    format!("Check that {name} is the tokenizer of the model being served.")
                }
                None => {
                    "Set --tokenizer to the tokenizer of the model being served, instead of the \
                         builtin one."
                        .to_owned()
                }
            },
        ]);
        if !self.uses_server_count {
            advice.push("Or use the server's counts with --use-server-token-count.".to_owned());
        }
        advice.push(
            "Only the server counts special tokens and the chat template; to tolerate a larger \
             difference, set AIPERF_METRICS_USAGE_PCT_DIFF_THRESHOLD."
                .to_owned(),
        );
        advice
    }

    /// How to learn the tokens of the first event.
    fn first_tokens(&self) -> Vec<String> {
        let flags = if self.uses_server_count {
            "--per-chunk-usage"
        } else {
            "--use-server-token-count --per-chunk-usage"
        };
        vec![format!("Let the server report the tokens of each event with {flags} (vLLM).")]
    }

    /// How to get outputs of the requested length.
    fn output_lengths(&self, at_limit: bool) -> Vec<String> {
        let eos = if self.ignores_eos {
            "The requests have ignore_eos; check that the server supports it, and that no limit of \
             the context or of the output is lower than the requested length."
        } else {
            "Models end their output on their own. To generate up to the requested length, use \
             --extra-inputs ignore_eos:true (vLLM, TensorRT-LLM, SGLang)."
        };
        let min =
            "To set a minimum length, use --extra-inputs min_tokens:<N> (vLLM, TensorRT-LLM).";
        let count = "If the tokenizer may not be the model's own, use --use-server-token-count.";
        [
            (!at_limit).then_some(eos),
            (!at_limit && !self.has_min_tokens).then_some(min),
            (!self.uses_server_count).then_some(count),
            Some("See osl_mismatch_diff_pct of each request in profile_export.jsonl."),
            Some(
                "To tolerate a larger difference, set AIPERF_METRICS_OSL_MISMATCH_PCT_THRESHOLD or \
                 AIPERF_METRICS_OSL_MISMATCH_MAX_TOKEN_THRESHOLD.",
            ),
        ]
        .into_iter()
        .flatten()
        .map(str::to_owned)
        .collect()
    }
}

impl Warning {
    /// Advice on what to do, which never names a flag that was `given`.
    #[must_use]
    pub(crate) fn advice(&self, given: &Given) -> Vec<String> {
        let of_settings = match self {
            Self::ConnectionsFailed { .. } => given.connections(),
            Self::RateNotReached { .. } => given.rate(),
            Self::CacheNotCold { .. } => given.cold_cache(),
            Self::UsageDiscrepancy { differences, .. } => given.token_counts(differences),
            Self::OutputLengthMismatch { at_limit, .. } => given.output_lengths(*at_limit),
            Self::BundledTokens { .. } => given.first_tokens(),
            _ => Vec::new(),
        };
        let advice: &[&str] = match self {
            Self::NothingSucceeded { .. } => &[
                "See the messages in the error summary.",
                "Send one request manually, and check --url, --endpoint-type and --model.",
            ],
            Self::NotAuthorized { had_key: false, .. } => {
                &["Set the server's API key with --api-key or AIPERF_API_KEY."]
            }
            Self::NotAuthorized { had_key: true, .. } => {
                &["Check the credentials set with --api-key, AIPERF_API_KEY or --header."]
            }
            Self::Incomplete { .. } => {
                &["Let the run complete, or configure fewer requests or a shorter duration."]
            }
            Self::ConnectionsFailed { .. }
            | Self::RateNotReached { .. }
            | Self::CacheNotCold { .. }
            | Self::UsageDiscrepancy { .. }
            | Self::OutputLengthMismatch { .. } => &[],
            Self::ConnectionsLimited { .. } => &[
                "Raise AIPERF_HTTP_CONNECTION_LIMIT.",
                "Or limit the requests in flight with --concurrency; unless the variable is set, the \
                 limit of connections follows it.",
            ],
            Self::ConcurrencyNotReached { .. } => &[
                "Send at least as many requests as --concurrency, preferably ten times as many.",
                "If requests waited for connections, raise the limit on open files (ulimit -n).",
                "If this machine was busy, run aiperf on a dedicated machine.",
            ],
            Self::DependsOnLength { load } if load.verdict == LoadVerdict::Saturated => {
                &["Send fewer requests than are served, or search for the highest load that the \
                 server sustains."]
            }
            Self::DependsOnLength { .. } => {
                &["Warm the server up with --warmup-request-count, and check what else it does."]
            }
            Self::PromptsRepeat { .. } => &[
                "Send fewer requests, or use a dataset with more of them.",
                "To keep the server from answering from its prefix cache, use --cache-bust.",
            ],
            Self::TimedOut { .. } => TIMED_OUT,
            Self::IncompleteHistory { .. } => &[
                "See missing_answers of each request in profile_export.jsonl.",
                "To end a session at its first failed turn, use --end-failed-sessions.",
            ],
            Self::NotStreamed { .. } => &[
                "Check that the server supports streaming at this path, and that no proxy buffers \
                 its responses.",
                "Or remove --streaming.",
            ],
            Self::ServerSilent(_) => servers::SILENT_ADVICE,
            Self::ServerSlower(_) => servers::SLOWER_ADVICE,
            Self::EventsTogether { .. } => servers::TOGETHER_ADVICE,
            Self::UnusualResponses { .. } => &[
                "See response_notes of each request in profile_export.jsonl, and compare a response \
                 (--export-level raw) with the lengths and counts that are reported.",
            ],
            Self::BundledTokens { .. } => &[
                "Compare inter_token_latency only between servers that send as many tokens at once.",
            ],
            Self::UsageMissing { .. } => &[
                "Configure the server to report usage; for streams, stream_options.include_usage.",
                "Or remove --use-server-token-count, so that the client counts tokens.",
            ],
            Self::CollectorNotReached { .. } => &[
                "Check --otel-url, and that the collector accepts OTLP there.",
                "gRPC is usually on port 4317, HTTP on 4318.",
            ],
            Self::TelemetryLost { .. }
            | Self::ServerSamplesLost { .. }
            | Self::TracesLost { .. } => &[
                "See the collector's log, and its responses in logs/aiperf.log.",
                "If exports timed out, raise AIPERF_OTEL_REQUEST_TIMEOUT_SECONDS.",
            ],
            Self::ServerSpansMissing { receiver } => server_spans::advice(receiver),
            Self::NotReconciled { .. } => &[
                "Rely on the files, which contain every value, and report the difference as a bug.",
            ],
            Self::ServerTimesExceed { .. } => &[
                "See server_unattributed_time of each request in profile_export.jsonl; do not rely on \
                 the server's times of requests where it is negative.",
            ],
            Self::ServerCountsDiffer { comparisons } => server_counts_advice(comparisons),
            Self::ServerMetricsDoubtful { .. } => &[
                "See failed_fetches and the flags of each series in server_metrics_export.json.",
                "If scrapes failed because the endpoint is slow, raise --server-metrics-timeout.",
            ],
        };
        of_settings.into_iter().chain(advice.iter().map(|text| (*text).to_owned())).collect()
    }
}

/// Advice on differing counts. Differing requests indicate other traffic or servers that are
/// not scraped; differing tokens alone indicate another way of counting.
fn server_counts_advice(comparisons: &[Comparison]) -> &'static [&'static str] {
    let requests = comparisons.iter().find(|one| one.quantity == Quantity::Requests);
    match requests.map(|one| one.server > one.client) {
        Some(true) => &[
            "Other clients used the server, or two of the scraped URLs are the same server. With \
             other clients the latencies are not those of this run's load alone; run again without \
             them.",
        ],
        Some(false) => &[
            "If several servers are behind the URL, list the metrics URL of each with \
             --server-metrics.",
            "If the server updates its counters late, raise \
             AIPERF_SERVER_METRICS_COLLECTION_FLUSH_PERIOD.",
            "If scrapes failed near the end, see failed_fetches in server_metrics_export.json.",
        ],
        None => &[
            "The requests agree or are not counted, so tokens may be counted differently; check \
             whether a proxy or gateway rewrites prompts or usage.",
            "If other clients used the server, run again without them.",
            "If several servers are behind the URL, list the metrics URL of each with \
             --server-metrics.",
        ],
    }
}
