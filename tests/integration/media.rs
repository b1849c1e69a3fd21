//! Images, audio and videos in whole runs against the mock server.

use std::fs;
use std::path::Path;
use std::sync::{Arc, Mutex};

use base::units::Nanos;
use mock_server::{MockServer, Script};
use serde_json::Value;

use crate::support::load::{faulty, mock};
use crate::support::raw_server;
use crate::support::run::{Run, aiperf, profile};

/// Half a second of one channel of 8 bits at 8 kHz.
fn wav() -> Vec<u8> {
    let mut file = b"RIFF\xc4\x0f\0\0WAVEfmt \x10\0\0\0\x01\0\x01\0".to_vec();
    file.extend([8000u32.to_le_bytes(), 8000u32.to_le_bytes()].concat());
    file.extend(b"\x01\0\x08\0data\xa0\x0f\0\0");
    file.extend([128; 4000]);
    file
}

/// Creates a dataset of these lines, with the files `a.wav`, `a.png` and `a.txt`.
pub(crate) fn dataset(lines: &[&str]) -> tempfile::TempDir {
    let folder = tempfile::tempdir().unwrap();
    let put = |name: &str, bytes: &[u8]| fs::write(folder.path().join(name), bytes).unwrap();
    put("a.wav", &wav());
    put("a.png", b"\x89PNG\r\n\x1a\n....");
    put("a.txt", b"text");
    put("data.jsonl", lines.join("\n").as_bytes());
    folder
}

fn run_file(server: &MockServer, folder: &Path, extra: &[&str]) -> Run {
    let file = folder.join("data.jsonl");
    let arguments = [&["--input-file", file.to_str().unwrap()][..], extra].concat();
    profile(&server.url(), &arguments)
}

fn metric(record: &Value, tag: &str) -> Option<f64> {
    record["metrics"][tag]["value"].as_f64()
}

/// Returns the error of the only record.
fn only_error(run: &Run) -> (String, String, String) {
    let records = run.records();
    assert_eq!(records.len(), 1, "{}", run.stderr());
    let error = &records[0]["error"];
    let member = |name: &str| error[name].as_str().unwrap_or_default().to_owned();
    (member("type"), member("message"), member("error_type"))
}

#[test]
fn generated_images_and_sound_are_in_chats() {
    let server = mock(Script::default());
    let extra = [
        "--request-count",
        "4",
        "--random-seed",
        "7",
        "--image-width-mean",
        "16",
        "--image-height-mean",
        "8",
        "--image-batch-size",
        "2",
        "--image-format",
        "random",
        "--audio-length-mean",
        "0.25",
        "--audio-depths",
        "8,24",
        "--export-level",
        "raw",
    ];
    let run = profile(&server.url(), &extra);
    assert_eq!(run.exit_code(), Some(0), "{}", run.stderr());
    for record in run.records() {
        assert_eq!(metric(&record, "num_images"), Some(2.0));
        assert_eq!(metric(&record, "audio_duration"), Some(0.25));
        let seconds = metric(&record, "request_latency").unwrap() / 1e3;
        let near = |tag, expected: f64| {
            let value = metric(&record, tag).unwrap();
            assert!((value / expected - 1.0).abs() < 1e-9, "{tag}: {value}, not {expected}");
        };
        near("image_throughput", 2.0 / seconds);
        near("image_latency", seconds * 1e3 / 2.0);
        near("rtfx", 0.25 / seconds);
    }
    let again = profile(&server.url(), &extra);
    let bodies = |run: &Run| {
        let lines = run.text("profile_export_raw.jsonl");
        let body = |line: &str| serde_json::from_str::<Value>(line).unwrap()["payload"].clone();
        let mut bodies: Vec<String> = lines.lines().map(|line| body(line).to_string()).collect();
        bodies.sort();
        bodies
    };
    assert_eq!(bodies(&run), bodies(&again));
    let body: Value = serde_json::from_str(&bodies(&run)[0]).unwrap();
    let parts = body["messages"][0]["content"].as_array().unwrap();
    let kinds: Vec<_> = parts.iter().map(|part| part["type"].as_str().unwrap()).collect();
    assert_eq!(kinds, ["text", "image_url", "image_url", "input_audio"]);
    assert!(parts[1]["image_url"]["url"].as_str().unwrap().starts_with("data:image/"));
    assert_eq!(parts[3]["input_audio"]["format"], "wav");

    // The values from which summaries are computed are in the records' lines.
    let (before, directory) = (run.summary(), run.directory.path().to_str().unwrap());
    let report = aiperf(&["report", directory]).output().unwrap();
    assert!(report.status.success(), "{}", String::from_utf8_lossy(&report.stderr));
    let after = run.summary();
    for tag in ["num_images", "image_throughput", "image_latency", "audio_duration", "rtfx"] {
        assert!(before[tag]["avg"].is_number(), "{tag}");
        assert_eq!(before[tag], after[tag]);
    }
}

