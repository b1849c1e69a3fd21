//! Makes the conversations that sessions send next while the run goes on, so that they are ready when they are
//! due.
//!
//! Threads of a lower priority stay ahead of the sessions by as many conversations as the next two seconds need if
//! sessions go on as in the last moments. A session that comes before its conversation makes it itself, which delays its
//! request, as client health shows.

use std::collections::BTreeMap;
use std::io;
use std::sync::Arc;
use std::thread::{self, JoinHandle};
use std::time::Duration;

use bytes::Bytes;

use base::lock::{Condition, Lock};
use base::platform::{Background, process};
use base::units::{Clock, Nanos};
use dataset::growth::Growth;
use dataset::{Dataset, Grown};

use crate::endpoint::Endpoint;
use crate::schedule::Shard;

/// Time that conversations are made ahead of need, in seconds.
const LEAD_SECONDS: f64 = 2.0;
/// Minimum and maximum number of conversations of a stream that are made ahead.
const LEAD: [usize; 2] = [64, 10_000];
/// Maximum number of bytes of the bodies that are ready.
const MOST_BYTES: usize = 64 << 20;
/// Maximum number of sessions that may overtake another one before it takes its conversation.
const MAX_LATE: usize = 1000;
/// Time after which the rate of the sessions is determined again.
const INTERVAL: Nanos = Nanos(50_000_000);

/// A conversation that was made while the run goes on.
#[derive(Debug, Clone)]
pub(super) struct Made {
    /// Its index in the dataset.
    pub(super) index: usize,
    pub(super) conversation: Grown,
    /// The body of its first request.
    pub(super) body: Bytes,
}

/// The conversations that are ready.
#[derive(Debug)]
pub(super) struct Ahead {
    growth: Arc<Growth>,
    dataset: Arc<Dataset>,
    endpoint: Arc<dyn Endpoint>,
    /// Distance of the indices of successive conversations of a stream that this process sends.
    stride: usize,
    state: Lock<State>,
    wanted: Condition,
}

#[derive(Debug)]
struct State {
    lines: Vec<Line>,
    bytes: usize,
    /// When the rates of the sessions were determined.
    since: Nanos,
    is_over: bool,
}

/// The conversations of a stream.
#[derive(Debug)]
struct Line {
    ready: BTreeMap<usize, Made>,
    /// Index after that of the last one that was taken.
    taken: usize,
    /// Index of the next one to make.
    next: usize,
    /// Number of those taken since the rates were determined.
    count: usize,
    /// Number of those to make ahead.
    lead: usize,
}

impl Line {
    fn lacks(&self, stride: usize) -> bool {
        self.next < self.taken.saturating_add(self.lead * stride)
    }
}

impl Ahead {
    /// Creates what makes the conversations of `shard` ahead; `None` if the dataset does not grow.
    pub(super) fn new(
        dataset: &Arc<Dataset>,
        endpoint: &Arc<dyn Endpoint>,
        shard: Shard,
    ) -> Option<Arc<Self>> {
        let growth = dataset.growth.clone()?;
        let stride = growth.streams() * usize::try_from(shard.count()).ok()?;
        let line = |stream: usize| {
            let taken = growth.first_of(stream, (shard.index(), shard.count()));
            Line { ready: BTreeMap::new(), taken, next: taken, count: 0, lead: LEAD[0] }
        };
        let lines = (0..growth.streams()).map(line).collect();
        let state = State { lines, bytes: 0, since: Clock::now(), is_over: false };
        Some(Arc::new(Self {
            growth,
            dataset: Arc::clone(dataset),
            endpoint: Arc::clone(endpoint),
            stride,
            state: Lock::new(state),
            wanted: Condition::default(),
        }))
    }

