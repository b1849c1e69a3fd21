//! Rebuilds a run's report from its files.
//!
//! Statistics are recomputed from the lines of the records; other data comes from
//! `run_manifest.json`, or else from an earlier summary, or else from what the records imply.

mod combine;
mod foreign;
mod group;
mod line_file;
mod lines;
mod listing;
mod network_latency;
mod origin;
mod server_metrics;
mod table;

use std::io;
use std::ops::RangeInclusive;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use uuid::Uuid;

use super::error::{ArtifactError, WriteFailure};
use super::layout::Layout;
use super::manifest::End;
use super::server_metrics::ServerMetricsFiles;
use super::sessions;
use crate::column::{Column, Sorted, Store, fixed_struct};
use crate::dataset::{Sent, SentCounter};
use crate::judge::{AdaptivePath, Gate, bases};
use crate::metrics::breakdown::{
    Breakdowns, Grouped, Levels, TenantBreakdown, Variety, asked_rate,
};
use crate::metrics::deployment;
use crate::metrics::health::{
    ClientErrors, Collector, LoadHealth, LoadTimes, OfRecords, SlotTimes, SlotUse,
};
use crate::metrics::metric::{Observation, Percent};
use crate::metrics::name_counts::NameCounts;
use crate::metrics::session::{self, SessionLedger, SessionTurn, TurnPlace};
use crate::metrics::silence::EventTimes;
use crate::metrics::{Accumulator, ClientHealth, LoadReport, MetricsError, Registry};
use crate::record::Ancestry;
use crate::redact::ShownUrl;
use crate::run::scenario::DurationCoverage;
use crate::run::{EndedBy, ErrorCount, RunDescription, RunOutcome, RunReport};
use crate::schedule::config::has_several;
use crate::schedule::{PhaseKind, Shard};
use crate::server_metrics::limits::ClientLimits;
use crate::server_metrics::report::ServerMetrics;
use crate::units::Nanos;

pub use combine::{combine, shards_of};
pub(crate) use group::{Group, GroupRun};
use lines::{RecordReader, Seen};
#[cfg(test)]
pub(crate) use listing::State;
pub(crate) use listing::{Headline, Level, Listed, list};
use origin::Origin;
pub(crate) use origin::read_json;
use server_metrics::Known;
use table::{RowOrigin, Rows};

