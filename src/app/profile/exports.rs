//! What is exported of a run besides its records: what it is, and its final values.

use std::time::Duration;

use url::Url;

use base::interrupt::Interrupt;
use base::redact::Secret;
use client::runner::QueueStats;
use client::schedule::PhaseKind;
use client::schedule::config::{PhaseConfig, has_several, only_measured};
use dataset::{Length, Source};
use measure::judge::{Gate, Judged, Reading};
use measure::metrics::health::OutputHealth;
use results::run::RunReport;
use results::run::ledger::Ledger;
use results::warnings::Warning;
use telemetry::{GateResult, Identity, RunSettings, RunTotals, Telemetry, TelemetryReport};

use super::Run;

/// Timeout of the final export.
const EXPORT_DEADLINE: Duration = Duration::from_secs(10);

impl Run {
    /// Returns what telemetry states of the run.
    pub(super) fn identity(&self) -> Identity {
        let models = self.config.dataset.requested_models();
        Identity {
            benchmark_id: self.description.benchmark_id,
            sweep_id: self.description.member.as_ref().map(|member| member.sweep_id.clone()),
            shard: self.config.schedule.shard,
            endpoint_type: self.config.endpoint.endpoint_type,
            models: models.iter().map(|model| model.as_str().into()).collect(),
            urls: self.config.server.urls.iter().map(Secret::<Url>::shown).collect(),
            phases: if has_several(&self.config.schedule.phases) {
                self.config.schedule.phases.iter().map(|phase| phase.name().into()).collect()
            } else {
                Vec::new()
            },
            tenants: self
                .config
                .tenants
                .iter()
                .map(|tenant| tenant.traffic.name.as_str().into())
                .collect(),
            info: self.info(),
            clock: self.clock,
        }
    }

    fn info(&self) -> RunSettings {
        let config = &self.config;
        let named = |phase: &PhaseConfig| format!("{}: {}", phase.name(), phase.load_label());
        let load = only_measured(&config.schedule.phases).map_or_else(
            || config.schedule.measured().map(named).collect::<Vec<_>>().join("; "),
            PhaseConfig::load_label,
        );
        let part = config.dataset.only_part();
        let mean = |lengths: &Length| lengths.spread().mean.to_string();
        let input_tokens = match part.map(|part| &part.source) {
            Some(Source::Synthetic(synthetic)) if synthetic.has_independent_lengths() => {
                Some(mean(&synthetic.input_tokens))
            }
            _ => None,
        };
        let objectives = config.metrics.objectives.iter();
        let objectives: Vec<String> =
            objectives.map(|one| format!("{}:{}", one.tag, one.threshold)).collect();
        RunSettings {
            load,
            input_tokens,
            output_tokens: part.and_then(|part| part.output_tokens.as_ref()).map(mean),
            objectives: (!objectives.is_empty()).then(|| objectives.join(" ")),
        }
    }
}

/// Returns the result of a gate as it is exported.
fn gate_result<'a>(gate: &'a Gate, judged: &'a Judged) -> GateResult<'a> {
    let number = |reading| match reading {
        Reading::Number(value) => Some(value),
        Reading::Word(_) => None,
    };
    GateResult {
        expression: &judged.gate,
        metric: gate.metric(),
        statistic: gate.statistic(),
        held: judged.value.filter(|_| !judged.undecided).map(|_| judged.held),
        value: judged.value.and_then(number),
        limit: number(judged.limit),
        unit: &judged.unit,
    }
}

/// Exports the final values, and compares the last export with them.
pub(super) fn finish_export(
    telemetry: &Telemetry,
    report: &RunReport,
    ledger: &Ledger,
    queue: QueueStats,
    interrupt: &Interrupt,
) -> TelemetryReport {
    let RunReport { outcome, .. } = report;
    let totals = RunTotals {
        warmup: ledger.warmup.phase_totals(),
        profiling: ledger.profiling.phase_totals(),
        agents: ledger.agents,
        phases: report.phases.clone(),
        queue,
        health: outcome.client_health.clone().unwrap_or_default(),
        output_faults: outcome.output_health.as_ref().map_or(0, OutputHealth::fault_count),
    };
    telemetry.time_breakdown(outcome.time_breakdown.as_ref());
    telemetry.load_health(outcome.load_health.as_ref());
    telemetry.output_health(outcome.output_health.as_ref());
    for stats in &totals.phases {
        telemetry.phase(stats);
        match stats.phase {
            PhaseKind::Warmup => telemetry.results(stats.phase, None, &ledger.warmup.results()),
            PhaseKind::Profiling => telemetry.results(stats.phase, None, &report.results),
        }
    }
    for (index, phase) in (0..).zip(&report.by_phase) {
        telemetry.results(phase.kind, Some(index), &phase.results);
    }
    if let Ok(steady) = &report.steady_state {
        telemetry.steady_state(steady);
    }
    telemetry.queue(PhaseKind::Profiling, &totals.queue);
    telemetry.health(PhaseKind::Profiling, &totals.health);
    for (gate, judged) in report.run.gates.iter().zip(&report.gates()) {
        telemetry.gate(&gate_result(gate, judged));
    }
    for warning in Warning::all_from_report(report) {
        let Warning { name, title, level, .. } = warning;
        telemetry.warning([name, title, level.as_str()], warning.exported_summary());
    }
    telemetry.finish_unless(&totals, EXPORT_DEADLINE, &interrupt.since_now())
}
