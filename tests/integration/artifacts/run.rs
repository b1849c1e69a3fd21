//! A run built by hand: responses with given arrival times, measured as in a real run.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use base::units::{Clock, Nanos};
use client::endpoint::{self, EndpointType};
use client::record::{Arrival, ErrorKind, HttpTrace, RequestError, RequestRecord, ResponseBody};
use client::record::{SseEvent, TurnId};
use client::runner::{CpuShares, QueueStats};
use client::schedule::PhaseKind;
use dataset::{Conversation, Dataset, Turn};
use measure::metrics::health::{OutputCounts, Source};
use measure::metrics::metric::{MeasuredRecord, Settings};
use measure::metrics::name_counts::{self, NameCounts};
use measure::metrics::steady::Unsteady;
use measure::metrics::{
    Accumulator, ClientHealth, CountTokens, Health, LoadReport, LongRun, Measurer, Registry,
    parse_objectives,
};
use results::artifacts::server_metrics::ServerMetricsFiles;
use results::artifacts::{ArtifactError, ArtifactSet, Claim, Config, ExportLevel};
use results::console;
use results::run::setup::Setup;
use results::run::{RunDescription, RunOutcome, RunReport, error_counts};
use telemetry::TelemetryReport;
use uuid::Uuid;

use crate::support::schema::check_files;

/// A secret that is only in headers, and must not be written to any file.
pub(crate) const SECRET: &str = "hunter2-is-secret";

const WARMUP: u64 = 2;
const REQUESTS: u64 = 60;

/// Everything about a run, in its own directory.
pub(crate) struct TestRun {
    pub(crate) config: Config,
    pub(crate) description: RunDescription,
    pub(crate) registry: Arc<Registry>,
    pub(crate) clock: Clock,
    pub(crate) measured: Vec<MeasuredRecord>,
    directory: tempfile::TempDir,
}

impl TestRun {
    pub(crate) fn new(export_level: ExportLevel) -> Self {
        let directory = tempfile::tempdir().unwrap();
        let objectives = parse_objectives("time_to_first_token:40").unwrap();
        let settings = Settings { objectives, ..Settings::default() };
        let endpoint = EndpointType::CHAT.traits();
        let registry = Arc::new(Registry::new(settings.clone(), endpoint, true).unwrap());
        let clock = Clock::start();
        Self {
            config: Config {
                directory: directory.path().to_owned(),
                has_default_directory: false,
                prefix: None,
                overwrite: true,
                export_level,
                outputs: false,
                compress_jsonl: false,
                http_trace: false,
                server_metrics: ServerMetricsFiles::default(),
            },
            description: description(settings),
            measured: measured(&registry, clock),
            registry,
            clock,
            directory,
        }
    }

    pub(crate) fn directory(&self) -> &Path {
        self.directory.path()
    }

    pub(crate) fn create(&self) -> ArtifactSet {
        self.create_in(&self.claim()).unwrap()
    }

    /// Returns the directory, without the files of an earlier run.
    pub(crate) fn claim(&self) -> Claim {
        Claim::take(self.config.wanted()).unwrap()
    }

    pub(crate) fn create_in(&self, claim: &Claim) -> Result<ArtifactSet, ArtifactError> {
        ArtifactSet::create(claim, &self.config, &self.description, &self.registry)
    }

    /// Writes every file.
    pub(crate) fn complete(&self) -> Vec<PathBuf> {
        let mut set = self.create();
        let body = br#"{"model":"m","messages":[]}"#.to_vec();
        assert!(set.write_inputs(
            [("first".to_owned(), vec![body.clone()]), ("second".to_owned(), vec![body])],
            &|| true,
        ));
        for measured in &self.measured {
            set.record(measured);
        }
        let report = self.report();
        let console = console::render_file(&report);
        let written = set.finish(&report, &console).unwrap();
        check_files(self.directory());
        written
    }

