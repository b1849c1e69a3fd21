//! The flags of `aiperf profile`, grouped under AIPerf's headings.

#![expect(clippy::doc_markdown, reason = "the doc comments are the --help text")]

use std::path::PathBuf;

use clap::{ArgAction, Args};

use base::semconv::Conventions;
use base::setting::named;
use base::statistics::Percent;
use base::units::Nanos;
use client::endpoint::EndpointType;
use client::server_family::TimingMode;
use dataset::{FileFormat, ModelSelection, Sampling};
use measure::metrics::metric::LatencyFrom;
use measure::otlp_receiver;
use results::artifacts::ExportLevel;
use results::run::ClientTables;
use telemetry::{MetricSet, Temporality, TraceSample};

use super::adaptive::AdaptiveArgs;
use super::agentic::AgenticArgs;
use super::canaries::CanaryArgs;
use super::control_args::ControlArgs;
use super::deployment::DeploymentArgs;
use super::distributed::DistributedArgs;
use super::gates::{GateArgs, StopArgs};
use super::gpu::GpuArgs;
use super::hub_args::HubArgs;
use super::load_args::{CancellationArgs, LoadArgs, ReplayArgs, UserCentricArgs, WarmupArgs};
use super::media_args::MediaArgs;
use super::mlflow::MlflowArgs;
use super::multi_run::MultiRunArgs;
use super::network_latency::NetworkLatencyArgs;
use super::page::PageArgs;
use super::prompt_args::{ConversationArgs, PromptArgs};
use super::rankings::RankingsArgs;
use super::scenario::ScenarioArgs;
use super::search::SearchArgs;
use super::server_metrics::ServerMetricsArgs;
use super::sweep::SweepArgs;
use super::synthesis::SynthesisArgs;
use super::value::{
    choice, count, duration, listening_address, non_empty, number, percentile, positive, seconds,
    seconds_above_zero, share, stats_interval,
};
use super::video_args::VideoArgs;
use crate::config::{ConnectionReuse, DryRun, LogLevel, Ui, WaitMode};

/// A value of `--stream`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Stream {
    Metrics,
    Timing,
    Default,
}

named! { Stream { "metrics" => Metrics, "timing" => Timing, "default" => Default } }

/// A value of `--request-content-type`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum ContentType {
    Json,
    Multipart,
}

named! { ContentType { "application/json" => Json, "multipart/form-data" => Multipart } }

/// A value of `--otel-histograms`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Histograms {
    Explicit,
    Exponential,
}

named! { Histograms { "explicit" => Explicit, "exponential" => Exponential } }

/// The flags of `aiperf profile`.
#[derive(Args)]
pub(super) struct ProfileArgs {
    /// File with settings; flags and variables of the environment override it
    #[arg(long, short = 'f', value_name = "FILE")]
    config: Option<PathBuf>,
    #[command(flatten)]
    pub(super) endpoint: EndpointArgs,
    #[command(flatten)]
    pub(super) load: LoadArgs,
    #[command(flatten)]
    pub(super) prompt: PromptArgs,
    #[command(flatten)]
    pub(super) input: InputArgs,
    #[command(flatten)]
    pub(super) hub: HubArgs,
    #[command(flatten)]
    pub(super) tokenizer: TokenizerArgs,
    #[command(flatten)]
    pub(super) output: OutputArgs,
    #[command(flatten)]
    pub(super) warmup: WarmupArgs,
    #[command(flatten)]
    pub(super) gates: GateArgs,
    #[command(flatten)]
    pub(super) stop: StopArgs,
    #[command(flatten)]
    pub(super) server_metrics: ServerMetricsArgs,
    #[command(flatten)]
    pub(super) gpu: GpuArgs,
    #[command(flatten)]
    pub(super) multi_run: MultiRunArgs,
    #[command(flatten)]
    pub(super) sweep: SweepArgs,
    #[command(flatten)]
    pub(super) search: SearchArgs,
    #[command(flatten)]
    pub(super) conversation: ConversationArgs,
    #[command(flatten)]
    pub(super) synthesis: SynthesisArgs,
    #[command(flatten)]
    pub(super) replay: ReplayArgs,
    #[command(flatten)]
    scenario: ScenarioArgs,
    #[command(flatten)]
    pub(super) agentic: AgenticArgs,
    #[command(flatten)]
    pub(super) adaptive: AdaptiveArgs,
    #[command(flatten)]
    pub(super) users: UserCentricArgs,
    #[command(flatten)]
    pub(super) cancellation: CancellationArgs,
    #[command(flatten)]
    pub(super) network_latency: NetworkLatencyArgs,
    #[command(flatten)]
    pub(super) control: ControlArgs,
    #[command(flatten)]
    pub(super) tls: TlsArgs,
    #[command(flatten)]
    pub(super) media: MediaArgs,
    #[command(flatten)]
    pub(super) video: VideoArgs,
    #[command(flatten)]
    pub(super) rankings: RankingsArgs,
    #[command(flatten)]
    pub(super) mlflow: MlflowArgs,
    #[command(flatten)]
    pub(super) deployment: DeploymentArgs,
    #[command(flatten)]
    pub(super) canaries: CanaryArgs,
    #[command(flatten)]
    pub(super) distributed: DistributedArgs,
    #[command(flatten)]
    pub(super) service: ServiceArgs,
}

