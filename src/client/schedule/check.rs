//! Checks of a schedule: what its settings require of each other.

use base::setting::{InvalidSetting, Named as _};

use super::config::{
    Config, Limit, LoadPattern, PhaseConfig, Replay, StopCondition, UseOfTimestamps,
};
use super::{Control, PhaseKind};

/// Maximum request rate; anything above is a typing error.
const MAX_REQUEST_RATE: f64 = 1e6;

/// Minimum request rate, one request in thirty years; the intervals of a lower one would
/// overflow.
const MIN_REQUEST_RATE: f64 = 1e-9;

/// Maximum concurrency; no machine holds more.
pub const MAX_CONCURRENCY: u64 = 1 << 24;

/// Checks a rate, in requests per second; the error states what it must be.
pub fn check_rate(rate: f64) -> Result<(), String> {
    if !(rate.is_finite() && rate > 0.0) {
        return Err("must be a number of requests per second above 0".to_owned());
    }
    if rate < MIN_REQUEST_RATE {
        return Err(format!("must be at least {MIN_REQUEST_RATE} per second"));
    }
    if rate > MAX_REQUEST_RATE {
        return Err(format!("must be at most {MAX_REQUEST_RATE} per second"));
    }
    Ok(())
}

impl Config {
    /// Checks the phases, and how timestamps are used.
    pub fn check(&self) -> Result<(), InvalidSetting> {
        for phase in &self.phases {
            check_seamless(phase)?;
            self.check_adaptive(phase)?;
            check_limits(phase)?;
            check_end(phase)?;
            check_users(phase)?;
        }
        check_replay(&self.replay)?;
        match self.replay.schedule {
            // Depends on whether the file has timestamps; checked once it is read.
            UseOfTimestamps::IfPresent(_) => Ok(()),
            UseOfTimestamps::Always | UseOfTimestamps::Never => self.check_shares(),
        }
    }

    /// Checks that an adaptive load has something to raise, in a phase whose load nothing else changes.
    fn check_adaptive(&self, phase: &PhaseConfig) -> Result<(), InvalidSetting> {
        let Some(adaptive) = &phase.adaptive else { return Ok(()) };
        if phase.kind == PhaseKind::Warmup {
            let why = format!(
                "the phase {} is a warmup, whose requests are not in the results that decide about the load; \
                 remove kind=warmup or the flag",
                phase.name()
            );
            return Err(InvalidSetting::new("--adaptive-scale", why));
        }
        let control = adaptive.control.name();
        let ramp = |limit: Option<Limit>| limit.is_some_and(|limit| limit.ramp.is_some());
        let (is_ramped, flag) = match adaptive.control {
            Control::Concurrency => (ramp(phase.concurrency), "--concurrency"),
            Control::PrefillConcurrency => {
                (ramp(phase.prefill_concurrency), "--prefill-concurrency")
            }
            Control::RequestRate => {
                let LoadPattern::Rate(rate) = &phase.load else {
                    let why =
                        "request_rate requires a rate; add --request-rate with the greatest one";
                    return Err(InvalidSetting::new("--adaptive-control-variable", why));
                };
                (rate.ramp.is_some() || rate.points.len() > 1, "--request-rate")
            }
        };
        let most = phase.most_of(adaptive.control);
        let wrong = match (&phase.load, most) {
            (LoadPattern::FixedSchedule | LoadPattern::UserCentric { .. }, _) => {
                "cannot change a fixed schedule or a number of users; use a concurrency or a request \
                 rate"
                    .to_owned()
            }
            _ if is_ramped => {
                format!("{control} cannot have a ramp or a series as well; remove it")
            }
            (_, None) => format!("raises {control}; add {flag} with the greatest one"),
            (_, Some(most)) if most < adaptive.least => {
                let least = adaptive.least;
                format!("starts at {least}, above the greatest {control} ({most}); increase {flag}")
            }
            _ if adaptive.control.is_whole() && adaptive.least.fract() != 0.0 => {
                format!("starts at {}; {control} is a whole number", adaptive.least)
            }
            _ if self.shard.is_some() => {
                "is for a single process, since shards do not know each other's requests".to_owned()
            }
            _ if phase.seamless => "is for a phase that waits for its last requests; remove seamless"
                .to_owned(),
            _ => return Ok(()),
        };
        Err(InvalidSetting::new("--adaptive-scale", wrong))
    }

