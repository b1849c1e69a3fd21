//! The cells of a sweep beside each other, or runs that are compared like cells.

use std::collections::BTreeSet;

use base::statistics::Percent;
use base::units::Unit;
use measure::metrics::time_breakdown::Stage;
use measure::metrics::{MetricTag, Registry, Verdict, tag};
use measure::multi_run::Trials;
use measure::multi_run::aggregate::{DividedRow, Row};
use measure::multi_run::sweep::{self, Results};

use super::format::percent;
use super::{Cell, Column, Table};

/// A statistic by which cells are compared in tables, charts and files.
pub struct Compared {
    pub tag: MetricTag,
    pub statistic: &'static str,
    /// Whether it is of the steady state, not of the whole phase.
    pub is_steady: bool,
    name: &'static str,
    /// The name on a narrow terminal.
    short: &'static str,
    /// The order in which a narrow terminal does without it; 0 if it does not.
    spare: u8,
}

/// The order of a column that is only shown if nothing has to be shorter for it.
const EXTRA: u8 = u8::MAX;

pub(crate) static COMPARED: [Compared; 14] = [
    row(tag::REQUEST_THROUGHPUT, "avg", ["Requests/s", "Req/s"], 0),
    Compared {
        is_steady: true,
        ..row(tag::REQUEST_THROUGHPUT, "avg", ["Steady requests/s", "Steady req/s"], 1)
    },
    row(tag::OUTPUT_TOKEN_THROUGHPUT, "avg", ["Output tokens/s", "Tokens/s"], 4),
    row(
        tag::OUTPUT_TOKEN_THROUGHPUT_PER_USER,
        "avg",
        ["Output tokens/s/user", "Tokens/s/user"],
        EXTRA,
    ),
    row(tag::TIME_TO_FIRST_TOKEN, "p50", ["TTFT p50"; 2], 3),
    row(tag::TIME_TO_FIRST_TOKEN, "p99", ["TTFT p99"; 2], 0),
    row(tag::INTER_TOKEN_LATENCY, "p50", ["ITL p50"; 2], 2),
    row(tag::INTER_TOKEN_LATENCY, "p99", ["ITL p99"; 2], 8),
    row(tag::REQUEST_LATENCY, "p50", ["Latency p50", "Lat. p50"], EXTRA),
    row(tag::REQUEST_LATENCY, "p99", ["Latency p99", "Lat. p99"], EXTRA),
    row(tag::REQUEST_ERROR_RATE, "avg", ["Errors (%)", "Err. %"], EXTRA),
    row(tag::GOODPUT, "avg", ["Good requests/s", "Good req/s"], 0),
    row(tag::OUTPUT_TOKEN_THROUGHPUT_PER_GPU, "avg", ["Output tokens/s/GPU", "Tokens/s/GPU"], 9),
    row(tag::COST_PER_MILLION_OUTPUT_TOKENS, "avg", ["Cost/Mtoken out", "Cost/Mtoken"], 10),
];

