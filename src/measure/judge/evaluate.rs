//! Compares results with gates.

use std::fmt;

use serde::Serialize;

use base::statistics::{Distribution, order};
use base::units::Unit;

use super::Undecided;
use super::certainty::{Basis, Certainty};
use super::gate::{Condition, Gate, Series, Subject};
use super::series::SeriesValue;
use crate::metrics::breakdown::PhaseResult;
use crate::metrics::health::{ClientBounds, LoadVerdict, OutputHealth};
use crate::metrics::limit::{Operator, Quantity, Suffix, unit};
use crate::metrics::metric::{Metric, MetricFlags, MetricResult, Statistic};
use crate::metrics::name_counts::NameCounts;
use crate::metrics::steady::{SteadyState, Unsteady};
use crate::metrics::tag::{self, MetricTag};
use crate::metrics::{LongRun, Registry, Verdict};
use crate::server_metrics::report::{MetricReport, ServerMetricsReport};

/// The results of a run that gates can limit.
#[derive(Debug, Clone, Copy)]
pub struct Facts<'a> {
    /// The results of the measurement.
    pub results: &'a [MetricResult],
    /// Those of each phase, if several are measured.
    pub phases: &'a [PhaseResult],
    /// Its steady state, or why there is none.
    pub steady_state: Result<&'a SteadyState, &'a Unsteady>,
    /// The statistics of server metrics, if any were scraped.
    pub server: Option<&'a ServerMetricsReport>,
    /// The verdict on client health.
    pub verdict: Option<Verdict>,
    /// The verdict on the load.
    pub load_verdict: Option<LoadVerdict>,
    /// The health of the outputs.
    pub outputs: Option<&'a OutputHealth>,
    /// Why the outputs of the profiling phase ended.
    pub finish_reasons: &'a NameCounts,
    /// How far the client may have shifted statistics of the profiling phase.
    pub bounds: ClientBounds,
    /// What the values say of the gate.
    pub basis: Basis,
}

/// How far a rate in the long run is from that in the files, as a share, for the difference to be stated.
const NOTABLE_SHARE: f64 = 0.001;

/// Counts that are absent if nothing was counted.
const COUNTS: [MetricTag; 3] =
    [tag::ERROR_REQUEST_COUNT, tag::INCOMPLETE_HISTORY_COUNT, tag::CONTEXT_OVERFLOW_COUNT];

impl<'a> Facts<'a> {
    /// Returns the facts of the phase with this name, of which the client's errors are not known; `None`
    /// if there is none.
    fn of_phase(&self, name: &str) -> Option<Self> {
        let phase = self.phases.iter().find(|phase| *phase.name == *name)?;
        Some(Self {
            results: &phase.results,
            steady_state: phase.steady_state.as_ref(),
            bounds: ClientBounds::default(),
            ..*self
        })
    }

    /// Returns the server metrics of the phase with this name, or without one those of the measurement.
    fn server_metrics(&self, phase: Option<&str>) -> Option<&'a [MetricReport]> {
        let report = self.server?;
        let Some(name) = phase else { return Some(&report.metrics) };
        let index = self.phases.iter().position(|phase| *phase.name == *name)?;
        report.phases.get(index).map(Vec::as_slice)
    }

    /// Returns a statistic of a metric, of a rate that in the long run; or why the run does not have it. A
    /// count of requests is 0 without any, if there were others.
    fn value(&self, subject: Subject) -> Result<f64, String> {
        let results = if subject.is_steady {
            let steady = self.steady_state;
            &steady.map_err(|why| format!("the run does not have a steady state: {why}"))?.results
        } else {
            self.results
        };
        let find = |tag| results.iter().find(|result| result.metric.tag == tag);
        let tag = subject.metric.tag;
        let value = match find(tag) {
            Some(result) => subject.statistic.value_in(&result.stats),
            None if COUNTS.contains(&tag) => find(tag::COMPLETED_REQUEST_COUNT).map(|_| 0.0),
            None => None,
        };
        let value = value.filter(|value| !value.is_nan()).ok_or_else(|| missing(subject))?;
        let long_run = if subject.is_steady { LongRun::default() } else { self.basis.long_run };
        Ok(long_run.value(subject.metric, value))
    }

    /// Returns the distribution of a metric, if it has one.
    fn distribution(&self, subject: Subject) -> Option<&'a Distribution> {
        let results = match self.steady_state {
            _ if !subject.is_steady => self.results,
            Ok(steady) => &steady.results,
            Err(_) => return None,
        };
        let found = results.iter().find(|result| result.metric.tag == subject.metric.tag)?;
        found.stats.distribution.as_ref()
    }

    /// Returns the 95% interval of a rate with this `value`, and a note if the files have another value.
    fn of_rate(&self, subject: Subject, value: f64) -> (Option<[f64; 2]>, Option<String>) {
        let interval = self
            .basis
            .rate_error
            .map(|error| [-1.0, 1.0].map(|side| (value * (1.0 + side * error)).max(0.0)));
        let plain = Self { basis: Basis::default(), ..*self }.value(subject);
        let other = plain.ok().filter(|plain| (plain / value - 1.0).abs() > NOTABLE_SHARE);
        let note = other.map(|plain| {
            let plain = Reading::Number(plain);
            format!("in the long run; {plain} by the time until the last response")
        });
        (interval, note)
    }

    /// Returns the lowest and the highest value that a statistic may have, as far as the client is
    /// concerned.
    fn range(&self, subject: Subject, value: f64) -> Option<[f64; 2]> {
        let errors = self.bounds.errors(subject.metric, &subject.statistic.to_string(), value);
        let [below, above] = errors.filter(|_| !subject.is_steady)?;
        Some([value - below, value + above])
    }
}

