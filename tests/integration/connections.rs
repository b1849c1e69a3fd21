//! How connections are opened, limited and reused, and how traces report it: compared with plain
//! sockets, with the timestamps of both sides from one clock.

use std::collections::BTreeSet;
use std::io::{self, Read, Write};
use std::net::{Shutdown, SocketAddr, TcpStream};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, mpsc};
use std::thread;
use std::time::Duration;

use base::environment::Environment;
use base::units::{Clock, Nanos};
use client::record::{ErrorKind, HttpTrace, RequestRecord};
use client::schedule::config::{Limit, PhaseConfig, StopCondition};
use client::transport::{
    self, Client, ConnectionReuse, Connections, Connector, Notifications, OutgoingRequest, Proxies,
    SessionConnection, Target, TlsOptions, tls,
};
use mock_server::Script;
use serde_json::Value;

use crate::support::load::{Load, closed_loop, mock};
use crate::support::port::Refusing;
use crate::support::raw_server::{self, accept_tls, read_request, tls_file, write};
use crate::support::run::{Run, aiperf, profile, profile_command};

const ANSWER: &str = r#"{"choices":[{"message":{"content":"hi"},"finish_reason":"stop"}]}"#;

/// The delay of scripted servers, and the minimum that the client must observe of it: its
/// timestamps may be late, but never by half the delay.
const DELAY: Duration = Duration::from_millis(200);
const SEEN: Nanos = Nanos(100_000_000);

fn answer() -> Vec<u8> {
    let length = ANSWER.len();
    let head = "HTTP/1.1 200 OK\r\ncontent-type: application/json\r\n";
    format!("{head}content-length: {length}\r\n\r\n{ANSWER}").into_bytes()
}

/// Responds to every request.
fn answers(stream: &mut (impl Read + Write)) {
    while read_request(stream).is_some() {
        write(stream, &answer());
    }
}

fn with(connections: Connections) -> transport::Config {
    transport::Config { connections, ..transport::Config::default() }
}

fn reusing(reuse: ConnectionReuse) -> transport::Config {
    with(Connections { reuse, ..Connections::default() })
}

/// TLS that trusts the tests' authority and sends its client certificate.
fn golden_tls() -> TlsOptions {
    let file = |name| std::fs::read(tls_file(name)).unwrap();
    TlsOptions {
        authorities: Some(tls::authorities(&file("ca.pem")).unwrap()),
        identity: Some(tls::Identity::from_pem(&file("client.pem"), &file("client.key")).unwrap()),
        ..TlsOptions::default()
    }
}

/// The six phases, in order.
fn phases(trace: &HttpTrace) -> [Option<Nanos>; 6] {
    [
        trace.blocked(),
        trace.dns_lookup(),
        trace.connecting(),
        trace.sending(),
        trace.waiting(),
        trace.receiving(),
    ]
}

#[test]
fn a_delay_shows_in_the_phase_where_it_was() {
    // Where the server waits: before the handshake, before the response, or within its body.
    for place in 0..3 {
        let address = raw_server::serve(move |_, stream| {
            let wait = |here| {
                if place == here {
                    thread::sleep(DELAY);
                }
            };
            wait(0);
            let mut stream = accept_tls(stream, true).unwrap();
            read_request(&mut stream).unwrap();
            wait(1);
            let answer = answer();
            let (first, rest) = answer.split_at(answer.len() - 10);
            write(&mut stream, first);
            wait(2);
            write(&mut stream, rest);
        });
        let transport = with(Connections { tls: golden_tls(), ..Connections::default() });
        let url = format!("https://localhost:{}", address.port());
        let record = Load { transport, ..Load::on(&url) }.run().records.remove(0);
        assert_eq!(record.error, None);
        let trace = &record.trace;
        let [blocked, dns, connecting, sending, waiting, receiving] = phases(trace);
        assert_eq!(blocked, None);
        assert!(dns.is_some() && trace.dns_cache_miss.is_some(), "`localhost` was looked up");
        let delayed = [connecting, waiting, receiving][place].unwrap();
        assert!(delayed >= SEEN, "{place}: {trace:?}");
        assert!(place != 0 || trace.tls_handshaking().unwrap() >= SEEN, "{trace:?}");
        let stamps = [
            trace.dns_start,
            trace.dns_end,
            trace.connect_start,
            trace.tls_start,
            trace.tls_end,
            trace.connect_end,
            trace.send_start,
            trace.send_end,
            trace.receive_start,
            trace.receive_end,
        ];
        assert!(stamps.iter().all(Option::is_some) && stamps.is_sorted(), "{trace:?}");
        let exchange = [sending, waiting, receiving].map(|phase| phase.unwrap().0);
        assert_eq!(exchange.iter().sum::<u64>(), trace.duration().unwrap().0);
    }
}

#[test]
fn a_full_queue_of_the_listener_shows_in_connecting() {
    // A backlog of one connection that is not accepted: the first segment of the next one is
    // dropped, and retransmitted until there is room.
    let listener = rustix::net::socket(
        rustix::net::AddressFamily::INET,
        rustix::net::SocketType::STREAM,
        None,
    )
    .unwrap();
    rustix::net::bind(&listener, &SocketAddr::from(([127, 0, 0, 1], 0))).unwrap();
    rustix::net::listen(&listener, 0).unwrap();
    let listener = std::net::TcpListener::from(listener);
    let address = listener.local_addr().unwrap();
    let first = TcpStream::connect(address).unwrap();
    let (accepted, accepting) = mpsc::channel();
    let server = thread::spawn(move || {
        thread::sleep(DELAY);
        accepted.send(Clock::now()).unwrap();
        drop(listener.accept().unwrap());
        let (mut stream, _) = listener.accept().unwrap();
        answers(&mut stream);
    });
    let record = Load::on(&format!("http://{address}")).run().records.remove(0);
    drop(first);
    server.join().unwrap();
    assert_eq!(record.error, None);
    let trace = &record.trace;
    assert!(trace.connect_end.unwrap() >= accepting.recv().unwrap());
    assert!(trace.connecting().unwrap() >= SEEN);
    assert!(trace.send_start >= trace.connect_end);
}

/// A server that responds to every request, and records each request with its connection, and the
/// connections that the client has closed.
struct Witness {
    url: String,
    requests: mpsc::Receiver<(usize, String)>,
    closed: mpsc::Receiver<usize>,
    most_open: Arc<AtomicUsize>,
}

