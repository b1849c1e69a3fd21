//! `server_metrics_export.jsonl`: one line per scrape, written during the run.
//!
//! A scrape contains a thousand samples and occurs three times per second for each endpoint, so
//! lines are written to one reused buffer, without a tree of values. The first line with a family
//! contains its declaration, so the lines alone suffice to recompute the statistics.

use std::borrow::Cow;
use std::collections::HashMap;
use std::io::{self, Write};
use std::path::{Path, PathBuf};

use serde::Serialize;

use client::schedule::config::PhaseLabels;
use client::server_family::SeriesKind;
use measure::server_metrics::snapshot::{Family, Point, Snapshot, Value};
use measure::server_metrics::{PhaseMark, Scrape};

use crate::artifacts::error::{ArtifactError, WriteFailure};
use crate::artifacts::record_file::FLUSH_INTERVAL;
use crate::artifacts::sink::LineSink;

/// The open file of scrapes.
#[derive(Debug)]
pub struct ScrapeLines {
    sink: LineSink,
    lines: LineWriter,
    batch_size: usize,
    unflushed: usize,
    /// Time of the last scrape that was flushed.
    flushed_ns: u64,
}

impl ScrapeLines {
    /// Creates the file `path`. Lines are passed to the operating system every `batch_size` lines,
    /// with a line that comes a second after the last flush, and by [`ScrapeLines::flush`].
    pub fn create(path: &Path, batch_size: usize) -> Result<Self, ArtifactError> {
        Ok(Self {
            sink: LineSink::create(path)?,
            lines: LineWriter::default(),
            batch_size,
            unflushed: 0,
            flushed_ns: 0,
        })
    }

    /// Names the phases of scrapes; without names, they are those of the kinds.
    pub(crate) fn naming(mut self, phases: PhaseLabels) -> Self {
        self.lines.phases = phases;
        self
    }

    /// Appends a scrape. The first failure is kept and returned by [`ScrapeLines::finish`]; nothing
    /// is written after it.
    pub fn append(&mut self, scrape: &Scrape<'_>) {
        self.sink.append(self.lines.line(scrape));
        self.unflushed += 1;
        let now = scrape.times.last_byte_ns;
        // Wall time may be set back.
        let is_due = now.abs_diff(self.flushed_ns) >= FLUSH_INTERVAL.0;
        if is_due || self.unflushed >= self.batch_size {
            self.flush();
            self.flushed_ns = now;
        }
    }

    /// Passes appended lines to the operating system.
    pub fn flush(&mut self) {
        if self.unflushed > 0 {
            self.sink.flush();
            self.unflushed = 0;
        }
    }

    /// Returns whether nothing was appended.
    #[must_use]
    pub const fn is_empty(&self) -> bool {
        self.lines.number == 0
    }

    /// Flushes and closes the file; returns its path.
    pub fn finish(self) -> Result<PathBuf, WriteFailure> {
        self.sink.finish()
    }
}

/// Converts scrapes to lines.
#[derive(Debug, Default)]
pub(super) struct LineWriter {
    line: Vec<u8>,
    number: u64,
    phases: PhaseLabels,
    /// What earlier lines contain about the families of each endpoint.
    told: Vec<HashMap<Box<str>, Told>>,
}

/// What earlier lines contain about a family.
#[derive(Debug, Clone, Copy)]
struct Told {
    kind: SeriesKind,
    has_description: bool,
    has_unit: bool,
    /// The last line that contains it.
    line: u64,
}

impl Told {
    fn new(family: &Family<'_>, line: u64) -> Self {
        let has_description = family.description.is_some();
        Self { kind: family.kind, has_description, has_unit: family.unit.is_some(), line }
    }

    /// Returns whether `now` contains anything that is in none of the earlier lines.
    fn has_news(self, now: Self) -> bool {
        self.kind != now.kind
            || (now.has_description && !self.has_description)
            || (now.has_unit && !self.has_unit)
    }

    /// Combines it with what the line with `now` contains.
    fn and(self, now: Self) -> Self {
        let keeps = self.kind == now.kind;
        Self {
            has_description: now.has_description || (keeps && self.has_description),
            has_unit: now.has_unit || (keeps && self.has_unit),
            ..now
        }
    }
}

