//! Several consecutive runs, each with its own directory, ID and telemetry, and all with the
//! same group ID.
//!
//! [`Group::perform`] performs all of them: the trials of one cell, the cells of a sweep, and the
//! loads that are chosen from the results of those before them.

use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use anyhow::bail;
use uuid::Uuid;

use super::{Concluded, Material, Run, claim};
use crate::api::Listener;
use crate::app::report::judged;
use crate::app::stderr::Stderr;
use crate::app::view::View;
use crate::app::watch::Watch;
use crate::app::{Outcome, explained, gates, interrupt, plot, terminal_style};
use crate::artifacts::aggregate::AggregateFiles;
use crate::artifacts::layout::Layout;
use crate::artifacts::search::SearchFile;
use crate::artifacts::sweep::{Plan, SweepFiles};
use crate::artifacts::{Claim, newest};
use crate::config::{self, RunConfig};
use crate::console;
use crate::interrupt::{Interrupt, Interrupter};
use crate::judge::{self, JudgedRun};
use crate::metrics::ClientHealth;
use crate::multi_run::knee::Saturation;
use crate::multi_run::search::{End, History};
use crate::multi_run::sweep::{self, Choice, Results, Step};
use crate::multi_run::{
    Failure, Member, Planner, RunResult, Trials, Variation, aggregate, search, space,
};
use crate::report::{self, Comparison};
use crate::run::RunReport;
use crate::runner::RunnerError;
use crate::units::{Clock, Nanos};

/// Performs the runs that `config` describes, and writes the results to `out`.
pub(super) fn profile(
    mut config: RunConfig,
    listener: Option<Listener>,
    out: &mut impl Write,
) -> anyhow::Result<Outcome> {
    let cells = std::mem::take(&mut config.cells);
    let mut shown = Shown { out, outcome: Ok(()), view: View::none() };
    let outcome = match config.multi_run.sweep.clone() {
        Some(sweep) => perform_sweep(config, &sweep, cells, listener, &mut shown)?,
        None => Group::prepare(config, Uuid::new_v4(), listener)?.repeat(&mut shown)?,
    };
    shown.outcome?;
    Ok(outcome)
}

/// Performs the runs of the sweep over `cells`, or those that an earlier command did not finish.
fn perform_sweep(
    mut config: RunConfig,
    sweep: &sweep::Config,
    mut cells: Vec<config::Cell>,
    listener: Option<Listener>,
    shown: &mut Shown<'_, impl Write>,
) -> anyhow::Result<Outcome> {
    if sweep.resumes && config.artifacts.has_default_directory {
        config.artifacts.directory = newest(&config.artifacts.directory);
    }
    let directory = &config.artifacts.directory;
    let earlier = if sweep.resumes { Some(interrupted(directory)?) } else { None };
    let sweep_id = earlier.as_ref().map_or_else(Uuid::new_v4, |plan| plan.sweep_id);
    if sweep.choice.is_open() {
        // The cells chosen so far, as they are with the settings of this command.
        let known = earlier.iter().flat_map(|plan| &plan.cells);
        for (index, cell) in (0..).zip(known) {
            let value = |it: &sweep::Parameter| cell.variation.values.get(&it.path).cloned();
            let values: Vec<_> = sweep.parameters.iter().filter_map(value).collect();
            cells.push(config.cell_of(index, &values).map_err(anyhow::Error::msg)?);
        }
    }
    let mut plan = Plan::new(sweep_id, &config.cli_command, &config.multi_run, &config)?;
    cells.iter().try_for_each(|cell| plan.add(&cell.variation, &cell.config))?;
    let differences = earlier.map(|earlier| earlier.differences(&plan)).unwrap_or_default();
    if !differences.is_empty() {
        bail!(
            "--resume: this is not the sweep in {}: {}; repeat its command line with --resume, or \
             choose another directory with --artifact-dir",
            directory.display(),
            differences.join("; ")
        );
    }
    Group::prepare(config, sweep_id, listener)?.sweep(sweep, cells, plan, shown)
}

