//! The collection of server metrics against scripted endpoints.

use std::io;
use std::sync::mpsc::{self, Receiver};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::Duration;

use base::interrupt::{Interrupt, Interrupter};
use base::redact::Secret;
use base::units::{Clock, Nanos};
use client::runner::PhaseListener as _;
use client::schedule::PhaseKind;
use client::transport::Connections;
use measure::server_metrics::store::{EndpointStore, Store, Values};
use measure::server_metrics::{
    Collected, Collector, Config, EndpointConfig, FetchTimes, Limits, PhaseMark, Scrape, ScrapeSink,
};
use tracing::Level;
use tracing_subscriber::fmt::MakeWriter;
use url::Url;

use crate::support::metrics_endpoint::{Gate, MetricsEndpoint, Reply, wait_until};

const WARMUP: PhaseMark = PhaseMark { index: 0, kind: PhaseKind::Warmup };
const PROFILING: PhaseMark = PhaseMark { index: 1, kind: PhaseKind::Profiling };

/// Longer than any response takes.
const LONG: Nanos = Nanos(120_000_000_000);

const LONG_LIMITS: Limits = Limits { pause: LONG, overdue: LONG, slack: LONG };

/// The scrapes that a sink received.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Seen {
    index: usize,
    url: String,
    times: FetchTimes,
    phase: Option<PhaseMark>,
    is_duplicate: bool,
    /// Name and labels as sent, value, and the server's timestamp.
    samples: Vec<(String, String)>,
    priority: i32,
}

/// Records every scrape it receives.
#[derive(Debug, Clone, Default)]
struct Notes(Arc<Mutex<Vec<Seen>>>);

impl Notes {
    fn all(&self) -> Vec<Seen> {
        self.0.lock().unwrap().clone()
    }
}

/// The nice value of work with deadlines.
const TIMELY: i32 = 5;

impl ScrapeSink for Notes {
    fn scrape(&mut self, scrape: &Scrape<'_>) {
        #[cfg(target_os = "linux")]
        let priority =
            rustix::process::getpriority_process(Some(rustix::thread::gettid())).unwrap();
        #[cfg(not(target_os = "linux"))]
        let priority = TIMELY;
        let sample = |sample: &measure::server_metrics::exposition::Sample<'_>| {
            (sample.name.to_string(), format!("{} {:?}", sample.value, sample.timestamp))
        };
        self.0.lock().unwrap().push(Seen {
            index: scrape.index,
            url: scrape.endpoint.url.to_string(),
            times: scrape.times,
            phase: scrape.phase,
            is_duplicate: scrape.is_duplicate,
            samples: scrape.exposition.samples.iter().map(sample).collect(),
            priority,
        });
    }
}

/// Accepts one scrape, and blocks until the other end is dropped.
struct HangingSink(Receiver<()>);

impl ScrapeSink for HangingSink {
    fn scrape(&mut self, _: &Scrape<'_>) {
        let _ = self.0.recv();
    }
}

/// The log, line by line.
#[derive(Debug, Clone, Default)]
struct Log(Arc<Mutex<Vec<u8>>>);

impl Log {
    fn lines(&self) -> Vec<String> {
        let text = String::from_utf8(self.0.lock().unwrap().clone()).unwrap();
        text.lines().map(str::to_owned).collect()
    }

    fn at(&self, level: &str) -> Vec<String> {
        let own = |line: &String| line.contains(level) && line.contains("aiperf_");
        self.lines().into_iter().filter(own).collect()
    }

    fn subscriber(&self, level: Level) -> impl tracing::Subscriber + Send + Sync + use<> {
        tracing_subscriber::fmt()
            .with_ansi(false)
            .with_max_level(level)
            .with_writer(self.clone())
            .finish()
    }

    fn warnings(&self) -> Vec<String> {
        self.at("WARN")
    }
}

impl io::Write for Log {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.lock().unwrap().extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl MakeWriter<'_> for Log {
    type Writer = Self;

    fn make_writer(&self) -> Self {
        self.clone()
    }
}

/// A collection, with everything that can be observed of it.
struct Run<S = Notes> {
    collector: Collector<S>,
    clock: Clock,
    notes: Notes,
    log: Log,
}

fn explicit(url: Url) -> EndpointConfig {
    EndpointConfig { url: Secret::new(url), is_discovered: false }
}

/// Short intervals, so that tests are fast, and long limits, because the low-priority threads of a
/// collection hardly run while other tests keep all cores busy.
fn config(endpoints: impl IntoIterator<Item = EndpointConfig>) -> Config {
    Config {
        exporters_of: measure::server_metrics::Source::default(),
        endpoints: endpoints.into_iter().collect(),
        interval: Nanos::from_millis(5.0),
        flush_period: Nanos::ZERO,
        reachability_timeout: LONG,
        scrape_timeout: Some(LONG),
        shutdown_delay: LONG,
        local: None,
        limits: LONG_LIMITS,
    }
}

fn metrics_of(endpoint: &MetricsEndpoint) -> Config {
    config([explicit(endpoint.url("/metrics"))])
}

fn start(config: Config) -> Run {
    let notes = Notes::default();
    let (collector, clock, log) = start_with(config, notes.clone(), Level::INFO);
    Run { collector, clock, notes, log }
}

fn start_with<S: ScrapeSink>(config: Config, sink: S, level: Level) -> (Collector<S>, Clock, Log) {
    let log = Log::default();
    let clock = Clock::start();
    let collector = tracing::subscriber::with_default(log.subscriber(level), || {
        Collector::start(config, &Connections::default(), clock, sink, &Interrupt::never()).unwrap()
    });
    (collector, clock, log)
}

impl<S: ScrapeSink> Run<S> {
    fn begin(&self, phase: PhaseMark) -> Nanos {
        let at = Clock::now();
        self.collector.handle().phase_started(phase.index, phase.kind, at);
        at
    }

