//! Lanes that replay the traces of agents, over real sockets.

use std::fs;

use base::units::Nanos;
use mock_server::{MockServer, Script};
use serde_json::{Value, json};

use crate::api::{GRACE, start};
use crate::report_page::data;
use crate::support::browser::Browser;
use crate::support::hub::Hub;
use crate::support::load::mock;
use crate::support::metrics_endpoint::wait_until;
use crate::support::otlp_receiver::OtlpReceiver;
use crate::support::python::run_python;
use crate::support::run::{Run, aiperf, inferencex_command, profile_command};

pub(crate) fn request(start: f64, api: f64, blocks: &[u64]) -> Value {
    json!({"t": start, "type": "n", "model": "m", "in": 16 * blocks.len(), "out": 4,
           "hash_ids": blocks, "input_types": [], "output_types": [], "stop": "", "api_time": api})
}

pub(crate) fn trace(id: &str, requests: &[Value]) -> Value {
    json!({"id": id, "models": ["m"], "block_size": 16, "hash_id_scope": "local",
           "tool_tokens": 0, "system_tokens": 16, "requests": requests})
}

/// Requests at 0, 0.5 and 0.9 s.
pub(crate) fn three() -> Value {
    let requests = [
        request(0.0, 0.2, &[1, 2]),
        request(0.5, 0.1, &[1, 2, 3, 4]),
        request(0.9, 0.1, &[1, 2, 3, 4, 5]),
    ];
    trace("t3", &requests)
}

/// Requests at 0 and 5 s, and beside them one of a sub-agent at 1 and one at 3 s.
fn with_sub_agent() -> Value {
    let inner = [request(1.0, 1.0, &[7]), request(3.0, 1.0, &[7, 8])];
    let agent = json!({"t": 1.0, "type": "subagent", "agent_id": "a", "subagent_type": "x",
        "duration_ms": 3000, "status": "completed", "requests": inner, "models": ["m"],
        "tool_tokens": 0, "system_tokens": 0});
    trace("s", &[request(0.0, 0.5, &[1, 2]), agent, request(5.0, 0.5, &[1, 2, 3])])
}

/// Requests at 0 and 50 ms, and one of a sub-agent at 20 ms, which ends before the second.
fn joined() -> Value {
    let agent = json!({"t": 0.02, "type": "subagent", "agent_id": "a", "subagent_type": "x",
        "duration_ms": 10, "status": "completed", "requests": [request(0.02, 0.01, &[7])],
        "models": ["m"], "tool_tokens": 0, "system_tokens": 0});
    trace("s", &[request(0.0, 0.01, &[1, 2]), agent, request(0.05, 0.01, &[1, 2, 3])])
}

/// Sends this trace in lanes.
fn replay(server: &MockServer, trace: &Value, flags: &str) -> Run {
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("trace.json");
    fs::write(&file, trace.to_string()).unwrap();
    let input = ["--input-file", file.to_str().unwrap()];
    let mut command = profile_command(&server.url(), directory.path(), &input);
    command.args(["--custom-dataset-type", "weka_trace", "--agentic"]);
    command.args(flags.split_whitespace());
    Run { output: command.output().unwrap(), directory }
}

fn quick() -> MockServer {
    mock(Script { ttft: Nanos::from_millis(1.0), ..Script::default() })
}

/// What records say of a request: session, conversation, turn, due time and requested tokens.
#[derive(Debug, Clone)]
pub(crate) struct Sent {
    session: u64,
    conversation: String,
    turn: u64,
    due: u64,
    tokens: u64,
    correlation: String,
}

/// Returns the requests of a phase in the order of their due times.
pub(crate) fn sent(run: &Run, phase: &str) -> Vec<Sent> {
    let records = run.records();
    let of_phase = records.iter().map(|it| &it["metadata"]);
    let of_phase = of_phase
        .filter(|it| it["phase_name"].as_str().or(it["benchmark_phase"].as_str()) == Some(phase));
    let number = |it: &Value, name: &str| it[name].as_u64().unwrap();
    let text = |it: &Value, name: &str| it[name].as_str().unwrap().to_owned();
    let mut all: Vec<Sent> = of_phase
        .map(|it| Sent {
            session: number(it, "session_num"),
            conversation: text(it, "conversation_id"),
            turn: number(it, "turn_index"),
            due: number(it, "request_due_ns"),
            tokens: number(it, "requested_output_tokens"),
            correlation: text(it, "x_correlation_id"),
        })
        .collect();
    all.sort_by_key(|it| it.due);
    all
}

