//! The flags and variables of server metrics.

use aiperf::cli::Command;
use aiperf::config::RunConfig;
use base::units::Nanos;
use results::artifacts::server_metrics::{Formats, JsonLayout};
use serde_json::json;

use super::{parse_in, profile, refusal};

/// URLs to scrape, those that were derived from the server's URL marked with `+`.
fn endpoints(flags: &str) -> Vec<String> {
    let endpoints = profile(flags).server_metrics.endpoints;
    let mark = |is_discovered| if is_discovered { "+" } else { "" };
    endpoints.iter().map(|e| format!("{}{}", mark(e.is_discovered), e.url.expose())).collect()
}

fn with_variable(name: &str, value: &str) -> Result<RunConfig, String> {
    match parse_in(&["profile", "-m", "m"], &[(name, value)]) {
        Ok(Command::Profile(benchmark)) => Ok(benchmark.config),
        Ok(other) => panic!("{other:?}"),
        Err(error) => Err(error.to_string()),
    }
}

#[test]
fn the_servers_own_metrics_are_scraped_by_default() {
    assert_eq!(endpoints(""), ["+http://localhost:8000/metrics"]);
    assert_eq!(endpoints("--url h:1 h:2/v1"), ["+http://h:1/metrics", "+http://h:2/metrics"]);
    assert_eq!(
        endpoints("--url h/v1/embeddings --endpoint-type embeddings"),
        ["+http://h/metrics"]
    );
    assert_eq!(endpoints("--url h/own --endpoint /own"), ["+http://h/metrics"]);
    // Two servers behind one address are one endpoint.
    assert_eq!(endpoints("--url http://h http://h/v1"), ["+http://h/metrics"]);
    assert_eq!(endpoints("--no-server-metrics"), Vec::<String>::new());
}

#[test]
fn other_endpoints_come_after_the_servers_own() {
    assert_eq!(
        endpoints("--url h --server-metrics a b:1/ https://c/stats --server-metrics d,e"),
        [
            "+http://h/metrics",
            "http://a/metrics",
            "http://b:1/metrics",
            "https://c/stats",
            "http://d/metrics",
            "http://e/metrics"
        ]
    );
    // A derived URL that is also given explicitly stays in its place, with the user's credentials.
    assert_eq!(
        endpoints("--url h --server-metrics a http://u:p@h a"),
        ["http://u:p@h/metrics", "http://a/metrics"]
    );
}

#[test]
fn what_cannot_be_scraped_is_refused() {
    for wrong in ["ftp://h", "http://", "h:port"] {
        let error = refusal(&format!("--server-metrics {wrong}"));
        assert!(error.contains("http://localhost:8000"), "{error}");
    }
    assert!(!refusal("--server-metrics http://u:secret@h:port").contains("secret"));
    assert!(refusal("--server-metrics").contains("--server-metrics"));
    for flags in ["--server-metrics h", "--server-metrics-summary"] {
        let error = refusal(&format!("{flags} --no-server-metrics"));
        let flag = flags.split(' ').next().unwrap();
        assert!(
            error.contains(flag) && error.contains("cannot be used with '--no-server-metrics'"),
            "{error}"
        );
    }
}

#[test]
fn files_of_the_servers_metrics() {
    let files = |flags: &str| profile(flags).artifacts.server_metrics;
    let formats = |json, csv, jsonl, parquet| Formats { json, csv, jsonl, parquet };
    assert_eq!(files("").formats, formats(true, true, false, true));
    let flag = "--server-metrics-formats";
    assert_eq!(files(&format!("{flag} json csv")).formats, formats(true, true, false, false));
    assert_eq!(files(&format!("{flag} JSONL,Parquet")).formats, formats(false, false, true, true));
    assert!(refusal(&format!("{flag} xml")).contains("parquet"));
    assert_eq!(*files("--server-metrics u:p@h").endpoints[1], *"http://h/metrics");
    assert!(files("--no-server-metrics").endpoints.is_empty());
    assert_eq!((files("").json_layout, files("").batch_size), (JsonLayout::Nested, 100));
    let layout = "--server-metrics-json-layout";
    assert_eq!(files(&format!("{layout} flat")).json_layout, JsonLayout::Flat);
    assert!(refusal(&format!("{layout} deep")).contains("nested"));
}

