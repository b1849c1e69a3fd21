//! A value that is known within an interval.

use serde::Serialize;

/// A value with the ends of its interval, which need not be equally far from it.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, schemars::JsonSchema)]
pub struct Bounded {
    pub value: f64,
    #[serde(rename = "ci_low")]
    pub low: f64,
    #[serde(rename = "ci_high")]
    pub high: f64,
}

impl From<&Estimate> for Bounded {
    fn from(estimate: &Estimate) -> Self {
        let [low, high] = estimate.interval();
        Self { value: estimate.value, low, high }
    }
}

/// A value with the half-width of its confidence interval.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Estimate {
    pub value: f64,
    pub half_width: f64,
}

impl Estimate {
    /// Returns the ends of the interval, for a value that cannot be negative.
    #[must_use]
    pub const fn interval(&self) -> [f64; 2] {
        [(self.value - self.half_width).max(0.0), self.value + self.half_width]
    }

    /// Returns whether it is below `other` and their intervals do not overlap.
    ///
    /// For intervals of equal width at 95%, chance alone has this result in 3 of 1000 cases. Of
    /// several comparisons, few are thus wrong.
    #[must_use]
    pub fn is_below(&self, other: &Self) -> bool {
        other.value - self.value > self.half_width + other.half_width
    }

    /// Returns this value, known as exactly, multiplied by `factor`, which is not negative.
    #[must_use]
    pub fn times(&self, factor: f64) -> Self {
        Self { value: self.value * factor, half_width: self.half_width * factor }
    }
}
