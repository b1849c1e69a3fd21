//! `aiperf compare`: whether runs are worse than another one.

use std::io::Write;
use std::path::{Path, PathBuf};

use anyhow::bail;
use serde_json::{Map, Value, json};

use base::column::Store;
use base::setting::Named as _;
use client::server_family::SeriesKind;
use measure::judge::Comparison;
use measure::judge::compare::{
    Conclusion, Finding, Models, Plan, Requests, Row, Side, Trial, differences, different_loads,
};
use measure::judge::reports::{Case, CaseOutcome, Suite};
use measure::metrics::time_breakdown::TimeBreakdown;
use measure::multi_run::{Member, Variation};
use results::artifacts::rebuild::{self, Group, GroupRun, Rebuilt, ReportError, Wanted};
use results::console;
use results::report;
use results::run::RunReport;
use results::tables;
use results::terminal::terminal_style;

use super::gates;
use super::outcome::Outcome;
use super::output::Output;
use crate::cli::{Compare, CompareFormat, Comparing};

/// Version of the JSON output.
const SCHEMA_VERSION: &str = "1.0";

/// A directory to compare: the runs of one command.
struct Directory {
    path: String,
    is_sweep: bool,
    /// The cells of a sweep; otherwise one without a variation.
    cells: Vec<Cell>,
}

/// Runs with the same settings.
#[derive(Default)]
struct Cell {
    variation: Option<Variation>,
    /// Its name: that of its directory, or of a search, whose directories are numbered, its settings.
    name: Option<String>,
    runs: Vec<Run>,
}

/// A run, if it exists.
struct Run {
    /// What names it among the runs of its cell; empty for a single one.
    label: String,
    directory: PathBuf,
    /// Its place in a sweep, which it must have in its description.
    member: Option<Member>,
}

impl Directory {
    /// Finds the runs in the directory `path`.
    fn find(path: &Path) -> Result<Self, ReportError> {
        let named = |member: &Member| format!("{}: ", member.run_label);
        let group = Group::find(path)?;
        let is_sweep = group.as_ref().is_some_and(|group| group.config.sweep.is_some());
        let cells = match group {
            Some(group) if is_sweep => {
                let Group { config, sweep_id, cells, .. } = group;
                let run = |cell: &Variation, trial| {
                    let member = Member::new(sweep_id, trial, Some(cell.clone()));
                    let label = if config.runs == 1 { String::new() } else { named(&member) };
                    let directory = path.join(config.directory(Some(cell), trial));
                    Run { label, directory, member: Some(member) }
                };
                let sweep = config.sweep.as_ref().filter(|sweep| sweep.is_search());
                let named = |cell: &Variation| match sweep {
                    Some(sweep) => sweep.described(cell),
                    None => cell.directory().to_owned(),
                };
                let cell = |cell: Variation| Cell {
                    name: Some(named(&cell)),
                    runs: (0..config.runs).map(|trial| run(&cell, trial)).collect(),
                    variation: Some(cell),
                };
                cells.into_iter().flatten().map(cell).collect()
            }
            Some(group) => {
                let run = |run: GroupRun| Run {
                    label: named(&run.member),
                    directory: path.join(run.directory),
                    member: None,
                };
                vec![Cell { runs: group.runs.into_iter().map(run).collect(), ..Cell::default() }]
            }
            None => {
                let run = Run { label: String::new(), directory: path.to_owned(), member: None };
                vec![Cell { runs: vec![run], ..Cell::default() }]
            }
        };
        Ok(Self { path: path.display().to_string(), is_sweep, cells })
    }

    /// Returns the index of the cell with the settings of `cell`.
    fn index_of(&self, cell: &Cell) -> Option<usize> {
        self.cells.iter().position(|own| own.settings() == cell.settings())
    }
}

impl Cell {
    fn settings(&self) -> Option<&Map<String, Value>> {
        self.variation.as_ref().map(|variation| &variation.values)
    }

    /// Returns its runs as a side of the page, one of the cells of `directory`.
    fn as_side(&self, side: &str, directory: &Directory) -> report::Side {
        let cell = self.name.as_ref().map(|name| format!(", {name}")).unwrap_or_default();
        report::Side {
            name: format!("{side} ({}){cell}", directory.path),
            runs: self.runs.iter().map(|run| run.directory.clone()).collect(),
        }
    }
}

