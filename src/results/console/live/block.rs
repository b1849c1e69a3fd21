//! The statistics of a run in a few lines (`--stats-interval`).

use std::fmt::Write;

use client::schedule::PhaseStats;
use measure::metrics::live::LiveStatistics;
use measure::metrics::metric::{MetricResult, Statistic};
use measure::metrics::tag::{self, MetricTag};

use super::clock;
use crate::tables::format::{count, four_digits};

/// The metrics with percentiles: label, tag, percentiles and unit.
const SPREADS: &[(&str, MetricTag, [&str; 4], &str)] = &[
    ("ttft", tag::TIME_TO_FIRST_TOKEN, TIMES, "ms"),
    ("itl", tag::INTER_TOKEN_LATENCY, TIMES, "ms"),
    ("e2e", tag::REQUEST_LATENCY, TIMES, "ms"),
    ("intvty", tag::OUTPUT_TOKEN_THROUGHPUT_PER_USER, TIMES, "tok/s"),
    ("isl", tag::INPUT_SEQUENCE_LENGTH, LENGTHS, "tokens"),
    ("osl", tag::OUTPUT_SEQUENCE_LENGTH, LENGTHS, "tokens"),
];

const TIMES: [&str; 4] = ["p50", "p75", "p95", "p99"];
const LENGTHS: [&str; 4] = ["p50", "p75", "p90", "p99"];

/// The sums over all requests: label and tag.
const TOTALS: [(&str, MetricTag); 2] = [("in", tag::TOTAL_ISL), ("out", tag::TOTAL_OSL)];

/// The rates over the whole phase: label and tag.
const RATES: [(&str, MetricTag); 2] =
    [("tput_in", tag::INPUT_TOKEN_THROUGHPUT), ("tput_out", tag::OUTPUT_TOKEN_THROUGHPUT)];

/// Returns the head of a block of the phase `name`: `[realtime 01:30 profiling]`.
pub(super) fn head(name: &str, stats: &PhaseStats) -> String {
    format!("[realtime {} {name}]", clock(stats.elapsed_seconds()))
}

/// Returns the lines below the head: the recent rate of requests and that of the whole phase, the
/// rates of tokens, counts, percentiles and sums of those metrics that the run has.
pub fn block(statistics: &LiveStatistics, results: &[MetricResult]) -> String {
    let result_of = |tag: MetricTag| results.iter().find(|result| result.metric.tag == tag);
    let mut text = String::from(" ");
    let rates = statistics.rates.iter().find(|rate| rate.metric.tag == tag::REQUEST_THROUGHPUT);
    // Writing to a string does not fail.
    if let Some((recent, whole)) = rates.and_then(|rate| Some((rate.recent?, rate.whole?))) {
        let _ = write!(text, " rps={recent:.1} (avg {whole:.1})");
    }
    for (label, tag) in RATES {
        if let Some(result) = result_of(tag) {
            let _ = write!(text, " {label}={:.1}", result.stats.avg);
        }
    }
    let (ok, failed) = (statistics.succeeded, statistics.failed);
    let _ = writeln!(text, " done={} ok={} err={}", count(ok + failed), count(ok), count(failed));
    for &(label, tag, percentiles, unit) in SPREADS {
        let value = |name: &&str| Statistic::named(name)?.value_in(&result_of(tag)?.stats);
        let values: Vec<_> =
            percentiles.iter().filter_map(|name| Some((name, value(name)?))).collect();
        if !values.is_empty() {
            let _ = write!(text, "  {label:<6}");
            for (name, value) in values {
                let _ = write!(text, " {name}={}", four_digits(value));
            }
            let _ = writeln!(text, " {unit}");
        }
    }
    let sums = TOTALS.iter().filter_map(|(label, tag)| Some((label, result_of(*tag)?.stats.avg)));
    let sums: Vec<_> = sums.map(|(label, sum)| format!(" {label}={}", count(sum as u64))).collect();
    if !sums.is_empty() {
        let _ = writeln!(text, "  totals{} tokens", sums.concat());
    }
    text
}

#[cfg(test)]
mod tests {
    use base::units::Nanos;
    use client::schedule::PhaseKind;
    use measure::metrics::Registry;
    use measure::metrics::live::LiveRate;
    use measure::metrics::metric::{Distribution, Stats};

    use super::*;

    fn result(tag: MetricTag, avg: f64, distribution: Option<Distribution>) -> MetricResult {
        let metric = Registry::row(tag).unwrap();
        MetricResult { metric, stats: Stats { avg, instant: None, distribution } }
    }

    #[test]
    fn a_block_has_what_the_run_has() {
        let metric = Registry::row(tag::REQUEST_THROUGHPUT).unwrap();
        let (recent, whole) = (Some(51.04), Some(48.96));
        let rate = LiveRate { metric, recent, whole, by_second: Vec::new() };
        let statistics = LiveStatistics {
            succeeded: 1_200,
            failed: 3,
            rates: vec![rate],
            ..LiveStatistics::default()
        };
        let spread = Distribution {
            p50: 10.0,
            p75: 20.5,
            p90: 27.0,
            p95: 30.0,
            p99: 4321.0,
            ..Distribution::UNKNOWN
        };
        let results = [
            result(tag::REQUEST_LATENCY, 12.0, Some(spread)),
            result(tag::OUTPUT_SEQUENCE_LENGTH, 12.0, Some(spread)),
            result(tag::OUTPUT_TOKEN_THROUGHPUT, 203.25, None),
            result(tag::TOTAL_OSL, 24_000.0, None),
        ];
        let expected = "  rps=51.0 (avg 49.0) tput_out=203.2 done=1,203 ok=1,200 err=3
  e2e    p50=10 p75=20.50 p95=30 p99=4,321 ms
  osl    p50=10 p75=20.50 p90=27 p99=4,321 tokens
  totals out=24,000 tokens
";
        assert_eq!(block(&statistics, &results), expected);
        assert_eq!(block(&LiveStatistics::default(), &[]), "  done=0 ok=0 err=0\n");
    }

    #[test]
    fn a_head_has_the_time_since_the_start_of_the_phase() {
        let at = |seconds: u64| PhaseStats {
            phase: PhaseKind::Warmup,
            now: Nanos(seconds * 1_000_000_000),
            ..PhaseStats::default()
        };
        assert_eq!(head("warmup", &at(90)), "[realtime 01:30 warmup]");
        assert_eq!(head("warmup", &at(6_000)), "[realtime 100:00 warmup]");
    }
}
