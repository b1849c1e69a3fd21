//! The page of several runs: the cells of a sweep, or the runs of one load.

mod answer;
mod charts;
mod within;

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use parquet::errors::ParquetError;
use serde_json::Value;

use measure::metrics::Verdict;
use measure::metrics::metric::Objective;
use measure::metrics::tag::{self, MetricTag};
use measure::multi_run::aggregate::{self, DividedRow, Row};
use measure::multi_run::sweep::{self, Beyond, Results, plain};
use measure::multi_run::{Filter, GroupResults, RunResult, Trials};

use self::answer::Answer;
pub(super) use self::charts::distributions;
use self::within::{Within, within};
use super::chart::{Axis, Interval, Point};
use super::distribution::cumulative;
use super::document::{Document, Level, Notice, Section, ShownRequests};
use super::plot::Charts;
use super::requests::Requests;
use super::run::{LATENCIES, ValueOf};
use crate::artifacts::rebuild;
use crate::tables;
use crate::tables::cells::{COMPARED, CellRow};
use crate::tables::format::percent;

/// Maximum number of distributions in a chart.
pub(super) const MAX_DISTRIBUTIONS: usize = 12;

/// Runs that are shown as one.
pub(super) struct Cell {
    /// Its name in sentences: `concurrency 16`.
    name: String,
    /// Its name in charts: `16`.
    label: String,
    /// Its row of the table.
    row: CellRow,
    /// The line that it is on; empty if there is only one.
    line: String,
    /// Its place on the line, if it is a number.
    place: Option<f64>,
    rows: Vec<Row>,
    /// Its mean request latency with its parts, if it is divided.
    divided: Option<DividedRow>,
    /// The directories of its successful runs.
    runs: Vec<PathBuf>,
    /// Number of GPUs that were measured; 0 if none was.
    gpus: u64,
    verdict: Option<Verdict>,
    error: Option<String>,
    /// The intervals of its only run.
    within: Vec<Within>,
    /// The distribution of each latency; empty if it is not shown.
    distributions: Vec<Vec<Point>>,
}

/// The cells of a page, and its findings about all of them.
pub struct Comparison {
    title: String,
    /// Whether the cells have different settings, so that there is something to choose.
    has_trade_offs: bool,
    facts: Vec<(&'static str, String)>,
    /// What was found.
    sentences: Vec<Notice>,
    answers: Vec<Answer>,
    /// The conditions on the cells.
    objectives: Vec<Filter>,
    /// What each request must meet to be good.
    of_requests: Vec<Objective>,
    /// Confidence level of the intervals.
    level: f64,
    /// The names of the settings of a cell.
    settings: Vec<String>,
    /// What distinguishes the cells of a line.
    axis: Axis,
    /// Which stages grow beyond the best load; empty if nothing is known.
    beyond: Vec<String>,
    /// In the order of their lines, and on a line in that of their places.
    cells: Vec<Cell>,
}

impl Cell {
    /// The runs of one load in `directory`.
    fn from_trials(name: String, directory: &Path, trials: &Trials) -> Self {
        let divided = aggregate::time_breakdown(trials).and_then(|found| {
            let mut rows = found.ok()?.into_iter();
            rows.find(|row| row.metric == tag::REQUEST_LATENCY)
        });
        let (rows, steady) = (aggregate::rows(trials), aggregate::steady_rows(trials));
        let error =
            trials.runs.iter().find_map(|run| Some(run.failure.as_ref()?.message().to_owned()));
        Self {
            label: name.clone(),
            row: CellRow::from_trials(
                vec![tables::Cell::Text(name.clone())],
                trials,
                [&rows, &steady],
            ),
            name,
            line: String::new(),
            place: None,
            rows,
            divided,
            runs: directories(directory, trials.successful()),
            gpus: trials.successful().map(|run| run.gpus).max().unwrap_or(0),
            verdict: trials.runs.iter().filter_map(|run| run.verdict).max(),
            error,
            within: Vec::new(),
            distributions: Vec::new(),
        }
    }

    fn row(&self, tag: MetricTag, statistic: &str) -> Option<&Row> {
        self.rows.iter().find(|row| row.metric.tag == tag && row.statistic == statistic)
    }

    /// Returns the mean over its runs of a statistic of a metric.
    fn value(&self, tag: MetricTag, statistic: &str) -> Option<f64> {
        self.row(tag, statistic).map(|row| row.across.mean).filter(|value| value.is_finite())
    }

