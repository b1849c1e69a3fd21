//! Compares runs: which differences are larger than chance explains.

mod parts;

use serde::Serialize;
use serde_json::Value as Json;

use super::gate::{RelativeGate, Subject};
use crate::column::{Column, Sorted, Store, fixed_struct};
use crate::metrics::health::ClientBounds;
use crate::metrics::metric::{Kind, Metric, MetricFlags, MetricResult, Observation, Statistic};
use crate::metrics::steady::{SteadyState, Unsteady, share_in};
use crate::metrics::tag::{self, MetricTag, TagMap};
use crate::metrics::time_breakdown::Division;
use crate::metrics::{Registry, Verdict};
use crate::schedule::PhaseKind;
use crate::statistics::bootstrap::{self, RESAMPLES, Sample, Terms};
use crate::statistics::student_t;
use crate::units::{Nanos, Unit};

pub(crate) use parts::PartRow;

/// Minimum number of runs on each side for a comparison of their means.
pub(crate) const MIN_TRIALS: usize = 3;

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

/// Where a statistic of a run comes from.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) enum Source {
    /// The mean of a metric of each request.
    Mean(MetricTag),
    /// A percentile of a metric of each request.
    Percentile(MetricTag, f64),
    /// The sum of a metric of each request, per second.
    Rate(MetricTag),
    /// Successful requests per second.
    SuccessRate,
    /// The share of requests that have a metric, times a factor.
    Share(MetricTag),
    /// The percentage of requests that failed.
    Failures,
}

impl Source {
    pub(super) fn of(metric: &Metric, statistic: Statistic) -> Option<Self> {
        if matches!(metric.kind, Kind::Record(_)) {
            return match statistic.name.strip_prefix('p') {
                Some(percent) => Some(Self::Percentile(metric.tag, percent.parse().ok()?)),
                None if statistic.name == Statistic::AVG.name => Some(Self::Mean(metric.tag)),
                None => None,
            };
        }
        let derived = [
            (tag::REQUEST_THROUGHPUT, Self::SuccessRate),
            (tag::OUTPUT_TOKEN_THROUGHPUT, Self::Rate(tag::OUTPUT_SEQUENCE_LENGTH)),
            (tag::GOODPUT, Self::Rate(tag::GOOD_REQUEST_COUNT)),
            (tag::GOOD_REQUEST_FRACTION, Self::Share(tag::GOOD_REQUEST_COUNT)),
            (tag::REQUEST_ERROR_RATE, Self::Failures),
        ];
        let found = derived.iter().find(|(tag, _)| *tag == metric.tag);
        found.map(|(_, source)| *source).filter(|_| statistic.name == Statistic::AVG.name)
    }

    /// Returns whether the statistics of the steady state cover the requests that started in it, not
    /// the shares of requests in it.
    const fn is_by_start(self) -> bool {
        matches!(self, Self::Mean(_) | Self::Percentile(..))
    }

    const fn tag(self) -> Option<MetricTag> {
        match self {
            Self::Mean(tag) | Self::Percentile(tag, _) | Self::Rate(tag) | Self::Share(tag) => {
                Some(tag)
            }
            Self::SuccessRate | Self::Failures => None,
        }
    }
}

/// Returns whether statistics of requests can be compared by `statistic` of `metric`.
pub(super) fn is_comparable(metric: &Metric, statistic: Statistic) -> bool {
    Source::of(metric, statistic).is_some()
}

/// Returns whether more of `metric` is better. AIPerf's catalogue does not mark goodput.
pub(super) fn larger_is_better(metric: &Metric) -> bool {
    metric.flags.contains(MetricFlags::LARGER_IS_BETTER) || metric.tag == tag::GOODPUT
}

/// The requests of a run that a comparison needs, in any order.
#[derive(Debug, Clone)]
pub(crate) struct Requests {
    starts: Column<u64>,
    ends: Column<u64>,
    /// Whether each failed: 0 or 1.
    failed: Column<u8>,
    /// Values in the metric's own unit; NaN for a request without one.
    columns: TagMap<Column<f64>>,
}

