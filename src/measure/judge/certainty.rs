//! Percentiles that are limited with a confidence, as in `time_to_first_token:p99<=250ms@99%`.
//!
//! The percentile is below the limit if the share of values beyond the limit is small enough. If it were
//! not, so few values beyond it would have a probability of at most one minus the confidence: the exact
//! binomial test of the early stopping of MLPerf's LoadGen (`loadgen/early_stopping.cc`, with the
//! tolerance 0). Like there, values are taken as independent.

use serde::Serialize;

use base::statistics::interval::Measured;
use base::statistics::percentile::sorted_at;
use base::statistics::proportion::Proportion;

use super::compare::{MIN_REQUESTS, Source};
use super::gate::{Condition, Gate, Subject};
use crate::metrics::limit::Operator;
use crate::metrics::metric::{MetricKind, Percent, Statistic};
use crate::metrics::{Accumulator, LongRun, Metric, tag};

/// What the values of a run say of a percentile that is limited with a confidence.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, schemars::JsonSchema)]
pub struct Certainty {
    /// The confidence in percent.
    #[schemars(with = "f64")]
    pub percent: Percent,
    /// Number of values; for a metric with failures, including these.
    pub values: u64,
    /// Number of values beyond the limit.
    pub beyond: u64,
    /// The most values that may be beyond the limit; absent if there are too few values.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub permitted: Option<u64>,
    /// The least number of further values with which the gate would hold if none of them were beyond
    /// the limit; absent if it holds.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub more_needed: Option<u64>,
    /// What the percentile is not beyond with the confidence, in the display unit; infinite if a failure
    /// is, and absent if there are too few values.
    #[serde(skip)]
    pub bound: Option<f64>,
}

/// What the values of a phase say of a gate, besides its results.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct Basis {
    /// Of a percentile that is limited with a confidence.
    pub(super) certainty: Option<Certainty>,
    /// What rates are in the long run.
    pub(super) long_run: LongRun,
    /// Half the width of the 95% interval of a rate, as a share of it.
    pub(super) rate_error: Option<f64>,
}

/// Returns, for each of `gates`, what the values say of it that it limits: of the measurement, without a
/// name, or of the phase with a name, each with the requests per second that it was to send, if that is a
/// certain number.
#[must_use]
pub fn bases<'a>(
    gates: &[Gate],
    values: impl Fn(Option<&str>) -> Option<(&'a Accumulator, Option<f64>)>,
) -> Vec<Basis> {
    let certainty = |gate: &Gate| {
        let Some((phase, asked)) = values(gate.phase()) else { return Basis::default() };
        Basis {
            certainty: Certainty::for_gate(gate, phase),
            long_run: phase.long_run(asked),
            rate_error: rate_error(gate, phase),
        }
    };
    gates.iter().map(certainty).collect()
}

/// Returns half the width of the 95% interval of the rate that a gate limits, as a share of it; `None` if it
/// does not limit one whose interval is known.
fn rate_error(gate: &Gate, phase: &Accumulator) -> Option<f64> {
    let Condition::Metric { subject, .. } = &gate.condition else { return None };
    let summed = match Source::for_statistic(subject.metric, subject.statistic)? {
        Source::SuccessRate => tag::REQUEST_COUNT,
        Source::Rate(tag) => tag,
        _ => return None,
    };
    let is_enough = phase.request_count() >= MIN_REQUESTS && !subject.is_steady;
    let found = is_enough.then(|| phase.rate_of(summed)).flatten()?;
    let value = found.weight / found.seconds;
    let measured =
        Measured::of_sum(value, found.seconds, found.exactness, found.batch, phase.request_count());
    Some(measured.half_width(0.95)? / value).filter(|error| error.is_finite())
}

/// Returns whether percentiles of `metric` can be limited with a confidence.
pub(super) fn has_values(metric: &Metric) -> bool {
    matches!(metric.kind, MetricKind::Record(_) | MetricKind::WithFailures(_))
}

impl Certainty {
    fn for_gate(gate: &Gate, phase: &Accumulator) -> Option<Self> {
        let Condition::Metric { subject, operator, limit, confidence } = &gate.condition else {
            return None;
        };
        let Subject { metric, statistic: Statistic::Percentile(percentile), .. } = *subject else {
            return None;
        };
        let (tag, failures) = match metric.kind {
            MetricKind::WithFailures(of) => (of, phase.failures()),
            _ => (metric.tag, 0),
        };
        let column = phase.column(tag)?;
        let values = || column.iter();
        Self::of_values(values, failures, percentile, (*operator, *limit), (*confidence)?)
    }

