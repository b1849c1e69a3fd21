//! Every metric, compared with manually computed tables in `tests/golden/metrics/`: its properties,
//! and its values for three requests, streamed and not.

use std::collections::BTreeSet;
use std::sync::Arc;

use base::units::{Clock, Nanos};
use client::endpoint::{self, EndpointType};
use client::record::{HttpTrace, RequestRecord, ResponseBody, SseEvent, TurnId};
use client::schedule::PhaseKind;
use dataset::{Conversation, Dataset, Media, MediaContent, MediaKinds, Turn};
use measure::metrics::metric::{
    MeasuredRecord, MetricKind, MetricResult, Objective, Settings, Value,
};
use measure::metrics::tag::{self, MetricTag};
use measure::metrics::{
    Accumulator, CountTokens, Measurer, Metric, MetricFlags, Registry, listing,
};
use uuid::Uuid;

mod flags;

const SPECIFICATION: &str = include_str!("../golden/metrics/specification.txt");
const FURTHER: &str = include_str!("../golden/metrics/further.txt");

/// Metrics of AIPerf 0.13 that the catalogue does not have, by tag or prefix, and what they would
/// require.
const NOT_KNOWN: [(&str, &str); 1] =
    [("spec_decode_accepted_per_verified", "what it counts as verified, which is not documented")];

/// A line of a table.
struct Row {
    tag: &'static str,
    kind: &'static str,
    unit: &'static str,
    flags: &'static str,
    group: &'static str,
    order: &'static str,
    streamed: &'static str,
    plain: &'static str,
}

fn rows(table: &'static str) -> Vec<Row> {
    let lines = table.lines().filter(|line| !line.is_empty() && !line.starts_with('#'));
    lines.map(row).collect()
}

/// Columns are separated by two or more spaces.
fn row(line: &'static str) -> Row {
    let cells: Vec<&str> =
        line.split("  ").map(str::trim).filter(|cell| !cell.is_empty()).collect();
    let [tag, kind, unit, flags, group, order, streamed, plain] = cells[..] else {
        panic!("not a row: {line}")
    };
    Row { tag, kind, unit, flags, group, order, streamed, plain }
}

fn all_rows() -> Vec<Row> {
    rows(SPECIFICATION).into_iter().chain(rows(FURTHER)).collect()
}

/// `-`, or numbers and fractions.
fn numbers(cell: &str) -> Vec<f64> {
    let number = |text: &str| match text.split_once('/') {
        Some((a, b)) => a.parse::<f64>().unwrap() / b.parse::<f64>().unwrap(),
        None => text.parse().unwrap(),
    };
    cell.split_whitespace().filter(|text| *text != "-").map(number).collect()
}

#[test]
fn every_metric_of_the_catalogue_is_in_a_table_and_the_other_way_round() {
    let rows = all_rows();
    let tabled: BTreeSet<&str> = rows.iter().map(|row| row.tag).collect();
    assert_eq!(tabled.len(), rows.len());
    let have: BTreeSet<&str> =
        Registry::catalogue().iter().map(|metric| metric.tag.name()).collect();
    assert_eq!(tabled, have);
}

#[test]
fn every_metric_is_what_its_row_says() {
    for row in all_rows() {
        let metric = Registry::find(row.tag).unwrap_or_else(|| panic!("no {}", row.tag));
        let (unit, shown) = row.unit.split_once('>').unwrap_or((row.unit, row.unit));
        assert_eq!(metric.kind.label(), row.kind, "{}", row.tag);
        assert_eq!(
            (metric.unit.label(), metric.display_unit.label()),
            (unit, shown),
            "{}",
            row.tag
        );
        assert_eq!(metric.group.as_str(), row.group, "{}", row.tag);
        if metric.group.as_str() != "none" {
            let order = metric.order.map_or("-".to_owned(), |order| order.to_string());
            assert_eq!(order, row.order, "{}", row.tag);
        }
        let flags: BTreeSet<&str> = row.flags.split('|').filter(|flag| *flag != "-").collect();
        let have: BTreeSet<&str> = names(metric.flags).into_iter().collect();
        assert_eq!(have, flags, "{}", row.tag);
    }
}

fn names(flags: MetricFlags) -> Vec<&'static str> {
    let all = MetricFlags::all();
    let single = all.iter_names().filter(|(_, flag)| flag.bits().is_power_of_two());
    single.filter(|(_, flag)| flags.contains(*flag)).map(|(name, _)| name).collect()
}

