use std::sync::Arc;

use base::redact::ShownUrl;

use super::super::exposition::{Exposition, Format};
use super::super::report::{Resets, ServerMetricsReport, Window, Windows, build};
use super::super::snapshot::Snapshot;
use super::super::store::Store;
use super::*;

const SECOND: u64 = 1_000_000_000;

/// The report of bodies scraped at these seconds, over this window.
fn report(scrapes: &[(u64, &str)], window: [u64; 2], slice: Option<f64>) -> ServerMetricsReport {
    let mut store = Store::new([ShownUrl::from("http://a/metrics")]);
    let mut before = None;
    for (second, body) in scrapes {
        let at = second * SECOND;
        let times = FetchTimes { request_sent_ns: at, first_byte_ns: at, last_byte_ns: at + 1000 };
        if before.replace(*body) == Some(*body) {
            store.repeat(0, times);
            continue;
        }
        let exposition = Exposition::parse(body.as_bytes(), Format::Text).unwrap();
        store.push(0, times, &Snapshot::from_exposition(&exposition));
    }
    let [start_ns, end_ns] = window.map(|second| second * SECOND);
    let windows = Windows { warmup: None, profiling: Some(Window { start_ns, end_ns }) };
    build(&store, windows, slice.map(Nanos::from_seconds))
}

fn counter(report: &ServerMetricsReport) -> &CounterStats {
    match &report.metrics[0].series[0].stats {
        Stats::Counter(stats) => stats,
        other => panic!("{other:?}"),
    }
}

fn gauge(report: &ServerMetricsReport) -> &GaugeStats {
    match &report.metrics[0].series[0].stats {
        Stats::Gauge(stats) => stats,
        other => panic!("{other:?}"),
    }
}

fn histogram(report: &ServerMetricsReport) -> &super::super::report::HistogramStats {
    match &report.metrics[0].series[0].stats {
        Stats::Histogram(stats) => stats,
        other => panic!("{other:?}"),
    }
}

fn c(value: u64) -> String {
    format!("# TYPE c counter\nc {value}\n")
}

fn counted(values: &[(u64, u64)], window: [u64; 2], slice: Option<f64>) -> ServerMetricsReport {
    let bodies: Vec<(u64, String)> = values.iter().map(|(at, value)| (*at, c(*value))).collect();
    let bodies: Vec<(u64, &str)> = bodies.iter().map(|(at, body)| (*at, &**body)).collect();
    report(&bodies, window, slice)
}

#[test]
fn a_counter_is_compared_with_the_scrape_before() {
    let report =
        counted(&[(8, 1), (9, 10), (10, 12), (11, 20), (13, 30), (14, 99)], [10, 13], None);
    let stats = counter(&report);
    assert_eq!((stats.total, stats.rate), (20.0, 5.0));
    let rates = stats.point_rates.unwrap();
    // 2, 8 and 5 per second over 1, 1 and 2 seconds.
    assert_eq!((rates.avg, rates.min, rates.max, rates.std), (5.0, 2.0, 8.0, 3.0));
    assert_eq!((stats.resets, stats.slice_rates), (None, None));
}

#[test]
fn a_series_that_began_in_the_phase_began_at_zero() {
    let report = report(&[(9, "up 1\n"), (10, "up 1\n"), (11, &c(4)), (13, &c(8))], [10, 13], None);
    assert_eq!((counter(&report).total, counter(&report).rate), (8.0, 2.0));
    assert_eq!(report.metrics.len(), 2);
}

#[test]
fn a_series_that_was_away_goes_on_from_its_last_value() {
    let bodies = [(7, &*c(100)), (9, "up 1\n"), (11, &*c(103))];
    assert_eq!(counter(&report(&bodies, [10, 11], None)).total, 3.0);
}

#[test]
fn without_a_scrape_before_the_first_sample_is_the_reference() {
    let first = counted(&[(10, 5), (12, 9)], [10, 12], None);
    assert_eq!((counter(&first).total, counter(&first).rate), (4.0, 2.0));
    let single = counted(&[(10, 5)], [10, 12], Some(1.0));
    assert_eq!((counter(&single).total, counter(&single).rate), (0.0, 0.0));
    assert!(counted(&[(9, 5)], [10, 12], None).metrics.is_empty());
}

