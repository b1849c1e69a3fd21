//! What waits for the collector, and what became of it.

use std::collections::{BTreeMap, VecDeque};
use std::sync::{Mutex, MutexGuard};

use tokio::sync::Notify;

use super::super::lock;
use super::pack::Request;
use super::{ScrapesReport, pack};

/// Waiting requests take less than this: some minutes of a large server's scrapes.
const MOST_BYTES: usize = 32 * 1024 * 1024;

/// As many scrapes wait at most, be they ever so small.
const MOST_SCRAPES: usize = 10_000;

/// A scrape on its way.
pub(super) struct Parcel {
    /// The endpoint's number.
    endpoint: usize,
    /// The how manieth of all scrapes.
    number: u64,
    /// It in pieces that a collector takes.
    requests: Vec<Request>,
    bytes: usize,
    points: u64,
}

/// A bounded queue. Where it is full the oldest scrape falls out: values are
/// cumulative, so the latest say the most.
pub(super) struct Queue {
    state: Mutex<State>,
    changed: Notify,
    most_bytes: usize,
}

#[derive(Default)]
struct State {
    parcels: VecDeque<Parcel>,
    bytes: usize,
    is_closed: bool,
    /// Of each endpoint its last scrape, and whether the collector has it.
    last: BTreeMap<usize, (u64, bool)>,
    handed_scrapes: u64,
    handed_points: u64,
    taken_scrapes: u64,
    taken_points: u64,
    rejected_points: u64,
    inexpressible_points: u64,
    requests_ok: u64,
    requests_failed: u64,
}

impl Queue {
    pub(super) fn new() -> Self {
        Self::with_room(MOST_BYTES)
    }

    /// A queue for so many bytes.
    pub(super) fn with_room(most_bytes: usize) -> Self {
        Self { state: Mutex::default(), changed: Notify::new(), most_bytes }
    }

    /// Appends a scrape, and lets the oldest go where there is no room.
    pub(super) fn push(&self, endpoint: usize, requests: Vec<Request>, inexpressible: u64) {
        let bytes = requests.iter().map(|request| request.body.len()).sum();
        let points = requests.iter().map(|request| request.points).sum();
        let mut state = self.lock();
        let number = state.handed_scrapes;
        state.handed_scrapes += 1;
        state.handed_points += points;
        state.inexpressible_points += inexpressible;
        state.last.insert(endpoint, (number, false));
        state.bytes += bytes;
        state.parcels.push_back(Parcel { endpoint, number, requests, bytes, points });
        while state.bytes > self.most_bytes || state.parcels.len() > MOST_SCRAPES {
            if state.pop().is_none() {
                break;
            }
        }
        drop(state);
        self.changed.notify_one();
    }

    /// No scrape comes any more.
    pub(super) fn close(&self) {
        self.lock().is_closed = true;
        self.changed.notify_one();
    }

    pub(super) fn is_closed(&self) -> bool {
        self.lock().is_closed
    }

    /// Waits for scrapes: as many as fit in one request, or one that is larger.
    /// `None` once the queue is closed and empty.
    pub(super) async fn next(&self) -> Option<Vec<Parcel>> {
        loop {
            let batch = {
                let mut state = self.lock();
                if state.parcels.is_empty() && state.is_closed {
                    return None;
                }
                state.batch()
            };
            if !batch.is_empty() {
                return Some(batch);
            }
            self.changed.notified().await;
        }
    }

    /// The collector took a request of `points`, of which it rejected some.
    pub(super) fn taken(&self, points: u64, rejected: u64) {
        let mut state = self.lock();
        state.requests_ok += 1;
        state.taken_points += points;
        state.rejected_points += rejected.min(points);
    }

    /// The collector did not take a request.
    pub(super) fn failed(&self) {
        self.lock().requests_failed += 1;
    }

    /// The collector took all requests of these scrapes.
    pub(super) fn delivered(&self, parcels: &[Parcel]) {
        let mut state = self.lock();
        state.taken_scrapes += parcels.len() as u64;
        for parcel in parcels {
            if let Some(last) = state.last.get_mut(&parcel.endpoint) {
                last.1 |= last.0 == parcel.number;
            }
        }
    }

    /// What became of all scrapes; `None` where there were none.
    pub(super) fn report(&self) -> Option<ScrapesReport> {
        let state = self.lock();
        (state.handed_scrapes > 0).then(|| ScrapesReport {
            scrapes_forwarded: state.taken_scrapes,
            scrapes_dropped: state.handed_scrapes - state.taken_scrapes,
            points_forwarded: state.taken_points - state.rejected_points,
            points_rejected: state.rejected_points,
            points_dropped: state.handed_points - state.taken_points,
            points_inexpressible: state.inexpressible_points,
            requests_ok: state.requests_ok,
            requests_failed: state.requests_failed,
            delivered_final: state.last.values().all(|(_, delivered)| *delivered),
        })
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        lock(&self.state)
    }
}

impl State {
    fn pop(&mut self) -> Option<Parcel> {
        let parcel = self.parcels.pop_front()?;
        self.bytes -= parcel.bytes;
        Some(parcel)
    }

    /// The oldest scrapes that one request holds; the oldest in any case.
    fn batch(&mut self) -> Vec<Parcel> {
        let mut batch = Vec::new();
        let mut bytes = 0;
        while let Some(next) = self.parcels.front() {
            bytes += next.bytes;
            if !batch.is_empty() && bytes > pack::MOST_REQUEST_BYTES {
                break;
            }
            batch.extend(self.pop());
        }
        batch
    }
}

/// The requests of `batch`; several scrapes become one.
pub(super) fn requests(batch: &[Parcel]) -> Vec<Request> {
    match batch {
        [one] => one.requests.clone(),
        many => {
            let pieces = many.iter().flat_map(|parcel| &parcel.requests);
            // Messages one behind the other are one message with the contents of all.
            let body: Vec<u8> = pieces.flat_map(|piece| piece.body.iter().copied()).collect();
            let points = many.iter().map(|parcel| parcel.points).sum();
            vec![Request { body: body.into(), points }]
        }
    }
}
