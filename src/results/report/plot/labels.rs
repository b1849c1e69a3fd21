//! The marked values and the names of points in a picture, none of which covers another.

use super::draw::{Drawing, Frame, line_of_text, pieces, text};
use super::scene::{HALO, Item, Line, Part, Position, Text};
use crate::report::chart::{Interval, Mark, MarkedAxis, Shape};

/// Font size of labels.
const SIZE: f64 = 13.0;
/// Maximum width of the name of a point.
const MAX_NAME: f64 = 320.0;
/// Space between neighbouring labels.
const GAP: f64 = 12.0;
/// Width of a label that is worth its room.
const LEAST: f64 = 40.0;
/// Places at a distance from a line that are tried for its label, and the space between two of them.
const STEPS: u32 = 40;
const STEP: f64 = SIZE;
/// Opacity of the area where a marked value can be.
const SHADE: f32 = 0.14;

impl Drawing<'_> {
    /// Returns the areas where marked values can be, behind everything.
    pub(super) fn shades(&self) -> Option<Part> {
        let Frame { left, right, top, bottom } = self.frame;
        let colour = self.style.theme.faint;
        let mut part = Part::new("shades");
        for mark in &self.chart.marks {
            let Some(Interval { low, high }) = mark.interval else { continue };
            let places = match mark.on {
                MarkedAxis::X => {
                    let [low, high] = [low, high].map(|end| self.at_x(end).clamp(left, right));
                    vec![(low, top), (high, top), (high, bottom), (low, bottom)]
                }
                MarkedAxis::Y => {
                    let [low, high] = [low, high].map(|end| self.at_y(end).clamp(top, bottom));
                    vec![(left, low), (right, low), (right, high), (left, high)]
                }
            };
            part.items.push(Item::Area { places, colour, opacity: SHADE });
        }
        (!part.items.is_empty()).then_some(part)
    }

    /// Returns the marked values: those of the x axis with labels side by side above the chart, those
    /// of the y axis with labels at an end of their line, which are added to `taken`.
    pub(super) fn marks(&self, taken: &mut Vec<Room>) -> Option<Part> {
        let Frame { left, right, top, bottom } = self.frame;
        let colour = self.style.theme.faint;
        let mut part = Part::new("marks");
        let line = |places| Item::Line(Line { places, colour, width: 1.0, is_dashed: true });
        let font = self.style.font;
        let mut labels = Vec::new();
        for mark in self.marked(MarkedAxis::X) {
            let x = self.at_x(mark.at);
            let label = mark.text(&self.chart.x.unit);
            let width = font.width(&label, SIZE);
            labels.push((label, x, width));
            part.items.push(line(vec![(x, top - 4.0), (x, bottom)]));
        }
        let all = right - left + GAP;
        labels.truncate((all / (LEAST + GAP)) as usize);
        if labels.iter().map(|(.., width)| width + GAP).sum::<f64>() > all {
            let share = all / labels.len() as f64 - GAP;
            for (label, _, width) in &mut labels {
                *label = font.fitted(label, SIZE, share);
                *width = font.width(label, SIZE);
            }
        }
        labels.sort_by(|a, b| a.1.total_cmp(&b.1));
        let middles: Vec<(f64, f64)> = labels.iter().map(|(_, x, width)| (*x, *width)).collect();
        for ((label, ..), start) in labels.into_iter().zip(side_by_side(&middles, left, right)) {
            part.items.push(text(label, (start, top - 8.0), SIZE, colour));
        }
        let lines = self.lines();
        for mark in self.marked(MarkedAxis::Y) {
            let y = self.at_y(mark.at);
            part.items.push(line(vec![(left, y), (right, y)]));
            let label = font.fitted(&mark.text(&self.chart.y.unit), SIZE, MAX_NAME);
            let width = font.width(&label, SIZE);
            let (first, last) = (left + 6.0, right - width - 6.0);
            // As near as possible to the line.
            let steps = (0..STEPS).map(|step| f64::from(step) * STEP);
            let places: Vec<Position> = steps
                .flat_map(|step| {
                    let (above, below) = (y - 6.0 - step, y + 6.0 + SIZE * 0.8 + step);
                    [(last, above), (first, above), (last, below), (first, below)]
                })
                .collect();
            let room = |place: Position| Room::new(place, width);
            let is_free = |place: &&Position| room(**place).is_free(self.frame, taken);
            let is_clear = |place: &&Position| {
                is_free(place) && !lines.iter().any(|line| room(**place).is_crossed(line))
            };
            let nearest = places[..4].iter().find(is_clear);
            let place = nearest.or_else(|| places.iter().find(is_free));
            let Some(place) = place.copied() else { continue };
            taken.push(room(place));
            part.items.push(Item::Text(Text {
                halo: Some(self.style.theme.panel),
                ..line_of_text(label, place, SIZE, colour)
            }));
        }
        (!part.items.is_empty()).then_some(part)
    }

    fn marked(&self, on: MarkedAxis) -> impl Iterator<Item = &Mark> {
        self.chart.marks.iter().filter(move |mark| mark.on == on)
    }

    /// Returns the parts of all lines between two points, and all bars.
    fn lines(&self) -> Vec<[Position; 2]> {
        let lines = self.chart.series.iter().filter(|series| series.shape == Shape::Line);
        let pieces = lines.flat_map(pieces);
        let parts = pieces.flat_map(|piece| {
            let places: Vec<Position> = piece.iter().map(|(x, y)| self.place(*x, *y)).collect();
            places.windows(2).map(|pair| [pair[0], pair[1]]).collect::<Vec<_>>()
        });
        parts.chain(self.all_bars()).collect()
    }

    /// Returns the names of points, as far as there is room beside what is `taken`.
    pub(super) fn labels(&self, mut taken: Vec<Room>) -> Option<Part> {
        let mut part = Part::new("labels");
        let mut named: Vec<(Position, &str)> = Vec::new();
        for series in &self.chart.series {
            for (at, (point, name)) in series.points.iter().zip(&series.labels).enumerate() {
                let Some(y) = point.y else { continue };
                let place = self.place(point.x, y);
                taken.push(Room::around(place, 4.0));
                // A point can be in several series.
                if series.named.contains(&at) && !named.contains(&(place, name)) {
                    named.push((place, name));
                }
            }
        }
        let lines = self.lines();
        for ((x, y), name) in named {
            let name = self.style.font.fitted(name, SIZE, MAX_NAME);
            let width = self.style.font.width(&name, SIZE);
            let (above, below, beside) = (y - 11.0, y + 9.0 + SIZE * 0.8, y + SIZE * 0.35);
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
            let room = |place: Position| Room::new(place, width);
            let is_free = |place: &&Position| room(**place).is_free(self.frame, &taken);
            let is_clear = |place: &&Position| {
                is_free(place) && !lines.iter().any(|line| room(**place).is_crossed(line))
            };
            let place = places.iter().find(is_clear).or_else(|| places.iter().find(is_free));
            let Some(place) = place else { continue };
            taken.push(room(*place));
            part.items.push(Item::Text(Text {
                halo: Some(self.style.theme.panel),
                ..line_of_text(name, *place, SIZE, self.style.theme.faint)
            }));
        }
        (!part.items.is_empty()).then_some(part)
    }
}