    /// Returns what the settings cannot achieve together: a concurrency of more requests than are sent.
    pub fn warning(&self) -> Option<String> {
        let (concurrency, requests) = self.measured().find_map(|phase| {
            let concurrency = phase.concurrency?.most;
            let requests = phase.stop.requests.filter(|requests| *requests < concurrency)?;
            Some((concurrency, requests))
        })?;
        Some(format!(
            "--request-count {requests} is less than --concurrency {concurrency}, so at most {requests} \
             requests are in flight at the same time"
        ))
    }

    /// Checks that each shard has something to send. To be called again once the dataset has
    /// determined the phases.
    pub fn check_shares(&self) -> Result<(), InvalidSetting> {
        let Some(shard) = self.shard else { return Ok(()) };
        self.phases.iter().try_for_each(|phase| enough_for(phase, shard.count()))
    }
}

/// Checks that a phase whose last requests the next one does not wait for has a time at which it starts.
fn check_seamless(phase: &PhaseConfig) -> Result<(), InvalidSetting> {
    if !phase.seamless || phase.stop.duration.is_some() {
        return Ok(());
    }
    let why = format!(
        "phase {}: seamless requires a duration, at whose end the next phase starts; add \
         benchmark-duration",
        phase.name()
    );
    Err(InvalidSetting::new("--phase", why))
}

fn check_limits(phase: &PhaseConfig) -> Result<(), InvalidSetting> {
    let Some(concurrency) = phase.concurrency.map(|limit| limit.most) else { return Ok(()) };
    let prefill = phase.prefill_concurrency.map(|limit| limit.most);
    if let Some(prefill) = prefill.filter(|prefill| *prefill > concurrency) {
        let why = format!("must be at most --concurrency ({concurrency}), got {prefill}");
        return Err(InvalidSetting::new("--prefill-concurrency", why));
    }
    Ok(())
}

/// Checks that a load without a concurrency limit has a number of requests or sessions.
fn check_end(phase: &PhaseConfig) -> Result<(), InvalidSetting> {
    let StopCondition { requests, sessions, duration } = phase.stop;
    let is_counted = requests.is_some() || sessions.is_some() || duration.is_none();
    if phase.load != LoadPattern::ClosedLoop || phase.concurrency.is_some() || is_counted {
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
    Err(InvalidSetting::new(flag, why))
}

/// Checks that each user has a request and a session.
fn check_users(phase: &PhaseConfig) -> Result<(), InvalidSetting> {
    let LoadPattern::UserCentric { users, .. } = phase.load else { return Ok(()) };
    if let Some(requests) = phase.stop.requests.filter(|requests| *requests < users) {
        let why = format!("must be at least the number of users ({users}), got {requests}");
        return Err(InvalidSetting::new("--request-count", why));
    }
    let is_measured = phase.kind == PhaseKind::Profiling;
    if is_measured && phase.stop.sessions.is_some_and(|sessions| sessions < users) {
        let why = format!("must be at least the number of users ({users})");
        return Err(InvalidSetting::new("--num-sessions", why));
    }
    Ok(())
}

fn check_replay(replay: &Replay) -> Result<(), InvalidSetting> {
    if let (Some(from), Some(until)) = (replay.from, replay.until)
        && from > until
    {
        let why = "must not be before --fixed-schedule-start-offset, since nothing would be sent";
        return Err(InvalidSetting::new("--fixed-schedule-end-offset", why));
    }
    Ok(())
}

/// Checks that no shard is left without a session slot, a user or a request.
fn enough_for(phase: &PhaseConfig, parts: u64) -> Result<(), InvalidSetting> {
    let most = |limit: Option<Limit>| limit.map(|limit| limit.most);
    let users = match phase.load {
        LoadPattern::UserCentric { users, .. } => Some(users),
        _ => None,
    };
    let counts = [
        ("concurrent session", most(phase.concurrency)),
        ("concurrent prefill request", most(phase.prefill_concurrency)),
        ("request", phase.stop.requests),
        ("session", phase.stop.sessions),
        ("user", users),
    ];
    let scarce = |(what, count): &(&'static str, Option<u64>)| {
        count.filter(|count| *count < parts).map(|count| (*what, count))
    };
    match counts.iter().find_map(scarce) {
        Some((what, count)) => {
            let phase = phase.name();
            let why = format!(
                "each of {parts} shards needs at least one {what}, but the {phase} phase has only \
                 {count} in total; use fewer shards, or increase the total"
            );
            Err(InvalidSetting::new("--shard", why))
        }
        None => Ok(()),
    }
}
