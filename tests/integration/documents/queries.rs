//! The documented queries for Prometheus use existing series.

use super::assert_none;
use super::page::{self, Block};
use crate::dashboards::{is_in_prometheus, query_faults};

/// Returns the queries of a block: in `promql`, queries are separated by empty lines; in `yaml`,
/// they are those of the rules.
fn queries(block: &Block) -> Vec<String> {
    match block.language.as_str() {
        "promql" => {
            let is_code = |line: &&str| !line.starts_with('#');
            let code: Vec<_> = block.text.lines().filter(is_code).collect();
            code.join("\n").split("\n\n").map(str::to_owned).collect()
        }
        "yaml" => {
            let rule = |line: &str| Some(line.trim().strip_prefix("expr: ")?.to_owned());
            block.text.lines().filter_map(rule).collect()
        }
        _ => Vec::new(),
    }
}

#[test]
fn queries_ask_for_what_there_is() {
    let mut failures = Vec::new();
    let mut asked = 0;
    for page in page::all() {
        for block in &page.blocks {
            for query in queries(block) {
                asked += 1;
                let faults = query_faults(&query).into_iter();
                failures.extend(faults.map(|fault| format!("{}: {fault}", page.at(block.line))));
            }
        }
    }
    assert_none(&failures);
    assert!(asked >= 9, "{asked} queries were found");
}

#[test]
fn names_in_prometheus_are_those_that_there_are() {
    let mut failures = Vec::new();
    for page in page::all() {
        for (line, span) in page.spans() {
            let is_name = span.starts_with("aiperf_") || span.starts_with("gen_ai_");
            let is_whole = span.chars().all(|c| c == '_' || c.is_ascii_alphanumeric());
            // A member of the files, and a series of the HTTP API, which no Collector exports.
            let is_other = ["aiperf_version", "aiperf_info"].contains(&&*span);
            if is_name && is_whole && !is_other && !is_in_prometheus(&span) {
                failures.push(format!("{}: nothing in Prometheus is {span}", page.at(line)));
            }
        }
    }
    assert_none(&failures);
}
