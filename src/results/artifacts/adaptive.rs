//! AIPerf's files of adaptive loads: `adaptive_scale_manifest.json`, and for each phase
//! `adaptive_scale_summary.json` and `adaptive_scale_events.jsonl`.

use std::fs;
use std::io;
use std::path::PathBuf;

use serde_json::{Map, Value, json};

use base::setting::Named as _;
use client::schedule::config::PhaseLabels;
use client::schedule::{AdaptiveEnd, PhaseKind, Stage, StepPolicy};
use measure::judge::AdaptivePath;
use measure::judge::adaptive::{Compared, Outcomes, Window, WindowVerdict};
use measure::metrics::metric::{MetricResult, Statistic};
use measure::metrics::tag::{self, MetricTag};

use super::error::WriteFailure;
use super::layout::Layout;
use super::whole::{pretty, write_whole};
use crate::run::RunReport;

/// Version of the files' layout.
const SCHEMA_VERSION: u64 = 2;

/// Writes the files of each adaptive load; nothing without any.
pub(super) fn write(layout: &Layout, report: &RunReport) -> Vec<Result<PathBuf, WriteFailure>> {
    let paths = &report.outcome.adaptive;
    if paths.is_empty() {
        return Vec::new();
    }
    let labels = PhaseLabels::from_phases(&report.run.setup.phases);
    let mut outcomes = Vec::new();
    let mut phases = Vec::new();
    let mut levels = report.levels.iter();
    for path in paths {
        let results: Vec<&[MetricResult]> =
            levels.by_ref().take(path.windows.len()).map(Vec::as_slice).collect();
        let (_, profiling_index) = labels.get(path.phase_index, PhaseKind::Profiling);
        // A name of dots alone is another directory.
        let is_name = path.phase.contains(|letter| letter != '.');
        let index = path.phase_index.to_string();
        let name = if is_name { &*path.phase } else { &index };
        let place = layout.phases.join(name);
        let (summary, events) =
            (place.join("adaptive_scale_summary.json"), place.join("adaptive_scale_events.jsonl"));
        if let Err(why) = fs::create_dir_all(&place) {
            outcomes.push(Err(WriteFailure { path: place, error: why.to_string() }));
            continue;
        }
        outcomes.push(write_whole(&summary, |out| pretty(out, &of_phase(path, &results))));
        outcomes.push(write_whole(&events, |out| lines(out, &events_of(path))));
        phases.push(json!({
            "phase_index": path.phase_index,
            "profiling_index": profiling_index,
            "phase_name": &*path.phase,
            "phase_kind": PhaseKind::Profiling.as_str(),
            "events_path": format!("phases/{name}/adaptive_scale_events.jsonl"),
            "summary_path": format!("phases/{name}/adaptive_scale_summary.json"),
        }));
    }
    let manifest = json!({ "schema_version": SCHEMA_VERSION, "adaptive_phases": phases });
    outcomes.push(write_whole(&layout.adaptive_manifest, |out| pretty(out, &manifest)));
    outcomes
}

fn lines(out: &mut dyn io::Write, values: &[Value]) -> io::Result<()> {
    for value in values {
        serde_json::to_writer(&mut *out, value)?;
        out.write_all(b"\n")?;
    }
    Ok(())
}

/// The summary of one phase, whose windows have these `results`.
fn of_phase(path: &AdaptivePath, results: &[&[MetricResult]]) -> Value {
    let held: Vec<&Window> =
        path.windows.iter().filter(|window| window.stage == Stage::Sustain).collect();
    let has_passed = |window: &&&Window| window.verdict == WindowVerdict::Passed;
    let passed = held.iter().filter(has_passed).count();
    let step = match path.adaptive.step {
        StepPolicy::Bisect => json!({}),
        StepPolicy::SlaMargin { base, most } => {
            json!({ "base_step": base, "max_step_multiplier": most })
        }
        StepPolicy::FixedPercentStep(percent) => json!({ "step_percent": percent }),
    };
    let last = path.windows.last();
    let throughput = results.last().and_then(|it| value(it, tag::REQUEST_THROUGHPUT, "avg"));
    let candidates =
        path.windows.iter().enumerate().map(|(at, window)| {
            candidate(at, window, results.get(at).copied().unwrap_or_default())
        });
    let main = json!({
        "schema_version": SCHEMA_VERSION,
        "status": path.end.status(),
        "completed_reason": path.end.name(),
        "control_variable": path.adaptive.control.name(),
        "control_value": path.level,
        "control": { "actual_value": path.level, "target_value": path.level },
        "boundary_value": path.boundary,
        "last_passing_value": path.last_passing,
        "first_failing_value": path.first_failing,
        "sla_filters": last.map(|window| conditions(&window.conditions)),
        "sla_passed_during_sustain": !held.is_empty() && passed == held.len(),
        "step_policy": path.adaptive.step.name(),
        "sustain_duration_seconds": path.adaptive.sustain.as_seconds(),
        "sustain_windows": held.len(),
        "sustain_passed_windows": passed,
        "throughput": throughput,
        "totals": totals(path.windows.iter().map(|window| &window.requests)),
        "candidates": candidates.collect::<Vec<_>>(),
    });
    merged([main, step])
}

