//! Parses Prometheus text 0.0.4 and OpenMetrics 1.0 to families and samples.
//!
//! Parsing takes one pass without copies: names, labels and texts borrow from the body unless they
//! contain escapes. Both formats are parsed alike, and the parser accepts more than each allows if
//! the meaning is clear, since some servers announce one format and send the other. Anything
//! without a clear meaning is an error with its line number. Whatever `prometheus_client` reads is
//! read alike, which a test compares.
//!
//! Sources: the Prometheus documentation's "Exposition formats" and the OpenMetrics 1.0
//! specification.

mod line;

use std::borrow::Cow;
use std::collections::HashMap;
use std::ops::Range;

use memchr::memchr;
use thiserror::Error;

use line::Line;

/// The format of a body.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Format {
    /// Prometheus text: timestamps are in milliseconds.
    Text,
    /// OpenMetrics: timestamps are in seconds, and `# EOF` ends the body.
    OpenMetrics,
}

/// A parsed body.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Exposition<'a> {
    /// Families in the order of their first occurrence.
    pub families: Vec<MetricFamily<'a>>,
    /// Samples in the order of the body.
    pub samples: Vec<Sample<'a>>,
    /// Violations of the format that did not prevent parsing.
    pub faults: Vec<Fault>,
    /// Whether the body contains `# EOF`.
    pub(crate) has_eof: bool,
    /// The labels of all samples, concatenated.
    labels: Vec<Label<'a>>,
}

/// A harmless violation of a format.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Error)]
#[non_exhaustive]
pub enum Fault {
    /// An OpenMetrics body without its end.
    #[error("ends without `# EOF`")]
    MissingEof,
    /// An OpenMetrics body that continues after its end, such as that of two servers in one.
    #[error("continues after `# EOF`")]
    AfterEof,
    /// Contradictory declarations, of which the last one applies.
    #[error("declares `{0}` with two types")]
    TwoTypes(String),
    /// Text between a value and its timestamp, which is the last number of the line.
    #[error("has text between a value and its timestamp")]
    BeforeTimestamp,
    /// A native histogram, which is left out.
    #[error("has a native histogram `{0}`, which is not read")]
    NativeHistogram(String),
    /// Bytes that are not UTF-8, such as in a label's value.
    #[error("is not valid UTF-8; invalid bytes are replaced by U+FFFD")]
    NotUtf8,
}

/// Samples that belong together.
#[derive(Debug, Clone, PartialEq)]
pub struct MetricFamily<'a> {
    /// Name as declared, or that of the sample without a declaration.
    pub name: Cow<'a, str>,
    /// Its type; [`MetricType::Unknown`] without a declaration.
    pub metric_type: MetricType,
    /// `# HELP`.
    pub help: Option<Cow<'a, str>>,
    /// `# UNIT`.
    pub unit: Option<&'a str>,
}

/// Types of families.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum MetricType {
    /// Only increases, except for resets.
    Counter,
    /// Any number.
    Gauge,
    /// Cumulative buckets, a sum and a count.
    Histogram,
    /// A histogram whose buckets, sum and count may decrease.
    GaugeHistogram,
    /// Quantiles, a sum and a count.
    Summary,
    /// Labels that do not change; the value is 1.
    Info,
    /// One series for each state, with the value 1 or 0.
    StateSet,
    /// `untyped`, `unknown`, or not declared.
    Unknown,
}

/// One line with a value.
#[derive(Debug, Clone, PartialEq)]
pub struct Sample<'a> {
    /// Index of its family in [`Exposition::families`].
    pub family: usize,
    /// Name as exposed, including the suffix.
    pub name: Cow<'a, str>,
    /// Its role in the family.
    pub part: Part,
    /// The value, which may be infinite or NaN.
    pub value: f64,
    /// The server's own timestamp, in seconds since the epoch.
    pub timestamp: Option<f64>,
    /// A single observation that contributed to the value.
    pub exemplar: Option<Box<Exemplar<'a>>>,
    labels: Range<usize>,
}

/// The role of a sample in its family.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Part {
    /// The value of a series, or a quantile.
    Value,
    /// A bucket of a histogram: the number of observations up to the label `le`.
    Bucket,
    /// Sum of the observations.
    Sum,
    /// Number of observations.
    Count,
    /// The start time of the series.
    Created,
}

