//! The results of several runs: a line for each, then a table over all of them.

mod search;

use std::collections::BTreeMap;
use std::fmt::Write as _;

use base::redact::printable;
use base::setting::Named as _;
use base::statistics::Estimate;
use base::units::Unit;
use measure::metrics::metric::{Metric, MetricResult};
use measure::metrics::tag;
use measure::metrics::{ConsoleGroup, Registry, Verdict};
use measure::multi_run::aggregate::{Dispersion, Row};
use measure::multi_run::convergence::Mode;
use measure::multi_run::curve::{self, Evaluation, Fit, GOOD_FIT};
use measure::multi_run::knee::{self, Saturation};
use measure::multi_run::limit::{Limit, Standing};
use measure::multi_run::sweep::{Cell, Choice, Results, plain};
use measure::multi_run::{Filter, Load, Range, RunResult, Trials, space};

use super::layout::{Cell as Text, Column, Table, numbers};
use super::panel;
use super::style::Style;
use super::vocabulary::{Term, shown_unit, with_unit};
use crate::tables::cells;
use crate::tables::format::{number, percent};
use crate::tables::too_few;

pub(crate) use search::conclusion;
pub use search::{render_point, render_search};

/// Renders the title of the run `nth` with a `label`; `all` is the number of runs, if it is known.
#[must_use]
pub fn name(nth: u64, all: Option<u64>, label: &str) -> String {
    format!("{}: {label}", numbered(nth, all))
}

fn numbered(nth: u64, all: Option<u64>) -> String {
    let of = all.map(|all| format!(" of {all}")).unwrap_or_default();
    format!("Run {nth}{of}")
}

/// Renders the line about the run `nth`, printed when it ends; `all` is the number of runs, if it
/// is known, and `standing` whether it meets the conditions of its sweep.
#[must_use]
pub fn render_run(
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
    // As the tables and files have it; decisions use the rate in the long run.
    let is_throughput = |it: &&MetricResult| it.metric.tag == tag::REQUEST_THROUGHPUT;
    let throughput = run.results.iter().find(is_throughput).map(|it| it.stats.avg);
    let health = run.verdict.map(|verdict| format!(", client {}", verdict.as_str()));
    let conditions = standing.map(|standing| format!(", conditions: {}", standing.as_str()));
    format!(
        "{name} ({directory}): {} requests, {} failed, {} requests/s{}{}\n",
        count(tag::REQUEST_COUNT),
        count(tag::ERROR_REQUEST_COUNT),
        number(throughput),
        conditions.unwrap_or_default(),
        health.unwrap_or_default(),
    )
}

/// Renders how many runs of a resumed sweep are finished, of `all` if their number is known.
#[must_use]
pub fn render_finished(finished: u64, all: Option<u64>) -> String {
    match all {
        Some(all) => format!("{finished} of {all} runs are finished\n"),
        None => format!("{finished} runs are finished\n"),
    }
}

/// Renders that the time was over when `started` runs had started, of `all` if their number is
/// known.
#[must_use]
pub fn render_rest(started: u64, all: Option<u64>) -> String {
    let rest = match all {
        Some(all) => format!("{} of {all} runs were not started", all.saturating_sub(started)),
        None => "the sweep was not complete".to_owned(),
    };
    format!("{rest} within --sweep-max-duration; use --resume to continue it\n\n")
}

/// Renders the statistics over the runs, and which runs are excluded from them.
#[must_use]
pub fn render(trials: &Trials, rows: &[Row], style: Style) -> String {
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
    let runs = trials.successful();
    let doubted = doubted(runs.map(|run| (run.verdict, run.member.run_label.clone())));
    if let Some(doubted) = doubted {
        let _ = writeln!(notes, "{doubted}");
    }
    if !notes.is_empty() {
        text.push_str(&notes);
        text.push('\n');
    }
    text
}

