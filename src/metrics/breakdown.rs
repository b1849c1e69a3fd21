//! Statistics of requests grouped by model, URL or worker.

mod workers;

use std::sync::Arc;

use super::accumulate::Accumulator;
use super::metric::{MetricResult, Observation};
use super::registry::Registry;
use crate::column::Store;
use crate::redact::ShownUrl;

pub use workers::Workers;
pub(crate) use workers::{MeanLatency, Pace, Worker};

/// Maximum number of groups; requests with further names are in the group [`OTHER`].
const MAX_GROUPS: usize = 64;

/// Name of the group for requests beyond the maximum.
const OTHER: &str = "_OTHER";

/// Accumulators by name, in the order in which the names were first seen.
#[derive(Debug)]
pub(crate) struct Breakdown {
    registry: Arc<Registry>,
    store: Store,
    groups: Vec<(Arc<str>, Accumulator)>,
}

/// The results of one group.
#[derive(Debug, Clone)]
pub(crate) struct GroupResult {
    /// The model or URL of its requests.
    pub(crate) name: Arc<str>,
    /// The results of its requests, in catalogue order.
    pub(crate) results: Vec<MetricResult>,
}

impl Breakdown {
    /// Creates a breakdown without requests, whose values will be in `store`.
    #[must_use]
    pub(crate) const fn new(registry: Arc<Registry>, store: Store) -> Self {
        Self { registry, store, groups: Vec::new() }
    }

    /// Adds a request to the group `name`; returns the index of the group.
    pub(crate) fn observe(&mut self, name: &Arc<str>, observation: &Observation) -> usize {
        let at = self.groups.iter().position(|(known, _)| known == name).unwrap_or_else(|| {
            if self.groups.len() <= MAX_GROUPS {
                let is_last = self.groups.len() == MAX_GROUPS;
                let name = if is_last { Arc::from(OTHER) } else { Arc::clone(name) };
                let registry = Arc::clone(&self.registry);
                self.groups.push((name, Accumulator::keeping_in(self.store.clone(), registry)));
            }
            self.groups.len() - 1
        });
        self.groups[at].1.observe(observation);
        at
    }

    /// Returns the results of each group. Rates are relative to the time from the group's own
    /// first request to its last response.
    #[must_use]
    pub(crate) fn results(&self) -> Vec<GroupResult> {
        let of = |(name, values): &(Arc<str>, Accumulator)| GroupResult {
            name: Arc::clone(name),
            results: values.results(),
        };
        self.groups.iter().map(of).collect()
    }
}

/// The breakdowns of a run. Those by model and URL exist only if the run has several.
#[derive(Debug, Default)]
pub(crate) struct Breakdowns {
    pub(crate) by_model: Option<Breakdown>,
    pub(crate) by_url: Option<Breakdown>,
    /// By the worker that the server names in its responses.
    pub(crate) by_worker: Option<Breakdown>,
    /// The requests of each group of `by_worker`.
    workers: Vec<workers::Requests>,
}

/// The results of [`Breakdowns`]; empty if there is only one group.
#[derive(Debug, Clone, Default)]
pub struct BreakdownResults {
    pub(crate) by_model: Vec<GroupResult>,
    pub(crate) by_url: Vec<GroupResult>,
    pub(crate) by_worker: Vec<GroupResult>,
    /// The workers compared with each other, if there are several.
    pub(crate) workers: Option<Workers>,
}

impl Breakdowns {
    /// Creates the breakdowns for a run with these numbers of models and URLs, whose values will be
    /// in `store`.
    #[must_use]
    pub(crate) fn new(registry: &Arc<Registry>, store: &Store, models: usize, urls: usize) -> Self {
        let of = |count| (count > 1).then(|| Breakdown::new(Arc::clone(registry), store.clone()));
        let by_worker = Some(Breakdown::new(Arc::clone(registry), store.clone()));
        Self { by_model: of(models), by_url: of(urls), by_worker, workers: Vec::new() }
    }

    /// Adds a request, which `worker` answered if the server names it.
    pub(crate) fn observe(
        &mut self,
        model: &Arc<str>,
        url: &ShownUrl,
        worker: Option<&Arc<str>>,
        observation: &Observation,
    ) {
        if let Some(by_model) = &mut self.by_model {
            by_model.observe(model, observation);
        }
        if let Some(by_url) = &mut self.by_url {
            by_url.observe(url.text(), observation);
        }
        if let (Some(by_worker), Some(worker)) = (&mut self.by_worker, worker) {
            let at = by_worker.observe(worker, observation);
            if at == self.workers.len() {
                self.workers.push(workers::Requests::new(by_worker.store.clone()));
            }
            self.workers[at].add(observation);
        }
    }

    /// Returns the results of all groups.
    #[must_use]
    pub(crate) fn results(&self) -> BreakdownResults {
        let of =
            |found: &Option<Breakdown>| found.as_ref().map_or_else(Vec::new, Breakdown::results);
        let mut by_worker = of(&self.by_worker);
        if by_worker.len() < 2 {
            by_worker.clear();
        }
        // Those that do not have a group of their own cannot be compared.
        let is_whole = !by_worker.is_empty() && by_worker.len() <= MAX_GROUPS;
        let workers = is_whole.then(|| workers::compare(&self.workers, &by_worker));
        let (by_model, by_url) = (of(&self.by_model), of(&self.by_url));
        BreakdownResults { by_model, by_url, by_worker, workers }
    }
}
