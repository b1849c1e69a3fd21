//! Generates `generated.rs` from the registry, and fails if the file differs.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;
use std::fs;
use std::path::{Path, PathBuf};

use serde_norway::Value;

use super::{InstrumentKind, metric};

/// The published model files of the conventions.
const CONVENTIONS: &str = "tests/golden/semconv-1.41.1/gen-ai-metrics.yaml";

/// The hand-written files of the registry, in the order of the constants.
const REGISTRY: &[&str] = &[
    "gen-ai.yaml",
    "gen-ai-latest.yaml",
    "gen-ai-agents.yaml",
    "gen-ai-server.yaml",
    "aiperf-attributes.yaml",
    "aiperf-timing.yaml",
    "aiperf-client.yaml",
    "aiperf-gates.yaml",
    "aiperf-time-breakdown.yaml",
    "aiperf-spans.yaml",
    "aiperf-resource.yaml",
    EVENTS,
];

/// The file with the events that are log records; the events in the others are of spans.
const EVENTS: &str = "aiperf-events.yaml";

fn repository() -> &'static Path {
    Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/../.."))
}

fn read(path: impl AsRef<Path>) -> Value {
    let path = repository().join(path);
    let text = fs::read_to_string(&path).unwrap_or_else(|e| panic!("{}: {e}", path.display()));
    serde_norway::from_str(&text).unwrap_or_else(|e| panic!("{}: {e}", path.display()))
}

fn list<'a>(of: &'a Value, key: &str) -> &'a [Value] {
    of.get(key).and_then(Value::as_sequence).map_or(&[], Vec::as_slice)
}

fn text<'a>(of: &'a Value, key: &str) -> &'a str {
    of.get(key).and_then(Value::as_str).unwrap_or_else(|| panic!("no `{key}` in {of:?}"))
}

/// `gen_ai.client.token.usage` becomes `GEN_AI_CLIENT_TOKEN_USAGE`.
fn constant(name: &str) -> String {
    name.replace('.', "_").to_uppercase()
}

/// A metric to generate, from the registry or from the conventions it imports.
struct Row {
    name: String,
    instrument: String,
    unit: String,
    brief: String,
    boundaries: Vec<f64>,
}

fn own(metric: &Value) -> Row {
    let annotated = metric.get("annotations").and_then(|a| a.get("aiperf"));
    Row {
        name: text(metric, "name").into(),
        instrument: text(metric, "instrument").into(),
        unit: text(metric, "unit").into(),
        brief: text(metric, "brief").into(),
        boundaries: annotated
            .map(|a| list(a, "boundaries").iter().filter_map(Value::as_f64).collect())
            .unwrap_or_default(),
    }
}

fn imported(name: &str, conventions: &Value) -> Row {
    let group = list(conventions, "groups")
        .iter()
        .find(|group| group.get("metric_name").and_then(Value::as_str) == Some(name))
        .unwrap_or_else(|| panic!("the conventions do not define the metric {name}"));
    let unit = text(group, "unit");
    Row {
        name: name.into(),
        instrument: text(group, "instrument").into(),
        unit: unit.into(),
        brief: text(group, "brief").trim().trim_end_matches('.').into(),
        // A server's buckets are its own.
        boundaries: if name.contains(".server.") { Vec::new() } else { advised(unit) },
    }
}

/// The boundaries that the text of the conventions recommends; they are not in the model.
fn advised(unit: &str) -> Vec<f64> {
    match unit {
        "s" => (0..14).map(|n| f64::from(1u32 << n) / 100.0).collect(),
        "{token}" => (0..14).map(|n| 4f64.powi(n)).collect(),
        other => panic!("no boundaries are advised for the unit {other}"),
    }
}

fn rows() -> Vec<Row> {
    let conventions = read(CONVENTIONS);
    let mut rows = Vec::new();
    for &file in REGISTRY {
        let file = read(Path::new("semconv").join(file));
        if let Some(imports) = file.get("imports") {
            let names = list(imports, "metrics").iter().filter_map(Value::as_str);
            rows.extend(names.map(|name| imported(name, &conventions)));
        }
        rows.extend(list(&file, "metrics").iter().map(own));
    }
    rows
}

