//! Several consecutive runs, each with its own directory, ID and telemetry, and all with the
//! same group ID.
//!
//! [`Group::perform`] performs all of them: the trials of one cell, the cells of a sweep, and the
//! loads that are chosen from the results of those before them.

use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use anyhow::bail;
use http::StatusCode;
use uuid::Uuid;

use super::{Concluded, Material, Run, claim};
use crate::app::report::judged;
use crate::app::{Outcome, explained, gates, interrupt, terminal_style};
use crate::artifacts::Claim;
use crate::artifacts::aggregate::{AggregateFiles, SearchFile};
use crate::artifacts::sweep::{Plan, SweepFiles};
use crate::config::{self, RunConfig};
use crate::console;
use crate::interrupt::Interrupt;
use crate::judge::{self, JudgedRun};
use crate::metrics::metric::Objective;
use crate::metrics::tag;
use crate::multi_run::knee::Saturation;
use crate::multi_run::search::{End, History};
use crate::multi_run::sweep::{self, Results, Step};
use crate::multi_run::{
    Failure, Load, Member, Planner, RunResult, Trials, Variation, aggregate, search,
};
use crate::record::{ErrorKind, RequestError};
use crate::run::RunReport;
use crate::runner::RunnerError;
use crate::units::{Clock, Nanos};

/// Performs the runs that `config` describes, and writes the results to `out`.
pub(super) fn profile(mut config: RunConfig, out: &mut impl Write) -> anyhow::Result<Outcome> {
    let cells = std::mem::take(&mut config.cells);
    let mut shown = Shown { out, outcome: Ok(()) };
    let outcome = match (config.multi_run.search, config.multi_run.sweep.clone()) {
        (Some(search), _) => Group::prepare(config, Uuid::new_v4())?.search(search, &mut shown)?,
        (None, Some(sweep)) => perform_sweep(config, &sweep, cells, &mut shown)?,
        (None, None) => Group::prepare(config, Uuid::new_v4())?.repeat(&mut shown)?,
    };
    shown.outcome?;
    Ok(outcome)
}

/// Performs the runs of the sweep over `cells`, or those that an earlier command did not finish.
fn perform_sweep(
    config: RunConfig,
    sweep: &sweep::Config,
    mut cells: Vec<config::Cell>,
    shown: &mut Shown<'_, impl Write>,
) -> anyhow::Result<Outcome> {
    let directory = &config.artifacts.directory;
    let earlier = if sweep.resumes { Some(interrupted(directory)?) } else { None };
    let sweep_id = earlier.as_ref().map_or_else(Uuid::new_v4, |plan| plan.sweep_id);
    if sweep.auto.is_some() {
        // The loads chosen so far, as they are with the settings of this command.
        let known = earlier.iter().flat_map(|plan| &plan.cells);
        let loads = (0..).zip(known.filter_map(|cell| Load::of(&cell.variation.values)));
        cells = loads.map(|(index, load)| config.cell_at(index, load)).collect();
    }
    let mut plan = Plan::new(sweep_id, &config.cli_command, &config.multi_run);
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
    Group::prepare(config, sweep_id)?.sweep(sweep, cells, plan, shown)
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
}

