//! The flags for searches, and for the ready-made searches and sweeps of `--search-recipe`.

use clap::{ArgAction, ArgGroup, Args};

use base::setting::{Named as _, named};
use measure::metrics::metric::{MetricFlags, Objective};
use measure::metrics::{MetricTag, Registry, parse_objectives, tag};
use measure::multi_run::curve::Evaluation;
use measure::multi_run::filter::{Comparison, statistic_of};
use measure::multi_run::recipe::{ATTAINMENT, BOUNDS, Recipe, Series};
use measure::multi_run::search::Config;
use measure::multi_run::space::Direction;
use measure::multi_run::sweep::{Choice, Parameter};
use measure::multi_run::{Dimension, Filter, Range, space};

use super::given::Given;
use super::load_args::{LoadArgs, WarmupArgs};
use super::sweep::{MAX_CELLS, parameter, swept};
use super::value::{
    self, above_zero, concurrency, count, millis_above_zero, number, positive, rate, share,
};
use crate::config::ConfigError;
use crate::config::aiperf::{Number, Varied};

/// AIPerf's values of `--search-style` that are not supported.
const OTHER_STYLES: [&str; 2] = ["smooth-isotonic", "optuna"];

/// How `max-concurrency-under-sla` looks for the highest load.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) enum Style {
    /// Doubling, then bisection.
    #[default]
    Monotonic,
    /// A sweep over fixed concurrencies.
    Grid,
    /// AIPerf's Bayesian optimization; here the same as monotonic.
    Bo,
}

named! { Style { "monotonic" => Monotonic, "grid" => Grid, "bo" => Bo } }

/// The warning for a style that stands for another one.
pub(super) fn warning(flags: &SearchArgs) -> Option<String> {
    let asked = flags.search_style?;
    (asked == Style::Bo).then(|| {
        "--search-style bo: aiperf finds the highest concurrency by doubling and bisection \
         (monotonic), which needs fewer runs for a single load"
            .to_owned()
    })
}

/// What to look for, and where.
#[derive(Args)]
#[command(next_help_heading = "Search",
          groups = ["varies_loads", "of_highest", "of_goodput", "of_concurrencies", "of_steps",
                    "of_rates", "of_isl", "of_osl", "of_degradation"]
              .map(|group| ArgGroup::new(group).multiple(true)))]
