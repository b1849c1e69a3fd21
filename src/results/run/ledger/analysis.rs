//! What an analysis of requests is, and what each of them reads and finds.

use client::schedule::{HeldLoad, PhaseKind};
use measure::metrics::breakdown::{BreakdownResults, Breakdowns, Grouped, Levels};
use measure::metrics::health::{LoadHealth, LoadTimes, OutputCounts, OutputHealth, Source};
use measure::metrics::metric::MetricResult;
use measure::metrics::name_counts::NameCounts;
use measure::metrics::prefix_cache::{CacheLedger, PrefixCache};
use measure::metrics::session::{SessionLedger, Sessions};
use measure::metrics::silence::{EventTimes, Silence};
use measure::metrics::{Accumulator, AgentTotals};
use measure::server_metrics::prefix_cache;
use measure::server_metrics::report::ServerMetrics;

use super::{Entry, Names};
use crate::run::provenance::{Responders, Server};

/// What is known of a measurement besides its requests once it has ended.
pub(super) struct Measurement<'a> {
    /// The load that this process held, if it was a certain one.
    pub(super) load: Option<HeldLoad>,
    /// Start in nanoseconds since the epoch.
    pub(super) start_wall_ns: u64,
    pub(super) servers: Option<&'a ServerMetrics>,
}

/// An analysis of requests.
pub(super) trait Analysis {
    /// What the report states of it.
    type Finding;

    /// What is missing in a report if only the lines of the records are known; `None` if these are
    /// enough.
    const BEYOND_LINES: Option<&'static str> = None;

    /// Enters a request.
    fn enter(&mut self, request: &Entry<'_>);

    /// Returns what was found.
    fn finding(&self, of: &Measurement<'_>) -> Self::Finding;
}

/// What each analysis lacks if only the lines of the records are known.
pub(super) const BEYOND_LINES: [Option<&str>; 3] = [
    <Option<CacheLedger> as Analysis>::BEYOND_LINES,
    <[AgentTotals; 2] as Analysis>::BEYOND_LINES,
    Responders::BEYOND_LINES,
];

impl Analysis for Accumulator {
    type Finding = Vec<MetricResult>;

    fn enter(&mut self, request: &Entry<'_>) {
        self.observe(request.observation);
    }

    fn finding(&self, _: &Measurement<'_>) -> Self::Finding {
        self.results()
    }
}

impl Analysis for Breakdowns {
    type Finding = BreakdownResults;

    fn enter(&mut self, request: &Entry<'_>) {
        self.observe_in(request.phase_index, request.observation);
        if request.is_measured() {
            let Entry { model, url, worker, tenant, turn, observation, .. } = *request;
            self.observe(Grouped { model, url, worker, tenant, turn, observation });
        }
    }

    fn finding(&self, _: &Measurement<'_>) -> Self::Finding {
        self.results()
    }
}

impl Analysis for Levels {
    type Finding = Vec<Vec<MetricResult>>;

    fn enter(&mut self, request: &Entry<'_>) {
        self.observe(request.phase_index, request.observation);
    }

    fn finding(&self, _: &Measurement<'_>) -> Self::Finding {
        self.results()
    }
}

impl Analysis for Option<SessionLedger> {
    type Finding = Option<Sessions>;

    fn enter(&mut self, request: &Entry<'_>) {
        match (&mut *self, &request.session) {
            (Some(sessions), Some(turn)) => sessions.observe(turn),
            _ => *self = None,
        }
    }

    fn finding(&self, _: &Measurement<'_>) -> Self::Finding {
        self.as_ref().and_then(SessionLedger::sessions)
    }
}

impl Analysis for Names {
    type Finding = NameCounts;

    fn enter(&mut self, request: &Entry<'_>) {
        if request.observation.error.is_none() {
            self.counts.observe((self.of)(request));
        }
    }

    fn finding(&self, _: &Measurement<'_>) -> Self::Finding {
        self.counts.clone()
    }
}

impl Analysis for LoadTimes {
    type Finding = Option<LoadHealth>;

    fn enter(&mut self, request: &Entry<'_>) {
        self.observe(request.due_wall_ns, request.observation);
    }

    fn finding(&self, of: &Measurement<'_>) -> Self::Finding {
        LoadHealth::judge(self, of.load, of.start_wall_ns)
    }
}

impl Analysis for Option<OutputCounts> {
    type Finding = Option<OutputHealth>;

    fn enter(&mut self, request: &Entry<'_>) {
        let worker = request.worker.map(|worker| &**worker);
        let source = Source { request_id: request.request_id, worker };
        if let Some(outputs) = self {
            outputs.observe(request.observation, source);
        }
    }

    fn finding(&self, _: &Measurement<'_>) -> Self::Finding {
        self.as_ref()?.judge()
    }
}

impl Analysis for EventTimes {
    type Finding = Vec<Silence>;

    fn enter(&mut self, request: &Entry<'_>) {
        self.observe(request.observation);
    }

    fn finding(&self, of: &Measurement<'_>) -> Self::Finding {
        self.silences(of.start_wall_ns)
    }
}

impl Analysis for Option<CacheLedger> {
    type Finding = Option<PrefixCache>;

    const BEYOND_LINES: Option<&'static str> = Some("what the prompts repeat");

    fn enter(&mut self, request: &Entry<'_>) {
        if let (Some(ledger), Some(live)) = (self, request.live)
            && let Some(prompt) = live.prompt
        {
            ledger.observe(live.record, prompt);
        }
    }

    fn finding(&self, of: &Measurement<'_>) -> Self::Finding {
        let counted = of.servers.and_then(|servers| prefix_cache::counted(&servers.report));
        self.as_ref()?.report(counted)
    }
}

/// Only telemetry states them.
impl Analysis for [AgentTotals; 2] {
    type Finding = Self;

    const BEYOND_LINES: Option<&'static str> = Some("the numbers of agents");

    fn enter(&mut self, request: &Entry<'_>) {
        let [of_warmup, of_profiling] = self;
        if let Some(live) = request.live {
            match request.observation.phase {
                PhaseKind::Warmup => of_warmup.observe(live.record),
                PhaseKind::Profiling => of_profiling.observe(live.record),
            }
        }
    }

    fn finding(&self, _: &Measurement<'_>) -> Self::Finding {
        *self
    }
}

impl Analysis for Responders {
    type Finding = Vec<Server>;

    const BEYOND_LINES: Option<&'static str> = Some("which servers responded");

    fn enter(&mut self, request: &Entry<'_>) {
        if let Some(live) = request.live {
            self.observe(&live.record.record);
        }
    }

    fn finding(&self, of: &Measurement<'_>) -> Self::Finding {
        self.servers(of.servers)
    }
}