/// Returns the plan of the sweep to continue.
fn interrupted(directory: &Path) -> anyhow::Result<Plan> {
    let Some(plan) = Plan::read(directory)? else {
        bail!(
            "--resume: {} does not contain a sweep; choose its directory with --artifact-dir, or \
             remove the flag to begin a new sweep",
            directory.display()
        );
    };
    Ok(plan)
}

/// The output. Errors are ignored, so that the runs continue if its reader is gone.
struct Shown<'a, W> {
    out: &'a mut W,
    outcome: io::Result<()>,
    /// The progress of the current run.
    view: View,
}

impl<W: Write> Shown<'_, W> {
    fn say(&mut self, text: &str) {
        if self.outcome.is_ok() && !self.view.takes(text) {
            self.outcome = self.out.write_all(text.as_bytes()).and_then(|()| self.out.flush());
        }
    }
}

/// The runs that have the same settings.
struct Cell {
    /// Its settings that other cells do not have.
    variation: Option<Variation>,
    config: RunConfig,
    trials: Trials,
}

/// What is printed and written between the runs.
struct Progress<'a, 'b, W> {
    shown: &'a mut Shown<'b, W>,
    /// The directory of all runs.
    directory: &'a Path,
    /// The number of runs, if it is known.
    all: Option<u64>,
    /// The plan of a sweep that chooses its cells, to be replaced with each.
    plan: Option<Plan>,
    /// A search and its file.
    search: Option<(&'a sweep::Config, SearchFile)>,
}

impl<W: Write> Progress<'_, '_, W> {
    /// The run with this number, from 1, has ended.
    fn ended(&mut self, number: u64, run: &RunResult) {
        // A search for a load prints a line for each load instead.
        if self.search.as_ref().is_none_or(|(sweep, _)| sweep.search().is_none()) {
            self.shown.say(&console::runs::render_run(run, number, self.all));
        }
    }

    /// The cell is about to be run; it follows those that are complete.
    fn begun(&mut self, cell: &Cell) -> anyhow::Result<()> {
        let asked = &cell.trials.config;
        if let (Some(plan), Some(variation)) = (&mut self.plan, &cell.variation) {
            plan.add(variation, &cell.config)?;
            plan.write(self.directory)?;
        }
        if asked.runs > 1 {
            AggregateFiles::create(
                &self.directory.join(asked.aggregate_directory(cell.variation.as_ref())),
            )?;
        }
        Ok(())
    }

    /// All cells so far are complete.
    fn complete(&mut self, cells: &[Cell]) -> anyhow::Result<()> {
        let Some((sweep, file)) = &self.search else { return Ok(()) };
        let last = cells.last().and_then(|cell| cell.variation.as_ref());
        match &sweep.choice {
            Choice::Search(search) => {
                let history = History::of(search, &sweep.filters, varied(cells));
                let is_last = |point: &&search::Point| Some(&point.variation) == last;
                if let Some(point) = history.points.last().filter(is_last) {
                    self.shown.say(&console::runs::render_point(&history, point));
                    file.write(&history, false)?;
                }
            }
            Choice::Space(space) => {
                let (parameters, filters) = (&sweep.parameters, &sweep.filters);
                let history = space::History::of(space, parameters, filters, varied(cells));
                file.write_space(&history, false)?;
            }
            Choice::Known | Choice::Knee(_) => {}
        }
        Ok(())
    }
}

/// State shared by the runs.
struct Group {
    config: RunConfig,
    sweep_id: Uuid,
    material: Material,
    interrupter: Interrupter,
    interrupt: Interrupt,
    watch: Watch,
    /// The directory that contains the directories of all runs.
    _claim: Claim,
    /// The run before the next one.
    last: Option<Step>,
    /// The time from which no further run starts.
    deadline: Option<Nanos>,
    /// The results of the gates of each run.
    judged: Vec<JudgedRun>,
}

impl Group {
    /// Loads the data for the first run.
    fn prepare(
        config: RunConfig,
        sweep_id: Uuid,
        listener: Option<Listener>,
    ) -> anyhow::Result<Self> {
        let first = Member::new(sweep_id, 0, None);
        let mut settled = config.clone();
        settled.dataset = config.run_of_many(first, PathBuf::new()).dataset;
        let material = Material::load(&mut settled)?;
        let mut config = RunConfig { dataset: config.dataset, ..settled };
        let claim = claim(&mut config)?;
        // Until here there is nothing to drain or write, so a signal ends the process.
        let interrupter = interrupt::listen()?;
        let interrupt = interrupter.interrupt();
        let watch = Watch::start(&config, listener, &interrupter)?;
        let (last, deadline, judged) = (None, None, Vec::new());
        Ok(Self {
            config,
            sweep_id,
            material,
            interrupter,
            interrupt,
            watch,
            _claim: claim,
            last,
            deadline,
            judged,
        })
    }

