//! One request as a row of levels.

use std::num::NonZero;

use super::{Curve, Gaps, Request};

/// Nanoseconds of a second.
const SECOND: f64 = 1e9;

/// What one request adds to a curve: a level at a time, each until the next.
#[derive(Debug)]
pub(super) struct Levels<'a> {
    /// When it begins to add.
    pub(super) from: u64,
    request: &'a Request,
    gaps: Gaps<'a>,
    shape: Shape,
    end: u64,
    /// Levels that it has had.
    step: u32,
    level: f64,
    until: u64,
}

/// How the levels follow each other.
#[derive(Debug, Clone, Copy)]
enum Shape {
    /// One level.
    Even(f64),
    /// One up to the first content, one from there on.
    Halves(f64, f64),
    /// In each gap that is not empty so many tokens; nothing after the last.
    Pieces(f64),
    /// The input; with the first piece of content so many more, with each further
    /// one so many.
    Filling { input: f64, first: f64, more: f64 },
}

impl<'a> Levels<'a> {
    /// What `request` adds to `curve`; `None` where the curve does not follow it.
    pub(super) fn of(curve: Curve, request: &'a Request, gaps: Gaps<'a>) -> Option<Self> {
        let first = request.first_content();
        let end = request.end();
        let (from, shape, end) = match curve {
            Curve::Concurrency => (request.start, Shape::Even(1.0), end),
            Curve::PrefillConcurrency => (request.start, Shape::Even(1.0), first?),
            Curve::DecodeConcurrency => (first?, Shape::Even(1.0), end),
            Curve::PrefillThroughput | Curve::PrefillThroughputPerUser => {
                (request.start, Shape::Even(request.prefill_rate()), first?)
            }
            Curve::DecodeThroughput | Curve::DecodeThroughputPerUser => {
                (first?, Shape::Pieces(request.tokens_a_piece(gaps)), end)
            }
            Curve::TotalThroughput => {
                (request.start, Shape::Halves(request.prefill_rate(), request.decode_rate()), end)
            }
            Curve::TokensInFlight => {
                first?;
                (request.start, request.filling(), end)
            }
        };
        Some(Self { from, request, gaps, shape, end, step: 0, level: 0.0, until: from })
    }

    /// Whether it adds anything at any time.
    pub(super) fn says_something(&self) -> bool {
        match self.shape {
            Shape::Even(level) | Shape::Pieces(level) => level > 0.0,
            Shape::Halves(before, after) => before + after > 0.0,
            Shape::Filling { input, first, .. } => input + first > 0.0,
        }
    }

    /// Most levels that it has.
    pub(super) const fn most(&self) -> usize {
        match self.shape {
            Shape::Even(_) => 1,
            Shape::Halves(..) => 2,
            Shape::Pieces(_) | Shape::Filling { .. } => self.request.gap_count as usize + 2,
        }
    }

    /// The present level.
    pub(super) const fn level(&self) -> f64 {
        self.level
    }

    /// Goes to the next level; gives its end, or `None` after the last.
    pub(super) fn advance(&mut self) -> Option<u64> {
        let (level, until) = self.next()?;
        self.step += 1;
        self.level = level;
        self.until = until.max(self.until);
        Some(self.until)
    }

    /// The next level and its end.
    fn next(&self) -> Option<(f64, u64)> {
        let Self { step, until, end, .. } = *self;
        let first_content = self.request.first_content();
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
                None => (step == self.request.gap_count).then_some((0.0, end)),
            },
            Shape::Filling { input, first, more } => {
                let Some(piece) = step.checked_sub(1) else {
                    return Some((input, first_content?));
                };
                let level = input + first + more * f64::from(piece);
                match self.gap(piece) {
                    Some(gap) => Some((level, until.saturating_add(gap))),
                    None => (piece == self.request.gap_count).then_some((level, end)),
                }
            }
        }
    }

    fn gap(&self, at: u32) -> Option<u64> {
        let request = self.request;
        (at < request.gap_count).then(|| self.gaps.nanos(request.gaps_from + at as usize))
    }
}

impl Request {
    fn first_content(&self) -> Option<u64> {
        self.first_content.map(NonZero::get)
    }

    /// Its end, which is not before its content.
    pub(super) fn end(&self) -> u64 {
        self.end.max(self.first_content().unwrap_or(0))
    }

    /// Input tokens per second up to the first content.
    fn prefill_rate(&self) -> f64 {
        let nanos = self.first_content().map_or(0, |first| first.saturating_sub(self.start));
        ratio(f64::from(self.input_tokens.unwrap_or(0)) * SECOND, nanos as f64)
    }

    /// Output tokens after the first.
    fn later_tokens(&self) -> f64 {
        f64::from(self.output_tokens.unwrap_or(0).saturating_sub(1))
    }

    /// Output tokens per second from the first content to the end.
    fn decode_rate(&self) -> f64 {
        let nanos = self.first_content().map_or(0, |first| self.end() - first);
        ratio(self.later_tokens() * SECOND, nanos as f64)
    }

    /// Output tokens of each gap that is not empty.
    fn tokens_a_piece(&self, gaps: Gaps<'_>) -> f64 {
        let all = self.gaps_from..self.gaps_from + self.gap_count as usize;
        let pieces = all.filter(|at| gaps.nanos(*at) > 0).count();
        ratio(self.later_tokens(), pieces as f64)
    }

    fn filling(&self) -> Shape {
        let output = f64::from(self.output_tokens.unwrap_or(0));
        let input = f64::from(self.input_tokens.unwrap_or(0));
        if self.gap_count == 0 {
            return Shape::Filling { input, first: output, more: 0.0 };
        }
        let more = ratio(self.later_tokens(), f64::from(self.gap_count));
        Shape::Filling { input, first: output.min(1.0), more }
    }
}

/// `dividend / divisor`; 0 where the divisor is zero.
fn ratio(dividend: f64, divisor: f64) -> f64 {
    if divisor > 0.0 { dividend / divisor } else { 0.0 }
}