/// Compares the runs that `asked` names, and writes the results to `out`.
pub(super) fn compare(asked: &Compare, out: &mut impl Write) -> anyhow::Result<Outcome> {
    gates::check(asked.comparing.junit.as_deref())?;
    asked.html.as_ref().map_or(Ok(()), |page| gates::check_file(page, "--html"))?;
    let base = Directory::find(&asked.base)?;
    let all: Result<Vec<_>, _> = asked.new.iter().map(|path| Directory::find(path)).collect();
    let all = all?;
    if let Some(other) = all.iter().find(|new| new.is_sweep != base.is_sweep) {
        let (sweep, other) = if base.is_sweep { (&base, other) } else { (other, &base) };
        bail!(
            "{} is the directory of a sweep and {} is not; compare two sweeps, or the directory of \
             a cell",
            sweep.path,
            other.path
        );
    }
    let matches = |new: &Directory| -> usize {
        base.cells.iter().filter(|cell| new.index_of(cell).is_some()).count()
    };
    let plan = asked.comparing.plan(all.iter().map(matches).sum());
    let (page, asked) = (&asked.html, &asked.comparing);
    let mut sides = Vec::new();
    let mut comparisons: Vec<Vec<Comparison>> = all.iter().map(|_| Vec::new()).collect();
    for cell in &base.cells {
        let old = side(cell, &plan)?;
        sides.push(cell.as_side("BASE", &base));
        for (new, found) in all.iter().zip(&mut comparisons) {
            let other = match new.index_of(cell) {
                Some(at) => {
                    sides.push(new.cells[at].as_side("NEW", new));
                    side(&new.cells[at], &plan)?
                }
                None => Read::missing(),
            };
            found.push(compared(asked, &plan, cell, (&base.path, &old), (&new.path, &other)));
        }
    }
    for (new, found) in all.iter().zip(&mut comparisons) {
        for cell in new.cells.iter().filter(|cell| base.index_of(cell).is_none()) {
            sides.push(cell.as_side("NEW", new));
            let both = ((&*base.path, &Read::missing()), (&*new.path, &side(cell, &plan)?));
            found.push(compared(asked, &plan, cell, both.0, both.1));
        }
    }
    let mut out = Output::new(out);
    let write = |page: &PathBuf| report::write_comparison(page.clone(), &comparisons, &sides);
    let written = page.as_ref().map(write).transpose();
    let outcome = deliver(&comparisons, asked, &mut out);
    out.finish(outcome.and_then(|outcome| Ok(written.map(|_| outcome)?)))
}

/// Writes `comparisons`, those of each directory, in the format that is asked for, and the JUnit file
/// and the summary of a GitHub workflow; returns how the command ends.
pub(super) fn deliver(
    comparisons: &[Vec<Comparison>],
    asked: &Comparing,
    out: &mut Output<'_>,
) -> anyhow::Result<Outcome> {
    let text = match asked.format {
        CompareFormat::Table => {
            let render = |cells: &Vec<_>| console::compare::render(cells, terminal_style());
            comparisons.iter().map(render).collect()
        }
        CompareFormat::Markdown => {
            comparisons.iter().map(|cells| console::compare::markdown(cells)).collect()
        }
        CompareFormat::Json => document(&comparisons.iter().flatten().collect::<Vec<_>>())?,
    };
    out.say(&text);
    gates::summarize(|| {
        comparisons.iter().map(|cells| console::compare::markdown(cells)).collect()
    });
    if let Some(path) = &asked.junit {
        let suites: Vec<Suite> = comparisons.iter().flatten().map(suite).collect();
        gates::write_junit(path, &suites)?;
    }
    let worst = comparisons.iter().flatten().map(|one| one.compared.outcome).max();
    Ok(match worst {
        Some(Conclusion::NoRegression) => Outcome::Done,
        Some(Conclusion::Regression) => Outcome::Missed,
        Some(Conclusion::CannotTell) | None => Outcome::Unknown,
    })
}

/// Returns `comparisons` as JSON.
pub(super) fn document(comparisons: &[&Comparison]) -> anyhow::Result<String> {
    let document = json!({"schema_version": SCHEMA_VERSION, "comparisons": comparisons});
    Ok(serde_json::to_string_pretty(&document)? + "\n")
}

/// Compares the runs of a cell, each given with its directory. Runs with different loads are only judged if
/// that is `asked` for.
fn compared(
    asked: &Comparing,
    plan: &Plan,
    cell: &Cell,
    base: (&str, &Read),
    new: (&str, &Read),
) -> Comparison {
    let variation = cell.variation.as_ref();
    let trials = |read: &Read| read.side.trials.len();
    let has_both = trials(base.1) > 0 && trials(new.1) > 0;
    let config_of = |read: &Read| read.about["config"].clone();
    let different = || different_loads(&config_of(base.1), &config_of(new.1), Models::OfTheLoad);
    let different_loads = if has_both { different() } else { Vec::new() };
    let compared = plan.compare(&base.1.side, &new.1.side);
    let is_judged = different_loads.is_empty() || asked.allow_different;
    Comparison {
        base: base.0.to_owned(),
        new: new.0.to_owned(),
        cell: cell.name.clone(),
        parameters: variation.map(|variation| variation.values.clone()).unwrap_or_default(),
        runs: [trials(base.1), trials(new.1)],
        different_loads,
        compared: if is_judged { compared } else { compared.withdrawn() },
        differences: if has_both { differences(&base.1.about, &new.1.about) } else { Vec::new() },
    }
}

