use super::*;
use crate::statistics::simulation::{self, Arrivals, Server, Service, Simulated};
use crate::statistics::student_t;

fn rate_of(requests: &[Simulated], weight: impl Fn(usize) -> f64) -> Rate {
    let span = |(at, request): (usize, &Simulated)| Span {
        start: request.start,
        end: request.end,
        weight: weight(at),
    };
    let by_start: Vec<Span> = requests.iter().enumerate().map(span).collect();
    let mut by_end = by_start.clone();
    by_end.sort_by(|one, other| one.end.total_cmp(&other.end));
    rate(|| by_start.iter().copied(), || by_end.iter().copied()).unwrap()
}

/// Rates of simulated runs.
struct Study {
    /// The share of the 95% intervals that contain the mean of all rates.
    contained: f64,
    /// The standard deviation of the rates, relative to their mean.
    deviation: f64,
    /// The mean half-width of the intervals, relative to the rate.
    half_width: f64,
}

fn study(server: &Server, arrivals: Arrivals, count: usize, runs: u64) -> Study {
    let found: Vec<[f64; 2]> = (0..runs)
        .map(|seed| {
            let rate = rate_of(&server.run(arrivals, count, seed), |_| 1.0);
            let degrees = rate.exactness.degrees.clamp(1.0, 1000.0);
            let t = student_t::critical(0.95, degrees).unwrap();
            [rate.weight / rate.seconds, t * rate.exactness.variance.sqrt() / rate.weight]
        })
        .collect();
    let n = runs as f64;
    let truth = found.iter().map(|[rate, _]| rate).sum::<f64>() / n;
    let contained =
        found.iter().filter(|[rate, half]| (rate / truth).ln().abs() <= half + 1e-9).count();
    let squares = found.iter().map(|[rate, _]| (rate / truth - 1.0).powi(2)).sum::<f64>();
    Study {
        contained: contained as f64 / n,
        deviation: (squares / n).sqrt(),
        half_width: found.iter().map(|[_, half]| half).sum::<f64>() / n,
    }
}

/// Of 200 intervals that contain the truth with 95%, fewer than 178 do with a probability of 0.05%.
#[test]
fn intervals_of_rates_contain_the_truth() {
    let dependent = Service::Correlated { cv: 0.3, correlation: 0.7 };
    for (service, arrivals) in [
        (Service::Lognormal(0.3), Arrivals::Closed(8)),
        (dependent, Arrivals::Closed(8)),
        (Service::Exponential, Arrivals::Constant(4.0)),
        (Service::Lognormal(0.3), Arrivals::Constant(12.0)),
        (Service::Lognormal(0.3), Arrivals::Poisson(4.0)),
    ] {
        let Study { contained, deviation, half_width } =
            study(&Server::new(8, 1.0, service), arrivals, 400, 200);
        assert!(contained >= 0.89, "{service:?} {arrivals:?}: {contained}");
        // At most one and a half times as wide as if the deviation were known.
        assert!(half_width < 3.0 * deviation, "{service:?} {arrivals:?}: {half_width} {deviation}");
    }
}

#[test]
fn a_rhythm_is_exact() {
    // Eight requests at once every second, as gaps of 0 and 1 s; one every 1/4 s.
    for arrivals in [Arrivals::Closed(8), Arrivals::Constant(4.0)] {
        let requests = Server::new(8, 1.0, Service::Constant).run(arrivals, 200, 1);
        let found = rate_of(&requests, |_| 1.0);
        let relative = found.exactness.variance.sqrt() / found.weight;
        assert!(relative < 1e-9, "{arrivals:?}: {relative}");
    }
    let requests = Server::new(8, 1.0, Service::Constant).run(Arrivals::Closed(8), 200, 1);
    let found = rate_of(&requests, |_| 1.0);
    assert_eq!((found.weight, found.seconds), (200.0, 25.0));
}

#[test]
fn weights_that_differ_make_a_rate_less_exact() {
    let requests = Server::new(8, 1.0, Service::Constant).run(Arrivals::Closed(8), 400, 1);
    // Independent of each other: 0 or 2 tokens, with a variance of 1.
    let weight = |at: usize| {
        if (at as u64).wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 63 == 1 { 2.0 } else { 0.0 }
    };
    let found = rate_of(&requests, weight);
    let relative = found.exactness.variance.sqrt() / found.weight;
    assert!(relative > 0.0 && relative < 0.1, "{relative}");
}