impl ProfileArgs {
    /// The request rate given, or the first one that a search for a rate tries.
    pub(super) fn request_rate(&self) -> Option<f64> {
        self.load.request_rate.or_else(|| self.search.first_rate())
    }
}

/// Which server to benchmark, and how to access it.
#[derive(Args)]
#[command(next_help_heading = "Endpoint")]
pub(super) struct EndpointArgs {
    /// Names of the models to benchmark [default: the server's model, if it lists only one]
    #[arg(long = "model", short = 'm', visible_alias = "model-names", value_name = "NAME",
          num_args = 1.., value_delimiter = ',', value_parser = non_empty)]
    pub(super) models: Vec<String>,
    /// Base URLs of the servers; sessions are assigned to them round-robin
    #[arg(long, short, value_name = "URL", num_args = 1.., value_delimiter = ',',
          default_value = "http://localhost:8000")]
    pub(super) url: Vec<String>,
    /// API that the server implements
    #[arg(long, value_name = "TYPE", value_parser = choice::<EndpointType>(), default_value = "chat")]
    pub(super) endpoint_type: EndpointType,
    /// Request streamed responses; required to measure time to first token
    #[arg(long)]
    pub(super) streaming: bool,
    /// API key, sent as a bearer token or as the API expects it [env: AIPERF_API_KEY]
    #[arg(long, value_name = "KEY")]
    pub(super) api_key: Option<String>,
    /// API path to use instead of the endpoint type's default
    #[arg(long, visible_alias = "custom-endpoint", value_name = "PATH")]
    pub(super) endpoint: Option<String>,
    /// Strategy for choosing the model of each request if there are several [default: round-robin]
    #[arg(long, value_name = "STRATEGY", value_parser = choice::<ModelSelection>())]
    pub(super) model_selection_strategy: Option<ModelSelection>,
    /// Weight of each model, in the order of --model; selects the strategy weighted
    #[arg(long, value_name = "WEIGHT", num_args = 1.., value_delimiter = ',', value_parser = number)]
    pub(super) model_weights: Vec<f64>,
    /// LoRA adapters of the model to request instead of it; each conversation has one of them at
    /// random
    #[arg(long, value_name = "NAME", num_args = 1.., value_delimiter = ',',
          value_parser = non_empty, conflicts_with = "model_weights")]
    pub(super) lora_modules: Vec<String>,
    /// Timeout of each request, in seconds
    #[arg(long, value_name = "SECONDS", value_parser = seconds_above_zero, default_value = "21600")]
    pub(super) request_timeout_seconds: f64,
    /// Maximum time to wait for the model to become available before the run, in seconds; 0 skips
    /// the check
    #[arg(long, value_name = "SECONDS", value_parser = seconds, default_value = "0")]
    pub(super) wait_for_model_timeout: f64,
    /// Criterion for the model being available: it is listed by /v1/models, it responds to a
    /// request, or both
    #[arg(long, value_name = "MODE", value_parser = choice::<WaitMode>(), default_value = "inference")]
    pub(super) wait_for_model_mode: WaitMode,
    /// Seconds between checks that the model is available
    #[arg(long, value_name = "SECONDS", value_parser = seconds_above_zero, default_value = "5")]
    pub(super) wait_for_model_interval: f64,
    /// Requests that share a connection: any (pooled), none (never), or those of one session
    #[arg(long, value_name = "STRATEGY", value_parser = choice::<ConnectionReuse>(), default_value = "pooled")]
    pub(super) connection_reuse_strategy: ConnectionReuse,
    /// Send the output limit as max_tokens instead of max_completion_tokens
    #[arg(long)]
    pub(super) use_legacy_max_tokens: bool,
    /// Use the token counts that the server reports instead of counting with a tokenizer
    #[arg(long)]
    pub(super) use_server_token_count: bool,
    /// Request token counts in every event of a stream, so that the inter-token latency leaves out
    /// all tokens of the first event with content, not only one
    #[arg(long, requires_all = ["streaming", "use_server_token_count"])]
    pub(super) per_chunk_usage: bool,
    /// Times that the server reports of each request: read what comes (auto), read nothing (off), or
    /// also ask as a server requires, which changes the requests
    #[arg(long, value_name = "MODE", value_parser = choice::<TimingMode>(), default_value = "auto")]
    pub(super) server_timing: TimingMode,
    /// Header for the ID of the session, instead of X-Correlation-ID
    #[arg(long, value_name = "NAME", value_parser = non_empty)]
    pub(super) session_header: Option<String>,
    /// Send the ID of each session in X-Dynamo-Session-ID, and that of the session that started it in
    /// X-Dynamo-Parent-Session-ID, by which Dynamo keeps sessions on one worker
    #[arg(long)]
    pub(super) use_dynamo_conv_aware_routing: bool,
    /// Accepted without effect: Dynamo has its own timeout of sessions, which requests do not set
    #[arg(long, value_name = "SECONDS", value_parser = seconds_above_zero)]
    dynamo_session_timeout_seconds: Option<f64>,
    /// Send each image with a UUID once in a session, and then only its UUID, for vLLM's cache of
    /// processed images; for a single-turn --input-file whose lines have a session_id
    #[arg(long, requires = "input_file")]
    pub(super) uuid_and_strip: bool,
    /// Download each generated video; the request's latency includes the download
    #[arg(long)]
    pub(super) download_video_content: bool,
    /// Content type of request bodies; must be the endpoint type's own, which is the default
    #[arg(long, value_name = "TYPE", value_parser = choice::<ContentType>())]
    pub(super) request_content_type: Option<ContentType>,
}

