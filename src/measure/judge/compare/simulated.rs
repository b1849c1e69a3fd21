//! How often comparisons of simulated runs are right.
use base::column::Store;
use base::statistics::simulation::{Arrivals, Server, Service, Simulated, most_of, runs};

use super::*;
use crate::metrics::Verdict;
use crate::metrics::fixture;
use crate::metrics::health::ClientBounds;
use crate::metrics::metric::{MetricResult, Observation, RecordValues, Stats, Value};
use crate::metrics::steady::Unsteady;

/// The share of a service until the first token.
const PREFILL: f64 = 0.3;

/// Returns a run of the simulated requests.
fn trial(plan: &Plan, simulated: &[Simulated]) -> Trial {
    let mut requests = Requests::new(plan, &Store::default());
    let nanos = |seconds: f64| (seconds * 1e9).round();
    for request in simulated {
        let mut values = RecordValues::default();
        let first_token = request.wait() + PREFILL * (request.end - request.served);
        values.set(tag::REQUEST_LATENCY, Value::Scalar(nanos(request.latency())));
        values.set(tag::TIME_TO_FIRST_TOKEN, Value::Scalar(nanos(first_token)));
        requests.take(&Observation {
            start_wall_ns: 1_000_000_000 + nanos(request.start) as u64,
            end_wall_ns: 1_000_000_000 + nanos(request.end) as u64,
            values,
            ..fixture::observation()
        });
    }
    let seconds = simulated.iter().map(|request| request.end).fold(0.0, f64::max);
    let result = |tag, avg| MetricResult {
        metric: Registry::row(tag).unwrap(),
        stats: Stats { avg, ..Stats::default() },
    };
    Trial {
        results: vec![
            result(tag::REQUEST_THROUGHPUT, simulated.len() as f64 / seconds),
            result(tag::REQUEST_ERROR_RATE, 0.0),
            result(tag::TIME_TO_FIRST_TOKEN, 1.0),
            result(tag::REQUEST_LATENCY, 1.0),
            result(tag::BENCHMARK_DURATION, seconds),
        ],
        steady_state: Err(Unsteady::UnknownLoad),
        time_breakdown: None,
        prefix_cache: None,
        outputs: None,
        bounds: ClientBounds::default(),
        requested_rate: None,
        long_run: None,
        requests,
    }
}

/// Compares a run of `count` requests with one of a server that takes `slower` times as long.
fn compare(gates: &[&str], service: Service, count: usize, slower: f64, seed: u64) -> Compared {
    let gates: Vec<RelativeGate> = gates.iter().map(|gate| gate.parse().unwrap()).collect();
    let plan = Plan::new(&gates, &[], 0.95, TOLERANCE_PERCENT, 1);
    let runs_with = |seconds: f64, seed: u64| {
        let simulated = Server::new(8, seconds, service).run(Arrivals::Closed(8), count, seed);
        let trials = vec![trial(&plan, &simulated)];
        Side { trials, verdict: Some(Verdict::Valid), ..Side::default() }
    };
    plan.compare(&runs_with(0.1, 2 * seed), &runs_with(0.1 * slower, 2 * seed + 1))
}

/// The gates of docs/comparing.md.
const GATES: [&str; 2] = ["ttft:avg<=10%", "request_throughput>=-5%"];

#[test]
fn identical_servers_pass_the_gates() {
    // The times of a mock server with 30% jitter are as exact as this.
    let is_passed = |seed: &u64| {
        let compared = compare(&GATES, Service::Lognormal(0.05), 200, 1.0, *seed);
        compared.outcome == Conclusion::NoRegression
    };
    let count = (0..20).filter(is_passed).count();
    assert!(count >= 18, "{count}");
}

#[test]
fn a_slower_server_does_not_pass_the_gates() {
    let fails = |seed: &u64| {
        let compared = compare(&GATES, Service::Lognormal(0.05), 200, 1.15, *seed);
        compared.outcome == Conclusion::Regression
    };
    assert_eq!((0..20).filter(fails).count(), 20);
}

#[test]
fn what_is_needed_tells_in_most_cases() {
    let (mut advised, mut told) = (0, 0);
    for seed in 0..40 {
        let short = compare(&GATES[1..], Service::Lognormal(0.5), 150, 1.0, seed);
        let row = &short.rows[0];
        let Some(Needed::Requests(needed)) = row.needed.filter(|_| !row.finding.is_told()) else {
            continue;
        };
        // A difference close to the limit needs far more than a test has time for.
        if needed > 3000 {
            continue;
        }
        advised += 1;
        let long = compare(&GATES[1..], Service::Lognormal(0.5), needed as usize, 1.0, 1000 + seed);
        told += usize::from(long.rows[0].finding.is_told());
    }
    assert!(advised >= 15, "{advised}");
    assert!(2 * told > advised, "{told} of {advised}");
}

/// Prints the table of `docs/decisions/comparing.md`.
#[test]
fn how_often_comparisons_are_right() {
    let runs = runs(200);
    let services = [
        ("lognormal 0.05", Service::Lognormal(0.05)),
        ("lognormal 0.3", Service::Lognormal(0.3)),
        ("exponential", Service::Exponential),
        ("lognormal 0.3, correlation 0.7", Service::Correlated { cv: 0.3, correlation: 0.7 }),
    ];
    println!("| service | requests | slower | gates | no regression | regression | cannot tell |");
    for (name, service) in services {
        for (count, slower, gates) in [
            (200, 1.0, &GATES[..]),
            (400, 1.0, &GATES),
            (200, 1.0, &[]),
            (400, 1.0, &[]),
            (400, 1.05, &[]),
            (2000, 1.05, &[]),
            (2000, 1.15, &GATES),
        ] {
            let outcomes: Vec<Conclusion> = (0..runs)
                .map(|seed| compare(gates, service, count, slower, seed).outcome)
                .collect();
            let share = |of| outcomes.iter().filter(|outcome| **outcome == of).count();
            println!(
                "| {name} | {count} | {:.0}% | {} | {} | {} | {} |",
                (slower - 1.0) * 100.0,
                if gates.is_empty() { "no" } else { "yes" },
                share(Conclusion::NoRegression),
                share(Conclusion::Regression),
                share(Conclusion::CannotTell)
            );
            let wrong = share(if slower > 1.0 && count == 2000 {
                Conclusion::NoRegression
            } else {
                Conclusion::Regression
            });
            let is_told = slower == 1.0 || slower == 1.15;
            assert!(!is_told || wrong <= most_of(runs, 0.05), "{name}, {count}, {slower}: {wrong}");
        }
    }
}
