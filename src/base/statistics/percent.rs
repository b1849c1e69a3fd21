//! Percentages by which percentiles are named, and values of percentiles that users ask for.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Deserializer, Serialize, Serializer, de};
use thiserror::Error;

use super::{Distribution, order};

/// A percentage above 0 and below 100, with at most four decimals, as in `p99.9`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct Percent(u32);

/// The reason why a text is not a [`Percent`].
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[error(
    "{0:?} is not a percentile; write a number above 0 and below 100 with at most 4 decimals, such as 99.9"
)]
pub struct NotAPercent(String);

impl Percent {
    /// Parts of a percent that are told apart.
    const PARTS: u32 = 10_000;

    /// Creates a whole percentage.
    #[must_use]
    pub const fn whole(percent: u8) -> Self {
        Self(percent as u32 * Self::PARTS)
    }

    /// Returns the percentage, from 0 to 100.
    #[must_use]
    pub fn value(self) -> f64 {
        f64::from(self.0) / f64::from(Self::PARTS)
    }

    /// Returns the share, from 0 to 1, that is not above the percentile.
    #[must_use]
    pub fn share(self) -> f64 {
        f64::from(self.0) / f64::from(100 * Self::PARTS)
    }

    /// Returns the share, from 0 to 1, that is above the percentile.
    #[must_use]
    pub fn share_above(self) -> f64 {
        f64::from(100 * Self::PARTS - self.0) / f64::from(100 * Self::PARTS)
    }

    /// Returns the smallest number of values of which a 95% interval of the percentile exists; with fewer,
    /// the percentile is hardly more than an extreme. This is the one rule for how many requests a
    /// percentile needs: for gates, tables, comparisons, the screen and files.
    #[must_use]
    pub fn values_needed(self) -> u64 {
        order::needed(self.share())
    }

    /// Returns what `values` lack for the percentile; `None` if they are enough.
    #[must_use]
    pub fn too_few(self, values: u64) -> Option<TooFew> {
        (values < self.values_needed()).then_some(TooFew { percent: self, values })
    }
}

/// The error of a percentile of too few values.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TooFew {
    percent: Percent,
    values: u64,
}

impl TooFew {
    /// Usual percentiles above the median, the outermost first.
    const USUAL: [u8; 5] = [99, 95, 90, 75, 50];

    /// Returns the outermost of the usual percentiles on the same side of the median for which the values
    /// are enough; `None` if they are not enough for the median.
    #[must_use]
    pub fn instead(self) -> Option<Percent> {
        let is_upper = self.percent >= Percent::whole(50);
        let usual = Self::USUAL.map(|one| Percent::whole(if is_upper { one } else { 100 - one }));
        usual.into_iter().find(|one| one.values_needed() <= self.values)
    }
}

/// Formats it as in `p99 of 50 requests: at least 368 needed`.
impl fmt::Display for TooFew {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { percent, values } = self;
        let noun = if *values == 1 { "request" } else { "requests" };
        write!(f, "p{percent} of {values} {noun}: at least {} needed", percent.values_needed())
    }
}

impl fmt::Display for Percent {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (whole, parts) = (self.0 / Self::PARTS, self.0 % Self::PARTS);
        if parts == 0 {
            return write!(f, "{whole}");
        }
        let decimals = format!("{parts:04}");
        write!(f, "{whole}.{}", decimals.trim_end_matches('0'))
    }
}

impl FromStr for Percent {
    type Err = NotAPercent;

    fn from_str(text: &str) -> Result<Self, NotAPercent> {
        let invalid = || NotAPercent(text.to_owned());
        let (whole, decimals) = text.split_once('.').unwrap_or((text, "0"));
        let is_number = |digits: &str, most: usize| {
            (1..=most).contains(&digits.len()) && digits.bytes().all(|byte| byte.is_ascii_digit())
        };
        if !is_number(whole, 2) || !is_number(decimals, 4) {
            return Err(invalid());
        }
        let parts = format!("{whole}{decimals:0<4}").parse().map_err(|_| invalid())?;
        Some(Self(parts)).filter(|percent| percent.0 > 0).ok_or_else(invalid)
    }
}

