//! `aiperf compare`: whether runs are worse than another one.

use std::io::Write;
use std::path::Path;

use serde_json::{Map, Value, json};

use super::{Outcome, gates, terminal_style};
use crate::artifacts::rebuild::{self, Group, Rebuilt, ReportError, Wanted};
use crate::cli::{Compare, CompareFormat};
use crate::console;
use crate::judge::Comparison;
use crate::judge::compare::{Conclusion, Finding, Plan, Requests, Row, Side, Trial, differences};
use crate::judge::reports::{Case, CaseOutcome, Suite};
use crate::server_metrics::snapshot::Kind;

/// Version of the JSON output.
const SCHEMA_VERSION: &str = "1.0";

/// Compares the runs that `asked` names, and writes the results to `out`.
pub(super) fn compare(asked: &Compare, out: &mut impl Write) -> anyhow::Result<Outcome> {
    gates::check(asked.junit.as_deref())?;
    let plan = Plan::new(&asked.gates, asked.confidence_level, asked.new.len());
    let (base, about_base) = side(&asked.base, &plan)?;
    let mut comparisons = Vec::new();
    for directory in &asked.new {
        let (new, about) = side(directory, &plan)?;
        comparisons.push(Comparison {
            base: asked.base.display().to_string(),
            new: directory.display().to_string(),
            runs: [base.trials.len(), new.trials.len()],
            compared: plan.compare(&base, &new),
            differences: differences(&about_base, &about),
        });
    }
    let text = match asked.format {
        CompareFormat::Table => {
            let render = |one| console::compare::render(one, terminal_style());
            comparisons.iter().map(render).collect()
        }
        CompareFormat::Markdown => comparisons.iter().map(console::compare::markdown).collect(),
        CompareFormat::Json => {
            let document = json!({"schema_version": SCHEMA_VERSION, "comparisons": comparisons});
            serde_json::to_string_pretty(&document)? + "\n"
        }
    };
    out.write_all(text.as_bytes())?;
    if let Some(path) = &asked.junit {
        let suites: Vec<Suite> = comparisons.iter().map(suite).collect();
        gates::write_junit(path, &suites)?;
    }
    let worst = comparisons.iter().map(|one| one.compared.outcome).max();
    Ok(match worst {
        Some(Conclusion::NoRegression) => Outcome::Done,
        Some(Conclusion::Regression) => Outcome::Missed,
        Some(Conclusion::CannotTell) | None => Outcome::Unknown,
    })
}

/// Reads the run, or the repeated runs, in `directory`, and describes the first.
fn side(directory: &Path, plan: &Plan) -> Result<(Side, Value), ReportError> {
    let mut side = Side::default();
    let mut about = Value::Null;
    let mut add = |directory: &Path, label: &str| -> Result<(), ReportError> {
        let mut requests = Requests::new(plan);
        let wanted = Wanted {
            gates: &[],
            needs_server_metrics: true,
            observe: Some(&mut |observation| requests.take(observation)),
        };
        let rebuilt = rebuild::rebuild_with(directory, wanted)?;
        let report = &rebuilt.report;
        let incomplete = report.outcome.incomplete_reason.as_ref();
        side.failure = side.failure.take().or(incomplete.map(|why| format!("{label}{why}")));
        let verdict = report.outcome.client_health.as_ref().and_then(|health| health.verdict);
        side.verdict = side.verdict.max(verdict);
        if about.is_null() {
            about = described(&rebuilt);
        }
        side.trials.push(Trial { results: rebuilt.report.results, requests });
        Ok(())
    };
    match Group::find(directory)? {
        None => add(directory, "")?,
        Some(group) => {
            for (member, place) in group.runs {
                add(&directory.join(place), &format!("{}: ", member.run_label))?;
            }
        }
    }
    Ok((side, about))
}

/// Returns the facts about a run in which others may differ.
fn described(rebuilt: &Rebuilt) -> Value {
    let report = &rebuilt.report;
    let mut config = report.run.config.clone();
    if let Some(members) = config.as_object_mut() {
        // They do not affect what is measured.
        for name in ["artifacts", "judge", "ui", "log_level", "show_trace_timing"] {
            members.remove(name);
        }
    }
    let provenance = &report.run.provenance;
    let health = report.outcome.client_health.as_ref();
    json!({
        "config": config,
        "tokenizer": provenance.tokenizer,
        "program": provenance.program,
        "host": provenance.host,
        "servers": provenance.servers,
        "server_info": server_info(rebuilt),
        "client_health": health.and_then(|health| health.verdict),
    })
}

/// Returns the labels of the servers' info metrics, in which they describe their configuration.
fn server_info(rebuilt: &Rebuilt) -> Map<String, Value> {
    let report = rebuilt.report.server_metrics.as_ref().map(|metrics| &metrics.report);
    let metrics = report.into_iter().flat_map(|report| &report.metrics);
    let info = metrics.filter(|metric| metric.kind == Kind::Info);
    info.map(|metric| {
        let labels = metric.series.iter().map(|series| {
            let labels = series.labels.iter();
            Value::Object(labels.map(|(name, value)| (name.to_string(), json!(&**value))).collect())
        });
        let labels: Vec<Value> = labels.collect();
        let value = match labels.as_slice() {
            [only] => only.clone(),
            _ => Value::Array(labels),
        };
        (metric.name.to_string(), value)
    })
    .collect()
}

/// Returns a case for each row that decides.
fn suite(comparison: &Comparison) -> Suite {
    let rows = comparison.compared.rows.iter().filter(|row| row.decides);
    let case = |row: &Row| {
        let note = row.note.clone().unwrap_or_default();
        let interval = row.interval.unwrap_or([f64::NAN; 2]);
        let difference = row.difference.unwrap_or(f64::NAN);
        Case {
            name: format!("{}:{}", row.metric, row.statistic),
            outcome: match row.finding {
                Finding::CannotTell => CaseOutcome::Error(note),
                Finding::Regression => CaseOutcome::Failed(format!(
                    "regression by {difference} {} ({} to {})",
                    row.unit, interval[0], interval[1]
                )),
                Finding::Improvement | Finding::WithinGate | Finding::NoDifference => {
                    CaseOutcome::Passed
                }
            },
        }
    };
    let name = format!("aiperf.compare {} {}", comparison.base, comparison.new);
    let mut cases: Vec<Case> = rows.map(case).collect();
    if cases.is_empty() {
        let why = "the runs have none of the metrics".to_owned();
        cases.push(Case { name: "metrics".to_owned(), outcome: CaseOutcome::Error(why) });
    }
    Suite { name, cases }
}