fn conditions(compared: &[Compared]) -> Vec<Value> {
    let condition = |it: &Compared| serde_json::to_value(&it.condition).unwrap_or_default();
    compared.iter().map(condition).collect()
}

fn totals<'a>(windows: impl Iterator<Item = &'a Outcomes>) -> Value {
    let all = windows.fold(Outcomes::default(), |a, b| Outcomes {
        completed: a.completed + b.completed,
        errored: a.errored + b.errored,
        cancelled: a.cancelled + b.cancelled,
        unanswered: a.unanswered + b.unanswered,
    });
    json!({
        "sent": all.sent(),
        "completed": all.completed,
        "errored": all.errored,
        "cancelled": all.cancelled,
    })
}

/// A window as AIPerf describes it, with its statistics as far as it has them.
fn candidate(at: usize, window: &Window, results: &[MetricResult]) -> Value {
    let requests = &window.requests;
    let sent = requests.sent();
    let main = json!({
        "adaptive_iteration": at,
        "candidate_value": window.level,
        "start_ts": window.start_ns as f64 / 1e9,
        "end_ts": window.end_ns as f64 / 1e9,
        "duration_s": window.seconds(),
        "request_count": sent,
        "success_count": requests.completed,
        "error_count": requests.errored,
        "success_rate": (sent > 0).then(|| requests.completed as f64 / sent as f64),
        "throughput_rps": value(results, tag::REQUEST_THROUGHPUT, "avg"),
        "accepted": window.verdict == WindowVerdict::Passed,
        "rejection_reason": window.verdict.rejection(),
    });
    let latencies = [
        ("latency", tag::REQUEST_LATENCY),
        ("ttft", tag::TIME_TO_FIRST_TOKEN),
        ("itl", tag::INTER_TOKEN_LATENCY),
    ];
    let statistics: Map<String, Value> = latencies
        .into_iter()
        .flat_map(|(name, metric)| {
            ["avg", "p50", "p95", "p99"].map(|statistic| {
                (format!("{name}_{statistic}_ms"), json!(value(results, metric, statistic)))
            })
        })
        .collect();
    merged([main, Value::Object(statistics)])
}

/// Returns a statistic of a metric in its display unit.
fn value(results: &[MetricResult], metric: MetricTag, statistic: &str) -> Option<f64> {
    let result = results.iter().find(|result| result.metric.tag == metric)?;
    Statistic::named(statistic)?.value_in(&result.stats).filter(|value| value.is_finite())
}

fn merged<const N: usize>(parts: [Value; N]) -> Value {
    let members = parts.into_iter().filter_map(|part| match part {
        Value::Object(members) => Some(members),
        _ => None,
    });
    Value::Object(members.flatten().collect())
}

/// What happened, in order: each window, what followed from it, and the end.
fn events_of(path: &AdaptivePath) -> Vec<Value> {
    let control = path.adaptive.control.name();
    let event = |name: &str, at: u64, details: Value| {
        let main = json!({
            "event": name,
            "timestamp_ns": at,
            "phase_name": &*path.phase,
            "control_variable": control,
        });
        merged([main, details])
    };
    let mut events = Vec::new();
    if let Some(first) = path.windows.first() {
        let details = json!({ "control_value": first.level, "control_max": path.most });
        events.push(event("adaptive_phase_started", first.start_ns, details));
    }
    for (at, window) in path.windows.iter().enumerate() {
        let at_end = window.end_ns;
        let before = at.checked_sub(1).and_then(|before| path.windows.get(before));
        let begins_sustain = window.stage == Stage::Sustain
            && before.is_none_or(|before| before.stage == Stage::Discover);
        if begins_sustain {
            let found = json!({
                "boundary_value": window.level,
                "first_failing_value": path.first_failing,
            });
            events.push(event("boundary_discovered", window.start_ns, found.clone()));
            events.push(event("sustain_started", window.start_ns, found));
        }
        let details = json!({
            "adaptive_iteration": at,
            "phase": window.stage.name(),
            "control_value": window.level,
            "sla_passed": window.verdict == WindowVerdict::Passed,
            "sla_values": &window.conditions,
            "request_count": window.requests.sent(),
            "success_count": window.requests.completed,
            "error_count": window.requests.errored,
            "cancelled_count": window.requests.cancelled,
        });
        events.push(event("adaptive_window", at_end, details));
        if let Some(next) = path.windows.get(at + 1) {
            let details = json!({
                "adaptive_iteration": at,
                "control_value_before": window.level,
                "control_value_after": next.level,
            });
            events.push(event("adaptive_decision", at_end, details));
        }
    }
    let has_sustained = path.windows.iter().any(|window| window.stage == Stage::Sustain);
    if let Some(last) = path.windows.last() {
        if path.end == AdaptiveEnd::Sustained && !has_sustained {
            let found = json!({
                "boundary_value": path.boundary,
                "first_failing_value": path.first_failing,
            });
            events.push(event("boundary_discovered", last.end_ns, found));
        }
        let details = json!({
            "completed_reason": path.end.name(),
            "boundary_value": path.boundary,
            "last_passing_value": path.last_passing,
            "first_failing_value": path.first_failing,
        });
        events.push(event(&format!("adaptive_{}", path.end.status()), last.end_ns, details));
    }
    events
}
