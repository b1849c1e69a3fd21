//! Runs beside those that they are compared with.

use std::collections::BTreeSet;

use serde_json::Value;

use base::redact::printable;
use base::setting::Named as _;
use measure::judge::Comparison;
use measure::judge::compare::{
    Conclusion, Difference, Finding, MIN_TRIALS, Method, Needed, OutputRow, PartRow, Row,
};
use measure::metrics::Registry;
use measure::metrics::metric::Statistic;

use super::format::four_digits;
use super::{Cell, Column, Content, Table};

/// Maximum number of differences that are listed.
const MAX_DIFFERENCES: usize = 20;

/// Settings that the values of others are derived from, so that these are not listed beside it, and
/// the names of both.
const URL: (&str, &str, [&str; 2]) =
    ("config.server.urls", "URL", ["config.server_metrics.endpoints", "servers"]);

/// Returns the comparison of two directories: all rows of their runs, or of each cell of their sweeps
/// those that decide.
pub(crate) fn comparison(cells: &[Comparison]) -> Table {
    let are_cells = cells.iter().any(|one| one.cell.is_some());
    let title = cells.first().map(|one| format!("{} compared with {}", one.new, one.base));
    Table {
        title: printable(&title.unwrap_or_default()),
        columns: vec![
            Column::text(if are_cells { "Cell" } else { "" }),
            Column::name("Metric"),
            Column::number("BASE").spare(1),
            Column::number("NEW").spare(2),
            Column::number("Difference").or("Diff."),
            Column::number("Interval").spare(3),
            Column::word("Finding"),
        ],
        rows: cells.iter().flat_map(rows).map(Vec::from).collect(),
        findings: notes(cells),
        scope: " in each run",
        ..Table::default()
    }
}

/// Returns the finding of a row in one line, as in `regression by +5.0% (+4.1% to +5.9%); BASE 20 ms,
/// NEW 21 ms, required ttft<=3%`.
#[must_use]
pub fn sentence(row: &Row) -> String {
    let cells = row_cells(String::new(), row).map(|cell| match cell {
        Cell::Absent => "N/A".to_owned(),
        cell => cell.shown(Content::Number),
    });
    let [.., base, new, difference, interval, finding] = cells;
    let required = row.gate.as_ref().map(|gate| format!(", required {gate}")).unwrap_or_default();
    let unit = row.unit;
    let by = if row.finding == Finding::Regression { " by" } else { ":" };
    format!(
        "{finding}{by} {difference} ({interval}); BASE {base} {unit}, NEW {new} {unit}{required}"
    )
}

/// Returns the rows of a comparison: all, or of a cell those that decide.
fn rows(one: &Comparison) -> impl Iterator<Item = [Cell; 7]> {
    let rows = one.compared.rows.iter().filter(|row| row.decides || one.cell.is_none());
    let parts = one.compared.time_breakdown.iter().filter(|_| one.cell.is_none());
    let rows = rows.map(|row| {
        let mark = if row.decides { "*" } else { "" };
        row_cells(one.cell.clone().unwrap_or_else(|| mark.to_owned()), row)
    });
    rows.chain(parts.map(part_cells))
}

/// Returns the row of a table, after its `first` cell.
fn row_cells(first: String, row: &Row) -> [Cell; 7] {
    let value = |value: Option<f64>| match (Cell::from(value), row.statistic) {
        (Cell::Number(value), Statistic::Percentile(percent)) if row.is_of_few => {
            Cell::Few(value, percent)
        }
        (cell, _) => cell,
    };
    let percent = |value: f64| format!("{value:+.1}%");
    let interval = match (row.interval_percent, row.interval) {
        (Some([low, high]), _) => Some(format!("{} to {}", percent(low), percent(high))),
        (None, Some([low, high])) => Some(format!("{} to {}", signed(low), signed(high))),
        (None, None) => None,
    };
    let steady = if row.is_steady { "steady " } else { "" };
    let short = Registry::row(row.metric).map_or_else(
        || name(row),
        |metric| format!("{steady}{} {} ({})", metric.short_header, row.statistic, row.unit),
    );
    [
        Cell::Text(first),
        Cell::Name(format!("{} ({})", name(row), row.unit), short),
        value(row.base),
        value(row.new),
        Cell::text(row.difference_percent.map(percent).or(row.difference.map(signed))),
        Cell::text(interval),
        Cell::Text(row.finding.as_str().to_owned()),
    ]
}

