//! `aiperf report`: recomputes summaries from the records of a run, its shards, or several
//! runs.

use std::io::{self, Write};
use std::path::{Path, PathBuf};

use anyhow::bail;

use super::stderr::Stderr;
use super::{Outcome, gates, terminal_style};
use crate::artifacts::aggregate::AggregateFiles;
use crate::artifacts::rebuild::{self, Group, Rebuilt};
use crate::console::{self, Style};
use crate::judge::{self, JudgedRun};
use crate::multi_run::{Failure, RunResult, Trials, aggregate};
use crate::platform::signals;
use crate::redact;

/// Recomputes the summaries of `directories`. A single directory is that of a run or of
/// several runs; several directories are the shards of one run.
pub(super) fn report(
    directories: &[PathBuf],
    artifact_dir: Option<PathBuf>,
    overwrite: bool,
    judge: &judge::Config,
    out: &mut impl Write,
) -> anyhow::Result<Outcome> {
    signals::survive_full_files()?;
    gates::check(judge.junit.as_deref())?;
    let mut rebuilt = match (directories, artifact_dir) {
        ([only], None) => match Group::find(only)? {
            Some(group) => return many(only, group, judge, out),
            None => rebuild::rebuild_with(only, &judge.gates)?,
        },
        (parts, place) => rebuild::combine(parts, place, overwrite, &judge.gates)?,
    };
    let files = write(&mut rebuilt)?;
    out.write_all(console::render(&rebuilt.report, terminal_style()).as_bytes())?;
    let judged = [judged(&rebuilt, None)];
    out.write_all(gates::annotations(&judged).as_bytes())?;
    let outcome = gates::finish(&judged, judge.junit.as_deref())?;
    out.write_all(console::render_files(&rebuilt.layout.directory, &files).as_bytes())?;
    decided(outcome, &judged)
}

/// Recomputes the summaries of each run and the statistics over all.
fn many(
    directory: &Path,
    group: Group,
    judge: &judge::Config,
    out: &mut impl Write,
) -> anyhow::Result<Outcome> {
    warn(&group.notes)?;
    let asked = group.config.runs;
    let mut trials = Trials { config: group.config, sweep_id: group.sweep_id, runs: Vec::new() };
    let mut judged_runs = Vec::new();
    for (member, place) in group.runs {
        let label = Some(member.run_label.clone());
        let run = match rebuild::rebuild_with(&directory.join(&place), &judge.gates) {
            Ok(mut rebuilt) => {
                write(&mut rebuilt)?;
                judged_runs.push(judged(&rebuilt, label));
                rebuilt.into_result(member, place)
            }
            Err(error) => {
                let why = error.to_string();
                judged_runs.push(JudgedRun {
                    label,
                    failure: Some(why.clone()),
                    gates: Vec::new(),
                });
                RunResult::failed(member, place, Failure::Client(why))
            }
        };
        out.write_all(console::runs::render_run(&run, asked).as_bytes())?;
        trials.runs.push(run);
    }
    if trials.runs.iter().all(|run| run.benchmark_id.is_none()) {
        bail!("the summaries of none of the runs in {} can be recomputed", directory.display());
    }
    let files = AggregateFiles::create(directory)?;
    let rows = aggregate::rows(&trials);
    let written = files.write(&trials, &rows)?;
    out.write_all(console::runs::render(&trials, &rows, terminal_style()).as_bytes())?;
    out.write_all(console::gates::render_runs(&judged_runs, terminal_style()).as_bytes())?;
    out.write_all(gates::annotations(&judged_runs).as_bytes())?;
    let outcome = gates::finish(&judged_runs, judge.junit.as_deref())?;
    out.write_all(console::render_files(directory, &written).as_bytes())?;
    decided(outcome, &judged_runs)
}

/// Returns the results of the gates, for a run with a `label` if it is one of several.
fn judged(rebuilt: &Rebuilt, label: Option<String>) -> JudgedRun {
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

/// Writes the files of a report.
fn write(rebuilt: &mut Rebuilt) -> anyhow::Result<Vec<PathBuf>> {
    let text = console::render(&rebuilt.report, Style::FILE);
    let files = rebuild::write(rebuilt, &text);
    warn(&rebuilt.notes)?;
    Ok(files?)
}

fn warn(notes: &[String]) -> io::Result<()> {
    let said = |note: &String| writeln!(Stderr, "warning: {}", redact::printable(note));
    notes.iter().try_for_each(said)
}