fixed_struct! {
    /// What a statistic needs of a request.
    #[derive(Debug, Clone, Copy, Default)]
    struct Term {
        /// When it started or ended, in nanoseconds since the epoch.
        time: u64,
        /// NaN if it does not have one.
        value: f64,
        /// The share of it that counts.
        share: f64,
        /// Whether it failed: 0 or 1.
        failed: u8,
    }
}

impl Requests {
    /// Creates a reader of the metrics that `plan` compares; they are kept in `store`.
    #[must_use]
    pub(crate) fn new(plan: &Plan, store: &Store) -> Self {
        let tags = plan.measures.iter().filter_map(|measure| measure.source.tag());
        let columns = tags.map(|tag| (tag, Column::new(store.clone()))).collect();
        Self {
            starts: Column::new(store.clone()),
            ends: Column::new(store.clone()),
            failed: Column::new(store.clone()),
            columns,
        }
    }

    /// Adds a request, if it belongs to the measurement.
    pub(crate) fn take(&mut self, request: &Observation) {
        if request.phase != PhaseKind::Profiling {
            return;
        }
        let failed = request.error.is_some();
        self.starts.push(request.start_wall_ns);
        self.ends.push(request.end_wall_ns);
        self.failed.push(u8::from(failed));
        for slot in 0..MetricTag::COUNT {
            let tag = MetricTag::in_slot(slot);
            if let Some(column) = self.columns.slot_mut(tag) {
                let value = request.values.scalar(tag).filter(|_| !failed);
                column.push(value.unwrap_or(f64::NAN));
            }
        }
    }
}

/// A run of one side.
#[derive(Debug, Clone)]
pub(crate) struct Trial {
    /// Its results, in display units.
    pub(crate) results: Vec<MetricResult>,
    /// Its steady state, or why there is none.
    pub(crate) steady_state: Result<SteadyState, Unsteady>,
    /// Its latencies divided by the server's times, if they are.
    pub(crate) time_breakdown: Option<Division>,
    /// How far the client may have shifted its statistics.
    pub(crate) bounds: ClientBounds,
    pub(crate) requests: Requests,
}

impl Trial {
    fn result(&self, subject: Subject) -> Option<f64> {
        let results = match &self.steady_state {
            _ if !subject.is_steady => &self.results,
            Ok(steady) => &steady.results,
            Err(_) => return None,
        };
        let result = results.iter().find(|found| found.metric.tag == subject.metric.tag)?;
        subject.statistic.of(&result.stats).filter(|value| value.is_finite())
    }

    /// Returns the requests that a measure covers, in the order in which they started, or ended if the
    /// measure counts their shares in the steady state; and the duration that rates are relative
    /// to, in seconds.
    fn in_order(&self, measure: &Measure) -> (Sorted<Term>, f64) {
        let Requests { starts, ends, failed, columns } = &self.requests;
        let (window, seconds) = match &self.steady_state {
            _ if !measure.subject.is_steady => {
                let is_duration =
                    |found: &&MetricResult| found.metric.tag == tag::BENCHMARK_DURATION;
                let seconds = self.results.iter().find(is_duration).map_or(0.0, |found| {
                    found.metric.display_unit.convert(found.stats.avg, Unit::Seconds)
                });
                (None, seconds)
            }
            Ok(steady) => (Some(steady.start_ns..=steady.end_ns), steady.duration().as_seconds()),
            Err(_) => {
                let none =
                    Sorted::new(std::iter::empty(), |term: &Term| term.time, &Store::default());
                return (none, 0.0);
            }
        };
        // When a request counts, and how much of it.
        let place = |start: u64, end: u64| match &window {
            None => (start, 1.0),
            Some(window) if measure.source.is_by_start() => {
                (start, f64::from(u8::from(window.contains(&start))))
            }
            Some(window) => (end.min(*window.end()), share_in(start, end, window)),
        };
        let column = measure.source.tag().and_then(|tag| columns.get(tag));
        let mut values = column.map(Column::iter);
        let requests = starts.iter().zip(ends.iter()).zip(failed.iter());
        let terms = requests.map(|((start, end), failed)| {
            let value = values.as_mut().and_then(Iterator::next).unwrap_or(f64::NAN);
            let (time, share) = place(start, end);
            Term { time, value, share, failed }
        });
        let terms = terms.filter(|term| term.share > 0.0);
        (Sorted::new(terms, |term| term.time, &starts.scratch()), seconds)
    }
}

