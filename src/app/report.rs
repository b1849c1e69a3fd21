//! `aiperf report`: recomputes summaries from the records of a run, its shards, or several
//! runs.

use std::io::{self, Write};
use std::path::{Path, PathBuf};

use anyhow::{Context, bail};

use super::stderr::Stderr;
use super::{Outcome, gates, page, terminal_style};
use crate::artifacts::aggregate::AggregateFiles;
use crate::artifacts::rebuild::{self, Group, Rebuilt, Wanted};
use crate::artifacts::search::SearchFile;
use crate::artifacts::sweep::{Plan, SweepFiles};
use crate::cli::Report;
use crate::console;
use crate::judge::{self, JudgedRun};
use crate::mlflow::send_again;
use crate::multi_run::sweep::{Results, steps};
use crate::multi_run::{AGGREGATE, Failure, Member, RunResult, Trials, Variation, aggregate};
use crate::platform::signals;
use crate::redact;
use crate::report;

/// Recomputes the summaries of the directories. A single directory is that of a run or of
/// several runs; several directories are the shards of one run.
pub(super) fn report(asked: &Report, out: &mut impl Write) -> anyhow::Result<Outcome> {
    signals::survive_full_files()?;
    let Report { judge, page, .. } = asked;
    gates::check(judge.junit.as_deref())?;
    page::check(page.as_ref())?;
    let mut rebuilt = match (asked.directories.as_slice(), asked.artifact_dir.clone()) {
        ([only], None) => match (Plan::read(only)?, Group::find(only)?) {
            (plan, group) if asked.mlflow.is_some() && (plan.is_some() || group.is_some()) => {
                bail!(
                    "--mlflow-tracking-uri: {} contains several runs; use the directory of each of them",
                    only.display()
                )
            }
            (Some(plan), _) => return sweep(only, &plan, asked, out),
            (None, Some(group)) => return many(only, group, asked, out),
            (None, None) => {
                let needs_server_metrics = page.is_some();
                rebuild::rebuild_with(only, Wanted { needs_server_metrics, ..wanted(judge) })?
            }
        },
        (parts, place) => rebuild::combine(parts, place, asked.overwrite, &judge.gates)?,
    };
    let mut files = write(&mut rebuilt, asked.overwrite)?;
    if let Some(page) = page {
        files.push(report::write_run(page, &rebuilt.report, &rebuilt.layout)?);
    }
    if let Some(mlflow) = &asked.mlflow {
        files.extend(send_again(mlflow, &rebuilt.report, &rebuilt.layout));
    }
    let tables = &mut rebuilt.report.run.tables;
    tables.client = asked.tables.unwrap_or(tables.client);
    out.write_all(console::render(&rebuilt.report, terminal_style()).as_bytes())?;
    let judged = [judged(&rebuilt, None)];
    out.write_all(gates::annotations(&judged).as_bytes())?;
    let outcome = gates::finish(&judged, judge.junit.as_deref())?;
    out.write_all(
        console::render_files(&rebuilt.layout.directory, &files, terminal_style()).as_bytes(),
    )?;
    decided(outcome, &judged)
}

/// Recomputes the summaries of each run and the statistics over all.
fn many(
    directory: &Path,
    group: Group,
    asked: &Report,
    out: &mut impl Write,
) -> anyhow::Result<Outcome> {
    let Report { judge, page, .. } = asked;
    warn(&group.notes)?;
    let planned_runs = group.config.planned(1);
    let mut trials = Trials::new(group.config, group.sweep_id);
    let mut judged_runs = Vec::new();
    for (member, place) in group.runs {
        let number = member.trial + 1;
        let label = member.run_label.clone();
        let planned = Planned { member, place, label, level: None };
        let run = one(directory, planned, asked, &mut judged_runs)?;
        out.write_all(console::runs::render_run(&run, number, planned_runs).as_bytes())?;
        trials.add(run);
    }
    check_any(directory, &trials.runs)?;
    let files = AggregateFiles::create(&directory.join(AGGREGATE))?;
    let rows = aggregate::rows(&trials);
    let mut written = files.write(&trials, &rows)?;
    if let Some(page) = page {
        written.push(report::write_trials(page, directory, &trials)?);
    }
    out.write_all(console::runs::render(&trials, &rows, terminal_style()).as_bytes())?;
    conclude(directory, &judged_runs, judge, &written, out)
}

/// Prints the results of the gates and the names of the files; returns how the command ended.
fn conclude(
    directory: &Path,
    judged_runs: &[JudgedRun],
    judge: &judge::Config,
    written: &[PathBuf],
    out: &mut impl Write,
) -> anyhow::Result<Outcome> {
    out.write_all(console::gates::render_runs(judged_runs, terminal_style()).as_bytes())?;
    out.write_all(gates::annotations(judged_runs).as_bytes())?;
    let outcome = gates::finish(judged_runs, judge.junit.as_deref())?;
    out.write_all(console::render_files(directory, written, terminal_style()).as_bytes())?;
    decided(outcome, judged_runs)
}

/// Returns the results of the gates, for a run with a `label` if it is one of several.
pub(super) fn judged(rebuilt: &Rebuilt, label: Option<String>) -> JudgedRun {
    let report = &rebuilt.report;
    JudgedRun { label, failure: report.outcome.incomplete_reason.clone(), gates: report.gates() }
}

