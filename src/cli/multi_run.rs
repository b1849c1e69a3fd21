//! The flags for repeated runs of one load.

use clap::{ArgGroup, Args};

use base::units::Nanos;
use measure::metrics::metric::{MetricKind, Objective, Statistic};
use measure::metrics::objective::find;
use measure::metrics::{MetricTag, Registry};
use measure::multi_run::Config;
use measure::multi_run::convergence::{self, Mode};
use results::artifacts::ExportLevel;

use super::given::Given;
use super::profile::ProfileArgs;
use super::search::{self, Searched};
use super::sweep::{self, CellOf};
use super::value::{above_zero, choice, positive, seconds};
use crate::config::ConfigError;

/// Maximum number of runs of one load; further runs would take time and add hardly any certainty.
const MAX_RUNS: u64 = 10;

/// The seed that all runs share if none is given.
const COMMON_SEED: u64 = 42;

/// How often to run a load.
#[derive(Args)]
#[command(next_help_heading = "Multi-Run",
          group = ArgGroup::new("of_many_runs").multiple(true))]
pub(super) struct MultiRunArgs {
    /// Number of runs of the same load, from 1 to 10; several runs are also aggregated
    #[arg(long, value_name = "COUNT", value_parser = runs, default_value = "1")]
    pub(super) num_profile_runs: u64,
    /// Pause between runs, in seconds [default: 0]
    #[arg(long, value_name = "SECONDS", value_parser = seconds, group = "of_many_runs")]
    pub(super) profile_run_cooldown_seconds: Option<f64>,
    /// Confidence level of the intervals for the mean over several runs, between 0 and 1
    /// [default: 0.95]
    #[arg(long, value_name = "LEVEL", value_parser = level, group = "of_many_runs")]
    pub(super) confidence_level: Option<f64>,
    /// Run the warmup only before the first of several runs (the default)
    #[arg(
        long,
        overrides_with = "no_profile_run_disable_warmup_after_first",
        group = "of_many_runs"
    )]
    pub(super) profile_run_disable_warmup_after_first: bool,
    /// Run the warmup before each of several runs
    #[arg(long, overrides_with = "profile_run_disable_warmup_after_first", group = "of_many_runs")]
    pub(super) no_profile_run_disable_warmup_after_first: bool,
    /// Send the same prompts at the same times in each of several runs: use the same seed in each, 42
    /// unless --random-seed is given
    #[arg(long, overrides_with = "no_set_consistent_seed", group = "of_many_runs")]
    pub(super) set_consistent_seed: bool,
    /// Send new prompts at new times in each of several runs (the default)
    #[arg(long, overrides_with = "set_consistent_seed", group = "of_many_runs")]
    pub(super) no_set_consistent_seed: bool,
    /// Derive a different seed for each of several runs from the common one, 42 unless --random-seed
    /// is given
    #[arg(long, overrides_with = "no_vary_seed_per_trial", group = "of_many_runs")]
    pub(super) vary_seed_per_trial: bool,
    /// Use the common seed unchanged in each of several runs, like --set-consistent-seed
    #[arg(long, overrides_with = "vary_seed_per_trial")]
    pub(super) no_vary_seed_per_trial: bool,
    /// Metric that decides whether the runs of a load are enough before their number reaches
    /// --num-profile-runs, which must be at least 3
    #[arg(long, value_name = "METRIC", value_parser = metric, group = "of_many_runs")]
    pub(super) convergence_metric: Option<MetricTag>,
    /// Statistic of the metric that decides, such as avg or p99 [default: avg]
    #[arg(long, value_name = "STATISTIC", requires = "convergence_metric")]
    pub(super) convergence_stat: Option<String>,
    /// Condition under which the runs are enough: the confidence interval (ci-width) or the standard
    /// deviation (cv) is narrow relative to the mean, or the last run is distributed like those
    /// before it (distribution) [default: ci-width]
    #[arg(long, value_name = "MODE", value_parser = choice::<Mode>(), requires = "convergence_metric")]
    pub(super) convergence_mode: Option<Mode>,
    /// Relative width of the interval, relative deviation, or p-value of the test of Kolmogorov and
    /// Smirnov, between 0 and 1 [default: 0.1 for ci-width, 0.05 for cv and distribution]
    #[arg(long, value_name = "NUMBER", value_parser = level, requires = "convergence_metric")]
    pub(super) convergence_threshold: Option<f64>,
}

fn runs(text: &str) -> Result<u64, String> {
    match positive(text)? {
        count if count <= MAX_RUNS => Ok(count),
        _ => Err(format!("must be at most {MAX_RUNS}")),
    }
}

/// A fraction above 0 and below 1.
pub(super) fn level(text: &str) -> Result<f64, String> {
    match above_zero(text)? {
        level if level < 1.0 => Ok(level),
        _ => Err("must be below 1, such as 0.95".to_owned()),
    }
}