/// A family, with its key in the line.
type Keyed<'s> = (Cow<'s, str>, &'s Family<'s>);

/// The parts of a line other than `metrics`.
struct Rest<'s> {
    /// New families.
    news: Vec<Keyed<'s>>,
    /// Summaries, separate since readers of `metrics`, such as AIPerf, may not support them.
    summaries: Vec<Keyed<'s>>,
}

/// The declaration of a family, which is written once.
#[derive(Serialize)]
struct About<'a> {
    #[serde(rename = "type")]
    kind: SeriesKind,
    /// The name, if it is not the key.
    #[serde(skip_serializing_if = "Option::is_none")]
    name: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    description: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    unit: Option<&'a str>,
}

/// Returns a scrape as a line that contains the declarations of all its families.
pub(crate) fn whole_line(scrape: &Scrape<'_>) -> io::Result<Vec<u8>> {
    LineWriter::default().line(scrape).map(<[u8]>::to_vec)
}

impl LineWriter {
    /// Returns the line of a scrape, including its line feed.
    pub(super) fn line(&mut self, scrape: &Scrape<'_>) -> io::Result<&[u8]> {
        self.number += 1;
        self.line.clear();
        let times = scrape.times;
        self.line.extend_from_slice(b"{\"endpoint_url\":");
        write_json(&mut self.line, &*scrape.endpoint.url)?;
        write!(
            self.line,
            ",\"timestamp_ns\":{},\"endpoint_latency_ns\":{}",
            times.first_byte_ns,
            times.latency_ns()
        )?;
        let Rest { news, summaries } = self.metrics(scrape.index, scrape.snapshot)?;
        write!(
            self.line,
            ",\"request_sent_ns\":{},\"first_byte_ns\":{}",
            times.request_sent_ns, times.first_byte_ns
        )?;
        if let Some(phase) = scrape.phase {
            write_phase(&mut self.line, phase, &self.phases)?;
        }
        if scrape.is_duplicate {
            self.line.extend_from_slice(b",\"is_duplicate\":true");
        }
        if !summaries.is_empty() {
            self.line.push(b',');
            write_object(&mut self.line, "summaries", &summaries, |line, family| {
                write_series(line, &family.series)
            })?;
        }
        write_news(&mut self.line, &news)?;
        self.line.extend_from_slice(b"}\n");
        Ok(&self.line)
    }

    /// Writes the series by family, except summaries.
    fn metrics<'s>(&mut self, endpoint: usize, snapshot: &'s Snapshot<'_>) -> io::Result<Rest<'s>> {
        if self.told.len() <= endpoint {
            self.told.resize_with(endpoint + 1, HashMap::new);
        }
        let told = &mut self.told[endpoint];
        let (mut news, mut summaries) = (Vec::new(), Vec::new());
        let mut separator = Separator::default();
        self.line.extend_from_slice(b",\"metrics\":{");
        for family in &snapshot.families {
            let key = key_of(family, told, self.number);
            let this = Told::new(family, self.number);
            match told.get_mut(&*key) {
                Some(before) if before.line == self.number => continue,
                Some(before) => {
                    if before.has_news(this) {
                        news.push((key.clone(), family));
                    }
                    *before = before.and(this);
                }
                None => {
                    told.insert(Box::from(&*key), this);
                    news.push((key.clone(), family));
                }
            }
            if family.kind == SeriesKind::Summary {
                summaries.push((key, family));
                continue;
            }
            separator.write(&mut self.line);
            write_json(&mut self.line, &*key)?;
            self.line.push(b':');
            write_series(&mut self.line, &family.series)?;
        }
        self.line.push(b'}');
        Ok(Rest { news, summaries })
    }
}

/// Returns the family's name, followed by its kind if the line already contains that name, since
/// names in an object are unique: `x (counter)` beside a gauge `x`.
fn key_of<'s>(family: &'s Family<'s>, told: &HashMap<Box<str>, Told>, line: u64) -> Cow<'s, str> {
    let is_taken = told.get(&*family.name).is_some_and(|told| told.line == line);
    if is_taken {
        Cow::Owned(format!("{} ({})", family.name, format!("{:?}", family.kind).to_lowercase()))
    } else {
        Cow::Borrowed(&family.name)
    }
}