/// A number or a word.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, schemars::JsonSchema)]
#[serde(untagged)]
pub enum Reading {
    Number(f64),
    Word(&'static str),
}

impl fmt::Display for Reading {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let value = match self {
            Self::Word(word) => return f.write_str(word),
            Self::Number(value) => *value,
        };
        let size = value.abs();
        if size >= 1e15 || (size > 0.0 && size < 1e-3) {
            return write!(f, "{value:.3e}");
        }
        let text = format!("{value:.4}");
        f.write_str(text.trim_end_matches('0').trim_end_matches('.'))
    }
}

/// A gate, compared with a run.
#[derive(Debug, Clone, PartialEq, Serialize, schemars::JsonSchema)]
pub struct Judged {
    /// The gate as given.
    pub gate: String,
    /// The value; absent if the run does not have it, or if it is infinite.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub value: Option<Reading>,
    #[serde(skip)]
    pub operator: &'static str,
    /// The limit in the unit of the value.
    pub limit: Reading,
    /// The unit of value and limit; empty without one.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub unit: String,
    /// The lowest and the highest value that the statistic may have, as far as the client is
    /// concerned; absent if that is unknown.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub range: Option<[f64; 2]>,
    /// The 95% interval of a rate; absent for other metrics, and with too few requests.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub interval: Option<[f64; 2]>,
    /// How far the value is within the limit, in percent of the limit; negative beyond it. Absent
    /// with `==`, for a limit of 0, and without a value.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub margin_percent: Option<f64>,
    pub held: bool,
    /// Whether there are too few requests for the percentile that it limits, so that it neither held nor was
    /// missed.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub undecided: bool,
    /// What the result is based on, if a percentile is limited with a confidence: the value is then the
    /// bound of the percentile.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub confidence: Option<Certainty>,
    /// Why there is no value, or which series the value is of.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub note: Option<String>,
}

/// The gates of one of the runs that a command performed.
#[derive(Debug, Clone)]
pub struct JudgedRun {
    /// Its label, if it is one of several.
    pub label: Option<String>,
    /// Why the run failed or is incomplete, if it is.
    pub failure: Option<String>,
    pub gates: Vec<Judged>,
}

impl JudgedRun {
    /// Returns whether all gates of all `runs` held.
    #[must_use]
    pub fn all_held(runs: &[Self]) -> bool {
        runs.iter().flat_map(|run| &run.gates).all(|judged| judged.held)
    }

    /// Returns whether a gate of `runs` was missed, not just left undecided.
    #[must_use]
    pub fn any_missed(runs: &[Self]) -> bool {
        runs.iter().flat_map(|run| &run.gates).any(|judged| !judged.held && !judged.undecided)
    }

    /// Counts gates that were left undecided as `undecided` says.
    pub fn count(runs: &mut [Self], undecided: Option<Undecided>) {
        let Some(undecided) = undecided else { return };
        for judged in runs.iter_mut().flat_map(|run| &mut run.gates).filter(|it| it.undecided) {
            judged.undecided = false;
            judged.held = undecided == Undecided::Pass;
        }
    }
}

