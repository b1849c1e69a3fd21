//! The requests of an agent with absolute times.

use std::ops::RangeInclusive;

use super::chains::Recorded;
use super::document::{Agent, Entry, Request, absolute};

/// Times that a trace may have, in seconds.
const LATEST: RangeInclusive<f64> = -1e9..=1e9;

/// A request with absolute times, in seconds, and its place in the list.
pub(super) struct Timed {
    pub(super) place: usize,
    pub(super) start: f64,
    pub(super) end: f64,
    pub(super) request: Request,
}

impl Timed {
    pub(super) fn recorded(&self) -> Recorded<'_> {
        let Self { start, end, ref request, .. } = *self;
        let Request { input, output, ref model, ref hash_ids, .. } = *request;
        Recorded { start, end, input, output, model, blocks: hash_ids }
    }
}

/// When a conversation began and ended, in seconds.
#[derive(Clone, Copy)]
pub(super) struct Span {
    pub(super) start: f64,
    pub(super) end: f64,
}

impl Span {
    /// Returns the time of these requests together; `None` without any.
    pub(super) fn covering<'t>(requests: impl IntoIterator<Item = &'t Timed>) -> Option<Self> {
        let spans = requests.into_iter().map(|timed| Self { start: timed.start, end: timed.end });
        spans.reduce(|a, b| Self { start: a.start.min(b.start), end: a.end.max(b.end) })
    }
}

/// The requests and the sub-agents of a list, with their places.
pub(super) type Separated = (Vec<Timed>, Vec<(usize, Agent)>);

/// Separates requests and sub-agents, and makes their times absolute: those before
/// `begin` count from it.
pub(super) fn timed(entries: Vec<Entry>, begin: f64) -> Result<Separated, String> {
    let absolute = |t: f64| absolute(t, begin);
    let (mut requests, mut agents) = (Vec::new(), Vec::new());
    for (place, entry) in entries.into_iter().enumerate() {
        match entry {
            Entry::Request(request) => {
                let start = absolute(request.t);
                let end = start + request.api_time.unwrap_or(0.0).max(0.0);
                if ![start, end].iter().all(|time| LATEST.contains(time)) {
                    return Err(format!("the time of a request is out of range: {start} s"));
                }
                requests.push(Timed { place, start, end, request });
            }
            Entry::Agent(agent) => agents.push((place, Agent { t: absolute(agent.t), ..agent })),
        }
    }
    Ok((requests, agents))
}

/// Returns when each request began and ended, in seconds.
pub(super) fn times_of(requests: &[&Timed]) -> Vec<(f64, f64)> {
    requests.iter().map(|timed| (timed.start, timed.end)).collect()
}
