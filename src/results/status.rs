//! What is known of the current run while it goes on, for those who watch it: the live view, the
//! HTTP API, and trackers.
//!
//! Threads that measure nothing write it and read it. Without anybody who watches, there is none.

pub mod snapshot;

use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;
use std::sync::Arc;

use base::interrupt::Interrupt;
use base::lock::Lock;
use base::units::{Clock, Nanos, Unit};
use client::schedule::config::PhaseConfig;
use client::schedule::{PhaseKind, PhaseStats};
use measure::gpu;
use measure::gpu::sample::GpuSample;
use measure::judge::{self, Basis, Judged};
use measure::metrics::health::{LoadHealth, LoadVerdict};
use measure::metrics::live::Live;
use measure::metrics::metric::{MeasuredRecord, MetricResult};
use measure::metrics::name_counts::NameCounts;
use measure::metrics::steady::Unsteady;
use measure::metrics::{ClientHealth, tag};
use measure::server_metrics::Scrape;
use measure::server_metrics::watch::LiveGauge;

use self::snapshot::{Silence, Snapshot, Stage};
use crate::artifacts::server_metrics::whole_line;
use crate::follow::{Began, Delivered, Ended, Follower, Progress};
use crate::run::RunDescription;

/// Interval between two computations of client health.
const HEALTH_INTERVAL: Nanos = Nanos(1_000_000_000);

/// Silence that is shown.
const SILENCE: Nanos = Nanos(1_000_000_000);

/// What is known of the current run, or of the last one.
#[derive(Debug)]
pub struct Status {
    interrupt: Interrupt,
    /// Whether the latest scrapes are kept.
    keeps_scrapes: bool,
    state: Lock<State>,
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
    exported: Option<Exported>,
}

/// The run that is measured.
#[derive(Debug, Clone)]
pub struct CurrentRun {
    pub description: Arc<RunDescription>,
    /// Number of threads that send requests.
    pub workers: usize,
    live: Arc<Live>,
    pub clock: Clock,
}

/// How a run ended, once its files are written.
#[derive(Debug, Clone)]
pub struct Ending {
    pub was_cancelled: bool,
    pub is_complete: bool,
    /// Its final results.
    pub results: Vec<MetricResult>,
    /// The file with its summary.
    pub summary: PathBuf,
}

/// The files of the command, once all are written.
#[derive(Debug, Clone)]
pub struct Exported {
    pub directory: PathBuf,
    /// The files that the command has written, there and elsewhere. Some may be absent.
    pub files: BTreeSet<PathBuf>,
    /// Whether some could not be written, or the command failed.
    pub is_partial: bool,
}

impl Status {
    /// Creates the status before the first run; with `keeps_scrapes`, it has the latest scrapes of
    /// server metrics.
    pub fn new(interrupt: Interrupt, keeps_scrapes: bool) -> Arc<Self> {
        Arc::new(Self { interrupt, keeps_scrapes, state: Lock::default() })
    }