fn witness() -> Witness {
    let (seen, requests) = mpsc::channel();
    let (gone, closed) = mpsc::channel();
    let open = Arc::new(AtomicUsize::new(0));
    let most_open = Arc::new(AtomicUsize::new(0));
    let most = Arc::clone(&most_open);
    let address = raw_server::serve(move |connection, stream| {
        most.fetch_max(open.fetch_add(1, Ordering::SeqCst) + 1, Ordering::SeqCst);
        while let Some(request) = read_request(stream) {
            seen.send((connection, request)).unwrap();
            thread::sleep(Duration::from_millis(2));
            write(stream, &answer());
        }
        open.fetch_sub(1, Ordering::SeqCst);
        let _ = gone.send(connection);
    });
    Witness { url: format!("http://{address}"), requests, closed, most_open }
}

/// A phase of `count` sessions, two at a time.
fn sessions(count: u64) -> PhaseConfig {
    let stop = StopCondition { sessions: Some(count), ..StopCondition::default() };
    PhaseConfig { stop, ..closed_loop(2, 0) }
}

/// Returns the records of each session, in order of turns.
fn by_session(mut records: Vec<RequestRecord>) -> Vec<Vec<RequestRecord>> {
    records.sort_by_key(|record| (record.turn.session, record.turn.turn));
    assert!(records.iter().all(|record| record.error.is_none()), "{records:?}");
    records.chunk_by(|a, b| a.turn.session == b.turn.session).map(<[_]>::to_vec).collect()
}

fn ports(records: &[RequestRecord]) -> BTreeSet<u16> {
    records.iter().map(|record| record.trace.local_addr.unwrap().port()).collect()
}

#[test]
fn without_reuse_each_request_has_its_own_connection() {
    let server = witness();
    let transport = reusing(ConnectionReuse::Never);
    let load =
        Load { turns: 2, transport, phases: vec![closed_loop(1, 4)], ..Load::on(&server.url) };
    let records = load.run().records;
    assert_eq!(ports(&records).len(), 4);
    for record in &records {
        assert!(record.trace.reused.is_none() && record.trace.connecting().is_some());
    }
    let requests: Vec<_> = server.requests.iter().take(4).collect();
    assert_eq!(
        requests.iter().map(|(connection, _)| *connection).collect::<Vec<_>>(),
        [0, 1, 2, 3]
    );
    let says_so =
        |request: &String| request.to_ascii_lowercase().contains("\r\nconnection: close\r\n");
    assert!(requests.iter().all(|(_, request)| says_so(request)), "{requests:?}");
    assert_eq!(server.closed.iter().take(4).collect::<BTreeSet<_>>(), BTreeSet::from([0, 1, 2, 3]));
}

#[test]
fn sticky_sessions_keep_their_connection_to_their_end() {
    let server = witness();
    let transport = reusing(ConnectionReuse::StickyUserSessions);
    // The sessions wait between their turns, when any other request would take their connection
    // from a pool.
    let load = Load {
        turns: 3,
        turn_delay: Nanos::from_millis(5.0),
        transport,
        phases: vec![sessions(4)],
        ..Load::on(&server.url)
    };
    let sessions = by_session(load.run().records);
    assert_eq!(sessions.len(), 4);
    for session in &sessions {
        assert_eq!(ports(session).len(), 1);
        let reused: Vec<bool> =
            session.iter().map(|record| record.trace.reused.is_some()).collect();
        assert_eq!(reused, [false, true, true]);
    }
    let all: Vec<_> = sessions.concat();
    assert_eq!(ports(&all).len(), 4);
    // Each is closed with its session.
    assert_eq!(server.closed.iter().take(4).count(), 4);
}

#[test]
fn pooled_connections_serve_any_session() {
    let server = witness();
    let load = Load { turns: 2, phases: vec![closed_loop(1, 6)], ..Load::on(&server.url) };
    let records = load.run().records;
    assert_eq!(ports(&records).len(), 1);
    assert_eq!(records.iter().filter(|record| record.trace.reused.is_some()).count(), 5);
    assert_eq!(server.most_open.load(Ordering::SeqCst), 1);
}

#[test]
fn a_connection_that_was_idle_too_long_is_not_used_again() {
    let server = witness();
    let keepalive_timeout = Nanos::from_millis(20.0);
    for reuse in [ConnectionReuse::Pooled, ConnectionReuse::StickyUserSessions] {
        let load = Load {
            turns: 3,
            turn_delay: Nanos::from_millis(200.0),
            transport: with(Connections { keepalive_timeout, reuse, ..Connections::default() }),
            phases: vec![closed_loop(1, 3)],
            ..Load::on(&server.url)
        };
        let records = load.run().records;
        assert_eq!(ports(&records).len(), 3, "{reuse:?}");
        assert!(records.iter().all(|record| record.trace.reused.is_none()));
    }
}

#[test]
fn an_idle_connection_is_closed_in_its_time() {
    let server = witness();
    // No request is sent while the session waits for its second turn.
    let load = Load {
        turns: 2,
        turn_delay: Nanos::from_seconds(2.0),
        transport: with(Connections {
            keepalive_timeout: Nanos::from_millis(30.0),
            ..Connections::default()
        }),
        phases: vec![closed_loop(1, 2)],
        ..Load::on(&server.url)
    };
    let (ended, end) = mpsc::channel();
    let run = thread::spawn(move || ended.send(load.run().records).unwrap());
    assert_eq!(server.closed.recv_timeout(Duration::from_secs(20)), Ok(0));
    // The second turn was not sent yet, so the first connection was not closed to make room for
    // another.
    assert_eq!(server.requests.try_iter().count(), 1);
    assert_eq!(end.recv().unwrap().len(), 2);
    run.join().unwrap();
}

#[test]
fn requests_beyond_the_limit_wait_in_their_order() {
    let server = witness();
    let transport = with(Connections { limit: 1, ..Connections::default() });
    let load = Load { transport, phases: vec![closed_loop(4, 12)], ..Load::on(&server.url) };
    let mut records = load.run().records;
    assert_eq!(server.most_open.load(Ordering::SeqCst), 1);
    assert_eq!(ports(&records).len(), 1);
    records.sort_by_key(|record| record.trace.send_start);
    // All but the first found the connection in use.
    assert_eq!(records[0].trace.blocked(), None);
    for pair in records.windows(2) {
        let (earlier, later) = (&pair[0], &pair[1]);
        let trace = &later.trace;
        assert!(trace.pool_wait_start >= Some(later.issued));
        assert!(earlier.trace.pool_wait_start <= trace.pool_wait_start, "first come, first served");
        assert!(trace.pool_wait_end >= earlier.trace.receive_end, "{trace:?}");
        assert!(trace.send_start >= trace.pool_wait_end);
        // The server takes 2 ms for the previous request alone.
        assert!(trace.blocked().unwrap() > Nanos::ZERO);
    }
}

