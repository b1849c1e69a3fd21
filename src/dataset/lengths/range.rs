//! Lengths drawn uniformly from ranges around means, as other benchmarks draw them.

use rand::{Rng, RngExt};
use serde::Serialize;

use base::setting::{InvalidSetting, named};

use crate::NormalDistribution;

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
pub struct Window {
    low: u32,
    high: u32,
}

impl Window {
    /// Draws a length of at least 1.
    pub fn draw(self, rng: &mut impl Rng) -> u32 {
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
    pub fn windows(&self, added_tokens: u32) -> Result<[Window; 2], InvalidSetting> {
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
    pub(crate) fn longest_input(&self) -> NormalDistribution {
        let ratio = if self.style == RangeStyle::Vllm { 1.0 + self.input_ratio } else { 1.0 };
        NormalDistribution::exactly(f64::from(self.input_tokens) * ratio)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::Seed;

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
    }
}
