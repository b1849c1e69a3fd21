//! The ledger of a run: what its requests are analyzed for, and the report that follows.
//!
//! A run enters its records while it measures them, and `aiperf report` enters the lines of
//! `profile_export.jsonl`; the same [analyses](analysis) observe both, and the report is assembled here
//! for both. Whatever a report states about the requests is a field of [`Ledger`], a line of
//! [`observe`](Ledger::observe), and a line of [`report`](Ledger::report).

mod analysis;

use std::sync::Arc;

use uuid::Uuid;

use base::column::Store;
use base::redact::ShownUrl;
use client::schedule::config::has_several;
use client::schedule::{PhaseKind, Shard};
use dataset::{Sent, SentCounter};
use measure::judge::{AdaptivePath, bases};
use measure::metrics::breakdown::{Breakdowns, Levels, TenantBreakdown, Variety, asked_rate};
use measure::metrics::health::{ClientErrors, LoadTimes, OutputCounts};
use measure::metrics::metric::{MeasuredRecord, Observation};
use measure::metrics::name_counts::NameCounts;
use measure::metrics::prefix_cache::{CacheLedger, PromptBlocks};
use measure::metrics::session::{self, SessionLedger, SessionTurn};
use measure::metrics::silence::EventTimes;
use measure::metrics::{Accumulator, AgentTotals, Health, Registry, deployment};
use measure::server_metrics::report::ServerMetrics;

use self::analysis::{Analysis, Measurement};
use super::provenance::Responders;
use super::scenario::DurationCoverage;
use super::{ErrorCount, RunDescription, RunOutcome, RunReport};

/// A request to enter: what its line contains, and its record while the run goes on.
pub struct Entry<'a> {
    pub observation: &'a Observation,
    /// Index of its phase in the run.
    pub phase_index: u32,
    pub model: &'a Arc<str>,
    pub url: &'a ShownUrl,
    /// Its ID, unless the line lacks it.
    pub request_id: Option<Uuid>,
    /// The worker that answered, if the server named it.
    pub worker: Option<&'a Arc<str>>,
    /// The tenant that sent it, if tenants shared the load.
    pub tenant: Option<&'a Arc<str>>,
    /// Number of its conversation, if its requests are counted.
    pub conversation: Option<usize>,
    /// Index of the turn in the conversation, unless the line lacks it.
    pub turn: Option<usize>,
    /// When it was due; absent in a closed loop.
    pub due_wall_ns: Option<u64>,
    /// Retries on dead connections.
    pub retries: u64,
    /// What the client added to its times; absent if its line lacks that, or if there is a record.
    pub client_errors: Option<ClientErrors>,
    /// Why its output ended, if the server reported that.
    pub finish_reason: Option<&'a str>,
    /// What was unusual about its response.
    pub response_notes: Option<&'a str>,
    /// Its place in its session, unless the line lacks that.
    pub session: Option<SessionTurn<'a>>,
    /// Absent if only its line is known.
    pub live: Option<Live<'a>>,
}

impl Entry<'_> {
    /// Returns whether the request is of the measurement, and not of the warmup.
    fn is_measured(&self) -> bool {
        self.observation.phase == PhaseKind::Profiling
    }

    /// Returns whether the request is a canary.
    const fn is_canary(&self) -> bool {
        self.observation.output.canary.is_some()
    }
}

/// What is known of a request while the run goes on, and not from its line.
#[derive(Clone, Copy)]
pub struct Live<'a> {
    pub record: &'a MeasuredRecord,
    /// Its prompt, if prompts are compared.
    pub prompt: Option<&'a PromptBlocks>,
}

/// The analyses of a run's requests.
pub struct Ledger {
    /// Statistics of the warmup.
    pub warmup: Accumulator,
    /// Statistics of the measurement.
    pub profiling: Accumulator,
    /// Statistics of groups of requests.
    pub breakdowns: Breakdowns,
    /// Statistics of the windows of adaptive loads, if these are known before the requests.
    levels: Levels,
    /// The requests of the dataset that were sent; absent once a line does not have its place.
    account: Option<SentCounter<usize>>,
    /// For each phase, whether its requests are in the account of the dataset.
    accounted_phases: Vec<bool>,
    /// The sessions of the measurement; absent once a request does not have its place.
    sessions: Option<SessionLedger>,
    /// Why the outputs of the measurement ended.
    finish_reasons: Names,
    /// What was unusual about its responses.
    response_notes: Names,
    /// The outputs of the measurement; absent if the endpoint does not generate text.
    outputs: Option<OutputCounts>,
    /// When the requests of the measurement arrived and ended.
    pub load_times: LoadTimes,
    event_times: EventTimes,
    /// The client's part in the times of the measurement.
    pub health: Health,
    /// What prompts repeat, if prompts are compared.
    pub prefix_cache: Option<CacheLedger>,
    /// Agents of the warmup, and those of the measurement.
    pub agents: [AgentTotals; 2],
    /// The servers that have responded.
    pub responders: Responders,
}

