//! The intervals of points: bars with ends, or a band along a line.

use super::draw::{Drawing, Frame, colour, pieces, steps};
use super::scene::{Item, Part, Position};
use crate::report::chart::{Interval, Point, Series, Shape, Spread};

/// Half of the width of the end of a bar.
const CAP: f64 = 4.0;
/// Width of the lines of a bar.
const WIDTH: f64 = 1.5;
/// Opacity of a band.
const BAND: f32 = 0.22;

impl Drawing<'_> {
    /// Returns the intervals of the points of the series at the position `at`.
    pub(super) fn intervals(&self, at: usize, series: &Series) -> Option<Part> {
        let colour = colour(self.style.theme, at, series);
        let mut part = Part { name: Some(series.name.clone()), ..Part::new("intervals") };
        for ([from, to], (across, along)) in self.bars(series) {
            let [start, end] = [from, to].map(|end| self.cut(end));
            part.line(vec![start, end], colour, WIDTH);
            // An end outside of the chart is cut off.
            for (x, y) in [from, to].into_iter().filter(|end| self.cut(*end) == *end) {
                part.line(vec![(x - across, y - along), (x + across, y + along)], colour, WIDTH);
            }
        }
        if series.spread == Spread::Band {
            let (lower, upper) = (self.edge(series, |it| it.low), self.edge(series, |it| it.high));
            for (lower, upper) in lower.into_iter().zip(upper) {
                let places = lower.into_iter().chain(upper.into_iter().rev()).collect();
                part.items.push(Item::Area { places, colour, opacity: BAND });
            }
        }
        (!part.items.is_empty()).then_some(part)
    }

    /// Returns the bars of a series, each with half of the width of its ends to the right and up.
    fn bars(&self, series: &Series) -> Vec<([Position; 2], Position)> {
        let points = || series.points.iter().map(|point| Some((point.x, point.y?)));
        let of_x = known(points(), &series.x_intervals).map(|((_, y), interval)| {
            ([interval.low, interval.high].map(|x| self.place(x, y)), (0.0, CAP))
        });
        let of_y = known(points(), &series.intervals).map(|((x, _), interval)| {
            ([interval.low, interval.high].map(|y| self.place(x, y)), (CAP, 0.0))
        });
        let of_y = of_y.filter(|_| series.spread == Spread::Bars);
        of_x.chain(of_y).collect()
    }

    /// Returns the visible parts of all bars.
    pub(super) fn all_bars(&self) -> impl Iterator<Item = [Position; 2]> {
        let bars = self.chart.series.iter().flat_map(|series| self.bars(series));
        bars.map(|(bar, _)| bar.map(|end| self.cut(end)))
    }

    /// Returns the pieces of an edge of a band.
    fn edge(&self, series: &Series, end: fn(&Interval) -> f64) -> Vec<Vec<Position>> {
        let points = series.points.iter().zip(&series.intervals);
        let points = points.map(|(point, interval)| Point {
            x: point.x,
            y: point.y.and(interval.as_ref().map(end)),
        });
        let edge = Series::new("", series.shape, points.collect());
        let corners =
            |piece: Vec<_>| if series.shape == Shape::Line { piece } else { steps(&piece) };
        let places = |piece| {
            let corners = corners(piece).into_iter();
            corners.map(|(x, y)| self.cut(self.place(x, y))).collect()
        };
        pieces(&edge).into_iter().map(places).collect()
    }

    /// Returns the nearest place inside of the frame.
    fn cut(&self, (x, y): Position) -> Position {
        let Frame { left, right, top, bottom } = self.frame;
        (x.clamp(left, right), y.clamp(top, bottom))
    }
}

