//! Pairs of input and output length, each with its fraction of the requests.

use rand::{Rng, RngExt};
use serde::{Deserialize, Serialize};

use super::distribution::{self, Length};
use crate::NormalDistribution;

/// An input and an output length that belong together.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct SequencePair {
    /// Input tokens.
    pub input_tokens: Length,
    /// Output tokens.
    pub output_tokens: Length,
    /// Fraction of the requests, in (0, 1].
    pub probability: f64,
}

/// Pairs of input and output length, each with its fraction of the requests.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct SequenceDistribution {
    pairs: Vec<SequencePair>,
}

impl SequenceDistribution {
    /// Parses `--seq-dist`: `isl|stddev,osl|stddev:probability`, several separated by `;`. Each
    /// length is one of those of [`Length::parse`] that is not a mixture. Probabilities are
    /// percentages that sum to 100 or fractions that sum to 1. `AIPerf`'s other two formats are accepted too: `[(isl|stddev,osl|stddev):probability,…]`
    /// and a JSON object with `pairs`, each with `isl`, `osl`, `prob`, `isl_stddev` and `osl_stddev`.
    pub fn parse(text: &str) -> Result<Self, String> {
        Self::read(text).map_err(|reason| {
            format!("{reason}; expected a distribution such as \"256|10,128|5:60;512,256:40\"")
        })
    }

    fn read(text: &str) -> Result<Self, String> {
        let mut pairs = entries(text.trim())?
            .iter()
            .map(|entry| read_pair(entry))
            .collect::<Result<Vec<_>, _>>()?;
        distribution::normalize(pairs.iter_mut().map(|pair| &mut pair.probability))?;
        Ok(Self { pairs })
    }

    /// Returns the pairs in the given order; their probabilities sum to 1.
    #[must_use]
    pub fn pairs(&self) -> &[SequencePair] {
        &self.pairs
    }

    /// Returns the average distribution of input lengths.
    pub fn input_tokens(&self) -> NormalDistribution {
        let mean = |of: fn(&NormalDistribution) -> f64| {
            let pairs = self.pairs.iter();
            pairs.map(|pair| pair.probability * of(&pair.input_tokens.spread())).sum()
        };
        NormalDistribution {
            mean: mean(|spread| spread.mean),
            stddev: mean(|spread| spread.stddev),
        }
    }

    /// Draws one of the pairs by their probabilities.
    pub fn draw(&self, rng: &mut impl Rng) -> &SequencePair {
        let mut left: f64 = rng.random();
        let mut chosen = &self.pairs[0];
        for pair in &self.pairs {
            chosen = pair;
            left -= pair.probability;
            if left < 0.0 {
                break;
            }
        }
        chosen
    }
}

/// A pair of lengths in `AIPerf`'s JSON format.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct JsonPair {
    isl: f64,
    #[serde(default)]
    isl_stddev: f64,
    osl: f64,
    #[serde(default)]
    osl_stddev: f64,
    prob: f64,
}

/// Splits a distribution in any of the formats into pairs such as `256|10,128|5:60`.
fn entries(text: &str) -> Result<Vec<String>, String> {
    if text.starts_with('{') {
        #[derive(Deserialize)]
        struct Pairs {
            pairs: Vec<JsonPair>,
        }
        let found: Pairs = serde_json::from_str(text).map_err(|error| error.to_string())?;
        let entry = |pair: &JsonPair| {
            let JsonPair { isl, isl_stddev, osl, osl_stddev, prob } = pair;
            format!("{isl}|{isl_stddev},{osl}|{osl_stddev}:{prob}")
        };
        return Ok(found.pairs.iter().map(entry).collect());
    }
    if let Some(rest) = text.strip_prefix('[') {
        let malformed = || format!("{text:?} is not of the form [(isl,osl):probability,…]");
        let inner = rest.strip_suffix(']').ok_or_else(malformed)?;
        let (before, pairs) = inner.split_once('(').ok_or_else(malformed)?;
        let entry = |pair: &str| {
            let (lengths, rest) = pair.split_once(')')?;
            Some(format!("{lengths}{}", rest.trim().trim_end_matches(',')))
        };
        let entries: Option<Vec<String>> = pairs.split('(').map(entry).collect();
        return entries.filter(|_| before.trim().is_empty()).ok_or_else(malformed);
    }
    let entries = text.split(';').map(str::trim).filter(|entry| !entry.is_empty());
    Ok(entries.map(str::to_owned).collect())
}