pub(crate) fn places(all: &[Sent]) -> Vec<(u64, u64)> {
    all.iter().map(|it| (it.session, it.turn)).collect()
}

/// By hand, with the numbers that numpy draws for the lanes of `t3` and the seed 42 (0.58245, 0.51843, 0.13707,
/// 0.73948): the lanes enter at 487.10, 458.29, 286.68 and 557.76 ms.
#[test]
fn lanes_are_primed_and_go_on_where_they_entered() {
    let server = quick();
    let flags = "--concurrency 4 --random-seed 42 --benchmark-duration 1 \
                 --trajectory-start-min-ratio 0.25 --trajectory-start-max-ratio 0.75";
    let run = replay(&server, &three(), flags).succeeded();
    let primers = sent(&run, "primers");
    // The longer a turn was before the entry, the earlier its primer is sent.
    assert_eq!(places(&primers), [(0, 0), (1, 0), (2, 0), (3, 1)]);
    assert!(primers.iter().all(|it| it.tokens == 1));
    let after = |all: &[Sent]| all.iter().map(|it| it.due - all[0].due).collect::<Vec<_>>();
    // Leads of 487.103020, 458.294264, 286.682511 and 57.764203 ms.
    assert_eq!(after(&primers), [0, 28_808_756, 200_420_509, 429_338_817]);
    let measured = sent(&run, "profiling");
    let first: Vec<Sent> = (0..4)
        .map(|session| measured.iter().find(|it| it.session == session).unwrap().clone())
        .collect();
    assert_eq!(places(&first), [(0, 1), (1, 1), (2, 1), (3, 2)]);
    // 12.896980 ms after the entry of the first lane, and so on.
    assert_eq!(after(&first), [0, 28_808_756, 200_420_509, 329_338_817]);
    // A conversation is the same one in both phases.
    for (before, now) in primers.iter().zip(&first) {
        assert_eq!(before.correlation, now.correlation);
    }
    // A lane begins its next tree with the first turn, and as another conversation.
    let next = measured.iter().find(|it| it.session == 4).unwrap();
    assert_eq!(next.turn, 0);
    assert!(measured.iter().all(|it| it.tokens == 4));
    let replay = &run.summary()["replay"];
    assert_eq!(replay["lanes"], 4);
    assert_eq!(replay["requests"].as_u64(), Some(measured.len() as u64));
}

/// The lane enters the trace before its second turn, for which it sends the first one as a primer. It then sends the
/// other two, and a whole trace.
#[test]
fn the_agents_of_lanes_begin_with_the_measurement() {
    let server = quick();
    let collector = OtlpReceiver::http();
    let flags = format!(
        "--concurrency 1 --random-seed 42 --num-sessions 1 --trajectory-start-min-ratio 0.25 \
         --trajectory-start-max-ratio 0.75 --otel-metrics full --otel-url {}",
        collector.otel_url()
    );
    let run = replay(&server, &three(), &flags).succeeded();
    assert_eq!(places(&sent(&run, "primers")), [(0, 0)]);
    assert_eq!(places(&sent(&run, "profiling")), [(0, 1), (0, 2), (1, 0), (1, 1), (1, 2)]);
    let telemetry = &run.summary()["telemetry"];
    assert_eq!(telemetry["reconciled"], true, "{telemetry}");
    let received = collector.last();
    let measured = [("aiperf.benchmark_phase", "profiling")];
    let calls = received.histogram("gen_ai.invoke_agent.inference_calls", &measured);
    assert_eq!((calls.count, calls.sum), (2, Some(5.0)));
}