/// The names that the successful responses of the measurement have.
struct Names {
    /// Returns those of a request, joined by commas.
    of: for<'a> fn(&Entry<'a>) -> Option<&'a str>,
    counts: NameCounts,
}

impl Names {
    fn new(of: for<'a> fn(&Entry<'a>) -> Option<&'a str>) -> Self {
        Self { of, counts: NameCounts::default() }
    }
}

impl Ledger {
    /// Creates the ledger of `run` without requests, whose values will be in `store`. Conversations have
    /// at most so many `turns`.
    pub fn new(
        run: &RunDescription,
        registry: &Arc<Registry>,
        store: &Store,
        turns: usize,
    ) -> Self {
        let accumulator = || Accumulator::keeping_in(store.clone(), Arc::clone(registry));
        let setup = &run.setup;
        let variety = Variety {
            models: setup.requested_models().len(),
            urls: setup.urls.len(),
            turns,
            phases: if has_several(&setup.phases) { setup.phases.len() } else { 0 },
        };
        let by_tenant = TenantBreakdown::for_tenants(
            &setup.tenants,
            registry,
            run.endpoint,
            run.streaming,
            store,
        );
        let is_sliced = setup.slice_duration.is_some();
        Self {
            warmup: accumulator(),
            profiling: if is_sliced { accumulator().sliced() } else { accumulator() },
            breakdowns: Breakdowns::new(registry, store, variety, by_tenant),
            levels: Levels::new(Arc::clone(registry), store.clone()),
            account: Some(SentCounter::default()),
            accounted_phases: setup.accounted_phases(),
            sessions: Some(SessionLedger::new(store.clone(), run.settings.fixed_schedule)),
            finish_reasons: Names::new(|request| request.finish_reason),
            response_notes: Names::new(|request| request.response_notes),
            outputs: run.endpoint.produces_tokens.then(OutputCounts::default),
            load_times: LoadTimes::default(),
            event_times: EventTimes::default(),
            health: Health::keeping_in(store.clone()),
            prefix_cache: None,
            agents: Default::default(),
            responders: Responders::default(),
        }
    }

    /// Has prompts compared.
    pub fn with_prefix_cache(mut self, ledger: Option<CacheLedger>) -> Self {
        self.prefix_cache = ledger;
        self
    }

    /// Leaves out sessions unless there are any.
    pub fn with_sessions(mut self, has_any: bool) -> Self {
        self.sessions = self.sessions.filter(|_| has_any);
        self
    }

    /// Adds the windows of adaptive loads, before the requests.
    pub(crate) fn with_levels(mut self, paths: &[AdaptivePath]) -> Self {
        for path in paths {
            for window in &path.windows {
                self.levels.add(path.phase_index, window.start_ns..window.end_ns);
            }
        }
        self
    }

    /// Returns whether the place of each request in its session is needed.
    pub(crate) const fn has_sessions(&self) -> bool {
        self.sessions.is_some()
    }

    /// Enters a request.
    pub fn observe(&mut self, request: &Entry<'_>) {
        if request.is_measured() {
            self.outputs.enter(request);
            self.load_times.enter(request);
        }
        if request.is_canary() {
            self.observe_canary(request);
        } else {
            self.count(request);
            self.observe_load(request);
        }
    }

    /// Enters a canary, which is not of the dataset, and counts as a request of the load only if that is wanted.
    fn observe_canary(&mut self, request: &Entry<'_>) {
        if self.profiling.registry().settings().leaves_out_canary(request.observation) {
            self.responders.enter(request);
            // Counts it apart, since the server counts it too.
            let phase = if request.is_measured() { &mut self.profiling } else { &mut self.warmup };
            phase.enter(request);
        } else {
            self.observe_load(request);
        }
    }

    /// Enters a request of the load.
    fn observe_load(&mut self, request: &Entry<'_>) {
        self.breakdowns.enter(request);
        self.levels.enter(request);
        self.agents.enter(request);
        self.responders.enter(request);
        self.prefix_cache.enter(request);
        if !request.is_measured() {
            self.warmup.enter(request);
            return;
        }
        self.profiling.enter(request);
        self.sessions.enter(request);
        self.finish_reasons.enter(request);
        self.response_notes.enter(request);
        self.event_times.enter(request);
        // Its finding also depends on the machine, so it is not made here.
        match request.live {
            Some(live) => self.health.observe(live.record),
            None => self.health.observe_line(
                request.observation,
                request.due_wall_ns,
                request.retries,
                request.client_errors,
            ),
        }
    }

