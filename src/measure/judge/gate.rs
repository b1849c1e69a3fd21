//! The grammar of gates.
//!
//! ```text
//! gate      = [phase] client (operator) quantity ["@" confidence "%"]
//!           | [phase] server (operator) quantity
//!           | "finish_reason:" reason (operator) quantity
//!           | "corrupted_outputs" (operator) number
//!           | ("client_health" | "load_health" | "output_health") "==" verdict
//! phase     = "phase:" name ":"
//! client    = ["steady:"] tag [":" statistic]
//! server    = "server:" name [labels] [":" statistic]
//! labels    = "{" name "=" '"' value '"' … "}", as in Prometheus
//! operator  = "<=" | "<" | ">=" | ">" | "=="
//! quantity  = number ["ns" | "us" | "ms" | "s" | "%"]
//! ```

use std::fmt;
use std::str::FromStr;
use std::sync::Arc;

use serde::{Deserialize, Deserializer, Serialize, Serializer, de};
use thiserror::Error;

use super::certainty::has_values;
use super::compare::{is_comparable, larger_is_better};
use crate::metrics::health::LoadVerdict;
use crate::metrics::limit::{self, LimitError, Operator, Quantity, Suffix, quantity, split};
use crate::metrics::metric::{LatencyFrom, Metric, Percent, Statistic};
use crate::metrics::{MetricTag, Verdict};
use crate::server_metrics::exposition;
use crate::server_metrics::report::Stats;

/// A limit that a run must keep, as in `time_to_first_token:p99<=250ms`.
#[derive(Debug, Clone)]
pub struct Gate {
    text: String,
    /// The phase whose results it limits; absent for those of the whole run.
    pub(super) phase: Option<Arc<str>>,
    pub(super) condition: Condition,
}

/// What a gate requires.
#[derive(Debug, Clone)]
pub(super) enum Condition {
    /// A limit on a statistic of a metric, in its display unit; with a confidence, on the bound of a
    /// percentile.
    Metric { subject: Subject, operator: Operator, limit: f64, confidence: Option<Percent> },
    /// A limit on a statistic of the matching series of a server's metric.
    Server { series: Series, operator: Operator, limit: Quantity },
    /// A limit on the requests whose output ended for a reason: on their number, or in percent of
    /// those that have any reason.
    FinishReason { reason: String, operator: Operator, limit: Quantity },
    /// The verdict on client health.
    ClientHealth(Verdict),
    /// The verdict on the load.
    LoadHealth(LoadVerdict),
    /// The verdict on the outputs.
    OutputHealth(Verdict),
    /// A limit on the number of corrupted outputs.
    CorruptedOutputs { operator: Operator, limit: f64 },
}

/// What the gates on finish reasons begin with.
const FINISH_REASON: &str = "finish_reason:";

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
            && self.statistic == other.statistic
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

/// The reason why a text is not a gate.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum GateError {
    /// The text does not have the form of a gate.
    #[error(
        "{0:?} is not a gate; write gates as time_to_first_token:p99<=250ms, with one of <=, <, >=, \
         > and =="
    )]
    Malformed(String),
    /// Its metric, its statistic or its limit is not valid.
    #[error(transparent)]
    Limit(#[from] LimitError),
    /// The confidence is not a percentage.
    #[error(
        "the confidence of {0:?} is not valid; write a percentage of at least 50% and below 100%, as \
         in time_to_first_token:p99<=250ms@99%"
    )]
    Confidence(String),
    /// What is limited does not have a bound.
    #[error(
        "{0:?} cannot have a confidence; only an upper or a lower limit on a percentile of a metric of \
         each request can, over the whole run, as in time_to_first_token:p99<=250ms@99%"
    )]
    NotBounded(String),
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
        statistic: Statistic,
    },
    /// The limit does not permit a small change for the worse.
    #[error("the gate on {tag} must limit a change for the worse; write {tag}{form}")]
    Direction {
        /// The metric.
        tag: MetricTag,
        /// The form of the limit.
        form: &'static str,
    },
    /// A limit on a finish reason is not a number of requests or a percentage.
    #[error(
        "{0:?} is not a limit on a finish reason; write a number of requests or a percentage of them, \
         as in finish_reason:content_filter<=5%"
    )]
    FinishReason(String),
    /// The limit of client health is not a verdict.
    #[error(
        "the gate on client health is client_health==valid or client_health==suspect, not {0:?}"
    )]
    ClientHealth(String),
    /// The limit of the outputs' health is not a verdict.
    #[error("the gate on outputs is output_health==valid or output_health==suspect, not {0:?}")]
    OutputHealth(String),
    /// The limit on corrupted outputs is not a number.
    #[error(
        "the gate on corrupted outputs limits their number, as in corrupted_outputs<=0, not {0:?}"
    )]
    CorruptedOutputs(String),
    /// What is limited is that of the whole run.
    #[error(
        "{0:?} is not a gate on a phase; verdicts are those of the whole run, and metrics have a value \
         for each phase, as in phase:storm:time_to_first_token:p99<=250ms"
    )]
    OfPhase(String),
    /// The limit of the load is not a verdict.
    #[error(
        "the gate on the load is load_health==sustained, or another of its verdicts, not {0:?}"
    )]
    LoadHealth(String),
}

