//! The thread that parses, keeps and shows what was fetched.

use std::collections::HashSet;
use std::hash::BuildHasher;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, RecvTimeoutError};
use std::time::Duration;

use foldhash::fast::RandomState;
use tokio::sync::oneshot;

use super::phases::Shared;
use crate::server_metrics::exposition::{Exposition, ExpositionError, Reason};
use crate::server_metrics::fetch::{Fetched, ScrapeError, clipped};
use crate::server_metrics::scrape::{Endpoint, PhaseMark, Scrape, ScrapeSink};
use crate::server_metrics::snapshot::Snapshot;

/// Most warnings of values that cannot be used.
const MOST_COMPLAINTS: usize = 100;

/// Without an answer for so long the sink is told that none comes.
const IDLE: Duration = Duration::from_millis(500);

/// An answer that is to be kept.
#[derive(Debug)]
pub(super) struct Job {
    /// The endpoint's position among those configured.
    pub(super) endpoint: usize,
    /// The URL it came from, if it is a new one.
    pub(super) moved_to: Option<Arc<str>>,
    pub(super) time: Time,
    pub(super) fetched: Fetched,
    /// Is told how it went.
    pub(super) outcome: oneshot::Sender<Result<(), ScrapeError>>,
}

/// Where in the run an answer belongs.
#[derive(Debug, Clone, Copy)]
pub(super) enum Time {
    /// Within a phase, or before, between or after them.
    Within(Option<PhaseMark>),
    /// It ends the phase, which lasts until then.
    EndOf(PhaseMark),
}

impl Time {
    const fn phase(self) -> Option<PhaseMark> {
        match self {
            Self::Within(phase) => phase,
            Self::EndOf(phase) => Some(phase),
        }
    }
}

/// What is known of an endpoint.
#[derive(Debug)]
struct Known {
    endpoint: Endpoint,
    /// Hash of its last body that was of use.
    body: Option<u64>,
}

/// Parses, keeps and shows.
#[derive(Debug)]
pub(super) struct Keeper<S> {
    shared: Arc<Shared>,
    known: Vec<Known>,
    hasher: RandomState,
    /// Families that were complained of, by endpoint.
    complaints: HashSet<(usize, String)>,
    sink: S,
}

impl<S: ScrapeSink> Keeper<S> {
    /// A keeper for the endpoints of `urls`, credentials removed.
    pub(super) fn new(shared: Arc<Shared>, urls: Vec<Arc<str>>, sink: S) -> Self {
        let known = |url| Known { endpoint: Endpoint { url }, body: None };
        Self {
            shared,
            known: urls.into_iter().map(known).collect(),
            hasher: RandomState::default(),
            complaints: HashSet::new(),
            sink,
        }
    }

    /// Works until all senders of `jobs` are gone; gives the sink back.
    pub(super) fn run(mut self, jobs: &Receiver<Job>) -> S {
        loop {
            match jobs.recv_timeout(IDLE) {
                Ok(job) => self.take(job),
                Err(RecvTimeoutError::Timeout) => self.sink.idle(),
                Err(RecvTimeoutError::Disconnected) => return self.sink,
            }
        }
    }

    fn take(&mut self, job: Job) {
        let Job { endpoint, moved_to, time, fetched, outcome } = job;
        let Some(known) = self.known.get_mut(endpoint) else { return };
        let (times, format) = (fetched.times, fetched.format);
        let body = match fetched.into_body() {
            Ok(body) => body,
            Err(error) => return answer(outcome, Err(error)),
        };
        let exposition = match Exposition::parse(&body, format) {
            Ok(exposition) => exposition,
            Err(error) => return answer(outcome, Err(known.refusal(&body, &error))),
        };
        let (snapshot, dropped) = Snapshot::and_dropped(&exposition);
        let hash = self.hasher.hash_one((&body, format as u8));
        let is_duplicate = known.body.replace(hash) == Some(hash);
        if let Some(url) = &moved_to {
            known.endpoint.url = Arc::clone(url);
        }
        let mut is_too_much = false;
        if let Time::EndOf(phase) = time {
            self.shared.extend(phase.kind, times.first_byte_ns);
        }
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
        // Before the sink: a sink that hangs is no fault of the endpoint.
        answer(outcome, if is_too_much { Err(ScrapeError::TooMuch) } else { Ok(()) });
        for family in dropped {
            complain(&mut self.complaints, endpoint, &known.endpoint.url, &family);
        }
        self.sink.scrape(&Scrape {
            index: endpoint,
            endpoint: &known.endpoint,
            times,
            phase: time.phase(),
            is_duplicate,
            exposition: &exposition,
            snapshot: &snapshot,
        });
    }
}

impl Known {
    /// What is wrong with a body that does not parse. One of a server that writes
    /// expositions may merely have lost its end on the way.
    fn refusal(&self, body: &[u8], error: &ExpositionError) -> ScrapeError {
        if self.body.is_some() && looks_cut(body, error) {
            ScrapeError::Failed(format!("its body was cut: {}", clipped(&error.to_string())))
        } else {
            ScrapeError::Unparsable(clipped(&error.to_string()))
        }
    }
}

/// Whoever asked may have gone: the answer is kept all the same.
fn answer(to: oneshot::Sender<Result<(), ScrapeError>>, outcome: Result<(), ScrapeError>) {
    let _ = to.send(outcome);
}

/// Whether only the end of the body is missing.
fn looks_cut(body: &[u8], error: &ExpositionError) -> bool {
    let last = 1 + memchr::memchr_iter(b'\n', body).count();
    error.reason == Reason::MissingEof || (error.line == last && !body.ends_with(b"\n"))
}

/// Says once of each family that some of its values are of no use.
fn complain(made: &mut HashSet<(usize, String)>, endpoint: usize, url: &str, family: &str) {
    if made.len() < MOST_COMPLAINTS && made.insert((endpoint, family.to_owned())) {
        tracing::warn!(
            "`{}` of {url} has values that are infinite or no number, or is no whole histogram; \
             they are left out",
            family.escape_debug()
        );
    }
}
