//! Several consecutive runs, each with its own directory, ID and telemetry, and all with the
//! same group ID.
//!
//! [`Group::perform`] performs all of them: the trials of one cell, the cells of a sweep, and the
//! loads that a search chooses.

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
use crate::judge::JudgedRun;
use crate::metrics::tag;
use crate::multi_run::search::{End, History, Point, Search};
use crate::multi_run::sweep::{self, Results, Step};
use crate::multi_run::{Failure, Load, Member, RunResult, Trials, Variation, aggregate, search};
use crate::record::{ErrorKind, RequestError};
use crate::run::RunReport;
use crate::runner::RunnerError;
use crate::units::{Clock, Nanos};

/// Performs the runs that `config` describes, and writes the results to `out`.
pub(super) fn profile(mut config: RunConfig, out: &mut impl Write) -> anyhow::Result<Outcome> {
    let cells = std::mem::take(&mut config.cells);
    let mut shown = Shown { out, outcome: Ok(()) };
    let outcome = match (config.multi_run.search, config.multi_run.sweep.clone()) {
        (Some(search), _) => {
            let first = Variation::of_search(0, search.first());
            Group::prepare(config, Some(first), Uuid::new_v4())?.search(search, &mut shown)?
        }
        (None, Some(sweep)) => perform_sweep(config, &sweep, cells, &mut shown)?,
        (None, None) => Group::prepare(config, None, Uuid::new_v4())?.repeat(&mut shown)?,
    };
    shown.outcome?;
    Ok(outcome)
}

