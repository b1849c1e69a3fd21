//! Sweeps: a cell for each combination of settings, the order of their runs, and which cells are
//! the best.

use std::cmp::Ordering;

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};
use uuid::Uuid;

use base::setting::{Named as _, named};
use base::units::Nanos;

use super::aggregate::{self, DividedRow, Row};
use super::curve::Evaluation;
use super::evidence::Condition;
use super::history::History;
use super::knee::{Level, Saturation};
use super::limit::{self, Limit};
use super::{
    Dimension, Failure, Filter, Load, Range, RunResult, Trials, Variation, filter, search, space,
};
use crate::metrics::tag;
use crate::metrics::time_breakdown::{DIVIDED, Growth};
use crate::metrics::{MetricTag, Verdict};

/// Characters that are not part of a directory's name, as in AIPerf.
const DROPPED: &[char] = &['/', '\\', '<', '>', ':', '"', '|', '?', '*'];

/// The settings of a sweep.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Config {
    /// What is varied.
    pub parameters: Vec<Parameter>,
    /// Whether the cells are scenarios, whose labels are their names (`--variant`).
    #[serde(default)]
    pub has_scenarios: bool,
    /// Order of the runs (`--parameter-sweep-mode`).
    pub mode: Mode,
    /// Pause between cells (`--parameter-sweep-cooldown-seconds`).
    pub cooldown: Nanos,
    /// Whether all cells have the same seed (`--parameter-sweep-same-seed`).
    pub same_seed: bool,
    /// Time after which no further run starts (`--sweep-max-duration`).
    pub max_duration: Option<Nanos>,
    /// Whether the table of the cells is printed; off with `--no-sweep-table`.
    pub shows_table: bool,
    /// Whether an interrupted sweep is continued (`--resume`).
    pub resumes: bool,
    /// The conditions that a cell must meet (`--search-sla` and the like).
    #[serde(default)]
    pub filters: Vec<Filter>,
    /// How the cells are chosen.
    #[serde(default)]
    pub choice: Choice,
    /// What is computed from the cells in addition.
    #[serde(default)]
    pub evaluation: Option<Evaluation>,
}

/// How the cells of a sweep are chosen.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Choice {
    /// All are known before the first run.
    #[default]
    Known,
    /// Loads that approach the one at which throughput stops growing (`--sweep-auto`).
    Knee(Range),
    /// Loads that approach the best one that meets all conditions.
    Search(search::Config),
    /// Combinations that approach the best ones.
    Space(space::Config),
}

impl Choice {
    /// Returns whether the cells are chosen from the results of those before them.
    pub const fn is_open(&self) -> bool {
        !matches!(self, Self::Known)
    }

    /// Returns the loads among which the next one is chosen, if it is.
    pub const fn range(&self) -> Option<Range> {
        match self {
            Self::Known | Self::Space(_) => None,
            Self::Knee(range) => Some(*range),
            Self::Search(search) => Some(search.range),
        }
    }
}

/// Orders of the runs of a sweep.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Mode {
    /// For each trial, all cells.
    #[default]
    Repeated,
    /// For each cell, all trials.
    Independent,
}

named! { Mode { "repeated" => Repeated, "independent" => Independent } }

/// A setting that a sweep varies.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Parameter {
    /// Its flag, with underscores: `request_rate`.
    pub name: String,
    /// Its path in AIPerf's files: `phases.profiling.rate`.
    pub path: String,
}

impl Parameter {
    /// The last part of the path.
    fn leaf(&self) -> &str {
        self.path.rsplit('.').next().unwrap_or(&self.path)
    }
}

/// A run of a sweep: the indices of its cell, and of the run in the cell.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Step {
    pub cell: usize,
    pub trial: u64,
}

