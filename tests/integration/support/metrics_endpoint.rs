//! A scripted Prometheus endpoint on a plain socket, and recordings of real ones.

use std::collections::{HashMap, VecDeque};
use std::fs::File;
use std::io::{BufRead as _, BufReader, Write};
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::path::Path;
use std::sync::{Arc, Condvar, Mutex, MutexGuard};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use flate2::Compression;
use flate2::read::GzDecoder;
use flate2::write::GzEncoder;
use serde::de::DeserializeOwned;
use url::Url;

use crate::support::raw_server::{read_request, write};

/// Time limit for expected events.
const TIMEOUT: Duration = Duration::from_mins(2);

/// Returns the scrapes of a recorded series, such as `vllm/scrapes`, in order.
pub(crate) fn recorded<T: DeserializeOwned>(series: &str) -> Vec<T> {
    let golden = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/golden");
    let file = File::open(golden.join(format!("{series}.jsonl.gz"))).unwrap();
    let lines = BufReader::new(GzDecoder::new(file)).lines();
    lines.map(|line| serde_json::from_str(&line.unwrap()).unwrap()).collect()
}

/// The response to one request.
#[derive(Debug, Clone)]
pub(crate) struct Reply {
    status: &'static str,
    headers: Vec<(&'static str, String)>,
    body: Body,
    delay: Duration,
    /// What the response waits for.
    gate: Option<Gate>,
}

/// Holds responses back until it is opened.
#[derive(Debug, Clone, Default)]
pub(crate) struct Gate(Arc<(Mutex<bool>, Condvar)>);

impl Gate {
    /// Lets the responses pass.
    pub(crate) fn open(&self) {
        *self.0.0.lock().unwrap() = true;
        self.0.1.notify_all();
    }

    fn wait(&self) {
        let is_shut = |is_open: &mut bool| !*is_open;
        drop(self.0.1.wait_timeout_while(self.0.0.lock().unwrap(), TIMEOUT, is_shut).unwrap());
    }
}

#[derive(Debug, Clone)]
enum Body {
    Bytes(Vec<u8>),
    /// `served_total`, with the number of the request to this path, counted from 1.
    Number,
    /// This many bytes of a longer body, then the end of the connection.
    Cut(Vec<u8>),
    /// Nothing, not even a head, as long as the client waits.
    Hang,
    /// A head, and nothing after it as long as the client waits.
    HeadOnly,
    /// Comment lines as long as the client reads them.
    Endless,
}

impl Reply {
    fn new(status: &'static str, content_type: &str, body: Body) -> Self {
        let headers = vec![("Content-Type", content_type.to_owned())];
        Self { status, headers, body, delay: Duration::ZERO, gate: None }
    }

    /// Returns an exposition in the text format.
    pub(crate) fn text(body: impl Into<Vec<u8>>) -> Self {
        Self::of("text/plain; version=0.0.4", body)
    }

    /// Returns a body of another type.
    pub(crate) fn of(content_type: &str, body: impl Into<Vec<u8>>) -> Self {
        Self::new("200 OK", content_type, Body::Bytes(body.into()))
    }

    /// Returns `served_total`, with the number of the request to this path, counted from 1.
    pub(crate) fn number() -> Self {
        Self::new("200 OK", "text/plain", Body::Number)
    }

    /// Returns an error response.
    pub(crate) fn status(status: &'static str) -> Self {
        Self::new(status, "text/plain", Body::Bytes(b"no\n".to_vec()))
    }

    /// Returns a redirect.
    pub(crate) fn redirect(to: &str) -> Self {
        Self::status("302 Found").with("Location", to)
    }

    /// Returns the start of a longer body.
    pub(crate) fn cut(beginning: &str) -> Self {
        Self::new("200 OK", "text/plain", Body::Cut(beginning.into()))
    }

    /// Never responds.
    pub(crate) fn hang() -> Self {
        Self::new("200 OK", "text/plain", Body::Hang)
    }

    /// Returns a head that announces JSON, without a body.
    pub(crate) fn json_head() -> Self {
        Self::new("200 OK", "application/json", Body::HeadOnly)
    }

