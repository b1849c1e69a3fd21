//! Agents over OpenTelemetry: sessions of several requests and their sub-agents are `invoke_agent`
//! spans around these, tools are `execute_tool` spans, and metrics count both.

use std::collections::{BTreeMap, BTreeSet};

use base::units::Nanos;
use mock_server::Script;
use opentelemetry_proto::tonic::metrics::v1::HistogramDataPoint;
use opentelemetry_proto::tonic::metrics::v1::metric::Data;
use opentelemetry_proto::tonic::trace::v1::Span;
use serde_json::{Value, json};

use crate::support::load::{faults, mock};
use crate::support::otlp_receiver::{OtlpReceiver, attribute};
use crate::support::run::{Run, profile};

/// An agent that uses two tools, starts a sub-agent, and waits for it.
fn dataset() -> String {
    let user = |text: &str| json!([{"role": "user", "content": text}]);
    let call = |id: &str, name: &str| json!({"id": id, "type": "function", "function": {"name": name, "arguments": "{}"}});
    let result = |id: &str| json!({"role": "tool", "tool_call_id": id, "content": "r"});
    let asked = json!({"role": "assistant", "content": null,
        "tool_calls": [call("1", "search"), call("2", "read")]});
    let main = json!({"session_id": "main", "turns": [
        {"messages": user("first")},
        {"messages": [asked, result("1"), result("2")], "delay": 30,
            "spawns": [{"children": ["sub"], "join_at": 2}]},
        {"messages": user("third")},
    ]});
    let sub = json!({"session_id": "sub", "turns": [{"messages": user("of the sub-agent")}]});
    format!("{main}\n{sub}\n")
}

fn traced(collector: &OtlpReceiver, faulty: &[&str], extra: &[&str]) -> Run {
    let ttft = Nanos::from_millis(3.0);
    let server = mock(Script { faults: faults(faulty), ttft, ..Script::default() });
    let url = collector.otel_url();
    let all = [&["--otel-url", &url, "--export-http-trace", "--concurrency", "2"], extra].concat();
    profile(&server.url(), &all).succeeded()
}

fn with_tree(collector: &OtlpReceiver, extra: &[&str]) -> Run {
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("tree.jsonl");
    std::fs::write(&file, dataset()).unwrap();
    let file = file.to_str().unwrap();
    let own = ["--custom-dataset-type", "dag_jsonl", "--input-file", file];
    traced(collector, &[], &[&own, extra].concat())
}

/// The spans of requests and agents, by trace.
fn traces(collector: &OtlpReceiver) -> BTreeMap<String, Vec<Span>> {
    let mut traces: BTreeMap<String, Vec<Span>> = BTreeMap::new();
    for export in collector.traces() {
        for span in export.message.resource_spans.into_iter().flat_map(|of| of.scope_spans) {
            for span in span.spans.into_iter().filter(|span| !span.name.starts_with("aiperf.")) {
                traces.entry(hex(&span.trace_id)).or_default().push(span);
            }
        }
    }
    traces
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().fold(String::new(), |text, byte| text + &format!("{byte:02x}"))
}

fn of<'a>(spans: &'a [Span], key: &str, value: &str) -> Vec<&'a Span> {
    let has = |span: &&Span| attribute(&span.attributes, key).as_deref() == Some(value);
    spans.iter().filter(has).collect()
}

fn only<'a>(found: &[&'a Span]) -> &'a Span {
    let [span] = found else { panic!("{found:?}") };
    span
}

fn text(value: &Value) -> String {
    value.as_str().map_or_else(|| value.to_string(), str::to_owned)
}

/// Returns the points of a metric in the last export.
fn points(collector: &OtlpReceiver, name: &str) -> Vec<HistogramDataPoint> {
    let received = collector.last();
    let found = received.metrics().into_iter().filter(|metric| metric.name == name);
    found
        .flat_map(|metric| match &metric.data {
            Some(Data::Histogram(of)) => of.data_points.clone(),
            other => panic!("{other:?}"),
        })
        .collect()
}

