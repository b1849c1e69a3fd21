//! Compares runs: which differences are larger than chance explains.

mod cache;
mod finding;
mod load;
mod outputs;
mod parts;
mod trial;

use serde::Serialize;
use serde_json::Value as Json;

use base::statistics::interval::{self, Measured, Scale};

use super::gate::{RelativeGate, Subject};
use crate::metrics::Registry;
use crate::metrics::metric::{Metric, MetricFlags, Percent, Statistic};
use crate::metrics::tag::{self, MetricTag};
use crate::metrics::time_breakdown::Growth;

pub use finding::{Finding, Needed};
pub use load::{Models, different_loads};
pub use outputs::OutputRow;
pub use parts::PartRow;
pub use trial::{Requests, Sampled, Side, Source, Trial};

pub(super) use cache::CacheDifference;
pub(super) use finding::{Amount, Estimate, Shortage};
pub(super) use outputs::worse;
pub(super) use trial::{MIN_REQUESTS, errors};

/// Minimum number of runs on each side for a comparison of their means.
pub const MIN_TRIALS: usize = 3;

/// The rows that decide unless there are gates.
const DECIDING: &[MetricTag] = &[
    tag::REQUEST_THROUGHPUT,
    tag::REQUEST_ERROR_RATE,
    tag::TIME_TO_FIRST_TOKEN,
    tag::INTER_TOKEN_LATENCY,
    tag::REQUEST_LATENCY,
];

/// Rows that are only shown.
const SHOWN: &[(MetricTag, &str)] = &[
    (tag::TIME_TO_FIRST_TOKEN, "p50"),
    (tag::TIME_TO_FIRST_TOKEN, "p99"),
    (tag::INTER_TOKEN_LATENCY, "p50"),
    (tag::INTER_TOKEN_LATENCY, "p99"),
    (tag::REQUEST_LATENCY, "p50"),
    (tag::REQUEST_LATENCY, "p99"),
    (tag::OUTPUT_TOKEN_THROUGHPUT, "avg"),
    (tag::GOODPUT, "avg"),
    (tag::GOOD_REQUEST_FRACTION, "avg"),
];

/// The metrics of which further percentiles are shown.
const LATENCIES: [MetricTag; 3] =
    [tag::TIME_TO_FIRST_TOKEN, tag::INTER_TOKEN_LATENCY, tag::REQUEST_LATENCY];

/// The difference in percent that is tolerated unless there are gates (`--tolerance`).
pub const TOLERANCE_PERCENT: f64 = 2.0;

/// Returns whether statistics of requests can be compared by `statistic` of `metric`.
pub(super) fn is_comparable(metric: &Metric, statistic: Statistic) -> bool {
    Source::for_statistic(metric, statistic).is_some()
}

/// Returns whether more of `metric` is better. AIPerf's catalogue does not mark goodput.
pub(super) fn larger_is_better(metric: &Metric) -> bool {
    metric.flags.contains(MetricFlags::LARGER_IS_BETTER) || metric.tag == tag::GOODPUT
}

/// A row of a comparison.
#[derive(Debug, Clone)]
pub(super) struct Measure {
    pub(super) subject: Subject,
    source: Source,
    /// Whether it decides the result.
    pub(super) decides: bool,
    gate: Option<RelativeGate>,
}

/// What is compared, and how certain the result must be.
#[derive(Debug, Clone)]
pub struct Plan {
    measures: Vec<Measure>,
    /// The confidence level of all deciding rows together.
    confidence: f64,
    /// The tolerated difference in percent of measures without a gate.
    tolerance_percent: f64,
    /// The number of comparisons with BASE, of which a sweep has one for each cell.
    comparisons: usize,
    /// The percentiles that not every run has.
    percentiles: Vec<Percent>,
}

