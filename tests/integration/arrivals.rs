//! Arrival times compared with the time at which the server wrote, with and without kernel
//! timestamps, for a client that is idle, short of CPU time, or stalled.

use std::hint;
use std::io::{Read, Write};
use std::net::TcpStream;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::Duration;

use base::units::{Clock, Nanos};
use client::endpoint::{Endpoint, EndpointTraits, ParsedResponse};
use client::record::{ArrivalClock, RequestRecord, ResponseBody, SseEvent};
use client::schedule::config::StopCondition;
use client::transport;
use dataset::Conversation;
use mock_server::Script;
use rustix::process::Signal;
use serde_json::Value;
use tokio_rustls::rustls::pki_types::pem::PemObject;
use tokio_rustls::rustls::pki_types::{CertificateDer, PrivateKeyDer};
use tokio_rustls::rustls::{ServerConfig, ServerConnection, StreamOwned};

use crate::support::load::{Load, closed_loop, mock, served};
use crate::support::raw_server;
use crate::support::run::{Run, aiperf, profile_command, signal};

/// Maximum time between readings of the two clocks, by which an arrival may appear to be later than
/// it was: 50 µs more than at the previous read, which may itself have been interrupted as long.
const BETWEEN_READINGS: Nanos = Nanos(100_000);

const HEAD: &str =
    "HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ntransfer-encoding: chunked\r\n\r\n";
const CONTENT: &str = "54\r\ndata: {\"choices\":[{\"index\":0,\"delta\":{\"content\":\"hi\"},\"finish_reason\":\"stop\"}]}   \n\n\r\n";
const DONE: &str = "e\r\ndata: [DONE]\n\n\r\n0\r\n\r\n";

/// The time just before a write and just after it.
#[derive(Clone, Copy, Debug)]
struct Written {
    start: Nanos,
    end: Nanos,
}

/// Writes, and returns the times.
fn write(stream: &mut impl Write, text: &str) -> Written {
    let start = Clock::now();
    raw_server::write(stream, text.as_bytes());
    Written { start, end: Clock::now() }
}

/// Asserts that the event arrived between its write and its recorded arrival, and not before the
/// uncertainty allows.
fn assert_confirmed(event: &SseEvent, written: Written) {
    let arrival = event.arrival;
    assert!(arrival.at >= written.start, "{arrival:?} is before {written:?}");
    let earliest = arrival.at.since(Nanos(arrival.uncertainty.into()));
    assert!(earliest <= written.end + BETWEEN_READINGS, "{arrival:?} is after {written:?}");
}

/// How late the event was read, in nanoseconds.
fn lags(records: &[RequestRecord]) -> impl Iterator<Item = u32> {
    records.iter().flat_map(|record| &record.body.events).map(|event| event.arrival.read_lag)
}

fn stamps(records: &[RequestRecord]) -> u64 {
    records.iter().map(|record| record.trace.kernel_stamps).sum()
}

#[test]
fn a_client_that_is_stopped_again_and_again_says_what_throughput_it_lost() {
    let server = mock(Script { ttft: Nanos::from_millis(100.0), ..Script::default() });
    let directory = tempfile::tempdir().unwrap();
    let load = ["--concurrency", "8", "--request-count", "160", "--gate", "request_throughput>=1"];
    let mut child = profile_command(&server.url(), directory.path(), &load).spawn().unwrap();
    // It runs for 90 of each 250 ms.
    while child.try_wait().unwrap().is_none() {
        thread::sleep(Duration::from_millis(90));
        signal(&child, Signal::STOP);
        thread::sleep(Duration::from_millis(160));
        signal(&child, Signal::CONT);
    }
    let run = Run { output: child.wait_with_output().unwrap(), directory }.succeeded();
    let summary = run.summary();
    let health = &summary["client_health"];
    assert_ne!(health["verdict"], "valid");
    let findings: Vec<_> = health["reasons"].as_array().unwrap().iter().collect();
    let is_found =
        |reason: &&Value| reason["finding"].as_str().unwrap().contains("the throughput may be");
    assert!(findings.iter().any(is_found), "{findings:?}");
    // By Little's law, the same responses without waits of the client are the slots divided by the
    // mean latency. Not all slots have work at the end, and each response ends after its content.
    let average = |tag: &str| summary[tag]["avg"].as_f64().unwrap();
    let (rate, seconds) = (average("request_throughput"), average("request_latency") / 1e3);
    let above = health["throughput_bounds"]["above_percent"].as_f64().unwrap();
    let without_waits = rate * (1.0 + above / 100.0);
    let by_littles_law = 8.0 / seconds;
    assert!(above > 20.0, "{health:#}");
    let ratio = without_waits / by_littles_law;
    assert!(
        (0.85..1.1).contains(&ratio),
        "{without_waits} instead of {by_littles_law}: {health:#}"
    );
    let range = &summary["gates"][0]["range"];
    assert!((range[1].as_f64().unwrap() - without_waits).abs() < 1e-6, "{range}");
    // The records say the same.
    let report = aiperf(&["report", run.directory.path().to_str().unwrap()]).output().unwrap();
    assert!(report.status.success(), "{report:?}");
}

