//! Random lengths: distributions, pairs of input and output length, recorded lengths, and ranges
//! around means.

mod correlation;
mod distribution;
mod pairs;
mod range;
mod recorded;

use rand::{Rng, RngExt};
use rand_distr::StandardNormal;

use base::setting::InvalidSetting;

use super::NormalDistribution;

pub(super) use correlation::Correlated;
pub use distribution::Length;
pub use pairs::SequenceDistribution;
pub(super) use range::Window;
pub use range::{RandomRange, RangeStyle};
pub use recorded::RecordedLengths;

/// Maximum length of a request in tokens; a greater one would be a typing error.
pub(super) const MAX_TOKENS: u32 = 10_000_000;

impl NormalDistribution {
    /// Creates a distribution that always returns `value`.
    #[must_use]
    pub const fn exactly(value: f64) -> Self {
        Self { mean: value, stddev: 0.0 }
    }

    /// Rejects a distribution with a mean below `least`, or from which no value can be drawn; `flag`
    /// is the flag of the setting.
    pub(super) fn check(self, flag: &'static str, least: f64) -> Result<(), InvalidSetting> {
        let why = if !(self.mean >= least && self.mean <= f64::from(MAX_TOKENS)) {
            format!("the mean must be between {least} and {MAX_TOKENS}, got {}", self.mean)
        } else if !(self.stddev >= 0.0 && self.stddev.is_finite()) {
            format!("the standard deviation must be at least 0, got {}", self.stddev)
        } else {
            return Ok(());
        };
        Err(InvalidSetting::new(flag, why))
    }

    /// Draws a value without clipping.
    pub(super) fn draw(self, rng: &mut impl Rng) -> f64 {
        if self.stddev > 0.0 {
            let normal: f64 = rng.sample(StandardNormal);
            self.mean + self.stddev * normal
        } else {
            self.mean
        }
    }

    /// Draws an integer of at least one.
    pub(super) fn draw_count(self, rng: &mut impl Rng) -> u32 {
        self.draw(rng).round().clamp(1.0, f64::from(MAX_TOKENS)) as u32
    }
}

/// The lengths of a use case.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LengthPreset {
    pub name: &'static str,
    pub input_tokens: u64,
    pub output_tokens: u64,
}

impl LengthPreset {
    /// The use cases and lengths that `GuideLLM`, the benchmark of the vLLM project, recommends.
    pub const ALL: [Self; 4] = [
        Self { name: "chat", input_tokens: 512, output_tokens: 256 },
        Self { name: "rag", input_tokens: 4096, output_tokens: 512 },
        Self { name: "summarize", input_tokens: 1024, output_tokens: 256 },
        Self { name: "code", input_tokens: 512, output_tokens: 512 },
    ];

    /// Returns the preset called `name`.
    pub fn named(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|preset| preset.name == name)
    }
}
