//! The throughput of a run with its confidence interval.

use super::compare::MIN_REQUESTS;
use crate::metrics::Accumulator;
use crate::metrics::health::RateBounds;
use crate::statistics::Estimate;
use crate::statistics::interval::Measured;
use crate::statistics::rate::{Span, rate};
use crate::units::Nanos;

/// Returns the successful requests per second of a phase, with the interval that contains them
/// with probability `level`, widened by how far the client may have shifted them by its `bounds`;
/// without a level, none is wanted.
///
/// A count over a time is exact to one request only, so the interval is at least that wide.
///
/// # Errors
///
/// Returns the reason if there are too few requests.
pub(crate) fn throughput(
    phase: &Accumulator,
    level: Option<f64>,
    bounds: Option<RateBounds>,
) -> Result<Estimate, String> {
    let level = level.ok_or("it was not wanted")?;
    let spans = phase.spans();
    if spans.len() < MIN_REQUESTS {
        return Err(format!("{} requests, at least {MIN_REQUESTS} required", spans.len()));
    }
    let first = spans.first().map_or(0, |(start, ..)| *start);
    let seconds = |time: u64| Nanos(time.saturating_sub(first)).as_seconds();
    let span = |(start, end, succeeded): &(u64, u64, bool)| Span {
        start: seconds(*start),
        end: seconds(*end),
        weight: f64::from(u8::from(*succeeded)),
    };
    let by_start: Vec<Span> = spans.iter().map(span).collect();
    let mut by_end = by_start.clone();
    by_end.sort_unstable_by(|one, other| one.end.total_cmp(&other.end));
    let found = rate(|| by_start.iter().copied(), || by_end.iter().copied())
        .ok_or("its requests ended at the same time")?;
    let value = found.weight / found.seconds;
    let measured =
        Measured::of_sum(value, found.seconds, found.exactness, found.batch, spans.len());
    let [below, above] = bounds.unwrap_or_default().errors(value);
    let half_width = measured
        .half_width(level)
        .map(|half| half.hypot(value / spans.len() as f64) + below.max(above))
        .ok_or("its interval is not known")?;
    Ok(Estimate { value, half_width })
}
