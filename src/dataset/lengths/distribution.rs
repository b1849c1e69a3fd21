//! The distribution of one length, and how it is written on the command line.
//!
//! Each distribution is a function of a standard normal variable that never falls, its quantile
//! function at that variable's probability. Two lengths are therefore correlated if their normal
//! variables are.

use std::sync::Arc;

use rand::{Rng, RngExt};
use rand_distr::StandardNormal;
use serde::Serialize;

use base::setting::InvalidSetting;
use base::statistics::normal;

use super::MAX_TOKENS;
use crate::NormalDistribution;

/// The forms that [`Length::parse`] accepts, for errors.
const FORMS: &str = "a number, normal:mean=M,stddev=S, lognormal:mean=M,sigma=S (or median=), \
                     uniform:min=A,max=B, exponential:mean=M, or several of them with percentages, \
                     such as \"lognormal:mean=200,sigma=1:70;4000:30\"";

/// A distribution of lengths, in tokens. Drawn lengths are rounded, and at least one.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(untagged)]
pub enum Length {
    /// A normal distribution.
    Normal(NormalDistribution),
    /// A log-normal distribution, which is skewed to the right.
    LogNormal {
        /// Mean of the lengths.
        mean: f64,
        /// Median of the lengths, at most the mean.
        median: f64,
    },
    /// A uniform distribution.
    Uniform {
        /// Shortest length.
        min: f64,
        /// Longest length.
        max: f64,
    },
    /// An exponential distribution.
    Exponential {
        /// Mean of the lengths.
        scale: f64,
    },
    /// One of several distributions, each with its share.
    Mixture {
        /// The distributions; their shares sum to 1.
        components: Arc<[Component]>,
    },
}

/// A part of a mixture.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Component {
    length: Length,
    /// Share of the lengths, in (0, 1].
    share: f64,
}

impl Length {
    /// Creates a distribution that always returns `tokens`.
    #[must_use]
    pub const fn exactly(tokens: f64) -> Self {
        Self::Normal(NormalDistribution::exactly(tokens))
    }

    /// Parses the value of `--isl` or `--osl`: a distribution, or several separated by `;`, each
    /// with its percentage after `:`. Percentages sum to 100, or fractions to 1.
    ///
    /// # Errors
    ///
    /// Fails with what is expected if `text` is not a distribution.
    pub fn parse(text: &str) -> Result<Self, String> {
        Self::read(text).map_err(|reason| format!("{reason}; expected {FORMS}"))
    }

    fn read(text: &str) -> Result<Self, String> {
        let entries: Vec<&str> =
            text.split(';').map(str::trim).filter(|entry| !entry.is_empty()).collect();
        let [only] = entries.as_slice() else {
            let component = |entry: &&str| {
                let malformed = || format!("{entry:?} is not of the form length:percent");
                let (length, share) = entry.rsplit_once(':').ok_or_else(malformed)?;
                Ok(Component { length: read(length)?, share: share_of(share, entry)? })
            };
            let mut components: Vec<Component> =
                entries.iter().map(component).collect::<Result<_, String>>()?;
            normalize(components.iter_mut().map(|component| &mut component.share))?;
            return Ok(Self::Mixture { components: components.into() });
        };
        read(only)
    }

    /// Returns the normal distribution that this is; `None` if it is another one.
    #[must_use]
    pub const fn normal(&self) -> Option<NormalDistribution> {
        if let Self::Normal(normal) = self { Some(*normal) } else { None }
    }

    /// Returns the mean and the standard deviation.
    #[must_use]
    pub fn spread(&self) -> NormalDistribution {
        match self {
            Self::Normal(spread) => *spread,
            // exp(σ²) is (mean/median)², and the variance is (exp(σ²) − 1)·mean².
            Self::LogNormal { mean, median } => NormalDistribution {
                mean: *mean,
                stddev: mean * ((mean / median).powi(2) - 1.0).max(0.0).sqrt(),
            },
            Self::Uniform { min, max } => {
                NormalDistribution { mean: min.midpoint(*max), stddev: (max - min) / 12f64.sqrt() }
            }
            Self::Exponential { scale } => NormalDistribution { mean: *scale, stddev: *scale },
            Self::Mixture { components } => {
                let each = components.iter().map(|part| (part.share, part.length.spread()));
                let mean: f64 = each.clone().map(|(share, part)| share * part.mean).sum();
                // The variances within the parts, and those of their means.
                let variance: f64 = each
                    .map(|(share, part)| share * (part.stddev.powi(2) + (part.mean - mean).powi(2)))
                    .sum();
                NormalDistribution { mean, stddev: variance.sqrt() }
            }
        }
    }