/// Returns the row of a part of a latency, which is only shown.
fn part_cells(row: &PartRow) -> [Cell; 7] {
    let finding = match row.interval_ms {
        None => "not tested",
        Some([low, _]) if low > 0.0 => "longer",
        Some([_, high]) if high < 0.0 => "shorter",
        Some(_) => Finding::Undecided.as_str(),
    };
    let header = |metric: &str| format!("{metric}: {} (ms)", row.stage.title());
    let short = header(Registry::row(row.metric).map_or("", |metric| metric.short_header));
    let interval = |[low, high]: [f64; 2]| format!("{} to {}", signed(low), signed(high));
    [
        Cell::Text(String::new()),
        Cell::Name(header(row.metric.name()), short),
        row.base_ms.into(),
        row.new_ms.into(),
        Cell::text(row.difference_ms.map(signed)),
        Cell::text(row.interval_ms.map(interval)),
        Cell::Text(finding.to_owned()),
    ]
}

/// Returns a sentence that states in what the loads of the runs differ; empty if they do not.
pub(crate) fn different_loads(cells: &[Comparison]) -> String {
    let mut all: Vec<&str> = Vec::new();
    for name in cells.iter().flat_map(|one| &one.different_loads) {
        if !all.contains(&&**name) {
            all.push(name);
        }
    }
    match all.as_slice() {
        [] => String::new(),
        all => printable(&format!("these runs had different loads: {}", all.join(", "))),
    }
}

/// Returns `text` with the name of the cell in front of it.
fn of_cell(comparison: &Comparison, text: &str) -> String {
    match &comparison.cell {
        Some(cell) => format!("{cell}: {text}"),
        None => text.to_owned(),
    }
}

/// Formats a difference.
fn signed(value: f64) -> String {
    let sign = if value > 0.0 { "+" } else { "" };
    format!("{sign}{}", four_digits(value))
}

fn notes(cells: &[Comparison]) -> Vec<String> {
    let growth = cells.iter().flat_map(|one| {
        one.compared.growth.iter().map(|growth| of_cell(one, &growth.sentence("")))
    });
    let mut notes: Vec<String> = growth.chain(cells.iter().map(intervals)).collect();
    for comparison in cells {
        let row_note = |row: &Row| {
            let gate = row.gate.as_ref().map(|gate| format!(" ({gate})")).unwrap_or_default();
            let note = row.note.as_ref()?;
            Some(of_cell(comparison, &format!("{}{gate}: {note}.", name(row))))
        };
        let outputs = comparison.compared.outputs.iter().map(OutputRow::sentence);
        notes.extend(outputs.map(|sentence| of_cell(comparison, &sentence)));
        notes.extend(of_single_runs(comparison));
        let parts = &comparison.compared.time_breakdown;
        if comparison.cell.is_none() && parts.iter().any(|row| row.interval_ms.is_none()) {
            notes.push(format!(
                "Parts of latencies that are not tested require {MIN_TRIALS} runs on both sides."
            ));
        }
        if let Some(why) = &comparison.compared.obstacle {
            notes.push(of_cell(comparison, &format!("Nothing can be concluded: {why}.")));
        } else {
            notes.extend(comparison.compared.rows.iter().filter_map(row_note));
            notes.extend(needed(comparison).map(|text| of_cell(comparison, &text)));
        }
    }
    let all: Vec<&Difference> = cells.iter().flat_map(|one| &one.differences).collect();
    let (url, _, derived) = URL;
    let has_url = all.iter().any(|it| is_within(&it.path, url));
    let is_derived = |it: &Difference| derived.iter().any(|path| is_within(&it.path, path));
    let mut lines: Vec<String> = Vec::new();
    for line in all.into_iter().filter(|it| !(has_url && is_derived(it))).map(differs) {
        if !lines.contains(&line) {
            lines.push(line);
        }
    }
    let more = lines.len().saturating_sub(MAX_DIFFERENCES);
    lines.truncate(MAX_DIFFERENCES);
    notes.extend(lines);
    if more > 0 {
        notes.push(format!("{more} more differences; --format json lists all."));
    }
    let mut seen = BTreeSet::new();
    notes.retain(|note| seen.insert(note.clone()));
    notes.iter().map(|note| printable(note)).collect()
}

