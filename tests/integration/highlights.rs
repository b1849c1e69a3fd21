//! What a run says in a line each: cached tokens, turns, tool calls, and the counts of the server.

use mock_server::Script;
use serde_json::{Value, json};

use crate::report_page::data;
use crate::support::load::mock;
use crate::support::raw_server;
use crate::support::run::{aiperf, profile};

const SESSIONS: [&str; 6] =
    ["--num-sessions", "4", "--session-turns-mean", "3", "--concurrency", "2"];

#[test]
fn turns_have_statistics_of_their_own() {
    let server = mock(Script::default());
    let flags = [&SESSIONS[..], &["--tables", "all", "--html"]].concat();
    let run = profile(&server.url(), &flags).succeeded();
    let by_turn = run.summary()["by_turn"].clone();
    let turns: Vec<&String> = by_turn.as_object().unwrap().keys().collect();
    assert_eq!(turns, ["1", "2", "3"]);
    let value =
        |turn: &str, metric: &str, name: &str| by_turn[turn][metric][name].as_f64().unwrap();
    // Each turn repeats the earlier ones and their answers, so its prompt is longer.
    let mut before = -4.0;
    for (turn, records) in ["1", "2", "3"].into_iter().zip(0..) {
        assert_eq!(value(turn, "request_count", "avg"), 4.0);
        let of_turn: Vec<Value> = run.records();
        let of_turn = of_turn.iter().filter(|it| it["metadata"]["turn_index"] == records);
        let lengths: Vec<f64> = of_turn
            .map(|it| it["metrics"]["input_sequence_length"]["value"].as_f64().unwrap())
            .collect();
        let mean = lengths.iter().sum::<f64>() / 4.0;
        assert_eq!(value(turn, "input_sequence_length", "avg"), mean);
        assert!(mean >= before + 24.0, "{mean} after {before}");
        before = mean;
    }
    let p50 = |turn| value(turn, "time_to_first_token", "p50");
    let line = run
        .stdout()
        .lines()
        .find(|line| line.starts_with("TTFT p50 by turn: "))
        .unwrap()
        .to_owned();
    for (turn, part) in ["1", "2", "3"].iter().zip(line.split(": ").skip(2)) {
        let shown: f64 = part.split([',', ' ']).next().unwrap().parse().unwrap();
        assert!((shown - p50(turn)).abs() <= 5e-4 * p50(turn), "{line}: {} of {turn}", p50(turn));
    }
    assert!(run.stdout().contains("aiperf | Turns"), "{}", run.stdout());
    let page = run.text("report.html");
    assert!(page.contains("\"TTFT p50 by turn\""));
    let page = data(&page);
    let sections = page["sections"].as_array().unwrap();
    let section = sections.iter().find(|section| section["title"] == "Turns").unwrap();
    assert_eq!(section["tables"][0]["rows"].as_array().unwrap().len(), 3);
    let [first, whole] = &section["charts"].as_array().unwrap()[..] else { panic!("{section}") };
    for (chart, metric) in [(first, "time_to_first_token"), (whole, "request_latency")] {
        assert_eq!(chart["name"], format!("{metric}_by_turn"));
        for (series, statistic) in chart["series"].as_array().unwrap().iter().zip(["p50", "p99"]) {
            let points = [1.0, 2.0, 3.0]
                .map(|turn| json!([turn, value(&turn.to_string(), metric, statistic)]));
            assert_eq!((&series["name"], &series["points"]), (&json!(statistic), &json!(points)));
        }
    }
    let again = aiperf(&["report", "--overwrite"]).arg(run.directory.path()).output().unwrap();
    assert!(again.status.success());
    assert_eq!(run.summary()["by_turn"], by_turn);
}

#[test]
fn conversations_of_one_turn_are_not_divided() {
    let server = mock(Script::default());
    let run = profile(&server.url(), &["--request-count", "4"]).succeeded();
    assert_eq!(run.summary().get("by_turn"), None);
    assert!(!run.stdout().contains("by turn"));
}

#[test]
fn the_counts_of_the_server_are_confirmed() {
    let server = mock(Script::default());
    let run = profile(&server.url(), &["--request-count", "6"]).succeeded();
    let tokens = |tag: &str| run.summary()[tag]["avg"].as_f64().unwrap();
    let said = format!(
        "Server and client agree: on 6 requests, {} prompt tokens, {} completion tokens",
        tokens("total_usage_prompt_tokens"),
        tokens("total_usage_completion_tokens"),
    );
    let words = |text: &str| text.split_whitespace().collect::<Vec<_>>().join(" ");
    assert!(
        words(&run.stdout()).replace(',', "").contains(&said.replace(',', "")),
        "{}",
        run.stdout()
    );
}