    /// Enters a request in the account of the dataset.
    fn count(&mut self, request: &Entry<'_>) {
        let is_accounted = self.accounted_phases.get(request.phase_index as usize);
        match (&mut self.account, request.conversation.zip(request.turn)) {
            (Some(account), Some((conversation, turn))) => {
                account.count(is_accounted != Some(&false), conversation, turn);
            }
            (account, _) => *account = None,
        }
    }

    /// Returns the report of `run`, which ended with this `outcome`, apart from what is not about
    /// requests. Adds the reasons why a part of it is missing to `notes`.
    pub fn report(
        &self,
        mut run: RunDescription,
        mut outcome: RunOutcome,
        mut server_metrics: Option<ServerMetrics>,
        notes: &mut Vec<String>,
    ) -> RunReport {
        if let Some(metrics) = &mut server_metrics {
            metrics.add_phases(&outcome.phases);
        }
        let of = Measurement {
            load: run.own_held_load(),
            start_wall_ns: outcome.start_wall_ns,
            servers: server_metrics.as_ref(),
        };
        let window = outcome.start_wall_ns..outcome.end_wall_ns;
        let slices = run.setup.slice_duration.and_then(|duration| {
            let slices = self.profiling.slices(&window, duration);
            slices.map_err(|error| notes.push(error.to_string())).ok()?
        });
        let servers = self.responders.finding(&of);
        if !servers.is_empty() {
            run.provenance.servers = servers;
        }
        let setup = &run.setup;
        let values = |phase: Option<&str>| {
            let of_phase = |name| self.breakdowns.phase(&setup.phases, name);
            let values = phase.map_or(Some(&self.profiling), of_phase)?;
            Some((values, asked_rate(&setup.phases, phase)))
        };
        outcome.load_health = self.load_times.finding(&of);
        outcome.output_health = self.outputs.finding(&of);
        outcome.prefix_cache = self.prefix_cache.finding(&of).or(outcome.prefix_cache);
        let sessions = self.sessions.finding(&of);
        let mut results = self.profiling.finding(&of);
        results.extend(session::results(sessions.as_ref(), self.profiling.registry(), &results));
        let fleets = outcome.gpus.as_ref().map_or(&[][..], |gpus| &gpus.fleets);
        let concurrency = outcome.load.requested_concurrency;
        results.extend(deployment::results(&setup.deployment, fleets, &results, concurrency));
        let shard = run.shard.unwrap_or(Shard::WHOLE);
        RunReport {
            long_run: self.profiling.long_run(asked_rate(&setup.phases, None)),
            missed_objectives: self.profiling.missed_objectives(),
            bases: bases(&run.gates, values),
            by_phase: self.breakdowns.phases(&setup.phases, &outcome.phases, shard),
            coverage: DurationCoverage::for_setup(setup, outcome.start_wall_ns, &self.profiling),
            levels: self.levels.finding(&of),
            steady_state: self.profiling.steady_state(of.load, of.start_wall_ns),
            results,
            sessions,
            finish_reasons: self.finish_reasons.finding(&of),
            response_notes: self.response_notes.finding(&of),
            silences: self.event_times.finding(&of),
            breakdowns: self.breakdowns.finding(&of),
            slices,
            warmup_results: self.warmup.results_if_any(),
            errors: error_counts(&self.profiling),
            phases: Vec::new(),
            run,
            outcome,
            server_metrics,
        }
    }

    /// Returns how many requests of the dataset were sent, if that is known.
    pub fn sent(&self) -> Option<Sent> {
        self.account.as_ref().map(SentCounter::sent)
    }

    /// Returns what the report of a run that did not write its outcome lacks, since the lines of its
    /// records are not enough for it: a list such as `this, that and these`.
    pub(crate) fn beyond_lines() -> String {
        let all: Vec<&str> = analysis::BEYOND_LINES.into_iter().flatten().collect();
        all.split_last()
            .map_or_else(String::new, |(last, others)| format!("{} and {last}", others.join(", ")))
    }
}

/// Returns the failures in `accumulator`.
#[must_use]
pub fn error_counts(accumulator: &Accumulator) -> Vec<ErrorCount> {
    let counts = accumulator.errors().into_iter();
    counts.map(|(error_details, count)| ErrorCount { error_details, count }).collect()
}
