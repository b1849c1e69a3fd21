//! Limits on generated data. A typing error is reported immediately, and not when the memory is
//! full.

use base::setting::InvalidSetting;

use super::NormalDistribution;
use super::lengths::MAX_TOKENS;

/// Maximum number of texts, and of files, of a generated dataset.
const MAX_TEXTS: f64 = 1e7;
/// Maximum number of tokens of all its texts; each takes one or two microseconds to generate.
const MAX_TOTAL_TOKENS: f64 = 1e9;

/// Expected size of what is about to be generated.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Size {
    texts: f64,
    tokens: f64,
}

impl Size {
    /// Adds `count` texts of `tokens` tokens each.
    pub(super) fn with(self, count: f64, tokens: NormalDistribution) -> Self {
        Self { texts: self.texts + count, tokens: self.tokens + count * likely(tokens) }
    }

    /// Rejects a size that is too large; `flags` are the flags that determine it.
    pub(super) fn check(self, flag: &'static str, flags: &str) -> Result<(), InvalidSetting> {
        if self.texts <= MAX_TEXTS && self.tokens <= MAX_TOTAL_TOKENS {
            return Ok(());
        }
        let reason = format!(
            "about {:.1e} texts with {:.1e} tokens in total would be generated, but the maximum is \
             {MAX_TEXTS:.0e} texts and {MAX_TOTAL_TOKENS:.0e} tokens; reduce {flags}",
            self.texts, self.tokens
        );
        Err(InvalidSetting::new(flag, reason))
    }
}

/// Rejects too many generated files; `flag` sets the number of files per request.
pub(super) fn check_files(flag: &'static str, count: f64) -> Result<(), InvalidSetting> {
    if count <= MAX_TEXTS {
        return Ok(());
    }
    let reason = format!(
        "about {count:.1e} files would be generated, but the maximum is {MAX_TEXTS:.0e}; reduce \
         it or --num-dataset-entries"
    );
    Err(InvalidSetting::new(flag, reason))
}

/// Returns a high estimate of a draw from `spread`: the mean plus the standard deviation.
pub(super) fn likely(spread: NormalDistribution) -> f64 {
    (spread.mean + spread.stddev).clamp(1.0, f64::from(MAX_TOKENS))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_are_bounded_in_texts_and_in_tokens() {
        let check = |count, mean| {
            let size = Size::default().with(count, NormalDistribution::exactly(mean));
            size.check("--isl", "--isl").map_err(|error| error.to_string())
        };
        assert_eq!(check(1e6, 1000.0), Ok(()));
        assert_eq!(check(1e7, 100.0), Ok(()));
        assert!(check(1.001e7, 1.0).unwrap_err().contains("1.0e7 texts"));
        assert!(check(101.0, 1e7).unwrap_err().contains("with 1.0e9 tokens"));
        let wide = NormalDistribution { mean: 1.0, stddev: f64::MAX };
        assert!(Size::default().with(1000.0, wide).check("--isl", "").is_err());
        assert!(Size::default().with(f64::INFINITY, wide).check("--isl", "").is_err());
    }
}
