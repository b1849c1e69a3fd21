//! A collector receives the recorded values, whatever its responses.

mod stock_exporter;

use std::collections::{BTreeMap, BTreeSet};
use std::io::Read as _;
use std::net::{SocketAddr, TcpListener};
use std::path::Path;
use std::sync::mpsc;
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::Duration;

use base::environment::Environment;
use base::interrupt::Interrupter;
use base::redact::Secret;
use base::units::{Nanos, Unit};
use bytes::Bytes;
use client::endpoint::{EndpointType, ParsedResponse};
use client::record::{
    Arrival, ErrorKind, HttpTrace, RequestError, RequestRecord, ResponseBody, SseEvent, TurnId,
};
use client::runner::{CpuShares, QueueStats};
use client::schedule::{PhaseKind, PhaseStats};
use measure::metrics::fixture;
use measure::metrics::health::{ClientHealth, Cpu, LoadHealth, OutputHealth, Verdict};
use measure::metrics::metric::{
    ConsoleGroup, Distribution, MeasuredRecord, Metric, MetricFlags, MetricKind, MetricResult,
    Observation, RecordValues, Settings, Stats, Value, ValueType,
};
use measure::metrics::output::Fault;
use measure::metrics::tag::{self, MetricTag};
use measure::metrics::{Accumulator, Health, LoadReport, Registry};
use opentelemetry_proto::tonic::common::v1::KeyValue;
use opentelemetry_proto::tonic::metrics::v1::AggregationTemporality;
use opentelemetry_proto::tonic::metrics::v1::metric::Data;
use proptest::prelude::*;
use serde_norway::Value as Yaml;
use telemetry::{Config, Identity, MetricSet, RunTotals, Streams, Telemetry, TelemetryReport};
use uuid::Uuid;

use crate::support::otlp_receiver::{Answer, OtlpReceiver, Received, attribute, tls_variables};
use crate::support::port::Refusing;
use crate::support::run::is_of_grpc;

/// Long enough for any healthy collector on a loaded machine.
const TIMEOUT: Duration = Duration::from_secs(20);

pub(crate) const fn row(
    tag: MetricTag,
    unit: Unit,
    display_unit: Unit,
    kind: MetricKind,
) -> Metric {
    Metric {
        tag,
        header: tag.name(),
        short_header: tag.name(),
        brief: "For tests",
        formula: "None",
        unit,
        display_unit,
        value_type: ValueType::Float,
        flags: MetricFlags::empty(),
        group: ConsoleGroup::Default,
        order: None,
        requires: &[],
        kind,
    }
}

pub(crate) const RECORD: MetricKind = MetricKind::Record(|_, _| None);
const SUCCEEDED: MetricKind =
    MetricKind::Tally(|request, _| request.error.is_none().then_some(true));
const FAILED: MetricKind = MetricKind::Tally(|request, _| request.error.as_ref().map(|_| true));

static LATENCY: Metric = row(tag::REQUEST_LATENCY, Unit::Nanoseconds, Unit::Milliseconds, RECORD);
static TTFT: Metric = row(tag::TIME_TO_FIRST_TOKEN, Unit::Nanoseconds, Unit::Milliseconds, RECORD);
static ITL: Metric = row(tag::INTER_TOKEN_LATENCY, Unit::Nanoseconds, Unit::Milliseconds, RECORD);
static GAPS: Metric = row(tag::INTER_CHUNK_LATENCY, Unit::Nanoseconds, Unit::Milliseconds, RECORD);
static INPUT: Metric = row(tag::INPUT_SEQUENCE_LENGTH, Unit::Tokens, Unit::Tokens, RECORD);
static OUTPUT: Metric = row(tag::OUTPUT_SEQUENCE_LENGTH, Unit::Tokens, Unit::Tokens, RECORD);
static COUNT: Metric = row(tag::REQUEST_COUNT, Unit::Requests, Unit::Requests, SUCCEEDED);
static ERRORS: Metric = row(tag::ERROR_REQUEST_COUNT, Unit::Requests, Unit::Requests, FAILED);
static RATE: Metric = row(
    tag::REQUEST_THROUGHPUT,
    Unit::RequestsPerSecond,
    Unit::RequestsPerSecond,
    MetricKind::Derived(|_| None),
);
static DURATION: Metric =
    row(tag::BENCHMARK_DURATION, Unit::Nanoseconds, Unit::Seconds, MetricKind::Derived(|_| None));

pub(crate) fn catalogue() -> Vec<&'static Metric> {
    vec![&LATENCY, &TTFT, &ITL, &GAPS, &INPUT, &OUTPUT, &COUNT, &ERRORS, &RATE, &DURATION]
}

pub(crate) fn identity() -> Identity {
    Identity {
        benchmark_id: Uuid::from_u128(7),
        sweep_id: None,
        shard: None,
        endpoint_type: EndpointType::CHAT,
        models: vec!["tiny".into()],
        urls: vec!["http://127.0.0.1:8000".into()],
        phases: Vec::new(),
        tenants: Vec::new(),
        info: telemetry::RunSettings::default(),
        clock: base::units::Clock::start(),
    }
}

/// The configuration that exports all metrics: most tests compare them with what was recorded.
pub(crate) fn exporting_all() -> Config {
    Config { metric_set: MetricSet::Full, ..Config::default() }
}

fn config(url: Option<String>) -> Config {
    // Only the final export, unless a test changes this.
    Config { url: url.map(Secret::new), interval_seconds: 3600.0, ..exporting_all() }
}

/// A configuration that exports to files in `directory`, so that no collector is needed.
fn to_files(directory: &tempfile::TempDir) -> Config {
    Config { files: Some(directory.path().to_owned()), ..config(None) }
}

pub(crate) fn start(config: &Config, variables: &[(&str, &str)]) -> Run {
    let found = |name: &str| {
        let pair = variables.iter().find(|(have, _)| *have == name);
        let is_protocol = name == "OTEL_EXPORTER_OTLP_PROTOCOL";
        let is_grpc =
            is_protocol && config.url.as_ref().is_some_and(|url| is_of_grpc(url.expose()));
        pair.map(|(_, value)| (*value).to_owned()).or_else(|| is_grpc.then(|| "grpc".to_owned()))
    };
    let telemetry =
        Telemetry::start_in(config, &identity(), &catalogue(), Environment::new(&found)).unwrap();
    Run::new(telemetry, &catalogue())
}

/// Telemetry, with the data that files, phases and queue would provide for the same run.
pub(crate) struct Run {
    pub(crate) telemetry: Telemetry,
    registry: Arc<Registry>,
    files: Mutex<Files>,
}

struct Files {
    profiling: Accumulator,
    health: Health,
    phases: BTreeMap<u32, PhaseStats>,
    queue: QueueStats,
    output_faults: u64,
}

