//! Selects the scrapes of an endpoint for the statistics of a phase.
//!
//! The server reads its counters at some time between the request and the response of a scrape.
//! Their values are exact if no request of another phase was in flight meanwhile: a phase therefore
//! extends between scrapes in the idle times before and after it. Each endpoint has its own
//! scrapes, and none waits for those of another.

use std::ops::Range;

use serde::{Deserialize, Serialize};

use base::units::Nanos;

use super::report::PhaseWindow;
use super::scrape::FetchTimes;
use super::store::Column;

/// Maximum distance of a scrape from an edge of its phase to count as being at that edge: the
/// longest pause between two phases.
const NEAR: Nanos = Nanos(2_000_000_000);

/// Whose requests the server counted after the final scrape of the measurement.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum LateCounts {
    /// Not known: no count of the server can be compared with the client's.
    #[default]
    Unknown,
    /// The client's: with them, the server counted as many as the client sent, or fewer.
    Own,
    /// At least partly others': with them, the server counted more than the client sent.
    Others,
}

/// The increase of a cumulative value after the final scrape of a phase.
#[derive(Debug, Clone, PartialEq)]
pub struct LateRise {
    /// The scrapes that belong to the phase because of it; empty if it does not.
    pub scrapes: Range<usize>,
    /// By how much the value increased, if it is not known whether it belongs to the phase.
    pub doubtful: Option<f64>,
}

/// The scrapes of one endpoint for the statistics of one phase.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Span {
    /// The reference scrape, which cumulative values are compared with; `None` if the endpoint was
    /// not scraped before the phase.
    pub reference: Option<usize>,
    /// The scrapes whose samples belong to the phase; the last one is its final scrape.
    pub samples: Range<usize>,
    /// The scrapes after the final one, until further requests were sent; they may contain values
    /// that the server counted late.
    pub late: Range<usize>,
    /// Whose requests they count.
    pub late_counts: LateCounts,
    /// Whether the reference scrape is at the start of the phase.
    pub has_exact_start: bool,
    /// Whether the final scrape is at the end of the phase.
    pub has_exact_end: bool,
}

/// A period without requests: wall time, in nanoseconds.
#[derive(Debug, Clone, Copy)]
struct Idle {
    from: u64,
    to: u64,
}

impl Idle {
    /// Returns how long other requests were sent while the server may have read the values of
    /// `scrape`; 0 if the values are exact.
    fn error(self, scrape: &FetchTimes) -> u64 {
        let before = self.from.saturating_sub(scrape.request_sent_ns);
        before.max(scrape.first_byte_ns.saturating_sub(self.to))
    }
}

impl Span {
    /// Selects from `scrapes`, in the order of their responses, those of a phase.
    #[must_use]
    pub fn within(scrapes: &[FetchTimes], window: PhaseWindow) -> Self {
        let PhaseWindow { before, own: phase, after } = window;
        let idle = Idle { from: before.map_or(0, |before| before.end_ns), to: phase.start_ns };
        let idle_after =
            Idle { from: phase.end_ns, to: after.map_or(u64::MAX, |after| after.start_ns) };
        // Of several equally good ones, the latest is chosen, so that no idle time is included.
        let asked_before = scrapes.iter().take_while(|scrape| scrape.request_sent_ns < idle.to);
        let reference = asked_before
            .enumerate()
            .min_by_key(|(index, scrape)| (idle.error(scrape), usize::MAX - index))
            .map(|(index, _)| index);
        let first = reference.map_or_else(
            || scrapes.partition_point(|scrape| scrape.first_byte_ns < phase.start_ns),
            |reference| reference + 1,
        );
        // Here the earliest is chosen, for the same reason.
        let last = (first..scrapes.len()).min_by_key(|index| idle_after.error(&scrapes[*index]));
        let end = last.map_or(first, |last| last + 1);
        let until = scrapes.partition_point(|scrape| scrape.first_byte_ns <= idle_after.to);
        let stands = |scrape: usize, idle: Idle, edge: u64| {
            let scrape = &scrapes[scrape];
            idle.error(scrape) == 0 && scrape.first_byte_ns.abs_diff(edge) <= NEAR.0
        };
        Self {
            reference,
            samples: first..end,
            late: end..until.max(end),
            late_counts: LateCounts::default(),
            has_exact_start: reference.is_some_and(|at| stands(at, idle, phase.start_ns)),
            has_exact_end: last.is_some_and(|at| stands(at, idle_after, phase.end_ns)),
        }
    }

    /// Returns the late increase of `column`, a cumulative value: it increased, and stopped increasing
    /// before the last scrape. If the client's requests account for the late counts, that it rested at
    /// all is enough, since scraping ends soon after the last of them; if they are others', the increase of a value
    /// that rested and increases again until the last scrape is only stated. A value that increases from each
    /// scrape to the next although no requests are sent counts something else, and one that decreases
    /// was reset.
    #[must_use]
    pub fn late_of(&self, column: &Column) -> LateRise {
        let Range { start, end } = self.late;
        let nothing = LateRise { scrapes: start..start, doubtful: None };
        let Some(last) = self.last() else { return nothing };
        let first = column.before(last);
        let (mut before, mut has_stopped, mut has_rested) = (first, false, false);
        for value in column.along(start..end) {
            if value < before {
                return nothing;
            }
            has_stopped = value.is_nan() || value <= before;
            has_rested |= has_stopped;
            before = before.max(value);
        }
        let rise = before - first;
        if !has_rested || rise <= 0.0 {
            return nothing;
        }
        if !has_stopped && self.late_counts != LateCounts::Own {
            let are_others = self.late_counts == LateCounts::Others;
            return LateRise { doubtful: are_others.then_some(rise), ..nothing };
        }
        let (scrapes, is_doubtful) = match self.late_counts {
            LateCounts::Own => (start..end, false),
            LateCounts::Unknown => (start..end, true),
            LateCounts::Others => (start..start, true),
        };
        LateRise { scrapes, doubtful: is_doubtful.then_some(rise) }
    }

    /// Returns the final scrape of the phase.
    #[must_use]
    pub fn last(&self) -> Option<usize> {
        self.samples.clone().last()
    }
}

#[cfg(test)]
mod tests;
