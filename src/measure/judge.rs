//! Judges the results of runs: gates, which are limits that a run's results must keep, and
//! comparisons of runs.
//!
//! Everything here is pure: it parses text, and computes verdicts and texts from results.

pub mod adaptive;
mod certainty;
pub mod compare;
pub mod early;
mod evaluate;
pub mod gate;
pub mod paired;
pub mod reports;
mod series;
mod throughput;

use std::fmt;
use std::path::PathBuf;

use serde::{Deserialize, Serialize};

use base::setting::{self, Named as _, named};

pub use adaptive::AdaptivePath;
pub use certainty::{Basis, bases};
pub use compare::Comparison;
pub use evaluate::{Facts, Judged, JudgedRun, Reading, judge};
pub use gate::{Gate, GateError, RelativeGate};
pub use throughput::throughput;

/// The gates of a run, and the file with their results.
#[derive(Debug, Clone, Default, Serialize)]
pub struct Config {
    /// The gates (`--gate`).
    pub gates: Vec<Gate>,
    /// The JUnit file (`--junit`).
    #[serde(serialize_with = "setting::optional_path", skip_serializing_if = "Option::is_none")]
    pub junit: Option<PathBuf>,
    /// What ends the load before its configured end (`--stop-when`).
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub stop_when: Vec<StopWhen>,
    /// What a gate that too few requests leave undecided counts as (`--gate-undecided`); absent if the exit
    /// code says so.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub undecided: Option<Undecided>,
}

/// What a gate that too few requests leave undecided counts as.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Undecided {
    /// As one that held.
    Pass,
    /// As one that did not hold.
    Fail,
}

named! { Undecided { "pass" => Pass, "fail" => Fail } }

/// What ends the load of a run before its configured end.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum StopWhen {
    /// It is certain enough whether the gates hold.
    Decided,
    /// The server does not keep up with the load.
    Saturated,
}

named! { StopWhen { "decided" => Decided, "saturated" => Saturated } }

/// Why the load of a complete run ended before its configured end.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, schemars::JsonSchema)]
pub struct EarlyEnd {
    /// What ended it.
    pub cause: StopWhen,
    /// When, in seconds since the phase began.
    pub seconds: f64,
    /// What was known then, such as "the gates hold".
    pub finding: String,
}

impl fmt::Display for EarlyEnd {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "the load ended after {:.1} s, since {} (--stop-when {})",
            self.seconds,
            self.finding,
            self.cause.name()
        )
    }
}
