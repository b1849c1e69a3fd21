//! What is shown of a run at one moment.

use client::schedule::PhaseStats;
use measure::judge::Judged;
use measure::metrics::ClientHealth;
use measure::metrics::health::LoadHealth;
use measure::metrics::live::LiveStatistics;
use measure::server_metrics::watch::LiveGauge;

/// Everything that is drawn.
#[derive(Debug, Clone, Default)]
pub struct Snapshot {
    /// The models and servers.
    pub title: String,
    /// Which of several runs this is.
    pub member: Option<String>,
    /// The current phase, or the last one; absent before the first.
    pub phase: Option<PhaseStats>,
    /// Its name.
    pub phase_name: String,
    pub stage: Stage,
    /// Whether records wait to be processed because there is no room.
    pub is_behind: bool,
    /// How long no response has arrived, if requests are in flight.
    pub silence: Option<Silence>,
    pub statistics: LiveStatistics,
    /// The server's gauges, in the order in which to read them.
    pub gauges: Vec<LiveGauge>,
    /// Client health so far.
    pub health: Option<ClientHealth>,
    /// The configured load of the phase.
    pub load: String,
    /// The health of the load so far.
    pub load_health: Option<LoadHealth>,
    /// The gates as they are with the results so far; without those that are decided at the end.
    pub gates: Vec<Judged>,
    /// The share of requests so far that meet the objectives, in percent, if there are any.
    pub(crate) good_percent: Option<f64>,
    /// Warnings and other lines, the latest last.
    pub log: Vec<String>,
}

/// What the program is doing.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Stage {
    /// No phase has started.
    #[default]
    Starting,
    /// Requests are sent.
    Sending,
    /// The user interrupted the run, and requests are in flight.
    Draining,
    /// The load has ended; its records are processed and the server's counts awaited.
    Finishing,
}

/// The time since the last response.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Silence {
    pub seconds: f64,
    /// Whether it is longer than almost every response took.
    pub is_unusual: bool,
}
