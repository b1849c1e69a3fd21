//! The health of the load: whether the server kept up with it, and whether the latencies depend on
//! how long the run was. `docs/decisions/load-health.md` explains the rules.

use std::fmt;

use serde::{Deserialize, Serialize};

use base::statistics::Estimate;
use base::statistics::backlog::{BATCHES, Backlog, hinge};
use base::statistics::drift::drift;
use base::units::Nanos;
use client::schedule::HeldLoad;

use super::load_failures::Failures;
use super::load_times::{Bin, LoadTimes};

/// Fewest requests of whose queue and latencies anything can be told.
const FEWEST: u64 = 32;

/// Least share of the requests that must succeed for a verdict.
const LEAST_SUCCESS: f64 = 0.1;

/// Number of mean latencies after which a queue has filled, if it ever does: of exponentially
/// distributed latencies, 5% are longer.
const FILLING: f64 = 3.0;

/// Largest change of latencies, as a factor, that is called stationary.
const STEADY_FACTOR: f64 = 1.05;

/// Factor by which latencies must be known to change less, to call a closed loop sustained.
const KNOWN_FACTOR: f64 = 1.5;

/// Number of parts of the time for the drift of latencies, and for the hinge of the queue.
const PARTS: usize = 64;

/// The share of the time, from its beginning, that is not judged.
const BEGINNING: f64 = 0.1;

/// Fewest requests whose latencies show how long a queue fills.
const FEWEST_OF_BEGINNING: u64 = 8;

/// Fewest requests from which it can be estimated how many are needed.
const FEWEST_FOR_NEED: u64 = 16;

/// Requests of which a batch has so few that their distances are more informative than their numbers.
const FEW: u64 = 4 * BATCHES as u64;

/// Requests from which equally distant ones show that the queue does not grow, however they fall in the
/// batches: these add a variance of up to 1/4 each to arrivals and ends, four requests in all.
const ENOUGH: f64 = 96.0;

/// How many times as many requests are needed as by an estimate, whose variance may be too low: that of a
/// queue, and that of the drift of latencies, which is from few parts.
const MARGINS: (f64, f64) = (1.5, 3.0);

/// Whether the server kept up with the load.
#[derive(
    Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, schemars::JsonSchema,
)]
#[serde(rename_all = "snake_case")]
pub enum LoadVerdict {
    /// The server kept up.
    Sustained,
    /// The run is too short for a verdict.
    #[serde(rename = "too_short_to_tell")]
    TooShort,
    /// The latencies changed in the course of the run.
    NotStationary,
    /// More requests arrived than the server served.
    Saturated,
    /// The server rejected requests, or did not respond in time.
    Rejecting,
    /// Requests failed in another way.
    Failing,
}

impl LoadVerdict {
    /// All verdicts, the best first.
    pub const ALL: [Self; 6] = [
        Self::Sustained,
        Self::TooShort,
        Self::NotStationary,
        Self::Saturated,
        Self::Rejecting,
        Self::Failing,
    ];

    /// Returns its name in files and gates.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Sustained => "sustained",
            Self::TooShort => "too_short_to_tell",
            Self::NotStationary => "not_stationary",
            Self::Saturated => "saturated",
            Self::Rejecting => "rejecting",
            Self::Failing => "failing",
        }
    }

    /// Returns it in words.
    #[must_use]
    pub const fn words(self) -> &'static str {
        match self {
            Self::Sustained => "sustained",
            Self::TooShort => "too short to tell",
            Self::NotStationary => "not stationary",
            Self::Saturated => "saturated",
            Self::Rejecting => "rejected",
            Self::Failing => "failed",
        }
    }

    /// Returns the verdict as a number, from 0 for sustained to 5 for failing.
    #[must_use]
    pub const fn level(self) -> u8 {
        self as u8
    }

    /// Returns whether latencies depend on how long the run was.
    #[must_use]
    pub const fn is_of_length(self) -> bool {
        matches!(self, Self::NotStationary | Self::Saturated)
    }

    /// Returns whether the load is more than the server takes.
    #[must_use]
    pub const fn is_too_much(self) -> bool {
        matches!(self, Self::Saturated | Self::Rejecting)
    }
}