impl FromStr for Gate {
    type Err = GateError;

    fn from_str(text: &str) -> Result<Self, GateError> {
        let malformed = || GateError::Malformed(text.to_owned());
        let plain = text.trim();
        let (phase, of_phase) = match plain.strip_prefix(PHASE) {
            Some(rest) => {
                let (name, rest) = rest.split_once(':').ok_or_else(malformed)?;
                (Some(Arc::from(name.trim())), rest.trim())
            }
            None => (None, plain),
        };
        let condition = if let Some(rest) = of_phase.strip_prefix("server:") {
            server(rest).ok_or_else(malformed)??
        } else {
            let (subject, operator, limit) = split(of_phase).ok_or_else(malformed)?;
            match subject {
                "" => return Err(malformed()),
                "client_health" => verdict(operator, limit)
                    .map(Condition::ClientHealth)
                    .ok_or_else(|| GateError::ClientHealth(text.to_owned()))?,
                "output_health" => verdict(operator, limit)
                    .map(Condition::OutputHealth)
                    .ok_or_else(|| GateError::OutputHealth(text.to_owned()))?,
                "corrupted_outputs" => match quantity(limit)? {
                    Quantity { suffix: None, number } => {
                        Condition::CorruptedOutputs { operator, limit: number }
                    }
                    _ => return Err(GateError::CorruptedOutputs(text.to_owned())),
                },
                "load_health" => load_health(operator, limit)
                    .ok_or_else(|| GateError::LoadHealth(text.to_owned()))?,
                _ => match subject.strip_prefix(FINISH_REASON) {
                    Some(reason) => finish_reason(text, reason, operator, limit)?,
                    None => client(text, subject, operator, limit)?,
                },
            }
        };
        let has_phases = matches!(condition, Condition::Metric { .. } | Condition::Server { .. });
        if phase.is_some() && !has_phases {
            return Err(GateError::OfPhase(text.to_owned()));
        }
        Ok(Self { text: plain.to_owned(), phase, condition })
    }
}

/// Prefix of the name of the phase whose results are limited.
const PHASE: &str = "phase:";

fn finish_reason(
    text: &str,
    reason: &str,
    operator: Operator,
    limit: &str,
) -> Result<Condition, GateError> {
    let limit = quantity(limit)?;
    let (reason, fits) = (reason.trim(), matches!(limit.suffix, None | Some(Suffix::Percent)));
    if reason.is_empty() || !fits {
        return Err(GateError::FinishReason(text.to_owned()));
    }
    Ok(Condition::FinishReason { reason: reason.to_owned(), operator, limit })
}

fn verdict(operator: Operator, limit: &str) -> Option<Verdict> {
    let found = Verdict::ALL.into_iter().find(|verdict| verdict.as_str() == limit);
    found.filter(|_| operator == Operator::Equal)
}

fn load_health(operator: Operator, limit: &str) -> Option<Condition> {
    let verdict = LoadVerdict::ALL.into_iter().find(|verdict| verdict.as_str() == limit)?;
    (operator == Operator::Equal).then_some(Condition::LoadHealth(verdict))
}

fn client(
    text: &str,
    subject: &str,
    operator: Operator,
    limit: &str,
) -> Result<Condition, GateError> {
    let (subject, operator, limit) = limit::of_errors(subject, operator, limit)?;
    let subject = measured(subject)?;
    let (limit, confidence) = match limit.rsplit_once('@') {
        None => (&*limit, None),
        Some((limit, level)) => (limit.trim(), Some(confidence(text, subject, operator, level)?)),
    };
    let limit = limit::in_unit_of(subject.metric, subject.statistic, limit)?;
    Ok(Condition::Metric { subject, operator, limit, confidence })
}

