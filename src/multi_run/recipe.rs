//! The ready-made searches and sweeps of `--search-recipe`.

use crate::setting::named;

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

impl Recipe {
    /// Returns whether charts of its results are drawn unless the user decides otherwise.
    #[must_use]
    pub(crate) const fn draws_charts(self) -> bool {
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
