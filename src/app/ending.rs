//! What a command ends with: a run, or several. Whether the runs were measured just now or are read
//! from their files, [`deliver`] alone writes what describes all of them, prints, and decides how the
//! command ended.

use std::collections::BTreeSet;
use std::io;
use std::path::{Path, PathBuf};

use anyhow::{anyhow, bail};

use base::interrupt::Interrupt;
use measure::judge::{JudgedRun, Undecided};
use measure::metrics::Accumulator;
use measure::multi_run::history::{End, History};
use measure::multi_run::knee::Saturation;
use measure::multi_run::limit::standing_of;
use measure::multi_run::search;
use measure::multi_run::sweep::{Choice, Results};
use measure::multi_run::{
    self, Failure, GroupResults, Member, RunResult, Trials, Variation, aggregate,
};
use results::artifacts::ArtifactError;
use results::artifacts::aggregate::AggregateFiles;
use results::artifacts::layout::Layout;
use results::artifacts::search::SearchFile;
use results::artifacts::sweep::SweepFiles;
use results::console;
use results::follow::{Delivered, Ended, Follower as _, Followers};
use results::report::plot::AutoPlot;
use results::report::{self, Comparison, PageFile};
use results::run::scenario::Invalid;
use results::run::{ClientTables, RunReport};
use results::terminal::{terminal_style, terminal_width};

use super::outcome::Outcome;
use super::output::Output;
use super::{gates, plot};
use crate::config::RunConfig;

/// A run that has ended and written its files.
pub(super) struct RunEnding {
    pub(super) report: RunReport,
    pub(super) layout: Layout,
    /// The values of its profiling phase.
    pub(super) values: Accumulator,
    /// Its files, or which could not be written.
    pub(super) files: Result<Vec<PathBuf>, ArtifactError>,
}

impl RunEnding {
    /// Tells `followers` that the run has ended; the files that they write are added to its own.
    pub(super) fn tell(&mut self, followers: &Followers, interrupt: &Interrupt) {
        let interrupt = &interrupt.since_now();
        let files = self.files.as_mut().map(std::mem::take).unwrap_or_default();
        let (report, layout) = (&self.report, &self.layout);
        let mut ended = Ended { report, layout, files, interrupt };
        followers.ended(&mut ended);
        let files = ended.files;
        if let Ok(own) = &mut self.files {
            *own = files;
        }
    }

    /// Writes the page of the run.
    fn write_page(&mut self, page: &PageFile) {
        let Ok(files) = &mut self.files else { return };
        match report::write_run(page, &self.report, &self.layout) {
            Ok(path) => files.push(path),
            Err(failure) => {
                let written = std::mem::take(files);
                let has_records = written.contains(&self.layout.records);
                let failures = vec![failure];
                self.files = Err(ArtifactError::Incomplete { written, failures, has_records });
            }
        }
    }

    /// Returns the results of the gates, for a run with a `label` if it is one of several.
    fn judged(&self, label: Option<String>) -> JudgedRun {
        JudgedRun { label, failure: self.failure(), gates: self.report.gates() }
    }

    /// Returns why the run is not complete, if it is not.
    fn failure(&self) -> Option<String> {
        let RunReport { outcome, .. } = &self.report;
        let none_succeeded = || {
            format!(
                "no request succeeded; see the error summary for the reasons and `{}` for the \
                 records",
                self.layout.directory.display()
            )
        };
        let reason = outcome.incomplete_reason.clone();
        reason.or_else(|| (!self.report.has_success()).then(none_succeeded))
    }

    /// Returns how the run ended, regardless of its gates.
    fn outcome(&self) -> anyhow::Result<Outcome> {
        match self.report.failure() {
            Some(Failure::Cancelled(_)) => Ok(Outcome::Interrupted),
            None if !self.report.is_covered() => {
                Err(anyhow!("{}", Invalid::InsufficientProfileMetricCoverage.clause()))
            }
            None | Some(Failure::Partial(_)) => Ok(Outcome::Done),
            Some(_) if self.report.failed() > 0 && !self.report.has_success() => {
                let why = self.report.outcome.incomplete_reason.as_deref();
                Err(anyhow!("{}", why.unwrap_or("no request succeeded")))
            }
            Some(failure) => {
                let why = self.failure();
                Err(anyhow!(why.unwrap_or_else(|| failure.message().to_owned())))
            }
        }
    }

    /// Returns the files that the run may have written.
    fn all_files(&self) -> BTreeSet<PathBuf> {
        // A directory with files of another run is not used, so all with these names are its own.
        self.files.iter().flatten().cloned().chain(self.layout.clone().all_files()).collect()
    }
}