/// Returns terms, which are in order of time, with the time until the next one in seconds; together,
/// `total`.
fn with_gaps(terms: impl Iterator<Item = Term>, total: f64) -> impl Iterator<Item = (Term, f64)> {
    let mut terms = terms.peekable();
    let mut sum = 0.0;
    std::iter::from_fn(move || {
        let term = terms.next()?;
        let gap = match terms.peek() {
            Some(next) => Nanos(next.time).since(Nanos(term.time)).as_seconds(),
            None => (total - sum).max(0.0),
        };
        sum += gap;
        Some((term, gap))
    })
}

/// The runs of a directory.
#[derive(Debug, Clone, Default)]
pub(crate) struct Side {
    pub(crate) trials: Vec<Trial>,
    /// The worst verdict on client health.
    pub(crate) verdict: Option<Verdict>,
    /// Why the runs do not describe the server: one failed, or is not complete.
    pub(crate) failure: Option<String>,
}

impl Side {
    /// Returns why nothing can be concluded from the runs, if there is a reason.
    fn obstacle(&self) -> Option<String> {
        let invalid = || {
            let is_invalid = self.verdict == Some(Verdict::Invalid);
            is_invalid.then(|| "client health is invalid".to_owned())
        };
        self.failure.clone().or_else(invalid)
    }

    /// Returns how much lower and higher a statistic may be because of the clients: as much as in
    /// the run in which it may be most.
    fn errors(&self, subject: Subject) -> [f64; 2] {
        let errors = self.trials.iter().filter(|_| !subject.is_steady).filter_map(|trial| {
            let value = trial.result(subject)?;
            trial.bounds.errors(subject.metric, subject.statistic.name, value)
        });
        errors.fold([0.0, 0.0], |[most_below, most_above], [below, above]| {
            [f64::max(most_below, below), f64::max(most_above, above)]
        })
    }

    /// Returns the requests of all runs, one run after the other.
    fn sample(&self, measure: &Measure) -> Sample {
        let store = self.trials.first().map(|trial| trial.requests.starts.scratch());
        let mut values = Column::new(store.unwrap_or_default());
        let mut terms = Terms::default();
        let row = measure.source.tag().and_then(Registry::row);
        for trial in &self.trials {
            let (sorted, seconds) = trial.in_order(measure);
            for (Term { value, share, failed, .. }, gap) in with_gaps(sorted.iter(), seconds) {
                let value = Some(value).filter(|value| !value.is_nan());
                let shown = value.zip(row).map(|(value, row)| row.to_display(value));
                let failed = f64::from(failed);
                match measure.source {
                    Source::Percentile(..) => values.extend(shown),
                    Source::Mean(_) => terms.extend(shown.map(|value| (value, 1.0))),
                    Source::Rate(_) => terms.push(share * value.unwrap_or(0.0), gap),
                    Source::SuccessRate => terms.push(share * (1.0 - failed), gap),
                    Source::Share(_) => {
                        let has = value.is_some_and(|value| value > 0.0);
                        terms.push(share * f64::from(u8::from(has)), share);
                    }
                    Source::Failures => terms.push(share * failed * 100.0, share),
                }
            }
        }
        match measure.source {
            Source::Percentile(_, percent) => Sample::percentile(values, percent),
            _ => Sample::Ratio(terms),
        }
    }
}

/// A row of a comparison.
#[derive(Debug, Clone)]
struct Measure {
    subject: Subject,
    source: Source,
    /// Whether it decides the result.
    decides: bool,
    gate: Option<RelativeGate>,
}

/// What is compared, and how certain the result must be.
#[derive(Debug, Clone)]
pub(crate) struct Plan {
    measures: Vec<Measure>,
    /// The confidence level of all deciding rows together.
    confidence: f64,
    /// The number of comparisons with BASE, of which a sweep has one for each cell.
    comparisons: usize,
}

