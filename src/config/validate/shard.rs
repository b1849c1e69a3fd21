//! What a load of several processes needs.

use super::ConfigError;
use crate::config::RunConfig;
use crate::schedule::config::{Limit, LoadPattern, PhaseConfig, UseOfTimestamps};

impl RunConfig {
    /// Checks that each of several processes knows what the others do.
    pub(super) fn validate_shard(&self) -> Result<(), ConfigError> {
        if self.schedule.shard.is_none() {
            return Ok(());
        }
        let flag = "--shard";
        if self.dataset.random_seed.is_none() {
            let why = "all parts of a run make the same dataset and schedule: give each the same \
                       --random-seed";
            return Err(ConfigError::flag(flag, why));
        }
        if self.schedule.start_at.is_none() {
            let why = "all parts of a run start at one time: give each the same --start-at";
            return Err(ConfigError::flag(flag, why));
        }
        match self.schedule.replay.schedule {
            // A file may bring a schedule of its own.
            UseOfTimestamps::IfPresent(_) => Ok(()),
            UseOfTimestamps::Always | UseOfTimestamps::Never => self.validate_shares(),
        }
    }

    /// Checks that each of several processes has something to do, in phases that
    /// the dataset has settled.
    pub fn validate_shares(&self) -> Result<(), ConfigError> {
        let Some(shard) = self.schedule.shard else { return Ok(()) };
        self.schedule.phases.iter().try_for_each(|phase| enough_for(phase, shard.count()))
    }
}

/// A part without a slot, a user or a request would wait for nothing.
fn enough_for(phase: &PhaseConfig, parts: u64) -> Result<(), ConfigError> {
    let most = |limit: Option<Limit>| limit.map(|limit| limit.most);
    let users = match phase.load {
        LoadPattern::UserCentric { users, .. } => Some(users),
        _ => None,
    };
    let counts = [
        ("session in flight", most(phase.concurrency)),
        ("request that waits for its first token", most(phase.prefill_concurrency)),
        ("request", phase.stop.requests),
        ("session", phase.stop.sessions),
        ("user", users),
    ];
    let scarce = |(what, count): &(&'static str, Option<u64>)| {
        count.filter(|count| *count < parts).map(|count| (*what, count))
    };
    match counts.iter().find_map(scarce) {
        Some((what, count)) => {
            let phase = phase.kind.as_str();
            let why = format!(
                "each of {parts} parts needs a {what}, and the {phase} phase has {count} in all: \
                 use fewer parts, or give more"
            );
            Err(ConfigError::flag("--shard", why))
        }
        None => Ok(()),
    }
}
