//! The description of a chart: series, axes, units and marks.

use serde::{Serialize, Serializer};

use measure::metrics::metric::Metric;

use crate::console::Term;

/// A chart.
#[derive(Debug, Clone, Serialize)]
pub(crate) struct Chart {
    /// Its name in files, such as `ttft_over_time`.
    pub name: String,
    pub title: String,
    /// How to read it, and what it leaves out.
    pub note: String,
    pub x: Axis,
    pub y: Axis,
    pub series: Vec<Series>,
    /// Marked values of the axes.
    pub marks: Vec<Mark>,
    /// Whether x is the time of the run, on the axis that all such charts share.
    pub(crate) is_timeline: bool,
}

/// An axis.
#[derive(Debug, Clone, Serialize)]
pub(crate) struct Axis {
    /// What it shows.
    pub title: String,
    /// The unit of its values; empty for counts without one.
    pub unit: String,
    /// Where it starts.
    pub start: Start,
}

/// Where an axis starts. One that does not start at zero has a note in its title.
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
    /// At zero. Each row is between a whole number and the next one, and the last one ends the axis.
    Rows,
}

/// Values with the same meaning.
#[derive(Debug, Clone, Serialize)]
pub(crate) struct Series {
    pub name: String,
    pub shape: Shape,
    pub(crate) tone: Tone,
    pub points: Vec<Point>,
    /// The names of the points, if each has one.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub labels: Vec<String>,
    /// The indices of the points whose name stands beside them, as far as there is room.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub named: Vec<usize>,
    /// The interval of y of each point, or nothing if none is known.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub intervals: Vec<Option<Interval>>,
    /// The interval of x of each point, likewise; always drawn as bars.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub(crate) x_intervals: Vec<Option<Interval>>,
    /// How the intervals of y are drawn.
    pub spread: Spread,
    /// The cells of a heat map, whose points are two opposite corners.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub heat: Option<Heat>,
    /// The request of each point, as an index in the requests of the page.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub requests: Vec<u32>,
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
    /// Rectangles, which are the stronger the more they count.
    Heat,
    /// Bars along the x axis, from the first to the second of each pair of points, on an axis of rows;
    /// the darker, the more of them at the same place.
    Spans,
}

/// How often something happened, by x and y.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub(crate) struct Heat {
    /// The ends of the columns on the x axis, one more than there are columns.
    pub columns: Vec<f64>,
    /// The ends of the rows on the y axis, likewise.
    pub rows: Vec<f64>,
    /// Column, row and count of the cells that are not empty.
    pub cells: Vec<(usize, usize, u64)>,
}

impl Heat {
    /// Returns the largest count.
    pub(crate) fn most(&self) -> u64 {
        self.cells.iter().map(|(.., count)| *count).max().unwrap_or(0)
    }

    /// Returns the opacity of a cell with `count` of at most `most`, by the logarithm of the count, since
    /// the eye sees ratios.
    pub(crate) fn opacity(count: u64, most: u64) -> f32 {
        /// That of a count of 1.
        const FAINTEST: f64 = 0.12;
        let share = if most > 1 { (count as f64).ln() / (most as f64).ln() } else { 1.0 };
        (FAINTEST + (1.0 - FAINTEST) * share.clamp(0.0, 1.0)) as f32
    }
}

/// The meaning of a series that its colour expresses.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Tone {
    /// The colour of its position among the series.
    Own,
    /// Failed requests.
    Bad,
    /// What is in the background.
    Faint,
}

/// The height of a bar of [`Shape::Spans`], as a share of its row.
pub(crate) const SPAN_HEIGHT: f64 = 0.36;
/// Its opacity.
pub(crate) const SPAN_OPACITY: f32 = 0.75;

/// A point. Without y, it interrupts a line.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Point {
    pub x: f64,
    pub y: Option<f64>,
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
    pub low: f64,
    pub high: f64,
}

