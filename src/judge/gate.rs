//! The grammar of gates.
//!
//! ```text
//! gate      = client (operator) quantity | "client_health" "==" verdict | server (operator) quantity
//! client    = ["steady:"] tag [":" statistic]
//! server    = "server:" name [labels] [":" statistic]
//! labels    = "{" name "=" '"' value '"' … "}", as in Prometheus
//! operator  = "<=" | "<" | ">=" | ">" | "=="
//! quantity  = number ["ns" | "us" | "ms" | "s" | "%"]
//! ```

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Deserializer, Serialize, Serializer, de};
use thiserror::Error;

use super::compare::{is_comparable, larger_is_better};
use crate::metrics::metric::{Metric, Statistic};
use crate::metrics::objective::{find, names_like};
use crate::metrics::{MetricTag, Verdict, did_you_mean};
use crate::server_metrics::exposition;
use crate::server_metrics::report::Stats;
use crate::units::Unit;

/// A limit that a run must keep, as in `time_to_first_token:p99<=250ms`.
#[derive(Debug, Clone)]
pub struct Gate {
    text: String,
    pub(super) condition: Condition,
}

/// What a gate requires.
#[derive(Debug, Clone)]
pub(super) enum Condition {
    /// A limit on a statistic of a metric, in its display unit.
    Metric { subject: Subject, operator: Operator, limit: f64 },
    /// A limit on a statistic of the matching series of a server's metric.
    Server { series: Series, operator: Operator, limit: Quantity },
    /// The verdict on client health.
    ClientHealth(Verdict),
}

/// A statistic of a metric.
#[derive(Debug, Clone, Copy)]
pub(super) struct Subject {
    pub(super) metric: &'static Metric,
    pub(super) statistic: Statistic,
    /// Whether it is that of the steady state, not of the whole phase.
    pub(super) is_steady: bool,
}

impl Subject {
    /// Prefix of a statistic of the steady state.
    pub(super) const STEADY: &str = "steady:";

    /// Returns whether both denote the same statistic.
    pub(super) fn is(self, other: Self) -> bool {
        self.metric.tag == other.metric.tag
            && self.statistic.name == other.statistic.name
            && self.is_steady == other.is_steady
    }
}

/// Series of a server's metric.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Series {
    pub(super) name: String,
    /// Labels that a series must have.
    pub(super) labels: Vec<(String, String)>,
    pub(super) statistic: String,
}

/// How a value is compared with its limit.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Operator {
    AtMost,
    Below,
    AtLeast,
    Above,
    Equal,
}

impl Operator {
    /// The operators; one that begins with another is before it.
    const ALL: [(&str, Self); 5] = [
        ("<=", Self::AtMost),
        (">=", Self::AtLeast),
        ("==", Self::Equal),
        ("<", Self::Below),
        (">", Self::Above),
    ];

    /// Returns its symbol.
    #[must_use]
    pub(crate) fn symbol(self) -> &'static str {
        let found = Self::ALL.iter().find(|(_, operator)| *operator == self);
        found.map_or("", |(symbol, _)| symbol)
    }

    /// Returns whether `value` keeps `limit`; false if either is NaN.
    pub(super) fn holds(self, value: f64, limit: f64) -> bool {
        match self {
            Self::AtMost => value <= limit,
            Self::Below => value < limit,
            Self::AtLeast => value >= limit,
            Self::Above => value > limit,
            Self::Equal => value == limit,
        }
    }

    /// Returns how far `value` is within `limit`; negative beyond it.
    pub(super) fn slack(self, value: f64, limit: f64) -> f64 {
        match self {
            Self::AtMost | Self::Below => limit - value,
            Self::AtLeast | Self::Above => value - limit,
            Self::Equal => -(value - limit).abs(),
        }
    }
}

/// A number with an optional unit.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Quantity {
    pub(super) number: f64,
    pub(super) suffix: Option<Suffix>,
}

/// The unit of a quantity.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) enum Suffix {
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

    pub(super) const fn name(self) -> &'static str {
        match self {
            Self::Time(name, _) => name,
            Self::Percent => "%",
        }
    }
}

