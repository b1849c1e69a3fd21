//! The round-trip time of the network between the client and the servers.
//!
//! It is given, or measured beside the load: a low-priority thread connects to each server at an
//! interval, and the time of a connect is one round trip. [`RoundTrips`] has the mean, which the
//! results without the network are computed from.

use std::sync::Arc;
use std::{io, thread};

use serde::{Deserialize, Serialize};
use tokio::sync::{mpsc, oneshot, watch};

use base::interrupt::Interrupt;
use base::platform::Background;
use base::platform::process::yield_to_measurement;
use base::redact::ShownUrl;
use base::units::{Clock, Nanos};

use crate::record::RequestError;
use crate::transport::{IpVersion, Ping, Target};

/// Time between two connects to a server after the load, as long as there are too few.
const TOP_UP_INTERVAL: Nanos = Nanos(100_000_000);

/// Maximum time for the thread to end after its work.
const SLACK: Nanos = Nanos(1_000_000_000);

/// How the round-trip time is known.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Config {
    /// It is given (`--network-latency-mean`).
    Mean(Nanos),
    /// It is measured (`--network-latency-automatic`).
    Automatic(Probing),
}

/// When the servers are connected to.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Probing {
    /// Time between the starts of two probes of a server (`--network-latency-ping-interval`, 1 s).
    pub interval: Nanos,
    /// Timeout of a probe (`AIPERF_NETWORK_LATENCY_CONNECT_TIMEOUT`, 5 s).
    pub timeout: Nanos,
    /// Number of successful probes that are waited for after the load
    /// (`AIPERF_NETWORK_LATENCY_MIN_SAMPLES`, 5).
    pub min_successes: usize,
    /// Maximum time of that wait (`AIPERF_NETWORK_LATENCY_COMPLETE_TOPUP_TIMEOUT`, 3 s).
    pub top_up: Nanos,
}

impl Default for Probing {
    fn default() -> Self {
        Self {
            interval: Nanos::from_seconds(1.0),
            timeout: Nanos::from_seconds(5.0),
            min_successes: 5,
            top_up: Nanos::from_seconds(3.0),
        }
    }
}

/// The server of a probe.
#[derive(Debug)]
pub struct Server {
    /// The first of its URLs, without secrets.
    pub url: ShownUrl,
    pub host: Arc<str>,
    pub port: u16,
}

/// A TCP connect and its outcome.
#[derive(Debug)]
pub struct Probe {
    pub server: Arc<Server>,
    /// Wall time of its start, in nanoseconds since the epoch.
    pub start_wall_ns: u64,
    /// How long it took, or why it failed.
    pub outcome: Result<Nanos, RequestError>,
}

/// Receives the probes in the order of their ends, on the thread of the prober.
pub trait ProbeSink: Send + 'static {
    /// Takes one.
    fn probe(&mut self, probe: &Probe);
}

/// The successful probes together.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct RoundTrips {
    count: u64,
    sum_ns: u128,
}

impl RoundTrips {
    /// Adds one that took `nanos`.
    pub fn add(&mut self, nanos: u64) {
        self.count += 1;
        self.sum_ns += u128::from(nanos);
    }

    /// Returns their mean in nanoseconds; `None` if there are none.
    pub fn mean_ns(&self) -> Option<f64> {
        (self.count > 0).then(|| self.sum_ns as f64 / self.count as f64)
    }
}

/// A running measurement. Dropping it stops it without waiting.
#[derive(Debug)]
pub struct Prober<S> {
    top_up: Nanos,
    /// Becomes true at the end of the load; the measurement ends when it is dropped.
    is_load_over: watch::Sender<bool>,
    measured: oneshot::Receiver<Measured<S>>,
}

/// What was measured.
#[derive(Debug)]
pub struct Measured<S> {
    pub round_trips: RoundTrips,
    /// Why the last probe that failed did.
    pub last_error: Option<RequestError>,
    pub sink: S,
}

impl<S: ProbeSink> Prober<S> {
    /// Starts to connect to each host and port of `targets`, which must be reached without a proxy.
    /// Times are those of `clock`.
    ///
    /// # Errors
    ///
    /// Fails if the thread or its runtime cannot be created.
    pub fn start(
        config: Probing,
        targets: &[Target],
        ip_version: IpVersion,
        clock: Clock,
        sink: S,
    ) -> io::Result<Self> {
        let mut servers: Vec<PingedServer> = Vec::new();
        for target in targets {
            let is_same = |known: &PingedServer| {
                (&known.server.host, known.server.port) == (&target.host, target.port)
            };
            if !servers.iter().any(is_same) {
                servers.push(PingedServer::new(target, ip_version, config.timeout, clock));
            }
        }
        let top_up = config.top_up;
        let (is_load_over, load) = watch::channel(false);
        let (tell, measured) = oneshot::channel();
        let collecting =
            Collecting { config, round_trips: RoundTrips::default(), last_error: None, sink };
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
        thread::Builder::new().name("network-prober".to_owned()).spawn(move || {
            yield_to_measurement(Background::Timely);
            let found = runtime.block_on(collecting.run(servers, load));
            // The caller may have stopped waiting.
            let _ = tell.send(found);
            // A name lookup cannot be cancelled.
            runtime.shutdown_background();
        })?;
        Ok(Self { top_up, is_load_over, measured })
    }

