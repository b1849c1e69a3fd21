//! The exporter of `opentelemetry-otlp` as an oracle: it reads the same variables from its environment,
//! and its requests to a collector have the same path, headers, compression and temporality as ours.
//!
//! It exports metrics over HTTP, as it does without a protocol. What it reads differently is listed.

use std::collections::{BTreeMap, BTreeSet};
use std::process::Command;
use std::time::Duration;

use ::telemetry::Telemetry;
use base::environment::Environment;
use opentelemetry::metrics::MeterProvider as _;
use opentelemetry_otlp::MetricExporter;
use opentelemetry_proto::tonic::metrics::v1::AggregationTemporality;
use opentelemetry_proto::tonic::metrics::v1::metric::Data;
use opentelemetry_sdk::metrics::{PeriodicReader, SdkMeterProvider};

use super::{TIMEOUT, assert_delivered, catalogue, config, identity, record_four, snapshot, start};
use crate::support::otlp_receiver::OtlpReceiver;

/// Set in the process whose environment the stock exporter reads.
const IN_CHILD: &str = "STOCK_EXPORTER";

const ENDPOINT: &str = "OTEL_EXPORTER_OTLP_ENDPOINT";
const METRICS_ENDPOINT: &str = "OTEL_EXPORTER_OTLP_METRICS_ENDPOINT";
const PROTOCOL: &str = "OTEL_EXPORTER_OTLP_PROTOCOL";
const METRICS_PROTOCOL: &str = "OTEL_EXPORTER_OTLP_METRICS_PROTOCOL";
const HEADERS: &str = "OTEL_EXPORTER_OTLP_HEADERS";
const METRICS_HEADERS: &str = "OTEL_EXPORTER_OTLP_METRICS_HEADERS";
const COMPRESSION: &str = "OTEL_EXPORTER_OTLP_COMPRESSION";
const METRICS_COMPRESSION: &str = "OTEL_EXPORTER_OTLP_METRICS_COMPRESSION";
const TIMEOUT_MS: &str = "OTEL_EXPORTER_OTLP_TIMEOUT";
const TEMPORALITY: &str = "OTEL_EXPORTER_OTLP_METRICS_TEMPORALITY_PREFERENCE";
const AGGREGATION: &str = "OTEL_EXPORTER_OTLP_METRICS_DEFAULT_HISTOGRAM_AGGREGATION";
const CERTIFICATE: &str = "OTEL_EXPORTER_OTLP_CERTIFICATE";

/// Variables with their values, in which `URL` stands for that of the collector.
type Settings = &'static [(&'static str, &'static str)];

