//! The throughput of the steady state in simulated runs with a known rate.

use base::statistics::simulation::{Arrivals, Server, Service, runs};

use super::*;

/// Rates of the steady states of simulated runs, relative to the true rate.
#[derive(Debug, Default)]
struct Rates {
    /// By the shares of requests, less 1.
    of_shares: Vec<f64>,
    /// By the requests that end from the first start, or the first time at the concurrency, on.
    of_ends: Vec<f64>,
    residuals: Vec<f64>,
    /// Runs without a steady state.
    none: usize,
}

impl Rates {
    fn simulate(server: &Server, arrivals: Arrivals, count: usize, runs: u64) -> Self {
        let (load, rate) = match arrivals {
            Arrivals::Closed(most) => (HeldLoad::Concurrency(most as u64), server.capacity()),
            Arrivals::People { users, think } => {
                (HeldLoad::AllAtOnce, users as f64 / (think + server.seconds))
            }
            Arrivals::Constant(rate) | Arrivals::Poisson(rate) | Arrivals::Bursts { rate, .. } => {
                (HeldLoad::Arrivals { ramp_ns: Nanos::ZERO }, rate.min(server.capacity()))
            }
        };
        let mut rates = Self::default();
        for seed in 0..runs {
            let nanos = |seconds: f64| 1_000_000_000 + (seconds * 1e9) as u64;
            let requests = server.run(arrivals, count, seed);
            let spans = || requests.iter().map(|it| (nanos(it.start), nanos(it.end)));
            let Ok(found) = window(&spans, load, 0, 0.95, &Store::default()) else {
                rates.none += 1;
                continue;
            };
            let seconds = |window: &RangeInclusive<u64>| {
                Nanos(window.end() - window.start()).as_seconds() * rate
            };
            let shares: f64 = spans().map(|(start, end)| share_in(start, end, &found)).sum();
            rates.of_shares.push(shares / seconds(&found) - 1.0);
            let whole = spans().map(|(start, _)| start).min().unwrap()..=*found.end();
            let ended = spans().filter(|(_, end)| whole.contains(end)).count();
            rates.of_ends.push(ended as f64 / seconds(&whole) - 1.0);
            rates.residuals.extend(littles_law_residual(&spans, &found));
        }
        rates
    }
}

fn mean(values: &[f64]) -> f64 {
    values.iter().sum::<f64>() / values.len() as f64
}

fn spread(values: &[f64]) -> f64 {
    let mean = mean(values);
    (values.iter().map(|value| (value - mean).powi(2)).sum::<f64>() / values.len() as f64).sqrt()
}

#[test]
fn the_rate_is_the_true_one() {
    // Mean error within three standard errors and 1% of bias, that of ends is beyond it.
    let (exponential, constant) = (Service::Exponential, Service::Constant);
    let server = |service| Server::new(16, 1.0, service);
    for (server, arrivals, count) in [
        (server(constant), Arrivals::Constant(14.4), 200),
        (server(exponential), Arrivals::Poisson(14.4), 500),
        (server(constant), Arrivals::Bursts { rate: 8.0, size: 10 }, 500),
        (server(Service::Lognormal(0.3)), Arrivals::Closed(16), 320),
        (server(exponential), Arrivals::Closed(32), 500),
    ] {
        let rates = Rates::simulate(&server, arrivals, count, 60);
        let (bias, error) = (mean(&rates.of_shares), spread(&rates.of_shares) / 60_f64.sqrt());
        assert!(bias.abs() < 0.01 + 3.0 * error, "{arrivals:?}: {bias} {error}");
        assert!(mean(&rates.residuals).abs() < 0.02, "{arrivals:?}: {}", mean(&rates.residuals));
        assert!(rates.none < 6, "{arrivals:?}: {}", rates.none);
    }
}

#[test]
fn a_queue_that_grows_until_the_end_is_not_steady() {
    let server = Server::new(16, 1.0, Service::Exponential);
    let rates = Rates::simulate(&server, Arrivals::Poisson(24.0), 1000, 60);
    assert!(rates.none >= 57, "{}", rates.none);
}

/// Prints the table of `docs/decisions/steady-state.md`.
#[test]
fn how_far_rates_are_from_the_truth() {
    let runs = runs(400);
    let cell =
        |values: &[f64]| format!("{:+.1}% ± {:.1}%", 100.0 * mean(values), 100.0 * spread(values));
    let row = |name: String, rates: &Rates| {
        println!(
            "| {name} | {} | {} | {} | {} |",
            cell(&rates.of_ends),
            cell(&rates.of_shares),
            cell(&rates.residuals),
            rates.none
        );
        // The largest bias is 7.4%, of short runs of bursts that vary by 43%.
        let limit =
            0.08 + 4.0 * spread(&rates.of_shares) / (runs as f64).sqrt() + 0.5 / runs as f64;
        let bias = mean(&rates.of_shares);
        assert!(rates.of_shares.is_empty() || bias.abs() < limit, "{name}: {bias}");
    };
    let services = [
        ("constant", Service::Constant),
        ("lognormal, 0.3", Service::Lognormal(0.3)),
        ("lognormal, 1", Service::Lognormal(1.0)),
        ("exponential", Service::Exponential),
    ];
    for (name, service) in services {
        for each in [5, 10, 50] {
            let server = Server::new(16, 1.0, service);
            let rates = Rates::simulate(&server, Arrivals::Closed(16), 16 * each, runs);
            row(format!("16 in flight, {each} each | {name}"), &rates);
        }
    }
    for (name, service) in [services[0], services[3]] {
        for load in [0.5, 0.9] {
            for seconds in [10.0, 50.0] {
                let rate = 16.0 * load;
                for (kind, arrivals) in [
                    ("constant", Arrivals::Constant(rate)),
                    ("Poisson", Arrivals::Poisson(rate)),
                    ("bursts of 10", Arrivals::Bursts { rate, size: 10 }),
                ] {
                    let server = Server::new(16, 1.0, service);
                    let rates = Rates::simulate(&server, arrivals, (rate * seconds) as usize, runs);
                    let load = 100.0 * load;
                    row(format!("{kind}, {load:.0}%, {seconds:.0} latencies | {name}"), &rates);
                }
            }
        }
    }
}
