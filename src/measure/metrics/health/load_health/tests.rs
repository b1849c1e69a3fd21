use crate::metrics::fixture;
use base::statistics::simulation::{Arrivals, Server, Service, Simulated, most_of, runs};
use client::record::{ErrorKind, RequestError};

use super::*;
use crate::metrics::metric::Observation;

/// Start of the phase in seconds.
const ORIGIN: f64 = 1000.0;

const OPEN: Option<HeldLoad> = Some(HeldLoad::Arrivals { ramp_ns: Nanos::ZERO });

/// Returns the health of the load of `requests`, of which those for which `is_rejected` were.
fn of_requests(
    requests: &[Simulated],
    load: Option<HeldLoad>,
    is_rejected: impl Fn(&Simulated) -> bool,
) -> LoadHealth {
    let nanos = |seconds: f64| ((ORIGIN + seconds) * 1e9) as u64;
    let mut times = LoadTimes::default();
    for request in requests {
        let error = RequestError::new(ErrorKind::Timeout, "Timeout", "too late");
        let observation = Observation {
            start_wall_ns: nanos(request.start),
            end_wall_ns: nanos(request.end),
            error: is_rejected(request).then_some(error),
            ..fixture::observation()
        };
        times.observe(None, &observation);
    }
    LoadHealth::judge(&times, load, nanos(0.0)).unwrap()
}

fn of_run(server: &Server, arrivals: Arrivals, count: usize, seed: u64) -> LoadHealth {
    let load = match arrivals {
        Arrivals::Closed(most) => Some(HeldLoad::Concurrency(most as u64)),
        _ => OPEN,
    };
    of_requests(&server.run(arrivals, count, seed), load, |_| false)
}

/// Verdicts of simulated runs.
struct Verdicts {
    /// By level.
    counts: [usize; LoadVerdict::ALL.len()],
    /// Runs that are as long as they report to need, and those of them that are saturated.
    long_enough: [usize; 2],
}

impl Verdicts {
    fn simulate(server: &Server, arrivals: Arrivals, count: usize, runs: u64) -> Self {
        let mut verdicts = Self { counts: [0; LoadVerdict::ALL.len()], long_enough: [0; 2] };
        for seed in 0..runs {
            let health = of_run(server, arrivals, count, seed);
            verdicts.counts[usize::from(health.verdict.level())] += 1;
            if health.verdict != LoadVerdict::TooShort {
                verdicts.long_enough[0] += 1;
                verdicts.long_enough[1] += usize::from(health.verdict == LoadVerdict::Saturated);
            }
        }
        verdicts
    }

    const fn count(&self, verdict: LoadVerdict) -> usize {
        self.counts[verdict.level() as usize]
    }

    const fn alarms(&self) -> usize {
        self.count(LoadVerdict::Saturated) + self.count(LoadVerdict::NotStationary)
    }
}