/// States how the intervals of a comparison were computed.
fn intervals(comparison: &Comparison) -> String {
    let compared = &comparison.compared;
    let level = 100.0 * compared.interval_level;
    let method = match compared.method {
        Method::Batches => "Student's t over batches of requests",
        Method::Welch => "Welch's t over runs",
        Method::Paired => "signed ranks of pairs of blocks, at every look",
    };
    let rows = if comparison.cell.is_some() { "all rows" } else { "the rows marked *" };
    format!(
        "Intervals: {method}, {level:.2}% each, so that {rows} have {:.4}% together.",
        100.0 * compared.confidence
    )
    .replace(".0000%", "%")
}

/// States what runs one after the other do not show.
fn of_single_runs(comparison: &Comparison) -> Option<String> {
    (comparison.compared.method == Method::Batches && comparison.runs.iter().all(|runs| *runs > 0))
        .then(|| {
            format!(
                "How the machine changed between the runs is not in the intervals: compare \
                 {MIN_TRIALS} or more runs a side (--num-profile-runs), or measure both servers side \
                 by side (aiperf ab)."
            )
        })
}

/// States how much data would decide what is undecided; `None` if everything that decides is known.
fn needed(comparison: &Comparison) -> Option<String> {
    let rows = comparison.compared.rows.iter().filter(|row| row.decides);
    let rows: Vec<&Row> = rows.filter(|row| row.needed.is_some()).collect();
    let names: Vec<String> = rows.iter().map(|row| name(row)).collect();
    let how = match rows.iter().filter_map(|row| row.needed).max()? {
        Needed::Requests(requests) => format!("--request-count {requests} on both sides"),
        Needed::Runs(runs) => format!("--num-profile-runs {runs} on both sides"),
        Needed::Pairs(pairs) => format!("{pairs} pairs of blocks"),
    };
    Some(format!("To tell {}: {how} would probably do.", names.join(", ")))
}

/// Returns the statistic of a row, such as `request_latency avg`.
fn name(row: &Row) -> String {
    format!("{} {}", row.name(), row.statistic)
}

/// Returns whether a path of the description is `parent` or below it.
fn is_within(path: &str, parent: &str) -> bool {
    path.strip_prefix(parent).is_some_and(|rest| rest.is_empty() || rest.starts_with(['.', '[']))
}

/// States a difference by the name of the setting, as in `Differs: URL a:9110 → a:9112`.
fn differs(difference: &Difference) -> String {
    let Difference { path, base, new } = difference;
    let (url, name, _) = URL;
    let name = if is_within(path, url) { name.to_owned() } else { setting(path) };
    format!("Differs: {name} {} → {}", short(base), short(new))
}

/// Returns the name of the setting with this path in words: `concurrency` for
/// `config.schedule.phases[0].concurrency`.
fn setting(path: &str) -> String {
    let path = path.strip_prefix("config.").unwrap_or(path);
    let path = path.strip_prefix("schedule.phases[0].").unwrap_or(path);
    let path = path.strip_suffix(".most").unwrap_or(path);
    path.replace(['.', '_'], " ")
}

/// Formats a value in a few characters; `absent` for null. What is too long ends after a word.
fn short(value: &Value) -> String {
    const MAX_CHARS: usize = 80;
    let text = match value {
        Value::Null => "absent".to_owned(),
        Value::String(text) => text.clone(),
        Value::Number(number) => {
            number.as_f64().map_or_else(|| number.to_string(), |it| it.to_string())
        }
        Value::Array(all) if !all.is_empty() => {
            all.iter().map(short).collect::<Vec<_>>().join(", ")
        }
        other => other.to_string(),
    };
    let Some((end, _)) = text.char_indices().nth(MAX_CHARS) else { return text };
    let kept = &text[..end];
    let whole = kept.rfind([' ', ',']).map_or(kept, |at| &kept[..at]);
    format!("{whole} …")
}

