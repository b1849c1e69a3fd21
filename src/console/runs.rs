//! The results of several runs: a line for each, then a table over all of them.

use std::collections::BTreeSet;
use std::fmt::Write as _;

use super::figures;
use super::format::number;
use super::style::Style;
use super::table::narrowest;
use crate::metrics::metric::Metric;
use crate::metrics::tag;
use crate::metrics::time_breakdown::Stage;
use crate::metrics::{ConsoleGroup, MetricTag, Registry, Verdict};
use crate::multi_run::aggregate::{Dispersion, Row};
use crate::multi_run::convergence::Mode;
use crate::multi_run::curve::{self, Evaluation, Fit, GOOD_FIT};
use crate::multi_run::evidence::{Basis, Condition, tail};
use crate::multi_run::knee::{self, Saturation};
use crate::multi_run::limit::{Limit, Standing};
use crate::multi_run::search::{End, History, More, Point};
use crate::multi_run::sweep::{Cell, Choice, Results, plain};
use crate::multi_run::{Dimension, Filter, Range, RunResult, Trials, space};
use crate::redact::printable;
use crate::setting::Named as _;
use crate::statistics::Estimate;
use crate::units::Unit;

/// Renders the title of the run `nth` with a `label`; `all` is the number of runs, if it is known.
#[must_use]
pub(crate) fn name(nth: u64, all: Option<u64>, label: &str) -> String {
    format!("{}: {label}", numbered(nth, all))
}

fn numbered(nth: u64, all: Option<u64>) -> String {
    let of = all.map(|all| format!(" of {all}")).unwrap_or_default();
    format!("Run {nth}{of}")
}

/// Renders the line about the run `nth`, printed when it ends; `all` is the number of runs, if it
/// is known, and `standing` whether it meets the conditions of its sweep.
#[must_use]
pub(crate) fn render_run(
    run: &RunResult,
    nth: u64,
    all: Option<u64>,
    standing: Option<Standing>,
) -> String {
    let name = numbered(nth, all);
    let directory = printable(&run.directory.display().to_string());
    if let Some(failure) = &run.failure {
        let why = printable(failure.message());
        return format!("{name} is excluded ({directory}): {why}\n");
    }
    let count = |tag| run.average(tag).unwrap_or(0.0);
    let health = run.verdict.map(|verdict| format!(", client {}", verdict.as_str()));
    let conditions = standing.map(|standing| format!(", conditions: {}", standing.as_str()));
    format!(
        "{name} ({directory}): {} requests, {} failed, {} requests/sec{}{}\n",
        count(tag::REQUEST_COUNT),
        count(tag::ERROR_REQUEST_COUNT),
        number(run.average(tag::REQUEST_THROUGHPUT)),
        conditions.unwrap_or_default(),
        health.unwrap_or_default(),
    )
}

/// Renders how many runs of a resumed sweep are finished, of `all` if their number is known.
#[must_use]
pub(crate) fn render_finished(finished: u64, all: Option<u64>) -> String {
    match all {
        Some(all) => format!("{finished} of {all} runs are finished\n"),
        None => format!("{finished} runs are finished\n"),
    }
}

/// Renders that the time was over when `started` runs had started, of `all` if their number is
/// known.
#[must_use]
pub(crate) fn render_rest(started: u64, all: Option<u64>) -> String {
    let rest = match all {
        Some(all) => format!("{} of {all} runs were not started", all.saturating_sub(started)),
        None => "the sweep was not complete".to_owned(),
    };
    format!("{rest} within --sweep-max-duration; use --resume to continue it\n\n")
}

/// Renders the statistics over the runs, and which runs are excluded from them.
#[must_use]
pub(crate) fn render(trials: &Trials, rows: &[Row], style: Style) -> String {
    let successful = trials.successful().count();
    let mut text = match successful {
        0 => "No run was completed, so there are no statistics over runs.\n".to_owned(),
        1 => "Only one run was completed, so there are no confidence intervals.\n".to_owned(),
        _ => String::new(),
    };
    text.push('\n');
    if successful > 0 {
        text.push_str(&table(trials, rows, successful, style));
        text.push('\n');
    }
    let mut notes = String::new();
    if let Some(note) = converged(trials) {
        // Writing to a string cannot fail.
        let _ = writeln!(notes, "{note}");
    }
    for (run, failure) in trials.failed() {
        let (label, error) = (&run.member.run_label, printable(failure.message()));
        // Writing to a string cannot fail.
        let _ = writeln!(notes, "{label} is excluded: {error}");
    }
    for run in trials.successful() {
        let doubt = run.verdict.filter(|verdict| *verdict != Verdict::Valid);
        if let Some(verdict) = doubt {
            let (label, verdict) = (&run.member.run_label, verdict.as_str());
            let _ = writeln!(
                notes,
                "{label}: client {verdict}; its own console output has the reasons."
            );
        }
    }
    if !notes.is_empty() {
        text.push_str(&notes);
        text.push('\n');
    }
    text
}

