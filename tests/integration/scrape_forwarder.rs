//! The server metrics that a collector receives are those that the servers exposed.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::{Read as _, Write as _};
use std::net::TcpListener;
use std::path::PathBuf;
use std::time::Duration;

use base::environment::Environment;
use base::redact::Secret;
use measure::server_metrics::exposition::{Exposition, Format, Label, MetricType};
use measure::server_metrics::snapshot::Snapshot;
use measure::server_metrics::{Endpoint, FetchTimes, Scrape};
use opentelemetry_proto::tonic::common::v1::KeyValue;
use opentelemetry_proto::tonic::metrics::v1::metric::Data;
use opentelemetry_proto::tonic::metrics::v1::number_data_point::Value as Number;
use opentelemetry_proto::tonic::metrics::v1::{
    AggregationTemporality, HistogramDataPoint, Metric, NumberDataPoint, ResourceMetrics,
};
use prost::Message as _;
use rustix::net::sockopt::set_socket_linger;
use serde::Deserialize;
use serde_json::json;
use telemetry::{Config, RunTotals, ScrapesReport, Streams, Telemetry, TelemetryReport};
use uuid::Uuid;

use crate::support::metrics_endpoint::recorded;
use crate::support::otlp_receiver::{Answer, OtlpReceiver, attribute, tls_variables};
use crate::support::port::Refusing;
use crate::support::python::run_python;
use crate::support::run::is_of_grpc;
use crate::telemetry::{exporting_all, identity};

/// Long enough for any healthy collector on a loaded machine.
const TIMEOUT: Duration = Duration::from_mins(1);

/// Maximum size of a message for collectors.
const FOUR_MIB: usize = 4 * 1024 * 1024;

fn config(collector: &OtlpReceiver) -> Config {
    // The exporter's own exports must not interfere.
    Config { url: Some(Secret::new(collector.url())), interval_seconds: 3600.0, ..exporting_all() }
}

fn start(config: &Config, variables: &[(&str, &str)]) -> Telemetry {
    let found = |name: &str| {
        let pair = variables.iter().find(|(have, _)| *have == name);
        let is_protocol = name == "OTEL_EXPORTER_OTLP_PROTOCOL";
        let is_grpc =
            is_protocol && config.url.as_ref().is_some_and(|url| is_of_grpc(url.expose()));
        pair.map(|(_, value)| (*value).to_owned()).or_else(|| is_grpc.then(|| "grpc".to_owned()))
    };
    Telemetry::start_in(config, &identity(), &[], Environment::new(&found)).unwrap()
}

/// Starts with the receiver's protocol.
fn start_for(collector: &OtlpReceiver) -> Telemetry {
    let protocol = if collector.is_grpc() { "grpc" } else { "http/protobuf" };
    start(&config(collector), &[("OTEL_EXPORTER_OTLP_PROTOCOL", protocol)])
}

/// A line of a recorded series.
#[derive(Deserialize)]
struct Capture {
    url: String,
    first_byte_ns: u64,
    content_type: String,
    body: String,
}

impl Capture {
    fn exposition(&self) -> Exposition<'_> {
        let format = Format::of_content_type(&self.content_type);
        Exposition::parse(self.body.as_bytes(), format).unwrap()
    }

    fn show(&self, telemetry: &Telemetry, index: usize) {
        show(telemetry, &self.url, index, self.first_byte_ns, &self.exposition());
    }
}

pub(crate) fn show(
    telemetry: &Telemetry,
    url: &str,
    index: usize,
    time: u64,
    exposition: &Exposition<'_>,
) {
    telemetry.scrape(&Scrape {
        index,
        endpoint: &Endpoint { url: url.into() },
        times: FetchTimes { first_byte_ns: time, ..FetchTimes::default() },
        phase: None,
        is_duplicate: false,
        exposition,
        snapshot: &Snapshot::default(),
    });
}

const URL: &str = "http://127.0.0.1:8801/metrics";

/// Passes on one body, scraped at second 1,800,000,000.
fn show_text(telemetry: &Telemetry, text: &str, format: Format) {
    let exposition = Exposition::parse(text.as_bytes(), format).unwrap();
    show(telemetry, URL, 0, 1_800_000_000_000_000_000, &exposition);
}

