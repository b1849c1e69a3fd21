//! What the load is: phases, each with its arrivals and its end. Plain data.

use super::PhaseKind;
use crate::units::Nanos;

/// The phases of a run, in order.
#[derive(Debug, Clone, PartialEq)]
pub struct Config {
    /// An optional warmup, then the measurement.
    pub phases: Vec<PhaseConfig>,
}

/// One phase.
#[derive(Debug, Clone, PartialEq)]
pub struct PhaseConfig {
    /// What it is for.
    pub kind: PhaseKind,
    /// Sessions in flight at most; `None` sets no bound.
    pub concurrency: Option<u64>,
    /// Sessions started per second; `None` starts one as soon as there is room.
    pub rate: Option<f64>,
    /// How arrivals are spread around the rate.
    pub arrival: ArrivalPattern,
    /// Shape of [`ArrivalPattern::Gamma`]: 1 is Poisson, above is smoother.
    pub smoothness: f64,
    /// When no more requests are sent.
    pub stop: StopCondition,
    /// How long requests in flight may still take once the duration is over;
    /// `None` waits for them as long as each may take by itself.
    pub grace_period: Option<Nanos>,
}

/// How arrivals are spread.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ArrivalPattern {
    /// As soon as there is room: a closed loop, no rate.
    ConcurrencyBurst,
    /// At equal intervals.
    Constant,
    /// At exponentially distributed intervals.
    Poisson,
    /// At gamma distributed intervals.
    Gamma,
}

/// When a phase sends no more: at the first bound that is reached.
///
/// Without any bound it sends one session for each conversation of the dataset.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct StopCondition {
    /// Requests.
    pub requests: Option<u64>,
    /// Sessions.
    pub sessions: Option<u64>,
    /// Time since the phase's start.
    pub duration: Option<Nanos>,
}

impl StopCondition {
    /// Whether it has no bound of its own.
    #[must_use]
    pub fn is_unset(&self) -> bool {
        *self == Self::default()
    }
}
