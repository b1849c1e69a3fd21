//! `aiperf report`: recomputes summaries from the records of a run, its shards, or several
//! runs.

use std::io::{self, Write};
use std::path::{Path, PathBuf};

use anyhow::bail;

use super::stderr::Stderr;
use super::{Outcome, terminal_style};
use crate::artifacts::aggregate::AggregateFiles;
use crate::artifacts::rebuild::{self, Group, Rebuilt};
use crate::console::{self, Style};
use crate::multi_run::{Failure, RunResult, Trials, aggregate};
use crate::platform::signals;
use crate::redact;

/// Recomputes the summaries of `directories`. A single directory is that of a run or of
/// several runs; several directories are the shards of one run.
pub(super) fn report(
    directories: &[PathBuf],
    artifact_dir: Option<PathBuf>,
    overwrite: bool,
    out: &mut impl Write,
) -> anyhow::Result<Outcome> {
    signals::survive_full_files()?;
    let mut rebuilt = match (directories, artifact_dir) {
        ([only], None) => match Group::find(only)? {
            Some(group) => return many(only, group, out),
            None => rebuild::rebuild(only)?,
        },
        (parts, place) => rebuild::combine(parts, place, overwrite)?,
    };
    let files = write(&mut rebuilt)?;
    out.write_all(console::render(&rebuilt.report, terminal_style()).as_bytes())?;
    out.write_all(console::render_files(&rebuilt.layout.directory, &files).as_bytes())?;
    Ok(Outcome::Done)
}

/// Recomputes the summaries of each run and the statistics over all.
fn many(directory: &Path, group: Group, out: &mut impl Write) -> anyhow::Result<Outcome> {
    warn(&group.notes)?;
    let asked = group.config.runs;
    let mut trials = Trials { config: group.config, sweep_id: group.sweep_id, runs: Vec::new() };
    for (member, place) in group.runs {
        let run = match rebuild::rebuild(&directory.join(&place)) {
            Ok(mut rebuilt) => {
                write(&mut rebuilt)?;
                rebuilt.into_result(member, place)
            }
            Err(error) => RunResult::failed(member, place, Failure::Client(error.to_string())),
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
    out.write_all(console::render_files(directory, &written).as_bytes())?;
    Ok(Outcome::Done)
}

/// Writes the files of a report and prints the results.
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