/// Runs streams while other threads compete with the client for every processor, and compares each
/// event with the server's log.
fn confirmed_by_the_log(crowd: usize, transport: transport::Config) -> Vec<RequestRecord> {
    let itl = Nanos::from_millis(2.0);
    let server = mock(Script { ttft: Nanos::from_millis(5.0), itl, ..Script::default() });
    let mut load = Load::on(&server.url());
    load.phases = vec![closed_loop(8, 40)];
    load.transport = transport;
    let is_over = AtomicBool::new(false);
    let outcome = thread::scope(|scope| {
        for _ in 0..crowd {
            scope.spawn(|| {
                while !is_over.load(Ordering::Relaxed) {
                    hint::spin_loop();
                }
            });
        }
        let outcome = load.run();
        is_over.store(true, Ordering::Relaxed);
        outcome
    });
    let log = server.write_log();
    for record in &outcome.records {
        let entry = served(&log, record);
        for (event, written) in record.body.events.iter().zip(&entry.events) {
            let (start, end) = (written.write_start.unwrap(), written.written.unwrap());
            assert_confirmed(event, Written { start, end });
        }
        let arrivals = record.body.events.iter().map(|event| event.arrival);
        assert!(arrivals.clone().map(|arrival| arrival.at).is_sorted());
        assert!(arrivals.map(client::record::Arrival::read_at).is_sorted());
        assert!(record.trace.socket_reads >= 1);
        assert!(record.trace.kernel_stamps <= record.trace.socket_reads);
    }
    outcome.records
}

#[test]
fn the_servers_log_confirms_every_arrival() {
    let records = confirmed_by_the_log(0, transport::Config::default());
    if cfg!(target_os = "linux") {
        assert!(stamps(&records) > 0);
        // The last event of each stream arrived exactly at its timestamp.
        assert!(records.iter().any(|record| {
            record.body.events.last().is_some_and(|event| event.arrival.uncertainty == 0)
        }));
    }
}

#[test]
fn the_servers_log_confirms_every_arrival_at_a_crowded_client() {
    confirmed_by_the_log(6, transport::Config::default());
}

#[test]
fn without_stamps_the_log_confirms_the_reads() {
    let transport = transport::Config { kernel_timestamps: false, ..Default::default() };
    let records = confirmed_by_the_log(2, transport);
    assert_eq!(stamps(&records), 0);
    assert!(records.iter().all(|record| record.trace.clock() == Some(ArrivalClock::User)));
    assert!(lags(&records).all(|lag| lag == 0));
}

/// A dialect that stops the client's thread once, at the second turn: it reports this and waits for
/// permission to continue.
#[derive(Debug)]
struct Stalling {
    chat: Arc<dyn Endpoint>,
    once: Mutex<Option<(Sender<()>, Receiver<()>)>>,
}

impl Endpoint for Stalling {
    fn traits(&self) -> &'static EndpointTraits {
        self.chat.traits()
    }

    fn request_body(
        &self,
        of: &Conversation,
        turn: usize,
        answers: &[Option<Arc<str>>],
    ) -> Vec<u8> {
        if turn > 0
            && let Some((stalled, leave)) = self.once.lock().unwrap().take()
        {
            stalled.send(()).unwrap();
            leave.recv_timeout(Duration::from_secs(20)).unwrap();
        }
        self.chat.request_body(of, turn, answers)
    }

    fn parse(&self, body: &ResponseBody) -> ParsedResponse {
        self.chat.parse(body)
    }
}

