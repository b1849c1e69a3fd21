//! The load of a measurement: the configured one, and the one reached.

use std::fmt;

use serde::{Deserialize, Serialize};

/// The configured load and the load reached.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(default)]
pub struct LoadReport {
    /// Configured concurrency; with a rate it is only a limit.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub requested_concurrency: Option<u64>,
    /// Highest number of requests in flight.
    pub reached_concurrency: u64,
    /// Time for which the slots of a closed loop were open, together; absent in other loads.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub slot_seconds: Option<f64>,
    /// Number of sends of a closed loop that were delayed because no connection could be opened.
    #[serde(skip_serializing_if = "is_zero")]
    pub sends_held_back: u64,
    /// Configured requests per second.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub requested_rate: Option<f64>,
    /// Requests per second that were sent.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reached_rate: Option<f64>,
}

/// How far the rate reached differs from the one requested to be shown, as a share.
const NOTABLE_SHARE: f64 = 0.01;

impl fmt::Display for LoadReport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let hundredths = |rate: f64| (rate * 100.0).round() / 100.0;
        if let Some(rate) = self.requested_rate {
            write!(f, "{} requests/s", hundredths(rate))?;
            let differs = |reached: &f64| (reached - rate).abs() >= NOTABLE_SHARE * rate;
            if let Some(reached) = self.reached_rate.filter(differs) {
                write!(f, " ({} sent)", hundredths(reached))?;
            }
            f.write_str(", ")?;
        }
        let reached = self.reached_concurrency;
        match self.requested_concurrency {
            Some(most) if most == reached => write!(f, "concurrency {most}"),
            Some(most) => write!(f, "concurrency {most} ({reached} reached)"),
            None => write!(f, "at most {reached} in flight"),
        }
    }
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde hands over a reference")]
const fn is_zero(count: &u64) -> bool {
    *count == 0
}