impl Run {
    pub(crate) fn new(telemetry: Telemetry, catalogue: &[&'static Metric]) -> Self {
        let traits = EndpointType::CHAT.traits();
        let registry = Registry::from_rows(catalogue, Settings::default(), traits, true).unwrap();
        let registry = Arc::new(registry);
        let files = Files {
            profiling: Accumulator::new(Arc::clone(&registry)),
            health: Health::default(),
            phases: BTreeMap::new(),
            queue: QueueStats::default(),
            output_faults: 0,
        };
        Self { telemetry, registry, files: Mutex::new(files) }
    }

    pub(crate) fn record(&self, measured: &MeasuredRecord) {
        self.export(measured);
        self.keep(measured);
    }

    /// Records only in telemetry.
    fn export(&self, measured: &MeasuredRecord) {
        self.telemetry.record(measured, &self.registry);
    }

    /// Records only in the files.
    pub(crate) fn keep(&self, measured: &MeasuredRecord) {
        let mut files = self.files.lock().unwrap();
        files.profiling.observe(&measured.observation);
        files.health.observe(measured);
        files.output_faults += measured.observation.output.faults.iter().count() as u64;
    }

    pub(crate) fn phase(&self, stats: &PhaseStats) {
        self.telemetry.phase(stats);
        self.files.lock().unwrap().phases.insert(stats.phase_index, *stats);
    }

    pub(crate) fn queue(&self, phase: PhaseKind, stats: &QueueStats) {
        self.telemetry.queue(phase, stats);
        self.files.lock().unwrap().queue = *stats;
    }

    fn totals(&self) -> RunTotals {
        let files = self.files.lock().unwrap();
        let Files { profiling, health, phases, queue, output_faults } = &*files;
        let shares = CpuShares::default();
        RunTotals {
            profiling: profiling.phase_totals(),
            phases: phases.values().copied().collect(),
            queue: *queue,
            output_faults: *output_faults,
            health: health.report(&LoadReport::default(), queue, &shares),
            ..RunTotals::default()
        }
    }

    pub(crate) fn finish(&self, deadline: Duration) -> TelemetryReport {
        self.telemetry.finish(&self.totals(), deadline)
    }
}

/// A request with times in whole milliseconds.
#[derive(Debug)]
pub(crate) struct Request {
    latency_ms: f64,
    first_token_ms: f64,
    token_gap_ms: f64,
    gaps_ms: Vec<f64>,
    input: f64,
    output: f64,
    model: Option<String>,
    error: Option<ErrorKind>,
}

impl Request {
    pub(crate) fn ok(latency_ms: f64, first_token_ms: f64, input: f64, output: f64) -> Self {
        Self {
            latency_ms,
            first_token_ms,
            token_gap_ms: 5.0,
            gaps_ms: vec![4.0, 6.0],
            input,
            output,
            model: Some("tiny-v1".into()),
            error: None,
        }
    }

    pub(crate) fn measured(&self) -> MeasuredRecord {
        let mut values = RecordValues::default();
        if self.error.is_none() {
            values.set(tag::REQUEST_LATENCY, Value::Scalar(self.latency_ms * 1e6));
            values.set(tag::TIME_TO_FIRST_TOKEN, Value::Scalar(self.first_token_ms * 1e6));
            values.set(tag::INTER_TOKEN_LATENCY, Value::Scalar(self.token_gap_ms * 1e6));
            let gaps = self.gaps_ms.iter().map(|gap| gap * 1e6).collect();
            values.set(tag::INTER_CHUNK_LATENCY, Value::List(gaps));
            values.set(tag::INPUT_SEQUENCE_LENGTH, Value::Scalar(self.input));
            values.set(tag::OUTPUT_SEQUENCE_LENGTH, Value::Scalar(self.output));
        }
        let error = self.error.map(|kind| RequestError::new(kind, "Scripted", "for the test"));
        let observation = Observation { error: error.clone(), values, ..fixture::observation() };
        let response = ParsedResponse { model: self.model.clone(), ..ParsedResponse::default() };
        MeasuredRecord {
            record: self.record(error),
            response,
            observation,
            is_text: true,
            agent: None,
        }
    }

