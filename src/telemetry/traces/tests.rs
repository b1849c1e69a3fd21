use bytes::Bytes;
use opentelemetry_proto::tonic::collector::trace::v1::ExportTraceServiceRequest;
use proptest::prelude::*;
use prost::Message as _;
use uuid::Uuid;

use base::environment::Environment;
use base::redact::Secret;
use client::endpoint::{EndpointType, ParsedResponse};
use client::record::{HttpTrace, RequestError, RequestRecord, ResponseBody, TurnId};
use measure::metrics::fixture;
use measure::metrics::metric::Observation;

use super::super::outbox::Head;
use super::super::settings::Settings;
use super::*;

/// A request that the server rejected with `message`.
fn failed(number: u128, kind: ErrorKind, message: &str) -> MeasuredRecord {
    let record = RequestRecord {
        grown: None,
        turn: TurnId::default(),
        phase: PhaseKind::Profiling,
        phase_index: 0,
        worker: 0,
        request_id: Uuid::from_u128(number),
        correlation_id: Uuid::from_u128(1),
        trace_id: Uuid::from_u128(number),
        ancestry: None,
        lane: None,
        held_by: None,
        tenant: None,
        model: "m".into(),
        url: "http://127.0.0.1:8000".into(),
        payload: Bytes::from_static(b"{\"prompt\":\"pr0mpt\"}"),
        earlier_answers: Vec::new(),
        due: None,
        due_while_asleep: false,
        free_from: Nanos(0),
        issued: Nanos(100),
        start: Nanos(200),
        sent: None,
        ack: None,
        end: Nanos(300),
        status: None,
        body: ResponseBody::default(),
        trace: HttpTrace::default(),
        server_spans: Vec::new(),
        retry_count: 0,
        cancelled_at: None,
        error: None,
    };
    let observation = Observation {
        start_wall_ns: 1_000_000_200,
        end_wall_ns: 1_000_000_300,
        error: Some(RequestError::new(kind, "Refused", message)),
        ..fixture::observation()
    };
    MeasuredRecord {
        record,
        response: ParsedResponse::default(),
        observation,
        is_text: true,
        agent: None,
    }
}

fn identity() -> Identity {
    Identity {
        benchmark_id: Uuid::from_u128(7),
        endpoint_type: EndpointType::CHAT,
        models: vec!["m".into()],
        urls: vec!["http://127.0.0.1:8000".into()],
        phases: Vec::new(),
        tenants: Vec::new(),
        info: crate::RunSettings::default(),
        clock: base::units::Clock::start(),
        sweep_id: None,
        shard: None,
    }
}

/// Traces for an address on which nothing listens.
fn traces(sample: &str) -> Traces {
    let sample = sample.parse().unwrap();
    let url = Some("http://127.0.0.1:9".to_owned());
    let config =
        Config { url: url.map(Secret::new), trace_sample: Some(sample), ..Config::default() };
    let settings = Settings::resolve(&config, Environment::new(&|_| None)).unwrap();
    let resource = opentelemetry_sdk::Resource::builder_empty().build();
    let connection = Connection::open(settings.traces.unwrap(), None).unwrap();
    let hour = Duration::from_hours(1);
    let lifecycle = Arc::new(Lifecycle::start(&identity(), None));
    Traces::start(
        connection,
        sample,
        (&config, &identity()),
        lifecycle,
        (&resource, Conventions::default()),
        hour,
    )
}

#[test]
fn failures_beyond_the_bound_are_counted_and_cancellations_are_none() {
    let traces = traces("errors");
    let observe = |measured: &MeasuredRecord| {
        traces.observe(measured, traces.choose(measured), Offers::None);
    };
    for number in 0..1_234 {
        observe(&failed(number + 1, ErrorKind::Http5xx, ""));
    }
    for number in 0..10 {
        observe(&failed(number + 1, ErrorKind::Cancelled, ""));
    }
    let report = traces.finish(Nanos::ZERO, &Interrupt::never());
    let expected =
        TracesReport { sampled: 1_000, lost: 1_000, errors_left_out: 234, ..Default::default() };
    assert_eq!(report, expected);
}

#[test]
fn neither_prompts_nor_the_servers_words_are_in_a_trace() {
    let mut measured = failed(5, ErrorKind::Http4xx, "s3cret was refused");
    // The name is a reason phrase, or the type of an error, of the server.
    measured.record.status = Some(400);
    measured.observation.error.as_mut().unwrap().name = "s3cret refused".to_owned();
    let mut interner = Interner::new(&Config::default(), &identity());
    let flags = TraceFlags { is_sampled: true, is_random: false };
    let phase = Lifecycle::start(&identity(), None).link(0);
    let context = Context {
        flags,
        state: "ot=th:0",
        phase,
        is_below_agent: false,
        api: Some("chat_completions"),
        conventions: Conventions::V1_41,
    };
    let trace = Item::new(&spans::request_spans(&measured, &mut interner, &context), 1);
    let head =
        Head::new((&opentelemetry_sdk::Resource::builder_empty().build(), Conventions::default()));
    let request = head.request(&[trace]);
    for secret in [&b"s3cret"[..], b"pr0mpt"] {
        assert!(memchr::memmem::find(&request, secret).is_none());
    }
    let message = ExportTraceServiceRequest::decode(request).unwrap();
    let spans = &message.resource_spans[0].scope_spans[0].spans;
    assert_eq!(spans.len(), 1);
    assert_eq!(
        (spans[0].start_time_unix_nano, spans[0].end_time_unix_nano),
        (1_000_000_200, 1_000_000_300)
    );
    assert_eq!(spans[0].status.as_ref().unwrap().message, "400 http_4xx");
}

#[test]
fn a_failure_is_named_by_its_status_and_class_or_without_a_response_by_its_name() {
    let mut measured = failed(5, ErrorKind::Other, "");
    let text = |measured: &MeasuredRecord| {
        failure_text(&measured.record, measured.observation.error.as_ref().unwrap())
    };
    assert_eq!(text(&measured), "Refused");
    measured.record.status = Some(200);
    assert_eq!(text(&measured), "200 _OTHER");
    measured.observation.error.as_mut().unwrap().code = Some(502);
    assert_eq!(text(&measured), "502 _OTHER");
}

proptest! {
    #[test]
    fn the_slowest_are_kept_and_those_told_already_take_their_place(
        requests in proptest::collection::vec((0_u64..50, any::<bool>()), 0..60),
        count in 1_usize..10,
    ) {
        let mut slowest = Slowest::new(count);
        for (number, (latency, told)) in requests.iter().enumerate() {
            if slowest.has_place_for(*latency) {
                slowest.put(*latency, (!told).then_some(number));
            }
        }
        let mut sorted: Vec<_> = requests.iter().enumerate().collect();
        // Stable: of equally slow ones the earliest come first.
        sorted.sort_by_key(|(_, (latency, _))| std::cmp::Reverse(*latency));
        let expected: Vec<_> =
            sorted.iter().take(count).filter(|(_, (_, told))| !told).map(|(n, _)| *n).collect();
        prop_assert_eq!(slowest.untold().collect::<Vec<_>>(), expected);
    }
}
