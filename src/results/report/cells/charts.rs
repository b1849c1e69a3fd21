//! The charts of the cells.

use std::collections::BTreeSet;

use measure::metrics::metric::Objective;
use measure::metrics::time_breakdown::Stage;
use measure::metrics::{Metric, MetricTag, Registry, tag};
use measure::multi_run::Filter;

use super::{Cell, Comparison, MAX_DISTRIBUTIONS};
use crate::console::Term;
use crate::report::chart::{
    Axis, Chart, Interval, Mark, MarkedAxis, Point, Series, Shape, Spread, Start, axis, rounded,
};
use crate::report::run::LATENCIES;
use crate::tables::cells::{COMPARED, Compared};

/// Objectives above this multiple of the largest value are only in the note.
const FAR: f64 = 3.0;
/// Axes of loads with a greater ratio of their ends are logarithmic.
const WIDE: f64 = 20.0;

/// A statistic of a cell, divided by the cell's number of GPUs if `is_per_gpu`.
#[derive(Clone, Copy)]
struct Statistic {
    tag: MetricTag,
    name: &'static str,
    is_per_gpu: bool,
}

impl Statistic {
    const fn new(tag: MetricTag, name: &'static str) -> Self {
        Self { tag, name, is_per_gpu: false }
    }

    fn share(self, cell: &Cell) -> f64 {
        if self.is_per_gpu { cell.gpus.max(1) as f64 } else { 1.0 }
    }

    fn value(self, cell: &Cell) -> Option<f64> {
        Some(cell.value(self.tag, self.name)? / self.share(cell))
    }

    fn interval(self, cell: &Cell) -> Option<Interval> {
        let share = self.share(cell);
        let mut interval = cell.interval(self.tag, self.name)?;
        interval.low /= share;
        interval.high /= share;
        Some(interval)
    }

    /// Its name, such as `Time to first token p99`.
    fn title(self, metric: &Metric) -> String {
        let statistic = if self.name == "avg" { String::new() } else { format!(" {}", self.name) };
        let per_gpu = if self.is_per_gpu { " per GPU" } else { "" };
        format!("{}{statistic}{per_gpu}", Term::for_metric(metric).name)
    }

    fn axis(self, metric: &Metric) -> Axis {
        Axis { title: self.title(metric), ..axis(metric) }
    }
}

impl Comparison {
    /// Returns throughput by the latency to the first token and by the rate that a user sees, with the
    /// objectives.
    pub(super) fn choices(&self) -> Vec<Chart> {
        let is_per_gpu = self.cells.iter().all(|cell| cell.gpus > 0);
        let throughput =
            Statistic { is_per_gpu, ..Statistic::new(tag::OUTPUT_TOKEN_THROUGHPUT, "avg") };
        let latency = Statistic::new(self.latency(), "p99");
        let user = Statistic::new(tag::OUTPUT_TOKEN_THROUGHPUT_PER_USER, "avg");
        let by_latency = self.trade_off("output_throughput_by_latency", latency, throughput);
        let by_user = self.trade_off("output_throughput_by_interactivity", user, throughput);
        let by_user = by_user.map(|chart| {
            let per_gpu = if is_per_gpu { " per GPU" } else { "" };
            let title =
                format!("Output tokens/s{per_gpu} by interactivity (output tokens/s per user)");
            let front = self.front(user, throughput, self.best_of_both(user, throughput));
            Chart { title, series: chart.series.into_iter().chain(front).collect(), ..chart }
        });
        by_latency.into_iter().chain(by_user).collect()
    }

    /// Returns charts of latencies by request throughput.
    pub(super) fn trade_offs(&self) -> Vec<Chart> {
        let throughput = Statistic::new(tag::REQUEST_THROUGHPUT, "avg");
        let chart = |(tag, _): &(MetricTag, _)| {
            let latency = Statistic::new(*tag, "p99");
            let mut chart = self.trade_off(&format!("{tag}_by_throughput"), throughput, latency)?;
            // The front is that of the latency by which the sweep compares its cells.
            if *tag == self.latency() {
                let on_front = self.cells.iter().filter(|cell| cell.row.is_pareto);
                chart.series.extend(self.front(throughput, latency, on_front));
            }
            Some(chart)
        };
        LATENCIES.iter().filter_map(chart).collect()
    }

    /// Returns the throughput by the mean time to first token, as AIPerf draws it.
    pub(super) fn by_first_token(&self) -> Option<Chart> {
        let first = Statistic::new(tag::TIME_TO_FIRST_TOKEN, "avg");
        let throughput = Statistic::new(tag::REQUEST_THROUGHPUT, "avg");
        self.trade_off("ttft_vs_throughput", first, throughput)
    }

