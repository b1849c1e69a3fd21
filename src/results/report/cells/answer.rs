//! What a sweep was made for: the sentences above its figures, and the figures.

use base::statistics::Estimate;
use measure::metrics::Registry;
use measure::metrics::metric::Objective;
use measure::metrics::tag::{self, MetricTag};
use measure::multi_run::Load;
use measure::multi_run::sweep::{Choice, Results};

use super::charts::lower;
use super::{Cell, Comparison, percent};
use crate::artifacts::rebuild;
use crate::console::Term;
use crate::console::runs::{conclusion, conclusions, conditions};
use crate::report::chart::{Interval, Mark, rounded};
use crate::report::document::{Figure, Level, Notice};

/// Maximum number of cells that a figure names.
const MAX_NAMED: usize = 6;

/// The highest load that meets the conditions, or that at which throughput stops growing.
pub(super) struct Answer {
    /// On the axis of the load.
    pub(super) mark: Mark,
    /// The requests per second at which throughput stops growing.
    pub(super) throughput: Option<Estimate>,
}

/// Returns the limit and the knee of a sweep, as far as they are known.
pub(super) fn answers(results: &Results) -> Vec<Answer> {
    let limit = results.load_limit().and_then(|limit| {
        let best = limit.best?;
        let end = |load: Option<Load>, open| load.map_or(open, Load::amount);
        let low = end(limit.low, f64::NEG_INFINITY);
        let interval = Interval { low, high: end(limit.high, f64::INFINITY) };
        let mark = Mark::x(best.amount(), "limit").within(Some(interval));
        Some(Answer { mark, throughput: None })
    });
    let knee = results.saturation.as_ref().and_then(|found| {
        let knee = found.knee?;
        let interval = Interval { low: knee.low, high: knee.high };
        let mark = Mark::x(knee.value, "knee").within(Some(interval));
        Some(Answer { mark, throughput: found.throughput })
    });
    limit.into_iter().chain(knee).collect()
}

/// Returns what was found, most important first.
pub(super) fn sentences(results: &Results) -> Vec<Notice> {
    // The conclusion of a search has the limit.
    let answer = limited(results).map(|answer| match &results.search {
        Some(history) => {
            let least = if history.is_told() { Level::Good } else { Level::Doubtful };
            Notice { level: answer.level.max(least), text: conclusion(history) }
        }
        None => answer,
    });
    let mut notices: Vec<Notice> = answer.into_iter().collect();
    let is_told = match &results.sweep.choice {
        Choice::Knee(_) => results.saturation.as_ref().is_some_and(|found| found.knee.is_some()),
        Choice::Known | Choice::Search(_) => true,
        Choice::Space(_) => results.cells.iter().any(|cell| cell.is_feasible),
    };
    let level = if is_told { Level::Good } else { Level::Doubtful };
    let texts = conclusions(results).into_iter().filter(|text| !text.is_empty());
    notices.extend(texts.map(|text| Notice { level, text }));
    notices
}

/// The highest load that meets the conditions; `None` without conditions on a load.
fn limited(results: &Results) -> Option<Notice> {
    let limit = results.load_limit()?;
    let conditions = conditions(results);
    let Some(best) = limit.best else {
        let text = format!("No load tried meets the objectives: {conditions}.");
        return Some(Notice { level: Level::Bad, text });
    };
    let ends = [limit.low, limit.high].map(|load| load.map(Load::amount));
    let level = format!("{}% interval", percent(results.config.confidence_level));
    let (level, interval) = match ends {
        [Some(low), Some(high)] => (Level::Good, format!("{level}: {low} to {high}")),
        [Some(low), None] => (Level::Good, format!("{level}: {low} or more")),
        [None, Some(high)] => (Level::Doubtful, format!("{level}: less than {high}")),
        [None, None] => (Level::Doubtful, format!("no {level}")),
    };
    let (name, best) = (best.dimension().name(), best.amount());
    let text = format!(
        "The highest {name} that meets the objectives is {best} ({interval}): {conditions}."
    );
    Some(Notice { level, text })
}

