//! Every dialect for text in real runs, and the page that lists all dialects.

use std::fmt::Write as _;
use std::fs;
use std::path::Path;
use std::sync::mpsc;

use aiperf::cli::parse_with;
use aiperf::config::Environment;
use base::units::Nanos;
use client::endpoint::{EndpointTraits, EndpointType};
use dataset::MediaKinds;
use mock_server::{Config, MockServer, Script};

use crate::support::raw_server;
use crate::support::run::profile;

/// The dialects whose responses are texts of a known length.
const TEXT: [EndpointType; 6] = [
    EndpointType::CHAT,
    EndpointType::COMPLETIONS,
    EndpointType::RESPONSES,
    EndpointType::MESSAGES,
    EndpointType::GEMINI,
    EndpointType::HUGGINGFACE_GENERATE,
];

fn mock(script: Script) -> MockServer {
    MockServer::start(Config { script, ..Config::default() }).unwrap()
}

/// Returns the path of requests that are streamed, or not, without its query.
fn path(traits: &EndpointTraits, streaming: bool) -> &'static str {
    let path = traits.streaming_path.filter(|_| streaming).unwrap_or(traits.path);
    path.split('?').next().unwrap()
}

#[test]
fn every_dialect_is_measured_streamed_and_whole() {
    for kind in TEXT {
        let traits = kind.traits();
        for streaming in [true, false] {
            let server = mock(Script { ttft: Nanos(2_000_000), ..Script::default() });
            let mut extra = vec!["--endpoint-type", traits.name, "--request-count", "4"];
            extra.extend(streaming.then_some("--streaming"));
            let run = profile(&server.url(), &extra).succeeded();
            let (summary, context) = (run.summary(), format!("{} {streaming}", traits.name));
            assert_eq!(summary["request_count"]["avg"], 4.0, "{context}");
            assert_eq!(summary["input_sequence_length"]["avg"], 20.0, "{context}");
            assert_eq!(summary["output_sequence_length"]["avg"], 4.0, "{context}");
            assert_eq!(summary["time_to_first_token"].is_null(), !streaming, "{context}");
            let console = run.text("profile_export_console.txt");
            assert!(console.contains(traits.metrics_title), "{context}");
            for log in server.write_log() {
                assert_eq!(log.path, path(traits, streaming), "{context}");
            }
            // Text Generation Inference reports token counts only on request.
            let counts = streaming || kind != EndpointType::HUGGINGFACE_GENERATE;
            let usage = counts.then_some((20.0, 4.0));
            let of = |name: &str| summary[name]["avg"].as_f64();
            let found = of("usage_prompt_tokens").zip(of("usage_completion_tokens"));
            assert_eq!(found, usage, "{context}");
        }
    }
}

#[test]
fn reasoning_is_told_from_output() {
    let kinds = [EndpointType::RESPONSES, EndpointType::MESSAGES, EndpointType::GEMINI];
    for kind in kinds {
        let name = kind.traits().name;
        let server = mock(Script { reasoning_tokens: 3, ..Script::default() });
        let extra = ["--endpoint-type", name, "--streaming", "--request-count", "2"];
        let summary = profile(&server.url(), &extra).succeeded().summary();
        assert_eq!(summary["reasoning_token_count"]["avg"], 3.0, "{name}");
        assert_eq!(summary["output_token_count"]["avg"], 1.0, "{name}");
        assert_eq!(summary["output_sequence_length"]["avg"], 4.0, "{name}");
    }
}

#[test]
fn later_turns_repeat_the_conversation() {
    for kind in TEXT {
        let traits = kind.traits();
        let server = mock(Script::default());
        let extra = ["--endpoint-type", traits.name, "--streaming", "--num-sessions", "1"];
        let turns = ["--session-turns-mean", "2", "--system-prompt", "be brief"];
        let run = profile(&server.url(), &[&extra[..], &turns[..]].concat()).succeeded();
        let mut records = run.records();
        records.sort_by_key(|record| record["metadata"]["turn_index"].as_u64());
        let prompts: Vec<f64> = records
            .iter()
            .map(|record| record["metrics"]["usage_prompt_tokens"]["value"].as_f64().unwrap())
            .collect();
        assert_eq!(prompts.len(), 2, "{}", traits.name);
        // Two texts of 20 tokens and a response of 4, or again a single text.
        let more = if traits.repeats_history { 24.0 } else { 0.0 };
        assert_eq!(prompts[1] - prompts[0], more, "{} {prompts:?}", traits.name);
    }
}

#[test]
fn failures_of_each_dialect_are_records() {
    for kind in TEXT {
        let name = kind.traits().name;
        for fault in ["every=2:status=503", "every=2:error=1", "every=2:cut=1", "every=2:garbage=1"]
        {
            let faults = vec![Script::parse_fault(fault).unwrap()];
            let server = mock(Script { faults, ..Script::default() });
            let extra = ["--endpoint-type", name, "--streaming", "--request-count", "4"];
            let summary = profile(&server.url(), &extra).succeeded().summary();
            assert_eq!(summary["request_count"]["avg"], 2.0, "{name} {fault}");
            assert_eq!(summary["error_request_count"]["avg"], 2.0, "{name} {fault}");
        }
    }
}

/// The values of AIPerf 0.13's `--endpoint-type`, as its help lists them.
const OF_AIPERF: [&str; 19] = [
    "audio-transcription",
    "chat",
    "cohere-rankings",
    "completions",
    "responses",
    "messages",
    "chat-embeddings",
    "embeddings",
    "hf-tei-rankings",
    "huggingface-generate",
    "image-generation",
    "image-edit",
    "video-generation",
    "image-retrieval",
    "nim-embeddings",
    "nim-rankings",
    "solido-rag",
    "raw",
    "template",
];