    fn record(&self, error: Option<RequestError>) -> RequestRecord {
        let start = Nanos::from_millis(1000.0);
        RequestRecord {
            grown: None,
            turn: TurnId::default(),
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
            url: "http://127.0.0.1:8000/v1/chat/completions".into(),
            payload: Bytes::new(),
            earlier_answers: Vec::new(),
            due: Some(Nanos::from_millis(999.997)),
            due_while_asleep: false,
            free_from: Nanos::ZERO,
            issued: start,
            start,
            sent: Some(start),
            ack: None,
            end: start + Nanos::from_millis(self.latency_ms),
            status: None,
            body: ResponseBody::default(),
            trace: HttpTrace::default(),
            server_spans: Vec::new(),
            retry_count: 0,
            cancelled_at: None,
            error,
        }
    }
}

/// A successful request with its own identifier.
pub(crate) fn request(number: u128) -> MeasuredRecord {
    let mut measured = Request::ok(10.0, 4.0, 16.0, 3.0).measured();
    measured.record.request_id = Uuid::from_u128(number);
    measured.record.trace_id = measured.record.request_id;
    measured
}

/// Three successful requests, and one that timed out after 2 s.
pub(crate) fn four() -> [Request; 4] {
    let failed = Request {
        error: Some(ErrorKind::Timeout),
        model: None,
        ..Request::ok(2000.0, 0.0, 0.0, 0.0)
    };
    [
        Request::ok(10.0, 4.0, 16.0, 3.0),
        Request::ok(100.0, 30.0, 100.0, 65.0),
        Request::ok(90_000.0, 700.0, 17.0, 4096.0),
        failed,
    ]
}

pub(crate) fn record_four(run: &Run) {
    for request in four() {
        run.record(&request.measured());
    }
}

/// Attributes of the successful ones.
const OK: &[(&str, &str)] = &[
    ("gen_ai.operation.name", "chat"),
    ("gen_ai.provider.name", "_OTHER"),
    ("gen_ai.request.model", "tiny"),
    ("gen_ai.response.model", "tiny-v1"),
    ("server.address", "127.0.0.1"),
    ("server.port", "8000"),
    ("aiperf.benchmark_phase", "profiling"),
];

pub(crate) fn close(one: f64, other: f64) {
    assert!((one - other).abs() <= 1e-9 * other.abs(), "{one} is not {other}");
}

/// Asserts the telemetry expected after [`four`], computed by hand.
fn assert_four(received: &Received) {
    let seconds =
        [0.01, 0.02, 0.04, 0.08, 0.16, 0.32, 0.64, 1.28, 2.56, 5.12, 10.24, 20.48, 40.96, 81.92];
    let all = received.metric("gen_ai.client.operation.duration");
    assert_eq!(all.unit, "s");
    let Some(Data::Histogram(histogram)) = &all.data else { panic!("no histogram") };
    assert_eq!(histogram.aggregation_temporality(), AggregationTemporality::Cumulative);
    let (failed, succeeded): (Vec<_>, Vec<_>) = histogram
        .data_points
        .iter()
        .partition(|point| attribute(&point.attributes, "error.type").is_some());
    assert_eq!((failed.len(), succeeded.len()), (1, 1));

    let point = succeeded[0];
    assert_eq!(point.explicit_bounds, seconds);
    // 10 ms is in the first bucket (bounds are inclusive), 100 ms in (0.08, 0.16],
    // 90 s above all.
    assert_eq!(point.bucket_counts, [1, 0, 0, 0, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1]);
    assert_eq!(point.count, 3);
    close(point.sum.unwrap(), 90.11);
    assert_eq!((point.min, point.max), (Some(0.01), Some(90.0)));
    for (key, value) in OK {
        assert_eq!(attribute(&point.attributes, key).as_deref(), Some(*value), "{key}");
    }
    let point = failed[0];
    assert_eq!(attribute(&point.attributes, "error.type").as_deref(), Some("timeout"));
    assert_eq!((point.count, point.sum), (1, Some(2.0)));

    let first = received.histogram("gen_ai.client.operation.time_to_first_chunk", OK);
    assert_eq!(first.explicit_bounds, seconds);
    // 4 ms, 30 ms in (0.02, 0.04], 700 ms in (0.64, 1.28].
    assert_eq!(first.bucket_counts, [1, 0, 1, 0, 0, 0, 0, 1, 0, 0, 0, 0, 0, 0, 0]);
    close(first.sum.unwrap(), 0.734);
    let between = received.histogram("gen_ai.client.operation.time_per_output_chunk", OK);
    assert_eq!(between.count, 3);
    close(between.sum.unwrap(), 0.015);
    assert_tokens(received);
    assert_own(received);
}

fn assert_tokens(received: &Received) {
    let with = |kind| [OK, &[("gen_ai.token.type", kind)]].concat();
    let input = received.histogram("gen_ai.client.token.usage", &with("input"));
    assert_eq!(input.explicit_bounds[..4], [1.0, 4.0, 16.0, 64.0]);
    assert_eq!(input.explicit_bounds[13], 67_108_864.0);
    // 16 in (4, 16], 17 in (16, 64], 100 in (64, 256].
    assert_eq!(input.bucket_counts, [0, 0, 1, 1, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0]);
    assert_eq!((input.count, input.sum), (3, Some(133.0)));
    let output = received.histogram("gen_ai.client.token.usage", &with("output"));
    // 3 in (1, 4], 65 in (64, 256], 4096 in (1024, 4096].
    assert_eq!(output.bucket_counts, [0, 1, 0, 0, 1, 0, 1, 0, 0, 0, 0, 0, 0, 0, 0]);
    assert_eq!((output.count, output.sum), (3, Some(4164.0)));
}

fn assert_own(received: &Received) {
    let latency = received.histogram("aiperf.request_latency", OK);
    assert_eq!(latency.count, 3);
    close(latency.sum.unwrap(), 90.11);
    assert_eq!(latency.explicit_bounds, LATENCY.instrument().unwrap().spec.boundaries);
    // The values of a list are recorded one by one: three requests with two gaps each.
    let gaps = received.histogram("aiperf.inter_chunk_latency", OK);
    assert_eq!(gaps.count, 6);
    close(gaps.sum.unwrap(), 0.030);
    assert_eq!(received.number("aiperf.request_count", OK), 3.0);
    assert_eq!(received.number("aiperf.error_request_count", &[("error.type", "timeout")]), 1.0);
    // Every request was 3 µs late, in (2 µs, 5 µs].
    let slip = received.histogram("aiperf.client.schedule_slip", OK);
    assert_eq!((slip.count, slip.bucket_counts[2]), (3, 3));
    close(slip.sum.unwrap(), 9e-6);
}

pub(crate) fn assert_delivered(report: &TelemetryReport) {
    assert_eq!(report.discrepancies, Vec::<String>::new());
    assert!(report.reconciled && report.delivered_final, "{report:?}");
}

#[test]
fn a_grpc_collector_receives_what_was_recorded() {
    let collector = OtlpReceiver::grpc();
    let run = start(&config(Some(collector.url())), &[]);
    record_four(&run);
    let report = run.finish(TIMEOUT);
    assert_four(&collector.last());
    assert_delivered(&report);
    assert_eq!((report.exports_ok, report.exports_failed, report.rejected_data_points), (1, 0, 0));
    assert_eq!(report.endpoint, Some(format!("{}/", collector.url())));
}

/// Behaves like the thread that stores scrapes if its last one takes too long.
#[test]
fn the_final_values_go_out_though_another_still_holds_the_telemetry() {
    let collector = OtlpReceiver::grpc();
    let run = Arc::new(start(&config(Some(collector.url())), &[]));
    record_four(&run);
    let held = Arc::clone(&run);
    assert_delivered(&run.finish(TIMEOUT));
    assert_four(&collector.last());
    drop(held);
    assert_eq!(collector.taken().len(), 1);
}

#[test]
fn an_http_collector_receives_what_was_recorded() {
    let collector = OtlpReceiver::http();
    let variables = [
        ("OTEL_EXPORTER_OTLP_ENDPOINT", collector.url()),
        ("OTEL_EXPORTER_OTLP_PROTOCOL", "http/protobuf".into()),
        ("OTEL_EXPORTER_OTLP_COMPRESSION", "gzip".into()),
        ("OTEL_EXPORTER_OTLP_HEADERS", "x-key=hunter2".into()),
    ];
    let variables: Vec<_> = variables.iter().map(|(k, v)| (*k, v.as_str())).collect();
    let run = start(&config(None), &variables);
    record_four(&run);
    let report = run.finish(TIMEOUT);
    assert_four(&collector.last());
    assert_delivered(&report);
    let export = &collector.taken()[0];
    assert_eq!(export.header("content-encoding"), Some("gzip"));
    assert_eq!(export.header("content-type"), Some("application/x-protobuf"));
    assert_eq!(export.header("x-key"), Some("hunter2"));
    assert!(export.header("user-agent").is_some_and(is_exporter));
    assert!(!format!("{report:?}").contains("hunter2"));
}

#[test]
fn grpc_bears_headers_and_compression() {
    let collector = OtlpReceiver::grpc();
    let variables =
        [("OTEL_EXPORTER_OTLP_COMPRESSION", "gzip"), ("OTEL_EXPORTER_OTLP_HEADERS", "x-key=k")];
    let run = start(&config(Some(collector.url())), &variables);
    record_four(&run);
    assert_delivered(&run.finish(TIMEOUT));
    let export = &collector.taken()[0];
    assert_eq!(export.header("x-key"), Some("k"));
    assert_eq!(export.header("grpc-encoding"), Some("gzip"));
    assert!(export.header("user-agent").is_some_and(is_exporter));
}

/// Returns whether the user agent is that of the exporter specification, after the program's name.
fn is_exporter(agent: &str) -> bool {
    let rest = agent.strip_prefix(concat!("aiperf/", env!("CARGO_PKG_VERSION"), " "));
    let version = rest.and_then(|rest| rest.strip_prefix("OTel-OTLP-Exporter-Rust/"));
    version.is_some_and(|version| version.starts_with(|first: char| first.is_ascii_digit()))
}

#[test]
fn the_resource_says_what_ran_and_flags_override() {
    let collector = OtlpReceiver::grpc();
    let attributes = vec![("deployment".into(), "flag".into()), ("os.type".into(), "mine".into())];
    let config = Config { resource_attributes: attributes, ..config(Some(collector.url())) };
    let variables = [
        ("OTEL_RESOURCE_ATTRIBUTES", "deployment=env,team=a%20b,service.name=env"),
        ("OTEL_SERVICE_NAME", "bench"),
    ];
    let run = start(&config, &variables);
    run.record(&four()[0].measured());
    assert_delivered(&run.finish(TIMEOUT));
    let received = collector.last();
    let id = Uuid::from_u128(7).to_string();
    for (key, value) in [
        ("service.name", "bench"),
        ("aiperf.benchmark.id", &id),
        ("aiperf.endpoint.type", "chat"),
        ("aiperf.model.name", "tiny"),
        ("deployment", "flag"),
        ("team", "a b"),
        ("os.type", "mine"),
    ] {
        assert_eq!(received.resource(key).as_deref(), Some(value), "{key}");
    }
    assert!(received.resource("host.name").is_some_and(|name| !name.is_empty()));
}

#[test]
fn failures_beyond_the_bound_have_no_event_and_are_counted() {
    let collector = OtlpReceiver::grpc();
    let run = start(&config(Some(collector.url())), &[]);
    let [_, _, _, failed] = four();
    for _ in 0..1_234 {
        run.record(&failed.measured());
    }
    let logs = run.finish(TIMEOUT).logs.unwrap();
    assert_eq!((logs.failures_left_out, logs.lost), (234, 0));
    // The run started and ended.
    assert_eq!(logs.sent, 1_002);
}

#[test]
fn without_a_collector_or_files_nothing_is_recorded_or_compared() {
    let run = start(&config(None), &[]);
    record_four(&run);
    // Only the files have this one twice.
    run.keep(&four()[0].measured());
    run.phase(&snapshot(2, 1, 0.5));
    let report = run.finish(TIMEOUT);
    assert_eq!(report.discrepancies, Vec::<String>::new());
    assert!(!report.delivered_final && report.endpoint.is_none());
    assert_eq!((report.exports_ok, report.exports_failed), (0, 0));
}

#[test]
fn what_refused_exports_missed_is_in_the_next() {
    let collector = OtlpReceiver::grpc().always(Answer::Refuse);
    let config = Config { interval_seconds: 0.02, ..config(Some(collector.url())) };
    let run = start(&config, &[]);
    let [first, second, third, failed] = four();
    run.record(&first.measured());
    run.record(&second.measured());
    collector.wait_for_exports(2);
    collector.now(Answer::Take);
    run.record(&third.measured());
    run.record(&failed.measured());
    let report = run.finish(TIMEOUT);
    assert_four(&collector.last());
    assert_delivered(&report);
    assert!(report.exports_failed >= 2, "{report:?}");
}

#[test]
fn a_collector_that_asks_for_a_retry_gets_one() {
    for collector in [OtlpReceiver::grpc(), OtlpReceiver::http()] {
        let collector = collector.first([Answer::Unavailable]);
        let protocol = if collector.is_grpc() { "grpc" } else { "http/protobuf" };
        let variables = [("OTEL_EXPORTER_OTLP_PROTOCOL", protocol)];
        let run = start(&config(Some(collector.url())), &variables);
        record_four(&run);
        let report = run.finish(TIMEOUT);
        assert_four(&collector.last());
        assert_delivered(&report);
        // The final one, and the early one if the machine was slow.
        assert!((1..=2).contains(&report.exports_ok), "{protocol}: {report:?}");
        assert_eq!(report.exports_failed, 1, "{protocol}");
    }
}

#[test]
fn what_a_collector_refuses_for_good_is_not_sent_again_and_again() {
    for collector in [OtlpReceiver::grpc(), OtlpReceiver::http()] {
        let collector = collector.always(Answer::Refuse);
        let protocol = if collector.is_grpc() { "grpc" } else { "http/protobuf" };
        let variables = [("OTEL_EXPORTER_OTLP_PROTOCOL", protocol)];
        let run = start(&config(Some(collector.url())), &variables);
        record_four(&run);
        let report = run.finish(TIMEOUT);
        // The final one, and the early one if the machine was slow.
        assert!((1..=2).contains(&report.exports_failed), "{protocol}: {report:?}");
        assert!(!report.delivered_final && report.reconciled, "{report:?}");
    }
}

#[test]
fn the_first_record_is_told_soon_however_long_the_interval_is() {
    let collector = OtlpReceiver::grpc();
    let run = start(&config(Some(collector.url())), &[]);
    run.record(&four()[0].measured());
    collector.wait_for_exports(1);
    assert_eq!(collector.last().number("aiperf.request_count", OK), 1.0);
    record_four(&run);
    let report = run.finish(TIMEOUT);
    assert_delivered(&report);
    assert_eq!(collector.last().number("aiperf.request_count", OK), 4.0);
    assert_eq!(report.exports_ok, 2);
}

#[test]
fn a_collector_that_fails_is_not_waited_for_until_the_deadline() {
    let collector = OtlpReceiver::grpc().always(Answer::Hang);
    let config =
        Config { interval_seconds: 0.02, timeout_seconds: 0.1, ..config(Some(collector.url())) };
    let run = start(&config, &[]);
    record_four(&run);
    collector.wait_for_exports(3);
    let began = std::time::Instant::now();
    let report = run.finish(Duration::from_hours(1));
    assert!(!report.delivered_final && report.reconciled, "{report:?}");
    // Two seconds, enough for any machine that makes progress.
    assert!(began.elapsed() < TIMEOUT, "{:?}", began.elapsed());
}

#[test]
fn the_final_export_ends_when_it_is_given_up() {
    let collector = OtlpReceiver::grpc().always(Answer::Hang);
    let config = Config { timeout_seconds: 3600.0, ..config(Some(collector.url())) };
    let run = start(&config, &[]);
    record_four(&run);
    let interrupter = Interrupter::default();
    let interrupt = interrupter.interrupt();
    let report = thread::scope(|scope| {
        scope.spawn(|| {
            collector.wait_for_exports(1);
            interrupter.signal();
        });
        run.telemetry.finish_unless(&run.totals(), Duration::from_hours(1), &interrupt)
    });
    assert!(!report.delivered_final && report.reconciled, "{report:?}");
}

/// Accepts connections and closes them, like a collector that is restarting. The listener is sent
/// afterwards, since another test may be given the port of a closed one.
fn cut_connections(count: usize) -> (SocketAddr, mpsc::Receiver<TcpListener>) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    let (done, wait) = mpsc::channel();
    thread::spawn(move || {
        for _ in 0..count {
            let (mut stream, _) = listener.accept().unwrap();
            let _ = stream.read(&mut [0; 1]);
        }
        done.send(listener).unwrap();
    });
    (address, wait)
}