/// The reason why a report could not be rebuilt.
#[derive(Debug, thiserror::Error)]
pub enum ReportError {
    /// The directory does not contain records.
    #[error(
        "cannot read the records {path}: {why}; specify a directory that `aiperf profile` wrote \
         with --export-level records or raw"
    )]
    NoRecords {
        /// The file looked for.
        path: PathBuf,
        /// The cause.
        why: io::Error,
    },
    /// No line is a record.
    #[error("{path} does not contain a complete record, so there is nothing to summarize")]
    Empty {
        /// The file.
        path: PathBuf,
        /// Whether the run was killed before its end.
        was_killed: bool,
    },
    /// A line other than the last is not a record.
    #[error("{path}, line {line}: not a valid record: {reason}; remove the line and try again")]
    Malformed {
        /// The file.
        path: PathBuf,
        /// The line number, from 1.
        line: usize,
        /// What is wrong with it.
        reason: String,
    },
    /// The run's description cannot be used.
    #[error("cannot use {path}: {reason}; remove it to use only the records")]
    Unusable {
        /// The file.
        path: PathBuf,
        /// What is wrong with it.
        reason: String,
    },
    /// The records and the description are of different runs.
    #[error(
        "{records} and {manifest} are from different runs: none of the requests started during the \
         measurement of that run; nothing is overwritten. Keep only the files of one run in the \
         directory"
    )]
    OtherRun {
        /// The records.
        records: PathBuf,
        /// The description.
        manifest: PathBuf,
    },
    /// The records are fewer than those that the summary covers.
    #[error(
        "{summary} covers {had} requests, but there are only records of {read}, so its files are not \
         replaced; to replace them by a report of fewer requests, use --overwrite"
    )]
    CoversMore {
        /// The summary.
        summary: PathBuf,
        /// Number of requests that it covers.
        had: u64,
        /// Number of records.
        read: u64,
    },
    /// The directory does not exist.
    #[error("cannot read the directory {path}: {why}; specify the directories of a run's shards")]
    NoDirectory {
        /// The directory.
        path: PathBuf,
        /// The cause.
        why: io::Error,
    },
    /// A directory is not that of a shard.
    #[error(
        "{directory} is not a shard of a run: its run_manifest.json does not name a shard; specify \
         directories that `aiperf profile --shard` wrote"
    )]
    NotAPart {
        /// The directory.
        directory: PathBuf,
    },
    /// Two directories are of different runs.
    #[error(
        "{first} and {other} are not shards of the same run: they differ in {differences}; specify \
         the directories of one run"
    )]
    NotOneRun {
        /// A directory.
        first: PathBuf,
        /// A directory that does not belong with it.
        other: PathBuf,
        /// The differences.
        differences: String,
    },
    /// A shard is given twice.
    #[error("{first} and {other} are both shard {shard}; specify each shard once")]
    Twice {
        /// The shard.
        shard: Shard,
        /// One of its directories.
        first: PathBuf,
        /// Another one.
        other: PathBuf,
    },
    /// The directory for the files is not specified.
    #[error(
        "the shards are not in the same directory; use --artifact-dir to set the output directory"
    )]
    NoPlace,
    /// The files would replace those of a shard.
    #[error("{directory} is one of the shards; choose another directory with --artifact-dir")]
    OwnPlace {
        /// The directory.
        directory: PathBuf,
    },
    /// The directory cannot be used.
    #[error(transparent)]
    Artifacts(#[from] ArtifactError),
    /// A file could not be written.
    #[error(transparent)]
    Write(#[from] WriteFailure),
    /// The metrics do not match the run.
    #[error(transparent)]
    Metrics(#[from] MetricsError),
}

/// A rebuilt report.
#[derive(Debug)]
pub struct Rebuilt {
    /// The report.
    pub report: RunReport,
    /// The paths of its files.
    pub layout: Layout,
    /// The files of server metrics, if the report contains any.
    pub server_metrics: ServerMetricsFiles,
    /// Notes for the user about the input files.
    pub notes: Vec<String>,
    /// The values of the profiling phase.
    pub profiling: Accumulator,
    /// The files that are already written.
    pub written: Vec<PathBuf>,
    /// The source of the table of requests.
    rows: Rows,
    /// How many requests it covers.
    pub(crate) coverage: Coverage,
}

/// Returns the paths of the files of the run in `directory`.
pub(crate) fn layout(directory: &Path) -> Result<Layout, ReportError> {
    Ok(Layout::new(directory, Origin::find(directory)?.prefix()).existing())
}

/// Returns the description of the run in `directory`, and when its measurement started in
/// nanoseconds since the epoch, as far as its manifest has them.
pub(crate) fn described(directory: &Path) -> Option<(RunDescription, Option<u64>)> {
    let origin = Origin::find(directory).ok().filter(Origin::has_manifest)?;
    let (run, end) = origin.describe(&Layout::new(directory, None)).ok()?;
    Some((run, end.map(|end| end.outcome.start_wall_ns)))
}

/// Rebuilds the report of the run in `directory`.
pub fn rebuild(directory: &Path) -> Result<Rebuilt, ReportError> {
    rebuild_with(directory, Wanted::default())
}

/// What else a report is rebuilt for.
#[derive(Default)]
pub(crate) struct Wanted<'a> {
    /// Gates to use instead of those of the run; none to use those.
    pub(crate) gates: &'a [Gate],
    /// Percentiles to compute besides those of the run.
    pub(crate) percentiles: &'a [Percent],
    /// Whether server metrics are needed even if they are not shown.
    pub(crate) needs_server_metrics: bool,
    /// Called for each request, in the order of the file.
    pub(crate) observe: Option<&'a mut dyn FnMut(&Observation)>,
}

/// Like [`rebuild`], with what is `wanted` in addition.
pub(crate) fn rebuild_with(
    directory: &Path,
    mut wanted: Wanted<'_>,
) -> Result<Rebuilt, ReportError> {
    let origin = Origin::find(directory)?;
    let layout = Layout::new(directory, origin.prefix()).existing();
    let has_manifest = origin.has_manifest();
    let records = RecordReader::open(&layout.records)?;
    let files = origin.server_metrics_files();
    let (mut run, end) = origin.describe(&layout)?;
    if !wanted.gates.is_empty() {
        run.set_gates(wanted.gates);
    }
    run.add_percentiles(wanted.percentiles);
    let registry = Arc::new(run.registry()?);
    let store = Store::of_run(directory.to_owned());
    let mut gathered = Gathered::new(&registry, &run, &store);
    gathered.add_levels(end.as_ref().map_or(&[], |end| end.outcome.adaptive.as_slice()));
    let mut seen = Seen::of([layout.records.as_path()], &store);
    let (repeated, mut notes) = records.read(&registry, &mut seen, |record, _| {
        gathered.take(record);
        if let Some(observe) = &mut wanted.observe {
            observe(&record.observation);
        }
    })?;
    if gathered.records == 0 {
        let was_killed = has_manifest && end.is_none();
        return Err(ReportError::Empty { path: layout.records, was_killed });
    }
    if let Some(end) = end.as_ref().filter(|_| has_manifest)
        && !gathered.is_of(end.outcome.start_wall_ns..=end.outcome.end_wall_ns)
    {
        let Layout { records, manifest, .. } = layout;
        return Err(ReportError::OtherRun { records, manifest });
    }
    // Without the run's end, requests in flight are missing.
    let has_ended = end.is_some();
    let (mut outcome, server_side) = match end {
        Some(End { outcome, server_metrics }) => (outcome, server_metrics),
        None => (gathered.outcome_of_a_killed_run(), None),
    };
    let mut files = files.unwrap_or_else(|| ServerMetricsFiles::of_run(&run));
    let known = Known {
        layout: &layout,
        outcome: server_side.as_ref(),
        first_request_ns: gathered.spans.iter().map(|span| span.start).min(),
        limits: has_ended.then(|| ClientLimits::of(&gathered.profiling)).flatten(),
        is_needed: wanted.needs_server_metrics || run.needs_server_metrics(),
    };
    let server_metrics = server_metrics::rebuild(&known, &mut files, &mut notes);
    let of_run = outcome.sent.map(Sent::total).filter(|_| outcome.client_health.is_some());
    outcome.sent = gathered.sent();
    outcome.client_health =
        ClientHealth::recomputed(outcome.client_health, &gathered.of_client(), &outcome.load);
    let probes = [layout.network_latency_lines.as_path()];
    let round_trip = network_latency::round_trip_ns(&run, probes, &mut notes, |_| {});
    gathered.profiling.set_round_trip(round_trip);
    let report = gathered.report(run, outcome, server_metrics, &mut notes);
    let rows = Rows {
        registry,
        origins: vec![RowOrigin::new(String::new(), &layout, gathered.records, repeated)],
    };
    let coverage = Coverage::of(&gathered, of_run);
    let profiling = gathered.profiling;
    let written = Vec::new();
    Ok(Rebuilt { report, layout, server_metrics: files, notes, profiling, written, rows, coverage })
}

impl Rebuilt {
    /// Rejects replacing files that cover more requests than this report: the records may have been
    /// cut off, while the summary is complete.
    pub(crate) fn check_coverage(&self) -> Result<(), ReportError> {
        self.coverage.check(&self.layout)
    }
}

/// How many requests a report covers.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Coverage {
    /// Number of records of the profiling phase.
    requests: u64,
    /// Number of records of all phases.
    records: u64,
    /// Number of requests of all phases that the run's own summary covers, if that is known.
    of_run: Option<u64>,
}