    /// Returns a chart of two statistics of each cell, joined in the order of their loads.
    fn trade_off(&self, name: &str, x: Statistic, y: Statistic) -> Option<Chart> {
        let (x_metric, y_metric) = (Registry::row(x.tag)?, Registry::row(y.tag)?);
        let mut series = Vec::new();
        for (line, cells) in self.lines() {
            let shape = if self.is_joined() { Shape::Line } else { Shape::Points };
            let mut one = Series::new(line, shape, Vec::new());
            let known = cells.iter().filter(|it| x.value(it).is_some() && y.value(it).is_some());
            let known: Vec<&&Cell> = known.collect();
            for (at, cell) in known.iter().enumerate() {
                let (Some(x_value), Some(y_value)) = (x.value(cell), y.value(cell)) else {
                    continue;
                };
                one.points.push(Point::new(x_value, y_value));
                one.labels.push(cell.label.clone());
                one.x_intervals.push(x.interval(cell));
                one.intervals.push(y.interval(cell));
                let is_end = at == 0 || at + 1 == known.len();
                let is_answer = self.answers.iter().any(|it| Some(it.mark.at) == cell.place);
                if is_end || is_answer || cell.row.is_pareto || !self.is_joined() {
                    one.named.push(at);
                }
            }
            series.push(without_unknown(one));
        }
        if !self.has_trade_offs || !has_two_dimensions(&series) {
            return None;
        }
        let joined = if self.is_joined() {
            format!("Joined by {}", self.axis.title.to_lowercase())
        } else {
            String::new()
        };
        let mut chart = Chart {
            name: name.to_owned(),
            title: format!("{} by {}", y.title(y_metric), lower(&x.title(x_metric))),
            note: joined,
            x: x.axis(x_metric),
            y: y.axis(y_metric),
            series,
            marks: Vec::new(),
            is_timeline: false,
        };
        chart.marks.extend(self.knee(MarkedAxis::X, x));
        chart.marks.extend(self.knee(MarkedAxis::Y, y));
        self.mark_objectives(&mut chart, MarkedAxis::X, &[x]);
        self.mark_objectives(&mut chart, MarkedAxis::Y, &[y]);
        Some(chart)
    }

    /// Returns the throughput at which it stops growing, if an axis shows it: in output tokens, by the
    /// tokens of a request in the nearest cell.
    fn knee(&self, on: MarkedAxis, statistic: Statistic) -> Option<Mark> {
        let answer = self.answers.iter().find(|answer| answer.throughput.is_some())?;
        let estimate = answer.throughput?;
        let distance = |cell: &Cell| Some((cell.place? - answer.mark.at).abs());
        let known = self.cells.iter().filter_map(|cell| Some((distance(cell)?, cell)));
        let (_, nearest) = known.min_by(|(a, _), (b, _)| a.total_cmp(b))?;
        let factor = match statistic.tag {
            tag::REQUEST_THROUGHPUT => 1.0,
            tag::OUTPUT_TOKEN_THROUGHPUT => {
                statistic.value(nearest)? / nearest.value(tag::REQUEST_THROUGHPUT, "avg")?
            }
            _ => return None,
        };
        let [low, high] = estimate.interval().map(|end| end * factor);
        let mark = if on == MarkedAxis::X { Mark::x } else { Mark::y };
        let mark = mark(estimate.value * factor, "knee".to_owned());
        Some(mark.within(Some(Interval { low, high })))
    }

    /// Returns the cells of which no other one is at least as high in both statistics and higher in one.
    fn best_of_both(&self, x: Statistic, y: Statistic) -> impl Iterator<Item = &Cell> {
        let place = move |cell: &Cell| Some((x.value(cell)?, y.value(cell)?));
        let is_beaten = move |(x, y): (f64, f64)| {
            self.cells.iter().filter_map(place).any(|(a, b)| a >= x && b >= y && (a > x || b > y))
        };
        self.cells.iter().filter(move |cell| place(cell).is_some_and(|at| !is_beaten(at)))
    }