#[test]
fn files_are_transcribed() {
    let server = mock(Script::default());
    let folder = dataset(&[r#"{"audio": "a.wav"}"#]);
    for extra in [&[][..], &["--streaming"], &["--extra-inputs", "response_format:text"]] {
        let base = ["--endpoint-type", "audio_transcription", "--request-count", "2"];
        let run = run_file(&server, folder.path(), &[&base[..], extra].concat());
        assert_eq!(run.exit_code(), Some(0), "{}", run.stderr());
        for record in run.records() {
            assert_eq!(metric(&record, "audio_duration"), Some(0.5));
            let seconds = metric(&record, "request_latency").unwrap() / 1e3;
            assert!((metric(&record, "rtfx").unwrap() * seconds - 0.5).abs() < 1e-9);
            assert!(metric(&record, "output_sequence_length").unwrap() > 0.0);
            let is_streamed = metric(&record, "time_to_first_token").is_some();
            assert_eq!(is_streamed, extra == ["--streaming"]);
        }
    }
}

#[test]
fn images_are_generated_and_edited() {
    let server = mock(Script::default());
    let folder = dataset(&[r#"{"text": "paint it", "image": "a.png"}"#]);
    for streaming in [&[][..], &["--streaming"]] {
        let base = ["--endpoint-type", "image_generation", "--request-count", "2"];
        let run = profile(&server.url(), &[&base[..], streaming].concat());
        assert_eq!(run.exit_code(), Some(0), "{}", run.stderr());
        assert_eq!(run.summary()["request_count"]["avg"], 2.0);
        assert!(run.summary()["num_images"].is_null());

        let base = ["--endpoint-type", "image_edit", "--request-count", "2"];
        let run = run_file(&server, folder.path(), &[&base[..], streaming].concat());
        assert_eq!(run.exit_code(), Some(0), "{}", run.stderr());
        assert_eq!(run.summary()["num_images"]["avg"], 1.0);
    }
}

const VIDEO: &[&str] = &["--endpoint-type", "video_generation", "--request-count", "1"];

#[test]
fn videos_are_waited_for() {
    let server = mock(Script { ttft: Nanos(150_000_000), ..Script::default() });
    for download in [&[][..], &["--download-video-content"]] {
        let run = profile(&server.url(), &[VIDEO, download].concat());
        assert_eq!(run.exit_code(), Some(0), "{}", run.stderr());
        let record = &run.records()[0];
        // The mock server's job takes the time to the first token.
        assert_eq!(metric(record, "video_inference_time"), Some(150.0));
        assert_eq!(metric(record, "video_peak_memory"), Some(20_480.0));
        assert!(metric(record, "request_latency").unwrap() >= 150.0);
        let before = run.summary();
        let directory = run.directory.path().to_str().unwrap();
        assert!(aiperf(&["report", directory]).output().unwrap().status.success());
        for tag in ["video_inference_time", "video_peak_memory"] {
            assert_eq!(before[tag], run.summary()[tag]);
        }
    }
    // Polls of a job are not separate requests.
    assert_eq!(server.requests_received(), 2);
}

#[test]
fn video_jobs_that_come_to_nothing_are_records_that_name_them() {
    let failure = |fault: &str, extra: &[&str]| {
        let server = faulty(fault);
        only_error(&profile(&server.url(), &[VIDEO, extra].concat()))
    };
    let (name, message, _) = failure("all:job=failed", &[]);
    assert_eq!(name, "generation_failed");
    assert!(message.contains("job \"video_") && message.contains("fails this job"), "{message}");
    let (name, message, kind) = failure("all:job=odd", &[]);
    assert_eq!((&*name, &*kind), ("UnknownVideoJobStatus", "parse_error"));
    assert!(message.contains("\"daydreaming\""), "{message}");
    let (name, message, kind) = failure("all:job=never", &["--request-timeout-seconds", "0.5"]);
    assert_eq!((&*name, &*kind), ("RequestTimeout", "timeout"));
    assert!(message.contains("waiting for job video_"), "{message}");
    assert!(message.contains("which was in_progress"), "{message}");
    let (_, message, kind) = failure(
        "all:job=never",
        &["--request-cancellation-rate", "100", "--request-cancellation-delay", "0.3"],
    );
    assert_eq!(kind, "cancelled");
    assert!(message.contains("waiting for job video_"), "{message}");
    let (_, _, kind) = failure("all:status=503", &[]);
    assert_eq!(kind, "http_5xx");
}

#[test]
fn bad_media_are_refused_before_the_run() {
    let server = mock(Script::default());
    let refusal = |line: &str, extra: &[&str]| {
        let folder = dataset(&[r#"{"text": "fine"}"#, line]);
        let run = run_file(&server, folder.path(), &[&["--request-count", "1"], extra].concat());
        assert_ne!(run.exit_code(), Some(0), "{line}");
        run.stderr()
    };
    let cases: [(&str, &[&str], &str); 9] = [
        (r#"{"image": "none.png"}"#, &[], "line 2: cannot read image"),
        (r#"{"image": "."}"#, &[], "not a file"),
        (r#"{"image": "a.txt"}"#, &[], "a.txt do not match any image format"),
        (r#"{"audio": "a.png"}"#, &[], "a.png do not match any audio format"),
        (
            r#"{"text": "a", "image": "a.png"}"#,
            &["--endpoint-type", "completions"],
            "turn 1 of conversation 2 of the dataset: it has image, but completions supports only text",
        ),
        (
            r#"{"audio": "http://x/a.wav"}"#,
            &["--endpoint-type", "audio_transcription"],
            "turn 1 of conversation 1 of the dataset: audio_transcription requires audio",
        ),
        (r#"{"text": "a"}"#, &["--endpoint-type", "image_edit"], "image_edit requires image"),
        (
            r#"{"text": "a"}"#,
            &["--audio-length-mean", "8"],
            "--audio-length-mean: applies to generated prompts and cannot be combined with --input-file",
        ),
        (
            r#"{"text": "a"}"#,
            &["--request-content-type", "multipart/form-data"],
            "chat requests are always application/json",
        ),
    ];
    for (line, extra, words) in cases {
        let said = refusal(line, extra);
        assert!(said.contains(words), "{line} {extra:?}: {said}");
    }
    assert_eq!(server.requests_received(), 0);
}

#[test]
fn flags_of_media_that_nothing_is_made_of_are_refused() {
    let refusal = |extra: &[&str]| {
        let run = profile("http://127.0.0.1:1", extra);
        assert_ne!(run.exit_code(), Some(0), "{extra:?}");
        run.stderr()
    };
    for (extra, words) in [
        (&["--image-width-mean", "8"][..], "also require:\n  --image-height-mean"),
        (
            &["--image-batch-size", "2"],
            "also require:\n  <--image-width-mean <PIXELS>|--image-source <SOURCE>>",
        ),
        (
            &["--image-width-mean", "8", "--image-height-mean", "8", "--image-source", "assets"],
            "aiperf includes no pictures",
        ),
        (&["--audio-format", "mp3"], "also require:\n  --audio-length-mean"),
        (&["--audio-depths", "8"], "also require:\n  --audio-length-mean"),
        (&["--audio-length-mean", "1", "--audio-depths", "12"], "8, 16, 24 or 32 bits"),
        (&["--video-width", "640"], "also require:\n  --video-height"),
        (&["--video-fps", "8"], "also require:\n  --video-height <PIXELS>\n  --video-width"),
        (
            &["--video-width", "641", "--video-height", "480"],
            "--video-width: must be even, got 641",
        ),
        (&["--video-fps", "0"], "must be at least 1"),
        (&["--video-duration", "nan"], "must be a finite number"),
        (
            &["--video-width", "64", "--video-height", "64", "--video-audio-depth", "8"],
            "also require:\n  --video-audio-num-channels",
        ),
        (
            &["--endpoint-type", "responses", "--video-width", "64", "--video-height", "64"],
            "--video-width: responses does not support videos",
        ),
        (
            &["--image-width-mean", "99999", "--image-height-mean", "8"],
            "width and height must be at most",
        ),
    ] {
        let said = refusal(extra);
        assert!(said.contains(words), "{extra:?}: {said}");
    }
}

/// Responds to each chat with a text, and stores its body.
fn logging() -> (String, Arc<Mutex<Vec<String>>>) {
    let bodies = Arc::new(Mutex::new(Vec::new()));
    let log = Arc::clone(&bodies);
    let address = raw_server::serve(move |_, stream| {
        while let Some(request) = raw_server::read_request(stream) {
            let (head, body) = request.split_once("\r\n\r\n").unwrap();
            if head.starts_with("POST ") {
                log.lock().unwrap().push(body.to_owned());
            }
            let answer = r#"{"choices":[{"index":0,"message":{"content":"yes"}}]}"#;
            let head = format!("HTTP/1.1 200 OK\r\ncontent-length: {}\r\n\r\n", answer.len());
            raw_server::write(stream, (head + answer).as_bytes());
        }
    });
    (format!("http://{address}"), bodies)
}

/// The parts without bytes are those of vLLM's documentation of cached media.
#[test]
fn images_that_the_server_has_cached_are_sent_as_their_uuids() {
    let lines = [
        r#"{"session_id": "s", "text": "one", "images": ["a.png"], "image_uuids": ["u"]}"#,
        r#"{"session_id": "s", "text": "two", "images": ["a.png"], "image_uuids": ["u"]}"#,
        r#"{"session_id": "t", "text": "three", "images": ["a.png"], "image_uuids": ["u"]}"#,
        r#"{"text": "four", "image_uuids": ["u"]}"#,
    ];
    let folder = dataset(&lines);
    let sent = |extra: &[&str]| {
        let (url, bodies) = logging();
        let file = folder.path().join("data.jsonl");
        let file = ["--input-file", file.to_str().unwrap(), "--endpoint-type", "chat"];
        let run = profile(&url, &[&file[..], &["--request-count", "4"], extra].concat());
        assert_eq!(run.exit_code(), Some(0), "{}", run.stderr());
        assert!(run.records().iter().all(|record| metric(record, "num_images") == Some(1.0)));
        let config = run.summary()["input_config"]["endpoint"]["uuid_and_strip"].as_bool();
        assert_eq!(config, (!extra.is_empty()).then_some(true));
        bodies.lock().unwrap().clone()
    };
    let bytes = r#"{"url":"data:image/png;base64,iVBORw0KGgouLi4u"}"#;
    let body = |text: &str, image: &str| {
        format!(
            r#"{{"messages":[{{"role":"user","content":[{{"type":"text","text":"{text}"}},{{"type":"image_url","image_url":{image},"uuid":"u"}}]}}],"model":"mock-model","stream":false}}"#
        )
    };
    let four = body("four", "null");
    let whole = [body("one", bytes), body("two", bytes), body("three", bytes), four.clone()];
    assert_eq!(sent(&[]), whole);
    let stripped = [body("one", bytes), body("two", "null"), body("three", bytes), four];
    assert_eq!(sent(&["--uuid-and-strip"]), stripped);

    let refused = |endpoint: &str, lines: &[&str]| {
        let folder = dataset(lines);
        let extra = ["--uuid-and-strip", "--endpoint-type", endpoint];
        let run = run_file(&mock(Script::default()), folder.path(), &extra);
        // An option that does not fit the endpoint type exits with 1, as in AIPerf.
        let code = if endpoint == "chat" { 2 } else { 1 };
        assert_eq!(run.exit_code(), Some(code), "{}", run.stderr());
        run.stderr()
    };
    assert!(refused("responses", &lines).contains("requests do not have UUIDs of images"));
    let conversation =
        format!(r#"{{"turns": [{0}, {0}]}}"#, r#"{"images": ["a.png"], "image_uuids": ["u"]}"#);
    assert!(refused("chat", &[&conversation]).contains("use a single_turn file"));
    assert!(refused("chat", &[r#"{"text": "a"}"#]).contains("no image of the dataset has a UUID"));
}

/// The pictures are sent as they are: these have nothing of a PNG file but its first bytes.
#[test]
fn pictures_of_a_directory_are_in_generated_prompts() {
    let folder = tempfile::tempdir().unwrap();
    for name in ["1", "2", "3"] {
        let bytes = [b"\x89PNG\r\n\x1a\n", name.as_bytes()].concat();
        fs::write(folder.path().join(format!("{name}.png")), bytes).unwrap();
    }
    let (url, bodies) = logging();
    let source = folder.path().to_str().unwrap();
    let flags = ["--endpoint-type", "chat", "--request-count", "2", "--image-source", source];
    let sequential = ["--image-batch-size", "2", "--image-source-sampling", "sequential-cycle"];
    let run = profile(&url, &[&flags[..], &sequential].concat());
    assert_eq!(run.exit_code(), Some(0), "{}", run.stderr());
    let images = |body: &String| -> Vec<String> {
        let body: Value = serde_json::from_str(body).unwrap();
        let parts = body["messages"][0]["content"].as_array().unwrap().iter();
        let urls = parts.filter_map(|part| part["image_url"]["url"].as_str());
        urls.map(str::to_owned).collect()
    };
    // The base64 of "\x89PNG\r\n\x1a\n1" and so on.
    let [one, two, three] = ["iVBORw0KGgox", "iVBORw0KGgoy", "iVBORw0KGgoz"]
        .map(|it| format!("data:image/png;base64,{it}"));
    let sent: Vec<Vec<String>> = bodies.lock().unwrap().iter().map(images).collect();
    assert_eq!(sent, [[one.clone(), two], [three, one]]);
    assert!(run.records().iter().all(|record| metric(record, "num_images") == Some(2.0)));
    let config = &run.summary()["input_config"]["datasets"][0]["images"];
    assert_eq!(
        (&config["source"], &config["source_sampling"]),
        (&source.into(), &"sequential_cycle".into())
    );

    let refused = |extra: &[&str]| {
        let run = profile(&url, &[&["--endpoint-type", "chat"][..], extra].concat());
        assert_ne!(run.exit_code(), Some(0));
        run.stderr()
    };
    let sampling = ["--image-source-sampling", "shuffle-cycle"];
    assert!(refused(&sampling).contains("name one with --image-source"));
    assert!(refused(&["--image-source", "noise"]).contains("noise requires --image-width-mean"));
    let empty = tempfile::tempdir().unwrap();
    let empty = ["--image-source", empty.path().to_str().unwrap()];
    assert!(refused(&empty).contains("does not contain pictures"));
}

/// Responds to the first request with a job and to all later ones with `later`.
fn job_then(later: &'static str) -> String {
    let job = r#"{"id":"job/1","status":"queued"}"#;
    let answer = move |status: &str, body: &str| {
        let length = body.len();
        format!("HTTP/1.1 {status}\r\ncontent-length: {length}\r\n\r\n{body}")
    };
    let download = answer("200 OK", "<html>no video</html>");
    let address = raw_server::serve(move |_, stream| {
        while let Some(request) = raw_server::read_request(stream) {
            let text = if request.starts_with("POST /v1/videos HTTP") {
                answer("200 OK", job)
            } else if request.starts_with("GET /v1/videos/job%2F1 HTTP") {
                later.to_owned()
            } else if request.starts_with("GET /v1/videos/job%2F1/content HTTP") {
                download.clone()
            } else {
                answer("400 Bad Request", "the path is another")
            };
            raw_server::write(stream, text.as_bytes());
            if text.is_empty() {
                return;
            }
        }
    });
    format!("http://{address}")
}

#[test]
fn a_look_at_a_job_that_fails_is_the_requests_failure() {
    let failure = |later| only_error(&profile(&job_then(later), VIDEO));
    let (name, message, kind) = failure("HTTP/1.1 500 Oh No\r\ncontent-length: 4\r\n\r\ngone");
    let waited = "while waiting for job job/1, which was queued: ";
    assert_eq!((&*name, &*message, &*kind), ("Oh No", &*format!("{waited}gone"), "http_5xx"));
    let (name, message, _) = failure(
        "HTTP/1.1 200 OK\r\ncontent-length: 33\r\n\r\n{\"id\":\"job/2\",\"status\":\"queued\"} ",
    );
    assert_eq!(name, "OtherVideoJob");
    assert!(message.ends_with("got job \"job/2\""), "{message}");
    let (_, message, _) = failure("");
    assert!(message.contains("while waiting for job job/1, which was queued"), "{message}");
    let (name, _, kind) = failure("HTTP/1.1 200 OK\r\ncontent-length: 4\r\n\r\n{\"id");
    assert_eq!((&*name, &*kind), ("InvalidJson", "parse_error"));
}

#[test]
fn a_download_that_is_not_a_video_is_a_failure() {
    let done =
        "HTTP/1.1 200 OK\r\ncontent-length: 35\r\n\r\n{\"id\":\"job/1\",\"status\":\"completed\"}";
    let run = profile(&job_then(done), &[VIDEO, &["--download-video-content"]].concat());
    let (name, message, kind) = only_error(&run);
    assert_eq!((&*name, &*kind), ("NoVideo", "parse_error"));
    assert_eq!(
        message,
        "while waiting for the video of job job/1: received 21 bytes that are not a video"
    );
    let run = profile(&job_then(done), VIDEO).succeeded();
    assert_eq!(run.summary()["request_count"]["avg"], 1.0);
}

#[test]
fn credentials_of_media_stay_out_of_files() {
    let server = mock(Script::default());
    let line = r#"{"text":"a","image":"https://user:hunter2@example.com/a.png?sig=s1gned&w=2"}"#;
    let folder = dataset(&[line, r#"{"text":"b"}"#]);
    let extra = ["--export-level", "raw", "--export-http-trace", "--request-count", "2"];
    let run = run_file(&server, folder.path(), &extra).succeeded();
    let files = ["inputs.json", "profile_export_raw.jsonl", "profile_export.jsonl"];
    for name in files.iter().chain(&["profile_export_aiperf.json", "logs/aiperf.log"]) {
        let text = run.text(name);
        assert!(!text.contains("hunter2") && !text.contains("s1gned"), "{name}: {text}");
    }
    for name in &files[..2] {
        assert!(run.text(name).contains("https://redacted@example.com/a.png?sig=redacted&w=2"));
    }
    // The error for an invalid URL does not contain secrets either.
    let folder = dataset(&[r#"{"text":"a","image":"https://user:hunter2@example.com:99999/"}"#]);
    let refused = run_file(&server, folder.path(), &["--request-count", "1"]);
    assert_eq!(refused.exit_code(), Some(2));
    assert!(refused.stderr().contains("is not a valid URL"), "{}", refused.stderr());
    assert!(!refused.stderr().contains("hunter2"), "{}", refused.stderr());
}