impl Plan {
    /// Plans `comparisons` with one base. With `gates`, only their metrics decide.
    #[must_use]
    pub(crate) fn new(gates: &[RelativeGate], confidence: f64, comparisons: usize) -> Self {
        let mut measures: Vec<Measure> = Vec::new();
        let mut add = |subject: Subject, decides, gate: Option<RelativeGate>| {
            let is_same = |known: &Measure| known.subject.is(subject);
            let is_known = measures.iter().any(|known| is_same(known) && gate.is_none());
            let source = Source::of(subject.metric, subject.statistic);
            if let Some(source) = source.filter(|_| !is_known) {
                measures.push(Measure { subject, source, decides, gate });
            }
        };
        for gate in gates {
            add(gate.subject, true, Some(gate.clone()));
        }
        let deciding = DECIDING.iter().map(|tag| (*tag, "avg", gates.is_empty()));
        let shown = SHOWN.iter().map(|(tag, statistic)| (*tag, *statistic, false));
        for (tag, statistic, decides) in deciding.chain(shown) {
            if let (Some(metric), Some(statistic)) =
                (Registry::row(tag), Statistic::named(statistic))
            {
                add(Subject { metric, statistic, is_steady: false }, decides, None);
            }
        }
        Self { measures, confidence, comparisons }
    }

    /// Compares the runs of `new` with those of `base`.
    #[must_use]
    pub(crate) fn compare(&self, base: &Side, new: &Side) -> Compared {
        let obstacle = [("BASE", base), ("NEW", new)]
            .into_iter()
            .find_map(|(name, side)| side.obstacle().map(|why| format!("{name}: {why}")));
        let has = |measure: &&Measure| {
            let mut trials = base.trials.iter().chain(&new.trials);
            measure.gate.is_some() || trials.any(|trial| trial.result(measure.subject).is_some())
        };
        let measures: Vec<&Measure> = self.measures.iter().filter(has).collect();
        let deciding = measures.iter().filter(|measure| measure.decides).count();
        // Bonferroni's correction: the chances of a false finding in the deciding rows add up.
        let tests = (deciding * self.comparisons).max(1) as f64;
        let level = 1.0 - (1.0 - self.confidence) / tests;
        let by_trials = base.trials.len().min(new.trials.len()) >= MIN_TRIALS;
        let method = if by_trials { Method::Welch } else { Method::Bootstrap };
        let rows: Vec<Row> = measures
            .into_iter()
            .map(|measure| measure.compare(base, new, method, level, obstacle.as_ref()))
            .collect();
        let has_found = |finding| rows.iter().any(|row| row.decides && row.finding == finding);
        let outcome = if has_found(Finding::Regression) {
            Conclusion::Regression
        } else if has_found(Finding::CannotTell) || deciding == 0 {
            Conclusion::CannotTell
        } else {
            Conclusion::NoRegression
        };
        Compared {
            method,
            confidence: self.confidence,
            interval_level: level,
            obstacle,
            rows,
            time_breakdown: parts::compare(base, new, level),
            outcome,
        }
    }
}

/// How intervals are computed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Method {
    /// By resampling blocks of requests.
    Bootstrap,
    /// By Welch's t over the results of the runs.
    Welch,
}

/// The result for one row.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Finding {
    /// Worse than chance explains, and than the gate permits.
    Regression,
    /// Better than chance explains.
    Improvement,
    /// Not worse than the gate permits.
    WithinGate,
    /// No difference that chance does not explain.
    NoDifference,
    /// There is not enough data.
    CannotTell,
}

impl Finding {
    /// Returns how it is shown.
    #[must_use]
    pub(crate) const fn as_str(self) -> &'static str {
        match self {
            Self::Regression => "regression",
            Self::Improvement => "improvement",
            Self::WithinGate => "within gate",
            Self::NoDifference => "no difference",
            Self::CannotTell => "cannot tell",
        }
    }
}

