//! `aiperf plot`: draws the charts of runs.

use std::fs;
use std::io::Write;
use std::path::{Path, PathBuf};

use anyhow::{Context, bail};
use uuid::Uuid;

use measure::multi_run::{Config, GroupResults, Member, Trials};
use results::artifacts::layout::PLOTS;
use results::artifacts::rebuild::{self, Group, GroupRun, Rebuilt, Wanted};
use results::console;
use results::report::plot::{self, AutoPlot, Charts};
use results::report::{self, Comparison};
use results::run::RunReport;

use super::logging;
use super::outcome::Outcome;
use super::report::warn;
use crate::cli::Plot;
use crate::config::LogLevel;

/// The list of the pictures.
const SUMMARY: &str = "summary.txt";

/// What the command did.
const LOG: &str = "aiperf_plot.log";

/// How deep below a directory runs are searched for.
const MAX_DEPTH: usize = 4;

/// Draws the charts of the runs in the directories that `asked` names.
pub(super) fn plot(asked: &Plot, out: &mut impl Write) -> anyhow::Result<Outcome> {
    let directories = if asked.paths.is_empty() { &asked.directories } else { &asked.paths };
    let charts = read(directories)?;
    let place = asked.output.clone().or_else(|| Some(directories.first()?.join(PLOTS)));
    let place = place.unwrap_or_default();
    let config = plot::Config { theme: asked.theme, formats: asked.format.clone() };
    // Without a log, the pictures are as good.
    let log = place.join(LOG);
    let _ = fs::create_dir_all(&place).and_then(|()| logging::start(&log, LogLevel::Info, false));
    out.write_all(draw(&charts, &place, &config)?.as_bytes())?;
    Ok(Outcome::Done)
}

/// Draws the `charts` of what is in `directory` after it was measured; returns what to print about
/// it. A failure is a warning, unless they are required.
pub(super) fn after(
    auto_plot: AutoPlot,
    directory: &Path,
    charts: &dyn Fn() -> anyhow::Result<Charts>,
) -> anyhow::Result<String> {
    if auto_plot == AutoPlot::Off {
        return Ok(String::new());
    }
    let place = directory.join(PLOTS);
    match charts().and_then(|charts| draw(&charts, &place, &plot::Config::default())) {
        Ok(text) => Ok(text),
        Err(error) if auto_plot == AutoPlot::Required => {
            Err(error.context("the charts were not drawn"))
        }
        Err(error) => {
            warn(&[format!("the charts were not drawn: {error:#}")])?;
            Ok(String::new())
        }
    }
}

/// Returns the pictures that [`after`] has drawn in `directory`.
pub(super) fn pictures(directory: &Path) -> Vec<PathBuf> {
    let entries = fs::read_dir(directory.join(PLOTS)).into_iter().flatten().flatten();
    let is_picture = |path: &PathBuf| path.extension().is_some_and(|it| it == "png" || it == "svg");
    entries.map(|entry| entry.path()).filter(is_picture).collect()
}

/// Returns the charts of a run whose table of requests is `table`.
pub(super) fn of_run(report: &RunReport, table: &Path) -> anyhow::Result<Charts> {
    report::plots(report, table).with_context(|| format!("cannot read {}", table.display()))
}

/// Writes the pictures and the list of them to `place`; returns a line about them.
fn draw(charts: &Charts, place: &Path, config: &plot::Config) -> anyhow::Result<String> {
    if charts.is_empty() {
        bail!("there is nothing to draw: the runs do not have any values");
    }
    let written = charts.write(place, config)?;
    for picture in &written {
        tracing::info!("drew {}", picture.display());
    }
    let summary = place.join(SUMMARY);
    fs::write(&summary, described(place, &written))
        .with_context(|| format!("cannot write {}", summary.display()))?;
    Ok(console::render_pictures(place, written.len()))
}

/// Returns the list of pictures, in AIPerf's layout.
fn described(place: &Path, pictures: &[PathBuf]) -> String {
    let rule = "=".repeat(50);
    let names: Vec<String> = pictures.iter().map(|path| format!("  - {}", name(path))).collect();
    format!(
        "Charts by aiperf\n{rule}\n\nGenerated {} plots:\n\n{}\n\nOutput directory: {}\n",
        pictures.len(),
        names.join("\n"),
        place.display()
    )
}

/// Returns the charts of all runs in `directories`.
fn read(directories: &[PathBuf]) -> anyhow::Result<Charts> {
    let mut sources = Vec::new();
    for directory in directories {
        let before = sources.len();
        find(directory, directory, 0, &mut sources)?;
        if sources.len() == before {
            let shown = directory.display();
            if !directory.is_dir() {
                bail!("{shown} is not a directory; specify one that `aiperf profile` wrote");
            }
            bail!(
                "{shown} does not contain a run with the records of its requests; specify a \
                 directory that `aiperf profile` wrote with --export-level records or raw"
            );
        }
    }
    match sources.as_slice() {
        [only] => only.charts(),
        several => compare(several),
    }
}

/// Runs to draw.
struct Source {
    /// Its name among others.
    label: String,
    directory: PathBuf,
    kind: Plotted,
}