pub(super) struct SearchArgs {
    /// Ready-made search for a load, or sweep
    #[arg(long, value_name = "RECIPE", value_parser = value::choice::<Recipe>(), group = "varies_loads")]
    pub(super) search_recipe: Option<Recipe>,
    /// How max-concurrency-under-sla finds the highest load: doubling and bisection (monotonic), or
    /// a sweep over fixed concurrencies (grid) [default: monotonic]
    #[arg(long, value_name = "STYLE", value_parser = style, requires = "search_recipe",
          group = "of_highest")]
    pub(super) search_style: Option<Style>,
    /// Setting to vary in a search for the best values, as PATH:LOWER,UPPER with :int or :real, such
    /// as concurrency:1,64; may be repeated for several settings
    #[arg(long, value_name = "RANGE", value_parser = variable, action = ArgAction::Append,
          requires = "search_metric", conflicts_with_all = ["search_recipe", "sweep_auto"])]
    pub(super) search_space: Vec<Variable>,
    /// Metric to optimize with --search-space; may be repeated for several
    #[arg(long, value_name = "METRIC", requires = "search_space", action = ArgAction::Append)]
    pub(super) search_metric: Vec<String>,
    /// Statistic of the metric to optimize; once, or once for each metric [default: avg]
    #[arg(long, value_name = "STATISTIC", requires = "search_space", action = ArgAction::Append)]
    pub(super) search_stat: Vec<String>,
    /// Whether the largest or the smallest value of the metric is the best; once, or once for each
    /// metric [default: by the metric]
    #[arg(long, value_name = "DIRECTION", value_parser = value::choice::<Direction>(),
          requires = "search_space", action = ArgAction::Append)]
    pub(super) search_direction: Vec<Direction>,
    /// Number of combinations that a search over --search-space tries, from 2 to 200 [default: 30]
    #[arg(long, value_name = "COUNT", value_parser = iterations, requires = "search_space")]
    pub(super) search_max_iterations: Option<u64>,
    /// Number of these that are spread evenly before the others are chosen from their results
    /// [default: 5]
    #[arg(long, value_name = "COUNT", value_parser = positive, requires = "search_space")]
    pub(super) search_initial_points: Option<u64>,
    /// Seed of the choice of combinations [default: 42]
    #[arg(long, value_name = "SEED", value_parser = count, requires = "search_space")]
    pub(super) search_random_seed: Option<u64>,
    /// How combinations are chosen [default: bayesian]
    #[arg(long, value_name = "PLANNER", value_parser = planner, requires = "search_space")]
    pub(super) search_planner: Option<&'static str>,
    /// Condition that a load must meet, such as 'ttft:p95<=200ms', or ttft:p95:le:200 as in AIPerf; may
    /// be repeated
    #[arg(long, value_name = "CONDITION", value_parser = Filter::parse, action = ArgAction::Append,
          group = "of_sweep")]
    pub(super) search_sla: Vec<Filter>,
    /// Limit of the fraction of requests that fail, below which a load must stay
    #[arg(long, value_name = "RATIO", value_parser = share, group = "of_sweep")]
    pub(super) error_rate_sla: Option<f64>,
    /// Limit of the time to first token, in milliseconds: of each request with
    /// max-goodput-under-slo, otherwise of its p95
    #[arg(long, value_name = "MS", value_parser = millis_above_zero, requires = "search_recipe")]
    pub(super) ttft_sla_ms: Option<f64>,
    /// Limit of the inter token latency, in milliseconds: of each request with
    /// max-goodput-under-slo, otherwise of its p95
    #[arg(long, visible_alias = "itl-sla-ms", value_name = "MS", value_parser = millis_above_zero,
          requires = "search_recipe")]
    pub(super) tpot_sla_ms: Option<f64>,
    /// Limit of the request latency, in milliseconds: of each request with max-goodput-under-slo,
    /// otherwise of its p99
    #[arg(long, value_name = "MS", value_parser = millis_above_zero, requires = "search_recipe")]
    pub(super) e2e_sla_ms: Option<f64>,
    /// Fraction of requests that must be good for a load to qualify with max-goodput-under-slo, above
    /// 0 and at most 1 [default: 0.95]
    #[arg(long, value_name = "RATIO", value_parser = share, requires = "search_recipe",
          group = "of_goodput")]
    pub(super) slo_attainment_fraction: Option<f64>,
    /// Lowest concurrency that a search, a recipe or --sweep-auto tries [default: 1]
    #[arg(long, value_name = "COUNT", value_parser = concurrency, requires = "varies_loads",
          group = "of_concurrencies")]
    pub(super) concurrency_min: Option<u64>,
    /// Highest concurrency that a search, a recipe or --sweep-auto tries [default: 1000, or 200 with
    /// decode-itl-curve]
    #[arg(long, value_name = "COUNT", value_parser = concurrency, requires = "varies_loads",
          group = "of_concurrencies")]
    pub(super) concurrency_max: Option<u64>,
    /// Number of concurrencies that a recipe with fixed ones tries [default: 8, or 6 with
    /// decode-itl-curve]
    #[arg(long, value_name = "COUNT", value_parser = steps, requires = "search_recipe",
          group = "of_steps")]
    pub(super) concurrency_steps: Option<u64>,
    /// Lowest request rate that a search or --sweep-auto tries; varies the rate instead of the
    /// concurrency [default: 1]
    #[arg(long, value_name = "RATE", value_parser = rate, requires = "varies_loads",
          conflicts_with_all = ["concurrency_min", "concurrency_max"], groups = ["of_rates", "rate"])]
    pub(super) request_rate_min: Option<f64>,
    /// Highest request rate that a search or --sweep-auto tries; varies the rate instead of the
    /// concurrency [default: 1000]
    #[arg(long, value_name = "RATE", value_parser = rate, requires = "varies_loads",
          conflicts_with_all = ["concurrency_min", "concurrency_max"], groups = ["of_rates", "rate"])]
    pub(super) request_rate_max: Option<f64>,
    /// Shortest input of prefill-ttft-curve, in tokens [default: 256]
    #[arg(long, value_name = "TOKENS", value_parser = positive, requires = "search_recipe", group = "of_isl")]
    pub(super) isl_min: Option<u64>,
    /// Longest input of prefill-ttft-curve, in tokens [default: 32768]
    #[arg(long, value_name = "TOKENS", value_parser = positive, requires = "search_recipe", group = "of_isl")]
    pub(super) isl_max: Option<u64>,
    /// Number of input lengths of prefill-ttft-curve [default: 8]
    #[arg(long, value_name = "COUNT", value_parser = steps, requires = "search_recipe", group = "of_isl")]
    pub(super) isl_steps: Option<u64>,
    /// Shortest output of decode-itl-curve, in tokens [default: 64]
    #[arg(long, value_name = "TOKENS", value_parser = positive, requires = "search_recipe", group = "of_osl")]
    pub(super) osl_min: Option<u64>,
    /// Longest output of decode-itl-curve, in tokens [default: 1024]
    #[arg(long, value_name = "TOKENS", value_parser = positive, requires = "search_recipe", group = "of_osl")]
    pub(super) osl_max: Option<u64>,
    /// Number of output lengths of decode-itl-curve [default: 4]
    #[arg(long, value_name = "COUNT", value_parser = steps, requires = "search_recipe", group = "of_osl")]
    pub(super) osl_steps: Option<u64>,
    /// Increase over the first concurrency from which concurrency-ramp calls a statistic degraded,
    /// as a fraction [default: 0.2]
    #[arg(long, value_name = "RATIO", value_parser = above_zero, requires = "search_recipe",
          group = "of_degradation")]
    pub(super) degradation_threshold: Option<f64>,
    /// Metric that concurrency-ramp evaluates [default: latency]
    #[arg(long, value_name = "METRIC", requires = "search_recipe", group = "of_degradation")]
    pub(super) degradation_metric_tag: Option<String>,
    /// Statistic of the metric that concurrency-ramp evaluates [default: p99, or avg if the metric
    /// has only one value]
    #[arg(long, value_name = "STATISTIC", requires = "search_recipe", group = "of_degradation")]
    pub(super) degradation_stat: Option<String>,
}