/// The settings of `flags` for several runs, whose requests have these `objectives`.
pub(super) fn config(
    flags: &ProfileArgs,
    objectives: &[Objective],
    given: Given<'_>,
    cell: Option<CellOf<'_>>,
) -> Result<Config, ConfigError> {
    let (args, search) = (&flags.multi_run, &flags.search);
    let searched = Searched {
        search,
        is_auto: flags.sweep.sweep_auto,
        load: &flags.load,
        warmup: &flags.warmup,
        is_streaming: flags.endpoint.streaming,
        objectives,
    };
    let defaults = Config::default();
    let config = Config {
        runs: args.num_profile_runs,
        cooldown: args.profile_run_cooldown_seconds.map_or(Nanos::ZERO, Nanos::from_seconds),
        confidence_level: args.confidence_level.unwrap_or(defaults.confidence_level),
        repeats_warmup: args.no_profile_run_disable_warmup_after_first,
        varies_seed: !has_consistent_seed(args),
        convergence: args.convergence_metric.map(|metric| convergence(args, metric)).transpose()?,
        sweep: match cell {
            Some(CellOf { chosen: Some(chosen), .. }) => Some(chosen.clone()),
            Some(_) if flags.sweep.sweep_auto || search::chooses(search) => {
                let flag = match (flags.sweep.sweep_auto, search.search_recipe) {
                    (true, _) => "--sweep-auto",
                    (false, Some(_)) => "--search-recipe",
                    (false, None) => "--search-space",
                };
                let why =
                    "cannot be combined with a list of values or --variant; remove one of the two";
                return Err(ConfigError::flag(flag, why));
            }
            Some(CellOf { parameters, is_scenario, .. }) => {
                Some(sweep::config(&flags.sweep, search, parameters, is_scenario)?)
            }
            None => {
                let choice = search::choice(searched)?;
                choice.map(|choice| sweep::chosen(&flags.sweep, search, choice)).transpose()?
            }
        },
    };
    search::check(searched, given)?;
    match &config.sweep {
        None => {
            let why =
                "requires a sweep; add a list such as --concurrency 1,2,4, or remove the flag";
            given.refuse(&["of_sweep"], why)?;
        }
        Some(sweep) if sweep.resumes && flags.output.export_level == ExportLevel::Summary => {
            let why =
                "requires the records of the finished runs; use --export-level records or raw";
            return Err(ConfigError::flag("--resume", why));
        }
        Some(_) => {}
    }
    if !config.is_many() {
        let why = "requires --num-profile-runs 2 or more; add it, or remove the flag";
        given.refuse(&["of_many_runs"], why)?;
    }
    Ok(config)
}

/// The condition under which the runs of a load are enough.
fn convergence(args: &MultiRunArgs, metric: MetricTag) -> Result<convergence::Config, ConfigError> {
    let mode = args.convergence_mode.unwrap_or_default();
    let row = Registry::row(metric);
    let given = args.convergence_stat.as_ref().map(|name| name.to_ascii_lowercase());
    let statistic = given.unwrap_or_else(|| Statistic::Avg.to_string());
    let has_it = Statistic::named(&statistic).zip(row).is_some_and(|(it, row)| row.has(it));
    let is_of_requests = row.is_some_and(|row| matches!(row.kind, MetricKind::Record(_)));
    let (flag, why) = match mode {
        Mode::Distribution if args.convergence_stat.is_some() => (
            "--convergence-stat",
            "distribution compares all values and not a statistic; remove the flag".to_owned(),
        ),
        Mode::Distribution if !is_of_requests => (
            "--convergence-metric",
            format!(
                "distribution requires a metric with one value per request, which {metric} is not"
            ),
        ),
        Mode::CiWidth | Mode::Cv if !has_it => {
            ("--convergence-stat", format!("{metric} does not have {statistic:?}"))
        }
        _ if (2..convergence::MIN_RUNS).contains(&args.num_profile_runs) => (
            "--convergence-metric",
            format!("requires --num-profile-runs {} or more", convergence::MIN_RUNS),
        ),
        _ => {
            let threshold = args.convergence_threshold.unwrap_or(mode.default_threshold());
            return Ok(convergence::Config { metric, statistic, mode, threshold });
        }
    };
    Err(ConfigError::flag(flag, why))
}

/// The metric with this tag or abbreviation.
fn metric(name: &str) -> Result<MetricTag, String> {
    let found = find(name.trim()).map(|metric| metric.tag);
    found.ok_or_else(|| "unknown metric; `aiperf list metrics` lists them".to_owned())
}

/// Whether all runs of a load have the same seed.
const fn has_consistent_seed(args: &MultiRunArgs) -> bool {
    (args.set_consistent_seed || args.no_vary_seed_per_trial) && !args.vary_seed_per_trial
}

/// The seed that all runs have, or all runs of `cell`, or from which those of all runs are derived: the one
/// `given` by `--random-seed`, or else the same one always if a flag asks for that.
pub(super) fn seed(
    given: Option<u64>,
    flags: &MultiRunArgs,
    config: &Config,
    cell: Option<CellOf<'_>>,
) -> Option<u64> {
    let is_common = config.is_many() && (has_consistent_seed(flags) || flags.vary_seed_per_trial);
    let seed = given.or_else(|| is_common.then_some(COMMON_SEED))?;
    let index = cell.filter(|_| config.has_seed_by_cell()).map_or(0, |cell| cell.index);
    Some(seed.wrapping_add(index))
}
