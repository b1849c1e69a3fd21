//! The notation of limits on results, such as `time_to_first_token:p99<=250ms`: for gates, for the
//! conditions of searches, and for the objectives of requests.
//!
//! ```text
//! limit     = tag [":" statistic] operator quantity
//!           | statistic "_" tag operator quantity | tag "_" statistic operator quantity
//! operator  = "<=" | "<" | ">=" | ">" | "=="
//! quantity  = number ["ns" | "us" | "ms" | "s" | "%"]
//! ```

use std::borrow::Cow;

use thiserror::Error;

use base::units::Unit;

use super::error::did_you_mean;
use super::metric::{Metric, Statistic};
use super::objective::{find, names_like};
use super::tag::{self, MetricTag};

/// The reason why a text is not a limit.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum LimitError {
    /// The text does not have the form of a limit.
    #[error("{0:?} is not a limit; write it as time_to_first_token:p99<=250ms")]
    Malformed(String),
    /// The metric does not exist.
    #[error("unknown metric {tag:?}; {}", did_you_mean(.near))]
    UnknownMetric {
        /// The name as given.
        tag: String,
        /// Similar names.
        near: Vec<MetricTag>,
    },
    /// The statistic does not exist.
    #[error("unknown statistic {0:?}; use one of {1}")]
    UnknownStatistic(String, String),
    /// The metric does not have the statistic.
    #[error("{statistic} is not available for {tag}; use one of {others}")]
    NoStatistic {
        /// The metric.
        tag: MetricTag,
        /// The statistic.
        statistic: Statistic,
        /// The statistics that it has.
        others: String,
    },
    /// The limit is not a number.
    #[error("{0:?} is not a limit; write a finite number, with ns, us, ms, s, % or no unit")]
    Number(String),
    /// The limit's unit is not one of the metric.
    #[error("a limit in {suffix} does not fit {subject}; its unit is {unit}")]
    Unit {
        /// The unit of the limit.
        suffix: &'static str,
        /// The metric and the statistic.
        subject: String,
        /// The unit of the values.
        unit: &'static str,
    },
}

/// A limit on a statistic of a metric, in its display unit.
#[derive(Debug, Clone, Copy)]
pub struct Limit {
    pub metric: &'static Metric,
    pub statistic: Statistic,
    pub operator: Operator,
    pub bound: f64,
}

impl Limit {
    /// Parses `METRIC[:STATISTIC] OPERATOR LIMIT`; the statistic is the mean if it is not given.
    pub fn parse(text: &str) -> Result<Self, LimitError> {
        let malformed = || LimitError::Malformed(text.to_owned());
        let (subject, operator, limit) = split(text).ok_or_else(malformed)?;
        let (subject, operator, limit) = of_errors(subject, operator, limit)?;
        let (metric, statistic) = measured(subject)?;
        let bound = in_unit_of(metric, statistic, &limit)?;
        Ok(Self { metric, statistic, operator, bound })
    }
}

/// Returns a limit on the rate of successes, such as `success_rate>=99%`, as one on the rate of errors, and
/// others as they are.
pub(crate) fn of_errors<'a>(
    subject: &'a str,
    operator: Operator,
    limit: &'a str,
) -> Result<(&'a str, Operator, Cow<'a, str>), LimitError> {
    if subject != "success_rate" {
        return Ok((subject, operator, limit.into()));
    }
    let Quantity { number, suffix: None | Some(Suffix::Percent) } = quantity(limit)? else {
        return Err(LimitError::Number(limit.to_owned()));
    };
    Ok((tag::REQUEST_ERROR_RATE.name(), operator.mirrored(), (100.0 - number).to_string().into()))
}

/// Returns the parts of a name such as `p99_ttft` or `ttft_p99`.
fn with_statistic(name: &str) -> Option<(&str, &str)> {
    let parts = [name.split_once('_').map(|(first, rest)| (rest, first)), name.rsplit_once('_')];
    let is_known = |(name, statistic): &(&str, &str)| {
        find(name).is_some() && Statistic::named(statistic).is_some()
    };
    parts.into_iter().flatten().find(is_known).filter(|_| find(name).is_none())
}

/// Parses a metric and its statistic, which is the mean if it is not given.
pub fn measured(text: &str) -> Result<(&'static Metric, Statistic), LimitError> {
    let parts = text.split_once(':').or_else(|| with_statistic(text.trim()));
    let (name, statistic) = match parts {
        Some((name, statistic)) => (name.trim(), Some(statistic.trim())),
        None => (text.trim(), None),
    };
    let metric = find(name).ok_or_else(|| LimitError::UnknownMetric {
        tag: name.to_owned(),
        near: names_like(name, |_| true),
    })?;
    let names = |statistics: &mut dyn Iterator<Item = &Statistic>| {
        statistics.map(Statistic::to_string).collect::<Vec<_>>().join(", ")
    };
    let statistic = match statistic {
        None => Statistic::Avg,
        Some(name) => Statistic::named(name).ok_or_else(|| {
            let all = names(&mut Statistic::ALL.iter()) + ", or another percentile, such as p99.9";
            LimitError::UnknownStatistic(name.to_owned(), all)
        })?,
    };
    if !metric.has(statistic) {
        return Err(LimitError::NoStatistic {
            tag: metric.tag,
            statistic,
            others: names(&mut Statistic::ALL.iter().filter(|known| metric.has(**known))),
        });
    }
    Ok((metric, statistic))
}

