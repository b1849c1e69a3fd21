//! The tables of `aiperf capacity`.

use base::redact::printable;
use base::statistics::Bounded;
use base::statistics::service_curve::ServiceCurve;
use measure::metrics::Registry;
use measure::multi_run::Filter;
use measure::multi_run::capacity::{BEYOND, Demand, Model, Prediction};

use super::layout::{Cell, Column, Table, numbers};
use super::runs::required;
use super::style::Style;
use crate::tables::format::number;

/// Renders the model with the loads that it is fitted to.
#[must_use]
pub fn render(model: &Model, style: Style) -> String {
    let columns = [Column::label("Load")].into_iter().chain(numbers(&[
        ("in flight", 0),
        ("req/s", 0),
        ("latency (ms)", 0),
        ("fitted (ms)", 1),
        ("residual", 0),
    ]));
    let rows = model.residuals().map(|(level, residual)| {
        vec![
            printable(&level.label),
            number(Some(level.in_flight())),
            number(Some(level.rate)),
            number(Some(1e3 * level.seconds)),
            number(Some(1e3 * level.seconds / (1.0 + residual))),
            format!("{:+.1}%", 100.0 * residual),
        ]
    });
    let table = Table::new("aiperf | Capacity", columns).rows(rows).render(style);
    let percent = |error: f64| format!("{:.1}%", 100.0 * error);
    let other = model
        .other
        .map(|(curve, error)| format!("; {} would have {}", name(&curve), percent(error)));
    let (n, peak) = model.peak();
    let highest = match model.still_growing() {
        Some(rate) => format!(
            "at least {} requests/s, the highest that was tried; it still grew there.",
            number(Some(rate))
        ),
        None => format!(
            "{} requests/s{}, with {} in flight.",
            number(Some(peak.value)),
            interval(&peak),
            number(Some(n))
        ),
    };
    format!(
        "\n{table}\nCurve: {}: {}. Its error at a load that is left out is {}{}.\nHighest throughput: \
         {highest}\n\n",
        name(&model.curve),
        terms(model),
        percent(model.error),
        other.unwrap_or_default(),
    )
}

const fn name(curve: &ServiceCurve) -> &'static str {
    match curve {
        ServiceCurve::Scalability(_) => "the universal scalability law",
        ServiceCurve::Slots { .. } => "slots",
    }
}

/// Describes the coefficients of the curve with their intervals.
fn terms(model: &Model) -> String {
    let terms = model.terms();
    let column = |at: usize, decimals: usize| {
        let Some(Bounded { value, low, high }) = terms.get(at) else { return String::new() };
        format!("{value:.decimals$} ({low:.decimals$} to {high:.decimals$})")
    };
    // None of them is negative.
    let may_be_none = |at: usize| terms.get(at).is_some_and(|term| term.low <= 0.0);
    match model.curve {
        ServiceCurve::Scalability(_) if may_be_none(1) && may_be_none(2) => {
            format!(
                "{} ms, which does not measurably depend on the requests in flight",
                column(0, 2)
            )
        }
        ServiceCurve::Scalability(_) => format!(
            "{} ms for a request alone, contention {}, coherency {}",
            column(0, 2),
            column(1, 5),
            column(2, 7)
        ),
        ServiceCurve::Slots { slots, .. } if model.still_growing().is_some() => {
            format!("at least {slots:.1}, of {} ms", column(1, 2))
        }
        ServiceCurve::Slots { .. } => format!("{} of {} ms", column(0, 1), column(1, 2)),
    }
}

fn interval(predicted: &Bounded) -> String {
    if predicted.high.is_finite() {
        format!(" ({} to {})", number(Some(predicted.low)), number(Some(predicted.high)))
    } else {
        format!(" (at least {})", number(Some(predicted.low)))
    }
}

fn load(demand: Demand) -> String {
    match demand {
        Demand::Rate(rate) => format!("{rate} requests/s"),
        Demand::Users { count, think_seconds: 0.0 } => format!("{count} users"),
        Demand::Users { count, think_seconds } => {
            format!("{count} users that think for {think_seconds} s")
        }
    }
}