/// The reason why a text is not a gate.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum GateError {
    /// The text does not have the form of a gate.
    #[error(
        "{0:?} is not a gate; write gates as time_to_first_token:p99<=250ms, with one of <=, <, >=, \
         > and =="
    )]
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
        statistic: &'static str,
        /// The statistics that it has.
        others: String,
    },
    /// The limit is not a number.
    #[error("{0:?} is not a limit; write a finite number, with ns, us, ms, s, % or no unit")]
    Limit(String),
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
    /// The text is not a limit in percent.
    #[error(
        "{0:?} is not a limit on a difference; write a percentage, as in request_throughput>=-5%"
    )]
    Relative(String),
    /// The statistic cannot be compared.
    #[error(
        "{statistic} of {tag} cannot be compared; use avg or a percentile of a metric of each request, \
         or one of request_throughput, output_token_throughput, goodput, good_request_fraction and \
         request_error_rate"
    )]
    NotCompared {
        /// The metric.
        tag: MetricTag,
        /// The statistic.
        statistic: &'static str,
    },
    /// The limit does not permit a small change for the worse.
    #[error("the gate on {tag} must limit a change for the worse; write {tag}{form}")]
    Direction {
        /// The metric.
        tag: MetricTag,
        /// The form of the limit.
        form: &'static str,
    },
    /// The limit of client health is not a verdict.
    #[error(
        "the gate on client health is client_health==valid or client_health==suspect, not {0:?}"
    )]
    ClientHealth(String),
}

impl FromStr for Gate {
    type Err = GateError;

    fn from_str(text: &str) -> Result<Self, GateError> {
        let malformed = || GateError::Malformed(text.to_owned());
        let plain = text.trim();
        let condition = if let Some(rest) = plain.strip_prefix("server:") {
            server(rest).ok_or_else(malformed)??
        } else {
            let (subject, operator, limit) = split(plain).ok_or_else(malformed)?;
            match subject {
                "" => return Err(malformed()),
                "client_health" => client_health(operator, limit)
                    .ok_or_else(|| GateError::ClientHealth(text.to_owned()))?,
                _ => client(subject, operator, limit)?,
            }
        };
        Ok(Self { text: plain.to_owned(), condition })
    }
}

/// Splits `text` at its first operator.
fn split(text: &str) -> Option<(&str, Operator, &str)> {
    let (subject, rest) = text.split_at(text.find(['<', '>', '=', '!'])?);
    let (symbol, operator) = Operator::ALL.iter().find(|(symbol, _)| rest.starts_with(symbol))?;
    Some((subject.trim(), *operator, rest[symbol.len()..].trim()))
}

fn client_health(operator: Operator, limit: &str) -> Option<Condition> {
    let verdicts = [Verdict::Valid, Verdict::Suspect, Verdict::Invalid];
    let verdict = verdicts.into_iter().find(|verdict| verdict.as_str() == limit)?;
    (operator == Operator::Equal).then_some(Condition::ClientHealth(verdict))
}

fn client(subject: &str, operator: Operator, limit: &str) -> Result<Condition, GateError> {
    let subject = measured(subject)?;
    let Subject { metric, statistic, .. } = subject;
    let quantity = quantity(limit)?;
    let unit = unit(metric, statistic);
    let limit = quantity.in_unit(unit).ok_or_else(|| GateError::Unit {
        suffix: quantity.suffix.map_or("", Suffix::name),
        subject: format!("{}:{}", metric.tag, statistic.name),
        unit: unit.label(),
    })?;
    Ok(Condition::Metric { subject, operator, limit })
}

/// Parses a metric and its statistic.
fn measured(text: &str) -> Result<Subject, GateError> {
    let of_steady = text.strip_prefix(Subject::STEADY);
    let subject = of_steady.unwrap_or(text).trim();
    let (name, statistic) = match subject.split_once(':') {
        Some((name, statistic)) => (name.trim(), Some(statistic.trim())),
        None => (subject, None),
    };
    let metric = find(name).ok_or_else(|| GateError::UnknownMetric {
        tag: name.to_owned(),
        near: names_like(name, |_| true),
    })?;
    let names = |statistics: &mut dyn Iterator<Item = &Statistic>| {
        statistics.map(|statistic| statistic.name).collect::<Vec<_>>().join(", ")
    };
    let statistic = match statistic {
        None => Statistic::AVG,
        Some(name) => Statistic::named(name).ok_or_else(|| {
            let all = names(&mut Statistic::ALL.iter());
            GateError::UnknownStatistic(name.to_owned(), all)
        })?,
    };
    if !metric.has(statistic) {
        return Err(GateError::NoStatistic {
            tag: metric.tag,
            statistic: statistic.name,
            others: names(&mut Statistic::ALL.iter().filter(|known| metric.has(**known))),
        });
    }
    Ok(Subject { metric, statistic, is_steady: of_steady.is_some() })
}

