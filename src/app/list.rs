//! `aiperf list`: the runs whose files are in a directory, and `aiperf show`: the results of one of them.

use std::io::Write;
use std::path::{Component, Path, PathBuf};

use anyhow::{Context as _, bail};

use base::redact::printable;
use measure::multi_run::Failure;
use results::artifacts::rebuild::{self, Group};
use results::console;
use results::report as pages;
use results::run::listed::Listed;
use results::terminal::terminal_style;

use super::ending::RunEnding;
use super::outcome::Outcome;
use super::output::Output;
use super::report::{self, warn};
use crate::cli::{List, Show};

/// The page in the directory of the runs.
const INDEX: &str = "index.html";

/// Prints the runs in a directory, and writes their page if it is asked for.
pub(super) fn list(asked: &List, out: &mut impl Write) -> anyhow::Result<Outcome> {
    let runs = found(&asked.directory)?;
    out.write_all(console::list::runs(&runs, terminal_style()).as_bytes())?;
    if let Some(page) = &asked.html {
        let path = page.or(&asked.directory.join(INDEX));
        let relative = relative(&path, &asked.directory, runs);
        let title = format!("Runs in {}", printable(&asked.directory.display().to_string()));
        pages::write_index(&path, &title, &relative)
            .with_context(|| format!("cannot write {}", path.display()))?;
        writeln!(out, "Page: {}", printable(&path.display().to_string()))?;
    }
    Ok(Outcome::Done)
}

/// Prints what a run printed at its end.
pub(super) fn show(asked: &Show, out: &mut impl Write) -> anyhow::Result<Outcome> {
    let directory = chosen(asked)?;
    let mut out = Output::new(out);
    let text = if let Some(group) = Group::find(&directory)? {
        let read = |path: &Path| {
            let rebuilt = rebuild::rebuild(path);
            let rebuilt = rebuilt.map_err(|error| Failure::Client(error.to_string()))?;
            let (report, values) = (rebuilt.report, rebuilt.profiling);
            Ok(RunEnding { report, layout: rebuilt.layout, values, files: Ok(Vec::new()) })
        };
        report::gathered(&directory, group, read, &mut out)?.rendered()
    } else {
        let mut rebuilt = rebuild::rebuild(&directory)?;
        warn(&rebuilt.notes)?;
        let tables = &mut rebuilt.report.run.tables;
        tables.client = asked.tables.unwrap_or(tables.client);
        console::render(&rebuilt.report, terminal_style())
    };
    out.say(&text);
    out.say(&format!("Files: {}\n", printable(&directory.display().to_string())));
    out.finish(Ok(Outcome::Done))
}

/// Returns the runs in `directory`, of which there must be one.
fn found(directory: &Path) -> anyhow::Result<Vec<Listed>> {
    let shown = directory.display();
    if !directory.is_dir() {
        bail!("{shown} is not a directory; specify one that contains the artifacts of runs");
    }
    let (runs, is_cut) = rebuild::list(directory);
    if runs.is_empty() {
        bail!("{shown} does not contain the artifacts of a run");
    }
    if is_cut {
        warn(&[format!("{shown} has too many directories; some were not searched")])?;
    }
    Ok(runs)
}

/// Returns the directory of the run that `asked` names.
fn chosen(asked: &Show) -> anyhow::Result<PathBuf> {
    let Some(name) = &asked.run else {
        let newest = found(&asked.artifact_dir)?.into_iter().next();
        return Ok(asked.artifact_dir.join(newest.map(|run| run.directory).unwrap_or_default()));
    };
    if Path::new(name).is_dir() {
        return Ok(name.into());
    }
    let runs = found(&asked.artifact_dir)?;
    let groups = runs.iter().map(|run| (PathBuf::new(), run));
    let members = runs
        .iter()
        .flat_map(|run| run.members.iter().map(|member| (run.directory.clone(), member)));
    let all = || groups.clone().chain(members.clone());
    let is_named = |run: &Listed| {
        run.directory == Path::new(name)
            || run.name.as_deref() == Some(name)
            || run.directory.file_name().is_some_and(|own| own == name.as_str())
    };
    // The newest of several is first.
    let exact = all().find(|(_, run)| is_named(run));
    let by_id = || all().find(|(_, run)| run.benchmark_id.starts_with(name.as_str()));
    let (group, run) = exact.or_else(by_id).with_context(|| {
        let place = asked.artifact_dir.display();
        format!("{place} does not contain a run called {name:?}; `aiperf list {place}` lists them")
    })?;
    Ok(asked.artifact_dir.join(group).join(&run.directory))
}

/// Returns `runs`, which are relative to `directory`, relative to the directory of `page`.
fn relative(page: &Path, directory: &Path, mut runs: Vec<Listed>) -> Vec<Listed> {
    let absolute = |path: &Path| std::path::absolute(path).unwrap_or_else(|_| path.to_owned());
    let (page, directory) = (absolute(page), absolute(directory));
    let place = page.parent().unwrap_or(&page);
    let shared = place.components().zip(directory.components());
    let shared = shared.take_while(|(one, other)| one == other).count();
    let up = place.components().skip(shared).map(|_| Component::ParentDir);
    let base: PathBuf = up.chain(directory.components().skip(shared)).collect();
    for run in &mut runs {
        run.directory = base.join(&run.directory);
    }
    runs
}