/// Returns the exports of server metrics, by request.
fn received(collector: &OtlpReceiver) -> Vec<ResourceMetrics> {
    let all = collector.taken().into_iter().flat_map(|export| export.message.resource_metrics);
    all.filter(|of| resource(of, "service.name").as_deref() == Some("inference-server")).collect()
}

fn resource(of: &ResourceMetrics, key: &str) -> Option<String> {
    attribute(&of.resource.as_ref().unwrap().attributes, key)
}

fn metrics(of: &[ResourceMetrics]) -> Vec<&Metric> {
    let scopes = of.iter().flat_map(|resource| &resource.scope_metrics);
    scopes.flat_map(|scope| &scope.metrics).collect()
}

/// A line of an exposition: name, labels in order (bounds and quantiles as numbers), time in
/// nanoseconds.
type Line = (String, Vec<(String, String)>, u64);

/// Lines, with the bits of their values.
type Lines = BTreeMap<Line, u64>;

fn bits(value: f64) -> u64 {
    if value.is_nan() { f64::NAN.to_bits() } else { value.to_bits() }
}

fn number(text: &str) -> String {
    text.parse::<f64>().unwrap().to_string()
}

/// Parses the lines of an exposition, independently of the program.
fn exposed(exposition: &Exposition<'_>, time: u64, lines: &mut Lines) {
    for sample in &exposition.samples {
        let pair = |label: &Label<'_>| match &*label.name {
            by @ ("le" | "quantile") => (by.to_owned(), number(&label.value)),
            name => (name.to_owned(), label.value.to_string()),
        };
        let mut labels: Vec<_> = exposition.labels(sample).iter().map(pair).collect();
        labels.sort();
        let line = (sample.name.to_string(), labels, time);
        assert_eq!(lines.insert(line, bits(sample.value)), None);
    }
}

fn labels(attributes: &[KeyValue]) -> Vec<(String, String)> {
    let pair = |pair: &KeyValue| (pair.key.clone(), attribute(attributes, &pair.key).unwrap());
    let mut labels: Vec<_> = attributes.iter().map(pair).collect();
    labels.sort();
    labels
}

fn value(point: &NumberDataPoint) -> f64 {
    let Some(Number::AsDouble(value)) = point.value else { panic!("{point:?}") };
    value
}

/// Returns upper bounds with cumulative counts, as in an exposition.
fn cumulative(point: &HistogramDataPoint) -> Vec<(f64, u64)> {
    assert_eq!(point.bucket_counts.len(), point.explicit_bounds.len() + 1);
    let bounds = point.explicit_bounds.iter().copied().chain([f64::INFINITY]);
    let mut up_to = 0;
    let count = |count: &u64| {
        up_to += count;
        up_to
    };
    bounds.zip(point.bucket_counts.iter().map(count)).collect()
}

/// Converts a metric back to its lines.
fn reverted(metric: &Metric, lines: &mut Lines) {
    let name = &metric.name;
    let mut add = |suffix: &str, attributes: &[KeyValue], by: Option<(&str, f64)>, time, value| {
        let mut labels = labels(attributes);
        labels.extend(by.map(|(by, place)| (by.to_owned(), place.to_string())));
        labels.sort();
        let line = (format!("{name}{suffix}"), labels, time);
        assert_eq!(lines.insert(line, bits(value)), None);
    };
    match metric.data.as_ref().unwrap() {
        Data::Gauge(gauge) => gauge.data_points.iter().for_each(|point| {
            add("", &point.attributes, None, point.time_unix_nano, value(point));
        }),
        Data::Sum(sum) => sum.data_points.iter().for_each(|point| {
            add("", &point.attributes, None, point.time_unix_nano, value(point));
        }),
        Data::Histogram(histogram) => histogram.data_points.iter().for_each(|point| {
            let (of, time) = (&point.attributes, point.time_unix_nano);
            for (bound, count) in cumulative(point) {
                add("_bucket", of, Some(("le", bound)), time, count as f64);
            }
            add("_sum", of, None, time, point.sum.unwrap());
            add("_count", of, None, time, point.count as f64);
        }),
        Data::Summary(summary) => summary.data_points.iter().for_each(|point| {
            let (of, time) = (&point.attributes, point.time_unix_nano);
            for at in &point.quantile_values {
                add("", of, Some(("quantile", at.quantile)), time, at.value);
            }
            add("_sum", of, None, time, point.sum);
            add("_count", of, None, time, point.count as f64);
        }),
        Data::ExponentialHistogram(_) => panic!("{name} is exponential"),
    }
}

