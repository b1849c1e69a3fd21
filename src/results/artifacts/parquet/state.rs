//! What servers and GPUs report at the time of a request: the last sample at or before its start.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Arc;

use client::server_family::{self, InServer, SeriesKind, Watched};
use measure::server_metrics::store::{EndpointStore, Store, Values};

use crate::artifacts::gpu::table::power;

/// A quantity that requests are joined with.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum State {
    /// The requests in the batches of all servers.
    Running,
    /// The requests in their queues.
    Waiting,
    /// The share of their KV caches in use, on average.
    KvCache,
    /// The power of all GPUs.
    GpuPower,
}

impl State {
    pub(super) const ALL: [Self; 4] = [Self::Running, Self::Waiting, Self::KvCache, Self::GpuPower];

    /// Returns the name of its column.
    pub(super) const fn column(self) -> &'static str {
        match self {
            Self::Running => "server_running_at_start",
            Self::Waiting => "server_waiting_at_start",
            Self::KvCache => "server_kv_cache_usage_at_start",
            Self::GpuPower => "gpu_power_at_start",
        }
    }

    /// Returns its unit as in the file's metadata.
    pub(super) const fn unit(self) -> &'static str {
        match self {
            Self::Running | Self::Waiting => "requests",
            Self::KvCache => "ratio",
            Self::GpuPower => "W",
        }
    }

    fn is(self, watched: &Watched) -> bool {
        match self {
            Self::Running => watched.counts == Some(InServer::Running),
            Self::Waiting => watched.counts == Some(InServer::Waiting),
            Self::KvCache => watched.is_kv_cache,
            Self::GpuPower => false,
        }
    }
}

/// The samples of the servers and of the GPUs.
#[derive(Debug, Default)]
pub(in crate::artifacts) struct Observed {
    pub(in crate::artifacts) servers: Arc<Store>,
    /// The file of the samples of GPUs, which need not exist.
    pub(in crate::artifacts) gpu_lines: PathBuf,
}

impl Observed {
    /// Returns the values of `state` over time.
    pub(super) fn over_time(&self, state: State) -> Timeline {
        let series = match state {
            // A file that cannot be read is reported where its table is made.
            State::GpuPower => power(&self.gpu_lines).unwrap_or_default(),
            _ => gauges(&self.servers, state),
        };
        Timeline::new(&series, state == State::KvCache)
    }
}

/// Samples in ascending order of time.
pub(in crate::artifacts) type Samples = Vec<(u64, f64)>;

/// Returns the samples of each series of the first known gauge for `state` that a server has.
fn gauges(store: &Store, state: State) -> Vec<Samples> {
    let watched = server_family::ALL.iter().flat_map(|family| family.watched);
    let mut names = watched
        .filter(|watched| state.is(watched))
        .flat_map(|watched| std::iter::once(watched.name).chain(watched.earlier));
    let samples = |name: &str| -> Vec<Samples> {
        store.endpoints().iter().flat_map(|endpoint| of_endpoint(endpoint, name)).collect()
    };
    names.find_map(|name| Some(samples(name)).filter(|found| !found.is_empty())).unwrap_or_default()
}

fn of_endpoint(endpoint: &EndpointStore, name: &str) -> Vec<Samples> {
    let scrapes = endpoint.scrapes();
    let is_it = |kind, of: &str| kind == SeriesKind::Gauge && of == name;
    let families = endpoint.families.iter().filter(|family| is_it(family.kind, &family.name));
    families
        .flat_map(|family| &family.series)
        .filter_map(|series| match &series.values {
            Values::Number(column) => {
                let samples = column.iter(0..scrapes.len());
                Some(samples.map(|(at, value)| (scrapes[at].first_byte_ns, value)).collect())
            }
            _ => None,
        })
        .collect()
}

/// Values, each of which holds until the next.
#[derive(Debug, PartialEq)]
pub(super) struct Timeline(Samples);

impl Timeline {
    /// Adds up the last values of `series` at the time of each sample, or averages them.
    fn new(series: &[Samples], is_mean: bool) -> Self {
        let mut changes: BTreeMap<u64, Vec<(usize, f64)>> = BTreeMap::new();
        for (number, samples) in series.iter().enumerate() {
            for (time, value) in samples {
                changes.entry(*time).or_default().push((number, *value));
            }
        }
        let mut last = vec![None; series.len()];
        let total = |(time, changed): (u64, Vec<(usize, f64)>)| {
            for (number, value) in changed {
                last[number] = Some(value);
            }
            let known = || last.iter().flatten();
            let divisor = if is_mean { known().count() as f64 } else { 1.0 };
            (time, known().sum::<f64>() / divisor)
        };
        Self(changes.into_iter().map(total).collect())
    }

    /// Returns the value at `time`; `None` before the first sample.
    pub(super) fn at(&self, time: i64) -> Option<f64> {
        let time = u64::try_from(time).ok()?;
        let after = self.0.partition_point(|(from, _)| *from <= time);
        Some(self.0.get(after.checked_sub(1)?)?.1)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_sample_at_or_before_a_time_holds() {
        let series = [vec![(10, 1.0), (20, 3.0)], vec![(15, 0.5), (20, 1.5)]];
        let sum = Timeline::new(&series, false);
        assert_eq!(
            [9, 10, 14, 15, 19, 20, 99].map(|time| sum.at(time)),
            [None, Some(1.0), Some(1.0), Some(1.5), Some(1.5), Some(4.5), Some(4.5)]
        );
        let mean = Timeline::new(&series, true);
        assert_eq!([14, 15, 20].map(|time| mean.at(time)), [Some(1.0), Some(0.75), Some(2.25)]);
        assert_eq!(Timeline::new(&[], true).at(5), None);
    }
}
