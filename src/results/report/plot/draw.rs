//! Draws the description of a chart, without knowing a metric.

use super::font::Font;
use super::scale::{Ends, Scale};
use super::scene::{Anchor, Item, Part, Position, Scene, Text};
use crate::report::chart::{
    Axis, Chart, Heat, MarkedAxis, Point, SPAN_HEIGHT, SPAN_OPACITY, Series, Shape, Start, Tone,
    rounded,
};
use crate::report::theme::{Colour, Theme};

const WIDTH: f64 = 1200.0;
const HEIGHT: f64 = 600.0;
/// Space around everything.
const MARGIN: f64 = 24.0;
/// Font sizes.
const TITLE: f64 = 22.0;
const TEXT: f64 = 15.0;
const SMALL: f64 = 13.0;
/// Height of a line of text, as a multiple of its size.
const LEADING: f64 = 1.4;
/// Maximum number of lines of the note, and of the legend.
const MAX_LINES: usize = 2;
/// Width of a legend's sign, and the space after an entry.
const SIGN: f64 = 22.0;
/// Maximum width of the name of a series.
const MAX_NAME: f64 = 320.0;
/// Intervals that end beyond this multiple of the largest value are cut off.
const LONGEST: f64 = 2.0;
/// Room for a tick.
const TICK_WIDTH: f64 = 120.0;
const TICK_HEIGHT: f64 = 55.0;
/// Lines with fewer points show each.
const FEW: usize = 30;
/// More dots than this are small and pale.
const MANY: usize = 2000;

/// What all pictures of some runs have in common.
pub(super) struct Style<'a> {
    pub(super) font: &'a Font,
    pub(super) theme: &'static Theme,
    /// What was run: the last line of each picture.
    pub(super) subject: &'a str,
}

/// The area between the axes.
#[derive(Clone, Copy)]
pub(super) struct Frame {
    pub(super) left: f64,
    pub(super) right: f64,
    pub(super) top: f64,
    pub(super) bottom: f64,
}

/// A picture that is being drawn.
pub(super) struct Drawing<'a> {
    pub(super) style: &'a Style<'a>,
    pub(super) chart: &'a Chart,
    x: Scale,
    y: Scale,
    pub(super) frame: Frame,
}

/// Returns the picture of `chart`. The time of a run is shown until `end`, in seconds.
pub(super) fn draw(chart: &Chart, end: f64, style: &Style<'_>) -> Scene {
    let chart = &stacked(chart, end);
    let mut parts = Vec::new();
    let (heading, below) = heading(chart, style);
    parts.push(heading);
    let (legend, top) = legend(chart, style, below);
    parts.push(legend);
    // Labels of marks of the x axis are above the chart.
    let has_x_mark = chart.marks.iter().any(|mark| mark.on == MarkedAxis::X);
    let top = if has_x_mark { top + SMALL } else { top };

    let end = chart.is_timeline.then_some(end);
    let x_ends = if chart.is_timeline { Ends::Timeline } else { ends(chart.x.start) };
    let x = values(chart, MarkedAxis::X).into_iter().chain(end);
    let bottom = HEIGHT - MARGIN - (SMALL + TEXT + SMALL) * LEADING - 8.0;
    let y_count = ((bottom - top) / TICK_HEIGHT) as usize;
    let y =
        Scale::over_values(values(chart, MarkedAxis::Y).into_iter(), ends(chart.y.start), y_count);
    let widths = y.ticks.iter().map(|tick| style.font.width(&y.label(*tick), SMALL));
    let left = MARGIN + TEXT * LEADING + widths.fold(0.0, f64::max) + 12.0;
    let frame = Frame { left, right: WIDTH - MARGIN - 12.0, top, bottom };
    let x = Scale::over_values(x, x_ends, ((frame.right - left) / TICK_WIDTH) as usize);

    let drawing = Drawing { style, chart, x, y, frame };
    parts.push(drawing.x_axis());
    parts.push(drawing.y_axis());
    parts.extend(drawing.shades());
    let series = chart.series.iter().enumerate();
    parts.extend(series.filter_map(|(at, series)| drawing.intervals(at, series)));
    // A column hides the parts of the next ones that are behind it.
    let (stacks, others): (Vec<_>, Vec<_>) =
        chart.series.iter().enumerate().partition(|(_, series)| series.shape == Shape::Stack);
    let in_order = stacks.into_iter().rev().chain(others);
    parts.extend(in_order.map(|(at, series)| drawing.series(at, series)));
    let mut taken = Vec::new();
    parts.extend(drawing.marks(&mut taken));
    parts.extend(drawing.labels(taken));
    parts.push(subject(style));
    Scene {
        width: WIDTH,
        height: HEIGHT,
        title: chart.title.clone(),
        ground: style.theme.panel,
        parts,
    }
}

