//! `aiperf mock-server` and `aiperf demo`.

use std::ffi::OsString;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::path::PathBuf;

use clap::Args;

use super::value::{duration, positive};
use crate::mock_server::{Config, FaultRule, Jitter, MockServerError, Script};
use crate::units::Nanos;

/// The flags of `aiperf mock-server`.
#[derive(Debug, Args)]
pub(super) struct MockServerArgs {
    /// Address to listen on
    #[arg(long, value_name = "ADDRESS", default_value_t = IpAddr::V4(Ipv4Addr::LOCALHOST))]
    host: IpAddr,
    /// Port to listen on; 0 takes a free one
    #[arg(long, value_name = "PORT", default_value_t = 8000)]
    port: u16,
    /// Threads that serve
    #[arg(long, value_name = "COUNT", value_parser = positive, default_value = "1")]
    threads: u64,
    /// File to which each request's times are appended, one JSON object a line
    #[arg(long, value_name = "FILE")]
    write_log: Option<PathBuf>,
    /// Models that are listed
    #[arg(long, short, value_name = "NAME", num_args = 1.., value_delimiter = ',',
          default_value = "mock-model")]
    model: Vec<String>,
    /// Answer 404 to models that are not listed
    #[arg(long)]
    strict_models: bool,
    /// From a request to its first token: 50ms, 1.5s; a bare number is seconds
    #[arg(long, value_name = "DURATION", value_parser = duration, default_value = "0")]
    ttft: Nanos,
    /// From one chunk to the next
    #[arg(long, value_name = "DURATION", value_parser = duration, default_value = "0")]
    itl: Nanos,
    /// How far chunks stray from their due time: 10% or 2ms
    #[arg(long, value_name = "JITTER", value_parser = jitter, default_value = "0")]
    jitter: Jitter,
    /// Seed of texts and jitter
    #[arg(long, value_name = "SEED", default_value_t = 0)]
    seed: u64,
    /// Tokens generated when a request names no limit
    #[arg(long, value_name = "TOKENS", default_value_t = 64)]
    osl: u64,
    /// Tokens in one event of a stream
    #[arg(long, value_name = "TOKENS", value_parser = positive, default_value = "1")]
    tokens_per_chunk: u64,
    /// How many of the tokens are reasoning
    #[arg(long, value_name = "TOKENS", default_value_t = 0)]
    reasoning_tokens: u64,
    /// Report no usage
    #[arg(long)]
    no_usage: bool,
    /// Length of an embedding
    #[arg(long, value_name = "NUMBERS", value_parser = positive, default_value = "64")]
    embedding_dimensions: u64,
    /// Requests that run at once; the rest wait
    #[arg(long, value_name = "COUNT", value_parser = positive)]
    max_concurrent: Option<u64>,
    /// What goes wrong, as in every=9:status=500
    #[arg(long, value_name = "SELECTOR:FAULT", value_parser = fault)]
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
            usage: !self.no_usage,
            embedding_dimensions: self.embedding_dimensions as usize,
            max_concurrent: self.max_concurrent.map(|count| count as usize),
            faults: self.fault,
            ..Script::default()
        };
        Config {
            address: SocketAddr::new(self.host, self.port),
            threads: self.threads as usize,
            // A server that runs for days keeps no log in memory.
            write_log_capacity: 0,
            write_log_file: self.write_log,
            script,
        }
    }
}

fn jitter(text: &str) -> Result<Jitter, MockServerError> {
    text.parse()
}

fn fault(text: &str) -> Result<FaultRule, MockServerError> {
    Script::parse_fault(text)
}

/// A run against a mock server of its own: `aiperf demo`.
#[derive(Debug, Clone, PartialEq, Args)]
pub struct Demo {
    /// Requests in flight at once
    #[arg(long, value_name = "COUNT", value_parser = positive, default_value = "8")]
    pub concurrency: u64,
    /// Requests to send
    #[arg(long, visible_alias = "num-requests", value_name = "COUNT", value_parser = positive,
          default_value = "200")]
    pub request_count: u64,
    /// From a request to its first token: 50ms, 1.5s; a bare number is seconds
    #[arg(long, value_name = "DURATION", value_parser = duration, default_value = "50ms")]
    pub ttft: Nanos,
    /// From one token to the next
    #[arg(long, value_name = "DURATION", value_parser = duration, default_value = "5ms")]
    pub itl: Nanos,
    /// Output tokens of each request
    #[arg(long, value_name = "TOKENS", value_parser = positive, default_value = "32")]
    pub osl: u64,
    /// Directory of the run's files
    #[arg(long, value_name = "DIR")]
    pub artifact_dir: Option<PathBuf>,
}

impl Demo {
    /// What the demo's server answers.
    #[must_use]
    pub fn server(&self) -> Config {
        let script =
            Script { ttft: self.ttft, itl: self.itl, output_tokens: self.osl, ..Script::default() };
        Config { script, ..Config::default() }
    }

    /// The command line that does the same against the server at `url`.
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
        arguments.extend(["--streaming", "--url", url].map(OsString::from));
        for (flag, count) in counts {
            arguments.extend([flag.into(), count.to_string().into()]);
        }
        if let Some(directory) = &self.artifact_dir {
            arguments.extend(["--artifact-dir".into(), directory.into()]);
        }
        arguments
    }
}