impl Serialize for Percent {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_f64(self.value())
    }
}

impl<'de> Deserialize<'de> for Percent {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        f64::deserialize(deserializer)?.to_string().parse().map_err(de::Error::custom)
    }
}

/// Returns those of `percents` that not every [`Distribution`] has.
pub fn further(percents: &[Percent]) -> impl Iterator<Item = Percent> {
    let is_common = |percent: Percent| Distribution::PERCENTS.contains(&percent.value());
    percents.iter().copied().filter(move |percent| !is_common(*percent))
}

/// Values of percentiles, in ascending order of their percentages; at most [`MOST`](Self::MOST).
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Percentiles {
    /// A percentage of 0 stands for none.
    values: [(Percent, f64); Self::MOST],
}

impl Percentiles {
    /// The most percentiles.
    pub const MOST: usize = 8;

    /// No percentiles.
    pub const NONE: Self = Self { values: [(Percent(0), 0.0); Self::MOST] };

    /// Returns the values that `at` returns for the first [`MOST`](Self::MOST) of `percents` that a
    /// [`Distribution`] does not have anyway.
    pub fn compute(percents: &[Percent], at: impl Fn(f64) -> f64) -> Self {
        let mut found = Self::NONE;
        for (slot, percent) in found.values.iter_mut().zip(further(percents)) {
            *slot = (percent, at(percent.value()));
        }
        found
    }

    /// Iterates over the percentages with their values.
    pub fn iter(&self) -> impl Iterator<Item = (Percent, f64)> + use<> {
        self.values.into_iter().filter(|(percent, _)| percent.0 > 0)
    }
}

impl Default for Percentiles {
    fn default() -> Self {
        Self::NONE
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn percentages_are_read_and_written() {
        for (text, value, shown) in [
            ("99.9", 99.9, "99.9"),
            ("99.99", 99.99, "99.99"),
            ("99.9990", 99.999, "99.999"),
            ("50", 50.0, "50"),
            ("0.5", 0.5, "0.5"),
            ("05.0", 5.0, "5"),
        ] {
            let percent: Percent = text.parse().unwrap();
            assert_eq!((percent.value(), percent.to_string()), (value, shown.to_owned()));
            let again: Percent = serde_json::from_value(serde_json::json!(percent)).unwrap();
            assert_eq!(again, percent);
        }
        for text in ["", "0", "100", "99.", ".5", "99.99999", "-1", "1e1", "p99", "nan", "+5"] {
            assert!(text.parse::<Percent>().is_err(), "{text}");
        }
    }

    #[test]
    fn the_share_above_is_exact() {
        // 1 - 0.999 is 0.0010000000000000009.
        let percent: Percent = "99.9".parse().unwrap();
        assert_eq!((percent.share(), percent.share_above()), (0.999, 0.001));
        assert_eq!(Percent::whole(99).share_above(), 0.01);
    }

    #[test]
    fn tails_need_many_values() {
        // ln(0.025) / ln(share): 367.04, 3687.03, 36886.95 by hand.
        let needed = ["99", "99.9", "99.99"].map(|text| text.parse::<Percent>().unwrap());
        assert_eq!(needed.map(Percent::values_needed), [368, 3688, 36_887]);
    }

    #[test]
    fn too_few_values_are_enough_for_another_percentile() {
        // By hand: 0.9^n <= 0.025 from n = 36 on, 0.95^n from 72 on, 0.99^n from 368 on, 0.5^n from 6 on.
        let p99 = Percent::whole(99);
        let few = p99.too_few(50).unwrap();
        assert_eq!(few.to_string(), "p99 of 50 requests: at least 368 needed");
        assert_eq!(few.instead(), Some(Percent::whole(90)));
        let instead = |percent: u8, values| Percent::whole(percent).too_few(values)?.instead();
        assert_eq!(instead(99, 367), Some(Percent::whole(95)));
        assert_eq!(instead(1, 50), Some(Percent::whole(10)));
        assert_eq!((instead(99, 5), instead(99, 6)), (None, Some(Percent::whole(50))));
        assert_eq!((p99.too_few(368), Percent::whole(50).too_few(6)), (None, None));
    }
}
