//! The queue of scrapes for the collector, and their outcomes.

use std::collections::BTreeMap;

use super::super::protobuf::MAX_REQUEST_BYTES;
use super::super::queue::{Bounds, Parcel, Queue};
use super::ScrapesReport;
use super::pack::Request;

use base::lock::Lock;

/// Maximum size of the queue: some minutes of a large server's scrapes.
const MAX_BYTES: usize = 32 * 1024 * 1024;

/// Maximum number of waiting scrapes, whatever their size.
const MAX_SCRAPES: u64 = 10_000;

/// A scrape to be sent.
pub(super) struct PackedScrape {
    /// Index of the endpoint.
    endpoint: usize,
    /// Sequence number among all scrapes.
    number: u64,
    /// The scrape, in requests of a size that a collector accepts.
    requests: Vec<Request>,
    bytes: usize,
    points: u64,
}

impl Parcel for PackedScrape {
    fn bytes(&self) -> usize {
        self.bytes
    }
}

/// A bounded queue that drops the oldest scrape, since values are cumulative and the latest are the
/// most useful.
pub(super) struct ScrapeQueue {
    waiting: Queue<PackedScrape>,
    tally: Lock<Tally>,
}

#[derive(Default)]
struct Tally {
    /// The last scrape of each endpoint, and whether the collector has it.
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

impl ScrapeQueue {
    pub(super) fn new() -> Self {
        Self::with_room(MAX_BYTES)
    }

    /// Creates a queue with a limit of `bytes`.
    pub(super) fn with_room(bytes: usize) -> Self {
        let bounds = Bounds { bytes, items: MAX_SCRAPES, batch: MAX_REQUEST_BYTES };
        Self { waiting: Queue::new(bounds), tally: Lock::default() }
    }

    /// Appends a scrape, and drops the oldest ones if the queue is full.
    pub(super) fn push(&self, endpoint: usize, requests: Vec<Request>, inexpressible: u64) {
        let bytes = requests.iter().map(|request| request.body.len()).sum();
        let points = requests.iter().map(|request| request.points).sum();
        let mut tally = self.tally.lock();
        let number = tally.handed_scrapes;
        tally.handed_scrapes += 1;
        tally.handed_points += points;
        tally.inexpressible_points += inexpressible;
        tally.last.insert(endpoint, (number, false));
        drop(tally);
        self.waiting.push(PackedScrape { endpoint, number, requests, bytes, points });
    }

    /// Closes the queue to further scrapes.
    pub(super) fn close(&self) {
        self.waiting.close();
    }

    pub(super) fn is_closed(&self) -> bool {
        self.waiting.is_closed()
    }

    /// Waits for scrapes, and returns as many as fit into one request, or a single larger one.
    /// `None` once the queue is closed and empty.
    pub(super) async fn next(&self) -> Option<Vec<PackedScrape>> {
        self.waiting.next().await
    }

    /// Records that the collector accepted a request of `points`, of which it rejected some.
    pub(super) fn taken(&self, points: u64, rejected: u64) {
        let mut tally = self.tally.lock();
        tally.requests_ok += 1;
        tally.taken_points += points;
        tally.rejected_points += rejected.min(points);
    }

    /// Records that a request failed.
    pub(super) fn failed(&self) {
        self.tally.lock().requests_failed += 1;
    }

    /// Records that the collector accepted all requests of these scrapes.
    pub(super) fn delivered(&self, scrapes: &[PackedScrape]) {
        let mut tally = self.tally.lock();
        tally.taken_scrapes += scrapes.len() as u64;
        for scrape in scrapes {
            if let Some(last) = tally.last.get_mut(&scrape.endpoint) {
                last.1 |= last.0 == scrape.number;
            }
        }
    }

    /// Returns the outcome of all scrapes; `None` if there were none.
    pub(super) fn report(&self) -> Option<ScrapesReport> {
        let tally = self.tally.lock();
        (tally.handed_scrapes > 0).then(|| ScrapesReport {
            scrapes_forwarded: tally.taken_scrapes,
            scrapes_dropped: tally.handed_scrapes - tally.taken_scrapes,
            points_forwarded: tally.taken_points - tally.rejected_points,
            points_rejected: tally.rejected_points,
            points_dropped: tally.handed_points - tally.taken_points,
            points_inexpressible: tally.inexpressible_points,
            requests_ok: tally.requests_ok,
            requests_failed: tally.requests_failed,
            delivered_final: tally.last.values().all(|(_, delivered)| *delivered),
        })
    }
}

/// Returns the requests of `batch`; several scrapes are merged into one.
pub(super) fn requests(batch: &[PackedScrape]) -> Vec<Request> {
    match batch {
        [one] => one.requests.clone(),
        many => {
            let pieces = many.iter().flat_map(|scrape| &scrape.requests);
            // Concatenated messages are one message with the contents of all.
            let body: Vec<u8> = pieces.flat_map(|piece| piece.body.iter().copied()).collect();
            let points = many.iter().map(|scrape| scrape.points).sum();
            vec![Request { body: body.into(), points }]
        }
    }
}