    /// Ends a phase like the runner; returns when it ended, and when the next may begin.
    fn end(&self, phase: PhaseMark) -> (Nanos, Nanos) {
        let at = Clock::now();
        let done = self.collector.handle().phase_ended(phase.index, phase.kind, at);
        let _ = done.blocking_recv();
        (at, Clock::now())
    }

    fn finish(self) -> Collected<S> {
        self.collector.finish(&Interrupt::never(), |_| false)
    }
}

/// Returns the values of the series of `name` in all scrapes of an endpoint.
fn values(store: &Store, endpoint: usize, name: &str) -> Vec<f64> {
    let endpoint = &store.endpoints()[endpoint];
    let Some(family) = endpoint.families.iter().find(|family| &*family.name == name) else {
        return Vec::new();
    };
    let Values::Number(column) = &family.series[0].values else { return Vec::new() };
    column.iter(0..endpoint.scrapes().len()).map(|(_, value)| value).collect()
}

/// Returns whether a scrape is near enough to an edge of its phase, at `edge_ns`, to be exact.
fn is_near(scrape: &FetchTimes, edge_ns: u64) -> bool {
    scrape.first_byte_ns.abs_diff(edge_ns) <= 2_000_000_000
}

fn ascending_to(last: usize) -> Vec<f64> {
    (1..=last).map(|value| value as f64).collect()
}

#[test]
fn a_request_asks_for_both_formats_packed_and_bears_no_key() {
    let endpoint = MetricsEndpoint::with([Reply::number()]);
    let run = start(metrics_of(&endpoint));
    run.finish();
    let request = &endpoint.requests()[0];
    assert_eq!(
        request.headers["accept"],
        "application/openmetrics-text;version=1.0.0;q=0.75,text/plain;version=0.0.4;q=0.5,*/*;q=0.1"
    );
    assert_eq!(request.headers["accept-encoding"], "gzip");
    assert!(!request.headers.contains_key("authorization"));
}

#[test]
fn the_baseline_is_there_when_the_start_returns() {
    let endpoint = MetricsEndpoint::with([Reply::number().after(Duration::from_millis(50))]);
    let run = start(Config { interval: Nanos::from_seconds(3600.0), ..metrics_of(&endpoint) });
    assert_eq!(endpoint.count("/metrics"), 1);
    let before = run.clock.wall_ns(run.begin(PROFILING));
    run.end(PROFILING);
    let Collected { store, .. } = run.finish();
    let scrapes = store.endpoints()[0].scrapes();
    assert_eq!(scrapes.len(), 2);
    assert!(scrapes[0].first_byte_ns < before && before < scrapes[1].request_sent_ns);
    let delay = scrapes[0].first_byte_ns - scrapes[0].request_sent_ns;
    assert!(delay >= 50_000_000, "the time is that of the answer: {delay}");
}

#[test]
fn packed_bodies_and_both_formats_are_read() {
    let openmetrics = "# TYPE a counter\na_total 3 1700000000.5\n# EOF\n";
    let kind = "application/openmetrics-text; version=1.0.0; charset=utf-8";
    let endpoint = MetricsEndpoint::start();
    endpoint.script("/metrics", [Reply::text("# TYPE a_total counter\na_total 3\n").gzip()]);
    endpoint.script("/open", [Reply::of(kind, openmetrics)]);
    let run = start(config([explicit(endpoint.url("/metrics")), explicit(endpoint.url("/open"))]));
    let notes = run.notes.clone();
    let Collected { store, .. } = run.finish();
    for index in [0, 1] {
        assert_eq!(values(&store, index, "a")[0], 3.0);
        assert_eq!(store.endpoints()[index].failures(), 0);
    }
    let sample = |index| {
        let notes = notes.all();
        notes.iter().find(|seen| seen.index == index).map(|seen| seen.samples[0].clone()).unwrap()
    };
    assert_eq!(sample(0), ("a_total".to_owned(), "3 None".to_owned()));
    assert_eq!(sample(1), ("a_total".to_owned(), "3 Some(1700000000.5)".to_owned()));
}

#[test]
fn where_metrics_are_json_the_exposition_beside_them_is_scraped() {
    let endpoint = MetricsEndpoint::with([Reply::json_head()]);
    endpoint.script("/prometheus/metrics", [Reply::number()]);
    let run = start(metrics_of(&endpoint));
    run.begin(PROFILING);
    endpoint.wait_for(5);
    run.end(PROFILING);
    let (notes, log) = (run.notes.clone(), run.log.clone());
    let Collected { store, .. } = run.finish();
    assert_eq!(endpoint.count("/metrics"), 1, "asked once, and its body not waited for");
    wait_until("closed connections", || endpoint.abandoned() == 1);
    let kept = &store.endpoints()[0];
    assert_eq!(*kept.configured_url, *endpoint.url("/metrics").as_str());
    assert_eq!(*kept.url, *endpoint.url("/prometheus/metrics").as_str());
    assert!(notes.all().iter().all(|seen| *seen.url == *kept.url));
    let served = values(&store, 0, "served");
    assert!(served.len() >= 5 && served[0] == 1.0, "the probe is the first scrape: {served:?}");
    assert_eq!(log.warnings(), [""; 0]);
}

/// Waits until an endpoint would have been scraped again if it had not been dropped.
fn pass_time(beside: &MetricsEndpoint) {
    beside.wait_for(10);
}

