//! The registry contains the tables of the specification.

use super::registry::Registry;

/// Name after `aiperf.timing.`, instrument, unit, description.
const TIMING: [(&str, &str, &str, &str); 14] = [
    ("requests.sent", "counter", "1", "Total requests dispatched in this phase"),
    ("requests.completed", "counter", "1", "Requests that received a complete response"),
    ("requests.cancelled", "counter", "1", "Requests cancelled before completion"),
    ("requests.errors", "counter", "1", "Requests that ended in error"),
    ("sessions.sent", "counter", "1", "Sessions initiated in this phase"),
    ("sessions.completed", "counter", "1", "Sessions that finished all turns"),
    ("sessions.cancelled", "counter", "1", "Sessions cancelled before completion"),
    ("sessions.turns_total", "counter", "1", "Cumulative session turns executed"),
    ("requests.in_flight", "updowncounter", "1", "Requests currently awaiting a response"),
    ("sessions.in_flight", "updowncounter", "1", "Sessions with at least one turn in progress"),
    (
        "phase.timeout_triggered",
        "updowncounter",
        "1",
        "Whether the phase hard-timeout fired (0 or 1)",
    ),
    (
        "phase.grace_timeout_triggered",
        "updowncounter",
        "1",
        "Whether the grace-period timeout fired (0 or 1)",
    ),
    ("phase.was_cancelled", "updowncounter", "1", "Whether the phase was user-cancelled (0 or 1)"),
    ("phase.elapsed_sec", "updowncounter", "s", "Wall-clock seconds elapsed in the phase"),
];

/// Tag, the conventions' metric, unit.
const GEN_AI: [(&str, &str, &str); 5] = [
    ("request_latency", "gen_ai.client.operation.duration", "s"),
    ("time_to_first_token", "gen_ai.client.operation.time_to_first_chunk", "s"),
    ("inter_token_latency", "gen_ai.client.operation.time_per_output_chunk", "s"),
    ("input_sequence_length", "gen_ai.client.token.usage", "{token}"),
    ("output_sequence_length", "gen_ai.client.token.usage", "{token}"),
];

#[test]
fn progress_is_told_as_tabled() {
    let registry = Registry::read();
    for (name, instrument, unit, brief) in TIMING {
        let entry = &registry.metrics[&format!("aiperf.timing.{name}")];
        let said = (&*entry.instrument, &*entry.unit, &*entry.brief);
        assert_eq!(said, (instrument, unit, brief), "{name}");
        for key in ["gen_ai.operation.name", "gen_ai.provider.name", "gen_ai.request.model"] {
            assert_eq!(entry.attributes.get(key), Some(&true), "{name}: {key}");
        }
    }
    let timing = registry.metrics.keys().filter(|name| name.starts_with("aiperf.timing."));
    // `sessions.failed` is an addition.
    assert_eq!(timing.count(), TIMING.len() + 1);
}

#[test]
fn metrics_are_those_of_the_conventions_as_tabled() {
    let registry = Registry::read();
    let listed: serde_json::Value =
        serde_json::from_str(&measure::metrics::listing::json()).unwrap();
    let mapped: Vec<(&str, &str)> = listed
        .as_array()
        .unwrap()
        .iter()
        .filter_map(|metric| {
            Some((metric["tag"].as_str()?, metric["otel"]["gen_ai_name"].as_str()?))
        })
        .collect();
    assert_eq!(mapped.len(), GEN_AI.len(), "{mapped:?}");
    for (tag, name, unit) in GEN_AI {
        assert!(mapped.contains(&(tag, name)), "{tag}");
        let entry = &registry.metrics[name];
        assert_eq!((&*entry.instrument, &*entry.unit), ("histogram", unit), "{name}");
    }
    let newer = [
        "gen_ai.client.inference.",
        "gen_ai.server.",
        "gen_ai.invoke_agent.",
        "gen_ai.execute_tool.",
    ];
    let conventions = registry.metrics.keys().filter(|name| {
        name.starts_with("gen_ai.") && !newer.iter().any(|prefix| name.starts_with(prefix))
    });
    assert_eq!(conventions.count(), 4);
}

#[test]
fn errors_are_of_the_kinds_tabled() {
    let kinds = ["timeout", "http_4xx", "http_5xx", "parse_error", "cancelled", "_OTHER"];
    assert_eq!(Registry::read().attributes["error.type"].values, kinds);
}
