//! Reports gates and comparisons: JUnit file, and annotations and summary of a GitHub workflow.

use std::fs::{self, OpenOptions};
use std::io::{self, Write};
use std::path::Path;

use anyhow::Context;

use base::platform::replace;
use measure::judge::JudgedRun;
use measure::judge::reports::{self, Suite};
use results::terminal::Stderr;

use super::outcome::Outcome;
use crate::config::Environment;

/// Checks that the JUnit file can be written, and creates its directory.
pub(super) fn check(junit: Option<&Path>) -> anyhow::Result<()> {
    junit.map_or(Ok(()), |path| check_file(path, "--junit"))
}

/// Checks that the file that `flag` names can be written, and creates its directory.
pub(super) fn check_file(path: &Path, flag: &str) -> anyhow::Result<()> {
    let create = || {
        path.parent().map_or(Ok(()), fs::create_dir_all)?;
        replace::check(path)
    };
    create().with_context(|| cannot_write(path, flag))
}

fn cannot_write(path: &Path, flag: &str) -> String {
    format!("cannot write {}; choose another file with {flag}", path.display())
}

/// Returns annotations of the GitHub workflow that the command is part of, for stdout; empty outside
/// of one.
pub(super) fn annotations(runs: &[JudgedRun]) -> String {
    if is_on_github() { reports::annotations(runs) } else { String::new() }
}

/// Writes the files with the gates of `runs`. The outcome of a command that was done otherwise is
/// [`Outcome::Missed`] if a gate did not hold, and [`Outcome::Unknown`] if too few requests leave one undecided.
pub(super) fn finish(runs: &[JudgedRun], junit: Option<&Path>) -> anyhow::Result<Outcome> {
    if let Some(path) = junit {
        write_junit(path, &reports::suites(runs))?;
    }
    if runs.iter().any(|run| !run.gates.is_empty()) {
        summarize(|| reports::markdown(runs));
    }
    Ok(if JudgedRun::any_missed(runs) {
        Outcome::Missed
    } else if JudgedRun::all_held(runs) {
        Outcome::Done
    } else {
        Outcome::Unknown
    })
}

/// Appends Markdown to the summary of the step of the GitHub workflow that the command is part of;
/// outside of one, does nothing.
pub(super) fn summarize(text: impl FnOnce() -> String) {
    let path = Environment::process().get("GITHUB_STEP_SUMMARY").filter(|_| is_on_github());
    if let Some(path) = path
        && let Err(error) = append(&path, &text())
    {
        // The outcome is decided without it. An error means that the terminal is gone.
        let _ = writeln!(Stderr, "warning: cannot write {path} (GITHUB_STEP_SUMMARY): {error}");
    }
}

/// Replaces the JUnit file at `path`.
pub(super) fn write_junit(path: &Path, suites: &[Suite]) -> anyhow::Result<()> {
    let text = reports::junit(suites);
    replace::replace(path, |file| file.write_all(text.as_bytes()))
        .with_context(|| cannot_write(path, "--junit"))
}

fn is_on_github() -> bool {
    Environment::process().trimmed("GITHUB_ACTIONS").as_deref() == Some("true")
}

fn append(path: &str, text: &str) -> io::Result<()> {
    let mut file = OpenOptions::new().create(true).append(true).open(path)?;
    file.write_all(text.as_bytes())
}
