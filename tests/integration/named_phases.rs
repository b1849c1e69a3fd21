//! Runs with several phases that are measured: records, results, gates, files and exports of each.

use std::fs;

use base::units::Nanos;
use mock_server::Script;
use serde_json::Value;

use crate::support::load::mock;
use crate::support::otlp_receiver::OtlpReceiver;
use crate::support::run::{Run, aiperf, profile, summary};

/// A server with two slots, each of which serves a request in 20 ms.
fn script() -> Script {
    Script { ttft: Nanos::from_millis(20.0), max_concurrent: Some(2), ..Script::default() }
}

/// A warmup and three phases: the second has four requests in flight for each slot.
const PHASES: [&str; 8] = [
    "--phase",
    "settle: kind=warmup, concurrency=1, request-count=2",
    "--phase",
    "baseline: concurrency=2, request-count=6",
    "--phase",
    "storm: concurrency=8, request-count=16",
    "--phase",
    "recovery: concurrency=2, request-count=6",
];
const COUNTS: [(&str, u64); 4] = [("settle", 2), ("baseline", 6), ("storm", 16), ("recovery", 6)];

fn storm(url: &str, extra: &[&str]) -> Run {
    profile(url, &[&PHASES[..], extra].concat())
}

fn number(value: &Value) -> u64 {
    value.as_u64().unwrap_or_else(|| panic!("{value} is not a whole number"))
}

fn names(phases: &Value) -> Vec<&str> {
    phases.as_array().unwrap().iter().map(|phase| phase["name"].as_str().unwrap()).collect()
}

#[test]
fn each_phase_has_its_records_its_time_and_its_results() {
    let server = mock(script());
    let run = storm(&server.url(), &[]).succeeded();
    let (records, summary) = (run.records(), run.summary());
    assert_eq!(records.len(), 30);
    let phases = &summary["phases"];
    assert_eq!(names(phases), ["settle", "baseline", "storm", "recovery"]);
    let mut last_end = 0;
    for (index, (name, count)) in COUNTS.iter().enumerate() {
        let phase = &phases[index];
        let own: Vec<&Value> =
            records.iter().filter(|record| record["metadata"]["phase_name"] == *name).collect();
        assert_eq!(own.len() as u64, *count, "{name}");
        let (start, end) = (number(&phase["start_ns"]), number(&phase["end_ns"]));
        assert!(last_end <= start && start < end, "{name}: {last_end}, {start} to {end}");
        last_end = end;
        let kind = if index == 0 { "warmup" } else { "profiling" };
        let measured = index.checked_sub(1);
        for metadata in own.iter().map(|record| &record["metadata"]) {
            assert_eq!(metadata["phase_index"], index);
            assert_eq!(metadata["phase_kind"], kind);
            assert_eq!(metadata["profiling_index"].as_u64(), measured.map(|index| index as u64));
            let (from, to) =
                (number(&metadata["request_start_ns"]), number(&metadata["request_end_ns"]));
            assert!(
                start <= from && to <= end,
                "{name}: {from} to {to} is not in {start} to {end}"
            );
        }
        assert_eq!(phase["kind"], kind);
        assert_eq!(phase["metrics"]["request_count"]["avg"], *count as f64);
        let latencies = own
            .iter()
            .map(|record| record["metrics"]["request_latency"]["value"].as_f64().unwrap());
        let mean = latencies.sum::<f64>() / *count as f64;
        let found = phase["metrics"]["request_latency"]["avg"].as_f64().unwrap();
        assert!((found - mean).abs() < 1e-6 * mean, "{name}: {found}, not {mean}");
    }
    // Those of the run are those of all phases that are measured: 6 + 16 + 6.
    assert_eq!(summary["request_count"]["avg"], 28.0);
    assert_eq!(summary["warmup_metrics"]["request_count"]["avg"], 2.0);
    // Eight requests arrive together at two slots: the last two end after four times 20 ms.
    let longest = |index: usize| phases[index]["metrics"]["request_latency"]["max"].as_f64();
    assert!(longest(2) >= Some(80.0), "{:?}", longest(2));
    assert_eq!(phases[2]["load"], "concurrency 8");
    assert_eq!(summary["steady_state"]["found"], false);

    // The server generates four tokens for each request.
    let server: Value = serde_json::from_str(&run.text("server_metrics_export.json")).unwrap();
    assert_eq!(names(&server["phases"]), names(phases));
    for (index, (name, count)) in COUNTS.iter().enumerate() {
        let tokens = &server["phases"][index]["metrics"]["vllm:generation_tokens"]["series"][0];
        assert_eq!(tokens["stats"]["total"], 4.0 * *count as f64, "{name}: {tokens}");
    }

    assert!(run.stdout().contains("\nPhase "), "{}", run.stdout());
    let csv = run.text("profile_export_aiperf.csv");
    for (name, count) in COUNTS {
        let row = format!("{name},Request Count,{count}.00");
        assert!(csv.lines().any(|line| line == row), "{row:?} is not in\n{csv}");
    }
}