impl SearchArgs {
    /// The dimension that is varied.
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

/// A setting to vary.
#[derive(Debug, Clone)]
pub(super) struct Variable {
    pub(super) flag: &'static str,
    pub(super) parameter: Parameter,
    pub(super) range: space::Range,
}

/// Parses `PATH:LO,HI[:int|real]`.
pub(super) fn variable(text: &str) -> Result<Variable, String> {
    let wrong = || "expected PATH:LOWER,UPPER, such as concurrency:1,64 or request-rate:1,20:real";
    let parts: Vec<&str> = text.split(':').map(str::trim).collect();
    let (name, bounds, kind) = match parts[..] {
        [name, bounds] => (name, bounds, None),
        [name, bounds, kind] => (name, bounds, Some(kind)),
        _ => return Err(wrong().to_owned()),
    };
    let Varied { flag, path, number: kind_of_value } = swept(name)?;
    let takes_whole = *kind_of_value == Number::Whole;
    let is_whole = match kind {
        None => takes_whole,
        Some("int") => true,
        Some("real") if !takes_whole => false,
        Some("real") => return Err(format!("{name} is a whole number; use :int")),
        Some(other) => return Err(format!("unknown kind {other:?}; use int or real")),
    };
    let (lo, hi) = bounds.split_once(',').ok_or_else(|| wrong().to_owned())?;
    let bound = |text: &str| if is_whole { count(text).map(|it| it as f64) } else { number(text) };
    let (lo, hi) = (bound(lo)?, bound(hi)?);
    if lo >= hi {
        return Err(format!("the lower bound {lo} must be less than the upper bound {hi}"));
    }
    let range = space::Range { lo, hi, is_whole };
    Ok(Variable { flag, parameter: parameter(flag, path), range })
}

fn planner(text: &str) -> Result<&'static str, String> {
    match text.trim().to_ascii_lowercase().replace('_', "-").as_str() {
        "bayesian" => Ok("bayesian"),
        "monotonic-sla" | "smooth-isotonic" => {
            Err("use --search-recipe max-concurrency-under-sla to find the highest load".to_owned())
        }
        _ => Err("bayesian is the only supported value".to_owned()),
    }
}

/// A number of combinations.
fn iterations(text: &str) -> Result<u64, String> {
    match count(text)? {
        number if (2..=200).contains(&number) => Ok(number),
        _ => Err("must be from 2 to 200".to_owned()),
    }
}

fn style(text: &str) -> Result<Style, String> {
    if let Some(style) = Style::named(text) {
        return Ok(style);
    }
    let name = text.trim().to_ascii_lowercase().replace('_', "-");
    Err(if OTHER_STYLES.contains(&name.as_str()) {
        "an AIPerf style that aiperf does not support; use monotonic, which bisects, or grid"
            .to_owned()
    } else {
        "expected monotonic or grid".to_owned()
    })
}

