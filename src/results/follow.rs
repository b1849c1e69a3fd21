//! Those who follow the runs of a command while they go on: the status that the live view and the
//! HTTP API show, and exporters of records and results such as MLflow.
//!
//! A follower learns everything from the [`Follower`] trait, and a run does not know who follows it.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use base::interrupt::Interrupt;
use base::units::Clock;
use client::schedule::PhaseStats;
use measure::gpu::sample::GpuSample;
use measure::metrics::health::LoadTimes;
use measure::metrics::metric::MeasuredRecord;
use measure::metrics::{ClientHealth, Registry};
use measure::server_metrics::Scrape;

use crate::artifacts::layout::Layout;
use crate::run::{RunDescription, RunReport};

/// Follows the runs of a command. Each method is called when the event happens that the method is
/// named after; by default it does nothing.
///
/// Only [`Follower::ended`] and [`Follower::delivered`] may take long, since nothing is measured
/// then. A follower that sends data does so from a thread of its own, of low priority.
pub trait Follower: Send + Sync {
    /// A run is about to send its first request.
    fn began(&self, _run: &Began<'_>) {}

    /// A request of any phase has ended and has been measured. The threads that process records call
    /// this concurrently, in any order.
    fn record(&self, _record: &MeasuredRecord) {}

    /// A metrics endpoint of a server was scraped.
    fn scraped(&self, _scrape: &Scrape<'_>) {}

    /// An exporter of GPUs was scraped. `endpoint` is its number, after those of the servers.
    fn sampled(&self, _endpoint: usize, _samples: &[GpuSample]) {}

    /// The load goes on. Called several times per second.
    fn progress(&self, _progress: &Progress<'_>) {}

    /// The load has ended with this phase. Its last records may not have been processed yet.
    fn load_ended(&self, _phase: &PhaseStats) {}

    /// The run has ended, and its files are written. A follower adds the files that it writes.
    fn ended(&self, _run: &mut Ended<'_>) {}

    /// The command has written the files of all runs.
    fn delivered(&self, _command: &Delivered<'_>) {}
}

/// A run that is about to start.
pub struct Began<'a> {
    pub run: &'a RunDescription,
    /// Its name, such as `Run 2 of 4: concurrency_2`, if it is one of several.
    pub name: Option<&'a str>,
    /// The metrics that its records may have.
    pub registry: &'a Arc<Registry>,
    /// Number of threads that send requests.
    pub workers: usize,
    pub clock: Clock,
}

/// How far a run is.
pub struct Progress<'a> {
    /// The phases so far; the last one goes on.
    pub phases: &'a [PhaseStats],
    /// Name of the last one.
    pub name: &'a str,
    /// Whether the client is behind with processing records.
    pub is_behind: bool,
    /// Computes client health so far, which takes a while.
    pub health: &'a dyn Fn() -> ClientHealth,
    /// Returns when the requests of the measurement so far arrived and ended.
    pub load_times: &'a dyn Fn() -> LoadTimes,
}

/// A run that has ended.
pub struct Ended<'a> {
    pub report: &'a RunReport,
    pub layout: &'a Layout,
    /// The files that have been written.
    pub files: Vec<PathBuf>,
    /// Interrupts that the user has sent since the run ended.
    pub interrupt: &'a Interrupt,
}

/// A command whose files are all written.
pub struct Delivered<'a> {
    /// The directory that contains most of the files.
    pub directory: &'a Path,
    /// The files that the command has written, there and elsewhere. Some may be absent.
    pub files: &'a BTreeSet<PathBuf>,
    /// Whether some could not be written, or a run failed.
    pub is_partial: bool,
}

/// All that follow a run. Each event is passed on to them in their order.
#[derive(Clone, Default)]
pub struct Followers(Vec<Arc<dyn Follower>>);

impl Followers {
    /// Adds a follower after the others.
    pub fn add(&mut self, follower: Arc<dyn Follower>) {
        self.0.push(follower);
    }
}

impl Follower for Followers {
    fn began(&self, run: &Began<'_>) {
        self.0.iter().for_each(|follower| follower.began(run));
    }

    fn record(&self, record: &MeasuredRecord) {
        self.0.iter().for_each(|follower| follower.record(record));
    }

    fn scraped(&self, scrape: &Scrape<'_>) {
        self.0.iter().for_each(|follower| follower.scraped(scrape));
    }

    fn sampled(&self, endpoint: usize, samples: &[GpuSample]) {
        self.0.iter().for_each(|follower| follower.sampled(endpoint, samples));
    }

    fn progress(&self, progress: &Progress<'_>) {
        self.0.iter().for_each(|follower| follower.progress(progress));
    }

    fn load_ended(&self, phase: &PhaseStats) {
        self.0.iter().for_each(|follower| follower.load_ended(phase));
    }

    fn ended(&self, run: &mut Ended<'_>) {
        self.0.iter().for_each(|follower| follower.ended(run));
    }

    fn delivered(&self, command: &Delivered<'_>) {
        self.0.iter().for_each(|follower| follower.delivered(command));
    }
}