/// Why no further run was made, if there is a condition for it.
fn converged(trials: &Trials) -> Option<String> {
    let condition = trials.config.convergence.as_ref()?;
    let count = trials.runs.len();
    let begin = if trials.is_converged() {
        format!("Converged after {count} of at most {} runs", trials.config.runs)
    } else {
        format!("Not converged after {count} runs")
    };
    let subject = match condition.mode {
        Mode::CiWidth | Mode::Cv => {
            format!("{} of {} {}", condition.mode.name(), condition.metric, condition.statistic)
        }
        Mode::Distribution => format!("p-value of the distribution of {}", condition.metric),
    };
    let observed = trials.convergence.and_then(|convergence| convergence.observed);
    let observed =
        observed.map_or_else(|| "does not have a value".to_owned(), |it| format!("is {it:.4}"));
    let side = if condition.mode == Mode::Distribution { "above" } else { "below" };
    Some(format!("{begin}: the {subject} {observed}; it must be {side} {}.", condition.threshold))
}

fn table(trials: &Trials, rows: &[Row], successful: usize, style: Style) -> String {
    let percent = number_of_percent(trials.config.confidence_level);
    let runs = if successful == 1 { "1 run".to_owned() } else { format!("{successful} runs") };
    let title = format!("aiperf | Over {runs}, with {percent}% confidence intervals");
    let header = ["Metric", "mean", "ci low", "ci high", "std", "cv", "min", "max"];
    let mut shown: Vec<&Row> = rows.iter().filter(|row| is_shown(row)).collect();
    // A stable sort: the mean of a metric stays before its percentiles.
    shown.sort_by_key(|row| row.metric.order.unwrap_or(u32::MAX));
    figures(&title, header, shown.into_iter().map(cells), style)
}

/// Whether the row has the mean of a metric in the main table, or the p99 of a latency.
fn is_shown(row: &Row) -> bool {
    let is_tail = row.statistic == "p99" && row.metric.display_unit == Unit::Milliseconds;
    row.metric.group == ConsoleGroup::Default
        && row.metric.is_on_console(false)
        && (row.statistic == "avg" || is_tail)
}

fn cells(row: &Row) -> [String; 8] {
    let across = row.across;
    let spread = |field: fn(&Dispersion) -> f64| number(across.spread.as_ref().map(field));
    let cv = across.spread.and_then(|spread| spread.cv);
    let statistic = if row.statistic == "avg" { "" } else { " p99" };
    [
        format!("{}{statistic} ({})", row.metric.header, row.metric.display_unit),
        number(Some(across.mean)),
        spread(|spread| spread.ci_low),
        spread(|spread| spread.ci_high),
        spread(|spread| spread.std),
        cv.map_or_else(|| "N/A".to_owned(), |cv| format!("{:.1}%", cv * 100.0)),
        number(Some(across.min)),
        number(Some(across.max)),
    ]
}

/// Formats a fraction as a percentage without trailing zeros: `95`, `99.5`.
fn number_of_percent(share: f64) -> String {
    let text = format!("{:.2}", share * 100.0);
    text.trim_end_matches('0').trim_end_matches('.').to_owned()
}

/// Renders the cells of a sweep, and why runs are missing from it.
#[must_use]
pub(crate) fn render_sweep(results: &Results, style: Style) -> String {
    let has = |column: &&SweepColumn| results.cells.iter().any(|cell| column.of(cell).is_some());
    let mut columns: Vec<&SweepColumn> = SWEEP_COLUMNS.iter().filter(has).collect();
    let has_results = results.cells.iter().any(|cell| !cell.rows.is_empty());
    let mut left_out = Vec::new();
    for &spare in SPARE_COLUMNS {
        let (header, rows) = sweep_table(results, &columns);
        let widths = narrowest(&header, &rows);
        if widths.iter().sum::<usize>() + widths.len() <= usize::from(style.width) + 1 {
            break;
        }
        if let Some(at) = columns.iter().position(|column| column.header == spare) {
            left_out.push(columns.remove(at).header);
        }
    }
    let mut text = String::from("\n");
    if has_results {
        let trials = match results.config.runs {
            1 => String::new(),
            runs => format!(", means over up to {runs} runs"),
        };
        let title = format!("aiperf | Sweep (latencies in ms{trials})");
        let (header, rows) = sweep_table(results, &columns);
        text.push_str(&figures(&title, header, rows.into_iter(), style));
        if !left_out.is_empty() {
            // Writing to a string cannot fail.
            let _ = writeln!(
                text,
                "Left out for lack of width: {}; see the files.",
                left_out.join(", ")
            );
        }
        text.push('\n');
    }
    text.push_str(&times(results, style));
    let undivided = |cell: &Cell| {
        let reason = cell.time_breakdown.as_ref()?.as_ref().err()?;
        let name = printable(&cell.variation.directory);
        Some(format!("{name}: no time breakdown: {}", printable(reason)))
    };
    let notes = results.cells.iter().filter_map(note);
    let notes: Vec<String> = notes.chain(results.cells.iter().filter_map(undivided)).collect();
    for note in &notes {
        // Writing to a string cannot fail.
        let _ = writeln!(text, "{note}");
    }
    if !notes.is_empty() {
        text.push('\n');
    }
    if let (Some(saturation), Choice::Knee(range)) = (&results.saturation, &results.sweep.choice) {
        let level = number_of_percent(results.config.confidence_level);
        let mut found = saturated(saturation, range, &level);
        if let Some((watts, from)) = results.saturated_watts().zip(saturation.saturated_from) {
            let name = range.dimension.name();
            let watts = number(Some(watts));
            let _ = write!(found, " The GPUs draw {watts} W at {name} {from}.");
        }
        let _ = writeln!(text, "{found}\n");
    }
    if let Some(beyond) = results.beyond() {
        let sentences: Vec<String> = beyond.sentences().collect();
        let _ = writeln!(text, "{}\n", sentences.join(" "));
    }
    if let Some(found) = &results.space {
        let _ = writeln!(text, "{}\n", best_combinations(found));
    }
    if let Some(found) = &results.limit {
        let conditions: Vec<String> = results.sweep.filters.iter().map(required).collect();
        let found = limit(found, results.config.confidence_level);
        let _ = writeln!(text, "{found} Required: {}.\n", conditions.join(", "));
    }
    if let Some(finding) = results.sweep.evaluation.as_ref().and_then(|it| evaluated(results, it)) {
        let _ = writeln!(text, "{finding}\n");
    }
    text
}