/// The attribute keys that the registry defines or refers to, and those of the imported metrics.
fn attribute_keys() -> BTreeSet<String> {
    let mut keys = BTreeSet::from(["gen_ai.token.type".to_owned()]);
    for &file in REGISTRY {
        let file = read(Path::new("semconv").join(file));
        keys.extend(list(&file, "attributes").iter().map(|a| text(a, "key").to_owned()));
        for group in list(&file, "attribute_groups") {
            keys.extend(list(group, "attributes").iter().map(|a| text(a, "ref").to_owned()));
        }
        for span in list(&file, "spans").iter().chain(list(&file, "events")) {
            let refs = list(span, "attributes").iter().filter_map(|a| a.get("ref"));
            keys.extend(refs.filter_map(Value::as_str).map(str::to_owned));
        }
    }
    keys
}

/// Names of events that are log records, with their descriptions.
fn event_names() -> Vec<(String, String)> {
    let file = read(Path::new("semconv").join(EVENTS));
    let imported = file.get("imports").map(|imports| list(imports, "events")).unwrap_or_default();
    let imported = imported.iter().filter_map(Value::as_str);
    let imported = imported.map(|name| (name.to_owned(), "An event of the conventions".to_owned()));
    let own = list(&file, "events").iter();
    imported
        .chain(own.map(|of| (text(of, "name").to_owned(), text(of, "brief").to_owned())))
        .collect()
}

/// Names of span types and of the events of spans, with their descriptions.
fn span_names() -> Vec<(String, String)> {
    let mut names = Vec::new();
    for &file in REGISTRY.iter().filter(|file| **file != EVENTS) {
        let file = read(Path::new("semconv").join(file));
        let spans = list(&file, "spans").iter().map(|span| (text(span, "type"), span));
        let events = list(&file, "events").iter().map(|event| (text(event, "name"), event));
        let is_fixed = |name: &str, of: &Value| match of.get("name") {
            Some(Value::Mapping(_)) => text(&of["name"], "note") == format!("`{name}`"),
            _ => true,
        };
        let all = spans.chain(events).filter(|(name, of)| is_fixed(name, of));
        names.extend(all.map(|(name, of)| (name.to_owned(), text(of, "brief").to_owned())));
    }
    names
}

/// Returns the text with its first letter in lower case, as within a sentence.
fn uncapitalised(text: &str) -> String {
    let mut letters = text.chars();
    letters.next().map_or_else(String::new, |first| first.to_lowercase().chain(letters).collect())
}

fn generate() -> String {
    let mut out = String::from(
        "// DO NOT EDIT: generated from `semconv/*.yaml` and the GenAI conventions 1.41.1.\n\
         // Regenerate with `UPDATE=1 cargo test --lib semconv`.\n\n\
         /// Keys of attributes.\npub mod attribute {\n",
    );
    for key in attribute_keys() {
        writeln!(out, "    /// `{key}`").unwrap();
        writeln!(out, "    pub const {}: &str = {key:?};", constant(&key)).unwrap();
    }
    out.push_str(
        "}\n\n/// Names of spans, the request's own aside, and of their events.\n\
         pub mod span {\n",
    );
    for (name, brief) in span_names() {
        writeln!(out, "    /// `{name}`: {}.", uncapitalised(&brief)).unwrap();
        writeln!(out, "    pub const {}: &str = {name:?};", constant(&name)).unwrap();
    }
    out.push_str("}\n\n/// Names of events that are log records.\npub mod event {\n");
    for (name, brief) in event_names() {
        writeln!(out, "    /// `{name}`: {}.", uncapitalised(&brief)).unwrap();
        writeln!(out, "    pub const {}: &str = {name:?};", constant(&name)).unwrap();
    }
    out.push_str(
        "}\n\n/// Metrics.\npub mod metric {\n    \
         use super::super::{Definition, InstrumentKind};\n",
    );
    for row in rows() {
        let kind = match row.instrument.as_str() {
            "histogram" => "Histogram",
            "counter" => "Counter",
            "updowncounter" => "UpDownCounter",
            "gauge" => "Gauge",
            other => panic!("{}: unknown instrument {other}", row.name),
        };
        writeln!(out, "\n    /// {}. `{}`, {}.", row.brief, row.unit, row.instrument).unwrap();
        writeln!(out, "    pub const {}: Definition = Definition {{", constant(&row.name)).unwrap();
        writeln!(out, "        name: {:?},", row.name).unwrap();
        writeln!(out, "        kind: InstrumentKind::{kind},").unwrap();
        writeln!(out, "        unit: {:?},", row.unit).unwrap();
        writeln!(out, "        brief: {:?},", row.brief).unwrap();
        writeln!(out, "        boundaries: &{:?},\n    }};", row.boundaries).unwrap();
    }
    let all: Vec<String> = rows().iter().map(|row| constant(&row.name)).collect();
    writeln!(out, "\n    /// All of them.").unwrap();
    writeln!(out, "    pub const ALL: [&Definition; {}] = [", all.len()).unwrap();
    for name in &all {
        writeln!(out, "        &{name},").unwrap();
    }
    out.push_str("    ];\n}\n");
    out
}