#[test]
fn json_everywhere_is_warned_of_once_and_never_asked_for_again() {
    let json = MetricsEndpoint::with([Reply::of("application/json; charset=utf-8", "[]")]);
    json.script("/prometheus/metrics", [Reply::of("application/json", "[]")]);
    let beside = MetricsEndpoint::with([Reply::number()]);
    let run = start(config([explicit(json.url("/metrics")), explicit(beside.url("/metrics"))]));
    run.begin(PROFILING);
    pass_time(&beside);
    run.end(PROFILING);
    let log = run.log.clone();
    let Collected { store, .. } = run.finish();
    assert_eq!((json.count("/metrics"), json.count("/prometheus/metrics")), (1, 1));
    assert!(store.endpoints()[0].scrapes().is_empty());
    assert!(store.endpoints()[1].scrapes().len() > 10, "the other goes on");
    let warnings = log.warnings();
    assert_eq!(warnings.len(), 1, "{warnings:?}");
    for part in [
        format!("Disabling server metrics collection for {}", json.url("/metrics")).as_str(),
        "non-Prometheus content-type 'application/json; charset=utf-8'",
        "expected text/plain",
        "pass --no-server-metrics",
    ] {
        assert!(warnings[0].contains(part), "{part}: {}", warnings[0]);
    }
}

#[test]
fn a_path_that_does_not_end_in_metrics_has_none_beside_it() {
    let endpoint = MetricsEndpoint::start();
    let json = [Reply::of("application/json", "{}")];
    endpoint.script("/stats", json.clone());
    endpoint.script("/prometheus/metrics", json);
    let paths = ["/stats", "/prometheus/metrics"];
    let run = start(config(paths.map(|path| explicit(endpoint.url(path)))));
    let log = run.log.clone();
    run.finish();
    let mut asked: Vec<String> =
        endpoint.requests().into_iter().map(|request| request.path).collect();
    asked.sort();
    assert_eq!(asked, ["/prometheus/metrics", "/stats"], "each once");
    assert_eq!(log.warnings().len(), 2);
}

#[test]
fn an_exposition_that_is_configured_besides_is_not_scraped_twice() {
    let endpoint = MetricsEndpoint::with([Reply::json_head()]);
    endpoint.script("/prometheus/metrics", [Reply::number()]);
    let discovered =
        EndpointConfig { url: Secret::new(endpoint.url("/metrics")), is_discovered: true };
    let run = start(config([discovered, explicit(endpoint.url("/prometheus/metrics"))]));
    endpoint.wait_for(3);
    let log = run.log.clone();
    let Collected { store, .. } = run.finish();
    assert!(store.endpoints()[0].scrapes().is_empty());
    let scrapes = store.endpoints()[1].scrapes().len();
    assert!(scrapes >= 3 && values(&store, 1, "served") == ascending_to(scrapes));
    assert_eq!(log.warnings(), [""; 0]);
}

#[test]
fn garbage_in_the_middle_of_a_run_ends_the_scrapes_with_one_warning() {
    let garbage = "# fine\na 1\n<html>\x1b[2J\n";
    let endpoint = MetricsEndpoint::with([Reply::number(), Reply::number(), Reply::text(garbage)]);
    let beside = MetricsEndpoint::with([Reply::number()]);
    let run = start(config([explicit(endpoint.url("/metrics")), explicit(beside.url("/metrics"))]));
    wait_until("warnings", || !run.log.warnings().is_empty());
    pass_time(&beside);
    run.begin(PROFILING);
    run.end(PROFILING);
    let log = run.log.clone();
    let Collected { store, .. } = run.finish();
    assert_eq!(values(&store, 0, "served"), [1.0, 2.0]);
    assert_eq!((endpoint.count("/metrics"), endpoint.count("/prometheus/metrics")), (3, 1));
    let warnings = log.warnings();
    assert_eq!(warnings.len(), 1, "{warnings:?}");
    for part in ["Disabling", "line 3: ", "--no-server-metrics"] {
        assert!(warnings[0].contains(part), "{part}: {}", warnings[0]);
    }
    assert!(!warnings[0].contains('\x1b'));
}

#[test]
fn the_other_place_is_tried_once_in_a_run() {
    let endpoint = MetricsEndpoint::with([Reply::json_head()]);
    let script = [Reply::number(), Reply::number(), Reply::of("application/json", "{}")];
    endpoint.script("/prometheus/metrics", script);
    let run = start(metrics_of(&endpoint));
    wait_until("warnings", || !run.log.warnings().is_empty());
    let log = run.log.clone();
    let Collected { store, .. } = run.finish();
    assert_eq!(values(&store, 0, "served"), [1.0, 2.0]);
    assert_eq!((endpoint.count("/metrics"), endpoint.count("/prometheus/metrics")), (1, 3));
    let warnings = log.warnings();
    assert_eq!(warnings.len(), 1, "{warnings:?}");
    assert!(warnings[0].contains("/prometheus/metrics"), "{}", warnings[0]);
}

#[test]
fn an_endpoint_that_hangs_delays_neither_the_others_nor_the_end() {
    let hanging = MetricsEndpoint::with([Reply::number(), Reply::hang()]);
    let beside = MetricsEndpoint::with([Reply::number()]);
    let endpoints = [explicit(hanging.url("/metrics")), explicit(beside.url("/metrics"))];
    let flush_period = Nanos::from_millis(10.0);
    let scrape_timeout = Some(Nanos::from_seconds(3.0));
    let limits = Limits { slack: Nanos::from_millis(100.0), ..LONG_LIMITS };
    let run = start(Config { flush_period, scrape_timeout, limits, ..config(endpoints) });
    run.begin(WARMUP);
    wait_until("hanging requests", || hanging.count("/metrics") >= 2);
    pass_time(&beside);
    let (warmup_ended, _) = run.end(WARMUP);
    run.begin(PROFILING);
    let (ended, _) = run.end(PROFILING);
    let (clock, notes, log) = (run.clock, run.notes.clone(), run.log.clone());
    let Collected { store, windows, sink } = run.finish();
    assert!(sink.is_some());
    let asked = hanging.count("/metrics") as u64;
    assert!(asked >= 4, "asked anew at each boundary");
    assert_eq!(values(&store, 0, "served"), [1.0]);
    // All except the first, and those that were still in flight at the end.
    let failures = store.endpoints()[0].failures();
    assert!((3..asked).contains(&failures), "{failures} of {asked}");
    for (kind, ended) in [(PhaseKind::Warmup, warmup_ended), (PhaseKind::Profiling, ended)] {
        let seen = notes.all();
        let is_after = |seen: &&Seen| seen.times.request_sent_ns >= clock.wall_ns(ended);
        let last = seen.iter().filter(|seen| seen.index == 1).find(is_after).unwrap();
        let span = store.endpoints()[1].span(&windows, kind).unwrap();
        assert_eq!(store.endpoints()[1].scrapes()[span.last().unwrap()], last.times);
        assert_eq!(span.has_exact_end, is_near(&last.times, clock.wall_ns(ended)));
        // An endpoint that does not respond does not have a window, and does not delay the other
        // one.
        let span = store.endpoints()[0].span(&windows, kind).unwrap();
        assert_eq!((span.last(), span.has_exact_end), (None, false));
    }
    let warnings = log.warnings();
    assert_eq!(warnings.len(), 1, "{warnings:?}");
    assert!(warnings[0].contains("did not respond within"), "{}", warnings[0]);
}

