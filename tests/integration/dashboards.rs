//! The dashboards query only existing series, and are complete.

mod names;
mod rules;

use std::path::Path;
use std::process::Command;
use std::sync::LazyLock;

use names::Names;
use rules::{faults, panels};
use serde_json::{Value, json};

fn dashboards() -> Vec<Value> {
    ["benchmark-run", "client-and-server", "compare-runs", "history"]
        .map(|name| {
            let path = format!("{}/dashboards/{name}.json", env!("CARGO_MANIFEST_DIR"));
            serde_json::from_str(&std::fs::read_to_string(path).unwrap()).unwrap()
        })
        .into()
}

static NAMES: LazyLock<Names> = LazyLock::new(names::all);

/// Describes errors in a query that is not in a dashboard.
pub(crate) fn query_faults(query: &str) -> Vec<String> {
    rules::query_of_its_own(query, &NAMES)
}

/// Returns whether a series, histogram or label of this name exists.
pub(crate) fn is_in_prometheus(name: &str) -> bool {
    NAMES.contains_key(name)
        || NAMES.contains_key(&format!("{name}_bucket"))
        || NAMES.values().any(|labels| labels.contains(name))
}

#[test]
fn the_dashboards_are_as_generated() {
    let python = std::env::var_os("AIPERF_TEST_PYTHON").unwrap_or("python3".into());
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("dashboards/generate.py");
    let checked = Command::new(python).arg("-B").arg(script).arg("--check").output().unwrap();
    assert!(checked.status.success(), "{}", String::from_utf8_lossy(&checked.stderr));
}

#[test]
fn the_dashboards_are_whole_and_ask_for_what_there_is() {
    let found = faults(&dashboards(), &NAMES);
    assert!(found.is_empty(), "{}", found.join("\n"));
}

#[test]
fn what_is_worth_watching_of_each_server_is_shown() {
    let asked: String = panels(&dashboards()[1])
        .iter()
        .flat_map(|panel| panel["targets"].as_array().unwrap())
        .map(|target| target["expr"].as_str().unwrap())
        .collect::<Vec<_>>()
        .join("\n");
    for (name, kind) in names::WATCHED {
        let ends =
            if kind == "histogram" { vec!["_bucket{"] } else { vec!["{", "\"", "(_total)?"] };
        assert!(
            ends.iter().any(|end| asked.contains(&format!("{name}{end}"))),
            "{name} is not shown"
        );
    }
}

/// Asserts that a change to the dashboards, at a JSON pointer, causes this error.
fn caught(names: &Names, pointer: &str, value: &Value, fault: &str) {
    let mut changed = dashboards();
    let (parent, key) = pointer.rsplit_once('/').unwrap();
    match changed[0].pointer_mut(parent).unwrap() {
        Value::Array(values) => values[key.parse::<usize>().unwrap()] = value.clone(),
        Value::Object(members) => {
            members.insert(key.to_owned(), value.clone());
        }
        _ => panic!("{parent} does not have members"),
    }
    let found = faults(&changed, names);
    assert!(found.iter().any(|each| each.contains(fault)), "{pointer}: {found:?}");
}

#[test]
fn each_rule_catches_what_breaks_it() {
    let names = &*NAMES;
    // The third panel, after the row's heading and the table of settings: the verdict.
    let expr = "/panels/2/targets/0/expr";
    for (query, fault) in [
        ("sum(rate(aiperf_request_count_total[$__rate_interval])", "sum(rate("),
        ("sum(aiperf_request_count)", "unknown metric aiperf_request_count"),
        (
            "sum(aiperf_time_to_first_token_seconds)",
            "unknown metric aiperf_time_to_first_token_seconds",
        ),
        ("sum(vllm:num_requests_walking)", "unknown metric vllm:num_requests_walking"),
        (
            "sum(aiperf_request_count_total{aiperf_percentile=\"50\"})",
            "does not have a label aiperf_percentile",
        ),
        (
            "sum(gen_ai_client_token_usage_sum{gen_ai_token_type=\"out\"})",
            "never has gen_ai_token_type out",
        ),
        ("sum by (reason) (aiperf_request_count_total)", "groups by reason"),
        ("sum without (host_name) (aiperf_request_count_total)", "groups by host_name"),
        ("sum(rate(aiperf_request_count_total[1m]))", "over a range of its own"),
        ("sum(rate(aiperf_request_count_total[$__range]))", "over a range of its own"),
        ("sum(aiperf_request_count_total{aiperf_benchmark_id=\"$other\"})", "$other is used"),
        ("sum({__name__=~\"nv_inference_sum(_total)?\"})", "unknown metric nv_inference_sum"),
    ] {
        caught(names, expr, &json!(query), fault);
    }
    for (pointer, value, fault) in [
        ("/uid", json!("aiperf-server"), "not unique"),
        ("/schemaVersion", json!(41), "schemaVersion"),
        ("/id", json!(7), "has an id"),
        ("/refresh", json!("1m"), "refresh"),
        ("/tags", json!([]), "tag"),
        ("/links/0/keepTime", json!(false), "drops variables or time"),
        ("/links/0/url", json!("/d/other"), "links to what is not there"),
        ("/panels/2/id", json!(2), "ids are not unique"),
        ("/panels/2/gridPos/x", json!(1), "lies on"),
        ("/panels/2/gridPos/x", json!(23), "24 columns"),
        ("/panels/2/type", json!("someones-panel"), "not a panel included in Grafana"),
        ("/panels/2/libraryPanel", json!({}), "library panel"),
        ("/panels/2/description", json!(""), "lacks a description"),
        ("/panels/2/fieldConfig/defaults/unit", json!(""), "lacks a unit"),
        ("/panels/2/targets/0/legendFormat", json!(""), "lacks a legend"),
        ("/panels/2/targets/0/legendFormat", json!("{{error_type}}"), "is not kept"),
        ("/panels/2/datasource/uid", json!("prometheus"), "not the variable"),
        ("/templating/list/2/query/query", json!("label_values(up, $phase)"), "not defined before"),
        ("/templating/list/1/name", json!("modell"), "$model is used but not defined"),
        ("/templating/list/1/description", json!(""), "lacks a label or a description"),
    ] {
        caught(names, pointer, &value, fault);
    }
}