/// Time between two writes to the stalled client, and how long it remains stalled after the last.
const PAUSE: Duration = Duration::from_millis(10);
const AFTERWARDS: Duration = Duration::from_millis(30);

/// The stream that a client receives while its thread is stalled: nine events at intervals of ten
/// milliseconds.
fn written_to_a_stalled_client(transport: transport::Config) -> (RequestRecord, Vec<Written>) {
    let (stalled, is_stalled) = channel();
    let (give_leave, leave) = channel();
    let (log, written) = channel();
    // The first request receives the slow response. The other session's response follows once the
    // first request waits; its second turn then stops the thread.
    let slow = Arc::new(Mutex::new(Some((is_stalled, give_leave, log))));
    let address = raw_server::serve(move |_, stream| {
        while raw_server::read_request(stream).is_some() {
            raw_server::write(stream, HEAD.as_bytes());
            let Some((is_stalled, give_leave, log)) = slow.lock().unwrap().take() else {
                raw_server::write(stream, format!("{CONTENT}{DONE}").as_bytes());
                continue;
            };
            is_stalled.recv_timeout(Duration::from_secs(20)).unwrap();
            for event in [[CONTENT; 8].as_slice(), &[DONE]].concat() {
                log.send(write(stream, event)).unwrap();
                thread::sleep(PAUSE);
            }
            thread::sleep(AFTERWARDS);
            give_leave.send(()).unwrap();
        }
    });
    let mut phase = closed_loop(2, 0);
    phase.stop = StopCondition { sessions: Some(2), ..StopCondition::default() };
    let once = Mutex::new(Some((stalled, leave)));
    let mut load = Load::on(&format!("http://{address}"));
    load.turns = 2;
    load.phases = vec![phase];
    load.transport = transport;
    load.dialect = Box::new(|chat| Arc::new(Stalling { chat, once }));
    let records = load.run().records;
    assert_eq!(records.len(), 4);
    let record = records.into_iter().find(|record| record.body.events.len() == 9).unwrap();
    (record, written.iter().collect())
}

#[test]
#[cfg(target_os = "linux")]
fn events_merged_in_the_socket_are_as_uncertain_as_they_must_be() {
    let (record, written) = written_to_a_stalled_client(transport::Config::default());
    let events = &record.body.events;
    for (event, written) in events.iter().zip(&written) {
        assert_confirmed(event, *written);
        // A single read returned them all, with the timestamp of the last one.
        assert_eq!(event.arrival.at, events[8].arrival.at);
        // The client remained stalled after the last, which its read lag includes.
        assert!(u128::from(event.arrival.read_lag) >= (PAUSE + AFTERWARDS).as_nanos() - 50_000);
    }
    let at_least = |event: &SseEvent| u128::from(event.arrival.uncertainty) >= 8 * PAUSE.as_nanos();
    assert!(events[..8].iter().all(at_least));
    let last = events[8].arrival;
    assert_eq!(last.uncertainty, 0);
    assert!(last.at <= written[8].end + BETWEEN_READINGS, "{last:?} is after {written:?}");
    assert_ne!(record.trace.clock(), Some(ArrivalClock::User));
    assert_eq!(record.body.max_read_lag(), Some(last.read_lag));

    let idle = confirmed_by_the_log(0, transport::Config::default());
    assert!(lags(&idle).min().unwrap() < last.read_lag);
}

#[test]
fn without_stamps_a_stall_is_all_uncertainty() {
    let transport = transport::Config { kernel_timestamps: false, ..Default::default() };
    let (record, written) = written_to_a_stalled_client(transport);
    for (event, written) in record.body.events.iter().zip(&written) {
        assert_confirmed(event, *written);
        let waited = u128::from(event.arrival.uncertainty);
        assert!(waited >= (8 * PAUSE + AFTERWARDS).as_nanos(), "{:?}", event.arrival);
        assert_eq!(event.arrival.read_lag, 0);
    }
    assert_eq!(record.trace.clock(), Some(ArrivalClock::User));
}

