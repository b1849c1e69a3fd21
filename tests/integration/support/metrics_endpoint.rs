//! A scripted Prometheus endpoint on a bare socket, and recordings of real ones.

use std::collections::{HashMap, VecDeque};
use std::fs::File;
use std::io::{BufRead as _, BufReader, Write};
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::path::Path;
use std::sync::{Arc, Mutex, MutexGuard};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use flate2::Compression;
use flate2::read::GzDecoder;
use flate2::write::GzEncoder;
use serde::de::DeserializeOwned;
use url::Url;

use crate::support::raw_server::{read_request, write};

/// Longest wait for what must come.
const TIMEOUT: Duration = Duration::from_secs(30);

/// The scrapes of a recorded series, such as `vllm/scrapes`, in order.
pub(crate) fn recorded<T: DeserializeOwned>(series: &str) -> Vec<T> {
    let golden = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/golden");
    let file = File::open(golden.join(format!("{series}.jsonl.gz"))).unwrap();
    let lines = BufReader::new(GzDecoder::new(file)).lines();
    lines.map(|line| serde_json::from_str(&line.unwrap()).unwrap()).collect()
}

/// What is answered to one request.
#[derive(Debug, Clone)]
pub(crate) struct Reply {
    status: &'static str,
    headers: Vec<(&'static str, String)>,
    body: Body,
    delay: Duration,
}

#[derive(Debug, Clone)]
enum Body {
    Bytes(Vec<u8>),
    /// `served_total`, with the number of the request to this path, from 1.
    Number,
    /// As many bytes of a longer body, then the end of the connection.
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
        Self { status, headers, body, delay: Duration::ZERO }
    }

    /// An exposition in the text format.
    pub(crate) fn text(body: impl Into<Vec<u8>>) -> Self {
        Self::of("text/plain; version=0.0.4", body)
    }

    /// A body of another type.
    pub(crate) fn of(content_type: &str, body: impl Into<Vec<u8>>) -> Self {
        Self::new("200 OK", content_type, Body::Bytes(body.into()))
    }

    /// `served_total`, with the number of the request to this path, from 1.
    pub(crate) fn number() -> Self {
        Self::new("200 OK", "text/plain", Body::Number)
    }

    /// An answer that is an error.
    pub(crate) fn status(status: &'static str) -> Self {
        Self::new(status, "text/plain", Body::Bytes(b"no\n".to_vec()))
    }

    /// A redirect.
    pub(crate) fn redirect(to: &str) -> Self {
        Self::status("302 Found").with("Location", to)
    }

    /// The beginning of a longer body.
    pub(crate) fn cut(beginning: &str) -> Self {
        Self::new("200 OK", "text/plain", Body::Cut(beginning.into()))
    }

    /// No answer.
    pub(crate) fn hang() -> Self {
        Self::new("200 OK", "text/plain", Body::Hang)
    }

    /// A head that announces JSON, and no body.
    pub(crate) fn json_head() -> Self {
        Self::new("200 OK", "application/json", Body::HeadOnly)
    }

    /// A body without end.
    pub(crate) fn endless() -> Self {
        Self::new("200 OK", "text/plain", Body::Endless)
    }

    /// With one more header.
    pub(crate) fn with(mut self, name: &'static str, value: &str) -> Self {
        self.headers.push((name, value.to_owned()));
        self
    }

    /// Its body packed.
    pub(crate) fn gzip(mut self) -> Self {
        if let Body::Bytes(bytes) = &mut self.body {
            let mut encoder = GzEncoder::new(Vec::new(), Compression::fast());
            encoder.write_all(bytes).unwrap();
            *bytes = encoder.finish().unwrap();
        }
        self.with("Content-Encoding", "gzip")
    }

    /// Given after a time.
    pub(crate) fn after(mut self, delay: Duration) -> Self {
        self.delay = delay;
        self
    }
}

/// A request as it came.
#[derive(Debug, Clone)]
pub(crate) struct Request {
    pub(crate) path: String,
    /// Names in lower case.
    pub(crate) headers: HashMap<String, String>,
}

#[derive(Debug, Default)]
struct State {
    scripts: HashMap<String, VecDeque<Reply>>,
    requests: Vec<Request>,
    connections: Vec<TcpStream>,
    /// Clients that went away while they were kept waiting.
    abandoned: usize,
    is_stopped: bool,
}

/// A running endpoint; it stops when dropped. A path without a script is not found.
#[derive(Debug)]
pub(crate) struct MetricsEndpoint {
    address: SocketAddr,
    state: Arc<Mutex<State>>,
    /// Has the listener.
    accepting: Option<JoinHandle<()>>,
}

impl MetricsEndpoint {
    /// An endpoint at a port of its own.
    pub(crate) fn start() -> Self {
        Self::start_at("127.0.0.1:0".parse().unwrap())
    }

    /// An endpoint at an address that was in use before.
    pub(crate) fn start_at(address: SocketAddr) -> Self {
        let mut bound = None;
        // Another connection may have the port for a moment.
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

    /// An endpoint whose `/metrics` are a script.
    pub(crate) fn with(replies: impl IntoIterator<Item = Reply>) -> Self {
        let endpoint = Self::start();
        endpoint.script("/metrics", replies);
        endpoint
    }

    /// Answers requests to `path` by `replies` in turn, and by the last one from
    /// then on.
    pub(crate) fn script(&self, path: &str, replies: impl IntoIterator<Item = Reply>) {
        lock(&self.state).scripts.insert(path.to_owned(), replies.into_iter().collect());
    }

    /// Where it listens.
    pub(crate) fn address(&self) -> SocketAddr {
        self.address
    }

    /// The URL of `path`.
    pub(crate) fn url(&self, path: &str) -> Url {
        Url::parse(&format!("http://{}{path}", self.address)).unwrap()
    }

    /// The requests so far.
    pub(crate) fn requests(&self) -> Vec<Request> {
        lock(&self.state).requests.clone()
    }

    /// The number of requests to `path` so far.
    pub(crate) fn count(&self, path: &str) -> usize {
        lock(&self.state).requests.iter().filter(|request| request.path == path).count()
    }

    /// Clients that went away while they were kept waiting.
    pub(crate) fn abandoned(&self) -> usize {
        lock(&self.state).abandoned
    }

    /// Waits until `more` requests have come from now on.
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
        // Wakes the listener; when its thread has ended the port is free.
        let _ = TcpStream::connect(self.address);
        self.accepting.take().map(JoinHandle::join);
    }
}

/// Waits until `is_so`.
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

/// Serves one request; `None` where the connection ends.
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

/// Waits until the client goes away.
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
