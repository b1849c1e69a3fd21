//! The flags of `aiperf profile`, under AIPerf's headings.

#![expect(clippy::doc_markdown, reason = "the docs are the terminal's help")]

use std::path::PathBuf;

use clap::{ArgAction, Args};

use super::distributed::DistributedArgs;
use super::load_args::{CancellationArgs, LoadArgs, ReplayArgs, UserCentricArgs, WarmupArgs};
use super::media_args::MediaArgs;
use super::multi_run::MultiRunArgs;
use super::rankings::RankingsArgs;
use super::server_metrics::ServerMetricsArgs;
use super::value::{Choice, above_zero, count, number, positive};
use crate::artifacts::ExportLevel;
use crate::config::{ConnectionReuse, LogLevel, Ui, WaitMode};
use crate::dataset::{FileFormat, ModelSelection, Sampling};
use crate::endpoint::EndpointType;
use crate::telemetry::TraceSample;

const ENDPOINT_TYPES: Choice<EndpointType> = Choice(&{
    let mut named = [("", EndpointType::CHAT); EndpointType::ALL.len()];
    let mut at = 0;
    while at < named.len() {
        let endpoint = EndpointType::ALL[at];
        named[at] = (endpoint.traits().name, endpoint);
        at += 1;
    }
    named
});
const MODEL_SELECTIONS: Choice<ModelSelection> =
    Choice(&[("round-robin", ModelSelection::RoundRobin), ("random", ModelSelection::Random)]);
const CONNECTION_REUSES: Choice<ConnectionReuse> = Choice(&[
    ("pooled", ConnectionReuse::Pooled),
    ("never", ConnectionReuse::Never),
    ("sticky-user-sessions", ConnectionReuse::StickyUserSessions),
]);
const WAIT_MODES: Choice<WaitMode> = Choice(&[
    ("models", WaitMode::Models),
    ("inference", WaitMode::Inference),
    ("both", WaitMode::Both),
]);
const FILE_FORMATS: Choice<FileFormat> = Choice(&[
    ("single-turn", FileFormat::SingleTurn),
    ("multi-turn", FileFormat::MultiTurn),
    ("random-pool", FileFormat::RandomPool),
    ("raw-payload", FileFormat::RawPayload),
    ("inputs-json", FileFormat::InputsJson),
    ("sharegpt", FileFormat::ShareGpt),
    ("mooncake-trace", FileFormat::MooncakeTrace),
    ("bailian-trace", FileFormat::BailianTrace),
    ("burst-gpt-trace", FileFormat::BurstGptTrace),
]);
const SAMPLINGS: Choice<Sampling> = Choice(&[
    ("sequential", Sampling::Sequential),
    ("shuffle", Sampling::Shuffle),
    ("random", Sampling::Random),
]);
const EXPORT_LEVELS: Choice<ExportLevel> = Choice(&[
    ("summary", ExportLevel::Summary),
    ("records", ExportLevel::Records),
    ("raw", ExportLevel::Raw),
]);
const UI_MODES: Choice<Ui> =
    Choice(&[("dashboard", Ui::Dashboard), ("simple", Ui::Simple), ("none", Ui::None)]);
const LOG_LEVELS: Choice<LogLevel> = Choice(&[
    ("trace", LogLevel::Trace),
    ("debug", LogLevel::Debug),
    ("info", LogLevel::Info),
    ("notice", LogLevel::Info),
    ("success", LogLevel::Info),
    ("warning", LogLevel::Warn),
    ("error", LogLevel::Error),
    ("critical", LogLevel::Error),
]);
const CONTENT_TYPES: Choice<&str> = Choice(&[
    ("application/json", "application/json"),
    ("multipart/form-data", "multipart/form-data"),
]);
const STREAMS: Choice<Stream> = Choice(&[
    ("metrics", Stream::Metrics),
    ("timing", Stream::Timing),
    ("default", Stream::Default),
]);
const HISTOGRAMS: Choice<bool> = Choice(&[("explicit", false), ("exponential", true)]);

/// A stream of `--stream`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Stream {
    Metrics,
    Timing,
    Default,
}