impl Coverage {
    fn of(gathered: &Gathered, of_run: Option<u64>) -> Self {
        Self { requests: gathered.spans.len() as u64, records: gathered.records, of_run }
    }

    /// Returns whether the records are all that the run had, as far as that is known.
    pub(crate) fn is_whole(self) -> bool {
        self.of_run.is_none_or(|requests| requests == self.records)
    }

    fn check(self, layout: &Layout) -> Result<(), ReportError> {
        let exist = layout.summary_json.exists() || layout.table.exists();
        let of_run = self.of_run.filter(|requests| exist && *requests > self.records);
        let of_summary = covered(&layout.summary_json).filter(|requests| *requests > self.requests);
        let (had, read) = match (of_run, of_summary) {
            (Some(had), _) => (had, self.records),
            (None, Some(had)) => (had, self.requests),
            (None, None) => return Ok(()),
        };
        Err(ReportError::CoversMore { summary: layout.summary_json.clone(), had, read })
    }
}

/// Returns how many requests of the profiling phase the summary at `path` covers, if there is one.
fn covered(path: &Path) -> Option<u64> {
    #[derive(serde::Deserialize)]
    struct Count {
        avg: f64,
    }
    #[derive(serde::Deserialize)]
    struct Counts {
        request_count: Option<Count>,
        error_request_count: Option<Count>,
    }
    let Counts { request_count, error_request_count } = read_json(path).ok().flatten()?;
    let counts = [request_count, error_request_count].into_iter().flatten();
    Some(counts.map(|count| count.avg as u64).sum())
}

