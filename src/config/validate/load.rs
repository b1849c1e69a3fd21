//! Validation of the load.

use super::ConfigError;
use crate::config::RunConfig;
use crate::dataset::Source;
use crate::schedule::PhaseKind;
use crate::schedule::config::{
    ArrivalPattern, Limit, LoadPattern, PhaseConfig, Rate, Replay, StopCondition,
};

/// Maximum request rate; anything above is a typing error.
const MAX_REQUEST_RATE: f64 = 1e6;

/// Minimum request rate, one request in thirty years; the intervals of a lower one would
/// overflow.
const MIN_REQUEST_RATE: f64 = 1e-9;

/// Maximum concurrency; no machine holds more.
const MAX_CONCURRENCY: u64 = 1 << 24;

/// Checks the schedule, and what it requires of the dataset and the endpoint.
pub(super) fn validate(config: &RunConfig) -> Result<(), ConfigError> {
    for phase in &config.schedule.phases {
        validate_phase(phase, config.endpoint.streaming)?;
        validate_sessions(phase, &config.dataset.source)?;
    }
    validate_replay(&config.schedule.replay)
}

fn validate_phase(phase: &PhaseConfig, streaming: bool) -> Result<(), ConfigError> {
    let zero = |flag, value: Option<u64>| match value {
        Some(0) => Err(ConfigError::flag(flag, "must be at least 1, since 0 would send nothing")),
        _ => Ok(()),
    };
    let most = |limit: Option<Limit>| limit.map(|limit| limit.most);
    zero("--concurrency", most(phase.concurrency))?;
    zero("--prefill-concurrency", most(phase.prefill_concurrency))?;
    zero("--request-count", phase.stop.requests)?;
    zero("--num-sessions", phase.stop.sessions)?;
    zero("--benchmark-duration", phase.stop.duration.map(|duration| duration.0))?;
    validate_limits(phase, streaming)?;
    match &phase.load {
        LoadPattern::Rate(rate) => validate_rate(rate),
        LoadPattern::UserCentric { rate, users } => {
            zero("--num-users", Some(*users))?;
            at_most("--num-users", *users)?;
            if let Some(requests) = phase.stop.requests.filter(|requests| requests < users) {
                let why = format!("must be at least the number of users ({users}), got {requests}");
                return Err(ConfigError::flag("--request-count", why));
            }
            rate_within("--user-centric-rate", *rate)
        }
        LoadPattern::ClosedLoop => validate_unlimited(phase),
        LoadPattern::FixedSchedule => Ok(()),
    }
}

/// Checks that a load without a concurrency limit has a number of requests or sessions.
fn validate_unlimited(phase: &PhaseConfig) -> Result<(), ConfigError> {
    let StopCondition { requests, sessions, duration } = phase.stop;
    let is_counted = requests.is_some() || sessions.is_some() || duration.is_none();
    if phase.concurrency.is_some() || is_counted {
        return Ok(());
    }
    let (flag, why) = match phase.kind {
        PhaseKind::Profiling => (
            "--request-rate",
            "inf sends all requests at once, and a duration does not limit them; add --concurrency \
             or --request-count",
        ),
        PhaseKind::Warmup => (
            "--warmup-duration",
            "a warmup at a rate of inf sends all requests at once, and a duration does not limit \
             them; add --warmup-concurrency or --warmup-request-count",
        ),
    };
    Err(ConfigError::flag(flag, why))
}

pub(super) fn at_most(flag: &'static str, count: u64) -> Result<(), ConfigError> {
    if count > MAX_CONCURRENCY {
        let why = format!("must be at most {MAX_CONCURRENCY}");
        return Err(ConfigError::flag(flag, why));
    }
    Ok(())
}

fn validate_limits(phase: &PhaseConfig, streaming: bool) -> Result<(), ConfigError> {
    let prefill = phase.prefill_concurrency.map(|limit| limit.most);
    if prefill.is_some() && !streaming {
        let why = "requires --streaming, since only a streamed response has a first token";
        return Err(ConfigError::flag("--prefill-concurrency", why));
    }
    let Some(concurrency) = phase.concurrency.map(|limit| limit.most) else { return Ok(()) };
    if let Some(prefill) = prefill.filter(|prefill| *prefill > concurrency) {
        let why = format!("must be at most --concurrency ({concurrency}), got {prefill}");
        return Err(ConfigError::flag("--prefill-concurrency", why));
    }
    if let Some(requests) = phase.stop.requests.filter(|requests| *requests < concurrency) {
        let why = format!("must be at least --concurrency ({concurrency}), got {requests}");
        return Err(ConfigError::flag("--request-count", why));
    }
    Ok(())
}

fn validate_rate(rate: &Rate) -> Result<(), ConfigError> {
    let flag = if rate.points.len() > 1 { "--request-rate-series" } else { "--request-rate" };
    rate.points.iter().try_for_each(|point| rate_within(flag, point.rate))?;
    match rate.pattern {
        // The scale of the intervals is the reciprocal of the shape.
        ArrivalPattern::Gamma { shape } if !(shape > 0.0 && shape.recip().is_normal()) => {
            Err(ConfigError::flag("--arrival-smoothness", "must be above 0"))
        }
        _ => Ok(()),
    }
}

fn rate_within(flag: &'static str, rate: f64) -> Result<(), ConfigError> {
    if !(rate.is_finite() && rate > 0.0) {
        return Err(ConfigError::flag(flag, "must be a number of requests per second above 0"));
    }
    if rate < MIN_REQUEST_RATE {
        let why = format!("must be at least {MIN_REQUEST_RATE} per second");
        return Err(ConfigError::flag(flag, why));
    }
    if rate > MAX_REQUEST_RATE {
        let why = format!("must be at most {MAX_REQUEST_RATE} per second");
        return Err(ConfigError::flag(flag, why));
    }
    Ok(())
}

/// Checks that users have conversations of several turns, and enough sessions.
fn validate_sessions(phase: &PhaseConfig, source: &Source) -> Result<(), ConfigError> {
    match (&phase.load, source) {
        (LoadPattern::UserCentric { .. }, Source::Synthetic(synthetic))
            if synthetic.turns.mean <= 1.0 && synthetic.turns.stddev == 0.0 =>
        {
            let why = "requires conversations of several turns; add --session-turns-mean 2 or \
                       more, or use --request-rate instead";
            Err(ConfigError::flag("--user-centric-rate", why))
        }
        (LoadPattern::UserCentric { users, .. }, _)
            if phase.kind == PhaseKind::Profiling
                && phase.stop.sessions.is_some_and(|sessions| sessions < *users) =>
        {
            let why = format!("must be at least the number of users ({users})");
            Err(ConfigError::flag("--num-sessions", why))
        }
        _ => Ok(()),
    }
}

fn validate_replay(replay: &Replay) -> Result<(), ConfigError> {
    if let (Some(from), Some(until)) = (replay.from, replay.until)
        && from > until
    {
        let why = "must not be before --fixed-schedule-start-offset, since nothing would be sent";
        return Err(ConfigError::flag("--fixed-schedule-end-offset", why));
    }
    Ok(())
}