const fn row(
    tag: MetricTag,
    statistic: &'static str,
    [name, short]: [&'static str; 2],
    spare: u8,
) -> Compared {
    Compared { tag, statistic, is_steady: false, name, short, spare }
}

impl Compared {
    fn column(&self) -> Column {
        let column = Column::number(self.name).or(self.short).fixed();
        let is_latency =
            Registry::row(self.tag).is_some_and(|row| row.display_unit == Unit::Milliseconds);
        let column = if is_latency { column.unit("ms") } else { column };
        if self.spare == EXTRA { column.extra() } else { column.spare(self.spare) }
    }
}

/// A statistic of a cell: the mean over its runs, with its interval.
#[derive(Debug, Clone)]
pub struct Figure {
    pub mean: Option<f64>,
    /// The percentile, if a run has too few values for it.
    few: Option<Percent>,
    pub interval: Option<[f64; 2]>,
}

/// A cell as its row shows it.
#[derive(Debug, Clone)]
pub struct CellRow {
    pub settings: Vec<Cell>,
    /// Its [statistics](COMPARED).
    pub figures: Vec<Figure>,
    /// Number of failed requests, mean over the runs; absent without any that succeeded.
    pub errors: Cell,
    /// Number of runs that succeeded.
    pub runs: usize,
    /// The worst verdict on client health.
    pub verdict: Option<Verdict>,
    pub is_pareto: bool,
    /// Whether it meets the conditions, if there are some.
    pub is_feasible: Option<bool>,
    /// After how many runs it converged, if it has to.
    pub converged: Option<String>,
}

impl CellRow {
    /// Summarizes runs with these `settings`, of which `rows` and `steady_rows` are the statistics.
    pub fn from_trials(
        settings: Vec<Cell>,
        trials: &Trials,
        [rows, steady_rows]: [&[Row]; 2],
    ) -> Self {
        let row = |rows: &'_ [Row], tag, statistic: &str| {
            rows.iter().find(|row| row.metric.tag == tag && row.statistic == statistic).cloned()
        };
        let figure = |it: &Compared| {
            let found = row(if it.is_steady { steady_rows } else { rows }, it.tag, it.statistic);
            let across = found.map(|row| row.across);
            let is_few = !it.is_steady && trials.are_few(it.tag, it.statistic);
            let spread = across.and_then(|across| across.spread);
            Figure {
                mean: across.map(|across| across.mean).filter(|mean| mean.is_finite()),
                few: it
                    .statistic
                    .strip_prefix('p')
                    .filter(|_| is_few)
                    .and_then(|it| it.parse().ok()),
                interval: spread.map(|spread| [spread.ci_low, spread.ci_high]),
            }
        };
        let failed = row(rows, tag::ERROR_REQUEST_COUNT, "avg").map_or(0.0, |it| it.across.mean);
        let successful = trials.successful();
        let count = trials.runs.len();
        Self {
            settings,
            figures: COMPARED.iter().map(figure).collect(),
            errors: match failed {
                _ if rows.is_empty() => Cell::Absent,
                failed if failed.fract() == 0.0 => Cell::Count(failed as u64),
                failed => Cell::Number(failed),
            },
            runs: trials.successful().count(),
            verdict: successful.filter_map(|run| run.verdict).max(),
            is_pareto: false,
            is_feasible: None,
            converged: trials.config.convergence.is_some().then(|| {
                let is_converged = trials.is_converged();
                if is_converged { format!("after {count}") } else { "no".to_owned() }
            }),
        }
    }

    /// Summarizes a cell of `results`.
    pub fn of_sweep(results: &Results, cell: &sweep::Cell) -> Self {
        let has_conditions = !results.sweep.filters.is_empty();
        Self {
            is_pareto: cell.is_pareto,
            is_feasible: has_conditions.then_some(cell.is_feasible),
            ..Self::from_trials(
                settings_of(results, cell),
                &cell.trials,
                [&cell.rows, &cell.steady_rows],
            )
        }
    }
}

/// Returns the cells of a sweep, by their settings.
pub fn of_sweep(results: &Results) -> Table {
    let rows: Vec<CellRow> =
        results.in_order().into_iter().map(|cell| CellRow::of_sweep(results, cell)).collect();
    let trials = match results.config.runs {
        1 => String::new(),
        runs => format!(", means over up to {runs} runs"),
    };
    Table {
        title: format!("Sweep (latencies in ms{trials})"),
        ..cells(settings(results), results.config.confidence_level, &rows)
    }
}