#[test]
fn the_limit_is_that_of_all_workers() {
    let server = witness();
    let transport = with(Connections { limit: 2, ..Connections::default() });
    // With three workers, one always needs another worker's connection to be closed.
    let load =
        Load { transport, workers: 3, phases: vec![closed_loop(6, 60)], ..Load::on(&server.url) };
    let records = load.run().records;
    assert!(records.iter().all(|record| record.error.is_none()));
    assert_eq!(records.len(), 60);
    // A connection is closed before the next is opened, but the server may notice later.
    assert!(records.iter().any(|record| record.trace.blocked().is_some()));
    let mut spans: Vec<(Nanos, isize)> = Vec::new();
    for record in &records {
        spans.push((record.trace.send_start.unwrap(), 1));
        spans.push((record.trace.receive_end.unwrap(), -1));
    }
    spans.sort_unstable();
    let at_once = spans.iter().scan(0, |open, (_, change)| {
        *open += change;
        Some(*open)
    });
    assert!(at_once.max().unwrap() <= 2);
}

#[test]
fn a_worker_that_is_done_gives_up_its_idle_connections() {
    let server = witness();
    // Workers take requests in any order: in some of the runs, the last request belongs to a
    // different worker than the connection, whose worker has finished.
    for _ in 0..30 {
        let transport = with(Connections { limit: 1, ..Connections::default() });
        let phases = vec![closed_loop(3, 3)];
        let load = Load { transport, workers: 3, phases, ..Load::on(&server.url) };
        assert_eq!(load.run().records.len(), 3);
    }
}

#[test]
fn sessions_of_their_own_wait_for_a_session_to_end() {
    let server = witness();
    let transport = with(Connections {
        limit: 1,
        reuse: ConnectionReuse::StickyUserSessions,
        ..Connections::default()
    });
    let load = Load {
        turns: 3,
        turn_delay: Nanos::from_millis(3.0),
        transport,
        phases: vec![sessions(2)],
        ..Load::on(&server.url)
    };
    let sessions = by_session(load.run().records);
    let [first, second] = &sessions[..] else { panic!("two sessions") };
    assert!(first.iter().all(|record| record.trace.blocked().is_none()));
    assert!(second[0].trace.pool_wait_end > first[2].trace.receive_end);
    assert!(second[1..].iter().all(|record| record.trace.blocked().is_none()));
}

#[test]
fn a_session_that_waits_for_its_turn_gives_up_its_connection() {
    // The first session's second turn waits for the slot held by the second session, which waits
    // for the first one's connection.
    let server = witness();
    let transport = with(Connections {
        limit: 1,
        reuse: ConnectionReuse::StickyUserSessions,
        ..Connections::default()
    });
    let mut phase = sessions(4);
    phase.prefill_concurrency = Some(Limit::constant(1));
    phase.stop.duration = Some(Nanos(20_000_000_000));
    let load = Load { turns: 3, transport, phases: vec![phase], ..Load::on(&server.url) };
    let sessions = by_session(load.run().records);
    assert_eq!(sessions.iter().map(Vec::len).collect::<Vec<_>>(), [3; 4]);
}

#[test]
fn who_waits_for_a_request_to_be_sent_is_told_by_the_second_attempt() {
    // More than a socket's buffers can hold: the first connection is reset before it is sent.
    let long = bytes::Bytes::from(vec![b' '; 32 << 20]);
    let address = raw_server::serve(|connection, stream| {
        read_request(stream);
        write(stream, &answer());
        if connection == 0 {
            let _ = stream.read(&mut [0; 64]);
        }
    });
    let url = format!("http://{address}");
    let client = Client::new(connector(transport::Config::default(), &[&url]));
    run(async {
        exchange(&client, 0).await;
        let (sent, was_sent) = tokio::sync::oneshot::channel();
        let request = OutgoingRequest {
            target: 0,
            method: http::Method::POST,
            path: None,
            headers: &http::HeaderMap::new(),
            body: long,
        };
        let session = SessionConnection::default();
        let watch = Notifications { sent: Some(sent), event: None };
        let exchange = client.exchange(&request, &session, watch, std::future::pending()).await;
        assert_eq!((exchange.error, exchange.retry_count), (None, 1));
        assert!(was_sent.await.unwrap() >= exchange.trace.send_start.unwrap());
    });
}

#[test]
fn a_response_to_half_a_request_is_received() {
    let address = raw_server::serve(|_, stream| {
        stream.read_exact(&mut [0; 100]).unwrap();
        let head = "HTTP/1.1 413 Content Too Large\r\nconnection: close\r\ncontent-length: 8";
        write(stream, format!("{head}\r\n\r\ntoo long").as_bytes());
        // The rest of the request is not read, so that the kernel resets the connection.
    });
    let url = format!("http://{address}");
    let client = Client::new(connector(transport::Config::default(), &[&url]));
    run(async {
        let request = OutgoingRequest {
            target: 0,
            method: http::Method::POST,
            path: None,
            headers: &http::HeaderMap::new(),
            body: vec![b'x'; 32 << 20].into(),
        };
        let (session, never) = (SessionConnection::default(), std::future::pending());
        let exchange = client.exchange(&request, &session, Notifications::default(), never).await;
        assert_eq!((exchange.status, exchange.error), (Some(413), None));
        assert_eq!(exchange.body.bytes, b"too long");
    });
}

fn connector(config: transport::Config, urls: &[&str]) -> Arc<Connector> {
    let target = |url: &&str| Target::new(&url::Url::parse(url).unwrap()).unwrap();
    let targets: Vec<Target> = urls.iter().map(target).collect();
    Arc::new(Connector::new(config, &targets).unwrap())
}

fn run<T>(future: impl Future<Output = T>) -> T {
    tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap().block_on(future)
}

async fn exchange(client: &Client, target: usize) -> HttpTrace {
    let body = bytes::Bytes::from_static(b"{}");
    let request = OutgoingRequest {
        target,
        method: http::Method::POST,
        path: None,
        headers: &http::HeaderMap::new(),
        body,
    };
    let session = SessionConnection::default();
    let exchange =
        client.exchange(&request, &session, Notifications::default(), std::future::pending()).await;
    assert_eq!(exchange.error, None);
    exchange.trace
}

/// Sends one request to each of `urls`, one after the other, without a run.
fn exchange_in_turn(config: transport::Config, urls: &[&str]) -> Vec<HttpTrace> {
    let client = Client::new(connector(config, urls));
    run(async {
        let mut traces = Vec::new();
        for target in 0..urls.len() {
            traces.push(exchange(&client, target).await);
        }
        traces
    })
}

