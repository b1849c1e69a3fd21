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
    /// Marked values of the axes.
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
    /// Where it starts.
    pub(crate) start: Start,
}

/// Where an axis starts. One that does not start at zero says so in its title.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Start {
    /// At zero, or below it if there are negative values.
    #[default]
    Zero,
    /// Near the lowest value if all values are far from zero, as those of a distribution can be.
    Near,
    /// Below the lowest value, with equal distances between powers of ten; at zero if a value is
    /// not positive.
    Log,
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
    /// The indices of the points whose name stands beside them, as far as there is room.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub(crate) named: Vec<usize>,
    /// The interval of y of each point, or nothing if none is known.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub(crate) intervals: Vec<Option<Interval>>,
    /// The interval of x of each point, likewise; always drawn as bars.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub(crate) x_intervals: Vec<Option<Interval>>,
    /// How the intervals of y are drawn.
    pub(crate) spread: Spread,
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

/// Where a value lies with some confidence, or where the values of an interval of time lie. An
/// infinite end is drawn to the edge of the chart.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Interval {
    pub(crate) low: f64,
    pub(crate) high: f64,
}

impl Serialize for Interval {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        (self.low, self.high).serialize(serializer)
    }
}

/// How the intervals of a series are drawn.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Spread {
    /// A bar with ends through each point.
    #[default]
    Bars,
    /// A shaded area along the line.
    Band,
}

/// A value of an axis that is marked by a line across the chart.
#[derive(Debug, Clone, Serialize)]
pub(crate) struct Mark {
    pub(crate) on: MarkedAxis,
    pub(crate) at: f64,
    /// Where the value can be, shaded.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) interval: Option<Interval>,
    /// What it is. The value, the interval and the unit are added.
    pub(crate) label: String,
}

/// The axis that a mark is on.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum MarkedAxis {
    /// A vertical line.
    X,
    /// A horizontal line.
    Y,
}

impl Mark {
    /// A value of the x axis.
    pub(crate) fn x(at: f64, label: impl Into<String>) -> Self {
        Self { on: MarkedAxis::X, at, interval: None, label: label.into() }
    }

    /// A value of the y axis.
    pub(crate) fn y(at: f64, label: impl Into<String>) -> Self {
        Self { on: MarkedAxis::Y, ..Self::x(at, label) }
    }

    /// Says where the value can be.
    pub(crate) fn within(mut self, interval: Option<Interval>) -> Self {
        self.interval = interval;
        self
    }

    /// Returns the label with the value and its interval, in `unit`: `knee 24 (22 to 27)`.
    pub(crate) fn text(&self, unit: &str) -> String {
        let interval = match self.interval {
            None => String::new(),
            Some(Interval { low, high }) => match (low.is_finite(), high.is_finite()) {
                (true, true) => format!(" ({} to {})", rounded(low), rounded(high)),
                (true, false) => format!(" ({} or more)", rounded(low)),
                (false, true) => format!(" ({} or less)", rounded(high)),
                (false, false) => String::new(),
            },
        };
        let text = format!("{} {}{interval} {unit}", self.label, rounded(self.at));
        text.trim().to_owned()
    }
}

impl Axis {
    pub(crate) fn new(title: impl Into<String>, unit: impl Into<String>) -> Self {
        Self { title: title.into(), unit: unit.into(), start: Start::Zero }
    }

    /// The same axis with another start.
    pub(crate) fn from(self, start: Start) -> Self {
        Self { start, ..self }
    }

    /// The time of a run.
    pub(crate) fn time() -> Self {
        Self::new("Time since the start of the phase", "s")
    }
}

impl Series {
    pub(crate) fn new(name: impl Into<String>, shape: Shape, points: Vec<Point>) -> Self {
        Self {
            name: name.into(),
            shape,
            tone: Tone::Own,
            points,
            labels: Vec::new(),
            named: Vec::new(),
            intervals: Vec::new(),
            x_intervals: Vec::new(),
            spread: Spread::Bars,
            requests: Vec::new(),
        }
    }

    /// Adds the intervals of y, one for each point, drawn as `spread` says.
    #[cfg_attr(not(test), expect(dead_code, reason = "for charts over time"))]
    pub(crate) fn within(mut self, intervals: Vec<Option<Interval>>, spread: Spread) -> Self {
        self.intervals = intervals;
        self.spread = spread;
        self
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