impl Plan {
    /// Plans `comparisons` with one base. With `gates`, only their metrics decide; without, a difference
    /// of `tolerance_percent` is tolerated. The `percentiles` of latencies are shown besides others.
    #[must_use]
    pub fn new(
        gates: &[RelativeGate],
        percentiles: &[Percent],
        confidence: f64,
        tolerance_percent: f64,
        comparisons: usize,
    ) -> Self {
        let mut measures: Vec<Measure> = Vec::new();
        let mut add = |subject: Subject, decides, gate: Option<RelativeGate>| {
            let is_same = |known: &Measure| known.subject.is(subject);
            let is_known = measures.iter().any(|known| is_same(known) && gate.is_none());
            let source = Source::for_statistic(subject.metric, subject.statistic);
            if let Some(source) = source.filter(|_| !is_known) {
                measures.push(Measure { subject, source, decides, gate });
            }
        };
        for gate in gates {
            add(gate.subject, true, Some(gate.clone()));
        }
        let deciding = DECIDING.iter().map(|tag| (*tag, Statistic::Avg, gates.is_empty()));
        let shown = SHOWN.iter().map(|(tag, name)| (*tag, Statistic::named(name)));
        let own = LATENCIES.iter().flat_map(|tag| percentiles.iter().map(move |one| (*tag, *one)));
        let own = own.map(|(tag, percent)| (tag, Some(Statistic::Percentile(percent))));
        let shown = shown.chain(own).filter_map(|(tag, statistic)| Some((tag, statistic?, false)));
        for (tag, statistic, decides) in deciding.chain(shown) {
            if let Some(metric) = Registry::row(tag) {
                add(Subject { metric, statistic, is_steady: false }, decides, None);
            }
        }
        let of_measure = |measure: &Measure| measure.subject.statistic.percentile();
        let percentiles = measures.iter().filter_map(of_measure).collect();
        Self { measures, confidence, tolerance_percent, comparisons, percentiles }
    }

    /// Returns the percentiles that it needs and that not every run has.
    pub fn percentiles(&self) -> &[Percent] {
        &self.percentiles
    }

    /// Compares the runs of `new` with those of `base`.
    #[must_use]
    pub fn compare(&self, base: &Side, new: &Side) -> Compared {
        let sides = [("BASE", base), ("NEW", new)];
        let found = |of: fn(&Side) -> Option<String>| {
            sides.into_iter().find_map(|(name, side)| Some(format!("{name}: {}", of(side)?)))
        };
        let obstacle = found(Side::obstacle);
        let of_latencies = found(Side::obstacle_of_latencies);
        let trials = || base.trials.iter().chain(&new.trials);
        let measures = self.measures_of(trials);
        let level = 1.0 - self.error_of_each(&measures);
        let by_trials = base.trials.len().min(new.trials.len()) >= MIN_TRIALS;
        let method = if by_trials { Method::Welch } else { Method::Batches };
        let row = |measure: &Measure| {
            let estimate = match (measure.unsteady(base, new), method) {
                (Some(why), _) => Err(why),
                (None, Method::Welch) => measure.by_runs(base, new, level),
                (None, _) => measure.by_requests(base, new, level),
            };
            let errors = [base, new].map(|side| errors(side.trials.iter(), measure.subject));
            let of_requests = matches!(measure.source, Source::Mean(_) | Source::Percentile(..));
            let why = obstacle.as_ref().or(of_latencies.as_ref().filter(|_| of_requests));
            let row = measure.row(estimate, errors, self.tolerance_percent, level, why);
            Row { is_of_few: measure.is_of_few(trials()), ..row }
        };
        let mut rows: Vec<Row> = measures.into_iter().map(row).collect();
        if let Some(cache) = CacheDifference::between(base.trials.iter(), new.trials.iter()) {
            for row in &mut rows {
                cache.doubt(row);
            }
        }
        let (parts, growth) = (parts::compare(base, new, level), parts::growth(base, new, &rows));
        let outputs = outputs::worse(base.trials.iter(), new.trials.iter());
        let compared = self.concluded(method, level, obstacle, rows, outputs);
        Compared { time_breakdown: parts, growth, ..compared }
    }

    /// Returns the measures that have a gate or that one of the runs has.
    pub(super) fn measures_of<'a, I>(&self, trials: impl Fn() -> I) -> Vec<&Measure>
    where
        I: Iterator<Item = &'a Trial>,
    {
        let has = |measure: &&Measure| {
            measure.gate.is_some() || trials().any(|trial| trial.result(measure.subject).is_some())
        };
        self.measures.iter().filter(has).collect()
    }

    /// Returns the probability with which the interval of each of `measures` may be wrong: by
    /// Bonferroni's correction, since the chances of a false finding in the deciding rows add up.
    pub(super) fn error_of_each(&self, measures: &[&Measure]) -> f64 {
        let deciding = measures.iter().filter(|measure| measure.decides).count();
        (1.0 - self.confidence) / (deciding * self.comparisons).max(1) as f64
    }

