//! What is known of the current run while it goes on, for those who watch it: the live view, the
//! HTTP API, and trackers.
//!
//! Threads that measure nothing write it and read it. Without anybody who watches, there is none.

pub(crate) mod snapshot;

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use self::snapshot::{Silence, Snapshot, Stage};
use crate::interrupt::Interrupt;
use crate::metrics::ClientHealth;
use crate::metrics::live::Live;
use crate::metrics::metric::MetricResult;
use crate::run::{RunDescription, RunReport};
use crate::schedule::PhaseStats;
use crate::server_metrics::watch::LiveGauge;
use crate::units::{Clock, Nanos, Unit};

/// Interval between two computations of client health.
const HEALTH_INTERVAL: Nanos = Nanos(1_000_000_000);

/// Silence that is shown.
const SILENCE: Nanos = Nanos(1_000_000_000);

/// What is known of the current run, or of the last one.
#[derive(Debug)]
pub(crate) struct Status {
    interrupt: Interrupt,
    /// Whether the latest scrapes are kept.
    keeps_scrapes: bool,
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    run: Option<CurrentRun>,
    /// Without statistics and log.
    known: Snapshot,
    phases: Vec<PhaseStats>,
    /// By endpoint.
    gauges: BTreeMap<usize, Vec<LiveGauge>>,
    /// The latest line of each endpoint's scrapes.
    scrapes: BTreeMap<usize, Arc<[u8]>>,
    next_health: Nanos,
    /// The responses so far, and since when there were no more while requests were in flight.
    responses: (u64, Nanos),
    ending: Option<Ending>,
    /// The files of all runs so far.
    files: BTreeSet<PathBuf>,
    exported: Option<Exported>,
}

/// The run that is measured.
#[derive(Debug, Clone)]
pub(crate) struct CurrentRun {
    pub(crate) description: Arc<RunDescription>,
    /// Number of threads that send requests.
    pub(crate) workers: usize,
    live: Arc<Live>,
    pub(crate) clock: Clock,
}

/// How a run ended, once its files are written.
#[derive(Debug, Clone)]
pub(crate) struct Ending {
    pub(crate) was_cancelled: bool,
    pub(crate) is_complete: bool,
    /// Its final results.
    pub(crate) results: Vec<MetricResult>,
    /// The file with its summary.
    pub(crate) summary: PathBuf,
}

/// The files of the command, once all are written.
#[derive(Debug, Clone)]
pub(crate) struct Exported {
    pub(crate) directory: PathBuf,
    /// The files that the command has written, there and elsewhere. Some may be absent.
    pub(crate) files: BTreeSet<PathBuf>,
    /// Whether some could not be written, or the command failed.
    pub(crate) is_partial: bool,
}

impl Status {
    /// Creates the status before the first run; with `keeps_scrapes`, it has the latest scrapes of
    /// server metrics.
    pub(crate) fn new(interrupt: Interrupt, keeps_scrapes: bool) -> Arc<Self> {
        Arc::new(Self { interrupt, keeps_scrapes, state: Mutex::default() })
    }

    /// A new run has begun, with this number of `workers`. Returns its statistics, to be filled.
    pub(crate) fn begin(
        &self,
        description: &RunDescription,
        workers: usize,
        live: Live,
        clock: Clock,
    ) -> Arc<Live> {
        let live = Arc::new(live);
        let (models, servers) = (description.models(), description.servers());
        let title = format!("{} at {}", models.join(", "), servers.join(", "));
        let mut state = self.lock();
        let member = state.known.member.take();
        let files = std::mem::take(&mut state.files);
        let description = Arc::new(description.clone());
        *state = State {
            run: Some(CurrentRun { description, workers, live: Arc::clone(&live), clock }),
            known: Snapshot { title, member, ..Snapshot::default() },
            files,
            ..State::default()
        };
        live
    }

    /// Which of several runs is next.
    pub(crate) fn name(&self, member: String) {
        self.lock().known.member = Some(member);
    }

    /// The gauges that were scraped from the endpoint number `index`.
    pub(crate) fn scraped(&self, index: usize, gauges: Vec<LiveGauge>) {
        self.lock().gauges.insert(index, gauges);
    }

    /// The latest scrape of the endpoint number `index` as JSON, which `line` returns if it is
    /// kept.
    pub(crate) fn keep_scrape(&self, index: usize, line: impl FnOnce() -> Option<Vec<u8>>) {
        if self.keeps_scrapes
            && let Some(line) = line()
        {
            self.lock().scrapes.insert(index, line.into());
        }
    }

