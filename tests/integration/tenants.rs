//! Loads that tenants share, each with its own rate, headers, lengths and objectives.

use mock_server::Script;
use serde_json::{Value, json};

use crate::support::load::mock;
use crate::support::otlp_receiver::OtlpReceiver;
use crate::support::run::{Run, aiperf, profile};

/// Runs the load that the tenants of this file share.
fn shared(file: &str, flags: &[&str]) -> Run {
    let server = mock(Script::default());
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("tenants.yaml");
    std::fs::write(&path, file).unwrap();
    let mut all = vec!["--tenants", path.to_str().unwrap(), "--random-seed", "7"];
    all.extend(flags);
    profile(&server.url(), &all).succeeded()
}

fn json_of(run: &Run, name: &str) -> Value {
    serde_json::from_str(&run.text(name)).unwrap()
}

/// Returns the records of a run in order of their sessions.
fn records(run: &Run) -> Vec<Value> {
    let text = run.text("profile_export.jsonl");
    let mut records: Vec<Value> =
        text.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    records.sort_by_key(|record| record["metadata"]["session_num"].as_u64());
    records
}

const TWO: &str = "tenants:
- name: a
  share: 1
  rate: 40
  arrivals: constant
  isl: 30
  headers: {X-Tenant: of-a}
  goodput: request_latency<=60s
- name: b
  share: 1
  rate: 20
  arrivals: constant
  headers: {X-Tenant: of-b, Authorization: Bearer a-secret-of-b}
  goodput: request_latency:0.000001
";

/// Of every 50 ms, tenant a has the arrivals after 25 and 50 ms, and tenant b the one after 50 ms.
#[test]
fn tenants_share_an_open_loop() {
    let flags = ["--request-count", "30", "--export-level", "raw", "--html"];
    // By the objective of the run, all would be good.
    let run = shared(TWO, &[&flags[..], &["--goodput", "request_latency:60000"]].concat());
    let found = records(&run);
    let names: Vec<&str> =
        found.iter().map(|record| record["metadata"]["tenant"].as_str().unwrap()).collect();
    let expected: Vec<&str> = ["a", "a", "b"].into_iter().cycle().take(30).collect();
    assert_eq!(names, expected);
    let due = |at: usize| found[at]["metadata"]["request_due_ns"].as_u64().unwrap();
    assert_eq!([1, 2, 3].map(|at| due(at) - due(0)), [25_000_000, 25_000_000, 50_000_000]);
    let summary = json_of(&run, "profile_export_aiperf.json");
    let of = |tenant: &str, metric: &str| summary["by_tenant"][tenant][metric]["avg"].clone();
    assert_eq!([of("a", "request_count"), of("b", "request_count")], [json!(20.0), json!(10.0)]);
    assert_eq!(
        [of("a", "input_sequence_length"), of("b", "input_sequence_length")],
        [json!(30.0), json!(20.0)]
    );
    // The objective of b cannot be met.
    assert_eq!(
        [of("a", "good_request_fraction"), of("b", "good_request_fraction")],
        [json!(1.0), json!(0.0)]
    );
    assert_eq!(good(&run), [20.0, 20.0]);
    // 80 and 40 output tokens for equal shares: (160 + 80)² / (2·(160² + 80²)) = 0.9.
    let tenants = &summary["tenants"];
    assert!((tenants["jain_index"].as_f64().unwrap() - 0.9).abs() < 1e-12, "{tenants}");
    assert_eq!(tenants["counted"], "output_tokens");
    let b = &tenants["tenants"][1];
    assert_eq!((&b["name"], &b["share"]), (&json!("b"), &json!(0.5)));
    assert!((b["throughput_share"].as_f64().unwrap() - 1.0 / 3.0).abs() < 1e-12, "{b}");
    let raw = run.text("profile_export_raw.jsonl");
    assert_eq!((raw.matches("of-a").count(), raw.matches("of-b").count()), (20, 10));
    for name in ["profile_export_raw.jsonl", "profile_export_aiperf.json", "run_manifest.json"] {
        assert!(!run.text(name).contains("a-secret-of-b"), "{name}");
    }
    assert!(run.text("report.html").contains("Fairness (Jain's index): 0.900"));
    let console = run.text("profile_export_console.txt");
    assert!(
        console.contains("aiperf | Tenants") && console.contains("(Jain's index): 0.900"),
        "{console}"
    );
    let csv = run.text("profile_export_aiperf.csv");
    assert!(csv.contains("Tenant,Share,Throughput Share,Slowdown,Metric,avg"), "{csv}");
    assert!(csv.contains("b,0.5000,0.3333,,Request Latency (ms)"), "{csv}");
    // The records alone have the same results.
    let report = aiperf(&["report"]).arg(run.directory.path()).output().unwrap();
    assert!(report.status.success(), "{}", String::from_utf8_lossy(&report.stderr));
    let rebuilt = json_of(&run, "profile_export_aiperf.json");
    assert_eq!((&rebuilt["tenants"], &rebuilt["by_tenant"]), (tenants, &summary["by_tenant"]));
    assert_eq!(good(&run), [20.0, 20.0]);
}

/// Returns the number of good requests by the summary, and by the records.
fn good(run: &Run) -> [f64; 2] {
    let of_record = |record: &Value| record["metrics"]["good_request_count"]["value"].as_f64();
    let summary = json_of(run, "profile_export_aiperf.json");
    let counted = summary["good_request_count"]["avg"].as_f64().unwrap();
    [counted, records(run).iter().filter_map(of_record).sum()]
}