impl Judged {
    /// Returns whether it held, in a word.
    #[must_use]
    pub const fn shown_result(&self) -> &'static str {
        match (self.held, self.undecided) {
            (true, _) => "yes",
            (false, true) => "undecided",
            (false, false) => "no",
        }
    }

    /// Returns the value with its unit; `N/A` without one.
    #[must_use]
    pub fn shown_value(&self) -> String {
        self.value.map_or_else(|| "N/A".to_owned(), |value| self.with_unit(&value.to_string()))
    }

    /// Returns operator and limit, as in `<= 250 ms`.
    #[must_use]
    pub fn shown_limit(&self) -> String {
        format!("{} {}", self.operator, self.with_unit(&self.limit.to_string()))
    }

    /// Returns the margin, as in `+7.4%`; `N/A` without one.
    #[must_use]
    pub fn shown_margin(&self) -> String {
        self.margin_percent.map_or_else(|| "N/A".to_owned(), |margin| format!("{margin:+.1}%"))
    }

    /// Adds the range of the value. If part of it is on the other side of the limit, the result
    /// depends on the client, and the note says so.
    fn within(self, range: Option<[f64; 2]>, operator: Operator, limit: f64) -> Self {
        let Some(range) = range else { return self };
        let depends = range.iter().any(|value| operator.holds(*value, limit) != self.held);
        let note = depends.then(|| {
            let [low, high] = range.map(|value| Reading::Number(value).to_string());
            format!(
                "the client was late to send or to read, so the value may be anything from {low} \
                 to {}",
                self.with_unit(&high)
            )
        });
        Self { range: Some(range), note: self.note.clone().or(note), ..self }
    }

    /// Leaves it undecided if there are too few values for the percentile of `subject`. If a percentile for
    /// which they are enough misses an upper limit already, one further out does so as well; if it keeps a
    /// lower one, likewise.
    fn unless_few(
        self,
        facts: &Facts<'_>,
        subject: Subject,
        operator: Operator,
        limit: f64,
    ) -> Self {
        let Statistic::Percentile(percent) = subject.statistic else { return self };
        let Some(found) = facts.distribution(subject) else { return self };
        let few = Some(found.count).filter(|count| *count > 0).and_then(|it| percent.too_few(it));
        let Some(few) = few else { return self };
        let instead = few.instead();
        let is_upper = matches!(operator, Operator::AtMost | Operator::Below);
        let is_outer = is_upper == (percent.share() >= 0.5);
        let told = instead.and_then(|it| found.percentile(it)).or_else(|| {
            // All values are on one side: hardly by chance if only a small share of them were.
            let is_upper = percent.share() >= 0.5;
            let share = if is_upper { percent.share_above() } else { percent.share() };
            let chance = share.powf(found.count as f64);
            (chance <= order::TAIL).then_some(if is_upper { found.min } else { found.max })
        });
        let told = told.filter(|_| operator != Operator::Equal);
        let told = told.map(|it| operator.holds(it, limit));
        if told.is_some_and(|holds| holds != is_outer) {
            return self;
        }
        let instead = instead.map(|it| format!(", or gate p{it}")).unwrap_or_default();
        Self { held: false, undecided: true, note: Some(format!("{few}{instead}")), ..self }
    }

    fn with_unit(&self, value: &str) -> String {
        match self.unit.as_str() {
            "" => value.to_owned(),
            "%" => format!("{value}%"),
            unit => format!("{value} {unit}"),
        }
    }

    /// Returns the result in one sentence.
    #[must_use]
    pub fn message(&self) -> String {
        let note = self.note.as_ref();
        match (self.value, note) {
            (None, Some(note)) => note.clone(),
            (_, note) => {
                let note = note.map(|note| format!(" ({note})")).unwrap_or_default();
                format!("{}{note}, required {}", self.shown_value(), self.shown_limit())
            }
        }
    }
}

impl Gate {
    /// Returns why a run that computes the metrics of `registry`, and scrapes its servers or does not,
    /// can never have what the gate limits; `None` if it may.
    #[must_use]
    pub fn obstacle(&self, registry: &Registry, scrapes: bool) -> Option<String> {
        match &self.condition {
            Condition::Metric { subject, .. } => {
                let Metric { tag, flags, .. } = subject.metric;
                // Whether there is a fixed schedule is known once the dataset has been read.
                let is_known = registry.position(*tag).is_some()
                    || flags.contains(MetricFlags::FIXED_SCHEDULE_ONLY);
                (!is_known).then(|| {
                    let hint = hint(subject.metric).unwrap_or(
                        "it is not measured with this endpoint or these settings; use another metric",
                    );
                    format!("{tag} is not available for the run; {hint}")
                })
            }
            Condition::Server { .. } => (!scrapes).then(|| {
                "the run does not collect server metrics; add --server-metrics".to_owned()
            }),
            Condition::FinishReason { .. }
            | Condition::OutputHealth(_)
            | Condition::CorruptedOutputs { .. } => {
                (!registry.rows().iter().any(|row| row.tag == tag::OUTPUT_SEQUENCE_LENGTH))
                    .then(|| "the endpoint does not generate text; remove the gate".to_owned())
            }
            Condition::ClientHealth(_) | Condition::LoadHealth(_) => None,
        }
    }