/// Writes the summaries of a rebuilt report and its table of requests; returns the files written.
/// Remarks about the table are added to the notes.
pub fn write(rebuilt: &mut Rebuilt, console_text: &str) -> Result<Vec<PathBuf>, ReportError> {
    let Rebuilt { report, layout, server_metrics, notes, written, rows, .. } = rebuilt;
    let summaries = super::summaries::write_summaries(layout, server_metrics, report, console_text);
    let mut files = summaries.into_iter().collect::<Result<Vec<_>, _>>()?;
    files.extend(sessions::write(&layout.sessions, report)?);
    files.extend(rows.write(&layout.table, report, notes)?);
    files.append(written);
    Ok(files)
}

/// Returns the failures in `accumulator`.
#[must_use]
pub fn error_counts(accumulator: &Accumulator) -> Vec<ErrorCount> {
    accumulator
        .errors()
        .into_iter()
        .map(|(error_details, count)| ErrorCount { error_details, count })
        .collect()
}

/// A record as parsed from its line.
struct Line {
    observation: Observation,
    /// Index of its phase in the run.
    phase_index: u32,
    model: Arc<str>,
    url: ShownUrl,
    /// When the request was due; absent in a closed loop.
    due_wall_ns: Option<u64>,
    retries: u64,
    /// The worker that answered, if the server named it.
    worker: Option<Arc<str>>,
    /// ID of the request, unless the line lacks it.
    request_id: Option<Uuid>,
    /// Identifier of the conversation and index of the turn, unless the line lacks them.
    turn: Option<(String, usize)>,
    /// The tenant that sent it, if tenants shared the load.
    tenant: Option<Arc<str>>,
    /// Place in its session, if the line has it.
    place: Option<Place>,
    /// Why its output ended, if the server reported that.
    finish_reason: Option<String>,
    /// What was unusual about its response.
    response_notes: Option<String>,
    /// Absent if the line does not have them.
    client_errors: Option<ClientErrors>,
}

/// The place of a request in its session.
struct Place {
    session: u64,
    correlation_id: Uuid,
    ancestry: Option<Ancestry>,
    /// In its conversation; absent for a conversation of one turn.
    of_turn: Option<TurnPlace>,
}

