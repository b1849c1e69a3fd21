//! Statistics of requests grouped by model, URL, worker, tenant, turn or phase.

mod levels;
mod phases;
mod tenants;
pub(super) mod turns;
mod workers;

use std::sync::Arc;

use serde::Deserialize;

use base::column::Store;
use base::redact::ShownUrl;
use client::endpoint::EndpointTraits;

use super::accumulate::Accumulator;
use super::metric::{MetricResult, Objective, Observation, Settings, Statistic};
use super::registry::Registry;
use super::tag::{self, MetricTag};

pub use levels::Levels;
pub use phases::{PhaseResult, PhaseTimes, Recovery, asked_rate};
pub use tenants::{Counted, Entitled, Tenant, Tenants};
pub use workers::{MeanLatency, Pace, Worker, Workers};

/// Maximum number of groups; requests with further names are in the group [`OTHER`].
const MAX_GROUPS: usize = 64;

/// Name of the group for requests beyond the maximum.
const OTHER: &str = "_OTHER";

/// Accumulators by name, in the order in which the names were first seen.
#[derive(Debug)]
pub struct Breakdown {
    registry: Arc<Registry>,
    store: Store,
    groups: Vec<(Arc<str>, Accumulator)>,
}

/// The results of one group.
#[derive(Debug, Clone)]
pub struct GroupResult {
    /// The property that its requests share, such as their model.
    pub name: Arc<str>,
    /// The results of its requests, in catalogue order.
    pub results: Vec<MetricResult>,
}

impl GroupResult {
    /// Returns a statistic of a metric, in the metric's display unit.
    #[must_use]
    pub fn value(&self, tag: MetricTag, statistic: &str) -> Option<f64> {
        let result = self.results.iter().find(|result| result.metric.tag == tag)?;
        Statistic::named(statistic)?.value_in(&result.stats).filter(|value| value.is_finite())
    }
}

impl Breakdown {
    /// Creates a breakdown without requests, whose values will be in `store`.
    #[must_use]
    pub const fn new(registry: Arc<Registry>, store: Store) -> Self {
        Self { registry, store, groups: Vec::new() }
    }

    /// Adds a request to the group `name`; returns the index of the group.
    pub fn observe(&mut self, name: &Arc<str>, observation: &Observation) -> usize {
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
    pub fn results(&self) -> Vec<GroupResult> {
        let group_result = |(name, values): &(Arc<str>, Accumulator)| GroupResult {
            name: Arc::clone(name),
            results: values.results(),
        };
        self.groups.iter().map(group_result).collect()
    }
}

/// Accumulators of tenants, each of which may have objectives of its own.
#[derive(Debug, Default)]
pub struct TenantBreakdown {
    entitled: Vec<Entitled>,
    groups: Vec<(Arc<Registry>, Accumulator)>,
}

impl TenantBreakdown {
    /// Creates the accumulators of `tenants`, whose values will be in `store`. A tenant without
    /// objectives has those of `registry`.
    #[must_use]
    pub fn for_tenants(
        tenants: &[TenantSetup],
        registry: &Arc<Registry>,
        endpoint: &'static EndpointTraits,
        streaming: bool,
        store: &Store,
    ) -> Self {
        let group = |tenant: &TenantSetup| {
            let objectives = tenant.objectives.clone();
            let settings = || Settings { objectives, ..registry.settings().clone() };
            // Objectives are checked before the run.
            let own = (!tenant.objectives.is_empty())
                .then(|| Registry::new(settings(), endpoint, streaming).ok())
                .flatten();
            let registry = own.map_or_else(|| Arc::clone(registry), Arc::new);
            (Arc::clone(&registry), Accumulator::keeping_in(store.clone(), registry))
        };
        Self {
            entitled: tenants.iter().map(|tenant| tenant.entitled.clone()).collect(),
            groups: tenants.iter().map(group).collect(),
        }
    }

    /// Adds a request of the tenant `name`, judged by its own objectives.
    fn observe(&mut self, name: &str, observation: &Observation) {
        let Some(at) = self.entitled.iter().position(|tenant| tenant.name == *name) else { return };
        let (registry, values) = &mut self.groups[at];
        let mut observation = observation.clone();
        registry.judge(&mut observation);
        values.observe(&observation);
    }

    /// Returns the results of each tenant.
    fn results(&self) -> Vec<GroupResult> {
        let tenant_result = |(tenant, (_, values)): (&Entitled, &(Arc<Registry>, Accumulator))| {
            GroupResult { name: tenant.name.as_str().into(), results: values.results() }
        };
        self.entitled.iter().zip(&self.groups).map(tenant_result).collect()
    }
}

/// The settings on which the results of a tenant depend.
#[derive(Debug, Clone, PartialEq, Deserialize)]
pub struct TenantSetup {
    #[serde(flatten)]
    entitled: Entitled,
    #[serde(default)]
    objectives: Vec<Objective>,
}

impl TenantSetup {
    /// Returns its name, and its own objectives.
    pub fn objectives(&self) -> (&str, &[Objective]) {
        (&self.entitled.name, &self.objectives)
    }
}

/// The breakdowns of a run. Those by model, URL and turn exist only if the run has several.
#[derive(Debug, Default)]
pub struct Breakdowns {
    pub by_model: Option<Breakdown>,
    pub by_url: Option<Breakdown>,
    /// By the worker that the server names in its responses.
    pub by_worker: Option<Breakdown>,
    /// The requests of each group of `by_worker`.
    workers: Vec<workers::Requests>,
    by_tenant: TenantBreakdown,
    /// By the position in the conversation, of the metrics that depend on it.
    pub by_turn: Option<Breakdown>,
    /// Of each phase of the run by its index, warmups included; empty unless several are measured.
    pub by_phase: Vec<Accumulator>,
}

/// How many of each there may be in a run.
#[derive(Debug, Clone, Copy)]
pub struct Variety {
    pub models: usize,
    pub urls: usize,
    /// The turns of the longest conversation.
    pub turns: usize,
    /// The phases, if several are measured; otherwise 0.
    pub phases: usize,
}

/// A request to add to the breakdowns.
#[derive(Debug, Clone, Copy)]
pub struct Grouped<'a> {
    pub model: &'a Arc<str>,
    pub url: &'a ShownUrl,
    /// The worker that answered, if the server names it.
    pub worker: Option<&'a Arc<str>>,
    /// The tenant that sent it, if tenants share the load.
    pub tenant: Option<&'a Arc<str>>,
    /// The number of turns before it in its conversation; absent if that is not known.
    pub turn: Option<usize>,
    pub observation: &'a Observation,
}