#[test]
fn what_is_counted_late_is_in_the_total_and_not_in_the_time() {
    // The phase ends at 14; two of eight are published 2 s later.
    let values = [(9, 0), (11, 3), (14, 6), (15, 6), (16, 8), (17, 8)];
    let late = counted(&values, [10, 14], Some(2.0));
    let stats = counter(&late);
    // 8 in the 5 s from the reference to the final scrape.
    assert_eq!((stats.total, stats.rate), (8.0, 1.6));
    let slices: Vec<f64> = stats.timeslices.iter().map(|slice| slice.stats.total).collect();
    assert_eq!(slices, [3.0, 5.0]);
    // Nothing says whose they are.
    assert_eq!(stats.doubts, Doubts { late_increase: Some(2.0), ..Doubts::default() });

    // One that rests for a while, but not at the end, counts requests of others.
    let others = [(9, 0), (11, 3), (14, 6), (15, 8), (16, 8), (17, 9)];
    let stats = counted(&others, [10, 14], None);
    assert_eq!((counter(&stats).total, counter(&stats).doubts), (6.0, Doubts::default()));
    // A value that increases although no requests are sent counts something else.
    let clock = [(9, 0), (11, 200), (14, 500), (15, 600), (16, 700), (17, 800)];
    let stats = counted(&clock, [10, 14], None);
    assert_eq!((counter(&stats).total, counter(&stats).rate), (500.0, 100.0));
    // A value that decreases then was reset after the phase.
    let anew = counted(&[(9, 0), (14, 6), (15, 7), (16, 7), (17, 0)], [10, 14], None);
    assert_eq!((counter(&anew).total, counter(&anew).resets), (6.0, None));
}

#[test]
fn a_series_that_is_published_late_is_there_too() {
    let (none, all) = (h(&[("1", 0), ("+Inf", 0)], 0.0), h(&[("1", 3), ("+Inf", 4)], 6.0));
    let bodies = [(9, "up 1\n"), (14, "up 1\n"), (15, &*c(4)), (16, &*c(4))];
    let stats = report(&bodies, [10, 14], None);
    assert_eq!((counter(&stats).total, counter(&stats).rate), (4.0, 0.8));
    let bodies = [(9, &*none), (14, &*none), (15, &*all), (16, &*all)];
    let of_histogram = report(&bodies, [10, 14], None);
    let stats = histogram(&of_histogram);
    assert_eq!((stats.count, stats.sum, stats.count_rate), (4.0, 6.0, 0.8));
    let buckets = vec![(Arc::from("1"), 3.0), (Arc::from("+Inf"), 4.0)];
    assert_eq!(stats.buckets, Some(buckets));
}

#[test]
fn gauges_have_no_samples_of_the_time_after() {
    let bodies = [(9, "g 0\n"), (11, "g 4\n"), (14, "g 2\n"), (15, "g 0\n"), (16, "g 0\n")];
    assert_eq!(gauge(&report(&bodies, [10, 14], None)).avg, 3.0);
}

#[test]
fn an_endpoint_s_window_ends_with_its_own_final_scrape() {
    let mut store = Store::new(["http://a/metrics", "http://slow/metrics"].map(ShownUrl::new));
    let mut push = |endpoint: usize, sent: u64, answered: u64, value: u64| {
        let at = |tenths: u64| tenths * SECOND / 10;
        let times = FetchTimes {
            request_sent_ns: at(sent),
            first_byte_ns: at(answered),
            last_byte_ns: at(answered),
        };
        let body = format!("{}# TYPE g gauge\ng {}\n", c(value), u64::from(sent < 140));
        let exposition = Exposition::parse(body.as_bytes(), Format::Text).unwrap();
        store.push(endpoint, times, &Snapshot::from_exposition(&exposition));
    };
    for (sent, value) in [(95, 0), (100, 0), (120, 20), (140, 40), (143, 40), (146, 40), (150, 40)]
    {
        push(0, sent, sent, value);
    }
    for (sent, answered, value) in [(90, 95, 0), (120, 135, 20), (140, 155, 40)] {
        push(1, sent, answered, value);
    }
    let window = Window { start_ns: 10 * SECOND, end_ns: 14 * SECOND };
    let report = build(&store, Windows { warmup: None, profiling: Some(window) }, None);
    let stats_of = |metric: usize, endpoint: usize| &report.metrics[metric].series[endpoint].stats;
    let (Stats::Counter(quick), Stats::Counter(slow)) = (stats_of(0, 0), stats_of(0, 1)) else {
        panic!()
    };
    // From 9.5 to 14.0 s, and from 9.5 to 15.5 s.
    assert_eq!((quick.total, quick.rate), (40.0, 40.0 / 4.5));
    assert_eq!((slow.total, slow.rate), (40.0, 40.0 / 6.0));
    let (Stats::Gauge(quick), Stats::Gauge(slow)) = (stats_of(1, 0), stats_of(1, 1)) else {
        panic!()
    };
    // At 10.0, 12.0 and 14.0 s, and at 13.5 and 15.5 s.
    assert_eq!((quick.avg, slow.avg), (2.0 / 3.0, 0.5));
    let edges: Vec<_> =
        report.summary.endpoint_info.iter().map(|(_, info)| info.profiling).collect();
    let tenths = |at: Option<u64>| at.map(|at| at * 10 / SECOND);
    let edges = edges
        .into_iter()
        .flatten()
        .map(|edges| (tenths(edges.reference_ns), tenths(edges.final_ns)));
    assert_eq!(edges.collect::<Vec<_>>(), [(Some(95), Some(140)), (Some(95), Some(155))]);
}