#[test]
fn requests_that_are_sent_at_once_are_as_inexact_as_their_ends() {
    // M/M/8 with all requests in the queue: the time is that of n/8 exponential services.
    let server = Server::new(8, 1.0, Service::Exponential);
    let found = study(&server, Arrivals::Closed(400), 400, 100);
    assert!((found.deviation - 0.05).abs() < 0.015, "{}", found.deviation);
    assert!(found.contained >= 0.86, "{}", found.contained);
}

#[test]
fn requests_without_a_time_have_no_rate() {
    let span = Span { start: 1.0, end: 1.0, weight: 1.0 };
    let none = || std::iter::repeat_n(span, 10);
    assert!(rate(none, none).is_none());
    assert!(rate(std::iter::empty, std::iter::empty).is_none());
}

/// Prints the table of `docs/decisions/comparing.md`.
#[test]
fn how_exact_rates_are() {
    let services = [
        ("constant", Service::Constant),
        ("lognormal 0.3", Service::Lognormal(0.3)),
        ("exponential", Service::Exponential),
        ("lognormal 1", Service::Lognormal(1.0)),
        ("lognormal 0.3, correlation 0.7", Service::Correlated { cv: 0.3, correlation: 0.7 }),
    ];
    let loads = [
        ("closed, 8 in 8 slots", 8, Arrivals::Closed(8)),
        ("closed, 16 in 16 slots", 16, Arrivals::Closed(16)),
        ("closed, 16 in 4 slots", 4, Arrivals::Closed(16)),
        ("constant, 50%", 8, Arrivals::Constant(4.0)),
        ("constant, 90%", 8, Arrivals::Constant(7.2)),
        ("constant, 150%", 8, Arrivals::Constant(12.0)),
        ("Poisson, 50%", 8, Arrivals::Poisson(4.0)),
        ("Poisson, 80%", 8, Arrivals::Poisson(6.4)),
        ("bursts of 4, 50%", 8, Arrivals::Bursts { rate: 4.0, size: 4 }),
    ];
    println!("| load | service | n = 100 | n = 400 | n = 2000 |");
    for (load, slots, arrivals) in loads {
        for (name, service) in services {
            let server = Server::new(slots, 1.0, service);
            let shown = [(100, 1000), (400, 1000), (2000, 400)].map(|(count, runs)| {
                let runs = simulation::runs(runs);
                let Study { contained, deviation, half_width } =
                    study(&server, arrivals, count, runs);
                // In the worst row, 19% are outside.
                let outside = ((1.0 - contained) * runs as f64).round() as usize;
                assert!(outside <= simulation::most_of(runs, 0.2), "{load}, {name}: {outside}");
                let [share, deviation, half] =
                    [contained, deviation, half_width].map(|part| 100.0 * part);
                format!("{share:.1}%, ±{half:.2}% ({deviation:.2}%)")
            });
            println!("| {load} | {name} | {} |", shown.join(" | "));
        }
    }
}

#[test]
fn few_requests_are_as_fast_as_they_are_sent() {
    let server = Server::new(4, 0.1, Service::Constant);
    for count in [2, 3, 10] {
        let found = rate_of(&server.run(Arrivals::Constant(0.6), count, 0), |_| 1.0);
        assert!((found.weight / found.seconds - 0.6).abs() < 1e-9, "{count}: {found:?}");
    }
    // Five at random: by the time until the last response, they seem to be sent 1.24 times as fast.
    let runs = 2000;
    let seconds = |seed| {
        let requests = server.run(Arrivals::Poisson(0.6), 5, seed);
        rate_of(&requests, |_| 1.0).seconds
    };
    let mean = (0..runs).map(seconds).sum::<f64>() / runs as f64;
    // The deviation of the mean is 1 %. That distances shorter than a request count as long as one adds as
    // much.
    let relative = 5.0 / mean / 0.6;
    assert!((relative - 1.0).abs() < 0.04, "{relative}");
    // One after the other, there are no distances.
    let server = Server::new(1, 1.0, Service::Exponential);
    let requests = server.run(Arrivals::Closed(1), 50, 3);
    let found = rate_of(&requests, |_| 1.0);
    let time = requests.last().unwrap().end;
    assert!((found.seconds / time - 1.0).abs() < 2.0 / 50.0, "{found:?} {time}");
}