fixed_struct! {
    /// Wall times of a request's start and end.
    #[derive(Debug, Clone, Copy, Default)]
    struct Span {
        start: u64,
        end: u64,
    }
}

/// The collected data of all lines.
struct Gathered {
    profiling: Accumulator,
    breakdowns: Breakdowns,
    levels: Levels,
    warmup: Accumulator,
    records: u64,
    /// Start and end of each profiling request.
    spans: Column<Span>,
    /// Delays of profiling requests that had a due time.
    slips: Column<u64>,
    retries: u64,
    bounds: Collector,
    slots: SlotTimes,
    load_times: LoadTimes,
    event_times: EventTimes,
    /// The sessions of the profiling phase; absent unless each request has its place.
    sessions: Option<SessionLedger>,
    finish_reasons: NameCounts,
    response_notes: NameCounts,
    /// Whether all successful requests have their errors.
    has_errors: bool,
    /// The requests of the dataset, by identifier of the conversation and turn.
    sent: SentCounter<String>,
    /// For each phase, whether its requests are in the account of the dataset.
    accounted_phases: Vec<bool>,
    /// Whether there is a dataset, and each request has its place in it.
    has_turns: bool,
}

impl Gathered {
    fn new(registry: &Arc<Registry>, run: &RunDescription, store: &Store) -> Self {
        let accumulator = || Accumulator::keeping_in(store.clone(), Arc::clone(registry));
        let is_sliced = run.setup.slice_duration.is_some();
        Self {
            profiling: if is_sliced { accumulator().sliced() } else { accumulator() },
            breakdowns: breakdowns(registry, store, run),
            levels: Levels::new(Arc::clone(registry), store.clone()),
            warmup: accumulator(),
            records: 0,
            spans: Column::new(store.clone()),
            slips: Column::new(store.clone()),
            retries: 0,
            bounds: Collector::keeping_in(store),
            slots: SlotTimes::default(),
            load_times: LoadTimes::default(),
            event_times: EventTimes::default(),
            sessions: Some(SessionLedger::new(store.clone(), run.settings.fixed_schedule)),
            finish_reasons: NameCounts::default(),
            response_notes: NameCounts::default(),
            has_errors: true,
            sent: SentCounter::default(),
            accounted_phases: run.setup.accounted_phases(),
            has_turns: run.dataset.is_some(),
        }
    }

    /// Adds the windows of adaptive loads, before the records.
    fn add_levels(&mut self, paths: &[AdaptivePath]) {
        for path in paths {
            for window in &path.windows {
                self.levels.add(path.phase_index, window.start_ns..window.end_ns);
            }
        }
    }

    fn take(&mut self, line: &Line) {
        self.records += 1;
        match &line.turn {
            Some((conversation, turn)) if self.has_turns => {
                let is_accounted = self.accounted_phases.get(line.phase_index as usize);
                self.sent.count(is_accounted != Some(&false), conversation.clone(), *turn);
            }
            _ => self.has_turns = false,
        }
        self.breakdowns.observe_in(line.phase_index, &line.observation);
        self.levels.observe(line.phase_index, &line.observation);
        match line.observation.phase {
            PhaseKind::Warmup => self.warmup.observe(&line.observation),
            PhaseKind::Profiling => {
                self.profiling.observe(&line.observation);
                let Line { model, url, worker, tenant, observation, .. } = line;
                self.breakdowns.observe(Grouped {
                    model,
                    url,
                    worker: worker.as_ref(),
                    tenant: tenant.as_ref(),
                    turn: line.turn.as_ref().map(|(_, turn)| *turn),
                    observation,
                });
                let Observation { start_wall_ns, end_wall_ns, .. } = line.observation;
                self.spans.push(Span { start: start_wall_ns, end: end_wall_ns });
                self.slips.extend(line.due_wall_ns.map(|due| start_wall_ns.saturating_sub(due)));
                self.retries = self.retries.saturating_add(line.retries);
                self.load_times.observe(line.due_wall_ns, &line.observation);
                self.event_times.observe(&line.observation);
                self.take_session(line);
                if observation.error.is_none() {
                    self.finish_reasons.observe(line.finish_reason.as_deref());
                    self.response_notes.observe(line.response_notes.as_deref());
                }
                self.take_errors(line);
            }
        }
    }