/// A number of values of a recipe's list.
fn steps(text: &str) -> Result<u64, String> {
    match count(text)? {
        steps if (2..=MAX_CELLS as u64).contains(&steps) => Ok(steps),
        _ => Err(format!("must be from 2 to {MAX_CELLS}")),
    }
}

/// The lists of the recipe that the arguments name, each with its flag. `given` returns the value
/// of a flag; `has_pairs` is whether there are pairs of lengths.
pub(super) fn lists(
    has_pairs: bool,
    given: impl Fn(&str) -> Option<String>,
) -> Result<Vec<(&'static str, Vec<u64>)>, ConfigError> {
    // What cannot be parsed is an error of its flag, which is parsed once more with its cell.
    let recipe = given("search-recipe").and_then(|name| Recipe::named(&name));
    let is_grid = given("search-style").and_then(|name| Style::named(&name)) == Some(Style::Grid);
    let list = |series: &Series| {
        let flag = |end: &str| format!("{}-{end}", series.flag);
        let number = |end: &str, parse: fn(&str) -> Result<u64, String>| {
            given(&flag(end)).and_then(|text| parse(&text).ok())
        };
        let min = number("min", positive).unwrap_or(series.min);
        let max = number("max", positive).unwrap_or(series.max);
        if min >= max {
            let why = format!("must be less than --{} ({max}), got {min}", flag("max"));
            return Err(ConfigError::flag(format!("--{}", flag("min")), why));
        }
        let steps = number("steps", steps).unwrap_or(series.steps);
        Ok((series.flag, Series { min, max, steps, ..*series }.values()))
    };
    match recipe {
        Some(Recipe::ParetoSweep) if !has_pairs => {
            let why = "pareto-sweep requires --isl-osl-pairs";
            Err(ConfigError::flag("--search-recipe", why))
        }
        Some(recipe) if is_grid || !recipe.is_search() => {
            recipe.sweeps().iter().map(list).collect()
        }
        _ => Ok(Vec::new()),
    }
}

/// Whether the flags ask for a search, which chooses its loads.
pub(super) fn chooses(flags: &SearchArgs) -> bool {
    let is_grid =
        |recipe| recipe == Recipe::MaxConcurrency && flags.search_style == Some(Style::Grid);
    let is_search = |recipe: Recipe| recipe.is_search() && !is_grid(recipe);
    !flags.search_space.is_empty() || flags.search_recipe.is_some_and(is_search)
}

/// The flags that a search depends on.
#[derive(Clone, Copy)]
pub(super) struct Searched<'a> {
    pub(super) search: &'a SearchArgs,
    /// Whether the loads of a sweep are chosen (`--sweep-auto`).
    pub(super) is_auto: bool,
    pub(super) load: &'a LoadArgs,
    pub(super) warmup: &'a WarmupArgs,
    pub(super) is_streaming: bool,
    /// The objectives of a request.
    pub(super) objectives: &'a [Objective],
}

/// How the loads are chosen, if they are not known before the first run.
pub(super) fn choice(flags: Searched<'_>) -> Result<Option<Choice>, ConfigError> {
    match flags.search.search_recipe.filter(|_| chooses(flags.search)) {
        Some(recipe) => Ok(Some(Choice::Search(Config {
            recipe,
            range: range(flags)?,
            objective: recipe.objective(),
            slos: flags.objectives.to_vec(),
        }))),
        None if !flags.search.search_space.is_empty() => combinations(flags).map(Some),
        None if flags.is_auto => Ok(Some(Choice::Knee(range(flags)?))),
        None => Ok(None),
    }
}