/// A value with the ends of its confidence interval.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize, schemars::JsonSchema)]
pub struct Interval {
    /// The estimate.
    pub value: f64,
    /// Lower end.
    pub low: f64,
    /// Upper end.
    pub high: f64,
}

impl Interval {
    fn from_estimate(estimate: Estimate, as_shown: impl Fn(f64) -> f64) -> Self {
        let Estimate { value, half_width } = estimate;
        Self {
            value: as_shown(value),
            low: as_shown(value - half_width),
            high: as_shown(value + half_width),
        }
    }
}

/// The health of the load of a measurement.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize, schemars::JsonSchema)]
pub struct LoadHealth {
    pub verdict: LoadVerdict,
    /// Requests per second that were due, or sent without due times, once the queue had time to fill; in a run
    /// that is too short for that, from the first to the last request. 0 with fewer than two.
    pub offered_rate: f64,
    /// Requests per second that ended in that time without failing; in a run that is too short, from the first
    /// to the last end.
    pub served_rate: f64,
    /// Requests per second by which the queue grew: those that were due and had not ended, or not in time.
    /// With the interval of 99%; absent in a closed loop, and with too few requests.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub queue_slope: Option<Interval>,
    /// Change of the latencies in that time, in percent, with the interval of 99.8%; absent if it is
    /// not known.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub latency_drift_percent: Option<Interval>,
    /// When the queue began to grow, in seconds since the start of the phase; absent unless the
    /// verdict is `saturated`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub since_seconds: Option<f64>,
    /// Seconds for which requests must be sent for a verdict, which nine of ten runs of that length reach; absent
    /// unless the verdict is `too_short_to_tell`, and if that is not known yet.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub needed_seconds: Option<f64>,
    /// About as many requests as are sent in that time.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub needed_requests: Option<u64>,
    /// The requests that failed, if more than 1% do, with a confidence of 99%.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub failures: Option<Failures>,
}

impl LoadHealth {
    /// Judges the requests so far of a phase that began at `phase_start_ns` and holds `load`. `None`
    /// if the load is not known, all requests were sent at once, there are none, or nearly all failed.
    #[must_use]
    pub fn judge(times: &LoadTimes, load: Option<HeldLoad>, phase_start_ns: u64) -> Option<Self> {
        let (bins, origin_ns, bin_ns) = times.bins();
        let from = match load? {
            HeldLoad::AllAtOnce => return None,
            HeldLoad::Concurrency(asked) => reached(&bins, asked),
            HeldLoad::Arrivals { ramp_ns } => {
                let after = phase_start_ns.saturating_add(ramp_ns.0).saturating_sub(origin_ns);
                after.div_ceil(bin_ns) as usize
            }
        };
        let all = Bin::sum(&bins);
        if (all.succeeded as f64) < LEAST_SUCCESS * all.ended as f64 {
            return None;
        }
        let until = bins.iter().rposition(|bin| bin.arrived > 0)? + 1;
        let from = from.min(until);
        let window = Window {
            bins: &bins[from..until],
            rest: &bins[until..],
            seconds: Nanos(bin_ns).as_seconds(),
            is_open: matches!(load, Some(HeldLoad::Arrivals { .. })),
        };
        let mut health = window.judge(Failures::from_counts(times.failures(), all.ended));
        if health.verdict == LoadVerdict::Saturated {
            let start_ns = (origin_ns + from as u64 * bin_ns).saturating_sub(phase_start_ns);
            health.since_seconds = window.since().map(|since| Nanos(start_ns).as_seconds() + since);
        }
        Some(health)
    }
}