fn write_series(line: &mut Vec<u8>, series: &[Point<'_>]) -> io::Result<()> {
    line.push(b'[');
    let mut separator = Separator::default();
    for point in series {
        separator.write(line);
        write_point(line, point)?;
    }
    line.push(b']');
    Ok(())
}

/// `{"labels":{…},"value":1.0}`, or the parts of a distribution.
fn write_point(line: &mut Vec<u8>, point: &Point<'_>) -> io::Result<()> {
    line.push(b'{');
    let mut separator = Separator::default();
    if !point.labels.is_empty() {
        separator.write(line);
        write_object(line, "labels", &point.labels, |line, value| write_json(line, &**value))?;
    }
    let number = |line: &mut Vec<u8>, value: &f64| write_json(line, value);
    let (sum, count) = match &point.value {
        Value::Number(value) => {
            separator.write(line);
            line.extend_from_slice(b"\"value\":");
            write_json(line, value)?;
            (None, None)
        }
        Value::Histogram { buckets, sum, count } => {
            separator.write(line);
            write_object(line, "buckets", buckets, number)?;
            (Some(*sum), Some(*count))
        }
        Value::Summary { quantiles, sum, count } => {
            separator.write(line);
            write_object(line, "quantiles", quantiles, number)?;
            (*sum, *count)
        }
    };
    for (name, value) in [("sum", sum), ("count", count)] {
        if let Some(value) = value {
            write!(line, ",\"{name}\":")?;
            write_json(line, &value)?;
        }
    }
    line.push(b'}');
    Ok(())
}

/// `"name":{"key":value,…}`
fn write_object<V>(
    line: &mut Vec<u8>,
    name: &str,
    members: &[(Cow<'_, str>, V)],
    write_value: impl Fn(&mut Vec<u8>, &V) -> io::Result<()>,
) -> io::Result<()> {
    write!(line, "\"{name}\":{{")?;
    let mut separator = Separator::default();
    for (key, value) in members {
        separator.write(line);
        write_json(line, &**key)?;
        line.push(b':');
        write_value(line, value)?;
    }
    line.push(b'}');
    Ok(())
}

fn write_phase(line: &mut Vec<u8>, phase: PhaseMark, phases: &PhaseLabels) -> io::Result<()> {
    let kind = phase.kind.as_str();
    let (name, measured) = phases.get(phase.index, phase.kind);
    write!(line, ",\"benchmark_phase\":\"{kind}\",\"phase_index\":{}", phase.index)?;
    if let Some(index) = measured {
        write!(line, ",\"profiling_index\":{index}")?;
    }
    line.extend_from_slice(b",\"phase_name\":");
    write_json(line, name)?;
    write!(line, ",\"phase_kind\":\"{kind}\"")
}

/// Writes the declarations of families that are in none of the endpoint's earlier lines.
fn write_news(line: &mut Vec<u8>, news: &[Keyed<'_>]) -> io::Result<()> {
    if news.is_empty() {
        return Ok(());
    }
    line.extend_from_slice(b",\"families\":{");
    let mut separator = Separator::default();
    for (key, family) in news {
        separator.write(line);
        write_json(line, &**key)?;
        line.push(b':');
        let about = About {
            kind: family.kind,
            name: Some(&*family.name).filter(|name| name != key),
            description: family.description.as_deref(),
            unit: family.unit.as_deref(),
        };
        write_json(line, &about)?;
    }
    line.push(b'}');
    Ok(())
}

fn write_json(line: &mut Vec<u8>, value: &(impl Serialize + ?Sized)) -> io::Result<()> {
    Ok(serde_json::to_writer(line, value)?)
}

/// Writes a comma before each member but the first.
#[derive(Default)]
struct Separator {
    is_due: bool,
}

impl Separator {
    fn write(&mut self, line: &mut Vec<u8>) {
        if self.is_due {
            line.push(b',');
        }
        self.is_due = true;
    }
}
