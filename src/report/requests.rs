//! The requests of a run, read from `profile_export.parquet` by column.
//!
//! A request takes about 100 bytes; texts and lists are only read for the requests that the page
//! shows one by one.

use std::collections::BTreeMap;
use std::path::Path;

use parquet::errors::ParquetError;
use serde::Serialize;

use crate::artifacts::Table;
use crate::metrics::tag::{self, MetricTag};
use crate::units::Nanos;

/// The parts of a request's time that do not overlap, in order, with the metric of each.
pub(super) const PHASES: [(&str, MetricTag); 6] = [
    ("blocked", tag::HTTP_REQ_BLOCKED),
    ("DNS", tag::HTTP_REQ_DNS_LOOKUP),
    ("connect and TLS", tag::HTTP_REQ_CONNECTING),
    ("send", tag::HTTP_REQ_SENDING),
    ("wait", tag::HTTP_REQ_WAITING),
    ("receive", tag::HTTP_REQ_RECEIVING),
];

/// Maximum number of token times on a page.
const MAX_TICKS: usize = 100_000;
/// Maximum number of classes of failures; others are in one class.
const MAX_CLASSES: usize = 8;
/// Maximum number of characters of an error's message.
const MAX_MESSAGE: usize = 300;

/// A request of the profiling phase. Times are in milliseconds, and starts relative to the phase.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Request {
    /// Its row in the table.
    pub(super) row: usize,
    pub(super) start: f64,
    /// From start to end.
    pub(super) duration: f64,
    /// `request_latency`; absent if it failed.
    pub(super) latency: Option<f64>,
    pub(super) ttft: Option<f64>,
    pub(super) itl: Option<f64>,
    /// Input tokens.
    pub(super) isl: Option<f64>,
    /// Output tokens.
    pub(super) osl: Option<f64>,
    /// From due to started.
    pub(super) slip: Option<f64>,
    pub(super) read_lag: Option<f64>,
    /// Index of its class in [`Requests::classes`]; `None` if it succeeded.
    pub(super) class: Option<usize>,
}

impl Request {
    pub(super) fn end(&self) -> f64 {
        self.start + self.duration
    }

    pub(super) const fn succeeded(&self) -> bool {
        self.class.is_none()
    }
}

/// The requests of the profiling phase, by start.
#[derive(Debug, Default)]
pub(super) struct Requests {
    pub(super) all: Vec<Request>,
    /// The classes of failures.
    pub(super) classes: Vec<String>,
}

impl Requests {
    /// Reads the table at `path`; the phase started at `start_ns`.
    pub(super) fn read(path: &Path, start_ns: u64) -> Result<Self, ParquetError> {
        let mut requests = Self::default();
        let mut classes = BTreeMap::new();
        let mut before = 0;
        for group in Table::open(path)?.groups() {
            let group = group?;
            let phase = group.texts("benchmark_phase")?;
            let error = group.texts("error_type")?;
            let code = group.integers("error_code")?;
            let start = group.integers("request_start_ns")?;
            let end = group.integers("request_end_ns")?;
            let due = group.integers("request_due_ns")?;
            let lag = group.integers("max_read_lag_ns")?;
            let of = |tag: MetricTag| group.numbers(tag.name());
            let (ttft, itl) = (of(tag::TIME_TO_FIRST_TOKEN)?, of(tag::INTER_TOKEN_LATENCY)?);
            let latency = of(tag::REQUEST_LATENCY)?;
            let (isl, osl) = (of(tag::INPUT_SEQUENCE_LENGTH)?, of(tag::OUTPUT_SEQUENCE_LENGTH)?);
            for row in 0..group.rows() {
                let (Some(started), Some(ended)) = (start[row], end[row]) else { continue };
                if phase[row].as_deref() != Some("profiling") {
                    continue;
                }
                let failed = error[row].is_some() || code[row].is_some();
                let class = failed.then(|| {
                    let name = class(error[row].as_deref(), code[row]);
                    let next = classes.len();
                    *classes.entry(name).or_insert(next)
                });
                requests.all.push(Request {
                    row: before + row,
                    start: millis(i128::from(started) - i128::from(start_ns)),
                    duration: millis(i128::from(ended) - i128::from(started)),
                    latency: latency[row],
                    ttft: ttft[row],
                    itl: itl[row],
                    isl: isl[row],
                    osl: osl[row],
                    slip: due[row]
                        .map(|due| millis(i128::from(started) - i128::from(due)).max(0.0)),
                    read_lag: lag[row].map(|lag| millis(lag.into())),
                    class,
                });
            }
            before += group.rows();
        }
        requests.all.sort_by(|a, b| a.start.total_cmp(&b.start));
        requests.classify(classes);
        Ok(requests)
    }