/// Returns the runs of `cells` cells with `trials` runs each, in order.
pub fn steps(mode: Mode, cells: usize, trials: u64) -> Box<dyn Iterator<Item = Step>> {
    match mode {
        Mode::Repeated => Box::new(
            (0..trials).flat_map(move |trial| (0..cells).map(move |cell| Step { cell, trial })),
        ),
        Mode::Independent => Box::new(
            (0..cells).flat_map(move |cell| (0..trials).map(move |trial| Step { cell, trial })),
        ),
    }
}

impl Config {
    /// Returns the settings of the search, if it is one.
    #[must_use]
    pub const fn search(&self) -> Option<&search::Config> {
        if let Choice::Search(search) = &self.choice { Some(search) } else { None }
    }

    /// Returns whether it is a search, whose cells have numbers for names.
    #[must_use]
    pub const fn is_search(&self) -> bool {
        matches!(self.choice, Choice::Search(_) | Choice::Space(_))
    }

    /// Returns whether the pause between these two runs is one between cells, not between trials.
    pub const fn is_between_cells(&self, last: Step, next: Step) -> bool {
        match self.mode {
            Mode::Repeated => last.trial == next.trial,
            Mode::Independent => last.cell != next.cell,
        }
    }

    /// Returns the end of the name of the default directory: `-sweep-concurrency-isl`.
    #[must_use]
    pub fn directory_suffix(&self) -> String {
        if let Some(search) = self.search() {
            return format!("-{}", search.recipe.name().replace('-', "_"));
        }
        let kind = if self.is_search() { "search" } else { "sweep" };
        let names: Vec<&str> = self.parameters.iter().map(|it| it.name.as_str()).collect();
        format!("-{kind}-{}", names.join("-"))
    }

    /// Returns the name of each parameter in AIPerf's files: the last part of its path, or the
    /// whole path if another parameter has the same last part.
    pub fn aiperf_names(&self) -> Vec<&str> {
        let is_unique = |parameter: &Parameter| {
            self.parameters.iter().filter(|other| other.leaf() == parameter.leaf()).count() == 1
        };
        let name =
            |parameter| if is_unique(parameter) { parameter.leaf() } else { &parameter.path };
        self.parameters.iter().map(name).collect()
    }

    /// Returns the cell with these `values`, one for each parameter.
    #[must_use]
    pub fn cell(&self, index: u64, values: &[Value]) -> Variation {
        let pairs = || self.parameters.iter().zip(values);
        let label: Vec<String> = pairs()
            .map(|(parameter, value)| format!("{}={}", parameter.path, plain(value)))
            .collect();
        let directory: Vec<String> = pairs()
            .map(|(parameter, value)| format!("{}_{}", self.short_name(parameter), plain(value)))
            .collect();
        Variation {
            label: label.join(", "),
            directory: file_name(&directory.join("__")),
            index,
            values: pairs().map(|(it, value)| (it.path.clone(), value.clone())).collect(),
        }
    }