    /// Returns the comparison that consists of `rows`.
    pub(super) fn concluded(
        &self,
        method: Method,
        level: f64,
        obstacle: Option<String>,
        rows: Vec<Row>,
        outputs: Vec<OutputRow>,
    ) -> Compared {
        let has_found = |finding| rows.iter().any(|row| row.decides && row.finding == finding);
        let outcome = if has_found(Finding::Regression) || !outputs.is_empty() {
            Conclusion::Regression
        } else if has_found(Finding::CannotTell) || !rows.iter().any(|row| row.decides) {
            Conclusion::CannotTell
        } else {
            Conclusion::NoRegression
        };
        Compared {
            method,
            confidence: self.confidence,
            interval_level: level,
            tolerance_percent: self.tolerance_percent,
            obstacle,
            rows,
            outputs,
            time_breakdown: Vec::new(),
            growth: Vec::new(),
            outcome,
        }
    }

    /// Returns the tolerated difference in percent of measures without a gate.
    pub(super) const fn tolerance_percent(&self) -> f64 {
        self.tolerance_percent
    }
}

/// How intervals are computed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Method {
    /// By Student's t over batches of requests.
    Batches,
    /// By Welch's t over the results of the runs.
    Welch,
    /// Over pairs of blocks.
    Paired,
}

/// The result of all rows.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Conclusion {
    NoRegression,
    CannotTell,
    Regression,
}

/// A comparison.
#[derive(Debug, Clone, Serialize)]
pub struct Compared {
    pub method: Method,
    pub confidence: f64,
    /// The confidence level of each interval, so that all deciding rows together have `confidence`.
    pub interval_level: f64,
    /// The tolerated difference in percent of rows without a gate.
    pub(crate) tolerance_percent: f64,
    /// Why nothing can be concluded from the runs.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub obstacle: Option<String>,
    pub rows: Vec<Row>,
    /// The faults of outputs that NEW has, and BASE does not, or seldom.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub outputs: Vec<OutputRow>,
    /// The parts of the mean latencies, which decide nothing.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub time_breakdown: Vec<PartRow>,
    /// Which parts the differences of mean latencies consist of, as far as these are shown.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub growth: Vec<Growth>,
    pub outcome: Conclusion,
}

/// A statistic of both sides.
#[derive(Debug, Clone, Serialize)]
pub struct Row {
    /// Whether it is of the steady state, not of the whole phase.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub is_steady: bool,
    pub metric: MetricTag,
    pub statistic: Statistic,
    pub unit: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub base: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub new: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub difference: Option<f64>,
    /// In percent of the magnitude of `base`; absent if that is 0.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub difference_percent: Option<f64>,
    /// The interval of the difference.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub interval: Option<[f64; 2]>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub interval_percent: Option<[f64; 2]>,
    /// Number of consecutive requests in a batch, for both sides.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub block_lengths: Option<[usize; 2]>,
    /// How much lower and higher the statistic may be because of the client, for both sides; absent
    /// if neither.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub client_errors: Option<[[f64; 2]; 2]>,
    /// Whether it is a percentile of which a run has too few requests.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub is_of_few: bool,
    /// Whether it decides the result.
    pub decides: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub gate: Option<String>,
    pub finding: Finding,
    /// How much data would probably tell; absent if it is told, or if no amount is likely to.
    #[serde(flatten)]
    pub needed: Option<Needed>,
    /// Why it cannot be told.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub note: Option<String>,
}

/// Why runs with different loads are not judged.
const DIFFERENT_LOADS: &str = "the runs had different loads; --allow-different judges them anyway";

impl Compared {
    /// Returns whether nothing was judged since the runs had different loads.
    pub fn is_withdrawn(&self) -> bool {
        self.obstacle.as_deref() == Some(DIFFERENT_LOADS)
    }

    /// Returns it without any finding, since the runs had different loads.
    #[must_use]
    pub fn withdrawn(mut self) -> Self {
        for row in &mut self.rows {
            row.finding = Finding::CannotTell;
            row.needed = None;
            row.note = None;
        }
        Self {
            obstacle: Some(DIFFERENT_LOADS.to_owned()),
            growth: Vec::new(),
            outcome: Conclusion::CannotTell,
            ..self
        }
    }
}

impl Row {
    /// Returns the name of the metric, as in a gate.
    #[must_use]
    pub fn name(&self) -> String {
        let prefix = if self.is_steady { Subject::STEADY } else { "" };
        format!("{prefix}{}", self.metric)
    }
}