/// The head and the rows of the table of cells with these columns.
fn sweep_table(results: &Results, columns: &[&SweepColumn]) -> (Vec<String>, Vec<Vec<String>>) {
    let mut header = settings(results);
    header.extend(columns.iter().map(|column| column.header.to_owned()));
    header.extend(["errors", "client", "Pareto"].map(str::to_owned));
    let has_conditions = !results.sweep.filters.is_empty();
    header.extend(has_conditions.then(|| "feasible".to_owned()));
    let converges = results.config.convergence.is_some();
    header.extend(converges.then(|| "converged".to_owned()));
    let row = |cell: &Cell| {
        let mut row = settings_of(results, cell);
        row.extend(columns.iter().map(|column| number(column.of(cell))));
        let errors = cell.value(tag::ERROR_REQUEST_COUNT, "avg").filter(|_| !cell.rows.is_empty());
        row.push(match (cell.rows.is_empty(), errors) {
            (true, _) => "N/A".to_owned(),
            (false, errors) => trimmed(errors.unwrap_or(0.0)),
        });
        row.push(cell.verdict().map_or("N/A", Verdict::as_str).to_owned());
        row.push(if cell.is_pareto { "*" } else { "" }.to_owned());
        let is_feasible = if cell.is_feasible { "yes" } else { "no" };
        row.extend(has_conditions.then(|| is_feasible.to_owned()));
        let (count, is_converged) = (cell.trials.runs.len(), cell.trials.is_converged());
        let ended = if is_converged { format!("after {count}") } else { "no".to_owned() };
        row.extend(converges.then_some(ended));
        row
    };
    (header, results.cells.iter().map(row).collect())
}

/// The best combinations of a search over several settings.
fn best_combinations(found: &space::History) -> String {
    let best: Vec<&space::Point> = found.best().into_iter().filter(|it| it.is_feasible).collect();
    let described = |point: &&space::Point| {
        let values = found.parameters.iter().filter_map(|parameter| {
            let value = point.variation.values.get(&parameter.path)?;
            Some(format!("{} {}", parameter.name.replace('_', " "), plain(value)))
        });
        let objectives = found.config.objectives.iter().zip(&point.objectives);
        let objectives = objectives.filter_map(|(objective, value)| {
            let row = Registry::row(objective.metric)?;
            Some(format!("{} {} {}", row.header, objective.statistic, measured(row, *value)))
        });
        let values: Vec<String> = values.collect();
        let objectives: Vec<String> = objectives.collect();
        format!("{} ({})", values.join(", "), objectives.join(", "))
    };
    let list: Vec<String> = best.iter().map(described).collect();
    match list.as_slice() {
        [] => "No combination tried meets the conditions.".to_owned(),
        [only] => format!("Best of {} combinations: {only}.", found.points.len()),
        _ => format!(
            "Of {} combinations, no other is better in all objectives than: {}.",
            found.points.len(),
            list.join("; ")
        ),
    }
}

/// What a recipe computes from the cells, unless it is a table.
fn evaluated(results: &Results, evaluation: &Evaluation) -> Option<String> {
    match evaluation {
        Evaluation::Degradation { metric, statistic, threshold } => {
            let row = Registry::row(*metric)?;
            let points = curve::points(results, 0, *metric, statistic);
            let (lowest, baseline) = *points.first()?;
            let beyond = format!(
                "exceeds that of concurrency {lowest}, {}, by more than {}%",
                measured(row, Some(baseline)),
                number_of_percent(*threshold),
            );
            Some(match curve::degraded(&points, *threshold) {
                Some((load, value)) => format!(
                    "{} {statistic} {beyond} from concurrency {load} on: it is {} there.",
                    row.header,
                    measured(row, Some(value)),
                ),
                None => format!("{} {statistic} at no concurrency {beyond}.", row.header),
            })
        }
        Evaluation::Prefill => {
            let points = curve::points(results, 0, tag::TIME_TO_FIRST_TOKEN, "avg");
            let fit = Fit::of(&points)?;
            let terms: Vec<String> = fit
                .coefficients
                .iter()
                .rev()
                .zip(["", " * ISL", " * ISL^2"])
                .map(|(coefficient, power)| format!("{coefficient:.4}{power}"))
                .collect();
            let doubt = if fit.r_squared < GOOD_FIT { ", which is not a good fit" } else { "" };
            Some(format!(
                "Time to First Token in ms = {}, with R^2 = {:.3}{doubt}.",
                terms.join(" + "),
                fit.r_squared,
            ))
        }
        Evaluation::Breach => {
            let name = |cell: &&Cell| printable(&cell.variation.label);
            let highest = results.cells.iter().rfind(|cell| cell.is_feasible);
            let lowest = results.cells.iter().find(|cell| !cell.is_feasible);
            let conditions: Vec<String> = results.sweep.filters.iter().map(required).collect();
            let conditions = conditions.join(", ");
            let highest = highest.as_ref().map_or_else(|| "none".to_owned(), name);
            let lowest = lowest.as_ref().map_or_else(|| "none".to_owned(), name);
            Some(format!(
                "Highest cell that meets the conditions ({conditions}): {highest}. Lowest that does \
                 not: {lowest}."
            ))
        }
        Evaluation::Decode | Evaluation::Pareto => None,
    }
}

