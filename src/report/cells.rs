//! The page of several runs: the cells of a sweep, or the runs of one load.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

use parquet::errors::ParquetError;
use serde_json::{Value, json};

use super::chart::{Axis, Chart, Point, Series, Shape, Tone, axis};
use super::distribution::cumulative;
use super::document::{Document, Figure, Level, Notice, Section, ShownRequests, Table};
use super::plot::Charts;
use super::requests::Requests;
use super::run::LATENCIES;
use crate::artifacts::rebuild;
use crate::metrics::tag::{self, MetricTag};
use crate::metrics::time_breakdown::Stage;
use crate::metrics::{Registry, Verdict};
use crate::multi_run::aggregate::{self, DividedRow, Row};
use crate::multi_run::sweep::{self, Beyond, Results};
use crate::multi_run::{GroupResults, RunResult, Trials};

/// Maximum number of distributions in a chart.
const MAX_DISTRIBUTIONS: usize = 12;

/// The statistics that are compared.
const COMPARED: &[(MetricTag, &[&str])] = &[
    (tag::REQUEST_THROUGHPUT, &["avg"]),
    (tag::OUTPUT_TOKEN_THROUGHPUT, &["avg"]),
    (tag::TIME_TO_FIRST_TOKEN, &["p50", "p99"]),
    (tag::INTER_TOKEN_LATENCY, &["p50", "p99"]),
    (tag::REQUEST_LATENCY, &["p50", "p99"]),
    (tag::REQUEST_ERROR_RATE, &["avg"]),
    (tag::GOODPUT, &["avg"]),
];

/// Runs that are shown as one.
pub(super) struct Cell {
    label: String,
    /// The value of the only parameter, if it is a number.
    parameter: Option<f64>,
    rows: Vec<Row>,
    /// Its mean request latency with its parts, if it is divided.
    divided: Option<DividedRow>,
    /// The directories of its successful runs.
    runs: Vec<PathBuf>,
    is_pareto: bool,
    verdict: Option<Verdict>,
    error: Option<String>,
}

/// The cells of a page, and what it says of all.
pub(crate) struct Comparison {
    title: String,
    facts: Vec<(&'static str, String)>,
    /// What distinguishes the cells.
    axis: Axis,
    /// Which stages grow beyond the best load; empty if nothing is known.
    beyond: Vec<String>,
    cells: Vec<Cell>,
}

impl Comparison {
    /// The cells or runs of the group in `directory`.
    pub(crate) fn of(directory: &Path, results: &GroupResults) -> Self {
        match results {
            GroupResults::Trials(trials) => Self::of_trials(directory, trials),
            GroupResults::Sweep(results) => Self::of_sweep(directory, results),
        }
    }

    /// The cells of the sweep in `directory`.
    fn of_sweep(directory: &Path, results: &Results) -> Self {
        let names: Vec<&str> =
            results.sweep.parameters.iter().map(|parameter| parameter.name.as_str()).collect();
        let cell = |cell: &sweep::Cell| {
            let values = &cell.variation.values;
            let only = if values.len() == 1 { values.values().next() } else { None };
            Cell {
                label: cell.variation.directory().to_owned(),
                parameter: only.and_then(Value::as_f64),
                rows: cell.rows.clone(),
                divided: cell.divided(tag::REQUEST_LATENCY).cloned(),
                runs: directories(directory, cell.trials.successful()),
                is_pareto: cell.is_pareto,
                verdict: cell.verdict(),
                error: cell.error().map(str::to_owned),
            }
        };
        Self {
            title: format!("Sweep over {} | aiperf", names.join(", ")),
            facts: vec![
                ("Cells", results.cells.len().to_string()),
                ("Runs per cell", results.config.runs.to_string()),
                ("Sweep ID", results.sweep_id.to_string()),
            ],
            axis: Axis::new(names.join(", "), ""),
            beyond: results.beyond().iter().flat_map(Beyond::sentences).collect(),
            cells: results.cells.iter().map(cell).collect(),
        }
    }

    /// The runs of one load in `directory`.
    fn of_trials(directory: &Path, trials: &Trials) -> Self {
        let mut comparison = Self {
            title: format!("{} runs | aiperf", trials.runs.len()),
            facts: vec![("Runs", trials.runs.len().to_string())],
            axis: Axis::new("Run", ""),
            beyond: Vec::new(),
            cells: Vec::new(),
        };
        for run in &trials.runs {
            let mut alone = Trials::new(trials.config.clone(), trials.sweep_id);
            alone.runs.push(run.clone());
            comparison.add(run.member.run_label.clone(), None, directory, &alone);
        }
        comparison
    }

    /// Runs of different commands, whose cells are added.
    pub(crate) fn of_others() -> Self {
        Self {
            title: "Several runs | aiperf".to_owned(),
            facts: Vec::new(),
            axis: Axis::new("Concurrency", ""),
            beyond: Vec::new(),
            cells: Vec::new(),
        }
    }