impl Measure {
    /// Returns why the statistic cannot be compared, if it is one of the steady state and a run has none.
    fn unsteady(&self, base: &Side, new: &Side) -> Option<String> {
        if !self.subject.is_steady {
            return None;
        }
        [("BASE", base), ("NEW", new)].into_iter().find_map(|(name, side)| {
            let why = side.trials.iter().find_map(|trial| trial.steady_state.as_ref().err())?;
            Some(format!("{name} does not have a steady state: {why}"))
        })
    }

    /// Returns whether it is a percentile of which one of `trials` has too few requests.
    pub(super) fn is_of_few<'a>(&self, mut trials: impl Iterator<Item = &'a Trial>) -> bool {
        let Statistic::Percentile(percent) = self.subject.statistic else { return false };
        let count = |trial: &Trial| {
            let tag = self.subject.metric.tag;
            let result = trial.results.iter().find(|found| found.metric.tag == tag)?;
            Some(result.stats.distribution?.count).filter(|count| *count > 0)
        };
        trials.any(|trial| count(trial).is_some_and(|count| percent.too_few(count).is_some()))
    }

    /// Returns the scale on which two values are compared: shares can be 0, everything else is compared
    /// by its ratio.
    pub(super) fn scale(&self, values: [f64; 2]) -> Scale {
        let is_share = matches!(self.source, Source::Share(_) | Source::Failures);
        if !is_share && values.iter().all(|value| *value > 0.0) {
            Scale::Ratio
        } else {
            Scale::Difference
        }
    }

    /// Compares the statistic by the requests of the runs.
    fn by_requests(&self, base: &Side, new: &Side, level: f64) -> Result<Estimate, String> {
        let sampled = |name: &str, side: &Side| {
            side.sampled(self).ok_or_else(|| format!("{name} does not have it"))
        };
        let (base, new) = (sampled("BASE", base)?, sampled("NEW", new)?);
        let shortage = [("BASE", &base), ("NEW", &new)].into_iter().find_map(|(name, sampled)| {
            let Shortage { why, needed } = sampled.shortage(self.source)?;
            Some(Shortage { why: format!("{name}: {why}"), needed })
        });
        let count = base.count.max(new.count);
        let lengths = [base.measured.batch, new.measured.batch];
        let mut estimate =
            self.estimate(&base.measured, &new.measured, level, Amount::Requests(count));
        estimate.block_lengths = Some(lengths);
        if let Some(shortage) = shortage {
            estimate.interval = Err(shortage);
        }
        Ok(estimate)
    }

    /// Compares the means of the runs' results.
    fn by_runs(&self, base: &Side, new: &Side, level: f64) -> Result<Estimate, String> {
        let measured = |name: &str, side: &Side| {
            let values: Vec<f64> =
                side.trials.iter().filter_map(|trial| trial.result(self.subject)).collect();
            let few =
                || format!("{name}: {} runs have it, at least {MIN_TRIALS} required", values.len());
            Measured::of_independent(&values)
                .filter(|_| values.len() >= MIN_TRIALS)
                .map(|measured| (measured, values.len()))
                .ok_or_else(few)
        };
        let ((base, runs), (new, other)) = (measured("BASE", base)?, measured("NEW", new)?);
        Ok(self.estimate(&base, &new, level, Amount::Runs(runs.max(other))))
    }

    fn estimate(&self, base: &Measured, new: &Measured, level: f64, amount: Amount) -> Estimate {
        let scale = self.scale([base.value, new.value]);
        let none = || Shortage { why: "its interval is unbounded".to_owned(), needed: None };
        Estimate {
            base: base.value,
            new: new.value,
            scale,
            shift: interval::shift(base, new, scale),
            interval: interval::difference(base, new, scale, level).ok_or_else(none),
            block_lengths: None,
            amount,
        }
    }

    /// Returns the row with an `estimate` at the confidence `level`, or the reason why there is none;
    /// `errors` are those of the clients.
    pub(super) fn row(
        &self,
        estimate: Result<Estimate, String>,
        errors: [[f64; 2]; 2],
        tolerance_percent: f64,
        level: f64,
        obstacle: Option<&String>,
    ) -> Row {
        let mut row = Row {
            is_steady: self.subject.is_steady,
            metric: self.subject.metric.tag,
            statistic: self.subject.statistic,
            unit: self.subject.metric.display_unit.label(),
            base: None,
            new: None,
            difference: None,
            difference_percent: None,
            interval: None,
            interval_percent: None,
            block_lengths: None,
            client_errors: None,
            is_of_few: false,
            decides: self.decides,
            gate: self.gate.as_ref().map(ToString::to_string),
            finding: Finding::CannotTell,
            needed: None,
            note: None,
        };
        let estimate = match estimate {
            Ok(estimate) => estimate,
            Err(why) => {
                row.note = Some(why);
                return row;
            }
        };
        row.base = Some(estimate.base);
        row.new = Some(estimate.new);
        row.difference = Some(estimate.absolute(estimate.shift));
        row.difference_percent = estimate.percent(estimate.shift);
        row.block_lengths = estimate.block_lengths;
        let interval = match &estimate.interval {
            Ok(interval) => *interval,
            Err(Shortage { why, needed }) => {
                row.note = Some(why.clone());
                row.needed = needed.map(Needed::Requests);
                return row;
            }
        };
        row.client_errors = Some(errors).filter(|errors| *errors != [[0.0; 2]; 2]);
        let absolute = interval.map(|end| estimate.absolute(end));
        row.interval = Some(absolute);
        let [low, high] = interval.map(|end| estimate.percent(end));
        row.interval_percent = low.zip(high).map(<[f64; 2]>::from);
        if let Some(why) = obstacle {
            row.note = Some(why.clone());
            return row;
        }
        let found = self.find(&estimate, interval, tolerance_percent, level);
        if finding::may_be_of_clients(found.finding, absolute, errors) {
            row.note = Some(finding::LATE_CLIENTS.to_owned());
            return row;
        }
        row.finding = found.finding;
        row.needed = found.needed;
        row.note = found.note.map(str::to_owned);
        row
    }
}

