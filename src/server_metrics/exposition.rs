//! Prometheus text 0.0.4 and OpenMetrics 1.0: a body to families and samples.
//!
//! One pass without copies: names, labels and texts borrow from the body unless
//! they hold escapes. What the two formats share is read alike, and more is
//! taken than each allows where the meaning is plain: servers announce one
//! format and send the other. What has no meaning is an error that names its line.
//!
//! Sources: the Prometheus documentation's "Exposition formats" and the
//! OpenMetrics 1.0 specification.

mod line;

use std::borrow::Cow;
use std::collections::HashMap;
use std::ops::Range;

use memchr::memchr;
use thiserror::Error;

use line::Line;

/// How a body is written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Format {
    /// Prometheus text: timestamps are milliseconds.
    Text,
    /// OpenMetrics: timestamps are seconds, and `# EOF` ends the body.
    OpenMetrics,
}

/// A parsed body.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Exposition<'a> {
    /// Families in order of their first mention.
    pub families: Vec<MetricFamily<'a>>,
    /// Samples in the body's order.
    pub samples: Vec<Sample<'a>>,
    /// The labels of all samples, one after the other.
    labels: Vec<Label<'a>>,
}

/// Samples that belong together.
#[derive(Debug, Clone, PartialEq)]
pub struct MetricFamily<'a> {
    /// Name as declared; the sample's own where nothing was declared.
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
    /// Only rises, but for resets.
    Counter,
    /// Any number.
    Gauge,
    /// Cumulative buckets, a sum and a count.
    Histogram,
    /// A histogram of which every part may fall.
    GaugeHistogram,
    /// Quantiles, a sum and a count.
    Summary,
    /// Labels that do not change; the value is 1.
    Info,
    /// One series for each state, 1 or 0.
    StateSet,
    /// `untyped`, `unknown`, or not declared.
    Unknown,
}

/// One line with a value.
#[derive(Debug, Clone, PartialEq)]
pub struct Sample<'a> {
    /// Its family in [`Exposition::families`].
    pub family: usize,
    /// Name as sent, suffix included.
    pub name: Cow<'a, str>,
    /// What it is in its family.
    pub part: Part,
    /// The value; may be infinite or no number.
    pub value: f64,
    /// The server's own time, in seconds since the epoch.
    pub timestamp: Option<f64>,
    /// A single observation behind the value.
    pub exemplar: Option<Box<Exemplar<'a>>>,
    labels: Range<usize>,
}

/// What a sample is in its family.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Part {
    /// The value of a series, or a quantile.
    Value,
    /// A bucket of a histogram: observations up to the label `le`.
    Bucket,
    /// Sum of the observations.
    Sum,
    /// Number of the observations.
    Count,
    /// When the series began.
    Created,
}

/// A label of a sample.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Label<'a> {
    /// Its name.
    pub name: Cow<'a, str>,
    /// Its value, escapes resolved.
    pub value: Cow<'a, str>,
}

/// A single observation behind a value.
#[derive(Debug, Clone, PartialEq)]
pub struct Exemplar<'a> {
    /// Its labels, as in a trace's identifier.
    pub labels: Vec<Label<'a>>,
    /// Its value.
    pub value: f64,
    /// When it was made, in seconds since the epoch.
    pub timestamp: Option<f64>,
}

/// A body that cannot be read.
#[derive(Debug, Clone, Error, PartialEq, Eq)]
#[error("line {line}: {reason}")]
pub struct ExpositionError {
    /// The line, from 1.
    pub line: usize,
    /// What is wrong there.
    pub reason: Reason,
}

/// What can be wrong with a line.
#[derive(Debug, Clone, Error, PartialEq, Eq)]
#[non_exhaustive]
pub enum Reason {
    /// The bytes are no text.
    #[error("it is not UTF-8")]
    NotUtf8,
    /// No metric name stands where one must.
    #[error("it does not begin with a metric name")]
    MetricName,
    /// A label is not `name="value"`.
    #[error("a label is not of the form name=\"value\"")]
    Label,
    /// Labels without an end.
    #[error("the labels are not closed by `}}`")]
    OpenLabels,
    /// A quoted text without an end.
    #[error("a quoted text is not closed")]
    OpenQuote,
    /// No value.
    #[error("there is no value")]
    MissingValue,
    /// The value is no number.
    #[error("`{0}` is not a number")]
    Number(String),
    /// Something stands behind the value and the timestamp.
    #[error("`{0}` stands after the value")]
    Trailing(String),
    /// An unknown type.
    #[error("`{0}` is not a type of metrics")]
    Type(String),
    /// Two declarations that differ.
    #[error("`{0}` is declared with two types")]
    TwoTypes(String),
    /// An OpenMetrics body goes on after its end.
    #[error("the body goes on after `# EOF`")]
    AfterEof,
    /// An OpenMetrics body without its end: it may have been cut.
    #[error("the body ends without `# EOF`")]
    MissingEof,
}

