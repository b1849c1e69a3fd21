//! The stages of requests: those of the slowest ones, and means over the time of the run.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::{Value, json};

use measure::metrics::Registry;
use measure::metrics::time_breakdown::Stage;

use super::Run;
use crate::console::Term;
use crate::report::chart::{Axis, Chart, Point, Series, Shape, axis};
use crate::report::document::Table;
use crate::report::requests::Request;
use crate::report::stages::Divided;

/// Number of requests in the chart of the slowest ones.
const BARS: usize = 20;
/// Number of characters of a request's ID in the chart.
const ID: usize = 8;

impl Run<'_> {
    /// Returns the charts of stages; none if no server reported any.
    pub(super) fn stages(&self) -> Vec<Chart> {
        let over_time = self.stages.means.iter().filter_map(|(latency, means)| {
            let metric = Registry::row(*latency)?;
            let series = means
                .stages()
                .into_iter()
                .map(|stage| Series::new(stage.title(), Shape::Stack, means.points(stage)));
            Some(Chart {
                name: format!("{latency}_stages_over_time"),
                title: format!("{} by stage", Term::for_metric(metric).name),
                note: format!(
                    "Means of the requests that started in an interval and whose server reported \
                     stages; they add up to the mean of these requests. Intervals of {}",
                    self.intervals.described()
                ),
                x: Axis::time(),
                y: axis(metric),
                series: series.collect(),
                marks: Vec::new(),
                is_timeline: true,
            })
        });
        over_time.chain(self.slowest_stages()).collect()
    }

    /// Returns the slowest requests with their stages, slowest first.
    fn slowest(&self) -> impl Iterator<Item = (usize, &Request, &Divided)> {
        self.sample.slowest.iter().filter_map(|at| {
            let request = self.sample.shown.get(at)?;
            Some((*at, request, self.stages.shown.get(&request.row)?))
        })
    }

    /// Returns the chart of the slowest requests.
    fn slowest_stages(&self) -> Option<Chart> {
        let places = self.places();
        let slowest: Vec<_> = self.slowest().take(BARS).collect();
        let stages: BTreeSet<Stage> =
            slowest.iter().flat_map(|(_, _, divided)| divided.parts.keys().copied()).collect();
        if stages.is_empty() {
            return None;
        }
        let bars = |name: &str, value: &dyn Fn(&Request, &Divided) -> Option<f64>| {
            let points = slowest.iter().zip(1..).map(|((_, request, divided), rank)| Point {
                x: f64::from(rank),
                y: value(request, divided),
            });
            let mut series = Series::new(name, Shape::Stack, points.collect());
            series.labels = slowest.iter().map(|(_, _, divided)| label(divided)).collect();
            series.requests =
                slowest.iter().filter_map(|(at, ..)| places.get(at).copied()).collect();
            series
        };
        let by_stage = stages
            .iter()
            .map(|stage| bars(stage.title(), &|_, divided| divided.parts.get(stage).copied()));
        let undivided = bars("Undivided", &|request, divided| {
            request.latency.filter(|_| divided.parts.is_empty())
        });
        let mut series: Vec<Series> = by_stage.chain([undivided]).collect();
        series.retain(|series| series.points.iter().any(|point| point.y.is_some()));
        Some(Chart {
            name: "slowest_requests_by_stage".to_owned(),
            title: "Slowest requests by stage".to_owned(),
            note: "Each request with its worker, if the server names it; without the server's \
                   report, a request is undivided"
                .to_owned(),
            x: Axis::new("Request, slowest first", ""),
            y: Axis::new("Request latency", "ms"),
            series,
            marks: Vec::new(),
            is_timeline: false,
        })
    }

    /// Returns the values of the charts of stages.
    pub(super) fn stage_tables(&self) -> Vec<Table> {
        let places = self.places();
        let slowest: Vec<_> = self.slowest().collect();
        let stages: BTreeSet<Stage> =
            slowest.iter().flat_map(|(_, _, divided)| divided.parts.keys().copied()).collect();
        let columns = |first: &[&str], stages: &BTreeSet<Stage>| {
            let first = first.iter().map(|name| (*name).to_owned());
            first.chain(stages.iter().map(|stage| format!("{} (ms)", stage.title()))).collect()
        };
        let mut tables = Vec::new();
        if !stages.is_empty() {
            let row = |(_, request, divided): &(usize, &Request, &Divided)| {
                let own = stages.iter().map(|stage| json!(divided.parts.get(stage)));
                let first = [json!(divided.id), json!(divided.worker), json!(request.latency)];
                first.into_iter().chain(own).collect()
            };
            tables.push(Table {
                title: "Stages of the slowest requests".to_owned(),
                note: "The stages add up to the latency.".to_owned(),
                columns: columns(&["Request", "Worker", "Latency (ms)"], &stages),
                rows: slowest.iter().map(row).collect(),
                requests: slowest.iter().filter_map(|(at, ..)| places.get(at).copied()).collect(),
            });
        }
        for (latency, means) in &self.stages.means {
            let Some(metric) = Registry::row(*latency) else { continue };
            let stages = means.stages();
            let of_stages: Vec<Vec<Point>> =
                stages.iter().map(|stage| means.points(*stage)).collect();
            let rows = means.counts().enumerate().filter(|(_, count)| *count > 0);
            let row = |(at, count): (usize, u64)| -> Option<Vec<Value>> {
                let start = of_stages.first()?.get(at)?.x;
                let values = of_stages.iter().map(|points| json!(points[at].y));
                Some([json!(start), json!(count)].into_iter().chain(values).collect())
            };
            tables.push(Table {
                title: format!("{} by stage, over time", Term::for_metric(metric).name),
                note: String::new(),
                columns: columns(&["Start (s)", "Requests"], &stages),
                rows: rows.filter_map(row).collect(),
                requests: Vec::new(),
            });
        }
        tables
    }

    /// Returns the place of each shown request on the page.
    pub(super) fn places(&self) -> BTreeMap<usize, u32> {
        self.sample.shown.keys().copied().zip(0..).collect()
    }
}

/// Returns the start of a request's ID, and its worker.
fn label(divided: &Divided) -> String {
    let id: String = divided.id.chars().take(ID).collect();
    match &divided.worker {
        Some(worker) => format!("{id} {worker}"),
        None => id,
    }
}