#[test]
fn a_collector_that_comes_back_has_the_whole_run() {
    let (address, cut) = cut_connections(2);
    let config = Config { interval_seconds: 0.02, ..config(Some(format!("http://{address}"))) };
    let run = start(&config, &[]);
    let [first, second, third, failed] = four();
    run.record(&first.measured());
    run.record(&second.measured());
    let collector = OtlpReceiver::grpc_on(cut.recv_timeout(TIMEOUT).unwrap());
    run.record(&third.measured());
    run.record(&failed.measured());
    let report = run.finish(TIMEOUT);
    assert_four(&collector.last());
    assert_delivered(&report);
}

#[test]
fn no_collector_at_the_address_fails_nothing() {
    let refusing = Refusing::new();
    for url in [refusing.url(), format!("{}/v1/metrics", refusing.url())] {
        let run = start(&config(Some(url)), &[]);
        record_four(&run);
        let report = run.finish(TIMEOUT);
        assert!(report.reconciled && !report.delivered_final, "{report:?}");
        // The final export is retried for a while.
        assert!(report.exports_ok == 0 && report.exports_failed >= 1, "{report:?}");
    }
}

#[test]
fn a_collector_that_hangs_is_given_up_at_the_deadline() {
    for collector in [OtlpReceiver::grpc(), OtlpReceiver::http()] {
        let collector = collector.always(Answer::Hang);
        let protocol = if collector.is_grpc() { "grpc" } else { "http/protobuf" };
        let config = Config {
            interval_seconds: 0.02,
            // Far beyond the deadline: the test only ends if telemetry gives up.
            timeout_seconds: 3600.0,
            ..config(Some(collector.url()))
        };
        let run = start(&config, &[("OTEL_EXPORTER_OTLP_PROTOCOL", protocol)]);
        record_four(&run);
        collector.wait_for_exports(1);
        // The current export does not contain this one.
        run.phase(&snapshot(2, 1, 0.5));
        let report = run.finish(Duration::from_millis(200));
        assert!(report.reconciled && !report.delivered_final, "{report:?}");
        assert_eq!(report.exports_ok, 0);
    }
}