/// The runs of a side, and a description of the first.
#[derive(Default)]
struct Read {
    side: Side,
    about: Value,
}

impl Read {
    /// A cell that the sweep does not have.
    fn missing() -> Self {
        let failure = Some("the sweep does not have the cell".to_owned());
        Self { side: Side { failure, ..Side::default() }, ..Self::default() }
    }
}

/// Reads the runs of `cell`. Those of a sweep may be missing.
fn side(cell: &Cell, plan: &Plan) -> Result<Read, ReportError> {
    let mut read = Read::default();
    for Run { label, directory, member } in &cell.runs {
        let mut requests = Requests::new(plan, &Store::of_run(directory.clone()));
        let wanted = Wanted {
            gates: &[],
            percentiles: plan.percentiles(),
            needs_server_metrics: true,
            observe: Some(&mut |observation| requests.take(observation)),
        };
        let found = match rebuild::rebuild_with(directory, wanted) {
            Ok(found) if member.is_none() || found.report.run.member == *member => Ok(found),
            Ok(_) => Err("the directory contains another run".to_owned()),
            Err(error) if member.is_none() => return Err(error),
            Err(_) if !directory.is_dir() => Err("not run".to_owned()),
            Err(error) => Err(error.to_string()),
        };
        let side = &mut read.side;
        let failure = match &found {
            Ok(rebuilt) => rebuilt.report.outcome.incomplete_reason.as_ref(),
            Err(why) => Some(why),
        };
        side.failure = side.failure.take().or(failure.map(|why| format!("{label}{why}")));
        let Ok(rebuilt) = found else { continue };
        if read.about.is_null() {
            read.about = described(&rebuilt.report);
        }
        let Rebuilt { report, .. } = rebuilt;
        let verdict = report.outcome.client_health.as_ref().and_then(|health| health.verdict);
        side.verdict = side.verdict.max(verdict);
        side.load_verdict = side.load_verdict.max(report.load_verdict());
        side.trials.push(trial(report, requests));
    }
    Ok(read)
}

/// Returns what a comparison needs of a run with these `requests`.
pub(super) fn trial(report: RunReport, requests: Requests) -> Trial {
    let RunReport { results, steady_state, outcome, .. } = report;
    let time_breakdown = match outcome.time_breakdown {
        Some(TimeBreakdown::Found(division)) => Some(division),
        Some(TimeBreakdown::None { .. }) | None => None,
    };
    let requested_rate = outcome.load.requested_rate;
    let bounds = outcome.client_health.map(|health| health.bounds()).unwrap_or_default();
    let (prefix_cache, outputs) = (outcome.prefix_cache, outcome.output_health);
    Trial {
        results,
        steady_state,
        time_breakdown,
        prefix_cache,
        outputs,
        bounds,
        requested_rate,
        long_run: None,
        requests,
    }
}

/// Returns the facts about a run in which others may differ.
pub(super) fn described(report: &RunReport) -> Value {
    let mut config = report.run.config.clone();
    if let Some(members) = config.as_object_mut() {
        // They do not affect what is measured.
        let shown = ["show_trace_timing", "show_server_metrics", "tables", "show_files"];
        for name in ["artifacts", "judge", "ui", "log_level"].into_iter().chain(shown) {
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
        "server_info": server_info(report),
        "client_health": health.and_then(|health| health.verdict),
        "load_health": report.load_verdict(),
        "output_health": report.outcome.output_health.as_ref().and_then(|health| health.verdict),
    })
}

/// Returns the labels of the servers' info metrics, in which they describe their configuration.
fn server_info(report: &RunReport) -> Map<String, Value> {
    let report = report.server_metrics.as_ref().map(|metrics| &metrics.report);
    let metrics = report.into_iter().flat_map(|report| &report.metrics);
    let info = metrics.filter(|metric| metric.kind == SeriesKind::Info);
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
        let found = || tables::compare::sentence(row);
        Case {
            name: format!("{}:{}", row.name(), row.statistic),
            outcome: match row.finding {
                Finding::CannotTell => CaseOutcome::Error(note),
                Finding::Regression => CaseOutcome::Failed(found()),
                Finding::Improvement
                | Finding::WithinGate
                | Finding::NoDifference
                | Finding::Undecided => CaseOutcome::Passed(found()),
            },
        }
    };
    let cell = comparison.cell.as_ref().map(|cell| format!(" {cell}")).unwrap_or_default();
    let name = format!("aiperf.compare {} {}{cell}", comparison.base, comparison.new);
    let of_outputs = comparison.compared.outputs.iter().map(|row| Case {
        name: format!("outputs:{}", row.fault.name()),
        outcome: CaseOutcome::Failed(row.sentence()),
    });
    let mut cases: Vec<Case> = rows.map(case).chain(of_outputs).collect();
    if cases.is_empty() {
        let why = "the runs have none of the metrics".to_owned();
        cases.push(Case { name: "metrics".to_owned(), outcome: CaseOutcome::Error(why) });
    }
    Suite { name, cases }
}
