//! What a load cannot be.

use super::ConfigError;
use crate::config::RunConfig;
use crate::dataset::Source;
use crate::schedule::PhaseKind;
use crate::schedule::config::{
    ArrivalPattern, Limit, LoadPattern, PhaseConfig, Rate, Replay, StopCondition,
};

/// A rate above this is a typing error.
const MOST_PER_SECOND: f64 = 1e6;

/// And one below this, a request in thirty years; times between would be beyond
/// any clock.
const LEAST_PER_SECOND: f64 = 1e-9;

/// More slots than this no machine can have.
const MOST_AT_ONCE: u64 = 1 << 24;

/// Checks the schedule, and what it asks of dataset and endpoint.
pub(super) fn validate(config: &RunConfig) -> Result<(), ConfigError> {
    for phase in &config.schedule.phases {
        validate_phase(phase, config.endpoint.streaming)?;
        validate_sessions(phase, &config.dataset.source)?;
    }
    validate_replay(&config.schedule.replay)
}

fn validate_phase(phase: &PhaseConfig, streaming: bool) -> Result<(), ConfigError> {
    let zero = |flag, value: Option<u64>| match value {
        Some(0) => Err(ConfigError::flag(flag, "0 would send nothing: give at least 1")),
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
            rate_within("--user-centric-rate", *rate)
        }
        LoadPattern::ClosedLoop => validate_at_once(phase),
        LoadPattern::FixedSchedule => Ok(()),
    }
}

/// A load without a bound has a count, or a file's: a duration is none.
fn validate_at_once(phase: &PhaseConfig) -> Result<(), ConfigError> {
    let StopCondition { requests, sessions, duration } = phase.stop;
    let is_counted = requests.is_some() || sessions.is_some() || duration.is_none();
    if phase.concurrency.is_some() || is_counted {
        return Ok(());
    }
    let (flag, why) = match phase.kind {
        PhaseKind::Profiling => (
            "--request-rate",
            "inf sends all at once, and a duration does not say how many: give --concurrency or \
             --request-count",
        ),
        PhaseKind::Warmup => (
            "--warmup-duration",
            "a warmup at a rate of inf sends all at once, and a duration does not say how many: \
             give --warmup-concurrency or --warmup-request-count",
        ),
    };
    Err(ConfigError::flag(flag, why))
}

pub(super) fn at_most(flag: &'static str, count: u64) -> Result<(), ConfigError> {
    if count > MOST_AT_ONCE {
        let why = format!("no machine holds more than {MOST_AT_ONCE} at once: give less");
        return Err(ConfigError::flag(flag, why));
    }
    Ok(())
}

fn validate_limits(phase: &PhaseConfig, streaming: bool) -> Result<(), ConfigError> {
    let prefill = phase.prefill_concurrency.map(|limit| limit.most);
    if prefill.is_some() && !streaming {
        let why = "only a streamed response shows its first token: give --streaming too";
        return Err(ConfigError::flag("--prefill-concurrency", why));
    }
    let Some(concurrency) = phase.concurrency.map(|limit| limit.most) else { return Ok(()) };
    if let Some(prefill) = prefill.filter(|prefill| *prefill > concurrency) {
        let why = format!(
            "of {concurrency} requests there can never be {prefill} that wait for their first \
             token: give at most --concurrency"
        );
        return Err(ConfigError::flag("--prefill-concurrency", why));
    }
    if let Some(requests) = phase.stop.requests.filter(|requests| *requests < concurrency) {
        let why = format!(
            "{requests} requests can never have {concurrency} in flight: give at least as many \
             requests as --concurrency"
        );
        return Err(ConfigError::flag("--request-count", why));
    }
    Ok(())
}

fn validate_rate(rate: &Rate) -> Result<(), ConfigError> {
    let flag = if rate.points.len() > 1 { "--request-rate-series" } else { "--request-rate" };
    rate.points.iter().try_for_each(|point| rate_within(flag, point.rate))?;
    match rate.pattern {
        // The scale of the intervals is its reciprocal.
        ArrivalPattern::Gamma { shape } if !(shape > 0.0 && shape.recip().is_normal()) => {
            Err(ConfigError::flag("--arrival-smoothness", "give a number above 0"))
        }
        _ => Ok(()),
    }
}

fn rate_within(flag: &'static str, rate: f64) -> Result<(), ConfigError> {
    if !(rate.is_finite() && rate > 0.0) {
        return Err(ConfigError::flag(flag, "give requests per second, above 0"));
    }
    if rate < LEAST_PER_SECOND {
        let why = format!("nobody waits for less than {LEAST_PER_SECOND} a second: give more");
        return Err(ConfigError::flag(flag, why));
    }
    if rate > MOST_PER_SECOND {
        let why = format!("no machine sends more than {MOST_PER_SECOND} a second: give less");
        return Err(ConfigError::flag(flag, why));
    }
    Ok(())
}

/// Users come back, which takes conversations of several turns.
fn validate_sessions(phase: &PhaseConfig, source: &Source) -> Result<(), ConfigError> {
    match (&phase.load, source) {
        (LoadPattern::UserCentric { .. }, Source::Synthetic(synthetic))
            if synthetic.turns.mean <= 1.0 && synthetic.turns.stddev == 0.0 =>
        {
            let why = "conversations of a single turn have no user who comes back: give \
                       --session-turns-mean 2 or more, or use --request-rate";
            Err(ConfigError::flag("--user-centric-rate", why))
        }
        (LoadPattern::UserCentric { users, .. }, _)
            if phase.kind == PhaseKind::Profiling
                && phase.stop.sessions.is_some_and(|sessions| sessions < *users) =>
        {
            let why = format!("{users} users need at least as many sessions: give more");
            Err(ConfigError::flag("--num-sessions", why))
        }
        _ => Ok(()),
    }
}

fn validate_replay(replay: &Replay) -> Result<(), ConfigError> {
    if let (Some(from), Some(until)) = (replay.from, replay.until)
        && from > until
    {
        let why = "it is before --fixed-schedule-start-offset, which leaves nothing to send: give \
                   a later one";
        return Err(ConfigError::flag("--fixed-schedule-end-offset", why));
    }
    Ok(())
}