/// The result of all rows.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Conclusion {
    NoRegression,
    CannotTell,
    Regression,
}

/// A comparison.
#[derive(Debug, Clone, Serialize)]
pub(crate) struct Compared {
    pub(crate) method: Method,
    pub(crate) confidence: f64,
    /// The confidence level of each interval, so that all deciding rows together have `confidence`.
    pub(crate) interval_level: f64,
    /// Why nothing can be concluded from the runs.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) obstacle: Option<String>,
    pub(crate) rows: Vec<Row>,
    /// The parts of the mean latencies, which decide nothing.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub(crate) time_breakdown: Vec<PartRow>,
    pub(crate) outcome: Conclusion,
}

/// A statistic of both sides.
#[derive(Debug, Clone, Serialize)]
pub(crate) struct Row {
    /// Whether it is of the steady state, not of the whole phase.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub(crate) is_steady: bool,
    pub(crate) metric: MetricTag,
    pub(crate) statistic: &'static str,
    pub(crate) unit: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) base: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) new: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) difference: Option<f64>,
    /// In percent of the magnitude of `base`; absent if that is 0.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) difference_percent: Option<f64>,
    /// The interval of the difference.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) interval: Option<[f64; 2]>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) interval_percent: Option<[f64; 2]>,
    /// Number of requests in a block, for both sides.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) block_lengths: Option<[usize; 2]>,
    /// How much lower and higher the statistic may be because of the client, for both sides; absent
    /// if neither.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) client_errors: Option<[[f64; 2]; 2]>,
    /// Whether it decides the result.
    pub(crate) decides: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) gate: Option<String>,
    pub(crate) finding: Finding,
    /// Why it cannot be told.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) note: Option<String>,
}

impl Row {
    /// Returns the name of the metric, as in a gate.
    #[must_use]
    pub(crate) fn name(&self) -> String {
        let prefix = if self.is_steady { Subject::STEADY } else { "" };
        format!("{prefix}{}", self.metric)
    }
}

/// A difference, its interval, and the block lengths.
struct Estimate {
    base: f64,
    new: f64,
    interval: Result<[f64; 2], String>,
    block_lengths: Option<[usize; 2]>,
}

impl Measure {
    fn compare(
        &self,
        base: &Side,
        new: &Side,
        method: Method,
        level: f64,
        obstacle: Option<&String>,
    ) -> Row {
        let mut row = Row {
            is_steady: self.subject.is_steady,
            metric: self.subject.metric.tag,
            statistic: self.subject.statistic.name,
            unit: self.subject.metric.display_unit.label(),
            base: None,
            new: None,
            difference: None,
            difference_percent: None,
            interval: None,
            interval_percent: None,
            block_lengths: None,
            client_errors: None,
            decides: self.decides,
            gate: self.gate.as_ref().map(ToString::to_string),
            finding: Finding::CannotTell,
            note: None,
        };
        let unsteady = [("BASE", base), ("NEW", new)].into_iter().find_map(|(name, side)| {
            let why = side.trials.iter().find_map(|trial| trial.steady_state.as_ref().err())?;
            Some(format!("{name} does not have a steady state: {why}"))
        });
        let estimate = match (unsteady.filter(|_| self.subject.is_steady), method) {
            (Some(why), _) => Err(why),
            (None, Method::Bootstrap) => self.bootstrap(base, new, level),
            (None, Method::Welch) => self.welch(base, new, level),
        };
        let estimate = match estimate {
            Ok(estimate) => estimate,
            Err(why) => {
                row.note = Some(why);
                return row;
            }
        };
        let difference = estimate.new - estimate.base;
        let percent = |value: f64| {
            Some(100.0 * value / estimate.base.abs()).filter(|percent| percent.is_finite())
        };
        row.base = Some(estimate.base);
        row.new = Some(estimate.new);
        row.difference = Some(difference);
        row.difference_percent = percent(difference);
        row.block_lengths = estimate.block_lengths;
        let interval = match estimate.interval {
            Ok(interval) => interval,
            Err(why) => {
                row.note = Some(why);
                return row;
            }
        };
        let errors = [base, new].map(|side| side.errors(self.subject));
        row.client_errors = Some(errors).filter(|errors| *errors != [[0.0; 2]; 2]);
        row.interval = Some(interval);
        row.interval_percent = percent(interval[0]).zip(percent(interval[1])).map(<[f64; 2]>::from);
        let found = match obstacle {
            Some(why) => Err(why.clone()),
            None => self.find(&row, difference, interval).and_then(|finding| {
                let may_be = may_be_of_clients(finding, interval, errors);
                if may_be { Err(LATE_CLIENTS.to_owned()) } else { Ok(finding) }
            }),
        };
        match found {
            Ok(finding) => row.finding = finding,
            Err(why) => row.note = Some(why),
        }
        row
    }