/// A fact with its value in the stock exporter's requests and in ours.
type Difference = (&'static str, &'static str, &'static str);

/// Settings that both apply alike.
const ALIKE: &[Settings] = &[
    &[(ENDPOINT, "URL")],
    &[(ENDPOINT, "URL/")],
    &[(ENDPOINT, "URL/base")],
    &[(ENDPOINT, "URL/base/")],
    &[(METRICS_ENDPOINT, "URL/v1/metrics")],
    &[(METRICS_ENDPOINT, "URL/base/v1/metrics")],
    &[(ENDPOINT, "http://127.0.0.1:9"), (METRICS_ENDPOINT, "URL/v1/metrics")],
    &[(ENDPOINT, "URL"), (METRICS_ENDPOINT, "")],
    &[(ENDPOINT, "URL"), (PROTOCOL, "http/protobuf")],
    &[(ENDPOINT, "URL"), (PROTOCOL, "grpc"), (METRICS_PROTOCOL, "HTTP/protobuf")],
    &[(ENDPOINT, "URL"), (PROTOCOL, "")],
    &[(ENDPOINT, "URL"), (HEADERS, "x-key=a%20b, X-Other = c=d,")],
    &[(ENDPOINT, "URL"), (HEADERS, "x-key=first,x-key=50%")],
    &[(ENDPOINT, "URL"), (HEADERS, "x-key=all,x-other=all"), (METRICS_HEADERS, "x-key=metrics")],
    &[(ENDPOINT, "URL"), (COMPRESSION, "gzip")],
    &[(ENDPOINT, "URL"), (COMPRESSION, "GZIP"), (METRICS_COMPRESSION, "")],
    &[(ENDPOINT, "URL"), (COMPRESSION, "gzip"), (METRICS_COMPRESSION, "none")],
    &[(ENDPOINT, "URL"), (METRICS_COMPRESSION, "gzip")],
    &[(ENDPOINT, "URL"), (TIMEOUT_MS, "20000")],
    &[(ENDPOINT, "URL"), (TEMPORALITY, "cumulative")],
    &[(ENDPOINT, "URL"), (TEMPORALITY, "delta")],
    &[(ENDPOINT, "URL"), (TEMPORALITY, "LowMemory")],
    &[(ENDPOINT, "URL"), (TEMPORALITY, "")],
];

/// Settings that both apply, with the known differences.
const DIFFERENT: &[(Settings, &[Difference])] = &[
    (&[(ENDPOINT, "URL"), (HEADERS, "x-key=,x-other=c")], &[("x-key", "-", "")]),
    (&[(ENDPOINT, "URL"), (HEADERS, "x-key=a"), (METRICS_HEADERS, "")], &[("x-key", "-", "a")]),
    (&[(ENDPOINT, "URL"), (COMPRESSION, " gzip ")], &[("content-encoding", "-", "gzip")]),
    (
        &[(ENDPOINT, "URL"), (AGGREGATION, "base2_exponential_bucket_histogram")],
        &[("histograms", "cumulative", "-"), ("exponential histograms", "-", "cumulative")],
    ),
];

/// Settings, in addition to the endpoint, that the stock exporter ignores; ours refuses them.
const REFUSED: &[(&str, &str)] = &[
    (PROTOCOL, "http"),
    (HEADERS, "x-key"),
    (HEADERS, "x key=a"),
    (COMPRESSION, "brotli"),
    (TIMEOUT_MS, "soon"),
    (TEMPORALITY, "sometimes"),
    (AGGREGATION, "sometimes"),
    (CERTIFICATE, "missing.pem"),
];

#[test]
fn the_stock_exporter_applies_the_same_settings() {
    let alike = ALIKE.iter().map(|settings| (*settings, &[][..]));
    for (settings, known) in alike.chain(DIFFERENT.iter().copied()) {
        let (stock, ours) = (sent_by_stock(settings), sent_by_ours(settings));
        let agent = ("user-agent", "OTel-OTLP-Exporter-Rust", "aiperf");
        let expected: BTreeSet<_> = known.iter().copied().chain([agent]).collect();
        assert_eq!(differences(&stock, &ours), expected, "{settings:?}: {stock:?}, {ours:?}");
    }
}

#[test]
fn the_stock_exporter_ignores_what_ours_refuses() {
    let plain = sent_by_stock(&[(ENDPOINT, "URL")]);
    for (name, value) in REFUSED {
        let settings = [(ENDPOINT, "URL"), (*name, *value)];
        assert_eq!(sent_by_stock(&settings), plain, "{name}={value}");
        let settings = [(ENDPOINT, "http://127.0.0.1:9"), (*name, *value)];
        let found = |wanted: &str| {
            settings.iter().find(|(name, _)| *name == wanted).map(|(_, value)| (*value).to_owned())
        };
        let started =
            Telemetry::start_in(&config(None), &identity(), &catalogue(), Environment::new(&found));
        let refused = started.err().unwrap().to_string();
        assert!(refused.contains(name), "{name}={value}: {refused}");
    }
}

/// What requests to a collector contain: headers, the path as `:path`, and temporalities by kind of
/// metric.
type Facts = BTreeMap<&'static str, String>;

/// Returns what the stock exporter sends with these settings.
fn sent_by_stock(settings: &[(&'static str, &str)]) -> Facts {
    let collector = OtlpReceiver::http();
    let mut child = Command::new(std::env::current_exe().unwrap());
    child.args(["--exact", "telemetry::stock_exporter::a_child_sends_an_export"]);
    for (name, _) in std::env::vars_os() {
        if name.to_string_lossy().starts_with("OTEL_") {
            child.env_remove(name);
        }
    }
    let output = child.envs(at(settings, &collector)).env(IN_CHILD, "1").output().unwrap();
    assert!(output.status.success(), "{settings:?}: {output:?}");
    facts(&collector)
}

/// Returns what our exporter sends with these settings.
fn sent_by_ours(settings: &[(&'static str, &str)]) -> Facts {
    let collector = OtlpReceiver::http();
    let variables = at(settings, &collector);
    let variables: Vec<_> = variables.iter().map(|(name, value)| (*name, &**value)).collect();
    let run = start(&config(None), &variables);
    record_four(&run);
    run.phase(&snapshot(4, 1, 0.5));
    assert_delivered(&run.finish(TIMEOUT));
    facts(&collector)
}

/// Returns the settings for this collector.
fn at(settings: &[(&'static str, &str)], collector: &OtlpReceiver) -> Vec<(&'static str, String)> {
    settings.iter().map(|(name, value)| (*name, value.replace("URL", &collector.url()))).collect()
}

/// Returns what the collector has received.
fn facts(collector: &OtlpReceiver) -> Facts {
    let exports = collector.taken();
    let mut facts = Facts::new();
    for name in [":path", "content-type", "content-encoding", "x-key", "x-other"] {
        if let Some(value) = exports[0].header(name) {
            facts.insert(name, value.to_owned());
        }
    }
    let agent = exports[0].header("user-agent").unwrap();
    facts.insert("user-agent", agent.split('/').next().unwrap().to_owned());
    let resources = exports.iter().flat_map(|export| &export.message.resource_metrics);
    for metric in resources.flat_map(|resource| &resource.scope_metrics).flat_map(|it| &it.metrics)
    {
        let (name, temporality) = match metric.data.as_ref().unwrap() {
            Data::Sum(sum) if sum.is_monotonic => ("counters", sum.aggregation_temporality()),
            Data::Sum(sum) => ("up-down counters", sum.aggregation_temporality()),
            Data::Histogram(histogram) => ("histograms", histogram.aggregation_temporality()),
            Data::ExponentialHistogram(histogram) => {
                ("exponential histograms", histogram.aggregation_temporality())
            }
            Data::Gauge(_) | Data::Summary(_) => continue,
        };
        let temporality = match temporality {
            AggregationTemporality::Cumulative => "cumulative",
            AggregationTemporality::Delta => "delta",
            AggregationTemporality::Unspecified => "unspecified",
        };
        let before = facts.insert(name, temporality.to_owned());
        assert!(
            before.is_none_or(|before| before == temporality),
            "{}: {temporality}",
            metric.name
        );
    }
    facts
}

/// Returns the facts whose values differ; a missing value is `-`.
fn differences<'f>(stock: &'f Facts, ours: &'f Facts) -> BTreeSet<(&'f str, &'f str, &'f str)> {
    let value = |facts: &'f Facts, name| facts.get(name).map_or("-", String::as_str);
    let names = stock.keys().chain(ours.keys());
    let pairs = names.map(|name| (*name, value(stock, name), value(ours, name)));
    pairs.filter(|(_, stock, ours)| stock != ours).collect()
}

/// Does nothing unless a comparison has started this process.
#[test]
fn a_child_sends_an_export() {
    if std::env::var_os(IN_CHILD).is_none() {
        return;
    }
    let _ = tokio_rustls::rustls::crypto::ring::default_provider().install_default();
    let exporter = MetricExporter::builder().build().unwrap();
    let reader = PeriodicReader::builder(exporter).with_interval(Duration::from_hours(1)).build();
    let provider = SdkMeterProvider::builder().with_reader(reader).build();
    let meter = provider.meter("stock");
    meter.u64_counter("counter").build().add(1, &[]);
    meter.i64_up_down_counter("up_down_counter").build().add(1, &[]);
    meter.f64_histogram("histogram").build().record(1.0, &[]);
    provider.shutdown().unwrap();
}