impl fmt::Display for LoadHealth {
    /// `saturated (offered 122.0/s, served 81.0/s, the queue grew by 41.0/s from 0.4 s on)`,
    /// `not stationary: latency rose by 100%; 20% failed (500)`
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { verdict, offered_rate, served_rate, .. } = self;
        let failures = self.failures.map(|failures| failures.to_string());
        let words = verdict.words();
        // In a closed loop, as many are offered as are served.
        let rates = self.queue_slope.map(|slope| {
            (format!("offered {offered_rate:.1}/s, served {served_rate:.1}/s"), slope.value)
        });
        let text = match (verdict, rates) {
            (LoadVerdict::Saturated, Some((rates, slope))) => {
                let since = self.since_seconds.unwrap_or(0.0);
                format!("{words} ({rates}, the queue grew by {slope:.1}/s from {since:.1} s on)")
            }
            (LoadVerdict::Sustained, Some((rates, _))) => format!("{words} ({rates})"),
            (LoadVerdict::Sustained | LoadVerdict::Saturated, None) => words.to_owned(),
            (LoadVerdict::NotStationary, _) => match self.latency_drift_percent {
                Some(Interval { value: change, .. }) => {
                    let moved = if change < 0.0 { "fell" } else { "rose" };
                    format!("{words}: latency {moved} by {:.0}%", change.abs())
                }
                None => words.to_owned(),
            },
            (LoadVerdict::TooShort, _) => match self.need() {
                Some(need) => format!("{words} (needs {need})"),
                None => words.to_owned(),
            },
            (LoadVerdict::Rejecting | LoadVerdict::Failing, _) => {
                return f.write_str(failures.as_deref().unwrap_or(words));
            }
        };
        f.write_str(&text)?;
        failures.map_or(Ok(()), |failures| write!(f, "; {failures}"))
    }
}

impl LoadHealth {
    /// Returns whether requests are offered independently of those that are served, and enough were for the
    /// rates of both.
    pub const fn has_rates(&self) -> bool {
        self.queue_slope.is_some()
    }

    /// Returns what a run needs at least for a verdict, as far as that is known: `23 s or 460 requests`.
    fn need(&self) -> Option<String> {
        let seconds = self.needed_seconds.filter(|seconds| *seconds > 0.0)?;
        let decimals = (1.0 - seconds.log10().floor()).clamp(0.0, 9.0) as usize;
        let requests = self.needed_requests.filter(|requests| *requests > 0);
        let requests = requests.map(|requests| format!(" or {requests} requests"));
        Some(format!("{seconds:.decimals$} s{}", requests.unwrap_or_default()))
    }
}

/// Returns the events per second from the first to the last of `bins` that has any, each of so many
/// `seconds`; `None` unless they are in different bins. Of n events, n - 1 follow the first.
fn rate_of<'a>(
    bins: impl IntoIterator<Item = &'a Bin>,
    seconds: f64,
    events: fn(&Bin) -> u64,
) -> Option<f64> {
    let counts = bins.into_iter().map(events).enumerate().filter(|(_, count)| *count > 0);
    let (mut first, mut last, mut sum) = (None, 0, 0);
    for (at, count) in counts {
        first.get_or_insert(at);
        (last, sum) = (at, sum + count);
    }
    let length = (last - first?) as f64 * seconds;
    (length > 0.0).then(|| (sum - 1) as f64 / length)
}

/// Returns the first bin at whose end as many requests are in flight as `asked`, less the few that are
/// about to be replaced.
fn reached(bins: &[Bin], asked: u64) -> usize {
    let enough = (asked as f64 * 0.95).floor().max(1.0) as u64;
    let mut in_flight = 0_u64;
    let found = bins.iter().position(|bin| {
        in_flight = (in_flight + bin.arrived).saturating_sub(bin.ended);
        in_flight >= enough
    });
    found.unwrap_or(0)
}

/// Returns the squared coefficient of variation of the distances between events; 0 of fewer than three.
fn variation<'a>(bins: impl IntoIterator<Item = &'a Bin>, events: fn(&Bin) -> u64) -> f64 {
    let (mut before, mut count, mut sum, mut squares) = (None, 0.0, 0.0, 0.0);
    for (at, bin) in bins.into_iter().enumerate().filter(|(_, bin)| events(bin) > 0) {
        let distance = before.map(|before| (at - before) as f64);
        // Further events in the bin are at the same time.
        count += (events(bin) - 1) as f64 + f64::from(u8::from(distance.is_some()));
        sum += distance.unwrap_or(0.0);
        squares += distance.map_or(0.0, |distance: f64| distance.powi(2));
        before = Some(at);
    }
    let mean: f64 = sum / count;
    if count >= 2.0 && mean > 0.0 { (squares / count / mean.powi(2) - 1.0).max(0.0) } else { 0.0 }
}

