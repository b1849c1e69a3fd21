//! The figures that are compared: what they are, their statistics, and their values.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

/// A figure of a run. The names are those of `docs/metrics.md` where it has the same metric.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Figure {
    /// From the start of a request to its first token.
    TimeToFirstToken,
    /// Mean time between the tokens of a request after its first one.
    InterTokenLatency,
    /// Time from one event with output to the next one.
    InterChunkLatency,
    /// From the start of a request to the end of its response.
    RequestLatency,
    /// Input tokens of the successful requests together.
    InputTokens,
    /// Output tokens of the successful requests together.
    OutputTokens,
    /// Output tokens per second.
    OutputTokenThroughput,
    /// Successful requests per second.
    RequestThroughput,
    /// Number of successful requests.
    RequestCount,
    /// Number of failed requests.
    ErrorRequestCount,
    /// From the start of the first request to the end of the last one.
    BenchmarkDuration,
    /// Number of requests sent; compared with the number asked for.
    RequestsSent,
    /// Requests in flight; compared with the number asked for.
    Concurrency,
    /// Requests sent per second; compared with the rate asked for.
    RequestRate,
    /// How late the requests of a constant rate are sent; compared with the interval between two.
    Lateness,
}

impl Figure {
    /// The name in tables.
    pub(crate) const fn label(self) -> &'static str {
        match self {
            Self::TimeToFirstToken => "TTFT",
            Self::InterTokenLatency => "ITL",
            Self::InterChunkLatency => "ICL",
            Self::RequestLatency => "latency",
            Self::InputTokens => "input tokens",
            Self::OutputTokens => "output tokens",
            Self::OutputTokenThroughput => "token throughput",
            Self::RequestThroughput => "request throughput",
            Self::RequestCount => "successful requests",
            Self::ErrorRequestCount => "failed requests",
            Self::BenchmarkDuration => "duration",
            Self::RequestsSent => "requests sent",
            Self::Concurrency => "concurrency",
            Self::RequestRate => "request rate",
            Self::Lateness => "lateness",
        }
    }

    /// Whether it counts things, which does not have noise.
    pub(crate) const fn is_count(self) -> bool {
        matches!(
            self,
            Self::InputTokens
                | Self::OutputTokens
                | Self::RequestCount
                | Self::ErrorRequestCount
                | Self::RequestsSent
        )
    }

    /// Whether it is a time, in seconds.
    pub(crate) const fn is_time(self) -> bool {
        matches!(
            self,
            Self::TimeToFirstToken
                | Self::InterTokenLatency
                | Self::InterChunkLatency
                | Self::RequestLatency
                | Self::BenchmarkDuration
                | Self::Lateness
        )
    }
}

/// A statistic of a figure.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Statistic {
    /// The only value of the figure.
    Value,
    /// The mean over requests, or over time.
    Mean,
    /// The median.
    P50,
    /// The 90th percentile.
    P90,
    /// The 99th percentile.
    P99,
}

impl Statistic {
    /// The statistics of a distribution.
    pub(crate) const OF_DISTRIBUTION: [Self; 4] = [Self::Mean, Self::P50, Self::P90, Self::P99];

    /// The name in tables; empty for a single value.
    pub(crate) const fn label(self) -> &'static str {
        match self {
            Self::Value => "",
            Self::Mean => "mean",
            Self::P50 => "p50",
            Self::P90 => "p90",
            Self::P99 => "p99",
        }
    }
}

/// What a value is of.
pub(crate) type Key = (Figure, Statistic);

/// Returns the name of a value in tables, such as `TTFT p99`.
pub(crate) fn name((figure, statistic): Key) -> String {
    format!("{} {}", figure.label(), statistic.label()).trim_end().to_owned()
}

/// Values in seconds, tokens, requests, or these per second.
pub(crate) type Figures = BTreeMap<Key, f64>;

/// Returns a value as tables show it, such as `12.3 ms`.
pub(crate) fn shown(figure: Figure, value: f64) -> String {
    if figure.is_time() {
        match value.abs() {
            ..1e-3 => format!("{:.0} µs", value * 1e6),
            ..0.1 => format!("{:.2} ms", value * 1e3),
            ..1.0 => format!("{:.1} ms", value * 1e3),
            _ => format!("{value:.3} s"),
        }
    } else if value.fract() == 0.0 {
        grouped(value)
    } else {
        format!("{value:.2}")
    }
}

