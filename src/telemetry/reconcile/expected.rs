//! The totals of a run, and what the final export must contain according to them.

use std::fmt;

use opentelemetry_proto::tonic::common::v1::KeyValue;
use opentelemetry_proto::tonic::common::v1::any_value::Value as AnyValue;

use base::semconv::{Conventions, Definition, MetricSpec, attribute, metric};
use client::runner::QueueStats;
use client::schedule::{PhaseKind, PhaseStats};
use measure::metrics::health::TimeStatistics;
use measure::metrics::otel::{GEN_AI, GenAi, GenAiPoints, Instrument};
use measure::metrics::tag;
use measure::metrics::{AgentTotals, ClientHealth, PhaseTotals, RowTotals};

use crate::{MetricSet, timing};

/// Tolerance for sums, relative to the sum of magnitudes, since threads add in any order.
const SUM_TOLERANCE: f64 = 1e-9;

/// The totals of a run according to its files, phases and queue, which the final export is compared
/// with.
#[derive(Debug, Clone, Default)]
pub struct RunTotals {
    /// Totals of the warmup.
    pub warmup: PhaseTotals,
    /// Totals of the measurement.
    pub profiling: PhaseTotals,
    /// Agents of the warmup, and those of the measurement.
    pub agents: [AgentTotals; 2],
    /// Every phase that began, with its final statistics.
    pub phases: Vec<PhaseStats>,
    /// Final statistics of the queue of records.
    pub queue: QueueStats,
    /// Client health of the measurement.
    pub health: ClientHealth,
    /// Faults of its outputs, each of which counts.
    pub output_faults: u64,
}

/// The expected total of the points of one instrument.
#[derive(Debug, Clone)]
pub(crate) struct Expected {
    pub(super) spec: MetricSpec,
    /// The phase of the points; `None` for those of all phases.
    phase: Option<PhaseKind>,
    /// The subset of the phase's points.
    part: Part,
    /// Number of values; `None` for a counter, or if only telemetry counts them.
    pub(super) count: Option<u64>,
    /// Their sum; `None` if only telemetry knows it.
    pub(super) sum: Option<Interval>,
}

/// Subsets of an instrument's points that have their own counterpart.
#[derive(Debug, Clone, Copy)]
enum Part {
    All,
    Succeeded,
    Failed,
    TokenType(&'static str),
    Stage(&'static str),
}

/// The range of a sum.
#[derive(Debug, Clone, Copy)]
pub(super) struct Interval {
    least: f64,
    most: f64,
    /// The magnitude that the tolerance is relative to.
    magnitude: f64,
}

impl Expected {
    /// Creates an expectation for all points of an instrument, with any values.
    fn new(spec: MetricSpec) -> Self {
        Self { spec, phase: None, part: Part::All, count: None, sum: None }
    }

    fn from_definition(definition: &Definition) -> Self {
        Self::new(definition.into())
    }

    /// Restricts it to the points of one phase.
    fn in_phase(self, phase: PhaseKind) -> Self {
        Self { phase: Some(phase), ..self }
    }

    /// Returns what the set of metrics has of it; `None` if that does not include the instrument.
    pub(crate) fn in_set(self, set: MetricSet) -> Option<Self> {
        Some(Self { spec: set.instrument(self.spec)?, ..self })
    }

    /// Returns whether a point with these attributes is included in the total.
    pub(super) fn covers(&self, attributes: &[KeyValue]) -> bool {
        let text = |key: &str| {
            let pair = attributes.iter().find(|pair| pair.key == key)?;
            match pair.value.as_ref()?.value.as_ref()? {
                AnyValue::StringValue(text) => Some(text.as_str()),
                _ => None,
            }
        };
        let phase = text(attribute::AIPERF_BENCHMARK_PHASE);
        let is_of_phase = self.phase.is_none_or(|own| phase == Some(own.as_str()));
        let failed = || text(attribute::ERROR_TYPE).is_some();
        is_of_phase
            && match self.part {
                Part::All => true,
                Part::Succeeded => !failed(),
                Part::Failed => failed(),
                Part::TokenType(own) => text(attribute::GEN_AI_TOKEN_TYPE) == Some(own),
                Part::Stage(own) => text(attribute::AIPERF_STAGE) == Some(own),
            }
    }

    /// Returns whether there must be a point; nothing is exported if there was no value, or only
    /// zeros to add.
    pub(super) fn must_be_exported(&self) -> bool {
        self.count.is_some_and(|count| count > 0)
            || self.sum.as_ref().is_some_and(|sum| !sum.contains(0.0))
    }
}

/// Formats `name{…}`, with the attributes that the points have in common.
impl fmt::Display for Expected {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let phase = self.phase.map(|phase| (attribute::AIPERF_BENCHMARK_PHASE, phase.as_str()));
        let phase = phase.map(|(key, value)| format!("{key}={value:?}"));
        let part = match self.part {
            Part::All => None,
            Part::Succeeded => Some(format!("{}=\"\"", attribute::ERROR_TYPE)),
            Part::Failed => Some(format!("{}!=\"\"", attribute::ERROR_TYPE)),
            Part::TokenType(own) => Some(format!("{}={own:?}", attribute::GEN_AI_TOKEN_TYPE)),
            Part::Stage(own) => Some(format!("{}={own:?}", attribute::AIPERF_STAGE)),
        };
        let labels: Vec<String> = phase.into_iter().chain(part).collect();
        write!(f, "{}{{{}}}", self.spec.name, labels.join(","))
    }
}

impl Interval {
    const fn exactly(sum: f64, magnitude: f64) -> Self {
        Self { least: sum, most: sum, magnitude }
    }

