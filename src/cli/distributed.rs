//! `--shard` and `--start-at`: one load of several processes.

use clap::Args;

use crate::schedule::{Shard, start_at};

/// Which part of the load, and when it starts.
#[derive(Args)]
#[command(next_help_heading = "Distributed")]
pub(super) struct DistributedArgs {
    /// Drive part I, from 0, of N: processes with the same settings, seed and start together are
    /// one run; needs --random-seed and --start-at
    #[arg(long, value_name = "I/N", value_parser = str::parse::<Shard>)]
    pub(super) shard: Option<Shard>,
    /// When the first phase starts: as in 2026-11-21T15:04:05.5Z, or seconds since 1970
    #[arg(long, value_name = "TIME", value_parser = start_at, allow_negative_numbers = true)]
    pub(super) start_at: Option<u64>,
}