/// The bins from the ramp to the last request that arrived.
struct Window<'a> {
    bins: &'a [Bin],
    /// Those after it, in which the last requests ended.
    rest: &'a [Bin],
    /// The length of a bin.
    seconds: f64,
    is_open: bool,
}

impl Window<'_> {
    fn judge(&self, failures: Option<Failures>) -> LoadHealth {
        let settled = self.settled();
        let of_window = Bin::sum(settled);
        let is_enough = of_window.arrived >= FEWEST && settled.len() >= BATCHES;
        let [offered, served] = if is_enough {
            let length = settled.len() as f64 * self.seconds;
            [of_window.arrived, of_window.served()].map(|it| it as f64 / length)
        } else {
            let all = self.bins.iter().chain(self.rest);
            [self.rate(), rate_of(all, self.seconds, Bin::served)].map(|it| it.unwrap_or(0.0))
        };
        let latency = self.drift(settled);
        let backlog = self.counts(settled).filter(|_| self.is_open && is_enough);
        let verdict = self.verdict(latency.filter(|_| is_enough), backlog, failures);
        let needed = self.needed(settled, latency).filter(|_| verdict == LoadVerdict::TooShort);
        LoadHealth {
            verdict,
            offered_rate: offered,
            served_rate: served,
            queue_slope: backlog
                .map(|backlog| Interval::from_estimate(backlog.slope(), |slope| slope)),
            latency_drift_percent: latency
                .map(|drift| Interval::from_estimate(drift, |log| 100.0 * log.exp_m1())),
            since_seconds: None,
            needed_seconds: needed,
            needed_requests: needed.zip(self.rate()).map(|(it, rate)| (it * rate).ceil() as u64),
            failures,
        }
    }

    /// Returns the requests per second that arrived.
    fn rate(&self) -> Option<f64> {
        rate_of(self.bins, self.seconds, |bin| bin.arrived)
    }

    /// Returns the verdict of the tests that have enough data; those of the queue and of the latencies are absent with
    /// too few requests.
    fn verdict(
        &self,
        latency: Option<Estimate>,
        backlog: Option<Backlog>,
        failures: Option<Failures>,
    ) -> LoadVerdict {
        let has_drifted =
            |drift: &Estimate| drift.value.abs() - drift.half_width > STEADY_FACTOR.ln();
        let is_known = |drift: Estimate| drift.half_width <= KNOWN_FACTOR.ln();
        if backlog.is_some_and(|backlog| backlog.is_growing()) {
            LoadVerdict::Saturated
        } else if latency.as_ref().is_some_and(has_drifted) {
            LoadVerdict::NotStationary
        } else if let Some(failures) = failures {
            failures.verdict()
        } else if backlog.is_some_and(|backlog| backlog.is_level())
            || !self.is_open && latency.is_some_and(is_known)
        {
            LoadVerdict::Sustained
        } else {
            LoadVerdict::TooShort
        }
    }

    /// Returns the seconds for which requests must be sent, after which nine of ten runs have a verdict; `None` if that
    /// is not known yet.
    fn needed(&self, settled: &[Bin], latency: Option<Estimate>) -> Option<f64> {
        let enough = ENOUGH / self.rate()?;
        let after = if self.is_open {
            MARGINS.0 * self.needed_of_queue(settled)?
        } else {
            let widths = latency?.half_width / KNOWN_FACTOR.ln();
            MARGINS.1 * settled.len() as f64 * self.seconds * widths.powi(2)
        };
        let after = enough.max(after);
        Some((self.filling() + after).max(after / (1.0 - BEGINNING)))
    }

    /// Returns the seconds in which it would be seen whether the queue grows; `None` if too few requests
    /// arrived to know.
    fn needed_of_queue(&self, settled: &[Bin]) -> Option<f64> {
        let arrived = Bin::sum(self.bins).arrived;
        let found = if Bin::sum(settled).arrived >= FEW && settled.len() >= BATCHES {
            self.counts(settled)
        } else {
            // The whole time, although the queue still filled.
            let variation = variation(self.bins, |bin| bin.arrived)
                + variation(self.bins.iter().chain(self.rest), |bin| bin.ended);
            let seconds = arrived as f64 / self.rate()?;
            let few = Backlog::of_few(arrived as f64, seconds, variation);
            (arrived >= FEWEST_FOR_NEED).then_some(few)
        };
        found.map(|backlog| backlog.seconds_needed())
    }

    /// Returns the seconds after which a queue has filled: those of the first requests have all ended, and as
    /// good as all of their kind. If there are too few, the latencies are those of all.
    fn filling(&self) -> f64 {
        let first = Bin::sum(&self.bins[..(self.bins.len() as f64 * BEGINNING) as usize]);
        let sum = if first.sent < FEWEST_OF_BEGINNING { Bin::sum(self.bins) } else { first };
        (FILLING * mean_latency(&sum)).max(Nanos(sum.longest).as_seconds())
    }

    /// Returns the bins after a tenth of the time, and after the queue had time to fill.
    fn settled(&self) -> &[Bin] {
        let beginning = (self.bins.len() as f64 * BEGINNING) as usize;
        let filling = (self.filling() / self.seconds) as usize;
        &self.bins[filling.max(beginning).min(self.bins.len())..]
    }

    /// Returns the change of the logarithms of the latencies, in parts of at least the mean latency.
    fn drift(&self, settled: &[Bin]) -> Option<Estimate> {
        let latency = mean_latency(&Bin::sum(settled));
        let mut parts = PARTS;
        while parts >= BATCHES / 4 {
            let length = settled.len() / parts;
            let means = (length > 0 && length as f64 * self.seconds >= latency)
                .then(|| batches(settled, length, parts).map(|bin| bin.mean_log()).collect())
                .flatten();
            if let Some(means) = means {
                let means: Vec<f64> = means;
                return drift(&means);
            }
            parts /= 2;
        }
        None
    }

    /// Counts the requests that arrived and left in the batches of `bins`; `None` without enough bins.
    fn counts(&self, bins: &[Bin]) -> Option<Backlog> {
        let length = bins.len() / BATCHES;
        if length == 0 {
            return None;
        }
        let (mut arrived, mut left) = ([0.0; BATCHES], [0.0; BATCHES]);
        let batches = batches(bins, length, BATCHES);
        for ((arrived, left), batch) in arrived.iter_mut().zip(&mut left).zip(batches) {
            *arrived = batch.arrived as f64;
            *left = batch.left() as f64;
        }
        Backlog::fit(&arrived, &left, length as f64 * self.seconds)
    }

    /// Returns when the queue began to grow, in seconds since the window's start.
    fn since(&self) -> Option<f64> {
        let length = self.bins.len().div_ceil(PARTS).max(1);
        let mut queue = 0.0;
        let queues = self.bins.chunks(length).map(|part| {
            let part = Bin::sum(part);
            queue += part.arrived as f64 - part.left() as f64;
            queue
        });
        let queues: Vec<f64> = [0.0].into_iter().chain(queues).collect();
        hinge(&queues).map(|at| (at * length) as f64 * self.seconds)
    }
}

/// Returns the mean latency in seconds of the requests sent in a bin; 0 without any.
fn mean_latency(bin: &Bin) -> f64 {
    Nanos(bin.nanos / bin.sent.max(1)).as_seconds()
}

/// Divides the last `count` times `length` bins into `count` batches.
fn batches(bins: &[Bin], length: usize, count: usize) -> impl Iterator<Item = Bin> {
    bins[bins.len() - length * count..].chunks_exact(length).map(Bin::sum)
}

#[cfg(test)]
mod tests;
