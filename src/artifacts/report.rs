//! Rebuilds a run's report from its files.
//!
//! Statistics are computed anew from the records' lines; what records do not say
//! comes from `run_manifest.json`, else from an earlier summary, else from what
//! the records imply.

mod combine;
mod group;
mod line_file;
mod lines;
mod origin;
mod server_metrics;
mod table;

use std::io;
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use super::layout::Layout;
use super::manifest::Outcome;
use super::server_metrics::ServerMetricsFiles;
use super::{ArtifactError, ErrorCount, RunDescription, RunReport, WriteFailure};
use crate::metrics::metric::Observation;
use crate::metrics::{Accumulator, ClientHealth, LoadReport, MetricsError, Registry, Slices};
use crate::schedule::{PhaseKind, Shard};

pub use combine::combine;
pub use group::Group;
use lines::RecordReader;
use origin::Origin;
use server_metrics::Known;
use table::{RowOrigin, Rows};

/// Why a report could not be rebuilt.
#[derive(Debug, thiserror::Error)]
pub enum ReportError {
    /// There are no records.
    #[error(
        "cannot read the records {path}: {why}; name a directory that `aiperf profile` wrote \
         with --export-level records or raw"
    )]
    NoRecords {
        /// The file looked for.
        path: PathBuf,
        /// Why it was not read.
        why: io::Error,
    },
    /// No line is a record.
    #[error("{path} has no complete record: nothing can be reported from it")]
    Empty {
        /// The file.
        path: PathBuf,
    },
    /// A line other than the last is no record.
    #[error("{path}, line {line}, is not a record: {reason}; remove the line and try again")]
    Malformed {
        /// The file.
        path: PathBuf,
        /// The line, from 1.
        line: usize,
        /// What is wrong with it.
        reason: String,
    },
    /// The scrapes of the server are there and cannot be read.
    #[error("cannot read the server's metrics {path}: {why}; remove the file to report without it")]
    NoScrapes {
        /// The file.
        path: PathBuf,
        /// Why it was not read.
        why: io::Error,
    },
    /// A line other than the last is no scrape.
    #[error(
        "{path}, line {line}, is not a scrape: {reason}; remove the file to report without the \
         server's metrics"
    )]
    MalformedScrape {
        /// The file.
        path: PathBuf,
        /// The line, from 1.
        line: usize,
        /// What is wrong with it.
        reason: String,
    },
    /// The run's description cannot be used.
    #[error("{path} cannot be used: {reason}; remove it to go by the records alone")]
    Unusable {
        /// The file.
        path: PathBuf,
        /// What is wrong with it.
        reason: String,
    },
    /// There is no such directory.
    #[error("cannot read the directory {path}: {why}; name the directories of a run's parts")]
    NoDirectory {
        /// The directory.
        path: PathBuf,
        /// Why it was not read.
        why: io::Error,
    },
    /// A directory is not that of a part of a run.
    #[error(
        "{directory} is not a part of a run: its run_manifest.json does not name one; name \
         directories that `aiperf profile --shard` wrote"
    )]
    NotAPart {
        /// The directory.
        directory: PathBuf,
    },
    /// Two directories are of different runs.
    #[error(
        "{first} and {other} are not parts of one run: they differ in {differences}; name the \
         directories of one run"
    )]
    NotOneRun {
        /// A directory.
        first: PathBuf,
        /// One that does not belong with it.
        other: PathBuf,
        /// In what.
        differences: String,
    },
    /// A part was named twice.
    #[error("{first} and {other} are both shard {shard}: name each part once")]
    Twice {
        /// The part.
        shard: Shard,
        /// A directory of it.
        first: PathBuf,
        /// Another.
        other: PathBuf,
    },
    /// Nothing says where the files are to go.
    #[error("the parts are in different places: say with --artifact-dir where the whole goes")]
    NoPlace,
    /// The files would replace those of a part.
    #[error("{directory} is one of the parts: name another directory with --artifact-dir")]
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
    /// The metrics do not fit the run.
    #[error(transparent)]
    Metrics(#[from] MetricsError),
}

/// A report that was rebuilt.
#[derive(Debug)]
pub struct Rebuilt {
    /// The report.
    pub report: RunReport,
    /// Where its files are.
    pub layout: Layout,
    /// Which files there are of the server's metrics, if the report has any.
    pub server_metrics: ServerMetricsFiles,
    /// What the user should know of the files it came from.
    pub notes: Vec<String>,
    /// What was measured.
    pub profiling: Accumulator,
    /// Files that are written already.
    pub written: Vec<PathBuf>,
    /// What the table of requests is made of.
    rows: Rows,
}