#[test]
fn every_value_is_the_one_by_hand() {
    for streaming in [true, false] {
        let runs = [Run::new(streaming), Run::of_video()];
        let mut seen = [BTreeSet::new(), BTreeSet::new()];
        for row in all_rows() {
            let expected = numbers(if streaming { row.streamed } else { row.plain });
            let metric = Registry::find(row.tag).unwrap();
            let of = usize::from(metric.flags.contains(MetricFlags::PRODUCES_VIDEO_ONLY));
            let got = runs[of].values(metric);
            let what = format!("{} (streaming: {streaming})", row.tag);
            assert_eq!(got.len(), expected.len(), "{what}: {got:?}, expected {expected:?}");
            for (got, expected) in got.iter().zip(&expected) {
                // Instants since the epoch are integer floats, with a precision of 256 ns.
                let tolerance = if row.tag.ends_with("_timestamp") { 1e-3 } else { 1e-12 };
                let off = (got - expected).abs();
                assert!(
                    off <= tolerance * expected.abs().max(1.0),
                    "{what}: {got}, not {expected}"
                );
            }
            if !expected.is_empty() {
                seen[of].insert(row.tag);
            }
        }
        let [run, video] = runs;
        let results: BTreeSet<&str> =
            run.results.iter().map(|result| result.metric.tag.name()).collect();
        assert_eq!(results, seen[0], "streaming: {streaming}");
        assert!(seen[1].iter().all(|name| video.has(MetricTag::find(name).unwrap())));
    }
}

#[test]
fn what_aiperf_has_is_here_or_it_is_said_why_not() {
    const ALL: &str = include_str!("../golden/metrics/aiperf-0.13.txt");
    let have: BTreeSet<&str> =
        Registry::catalogue().iter().map(|metric| metric.tag.name()).collect();
    let mut used = BTreeSet::new();
    for tag in ALL.lines().filter(|line| !line.is_empty() && !line.starts_with('#')) {
        let reason = NOT_KNOWN.iter().find(|(start, _)| tag.starts_with(start));
        let is_listed = reason.is_some();
        used.extend(reason.map(|(start, _)| *start));
        assert!(have.contains(tag) != is_listed, "{tag} is in neither place, or in both");
    }
    assert_eq!(used.len(), NOT_KNOWN.len());
}

#[test]
fn the_listing_names_units_groups_and_flags_as_the_tables_do() {
    let listed: serde_json::Value = serde_json::from_str(&listing::json()).unwrap();
    let rows = all_rows();
    for metric in listed.as_array().unwrap() {
        let row = rows.iter().find(|row| metric["tag"] == row.tag).unwrap();
        assert_eq!(metric["console_group"], row.group);
        assert_eq!(metric["kind"], row.kind);
    }
}

/// Three measured requests.
pub(crate) struct Run {
    pub(crate) measured: Vec<MeasuredRecord>,
    pub(crate) results: Vec<MetricResult>,
    /// Wall time of the start of the first request.
    origin: u64,
}

impl Run {
    /// With everything that settings can enable.
    fn new(streaming: bool) -> Self {
        let objective = Objective { tag: tag::REQUEST_LATENCY, threshold: 65.0 };
        let settings = Settings {
            objectives: vec![objective],
            fixed_schedule: true,
            developer_mode: true,
            ..Settings::default()
        };
        Self::of(EndpointType::CHAT, settings, streaming, &requests(streaming))
    }

    /// The video job in the tables.
    fn of_video() -> Self {
        let job = r#"{"id":"v","status":"completed","inference_time_s":0.75,
            "peak_memory_mb":20480}"#;
        let request = record(START, whole(START, 900.0, job));
        Self::of(EndpointType::VIDEO_GENERATION, Settings::default(), false, &[request])
    }

    pub(crate) fn of(
        endpoint_type: EndpointType,
        settings: Settings,
        streaming: bool,
        requests: &[RequestRecord],
    ) -> Self {
        let registry = Registry::new(settings, endpoint_type.traits(), streaming).unwrap();
        let registry = Arc::new(registry);
        let clock = Clock::start();
        let reader = measurer(endpoint_type, &registry, clock);
        let mut accumulator = Accumulator::new(registry);
        let measured: Vec<_> =
            requests.iter().map(|record| reader.measure(record.clone())).collect();
        for measured in &measured {
            accumulator.observe(&measured.observation);
        }
        accumulator.set_round_trip(Some(ROUND_TRIP_NS));
        Self { measured, results: accumulator.results(), origin: clock.wall_ns(START) }
    }

    pub(crate) fn has(&self, tag: MetricTag) -> bool {
        self.results.iter().any(|result| result.metric.tag == tag)
    }

    /// The values in the notation of the tables.
    fn values(&self, metric: &Metric) -> Vec<f64> {
        if matches!(metric.kind, MetricKind::Record(_) | MetricKind::RecordList(_)) {
            let values = self.measured.iter().filter_map(|m| m.observation.values.get(metric.tag));
            let own: Vec<f64> = values
                .flat_map(|value| match value {
                    Value::Scalar(value) => vec![*value],
                    Value::List(values) => values.clone(),
                })
                .collect();
            return own.into_iter().map(|value| metric.to_display(value)).collect();
        }
        let result = self.results.iter().find(|result| result.metric.tag == metric.tag);
        let Some(MetricResult { stats, .. }) = result else { return Vec::new() };
        vec![match metric.kind {
            MetricKind::Earliest(_) | MetricKind::Latest(_) => {
                (stats.avg - self.origin as f64) / 1e6
            }
            MetricKind::WithFailures(_) => stats.distribution.unwrap().min,
            _ => stats.avg,
        }]
    }
}