/// Server and client certificates.
#[derive(Args)]
#[command(next_help_heading = "TLS")]
pub(super) struct TlsArgs {
    /// PEM file with CA certificates to trust instead of the system's
    #[arg(long, value_name = "FILE")]
    pub(super) ssl_ca_cert: Option<PathBuf>,
    /// PEM file with the client certificate
    #[arg(long, value_name = "FILE")]
    pub(super) ssl_cert: Option<PathBuf>,
    /// PEM file with the private key of --ssl-cert [default: the --ssl-cert file]
    #[arg(long, value_name = "FILE", requires = "ssl_cert")]
    pub(super) ssl_key: Option<PathBuf>,
    /// Verify the server's certificate (the default) [env: AIPERF_HTTP_SSL_VERIFY]
    #[arg(long, overrides_with = "no_ssl_verify")]
    pub(super) ssl_verify: bool,
    /// Accept any server certificate
    #[arg(long, overrides_with = "ssl_verify")]
    pub(super) no_ssl_verify: bool,
}

/// Where prompts come from.
#[derive(Args)]
#[command(next_help_heading = "Input")]
pub(super) struct InputArgs {
    /// Fields to add to every request body: name:value, name=value or a JSON object
    #[arg(long, value_name = "NAME:VALUE", num_args = 1..)]
    pub(super) extra_inputs: Vec<String>,
    /// Headers to add to every request: 'Name: value'
    #[arg(long, short = 'H', value_name = "NAME:VALUE", num_args = 1..)]
    pub(super) header: Vec<String>,
    /// Dataset file with the prompts to send, or directory of such files
    #[arg(long, value_name = "FILE", group = "recorded")]
    pub(super) input_file: Option<PathBuf>,
    /// Format of the --input-file [default: detected from its content]
    #[arg(long, value_name = "TYPE", value_parser = choice::<FileFormat>(), requires = "input_file")]
    pub(super) custom_dataset_type: Option<FileFormat>,
    /// Order in which sessions draw conversations from the dataset [default: sequential; random for
    /// random-pool]
    #[arg(long, value_name = "STRATEGY", value_parser = choice::<Sampling>())]
    pub(super) dataset_sampling_strategy: Option<Sampling>,
    /// Seed for all random choices; the same seed makes the same prompts and schedule
    #[arg(long, value_name = "SEED", value_parser = count)]
    pub(super) random_seed: Option<u64>,
    /// Service level objectives: TAG:VALUE in display units, or limits such as
    /// 'ttft<=200ms request_latency<=2s'
    #[arg(long, value_name = "TAG:VALUE", num_args = 1.., help_heading = "Goodput", group = "objective")]
    pub(super) goodput: Vec<String>,
}