/// Performs the runs of the sweep over `cells`, or those that an earlier command did not finish.
fn perform_sweep(
    config: RunConfig,
    sweep: &sweep::Config,
    cells: Vec<config::Cell>,
    shown: &mut Shown<'_, impl Write>,
) -> anyhow::Result<Outcome> {
    let directory = &config.artifacts.directory;
    let earlier = if sweep.resumes { Some(interrupted(directory)?) } else { None };
    let sweep_id = earlier.as_ref().map_or_else(Uuid::new_v4, |plan| plan.sweep_id);
    let configs =
        cells.iter().map(|cell| Ok((cell.variation.clone(), serde_json::to_value(&cell.config)?)));
    let configs = configs.collect::<anyhow::Result<Vec<_>>>()?;
    let plan = Plan::new(sweep_id, &config.cli_command, &config.multi_run, configs.into_iter());
    let differences = earlier.map(|earlier| earlier.differences(&plan)).unwrap_or_default();
    if !differences.is_empty() {
        bail!(
            "--resume: this is not the sweep in {}: {}; repeat its command line with --resume, or \
             choose another directory with --artifact-dir",
            directory.display(),
            differences.join("; ")
        );
    }
    let first = cells.first().map(|cell| cell.variation.clone());
    Group::prepare(config, first, sweep_id)?.sweep(sweep, cells, &plan, shown)
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
    /// Loads the data for the first run, which is of the cell `first` if there are several.
    fn prepare(
        config: RunConfig,
        first: Option<Variation>,
        sweep_id: Uuid,
    ) -> anyhow::Result<Self> {
        let first = Member::new(sweep_id, 0, first);
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
        let mut cell = self.cell(None, self.config.clone());
        self.perform(std::slice::from_mut(&mut cell), &trials(asked.runs), |number, run| {
            shown.say(&console::runs::render_run(run, number, asked.runs));
        });
        let trials = cell.trials;
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
        plan: &Plan,
        shown: &mut Shown<'_, impl Write>,
    ) -> anyhow::Result<Outcome> {
        let directory = self.config.artifacts.directory.clone();
        let asked = self.config.multi_run.clone();
        let files = SweepFiles::create(&directory.join(asked.sweep_directory()))?;
        if !sweep.resumes {
            plan.write(&directory)?;
        }
        let mut cells: Vec<Cell> =
            cells.into_iter().map(|cell| self.cell(Some(cell.variation), cell.config)).collect();
        if sweep.resumes {
            for cell in &mut cells {
                self.keep(cell, plan);
                // What is left of other runs is moved aside.
                cell.config.artifacts.overwrite = true;
            }
        }
        let steps = sweep.steps(cells.len(), asked.runs);
        self.deadline = sweep.max_duration.map(|duration| Clock::now() + duration);
        let all = steps.len() as u64;
        let finished: usize = cells.iter().map(|cell| cell.trials.runs.len()).sum();
        if sweep.resumes {
            shown.say(&format!("{finished} of {all} runs are finished\n"));
        }
        let is_whole = self.perform(&mut cells, &steps, |number, run| {
            shown.say(&console::runs::render_run(run, number, all));
        });
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
            let left = all.saturating_sub(results.runs().count() as u64);
            shown.say(&format!(
                "{left} of {all} runs were not started within --sweep-max-duration; use --resume to \
                 perform them\n\n"
            ));
        }
        outcome(results.failed().count(), results.runs().count(), gates)
    }

    /// Adds the finished runs of `plan` to their cell.
    fn keep(&mut self, cell: &mut Cell, plan: &Plan) {
        let Some(variation) = &cell.variation else { return };
        for run in plan.rebuilt(&self.config.artifacts.directory, variation) {
            let label = run.member.label(&self.config.multi_run);
            let judged = judged(&run.rebuilt, Some(label));
            let result = run.rebuilt.into_result(run.member, run.directory);
            if result.failure.is_none() {
                self.judged.push(judged);
                cell.trials.runs.push(result);
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
        let mut history = History::new(wanted);
        let end = self.explore(&mut history, &file, shown)?;
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

    /// Tries loads and adds them to `history`; returns why the search ended.
    fn explore(
        &mut self,
        history: &mut History,
        file: &SearchFile,
        shown: &mut Shown<'_, impl Write>,
    ) -> anyhow::Result<End> {
        let mut search = Search::new(history.config);
        loop {
            let load = match search.next() {
                Ok(load) => load,
                Err(end) => return Ok(end),
            };
            let variation = Variation::of_search(history.points.len() as u64, load);
            let tried = self.tried(&variation, load);
            let failure = match &tried {
                Ok(trials) if trials.was_cancelled() => return Ok(End::Cancelled),
                Ok(trials) => not_of_the_load(trials),
                Err(error) => Some(explained(error)),
            };
            let (Ok(trials), None) = (tried, &failure) else {
                history.failure = failure.map(|why| format!("{load}: {why}"));
                return Ok(End::Failed);
            };
            let point = Point::of(variation, load, &trials, history.config.attainment);
            shown.say(&console::runs::render_point(&point));
            search.learn(load, point.is_feasible);
            history.points.push(point);
            file.write(history, &self.config.metrics.objectives)?;
        }
    }

    /// Performs the runs of one load of a search; with statistics over them if there are several.
    fn tried(&mut self, variation: &Variation, load: Load) -> anyhow::Result<Trials> {
        let config = self.config.at_load(load);
        let runs = config.multi_run.runs;
        let place = config.multi_run.aggregate_directory(Some(variation));
        let files = match runs {
            1 => None,
            _ => Some(AggregateFiles::create(&self.config.artifacts.directory.join(place))?),
        };
        let mut cell = self.cell(Some(variation.clone()), config);
        self.perform(std::slice::from_mut(&mut cell), &trials(runs), |_, _| {});
        if let Some(files) = files {
            files.write(&cell.trials, &aggregate::rows(&cell.trials))?;
        }
        Ok(cell.trials)
    }

    /// Creates a cell without runs.
    fn cell(&self, variation: Option<Variation>, config: RunConfig) -> Cell {
        let trials = Trials::new(self.config.multi_run.clone(), self.sweep_id);
        Cell { variation, config, trials }
    }

    /// Performs those of `steps` that `cells` do not have yet, and passes each to `ended` with its
    /// number, from 1. A failed run does not prevent the next one. Returns false if the user or
    /// the deadline did.
    fn perform(
        &mut self,
        cells: &mut [Cell],
        steps: &[Step],
        mut ended: impl FnMut(u64, &RunResult),
    ) -> bool {
        for (number, step) in (1..).zip(steps) {
            let Some(cell) = cells.get_mut(step.cell) else { continue };
            if cell.trials.has(step.trial) {
                continue;
            }
            if !self.pause(*step) {
                return false;
            }
            let run = self.one(cell, step.trial);
            ended(number, &run);
            let runs = &mut cell.trials.runs;
            runs.push(run);
            runs.sort_by_key(|run| run.member.trial);
        }
        true
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
        let keeps_values = asked.runs > 1;
        let member = Member::new(self.sweep_id, trial, cell.variation.clone());
        let label = Some(member.label(asked));
        match self.make(cell.config.run_of_many(member.clone(), place)) {
            Ok(concluded) => {
                self.judged.push(concluded.judged(label));
                concluded.result(member, directory, keeps_values)
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

/// The runs of a single cell.
fn trials(runs: u64) -> Vec<Step> {
    (0..runs).map(|trial| Step { cell: 0, trial }).collect()
}

/// How the command ended: the outcome of its `gates` if no run failed.
fn outcome(failed: usize, runs: usize, gates: anyhow::Result<Outcome>) -> anyhow::Result<Outcome> {
    match failed {
        0 => gates,
        failed => bail!("{failed} of {runs} runs failed"),
    }
}

impl Concluded {
    /// The result of the run `member`, whose files are in `directory`.
    fn result(self, member: Member, directory: PathBuf, keeps_values: bool) -> RunResult {
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

/// Why a run says nothing about its load, if there is a reason.
fn not_of_the_load(trials: &Trials) -> Option<String> {
    trials.failed().find_map(|(_, failure)| match failure {
        Failure::Client(message) => Some(message.clone()),
        Failure::Server(message) => {
            Some(format!("{message}; check whether the server is still running"))
        }
        Failure::Load(_) | Failure::Cancelled(_) => None,
    })
}
