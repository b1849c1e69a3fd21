//! The description of a chart: series, axes, units and marks.

use serde::{Serialize, Serializer};

use crate::metrics::metric::Metric;

/// A chart.
#[derive(Debug, Clone, Serialize)]
pub(crate) struct Chart {
    /// Its name in files, such as `ttft_over_time`.
    pub(crate) name: String,
    pub(crate) title: String,
    /// How to read it, and what it leaves out.
    pub(crate) note: String,
    pub(crate) x: Axis,
    pub(crate) y: Axis,
    pub(crate) series: Vec<Series>,
    /// Marked values of the x axis.
    pub(crate) marks: Vec<Mark>,
    /// Whether x is the time of the run, on the axis that all such charts share.
    pub(crate) is_timeline: bool,
}

/// An axis.
#[derive(Debug, Clone, Serialize)]
pub(crate) struct Axis {
    /// What it shows.
    pub(crate) title: String,
    /// The unit of its values; empty for counts without one.
    pub(crate) unit: String,
}

/// Values with the same meaning.
#[derive(Debug, Clone, Serialize)]
pub(crate) struct Series {
    pub(crate) name: String,
    pub(crate) shape: Shape,
    pub(crate) tone: Tone,
    pub(crate) points: Vec<Point>,
    /// The names of the points, if each has one.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub(crate) labels: Vec<String>,
    /// The request of each point, as an index in the requests of the page.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub(crate) requests: Vec<u32>,
}

/// How a series is drawn.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Shape {
    /// Points, joined by a line.
    Line,
    /// A horizontal line from each point to the next.
    Steps,
    /// Steps, with the area below filled.
    Area,
    /// Columns, each on top of that of the series before, as wide as the distance to the next point.
    Stack,
    /// Points.
    Points,
}

/// The meaning of a series that its colour expresses.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Tone {
    /// The colour of its position among the series.
    Own,
    /// Failed requests.
    Bad,
}

/// A point. Without y, it interrupts a line.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Point {
    pub(crate) x: f64,
    pub(crate) y: Option<f64>,
}

impl Serialize for Point {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        (self.x, self.y).serialize(serializer)
    }
}

/// A marked value of the x axis.
#[derive(Debug, Clone, Serialize)]
pub(crate) struct Mark {
    pub(crate) at: f64,
    pub(crate) label: String,
}

impl Axis {
    pub(crate) fn new(title: impl Into<String>, unit: impl Into<String>) -> Self {
        Self { title: title.into(), unit: unit.into() }
    }

    /// The time of a run.
    pub(crate) fn time() -> Self {
        Self::new("Time since the start of the phase", "s")
    }
}

impl Series {
    pub(crate) fn new(name: impl Into<String>, shape: Shape, points: Vec<Point>) -> Self {
        let name = name.into();
        let (labels, requests) = (Vec::new(), Vec::new());
        Self { name, shape, tone: Tone::Own, points, labels, requests }
    }

    pub(crate) fn toned(mut self, tone: Tone) -> Self {
        self.tone = tone;
        self
    }
}

impl Point {
    pub(crate) const fn new(x: f64, y: f64) -> Self {
        Self { x, y: Some(y) }
    }
}

impl Chart {
    /// Returns whether there is nothing to see.
    pub(crate) fn is_empty(&self) -> bool {
        self.series.iter().all(|series| series.points.iter().all(|point| point.y.is_none()))
    }
}

/// Returns the axis of a metric's values.
pub(super) fn axis(metric: &Metric) -> Axis {
    Axis::new(metric.header, metric.display_unit.label())
}

/// Formats a value with four significant digits, or as a whole number.
pub(crate) fn rounded(value: f64) -> String {
    let digits = if value == 0.0 { 1 } else { value.abs().log10().floor() as i32 + 1 };
    let decimals = usize::try_from(4 - digits).unwrap_or(0).min(6);
    let text = format!("{value:.decimals$}");
    if text.contains('.') {
        return text.trim_end_matches('0').trim_end_matches('.').to_owned();
    }
    text
}
