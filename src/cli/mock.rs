//! `aiperf mock-server` and `aiperf demo`.

use std::ffi::OsString;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::path::PathBuf;

use clap::Args;

use base::units::Nanos;
use mock_server::{
    Config, FaultRule, Jitter, MockServerError, PrefixCacheSize, ReasoningPlace, Script,
    SpanExport, Timing, TimingForm, Tls, UsageReport, parse_fraction,
};

use super::value::{choice, duration, positive};

/// The flags of `aiperf mock-server`.
#[derive(Debug, Args)]
pub(super) struct MockServerArgs {
    /// Address to listen on
    #[arg(long, value_name = "ADDRESS", default_value_t = IpAddr::V4(Ipv4Addr::LOCALHOST))]
    host: IpAddr,
    /// Port to listen on; 0 selects a free one
    #[arg(long, value_name = "PORT", default_value_t = 8000)]
    port: u16,
    /// Number of threads that serve requests
    #[arg(long, value_name = "COUNT", value_parser = positive, default_value = "1")]
    threads: u64,
    /// JSONL file to append the timing of each request to, one JSON object per line
    #[arg(long, value_name = "FILE")]
    write_log: Option<PathBuf>,
    /// Names of the models to list in /v1/models
    #[arg(long, short, value_name = "NAME", num_args = 1.., value_delimiter = ',',
          default_value = "mock-model")]
    model: Vec<String>,
    /// Respond with 404 to requests for models that are not listed
    #[arg(long)]
    strict_models: bool,
    /// Time from a request to its first token, such as 50ms or 1.5s; a bare number is seconds
    #[arg(long, value_name = "DURATION", value_parser = duration, default_value = "0")]
    ttft: Nanos,
    /// Time between chunks of a streamed response, such as 5ms; a bare number is seconds
    #[arg(long, value_name = "DURATION", value_parser = duration, default_value = "0")]
    itl: Nanos,
    /// Random variation of the time of each chunk, such as 10%, 2ms or exponential
    #[arg(long, value_name = "JITTER", value_parser = jitter, default_value = "0")]
    jitter: Jitter,
    /// Seed for generated text and jitter
    #[arg(long, value_name = "SEED", default_value_t = 0)]
    seed: u64,
    /// Number of output tokens when a request sets no limit
    #[arg(long, value_name = "TOKENS", default_value_t = 64)]
    osl: u64,
    /// Number of tokens in each chunk of a streamed response
    #[arg(long, value_name = "TOKENS", value_parser = positive, default_value = "1")]
    tokens_per_chunk: u64,
    /// Number of output tokens that are reasoning tokens
    #[arg(long, value_name = "TOKENS", default_value_t = 0)]
    reasoning_tokens: u64,
    /// Where chats have their reasoning; think is in the content, between <think> and </think>
    #[arg(long, value_name = "PLACE", value_parser = choice::<ReasoningPlace>(),
          default_value = "reasoning-content")]
    reasoning_place: ReasoningPlace,
    /// Respond to chats with a tool call, whose arguments have the tokens
    #[arg(long)]
    tool_calls: bool,
    /// Send the role at once, and not with the first token
    #[arg(long)]
    early_role: bool,
    /// Send content with an empty text before the first token, at once like the role
    #[arg(long)]
    empty_first: bool,
    /// Time from the last token to the usage and the end of a stream, such as 60ms
    #[arg(long, value_name = "DURATION", value_parser = duration, default_value = "0")]
    end_delay: Nanos,
    /// Minimum time between two writes of a stream, such as 40ms; what is due meanwhile is sent
    /// together
    #[arg(long, value_name = "DURATION", value_parser = duration, default_value = "0")]
    write_interval: Nanos,
    /// Time from a TCP connection until the server reads from it, such as 50ms
    #[arg(long, value_name = "DURATION", value_parser = duration, default_value = "0")]
    accept_delay: Nanos,
    /// PEM file with the certificate of the server and its chain, to use TLS
    #[arg(long, value_name = "FILE", requires = "tls_key")]
    tls_cert: Option<PathBuf>,
    /// PEM file with the key of --tls-cert
    #[arg(long, value_name = "FILE", requires = "tls_cert")]
    tls_key: Option<PathBuf>,
    /// Time from the beginning of a TLS handshake until the server responds to it, such as 50ms
    #[arg(long, value_name = "DURATION", value_parser = duration, default_value = "0",
          requires = "tls_cert")]
    tls_delay: Nanos,
    /// Report usage in all streams, requested or not
    #[arg(long, conflicts_with = "no_usage")]
    always_usage: bool,
    /// Leave usage out of responses
    #[arg(long)]
    no_usage: bool,
    /// Number of dimensions of an embedding
    #[arg(long, value_name = "NUMBERS", value_parser = positive, default_value = "64")]
    embedding_dimensions: u64,
    /// Number of chunks to send together, when the last of them is due, as some gateways do
    #[arg(long, value_name = "COUNT", value_parser = positive, default_value = "1")]
    chunks_together: u64,
    /// Growth of all times in each second since the first request, such as 1%
    #[arg(long, value_name = "PERCENT", value_parser = growth, default_value = "0")]
    drift: f64,
    /// Send nothing from a time after the first request, and for how long, such as 6s,1.5s
    #[arg(long, value_name = "START,DURATION", value_parser = silence)]
    silence: Option<[Nanos; 2]>,
    /// Maximum number of requests to serve at once; others wait [default: unlimited]
    #[arg(long, value_name = "COUNT", value_parser = positive)]
    max_concurrent: Option<u64>,
    /// Requests per second to accept; others get the status 429 [default: unlimited]
    #[arg(long, value_name = "RATE")]
    rate_limit: Option<f64>,
    /// Share of responses whose text changes midway if other requests are in flight, such as 5%
    #[arg(long, value_name = "PERCENT", value_parser = variance, default_value = "0")]
    batch_variance: f64,
    /// Number of blocks of the simulated prefix cache [default: no prefix cache]
    #[arg(long, value_name = "COUNT", value_parser = positive)]
    prefix_cache_blocks: Option<u64>,
    /// Number of tokens of a block of the prefix cache
    #[arg(long, value_name = "TOKENS", value_parser = positive, default_value = "16",
          requires = "prefix_cache_blocks")]
    prefix_cache_block_size: u64,
    /// Time that each prompt token adds to --ttft unless it is cached, such as 100us
    #[arg(long, value_name = "DURATION", value_parser = duration, default_value = "0")]
    prefill_per_token: Nanos,
    /// Report the times of each request as this server does, in chats and completions
    #[arg(long, value_name = "SERVER", value_parser = choice::<TimingForm>())]
    report_timing: Option<TimingForm>,
    /// Part of --ttft that a request spends in the queue, as reported
    #[arg(long, value_name = "DURATION", value_parser = duration, default_value = "0",
          requires = "report_timing")]
    queue_time: Nanos,
    /// Part of --ttft in which the KV cache is transferred, as reported
    #[arg(long, value_name = "DURATION", value_parser = duration, default_value = "0",
          requires = "report_timing")]
    kv_transfer_time: Nanos,
    /// Also send these times as spans to an OTLP receiver for HTTP, such as 127.0.0.1:4318
    #[arg(long, value_name = "ADDRESS", requires = "report_timing")]
    report_spans: Option<SocketAddr>,
    /// Time from a span to the export of its batch
    #[arg(long, value_name = "DURATION", value_parser = duration, default_value = "0",
          requires = "report_spans")]
    span_delay: Nanos,
    /// Leave the times out of responses
    #[arg(long, requires = "report_spans")]
    only_spans: bool,
    /// Number of workers that respond in turn, as reported
    #[arg(long, value_name = "COUNT", value_parser = positive, default_value = "1",
          requires = "report_timing")]
    workers: u64,
    /// Number of tokens that are drafted for each step, as reported by vLLM; one of them is accepted
    #[arg(long, value_name = "COUNT", default_value_t = 0, requires = "report_timing")]
    draft_tokens: u64,
    /// Fault to inject, such as every=9:status=500
    ///
    /// Selectors number the requests in order of arrival, from 1:
    /// all, every=N, first=N, requests=N,N,..., rate=SHARE
    /// SHARE is a percentage such as 0.5%. A selector that is followed by ,above=N selects only
    /// while more than N requests are in flight, such as rate=5%,above=8:corrupt=repeat.
    ///
    /// Faults:
    ///   status=CODE         respond at once with this status; status=CODE,BODY with this body
    ///   cut=EVENTS          close the connection after this number of content events
    ///   cut-mid=EVENTS      the same, but also send half of the next event
    ///   garbage=EVENT       break the JSON of the content event with this index (from 0)
    ///   empty               send a stream with status 200 and only its end marker
    ///   no-done             send a stream without its end marker
    ///   error=EVENTS        send an error event after this number of content events
    ///   hang                never respond
    ///   close               close the connection without a response
    ///   drip=DURATION       send one byte at a time, with this pause between two bytes
    ///   close-after-each    announce keep-alive, but close the connection after the response
    ///   job=failed|never|odd  a job fails, never ends, or has an unknown status
    ///   lie=FACTOR          report times that are this many times as long
    ///   new-trace           send spans in a trace of their own
    ///   stall=EVENT,DURATION  delay this step of the schedule (from 0) and later ones
    ///   corrupt=KIND        corrupt the output, but not its reasoning; KIND is one of
    ///     repeat            repeat the last four tokens after a third
    ///     replacement       send some U+FFFD in the middle
    ///     mojibake          send UTF-8 that was decoded as Latin-1 in the middle
    ///     script            send Cyrillic words in the second half
    ///     blank             send only spaces and line feeds
    ///     after-end         send an event after the finish reason, in chats and completions
    ///     usage             report half of the tokens
    ///     same              send the same text, whatever the prompt
    ///     crosstalk         begin with the end of another request's prompt
    ///     burst             send all tokens in one event, when the last of them is due
    ///     truncated         end after a third, with the finish reason stop
    #[arg(long, value_name = "SELECTOR:FAULT", value_parser = fault, verbatim_doc_comment)]
    fault: Vec<FaultRule>,
}