#[test]
fn exports_name_the_tenant() {
    let collector = OtlpReceiver::http();
    let run = shared(TWO, &["--request-count", "30", "--otel-url", &collector.otel_url()]);
    let telemetry = &run.summary()["telemetry"];
    assert_eq!(telemetry["reconciled"], true, "{telemetry}");
    let received = collector.last();
    for (name, count) in [("a", 20), ("b", 10)] {
        let of_tenant = [("aiperf.tenant", name)];
        let latencies = received.histogram("aiperf.request_latency", &of_tenant);
        assert_eq!(latencies.count, count, "{name}");
    }
}

/// Returns the maximum number of requests of `tenant` in flight.
fn most_in_flight(records: &[Value], tenant: &str) -> usize {
    let times = |record: &Value| {
        ["request_start_ns", "request_end_ns"]
            .map(|name| record["metadata"][name].as_u64().unwrap())
    };
    let own: Vec<[u64; 2]> =
        records.iter().filter(|record| record["metadata"]["tenant"] == tenant).map(times).collect();
    let at =
        |instant: u64| own.iter().filter(|[start, end]| (*start..*end).contains(&instant)).count();
    own.iter().map(|[start, _]| at(*start)).max().unwrap_or(0)
}

#[test]
fn tenants_share_the_slots_of_a_closed_loop() {
    let file = r#"{"tenants": [{"name": "a", "share": 3}, {"name": "b", "share": 1}]}"#;
    let run = shared(file, &["--concurrency", "4", "--request-count", "60"]);
    let found = records(&run);
    assert_eq!(found.len(), 60);
    let [of_a, of_b] = ["a", "b"].map(|tenant| most_in_flight(&found, tenant));
    assert!((1..=3).contains(&of_a) && of_b == 1, "{of_a} and {of_b}");
    let summary = json_of(&run, "profile_export_aiperf.json");
    let shares: Vec<_> =
        summary["tenants"]["tenants"].as_array().unwrap().iter().map(|it| &it["share"]).collect();
    assert_eq!(shares, [&json!(0.75), &json!(0.25)]);
}

/// The same rate and seed: the arrivals of a tenant do not depend on the others.
#[test]
fn a_run_in_which_a_tenant_is_alone_gives_its_slowdown() {
    let alone = shared("tenants: [{name: b, rate: 50, cv: 2}]", &["--request-count", "10"]);
    let directory = alone.directory.path().to_str().unwrap();
    let file = format!(
        "tenants: [{{name: a, rate: 50}}, {{name: b, rate: 50, cv: 2, alone: '{directory}'}}]"
    );
    let run = shared(&file, &["--request-count", "30"]);
    let summary = json_of(&run, "profile_export_aiperf.json");
    let mean = |of: &Value| of["request_latency"]["avg"].as_f64().unwrap();
    let expected =
        mean(&summary["by_tenant"]["b"]) / mean(&json_of(&alone, "profile_export_aiperf.json"));
    let tenants = &summary["tenants"]["tenants"];
    assert!((tenants[1]["slowdown"].as_f64().unwrap() - expected).abs() < 1e-9, "{tenants}");
    assert!(tenants[0].get("slowdown").is_none());
    // The distances of the due times, from the first of the tenant.
    let gaps = |run: &Run| -> Vec<u64> {
        let due: Vec<u64> = records(run)
            .iter()
            .filter(|record| record["metadata"]["tenant"] == "b")
            .map(|record| record["metadata"]["request_due_ns"].as_u64().unwrap())
            .collect();
        due.windows(2).map(|pair| pair[1] - pair[0]).collect()
    };
    let (of_both, of_one) = (gaps(&run), gaps(&alone));
    let common = of_both.len().min(of_one.len());
    assert!(common >= 3, "{common}");
    // Positions are floating-point numbers, rounded to nanoseconds.
    for (both, one) in of_both.iter().zip(&of_one) {
        assert!(both.abs_diff(*one) <= 1, "{of_both:?} {of_one:?}");
    }
}

#[test]
fn tenants_that_cannot_share_the_load_are_rejected() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("tenants.yaml");
    let path = path.to_str().unwrap();
    for (file, flags, why) in [
        ("tenants: [{name: a, rate: 3}]", &["--request-rate", "2"][..], "remove --request-rate"),
        ("tenants: [{name: a, concurrency: 3}]", &["--concurrency", "2"], "remove --concurrency"),
        (
            "tenants: [{name: a, share: 9}, {name: b, share: 1}]",
            &["--concurrency", "2"],
            "\"b\" would not get any",
        ),
        ("tenants: [{name: a, isl: 3, rate: 1}]", &["--seq-dist", "5,5:100"], "without --seq-dist"),
        (
            "tenants: [{name: a, headers: {'a b': c}, rate: 1}]",
            &[],
            "\"a b\" is not a valid header name",
        ),
        ("tenants: [{name: a, goodput: 'time_to_first_token:9', rate: 1}]", &[], "add --streaming"),
        ("tenants: []", &[], "expected 1 to 64 tenants"),
    ] {
        std::fs::write(path, file).unwrap();
        let output =
            aiperf(&["profile", "-m", "m", "--url", "http://127.0.0.1:1", "--tenants", path])
                .args(flags)
                .output()
                .unwrap();
        let error = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(2), "{file}: {error}");
        assert!(error.contains(why), "{file}: {error}");
    }
}