/// The search for the best combination of values.
fn combinations(flags: Searched<'_>) -> Result<Choice, ConfigError> {
    let given = flags.search;
    let names = &given.search_metric;
    let refuse = |flag: &str, why: String| Err(ConfigError::flag(flag, why));
    for (flag, number) in [
        ("--search-stat", given.search_stat.len()),
        ("--search-direction", given.search_direction.len()),
    ] {
        if number > 1 && number != names.len() {
            return refuse(flag, "must be given once, or once for each --search-metric".to_owned());
        }
    }
    let mut objectives: Vec<space::Objective> = Vec::new();
    for (at, name) in names.iter().enumerate() {
        let statistic = given.search_stat.get(at).or_else(|| given.search_stat.first());
        let statistic = statistic.map_or("avg", String::as_str).trim().to_ascii_lowercase();
        let metric = statistic_of(name, &statistic)
            .map_err(|why| ConfigError::flag("--search-metric", why))?;
        if metric.flags.contains(MetricFlags::GOODPUT) && flags.objectives.is_empty() {
            return refuse("--search-metric", format!("{} requires --goodput", metric.tag));
        }
        let by_metric = if metric.flags.contains(MetricFlags::LARGER_IS_BETTER) {
            Direction::Maximize
        } else {
            Direction::Minimize
        };
        let direction = given.search_direction.get(at).or_else(|| given.search_direction.first());
        let direction = direction.copied().unwrap_or(by_metric);
        objectives.push(space::Objective { metric: metric.tag, statistic, direction });
    }
    check_streaming(flags.is_streaming, "--search-metric", objectives.iter().map(|it| it.metric))?;
    let variables = &given.search_space;
    for (at, variable) in variables.iter().enumerate() {
        if variables[..at].iter().any(|other| other.flag == variable.flag) {
            return refuse("--search-space", format!("varies --{} twice", variable.flag));
        }
    }
    let iterations = given.search_max_iterations.unwrap_or(30);
    let initial = given.search_initial_points.unwrap_or_else(|| 5.min(iterations - 1));
    if initial >= iterations {
        let why = format!("must be less than the number of combinations ({iterations})");
        return refuse("--search-initial-points", why);
    }
    Ok(Choice::Space(space::Config {
        ranges: variables.iter().map(|variable| variable.range).collect(),
        objectives,
        iterations: iterations as usize,
        initial: initial as usize,
        seed: given.search_random_seed.unwrap_or(42),
    }))
}

/// Checks what the recipe requires, and that it uses each flag that was given.
pub(super) fn check(flags: Searched<'_>, command_line: Given<'_>) -> Result<(), ConfigError> {
    let given = flags.search;
    let Some(recipe) = given.search_recipe else { return Ok(()) };
    let name = recipe.name();
    let has_sla = !filters(given).is_empty();
    let missing = match recipe {
        Recipe::MaxGoodput if flags.objectives.is_empty() => {
            Some("--goodput, --ttft-sla-ms, --tpot-sla-ms or --e2e-sla-ms")
        }
        Recipe::MaxThroughputTtft if given.ttft_sla_ms.is_none() => Some("--ttft-sla-ms"),
        Recipe::MaxThroughputItl if given.tpot_sla_ms.is_none() => Some("--itl-sla-ms"),
        Recipe::MaxConcurrency if !has_sla => {
            Some("--ttft-sla-ms, --itl-sla-ms, --e2e-sla-ms, --error-rate-sla or --search-sla")
        }
        _ => None,
    };
    if let Some(flags) = missing {
        return Err(ConfigError::flag("--search-recipe", format!("{name} requires {flags}")));
    }
    let is_grid = given.search_style == Some(Style::Grid);
    let used: &[&str] = match recipe {
        Recipe::MaxGoodput => &["of_concurrencies", "of_rates", "of_goodput"],
        Recipe::MaxThroughputTtft | Recipe::MaxThroughputItl => &["of_concurrencies", "of_rates"],
        Recipe::MaxConcurrency if is_grid => &["of_concurrencies", "of_steps", "of_highest"],
        Recipe::MaxConcurrency => &["of_concurrencies", "of_rates", "of_highest"],
        Recipe::ConcurrencyRamp => &["of_concurrencies", "of_steps", "of_degradation"],
        Recipe::PrefillCurve => &["of_isl"],
        Recipe::DecodeCurve => &["of_concurrencies", "of_steps", "of_osl"],
        Recipe::ParetoSweep => &[],
    };
    let groups = [
        "of_concurrencies",
        "of_rates",
        "of_goodput",
        "of_highest",
        "of_steps",
        "of_isl",
        "of_osl",
        "of_degradation",
    ];
    let unused: Vec<&str> = groups.into_iter().filter(|group| !used.contains(group)).collect();
    command_line.refuse(&unused, format!("{name} does not use it; remove the flag"))?;
    let evaluated = evaluation(given)?;
    let evaluated = evaluated.iter().filter_map(|it| Some(it.subject()?.0));
    let limited = filters(given).into_iter().map(|filter| filter.metric);
    check_streaming(flags.is_streaming, "--search-recipe", limited.chain(evaluated))
}