const fn ends(start: Start) -> Ends {
    match start {
        Start::Zero => Ends::FromZero,
        Start::Near => Ends::Near,
        Start::Log => Ends::Log,
        Start::Rows => Ends::Rows,
    }
}

/// Returns the values that the axis must show: those of points, of marks, and the ends of intervals
/// as far as they are not much longer than what is drawn.
fn values(chart: &Chart, axis: MarkedAxis) -> Vec<f64> {
    let is_x = axis == MarkedAxis::X;
    let mut found = Vec::new();
    let mut ends = Vec::new();
    for series in &chart.series {
        let drawn = series.points.iter().filter_map(|point| Some((point.x, point.y?)));
        found.extend(drawn.map(|(x, y)| if is_x { x } else { y }));
        let intervals = if is_x { &series.x_intervals } else { &series.intervals };
        let known = intervals.iter().flatten();
        ends.extend(known.flat_map(|interval| [interval.low, interval.high]));
    }
    for mark in chart.marks.iter().filter(|mark| mark.on == axis) {
        found.push(mark.at);
        ends.extend(mark.interval.into_iter().flat_map(|it| [it.low, it.high]));
    }
    let least = found.iter().copied().fold(0.0, f64::min);
    let most = found.iter().copied().fold(f64::NEG_INFINITY, f64::max);
    let ends = ends.into_iter().filter(|end| end.is_finite());
    let ends: Vec<f64> = ends.map(|end| end.min(most * LONGEST).max(least)).collect();
    found.extend(ends);
    found
}

/// Returns the title and the note, and the lower end of both.
fn heading(chart: &Chart, style: &Style<'_>) -> (Part, f64) {
    let mut part = Part::new("heading");
    let width = WIDTH - 2.0 * MARGIN;
    let mut y = MARGIN + TITLE * 0.8;
    let title = style.font.fitted(&chart.title, TITLE, width);
    part.items.push(text(title, (MARGIN, y), TITLE, style.theme.text));
    y += 4.0;
    for line in style.font.wrapped(&chart.note, TEXT, width, MAX_LINES) {
        y += TEXT * LEADING;
        part.items.push(text(line, (MARGIN, y), TEXT, style.theme.faint));
    }
    (part, y + 8.0)
}

/// Returns the legend, and the upper end of the chart.
fn legend(chart: &Chart, style: &Style<'_>, below: f64) -> (Part, f64) {
    let mut part = Part::new("legend");
    let (mut x, mut y) = (MARGIN, below + TEXT);
    let mut lines = 1;
    for (at, series) in chart.series.iter().enumerate() {
        let name = style.font.fitted(&series.name, TEXT, MAX_NAME);
        let width = SIGN + 6.0 + style.font.width(&name, TEXT);
        if x > MARGIN && x + width > WIDTH - MARGIN {
            if lines == MAX_LINES {
                let more = format!("and {} more", chart.series.len() - at);
                part.items.push(text(more, (MARGIN, y + TEXT * LEADING), TEXT, style.theme.faint));
                y += TEXT * LEADING;
                break;
            }
            lines += 1;
            x = MARGIN;
            y += TEXT * LEADING;
        }
        let colour = colour(style.theme, at, series);
        let (start, end, middle) = (x, x + SIGN, y - TEXT * 0.35);
        match series.shape {
            Shape::Points => part.items.push(Item::Dots {
                places: vec![(x + SIGN / 2.0, middle)],
                radius: 5.0,
                colour,
                opacity: 1.0,
            }),
            Shape::Line | Shape::Steps => {
                part.line(vec![(start, middle), (end, middle)], colour, 3.0);
            }
            Shape::Area | Shape::Stack | Shape::Heat | Shape::Spans => {
                part.items.push(Item::Area {
                    places: vec![(start, y - 11.0), (end, y - 11.0), (end, y), (start, y)],
                    colour,
                    opacity: if series.shape == Shape::Stack { 1.0 } else { 0.6 },
                });
            }
        }
        part.items.push(text(name, (x + SIGN + 6.0, y), TEXT, style.theme.text));
        x += width + SIGN;
    }
    (part, y + 20.0)
}

/// Returns the last line, what was run.
fn subject(style: &Style<'_>) -> Part {
    let mut part = Part::new("subject");
    let subject = style.font.fitted(style.subject, SMALL, WIDTH - 2.0 * MARGIN);
    part.items.push(text(subject, (MARGIN, HEIGHT - MARGIN + 6.0), SMALL, style.theme.faint));
    part
}

