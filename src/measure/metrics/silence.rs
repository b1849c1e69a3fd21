//! Times in which no server sent anything on several open streams: a pause of all of them, which is not
//! in any percentile of a run with many tokens.

use std::fmt;

use serde::Serialize;

use base::units::Nanos;

use super::metric::{Observation, Value};
use super::tag;
use super::time_bins::{Join, TimeBins};

/// Logarithm of the length of the shortest bin in nanoseconds: 4.2 ms.
const FINEST: u32 = 22;
/// Most bins; a longer time has bins of twice the length.
const MOST_BINS: u64 = 16_384;
/// Shortest silence, in nanoseconds.
const SHORTEST_NS: u64 = 200_000_000;
/// A silence is this many times as long as the mean time between events of a stream.
const UNUSUAL: f64 = 10.0;
/// Shorter times between events are those of events that arrived together.
const TOGETHER_NS: f64 = 1e6;
/// Fewest streams that are silent at the same time.
const FEWEST_STREAMS: u64 = 2;

/// A time in which nothing arrived although responses were being streamed.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, schemars::JsonSchema)]
pub struct Silence {
    /// When the last event before it arrived, in seconds since the start of the measurement.
    pub start_seconds: f64,
    /// Time until the next event, in seconds.
    pub duration_seconds: f64,
    /// Number of streams that had begun and had not ended.
    pub streams: u64,
}

/// `no event on any of 8 streams from 6.0 to 7.5 s, for 1.5 s`
impl fmt::Display for Silence {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { start_seconds: from, duration_seconds: length, streams } = self;
        let until = from + length;
        write!(
            f,
            "no event on any of {streams} streams from {from:.1} to {until:.1} s, for {length:.1} s"
        )
    }
}

/// When the content events of a measurement arrived, over all streams.
#[derive(Debug, Clone)]
pub struct EventTimes {
    bins: TimeBins<Bin>,
    /// Number and sum of the times between events of a stream that did not arrive together.
    gaps: u64,
    gaps_ns: f64,
}

/// The events that arrived in a bin of time.
#[derive(Debug, Clone, Copy, Default)]
struct Bin {
    /// When the first and the last one arrived; absent without any.
    events: Option<[u64; 2]>,
    /// Streams whose first event is among them, and streams whose last one is.
    begun: u64,
    ended: u64,
}

impl Join for Bin {
    fn join(&mut self, other: &Self) {
        for at in other.events.into_iter().flatten() {
            self.arrived(at);
        }
        self.begun += other.begun;
        self.ended += other.ended;
    }
}

impl Bin {
    fn arrived(&mut self, at: u64) {
        let [first, last] = self.events.unwrap_or([at; 2]);
        self.events = Some([first.min(at), last.max(at)]);
    }
}

impl Default for EventTimes {
    fn default() -> Self {
        Self { bins: TimeBins::new(FINEST, MOST_BINS), gaps: 0, gaps_ns: 0.0 }
    }
}

impl EventTimes {
    /// Adds the events of a streamed response.
    pub fn observe(&mut self, request: &Observation) {
        let Some(Gaps { first_wall_ns, gaps }) = Gaps::between_events(request) else { return };
        self.bins.at(first_wall_ns).begun += 1;
        let mut at = first_wall_ns as f64;
        self.bins.at(first_wall_ns).arrived(first_wall_ns);
        for gap in gaps {
            at += gap;
            self.bins.at(at as u64).arrived(at as u64);
            if *gap >= TOGETHER_NS {
                self.gaps += 1;
                self.gaps_ns += gap;
            }
        }
        self.bins.at(at as u64).ended += 1;
    }

    /// Returns the times without events in a measurement that began at `start_wall_ns`, the longest first.
    pub fn silences(&self, start_wall_ns: u64) -> Vec<Silence> {
        let usual_ns = if self.gaps == 0 { 0.0 } else { self.gaps_ns / self.gaps as f64 };
        let shortest = SHORTEST_NS.max((UNUSUAL * usual_ns) as u64);
        let mut silences = Vec::new();
        let (mut streams, mut latest) = (0_u64, None);
        for bin in self.bins.iter() {
            let Some([first, last]) = bin.events else { continue };
            let duration_ns = first.saturating_sub(latest.unwrap_or(first));
            if duration_ns >= shortest && streams >= FEWEST_STREAMS {
                let since_start = (first - duration_ns).saturating_sub(start_wall_ns);
                silences.push(Silence {
                    start_seconds: Nanos(since_start).as_seconds(),
                    duration_seconds: Nanos(duration_ns).as_seconds(),
                    streams,
                });
            }
            streams = (streams + bin.begun).saturating_sub(bin.ended);
            latest = Some(last);
        }
        silences.sort_by(|a, b| b.duration_seconds.total_cmp(&a.duration_seconds));
        silences
    }
}