#[test]
fn a_seamless_storm_shows_when_the_server_has_recovered() {
    let server = mock(script());
    // The server serves 100 requests per second. The storm of 200 in half a second leaves it a queue,
    // behind which the requests of the next phase wait.
    let run = profile(
        &server.url(),
        &[
            "--arrival-pattern",
            "constant",
            "--phase",
            "baseline: concurrency=2, arrival-pattern=concurrency-burst, request-count=40",
            "--phase",
            "storm: request-rate=400, request-count=200, benchmark-duration=0.6, seamless=true",
            "--phase",
            "recovery: request-rate=10, benchmark-duration=6",
        ],
    )
    .succeeded();
    let (records, summary) = (run.records(), run.summary());
    let phases = &summary["phases"];
    assert_eq!(names(phases), ["baseline", "storm", "recovery"]);
    // The storm's last requests return while the next phase runs.
    assert!(number(&phases[1]["end_ns"]) > number(&phases[2]["start_ns"]), "{phases}");
    let of_storm = records.iter().filter(|record| record["metadata"]["phase_name"] == "storm");
    let starts: Vec<u64> =
        of_storm.map(|record| number(&record["metadata"]["request_start_ns"])).collect();
    assert_eq!(starts.len(), 200);
    assert_eq!(phases[1]["metrics"]["request_count"]["avg"], 200.0);
    let recovery = &phases[2]["recovery"];
    assert_eq!((&recovery["baseline"], &recovery["after"]), (&"baseline".into(), &"storm".into()));
    assert_eq!(recovery["recovered"], true, "{recovery}");
    let seconds = |member: &Value| member.as_f64().unwrap();
    let (time, limit) = (seconds(&recovery["seconds"]), seconds(&recovery["limit_ms"]) / 1e3);
    // Requests are served in the order in which they arrive, two in 20 ms: a request that ends within the
    // limit ends after all 200 of the storm, which take 2 s.
    let sending = (starts[199] - starts[0]) as f64 / 1e9;
    assert!(sending + time + limit >= 2.0, "{sending} s + {time} s + {limit} s");
    assert!(limit >= 0.02, "{limit}");
    let [low, high] = [0, 1].map(|at| seconds(&recovery["interval_seconds"][at]));
    assert!(low <= time && time <= high, "{low} to {high}: {time}");
    assert!(phases[0].get("recovery").is_none() && phases[1].get("recovery").is_none());
    let said = "request latency was within that of baseline";
    assert!(run.stdout().contains(said), "{}", run.stdout());
}