#[test]
fn an_idle_connection_of_another_worker_makes_room() {
    let server = witness();
    let config = with(Connections { limit: 1, ..Connections::default() });
    let connector = connector(config, &[&server.url]);
    let (idle, is_idle) = mpsc::channel();
    let (done, is_done) = tokio::sync::oneshot::channel();
    let other = Client::new(Arc::clone(&connector));
    thread::scope(|scope| {
        let first = Arc::clone(&connector);
        scope.spawn(move || {
            let client = Client::new(first);
            run(async {
                exchange(&client, 0).await;
                idle.send(()).unwrap();
                tokio::select! {
                    () = client.tend() => {}
                    _ = is_done => {}
                }
            });
        });
        is_idle.recv().unwrap();
        let trace = run(exchange(&other, 0));
        assert!(trace.blocked().is_some() && trace.reused.is_none(), "{trace:?}");
        done.send(()).unwrap();
    });
    assert_eq!(server.closed.recv_timeout(Duration::from_secs(20)), Ok(0));
}

#[test]
fn an_idle_connection_of_another_server_makes_room() {
    let (one, other) = (witness(), witness());
    let config = with(Connections { limit: 1, ..Connections::default() });
    let traces = exchange_in_turn(config, &[&one.url, &other.url, &one.url]);
    for trace in &traces {
        assert!(trace.reused.is_none() && trace.connecting().is_some());
        assert_eq!(trace.blocked(), None);
    }
    assert_eq!(one.closed.recv_timeout(Duration::from_secs(20)), Ok(0));
    assert_eq!(other.closed.recv_timeout(Duration::from_secs(20)), Ok(0));
}

#[test]
fn a_name_is_looked_up_once() {
    let address = raw_server::serve(|_, stream| answers(stream));
    let url = format!("http://localhost:{}", address.port());
    let config = |ttl| {
        with(Connections {
            reuse: ConnectionReuse::Never,
            dns_cache_ttl: ttl,
            ..Connections::default()
        })
    };
    let cached = exchange_in_turn(config(Some(Nanos::from_seconds(300.0))), &[&url, &url]);
    assert!(cached[0].dns_cache_miss.is_some() && cached[0].dns_lookup().is_some());
    assert!(cached[1].dns_cache_hit.is_some() && cached[1].dns_lookup().is_none());
    let uncached = exchange_in_turn(config(None), &[&url, &url]);
    assert!(uncached.iter().all(|trace| trace.dns_lookup().is_some()));
    assert!(uncached.iter().all(|trace| trace.dns_cache_hit.or(trace.dns_cache_miss).is_none()));
}

#[test]
fn both_sides_are_known_to_each_other() {
    let address = raw_server::serve(|_, stream| {
        if let Ok(mut stream) = accept_tls(stream, true) {
            answers(&mut stream);
        }
    });
    let url = format!("https://localhost:{}", address.port());
    let error = |tls: TlsOptions| {
        let transport = with(Connections { tls, ..Connections::default() });
        let load = Load { transport, phases: vec![closed_loop(1, 2)], ..Load::on(&url) };
        load.run().records.remove(0).error
    };
    assert_eq!(error(golden_tls()), None);
    assert_eq!(error(TlsOptions { verify: false, authorities: None, ..golden_tls() }), None);
    let nameless = error(TlsOptions { identity: None, ..golden_tls() }).unwrap();
    assert_eq!((nameless.kind, nameless.name.as_str()), (ErrorKind::Other, "TlsError"));
    // The server's alert, after the client considered the handshake complete.
    assert_eq!(
        nameless.message,
        "the connection failed: received fatal alert: CertificateRequired"
    );
    let stranger = TlsOptions { authorities: TlsOptions::default().authorities, ..golden_tls() };
    // If the system has root certificates, the tests' authority is not one of them.
    if stranger.client_config().is_ok() {
        let stranger = error(stranger).unwrap();
        assert_eq!(stranger.name, "TlsError");
        assert!(stranger.message.contains("--ssl-ca-cert"), "{}", stranger.message);
    }
}

/// The program with a server that requires a certificate, including the wait for the model.
#[test]
fn a_run_over_mutual_tls() {
    let address = raw_server::serve(|_, stream| {
        if let Ok(mut stream) = accept_tls(stream, true) {
            answers(&mut stream);
        }
    });
    let url = format!("https://localhost:{}", address.port());
    let files = [tls_file("ca.pem"), tls_file("client.pem"), tls_file("client.key")];
    let known = ["--ssl-ca-cert", &files[0], "--ssl-cert", &files[1], "--ssl-key", &files[2]];
    let wait = ["--wait-for-model-timeout", "20", "--request-count", "3", "--export-http-trace"];
    let run = profile(&url, &[&known[..], &wait].concat()).succeeded();
    let records = run.records();
    assert_eq!(records.len(), 3);
    assert!(records[0]["trace_data"]["tls_handshaking_ns"].as_u64().unwrap() > 0);
    assert!(records[0]["metrics"]["http_req_tls_handshaking"]["value"].as_f64().unwrap() > 0.0);
    assert_eq!(records[1]["metrics"]["http_req_tls_handshaking"]["value"], 0.0);
    let bare = profile(&url, &["--no-ssl-verify", "--wait-for-model-timeout", "0.1"]);
    assert_eq!(bare.exit_code(), Some(1));
    assert!(bare.stderr().contains("the model did not become available"), "{}", bare.stderr());
}