    /// Performs the same run several times, and computes statistics over all.
    fn repeat(mut self, shown: &mut Shown<'_, impl Write>) -> anyhow::Result<Outcome> {
        let directory = self.config.artifacts.directory.clone();
        let asked = self.config.multi_run.clone();
        let files = AggregateFiles::create(&directory.join(asked.aggregate_directory(None)))?;
        let mut cells = vec![self.known(None, self.config.clone())];
        let mut progress = Progress {
            shown: &mut *shown,
            directory: &directory,
            all: asked.planned(1),
            plan: None,
            search: None,
        };
        self.perform(&mut cells, &mut progress)?;
        let Some(Cell { trials, .. }) = cells.pop() else { return Ok(Outcome::Done) };
        let rows = aggregate::rows(&trials);
        let mut written = files.write(&trials, &rows)?;
        if let Some(page) = &self.config.page {
            written.push(report::write_trials(page, &directory, &trials)?);
        }
        shown.say(&console::runs::render(&trials, &rows, terminal_style()));
        shown.say(&console::gates::render_runs(&self.judged, terminal_style()));
        shown.say(&gates::annotations(&self.judged));
        let gates = gates::finish(&self.judged, self.config.judge.junit.as_deref());
        shown.say(&console::render_files(&directory, &written, terminal_style()));
        let charts = || Ok(Comparison::of_trials(&directory, &trials).plots()?);
        shown.say(&plot::after(self.config.auto_plot, &directory, charts)?);
        self.watch.wrote(written.iter().chain(&plot::pictures(&directory)));
        self.watch.end(&directory, trials.failed().next().is_some());
        if trials.was_cancelled() {
            return Ok(Outcome::Interrupted);
        }
        outcome(trials.failed().count(), trials.runs.len(), gates)
    }

