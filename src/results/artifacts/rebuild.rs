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

use std::collections::HashMap;
use std::io;
use std::ops::RangeInclusive;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use uuid::Uuid;

use base::column::{Column, Sorted, Store, fixed_struct};
use base::redact::ShownUrl;
use client::record::Ancestry;
use client::schedule::{PhaseKind, Shard};
use dataset::Sent;
use measure::judge::Gate;
use measure::metrics::health::ClientErrors;
use measure::metrics::metric::{Observation, Percent};
use measure::metrics::session::{SessionTurn, TurnPlace};
use measure::metrics::{Accumulator, LoadReport, MetricsError, Registry};
use measure::server_metrics::limits::ClientLimits;

use super::error::{ArtifactError, WriteFailure};
use super::layout::Layout;
use super::manifest::End;
use super::server_metrics::ServerMetricsFiles;
use super::sessions;
use crate::run::ledger::{Entry, Ledger};
use crate::run::{EndedBy, RunDescription, RunOutcome, RunReport};

pub use combine::{combine, shards_of};
pub use group::{Group, GroupRun};
use lines::{RecordReader, Seen};
pub use listing::list;
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
    pub coverage: Coverage,
}

/// Returns the paths of the files of the run in `directory`.
pub fn layout(directory: &Path) -> Result<Layout, ReportError> {
    Ok(Layout::new(directory, Origin::find(directory)?.prefix()).existing())
}

/// Returns the description of the run in `directory`, and when its measurement started in
/// nanoseconds since the epoch, as far as its manifest has them.
pub fn described(directory: &Path) -> Option<(RunDescription, Option<u64>)> {
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
pub struct Wanted<'a> {
    /// Gates to use instead of those of the run; none to use those.
    pub gates: &'a [Gate],
    /// Percentiles to compute besides those of the run.
    pub percentiles: &'a [Percent],
    /// Whether server metrics are needed even if they are not shown.
    pub needs_server_metrics: bool,
    /// Called for each request, in the order of the file.
    pub observe: Option<&'a mut dyn FnMut(&Observation)>,
}

/// Like [`rebuild`], with what is `wanted` in addition.
pub fn rebuild_with(directory: &Path, mut wanted: Wanted<'_>) -> Result<Rebuilt, ReportError> {
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
    let paths = end.as_ref().map_or(&[][..], |end| end.outcome.adaptive.as_slice());
    gathered.ledger = gathered.ledger.with_levels(paths);
    let mut seen = Seen::in_files([layout.records.as_path()], &store);
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
        limits: has_ended
            .then(|| ClientLimits::from_accumulator(&gathered.ledger.profiling))
            .flatten(),
        is_needed: wanted.needs_server_metrics || run.needs_server_metrics(),
    };
    let server_metrics = server_metrics::rebuild(&known, &mut files, &mut notes);
    let of_run = outcome.sent.map(Sent::total).filter(|_| outcome.client_health.is_some());
    outcome.sent = gathered.ledger.sent();
    let health = &gathered.ledger.health;
    outcome.client_health = health.recomputed(outcome.client_health.take(), &outcome.load);
    let probes = [layout.network_latency_lines.as_path()];
    let round_trip = network_latency::round_trip_ns(&run, probes, &mut notes, |_| {});
    gathered.ledger.profiling.set_round_trip(round_trip);
    let report = gathered.ledger.report(run, outcome, server_metrics, &mut notes);
    let rows = Rows {
        registry,
        origins: vec![RowOrigin::new(String::new(), &layout, gathered.records, repeated)],
    };
    let coverage = Coverage::from_gathered(&gathered, of_run);
    let profiling = gathered.ledger.profiling;
    let written = Vec::new();
    Ok(Rebuilt { report, layout, server_metrics: files, notes, profiling, written, rows, coverage })
}

impl Rebuilt {
    /// Rejects replacing files that cover more requests than this report: the records may have been
    /// cut off, while the summary is complete.
    pub fn check_coverage(&self) -> Result<(), ReportError> {
        self.coverage.check(&self.layout)
    }
}

/// How many requests a report covers.
#[derive(Debug, Clone, Copy)]
pub struct Coverage {
    /// Number of records of the profiling phase.
    requests: u64,
    /// Number of records of all phases.
    records: u64,
    /// Number of requests of all phases that the run's own summary covers, if that is known.
    of_run: Option<u64>,
}