impl Drawing<'_> {
    pub(super) fn place(&self, x: f64, y: f64) -> Position {
        (self.at_x(x), self.at_y(y))
    }

    pub(super) fn at_x(&self, x: f64) -> f64 {
        self.frame.left + self.x.place(x) * (self.frame.right - self.frame.left)
    }

    pub(super) fn at_y(&self, y: f64) -> f64 {
        self.frame.bottom - self.y.place(y) * (self.frame.bottom - self.frame.top)
    }

    fn x_axis(&self) -> Part {
        let Frame { left, right, top, bottom } = self.frame;
        let theme = self.style.theme;
        let mut part = Part::new("x axis");
        for tick in &self.x.ticks {
            let x = self.at_x(*tick);
            part.line(vec![(x, top), (x, bottom + 5.0)], theme.line, 1.0);
            let place = (x, bottom + 6.0 + SMALL);
            part.items.push(Item::Text(Text {
                anchor: Anchor::Middle,
                ..line_of_text(self.x.label(*tick), place, SMALL, theme.faint)
            }));
        }
        part.line(vec![(left, bottom), (right, bottom)], theme.faint, 1.0);
        let title = self.style.font.fitted(&title(&self.chart.x, &self.x), TEXT, right - left);
        let place = (f64::midpoint(left, right), bottom + 12.0 + (SMALL + TEXT) * 1.2);
        part.items.push(Item::Text(Text {
            anchor: Anchor::Middle,
            ..line_of_text(title, place, TEXT, theme.text)
        }));
        part
    }

    fn y_axis(&self) -> Part {
        let Frame { left, right, top, bottom } = self.frame;
        let theme = self.style.theme;
        let mut part = Part::new("y axis");
        for tick in &self.y.ticks {
            let y = self.at_y(*tick);
            part.line(vec![(left - 5.0, y), (right, y)], theme.line, 1.0);
            let place = (left - 9.0, y + SMALL * 0.35);
            part.items.push(Item::Text(Text {
                anchor: Anchor::End,
                ..line_of_text(self.y.label(*tick), place, SMALL, theme.faint)
            }));
        }
        part.line(vec![(left, top), (left, bottom)], theme.faint, 1.0);
        let title = self.style.font.fitted(&title(&self.chart.y, &self.y), TEXT, bottom - top);
        let place = (MARGIN + TEXT * 0.6, f64::midpoint(top, bottom));
        part.items.push(Item::Text(Text {
            anchor: Anchor::Middle,
            is_upright: true,
            ..line_of_text(title, place, TEXT, theme.text)
        }));
        part
    }

    /// Returns the rectangles of a heat map.
    fn cells(&self, heat: &Heat, colour: Colour) -> impl Iterator<Item = Item> {
        let most = heat.most();
        heat.cells.iter().filter_map(move |(column, row, count)| {
            let [left, right] = [heat.columns.get(*column)?, heat.columns.get(column + 1)?];
            let [low, high] = [heat.rows.get(*row)?, heat.rows.get(row + 1)?];
            let corners = [(left, low), (right, low), (right, high), (left, high)];
            let places = corners.map(|(x, y)| self.place(*x, *y)).into();
            Some(Item::Area { places, colour, opacity: Heat::opacity(*count, most) })
        })
    }

    /// Returns the bars between pairs of points.
    fn spans(&self, points: &[Point], colour: Colour) -> impl Iterator<Item = Item> {
        points.chunks_exact(2).filter_map(move |ends| {
            let [start, end] = ends else { return None };
            let [low, high] = [-0.5, 0.5].map(|side| start.y.map(|y| y + side * SPAN_HEIGHT));
            let corners = [(start.x, low?), (end.x, low?), (end.x, high?), (start.x, high?)];
            let places = corners.map(|(x, y)| self.place(x, y)).into();
            Some(Item::Area { places, colour, opacity: SPAN_OPACITY })
        })
    }

    fn series(&self, at: usize, series: &Series) -> Part {
        let colour = colour(self.style.theme, at, series);
        let mut part = Part { name: Some(series.name.clone()), ..Part::new("series") };
        let dots =
            |places: Vec<Position>, radius, opacity| Item::Dots { places, radius, colour, opacity };
        let place = |(x, y): (f64, f64)| self.place(x, y);
        if series.shape == Shape::Points {
            let (radius, opacity) = match series.points.len() {
                ..FEW => (3.5, 1.0),
                FEW..=MANY => (3.5, 0.65),
                _ => (2.0, 0.4),
            };
            let points = series.points.iter().filter_map(|point| Some((point.x, point.y?)));
            part.items.push(dots(points.map(place).collect(), radius, opacity));
            return part;
        }
        if let Some(heat) = &series.heat {
            part.items.extend(self.cells(heat, colour));
            return part;
        }
        if series.shape == Shape::Spans {
            part.items.extend(self.spans(&series.points, colour));
            return part;
        }
        let pieces: Vec<Vec<(f64, f64)>> = pieces(series);
        for piece in &pieces {
            let corners = match series.shape {
                Shape::Line | Shape::Points | Shape::Heat | Shape::Spans => piece.clone(),
                Shape::Steps | Shape::Area | Shape::Stack => steps(piece),
            };
            let places: Vec<Position> = corners.into_iter().map(place).collect();
            if let (Shape::Area | Shape::Stack, Some(first), Some(last)) =
                (series.shape, places.first(), places.last())
            {
                let opacity = if series.shape == Shape::Stack { 1.0 } else { 0.35 };
                let ground = self.at_y(0.0_f64.clamp(self.y.low, self.y.high));
                let close = [(last.0, ground), (first.0, ground)];
                let area = places.iter().copied().chain(close).collect();
                part.items.push(Item::Area { places: area, colour, opacity });
            }
            // A column of no height is not seen.
            if places.len() > 1 && series.shape != Shape::Stack {
                part.line(places, colour, 2.0);
            }
        }
        let is_few = series.shape == Shape::Line && series.points.len() < FEW;
        let single = pieces.iter().filter(|piece| is_few || piece.len() == 1).flatten();
        let single: Vec<Position> = single.copied().map(place).collect();
        if !single.is_empty() {
            part.items.push(dots(single, 3.5, 1.0));
        }
        part
    }
}