/// What the runs of a command leave for its end.
#[derive(Default)]
pub(super) struct Runs {
    /// The results of the gates of each run.
    judged: Vec<JudgedRun>,
    /// The files that they have written.
    files: BTreeSet<PathBuf>,
}

impl Runs {
    /// Adds a run that has ended as `member` of the group with the configuration `config`, in which
    /// its files are in `directory`; returns its result.
    pub(super) fn add(
        &mut self,
        run: RunEnding,
        member: Member,
        directory: PathBuf,
        config: &multi_run::Config,
    ) -> RunResult {
        self.judged.push(run.judged(Some(member.label(config))));
        self.files.extend(run.all_files());
        let unwritten = run.files.err().map(|error| Failure::Client(error.to_string()));
        let mut result = run.report.into_result(member, directory, run.values, config);
        result.failure = result.failure.or(unwritten);
        result
    }

    /// Adds a run that could not be performed or read; returns its result.
    pub(super) fn add_failed(
        &mut self,
        failure: Failure,
        member: Member,
        directory: PathBuf,
        config: &multi_run::Config,
    ) -> RunResult {
        let (label, why) = (member.label(config), failure.message().to_owned());
        self.judged.push(JudgedRun { label: Some(label), failure: Some(why), gates: Vec::new() });
        RunResult::failed(member, directory, failure)
    }

    /// Adds files that the command has written beside those of its runs.
    pub(super) fn wrote(&mut self, files: impl IntoIterator<Item = PathBuf>) {
        self.files.extend(files);
    }
}

/// Several runs that have ended.
pub(super) struct GroupEnding {
    /// The directory of all runs.
    pub(super) directory: PathBuf,
    pub(super) results: GroupResults,
    pub(super) runs: Runs,
    /// Why not all planned runs were performed, if the command was ended before.
    pub(super) cut: Option<Cut>,
}

/// Why not all runs of a command were performed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Cut {
    /// The user interrupted it.
    Interrupted,
    /// The time was over; `planned` is the number of runs, if it is known.
    Late { planned: Option<u64> },
}

impl GroupEnding {
    /// Writes the files that describe all runs; returns those to list, and the first failure.
    fn write(&mut self, page: Option<&PageFile>) -> (Vec<PathBuf>, anyhow::Result<()>) {
        let Self { directory, results, runs, .. } = self;
        let (mut listed, mut outcome) = (Vec::new(), Ok(()));
        let mut keep = |result: anyhow::Result<Vec<PathBuf>>| match result {
            Ok(files) => files,
            Err(error) => {
                if outcome.is_ok() {
                    outcome = Err(error);
                }
                Vec::new()
            }
        };
        match results {
            GroupResults::Trials(trials) => {
                listed.extend(keep(write_aggregate(directory, trials, None)));
            }
            GroupResults::Sweep(results) => {
                for cell in results.cells.iter().filter(|_| results.config.runs > 1) {
                    let (trials, cell) = (&cell.trials, &cell.variation);
                    runs.wrote(keep(write_aggregate(directory, trials, Some(cell))));
                }
                listed.extend(keep(write_history(directory, results)));
                listed.extend(keep(write_sweep(directory, results)));
            }
        }
        if let Some(page) = page {
            let written = report::write_group(page, directory, results);
            listed.extend(keep(written.map(|path| vec![path]).map_err(Into::into)));
        }
        runs.wrote(listed.iter().cloned());
        (listed, outcome)
    }

    /// Renders the results.
    pub(super) fn rendered(&self) -> String {
        let style = terminal_style();
        match &self.results {
            GroupResults::Trials(trials) => {
                console::runs::render(trials, &aggregate::rows(trials), style)
            }
            GroupResults::Sweep(results) => match &results.search {
                Some(found) => console::runs::render_search(found, style),
                None if results.sweep.shows_table => console::runs::render_sweep(results, style),
                None => String::new(),
            },
        }
    }

    /// Renders which runs were not performed because the time was over.
    fn rest(&self) -> String {
        match self.cut {
            Some(Cut::Late { planned }) => {
                console::runs::render_rest(self.results.runs().count() as u64, planned)
            }
            _ => String::new(),
        }
    }