/// Renders the parts of the mean request latency of each cell, if any is divided.
fn times(results: &Results, style: Style) -> String {
    let divided = |cell: &'_ Cell| cell.divided(tag::REQUEST_LATENCY).cloned();
    let all = || results.cells.iter().filter_map(divided);
    let stages: BTreeSet<Stage> =
        all().flat_map(|row| row.parts.into_iter().map(|part| part.stage)).collect();
    if stages.is_empty() {
        return String::new();
    }
    let mut header = settings(results);
    header.push("all".to_owned());
    header.extend(stages.iter().map(|stage| stage.title().to_owned()));
    let rows = results.cells.iter().map(|cell| {
        let found = divided(cell);
        let mut row = settings_of(results, cell);
        row.push(number(found.as_ref().map(|found| found.mean_ms.mean)));
        row.extend(stages.iter().map(|stage| {
            let parts = found.iter().flat_map(|found| &found.parts);
            number(
                parts.into_iter().find(|part| part.stage == *stage).map(|part| part.mean_ms.mean),
            )
        }));
        row
    });
    figures("aiperf | Time Breakdown (mean request latency in ms)", header, rows, style) + "\n"
}

/// Returns the names of the settings that are varied.
fn settings(results: &Results) -> Vec<String> {
    results.sweep.parameters.iter().map(|parameter| parameter.name.replace('_', " ")).collect()
}

/// Returns their values in a cell.
fn settings_of(results: &Results, cell: &Cell) -> Vec<String> {
    let value = |path| cell.variation.values.get(path).map(plain).unwrap_or_default();
    let parameters = results.sweep.parameters.iter();
    parameters.map(|parameter| printable(&value(&parameter.path))).collect()
}

/// Where throughput stops growing, with intervals at the `level` in percent.
fn saturated(saturation: &Saturation, range: &Range, level: &str) -> String {
    let name = range.dimension.name();
    let interval = |estimate: &Estimate| {
        let [low, high] = estimate.interval();
        format!("{} to {}", number(Some(low)), number(Some(high)))
    };
    let found = match (&saturation.throughput, saturation.saturated_from, &saturation.knee) {
        (Some(most), Some(from), Some(knee)) => {
            let until = saturation.grows_until.unwrap_or_default();
            format!(
                "Throughput grows up to {name} {} ({level}% interval: {}), where it reaches {} \
                 requests/sec ({}). The next lower and higher loads tried are {until} and {from}.",
                number(Some(knee.value)),
                interval(knee),
                number(Some(most.value)),
                interval(most),
            )
        }
        (Some(most), Some(from), None) => format!(
            "Throughput is {} requests/sec ({level}% interval: {}) from {name} {from} on, the lowest \
             one tried.",
            number(Some(most.value)),
            interval(most),
        ),
        _ => String::new(),
    };
    let end = match &saturation.end {
        Some(knee::End::Saturated) => String::new(),
        Some(knee::End::Growing) => {
            let [_, upper] = range.dimension.flags();
            format!(
                "Throughput still grows at {name} {}, the highest load to try; raise {upper} to find \
                 where it stops.",
                range.max
            )
        }
        Some(knee::End::MostLevels) => {
            format!("The sweep ended after {} loads.", knee::MAX_LEVELS)
        }
        Some(knee::End::Unknown(why)) => {
            format!("The sweep could not continue: throughput is not known at {}", printable(why))
        }
        None => "The sweep was not complete.".to_owned(),
    };
    [found, end].into_iter().filter(|part| !part.is_empty()).collect::<Vec<_>>().join(" ")
}

/// A column of the table of a sweep.
struct SweepColumn {
    header: &'static str,
    tag: MetricTag,
    statistic: &'static str,
    /// Whether it is of the steady state, not of the whole phase.
    is_steady: bool,
}