    /// Rejects a distribution with a mean below one; `flag` is the flag of the setting.
    pub fn check(&self, flag: &'static str) -> Result<(), InvalidSetting> {
        self.spread().check(flag, 1.0)
    }

    /// Returns the length that is not exceeded with the probability with which a standard normal
    /// variable does not exceed `z`. It never falls as `z` grows.
    #[must_use]
    pub(super) fn at(&self, z: f64) -> f64 {
        match self {
            Self::Normal(NormalDistribution { mean, stddev }) => mean + stddev * z,
            Self::LogNormal { mean, median } => (median.ln() + sigma(*mean, *median) * z).exp(),
            Self::Uniform { min, max } => min + (max - min) * normal::probability(z),
            // The probability of a greater value, which stays precise where it is small.
            Self::Exponential { scale } => -scale * normal::probability(-z).ln(),
            Self::Mixture { components } => {
                // At the least of the parts' quantiles no part exceeds the probability, and at the
                // greatest each part reaches it.
                let each = components.iter().map(|part| part.length.at(z));
                let mut low = each.clone().fold(f64::INFINITY, f64::min);
                let mut high = each.fold(f64::NEG_INFINITY, f64::max);
                let wanted = normal::probability(z);
                for _ in 0..64 {
                    let middle = low.midpoint(high);
                    if self.probability(middle) < wanted { low = middle } else { high = middle }
                }
                high
            }
        }
    }

    /// Returns the probability of a length of at most `tokens`, before rounding.
    fn probability(&self, tokens: f64) -> f64 {
        match self {
            Self::Normal(NormalDistribution { mean, stddev }) if *stddev > 0.0 => {
                normal::probability((tokens - mean) / stddev)
            }
            Self::LogNormal { mean, median } if mean > median => {
                let from_median = tokens.max(0.0).ln() - median.ln();
                normal::probability(from_median / sigma(*mean, *median))
            }
            // The others do not vary.
            Self::Normal(NormalDistribution { mean, .. }) | Self::LogNormal { mean, .. } => {
                f64::from(tokens >= *mean)
            }
            Self::Uniform { min, max } if max > min => {
                ((tokens - min) / (max - min)).clamp(0.0, 1.0)
            }
            Self::Uniform { min, .. } => f64::from(tokens >= *min),
            Self::Exponential { scale } => -(-tokens.max(0.0) / scale).exp_m1(),
            Self::Mixture { components } => {
                components.iter().map(|part| part.share * part.length.probability(tokens)).sum()
            }
        }
    }

    /// Draws an integer of at least one.
    pub(crate) fn draw_count(&self, rng: &mut impl Rng) -> u32 {
        let is_constant = self.normal().is_some_and(|normal| normal.stddev == 0.0);
        self.count_at(if is_constant { 0.0 } else { rng.sample(StandardNormal) })
    }

    /// Returns the integer of at least one at `z`, as [`Self::at`].
    pub(super) fn count_at(&self, z: f64) -> u32 {
        self.at(z).round().clamp(1.0, f64::from(MAX_TOKENS)) as u32
    }
}

/// Returns the standard deviation of the logarithms of a log-normal distribution.
fn sigma(mean: f64, median: f64) -> f64 {
    (2.0 * (mean / median).ln()).max(0.0).sqrt()
}

/// Parses one distribution: `mean`, `mean|stddev`, `mean~median`, or `name:key=value,…`.
pub(super) fn read(text: &str) -> Result<Length, String> {
    let text = text.trim();
    let length = if let Some((name, parameters)) = text.split_once(':') {
        named(name.trim(), parameters, text)?
    } else if let Some((mean, median)) = text.split_once('~') {
        log_normal(number(mean)?, number(median)?, text)?
    } else {
        let (mean, stddev) = text.split_once('|').unwrap_or((text, "0"));
        Length::Normal(NormalDistribution { mean: number(mean)?, stddev: number(stddev)? })
    };
    let mean = length.spread().mean;
    if (1.0..=f64::from(MAX_TOKENS)).contains(&mean) {
        Ok(length)
    } else {
        Err(format!("a length must be between 1 and {MAX_TOKENS}, got {text:?}"))
    }
}