    /// Performs the runs of `cells` that are not finished, and compares the cells.
    fn sweep(
        mut self,
        sweep: &sweep::Config,
        cells: Vec<config::Cell>,
        plan: Plan,
        shown: &mut Shown<'_, impl Write>,
    ) -> anyhow::Result<Outcome> {
        let directory = self.config.artifacts.directory.clone();
        let asked = self.config.multi_run.clone();
        let files = SweepFiles::create(&directory.join(asked.sweep_directory()))?;
        if !sweep.resumes {
            self.watch.wrote([&plan.write(&directory)?]);
        }
        let mut cells: Vec<Cell> =
            cells.into_iter().map(|cell| self.known(Some(cell.variation), cell.config)).collect();
        if sweep.resumes {
            for cell in &mut cells {
                self.keep(cell, &plan);
                // What is left of other runs is moved aside.
                cell.config.artifacts.overwrite = true;
            }
        }
        self.deadline = sweep.max_duration.map(|duration| Clock::now() + duration);
        let all = asked.planned(cells.len());
        let finished: usize = cells.iter().map(|cell| cell.trials.runs.len()).sum();
        if sweep.resumes {
            shown.say(&console::runs::render_finished(finished as u64, all));
        }
        let search =
            if sweep.is_search() { Some((sweep, SearchFile::create(&directory)?)) } else { None };
        let mut progress = Progress {
            shown: &mut *shown,
            directory: &directory,
            all,
            plan: sweep.choice.is_open().then_some(plan),
            search,
        };
        let performed = self.perform(&mut cells, &mut progress);
        let history = progress.search.map(|(_, file)| file);
        if performed.is_ok() {
            for cell in cells.iter().filter(|_| asked.runs > 1) {
                let place = directory.join(asked.aggregate_directory(cell.variation.as_ref()));
                let rows = aggregate::rows(&cell.trials);
                self.watch.wrote(&AggregateFiles::create(&place)?.write(&cell.trials, &rows)?);
            }
        }
        let cells = cells.into_iter().filter_map(|cell| Some((cell.variation?, cell.trials)));
        let mut results = Results::of(&asked, sweep, self.sweep_id, cells);
        let is_whole = match (performed, &mut results.search, results.cells.last()) {
            (Ok(is_whole), ..) => is_whole,
            (Err(error), Some(history), Some(last)) => {
                history.fail(&last.variation, &explained(&error));
                false
            }
            (Err(error), ..) => return Err(error),
        };
        let mut written = files.write(&results)?;
        if let Some(page) = &self.config.page {
            written.push(report::write_sweep(page, &directory, &results)?);
        }
        match (&results.search, history) {
            (Some(found), Some(file)) => {
                written.insert(0, file.write(found, true)?);
                shown.say(&console::runs::render_search(found, terminal_style()));
            }
            (None, file) => {
                if let Some((found, file)) = results.space.as_ref().zip(file) {
                    written.insert(0, file.write_space(found, true)?);
                }
                if sweep.shows_table {
                    shown.say(&console::runs::render_sweep(&results, terminal_style()));
                }
            }
            (Some(_), None) => {}
        }
        shown.say(&console::gates::render_runs(&self.judged, terminal_style()));
        shown.say(&gates::annotations(&self.judged));
        let gates = gates::finish(&self.judged, self.config.judge.junit.as_deref());
        shown.say(&console::render_files(&directory, &written, terminal_style()));
        let charts = || Ok(Comparison::of_sweep(&directory, &results).plots()?);
        shown.say(&plot::after(self.config.auto_plot, &directory, charts)?);
        self.watch.wrote(written.iter().chain(&plot::pictures(&directory)));
        self.watch.end(&directory, results.failed().next().is_some());
        let is_cancelled =
            |(_, _, failure): (_, _, &Failure)| matches!(failure, Failure::Cancelled(_));
        if results.failed().any(is_cancelled) || (!is_whole && self.interrupt.is_draining()) {
            return Ok(Outcome::Interrupted);
        }
        let is_late = !is_whole && results.search.as_ref().is_none_or(|it| it.failure.is_none());
        if is_late {
            shown.say(&console::runs::render_rest(results.runs().count() as u64, all));
        }
        if let Some(why) = results.saturation.as_ref().and_then(Saturation::obstacle) {
            bail!("the sweep could not continue: {why}");
        }
        if let Some(why) = results.space.as_ref().and_then(|found| found.failure.as_ref()) {
            bail!("the search could not continue at {why}");
        }
        match &results.search {
            Some(found) => searched(found),
            None => outcome(results.failed().count(), results.runs().count(), gates),
        }
    }

    /// Adds the finished runs of `plan` to their cell.
    fn keep(&mut self, cell: &mut Cell, plan: &Plan) {
        let Some(variation) = &cell.variation else { return };
        for run in plan.rebuilt(&self.config.artifacts.directory, variation) {
            if !run.rebuilt.coverage.is_whole() {
                // An error means that the terminal is gone; there is nowhere to report it.
                let _ = writeln!(
                    Stderr,
                    "warning: {} does not have the records of all its requests, so it is run again",
                    run.directory.display()
                );
                continue;
            }
            let place = self.config.artifacts.directory.join(&run.directory);
            let layout = Layout::new(&place, self.config.artifacts.prefix.as_deref());
            self.watch.wrote(&layout.all_files());
            let label = run.member.label(&self.config.multi_run);
            let judged = judged(&run.rebuilt, Some(label));
            let level = self.config.multi_run.throughput_level();
            let result = run.rebuilt.into_result(run.member, run.directory, level);
            if result.failure.is_none() {
                self.judged.push(judged);
                cell.trials.add(result);
            }
        }
    }