/// Checks type, temporality, description and metadata against the family.
fn assert_is_of_family(metric: &Metric, exposition: &Exposition<'_>) {
    let cumulative = AggregationTemporality::Cumulative;
    let family = exposition.families.iter().find(|family| family.name == metric.name).unwrap();
    let is_right = match metric.data.as_ref().unwrap() {
        Data::Gauge(_) => {
            matches!(family.metric_type, MetricType::Gauge | MetricType::Unknown)
        }
        Data::Sum(sum) => {
            assert_eq!(sum.aggregation_temporality(), cumulative);
            sum.is_monotonic && family.metric_type == MetricType::Counter
        }
        Data::Histogram(histogram) => {
            assert_eq!(histogram.aggregation_temporality(), cumulative);
            family.metric_type == MetricType::Histogram
        }
        Data::Summary(_) => family.metric_type == MetricType::Summary,
        Data::ExponentialHistogram(_) => false,
    };
    assert!(is_right, "{metric:?} of {family:?}");
    assert_eq!(metric.description, family.help.as_deref().unwrap_or_default());
    let said = attribute(&metric.metadata, "prometheus.type");
    assert_eq!(said.as_deref(), Some(family.metric_type.as_str()));
}

fn assert_all_forwarded(report: &TelemetryReport, scrapes: usize) -> ScrapesReport {
    let forwarded = report.scrapes.clone().unwrap();
    assert_eq!(forwarded.scrapes_forwarded, scrapes as u64, "{report:?}");
    assert_eq!((forwarded.scrapes_dropped, forwarded.points_dropped), (0, 0));
    assert_eq!((forwarded.points_rejected, forwarded.points_inexpressible), (0, 0));
    assert_eq!(forwarded.requests_failed, 0);
    assert!(forwarded.delivered_final);
    forwarded
}

/// Forwards a recorded series and compares every line with the exports.
fn forward(name: &str, collector: &OtlpReceiver, gzip: bool) -> Vec<ResourceMetrics> {
    let protocol = if collector.is_grpc() { "grpc" } else { "http/protobuf" };
    let compression = if gzip { "gzip" } else { "none" };
    let variables = [
        ("OTEL_EXPORTER_OTLP_PROTOCOL", protocol),
        ("OTEL_EXPORTER_OTLP_COMPRESSION", compression),
    ];
    let telemetry = start(&config(collector), &variables);
    let captures: Vec<Capture> = recorded(name);
    for capture in &captures {
        capture.show(&telemetry, 0);
    }
    let report =
        assert_all_forwarded(&telemetry.finish(&RunTotals::default(), TIMEOUT), captures.len());

    let received = received(collector);
    let (mut expected, mut got) = (Lines::new(), Lines::new());
    for capture in &captures {
        exposed(&capture.exposition(), capture.first_byte_ns, &mut expected);
    }
    let last = captures.last().unwrap().exposition();
    for metric in metrics(&received) {
        assert_is_of_family(metric, &last);
        reverted(metric, &mut got);
    }
    assert_eq!(got.len(), expected.len());
    for (line, value) in &expected {
        assert_eq!(got.get(line), Some(value), "{line:?}");
    }
    let points: usize = metrics(&received).iter().map(|metric| points(metric)).sum();
    assert_eq!(report.points_forwarded, points as u64);
    received
}

fn points(metric: &Metric) -> usize {
    match metric.data.as_ref().unwrap() {
        Data::Gauge(of) => of.data_points.len(),
        Data::Sum(of) => of.data_points.len(),
        Data::Histogram(of) => of.data_points.len(),
        Data::Summary(of) => of.data_points.len(),
        Data::ExponentialHistogram(of) => of.data_points.len(),
    }
}

