//! Embeddings, image retrieval and retrieval-augmented generation in whole runs against the mock
//! server.

use std::fs;

use client::endpoint::EndpointType;
use mock_server::Script;
use serde_json::{Value, json};

use crate::support::load::{faulty, mock};
use crate::support::raw_server;
use crate::support::run::{Run, profile};

/// Flags for one generated image per request.
const IMAGES: &[&str] = &["--image-width-mean", "8", "--image-height-mean", "8"];

fn arguments<'a>(kind: EndpointType, extra: &[&'a str]) -> Vec<&'a str> {
    let common = ["--endpoint-type", kind.traits().name, "--export-level", "raw"];
    [&common[..], extra].concat()
}

/// Returns the bodies of all requests.
fn payloads(run: &Run) -> Vec<Value> {
    let lines = run.text("profile_export_raw.jsonl");
    let payload = |line: &str| serde_json::from_str::<Value>(line).unwrap()["payload"].clone();
    lines.lines().map(payload).collect()
}

fn is_png(value: &Value) -> bool {
    value.as_str().unwrap().starts_with("data:image/png;base64,")
}

fn average(summary: &Value, tag: &str) -> Option<f64> {
    summary[tag]["avg"].as_f64()
}

#[test]
fn messages_with_images_are_embedded() {
    let server = mock(Script::default());
    let images = [IMAGES, &["--image-batch-size", "2", "--request-count", "4"]].concat();
    let run = profile(&server.url(), &arguments(EndpointType::CHAT_EMBEDDINGS, &images));
    let run = run.succeeded();
    assert!(run.text("profile_export_console.txt").contains("Embeddings Metrics"));
    let summary = run.summary();
    for (tag, expected) in [
        ("request_count", Some(4.0)),
        ("num_images", Some(2.0)),
        ("input_sequence_length", Some(20.0)),
        ("usage_prompt_tokens", Some(20.0)),
        ("output_sequence_length", None),
    ] {
        assert_eq!(average(&summary, tag), expected, "{tag}");
    }
    for sent in payloads(&run) {
        let members: Vec<_> = sent.as_object().unwrap().keys().collect();
        assert_eq!(members, ["messages", "model"]);
        let parts = sent["messages"][0]["content"].as_array().unwrap();
        assert_eq!(parts[0]["type"], "text");
        assert!(is_png(&parts[1]["image_url"]["url"]) && is_png(&parts[2]["image_url"]["url"]));
    }
    assert!(server.write_log().iter().all(|log| log.path == "/v1/embeddings"));
}

#[test]
fn messages_of_a_file_and_of_earlier_turns_are_embedded() {
    let server = mock(Script::default());
    let turns = ["--num-sessions", "1", "--session-turns-mean", "2", "--system-prompt", "be brief"];
    let run = profile(&server.url(), &arguments(EndpointType::CHAT_EMBEDDINGS, &turns));
    let run = run.succeeded();
    let mut lengths: Vec<_> =
        payloads(&run).iter().map(|sent| sent["messages"].as_array().unwrap().len()).collect();
    lengths.sort_unstable();
    // The system prompt and one or two turns: the response does not contain text to repeat.
    assert_eq!(lengths, [2, 3]);
    for record in run.records() {
        let value = |tag: &str| record["metrics"][tag]["value"].clone();
        assert_eq!(value("input_sequence_length"), value("usage_prompt_tokens"));
    }

    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("data.jsonl");
    let messages = json!([{"role": "user", "content": "as it is"}]);
    fs::write(&file, json!({"messages": messages}).to_string()).unwrap();
    let extra = ["--input-file", file.to_str().unwrap(), "--request-count", "1"];
    let run = profile(&server.url(), &arguments(EndpointType::CHAT_EMBEDDINGS, &extra));
    assert_eq!(payloads(&run.succeeded())[0]["messages"], messages);
}