#[test]
fn slices_and_the_table() {
    let config = profile("--slice-duration 1.5 --server-metrics-summary");
    assert_eq!(config.artifacts.server_metrics.slice_duration, Some(Nanos(1_500_000_000)));
    assert!(config.tables.server_metrics);
    let config = profile("");
    let slice_duration = config.artifacts.server_metrics.slice_duration;
    assert_eq!((slice_duration, config.tables.server_metrics), (None, false));
    for wrong in ["0", "-1", "inf", "nan", "x", "0.0001"] {
        assert!(refusal(&format!("--slice-duration {wrong}")).contains("--slice-duration"));
    }
}

#[test]
fn the_environment_says_how_often_and_how_long() {
    let seconds = |config: &RunConfig| {
        let c = &config.server_metrics;
        let timeout = c.scrape_timeout.unwrap_or(Nanos::ZERO);
        let all = [c.interval, c.flush_period, c.reachability_timeout, timeout];
        (all.map(Nanos::as_seconds), c.shutdown_delay.as_seconds())
    };
    assert_eq!(seconds(&profile("")), ([0.333, 2.0, 10.0, 0.0], 5.0));
    let name = |name: &str| format!("AIPERF_SERVER_METRICS_{name}");
    let set = |variable, value| with_variable(&name(variable), value).unwrap();
    assert_eq!(seconds(&set("COLLECTION_INTERVAL", "1")).0[0], 1.0);
    assert_eq!(seconds(&set("COLLECTION_FLUSH_PERIOD", "0")).0[1], 0.0);
    assert_eq!(seconds(&set("REACHABILITY_TIMEOUT", "0.5")).0[2], 0.5);
    assert_eq!(seconds(&set("SCRAPE_TIMEOUT", "7")).0[3], 7.0);
    assert_eq!(seconds(&profile("--server-metrics-timeout 0.25")).0[3], 0.25);
    assert!(refusal("--server-metrics-timeout 0").contains("--server-metrics-timeout"));
    assert_eq!(seconds(&set("SHUTDOWN_DELAY", "9")).1, 9.0);
    assert_eq!(set("EXPORT_BATCH_SIZE", "3").artifacts.server_metrics.batch_size, 3);
    for (variable, wrong) in [
        ("COLLECTION_INTERVAL", "0"),
        ("COLLECTION_INTERVAL", "1e-9"),
        ("COLLECTION_FLUSH_PERIOD", "-1"),
        ("REACHABILITY_TIMEOUT", "inf"),
        ("SCRAPE_TIMEOUT", "nan"),
        ("SHUTDOWN_DELAY", "soon"),
        ("EXPORT_BATCH_SIZE", "0"),
    ] {
        let error = with_variable(&name(variable), wrong).unwrap_err();
        assert!(error.contains(&name(variable)) && error.contains(wrong), "{error}");
    }
}

#[test]
fn input_config_tells_what_is_scraped() {
    let told = |flags: &str| profile(flags).input_config()["server_metrics"].clone();
    let formats = json!(["json", "csv", "parquet"]);
    assert_eq!(told(""), json!({"enabled": true, "urls": [], "formats": formats}));
    assert_eq!(told("--no-server-metrics"), json!({"enabled": false}));
    assert_eq!(
        told(
            "--server-metrics http://u:p@node:8081 --server-metrics-json-layout flat \
             --server-metrics-formats json --server-metrics-summary"
        ),
        json!({"enabled": true, "urls": ["http://node:8081/metrics"], "formats": ["json"]})
    );
    let config = profile("--server-metrics-json-layout flat --server-metrics-summary");
    let recorded = serde_json::to_value(&config).unwrap();
    assert_eq!(recorded["artifacts"]["server_metrics"]["json_layout"], "flat");
    assert_eq!(recorded["show_server_metrics"], true);
    assert_eq!(recorded["server_metrics"]["interval"], 333_000_000);
}
