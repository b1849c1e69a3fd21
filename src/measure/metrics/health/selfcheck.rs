//! The saved result of `aiperf selfcheck`, as included in later results.

use serde::{Deserialize, Serialize};

/// How much load this machine can measure within an error bound.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, schemars::JsonSchema)]
pub struct SelfCheck {
    /// The aiperf version that performed the check.
    pub aiperf_version: String,
    /// When, in the machine's local time zone.
    pub date: String,
    pub machine: Machine,
    /// The bound on the 99th percentile of every error, in milliseconds.
    pub bound_ms: f64,
    /// The highest loads within the bound.
    pub limits: Limits,
}

/// The highest loads at which every error stayed within the bound; absent if even the lowest
/// load failed.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize, schemars::JsonSchema)]
pub struct Limits {
    /// Number of concurrent streams.
    pub concurrency: Option<u64>,
    /// Requests per second.
    pub request_rate: Option<f64>,
}

/// Properties that identify a machine's performance.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema)]
pub struct Machine {
    /// CPU model, if known.
    pub cpu: String,
    /// Number of cores available to the program.
    pub cores: usize,
    /// Kernel release.
    pub kernel: String,
}

impl SelfCheck {
    /// Returns warnings for a load above the limits.
    #[must_use]
    pub fn excess(&self, concurrency: Option<u64>, rate: Option<f64>) -> Vec<String> {
        let bound = self.bound_ms;
        let advice = "check client_health, or split the load across several machines";
        let streams = concurrency
            .filter(|asked| self.limits.concurrency.is_none_or(|limit| *asked > limit))
            .map(|asked| {
                let limit = self.limits.concurrency.unwrap_or(0);
                format!(
                    "--concurrency {asked} exceeds the {limit} streams up to which the \
                     self-check found errors within {bound} ms; {advice}"
                )
            });
        let rate = rate
            .filter(|asked| self.limits.request_rate.is_none_or(|limit| *asked > limit))
            .map(|asked| {
                let limit = self.limits.request_rate.unwrap_or(0.0);
                format!(
                    "--request-rate {asked} exceeds the {limit} per second up to which the \
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
        // No rate was within the bound, so every rate is above the limit.
        assert!(told[1].contains("--request-rate 1 "), "{told:?}");
    }
}