/// Round-trip time of the network.
const ROUND_TRIP_NS: f64 = 35e6;

/// Start of the first request.
const START: Nanos = Nanos(5_000_000_000);

fn after(start: Nanos, millis: f64) -> Nanos {
    Nanos(start.0 + (millis * 1e6) as u64)
}

fn measurer(endpoint_type: EndpointType, registry: &Arc<Registry>, clock: Clock) -> Measurer {
    let config = endpoint::Config::new(endpoint_type, true);
    let media = |kind, seconds| {
        let content = MediaContent::Url("http://127.0.0.1/a".into());
        Media { kind, content, seconds, uuid: None }
    };
    let sound = |seconds| media(MediaKinds::AUDIO, Some(seconds));
    let image = || media(MediaKinds::IMAGE, None);
    let turn = |tokens, media| Turn {
        texts: vec!["of so many words".into()],
        media,
        max_tokens: Some(10),
        input_tokens: Some(tokens),
        ..Turn::default()
    };
    let conversation = Conversation {
        system: Some("of five words".into()),
        context_tokens: Some(5),
        turns: vec![
            turn(10, vec![image(), sound(1.5)]),
            turn(6, vec![image(), image(), sound(0.6)]),
        ],
        ..Conversation::default()
    };
    let dataset = Arc::new(Dataset::from_conversations(vec![conversation]));
    let words: Arc<CountTokens> = Arc::new(|text| text.split_whitespace().count() as u64);
    let endpoint = endpoint::build(&config);
    Measurer::new(endpoint, Some(words), dataset, Arc::clone(registry), clock)
}

const FIRST_USAGE: &str = r#""usage":{"prompt_tokens":30,"completion_tokens":8,"total_tokens":38,
    "prompt_cache_miss_tokens":14,"cache_creation_input_tokens":3,"prompt_audio_seconds":1.5,
    "toolUsePromptTokenCount":9,"prompt_tokens_details":{"cached_tokens":16,"audio_tokens":2},
    "completion_tokens_details":{"reasoning_tokens":4,"audio_tokens":1,
    "accepted_prediction_tokens":5,"rejected_prediction_tokens":6}}"#;
const SECOND_USAGE: &str = r#""usage":{"prompt_tokens":25,"completion_tokens":3,
    "total_tokens":28,"prompt_tokens_details":{"cached_tokens":4}}"#;
const REFUSAL: &str =
    r#"{"error":{"message":"This model's Maximum Context is 16 tokens","type":"BadRequest"}}"#;