/// Renders what is predicted at a load, and whether it meets the objectives.
#[must_use]
pub fn render_prediction(
    demand: Demand,
    prediction: Option<&Prediction>,
    objectives: &[Filter],
    style: Style,
) -> String {
    let load = load(demand);
    let Some(prediction) = prediction else {
        return format!(
            "{load} is more than the server can do, or than {BEYOND} times the highest load that was \
             tried.\n\n"
        );
    };
    let row = |name: Cell, it: &Bounded| -> Vec<Cell> {
        let ends = [it.low, it.high]
            .map(|end| if end.is_finite() { number(Some(end)) } else { "unknown".to_owned() });
        let [low, high] = ends;
        vec![name, number(Some(it.value)).into(), low.into(), high.into()]
    };
    let mut rows: Vec<Vec<Cell>> =
        vec![vec!["In flight".into(), number(Some(prediction.in_flight)).into()]];
    let rate = Cell::from("Requests/s");
    rows.push(row(rate, &prediction.rate));
    for (metric, statistic, predicted) in &prediction.values {
        let Some(metric) = Registry::row(*metric) else { continue };
        let name = |header: &str| format!("{header} {statistic} ({})", metric.display_unit);
        let name = Cell::or(name(metric.header), name(metric.short_header));
        rows.push(row(name, predicted));
    }
    let columns = [Column::label("Metric")].into_iter();
    let columns = columns.chain(numbers(&[("predicted", 0), ("low", 0), ("high", 0)]));
    let title = format!("aiperf | Predicted with {load}");
    let beyond = if prediction.is_beyond {
        "No load as high was tried; ratios of percentiles are those of the highest one.\n"
    } else {
        ""
    };
    let met = objectives.iter().map(|filter| {
        let verb = if prediction.meets(filter) { "is met" } else { "is undecided" };
        format!("{} {verb}.\n", required(filter))
    });
    let met = met.collect::<Vec<_>>().concat();
    let table = Table::new(&title, columns).rows(rows).render(style);
    format!("{table}{beyond}{met}\n")
}

/// Renders how many users a replica can have, and how many replicas `users` need.
#[must_use]
pub fn render_replicas(
    [most, by_values]: [u64; 2],
    users: Option<u64>,
    think_seconds: f64,
    objectives: &[Filter],
) -> String {
    let conditions: Vec<String> = objectives.iter().map(required).collect();
    let conditions = conditions.join(", ");
    if most == 0 {
        return format!("Not even one user is shown to have {conditions}.\n\n");
    }
    let load = load(Demand::Users { count: most as f64, think_seconds });
    let replicas = users.map(|users| {
        let count = users.div_ceil(most);
        let noun = if count == 1 { "replica" } else { "replicas" };
        format!(" {users} users need {count} {noun}.")
    });
    let replicas = replicas.unwrap_or_default();
    let further = (by_values > most)
        .then(|| format!("; the predicted values without their intervals permit {by_values}"));
    let further = further.unwrap_or_default();
    format!("A replica can have up to {load} with {conditions}{further}.{replicas}\n\n")
}

/// Renders how the prediction can be confirmed.
#[must_use]
pub fn render_command(demand: Demand) -> String {
    let load = match demand {
        Demand::Rate(rate) => format!("--rate {rate}"),
        Demand::Users { count, think_seconds: 0.0 } => format!("--users {count}"),
        // The rate at which such users send depends on the server.
        Demand::Users { .. } => return String::new(),
    };
    format!(
        "To confirm it, add to `{load}`: `--confirm DIR -- FLAGS`, with the flags of the sweep without its \
         loads and its directory.\n\n"
    )
}

/// Renders a prediction beside the run that was to confirm it.
#[must_use]
pub fn render_confirmed(compared: &[(String, Bounded, f64, bool)], style: Style) -> String {
    let rows = compared.iter().map(|(name, predicted, measured, is_true)| {
        vec![
            name.clone(),
            format!("{}{}", number(Some(predicted.value)), interval(predicted)),
            number(Some(*measured)),
            if *is_true { "yes" } else { "no" }.to_owned(),
        ]
    });
    let columns = [Column::label("Metric")].into_iter();
    let columns = columns.chain(numbers(&[("predicted", 0), ("measured", 0), ("held", 0)]));
    let table = Table::new("aiperf | Confirmation", columns).rows(rows).render(style);
    let right = compared.iter().filter(|(.., is_true)| *is_true).count();
    format!("{table}{right} of {} predictions held.\n\n", compared.len())
}