    /// Returns what the interval of a difference shows; or why it shows nothing.
    fn find(&self, row: &Row, difference: f64, [low, high]: [f64; 2]) -> Result<Finding, String> {
        let larger_is_better = larger_is_better(self.subject.metric);
        let (is_worse, is_better) =
            if larger_is_better { (high < 0.0, low > 0.0) } else { (low > 0.0, high < 0.0) };
        let Some(gate) = &self.gate else {
            return Ok(match (is_worse, is_better) {
                (true, _) => Finding::Regression,
                (_, true) => Finding::Improvement,
                _ => Finding::NoDifference,
            });
        };
        if is_better {
            return Ok(Finding::Improvement);
        }
        if difference == 0.0 && low == 0.0 && high == 0.0 {
            return Ok(Finding::WithinGate);
        }
        let (Some(percent), Some([low, high])) = (row.difference_percent, row.interval_percent)
        else {
            return if is_worse {
                Ok(Finding::Regression)
            } else {
                Err("BASE is 0, so a difference in percent is not defined".to_owned())
            };
        };
        let worst = if larger_is_better { low } else { high };
        if gate.operator.holds(worst, gate.limit_percent) {
            return Ok(Finding::WithinGate);
        }
        if is_worse && !gate.operator.holds(percent, gate.limit_percent) {
            return Ok(Finding::Regression);
        }
        Err("the interval is too wide for the gate; measure more requests or runs".to_owned())
    }

    fn bootstrap(&self, base: &Side, new: &Side, level: f64) -> Result<Estimate, String> {
        let samples = [("BASE", base), ("NEW", new)].map(|(name, side)| (name, side.sample(self)));
        let lengths = [0, 1].map(|at| samples[at].1.block_length());
        let value = |(name, sample): &(&str, Sample)| {
            sample.value().ok_or_else(|| format!("{name} does not have it"))
        };
        let (first, second) = (value(&samples[0])?, value(&samples[1])?);
        let shortage = samples.iter().zip(lengths).find_map(|((name, sample), length)| {
            sample.shortage(length).map(|why| format!("{name}: {why}"))
        });
        let interval = if let Some(why) = shortage {
            Err(why)
        } else {
            let resampled = |at: usize| samples[at].1.bootstrap(lengths[at], RESAMPLES, at as u64);
            let [base, new] = [0, 1].map(resampled);
            bootstrap::interval(&base, &new, level)
                .ok_or_else(|| "the requests started at the same time".to_owned())
        };
        Ok(Estimate { base: first, new: second, interval, block_lengths: Some(lengths) })
    }

    /// Compares the means of the runs' results.
    fn welch(&self, base: &Side, new: &Side, level: f64) -> Result<Estimate, String> {
        let values = |name: &str, side: &Side| -> Result<Vec<f64>, String> {
            let values: Vec<f64> =
                side.trials.iter().filter_map(|trial| trial.result(self.subject)).collect();
            if values.len() < MIN_TRIALS {
                return Err(format!(
                    "{name}: {} runs have it, at least {MIN_TRIALS} required",
                    values.len()
                ));
            }
            Ok(values)
        };
        let (base, new) = (values("BASE", base)?, values("NEW", new)?);
        let [base, new] = [base, new].map(|values| Moments::of(&values));
        let interval = welch(&base, &new, level).ok_or_else(|| "no interval".to_owned());
        Ok(Estimate { base: base.mean, new: new.mean, interval, block_lengths: None })
    }
}

