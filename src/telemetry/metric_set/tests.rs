use std::collections::BTreeMap;

use serde_norway::Value as Yaml;

use measure::metrics::Registry;

use super::*;

/// Returns the instruments of the full set by name.
fn all() -> BTreeMap<String, MetricSpec> {
    let rows = Registry::catalogue().iter().flat_map(|metric| {
        [metric.instrument(), metric.percentiles_instrument(), metric.steady_state_instrument()]
    });
    let rows = rows.flatten().map(|instrument| instrument.spec);
    let registry = metric::ALL.iter().map(|definition| MetricSpec::from(*definition));
    rows.chain(registry).map(|spec| (spec.name.clone(), spec)).collect()
}

#[test]
fn each_name_of_the_lean_set_is_an_instrument() {
    let all = all();
    for name in NAMES.iter().chain(&WITHOUT_BUCKETS) {
        assert!(all.contains_key(*name), "{name} does not exist");
        assert!(MetricSet::Lean.includes(name), "{name} is not in the set");
    }
    for prefix in PREFIXES {
        assert!(all.keys().any(|name| name.starts_with(prefix)), "nothing begins with {prefix}");
    }
}

#[test]
fn the_full_set_leaves_nothing_out_and_changes_nothing() {
    for spec in all().into_values() {
        assert_eq!(MetricSet::Full.instrument(spec.clone()), Some(spec));
    }
    assert!(MetricSet::Full.includes_of_server("anything"));
}

#[test]
fn lean_boundaries_are_every_third_and_those_of_the_conventions_remain() {
    let all = all();
    let lean = |name: &str| MetricSet::Lean.instrument(all[name].clone()).unwrap().boundaries;
    // 0.0001 · 1.25³ⁿ, rounded to six digits.
    let first: Vec<f64> = lean("aiperf.time_to_first_token").into_iter().take(4).collect();
    assert_eq!(first, [0.0001, 0.000_195_313, 0.000_381_470, 0.000_745_058]);
    assert!(lean("aiperf.output_sequence_length").is_empty());
    let conventions = metric::GEN_AI_CLIENT_OPERATION_DURATION;
    assert_eq!(lean(conventions.name), conventions.boundaries);
    assert_eq!(MetricSet::Lean.instrument(all["aiperf.inter_chunk_latency"].clone()), None);
}

/// Returns the metrics that the expressions of alert and recording rules name, as Prometheus does.
fn named_by_rules() -> Vec<String> {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../collector-config/rules.yaml");
    let file: Yaml = serde_norway::from_str(&std::fs::read_to_string(path).unwrap()).unwrap();
    let groups = file["groups"].as_sequence().unwrap();
    let rules = groups.iter().flat_map(|group| group["rules"].as_sequence().unwrap());
    let is_part = |c: char| c.is_ascii_alphanumeric() || "_:".contains(c);
    let names = rules.flat_map(|rule| {
        let words = rule["expr"].as_str().unwrap().split(|c| !is_part(c));
        words.filter(|word| word.starts_with("aiperf_")).map(str::to_owned).collect::<Vec<_>>()
    });
    names.filter(|name| name != "aiperf_shard_index").collect()
}

#[test]
fn alerts_find_their_metrics_in_the_lean_set() {
    let lean = all().into_values().filter_map(|spec| MetricSet::Lean.instrument(spec));
    let lean: Vec<String> = lean.map(|spec| spec.prometheus_name()).collect();
    let asked = named_by_rules();
    assert!(asked.len() > 5, "{asked:?}");
    for name in asked {
        let plain = name.strip_suffix("_bucket").unwrap_or(&name);
        assert!(lean.iter().any(|own| own == plain), "{name} is not in the lean set");
    }
}

#[test]
fn of_servers_only_watched_gauges_and_counters_are_lean() {
    for (name, is_included) in [
        ("vllm:num_requests_running", true),
        ("vllm:gpu_cache_usage_perc", true),
        ("vllm:generation_tokens_total", true),
        ("vllm:generation_tokens", true),
        ("vllm:time_to_first_token_seconds", false),
        ("python_gc_objects_collected_total", false),
    ] {
        assert_eq!(MetricSet::Lean.includes_of_server(name), is_included, "{name}");
    }
}
