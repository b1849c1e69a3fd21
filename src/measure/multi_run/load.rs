//! The load of a run, if loads differ.

use std::fmt;

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

/// An amount of load. Serialized as its value, without decimals if it is a number of sessions.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, schemars::JsonSchema)]
#[serde(untagged)]
pub enum Load {
    /// Concurrent sessions of a closed loop.
    Concurrency(u64),
    /// Requests sent per second in an open loop.
    RequestRate(f64),
}

impl Load {
    /// Returns the load of a cell with the settings `values`, if it is all that they set.
    #[must_use]
    pub fn from_values(values: &Map<String, Value>) -> Option<Self> {
        let (path, value) = values.iter().next().filter(|_| values.len() == 1)?;
        if path == Dimension::Concurrency.path() {
            value.as_u64().map(Self::Concurrency)
        } else {
            let is_rate = path == Dimension::RequestRate.path();
            value.as_f64().filter(|_| is_rate).map(Self::RequestRate)
        }
    }

    #[must_use]
    pub const fn dimension(self) -> Dimension {
        match self {
            Self::Concurrency(_) => Dimension::Concurrency,
            Self::RequestRate(_) => Dimension::RequestRate,
        }
    }

    /// Returns the amount, in the unit of its dimension.
    #[must_use]
    pub const fn amount(self) -> f64 {
        match self {
            Self::Concurrency(sessions) => sessions as f64,
            Self::RequestRate(rate) => rate,
        }
    }

    /// Returns it as the settings of a cell.
    #[must_use]
    pub fn values(self) -> Map<String, Value> {
        Map::from_iter([(self.dimension().path().to_owned(), self.value())])
    }

    /// Returns the amount as JSON: an integer if it is a count.
    #[must_use]
    pub fn value(self) -> Value {
        match self {
            Self::Concurrency(sessions) => sessions.into(),
            Self::RequestRate(rate) => rate.into(),
        }
    }
}

/// Formats the load as `concurrency 8`.
impl fmt::Display for Load {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}", self.dimension().name(), self.amount())
    }
}

/// A dimension of the load that can be varied.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Dimension {
    /// Concurrent sessions, a whole number.
    Concurrency,
    /// Requests per second.
    RequestRate,
}

impl Dimension {
    /// Returns `amount` as a load; a number of sessions is rounded down.
    #[must_use]
    pub const fn load(self, amount: f64) -> Load {
        match self {
            Self::Concurrency => Load::Concurrency(amount as u64),
            Self::RequestRate => Load::RequestRate(amount),
        }
    }

    /// Returns the path of its setting, as used in the files.
    #[must_use]
    pub const fn path(self) -> &'static str {
        match self {
            Self::Concurrency => "phases.profiling.concurrency",
            Self::RequestRate => "phases.profiling.rate",
        }
    }

    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Concurrency => "concurrency",
            Self::RequestRate => "request rate",
        }
    }

    /// Returns the flags for its lower and upper bound.
    #[must_use]
    pub const fn flags(self) -> [&'static str; 2] {
        match self {
            Self::Concurrency => ["--concurrency-min", "--concurrency-max"],
            Self::RequestRate => ["--request-rate-min", "--request-rate-max"],
        }
    }
}

/// The loads among which the next one is chosen from the results of those before it.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Range {
    /// The dimension to vary.
    pub dimension: Dimension,
    /// Lower bound (`--concurrency-min`, `--request-rate-min`).
    pub min: f64,
    /// Upper bound (`--concurrency-max`, `--request-rate-max`).
    pub max: f64,
    /// Whether the warmup uses the same load as the measurement.
    pub warmup_follows: bool,
}

impl Range {
    /// Width of an interval between loads that is not divided further, as a fraction of its upper
    /// end.
    pub(super) const PRECISION: f64 = 0.05;

    /// Width of the interval of a limit that is not made narrower by repeated runs, as a fraction of its upper
    /// end.
    pub(super) const WIDTH: f64 = 0.28;

    /// Returns the first load.
    #[must_use]
    pub const fn first(&self) -> Load {
        self.dimension.load(self.min)
    }

    /// Returns the load after `amount` while loads are doubled.
    #[must_use]
    pub const fn doubled(&self, amount: f64) -> Load {
        self.dimension.load((amount * 2.0).min(self.max))
    }

    /// Returns the load in the middle between two loads; `None` if they are close enough.
    #[must_use]
    pub fn between(&self, low: f64, high: f64) -> Option<Load> {
        let has_none = self.dimension == Dimension::Concurrency && high - low <= 1.0;
        let is_narrow = has_none || (high - low) / high < Self::PRECISION;
        (!is_narrow).then(|| self.dimension.load(low.midpoint(high)))
    }

    /// Returns the load nearest to `amount` within the range: a rate has three digits.
    #[must_use]
    pub fn near(&self, amount: f64) -> Load {
        let scale = match self.dimension {
            Dimension::Concurrency => 1.0,
            Dimension::RequestRate => 10_f64.powf(2.0 - amount.log10().floor()),
        };
        self.dimension.load(((amount * scale).round() / scale).clamp(self.min, self.max))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn loads_are_told_by_their_path() {
        for (load, path, value, text) in [
            (Load::Concurrency(3), "phases.profiling.concurrency", json!(3), "concurrency 3"),
            (Load::RequestRate(1.5), "phases.profiling.rate", json!(1.5), "request rate 1.5"),
        ] {
            assert_eq!((json!(load), load.value()), (value.clone(), value.clone()));
            let mut values = Map::from_iter([(path.to_owned(), value)]);
            assert_eq!(Load::from_values(&values), Some(load));
            values.insert("datasets.main.prompts.osl.mean".to_owned(), json!(4));
            assert_eq!(Load::from_values(&values), None);
            assert_eq!(load.to_string(), text);
            assert_eq!(load.dimension().load(load.amount()), load);
        }
    }
}