/// Returns `rows` without the columns that no cell has, after the columns of the `settings`; intervals are
/// those at the confidence `level`.
pub fn cells(settings: Vec<Column>, level: f64, rows: &[CellRow]) -> Table {
    let level = percent(level);
    let mut columns = settings;
    for it in &COMPARED {
        let column = it.column();
        let interval = format!("{}, {level}% interval", column.label_with_unit());
        columns.extend([column, Column::text(interval).detail()]);
    }
    columns.extend([
        Column::number("Errors").fixed(),
        Column::number("Runs").extra(),
        Column::number("Client").fixed().spare(6),
        Column::number("Pareto").spare(5),
        Column::number("Feasible"),
        Column::number("Converged").spare(7),
    ]);
    let row = |row: &CellRow| {
        let mut cells = row.settings.clone();
        for Figure { mean, few, interval } in &row.figures {
            let value = mean.map_or(Cell::Absent, |mean| match few {
                Some(percent) => Cell::Few(mean, *percent),
                None => Cell::Number(mean),
            });
            cells.extend([
                value,
                interval.map_or(Cell::Absent, |[low, high]| Cell::Between(low, high)),
            ]);
        }
        let runs = if row.runs > 1 { Cell::Count(row.runs as u64) } else { Cell::Absent };
        cells.extend([
            row.errors.clone(),
            runs,
            Cell::text(row.verdict.map(Verdict::as_str)),
            Cell::text(row.is_pareto.then_some("*")),
            Cell::text(row.is_feasible.map(|it| if it { "yes" } else { "no" })),
            Cell::text(row.converged.clone()),
        ]);
        cells
    };
    Table {
        columns,
        rows: rows.iter().map(row).collect(),
        scope: " in each run",
        ..Table::default()
    }
    .without_empty_columns()
}

/// Returns the parts of the mean request latency of each cell; `None` if none is divided.
pub fn times(results: &Results) -> Option<Table> {
    let divided = |cell: &'_ sweep::Cell| cell.divided(tag::REQUEST_LATENCY).cloned();
    let all = results.cells.iter().filter_map(divided);
    let stages: BTreeSet<Stage> =
        all.flat_map(|row| row.parts.into_iter().map(|part| part.stage)).collect();
    let row = |cell: &sweep::Cell| {
        let found: Option<DividedRow> = divided(cell);
        let parts = || found.iter().flat_map(|found| &found.parts);
        let mut cells = settings_of(results, cell);
        cells.push(found.as_ref().map(|found| found.mean_ms.mean).into());
        cells.extend(stages.iter().map(|stage| {
            Cell::from(parts().find(|part| part.stage == *stage).map(|part| part.mean_ms.mean))
        }));
        cells
    };
    let mut columns = settings(results);
    columns.push(Column::number("all").fixed());
    columns.extend(stages.iter().map(|stage| Column::number(stage.title()).fixed()));
    (!stages.is_empty()).then(|| Table {
        title: "Time Breakdown (mean request latency in ms)".to_owned(),
        columns,
        rows: results.in_order().into_iter().map(row).collect(),
        ..Table::default()
    })
}

fn settings(results: &Results) -> Vec<Column> {
    setting_names(&results.sweep).map(Column::label).collect()
}

/// Returns the headings of [`CellRow::settings`]: that of the scenario, if cells are scenarios, and the names
/// of the settings that are varied.
pub(crate) fn setting_names(sweep: &sweep::Config) -> impl Iterator<Item = String> {
    let name = sweep.has_scenarios.then(|| "scenario".to_owned());
    name.into_iter().chain(sweep.parameters.iter().map(|it| it.name.replace('_', " ")))
}

/// Returns their values in a cell.
fn settings_of(results: &Results, cell: &sweep::Cell) -> Vec<Cell> {
    let name = results.sweep.scenario(&cell.variation).map(|name| Cell::Text(name.to_owned()));
    let value = |path: &str| cell.variation.values.get(path).cloned();
    let parameters = results.sweep.parameters.iter();
    let values = parameters.map(|it| value(&it.path).map_or(Cell::Absent, Cell::Setting));
    name.into_iter().chain(values).collect()
}