#[test]
fn a_hanging_collector_is_left_after_its_timeout() {
    let collector = OtlpReceiver::grpc().first([Answer::Hang]);
    let config =
        Config { interval_seconds: 0.02, timeout_seconds: 0.3, ..config(Some(collector.url())) };
    let run = start(&config, &[]);
    record_four(&run);
    collector.wait_for_exports(2);
    let report = run.finish(TIMEOUT);
    assert_four(&collector.last());
    assert_delivered(&report);
}

#[test]
fn rejected_points_are_counted() {
    for collector in [OtlpReceiver::grpc(), OtlpReceiver::http()] {
        let collector = collector.always(Answer::Reject(5));
        let protocol = if collector.is_grpc() { "grpc" } else { "http/protobuf" };
        let run =
            start(&config(Some(collector.url())), &[("OTEL_EXPORTER_OTLP_PROTOCOL", protocol)]);
        run.record(&four()[0].measured());
        let report = run.finish(TIMEOUT);
        assert_eq!((report.exports_ok, report.rejected_data_points), (1, 5), "{protocol}");
    }
}

#[test]
fn exponential_histograms_have_the_same_counts_and_sums() {
    let collector = OtlpReceiver::grpc();
    let config = Config { exponential_histograms: Some(true), ..config(Some(collector.url())) };
    let run = start(&config, &[]);
    for n in 1..=1000 {
        run.record(&Request::ok(f64::from(n) * 7.3, f64::from(n) * 0.11, 16.0, 3.0).measured());
    }
    let report = run.finish(TIMEOUT);
    assert_delivered(&report);
    let received = collector.last();
    let latency = received.exponential("aiperf.request_latency", OK);
    assert_eq!(latency.count, 1000);
    // 7.3 ms · 1000 · 1001 / 2
    close(latency.sum.unwrap(), 3653.65);
    let buckets = latency.positive.as_ref().unwrap();
    assert_eq!(buckets.bucket_counts.iter().sum::<u64>(), 1000);
    assert!(buckets.bucket_counts.len() <= 160);
    // The largest value, 7.3 s, lies in the last bucket: (b^i, b^(i+1)].
    let base = 2f64.powf(2f64.powi(-latency.scale));
    let last = buckets.offset + i32::try_from(buckets.bucket_counts.len()).unwrap() - 1;
    assert!(base.powi(last) < 7.3 && 7.3 <= base.powi(last + 1));
}

#[test]
fn many_threads_record_at_once() {
    let collector = OtlpReceiver::grpc();
    let config = Config { interval_seconds: 0.005, ..config(Some(collector.url())) };
    let run = start(&config, &[]);
    thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(|| {
                for n in 1..=500 {
                    run.record(&Request::ok(f64::from(n), 1.0, f64::from(n), 2.0).measured());
                }
            });
        }
    });
    assert_delivered(&run.finish(TIMEOUT));
    let received = collector.last();
    assert_eq!(received.number("aiperf.request_count", OK), 2000.0);
    // 4 · (1 + … + 500) ms
    close(received.histogram("aiperf.request_latency", OK).sum.unwrap(), 501.0);
}

#[test]
fn a_server_that_invents_model_names_does_not_overflow() {
    let collector = OtlpReceiver::grpc();
    let run = start(&config(Some(collector.url())), &[]);
    for n in 0..100 {
        let model = Some(format!("model-{n}"));
        run.record(&Request { model, ..Request::ok(10.0, 4.0, 16.0, 3.0) }.measured());
    }
    assert_delivered(&run.finish(TIMEOUT));
    let received = collector.last();
    let Some(Data::Sum(sum)) = &received.metric("aiperf.request_count").data else { panic!() };
    assert_eq!(sum.data_points.len(), 17);
    let of = |model| received.number("aiperf.request_count", &[("gen_ai.response.model", model)]);
    assert_eq!((of("model-15"), of("_OTHER")), (1.0, 84.0));
}

pub(crate) fn snapshot(sent: u64, completed: u64, seconds: f64) -> PhaseStats {
    PhaseStats {
        phase: PhaseKind::Profiling,
        phase_index: 1,
        start: Nanos(1_000),
        now: Nanos(1_000) + Nanos::from_seconds(seconds),
        requests_sent: sent,
        requests_returned: completed,
        requests_completed: completed,
        ..PhaseStats::default()
    }
}