/// What is written to files and exported.
#[derive(Args)]
#[command(next_help_heading = "Output")]
pub(super) struct OutputArgs {
    /// Directory for the run's files [default: artifacts/<model>-openai-<endpoint type>-<load>]
    #[arg(long, visible_alias = "output-artifact-dir", value_name = "DIR")]
    pub(super) artifact_dir: Option<PathBuf>,
    /// Move the files of an earlier run in the artifact directory aside, to its subdirectory
    /// previous-1, previous-2 and so on, instead of failing
    #[arg(long)]
    pub(super) overwrite: bool,
    /// Prefix for the names of the run's files
    #[arg(long, visible_alias = "profile-export-file", value_name = "PREFIX")]
    pub(super) profile_export_prefix: Option<String>,
    /// Content of the files: summaries only, also a record of each request, or also the requests
    /// and responses themselves (raw)
    #[arg(long, visible_alias = "profile-export-level", value_name = "LEVEL",
          value_parser = choice::<ExportLevel>(), default_value = "records")]
    pub(super) export_level: ExportLevel,
    /// Load the dataset and print what the run would send, without sending it [default FORMAT:
    /// table]
    #[arg(long, value_name = "FORMAT", value_parser = choice::<DryRun>(), num_args = 0..=1,
          require_equals = true, default_missing_value = "table")]
    pub(super) dry_run: Option<DryRun>,
    /// Write the generated text and key metrics of each request to outputs.json
    #[arg(long)]
    pub(super) export_outputs_json: bool,
    /// Compress the JSONL files with zstd; their names end in .jsonl.zst
    #[arg(long)]
    pub(super) compress_jsonl: bool,
    #[command(flatten)]
    pub(super) page: PageArgs,
    /// Draw charts of the results after the run, as `aiperf plot` does, in the subdirectory plots
    /// [default: on with the recipes concurrency-ramp, prefill-ttft-curve and decode-itl-curve]
    #[arg(long, overrides_with = "no_auto_plot")]
    pub(super) auto_plot: bool,
    /// Do not draw charts after the run
    #[arg(long, overrides_with = "auto_plot")]
    pub(super) no_auto_plot: bool,
    /// Fail if the charts cannot be drawn, instead of printing a warning
    #[arg(long)]
    pub(super) plot_required: bool,
    /// OTLP endpoint of a collector: HOST:PORT selects gRPC; port 4318 or a URL with a path selects
    /// HTTP, with /v1/metrics, /v1/traces and /v1/logs appended
    #[arg(long, value_name = "URL")]
    pub(super) otel_url: Option<String>,
    /// Directory to which everything that is exported over OTLP is written as lines of JSON, with or
    /// without a collector: metrics.jsonl, traces.jsonl and logs.jsonl. With -, lines are written to
    /// stdout, and results to stderr
    #[arg(long, value_name = "DIR")]
    pub(super) otel_file: Option<PathBuf>,
    /// Metrics to export over OTLP [default: metrics and timing]
    #[arg(long, value_name = "STREAM", value_parser = choice::<Stream>(), num_args = 1..,
          value_delimiter = ',')]
    pub(super) stream: Vec<Stream>,
    /// Metrics of these streams to export over OTLP, and to show under /metrics of the HTTP API: all, or
    /// only those that alerts, comparisons of runs and the first row of the dashboards need [default: lean]
    #[arg(long, value_name = "SET", value_parser = choice::<MetricSet>())]
    pub(super) otel_metrics: Option<MetricSet>,
    /// Resource attributes for OTLP export: name=value
    #[arg(long, value_name = "NAME=VALUE", num_args = 1.., value_delimiter = ',')]
    pub(super) otel_resource_attributes: Vec<String>,
    /// Add the ID and URL of the CI run to the resource of metrics, too; traces always have them
    #[arg(long)]
    pub(super) otel_ci_run_id: bool,
    /// Name of the run on dashboards [default: its load]
    #[arg(long, value_name = "NAME")]
    pub(super) run_name: Option<String>,
    /// Kind of histograms to export over OTLP [default: explicit]
    #[arg(long, value_name = "KIND", value_parser = choice::<Histograms>())]
    pub(super) otel_histograms: Option<Histograms>,
    /// What exported counters and histograms cover: the whole run, or what was added since the
    /// last export [default: cumulative]
    #[arg(long, value_name = "TEMPORALITY", value_parser = choice::<Temporality>())]
    pub(super) otel_temporality: Option<Temporality>,
    /// GenAI conventions whose names are exported over OTLP [default: 1.41]
    #[arg(long, value_name = "VERSION", value_parser = choice::<Conventions>())]
    pub(super) otel_semconv: Option<Conventions>,
    /// Also export latencies that servers report under the names of the GenAI conventions
    /// (gen_ai.server.*)
    #[arg(long)]
    pub(super) otel_server_semconv: bool,
    /// Requests to export as traces: a comma-separated list of all, errors, a percentage (5%) or
    /// the slowest N (slowest:20) [default: none]
    #[arg(long, value_name = "SAMPLE")]
    pub(super) trace_sample: Option<TraceSample>,
    /// Address at which to receive the servers' spans over OTLP, gRPC and HTTP: HOST:PORT, or a port
    /// of this machine [default with the flag: a free port of 127.0.0.1]
    #[arg(long, value_name = "ADDRESS", num_args = 0..=1, value_parser = listening_address,
          default_missing_value = otlp_receiver::Config::LOOPBACK)]
    pub(super) otel_receiver: Option<String>,
    /// Maximum time that a finished request waits for the servers' spans; also after the load
    /// [default: 10s]
    #[arg(long, value_name = "DURATION", value_parser = duration, requires = "otel_receiver")]
    pub(super) otel_receiver_wait: Option<Nanos>,
    /// Set the random flag in traceparent (-03 instead of -01); some servers ignore such a context
    #[arg(long, requires = "trace_sample")]
    pub(super) trace_random_flag: bool,
    /// Value of the gen_ai.provider.name attribute [default: derived from the server's host]
    #[arg(long, value_name = "NAME")]
    pub(super) gen_ai_provider: Option<String>,
    /// Percentiles to add to the files, tables and charts, such as 99.9
    #[arg(long, value_name = "PERCENT", value_parser = percentile, num_args = 1..)]
    pub(super) percentiles: Vec<Percent>,
    /// From when time to first token and request latency count in objectives, gates and searches: when
    /// a request was sent, or when it was due
    #[arg(long, value_name = "TIME", value_parser = choice::<LatencyFrom>(), default_value = "sent")]
    pub(super) latency_from: LatencyFrom,
    /// Fraction of --concurrency that is in flight in the steady state [default: 0.95]
    #[arg(long, value_name = "FRACTION", value_parser = share)]
    pub(super) steady_state_fraction: Option<f64>,
    /// Add each request's HTTP timing to its record
    #[arg(long)]
    pub(super) export_http_trace: bool,
    /// Tables of the client's metrics to print: a summary, or also one for each group of metrics;
    /// profile_export_console.txt has all
    #[arg(long, value_name = "TABLES", default_value = "summary", value_parser = choice::<ClientTables>())]
    pub(super) tables: ClientTables,
    /// List every file that was written, with its size, instead of only the directory
    #[arg(long)]
    pub(super) files: bool,
    /// Print a table that breaks down the time of HTTP requests
    #[arg(long)]
    pub(super) show_trace_timing: bool,
}