    /// Returns the cells `on_front`, which is a Pareto front, from the lowest to the highest `x`.
    fn front<'a>(
        &self,
        x: Statistic,
        y: Statistic,
        on_front: impl Iterator<Item = &'a Cell>,
    ) -> Option<Series> {
        let point =
            |cell: &Cell| Some((Point::new(x.value(cell)?, y.value(cell)?), cell.label.clone()));
        let mut front: Vec<(Point, String)> = on_front.filter_map(point).collect();
        front.sort_by(|a, b| a.0.x.total_cmp(&b.0.x));
        let (points, labels): (Vec<_>, Vec<_>) = front.into_iter().unzip();
        // The line of the loads is enough.
        let shape = if self.is_joined() { Shape::Points } else { Shape::Line };
        let front = Series { labels, ..Series::new("Pareto front", shape, points) };
        (!front.points.is_empty()).then_some(front)
    }

    /// Marks the objectives of the `statistics` that an axis shows.
    fn mark_objectives(&self, chart: &mut Chart, on: MarkedAxis, statistics: &[Statistic]) {
        let is_x = on == MarkedAxis::X;
        let points = chart.series.iter().flat_map(|series| &series.points);
        let values = points.filter_map(|point| if is_x { Some(point.x) } else { point.y });
        let most = values.fold(0.0, f64::max);
        let is_shown = |tag, name: Option<&str>| {
            let is_it = |it: &&Statistic| it.tag == tag && name.is_none_or(|name| it.name == name);
            statistics.iter().filter(|it| !it.is_per_gpu).any(|it| is_it(&it))
        };
        let of_filter = |filter: &Filter| {
            let Filter { metric, statistic, threshold, .. } = filter;
            let label = format!("{statistic} objective");
            let label = if statistics.len() > 1 { label } else { "objective".to_owned() };
            is_shown(*metric, Some(statistic)).then_some((*threshold, label))
        };
        let of_request = |objective: &Objective| {
            let label = "objective of each request".to_owned();
            is_shown(objective.tag, None).then_some((objective.threshold, label))
        };
        let filters = self.objectives.iter().filter_map(of_filter);
        for (threshold, label) in filters.chain(self.of_requests.iter().filter_map(of_request)) {
            if threshold > most * FAR {
                let unit = if is_x { &chart.x.unit } else { &chart.y.unit };
                let text = format!("The {label}, {} {unit}, is outside", rounded(threshold));
                chart.note = join(&chart.note, &text);
                continue;
            }
            let mark = if is_x { Mark::x } else { Mark::y };
            chart.marks.push(mark(threshold, label));
        }
    }

    /// Returns a chart of each metric by cell.
    pub(super) fn curves(&self) -> Vec<Chart> {
        let of_metric = |compared: &[&Compared]| {
            let tag = compared.first()?.tag;
            let metric = Registry::row(tag)?;
            let statistics: Vec<Statistic> =
                compared.iter().map(|it| Statistic::new(tag, it.statistic)).collect();
            let mut series = Vec::new();
            for statistic in &statistics {
                for (line, cells) in self.lines() {
                    let name = match (self.has_lines(), statistics.len()) {
                        (false, _) => statistic.name.to_owned(),
                        (true, 1) => line,
                        (true, _) => format!("{line}, {}", statistic.name),
                    };
                    series.push(self.curve(name, &cells, |cell| {
                        Some((statistic.value(cell)?, statistic.interval(cell)))
                    }));
                }
            }
            let name = format!("{tag}_by_cell");
            let mut chart = self.by_cell(name, Term::for_metric(metric).name, axis(metric), series);
            self.mark_objectives(&mut chart, MarkedAxis::Y, &statistics);
            Some(chart)
        };
        let compared: Vec<&Compared> = COMPARED.iter().filter(|it| !it.is_steady).collect();
        let metrics = compared.chunk_by(|a, b| a.tag == b.tag);
        let mut charts: Vec<Chart> = metrics.filter_map(of_metric).collect();
        let title = "Parts of the mean request latency";
        let y = Axis::new("Mean time", "ms");
        let parts = self.by_cell("time_breakdown_by_cell".to_owned(), title, y, self.parts());
        let note = join(&parts.note, "The parts of a cell add up to its mean request latency");
        charts.push(Chart { note, ..parts });
        charts
    }

    /// Returns a chart by the load of the cells, in which the answers are marked, or by their numbers.
    fn by_cell(&self, name: String, title: &str, y: Axis, series: Vec<Series>) -> Chart {
        let x = if self.is_joined() {
            let places = || self.cells.iter().filter_map(|cell| cell.place);
            let low = places().fold(f64::INFINITY, f64::min);
            let is_wide = low > 0.0 && places().fold(0.0, f64::max) / low > WIDE;
            self.axis.clone().from(if is_wide { Start::Log } else { Start::Zero })
        } else {
            Axis::new("Number of the cell", "")
        };
        let answers = self.answers.iter().filter(|_| self.is_joined());
        Chart {
            name,
            title: title.to_owned(),
            note: String::new(),
            x,
            y,
            series,
            marks: answers.map(|answer| answer.mark.clone()).collect(),
            is_timeline: false,
        }
    }

    /// Returns a line of the values, with intervals, of `cells`.
    fn curve(
        &self,
        name: String,
        cells: &[&Cell],
        of: impl Fn(&Cell) -> Option<(f64, Option<Interval>)>,
    ) -> Series {
        let mut series = Series::new(name, Shape::Line, Vec::new());
        for cell in cells {
            if let Some((y, interval)) = of(cell) {
                series.points.push(Point::new(self.place(cell), y));
                series.intervals.push(interval);
                // The axis says which load it is.
                if !self.is_joined() {
                    series.named.push(series.labels.len());
                }
                series.labels.push(cell.label.clone());
            }
        }
        series.spread = Spread::Bars;
        without_unknown(series)
    }

    /// Returns the place of a cell on the axis of the cells.
    fn place(&self, cell: &Cell) -> f64 {
        let number = self.cells.iter().position(|other| std::ptr::eq(other, cell));
        let number = number.map_or(0.0, |at| at as f64 + 1.0);
        cell.place.filter(|_| self.is_joined()).unwrap_or(number)
    }

    /// Returns the parts of the mean request latency of the cells.
    fn parts(&self) -> Vec<Series> {
        let parts = self.cells.iter().flat_map(|cell| &cell.divided).flat_map(|it| &it.parts);
        let stages: BTreeSet<Stage> = parts.map(|part| part.stage).collect();
        let series = stages.into_iter().flat_map(|stage| {
            self.lines().into_iter().map(move |(line, cells)| {
                let name = stage.title().to_owned();
                let name = if self.has_lines() { format!("{line}, {name}") } else { name };
                self.curve(name, &cells, |cell| {
                    let parts = cell.divided.iter().flat_map(|divided| &divided.parts);
                    let part = parts.into_iter().find(|part| part.stage == stage)?;
                    Some((part.mean_ms.mean, None))
                })
            })
        });
        series.collect()
    }

    /// Returns the distributions of each latency, side by side.
    pub(super) fn distributions(&self) -> Vec<Chart> {
        let shown = self.cells.iter().take(MAX_DISTRIBUTIONS);
        let all = shown.map(|cell| (&*cell.name, cell.distributions.as_slice()));
        distributions(&all, self.cells.len().saturating_sub(MAX_DISTRIBUTIONS), "cells")
    }

    /// Returns the latency that the Pareto front is about.
    fn latency(&self) -> MetricTag {
        let first = tag::TIME_TO_FIRST_TOKEN;
        let has_first = self.cells.iter().any(|cell| cell.value(first, "p99").is_some());
        if has_first { first } else { tag::REQUEST_LATENCY }
    }
}