#[test]
fn gates_limit_single_phases() {
    let server = mock(script());
    let gates = [
        ("phase:baseline:request_latency:min>=20ms", true),
        ("phase:storm:request_count==16", true),
        ("phase:settle:request_count==2", true),
        // Four tokens of each of sixteen requests.
        ("phase:storm:server:vllm:generation_tokens:total==64", true),
        ("request_count==28", true),
        // The last two of eight requests at two slots take 80 ms.
        ("phase:storm:request_latency:max<=50ms", false),
    ];
    let flags: Vec<&str> = gates.iter().flat_map(|(gate, _)| ["--gate", gate]).collect();
    let run = storm(&server.url(), &flags);
    assert_eq!(run.exit_code(), Some(3), "{}\n{}", run.stdout(), run.stderr());
    let judged = |summary: &Value| -> Vec<(String, bool)> {
        let found = summary["gates"].as_array().unwrap().iter();
        let pair = |gate: &Value| {
            (gate["gate"].as_str().unwrap().to_owned(), gate["held"].as_bool().unwrap())
        };
        found.map(pair).collect()
    };
    let expected: Vec<(String, bool)> =
        gates.iter().map(|(gate, held)| ((*gate).to_owned(), *held)).collect();
    assert_eq!(judged(&run.summary()), expected);

    // `aiperf report` judges them again, with the same results.
    let before = run.summary();
    fs::remove_file(run.path("profile_export_aiperf.json")).unwrap();
    let report = aiperf(&["report"]).arg(run.directory.path()).output().unwrap();
    assert_eq!(report.status.code(), Some(3), "{}", String::from_utf8_lossy(&report.stderr));
    let after = summary(run.directory.path());
    assert_eq!(after["phases"], before["phases"]);
    assert_eq!(judged(&after), expected);
}

#[test]
fn exports_name_the_phase() {
    let server = mock(script());
    let collector = OtlpReceiver::http();
    let run = storm(&server.url(), &["--otel-url", &collector.otel_url()]).succeeded();
    let telemetry = &run.summary()["telemetry"];
    assert_eq!(telemetry["reconciled"], true, "{telemetry}");
    let received = collector.last();
    for (name, count) in COUNTS {
        let of_phase = [("aiperf.phase.name", name)];
        let sent = received.number("aiperf.timing.requests.sent", &of_phase);
        assert_eq!(sent, count as f64, "{name}");
        let latencies = received.histogram("aiperf.request_latency", &of_phase);
        assert_eq!(latencies.count, count, "{name}");
    }
}

#[test]
fn files_of_aiperf_have_several_phases() {
    let server = mock(script());
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("benchmark.yaml");
    let text = format!(
        "benchmark:\n  model: mock-model\n  endpoint: {{url: \"{}\", streaming: true}}\n  \
         tokenizer: {{name: builtin}}\n  dataset: {{type: synthetic, isl: 20, osl: 4}}\n  phases:\n    \
         - {{name: settle, type: concurrency, requests: 2, concurrency: 1, excludeFromResults: true}}\n    \
         - {{name: calm, type: concurrency, requests: 4, concurrency: 2}}\n    \
         - {{name: paced, type: constant, rate: 50, requests: 5}}\n",
        server.url()
    );
    fs::write(&file, text).unwrap();
    let out = directory.path().join("out");
    let output = aiperf(&["profile", "--ui", "none", "--config"])
        .arg(&file)
        .arg("--artifact-dir")
        .arg(&out)
        .output()
        .unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let summary = summary(&out);
    let phases = &summary["phases"];
    assert_eq!(names(phases), ["settle", "calm", "paced"]);
    let counts: Vec<_> = phases
        .as_array()
        .unwrap()
        .iter()
        .map(|phase| (phase["kind"].as_str(), phase["metrics"]["request_count"]["avg"].as_f64()))
        .collect();
    let expected = [("warmup", 2.0), ("profiling", 4.0), ("profiling", 5.0)];
    assert_eq!(counts, expected.map(|(kind, count)| (Some(kind), Some(count))));
    assert_eq!(phases[2]["load"], "50 req/s");
    // The settings in the summary are a file that is read in the same way.
    let again = serde_json::json!({ "benchmark": summary["input_config"] });
    fs::write(&file, again.to_string()).unwrap();
    let shown = aiperf(&["config", "show", "--config"]).arg(&file).output().unwrap();
    let shown = String::from_utf8_lossy(&shown.stdout).into_owned();
    for phase in ["settle: ", "calm: ", "paced: "] {
        assert!(shown.contains(phase), "{phase} is not in\n{shown}");
    }
}