    /// Returns an endless body.
    pub(crate) fn endless() -> Self {
        Self::new("200 OK", "text/plain", Body::Endless)
    }

    /// Adds a header.
    pub(crate) fn with(mut self, name: &'static str, value: &str) -> Self {
        self.headers.push((name, value.to_owned()));
        self
    }

    /// Compresses the body.
    pub(crate) fn gzip(mut self) -> Self {
        if let Body::Bytes(bytes) = &mut self.body {
            let mut encoder = GzEncoder::new(Vec::new(), Compression::fast());
            encoder.write_all(bytes).unwrap();
            *bytes = encoder.finish().unwrap();
        }
        self.with("Content-Encoding", "gzip")
    }

    /// Delays the response.
    pub(crate) fn after(mut self, delay: Duration) -> Self {
        self.delay = delay;
        self
    }

    /// Holds the response back until `gate` is opened.
    pub(crate) fn held_by(mut self, gate: &Gate) -> Self {
        self.gate = Some(gate.clone());
        self
    }
}

/// A request as received.
#[derive(Debug, Clone)]
pub(crate) struct Request {
    pub(crate) path: String,
    /// Headers, with names in lower case.
    pub(crate) headers: HashMap<String, String>,
}

#[derive(Debug, Default)]
struct State {
    scripts: HashMap<String, VecDeque<Reply>>,
    requests: Vec<Request>,
    connections: Vec<TcpStream>,
    /// Number of clients that closed the connection while they were kept waiting.
    abandoned: usize,
    is_stopped: bool,
}

/// A running endpoint, which stops when dropped. Paths without a script return 404.
#[derive(Debug)]
pub(crate) struct MetricsEndpoint {
    address: SocketAddr,
    state: Arc<Mutex<State>>,
    /// The thread with the listener.
    accepting: Option<JoinHandle<()>>,
}

impl MetricsEndpoint {
    /// Starts an endpoint on a free port.
    pub(crate) fn start() -> Self {
        Self::start_at("127.0.0.1:0".parse().unwrap())
    }

    /// Starts an endpoint at an address that was used before.
    pub(crate) fn start_at(address: SocketAddr) -> Self {
        let mut bound = None;
        // Another connection may use the port for a moment.
        wait_until("free ports", || {
            bound = TcpListener::bind(address).ok();
            bound.is_some()
        });
        let listener = bound.unwrap();
        let address = listener.local_addr().unwrap();
        let state = Arc::new(Mutex::new(State::default()));
        let shared = Arc::clone(&state);
        let accepting = thread::spawn(move || {
            for stream in listener.incoming() {
                let Ok(mut stream) = stream else { return };
                let mut state = lock(&shared);
                if state.is_stopped {
                    return;
                }
                state.connections.push(stream.try_clone().unwrap());
                drop(state);
                let shared = Arc::clone(&shared);
                thread::spawn(move || while serve(&mut stream, &shared).is_some() {});
            }
        });
        Self { address, state, accepting: Some(accepting) }
    }

    /// Starts an endpoint with a script for `/metrics`.
    pub(crate) fn with(replies: impl IntoIterator<Item = Reply>) -> Self {
        let endpoint = Self::start();
        endpoint.script("/metrics", replies);
        endpoint
    }

    /// Responds to requests to `path` with `replies` in turn, then always with the last one.
    pub(crate) fn script(&self, path: &str, replies: impl IntoIterator<Item = Reply>) {
        lock(&self.state).scripts.insert(path.to_owned(), replies.into_iter().collect());
    }

    /// Returns the address of the listener.
    pub(crate) fn address(&self) -> SocketAddr {
        self.address
    }

    /// Returns the URL of `path`.
    pub(crate) fn url(&self, path: &str) -> Url {
        Url::parse(&format!("http://{}{path}", self.address)).unwrap()
    }

    /// Returns the requests so far.
    pub(crate) fn requests(&self) -> Vec<Request> {
        lock(&self.state).requests.clone()
    }

    /// Returns the number of requests to `path` so far.
    pub(crate) fn count(&self, path: &str) -> usize {
        lock(&self.state).requests.iter().filter(|request| request.path == path).count()
    }

