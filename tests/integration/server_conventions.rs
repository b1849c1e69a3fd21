//! Latencies of servers are also exported under the names of the GenAI conventions if this is asked
//! for.

use std::collections::BTreeMap;
use std::time::Duration;

use base::environment::Environment;
use base::redact::Secret;
use measure::server_metrics::exposition::{Exposition, Format};
use opentelemetry_proto::tonic::metrics::v1::HistogramDataPoint;
use opentelemetry_proto::tonic::metrics::v1::metric::Data;
use telemetry::{Config, RunTotals, Telemetry};

use crate::scrape_forwarder::show;
use crate::support::otlp_receiver::{OtlpReceiver, attribute};
use crate::support::run::is_of_grpc;
use crate::telemetry::{exporting_all, identity};

const TIMEOUT: Duration = Duration::from_mins(1);

/// A histogram of a server with two requests of 0.25 s and one of 3 s.
fn exposed(name: &str, labels: &str) -> String {
    let line =
        |part: &str, more: &str, value: &str| format!("{name}_{part}{{{labels}{more}}} {value}\n");
    let comma = if labels.is_empty() { "" } else { "," };
    let bound = |le: &str, count: &str| line("bucket", &format!("{comma}le=\"{le}\""), count);
    [
        format!("# TYPE {name} histogram\n"),
        bound("0.5", "2"),
        bound("2.5", "2"),
        bound("+Inf", "3"),
        line("sum", "", "3.5"),
        line("count", "", "3"),
    ]
    .concat()
}

/// Returns the histogram points that a collector receives of one exposition, by name.
fn received(text: &str, translates_servers: bool) -> BTreeMap<String, Vec<HistogramDataPoint>> {
    let collector = OtlpReceiver::grpc();
    let config = Config {
        url: Some(Secret::new(collector.url())),
        interval_seconds: 3600.0,
        translates_servers,
        ..exporting_all()
    };
    let found = |name: &str| {
        let is_protocol = name == "OTEL_EXPORTER_OTLP_PROTOCOL";
        (is_protocol && is_of_grpc(&collector.url())).then(|| "grpc".to_owned())
    };
    let telemetry =
        Telemetry::start_in(&config, &identity(), &[], Environment::new(&found)).unwrap();
    let exposition = Exposition::parse(text.as_bytes(), Format::Text).unwrap();
    show(&telemetry, "http://127.0.0.1:8801/metrics", 0, 1_800_000_000_000_000_000, &exposition);
    let report = telemetry.finish(&RunTotals::default(), TIMEOUT);
    assert!(report.scrapes.unwrap().delivered_final);
    let mut all: BTreeMap<String, Vec<_>> = BTreeMap::new();
    let exports = collector.taken();
    let resources = exports.iter().flat_map(|export| &export.message.resource_metrics);
    for scope in resources.flat_map(|of| &of.scope_metrics) {
        for metric in &scope.metrics {
            let Some(Data::Histogram(histogram)) = &metric.data else { continue };
            if metric.name.starts_with("gen_ai.") {
                assert_eq!((metric.unit.as_str(), histogram.aggregation_temporality), ("s", 2));
                assert_eq!(scope.schema_url, "https://opentelemetry.io/schemas/1.41.1");
            }
            all.entry(metric.name.clone()).or_default().extend(histogram.data_points.clone());
        }
    }
    all
}

/// The histogram of a server, its labels, and the model and the name in the conventions.
const TRANSLATED: [(&str, &str, &str, &str); 9] = [
    ("vllm:time_to_first_token_seconds", "model_name=\"big\"", "big", "time_to_first_token"),
    ("vllm:request_time_per_output_token_seconds", "", "tiny", "time_per_output_token"),
    ("vllm:e2e_request_latency_seconds", "model_name=\"\"", "tiny", "request.duration"),
    ("sglang:time_to_first_token_seconds", "model_name=\"big\"", "big", "time_to_first_token"),
    ("sglang:e2e_request_latency_seconds", "model_name=\"big\"", "big", "request.duration"),
    ("trtllm_time_per_output_token_seconds", "model_name=\"big\"", "big", "time_per_output_token"),
    ("trtllm_e2e_request_latency_seconds", "model_name=\"big\"", "big", "request.duration"),
    ("dynamo_frontend_time_to_first_token_seconds", "model=\"big\"", "big", "time_to_first_token"),
    ("dynamo_frontend_request_duration_seconds", "model=\"big\"", "big", "request.duration"),
];

#[test]
fn a_translated_histogram_has_the_values_of_the_server_and_says_where_they_are_from() {
    for (name, labels, model, translated) in TRANSLATED {
        let all = received(&exposed(name, labels), true);
        let [own] = &all[name][..] else { panic!("{name}") };
        let [point] = &all[&format!("gen_ai.server.{translated}")][..] else { panic!("{name}") };
        assert_eq!((point.count, point.sum), (3, Some(3.5)), "{name}");
        assert_eq!(point.explicit_bounds, [0.5, 2.5], "{name}");
        assert_eq!(point.bucket_counts, [2, 0, 1], "{name}");
        assert_eq!(point.time_unix_nano, own.time_unix_nano);
        for (key, value) in [
            ("gen_ai.operation.name", "chat"),
            ("gen_ai.provider.name", "_OTHER"),
            ("gen_ai.request.model", model),
            ("aiperf.server.metric", name),
        ] {
            assert_eq!(attribute(&point.attributes, key).as_deref(), Some(value), "{name}: {key}");
        }
    }
}

#[test]
fn what_has_no_counterpart_is_not_translated() {
    // The time between tokens is not the mean of a request.
    for name in ["vllm:inter_token_latency_seconds", "sglang:inter_token_latency_seconds", "other"]
    {
        let all = received(&exposed(name, ""), true);
        assert_eq!(all.keys().collect::<Vec<_>>(), [name]);
    }
    let all = received(&exposed("vllm:time_to_first_token_seconds", ""), false);
    assert_eq!(all.keys().collect::<Vec<_>>(), ["vllm:time_to_first_token_seconds"]);
}