/// Returns the points with a known interval.
fn known<'a>(
    points: impl Iterator<Item = Option<(f64, f64)>> + 'a,
    intervals: &'a [Option<Interval>],
) -> impl Iterator<Item = ((f64, f64), Interval)> + 'a {
    points.zip(intervals).filter_map(|(point, interval)| Some((point?, (*interval)?)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::report::chart::{Axis, Chart, Mark, Start};
    use crate::report::plot::draw::{Style, draw};
    use crate::report::plot::font::Font;
    use crate::report::plot::scene::Scene;

    /// A chart whose axes have round ends, so that places can be computed by hand.
    fn chart_with_everything() -> Chart {
        let interval = |low, high| Some(Interval { low, high });
        let points = vec![Point::new(1.0, 20.0), Point::new(3.0, 60.0), Point::new(5.0, 80.0)];
        let mut bars = Series::new("bars", Shape::Line, points.clone())
            .within(vec![interval(10.0, 40.0), None, interval(70.0, 900.0)], Spread::Bars);
        bars.x_intervals = vec![interval(0.5, 1.5), None, None];
        bars.labels = ["one", "three", "five"].map(str::to_owned).to_vec();
        bars.named = vec![0, 2];
        let band = vec![interval(0.0, 40.0), interval(40.0, f64::INFINITY), None];
        let band = Series::new("band", Shape::Line, points).within(band, Spread::Band);
        Chart {
            name: "everything".to_owned(),
            title: "Everything".to_owned(),
            note: String::new(),
            x: Axis::new("x", "m"),
            y: Axis::new("y", "s"),
            series: vec![bars, band],
            marks: vec![
                Mark::x(4.0, "knee").within(interval(3.0, 5.0)),
                Mark::y(100.0, "objective"),
            ],
            is_timeline: false,
        }
    }

    fn drawn(chart: &Chart) -> Scene {
        let font = Font::embedded().unwrap();
        let theme = crate::report::theme::ThemeName::Light.theme();
        draw(chart, 0.0, &Style { font: &font, theme, subject: "test" })
    }

    /// Returns the lines of the parts of a class.
    fn lines_of<'a>(scene: &'a Scene, class: &str) -> Vec<&'a [Position]> {
        let parts = scene.parts.iter().filter(|part| part.class == class);
        let line = |item: &'a Item| match item {
            Item::Line(line) => Some(line.places.as_slice()),
            _ => None,
        };
        parts.flat_map(|part| &part.items).filter_map(line).collect()
    }

    /// Returns the areas of the parts of a class.
    fn areas_of<'a>(scene: &'a Scene, class: &str) -> Vec<&'a [Position]> {
        let parts = scene.parts.iter().filter(|part| part.class == class);
        let area = |item: &'a Item| match item {
            Item::Area { places, .. } => Some(places.as_slice()),
            _ => None,
        };
        parts.flat_map(|part| &part.items).filter_map(area).collect()
    }

    #[test]
    fn intervals_are_bars_and_bands_and_marks_are_lines() {
        let scene = drawn(&chart_with_everything());
        // The axes from their grid lines: x from 0 to 5, and y from 0 to 200, which is twice the
        // largest value; the interval until 900 does not make it longer.
        let [x_lines, y_lines] = ["x axis", "y axis"].map(|class| lines_of(&scene, class));
        let (left, right) = (y_lines[0][0].0 + 5.0, y_lines[0][1].0);
        let (top, bottom) = (x_lines[0][0].1, x_lines[0][1].1 - 5.0);
        let place =
            |x: f64, y: f64| (left + x / 5.0 * (right - left), bottom - y / 200.0 * (bottom - top));
        let same = |found: &[Position], expected: &[Position]| {
            let pairs = found.iter().zip(expected);
            let near = |((a, b), (c, d)): (&Position, &Position)| {
                (a - c).abs() < 1e-6 && (b - d).abs() < 1e-6
            };
            assert!(
                found.len() == expected.len() && pairs.clone().all(near),
                "{found:?} instead of {expected:?}"
            );
        };
        let end = |(x, y): Position, (dx, dy): (f64, f64)| [(x - dx, y - dy), (x + dx, y + dy)];
        let (wide, high) = ((4.0, 0.0), (0.0, 4.0));
        let bars = lines_of(&scene, "intervals");
        let expected = [
            [place(0.5, 20.0), place(1.5, 20.0)],
            end(place(0.5, 20.0), high),
            end(place(1.5, 20.0), high),
            [place(1.0, 10.0), place(1.0, 40.0)],
            end(place(1.0, 10.0), wide),
            end(place(1.0, 40.0), wide),
            // Cut off, so without an upper end.
            [place(5.0, 70.0), place(5.0, 200.0)],
            end(place(5.0, 70.0), wide),
        ];
        assert_eq!(bars.len(), expected.len());
        bars.iter().zip(&expected).for_each(|(found, expected)| same(found, expected));
        let bands = areas_of(&scene, "intervals");
        assert_eq!(bands.len(), 1);
        let corners = [place(1.0, 0.0), place(3.0, 40.0), place(3.0, 200.0), place(1.0, 40.0)];
        same(bands[0], &corners);
        let marks = lines_of(&scene, "marks");
        assert_eq!(marks.len(), 2);
        same(marks[0], &[(place(4.0, 0.0).0, top - 4.0), place(4.0, 0.0)]);
        same(marks[1], &[place(0.0, 100.0), place(5.0, 100.0)]);
        let shades = areas_of(&scene, "shades");
        assert_eq!(shades.len(), 1);
        let shade = [place(3.0, 200.0), place(5.0, 200.0), place(5.0, 0.0), place(3.0, 0.0)];
        same(shades[0], &shade);
        let picture = crate::report::plot::svg::file(&scene);
        for text in [">knee 4 (3 to 5) m<", ">objective 100 s<", ">one<", ">five<", ">x (m)<"] {
            assert!(picture.contains(text), "{text}: {picture}");
        }
        assert!(!picture.contains(">three<"), "{picture}");
        // The name of the first point covers neither of its bars.
        let labels = scene.parts.iter().filter(|part| part.class == "labels");
        let named = labels.flat_map(|part| &part.items).find_map(|item| match item {
            Item::Text(text) if text.content == "one" => Some(text),
            _ => None,
        });
        let (start, base) = named.unwrap().at;
        let end = start + Font::embedded().unwrap().width("one", 13.0);
        let (x, y) = place(1.0, 20.0);
        assert!((start > x || end < x) && (base < y || base - 13.0 * 0.8 > y), "{start}, {base}");
        insta::assert_snapshot!(picture);
    }

    #[test]
    fn an_axis_that_does_not_start_at_zero_says_so() {
        let mut chart = chart_with_everything();
        chart.series.truncate(1);
        chart.series[0].points = vec![Point::new(80.0, 5.0), Point::new(99.0, 500.0)];
        chart.series[0].intervals.clear();
        chart.series[0].x_intervals.clear();
        chart.marks.clear();
        let titles = |x: Start, y: Start| {
            let (x, y) = (chart.x.clone().from(x), chart.y.clone().from(y));
            let picture = crate::report::plot::svg::file(&drawn(&Chart { x, y, ..chart.clone() }));
            let title = |start: &str| {
                let (_, rest) = picture.split_once(start).unwrap();
                format!("{start}{}", rest.split_once('<').unwrap().0)
            };
            [title(">x (m)"), title(">y (s)")]
        };
        assert_eq!(titles(Start::Zero, Start::Zero), [">x (m)", ">y (s)"]);
        assert_eq!(titles(Start::Near, Start::Log), [">x (m), from 80", ">y (s), logarithmic"]);
        // Zero is near.
        assert_eq!(titles(Start::Zero, Start::Near), [">x (m)", ">y (s)"]);
    }
}