#[test]
fn phases_are_told_as_differences() {
    let collector = OtlpReceiver::grpc();
    let run = start(&config(Some(collector.url())), &[]);
    let warmup = |sent, seconds| PhaseStats {
        phase: PhaseKind::Warmup,
        phase_index: 0,
        ..snapshot(sent, sent, seconds)
    };
    run.phase(&warmup(3, 0.25));
    run.phase(&snapshot(4, 1, 0.5));
    run.phase(&snapshot(4, 1, 0.5));
    run.phase(&PhaseStats { was_cancelled: true, ..snapshot(9, 9, 2.0) });
    assert_delivered(&run.finish(TIMEOUT));

    let received = collector.last();
    let profiling = [
        ("gen_ai.operation.name", "chat"),
        ("gen_ai.provider.name", "_OTHER"),
        ("gen_ai.request.model", "tiny"),
        ("aiperf.benchmark_phase", "profiling"),
    ];
    let of = |name: &str| received.number(&format!("aiperf.timing.{name}"), &profiling);
    assert_eq!(of("requests.sent"), 9.0);
    assert_eq!(of("requests.completed"), 9.0);
    // 3 were in flight, then none: +3, -3.
    assert_eq!(of("requests.in_flight"), 0.0);
    assert_eq!(of("phase.elapsed_sec"), 2.0);
    assert_eq!(of("phase.was_cancelled"), 1.0);
    let warm =
        received.number("aiperf.timing.requests.sent", &[("aiperf.benchmark_phase", "warmup")]);
    assert_eq!(warm, 3.0);
    // A counter that is always zero is not exported.
    assert!(received.metrics().iter().all(|m| m.name != "aiperf.timing.requests.errors"));
}

#[test]
fn a_phase_of_the_same_kind_starts_from_zero() {
    let collector = OtlpReceiver::grpc();
    let run = start(&config(Some(collector.url())), &[]);
    run.phase(&snapshot(5, 5, 1.0));
    run.phase(&PhaseStats { phase_index: 2, ..snapshot(2, 2, 1.0) });
    assert_delivered(&run.finish(TIMEOUT));
    assert_eq!(collector.last().number("aiperf.timing.requests.sent", &[]), 7.0);
}

#[test]
fn streams_can_be_left_out() {
    for (metrics, timing) in [(true, false), (false, true)] {
        let collector = OtlpReceiver::grpc();
        let streams = Streams { metrics, timing };
        let run = start(&Config { streams, ..config(Some(collector.url())) }, &[]);
        run.record(&four()[0].measured());
        run.phase(&snapshot(1, 1, 1.0));
        run.queue(PhaseKind::Profiling, &queue(1, 1));
        run.telemetry.health(PhaseKind::Profiling, &health());
        assert_delivered(&run.finish(TIMEOUT));
        let received = collector.last();
        let is_timing = |name: &str| name.starts_with("aiperf.timing.");
        assert!(received.metrics().iter().all(|metric| is_timing(&metric.name) == timing));
    }
}

#[test]
fn results_are_gauges_and_infinite_ones_are_listed() {
    let collector = OtlpReceiver::grpc();
    let run = start(&config(Some(collector.url())), &[]);
    let single = |metric, avg| MetricResult { metric, stats: Stats { avg, ..Stats::default() } };
    let distribution = Some(Distribution { p50: 20.0, p99: 400.0, ..Distribution::default() });
    let results = [
        single(&DURATION, 12.5),
        single(&RATE, f64::NAN),
        single(&COUNT, 3.0),
        MetricResult { metric: &LATENCY, stats: Stats { avg: 50.0, instant: None, distribution } },
    ];
    run.telemetry.results(PhaseKind::Profiling, None, &results);
    let report = run.finish(TIMEOUT);
    assert_delivered(&report);
    assert_eq!(report.not_exported, ["aiperf.request_throughput"]);

    let received = collector.last();
    assert_eq!(received.metric("aiperf.benchmark_duration").unit, "s");
    close(received.number("aiperf.benchmark_duration", &[]), 12.5);
    let percentile = |p| {
        let with = [("aiperf.percentile", p), ("aiperf.benchmark_phase", "profiling")];
        received.number("aiperf.percentiles.request_latency", &with)
    };
    // 20 and 400 ms.
    close(percentile("50"), 0.02);
    close(percentile("99"), 0.4);
    // A count that requests already export as a counter.
    assert!(received.metrics().iter().all(|metric| metric.name != "aiperf.request_count"));
}

/// The hand-written registry: every metric with its kind, unit and required attributes.
fn registry() -> BTreeMap<String, (String, String, BTreeSet<String>)> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let read = |path: &str| -> Yaml {
        serde_norway::from_str(&std::fs::read_to_string(root.join(path)).unwrap()).unwrap()
    };
    let text = |of: &Yaml, key: &str| of[key].as_str().unwrap().to_owned();
    let files = ["gen-ai", "aiperf-timing", "aiperf-client"];
    let files: Vec<Yaml> = files.iter().map(|f| read(&format!("semconv/{f}.yaml"))).collect();
    let required = |of: &Yaml| -> BTreeSet<String> {
        let list = of["attributes"].as_sequence().unwrap().iter();
        list.filter(|a| a["requirement_level"].as_str() == Some("required"))
            .map(|a| text(a, "ref"))
            .collect()
    };
    let groups: BTreeMap<String, BTreeSet<String>> = files[0]["attribute_groups"]
        .as_sequence()
        .unwrap()
        .iter()
        .map(|group| (text(group, "id"), required(group)))
        .collect();

    let mut metrics = BTreeMap::new();
    for metric in files.iter().filter_map(|file| file["metrics"].as_sequence()).flatten() {
        let group = text(&metric["attributes"][0], "ref_group");
        let row = (text(metric, "instrument"), text(metric, "unit"), groups[&group].clone());
        metrics.insert(text(metric, "name"), row);
    }
    let imported = files[0]["imports"]["metrics"].as_sequence().unwrap();
    let conventions = read("tests/golden/semconv-1.41.1/gen-ai-metrics.yaml");
    for group in conventions["groups"].as_sequence().unwrap() {
        if imported.contains(&group["metric_name"]) {
            let mut attributes = groups["aiperf.request.attributes"].clone();
            if let Some(own) = group.get("attributes") {
                attributes.extend(required(&Yaml::Mapping(
                    [("attributes".into(), own.clone())].into_iter().collect(),
                )));
            }
            let row = (text(group, "instrument"), text(group, "unit"), attributes);
            metrics.insert(text(group, "metric_name"), row);
        }
    }
    metrics
}