/// Returns an error if one of the `metrics` requires streaming, and there is none.
fn check_streaming(
    is_streaming: bool,
    flag: &str,
    mut metrics: impl Iterator<Item = MetricTag>,
) -> Result<(), ConfigError> {
    let is_streamed = |metric: MetricTag| {
        Registry::row(metric).is_some_and(|row| row.flags.contains(MetricFlags::STREAMING_ONLY))
    };
    match metrics.find(|metric| is_streamed(*metric)).filter(|_| !is_streaming) {
        Some(metric) => {
            let why = format!("{metric} requires --streaming; add it");
            Err(ConfigError::flag(flag, why))
        }
        None => Ok(()),
    }
}

/// The conditions that a cell must meet.
pub(super) fn filters(given: &SearchArgs) -> Vec<Filter> {
    let of_goodput = given.search_recipe == Some(Recipe::MaxGoodput);
    let attainment = given.slo_attainment_fraction.unwrap_or(ATTAINMENT);
    let good = of_goodput
        .then(|| Filter::new(tag::GOOD_REQUEST_FRACTION, "avg", Comparison::AtLeast, attainment));
    let below = |metric, statistic, limit: Option<f64>| {
        limit.map(|limit| Filter::new(metric, statistic, Comparison::Below, limit))
    };
    let of_run = [
        below(tag::TIME_TO_FIRST_TOKEN, "p95", given.ttft_sla_ms),
        below(tag::INTER_TOKEN_LATENCY, "p95", given.tpot_sla_ms),
        below(tag::REQUEST_LATENCY, "p99", given.e2e_sla_ms),
    ];
    let errors = below(tag::REQUEST_ERROR_RATE, "avg", given.error_rate_sla.map(|it| it * 100.0));
    let of_run = of_run.into_iter().flatten().filter(|_| !of_goodput);
    good.into_iter().chain(of_run).chain(errors).chain(given.search_sla.clone()).collect()
}

/// What the recipe computes from the cells of its sweep.
pub(super) fn evaluation(given: &SearchArgs) -> Result<Option<Evaluation>, ConfigError> {
    Ok(match given.search_recipe {
        Some(Recipe::ConcurrencyRamp) => {
            let name = given.degradation_metric_tag.as_deref().unwrap_or("latency");
            let has_p99 = statistic_of(name, "p99").is_ok();
            let default = if has_p99 { "p99" } else { "avg" };
            let statistic = given.degradation_stat.as_deref().unwrap_or(default);
            let statistic = statistic.trim().to_ascii_lowercase();
            let metric = statistic_of(name, &statistic)
                .map_err(|why| ConfigError::flag("--degradation-metric-tag", why))?;
            let threshold = given.degradation_threshold.unwrap_or(0.2);
            Some(Evaluation::Degradation { metric: metric.tag, statistic, threshold })
        }
        Some(Recipe::PrefillCurve) => Some(Evaluation::Prefill),
        Some(Recipe::DecodeCurve) => Some(Evaluation::Decode),
        Some(Recipe::ParetoSweep) => Some(Evaluation::Pareto),
        Some(Recipe::MaxConcurrency) if !chooses(given) => Some(Evaluation::Breach),
        _ => None,
    })
}

/// The loads that a search or `--sweep-auto` may choose.
fn range(flags: Searched<'_>) -> Result<Range, ConfigError> {
    let Searched { search: given, load, warmup, .. } = flags;
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
        let by = if flags.is_auto { "--sweep-auto" } else { "the search" };
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

/// The objectives of a request, of `--goodput` and of the flags of `max-goodput-under-slo`.
pub(super) fn objectives(
    goodput: &[String],
    given: &SearchArgs,
) -> Result<Vec<Objective>, ConfigError> {
    let mut objectives = parse_objectives(&goodput.join(" "))
        .map_err(|error| ConfigError::flag("--goodput", error.to_string()))?;
    let of_requests = [
        ("--ttft-sla-ms", tag::TIME_TO_FIRST_TOKEN, given.ttft_sla_ms),
        ("--tpot-sla-ms", tag::INTER_TOKEN_LATENCY, given.tpot_sla_ms),
        ("--e2e-sla-ms", tag::REQUEST_LATENCY, given.e2e_sla_ms),
    ];
    for (flag, tag, threshold) in of_requests {
        let is_of_requests = given.search_recipe == Some(Recipe::MaxGoodput);
        let Some(threshold) = threshold.filter(|_| is_of_requests) else { continue };
        if objectives.iter().any(|objective| objective.tag == tag) {
            let why = format!("--goodput sets an objective for {tag} too; remove one of the two");
            return Err(ConfigError::flag(flag, why));
        }
        objectives.push(Objective { tag, threshold });
    }
    Ok(objectives)
}
