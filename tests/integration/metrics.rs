//! Files generated from the catalogue, and checks of them by other tools.

use std::collections::{HashMap, HashSet};
use std::path::{Path, PathBuf};
use std::{fs, io};

use measure::metrics::{Registry, listing, reference};
use serde::Deserialize;

fn in_repository(path: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join(path)
}

/// Compares the file at `path` with `expected`, or writes it if `UPDATE` is set.
fn assert_written(path: &str, expected: &str) -> io::Result<()> {
    let file = in_repository(path);
    if std::env::var_os("UPDATE").is_some() {
        fs::write(&file, expected)?;
    }
    let written = fs::read_to_string(&file)?;
    assert!(
        written == expected,
        "{path} is not what the catalogue says; write it anew with `{}`",
        reference::REGENERATE
    );
    Ok(())
}

#[test]
fn the_metric_reference_is_the_catalogue() -> io::Result<()> {
    assert_written("docs/metrics.md", &reference::markdown())
}

#[test]
fn the_names_over_otlp_and_in_prometheus_are_the_registry() -> io::Result<()> {
    assert_written("docs/otlp-metrics.md", &reference::otlp_table())
}

#[test]
fn the_registry_entries_are_the_catalogue() -> io::Result<()> {
    assert_written("semconv/aiperf-metrics.yaml", &reference::semconv_yaml())
}

/// The metrics in Weaver's definition format, version 2.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Definitions {
    file_format: String,
    metrics: Vec<MetricDefinition>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct MetricDefinition {
    name: String,
    brief: String,
    instrument: String,
    unit: String,
    stability: String,
    requirement_level: String,
    #[serde(default)]
    annotations: Option<serde_norway::Value>,
    attributes: Vec<Attributes>,
}

#[derive(Debug, Deserialize, PartialEq)]
#[serde(untagged, deny_unknown_fields)]
enum Attributes {
    Group {
        ref_group: String,
    },
    One {
        #[serde(rename = "ref")]
        name: String,
        requirement_level: String,
    },
}