/// Why a difference that chance does not explain cannot be told.
const LATE_CLIENTS: &str =
    "the clients were late to send or to read, and may have made the difference";

/// Returns whether the clients may have made the difference in which something was found, given
/// how much lower and higher the statistics of both sides may be because of them.
fn may_be_of_clients(
    finding: Finding,
    [low, high]: [f64; 2],
    [[base_below, base_above], [new_below, new_above]]: [[f64; 2]; 2],
) -> bool {
    matches!(finding, Finding::Regression | Finding::Improvement)
        && low - new_below - base_above <= 0.0
        && high + new_above + base_below >= 0.0
}

/// Mean and variance of the mean of values.
struct Moments {
    count: f64,
    mean: f64,
    /// Sample variance divided by the number of values.
    variance_of_mean: f64,
}

impl Moments {
    fn of(values: &[f64]) -> Self {
        let count = values.len() as f64;
        let mean = values.iter().sum::<f64>() / count;
        let squares: f64 = values.iter().map(|value| (value - mean).powi(2)).sum();
        Self { count, mean, variance_of_mean: squares / (count - 1.0) / count }
    }
}

/// Returns Welch's interval for the difference of two means (Welch, "The generalization of
/// Student's problem when several different population variances are involved", Biometrika 34,
/// 1947), with the degrees of freedom rounded down.
fn welch(base: &Moments, new: &Moments, level: f64) -> Option<[f64; 2]> {
    let difference = new.mean - base.mean;
    let variance = base.variance_of_mean + new.variance_of_mean;
    if variance == 0.0 {
        return Some([difference; 2]);
    }
    let term = |of: &Moments| of.variance_of_mean.powi(2) / (of.count - 1.0);
    let degrees = (variance.powi(2) / (term(base) + term(new))).floor().max(1.0);
    let half = student_t::critical(level, degrees as u32)? * variance.sqrt();
    Some([difference - half, difference + half])
}

/// Runs that are compared with others.
#[derive(Debug, Clone, Serialize)]
pub(crate) struct Comparison {
    /// The directory that others are compared with.
    pub(crate) base: String,
    /// The directory that is compared with it.
    pub(crate) new: String,
    /// The cell, if the directories are those of sweeps.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) cell: Option<String>,
    /// Its settings.
    #[serde(skip_serializing_if = "serde_json::Map::is_empty")]
    pub(crate) parameters: serde_json::Map<String, Json>,
    /// Number of runs on both sides.
    pub(crate) runs: [usize; 2],
    #[serde(flatten)]
    pub(crate) compared: Compared,
    /// In what else the runs differ.
    pub(crate) differences: Vec<Difference>,
}

/// A setting or fact in which runs differ.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub(crate) struct Difference {
    /// Names of members, separated by dots.
    pub(crate) path: String,
    /// Null if it is absent.
    pub(crate) base: Json,
    /// Null if it is absent.
    pub(crate) new: Json,
}

/// Returns the members that differ, in order of their paths; lists are compared as a whole.
#[must_use]
pub(crate) fn differences(base: &Json, new: &Json) -> Vec<Difference> {
    let mut found = Vec::new();
    collect("", base, new, &mut found);
    found.sort_by(|a, b| a.path.cmp(&b.path));
    found
}

fn collect(path: &str, base: &Json, new: &Json, found: &mut Vec<Difference>) {
    let (Json::Object(old), Json::Object(other)) = (base, new) else {
        if base != new {
            found.push(Difference { path: path.to_owned(), base: base.clone(), new: new.clone() });
        }
        return;
    };
    let names: std::collections::BTreeSet<&String> = old.keys().chain(other.keys()).collect();
    for name in names {
        let path = if path.is_empty() { name.clone() } else { format!("{path}.{name}") };
        let of = |map: &serde_json::Map<String, Json>| map.get(name).cloned().unwrap_or_default();
        collect(&path, &of(old), &of(other), found);
    }
}

#[cfg(test)]
mod tests;
