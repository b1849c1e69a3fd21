//! Validation of a load that is split into shards.

use super::ConfigError;
use crate::config::RunConfig;
use crate::schedule::config::{Limit, LoadPattern, PhaseConfig, UseOfTimestamps};

impl RunConfig {
    /// Checks that all processes make the same schedule.
    pub(super) fn validate_shard(&self) -> Result<(), ConfigError> {
        if self.schedule.shard.is_none() {
            return Ok(());
        }
        let flag = "--shard";
        if self.dataset.random_seed.is_none() {
            let why = "requires --random-seed, the same for each shard, so that all shards make \
                       the same dataset and schedule";
            return Err(ConfigError::flag(flag, why));
        }
        if self.schedule.start_at.is_none() {
            let why =
                "requires --start-at, the same for each shard, so that all shards start together";
            return Err(ConfigError::flag(flag, why));
        }
        match self.schedule.replay.schedule {
            // Depends on whether the file has timestamps; checked once it is read.
            UseOfTimestamps::IfPresent(_) => Ok(()),
            UseOfTimestamps::Always | UseOfTimestamps::Never => self.validate_shares(),
        }
    }

    /// Checks that each shard has something to send. To be called again once the dataset has
    /// determined the phases.
    pub fn validate_shares(&self) -> Result<(), ConfigError> {
        let Some(shard) = self.schedule.shard else { return Ok(()) };
        self.schedule.phases.iter().try_for_each(|phase| enough_for(phase, shard.count()))
    }
}

/// Checks that no shard is left without a session slot, a user or a request.
fn enough_for(phase: &PhaseConfig, parts: u64) -> Result<(), ConfigError> {
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
            let phase = phase.kind.as_str();
            let why = format!(
                "each of {parts} shards needs at least one {what}, but the {phase} phase has only \
                 {count} in total; use fewer shards, or increase the total"
            );
            Err(ConfigError::flag("--shard", why))
        }
        None => Ok(()),
    }
}