#[test]
fn a_configuration_file_lists_phases() {
    let server = mock(script());
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("phases.yaml");
    let text = "load-generator:\n  concurrency: 2\n  phase:\n    - {name: calm, request-count: 3}\n    \
                - {name: storm, concurrency: 4, request_count: 5}\n";
    fs::write(&file, text).unwrap();
    let run = profile(&server.url(), &["--config", file.to_str().unwrap()]).succeeded();
    let summary = run.summary();
    let phases = &summary["phases"];
    assert_eq!(names(phases), ["calm", "storm"]);
    let of =
        |index: usize| (&phases[index]["load"], &phases[index]["metrics"]["request_count"]["avg"]);
    // The first has the concurrency of the run, the second its own.
    assert_eq!(of(0), (&"concurrency 2".into(), &3.0.into()));
    assert_eq!(of(1), (&"concurrency 4".into(), &5.0.into()));
}

#[test]
fn phases_that_do_not_fit_are_usage_errors() {
    for (flags, expected) in [
        (&["--phase", "storm"][..], "is not of the form"),
        (&["--phase", "concurrency=4"], "does not begin with a name"),
        (&["--phase", "a b: concurrency=4"], "does not begin with a name"),
        (&["--phase", "a: model=m"], "all phases of a run have the same --model"),
        (
            &["--phase", "a: cache-bust=system_prefix"],
            "all phases of a run have the same --cache-bust",
        ),
        (&["--phase", "a: random-seed=1"], "all phases of a run have the same --random-seed"),
        (&["--phase", "a: islx=4"], "\"islx\" is not a setting of a phase; did you mean isl?"),
        (&["--phase", "a: foo=4"], "use kind, seamless, or a flag of the load or the dataset"),
        (
            &["--phase", "a: isl=4, input-file=Cargo.toml"],
            "phase a: --isl: applies to generated prompts and cannot be combined with --input-file",
        ),
        (&["--phase", "a: session-turns-mean=0"], "--session-turns-mean"),
        (&["--phase", "a: kind=cooldown"], "use warmup or profiling"),
        (&["--phase", "a: kind=warmup, request-count=1"], "all phases are warmups"),
        (&["--phase", "a: request-count=0"], "phase a: "),
        (&["--phase", "a: request-count=1, seamless=true"], "seamless requires a duration"),
        (&["--phase", "a: concurrency=1, concurrency=2"], "phase \"a\": concurrency is set twice"),
        (&["--phase", "a: request-count=4, num-requests=5"], "request-count is set twice"),
        (&["--phase", "a: kind=warmup, kind=profiling"], "kind is set twice"),
        (
            &["--phase", "a: concurrency=1", "--phase", "a: concurrency=2"],
            "two phases are named \"a\"",
        ),
        (
            &[
                "--phase",
                "a: concurrency=1",
                "--phase",
                "b: concurrency=2",
                "--gate",
                "phase:c:ttft<=1s",
            ],
            "no phase is named \"c\"; use one of a, b",
        ),
        (
            &[
                "--phase",
                "a: kind=warmup, concurrency=4, adaptive-scale=true, adaptive-scale-sla=ttft:p95<=1s",
                "--phase",
                "b: concurrency=2",
            ],
            "--adaptive-scale: the phase a is a warmup",
        ),
        (
            &[
                "--concurrency",
                "2,4",
                "--phase",
                "a: adaptive-scale=true, adaptive-scale-sla=ttft:p95<=1s",
                "--phase",
                "b: request-count=2",
            ],
            "cannot be combined with a sweep or a search",
        ),
        (&["--gate", "phase:c:ttft<=1s"], "the run does not have several phases"),
        (&["--gate", "phase:c:client_health==valid"], "is not a gate on a phase"),
        (
            &[
                "--phase",
                "a: concurrency=1",
                "--phase",
                "b: concurrency=2",
                "--stop-when",
                "saturated",
            ],
            "ends the load of one phase",
        ),
    ] {
        let run = profile("http://localhost:1", flags);
        assert_eq!(run.exit_code(), Some(2), "{flags:?}: {}", run.stderr());
        assert!(run.stderr().contains(expected), "{flags:?}: {}", run.stderr());
    }
}