/// Rebuilds the report of the run in `directory`.
pub fn rebuild(directory: &Path) -> Result<Rebuilt, ReportError> {
    let origin = Origin::find(directory)?;
    let layout = Layout::new(directory, origin.prefix());
    let records = RecordReader::open(&layout.records)?;
    let files = origin.server_metrics_files();
    let (run, end) = origin.describe(&layout)?;
    let registry = Arc::new(Registry::new(run.settings.clone(), run.endpoint, run.streaming)?);
    let mut gathered = Gathered::new(&registry, &run);
    let mut notes = records.read(&registry, |record, _| gathered.take(record))?;
    if gathered.records == 0 {
        return Err(ReportError::Empty { path: layout.records });
    }
    let end = end.unwrap_or_else(|| gathered.end_of_a_killed_run());
    let mut files = files.unwrap_or_else(|| ServerMetricsFiles::of_input_config(&run.input_config));
    let known = Known {
        layout: &layout,
        outcome: end.server_metrics.as_ref(),
        first_request_ns: gathered.spans.iter().map(|(start, _)| *start).min(),
        is_shown: run.show_server_metrics,
    };
    let server_metrics = server_metrics::rebuild(&known, &mut files, &mut notes)?;
    let slices = gathered.slices(&run, end.start_wall_ns..end.end_wall_ns, &mut notes);
    let report = RunReport {
        run,
        start_wall_ns: end.start_wall_ns,
        end_wall_ns: end.end_wall_ns,
        was_cancelled: end.was_cancelled,
        incomplete_reason: end.incomplete_reason,
        results: gathered.profiling.results(),
        slices,
        warmup_results: gathered.warmup.results_if_any(),
        errors: error_counts(&gathered.profiling),
        phases: Vec::new(),
        telemetry: end.telemetry,
        load: end.load,
        client_health: ClientHealth::recomputed(
            end.client_health,
            gathered.slips,
            gathered.retries,
        ),
        server_metrics,
        shards: end.shards,
    };
    let rows =
        Rows { registry, origins: vec![RowOrigin::new(String::new(), &layout, gathered.records)] };
    let profiling = gathered.profiling;
    let written = Vec::new();
    Ok(Rebuilt { report, layout, server_metrics: files, notes, profiling, written, rows })
}

/// Writes the summaries of a rebuilt report and its table of requests; gives the files
/// written. What is to be said of the table is added to the notes.
pub fn write(rebuilt: &mut Rebuilt, console_text: &str) -> Result<Vec<PathBuf>, ReportError> {
    let Rebuilt { report, layout, server_metrics, notes, written, rows, .. } = rebuilt;
    let summaries = super::write_summaries(layout, server_metrics, report, console_text);
    let mut files = summaries.into_iter().collect::<Result<Vec<_>, _>>()?;
    files.extend(rows.write(&layout.table, report, notes)?);
    files.append(written);
    Ok(files)
}

/// The failures that `accumulator` has seen.
#[must_use]
pub fn error_counts(accumulator: &Accumulator) -> Vec<ErrorCount> {
    accumulator
        .errors()
        .into_iter()
        .map(|(error_details, count)| ErrorCount { error_details, count })
        .collect()
}

/// A record as its line has it.
struct Line {
    observation: Observation,
    /// How late it left, where it was due at a time.
    slip_ns: Option<u64>,
    retries: u64,
}

/// What all lines say together.
struct Gathered {
    profiling: Accumulator,
    warmup: Accumulator,
    records: u64,
    /// Start and end of each profiling request.
    spans: Vec<(u64, u64)>,
    /// How late each profiling request left that was due at a time.
    slips: Vec<u64>,
    retries: u64,
}

impl Gathered {
    fn new(registry: &Arc<Registry>, run: &RunDescription) -> Self {
        let is_sliced = run.slice_duration().is_some();
        let profiling = if is_sliced { Accumulator::sliced } else { Accumulator::new };
        Self {
            profiling: profiling(Arc::clone(registry)),
            warmup: Accumulator::new(Arc::clone(registry)),
            records: 0,
            spans: Vec::new(),
            slips: Vec::new(),
            retries: 0,
        }
    }

    fn take(&mut self, line: &Line) {
        self.records += 1;
        match line.observation.phase {
            PhaseKind::Warmup => self.warmup.observe(&line.observation),
            PhaseKind::Profiling => {
                self.profiling.observe(&line.observation);
                let Observation { start_wall_ns, end_wall_ns, .. } = line.observation;
                self.spans.push((start_wall_ns, end_wall_ns));
                self.slips.extend(line.slip_ns);
                self.retries = self.retries.saturating_add(line.retries);
            }
        }
    }

    /// The measurement, which `window` is, in the slices that `run` asks for.
    fn slices(
        &self,
        run: &RunDescription,
        window: Range<u64>,
        notes: &mut Vec<String>,
    ) -> Option<Slices> {
        let slices = self.profiling.slices(&window, run.slice_duration()?);
        slices.map_err(|error| notes.push(error.to_string())).ok()?
    }

    /// What is known of the end of a run that did not live to say it.
    fn end_of_a_killed_run(&self) -> Outcome {
        let starts = self.spans.iter().map(|(start, _)| *start);
        let ends = self.spans.iter().map(|(_, end)| *end);
        Outcome {
            start_wall_ns: starts.min().unwrap_or(0),
            end_wall_ns: ends.max().unwrap_or(0),
            was_cancelled: false,
            incomplete_reason: Some(
                "the run ended before it could write its summary; requests in flight are missing"
                    .to_owned(),
            ),
            load: LoadReport {
                reached_concurrency: most_at_once(&self.spans),
                ..LoadReport::default()
            },
            client_health: None,
            telemetry: None,
            server_metrics: None,
            shards: None,
        }
    }
}

/// The most spans that overlap at any one time.
fn most_at_once(spans: &[(u64, u64)]) -> u64 {
    let mut changes: Vec<(u64, i64)> =
        spans.iter().flat_map(|(start, end)| [(*start, 1), (*end, -1)]).collect();
    // At one instant, ends come before starts.
    changes.sort_unstable();
    let mut running = 0;
    let mut most = 0;
    for (_, change) in changes {
        running += change;
        most = most.max(running);
    }
    most.try_into().unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn overlapping_requests_are_counted() {
        assert_eq!(most_at_once(&[]), 0);
        assert_eq!(most_at_once(&[(0, 10), (10, 20)]), 1);
        assert_eq!(most_at_once(&[(0, 10), (5, 20), (6, 7), (15, 30)]), 3);
    }
}
