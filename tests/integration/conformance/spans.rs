//! Compares spans with the registry: name, kind, attributes, events, and parent.

use std::collections::{BTreeMap, BTreeSet};

use opentelemetry_proto::tonic::collector::trace::v1::ExportTraceServiceRequest;
use opentelemetry_proto::tonic::trace::v1::Span;
use opentelemetry_proto::tonic::trace::v1::span::SpanKind;
use opentelemetry_proto::tonic::trace::v1::status::StatusCode;

use super::registry::{Registry, SpanEntry};
use super::{SCHEMA_URL, of_attributes, of_scope, unlisted};
use crate::support::otlp_receiver::attribute;

/// The span of the whole request, whose only parent is its agent.
const ROOT: &str = "aiperf.request";
/// The span of an agent, whose only parent is the agent that started it.
const AGENT: &str = "aiperf.invoke_agent";
/// The span of the run, likewise.
const RUN: &str = "aiperf.run";
/// The spans whose parent has a fixed name.
const WITHIN: [(&str, &str); 3] = [
    ("aiperf.http.tls", "aiperf.http.connect"),
    ("aiperf.phase", RUN),
    ("aiperf.execute_tool", "invoke_agent"),
];

/// Describes everything in `export` that does not conform to the registry. Adds the types of its
/// spans, their events and their attributes to `seen`.
pub(super) fn differences(
    export: &ExportTraceServiceRequest,
    registry: &Registry,
    seen: &mut BTreeSet<String>,
) -> Vec<String> {
    let mut found = Vec::new();
    for resource in &export.resource_spans {
        let attributes = resource.resource.as_ref().map_or(&[][..], |own| &own.attributes);
        let listed = &registry.groups["aiperf.resource.attributes"];
        found.extend(of_attributes(attributes, listed, registry));
        found.extend(unlisted(attributes, listed));
        if resource.schema_url != SCHEMA_URL {
            found.push(format!("the schema of traces is {:?}", resource.schema_url));
        }
        for scope in &resource.scope_spans {
            found.extend(of_scope(scope.scope.as_ref(), &scope.schema_url, SCHEMA_URL));
            found.extend(of_traces(&scope.spans, registry, seen));
        }
    }
    found
}

fn of_traces(spans: &[Span], registry: &Registry, seen: &mut BTreeSet<String>) -> Vec<String> {
    let mut found = Vec::new();
    // All spans of a request are in one export.
    let names: BTreeMap<(&[u8], &[u8]), &str> = spans
        .iter()
        .map(|span| ((&span.trace_id[..], &span.span_id[..]), span.name.as_str()))
        .collect();
    for span in spans {
        let Some((kind, entry)) = entry(span, registry) else {
            found.push(format!("{}: no such span is registered", span.name));
            continue;
        };
        let parent = names.get(&(&span.trace_id[..], &span.parent_span_id[..])).copied();
        let problems = of_span(span, kind, entry, parent, registry);
        found.extend(problems.iter().map(|problem| format!("{kind}: {problem}")));
        seen.insert(kind.to_owned());
        seen.extend(span.events.iter().map(|event| event.name.clone()));
        seen.extend(span.attributes.iter().map(|pair| format!("{kind} {}", pair.key)));
    }
    found
}

/// Returns the definition of `span`, found by name.
fn entry<'r>(span: &Span, registry: &'r Registry) -> Option<(&'r str, &'r SpanEntry)> {
    let mut fits = registry.spans.iter().filter(|(_, entry)| named(span, &entry.name));
    let found = fits.next().map(|(kind, entry)| (kind.as_str(), entry));
    found.filter(|_| fits.next().is_none())
}

/// Returns whether the span's name matches `template`, which has attributes in braces.
fn named(span: &Span, template: &str) -> bool {
    let mut name = template.to_owned();
    for pair in &span.attributes {
        let mark = format!("{{{}}}", pair.key);
        if name.contains(&mark) {
            name = name.replace(&mark, &attribute(&span.attributes, &pair.key).unwrap_or_default());
        }
    }
    span.name == name
}

fn of_span(
    span: &Span,
    kind: &str,
    entry: &SpanEntry,
    parent: Option<&str>,
    registry: &Registry,
) -> Vec<String> {
    let mut found = of_attributes(&span.attributes, &entry.attributes, registry);
    found.extend(unlisted(&span.attributes, &entry.attributes));
    let have = match span.kind() {
        SpanKind::Client => "client",
        SpanKind::Internal => "internal",
        other => other.as_str_name(),
    };
    if have != entry.kind {
        found.push(format!("its kind is {have}, not {}", entry.kind));
    }
    let sound = match kind {
        RUN => span.parent_span_id.is_empty(),
        // Agents are exported when they have ended, after their requests.
        ROOT | AGENT => parent.is_none_or(|parent| parent == "invoke_agent"),
        _ => match WITHIN.iter().find(|(within, _)| *within == kind) {
            Some((_, above)) => parent == Some(above),
            // The root has its own kind of name.
            None => parent.is_some_and(|parent| !registry.spans.contains_key(parent)),
        },
    };
    if !sound {
        found.push(format!("it is below {parent:?}"));
    }
    if span.trace_id.len() != 16 || span.span_id.len() != 8 {
        found.push("its identifiers have other lengths".to_owned());
    }
    if span.start_time_unix_nano > span.end_time_unix_nano || span.start_time_unix_nano == 0 {
        found.push("it ends before it starts".to_owned());
    }
    for event in &span.events {
        if !registry.events.contains_key(&event.name) || !event.attributes.is_empty() {
            found.push(format!("its event {} is not registered", event.name));
        }
    }
    found.extend(of_conditions(span, kind));
    found
}

/// Checks the `conditionally_required` attributes of the root.
fn of_conditions(span: &Span, kind: &str) -> Vec<String> {
    let has = |key: &str| span.attributes.iter().any(|pair| pair.key == key);
    let failed = span.status.as_ref().is_some_and(|status| status.code() == StatusCode::Error);
    let conditions = [
        ("network.peer.port", has("network.peer.address")),
        ("error.type", failed),
        ("aiperf.request.latency", !failed),
    ];
    let wrong = conditions.iter().filter(|(key, wanted)| kind == ROOT && has(key) != *wanted);
    wrong.map(|(key, wanted)| format!("{key} is there: {}, not {wanted}", has(key))).collect()
}