/// Returns the unit of a statistic.
pub(super) fn unit(metric: &Metric, statistic: Statistic) -> Unit {
    if statistic.name == "count" { Unit::Count } else { metric.display_unit }
}

/// Parses a gate on a server's metric; `None` if it does not have that form.
fn server(text: &str) -> Option<Result<Condition, GateError>> {
    let (name, labels, rest) = exposition::series(text)?;
    // Without braces, the name has taken the statistic.
    let has_braces = text[..text.len() - rest.len()].contains('{');
    let (after, operator, limit) = split(rest)?;
    let (name, statistic) = match (after.strip_prefix(':'), name.rsplit_once(':')) {
        (Some(statistic), _) => (&*name, statistic.trim()),
        _ if !after.is_empty() => return None,
        (None, Some((name, statistic))) if !has_braces && Stats::has_any(statistic) => {
            (name, statistic)
        }
        (None, _) => (&*name, Statistic::AVG.name),
    };
    if name.is_empty() {
        return None;
    }
    if !Stats::has_any(statistic) {
        let known = "avg, min, max, std, p1 to p99, total, rate, count, sum, count_rate, sum_rate";
        return Some(Err(GateError::UnknownStatistic(statistic.to_owned(), known.to_owned())));
    }
    let labels =
        labels.into_iter().map(|label| (label.name.into_owned(), label.value.into_owned()));
    let series =
        Series { name: name.to_owned(), labels: labels.collect(), statistic: statistic.to_owned() };
    Some(quantity(limit).map(|limit| Condition::Server { series, operator, limit }))
}

fn quantity(text: &str) -> Result<Quantity, GateError> {
    let of = |(name, suffix): &(&str, Suffix)| Some((text.strip_suffix(name)?, Some(*suffix)));
    let (number, suffix) = Suffix::ALL.iter().find_map(of).unwrap_or((text, None));
    let number = number.trim().replace('_', "").parse::<f64>();
    let number = number.ok().filter(|number| number.is_finite());
    let number = number.ok_or_else(|| GateError::Limit(text.to_owned()))?;
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
    pub(super) fn in_named_unit(self, unit: Option<&str>) -> Option<f64> {
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

/// A limit on the difference between two runs, as in `request_throughput:avg>=-5%`.
#[derive(Debug, Clone)]
pub struct RelativeGate {
    text: String,
    pub(super) subject: Subject,
    pub(super) operator: Operator,
    /// In percent of the value of the base.
    pub(super) limit_percent: f64,
}

impl FromStr for RelativeGate {
    type Err = GateError;

    fn from_str(text: &str) -> Result<Self, GateError> {
        let plain = text.trim();
        let relative = || GateError::Relative(text.to_owned());
        let (subject, operator, limit) = split(plain).ok_or_else(relative)?;
        let subject = measured(subject)?;
        let Subject { metric, statistic, .. } = subject;
        if !is_comparable(metric, statistic) {
            return Err(GateError::NotCompared { tag: metric.tag, statistic: statistic.name });
        }
        let quantity = quantity(limit)?;
        if quantity.suffix != Some(Suffix::Percent) {
            return Err(relative());
        }
        let limit_percent = quantity.number;
        let larger_is_better = larger_is_better(metric);
        let is_of_direction = match operator {
            Operator::AtLeast | Operator::Above => larger_is_better && limit_percent <= 0.0,
            Operator::AtMost | Operator::Below => !larger_is_better && limit_percent >= 0.0,
            Operator::Equal => false,
        };
        if !is_of_direction {
            let form = if larger_is_better { ">=-5%" } else { "<=5%" };
            return Err(GateError::Direction { tag: metric.tag, form });
        }
        Ok(Self { text: plain.to_owned(), subject, operator, limit_percent })
    }
}

impl fmt::Display for RelativeGate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

impl Gate {
    /// Returns whether it limits a server metric.
    #[must_use]
    pub(crate) const fn is_of_server(&self) -> bool {
        matches!(self.condition, Condition::Server { .. })
    }
}

impl fmt::Display for Gate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

impl Serialize for Gate {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(&self.text)
    }
}

impl<'de> Deserialize<'de> for Gate {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        String::deserialize(deserializer)?.parse().map_err(de::Error::custom)
    }
}

#[cfg(test)]
mod tests;