    /// Returns what the live view shows now, without the log.
    pub fn snapshot(&self) -> Snapshot {
        let (mut snapshot, run, responses) = {
            let state = self.state.lock();
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
    pub fn results(&self) -> Vec<MetricResult> {
        let (run, index, ending) = {
            let state = self.state.lock();
            (state.run.clone(), state.known.phase.map(|it| it.phase_index), state.ending.clone())
        };
        match (run, ending) {
            (_, Some(ending)) => ending.results,
            (Some(run), None) => run.live.results(index.unwrap_or_default()),
            (None, None) => Vec::new(),
        }
    }

    /// Returns the run that is measured; `None` before the first.
    pub fn run(&self) -> Option<CurrentRun> {
        self.state.lock().run.clone()
    }

    /// Returns what the program is doing.
    pub fn stage(&self) -> Stage {
        self.state.lock().known.stage
    }

    /// Returns the phases of the run so far.
    pub fn phases(&self) -> Vec<PhaseStats> {
        self.state.lock().phases.clone()
    }

    /// Returns the latest scrape of each endpoint as JSON.
    pub fn scrapes(&self) -> Vec<Arc<[u8]>> {
        self.state.lock().scrapes.values().cloned().collect()
    }

    /// Returns how the run ended, once its files are written.
    pub fn ending(&self) -> Option<Ending> {
        self.state.lock().ending.clone()
    }

    /// Returns the command's files, once all are written.
    pub fn files(&self) -> Option<Exported> {
        self.state.lock().exported.clone()
    }
}

impl CurrentRun {
    /// Returns the gates that the results of the `phase` so far can be compared with, and the share of
    /// requests that meet the objectives, in percent. The warmup is not limited.
    fn limits(
        &self,
        phase: &PhaseStats,
        health: &ClientHealth,
        load: Option<LoadVerdict>,
    ) -> (Vec<Judged>, Option<f64>) {
        let run = &self.description;
        let has_any = !(run.gates.is_empty() && run.settings.objectives.is_empty());
        if !has_any || phase.phase != PhaseKind::Profiling {
            return (Vec::new(), None);
        }
        let results = self.live.results(phase.phase_index);
        let facts = judge::Facts {
            results: &results,
            phases: &[],
            steady_state: Err(&Unsteady::UnknownLoad),
            server: None,
            verdict: health.verdict,
            load_verdict: load,
            outputs: None,
            finish_reasons: &NameCounts::default(),
            bounds: health.bounds(),
            basis: Basis::default(),
        };
        let judged = run.gates.iter().map(|gate| gate.judge(&facts));
        let good = results.iter().find(|it| it.metric.tag == tag::GOOD_REQUEST_FRACTION);
        (
            judged.filter(|gate| gate.value.is_some()).collect(),
            good.map(|good| 100.0 * good.stats.avg),
        )
    }
}

impl Follower for Status {
    fn began(&self, run: &Began<'_>) {
        let (models, servers) = (&run.run.setup.models, run.run.servers());
        let title = format!("{} at {}", models.join(", "), servers.join(", "));
        let current = CurrentRun {
            description: Arc::new(run.run.clone()),
            workers: run.workers,
            live: Arc::new(Live::new(Arc::clone(run.registry))),
            clock: run.clock,
        };
        let member = run.name.map(str::to_owned);
        *self.state.lock() = State {
            run: Some(current),
            known: Snapshot { title, member, ..Snapshot::default() },
            ..State::default()
        };
    }

    fn record(&self, record: &MeasuredRecord) {
        let live = self.state.lock().run.as_ref().map(|run| Arc::clone(&run.live));
        if let Some(live) = live {
            live.observe(record.record.phase_index, &record.observation);
        }
    }

    fn scraped(&self, scrape: &Scrape<'_>) {
        let gauges = LiveGauge::all(scrape.snapshot);
        let line = self.keeps_scrapes.then(|| whole_line(scrape).ok()).flatten();
        let mut state = self.state.lock();
        state.gauges.insert(scrape.index, gauges);
        if let Some(line) = line {
            state.scrapes.insert(scrape.index, line.into());
        }
    }

    fn sampled(&self, endpoint: usize, samples: &[GpuSample]) {
        self.state.lock().gauges.insert(endpoint, gpu::live::gauges(samples));
    }

    fn progress(&self, progress: &Progress<'_>) {
        let Some(phase) = progress.phases.last() else { return };
        let mut state = self.state.lock();
        let is_silent = state.responses.0 == phase.requests_returned
            && phase.requests_in_flight() > 0
            && state.known.phase.is_some_and(|last| last.phase_index == phase.phase_index);
        if !is_silent {
            state.responses = (phase.requests_returned, phase.now);
        }
        let setup = state.run.as_ref().map(|run| &run.description.setup.phases);
        let config = setup.and_then(|phases| phases.get(phase.phase_index as usize));
        state.known.load = config.map(PhaseConfig::load_and_end).unwrap_or_default();
        state.phases = progress.phases.to_vec();
        state.known.phase = Some(*phase);
        progress.name.clone_into(&mut state.known.phase_name);
        state.known.is_behind = progress.is_behind;
        let drains = self.interrupt.is_draining();
        state.known.stage = if drains { Stage::Draining } else { Stage::Sending };
        let now = Clock::now();
        if now < state.next_health {
            return;
        }
        state.next_health = now + HEALTH_INTERVAL;
        let run = state.run.clone();
        drop(state);
        let health = (progress.health)();
        let load = run.as_ref().and_then(|run| {
            let load = run.description.own_held_load();
            LoadHealth::judge(&(progress.load_times)(), load, run.clock.wall_ns(phase.start))
        });
        let verdict = load.map(|load| load.verdict);
        let (gates, good) = run.map(|run| run.limits(phase, &health, verdict)).unwrap_or_default();
        let mut state = self.state.lock();
        state.known.health = Some(health);
        state.known.load_health = load;
        state.known.gates = gates;
        state.known.good_percent = good;
    }

    fn load_ended(&self, _phase: &PhaseStats) {
        self.state.lock().known.stage = Stage::Finishing;
    }

    fn ended(&self, run: &mut Ended<'_>) {
        let report = run.report;
        let mut state = self.state.lock();
        state.phases.clone_from(&report.phases);
        state.ending = Some(Ending {
            was_cancelled: report.outcome.was_cancelled,
            is_complete: report.is_complete(),
            results: report.results.clone(),
            summary: run.layout.summary_json.clone(),
        });
    }

    fn delivered(&self, command: &Delivered<'_>) {
        self.state.lock().exported = Some(Exported {
            directory: command.directory.to_owned(),
            files: command.files.clone(),
            is_partial: command.is_partial,
        });
    }
}
