//! The thread that parses and stores scrapes and passes them to the sink.

use std::collections::HashSet;
use std::hash::BuildHasher;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, RecvTimeoutError};
use std::time::Duration;

use foldhash::fast::RandomState;
use tokio::sync::oneshot;

use base::redact::ShownUrl;

use super::phases::Shared;
use crate::server_metrics::exposition::{self, Exposition, ExpositionError, Fault};
use crate::server_metrics::fetch::{Fetched, ScrapeError, clipped};
use crate::server_metrics::scrape::{Endpoint, PhaseMark, Scrape, ScrapeSink};
use crate::server_metrics::snapshot::Snapshot;

/// Maximum number of warnings about the contents of expositions.
const MAX_COMPLAINTS: usize = 100;

/// Time without a response after which the sink is notified.
const IDLE: Duration = Duration::from_millis(500);

/// A message to the keeper.
#[derive(Debug)]
pub(super) enum Notice {
    /// A response is to be stored.
    Answered(Job),
    /// A scrape of the endpoint with this index failed, after others had succeeded.
    Failed(usize),
}

/// A response to be stored.
#[derive(Debug)]
pub(super) struct Job {
    /// Index of the endpoint in the configuration.
    pub(super) endpoint: usize,
    /// The URL of the response, if it is a new one.
    pub(super) moved_to: Option<ShownUrl>,
    pub(super) phase: Option<PhaseMark>,
    pub(super) fetched: Fetched,
    pub(super) outcome: oneshot::Sender<Result<(), ScrapeError>>,
}

/// State of an endpoint.
#[derive(Debug)]
struct Known {
    endpoint: Endpoint,
    /// Hash of its last usable body.
    body: Option<u64>,
    /// Time of that response.
    answered_ns: u64,
    /// Whether its last body had an `# EOF`, so that a body without one was truncated.
    has_eof: bool,
}

/// Parses and stores scrapes and passes them on.
#[derive(Debug)]
pub(super) struct Keeper<S> {
    shared: Arc<Shared>,
    known: Vec<Known>,
    hasher: RandomState,
    complaints: Complaints,
    sink: S,
}

impl<S: ScrapeSink> Keeper<S> {
    /// Creates a keeper for the endpoints of `urls`, without credentials.
    pub(super) fn new(shared: Arc<Shared>, urls: Vec<ShownUrl>, sink: S) -> Self {
        let known =
            |url| Known { endpoint: Endpoint { url }, body: None, answered_ns: 0, has_eof: false };
        Self {
            shared,
            known: urls.into_iter().map(known).collect(),
            hasher: RandomState::default(),
            complaints: Complaints::default(),
            sink,
        }
    }

    /// Works until all senders of `notices` are dropped; returns the sink.
    pub(super) fn run(mut self, notices: &Receiver<Notice>) -> S {
        loop {
            match notices.recv_timeout(IDLE) {
                Ok(Notice::Answered(job)) => self.take(job),
                Ok(Notice::Failed(index)) => {
                    if let Some(known) = self.known.get(index) {
                        self.sink.failed(index, &known.endpoint);
                    }
                }
                Err(RecvTimeoutError::Timeout) => self.sink.idle(),
                Err(RecvTimeoutError::Disconnected) => return self.sink,
            }
        }
    }

    fn take(&mut self, job: Job) {
        let Job { endpoint, moved_to, phase, fetched, outcome } = job;
        let Some(known) = self.known.get_mut(endpoint) else { return };
        let (mut times, format) = (fetched.times, fetched.format);
        let (body, is_repaired) = match fetched.into_body() {
            Ok(body) => exposition::as_text(body),
            Err(error) => return answer(outcome, Err(error)),
        };
        let mut exposition = match Exposition::parse(&body, format) {
            Ok(exposition) => exposition,
            Err(error) => return answer(outcome, Err(known.refusal(&body, &error))),
        };
        if is_repaired {
            exposition.faults.push(Fault::NotUtf8);
        }
        if known.has_eof && exposition.faults.contains(&Fault::MissingEof) {
            let error =
                ScrapeError::Failed("its body is incomplete: it ends without `# EOF`".to_owned());
            return answer(outcome, Err(error));
        }
        known.has_eof = exposition.has_eof;
        let (snapshot, dropped) = Snapshot::and_dropped(&exposition);
        let hash = self.hasher.hash_one((&body, format as u8));
        let is_duplicate = known.body.replace(hash) == Some(hash);
        // The response may have begun while the previous one was still being read.
        times.first_byte_ns = times.first_byte_ns.max(known.answered_ns + 1);
        times.last_byte_ns = times.last_byte_ns.max(times.first_byte_ns);
        known.answered_ns = times.first_byte_ns;
        if let Some(url) = &moved_to {
            known.endpoint.url = url.clone();
        }
        let mut is_too_much = false;
        self.shared.update(|store| {
            if let Some(url) = moved_to {
                store.moved(endpoint, url);
            }
            if is_duplicate {
                store.repeat(endpoint, times);
            } else {
                store.push(endpoint, times, &snapshot);
                is_too_much = store.is_too_large();
            }
        });
        // Before the sink, since a blocked sink is not a failure of the endpoint.
        answer(outcome, if is_too_much { Err(ScrapeError::TooMuch) } else { Ok(()) });
        let url = &known.endpoint.url;
        for fault in &exposition.faults {
            if self.complaints.is_new(endpoint, fault) {
                tracing::warn!(
                    "the exposition of {url} {}; it is used nevertheless",
                    clipped(&fault.to_string())
                );
            }
        }
        for family in dropped {
            if self.complaints.is_new(endpoint, &format!("values of {family}")) {
                tracing::warn!(
                    "`{}` of {url} has values that are infinite or NaN, or is not a complete \
                     histogram; these values are ignored",
                    family.escape_debug()
                );
            }
        }
        self.sink.scrape(&Scrape {
            index: endpoint,
            endpoint: &known.endpoint,
            times,
            phase,
            is_duplicate,
            exposition: &exposition,
            snapshot: &snapshot,
        });
    }
}

impl Known {
    /// Returns the error of a body that cannot be parsed. If the server has returned expositions
    /// before, the body may merely be truncated.
    fn refusal(&self, body: &[u8], error: &ExpositionError) -> ScrapeError {
        if self.body.is_some() && looks_cut(body, error) {
            ScrapeError::Failed(format!("its body is incomplete: {}", clipped(&error.to_string())))
        } else {
            ScrapeError::Unparsable(clipped(&error.to_string()))
        }
    }
}

/// Reports the outcome. The receiver may be gone; the response is stored all the same.
fn answer(to: oneshot::Sender<Result<(), ScrapeError>>, outcome: Result<(), ScrapeError>) {
    let _ = to.send(outcome);
}

/// Returns whether only the end of the body is missing.
fn looks_cut(body: &[u8], error: &ExpositionError) -> bool {
    let last = 1 + memchr::memchr_iter(b'\n', body).count();
    error.line == last && !body.ends_with(b"\n")
}

/// The complaints so far, by endpoint: each is logged once, and their number is limited.
#[derive(Debug, Default)]
struct Complaints(HashSet<(usize, String)>);

impl Complaints {
    fn is_new(&mut self, endpoint: usize, what: &impl ToString) -> bool {
        self.0.len() < MAX_COMPLAINTS && self.0.insert((endpoint, what.to_string()))
    }
}
