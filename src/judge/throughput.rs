//! The throughput of a run with its confidence interval.

use crate::metrics::Accumulator;
use crate::metrics::health::RateBounds;
use crate::statistics::Estimate;
use crate::statistics::bootstrap::{MIN_BLOCKS, MIN_REQUESTS, RESAMPLES, Sample, Terms};
use crate::statistics::percentile::percentile;
use crate::units::Nanos;

/// Returns the successful requests per second of a phase, with the interval that contains them
/// with probability `level`, widened by how far the client may have shifted them by its `bounds`;
/// without a level, none is wanted.
///
/// Blocks of requests are drawn in the order in which they ended, each with the time since the one
/// before. A count over a time is exact to one request only, so the interval is at least that wide.
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
    let (start, ends) = phase.completions();
    if ends.len() < MIN_REQUESTS {
        return Err(format!("{} requests, at least {MIN_REQUESTS} required", ends.len()));
    }
    let before = std::iter::once(start).chain(ends.iter().map(|(end, _)| *end));
    let under = ends.iter().zip(before).map(|((end, _), last)| Nanos(end - last).as_seconds());
    let over = ends.iter().map(|(_, succeeded)| f64::from(u8::from(*succeeded)));
    let mut terms = Terms::default();
    terms.extend(over.zip(under));
    let sample = Sample::Ratio(terms);
    let value = sample.value().ok_or("its requests ended at the same time")?;
    let length = sample.block_length().min(ends.len() / MIN_BLOCKS);
    let mut resampled = sample.bootstrap(length, RESAMPLES, 0);
    resampled.sort_unstable_by(f64::total_cmp);
    let tail = 50.0 * (1.0 - level);
    let ends_of = percentile(&resampled, tail).zip(percentile(&resampled, 100.0 - tail));
    let (low, high) = ends_of.ok_or("its interval is not known")?;
    let [below, above] = bounds.unwrap_or_default().errors(value);
    let half_width = ((high - low) / 2.0).hypot(value / ends.len() as f64) + below.max(above);
    if !half_width.is_finite() {
        return Err("its interval is not known".to_owned());
    }
    Ok(Estimate { value, half_width })
}
