//! The server's side of a run, from its scrapes, else from its samples.

use std::io;
use std::path::Path;
use std::sync::Arc;

use super::ReportError;
use super::line_file::{LineFailure, LineFile};
use crate::artifacts::layout::Layout;
use crate::artifacts::server_metrics::{
    LineError, Samples, Scrapes, ServerMetricsFiles, ServerMetricsOutcome, TableError, read_table,
};
use crate::server_metrics::report::{self, ServerMetrics, Window, Windows};

/// What is known of the run beside the server's files.
pub(super) struct Known<'a> {
    pub(super) layout: &'a Layout,
    /// How the scrapes went, unless the run was killed.
    pub(super) outcome: Option<&'a ServerMetricsOutcome>,
    /// Start of the first profiling request.
    pub(super) first_request_ns: Option<u64>,
    /// The console shows them.
    pub(super) is_shown: bool,
}

/// Computes the server's statistics anew; `None` where no file has what they need.
/// What the user should know is added to `notes`, and `files` loses those that are
/// not to be written.
pub(super) fn rebuild(
    known: &Known<'_>,
    files: &mut ServerMetricsFiles,
    notes: &mut Vec<String>,
) -> Result<Option<ServerMetrics>, ReportError> {
    let lines = &known.layout.server_metrics_lines;
    match LineFile::open(lines) {
        Ok(file) => from_lines(file, known, files, notes),
        Err(error) if error.kind() == io::ErrorKind::NotFound => {
            Ok(from_table(known, files, notes))
        }
        Err(why) => Err(ReportError::NoScrapes { path: lines.clone(), why }),
    }
}

fn from_lines(
    mut file: LineFile,
    known: &Known<'_>,
    files: &ServerMetricsFiles,
    notes: &mut Vec<String>,
) -> Result<Option<ServerMetrics>, ReportError> {
    let mut scrapes = Scrapes::new(&files.endpoints);
    let mut is_foreign = false;
    let note = file.read(|text| {
        if is_foreign {
            return Ok(());
        }
        match scrapes.take(text) {
            Err(LineError::Untyped(_)) if !scrapes.has_types() => is_foreign = true,
            taken => return taken.map_err(|error| error.to_string()),
        }
        Ok(())
    });
    let path = file.path;
    let note = note.map_err(|failure| match failure {
        LineFailure::Unreadable(why) => ReportError::NoScrapes { path: path.clone(), why },
        LineFailure::Malformed { line, reason } => {
            ReportError::MalformedScrape { path: path.clone(), line, reason }
        }
    })?;
    if is_foreign {
        notes.push(format!(
            "{}: its lines do not say what types the metrics have; the server's metrics are \
             left as they are",
            path.display()
        ));
        return Ok(None);
    }
    notes.extend(note);
    let Scrapes { mut store, marked, .. } = scrapes;
    let windows = match known.outcome {
        Some(outcome) => outcome.windows,
        None => implied(marked, known.first_request_ns),
    };
    for (number, endpoint) in known.outcome.iter().flat_map(|end| &end.endpoints).enumerate() {
        store.failed(number, endpoint.failed_fetches);
    }
    Ok(Some(ServerMetrics {
        report: report::build(&store, windows, files.slice_duration),
        store: Arc::new(store),
        conservation: conservation(known),
    }))
}

/// The phases by the scrapes `marked` and the first request, which came before or
/// after the first scrape of its phase.
fn implied(marked: Windows, first_request_ns: Option<u64>) -> Windows {
    let start = |window: Window| {
        first_request_ns.map_or(window.start_ns, |first| window.start_ns.min(first))
    };
    let profiling = marked.profiling.map(|window| Window { start_ns: start(window), ..window });
    Windows { profiling, ..marked }
}

/// By the table, which has not all: files that are there are left alone.
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
    if !is_written && !known.is_shown {
        // The comparison of counts is in the summary of requests too.
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
            notes.push(format!(
                "{} cannot be read: {error}; the server's metrics are left as they are",
                path.display()
            ));
            return None;
        }
    };
    notes.push(what_is_missing(path, &samples));
    let Samples { store, about } = samples;
    let mut report = report::build(&store, about.windows, files.slice_duration);
    let known_info = about.endpoints.into_iter().filter_map(|end| Some((end.url, end.info?)));
    report.summary.endpoint_info = known_info.collect();
    let successful = report.summary.endpoint_info.iter().map(|(url, _)| Arc::clone(url));
    report.summary.endpoints_successful = successful.collect();
    Some(ServerMetrics { report, store: Arc::new(store), conservation: conservation(known) })
}

fn what_is_missing(path: &Path, samples: &Samples) -> String {
    let resets = match samples.about.series_with_resets {
        0 => String::new(),
        1 => ", nor what a series counted after it began anew".to_owned(),
        several => format!(", nor what {several} series counted after they began anew"),
    };
    format!(
        "the server's statistics are computed from {}, which has no warmup and no summaries{resets}; \
         with --server-metrics-formats jsonl a run keeps all",
        path.display()
    )
}

fn conservation(known: &Known<'_>) -> Vec<crate::server_metrics::conservation::Comparison> {
    known.outcome.map(|outcome| outcome.conservation.clone()).unwrap_or_default()
}