/// States in which of these runs the client was not valid, by verdict; `None` if it was in all.
fn doubted(runs: impl Iterator<Item = (Option<Verdict>, String)>) -> Option<String> {
    let mut names: BTreeMap<Verdict, Vec<String>> = BTreeMap::new();
    for (verdict, name) in runs {
        if let Some(verdict) = verdict.filter(|verdict| *verdict != Verdict::Valid) {
            names.entry(verdict).or_default().push(name);
        }
    }
    let of = |(verdict, names): (Verdict, Vec<String>)| {
        format!("{} in {}", verdict.as_str(), names.join(", "))
    };
    let list: Vec<String> = names.into_iter().rev().map(of).collect();
    (!list.is_empty())
        .then(|| format!("Client health: {}; aiperf explain DIRECTORY tells why.", list.join("; ")))
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
    let percent = percent(trials.config.confidence_level);
    let runs = if successful == 1 { "1 run".to_owned() } else { format!("{successful} runs") };
    let title = format!("aiperf | Over {runs}, with {percent}% confidence intervals");
    let columns = [Column::label("Metric")].into_iter().chain(numbers(&[
        ("mean", 0),
        ("ci low", 0),
        ("ci high", 0),
        ("std", 1),
        ("cv", 4),
        ("min", 2),
        ("max", 3),
    ]));
    let mut shown: Vec<&Row> = rows.iter().filter(|row| is_shown(row)).collect();
    // A stable sort: the mean of a metric stays before its percentiles.
    shown.sort_by_key(|row| row.metric.order.unwrap_or(u32::MAX));
    let few = shown.iter().filter(|row| trials.are_few(row.metric.tag, &row.statistic.to_string()));
    let note = of_few(few.map(|row| row.statistic.to_string()));
    let rows = shown.iter().map(|row| statistics(trials, row));
    Table::new(&title, columns).rows(rows).render(style) + &note
}

/// Whether the row has the mean of a metric in the main table, or the p99 of a latency.
fn is_shown(row: &Row) -> bool {
    let is_tail = row.statistic == "p99" && row.metric.display_unit == Unit::Milliseconds;
    row.metric.group == ConsoleGroup::Default
        && row.metric.is_on_console(false)
        && (row.statistic == "avg" || is_tail)
}

fn statistics(trials: &Trials, row: &Row) -> [Text; 8] {
    let across = row.across;
    let is_few = trials.are_few(row.metric.tag, &row.statistic.to_string());
    let spread = |field: fn(&Dispersion) -> f64| number(across.spread.as_ref().map(field)).into();
    let cv = across.spread.and_then(|spread| spread.cv);
    let statistic = if row.statistic == "avg" { "" } else { " p99" };
    let term = Term::for_metric(row.metric);
    let label = |name: &str| with_unit(&format!("{name}{statistic}"), term.unit);
    [
        Text::or(label(term.name), label(term.short)),
        bracketed(number(Some(across.mean)), is_few).into(),
        spread(|spread| spread.ci_low),
        spread(|spread| spread.ci_high),
        spread(|spread| spread.std),
        cv.map_or_else(|| "N/A".to_owned(), |cv| format!("{:.1}%", cv * 100.0)).into(),
        number(Some(across.min)).into(),
        number(Some(across.max)).into(),
    ]
}

/// Renders the cells of a sweep, and why runs are missing from it.
#[must_use]
pub fn render_sweep(results: &Results, style: Style) -> String {
    let has_results = results.cells.iter().any(|cell| !cell.rows.is_empty());
    let mut text = String::from("\n");
    if has_results {
        text.push_str(&Table::render_table(&cells::of_sweep(results), style));
    }
    text.extend(cells::times(results).map(|table| Table::render_table(&table, style)));
    let said = |paragraph: &str| {
        let lines = paragraph.lines().flat_map(|line| panel::wrapped(line, style.width.into()));
        lines.map(|line| line + "\n").collect::<String>() + "\n"
    };
    text.extend(findings(results).iter().map(|paragraph| said(paragraph)));
    text
}

