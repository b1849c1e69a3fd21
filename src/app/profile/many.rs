//! Several consecutive runs, each with its own directory, ID and telemetry, and all with the
//! same group ID.

use std::io::{self, Write};
use std::path::PathBuf;
use std::sync::Arc;

use anyhow::bail;
use http::StatusCode;
use uuid::Uuid;

use super::{Concluded, Material, Run, claim};
use crate::app::{Outcome, explained, gates, interrupt, terminal_style};
use crate::artifacts::Claim;
use crate::artifacts::aggregate::{AggregateFiles, SearchFile};
use crate::config::RunConfig;
use crate::console;
use crate::interrupt::Interrupt;
use crate::judge::JudgedRun;
use crate::metrics::tag;
use crate::multi_run::search::{End, History, Point, Search};
use crate::multi_run::{Failure, Member, RunResult, Trials, Variation, aggregate, search};
use crate::record::{ErrorKind, RequestError};
use crate::run::RunReport;
use crate::runner::RunnerError;
use crate::units::Clock;

/// Performs the runs that `config` describes, and writes the results to `out`.
pub(super) fn profile(config: RunConfig, out: &mut impl Write) -> anyhow::Result<Outcome> {
    let search = config.multi_run.search;
    let mut group = Group::prepare(config)?;
    let mut shown = Shown { out, outcome: Ok(()) };
    let outcome = match search {
        Some(search) => group.search(search, &mut shown)?,
        None => group.repeat(&mut shown)?,
    };
    shown.outcome?;
    Ok(outcome)
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

/// State shared by the runs.
struct Group {
    config: RunConfig,
    sweep_id: Uuid,
    material: Material,
    interrupt: Interrupt,
    /// The directory that contains the directories of all runs.
    _claim: Claim,
    /// Whether the next run is preceded by a pause, as all but the first are.
    has_run: bool,
    /// The results of the gates of each run.
    judged: Vec<JudgedRun>,
}

impl Group {
    /// Loads the data for the first run.
    fn prepare(config: RunConfig) -> anyhow::Result<Self> {
        let sweep_id = Uuid::new_v4();
        let variation = config.multi_run.search.map(|search| Variation::new(0, search.first()));
        let first = Member::new(sweep_id, 0, variation);
        let mut settled = config.clone();
        settled.dataset = config.run_of_many(first, PathBuf::new()).dataset;
        let material = Material::load(&mut settled)?;
        let config = RunConfig { dataset: config.dataset, ..settled };
        let claim = claim(&config)?;
        // Until here there is nothing to drain or write, so a signal ends the process.
        let interrupt = interrupt::listen()?;
        let judged = Vec::new();
        Ok(Self { config, sweep_id, material, interrupt, _claim: claim, has_run: false, judged })
    }

    /// Performs the same run several times, and computes statistics over all.
    fn repeat(&mut self, shown: &mut Shown<'_, impl Write>) -> anyhow::Result<Outcome> {
        let directory = self.config.artifacts.directory.clone();
        let files = AggregateFiles::create(&directory)?;
        let config = self.config.clone();
        let trials = self.trials(&config, None, |run| {
            shown.say(&console::runs::render_run(run, config.multi_run.runs));
        });
        let rows = aggregate::rows(&trials);
        let written = files.write(&trials, &rows)?;
        shown.say(&console::runs::render(&trials, &rows, terminal_style()));
        shown.say(&console::gates::render_runs(&self.judged, terminal_style()));
        shown.say(&gates::annotations(&self.judged));
        let gates = gates::finish(&self.judged, config.judge.junit.as_deref());
        shown.say(&console::render_files(&directory, &written));
        if trials.was_cancelled() {
            return Ok(Outcome::Interrupted);
        }
        match trials.failed().count() {
            0 => gates,
            failed => bail!("{failed} of {} runs failed", trials.runs.len()),
        }
    }

    /// Tries loads until the search is complete.
    fn search(
        &mut self,
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
            let variation = Variation::new(history.points.len() as u64, load);
            let tried = self.tried(&variation);
            let failure = match &tried {
                Ok(trials) if trials.was_cancelled() => return Ok(End::Cancelled),
                Ok(trials) => not_of_the_load(trials),
                Err(error) => Some(explained(error)),
            };
            let (Ok(trials), None) = (tried, &failure) else {
                history.failure = failure.map(|why| format!("{load}: {why}"));
                return Ok(End::Failed);
            };
            let point = Point::of(variation, &trials, history.config.attainment);
            shown.say(&console::runs::render_point(&point));
            search.learn(load, point.is_feasible);
            history.points.push(point);
            file.write(history, &self.config.metrics.objectives)?;
        }
    }

    /// Performs the runs of one load of a search; with statistics over them if there are several.
    fn tried(&mut self, variation: &Variation) -> anyhow::Result<Trials> {
        let config = self.config.at_load(variation.load);
        let files = match config.multi_run.runs {
            1 => None,
            _ => Some(AggregateFiles::create(
                &self.config.artifacts.directory.join(&variation.label),
            )?),
        };
        let trials = self.trials(&config, Some(variation), |_| {});
        if let Some(files) = files {
            files.write(&trials, &aggregate::rows(&trials))?;
        }
        Ok(trials)
    }

    /// Performs the runs of one load and passes each to `ended`. Stops at the user's interrupt,
    /// but not at a failed run.
    fn trials(
        &mut self,
        config: &RunConfig,
        variation: Option<&Variation>,
        mut ended: impl FnMut(&RunResult),
    ) -> Trials {
        let asked = config.multi_run.clone();
        let mut trials = Trials { config: asked, sweep_id: self.sweep_id, runs: Vec::new() };
        for trial in 0..config.multi_run.runs {
            if !self.pause() {
                break;
            }
            let run = self.one(config, Member::new(self.sweep_id, trial, variation.cloned()));
            ended(&run);
            trials.runs.push(run);
        }
        trials
    }

    /// Pauses before a run; returns whether the run is still to be performed.
    fn pause(&mut self) -> bool {
        if self.has_run {
            self.interrupt.sleep_until(Clock::now() + self.config.multi_run.cooldown);
        }
        self.has_run = true;
        !self.interrupt.is_draining()
    }

    fn one(&mut self, config: &RunConfig, member: Member) -> RunResult {
        let load = member.variation.as_ref().map_or("", |variation| variation.label.as_str());
        let directory = PathBuf::from(load).join(member.directory());
        let place = self.config.artifacts.directory.join(&directory);
        let keeps_values = config.multi_run.runs > 1;
        match self.make(config.run_of_many(member.clone(), place)) {
            Ok(concluded) => {
                self.judged.push(concluded.judged(Some(member.run_label.clone())));
                concluded.result(member, directory, keeps_values)
            }
            Err(error) => {
                let why = explained(&error);
                let label = Some(member.run_label.clone());
                let gates = Vec::new();
                self.judged.push(JudgedRun { label, failure: Some(why.clone()), gates });
                RunResult::failed(member, directory, Failure::Client(why))
            }
        }
    }

    fn make(&mut self, mut config: RunConfig) -> anyhow::Result<Concluded> {
        let has_material = config.dataset.random_seed == Some(self.material.seed.0)
            || config.member.as_ref().is_some_and(Member::is_first);
        if !has_material {
            let counter = Arc::clone(&self.material.counter);
            self.material = Material::with(&mut config, counter)?;
        }
        let mut run = Run::new(config, self.material.clone())?;
        run.wait_until_ready(&self.interrupt)?;
        let measured = run.measure(&self.interrupt, None)?;
        Ok(run.conclude(measured))
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
