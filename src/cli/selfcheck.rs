//! `aiperf selfcheck`.

#![expect(clippy::doc_markdown, reason = "the doc comments are the --help text")]

use std::path::PathBuf;

use clap::Args;

use base::units::Nanos;

use super::value::{duration, positive};
use crate::config::selfcheck as location;
use crate::config::{ConfigError, Environment};

/// The flags of `aiperf selfcheck`.
#[derive(Debug, Args)]
pub(super) struct SelfCheckArgs {
    /// Maximum p99 measurement error for a load to pass, such as 1ms or 500us; a bare number is
    /// seconds
    #[arg(long, value_name = "DURATION", value_parser = duration, default_value = "1ms")]
    bound: Nanos,
    /// Numbers of concurrent streams to try, in increasing order [default: 1 to 2000 in steps]
    #[arg(long, value_name = "COUNT", value_parser = positive, num_args = 1.., value_delimiter = ',')]
    streams: Vec<u64>,
    /// Request rates per second to try, in increasing order [default: 100 to 5000 in steps]
    #[arg(long, value_name = "RATE", value_parser = positive, num_args = 1.., value_delimiter = ',')]
    rates: Vec<u64>,
    /// Try few loads briefly, to check that the self-check works rather than to find limits
    #[arg(long)]
    quick: bool,
    /// JSON file to write all results to
    #[arg(long, value_name = "FILE")]
    output: Option<PathBuf>,
    /// Save the limits for this machine, so that later runs report whether they stayed within them
    /// [env: AIPERF_SELFCHECK_FILE]
    #[arg(long)]
    save: bool,
}

/// The settings of `aiperf selfcheck`.
#[derive(Debug, Clone, PartialEq)]
pub struct SelfCheck {
    /// Maximum p99 error of a measurement for a load to pass.
    pub(crate) bound: Nanos,
    /// Concurrent streams to try, in order.
    pub(crate) streams: Vec<u64>,
    /// Request rates per second to try, in order.
    pub(crate) rates: Vec<u64>,
    /// Whether to try each load only briefly.
    pub(crate) quick: bool,
    /// File for all results.
    pub(crate) output: Option<PathBuf>,
    /// File for the limits, which later runs read.
    pub(crate) save: Option<PathBuf>,
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
