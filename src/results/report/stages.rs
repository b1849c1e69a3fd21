//! The stages of requests, read from `profile_export.parquet` by column.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use parquet::errors::ParquetError;

use measure::metrics::tag::{MetricTag, REQUEST_LATENCY};
use measure::metrics::time_breakdown::{DIVIDED, Stage, parts};

use super::chart::Point;
use super::requests::millis;
use super::timeline::Intervals;
use crate::artifacts::Table;

/// The stages of the requests of the profiling phase whose server reported any.
#[derive(Debug, Default)]
pub(super) struct Stages {
    /// The means of each interval, by the latency that they divide.
    pub(super) means: Vec<(MetricTag, Means)>,
    /// The requests that are shown one by one, by their row in the table.
    pub(super) shown: BTreeMap<u64, Divided>,
}

/// The parts of the latency of one request.
#[derive(Debug, Default)]
pub(super) struct Divided {
    /// `x_request_id`.
    pub(super) id: String,
    /// The worker that answered, if the server names it.
    pub(super) worker: Option<String>,
    /// The time of each part in milliseconds; empty if the server did not report any.
    pub(super) parts: BTreeMap<Stage, f64>,
}

/// Mean parts of a latency by the interval in which requests start.
#[derive(Debug)]
pub(super) struct Means {
    intervals: Intervals,
    /// The number of requests of each interval, and the sums of their parts in milliseconds.
    sums: Vec<(u64, BTreeMap<Stage, f64>)>,
}

impl Stages {
    /// Reads the table at `path` of a phase that started at `start_ns`. The requests in the rows
    /// `shown` are kept.
    pub(super) fn read(
        path: &Path,
        start_ns: u64,
        intervals: Intervals,
        shown: &BTreeSet<u64>,
    ) -> Result<Self, ParquetError> {
        let mut found = Self::default();
        for latency in DIVIDED {
            found.read_latency(latency, path, start_ns, intervals, shown)?;
        }
        Ok(found)
    }

    fn read_latency(
        &mut self,
        latency: MetricTag,
        path: &Path,
        start_ns: u64,
        intervals: Intervals,
        shown: &BTreeSet<u64>,
    ) -> Result<(), ParquetError> {
        let mut means = Means { intervals, sums: intervals.each(|| (0, BTreeMap::new())) };
        let stages: Vec<_> = parts(latency).collect();
        let mut before = 0;
        for group in Table::open(path)?.groups() {
            let group = group?;
            let phase = group.texts("benchmark_phase")?;
            let starts = group.integers("request_start_ns")?;
            let worker = group.texts("server_worker_id")?;
            let id = group.texts("x_request_id")?;
            let values = stages.iter().map(|(_, tag)| group.numbers(tag.name()));
            let values = values.collect::<Result<Vec<_>, _>>()?;
            for row in 0..group.rows() {
                let Some(started) =
                    starts[row].filter(|_| phase[row].as_deref() == Some("profiling"))
                else {
                    continue;
                };
                let of_row = stages.iter().zip(&values);
                let mut parts: BTreeMap<Stage, f64> = of_row
                    .filter_map(|((stage, _), values)| {
                        Some((*stage, stage.part_of_latency(values[row]?)))
                    })
                    .collect();
                if !parts.keys().any(|stage| stage.is_decode()) {
                    parts.remove(&Stage::EndToken);
                }
                // The client's own times are known of every request.
                if !parts.contains_key(&Stage::Unattributed) {
                    parts.clear();
                }
                let start = millis(i128::from(started) - i128::from(start_ns));
                means.add(start, &parts);
                let row_in_table = before + row as u64;
                if latency == REQUEST_LATENCY && shown.contains(&row_in_table) {
                    let (id, worker) = (id[row].clone().unwrap_or_default(), worker[row].clone());
                    self.shown.insert(row_in_table, Divided { id, worker, parts });
                }
            }
            before += group.rows() as u64;
        }
        if !means.stages().is_empty() {
            self.means.push((latency, means));
        }
        Ok(())
    }
}

impl Means {
    fn add(&mut self, start_ms: f64, parts: &BTreeMap<Stage, f64>) {
        let Some((count, sums)) = self.sums.get_mut(self.intervals.at(start_ms)) else { return };
        *count += u64::from(!parts.is_empty());
        for (stage, ms) in parts {
            *sums.entry(*stage).or_default() += ms;
        }
    }

    /// Returns the stages of any request, in order of time.
    pub(super) fn stages(&self) -> BTreeSet<Stage> {
        self.sums.iter().flat_map(|(_, sums)| sums.keys().copied()).collect()
    }

    /// Returns the mean of a stage over the requests of each interval with stages: those that lack this
    /// one count as 0, so that the means of all stages add up.
    pub(super) fn points(&self, stage: Stage) -> Vec<Point> {
        let mean = |(count, sums): &(u64, BTreeMap<Stage, f64>)| {
            let sum = sums.get(&stage).copied().unwrap_or(0.0);
            (*count > 0).then(|| sum / *count as f64)
        };
        self.intervals.points(self.sums.iter().map(mean))
    }

    /// Returns the number of requests with stages of each interval.
    pub(super) fn counts(&self) -> impl Iterator<Item = u64> + '_ {
        self.sums.iter().map(|(count, _)| *count)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn means_of_an_interval_add_up() {
        let intervals = Intervals::up_to(0.25, 0, 0.0);
        let mut means = Means { intervals, sums: intervals.each(|| (0, BTreeMap::new())) };
        means.add(0.0, &BTreeMap::from([(Stage::Queue, 4.0), (Stage::Decode, 8.0)]));
        means.add(0.1, &BTreeMap::from([(Stage::Decode, 2.0)]));
        means.add(0.1, &BTreeMap::new());
        assert_eq!(means.stages(), BTreeSet::from([Stage::Queue, Stage::Decode]));
        // Two requests with 14 ms.
        assert_eq!(means.points(Stage::Queue), [Point::new(0.0, 2.0)]);
        assert_eq!(means.points(Stage::Decode), [Point::new(0.0, 5.0)]);
        assert_eq!(means.counts().collect::<Vec<_>>(), [2]);
    }

    #[test]
    fn an_interval_without_reports_is_a_gap() {
        let intervals = Intervals::up_to(200.0, 0, 0.0);
        let mut means = Means { intervals, sums: intervals.each(|| (0, BTreeMap::new())) };
        means.add(110.0, &BTreeMap::from([(Stage::Queue, 4.0)]));
        assert_eq!(means.points(Stage::Queue), [Point { x: 0.0, y: None }, Point::new(0.1, 4.0)]);
    }
}
