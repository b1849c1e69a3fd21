//! The scrapes that wait for the collector, and what became of them.

use std::collections::BTreeMap;
use std::sync::{Mutex, MutexGuard};

use super::super::lock;
use super::super::protobuf::MOST_REQUEST_BYTES;
use super::super::queue::{Bounds, Parcel, Queue};
use super::ScrapesReport;
use super::pack::Request;

/// Waiting requests take less than this: some minutes of a large server's scrapes.
const MOST_BYTES: usize = 32 * 1024 * 1024;

/// As many scrapes wait at most, be they ever so small.
const MOST_SCRAPES: usize = 10_000;

/// A scrape on its way.
pub(super) struct PackedScrape {
    /// The endpoint's number.
    endpoint: usize,
    /// The how manieth of all scrapes.
    number: u64,
    /// It in pieces that a collector takes.
    requests: Vec<Request>,
    bytes: usize,
    points: u64,
}

impl Parcel for PackedScrape {
    fn bytes(&self) -> usize {
        self.bytes
    }
}

/// A bounded queue that lets the oldest scrape go: values are cumulative, so the
/// latest say the most.
pub(super) struct ScrapeQueue {
    waiting: Queue<PackedScrape>,
    tally: Mutex<Tally>,
}

#[derive(Default)]
struct Tally {
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

impl ScrapeQueue {
    pub(super) fn new() -> Self {
        Self::with_room(MOST_BYTES)
    }

    /// A queue for so many bytes.
    pub(super) fn with_room(bytes: usize) -> Self {
        let bounds = Bounds { bytes, parcels: MOST_SCRAPES, batch: MOST_REQUEST_BYTES };
        Self { waiting: Queue::new(bounds), tally: Mutex::default() }
    }

    /// Appends a scrape, and lets the oldest go where there is no room.
    pub(super) fn push(&self, endpoint: usize, requests: Vec<Request>, inexpressible: u64) {
        let bytes = requests.iter().map(|request| request.body.len()).sum();
        let points = requests.iter().map(|request| request.points).sum();
        let mut tally = self.lock();
        let number = tally.handed_scrapes;
        tally.handed_scrapes += 1;
        tally.handed_points += points;
        tally.inexpressible_points += inexpressible;
        tally.last.insert(endpoint, (number, false));
        drop(tally);
        self.waiting.push(PackedScrape { endpoint, number, requests, bytes, points });
    }

    /// No scrape comes any more.
    pub(super) fn close(&self) {
        self.waiting.close();
    }

    pub(super) fn is_closed(&self) -> bool {
        self.waiting.is_closed()
    }

    /// Waits for scrapes: as many as fit in one request, or one that is larger.
    /// `None` once the queue is closed and empty.
    pub(super) async fn next(&self) -> Option<Vec<PackedScrape>> {
        self.waiting.next().await
    }

    /// The collector took a request of `points`, of which it rejected some.
    pub(super) fn taken(&self, points: u64, rejected: u64) {
        let mut tally = self.lock();
        tally.requests_ok += 1;
        tally.taken_points += points;
        tally.rejected_points += rejected.min(points);
    }

    /// The collector did not take a request.
    pub(super) fn failed(&self) {
        self.lock().requests_failed += 1;
    }

    /// The collector took all requests of these scrapes.
    pub(super) fn delivered(&self, scrapes: &[PackedScrape]) {
        let mut tally = self.lock();
        tally.taken_scrapes += scrapes.len() as u64;
        for scrape in scrapes {
            if let Some(last) = tally.last.get_mut(&scrape.endpoint) {
                last.1 |= last.0 == scrape.number;
            }
        }
    }

    /// What became of all scrapes; `None` where there were none.
    pub(super) fn report(&self) -> Option<ScrapesReport> {
        let tally = self.lock();
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

    fn lock(&self) -> MutexGuard<'_, Tally> {
        lock(&self.tally)
    }
}

/// The requests of `batch`; several scrapes become one.
pub(super) fn requests(batch: &[PackedScrape]) -> Vec<Request> {
    match batch {
        [one] => one.requests.clone(),
        many => {
            let pieces = many.iter().flat_map(|scrape| &scrape.requests);
            // Messages one behind the other are one message with the contents of all.
            let body: Vec<u8> = pieces.flat_map(|piece| piece.body.iter().copied()).collect();
            let points = many.iter().map(|scrape| scrape.points).sum();
            vec![Request { body: body.into(), points }]
        }
    }
}