    /// Creates a cell without runs.
    fn known(&self, variation: Option<Variation>, config: RunConfig) -> Cell {
        let trials = Trials::new(self.config.multi_run.clone(), self.sweep_id);
        Cell { variation, config, trials }
    }

    /// Performs those runs of `cells` that are still to be performed, and those of the cells that
    /// are chosen then. A failed run does not prevent the next one. Returns false if the user or
    /// the deadline did.
    fn perform(
        &mut self,
        cells: &mut Vec<Cell>,
        progress: &mut Progress<'_, '_, impl Write>,
    ) -> anyhow::Result<bool> {
        let (ui, interval) = (self.config.ui, self.config.stats_interval);
        progress.shown.view = View::start(ui, interval, &self.interrupter, &self.watch);
        let outcome = self.perform_all(cells, progress);
        progress.shown.view.end();
        outcome
    }

    fn perform_all(
        &mut self,
        cells: &mut Vec<Cell>,
        progress: &mut Progress<'_, '_, impl Write>,
    ) -> anyhow::Result<bool> {
        let asked = self.config.multi_run.clone();
        let (planner, runs) = (Planner::of(&asked), asked.runs);
        loop {
            let trials: Vec<&Trials> = cells.iter().map(|cell| &cell.trials).collect();
            let (step, next) = if let Some(step) = planner.step(runs, &trials) {
                (step, None)
            } else {
                progress.complete(cells)?;
                let Some(values) = planner.values(varied(cells)) else { return Ok(true) };
                let cell = self.config.cell_of(cells.len() as u64, &values);
                let cell = cell.map_err(anyhow::Error::msg)?;
                let step = Step { cell: cells.len(), trial: 0 };
                (step, Some(self.known(Some(cell.variation), cell.config)))
            };
            if !self.pause(step) {
                return Ok(false);
            }
            if let Some(next) = next {
                cells.push(next);
                cells.last().map_or(Ok(()), |cell| progress.begun(cell))?;
            }
            let number = planner.number(step, runs, cells.len());
            let Some(cell) = cells.get_mut(step.cell) else { continue };
            let run = self.one(cell, step.trial, number, progress);
            progress.ended(number, &run);
            if let Some(cell) = cells.get_mut(step.cell) {
                cell.trials.add(run);
            }
        }
    }

    /// Pauses before a run; returns whether the run is still to be performed.
    fn pause(&mut self, next: Step) -> bool {
        let asked = &self.config.multi_run;
        let cooldown = self.last.replace(next).map(|last| match &asked.sweep {
            Some(sweep) if sweep.is_between_cells(last, next) => sweep.cooldown,
            _ => asked.cooldown,
        });
        let is_late = |now: Nanos| self.deadline.is_some_and(|deadline| now >= deadline);
        if let Some(cooldown) = cooldown.filter(|_| !is_late(Clock::now())) {
            let end = Clock::now() + cooldown;
            self.interrupt.sleep_until(self.deadline.map_or(end, |deadline| deadline.min(end)));
        }
        !self.interrupt.is_draining() && !is_late(Clock::now())
    }

    fn one(
        &mut self,
        cell: &Cell,
        trial: u64,
        number: u64,
        progress: &mut Progress<'_, '_, impl Write>,
    ) -> RunResult {
        let asked = &self.config.multi_run;
        let directory = asked.directory(cell.variation.as_ref(), trial);
        let place = self.config.artifacts.directory.join(&directory);
        let (keeps_values, level) = (asked.runs > 1, asked.throughput_level());
        let member = Member::new(self.sweep_id, trial, cell.variation.clone());
        let label = member.label(asked);
        self.watch.status().name(console::runs::name(number, progress.all, &label));
        let label = Some(label);
        let view = &mut progress.shown.view;
        match self.make(cell.config.run_of_many(member.clone(), place), view) {
            Ok(concluded) => {
                self.judged.push(concluded.judged(label));
                concluded.result(member, directory, keeps_values, level)
            }
            Err(error) => {
                let why = explained(&error);
                self.judged.push(JudgedRun {
                    label,
                    failure: Some(why.clone()),
                    gates: Vec::new(),
                });
                RunResult::failed(member, directory, Failure::Client(why))
            }
        }
    }

