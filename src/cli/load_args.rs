//! The flags of `aiperf profile` that say when what is sent.

#![expect(clippy::doc_markdown, reason = "the docs are the terminal's help")]

use std::path::PathBuf;

use clap::Args;

use super::value::{Choice, above_zero, count, number, percent, positive, rate, ratio, seconds};

const ARRIVAL_PATTERNS: Choice<Pattern> = Choice(&[
    ("concurrency-burst", Pattern::ConcurrencyBurst),
    ("constant", Pattern::Constant),
    ("poisson", Pattern::Poisson),
    ("gamma", Pattern::Gamma),
]);

/// A name given to `--arrival-pattern`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Pattern {
    /// As soon as there is room: no rate.
    ConcurrencyBurst,
    Constant,
    Poisson,
    Gamma,
}

/// When requests are sent.
#[derive(Args)]
#[command(next_help_heading = "Load Generator")]
pub(super) struct LoadArgs {
    /// How long requests are sent, in seconds
    #[arg(long, value_name = "SECONDS", value_parser = above_zero)]
    pub(super) benchmark_duration: Option<f64>,
    /// How long requests in flight may take after that, in seconds, or inf
    #[arg(long, value_name = "SECONDS", value_parser = seconds, default_value = "30",
          requires = "benchmark_duration")]
    pub(super) benchmark_grace_period: f64,
    /// Requests in flight at once [default: 1 without a rate]
    #[arg(long, value_name = "COUNT", value_parser = positive)]
    pub(super) concurrency: Option<u64>,
    /// How long the concurrency climbs from 1 to that, in seconds
    #[arg(long, value_name = "SECONDS", value_parser = above_zero, requires = "concurrency")]
    pub(super) concurrency_ramp_duration: Option<f64>,
    /// Requests in flight at once that wait for their first token; needs --streaming
    #[arg(long, value_name = "COUNT", value_parser = positive)]
    pub(super) prefill_concurrency: Option<u64>,
    /// How long that climbs from 1, in seconds
    #[arg(long, value_name = "SECONDS", value_parser = above_zero,
          requires = "prefill_concurrency")]
    pub(super) prefill_concurrency_ramp_duration: Option<f64>,
    /// Requests sent per second; inf sends all at once, or as --concurrency has room
    #[arg(long, value_name = "RATE", value_parser = rate)]
    pub(super) request_rate: Option<f64>,
    /// How long the rate climbs from 0 to that, or to the series' first point, in seconds
    #[arg(long, value_name = "SECONDS", value_parser = above_zero)]
    pub(super) request_rate_ramp_duration: Option<f64>,
    /// JSON file with rates over time, linear between its points:
    /// {"points":[{"time_s":0,"qps":5},{"time_s":60,"qps":20}]}
    #[arg(long, value_name = "FILE", conflicts_with = "request_rate")]
    pub(super) request_rate_series: Option<PathBuf>,
    /// How arrivals are spread around the rate [default: poisson]
    #[arg(long, visible_alias = "request-rate-mode", value_name = "PATTERN",
          value_parser = ARRIVAL_PATTERNS)]
    pub(super) arrival_pattern: Option<Pattern>,
    /// Shape of gamma arrivals: 1 is poisson, above is smoother [default: 1]
    #[arg(long, visible_alias = "vllm-burstiness", value_name = "SHAPE", value_parser = above_zero)]
    pub(super) arrival_smoothness: Option<f64>,
    /// Requests to send [default: twice the concurrency, at least 10; a file's
    /// conversations, once each; a rate series to its last point; a session for each user]
    #[arg(long, visible_alias = "num-requests", value_name = "COUNT", value_parser = positive)]
    pub(super) request_count: Option<u64>,
    /// Share of failed requests, from 0 to 1, above which the run is given up
    #[arg(long, value_name = "RATIO", value_parser = ratio)]
    pub(super) failed_request_threshold: Option<f64>,
}

