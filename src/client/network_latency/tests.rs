use std::collections::BTreeSet;
use std::net::TcpListener;

use url::Url;

use base::interrupt::Interrupter;

use super::*;

/// Keeps what it receives.
#[derive(Default)]
struct Kept(Vec<(u16, Result<Nanos, RequestError>)>);

impl ProbeSink for Kept {
    fn probe(&mut self, probe: &Probe) {
        self.0.push((probe.server.port, probe.outcome.clone()));
    }
}

fn listener() -> (TcpListener, u16) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    (listener, port)
}

fn start(urls: &[String], config: Probing) -> Prober<Kept> {
    let targets: Vec<Target> =
        urls.iter().map(|url| Target::new(&Url::parse(url).unwrap()).unwrap()).collect();
    Prober::start(config, &targets, IpVersion::V4, Clock::start(), Kept::default()).unwrap()
}

#[test]
fn the_mean_is_that_of_all() {
    let mut trips = RoundTrips::default();
    assert_eq!(trips.mean_ns(), None);
    for nanos in [3, 4, 6] {
        trips.add(nanos);
    }
    assert_eq!(trips.mean_ns(), Some(13.0 / 3.0));
    trips.add(u64::MAX);
    assert!(trips.mean_ns().unwrap() > 4e18);
}

#[test]
fn a_load_that_ends_at_once_still_has_enough_probes() {
    let (_listener, port) = listener();
    let url = format!("http://user:secret@localhost:{port}/v1?key=1");
    // Two URLs of one server, which is connected to as one.
    let other = format!("http://localhost:{port}/v2");
    let day = Nanos::from_seconds(86_400.0);
    let prober = start(&[url, other], Probing { top_up: day, ..Probing::default() });
    let found = prober.finish(&Interrupt::never()).unwrap();
    let times: Vec<u64> =
        found.sink.0.iter().map(|(_, outcome)| outcome.clone().unwrap().0).collect();
    assert_eq!(times.len(), 5);
    assert_eq!(found.round_trips.mean_ns(), Some(times.iter().sum::<u64>() as f64 / 5.0));
    assert_eq!(found.last_error, None);
}

#[test]
fn every_server_is_probed() {
    let servers = [listener(), listener()];
    let urls = servers.each_ref().map(|(_, port)| format!("https://127.0.0.1:{port}"));
    let config =
        Probing { min_successes: 8, top_up: Nanos::from_seconds(60.0), ..Probing::default() };
    let found = start(&urls, config).finish(&Interrupt::never()).unwrap();
    let probed: BTreeSet<u16> = found.sink.0.iter().map(|(port, _)| *port).collect();
    assert_eq!(probed, servers.iter().map(|(_, port)| *port).collect());
}

#[test]
fn a_server_that_refuses_has_no_round_trip() {
    let (listener, port) = listener();
    drop(listener);
    let config = Probing { top_up: Nanos::from_millis(300.0), ..Probing::default() };
    let prober = start(&[format!("http://127.0.0.1:{port}")], config);
    let found = prober.finish(&Interrupt::never()).unwrap();
    assert_eq!(found.round_trips.mean_ns(), None);
    assert_eq!(found.last_error.unwrap().name, "ConnectionRefused");
    assert!(!found.sink.0.is_empty() && found.sink.0.iter().all(|(_, outcome)| outcome.is_err()));
}

#[test]
fn an_interrupt_ends_the_wait_for_more_probes() {
    let (listener, port) = listener();
    drop(listener);
    let day = Nanos::from_seconds(86_400.0);
    let prober =
        start(&[format!("http://127.0.0.1:{port}")], Probing { top_up: day, ..Probing::default() });
    let interrupter = Interrupter::default();
    interrupter.signal();
    assert!(prober.finish(&interrupter.interrupt()).is_some());
}
