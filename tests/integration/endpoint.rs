//! Responses of real servers, compared with the results of Python's `json` for the same files.

use std::path::Path;
use std::sync::Arc;

use base::units::Nanos;
use client::endpoint::{Config, Endpoint, EndpointType, ParsedResponse, Usage, build, http_error};
use client::record::{ErrorKind, ResponseBody, SseEvent};

/// The response in a capture: status, reason and body.
pub(crate) struct Capture {
    status: u16,
    reason: String,
    is_event_stream: bool,
    pub(crate) body: String,
}

pub(crate) fn capture(server: &str, name: &str) -> Capture {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/golden");
    let text = std::fs::read_to_string(root.join(server).join("http").join(format!("{name}.txt")));
    // Lines of the header end in CR LF, those of the file itself in LF.
    let text = text.unwrap().replace("\r\n", "\n");
    let response = &text[text.find("HTTP/1.1 ").unwrap()..];
    let (head, rest) = response.split_once("\n\n").unwrap();
    let status_line = head.lines().next().unwrap();
    let end = ["\n<<<", "\n>>>"].iter().filter_map(|mark| rest.find(mark)).min();
    Capture {
        status: status_line[9..12].parse().unwrap(),
        reason: status_line[13..].trim().to_owned(),
        is_event_stream: head.contains("text/event-stream"),
        body: rest[..end.unwrap_or(rest.len())].to_owned(),
    }
}

/// Returns the body as the transport passes it on; the `n`th event, counted from 1, arrives at `n`
/// ms. `end` is the line break.
fn response(capture: &Capture, end: &str) -> ResponseBody {
    let mut body = ResponseBody { is_event_stream: capture.is_event_stream, ..Default::default() };
    let parts: Vec<&str> = if capture.is_event_stream {
        capture.body.split("\n\n").filter(|event| !event.trim().is_empty()).collect()
    } else {
        vec![&capture.body]
    };
    for (index, part) in parts.iter().enumerate() {
        let start = body.bytes.len() as u32;
        body.bytes.extend_from_slice(part.replace('\n', end).as_bytes());
        let event_end = body.bytes.len() as u32;
        body.bytes.extend_from_slice(end.repeat(2).as_bytes());
        let arrival = Nanos((index as u64 + 1) * 1_000_000).into();
        body.events.push(SseEvent { arrival, start, end: event_end });
    }
    body
}

/// The dialect of a capture.
pub(crate) fn dialect(name: &str) -> Arc<dyn Endpoint> {
    let endpoint_type = match name.split('_').next() {
        Some("chat" | "err") => EndpointType::CHAT,
        Some("embeddings") => EndpointType::EMBEDDINGS,
        Some("responses") => EndpointType::RESPONSES,
        Some("messages") => EndpointType::MESSAGES,
        _ => EndpointType::COMPLETIONS,
    };
    build(&Config::new(endpoint_type, true))
}

fn read(server: &str, name: &str) -> ParsedResponse {
    let capture = capture(server, name);
    let endpoint = dialect(name);
    let parsed = endpoint.parse(&response(&capture, "\n"));
    for end in ["\r\n", "\r"] {
        assert_eq!(endpoint.parse(&response(&capture, end)), parsed, "{server} {name} {end:?}");
    }
    parsed
}

/// Prompt, completion, total and cached tokens.
fn counts(usage: Option<Usage>) -> Option<[Option<u64>; 4]> {
    usage.map(|usage| {
        [
            usage.prompt_tokens,
            usage.completion_tokens,
            usage.total_tokens,
            usage.prompt_cache_read_tokens,
        ]
    })
}

