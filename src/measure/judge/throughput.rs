//! The throughput of a run with its confidence interval.

use base::statistics::Estimate;
use base::statistics::interval::Measured;

use super::compare::MIN_REQUESTS;
use crate::metrics::health::RateBounds;
use crate::metrics::{Accumulator, tag};

/// Returns the successful requests per second of a phase in the long run, with the interval that contains them
/// with probability `level`, widened by how far the client may have shifted them by its `bounds`.
///
/// That of a closed loop follows from its latencies: of a hundred requests, those in flight at the end would
/// make it several percent too low.
///
/// A count over a time is exact to one request only, so the interval is at least that wide.
///
/// # Errors
///
/// Returns the reason if there are too few requests.
pub fn throughput(
    phase: &Accumulator,
    level: f64,
    bounds: Option<RateBounds>,
    is_closed: bool,
) -> Result<Estimate, String> {
    let count = phase.request_count();
    if count < MIN_REQUESTS {
        return Err(format!("there were {count} requests; at least {MIN_REQUESTS} are required"));
    }
    let found = phase.rate_of(tag::REQUEST_COUNT).ok_or("its requests ended at the same time")?;
    let of_latencies = is_closed.then(|| phase.closed_rate()).flatten();
    let value = of_latencies.unwrap_or(found.weight / found.seconds);
    let measured = Measured::of_sum(value, found.seconds, found.exactness, found.batch, count);
    let [below, above] = bounds.unwrap_or_default().errors(value);
    let half_width = measured
        .half_width(level)
        .map(|half| half.hypot(value / count as f64) + below.max(above))
        .ok_or("its interval is not known")?;
    Ok(Estimate { value, half_width })
}