/// A label of a sample.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Label<'a> {
    /// Its name.
    pub name: Cow<'a, str>,
    /// Its value, without escapes.
    pub value: Cow<'a, str>,
}

/// A single observation that contributed to a value.
#[derive(Debug, Clone, PartialEq)]
pub struct Exemplar<'a> {
    /// Its labels, such as a trace ID.
    pub labels: Vec<Label<'a>>,
    pub value: f64,
    /// Its time, in seconds since the epoch.
    pub timestamp: Option<f64>,
}

/// The error of a body that cannot be parsed.
#[derive(Debug, Clone, Error, PartialEq, Eq)]
#[error("line {line}: {reason}")]
pub struct ExpositionError {
    /// The line number, from 1.
    pub line: usize,
    /// The cause.
    pub reason: Reason,
}

/// The errors of a line.
#[derive(Debug, Clone, Error, PartialEq, Eq)]
#[non_exhaustive]
pub enum Reason {
    /// The bytes are not UTF-8.
    #[error("not valid UTF-8")]
    NotUtf8,
    /// A metric name is missing.
    #[error("it does not start with a metric name")]
    MetricName,
    /// A label is not `name="value"`.
    #[error("a label is not of the form name=\"value\"")]
    Label,
    /// The labels are not terminated.
    #[error("the labels are not terminated by `}}`")]
    OpenLabels,
    /// A quoted text is not terminated.
    #[error("a quoted string is not terminated")]
    OpenQuote,
    /// The value is missing.
    #[error("the value is missing")]
    MissingValue,
    /// The value is not a number.
    #[error("`{0}` is not a number")]
    Number(String),
    /// There is text after the value and the timestamp.
    #[error("unexpected `{0}` after the value")]
    Trailing(String),
    /// The type is unknown.
    #[error("`{0}` is not a metric type")]
    Type(String),
}

impl Format {
    /// Returns the format that a content type announces: OpenMetrics if it is named, otherwise
    /// text.
    #[must_use]
    pub fn of_content_type(content_type: &str) -> Self {
        let essence = content_type.split(';').next().unwrap_or_default().trim();
        if essence.eq_ignore_ascii_case("application/openmetrics-text") {
            Self::OpenMetrics
        } else {
            Self::Text
        }
    }
}

impl MetricType {
    /// Returns the name of the type in OpenMetrics.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Counter => "counter",
            Self::Gauge => "gauge",
            Self::Histogram => "histogram",
            Self::GaugeHistogram => "gaugehistogram",
            Self::Summary => "summary",
            Self::Info => "info",
            Self::StateSet => "stateset",
            Self::Unknown => "unknown",
        }
    }

    fn parse(name: &str) -> Option<Self> {
        if name.eq_ignore_ascii_case("untyped") {
            return Some(Self::Unknown);
        }
        [
            Self::Counter,
            Self::Gauge,
            Self::Histogram,
            Self::GaugeHistogram,
            Self::Summary,
            Self::Info,
            Self::StateSet,
            Self::Unknown,
        ]
        .into_iter()
        .find(|kind| name.eq_ignore_ascii_case(kind.as_str()))
    }

    /// Returns the role of a sample whose name is the family's with `suffix`; `None` if the type
    /// does not have such samples.
    fn part(self, suffix: &str) -> Option<Part> {
        match (self, suffix) {
            (_, "") | (Self::Counter, "_total") | (Self::Info, "_info") => Some(Part::Value),
            (Self::Histogram | Self::GaugeHistogram, "_bucket") => Some(Part::Bucket),
            (Self::Histogram | Self::Summary, "_sum") | (Self::GaugeHistogram, "_gsum") => {
                Some(Part::Sum)
            }
            (Self::Histogram | Self::Summary, "_count") | (Self::GaugeHistogram, "_gcount") => {
                Some(Part::Count)
            }
            (Self::Counter | Self::Histogram | Self::Summary, "_created") => Some(Part::Created),
            _ => None,
        }
    }
}

/// Suffixes of samples, to find the family of a sample that is out of order.
const SUFFIXES: &[&str] =
    &["_bucket", "_sum", "_count", "_total", "_created", "_info", "_gsum", "_gcount"];

