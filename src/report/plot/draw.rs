//! Draws the description of a chart, without knowing a metric.

use super::font::Font;
use super::scale::{Ends, Scale};
use super::scene::{Anchor, HALO, Item, Line, Part, Place, Scene, Text};
use crate::report::chart::{Axis, Chart, Point, Series, Shape, Tone, rounded};
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
/// Space between neighbouring labels.
const GAP: f64 = 12.0;
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
struct Frame {
    left: f64,
    right: f64,
    top: f64,
    bottom: f64,
}

/// A picture that is being drawn.
struct Drawing<'a> {
    style: &'a Style<'a>,
    chart: &'a Chart,
    x: Scale,
    y: Scale,
    frame: Frame,
}

/// Returns the picture of `chart`. The time of a run is shown until `end`, in seconds.
pub(super) fn draw(chart: &Chart, end: f64, style: &Style<'_>) -> Scene {
    let chart = &stacked(chart);
    let mut parts = Vec::new();
    let (heading, below) = heading(chart, style);
    parts.push(heading);
    let (legend, top) = legend(chart, style, below);
    parts.push(legend);
    // Labels of marks are above the chart.
    let top = if chart.marks.is_empty() { top } else { top + SMALL };

    let points = || chart.series.iter().flat_map(|series| &series.points);
    let marked = chart.marks.iter().map(|mark| mark.at);
    let drawn = points().filter(|point| point.y.is_some());
    let ends = if chart.is_timeline { Ends::Timeline } else { Ends::Near };
    let end = chart.is_timeline.then_some(end);
    let x = drawn.map(|point| point.x).chain(marked).chain(end);
    let bottom = HEIGHT - MARGIN - (SMALL + TEXT + SMALL) * LEADING - 8.0;
    let has_area =
        chart.series.iter().any(|series| matches!(series.shape, Shape::Area | Shape::Stack));
    let y_ends = if has_area { Ends::FromZero } else { Ends::Near };
    let y_count = ((bottom - top) / TICK_HEIGHT) as usize;
    let y = Scale::of(points().filter_map(|point| point.y), y_ends, y_count);
    let widths = y.ticks.iter().map(|tick| style.font.width(&y.label(*tick), SMALL));
    let left = MARGIN + TEXT * LEADING + widths.fold(0.0, f64::max) + 12.0;
    let frame = Frame { left, right: WIDTH - MARGIN - 12.0, top, bottom };
    let x = Scale::of(x, ends, ((frame.right - left) / TICK_WIDTH) as usize);

    let drawing = Drawing { style, chart, x, y, frame };
    parts.push(drawing.x_axis());
    parts.push(drawing.y_axis());
    // A column hides the parts of the next ones that are behind it.
    let (stacks, others): (Vec<_>, Vec<_>) =
        chart.series.iter().enumerate().partition(|(_, series)| series.shape == Shape::Stack);
    let in_order = stacks.into_iter().rev().chain(others);
    parts.extend(in_order.map(|(at, series)| drawing.series(at, series)));
    parts.extend(drawing.marks());
    parts.extend(drawing.labels());
    parts.push(subject(style));
    Scene {
        width: WIDTH,
        height: HEIGHT,
        title: chart.title.clone(),
        ground: style.theme.panel,
        parts,
    }
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
            Shape::Area | Shape::Stack => part.items.push(Item::Area {
                places: vec![(start, y - 11.0), (end, y - 11.0), (end, y), (start, y)],
                colour,
                opacity: if series.shape == Shape::Stack { 1.0 } else { 0.6 },
            }),
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
    fn place(&self, x: f64, y: f64) -> Place {
        (self.at_x(x), self.at_y(y))
    }

    fn at_x(&self, x: f64) -> f64 {
        self.frame.left + self.x.place(x) * (self.frame.right - self.frame.left)
    }

    fn at_y(&self, y: f64) -> f64 {
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
        let title = self.style.font.fitted(&title(&self.chart.x), TEXT, right - left);
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
        let title = self.style.font.fitted(&title(&self.chart.y), TEXT, bottom - top);
        let place = (MARGIN + TEXT * 0.6, f64::midpoint(top, bottom));
        part.items.push(Item::Text(Text {
            anchor: Anchor::Middle,
            is_upright: true,
            ..line_of_text(title, place, TEXT, theme.text)
        }));
        part
    }

    fn series(&self, at: usize, series: &Series) -> Part {
        let colour = colour(self.style.theme, at, series);
        let mut part = Part { name: Some(series.name.clone()), ..Part::new("series") };
        let dots =
            |places: Vec<Place>, radius, opacity| Item::Dots { places, radius, colour, opacity };
        let place = |(x, y): (f64, f64)| self.place(x, y);
        if series.shape == Shape::Points {
            let (radius, opacity) =
                if series.points.len() > MANY { (2.0, 0.4) } else { (3.5, 0.65) };
            let points = series.points.iter().filter_map(|point| Some((point.x, point.y?)));
            part.items.push(dots(points.map(place).collect(), radius, opacity));
            return part;
        }
        let pieces: Vec<Vec<(f64, f64)>> = pieces(series);
        for piece in &pieces {
            let corners = match series.shape {
                Shape::Line | Shape::Points => piece.clone(),
                Shape::Steps | Shape::Area | Shape::Stack => steps(piece),
            };
            let places: Vec<Place> = corners.into_iter().map(place).collect();
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
        let single: Vec<Place> = single.copied().map(place).collect();
        if !single.is_empty() {
            part.items.push(dots(single, 3.5, 1.0));
        }
        part
    }

    /// Returns the marked values of the x axis, with labels side by side above the chart.
    fn marks(&self) -> Option<Part> {
        let Frame { left, right, top, bottom } = self.frame;
        let colour = self.style.theme.faint;
        let mut part = Part::new("marks");
        let mut labels = Vec::new();
        for mark in &self.chart.marks {
            let x = self.at_x(mark.at);
            let label = format!("{} {} {}", mark.label, rounded(mark.at), self.chart.x.unit);
            let label = label.trim_end().to_owned();
            let width = self.style.font.width(&label, SMALL);
            labels.push((label, x, width));
            let places = vec![(x, top - 4.0), (x, bottom)];
            part.items.push(Item::Line(Line { places, colour, width: 1.0, is_dashed: true }));
        }
        labels.sort_by(|a, b| a.1.total_cmp(&b.1));
        let middles: Vec<(f64, f64)> = labels.iter().map(|(_, x, width)| (*x, *width)).collect();
        for ((label, ..), start) in labels.into_iter().zip(side_by_side(&middles, left, right)) {
            part.items.push(text(label, (start, top - 8.0), SMALL, colour));
        }
        (!part.items.is_empty()).then_some(part)
    }

    /// Returns the parts of all lines between two points.
    fn lines(&self) -> Vec<[Place; 2]> {
        let lines = self.chart.series.iter().filter(|series| series.shape == Shape::Line);
        let pieces = lines.flat_map(pieces);
        let parts = pieces.flat_map(|piece| {
            let places: Vec<Place> = piece.iter().map(|(x, y)| self.place(*x, *y)).collect();
            places.windows(2).map(|pair| [pair[0], pair[1]]).collect::<Vec<_>>()
        });
        parts.collect()
    }

    /// Returns the names of points, as far as there is room.
    fn labels(&self) -> Option<Part> {
        let mut part = Part::new("labels");
        let mut taken: Vec<Room> = Vec::new();
        let mut named: Vec<(Place, &str)> = Vec::new();
        for series in &self.chart.series {
            for (point, name) in series.points.iter().zip(&series.labels) {
                let Some(y) = point.y else { continue };
                let place = self.place(point.x, y);
                // A point can be in several series.
                if !named.contains(&(place, name)) {
                    named.push((place, name));
                    taken.push(Room::around(place, 4.0));
                }
            }
        }
        let lines = self.lines();
        for ((x, y), name) in named {
            let name = self.style.font.fitted(name, SMALL, MAX_NAME);
            let width = self.style.font.width(&name, SMALL);
            let (above, below, beside) = (y - 11.0, y + 9.0 + SMALL * 0.8, y + SMALL * 0.35);
            let (centred, before, after) = (x - width / 2.0, x - width - 9.0, x + 9.0);
            let places = [
                (centred, above),
                (after, beside),
                (before, beside),
                (centred, below),
                (before, above),
                (after, above),
                (before, below),
                (after, below),
            ];
            let room = |(start, base): (f64, f64)| {
                let (top, bottom) = (base - SMALL * 0.8 - HALO, base + SMALL * 0.25 + HALO);
                Room { left: start - HALO, right: start + width + HALO, top, bottom }
            };
            let is_free = |place: &&(f64, f64)| {
                let room = room(**place);
                room.is_in(self.frame) && !taken.iter().any(|other| room.overlaps(other))
            };
            let is_clear = |place: &&(f64, f64)| {
                is_free(place) && !lines.iter().any(|line| room(**place).is_crossed(line))
            };
            let place = places.iter().find(is_clear).or_else(|| places.iter().find(is_free));
            let Some(place) = place else { continue };
            taken.push(room(*place));
            part.items.push(Item::Text(Text {
                halo: Some(self.style.theme.panel),
                ..line_of_text(name, *place, SMALL, self.style.theme.faint)
            }));
        }
        (!part.items.is_empty()).then_some(part)
    }
}

/// The room of a label.
#[derive(Debug, Clone, Copy)]
struct Room {
    left: f64,
    right: f64,
    top: f64,
    bottom: f64,
}

impl Room {
    fn around((x, y): Place, space: f64) -> Self {
        Self { left: x - space, right: x + space, top: y - space, bottom: y + space }
    }

    fn is_in(&self, frame: Frame) -> bool {
        self.left >= frame.left
            && self.right <= frame.right
            && self.top >= frame.top
            && self.bottom <= frame.bottom
    }

    fn overlaps(&self, other: &Self) -> bool {
        self.left < other.right
            && other.left < self.right
            && self.top < other.bottom
            && other.top < self.bottom
    }

    /// Returns whether the line between two places is partly inside, by the algorithm of Liang and
    /// Barsky.
    fn is_crossed(&self, [from, to]: &[Place; 2]) -> bool {
        let (dx, dy) = (to.0 - from.0, to.1 - from.1);
        let (mut enters, mut leaves) = (0.0_f64, 1.0_f64);
        for (step, distance) in [
            (-dx, from.0 - self.left),
            (dx, self.right - from.0),
            (-dy, from.1 - self.top),
            (dy, self.bottom - from.1),
        ] {
            if step < 0.0 {
                enters = enters.max(distance / step);
            } else if step > 0.0 {
                leaves = leaves.min(distance / step);
            } else if distance < 0.0 {
                return false;
            }
        }
        enters < leaves
    }
}

/// Returns the starts of labels that are as near as possible to their middles without touching each
/// other, between `left` and `right`. Labels are given by their middle, in ascending order, and
/// their width.
fn side_by_side(labels: &[(f64, f64)], left: f64, right: f64) -> Vec<f64> {
    struct Group {
        /// Where each label would start the group.
        starts: Vec<f64>,
        widths: Vec<f64>,
    }
    impl Group {
        fn width(&self) -> f64 {
            self.widths.iter().sum::<f64>() + GAP * (self.widths.len() as f64 - 1.0)
        }

        fn start(&self, left: f64, right: f64) -> f64 {
            let mean = self.starts.iter().sum::<f64>() / self.starts.len() as f64;
            mean.min(right - self.width()).max(left)
        }
    }
    let mut groups: Vec<Group> = Vec::new();
    for (middle, width) in labels {
        let mut group = Group { starts: vec![middle - width / 2.0], widths: vec![*width] };
        // A group that touches the one before is joined with it.
        while let Some(before) = groups.pop() {
            let end = before.start(left, right) + before.width() + GAP;
            if end <= group.start(left, right) {
                groups.push(before);
                break;
            }
            let offset = before.width() + GAP;
            let starts = group.starts.iter().map(|start| start - offset);
            group.starts = before.starts.iter().copied().chain(starts).collect();
            group.widths = before.widths.iter().chain(&group.widths).copied().collect();
        }
        groups.push(group);
    }
    let placed = |group: &Group| {
        let mut next = group.start(left, right);
        let mut starts = Vec::new();
        for width in &group.widths {
            starts.push(next);
            next += width + GAP;
        }
        starts
    };
    groups.iter().flat_map(placed).collect()
}

/// Returns the chart with the height of each column as the sum of those below it, and with the ends of
/// the last columns.
fn stacked(chart: &Chart) -> Chart {
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
        if let [.., before, last] = series.points[..] {
            series.points.push(Point { x: 2.0 * last.x - before.x, y: last.y });
        } else if let [only] = series.points[..] {
            series.points.push(Point { x: only.x + 1.0, y: only.y });
        }
        series.labels.clear();
    }
    chart
}