/// A server that takes 200 ms before its handshake, 50 ms to its first token and another 50 ms to
/// its second: for its user, the first token takes 250 ms.
#[test]
fn latencies_count_from_the_hand_over_to_the_transport() {
    let event = |text: &str| {
        let data = format!("data: {{\"choices\":[{{\"delta\":{{\"content\":\"{text}\"}}}}]}}\n\n");
        format!("{:x}\r\n{data}\r\n", data.len())
    };
    let address = raw_server::serve(move |_, stream| {
        thread::sleep(DELAY);
        let Ok(mut stream) = accept_tls(stream, false) else { return };
        while read_request(&mut stream).is_some() {
            let head = "HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\n\
                        transfer-encoding: chunked\r\n\r\n";
            write(&mut stream, head.as_bytes());
            thread::sleep(Duration::from_millis(50));
            write(&mut stream, event("one ").as_bytes());
            thread::sleep(Duration::from_millis(50));
            write(
                &mut stream,
                format!("{}e\r\ndata: [DONE]\n\n\r\n0\r\n\r\n", event("two")).as_bytes(),
            );
        }
    });
    let url = format!("https://localhost:{}", address.port());
    let run = profile(
        &url,
        &[
            "--no-ssl-verify",
            "--no-server-metrics",
            "--request-count",
            "4",
            "--request-rate",
            "2",
            "--arrival-pattern",
            "constant",
            "--connection-reuse-strategy",
            "never",
            "--goodput",
            "time_to_first_token:249 request_latency:299",
            "--export-http-trace",
        ],
    )
    .succeeded();
    let records = run.records();
    assert_eq!(records.len(), 4);
    for record in &records {
        let (metadata, metrics) = (&record["metadata"], &record["metrics"]);
        let millis = |tag: &str| metrics[tag]["value"].as_f64().unwrap();
        assert!(millis("time_to_first_token") >= 250.0, "{metrics}");
        assert!(millis("request_latency") >= 300.0, "{metrics}");
        let instant = |name: &str| metadata[name].as_u64().unwrap();
        let start = instant("request_start_ns");
        assert!(start <= record["trace_data"]["tcp_connect_start_ns"].as_u64().unwrap());
        assert_eq!(metadata["request_sent_ns"], record["trace_data"]["request_send_start_ns"]);
        assert!(instant("request_sent_ns") - start >= 200_000_000);
        // The wait in the client ends at the start, and the latencies add up.
        let waited = nanos(&metrics["credit_to_start_latency"]["value"]);
        assert_eq!(waited, start - instant("request_due_ns"));
        assert_eq!(
            nanos(&metrics["effective_latency"]["value"]),
            waited + nanos(&metrics["request_latency"]["value"])
        );
    }
    let summary = run.summary();
    assert_eq!(summary["good_request_count"]["avg"], 0.0);
    assert!(summary["time_to_first_token"]["min"].as_f64().unwrap() >= 250.0);
    // The 200 ms are due to the server and not part of the client's slip.
    let slip = &summary["client_health"]["schedule_slip_ms"]["avg"];
    assert!(slip.as_f64().unwrap() < 200.0, "{slip}");
}

/// A proxy that records the heads of requests. It opens tunnels, with a delay, for clients with the
/// password, and responds to plain requests itself.
fn proxy() -> (SocketAddr, Arc<Mutex<Vec<String>>>) {
    let heads = Arc::new(Mutex::new(Vec::new()));
    let seen = Arc::clone(&heads);
    let address = raw_server::serve(move |_, stream| {
        while let Some(request) = read_request(stream) {
            seen.lock().unwrap().push(request.clone());
            let Some(rest) = request.strip_prefix("CONNECT ") else {
                write(stream, &answer());
                continue;
            };
            // base64 of `user:hunter2`.
            if !request.contains("proxy-authorization: Basic dXNlcjpodW50ZXIy\r\n") {
                return write(stream, b"HTTP/1.1 407 Proxy Authentication Required\r\n\r\n");
            }
            thread::sleep(DELAY);
            let to = TcpStream::connect(rest.split(' ').next().unwrap()).unwrap();
            write(stream, b"HTTP/1.1 200 Connection established\r\nvia: test\r\n\r\n");
            return relay(stream, &to);
        }
    });
    (address, heads)
}

/// Copies in both directions until both sides have ended.
fn relay(one: &TcpStream, other: &TcpStream) {
    let copy = |from: &TcpStream, to: &TcpStream| {
        let _ = io::copy(&mut &*from, &mut &*to);
        let _ = to.shutdown(Shutdown::Write);
    };
    thread::scope(|scope| {
        scope.spawn(|| copy(one, other));
        copy(other, one);
    });
}

fn through(proxy: &str) -> Proxies {
    let variable = |name: &str| (name == "ALL_PROXY").then(|| proxy.to_owned());
    Proxies::from_environment(Environment::new(&variable)).unwrap()
}

#[test]
fn https_goes_through_a_tunnel_of_the_proxy() {
    let address = raw_server::serve(|_, stream| answers(&mut accept_tls(stream, true).unwrap()));
    let url = format!("https://localhost:{}", address.port());
    let (proxy, heads) = proxy();
    let run = |credentials: &str| {
        let proxies = through(&format!("http://{credentials}{proxy}"));
        let connections = Connections { tls: golden_tls(), proxies, ..Connections::default() };
        let phases = vec![closed_loop(1, 2)];
        Load { transport: with(connections), phases, ..Load::on(&url) }.run().records
    };
    let records = run("user:hunter2@");
    assert!(records.iter().all(|record| record.error.is_none()), "{records:?}");
    let trace = &records[0].trace;
    // The proxy delayed the tunnel; the handshake followed.
    assert!(trace.connecting().unwrap() >= Nanos::from(DELAY), "{trace:?}");
    assert!(trace.tls_start.unwrap().since(trace.connect_start.unwrap()) >= Nanos::from(DELAY));
    assert_eq!(trace.remote_addr, Some(proxy));
    assert!(records[1].trace.reused.is_some());
    let head = heads.lock().unwrap().remove(0);
    let authority = format!("localhost:{}", address.port());
    assert!(head.starts_with(&format!("CONNECT {authority} HTTP/1.1\r\nhost: {authority}\r\n")));
    let refused = run("").remove(0);
    let error = refused.error.unwrap();
    assert_eq!((error.kind, error.name.as_str()), (ErrorKind::Other, "ProxyError"));
    assert!(error.message.contains("407 Proxy Authentication Required"), "{}", error.message);
    assert!(refused.trace.connect_start.is_some() && refused.trace.connect_end.is_none());
}

#[test]
fn a_proxy_that_breaks_the_rules_is_a_record() {
    for (answer, told) in [
        ("", "closed the connection"),
        ("HTTP/1.1 200", "closed the connection"),
        ("SSH-2.0-OpenSSH_9.2\r\n\r\n", "sent an invalid HTTP response"),
        ("HTTP/1.1 302 Found\r\nlocation: /\r\n\r\n", "302 Found"),
    ] {
        let proxy = raw_server::serve(move |_, stream| {
            read_request(stream);
            write(stream, answer.as_bytes());
        });
        let proxies = through(&format!("http://{proxy}"));
        let transport = with(Connections { proxies, tls: golden_tls(), ..Connections::default() });
        let load = Load { transport, ..Load::on("https://model.invalid") };
        let error = load.run().records.remove(0).error.unwrap();
        assert_eq!(error.name, "ProxyError", "{answer}");
        assert!(error.message.contains(told), "{}", error.message);
    }
    let long = format!("HTTP/1.1 200 OK\r\n{}", "x-a: b\r\n".repeat(9_000));
    let proxy = raw_server::serve(move |_, stream| {
        read_request(stream);
        write(stream, long.as_bytes());
    });
    let proxies = through(&format!("http://{proxy}"));
    let transport = with(Connections { proxies, tls: golden_tls(), ..Connections::default() });
    let record = Load { transport, ..Load::on("https://model.invalid") }.run().records.remove(0);
    assert_eq!(record.error.unwrap().name, "ProxyError");
}