/// The room of a label.
#[derive(Debug, Clone, Copy)]
pub(super) struct Room {
    left: f64,
    right: f64,
    top: f64,
    bottom: f64,
}

impl Room {
    /// The room of a label of this width, whose baseline starts at a place.
    fn new((start, base): Position, width: f64) -> Self {
        let (top, bottom) = (base - SIZE * 0.8 - HALO, base + SIZE * 0.25 + HALO);
        Self { left: start - HALO, right: start + width + HALO, top, bottom }
    }

    /// Returns whether it is inside of `frame` and apart from all that is `taken`.
    fn is_free(&self, frame: Frame, taken: &[Self]) -> bool {
        self.is_in(frame) && !taken.iter().any(|other| self.overlaps(other))
    }

    fn around((x, y): Position, space: f64) -> Self {
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
    fn is_crossed(&self, [from, to]: &[Position; 2]) -> bool {
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::report::chart::{Axis, Chart, Point, Series};
    use crate::report::plot::draw::{Style, draw};
    use crate::report::plot::font::Font;

    /// Values that are nearly or exactly the same, at an end, or many.
    #[test]
    fn labels_of_close_marks_are_apart_and_inside() {
        let font = Font::embedded().unwrap();
        let theme = crate::report::theme::ThemeName::Light.theme();
        let mark_at = |on, at: f64, label: &str| {
            let mark = if on == MarkedAxis::X { Mark::x(at, label) } else { Mark::y(at, label) };
            mark.within(Some(Interval { low: at - 0.11, high: at + 0.11 }))
        };
        let percentiles = ["p50", "p90", "p95", "p99"];
        let sets: [Vec<(&str, f64)>; 5] = [
            percentiles.map(|label| (label, 20.0)).to_vec(),
            (0..)
                .zip(percentiles)
                .map(|(at, label)| (label, 99.98 + f64::from(at) * 1e-4))
                .collect(),
            [("knee", 67.9), ("limit", 67.95), ("objective of each request", 67.9)].to_vec(),
            (0..12).map(|at| ("percentile with a long name", f64::from(at) * 0.01)).collect(),
            (0..300).map(|at| ("p99.99", 50.0 + f64::from(at) * 0.01)).collect(),
        ];
        for (set, on) in sets.iter().flat_map(|set| [(set, MarkedAxis::X), (set, MarkedAxis::Y)]) {
            let points = vec![Point::new(0.0, 0.0), Point::new(100.0, 100.0)];
            let mut series = Series::new("all", Shape::Line, points);
            series.labels = ["first", "last"].map(str::to_owned).to_vec();
            series.named = vec![0, 1];
            let chart = Chart {
                name: String::new(),
                title: "Close".to_owned(),
                note: String::new(),
                x: Axis::new("x", "requests/s"),
                y: Axis::new("y", "ms"),
                series: vec![series],
                marks: set.iter().map(|(label, at)| mark_at(on, *at, label)).collect(),
                is_timeline: false,
            };
            let scene = draw(&chart, 0.0, &Style { font: &font, theme, subject: "" });
            let texts = scene.parts.iter().filter(|part| ["marks", "labels"].contains(&part.class));
            let rooms: Vec<(Room, &str)> = texts
                .flat_map(|part| &part.items)
                .filter_map(|item| match item {
                    Item::Text(text) => Some(text),
                    _ => None,
                })
                .map(|text| (Room::new(text.at, font.width(&text.content, SIZE)), &*text.content))
                .collect();
            assert!(rooms.len() >= set.len().min(12), "{} of {} labels", rooms.len(), set.len());
            let picture = Frame { left: 0.0, right: scene.width, top: 0.0, bottom: scene.height };
            for (at, (room, text)) in rooms.iter().enumerate() {
                assert!(room.is_in(picture), "{text:?} at {room:?}");
                for (other, others) in &rooms[..at] {
                    assert!(!room.overlaps(other), "{text:?} at {room:?}, {others:?} at {other:?}");
                }
            }
        }
    }

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
}