#[test]
fn a_fetch_that_is_stuck_costs_its_sample_and_is_counted() {
    let script = [Reply::number(), Reply::number(), Reply::hang(), Reply::number()];
    let endpoint = MetricsEndpoint::with(script);
    let limits = Limits { overdue: Nanos::from_seconds(2.0), ..LONG_LIMITS };
    let run = start(Config { limits, ..metrics_of(&endpoint) });
    wait_until("scrapes after the one that is stuck", || run.notes.all().len() >= 6);
    let log = run.log.clone();
    let Collected { store, .. } = run.finish();
    // The response to the third never came; its limit is far away.
    assert_eq!(values(&store, 0, "served")[..6], [1.0, 2.0, 4.0, 5.0, 6.0, 7.0]);
    assert_eq!(store.endpoints()[0].failures(), 1);
    let warnings = log.warnings();
    assert_eq!(warnings.len(), 1, "{warnings:?}");
    assert!(warnings[0].contains("no response before the next scrape"), "{}", warnings[0]);
}

#[test]
fn fetches_that_all_hang_fail_by_a_bound_of_their_own() {
    let endpoint = MetricsEndpoint::with([Reply::number(), Reply::hang()]);
    let run = start(Config { scrape_timeout: None, ..metrics_of(&endpoint) });
    wait_until("warnings", || !run.log.warnings().is_empty());
    let log = run.log.clone();
    let Collected { store, .. } = run.finish();
    assert!(store.endpoints()[0].failures() >= 1);
    // Two intervals of 5 ms or four times the first response, but at least half a second.
    let first = store.endpoints()[0].scrapes()[0];
    let first = Nanos(first.first_byte_ns - first.request_sent_ns).as_seconds();
    let told = &log.warnings()[0];
    let (_, limit) = told.split_once("it did not respond within ").unwrap();
    let limit: f64 = limit.split_once(" s").unwrap().0.parse().unwrap();
    // One decimal is shown.
    assert!((limit - (4.0 * first).max(0.5)).abs() < 0.051, "{told}: {first}");
}

#[test]
fn a_scrape_that_straddles_the_start_of_a_phase_is_its_reference() {
    // The response to the final scrape of the warmup arrives within the next phase.
    let gate = Gate::default();
    let held = Reply::number().held_by(&gate);
    let endpoint = MetricsEndpoint::with([Reply::number(), held, Reply::number()]);
    let limits = Limits { pause: Nanos::from_millis(100.0), ..LONG_LIMITS };
    let run = start(Config { limits, ..hourly(&endpoint) });
    run.begin(WARMUP);
    run.end(WARMUP);
    gate.open();
    wait_until("the held response", || run.notes.all().len() == 2);
    // The phase began a nanosecond before it came, so the scrape includes less of the phase than the
    // first one lacks of the warmup.
    let arrived_ns = run.notes.all()[1].times.first_byte_ns;
    let began = Nanos(arrived_ns - 1 - run.clock.wall_ns(Nanos::ZERO));
    run.collector.handle().phase_started(PROFILING.index, PROFILING.kind, began);
    run.end(PROFILING);
    let Collected { store, windows, .. } = run.finish();
    assert_eq!(values(&store, 0, "served"), [1.0, 2.0, 3.0]);
    let span = |kind| store.endpoints()[0].span(&windows, kind).unwrap();
    let warmup = span(PhaseKind::Warmup);
    assert_eq!((warmup.reference, warmup.samples), (Some(0), 1..2));
    let profiling = span(PhaseKind::Profiling);
    assert_eq!((profiling.reference, profiling.samples), (Some(1), 2..3));
    // It may include part of the phase: the total is flagged.
    assert!(!profiling.has_exact_start);
}

#[test]
fn a_final_scrape_may_take_as_long_as_the_endpoint_does() {
    let slow = Reply::number().after(Duration::from_secs(1));
    let endpoint = MetricsEndpoint::with([slow]);
    let beside = MetricsEndpoint::with([Reply::number()]);
    let endpoints = [explicit(endpoint.url("/metrics")), explicit(beside.url("/metrics"))];
    let interval = Nanos::from_millis(50.0);
    let run = start(Config { interval, scrape_timeout: None, ..config(endpoints) });
    run.begin(PROFILING);
    endpoint.wait_for(2);
    let (ended, _) = run.end(PROFILING);
    let ended = run.clock.wall_ns(ended);
    let Collected { store, windows, .. } = run.finish();
    for endpoint in store.endpoints() {
        let span = endpoint.span(&windows, PhaseKind::Profiling).unwrap();
        let last = endpoint.scrapes()[span.last().unwrap()];
        assert!(last.request_sent_ns >= ended);
        assert_eq!(span.has_exact_end, is_near(&last, ended));
    }
    let slow = store.endpoints()[0].span(&windows, PhaseKind::Profiling).unwrap();
    let quick = store.endpoints()[1].span(&windows, PhaseKind::Profiling).unwrap();
    let time = |at: usize, scrape: usize| store.endpoints()[at].scrapes()[scrape].first_byte_ns;
    assert!(time(0, slow.last().unwrap()) - ended >= 1_000_000_000);
    assert!(time(1, quick.last().unwrap()) < time(0, slow.last().unwrap()), "not waited for");
}