#[test]
fn a_series_that_appears_with_a_large_value_makes_no_rate_of_it() {
    let bodies: Vec<(u64, String)> = vec![
        (9, "up 1\n".to_owned()),
        (10, "up 1\n".to_owned()),
        (11, c(1_000_000)),
        (12, c(1_000_010)),
        (13, c(1_000_020)),
        (14, c(1_000_030)),
    ];
    let bodies: Vec<(u64, &str)> = bodies.iter().map(|(at, body)| (*at, &**body)).collect();
    let grown = report(&bodies, [10, 14], Some(1.0));
    let stats = counter(&grown);
    assert_eq!((stats.total, stats.rate), (1_000_030.0, 10.0));
    assert!(stats.doubts.has_large_first_value);
    assert_eq!(grown.metrics[0].series[0].stats.flags(), ["large_first_value"]);
    assert_eq!(stats.slice_rates.unwrap().max, 10.0);
    assert_eq!(stats.point_rates.unwrap().max, 10.0);
    // A value that begins with the load is not large: 1000, then at most 20.
    let burst = [(9, "up 1\n"), (11, &*c(1000)), (12, &*c(1020)), (13, &*c(1030)), (14, &*c(1030))];
    let burst = report(&burst, [10, 14], None);
    assert_eq!((counter(&burst).total, counter(&burst).rate), (1030.0, 206.0));
    assert!(!counter(&burst).doubts.has_large_first_value);
}

#[test]
fn totals_without_a_scrape_near_the_edges_are_flagged() {
    let far = counted(&[(2, 0), (11, 5), (14, 9)], [10, 14], None);
    assert_eq!(far.metrics[0].series[0].stats.flags(), ["inexact_start"]);
    let gone = counted(&[(9, 0), (11, 5)], [10, 14], None);
    assert_eq!(gone.metrics[0].series[0].stats.flags(), ["inexact_end"]);
    let anew = counted(&[(9, 5), (11, 0), (14, 1)], [10, 14], None);
    assert_eq!(anew.metrics[0].series[0].stats.flags(), ["reset"]);
}

#[test]
fn short_slices_fall_back_at_an_endpoint_that_never_changes() {
    let same = c(5);
    let bodies = [(9, &*same), (10, &*same), (12, &*same), (14, &*same)];
    let report = report(&bodies, [10, 14], Some(0.5));
    let slices =
        counter(&report).timeslices.iter().map(|s| (s.start_ns / SECOND, s.end_ns / SECOND));
    assert_eq!(slices.collect::<Vec<_>>(), [(10, 12), (12, 14)]);
}

#[test]
fn a_reset_is_told() {
    let report = counted(&[(9, 50), (10, 60), (11, 4), (12, 7)], [10, 12], None);
    let stats = counter(&report);
    assert_eq!((stats.total, stats.rate), (0.0, 0.0));
    let resets = Resets { reset_count: 1, total_with_resets: 17.0 };
    assert_eq!(stats.resets, Some(resets));
}

#[test]
fn slices_begin_with_the_phase_and_the_last_is_cut() {
    let values = [(9, 0), (10, 1), (11, 3), (12, 6), (13, 10), (14, 15), (15, 21)];
    let report = counted(&values, [10, 15], Some(2.0));
    let stats = counter(&report);
    let slices: Vec<_> = stats
        .timeslices
        .iter()
        .map(|s| {
            (s.start_ns / SECOND, s.end_ns / SECOND, s.is_complete, s.stats.total, s.stats.rate)
        })
        .collect();
    // The first slice contains the increase since the reference.
    let expected = [(10, 12, true, 6.0, 3.0), (12, 14, true, 9.0, 4.5), (14, 15, false, 6.0, 6.0)];
    assert_eq!(slices, expected);
    assert_eq!(stats.slice_rates.unwrap().avg, 3.75);
    let sum: f64 = slices.iter().map(|slice| slice.3).sum();
    assert_eq!(sum, stats.total);
}

#[test]
fn short_slices_give_way_to_updates() {
    let values = [(8, 0), (10, 1), (12, 3), (13, 3), (14, 6)];
    let report = counted(&values, [11, 15], Some(0.5));
    let slices: Vec<_> = counter(&report)
        .timeslices
        .iter()
        .map(|s| (s.start_ns / SECOND, s.end_ns / SECOND, s.is_complete, s.stats.total))
        .collect();
    assert_eq!(slices, [(11, 12, true, 2.0), (12, 14, true, 3.0), (14, 15, false, 0.0)]);
}