/// Returns the requests of the tables.
pub(crate) fn requests(streaming: bool) -> Vec<RequestRecord> {
    let second_start = after(START, 100.0);
    let third_start = Nanos(START.0 - 20_000_000);
    let mut first = if streaming {
        let reasoning = r#""delta":{"reasoning_content":"hmm let me"}"#;
        let events = [
            (30.0, choice(reasoning)),
            (50.0, choice(r#""delta":{"content":"Hello"}"#)),
            (70.0, choice(r#""delta":{"content":" wide world"}"#)),
            (70.0, choice(r#""delta":{"content":" !"}"#)),
            (72.0, choice(r#""delta":{},"finish_reason":"stop""#)),
            (75.0, format!(r#"{{"choices":[],{FIRST_USAGE}}}"#)),
            (80.0, "[DONE]".to_owned()),
        ];
        record(START, stream(START, &events))
    } else {
        let message = r#""message":{"reasoning_content":"hmm let me",
            "content":"Hello wide world !"},"finish_reason":"stop""#;
        record(START, whole(START, 75.0, &with_usage(message, FIRST_USAGE)))
    };
    first.due = Some(Nanos(START.0 - 2_000_000));
    first.ack = Some(after(START, 15.0));
    first.trace = new_connection(START);
    let mut second = if streaming {
        let events = [
            (40.0, choice(r#""delta":{"content":"one two"}"#)),
            (60.0, choice(r#""delta":{"content":" three"}"#)),
            (61.0, format!(r#"{{"choices":[{{"finish_reason":"stop"}}],{SECOND_USAGE}}}"#)),
            (70.0, "[DONE]".to_owned()),
        ];
        record(second_start, stream(second_start, &events))
    } else {
        let message = r#""message":{"content":"one two three"},"finish_reason":"stop""#;
        record(second_start, whole(second_start, 60.0, &with_usage(message, SECOND_USAGE)))
    };
    second.due = Some(second_start);
    second.ack = Some(after(second_start, 35.0));
    second.trace = reused_connection(second_start);
    let mut third = record(third_start, whole(third_start, 5.0, REFUSAL));
    third.status = Some(400);
    // The previous turn had failed.
    third.earlier_answers = vec![None];
    vec![first, second, third]
}

fn choice(members: &str) -> String {
    format!(r#"{{"choices":[{{"index":0,{members}}}]}}"#)
}

fn with_usage(message: &str, usage: &str) -> String {
    format!(r#"{{"choices":[{{"index":0,{message}}}],{usage}}}"#)
}

fn new_connection(start: Nanos) -> HttpTrace {
    let at = |millis: f64| Some(Nanos(start.0.wrapping_add_signed((millis * 1e6) as i64)));
    HttpTrace {
        pool_wait_start: at(-9.0),
        pool_wait_end: at(-8.0),
        dns_start: at(-8.0),
        dns_end: at(-6.0),
        connect_start: at(-6.0),
        tls_start: at(-4.0),
        tls_end: at(0.0),
        connect_end: at(0.0),
        send_start: at(0.0),
        headers_sent: at(0.25),
        send_end: at(0.5),
        headers_received: at(15.0),
        receive_start: at(20.5),
        receive_end: at(75.0),
        request_chunks: 2,
        request_bytes: 3072,
        response_chunks: 9,
        response_bytes: 1536,
        ..HttpTrace::default()
    }
}

fn reused_connection(start: Nanos) -> HttpTrace {
    let at = |millis: f64| Some(after(start, millis));
    HttpTrace {
        reused: at(0.0),
        send_start: at(0.0),
        headers_sent: at(1.0),
        send_end: at(1.0),
        headers_received: at(30.0),
        receive_start: at(31.0),
        receive_end: at(61.0),
        request_chunks: 1,
        request_bytes: 1024,
        response_chunks: 4,
        response_bytes: 512,
        ..HttpTrace::default()
    }
}

/// Each event is a line of data.
fn stream(start: Nanos, events: &[(f64, String)]) -> ResponseBody {
    let mut body = ResponseBody { is_event_stream: true, ..ResponseBody::default() };
    for (millis, data) in events {
        let from = body.bytes.len() as u32;
        body.bytes.extend_from_slice(format!("data: {}", data.replace('\n', " ")).as_bytes());
        let arrival = after(start, *millis).into();
        body.events.push(SseEvent { arrival, start: from, end: body.bytes.len() as u32 });
        body.bytes.extend_from_slice(b"\n\n");
    }
    body
}

fn whole(start: Nanos, millis: f64, text: &str) -> ResponseBody {
    let arrival = after(start, millis).into();
    let event = SseEvent { arrival, start: 0, end: text.len() as u32 };
    ResponseBody { bytes: text.as_bytes().to_vec(), is_event_stream: false, events: vec![event] }
}

/// A request for the second turn, which repeats a response; it ends with its last event.
fn record(start: Nanos, body: ResponseBody) -> RequestRecord {
    RequestRecord {
        grown: None,
        turn: TurnId { session: 0, conversation: 0, turn: 1, first: 0, is_final: true },
        phase: PhaseKind::Profiling,
        phase_index: 0,
        worker: 0,
        request_id: Uuid::nil(),
        correlation_id: Uuid::nil(),
        trace_id: Uuid::nil(),
        ancestry: None,
        lane: None,
        held_by: None,
        tenant: None,
        model: "m".into(),
        url: "http://127.0.0.1/v1/chat/completions".into(),
        payload: bytes::Bytes::from_static(br#"{"max_tokens":10}"#),
        earlier_answers: vec![Some("an answer of words".into())],
        due: None,
        due_while_asleep: false,
        free_from: Nanos::ZERO,
        issued: start,
        start,
        sent: Some(start),
        ack: None,
        end: body.events.last().map_or(start, |event| event.arrival.at),
        status: Some(200),
        body,
        trace: HttpTrace::default(),
        server_spans: Vec::new(),
        retry_count: 0,
        cancelled_at: None,
        error: None,
    }
}