/// The flags of `aiperf profile`.
#[derive(Args)]
pub(super) struct ProfileArgs {
    #[command(flatten)]
    pub(super) endpoint: EndpointArgs,
    #[command(flatten)]
    pub(super) input: InputArgs,
    #[command(flatten)]
    pub(super) replay: ReplayArgs,
    #[command(flatten)]
    pub(super) output: OutputArgs,
    #[command(flatten)]
    pub(super) tokenizer: TokenizerArgs,
    #[command(flatten)]
    pub(super) tls: TlsArgs,
    #[command(flatten)]
    pub(super) load: LoadArgs,
    #[command(flatten)]
    pub(super) warmup: WarmupArgs,
    #[command(flatten)]
    pub(super) users: UserCentricArgs,
    #[command(flatten)]
    pub(super) cancellation: CancellationArgs,
    #[command(flatten)]
    pub(super) distributed: DistributedArgs,
    #[command(flatten)]
    pub(super) multi_run: MultiRunArgs,
    #[command(flatten)]
    pub(super) conversation: ConversationArgs,
    #[command(flatten)]
    pub(super) prompt: PromptArgs,
    #[command(flatten)]
    pub(super) rankings: RankingsArgs,
    #[command(flatten)]
    pub(super) media: MediaArgs,
    #[command(flatten)]
    pub(super) server_metrics: ServerMetricsArgs,
    #[command(flatten)]
    pub(super) service: ServiceArgs,
}

impl ProfileArgs {
    /// The request rate asked for, or the first that a search for one tries.
    pub(super) fn request_rate(&self) -> Option<f64> {
        self.load.request_rate.or_else(|| self.multi_run.first_rate())
    }
}

/// What is asked and how.
#[derive(Args)]
#[command(next_help_heading = "Endpoint")]
pub(super) struct EndpointArgs {
    /// Models to ask
    #[arg(long = "model", short = 'm', visible_alias = "model-names", value_name = "NAME",
          required = true, num_args = 1.., value_delimiter = ',')]
    pub(super) models: Vec<String>,
    /// How a request gets its model where there are several [default: round-robin]
    #[arg(long, value_name = "STRATEGY", value_parser = MODEL_SELECTIONS)]
    pub(super) model_selection_strategy: Option<ModelSelection>,
    /// Path of the API instead of the endpoint type's own
    #[arg(long, visible_alias = "custom-endpoint", value_name = "PATH")]
    pub(super) endpoint: Option<String>,
    /// API of the server
    #[arg(long, value_name = "TYPE", value_parser = ENDPOINT_TYPES, default_value = "chat")]
    pub(super) endpoint_type: EndpointType,
    /// Ask for streamed responses: needed for time to first token
    #[arg(long)]
    pub(super) streaming: bool,
    /// Base URLs of the servers; sessions take them in turn
    #[arg(long, short, value_name = "URL", num_args = 1.., value_delimiter = ',',
          default_value = "http://localhost:8000")]
    pub(super) url: Vec<String>,
    /// Longest time a request may take, in seconds
    #[arg(long, value_name = "SECONDS", value_parser = above_zero, default_value = "21600")]
    pub(super) request_timeout_seconds: f64,
    /// How long to wait until the model is served, in seconds; 0 does not ask
    #[arg(long, value_name = "SECONDS", value_parser = number, default_value = "0")]
    pub(super) wait_for_model_timeout: f64,
    /// What shows that the model is served
    #[arg(long, value_name = "MODE", value_parser = WAIT_MODES, default_value = "inference")]
    pub(super) wait_for_model_mode: WaitMode,
    /// Seconds between two attempts
    #[arg(long, value_name = "SECONDS", value_parser = number, default_value = "5")]
    pub(super) wait_for_model_interval: f64,
    /// Key sent as a bearer token [env: AIPERF_API_KEY]
    #[arg(long, value_name = "KEY")]
    pub(super) api_key: Option<String>,
    /// Which requests share a connection
    #[arg(long, value_name = "STRATEGY", value_parser = CONNECTION_REUSES, default_value = "pooled")]
    pub(super) connection_reuse_strategy: ConnectionReuse,
    /// Limit output by max_tokens instead of max_completion_tokens
    #[arg(long)]
    pub(super) use_legacy_max_tokens: bool,
    /// Count tokens by the usage that the server reports
    #[arg(long)]
    pub(super) use_server_token_count: bool,
    /// Download each generated video, within the request's time
    #[arg(long)]
    pub(super) download_video_content: bool,
    /// Media type of request bodies: the endpoint type's own
    #[arg(long, value_name = "TYPE", value_parser = CONTENT_TYPES)]
    pub(super) request_content_type: Option<&'static str>,
}

