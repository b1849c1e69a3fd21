//! The runs that are compared, with their requests.

use base::column::{Column, Sorted, Store, fixed_struct};
use base::statistics::dependent::Exactness;
use base::statistics::interval::Measured;
use base::statistics::order;
use base::statistics::percentile::exact_sum;
use base::statistics::rate::{Span, rate};
use base::units::{Nanos, Unit};
use client::schedule::PhaseKind;

use super::finding::{Shortage, round_up};
use super::{Measure, Plan};
use crate::judge::gate::Subject;
use crate::metrics::health::{ClientBounds, LoadVerdict, OutputHealth};
use crate::metrics::metric::{Metric, MetricKind, MetricResult, Observation, Statistic};
use crate::metrics::prefix_cache::PrefixCache;
use crate::metrics::steady::{SteadyState, Unsteady};
use crate::metrics::tag::{self, MetricTag, TagMap};
use crate::metrics::time_breakdown::Division;
use crate::metrics::{Extent, LongRun, Registry, Verdict};

/// Minimum number of requests.
pub(in crate::judge) const MIN_REQUESTS: usize = 50;

/// Minimum number of independent requests of a mean that are as exact as the requests.
const MIN_INDEPENDENT: f64 = 5.0;

/// Where a statistic of a run comes from.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Source {
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
    /// Returns where a statistic of a metric comes from; `None` if it does not have an interval.
    pub fn for_statistic(metric: &Metric, statistic: Statistic) -> Option<Self> {
        if matches!(metric.kind, MetricKind::Record(_)) {
            return match statistic {
                Statistic::Percentile(percent) => {
                    Some(Self::Percentile(metric.tag, percent.value()))
                }
                Statistic::Avg => Some(Self::Mean(metric.tag)),
                _ => None,
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
        found.map(|(_, source)| *source).filter(|_| statistic == Statistic::Avg)
    }

    /// Returns whether the statistics of the steady state cover the requests that started in it, not
    /// the shares of requests in it.
    const fn is_by_start(self) -> bool {
        matches!(self, Self::Mean(_) | Self::Percentile(..))
    }

    pub(super) const fn tag(self) -> Option<MetricTag> {
        match self {
            Self::Mean(tag) | Self::Percentile(tag, _) | Self::Rate(tag) | Self::Share(tag) => {
                Some(tag)
            }
            Self::SuccessRate | Self::Failures => None,
        }
    }
}

/// The requests of a run that a comparison needs, in any order.
#[derive(Debug, Clone)]
pub struct Requests {
    starts: Column<u64>,
    ends: Column<u64>,
    /// The times of all of them.
    extent: Extent,
    /// Whether each failed: 0 or 1.
    failed: Column<u8>,
    /// Values in the metric's own unit; NaN for a request without one.
    columns: TagMap<Column<f64>>,
}

fixed_struct! {
    /// What a statistic needs of a request.
    #[derive(Debug, Clone, Copy, Default)]
    pub(super) struct Term {
        /// When it started, in nanoseconds since the epoch.
        start: u64,
        /// When it ended.
        end: u64,
        /// NaN if it does not have one.
        value: f64,
        /// Whether it failed: 0 or 1.
        failed: u8,
    }
}

impl Requests {
    /// Creates a reader of the metrics that `plan` compares; they are kept in `store`.
    #[must_use]
    pub fn new(plan: &Plan, store: &Store) -> Self {
        let tags = plan.measures.iter().filter_map(|measure| measure.source.tag());
        let columns = tags.map(|tag| (tag, Column::new(store.clone()))).collect();
        Self {
            starts: Column::new(store.clone()),
            ends: Column::new(store.clone()),
            extent: Extent::default(),
            failed: Column::new(store.clone()),
            columns,
        }
    }

    /// Adds a request, if it belongs to the measurement.
    pub fn take(&mut self, request: &Observation) {
        if request.phase != PhaseKind::Profiling {
            return;
        }
        let failed = request.error.is_some();
        self.starts.push(request.start_wall_ns);
        self.ends.push(request.end_wall_ns);
        self.extent.add(request.start_wall_ns, request.end_wall_ns);
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
pub struct Trial {
    /// Its results, in display units.
    pub results: Vec<MetricResult>,
    /// Its steady state, or why there is none.
    pub steady_state: Result<SteadyState, Unsteady>,
    /// Its latencies divided by the server's times, if they are.
    pub time_breakdown: Option<Division>,
    /// What its prompts repeat, and what the server read from its prefix cache, if that is known.
    pub prefix_cache: Option<PrefixCache>,
    /// The server's outputs, if there were any.
    pub outputs: Option<OutputHealth>,
    /// How far the client may have shifted its statistics.
    pub bounds: ClientBounds,
    /// The requests per second that it was to send, if that is a certain number.
    pub requested_rate: Option<f64>,
    /// What its rates are in the long run, if that does not follow from the times of its requests alone.
    pub long_run: Option<LongRun>,
    pub requests: Requests,
}

impl Trial {
    /// Returns a statistic of the run or of its steady state; of a rate of the run, that in the long run.
    pub(in crate::judge) fn result(&self, subject: Subject) -> Option<f64> {
        let (results, long_run) = match &self.steady_state {
            _ if !subject.is_steady => (&self.results, self.long_run()),
            Ok(steady) => (&steady.results, LongRun::default()),
            Err(_) => return None,
        };
        let result = results.iter().find(|found| found.metric.tag == subject.metric.tag)?;
        let value = subject.statistic.value_in(&result.stats).filter(|value| value.is_finite())?;
        Some(long_run.value(result.metric, value))
    }

    /// Returns what its rates are in the long run.
    fn long_run(&self) -> LongRun {
        self.long_run.unwrap_or_else(|| self.requests.extent.long_run(self.requested_rate))
    }

    /// Returns the requests that a measure covers, in the order in which they started; and the
    /// duration that rates are relative to, in seconds.
    fn in_order(&self, measure: &Measure) -> (Sorted<Term>, f64) {
        let Requests { starts, ends, failed, columns, .. } = &self.requests;
        let (window, seconds) = match &self.steady_state {
            _ if !measure.subject.is_steady => {
                let is_duration =
                    |found: &&MetricResult| found.metric.tag == tag::BENCHMARK_DURATION;
                let seconds = self.results.iter().find(is_duration).map_or(0.0, |found| {
                    found.metric.display_unit.convert(found.stats.avg, Unit::Seconds)
                });
                (0..=u64::MAX, seconds)
            }
            Ok(steady) => (steady.start_ns..=steady.end_ns, steady.duration().as_seconds()),
            Err(_) => {
                let none =
                    Sorted::new(std::iter::empty(), |term: &Term| term.start, &Store::default());
                return (none, 0.0);
            }
        };
        let column = measure.source.tag().and_then(|tag| columns.get(tag));
        let mut values = column.map(Column::iter);
        let terms = starts.iter().zip(ends.iter()).zip(failed.iter());
        let terms = terms.map(|((start, end), failed)| {
            let value = values.as_mut().and_then(Iterator::next).unwrap_or(f64::NAN);
            Term { start, end, value, failed }
        });
        let by_start = measure.source.is_by_start();
        let terms = terms.filter(|term| {
            let time = if by_start { term.start } else { term.end };
            window.contains(&time)
        });
        (Sorted::new(terms, |term| term.start, &starts.scratch()), seconds)
    }

    /// Returns the rate of `measure`.
    fn rate(&self, measure: &Measure) -> TrialRate {
        let (by_start, seconds) = self.in_order(measure);
        let by_end = Sorted::new(by_start.iter(), |term| term.end, &self.requests.starts.scratch());
        let first = by_start.iter().next().map_or(0, |term| term.start);
        let span = |term: Term| Span {
            start: Nanos(term.start.saturating_sub(first)).as_seconds(),
            end: Nanos(term.end.saturating_sub(first)).as_seconds(),
            weight: match measure.source {
                Source::Rate(_) if term.value.is_nan() => 0.0,
                Source::Rate(_) => term.value,
                _ => 1.0 - f64::from(term.failed),
            },
        };
        let found = rate(|| by_start.iter().map(span), || by_end.iter().map(span));
        let weight = exact_sum(by_start.iter().map(|term| span(term).weight));
        TrialRate {
            value: self.result(measure.subject).unwrap_or(weight / seconds),
            seconds,
            exactness: found.map_or(Exactness::NONE, |rate| rate.exactness),
            batch: found.map_or(1, |rate| rate.batch),
            count: by_start.iter().count(),
        }
    }
}

/// A rate of a run.
struct TrialRate {
    value: f64,
    /// The duration that it is relative to.
    seconds: f64,
    /// How exact its product with the duration is.
    exactness: Exactness,
    /// Number of requests in a batch.
    batch: usize,
    /// Number of requests.
    count: usize,
}

/// A statistic by requests.
pub struct Sampled {
    pub measured: Measured,
    /// Number of requests with it.
    pub count: usize,
}

impl Sampled {
    /// Returns the interval of the statistic of `source` at the confidence `level`; `None` if there
    /// are too few requests for one.
    pub fn interval(&self, source: Source, level: f64) -> Option<[f64; 2]> {
        let is_enough = self.shortage(source).is_none();
        is_enough.then(|| self.measured.ends(level)).flatten()
    }

    /// Returns why there are too few requests for an interval of the statistic of `source`, and how many are
    /// needed; `None` if there are enough.
    pub(super) fn shortage(&self, source: Source) -> Option<Shortage> {
        let n = self.count;
        let few = |needed: usize, of: &str| {
            let why = format!("{n} requests, at least {needed} required{of}");
            Some(Shortage { why, needed: Some(needed as u64) })
        };
        if n < MIN_REQUESTS {
            return few(MIN_REQUESTS, "");
        }
        // Of a rate, the degrees of freedom are fewer instead.
        let (required, of) = match source {
            Source::Percentile(_, percent) => {
                let required = order::needed(percent / 100.0);
                if (n as u64) < required {
                    return few(usize::try_from(required).ok()?, &format!(" for p{percent}"));
                }
                (required as f64 / 2.0, format!(" for p{percent}"))
            }
            Source::Mean(_) => (MIN_INDEPENDENT, String::new()),
            Source::Rate(_) | Source::SuccessRate | Source::Share(_) | Source::Failures => {
                return None;
            }
        };
        let independent = self.measured.independent;
        if independent >= required {
            return None;
        }
        let needed = round_up(n as f64 * required / independent);
        Some(Shortage {
            why: format!(
                "{n} requests, which depend on each other so much that they are as exact as \
                 {independent:.0} independent ones; at least {required:.0} required{of}"
            ),
            needed,
        })
    }
}

/// The runs of a directory.
#[derive(Debug, Clone, Default)]
pub struct Side {
    pub trials: Vec<Trial>,
    /// The worst verdict on client health.
    pub verdict: Option<Verdict>,
    /// The worst verdict on the load.
    pub load_verdict: Option<LoadVerdict>,
    /// Why the runs do not describe the server: one failed, or is not complete.
    pub failure: Option<String>,
}

impl Side {
    /// Returns why nothing can be concluded from the runs, if there is a reason.
    pub(super) fn obstacle(&self) -> Option<String> {
        let invalid = || {
            let is_invalid = self.verdict == Some(Verdict::Invalid);
            is_invalid.then(|| "client health is invalid".to_owned())
        };
        self.failure.clone().or_else(invalid)
    }

    /// Returns why the latencies say nothing about the server, if there is a reason.
    pub(super) fn obstacle_of_latencies(&self) -> Option<String> {
        let verdict = self.load_verdict.filter(|verdict| *verdict == LoadVerdict::Saturated)?;
        let verdict = verdict.words();
        Some(format!("the load is {verdict}, so latencies depend on the length of the run"))
    }

    /// Returns a statistic by the requests of all runs, one run after the other; `None` if none has it.
    pub(super) fn sampled(&self, measure: &Measure) -> Option<Sampled> {
        if matches!(measure.source, Source::Rate(_) | Source::SuccessRate) {
            return self.sampled_rate(measure);
        }
        let store = self.trials.first().map(|trial| trial.requests.starts.scratch());
        let mut values = Column::new(store.unwrap_or_default());
        let row = measure.source.tag().and_then(Registry::row);
        for trial in &self.trials {
            for Term { value, failed, .. } in trial.in_order(measure).0.iter() {
                let value = Some(value).filter(|value| !value.is_nan());
                match measure.source {
                    Source::Share(_) => {
                        let has = value.is_some_and(|value| value > 0.0);
                        values.push(f64::from(u8::from(has)));
                    }
                    Source::Failures => values.push(f64::from(failed)),
                    _ => {
                        values.extend(value.zip(row).map(|(value, row)| row.to_display(value)));
                    }
                }
            }
        }
        let count = values.len();
        let measured = match measure.source {
            Source::Percentile(_, percent) => Measured::percentile(values, percent),
            Source::Share(_) => Measured::share(|| values.iter()),
            Source::Failures => Measured::share(|| values.iter()).map(|share| share.times(100.0)),
            _ => Measured::mean(|| values.iter()),
        };
        Some(Sampled { measured: measured?, count })
    }

    fn sampled_rate(&self, measure: &Measure) -> Option<Sampled> {
        let rates: Vec<TrialRate> = self.trials.iter().map(|trial| trial.rate(measure)).collect();
        let seconds: f64 = rates.iter().map(|rate| rate.seconds).sum();
        let sum: f64 = rates.iter().map(|rate| rate.value * rate.seconds).sum();
        let exactness = rates.iter().map(|rate| rate.exactness).reduce(Exactness::plus)?;
        let batch = rates.iter().map(|rate| rate.batch).max()?;
        let count = rates.iter().map(|rate| rate.count).sum();
        let value = Some(sum / seconds).filter(|value| value.is_finite())?;
        let measured = Measured::of_sum(value, seconds, exactness, batch, count);
        Some(Sampled { measured, count })
    }
}

/// Returns how much lower and higher a statistic may be because of the clients: as much as in the
/// run in which it may be most.
pub(in crate::judge) fn errors<'a>(
    trials: impl Iterator<Item = &'a Trial>,
    subject: Subject,
) -> [f64; 2] {
    let errors = trials.filter(|_| !subject.is_steady).filter_map(|trial| {
        let value = trial.result(subject)?;
        trial.bounds.errors(subject.metric, &subject.statistic.to_string(), value)
    });
    errors.fold([0.0, 0.0], |[most_below, most_above], [below, above]| {
        [f64::max(most_below, below), f64::max(most_above, above)]
    })
}
