//! Rebuilds server metrics from the scrapes, or else from the samples.

use std::io;
use std::path::Path;
use std::sync::Arc;

use measure::server_metrics::limits::ClientLimits;
use measure::server_metrics::report::{self, ServerMetrics, ServerMetricsReport, Window, Windows};
use measure::server_metrics::span::LateCounts;
use measure::server_metrics::store::Store;

use super::line_file::{Faults, LineFile};
use crate::artifacts::layout::Layout;
use crate::artifacts::server_metrics::{
    LineError, Samples, Scrapes, ServerMetricsFiles, ServerMetricsOutcome, TableError, read_table,
};

/// Data about the run other than the files of server metrics.
pub(super) struct Known<'a> {
    pub(super) layout: &'a Layout,
    /// The outcome of scraping, unless the run was killed.
    pub(super) outcome: Option<&'a ServerMetricsOutcome>,
    /// Start of the first profiling request.
    pub(super) first_request_ns: Option<u64>,
    /// The client's longest times, if all of its requests are known.
    pub(super) limits: Option<ClientLimits>,
    /// Whether the console shows them, or a gate limits them.
    pub(super) is_needed: bool,
}

/// Recomputes the server metrics; `None` if no file contains the required data. Remarks for the
/// user are added to `notes`, and files that must not be written are removed from `files`. The
/// client's own results do not depend on any of this.
pub(super) fn rebuild(
    known: &Known<'_>,
    files: &mut ServerMetricsFiles,
    notes: &mut Vec<String>,
) -> Option<ServerMetrics> {
    let lines = &known.layout.server_metrics_lines;
    let from_lines = match LineFile::open(lines) {
        Ok(file) => from_lines(file, known, files, notes),
        Err(error) if error.kind() == io::ErrorKind::NotFound => {
            return from_table(known, files, notes);
        }
        Err(why) => Err(why),
    };
    from_lines.unwrap_or_else(|why| {
        notes.push(format!("cannot read {}: {why}; {LEFT_ALONE}", lines.display()));
        None
    })
}

/// The consequence for files that cannot be rebuilt.
const LEFT_ALONE: &str = "the server metrics files are left unchanged";

fn from_lines(
    mut file: LineFile,
    known: &Known<'_>,
    files: &ServerMetricsFiles,
    notes: &mut Vec<String>,
) -> io::Result<Option<ServerMetrics>> {
    let mut scrapes = Scrapes::new(&files.endpoints);
    let mut is_foreign = false;
    let (note, faults) = file.read_rest(|text| {
        if is_foreign {
            return Ok(());
        }
        match scrapes.take(text) {
            Err(LineError::Untyped(_)) if !scrapes.has_types() => is_foreign = true,
            taken => return taken.map_err(|error| error.to_string()),
        }
        Ok(())
    })?;
    let path = file.path.display();
    if is_foreign {
        notes.push(format!(
            "{path}: the lines do not contain the types of the metrics; {LEFT_ALONE}"
        ));
        return Ok(None);
    }
    notes.extend(note);
    if let Some(Faults { first: (line, reason), count }) = faults {
        let others = match count {
            1 => "it is ignored".to_owned(),
            2 => "it and another line are ignored".to_owned(),
            several => format!("it and {} other lines are ignored", several - 1),
        };
        notes.push(format!(
            "{path}, line {line}: not a valid scrape: {reason}; {others}, and server metrics \
             cover the rest"
        ));
        if scrapes.store.endpoints().iter().all(|endpoint| endpoint.scrapes().is_empty()) {
            return Ok(None);
        }
    }
    let Scrapes { mut store, marked, .. } = scrapes;
    let windows = match known.outcome {
        Some(outcome) => outcome.windows,
        None => implied(marked, known.first_request_ns),
    };
    for (number, endpoint) in known.outcome.iter().flat_map(|end| &end.endpoints).enumerate() {
        store.failed(number, endpoint.failed_fetches);
    }
    store.attribute_late(late_counts(known));
    Ok(Some(ServerMetrics {
        report: statistics(&store, windows, files, known),
        store: Arc::new(store),
        conservation: conservation(known),
    }))
}

/// Returns the phases according to the scrapes `marked` and the first request, which came before or
/// after the first scrape of its phase.
fn implied(marked: Windows, first_request_ns: Option<u64>) -> Windows {
    let start = |window: Window| {
        first_request_ns.map_or(window.start_ns, |first| window.start_ns.min(first))
    };
    let profiling = marked.profiling.map(|window| Window { start_ns: start(window), ..window });
    Windows { profiling, ..marked }
}

/// Rebuilds them from the table, which is incomplete, so that existing files remain unchanged.
fn from_table(
    known: &Known<'_>,
    files: &mut ServerMetricsFiles,
    notes: &mut Vec<String>,
) -> Option<ServerMetrics> {
    let layout = known.layout;
    files.formats.parquet = false;
    files.formats.json &= !layout.server_metrics_json.exists();
    files.formats.csv &= !layout.server_metrics_csv.exists();
    let is_written = files.formats.json || files.formats.csv;
    if !is_written && !known.is_needed {
        // The comparison of counts is in the summary of requests, too.
        let conservation = conservation(known);
        let has_any = !conservation.is_empty();
        return has_any.then(|| ServerMetrics { conservation, ..ServerMetrics::default() });
    }
    let path = &layout.server_metrics_table;
    let samples = match read_table(path) {
        Ok(Some(samples)) => samples,
        Ok(None) => return None,
        Err(TableError::Io(error)) if error.kind() == io::ErrorKind::NotFound => return None,
        Err(error) => {
            notes.push(format!("cannot read {}: {error}; {LEFT_ALONE}", path.display()));
            return None;
        }
    };
    notes.push(what_is_missing(path, &samples));
    let Samples { mut store, about } = samples;
    store.attribute_late(late_counts(known));
    let mut report = statistics(&store, about.windows, files, known);
    let known_info = about.endpoints.into_iter().filter_map(|end| Some((end.url, end.info?)));
    report.summary.endpoint_info = known_info.collect();
    let successful = report.summary.endpoint_info.iter().map(|(url, _)| url.clone());
    report.summary.endpoints_successful = successful.collect();
    Some(ServerMetrics { report, store: Arc::new(store), conservation: conservation(known) })
}

fn what_is_missing(path: &Path, samples: &Samples) -> String {
    let resets = match samples.about.series_with_resets {
        0 => String::new(),
        1 => ", nor the counts of a series after it was reset".to_owned(),
        several => format!(", nor the counts of {several} series after they were reset"),
    };
    format!(
        "server statistics are computed from {}, which does not contain the warmup or \
         summaries{resets}; use --server-metrics-formats jsonl to keep everything",
        path.display()
    )
}

/// Computes the statistics, within the limits of what the client knows.
fn statistics(
    store: &Store,
    windows: Windows,
    files: &ServerMetricsFiles,
    known: &Known<'_>,
) -> ServerMetricsReport {
    let mut report = report::build(store, windows, files.slice_duration);
    if let Some(limits) = &known.limits {
        limits.apply(&mut report);
    }
    report
}

fn late_counts(known: &Known<'_>) -> Vec<LateCounts> {
    known.outcome.map(|outcome| outcome.late_counts().collect()).unwrap_or_default()
}

fn conservation(known: &Known<'_>) -> Vec<measure::server_metrics::conservation::Comparison> {
    known.outcome.map(|outcome| outcome.conservation.clone()).unwrap_or_default()
}
