//! Random lengths: normal distributions, and pairs of input and output length.

use rand::{Rng, RngExt};
use rand_distr::StandardNormal;
use serde::Serialize;

use super::NormalDistribution;
use crate::setting::InvalidSetting;

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

/// An input and an output length that belong together.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct SequencePair {
    /// Input tokens.
    pub input_tokens: NormalDistribution,
    /// Output tokens.
    pub output_tokens: NormalDistribution,
    /// Fraction of the requests, in (0, 1].
    pub probability: f64,
}

/// Pairs of input and output length, each with its fraction of the requests.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct SequenceDistribution {
    pairs: Vec<SequencePair>,
}

impl SequenceDistribution {
    /// Parses `--seq-dist`: `isl|stddev,osl|stddev:probability`, several separated by `;`. Standard
    /// deviations are optional. Probabilities are percentages that sum to 100 or fractions that sum
    /// to 1.
    pub fn parse(text: &str) -> Result<Self, String> {
        Self::read(text).map_err(|reason| {
            format!("{reason}; expected a distribution such as \"256|10,128|5:60;512,256:40\"")
        })
    }

    fn read(text: &str) -> Result<Self, String> {
        let entries = text.split(';').map(str::trim).filter(|entry| !entry.is_empty());
        let mut pairs = entries.map(read_pair).collect::<Result<Vec<_>, _>>()?;
        if pairs.is_empty() {
            return Err("lengths are missing".to_owned());
        }
        let total: f64 = pairs.iter().map(|pair| pair.probability).sum();
        let scale = [1.0, 100.0].into_iter().find(|whole| (total - whole).abs() < 1e-6 * whole);
        let Some(scale) = scale else {
            return Err(format!("the probabilities must add up to 100 (or 1), got {total}"));
        };
        for pair in &mut pairs {
            pair.probability /= scale;
        }
        Ok(Self { pairs })
    }

    /// Returns the pairs in the given order; their probabilities sum to 1.
    #[must_use]
    pub fn pairs(&self) -> &[SequencePair] {
        &self.pairs
    }

    /// Returns the average distribution of input lengths.
    pub(super) fn input_tokens(&self) -> NormalDistribution {
        let mean = |of: fn(&NormalDistribution) -> f64| {
            self.pairs.iter().map(|pair| pair.probability * of(&pair.input_tokens)).sum()
        };
        NormalDistribution {
            mean: mean(|spread| spread.mean),
            stddev: mean(|spread| spread.stddev),
        }
    }

    /// Draws one of the pairs by their probabilities.
    pub(super) fn draw(&self, rng: &mut impl Rng) -> SequencePair {
        let mut left: f64 = rng.random();
        let mut chosen = self.pairs[0];
        for pair in &self.pairs {
            chosen = *pair;
            left -= pair.probability;
            if left < 0.0 {
                break;
            }
        }
        chosen
    }
}

fn read_pair(entry: &str) -> Result<SequencePair, String> {
    let malformed = || format!("{entry:?} is not of the form isl|stddev,osl|stddev:probability");
    let (lengths, probability) = entry.rsplit_once(':').ok_or_else(malformed)?;
    let (input, output) = lengths.split_once(',').ok_or_else(malformed)?;
    let probability = read_number(probability)?;
    if probability <= 0.0 {
        return Err(format!("the probability of {entry:?} must be above 0"));
    }
    Ok(SequencePair {
        input_tokens: read_spread(input)?,
        output_tokens: read_spread(output)?,
        probability,
    })
}

fn read_spread(text: &str) -> Result<NormalDistribution, String> {
    let (mean, stddev) = text.split_once('|').unwrap_or((text, "0"));
    let spread = NormalDistribution { mean: read_number(mean)?, stddev: read_number(stddev)? };
    if (1.0..=f64::from(MAX_TOKENS)).contains(&spread.mean) {
        Ok(spread)
    } else {
        Err(format!("a length must be between 1 and {MAX_TOKENS}, got {mean:?}"))
    }
}