#[test]
fn generated_constants_are_up_to_date() {
    let path: PathBuf = repository().join("src/base/semconv/generated.rs");
    let wanted = generate();
    if std::env::var_os("UPDATE").is_some() {
        fs::write(&path, &wanted).unwrap();
    }
    let have = fs::read_to_string(&path).unwrap();
    assert!(have == wanted, "regenerate with `UPDATE=1 cargo test --lib semconv`");
}

#[test]
fn boundaries_are_those_the_conventions_advise() {
    // https://opentelemetry.io/docs/specs/semconv/gen-ai/gen-ai-metrics/
    assert_eq!(
        metric::GEN_AI_CLIENT_OPERATION_DURATION.boundaries,
        [0.01, 0.02, 0.04, 0.08, 0.16, 0.32, 0.64, 1.28, 2.56, 5.12, 10.24, 20.48, 40.96, 81.92]
    );
    assert_eq!(
        metric::GEN_AI_CLIENT_TOKEN_USAGE.boundaries,
        [
            1.0,
            4.0,
            16.0,
            64.0,
            256.0,
            1024.0,
            4096.0,
            16384.0,
            65536.0,
            262_144.0,
            1_048_576.0,
            4_194_304.0,
            16_777_216.0,
            67_108_864.0
        ]
    );
}

/// The metrics of the newest conventions, by name.
fn newest() -> BTreeMap<String, Value> {
    let files = ["metrics", "token-metrics"]
        .map(|name| read(format!("tests/golden/semconv-genai/{name}.yaml")));
    let metrics = files.iter().flat_map(|file| list(file, "metrics"));
    metrics.map(|metric| (text(metric, "name").to_owned(), metric.clone())).collect()
}

/// The attributes that every metric of an inference has, in both versions.
const COMMON: [&str; 5] = [
    "gen_ai.operation.name",
    "gen_ai.provider.name",
    "gen_ai.request.model",
    "gen_ai.response.model",
    "server.address",
];