#[test]
fn a_grpc_collector_has_every_line_of_vllm() {
    let collector = OtlpReceiver::grpc();
    let received = forward("vllm/scrapes", &collector, true);
    let names: Vec<_> = metrics(&received).iter().map(|metric| metric.name.as_str()).collect();
    for name in ["vllm:generation_tokens_total", "vllm:time_to_first_token_seconds"] {
        assert!(names.contains(&name), "{name}");
    }
    let with = |key| resource(&received[0], key);
    assert_eq!(with("service.instance.id").as_deref(), Some("127.0.0.1:8801"));
    assert_eq!(with("server.address").as_deref(), Some("127.0.0.1"));
    assert_eq!(with("server.port").as_deref(), Some("8801"));
    assert_eq!(with("url.scheme").as_deref(), Some("http"));
    assert_eq!(with("aiperf.benchmark.id"), Some(Uuid::from_u128(7).to_string()));
    let scope = received[0].scope_metrics[0].scope.as_ref().unwrap();
    assert_eq!(
        (scope.name.as_str(), scope.version.as_str()),
        ("aiperf", env!("CARGO_PKG_VERSION"))
    );
    // The server's gauges next to its counters contain their start times.
    let started = metrics(&received).into_iter().find_map(|metric| match &metric.data {
        Some(Data::Sum(sum)) if metric.name == "vllm:estimated_flops_per_gpu_total" => {
            Some(sum.data_points[0].start_time_unix_nano)
        }
        _ => None,
    });
    assert_eq!(started, Some(1_795_226_384_683_827_000));
}

#[test]
fn an_http_collector_has_every_line_of_dynamo() {
    for name in ["dynamo/scrapes_frontend", "dynamo/scrapes_worker"] {
        forward(name, &OtlpReceiver::http(), true);
    }
}

#[test]
fn an_http_collector_has_every_line_of_llama_cpp() {
    forward("llamacpp/scrapes", &OtlpReceiver::http(), false);
}

/// Converts a data point for the checker, with the counts of histograms as exported, not
/// cumulative.
fn described(metric: &Metric) -> Vec<serde_json::Value> {
    let (name, help) = (&metric.name, &metric.description);
    let of = |point: &NumberDataPoint, kind: &str| {
        json!({
            "name": name, "help": help, "kind": kind, "labels": labels(&point.attributes),
            "time": point.time_unix_nano, "value": value(point).to_string(),
        })
    };
    match metric.data.as_ref().unwrap() {
        Data::Gauge(gauge) => gauge.data_points.iter().map(|point| of(point, "gauge")).collect(),
        Data::Sum(sum) => {
            let kind = if sum.is_monotonic { "counter" } else { "updowncounter" };
            sum.data_points.iter().map(|point| of(point, kind)).collect()
        }
        Data::Histogram(histogram) => {
            let of = |point: &HistogramDataPoint| {
                json!({
                    "name": name, "help": help, "kind": "histogram",
                    "labels": labels(&point.attributes), "time": point.time_unix_nano,
                    "bounds": point.explicit_bounds, "counts": point.bucket_counts,
                    "sum": point.sum, "count": point.count,
                })
            };
            histogram.data_points.iter().map(of).collect()
        }
        Data::Summary(summary) => {
            let points = summary.data_points.iter().map(|point| {
                let quantiles = point.quantile_values.iter();
                let quantiles: Vec<_> =
                    quantiles.map(|at| (at.quantile, at.value.to_string())).collect();
                json!({
                    "name": name, "help": help, "kind": "summary",
                    "labels": labels(&point.attributes), "time": point.time_unix_nano,
                    "quantiles": quantiles, "sum": point.sum, "count": point.count,
                })
            });
            points.collect()
        }
        Data::ExponentialHistogram(_) => panic!("{name} is exponential"),
    }
}

