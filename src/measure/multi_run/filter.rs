//! Conditions on the results of a cell (`--search-sla`).

use std::fmt;

use serde::{Deserialize, Serialize};

use base::setting::{Named as _, named};

use super::Trials;
use crate::metrics::limit::{Limit, Operator};
use crate::metrics::metric::{Metric, Statistic};
use crate::metrics::objective::find;
use crate::metrics::{MetricTag, Registry};

/// A condition on a statistic of a metric, in its display unit. Serialized as in AIPerf's files.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, schemars::JsonSchema)]
pub struct Filter {
    /// The metric.
    #[serde(rename = "metric_tag")]
    #[schemars(with = "String")]
    pub metric: MetricTag,
    /// Its statistic, such as `p95`.
    #[serde(rename = "stat")]
    pub statistic: String,
    /// How it is compared with the threshold.
    pub op: Comparison,
    /// The threshold.
    pub threshold: f64,
}

impl fmt::Display for Filter {
    /// Writes `metric:statistic:operator:threshold`, which [`Filter::parse`] reads.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { metric, statistic, op, threshold } = self;
        write!(f, "{metric}:{statistic}:{}:{threshold}", op.name())
    }
}

/// How a value is compared with a threshold.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Comparison {
    /// Less than.
    Below,
    /// At most.
    AtMost,
    /// Greater than.
    Above,
    /// At least.
    AtLeast,
}

named! { Comparison { "lt" => Below, "le" => AtMost, "gt" => Above, "ge" => AtLeast } }

impl Comparison {
    /// Returns the comparison of a limit; `None` for equality.
    const fn from_operator(operator: Operator) -> Option<Self> {
        Some(match operator {
            Operator::Below => Self::Below,
            Operator::AtMost => Self::AtMost,
            Operator::Above => Self::Above,
            Operator::AtLeast => Self::AtLeast,
            Operator::Equal => return None,
        })
    }

    pub fn holds(self, value: f64, threshold: f64) -> bool {
        match self {
            Self::Below => value < threshold,
            Self::AtMost => value <= threshold,
            Self::Above => value > threshold,
            Self::AtLeast => value >= threshold,
        }
    }

    /// Returns whether values must not be above the threshold.
    pub const fn is_upper(self) -> bool {
        matches!(self, Self::Below | Self::AtMost)
    }

    /// Returns it in words, to be followed by the threshold.
    pub const fn in_words(self) -> &'static str {
        match self {
            Self::Below => "below",
            Self::AtMost => "at most",
            Self::Above => "above",
            Self::AtLeast => "at least",
        }
    }
}

/// Returns the metric called `name` if it has the `statistic`, or why not.
pub fn statistic_of(name: &str, statistic: &str) -> Result<&'static Metric, String> {
    let metric = find(name)
        .ok_or_else(|| format!("unknown metric {name:?}; `aiperf list metrics` lists them"))?;
    match Statistic::named(statistic) {
        Some(found) if metric.has(found) => Ok(metric),
        _ => Err(format!("{} does not have {statistic:?}", metric.tag)),
    }
}

impl Filter {
    /// Creates a filter of a statistic that the metric has.
    pub fn new(metric: MetricTag, statistic: &str, op: Comparison, threshold: f64) -> Self {
        Self { metric, statistic: statistic.to_owned(), op, threshold }
    }

