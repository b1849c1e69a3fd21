//! The requests of a run, read from `profile_export.parquet` by column.
//!
//! A request takes about 100 bytes, of which a limited amount is in memory; texts and lists are only
//! read for the requests that the page shows one by one.

use std::collections::BTreeMap;
use std::path::Path;

use parquet::errors::ParquetError;
use serde::Serialize;

use base::column::{Column, Sorted, Store, fixed_struct};
use base::statistics::percentile;
use base::units::Nanos;
use measure::metrics::tag::{self, MetricTag};

use crate::artifacts::Table;

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
const MAX_CLASSES: u32 = 8;
/// Maximum number of characters of an error's message.
const MAX_MESSAGE: usize = 300;

fixed_struct! {
    /// A request of the profiling phase. Times are in milliseconds, and starts relative to the phase.
    #[derive(Debug, Clone, Copy, Default, PartialEq)]
    pub(super) struct Request {
        /// Its row in the table.
        pub(super) row: u64,
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
        pub(super) class: Option<u32>,
    }
}

impl Request {
    pub(super) fn end(&self) -> f64 {
        self.start + self.duration
    }

    pub(super) const fn succeeded(&self) -> bool {
        self.class.is_none()
    }
}

/// The requests of the profiling phase.
#[derive(Debug, Default)]
pub(super) struct Requests {
    by_start: Column<Request>,
    failed: usize,
    /// The classes of failures.
    pub(super) classes: Vec<String>,
}

impl Requests {
    /// Creates the requests of a test, in the order of their starts.
    #[cfg(test)]
    pub(super) fn from_requests(requests: impl IntoIterator<Item = Request>) -> Self {
        let by_start = Column::from_values(Store::default(), requests);
        let failed = by_start.iter().filter(|request| !request.succeeded()).count();
        Self { by_start, failed, classes: Vec::new() }
    }

    /// Reads the table at `path`; the phase started at `start_ns`.
    pub(super) fn read(path: &Path, start_ns: u64) -> Result<Self, ParquetError> {
        let directory = path.parent().map(Path::to_owned).unwrap_or_default();
        let store = Store::of_run(directory);
        let mut found = Column::new(store.scratch());
        let mut classes = Classes::default();
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
            let numbers_of = |tag: MetricTag| group.numbers(tag.name());
            let (ttft, itl) =
                (numbers_of(tag::TIME_TO_FIRST_TOKEN)?, numbers_of(tag::INTER_TOKEN_LATENCY)?);
            let latency = numbers_of(tag::REQUEST_LATENCY)?;
            let (isl, osl) =
                (numbers_of(tag::INPUT_SEQUENCE_LENGTH)?, numbers_of(tag::OUTPUT_SEQUENCE_LENGTH)?);
            for row in 0..group.rows() {
                let (Some(started), Some(ended)) = (start[row], end[row]) else { continue };
                if phase[row].as_deref() != Some("profiling") {
                    continue;
                }
                let failed = error[row].is_some() || code[row].is_some();
                found.push(Request {
                    row: before + row as u64,
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
                    class: failed.then(|| classes.count(class(error[row].as_deref(), code[row]))),
                });
            }
            before += group.rows() as u64;
        }
        let failed = classes.total();
        let (classes, places) = classes.by_count();
        let by_start =
            Sorted::new(found.iter(), |request| percentile::key(request.start), &store.scratch());
        drop(found);
        let by_start = Column::from_values(
            store,
            by_start.iter().map(|request| Request {
                class: request.class.map(|class| places[class as usize]),
                ..request
            }),
        );
        Ok(Self { by_start, failed, classes })
    }

    /// Iterates over all requests in order of start.
    pub(super) fn iter(&self) -> impl Iterator<Item = Request> + '_ {
        self.by_start.iter()
    }

    pub(super) fn len(&self) -> usize {
        self.by_start.len()
    }

    pub(super) fn is_empty(&self) -> bool {
        self.by_start.is_empty()
    }

    /// Returns the number of failed requests.
    pub(super) const fn failed(&self) -> usize {
        self.failed
    }
}

/// The classes of failures with their numbers, by the order in which they were found.
#[derive(Debug, Default)]
struct Classes {
    indices: BTreeMap<String, u32>,
    counts: Vec<usize>,
}

impl Classes {
    /// Counts a failure of the class `name`; returns the index of the class.
    fn count(&mut self, name: String) -> u32 {
        let index = *self.indices.entry(name).or_insert(self.counts.len() as u32);
        if self.counts.len() == index as usize {
            self.counts.push(0);
        }
        self.counts[index as usize] += 1;
        index
    }

    fn total(&self) -> usize {
        self.counts.iter().sum()
    }

    /// Returns the names, most frequent first, of which the last stands for all that do not have room,
    /// and the place of each index among them.
    fn by_count(self) -> (Vec<String>, Vec<u32>) {
        let mut by_count: Vec<(String, u32)> = self.indices.into_iter().collect();
        by_count.sort_by_key(|(_, index)| std::cmp::Reverse(self.counts[*index as usize]));
        let mut places = vec![0; by_count.len()];
        for (place, (_, index)) in (0..).zip(&by_count) {
            places[*index as usize] = MAX_CLASSES.min(place);
        }
        let mut names: Vec<String> = by_count.into_iter().map(|(name, _)| name).collect();
        if names.len() > MAX_CLASSES as usize {
            names.truncate(MAX_CLASSES as usize);
            names.push("other failures".to_owned());
        }
        (names, places)
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
pub(super) fn millis(nanos: i128) -> f64 {
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
    rows: &[u64],
    first: impl Fn(u64) -> bool,
) -> Result<(Vec<Details>, bool), ParquetError> {
    let mut found = Vec::with_capacity(rows.len());
    let mut left: [usize; 2] = [MAX_TICKS / 2; 2];
    let mut has_all = true;
    let mut before = 0;
    let mut rows = rows.iter().peekable();
    for group in Table::open(path)?.groups() {
        let group = group?;
        let after = before + group.rows() as u64;
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
            let at = (row - before) as usize;
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
