//! The flags of `aiperf profile` that control the load.

#![expect(clippy::doc_markdown, reason = "the doc comments are the --help text")]

use std::path::PathBuf;

use clap::{ArgAction, ArgGroup, Args};

use base::setting::named;

use super::value::{
    above_zero, choice, concurrency, count, millis, percent, positive, rate, rate_or_inf, ratio,
    seconds, seconds_above_zero, seconds_or_inf, shape,
};

/// A value of `--arrival-pattern`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Pattern {
    /// As fast as the concurrency allows, without a rate.
    ConcurrencyBurst,
    Constant,
    Poisson,
    Gamma,
}

named! {
    Pattern {
        "concurrency_burst" => ConcurrencyBurst,
        "constant" => Constant,
        "poisson" => Poisson,
        "gamma" => Gamma,
    }
}

/// When to send requests, and how many.
#[derive(Args)]
#[command(next_help_heading = "Load Generator", group = ArgGroup::new("rate").multiple(true))]
pub(super) struct LoadArgs {
    /// Duration of the benchmark, in seconds; no requests are sent afterwards
    #[arg(long, value_name = "SECONDS", value_parser = seconds_above_zero)]
    pub(super) benchmark_duration: Option<f64>,
    /// Maximum time for requests in flight to finish after --benchmark-duration, in seconds, or inf
    #[arg(long, value_name = "SECONDS", value_parser = seconds_or_inf, default_value = "30",
          requires = "benchmark_duration")]
    pub(super) benchmark_grace_period: f64,
    /// Maximum number of requests in flight [default: 1, or unlimited with a request rate]
    #[arg(long, value_name = "COUNT", value_parser = concurrency)]
    pub(super) concurrency: Option<u64>,
    /// Seconds over which the concurrency ramps up from 1 to --concurrency
    #[arg(long, value_name = "SECONDS", value_parser = seconds_above_zero, requires = "concurrency")]
    pub(super) concurrency_ramp_duration: Option<f64>,
    /// Maximum number of requests waiting for their first token; requires --streaming
    #[arg(long, value_name = "COUNT", value_parser = positive, requires = "streaming")]
    pub(super) prefill_concurrency: Option<u64>,
    /// Seconds over which the prefill concurrency ramps up from 1 to --prefill-concurrency
    #[arg(long, value_name = "SECONDS", value_parser = seconds_above_zero,
          requires = "prefill_concurrency")]
    pub(super) prefill_concurrency_ramp_duration: Option<f64>,
    /// Requests to send per second; inf sends all of them at once, or as fast as --concurrency
    /// allows
    #[arg(long, value_name = "RATE", value_parser = rate_or_inf, group = "rate")]
    pub(super) request_rate: Option<f64>,
    /// Seconds over which the rate ramps up from 0 to --request-rate, or to the first point of
    /// --request-rate-series
    #[arg(long, value_name = "SECONDS", value_parser = seconds_above_zero, requires = "rate")]
    pub(super) request_rate_ramp_duration: Option<f64>,
    /// JSON file with request rates over time, interpolated linearly between points:
    /// {"points":[{"time_s":0,"qps":5},{"time_s":60,"qps":20}]}
    #[arg(long, value_name = "FILE", conflicts_with = "request_rate", group = "rate")]
    pub(super) request_rate_series: Option<PathBuf>,
    /// Distribution of the intervals between requests at a given rate [default: poisson, or gamma
    /// with --arrival-smoothness]
    #[arg(long, visible_alias = "request-rate-mode", value_name = "PATTERN",
          value_parser = choice::<Pattern>())]
    pub(super) arrival_pattern: Option<Pattern>,
    /// Shape parameter of gamma arrivals: 1 is Poisson, larger is smoother [default: 1]
    #[arg(long, visible_alias = "vllm-burstiness", value_name = "SHAPE", value_parser = shape, requires = "rate")]
    pub(super) arrival_smoothness: Option<f64>,
    /// YAML or JSON file with the tenants that share the load: their names, shares, rates or
    /// concurrencies, arrivals, headers, lengths and objectives
    #[arg(long, value_name = "FILE", conflicts_with_all = ["fixed_schedule", "user_centric_rate"])]
    pub(super) tenants: Option<PathBuf>,
    /// Number of requests to send [default: twice the concurrency, at least 10; with --input-file
    /// each conversation once; with --request-rate-series until its last point; with --num-users
    /// one session per user]
    #[arg(long, visible_alias = "num-requests", value_name = "COUNT", value_parser = positive)]
    pub(super) request_count: Option<u64>,
    /// Phase of the run with results of its own, given once for each in order: 'name: flag=value,
    /// flag=value', with flags of the load; what it does not set is as on the command line
    #[arg(long, value_name = "PHASE", action = ArgAction::Append)]
    pub(super) phase: Vec<String>,
    /// Fraction of failed requests, from 0 to 1, above which the run is aborted
    #[arg(long, value_name = "RATIO", value_parser = ratio)]
    pub(super) failed_request_threshold: Option<f64>,
    /// Number of requests at the start, all rejected with status 401, 403, 404, 405 or 422, after
    /// which the run is aborted; 0 never aborts it
    #[arg(long, value_name = "COUNT", value_parser = count, default_value_t = 20)]
    pub(super) rejected_request_limit: u64,
    /// End a session when one of its turns fails or is cancelled; by default its later turns are
    /// sent without the missing response
    #[arg(long)]
    pub(super) end_failed_sessions: bool,
}