impl Coverage {
    fn from_gathered(gathered: &Gathered, of_run: Option<u64>) -> Self {
        Self { requests: gathered.spans.len() as u64, records: gathered.records, of_run }
    }

    /// Returns whether the records are all that the run had, as far as that is known.
    pub fn is_whole(self) -> bool {
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
    place: Option<RequestPlace>,
    /// Why its output ended, if the server reported that.
    finish_reason: Option<String>,
    /// What was unusual about its response.
    response_notes: Option<String>,
    /// Absent if the line does not have them.
    client_errors: Option<ClientErrors>,
}

/// The place of a request in its session.
struct RequestPlace {
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

/// What is known from all lines.
struct Gathered {
    ledger: Ledger,
    records: u64,
    /// Start and end of each profiling request.
    spans: Column<Span>,
    /// Whether there is a dataset of whose requests an account is kept.
    has_account: bool,
    /// Numbers of its conversations by their identifiers.
    conversations: HashMap<String, usize>,
}

impl Gathered {
    fn new(registry: &Arc<Registry>, run: &RunDescription, store: &Store) -> Self {
        Self {
            ledger: Ledger::new(run, registry, store, usize::MAX),
            records: 0,
            spans: Column::new(store.clone()),
            has_account: run.dataset.is_some(),
            conversations: HashMap::new(),
        }
    }

    fn take(&mut self, line: &Line) {
        let Line { observation, .. } = line;
        self.records += 1;
        if observation.phase == PhaseKind::Profiling {
            self.spans
                .push(Span { start: observation.start_wall_ns, end: observation.end_wall_ns });
        }
        let session = line.place.as_ref().zip(line.turn.as_ref());
        let session = session.map(|(place, (conversation_id, turn))| SessionTurn {
            session: place.session,
            correlation_id: place.correlation_id,
            ancestry: place.ancestry,
            conversation_id,
            index: *turn,
            due_wall_ns: line.due_wall_ns,
            place: place.of_turn,
            observation,
        });
        let conversation = line.turn.as_ref().filter(|_| self.has_account);
        let conversation = conversation.map(|(id, _)| self.number(id));
        self.ledger.observe(&Entry {
            observation,
            phase_index: line.phase_index,
            model: &line.model,
            url: &line.url,
            request_id: line.request_id,
            worker: line.worker.as_ref(),
            tenant: line.tenant.as_ref(),
            conversation,
            turn: line.turn.as_ref().map(|(_, turn)| *turn),
            due_wall_ns: line.due_wall_ns,
            retries: line.retries,
            client_errors: line.client_errors,
            finish_reason: line.finish_reason.as_deref(),
            response_notes: line.response_notes.as_deref(),
            session,
            live: None,
        });
    }

    /// Returns the number of the conversation with this identifier.
    fn number(&mut self, id: &str) -> usize {
        if let Some(number) = self.conversations.get(id) {
            return *number;
        }
        let number = self.conversations.len();
        self.conversations.insert(id.to_owned(), number);
        number
    }

    /// Returns whether the requests can be those of a measurement with this `window`, since a
    /// directory may contain files of several runs.
    fn is_of(&self, window: RangeInclusive<u64>) -> bool {
        self.spans.is_empty() || self.spans.iter().any(|span| window.contains(&span.start))
    }

    /// Returns the outcome, as far as known, of a run that was killed before its end.
    fn outcome_of_a_killed_run(&self) -> RunOutcome {
        let starts = self.spans.iter().map(|span| span.start);
        let ends = self.spans.iter().map(|span| span.end);
        RunOutcome {
            start_wall_ns: starts.min().unwrap_or(0),
            end_wall_ns: ends.max().unwrap_or(0),
            ended_by: Some(EndedBy::Kill),
            incomplete_reason: Some(format!(
                "the run ended before it could write its summary; requests in flight are missing, \
                 and so is what the records alone do not show: {}",
                Ledger::beyond_lines()
            )),
            sent: self.ledger.sent(),
            load: LoadReport {
                reached_concurrency: most_at_once(&self.spans),
                ..LoadReport::default()
            },
            ..RunOutcome::default()
        }
    }
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
            most_at_once(&Column::from_values(Store::default(), spans))
        };
        assert_eq!(most(&[]), 0);
        assert_eq!(most(&[(0, 10), (10, 20)]), 1);
        assert_eq!(most(&[(0, 10), (5, 20), (6, 7), (15, 30)]), 3);
    }
}
