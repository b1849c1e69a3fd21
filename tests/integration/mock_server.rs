//! The mock server as clients see it: through reqwest to test the protocol, through a plain socket
//! to test the bytes.

mod hazards;
mod logs;

use std::io::{ErrorKind, Read, Write};
use std::net::TcpStream;
use std::time::{Duration, Instant};

use base::units::{Clock, Nanos};
use mock_server::{
    Config, Jitter, MockServer, MockServerError, PrefixCacheSize, RequestLog, Script, UsageReport,
    parse_duration,
};
use serde_json::{Value, json};

/// Time limit that only a failing test reaches.
const BOUND: Duration = Duration::from_secs(20);

const CHAT: &str = "/v1/chat/completions";
const COMPLETIONS: &str = "/v1/completions";
const EMBEDDINGS: &str = "/v1/embeddings";

fn serve(script: Script) -> MockServer {
    MockServer::start(Config { script, ..Config::default() }).unwrap()
}

fn faulty(rules: &[&str]) -> Script {
    let faults = rules.iter().map(|rule| Script::parse_fault(rule).unwrap()).collect();
    Script { faults, ..Script::default() }
}

fn client() -> reqwest::blocking::Client {
    // Another test may have installed it already.
    let _ = tokio_rustls::rustls::crypto::ring::default_provider().install_default();
    reqwest::blocking::Client::builder().no_proxy().timeout(BOUND).build().unwrap()
}

struct Reply {
    status: u16,
    content_type: String,
    text: String,
}

impl Reply {
    fn json(&self) -> Value {
        serde_json::from_str(&self.text).unwrap()
    }

    /// Returns the data of the events.
    fn events(&self) -> Vec<&str> {
        data_lines(&self.text)
    }
}

fn data_lines(text: &str) -> Vec<&str> {
    text.split("\n\n").filter_map(|event| event.strip_prefix("data: ")).collect()
}

fn reply(response: reqwest::Result<reqwest::blocking::Response>) -> Reply {
    let response = response.unwrap();
    let content_type = response.headers().get("content-type").map(|value| value.to_str().unwrap());
    Reply {
        status: response.status().as_u16(),
        content_type: content_type.unwrap_or_default().to_owned(),
        text: response.text().unwrap(),
    }
}

fn post(server: &MockServer, path: &str, body: &Value) -> Reply {
    reply(client().post(server.url() + path).body(body.to_string()).send())
}

fn get(server: &MockServer, path: &str) -> Reply {
    reply(client().get(server.url() + path).send())
}

fn chat(max_tokens: u64, stream: bool) -> Value {
    json!({
        "model": "mock-model",
        "messages": [{"role": "user", "content": "hello world"}],
        "max_completion_tokens": max_tokens,
        "stream": stream,
    })
}

fn tokens(text: &str) -> usize {
    tiktoken_rs::o200k_base_singleton().count_ordinary(text)
}

/// Returns a value of `/metrics`.
fn metric(server: &MockServer, sample: &str) -> f64 {
    let text = get(server, "/metrics").text;
    let line = text.lines().find(|line| line.starts_with(sample)).unwrap();
    line.rsplit_once(' ').unwrap().1.parse().unwrap()
}

fn finished(server: &MockServer, reason: &str) -> f64 {
    let labels = format!("{{engine=\"0\",finished_reason=\"{reason}\",model_name=\"mock-model\"}}");
    metric(server, &format!("vllm:request_success_total{labels}"))
}

/// Polls until `holds` returns true, for at most [`BOUND`].
fn until(what: &str, holds: impl Fn() -> bool) {
    let end = Instant::now() + BOUND;
    while !holds() {
        assert!(Instant::now() < end, "{what} never was so");
        std::thread::sleep(Duration::from_millis(1));
    }
}

/// A plain connection.
struct Raw(TcpStream);

impl Raw {
    fn connect(server: &MockServer) -> Self {
        let stream = TcpStream::connect(server.addr()).unwrap();
        stream.set_read_timeout(Some(BOUND)).unwrap();
        Self(stream)
    }

    fn send(&mut self, path: &str, id: &str, body: &Value) {
        let body = body.to_string();
        let length = body.len();
        let request = format!(
            "POST {path} HTTP/1.1\r\nHost: x\r\nX-Request-ID: {id}\r\nContent-Length: {length}\r\n\r\n{body}"
        );
        self.0.write_all(request.as_bytes()).unwrap();
    }

    /// Reads all bytes until the server closes or resets the connection.
    fn rest(&mut self) -> String {
        let mut bytes = Vec::new();
        if let Err(error) = self.0.read_to_end(&mut bytes) {
            assert_eq!(error.kind(), ErrorKind::ConnectionReset);
        }
        String::from_utf8(bytes).unwrap()
    }

    /// Reads all bytes up to `end`.
    fn up_to(&mut self, end: &str) -> String {
        let mut bytes = Vec::new();
        let mut byte = [0];
        while !bytes.ends_with(end.as_bytes()) {
            self.0.read_exact(&mut byte).unwrap();
            bytes.push(byte[0]);
        }
        String::from_utf8(bytes).unwrap()
    }
}

const LAST_CHUNK: &str = "\r\n0\r\n\r\n";