    /// Returns the name of a cell that is a scenario.
    pub fn scenario<'a>(&self, cell: &'a Variation) -> Option<&'a str> {
        self.has_scenarios.then_some(&*cell.label)
    }

    /// Returns the settings of a cell in words, such as `concurrency 16, osl 64`; its name if it is a
    /// scenario or does not have all parameters.
    pub fn described(&self, cell: &Variation) -> String {
        self.joined(cell, |it, value| format!("{} {value}", it.name.replace('_', " ")))
    }

    /// Returns the values of these settings, such as `16, 64`.
    pub fn values_of(&self, cell: &Variation) -> String {
        self.joined(cell, |_, value| value)
    }

    fn joined(&self, cell: &Variation, text: impl Fn(&Parameter, String) -> String) -> String {
        if let Some(name) = self.scenario(cell) {
            return name.to_owned();
        }
        let part = |it: &Parameter| Some(text(it, plain(cell.values.get(&it.path)?)));
        let parts: Option<Vec<String>> = self.parameters.iter().map(part).collect();
        let parts = parts.filter(|parts| !parts.is_empty());
        parts.map_or_else(|| cell.directory.clone(), |parts| parts.join(", "))
    }

    /// Returns the index of the parameter by which cells are joined: the load, or else the only one. Scenarios
    /// differ in more.
    pub fn load_parameter(&self) -> Option<usize> {
        if self.has_scenarios {
            return None;
        }
        let paths = [Dimension::Concurrency, Dimension::RequestRate].map(Dimension::path);
        let load = self.parameters.iter().position(|it| paths.contains(&it.path.as_str()));
        load.or_else(|| (self.parameters.len() == 1).then_some(0))
    }

    /// Returns the last part of the parameter's path, or the part before it if another parameter
    /// has the same last part: `isl` and `osl`, which both have a `mean`.
    fn short_name<'a>(&self, parameter: &'a Parameter) -> &'a str {
        let leaf = parameter.leaf();
        if self.parameters.iter().all(|other| other == parameter || other.leaf() != leaf) {
            return leaf;
        }
        parameter.path.rsplit('.').nth(1).unwrap_or(leaf)
    }
}

impl Variation {
    /// Creates the scenario `name` with these settings.
    #[must_use]
    pub fn named(index: u64, name: &str, values: Map<String, Value>) -> Self {
        Self { label: name.to_owned(), directory: file_name(name), index, values }
    }

    /// Returns the name of its directory, in that of the sweep.
    #[must_use]
    pub fn directory(&self) -> &str {
        &self.directory
    }

    /// Returns its label in the files.
    #[must_use]
    pub fn label(&self) -> &str {
        &self.label
    }
}

/// Removes what AIPerf removes from names of directories.
fn file_name(text: &str) -> String {
    text.replace("..", "").chars().filter(|c| !DROPPED.contains(c) && !c.is_control()).collect()
}

/// Formats a value without quotes.
pub fn plain(value: &Value) -> String {
    value.as_str().map_or_else(|| value.to_string(), str::to_owned)
}

/// A cell with its results.
#[derive(Debug)]
pub struct Cell {
    pub variation: Variation,
    /// Its runs.
    pub trials: Trials,
    /// The statistics of its successful runs.
    pub rows: Vec<Row>,
    /// The statistics of their steady states.
    pub steady_rows: Vec<Row>,
    /// Their latencies divided by the server's times, or why they are not; `None` if the server
    /// does not report them.
    pub time_breakdown: Option<Result<Vec<DividedRow>, String>>,
    /// Whether it meets all conditions, and no run failed.
    pub is_feasible: bool,
    /// Whether no other cell is at least as good in throughput and latency, and better in one. Of
    /// cells with conditions, only those that meet them are considered.
    pub is_pareto: bool,
}

impl Cell {
    /// Returns the statistics over the runs of a statistic of a metric.
    pub fn row(&self, tag: MetricTag, statistic: &str) -> Option<&Row> {
        self.rows.iter().find(|row| row.metric.tag == tag && row.statistic == statistic)
    }

    /// Returns the mean over the runs of a statistic of a metric.
    pub fn value(&self, tag: MetricTag, statistic: &str) -> Option<f64> {
        self.row(tag, statistic).map(|row| row.across.mean)
    }

    /// Returns the latency `tag` with its parts, if it is divided.
    pub fn divided(&self, tag: MetricTag) -> Option<&DividedRow> {
        let rows = self.time_breakdown.as_ref()?.as_ref().ok()?;
        rows.iter().find(|row| row.metric == tag)
    }

    /// Returns the worst verdict on client health.
    pub fn verdict(&self) -> Option<Verdict> {
        self.trials.successful().filter_map(|run| run.verdict).max()
    }

    /// Returns why a run is missing from the results, if one is.
    pub fn error(&self) -> Option<&str> {
        if let Some((_, failure)) = self.trials.failed().next() {
            return Some(failure.message());
        }
        self.trials.is_short().then_some(match self.trials.runs.len() {
            0 => "not run",
            _ => "not all runs were performed",
        })
    }
}