/// Each response takes 100 ms. The sub-agent begins 10 ms after the first response, and ends after the 40 ms that
/// its agent's next request is delayed by.
#[test]
fn records_have_their_lane_and_what_they_waited_for() {
    let server = mock(Script { ttft: Nanos::from_millis(100.0), ..Script::default() });
    let flags = "--concurrency 1 --request-count 3 --trajectory-start-min-ratio 0 \
                 --trajectory-start-max-ratio 0";
    let run = replay(&server, &joined(), flags).succeeded();
    let records = run.records();
    let of = |conversation: &str, turn: u64| {
        let is_it = |it: &&Value| it["conversation_id"] == conversation && it["turn_index"] == turn;
        records.iter().map(|it| &it["metadata"]).find(is_it).unwrap().clone()
    };
    assert_eq!(records.len(), 3);
    for (metadata, held_by) in
        [(of("s", 0), None), (of("s::sa:a", 0), None), (of("s", 1), Some("join"))]
    {
        assert_eq!(metadata["lane"], 0, "{metadata}");
        assert_eq!(metadata.get("held_by").and_then(Value::as_str), held_by, "{metadata}");
    }
    assert_eq!(run.summary()["replay"]["held_by_join"], 1);
    let shown = run.stdout().split_whitespace().collect::<Vec<_>>().join(" ");
    let line = "Replay: 1 lane, 1 trace; 3 requests, 0.0% held by barriers, 33.3% by sub-agents; ";
    assert!(shown.contains(line), "{shown}");
}

/// Returns the chart of lanes of a page.
fn lanes_of(page: &str) -> Value {
    let data = data(page);
    let charts =
        data["sections"].as_array().unwrap().iter().flat_map(|it| it["charts"].as_array().unwrap());
    charts.clone().find(|it| it["name"] == "lanes_over_time").cloned().unwrap()
}

/// One lane: a request of the agent, one of its sub-agent, and one of the agent, which waited for the sub-agent. The
/// times are those of the records.
#[test]
fn lanes_are_drawn_the_same_from_the_run_and_from_its_files() {
    let server = mock(Script { ttft: Nanos::from_millis(100.0), ..Script::default() });
    let flags = "--concurrency 1 --request-count 3 --trajectory-start-min-ratio 0 \
                 --trajectory-start-max-ratio 0 --html";
    let run = replay(&server, &joined(), flags).succeeded();
    let chart = lanes_of(&run.text("report.html"));
    let records = run.records();
    let time = |conversation: &str, turn: u64, name: &str| {
        let is_it = |it: &&Value| it["conversation_id"] == conversation && it["turn_index"] == turn;
        let found = records.iter().map(|it| &it["metadata"]).find(is_it).unwrap();
        found[name].as_u64().unwrap() as f64 / 1e9
    };
    let [start, end] = ["request_start_ns", "request_end_ns"];
    let origin = time("s", 0, start) - chart["series"][0]["points"][0][0].as_f64().unwrap();
    let span = |from: f64, to: f64, y: f64| [(from - origin, y), (to - origin, y)];
    let expected = [
        (
            "requests of agents",
            [
                span(time("s", 0, start), time("s", 0, end), 0.3),
                span(time("s", 1, start), time("s", 1, end), 0.3),
            ]
            .concat(),
        ),
        (
            "requests of sub-agents",
            span(time("s::sa:a", 0, start), time("s::sa:a", 0, end), 0.7).to_vec(),
        ),
        ("waits for sub-agents", span(time("s", 0, end), time("s", 1, start), 0.3).to_vec()),
    ];
    let series = chart["series"].as_array().unwrap();
    assert_eq!(series.len(), expected.len(), "{chart}");
    for (found, (name, points)) in series.iter().zip(&expected) {
        assert_eq!(found["name"], *name);
        assert_eq!(
            (&found["shape"], found["points"].as_array().unwrap().len()),
            (&json!("spans"), points.len())
        );
        for (found, (x, y)) in found["points"].as_array().unwrap().iter().zip(points) {
            // Seconds since 1970 have 2^-22 s as the last digit.
            assert!(
                (found[0].as_f64().unwrap() - x).abs() < 1e-6,
                "{name}: {found} instead of {x}"
            );
            assert_eq!(found[1], *y);
        }
    }
    let output =
        aiperf(&["plot", "--format", "svg", "--"]).arg(run.directory.path()).output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    // A bar for each span and one in the legend for each series.
    let picture = run.text("plots/lanes_over_time.svg");
    assert_eq!(picture.matches("<polygon").count(), 4 + 3, "{picture}");
    // From the lines of the records alone.
    fs::remove_file(run.directory.path().join("profile_export.parquet")).unwrap();
    let output = aiperf(&["report"]).arg(run.directory.path()).arg("--html").output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    assert_eq!(lanes_of(&run.text("report.html")), chart);
    let Some(mut browser) = Browser::start(1280, 900) else { return };
    browser.open(&run.directory.path().join("report.html"), "");
    browser.value(
        "(async () => {
           const plot = document.querySelector('[data-name=lanes_over_time]');
           plot.scrollIntoView();
           while (!plot.querySelector('canvas')) await new Promise((done) => setTimeout(done, 10));
           plot.closest('figure').querySelector('details').open = true;
           while (!plot.closest('figure').querySelector('td')) await new Promise((done) => setTimeout(done, 10));
         })()",
    );
    let table = browser.value(
        "[...document.querySelector('[data-name=lanes_over_time]').closest('figure').querySelectorAll('tbody tr')]
           .map((row) => [...row.cells].slice(2).map((cell) => cell.textContent))",
    );
    let lines = [
        ["0", "requests of agents"],
        ["0", "waits for sub-agents"],
        ["0", "requests of sub-agents"],
        ["0", "requests of agents"],
    ];
    assert_eq!(table, json!(lines));
    assert_eq!(browser.complaints(), Vec::<String>::new());
}

