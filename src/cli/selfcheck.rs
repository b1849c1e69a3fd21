//! `aiperf selfcheck`.

#![expect(clippy::doc_markdown, reason = "the docs are the terminal's help")]

use std::path::PathBuf;

use clap::Args;

use super::value::{duration, positive};
use crate::config::selfcheck as location;
use crate::config::{ConfigError, Environment};
use crate::units::Nanos;

/// The flags of `aiperf selfcheck`.
#[derive(Debug, Args)]
pub(super) struct SelfCheckArgs {
    /// What every error has to stay within at p99: 1ms, 500us; a bare number is seconds
    #[arg(long, value_name = "DURATION", value_parser = duration, default_value = "1ms")]
    bound: Nanos,
    /// Concurrent streams to try, rising
    #[arg(long, value_name = "COUNT", value_parser = positive, num_args = 1.., value_delimiter = ',')]
    streams: Vec<u64>,
    /// Requests a second to try, rising
    #[arg(long, value_name = "RATE", value_parser = positive, num_args = 1.., value_delimiter = ',')]
    rates: Vec<u64>,
    /// Try little and briefly: shows that it works, not how well
    #[arg(long)]
    quick: bool,
    /// File for everything that was found, as JSON
    #[arg(long, value_name = "FILE")]
    output: Option<PathBuf>,
    /// Keep the limits for this machine: later results bear them [env: AIPERF_SELFCHECK_FILE]
    #[arg(long)]
    save: bool,
}

/// What `aiperf selfcheck` is to do.
#[derive(Debug, Clone, PartialEq)]
pub struct SelfCheck {
    /// What every error has to stay within at p99.
    pub bound: Nanos,
    /// Concurrent streams to try, in order.
    pub streams: Vec<u64>,
    /// Requests a second to try, in order.
    pub rates: Vec<u64>,
    /// Whether each load is short.
    pub quick: bool,
    /// File for everything that was found.
    pub output: Option<PathBuf>,
    /// File that later runs read.
    pub save: Option<PathBuf>,
}

const STREAMS: &[u64] = &[1, 10, 50, 100, 200, 500, 1000, 2000];
const RATES: &[u64] = &[100, 200, 500, 1000, 2000, 5000];

impl SelfCheckArgs {
    pub(super) fn resolve(self, environment: Environment<'_>) -> Result<SelfCheck, ConfigError> {
        let save = if self.save {
            Some(location::file(environment).ok_or(ConfigError::NoSelfCheckFile)?)
        } else {
            None
        };
        let or = |given: Vec<u64>, quick: &[u64], all: &[u64]| match (given.is_empty(), self.quick)
        {
            (false, _) => given,
            (true, true) => quick.to_vec(),
            (true, false) => all.to_vec(),
        };
        Ok(SelfCheck {
            bound: self.bound,
            streams: or(self.streams, &[1, 10], STREAMS),
            rates: or(self.rates, &[100], RATES),
            quick: self.quick,
            output: self.output,
            save,
        })
    }
}