/// Linux delays an acknowledgement by 40 ms, counted in ticks of up to 10 ms.
#[cfg(target_os = "linux")]
const DELAYED_ACK: Nanos = Nanos(30_000_000);

/// Returns the durations of exchanges with a server that writes responses in pieces, with Nagle's
/// algorithm, over one reused connection.
#[cfg(target_os = "linux")]
fn exchanges_with_nagle(quick_ack: bool) -> Vec<Nanos> {
    let address = raw_server::serve(|_, stream| {
        stream.set_nodelay(false).unwrap();
        let (status, headers) = HEAD.split_at(HEAD.find('\n').unwrap() + 1);
        while raw_server::read_request(stream).is_some() {
            for piece in [status, headers, CONTENT, CONTENT, DONE] {
                raw_server::write(stream, piece.as_bytes());
                thread::sleep(Duration::from_millis(2));
            }
        }
    });
    let mut load = Load::on(&format!("http://{address}"));
    load.phases = vec![closed_loop(1, 24)];
    load.transport = transport::Config { quick_ack, ..transport::Config::default() };
    let records = load.run().records;
    assert!(records.iter().all(|record| !record.has_failed() && record.body.events.len() == 3));
    // The kernel does not delay acknowledgements on a new connection.
    let reused = records.iter().skip(4).inspect(|record| assert!(record.trace.reused.is_some()));
    reused.map(|record| record.end.since(record.start)).collect()
}

#[test]
#[cfg(target_os = "linux")]
fn what_has_come_is_acknowledged_while_the_response_goes_on() {
    // The last piece is written 8 ms after the first. If acknowledgements were usually delayed, no
    // exchange would be as fast as this.
    let fastest = exchanges_with_nagle(true).into_iter().min().unwrap();
    assert!(fastest < DELAYED_ACK, "{fastest:?}");
    // Without quick acknowledgements the server waits, so this server would reveal a delay.
    let unhurried = exchanges_with_nagle(false);
    let held_back = unhurried.iter().filter(|took| **took >= DELAYED_ACK).count();
    assert!(held_back >= unhurried.len() / 4, "{unhurried:?}");
}

/// The server's side of TLS, with the certificate that the tests share.
fn tls_config() -> Arc<ServerConfig> {
    let golden = |name: &str| format!("{}/tests/golden/tls/{name}", env!("CARGO_MANIFEST_DIR"));
    let certificates = CertificateDer::pem_file_iter(golden("server.pem")).unwrap();
    let key = PrivateKeyDer::from_pem_file(golden("server.key")).unwrap();
    let provider = Arc::new(tokio_rustls::rustls::crypto::ring::default_provider());
    let config = ServerConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_no_client_auth()
        .with_single_cert(certificates.map(Result::unwrap).collect(), key)
        .unwrap();
    Arc::new(config)
}

/// Responds to one request with five events, at intervals of two milliseconds.
fn answer(stream: &mut (impl Read + Write), log: &Sender<Written>) {
    if raw_server::read_request(stream).is_some() {
        raw_server::write(stream, HEAD.as_bytes());
        for event in [CONTENT, CONTENT, CONTENT, CONTENT, DONE] {
            thread::sleep(Duration::from_millis(2));
            log.send(write(stream, event)).unwrap();
        }
    }
}

#[test]
fn under_tls_an_arrival_is_that_of_the_socket() {
    let tls = tls_config();
    let (log, written) = channel();
    let address = raw_server::serve(move |_, stream: &mut TcpStream| {
        let connection = ServerConnection::new(Arc::clone(&tls)).unwrap();
        answer(&mut StreamOwned::new(connection, stream), &log);
    });
    let mut load = Load::on(&format!("https://{address}"));
    load.transport.connections.tls.verify = false;
    let records = load.run().records;
    assert_eq!(records[0].error, None);
    let events = &records[0].body.events;
    assert_eq!(events.len(), 5);
    for event in events {
        assert_confirmed(event, written.recv_timeout(Duration::from_secs(20)).unwrap());
    }
    let trace = &records[0].trace;
    assert!(trace.tls_end.is_some() && trace.socket_reads >= 1);
    if cfg!(target_os = "linux") {
        assert_ne!(trace.clock(), Some(ArrivalClock::User));
        assert!(lags(&records).any(|lag| lag > 0));
    }
}