/// Parses the confidence with which a gate limits its subject.
fn confidence(
    text: &str,
    subject: Subject,
    operator: Operator,
    level: &str,
) -> Result<Percent, GateError> {
    let Subject { metric, statistic, is_steady } = subject;
    let is_bounded = matches!(statistic, Statistic::Percentile(_))
        && has_values(metric)
        && !is_steady
        && operator != Operator::Equal;
    if !is_bounded {
        return Err(GateError::NotBounded(text.to_owned()));
    }
    let level = level.trim().strip_suffix('%').and_then(|level| level.trim().parse().ok());
    let level = level.filter(|level: &Percent| level.share() >= 0.5);
    level.ok_or_else(|| GateError::Confidence(text.to_owned()))
}

/// Parses a metric and its statistic, of the steady state if it says so.
fn measured(text: &str) -> Result<Subject, LimitError> {
    let of_steady = text.strip_prefix(Subject::STEADY);
    let (metric, statistic) = limit::measured(of_steady.unwrap_or(text))?;
    Ok(Subject { metric, statistic, is_steady: of_steady.is_some() })
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
        (None, _) => (&*name, "avg"),
    };
    if name.is_empty() {
        return None;
    }
    if !Stats::has_any(statistic) {
        let known = "avg, min, max, std, p1 to p99, total, rate, count, sum, count_rate, sum_rate";
        return Some(Err(
            LimitError::UnknownStatistic(statistic.to_owned(), known.to_owned()).into()
        ));
    }
    let labels =
        labels.into_iter().map(|label| (label.name.into_owned(), label.value.into_owned()));
    let series =
        Series { name: name.to_owned(), labels: labels.collect(), statistic: statistic.to_owned() };
    let limit = quantity(limit).map_err(GateError::from);
    Some(limit.map(|limit| Condition::Server { series, operator, limit }))
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
            return Err(GateError::NotCompared { tag: metric.tag, statistic });
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
    /// Returns the gate on the same latency from the time that `from` says.
    #[must_use]
    pub fn counting(self, from: LatencyFrom) -> Self {
        let Condition::Metric { subject: Subject { metric, .. }, .. } = &self.condition else {
            return self;
        };
        let (known, wanted) = (metric.tag, from.judged_metric(metric.tag));
        if known == wanted {
            return self;
        }
        // The name may be an abbreviation.
        let rest = match self.text.strip_prefix(PHASE).and_then(|rest| rest.split_once(':')) {
            Some((_, rest)) => rest.trim_start(),
            None => &self.text,
        };
        let rest = rest.strip_prefix(Subject::STEADY).unwrap_or(rest);
        let prefix = &self.text[..self.text.len() - rest.len()];
        let end = rest.find([':', '<', '>', '=']).unwrap_or(rest.len());
        format!("{prefix}{wanted}{}", &rest[end..]).parse().unwrap_or(self)
    }

    /// Returns the name of the phase whose results it limits; `None` for those of the whole run.
    #[must_use]
    pub fn phase(&self) -> Option<&str> {
        self.phase.as_deref()
    }

    /// Returns whether it limits a server metric.
    #[must_use]
    pub const fn is_of_server(&self) -> bool {
        matches!(self.condition, Condition::Server { .. })
    }

    /// Returns what it limits as gates name it, without the statistic and the labels of a server's
    /// series.
    #[must_use]
    pub fn metric(&self) -> String {
        let phase = self.phase.iter().map(|name| format!("{PHASE}{name}:"));
        let phase: String = phase.collect();
        match &self.condition {
            Condition::Metric { subject, .. } => {
                let prefix = if subject.is_steady { Subject::STEADY } else { "" };
                format!("{phase}{prefix}{}", subject.metric.tag)
            }
            Condition::Server { series, .. } => format!("{phase}server:{}", series.name),
            Condition::FinishReason { reason, .. } => format!("{FINISH_REASON}{reason}"),
            Condition::ClientHealth(_) => "client_health".to_owned(),
            Condition::LoadHealth(_) => "load_health".to_owned(),
            Condition::OutputHealth(_) => "output_health".to_owned(),
            Condition::CorruptedOutputs { .. } => "corrupted_outputs".to_owned(),
        }
    }

    /// Returns the percentile of the client's metrics that it limits.
    #[must_use]
    pub fn percentile(&self) -> Option<Percent> {
        match &self.condition {
            Condition::Metric { subject, .. } => subject.statistic.percentile(),
            _ => None,
        }
    }

    /// Returns the statistic that it limits; `None` for a verdict.
    #[must_use]
    pub fn statistic(&self) -> Option<String> {
        match &self.condition {
            Condition::Metric { subject, .. } => Some(subject.statistic.to_string()),
            Condition::Server { series, .. } => Some(series.statistic.clone()),
            Condition::FinishReason { .. }
            | Condition::ClientHealth(_)
            | Condition::LoadHealth(_)
            | Condition::OutputHealth(_)
            | Condition::CorruptedOutputs { .. } => None,
        }
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