    /// Returns the report that the program itself builds from the run.
    pub(crate) fn report(&self) -> RunReport {
        let mut profiling = Accumulator::new(Arc::clone(&self.registry));
        let mut warmup = Accumulator::new(Arc::clone(&self.registry));
        for measured in &self.measured {
            let accumulator = if is_profiling(measured) { &mut profiling } else { &mut warmup };
            accumulator.observe(&measured.observation);
        }
        let mut finish_reasons = NameCounts::default();
        let mut response_notes = NameCounts::default();
        for measured in self.measured.iter().filter(|it| is_profiling(it)) {
            if measured.observation.error.is_none() {
                let reasons = &measured.response.finish_reasons;
                finish_reasons.observe(name_counts::joined(reasons).as_deref());
                let notes = &measured.response.notes;
                response_notes.observe(name_counts::joined(notes).as_deref());
            }
        }
        let mut outputs = OutputCounts::default();
        for measured in self.measured.iter().filter(|it| is_profiling(it)) {
            let server = measured.response.server.as_ref();
            let worker = server.and_then(|server| server.worker.as_deref());
            let source = Source { request_id: Some(measured.record.request_id), worker };
            outputs.observe(&measured.observation, source);
        }
        let of_profiling = || self.measured.iter().filter(|measured| is_profiling(measured));
        let starts = of_profiling().map(|measured| measured.observation.start_wall_ns);
        let ends = of_profiling().map(|measured| measured.observation.end_wall_ns);
        RunReport {
            coverage: None,
            run: self.description.clone(),
            outcome: RunOutcome {
                offered: None,
                ended_early: None,
                adaptive: Vec::new(),
                // Whole microseconds, the precision of local times in a summary.
                start_wall_ns: starts.min().unwrap() / 1000 * 1000,
                end_wall_ns: ends.max().unwrap().next_multiple_of(1000),
                phases: Vec::new(),
                was_cancelled: false,
                ended_by: None,
                incomplete_reason: None,
                sent: None,
                prefix_cache: None,
                branches: None,
                replay: None,
                telemetry: Some(TelemetryReport {
                    endpoint: Some("http://localhost:4317".to_owned()),
                    exports_ok: 3,
                    delivered_final: true,
                    reconciled: true,
                    ..TelemetryReport::default()
                }),
                load: LoadReport {
                    requested_concurrency: Some(4),
                    reached_concurrency: 3,
                    slot_seconds: None,
                    sends_held_back: 0,
                    requested_rate: Some(10.0),
                    reached_rate: Some(9.876_543_210_123),
                },
                load_health: None,
                output_health: outputs.judge(),
                client_health: Some(self.health()),
                time_breakdown: None,
                gpus: None,
                shards: None,
            },
            results: profiling.results(),
            bases: Vec::new(),
            long_run: LongRun::default(),
            missed_objectives: profiling.missed_objectives(),
            steady_state: Err(Unsteady::UnknownLoad),
            by_phase: Vec::new(),
            levels: Vec::new(),
            slices: None,
            sessions: None,
            finish_reasons,
            response_notes,
            silences: Vec::new(),
            breakdowns: measure::metrics::breakdown::BreakdownResults::default(),
            warmup_results: warmup.results(),
            errors: error_counts(&profiling),
            phases: Vec::new(),
            server_metrics: None,
        }
    }

    /// The client's health.
    fn health(&self) -> ClientHealth {
        let mut health = Health::default();
        for measured in self.measured.iter().filter(|measured| is_profiling(measured)) {
            health.observe(measured);
        }
        let queue =
            QueueStats { budget_bytes: 1000, peak_bytes: 900, pauses: 1, ..Default::default() };
        let shares = CpuShares { workers: vec![0.25, 0.75], process: 1.3 };
        let load = LoadReport {
            requested_concurrency: Some(4),
            reached_concurrency: 3,
            requested_rate: Some(10.0),
            reached_rate: Some(9.7),
            ..LoadReport::default()
        };
        health.report(&load, &queue, &shares)
    }
}

pub(crate) fn is_profiling(measured: &MeasuredRecord) -> bool {
    measured.observation.phase == PhaseKind::Profiling
}

/// Returns whether the request succeeded.
pub(crate) fn is_good(measured: &MeasuredRecord) -> bool {
    is_profiling(measured) && measured.observation.error.is_none()
}

fn description(settings: Settings) -> RunDescription {
    RunDescription {
        benchmark_id: Uuid::from_u128(0x1234_5678),
        streaming: true,
        settings,
        setup: Setup {
            models: vec!["m".to_owned()],
            urls: vec!["http://127.0.0.1".to_owned()],
            ..Setup::default()
        },
        input_config: serde_json::json!({
            "models": {"items": [{"name": "m"}]},
            "endpoint": {"urls": ["http://127.0.0.1"], "type": "chat", "streaming": true},
            "slos": {"time_to_first_token": 40.0},
        }),
        cli_command: "aiperf profile --model m --streaming".to_owned(),
        random_seed: Some(7),
        ..RunDescription::for_endpoint_type(EndpointType::CHAT)
    }
}

fn measured(registry: &Arc<Registry>, clock: Clock) -> Vec<MeasuredRecord> {
    let turn = Turn { max_tokens: Some(10), input_tokens: Some(50), ..Turn::default() };
    let conversation = Conversation { turns: vec![turn], ..Conversation::default() };
    let dataset = Dataset::from_conversations(vec![conversation.clone(), conversation]);
    let config = endpoint::Config::new(EndpointType::CHAT, true);
    let words: Arc<CountTokens> = Arc::new(|text| text.split_whitespace().count() as u64);
    let measurer = Measurer::new(
        endpoint::build(&config),
        Some(words),
        Arc::new(dataset),
        Arc::clone(registry),
        clock,
    );
    let origin = Clock::now();
    (0..REQUESTS).map(|number| measurer.measure(record(number, origin))).collect()
}

