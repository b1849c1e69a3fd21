use std::path::PathBuf;

use uuid::Uuid;

use super::super::evidence::least_requests;
use super::*;
use crate::multi_run::{Dimension, Failure, Member};
use crate::statistics::simulation::{self, Arrivals, Server, Service, Simulated, stalls};

/// Confidence of the intervals.
const CONFIDENCE: f64 = 0.95;

fn range(max: f64) -> Range {
    Range { dimension: Dimension::Concurrency, min: 1.0, max, warmup_follows: true }
}

fn share_below(limit: f64) -> [Condition; 2] {
    [Condition { basis: super::super::evidence::Basis::Share, limit }, Condition::SUCCESS]
}

/// A server in a closed loop, and the limit of the p99 of the wait for it.
struct Scene {
    name: &'static str,
    server: Server,
    most_wait: f64,
    disturbance: Disturbance,
}

/// What is not the load's doing.
#[derive(Debug, Clone, Copy, PartialEq)]
enum Disturbance {
    None,
    /// On average one stall of 0.4 s in 30 seconds: longer than the 1% of requests that may wait.
    Stalls,
    /// 0.1% slower per second.
    Drift,
    /// Up to 5% slower and faster, in periods of ten seconds.
    Noise,
    All,
}

impl Scene {
    fn new(name: &'static str, slots: usize, service: Service, most_wait: f64) -> Self {
        let server = Server::new(slots, 0.1, service);
        Self { name, server, most_wait, disturbance: Disturbance::None }
    }

    fn disturbed(&self, disturbance: Disturbance, seed: u64) -> Server {
        let is = |one| disturbance == one || disturbance == Disturbance::All;
        let mut server = self.server.clone();
        if is(Disturbance::Stalls) {
            server.stalls = stalls(300.0, 10.0, 0.4, seed);
        }
        server.drift = if is(Disturbance::Drift) { 0.001 } else { 0.0 };
        server.noise = is(Disturbance::Noise).then_some((0.05, 10.0));
        server
    }

    /// Returns the waits of `count` requests of so many users, in order.
    fn waits(server: &Server, users: usize, count: usize, seed: u64) -> Vec<f64> {
        server.run(Arrivals::Closed(users), count, seed).iter().map(Simulated::wait).collect()
    }

    /// Returns the largest number of users of whose `count` requests less than 1% wait too long, if the
    /// server is not disturbed.
    fn truth(&self, count: usize) -> f64 {
        let is_met = |users: usize| {
            let waits = Self::waits(&self.server, users, count, 12345);
            let late = waits.iter().filter(|wait| **wait >= self.most_wait).count();
            (late as f64) < 0.01 * count as f64
        };
        let (mut low, mut high) = (1, self.server.slots * 16);
        while high - low > 1 {
            let middle = usize::midpoint(low, high);
            *if is_met(middle) { &mut low } else { &mut high } = middle;
        }
        low as f64
    }

    /// Returns what a run of `users` tells.
    fn run(&self, users: usize, seed: u64) -> Evidence {
        let server = self.disturbed(self.disturbance, seed);
        let count = (10 * users).max(368);
        let waits = Self::waits(&server, users, count, seed);
        let term = |wait: &f64| (*wait >= self.most_wait, wait / self.most_wait);
        let terms: Vec<(bool, f64)> = waits.iter().map(term).collect();
        Evidence::of_tail(&terms, 0.01, users as f64).unwrap()
    }

    /// Searches for the limit.
    fn search(&self, seed: u64) -> Found {
        let range = range(1000.0);
        let mut levels: Vec<(Level, Vec<Evidence>)> = Vec::new();
        let mut runs = 0;
        loop {
            let known: Vec<Level> = levels.iter().map(|(level, _)| level.clone()).collect();
            let limit = Limit::of(&share_below(0.01), &known, CONFIDENCE);
            let load = match next(&range, &known, &limit) {
                Ok(Next::Load(load)) => {
                    levels.push((level(load, &[]), Vec::new()));
                    load
                }
                Ok(Next::Again(load)) => load,
                Err(stop) => return Found { limit, stop, runs, levels: levels.len() as u64 },
            };
            let evidence = self.run(load.amount() as usize, 10_000 * seed + runs);
            runs += 1;
            let (known, all) = levels.iter_mut().find(|(known, _)| known.load == load).unwrap();
            all.push(evidence);
            *known = level(load, all);
        }
    }
}

/// What a search found.
#[derive(Debug)]
struct Found {
    limit: Limit,
    stop: Stop,
    runs: u64,
    levels: u64,
}

impl Found {
    /// Returns whether the truth is within the interval, which may be open.
    fn contains(&self, truth: f64) -> bool {
        self.limit.low.is_none_or(|low| low.amount() <= truth)
            && self.limit.high.is_none_or(|high| truth < high.amount())
    }
}

/// The level of a load with these runs.
fn level(load: Load, runs: &[Evidence]) -> Level {
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

/// Returns the number of loads that doubling and bisection try if each is told.
fn bisected(range: &Range, truth: f64) -> u64 {
    let mut levels: Vec<Level> = Vec::new();
    loop {
        let limit = Limit::of(&share_below(0.01), &levels, CONFIDENCE);
        let Ok(Next::Load(load)) = next(range, &levels, &limit) else { return levels.len() as u64 };
        levels.push(told(load, load.amount() <= truth));
    }
}

/// A load that meets or misses the condition for certain.
fn told(load: Load, is_met: bool) -> Level {
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
    let found = Limit::of(&share_below(0.01), levels, CONFIDENCE);
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
        let limit = Limit::of(&share_below(0.01), levels, CONFIDENCE);
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
        let limit = Limit::of(&conditions, &levels, CONFIDENCE);
        assert_eq!((limit.low, limit.high), (Some(levels[0].load), Some(levels[1].load)));
        assert_eq!(limit.standing(levels[1].load), Standing::Missed);
    }
}