/// The cells of a sweep with their results.
#[derive(Debug)]
pub struct Results {
    pub config: super::Config,
    pub sweep: Config,
    pub sweep_id: Uuid,
    pub cells: Vec<Cell>,
    /// Where throughput stops growing, if the sweep looks for it.
    pub saturation: Option<Saturation>,
    /// What a search has found.
    pub search: Option<search::History>,
    /// What a search over several settings has found.
    pub space: Option<space::History>,
    /// The highest load that meets the conditions, if the sweep varies the load only and has some.
    pub limit: Option<Limit>,
}

/// How mean latencies grow from one load to the next one that was tried.
#[derive(Debug)]
pub struct Beyond<'a> {
    pub from: &'a Cell,
    pub to: &'a Cell,
    /// The latencies that grew, by the stages that servers report.
    pub growth: Vec<Growth>,
}

impl Beyond<'_> {
    /// States what grew, a sentence for each latency.
    pub fn sentences(&self) -> impl Iterator<Item = String> + '_ {
        let name = |cell: &Cell| {
            Load::from_values(&cell.variation.values)
                .map_or_else(String::new, |load| load.to_string())
        };
        let between = format!(" from {} to {}", name(self.from), name(self.to));
        self.growth.iter().map(move |growth| growth.sentence(&between))
    }
}

/// A best cell.
pub struct Best<'a> {
    pub cell: &'a Cell,
    /// The statistic in which it is the best, such as `time_to_first_token_p99`.
    pub row: &'a Row,
}

impl Results {
    /// Computes the statistics of each cell from its runs.
    pub fn from_cells(
        config: &super::Config,
        sweep: &Config,
        sweep_id: Uuid,
        cells: impl IntoIterator<Item = (Variation, Trials)>,
    ) -> Self {
        let cell = |(variation, trials): (Variation, Trials)| Cell {
            rows: aggregate::rows(&trials),
            is_feasible: filter::is_feasible(&sweep.filters, &trials),
            steady_rows: aggregate::steady_rows(&trials),
            time_breakdown: aggregate::time_breakdown(&trials),
            variation,
            trials,
            is_pareto: false,
        };
        let mut results = Self {
            config: config.clone(),
            sweep: sweep.clone(),
            sweep_id,
            cells: cells.into_iter().map(cell).collect(),
            saturation: None,
            search: None,
            space: None,
            limit: None,
        };
        match &sweep.choice {
            Choice::Known => results.limit = results.limit_of_load(),
            Choice::Knee(range) => {
                results.saturation = Some(Saturation::from_levels(range, &results.levels()));
                results.cells.sort_by(by_values);
            }
            Choice::Search(search) => {
                let cells = results.cells.iter().map(|cell| (&cell.variation, &cell.trials));
                results.search = Some(History::from_cells(search, sweep, cells));
                results.cells.sort_by(by_values);
            }
            Choice::Space(space) => {
                let cells = results.cells.iter().map(|cell| (&cell.variation, &cell.trials));
                results.space = Some(History::from_cells(space, sweep, cells));
            }
        }
        let latency = results.latency();
        let points: Vec<Option<(f64, f64)>> = results
            .cells
            .iter()
            .map(|cell| {
                let is_candidate = sweep.filters.is_empty() || cell.is_feasible;
                let value = |tag, statistic| aggregate::across(&cell.trials, tag, statistic);
                let throughput = value(tag::REQUEST_THROUGHPUT, "avg")?.mean;
                let point = (throughput, value(latency, "p99")?.mean);
                is_candidate.then_some(point)
            })
            .collect();
        for (cell, is_pareto) in results.cells.iter_mut().zip(pareto(&points)) {
            cell.is_pareto = is_pareto;
        }
        results
    }