#[test]
fn a_proxy_that_is_not_there_is_named_as_such() {
    let gone = Refusing::new();
    let proxies = through(&gone.url());
    let transport = with(Connections { proxies, tls: golden_tls(), ..Connections::default() });
    let record = Load { transport, ..Load::on("https://model.invalid") }.run().records.remove(0);
    let error = record.error.unwrap();
    assert_eq!(error.name, "ConnectionRefused");
    let told = format!("cannot connect to the proxy {}: ", gone.address);
    assert!(error.message.starts_with(&told), "{}", error.message);
}

#[test]
fn http_is_asked_of_the_proxy_by_the_whole_url() {
    let (proxy, heads) = proxy();
    let directory = tempfile::tempdir().unwrap();
    let extra = [
        "--request-count",
        "2",
        "--export-level",
        "raw",
        "--export-http-trace",
        "--no-server-metrics",
    ];
    let mut command =
        profile_command("http://user:pa55@model.invalid/base", directory.path(), &extra);
    command.env("HTTP_PROXY", format!("http://user:hunter2@{proxy}"));
    command.env_remove("http_proxy").env_remove("NO_PROXY").env_remove("no_proxy");
    command.env("AIPERF_HTTP_TRUST_ENV", "true");
    // Without TLS, no certificates are needed.
    command.env("SSL_CERT_FILE", "/nonexistent").env("SSL_CERT_DIR", "/nonexistent");
    let run = Run { output: command.output().unwrap(), directory }.succeeded();
    let heads = heads.lock().unwrap();
    assert_eq!(heads.len(), 2);
    for head in heads.iter() {
        let line = "POST http://model.invalid/base/v1/chat/completions HTTP/1.1\r\n";
        assert!(head.starts_with(line), "{head}");
        let head = head.to_ascii_lowercase();
        assert!(head.contains("\r\nhost: model.invalid\r\n"), "{head}");
        assert!(head.contains("\r\nproxy-authorization: basic dxnlcjpodw50zxiy\r\n"), "{head}");
    }
    let record = &run.records()[0];
    assert_eq!(record["trace_data"]["remote_port"], proxy.port());
    assert_eq!(record["trace_data"]["request_headers"]["Proxy-Authorization"], "<redacted>");
    let everything = [
        run.stdout(),
        run.stderr(),
        run.text("profile_export.jsonl"),
        run.text("profile_export_raw.jsonl"),
        run.text("run_manifest.json"),
        run.text("profile_export_aiperf.json"),
        run.text("logs/aiperf.log"),
    ];
    for secret in ["hunter2", "pa55", "dXNlcjpodW50ZXIy"] {
        assert!(everything.iter().all(|text| !text.contains(secret)), "{secret}");
    }
}

/// Returns the nanoseconds of a time in milliseconds with at most six decimals.
fn nanos(value: &Value) -> u64 {
    (value.as_f64().unwrap() * 1e6).round() as u64
}

/// The members of the trace of a first exchange, without TLS and without a wait.
const MEMBERS: [&str; 35] = [
    "clock",
    "max_read_lag_ns",
    "max_uncertainty_ns",
    "trace_type",
    "request_send_start_ns",
    "request_headers",
    "request_headers_sent_ns",
    "request_chunks",
    "request_send_end_ns",
    "request_chunks_count",
    "request_bytes_total",
    "response_status_code",
    "response_reason",
    "response_receive_start_ns",
    "response_headers",
    "response_headers_received_ns",
    "response_chunks",
    "response_chunks_count",
    "response_bytes_total",
    "response_receive_end_ns",
    "sending_ns",
    "waiting_ns",
    "receiving_ns",
    "duration_ns",
    "dns_lookup_ns",
    "connecting_ns",
    "tcp_connect_start_ns",
    "tcp_connect_end_ns",
    "dns_lookup_start_ns",
    "dns_lookup_end_ns",
    "dns_cache_miss_ns",
    "local_ip",
    "local_port",
    "remote_ip",
    "remote_port",
];

#[test]
fn the_trace_of_an_exchange_is_whole() {
    let (told, requests) = mpsc::channel();
    let address = raw_server::serve(move |_, stream| {
        let peer = stream.peer_addr().unwrap();
        while let Some(request) = read_request(stream) {
            told.send((peer, request)).unwrap();
            // Two pieces, the second when the first must have been read.
            let answer = answer();
            let (first, rest) = answer.split_at(answer.len() - 10);
            write(stream, first);
            thread::sleep(DELAY);
            write(stream, rest);
        }
    });
    let url = format!("http://localhost:{}", address.port());
    let extra = [
        "--request-count",
        "2",
        "--export-http-trace",
        "--api-key",
        "sk-5ecret",
        "--no-server-metrics",
    ];
    let run = profile(&url, &extra).succeeded();
    let records = run.records();
    let (peer, request) = requests.recv().unwrap();
    let trace = records[0]["trace_data"].as_object().unwrap();
    let members: BTreeSet<&str> = trace.keys().map(String::as_str).collect();
    assert_eq!(members, BTreeSet::from(MEMBERS));
    let number = |name: &str| trace[name].as_u64().unwrap_or_else(|| panic!("{name}"));

    assert_eq!(trace["trace_type"], "hyper");
    assert_eq!(trace["response_status_code"], 200);
    assert_eq!(trace["response_reason"], "OK");
    assert_eq!(trace["local_ip"], "127.0.0.1");
    assert_eq!(trace["remote_ip"], "127.0.0.1");
    assert_eq!(number("local_port"), u64::from(peer.port()));
    assert_eq!(number("remote_port"), u64::from(address.port()));
    assert_eq!(trace["request_headers"]["Authorization"], "<redacted>");
    assert_eq!(trace["request_headers"]["Host"], format!("localhost:{}", address.port()));
    assert_eq!(trace["response_headers"]["content-type"], "application/json");

    assert_eq!(number("request_bytes_total"), request.len() as u64);
    assert_eq!(number("response_bytes_total"), answer().len() as u64);
    for side in ["request", "response"] {
        let chunks = trace[&format!("{side}_chunks")].as_array().unwrap();
        assert_eq!(number(&format!("{side}_chunks_count")), chunks.len() as u64);
        let bytes: u64 = chunks.iter().map(|chunk| chunk[1].as_u64().unwrap()).sum();
        assert_eq!(number(&format!("{side}_bytes_total")), bytes);
        assert!(chunks.is_sorted_by_key(|chunk| chunk[0].as_u64()));
        let end =
            ["request_send_end_ns", "response_receive_end_ns"][usize::from(side == "response")];
        assert_eq!(chunks.last().unwrap()[0], trace[end]);
    }
    let received = trace["response_chunks"].as_array().unwrap();
    assert_eq!(
        received.iter().map(|chunk| &chunk[1]).collect::<Vec<_>>().last(),
        Some(&&10.into())
    );

    let order = [
        "dns_cache_miss_ns",
        "dns_lookup_start_ns",
        "dns_lookup_end_ns",
        "tcp_connect_start_ns",
        "tcp_connect_end_ns",
        "request_send_start_ns",
        "request_headers_sent_ns",
        "request_send_end_ns",
        "response_headers_received_ns",
        "response_receive_start_ns",
        "response_receive_end_ns",
    ]
    .map(number);
    assert!(order.is_sorted(), "{order:?}");
    for (name, from, to) in [
        ("dns_lookup_ns", "dns_lookup_start_ns", "dns_lookup_end_ns"),
        ("connecting_ns", "tcp_connect_start_ns", "tcp_connect_end_ns"),
        ("sending_ns", "request_send_start_ns", "request_send_end_ns"),
        ("waiting_ns", "request_send_end_ns", "response_receive_start_ns"),
        ("receiving_ns", "response_receive_start_ns", "response_receive_end_ns"),
        ("duration_ns", "request_send_start_ns", "response_receive_end_ns"),
    ] {
        assert_eq!(number(name), number(to) - number(from), "{name}");
    }
    assert!(number("receiving_ns") >= SEEN.0);

    let reused = records[1]["trace_data"].as_object().unwrap();
    assert!(reused.contains_key("connection_reused_ns"));
    for absent in ["dns_lookup_ns", "connecting_ns", "tcp_connect_start_ns", "blocked_ns"] {
        assert!(!reused.contains_key(absent), "{absent}");
    }
    the_metrics_are_those_of_the_trace(&records);
}