    /// Returns the interval of this mean over the runs, or of the statistic of the only one.
    fn interval(&self, tag: MetricTag, statistic: &str) -> Option<Interval> {
        if let Some(spread) = self.row(tag, statistic)?.across.spread {
            return Some(Interval { low: spread.ci_low, high: spread.ci_high });
        }
        let is_named = |(of, name, _): &&Within| *of == tag && *name == statistic;
        self.within.iter().find(is_named).map(|(.., interval)| *interval)
    }
}

impl Comparison {
    /// The cells or runs of the group in `directory`.
    pub fn from_results(directory: &Path, results: &GroupResults) -> Self {
        match results {
            GroupResults::Trials(trials) => Self::of_trials(directory, trials),
            GroupResults::Sweep(results) => Self::of_sweep(directory, results),
        }
    }

    /// The cells of the sweep in `directory`.
    fn of_sweep(directory: &Path, results: &Results) -> Self {
        let sweep = &results.sweep;
        let names: Vec<String> =
            sweep.parameters.iter().map(|parameter| parameter.name.replace('_', " ")).collect();
        let along = sweep.load_parameter();
        let has_conditions = !sweep.filters.is_empty();
        let cell = |cell: &sweep::Cell| {
            let variation = &cell.variation;
            let value =
                |it: &sweep::Parameter| variation.values.get(&it.path).cloned().unwrap_or_default();
            let values: Vec<Value> = sweep.parameters.iter().map(value).collect();
            let others = (0..).zip(names.iter().zip(&values));
            let others = others.filter(|(at, _)| along.is_some_and(|along| along != *at));
            let line: Vec<String> =
                others.map(|(_, (name, value))| format!("{name} {}", plain(value))).collect();
            let label = match along {
                Some(at) if !line.is_empty() => values.get(at).map(plain),
                _ => None,
            };
            Cell {
                label: label.unwrap_or_else(|| sweep.values_of(variation)),
                place: along.and_then(|at| values.get(at)).and_then(Value::as_f64),
                line: line.join(", "),
                row: CellRow::of_sweep(results, cell),
                error: cell.error().map(str::to_owned),
                ..Cell::from_trials(sweep.described(variation), directory, &cell.trials)
            }
        };
        let cells: Vec<Cell> = results.in_order().into_iter().map(cell).collect();
        let (mut facts, model, of_requests) = answer::about(&cells);
        if has_conditions {
            facts.insert(0, ("Objectives", crate::console::runs::conditions(results)));
        }
        facts.extend([
            ("Cells", results.cells.len().to_string()),
            ("Runs per cell", results.config.runs.to_string()),
            ("Sweep ID", results.sweep_id.to_string()),
        ]);
        let kind = if sweep.is_search() { "Search" } else { "Sweep" };
        let title = [format!("{kind} over {}", names.join(", ")), model, "aiperf".to_owned()];
        let title: Vec<String> = title.into_iter().filter(|part| !part.is_empty()).collect();
        let mut comparison = Self {
            title: title.join(" | "),
            has_trade_offs: true,
            facts,
            sentences: answer::sentences(results),
            answers: answer::answers(results),
            objectives: sweep.filters.clone(),
            of_requests,
            level: results.config.confidence_level,
            axis: Axis::new(
                along.and_then(|at| names.get(at)).map_or_else(String::new, |it| capital(it)),
                "",
            ),
            settings: tables::cells::setting_names(sweep).collect(),
            beyond: results.beyond().iter().flat_map(Beyond::sentences).collect(),
            cells,
        };
        comparison.sort();
        comparison
    }

    /// The runs of one load in `directory`.
    fn of_trials(directory: &Path, trials: &Trials) -> Self {
        let mut comparison = Self {
            title: format!("{} runs | aiperf", trials.runs.len()),
            has_trade_offs: false,
            facts: vec![("Runs", trials.runs.len().to_string())],
            level: trials.config.confidence_level,
            axis: Axis::new("Run", ""),
            ..Self::of_others()
        };
        for run in &trials.runs {
            let mut alone = Trials::new(trials.config.clone(), trials.sweep_id);
            alone.runs.push(run.clone());
            comparison.add(run.member.run_label.clone(), None, directory, &alone);
        }
        comparison
    }

    /// Runs of different commands, whose cells are added.
    pub fn of_others() -> Self {
        Self {
            title: "Several runs | aiperf".to_owned(),
            has_trade_offs: true,
            facts: Vec::new(),
            sentences: Vec::new(),
            answers: Vec::new(),
            objectives: Vec::new(),
            of_requests: Vec::new(),
            level: measure::multi_run::Config::default().confidence_level,
            settings: vec!["run".to_owned()],
            axis: Axis::new("Concurrency", ""),
            beyond: Vec::new(),
            cells: Vec::new(),
        }
    }