/// How we know the server, and how it knows us.
#[derive(Args)]
#[command(next_help_heading = "TLS")]
pub(super) struct TlsArgs {
    /// Certificates of the authorities to trust instead of the system's, in PEM form
    #[arg(long, value_name = "FILE")]
    pub(super) ssl_ca_cert: Option<PathBuf>,
    /// Certificate to show to the server, in PEM form
    #[arg(long, value_name = "FILE")]
    pub(super) ssl_cert: Option<PathBuf>,
    /// Key of --ssl-cert [default: in the same file]
    #[arg(long, value_name = "FILE", requires = "ssl_cert")]
    pub(super) ssl_key: Option<PathBuf>,
    /// Check the server's certificate: the default [env: AIPERF_HTTP_SSL_VERIFY]
    #[arg(long, overrides_with = "no_ssl_verify")]
    pub(super) ssl_verify: bool,
    /// Take any certificate
    #[arg(long, overrides_with = "ssl_verify")]
    pub(super) no_ssl_verify: bool,
}

/// Where prompts come from.
#[derive(Args)]
#[command(next_help_heading = "Input")]
pub(super) struct InputArgs {
    /// Members added to every request body: name:value, name=value or a JSON object
    #[arg(long, value_name = "NAME:VALUE", num_args = 1..)]
    pub(super) extra_inputs: Vec<String>,
    /// Headers added to every request: 'Name: value'
    #[arg(long, short = 'H', value_name = "NAME:VALUE", num_args = 1..)]
    pub(super) header: Vec<String>,
    /// File with the prompts
    #[arg(long, value_name = "FILE")]
    pub(super) input_file: Option<PathBuf>,
    /// Format of the file; found out from its content when absent
    #[arg(long, value_name = "TYPE", value_parser = FILE_FORMATS, requires = "input_file")]
    pub(super) custom_dataset_type: Option<FileFormat>,
    /// Order in which sessions draw conversations [default: sequential]
    #[arg(long, value_name = "STRATEGY", value_parser = SAMPLINGS)]
    pub(super) dataset_sampling_strategy: Option<Sampling>,
    /// Seed of every random choice
    #[arg(long, value_name = "SEED", value_parser = count)]
    pub(super) random_seed: Option<u64>,
    /// Service level objectives, in display units: 'time_to_first_token:200 …'
    #[arg(long, value_name = "TAG:VALUE", num_args = 1.., help_heading = "Goodput")]
    pub(super) goodput: Vec<String>,
}

/// What is written and sent.
#[derive(Args)]
#[command(next_help_heading = "Output")]
pub(super) struct OutputArgs {
    /// Directory of the run's files
    #[arg(long, visible_alias = "output-artifact-dir", value_name = "DIR")]
    pub(super) artifact_dir: Option<PathBuf>,
    /// Prefix of the files' names
    #[arg(long, visible_alias = "profile-export-file", value_name = "PREFIX")]
    pub(super) profile_export_prefix: Option<String>,
    /// How much of the records is written
    #[arg(long, visible_alias = "profile-export-level", value_name = "LEVEL",
          value_parser = EXPORT_LEVELS, default_value = "records")]
    pub(super) export_level: ExportLevel,
    /// OTLP endpoint of a collector: HOST:PORT is gRPC; port 4318 or a path is HTTP, to which
    /// /v1/metrics and /v1/traces are added
    #[arg(long, value_name = "URL")]
    pub(super) otel_url: Option<String>,
    /// What is exported [default: metrics and timing]
    #[arg(long, value_name = "STREAM", value_parser = STREAMS, num_args = 1..,
          value_delimiter = ',')]
    pub(super) stream: Vec<Stream>,
    /// Attributes of the resource: name=value
    #[arg(long, value_name = "NAME=VALUE", num_args = 1.., value_delimiter = ',')]
    pub(super) otel_resource_attributes: Vec<String>,
    /// Kind of histograms that are exported [default: explicit]
    #[arg(long, value_name = "KIND", value_parser = HISTOGRAMS)]
    pub(super) otel_histograms: Option<bool>,
    /// Requests that are exported as traces: a list of 5%, slowest:20, errors, all [default: none]
    #[arg(long, value_name = "SAMPLE")]
    pub(super) trace_sample: Option<TraceSample>,
    /// gen_ai.provider.name instead of what the host implies
    #[arg(long, value_name = "NAME")]
    pub(super) gen_ai_provider: Option<String>,
    /// Write each request's HTTP timing into its record
    #[arg(long, help_heading = "HTTP Trace")]
    pub(super) export_http_trace: bool,
    /// Show a table of where the time of HTTP exchanges went
    #[arg(long, help_heading = "HTTP Trace")]
    pub(super) show_trace_timing: bool,
}