/// Three responses with calls: two valid ones, one with arguments that were cut, and none.
#[test]
fn tool_calls_are_counted_and_checked() {
    let call = |arguments: &str| {
        json!({"id": arguments, "type": "function",
        "function": {"name": "search", "arguments": arguments}})
    };
    let messages = [
        json!({"role": "assistant", "content": null, "tool_calls": [call("{}"), call("{\"q\": 1}")]}),
        json!({"role": "assistant", "content": null, "tool_calls": [call("{\"q\": ")]}),
        json!({"role": "assistant", "content": "Nothing to look up."}),
    ];
    let count = std::sync::Arc::new(std::sync::atomic::AtomicUsize::new(0));
    let address = raw_server::serve(move |_, stream| {
        while raw_server::read_request(stream).is_some() {
            let number = count.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
            let body = json!({"object": "chat.completion", "model": "m",
                "choices": [{"index": 0, "message": messages[number % 3], "finish_reason": "stop"}]});
            let body = body.to_string();
            let head = "HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: ";
            raw_server::write(stream, format!("{head}{}\r\n\r\n{body}", body.len()).as_bytes());
        }
    });
    let flags = ["--request-count", "6", "--concurrency", "1", "--no-server-metrics"];
    let run = profile(&format!("http://{address}"), &flags).succeeded();
    let summary = run.summary();
    assert_eq!(summary["total_tool_calls"]["avg"], 6.0);
    assert_eq!(summary["total_invalid_tool_calls"]["avg"], 2.0);
    assert_eq!(summary["tool_call_count"]["count"], 4);
    let said = "Tool calls: 6 in 4 responses, 2 with arguments that are not valid JSON";
    assert!(run.stdout().contains(said), "{}", run.stdout());
}

/// Of eight responses, four ended by themselves, two at the limit, and two were filtered.
#[test]
fn finish_reasons_are_counted_told_and_limited() {
    let count = std::sync::Arc::new(std::sync::atomic::AtomicUsize::new(0));
    let address = raw_server::serve(move |_, stream| {
        while raw_server::read_request(stream).is_some() {
            let number = count.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
            let reason = ["stop", "length", "stop", "content_filter"][number % 4];
            let body = json!({"object": "chat.completion", "model": "m", "choices": [
                {"index": 0, "message": {"role": "assistant", "content": "a"}, "finish_reason": reason},
            ]});
            let body = body.to_string();
            let head = "HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: ";
            raw_server::write(stream, format!("{head}{}\r\n\r\n{body}", body.len()).as_bytes());
        }
    });
    let flags = [
        "--request-count",
        "8",
        "--concurrency",
        "1",
        "--no-server-metrics",
        "--gate",
        "finish_reason:content_filter<=25%",
        "--gate",
        "finish_reason:length<=1",
        "--gate",
        "finish_reason:abort==0",
    ];
    let run = profile(&format!("http://{address}"), &flags);
    assert_eq!(run.exit_code(), Some(3), "{}", run.stderr());
    let counts = json!({"content_filter": 2, "length": 2, "stop": 4});
    let summary = run.summary();
    assert_eq!(summary["finish_reasons"], counts);
    let gates = summary["gates"].as_array().unwrap().iter();
    let gates: Vec<_> = gates.map(|it| (it["value"].as_f64().unwrap(), &it["held"])).collect();
    assert_eq!(gates, [(25.0, &json!(true)), (2.0, &json!(false)), (0.0, &json!(true))]);
    let said = "Finish reasons: stop 50.0%, content_filter 25.0%, length 25.0%";
    assert!(run.stdout().contains(said), "{}", run.stdout());
    let of_records: Vec<Value> =
        run.records().iter().map(|it| it["metadata"]["finish_reason"].clone()).collect();
    assert_eq!(of_records[..4], ["stop", "length", "stop", "content_filter"]);
    let table = run.text("profile_export_aiperf.csv");
    let rows = "Finish Reason,Requests\r\ncontent_filter,2\r\nlength,2\r\nstop,4\r\n";
    assert!(table.contains(rows), "{table}");

    let again = aiperf(&["report", "--overwrite"]).arg(run.directory.path()).output().unwrap();
    assert_eq!(again.status.code(), Some(3));
    let rebuilt = run.summary();
    assert_eq!(rebuilt["finish_reasons"], counts);
    assert_eq!(rebuilt["gates"], summary["gates"]);
}