const SWEEP_COLUMNS: &[SweepColumn] = &[
    column("req/s", tag::REQUEST_THROUGHPUT, "avg"),
    SweepColumn { is_steady: true, ..column("steady req/s", tag::REQUEST_THROUGHPUT, "avg") },
    column("tokens/s", tag::OUTPUT_TOKEN_THROUGHPUT, "avg"),
    column("TTFT p50", tag::TIME_TO_FIRST_TOKEN, "p50"),
    column("TTFT p99", tag::TIME_TO_FIRST_TOKEN, "p99"),
    column("ITL p50", tag::INTER_TOKEN_LATENCY, "p50"),
    column("ITL p99", tag::INTER_TOKEN_LATENCY, "p99"),
    column("good req/s", tag::GOODPUT, "avg"),
];

/// The columns that a narrow terminal does without, the first one first.
const SPARE_COLUMNS: &[&str] = &["steady req/s", "ITL p50", "TTFT p50", "tokens/s"];

const fn column(header: &'static str, tag: MetricTag, statistic: &'static str) -> SweepColumn {
    SweepColumn { header, tag, statistic, is_steady: false }
}

impl SweepColumn {
    /// Returns its value in `cell`.
    fn of(&self, cell: &Cell) -> Option<f64> {
        let of = if self.is_steady { Cell::steady_value } else { Cell::value };
        of(cell, self.tag, self.statistic)
    }
}

/// Formats a count, or a mean of counts.
fn trimmed(value: f64) -> String {
    if value.fract() == 0.0 { format!("{value:.0}") } else { format!("{value:.2}") }
}

/// What is missing from a cell, or may be wrong with it.
fn note(cell: &Cell) -> Option<String> {
    let name = printable(&cell.variation.directory);
    match (cell.error(), cell.verdict()) {
        (Some(error), _) => Some(format!("{name}: {}", printable(error))),
        (None, Some(verdict)) if verdict != Verdict::Valid => Some(format!(
            "{name}: client {}; its own console output has the reasons.",
            verdict.as_str()
        )),
        _ => None,
    }
}

/// Renders that each load has at least `least` requests, more than the `asked` ones, so that it can be
/// told at the confidence `level`; empty if they were enough.
#[must_use]
pub(crate) fn render_longer(longer: Option<(u64, u64, f64)>) -> String {
    longer.map_or_else(String::new, |(least, asked, level)| {
        format!(
            "Each load sends at least {least} requests instead of {asked}, which the conditions need \
             to be told with {}% confidence\n",
            number_of_percent(level)
        )
    })
}

/// Renders the line about one load of a search, printed when a run of it has ended.
#[must_use]
pub(crate) fn render_point(history: &History, point: &Point) -> String {
    let verdict = point.verdict.map(|verdict| format!(", client {}", verdict.as_str()));
    let error = point.error.as_ref().map(|error| format!("; {}", printable(error)));
    let objective = objective(history, point);
    let observed = history.filters.iter().zip(&point.observed);
    let observed = observed.map(|(filter, (value, _))| limited(filter, *value));
    let parts: Vec<String> = std::iter::once(objective).chain(observed).collect();
    let runs = match point.level.runs {
        0 | 1 => String::new(),
        runs => format!(" after {runs} runs"),
    };
    let left = history.runs_left().map(|more| format!("; {}", left(&more)));
    format!(
        "At {}: {} ({}{runs}){}{}{}\n",
        point.load,
        parts.join(", "),
        point.standing.as_str(),
        verdict.unwrap_or_default(),
        error.unwrap_or_default(),
        left.unwrap_or_default(),
    )
}

/// An estimate of what is left, as in `about 3 more runs, 12 s`.
fn left(more: &More) -> String {
    match more {
        More::Runs { runs: 1, seconds } => format!("about 1 more run, {}", time(*seconds)),
        More::Runs { runs, seconds } => format!("about {runs} more runs, {}", time(*seconds)),
        More::Requests { load, requests, seconds } => {
            format!("about {requests} requests at {load}, {}", time(*seconds))
        }
    }
}

/// A time to two digits or so: seconds, minutes or hours.
fn time(seconds: f64) -> String {
    match seconds {
        ..1.0 => "less than 1 s".to_owned(),
        ..100.0 => format!("{seconds:.0} s"),
        ..6000.0 => format!("{:.0} min", seconds / 60.0),
        _ => format!("{:.0} h", seconds / 3600.0),
    }
}

/// The value that is maximized with its name, as in `Goodput 19.50 requests/sec`.
fn objective(history: &History, point: &Point) -> String {
    let value = point.objective;
    history
        .config
        .row()
        .map(|row| format!("{} {}", row.header, measured(row, value)))
        .unwrap_or_default()
}

/// A value in its unit; fractions are percentages.
fn measured(metric: &Metric, value: Option<f64>) -> String {
    match (metric.display_unit, value) {
        (_, None) => "N/A".to_owned(),
        (Unit::Ratio, Some(share)) => format!("{:.1}%", share * 100.0),
        (Unit::Percent, value) => format!("{}%", number(value)),
        (unit, value) => format!("{} {unit}", number(value)),
    }
}

/// The title of a statistic that a condition limits, as in `Time to First Token p95`.
fn title(filter: &Filter) -> String {
    let header = filter.row().map_or("", |row| row.header);
    if filter.statistic == "avg" {
        header.to_owned()
    } else {
        format!("{header} {}", filter.statistic)
    }
}

/// What a condition limits, with its value.
fn limited(filter: &Filter, value: Option<f64>) -> String {
    let shown = filter.row().map(|row| measured(row, value)).unwrap_or_default();
    format!("{} {shown}", title(filter))
}