/// Server, capture, content events, text, counts.
pub(crate) type Row = (&'static str, &'static str, usize, &'static str, Option<[Option<u64>; 4]>);

#[expect(clippy::unnecessary_wraps, reason = "the rows hold an option")]
const fn of(prompt: u64, completion: u64, cached: Option<u64>) -> Option<[Option<u64>; 4]> {
    Some([Some(prompt), Some(completion), Some(prompt + completion), cached])
}

pub(crate) const STREAMS: &[Row] = &[
    (
        "vllm",
        "chat_stream",
        16,
        "inux LIABLEpolION !=hookpol yes WARRANTIES SHALL shouldSEQUENTIAL(*pol most warran",
        of(35, 16, None),
    ),
    (
        "vllm",
        "chat_stream_n2",
        8,
        "\u{e}dedSEQUENTIALadapt\n Kerrisk zeroremovemeta",
        of(35, 8, None),
    ),
    ("vllm", "chat_stream_logprobs", 4, "INGison__.ount", of(35, 4, None)),
    (
        "vllm",
        "chat_stream_continuous_usage",
        6,
        " 20ATIONinux********:'\\================================================================",
        of(35, 6, None),
    ),
    ("vllm", "chat_stream_no_usage", 6, "igh warranties relhookpol defined", None),
    (
        "vllm",
        "completions_stream",
        8,
        "\n                     precationWarning ValueErrorcontextwwwthreadtingged",
        of(5, 8, None),
    ),
    ("vllm", "completions_batch_stream", 6, " patent Novellalif\n Fileiaial", of(7, 6, None)),
    // The first event contains both role and text.
    (
        "dynamo",
        "chat_stream",
        15,
        "ull PROFITStdUS[:orplog \u{fffd}liWEVER sc DIRECT Artisticalif disclaimeradd",
        of(35, 16, Some(0)),
    ),
    ("dynamo", "chat_stream_logprobs", 4, "ayspyken).", of(35, 4, Some(32))),
    ("dynamo", "completions_stream", 8, "LDAPUShtml OUTATIONdevvalidmd", of(5, 8, Some(0))),
    (
        "dynamo",
        "completions_batch_stream",
        6,
        "tistic persALINGS\n restriction associated permitted",
        of(7, 6, Some(0)),
    ),
    (
        "llamacpp",
        "chat_stream",
        16,
        "hooksecondspolcolorserverhookSEQUENTIALadapt parserrid credit prSEQUENTIAL This:'\\SEQUENTIAL",
        of(35, 16, Some(0)),
    ),
    // Six tokens, one of them without text.
    ("llamacpp", "chat_stream_continuous_usage", 5, "hook 20ison sing pr", of(35, 6, Some(34))),
    (
        "llamacpp",
        "completions_stream",
        8,
        "num ValueErrorORK after forcharSUCH ValueError",
        of(5, 8, Some(0)),
    ),
    // The stream starts with `data: null`; the usage of the largest of each count is kept.
    (
        "llamacpp",
        "completions_batch_stream",
        6,
        " inspectodulesodules\ninvalidstats run",
        of(4, 3, Some(2)),
    ),
    ("vllm", "responses_stream", 4, " host59eymin ackocol suffixstrip", of(14, 8, Some(0))),
    ("dynamo", "responses_stream", 8, "valid 2005test derivWI fr EXPRESS'))", of(14, 8, Some(0))),
    (
        "llamacpp",
        "responses_stream",
        8,
        " CONDITION after SHALLwordward heapsecondsmin",
        of(14, 8, Some(13)),
    ),
    (
        "vllm",
        "messages_stream",
        6,
        "hel Reservedandle changamesve",
        Some([Some(13), Some(6), None, None]),
    ),
    (
        "llamacpp",
        "messages_stream",
        6,
        "helread afterild after credit",
        // 7, plus 6 from the cache.
        Some([Some(13), Some(6), None, Some(6)]),
    ),
];

/// The finish reason, as reported by each server.
fn finish_reason(server: &str, name: &str) -> &'static str {
    match (server, name.split('_').next()) {
        ("llamacpp", Some("responses")) => "completed",
        (_, Some("responses")) => "max_output_tokens",
        (_, Some("messages")) => "max_tokens",
        _ => "length",
    }
}

#[test]
fn streams_of_real_servers() {
    for (server, name, pieces, text, usage) in STREAMS {
        let parsed = read(server, name);
        let context = format!("{server} {name}");
        assert_eq!(parsed.error, None, "{context}");
        assert_eq!(parsed.output_text, *text, "{context}");
        assert_eq!(parsed.content.len(), *pieces, "{context}");
        assert!(parsed.content.iter().all(|piece| piece.is_output), "{context}");
        assert_eq!(counts(parsed.usage), *usage, "{context}");
        let reason = finish_reason(server, name);
        assert!(parsed.finish_reasons.iter().all(|have| have == reason), "{context}");
        assert!(!parsed.finish_reasons.is_empty(), "{context}");
        assert_eq!(parsed.model.as_deref(), Some("tiny"), "{context}");
    }
}