    const fn between(least: u64, most: u64) -> Self {
        Self { least: least as f64, most: most as f64, magnitude: 0.0 }
    }

    /// Returns whether `sum` is in the range, up to rounding. NaN is not.
    pub(super) fn contains(&self, sum: f64) -> bool {
        let tolerance = SUM_TOLERANCE * self.magnitude;
        self.least - tolerance <= sum && sum <= self.most + tolerance
    }
}

impl fmt::Display for Interval {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.least < self.most {
            write!(f, "{} to {}", self.least, self.most)
        } else {
            write!(f, "{}", self.least)
        }
    }
}

/// Returns the totals of single requests: the metrics of the catalogue, their counterparts
/// in the GenAI conventions, and client health.
pub(crate) fn of_requests(totals: &RunTotals, conventions: Conventions) -> Vec<Expected> {
    let RunTotals { warmup, profiling, health, agents, .. } = totals;
    let mut all = of_health(health);
    for (phase, totals) in [(PhaseKind::Warmup, warmup), (PhaseKind::Profiling, profiling)] {
        all.extend(totals.rows.iter().filter_map(|row| of_row(row, phase)));
        let gen_ai = GEN_AI.iter().filter(|row| conventions.include(row.of));
        all.extend(gen_ai.flat_map(|row| of_gen_ai(row, totals, phase)));
        if conventions.include(Conventions::Latest) {
            all.extend(of_durations(totals, phase));
        }
    }
    for (phase, totals) in [PhaseKind::Warmup, PhaseKind::Profiling].into_iter().zip(agents) {
        all.extend(of_agents(*totals, phase));
    }
    all
}

/// Returns the totals of agents. Only telemetry knows how long they and their tools took.
fn of_agents(totals: AgentTotals, phase: PhaseKind) -> Vec<Expected> {
    let AgentTotals { agents, inference_calls, tool_calls } = totals;
    let sum = |sum| Some(Interval::between(sum, sum));
    let rows = [
        (metric::GEN_AI_INVOKE_AGENT_DURATION, agents, None),
        (metric::GEN_AI_INVOKE_AGENT_INFERENCE_CALLS, agents, sum(inference_calls)),
        (metric::GEN_AI_INVOKE_AGENT_TOOL_CALLS, agents, sum(tool_calls)),
        (metric::GEN_AI_EXECUTE_TOOL_DURATION, tool_calls, None),
    ];
    let some = rows.into_iter().filter(|(_, count, _)| *count > 0);
    some.map(|(definition, count, sum)| {
        let own = Expected::from_definition(&definition).in_phase(phase);
        Expected { count: Some(count), sum, ..own }
    })
    .collect()
}

fn of_row(row: &RowTotals, phase: PhaseKind) -> Option<Expected> {
    let Instrument { spec, scale, stage } = row.metric.instrument()?;
    // A counter begins with its first increment.
    if row.count.is_none() && row.sum == 0.0 {
        return None;
    }
    let sum = Some(Interval::exactly(scale.convert(row.sum), scale.convert(row.magnitude)));
    let part = stage.map_or(Part::All, Part::Stage);
    Some(Expected { part, count: row.count, sum, ..Expected::new(spec).in_phase(phase) })
}

/// Returns the totals of an instrument of the GenAI conventions: those of its metric, and what it
/// has of failed requests.
fn of_gen_ai(gen_ai: &GenAi, totals: &PhaseTotals, phase: PhaseKind) -> Vec<Expected> {
    let new = || Expected::from_definition(gen_ai.definition).in_phase(phase);
    let found = totals.rows.iter().find(|row| row.metric.tag == gen_ai.tag);
    let own = found.and_then(|row| of_row(row, phase));
    let zero = Some(Interval::exactly(0.0, 0.0));
    match gen_ai.points {
        GenAiPoints::All => {
            own.map(|own| Expected { spec: new().spec, ..own }).into_iter().collect()
        }
        GenAiPoints::TokenType(of) => {
            let part = Part::TokenType(of);
            own.map(|own| Expected { spec: new().spec, part, ..own }).into_iter().collect()
        }
        // A counter, which is there although nothing was counted.
        GenAiPoints::Modality => {
            vec![Expected { sum: own.map_or(zero, |own| own.sum), ..new() }]
        }
        GenAiPoints::Succeeded => {
            let count = Some(totals.failures).filter(|failures| *failures > 0);
            // Failed requests do not have tokens, and only telemetry knows their durations.
            let sum = zero.filter(|_| gen_ai.of == Conventions::Latest);
            let failed = count.map(|_| Expected { part: Part::Failed, count, sum, ..new() });
            let part = Part::Succeeded;
            let own = own.map(|own| Expected { spec: new().spec, part, ..own });
            own.into_iter().chain(failed).collect()
        }
    }
}