enum Plotted {
    Run,
    Group(Box<Group>),
}

/// Adds the runs in `directory`, which is below `root` or the same.
fn find(
    root: &Path,
    directory: &Path,
    depth: usize,
    sources: &mut Vec<Source>,
) -> anyhow::Result<()> {
    let kind = match Group::find(directory)? {
        Some(group) => Some(Plotted::Group(Box::new(group))),
        None => rebuild::layout(directory)?.records.exists().then_some(Plotted::Run),
    };
    if let Some(kind) = kind {
        let below = directory.strip_prefix(root).ok().filter(|rest| !rest.as_os_str().is_empty());
        let label = below.map_or_else(|| name(root), |rest| rest.display().to_string());
        sources.push(Source { label, directory: directory.to_owned(), kind });
        return Ok(());
    }
    if depth == MAX_DEPTH {
        return Ok(());
    }
    let entries = fs::read_dir(directory).into_iter().flatten().flatten();
    // Links could form a cycle.
    let is_directory = |entry: &fs::DirEntry| entry.file_type().is_ok_and(|kind| kind.is_dir());
    let mut below: Vec<PathBuf> = entries.filter(is_directory).map(|entry| entry.path()).collect();
    below.sort();
    below.iter().try_for_each(|path| find(root, path, depth + 1, sources))
}

/// Returns the last name in `path`, or else all of it.
fn name(path: &Path) -> String {
    let last = path.file_name().map(|name| name.to_string_lossy().into_owned());
    last.unwrap_or_else(|| path.display().to_string())
}

impl Source {
    /// Returns the charts of these runs only.
    fn charts(&self) -> anyhow::Result<Charts> {
        let directory = &self.directory;
        match &self.kind {
            Plotted::Run => {
                let Rebuilt { report, layout, .. } = run(directory)?;
                of_run(&report, &layout.table)
            }
            Plotted::Group(group) => {
                Ok(Comparison::from_results(directory, &results(directory, group)?).plots()?)
            }
        }
    }
}

/// Returns the charts that compare all of `sources`. Those that cannot be read are left out.
fn compare(sources: &[Source]) -> anyhow::Result<Charts> {
    let mut comparison = Comparison::of_others();
    let mut failures = Vec::new();
    for source in sources {
        if let Err(error) = add(source, &mut comparison) {
            failures.push(format!("{}: {error:#}", source.directory.display()));
        }
    }
    if failures.len() == sources.len() {
        bail!("none of the runs can be read: {}", failures.join("; "));
    }
    let notes: Vec<String> = failures.iter().map(|why| format!("{why}; it is left out")).collect();
    warn(&notes)?;
    Ok(comparison.plots()?)
}

fn add(source: &Source, comparison: &mut Comparison) -> anyhow::Result<()> {
    let directory = &source.directory;
    let label = source.label.clone();
    match &source.kind {
        Plotted::Run => {
            let rebuilt = run(directory)?;
            let concurrency = rebuilt.report.outcome.load.requested_concurrency;
            let member = Member::new(Uuid::nil(), 0, None);
            let mut alone = Trials::new(Config::default(), Uuid::nil());
            alone.add(rebuilt.into_result(member, PathBuf::new(), &Config::default()));
            comparison.add(label, concurrency.map(|limit| limit as f64), directory, &alone);
        }
        Plotted::Group(group) => match results(directory, group)? {
            GroupResults::Trials(trials) => comparison.add(label, None, directory, &trials),
            cells @ GroupResults::Sweep(_) => {
                comparison.join(&label, Comparison::from_results(directory, &cells));
            }
        },
    }
    Ok(())
}

/// Reads the run in `directory`.
fn run(directory: &Path) -> anyhow::Result<Rebuilt> {
    let wanted = Wanted { needs_server_metrics: true, ..Wanted::default() };
    let rebuilt = rebuild::rebuild_with(directory, wanted)?;
    if !rebuilt.layout.table.exists() {
        let (table, place) = (rebuilt.layout.table.display(), directory.display());
        bail!("{table} does not exist; write it with `aiperf report {place}`");
    }
    Ok(rebuilt)
}

/// Reads the runs of a group.
fn results(directory: &Path, group: &Group) -> anyhow::Result<GroupResults> {
    let Group { config, sweep_id, .. } = group;
    let trials = |cell: &Option<_>| (cell.clone(), Trials::new(config.clone(), *sweep_id));
    let mut cells: Vec<_> = group.cells.iter().map(trials).collect();
    for GroupRun { cell, member, directory: place, .. } in &group.runs {
        // A run that failed before its first request does not have files.
        let Ok(rebuilt) = rebuild::rebuild(&directory.join(place)) else { continue };
        let is_it = rebuilt.report.run.member.as_ref() == Some(member);
        if let Some((_, trials)) = cells.get_mut(*cell).filter(|_| is_it) {
            trials.add(rebuilt.into_result(member.clone(), place.clone(), config));
        }
    }
    if cells.iter().all(|(_, trials)| trials.runs.is_empty()) {
        bail!("none of the runs in {} can be read", directory.display());
    }
    Ok(GroupResults::from_cells(config, *sweep_id, cells))
}