#[test]
fn the_registry_entries_are_valid_definitions() {
    let definitions: Definitions = serde_norway::from_str(&reference::semconv_yaml()).unwrap();
    assert_eq!(definitions.file_format, "definition/2");
    let mut names = HashSet::new();
    for metric in &definitions.metrics {
        assert!(names.insert(&metric.name), "{} is there twice", metric.name);
        assert!(metric.name.starts_with("aiperf.") && !metric.brief.is_empty());
        assert!(["histogram", "counter", "gauge"].contains(&metric.instrument.as_str()));
        assert!(!metric.unit.is_empty());
        assert_eq!(metric.stability, "development");
        assert_eq!(metric.requirement_level, "recommended");
        let of = if metric.instrument == "gauge" { "phase" } else { "request" };
        let mut expected = vec![Attributes::Group { ref_group: format!("aiperf.{of}.attributes") }];
        for (prefix, name) in [
            ("aiperf.percentiles.", "aiperf.percentile"),
            ("aiperf.steady_state.", "aiperf.statistic"),
        ] {
            if metric.name.starts_with(prefix) {
                let (name, requirement_level) = (name.into(), "required".into());
                expected.push(Attributes::One { name, requirement_level });
            }
        }
        assert_eq!(metric.attributes, expected, "{}", metric.name);
        assert_eq!(metric.annotations.is_some(), metric.instrument == "histogram");
    }
    let unit = |name: &str| {
        let metric = definitions.metrics.iter().find(|metric| metric.name == name).unwrap();
        (metric.instrument.as_str(), metric.unit.as_str())
    };
    assert_eq!(unit("aiperf.time_to_first_token"), ("histogram", "s"));
    assert_eq!(unit("aiperf.request_count"), ("counter", "{request}"));
    assert_eq!(unit("aiperf.output_token_throughput"), ("gauge", "{token}/s"));
    assert!(
        !names.iter().any(|name| name.ends_with("_timestamp") || name.ends_with("requested_osl"))
    );
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Listed {
    tag: String,
    header: String,
    unit: String,
    display_unit: String,
    kind: String,
    flags: Vec<String>,
    console_group: String,
    requires: Vec<String>,
    formula: String,
    otel: Option<ListedInstrument>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct ListedInstrument {
    name: String,
    instrument: String,
    unit: String,
    boundaries: Vec<f64>,
    attributes: Option<HashMap<String, String>>,
    prometheus_name: String,
    percentiles_name: Option<String>,
    percentiles_prometheus_name: Option<String>,
    steady_state_name: Option<String>,
    steady_state_prometheus_name: Option<String>,
    gen_ai_name: Option<String>,
    gen_ai_prometheus_name: Option<String>,
    gen_ai_latest_name: Option<String>,
    gen_ai_latest_prometheus_name: Option<String>,
}

#[test]
fn the_listing_has_every_metric() {
    let listed: Vec<Listed> = serde_json::from_str(&listing::json()).unwrap();
    assert_eq!(listed.len(), Registry::catalogue().len());
    let latency = listed.iter().find(|metric| metric.tag == "inter_token_latency").unwrap();
    assert_eq!(latency.header, "Inter Token Latency");
    assert_eq!((&*latency.unit, &*latency.display_unit, &*latency.kind), ("ns", "ms", "record"));
    assert_eq!(latency.flags, ["STREAMING_ONLY", "PRODUCES_TOKENS_ONLY"]);
    assert_eq!(latency.console_group, "default");
    let requires = ["output_sequence_length", "request_latency", "time_to_first_token"];
    assert_eq!(latency.requires, requires);
    assert!(latency.formula.contains("(output_sequence_length − 1)"));
    let otel = latency.otel.as_ref().unwrap();
    assert_eq!((&*otel.name, &*otel.instrument), ("aiperf.inter_token_latency", "histogram"));
    assert_eq!((&*otel.unit, otel.boundaries[0]), ("s", 1e-4));
    let name = "gen_ai.client.operation.time_per_output_chunk";
    assert_eq!(otel.gen_ai_name.as_deref(), Some(name));
    assert_eq!(otel.prometheus_name, "aiperf_inter_token_latency_seconds");
    assert_eq!(otel.percentiles_name.as_deref(), Some("aiperf.percentiles.inter_token_latency"));
    let name = "aiperf_percentiles_inter_token_latency_seconds";
    assert_eq!(otel.percentiles_prometheus_name.as_deref(), Some(name));
    assert_eq!(otel.steady_state_name.as_deref(), Some("aiperf.steady_state.inter_token_latency"));
    let name = "aiperf_steady_state_inter_token_latency_seconds";
    assert_eq!(otel.steady_state_prometheus_name.as_deref(), Some(name));
    let name = "gen_ai_client_operation_time_per_output_chunk_seconds";
    assert_eq!(otel.gen_ai_prometheus_name.as_deref(), Some(name));
    assert_eq!(otel.gen_ai_latest_name, None);
    let gaps = listed.iter().find(|metric| metric.tag == "inter_chunk_latency").unwrap();
    let otel = gaps.otel.as_ref().unwrap();
    let name = "gen_ai.client.inference.time_per_output_chunk";
    assert_eq!(otel.gen_ai_latest_name.as_deref(), Some(name));
    let name = "gen_ai_client_inference_time_per_output_chunk_seconds";
    assert_eq!(otel.gen_ai_latest_prometheus_name.as_deref(), Some(name));
    let queue = listed.iter().find(|metric| metric.tag == "server_queue_time").unwrap();
    let otel = queue.otel.as_ref().unwrap();
    assert_eq!(otel.name, "aiperf.server.stage.duration");
    assert_eq!(otel.attributes.as_ref().unwrap()["aiperf.stage"], "queue");
    assert_eq!(otel.percentiles_name.as_deref(), Some("aiperf.percentiles.server_queue_time"));
    let internal = listed.iter().find(|metric| metric.tag == "requested_osl").unwrap();
    assert!(internal.otel.is_none());
}

#[test]
fn the_table_has_a_line_for_each_metric() {
    let table = listing::table();
    let lines: Vec<&str> = table.lines().collect();
    assert_eq!(lines.len(), Registry::catalogue().len() + 1);
    let kind = lines[0].find("KIND").unwrap();
    for (line, metric) in lines[1..].iter().zip(Registry::catalogue()) {
        assert!(line.starts_with(metric.tag.name()));
        assert!(line[kind..].starts_with(metric.kind.label()), "{line}");
    }
}