/// The results of [`Breakdowns`]; empty if there is only one group.
#[derive(Debug, Clone, Default)]
pub struct BreakdownResults {
    pub by_model: Vec<GroupResult>,
    pub by_url: Vec<GroupResult>,
    pub by_worker: Vec<GroupResult>,
    /// The workers compared with each other, if there are several.
    pub workers: Option<Workers>,
    /// In the order of the file.
    pub by_tenant: Vec<GroupResult>,
    /// The tenants compared with each other, if there are any.
    pub tenants: Option<Tenants>,
    /// In the order of the turns; several of many turns are one group, such as `17-32`.
    pub by_turn: Vec<GroupResult>,
}

impl Breakdowns {
    /// Creates the breakdowns for a run with this `variety`, whose values will be in `store`.
    #[must_use]
    pub fn new(
        registry: &Arc<Registry>,
        store: &Store,
        variety: Variety,
        by_tenant: TenantBreakdown,
    ) -> Self {
        let breakdown_by =
            |registry: &Arc<Registry>| Breakdown::new(Arc::clone(registry), store.clone());
        let if_several = |count| (count > 1).then(|| breakdown_by(registry));
        Self {
            by_model: if_several(variety.models),
            by_url: if_several(variety.urls),
            by_worker: Some(breakdown_by(registry)),
            workers: Vec::new(),
            by_tenant,
            by_turn: (variety.turns > 1)
                .then(|| breakdown_by(&Arc::new(registry.limited_to(&turns::METRICS)))),
            by_phase: (0..variety.phases)
                .map(|_| Accumulator::keeping_in(store.clone(), Arc::clone(registry)))
                .collect(),
        }
    }

    /// Adds a request of the phase with the index `phase`, whatever its kind.
    pub fn observe_in(&mut self, phase: u32, observation: &Observation) {
        if let Some(of_phase) = self.by_phase.get_mut(phase as usize) {
            of_phase.observe(observation);
        }
    }

    /// Adds a request of the measurement.
    pub fn observe(&mut self, request: Grouped<'_>) {
        let observation = request.observation;
        if let Some(by_model) = &mut self.by_model {
            by_model.observe(request.model, observation);
        }
        if let Some(by_url) = &mut self.by_url {
            by_url.observe(request.url.text(), observation);
        }
        if let (Some(by_worker), Some(worker)) = (&mut self.by_worker, request.worker) {
            let at = by_worker.observe(worker, observation);
            if at == self.workers.len() {
                self.workers.push(workers::Requests::new(by_worker.store.clone()));
            }
            self.workers[at].add(observation);
        }
        if let Some(tenant) = request.tenant {
            self.by_tenant.observe(tenant, observation);
        }
        if let (Some(by_turn), Some(turn)) = (&mut self.by_turn, request.turn) {
            by_turn.observe(turns::group(turn), observation);
        }
    }

    /// Returns the results of all groups.
    #[must_use]
    pub fn results(&self) -> BreakdownResults {
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
        let by_turn = turns::ordered(of(&self.by_turn));
        let by_tenant = self.by_tenant.results();
        let tenants = tenants::compare(&self.by_tenant.entitled, &by_tenant);
        BreakdownResults { by_model, by_url, by_worker, workers, by_tenant, tenants, by_turn }
    }
}

/// How many times slower a server is if it is worth a sentence.
const SLOWER: f64 = 1.25;

/// Fewest requests of a group whose mean is compared.
const FEWEST: f64 = 30.0;

/// Returns the slowest of several servers, if its mean latency is notably above that of the fastest.
pub fn slowest_url(urls: &[GroupResult]) -> Option<(&str, f64, f64)> {
    let mean = |group: &GroupResult, statistic| group.value(tag::REQUEST_LATENCY, statistic);
    let mut means: Vec<(&str, f64, f64)> = urls
        .iter()
        .filter_map(|group| {
            let requests = group.value(tag::REQUEST_COUNT, "avg").filter(|n| *n >= FEWEST)?;
            let error = mean(group, "std")? / requests.sqrt();
            Some((&*group.name, mean(group, "avg")?, error))
        })
        .collect();
    means.sort_by(|a, b| a.1.total_cmp(&b.1));
    let ((_, fast, error), (name, slow, slow_error)) = (means.first()?, means.last()?);
    let by_chance = 4.0 * error.hypot(*slow_error);
    (*slow >= SLOWER * fast && slow - fast > by_chance).then_some((*name, *slow, *fast))
}
