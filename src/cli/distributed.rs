//! `--shard` and `--start-at`: one load split across several processes.

use clap::Args;

use crate::schedule::{Shard, start_at};

/// Which shard of the load this process sends, and when it starts.
#[derive(Args)]
#[command(next_help_heading = "Distributed")]
pub(super) struct DistributedArgs {
    /// Send shard I of N of the load, counting from 0; all N processes must have the same settings,
    /// --random-seed and --start-at, both of which are required
    #[arg(long, value_name = "I/N", value_parser = str::parse::<Shard>, requires = "random_seed", requires = "start_at")]
    pub(super) shard: Option<Shard>,
    /// Start of the first phase: an RFC 3339 time such as 2026-11-21T15:04:05.5Z, or Unix time in
    /// seconds
    #[arg(long, value_name = "TIME", value_parser = start_at, allow_negative_numbers = true)]
    pub(super) start_at: Option<u64>,
}