/// Returns what is said of the cells below the tables, in paragraphs.
fn findings(results: &Results) -> Vec<String> {
    let undivided = |cell: &Cell| {
        let reason = cell.time_breakdown.as_ref()?.as_ref().err()?;
        let name = name_of(results, cell);
        Some(format!("{name}: no time breakdown: {}", printable(reason)))
    };
    let cells = results.in_order();
    let failed = cells.iter().filter_map(|cell| {
        Some(format!("{}: {}", name_of(results, cell), printable(cell.error()?)))
    });
    let complete = cells.iter().filter(|cell| cell.error().is_none());
    let doubted = doubted(complete.map(|cell| (cell.verdict(), name_of(results, cell))));
    let notes: Vec<String> =
        failed.chain(doubted).chain(results.cells.iter().filter_map(undivided)).collect();
    let mut found = Vec::new();
    if !notes.is_empty() {
        found.push(notes.join("\n"));
    }
    found.extend(conclusions(results));
    if let Some(beyond) = results.beyond() {
        found.push(beyond.sentences().collect::<Vec<_>>().join(" "));
    }
    if let Some(limits) = &results.limit {
        let text = limit(limits, results.config.confidence_level);
        found.push(format!("{text} Required: {}.", conditions(results)));
    }
    found
}

/// Returns the conditions that cells must meet, in words.
pub fn conditions(results: &Results) -> String {
    results.sweep.filters.iter().map(required).collect::<Vec<_>>().join(", ")
}

/// Returns what a sweep was made for, in paragraphs: where throughput stops growing, the best
/// combinations, and what a recipe computes. The limit of a load is not among them.
pub(crate) fn conclusions(results: &Results) -> Vec<String> {
    let mut found = Vec::new();
    if let (Some(saturation), Choice::Knee(range)) = (&results.saturation, &results.sweep.choice) {
        let level = percent(results.config.confidence_level);
        let mut text = saturated(saturation, range, &level);
        if let Some((watts, from)) = results.saturated_watts().zip(saturation.saturated_from) {
            let name = range.dimension.name();
            let watts = number(Some(watts));
            // Writing to a string cannot fail.
            let _ = write!(text, " The GPUs draw {watts} W at {name} {from}.");
        }
        found.push(text);
    }
    found.extend(results.space.as_ref().map(best_combinations));
    found.extend(results.sweep.evaluation.as_ref().and_then(|it| evaluated(results, it)));
    found
}