/// A condition in words, as in `Time to First Token p95 below 200.00 ms`.
pub(super) fn required(filter: &Filter) -> String {
    let limit = filter.row().map(|row| measured(row, Some(filter.threshold))).unwrap_or_default();
    format!("{} {} {limit}", title(filter), filter.op.in_words())
}

/// Renders the loads that a search tried, and its conclusion.
#[must_use]
pub(crate) fn render_search(history: &History, style: Style) -> String {
    let best = history.best().filter(|best| best.is_feasible).map(|best| best.variation.index);
    let varied = match history.config.range.dimension {
        Dimension::Concurrency => "Concurrency",
        Dimension::RequestRate => "Request Rate (requests/sec)",
    };
    let goal = history.config.row();
    let mut header = vec![varied.to_owned()];
    header.extend(goal.map(|row| format!("{} ({})", row.header, row.display_unit)));
    header.extend(history.filters.iter().map(title));
    header.extend(["Conditions", "Client", "", "Files"].map(str::to_owned));
    let rows = history.by_load().into_iter().map(|point| {
        let is_best = Some(point.variation.index) == best;
        let mut row = vec![point.load.amount().to_string()];
        row.extend(goal.map(|_| number(point.objective)));
        let observed = history.filters.iter().zip(&point.observed);
        row.extend(observed.map(|(filter, (value, _))| {
            filter.row().map(|row| measured(row, *value)).unwrap_or_default()
        }));
        row.extend([
            point.standing.as_str().to_owned(),
            point.verdict.map_or("N/A", Verdict::as_str).to_owned(),
            if is_best { "best" } else { "" }.to_owned(),
            point.variation.directory.clone(),
        ]);
        row
    });
    let searched = match goal {
        _ if history.config.wants_highest() => format!("Highest {varied}"),
        Some(row) => format!("Maximum {}", row.header),
        None => String::new(),
    };
    let table = match history.points.as_slice() {
        [] => String::new(),
        _ => figures(&format!("aiperf | Search for {searched}"), header, rows, style),
    };
    format!("\n{table}\n{}\n\n", conclusion(history))
}

/// The search's conclusion, in a few sentences.
fn conclusion(history: &History) -> String {
    let best = history.best().filter(|best| best.is_feasible);
    let conditions: Vec<String> = history.filters.iter().map(required).collect();
    let conditions = conditions.join(", ");
    let found = match best {
        Some(best) => {
            let observed = history.filters.iter().zip(&best.observed).zip(&best.level.evidence);
            let observed: Vec<String> = observed
                .map(|((filter, (value, _)), evidence)| {
                    let interval = evidence.interval(filter, tail(history.confidence));
                    let interval = interval.map(|ends| interval_of(filter, ends));
                    limited(filter, *value) + &interval.unwrap_or_default()
                })
                .collect();
            let what = if history.config.wants_highest() {
                format!("Highest {} with {}", best.load, objective(history, best))
            } else {
                let value = history.config.row().map(|row| {
                    format!("Maximum {}: {}", row.header, measured(row, best.objective))
                });
                format!("{} at {}", value.unwrap_or_default(), best.load)
            };
            format!("{what}; {} (required: {conditions}).", observed.join(", "))
        }
        None => format!("No load tried is feasible: {conditions} required."),
    };
    let [lower, upper] = history.config.range.dimension.flags();
    let ended = match (history.end(), history.feasible_max(), history.infeasible_min()) {
        (End::AllFeasible, Some(most), _) => format!(
            " {}, the highest load to try, is feasible; a higher {upper} may give \
             more.",
            most.load
        ),
        (End::NoneFeasible, _, Some(least)) => format!(
            " {}, the lowest load to try, is not feasible; lower {lower} or relax the conditions.",
            least.load,
        ),
        (End::Failed, most, _) => {
            let beyond = if most.is_some() { " The limit was not found." } else { "" };
            let why = history.failure.as_deref().unwrap_or_default();
            format!("{beyond} The search could not continue at {why}")
        }
        (End::MostPoints, ..) => format!(
            " The search ended after the maximum number of loads. {}",
            limit(&history.limit, history.confidence)
        ),
        (End::Cancelled, ..) if history.limit.low.is_none() && history.limit.high.is_none() => {
            " The search was interrupted.".to_owned()
        }
        (End::Cancelled, ..) => {
            format!(" The search was interrupted. {}", limit(&history.limit, history.confidence))
        }
        _ => format!(" {}", limit(&history.limit, history.confidence)),
    };
    let doubt: String = history.doubted().map(doubted).collect();
    let more = history.more().map(|more| match more {
        More::Runs { .. } => {
            format!(" To narrow it takes {}; continue with --resume.", left(&more))
        }
        More::Requests { requests, .. } => {
            format!(" To tell it takes {}; use --request-count {requests}.", left(&more))
        }
    });
    found + &ended + &doubt + &more.unwrap_or_default()
}