/// Parses `parameters`, such as `mean=512,sigma=0.8`, of the distribution `name`.
fn named(name: &str, parameters: &str, text: &str) -> Result<Length, String> {
    let parameter = |item: &str| {
        let malformed = || format!("{:?} in {text:?} is not of the form key=value", item.trim());
        let (key, value) = item.split_once('=').ok_or_else(malformed)?;
        Ok((key.trim().to_owned(), number(value)?))
    };
    let mut given: Vec<(String, f64)> =
        parameters.split(',').map(parameter).collect::<Result<_, String>>()?;
    // Parameters that are given twice stay in the list, and are rejected with the unknown ones.
    let mut take = |key: &str| {
        let at = given.iter().position(|(given, _)| given == key)?;
        Some(given.remove(at).1)
    };
    let missing = |key: &str| format!("{text:?} does not have {key}");
    let length = match name {
        "normal" => Length::Normal(NormalDistribution {
            mean: take("mean").ok_or_else(|| missing("mean"))?,
            stddev: take("stddev").ok_or_else(|| missing("stddev"))?,
        }),
        "lognormal" => match (take("mean"), take("median"), take("sigma")) {
            (Some(mean), Some(median), None) => log_normal(mean, median, text)?,
            // The mean is exp(σ²/2) times the median.
            (Some(mean), None, Some(sigma)) => {
                log_normal(mean, mean / (sigma * sigma / 2.0).exp(), text)?
            }
            (None, Some(median), Some(sigma)) => {
                log_normal(median * (sigma * sigma / 2.0).exp(), median, text)?
            }
            _ => return Err(missing("exactly two of mean, median and sigma")),
        },
        "uniform" => {
            let min = take("min").ok_or_else(|| missing("min"))?;
            let max = take("max").ok_or_else(|| missing("max"))?;
            if min > max {
                return Err(format!("the min of {text:?} must not exceed its max"));
            }
            Length::Uniform { min, max }
        }
        "exponential" => {
            Length::Exponential { scale: take("mean").ok_or_else(|| missing("mean"))? }
        }
        _ => return Err(format!("{name:?} is not a known distribution")),
    };
    match given.first() {
        Some((key, _)) => Err(format!("{key:?} in {text:?} is unknown or given twice")),
        None => Ok(length),
    }
}

fn log_normal(mean: f64, median: f64, text: &str) -> Result<Length, String> {
    if median > 0.0 && median <= mean {
        Ok(Length::LogNormal { mean, median })
    } else {
        Err(format!("the median of {text:?} must be above 0 and at most the mean"))
    }
}

/// Parses the percentage or fraction of `entry`.
pub(super) fn share_of(text: &str, entry: &str) -> Result<f64, String> {
    match number(text)? {
        share if share > 0.0 => Ok(share),
        _ => Err(format!("the probability of {entry:?} must be above 0")),
    }
}

/// Scales percentages that sum to 100, or fractions that sum to 1, so that they sum to 1.
pub(super) fn normalize<'a>(shares: impl Iterator<Item = &'a mut f64>) -> Result<(), String> {
    let shares: Vec<&mut f64> = shares.collect();
    if shares.is_empty() {
        return Err("lengths are missing".to_owned());
    }
    let total: f64 = shares.iter().map(|share| **share).sum();
    let whole = [1.0, 100.0].into_iter().find(|whole| (total - whole).abs() < 1e-6 * whole);
    let Some(whole) = whole else {
        return Err(format!("the probabilities must add up to 100 (or 1), got {total}"));
    };
    for share in shares {
        *share /= whole;
    }
    Ok(())
}

/// Parses a finite number that is not negative.
fn number(text: &str) -> Result<f64, String> {
    match text.trim().replace('_', "").parse::<f64>() {
        Ok(number) if number.is_finite() && number >= 0.0 => Ok(number),
        _ => Err(format!("expected a number of at least 0, got {:?}", text.trim())),
    }
}

#[cfg(test)]
mod tests;