/// Parses a finite number that is not negative.
fn read_number(text: &str) -> Result<f64, String> {
    match text.trim().parse::<f64>() {
        Ok(number) if number.is_finite() && number >= 0.0 => Ok(number),
        _ => Err(format!("expected a number of at least 0, got {:?}", text.trim())),
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::dataset::Seed;

    fn pair(input: (f64, f64), output: (f64, f64), probability: f64) -> SequencePair {
        SequencePair {
            input_tokens: NormalDistribution { mean: input.0, stddev: input.1 },
            output_tokens: NormalDistribution { mean: output.0, stddev: output.1 },
            probability,
        }
    }

    #[test]
    fn percentages_and_fractions_say_the_same() {
        let expected =
            [pair((256.0, 10.0), (128.0, 5.0), 0.75), pair((512.0, 0.0), (64.0, 0.0), 0.25)];
        for text in ["256|10,128|5:75;512,64:25", " 256|10 , 128|5 : 0.75 ; 512,64:0.25; "] {
            assert_eq!(SequenceDistribution::parse(text).unwrap().pairs(), expected);
        }
    }

    #[test]
    fn faults_are_named() {
        for (text, fault) in [
            ("", "lengths are missing"),
            (" ; ", "lengths are missing"),
            ("256,128:60;512,256:50", "add up to 100 (or 1), got 110"),
            ("256,128", "not of the form"),
            ("256:100", "not of the form"),
            ("a,128:100", "got \"a\""),
            ("256|-1,128:100", "got \"-1\""),
            ("256,128:NaN", "got \"NaN\""),
            ("0,128:100", "must be between 1"),
            ("256,128:0;1,1:100", "must be above 0"),
        ] {
            let error = SequenceDistribution::parse(text).unwrap_err();
            assert!(error.contains(fault), "{text}: {error}");
        }
    }

    #[test]
    fn pairs_are_drawn_by_their_probability() {
        let distribution = SequenceDistribution::parse("1,1:20;2,2:80").unwrap();
        let mut rng = Seed(1).stream("test");
        let ones =
            (0..10_000).filter(|_| distribution.draw(&mut rng).input_tokens.mean == 1.0).count();
        // Standard deviation: sqrt(10,000 · 0.2 · 0.8) = 40.
        assert!(ones.abs_diff(2000) < 160, "{ones}");
    }

    #[test]
    fn spreads_have_the_mean_and_deviation_asked_for() {
        let spread = NormalDistribution { mean: 500.0, stddev: 50.0 };
        let mut rng = Seed(2).stream("test");
        let values: Vec<f64> =
            (0..10_000).map(|_| f64::from(spread.draw_count(&mut rng))).collect();
        let mean = values.iter().sum::<f64>() / 10_000.0;
        let variance = values.iter().map(|v| (v - mean).powi(2)).sum::<f64>() / 10_000.0;
        // Standard errors: 50/sqrt(10,000) = 0.5 and 50/sqrt(20,000) = 0.35.
        assert!((mean - 500.0).abs() < 2.0, "{mean}");
        assert!((variance.sqrt() - 50.0).abs() < 1.4, "{variance}");
    }

    #[test]
    fn counts_are_at_least_one() {
        let spread = NormalDistribution { mean: 1.0, stddev: 100.0 };
        let mut rng = Seed(3).stream("test");
        assert!((0..1000).all(|_| spread.draw_count(&mut rng) >= 1));
        assert_eq!(NormalDistribution::exactly(0.0).draw_count(&mut rng), 1);
    }

    proptest! {
        #[test]
        fn any_text_is_read_or_refused(text in "[0-9|,:;. a-]{0,40}") {
            if let Ok(distribution) = SequenceDistribution::parse(&text) {
                let total: f64 = distribution.pairs().iter().map(|p| p.probability).sum();
                prop_assert!((total - 1.0).abs() < 1e-6);
            }
        }

        #[test]
        fn what_is_written_is_read(lengths in prop::collection::vec((1u32..9999, 0u32..99, 1u32..9999), 1..5)) {
            let share = 100.0 / lengths.len() as f64;
            let text = lengths.iter().map(|(i, sd, o)| format!("{i}|{sd},{o}:{share}"));
            let read = SequenceDistribution::parse(&text.collect::<Vec<_>>().join(";")).unwrap();
            for (pair, (i, sd, o)) in read.pairs().iter().zip(&lengths) {
                prop_assert_eq!(pair.input_tokens, NormalDistribution { mean: f64::from(*i), stddev: f64::from(*sd) });
                prop_assert_eq!(pair.output_tokens, NormalDistribution::exactly(f64::from(*o)));
            }
        }
    }
}