impl MockServerArgs {
    pub(super) fn into_config(self) -> Config {
        let script = Script {
            models: self.model,
            strict_models: self.strict_models,
            ttft: self.ttft,
            itl: self.itl,
            jitter: self.jitter,
            seed: self.seed,
            output_tokens: self.osl,
            tokens_per_chunk: self.tokens_per_chunk,
            reasoning_tokens: self.reasoning_tokens,
            reasoning_place: self.reasoning_place,
            tool_calls: self.tool_calls,
            early_role: self.early_role,
            empty_first: self.empty_first,
            end_delay: self.end_delay,
            write_interval: self.write_interval,
            accept_delay: self.accept_delay,
            tls_delay: self.tls_delay,
            usage: match (self.no_usage, self.always_usage) {
                (true, _) => UsageReport::Never,
                (false, true) => UsageReport::Always,
                (false, false) => UsageReport::Asked,
            },
            embedding_dimensions: self.embedding_dimensions as usize,
            max_concurrent: self.max_concurrent.map(|count| count as usize),
            prefix_cache: self.prefix_cache_blocks.map(|blocks| PrefixCacheSize {
                block_tokens: self.prefix_cache_block_size as usize,
                blocks: blocks as usize,
            }),
            prefill_per_token: self.prefill_per_token,
            chunks_together: self.chunks_together,
            drift: self.drift,
            silence: self.silence,
            rate_limit: self.rate_limit,
            batch_variance: self.batch_variance,
            timing: self.report_timing.map(|form| Timing {
                form,
                queue: self.queue_time,
                kv_transfer: self.kv_transfer_time,
                workers: self.workers,
                draft_tokens: self.draft_tokens,
                spans: self.report_spans.map(|address| SpanExport {
                    address,
                    delay: self.span_delay,
                    is_only: self.only_spans,
                }),
            }),
            faults: self.fault,
            ..Script::default()
        };
        Config {
            address: SocketAddr::new(self.host, self.port),
            threads: self.threads as usize,
            // A server may run for days, so it keeps no log in memory.
            write_log_capacity: 0,
            write_log_file: self.write_log,
            tls: self.tls_cert.zip(self.tls_key).map(|(certificate, key)| Tls { certificate, key }),
            script,
        }
    }
}