    /// Adds the runs of one load in `directory` as a cell; `place` is its concurrency, if it has one.
    pub fn add(&mut self, name: String, place: Option<f64>, directory: &Path, trials: &Trials) {
        self.cells.push(Cell { place, ..Cell::from_trials(name, directory, trials) });
        self.sort();
    }

    /// Adds the cells of the sweep `other` as lines of their own, with `name` before their names.
    pub fn join(&mut self, name: &str, other: Self) {
        if self.cells.is_empty() {
            self.axis = other.axis.clone();
            self.objectives.clone_from(&other.objectives);
            self.of_requests.clone_from(&other.of_requests);
        }
        self.of_requests.retain(|objective| other.of_requests.contains(objective));
        self.objectives.retain(|objective| other.objectives.contains(objective));
        let is_same = self.axis.title == other.axis.title;
        let cells = other.cells.into_iter().map(|cell| Cell {
            name: format!("{name}, {}", cell.name),
            row: CellRow {
                settings: vec![tables::Cell::Text(format!("{name}, {}", cell.name))],
                is_pareto: false,
                ..cell.row
            },
            line: if cell.line.is_empty() {
                name.to_owned()
            } else {
                format!("{name}, {}", cell.line)
            },
            place: cell.place.filter(|_| is_same),
            ..cell
        });
        self.cells.extend(cells);
        self.sort();
    }

    /// Puts the cells of a line together, in the order of their places if all have one.
    fn sort(&mut self) {
        let mut lines: Vec<String> = Vec::new();
        for cell in &self.cells {
            if !lines.contains(&cell.line) {
                lines.push(cell.line.clone());
            }
        }
        let line = |cell: &Cell| lines.iter().position(|line| *line == cell.line);
        self.cells.sort_by_key(line);
        if self.is_joined() {
            let place = |cell: &Cell| cell.place.unwrap_or_default();
            self.cells.sort_by(|a, b| line(a).cmp(&line(b)).then(place(a).total_cmp(&place(b))));
        }
    }

    /// Returns whether the cells are joined by their places: each has one, which no other cell of its
    /// line has.
    fn is_joined(&self) -> bool {
        let places: BTreeSet<(&str, u64)> = (self.cells.iter())
            .filter_map(|cell| Some((cell.line.as_str(), cell.place?.to_bits())))
            .collect();
        places.len() == self.cells.len()
    }

    /// Returns the cells of each line with its name.
    fn lines(&self) -> Vec<(String, Vec<&Cell>)> {
        let mut lines: Vec<(String, Vec<&Cell>)> = Vec::new();
        for cell in &self.cells {
            match lines.last_mut().filter(|(line, _)| *line == cell.line) {
                Some((_, cells)) => cells.push(cell),
                None => lines.push((cell.line.clone(), vec![cell])),
            }
        }
        for (line, _) in lines.iter_mut().filter(|(line, _)| line.is_empty()) {
            "cells".clone_into(line);
        }
        lines
    }

    /// Returns whether there are lines with names.
    fn has_lines(&self) -> bool {
        self.cells.iter().any(|cell| !cell.line.is_empty())
    }

    /// Reads the requests of the runs: the intervals of single ones, and distributions.
    fn read(&mut self) -> Result<(), ParquetError> {
        let level = self.level;
        for (at, cell) in self.cells.iter_mut().enumerate() {
            let is_shown = at < MAX_DISTRIBUTIONS;
            if !is_shown && cell.runs.len() != 1 {
                continue;
            }
            let runs = requests(&cell.runs)?;
            if is_shown {
                cell.distributions = latencies(&runs);
            }
            if let [only] = runs.as_slice() {
                let compared = |row: &&Row| {
                    let (tag, statistic) = (row.metric.tag, row.statistic);
                    COMPARED.iter().any(|it| it.tag == tag && statistic == it.statistic)
                };
                let rows: Vec<Row> = cell.rows.iter().filter(compared).cloned().collect();
                cell.within = within(only, &rows, level);
            }
        }
        Ok(())
    }