    /// Takes the conversation with this index, which is made now unless it is ready.
    pub(super) fn take(&self, index: usize) -> Made {
        self.growth.note(index);
        let at = index.saturating_sub(self.growth.first()) % self.growth.streams().max(1);
        let mut state = self.state.lock();
        let State { lines, bytes, .. } = &mut *state;
        let mut found = None;
        let mut lacks = false;
        if let Some(line) = lines.get_mut(at) {
            found = line.ready.remove(&index);
            *bytes = bytes.saturating_sub(found.as_ref().map_or(0, |made| made.body.len()));
            line.count += 1;
            line.taken = line.taken.max(index + self.stride);
            line.next = line.next.max(line.taken);
            lacks = line.lacks(self.stride);
        }
        drop(state);
        if lacks {
            self.wanted.notify_one();
        }
        found.unwrap_or_else(|| self.make(index))
    }

    /// Makes a conversation, or if that fails, uses one that exists.
    fn make(&self, index: usize) -> Made {
        let all = &self.dataset.conversations;
        let conversation = self
            .growth
            .make(index)
            .unwrap_or_else(|| all.get(index % all.len().max(1)).cloned().unwrap_or_default());
        let body = self.endpoint.request_body(&conversation, 0, &[]).into();
        Made { index, conversation: conversation.into(), body }
    }

    /// Makes conversations until the end.
    fn run(&self) {
        process::yield_to_measurement(Background::Timely);
        while let Some((at, index)) = self.next() {
            let made = self.make(index);
            let mut state = self.state.lock();
            let State { lines, bytes, .. } = &mut *state;
            // Others have made it themselves meanwhile.
            if let Some(line) = lines.get_mut(at).filter(|line| index >= line.taken) {
                *bytes += made.body.len();
                line.ready.insert(index, made);
            }
        }
    }

    /// Waits until a conversation is to be made; returns its stream and its index, or `None` at the end.
    fn next(&self) -> Option<(usize, usize)> {
        let mut state = self.state.lock();
        loop {
            if state.is_over {
                return None;
            }
            let now = Clock::now();
            if now.since(state.since) > INTERVAL {
                state.pace(now, self.stride);
            }
            let State { lines, bytes, .. } = &mut *state;
            if *bytes < MOST_BYTES
                && let Some((at, line)) =
                    lines.iter_mut().enumerate().find(|(_, line)| line.lacks(self.stride))
            {
                let index = line.next;
                line.next += self.stride;
                return Some((at, index));
            }
            state = self.wanted.wait_timeout(state, Duration::from(INTERVAL));
        }
    }
}

impl State {
    /// Determines how many conversations are made ahead, and forgets those that no session took.
    fn pace(&mut self, now: Nanos, stride: usize) {
        let seconds = now.since(self.since).as_seconds();
        self.since = now;
        for line in &mut self.lines {
            let rate = std::mem::take(&mut line.count) as f64 / seconds;
            line.lead = ((rate * LEAD_SECONDS) as usize).clamp(LEAD[0], LEAD[1]).max(line.lead / 2);
            let oldest = line.taken.saturating_sub(MAX_LATE * stride);
            line.ready = line.ready.split_off(&oldest);
        }
        let ready = self.lines.iter().flat_map(|line| line.ready.values());
        self.bytes = ready.map(|made| made.body.len()).sum();
    }
}

/// The threads that make conversations. They end when it is dropped.
pub(super) struct Threads {
    ahead: Arc<Ahead>,
    threads: Vec<JoinHandle<()>>,
}

impl Threads {
    /// Starts the threads: one for every four cores, since the load needs the others.
    pub(super) fn start(ahead: Arc<Ahead>) -> io::Result<Self> {
        let cores = thread::available_parallelism().map_or(1, usize::from);
        let start = |number: usize| {
            let ahead = Arc::clone(&ahead);
            let name = format!("generator-{number}");
            thread::Builder::new().name(name).spawn(move || ahead.run())
        };
        let threads = (0..(cores / 4).clamp(1, 4)).map(start).collect::<io::Result<_>>()?;
        Ok(Self { ahead, threads })
    }
}

impl Drop for Threads {
    fn drop(&mut self) {
        self.ahead.state.lock().is_over = true;
        self.ahead.wanted.notify_all();
        for thread in self.threads.drain(..) {
            // A panic has printed its message; sessions have made their conversations themselves.
            let _ = thread.join();
        }
    }
}