#[test]
fn the_first_content_is_the_first_event_with_text() {
    // vLLM and llama.cpp send the role first; Dynamo sends role and text together.
    for (server, first) in [("vllm", 2), ("llamacpp", 2), ("dynamo", 1)] {
        let parsed = read(server, "chat_stream");
        assert_eq!(parsed.content[0].arrival.at, Nanos(first * 1_000_000), "{server}");
    }
    // Four events of a response, or two of a message, precede the text.
    for (server, name, first) in [
        ("vllm", "responses_stream", 5),
        ("dynamo", "responses_stream", 5),
        ("llamacpp", "responses_stream", 5),
        ("vllm", "messages_stream", 3),
        ("llamacpp", "messages_stream", 3),
    ] {
        let parsed = read(server, name);
        assert_eq!(parsed.content[0].arrival.at, Nanos(first * 1_000_000), "{server} {name}");
    }
}

#[test]
fn bodies_that_are_not_streamed() {
    let rows: &[Row] = &[
        (
            "vllm",
            "completions_nonstream",
            1,
            " includes================================wwwscreenescapeContinput after",
            of(5, 8, None),
        ),
        (
            "dynamo",
            "completions_nonstream",
            1,
            " 4ctionsalueErroreturn remriptfulattr",
            of(5, 8, Some(0)),
        ),
        (
            "llamacpp",
            "completions_nonstream",
            1,
            "\u{fffd}escapemodulesescape provisions$ after$",
            of(5, 8, Some(4)),
        ),
        (
            "vllm",
            "chat_nonstream",
            1,
            " 4SEQUENTIALadapt rel59 CONTcolor rel\n                        Reis zero",
            of(35, 12, None),
        ),
        ("vllm", "responses_nonstream", 1, "hel lineno heap ioeverDO aftermin", of(14, 8, Some(0))),
        (
            "dynamo",
            "responses_nonstream",
            1,
            "with run httpars199 distributionorporep",
            of(14, 8, Some(0)),
        ),
        (
            "llamacpp",
            "responses_nonstream",
            1,
            "helhel repr optionalsecondsmin heapTICE",
            of(14, 8, Some(0)),
        ),
    ];
    for (server, name, pieces, text, usage) in rows {
        let parsed = read(server, name);
        assert_eq!((parsed.error, &*parsed.output_text), (None, *text), "{server} {name}");
        assert_eq!((parsed.content.len(), counts(parsed.usage)), (*pieces, *usage), "{server}");
    }
}

#[test]
fn embeddings_are_one_piece_without_text() {
    let parsed = read("llamacpp", "embeddings_enabled");
    assert_eq!((parsed.error, parsed.content.len(), &*parsed.output_text), (None, 1, ""));
    assert_eq!(counts(parsed.usage), Some([Some(6), None, Some(6), None]));
}

#[test]
fn an_error_inside_a_stream_of_status_200() {
    let error = read("dynamo", "err_context_too_long").error.unwrap();
    assert_eq!((error.code, error.kind), (Some(500), ErrorKind::Http5xx));
    assert_eq!((&*error.name, &*error.message), ("internal_server_error", "Internal server error"));
}

#[test]
fn statuses_other_than_200_keep_the_servers_words() {
    for (server, name, status, reason) in [
        ("vllm", "err_bad_model", 404, "Not Found"),
        ("dynamo", "err_bad_model", 404, "Not Found"),
        ("dynamo", "messages_stream", 404, "Not Found"),
        ("llamacpp", "err_context_too_long", 400, "Bad Request"),
    ] {
        let capture = capture(server, name);
        assert_eq!(capture.status, status);
        let error = http_error(capture.status, Some(&capture.reason), capture.body.as_bytes());
        assert_eq!((&*error.name, error.kind), (reason, ErrorKind::Http4xx), "{server}");
        assert_eq!(error.message, capture.body, "{server}");
    }
}

#[test]
fn a_stream_that_stops_early_is_cut_wherever_it_stops() {
    let capture = capture("vllm", "chat_stream");
    let whole = response(&capture, "\n");
    // 1 role, 16 texts of which the last has the finish reason, usage, [DONE].
    assert_eq!(whole.events.len(), 19);
    for kept in 1..19 {
        let mut cut = whole.clone();
        cut.events.truncate(kept);
        let parsed = dialect("chat").parse(&cut);
        let name = parsed.error.map(|error| error.name);
        assert_eq!(name.as_deref(), (kept < 17).then_some("CutStream"), "{kept} events");
        assert_eq!(parsed.content.len(), kept.saturating_sub(1).min(16), "{kept} events");
    }
}