/// Requests to send before the measurement.
#[derive(Args)]
#[command(next_help_heading = "Warmup", 
          groups = [ArgGroup::new("warmup").multiple(true), ArgGroup::new("of_warmup_rate").multiple(true)])]
pub(super) struct WarmupArgs {
    /// Number of warmup requests to send before the measurement
    #[arg(long, visible_alias = "num-warmup-requests", value_name = "COUNT", value_parser = count, group = "warmup")]
    pub(super) warmup_request_count: Option<u64>,
    /// Duration of the warmup, in seconds
    #[arg(long, value_name = "SECONDS", value_parser = seconds_above_zero, groups = ["warmup", "drained"])]
    pub(super) warmup_duration: Option<f64>,
    /// Number of warmup sessions to start before the measurement
    #[arg(long, value_name = "COUNT", value_parser = positive, group = "warmup")]
    pub(super) num_warmup_sessions: Option<u64>,
    /// Maximum number of requests in flight in the warmup [default: as in the measurement]
    #[arg(long, value_name = "COUNT", value_parser = concurrency, requires = "warmup")]
    pub(super) warmup_concurrency: Option<u64>,
    /// Requests to send per second in the warmup, or inf [default: as in the measurement]
    #[arg(long, value_name = "RATE", value_parser = rate_or_inf, requires = "warmup")]
    pub(super) warmup_request_rate: Option<f64>,
    /// Number of concurrent users in the warmup, who send as those of --num-users
    #[arg(long, value_name = "COUNT", value_parser = concurrency,
          requires_all = ["warmup", "warmup_user_centric_rate"],
          conflicts_with_all = ["warmup_request_rate", "of_warmup_rate"])]
    pub(super) warmup_num_users: Option<u64>,
    /// Total requests per second of all users in the warmup
    #[arg(long, value_name = "RATE", value_parser = rate, requires = "warmup_num_users")]
    pub(super) warmup_user_centric_rate: Option<f64>,
    /// Distribution of the intervals between requests in the warmup [default: as in the
    /// measurement]
    #[arg(long, value_name = "PATTERN", value_parser = choice::<Pattern>(), requires = "warmup", group = "of_warmup_rate")]
    pub(super) warmup_arrival_pattern: Option<Pattern>,
    /// Maximum time for requests in flight to finish after --warmup-duration, or before the measurement
    /// with --agentic, in seconds, or inf [default: inf]
    #[arg(long, value_name = "SECONDS", value_parser = seconds_or_inf, requires = "drained")]
    pub(super) warmup_grace_period: Option<f64>,
    /// Maximum number of requests waiting for their first token in the warmup [default: as in the
    /// measurement]
    #[arg(long, value_name = "COUNT", value_parser = positive, requires = "warmup")]
    pub(super) warmup_prefill_concurrency: Option<u64>,
    /// Seconds over which the concurrency ramps up in the warmup [default: as in the measurement]
    #[arg(long, value_name = "SECONDS", value_parser = seconds_above_zero, requires = "warmup")]
    pub(super) warmup_concurrency_ramp_duration: Option<f64>,
    /// Seconds over which the prefill concurrency ramps up in the warmup [default: as in the
    /// measurement]
    #[arg(long, value_name = "SECONDS", value_parser = seconds_above_zero, requires = "warmup")]
    pub(super) warmup_prefill_concurrency_ramp_duration: Option<f64>,
    /// Seconds over which the request rate ramps up in the warmup [default: as in the measurement]
    #[arg(long, value_name = "SECONDS", value_parser = seconds_above_zero, requires = "warmup", group = "of_warmup_rate")]
    pub(super) warmup_request_rate_ramp_duration: Option<f64>,
}