/// Returns the chart with the height of each column as the sum of those below it, and with the ends of
/// the last columns: over the time of a run until `end`, and otherwise as wide as the one before.
fn stacked(chart: &Chart, end: f64) -> Chart {
    let mut chart = chart.clone();
    let mut below: Vec<Option<f64>> = Vec::new();
    for series in chart.series.iter_mut().filter(|series| series.shape == Shape::Stack) {
        below.resize(series.points.len().max(below.len()), None);
        for (point, below) in series.points.iter_mut().zip(&mut below) {
            point.y = match (*below, point.y) {
                (Some(below), own) => Some(below + own.unwrap_or(0.0)),
                (None, own) => own,
            };
            *below = point.y;
        }
        if let Some(last) = series.points.last().copied() {
            let width =
                if let [.., before, last] = series.points[..] { last.x - before.x } else { 1.0 };
            let x = if chart.is_timeline { end } else { last.x + width };
            series.points.push(Point { x, ..last });
        }
        series.labels.clear();
    }
    chart
}

/// Returns the runs of consecutive points that have a value. Steps end where the next value is
/// missing.
pub(super) fn pieces(series: &Series) -> Vec<Vec<(f64, f64)>> {
    let is_stepped = matches!(series.shape, Shape::Steps | Shape::Area | Shape::Stack);
    let mut pieces = Vec::new();
    let mut piece: Vec<(f64, f64)> = Vec::new();
    for point in &series.points {
        if let Some(y) = point.y {
            piece.push((point.x, y));
        } else if let Some((_, y)) = piece.last().copied() {
            if is_stepped {
                piece.push((point.x, y));
            }
            pieces.push(std::mem::take(&mut piece));
        }
    }
    pieces.extend((!piece.is_empty()).then_some(piece));
    pieces
}

/// Returns the corners of a horizontal line from each point to the next.
pub(super) fn steps(piece: &[(f64, f64)]) -> Vec<(f64, f64)> {
    let mut corners = Vec::with_capacity(2 * piece.len());
    for point in piece {
        if let Some((_, y)) = corners.last().copied() {
            corners.push((point.0, y));
        }
        corners.push(*point);
    }
    corners
}

pub(super) fn colour(theme: &Theme, at: usize, series: &Series) -> Colour {
    match series.tone {
        Tone::Own => theme.series(at),
        Tone::Bad => theme.bad,
        Tone::Faint => theme.line,
    }
}

/// Returns the title of an axis, which notes if it does not start at zero.
fn title(axis: &Axis, scale: &Scale) -> String {
    let unit = if axis.unit.is_empty() { String::new() } else { format!(" ({})", axis.unit) };
    let start = match axis.start {
        Start::Log if scale.is_log => ", logarithmic".to_owned(),
        Start::Near if scale.low > 0.0 => format!(", from {}", rounded(scale.low)),
        _ => String::new(),
    };
    format!("{}{unit}{start}", axis.title)
}