#[test]
fn the_newest_names_are_those_of_the_conventions() {
    let newest = newest();
    let file = read("semconv/gen-ai-latest.yaml");
    let plain = |of: &str| of.split_whitespace().collect::<Vec<_>>().join(" ");
    for metric in list(&file, "metrics") {
        let name = text(metric, "name");
        let model = newest.get(name).unwrap_or_else(|| panic!("{name} is not defined"));
        for key in ["instrument", "unit", "stability", "requirement_level"] {
            assert_eq!(text(metric, key), text(model, key), "{name}: {key}");
        }
        let brief = plain(text(model, "brief"));
        assert_eq!(text(metric, "brief"), brief.trim_end_matches('.'), "{name}");
        if text(metric, "instrument") == "histogram" {
            let annotated = &metric["annotations"]["aiperf"];
            let bounds: Vec<f64> =
                list(annotated, "boundaries").iter().filter_map(Value::as_f64).collect();
            assert_eq!(bounds, advised(text(metric, "unit")), "{name}");
        }
        // Of the metrics of an inference, only the usage counters have a further attribute.
        let groups: Vec<_> = list(model, "attributes")
            .iter()
            .filter_map(|attribute| attribute.get("ref_group").and_then(Value::as_str))
            .collect();
        let has_modality = list(metric, "attributes").iter().any(|a| a.get("ref").is_some());
        let is_usage = groups.contains(&"metric_attributes.gen_ai.inference_usage");
        assert_eq!(has_modality, is_usage, "{name}");
        assert!(is_usage || groups.contains(&"metric_attributes.gen_ai"), "{name}: {groups:?}");
    }
    let ours: BTreeSet<_> = list(&file, "metrics").iter().map(|of| text(of, "name")).collect();
    let theirs: BTreeSet<_> =
        newest.keys().map(String::as_str).filter(|name| name.contains(".inference.")).collect();
    assert_eq!(ours, theirs, "all metrics of an inference");

    let groups = read("semconv/gen-ai.yaml");
    let request = &list(&groups, "attribute_groups")[0];
    let refs: BTreeSet<_> = list(request, "attributes").iter().map(|a| text(a, "ref")).collect();
    assert!(COMMON.iter().all(|key| refs.contains(key)), "{refs:?}");
}

#[test]
fn metrics_of_agents_are_those_of_the_newest_conventions() {
    let newest = newest();
    let file = read("semconv/gen-ai-agents.yaml");
    let plain = |of: &str| of.split_whitespace().collect::<Vec<_>>().join(" ");
    // As the text of the conventions advises.
    let powers = |first: f64, count: i32| (0..count).map(|n| first * 2_f64.powi(n)).collect();
    let boundaries: [(&str, Vec<f64>); 4] = [
        ("gen_ai.invoke_agent.duration", powers(0.1, 13)),
        ("gen_ai.invoke_agent.inference_calls", powers(1.0, 8)),
        ("gen_ai.invoke_agent.tool_calls", powers(1.0, 8)),
        ("gen_ai.execute_tool.duration", advised("s")),
    ];
    assert_eq!(list(&file, "metrics").len(), boundaries.len());
    for (metric, (name, bounds)) in list(&file, "metrics").iter().zip(boundaries) {
        let model = &newest[name];
        assert_eq!(text(metric, "name"), name);
        for key in ["instrument", "unit", "stability"] {
            assert_eq!(text(metric, key), text(model, key), "{name}: {key}");
        }
        let brief = plain(text(model, "brief"));
        assert_eq!(text(metric, "brief"), brief.trim_end_matches('.'), "{name}");
        let annotated = list(&metric["annotations"]["aiperf"], "boundaries");
        let annotated: Vec<f64> = annotated.iter().filter_map(Value::as_f64).collect();
        assert_eq!(annotated, bounds, "{name}");
    }
}

#[test]
fn modalities_are_those_of_the_conventions() {
    let values = |of: &Value| -> Vec<String> {
        let attributes = list(of, "attributes").iter();
        let modality = attributes.clone().find(|a| text(a, "key") == "gen_ai.token.modality");
        let members = list(&modality.unwrap()["type"], "members").iter();
        members.map(|member| text(member, "value").to_owned()).collect()
    };
    let model = read("tests/golden/semconv-genai/registry.yaml");
    assert_eq!(values(&read("semconv/gen-ai-latest.yaml")), values(&model));
}

#[test]
fn kinds_are_written_as_the_registry_writes_them() {
    assert_eq!(metric::AIPERF_TIMING_REQUESTS_SENT.kind, InstrumentKind::Counter);
    assert_eq!(metric::AIPERF_TIMING_REQUESTS_IN_FLIGHT.kind.as_str(), "updowncounter");
}