/// The times between the content events of a response.
#[derive(Debug, Clone, Copy)]
pub struct Gaps<'a> {
    /// When the first event arrived, in nanoseconds since the Unix epoch.
    first_wall_ns: u64,
    /// The times in nanoseconds.
    gaps: &'a [f64],
}

impl<'a> Gaps<'a> {
    /// Returns those of a successful request; `None` with fewer than two events, and with several
    /// choices, whose events are not in the order of their arrival.
    pub fn between_events(request: &'a Observation) -> Option<Self> {
        let first = request.values.scalar(tag::TIME_TO_FIRST_TOKEN)?;
        let Value::List(gaps) = request.values.get(tag::INTER_CHUNK_LATENCY)? else { return None };
        let latency = request.values.scalar(tag::REQUEST_LATENCY)?;
        let first_wall_ns = request.start_wall_ns + first as u64;
        let is_one_choice = first + gaps.iter().sum::<f64>() <= latency + TOGETHER_NS;
        is_one_choice.then_some(Self { first_wall_ns, gaps })
    }

    /// Returns the longest time in nanoseconds, and the number of events before it.
    #[must_use]
    pub fn longest(&self) -> Option<(f64, usize)> {
        let gaps = self.gaps.iter().copied().zip(1..);
        gaps.max_by(|a, b| a.0.total_cmp(&b.0))
    }
}

#[cfg(test)]
mod tests {

    use super::*;
    use crate::metrics::fixture;
    use crate::metrics::metric::RecordValues;

    const MS: u64 = 1_000_000;
    const ORIGIN: u64 = 1_795_226_094_000_000_000;

    /// A stream that begins `start` ms after the origin, with these times between its events in ms.
    fn stream(start: u64, gaps: &[u64]) -> Observation {
        let mut values = RecordValues::default();
        let sum: u64 = gaps.iter().sum();
        values.set(tag::TIME_TO_FIRST_TOKEN, Value::Scalar(0.0));
        let list = gaps.iter().map(|gap| (gap * MS) as f64).collect();
        values.set(tag::INTER_CHUNK_LATENCY, Value::List(list));
        values.set(tag::REQUEST_LATENCY, Value::Scalar((sum * MS) as f64));
        Observation {
            start_wall_ns: ORIGIN + start * MS,
            end_wall_ns: ORIGIN + (start + sum) * MS,
            values,
            ..fixture::observation()
        }
    }

    fn silences(streams: &[Observation]) -> Vec<[u64; 3]> {
        let mut times = EventTimes::default();
        for one in streams {
            times.observe(one);
        }
        let millis = |seconds: f64| (seconds * 1e3).round() as u64;
        let shown =
            |one: &Silence| [millis(one.start_seconds), millis(one.duration_seconds), one.streams];
        times.silences(ORIGIN).iter().map(shown).collect()
    }

    /// Two of three streams pause from 100 and 103 ms to 600 ms; the third ends at 90 ms.
    #[test]
    fn a_silence_is_of_all_open_streams() {
        let ten = [10_u64; 10];
        let one = stream(0, &[&ten[..], &[500], &ten].concat());
        let other = stream(3, &[&ten[..], &[497], &ten].concat());
        let short = stream(40, &[10, 10, 10, 10, 10]);
        let found = silences(&[one.clone(), short, other.clone()]);
        assert_eq!(found, [[103, 497, 2]]);
        // A single stream, and a pause during which another one goes on, are not silences.
        assert!(silences(std::slice::from_ref(&one)).is_empty());
        let busy = stream(0, &[20; 40]);
        assert!(silences(&[one, other, busy]).is_empty());
    }

    #[test]
    fn pauses_that_are_usual_are_not_silences() {
        let groups: Vec<u64> = (1..40).map(|at| if at % 4 == 0 { 300 } else { 0 }).collect();
        assert!(silences(&[stream(0, &groups), stream(0, &groups)]).is_empty());
    }

    /// An hour has bins of 0.27 s; the silence of 1.5 s is still exact.
    #[test]
    fn long_runs_have_fewer_bins_and_the_same_times() {
        let paused_stream = |start| stream(start, &[&[20; 50][..], &[1500], &[20; 50]].concat());
        let mut all: Vec<_> = (0..1200).map(|n| stream(n * 3_000, &[20; 140])).collect();
        all.extend([paused_stream(4_001_005), paused_stream(4_001_005)]);
        assert!(silences(&all[..1200]).is_empty());
        let mut times = EventTimes::default();
        for one in &all {
            times.observe(one);
        }
        assert!(times.bins.iter().count() as u64 <= MOST_BINS);
        assert_eq!(silences(&all), [[4_002_005, 1500, 2]]);
    }
}