/// Checks that each metric is the duration in the trace, 0 if that is absent, and that the total is
/// their sum to the nanosecond.
fn the_metrics_are_those_of_the_trace(records: &[Value]) {
    for record in records {
        let (trace, metrics) = (&record["trace_data"], &record["metrics"]);
        let metric = |tag: &str| nanos(&metrics[tag]["value"]);
        let mut sum = 0;
        for phase in ["blocked", "dns_lookup", "connecting", "sending", "waiting", "receiving"] {
            let tag = format!("http_req_{phase}");
            let duration = trace[&format!("{phase}_ns")].as_u64().unwrap_or(0);
            assert_eq!(metric(&tag), duration, "{tag}");
            sum += duration;
        }
        assert_eq!(metric("http_req_total"), sum);
        assert_eq!(metric("http_req_duration"), trace["duration_ns"].as_u64().unwrap());
        let kilobytes = |tag: &str| metrics[tag]["value"].as_f64().unwrap() * 1024.0;
        assert_eq!(kilobytes("http_req_data_sent"), trace["request_bytes_total"].as_f64().unwrap());
        assert_eq!(
            kilobytes("http_req_data_received"),
            trace["response_bytes_total"].as_f64().unwrap()
        );
        for side in [("sent", "request"), ("received", "response")] {
            let tag = format!("http_req_chunks_{}", side.0);
            assert_eq!(metrics[&tag]["value"], trace[&format!("{}_chunks_count", side.1)]);
        }
        let is_reused = trace.get("connection_reused_ns").is_some();
        assert_eq!(metrics["http_req_connection_reused"]["value"], u64::from(is_reused));
    }
}

#[test]
fn a_failed_exchange_traces_what_there_was() {
    let address = {
        let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        listener.local_addr().unwrap()
    };
    let run =
        profile(&format!("http://{address}"), &["--request-count", "1", "--export-http-trace"]);
    let record = &run.records()[0];
    let trace = record["trace_data"].as_object().unwrap();
    let members: BTreeSet<&str> = trace.keys().map(String::as_str).collect();
    let expected = [
        "trace_type",
        "request_headers",
        "request_chunks",
        "request_chunks_count",
        "request_bytes_total",
        "response_chunks",
        "response_chunks_count",
        "response_bytes_total",
        "tcp_connect_start_ns",
        "error_timestamp_ns",
    ];
    assert_eq!(members, BTreeSet::from(expected));
    assert!(trace["error_timestamp_ns"].as_u64() >= trace["tcp_connect_start_ns"].as_u64());
    // Without a lookup and without a connection.
    let metrics = record["metrics"].as_object().unwrap();
    let of_http: Vec<(&str, f64)> = metrics
        .iter()
        .filter(|(tag, _)| tag.starts_with("http_req_"))
        .map(|(tag, metric)| (tag.as_str(), metric["value"].as_f64().unwrap()))
        .collect();
    assert_eq!(of_http, [("http_req_blocked", 0.0), ("http_req_dns_lookup", 0.0)]);
}

/// One response is complete; the other is half complete when the request times out.
#[test]
fn an_unfinished_exchange_lasts_until_it_is_given_up() {
    let address = raw_server::serve(|_, stream| {
        while let Some(request) = read_request(stream) {
            let whole = answer();
            let length = whole.len() - if request.contains("half") { 10 } else { 0 };
            write(stream, &whole[..length]);
        }
    });
    let directory = tempfile::tempdir().unwrap();
    let input = directory.path().join("input.jsonl");
    std::fs::write(&input, "{\"text\": \"all\"}\n{\"text\": \"half\"}\n").unwrap();
    let run = profile(
        &format!("http://{address}"),
        &[
            "--input-file",
            input.to_str().unwrap(),
            "--request-count",
            "2",
            "--concurrency",
            "1",
            "--request-timeout-seconds",
            "1",
            "--export-http-trace",
            "--no-server-metrics",
        ],
    );
    let mut records = run.records();
    records.sort_by_key(|record| !record["error"].is_null());
    let [answered, half] = &records[..] else { panic!("{}", run.stderr()) };
    assert_eq!(answered["error"], Value::Null);
    assert_eq!(half["error"]["error_type"], "timeout");
    let number = |name: &str| half["trace_data"][name].as_u64().unwrap();
    let start = half["metadata"]["request_start_ns"].as_u64().unwrap();
    assert!(number("error_timestamp_ns") - start >= 1_000_000_000);
    assert_eq!(number("response_receive_end_ns"), number("error_timestamp_ns"));
    assert_eq!(
        number("duration_ns"),
        number("error_timestamp_ns") - number("request_send_start_ns")
    );
    assert_eq!(
        number("receiving_ns"),
        number("error_timestamp_ns") - number("response_receive_start_ns")
    );
    // Most of the second was spent waiting for the rest.
    assert!(number("receiving_ns") > 500_000_000);
    the_metrics_are_those_of_the_trace(&records);
    let summary = run.summary();
    assert_eq!(summary["http_req_duration"]["count"], 1);
    assert_eq!(summary["http_req_receiving"]["count"], 1);
    assert!(summary["http_req_duration"]["max"].as_f64().unwrap() < 1000.0);
}

