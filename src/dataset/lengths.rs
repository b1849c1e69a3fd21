//! Random lengths: normal distributions, pairs of input and output length, and ranges around means.

use rand::{Rng, RngExt};
use rand_distr::StandardNormal;
use serde::{Deserialize, Serialize};

use super::NormalDistribution;
use crate::setting::{InvalidSetting, named};

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

/// A distribution of lengths.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
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
}

impl Length {
    /// Returns the normal distribution with the same mean and standard deviation.
    fn spread(self) -> NormalDistribution {
        match self {
            Self::Normal(spread) => spread,
            // exp(σ²) is (mean/median)², and the variance is (exp(σ²) − 1)·mean².
            Self::LogNormal { mean, median } => NormalDistribution {
                mean,
                stddev: mean * ((mean / median).powi(2) - 1.0).max(0.0).sqrt(),
            },
        }
    }

    /// Draws an integer of at least one.
    pub(super) fn draw_count(self, rng: &mut impl Rng) -> u32 {
        match self {
            Self::Normal(spread) => spread.draw_count(rng),
            Self::LogNormal { mean, median } => {
                let sigma = (2.0 * (mean / median).ln()).max(0.0).sqrt();
                let drawn = NormalDistribution { mean: median.ln(), stddev: sigma }.draw(rng).exp();
                NormalDistribution::exactly(drawn).draw_count(rng)
            }
        }
    }
}

/// An input and an output length that belong together.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
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
    /// Parses `--seq-dist`: `isl|stddev,osl|stddev:probability`, several separated by `;`. Standard
    /// deviations are optional; `mean~median` is a log-normal distribution. Probabilities are percentages that sum to 100 or fractions that sum
    /// to 1. `AIPerf`'s other two formats are accepted too: `[(isl|stddev,osl|stddev):probability,…]`
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
            let pairs = self.pairs.iter();
            pairs.map(|pair| pair.probability * of(&pair.input_tokens.spread())).sum()
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

/// Lengths drawn uniformly from ranges around or below their means (`--random-range-ratio`).
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct RandomRange {
    /// Which ranges the ratios make.
    pub style: RangeStyle,
    /// Mean of the input tokens.
    pub input_tokens: u32,
    /// Ratio of the range of the input tokens.
    pub input_ratio: f64,
    /// Mean of the output tokens.
    pub output_tokens: u32,
    /// Ratio of the range of the output tokens.
    pub output_ratio: f64,
}

/// Whose ranges are used (`--random-corpus-style`).
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum RangeStyle {
    /// From floor(m·(1 − r)) to ceil(m·(1 + r)), as in `vllm bench serve`.
    #[default]
    Vllm,
    /// From int(m·r), or 1, to m, as in `sglang.bench_serving`.
    Sglang,
}

named! { RangeStyle { "vllm" => Vllm, "sglang" => Sglang } }

/// A range of lengths, both ends included.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Window {
    low: u32,
    high: u32,
}

impl Window {
    /// Draws a length of at least 1.
    pub(super) fn draw(self, rng: &mut impl Rng) -> u32 {
        rng.random_range(self.low..=self.high.max(self.low)).max(1)
    }
}

impl RandomRange {
    /// Parses `--random-range-ratio`: a ratio for inputs and outputs, or one for each as JSON.
    pub fn parse_ratios(text: &str) -> Result<[f64; 2], String> {
        let one = text.trim().parse().map(|ratio: f64| [ratio, ratio]);
        let each = || {
            let value: serde_json::Value = serde_json::from_str(text).ok()?;
            let ratio = |name: &str| value.get(name)?.as_f64();
            let is_all = value.as_object()?.len() == 2;
            is_all.then_some([ratio("input")?, ratio("output")?])
        };
        let ratios = one.ok().or_else(each).filter(|ratios| ratios.iter().all(|r| r.is_finite()));
        ratios.ok_or_else(|| {
            "expected a ratio such as 0.3, or {\"input\": 0.3, \"output\": 0.5}".to_owned()
        })
    }