/// The request of the sub-agent never ends. One of the three blocks of both prompts is known: none of `[1, 2]`, and 1
/// of `[1]`.
#[test]
fn what_lanes_do_is_known_while_they_do_it() {
    let faults = vec![Script::parse_fault("requests=2:hang").unwrap()];
    let server = mock(Script { faults, ..Script::default() });
    let agent = json!({"t": 0.02, "type": "subagent", "agent_id": "a", "subagent_type": "x",
        "duration_ms": 10, "status": "completed", "requests": [request(0.02, 0.01, &[1])],
        "models": ["m"], "tool_tokens": 0, "system_tokens": 0});
    let trace = trace("s", &[request(0.0, 0.01, &[1, 2]), agent, request(0.05, 0.01, &[1, 2, 3])]);
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("trace.json");
    fs::write(&file, trace.to_string()).unwrap();
    let flags = "--custom-dataset-type weka_trace --agentic --concurrency 1 --num-sessions 1 \
                 --trajectory-start-min-ratio 0 --trajectory-start-max-ratio 0 \
                 --request-timeout-seconds 20 --input-file";
    let flags: Vec<&str> = flags.split_whitespace().chain(file.to_str()).collect();
    let run = start(&server.url(), &flags, &[(GRACE.0, "3")]);
    let phase = || run.json("/api/progress")["phases"]["profiling"].clone();
    wait_until("a sub-agent in flight", || phase()["lanes"]["depth"] == 1);
    let lanes = phase()["lanes"].clone();
    let hits = lanes["theoretical_hit_percent"].as_f64().unwrap();
    assert!((hits - 100.0 / 3.0).abs() < 1e-9, "{lanes}");
    for (name, value) in [("lanes", 1), ("conversations", 2), ("context_tokens", 16)] {
        assert_eq!(lanes[name], value, "{lanes}");
    }
    // Its connections end with it, and so does the request.
    drop(server);
    let _ = run.shut_down();
}

#[test]
fn bursts_send_the_first_requests_of_all_lanes_at_once() {
    let server = quick();
    let flags = "--concurrency 3 --random-seed 42 --benchmark-duration 0.5 --burst-phase-starts";
    let run = replay(&server, &three(), flags).succeeded();
    for phase in ["primers", "profiling"] {
        let all = sent(&run, phase);
        let first = &all[..3];
        assert!(first.iter().all(|it| it.due == first[0].due), "{phase}: {first:?}");
    }
}

#[test]
fn a_cache_is_warmed_by_the_next_requests_of_each_lane() {
    let server = quick();
    let flags = "--concurrency 1 --random-seed 42 --benchmark-duration 0.5 \
                 --warmup-requests-per-lane 10";
    let run = replay(&server, &three(), flags).succeeded();
    assert_eq!(places(&sent(&run, "primers")), [(0, 0)]);
    let warmup = sent(&run, "cache_warmup");
    // The rest of the first tree, two whole trees, and two turns of the fourth.
    let expected = [(0, 1), (0, 2), (1, 0), (1, 1), (1, 2), (2, 0), (2, 1), (2, 2), (3, 0), (3, 1)];
    assert_eq!(places(&warmup), expected);
    assert!(warmup.iter().all(|it| it.tokens == 1));
    let measured = sent(&run, "profiling");
    assert_eq!(places(&measured[..1]), [(3, 2)]);
    assert_eq!(
        run.summary()["completed_request_count"]["avg"].as_f64(),
        Some(measured.len() as f64)
    );
}

