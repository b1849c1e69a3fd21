//! A Hugging Face hub with a few repositories.

use std::collections::HashMap;
use std::fmt::Write as _;
use std::fs;
use std::net::{SocketAddr, TcpStream};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

use ring::digest::{SHA256, digest};
use serde_json::{Value, json};

use super::raw_server::{read_request, serve, write};

/// The branch with the Parquet files that a hub makes of datasets.
pub(crate) const CONVERTED: &str = "refs/convert/parquet";

/// Files by dataset, revision and path.
type Files = HashMap<(String, String, String), Vec<u8>>;

/// The hub; its requests have been answered when the client has its response.
#[derive(Clone, Default)]
pub(crate) struct Hub {
    files: Files,
    /// Number of downloads to break off in the middle.
    interruptions: Arc<AtomicUsize>,
    requests: Arc<Mutex<Vec<String>>>,
}

impl Hub {
    pub(crate) fn with(mut self, dataset: &str, revision: &str, path: &str, file: &[u8]) -> Self {
        let key = (dataset.to_owned(), revision.to_owned(), path.to_owned());
        self.files.insert(key, file.to_vec());
        self
    }

    /// Breaks off this number of downloads in the middle.
    pub(crate) fn interrupting(self, downloads: usize) -> Self {
        self.interruptions.store(downloads, Ordering::Relaxed);
        self
    }

    pub(crate) fn start(&self) -> SocketAddr {
        let hub = self.clone();
        serve(move |_, stream| {
            while let Some(request) = read_request(stream) {
                hub.requests.lock().unwrap().push(request.clone());
                if !hub.answer(&request, stream) {
                    return;
                }
            }
        })
    }

    /// The heads of the requests so far.
    pub(crate) fn requests(&self) -> Vec<String> {
        self.requests.lock().unwrap().clone()
    }

    /// Answers a request; returns false if the connection is to be closed.
    fn answer(&self, request: &str, stream: &mut TcpStream) -> bool {
        let target = request.split(' ').nth(1).unwrap().replace("%2F", "/");
        let parts: Vec<&str> = target.trim_start_matches('/').split('/').collect();
        let (status, headers, body) = match &*parts {
            ["api", "datasets", org, name, "revision", revision @ ..] => {
                let revision = revision.join("/");
                let mut files = self.files_of(&format!("{org}/{name}"), &revision);
                files.sort();
                let siblings = files.iter().map(|path| json!({"rfilename": path}));
                let siblings: Vec<_> = siblings.collect();
                let list = json!({"sha": commit(&revision), "siblings": siblings});
                if files.is_empty() {
                    ("404 Not Found", String::new(), Vec::new())
                } else {
                    ("200 OK", String::new(), list.to_string().into_bytes())
                }
            }
            ["datasets", org, name, "resolve", rest @ ..] => {
                let rest = rest.join("/");
                match self.found(&format!("{org}/{name}"), &rest) {
                    Some((revision, file)) => {
                        let headers = format!(
                            "x-repo-commit: {}\r\nx-linked-etag: \"{}\"\r\n\
                             location: /storage/{org}/{name}/{rest}\r\n",
                            commit(revision),
                            sha256(file)
                        );
                        ("302 Found", headers, Vec::new())
                    }
                    None => ("404 Not Found", String::new(), Vec::new()),
                }
            }
            ["storage", org, name, rest @ ..] => {
                let (_, file) = self.found(&format!("{org}/{name}"), &rest.join("/")).unwrap();
                let range = request.split("range: bytes=").nth(1);
                let first = range.and_then(|range| range.split('-').next()?.parse().ok());
                match first {
                    Some(first) => {
                        let last = file.len() - 1;
                        let range =
                            format!("content-range: bytes {first}-{last}/{}\r\n", file.len());
                        ("206 Partial Content", range, file[first..].to_vec())
                    }
                    None => ("200 OK", String::new(), file.clone()),
                }
            }
            _ => ("400 Bad Request", String::new(), Vec::new()),
        };
        let length = body.len();
        write(
            stream,
            format!("HTTP/1.1 {status}\r\n{headers}content-length: {length}\r\n\r\n").as_bytes(),
        );
        let breaks_off = parts[0] == "storage"
            && self
                .interruptions
                .fetch_update(Ordering::Relaxed, Ordering::Relaxed, |left| left.checked_sub(1))
                .is_ok();
        write(stream, if breaks_off { &body[..length / 2] } else { &body });
        !breaks_off
    }

    fn files_of(&self, dataset: &str, revision: &str) -> Vec<String> {
        let of_revision = |(name, at, _): &&(String, String, String)| {
            name == dataset && (at == revision || commit(at) == revision)
        };
        self.files.keys().filter(of_revision).map(|(_, _, path)| path.clone()).collect()
    }

    /// The revision and content of a file; `rest` is the revision or its commit, and the path.
    fn found(&self, dataset: &str, rest: &str) -> Option<(&String, &Vec<u8>)> {
        self.files.iter().find_map(|((name, revision, path), file)| {
            let is_it =
                [revision, &commit(revision)].iter().any(|at| rest == format!("{at}/{path}"));
            (name == dataset && is_it).then_some((revision, file))
        })
    }
}

/// A file of `tests/golden/hub`.
pub(crate) fn golden(name: &str) -> Vec<u8> {
    fs::read(format!("{}/tests/golden/hub/{name}", env!("CARGO_MANIFEST_DIR"))).unwrap()
}

/// The commit of a revision.
pub(crate) fn commit(revision: &str) -> String {
    sha256(revision.as_bytes())[..40].to_owned()
}

pub(crate) fn sha256(content: &[u8]) -> String {
    digest(&SHA256, content).as_ref().iter().fold(String::new(), |mut digits, byte| {
        write!(digits, "{byte:02x}").unwrap();
        digits
    })
}

/// A row of Exgentic's traces: a session with two requests, the second of which was sent 20 ms after the
/// response to the first.
pub(crate) fn exgentic_session(id: &str, harness: &str, benchmark: Option<&str>) -> String {
    let request = |start: u32, end: u32, messages: Value| {
        let time = |millis: u32| format!("2026-01-31T12:00:00.{millis:03}");
        json!({"type": "llm_call", "status": {"code": 1}, "start_time": time(start),
        "end_time": time(end), "attributes": {
            "gen_ai.usage.input_tokens": 5, "gen_ai.usage.output_tokens": 3,
            "gen_ai.request.temperature": 0.5, "gen_ai.input.messages": messages.to_string(),
        }})
    };
    let said = |role: &str, text: &str| json!({"role": role, "parts": [{"type": "text", "content": text}]});
    let history = [said("user", id), said("assistant", "recorded"), said("user", "more")];
    let spans = [request(0, 10, json!([history[0]])), request(30, 40, json!(history))];
    let models = ["openai/azure/gpt-4.1"];
    let mut row = json!({"harness": harness, "session_id": id, "models": models, "spans": spans});
    if let Some(benchmark) = benchmark {
        row["benchmark"] = benchmark.into();
    }
    row.to_string()
}
