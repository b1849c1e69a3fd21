//! `profile_export_aiperf.json`: the statistics of the run.

use std::io::{self, Write};

use jiff::tz::TimeZone;
use jiff::{Timestamp, Zoned};
use serde::ser::SerializeMap;
use serde::{Deserialize, Serialize, Serializer};
use serde_json::{Map, Value};

use super::gpu;
use crate::dataset::Account;
use crate::metrics::breakdown::{BreakdownResults, GroupResult};
use crate::metrics::metric::{MetricResult, Stats};
use crate::multi_run::{Member, Variation};
use crate::run::{Provenance, RunReport};
use crate::server_metrics::conservation::Comparison;

/// Version of the file layout.
const SCHEMA_VERSION: &str = "1.4";

/// Writes the summary, indented by two spaces.
pub(super) fn write(out: &mut dyn Write, report: &RunReport) -> io::Result<()> {
    serde_json::to_writer_pretty(&mut *out, &Summary(report))?;
    out.write_all(b"\n")
}

struct Summary<'a>(&'a RunReport);

impl Serialize for Summary<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let Self(report) = self;
        let run = &report.run;
        let mut map = serializer.serialize_map(None)?;
        map.serialize_entry("schema_version", SCHEMA_VERSION)?;
        map.serialize_entry("aiperf_version", env!("CARGO_PKG_VERSION"))?;
        map.serialize_entry("benchmark_id", &run.benchmark_id.to_string())?;
        for result in exported(report, &report.results) {
            map.serialize_entry(&result.metric.tag, &Entry::of(result))?;
        }
        let BreakdownResults { by_model, by_url } = &report.breakdowns;
        for (name, groups) in [("by_model", by_model), ("by_url", by_url)] {
            if !groups.is_empty() {
                map.serialize_entry(name, &Groups { report, groups })?;
            }
        }
        map.serialize_entry("steady_state", &Steady(report))?;
        if let Some(breakdown) = &report.outcome.time_breakdown {
            map.serialize_entry("time_breakdown", breakdown)?;
        }
        if let Some(gpus) = &report.outcome.gpus {
            map.serialize_entry("telemetry_data", &gpu::Section(gpus))?;
        }
        map.serialize_entry("input_config", &run.input_config)?;
        map.serialize_entry("run_info", &RunInfo::of(report))?;
        if let Some(shard) = &run.shard {
            map.serialize_entry("shard", shard)?;
        }
        if let Some(at) = run.start_at_ns {
            map.serialize_entry("start_at_ns", &at)?;
        }
        if let Some(shards) = &report.outcome.shards {
            map.serialize_entry("shards", shards)?;
        }
        map.serialize_entry("was_cancelled", &report.outcome.was_cancelled)?;
        map.serialize_entry("is_complete", &report.is_complete())?;
        if let Some(reason) = &report.outcome.incomplete_reason {
            map.serialize_entry("incomplete_reason", reason)?;
        }
        map.serialize_entry("error_summary", &report.errors)?;
        map.serialize_entry("start_time", &local_time(report.outcome.start_wall_ns))?;
        map.serialize_entry("end_time", &local_time(report.outcome.end_wall_ns))?;
        if let Some(branches) = &report.outcome.branches {
            map.serialize_entry("branch_stats", branches)?;
        }
        if !report.warmup_results.is_empty() {
            map.serialize_entry("warmup_metrics", &Results(report, &report.warmup_results))?;
        }
        map.serialize_entry("load", &report.outcome.load)?;
        if let Some(health) = &report.outcome.client_health {
            map.serialize_entry("client_health", health)?;
        }
        if let Some(telemetry) = &report.outcome.telemetry {
            map.serialize_entry("telemetry", telemetry)?;
        }
        let gates = report.gates();
        if !gates.is_empty() {
            map.serialize_entry("gates", &gates)?;
        }
        let conservation = report.conservation();
        if !conservation.is_empty() {
            map.serialize_entry("server_metrics", &ServerSide { conservation })?;
        }
        map.end()
    }
}