/// The arrivals of the studies with so many requests per second.
fn kinds(rate: f64) -> [(&'static str, Arrivals); 3] {
    [
        ("constant", Arrivals::Constant(rate)),
        ("Poisson", Arrivals::Poisson(rate)),
        ("bursts of 10", Arrivals::Bursts { rate, size: 10 }),
    ]
}

const SERVICES: [(&str, Service); 3] = [
    ("constant", Service::Constant),
    ("exponential", Service::Exponential),
    ("lognormal, 1", Service::Lognormal(1.0)),
];

#[test]
fn a_server_that_serves_two_in_three_is_saturated() {
    // 4 slots of 50 ms serve 80 of 120 requests per second.
    let server = Server::new(4, 0.05, Service::Constant);
    let health = of_run(&server, Arrivals::Constant(120.0), 1200, 0);
    assert_eq!(health.verdict, LoadVerdict::Saturated);
    let Interval { value, low, high } = health.queue_slope.unwrap();
    assert!((value - 40.0).abs() < 1.0 && low <= 40.0 && high >= 40.0, "{health:?}");
    assert!((health.offered_rate - 120.0).abs() < 1.0, "{health:?}");
    assert!((health.served_rate - 80.0).abs() < 1.0, "{health:?}");
    assert!(health.since_seconds.unwrap() < 0.5, "{health:?}");
    assert_eq!(health.needed_seconds, None);
    let text = health.to_string();
    assert!(text.starts_with("saturated (offered 120."), "{text}");
}

#[test]
fn a_queue_grows_from_when_the_server_is_slower_on() {
    // From 10 s on, half of the slots are gone.
    let fast = Server::new(4, 0.05, Service::Constant).run(Arrivals::Constant(60.0), 600, 0);
    let slow = Server::new(2, 0.05, Service::Constant).run(Arrivals::Constant(60.0), 600, 0);
    let later = slow.iter().map(|it| Simulated {
        start: it.start + 10.0,
        served: it.served + 10.0,
        end: it.end + 10.0,
    });
    let requests: Vec<_> = fast.into_iter().chain(later).collect();
    let health = of_requests(&requests, OPEN, |_| false);
    assert_eq!(health.verdict, LoadVerdict::Saturated);
    assert!((health.since_seconds.unwrap() - 10.0).abs() < 0.7, "{health:?}");
}

#[test]
fn a_slow_server_that_fills_is_not_saturated() {
    // Each request takes 5 s, so the queue grows to 100 and no further.
    let server = Server::new(1000, 5.0, Service::Constant);
    let health = of_run(&server, Arrivals::Constant(20.0), 600, 0);
    assert_eq!(health.verdict, LoadVerdict::Sustained, "{health:?}");
    // While it fills, nothing can be told.
    let health = of_run(&server, Arrivals::Constant(20.0), 100, 0);
    assert_eq!(health.verdict, LoadVerdict::TooShort, "{health:?}");
    assert!(health.needed_seconds.unwrap() > 5.0);
}

#[test]
fn requests_that_are_rejected_for_overload_stay_to_be_done() {
    let server = Server::new(100, 0.1, Service::Constant);
    let requests = server.run(Arrivals::Constant(100.0), 2000, 0);
    let is_rejected = |it: &Simulated| ((it.start * 100.0).round() as u64).is_multiple_of(5);
    let health = of_requests(&requests, OPEN, is_rejected);
    assert_eq!(health.verdict, LoadVerdict::Saturated);
    assert!((health.served_rate - 80.0).abs() < 1.0, "{health:?}");
    let server = Server::new(16, 0.1, Service::Lognormal(1.0));
    let requests = server.run(Arrivals::Closed(16), 4000, 0);
    let load = Some(HeldLoad::Concurrency(16));
    let is_rejected = |it: &Simulated| ((it.end * 1e6) as u64).is_multiple_of(5);
    // A closed loop does not have a queue.
    assert_eq!(of_requests(&requests, load, is_rejected).verdict, LoadVerdict::Rejecting);
    assert_eq!(of_requests(&requests, load, |_| false).verdict, LoadVerdict::Sustained);
}

#[test]
fn latencies_that_rise_are_not_stationary() {
    let mut server = Server::new(16, 0.1, Service::Lognormal(0.2));
    server.drift = 0.01;
    let health = of_run(&server, Arrivals::Closed(16), 4000, 0);
    assert_eq!(health.verdict, LoadVerdict::NotStationary, "{health:?}");
    // 27 s in all, of which the first tenth is left out.
    let drift = health.latency_drift_percent.unwrap();
    assert!(drift.low < 24.0 && drift.high > 20.0, "{health:?}");
    server.drift = 0.0;
    let health = of_run(&server, Arrivals::Closed(16), 4000, 0);
    assert_eq!(health.verdict, LoadVerdict::Sustained, "{health:?}");
}

/// The first requests take 50 ms, and every fifth one takes 5 s: it has not ended yet, but no request waits.
#[test]
fn responses_that_have_not_come_yet_are_not_a_queue() {
    for rate in [5.0, 20.0, 100.0] {
        for count in [10, 40, 100, 300, 1000] {
            let requests: Vec<_> = (0..count)
                .map(|at| {
                    let start = f64::from(at) / rate;
                    let latency = if at % 5 == 4 { 5.0 } else { 0.05 };
                    Simulated { start, served: start, end: start + latency }
                })
                .collect();
            let health = of_requests(&requests, OPEN, |_| false);
            assert_ne!(health.verdict, LoadVerdict::Saturated, "{rate}, {count}: {health}");
            let is_past = f64::from(count) / rate > 5.0;
            assert!(
                is_past || health.verdict == LoadVerdict::TooShort,
                "{rate}, {count}: {health}"
            );
        }
    }
}

/// Latencies of a server without a limit double in 20 s at 30 requests per second with random arrivals: the
/// queue grows with them as long as the run, which is too short for any other verdict.
#[test]
fn latencies_that_double_are_told_whatever_the_queue_is() {
    let mut doubling = Server::new(1000, 0.1, Service::Constant);
    doubling.drift = 0.05;
    for seed in 0..5 {
        let health = of_run(&doubling, Arrivals::Poisson(30.0), 600, seed);
        assert_eq!(health.verdict, LoadVerdict::NotStationary, "{seed}: {health}");
        let text = health.to_string();
        assert!(text.starts_with("not stationary: latency rose by "), "{text}");
    }
}

/// All but one in twenty fail: what is left shows nothing of the load.
#[test]
fn a_run_that_fails_has_no_verdict() {
    let requests = Server::new(16, 0.1, Service::Constant).run(Arrivals::Closed(4), 400, 0);
    let nanos = |seconds: f64| ((ORIGIN + seconds) * 1e9) as u64;
    let mut times = LoadTimes::default();
    for (at, request) in requests.iter().enumerate() {
        let error = RequestError::new(ErrorKind::Http5xx, "Internal Server Error", "broken");
        let error = RequestError { code: Some(500), ..error };
        let observation = Observation {
            start_wall_ns: nanos(request.start),
            end_wall_ns: nanos(request.end),
            error: (at % 20 != 0).then_some(error),
            ..fixture::observation()
        };
        times.observe(None, &observation);
    }
    assert_eq!(LoadHealth::judge(&times, Some(HeldLoad::Concurrency(4)), nanos(0.0)), None);
}

#[test]
fn unknown_loads_have_no_verdict() {
    let mut times = LoadTimes::default();
    assert_eq!(LoadHealth::judge(&times, OPEN, 0), None);
    let observation = Observation { start_wall_ns: 5, end_wall_ns: 5, ..fixture::observation() };
    times.observe(None, &observation);
    assert_eq!(LoadHealth::judge(&times, None, 0), None);
    assert_eq!(LoadHealth::judge(&times, Some(HeldLoad::AllAtOnce), 0), None);
    let single = LoadHealth::judge(&times, OPEN, 0).unwrap();
    assert_eq!(single.verdict, LoadVerdict::TooShort);
}

#[test]
fn few_alarms_are_false() {
    // 1% of 90 runs or fewer: four or more alarms have a probability below 2%.
    let mut alarms = 0;
    for (_, service) in SERVICES {
        let server = Server::new(16, 1.0, service);
        for (_, arrivals) in kinds(0.9 * server.capacity()) {
            alarms += Verdicts::simulate(&server, arrivals, 1500, 10).alarms();
        }
    }
    assert!(alarms <= 3, "{alarms}");
}

#[test]
fn a_load_of_110_percent_is_found_in_time() {
    let server = Server::new(16, 1.0, Service::Exponential);
    let arrivals = Arrivals::Poisson(1.1 * server.capacity());
    // Twice the requests that it needs.
    let verdicts = Verdicts::simulate(&server, arrivals, 10_000, 20);
    assert!(verdicts.count(LoadVerdict::Saturated) >= 18, "{:?}", verdicts.counts);
}

/// Prints the tables of `docs/decisions/load-health.md`.
#[test]
fn how_often_verdicts_are_right() {
    let runs = runs(400);
    let percent = |count: usize| format!("{:.1}%", 100.0 * count as f64 / runs as f64);
    let row = |name: String, verdicts: &Verdicts| {
        let cells: Vec<_> =
            verdicts.counts[..4].iter().rev().map(|count| percent(*count)).collect();
        println!("| {name} | {} |", cells.join(" | "));
    };
    for load in [0.5, 0.9, 1.0, 1.1, 1.5] {
        for (name, service) in SERVICES {
            let server = Server::new(16, 1.0, service);
            for (kind, arrivals) in kinds(load * server.capacity()) {
                // The longest runs take seconds without optimization.
                let longest = if runs < 400 { 5000 } else { 20_000 };
                for count in [200, 1000, 5000, 20_000].into_iter().filter(|it| *it <= longest) {
                    let verdicts = Verdicts::simulate(&server, arrivals, count, runs);
                    row(format!("{:.0}% | {kind} | {name} | {count}", 100.0 * load), &verdicts);
                    let alarms = verdicts.alarms();
                    let is_false = load < 1.0 && alarms > most_of(runs, 0.01);
                    assert!(!is_false, "{load}, {kind}, {name}, {count}: {alarms}");
                }
            }
        }
    }
    for (name, service) in
        [SERVICES[0], ("lognormal, 0.3", Service::Lognormal(0.3)), SERVICES[1], SERVICES[2]]
    {
        for drift in [0.0, 0.2] {
            for count in [200, 1000, 5000] {
                let mut server = Server::new(16, 1.0, service);
                server.drift = drift * 16.0 / f64::from(count);
                let verdicts =
                    Verdicts::simulate(&server, Arrivals::Closed(16), count as usize, runs);
                row(
                    format!("drift of {:.0}% | closed | {name} | {count}", 100.0 * drift),
                    &verdicts,
                );
            }
        }
    }
}

/// What is stated as needed is enough in nine of ten runs of that length, with other seeds.
#[test]
fn what_a_run_needs_is_enough() {
    let few = Server::new(16, 1.0, Service::Constant);
    let random = Server::new(16, 1.0, Service::Exponential);
    let alike = Server::new(16, 1.0, Service::Lognormal(0.3));
    let runs = runs(200).max(10);
    for (name, server, arrivals) in [
        ("4/s, constant, constant", &few, Arrivals::Constant(4.0)),
        ("4/s, constant, exponential", &random, Arrivals::Constant(4.0)),
        ("8/s, Poisson, constant", &few, Arrivals::Poisson(8.0)),
        ("14/s, Poisson, exponential", &random, Arrivals::Poisson(14.0)),
        ("8/s, bursts of 4, exponential", &random, Arrivals::Bursts { rate: 8.0, size: 4 }),
        ("closed, lognormal 0.3", &alike, Arrivals::Closed(16)),
        ("closed, exponential", &random, Arrivals::Closed(16)),
    ] {
        for count in [20, 60, 200, 600] {
            let (mut stated, mut enough, mut most) = (0, 0, 0);
            for seed in 0..runs {
                let health = of_run(server, arrivals, count, seed);
                let Some(needed) = health.needed_requests else { continue };
                assert_eq!(health.verdict, LoadVerdict::TooShort);
                stated += 1;
                most = most.max(needed);
                let again = of_run(server, arrivals, needed as usize, seed + 10_000);
                enough += u64::from(again.verdict != LoadVerdict::TooShort);
            }
            println!("| {name} | {count} | {stated} of {runs} | {enough} | {most} |");
            let wrong = (stated - enough) as usize;
            assert!(wrong <= most_of(stated, 0.1), "{name}, {count}: {enough} of {stated}");
        }
    }
}

/// Four requests per second of one second each: the queue has filled after three seconds, and 96 requests
/// are enough after that.
#[test]
fn what_is_needed_is_not_far_more_than_enough() {
    let server = Server::new(16, 1.0, Service::Constant);
    for count in [20, 30] {
        let health = of_run(&server, Arrivals::Constant(4.0), count, 0);
        assert_eq!(health.verdict, LoadVerdict::TooShort, "{health:?}");
        let needed = health.needed_seconds.unwrap();
        assert!((11.0..=30.0).contains(&needed), "{count}: {health}");
        let text = health.to_string();
        assert!(text.starts_with("too short to tell (needs "), "{text}");
    }
    let long = of_run(&server, Arrivals::Constant(4.0), 120, 0);
    assert_eq!(long.verdict, LoadVerdict::Sustained, "{long:?}");
}

#[test]
fn nothing_is_said_to_be_zero() {
    for seconds in [0.001, 0.3, 20.0] {
        for service in [Service::Constant, Service::Exponential] {
            let server = Server::new(16, seconds, service);
            for arrivals in [
                Arrivals::Constant(4.0),
                Arrivals::Constant(5000.0),
                Arrivals::Poisson(40.0),
                Arrivals::Closed(8),
            ] {
                for count in 1..60 {
                    let health = of_run(&server, arrivals, count, 1);
                    let text = health.to_string();
                    let is_zero = |what: &str| text.contains(what);
                    assert!(!is_zero("offered 0.0") && !is_zero("about 0 s"), "{count}: {text}");
                    assert!(!is_zero(" or 0 requests"), "{count}: {text}");
                    assert_ne!(health.needed_requests, Some(0));
                    assert!(health.needed_seconds.is_none_or(|it| it > 0.0));
                }
            }
        }
    }
}