    /// Returns the ranges of the input and output tokens. A prompt is shorter by the
    /// `added_tokens` that the tokenizer adds to it: the vLLM style takes them off the mean, and the
    /// `SGLang` style off each drawn length.
    ///
    /// # Errors
    ///
    /// Fails if a ratio is outside its limits, or if a prompt could be empty.
    pub(super) fn windows(&self, added_tokens: u32) -> Result<[Window; 2], InvalidSetting> {
        const FLAG: &str = "--random-range-ratio";
        for ratio in [self.input_ratio, self.output_ratio] {
            let limits = match self.style {
                RangeStyle::Vllm if !(0.0..1.0).contains(&ratio) => "at least 0 and below 1",
                RangeStyle::Sglang if !(0.0..=1.0).contains(&ratio) => "between 0 and 1",
                _ => continue,
            };
            return Err(InvalidSetting::new(FLAG, format!("must be {limits}, got {ratio}")));
        }
        if self.style == RangeStyle::Sglang {
            if self.input_ratio != self.output_ratio {
                let why = "the sglang style has one ratio for inputs and outputs; give a number";
                return Err(InvalidSetting::new(FLAG, why));
            }
            let below = |mean: u32, ratio| Window {
                low: ((f64::from(mean) * ratio) as u32).max(1),
                high: mean.max(1),
            };
            let input = below(self.input_tokens, self.input_ratio);
            let less = |length: u32| length.saturating_sub(added_tokens).max(1);
            let input = Window { low: less(input.low), high: less(input.high) };
            return Ok([input, below(self.output_tokens, self.output_ratio)]);
        }
        let around = |mean: u32, ratio: f64| {
            let mean = f64::from(mean);
            let high = (mean * (1.0 + ratio)).ceil() as u32;
            Window { low: (mean * (1.0 - ratio)).floor() as u32, high }
        };
        let input = around(self.input_tokens.saturating_sub(added_tokens), self.input_ratio);
        if input.low == 0 {
            let why = format!(
                "a prompt of {} tokens could become empty; reduce the ratio, or raise --isl",
                self.input_tokens
            );
            return Err(InvalidSetting::new(FLAG, why));
        }
        Ok([input, around(self.output_tokens, self.output_ratio)])
    }

    /// Returns the longest input, as a distribution.
    pub(super) fn longest_input(&self) -> NormalDistribution {
        let ratio = if self.style == RangeStyle::Vllm { 1.0 + self.input_ratio } else { 1.0 };
        NormalDistribution::exactly(f64::from(self.input_tokens) * ratio)
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
    let (input, output) = lengths.split_once(',').ok_or_else(malformed)?;
    let probability = read_number(probability)?;
    if probability <= 0.0 {
        return Err(format!("the probability of {entry:?} must be above 0"));
    }
    Ok(SequencePair {
        input_tokens: read_length(input)?,
        output_tokens: read_length(output)?,
        probability,
    })
}

fn read_length(text: &str) -> Result<Length, String> {
    let (mean, length) = if let Some((mean, median)) = text.split_once('~') {
        let (mean, median) = (read_number(mean)?, read_number(median)?);
        if !(median > 0.0 && median <= mean) {
            return Err(format!("the median of {text:?} must be above 0 and at most the mean"));
        }
        (mean, Length::LogNormal { mean, median })
    } else {
        let (mean, stddev) = text.split_once('|').unwrap_or((text, "0"));
        let spread = NormalDistribution { mean: read_number(mean)?, stddev: read_number(stddev)? };
        (spread.mean, Length::Normal(spread))
    };
    if (1.0..=f64::from(MAX_TOKENS)).contains(&mean) {
        Ok(length)
    } else {
        Err(format!("a length must be between 1 and {MAX_TOKENS}, got {text:?}"))
    }
}

/// Parses a finite number that is not negative.
fn read_number(text: &str) -> Result<f64, String> {
    match text.trim().parse::<f64>() {
        Ok(number) if number.is_finite() && number >= 0.0 => Ok(number),
        _ => Err(format!("expected a number of at least 0, got {:?}", text.trim())),
    }
}

/// The lengths of a use case.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct LengthPreset {
    pub(crate) name: &'static str,
    pub(crate) input_tokens: u64,
    pub(crate) output_tokens: u64,
}

impl LengthPreset {
    /// The use cases and lengths that `GuideLLM`, the benchmark of the vLLM project, recommends.
    pub(crate) const ALL: [Self; 4] = [
        Self { name: "chat", input_tokens: 512, output_tokens: 256 },
        Self { name: "rag", input_tokens: 4096, output_tokens: 512 },
        Self { name: "summarize", input_tokens: 1024, output_tokens: 256 },
        Self { name: "code", input_tokens: 512, output_tokens: 512 },
    ];

    /// Returns the preset called `name`.
    pub(crate) fn named(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|preset| preset.name == name)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::dataset::Seed;

    fn pair(input: (f64, f64), output: (f64, f64), probability: f64) -> SequencePair {
        SequencePair {
            input_tokens: Length::Normal(NormalDistribution { mean: input.0, stddev: input.1 }),
            output_tokens: Length::Normal(NormalDistribution { mean: output.0, stddev: output.1 }),
            probability,
        }
    }