    fn take_session(&mut self, line: &Line) {
        let (Some(sessions), Some(at), Some((conversation, turn))) =
            (&mut self.sessions, &line.place, &line.turn)
        else {
            self.sessions = None;
            return;
        };
        sessions.observe(&SessionTurn {
            session: at.session,
            correlation_id: at.correlation_id,
            ancestry: at.ancestry,
            conversation_id: conversation,
            index: *turn,
            due_wall_ns: line.due_wall_ns,
            place: at.of_turn,
            observation: &line.observation,
        });
    }

    fn take_errors(&mut self, line: &Line) {
        let Observation { start_wall_ns, end_wall_ns, error, values, .. } = &line.observation;
        let errors = line.client_errors.unwrap_or_default();
        let (start, end) = (Nanos(*start_wall_ns), Nanos(*end_wall_ns));
        self.slots.observe(SlotUse { start, end, due: line.due_wall_ns.map(Nanos) }, &errors);
        if error.is_none() {
            self.has_errors &= line.client_errors.is_some();
            self.bounds.observe(values, &errors, line.due_wall_ns.is_some());
        }
    }

    /// Returns what the records reveal about the client.
    fn of_client(&self) -> OfRecords<'_> {
        OfRecords {
            slips: &self.slips,
            retries: self.retries,
            error_bounds: self.has_errors.then(|| self.bounds.bounds()).flatten(),
            slots: self.slots,
        }
    }

    /// Returns how many requests of the dataset were sent, if that is known.
    fn sent(&self) -> Option<Sent> {
        self.has_turns.then(|| self.sent.sent())
    }

    /// Returns whether the requests can be those of a measurement with this `window`, since a
    /// directory may contain files of several runs.
    fn is_of(&self, window: RangeInclusive<u64>) -> bool {
        self.spans.is_empty() || self.spans.iter().any(|span| window.contains(&span.start))
    }

    /// Returns the report of the run, with the slices that it requests.
    fn report(
        &self,
        run: RunDescription,
        mut outcome: RunOutcome,
        mut server_metrics: Option<ServerMetrics>,
        notes: &mut Vec<String>,
    ) -> RunReport {
        if let Some(metrics) = &mut server_metrics {
            metrics.add_phases(&outcome.phases);
        }
        let window = outcome.start_wall_ns..outcome.end_wall_ns;
        let slices = run.setup.slice_duration.and_then(|duration| {
            let slices = self.profiling.slices(&window, duration);
            slices.map_err(|error| notes.push(error.to_string())).ok()?
        });
        let load = run.own_held_load();
        let steady_state = self.profiling.steady_state(load, outcome.start_wall_ns);
        outcome.load_health = LoadHealth::of(&self.load_times, load, outcome.start_wall_ns);
        let start_wall_ns = outcome.start_wall_ns;
        let sessions = self.sessions.as_ref().and_then(SessionLedger::sessions);
        let mut results = self.profiling.results();
        results.extend(session::results(sessions.as_ref(), self.profiling.registry(), &results));
        let fleets = outcome.gpus.as_ref().map_or(&[][..], |gpus| &gpus.fleets);
        let (deployment, concurrency) = (&run.setup.deployment, outcome.load.requested_concurrency);
        results.extend(deployment::results(deployment, fleets, &results, concurrency));
        RunReport {
            long_run: self.profiling.long_run(asked_rate(&run.setup.phases, None)),
            missed_objectives: self.profiling.missed_objectives(),
            bases: bases(&run.gates, |phase| {
                let phases = &run.setup.phases;
                let of_phase = |name| self.breakdowns.phase(phases, name);
                let values = phase.map_or(Some(&self.profiling), of_phase)?;
                Some((values, asked_rate(phases, phase)))
            }),
            by_phase: self.breakdowns.phases(
                &run.setup.phases,
                &outcome.phases,
                run.shard.unwrap_or(Shard::WHOLE),
            ),
            coverage: DurationCoverage::of(&run.setup, outcome.start_wall_ns, &self.profiling),
            levels: self.levels.results(),
            run,
            outcome,
            steady_state,
            results,
            sessions,
            finish_reasons: self.finish_reasons.clone(),
            response_notes: self.response_notes.clone(),
            silences: self.event_times.silences(start_wall_ns),
            breakdowns: self.breakdowns.results(),
            slices,
            warmup_results: self.warmup.results_if_any(),
            errors: error_counts(&self.profiling),
            phases: Vec::new(),
            server_metrics,
        }
    }

    /// Returns the outcome, as far as known, of a run that was killed before its end.
    fn outcome_of_a_killed_run(&self) -> RunOutcome {
        let starts = self.spans.iter().map(|span| span.start);
        let ends = self.spans.iter().map(|span| span.end);
        RunOutcome {
            start_wall_ns: starts.min().unwrap_or(0),
            end_wall_ns: ends.max().unwrap_or(0),
            phases: Vec::new(),
            was_cancelled: false,
            ended_by: Some(EndedBy::Kill),
            incomplete_reason: Some(
                "the run ended before it could write its summary; requests in flight are missing"
                    .to_owned(),
            ),
            ended_early: None,
            adaptive: Vec::new(),
            sent: self.sent(),
            prefix_cache: None,
            branches: None,
            replay: None,
            load: LoadReport {
                reached_concurrency: most_at_once(&self.spans),
                ..LoadReport::default()
            },
            client_health: None,
            load_health: None,
            telemetry: None,
            time_breakdown: None,
            gpus: None,
            shards: None,
        }
    }
}

