//! Counts of canaries that are left out of all metrics: the server counts them like other requests.

use client::record::ErrorKind;

use crate::metrics::metric::Observation;
use crate::metrics::tag::{self, MetricTag};

/// The canaries of a phase that are left out of its metrics.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub(crate) struct LeftOutCanaries {
    /// Number of those that succeeded.
    pub(crate) succeeded: u64,
    /// Number of those that failed, without cancelled ones.
    pub(crate) failed: u64,
    /// Number of those that the client cancelled.
    pub(crate) cancelled: u64,
    prompt_tokens: Reported,
    completion_tokens: Reported,
}

/// A quantity that servers report of requests that succeed.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
struct Reported {
    /// Number of requests of which it is known.
    known: u64,
    sum: f64,
}

impl LeftOutCanaries {
    /// Adds a finished request.
    pub(super) fn add(&mut self, observation: &Observation) {
        match &observation.error {
            Some(error) if error.kind == ErrorKind::Cancelled => self.cancelled += 1,
            Some(_) => self.failed += 1,
            None => {
                self.succeeded += 1;
                for (tag, reported) in [
                    (tag::USAGE_PROMPT_TOKENS, &mut self.prompt_tokens),
                    (tag::USAGE_COMPLETION_TOKENS, &mut self.completion_tokens),
                ] {
                    if let Some(tokens) = observation.values.scalar(tag) {
                        reported.known += 1;
                        reported.sum += tokens;
                    }
                }
            }
        }
    }

    /// Returns the sum of a number of tokens that servers report, and of how many canaries it is known.
    pub(crate) fn reported(&self, tag: MetricTag) -> (u64, f64) {
        let reported = match tag {
            tag::USAGE_PROMPT_TOKENS => self.prompt_tokens,
            tag::USAGE_COMPLETION_TOKENS => self.completion_tokens,
            _ => Reported::default(),
        };
        (reported.known, reported.sum)
    }
}