/// The interval of what a condition limits, in parentheses.
fn interval_of(filter: &Filter, [low, high]: [f64; 2]) -> String {
    let share = |share: f64| format!("{:.2}%", share * 100.0);
    match Condition::of(filter).basis {
        Basis::Share => {
            let what = if filter.statistic == "avg" { "violate it" } else { "are beyond" };
            format!(" ({} to {} of requests {what})", share(low), share(high))
        }
        Basis::Mean => format!(" ({} to {})", number(Some(low)), number(Some(high))),
        Basis::Exact => String::new(),
    }
}

/// That the client could not keep up in any run of a load at the limit.
fn doubted(point: &Point) -> String {
    let verdict = point.verdict.map_or("unknown", Verdict::as_str);
    let doubt = if point.is_feasible {
        "so the load may have been lower"
    } else {
        "so a missed condition may be the client's doing and not the server's"
    };
    format!(
        " At {} the client was {verdict} in all runs ({}), {doubt}; its console output has the reasons.",
        point.load, point.level.runs
    )
}

/// The highest load that meets the conditions, as an interval with this confidence.
fn limit(limit: &Limit, confidence: f64) -> String {
    let percent = number_of_percent(confidence);
    let best = limit.best.filter(|best| Some(*best) != limit.low);
    let best = best.map(|best| format!(", best tested {}", best.amount())).unwrap_or_default();
    match (limit.low, limit.high) {
        (Some(low), Some(high)) => format!(
            "The limit is between {} and {} ({percent}% interval){best}.",
            low.amount(),
            high.amount()
        ),
        (Some(low), None) => format!(
            "The limit is at least {}; how much higher it is cannot be told with {percent}% \
             confidence{best}.",
            low.amount()
        ),
        (None, Some(high)) => format!(
            "The limit is below {}; how much lower it is cannot be told with {percent}% \
             confidence{best}.",
            high.amount()
        ),
        (None, None) => {
            format!("The limit cannot be told with {percent}% confidence{best}.")
        }
    }
}

#[cfg(test)]
mod tests {
    use std::path::PathBuf;

    use serde_json::json;
    use uuid::Uuid;

    use super::*;
    use crate::metrics::metric::{Distribution, MetricResult, Stats};
    use crate::multi_run::evidence::Evidence;
    use crate::multi_run::filter::Comparison;
    use crate::multi_run::limit::{Level, Next, Standing};
    use crate::multi_run::recipe::Recipe;
    use crate::multi_run::search::Config;
    use crate::multi_run::{self, Failure, Load, Member, Variation, sweep};

    /// A load with 1,000 requests that are all good, or half of them.
    fn level(load: Load, is_feasible: bool) -> Level {
        let mean = if is_feasible { 0.0 } else { 0.5 };
        let good = Evidence { mean, weight: 1000.0, requests: 1000 };
        let success = Evidence { mean: 0.0, weight: 1.0, requests: 0 };
        let evidence = vec![good, success];
        Level { load, runs: 1, is_believed: true, can_repeat: true, evidence }
    }

    fn history(points: &[(u64, f64, bool)]) -> History {
        let point =
            |(index, (concurrency, goodput, is_feasible)): (u64, &(u64, f64, bool))| Point {
                variation: Variation::of_search(index, Load::Concurrency(*concurrency).values()),
                load: Load::Concurrency(*concurrency),
                objective: Some(*goodput),
                observed: vec![(Some(if *is_feasible { 1.0 } else { 0.5 }), *is_feasible)],
                level: level(Load::Concurrency(*concurrency), *is_feasible),
                standing: Standing::CannotTell,
                is_feasible: *is_feasible,
                verdict: None,
                error: None,
                pace: Some((2.0, 100.0)),
            };
        let range =
            Range { dimension: Dimension::Concurrency, min: 1.0, max: 8.0, warmup_follows: true };
        let mut found = History {
            confidence: 0.95,
            limit: Limit { low: None, high: None, best: None },
            config: Config {
                recipe: Recipe::MaxGoodput,
                range,
                objective: tag::GOODPUT,
                slos: Vec::new(),
            },
            filters: vec![Filter::new(
                tag::GOOD_REQUEST_FRACTION,
                "avg",
                Comparison::AtLeast,
                0.95,
            )],
            points: (0..).zip(points).map(point).collect(),
            failure: None,
        };
        found.judge();
        found
    }

    #[test]
    fn a_search_says_what_it_found() {
        let mut found = history(&[(1, 10.0, true), (2, 19.5, true), (3, 12.0, false)]);
        assert_eq!(
            conclusion(&found),
            "Maximum Goodput: 19.50 requests/sec at concurrency 2; GoodRequestFraction 100.0% (0.00% to \
             0.37% of requests violate it) (required: GoodRequestFraction at least 95.0%). The limit is \
             between 2 and 3 (95% interval)."
        );
        let table = render_search(&found, Style::FILE);
        let best = table.lines().find(|line| line.contains("best")).unwrap();
        assert!(best.contains("19.50") && best.contains("search_iter_0001"), "{table}");
        let line = render_point(&found, &found.points[2]);
        assert_eq!(
            line,
            "At concurrency 3: Goodput 12.00 requests/sec, GoodRequestFraction 50.0% (missed)\n"
        );
        found.config.recipe = Recipe::MaxConcurrency;
        let text = conclusion(&found);
        assert!(text.starts_with("Highest concurrency 2 with Goodput 19.50"), "{text}");
        let all = conclusion(&history(&[(8, 80.0, true)]));
        assert!(all.contains(" concurrency 8, the highest load"), "{all}");
        let none = conclusion(&history(&[(1, 1.0, false)]));
        assert!(none.starts_with("No load") && none.contains("the lowest load to try"), "{none}");
        let nothing = render_search(&history(&[]), Style::FILE);
        assert!(nothing.contains("interrupted"), "{nothing}");
        let open = history(&[(2, 10.0, true), (8, 12.0, false)]);
        let text = conclusion(&open);
        let more =
            "between 2 and 8 (95% interval). To narrow it takes about 3 more runs, 6 s; continue";
        assert!(text.contains(more), "{text}");
    }