/// Parses a quantity and returns it in the unit of the statistic.
pub(crate) fn in_unit_of(
    metric: &Metric,
    statistic: Statistic,
    text: &str,
) -> Result<f64, LimitError> {
    let quantity = quantity(text)?;
    let unit = unit(metric, statistic);
    quantity.in_unit(unit).ok_or_else(|| LimitError::Unit {
        suffix: quantity.suffix.map_or("", Suffix::name),
        subject: format!("{}:{}", metric.tag, statistic),
        unit: unit.label(),
    })
}

/// How a value is compared with its limit.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Operator {
    AtMost,
    Below,
    AtLeast,
    Above,
    Equal,
}

impl Operator {
    /// The operators; one that begins with another is before it.
    pub const ALL: [(&str, Self); 5] = [
        ("<=", Self::AtMost),
        (">=", Self::AtLeast),
        ("==", Self::Equal),
        ("<", Self::Below),
        (">", Self::Above),
    ];

    /// Returns its symbol.
    #[must_use]
    pub fn symbol(self) -> &'static str {
        let found = Self::ALL.iter().find(|(_, operator)| *operator == self);
        found.map_or("", |(symbol, _)| symbol)
    }

    /// Returns the operator for the negated values.
    const fn mirrored(self) -> Self {
        match self {
            Self::AtMost => Self::AtLeast,
            Self::Below => Self::Above,
            Self::AtLeast => Self::AtMost,
            Self::Above => Self::Below,
            Self::Equal => Self::Equal,
        }
    }

    /// Returns whether `value` keeps `limit`; false if either is NaN.
    pub fn holds(self, value: f64, limit: f64) -> bool {
        match self {
            Self::AtMost => value <= limit,
            Self::Below => value < limit,
            Self::AtLeast => value >= limit,
            Self::Above => value > limit,
            Self::Equal => value == limit,
        }
    }

    /// Returns how far `value` is within `limit`; negative beyond it.
    pub fn slack(self, value: f64, limit: f64) -> f64 {
        match self {
            Self::AtMost | Self::Below => limit - value,
            Self::AtLeast | Self::Above => value - limit,
            Self::Equal => -(value - limit).abs(),
        }
    }
}

/// A number with an optional unit.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Quantity {
    pub number: f64,
    pub suffix: Option<Suffix>,
}

/// The unit of a quantity.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Suffix {
    /// A unit of time, with its length in nanoseconds.
    Time(&'static str, f64),
    Percent,
}

impl Suffix {
    /// The units; one that ends with another is before it.
    const ALL: [(&str, Self); 5] = [
        ("ns", Self::Time("ns", 1.0)),
        ("us", Self::Time("us", 1e3)),
        ("ms", Self::Time("ms", 1e6)),
        ("s", Self::Time("s", 1e9)),
        ("%", Self::Percent),
    ];

    pub const fn name(self) -> &'static str {
        match self {
            Self::Time(name, _) => name,
            Self::Percent => "%",
        }
    }
}

/// Splits `text` at its first operator.
pub fn split(text: &str) -> Option<(&str, Operator, &str)> {
    let (subject, rest) = text.split_at(text.find(['<', '>', '=', '!'])?);
    let (symbol, operator) = Operator::ALL.iter().find(|(symbol, _)| rest.starts_with(symbol))?;
    Some((subject.trim(), *operator, rest[symbol.len()..].trim()))
}

pub fn quantity(text: &str) -> Result<Quantity, LimitError> {
    let with_suffix =
        |(name, suffix): &(&str, Suffix)| Some((text.strip_suffix(name)?, Some(*suffix)));
    let (number, suffix) = Suffix::ALL.iter().find_map(with_suffix).unwrap_or((text, None));
    let number = number.trim().replace('_', "").parse::<f64>();
    let number = number.ok().filter(|number| number.is_finite());
    let number = number.ok_or_else(|| LimitError::Number(text.to_owned()))?;
    Ok(Quantity { number, suffix })
}

impl Quantity {
    /// Returns the number in `unit`; `None` if the quantity has a unit of another kind, or is too
    /// large.
    fn in_unit(self, unit: Unit) -> Option<f64> {
        let is_time = matches!(unit, Unit::Nanoseconds | Unit::Milliseconds | Unit::Seconds);
        let number = match (self.suffix, unit) {
            (None, _) | (Some(Suffix::Percent), Unit::Percent) => self.number,
            (Some(Suffix::Percent), Unit::Ratio) => self.number / 100.0,
            (Some(Suffix::Time(_, nanos)), _) if is_time => {
                Unit::Nanoseconds.convert(self.number * nanos, unit)
            }
            _ => return None,
        };
        Some(number).filter(|number| number.is_finite())
    }

    /// Like [`in_unit`](Self::in_unit), with the name of a unit of server metrics.
    pub(crate) fn in_named_unit(self, unit: Option<&str>) -> Option<f64> {
        let number = match (self.suffix, unit) {
            (None, _) | (Some(Suffix::Percent), Some("percent")) => self.number,
            (Some(Suffix::Percent), Some("ratio")) => self.number / 100.0,
            (Some(Suffix::Time(_, nanos)), Some(unit)) => {
                let other = match unit {
                    "nanoseconds" => 1.0,
                    "microseconds" => 1e3,
                    "milliseconds" => 1e6,
                    "seconds" => 1e9,
                    _ => return None,
                };
                self.number * nanos / other
            }
            _ => return None,
        };
        Some(number).filter(|number| number.is_finite())
    }
}

/// Returns the unit of a statistic.
pub fn unit(metric: &Metric, statistic: Statistic) -> Unit {
    if statistic == Statistic::Count { Unit::Count } else { metric.display_unit }
}