impl Interval {
    /// Returns it in words, as in `22 to 27`; `None` if both ends are infinite.
    pub(crate) fn text(self) -> Option<String> {
        let Self { low, high } = self;
        match (low.is_finite(), high.is_finite()) {
            (true, true) => Some(format!("{} to {}", rounded(low), rounded(high))),
            (true, false) => Some(format!("{} or more", rounded(low))),
            (false, true) => Some(format!("{} or less", rounded(high))),
            (false, false) => None,
        }
    }
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
    pub on: MarkedAxis,
    pub at: f64,
    /// Where the value can be, shaded.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub interval: Option<Interval>,
    /// What it is. The value, the interval and the unit are added.
    pub label: String,
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
        let interval = self.interval.and_then(Interval::text);
        let interval = interval.map(|text| format!(" ({text})")).unwrap_or_default();
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
            heat: None,
            requests: Vec::new(),
        }
    }

    /// Creates a heat map; `None` if it is empty.
    pub(crate) fn heat(name: impl Into<String>, heat: Heat) -> Option<Self> {
        let corner = |x: Option<&f64>, y: Option<&f64>| Some(Point::new(*x?, *y?));
        let low = corner(heat.columns.first(), heat.rows.first())?;
        let high = corner(heat.columns.last(), heat.rows.last())?;
        let series = Self::new(name, Shape::Heat, vec![low, high]);
        (!heat.cells.is_empty()).then_some(Self { heat: Some(heat), ..series })
    }

    /// Adds the intervals of y, one for each point, drawn by `spread`.
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
    Axis::new(Term::for_metric(metric).name, Term::for_metric(metric).unit)
}

/// Returns the smallest of 1, 2 or 5 times a power of ten that is at least `length`; 1 if there is
/// none.
pub(super) fn round_up(length: f64) -> f64 {
    let power = 10_f64.powf(length.log10().floor());
    let lengths = [1.0, 2.0, 5.0, 10.0].map(|times| times * power);
    let fits = |round: &&f64| **round >= length * (1.0 - 1e-9);
    let round = lengths.iter().find(fits).copied().unwrap_or(power);
    if round > 0.0 && round.is_finite() { round } else { 1.0 }
}

/// Formats a value with three significant digits, as pages do; a whole number with all of its digits, and
/// an infinite one as `inf`.
pub(crate) fn rounded(value: f64) -> String {
    if !value.is_finite() || value.fract() == 0.0 {
        return value.to_string();
    }
    let decimals = 2 - value.abs().log10().floor() as i32;
    let decimals = usize::try_from(decimals).unwrap_or(0).min(9);
    format!("{value:.decimals$}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_cell_is_as_strong_as_the_logarithm_of_its_count() {
        // 0.12 and 0.88 times the share of the logarithm.
        for (count, most, opacity) in
            [(1, 100, 0.12), (10, 100, 0.56), (100, 100, 1.0), (1, 1, 1.0), (0, 9, 0.12)]
        {
            assert!((Heat::opacity(count, most) - opacity).abs() < 1e-6, "{count} of {most}");
        }
    }

    #[test]
    fn a_heat_map_has_its_corners_as_points() {
        let heat = |cells| Heat { columns: vec![0.0, 1.0, 2.0], rows: vec![5.0, 7.0], cells };
        let series = Series::heat("gaps", heat(vec![(1, 0, 3)])).unwrap();
        assert_eq!(series.points, [Point::new(0.0, 5.0), Point::new(2.0, 7.0)]);
        assert!(Series::heat("gaps", heat(Vec::new())).is_none());
    }

    #[test]
    fn lengths_are_rounded_up() {
        for (length, round) in [(0.1, 0.1), (0.11, 0.2), (250.0, 500.0), (501.0, 1000.0)] {
            assert!((round_up(length) / round - 1.0_f64).abs() < 1e-9, "{length}");
        }
        assert_eq!((round_up(0.0), round_up(f64::NAN)), (1.0, 1.0));
    }
}