/// The same comparison by Prometheus' own parser, for every tenth scrape.
#[test]
fn the_points_are_what_prometheus_reads() {
    let directory = tempfile::tempdir().unwrap();
    let series = ["vllm/scrapes", "dynamo/scrapes_frontend", "dynamo/scrapes_worker"];
    for (number, name) in series.iter().chain(&["llamacpp/scrapes"]).enumerate() {
        let captures: Vec<Capture> = recorded(name);
        let collector = OtlpReceiver::grpc();
        let telemetry = start_for(&collector);
        let path = |what| -> PathBuf { directory.path().join(format!("{number}.{what}.jsonl")) };
        let mut bodies = File::create(path("bodies")).unwrap();
        let shown: Vec<_> = captures.iter().rev().step_by(10).collect();
        for capture in &shown {
            capture.show(&telemetry, 0);
            let line = json!({ "time": capture.first_byte_ns, "body": capture.body });
            writeln!(bodies, "{line}").unwrap();
        }
        assert_all_forwarded(&telemetry.finish(&RunTotals::default(), TIMEOUT), shown.len());
        let mut points = File::create(path("points")).unwrap();
        for point in metrics(&received(&collector)).into_iter().flat_map(described) {
            writeln!(points, "{point}").unwrap();
        }
    }
    run_python("tests/check_forwarded_scrapes.py", directory.path());
}

#[test]
fn a_scrape_above_4_mib_goes_in_pieces() {
    use std::fmt::Write as _;
    let collector = OtlpReceiver::grpc();
    let telemetry = start_for(&collector);
    // About 20 MB: one family that does not fit into a request, and many small ones.
    let padding = "x".repeat(150);
    let mut text = "# TYPE large gauge\n".to_owned();
    for n in 0..60_000 {
        writeln!(text, "large{{n=\"{n}\",padding=\"{padding}\"}} {n}").unwrap();
    }
    for family in 0..5_000 {
        writeln!(text, "# HELP small_{family}_total {padding}").unwrap();
        writeln!(text, "# TYPE small_{family}_total counter").unwrap();
        for n in 0..8 {
            writeln!(text, "small_{family}_total{{n=\"{n}\",padding=\"{padding}\"}} {n}").unwrap();
        }
    }
    assert!(text.len() > 18_000_000, "{}", text.len());
    show_text(&telemetry, &text, Format::Text);
    let report = assert_all_forwarded(&telemetry.finish(&RunTotals::default(), TIMEOUT), 1);
    assert_eq!(report.points_forwarded, 100_000);

    let requests: Vec<_> = collector.taken().into_iter().map(|export| export.message).collect();
    assert!(requests.iter().all(|request| request.encoded_len() < FOUR_MIB));
    assert!((5..40).contains(&report.requests_ok), "{report:?}");
    let received = received(&collector);
    let mut got = Lines::new();
    for metric in metrics(&received) {
        reverted(metric, &mut got);
    }
    let mut expected = Lines::new();
    let exposition = Exposition::parse(text.as_bytes(), Format::Text).unwrap();
    exposed(&exposition, 1_800_000_000_000_000_000, &mut expected);
    assert!(got == expected);
}

#[test]
fn the_oldest_scrapes_fall_out_of_a_full_queue() {
    // The first request is retried repeatedly; meanwhile the queue fills up.
    let collector = OtlpReceiver::grpc().always(Answer::Unavailable);
    let telemetry = start_for(&collector);
    let show = |n: u64| {
        let text = format!("n {n}\n");
        let exposition = Exposition::parse(text.as_bytes(), Format::Text).unwrap();
        show(&telemetry, URL, 0, 1_800_000_000_000_000_000 + n, &exposition);
    };
    show(0);
    collector.wait_for_exports(1);
    // 10,000 may wait.
    (1..=10_050).for_each(show);
    collector.now(Answer::Take);
    let report = telemetry.finish(&RunTotals::default(), TIMEOUT).scrapes.unwrap();
    assert_eq!((report.scrapes_forwarded, report.scrapes_dropped), (10_001, 50));
    assert_eq!((report.points_forwarded, report.points_dropped), (10_001, 50));
    assert!(report.delivered_final, "{report:?}");

    let received = received(&collector);
    let mut values: Vec<_> = metrics(&received)
        .into_iter()
        .map(|metric| match &metric.data {
            Some(Data::Gauge(gauge)) => value(&gauge.data_points[0]),
            other => panic!("{other:?}"),
        })
        .collect();
    values.sort_by(f64::total_cmp);
    let expected: Vec<_> = [0].into_iter().chain(51..=10_050).map(f64::from).collect();
    assert_eq!(values, expected);
    // Waiting scrapes were sent in a few requests, not one by one.
    assert!(report.requests_ok < 100, "{report:?}");
}