/// What is sent before the measurement.
#[derive(Args)]
#[command(next_help_heading = "Warmup")]
pub(super) struct WarmupArgs {
    /// Requests to send before the measurement
    #[arg(long, visible_alias = "num-warmup-requests", value_name = "COUNT", value_parser = count)]
    pub(super) warmup_request_count: Option<u64>,
    /// How long requests are sent before the measurement, in seconds
    #[arg(long, value_name = "SECONDS", value_parser = above_zero)]
    pub(super) warmup_duration: Option<f64>,
    /// Sessions to start before the measurement
    #[arg(long, value_name = "COUNT", value_parser = positive)]
    pub(super) num_warmup_sessions: Option<u64>,
    /// Requests in flight at once [default: as in the measurement]
    #[arg(long, value_name = "COUNT", value_parser = positive)]
    pub(super) warmup_concurrency: Option<u64>,
    /// Requests sent per second, or inf [default: as in the measurement]
    #[arg(long, value_name = "RATE", value_parser = rate)]
    pub(super) warmup_request_rate: Option<f64>,
    /// How arrivals are spread [default: as in the measurement]
    #[arg(long, value_name = "PATTERN", value_parser = ARRIVAL_PATTERNS)]
    pub(super) warmup_arrival_pattern: Option<Pattern>,
    /// How long requests in flight may take after the duration, in seconds [default: no bound]
    #[arg(long, value_name = "SECONDS", value_parser = seconds, requires = "warmup_duration")]
    pub(super) warmup_grace_period: Option<f64>,
    /// Requests that wait for their first token [default: as in the measurement]
    #[arg(long, value_name = "COUNT", value_parser = positive)]
    pub(super) warmup_prefill_concurrency: Option<u64>,
    /// How long the concurrency climbs, in seconds [default: as in the measurement]
    #[arg(long, value_name = "SECONDS", value_parser = above_zero)]
    pub(super) warmup_concurrency_ramp_duration: Option<f64>,
    /// How long that concurrency climbs, in seconds [default: as in the measurement]
    #[arg(long, value_name = "SECONDS", value_parser = above_zero)]
    pub(super) warmup_prefill_concurrency_ramp_duration: Option<f64>,
    /// How long the rate climbs, in seconds [default: as in the measurement]
    #[arg(long, value_name = "SECONDS", value_parser = above_zero)]
    pub(super) warmup_request_rate_ramp_duration: Option<f64>,
}

/// How the times that a file brings are used.
#[derive(Args)]
#[command(next_help_heading = "Fixed Schedule")]
pub(super) struct ReplayArgs {
    /// Send each conversation of the file when its timestamp says [default: if all have one, and
    /// no rate is given]
    #[arg(long, requires = "input_file",
          conflicts_with_all = ["request_rate", "request_rate_series", "arrival_pattern"])]
    pub(super) fixed_schedule: bool,
    /// Use no timestamps
    #[arg(long, conflicts_with_all = ["fixed_schedule", "fixed_schedule_auto_offset",
          "fixed_schedule_start_offset", "fixed_schedule_end_offset"])]
    pub(super) no_fixed_schedule: bool,
    /// Start with the first timestamp
    #[arg(long, requires = "input_file", conflicts_with = "fixed_schedule_start_offset")]
    pub(super) fixed_schedule_auto_offset: bool,
    /// Start with this timestamp, in milliseconds, and leave out earlier ones
    #[arg(long, value_name = "MS", value_parser = number, requires = "input_file")]
    pub(super) fixed_schedule_start_offset: Option<f64>,
    /// Leave out timestamps later than this, in milliseconds
    #[arg(long, value_name = "MS", value_parser = number, requires = "input_file")]
    pub(super) fixed_schedule_end_offset: Option<f64>,
    /// Divide the file's timestamps and delays by this
    #[arg(long, value_name = "FACTOR", value_parser = above_zero, requires = "input_file")]
    pub(super) replay_speedup: Option<f64>,
    /// Send later turns without the file's delays; without --fixed-schedule no timestamps either
    #[arg(long, requires = "input_file")]
    pub(super) ignore_trace_delays: bool,
    /// Longest delay before a later turn, in seconds, after the speed-up
    #[arg(long, value_name = "SECONDS", value_parser = number, requires = "input_file")]
    pub(super) inter_turn_delay_cap_seconds: Option<f64>,
    /// Make each turn that has a timestamp a session of its own, that waits for no answer
    #[arg(long, requires = "input_file", conflicts_with = "no_fixed_schedule")]
    pub(super) open_loop_strict: bool,
}

/// Users who come back at equal intervals.
#[derive(Args)]
#[command(next_help_heading = "User-Centric Rate")]
pub(super) struct UserCentricArgs {
    /// Requests per second of all users together, each at equal intervals; needs conversations of
    /// several turns
    #[arg(long, value_name = "RATE", value_parser = above_zero, requires = "num_users",
          conflicts_with_all = ["request_rate", "request_rate_series", "request_rate_ramp_duration",
                                "arrival_pattern", "fixed_schedule"])]
    pub(super) user_centric_rate: Option<f64>,
    /// Users; one whose session is over goes on with the next
    #[arg(long, value_name = "COUNT", value_parser = positive, requires = "user_centric_rate")]
    pub(super) num_users: Option<u64>,
}

/// Requests that are given up on purpose.
#[derive(Args)]
#[command(next_help_heading = "Request Cancellation")]
pub(super) struct CancellationArgs {
    /// Requests to cancel, in percent; never in the warmup
    #[arg(long, value_name = "PERCENT", value_parser = percent)]
    pub(super) request_cancellation_rate: Option<f64>,
    /// When, in seconds after the request is fully sent [default: 0]
    #[arg(long, value_name = "SECONDS", value_parser = number,
          requires = "request_cancellation_rate")]
    pub(super) request_cancellation_delay: Option<f64>,
}