    /// Returns the number of clients that closed the connection while they were kept waiting.
    pub(crate) fn abandoned(&self) -> usize {
        lock(&self.state).abandoned
    }

    /// Waits until `more` further requests have arrived.
    pub(crate) fn wait_for(&self, more: usize) {
        let before = self.requests().len();
        wait_until("requests", || self.requests().len() >= before + more);
    }
}

impl Drop for MetricsEndpoint {
    fn drop(&mut self) {
        let mut state = lock(&self.state);
        state.is_stopped = true;
        for connection in state.connections.drain(..) {
            let _ = connection.shutdown(Shutdown::Both);
        }
        drop(state);
        // Wakes the listener; the port is free once its thread has ended.
        let _ = TcpStream::connect(self.address);
        self.accepting.take().map(JoinHandle::join);
    }
}

/// Waits until `is_so` returns true.
pub(crate) fn wait_until(what: &str, mut is_so: impl FnMut() -> bool) {
    let start = Instant::now();
    while !is_so() {
        assert!(start.elapsed() < TIMEOUT, "there are no {what}");
        thread::sleep(Duration::from_millis(2));
    }
}

fn lock(state: &Mutex<State>) -> MutexGuard<'_, State> {
    state.lock().unwrap()
}

/// Serves one request; `None` at the end of the connection.
fn serve(stream: &mut TcpStream, state: &Mutex<State>) -> Option<()> {
    let head = read_request(stream)?;
    let request = parse(&head);
    let path = request.path.clone();
    let (reply, number) = {
        let mut state = lock(state);
        state.requests.push(request);
        let number = state.requests.iter().filter(|request| request.path == path).count();
        let reply = match state.scripts.get_mut(&path) {
            Some(script) if script.len() > 1 => script.pop_front(),
            Some(script) => script.front().cloned(),
            None => None,
        };
        (reply.unwrap_or_else(|| Reply::status("404 Not Found")), number)
    };
    thread::sleep(reply.delay);
    if let Some(gate) = &reply.gate {
        gate.wait();
    }
    let mut head = format!("HTTP/1.1 {}\r\n", reply.status);
    for (name, value) in &reply.headers {
        for part in [name, ": ", value, "\r\n"] {
            head.push_str(part);
        }
    }
    let whole = |body: &[u8]| {
        let mut answer = format!("{head}Content-Length: {}\r\n\r\n", body.len()).into_bytes();
        answer.extend_from_slice(body);
        answer
    };
    match &reply.body {
        Body::Bytes(bytes) => write(stream, &whole(bytes)),
        Body::Number => {
            let body = format!("# TYPE served_total counter\nserved_total {number}\n");
            write(stream, &whole(body.as_bytes()));
        }
        Body::Cut(beginning) => {
            write(stream, format!("{head}Content-Length: 100000\r\n\r\n").as_bytes());
            write(stream, beginning);
            let _ = stream.shutdown(Shutdown::Both);
            return None;
        }
        Body::Hang => return abandoned(stream, state),
        Body::HeadOnly => {
            write(stream, format!("{head}Content-Length: 100000\r\n\r\n").as_bytes());
            return abandoned(stream, state);
        }
        Body::Endless => {
            write(stream, format!("{head}Transfer-Encoding: chunked\r\n\r\n").as_bytes());
            let lines = "# a line that says nothing\n".repeat(10_000);
            let chunk = format!("{:x}\r\n{lines}\r\n", lines.len());
            while stream.write_all(chunk.as_bytes()).is_ok() {}
            return None;
        }
    }
    Some(())
}

/// Waits until the client closes the connection.
fn abandoned(stream: &mut TcpStream, state: &Mutex<State>) -> Option<()> {
    let _ = read_request(stream);
    lock(state).abandoned += 1;
    None
}

fn parse(head: &str) -> Request {
    let mut lines = head.lines();
    let path = lines.next().and_then(|line| line.split(' ').nth(1)).unwrap_or_default().to_owned();
    let header = |line: &str| {
        let (name, value) = line.split_once(':')?;
        Some((name.to_ascii_lowercase(), value.trim().to_owned()))
    };
    Request { path, headers: lines.filter_map(header).collect() }
}