#[test]
fn a_session_is_a_trace_below_its_agent() {
    let collector = OtlpReceiver::grpc();
    let run = with_tree(&collector, &["--trace-sample", "all", "--num-sessions", "2"]);
    let records = run.records();
    let traces = traces(&collector);
    assert_eq!((records.len(), traces.len()), (8, 2), "two sessions of four requests");
    for record in &records {
        let metadata = &record["metadata"];
        let root = text(&metadata["root_correlation_id"]).replace('-', "");
        let spans = &traces[&root];
        let traceparent = text(&record["trace_data"]["request_headers"]["Traceparent"]);
        assert_eq!(traceparent[3..35], root);

        // The request is below the agent of its conversation, and that below the one that started it.
        let request = only(&of(spans, "aiperf.request.id", &text(&metadata["x_request_id"])));
        assert_eq!(hex(&request.span_id), traceparent[36..52]);
        let conversation = text(&metadata["x_correlation_id"]);
        let agents = of(spans, "gen_ai.operation.name", "invoke_agent");
        let agent_of = |id: &str| {
            let own = agents.iter().filter(|span| {
                attribute(&span.attributes, "gen_ai.conversation.id").as_deref() == Some(id)
            });
            only(&own.copied().collect::<Vec<_>>())
        };
        let agent = agent_of(&conversation);
        assert_eq!(request.parent_span_id, agent.span_id);
        assert_eq!(agent.name, "invoke_agent");
        assert_eq!(agent.links.len(), 1);
        let parent = metadata["parent_correlation_id"].as_str();
        let above = parent.map(|id| agent_of(id).span_id.clone()).unwrap_or_default();
        assert_eq!(agent.parent_span_id, above);

        let own = || {
            records.iter().filter(|of| text(&of["metadata"]["x_correlation_id"]) == conversation)
        };
        let times = |name: &str| {
            own().map(|of| of["metadata"][name].as_u64().unwrap()).collect::<BTreeSet<_>>()
        };
        assert_eq!(Some(&agent.start_time_unix_nano), times("request_start_ns").first());
        assert_eq!(Some(&agent.end_time_unix_nano), times("request_end_ns").last());
        let tokens: f64 = own()
            .map(|of| of["metrics"]["output_sequence_length"]["value"].as_f64().unwrap())
            .sum();
        let stated = attribute(&agent.attributes, "gen_ai.usage.output_tokens");
        assert_eq!(stated, Some(tokens.to_string()));
    }
    assert_eq!(run.summary()["telemetry"]["reconciled"], true);
}

#[test]
fn a_tool_takes_the_wait_for_the_request_with_its_result() {
    let collector = OtlpReceiver::http();
    let run = with_tree(&collector, &["--trace-sample", "all", "--num-sessions", "1"]);
    let traces = traces(&collector);
    let spans: Vec<Span> = traces.into_values().flatten().collect();
    let tools = of(&spans, "gen_ai.operation.name", "execute_tool");
    let names: Vec<&str> = tools.iter().map(|span| span.name.as_str()).collect();
    assert_eq!(names, ["execute_tool search", "execute_tool read"]);
    assert_ne!(tools[0].span_id, tools[1].span_id);
    let records = run.records();
    let at = |depth: u64, turn: u64, name: &str| {
        let metadata = records.iter().map(|record| &record["metadata"]);
        let found =
            metadata.clone().find(|of| of["agent_depth"] == depth && of["turn_index"] == turn);
        found.unwrap()[name].as_u64().unwrap()
    };
    let agents = of(&spans, "gen_ai.operation.name", "invoke_agent");
    let root =
        only(&agents.into_iter().filter(|span| span.parent_span_id.is_empty()).collect::<Vec<_>>());
    for tool in tools {
        assert_eq!(tool.parent_span_id, root.span_id);
        assert_eq!(tool.start_time_unix_nano, at(0, 0, "request_end_ns"));
        // The delay of the turn.
        assert_eq!(tool.end_time_unix_nano - tool.start_time_unix_nano, 30_000_000);
        assert!(tool.end_time_unix_nano <= at(0, 1, "request_start_ns"));
    }

    // A root of three requests and a sub-agent of one; the root used two tools.
    let counts = |name: &str| {
        let points = points(&collector, name);
        points.iter().map(|of| (of.count, of.sum.unwrap())).collect::<Vec<_>>()
    };
    assert_eq!(counts("gen_ai.invoke_agent.inference_calls"), [(2, 4.0)]);
    assert_eq!(counts("gen_ai.invoke_agent.tool_calls"), [(2, 2.0)]);
    let durations = points(&collector, "gen_ai.execute_tool.duration");
    let by_name: BTreeMap<_, _> = durations
        .iter()
        .map(|of| (attribute(&of.attributes, "gen_ai.tool.name").unwrap(), of.sum.unwrap()))
        .collect();
    assert_eq!(by_name, BTreeMap::from([("read".to_owned(), 0.03), ("search".to_owned(), 0.03)]));
    let [agents] = &points(&collector, "gen_ai.invoke_agent.duration")[..] else { panic!() };
    let seconds = |depth, last| {
        at(depth, last, "request_end_ns").abs_diff(at(depth, 0, "request_start_ns")) as f64 / 1e9
    };
    let expected = seconds(0, 2) + seconds(1, 0);
    assert!((agents.sum.unwrap() - expected).abs() < 1e-9, "{agents:?} is not {expected}");
    assert_eq!(
        attribute(&agents.attributes, "gen_ai.request.model").as_deref(),
        Some("mock-model")
    );
    // Exemplars lead to the spans.
    let of_agents: BTreeSet<_> = agents.exemplars.iter().map(|of| of.span_id.clone()).collect();
    assert!(of_agents.contains(&root.span_id), "{agents:?}");
    assert_eq!(run.summary()["telemetry"]["reconciled"], true);
}

