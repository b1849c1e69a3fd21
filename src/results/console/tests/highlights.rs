//! The lines about the replay of traces in lanes.

use client::schedule::ReplayStats;

use super::*;
use crate::console::highlights::highlights;

/// Returns the text of a line; `None` if there is none.
fn line(report: &RunReport, title: &str) -> Option<String> {
    highlights(report).into_iter().find(|one| one.title == title).map(|one| one.text)
}

#[test]
fn a_replay_is_told_in_a_line() {
    let mut report = report(Vec::new());
    assert_eq!(line(&report, "Replay"), None);
    // 9 and 2 of 108 are 8.33% and 1.85%; 130 s are 1.3 times 100 s.
    let whole = ReplayStats {
        lanes: 4,
        trees: 12,
        requests: 108,
        held_by_barrier: 9,
        held_by_join: 2,
        tree_seconds: 130.0,
        recorded_tree_seconds: 100.0,
        concurrency: 0.21,
        recorded_concurrency: 0.25,
        ..ReplayStats::default()
    };
    let first = "4 lanes, 12 traces; 108 requests, 8.3% held by barriers, 1.9% by sub-agents; \
                 0.21 requests in flight per trace";
    report.outcome.replay = Some(whole);
    let expected = format!("{first} (0.25 recorded), 1.3 times the recorded time");
    assert_eq!(line(&report, "Replay"), Some(expected));
    // Times are not known of all traces.
    report.outcome.replay = Some(ReplayStats { recorded_tree_seconds: 0.0, ..whole });
    assert_eq!(line(&report, "Replay").as_deref(), Some(first));
    report.outcome.replay = Some(ReplayStats { lanes: 1, ..ReplayStats::default() });
    assert_eq!(line(&report, "Replay").as_deref(), Some("1 lane, 0 traces; 0 requests"));
}

#[test]
fn the_theoretical_hit_rate_is_compared_with_the_measured_one() {
    let lines_with = |measured: Option<f64>| {
        let theoretical = single(tag::THEORETICAL_PREFIX_CACHE_HIT, 62.5);
        let measured =
            measured.map(|share| single(tag::OVERALL_USAGE_PROMPT_CACHE_READ_PCT, share));
        line(
            &report(std::iter::once(theoretical).chain(measured).collect()),
            "Theoretical cache hits",
        )
        .unwrap()
    };
    assert_eq!(lines_with(None), "62.5% of the blocks of prompts");
    let less = "62.5% of the blocks of prompts, 40.0% of the prompt tokens measured; prefixes were \
                evicted, or the requests of the trace before them were not sent";
    assert_eq!(lines_with(Some(40.0)), less);
    assert_eq!(
        lines_with(Some(62.0)),
        "62.5% of the blocks of prompts, 62.0% of the prompt tokens measured"
    );
    let more = lines_with(Some(63.5));
    assert!(
        more.ends_with(
            "63.5% of the prompt tokens measured; more than the trace repeats was \
                            cached by the warmup, by other traces or before the run"
        ),
        "{more}"
    );
}
