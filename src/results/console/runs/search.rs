//! The results of a search for a load.

use base::redact::printable;
use measure::metrics::Verdict;
use measure::multi_run::evidence::{Basis, Condition, tail};
use measure::multi_run::history::End;
use measure::multi_run::search::{History, More, Point};
use measure::multi_run::{Dimension, Filter};

use super::{bracketed, limit, limited, measured, of_few, of_statistic, required, title};
use crate::console::layout::{Column, Table};
use crate::console::panel;
use crate::console::style::Style;
use crate::console::vocabulary::{Term, with_unit};
use crate::tables::format::number;

/// Renders the line about one load of a search, printed when a run of it has ended.
#[must_use]
pub fn render_point(history: &History, point: &Point) -> String {
    let verdict = point.verdict.map(|verdict| format!(", client {}", verdict.as_str()));
    let error = point.error.as_ref().map(|error| format!("; {}", printable(error)));
    let objective = objective(history, point);
    let observed = history.filters.iter().zip(&point.observed);
    let observed = observed.map(|(filter, (value, _))| limited(filter, *value));
    let parts: Vec<String> = std::iter::once(objective).chain(observed).collect();
    let runs = match point.tried.level.runs {
        0 | 1 => String::new(),
        runs => format!(" after {runs} runs"),
    };
    let left = history.runs_left().map(|more| format!("; {}", left(&more)));
    format!(
        "At {}: {} ({}{runs}){}{}{}\n",
        point.tried.load,
        parts.join(", "),
        point.tried.standing.as_str(),
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
    let value = point.tried.objective;
    history
        .config
        .row()
        .map(|row| format!("{} {}", row.header, measured(row, value)))
        .unwrap_or_default()
}

/// Renders the loads that a search tried, and its conclusion.
#[must_use]
pub fn render_search(history: &History, style: Style) -> String {
    let best = history.best().filter(|best| best.is_feasible).map(|best| best.variation.index);
    let (varied, short) = match history.config.range.dimension {
        Dimension::Concurrency => ("Concurrency", "Load"),
        Dimension::RequestRate => ("Request Rate (requests/s)", "Rate (/s)"),
    };
    let goal = history.config.row();
    let mut columns = vec![Column::label(varied).or(short)];
    columns.extend(goal.map(|row| {
        let name = |header: &str| with_unit(header, row.display_unit.label());
        Column::number(name(row.header)).or(name(row.short_header))
    }));
    columns.extend(history.filters.iter().map(|filter| {
        let short = filter.row().map_or("", |row| Term::for_metric(row).short);
        Column::number(title(filter)).or(of_statistic(short, filter))
    }));
    columns.extend([
        Column::number("Conditions").or("Met"),
        Column::number("Client").spare(2),
        Column::number(""),
        Column::number("Files").spare(1),
    ]);
    let rows = history.by_load().into_iter().map(|point| {
        let is_best = Some(point.variation.index) == best;
        let mut row = vec![point.tried.load.amount().to_string()];
        row.extend(goal.map(|_| number(point.tried.objective)));
        let observed = history.filters.iter().zip(&point.observed);
        row.extend(observed.zip(&point.tried.few).map(|((filter, (value, _)), is_few)| {
            let shown = filter.row().map(|row| measured(row, *value)).unwrap_or_default();
            bracketed(shown, *is_few)
        }));
        row.extend([
            point.tried.standing.as_str().to_owned(),
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
        _ => {
            Table::new(&format!("aiperf | Search for {searched}"), columns).rows(rows).render(style)
        }
    };
    let few = history.points.iter().flat_map(|point| history.filters.iter().zip(&point.tried.few));
    let few = few.filter(|(_, is_few)| **is_few).map(|(filter, _)| &*filter.statistic);
    let table = table + &of_few(few);
    let conclusion = panel::wrapped(&conclusion(history), style.width.into()).join("\n");
    format!("\n{table}\n{conclusion}\n\n")
}

/// The search's conclusion, in a few sentences.
pub(crate) fn conclusion(history: &History) -> String {
    let best = history.best().filter(|best| best.is_feasible);
    let conditions: Vec<String> = history.filters.iter().map(required).collect();
    let conditions = conditions.join(", ");
    let found = match best {
        Some(best) => {
            let observed =
                history.filters.iter().zip(&best.observed).zip(&best.tried.level.evidence);
            let observed: Vec<String> = observed
                .map(|((filter, (value, _)), evidence)| {
                    let interval = evidence.interval(filter, tail(history.confidence));
                    let interval = interval.map(|ends| interval_of(filter, ends));
                    limited(filter, *value) + &interval.unwrap_or_default()
                })
                .collect();
            let what = if history.config.wants_highest() {
                let load = best.tried.load;
                let (name, amount) = (load.dimension().name(), load.amount());
                format!("Highest {name}: {amount}, with {}", objective(history, best))
            } else {
                let value = history.config.row().map(|row| {
                    format!("Maximum {}: {}", row.header, measured(row, best.tried.objective))
                });
                format!("{} at {}", value.unwrap_or_default(), best.tried.load)
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
            most.tried.load
        ),
        (End::NoneFeasible, _, Some(least)) => format!(
            " {}, the lowest load to try, is not feasible; lower {lower} or relax the conditions.",
            least.tried.load,
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
    match Condition::from_filter(filter).basis {
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
        " At {} the client was {verdict} in all runs ({}), {doubt}; aiperf explain DIRECTORY tells why.",
        point.tried.load, point.tried.level.runs
    )
}