/// Returns the verdict in a sentence.
pub(crate) fn conclusion(cells: &[Comparison]) -> String {
    if !cells.is_empty() && cells.iter().all(|one| one.compared.is_withdrawn()) {
        return "Cannot tell: the loads were different, so the servers are not compared."
            .to_owned();
    }
    let names = |finding| {
        let row = |one: &Comparison| {
            let rows = one.compared.rows.iter();
            let found = rows.filter(|row| row.decides && row.finding == finding);
            let outputs = one.compared.outputs.iter().filter(|_| finding == Finding::Regression);
            let outputs = outputs.map(|row| format!("outputs ({})", row.fault.name()));
            let names: Vec<String> = found.map(name).chain(outputs).collect();
            (!names.is_empty()).then(|| of_cell(one, &names.join(", ")))
        };
        cells.iter().filter_map(row).collect::<Vec<_>>().join("; ")
    };
    match cells.iter().map(|one| one.compared.outcome).max() {
        Some(Conclusion::Regression) => format!("Regression: {}.", names(Finding::Regression)),
        Some(Conclusion::CannotTell) | None => match names(Finding::CannotTell).as_str() {
            "" => "Cannot tell: the runs have none of the metrics.".to_owned(),
            rows => format!("Cannot tell: {rows}."),
        },
        Some(Conclusion::NoRegression) => match names(Finding::Undecided).as_str() {
            "" => "No regression.".to_owned(),
            rows => format!("No regression was found. Undecided: {rows}."),
        },
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use serde_json::json;

    use measure::judge::compare::{Plan, Side, differences};
    use measure::metrics::{MetricTag, tag};

    use super::*;

    /// A comparison of four rows, and of runs with other settings.
    pub(crate) fn compared() -> Comparison {
        let mut compared =
            Plan::new(&[], &[], 0.95, 2.0, 1).compare(&Side::default(), &Side::default());
        let row =
            |(metric, statistic, unit, base): (MetricTag, &'static str, &'static str, f64)| Row {
                is_steady: false,
                metric,
                statistic: Statistic::named(statistic).unwrap(),
                unit,
                base: Some(base),
                new: Some(base * 1.19),
                difference: Some(base * 0.19),
                difference_percent: Some(18.9),
                interval: None,
                interval_percent: Some([18.5, 19.4]),
                block_lengths: None,
                client_errors: None,
                is_of_few: false,
                decides: statistic == "avg",
                gate: None,
                finding: Finding::NoDifference,
                needed: None,
                note: None,
            };
        let rows = [
            (tag::REQUEST_THROUGHPUT, "avg", "requests/sec", 38.4781),
            (tag::INTER_TOKEN_LATENCY, "avg", "ms", 5.0238),
            (tag::REQUEST_LATENCY, "p99", "ms", 212.766),
            (tag::OUTPUT_TOKEN_THROUGHPUT, "avg", "tokens/sec", 1231.3004),
        ];
        compared.rows = rows.map(row).into();
        let run_at = |port: u64, concurrency: u64| {
            let url = format!("http://localhost:{port}/");
            let endpoint = json!({"url": format!("{url}metrics"), "is_discovered": true});
            json!({
                "config": {
                    "server": {"urls": [url]},
                    "server_metrics": {"endpoints": [endpoint]},
                    "schedule": {"phases": [{"concurrency": concurrency, "kind": "profiling"}]},
                    "dataset": {"output_tokens": {"mean": 32.0 * concurrency as f64}},
                },
                "servers": [{"url": url}],
            })
        };
        Comparison {
            base: "before".to_owned(),
            new: "after".to_owned(),
            cell: None,
            parameters: serde_json::Map::new(),
            runs: [1, 1],
            different_loads: Vec::new(),
            compared,
            differences: differences(&run_at(9110, 1), &run_at(9112, 2)),
        }
    }

    #[test]
    fn differences_are_told_by_the_names_of_settings() {
        let lines = notes(&[compared()]);
        let told: Vec<&str> =
            lines.iter().filter_map(|line| line.strip_prefix("Differs: ")).collect();
        assert_eq!(
            told,
            [
                "dataset output tokens mean 32 → 64",
                "concurrency 1 → 2",
                "URL http://localhost:9110/ → http://localhost:9112/",
            ]
        );
    }

    #[test]
    fn a_long_value_ends_after_a_word() {
        let text = short(&json!(["word ".repeat(30)]));
        assert!(text.chars().count() <= 82 && text.ends_with(" word …"), "{text}");
        assert_eq!(short(&Value::Null), "absent");
        assert_eq!(short(&json!([1, 2.0, "x"])), "1, 2, x");
    }
}
