use proptest::prelude::*;

use client::schedule::PhaseKind;

use super::*;
use crate::server_metrics::report::{Window, Windows};

const SECOND: u64 = 1_000_000_000;

/// Scrapes with the times of their requests and responses, in tenths of a second.
fn scrapes(times: &[(u64, u64)]) -> Vec<FetchTimes> {
    let at = |tenth: u64| tenth * SECOND / 10;
    let scrape = |(sent, answered): &(u64, u64)| FetchTimes {
        request_sent_ns: at(*sent),
        first_byte_ns: at(*answered),
        last_byte_ns: at(*answered),
    };
    times.iter().map(scrape).collect()
}

fn window([start, end]: [u64; 2]) -> Window {
    Window { start_ns: start * SECOND / 10, end_ns: end * SECOND / 10 }
}

/// A warmup from 1.0 to 3.0 s, the measurement from 3.2 to 8.0 s.
fn windows() -> Windows {
    Windows { warmup: Some(window([10, 30])), profiling: Some(window([32, 80])) }
}

fn span(times: &[(u64, u64)], kind: PhaseKind) -> Span {
    Span::within(&scrapes(times), windows().around(kind).unwrap())
}

/// Reference, samples, late scrapes, and whether both ends are exact.
fn told(span: &Span) -> (Option<usize>, Range<usize>, Range<usize>, [bool; 2]) {
    let Span { reference, samples, late, has_exact_start, has_exact_end, .. } = span.clone();
    (reference, samples, late, [has_exact_start, has_exact_end])
}

#[test]
fn a_phase_lies_between_the_scrapes_before_and_after_it() {
    let times = [(0, 1), (9, 9), (15, 15), (31, 31), (40, 41), (60, 61), (81, 82), (90, 90)];
    let warmup = span(&times, PhaseKind::Warmup);
    assert_eq!(told(&warmup), (Some(1), 2..4, 4..4, [true, true]));
    let profiling = span(&times, PhaseKind::Profiling);
    assert_eq!(told(&profiling), (Some(3), 4..7, 7..8, [true, true]));
}

#[test]
fn a_scrape_that_straddles_the_start_is_nearer_than_one_from_within_the_warmup() {
    // The second was requested at the end of the warmup, and its response arrived 0.5 s into the
    // phase; the first was requested a second before that end.
    let times = [(0, 5), (20, 31), (30, 37), (60, 65), (80, 85)];
    let profiling = span(&times, PhaseKind::Profiling);
    assert_eq!(told(&profiling), (Some(2), 3..5, 5..5, [false, true]));
    // For the warmup it contains 0.5 s of the phase in addition to the whole warmup; the previous
    // one lacks 1 s.
    let warmup = span(&times, PhaseKind::Warmup);
    assert_eq!(told(&warmup), (Some(0), 1..3, 3..3, [true, false]));
}

#[test]
fn without_a_scrape_at_the_edge_the_one_with_the_least_of_others_is_taken_and_it_is_told() {
    // The final scrape of the warmup failed: the reference lacks 0.4 s of it.
    let times = [(0, 1), (26, 26), (40, 40), (81, 81)];
    let profiling = span(&times, PhaseKind::Profiling);
    assert_eq!(told(&profiling), (Some(1), 2..4, 4..4, [false, true]));
    // The server had stopped at the end.
    let times = [(0, 1), (31, 31), (40, 40), (77, 77)];
    let profiling = span(&times, PhaseKind::Profiling);
    assert_eq!(told(&profiling), (Some(1), 2..4, 4..4, [true, false]));
}

#[test]
fn a_scrape_that_stands_far_from_its_edge_is_told() {
    let alone = Windows { warmup: None, profiling: Some(window([100, 200])) };
    let of =
        |times| told(&Span::within(&scrapes(times), alone.around(PhaseKind::Profiling).unwrap()));
    assert_eq!(of(&[(0, 79), (150, 150), (200, 221)]), (Some(0), 1..3, 3..3, [false, false]));
    assert_eq!(of(&[(0, 80), (150, 150), (200, 220)]), (Some(0), 1..3, 3..3, [true, true]));
}

#[test]
fn an_endpoint_that_was_not_asked_before_has_no_reference() {
    let alone = Windows { warmup: None, profiling: Some(window([10, 20])) };
    let of =
        |times| told(&Span::within(&scrapes(times), alone.around(PhaseKind::Profiling).unwrap()));
    assert_eq!(of(&[(10, 10), (15, 15), (21, 21)]), (None, 0..3, 3..3, [false, true]));
    assert_eq!(of(&[]), (None, 0..0, 0..0, [false, false]));
    assert_eq!(of(&[(9, 9)]), (Some(0), 1..1, 1..1, [true, false]));
    assert!(alone.around(PhaseKind::Warmup).is_none());
}

proptest! {
    #[test]
    fn ranges_follow_each_other_whatever_the_times(
        mut times in prop::collection::vec((0..120_u64, 0..30_u64), 0..20),
    ) {
        for (sent, took) in &mut times {
            *took += *sent;
        }
        times.sort_by_key(|(_, answered)| *answered);
        for kind in [PhaseKind::Warmup, PhaseKind::Profiling] {
            let Span { reference, samples, late, .. } = span(&times, kind);
            prop_assert!(reference.is_none_or(|reference| reference + 1 == samples.start));
            prop_assert!(samples.start <= samples.end && samples.end == late.start);
            prop_assert!(late.start <= late.end && late.end <= times.len());
        }
    }
}
