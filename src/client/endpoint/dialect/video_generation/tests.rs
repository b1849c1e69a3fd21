use proptest::prelude::*;
use serde_json::{Value, json};

use base::units::Nanos;

use crate::endpoint::fixture::{config, conversation, endpoint, piece, whole};
use crate::endpoint::{EndpointType, NextStep, ParsedResponse, VideoJobs, build};

const VIDEO: EndpointType = EndpointType::VIDEO_GENERATION;

fn job(status: &str) -> Value {
    json!({"id": "video_1", "object": "video", "model": "m", "status": status, "progress": 0,
           "created_at": 1, "size": "1280x720", "seconds": "4", "error": null})
}

fn read(job: &Value) -> ParsedResponse {
    endpoint(VIDEO).parse(&whole(job.to_string().as_bytes()))
}

fn next(job: &Value, download: bool) -> Option<NextStep> {
    let mut config = config(VIDEO, false);
    config.video = VideoJobs { poll_interval: Nanos(7), download };
    build(&config).next_step(None, &whole(job.to_string().as_bytes())).unwrap()
}

#[test]
fn another_job_is_not_an_answer() {
    let asked = next(&job("queued"), false);
    let told = |job: &Value| {
        let body = whole(job.to_string().as_bytes());
        endpoint(VIDEO).next_step(asked.as_ref(), &body)
    };
    assert!(told(&job("completed")).unwrap().is_none());
    let mut other = job("completed");
    other["id"] = "video_2".into();
    let error = told(&other).unwrap_err();
    assert_eq!(error.name, "OtherVideoJob");
    assert_eq!(error.message, "expected job video_1, which was queued, got job \"video_2\"");
}

#[test]
fn a_request_bears_its_prompt_and_the_extras() {
    let mut config = config(VIDEO, false);
    config.extra_inputs = vec![("seconds".to_owned(), json!(4))];
    let mut conversation = conversation();
    (conversation.system, conversation.user_context) = (None, None);
    let body = build(&config).request_body(&conversation, 1, &[]);
    let body = String::from_utf8(body).unwrap();
    assert!(body.contains("name=\"prompt\"\r\n\r\ntwo\r\n"));
    assert!(body.contains("name=\"model\"\r\n\r\nm\r\n"));
    assert!(body.contains("name=\"seconds\"\r\n\r\n4\r\n"));
}

#[test]
fn a_job_is_asked_after_until_it_is_done() {
    for status in ["queued", "in_progress", "processing"] {
        let step = next(&job(status), false).unwrap();
        assert_eq!((step.after, &*step.suffix, step.is_download), (Nanos(7), "/video%5F1", false));
        assert!(step.waits_for.ends_with(&format!("which was {status}")));
    }
    for status in ["completed", "failed", "cancelled", "", "odd"] {
        assert_eq!(next(&job(status), false), None, "{status}");
    }
    let download = next(&job("completed"), true).unwrap();
    assert_eq!(
        (download.after, &*download.suffix, download.is_download),
        (Nanos::ZERO, "/video%5F1/content", true)
    );
    assert_eq!(next(&job("failed"), true), None);
}

#[test]
fn identifiers_cannot_change_the_path() {
    let mut odd = job("queued");
    odd["id"] = "../x?y\r\nz/ä".into();
    let suffix = next(&odd, false).unwrap().suffix;
    assert!(suffix.bytes().skip(1).all(|b| b.is_ascii_alphanumeric() || b == b'%'), "{suffix}");
    odd["id"] = "x".repeat(2000).into();
    assert_eq!(next(&odd, false), None);
    assert_eq!(read(&odd).error.unwrap().name, "NoVideoJob");
    odd["id"] = Value::Null;
    assert_eq!(next(&odd, false), None);
    assert_eq!(read(&odd).error.unwrap().name, "NoVideoJob");
}

#[test]
fn a_complete_job_is_content_and_says_what_it_took() {
    let mut done = job("completed");
    done["inference_time_s"] = 12.5.into();
    done["peak_memory_mb"] = 20480.into();
    let parsed = read(&done);
    assert_eq!((parsed.error, parsed.content), (None, vec![piece(9, true)]));
    assert_eq!(
        (parsed.inference_seconds, parsed.peak_memory_megabytes),
        (Some(12.5), Some(20480.0))
    );
    assert_eq!(parsed.model.as_deref(), Some("m"));
    let parsed = read(&job("completed"));
    assert_eq!((parsed.inference_seconds, parsed.peak_memory_megabytes), (None, None));
    for odd in [json!("fast"), json!(-1), Value::Null] {
        done["inference_time_s"] = odd;
        assert_eq!(read(&done).inference_seconds, None);
    }
}

#[test]
fn a_job_that_comes_to_nothing_is_a_failure_that_names_it() {
    let mut failed = job("failed");
    let error = read(&failed).error.unwrap();
    assert_eq!(error.name, "VideoJobFailed");
    assert!(error.message.contains("\"video_1\" is failed"), "{}", error.message);
    failed["error"] = json!({"code": "moderation", "message": "not this"});
    let error = read(&failed).error.unwrap();
    assert_eq!((&*error.name, &*error.message), ("moderation", "job \"video_1\": not this"));
    let error = read(&job("dreaming")).error.unwrap();
    assert_eq!(error.name, "UnknownVideoJobStatus");
    assert!(error.message.contains("\"dreaming\""), "{}", error.message);
    assert_eq!(read(&job("queued")).error.unwrap().name, "VideoJobNotDone");
    assert_eq!(read(&json!({"message": "down", "type": "Busy"})).error.unwrap().name, "Busy");
    assert_eq!(endpoint(VIDEO).parse(&whole(b"{")).error.unwrap().kind.as_str(), "parse_error");
}

proptest! {
    #[test]
    fn no_bytes_panic(bytes: Vec<u8>, shaped in r#"\{"(id|status|error|inference_time_s)":[\[\]{}",a-z0-9.e-]{0,12}\}"#) {
        for bytes in [&bytes[..], shaped.as_bytes()] {
            let body = whole(bytes);
            let _ = endpoint(VIDEO).parse(&body);
            let _ = endpoint(VIDEO).next_step(None, &body);
        }
    }
}
