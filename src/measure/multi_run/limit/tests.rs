use std::path::PathBuf;

use uuid::Uuid;

use super::super::evidence::least_requests;
use super::*;
use crate::metrics::Verdict;
use crate::metrics::health::LoadVerdict;
use crate::multi_run::{Dimension, Failure, Member};

/// Confidence of the intervals.
pub(super) const CONFIDENCE: f64 = 0.95;

pub(super) fn range(max: f64) -> Range {
    Range { dimension: Dimension::Concurrency, min: 1.0, max, warmup_follows: true }
}

fn share_below(limit: f64) -> [Condition; 2] {
    [Condition { basis: super::super::evidence::Basis::Share, limit }, Condition::SUCCESS]
}

/// The level of a load with these runs.
pub(super) fn level(load: Load, runs: &[Evidence]) -> Level {
    let none = Evidence { mean: 0.0, weight: f64::MIN_POSITIVE, requests: 0 };
    let found = Evidence::together(runs.iter().copied()).unwrap_or(none);
    let success = Evidence { mean: 0.0, weight: 1.0, requests: 0 };
    Level {
        load,
        runs: runs.len() as u64,
        is_believed: true,
        can_repeat: (runs.len() as u64) < 1 + REPEATS,
        evidence: vec![found, success],
    }
}

/// A load that meets or misses the condition for certain.
pub(super) fn told(load: Load, is_met: bool) -> Level {
    let mean = if is_met { 0.0 } else { 1.0 };
    level(load, &[Evidence { mean, weight: 1e4, requests: 10_000 }])
}

fn at(amounts: &[(u64, f64, f64)]) -> Vec<Level> {
    let one = |(users, mean, weight): &(u64, f64, f64)| {
        let found = Evidence { mean: *mean, weight: *weight, requests: *weight as u64 };
        level(Load::Concurrency(*users), &[found])
    };
    amounts.iter().map(one).collect()
}

fn limit_of(levels: &[Level]) -> [Option<f64>; 3] {
    let found = Limit::fit(&share_below(0.01), levels, CONFIDENCE);
    [found.low, found.high, found.best].map(|load| load.map(Load::amount))
}

#[test]
fn what_higher_loads_meet_holds_below_them() {
    // 1.1% of 368 requests, of which four consecutive ones count as one.
    let stalled = [(1, 4.0 / 368.0, 92.0)];
    assert_eq!(limit_of(&at(&stalled)), [None, None, None]);
    let above = [stalled[0], (2, 0.0, 368.0), (4, 0.0, 368.0)];
    assert_eq!(limit_of(&at(&above)), [Some(4.0), None, Some(4.0)]);
    // A load with a stall that alone would miss the condition is contradicted by those above.
    let missed = [(1, 0.0, 368.0), (2, 0.05, 200.0), (4, 0.0, 2000.0), (8, 0.5, 368.0)];
    assert_eq!(limit_of(&at(&missed[..2])), [Some(1.0), Some(2.0), Some(1.0)]);
    assert_eq!(limit_of(&at(&missed)), [Some(4.0), Some(8.0), Some(4.0)]);
    // Two loads that cannot be told alone can be told together.
    let small = [(8, 0.0, 200.0), (9, 0.0, 200.0)];
    assert_eq!(limit_of(&at(&small)), [Some(8.0), None, Some(9.0)]);
    assert_eq!(limit_of(&[]), [None; 3]);
}

#[test]
fn a_load_that_no_run_can_be_believed_of_limits_nothing() {
    let mut levels = at(&[(4, 0.0, 368.0), (5, 0.5, 368.0)]);
    levels[1].is_believed = false;
    assert_eq!(limit_of(&levels), [Some(4.0), None, Some(4.0)]);
    let next_of = |levels: &[Level]| {
        let limit = Limit::fit(&share_below(0.01), levels, CONFIDENCE);
        next(&range(100.0), levels, &limit)
    };
    assert_eq!(next_of(&levels), Ok(Next::Again(Load::Concurrency(5))));
    levels[1].can_repeat = false;
    assert_eq!(limit_of(&levels), [Some(4.0), None, Some(4.0)]);
    assert_eq!(next_of(&levels), Err(Stop::CannotTell));
    // A slow client makes nothing look faster, so what is met in spite of it counts in the end.
    levels[0].is_believed = false;
    assert_eq!(limit_of(&levels), [None, None, Some(4.0)]);
    levels[0].can_repeat = false;
    assert_eq!(limit_of(&levels), [Some(4.0), None, Some(4.0)]);
}

#[test]
fn every_condition_must_be_met() {
    let conditions = [share_below(0.01)[0], share_below(0.05)[0], Condition::SUCCESS];
    let found = |mean, weight| Evidence { mean, weight, requests: 1000 };
    let one = |users, first, second, failed| Level {
        evidence: vec![found(first, 1000.0), found(second, 1000.0), found(failed, 1.0)],
        ..level(Load::Concurrency(users), &[])
    };
    for second in [one(2, 0.0, 0.3, 0.0), one(2, 0.3, 0.0, 0.0), one(2, 0.0, 0.0, 1.0)] {
        let levels = [one(1, 0.0, 0.0, 0.0), second];
        let limit = Limit::fit(&conditions, &levels, CONFIDENCE);
        assert_eq!((limit.low, limit.high), (Some(levels[0].load), Some(levels[1].load)));
        assert_eq!(limit.standing(levels[1].load), Standing::Missed);
    }
}

#[test]
fn a_percentile_needs_its_requests() {
    let filter = Filter::parse("ttft:p99:lt:200").unwrap();
    assert_eq!(least_requests(&[filter], CONFIDENCE), 368);
}

#[test]
fn a_run_alone_meets_or_misses_its_conditions() {
    let failed = || {
        let member = Member::new(Uuid::nil(), 0, None);
        RunResult::failed(member, PathBuf::new(), Failure::Client(String::new()))
    };
    let filters = [Filter::parse("time_to_first_token:p99:lt:200").unwrap()];
    let judged = |violations: f64, requests: f64, load_verdict, output_verdict| {
        let mut run = failed();
        run.failure = None;
        (run.load_verdict, run.output_verdict) = (load_verdict, output_verdict);
        run.evidence = vec![Some(Evidence {
            mean: violations / requests,
            weight: requests,
            requests: requests as u64,
        })];
        standing_of(&filters, &run, CONFIDENCE)
    };
    let standing = |violations, requests, verdict| judged(violations, requests, verdict, None);
    let of_outputs = |verdict| judged(0.0, 368.0, None, Some(verdict));
    // 0.99^368 is below 2.5%, 0.99^367 is not.
    assert_eq!(standing(0.0, 368.0, None), Some(Standing::Met));
    assert_eq!(standing(0.0, 367.0, None), Some(Standing::CannotTell));
    assert_eq!(standing(50.0, 368.0, None), Some(Standing::Missed));
    assert_eq!(standing(0.0, 368.0, Some(LoadVerdict::Saturated)), Some(Standing::Missed));
    assert_eq!(of_outputs(Verdict::Invalid), Some(Standing::Missed));
    assert_eq!(of_outputs(Verdict::Suspect), Some(Standing::Met));
    assert_eq!(standing_of(&filters, &failed(), CONFIDENCE), None);
}