/// How the timestamps and delays of a file are used.
#[derive(Args)]
#[command(next_help_heading = "Fixed Schedule")]
pub(super) struct ReplayArgs {
    /// Send each conversation of the --input-file at its timestamp [default: on if all
    /// conversations have one and no rate is given]
    #[arg(long, requires = "input_file",
          conflicts_with_all = ["request_rate", "request_rate_series", "arrival_pattern"])]
    pub(super) fixed_schedule: bool,
    /// Ignore the file's timestamps
    #[arg(long, visible_alias = "no-open-loop-replay", conflicts_with_all = ["fixed_schedule", "fixed_schedule_auto_offset",
          "fixed_schedule_start_offset", "fixed_schedule_end_offset"])]
    pub(super) no_fixed_schedule: bool,
    /// Start the schedule at the file's first timestamp instead of 0
    #[arg(long, requires = "input_file", conflicts_with = "fixed_schedule_start_offset")]
    pub(super) fixed_schedule_auto_offset: bool,
    /// Start the schedule at this timestamp, in milliseconds, and skip earlier conversations
    #[arg(long, value_name = "MS", value_parser = millis, requires = "input_file")]
    pub(super) fixed_schedule_start_offset: Option<f64>,
    /// Skip conversations with timestamps later than this, in milliseconds
    #[arg(long, value_name = "MS", value_parser = millis, requires = "input_file")]
    pub(super) fixed_schedule_end_offset: Option<f64>,
    /// Divide the file's timestamps and delays by this factor
    #[arg(long, value_name = "FACTOR", value_parser = above_zero, requires = "recorded")]
    pub(super) replay_speedup: Option<f64>,
    /// Ignore the file's delays between turns and, unless --fixed-schedule is given, its timestamps
    #[arg(long, requires = "recorded")]
    pub(super) ignore_trace_delays: bool,
    /// Maximum delay before a later turn, in seconds, applied after --replay-speedup
    #[arg(long, value_name = "SECONDS", value_parser = seconds, requires = "recorded")]
    pub(super) inter_turn_delay_cap_seconds: Option<f64>,
    /// Maximum time between two successive timestamps of the file, in seconds, applied after
    /// --replay-speedup; later timestamps move forward
    #[arg(long, value_name = "SECONDS", value_parser = seconds, requires = "input_file",
          conflicts_with_all = ["no_fixed_schedule", "ignore_trace_delays"])]
    pub(super) max_idle_gap_cap_seconds: Option<f64>,
    /// Maximum time between two successive turns of a conversation, in seconds, whether by
    /// timestamps or by delays, applied after --replay-speedup; with --agentic, maximum time in which a
    /// trace does not have any request in flight, after which its waiting requests move to an earlier time
    #[arg(long, value_name = "SECONDS", value_parser = seconds, requires = "recorded")]
    pub(super) trace_idle_gap_cap_seconds: Option<f64>,
    /// Send each turn that has a timestamp as a session of its own, without waiting for the
    /// response to the previous turn
    #[arg(long, requires = "input_file", conflicts_with = "no_fixed_schedule")]
    pub(super) open_loop_strict: bool,
}

/// Users who send requests at equal intervals.
#[derive(Args)]
#[command(next_help_heading = "Load Generator")]
pub(super) struct UserCentricArgs {
    /// Total requests per second of all users, each of whom sends at equal intervals; requires
    /// conversations of several turns
    #[arg(long, value_name = "RATE", value_parser = rate, requires = "num_users",
          conflicts_with_all = ["request_rate", "request_rate_series", "request_rate_ramp_duration",
                                "arrival_pattern", "fixed_schedule"])]
    pub(super) user_centric_rate: Option<f64>,
    /// Number of concurrent users; a user whose session ends starts another
    #[arg(long, value_name = "COUNT", value_parser = concurrency, requires = "user_centric_rate")]
    pub(super) num_users: Option<u64>,
}

/// Requests to cancel on purpose.
#[derive(Args)]
#[command(next_help_heading = "Load Generator")]
pub(super) struct CancellationArgs {
    /// Percentage of requests to cancel; warmup requests are never cancelled
    #[arg(long, value_name = "PERCENT", value_parser = percent)]
    pub(super) request_cancellation_rate: Option<f64>,
    /// Seconds after a request is fully sent at which to cancel it [default: 0]
    #[arg(long, value_name = "SECONDS", value_parser = seconds,
          requires = "request_cancellation_rate")]
    pub(super) request_cancellation_delay: Option<f64>,
}
