//! Converts the flags about load to a schedule.

use std::path::Path;
use std::sync::Arc;

use base::input;
use base::units::Nanos;
use client::schedule::config::{
    ArrivalPattern, Cancellation, Config, Limit, LoadPattern, PhaseConfig, Rate, RatePoint, Replay,
    StopCondition, UseOfTimestamps, Zero,
};
use client::schedule::{PhaseKind, Shard, parse_rate_series};

use super::given::Given;
use super::load_args::{LoadArgs, Pattern, ReplayArgs, UserCentricArgs, WarmupArgs};
use super::phases::Listed;
use super::profile::ProfileArgs;
use crate::config::ConfigError;

/// The schedule of `flags` with the phases that they list, of which this process drives the `shard`;
/// `of_tenants` are the rate and the concurrency of all tenants together, if they have their own.
pub(super) fn schedule(
    flags: &ProfileArgs,
    listed: &[Listed],
    of_tenants: (Option<f64>, Option<u64>),
    shard: Option<Shard>,
    given: Given<'_>,
) -> Result<Config, ConfigError> {
    let own = |phase: &Listed| {
        let Listed { name, kind, seamless, flags, .. } = phase;
        let phase = profiling_phase(flags, of_tenants)?;
        Ok(PhaseConfig {
            name: Some(Arc::clone(name)),
            kind: *kind,
            seamless: *seamless,
            cancellation: phase.cancellation.filter(|_| *kind == PhaseKind::Profiling),
            ..phase
        })
    };
    let mut phases = match listed {
        [] => vec![profiling_phase(flags, of_tenants)?],
        listed => listed.iter().map(own).collect::<Result<Vec<_>, ConfigError>>()?,
    };
    let is_fixed = |phase: &PhaseConfig| phase.load == LoadPattern::FixedSchedule;
    let timestamps = match listed {
        [] => uses_timestamps(flags, &phases[0]),
        _ if phases.iter().any(is_fixed) => UseOfTimestamps::Always,
        _ => UseOfTimestamps::Never,
    };
    if flags.agentic.agentic {
        let tree_idle_cap = flags.replay.trace_idle_gap_cap_seconds;
        phases = flags.agentic.phases(phases.remove(0), &flags.warmup, tree_idle_cap)?;
    } else if let Some(warmup) = warmup_phase(&flags.warmup, given, &phases[0])? {
        if phases.iter().any(|phase| phase.name() == warmup.name()) {
            let why =
                "a phase is named warmup, as is the warmup of other flags; choose another name";
            return Err(ConfigError::flag("--phase", why));
        }
        phases.insert(0, warmup);
    }
    Ok(Config {
        replay: replay(flags, timestamps),
        phases,
        shard,
        start_at: flags.distributed.start_at,
    })
}

fn profiling_phase(
    flags: &ProfileArgs,
    (tenants_rate, tenants_concurrency): (Option<f64>, Option<u64>),
) -> Result<PhaseConfig, ConfigError> {
    let load = &flags.load;
    let rate = flags.request_rate().or(tenants_rate);
    let pattern = load_pattern(load, &flags.users, &flags.replay, rate)?;
    let is_unbounded = rate.is_some();
    let default = (pattern == LoadPattern::ClosedLoop && !is_unbounded).then_some(1);
    let concurrency = load.concurrency.or(tenants_concurrency).or(default);
    let concurrency = limit(concurrency, load.concurrency_ramp_duration);
    let mut stop = StopCondition {
        requests: load.request_count,
        sessions: flags.conversation.num_sessions,
        duration: load.benchmark_duration.map(Nanos::from_seconds),
    };
    let adaptive = flags.adaptive.config(rate.is_some(), flags.output.latency_from)?;
    // An adaptive load ends once its limit is known, and lanes after what `--agentic` asks for.
    let ends_itself = adaptive.is_some() || flags.agentic.agentic;
    if stop.is_unset() && flags.input.input_file.is_none() && !ends_itself {
        stop = default_stop(&pattern, concurrency);
    }
    Ok(PhaseConfig {
        name: None,
        kind: PhaseKind::Profiling,
        seamless: false,
        dataset: 0,
        load: pattern,
        concurrency,
        prefill_concurrency: limit(
            load.prefill_concurrency,
            load.prefill_concurrency_ramp_duration,
        ),
        stop,
        grace_period: grace_period(load.benchmark_grace_period),
        cancellation: flags.cancellation.request_cancellation_rate.map(|percent| Cancellation {
            percent,
            delay: Nanos::from_seconds(
                flags.cancellation.request_cancellation_delay.unwrap_or(0.0),
            ),
        }),
        failed_request_threshold: load.failed_request_threshold,
        end_failed_sessions: load.end_failed_sessions,
        adaptive,
    })
}