/// Returns a chart of each latency with its distributions of `all`, which have names and are so many fewer
/// than all `what` as `left_out`.
pub(in crate::report) fn distributions<'a>(
    all: &(impl Iterator<Item = (&'a str, &'a [Vec<Point>])> + Clone),
    left_out: usize,
    what: &str,
) -> Vec<Chart> {
    let note = match left_out {
        0 => String::new(),
        more => format!("The first {MAX_DISTRIBUTIONS} {what}; {more} more are not shown"),
    };
    let chart = |(at, (tag, _)): (usize, &(MetricTag, _))| {
        let metric = Registry::row(*tag)?;
        let series = all.clone().filter_map(|(name, distributions)| {
            let points = distributions.get(at).filter(|points| !points.is_empty())?;
            Some(Series::new(name, Shape::Line, points.clone()))
        });
        Some(Chart {
            name: format!("{tag}_cdf"),
            title: format!("{}: share of requests below a value", Term::for_metric(metric).name),
            note: note.clone(),
            x: axis(metric).from(Start::Near),
            y: Axis::new("Requests", "%"),
            series: series.collect(),
            marks: Vec::new(),
            is_timeline: false,
        })
    };
    LATENCIES.iter().enumerate().filter_map(chart).collect()
}

/// Returns whether both values of the points vary.
fn has_two_dimensions(series: &[Series]) -> bool {
    let points = || series.iter().flat_map(|series| &series.points);
    let Some(first) = points().next() else { return false };
    points().any(|point| point.x != first.x) && points().any(|point| point.y != first.y)
}

/// Leaves out intervals of which none is known.
fn without_unknown(mut series: Series) -> Series {
    for intervals in [&mut series.intervals, &mut series.x_intervals] {
        if intervals.iter().all(Option::is_none) {
            intervals.clear();
        }
    }
    series
}

/// Returns two sentences as one note; the full stop at its end is added where it is shown.
fn join(note: &str, more: &str) -> String {
    if note.is_empty() { more.to_owned() } else { format!("{note}. {more}") }
}

/// Returns a title as it is within one, in lower case unless it is an abbreviation.
pub(super) fn lower(title: &str) -> String {
    let word = |word: &str| {
        let is_name = word.chars().skip(1).any(char::is_uppercase);
        if is_name { word.to_owned() } else { word.to_lowercase() }
    };
    title.split(' ').map(word).collect::<Vec<_>>().join(" ")
}
