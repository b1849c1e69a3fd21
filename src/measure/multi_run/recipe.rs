//! The ready-made searches and sweeps of `--search-recipe`.

use base::setting::named;

use super::curve::logarithmic;
use crate::metrics::{MetricTag, tag};

/// Bounds of a load that is searched for if none are given, as in AIPerf.
pub const BOUNDS: (f64, f64) = (1.0, 1000.0);

/// Fraction of good requests that a load must reach if none is given, as in AIPerf.
pub const ATTAINMENT: f64 = 0.95;

/// A ready-made search or sweep.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Recipe {
    /// Searches for the load with the most good requests per second.
    MaxGoodput,
    /// Searches for the load with the most output tokens per second, with a limit on the time to
    /// first token.
    MaxThroughputTtft,
    /// The same with a limit on the inter token latency.
    MaxThroughputItl,
    /// Searches for the highest load that meets its conditions.
    MaxConcurrency,
    /// Sweeps over concurrencies, and finds where latency degrades.
    ConcurrencyRamp,
    /// Sweeps over input lengths, and fits a curve to the time to first token.
    PrefillCurve,
    /// Sweeps over concurrencies and output lengths, for the inter token latency.
    DecodeCurve,
    /// Sweeps over pairs of lengths and concurrencies.
    ParetoSweep,
}

/// The values of a flag that a recipe sweeps over, unless other flags change the bounds or the
/// number of values. They are spread evenly on a logarithmic scale.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Series {
    /// The flag, without dashes.
    pub flag: &'static str,
    /// The lowest value.
    pub min: u64,
    /// The highest value.
    pub max: u64,
    /// The number of values.
    pub steps: u64,
}

impl Series {
    const fn new(flag: &'static str, min: u64, max: u64, steps: u64) -> Self {
        Self { flag, min, max, steps }
    }

    /// Returns the values.
    #[must_use]
    pub fn values(&self) -> Vec<u64> {
        logarithmic(self.min, self.max, self.steps)
    }
}

impl Recipe {
    /// Returns whether it searches for a load. A search for the highest concurrency can be made as
    /// a sweep instead.
    #[must_use]
    pub const fn is_search(self) -> bool {
        match self {
            Self::MaxGoodput
            | Self::MaxThroughputTtft
            | Self::MaxThroughputItl
            | Self::MaxConcurrency => true,
            Self::ConcurrencyRamp | Self::PrefillCurve | Self::DecodeCurve | Self::ParetoSweep => {
                false
            }
        }
    }

    /// Returns the metric that a search maximizes.
    #[must_use]
    pub const fn objective(self) -> MetricTag {
        match self {
            Self::MaxGoodput => tag::GOODPUT,
            _ => tag::OUTPUT_TOKEN_THROUGHPUT,
        }
    }

    /// Returns what a sweep varies; the values are those of AIPerf.
    #[must_use]
    pub const fn sweeps(self) -> &'static [Series] {
        match self {
            Self::MaxGoodput | Self::MaxThroughputTtft | Self::MaxThroughputItl => &[],
            Self::MaxConcurrency | Self::ConcurrencyRamp => {
                const { &[Series::new("concurrency", 1, 1000, 8)] }
            }
            Self::PrefillCurve => const { &[Series::new("isl", 256, 32768, 8)] },
            Self::DecodeCurve => {
                const { &[Series::new("concurrency", 1, 200, 6), Series::new("osl", 64, 1024, 4)] }
            }
            Self::ParetoSweep => const { &[Series::new("concurrency", 1, 256, 5)] },
        }
    }

    /// Returns whether charts of its results are drawn unless the user decides otherwise.
    #[must_use]
    pub const fn draws_charts(self) -> bool {
        matches!(self, Self::ConcurrencyRamp | Self::PrefillCurve | Self::DecodeCurve)
    }
}

named! {
    Recipe {
        "max-goodput-under-slo" => MaxGoodput,
        "max-throughput-ttft-sla" => MaxThroughputTtft,
        "max-throughput-itl-sla" => MaxThroughputItl,
        "max-concurrency-under-sla" => MaxConcurrency,
        "concurrency-ramp" => ConcurrencyRamp,
        "prefill-ttft-curve" => PrefillCurve,
        "decode-itl-curve" => DecodeCurve,
        "pareto-sweep" => ParetoSweep,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_values_of_sweeps_are_those_of_aiperf() {
        let values = |recipe: Recipe| -> Vec<_> {
            recipe.sweeps().iter().map(|series| (series.flag, series.values())).collect()
        };
        assert_eq!(values(Recipe::ParetoSweep), [("concurrency", vec![1, 4, 16, 64, 256])]);
        let lengths = vec![256, 512, 1024, 2048, 4096, 8192, 16384, 32768];
        assert_eq!(values(Recipe::PrefillCurve), [("isl", lengths)]);
        assert_eq!(values(Recipe::MaxGoodput), []);
    }
}