#[test]
fn a_body_of_100_megabytes_ends_the_scrapes() {
    let large = || "# a line that says nothing\n".repeat(100_000_000 / 27);
    let beside = MetricsEndpoint::with([Reply::number()]);
    for reply in [Reply::text(large()), Reply::text(large()).gzip(), Reply::endless()] {
        let endpoint = MetricsEndpoint::with([reply]);
        let endpoints = [explicit(endpoint.url("/metrics")), explicit(beside.url("/metrics"))];
        let run = start(config(endpoints));
        pass_time(&beside);
        let log = run.log.clone();
        let Collected { store, .. } = run.finish();
        assert!(store.endpoints()[0].scrapes().is_empty());
        assert_eq!(endpoint.requests().len(), 1, "not asked again, nor beside it");
        let warnings = log.warnings();
        assert_eq!(warnings.len(), 1, "{warnings:?}");
        assert!(warnings[0].contains("more than 64 MiB"), "{}", warnings[0]);
        assert!(warnings[0].contains("--no-server-metrics"), "{}", warnings[0]);
    }
}

/// One successful scrape, the failures in `replies`, and another successful scrape.
fn assert_recovery(replies: impl IntoIterator<Item = Reply>, failures: u64, reason: &str) {
    let script = [Reply::number()].into_iter().chain(replies).chain([Reply::number()]);
    let endpoint = MetricsEndpoint::with(script);
    let run = start(metrics_of(&endpoint));
    wait_until("scrapes after the failures", || run.notes.all().len() >= 3);
    let log = run.log.clone();
    let Collected { store, .. } = run.finish();
    assert_eq!(store.endpoints()[0].failures(), failures);
    let served = values(&store, 0, "served");
    assert_eq!(served[..2], [1.0, (failures + 2) as f64]);
    assert_eq!(endpoint.count("/prometheus/metrics"), 0);
    let warnings = log.warnings();
    assert_eq!(warnings.len(), 1, "{warnings:?}");
    assert!(warnings[0].contains(reason), "{}", warnings[0]);
}

#[test]
fn errors_are_counted_and_the_endpoint_scraped_on() {
    assert_recovery(vec![Reply::status("500 Internal Server Error"); 4], 4, "returned status 500");
}

#[test]
fn a_body_that_was_cut_is_a_failure_and_no_exposition() {
    assert_recovery(
        [Reply::cut("# TYPE served_total counter\nserved_total 77\n")],
        1,
        "its body is incomplete",
    );
    let closed = "# TYPE served_total counter\nserved";
    assert_recovery([Reply::text(closed)], 1, "its body is incomplete: line 2");
    let broken = Reply::text("served_total 7\n").with("Content-Encoding", "gzip");
    assert_recovery([broken], 1, "its gzip body is invalid");
    let unknown = Reply::text("served_total 7\n").with("Content-Encoding", "br");
    assert_recovery([unknown], 1, "content encoding `br`");
}

#[test]
fn an_open_metrics_body_without_its_end_was_cut_if_the_server_writes_it() {
    let open = "application/openmetrics-text; version=1.0.0";
    let whole = Reply::of(open, "# TYPE served counter\nserved_total 1\n# EOF\n");
    let cut = Reply::of(open, "# TYPE served counter\n");
    let endpoint = MetricsEndpoint::with([whole.clone(), cut, whole]);
    let run = start(metrics_of(&endpoint));
    wait_until("scrapes after the failure", || run.notes.all().len() >= 3);
    let log = run.log.clone();
    let Collected { store, .. } = run.finish();
    assert_eq!(store.endpoints()[0].failures(), 1);
    assert_eq!(values(&store, 0, "served")[..3], [1.0, 1.0, 1.0]);
    assert!(log.warnings()[0].contains("its body is incomplete"), "{:?}", log.warnings());
}

#[test]
fn what_is_against_the_rules_is_read_and_told_of_once() {
    let open = "application/openmetrics-text; version=1.0.0";
    for (reply, told) in [
        (Reply::of(open, "# TYPE a counter\na_total 1\n"), "ends without `# EOF`"),
        (Reply::text("# TYPE a gauge\n# TYPE a counter\na_total 1\n"), "`a` with two types"),
        (Reply::text(&b"# TYPE a counter\na_total{b=\"\xff\"} 1\n"[..]), "is not valid UTF-8"),
    ] {
        let endpoint = MetricsEndpoint::with([reply]);
        let run = start(metrics_of(&endpoint));
        endpoint.wait_for(3);
        let log = run.log.clone();
        let Collected { store, .. } = run.finish();
        assert!(values(&store, 0, "a").len() >= 3 && store.endpoints()[0].failures() == 0);
        let warnings = log.warnings();
        assert_eq!(warnings.len(), 1, "{warnings:?}");
        assert!(warnings[0].contains(told), "{}", warnings[0]);
    }
}

