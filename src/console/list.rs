//! The table of the runs in a directory.

use super::layout::{Cell, Column, Table};
use super::style::Style;
use crate::artifacts::local_minute;
use crate::artifacts::rebuild::{Headline, Level, Listed};
use crate::redact::printable;
use crate::tables::format::four_digits;

/// A result of a run: its name, that on a narrow terminal, the order in which it is left out, and
/// its value.
pub(crate) type Shown = (&'static str, &'static str, u8, fn(&Headline) -> Option<f64>);

pub(crate) const RESULTS: [Shown; 6] = [
    ("Requests/s", "Req/s", 2, |it| it.request_throughput),
    ("Output tokens/s", "Tokens/s", 4, |it| it.output_token_throughput),
    ("TTFT p99 (ms)", "TTFT p99", 1, |it| it.ttft_p99),
    ("ITL p99 (ms)", "ITL p99", 5, |it| it.itl_p99),
    ("Latency p99 (ms)", "Lat. p99", 3, |it| it.latency_p99),
    ("Errors (%)", "Err. %", 6, |it| it.error_rate),
];

/// Renders a row for each run, with the members of groups below these.
#[must_use]
pub(crate) fn runs(runs: &[Listed], style: Style) -> String {
    let all = || runs.iter().flat_map(|run| std::iter::once(run).chain(&run.members));
    let shown: Vec<&Shown> =
        RESULTS.iter().filter(|(.., of)| all().any(|run| of(&run.headline).is_some())).collect();
    let mut columns = vec![
        Column::name("Run"),
        Column::text("Started").spare(7),
        Column::text("Model").spare(8),
        Column::text("Load").spare(9),
    ];
    columns.extend(
        shown.iter().map(|(name, short, order, _)| Column::number(*name).or(*short).spare(*order)),
    );
    columns.push(Column::text("State"));
    let mut table = Table::plain(columns);
    for run in runs {
        row(&mut table, run, false, &shown);
        for member in &run.members {
            row(&mut table, member, true, &shown);
        }
    }
    table.render(style)
}

fn row(table: &mut Table, run: &Listed, is_member: bool, shown: &[&Shown]) {
    let directory = printable(&run.directory.display().to_string());
    let name = run.name.as_ref().map(|name| format!(" ({})", printable(name)));
    // Members have the model and the name of their group.
    let [first, started, models] = if is_member {
        [format!("└ {directory}"), String::new(), String::new()]
    } else {
        let started = run.start_wall_ns.map(local_minute).unwrap_or_default();
        [directory + &name.unwrap_or_default(), started, printable(&run.models)]
    };
    let texts = [first, started, models, printable(&run.load)];
    let values =
        shown.iter().map(|(.., of)| of(&run.headline).map_or_else(String::new, four_digits));
    let state = std::iter::once(run.state.text.clone());
    let cells = texts.into_iter().chain(values).chain(state).map(Cell::from);
    table.row_with(cells, String::new(), run.state.level == Level::Bad);
}