/// Creates request `number`: every seventh is rejected, every eleventh is cancelled midway.
fn record(number: u64, origin: Nanos) -> RequestRecord {
    let start = origin + Nanos(number * 100_000_003);
    let (refused, cancelled) = (number % 7 == 5, number % 11 == 7);
    let body = if refused { refusal(start) } else { stream(number, start, cancelled) };
    let end = body.events.last().map_or(start, |event| event.arrival.at);
    RequestRecord {
        grown: None,
        turn: TurnId {
            session: number,
            conversation: (number % 2) as usize,
            turn: 0,
            first: 0,
            is_final: true,
        },
        phase: if number < WARMUP { PhaseKind::Warmup } else { PhaseKind::Profiling },
        phase_index: u32::from(number >= WARMUP),
        worker: (number % 3) as u32,
        request_id: Uuid::from_u128(u128::from(number)),
        correlation_id: Uuid::from_u128(u128::from(number) << 64),
        trace_id: Uuid::from_u128(u128::from(number)),
        ancestry: None,
        lane: None,
        held_by: None,
        tenant: None,
        model: "m".into(),
        url: "http://127.0.0.1/v1/chat/completions".into(),
        payload: bytes::Bytes::from_static(br#"{"model":"m","stream":true,"max_tokens":10}"#),
        earlier_answers: Vec::new(),
        due: number.is_multiple_of(2).then_some(start),
        due_while_asleep: number.is_multiple_of(4),
        free_from: Nanos::ZERO,
        issued: start,
        start: start + Nanos(1_234),
        sent: Some(start + Nanos(2_345)),
        ack: (!refused).then_some(start + Nanos(7_000_000)),
        end,
        status: Some(if refused { 500 } else { 200 }),
        body,
        trace: trace(start, end, number > 0 && !refused),
        server_spans: Vec::new(),
        retry_count: u32::from(number == 3),
        cancelled_at: cancelled.then_some(end),
        error: cancelled.then(|| {
            RequestError::new(ErrorKind::Cancelled, "RequestCancellationError", "cancelled")
        }),
    }
}

fn refusal(start: Nanos) -> ResponseBody {
    let text = br#"{"error": "boom"}"#;
    let arrival = (start + Nanos(900_001)).into();
    let event = SseEvent { arrival, start: 0, end: text.len() as u32 };
    ResponseBody { bytes: text.to_vec(), is_event_stream: false, events: vec![event] }
}

/// Creates a stream of several words, with gaps that differ between requests, and usage.
fn stream(number: u64, start: Nanos, is_cut: bool) -> ResponseBody {
    let mut body = ResponseBody { is_event_stream: true, ..ResponseBody::default() };
    let words = 4 + number % 9;
    let mut at = start + Nanos(30_000_000 + number * number * 7_919);
    for word in 0..words {
        let data = format!(r#"{{"choices":[{{"index":0,"delta":{{"content":" w{word}"}}}}]}}"#);
        push(&mut body, at, &data);
        at = at + Nanos(10_000_000 + (number * 31 + word * 17) % 101 * 10_007);
    }
    if !is_cut {
        push(&mut body, at, r#"{"choices":[{"index":0,"delta":{},"finish_reason":"stop"}]}"#);
        let usage = format!(
            r#"{{"choices":[],"usage":{{"prompt_tokens":{},"completion_tokens":{words},"total_tokens":60}}}}"#,
            50 + number % 3 * 5
        );
        push(&mut body, at, &usage);
        push(&mut body, at, "[DONE]");
    }
    body
}

fn push(body: &mut ResponseBody, arrival: Nanos, data: &str) {
    let from = body.bytes.len() as u32;
    body.bytes.extend_from_slice(format!("data: {data}").as_bytes());
    // The third event is the latest and the least certain.
    let worst = u32::from(body.events.len() == 2) * 2_000;
    body.events.push(SseEvent {
        arrival: Arrival { at: arrival, read_lag: 1_500 + worst, uncertainty: 2_500 + worst },
        start: from,
        end: body.bytes.len() as u32,
    });
    body.bytes.extend_from_slice(b"\n\n");
}

fn trace(start: Nanos, end: Nanos, reused: bool) -> HttpTrace {
    let header = |name: &str, value: &str| (name.to_owned(), value.to_owned());
    let at = |nanos| Some(start + Nanos(nanos));
    HttpTrace {
        pool_wait_start: at(10),
        pool_wait_end: at(110),
        connect_start: if reused { None } else { at(200) },
        connect_end: if reused { None } else { at(900) },
        reused: if reused { at(120) } else { None },
        send_start: at(1_234),
        headers_sent: at(2_000),
        send_end: at(2_500),
        headers_received: at(700_000),
        receive_start: at(800_000),
        receive_end: Some(end),
        request_chunks: 1,
        request_bytes: 200,
        response_chunks: 2,
        response_bytes: 1000,
        socket_reads: 2,
        kernel_stamps: 1,
        request_chunk_log: vec![(start + Nanos(2_000), 200)],
        response_chunk_log: vec![(start + Nanos(800_000), 600), (end, 400)],
        local_addr: Some(([127, 0, 0, 1], 50_000).into()),
        remote_addr: Some(([127, 0, 0, 1], 8_000).into()),
        request_headers: vec![
            header("Content-Type", "application/json"),
            header("Authorization", SECRET),
            header("X-Auth-Token", SECRET),
        ],
        response_headers: vec![
            header("Content-Type", "text/event-stream"),
            header("Set-Cookie", SECRET),
        ],
        reason: Some("OK".into()),
        ..HttpTrace::default()
    }
}