impl Format {
    /// What a content type announces: OpenMetrics by its own name, else text.
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
    /// As OpenMetrics writes it.
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

    /// What a sample is whose name is the family's with `suffix`; `None` where
    /// the type has no such samples.
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

/// Suffixes of samples, for finding the family of one that is out of order.
const SUFFIXES: [&str; 8] =
    ["_bucket", "_sum", "_count", "_total", "_created", "_info", "_gsum", "_gcount"];

impl<'a> Exposition<'a> {
    /// Reads `body`.
    pub fn parse(body: &'a [u8], format: Format) -> Result<Self, ExpositionError> {
        let text = std::str::from_utf8(body).map_err(|error| ExpositionError {
            line: 1 + memchr::memchr_iter(b'\n', &body[..error.valid_up_to()]).count(),
            reason: Reason::NotUtf8,
        })?;
        let mut parser = Parser { format, ..Parser::default() };
        let mut rest = text;
        while !rest.is_empty() {
            let end = memchr(b'\n', rest.as_bytes()).unwrap_or(rest.len());
            let line = &rest[..end];
            rest = rest.get(end + 1..).unwrap_or_default();
            parser.line += 1;
            parser.take(line).map_err(|reason| ExpositionError { line: parser.line, reason })?;
        }
        if format == Format::OpenMetrics && !parser.has_ended {
            return Err(ExpositionError { line: parser.line.max(1), reason: Reason::MissingEof });
        }
        Ok(parser.exposition)
    }

    /// The labels of `sample`, in the body's order.
    #[must_use]
    pub fn labels(&self, sample: &Sample<'a>) -> &[Label<'a>] {
        self.labels.get(sample.labels.clone()).unwrap_or_default()
    }

    /// The family of `sample`.
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
    /// The family mentioned last.
    current: Option<usize>,
    line: usize,
    has_ended: bool,
}

impl Default for Parser<'_> {
    fn default() -> Self {
        Self {
            format: Format::Text,
            exposition: Exposition::default(),
            by_name: HashMap::new(),
            current: None,
            line: 0,
            has_ended: false,
        }
    }
}

impl<'a> Parser<'a> {
    fn take(&mut self, text: &'a str) -> Result<(), Reason> {
        let line = Line::new(text);
        if line.is_empty() {
            return Ok(());
        }
        if self.has_ended {
            return Err(Reason::AfterEof);
        }
        match line.comment() {
            Some(comment) => self.comment(comment),
            None => self.sample(line),
        }
    }

    /// `HELP`, `TYPE`, `UNIT` or `EOF`; anything else is for human readers.
    fn comment(&mut self, mut line: Line<'a>) -> Result<(), Reason> {
        match line.word() {
            "EOF" => self.has_ended = self.format == Format::OpenMetrics,
            "HELP" => {
                let family = self.declared(&mut line)?;
                family.help.get_or_insert(line.help());
            }
            "UNIT" => {
                let family = self.declared(&mut line)?;
                family.unit = Some(line.word()).filter(|unit| !unit.is_empty());
            }
            "TYPE" => {
                let family = self.declared(&mut line)?;
                let name = line.word();
                let kind = MetricType::parse(name).ok_or_else(|| Reason::Type(name.into()))?;
                if ![MetricType::Unknown, kind].contains(&family.metric_type) {
                    return Err(Reason::TwoTypes(family.name.to_string()));
                }
                family.metric_type = kind;
            }
            _ => {}
        }
        Ok(())
    }

    /// The family that a declaration names; it becomes the current one.
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
        let timestamp = line.optional_number()?.map(|at| self.seconds(at));
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

    /// The family of a sample named `name` and what it is there: the current
    /// family, else one declared earlier.
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

/// `{labels} value [timestamp]`, as it stands behind the `#` of a sample.
fn exemplar(mut line: Line<'_>) -> Result<Exemplar<'_>, Reason> {
    let mut labels = Vec::new();
    line.labels(&mut labels)?;
    let (value, timestamp) = (line.number()?, line.optional_number()?);
    line.finish().map(|()| Exemplar { labels, value, timestamp })
}

#[cfg(test)]
mod tests;