    /// Returns what `values` and so many infinite ones say of a percentile and its limit; `None` if there
    /// are none.
    fn of_values<I: Iterator<Item = f64>>(
        values: impl Fn() -> I,
        failures: u64,
        percentile: Percent,
        (operator, limit): (Operator, f64),
        confidence: Percent,
    ) -> Option<Self> {
        let finite = values().count() as u64;
        let count = finite + failures;
        let is_upper = matches!(operator, Operator::AtMost | Operator::Below);
        let beyond = values().filter(|value| !operator.holds(*value, limit)).count() as u64
            + if is_upper { failures } else { 0 };
        let share = if is_upper { percentile.share_above() } else { percentile.share() };
        let tail = confidence.share_above();
        let found = Proportion { hits: beyond as f64, trials: count as f64 };
        let permitted = Proportion::most_hits(count, share, tail);
        let bound = permitted.map(|most| {
            let rank = if is_upper { count - 1 - most } else { most };
            let at = sorted_at(values, [rank]);
            at.get(&rank).copied().unwrap_or(f64::INFINITY)
        });
        let is_certain = permitted.is_some_and(|most| beyond <= most);
        let more_needed = (!is_certain).then(|| found.more_trials(share, tail));
        let percent = confidence;
        (count > 0).then_some(Self {
            percent,
            values: count,
            beyond,
            permitted,
            more_needed,
            bound,
        })
    }

    /// Returns what the result of the gate on `subject` is based on, and what it lacks.
    pub(super) fn note(&self, subject: Subject) -> String {
        let Self { percent, values, beyond, permitted, more_needed, .. } = *self;
        let counted = match permitted {
            None => format!(
                "{values} requests are too few to tell {} with {percent}% confidence",
                subject.statistic
            ),
            Some(most) => format!(
                "the bound of {} with {percent}% confidence; {beyond} of {values} requests are \
                 beyond the limit, at most {most} may be",
                subject.statistic
            ),
        };
        match more_needed {
            None => counted,
            Some(1) => format!("{counted}; at least 1 more request within the limit is needed"),
            Some(more) => {
                format!("{counted}; at least {more} more requests within the limit are needed")
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn percent(text: &str) -> Percent {
        text.parse().unwrap()
    }

    /// The values 1 to `count`, against an upper limit that `beyond` of them are beyond.
    fn upper(count: u32, beyond: u32, percentile: &str) -> Certainty {
        let values = || (1..=count).rev().map(f64::from);
        let limit = (Operator::AtMost, f64::from(count - beyond));
        Certainty::of_values(values, 0, percent(percentile), limit, percent("99")).unwrap()
    }

    #[test]
    fn the_bound_is_the_value_that_the_permitted_ones_are_beyond() {
        // scipy.stats.binom.cdf(t, 1000, 0.01) is 0.00277 for t = 2 and 0.0101 for 3: two may be beyond
        // the limit, so that the bound of p99 is the third largest value.
        let held = upper(1000, 2, "99");
        let expected = (2, Some(2), None, Some(998.0));
        let members = |it: Certainty| (it.beyond, it.permitted, it.more_needed, it.bound);
        assert_eq!(members(held), expected);
        // With 3 beyond it: cdf(3, n, 0.01) <= 0.01 from n = 1001 on.
        assert_eq!(members(upper(1000, 3, "99")), (3, Some(2), Some(1), Some(998.0)));
        // With 10 beyond it, from n = 2010 on.
        assert_eq!(members(upper(1000, 10, "99")), (10, Some(2), Some(1010), Some(998.0)));
    }

    #[test]
    fn a_p99_needs_459_requests_as_in_mlperf() {
        let members = |it: Certainty| (it.permitted, it.more_needed, it.bound);
        assert_eq!(members(upper(458, 0, "99")), (None, Some(1), None));
        assert_eq!(members(upper(459, 0, "99")), (Some(0), None, Some(459.0)));
        // 0.999^4602 is 0.010009, 0.999^4603 is 0.009999.
        assert_eq!(members(upper(200, 0, "99.9")), (None, Some(4403), None));
    }

    #[test]
    fn lower_limits_count_the_values_below_them() {
        let values = || (1..=1000).map(f64::from);
        let limit = (Operator::AtLeast, 3.0);
        let found = Certainty::of_values(values, 0, percent("1"), limit, percent("99")).unwrap();
        assert_eq!((found.beyond, found.permitted, found.bound), (2, Some(2), Some(3.0)));
    }

    #[test]
    fn failures_are_beyond_an_upper_limit() {
        let values = || (1..=997).map(f64::from);
        let limit = (Operator::Below, 1e6);
        let found = Certainty::of_values(values, 3, percent("99"), limit, percent("99")).unwrap();
        let expected = (1000, 3, Some(2), Some(f64::INFINITY));
        assert_eq!((found.values, found.beyond, found.permitted, found.bound), expected);
        let none = || std::iter::empty();
        assert_eq!(Certainty::of_values(none, 0, percent("99"), limit, percent("99")), None);
    }
}