fn read_pair(entry: &str) -> Result<SequencePair, String> {
    let malformed = || format!("{entry:?} is not of the form isl|stddev,osl|stddev:probability");
    let (lengths, probability) = entry.rsplit_once(':').ok_or_else(malformed)?;
    let (input, output) = halves(lengths).ok_or_else(malformed)?;
    Ok(SequencePair {
        input_tokens: distribution::read(input)?,
        output_tokens: distribution::read(output)?,
        probability: distribution::share_of(probability, entry)?,
    })
}

/// Splits `lengths` at the comma between the two lengths: other commas are before a parameter, such
/// as `sigma=0.8`.
fn halves(lengths: &str) -> Option<(&str, &str)> {
    let mut commas = lengths.match_indices(',').map(|(at, _)| (&lengths[..at], &lengths[at + 1..]));
    let is_between = |(_, after): &(&str, &str)| {
        let next = after.split([':', ',']).next().unwrap_or_default();
        !next.contains('=')
    };
    commas.rfind(is_between)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::Seed;

    fn pair(input: (f64, f64), output: (f64, f64), probability: f64) -> SequencePair {
        SequencePair {
            input_tokens: Length::Normal(NormalDistribution { mean: input.0, stddev: input.1 }),
            output_tokens: Length::Normal(NormalDistribution { mean: output.0, stddev: output.1 }),
            probability,
        }
    }

    #[test]
    fn percentages_and_fractions_say_the_same() {
        let expected =
            [pair((256.0, 10.0), (128.0, 5.0), 0.75), pair((512.0, 0.0), (64.0, 0.0), 0.25)];
        for text in [
            "256|10,128|5:75;512,64:25",
            " 256|10 , 128|5 : 0.75 ; 512,64:0.25; ",
            "[(256|10,128|5):75,(512,64):25]",
            " [ ( 256|10 , 128|5 ) : 0.75 , (512,64):0.25 ] ",
            r#"{"pairs": [{"isl": 256, "isl_stddev": 10, "osl": 128, "osl_stddev": 5, "prob": 75},
                {"isl": 512, "osl": 64, "prob": 25}]}"#,
        ] {
            assert_eq!(SequenceDistribution::parse(text).unwrap().pairs(), expected, "{text}");
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
            ("[(256,128):100", "not of the form [(isl,osl):probability,…]"),
            ("[256,128:100]", "not of the form [("),
            ("[x(256,128):100]", "not of the form [("),
            ("[(256,128):60(512,256):50]", "add up to 100 (or 1), got 110"),
            ("[]", "not of the form [("),
            ("{\"pairs\": []}", "lengths are missing"),
            ("{\"pairs\": [{\"isl\": 256, \"prob\": 100}]}", "missing field `osl`"),
            ("{\"pairs\": [{\"isl\": -1, \"osl\": 1, \"prob\": 100}]}", "got \"-1\""),
            (
                "{\"pairs\": [{\"isl\": 1, \"osl\": 1, \"sd\": 1, \"prob\": 100}]}",
                "unknown field `sd`",
            ),
            ("{", "EOF"),
        ] {
            let error = SequenceDistribution::parse(text).unwrap_err();
            assert!(error.contains(fault), "{text}: {error}");
        }
    }

    #[test]
    fn pairs_are_drawn_by_their_probability() {
        let distribution = SequenceDistribution::parse("1,1:20;2,2:80").unwrap();
        let mut rng = Seed(1).stream("test");
        let ones = (0..10_000)
            .filter(|_| distribution.draw(&mut rng).input_tokens.spread().mean == 1.0)
            .count();
        // Standard deviation: sqrt(10,000 · 0.2 · 0.8) = 40.
        assert!(ones.abs_diff(2000) < 160, "{ones}");
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
                prop_assert_eq!(&pair.input_tokens, &Length::Normal(NormalDistribution { mean: f64::from(*i), stddev: f64::from(*sd) }));
                prop_assert_eq!(&pair.output_tokens, &Length::Normal(NormalDistribution::exactly(f64::from(*o))));
            }
        }
    }
}
