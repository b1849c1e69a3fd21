//! What is shown of a run at one moment.

use crate::judge::Judged;
use crate::metrics::ClientHealth;
use crate::metrics::health::LoadHealth;
use crate::metrics::live::LiveStatistics;
use crate::schedule::PhaseStats;
use crate::server_metrics::watch::LiveGauge;

/// Everything that is drawn.
#[derive(Debug, Clone, Default)]
pub(crate) struct Snapshot {
    /// The models and servers.
    pub(crate) title: String,
    /// Which of several runs this is.
    pub(crate) member: Option<String>,
    /// The current phase, or the last one; absent before the first.
    pub(crate) phase: Option<PhaseStats>,
    /// Its name.
    pub(crate) phase_name: String,
    pub(crate) stage: Stage,
    /// Whether records wait to be processed because there is no room.
    pub(crate) is_behind: bool,
    /// How long no response has arrived, if requests are in flight.
    pub(crate) silence: Option<Silence>,
    pub(crate) statistics: LiveStatistics,
    /// The server's gauges, in the order in which to read them.
    pub(crate) gauges: Vec<LiveGauge>,
    /// Client health so far.
    pub(crate) health: Option<ClientHealth>,
    /// The configured load of the phase.
    pub(crate) load: String,
    /// The health of the load so far.
    pub(crate) load_health: Option<LoadHealth>,
    /// The gates as they are with the results so far; without those that are decided at the end.
    pub(crate) gates: Vec<Judged>,
    /// The share of requests so far that meet the objectives, in percent, if there are any.
    pub(crate) good_percent: Option<f64>,
    /// Warnings and other lines, the latest last.
    pub(crate) log: Vec<String>,
}

/// What the program is doing.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) enum Stage {
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
pub(crate) struct Silence {
    pub(crate) seconds: f64,
    /// Whether it is longer than almost every response took.
    pub(crate) is_unusual: bool,
}