    /// Client health, which `so_far` computes, if that is due.
    pub(crate) fn health(&self, so_far: impl FnOnce() -> ClientHealth) {
        let mut state = self.lock();
        let now = Clock::now();
        if now < state.next_health {
            return;
        }
        state.next_health = now + HEALTH_INTERVAL;
        drop(state);
        let health = so_far();
        self.lock().known.health = Some(health);
    }

    /// The phases so far, and whether the client `is_behind` with processing records.
    pub(crate) fn update(&self, phases: &[PhaseStats], is_behind: bool) {
        let Some(phase) = phases.last() else { return };
        let mut state = self.lock();
        let is_silent = state.responses.0 == phase.requests_returned
            && phase.requests_in_flight() > 0
            && state.known.phase.is_some_and(|last| last.phase_index == phase.phase_index);
        if !is_silent {
            state.responses = (phase.requests_returned, phase.now);
        }
        state.phases = phases.to_vec();
        state.known.phase = Some(*phase);
        state.known.is_behind = is_behind;
        let drains = self.interrupt.is_draining();
        state.known.stage = if drains { Stage::Draining } else { Stage::Sending };
    }

    /// The load has ended, and its records are processed.
    pub(crate) fn finishing(&self) {
        self.lock().known.stage = Stage::Finishing;
    }

    /// The run has ended and its files are written, among them its `summary`.
    pub(crate) fn ended(&self, report: &RunReport, summary: &Path) {
        let mut state = self.lock();
        state.phases.clone_from(&report.phases);
        state.ending = Some(Ending {
            was_cancelled: report.outcome.was_cancelled,
            is_complete: report.is_complete(),
            results: report.results.clone(),
            summary: summary.to_owned(),
        });
    }

    /// The command has written `files`, or tried to.
    pub(crate) fn wrote(&self, files: impl IntoIterator<Item = PathBuf>) {
        self.lock().files.extend(files);
    }

    /// The command has ended and written all of its files, most of them in `directory`.
    pub(crate) fn exported(&self, directory: &Path, is_partial: bool) {
        let mut state = self.lock();
        let files = state.files.clone();
        state.exported = Some(Exported { directory: directory.to_owned(), files, is_partial });
    }

    /// Returns what the live view shows now, without the log.
    pub(crate) fn snapshot(&self) -> Snapshot {
        let (mut snapshot, run, responses) = {
            let state = self.lock();
            let mut snapshot = state.known.clone();
            snapshot.gauges = LiveGauge::combined(state.gauges.values());
            (snapshot, state.run.clone(), state.responses)
        };
        let Some(run) = run else { return snapshot };
        let (index, ended) = snapshot
            .phase
            .map_or((0, false), |stats| (stats.phase_index, stats.requests_end.is_some()));
        let now = Clock::now();
        snapshot.statistics = run.live.statistics(index, run.clock.wall_ns(now), ended);
        let silence = now.since(responses.1);
        let is_silent = snapshot.phase.is_some_and(|stats| stats.requests_in_flight() > 0);
        if is_silent && silence >= SILENCE {
            let latency = snapshot.statistics.times.last().and_then(|time| {
                let unit = time.metric.display_unit;
                Some(Nanos(unit.convert(time.whole?.p99, Unit::Nanoseconds) as u64))
            });
            let is_unusual = latency.is_some_and(|usual| silence > usual);
            snapshot.silence = Some(Silence { seconds: silence.as_seconds(), is_unusual });
        }
        snapshot
    }

    /// Returns the results of the current phase so far; those of the measurement once the run has
    /// ended.
    pub(crate) fn results(&self) -> Vec<MetricResult> {
        let (run, index, ending) = {
            let state = self.lock();
            (state.run.clone(), state.known.phase.map(|it| it.phase_index), state.ending.clone())
        };
        match (run, ending) {
            (_, Some(ending)) => ending.results,
            (Some(run), None) => run.live.results(index.unwrap_or_default()),
            (None, None) => Vec::new(),
        }
    }

    /// Returns the run that is measured; `None` before the first.
    pub(crate) fn run(&self) -> Option<CurrentRun> {
        self.lock().run.clone()
    }

    /// Returns what the program is doing.
    pub(crate) fn stage(&self) -> Stage {
        self.lock().known.stage
    }

    /// Returns the phases of the run so far.
    pub(crate) fn phases(&self) -> Vec<PhaseStats> {
        self.lock().phases.clone()
    }

    /// Returns the latest scrape of each endpoint as JSON.
    pub(crate) fn scrapes(&self) -> Vec<Arc<[u8]>> {
        self.lock().scrapes.values().cloned().collect()
    }

    /// Returns how the run ended, once its files are written.
    pub(crate) fn ending(&self) -> Option<Ending> {
        self.lock().ending.clone()
    }

    /// Returns the command's files, once all are written.
    pub(crate) fn files(&self) -> Option<Exported> {
        self.lock().exported.clone()
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