#[test]
fn a_collector_that_hangs_is_given_up_at_the_deadline() {
    for collector in [OtlpReceiver::grpc(), OtlpReceiver::http()] {
        let collector = collector.always(Answer::Hang);
        let protocol = if collector.is_grpc() { "grpc" } else { "http/protobuf" };
        // Far beyond the deadline: the test only ends if the forwarder gives up.
        let config = Config { timeout_seconds: 3600.0, ..config(&collector) };
        let telemetry = start(&config, &[("OTEL_EXPORTER_OTLP_PROTOCOL", protocol)]);
        show_text(&telemetry, "a 1\nb 2\n", Format::Text);
        collector.wait_for_exports(1);
        show_text(&telemetry, "a 1\n", Format::Text);
        let report =
            telemetry.finish(&RunTotals::default(), Duration::from_millis(200)).scrapes.unwrap();
        assert_eq!((report.scrapes_forwarded, report.scrapes_dropped), (0, 2));
        assert_eq!((report.points_forwarded, report.points_dropped), (0, 3));
        assert!(!report.delivered_final);
    }
}

#[test]
fn no_collector_at_the_address_fails_nothing() {
    let refusing = Refusing::new();
    for url in [refusing.url(), format!("{}/v1/metrics", refusing.url())] {
        let telemetry = start(&Config { url: Some(Secret::new(url)), ..exporting_all() }, &[]);
        show_text(&telemetry, "a 1\n", Format::Text);
        let report = telemetry.finish(&RunTotals::default(), TIMEOUT).scrapes.unwrap();
        let expected = ScrapesReport {
            scrapes_dropped: 1,
            points_dropped: 1,
            requests_failed: 1,
            ..ScrapesReport::default()
        };
        assert_eq!(report, expected);
    }
}

#[test]
fn what_may_pass_is_tried_again_and_what_may_not_is_not() {
    for collector in [OtlpReceiver::grpc(), OtlpReceiver::http()] {
        // The first request is rejected permanently, the second temporarily.
        let collector = collector.first([Answer::Refuse, Answer::Unavailable, Answer::Unavailable]);
        let telemetry = start_for(&collector);
        show_text(&telemetry, "refused 1\n", Format::Text);
        collector.wait_for_exports(1);
        show_text(&telemetry, "taken 1\n", Format::Text);
        collector.wait_for_exports(4);
        let report = telemetry.finish(&RunTotals::default(), TIMEOUT).scrapes.unwrap();
        assert_eq!((report.requests_ok, report.requests_failed), (1, 1));
        assert_eq!((report.scrapes_forwarded, report.scrapes_dropped), (1, 1));
        assert!(report.delivered_final);
        let received = received(&collector);
        let names: Vec<_> = metrics(&received).iter().map(|metric| metric.name.clone()).collect();
        assert_eq!(names, ["taken"]);
    }
}

/// Accepts a connection, and resets it as soon as a request has started on it.
fn reset_a_request(listener: &TcpListener) {
    const PREFACE: usize = 24;
    const HEADERS: u8 = 1;
    let (mut stream, _) = listener.accept().unwrap();
    let mut frame = [0; 9];
    stream.read_exact(&mut [0; PREFACE]).unwrap();
    while frame[3] != HEADERS {
        stream.read_exact(&mut frame).unwrap();
        let length = u32::from_be_bytes([0, frame[0], frame[1], frame[2]]);
        stream.read_exact(&mut vec![0; length as usize]).unwrap();
    }
    set_socket_linger(&stream, Some(Duration::ZERO)).unwrap();
}

