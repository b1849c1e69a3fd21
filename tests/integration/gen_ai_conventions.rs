//! The newest GenAI conventions are exported if they are asked for.

use std::collections::BTreeSet;
use std::time::Duration;

use base::environment::Environment;
use base::redact::Secret;
use base::semconv::Conventions;
use base::units::Unit;
use measure::metrics::metric::{MeasuredRecord, Metric, Value};
use measure::metrics::tag;
use opentelemetry_proto::tonic::metrics::v1::metric::Data;
use telemetry::{Config, Telemetry};

use crate::support::otlp_receiver::{OtlpReceiver, Received, attribute};
use crate::support::run::is_of_grpc;
use crate::telemetry::{
    RECORD, Request, Run, assert_delivered, catalogue, close, exporting_all, four, identity, row,
};

const TIMEOUT: Duration = Duration::from_mins(1);

static PROMPT: Metric = row(tag::USAGE_PROMPT_TOKENS, Unit::Tokens, Unit::Tokens, RECORD);
static COMPLETION: Metric = row(tag::USAGE_COMPLETION_TOKENS, Unit::Tokens, Unit::Tokens, RECORD);
static CACHED: Metric =
    row(tag::USAGE_PROMPT_CACHE_READ_TOKENS, Unit::Tokens, Unit::Tokens, RECORD);
static HEARD: Metric = row(tag::USAGE_PROMPT_AUDIO_TOKENS, Unit::Tokens, Unit::Tokens, RECORD);
static REASONING: Metric = row(tag::USAGE_REASONING_TOKENS, Unit::Tokens, Unit::Tokens, RECORD);

fn rows() -> Vec<&'static Metric> {
    [catalogue(), vec![&PROMPT, &COMPLETION, &CACHED, &HEARD, &REASONING]].concat()
}

fn start(collector: &OtlpReceiver, conventions: Conventions) -> Run {
    let config = Config {
        url: Some(Secret::new(collector.url())),
        interval_seconds: 3600.0,
        conventions: Some(conventions),
        ..exporting_all()
    };
    let found = |name: &str| {
        let is_protocol = name == "OTEL_EXPORTER_OTLP_PROTOCOL";
        (is_protocol && is_of_grpc(&collector.url())).then(|| "grpc".to_owned())
    };
    let telemetry =
        Telemetry::start_in(&config, &identity(), &rows(), Environment::new(&found)).unwrap();
    Run::new(telemetry, &rows())
}

fn with_usage(mut measured: MeasuredRecord, usage: [f64; 4]) -> MeasuredRecord {
    let tags = [
        tag::USAGE_PROMPT_TOKENS,
        tag::USAGE_COMPLETION_TOKENS,
        tag::USAGE_PROMPT_CACHE_READ_TOKENS,
        tag::USAGE_REASONING_TOKENS,
    ];
    for (tag, value) in tags.into_iter().zip(usage) {
        measured.observation.values.set(tag, Value::Scalar(value));
    }
    measured
}

/// Records a text with usage, one with an image and usage, one without usage, and a failure.
fn record(run: &Run) {
    let [text, image, unknown, failed] = four().each_ref().map(Request::measured);
    run.record(&with_usage(text, [20.0, 3.0, 16.0, 1.0]));
    let mut image = with_usage(image, [500.0, 60.0, 0.0, 7.0]);
    image.is_text = false;
    run.record(&image);
    run.record(&unknown);
    run.record(&failed);
}

/// Returns the value of a counter by modality.
fn usage(received: &Received, name: &str) -> Vec<(String, f64)> {
    let name = format!("gen_ai.client.inference.usage.{name}");
    let Some(Data::Sum(sum)) = &received.metric(&name).data else { panic!("{name}") };
    let modality = |point: &opentelemetry_proto::tonic::metrics::v1::NumberDataPoint| {
        assert_eq!(attribute(&point.attributes, "error.type"), None);
        attribute(&point.attributes, "gen_ai.token.modality").unwrap()
    };
    let modalities: BTreeSet<_> = sum.data_points.iter().map(modality).collect();
    let total = |modality: &String| {
        let points = sum.data_points.iter();
        let own = points.filter(|point| {
            attribute(&point.attributes, "gen_ai.token.modality").as_ref() == Some(modality)
        });
        own.map(|point| match point.value {
            Some(opentelemetry_proto::tonic::metrics::v1::number_data_point::Value::AsDouble(
                value,
            )) => value,
            ref other => panic!("{other:?}"),
        })
        .sum()
    };
    modalities.iter().map(|modality| (modality.clone(), total(modality))).collect()
}

fn names(received: &Received) -> BTreeSet<String> {
    let names = received.metrics().into_iter().map(|metric| metric.name.clone());
    names.filter(|name| name.starts_with("gen_ai.")).collect()
}

const OK: &[(&str, &str)] = &[("gen_ai.response.model", "tiny-v1")];
const FAILED: &[(&str, &str)] = &[("error.type", "timeout")];