/// The bytes that are sent, compared with the records.
#[test]
fn headers_are_recorded_under_the_names_they_are_sent_under() {
    let (told, heads) = mpsc::channel();
    let address = raw_server::serve(move |_, stream| {
        while let Some(request) = raw_server::read_as_sent(stream) {
            told.send(request).unwrap();
            write(stream, &answer());
        }
    });
    let run = profile(
        &format!("http://{address}"),
        &[
            "--request-count",
            "1",
            "--api-key",
            "sk-5ecret",
            "--header",
            "X-Custom-Tracking: abc-123",
            "--export-http-trace",
            "--export-level",
            "raw",
            "--no-server-metrics",
        ],
    )
    .succeeded();
    let request = heads.recv().unwrap();
    let head = request.split("\r\n\r\n").next().unwrap();
    let sent: BTreeSet<&str> =
        head.lines().skip(1).map(|line| line.split(':').next().unwrap()).collect();
    assert!(sent.contains("X-Custom-Tracking") && sent.contains("Authorization"), "{head}");
    let raw = run.text("profile_export_raw.jsonl");
    let raw: Value = serde_json::from_str(raw.lines().next().unwrap()).unwrap();
    for headers in [&raw["request_headers"], &run.records()[0]["trace_data"]["request_headers"]] {
        let names: BTreeSet<&str> =
            headers.as_object().unwrap().keys().map(String::as_str).collect();
        // hyper adds the length when it sends the request.
        let added: Vec<_> = sent.difference(&names).collect();
        assert_eq!(added, [&"Content-Length"]);
        assert!(names.is_subset(&sent));
        assert_eq!(headers["Authorization"], "<redacted>");
        assert_eq!(headers["X-Custom-Tracking"], "abc-123");
    }
}

#[test]
fn trace_timings_have_a_table_and_keep_it_in_a_report() {
    let address = raw_server::serve(|_, stream| answers(stream));
    let url = format!("http://{address}");
    let title = "aiperf | HTTP Trace Timing";
    let shown = profile(&url, &["--request-count", "3", "--show-trace-timing", "--tables", "all"])
        .succeeded();
    let stdout = shown.stdout();
    let main = stdout.find("aiperf | LLM Metrics\n").unwrap();
    assert!(stdout.find(title).unwrap() > main, "after the main table: {stdout}");
    let rows: Vec<&str> = stdout[stdout.find(title).unwrap()..]
        .lines()
        .filter_map(|line| line.strip_prefix('│')?.split('│').next().map(str::trim))
        .filter(|label| label.starts_with("HTTP "))
        .collect();
    let expected = [
        "HTTP Blocked (ms)",
        "HTTP DNS Lookup (ms)",
        "HTTP Connecting (ms)",
        "HTTP TLS Handshaking (ms)",
        "HTTP Sending (ms)",
        "HTTP Waiting (TTFB) (ms)",
        "HTTP Receiving (ms)",
        "HTTP Connection Reused (ratio)",
        "HTTP Data Sent (KB)",
        "HTTP Data Received (KB)",
        "HTTP Connection Overhead (ms)",
        "HTTP Duration (excl. conn) (ms)",
        "HTTP Total Time (ms)",
    ];
    assert_eq!(rows, expected);
    assert!(shown.text("profile_export_console.txt").contains(title));
    let report = |run: &Run| {
        let output = aiperf(&["report"]).arg(run.directory.path()).output().unwrap();
        String::from_utf8_lossy(&output.stdout).into_owned()
    };
    assert!(report(&shown).contains(title));
    let hidden = profile(&url, &["--request-count", "3"]).succeeded();
    assert!(!hidden.stdout().contains(title) && !report(&hidden).contains(title));
    // The values are present nevertheless.
    assert_eq!(hidden.summary()["http_req_total"]["unit"], "ms");
    assert_eq!(hidden.summary()["http_req_connection_reused"]["sum"], 2.0);
}

#[test]
fn a_crowd_does_not_wait_for_connections() {
    // The server is in this process, and needs a file for each connection, too.
    let limit = rustix::process::getrlimit(rustix::process::Resource::Nofile);
    let raised = rustix::process::Rlimit { current: limit.maximum, ..limit };
    rustix::process::setrlimit(rustix::process::Resource::Nofile, raised).unwrap();
    let server = mock(Script { ttft: Nanos::from_seconds(4.0), ..Script::default() });
    let run = profile(&server.url(), &["--concurrency", "2600", "--request-count", "2600"]);
    let run = run.succeeded();
    assert_eq!(run.summary()["request_count"]["avg"], 2600.0);
    assert_eq!(run.summary()["http_req_blocked"]["max"], 0.0);
    assert!(!run.stdout().contains("connection-limit-reached"), "{}", run.stdout());
}

#[test]
fn a_limit_below_the_concurrency_is_said_before_and_after_the_run() {
    let server = mock(Script { ttft: Nanos::from_millis(20.0), ..Script::default() });
    let directory = tempfile::tempdir().unwrap();
    let load = ["--concurrency", "8", "--request-count", "24"];
    let mut command = profile_command(&server.url(), directory.path(), &load);
    let output = command.env("AIPERF_HTTP_CONNECTION_LIMIT", "2").output().unwrap();
    let run = Run { output, directory }.succeeded();
    assert_eq!(server.peak_in_flight(), 2);
    assert!(run.stderr().contains("the limit of 2 connections"), "{}", run.stderr());
    let longest = run.summary()["http_req_blocked"]["max"].as_f64().unwrap();
    // The third request waits for a response.
    assert!(longest >= 20.0, "{longest}");
    let waited = format!("connection-limit-reached: requests waited up to {longest:.1} ms");
    let text = run.stdout();
    assert!(text.contains(&waited), "{text}");
    let report = aiperf(&["report", run.directory.path().to_str().unwrap()]).output().unwrap();
    let text = String::from_utf8_lossy(&report.stdout);
    assert!(text.contains(&waited), "{text}");
}