/// Returns a whole number with separators, such as `10,000`.
fn grouped(value: f64) -> String {
    let digits = format!("{:.0}", value.abs());
    let mut text = String::from(if value < 0.0 { "-" } else { "" });
    for (at, digit) in digits.char_indices() {
        if at > 0 && (digits.len() - at).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

/// The way in which a client computes percentiles of n sorted values, counted from 0. The names are
/// numpy's, but for the last one.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Percentiles {
    /// Interpolated between the neighbours of position (n - 1) p.
    #[default]
    Linear,
    /// The value at n p, rounded up, minus 1: nearest rank.
    InvertedCdf,
    /// The value at (n - 1) p, rounded down.
    Lower,
    /// The value at (n - 1) p, rounded up.
    Higher,
    /// The value at (n - 1) p, rounded.
    Nearest,
    /// Interpolated between the neighbours of position (n + 1) p - 1.
    Weibull,
    /// The value at n p, rounded down.
    Floor,
}

impl Percentiles {
    /// Returns the percentile `share` (0 to 1) of `sorted`, which is not empty.
    fn of(self, sorted: &[f64], share: f64) -> f64 {
        let (n, last) = (sorted.len() as f64, sorted.len() - 1);
        let at = |position: f64| sorted[(position.max(0.0) as usize).min(last)];
        let between = |position: f64| {
            let below = position.floor();
            at(below) + (at(below + 1.0) - at(below)) * (position - below).clamp(0.0, 1.0)
        };
        let position = (n - 1.0) * share;
        match self {
            Self::Linear => between(position),
            Self::InvertedCdf => at((n * share).ceil() - 1.0),
            Self::Lower => at(position.floor()),
            Self::Higher => at(position.ceil()),
            Self::Nearest => at(position.round_ties_even()),
            Self::Floor => at((n * share).floor()),
            Self::Weibull => between(((n + 1.0) * share - 1.0).clamp(0.0, n - 1.0)),
        }
    }

    /// Adds the statistics of `values` to `figures`, unless there are none.
    pub(crate) fn add(self, figures: &mut Figures, figure: Figure, mut values: Vec<f64>) {
        if values.is_empty() {
            return;
        }
        values.sort_unstable_by(f64::total_cmp);
        let mean = values.iter().sum::<f64>() / values.len() as f64;
        for statistic in Statistic::OF_DISTRIBUTION {
            let value = match statistic {
                Statistic::P50 => self.of(&values, 0.5),
                Statistic::P90 => self.of(&values, 0.9),
                Statistic::P99 => self.of(&values, 0.99),
                Statistic::Mean | Statistic::Value => mean,
            };
            figures.insert((figure, statistic), value);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Of 10 values 1 to 10; by numpy's methods.
    #[test]
    fn percentiles_are_those_of_numpy() {
        let values: Vec<f64> = (1..=10).map(f64::from).collect();
        let of = |percentiles: Percentiles| {
            [0.5, 0.9, 0.99].map(|share| (percentiles.of(&values, share) * 1e3).round() / 1e3)
        };
        assert_eq!(of(Percentiles::Linear), [5.5, 9.1, 9.91]);
        assert_eq!(of(Percentiles::InvertedCdf), [5.0, 9.0, 10.0]);
        assert_eq!(of(Percentiles::Lower), [5.0, 9.0, 9.0]);
        assert_eq!(of(Percentiles::Higher), [6.0, 10.0, 10.0]);
        assert_eq!(of(Percentiles::Nearest), [5.0, 9.0, 10.0]);
        assert_eq!(of(Percentiles::Floor), [6.0, 10.0, 10.0]);
        assert_eq!(of(Percentiles::Weibull), [5.5, 9.9, 10.0]);
        assert_eq!(Percentiles::Weibull.of(&[7.0], 0.99), 7.0);
    }

    #[test]
    fn values_have_units() {
        assert_eq!(shown(Figure::TimeToFirstToken, 0.0123), "12.30 ms");
        assert_eq!(shown(Figure::RequestLatency, 2.5), "2.500 s");
        assert_eq!(shown(Figure::OutputTokens, 1_234_567.0), "1,234,567");
        assert_eq!(shown(Figure::RequestThroughput, 38.25), "38.25");
        assert_eq!(shown(Figure::Lateness, 0.000_25), "250 µs");
    }
}
