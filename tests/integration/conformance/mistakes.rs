//! The comparison detects every kind of mistake that a program could make.

use std::collections::BTreeSet;

use opentelemetry_proto::tonic::common::v1::KeyValue;
use opentelemetry_proto::tonic::common::v1::any_value::Value as Any;
use opentelemetry_proto::tonic::metrics::v1::metric::Data;
use opentelemetry_proto::tonic::metrics::v1::{AggregationTemporality, Metric, ResourceMetrics};
use opentelemetry_proto::tonic::trace::v1::span::SpanKind;
use opentelemetry_proto::tonic::trace::v1::{ResourceSpans, Span, Status};

use super::registry::Registry;
use super::{differences, exports, server, spans};
use crate::support::otlp_receiver::{OtlpReceiver, attribute};

/// Changes the telemetry as a wrong program would.
type Mistake = (&'static str, fn(&mut ResourceMetrics));

fn metric<'a>(resource: &'a mut ResourceMetrics, name: &str) -> &'a mut Metric {
    let metrics = resource.scope_metrics.iter_mut().flat_map(|scope| &mut scope.metrics);
    metrics.into_iter().find(|metric| metric.name == name).unwrap()
}

/// Returns the attributes of the first point of the durations.
fn of_duration(resource: &mut ResourceMetrics) -> &mut Vec<KeyValue> {
    match &mut metric(resource, "gen_ai.client.operation.duration").data {
        Some(Data::Histogram(histogram)) => &mut histogram.data_points[0].attributes,
        other => panic!("{other:?}"),
    }
}

const MISTAKES: [Mistake; 12] = [
    ("a name", |all| metric(all, "aiperf.request_count").name.push('s')),
    ("a unit", |all| metric(all, "aiperf.request_latency").unit = "ms".into()),
    ("a brief", |all| metric(all, "aiperf.timing.requests.sent").description.clear()),
    ("a sum that is not monotonic", |all| {
        let data = &mut metric(all, "aiperf.request_count").data;
        let Some(Data::Sum(sum)) = data else { panic!("{data:?}") };
        sum.is_monotonic = false;
    }),
    ("a temporality", |all| {
        let data = &mut metric(all, "aiperf.request_count").data;
        let Some(Data::Sum(sum)) = data else { panic!("{data:?}") };
        sum.aggregation_temporality = AggregationTemporality::Delta as i32;
    }),
    ("a boundary", |all| {
        let data = &mut metric(all, "gen_ai.client.operation.duration").data;
        let Some(Data::Histogram(histogram)) = data else { panic!("{data:?}") };
        histogram.data_points[0].explicit_bounds[3] = 0.09;
    }),
    ("an attribute that is missing", |all| {
        of_duration(all).retain(|pair| pair.key != "gen_ai.provider.name");
    }),
    ("an attribute too many", |all| {
        let more = KeyValue { key: "aiperf.percentile".into(), ..of_duration(all)[0].clone() };
        of_duration(all).push(more);
    }),
    ("a value that is not listed", |all| {
        let attributes = of_duration(all);
        let phase = attributes.iter().position(|pair| pair.key == "aiperf.benchmark_phase");
        attributes[phase.unwrap()].value =
            attributes.iter().find(|pair| pair.key == "server.address").unwrap().value.clone();
    }),
    ("a port that is not a number", |all| {
        let attributes = of_duration(all);
        let port = attributes.iter().position(|pair| pair.key == "server.port").unwrap();
        attributes[port].value = attributes[(port + 1) % attributes.len()].value.clone();
        if matches!(attributes[port].value.as_ref().unwrap().value, Some(Any::IntValue(_))) {
            panic!("the next attribute is a number, too");
        }
    }),
    ("a schema", |all| all.scope_metrics[0].schema_url.clear()),
    ("a resource", |all| {
        let attributes = &mut all.resource.as_mut().unwrap().attributes;
        attributes.retain(|pair| pair.key != "aiperf.benchmark.id");
    }),
];

#[test]
fn each_kind_of_difference_is_found() {
    let registry = Registry::read();
    let server = server(&[]);
    let collector = OtlpReceiver::grpc();
    let captured = exports(&collector, &[&server.url()], &["--request-count", "2"]);
    let captured = captured.metrics.into_iter().rev().find(|export| {
        let resource = export.resource_metrics[0].resource.as_ref().unwrap();
        attribute(&resource.attributes, "service.name").as_deref() == Some("aiperf")
    });
    let captured = captured.unwrap();
    let seen = &mut BTreeSet::new();
    assert_eq!(differences(&captured, &registry, seen), Vec::<String>::new());
    for (what, change) in MISTAKES {
        let mut wrong = captured.clone();
        change(&mut wrong.resource_metrics[0]);
        assert!(!differences(&wrong, &registry, seen).is_empty(), "{what} was not found");
    }
}

/// Likewise for traces.
type SpanMistake = (&'static str, fn(&mut ResourceSpans));

fn root(of: &mut ResourceSpans) -> &mut Span {
    let spans = &mut of.scope_spans[0].spans;
    spans.iter_mut().find(|span| span.parent_span_id.is_empty()).unwrap()
}

fn phase(of: &mut ResourceSpans) -> &mut Span {
    let spans = &mut of.scope_spans[0].spans;
    spans.iter_mut().find(|span| span.name == "aiperf.http.send").unwrap()
}

const SPAN_MISTAKES: [SpanMistake; 11] = [
    ("a name", |all| phase(all).name.push('s')),
    ("a name that the attributes do not make", |all| root(all).name = "chat".into()),
    ("a kind", |all| root(all).kind = SpanKind::Internal as i32),
    ("an attribute that is missing", |all| {
        root(all).attributes.retain(|pair| pair.key != "aiperf.request.id");
    }),
    ("an attribute too many", |all| {
        let more = root(all).attributes[0].clone();
        phase(all).attributes.push(more);
    }),
    ("an attribute's type", |all| {
        let attributes = &mut root(all).attributes;
        let of = |key: &str| attributes.iter().position(|pair| pair.key == key).unwrap();
        let (latency, model) = (of("aiperf.request.latency"), of("gen_ai.request.model"));
        attributes[latency].value = attributes[model].value.clone();
    }),
    ("a failure without its type", |all| {
        root(all).status = Some(Status { code: 2, ..Status::default() });
    }),
    ("a parent", |all| phase(all).parent_span_id.clear()),
    ("an event", |all| root(all).events[0].name.push('s')),
    ("a scope", |all| all.scope_spans[0].scope = None),
    ("a resource", |all| all.resource.as_mut().unwrap().attributes.clear()),
];

#[test]
fn each_kind_of_difference_in_spans_is_found() {
    let registry = Registry::read();
    let server = server(&[]);
    let collector = OtlpReceiver::grpc();
    let captured = exports(&collector, &[&server.url()], &["--request-count", "2"]);
    let captured = captured.traces.into_iter().next().unwrap();
    let seen = &mut BTreeSet::new();
    assert_eq!(spans::differences(&captured, &registry, seen), Vec::<String>::new());
    for (what, change) in SPAN_MISTAKES {
        let mut wrong = captured.clone();
        change(&mut wrong.resource_spans[0]);
        assert!(!spans::differences(&wrong, &registry, seen).is_empty(), "{what} was not found");
    }
}