    /// Adds the runs of one load in `directory` as a cell; `parameter` distinguishes it from others,
    /// if each has one.
    pub(crate) fn add(
        &mut self,
        label: String,
        parameter: Option<f64>,
        directory: &Path,
        trials: &Trials,
    ) {
        self.cells.push(Cell {
            label,
            parameter,
            rows: aggregate::rows(trials),
            divided: aggregate::time_breakdown(trials).and_then(|found| {
                let mut rows = found.ok()?.into_iter();
                rows.find(|row| row.metric == tag::REQUEST_LATENCY)
            }),
            runs: directories(directory, trials.successful()),
            is_pareto: false,
            verdict: trials.runs.iter().filter_map(|run| run.verdict).max(),
            error: trials
                .runs
                .iter()
                .find_map(|run| Some(run.failure.as_ref()?.message().to_owned())),
        });
    }

    /// Adds the cells of `other`, with `label` before theirs.
    pub(crate) fn join(&mut self, label: &str, other: Self) {
        let cells = other.cells.into_iter();
        self.cells.extend(cells.map(|cell| Cell {
            label: format!("{label}/{}", cell.label),
            parameter: None,
            is_pareto: false,
            ..cell
        }));
    }

    /// Returns the page.
    pub(super) fn document(&self) -> Result<Document, ParquetError> {
        let about_cells: Vec<&str> = ["Means over the successful runs of a cell."]
            .into_iter()
            .chain(self.beyond.iter().map(String::as_str))
            .collect();
        let mut sections = vec![
            Section::new(
                "Throughput and latency",
                "A cell is on the Pareto front if no other cell is at least as good in both values \
                 and better in one.",
                self.trade_offs(),
            ),
            Section::new("By cell", about_cells.join(" "), self.curves()),
            Section::new(
                "Distributions",
                "Successful requests of all successful runs of a cell.",
                self.distributions()?,
            ),
            Section {
                tables: vec![self.table()],
                ..Section::new(
                    "Statistics",
                    "Intervals are those of the mean over the runs.",
                    vec![],
                )
            },
        ];
        sections.retain(|section| !section.is_empty());
        Ok(Document {
            title: self.title.clone(),
            facts: self.facts.clone(),
            notices: self.notices(),
            figures: self.figures(),
            sections,
            requests: ShownRequests::default(),
        })
    }

    /// Returns the charts that are drawn as pictures.
    pub(crate) fn plots(&self) -> Result<Charts, ParquetError> {
        let charts =
            [self.trade_offs(), vec![self.by_first_token()], self.curves(), self.distributions()?];
        let charts = charts.into_iter().flatten().filter(|chart| !chart.is_empty());
        let (title, version) = (self.title.replace(" | aiperf", ""), env!("CARGO_PKG_VERSION"));
        let subject = format!("{title} | {} cells | aiperf {version}", self.cells.len());
        Ok(Charts { subject, charts: charts.collect() })
    }

    /// Returns the throughput by the mean time to first token, as AIPerf draws it.
    fn by_first_token(&self) -> Chart {
        let (x, y) = (tag::TIME_TO_FIRST_TOKEN, tag::REQUEST_THROUGHPUT);
        let mut series = Series::new("cells", Shape::Line, Vec::new());
        for cell in &self.cells {
            if let (Some(x), Some(y)) = (value(cell, x, "avg"), value(cell, y, "avg")) {
                series.points.push(Point::new(x, y));
                series.named.push(series.labels.len());
                series.labels.push(cell.label.clone());
            }
        }
        let axis = |tag| Registry::row(tag).map_or_else(|| Axis::new("", ""), axis);
        Chart {
            name: "ttft_vs_throughput".to_owned(),
            title: "Request throughput by mean time to first token".to_owned(),
            note: "Means over the successful runs of a cell, joined in the order of the cells"
                .to_owned(),
            x: axis(x),
            y: axis(y),
            series: vec![series],
            marks: Vec::new(),
            is_timeline: false,
        }
    }

    fn notices(&self) -> Vec<Notice> {
        let mut notices = Vec::new();
        for cell in &self.cells {
            if let Some(error) = &cell.error {
                notices
                    .push(Notice { level: Level::Bad, text: format!("{}: {error}", cell.label) });
            }
            let level = match cell.verdict {
                Some(Verdict::Invalid) => Level::Bad,
                Some(Verdict::Suspect) => Level::Doubtful,
                Some(Verdict::Valid) | None => continue,
            };
            let verdict = if level == Level::Bad { Verdict::Invalid } else { Verdict::Suspect };
            let text = format!("{}: client health is {}.", cell.label, verdict.as_str());
            notices.push(Notice { level, text });
        }
        notices
    }