/// Returns the bytes that a plain client receives for one streamed chat of five tokens.
fn stream_of_five(server: &MockServer) -> String {
    let mut raw = Raw::connect(server);
    raw.send(CHAT, "five", &chat(5, true));
    raw.rest()
}

/// Returns the sizes of a response's chunks, without the empty last one.
fn chunk_sizes(received: &str) -> Vec<u64> {
    let mut rest = received.split_once("\r\n\r\n").unwrap().1;
    let mut sizes = Vec::new();
    loop {
        let (size, after) = rest.split_once("\r\n").unwrap();
        let size = usize::from_str_radix(size, 16).unwrap();
        if size == 0 {
            return sizes;
        }
        sizes.push(size as u64);
        rest = after[size..].strip_prefix("\r\n").unwrap();
    }
}

/// Returns how many of the complete events in `bytes` have content.
fn content_events(bytes: &str) -> usize {
    bytes.matches(r#""delta":{"content":" "#).count()
}

fn log(server: &MockServer) -> RequestLog {
    let mut log = server.write_log();
    assert_eq!(log.len(), 1);
    log.remove(0)
}

#[test]
fn a_whole_chat_has_the_tokens_that_were_asked_for() {
    let server = serve(Script::default());
    let reply = post(&server, CHAT, &chat(12, false));
    assert_eq!((reply.status, reply.content_type.as_str()), (200, "application/json"));
    let body = reply.json();
    assert_eq!(body["object"], "chat.completion");
    assert_eq!(body["model"], "mock-model");
    let choice = &body["choices"][0];
    assert_eq!(choice["message"]["role"], "assistant");
    assert_eq!(choice["finish_reason"], "length");
    assert_eq!(tokens(choice["message"]["content"].as_str().unwrap()), 12);
    // "hello world" is two tokens of o200k.
    assert_eq!(
        body["usage"],
        json!({"prompt_tokens": 2, "total_tokens": 14, "completion_tokens": 12})
    );
}

/// Returns the text of a whole chat of 12 tokens with this prompt.
fn text_for(server: &MockServer, prompt: &str) -> String {
    let mut request = chat(12, false);
    request["messages"][0]["content"] = json!(prompt);
    let body = post(server, CHAT, &request).json();
    body["choices"][0]["message"]["content"].as_str().unwrap().to_owned()
}

#[test]
fn the_text_follows_from_the_prompt_and_the_seed() {
    let (server, again) = (serve(Script::default()), serve(Script::default()));
    let other = serve(Script { seed: 1, ..Script::default() });
    let text = text_for(&server, "hello world");
    assert_eq!(text_for(&server, "hello world"), text);
    assert_eq!(text_for(&again, "hello world"), text);
    let different = [
        text_for(&server, "hello world!"),
        text_for(&server, "world hello"),
        text_for(&server, ""),
        text_for(&other, "hello world"),
    ];
    for different in different {
        // A word is the same by chance in one of 64 places.
        let same = different.split(' ').zip(text.split(' ')).skip(1).filter(|(a, b)| a == b);
        assert!(same.count() < 6, "{different} | {text}");
    }
}

/// Returns the text of a streamed chat of 12 tokens with the prompt `hello world`.
fn streamed_text(server: &MockServer) -> String {
    let reply = post(server, CHAT, &chat(12, true));
    let events = reply.events();
    let (end, events) = events.split_last().unwrap();
    assert_eq!(*end, "[DONE]");
    let text = |event: &&str| {
        let chunk: Value = serde_json::from_str(event).unwrap();
        chunk["choices"][0]["delta"]["content"].as_str().unwrap().to_owned()
    };
    events.iter().map(text).collect()
}

#[test]
fn a_corrupt_output_is_the_same_streamed_and_whole() {
    let plain = text_for(&serve(Script::default()), "hello world");
    let words: Vec<&str> = plain.split(' ').collect();
    // A space precedes each word.
    assert_eq!((words.len(), words[0]), (13, ""));
    let server = serve(faulty(&["all:corrupt=repeat"]));
    let repeated = words[..5].join(" ").repeat(3);
    assert_eq!(text_for(&server, "hello world"), repeated);
    assert_eq!(streamed_text(&server), repeated);
    let server = serve(faulty(&["all:corrupt=blank"]));
    assert_eq!(text_for(&server, "hello world"), "   \n".repeat(3));
    assert_eq!(streamed_text(&server), "   \n".repeat(3));
}

#[test]
fn a_text_may_be_that_of_another_request() {
    let server = serve(faulty(&["all:corrupt=same"]));
    assert_eq!(text_for(&server, "one two"), text_for(&server, "three four"));

    let plain = text_for(&serve(Script::default()), "hello world");
    let server = serve(faulty(&["all:corrupt=crosstalk"]));
    assert_eq!(text_for(&server, "hello world"), plain);
    text_for(&server, &format!("start{} the \"end\"", " word".repeat(20)));
    // The last 40 characters of that prompt are eight words, in place of the text's first eight.
    let words: Vec<&str> = plain.split(' ').skip(9).collect();
    let end = format!("{} the \"end\"", " word".repeat(6));
    for _ in 0..2 {
        assert_eq!(text_for(&server, "hello world"), format!("{end} {}", words.join(" ")));
    }
}

#[test]
fn a_share_of_the_requests_has_a_fault_and_the_same_again() {
    let run = || {
        let server = serve(faulty(&["rate=25%:corrupt=truncated"]));
        let ended_early = |_| {
            let body = post(&server, CHAT, &chat(12, false)).json();
            let count = body["usage"]["completion_tokens"].as_u64().unwrap();
            let text = body["choices"][0]["message"]["content"].as_str().unwrap();
            assert_eq!(tokens(text) as u64, count);
            let reason = if count == 4 { "stop" } else { "length" };
            assert_eq!(body["choices"][0]["finish_reason"], reason);
            count == 4
        };
        (0..200).map(ended_early).collect::<Vec<bool>>()
    };
    let ended_early = run();
    // 50 with a standard deviation of 6.
    let count = ended_early.iter().filter(|early| **early).count();
    assert!((14..=86).contains(&count), "{count}");
    assert_eq!(run(), ended_early);
}

#[test]
fn a_fault_may_be_one_of_load() {
    let rules = ["requests=2:hang", "all,above=1:corrupt=blank"];
    let server = serve(faulty(&rules));
    let plain = text_for(&server, "hello world");
    assert_eq!(tokens(&plain), 12);
    let mut raw = Raw::connect(&server);
    raw.send(CHAT, "waits", &chat(1, false));
    until("the second request", || server.requests_received() == 2);
    assert_eq!(text_for(&server, "hello world"), "   \n".repeat(3));
}

#[test]
fn a_text_may_vary_beside_another_request() {
    let rules = ["requests=2:hang"];
    let server = serve(Script { batch_variance: 1.0, ..faulty(&rules) });
    let plain = text_for(&server, "hello world");
    assert_eq!(plain, text_for(&serve(Script::default()), "hello world"));
    let mut raw = Raw::connect(&server);
    raw.send(CHAT, "waits", &chat(1, false));
    until("the second request", || server.requests_received() == 2);
    let is_same = |(a, b): &(&str, &str)| a == b;
    let mut turns = Vec::new();
    for _ in 0..20 {
        let varied = text_for(&server, "hello world");
        assert_eq!(tokens(&varied), 12);
        let words = || varied.split(' ').zip(plain.split(' ')).skip(1);
        turns.push(words().take_while(is_same).count());
        // After the turn, a word is the same by chance only.
        let after = words().skip_while(is_same).filter(is_same).count();
        assert!(after < 6, "{varied} | {plain}");
    }
    assert!(turns.iter().any(|turn| *turn != turns[0]), "{turns:?}");
}

#[test]
fn without_a_limit_the_script_decides() {
    let server = serve(Script { output_tokens: 7, ..Script::default() });
    let body = json!({"model": "any", "messages": [{"role": "user", "content": "hi"}]});
    let body = post(&server, CHAT, &body).json();
    assert_eq!(body["model"], "any");
    assert_eq!(body["choices"][0]["finish_reason"], "stop");
    assert_eq!(body["usage"]["completion_tokens"], 7);
}

#[test]
fn a_streamed_chat() {
    let server = serve(Script::default());
    let mut request = chat(6, true);
    let reply = post(&server, CHAT, &request);
    assert_eq!(
        (reply.status, reply.content_type.as_str()),
        (200, "text/event-stream; charset=utf-8")
    );
    let events = reply.events();
    // A role, six tokens, [DONE].
    assert_eq!((events.len(), events[7]), (8, "[DONE]"));
    let chunks: Vec<Value> =
        events[..7].iter().map(|event| serde_json::from_str(event).unwrap()).collect();
    assert_eq!(chunks[0]["choices"][0]["delta"], json!({"role": "assistant", "content": ""}));
    let pieces: Vec<_> = chunks[1..]
        .iter()
        .map(|chunk| chunk["choices"][0]["delta"]["content"].as_str().unwrap())
        .collect();
    assert!(pieces.iter().all(|piece| tokens(piece) == 1));
    assert_eq!(tokens(&pieces.concat()), 6);
    assert_eq!(chunks[6]["choices"][0]["finish_reason"], "length");
    assert!(!reply.text.contains("usage"));

    request["stream_options"] = json!({"include_usage": true});
    let reply = post(&server, CHAT, &request);
    let usage: Value = serde_json::from_str(reply.events()[7]).unwrap();
    assert_eq!(usage["choices"], json!([]));
    assert_eq!(
        usage["usage"],
        json!({"prompt_tokens": 2, "total_tokens": 8, "completion_tokens": 6})
    );
}

#[test]
fn reasoning_comes_first_and_chunks_can_be_large() {
    let script = Script { reasoning_tokens: 4, tokens_per_chunk: 3, ..Script::default() };
    let server = serve(script);
    let reply = post(&server, CHAT, &chat(10, true));
    let events = reply.events();
    let piece = |event: &str, key: &str| -> Option<usize> {
        let chunk: Value = serde_json::from_str(event).unwrap();
        chunk["choices"][0]["delta"][key].as_str().map(tokens)
    };
    let outline: Vec<_> = events[1..events.len() - 1]
        .iter()
        .map(|event| (piece(event, "reasoning_content"), piece(event, "content")))
        .collect();
    assert_eq!(outline, [(Some(3), None), (Some(1), None), (None, Some(3)), (None, Some(3))]);

    let body = post(&server, CHAT, &chat(10, false)).json();
    let message = &body["choices"][0]["message"];
    assert_eq!(tokens(message["reasoning_content"].as_str().unwrap()), 4);
    assert_eq!(tokens(message["content"].as_str().unwrap()), 6);
    assert_eq!(body["usage"]["completion_tokens"], 10);
    assert_eq!(body["usage"]["completion_tokens_details"]["reasoning_tokens"], 4);
}

#[test]
fn completions_answer_each_prompt() {
    let server = serve(Script::default());
    let mut request =
        json!({"model": "m", "prompt": ["hello world", "one two three"], "max_tokens": 4});
    let body = post(&server, COMPLETIONS, &request).json();
    assert_eq!(body["object"], "text_completion");
    let choices = body["choices"].as_array().unwrap();
    assert_eq!(choices.len(), 2);
    for (index, choice) in choices.iter().enumerate() {
        assert_eq!(choice["index"], index);
        assert_eq!(tokens(choice["text"].as_str().unwrap()), 4);
    }
    assert_eq!(
        body["usage"],
        json!({"prompt_tokens": 5, "total_tokens": 13, "completion_tokens": 8})
    );

    request["stream"] = json!(true);
    let reply = post(&server, COMPLETIONS, &request);
    let mut texts = [String::new(), String::new()];
    let events = reply.events();
    for event in &events[..events.len() - 1] {
        let choice = &serde_json::from_str::<Value>(event).unwrap()["choices"][0];
        let index = usize::try_from(choice["index"].as_u64().unwrap()).unwrap();
        texts[index].push_str(choice["text"].as_str().unwrap());
    }
    assert_eq!(texts.each_ref().map(|text| tokens(text)), [4, 4]);
}

#[test]
fn embeddings_are_unit_vectors() {
    let server = serve(Script { embedding_dimensions: 9, ..Script::default() });
    let request = json!({"model": "m", "input": ["hello world", "hi"]});
    let body = post(&server, EMBEDDINGS, &request).json();
    assert_eq!(body["object"], "list");
    let data = body["data"].as_array().unwrap();
    assert_eq!(data.len(), 2);
    assert_eq!(data[1]["index"], 1);
    let vector: Vec<f64> =
        data[0]["embedding"].as_array().unwrap().iter().map(|x| x.as_f64().unwrap()).collect();
    assert_eq!(vector.len(), 9);
    assert!((vector.iter().map(|x| x * x).sum::<f64>() - 1.0).abs() < 1e-6);
    assert_eq!(body["usage"]["prompt_tokens"], 3);
    assert_eq!(body["usage"]["total_tokens"], 3);
}

#[test]
fn what_can_be_got() {
    let models = vec!["first".to_owned(), "second \"2\"".to_owned()];
    let server = serve(Script { models, ..Script::default() });
    let list = get(&server, "/v1/models").json();
    assert_eq!(list["object"], "list");
    assert_eq!(list["data"][0]["id"], "first");
    assert_eq!(list["data"][1]["id"], "second \"2\"");
    assert_eq!(get(&server, "/health").status, 200);
    assert_eq!(get(&server, "/version").json()["version"], env!("CARGO_PKG_VERSION"));
    let metrics = get(&server, "/metrics");
    assert!(metrics.content_type.starts_with("text/plain; version=0.0.4"));
    assert!(
        metrics.text.contains("vllm:num_requests_running{engine=\"0\",model_name=\"first\"} 0.0\n")
    );
}

#[test]
fn wrong_requests_get_errors_in_openais_form() {
    let server = serve(Script { strict_models: true, ..Script::default() });
    let wrong_path = post(&server, "/v1/nope", &json!({}));
    let wrong_method = get(&server, CHAT);
    let bad_json = reply(client().post(server.url() + CHAT).body("{\"mess").send());
    let no_messages = post(&server, CHAT, &json!({"model": "mock-model"}));
    let no_tokens = post(&server, CHAT, &chat(0, false));
    let mut other = chat(1, false);
    other["model"] = json!("other");
    let wrong_model = post(&server, CHAT, &other);
    for (reply, status, param) in [
        (wrong_path, 404, json!(null)),
        (wrong_method, 404, json!(null)),
        (bad_json, 400, json!(null)),
        (no_messages, 400, json!("messages")),
        (no_tokens, 400, json!("max_completion_tokens")),
        (wrong_model, 404, json!("model")),
    ] {
        let error = &reply.json()["error"];
        assert_eq!(reply.status, status);
        assert_eq!(error["code"], status);
        assert_eq!(error["param"], param);
        assert!(error["message"].is_string() && error["type"].is_string());
    }
    assert_eq!(server.requests_received(), 0);
}

#[test]
fn usage_can_be_switched_off() {
    let server = serve(Script { usage: UsageReport::Never, ..Script::default() });
    let mut request = chat(2, true);
    request["stream_options"] = json!({"include_usage": true});
    assert!(!post(&server, CHAT, &request).text.contains("usage"));
    assert!(!post(&server, CHAT, &chat(2, false)).text.contains("usage"));
    let server = serve(Script { usage: UsageReport::Always, ..Script::default() });
    assert!(post(&server, CHAT, &chat(2, true)).text.contains("usage"));
}

#[test]
fn no_event_leaves_before_its_time() {
    let (ttft, itl) = (parse_duration("20ms").unwrap(), parse_duration("2ms").unwrap());
    let server = serve(Script { ttft, itl, ..Script::default() });
    let mut raw = Raw::connect(&server);
    let before = Clock::now();
    raw.send(CHAT, "paced", &chat(8, true));
    let received = raw.up_to(LAST_CHUNK);
    let after = Clock::now();

    let log = log(&server);
    assert_eq!(log.request_id.as_deref(), Some("paced"));
    assert_eq!((&*log.path, log.status, log.complete), (CHAT, Some(200), true));
    assert_eq!(log.admitted, log.arrival);
    assert!(before <= log.arrival);
    // The role is sent with the first token, [DONE] with the last.
    let steps = [0, 0, 1, 2, 3, 4, 5, 6, 7, 7];
    assert_eq!(log.events.len(), steps.len());
    for (event, step) in log.events.iter().zip(steps) {
        assert_eq!(event.due.0, log.arrival.0 + 20_000_000 + step * 2_000_000);
        let (start, end) = (event.write_start.unwrap(), event.written.unwrap());
        assert!(event.due <= start && start <= end && start <= after);
    }
    assert!(log.events.is_sorted_by_key(|event| event.written));
    let counts: Vec<_> = log.events.iter().map(|event| event.tokens).collect();
    assert_eq!(counts, [0, 1, 1, 1, 1, 1, 1, 1, 1, 0]);
    let logged: Vec<_> = log.events.iter().map(|event| event.bytes).collect();
    assert_eq!(chunk_sizes(&received), logged);
}

#[test]
fn a_whole_answer_leaves_when_its_last_token_is_due() {
    let script = Script {
        ttft: Nanos(5_000_000),
        itl: Nanos(1_000_000),
        jitter: Jitter::Fraction(0.5),
        ..Script::default()
    };
    let server = serve(script);
    post(&server, CHAT, &chat(4, false));
    let log = log(&server);
    let event = log.events[0];
    assert_eq!((log.events.len(), event.tokens), (1, 4));
    // 5 ms + 3 × 1 ms, minus at most half of 1 ms; only the first interval varies by half of 5 ms.
    let planned = event.due.since(log.arrival);
    assert!(Nanos(7_500_000) <= planned && planned <= Nanos(8_500_000), "{planned:?}");
    assert!(event.due <= event.written.unwrap());
}

#[test]
fn one_connection_serves_many_requests() {
    let server = serve(Script::default());
    let mut raw = Raw::connect(&server);
    for n in 1..=5 {
        raw.send(CHAT, &format!("id-{n}"), &chat(n, true));
        assert_eq!(content_events(&raw.up_to(LAST_CHUNK)) as u64, n);
    }
    let logs = server.write_log();
    for (n, log) in (1..).zip(&logs) {
        assert_eq!((log.number, log.request_id.clone()), (n, Some(format!("id-{n}"))));
        assert!(log.complete && log.events.iter().all(|event| event.written.is_some()));
        assert_eq!(log.events.iter().map(|event| event.tokens).sum::<u64>(), n);
    }
    assert_eq!((logs.len(), server.requests_served()), (5, 5));
    assert_eq!(server.peak_in_flight(), 1);
}

#[test]
fn http_1_0_streams_end_with_the_connection() {
    let server = serve(Script::default());
    let mut raw = Raw::connect(&server);
    let body = chat(3, true).to_string();
    let request = format!("POST {CHAT} HTTP/1.0\r\nContent-Length: {}\r\n\r\n{body}", body.len());
    raw.0.write_all(request.as_bytes()).unwrap();
    let received = raw.rest();
    assert!(!received.to_lowercase().contains("transfer-encoding"));
    assert!(received.ends_with("data: [DONE]\n\n"));
    assert_eq!(content_events(&received), 3);
    let log = log(&server);
    assert!(log.complete && log.request_id.is_none());
}

#[test]
fn scripted_statuses() {
    let server = serve(faulty(&["requests=2:status=429,slow down", "every=3:status=503"]));
    let replies: Vec<_> = (0..4).map(|_| post(&server, CHAT, &chat(2, true))).collect();
    let statuses: Vec<_> = replies.iter().map(|reply| reply.status).collect();
    assert_eq!(statuses, [200, 429, 503, 200]);
    assert_eq!(replies[1].text, "slow down");
    assert_eq!(replies[2].json()["error"]["code"], 503);
    assert_eq!((finished(&server, "error"), finished(&server, "length")), (2.0, 2.0));
    assert_eq!(metric(&server, "vllm:generation_tokens_total"), 4.0);
    let statuses: Vec<_> = server.write_log().iter().map(|log| log.status).collect();
    assert_eq!(statuses, [Some(200), Some(429), Some(503), Some(200)]);
}

#[test]
fn a_cut_stream_ends_between_events() {
    let server = serve(faulty(&["all:cut=2"]));
    let received = stream_of_five(&server);
    assert_eq!(content_events(&received), 2);
    assert!(received.ends_with("}\n\n\r\n"), "{received}");
    assert_eq!((finished(&server, "abort"), finished(&server, "length")), (1.0, 0.0));
    assert_eq!(metric(&server, "vllm:generation_tokens_total"), 2.0);
    let log = log(&server);
    assert_eq!((log.complete, log.events.len()), (false, 3));
    assert!(log.events.iter().all(|event| event.written.is_some()));
}

#[test]
fn a_stream_cut_before_the_first_event_is_a_head() {
    let received = stream_of_five(&serve(faulty(&["all:cut=0"])));
    assert!(received.starts_with("HTTP/1.1 200 OK\r\n") && received.ends_with("\r\n\r\n"));
    assert!(!received.contains("data:"));
}

#[test]
fn a_stream_can_be_cut_within_an_event() {
    let server = serve(faulty(&["all:cut-mid=3"]));
    let received = stream_of_five(&server);
    assert_eq!(content_events(&received), 3);
    assert_eq!(metric(&server, "vllm:generation_tokens_total"), 3.0);
    assert!(log(&server).events[4].written.is_none());
    let last = received.rsplit("data: ").next().unwrap();
    assert!(last.starts_with("{\"id\":\"chatcmpl-") && !last.ends_with('\n'));
    assert!(serde_json::from_str::<Value>(last).is_err());
}

#[test]
fn a_whole_answer_can_be_cut() {
    let server = serve(faulty(&["all:cut-mid=0"]));
    let mut raw = Raw::connect(&server);
    raw.send(CHAT, "cut", &chat(50, false));
    let received = raw.rest();
    let (head, body) = received.split_once("\r\n\r\n").unwrap();
    let length = head.lines().find_map(|line| line.strip_prefix("content-length: ")).unwrap();
    assert_eq!(body.len(), length.parse::<usize>().unwrap() / 2);
}

#[test]
fn broken_empty_and_unfinished_streams() {
    let server = serve(faulty(&[
        "requests=1:garbage=1",
        "requests=2:empty",
        "requests=3:no-done",
        "requests=4:error=2",
    ]));
    let replies: Vec<_> = (0..4).map(|_| post(&server, CHAT, &chat(3, true))).collect();
    let valid = |reply: &Reply| -> Vec<bool> {
        reply.events().iter().map(|data| serde_json::from_str::<Value>(data).is_ok()).collect()
    };
    // The role, a token, invalid JSON, a token; [DONE] is not JSON either.
    assert_eq!(valid(&replies[0]), [true, true, false, true, false]);
    assert_eq!(replies[1].text, "data: [DONE]\n\n");
    assert_eq!(valid(&replies[2]), [true; 4]);
    let events = replies[3].events();
    let error: Value = serde_json::from_str(events[3]).unwrap();
    assert_eq!((replies[3].status, &error["error"]["code"]), (200, &json!(500)));
    assert!(error["error"]["message"].is_string());
    assert_eq!(events[4..], ["[DONE]"]);
    assert_eq!((finished(&server, "length"), finished(&server, "error")), (3.0, 1.0));
    // The empty stream does not generate any tokens, the one that fails two.
    assert_eq!(metric(&server, "vllm:generation_tokens_total"), 8.0);
}

#[test]
fn a_connection_can_close_without_an_answer() {
    let server = serve(faulty(&["all:close"]));
    assert_eq!(stream_of_five(&server), "");
    assert_eq!((log(&server).status, server.requests_served()), (None, 0));
}

#[test]
fn a_request_that_hangs_is_there_until_its_client_goes() {
    let server = serve(faulty(&["first=1:hang"]));
    let mut raw = Raw::connect(&server);
    raw.send(CHAT, "hung", &chat(1, true));
    until("the hanging request", || server.requests_received() == 1);
    // Meanwhile another request succeeds.
    assert_eq!(post(&server, CHAT, &chat(1, true)).status, 200);
    assert_eq!(metric(&server, "vllm:num_requests_waiting"), 1.0);
    raw.0.set_nonblocking(true).unwrap();
    assert_eq!(raw.0.read(&mut [0]).unwrap_err().kind(), ErrorKind::WouldBlock);
    drop(raw);
    until("the abort", || finished(&server, "abort") == 1.0);
    assert_eq!(server.peak_in_flight(), 2);
}

#[test]
fn dripped_bytes_take_their_time() {
    let server = serve(faulty(&["all:drip=50us"]));
    let mut raw = Raw::connect(&server);
    raw.send(CHAT, "drip", &chat(1, true));
    let received = raw.up_to(LAST_CHUNK);
    let log = log(&server);
    let done = log.events.last().unwrap().written.unwrap();
    // Each byte except the first is delayed; [DONE] precedes the five bytes of the last chunk.
    let waits = received.len() as u64 - 1 - 5;
    assert!(done.since(log.arrival) >= Nanos(waits * 50_000));
}

#[test]
fn keep_alive_can_be_a_lie() {
    let server = serve(faulty(&["all:close-after-each"]));
    let mut raw = Raw::connect(&server);
    raw.send(CHAT, "liar", &chat(2, true));
    // The client keeps its side open, so the server closes the connection.
    let received = raw.rest();
    assert!(received.to_lowercase().contains("\r\nconnection: keep-alive\r\n"));
    assert!(received.ends_with("data: [DONE]\n\n\r\n0\r\n\r\n"));
    assert!(log(&server).complete);
    assert_eq!(finished(&server, "length"), 1.0);

    let mut raw = Raw::connect(&server);
    raw.send(CHAT, "whole", &chat(2, false));
    let received = raw.rest();
    let body = received.split_once("\r\n\r\n").unwrap().1;
    assert_eq!(serde_json::from_str::<Value>(body).unwrap()["usage"]["completion_tokens"], 2);
}

#[test]
fn a_stall_delays_its_event() {
    let server = serve(Script { itl: Nanos(1_000_000), ..faulty(&["all:stall=2,30ms"]) });
    post(&server, CHAT, &chat(4, true));
    let log = log(&server);
    let offsets: Vec<_> = log.events.iter().map(|event| event.due.since(log.arrival).0).collect();
    assert_eq!(offsets, [0, 0, 1_000_000, 32_000_000, 32_000_000, 32_000_000]);
    assert!(log.events.iter().all(|event| event.due <= event.written.unwrap()));
}

#[test]
fn metrics_move_by_what_was_served() {
    let server = serve(Script::default());
    post(&server, CHAT, &chat(10, true));
    post(&server, CHAT, &chat(5, false));
    post(&server, COMPLETIONS, &json!({"prompt": ["hello world", "hi"]}));
    post(&server, EMBEDDINGS, &json!({"input": "one two three"}));
    // 2 + 2 + 3 + 3 tokens in; 10 + 5 + 2 × 64 out.
    assert_eq!(metric(&server, "vllm:prompt_tokens_total"), 10.0);
    assert_eq!(metric(&server, "vllm:generation_tokens_total"), 143.0);
    assert_eq!((finished(&server, "length"), finished(&server, "stop")), (2.0, 2.0));
    // The gaps of the first of the two choices: 9 + 4 + 63.
    assert_eq!(metric(&server, "vllm:time_to_first_token_seconds_count"), 3.0);
    assert_eq!(metric(&server, "vllm:inter_token_latency_seconds_count"), 76.0);
    assert_eq!(metric(&server, "vllm:e2e_request_latency_seconds_count"), 4.0);
    for gauge in ["num_requests_running", "num_requests_waiting", "kv_cache_usage_perc"] {
        assert_eq!(metric(&server, &format!("vllm:{gauge}")), 0.0, "{gauge}");
    }
}

/// A prompt of words of one token each: `n` times the first, then one more.
fn words(n: usize, last: &str) -> Value {
    let content = "a".to_owned() + &" a".repeat(n - 1) + " " + last;
    json!({
        "model": "mock-model",
        "messages": [{"role": "user", "content": content}],
        "max_completion_tokens": 1,
    })
}

fn cached_prefixes(block_tokens: usize, blocks: usize) -> Script {
    let prefix_cache = Some(PrefixCacheSize { block_tokens, blocks });
    Script { prefix_cache, prefill_per_token: Nanos(1_000), ..Script::default() }
}

#[test]
fn cached_tokens_are_reported_counted_and_need_no_prefill() {
    let server = serve(Script { ttft: Nanos(500), ..cached_prefixes(4, 100) });
    let cached = |body: &Value| {
        let usage = post(&server, CHAT, body).json()["usage"].clone();
        let cached = usage["prompt_tokens_details"]["cached_tokens"].as_u64().unwrap();
        (usage["prompt_tokens"].as_u64().unwrap(), cached)
    };
    // Of 10 and of 11 tokens: two blocks of four are whole and the same.
    assert_eq!(cached(&words(9, "b")), (10, 0));
    assert_eq!(cached(&words(10, "c")), (11, 8));
    let reset = reply(client().post(server.url() + "/reset_prefix_cache").send());
    assert_eq!((reset.status, cached(&words(9, "b"))), (200, (10, 0)));
    assert_eq!(metric(&server, "vllm:prefix_cache_queries_total"), 10.0 + 11.0 + 10.0);
    assert_eq!(metric(&server, "vllm:prefix_cache_hits_total"), 8.0);
    // 1 us for each of 10, 3 and 10 tokens after the first 500 ns.
    let first = |log: &RequestLog| log.events[0].due.since(log.arrival).0;
    let firsts: Vec<u64> = server.write_log().iter().map(first).collect();
    assert_eq!(firsts, [10_500, 3_500, 10_500]);
}

#[test]
fn other_dialects_report_cached_tokens_in_their_own_words() {
    let ask = |path: &str, body: &Value| {
        let server = serve(cached_prefixes(4, 100));
        post(&server, path, body);
        post(&server, path, body).json()
    };
    // Ten tokens, of which the second block ends at the eighth.
    let text = "a a a a a a a a a b";
    let found = ask("/v1/responses", &json!({"model": "m", "input": text}));
    assert_eq!(found["usage"]["input_tokens_details"]["cached_tokens"], 8);
    assert_eq!(found["usage"]["input_tokens"], 10);
    let chat = json!([{"role": "user", "content": text}]);
    let found = ask("/v1/messages", &json!({"model": "m", "messages": chat, "max_tokens": 1}));
    assert_eq!(found["usage"]["cache_read_input_tokens"], 8);
    assert_eq!(found["usage"]["input_tokens"], 2);
    // Token IDs are looked up as they are.
    let found = ask(COMPLETIONS, &json!({"prompt": [1, 2, 3, 4, 5], "max_tokens": 1}));
    assert_eq!(found["usage"]["prompt_tokens_details"]["cached_tokens"], 4);
}

#[test]
fn without_a_prefix_cache_nothing_is_said_of_one() {
    let server = serve(Script::default());
    let usage = post(&server, CHAT, &words(20, "b")).json()["usage"].clone();
    assert!(usage.get("prompt_tokens_details").is_none(), "{usage}");
    assert!(!get(&server, "/metrics").text.contains("prefix_cache"));
}

#[test]
fn requests_beyond_the_limit_wait_their_turn() {
    let hour = Nanos::from_seconds(3600.0);
    let script =
        Script { ttft: hour, max_concurrent: Some(2), kv_cache_tokens: 8, ..Script::default() };
    let server = serve(script);
    let mut clients: Vec<_> = (0..5)
        .map(|n| {
            let mut raw = Raw::connect(&server);
            raw.send(CHAT, "queued", &chat(1, true));
            until("its arrival", || server.requests_received() == n + 1);
            raw
        })
        .collect();
    let gauges = || {
        (metric(&server, "vllm:num_requests_running"), metric(&server, "vllm:num_requests_waiting"))
    };
    until("two run and three wait", || gauges() == (2.0, 3.0));
    // Two prompts of two tokens in a cache of eight.
    assert_eq!(metric(&server, "vllm:kv_cache_usage_perc"), 0.5);
    assert_eq!(server.peak_in_flight(), 5);
    clients.remove(0);
    until("the next one runs", || gauges() == (2.0, 2.0));
    let gone = log(&server);
    assert_eq!((gone.number, gone.complete), (1, false));
}

#[test]
fn a_request_that_waited_is_timed_from_its_turn() {
    let script = Script { ttft: Nanos(5_000_000), max_concurrent: Some(1), ..Script::default() };
    let server = serve(script);
    let mut clients = [Raw::connect(&server), Raw::connect(&server)];
    for client in &mut clients {
        client.send(CHAT, "queued", &chat(1, true));
    }
    for client in &mut clients {
        client.up_to(LAST_CHUNK);
    }
    let logs = server.write_log();
    let (first, second) = (&logs[0], &logs[1]);
    assert_eq!(first.admitted, first.arrival);
    // It either waited for the end of the first, or came after it.
    assert!(second.admitted > first.events[0].due);
    assert_eq!(second.events[0].due, second.admitted + Nanos(5_000_000));
}

#[test]
fn the_log_is_bounded_and_can_be_a_file() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("writes.jsonl");
    // A chat of one token consists of a role, a token and [DONE]: four with the request itself.
    let server = MockServer::start(Config {
        write_log_capacity: 9,
        write_log_file: Some(path.clone()),
        ..Config::default()
    })
    .unwrap();
    for _ in 0..3 {
        post(&server, CHAT, &chat(1, true));
    }
    assert_eq!((server.write_log().len(), server.write_log_dropped()), (2, 1));
    server.stop();
    let lines = std::fs::read_to_string(&path).unwrap();
    let requests: Vec<Value> =
        lines.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    assert_eq!(requests.len(), 3);
    for (request, log) in requests.iter().zip(server.write_log()) {
        assert_eq!(request["number"], log.number);
        assert_eq!(request["arrival_ns"], log.arrival.0);
        assert_eq!(request["events"][1]["written_ns"], log.events[1].written.unwrap().0);
    }
}