#[test]
fn a_server_that_restarts_is_scraped_again() {
    let endpoint = MetricsEndpoint::with([Reply::number()]);
    let address = endpoint.address();
    let run = start(metrics_of(&endpoint));
    endpoint.wait_for(2);
    drop(endpoint);
    wait_until("warnings", || !run.log.warnings().is_empty());
    let endpoint = MetricsEndpoint::start_at(address);
    endpoint.script("/metrics", [Reply::number()]);
    let is_first = |seen: &&Seen| seen.samples[0].1.starts_with("1 ");
    wait_until("scrapes after the restart", || {
        run.notes.all().iter().filter(is_first).count() == 2
    });
    let log = run.log.clone();
    let Collected { store, .. } = run.finish();
    let served = values(&store, 0, "served");
    let resets: Vec<_> = served.windows(2).filter(|pair| pair[1] <= pair[0]).collect();
    assert!(resets.len() == 1 && resets[0][1] == 1.0, "counted from 1 again: {served:?}");
    assert!(store.endpoints()[0].failures() >= 1);
    assert_eq!(log.warnings().len(), 1);
}

#[test]
fn an_unreachable_endpoint_is_left_out() {
    let refused = MetricsEndpoint::start().url("/metrics");
    let missing = MetricsEndpoint::start();
    let urls = [refused, missing.url("/metrics")];
    let run = start(config(urls.clone().map(explicit)));
    let log = run.log.clone();
    let Collected { store, sink, .. } = run.finish();
    assert!(sink.is_some());
    let failures: Vec<u64> = store.endpoints().iter().map(EndpointStore::failures).collect();
    assert_eq!(failures, [1, 1]);
    let warnings = log.warnings();
    assert_eq!(warnings.len(), 2, "{warnings:?}");
    for (url, reason) in urls.iter().zip(["refused", "returned status 404"]) {
        let told = |line: &&String| line.contains(url.as_str()) && line.contains(reason);
        assert_eq!(warnings.iter().filter(told).count(), 1, "{url}: {warnings:?}");
    }

    let guess = |url: Url| EndpointConfig { url: Secret::new(url), is_discovered: true };
    let run = start(config(urls.map(guess)));
    let log = run.log.clone();
    run.finish();
    let told = log.warnings();
    assert_eq!(told.len(), 2, "{told:?}");
    assert!(told.iter().all(|line| line.contains("--server-metrics URL")), "{told:?}");
}

#[test]
fn a_start_waits_no_longer_than_it_may() {
    let endpoint = MetricsEndpoint::with([Reply::hang()]);
    let reachability_timeout = Nanos::from_seconds(4.0);
    let run = start(Config { reachability_timeout, ..metrics_of(&endpoint) });
    wait_until("warnings", || !run.log.warnings().is_empty());
    let warnings = run.log.warnings();
    assert!(warnings[0].contains(": it did not respond within "), "{warnings:?}");
    run.finish();
    assert_eq!(endpoint.count("/metrics"), 1);
}

#[test]
fn credentials_are_sent_and_never_shown() {
    let elsewhere = MetricsEndpoint::with([Reply::number()]);
    let endpoint = MetricsEndpoint::with([
        Reply::number(),
        Reply::redirect("/moved"),
        Reply::status("401 Unauthorized"),
        Reply::redirect(elsewhere.url("/metrics").as_str()),
        Reply::of("application/json", "{}"),
    ]);
    endpoint.script("/moved", [Reply::number()]);
    let with_secrets = |mut url: Url| {
        url.set_username("hunter").unwrap();
        url.set_password(Some("pass2word")).unwrap();
        explicit(url)
    };
    let unreachable = with_secrets(MetricsEndpoint::start().url("/metrics"));
    let endpoints = [with_secrets(endpoint.url("/metrics")), unreachable];
    let config = config(endpoints);
    let debugged = format!("{config:?}");
    let notes = Notes::default();
    let (collector, _, log) = start_with(config, notes.clone(), Level::TRACE);
    wait_until("warnings", || log.warnings().len() >= 3);
    let Collected { store, .. } = collector.finish(&Interrupt::never(), |_| false);
    let authorized = |path: &str| {
        let requests = endpoint.requests();
        let mut to_path = requests.iter().filter(|request| request.path == path);
        // `hunter:pass2word`
        to_path.all(|request| {
            request.headers.get("authorization").map(String::as_str)
                == Some("Basic aHVudGVyOnBhc3Myd29yZA==")
        })
    };
    assert!(authorized("/metrics") && authorized("/moved"));
    assert_eq!(endpoint.count("/moved"), 1, "a redirect that stays at home is followed");
    assert_eq!(elsewhere.requests().len(), 0, "another is not");
    assert_eq!(notes.all().len(), 2);
    let shown = [log.lines().join("\n"), debugged, format!("{store:?} {:?}", notes.all())];
    for text in shown {
        for secret in ["hunter", "pass2word", "aHVudGVyOnBhc3Myd29yZA"] {
            assert!(!text.contains(secret), "{secret} in {text}");
        }
    }
}