#[test]
fn single_requests_are_not_agents_and_failures_alone_have_no_parent() {
    let collector = OtlpReceiver::grpc();
    let run = traced(&collector, &[], &["--trace-sample", "all", "--request-count", "4"]);
    let ids = |run: &Run| -> BTreeSet<String> {
        let id = |record: &Value| text(&record["metadata"]["x_request_id"]).replace('-', "");
        run.records().iter().map(id).collect()
    };
    assert_eq!(traces(&collector).into_keys().collect::<BTreeSet<_>>(), ids(&run));
    assert!(points(&collector, "gen_ai.invoke_agent.duration").is_empty());

    // The sample has the failed requests only, so there is no agent that they could be below.
    let collector = OtlpReceiver::grpc();
    let sample = ["--trace-sample", "errors", "--session-turns-mean", "2", "--num-sessions", "4"];
    let run = traced(&collector, &["every=2:status=503,busy"], &sample);
    let failed = run.records().iter().filter(|record| !record["error"].is_null()).count();
    let spans: Vec<Span> = traces(&collector).into_values().flatten().collect();
    assert_eq!((failed, spans.len()), (4, 4));
    assert!(spans.iter().all(|span| span.parent_span_id.is_empty()));
    // Metrics have all agents, whether or not they are sampled.
    let agents = points(&collector, "gen_ai.invoke_agent.duration");
    assert_eq!(agents.iter().map(|of| of.count).sum::<u64>(), 4);
    assert_eq!(run.summary()["telemetry"]["reconciled"], true);
}

#[test]
fn a_share_has_whole_sessions() {
    let collector = OtlpReceiver::grpc();
    let sample = ["--trace-sample", "50%", "--session-turns-mean", "3", "--num-sessions", "20"];
    let run = traced(&collector, &[], &sample);
    let traces = traces(&collector);
    for record in run.records() {
        let conversation = text(&record["metadata"]["x_correlation_id"]).replace('-', "");
        let traceparent = text(&record["trace_data"]["request_headers"]["Traceparent"]);
        // The last 56 bits decide, as OpenTelemetry's probability sampling has it.
        let random = u64::from_str_radix(&conversation[18..], 16).unwrap();
        assert_eq!(traceparent.ends_with("-01"), random >= 1 << 55, "{conversation}");
        assert_eq!(traces.contains_key(&conversation), random >= 1 << 55);
    }
    assert!(traces.values().all(|spans| of(spans, "gen_ai.operation.name", "chat").len() == 3));
}