fn limit(most: Option<u64>, ramp: Option<f64>) -> Option<Limit> {
    most.map(|most| Limit { most, ramp: ramp.map(Nanos::from_seconds) })
}

fn default_stop(pattern: &LoadPattern, concurrency: Option<Limit>) -> StopCondition {
    let stop = StopCondition::default();
    match pattern {
        LoadPattern::Rate(rate) if rate.points.len() > 1 => {
            StopCondition { duration: Some(rate.length()), ..stop }
        }
        LoadPattern::UserCentric { users, .. } => StopCondition { sessions: Some(*users), ..stop },
        _ => {
            let requests = concurrency.map_or(10, |limit| limit.most.saturating_mul(2).max(10));
            StopCondition { requests: Some(requests), ..stop }
        }
    }
}

fn load_pattern(
    load: &LoadArgs,
    users: &UserCentricArgs,
    replay: &ReplayArgs,
    rate: Option<f64>,
) -> Result<LoadPattern, ConfigError> {
    if let (Some(rate), Some(users)) = (users.user_centric_rate, users.num_users) {
        return Ok(LoadPattern::UserCentric { rate, users });
    }
    if wants_schedule(replay) {
        return Ok(LoadPattern::FixedSchedule);
    }
    let points = match (&load.request_rate_series, rate) {
        (Some(path), _) => read_series(path)?,
        (None, Some(rate)) if rate.is_infinite() => {
            return infinite_rate("--request-rate-ramp-duration", load.request_rate_ramp_duration);
        }
        (None, Some(rate)) => vec![RatePoint { at: Nanos::ZERO, rate }],
        (None, None) => return Ok(LoadPattern::ClosedLoop),
    };
    let names = ["--arrival-pattern", "--arrival-smoothness"];
    Ok(LoadPattern::Rate(Rate {
        points,
        ramp: load.request_rate_ramp_duration.map(Nanos::from_seconds),
        pattern: arrival_pattern(load.arrival_pattern, load.arrival_smoothness, names)?,
    }))
}

/// The load of an infinite rate: a closed loop, of all requests if no concurrency is given.
/// `flag` is the one for a ramp, which is rejected.
fn infinite_rate(flag: &'static str, ramp: Option<f64>) -> Result<LoadPattern, ConfigError> {
    match ramp {
        Some(_) => {
            let why = "cannot be combined with a rate of inf; remove one of the two";
            Err(ConfigError::flag(flag, why))
        }
        None => Ok(LoadPattern::ClosedLoop),
    }
}

/// The warning for a flag without effect.
pub(super) fn warning(flags: &LoadArgs, schedule: &Config) -> Option<String> {
    let pattern = flags.arrival_pattern?;
    let has_rate = schedule.phases.iter().any(|phase| matches!(phase.load, LoadPattern::Rate(_)));
    (pattern != Pattern::ConcurrencyBurst && !has_rate).then(|| {
        "--arrival-pattern is ignored without --request-rate: each request follows a response"
            .to_owned()
    })
}