impl<W: Write> Shown<'_, W> {
    fn say(&mut self, text: &str) {
        if self.outcome.is_ok() {
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

/// What is done between the runs.
trait Between {
    /// The run with this number, from 1, has ended.
    fn ended(&mut self, _number: u64, _run: &RunResult) {}

    /// The cell is about to be run; it follows those that are complete.
    fn begun(&mut self, _cell: &Cell) -> anyhow::Result<()> {
        Ok(())
    }

    /// All cells so far are complete.
    fn complete(&mut self, _cells: &[Cell]) -> anyhow::Result<()> {
        Ok(())
    }
}

/// Prints a line for each run; if their number is known, it is `all`.
struct EachRun<'a, 'b, W> {
    shown: &'a mut Shown<'b, W>,
    all: Option<u64>,
    /// The plan of a sweep that chooses its cells, to be replaced with each, and its directory.
    plan: Option<(Plan, PathBuf)>,
}

impl<W: Write> Between for EachRun<'_, '_, W> {
    fn ended(&mut self, number: u64, run: &RunResult) {
        self.shown.say(&console::runs::render_run(run, number, self.all));
    }

    fn begun(&mut self, cell: &Cell) -> anyhow::Result<()> {
        if let (Some((plan, directory)), Some(variation)) = (&mut self.plan, &cell.variation) {
            plan.add(variation, &cell.config)?;
            plan.write(directory)?;
        }
        Ok(())
    }
}

/// Prints a line for each load of a search, and keeps its files.
struct EachLoad<'a, 'b, W> {
    shown: &'a mut Shown<'b, W>,
    config: search::Config,
    objectives: Vec<Objective>,
    directory: PathBuf,
    file: SearchFile,
    /// The files of statistics over the runs of the current load, if there are several.
    aggregate: Option<AggregateFiles>,
}

impl<W: Write> Between for EachLoad<'_, '_, W> {
    fn begun(&mut self, cell: &Cell) -> anyhow::Result<()> {
        let config = &cell.trials.config;
        if config.runs > 1 {
            let place = config.aggregate_directory(cell.variation.as_ref());
            self.aggregate = Some(AggregateFiles::create(&self.directory.join(place))?);
        }
        Ok(())
    }

    fn complete(&mut self, cells: &[Cell]) -> anyhow::Result<()> {
        let Some(last) = cells.last() else { return Ok(()) };
        if let Some(files) = self.aggregate.take() {
            files.write(&last.trials, &aggregate::rows(&last.trials))?;
        }
        if let Some(why) = last.trials.obstacle() {
            bail!(why);
        }
        if !last.trials.was_cancelled() {
            let history = History::of(self.config, varied(cells));
            history.points.last().into_iter().for_each(|point| {
                self.shown.say(&console::runs::render_point(point));
            });
            self.file.write(&history, &self.objectives)?;
        }
        Ok(())
    }
}

/// State shared by the runs.
struct Group {
    config: RunConfig,
    sweep_id: Uuid,
    material: Material,
    interrupt: Interrupt,
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
    fn prepare(config: RunConfig, sweep_id: Uuid) -> anyhow::Result<Self> {
        let first = Member::new(sweep_id, 0, None);
        let mut settled = config.clone();
        settled.dataset = config.run_of_many(first, PathBuf::new()).dataset;
        let material = Material::load(&mut settled)?;
        let config = RunConfig { dataset: config.dataset, ..settled };
        let claim = claim(&config)?;
        // Until here there is nothing to drain or write, so a signal ends the process.
        let interrupt = interrupt::listen()?;
        let (last, deadline, judged) = (None, None, Vec::new());
        Ok(Self { config, sweep_id, material, interrupt, _claim: claim, last, deadline, judged })
    }

    /// Performs the same run several times, and computes statistics over all.
    fn repeat(mut self, shown: &mut Shown<'_, impl Write>) -> anyhow::Result<Outcome> {
        let directory = self.config.artifacts.directory.clone();
        let asked = self.config.multi_run.clone();
        let files = AggregateFiles::create(&directory.join(asked.aggregate_directory(None)))?;
        let mut cells = vec![self.known(None, self.config.clone())];
        let mut each = EachRun { shown, all: asked.planned(1), plan: None };
        self.perform(&mut cells, &mut each)?;
        let Some(Cell { trials, .. }) = cells.pop() else { return Ok(Outcome::Done) };
        let rows = aggregate::rows(&trials);
        let written = files.write(&trials, &rows)?;
        shown.say(&console::runs::render(&trials, &rows, terminal_style()));
        shown.say(&console::gates::render_runs(&self.judged, terminal_style()));
        shown.say(&gates::annotations(&self.judged));
        let gates = gates::finish(&self.judged, self.config.judge.junit.as_deref());
        shown.say(&console::render_files(&directory, &written));
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
            plan.write(&directory)?;
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
        let plan = sweep.auto.map(|_| (plan, directory.clone()));
        let is_whole = self.perform(&mut cells, &mut EachRun { shown: &mut *shown, all, plan })?;
        for cell in cells.iter().filter(|_| asked.runs > 1) {
            let place = directory.join(asked.aggregate_directory(cell.variation.as_ref()));
            let rows = aggregate::rows(&cell.trials);
            AggregateFiles::create(&place)?.write(&cell.trials, &rows)?;
        }
        let cells = cells.into_iter().filter_map(|cell| Some((cell.variation?, cell.trials)));
        let results = Results::of(&asked, sweep, self.sweep_id, cells);
        let written = files.write(&results)?;
        if sweep.shows_table {
            shown.say(&console::runs::render_sweep(&results, terminal_style()));
        }
        shown.say(&console::gates::render_runs(&self.judged, terminal_style()));
        shown.say(&gates::annotations(&self.judged));
        let gates = gates::finish(&self.judged, self.config.judge.junit.as_deref());
        shown.say(&console::render_files(&directory, &written));
        let is_cancelled =
            |(_, _, failure): (_, _, &Failure)| matches!(failure, Failure::Cancelled(_));
        if results.failed().any(is_cancelled) || (!is_whole && self.interrupt.is_draining()) {
            return Ok(Outcome::Interrupted);
        }
        if !is_whole {
            shown.say(&console::runs::render_rest(results.runs().count() as u64, all));
        }
        if let Some(why) = results.saturation.as_ref().and_then(Saturation::obstacle) {
            bail!("the sweep could not continue: {why}");
        }
        outcome(results.failed().count(), results.runs().count(), gates)
    }

    /// Adds the finished runs of `plan` to their cell.
    fn keep(&mut self, cell: &mut Cell, plan: &Plan) {
        let Some(variation) = &cell.variation else { return };
        for run in plan.rebuilt(&self.config.artifacts.directory, variation) {
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

    /// Tries loads until the search is complete.
    fn search(
        mut self,
        wanted: search::Config,
        shown: &mut Shown<'_, impl Write>,
    ) -> anyhow::Result<Outcome> {
        let directory = self.config.artifacts.directory.clone();
        let file = SearchFile::create(&directory)?;
        let objectives = self.config.metrics.objectives.clone();
        let mut each = EachLoad {
            shown: &mut *shown,
            config: wanted,
            objectives,
            directory: directory.clone(),
            file,
            aggregate: None,
        };
        let mut cells = Vec::new();
        let performed = self.perform(&mut cells, &mut each);
        let file = each.file;
        let mut history = History::of(wanted, varied(&cells));
        let end = match (performed, history.next()) {
            (Err(error), _) => {
                let load = cells.last().and_then(|cell| Load::of(&cell.variation.as_ref()?.values));
                let place = load.map(|load| format!("{load}: ")).unwrap_or_default();
                history.failure = Some(format!("{place}{}", explained(&error)));
                End::Failed
            }
            (Ok(_), Err(end)) => end,
            (Ok(_), Ok(_)) => End::Cancelled,
        };
        history.end = Some(end);
        let written = file.write(&history, &self.config.metrics.objectives)?;
        shown.say(&console::runs::render_search(&history, terminal_style()));
        shown.say(&console::render_files(&directory, &[written]));
        match end {
            End::Cancelled => Ok(Outcome::Interrupted),
            End::Failed => bail!(
                "the search could not continue at {}",
                history.failure.as_deref().unwrap_or_default()
            ),
            End::NoneFeasible => bail!("no load tried meets the objectives"),
            End::Found | End::AllFeasible | End::MostPoints => Ok(Outcome::Done),
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
        between: &mut impl Between,
    ) -> anyhow::Result<bool> {
        let planner = Planner::of(&self.config.multi_run);
        let runs = self.config.multi_run.runs;
        loop {
            let trials: Vec<&Trials> = cells.iter().map(|cell| &cell.trials).collect();
            let (step, next) = if let Some(step) = planner.step(runs, &trials) {
                (step, None)
            } else {
                between.complete(cells)?;
                let Some(load) = planner.load(varied(cells)) else { return Ok(true) };
                let cell = self.config.cell_at(cells.len() as u64, load);
                let step = Step { cell: cells.len(), trial: 0 };
                (step, Some(self.known(Some(cell.variation), cell.config)))
            };
            if !self.pause(step) {
                return Ok(false);
            }
            if let Some(next) = next {
                cells.push(next);
                cells.last().map_or(Ok(()), |cell| between.begun(cell))?;
            }
            let Some(cell) = cells.get_mut(step.cell) else { continue };
            let run = self.one(cell, step.trial);
            between.ended(planner.number(step, runs, cells.len()), &run);
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

    fn one(&mut self, cell: &Cell, trial: u64) -> RunResult {
        let asked = &self.config.multi_run;
        let directory = asked.directory(cell.variation.as_ref(), trial);
        let place = self.config.artifacts.directory.join(&directory);
        let (keeps_values, level) = (asked.runs > 1, asked.throughput_level());
        let member = Member::new(self.sweep_id, trial, cell.variation.clone());
        let label = Some(member.label(asked));
        match self.make(cell.config.run_of_many(member.clone(), place)) {
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

    fn make(&mut self, mut config: RunConfig) -> anyhow::Result<Concluded> {
        // The first run's data was loaded before, even if it has no seed.
        let is_first = config.member.as_ref().is_some_and(Member::is_first);
        if is_first || self.material.fits(&config)? {
            self.material.settle(&mut config)?;
        } else {
            let counter = Arc::clone(&self.material.counter);
            self.material = Material::with(&mut config, counter)?;
        }
        let mut run = Run::new(config, self.material.clone())?;
        run.wait_until_ready(&self.interrupt)?;
        let measured = run.measure(&self.interrupt, None)?;
        Ok(run.conclude(measured))
    }
}

/// The cells with their settings, if there is more than one.
fn varied(cells: &[Cell]) -> impl Iterator<Item = (&Variation, &Trials)> {
    cells.iter().filter_map(|cell| Some((cell.variation.as_ref()?, &cell.trials)))
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
            throughput: judge::throughput(&profiling, level),
            values: keeps_values.then_some(profiling),
            verdict: report.outcome.client_health.and_then(|health| health.verdict),
        }
    }
}

/// The cause of the failure of a run that ended with `error`.
fn failure(error: &anyhow::Error, report: &RunReport) -> Failure {
    let why = explained(error);
    if !matches!(error.downcast_ref(), None | Some(RunnerError::TooManyFailures { .. })) {
        return Failure::Client(why);
    }
    let has_success = report.average(tag::REQUEST_COUNT).is_some_and(|count| count > 0.0);
    let is_of_load = has_success || report.errors.iter().any(|e| is_of_load(&e.error_details));
    match report.errors.first() {
        Some(most) if !is_of_load => {
            Failure::Server(format!("{why}; most common error: {}", most.error_details.message))
        }
        _ => Failure::Load(why),
    }
}

/// Whether this is how an overloaded server fails a request.
fn is_of_load(error: &RequestError) -> bool {
    matches!(error.kind, ErrorKind::Timeout | ErrorKind::Cancelled | ErrorKind::Http5xx)
        || error.code == Some(StatusCode::TOO_MANY_REQUESTS.as_u16())
}