/// How many requests fit into the time is not known, but that each of them is one of the warmup.
#[test]
fn a_cache_is_warmed_for_a_time() {
    let server = mock(Script { ttft: Nanos::from_millis(20.0), ..Script::default() });
    let flags = "--concurrency 1 --random-seed 42 --request-count 2 \
                 --agentic-cache-warmup-duration 0.3";
    let run = replay(&server, &three(), flags).succeeded();
    let warmup = sent(&run, "cache_warmup");
    assert_eq!(places(&warmup[..2]), [(0, 1), (0, 2)]);
    assert!(warmup.iter().all(|it| it.tokens == 1));
    let last = warmup.last().unwrap().clone();
    let measured = sent(&run, "profiling");
    assert_eq!(measured.len(), 2);
    // The lane goes on where the warmup ended.
    let next = if last.turn == 2 { (last.session + 1, 0) } else { (last.session, last.turn + 1) };
    assert_eq!(places(&measured[..1]), [next]);
}

#[test]
fn prompts_bear_the_marker_of_their_tree() {
    let server = quick();
    let flags = "--concurrency 2 --random-seed 42 --benchmark-duration 1.2 --export-level raw \
                 --cache-bust first_turn_prefix";
    let run = replay(&server, &three(), flags).succeeded();
    let id = run.summary()["run_info"]["benchmark_id"].as_str().unwrap().to_owned();
    let marker = |pass: u64, lane: u64| {
        let text = format!("{id}:{pass}:{lane}:t3");
        let hash = ring::digest::digest(&ring::digest::SHA256, text.as_bytes());
        let first = hash.as_ref().first_chunk().copied().unwrap();
        format!("[rid:{:012x}]\n\n", u64::from_be_bytes(first) >> 16)
    };
    let mut of_sessions = std::collections::BTreeMap::new();
    for line in run.text("profile_export_raw.jsonl").lines() {
        let record: Value = serde_json::from_str(line).unwrap();
        let messages = record["payload"]["messages"].as_array().unwrap().clone();
        let user = messages.iter().find(|it| it["role"] == "user").unwrap();
        let text = user["content"].as_str().unwrap();
        let session = record["metadata"]["session_num"].as_u64().unwrap();
        let before = of_sessions.insert(session, text[..20].to_owned());
        assert!(before.is_none_or(|before| before == text[..20]), "session {session}");
    }
    assert_eq!(of_sessions[&0], marker(0, 0));
    assert_eq!(of_sessions[&1], marker(1, 1));
    // The next trees, of whichever lane was first.
    assert!([0, 1].iter().any(|lane| of_sessions[&2] == marker(2, *lane)), "{of_sessions:?}");
}

/// The only lane enters at 4 s, when the sub-agent has ended. Nothing is in flight for 4 s after a request
/// then, but for 0.1 s at most with the cap.
#[test]
fn idle_time_is_capped() {
    let server = quick();
    let flags = "--concurrency 1 --num-sessions 1 --trajectory-start-min-ratio 0.8 \
                 --trajectory-start-max-ratio 0.8";
    for cap in ["--system-idle-gap-cap-seconds 0.1", "--trace-idle-gap-cap-seconds 0.1"] {
        let run = replay(&server, &with_sub_agent(), &format!("{flags} {cap}")).succeeded();
        let measured = sent(&run, "profiling");
        let names: Vec<_> =
            measured.iter().map(|it| (it.session, &*it.conversation, it.turn)).collect();
        let whole = [(1, "s", 0), (1, "s::sa:a", 0), (1, "s::sa:a", 1), (1, "s", 1)];
        assert_eq!(names[0], (0, "s", 1), "{cap}");
        assert_eq!(names[1..5], whole, "{cap}");
        let ends: Vec<u64> = run
            .records()
            .iter()
            .map(|it| it["metadata"]["request_end_ns"].as_u64().unwrap())
            .collect();
        for next in &measured[1..5] {
            let last = ends.iter().filter(|end| **end <= next.due).max().unwrap();
            assert!(next.due - last <= 100_000_000, "{cap}: {next:?}");
        }
    }
}