/// Returns the numbers of requests whose durations the newest conventions have. Only telemetry
/// knows these durations.
fn of_durations(totals: &PhaseTotals, phase: PhaseKind) -> Vec<Expected> {
    let succeeded = totals.rows.iter().find(|row| row.metric.tag == tag::REQUEST_COUNT);
    let succeeded = succeeded.map_or(0, |row| row.sum as u64);
    let parts = [(Part::Succeeded, succeeded), (Part::Failed, totals.failures)];
    let some = parts.into_iter().filter(|(_, count)| *count > 0);
    some.map(|(part, count)| Expected {
        part,
        count: Some(count),
        ..Expected::from_definition(&metric::GEN_AI_CLIENT_INFERENCE_DURATION).in_phase(phase)
    })
    .collect()
}

/// Returns the client's own totals of single requests, which the warmup does not have.
fn of_health(health: &ClientHealth) -> Vec<Expected> {
    let times = [
        (metric::AIPERF_CLIENT_SCHEDULE_SLIP, health.schedule_slip_ms),
        (metric::AIPERF_CLIENT_READ_LAG, health.read_lag_ms),
        (metric::AIPERF_CLIENT_STAMP_UNCERTAINTY, health.stamp_uncertainty_ms),
    ];
    let mut all = Vec::new();
    for (definition, statistics) in times {
        all.push(Expected::from_definition(&definition).in_phase(PhaseKind::Warmup));
        all.extend(statistics.map(|TimeStatistics { count, avg, .. }| {
            let sum = avg * count as f64 / 1e3;
            let own = Expected::from_definition(&definition).in_phase(PhaseKind::Profiling);
            Expected { count: Some(count), sum: Some(Interval::exactly(sum, sum)), ..own }
        }));
    }
    let retries = Expected::from_definition(&metric::AIPERF_CLIENT_RETRIES);
    all.push(retries.clone().in_phase(PhaseKind::Warmup));
    all.extend(health.retries.map(|count| {
        let sum = Some(Interval::between(count, count));
        Expected { sum, ..retries.in_phase(PhaseKind::Profiling) }
    }));
    all
}

/// Returns the totals of the faults of outputs, of which there are so many in the measurement.
pub(crate) fn of_outputs(faults: u64) -> [Expected; 2] {
    let expected = Expected::from_definition(&metric::AIPERF_OUTPUT_FAULTS);
    let sum = Some(Interval::between(faults, faults));
    let of_profiling = Expected { sum, ..expected.clone().in_phase(PhaseKind::Profiling) };
    [expected.in_phase(PhaseKind::Warmup), of_profiling]
}

/// Returns the totals of the queue and, if there are traces, of those that were lost.
pub(crate) fn of_client(queue: &QueueStats, lost_traces: Option<u64>) -> Vec<Expected> {
    // Records that turned out not to have been written may have been exported before.
    let most = queue.spilled_records + queue.kept_over_budget;
    let spilled = Interval::between(queue.spilled_records, most);
    // More are lost after the last snapshot, at the end of the run.
    let lost = lost_traces.map(|lost| Interval::between(0, lost));
    let spilled = (metric::AIPERF_CLIENT_QUEUE_SPILLED, Some(spilled));
    let all = [spilled, (metric::AIPERF_CLIENT_TRACES_LOST, lost)];
    let known = all.into_iter().filter(|(_, sum)| sum.is_some());
    known
        .map(|(definition, sum)| Expected { sum, ..Expected::from_definition(&definition) })
        .collect()
}

/// Returns the totals of `aiperf.timing.*` for `phases` that have ended.
pub(crate) fn of_phases(phases: &[PhaseStats]) -> Vec<Expected> {
    let mut all = Vec::new();
    for phase in [PhaseKind::Warmup, PhaseKind::Profiling] {
        let of_kind: Vec<_> = phases.iter().filter(|stats| stats.phase == phase).collect();
        if of_kind.is_empty() {
            continue;
        }
        for (definition, value) in &timing::ROWS {
            let values = || of_kind.iter().map(|stats| value(stats));
            // Differences below a tolerance are not exported.
            let magnitude = values().map(|value| value.abs().max(1.0)).sum();
            let sum = Some(Interval::exactly(values().sum(), magnitude));
            all.push(Expected { sum, ..Expected::from_definition(definition).in_phase(phase) });
        }
    }
    all
}