/// Returns the breakdowns of `run` by the models and URLs in its description, and by the turns that
/// its records have.
fn breakdowns(registry: &Arc<Registry>, store: &Store, run: &RunDescription) -> Breakdowns {
    let setup = &run.setup;
    let variety = Variety {
        models: setup.requested_models().len(),
        urls: setup.urls.len(),
        turns: usize::MAX,
        phases: if has_several(&setup.phases) { setup.phases.len() } else { 0 },
    };
    let by_tenant =
        TenantBreakdown::of(&setup.tenants, registry, run.endpoint, run.streaming, store);
    Breakdowns::new(registry, store, variety, by_tenant)
}

/// Returns the maximum number of spans that overlap at any time.
fn most_at_once(spans: &Column<Span>) -> u64 {
    let store = spans.scratch();
    let starts = Sorted::new(spans.iter().map(|span| span.start), |start| *start, &store);
    let ends = Sorted::new(spans.iter().map(|span| span.end), |end| *end, &store);
    let mut ends = ends.iter().peekable();
    let (mut running, mut most) = (0, 0_u64);
    for start in starts.iter() {
        // At the same instant, ends come before starts.
        while ends.next_if(|end| *end <= start).is_some() {
            running -= 1;
        }
        running += 1;
        most = most.max(running);
    }
    most
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn overlapping_requests_are_counted() {
        let most = |spans: &[(u64, u64)]| {
            let spans = spans.iter().map(|(start, end)| Span { start: *start, end: *end });
            most_at_once(&Column::of(Store::default(), spans))
        };
        assert_eq!(most(&[]), 0);
        assert_eq!(most(&[(0, 10), (10, 20)]), 1);
        assert_eq!(most(&[(0, 10), (5, 20), (6, 7), (15, 30)]), 3);
    }
}
