//! Several consecutive runs, each with its own directory, ID and telemetry, and all with the
//! same group ID.
//!
//! [`Group::perform`] performs all of them: the trials of one cell, the cells of a sweep, and the
//! loads that are chosen from the results of those before them.

use std::io::Write;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use anyhow::bail;
use uuid::Uuid;

use base::interrupt::Interrupt;
use base::units::{Clock, Nanos};
use client::schedule::PhaseKind;
use dataset::Seed;
use measure::multi_run::history::History;
use measure::multi_run::sweep::{self, Choice, Step};
use measure::multi_run::{
    self, Dimension, Failure, GroupResults, Member, Next, Planner, RunResult, Trials, Variation,
    evidence,
};
use results::api::Listener;
use results::artifacts::aggregate::AggregateFiles;
use results::artifacts::rebuild::Rebuilt;
use results::artifacts::search::SearchFile;
use results::artifacts::sweep::{Plan, SweepFiles};
use results::artifacts::{Claim, newest};
use results::console;
use results::terminal::Stderr;

use super::{Run, RunInputs, claim};
use crate::app::audience::Audience;
use crate::app::ending::{
    Cut, Delivery, Ending, GroupEnding, RunEnding, Runs, deliver, line_of_cell, line_of_run,
};
use crate::app::interrupt;
use crate::app::outcome::{Outcome, explained};
use crate::app::output::Output;
use crate::config::{self, Benchmark, RunConfig, Space};

/// Performs the runs of `benchmark`, and writes the results to `out`.
pub(super) fn profile(
    benchmark: Benchmark,
    listener: Option<Listener>,
    out: &mut impl Write,
) -> anyhow::Result<Outcome> {
    if let Some(sweep) = benchmark.config.multi_run.sweep.clone() {
        return perform_sweep(benchmark, &sweep, listener, out);
    }
    let seed = Seed::or_random(benchmark.config.dataset.random_seed);
    Group::prepare(benchmark.config, None, (Uuid::new_v4(), seed), listener)?.repeat(out)
}

