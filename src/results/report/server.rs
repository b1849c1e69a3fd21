//! The charts of server metrics.

use client::server_family::SeriesKind;
use measure::server_metrics::report::ServerMetrics;
use measure::server_metrics::store::{EndpointStore, Labels, Values};
use measure::server_metrics::watch::{self, WatchedMetric};

use super::chart::{Axis, Chart, Point, Series, Shape};

/// Maximum number of series of a metric.
const MAX_SERIES: usize = 8;
/// Maximum number of points of a series.
const MAX_POINTS: usize = 2000;

/// Returns a chart for each important gauge of the known servers, for the time from `start_ns` to
/// `end_ns`.
pub(super) fn charts(metrics: &ServerMetrics, start_ns: u64, end_ns: u64) -> Vec<Chart> {
    let families = watch::families(&metrics.report);
    let shown = families.iter().flat_map(|(_, shown)| shown);
    let gauges = shown.filter(|shown| shown.metric.kind == SeriesKind::Gauge);
    gauges.map(|shown| chart(metrics, shown, start_ns, end_ns)).collect()
}

fn chart(metrics: &ServerMetrics, shown: &WatchedMetric<'_>, start_ns: u64, end_ns: u64) -> Chart {
    let endpoints = metrics.store.endpoints();
    let WatchedMetric { watched, metric } = *shown;
    let mut all: Vec<Series> = Vec::new();
    for endpoint in endpoints {
        let named = endpoint.families.iter();
        let families =
            named.filter(|family| family.name == metric.name && family.kind == metric.kind);
        for series in families.flat_map(|family| &family.series) {
            let Values::Number(column) = &series.values else { continue };
            let point = |(scrape, value): (usize, f64)| {
                let at = endpoint.scrapes().get(scrape)?.first_byte_ns;
                let is_inside = (start_ns..=end_ns).contains(&at);
                is_inside.then(|| Point::new((at - start_ns) as f64 / 1e9, watched.shown(value)))
            };
            let points = column.iter(0..endpoint.scrapes().len()).filter_map(point).collect();
            let name = name(endpoint, &series.labels, endpoints.len() > 1);
            all.push(Series::new(name, Shape::Steps, thinned(points)));
        }
    }
    let more = all.len().saturating_sub(MAX_SERIES);
    all.truncate(MAX_SERIES);
    let more = if more > 0 { format!("; {more} more series are not shown") } else { String::new() };
    Chart {
        name: metric.name.replace(|c: char| !c.is_ascii_alphanumeric(), "_"),
        title: metric.name.to_string(),
        note: format!("{}{more}", watched.meaning),
        x: Axis::time(),
        y: Axis::new("Value", watched.shown_unit().or(metric.unit.as_deref()).unwrap_or_default()),
        series: all,
        marks: Vec::new(),
        is_timeline: true,
    }
}

fn name(endpoint: &EndpointStore, labels: &Labels, has_many: bool) -> String {
    let labels: Vec<String> =
        labels.iter().map(|(name, value)| format!("{name}={value}")).collect();
    let labels = labels.join(", ");
    match (has_many, labels.is_empty()) {
        (true, true) => endpoint.url.to_string(),
        (true, false) => format!("{} {labels}", endpoint.url),
        (false, true) => "value".to_owned(),
        (false, false) => labels,
    }
}

/// Keeps the lowest and the highest of each group of consecutive points if there are many.
fn thinned(points: Vec<Point>) -> Vec<Point> {
    if points.len() <= MAX_POINTS {
        return points;
    }
    let length = points.len().div_ceil(MAX_POINTS / 2);
    let extremes = |group: &[Point]| {
        let value = |at: &usize| group[*at].y.unwrap_or(f64::NAN);
        let low = (0..group.len()).min_by(|a, b| value(a).total_cmp(&value(b)));
        let high = (0..group.len()).max_by(|a, b| value(a).total_cmp(&value(b)));
        let mut kept: Vec<usize> = low.into_iter().chain(high).collect();
        kept.sort_unstable();
        kept.dedup();
        kept.into_iter().map(|at| group[at]).collect::<Vec<_>>()
    };
    points.chunks(length).flat_map(extremes).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn many_points_keep_their_extremes() {
        let mut points: Vec<Point> = (0..10_000).map(|at| Point::new(f64::from(at), 1.0)).collect();
        points[4321].y = Some(9.0);
        points[8765].y = Some(-9.0);
        let kept = thinned(points.clone());
        assert!(kept.len() <= MAX_POINTS, "{}", kept.len());
        assert!(kept.contains(&points[4321]) && kept.contains(&points[8765]));
        assert!(kept.windows(2).all(|pair| pair[0].x < pair[1].x));
    }
}