#[test]
fn what_a_broken_connection_took_along_is_sent_again() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    let config = Config { url: Some(Secret::new(format!("http://{address}"))), ..exporting_all() };
    let telemetry = start(&config, &[]);
    show_text(&telemetry, "a 1\n", Format::Text);
    reset_a_request(&listener);
    let collector = OtlpReceiver::grpc_on(listener);
    collector.wait_for_exports(1);
    let report = telemetry.finish(&RunTotals::default(), TIMEOUT).scrapes.unwrap();
    assert_eq!((report.scrapes_forwarded, report.scrapes_dropped), (1, 0), "{report:?}");
    assert_eq!((report.requests_ok, report.requests_failed), (1, 0));
    assert!(report.delivered_final);
}

#[test]
fn rejected_points_are_counted() {
    for collector in [OtlpReceiver::grpc(), OtlpReceiver::http()] {
        let collector = collector.always(Answer::Reject(2));
        let telemetry = start_for(&collector);
        show_text(&telemetry, "a 1\nb 2\nc 3\n", Format::Text);
        let report = telemetry.finish(&RunTotals::default(), TIMEOUT).scrapes.unwrap();
        assert_eq!((report.points_forwarded, report.points_rejected), (1, 2));
        assert_eq!((report.requests_ok, report.points_dropped), (1, 0));
    }
}

#[test]
fn tls_and_headers_are_those_of_the_exporter() {
    let collector = OtlpReceiver::grpc_tls();
    let files = tls_variables();
    let files = files.iter().map(|(k, v)| (*k, v.as_str()));
    let variables: Vec<_> =
        files.chain([("OTEL_EXPORTER_OTLP_HEADERS", "x-key=hunter2")]).collect();
    let url = format!("https://localhost:{}", collector.address().port());
    let telemetry =
        start(&Config { url: Some(Secret::new(url)), ..config(&collector) }, &variables);
    show_text(&telemetry, "a 1\n", Format::Text);
    let report = telemetry.finish(&RunTotals::default(), TIMEOUT);
    assert_all_forwarded(&report, 1);
    assert!(!format!("{report:?}").contains("hunter2"));
    let of_scrape = |export: &&crate::support::otlp_receiver::Export| {
        metrics(&export.message.resource_metrics).iter().any(|metric| metric.name == "a")
    };
    let taken = collector.taken();
    let export = taken.iter().find(of_scrape).unwrap();
    assert_eq!(export.header("x-key"), Some("hunter2"));
}

#[test]
fn the_users_attributes_are_on_the_servers_resource_but_not_the_clients_name() {
    let collector = OtlpReceiver::grpc();
    let attributes = [("team", "a b"), ("service.name", "bench"), ("server.port", "1")];
    let attributes = attributes.map(|(key, value)| (key.to_owned(), value.to_owned()));
    let config = Config { resource_attributes: attributes.to_vec(), ..config(&collector) };
    let telemetry = start(&config, &[("OTEL_SERVICE_NAME", "bench")]);
    show_text(&telemetry, "a 1\n", Format::Text);
    assert_all_forwarded(&telemetry.finish(&RunTotals::default(), TIMEOUT), 1);
    let received = received(&collector);
    assert_eq!(resource(&received[0], "team").as_deref(), Some("a b"));
    assert_eq!(resource(&received[0], "server.port").as_deref(), Some("8801"));
}

#[test]
fn scrapes_go_with_the_stream_of_metrics() {
    let collector = OtlpReceiver::grpc();
    let streams = Streams { metrics: false, timing: true };
    let telemetry = start(&Config { streams, ..config(&collector) }, &[]);
    show_text(&telemetry, "a 1\n", Format::Text);
    assert_eq!(telemetry.finish(&RunTotals::default(), TIMEOUT).scrapes, None);
    assert!(received(&collector).is_empty());
}

#[test]
fn without_a_collector_or_a_scrape_nothing_is_reported() {
    let telemetry = start(&Config::default(), &[]);
    show_text(&telemetry, "a 1\n", Format::Text);
    assert_eq!(telemetry.finish(&RunTotals::default(), TIMEOUT).scrapes, None);
    let collector = OtlpReceiver::grpc();
    let report = start_for(&collector).finish(&RunTotals::default(), TIMEOUT);
    assert_eq!(report.scrapes, None);
    assert!(!serde_json::to_string(&report).unwrap().contains("scrapes"));
}