/// How tokens are counted.
#[derive(Args)]
#[command(next_help_heading = "Tokenizer")]
pub(super) struct TokenizerArgs {
    /// Tokenizer: "builtin", a local path, or a Hugging Face name [default: the model's own if it
    /// is on this machine, otherwise builtin]
    #[arg(long, value_name = "NAME")]
    pub(super) tokenizer: Option<String>,
    /// Branch, tag or commit of the tokenizer on the Hugging Face Hub
    #[arg(long, value_name = "REVISION", default_value = "main")]
    pub(super) tokenizer_revision: String,
    /// Accepted for models whose tokenizer has code: the code is not run, and the tokenizer needs a
    /// tokenizer.json, or the tiktoken.model of a Kimi model
    #[arg(long)]
    pub(super) tokenizer_trust_remote_code: bool,
    /// Count input tokens after applying the model's chat template, and shorten generated prompts
    /// by the tokens that it adds
    #[arg(long, conflicts_with = "use_server_token_count")]
    pub(super) apply_chat_template: bool,
}

/// Threads, terminal output and logging.
#[derive(Args)]
#[command(next_help_heading = "Service")]
pub(super) struct ServiceArgs {
    /// Minimum severity to log [default: info]
    #[arg(long, value_name = "LEVEL", value_parser = choice::<LogLevel>())]
    pub(super) log_level: Option<LogLevel>,
    /// Log debug messages; -vv logs everything
    #[arg(long, short, action = ArgAction::Count)]
    pub(super) verbose: u8,
    /// Log everything, like -vv
    #[arg(long)]
    pub(super) extra_verbose: bool,
    /// Number of threads that parse responses [default: depends on the number of cores]
    #[arg(long, visible_alias = "record-processor-service-count", value_name = "COUNT",
          value_parser = positive)]
    pub(super) record_processors: Option<u64>,
    /// Progress display: a live dashboard, simple progress lines, or none
    #[arg(long, visible_alias = "ui-type", value_name = "UI", value_parser = choice::<Ui>(),
          default_value = "dashboard", help_heading = "Output")]
    pub(super) ui: Ui,
    /// Interval between blocks of statistics in the progress lines, in seconds, up to 1000; 0 turns
    /// periodic output off [default: a line every 10 s]
    #[arg(long, value_name = "SECONDS", value_parser = stats_interval, help_heading = "Output")]
    pub(super) stats_interval: Option<f64>,
    /// Port of an HTTP API with the progress and the results of the run; 0 selects a free one
    #[arg(long, value_name = "PORT", value_parser = clap::value_parser!(u16))]
    pub(super) api_port: Option<u16>,
    /// Address or name of this machine on which the API listens [default: 127.0.0.1]
    #[arg(long, value_name = "HOST", value_parser = non_empty, requires = "api_port")]
    pub(super) api_host: Option<String>,
    /// Token of requests to the API that end the run, and of all requests unless the host is a
    /// loopback address [env: AIPERF_API_TOKEN] [default: a random one, which is printed]
    #[arg(long, value_name = "TOKEN", requires = "api_port")]
    pub(super) api_token: Option<String>,
    /// Number of threads that send requests and receive responses [default: one for every 250
    /// concurrent requests, at most all cores but one]
    #[arg(long, visible_alias = "max-workers", value_name = "COUNT", value_parser = positive)]
    pub(super) workers_max: Option<u64>,
}