fn jitter(text: &str) -> Result<Jitter, MockServerError> {
    text.parse()
}

/// Reads a growth such as `1%` or `0.01`.
fn growth(text: &str) -> Result<f64, &'static str> {
    parse_fraction(text).ok_or("requires a growth such as 1%")
}

/// Reads a share such as `5%` or `0.05`.
fn variance(text: &str) -> Result<f64, &'static str> {
    parse_fraction(text)
        .filter(|share| *share <= 1.0)
        .ok_or("requires a share up to 100%, such as 5%")
}

/// Reads a time and a duration, separated by a comma.
fn silence(text: &str) -> Result<[Nanos; 2], String> {
    let (start, length) = text.split_once(',').ok_or("requires START,DURATION, such as 6s,1.5s")?;
    Ok([duration(start)?, duration(length)?])
}

fn fault(text: &str) -> Result<FaultRule, MockServerError> {
    Script::parse_fault(text)
}

/// The flags of `aiperf demo`, a run against its own mock server.
#[derive(Debug, Clone, PartialEq, Args)]
pub struct Demo {
    /// Maximum number of requests in flight
    #[arg(long, value_name = "COUNT", value_parser = positive, default_value = "8")]
    pub(crate) concurrency: u64,
    /// Number of requests to send
    #[arg(long, visible_alias = "num-requests", value_name = "COUNT", value_parser = positive,
          default_value = "200")]
    pub(crate) request_count: u64,
    /// Time from a request to its first token, such as 50ms or 1.5s; a bare number is seconds
    #[arg(long, value_name = "DURATION", value_parser = duration, default_value = "50ms")]
    pub(crate) ttft: Nanos,
    /// Time between output tokens, such as 5ms; a bare number is seconds
    #[arg(long, value_name = "DURATION", value_parser = duration, default_value = "5ms")]
    pub(crate) itl: Nanos,
    /// Number of output tokens of each response
    #[arg(long, value_name = "TOKENS", value_parser = positive, default_value = "32")]
    pub(crate) osl: u64,
    /// Directory for the run's files
    #[arg(long, value_name = "DIR")]
    pub(crate) artifact_dir: Option<PathBuf>,
}

impl Demo {
    /// The configuration of the demo's mock server.
    #[must_use]
    pub fn server(&self) -> Config {
        let script =
            Script { ttft: self.ttft, itl: self.itl, output_tokens: self.osl, ..Script::default() };
        Config { script, ..Config::default() }
    }

    /// The equivalent `aiperf profile` command line for the server at `url`.
    #[must_use]
    pub fn profile_arguments(&self, url: &str) -> Vec<OsString> {
        let counts = [
            ("--concurrency", self.concurrency),
            ("--request-count", self.request_count.max(self.concurrency)),
            ("--isl", 100),
            ("--osl", self.osl),
        ];
        let mut arguments: Vec<OsString> =
            ["aiperf", "profile", "--model", "mock-model", "--tokenizer", "builtin"]
                .map(OsString::from)
                .into();
        // A demo is likely to be run repeatedly.
        arguments.extend(["--overwrite", "--streaming", "--url", url].map(OsString::from));
        for (flag, count) in counts {
            arguments.extend([flag.into(), count.to_string().into()]);
        }
        if let Some(directory) = &self.artifact_dir {
            arguments.extend(["--artifact-dir".into(), directory.into()]);
        }
        arguments
    }
}