/// Returns the runs of consecutive points that have a value. Steps end where the next value is
/// missing.
fn pieces(series: &Series) -> Vec<Vec<(f64, f64)>> {
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
fn steps(piece: &[(f64, f64)]) -> Vec<(f64, f64)> {
    let mut corners = Vec::with_capacity(2 * piece.len());
    for point in piece {
        if let Some((_, y)) = corners.last().copied() {
            corners.push((point.0, y));
        }
        corners.push(*point);
    }
    corners
}

fn colour(theme: &Theme, at: usize, series: &Series) -> Colour {
    match series.tone {
        Tone::Own => theme.series(at),
        Tone::Bad => theme.bad,
    }
}

fn title(axis: &Axis) -> String {
    if axis.unit.is_empty() {
        axis.title.clone()
    } else {
        format!("{} ({})", axis.title, axis.unit)
    }
}

fn text(text: String, at: Place, size: f64, colour: Colour) -> Item {
    Item::Text(line_of_text(text, at, size, colour))
}

fn line_of_text(text: String, at: Place, size: f64, colour: Colour) -> Text {
    Text { at, anchor: Anchor::Start, is_upright: false, size, colour, halo: None, content: text }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn labels_are_side_by_side() {
        // Apart, touching, and at the ends.
        assert_eq!(side_by_side(&[(100.0, 40.0), (200.0, 40.0)], 0.0, 300.0), [80.0, 180.0]);
        assert_eq!(side_by_side(&[(100.0, 40.0), (100.0, 40.0)], 0.0, 300.0), [54.0, 106.0]);
        assert_eq!(side_by_side(&[(0.0, 40.0), (300.0, 40.0)], 0.0, 300.0), [0.0, 260.0]);
        assert_eq!(
            side_by_side(&[(290.0, 40.0), (295.0, 40.0), (300.0, 40.0)], 0.0, 300.0),
            [156.0, 208.0, 260.0]
        );
        assert!(side_by_side(&[], 0.0, 300.0).is_empty());
    }

    #[test]
    fn lines_cross_rooms() {
        let room = Room::around((0.0, 0.0), 1.0);
        for (line, is_crossed) in [
            ([(-5.0, 0.0), (5.0, 0.0)], true),
            ([(-5.0, 2.0), (5.0, 2.0)], false),
            ([(0.5, 0.5), (0.6, 0.6)], true),
            ([(-3.0, 0.0), (0.0, 3.0)], false),
            ([(-1.5, 0.0), (0.0, 1.5)], true),
            ([(2.0, -5.0), (2.0, 5.0)], false),
        ] {
            assert_eq!(room.is_crossed(&line), is_crossed, "{line:?}");
        }
    }

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
        let drawn = stacked(&chart);
        let values = |at: usize| {
            let points = drawn.series[at].points.iter();
            points.map(|point| (point.x, point.y)).collect::<Vec<_>>()
        };
        let end = |y| (6.0, Some(y));
        let lower = [(0.0, Some(1.0)), (2.0, None), (4.0, Some(-1.0)), end(-1.0)];
        assert_eq!(values(0), lower);
        let upper = [(0.0, Some(3.0)), (2.0, None), (4.0, Some(-1.0)), end(-1.0)];
        assert_eq!(values(1), upper);
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
}
