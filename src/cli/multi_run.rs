//! The flags for repeated runs of one load, and for the search for a load.

use clap::{ArgGroup, Args};

use super::given::Given;
use super::profile::ProfileArgs;
use super::sweep::{self, CellOf};
use super::value::{
    above_zero, choice, concurrency, millis_above_zero, positive, rate, seconds, share,
};
use crate::artifacts::ExportLevel;
use crate::config::ConfigError;
use crate::metrics::metric::{Kind, Objective, Statistic};
use crate::metrics::objective::find;
use crate::metrics::{MetricTag, Registry, parse_objectives, tag};
use crate::multi_run::convergence::{self, Mode};
use crate::multi_run::{Config, Dimension, Range, search};
use crate::units::Nanos;

/// Maximum number of runs of one load; further runs would take time and add hardly any certainty.
const MAX_RUNS: u64 = 10;

/// The seed that all runs share if none is given.
const COMMON_SEED: u64 = 42;

/// Default bounds of a search, as in AIPerf.
const BOUNDS: (f64, f64) = (1.0, 1000.0);

/// Default fraction of good requests that a load must reach, as in AIPerf.
const ATTAINMENT: f64 = 0.95;

/// AIPerf's recipes that are not supported.
const OTHER_RECIPES: [&str; 7] = [
    "max-throughput-ttft-sla",
    "max-throughput-itl-sla",
    "max-concurrency-under-sla",
    "concurrency-ramp",
    "prefill-ttft-curve",
    "decode-itl-curve",
    "pareto-sweep",
];

/// How often to run a load, and which load to search for.
#[derive(Args)]
#[command(next_help_heading = "Multi-Run",
          groups = [ArgGroup::new("objective").multiple(true), ArgGroup::new("of_many_runs").multiple(true)])]
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
    /// Use the same seed in each of several runs, 42 unless --random-seed is given (the default)
    #[arg(long, overrides_with = "no_set_consistent_seed", group = "of_many_runs")]
    pub(super) set_consistent_seed: bool,
    /// Use a different random seed in each of several runs, unless --random-seed is given
    #[arg(long, overrides_with = "set_consistent_seed", group = "of_many_runs")]
    pub(super) no_set_consistent_seed: bool,
    /// Derive a different seed for each of several runs from the common seed
    #[arg(long, overrides_with = "no_vary_seed_per_trial", group = "of_many_runs")]
    pub(super) vary_seed_per_trial: bool,
    /// Use the common seed unchanged in each of several runs (the default)
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
    /// Search for the best load, with at least one run for each load tried: max-goodput-under-slo
    /// finds the concurrency or request rate with the most good requests per second; requires
    /// --goodput or one of the --*-sla-ms flags
    #[arg(long, value_name = "RECIPE", value_parser = recipe, requires = "objective",
          group = "chooses_loads")]
    pub(super) search_recipe: Option<&'static str>,
    /// Fraction of requests that must be good for a load to qualify in a search, above 0 and at most
    /// 1 [default: 0.95]
    #[arg(long, value_name = "RATIO", value_parser = share, requires = "search_recipe")]
    pub(super) slo_attainment_fraction: Option<f64>,
    /// Lowest concurrency that a search or --sweep-auto tries [default: 1]
    #[arg(long, value_name = "COUNT", value_parser = concurrency, requires = "chooses_loads")]
    pub(super) concurrency_min: Option<u64>,
    /// Highest concurrency that a search or --sweep-auto tries [default: 1000]
    #[arg(long, value_name = "COUNT", value_parser = concurrency, requires = "chooses_loads")]
    pub(super) concurrency_max: Option<u64>,
    /// Lowest request rate that a search or --sweep-auto tries; varies the rate instead of the
    /// concurrency [default: 1]
    #[arg(long, value_name = "RATE", value_parser = rate, requires = "chooses_loads",
          conflicts_with_all = ["concurrency_min", "concurrency_max"], group = "rate")]
    pub(super) request_rate_min: Option<f64>,
    /// Highest request rate that a search or --sweep-auto tries; varies the rate instead of the
    /// concurrency [default: 1000]
    #[arg(long, value_name = "RATE", value_parser = rate, requires = "chooses_loads",
          conflicts_with_all = ["concurrency_min", "concurrency_max"], group = "rate")]
    pub(super) request_rate_max: Option<f64>,
    /// Objective of a search for the time to first token, in milliseconds
    #[arg(long, value_name = "MS", value_parser = millis_above_zero, requires = "search_recipe", group = "objective")]
    pub(super) ttft_sla_ms: Option<f64>,
    /// Objective of a search for the inter token latency, in milliseconds
    #[arg(long, visible_alias = "itl-sla-ms", value_name = "MS", value_parser = millis_above_zero,
          requires = "search_recipe", group = "objective")]
    pub(super) tpot_sla_ms: Option<f64>,
    /// Objective of a search for the request latency, in milliseconds
    #[arg(long, value_name = "MS", value_parser = millis_above_zero, requires = "search_recipe", group = "objective")]
    pub(super) e2e_sla_ms: Option<f64>,
}