#[test]
fn a_failure_before_the_measurement_ends_the_run_unless_a_sub_agent_has_it() {
    // At 3.5 s the sub-agent is before its end, so that the first request of all is the root's.
    let server = |rule: &str| {
        let faults = vec![Script::parse_fault(rule).unwrap()];
        mock(Script { faults, ..Script::default() })
    };
    let flags = "--concurrency 1 --num-sessions 1 --system-idle-gap-cap-seconds 0.05 \
                 --trajectory-start-min-ratio 0.5 --trajectory-start-max-ratio 0.5";
    let failed = replay(&server("requests=1:status=500"), &with_sub_agent(), flags);
    assert_eq!(failed.output.status.code(), Some(1), "{failed:?}", failed = failed.output);
    let said = String::from_utf8_lossy(&failed.output.stderr).into_owned();
    assert!(said.contains("prepares the server for a lane"), "{said}");
    let run = replay(&server("requests=2:status=500"), &with_sub_agent(), flags).succeeded();
    let primers = sent(&run, "primers");
    let names: Vec<_> = primers.iter().map(|it| (&*it.conversation, it.turn)).collect();
    assert_eq!(names, [("s", 0), ("s::sa:a", 0)]);
}

/// The first request of the measurement never ends, so that no lane comes to its next tree.
#[test]
fn a_tree_that_never_ends_does_not_hold_the_run() {
    let server = mock(Script {
        faults: vec![Script::parse_fault("requests=2:hang").unwrap()],
        ..Script::default()
    });
    let flags = "--concurrency 1 --benchmark-duration 0.3 --benchmark-grace-period 0.2 \
                 --random-seed 42";
    let run = replay(&server, &three(), flags);
    let records = sent(&run, "profiling");
    assert_eq!(places(&records), [(0, 1)]);
    assert!(run.records().iter().any(|it| it["metadata"]["was_cancelled"] == true));
}

/// The second request of the only lane's first tree is too long, so that its third one is not sent.
#[test]
fn a_prompt_that_is_too_long_ends_its_conversation() {
    let rule = "requests=2:status=400,This model's maximum context length is 10 tokens";
    let faults = vec![Script::parse_fault(rule).unwrap()];
    let server = mock(Script { faults, ..Script::default() });
    let flags = "--concurrency 1 --num-sessions 1 --random-seed 42 --system-idle-gap-cap-seconds 0 \
                 --trajectory-start-min-ratio 0.2 --trajectory-start-max-ratio 0.2";
    let run = replay(&server, &three(), flags).succeeded();
    assert_eq!(places(&sent(&run, "primers")), [(0, 0)]);
    assert_eq!(places(&sent(&run, "profiling")), [(0, 1), (1, 0), (1, 1), (1, 2)]);
    // Other errors do not end it.
    let faults = vec![Script::parse_fault("requests=2:status=500").unwrap()];
    let server = mock(Script { faults, ..Script::default() });
    let run = replay(&server, &three(), flags).succeeded();
    let all = [(0, 1), (0, 2), (1, 0), (1, 1), (1, 2)];
    assert_eq!(places(&sent(&run, "profiling")), all);
}

/// The command of InferenceX, with another server, another hub and a shorter duration.
#[test]
fn the_command_of_inferencex_has_the_results_that_its_processing_reads() {
    let traces: Vec<String> = [three(), with_sub_agent()].iter().map(Value::to_string).collect();
    let repository = "semianalysisai/cc-traces-weka-062126-256k";
    let hub = Hub::default().with(repository, "main", "train.jsonl", traces.join("\n").as_bytes());
    let server = quick();
    let (directory, cache) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let flags = "--concurrency 4 --benchmark-duration 2 --warmup-requests-per-lane 1 --unsafe-override \
                 --public-dataset semianalysis_cc_traces_weka_062126_256k";
    let command = inferencex_command(&server.url(), directory.path().to_str().unwrap(), flags);
    let arguments: Vec<&str> = command.split_whitespace().collect();
    let mut command = aiperf(&arguments);
    command.env("HF_ENDPOINT", format!("http://{}", hub.start())).env("HF_HUB_CACHE", cache.path());
    let run = Run { output: command.output().unwrap(), directory }.succeeded();
    let metadata = &run.summary()["metadata"];
    assert_eq!(metadata["scenario"], "inferencex-agentx-mvp");
    assert_eq!(metadata["submission_valid"], false);
    assert_eq!(metadata["submission_invalid_reasons"], json!(["unsafe_override"]));
    assert_eq!(metadata["dataset"]["hf_dataset_name"], repository);
    assert_eq!(sent(&run, "cache_warmup").len(), 4);
    run_python("tests/check_agentx.py", run.directory.path());
}