/// What counts tokens.
#[derive(Args)]
#[command(next_help_heading = "Tokenizer")]
pub(super) struct TokenizerArgs {
    /// builtin, a path, or a hub name [default: the model's if it is on this machine, else builtin]
    #[arg(long, value_name = "NAME")]
    pub(super) tokenizer: Option<String>,
    /// Branch, tag or commit on the hub
    #[arg(long, value_name = "REVISION", default_value = "main")]
    pub(super) tokenizer_revision: String,
    /// Count input tokens as the model's chat template writes the messages, and make generated
    /// prompts shorter by what it adds
    #[arg(long)]
    pub(super) apply_chat_template: bool,
}

/// What conversations look like.
#[derive(Args)]
#[command(next_help_heading = "Conversation Input")]
pub(super) struct ConversationArgs {
    /// Sessions to run
    #[arg(long, visible_aliases = ["conversation-num", "num-conversations"], value_name = "COUNT",
          value_parser = positive)]
    pub(super) num_sessions: Option<u64>,
    /// Conversations to generate [default: the sessions asked for, else as many as requests, up to
    /// 10000, else 100]
    #[arg(long, visible_alias = "num-prompts", value_name = "COUNT", value_parser = positive)]
    pub(super) num_dataset_entries: Option<u64>,
    /// Turns of a conversation, mean [default: 1]
    #[arg(long, visible_alias = "conversation-turn-mean", value_name = "TURNS",
          value_parser = number)]
    pub(super) session_turns_mean: Option<f64>,
    /// Turns of a conversation, standard deviation [default: 0]
    #[arg(long, visible_alias = "conversation-turn-stddev", value_name = "TURNS",
          value_parser = number)]
    pub(super) session_turns_stddev: Option<f64>,
    /// Wait before each later turn in milliseconds, mean [default: 0]
    #[arg(long, visible_alias = "conversation-turn-delay-mean", value_name = "MS",
          value_parser = number)]
    pub(super) session_turn_delay_mean: Option<f64>,
    /// Wait before each later turn in milliseconds, standard deviation [default: 0]
    #[arg(long, visible_alias = "conversation-turn-delay-stddev", value_name = "MS",
          value_parser = number)]
    pub(super) session_turn_delay_stddev: Option<f64>,
    /// Factor on the waits before later turns, a file's too [default: 1]
    #[arg(long, visible_alias = "conversation-turn-delay-ratio", value_name = "FACTOR",
          value_parser = number)]
    pub(super) session_delay_ratio: Option<f64>,
}