/// The steady state, or why there is none.
struct Steady<'a>(&'a RunReport);

impl Serialize for Steady<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let Self(report) = self;
        let mut map = serializer.serialize_map(None)?;
        map.serialize_entry("found", &report.steady_state.is_ok())?;
        match &report.steady_state {
            Err(reason) => map.serialize_entry("reason", &reason.to_string())?,
            Ok(steady) => {
                let phase = report.outcome.start_wall_ns;
                map.serialize_entry("start_ns", &steady.start_ns)?;
                map.serialize_entry("end_ns", &steady.end_ns)?;
                map.serialize_entry("start_offset_ns", &steady.start_ns.saturating_sub(phase))?;
                map.serialize_entry("end_offset_ns", &steady.end_ns.saturating_sub(phase))?;
                map.serialize_entry("duration_ns", &steady.duration())?;
                map.serialize_entry("request_count", &steady.request_count)?;
                map.serialize_entry("request_share", &steady.request_share)?;
                map.serialize_entry("metrics", &Results(report, &steady.results))?;
            }
        }
        map.end()
    }
}

/// The server metrics in the summary; the metrics themselves have separate files.
#[derive(Serialize)]
struct ServerSide<'a> {
    conservation: &'a [Comparison],
}

/// Identity of the run and the program.
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct RunInfo {
    pub(super) benchmark_id: String,
    #[serde(skip_serializing_if = "Option::is_none", default)]
    sweep_id: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub(super) random_seed: Option<u64>,
    #[serde(default)]
    trial: u64,
    #[serde(skip_serializing_if = "Option::is_none", default)]
    run_label: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none", default)]
    variation_label: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none", default)]
    variation_index: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none", default)]
    variation_values: Option<Map<String, Value>>,
    #[serde(default)]
    pub(super) cli_command: String,
    /// Start of the results with its offset from UTC.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    start_time: Option<String>,
    /// What became of the requests of the dataset, if it was read.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub(super) dataset: Option<Account>,
    #[serde(flatten)]
    pub(super) provenance: Provenance,
    /// All settings; `input_config` contains those that AIPerf has too.
    #[serde(skip_serializing_if = "Value::is_null", default)]
    pub(super) config: Value,
}

impl RunInfo {
    fn of(report: &RunReport) -> Self {
        let run = &report.run;
        let member = run.member.as_ref();
        let variation = member.and_then(|member| member.variation.as_ref());
        Self {
            benchmark_id: run.benchmark_id.to_string(),
            sweep_id: member.map(|member| member.sweep_id.clone()),
            random_seed: run.random_seed,
            trial: member.map_or(0, |member| member.trial),
            run_label: member.map(|member| member.run_label.clone()),
            variation_label: variation.map(|variation| variation.label.clone()),
            variation_index: variation.map(|variation| variation.index),
            variation_values: variation.map(|variation| variation.values.clone()),
            cli_command: run.cli_command.clone(),
            start_time: Some(
                zoned(report.outcome.start_wall_ns).strftime("%FT%T.%6f%:z").to_string(),
            ),
            dataset: report.dataset(),
            provenance: run.provenance.clone(),
            config: run.config.clone(),
        }
    }

    /// Returns its position among several runs, if it is one of them.
    pub(super) fn member(&self) -> Option<Member> {
        let variation = || {
            Some(Variation {
                label: self.variation_label.clone()?,
                // Only the manifest and the plan know it.
                directory: String::new(),
                index: self.variation_index?,
                values: self.variation_values.clone()?,
            })
        };
        Some(Member {
            sweep_id: self.sweep_id.clone()?,
            trial: self.trial,
            run_label: self.run_label.clone()?,
            variation: variation(),
        })
    }
}

/// The statistics of each group by name.
struct Groups<'a> {
    report: &'a RunReport,
    groups: &'a [GroupResult],
}