    /// Compares the run with the gate.
    #[must_use]
    pub fn judge(&self, facts: &Facts<'_>) -> Judged {
        match &self.condition {
            Condition::ClientHealth(wanted) => {
                let verdict = facts.verdict.map(Verdict::as_str);
                self.verdict(wanted.as_str(), verdict, "client health")
            }
            Condition::LoadHealth(wanted) => {
                let verdict = facts.load_verdict.map(LoadVerdict::as_str);
                self.verdict(wanted.as_str(), verdict, "the load")
            }
            Condition::OutputHealth(wanted) => {
                let verdict = facts.outputs.and_then(|health| health.verdict);
                self.verdict(wanted.as_str(), verdict.map(Verdict::as_str), "the outputs")
            }
            Condition::CorruptedOutputs { operator, limit } => {
                if let Some(health) = facts.outputs {
                    let corrupted = health.corrupted_outputs as f64;
                    self.compared(corrupted, *operator, *limit, "outputs", None)
                } else {
                    let why = "the run does not have outputs".to_owned();
                    self.without(*operator, *limit, "outputs", why)
                }
            }
            Condition::FinishReason { reason, operator, limit } => {
                self.finish_reason(reason, *operator, *limit, facts.finish_reasons)
            }
            Condition::Metric { subject, operator, limit, confidence: Some(_) } => {
                self.certain(*subject, *operator, *limit, facts.basis.certainty)
            }
            Condition::Metric { subject, operator, limit, confidence: None } => {
                let unit = unit(subject.metric, subject.statistic).label();
                let of_phase = self.phase().map(|name| (name, facts.of_phase(name)));
                let facts = match &of_phase {
                    None => facts,
                    Some((_, Some(of_phase))) => of_phase,
                    Some((name, None)) => {
                        let why = format!("the run does not have results of a phase {name}");
                        return self.without(*operator, *limit, unit, why);
                    }
                };
                match facts.value(*subject) {
                    Ok(value) => {
                        let (interval, note) = facts.of_rate(*subject, value);
                        let judged = self.compared(value, *operator, *limit, unit, note);
                        let judged = Judged { interval, ..judged };
                        let judged = judged.within(facts.range(*subject, value), *operator, *limit);
                        judged.unless_few(facts, *subject, *operator, *limit)
                    }
                    Err(why) => self.without(*operator, *limit, unit, why),
                }
            }
            Condition::Server { series, operator, limit } => {
                self.server(series, *operator, *limit, facts.server_metrics(self.phase()))
            }
        }
    }

    /// Judges the verdict on `what`.
    fn verdict(&self, wanted: &'static str, verdict: Option<&'static str>, what: &str) -> Judged {
        Judged {
            gate: self.to_string(),
            value: verdict.map(Reading::Word),
            operator: Operator::Equal.symbol(),
            limit: Reading::Word(wanted),
            unit: String::new(),
            range: None,
            interval: None,
            margin_percent: None,
            confidence: None,
            held: verdict == Some(wanted),
            undecided: false,
            note: verdict.is_none().then(|| format!("the run does not state a verdict on {what}")),
        }
    }

    /// Judges the number or the share of requests that ended for `reason`.
    fn finish_reason(
        &self,
        reason: &str,
        operator: Operator,
        limit: Quantity,
        reasons: &NameCounts,
    ) -> Judged {
        let is_share = limit.suffix == Some(Suffix::Percent);
        let unit = if is_share { Unit::Percent } else { Unit::Requests }.label();
        let Some(count) = reasons.count(reason) else {
            let why = "the responses do not have a finish reason".to_owned();
            return self.without(operator, limit.number, unit, why);
        };
        let scale = if is_share { 100.0 / reasons.requests() as f64 } else { 1.0 };
        self.compared(count as f64 * scale, operator, limit.number, unit, None)
    }

