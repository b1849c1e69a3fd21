//! Flags of requests that control the server around a run.

#![expect(clippy::doc_markdown, reason = "the doc comments are the --help text")]

use clap::Args;

use base::redact::Secret;
use base::units::Nanos;

use super::value::{origin_path, seconds, seconds_above_zero};
use crate::config::{Control, ResetKvCache, ServerProfiler};

/// Requests that control the server around the run.
#[derive(Args)]
#[command(next_help_heading = "Server Control")]
pub(super) struct ControlArgs {
    /// Reset the server's prefix cache before the run, and before each run of several
    #[arg(long)]
    reset_kv_cache: bool,
    /// Path of the request that resets the cache; SGLang has /flush_cache
    #[arg(long, value_name = "PATH", value_parser = origin_path, requires = "reset_kv_cache",
          default_value = "/reset_prefix_cache")]
    reset_kv_cache_path: String,
    /// Timeout of a request that resets the cache, in seconds; it is repeated for up to 60 seconds
    #[arg(long, value_name = "SECONDS", value_parser = seconds_above_zero,
          requires = "reset_kv_cache", default_value = "30")]
    reset_kv_cache_timeout_seconds: f64,
    /// Start the server's profiler before the measurement, after the warmup, and stop it afterwards
    #[arg(long)]
    server_profiler: bool,
    /// Path of the request that starts the profiler
    #[arg(long, value_name = "PATH", value_parser = origin_path, requires = "server_profiler",
          default_value = "/start_profile")]
    server_profiler_start_path: String,
    /// Path of the request that stops the profiler
    #[arg(long, value_name = "PATH", value_parser = origin_path, requires = "server_profiler",
          default_value = "/stop_profile")]
    server_profiler_stop_path: String,
    /// Timeout of a request that starts or stops the profiler, in seconds
    #[arg(long, value_name = "SECONDS", value_parser = seconds_above_zero,
          requires = "server_profiler", default_value = "30")]
    server_profiler_timeout_seconds: f64,
    /// Start the profiler only once --concurrency has been reached for this many seconds
    #[arg(long, value_name = "SECONDS", value_parser = seconds,
          requires_all = ["server_profiler", "concurrency"])]
    server_profiler_at_full_concurrency: Option<f64>,
}

impl ControlArgs {
    /// The requests that the flags ask for.
    pub(super) fn config(&self) -> Control {
        let reset_kv_cache = self.reset_kv_cache.then(|| ResetKvCache {
            path: Secret::new(self.reset_kv_cache_path.clone()),
            timeout: Nanos::from_seconds(self.reset_kv_cache_timeout_seconds),
        });
        let server_profiler = self.server_profiler.then(|| ServerProfiler {
            start_path: Secret::new(self.server_profiler_start_path.clone()),
            stop_path: Secret::new(self.server_profiler_stop_path.clone()),
            timeout: Nanos::from_seconds(self.server_profiler_timeout_seconds),
            at_full_concurrency: self.server_profiler_at_full_concurrency.map(Nanos::from_seconds),
        });
        Control { reset_kv_cache, server_profiler }
    }
}