#[test]
fn texts_and_images_are_embedded_by_nim() {
    let server = mock(Script::default());
    let pairs = [
        IMAGES,
        &["--batch-size", "2", "--image-batch-size", "2", "--request-count", "3"],
        &["--extra-inputs", "input_type:passage", "--extra-inputs", "modality:text_image"],
    ]
    .concat();
    let run = profile(&server.url(), &arguments(EndpointType::NIM_EMBEDDINGS, &pairs));
    let run = run.succeeded();
    assert!(run.text("profile_export_console.txt").contains("NIM Embeddings Metrics"));
    let summary = run.summary();
    for (tag, expected) in [
        ("num_images", Some(2.0)),
        ("input_sequence_length", Some(40.0)),
        ("usage_prompt_tokens", Some(40.0)),
        ("time_to_first_token", None),
    ] {
        assert_eq!(average(&summary, tag), expected, "{tag}");
    }
    assert!(average(&summary, "image_throughput").unwrap() > 0.0);
    for sent in payloads(&run) {
        let inputs = sent["input"].as_array().unwrap();
        assert_eq!(inputs.len(), 2);
        assert!(inputs.iter().all(|input| input.as_str().unwrap().contains(" data:image/png;")));
        assert_eq!(
            (&sent["input_type"], &sent["modality"]),
            (&json!("passage"), &json!("text_image"))
        );
    }

    // A request that the server rejects has a record with its message.
    let query = [IMAGES, &["--request-count", "1", "--extra-inputs", "input_type:query"]].concat();
    let run = profile(&server.url(), &arguments(EndpointType::NIM_EMBEDDINGS, &query));
    let error = run.records()[0]["error"].clone();
    assert_eq!(error["code"], 400, "{error}");
    assert!(error["message"].as_str().unwrap().contains("not as queries"), "{error}");
}

#[test]
fn what_is_in_images_is_found() {
    let server = mock(Script::default());
    let images = [IMAGES, &["--image-batch-size", "3", "--request-count", "4"]].concat();
    let run = profile(&server.url(), &arguments(EndpointType::IMAGE_RETRIEVAL, &images));
    let run = run.succeeded();
    assert!(run.text("profile_export_console.txt").contains("Image Retrieval Metrics"));
    let summary = run.summary();
    assert_eq!(average(&summary, "num_images"), Some(3.0));
    for tag in ["input_sequence_length", "output_sequence_length", "usage_prompt_tokens"] {
        assert!(summary[tag].is_null(), "{tag}");
    }
    for record in run.records() {
        let value = |tag: &str| record["metrics"][tag]["value"].as_f64().unwrap();
        let latency_ms = value("request_latency");
        assert!((value("image_latency") * 3.0 / latency_ms - 1.0).abs() < 1e-9);
        assert!((value("image_throughput") * latency_ms / 3e3 - 1.0).abs() < 1e-9);
    }
    for sent in payloads(&run) {
        assert_eq!(sent.as_object().unwrap().len(), 1);
        let images = sent["input"].as_array().unwrap();
        assert_eq!(images.len(), 3);
        assert!(images.iter().all(|image| image["type"] == "image_url" && is_png(&image["url"])));
    }
    assert!(server.write_log().iter().all(|log| log.path == "/v1/infer"));

    let path = [IMAGES, &["--request-count", "1", "--endpoint", "/v1/page-elements"]].concat();
    profile(&server.url(), &arguments(EndpointType::IMAGE_RETRIEVAL, &path)).succeeded();
}

#[test]
fn no_tokenizer_is_named_where_no_token_is_counted() {
    let server = mock(Script::default());
    let names_tokenizer = |kind: EndpointType| {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().to_str().unwrap();
        let name = kind.traits().name;
        let given =
            ["profile", "--model", "org/of-no-machine", "--url", &server.url()].map(str::to_owned);
        let rest = ["--endpoint-type", name, "--request-count", "1", "--artifact-dir", path];
        let output = crate::support::run::aiperf(&given.each_ref().map(String::as_str))
            .args(IMAGES)
            .args(rest)
            .output()
            .unwrap();
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        String::from_utf8_lossy(&output.stdout).contains("built-in tokenizer")
    };
    assert!(!names_tokenizer(EndpointType::IMAGE_RETRIEVAL));
    assert!(names_tokenizer(EndpointType::NIM_EMBEDDINGS));
}

