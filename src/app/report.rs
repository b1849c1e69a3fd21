//! Summaries again from records: of a run, of its parts, or of many runs.

use std::io::{self, Write};
use std::path::{Path, PathBuf};

use anyhow::bail;

use super::{Outcome, terminal_style};
use crate::artifacts::aggregate::AggregateFiles;
use crate::artifacts::report::{self, Group, Rebuilt};
use crate::console::{self, Style};
use crate::multi_run::{Failure, RunResult, Trials, aggregate};

/// Reports what is in `directories`: one of them is a run's or that of many runs,
/// several are the parts of one run.
pub(super) fn report(
    directories: &[PathBuf],
    artifact_dir: Option<PathBuf>,
    out: &mut impl Write,
) -> anyhow::Result<Outcome> {
    let mut rebuilt = match (directories, artifact_dir) {
        ([only], None) => match Group::find(only)? {
            Some(group) => return many(only, group, out),
            None => report::rebuild(only)?,
        },
        (parts, place) => report::combine(parts, place)?,
    };
    let files = write(&mut rebuilt)?;
    out.write_all(console::render(&rebuilt.report, terminal_style()).as_bytes())?;
    out.write_all(console::render_files(&rebuilt.layout.directory, &files).as_bytes())?;
    Ok(Outcome::Done)
}

/// Each run again, and statistics over them.
fn many(directory: &Path, group: Group, out: &mut impl Write) -> anyhow::Result<Outcome> {
    warn(&group.notes)?;
    let asked = group.config.runs;
    let mut trials = Trials { config: group.config, sweep_id: group.sweep_id, runs: Vec::new() };
    for (member, place) in group.runs {
        let run = match report::rebuild(&directory.join(&place)) {
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
        bail!("none of the runs in {} can be reported again", directory.display());
    }
    let files = AggregateFiles::create(directory)?;
    let rows = aggregate::rows(&trials);
    let written = files.write(&trials, &rows)?;
    out.write_all(console::runs::render(&trials, &rows, terminal_style()).as_bytes())?;
    out.write_all(console::render_files(directory, &written).as_bytes())?;
    Ok(Outcome::Done)
}

/// Writes the files of a report and says what is to be known of them.
fn write(rebuilt: &mut Rebuilt) -> anyhow::Result<Vec<PathBuf>> {
    let text = console::render(&rebuilt.report, Style::FILE);
    let files = report::write(rebuilt, &text);
    warn(&rebuilt.notes)?;
    Ok(files?)
}

fn warn(notes: &[String]) -> io::Result<()> {
    notes.iter().try_for_each(|note| writeln!(io::stderr(), "warning: {note}"))
}
