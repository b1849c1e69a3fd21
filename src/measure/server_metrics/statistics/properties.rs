//! Properties of any series, whatever a server counts and whenever it restarts.

use proptest::prelude::*;

use base::redact::ShownUrl;

use super::super::exposition::{Exposition, Format};
use super::super::report::{HistogramStats, MetricReport, Window, Windows, build};
use super::super::snapshot::Snapshot;
use super::super::store::Store;
use super::*;

const SECOND: u64 = 1_000_000_000;

/// The time since the previous scrape, and the values of the scrape.
#[derive(Debug, Clone)]
struct Step {
    after_ns: u64,
    /// Whether the server restarted.
    is_anew: bool,
    /// Whether the series exist.
    is_there: bool,
    /// The gauge's value.
    value: f64,
    /// The observations in each bucket since then.
    more: [u16; 3],
}

fn step() -> impl Strategy<Value = Step> {
    let gauge =
        prop_oneof![-1e9..1e9, any::<f64>().prop_filter("finite", |value| value.is_finite())];
    let rare = || prop::bool::weighted(0.1);
    (1..3 * SECOND, rare(), rare(), gauge, any::<[u16; 3]>()).prop_map(
        |(after_ns, is_anew, is_away, value, more)| Step {
            after_ns,
            is_anew,
            is_there: !is_away,
            value,
            more,
        },
    )
}

/// The time of a scrape, and the counter's value if it existed.
type Counted = (u64, Option<f64>);

/// Returns the scrapes of `steps`, with the counter's values.
fn scraped(steps: &[Step]) -> (Store, Vec<Counted>) {
    let mut store = Store::new([ShownUrl::from("http://a/metrics")]);
    let mut counts = [0_u64; 3];
    let mut at = 0;
    let mut all = Vec::new();
    for Step { after_ns, is_anew, is_there, value, more } in steps {
        at += after_ns;
        if *is_anew {
            counts = [0; 3];
        }
        for (count, more) in counts.iter_mut().zip(more) {
            *count += u64::from(*more);
        }
        let [low, middle, high] = counts;
        let count = low + middle + high;
        let body = format!(
            "# TYPE c counter\nc {count}\n# TYPE g gauge\ng {value}\n# TYPE h histogram\n\
             h_bucket{{le=\"1\"}} {low}\nh_bucket{{le=\"2\"}} {}\nh_bucket{{le=\"+Inf\"}} {count}\n\
             h_sum {}\nh_count {count}\n",
            low + middle,
            low + 2 * middle + 3 * high,
        );
        let body = if *is_there { body } else { "up 1\n".to_owned() };
        let exposition = Exposition::parse(body.as_bytes(), Format::Text).unwrap();
        let times = FetchTimes { request_sent_ns: at, first_byte_ns: at, last_byte_ns: at };
        store.push(0, times, &Snapshot::from_exposition(&exposition));
        all.push((at, is_there.then_some(count as f64)));
    }
    (store, all)
}

/// Returns the value and time of the reference and of each sample in the window.
fn samples(scrapes: &[Counted], window: Window) -> Vec<(u64, f64)> {
    let (before, rest): (Vec<_>, Vec<_>) =
        scrapes.iter().partition(|(at, _)| *at < window.start_ns);
    let known = before.iter().rev().find_map(|(_, count)| *count).unwrap_or(0.0);
    let reference = before.last().map(|(at, _)| (*at, known));
    let within = rest.into_iter();
    reference.into_iter().chain(within.filter_map(|(at, count)| Some((at, count?)))).collect()
}

fn stats<'a>(metrics: &'a [MetricReport], name: &str) -> Option<&'a Stats> {
    let metric = metrics.iter().find(|metric| &*metric.name == name)?;
    Some(&metric.series[0].stats)
}

fn is_near(one: f64, other: f64) -> bool {
    (one - other).abs() <= 1e-9 * one.abs().max(other.abs())
}

/// Returns whether slices are contiguous and fill the window.
fn fill<T>(slices: &[Timeslice<T>], window: Window) -> bool {
    slices.windows(2).all(|pair| pair[0].end_ns == pair[1].start_ns)
        && slices.first().is_none_or(|first| first.start_ns == window.start_ns)
        && slices.last().is_none_or(|last| last.end_ns == window.end_ns)
}