    /// Returns how the runs ended, regardless of their gates.
    fn outcome(&self) -> anyhow::Result<Outcome> {
        if self.cut == Some(Cut::Interrupted) || self.results.failures().any(Failure::is_cancelled)
        {
            return Ok(Outcome::Interrupted);
        }
        if let GroupResults::Sweep(results) = &self.results {
            if let Some(why) = results.saturation.as_ref().and_then(Saturation::obstacle) {
                bail!("the sweep could not continue: {why}");
            }
            if let Some(why) = results.space.as_ref().and_then(|found| found.failure.as_ref()) {
                bail!("the search could not continue at {why}");
            }
            if let Some(found) = &results.search {
                return searched(found);
            }
        }
        match self.results.failures().filter(|failure| !failure.is_partial()).count() {
            0 => Ok(Outcome::Done),
            failed => bail!("{failed} of {} runs failed", self.results.runs().count()),
        }
    }
}

/// Writes the statistics over the runs of a cell, or of all without a `variation`.
fn write_aggregate(
    directory: &Path,
    trials: &Trials,
    variation: Option<&Variation>,
) -> anyhow::Result<Vec<PathBuf>> {
    let place = directory.join(trials.config.aggregate_directory(variation));
    Ok(AggregateFiles::create(&place)?.write(trials, &aggregate::rows(trials))?)
}

/// Writes what a search has found, if `results` are those of one.
fn write_history(directory: &Path, results: &Results) -> anyhow::Result<Vec<PathBuf>> {
    let file = || SearchFile::create(directory);
    let written = match (&results.search, &results.space) {
        (Some(found), _) => Some(file()?.write(found, true)?),
        (None, Some(found)) => Some(file()?.write(found, true)?),
        (None, None) => None,
    };
    Ok(written.into_iter().collect())
}

/// Writes the comparison of the cells of a sweep.
fn write_sweep(directory: &Path, results: &Results) -> anyhow::Result<Vec<PathBuf>> {
    let place = directory.join(results.config.sweep_directory());
    Ok(SweepFiles::create(&place)?.write(results)?)
}

/// Returns how a search ended that was not interrupted.
fn searched(found: &search::History) -> anyhow::Result<Outcome> {
    match found.end() {
        End::Failed => {
            bail!(
                "the search could not continue at {}",
                found.failure.as_deref().unwrap_or_default()
            )
        }
        End::NoneFeasible => bail!("no load tried meets the objectives"),
        _ if found.is_told() => Ok(Outcome::Done),
        _ => Ok(Outcome::Unknown),
    }
}

/// Renders the run `number` of a group that has ended; `all` is the number of runs, if it is known. A
/// search for a load has a line for each load instead.
pub(super) fn line_of_run(
    config: &multi_run::Config,
    run: &RunResult,
    number: u64,
    all: Option<u64>,
) -> String {
    let is_search = config.sweep.as_ref().is_some_and(|sweep| sweep.search().is_some());
    if is_search {
        return String::new();
    }
    let standing = standing_of(config.conditions(), run, config.confidence_level);
    wrapped(console::runs::render_run(run, number, all, standing))
}

/// Renders the cell with the index `at`, or the last one, of the `cells` of a search for a load, which
/// are complete; empty for other groups, and if the results of its runs do not count.
pub(super) fn line_of_cell<'a>(
    config: &multi_run::Config,
    at: Option<usize>,
    cells: impl Iterator<Item = (&'a Variation, &'a Trials)>,
) -> String {
    let Some(sweep) = &config.sweep else { return String::new() };
    let Choice::Search(search) = &sweep.choice else { return String::new() };
    let cells: Vec<_> = cells.collect();
    let at = at.or_else(|| cells.len().checked_sub(1));
    let run = at.and_then(|at| cells.get(at)).map(|(variation, _)| *variation);
    let history = History::from_cells(search, sweep, cells.into_iter());
    let point = history.points.iter().rfind(|point| Some(&point.variation) == run);
    let line = point.map(|point| console::runs::render_point(&history, point));
    line.map(wrapped).unwrap_or_default()
}

/// Wraps a line between words if it is for a terminal.
fn wrapped(line: String) -> String {
    match terminal_width(&io::stdout()) {
        Some(_) => console::wrapped_line(&line, terminal_style()),
        None => line,
    }
}

/// What a command ended with.
pub(super) enum Ending {
    Run(Box<RunEnding>),
    Group(Box<GroupEnding>),
}

/// What is written and printed at the end of a command, besides the files of its runs.
pub(super) struct Delivery {
    /// The page to write, if any.
    pub(super) page: Option<PageFile>,
    /// The file for the results of gates, if any.
    pub(super) junit: Option<PathBuf>,
    /// What gates that too few requests leave undecided count as.
    pub(super) undecided: Option<Undecided>,
    pub(super) auto_plot: AutoPlot,
    /// The tables of a run to print; those that its description asks for if not given.
    pub(super) tables: Option<ClientTables>,
    /// Whether each file is listed.
    pub(super) lists_files: bool,
    pub(super) followers: Followers,
    pub(super) interrupt: Interrupt,
}

