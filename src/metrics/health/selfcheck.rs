//! What `aiperf selfcheck` found on this machine, as it travels with results.

use serde::{Deserialize, Serialize};

/// How much of this machine's load can be measured, and how well.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct SelfCheck {
    /// Version of aiperf that was checked.
    pub aiperf_version: String,
    /// When, in the machine's own time zone.
    pub date: String,
    /// Where.
    pub machine: Machine,
    /// What the 99th percentile of every error had to stay within, in milliseconds.
    pub bound_ms: f64,
    /// The loads up to which it did.
    pub limits: Limits,
}

/// The highest loads at which every error stayed within the bound; absent where
/// even the lowest failed.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize)]
pub struct Limits {
    /// Concurrent streams.
    pub concurrency: Option<u64>,
    /// Requests a second.
    pub request_rate: Option<f64>,
}

/// What decides how fast a machine is.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Machine {
    /// Model of the processor, where the system tells it.
    pub cpu: String,
    /// Cores that the program may use.
    pub cores: usize,
    /// Release of the kernel.
    pub kernel: String,
}

impl SelfCheck {
    /// What to tell of a run that asks for more than was found to be measured well.
    #[must_use]
    pub fn excess(&self, concurrency: Option<u64>, rate: Option<f64>) -> Vec<String> {
        let bound = self.bound_ms;
        let advice = "see client_health, or spread the load over several machines";
        let streams = concurrency
            .filter(|asked| self.limits.concurrency.is_none_or(|limit| *asked > limit))
            .map(|asked| {
                let limit = self.limits.concurrency.unwrap_or(0);
                format!(
                    "--concurrency {asked} is more than the {limit} streams for which the \
                     self-check found errors within {bound} ms; {advice}"
                )
            });
        let rate = rate
            .filter(|asked| self.limits.request_rate.is_none_or(|limit| *asked > limit))
            .map(|asked| {
                let limit = self.limits.request_rate.unwrap_or(0.0);
                format!(
                    "--request-rate {asked} is more than the {limit} a second for which the \
                     self-check found errors within {bound} ms; {advice}"
                )
            });
        streams.into_iter().chain(rate).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check() -> SelfCheck {
        SelfCheck {
            aiperf_version: env!("CARGO_PKG_VERSION").to_owned(),
            date: "2026-01-02T03:04:05+00:00".to_owned(),
            machine: Machine { cpu: "a".to_owned(), cores: 2, kernel: "6".to_owned() },
            bound_ms: 1.0,
            limits: Limits { concurrency: Some(500), request_rate: None },
        }
    }

    #[test]
    fn more_than_was_found_is_told() {
        assert!(check().excess(Some(500), None).is_empty());
        assert!(check().excess(None, None).is_empty());
        let told = check().excess(Some(501), Some(1.0));
        assert!(told[0].contains("--concurrency 501") && told[0].contains("500 streams"));
        // No rate was found to hold: every rate is more.
        assert!(told[1].contains("--request-rate 1 "), "{told:?}");
    }
}
