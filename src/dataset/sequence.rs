//! Pairs of input and output length with their probabilities:
//! `128|10,64|5:60;512,256:40`.

use rand::{Rng, RngExt};

use super::{DatasetError, Spread};

/// A distribution over pairs of lengths.
#[derive(Debug, Clone, PartialEq)]
pub struct SequenceDistribution {
    pairs: Vec<Pair>,
}

/// Input and output length, and how likely they are.
#[derive(Debug, Clone, Copy, PartialEq)]
struct Pair {
    input: Spread,
    output: Spread,
    weight: f64,
}

impl SequenceDistribution {
    /// Reads `isl|stddev,osl|stddev:probability;…`; a stddev may be left out.
    /// Probabilities are percentages that sum to 100, or fractions that sum to 1.
    pub fn parse(text: &str) -> Result<Self, DatasetError> {
        let invalid =
            |reason: &str| DatasetError::SequenceDistribution(text.to_owned(), reason.to_owned());
        let parts = text.split(';').map(str::trim).filter(|part| !part.is_empty());
        let pairs = parts
            .map(parse_pair)
            .collect::<Result<Vec<_>, _>>()
            .map_err(|reason| invalid(&reason))?;
        let total: f64 = pairs.iter().map(|pair| pair.weight).sum();
        if pairs.is_empty() {
            return Err(invalid("there is no pair in it"));
        }
        if (total - 100.0).abs() > 0.01 && (total - 1.0).abs() > 1e-4 {
            return Err(invalid(&format!("its probabilities sum to {total}, not to 100 (or 1)")));
        }
        Ok(Self { pairs })
    }

    /// Draws a pair: spreads of input and output length.
    pub(super) fn draw(&self, rng: &mut impl Rng) -> (Spread, Spread) {
        let total: f64 = self.pairs.iter().map(|pair| pair.weight).sum();
        let mut point = rng.random_range(0.0..total);
        for pair in &self.pairs {
            if point < pair.weight {
                return (pair.input, pair.output);
            }
            point -= pair.weight;
        }
        // Rounding can leave the point just past the end.
        self.pairs.last().map_or((Spread::ONE, Spread::ONE), |pair| (pair.input, pair.output))
    }
}

fn parse_pair(part: &str) -> Result<Pair, String> {
    let shape = || format!("`{part}` is not `input,output:probability`");
    let (lengths, weight) = part.rsplit_once(':').ok_or_else(shape)?;
    let (input, output) = lengths.split_once(',').ok_or_else(shape)?;
    let weight = number(weight, part)?;
    Ok(Pair { input: spread(input, part)?, output: spread(output, part)?, weight })
}

fn spread(text: &str, part: &str) -> Result<Spread, String> {
    let (mean, stddev) = text.split_once('|').unwrap_or((text, "0"));
    let spread = Spread { mean: number(mean, part)?, stddev: number(stddev, part)? };
    if spread.mean < 1.0 { Err(format!("a length in `{part}` is less than 1")) } else { Ok(spread) }
}

fn number(text: &str, part: &str) -> Result<f64, String> {
    match text.trim().parse::<f64>() {
        Ok(value) if value.is_finite() && value >= 0.0 => Ok(value),
        _ => Err(format!("`{}` in `{part}` is no number of at least 0", text.trim())),
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::dataset::seed::Seed;

    #[test]
    fn pairs_are_drawn_by_their_weight() {
        let distribution = SequenceDistribution::parse("128|10,64|5:60; 512,256:40").unwrap();
        let mut rng = Seed(3).stream("test");
        let draws: Vec<_> = (0..10_000).map(|_| distribution.draw(&mut rng)).collect();
        let first = (Spread { mean: 128.0, stddev: 10.0 }, Spread { mean: 64.0, stddev: 5.0 });
        let second = (Spread { mean: 512.0, stddev: 0.0 }, Spread { mean: 256.0, stddev: 0.0 });
        assert!(draws.iter().all(|draw| *draw == first || *draw == second));
        // 6000 expected; five standard deviations of the binomial are 245.
        let count = draws.iter().filter(|draw| **draw == first).count();
        assert!(count.abs_diff(6000) < 245, "{count}");
    }

    #[test]
    fn fractions_are_probabilities_too() {
        assert!(SequenceDistribution::parse("1,1:0.25;2,2:0.75").is_ok());
    }

    #[test]
    fn what_is_wrong_is_named() {
        for (text, reason) in [
            ("", "no pair"),
            ("128:100", "`128:100` is not `input,output:probability`"),
            ("128,64", "`128,64` is not"),
            ("a,64:100", "`a` in"),
            ("128,64:60;1,1:30", "sum to 90"),
            ("0,64:100", "less than 1"),
            ("128|-1,64:100", "`-1` in"),
        ] {
            let message = SequenceDistribution::parse(text).unwrap_err().to_string();
            assert!(message.contains(reason), "{text}: {message}");
        }
    }

    proptest! {
        #[test]
        fn any_text_is_read_or_refused(text in ".{0,80}") {
            let _ = SequenceDistribution::parse(&text);
        }
    }
}