impl Delivery {
    /// Returns what `config` asks for.
    pub(super) fn new(config: &RunConfig, followers: Followers, interrupt: &Interrupt) -> Self {
        Self {
            page: config.page.clone(),
            junit: config.judge.junit.clone(),
            undecided: config.judge.undecided,
            auto_plot: config.auto_plot,
            tables: None,
            lists_files: config.tables.files,
            followers,
            interrupt: interrupt.clone(),
        }
    }
}

/// Writes the files that describe the whole command, prints its results, draws the charts, and
/// tells the followers; returns how the command ended. Whatever fails, the rest is done.
pub(super) fn deliver(
    ending: Ending,
    delivery: &Delivery,
    out: &mut Output<'_>,
) -> anyhow::Result<Outcome> {
    let mut summary = match ending {
        Ending::Run(run) => summarize_run(*run, delivery),
        Ending::Group(group) => summarize_group(*group, delivery),
    };
    out.say(&summary.text);
    JudgedRun::count(&mut summary.judged, delivery.undecided);
    out.say(&gates::annotations(&summary.judged));
    let judged = gates::finish(&summary.judged, delivery.junit.as_deref());
    if !summary.listed.is_empty() {
        let (directory, files) = (&summary.directory, &summary.listed);
        out.say(&if delivery.lists_files {
            console::render_files(directory, files, terminal_style())
        } else {
            console::render_place(directory, files)
        });
    }
    let plotted = plot::after(delivery.auto_plot, &summary.directory, summary.charts.as_ref());
    let plotted = plotted.map(|text| out.say(&text));
    out.say(&summary.rest);
    summary.files.extend(plot::pictures(&summary.directory));
    delivery.followers.delivered(&Delivered {
        directory: &summary.directory,
        files: &summary.files,
        is_partial: summary.is_partial,
    });
    summary.written?;
    let outcome = summary.outcome?;
    let gates = judged.and_then(|outcome| decided(outcome, &summary.judged));
    match outcome {
        Outcome::Done => {
            plotted?;
            gates
        }
        other => Ok(other),
    }
}

/// What is known of a command at its end.
struct Summary<'a> {
    directory: PathBuf,
    /// The results, as text.
    text: String,
    judged: Vec<JudgedRun>,
    /// The files to list.
    listed: Vec<PathBuf>,
    /// All files.
    files: BTreeSet<PathBuf>,
    /// Whether all files could be written.
    written: anyhow::Result<()>,
    is_partial: bool,
    charts: Box<dyn Fn() -> anyhow::Result<report::plot::Charts> + 'a>,
    /// What was not done, as text.
    rest: String,
    outcome: anyhow::Result<Outcome>,
}

fn summarize_run<'a>(mut run: RunEnding, delivery: &Delivery) -> Summary<'a> {
    if let Some(page) = &delivery.page {
        run.write_page(page);
    }
    run.tell(&delivery.followers, &delivery.interrupt);
    let tables = &mut run.report.run.tables;
    tables.client = delivery.tables.unwrap_or(tables.client);
    let files = run.all_files();
    let (judged, outcome) = (run.judged(None), run.outcome());
    let RunEnding { report, layout, files: written, .. } = run;
    let (listed, written) = match written {
        Ok(files) => (files, Ok(())),
        Err(error) => (Vec::new(), Err(error.into())),
    };
    Summary {
        directory: layout.directory.clone(),
        text: console::render(&report, terminal_style()),
        judged: vec![judged],
        listed,
        files,
        is_partial: written.is_err(),
        written,
        charts: Box::new(move || plot::of_run(&report, &layout.table)),
        rest: String::new(),
        outcome,
    }
}

fn summarize_group<'a>(mut group: GroupEnding, delivery: &Delivery) -> Summary<'a> {
    let (listed, written) = group.write(delivery.page.as_ref());
    let (text, rest, outcome) = (group.rendered(), group.rest(), group.outcome());
    let GroupEnding { directory, results, runs, .. } = group;
    let gates = console::gates::render_runs(&runs.judged, terminal_style());
    Summary {
        directory: directory.clone(),
        text: text + &gates,
        judged: runs.judged,
        listed,
        files: runs.files,
        is_partial: written.is_err() || results.failures().next().is_some(),
        written,
        charts: Box::new(move || Ok(Comparison::from_results(&directory, &results).plots()?)),
        rest,
        outcome,
    }
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
