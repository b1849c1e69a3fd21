//! The cost of a computed token of a prompt: the slope of the time to first token over the computed tokens.

use base::statistics::student_t;

/// Minimum number of requests for a slope.
const MIN_REQUESTS: u64 = 30;

/// Confidence level of the interval.
const LEVEL: f64 = 0.95;

/// The sums of a straight line by least squares, updated with the means so that nothing cancels out (B. P.
/// Welford, *Note on a method for calculating corrected sums of squares and products*, Technometrics 4,
/// 1962).
#[derive(Debug, Clone, Default, PartialEq)]
pub(super) struct Line {
    count: u64,
    mean_x: f64,
    mean_y: f64,
    xx: f64,
    xy: f64,
    yy: f64,
}

/// A slope with half the width of its 95% interval.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Slope {
    pub(super) value: f64,
    pub(super) half_width: f64,
}

impl Line {
    pub(super) fn add(&mut self, x: f64, y: f64) {
        self.count += 1;
        let count = self.count as f64;
        let (from_x, from_y) = (x - self.mean_x, y - self.mean_y);
        self.mean_x += from_x / count;
        self.mean_y += from_y / count;
        self.xx += from_x * (x - self.mean_x);
        self.xy += from_x * (y - self.mean_y);
        self.yy += from_y * (y - self.mean_y);
    }

    /// Returns the slope; `None` without enough requests, if all have the same x, or if it is not above 0.
    pub(super) fn slope(&self) -> Option<Slope> {
        if self.count < MIN_REQUESTS || self.xx <= 0.0 {
            return None;
        }
        let value = self.xy / self.xx;
        // A line takes two of the degrees of freedom.
        let degrees = (self.count - 2) as f64;
        let residual = (self.yy - value * self.xy).max(0.0) / degrees;
        let half_width = student_t::critical(LEVEL, degrees)? * (residual / self.xx).sqrt();
        (value > half_width).then_some(Slope { value, half_width })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// By hand: x is 0 to 29, so that Σ(x − x̄)² = 30 · (30² − 1) / 12 = 2247.5. The noise is +1 and −1 in
    /// turn: its product with x adds up to −15, and its squares to 30. The slope is 3 − 15 / 2247.5, and the
    /// squares of the residuals add up to 30 − 15² / 2247.5.
    #[test]
    fn a_slope_has_an_interval() {
        let mut line = Line::default();
        for x in 0..30 {
            assert_eq!(line.slope(), None);
            let noise = if x % 2 == 0 { 1.0 } else { -1.0 };
            line.add(f64::from(x), 3.0 * f64::from(x) + 10.0 + noise);
        }
        let slope = line.slope().unwrap();
        assert!((slope.value - (3.0 - 15.0 / 2247.5)).abs() < 1e-12, "{slope:?}");
        let residual = (30.0 - 225.0 / 2247.5) / 28.0;
        let error = (residual / 2247.5_f64).sqrt();
        // scipy.stats.t.ppf(0.975, 28)
        assert!((slope.half_width - 2.048_407_1 * error).abs() < 1e-7, "{slope:?}");
    }

    #[test]
    fn without_a_trend_there_is_none() {
        let (mut flat, mut same) = (Line::default(), Line::default());
        for x in 0..100 {
            let noise = if x % 2 == 0 { 1.0 } else { -1.0 };
            flat.add(f64::from(x), noise);
            same.add(5.0, f64::from(x));
        }
        assert_eq!((flat.slope(), same.slope()), (None, None));
    }
}
