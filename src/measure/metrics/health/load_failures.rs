//! The requests of a measurement that failed: which share of them, and how most of them did.

use std::collections::BTreeMap;
use std::fmt;

use http::StatusCode;
use serde::{Deserialize, Serialize};

use base::statistics::proportion::Proportion;
use client::record::{ErrorKind, RequestError};

use super::load_health::LoadVerdict;

/// The share of requests that fail without being notable.
const FEW: f64 = 0.01;

/// Probability with which a share of [`FEW`] is taken for a higher one.
const FALSE_ALARM: f64 = 0.01;

/// Status of a server that is overloaded, as some servers report it.
const OVERLOADED: u16 = 529;

/// How a request failed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Cause {
    /// The server responded with this status.
    Status(u16),
    /// The client stopped waiting.
    Timeout,
    /// Anything else, such as a connection that ended early.
    Other,
}

impl Cause {
    /// Returns how a request failed with `error`; `None` if the client cancelled it.
    pub(super) fn from_error(error: &RequestError) -> Option<Self> {
        (!error.is_cancelled()).then_some(match (error.kind, error.code) {
            (ErrorKind::Timeout, _) => Self::Timeout,
            (ErrorKind::Http4xx | ErrorKind::Http5xx, Some(code)) => Self::Status(code),
            _ => Self::Other,
        })
    }

    /// Returns whether this is how a server fails a request that it does not take because of its load.
    fn is_of_load(self) -> bool {
        let is = |status: StatusCode| self == Self::Status(status.as_u16());
        self == Self::Timeout
            || self == Self::Status(OVERLOADED)
            || is(StatusCode::TOO_MANY_REQUESTS)
            || is(StatusCode::SERVICE_UNAVAILABLE)
    }
}

/// The requests of a measurement that failed, without those that the client cancelled.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize, schemars::JsonSchema)]
pub struct Failures {
    /// Share of all requests, in percent.
    pub percent: f64,
    /// Share of those with the most frequent cause, in percent.
    pub(crate) most_percent: f64,
    /// The most frequent cause: the status of the response; absent if there was none.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) most_status: Option<u16>,
    /// Whether the most frequent cause is that no response came in time.
    pub(crate) most_timed_out: bool,
    /// Whether it is how a server fails requests because of its load: statuses 429, 503 and 529, and timeouts.
    pub is_of_load: bool,
}

impl Failures {
    /// Returns the failures, so many for each cause, of `requests`; `None` unless more than 1% fail.
    pub(super) fn from_counts(counts: &BTreeMap<Cause, u64>, requests: u64) -> Option<Self> {
        let (hits, trials) = (counts.values().sum::<u64>() as f64, requests as f64);
        // The first of several that are equally frequent.
        let (cause, most) = counts.iter().rev().max_by_key(|(_, count)| **count)?;
        let is_notable = Proportion { hits, trials }.is_above(FEW, FALSE_ALARM);
        is_notable.then(|| Self {
            percent: 100.0 * hits / trials,
            most_percent: 100.0 * *most as f64 / trials,
            most_status: match cause {
                Cause::Status(code) => Some(*code),
                Cause::Timeout | Cause::Other => None,
            },
            most_timed_out: *cause == Cause::Timeout,
            is_of_load: cause.is_of_load(),
        })
    }

    /// Returns the verdict on a load of which nothing worse is known.
    pub(super) const fn verdict(&self) -> LoadVerdict {
        if self.is_of_load { LoadVerdict::Rejecting } else { LoadVerdict::Failing }
    }
}

impl fmt::Display for Failures {
    /// `33% rejected by a rate limit (429)`, `20% failed (500)`, `25% failed, 20% with status 500`
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { percent, most_percent, .. } = *self;
        let several = percent.round() > most_percent.round();
        if several {
            write!(f, "{percent:.0}% failed, ")?;
        }
        write!(f, "{most_percent:.0}% ")?;
        match self.most_status {
            Some(429) => f.write_str("rejected by a rate limit (429)"),
            Some(code) if self.is_of_load => write!(f, "rejected as overloaded ({code})"),
            Some(code) if several => write!(f, "with status {code}"),
            Some(code) => write!(f, "failed ({code})"),
            None if self.most_timed_out => f.write_str("timed out"),
            None if several => f.write_str("without a whole response"),
            None => f.write_str("failed without a whole response"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn failures(counts: &[(Cause, u64)], requests: u64) -> Option<Failures> {
        Failures::from_counts(&counts.iter().copied().collect(), requests)
    }

    #[test]
    fn the_most_frequent_cause_is_named() {
        let text = |counts: &[(Cause, u64)]| failures(counts, 90).unwrap().to_string();
        assert_eq!(text(&[(Cause::Status(429), 30)]), "33% rejected by a rate limit (429)");
        assert_eq!(text(&[(Cause::Status(500), 18)]), "20% failed (500)");
        assert_eq!(text(&[(Cause::Timeout, 9)]), "10% timed out");
        assert_eq!(
            text(&[(Cause::Status(503), 18), (Cause::Other, 9)]),
            "30% failed, 20% rejected as overloaded (503)"
        );
        assert_eq!(text(&[(Cause::Other, 9)]), "10% failed without a whole response");
    }

    #[test]
    fn one_in_a_hundred_is_not_notable() {
        // By scipy.stats.binom.sf(hits - 1, 100, 0.01): 0.018 for 4, 0.0034 for 5.
        assert_eq!(failures(&[(Cause::Status(500), 4)], 100), None);
        assert_eq!(
            failures(&[(Cause::Status(500), 5)], 100).unwrap().verdict(),
            LoadVerdict::Failing
        );
        assert_eq!(failures(&[], 100), None);
    }

    #[test]
    fn only_failures_of_the_load_are_rejections_and_cancelled_requests_did_not_fail() {
        let cause = |kind, code| {
            Cause::from_error(&RequestError { code, ..RequestError::new(kind, "", "") })
        };
        let is = |kind, code| cause(kind, code).unwrap().is_of_load();
        assert!(is(ErrorKind::Http4xx, Some(429)) && is(ErrorKind::Http5xx, Some(503)));
        assert!(is(ErrorKind::Http5xx, Some(529)) && is(ErrorKind::Timeout, None));
        assert!(!is(ErrorKind::Http5xx, Some(500)) && !is(ErrorKind::Http4xx, Some(400)));
        assert_eq!(cause(ErrorKind::Cancelled, Some(499)), None);
    }
}