/// Runs that are compared with others.
#[derive(Debug, Clone, Serialize)]
pub struct Comparison {
    /// The directory that others are compared with.
    pub base: String,
    /// The directory that is compared with it.
    pub new: String,
    /// The cell, if the directories are those of sweeps.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cell: Option<String>,
    /// Its settings.
    #[serde(skip_serializing_if = "serde_json::Map::is_empty")]
    pub parameters: serde_json::Map<String, Json>,
    /// Number of runs on both sides.
    pub runs: [usize; 2],
    /// In what the loads of the runs differ.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub different_loads: Vec<String>,
    #[serde(flatten)]
    pub compared: Compared,
    /// In what else the runs differ.
    pub differences: Vec<Difference>,
}

/// A setting or fact in which runs differ.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Difference {
    /// Names of members, separated by dots.
    pub path: String,
    /// Null if it is absent.
    pub base: Json,
    /// Null if it is absent.
    pub new: Json,
}

/// Returns the members that differ, in order of their paths. Lists are compared element by element
/// if they have the same length, and otherwise as a whole.
#[must_use]
pub fn differences(base: &Json, new: &Json) -> Vec<Difference> {
    let mut found = Vec::new();
    collect("", base, new, &mut found);
    found.sort_by(|a, b| a.path.cmp(&b.path));
    found
}

fn collect(path: &str, base: &Json, new: &Json, found: &mut Vec<Difference>) {
    let none = serde_json::Map::new();
    let (old, other) = match (base, new) {
        (Json::Object(old), Json::Object(other)) => (old, other),
        (Json::Null, Json::Object(other)) if !other.is_empty() => (&none, other),
        (Json::Object(old), Json::Null) if !old.is_empty() => (old, &none),
        (Json::Array(old), Json::Array(other)) if old.len() == other.len() => {
            for (at, (base, new)) in old.iter().zip(other).enumerate() {
                collect(&format!("{path}[{at}]"), base, new, found);
            }
            return;
        }
        _ => {
            if base != new {
                let (base, new) = (base.clone(), new.clone());
                found.push(Difference { path: path.to_owned(), base, new });
            }
            return;
        }
    };
    let names: std::collections::BTreeSet<&String> = old.keys().chain(other.keys()).collect();
    for name in names {
        let path = if path.is_empty() { name.clone() } else { format!("{path}.{name}") };
        let member =
            |map: &serde_json::Map<String, Json>| map.get(name).cloned().unwrap_or_default();
        collect(&path, &member(old), &member(other), found);
    }
}

#[cfg(test)]
mod simulated;
#[cfg(test)]
mod tests;