#[test]
fn each_sample_of_a_gauge_is_in_one_slice() {
    let bodies: Vec<(u64, String)> =
        [(9, 7), (10, 1), (11, 3), (12, 5), (16, 9)].map(|(at, n)| (at, format!("g {n}\n"))).into();
    let bodies: Vec<(u64, &str)> = bodies.iter().map(|(at, body)| (*at, &**body)).collect();
    let report = report(&bodies, [10, 16], Some(2.0));
    let stats = gauge(&report);
    assert_eq!((stats.avg, stats.min, stats.max), (4.5, 1.0, 9.0));
    let slices: Vec<_> = stats
        .timeslices
        .iter()
        .map(|s| (s.start_ns / SECOND, s.stats.avg, s.stats.min, s.stats.max))
        .collect();
    assert_eq!(slices, [(10, 2.0, 1.0, 3.0), (12, 5.0, 5.0, 5.0), (14, 9.0, 9.0, 9.0)]);
}

#[test]
fn a_constant_gauge_is_exactly_its_value() {
    let bodies = [(1, "g 0.1\n"), (2, "g 0.1\n"), (3, "g 0.1\n")];
    let report = report(&bodies, [0, 3], None);
    assert_eq!((gauge(&report).avg, gauge(&report).std), (0.1, 0.0));
    assert_eq!(gauge(&report).percentiles, [0.1; 9]);
}

fn h(buckets: &[(&str, u64)], sum: f64) -> String {
    let lines: Vec<String> =
        buckets.iter().map(|(le, count)| format!("h_bucket{{le=\"{le}\"}} {count}\n")).collect();
    let count = buckets.last().unwrap().1;
    format!("# TYPE h histogram\n{}h_sum {sum}\nh_count {count}\n", lines.concat())
}

#[test]
fn a_histogram_has_what_its_buckets_rose_by() {
    let (a, b) = (h(&[("1", 2), ("+Inf", 3)], 4.0), h(&[("1", 5), ("+Inf", 9)], 16.0));
    let both = report(&[(9, &*a), (11, &*b)], [10, 12], Some(2.0));
    let stats = histogram(&both);
    assert_eq!((stats.count, stats.sum, stats.count_rate, stats.sum_rate), (6.0, 12.0, 3.0, 6.0));
    let buckets = vec![(Arc::from("1"), 3.0), (Arc::from("+Inf"), 6.0)];
    assert_eq!(stats.buckets, Some(buckets.clone()));
    assert_eq!(
        (stats.timeslices[0].stats.avg, &stats.timeslices[0].stats.buckets),
        (2.0, &buckets)
    );
    assert!(stats.percentiles.is_some());

    let fell = report(&[(9, &*b), (11, &*a)], [10, 12], Some(2.0));
    let stats = histogram(&fell);
    assert_eq!((stats.count, stats.sum, stats.buckets.as_ref()), (0.0, 0.0, None));
    assert_eq!(stats.resets.unwrap().total_with_resets, 3.0);
    assert!(stats.timeslices.is_empty() && stats.percentiles.is_none());
}

#[test]
fn bounds_that_changed_cannot_be_compared() {
    let (a, b) = (h(&[("1", 2), ("+Inf", 3)], 4.0), h(&[("2", 5), ("+Inf", 9)], 16.0));
    let report = report(&[(9, &*a), (11, &*b)], [10, 12], None);
    assert_eq!(histogram(&report).buckets, Some(vec![(Arc::from("+Inf"), 6.0)]));
}

#[test]
fn a_bound_that_was_away_is_not_compared_with_what_it_had_before() {
    let all = |low: u64, count: u64| h(&[("1", low), ("+Inf", count)], 1.0);
    let away = |count: u64| h(&[("+Inf", count)], 1.0);
    let (a, b, c) = (all(5, 10), away(20), all(15, 30));
    let back = report(&[(8, &*a), (9, &*b), (11, &*c)], [10, 12], None);
    assert_eq!(histogram(&back).buckets, Some(vec![(Arc::from("+Inf"), 10.0)]));

    let (a, b, c) = (all(5, 6), away(7), all(3, 9));
    let fell = report(&[(9, &*a), (10, &*b), (11, &*c)], [10, 12], Some(2.0));
    let stats = histogram(&fell);
    assert_eq!((stats.resets.unwrap().reset_count, &stats.buckets), (1, &None));
    assert!(stats.timeslices.is_empty());
}

#[test]
fn one_name_of_two_kinds_is_two_metrics_with_two_keys() {
    let bodies = [(9, "c 1\n".to_owned()), (10, c(2))];
    let bodies: Vec<(u64, &str)> = bodies.iter().map(|(at, body)| (*at, &**body)).collect();
    let report = report(&bodies, [9, 10], None);
    assert_eq!(super::super::report::keys(&report.metrics), ["c", "c (unknown)"]);
}