impl<'a> Exposition<'a> {
    /// Parses `body`, which must be UTF-8: see [`as_text`].
    pub fn parse(body: &'a [u8], format: Format) -> Result<Self, ExpositionError> {
        let text = std::str::from_utf8(body).map_err(|error| ExpositionError {
            line: 1 + memchr::memchr_iter(b'\n', &body[..error.valid_up_to()]).count(),
            reason: Reason::NotUtf8,
        })?;
        let mut parser = Parser { format, ..Parser::default() };
        let mut rest = text.strip_prefix('\u{feff}').unwrap_or(text);
        while !rest.is_empty() {
            let end = memchr(b'\n', rest.as_bytes()).unwrap_or(rest.len());
            let line = &rest[..end];
            rest = rest.get(end + 1..).unwrap_or_default();
            parser.line += 1;
            parser.take(line).map_err(|reason| ExpositionError { line: parser.line, reason })?;
        }
        if format == Format::OpenMetrics && !parser.exposition.has_eof {
            parser.exposition.faults.push(Fault::MissingEof);
        }
        Ok(parser.exposition)
    }

    /// Returns the labels of `sample`, in the order of the body.
    #[must_use]
    pub fn labels(&self, sample: &Sample<'a>) -> &[Label<'a>] {
        self.labels.get(sample.labels.clone()).unwrap_or_default()
    }

    /// Returns the family of `sample`.
    #[must_use]
    pub fn family(&self, sample: &Sample<'a>) -> Option<&MetricFamily<'a>> {
        self.families.get(sample.family)
    }
}

struct Parser<'a> {
    format: Format,
    exposition: Exposition<'a>,
    /// Families by name, for samples that do not follow their declaration.
    by_name: HashMap<Cow<'a, str>, usize>,
    /// The most recent family.
    current: Option<usize>,
    line: usize,
}

impl Default for Parser<'_> {
    fn default() -> Self {
        Self {
            format: Format::Text,
            exposition: Exposition::default(),
            by_name: HashMap::new(),
            current: None,
            line: 0,
        }
    }
}

impl<'a> Parser<'a> {
    fn take(&mut self, text: &'a str) -> Result<(), Reason> {
        let line = Line::new(text);
        if line.is_empty() {
            return Ok(());
        }
        if self.exposition.has_eof && self.format == Format::OpenMetrics {
            self.fault(Fault::AfterEof);
        }
        if line.is_comment() {
            return line.declaration().map_or(Ok(()), |declaration| self.declare(declaration));
        }
        let labels = self.exposition.labels.len();
        self.sample(line).or_else(|reason| {
            self.exposition.labels.truncate(labels);
            self.native_histogram(line).ok_or(reason)
        })
    }

    /// Parses `HELP`, `TYPE`, `UNIT` or `EOF`; other comments are ignored, and so are those that
    /// do not declare anything.
    fn declare(&mut self, mut line: Line<'a>) -> Result<(), Reason> {
        match line.word() {
            "EOF" => self.exposition.has_eof = true,
            "HELP" if line.is_empty() => {}
            "HELP" => {
                let family = self.declared(&mut line)?;
                family.help.get_or_insert(line.help());
            }
            // It is a comment in Prometheus text, where the name may be anything.
            "UNIT" => {
                if let Ok(family) = self.declared(&mut line) {
                    family.unit = Some(line.word()).filter(|unit| !unit.is_empty());
                }
            }
            "TYPE" => {
                let family = self.declared(&mut line)?;
                let name = line.word();
                let kind = MetricType::parse(name).ok_or_else(|| Reason::Type(name.into()))?;
                let before = std::mem::replace(&mut family.metric_type, kind);
                if ![MetricType::Unknown, kind].contains(&before) {
                    let fault = Fault::TwoTypes(family.name.to_string());
                    self.fault(fault);
                }
            }
            _ => {}
        }
        Ok(())
    }

    /// Notes a fault once.
    fn fault(&mut self, fault: Fault) {
        if !self.exposition.faults.contains(&fault) {
            self.exposition.faults.push(fault);
        }
    }