#[test]
fn the_newest_names_have_every_request() {
    let collector = OtlpReceiver::grpc();
    let run = start(&collector, Conventions::Latest);
    record(&run);
    assert_delivered(&run.finish(TIMEOUT));
    let received = collector.last();
    assert!(names(&received).iter().all(|name| name.starts_with("gen_ai.client.inference.")));

    // From the start to the end of each request: 0.01 s, 0.1 s, 90 s, and 2 s until the timeout.
    let duration = received.histogram("gen_ai.client.inference.duration", OK);
    assert_eq!(duration.count, 3);
    close(duration.sum.unwrap(), 90.11);
    let duration = received.histogram("gen_ai.client.inference.duration", FAILED);
    assert_eq!((duration.count, duration.sum), (1, Some(2.0)));
    // Three requests with two gaps each.
    let gaps = received.histogram("gen_ai.client.inference.time_per_output_chunk", OK);
    assert_eq!(gaps.count, 6);
    let tokens = received.histogram("gen_ai.client.inference.operation.input_tokens", OK);
    assert_eq!((tokens.count, tokens.sum), (3, Some(133.0)));
    let tokens = received.histogram("gen_ai.client.inference.operation.output_tokens", FAILED);
    assert_eq!((tokens.count, tokens.sum), (1, Some(0.0)));

    let both = |text, unknown| vec![("text".to_owned(), text), ("unknown".to_owned(), unknown)];
    assert_eq!(usage(&received, "input_tokens"), both(20.0, 500.0));
    assert_eq!(usage(&received, "output_tokens"), both(3.0, 60.0));
    assert_eq!(usage(&received, "cache_read.input_tokens"), both(16.0, 0.0));
    assert_eq!(usage(&received, "reasoning.output_tokens"), both(1.0, 7.0));
    // No request reported it, and two did not have usage.
    let none = vec![("unknown".to_owned(), 0.0)];
    assert_eq!(usage(&received, "cache_write.input_tokens"), none);
}

/// Returns the schema URLs of the resource and, by scope, of the metrics whose names begin with
/// `gen_ai.client.inference.` and of the others.
fn schemas(received: &Received) -> (String, BTreeSet<(bool, String)>) {
    let resource = &received.0.resource_metrics[0];
    let scopes = resource.scope_metrics.iter().flat_map(|scope| {
        scope.metrics.iter().map(|metric| {
            let is_newest = metric.name.starts_with("gen_ai.client.inference.");
            (is_newest, scope.schema_url.replace("https://opentelemetry.io/schemas/", ""))
        })
    });
    (resource.schema_url.replace("https://opentelemetry.io/schemas/", ""), scopes.collect())
}

#[test]
fn each_name_is_in_a_scope_whose_schema_has_it() {
    let newest = || "gen-ai-dev/1.42.0-dev".to_owned();
    let old = || "1.41.1".to_owned();
    for (conventions, resource, scopes) in [
        (Conventions::V1_41, "1.41.1", vec![(false, old())]),
        (Conventions::Latest, "1.44.0", vec![(true, newest()), (false, newest())]),
        (Conventions::Both, "1.41.1", vec![(true, newest()), (false, old())]),
    ] {
        let collector = OtlpReceiver::grpc();
        let run = start(&collector, conventions);
        record(&run);
        assert_delivered(&run.finish(TIMEOUT));
        let expected = (resource.to_owned(), scopes.into_iter().collect());
        assert_eq!(schemas(&collector.last()), expected, "{conventions:?}");
    }
}

#[test]
fn both_versions_are_those_of_each() {
    let exported = |conventions| {
        let collector = OtlpReceiver::grpc();
        let run = start(&collector, conventions);
        record(&run);
        assert_delivered(&run.finish(TIMEOUT));
        names(&collector.last())
    };
    let [old, newest, both] =
        [Conventions::V1_41, Conventions::Latest, Conventions::Both].map(exported);
    assert_eq!((old.len(), newest.len()), (4, 10));
    assert_eq!(both, old.into_iter().chain(newest).collect());
}

#[test]
fn an_export_without_a_failure_s_zero_is_found() {
    let collector = OtlpReceiver::grpc();
    let run = start(&collector, Conventions::Latest);
    record(&run);
    run.keep(&four()[3].measured());
    let found = run.finish(TIMEOUT).discrepancies;
    for name in
        ["gen_ai.client.inference.duration{", "gen_ai.client.inference.operation.input_tokens{"]
    {
        assert!(found.iter().any(|what| what.starts_with(name)), "{name}: {found:?}");
    }
}

#[test]
fn audio_is_told_apart_where_the_usage_does() {
    let collector = OtlpReceiver::grpc();
    let run = start(&collector, Conventions::Latest);
    let [first, second, third, _] = four().each_ref().map(Request::measured);
    let heard = |measured, audio: Option<f64>| {
        let mut measured = with_usage(measured, [500.0, 60.0, 0.0, 0.0]);
        measured.is_text = false;
        if let Some(audio) = audio {
            measured.observation.values.set(tag::USAGE_PROMPT_AUDIO_TOKENS, Value::Scalar(audio));
        }
        measured
    };
    run.record(&heard(first, Some(480.0)));
    run.record(&heard(second, Some(0.0)));
    // More than the whole, which cannot be.
    run.record(&heard(third, Some(700.0)));
    assert_delivered(&run.finish(TIMEOUT));
    let received = collector.last();
    let modalities = |pairs: &[(&str, f64)]| -> Vec<(String, f64)> {
        pairs.iter().map(|(of, tokens)| ((*of).to_owned(), *tokens)).collect()
    };
    // 480 and 500 of audio; the other 20, and the 500 of the second request.
    let expected = modalities(&[("audio", 980.0), ("unknown", 520.0)]);
    assert_eq!(usage(&received, "input_tokens"), expected);
    assert_eq!(usage(&received, "output_tokens"), modalities(&[("unknown", 180.0)]));
}
