//! The flags and variables of GPU telemetry.

use aiperf::cli::Command;
use aiperf::config::RunConfig;
use base::units::Nanos;

use super::{parse_in, profile, refusal};

/// URLs to scrape, those that the user did not name marked with `+`.
fn exporters(config: &RunConfig) -> Vec<String> {
    let mark = |is_discovered| if is_discovered { "+" } else { "" };
    let endpoints = config.gpu.scrapes.endpoints.iter();
    endpoints.map(|e| format!("{}{}", mark(e.is_discovered), e.url.expose())).collect()
}

fn with_variable(name: &str, value: &str) -> Result<RunConfig, String> {
    match parse_in(&["profile", "-m", "m"], &[(name, value)]) {
        Ok(Command::Profile(benchmark)) => Ok(benchmark.config),
        Ok(other) => panic!("{other:?}"),
        Err(error) => Err(error.to_string()),
    }
}

const USUAL: [&str; 2] = ["+http://localhost:9400/metrics", "+http://localhost:9401/metrics"];

#[test]
fn the_usual_exporters_come_before_those_of_the_user() {
    assert_eq!(exporters(&profile("")), USUAL);
    assert!(!profile("").gpu.is_asked && profile("--gpu-telemetry").gpu.is_asked);
    let asked = profile("--gpu-telemetry node1:9400 https://u:p@node2/gpus");
    let expected = [&USUAL[..], &["http://node1:9400/metrics", "https://u:p@node2/gpus"]].concat();
    assert_eq!(exporters(&asked), expected);
    assert!(!format!("{asked:?}").contains("u:p@"));
    assert!(!serde_json::to_string(&asked).unwrap().contains("u:p@"));
    // The user's own URL replaces the usual one.
    let own = profile("--gpu-telemetry 127.0.0.1:9401,node1:1");
    assert_eq!(
        exporters(&own),
        [USUAL[0], "http://127.0.0.1:9401/metrics", "http://node1:1/metrics"]
    );
    assert!(exporters(&profile("--no-gpu-telemetry")).is_empty());
    assert!(refusal("--no-gpu-telemetry --gpu-telemetry").contains("--gpu-telemetry"));
    let shard =
        |rest| profile(&format!("--concurrency 2 --random-seed 1 --start-at 1 --shard 1/2 {rest}"));
    assert!(exporters(&shard("")).is_empty());
    assert_eq!(exporters(&shard("--gpu-telemetry node1:9400")).len(), 3);
}

#[test]
fn variables_set_the_usual_exporters_and_the_timing() {
    let usual = |value| with_variable("AIPERF_GPU_DEFAULT_DCGM_ENDPOINTS", value);
    assert!(exporters(&usual("[]").unwrap()).is_empty());
    let two = ["+http://a:1/metrics", "+http://b:2/metrics"];
    assert_eq!(exporters(&usual("[\"http://a:1/metrics\", \"b:2\"]").unwrap()), two);
    assert_eq!(exporters(&usual("a:1, b:2").unwrap()), two);
    assert!(usual("[1]").unwrap_err().contains("AIPERF_GPU_DEFAULT_DCGM_ENDPOINTS"));
    let gpu = |name, value| with_variable(name, value).unwrap().gpu;
    assert_eq!(gpu("AIPERF_GPU_COLLECTION_INTERVAL", "1").scrapes.interval, Nanos(1_000_000_000));
    assert_eq!(gpu("AIPERF_GPU_FINAL_SCRAPE_GRACE_NS", "5").scrapes.flush_period, Nanos(5));
    assert_eq!(gpu("AIPERF_GPU_EXPORT_BATCH_SIZE", "7").batch_size, 7);
    assert_eq!(profile("").gpu.scrapes.flush_period, Nanos(666_000_000));
    assert!(with_variable("AIPERF_GPU_FINAL_SCRAPE_GRACE_NS", "-1").is_err());
    assert_eq!(profile("--gpu-idle-duration 0.5").gpu.idle, Nanos(500_000_000));
}