#[test]
fn answers_by_retrieval_are_measured_whole_and_streamed() {
    let solido = EndpointType::SOLIDO_RAG;
    let server = mock(Script { output_tokens: 6, ..Script::default() });
    for stream in [&[][..], &["--streaming", "--extra-inputs", "stream:true"]] {
        let extra = [&["--request-count", "3"], stream].concat();
        let run = profile(&server.url(), &arguments(solido, &extra)).succeeded();
        assert!(run.text("profile_export_console.txt").contains("SOLIDO RAG Metrics"));
        let summary = run.summary();
        let (tokens, first) = ("output_sequence_length", "time_to_first_token");
        assert_eq!(average(&summary, "input_sequence_length"), Some(20.0));
        assert_eq!(average(&summary, tokens), Some(6.0));
        assert_eq!(average(&summary, first).is_some(), !stream.is_empty());
        for sent in payloads(&run) {
            assert_eq!(sent["query"].as_array().unwrap().len(), 1);
            assert_eq!(sent["filters"], json!({"family": "Solido", "tool": "SDE"}));
            assert_eq!(sent["inference_model"], "mock-model");
        }
    }
    assert!(server.write_log().iter().all(|log| log.path == "/rag/api/prompt"));
    for fault in ["every=2:status=503", "every=2:error=1", "every=2:cut=1", "every=2:garbage=1"] {
        let server = faulty(fault);
        let extra = ["--request-count", "4", "--streaming", "--extra-inputs", "stream:true"];
        let summary = profile(&server.url(), &arguments(solido, &extra)).succeeded().summary();
        assert_eq!(average(&summary, "request_count"), Some(2.0), "{fault}");
        assert_eq!(average(&summary, "error_request_count"), Some(2.0), "{fault}");
    }
}

/// Returns the error of the only request to a server that returns this response.
fn failure(kind: EndpointType, status: &str, body: &'static str) -> Value {
    let head = format!("HTTP/1.1 {status}\r\ncontent-type: application/json\r\n");
    let address = raw_server::serve(move |_, stream| {
        while raw_server::read_request(stream).is_some() {
            let answer = format!("{head}content-length: {}\r\n\r\n{body}", body.len());
            raw_server::write(stream, answer.as_bytes());
        }
    });
    let extra = [IMAGES, &["--request-count", "1", "--no-server-metrics"]].concat();
    let extra = if kind == EndpointType::SOLIDO_RAG { extra[4..].to_vec() } else { extra };
    let run = profile(&format!("http://{address}"), &arguments(kind, &extra));
    run.records()[0]["error"].clone()
}