/// The kind as in the registry, and the attributes of every point.
fn kind_and_points(data: &Data) -> (&'static str, Vec<&Vec<KeyValue>>) {
    match data {
        Data::Gauge(gauge) => {
            ("gauge", gauge.data_points.iter().map(|point| &point.attributes).collect())
        }
        Data::Sum(sum) => (
            if sum.is_monotonic { "counter" } else { "updowncounter" },
            sum.data_points.iter().map(|point| &point.attributes).collect(),
        ),
        Data::Histogram(histogram) => {
            ("histogram", histogram.data_points.iter().map(|point| &point.attributes).collect())
        }
        other => panic!("unexpected {other:?}"),
    }
}

pub(crate) fn queue(bytes: usize, spilled_records: u64) -> QueueStats {
    QueueStats { bytes, spilled_records, ..QueueStats::default() }
}

fn load_health() -> LoadHealth {
    let interval = |value: f64| serde_json::json!({"value": value, "low": 1.0, "high": 50.0});
    let load = serde_json::json!({
        "verdict": "saturated", "offered_rate": 122.0, "served_rate": 81.0, "since_seconds": 0.4,
        "queue_slope": interval(41.0), "latency_drift_percent": interval(20.0),
    });
    serde_json::from_value(load).unwrap()
}

fn health() -> ClientHealth {
    let reason = serde_json::json!({"verdict": "suspect", "finding": "it was slow", "advice": "-"});
    let reason = serde_json::from_value(reason).unwrap();
    let bound = |below, above| {
        serde_json::json!({
            "value": 90.0, "below": below, "above": above, "sample_below": 2.5, "sample_above": 10.0
        })
    };
    let bounds = serde_json::json!({
        "time_to_first_token": {"count": 2, "avg": bound(0.5, 0.5), "p50": bound(1.0, 0.5), "p99": bound(3.0, 4.0)},
        "inter_token_latency": {"count": 2, "avg": bound(0.5, 0.5), "p50": bound(0.0, 0.0), "p99": bound(0.0, 0.25)},
        "request_latency": {"count": 2, "avg": bound(0.5, 0.5), "p50": bound(2.0, 0.0), "p99": bound(2.5, 0.0)},
    });
    let rates = serde_json::json!({"below_percent": 1.0, "above_percent": 25.0});
    ClientHealth {
        verdict: Some(Verdict::Suspect),
        cpu: Some(Cpu { workers: 2, worker_max: 0.75, worker_mean: 0.5, process: 1.25, cores: 2 }),
        rate_ratio: Some(0.9),
        error_bounds_ms: serde_json::from_value(bounds).unwrap(),
        throughput_bounds: serde_json::from_value(rates).unwrap(),
        reasons: vec![reason],
        ..ClientHealth::default()
    }
}

/// Asserts the telemetry expected after two events, two samples of the queue and [`health`].
fn assert_health(received: &Received) {
    // 30 µs in (20 µs, 50 µs], 400 µs in (200 µs, 500 µs], twice each.
    let lag = received.histogram("aiperf.client.read_lag", OK);
    assert_eq!((lag.count, lag.bucket_counts[5]), (2, 2));
    close(lag.sum.unwrap(), 60e-6);
    let uncertainty = received.histogram("aiperf.client.stamp_uncertainty", OK);
    assert_eq!((uncertainty.count, uncertainty.bucket_counts[8]), (2, 2));
    close(uncertainty.sum.unwrap(), 800e-6);
    let of = |name: &str| {
        received
            .number(&format!("aiperf.client.{name}"), &[("aiperf.benchmark_phase", "profiling")])
    };
    assert_eq!((of("queue.size"), of("queue.spilled")), (5_000.0, 8.0));
    assert_eq!((of("cpu.utilization"), of("worker.cpu.utilization")), (1.25, 0.75));
    assert_eq!((of("rate.ratio"), of("verdict")), (0.9, 1.0));
    assert_eq!(of("error_bound.throughput"), 0.25);
    let bound = |metric: &str, percentile: &str| {
        let name = format!("aiperf.client.error_bound.{metric}");
        received.number(&name, &[("aiperf.percentile", percentile)])
    };
    assert_eq!(bound("time_to_first_token", "50"), 1e-3);
    assert_eq!(bound("time_to_first_token", "99"), 4e-3);
    assert_eq!(bound("inter_token_latency", "99"), 0.25e-3);
    assert_eq!(bound("request_latency", "99"), 2.5e-3);
    let end = |metric: &str, end: &str| {
        let name = format!("aiperf.sample_interval.{metric}");
        received.number(&name, &[("aiperf.percentile", "99"), ("aiperf.interval.end", end)])
    };
    assert_eq!(
        (end("time_to_first_token", "lower"), end("request_latency", "upper")),
        (0.0875, 0.1)
    );
    let finding = [("aiperf.client.finding", "it was slow")];
    assert_eq!(received.number("aiperf.client.verdict.reason", &finding), 1.0);
}

#[test]
fn everything_received_is_as_the_registry_says() {
    let collector = OtlpReceiver::grpc();
    let trace_sample = "errors".parse().ok();
    let run = start(&Config { trace_sample, ..config(Some(collector.url())) }, &[]);
    record_four(&run);
    let mut retried = four()[0].measured();
    retried.record.retry_count = 1;
    retried.observation.output.faults.insert(Fault::Blank);
    retried.record.trace.socket_reads = 2;
    retried.record.trace.kernel_stamps = 1;
    let arrival = Arrival { at: Nanos(1), read_lag: 30_000, uncertainty: 400_000 };
    retried.record.body.events = vec![SseEvent { arrival, start: 0, end: 0 }; 2];
    run.record(&retried);
    // Every timing instrument changes.
    run.phase(&PhaseStats {
        requests_cancelled: 1,
        request_errors: 1,
        sessions_sent: 5,
        sessions_completed: 1,
        sessions_failed: 1,
        sessions_cancelled: 1,
        session_turns_total: 4,
        timeout_triggered: true,
        grace_timeout_triggered: true,
        was_cancelled: true,
        ..snapshot(4, 2, 1.0)
    });
    run.queue(PhaseKind::Profiling, &queue(4_000, 3));
    run.queue(PhaseKind::Profiling, &queue(5_000, 8));
    run.telemetry.health(PhaseKind::Profiling, &health());
    run.telemetry.load_health(Some(&load_health()));
    let suspect = OutputHealth { verdict: Some(Verdict::Suspect), ..OutputHealth::default() };
    run.telemetry.output_health(Some(&suspect));
    assert_delivered(&run.finish(TIMEOUT));

    let registry = registry();
    let received = collector.last();
    assert_health(&received);
    let own: BTreeSet<String> = catalogue().iter().map(|m| format!("aiperf.{}", m.tag)).collect();
    let mut seen = BTreeSet::new();
    for metric in received.metrics() {
        if own.contains(&metric.name) {
            continue;
        }
        let (kind, unit, required) =
            registry.get(&metric.name).unwrap_or_else(|| panic!("{} is unknown", metric.name));
        let (have, points) = kind_and_points(metric.data.as_ref().unwrap());
        assert_eq!((have, &metric.unit), (kind.as_str(), unit), "{}", metric.name);
        for attributes in points {
            let keys: BTreeSet<&String> = attributes.iter().map(|pair| &pair.key).collect();
            assert!(required.iter().all(|key| keys.contains(key)), "{}: {keys:?}", metric.name);
        }
        seen.insert(metric.name.clone());
    }
    // Conversely, everything in it is emitted.
    assert_eq!(seen, registry.into_keys().collect());
}