impl Serialize for Groups<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let Self { report, groups } = self;
        serializer
            .collect_map(groups.iter().map(|group| (&group.name, Results(report, &group.results))))
    }
}

/// The statistics of each metric by tag.
struct Results<'a>(&'a RunReport, &'a [MetricResult]);

impl Serialize for Results<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let results = exported(self.0, self.1);
        serializer.collect_map(results.map(|result| (result.metric.tag.name(), Entry::of(result))))
    }
}

/// Returns the results that are visible to users.
pub(super) fn exported<'a>(
    report: &RunReport,
    results: &'a [MetricResult],
) -> impl Iterator<Item = &'a MetricResult> {
    let developer_mode = report.run.settings.developer_mode;
    results.iter().filter(move |result| result.metric.is_exported(developer_mode))
}

/// The statistics of one metric. Values that are not finite are absent, since JSON cannot represent
/// them.
#[derive(Debug, Default, Serialize)]
pub(super) struct Entry {
    unit: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    avg: Option<Average>,
    #[serde(skip_serializing_if = "Option::is_none")]
    p1: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    p5: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    p10: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    p25: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    p50: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    p75: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    p90: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    p95: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    p99: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    min: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    max: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    std: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    count: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    sum: Option<f64>,
}

/// Returns the statistics of a metric as in the summary, with its title as `header`.
pub(crate) fn with_header(result: &MetricResult) -> Value {
    let mut entry = serde_json::to_value(Entry::of(result)).unwrap_or_default();
    if let Some(members) = entry.as_object_mut() {
        members.insert("header".to_owned(), result.metric.header.into());
    }
    entry
}

/// A mean, or a single value.
#[derive(Debug, Serialize)]
#[serde(untagged)]
enum Average {
    Instant(u64),
    Number(f64),
}

impl Entry {
    pub(super) fn of(result: &MetricResult) -> Self {
        let finite = |value: f64| Some(value).filter(|value| value.is_finite());
        let Stats { avg, instant, distribution } = result.stats;
        let avg = instant.map(Average::Instant).or(finite(avg).map(Average::Number));
        let unit = result.metric.display_unit.label();
        let Some(d) = distribution else {
            return Self { unit, avg, ..Self::default() };
        };
        Self {
            unit,
            avg,
            p1: finite(d.p1),
            p5: finite(d.p5),
            p10: finite(d.p10),
            p25: finite(d.p25),
            p50: finite(d.p50),
            p75: finite(d.p75),
            p90: finite(d.p90),
            p95: finite(d.p95),
            p99: finite(d.p99),
            min: finite(d.min),
            max: finite(d.max),
            std: finite(d.std),
            count: Some(d.count).filter(|count| *count > 0),
            sum: finite(d.sum),
        }
    }
}

/// Formats local time without a zone, with microseconds: `2026-11-21T01:54:54.681160`.
pub(crate) fn local_time(wall_ns: u64) -> String {
    zoned(wall_ns).strftime("%FT%T.%6f").to_string()
}

fn zoned(wall_ns: u64) -> Zoned {
    let at = Timestamp::from_nanosecond(i128::from(wall_ns)).unwrap_or_default();
    at.to_zoned(TimeZone::system())
}

/// Parses the wall time that [`local_time`] wrote, with microseconds.
pub(super) fn wall_time(local: &str) -> Option<u64> {
    let at: jiff::civil::DateTime = local.parse().ok()?;
    let zoned = at.to_zoned(TimeZone::system()).ok()?;
    u64::try_from(zoned.timestamp().as_nanosecond()).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn local_times_have_microseconds_and_no_zone() {
        let text = local_time(1_795_226_094_681_160_123);
        // Offsets are whole minutes, so seconds are the same in every zone.
        assert!(text.ends_with(":54.681160"), "{text}");
        assert_eq!(text.len(), "2026-11-21T01:54:54.681160".len());
        assert_eq!(wall_time(&text), Some(1_795_226_094_681_160_000));
    }
}
