//! How much may be generated: a typing error is to be told at once, not when the
//! memory is full.

use super::lengths::MAX_TOKENS;
use super::{DatasetError, Spread};

/// Most texts, and most files, of a generated dataset.
const MOST_PIECES: f64 = 1e7;
/// Most tokens of all of its texts together: to make them takes a microsecond or two each.
const MOST_TOKENS: f64 = 1e9;

/// What is about to be generated, by the means of what is asked.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Size {
    texts: f64,
    tokens: f64,
}

impl Size {
    /// With `count` more texts of so many tokens.
    pub(super) fn with(self, count: f64, tokens: Spread) -> Self {
        Self { texts: self.texts + count, tokens: self.tokens + count * likely(tokens) }
    }

    /// Refuses what is too much; `flags` are those that say how much it is.
    pub(super) fn check(self, flag: &'static str, flags: &str) -> Result<(), DatasetError> {
        if self.texts <= MOST_PIECES && self.tokens <= MOST_TOKENS {
            return Ok(());
        }
        let reason = format!(
            "about {:.1e} texts of {:.1e} tokens in all would be generated, but {MOST_PIECES:.0e} \
             and {MOST_TOKENS:.0e} are the most: give less by {flags}",
            self.texts, self.tokens
        );
        Err(DatasetError::Setting { flag, reason })
    }
}

/// Refuses too many generated files; `flag` says how many a request bears.
pub(super) fn check_files(flag: &'static str, count: f64) -> Result<(), DatasetError> {
    if count <= MOST_PIECES {
        return Ok(());
    }
    let reason = format!(
        "about {count:.1e} files would be generated, but {MOST_PIECES:.0e} are the most: give \
         less, or a smaller --num-dataset-entries"
    );
    Err(DatasetError::Setting { flag, reason })
}

/// What a draw of `spread` comes to, rather too much than too little.
pub(super) fn likely(spread: Spread) -> f64 {
    (spread.mean + spread.stddev).clamp(1.0, f64::from(MAX_TOKENS))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_are_bounded_in_texts_and_in_tokens() {
        let check = |count, mean| {
            let size = Size::default().with(count, Spread::exactly(mean));
            size.check("--isl", "--isl").map_err(|error| error.to_string())
        };
        assert_eq!(check(1e6, 1000.0), Ok(()));
        assert_eq!(check(1e7, 100.0), Ok(()));
        assert!(check(1.001e7, 1.0).unwrap_err().contains("1.0e7 texts"));
        assert!(check(101.0, 1e7).unwrap_err().contains("of 1.0e9 tokens"));
        let wide = Spread { mean: 1.0, stddev: f64::MAX };
        assert!(Size::default().with(1000.0, wide).check("--isl", "").is_err());
        assert!(Size::default().with(f64::INFINITY, wide).check("--isl", "").is_err());
    }
}