#[test]
fn the_scrape_at_a_phases_end_lies_between_the_phases() {
    let endpoint = MetricsEndpoint::with([Reply::number()]);
    let other = MetricsEndpoint::with([Reply::number()]);
    let run = start(config([explicit(endpoint.url("/metrics")), explicit(other.url("/metrics"))]));
    let warmup_began = run.begin(WARMUP);
    endpoint.wait_for(3);
    let (warmup_ended, free) = run.end(WARMUP);
    let began = run.begin(PROFILING);
    assert!(free <= began);
    endpoint.wait_for(3);
    let (ended, _) = run.end(PROFILING);
    let (clock, notes) = (run.clock, run.notes.clone());
    let Collected { windows, store, .. } = run.finish();
    let wall = |at| clock.wall_ns(at);
    let warmup = windows.warmup.unwrap();
    let profiling = windows.profiling.unwrap();
    assert_eq!((warmup.start_ns, profiling.start_ns), (wall(warmup_began), wall(began)));
    assert_eq!((warmup.end_ns, profiling.end_ns), (wall(warmup_ended), wall(ended)));
    for index in [0, 1] {
        let seen: Vec<Seen> = notes.all().into_iter().filter(|seen| seen.index == index).collect();
        let marked = |phase| seen.iter().filter(move |seen| seen.phase == phase);
        assert_eq!(seen[0].phase, None, "the baseline is of no phase");
        // The window of each phase ends with the first scrape that was sent after the end of the
        // phase. On a busy machine that may be a regular one, which was sent just before the final
        // one.
        for (phase, start, end) in [(WARMUP, warmup_began, warmup_ended), (PROFILING, began, ended)]
        {
            let after = |seen: &&Seen| seen.times.request_sent_ns >= wall(end);
            let last = seen.iter().find(after).unwrap();
            let span = store.endpoints()[index].span(&windows, phase.kind).unwrap();
            assert_eq!(store.endpoints()[index].scrapes()[span.last().unwrap()], last.times);
            assert_eq!(span.has_exact_end, is_near(&last.times, wall(end)), "{span:?}");
            let reference = store.endpoints()[index].scrapes()[span.reference.unwrap()];
            assert_eq!(span.has_exact_start, is_near(&reference, wall(start)), "{span:?}");
        }
        assert!(marked(Some(WARMUP)).all(|seen| seen.times.last_byte_ns <= wall(began)));
        assert!(marked(Some(PROFILING)).all(|seen| seen.times.first_byte_ns >= wall(began)));
        assert!(seen.is_sorted_by_key(|seen| seen.times.first_byte_ns));
        assert!(seen.iter().all(|seen| seen.priority == TIMELY), "{seen:?}");
        assert_eq!(store.endpoints()[index].scrapes().len(), seen.len());
    }
}

#[test]
fn equal_bodies_are_repeats_to_the_store_and_shown_as_such() {
    let [one, two] = ["a 1\n", "a 2\n"].map(Reply::text);
    let script = [one.clone(), one.clone(), two.clone().gzip(), two.clone(), one, two];
    let endpoint = MetricsEndpoint::with(script);
    let run = start(metrics_of(&endpoint));
    wait_until("scrapes", || run.notes.all().len() >= 8);
    let notes = run.notes.clone();
    let Collected { store, .. } = run.finish();
    let kept = &store.endpoints()[0];
    assert_eq!(kept.scrapes().len(), notes.all().len());
    assert_eq!(kept.updates(), [0, 2, 4, 5]);
    assert_eq!(values(&store, 0, "a")[..8], [1.0, 1.0, 2.0, 2.0, 1.0, 2.0, 2.0, 2.0]);
    let repeats: Vec<bool> = notes.all().iter().take(8).map(|seen| seen.is_duplicate).collect();
    assert_eq!(repeats, [false, true, false, true, false, false, true, true]);
}

#[test]
fn values_of_no_use_are_told_of_once() {
    let body = "# TYPE good gauge\ngood 1\n# TYPE bad gauge\nbad NaN\n";
    let endpoint = MetricsEndpoint::with([Reply::text(body)]);
    let run = start(metrics_of(&endpoint));
    endpoint.wait_for(3);
    let log = run.log.clone();
    let Collected { store, .. } = run.finish();
    assert!(values(&store, 0, "good").len() >= 3);
    let warnings = log.warnings();
    assert_eq!(warnings.len(), 1, "{warnings:?}");
    assert!(warnings[0].contains("`bad`"), "{}", warnings[0]);
}

#[test]
fn the_end_waits_for_the_servers_counts_and_no_longer() {
    let endpoint = MetricsEndpoint::with([Reply::number()]);
    let flush_period = Nanos::from_seconds(3600.0);
    let run = start(Config { flush_period, ..metrics_of(&endpoint) });
    run.begin(PROFILING);
    run.end(PROFILING);
    let settled = |store: &Store| values(store, 0, "served").last().copied() >= Some(20.0);
    let notes = run.notes.clone();
    let Collected { store, windows, .. } = run.collector.finish(&Interrupt::never(), settled);
    let served = values(&store, 0, "served");
    assert!(served.len() >= 20, "{served:?}");
    let span = store.endpoints()[0].span(&windows, PhaseKind::Profiling).unwrap();
    let late = &notes.all()[span.late];
    assert!(!late.is_empty() && late.iter().all(|seen| seen.phase.is_none()));
    // Once more, to observe that they have stopped.
    assert!(served.last() > Some(&20.0), "{served:?}");
}

#[test]
fn counts_that_are_settled_need_no_scrape_more() {
    let endpoint = MetricsEndpoint::with([Reply::number()]);
    let hour = Nanos::from_seconds(3600.0);
    let run = start(Config { flush_period: hour, interval: hour, ..metrics_of(&endpoint) });
    run.begin(PROFILING);
    run.end(PROFILING);
    run.collector
        .finish(&Interrupt::never(), |store| values(store, 0, "served").last() == Some(&2.0));
    assert_eq!(endpoint.count("/metrics"), 2);
}

#[test]
fn counts_that_never_settle_are_waited_for_as_long_as_asked() {
    let endpoint = MetricsEndpoint::with([Reply::number()]);
    let flush_period = Nanos::from_millis(100.0);
    let run = start(Config { flush_period, ..metrics_of(&endpoint) });
    run.begin(PROFILING);
    let (ended, _) = run.end(PROFILING);
    run.finish();
    assert!(Clock::now() >= ended + flush_period);
}

#[test]
fn a_phase_that_was_given_up_has_an_end_too() {
    let endpoint = MetricsEndpoint::with([Reply::number()]);
    let run = start(Config { interval: Nanos::from_seconds(3600.0), ..metrics_of(&endpoint) });
    run.begin(PROFILING);
    let notes = run.notes.clone();
    let Collected { windows, store, .. } = run.finish();
    let last = notes.all().pop().unwrap();
    assert_eq!(last.phase, Some(PROFILING));
    let span = store.endpoints()[0].span(&windows, PhaseKind::Profiling).unwrap();
    assert_eq!(store.endpoints()[0].scrapes()[span.last().unwrap()], last.times);
}