    /// Returns the page.
    pub(super) fn document(mut self) -> Result<Document, ParquetError> {
        self.read()?;
        let about_cells: Vec<&str> = ["Means over the successful runs of a cell."]
            .into_iter()
            .chain(self.beyond.iter().map(String::as_str))
            .collect();
        let level = percent(self.level);
        let intervals = format!(
            "Intervals contain the value with {level}% confidence: the mean over the runs of a cell, \
             or the statistic of its only run, if it has enough requests."
        );
        let mut sections = vec![
            Section::new(
                "Throughput and latency",
                "A cell is on the Pareto front if no other cell is at least as good in both values \
                 and better in one.",
                [self.choices(), self.trade_offs()].concat(),
            ),
            Section::new("By cell", about_cells.join(" "), self.curves()),
            Section::new(
                "Distributions",
                "Successful requests of all successful runs of a cell.",
                self.distributions(),
            ),
            Section::new("Statistics", intervals, vec![]).with(vec![self.table()]),
        ];
        sections.retain(|section| !section.is_empty());
        let (notices, figures) = (self.notices(), self.figures());
        Ok(Document {
            title: self.title,
            facts: self.facts,
            notices: self.sentences.into_iter().chain(notices).collect(),
            figures,
            sections,
            requests: ShownRequests::default(),
        })
    }

    /// Returns the charts that are drawn as pictures.
    pub fn plots(mut self) -> Result<Charts, ParquetError> {
        self.read()?;
        let first = self.by_first_token().into_iter().collect();
        let charts =
            [self.choices(), self.trade_offs(), first, self.curves(), self.distributions()];
        let charts = charts.into_iter().flatten().filter(|chart| !chart.is_empty());
        let (title, version) = (self.title.replace(" | aiperf", ""), env!("CARGO_PKG_VERSION"));
        let subject = format!("{title} | {} cells | aiperf {version}", self.cells.len());
        Ok(Charts { subject, charts: charts.collect() })
    }

    /// Returns the table of the cells.
    fn table(&self) -> tables::Table {
        let row = |cell: &Cell| {
            let mut row = cell.row.clone();
            let figures = row.figures.iter_mut().zip(&COMPARED).filter(|(_, it)| !it.is_steady);
            for (figure, it) in figures {
                let interval = cell.interval(it.tag, it.statistic);
                figure.interval = interval.map(|it| [it.low, it.high]);
            }
            row
        };
        let settings = self.settings.iter().cloned().map(tables::Column::label).collect();
        let rows: Vec<CellRow> = self.cells.iter().map(row).collect();
        let table = tables::cells::cells(settings, self.level, &rows);
        tables::Table { title: "Comparison".to_owned(), ..table }
    }

    fn notices(&self) -> Vec<Notice> {
        let failed = self.cells.iter().filter_map(|cell| {
            let text = format!("{}: {}", cell.name, cell.error.as_ref()?);
            Some(Notice { level: Level::Bad, text })
        });
        let doubts = [(Verdict::Invalid, Level::Bad), (Verdict::Suspect, Level::Doubtful)];
        let doubted = doubts.into_iter().filter_map(|(verdict, level)| {
            let cells = self.cells.iter().filter(|cell| cell.verdict == Some(verdict));
            let names: Vec<&str> = cells.map(|cell| &*cell.name).collect();
            let text = format!("Client health is {}: {}.", verdict.as_str(), names.join("; "));
            (!names.is_empty()).then_some(Notice { level, text })
        });
        failed.chain(doubted).collect()
    }
}

/// Returns a name with a capital letter at its beginning.
fn capital(name: &str) -> String {
    let mut letters = name.chars();
    let first = letters.next().into_iter().flat_map(char::to_uppercase);
    first.chain(letters).collect()
}

fn directories<'a>(of: &Path, runs: impl Iterator<Item = &'a RunResult>) -> Vec<PathBuf> {
    runs.map(|run| of.join(&run.directory)).collect()
}

/// Reads the requests of the runs in `directories` that have a table of them.
pub(super) fn requests(directories: &[PathBuf]) -> Result<Vec<Requests>, ParquetError> {
    let tables = directories.iter().filter_map(|run| Some(rebuild::layout(run).ok()?.table));
    tables.filter(|table| table.exists()).map(|table| Requests::read(&table, 0)).collect()
}

/// Returns the distribution of each latency over the requests of all `runs`.
pub(super) fn latencies(runs: &[Requests]) -> Vec<Vec<Point>> {
    let distribution = |(_, value_of): &(MetricTag, ValueOf)| {
        let requests = || runs.iter().flat_map(Requests::iter);
        let values = || requests().filter_map(|request| value_of(&request));
        cumulative(|| values().filter(|value| value.is_finite()))
    };
    LATENCIES.iter().map(distribution).collect()
}

#[cfg(test)]
mod tests;
