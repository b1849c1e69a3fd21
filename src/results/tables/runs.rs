//! The runs in a directory.

use base::statistics::Percent;

use super::{Cell, Column, Table};
use crate::run::listed::{Headline, Listed};

/// A result of a run: its name, that on a narrow terminal, the order in which it is left out, and
/// its value.
type Shown = (&'static str, &'static str, u8, fn(&Headline) -> Cell);

const RESULTS: [Shown; 6] = [
    ("Requests/s", "Req/s", 2, |it| it.request_throughput.into()),
    ("Output tokens/s", "Tokens/s", 4, |it| it.output_token_throughput.into()),
    ("TTFT p99 (ms)", "TTFT p99", 1, |it| p99(it, it.ttft_p99)),
    ("ITL p99 (ms)", "ITL p99", 5, |it| p99(it, it.itl_p99)),
    ("Latency p99 (ms)", "Lat. p99", 3, |it| p99(it, it.latency_p99)),
    ("Errors (%)", "Err. %", 6, |it| it.error_rate.into()),
];

fn p99(run: &Headline, value: Option<f64>) -> Cell {
    let percent = Percent::whole(99);
    let is_few = run.requests.is_some_and(|requests| percent.too_few(requests).is_some());
    value.filter(|_| is_few).map_or_else(|| value.into(), |value| Cell::Few(value, percent))
}

/// Iterates over runs and the members of groups, which follow their group, each with its group.
pub fn each(runs: &[Listed]) -> impl Iterator<Item = (&Listed, Option<&Listed>)> {
    let members = |run| move |member| (member, Some(run));
    runs.iter().flat_map(move |run| {
        std::iter::once((run, None)).chain(run.members.iter().map(members(run)))
    })
}

/// Returns a row for [each] of `runs`, whose starts are written as by `minute`.
pub fn runs(runs: &[Listed], minute: fn(u64) -> String) -> Table {
    let row = |(run, group): (&Listed, Option<&Listed>)| {
        let directory = run.directory.display();
        let name = match (&run.name, group) {
            // Members have the name of their group.
            (_, Some(_)) => format!("└ {directory}"),
            (Some(name), None) => format!("{directory} ({name})"),
            (None, None) => directory.to_string(),
        };
        let started = run.start_wall_ns.map(minute).unwrap_or_default();
        let texts = [name, started, run.models.clone(), run.load.clone()].map(Cell::Text);
        let results = RESULTS.map(|(.., value)| value(&run.headline));
        let state = Cell::Text(run.state.text.clone());
        texts.into_iter().chain(results).chain([state]).collect()
    };
    let mut columns = vec![
        Column::name("Run"),
        Column::text("Started").spare(7),
        Column::text("Model").spare(8),
        Column::text("Load").spare(9),
    ];
    let results = RESULTS.iter();
    columns.extend(
        results.map(|(name, short, order, _)| Column::number(*name).or(*short).spare(*order)),
    );
    columns.push(Column::text("State"));
    let rows = each(runs).map(row).collect();
    Table { columns, rows, scope: " in each run", ..Table::default() }.without_empty_columns()
}
