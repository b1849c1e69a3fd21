//! The energy of a GPU between two times, with the range that the samples permit.

use crate::metrics::gpu::{Energy, EnergySource};
use crate::server_metrics::report::Window;

/// A sample of a counter of joules, or of a power in watts.
#[derive(Debug, Clone, Copy)]
pub struct Sample {
    /// When it was requested, in nanoseconds since the epoch.
    pub(crate) requested_ns: u64,
    /// When the response began.
    pub at_ns: u64,
    pub value: f64,
}

/// A new value of a counter, which the GPU reached between two times.
#[derive(Debug, Clone, Copy)]
struct Step {
    /// When the last scrape without it was requested; 0 for the first value.
    after_ns: u64,
    at_ns: u64,
    joules: f64,
}

/// Returns the increase of a counter of joules in `window`; `None` if its value did not change
/// twice, or decreased.
///
/// Between two new values, the counter is interpolated. It never decreases, so that its value at any
/// time is at least that of the latest scrape before, and at most that of the first new value
/// after. Beyond the samples it increases at most as fast as it did between two of them.
#[must_use]
pub(crate) fn by_counter(samples: &[Sample], window: Window) -> Option<Energy> {
    let steps = steps(samples)?;
    let [first, .., last] = steps[..] else { return None };
    let fastest = steps.windows(2).map(|pair| slope(pair[0], pair[1])).fold(0.0, f64::max);
    let beyond = |from: u64, to: u64| fastest * seconds(from, to);
    let at = |time: u64| {
        let after = steps.partition_point(|step| step.at_ns <= time).clamp(1, steps.len() - 1);
        let (from, to) = (steps[after - 1], steps[after]);
        from.joules + slope(from, to) * (time as f64 - from.at_ns as f64) / 1e9
    };
    let lowest = |time: u64| match steps.iter().rev().find(|step| step.at_ns <= time) {
        Some(before) => before.joules,
        None => first.joules - beyond(time, first.at_ns),
    };
    let highest = |time: u64| match steps.iter().find(|step| step.after_ns >= time) {
        Some(after) => after.joules,
        None => last.joules + beyond(last.after_ns, time),
    };
    let Window { start_ns, end_ns } = window;
    let joules = at(end_ns) - at(start_ns);
    let (min, max) = (lowest(end_ns) - highest(start_ns), highest(end_ns) - lowest(start_ns));
    Some(Energy {
        joules: joules.max(0.0),
        min_joules: min.clamp(0.0, joules.max(0.0)),
        max_joules: max.max(joules),
        source: EnergySource::Counter,
    })
}

/// Returns the first value and each new one after it; `None` if there are fewer than two, or if
/// the counter decreased.
fn steps(samples: &[Sample]) -> Option<Vec<Step>> {
    let mut steps: Vec<Step> = Vec::new();
    let mut requested_before = 0;
    for sample in samples {
        let joules = sample.value;
        match steps.last() {
            Some(last) if joules < last.joules => return None,
            Some(last) if joules <= last.joules => {}
            _ => steps.push(Step { after_ns: requested_before, at_ns: sample.at_ns, joules }),
        }
        requested_before = sample.requested_ns;
    }
    (steps.len() >= 2).then_some(steps)
}

/// Returns whether a counter has a value that it reached after `end_ns`, so that nothing more can be
/// learned about its value at that time.
#[must_use]
pub(crate) fn is_known_at(samples: &[Sample], end_ns: u64) -> bool {
    steps(samples).is_some_and(|steps| steps.iter().any(|step| step.after_ns >= end_ns))
}

/// Returns the integral of a power in watts over `window`; `None` without samples.
///
/// Between two samples, the power is interpolated; the lowest and the highest energy are those with
/// the lower and the higher of the two powers. Beyond the samples, it is that of the nearest one.
#[must_use]
pub(crate) fn by_power(samples: &[Sample], window: Window) -> Option<Energy> {
    let (first, last) = (samples.first()?, samples.last()?);
    let Window { start_ns, end_ns } = window;
    let before = Sample { at_ns: start_ns.min(first.at_ns), ..*first };
    let after = Sample { at_ns: end_ns.max(last.at_ns), ..*last };
    let all: Vec<Sample> =
        [before].into_iter().chain(samples.iter().copied()).chain([after]).collect();
    let mut energy =
        Energy { joules: 0.0, min_joules: 0.0, max_joules: 0.0, source: EnergySource::Power };
    for pair in all.windows(2) {
        let (from, to) = (pair[0], pair[1]);
        let (begin, end) = (from.at_ns.max(start_ns), to.at_ns.min(end_ns));
        if begin >= end {
            continue;
        }
        let rise = (to.value - from.value) / seconds(from.at_ns, to.at_ns);
        let middle = f64::midpoint(seconds(from.at_ns, begin), seconds(from.at_ns, end));
        let time = seconds(begin, end);
        energy.joules += (from.value + rise * middle) * time;
        energy.min_joules += from.value.min(to.value) * time;
        energy.max_joules += from.value.max(to.value) * time;
    }
    Some(energy)
}

fn slope(from: Step, to: Step) -> f64 {
    let time = seconds(from.at_ns, to.at_ns);
    if time > 0.0 { (to.joules - from.joules) / time } else { 0.0 }
}

/// Returns the time from `from` to `to`; 0 if it is negative.
fn seconds(from: u64, to: u64) -> f64 {
    to.saturating_sub(from) as f64 / 1e9
}