    #[test]
    fn a_limit_that_cannot_be_told_says_what_would_tell_it() {
        let mut found = history(&[(1, 10.0, true), (2, 12.0, false)]);
        found.points[1].level.evidence[0] = Evidence { mean: 0.07, weight: 200.0, requests: 200 };
        found.points[1].level.can_repeat = false;
        found.judge();
        assert!(!found.is_told());
        let text = conclusion(&found);
        assert!(text.contains("at least 1; how much higher it is cannot be told"), "{text}");
        // Of n requests, 0.07 n - 2 count, and the chance of 0.625% is 2.5 standard deviations of
        // 0.218 √n: 0.02 n - 2 = 0.545 √n for n = 924 by the normal approximation.
        let (_, rest) = text.split_once("about ").unwrap();
        let needed: u64 = rest.split(' ').next().unwrap().parse().unwrap();
        assert!((800..=1300).contains(&needed), "{text}");
        assert!(text.contains(&format!("use --request-count {needed}")), "{text}");
    }

    #[test]
    fn what_an_invalid_client_misses_does_not_count() {
        let mut found = history(&[(1, 10.0, true), (2, 12.0, false)]);
        found.points[1].verdict = Some(Verdict::Invalid);
        found.points[1].level = Level { is_believed: false, ..found.points[1].level.clone() };
        found.judge();
        assert_eq!(found.next(), Ok(Next::Again(Load::Concurrency(2))));
        found.points[1].level.can_repeat = false;
        found.judge();
        assert!(!found.is_told());
        let text = conclusion(&found);
        assert!(
            text.contains("At concurrency 2 the client was invalid in all runs (1), so a missed"),
            "{text}"
        );
    }

    /// Returns the result of a run with these values of all metrics in the table.
    fn run(variation: &Variation, throughput: f64, latency: f64) -> RunResult {
        let unknown = Failure::Client(String::new());
        let member = Member::new(Uuid::nil(), 0, Some(variation.clone()));
        let result = |tag, avg: f64| {
            let distribution = Distribution { p50: avg, p99: 4.0 * avg, ..Distribution::default() };
            let stats = Stats { avg, instant: None, distribution: Some(distribution) };
            MetricResult { metric: Registry::row(tag).unwrap(), stats }
        };
        RunResult {
            failure: None,
            results: vec![
                result(tag::REQUEST_THROUGHPUT, throughput),
                result(tag::OUTPUT_TOKEN_THROUGHPUT, 128.0 * throughput),
                result(tag::GOODPUT, 0.9 * throughput),
                result(tag::TIME_TO_FIRST_TOKEN, latency),
                result(tag::INTER_TOKEN_LATENCY, latency / 10.0),
                result(tag::ERROR_REQUEST_COUNT, 3.0),
            ],
            steady_results: vec![result(tag::REQUEST_THROUGHPUT, 1.02 * throughput)],
            verdict: Some(Verdict::Invalid),
            ..RunResult::failed(member, PathBuf::new(), unknown)
        }
    }

    fn swept() -> Results {
        let path = "phases.profiling.concurrency".to_owned();
        let concurrency = sweep::Parameter { name: "concurrency".to_owned(), path };
        let sweep = sweep::Config { parameters: vec![concurrency], ..sweep::Config::default() };
        let cells = (0..3_u64).map(|index| {
            let variation = sweep.cell(index, &[json!(10_u64.pow(index as u32))]);
            let mut trials = Trials::new(multi_run::Config::default(), Uuid::nil());
            let latency = 21.5 * 3.0_f64.powi(index as i32);
            trials.add(run(&variation, 35.87 * (index + 1) as f64, latency));
            (variation, trials)
        });
        let cells: Vec<_> = cells.collect();
        Results::of(&multi_run::Config::default(), &sweep, Uuid::nil(), cells)
    }

    #[test]
    fn a_sweep_fits_into_80_columns_without_its_spare_columns() {
        let rendered = |width| render_sweep(&swept(), Style { width, colour: false });
        let narrow = rendered(80);
        insta::assert_snapshot!(narrow);
        assert!(narrow.lines().all(|line| line.chars().count() <= 80), "{narrow}");
        let wide = rendered(140);
        assert!(SWEEP_COLUMNS.iter().all(|column| wide.contains(column.header)), "{wide}");
        assert!(!wide.contains("Left out"), "{wide}");
    }

    #[test]
    fn levels_have_no_digits_too_many() {
        assert_eq!([0.95, 0.995, 0.5, 0.9].map(number_of_percent), ["95", "99.5", "50", "90"]);
    }
}