    fn make(&mut self, mut config: RunConfig, view: &mut View) -> anyhow::Result<Concluded> {
        // The first run's data was loaded before, even if it does not have a seed.
        let is_first = config.member.as_ref().is_some_and(Member::is_first);
        if is_first || self.material.fits(&config)? {
            self.material.settle(&mut config)?;
        } else {
            let counter = Arc::clone(&self.material.counter);
            self.material = Material::with(&mut config, counter)?;
        }
        let mut run = Run::new(config, self.material.clone())?;
        run.ready_servers(&self.interrupt)?;
        let tracking = self.watch.track(&run.description);
        let measured = run.measure(&self.interrupt, None, view)?;
        let mut concluded = run.conclude(measured);
        self.watch.ended(&mut concluded, tracking);
        Ok(concluded)
    }
}

/// The cells with their settings, if there is more than one.
fn varied(cells: &[Cell]) -> impl Iterator<Item = (&Variation, &Trials)> {
    cells.iter().filter_map(|cell| Some((cell.variation.as_ref()?, &cell.trials)))
}

/// How a search ended that was not interrupted.
fn searched(found: &History) -> anyhow::Result<Outcome> {
    match found.end() {
        End::Failed => {
            bail!(
                "the search could not continue at {}",
                found.failure.as_deref().unwrap_or_default()
            )
        }
        End::NoneFeasible => bail!("no load tried meets the objectives"),
        End::Found | End::AllFeasible | End::MostPoints | End::Cancelled => Ok(Outcome::Done),
    }
}

/// How the command ended: the outcome of its `gates` if no run failed.
fn outcome(failed: usize, runs: usize, gates: anyhow::Result<Outcome>) -> anyhow::Result<Outcome> {
    match failed {
        0 => gates,
        failed => bail!("{failed} of {runs} runs failed"),
    }
}

impl Concluded {
    /// The result of the run `member`, whose files are in `directory`; with its throughput and an
    /// interval with the confidence `level`, if there is one.
    fn result(
        self,
        member: Member,
        directory: PathBuf,
        keeps_values: bool,
        level: Option<f64>,
    ) -> RunResult {
        let Self { report, profiling, files, outcome, .. } = self;
        let failure = match (outcome, files) {
            (Err(error), _) => Some(failure(&error, &report)),
            (Ok(Outcome::Done), Ok(_)) => None,
            (Ok(Outcome::Done), Err(error)) => Some(Failure::Client(error.to_string())),
            (Ok(_), _) => Some(Failure::Cancelled(
                report
                    .outcome
                    .incomplete_reason
                    .unwrap_or_else(|| "it did not complete".to_owned()),
            )),
        };
        let health = report.outcome.client_health;
        let bounds = health.as_ref().map(ClientHealth::bounds).unwrap_or_default();
        RunResult {
            member,
            benchmark_id: Some(report.run.benchmark_id),
            directory,
            random_seed: report.run.random_seed,
            failure,
            results: report.results,
            steady_results: report
                .steady_state
                .map_or_else(|_| Vec::new(), |steady| steady.results),
            time_breakdown: report.outcome.time_breakdown,
            throughput: judge::throughput(&profiling, level, bounds.rates),
            rate_bounds: bounds.rates,
            values: keeps_values.then_some(profiling),
            verdict: health.and_then(|health| health.verdict),
        }
    }
}

/// The cause of the failure of a run that ended with `error`.
fn failure(error: &anyhow::Error, report: &RunReport) -> Failure {
    let why = explained(error);
    match error.downcast_ref() {
        None | Some(RunnerError::TooManyFailures { .. } | RunnerError::Rejected { .. }) => {
            report.failure(why)
        }
        Some(_) => Failure::Client(why),
    }
}