/// What prompts look like.
#[derive(Args)]
pub(super) struct PromptArgs {
    /// Tokens of a prompt, mean [default: 550]
    #[arg(long, visible_aliases = ["prompt-input-tokens-mean", "synthetic-input-tokens-mean"],
          value_name = "TOKENS", value_parser = number,
          help_heading = "Input Sequence Length (ISL)")]
    pub(super) isl: Option<f64>,
    /// Tokens of a prompt, standard deviation [default: 0]
    #[arg(long, visible_aliases = ["prompt-input-tokens-stddev", "synthetic-input-tokens-stddev"],
          value_name = "TOKENS", value_parser = number,
          help_heading = "Input Sequence Length (ISL)")]
    pub(super) isl_stddev: Option<f64>,
    /// Pairs of lengths with their percentages: 'isl|sd,osl|sd:percent;…'
    #[arg(
        long,
        visible_alias = "sequence-distribution",
        value_name = "PAIRS",
        help_heading = "Input Sequence Length (ISL)"
    )]
    pub(super) seq_dist: Option<String>,
    /// Tokens of the block that a hash id of a trace stands for [default: the format's own: 512,
    /// in bailian-trace 16]
    #[arg(long, visible_aliases = ["prompt-input-tokens-block-size",
          "synthetic-input-tokens-block-size"], value_name = "TOKENS", value_parser = positive,
          requires = "input_file", help_heading = "Input Sequence Length (ISL)")]
    pub(super) isl_block_size: Option<u64>,
    /// Leave out a trace's requests with longer prompts
    #[arg(long, value_name = "TOKENS", value_parser = positive, requires = "input_file",
          help_heading = "Synthesis")]
    pub(super) synthesis_max_isl: Option<u64>,
    /// Ask for no more output tokens in a trace's requests
    #[arg(long, value_name = "TOKENS", value_parser = positive, requires = "input_file",
          help_heading = "Synthesis")]
    pub(super) synthesis_max_osl: Option<u64>,
    /// Output tokens asked for, mean
    #[arg(long, visible_aliases = ["prompt-output-tokens-mean", "output-tokens-mean"],
          value_name = "TOKENS", value_parser = number,
          help_heading = "Output Sequence Length (OSL)")]
    pub(super) osl: Option<f64>,
    /// Output tokens asked for, standard deviation [default: 0]
    #[arg(long, visible_aliases = ["prompt-output-tokens-stddev", "output-tokens-stddev"],
          value_name = "TOKENS", value_parser = number, requires = "osl",
          help_heading = "Output Sequence Length (OSL)")]
    pub(super) osl_stddev: Option<f64>,
    /// Texts in one request, for completions and embeddings [default: 1]
    #[arg(long, short, visible_aliases = ["prompt-batch-size", "batch-size-text"],
          value_name = "COUNT", value_parser = positive, help_heading = "Prompt")]
    pub(super) batch_size: Option<u64>,
    /// System prompt of every conversation
    #[arg(long, value_name = "TEXT", help_heading = "Prefix Prompt")]
    pub(super) system_prompt: Option<String>,
    /// File with the system prompt of every conversation
    #[arg(
        long,
        value_name = "FILE",
        conflicts_with = "system_prompt",
        help_heading = "Prefix Prompt"
    )]
    pub(super) system_prompt_file: Option<PathBuf>,
    /// How many distinct prefixes prompts begin with [default: 0]
    #[arg(long, visible_aliases = ["prompt-prefix-pool-size", "prefix-prompt-pool-size"],
          value_name = "COUNT", value_parser = count, help_heading = "Prefix Prompt")]
    pub(super) num_prefix_prompts: Option<u64>,
    /// Tokens of each prefix [default: 0]
    #[arg(long, visible_alias = "prompt-prefix-length", value_name = "TOKENS",
          value_parser = count, help_heading = "Prefix Prompt")]
    pub(super) prefix_prompt_length: Option<u64>,
    /// Tokens of a generated system prompt that all conversations share
    #[arg(long, value_name = "TOKENS", value_parser = positive, help_heading = "Prefix Prompt")]
    pub(super) shared_system_prompt_length: Option<u64>,
    /// Tokens of a generated context of each conversation's own
    #[arg(long, value_name = "TOKENS", value_parser = positive, help_heading = "Prefix Prompt")]
    pub(super) user_context_prompt_length: Option<u64>,
}

/// How the program itself runs.
#[derive(Args)]
#[command(next_help_heading = "Service")]
pub(super) struct ServiceArgs {
    /// Least severity that is logged [default: info]
    #[arg(long, value_name = "LEVEL", value_parser = LOG_LEVELS)]
    pub(super) log_level: Option<LogLevel>,
    /// Log more; twice logs everything
    #[arg(long, short, action = ArgAction::Count)]
    pub(super) verbose: u8,
    /// Log everything (-vv)
    #[arg(long)]
    pub(super) extra_verbose: bool,
    /// Threads that read responses
    #[arg(long, visible_alias = "record-processor-service-count", value_name = "COUNT",
          value_parser = positive)]
    pub(super) record_processors: Option<u64>,
    /// What is on the terminal while the run goes
    #[arg(long, visible_alias = "ui-type", value_name = "UI", value_parser = UI_MODES,
          default_value = "dashboard", help_heading = "UI")]
    pub(super) ui: Ui,
    /// Threads that send and receive
    #[arg(long, visible_alias = "max-workers", value_name = "COUNT", value_parser = positive,
          help_heading = "Workers")]
    pub(super) workers_max: Option<u64>,
}