/// Performs the runs of the sweep, or those that an earlier command did not finish.
fn perform_sweep(
    benchmark: Benchmark,
    sweep: &sweep::Config,
    listener: Option<Listener>,
    out: &mut impl Write,
) -> anyhow::Result<Outcome> {
    let Benchmark { mut config, mut cells, space } = benchmark;
    if sweep.resumes && config.artifacts.has_default_directory {
        config.artifacts.directory = newest(&config.artifacts.directory);
    }
    let directory = &config.artifacts.directory;
    let earlier = if sweep.resumes { Some(interrupted(directory)?) } else { None };
    let sweep_id = earlier.as_ref().map_or_else(Uuid::new_v4, |plan| plan.sweep_id);
    let drawn = earlier.as_ref().and_then(|plan| plan.seed);
    let seed = Seed::or_random(config.dataset.random_seed.or(drawn));
    if sweep.choice.is_open() {
        // The cells chosen so far, as they are with the settings of this command.
        let known = earlier.iter().flat_map(|plan| &plan.cells);
        for (index, cell) in (0..).zip(known) {
            let value = |it: &sweep::Parameter| cell.variation.values.get(&it.path).cloned();
            let values: Vec<_> = sweep.parameters.iter().filter_map(value).collect();
            let cell = config.cell_of(space.as_deref(), index, &values);
            cells.push(cell.map_err(anyhow::Error::msg)?);
        }
    }
    let of = (sweep_id, seed.0);
    let mut plan = Plan::new(of, &config.cli_command, &config.multi_run, &config)?;
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
    Group::prepare(config, space, (sweep_id, seed), listener)?.sweep(sweep, cells, plan, out)
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

/// The runs that have the same settings.
struct Cell {
    /// Its settings that other cells do not have.
    variation: Option<Variation>,
    config: RunConfig,
    trials: Trials,
}

/// What is printed and written between the runs.
struct Progress<'a, 'o> {
    out: &'a mut Output<'o>,
    /// The directory of all runs.
    directory: &'a Path,
    /// The number of runs, if it is known.
    all: Option<u64>,
    /// The plan of a sweep that chooses its cells, to be replaced with each.
    plan: Option<Plan>,
    /// A search and its file.
    search: Option<(&'a sweep::Config, SearchFile)>,
}

impl Progress<'_, '_> {
    /// The run with this number, from 1, has ended.
    fn ended(&mut self, number: u64, run: &RunResult, config: &multi_run::Config) {
        self.out.say(&line_of_run(config, run, number, self.all));
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

    /// All cells so far are complete; the last run was of the cell with the index `last`.
    fn complete(
        &mut self,
        cells: &[Cell],
        last: Option<usize>,
        config: &multi_run::Config,
    ) -> anyhow::Result<()> {
        let line = line_of_cell(config, last, varied(cells));
        self.out.say(&line);
        let Some((sweep, file)) = &self.search else { return Ok(()) };
        match &sweep.choice {
            Choice::Search(search) if !line.is_empty() => {
                file.write(&History::from_cells(search, sweep, varied(cells)), false)?;
            }
            Choice::Space(space) => {
                file.write(&History::from_cells(space, sweep, varied(cells)), false)?;
            }
            Choice::Known | Choice::Knee(_) | Choice::Search(_) => {}
        }
        Ok(())
    }
}

/// State shared by the runs.
struct Group {
    config: RunConfig,
    space: Option<Arc<dyn Space>>,
    sweep_id: Uuid,
    /// The seed from which those of the runs are derived.
    seed: Seed,
    inputs: RunInputs,
    interrupt: Interrupt,
    audience: Arc<Audience>,
    /// The directory that contains the directories of all runs.
    _claim: Claim,
    /// The run before the next one.
    last: Option<Step>,
    /// The time from which no further run starts.
    deadline: Option<Nanos>,
    /// The runs that have ended.
    runs: Runs,
}

impl Group {
    /// Loads the data for the first run.
    fn prepare(
        config: RunConfig,
        space: Option<Arc<dyn Space>>,
        (sweep_id, seed): (Uuid, Seed),
        listener: Option<Listener>,
    ) -> anyhow::Result<Self> {
        if let Some(warning) = config.warning_of_same_prompts() {
            // Nothing is logged before the first run. An error means that the terminal is gone.
            let _ = writeln!(Stderr, "warning: {warning}");
        }
        let first = Member::new(sweep_id, 0, None);
        let mut settled = config.clone();
        settled.dataset = config.run_of_many(first, PathBuf::new(), seed.0).dataset;
        let inputs = RunInputs::load(&mut settled)?;
        let mut config = RunConfig { dataset: config.dataset, ..settled };
        let claim = claim(&mut config)?;
        // Until here there is nothing to drain or write, so a signal ends the process.
        let interrupter = interrupt::listen()?;
        let interrupt = interrupter.interrupt();
        let audience = Arc::new(Audience::start(&config, listener, &interrupter)?);
        let (last, deadline, runs) = (None, None, Runs::default());
        Ok(Self {
            config,
            space,
            sweep_id,
            seed,
            inputs,
            interrupt,
            audience,
            _claim: claim,
            last,
            deadline,
            runs,
        })
    }

    /// Performs the same run several times, and computes statistics over all.
    fn repeat(mut self, out: &mut impl Write) -> anyhow::Result<Outcome> {
        let directory = self.config.artifacts.directory.clone();
        let asked = &self.config.multi_run;
        // An error now is better than one after the runs.
        AggregateFiles::create(&directory.join(asked.aggregate_directory(None)))?;
        let mut cells = vec![self.known(None, self.config.clone())];
        let all = asked.planned(1);
        let audience = Arc::clone(&self.audience);
        let mut out = Output::new(out).beside(audience.view());
        let progress =
            Progress { out: &mut out, directory: &directory, all, plan: None, search: None };
        let is_whole = self.perform(&mut cells, progress)?;
        let ending = self.ending(cells, is_whole);
        self.finish(ending, out)
    }

    /// Performs the runs of `cells` that are not finished, and compares the cells.
    fn sweep(
        mut self,
        sweep: &sweep::Config,
        cells: Vec<config::Cell>,
        plan: Plan,
        out: &mut impl Write,
    ) -> anyhow::Result<Outcome> {
        let directory = self.config.artifacts.directory.clone();
        let asked = self.config.multi_run.clone();
        // An error now is better than one after the runs.
        SweepFiles::create(&directory.join(asked.sweep_directory()))?;
        if !sweep.resumes {
            self.runs.wrote([plan.write(&directory)?]);
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
        let audience = Arc::clone(&self.audience);
        let mut out = Output::new(out).beside(audience.view());
        if sweep.resumes {
            let finished: usize = cells.iter().map(|cell| cell.trials.runs.len()).sum();
            out.say(&console::runs::render_finished(finished as u64, all));
        }
        let search =
            if sweep.is_search() { Some((sweep, SearchFile::create(&directory)?)) } else { None };
        // An error means that the terminal is gone; there is nowhere to report it.
        let _ = write!(Stderr, "{}", console::runs::render_longer(self.added_requests(sweep)));
        let plan = sweep.choice.is_open().then_some(plan);
        let progress = Progress { out: &mut out, directory: &directory, all, plan, search };
        let performed = self.perform(&mut cells, progress);
        let is_whole = *performed.as_ref().unwrap_or(&false);
        let mut ending = self.ending(cells, is_whole);
        if let Err(error) = performed {
            let GroupResults::Sweep(results) = &mut ending.results else { return Err(error) };
            let (Some(history), Some(last)) = (&mut results.search, results.cells.last()) else {
                return Err(error);
            };
            history.fail(&last.variation, &explained(&error));
            ending.cut = None;
        }
        self.finish(ending, out)
    }

    /// Returns how many requests each load has at least, if they are more than were asked for because
    /// its conditions cannot be told by fewer; with the confidence level.
    fn added_requests(&self, sweep: &sweep::Config) -> Option<(u64, u64, f64)> {
        // Rates are told by all of them together.
        sweep.search().filter(|search| search.range.dimension == Dimension::Concurrency)?;
        let phases = &self.config.schedule.phases;
        let measured = phases.iter().rfind(|phase| phase.kind == PhaseKind::Profiling)?;
        let (asked, level) = (measured.stop.requests?, self.config.multi_run.confidence_level);
        let least = evidence::least_requests(&sweep.filters, level);
        (least > asked).then_some((least, asked, level))
    }

    /// Summarizes the runs of `cells`, which are all that were planned if `is_whole`.
    fn ending(&mut self, cells: Vec<Cell>, is_whole: bool) -> GroupEnding {
        let config = &self.config.multi_run;
        let planned = config.planned(cells.len());
        let cut = match is_whole {
            true => None,
            false if self.interrupt.is_draining() => Some(Cut::Interrupted),
            false => Some(Cut::Late { planned }),
        };
        let cells = cells.into_iter().map(|cell| (cell.variation, cell.trials)).collect();
        GroupEnding {
            directory: self.config.artifacts.directory.clone(),
            results: GroupResults::from_cells(config, self.sweep_id, cells),
            runs: std::mem::take(&mut self.runs),
            cut,
        }
    }

    fn finish(self, ending: GroupEnding, mut out: Output<'_>) -> anyhow::Result<Outcome> {
        let followers = self.audience.followers();
        let delivery = Delivery::new(&self.config, followers, &self.interrupt);
        let outcome = deliver(Ending::Group(Box::new(ending)), &delivery, &mut out);
        out.finish(outcome)
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
            if run.rebuilt.report.failure().is_some() {
                continue;
            }
            let Rebuilt { report, layout, profiling, .. } = run.rebuilt;
            let ending = RunEnding { report, layout, values: profiling, files: Ok(Vec::new()) };
            let config = &self.config.multi_run;
            cell.trials.add(self.runs.add(ending, run.member, run.directory, config));
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
        mut progress: Progress<'_, '_>,
    ) -> anyhow::Result<bool> {
        self.audience.view().open();
        let outcome = self.perform_all(cells, &mut progress);
        self.audience.view().close();
        outcome
    }

    fn perform_all(
        &mut self,
        cells: &mut Vec<Cell>,
        progress: &mut Progress<'_, '_>,
    ) -> anyhow::Result<bool> {
        let asked = self.config.multi_run.clone();
        let (planner, runs) = (Planner::from_config(&asked), asked.runs);
        loop {
            let trials: Vec<&Trials> = cells.iter().map(|cell| &cell.trials).collect();
            let (step, next) = if let Some(step) = planner.step(runs, &trials) {
                (step, None)
            } else {
                progress.complete(cells, self.last.map(|last| last.cell), &asked)?;
                match planner.next(varied(cells)) {
                    None => return Ok(true),
                    Some(Next::Again(step)) => (step, None),
                    Some(Next::Cell(values)) => {
                        let space = self.space.as_deref();
                        let cell = self.config.cell_of(space, cells.len() as u64, &values);
                        let cell = cell.map_err(anyhow::Error::msg)?;
                        let step = Step { cell: cells.len(), trial: 0 };
                        (step, Some(self.known(Some(cell.variation), cell.config)))
                    }
                }
            };
            let number = planner.number(step, runs, &trials);
            if !self.pause(step) {
                return Ok(false);
            }
            if let Some(next) = next {
                cells.push(next);
                cells.last().map_or(Ok(()), |cell| progress.begun(cell))?;
            }
            let Some(cell) = cells.get_mut(step.cell) else { continue };
            let run = self.one(cell, step.trial, number, progress);
            progress.ended(number, &run, &asked);
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
        progress: &mut Progress<'_, '_>,
    ) -> RunResult {
        let asked = &self.config.multi_run;
        let directory = asked.directory(cell.variation.as_ref(), trial);
        let place = self.config.artifacts.directory.join(&directory);
        let member = Member::new(self.sweep_id, trial, cell.variation.clone());
        let name = console::runs::name(number, progress.all, &member.label(asked));
        let made = self.make(cell.config.run_of_many(member.clone(), place, self.seed.0), name);
        let asked = &self.config.multi_run;
        match made {
            Ok(ending) => self.runs.add(ending, member, directory, asked),
            Err(error) => {
                let failure = Failure::Client(explained(&error));
                self.runs.add_failed(failure, member, directory, asked)
            }
        }
    }

    /// Performs the run `name` of `config`.
    fn make(&mut self, mut config: RunConfig, name: String) -> anyhow::Result<RunEnding> {
        // The first run's data was loaded before, even if it does not have a seed.
        let is_first = config.member.as_ref().is_some_and(Member::is_first);
        if is_first || self.inputs.fits(&config)? {
            self.inputs.settle(&mut config)?;
        } else {
            let counter = Arc::clone(&self.inputs.counter);
            // The memory of those before is free for these.
            self.inputs.forget();
            self.inputs = RunInputs::with(&mut config, counter)?;
        }
        let mut inputs = self.inputs.clone();
        // Arrivals are those of the run, even if several send the same conversations.
        inputs.seed = config.dataset.random_seed.map_or(inputs.seed, Seed);
        let mut run = Run::new(config, inputs)?;
        run.name = Some(name);
        run.ready_servers(&self.interrupt)?;
        let followers = self.audience.followers();
        let measured = run.measure(&self.interrupt, &followers)?;
        let mut ending = measured.conclude();
        ending.tell(&followers, &self.interrupt);
        Ok(ending)
    }
}

/// The cells with their settings, if there is more than one.
fn varied(cells: &[Cell]) -> impl Iterator<Item = (&Variation, &Trials)> {
    cells.iter().filter_map(|cell| Some((cell.variation.as_ref()?, &cell.trials)))
}
