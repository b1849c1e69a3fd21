//! Whether a queue grows: a test of the requests that wait or are served.
//!
//! A queue that is offered exactly what its server can do is a reflected Brownian motion without drift,
//! whose variance per time is that of the arrivals plus that of the departures (Whitt,
//! "Stochastic-Process Limits", 2002, chapter 9). Every lower load is drawn back to 0, so that what
//! is unlikely at that load is less likely below it.

use super::{Estimate, normal, student_t};

/// Probability of a false alarm at exactly the load that the server can do.
const FALSE_ALARM: f64 = 0.01;

/// Probability with which an [`EXCESS`] is found in a run that is long enough, and is excluded in one
/// without it.
const POWER: f64 = 0.95;

/// The growth that matters, as a fraction of the offered rate: that of a load of 110%.
const EXCESS: f64 = 1.0 / 11.0;

/// The least growth that counts, as a fraction of the offered rate. When latencies of a server that is
/// not overloaded rise a little, so do the requests in flight.
const LEAST: f64 = 0.01;

/// The variance that whole numbers add to the counts of equally distant requests, by the differences of
/// neighbours: each bound of a batch shifts both by a part of a request, whose variance is 1/12. It
/// does not add up over the time as that of arrivals does.
const ROUNDING: f64 = 0.25;

/// Number of batches of equal length.
pub const BATCHES: usize = 32;

/// The arrivals and departures of a queue over a time.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Backlog {
    /// The time in seconds.
    pub seconds: f64,
    /// Requests that arrived in it.
    pub arrived: f64,
    /// Requests that left in it.
    pub left: f64,
    /// Standard deviation of the difference, if the server was busy all the time.
    deviation: f64,
}

impl Backlog {
    /// Computes it from the numbers of requests that arrived and left in [`BATCHES`] consecutive
    /// batches of `batch_seconds`; `None` if nothing arrived.
    pub fn fit(
        arrived: &[f64; BATCHES],
        left: &[f64; BATCHES],
        batch_seconds: f64,
    ) -> Option<Self> {
        let total = arrived.iter().sum::<f64>();
        let variance = BATCHES as f64 * (variance(arrived) + variance(left));
        (total > 0.0 && batch_seconds > 0.0).then(|| Self {
            seconds: batch_seconds * BATCHES as f64,
            arrived: total,
            left: left.iter().sum(),
            deviation: variance.sqrt(),
        })
    }

    /// Creates it for few requests: so many `arrived` in so many `seconds`, of whose distances and of those of
    /// whose ends the squared coefficients of variation add up to `variation`. By renewal theory, the variance
    /// of the number in a time is the number times that of the distances.
    pub fn of_few(arrived: f64, seconds: f64, variation: f64) -> Self {
        Self { seconds, arrived, left: arrived, deviation: (arrived * variation).sqrt() }
    }

    /// Returns how many requests more there were at the end.
    fn growth(&self) -> f64 {
        self.arrived - self.left
    }

    /// Returns how many requests a growth exceeds by chance with the probability of a false alarm.
    /// The numbers are exact to one request.
    fn noise(&self) -> f64 {
        critical() * self.deviation + 1.0
    }

    /// Returns the requests per second by which it grew, with the interval of 99%.
    pub fn slope(&self) -> Estimate {
        Estimate {
            value: self.growth() / self.seconds,
            half_width: critical() * self.deviation / self.seconds,
        }
    }

    /// Returns whether it grew more than chance explains.
    pub fn is_growing(&self) -> bool {
        self.growth() > self.noise().max(LEAST * self.arrived)
    }

    /// Returns whether it would have grown more, with the probability [`POWER`], if 110% of what the
    /// server can do had been offered.
    pub fn is_level(&self) -> bool {
        let shortfall = normal::quantile(POWER) * self.deviation + 1.0;
        !self.is_growing() && self.growth() + shortfall < EXCESS * self.arrived
    }

    /// Returns the seconds after which it can be told whether it grows: then an [`EXCESS`] is found
    /// with the probability [`POWER`].
    pub fn seconds_needed(&self) -> f64 {
        // excess · t = (critical + power) · deviation · √(t / seconds) + 1
        let excess = EXCESS * self.arrived / self.seconds;
        let noise = (critical() + normal::quantile(POWER)) * self.deviation / self.seconds.sqrt();
        ((noise + (noise * noise + 4.0 * excess).sqrt()) / (2.0 * excess)).powi(2)
    }
}

/// The standard deviations that a growth exceeds in either direction with the probability of a false
/// alarm: Student's, since the variance of differences of neighbours has two thirds of the degrees of
/// freedom of an ordinary one.
fn critical() -> f64 {
    student_t::critical(1.0 - FALSE_ALARM, BATCHES as f64 * 2.0 / 3.0).unwrap_or(f64::INFINITY)
}

/// Returns the variance of a batch by the differences of neighbours, which a trend hardly affects (von
/// Neumann, "Distribution of the ratio of the mean square successive difference to the variance", Annals
/// of Mathematical Statistics 12, 1941); of batches two or four times as long if it is higher, as it is
/// if neighbours depend on each other.
fn variance(counts: &[f64; BATCHES]) -> f64 {
    let variance_of_length = |length: usize| {
        let sums: Vec<f64> = counts.chunks(length).map(|some| some.iter().sum()).collect();
        by_differences(&sums) / length as f64
    };
    variance_of_length(1).max(variance_of_length(2)).max(variance_of_length(4))
}

/// Without [`ROUNDING`].
fn by_differences(values: &[f64]) -> f64 {
    let squares = values.windows(2).map(|pair| match pair {
        [one, other] => (other - one).powi(2),
        _ => 0.0,
    });
    (squares.sum::<f64>() / (2.0 * (values.len().max(2) - 1) as f64) - ROUNDING).max(0.0)
}

/// Returns the index of the value from which on `values` grow: of the best fit, by least squares, of a
/// constant that becomes a line. `None` if a constant is as good.
pub fn hinge(values: &[f64]) -> Option<usize> {
    let count = values.len() as f64;
    let mean = values.iter().sum::<f64>() / count;
    let fit = |from: usize| {
        let bend = |at: usize| at.saturating_sub(from) as f64;
        let center = (0..values.len()).map(bend).sum::<f64>() / count;
        let (mut square, mut product) = (0.0, 0.0);
        for (at, value) in values.iter().enumerate() {
            square += (bend(at) - center).powi(2);
            product += (bend(at) - center) * (value - mean);
        }
        // What the line explains of the sum of squares.
        if product > 0.0 { product * product / square } else { 0.0 }
    };
    let fits = (0..values.len().saturating_sub(1)).map(|from| (from, fit(from)));
    let best = fits.max_by(|(_, one), (_, other)| one.total_cmp(other))?;
    (best.1 > 0.0).then_some(best.0)
}