impl MultiRunArgs {
    /// The dimension that a search varies.
    const fn dimension(&self) -> Dimension {
        if self.request_rate_min.is_some() || self.request_rate_max.is_some() {
            Dimension::RequestRate
        } else {
            Dimension::Concurrency
        }
    }

    /// The first rate that is tried if the rate is varied.
    pub(super) fn first_rate(&self) -> Option<f64> {
        let is_searched = self.dimension() == Dimension::RequestRate;
        is_searched.then(|| self.request_rate_min.unwrap_or(BOUNDS.0))
    }
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

fn recipe(text: &str) -> Result<&'static str, String> {
    let name = text.trim().to_ascii_lowercase().replace('_', "-");
    if name == search::RECIPE {
        return Ok(search::RECIPE);
    }
    if OTHER_RECIPES.contains(&name.as_str()) {
        return Err(format!(
            "an AIPerf recipe that aiperf does not support yet; use {}",
            search::RECIPE
        ));
    }
    Err(format!("unknown recipe; expected {}", search::RECIPE))
}

/// The settings of `flags` for repeated runs and a search.
pub(super) fn config(
    flags: &ProfileArgs,
    given: Given<'_>,
    cell: Option<CellOf<'_>>,
) -> Result<Config, ConfigError> {
    let args = &flags.multi_run;
    let defaults = Config::default();
    let config = Config {
        runs: args.num_profile_runs,
        cooldown: args.profile_run_cooldown_seconds.map_or(Nanos::ZERO, Nanos::from_seconds),
        confidence_level: args.confidence_level.unwrap_or(defaults.confidence_level),
        repeats_warmup: args.no_profile_run_disable_warmup_after_first,
        varies_seed: args.vary_seed_per_trial,
        search: args.search_recipe.map(|_| search_config(flags)).transpose()?,
        convergence: args.convergence_metric.map(|metric| convergence(args, metric)).transpose()?,
        sweep: match cell {
            Some(_) if flags.sweep.sweep_auto => {
                let why = "cannot be combined with a list of values or --variant; remove one of the \
                           two";
                return Err(ConfigError::flag("--sweep-auto", why));
            }
            Some(cell) => Some(sweep::config(flags, cell.parameters)),
            None if flags.sweep.sweep_auto => Some(sweep::auto(flags, range(flags)?)?),
            None => None,
        },
    };
    match &config.sweep {
        None => {
            let why =
                "requires a sweep; add a list such as --concurrency 1,2,4, or remove the flag";
            given.refuse(&["of_sweep"], why)?;
        }
        Some(_) if config.search.is_some() => {
            let why =
                "cannot be combined with a list of values or --variant; remove one of the two";
            return Err(ConfigError::flag("--search-recipe", why));
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
    let statistic = args.convergence_stat.clone().unwrap_or_else(|| Statistic::AVG.name.to_owned());
    let has_it = Statistic::named(&statistic).zip(row).is_some_and(|(it, row)| row.has(it));
    let is_of_requests = row.is_some_and(|row| matches!(row.kind, Kind::Record(_)));
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
    found.ok_or_else(|| "unknown metric; aiperf metrics lists them".to_owned())
}

fn search_config(flags: &ProfileArgs) -> Result<search::Config, ConfigError> {
    let attainment = flags.multi_run.slo_attainment_fraction.unwrap_or(ATTAINMENT);
    Ok(search::Config { range: range(flags)?, attainment })
}

/// The loads that a search or `--sweep-auto` may choose.
fn range(flags: &ProfileArgs) -> Result<Range, ConfigError> {
    let (given, load, warmup) = (&flags.multi_run, &flags.load, &flags.warmup);
    let dimension = given.dimension();
    let varied = [
        ("--concurrency", Dimension::Concurrency, load.concurrency.is_some()),
        ("--request-rate", Dimension::RequestRate, load.request_rate.is_some()),
        ("--request-rate-series", Dimension::RequestRate, load.request_rate_series.is_some()),
    ];
    if let Some((flag, ..)) =
        varied.into_iter().find(|(_, of, is_given)| *of == dimension && *is_given)
    {
        let [min, max] = dimension.flags();
        let by = if flags.sweep.sweep_auto { "--sweep-auto" } else { "the search" };
        let why = format!("{by} sets it; use {min} and {max} instead");
        return Err(ConfigError::flag(flag, why));
    }
    let (min, max) = match dimension {
        Dimension::Concurrency => {
            let bound = |given: Option<u64>| given.map(|sessions| sessions as f64);
            (bound(given.concurrency_min), bound(given.concurrency_max))
        }
        Dimension::RequestRate => (given.request_rate_min, given.request_rate_max),
    };
    Ok(Range {
        dimension,
        min: min.unwrap_or(BOUNDS.0),
        max: max.unwrap_or(BOUNDS.1),
        warmup_follows: match dimension {
            Dimension::Concurrency => warmup.warmup_concurrency.is_none(),
            Dimension::RequestRate => {
                warmup.warmup_concurrency.is_none() && warmup.warmup_request_rate.is_none()
            }
        },
    })
}

/// The seed that all runs share, or all runs of `cell`.
pub(super) fn seed(flags: &ProfileArgs, config: &Config, cell: Option<CellOf<'_>>) -> Option<u64> {
    let is_common = config.is_many() && !flags.multi_run.no_set_consistent_seed;
    let seed = flags.input.random_seed.or_else(|| is_common.then_some(COMMON_SEED))?;
    let differs = config.sweep.as_ref().is_some_and(|sweep| !sweep.same_seed);
    let index = cell.filter(|_| differs).map_or(0, |cell| cell.index);
    Some(seed.wrapping_add(index))
}

/// The objectives of `--goodput` and of the search's own flags.
pub(super) fn objectives(flags: &ProfileArgs) -> Result<Vec<Objective>, ConfigError> {
    let mut objectives = parse_objectives(&flags.input.goodput.join(" "))
        .map_err(|error| ConfigError::flag("--goodput", error.to_string()))?;
    let given = &flags.multi_run;
    for (flag, tag, threshold) in [
        ("--ttft-sla-ms", tag::TIME_TO_FIRST_TOKEN, given.ttft_sla_ms),
        ("--tpot-sla-ms", tag::INTER_TOKEN_LATENCY, given.tpot_sla_ms),
        ("--e2e-sla-ms", tag::REQUEST_LATENCY, given.e2e_sla_ms),
    ] {
        let Some(threshold) = threshold else { continue };
        if objectives.iter().any(|objective| objective.tag == tag) {
            let why = format!("--goodput sets an objective for {tag} too; remove one of the two");
            return Err(ConfigError::flag(flag, why));
        }
        objectives.push(Objective { tag, threshold });
    }
    Ok(objectives)
}