    /// Returns the best value of each statistic, with its cell.
    fn figures(&self) -> Vec<Figure> {
        let best = |tag: MetricTag, statistic: &str, is_higher_better: bool| {
            let metric = Registry::row(tag)?;
            let score = |value: f64| if is_higher_better { value } else { -value };
            let values =
                self.cells.iter().filter_map(|cell| Some((cell, value(cell, tag, statistic)?)));
            let (cell, value) = values.max_by(|a, b| score(a.1).total_cmp(&score(b.1)))?;
            let of = if statistic == "avg" { String::new() } else { format!(" {statistic}") };
            Some(Figure {
                title: format!("Best {}{of}", metric.header),
                value,
                unit: metric.display_unit.label().to_owned(),
                detail: cell.label.clone(),
            })
        };
        let figures = [
            best(tag::REQUEST_THROUGHPUT, "avg", true),
            best(tag::OUTPUT_TOKEN_THROUGHPUT, "avg", true),
            best(tag::TIME_TO_FIRST_TOKEN, "p99", false),
            best(tag::REQUEST_LATENCY, "p99", false),
        ];
        figures.into_iter().flatten().collect()
    }

    /// Returns charts of throughput against latencies.
    fn trade_offs(&self) -> Vec<Chart> {
        let Some(throughput) = Registry::row(tag::REQUEST_THROUGHPUT) else { return Vec::new() };
        let mut charts = Vec::new();
        for (tag, _) in LATENCIES {
            let Some(metric) = Registry::row(tag) else { continue };
            let mut all = Series::new("cells", Shape::Points, Vec::new());
            let mut front = Vec::new();
            for cell in &self.cells {
                let x = value(cell, tag::REQUEST_THROUGHPUT, "avg");
                if let (Some(x), Some(y)) = (x, value(cell, tag, "p99")) {
                    all.points.push(Point::new(x, y));
                    all.named.push(all.labels.len());
                    all.labels.push(cell.label.clone());
                    if cell.is_pareto {
                        front.push((Point::new(x, y), cell.label.clone()));
                    }
                }
            }
            front.sort_by(|a, b| a.0.x.total_cmp(&b.0.x));
            let (points, labels): (Vec<_>, Vec<_>) = front.into_iter().unzip();
            let mut series = vec![all];
            // The front is that of the latency by which the sweep compares its cells.
            if tag == self.latency() && !points.is_empty() {
                let front = Series { labels, ..Series::new("Pareto front", Shape::Line, points) };
                series.push(front.toned(Tone::Own));
            }
            let mut y = axis(metric);
            y.title.push_str(" p99");
            charts.push(Chart {
                name: format!("{tag}_by_throughput"),
                title: format!("{} p99 by request throughput", metric.header),
                note: String::new(),
                x: axis(throughput),
                y,
                series,
                marks: Vec::new(),
                is_timeline: false,
            });
        }
        charts
    }

    /// Returns the latency that the Pareto front is about.
    fn latency(&self) -> MetricTag {
        let first = tag::TIME_TO_FIRST_TOKEN;
        let has_first = self.cells.iter().any(|cell| value(cell, first, "p99").is_some());
        if has_first { first } else { tag::REQUEST_LATENCY }
    }

    /// Returns a chart of each metric by cell.
    fn curves(&self) -> Vec<Chart> {
        let parameters = self.cells.iter().filter_map(|cell| cell.parameter);
        let distinct: BTreeSet<u64> = parameters.map(f64::to_bits).collect();
        let is_numeric = distinct.len() == self.cells.len();
        let x = |at: usize, cell: &Cell| {
            cell.parameter.filter(|_| is_numeric).unwrap_or(at as f64 + 1.0)
        };
        let axis_of_cells =
            if is_numeric { self.axis.clone() } else { Axis::new("Number of the cell", "") };
        let mut charts = Vec::new();
        for &(tag, statistics) in COMPARED {
            let Some(metric) = Registry::row(tag) else { continue };
            let series = statistics.iter().map(|statistic| {
                let mut series = Series::new(*statistic, Shape::Line, Vec::new());
                for (at, cell) in self.cells.iter().enumerate() {
                    if let Some(y) = value(cell, tag, statistic) {
                        series.points.push(Point::new(x(at, cell), y));
                        series.labels.push(cell.label.clone());
                    }
                }
                series
            });
            charts.push(Chart {
                name: format!("{tag}_by_cell"),
                title: metric.header.to_owned(),
                note: String::new(),
                x: axis_of_cells.clone(),
                y: axis(metric),
                series: series.collect(),
                marks: Vec::new(),
                is_timeline: false,
            });
        }
        charts.push(Chart {
            name: "time_breakdown_by_cell".to_owned(),
            title: "Parts of the mean request latency".to_owned(),
            note: "The parts of a cell add up to its mean request latency".to_owned(),
            x: axis_of_cells,
            y: Axis::new("Mean time", "ms"),
            series: self.parts(x),
            marks: Vec::new(),
            is_timeline: false,
        });
        charts
    }

