//! `--shard` and `--start-at`: one load split across several processes.

use clap::Args;

use base::units::Nanos;
use client::schedule::{Shard, start_at};

use super::value::seconds_above_zero;
use crate::config::scheduler::{self, Barrier, ShardChoice, Task};
use crate::config::{ConfigError, Environment};

/// Which shard of the load this process sends, and when it starts.
#[derive(Args)]
#[command(next_help_heading = "Distributed")]
pub(super) struct DistributedArgs {
    /// Send shard I of N of the load, counting from 0; all N processes must have the same settings,
    /// --random-seed and --start-at, both of which are required. With auto, Slurm, MPI, torchrun or
    /// Kubernetes (auto/N) numbers the shards; they agree on the start in --artifact-dir, the directory
    /// of all, in which each writes to shard-I and the first combines the results
    #[arg(long, value_name = "I/N|auto", value_parser = str::parse::<ShardChoice>, requires = "random_seed")]
    pub(super) shard: Option<ShardChoice>,
    /// Start of the first phase: an RFC 3339 time such as 2026-11-21T15:04:05.5Z, or Unix time in
    /// seconds; required with --shard I/N
    #[arg(long, value_name = "TIME", value_parser = start_at, allow_negative_numbers = true)]
    pub(super) start_at: Option<u64>,
    /// Maximum time in seconds that the shards of --shard auto wait for each other, from when the first
    /// is ready; then those that are ready start [default: 600]
    #[arg(long, value_name = "SECONDS", value_parser = seconds_above_zero, requires = "shard")]
    pub(super) wait_for_shards_timeout: Option<f64>,
}

/// The part of a run that this process performs.
#[derive(Default)]
pub(super) struct Distributed {
    pub(super) shard: Option<Shard>,
    /// How the shards agree on the start, if they do.
    pub(super) barrier: Option<Barrier>,
    /// Whether `--artifact-dir` is the directory of all shards, and not that of this one.
    pub(super) shares_directory: bool,
}

impl DistributedArgs {
    /// Returns the shard and how it starts.
    ///
    /// # Errors
    ///
    /// Fails if the shard or the start is not known.
    pub(super) fn resolve(&self, environment: Environment<'_>) -> Result<Distributed, ConfigError> {
        let agrees =
            matches!(self.shard, Some(ShardChoice::Auto { .. })) && self.start_at.is_none();
        if self.wait_for_shards_timeout.is_some() && !agrees {
            let why = "applies only to --shard auto without --start-at; remove the flag";
            return Err(ConfigError::flag("--wait-for-shards-timeout", why));
        }
        match self.shard {
            None => Ok(Distributed::default()),
            Some(ShardChoice::Given(_)) if self.start_at.is_none() => {
                let why = "requires --start-at, the common start; add it, or use --shard auto, with \
                           which the shards agree on one";
                Err(ConfigError::flag("--shard", why))
            }
            Some(ShardChoice::Given(shard)) => {
                Ok(Distributed { shard: Some(shard), ..Distributed::default() })
            }
            Some(ShardChoice::Auto { count }) => {
                let Task { shard, attempt } = scheduler::task(count, environment)
                    .map_err(|why| ConfigError::flag("--shard", why))?;
                let timeout = self.wait_for_shards_timeout.map(Nanos::from_seconds);
                let barrier = Barrier { timeout: timeout.unwrap_or(Barrier::TIMEOUT), attempt };
                Ok(Distributed {
                    shard: Some(shard),
                    barrier: agrees.then_some(barrier),
                    shares_directory: true,
                })
            }
        }
    }
}