    /// Parses `METRIC:STATISTIC<=LIMIT`, or `METRIC:STATISTIC:OPERATOR:THRESHOLD` as in AIPerf.
    pub fn parse(text: &str) -> Result<Self, String> {
        if text.contains(['<', '>', '=']) {
            let parsed = Limit::parse(text).map_err(|error| error.to_string())?;
            let op = Comparison::from_operator(parsed.operator)
                .ok_or("a condition is an upper or a lower limit; use <=, <, >= or >")?;
            return Ok(Self::new(
                parsed.metric.tag,
                &parsed.statistic.to_string(),
                op,
                parsed.bound,
            ));
        }
        let parts: Vec<&str> = text.split(':').map(str::trim).collect();
        let [name, statistic, op, threshold] = parts[..] else {
            return Err("expected METRIC:STATISTIC<=LIMIT, such as time_to_first_token:p95<=200ms"
                .to_owned());
        };
        let op = Comparison::named(op)
            .ok_or_else(|| format!("unknown operator {op:?}; use lt, le, gt or ge"))?;
        let threshold = threshold.parse().ok().filter(|it: &f64| it.is_finite());
        let threshold = threshold.ok_or("the threshold must be a finite number")?;
        let statistic = statistic.to_ascii_lowercase();
        let metric = statistic_of(name, &statistic)?.tag;
        Ok(Self { metric, statistic, op, threshold })
    }

    /// Returns the mean of the statistic over the runs of a cell, and whether it meets the
    /// condition, which a value that does not exist does not.
    #[must_use]
    pub fn evaluate(&self, trials: &Trials) -> (Option<f64>, bool) {
        let observed = trials.mean(self.metric, &self.statistic);
        (observed, observed.is_some_and(|value| self.op.holds(value, self.threshold)))
    }

    /// Returns a name such as `time_to_first_token_p95`.
    #[must_use]
    pub fn key(&self) -> String {
        format!("{}_{}", self.metric, self.statistic)
    }

    /// Returns the metric's row in the catalogue.
    #[must_use]
    pub fn row(&self) -> Option<&'static Metric> {
        Registry::row(self.metric)
    }
}

/// Returns whether all runs of a cell succeeded and it meets all `filters`.
#[must_use]
pub fn is_feasible(filters: &[Filter], trials: &Trials) -> bool {
    let are_whole = trials.failed().next().is_none() && trials.successful().next().is_some();
    are_whole && filters.iter().all(|filter| filter.evaluate(trials).1)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::metrics::tag;

    #[test]
    fn filters_have_four_parts() {
        let expected = Filter::new(tag::TIME_TO_FIRST_TOKEN, "p95", Comparison::Below, 200.0);
        assert_eq!(Filter::parse("time_to_first_token:p95:lt:200").unwrap(), expected);
        assert_eq!(Filter::parse("ttft:P95:LT:2e2").unwrap(), expected);
        assert_eq!(Filter::parse(&expected.to_string()).unwrap(), expected);
        assert_eq!(Filter::parse("ttft:p95<200ms").unwrap(), expected);
        assert_eq!(Filter::parse("ttft:p95 < 0.2s").unwrap(), expected);
        for (text, why) in [
            ("ttft:p95:lt", "expected METRIC:"),
            ("ttft:p95==1", "an upper or a lower limit"),
            ("ttft:p95<=1%", "does not fit"),
            ("ttft:p100<=1", "unknown statistic"),
            ("ttft:p95:lt:1:2", "expected METRIC:"),
            ("nothing:p95:lt:1", "unknown metric"),
            ("ttft:p100:lt:1", "does not have \"p100\""),
            ("goodput:p95:lt:1", "does not have \"p95\""),
            ("ttft:p95:below:1", "unknown operator"),
            ("ttft:p95:lt:inf", "finite"),
        ] {
            let found = Filter::parse(text).unwrap_err();
            assert!(found.contains(why), "{text}: {found}");
        }
    }

    #[test]
    fn comparisons_differ_at_the_threshold() {
        let holds = |value| {
            ["lt", "le", "gt", "ge"].map(|op| Comparison::named(op).unwrap().holds(value, 2.0))
        };
        assert_eq!(holds(1.0), [true, true, false, false]);
        assert_eq!(holds(2.0), [false, true, false, true]);
        assert_eq!(holds(3.0), [false, false, true, true]);
        assert_eq!(holds(f64::NAN), [false; 4]);
    }
}