#[test]
fn empty_answers_and_errors_are_records() {
    use EndpointType as Type;

    let kinds =
        [Type::CHAT_EMBEDDINGS, Type::NIM_EMBEDDINGS, Type::IMAGE_RETRIEVAL, Type::SOLIDO_RAG];
    for kind in kinds {
        let name = kind.traits().name;
        for empty in ["{}", r#"{"data":[],"content":""}"#] {
            let error = failure(kind, "200 OK", empty);
            assert_eq!(error["type"], "EmptyResponse", "{name}");
        }
        assert_eq!(failure(kind, "200 OK", r#"{"data""#)["type"], "InvalidJson", "{name}");
        let refused = r#"{"error":"'input_type' parameter is required for asymmetric models"}"#;
        let error = failure(kind, "400 Bad Request", refused);
        assert_eq!(
            (&error["type"], &error["code"]),
            (&json!("Bad Request"), &json!(400)),
            "{name}"
        );
        assert!(error["message"].as_str().unwrap().contains("input_type"), "{name}");
        assert!(
            failure(kind, "200 OK", refused)["message"].as_str().unwrap().contains("input_type")
        );
    }
}

#[test]
fn datasets_that_do_not_fit_are_refused_before_the_run() {
    let server = mock(Script::default());
    let folder = tempfile::tempdir().unwrap();
    fs::write(folder.path().join("a.png"), b"\x89PNG\r\n\x1a\n....").unwrap();
    let refusal = |kind: EndpointType, line: &str| {
        let file = folder.path().join("data.jsonl");
        fs::write(&file, line).unwrap();
        let extra = ["--input-file", file.to_str().unwrap(), "--request-count", "1"];
        let run = profile(&server.url(), &arguments(kind, &extra));
        assert_ne!(run.exit_code(), Some(0), "{line}");
        run.stderr()
    };
    let by_url = r#"{"image": "http://127.0.0.1:1/a.png"}"#;
    for (kind, line, words) in [
        (EndpointType::IMAGE_RETRIEVAL, r#"{"text": "a"}"#, "image_retrieval requires image"),
        (
            EndpointType::IMAGE_RETRIEVAL,
            by_url,
            "cannot download the image http://127.0.0.1:1/a.png",
        ),
        (EndpointType::NIM_EMBEDDINGS, by_url, "use a file instead"),
        (
            EndpointType::NIM_EMBEDDINGS,
            r#"{"text": "a", "images": ["a.png", "a.png"]}"#,
            "there are 1 texts and 2 images",
        ),
        (
            EndpointType::NIM_EMBEDDINGS,
            r#"{"video": "http://x/a.mp4"}"#,
            "nim_embeddings supports image in addition to text",
        ),
        (EndpointType::SOLIDO_RAG, by_url, "solido_rag supports only text"),
        (
            EndpointType::NIM_EMBEDDINGS,
            r#"{"messages": [{"role": "user", "content": "a"}]}"#,
            "which only chat and chat_embeddings support",
        ),
    ] {
        let said = refusal(kind, line);
        assert!(said.contains(words), "{line}: {said}");
    }
    let streamed =
        profile(&server.url(), &arguments(EndpointType::IMAGE_RETRIEVAL, &["--streaming"]));
    assert!(streamed.stderr().contains("does not support streaming"), "{}", streamed.stderr());
    let generated = profile(&server.url(), &arguments(EndpointType::IMAGE_RETRIEVAL, &[]));
    assert!(generated.stderr().contains("requires image"), "{}", generated.stderr());
    assert_eq!(server.requests_received(), 0);
}

/// The smallest PNG: one grey pixel.
const PIXEL: &[u8] =
    b"\x89PNG\r\n\x1a\n\0\0\0\rIHDR\0\0\0\x01\0\0\0\x01\x08\0\0\0\0:~\x9bU\0\0\0\n\
    IDATx\x9cc`\0\0\0\x02\0\x01H\xaf\xa4q\0\0\0\0IEND\xaeB`\x82";

#[test]
fn images_named_by_url_are_downloaded_once_for_an_endpoint_that_takes_files() {
    let visits = std::sync::Arc::new(std::sync::atomic::AtomicUsize::new(0));
    let counted = std::sync::Arc::clone(&visits);
    let host = crate::support::raw_server::serve(move |_, stream| {
        while let Some(request) = crate::support::raw_server::read_request(stream) {
            assert!(!request.to_ascii_lowercase().contains("k3y"), "a key left the host");
            counted.fetch_add(1, std::sync::atomic::Ordering::SeqCst);
            let found = !request.contains("missing");
            let (line, body) = if found { ("200 OK", PIXEL) } else { ("404 Not Found", &[][..]) };
            let head = format!("HTTP/1.1 {line}\r\ncontent-length: {}\r\n\r\n", body.len());
            crate::support::raw_server::write(stream, &[head.as_bytes(), body].concat());
        }
    });
    let server = mock(Script::default());
    let directory = tempfile::tempdir().unwrap();
    let run = |name: &str| {
        let file = directory.path().join("images.jsonl");
        let line = format!("{{\"image\": \"http://{host}/{name}.png\"}}\n");
        std::fs::write(&file, line.repeat(3)).unwrap();
        let input = ["--input-file", file.to_str().unwrap(), "--api-key", "k3y"];
        profile(&server.url(), &arguments(EndpointType::IMAGE_RETRIEVAL, &input))
    };
    let done = run("pixel").succeeded();
    assert_eq!(visits.load(std::sync::atomic::Ordering::SeqCst), 1);
    for sent in payloads(&done) {
        assert!(is_png(&sent["input"][0]["url"]), "{sent}");
    }
    let missing = run("missing");
    assert_eq!(missing.exit_code(), Some(1));
    assert!(missing.stderr().contains("returned status 404"), "{}", missing.stderr());
    assert!(missing.stderr().contains("use a file instead"), "{}", missing.stderr());
}