fn check_counter(stats: &CounterStats, samples: &[(u64, f64)], window: Window) {
    let (first, last) = (samples[0], samples[samples.len() - 1]);
    let falls = samples.windows(2).filter(|pair| pair[1].1 < pair[0].1).count() as u64;
    assert_eq!(stats.total, (last.1 - first.1).max(0.0));
    assert!(stats.rate >= 0.0 && stats.rate.is_finite());
    // In this case rates and slices begin at that value.
    let has_large_first = stats.doubts.has_large_first_value;
    if last.0 > first.0 && !has_large_first {
        assert!(is_near(stats.rate * ((last.0 - first.0) as f64 / 1e9), stats.total));
    }
    assert_eq!(stats.resets.map_or(0, |resets| resets.reset_count), falls);
    assert!(stats.resets.is_none_or(|resets| resets.total_with_resets >= stats.total));
    assert!(fill(&stats.timeslices, window));
    assert!(stats.timeslices.iter().all(|slice| slice.stats.total >= 0.0));
    assert!(stats.timeslices.iter().all(|slice| slice.stats.rate.is_finite()));
    if falls == 0 && !stats.timeslices.is_empty() && !has_large_first {
        let sum: f64 = stats.timeslices.iter().map(|slice| slice.stats.total).sum();
        assert_eq!(sum, stats.total);
    }
}

fn check_gauge(stats: &GaugeStats) {
    let GaugeStats { min, max, std, percentiles, .. } = stats;
    let ascending = [&[*min][..], percentiles, &[*max]].concat();
    assert!(ascending.is_sorted(), "{ascending:?}");
    assert!(*std >= 0.0 || std.is_nan());
    let is_small = min.abs().max(max.abs()) <= 1e9;
    assert!(!is_small || (min - 1e-3..=max + 1e-3).contains(&stats.avg));
}

/// Checks a histogram. A server that counts more after a restart than before may go unnoticed; in
/// this case the buckets need not be consistent.
fn check_histogram(stats: &HistogramStats, counter: &CounterStats, is_steady: bool) {
    assert_eq!((stats.count, stats.count_rate), (counter.total, counter.rate));
    assert_eq!(stats.resets.is_some(), stats.buckets.is_none());
    assert!(counter.resets.is_none() || stats.resets.is_some());
    let Some(buckets) = &stats.buckets else { return };
    assert!(buckets.iter().all(|(_, count)| *count >= 0.0));
    assert!(!is_steady || buckets.is_sorted_by(|a, b| a.1 <= b.1));
    assert_eq!(buckets[2].1, stats.count);
    let percentiles = stats.percentiles.unwrap_or_default();
    assert!(percentiles.is_sorted() && percentiles[0] >= 0.0 && percentiles[8].is_finite());
    assert!(!is_steady || stats.percentiles.is_some() == (stats.count > 0.0));
    let slices = &stats.timeslices;
    if slices.is_empty() || stats.doubts.has_large_first_value {
        return;
    }
    for (bound, (_, count)) in buckets.iter().enumerate() {
        let sum: f64 = slices.iter().map(|slice| slice.stats.buckets[bound].1).sum();
        assert_eq!(sum, *count);
    }
    assert_eq!(slices.iter().map(|slice| slice.stats.count).sum::<f64>(), stats.count);
    assert!(is_near(slices.iter().map(|slice| slice.stats.sum).sum(), stats.sum));
}

proptest! {
    #[test]
    fn parts_make_the_whole_and_nothing_is_negative(
        steps in prop::collection::vec(step(), 1..24),
        // Phases end with a scrape, or some time after one.
        ends in prop::array::uniform2((any::<prop::sample::Index>(), prop::bool::ANY, 0..SECOND)),
        slice_ns in prop::option::of(SECOND / 1000..5 * SECOND),
    ) {
        let (_, scrapes) = scraped(&steps);
        let mut ends = ends.map(|(scrape, is_after, by)| {
            let (at, _) = scrapes[scrape.index(scrapes.len())];
            if is_after { at + by } else { at }
        });
        ends.sort_unstable();
        let [start_ns, end_ns] = ends;
        // The phase's final scrape is the last one, if there is one after its end.
        let last = scrapes.iter().position(|(at, _)| *at >= end_ns.max(start_ns));
        let steps = &steps[..last.map_or(steps.len(), |last| last + 1)];
        let (store, scrapes) = scraped(steps);
        let last_ns = scrapes.last().unwrap().0;
        let window = Window { start_ns, end_ns };
        let windows = Windows { warmup: None, profiling: Some(window) };
        let metrics = build(&store, windows, slice_ns.map(Nanos)).metrics;
        let samples = samples(&scrapes, window);
        let has_any = samples.iter().any(|(at, _)| *at >= start_ns);
        prop_assert_eq!(stats(&metrics, "c").is_some(), has_any);
        if !has_any {
            return Ok(());
        }
        let found = ["c", "g", "h"].map(|name| stats(&metrics, name).unwrap());
        let [Stats::Counter(counter), Stats::Gauge(gauge), Stats::Histogram(histogram)] = found else {
            panic!("{found:?}")
        };
        check_counter(counter, &samples, Window { end_ns: end_ns.max(last_ns), ..window });
        check_gauge(gauge);
        check_histogram(histogram, counter, !steps.iter().any(|step| step.is_anew));
    }
}