#[test]
fn grpc_over_tls_trusts_the_given_authority_and_shows_our_certificate() {
    let collector = OtlpReceiver::grpc_tls();
    let files = tls_variables();
    let variables: Vec<_> = files.iter().map(|(k, v)| (*k, v.as_str())).collect();
    let url = format!("https://localhost:{}", collector.address().port());
    let run = start(&config(Some(url.clone())), &variables);
    record_four(&run);
    let report = run.finish(TIMEOUT);
    assert_delivered(&report);
    assert_four(&collector.last());

    // Without a client certificate, the collector rejects the connection.
    let run = start(&config(Some(url)), &variables[..1]);
    run.record(&four()[0].measured());
    let report = run.finish(TIMEOUT);
    assert!(!report.delivered_final && report.exports_failed >= 1, "{report:?}");
}

#[test]
fn telemetry_works_inside_an_asynchronous_runtime() {
    let collector = OtlpReceiver::http();
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let url = format!("{}/v1/metrics", collector.url());
    let report = runtime.block_on(async {
        let run = start(&config(Some(url)), &[]);
        record_four(&run);
        run.finish(TIMEOUT)
    });
    assert_delivered(&report);
    assert_four(&collector.last());
}

#[test]
fn arcs_of_one_telemetry_can_be_shared() {
    fn shareable<T: Send + Sync>() {}
    shareable::<Arc<Telemetry>>();
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(16))]

    /// Boundaries, powers of two and values between them: the exported values are those recorded.
    #[test]
    fn the_final_export_agrees_with_the_files_on_any_values(
        requests in requests(),
        exponential: bool,
    ) {
        let directory = tempfile::tempdir().unwrap();
        let config =
            Config { exponential_histograms: Some(exponential), ..to_files(&directory) };
        let run = start(&config, &[]);
        for request in &requests {
            run.record(&request.measured());
        }
        let report = run.finish(TIMEOUT);
        prop_assert_eq!(report.discrepancies, Vec::<String>::new());
    }

    /// Likewise, except for one value that does not reach the SDK, or reaches it twice.
    #[test]
    fn a_value_that_is_lost_or_doubled_on_the_way_is_found(
        requests in requests(),
        which: proptest::sample::Index,
        tag in proptest::sample::select(vec![
            tag::REQUEST_LATENCY, tag::TIME_TO_FIRST_TOKEN, tag::INTER_TOKEN_LATENCY,
            tag::INTER_CHUNK_LATENCY, tag::INPUT_SEQUENCE_LENGTH, tag::OUTPUT_SEQUENCE_LENGTH,
        ]),
        is_doubled: bool,
        exponential: bool,
    ) {
        let directory = tempfile::tempdir().unwrap();
        let config =
            Config { exponential_histograms: Some(exponential), ..to_files(&directory) };
        let run = start(&config, &[]);
        let chosen = which.index(requests.len());
        for (number, request) in requests.iter().enumerate() {
            let mut measured = request.measured();
            run.keep(&measured);
            if number == chosen {
                let values = &mut measured.observation.values;
                match values.get(tag).cloned() {
                    Some(Value::Scalar(value)) if is_doubled => {
                        values.set(tag, Value::List(vec![value; 2]));
                    }
                    Some(Value::List(list)) if is_doubled => {
                        values.set(tag, Value::List([list.clone(), list].concat()));
                    }
                    _ => values.remove(tag),
                }
            }
            run.export(&measured);
        }
        let report = run.finish(TIMEOUT);
        let own = format!("aiperf.{tag}{{");
        let names = |name: &str| report.discrepancies.iter().any(|what| what.starts_with(name));
        prop_assert!(!report.reconciled && names(&own), "{:?}", report.discrepancies);
        let row = catalogue().into_iter().find(|row| row.tag == tag);
        if let Some(gen_ai) = row.and_then(Metric::gen_ai) {
            prop_assert!(names(gen_ai.name), "{:?}", report.discrepancies);
        }
    }
}

/// Requests with powers of two, bucket boundaries and values between them.
fn requests() -> impl Strategy<Value = Vec<Request>> {
    let powers = proptest::collection::vec(-20i32..40, 1..50);
    let others = proptest::collection::vec(0.0..1e6f64, 1..50);
    let boundaries = proptest::collection::vec(0usize..64, 1..20);
    (powers, others, boundaries).prop_map(|(powers, others, boundaries)| {
        let bounds = LATENCY.instrument().unwrap().spec.boundaries;
        let powers = powers.into_iter().map(|exponent| 2f64.powi(exponent));
        let edges = boundaries.into_iter().map(|index| bounds[index] * 1e3);
        let values = powers.chain(others).chain(edges);
        values.map(|value| Request::ok(value, value, value, value)).collect()
    })
}

#[test]
fn a_whole_request_that_is_lost_on_the_way_is_found() {
    let directory = tempfile::tempdir().unwrap();
    let run = start(&to_files(&directory), &[]);
    record_four(&run);
    for request in &four()[2..] {
        run.keep(&request.measured());
    }
    let found = run.finish(TIMEOUT).discrepancies;
    for name in [
        "aiperf.request_count{",
        "aiperf.error_request_count{",
        "aiperf.inter_chunk_latency{",
        "aiperf.client.schedule_slip{",
        "gen_ai.client.operation.duration{aiperf.benchmark_phase=\"profiling\",error.type=",
        "gen_ai.client.operation.duration{aiperf.benchmark_phase=\"profiling\",error.type!=",
    ] {
        assert!(found.iter().any(|what| what.starts_with(name)), "{name}: {found:?}");
    }
}

#[test]
fn phases_and_queue_are_compared_too() {
    let directory = tempfile::tempdir().unwrap();
    let run = start(&to_files(&directory), &[]);
    run.phase(&snapshot(2, 1, 0.5));
    run.queue(PhaseKind::Profiling, &queue(0, 1));
    let stats = PhaseStats { requests_sent: 3, ..snapshot(2, 1, 0.5) };
    let totals = RunTotals { phases: vec![stats], queue: queue(0, 2), ..RunTotals::default() };
    let found = run.telemetry.finish(&totals, TIMEOUT).discrepancies;
    for what in [
        "aiperf.timing.requests.sent{aiperf.benchmark_phase=\"profiling\"} has sum 2 instead of 3",
        "aiperf.client.queue.spilled{} has sum 1 instead of 2",
    ] {
        assert!(found.iter().any(|have| have == what), "{what}: {found:?}");
    }
}