    /// Leaves a native histogram of the current family out; `None` if the line is not one.
    fn native_histogram(&mut self, line: Line<'a>) -> Option<()> {
        let family = self.exposition.families.get(self.current?)?;
        let is_histogram = family.metric_type == MetricType::Histogram;
        let name = &*family.name;
        (is_histogram && line.is_native_histogram(name))
            .then(|| Fault::NativeHistogram(name.to_owned()))
            .map(|fault| self.fault(fault))
    }

    /// Returns the family that a declaration names, which becomes the current one.
    fn declared(&mut self, line: &mut Line<'a>) -> Result<&mut MetricFamily<'a>, Reason> {
        let name = line.metric_name()?;
        let index = match self.by_name.get(&name) {
            Some(index) => *index,
            None => self.add_family(name),
        };
        self.current = Some(index);
        Ok(&mut self.exposition.families[index])
    }

    fn add_family(&mut self, name: Cow<'a, str>) -> usize {
        let index = self.exposition.families.len();
        self.by_name.insert(name.clone(), index);
        self.exposition.families.push(MetricFamily {
            name,
            metric_type: MetricType::Unknown,
            help: None,
            unit: None,
        });
        index
    }

    fn sample(&mut self, mut line: Line<'a>) -> Result<(), Reason> {
        let from = self.exposition.labels.len();
        let name = line.series(&mut self.exposition.labels)?;
        let value = line.number()?;
        let timestamp = line.timestamp()?.map(|(at, has_more)| {
            if has_more {
                self.fault(Fault::BeforeTimestamp);
            }
            self.seconds(at)
        });
        let exemplar = match line.exemplar() {
            Some(rest) => Some(Box::new(exemplar(rest)?)),
            None => line.finish().map(|()| None)?,
        };
        let (family, part) = match self.known_family_of(&name) {
            Some(known) => known,
            None => (self.add_family(name.clone()), Part::Value),
        };
        self.current = Some(family);
        let labels = from..self.exposition.labels.len();
        let sample = Sample { family, name, part, value, timestamp, exemplar, labels };
        self.exposition.samples.push(sample);
        Ok(())
    }

    fn seconds(&self, timestamp: f64) -> f64 {
        match self.format {
            Format::Text => timestamp / 1e3,
            Format::OpenMetrics => timestamp,
        }
    }

    /// Returns the family of a sample called `name` and the sample's role: the current family, or
    /// else one declared earlier.
    fn known_family_of(&self, name: &str) -> Option<(usize, Part)> {
        let in_current = self.current.and_then(|index| Some((index, self.part_in(index, name)?)));
        in_current.or_else(|| self.declared_earlier(name))
    }

    fn part_in(&self, index: usize, name: &str) -> Option<Part> {
        let family = self.exposition.families.get(index)?;
        family.metric_type.part(name.strip_prefix(&*family.name)?)
    }

    fn declared_earlier(&self, name: &str) -> Option<(usize, Part)> {
        if let Some(index) = self.by_name.get(name) {
            return Some((*index, Part::Value));
        }
        SUFFIXES.iter().find_map(|suffix| {
            let index = *self.by_name.get(name.strip_suffix(suffix)?)?;
            Some((index, self.part_in(index, name)?))
        })
    }
}

/// Converts `body` to text, with U+FFFD in place of invalid bytes; returns whether there were any.
#[must_use]
pub fn as_text(body: Vec<u8>) -> (Vec<u8>, bool) {
    match String::from_utf8(body) {
        Ok(text) => (text.into_bytes(), false),
        Err(error) => {
            let text = String::from_utf8_lossy(error.as_bytes()).into_owned();
            (text.into_bytes(), true)
        }
    }
}

/// Parses `{labels} value [timestamp]`, which follows the `#` of a sample.
fn exemplar(mut line: Line<'_>) -> Result<Exemplar<'_>, Reason> {
    let mut labels = Vec::new();
    line.labels(&mut labels)?;
    let (value, timestamp) = (line.number()?, line.optional_number()?);
    line.finish().map(|()| Exemplar { labels, value, timestamp })
}

/// Parses the name and the labels of a series at the beginning of `text`, and returns them with the
/// rest of it.
pub fn series(text: &str) -> Option<(Cow<'_, str>, Vec<Label<'_>>, &str)> {
    let mut line = Line::new(text);
    let mut labels = Vec::new();
    let name = line.series(&mut labels).ok()?;
    Some((name, labels, line.rest()))
}

#[cfg(test)]
mod tests;