    /// Notes the end of the load. The measurement ends once there are enough successful probes, or
    /// after the time for them.
    pub fn load_ended(&self) {
        self.is_load_over.send_replace(true);
    }

    /// Waits for the end of the measurement and returns it; `None` if its thread panicked. Blocks
    /// for a bounded time, and hardly longer than until the user interrupts the run.
    pub fn finish(self, interrupt: &Interrupt) -> Option<Measured<S>> {
        self.load_ended();
        let Self { top_up, is_load_over, mut measured } = self;
        let deadline = Clock::now() + top_up + SLACK;
        let found = interrupt.wait_for(&mut measured, deadline);
        drop(is_load_over);
        let found =
            found.or_else(|| Interrupt::never().wait_for(&mut measured, Clock::now() + SLACK));
        found?.ok()
    }
}

/// A server with its address.
#[derive(Debug)]
struct PingedServer {
    server: Arc<Server>,
    ping: Ping,
    timeout: Nanos,
    clock: Clock,
}

impl PingedServer {
    fn new(target: &Target, ip_version: IpVersion, timeout: Nanos, clock: Clock) -> Self {
        let (host, port) = (Arc::clone(&target.host), target.port);
        let server = Arc::new(Server { url: target.url.clone(), host, port });
        Self { server, ping: Ping::new(target, ip_version), timeout, clock }
    }

    /// Connects again and again until nobody receives the probes; the starts are `interval` apart,
    /// or further if a connect takes longer.
    async fn run(mut self, mut interval: watch::Receiver<Nanos>, probes: mpsc::Sender<Probe>) {
        loop {
            let start = Clock::now();
            let outcome = self.ping.connect(self.timeout).await;
            let server = Arc::clone(&self.server);
            let start_wall_ns = self.clock.wall_ns(start);
            if probes.send(Probe { server, start_wall_ns, outcome }).await.is_err() {
                return;
            }
            loop {
                let due = start + *interval.borrow_and_update();
                tokio::select! {
                    () = tokio::time::sleep(due.since(Clock::now()).into()) => break,
                    changed = interval.changed() => if changed.is_err() { return },
                }
            }
        }
    }
}

/// The state of the thread.
struct Collecting<S> {
    config: Probing,
    round_trips: RoundTrips,
    last_error: Option<RequestError>,
    sink: S,
}

impl<S: ProbeSink> Collecting<S> {
    /// Probes `servers` until the end of the load, and then until there are enough successful
    /// probes.
    async fn run(
        mut self,
        servers: Vec<PingedServer>,
        mut load: watch::Receiver<bool>,
    ) -> Measured<S> {
        let (interval, intervals) = watch::channel(self.config.interval);
        let (sender, mut probes) = mpsc::channel(1);
        for server in servers {
            tokio::spawn(server.run(intervals.clone(), sender.clone()));
        }
        let is_stopped = tokio::select! {
            ended = load.wait_for(|is_over| *is_over) => ended.is_err(),
            () = self.take_until(&mut probes, usize::MAX) => false,
        };
        if !is_stopped {
            interval.send_replace(TOP_UP_INTERVAL.min(self.config.interval));
            let top_up = self.config.top_up.into();
            tokio::select! {
                // It does not change again before it is dropped.
                _ = load.wait_for(|is_over| !is_over) => {}
                _ = tokio::time::timeout(top_up, self.take_until(&mut probes, self.config.min_successes)) => {}
            }
        }
        let Self { round_trips, last_error, sink, .. } = self;
        Measured { round_trips, last_error, sink }
    }

    /// Takes probes until `successes` of them have succeeded.
    async fn take_until(&mut self, probes: &mut mpsc::Receiver<Probe>, successes: usize) {
        while self.round_trips.count < successes as u64 {
            let Some(probe) = probes.recv().await else { return };
            match &probe.outcome {
                Ok(nanos) => self.round_trips.add(nanos.0),
                Err(error) => self.last_error = Some(error.clone()),
            }
            self.sink.probe(&probe);
        }
    }
}

#[cfg(test)]
mod tests;
