//! `docs/schema`: the JSON schemas of the files, generated from the types that write them.

use std::fs;
use std::path::Path;

use schemars::generate::SchemaSettings;
use schemars::transform::{RecursiveTransform, Transform as _};
use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde_json::{Map, Value, json};

use measure::metrics::fields::{FIELDS, Row};
use measure::metrics::{Metric, Registry};

use super::aggregate::{Aggregate, Collated};
use super::json::Summary;
use super::jsonl::Record;
use super::raw::RawRecord;
use super::search::SearchHistory;
use super::server_metrics::{Flat, Nested};
use super::sessions::SessionLine;
use super::sweep;

/// Returns the schema of an object with a `T` for each metric of the catalogue that `is_in` accepts.
pub(super) fn by_tag<T: JsonSchema>(
    generator: &mut SchemaGenerator,
    is_in: impl Fn(&Metric) -> bool,
) -> Schema {
    let entry = generator.subschema_for::<T>();
    let rows = Registry::catalogue().iter().filter(|row| is_in(row));
    let member = |row: &&Metric| {
        let mut entry = entry.clone();
        entry.insert("description".to_owned(), row.brief.into());
        (row.tag.name().to_owned(), entry.to_value())
    };
    let members: Map<String, Value> = rows.map(member).collect();
    json_schema!({ "type": "object", "properties": members })
}

/// Returns the schema of the metadata of a record.
pub(super) fn of_fields(generator: &mut SchemaGenerator) -> Schema {
    let fields = || FIELDS.iter().filter(|field| field.uses.in_lines);
    let mut members = Map::new();
    let all = FIELDS.iter().zip(Row::schemas(generator));
    for (field, mut member) in all.filter(|(field, _)| field.uses.in_lines) {
        let lines: Vec<&str> = field.doc.lines().map(str::trim).collect();
        member.insert("description".to_owned(), lines.join("\n").into());
        members.insert(field.name.to_owned(), member.to_value());
    }
    let required: Vec<&str> =
        fields().filter(|field| field.is_required).map(|field| field.name).collect();
    json_schema!({
        "type": "object",
        "properties": members,
        "required": required,
        "description": "Identity, times and destination of a request. Times are in nanoseconds since the epoch.",
    })
}

/// Forbids members besides those that an object names, and null for those that it may lack.
fn close(schema: &mut Schema) {
    let Some(schema) = schema.as_object_mut() else { return };
    // The value that a reader of the file takes, which is not written.
    schema.shift_remove("default");
    let required: Vec<Value> =
        schema.get("required").and_then(Value::as_array).cloned().unwrap_or_default();
    let Some(members) = schema.get_mut("properties").and_then(Value::as_object_mut) else { return };
    for (name, member) in members.iter_mut().filter(|(name, _)| !required.contains(&json!(name))) {
        let member =
            member.as_object_mut().unwrap_or_else(|| panic!("{name} does not have a schema"));
        forbid_null(member);
    }
    schema.entry("additionalProperties").or_insert(json!(false));
}

/// Removes null from the types of a value.
fn forbid_null(schema: &mut Map<String, Value>) {
    if let Some(types) = schema.get_mut("type").filter(|types| types.is_array()) {
        let others = types.as_array().into_iter().flatten().filter(|kind| **kind != "null");
        let others: Vec<Value> = others.cloned().collect();
        *types = if let [one] = &others[..] { one.clone() } else { others.into() };
    }
    if let Some(Value::Array(choices)) = schema.get("anyOf") {
        let others: Vec<Value> =
            choices.iter().filter(|choice| **choice != json!({"type": "null"})).cloned().collect();
        if let [Value::Object(one)] = &others[..] {
            schema.shift_remove("anyOf");
            schema.extend(one.clone());
        } else {
            schema.insert("anyOf".to_owned(), others.into());
        }
    }
}

/// Returns the schema of what `T` serializes to.
fn schema<T: JsonSchema>(title: &str) -> Value {
    let settings = SchemaSettings::draft2020_12().for_serialize();
    let mut schema = settings.into_generator().into_root_schema_for::<T>();
    RecursiveTransform(close).transform(&mut schema);
    schema.insert("title".to_owned(), title.into());
    schema.to_value()
}

#[test]
fn the_published_schemas_are_those_of_the_types() {
    let files = [
        ("profile_export_aiperf", schema::<Summary<'_>>("profile_export_aiperf.json")),
        ("profile_export", schema::<Record<'_>>("A line of profile_export.jsonl")),
        (
            "profile_export_sessions",
            schema::<SessionLine<'_>>("A line of profile_export_sessions.jsonl"),
        ),
        ("profile_export_raw", schema::<RawRecord<'_>>("A line of profile_export_raw.jsonl")),
        ("server_metrics_export", schema::<Nested<'_>>("server_metrics_export.json")),
        (
            "server_metrics_export_flat",
            schema::<Flat<'_>>("server_metrics_export.json with --server-metrics-json-layout flat"),
        ),
        (
            "profile_export_aiperf_aggregate",
            schema::<Aggregate<'_>>("profile_export_aiperf_aggregate.json"),
        ),
        (
            "profile_export_aiperf_collated",
            schema::<Collated<'_>>("profile_export_aiperf_collated.json"),
        ),
        (
            "profile_export_aiperf_sweep",
            schema::<sweep::Summary<'_>>("profile_export_aiperf_sweep.json"),
        ),
        ("search_history", schema::<SearchHistory<'_>>("search_history.json")),
    ];
    for (name, schema) in files {
        let path =
            Path::new(env!("CARGO_MANIFEST_DIR")).join(format!("../../docs/schema/{name}.json"));
        let wanted = format!("{schema:#}\n");
        if std::env::var_os("UPDATE").is_some() {
            fs::write(&path, wanted).unwrap();
            continue;
        }
        let have = fs::read_to_string(&path).unwrap_or_default();
        assert!(have == wanted, "regenerate {name} with `UPDATE=1 cargo test --lib schema`");
    }
}