#[test]
fn many_threads_share_the_connections() {
    let server = MockServer::start(Config { threads: 3, ..Config::default() }).unwrap();
    std::thread::scope(|scope| {
        for _ in 0..6 {
            scope.spawn(|| {
                let mut raw = Raw::connect(&server);
                for _ in 0..20 {
                    raw.send(CHAT, "shared", &chat(2, true));
                    assert_eq!(content_events(&raw.up_to(LAST_CHUNK)), 2);
                }
            });
        }
    });
    assert_eq!((server.requests_received(), server.requests_served()), (120, 120));
    assert_eq!(metric(&server, "vllm:generation_tokens_total"), 240.0);
    let mut numbers: Vec<_> = server.write_log().iter().map(|log| log.number).collect();
    numbers.sort_unstable();
    assert_eq!(numbers, (1..=120).collect::<Vec<_>>());
}

#[test]
fn stopping_ends_streams_and_frees_the_address() {
    let server = serve(Script { itl: Nanos::from_seconds(3600.0), ..Script::default() });
    let mut raw = Raw::connect(&server);
    raw.send(CHAT, "endless", &chat(2, true));
    raw.up_to("\"finish_reason\":null}]}\n\n\r\n");
    server.stop();
    raw.rest();
    assert!(!log(&server).complete);
    assert!(TcpStream::connect(server.addr()).is_err());
    let again = Config { address: server.addr(), ..Config::default() };
    drop(MockServer::start(again).unwrap());
}

#[test]
fn what_cannot_start_says_why() {
    let server = serve(Script::default());
    let taken = MockServer::start(Config { address: server.addr(), ..Config::default() });
    assert!(matches!(taken, Err(MockServerError::Listen { .. })));
    let script = Script { models: Vec::new(), ..Script::default() };
    let no_models = MockServer::start(Config { script, ..Config::default() }).unwrap_err();
    assert!(no_models.to_string().contains("does not have a model"));
    let directory = tempfile::tempdir().unwrap();
    let file = Some(directory.path().join("missing").join("log.jsonl"));
    let no_file = MockServer::start(Config { write_log_file: file, ..Config::default() });
    assert!(matches!(no_file, Err(MockServerError::WriteLog { .. })));
}