/// Returns what was run, by the manifest of the first run that has one; the model; and what a request
/// must meet to be good.
pub(super) fn about(cells: &[Cell]) -> (Vec<(&'static str, String)>, String, Vec<Objective>) {
    let mut runs = cells.iter().flat_map(|cell| &cell.runs);
    let Some((run, start)) = runs.find_map(|run| rebuild::described(run)) else {
        return (Vec::new(), String::new(), Vec::new());
    };
    let model = run.setup.models.join(", ");
    let streaming = if run.streaming { ", streaming" } else { "" };
    let facts = vec![
        ("Model", model.clone()),
        ("Server", run.servers().join(", ")),
        ("Endpoint", format!("{}{streaming}", run.endpoint.name)),
        ("Input tokens", means(cells, tag::INPUT_SEQUENCE_LENGTH)),
        ("Output tokens", means(cells, tag::OUTPUT_SEQUENCE_LENGTH)),
        ("Start", start.map(crate::artifacts::local_second).unwrap_or_default()),
        ("Command", run.cli_command),
    ];
    let objectives = run.settings.objectives;
    (facts.into_iter().filter(|(_, value)| !value.is_empty()).collect(), model, objectives)
}

/// The mean of a metric, or from which to which it is in different cells.
fn means(cells: &[Cell], tag: MetricTag) -> String {
    let means = cells.iter().filter_map(|cell| cell.value(tag, "avg"));
    let low = means.clone().reduce(f64::min).map(rounded);
    let high = means.reduce(f64::max).map(rounded);
    match (low, high) {
        (Some(low), Some(high)) if low == high => format!("{low} (mean)"),
        (Some(low), Some(high)) => format!("{low} to {high} (means of the cells)"),
        _ => String::new(),
    }
}

impl Comparison {
    /// Returns the best value of each statistic, with its cell.
    pub(super) fn figures(&self) -> Vec<Figure> {
        let first_token = [(tag::TIME_TO_FIRST_TOKEN, "p99"), (tag::REQUEST_LATENCY, "p99")];
        let best = [
            self.best(tag::REQUEST_THROUGHPUT, "avg", "Highest"),
            self.best(tag::OUTPUT_TOKEN_THROUGHPUT, "avg", "Highest"),
        ];
        let latencies = first_token.map(|(tag, statistic)| self.best(tag, statistic, "Lowest"));
        best.into_iter().chain(latencies).flatten().collect()
    }

    /// Returns the best value of a statistic: of the cells that cannot be told from the best one, that
    /// of the first, which has the lowest load. Cells that miss a condition only count if all do.
    fn best(&self, tag: MetricTag, statistic: &'static str, which: &str) -> Option<Figure> {
        let metric = Registry::row(tag)?;
        let sign = if which == "Highest" { 1.0 } else { -1.0 };
        let has_feasible = self.cells.iter().any(|cell| cell.row.is_feasible == Some(true));
        let counts = |cell: &&Cell| !has_feasible || cell.row.is_feasible == Some(true);
        let found: Vec<(&Cell, f64)> = (self.cells.iter().filter(counts))
            .filter_map(|cell| Some((cell, cell.value(tag, statistic)?)))
            .collect();
        let (best, _) = *found.iter().max_by(|(_, a), (_, b)| (sign * a).total_cmp(&(sign * b)))?;
        let of_best = best.interval(tag, statistic);
        let is_alike = |cell: &Cell| {
            let overlap = |a: Interval, b: Interval| a.low <= b.high && b.low <= a.high;
            let both = of_best.zip(cell.interval(tag, statistic));
            std::ptr::eq(cell, best) || both.is_some_and(|(a, b)| overlap(a, b))
        };
        let alike: Vec<(&Cell, f64)> =
            found.into_iter().filter(|(cell, _)| is_alike(cell)).collect();
        let (cell, value) = *alike.first()?;
        let level = percent(self.level);
        let interval = cell.interval(tag, statistic).and_then(Interval::text);
        let interval = interval.map(|text| format!(", {text} ({level}%)"));
        let labels: Vec<&str> = alike.iter().map(|(cell, _)| cell.label.as_str()).collect();
        let doubt = match labels.as_slice() {
            [_] => String::new(),
            [others @ .., last] if labels.len() <= MAX_NAMED => {
                format!("; {} and {last} cannot be told apart", others.join(", "))
            }
            _ => format!("; {} cells cannot be told apart", labels.len()),
        };
        let of = if statistic == "avg" { String::new() } else { format!(" {statistic}") };
        Some(Figure {
            title: format!("{which} {}{of}", lower(Term::for_metric(metric).name)),
            value,
            unit: Term::for_metric(metric).unit.to_owned(),
            detail: format!("at {}{}{doubt}", cell.name, interval.unwrap_or_default()),
        })
    }
}