    /// Names the classes, most frequent first. `found` has the index of each.
    fn classify(&mut self, found: BTreeMap<String, usize>) {
        let mut counts = vec![0_u64; found.len()];
        self.all.iter().filter_map(|request| request.class).for_each(|class| counts[class] += 1);
        let mut by_count: Vec<(String, usize)> = found.into_iter().collect();
        by_count.sort_by_key(|(_, index)| std::cmp::Reverse(counts[*index]));
        let mut places = vec![0; by_count.len()];
        for (place, (name, index)) in by_count.into_iter().enumerate() {
            places[index] = place.min(MAX_CLASSES);
            if place < MAX_CLASSES {
                self.classes.push(name);
            } else if place == MAX_CLASSES {
                self.classes.push("other failures".to_owned());
            }
        }
        for request in &mut self.all {
            request.class = request.class.map(|index| places[index]);
        }
    }
}

/// Returns the class of a failure: its type, with the status if there is one.
fn class(error: Option<&str>, code: Option<i64>) -> String {
    match (error.filter(|name| !name.is_empty()), code) {
        (Some(name), Some(code)) => format!("{code} {name}"),
        (Some(name), None) => name.to_owned(),
        (None, Some(code)) => code.to_string(),
        (None, None) => "error".to_owned(),
    }
}

/// Rounds milliseconds to microseconds.
fn to_micros(ms: f64) -> f64 {
    (ms * 1e3).round() / 1e3
}

/// Converts nanoseconds to milliseconds as the files do.
fn millis(nanos: i128) -> f64 {
    let whole = |nanos: i128| Nanos(u64::try_from(nanos).unwrap_or(0)).as_millis();
    if nanos < 0 { -whole(-nanos) } else { whole(nanos) }
}

/// What the page shows of a single request, in addition to [`Request`].
#[derive(Debug, Default, Serialize)]
pub(super) struct Details {
    /// `x_request_id`.
    pub(super) id: String,
    pub(super) session: Option<i64>,
    pub(super) turn: Option<i64>,
    /// The error's message.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) error: Option<String>,
    /// The durations of [`PHASES`] in milliseconds.
    pub(super) phases: Vec<Option<f64>>,
    /// The arrivals of content in milliseconds since the start, as far as there is room.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub(super) arrivals: Vec<f64>,
}

/// Reads the details of these rows of the table at `path`, which ascend. The `first` rows are the
/// first to have token times; returns whether there was room for those of all.
pub(super) fn details(
    path: &Path,
    rows: &[usize],
    first: impl Fn(usize) -> bool,
) -> Result<(Vec<Details>, bool), ParquetError> {
    let mut found = Vec::with_capacity(rows.len());
    let mut left: [usize; 2] = [MAX_TICKS / 2; 2];
    let mut has_all = true;
    let mut before = 0;
    let mut rows = rows.iter().peekable();
    for group in Table::open(path)?.groups() {
        let group = group?;
        let after = before + group.rows();
        if rows.peek().is_none_or(|row| **row >= after) {
            before = after;
            continue;
        }
        let id = group.texts("x_request_id")?;
        let session = group.integers("session_num")?;
        let turn = group.integers("turn_index")?;
        let error = group.texts("error_message")?;
        let phases = PHASES.map(|(_, tag)| group.numbers(tag.name()));
        let arrivals = group.lists("content_arrival_ms")?;
        while let Some(row) = rows.next_if(|row| **row < after) {
            let at = row - before;
            let list = &arrivals[at];
            let room = &mut left[usize::from(first(*row))];
            let fits = list.len() <= *room;
            *room -= if fits { list.len() } else { 0 };
            has_all &= fits;
            let of_phase = |phase: &Result<Vec<Option<f64>>, ParquetError>| {
                phase.as_ref().ok().and_then(|values| values[at])
            };
            found.push(Details {
                id: id[at].clone().unwrap_or_default(),
                session: session[at],
                turn: turn[at],
                error: error[at].as_ref().map(|text| text.chars().take(MAX_MESSAGE).collect()),
                phases: phases.iter().map(of_phase).collect(),
                arrivals: if fits {
                    list.iter().copied().map(to_micros).collect()
                } else {
                    Vec::new()
                },
            });
        }
        before = after;
    }
    Ok((found, has_all))
}