/// The given pattern, or else gamma if a shape is given, or else Poisson.
/// `names` are the flags for the pattern and its shape.
fn arrival_pattern(
    pattern: Option<Pattern>,
    shape: Option<f64>,
    names: [&'static str; 2],
) -> Result<ArrivalPattern, ConfigError> {
    match (pattern, shape) {
        (None | Some(Pattern::Poisson), None) => Ok(ArrivalPattern::Poisson),
        (Some(Pattern::Constant), None) => Ok(ArrivalPattern::Constant),
        (None | Some(Pattern::Gamma), shape) => {
            Ok(ArrivalPattern::Gamma { shape: shape.unwrap_or(1.0) })
        }
        (Some(Pattern::ConcurrencyBurst), _) => {
            let why = "concurrency-burst cannot be combined with a request rate; remove the rate, \
                       or choose another pattern";
            Err(ConfigError::flag(names[0], why))
        }
        (Some(Pattern::Constant | Pattern::Poisson), Some(_)) => {
            let why = "requires gamma arrivals; remove the flag, or choose gamma";
            Err(ConfigError::flag(names[1], why))
        }
    }
}

fn read_series(path: &Path) -> Result<Vec<RatePoint>, ConfigError> {
    let flag = "--request-rate-series";
    let text = input::text(path, input::MAX_PART_BYTES).map_err(|error| ConfigError::File {
        flag,
        path: path.display().to_string(),
        why: error.to_string(),
    })?;
    parse_rate_series(&text)
        .map_err(|error| ConfigError::flag(flag, format!("{}: {error}", path.display())))
}

fn grace_period(seconds: f64) -> Option<Nanos> {
    seconds.is_finite().then(|| Nanos::from_seconds(seconds))
}

/// Whether any flag asks for a fixed schedule.
const fn wants_schedule(replay: &ReplayArgs) -> bool {
    replay.fixed_schedule
        || replay.fixed_schedule_auto_offset
        || replay.fixed_schedule_start_offset.is_some()
        || replay.fixed_schedule_end_offset.is_some()
        || replay.open_loop_strict
}

/// Whether the timestamps of a dataset are the schedule of the measurement: if it has any, unless
/// flags say when requests are sent.
fn uses_timestamps(flags: &ProfileArgs, profiling: &PhaseConfig) -> UseOfTimestamps {
    let is_unpaced = profiling.load == LoadPattern::ClosedLoop
        && flags.request_rate().is_none()
        && !flags.agentic.agentic
        && !flags.replay.no_fixed_schedule
        && !flags.replay.ignore_trace_delays
        && flags.input.input_file.is_some();
    match profiling.load {
        LoadPattern::FixedSchedule => UseOfTimestamps::Always,
        _ if is_unpaced => UseOfTimestamps::IfPresent(
            profiling.concurrency.filter(|_| flags.load.concurrency.is_some()),
        ),
        _ => UseOfTimestamps::Never,
    }
}

fn replay(flags: &ProfileArgs, schedule: UseOfTimestamps) -> Replay {
    let replay = &flags.replay;
    // Lanes limit the idle time of a tree while they replay it.
    let session_gap_cap = replay.trace_idle_gap_cap_seconds.filter(|_| !flags.agentic.agentic);
    let millis = |time: Option<f64>| time.map(Nanos::from_millis);
    Replay {
        schedule,
        zero: match millis(replay.fixed_schedule_start_offset) {
            _ if replay.fixed_schedule_auto_offset => Zero::First,
            start => Zero::At(start.unwrap_or_default()),
        },
        from: millis(replay.fixed_schedule_start_offset),
        until: millis(replay.fixed_schedule_end_offset),
        speedup: replay.replay_speedup.unwrap_or(1.0),
        ignore_delays: replay.ignore_trace_delays,
        delay_cap: replay.inter_turn_delay_cap_seconds.map(Nanos::from_seconds),
        idle_gap_cap: replay.max_idle_gap_cap_seconds.map(Nanos::from_seconds),
        session_gap_cap: session_gap_cap.map(Nanos::from_seconds),
        strict: replay.open_loop_strict,
    }
}

/// The warmup, if a flag says when it ends. Settings that are not given are those of the
/// measurement; a rate or concurrency for the warmup replaces both.
fn warmup_phase(
    flags: &WarmupArgs,
    given: Given<'_>,
    profiling: &PhaseConfig,
) -> Result<Option<PhaseConfig>, ConfigError> {
    let stop = StopCondition {
        requests: flags.warmup_request_count,
        sessions: flags.num_warmup_sessions,
        duration: flags.warmup_duration.map(Nanos::from_seconds),
    };
    let is_empty = stop.requests == Some(0) && stop.sessions.is_none() && stop.duration.is_none();
    if stop.is_unset() || is_empty {
        return Ok(None);
    }
    let load = warmup_load(flags, given, profiling)?;
    let most = stop.requests.unwrap_or(u64::MAX).max(1);
    let concurrency = warmup_concurrency(flags, profiling, &load).map(|limit| at_most(limit, most));
    let prefill = warmup_limit(
        flags.warmup_prefill_concurrency,
        flags.warmup_prefill_concurrency_ramp_duration,
        profiling.prefill_concurrency,
    );
    let most = concurrency.map_or(most, |limit| limit.most);
    Ok(Some(PhaseConfig {
        name: None,
        kind: PhaseKind::Warmup,
        seamless: false,
        dataset: 0,
        load,
        concurrency,
        prefill_concurrency: prefill.map(|limit| at_most(limit, most)),
        stop,
        grace_period: flags.warmup_grace_period.and_then(grace_period),
        cancellation: None,
        failed_request_threshold: None,
        end_failed_sessions: profiling.end_failed_sessions,
        adaptive: None,
    }))
}

/// The load of the warmup: users if they are given, and otherwise a closed loop if the measurement has a fixed schedule or users.
fn warmup_load(
    flags: &WarmupArgs,
    given: Given<'_>,
    profiling: &PhaseConfig,
) -> Result<LoadPattern, ConfigError> {
    if let (Some(rate), Some(users)) = (flags.warmup_user_centric_rate, flags.warmup_num_users) {
        return Ok(LoadPattern::UserCentric { rate, users });
    }
    let measured = match &profiling.load {
        LoadPattern::Rate(rate) => Some(rate),
        _ => None,
    };
    let points = match (flags.warmup_request_rate, flags.warmup_concurrency, measured) {
        (Some(rate), ..) if rate.is_infinite() => {
            let ramp = flags.warmup_request_rate_ramp_duration;
            return infinite_rate("--warmup-request-rate-ramp-duration", ramp);
        }
        (Some(rate), ..) => vec![RatePoint { at: Nanos::ZERO, rate }],
        (None, None, Some(measured)) => measured.points.clone(),
        _ => {
            let why = "requires a rate for the warmup; add --warmup-request-rate";
            given.refuse(&["of_warmup_rate"], why)?;
            return Ok(LoadPattern::ClosedLoop);
        }
    };
    let shape = measured.and_then(|rate| match rate.pattern {
        ArrivalPattern::Gamma { shape } => Some(shape),
        _ => None,
    });
    let pattern = match (flags.warmup_arrival_pattern, measured) {
        (None, Some(measured)) => measured.pattern,
        (given, _) => {
            let shape = shape.filter(|_| given == Some(Pattern::Gamma));
            arrival_pattern(given, shape, ["--warmup-arrival-pattern", "--arrival-smoothness"])?
        }
    };
    let ramp = flags.warmup_request_rate_ramp_duration.map(Nanos::from_seconds);
    let ramp = ramp.or_else(|| measured.and_then(|rate| rate.ramp));
    Ok(LoadPattern::Rate(Rate { points, ramp, pattern }))
}

fn warmup_concurrency(
    flags: &WarmupArgs,
    profiling: &PhaseConfig,
    load: &LoadPattern,
) -> Option<Limit> {
    let is_loop = *load == LoadPattern::ClosedLoop && profiling.load != LoadPattern::ClosedLoop;
    let measured = profiling.concurrency.or_else(|| is_loop.then_some(Limit::constant(1)));
    let given =
        warmup_limit(flags.warmup_concurrency, flags.warmup_concurrency_ramp_duration, measured);
    // A warmup with only a rate does not limit concurrency.
    given.filter(|_| flags.warmup_request_rate.is_none() || flags.warmup_concurrency.is_some())
}

/// A limit of the warmup with its ramp, each defaulting to the measurement's.
fn warmup_limit(most: Option<u64>, ramp: Option<f64>, measured: Option<Limit>) -> Option<Limit> {
    let most = most.or(measured.map(|limit| limit.most))?;
    let ramp = ramp.map(Nanos::from_seconds).or_else(|| measured.and_then(|limit| limit.ramp));
    Some(Limit { most, ramp })
}

fn at_most(limit: Limit, most: u64) -> Limit {
    Limit { most: limit.most.min(most), ..limit }
}