    /// Returns the parts of the mean request latency of the cells, each of which is at `x`.
    fn parts(&self, x: impl Fn(usize, &Cell) -> f64) -> Vec<Series> {
        let mut of_stage: BTreeMap<Stage, Series> = BTreeMap::new();
        for (at, cell) in self.cells.iter().enumerate() {
            for part in cell.divided.iter().flat_map(|divided| &divided.parts) {
                let new = || Series::new(part.stage.title(), Shape::Line, Vec::new());
                let series = of_stage.entry(part.stage).or_insert_with(new);
                series.points.push(Point::new(x(at, cell), part.mean_ms.mean));
                series.labels.push(cell.label.clone());
            }
        }
        of_stage.into_values().collect()
    }

    /// Returns the distributions of each latency, side by side.
    fn distributions(&self) -> Result<Vec<Chart>, ParquetError> {
        let mut of_latency: BTreeMap<usize, Vec<Series>> = BTreeMap::new();
        for cell in self.cells.iter().take(MAX_DISTRIBUTIONS) {
            let tables = cell.runs.iter().filter_map(|run| table(run));
            let runs: Vec<Requests> =
                tables.map(|table| Requests::read(&table, 0)).collect::<Result<_, _>>()?;
            for (at, (_, value_of)) in LATENCIES.iter().enumerate() {
                let requests = || runs.iter().flat_map(Requests::iter);
                let values = || requests().filter_map(|request| value_of(&request));
                let points = cumulative(|| values().filter(|value| value.is_finite()));
                let series = Series::new(cell.label.clone(), Shape::Line, points);
                of_latency.entry(at).or_default().push(series);
            }
        }
        let more = self.cells.len().saturating_sub(MAX_DISTRIBUTIONS);
        let note = match more {
            0 => String::new(),
            more => format!("The first {MAX_DISTRIBUTIONS} cells; {more} more are not shown"),
        };
        let chart = |(at, series): (usize, Vec<Series>)| {
            let (tag, _) = LATENCIES[at];
            let metric = Registry::row(tag)?;
            Some(Chart {
                name: format!("{tag}_cdf"),
                title: format!("{}: share of requests below a value", metric.header),
                note: note.clone(),
                x: axis(metric),
                y: Axis::new("Requests", "%"),
                series: series.into_iter().filter(|series| !series.points.is_empty()).collect(),
                marks: Vec::new(),
                is_timeline: false,
            })
        };
        Ok(of_latency.into_iter().filter_map(chart).collect())
    }

    fn table(&self) -> Table {
        let mut rows = Vec::new();
        for (number, cell) in (1..).zip(&self.cells) {
            for &(tag, statistics) in COMPARED {
                for row in statistics.iter().filter_map(|statistic| row(cell, tag, statistic)) {
                    let spread = row.across.spread.as_ref();
                    rows.push(vec![
                        json!(number),
                        json!(cell.label),
                        json!(row.metric.tag),
                        json!(row.statistic),
                        json!(row.metric.display_unit.label()),
                        json!(row.across.mean),
                        json!(spread.map(|spread| spread.ci_low)),
                        json!(spread.map(|spread| spread.ci_high)),
                        json!(spread.map(|spread| spread.std)),
                        json!(row.across.min),
                        json!(row.across.max),
                        json!(row.across.runs),
                    ]);
                }
            }
        }
        let columns = [
            "number",
            "cell",
            "metric",
            "statistic",
            "unit",
            "mean",
            "ci_low",
            "ci_high",
            "std",
            "min",
            "max",
            "runs",
        ];
        Table {
            title: "Comparison".to_owned(),
            note: String::new(),
            columns: columns.map(str::to_owned).to_vec(),
            rows,
            requests: Vec::new(),
        }
    }
}

fn directories<'a>(of: &Path, runs: impl Iterator<Item = &'a RunResult>) -> Vec<PathBuf> {
    runs.map(|run| of.join(&run.directory)).collect()
}

/// Returns the table of requests of the run in `directory`, if it exists.
fn table(directory: &Path) -> Option<PathBuf> {
    let table = rebuild::layout(directory).ok()?.table;
    table.exists().then_some(table)
}

fn row<'a>(cell: &'a Cell, tag: MetricTag, statistic: &str) -> Option<&'a Row> {
    cell.rows.iter().find(|row| row.metric.tag == tag && row.statistic == statistic)
}

fn value(cell: &Cell, tag: MetricTag, statistic: &str) -> Option<f64> {
    row(cell, tag, statistic).map(|row| row.across.mean).filter(|value| value.is_finite())
}