/// Returns an error instead of success if there are gates, and a run is not complete.
fn decided(outcome: Outcome, runs: &[JudgedRun]) -> anyhow::Result<Outcome> {
    let has_gates = runs.iter().any(|run| !run.gates.is_empty());
    let failure = runs.iter().find_map(|run| run.failure.as_ref());
    match (outcome, failure) {
        (Outcome::Done, Some(why)) if has_gates => {
            bail!("the gates held, but only for a run that is not complete: {why}")
        }
        _ => Ok(outcome),
    }
}

/// Recomputes the summaries of each run of a sweep, and the comparison of its cells.
fn sweep(
    directory: &Path,
    plan: &Plan,
    asked: &Report,
    out: &mut impl Write,
) -> anyhow::Result<Outcome> {
    let Report { judge, page, .. } = asked;
    let config = &plan.multi_run;
    let sweep = plan.sweep().context("the plan does not list the settings of the sweep")?;
    let mut cells: Vec<(Variation, Trials)> = plan
        .cells
        .iter()
        .map(|cell| (cell.variation.clone(), Trials::new(config.clone(), plan.sweep_id)))
        .collect();
    let mut judged_runs = Vec::new();
    let steps = steps(sweep.mode, cells.len(), config.runs);
    let all = config.planned(cells.len());
    for (number, step) in (1..).zip(steps) {
        let Some((variation, trials)) = cells.get_mut(step.cell) else { continue };
        let place = config.directory(Some(variation), step.trial);
        if !directory.join(&place).is_dir() {
            continue;
        }
        let member = Member::new(plan.sweep_id, step.trial, Some(variation.clone()));
        let label = member.label(config);
        let level = config.throughput_level();
        let planned = Planned { member, place, label, level };
        let run = one(directory, planned, asked, &mut judged_runs)?;
        out.write_all(console::runs::render_run(&run, number, all).as_bytes())?;
        trials.add(run);
    }
    check_any(directory, cells.iter().flat_map(|(_, trials)| &trials.runs))?;
    for (variation, trials) in cells.iter().filter(|_| config.runs > 1) {
        let files =
            AggregateFiles::create(&directory.join(config.aggregate_directory(Some(variation))))?;
        files.write(trials, &aggregate::rows(trials))?;
    }
    let results = Results::of(config, sweep, plan.sweep_id, cells);
    let files = SweepFiles::create(&directory.join(config.sweep_directory()))?;
    let mut written = files.write(&results)?;
    if let Some(page) = page {
        written.push(report::write_sweep(page, directory, &results)?);
    }
    if let Some(found) = &results.space {
        written.insert(0, SearchFile::create(directory)?.write_space(found, true)?);
    }
    let text = if let Some(found) = &results.search {
        written.insert(0, SearchFile::create(directory)?.write(found, true)?);
        console::runs::render_search(found, terminal_style())
    } else {
        console::runs::render_sweep(&results, terminal_style())
    };
    out.write_all(text.as_bytes())?;
    conclude(directory, &judged_runs, judge, &written, out)
}

/// One of several runs.
struct Planned {
    member: Member,
    /// Its directory in that of the group.
    place: PathBuf,
    label: String,
    /// Confidence of its throughput, if that is needed.
    level: Option<f64>,
}

/// Recomputes the summaries of a run in the `directory` of its group, and adds the results of its
/// gates to `judged_runs`.
fn one(
    directory: &Path,
    Planned { member, place, label, level }: Planned,
    Report { judge, overwrite, .. }: &Report,
    judged_runs: &mut Vec<JudgedRun>,
) -> anyhow::Result<RunResult> {
    let label = Some(label);
    Ok(match rebuild::rebuild_with(&directory.join(&place), wanted(judge)) {
        Ok(mut rebuilt) => {
            write(&mut rebuilt, *overwrite)?;
            judged_runs.push(judged(&rebuilt, label));
            rebuilt.into_result(member, place, level)
        }
        Err(error) => {
            let why = error.to_string();
            let gates = Vec::new();
            judged_runs.push(JudgedRun { label, failure: Some(why.clone()), gates });
            RunResult::failed(member, place, Failure::Client(why))
        }
    })
}

/// Returns an error if the summaries of no run could be recomputed.
fn check_any<'a>(
    directory: &Path,
    runs: impl IntoIterator<Item = &'a RunResult>,
) -> anyhow::Result<()> {
    if runs.into_iter().all(|run| run.benchmark_id.is_none()) {
        bail!("the summaries of none of the runs in {} can be recomputed", directory.display());
    }
    Ok(())
}

fn wanted(judge: &judge::Config) -> Wanted<'_> {
    Wanted { gates: &judge.gates, ..Wanted::default() }
}

/// Writes the files of a report, also in place of those that cover more requests if `overwrite` is
/// set.
fn write(rebuilt: &mut Rebuilt, overwrite: bool) -> anyhow::Result<Vec<PathBuf>> {
    let text = console::render_file(&rebuilt.report);
    if !overwrite {
        rebuilt.check_coverage()?;
    }
    let files = rebuild::write(rebuilt, &text);
    warn(&rebuilt.notes)?;
    Ok(files?)
}

pub(super) fn warn(notes: &[String]) -> io::Result<()> {
    let said = |note: &String| writeln!(Stderr, "warning: {}", redact::printable(note));
    notes.iter().try_for_each(said)
}