    /// Returns the cells by the values of their settings, not in the order of their runs; scenarios as they
    /// are listed.
    pub fn in_order(&self) -> Vec<&Cell> {
        let mut cells: Vec<&Cell> = self.cells.iter().collect();
        if !self.sweep.has_scenarios {
            cells.sort_by(|a, b| by_values(a, b));
        }
        cells
    }

    /// Returns the cells on the Pareto front by the values of their settings.
    pub fn front(&self) -> Vec<&Cell> {
        self.in_order().into_iter().filter(|cell| cell.is_pareto).collect()
    }

    /// Returns the highest load that meets the conditions, of a sweep or a search.
    pub fn load_limit(&self) -> Option<&Limit> {
        self.limit.as_ref().or_else(|| self.search.as_ref().map(|found| &found.limit))
    }

    /// Returns the highest load that meets the conditions.
    fn limit_of_load(&self) -> Option<Limit> {
        let filters = &self.sweep.filters;
        let is_load = |cell: &Cell| Load::from_values(&cell.variation.values).is_some();
        if filters.is_empty() || !self.cells.iter().all(is_load) {
            return None;
        }
        let conditions: Vec<_> =
            filters.iter().map(Condition::from_filter).chain([Condition::SUCCESS]).collect();
        let level = |cell: &Cell| limit::Level::from_trials(filters, &cell.variation, &cell.trials);
        let levels: Vec<_> = self.cells.iter().filter_map(level).collect();
        Some(Limit::fit(&conditions, &levels, self.config.confidence_level))
    }

    /// Returns the loads of a sweep that chooses them, as far as their runs are complete.
    pub fn levels(&self) -> Vec<Level> {
        let level = |cell: &Cell| Level::from_trials(&cell.variation, &cell.trials);
        self.cells.iter().filter_map(level).collect()
    }

    /// Returns the mean power of the GPUs, in watts, at the lowest load that was tried with the full
    /// throughput.
    pub fn saturated_watts(&self) -> Option<f64> {
        let from = self.saturation.as_ref()?.saturated_from?;
        let load = |cell: &Cell| Load::from_values(&cell.variation.values).map(Load::amount);
        let has_load = |cell: &&Cell| load(cell).is_some_and(|load| load.total_cmp(&from).is_eq());
        let cell = self.cells.iter().find(has_load)?;
        let vendors = [tag::NVIDIA_AVERAGE_GPU_POWER, tag::AMD_AVERAGE_GPU_POWER];
        let watts = vendors.into_iter().filter_map(|tag| cell.value(tag, "avg"));
        watts.reduce(|one, other| one + other)
    }