    /// Judges the bound of a percentile.
    fn certain(
        &self,
        subject: Subject,
        operator: Operator,
        limit: f64,
        certainty: Option<Certainty>,
    ) -> Judged {
        let unit = unit(subject.metric, subject.statistic).label();
        let note = certainty.map_or_else(|| missing(subject), |found| found.note(subject));
        let judged = match certainty.and_then(|found| found.bound) {
            None => self.without(operator, limit, unit, note),
            Some(bound) => {
                Judged { note: Some(note), ..self.compared(bound, operator, limit, unit, None) }
            }
        };
        let undecided =
            certainty.is_some_and(|found| found.permitted.is_none() && found.beyond == 0);
        Judged { confidence: certainty, undecided, ..judged }
    }

    fn server(
        &self,
        wanted: &Series,
        operator: Operator,
        limit: Quantity,
        metrics: Option<&[MetricReport]>,
    ) -> Judged {
        let without = |why: String| self.without(operator, limit.number, "", why);
        let found = match metrics.map(|metrics| wanted.find(metrics)) {
            None => return without("the run did not collect server metrics".to_owned()),
            Some(Err(why)) => return without(why),
            Some(Ok(found)) => found,
        };
        let limits = found.iter().map(|value| limit.in_named_unit(value.unit()));
        let Some(limits) = limits.collect::<Option<Vec<f64>>>() else {
            let unit = found.iter().find_map(SeriesValue::unit).unwrap_or("unknown");
            let suffix = limit.suffix.map_or("", Suffix::name);
            let why =
                format!("a limit in {suffix} does not fit {}, whose unit is {unit}", wanted.name);
            return without(why);
        };
        let pairs = found.iter().zip(limits);
        let by_slack = |(a, of_a): &(&SeriesValue<'_>, f64),
                        (b, of_b): &(&SeriesValue<'_>, f64)| {
            operator.slack(a.value, *of_a).total_cmp(&operator.slack(b.value, *of_b))
        };
        match pairs.min_by(by_slack) {
            None => without(format!(
                "{} is not available for any series of {}",
                wanted.statistic, wanted.name
            )),
            Some((value, limit)) => {
                let note = value.note(found.len());
                self.compared(value.value, operator, limit, value.unit().unwrap_or(""), note)
            }
        }
    }

    fn compared(
        &self,
        value: f64,
        operator: Operator,
        limit: f64,
        unit: &str,
        note: Option<String>,
    ) -> Judged {
        let infinite = (!value.is_finite()).then(|| "the value is infinite".to_owned());
        let margin = 100.0 * operator.slack(value, limit) / limit.abs();
        Judged {
            value: Some(Reading::Number(value)).filter(|_| value.is_finite()),
            margin_percent: Some(margin)
                .filter(|margin| margin.is_finite() && operator != Operator::Equal),
            held: operator.holds(value, limit),
            ..self.without(operator, limit, unit, infinite.or(note))
        }
    }

    /// Returns the result without a value, which `note` explains.
    fn without(
        &self,
        operator: Operator,
        limit: f64,
        unit: &str,
        note: impl Into<Option<String>>,
    ) -> Judged {
        Judged {
            gate: self.to_string(),
            value: None,
            operator: operator.symbol(),
            limit: Reading::Number(limit),
            unit: unit.to_owned(),
            range: None,
            interval: None,
            margin_percent: None,
            confidence: None,
            held: false,
            undecided: false,
            note: note.into(),
        }
    }
}

/// Compares the run with each of `gates`, of which the values say what is in `bases`, as far as that is known.
#[must_use]
pub fn judge(gates: &[Gate], facts: &Facts<'_>, bases: &[Basis]) -> Vec<Judged> {
    let bases = bases.iter().copied().chain(std::iter::repeat(Basis::default()));
    gates.iter().zip(bases).map(|(gate, basis)| gate.judge(&Facts { basis, ..*facts })).collect()
}

/// Returns why a run may not have a statistic.
fn missing(subject: Subject) -> String {
    let Subject { metric, statistic, is_steady } = subject;
    let hint = hint(metric).map(|hint| format!("; {hint}")).unwrap_or_default();
    let place = if is_steady { "the steady state" } else { "the run" };
    format!("{} of {} is not available for {place}{hint}", statistic, metric.tag)
}

/// Returns what a metric requires, if that is a setting.
fn hint(metric: &Metric) -> Option<&'static str> {
    let hints = [
        (MetricFlags::STREAMING_ONLY, "it requires --streaming"),
        (MetricFlags::GOODPUT, "it requires --goodput"),
    ];
    hints.iter().find(|(flag, _)| metric.flags.contains(*flag)).map(|(_, hint)| *hint)
}

#[cfg(test)]
mod tests;