#[test]
fn where_nothing_is_scraped_there_is_nothing_to_wait_for() {
    let flush_period = Nanos::from_seconds(3600.0);
    let run = start(Config { flush_period, ..config([]) });
    run.begin(PROFILING);
    let (ended, _) = run.end(PROFILING);
    let clock = run.clock;
    let Collected { windows, sink, .. } = run.finish();
    assert!(sink.is_some());
    assert_eq!(windows.profiling.unwrap().end_ns, clock.wall_ns(ended));
}

#[test]
fn a_sink_that_hangs_keeps_nothing_but_itself() {
    let endpoint = MetricsEndpoint::with([Reply::number()]);
    let shutdown_delay = Nanos::from_millis(50.0);
    let scrape_timeout = Some(Nanos::from_millis(100.0));
    let [pause, slack] = [Nanos::from_millis(100.0); 2];
    let limits = Limits { pause, slack, ..LONG_LIMITS };
    let (release, held) = mpsc::channel();
    let config = Config { shutdown_delay, scrape_timeout, limits, ..metrics_of(&endpoint) };
    let (collector, clock, log) = start_with(config, HangingSink(held), Level::INFO);
    let run = Run { collector, clock, notes: Notes::default(), log: log.clone() };
    run.begin(PROFILING);
    run.end(PROFILING);
    let Collected { store, sink, .. } =
        tracing::subscriber::with_default(log.subscriber(Level::INFO), || run.finish());
    assert!(sink.is_none());
    assert_eq!(values(&store, 0, "served"), [1.0]);
    assert!(log.warnings().iter().any(|line| line.contains("not written within 0.05 s")));
    drop(release);
}

/// An interval of an hour, so that only phases cause scrapes.
fn hourly(endpoint: &MetricsEndpoint) -> Config {
    Config { interval: Nanos::from_seconds(3600.0), ..metrics_of(endpoint) }
}

#[test]
fn a_phase_lasts_until_a_final_scrape_that_is_kept_late() {
    let endpoint = MetricsEndpoint::with([Reply::number()]);
    let (release, held) = mpsc::channel();
    let config = Config {
        flush_period: LONG,
        limits: Limits { pause: Nanos::from_millis(500.0), ..LONG_LIMITS },
        ..hourly(&endpoint)
    };
    let (collector, clock, log) = start_with(config, HangingSink(held), Level::INFO);
    let run = Run { collector, clock, notes: Notes::default(), log };
    run.begin(PROFILING);
    run.end(PROFILING);
    drop(release);
    let all_kept = |store: &Store| store.endpoints()[0].scrapes().len() == 2;
    let Collected { store, windows, .. } = run.collector.finish(&Interrupt::never(), all_kept);
    let span = store.endpoints()[0].span(&windows, PhaseKind::Profiling).unwrap();
    assert_eq!(span.samples, 1..2);
    let ended = windows.profiling.unwrap().end_ns;
    assert_eq!(span.has_exact_end, is_near(&store.endpoints()[0].scrapes()[1], ended));
}

#[test]
fn an_answer_is_of_the_phase_that_it_begins_in() {
    let late = Reply::number().after(Duration::from_millis(500));
    let endpoint = MetricsEndpoint::with([Reply::number(), late]);
    let run = start(metrics_of(&endpoint));
    endpoint.wait_for(1);
    let began = run.clock.wall_ns(run.begin(PROFILING));
    wait_until("the late answer", || run.notes.all().len() > 1);
    let seen = &run.notes.all()[1];
    assert_eq!(seen.phase, (seen.times.first_byte_ns >= began).then_some(PROFILING));
    run.finish();
}

#[test]
fn the_wait_for_the_first_answers_can_be_given_up() {
    let endpoint = MetricsEndpoint::with([Reply::hang()]);
    let config = metrics_of(&endpoint);
    let connections = Connections::default();
    let interrupter = Interrupter::default();
    let interrupt = interrupter.interrupt();
    let collector = thread::scope(|scope| {
        scope.spawn(|| {
            wait_until("a request", || endpoint.count("/metrics") > 0);
            interrupter.signal();
        });
        Collector::start(config, &connections, Clock::start(), Notes::default(), &interrupt)
    });
    let Collected { store, sink, .. } = collector.unwrap().finish(&Interrupt::never(), |_| false);
    assert!(store.endpoints()[0].scrapes().is_empty() && sink.is_some());
}

/// Signals when it is idle.
struct IdleSink(mpsc::Sender<()>);

impl ScrapeSink for IdleSink {
    fn scrape(&mut self, _: &Scrape<'_>) {}

    fn idle(&mut self) {
        let _ = self.0.send(());
    }
}

#[test]
fn the_sink_is_told_that_no_scrape_comes() {
    let endpoint = MetricsEndpoint::with([Reply::number()]);
    let (sender, idle) = mpsc::channel();
    let (collector, ..) = start_with(hourly(&endpoint), IdleSink(sender), Level::INFO);
    assert_eq!(idle.recv(), Ok(()));
    collector.finish(&Interrupt::never(), |_| false);
}

#[test]
fn the_threads_end_with_the_collector_and_late_news_do_no_harm() {
    let endpoint = MetricsEndpoint::with([Reply::number()]);
    let run = start(metrics_of(&endpoint));
    let (handle, notes) = (run.collector.handle(), run.notes.clone());
    drop(run);
    wait_until("ends", || Arc::strong_count(&notes.0) == 1);
    handle.phase_started(0, PhaseKind::Profiling, Clock::now());
    let done = handle.phase_ended(0, PhaseKind::Profiling, Clock::now());
    assert!(done.blocking_recv().is_err());
}
