//! The flags of `aiperf ab`.

use std::ffi::OsString;

use clap::Args;

use results::report::PageFile;

use super::compare::Comparing;
use super::page::PageArgs;
use super::value::{positive, seconds, seconds_above_zero};
use crate::config::{ConfigError, RunConfig};

/// Flags of `aiperf profile` that limit a block; without any, blocks have a default length.
const LIMITS: [&str; 9] = [
    "--request-count",
    "--num-requests",
    "--benchmark-duration",
    "--num-sessions",
    "--conversation-num",
    "--input-file",
    "--fixed-schedule",
    "--config",
    "--phase",
];

/// The two servers, and how they are measured.
#[derive(Debug, Args)]
#[command(
    after_help = "Example:\n  aiperf ab http://old:8000 http://new:8000 -- --model my-model \
                        --streaming --concurrency 16"
)]
pub(super) struct AbArgs {
    /// URL of the server that the other one is compared with
    #[arg(value_name = "URL_A")]
    url_a: Option<String>,
    /// URL of the other server
    #[arg(value_name = "URL_B", requires = "url_a")]
    url_b: Option<String>,
    /// Flag of aiperf profile for A only, such as --a=--model=old; can be repeated
    #[arg(long = "a", value_name = "FLAG", allow_hyphen_values = true)]
    only_a: Vec<String>,
    /// Flag of aiperf profile for B only; can be repeated
    #[arg(long = "b", value_name = "FLAG", allow_hyphen_values = true)]
    only_b: Vec<String>,
    /// Command that starts server A, which is stopped at the end
    #[arg(long, value_name = "COMMAND")]
    start_a: Option<String>,
    /// Command that starts server B, which is stopped at the end
    #[arg(long, value_name = "COMMAND")]
    start_b: Option<String>,
    /// Maximum number of pairs of blocks; fewer if the result is certain before
    #[arg(long, value_name = "COUNT", value_parser = positive, default_value = "30")]
    pairs: u64,
    /// Length of a block in seconds, unless a flag of aiperf profile limits it
    #[arg(long, value_name = "SECONDS", value_parser = seconds_above_zero, default_value = "5")]
    block_duration: f64,
    /// Seconds for which the server has the load before each block, unless a flag of aiperf profile
    /// sets a warmup or lists phases
    #[arg(long, value_name = "SECONDS", value_parser = seconds, default_value = "1")]
    settle: f64,
    #[command(flatten)]
    comparing: Comparing,
    #[command(flatten)]
    page: PageArgs,
    /// Flags of aiperf profile for both servers, after --
    #[arg(value_name = "FLAGS", last = true)]
    flags: Vec<OsString>,
}

/// A comparison of two servers side by side.
#[derive(Debug)]
pub struct Ab {
    pub(crate) sides: [AbSide; 2],
    /// Maximum number of pairs of blocks.
    pub(crate) pairs: u64,
    pub(crate) comparing: Comparing,
    /// The page to write, if any (`--html`).
    pub(crate) page: Option<PageFile>,
}

/// A side of the comparison.
#[derive(Debug)]
pub(crate) struct AbSide {
    /// The configuration of a block.
    pub(crate) config: Box<RunConfig>,
    /// The command that starts its server.
    pub(crate) start: Option<String>,
}

impl AbArgs {
    /// Returns the command line of a block of each side.
    pub(super) fn profile_arguments(&self) -> Result<[Vec<OsString>; 2], ConfigError> {
        let is_same = self.url_b.is_none()
            && self.only_a == self.only_b
            && self.start_a.is_none()
            && self.start_b.is_none();
        if is_same {
            let why =
                "both sides are the same; give two URLs, or flags for each side with --a and --b";
            return Err(ConfigError::flag("aiperf ab", why));
        }
        let side = |url: Option<&String>, only: &[String]| {
            let url = url.map(|url| format!("--url={url}"));
            let own: Vec<String> = url.into_iter().chain(only.iter().cloned()).collect();
            let given = || {
                let common = self.flags.iter().map(|flag| flag.to_string_lossy().into_owned());
                common.chain(own.iter().cloned())
            };
            let has =
                |names: &[&str]| given().any(|flag| names.iter().any(|it| flag.starts_with(it)));
            let length =
                (!has(&LIMITS)).then(|| format!("--benchmark-duration={}", self.block_duration));
            let settle = (!has(&["--warmup", "--num-warmup", "--config", "--phase"])
                && self.settle > 0.0)
                .then(|| format!("--warmup-duration={}", self.settle));
            let start = ["aiperf", "profile"].map(OsString::from).into_iter();
            let added = length.into_iter().chain(settle).chain(own.clone()).map(OsString::from);
            start.chain(self.flags.iter().cloned()).chain(added).collect()
        };
        let url_b = self.url_b.as_ref().or(self.url_a.as_ref());
        Ok([side(self.url_a.as_ref(), &self.only_a), side(url_b, &self.only_b)])
    }

    /// Returns the comparison of blocks with these configurations.
    pub(super) fn into_ab(self, [mut a, mut b]: [RunConfig; 2]) -> Result<Ab, ConfigError> {
        for config in [&a, &b] {
            let refused = [
                (config.multi_run.is_many(), "several runs", "blocks are repeated anyway"),
                (config.schedule.shard.is_some(), "--shard", "both servers need the same client"),
                (
                    config.schedule.start_at.is_some(),
                    "--start-at",
                    "each block starts after the other",
                ),
                (config.dry_run.is_some(), "--dry-run", "use it with aiperf profile"),
                (
                    !config.judge.gates.is_empty(),
                    "--gate",
                    "give it before -- for a limit on differences",
                ),
                (
                    !config.judge.stop_when.is_empty(),
                    "--stop-when",
                    "the comparison ends once it is told",
                ),
            ];
            if let Some((_, what, why)) = refused.into_iter().find(|(is_given, ..)| *is_given) {
                let why = format!("{what} cannot be combined with aiperf ab: {why}; remove it");
                return Err(ConfigError::flag("aiperf ab", why));
            }
        }
        let plan = self.comparing.plan(1);
        for config in [&mut a, &mut b] {
            config.metrics.add_percentiles(plan.percentiles().iter().copied());
        }
        let side = |config, start| AbSide { config: Box::new(config), start };
        let sides = [side(a, self.start_a), side(b, self.start_b)];
        let page = self.page.html.or_else(|| sides[0].config.page.clone());
        Ok(Ab { sides, pairs: self.pairs, comparing: self.comparing, page })
    }
}