/// The best combinations of a search over several settings.
fn best_combinations(found: &space::History) -> String {
    let best: Vec<&space::Point> = found.best().into_iter().filter(|it| it.is_feasible).collect();
    let described = |point: &&space::Point| {
        let values = found.parameters.iter().filter_map(|parameter| {
            let value = point.variation.values.get(&parameter.path)?;
            Some(format!("{} {}", parameter.name.replace('_', " "), plain(value)))
        });
        let objectives = found.config.objectives.iter().zip(&point.tried.objectives);
        let objectives = objectives.filter_map(|(objective, value)| {
            let row = Registry::row(objective.metric)?;
            Some(format!(
                "{} {} {}",
                Term::for_metric(row).name,
                objective.statistic,
                measured(row, *value)
            ))
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
                percent(*threshold),
            );
            let name = Term::for_metric(row).name;
            Some(curve::degraded(&points, *threshold).map_or_else(
                || format!("{name} {statistic} at no concurrency {beyond}."),
                |(load, value)| {
                    let value = measured(row, Some(value));
                    format!("{name} {statistic} {beyond} from concurrency {load} on: it is {value} there.")
                },
            ))
        }
        Evaluation::Prefill => {
            let points = curve::points(results, 0, tag::TIME_TO_FIRST_TOKEN, "avg");
            let fit = Fit::to_points(&points)?;
            Some(prefill(&fit, &points))
        }
        Evaluation::Breach => {
            let name = |cell: &&&Cell| printable(&cell.variation.label);
            let cells = results.in_order();
            let highest = cells.iter().rfind(|cell| cell.is_feasible);
            let lowest = cells.iter().find(|cell| !cell.is_feasible);
            let conditions = conditions(results);
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

/// Share of a time by which it changes over all lengths without depending on them for any purpose.
const NEGLIGIBLE: f64 = 0.01;

/// Describes a fit of the time to first token over the input length.
fn prefill(fit: &Fit, points: &[(f64, f64)]) -> String {
    let widths = fit.half_widths.as_deref().unwrap_or_default();
    let average = || {
        let mean = points.iter().map(|(_, time)| time).sum::<f64>() / points.len() as f64;
        format!("is {} ms on average", number(Some(mean)))
    };
    if let (true, Some(slope), Some(width)) =
        (fit.is_flat(), fit.coefficients.first(), widths.first())
    {
        // Microseconds with one digit, of which zero does not have a sign.
        let slope = (1e4 * slope).round() / 10.0 + 0.0;
        return format!(
            "Time to first token does not depend on the input length (slope {slope:.1} ± {:.1} µs a token, 95% \
             interval): it {}.",
            1e3 * width,
            average(),
        );
    }
    // With little noise, even a slope of nanoseconds a token is more than chance.
    if fit.r_squared().is_some() && fit.change(points) < NEGLIGIBLE {
        return format!(
            "Time to first token does not depend on the input length: it changes by less than 1% over all \
             lengths, and {}.",
            average(),
        );
    }
    let width = |at: usize| widths.get(at).map(|width| format!(" (±{width:.4})"));
    let last = fit.coefficients.len().saturating_sub(1);
    let terms = fit.coefficients.iter().enumerate().rev().filter(|(_, it)| **it != 0.0);
    let terms: Vec<String> = terms
        .map(|(at, coefficient)| {
            let power = ["", " * ISL", " * ISL^2"].get(last - at).unwrap_or(&"");
            format!("{coefficient:.4}{}{power}", width(at).unwrap_or_default())
        })
        .collect();
    let quality = match fit.r_squared() {
        None => "; any so many points are on such a curve, so more lengths are needed to see whether it is one"
            .to_owned(),
        Some(found) => {
            let doubt = if found < GOOD_FIT { ", which is not a good fit" } else { "" };
            format!(", with R^2 = {found:.3}{doubt}; 95% intervals in parentheses")
        }
    };
    format!("Time to first token in ms = {}{quality}.", terms.join(" + "))
}

/// Where throughput stops growing, with intervals at the `level` in percent.
fn saturated(saturation: &Saturation, range: &Range, level: &str) -> String {
    let name = range.dimension.name();
    let ends = |low, high| format!("{} to {}", number(Some(low)), number(Some(high)));
    let interval = |estimate: &Estimate| {
        let [low, high] = estimate.interval();
        ends(low, high)
    };
    let found = match (&saturation.throughput, saturation.saturated_from, &saturation.knee) {
        (Some(most), Some(from), Some(knee)) => {
            let [lower, higher] = saturation.around.unwrap_or([0.0, from]);
            format!(
                "Throughput grows up to {name} {} ({level}% interval: {}), where it reaches {} \
                 requests/s ({}). The next lower and higher loads tried are {lower} and {higher}.",
                number(Some(knee.value)),
                ends(knee.low, knee.high),
                number(Some(most.value)),
                interval(most),
            )
        }
        (Some(most), Some(from), None) if saturation.grows_until.is_some() => format!(
            "Throughput grows up to between {name} {} and {from}, the next lower and higher loads tried; it \
             reaches {} requests/s ({level}% interval: {}).",
            saturation.grows_until.unwrap_or_default(),
            number(Some(most.value)),
            interval(most),
        ),
        (Some(most), Some(from), None) => format!(
            "Throughput is {} requests/s ({level}% interval: {}) from {name} {from} on, the lowest \
             one tried.",
            number(Some(most.value)),
            interval(most),
        ),
        _ => saturation.at_least.as_ref().map_or_else(String::new, |most| {
            format!(
                "Throughput is at least {} requests/s ({level}% interval: {}), the highest that was tried.",
                number(Some(most.value)),
                interval(most),
            )
        }),
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

/// Puts a percentile of too few requests in parentheses.
fn bracketed(text: String, is_few: bool) -> String {
    if is_few { format!("({text})") } else { text }
}

/// States how many requests the percentiles in parentheses need; empty without any.
fn of_few(statistics: impl Iterator<Item = impl AsRef<str>>) -> String {
    let percents = statistics.filter_map(|it| it.as_ref().strip_prefix('p')?.parse().ok());
    too_few(percents, " in each run").map(|text| text + "\n").unwrap_or_default()
}

/// The name of a cell's directory, with its settings unless they are the name.
fn name_of(results: &Results, cell: &Cell) -> String {
    let directory = printable(&cell.variation.directory);
    if !results.sweep.is_search() {
        return directory;
    }
    format!("{} ({directory})", printable(&results.sweep.described(&cell.variation)))
}

/// Renders that each load has at least `least` requests, more than the `asked` ones, so that it can be
/// told at the confidence `level`; empty if they were enough.
#[must_use]
pub fn render_longer(longer: Option<(u64, u64, f64)>) -> String {
    longer.map_or_else(String::new, |(least, asked, level)| {
        format!(
            "Each load sends at least {least} requests instead of {asked}, which the conditions need \
             to be told with {}% confidence\n",
            percent(level)
        )
    })
}

/// A value in its unit; fractions are percentages.
fn measured(metric: &Metric, value: Option<f64>) -> String {
    match (metric.display_unit, value) {
        (_, None) => "N/A".to_owned(),
        (Unit::Ratio, Some(share)) => format!("{:.1}%", share * 100.0),
        (Unit::Percent, value) => format!("{}%", number(value)),
        (unit, value) => format!("{} {}", number(value), shown_unit(unit.label())),
    }
}

/// The title of a statistic that a condition limits, as in `Time to first token p95`.
fn title(filter: &Filter) -> String {
    of_statistic(filter.row().map_or("", |row| Term::for_metric(row).name), filter)
}

/// The name of the statistic that a condition limits, of a metric with this `header`.
fn of_statistic(header: &str, filter: &Filter) -> String {
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

/// A condition in words, as in `Time to first token p95 below 200.00 ms`.
pub(super) fn required(filter: &Filter) -> String {
    let limit = filter.row().map(|row| measured(row, Some(filter.threshold))).unwrap_or_default();
    format!("{} {} {limit}", title(filter), filter.op.in_words())
}

/// The highest load that meets the conditions, as an interval with this confidence.
fn limit(limit: &Limit, confidence: f64) -> String {
    let percent = percent(confidence);
    let best = limit.best.filter(|best| Some(*best) != limit.low);
    let best = best.map(|best| format!(", best tested {}", best.amount())).unwrap_or_default();
    match (limit.low, limit.high) {
        (Some(low), Some(high)) => format!(
            "The limit is between {} and {} ({percent}% interval){best}.",
            low.amount(),
            high.amount()
        ),
        (Some(low), None) => {
            let low = low.amount();
            let above = limit.above.map(Load::amount).filter(|above| *above > low);
            let between = above.map(|above| format!("between {low} and {above}, but "));
            format!(
                "The limit is at least {low}; {}how much higher it is cannot be told with {percent}% \
                 confidence{best}.",
                between.unwrap_or_default()
            )
        }
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
mod tests;