    /// Returns what grows beyond the load at which throughput stops growing, or else beyond the highest
    /// one that meets all conditions; `None` if the sweep varies more than the load, has neither, or
    /// nothing is known of the stages.
    pub fn beyond(&self) -> Option<Beyond<'_>> {
        let mut cells: Vec<(f64, &Cell)> = (self.cells.iter())
            .map(|cell| Some((Load::from_values(&cell.variation.values)?.amount(), cell)))
            .collect::<Option<_>>()?;
        cells.sort_by(|(a, _), (b, _)| a.total_cmp(b));
        let knee = self.saturation.as_ref().and_then(|found| found.saturated_from);
        let has_conditions = !self.sweep.filters.is_empty();
        let is_last = |pair: &&[(f64, &Cell)]| match (knee, pair) {
            (Some(knee), [(load, _), _]) => load.total_cmp(&knee).is_eq(),
            (None, [(_, from), (_, to)]) => has_conditions && from.is_feasible && !to.is_feasible,
            _ => false,
        };
        let [(_, from), (_, to)] = *cells.windows(2).rfind(is_last)? else { return None };
        let growth = |metric| {
            let parts = |cell: &Cell| cell.divided(metric)?.means();
            Growth::between(metric, &parts(from)?, &parts(to)?)
        };
        let growth = DIVIDED.into_iter().filter_map(growth);
        let growth: Vec<Growth> = growth.filter(|growth| growth.difference_ms > 0.0).collect();
        (!growth.is_empty()).then_some(Beyond { from, to, growth })
    }

    /// Returns the latency to compare cells by: the time to first token if any cell has it.
    fn latency(&self) -> MetricTag {
        let has = |tag| self.cells.iter().any(|cell| cell.value(tag, "p99").is_some());
        if has(tag::TIME_TO_FIRST_TOKEN) { tag::TIME_TO_FIRST_TOKEN } else { tag::REQUEST_LATENCY }
    }

    /// Returns the cell with the highest request throughput.
    pub fn best_throughput(&self) -> Option<Best<'_>> {
        self.best(tag::REQUEST_THROUGHPUT, "avg", |value| value)
    }

    /// Returns the cell with the lowest p99 of the latency.
    pub fn best_latency(&self) -> Option<Best<'_>> {
        self.best(self.latency(), "p99", |value| -value)
    }

    /// Returns the first cell with the highest `score` of a statistic, of those that meet all
    /// conditions, or of all if none does.
    fn best(&self, tag: MetricTag, statistic: &str, score: fn(f64) -> f64) -> Option<Best<'_>> {
        let has_feasible =
            !self.sweep.filters.is_empty() && self.cells.iter().any(|cell| cell.is_feasible);
        let candidates = self.cells.iter().filter(|cell| cell.is_feasible || !has_feasible);
        let all = candidates.filter_map(|cell| {
            let value = aggregate::across(&cell.trials, tag, statistic)?.mean;
            Some((score(value), Best { cell, row: cell.row(tag, statistic)? }))
        });
        let best = all.reduce(|best, next| if next.0 > best.0 { next } else { best });
        best.map(|(_, best)| best)
    }

    /// Returns all runs that were started.
    pub fn runs(&self) -> impl Iterator<Item = (&Cell, &RunResult)> {
        self.cells.iter().flat_map(|cell| cell.trials.runs.iter().map(move |run| (cell, run)))
    }

    /// Returns the runs that failed, each with the reason.
    pub fn failed(&self) -> impl Iterator<Item = (&Cell, &RunResult, &Failure)> {
        self.runs().filter_map(|(cell, run)| Some((cell, run, run.failure.as_ref()?)))
    }

    /// Returns the number of runs that were planned, and not made needless by earlier ones.
    pub fn planned(&self) -> u64 {
        let value_of = |cell: &Cell| {
            let trials = &cell.trials;
            if trials.is_converged() { trials.runs.len() as u64 } else { self.config.runs }
        };
        self.cells.iter().map(value_of).sum()
    }
}

/// Compares the values of cells, numbers by size and others as text.
pub fn by_values(a: &Cell, b: &Cell) -> Ordering {
    let (a, b) = (a.variation.values.values(), b.variation.values.values());
    a.zip(b)
        .map(|(a, b)| match (a.as_f64(), b.as_f64()) {
            (Some(a), Some(b)) => a.total_cmp(&b),
            _ => plain(a).cmp(&plain(b)),
        })
        .find(|order| order.is_ne())
        .unwrap_or(Ordering::Equal)
}

/// Returns which points of throughput and latency are on the Pareto front: no other point is at
/// least as good in both and better in one.
fn pareto(points: &[Option<(f64, f64)>]) -> Vec<bool> {
    let dominates = |(throughput, latency): (f64, f64), (other_throughput, other_latency)| {
        throughput >= other_throughput
            && latency <= other_latency
            && (throughput > other_throughput || latency < other_latency)
    };
    let is_on_front =
        |point: (f64, f64)| !points.iter().flatten().any(|other| dominates(*other, point));
    points.iter().map(|point| point.is_some_and(is_on_front)).collect()
}

#[cfg(test)]
mod tests;