pub(super) fn text(text: String, at: Position, size: f64, colour: Colour) -> Item {
    Item::Text(line_of_text(text, at, size, colour))
}

pub(super) fn line_of_text(text: String, at: Position, size: f64, colour: Colour) -> Text {
    Text { at, anchor: Anchor::Start, is_upright: false, size, colour, halo: None, content: text }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn columns_are_stacked() {
        let points = |values: [Option<f64>; 3]| {
            (0..).zip(values).map(|(at, y)| Point { x: f64::from(at) * 2.0, y }).collect()
        };
        let series = |values| Series::new("", Shape::Stack, points(values));
        let lower = series([Some(1.0), None, Some(-1.0)]);
        let upper = series([Some(2.0), None, None]);
        let axis = || Axis::new("", "");
        let chart = Chart {
            name: String::new(),
            title: String::new(),
            note: String::new(),
            x: axis(),
            y: axis(),
            series: vec![lower, upper],
            marks: Vec::new(),
            is_timeline: false,
        };
        let drawn = stacked(&chart, 5.0);
        let values = |at: usize| {
            let points = drawn.series[at].points.iter();
            points.map(|point| (point.x, point.y)).collect::<Vec<_>>()
        };
        let end = |y| (6.0, Some(y));
        let lower = [(0.0, Some(1.0)), (2.0, None), (4.0, Some(-1.0)), end(-1.0)];
        assert_eq!(values(0), lower);
        let upper = [(0.0, Some(3.0)), (2.0, None), (4.0, Some(-1.0)), end(-1.0)];
        assert_eq!(values(1), upper);
        // A run ends before its last interval would.
        let over_time = stacked(&Chart { is_timeline: true, ..chart }, 5.0);
        assert_eq!(over_time.series[1].points.last(), Some(&Point::new(5.0, -1.0)));
    }

    #[test]
    fn steps_and_gaps() {
        let point = |x, y| Point { x, y };
        let points =
            [point(0.0, Some(1.0)), point(1.0, None), point(2.0, Some(3.0)), point(3.0, Some(4.0))];
        let series = |shape| Series::new("", shape, points.to_vec());
        let last = vec![(2.0, 3.0), (3.0, 4.0)];
        assert_eq!(pieces(&series(Shape::Line)), [vec![(0.0, 1.0)], last.clone()]);
        assert_eq!(pieces(&series(Shape::Steps)), [vec![(0.0, 1.0), (1.0, 1.0)], last]);
        assert_eq!(steps(&[(2.0, 3.0), (3.0, 4.0)]), [(2.0, 3.0), (3.0, 3.0), (3.0, 4.0)]);
    }

    #[test]
    fn a_heat_map_is_drawn_as_rectangles() {
        let heat = Heat {
            columns: vec![0.0, 1.0, 4.0],
            rows: vec![1.0, 10.0, 100.0],
            cells: vec![(0, 0, 1), (1, 1, 100)],
        };
        let chart = Chart {
            name: String::new(),
            title: String::new(),
            note: String::new(),
            x: Axis::time(),
            y: Axis::new("Gap", "ms").from(Start::Log),
            series: vec![Series::heat("gaps", heat).unwrap()],
            marks: Vec::new(),
            is_timeline: true,
        };
        let font = Font::embedded().unwrap();
        let theme = crate::report::theme::ThemeName::Light.theme();
        let scene = draw(&chart, 4.0, &Style { font: &font, theme, subject: "" });
        let part = scene.parts.iter().find(|part| part.name.as_deref() == Some("gaps")).unwrap();
        let areas: Vec<_> = part
            .items
            .iter()
            .filter_map(|item| match item {
                Item::Area { places, opacity, .. } => Some((places, *opacity)),
                _ => None,
            })
            .collect();
        let [(small, faint), (large, strong)] = areas[..] else { panic!("{} areas", areas.len()) };
        assert!((faint - 0.12).abs() < 1e-6 && (strong - 1.0).abs() < 1e-6);
        // One second and three, each for a power of ten.
        let size = |places: &[Position]| (places[1].0 - places[0].0, places[1].1 - places[2].1);
        let ((width, height), (wide, high)) = (size(small), size(large));
        assert!((wide / width - 3.0).abs() < 1e-9 && (high / height - 1.0).abs() < 1e-9);
        // They meet at a corner.
        assert_eq!(small[2], large[0]);
    }
}