    #[test]
    fn a_log_normal_length_has_its_mean_and_median() {
        let parse = SequenceDistribution::parse;
        let length = parse("512~192,8:100").unwrap().pairs()[0].input_tokens;
        assert_eq!(length, Length::LogNormal { mean: 512.0, median: 192.0 });
        let mut rng = Seed(3).stream("test");
        let mut drawn: Vec<u32> = (0..100_000).map(|_| length.draw_count(&mut rng)).collect();
        drawn.sort_unstable();
        let mean = drawn.iter().map(|tokens| f64::from(*tokens)).sum::<f64>() / 1e5;
        // Its standard deviation is 512·√((512/192)² − 1), that of the mean a 316th of it.
        let stddev = 512.0 * ((512.0f64 / 192.0).powi(2) - 1.0).sqrt();
        assert!((length.spread().stddev - stddev).abs() < 1e-9);
        assert!((mean - 512.0).abs() < 5.0 * stddev / 1e5f64.sqrt(), "{mean}");
        assert!((i64::from(drawn[50_000]) - 192).abs() <= 5, "{}", drawn[50_000]);
        for wrong in ["100~200,8:100", "100~0,8:100"] {
            assert!(parse(wrong).unwrap_err().contains("the median of"), "{wrong}");
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

    fn range(style: RangeStyle, ratios: [f64; 2]) -> RandomRange {
        let [input_ratio, output_ratio] = ratios;
        RandomRange { style, input_tokens: 100, input_ratio, output_tokens: 10, output_ratio }
    }

    #[test]
    fn ranges_are_those_of_vllm_and_sglang() {
        let window = |low, high| Window { low, high };
        for (style, ratios, added, expected) in [
            // floor(100 · 0.75), ceil(100 · 1.25); floor(10 · 0.25), ceil(10 · 1.75).
            (RangeStyle::Vllm, [0.25, 0.75], 0, [window(75, 125), window(2, 18)]),
            // floor(99 · 0.75), ceil(99 · 1.25): one token is not part of the text.
            (RangeStyle::Vllm, [0.25, 0.0], 1, [window(74, 124), window(10, 10)]),
            (RangeStyle::Sglang, [0.25, 0.25], 0, [window(25, 100), window(2, 10)]),
            (RangeStyle::Sglang, [0.0, 0.0], 0, [window(1, 100), window(1, 10)]),
            // The range is moved, but not below 1.
            (RangeStyle::Sglang, [0.01, 0.01], 2, [window(1, 98), window(1, 10)]),
        ] {
            assert_eq!(range(style, ratios).windows(added), Ok(expected), "{style:?} {ratios:?}");
        }
    }

    #[test]
    fn ratios_outside_their_limits_are_rejected() {
        for (style, ratios, why) in [
            (RangeStyle::Vllm, [1.0, 0.5], "below 1, got 1"),
            (RangeStyle::Vllm, [0.5, -0.1], "below 1, got -0.1"),
            (RangeStyle::Vllm, [0.995, 0.0], "could become empty"),
            (RangeStyle::Sglang, [1.5, 1.5], "between 0 and 1, got 1.5"),
            (RangeStyle::Sglang, [0.5, 0.4], "one ratio"),
        ] {
            let error = range(style, ratios).windows(0).unwrap_err().to_string();
            assert!(error.contains(why), "{error}");
        }
        assert_eq!(RandomRange::parse_ratios(" 0.5"), Ok([0.5, 0.5]));
        let each = r#"{"output": 0, "input": 0.25}"#;
        assert_eq!(RandomRange::parse_ratios(each), Ok([0.25, 0.0]));
        for text in ["", "a", "NaN", "[1]", r#"{"input": 1}"#, r#"{"input":1,"output":1,"x":1}"#] {
            assert!(RandomRange::parse_ratios(text).is_err(), "{text}");
        }
    }

    #[test]
    fn lengths_are_uniform_in_their_range() {
        let mut rng = Seed(4).stream("test");
        let mut counts = [0; 5];
        for _ in 0..10_000 {
            counts[Window { low: 3, high: 7 }.draw(&mut rng) as usize - 3] += 1;
        }
        // Standard deviation: sqrt(10,000 · 0.2 · 0.8) = 40.
        assert!(counts.iter().all(|count: &i32| (count - 2000).abs() < 160), "{counts:?}");
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
        fn any_ratios_are_read_or_refused(text in r#"[0-9.eE{}:",inputo -]{0,40}"#, mean in 1u32..10_000_000, added in 0u32..3) {
            if let Ok([input_ratio, output_ratio]) = RandomRange::parse_ratios(&text) {
                for style in [RangeStyle::Vllm, RangeStyle::Sglang] {
                    let range = RandomRange { style, input_tokens: mean, input_ratio, output_tokens: mean, output_ratio };
                    if let Ok(windows) = range.windows(added) {
                        for window in windows {
                            prop_assert!(window.low <= window.high && window.high <= 2 * mean, "{window:?}");
                        }
                    }
                }
            }
        }

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
                prop_assert_eq!(pair.input_tokens, Length::Normal(NormalDistribution { mean: f64::from(*i), stddev: f64::from(*sd) }));
                prop_assert_eq!(pair.output_tokens, Length::Normal(NormalDistribution::exactly(f64::from(*o))));
            }
        }
    }
}
