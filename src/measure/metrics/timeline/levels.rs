//! A request as a sequence of levels.

use super::{Curve, Gaps, Request};

/// Nanoseconds per second.
const SECOND: f64 = 1e9;

/// A request's contribution to a curve: a sequence of levels, each of which lasts until the next.
#[derive(Debug)]
pub(super) struct Levels {
    /// Start of its first level.
    pub(super) from: u64,
    /// Its first content event.
    first: Option<u64>,
    shape: Shape,
    end: u64,
    /// The nanoseconds between its content events, if they matter.
    gaps: Vec<u64>,
    /// Number of levels so far.
    step: u32,
    level: f64,
    until: u64,
}

/// The shape of the sequence.
#[derive(Debug, Clone, Copy)]
enum Shape {
    /// A single level.
    Even(f64),
    /// One level up to the first content event, and one after it.
    Halves(f64, f64),
    /// The given number of tokens in each gap that is not empty; nothing after the last.
    Pieces(f64),
    /// The input, to which the first content event adds `first`, and each further one `more`.
    Filling { input: f64, first: f64, more: f64 },
}

impl Levels {
    /// Returns the contribution of `request` to `curve`; `None` if the curve does not include it.
    pub(super) fn for_request(curve: Curve, request: &Request, gaps: Gaps<'_>) -> Option<Self> {
        let first = request.first_content();
        let end = request.end();
        let gaps = match curve {
            Curve::DecodeThroughput | Curve::DecodeThroughputPerUser | Curve::TokensInFlight => {
                gaps.in_request(request)
            }
            _ => Vec::new(),
        };
        let (from, shape, end) = match curve {
            Curve::Concurrency => (request.start, Shape::Even(1.0), end),
            Curve::PrefillConcurrency => (request.start, Shape::Even(1.0), first?),
            Curve::DecodeConcurrency => (first?, Shape::Even(1.0), end),
            Curve::PrefillThroughput | Curve::PrefillThroughputPerUser => {
                (request.start, Shape::Even(request.prefill_rate()), first?)
            }
            Curve::DecodeThroughput | Curve::DecodeThroughputPerUser => {
                (first?, Shape::Pieces(request.tokens_a_piece(&gaps)), end)
            }
            Curve::TotalThroughput => {
                (request.start, Shape::Halves(request.prefill_rate(), request.decode_rate()), end)
            }
            Curve::TokensInFlight => {
                first?;
                (request.start, request.filling(), end)
            }
        };
        Some(Self { from, first, shape, end, gaps, step: 0, level: 0.0, until: from })
    }

    /// Returns whether it contributes anything at any time.
    pub(super) fn says_something(&self) -> bool {
        match self.shape {
            Shape::Even(level) | Shape::Pieces(level) => level > 0.0,
            Shape::Halves(before, after) => before + after > 0.0,
            Shape::Filling { input, first, .. } => input + first > 0.0,
        }
    }

    pub(super) const fn level(&self) -> f64 {
        self.level
    }

    /// Advances to the next level; returns its end, or `None` after the last.
    pub(super) fn advance(&mut self) -> Option<u64> {
        let (level, until) = self.next()?;
        self.step += 1;
        self.level = level;
        self.until = until.max(self.until);
        Some(self.until)
    }

    /// Returns the next level and its end.
    fn next(&self) -> Option<(f64, u64)> {
        let Self { step, until, end, .. } = *self;
        let first_content = self.first;
        match self.shape {
            Shape::Even(level) => (step == 0).then_some((level, end)),
            Shape::Halves(before, after) => match step {
                0 => Some((before, first_content.unwrap_or(end))),
                1 => first_content.map(|_| (after, end)),
                _ => None,
            },
            Shape::Pieces(tokens) => match self.gap(step) {
                Some(0) => Some((0.0, until)),
                Some(gap) => Some((tokens * SECOND / gap as f64, until.saturating_add(gap))),
                None => (step == self.gap_count()).then_some((0.0, end)),
            },
            Shape::Filling { input, first, more } => {
                let Some(piece) = step.checked_sub(1) else {
                    return Some((input, first_content?));
                };
                let level = input + first + more * f64::from(piece);
                match self.gap(piece) {
                    Some(gap) => Some((level, until.saturating_add(gap))),
                    None => (piece == self.gap_count()).then_some((level, end)),
                }
            }
        }
    }

    fn gap(&self, at: u32) -> Option<u64> {
        self.gaps.get(at as usize).copied()
    }

    fn gap_count(&self) -> u32 {
        self.gaps.len() as u32
    }
}

impl Request {
    fn first_content(&self) -> Option<u64> {
        (self.first_content > 0).then_some(self.first_content)
    }

    /// Returns its end, which is not before its content events.
    pub(in crate::metrics) fn end(&self) -> u64 {
        self.end.max(self.first_content)
    }

    /// Returns input tokens per second up to the first content event.
    fn prefill_rate(&self) -> f64 {
        let nanos = self.first_content().map_or(0, |first| first.saturating_sub(self.start));
        ratio(f64::from(self.input_tokens) * SECOND, nanos as f64)
    }

    /// Returns the number of output tokens after the first.
    fn later_tokens(&self) -> f64 {
        f64::from(self.output_tokens.saturating_sub(1))
    }

    /// Returns output tokens per second from the first content event to the end.
    fn decode_rate(&self) -> f64 {
        let nanos = self.first_content().map_or(0, |first| self.end() - first);
        ratio(self.later_tokens() * SECOND, nanos as f64)
    }

    /// Returns the number of output tokens for each gap that is not empty.
    fn tokens_a_piece(&self, gaps: &[u64]) -> f64 {
        let pieces = gaps.iter().filter(|gap| **gap > 0).count();
        ratio(self.later_tokens(), pieces as f64)
    }

    fn filling(&self) -> Shape {
        let output = f64::from(self.output_tokens);
        let input = f64::from(self.input_tokens);
        if self.gap_count == 0 {
            return Shape::Filling { input, first: output, more: 0.0 };
        }
        let more = ratio(self.later_tokens(), f64::from(self.gap_count));
        Shape::Filling { input, first: output.min(1.0), more }
    }
}

/// Returns `dividend / divisor`; 0 if the divisor is zero.
fn ratio(dividend: f64, divisor: f64) -> f64 {
    if divisor > 0.0 { dividend / divisor } else { 0.0 }
}