#[test]
fn every_endpoint_type_of_aiperf_is_taken() {
    for name in OF_AIPERF {
        for spelt in [name.to_owned(), name.replace('-', "_")] {
            let arguments = ["aiperf", "profile", "-m", "m", "--endpoint-type", &spelt];
            // A template requires a file.
            let extra = ["--extra-inputs", "payload_template:{}"];
            let extra = if name == "template" { &extra[..] } else { &[] };
            let arguments = arguments.iter().chain(extra).map(Into::into);
            let parsed = parse_with(arguments, Environment::new(&|_| None));
            assert!(parsed.is_ok(), "{spelt}: {}", parsed.err().unwrap());
        }
    }
}

/// Returns the request that a server receives.
fn request(below: &str, extra: &[&str]) -> String {
    let (sender, requests) = mpsc::channel();
    let address = raw_server::serve(move |_, stream| {
        if let Some(request) = raw_server::read_request(stream) {
            sender.send(request).unwrap();
            raw_server::write(stream, b"HTTP/1.1 500 No\r\ncontent-length: 0\r\n\r\n");
        }
    });
    let extra =
        [extra, &["--request-count", "1", "--api-key", "k3y", "--no-server-metrics"]].concat();
    profile(&format!("http://{address}{below}"), &extra);
    requests.recv().unwrap()
}

#[test]
fn requests_bear_the_path_and_the_headers_of_their_dialect() {
    let messages = request("", &["--endpoint-type", "messages", "--streaming"]);
    assert!(messages.starts_with("POST /v1/messages HTTP/1.1\r\n"), "{messages}");
    let head = messages.to_ascii_lowercase();
    assert!(head.contains("\r\nx-api-key: k3y\r\n"), "{messages}");
    assert!(head.contains("\r\nanthropic-version: 2023-06-01\r\n"), "{messages}");
    assert!(!head.contains("\r\nauthorization:"), "{messages}");

    for below in ["", "/v1beta", "/v1beta/"] {
        let gemini = request(below, &["--endpoint-type", "gemini", "--streaming"]);
        let line = "POST /v1beta/models/mock-model:streamGenerateContent?alt=sse HTTP/1.1\r\n";
        assert!(gemini.starts_with(line), "{gemini}");
        assert!(gemini.to_ascii_lowercase().contains("\r\nx-goog-api-key: k3y\r\n"), "{gemini}");
    }
    let whole = request("", &["--endpoint-type", "gemini"]);
    assert!(whole.starts_with("POST /v1beta/models/mock-model:generateContent "), "{whole}");
    let tgi = request("", &["--endpoint-type", "huggingface-generate", "--streaming"]);
    assert!(tgi.starts_with("POST /generate_stream HTTP/1.1\r\n"), "{tgi}");
}

/// Returns the row of a dialect in the page's table.
fn row(traits: &EndpointTraits) -> String {
    let code = |text: &str| format!("`{text}`");
    let says = |yes: bool| if yes { "yes" } else { "no" };
    let media = |kinds: MediaKinds| {
        let names = [
            (MediaKinds::IMAGE, "images"),
            (MediaKinds::AUDIO, "audio"),
            (MediaKinds::VIDEO, "video"),
        ];
        let of: Vec<_> =
            names.iter().filter(|(kind, _)| kinds.contains(*kind)).map(|(_, name)| *name).collect();
        if of.is_empty() { "none".to_owned() } else { of.join(", ") }
    };
    let mut row = format!("| {} | ", code(traits.name));
    row += &if traits.path.is_empty() { "none".to_owned() } else { code(traits.path) };
    if let Some(streaming) = traits.streaming_path {
        let _ = write!(row, ", streamed {}", code(streaming));
    }
    let _ =
        write!(row, " | {} | {} |", says(traits.supports_streaming), says(traits.produces_tokens));
    let _ = write!(row, " {} | {} |", media(traits.takes), media(traits.produces));
    let mut headers = vec![code(traits.api_key_header)];
    headers.extend(traits.headers.iter().map(|(name, value)| code(&format!("{name}: {value}"))));
    let _ = write!(row, " {} |", headers.join(", "));
    row
}

#[test]
fn the_page_has_every_dialect() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("docs/endpoints.md");
    let page = fs::read_to_string(path).unwrap();
    let table = page.split("| `--endpoint-type` |").nth(1).unwrap();
    let rows: Vec<&str> = table.lines().skip(2).take_while(|line| line.starts_with('|')).collect();
    let expected: Vec<String> = EndpointType::ALL.iter().map(|kind| row(kind.traits())).collect();
    for row in &expected {
        // The last cell describes the server's token counts.
        let usage = rows.iter().find_map(|line| line.strip_prefix(row.as_str()));
        let says_usage = usage.is_some_and(|cell| cell.trim_matches([' ', '|']).len() > 3);
        assert!(says_usage, "docs/endpoints.md lacks this row, and what usage is:\n{row} … |");
    }
    let in_order = rows.iter().zip(&expected).all(|(line, row)| line.starts_with(row.as_str()));
    assert!(in_order && rows.len() == expected.len(), "rows stand as in `EndpointType::ALL`");
    for kind in EndpointType::ALL {
        let heading = format!("`{}`", kind.traits().name);
        let described = page.lines().any(|line| line.starts_with('#') && line.contains(&heading));
        assert!(described, "docs/endpoints.md lacks a section on {heading}");
    }
}