#[test]
fn a_search_of_an_undisturbed_server_bisects() {
    for slots in [3, 16, 100] {
        let scene = Scene::new("constant", slots, Service::Constant, 0.05);
        let found = scene.search(1);
        assert_eq!(found.stop, Stop::Found, "{found:?}");
        assert!(found.contains(slots as f64), "{found:?}");
        let bisected = bisected(&range(1000.0), slots as f64);
        assert!(found.runs <= bisected + 2, "{found:?}, {bisected}");
    }
}

#[test]
fn stalls_drift_and_noise_do_not_fool_a_search() {
    // At 17 users one in 17 waits for a whole service: the limit is 16, whatever is simulated.
    let constant = Scene::new("constant", 16, Service::Constant, 0.05);
    let scene = Scene { disturbance: Disturbance::All, ..constant };
    let found: Vec<Found> = (0..12).map(|seed| scene.search(seed)).collect();
    let right = found.iter().filter(|found| found.contains(16.0)).count();
    // A binomial limit: with 93%, fewer than 9 of 12 have a probability of 1%.
    assert!(right >= 9, "{found:?}");
    let told = found.iter().filter(|found| found.stop == Stop::Found).count();
    assert!(told >= 6, "{found:?}");
}

/// Prints the table of `docs/decisions/searches.md`.
#[test]
fn the_truth_is_within_the_interval_of_simulated_searches() {
    let searches = simulation::runs(1000);
    println!(
        "| server | disturbance | truth | within | below, above | told | runs | bisection | width |"
    );
    println!("|---|---|---|---|---|---|---|---|---|");
    let scenes = [
        Scene::new("constant, 16 slots", 16, Service::Constant, 0.05),
        Scene::new("lognormal (0.5), 16 slots", 16, Service::Lognormal(0.5), 0.05),
        Scene::new("exponential, 32 slots", 32, Service::Exponential, 0.1),
        Scene::new(
            "correlated (0.5, 0.8), 8 slots",
            8,
            Service::Correlated { cv: 0.5, correlation: 0.8 },
            0.1,
        ),
    ];
    let mut wrong = Vec::new();
    for mut scene in scenes {
        let truth = scene.truth(200_000);
        for disturbance in [
            Disturbance::None,
            Disturbance::Stalls,
            Disturbance::Drift,
            Disturbance::Noise,
            Disturbance::All,
        ] {
            scene.disturbance = disturbance;
            let found: Vec<Found> = (0..searches).map(|seed| scene.search(seed)).collect();
            let count = |is: &dyn Fn(&Found) -> bool| {
                100.0 * found.iter().filter(|found| is(found)).count() as f64 / searches as f64
            };
            let mean = |of: &dyn Fn(&Found) -> f64| {
                let all: Vec<f64> = found.iter().map(of).filter(|it| it.is_finite()).collect();
                all.iter().sum::<f64>() / all.len() as f64
            };
            let within = count(&|found| found.contains(truth));
            let amount = |load: Option<Load>| load.map_or(f64::NAN, Load::amount);
            let width = mean(&|it| (amount(it.limit.high) - amount(it.limit.low)) / truth);
            println!(
                "| {} | {disturbance:?} | {truth} | {within:.1}% | {:.1}%, {:.1}% | \
                 {:.1}% | {:.1} ({:.1} loads) | {} | \
                 {:.0}% |",
                scene.name,
                count(&|found| found.limit.high.is_some_and(|high| high.amount() <= truth)),
                count(&|found| found.limit.low.is_some_and(|low| low.amount() > truth)),
                count(&|found| found.stop == Stop::Found),
                mean(&|found| found.runs as f64),
                mean(&|found| found.levels as f64),
                bisected(&range(1000.0), truth),
                100.0 * width,
            );
            let outside = found.iter().filter(|found| !found.contains(truth)).count();
            let is_whole = searches >= 1000;
            if outside > simulation::most_of(searches, 0.05) || (is_whole && within < 93.0) {
                wrong.push(format!("{}, {disturbance:?}: {within}", scene.name));
            }
        }
    }
    assert!(wrong.is_empty(), "{wrong:?}");
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
    let standing = |violations: f64, requests: f64, verdict| {
        let mut run = failed();
        run.failure = None;
        run.load_verdict = verdict;
        run.evidence = vec![Some(Evidence {
            mean: violations / requests,
            weight: requests,
            requests: requests as u64,
        })];
        standing_of(&filters, &run, CONFIDENCE)
    };
    // 0.99^368 is below 2.5%, 0.99^367 is not.
    assert_eq!(standing(0.0, 368.0, None), Some(Standing::Met));
    assert_eq!(standing(0.0, 367.0, None), Some(Standing::CannotTell));
    assert_eq!(standing(50.0, 368.0, None), Some(Standing::Missed));
    assert_eq!(standing(0.0, 368.0, Some(LoadVerdict::Saturated)), Some(Standing::Missed));
    assert_eq!(standing_of(&filters, &failed(), CONFIDENCE), None);
}
