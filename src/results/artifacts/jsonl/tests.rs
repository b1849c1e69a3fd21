use std::collections::BTreeSet;
use std::sync::Arc;

use proptest::prelude::*;
use serde_json::Value;
use uuid::Uuid;

use base::units::Nanos;
use client::endpoint::ParsedResponse;
use client::record::{Ancestry, ResponseBody};
use client::schedule::config::PhaseLabels;
use client::schedule::{Hold, PhaseKind};
use client::server_family::ServerTiming;
use measure::metrics::AgentCall;
use measure::metrics::fields::{FIELDS, FieldValue, Id, Metadata, Row};
use measure::metrics::fixture;
use measure::metrics::health::ClientErrors;
use measure::metrics::metric::{MeasuredRecord, Observation};

use super::write_metadata;
use crate::artifacts::parquet::field_of_line;

fn measured(numbers: [u32; 4], flags: [bool; 6], text: &str, id: u128) -> MeasuredRecord {
    let [small, start, length, count] = numbers;
    let times = |offset: u32| Nanos(u64::from(start) + u64::from(offset));
    let mut record = fixture::record(times(0), ResponseBody::default());
    record.turn.session = u64::from(small) << 20;
    record.turn.turn = small as usize;
    record.request_id = Uuid::from_u128(id);
    record.correlation_id = Uuid::from_u128(id | 1);
    let root = Uuid::from_u128(id | 2);
    record.ancestry = flags[0].then_some(Ancestry { depth: count % 2, parent: root, root });
    record.lane = flags[1].then_some(small);
    record.held_by = flags[1].then_some(Hold::Barrier);
    record.tenant = flags[2].then(|| text.into());
    record.model = text.into();
    record.due = flags[3].then(|| times(0));
    record.ack = flags[3].then(|| times(length / 2));
    record.cancelled_at = flags[4].then(|| times(length));
    record.end = times(length);
    record.retry_count = count % 3;
    let worker: Option<Arc<str>> = flags[5].then(|| text.into());
    let other = vec![("b".to_owned(), 2e6), (text.to_owned(), 1.5e6)];
    let timing = ServerTiming { worker, other, ..ServerTiming::default() };
    let response = ParsedResponse {
        server: flags[4].then(|| Box::new(timing)),
        finish_reasons: vec![text.into(), "stop".into()],
        ..ParsedResponse::default()
    };
    let observation = Observation {
        start_wall_ns: 1_795_226_094_681_160_123,
        end_wall_ns: 1_795_226_094_681_160_123 + u64::from(length),
        requested_output_tokens: flags[0].then(|| count.into()),
        missing_answers: count % 2,
        ..fixture::observation()
    };
    let call = AgentCall { is_last: flags[3], children: count % 3, ..AgentCall::default() };
    let agent = flags[2].then_some(call);
    MeasuredRecord { record, response, observation, is_text: true, agent }
}

#[test]
fn names_and_places_are_unique_and_described() {
    let names: BTreeSet<&str> = FIELDS.iter().map(|field| field.name).collect();
    assert_eq!(names.len(), FIELDS.len());
    let columns = || FIELDS.iter().filter_map(|field| field.uses.column);
    assert_eq!(columns().collect::<BTreeSet<_>>().len(), columns().count());
    for field in FIELDS {
        assert!(field.doc.trim().ends_with('.'), "{}", field.name);
        assert!(field.uses.in_lines || field.uses.column.is_some(), "{}", field.name);
    }
}

/// Returns what a line or a table contains of a value.
fn shown(value: &FieldValue<'_>) -> String {
    match value {
        FieldValue::Id(id) => id.to_string(),
        FieldValue::Text(text) => text.clone().into_owned(),
        other => format!("{other:?}"),
    }
}

proptest! {
    #[test]
    fn fields_are_read_as_they_are_written(
        numbers: [u32; 4],
        flags: [bool; 6],
        text in "\\PC{1,8}[\"\\\\\n\u{7f}é]{0,2}",
        id: u128,
        late: Option<u64>,
        uncertainty in 0_u32..3,
    ) {
        let measured = measured(numbers, flags, &text, id);
        let errors = ClientErrors {
            late,
            first_content_uncertainty: uncertainty,
            end_gap: flags[0].then_some(uncertainty),
            ..ClientErrors::default()
        };
        let row = Row {
            measured: &measured,
            conversation_id: &text,
            endpoint_type: "chat",
            phases: &PhaseLabels::default(),
            errors,
        };
        let mut written = Vec::new();
        write_metadata(&mut written, &row).unwrap();

        let members: Value = serde_json::from_slice(&written).unwrap();
        for field in FIELDS.iter().filter(|field| field.uses.in_lines) {
            let value = (field.value)(&row);
            let member = &members[field.name];
            let expected = match &value {
                FieldValue::Absent | FieldValue::Count(0) => Value::Null,
                FieldValue::Int(number) => (*number).into(),
                FieldValue::Count(number) => (*number).into(),
                FieldValue::Bool(value) => (*value).into(),
                FieldValue::Text(_) | FieldValue::Id(_) => shown(&value).into(),
                FieldValue::List(list) => list.clone().into(),
                FieldValue::Times(times) if times.is_empty() => Value::Null,
                FieldValue::Times(times) => serde_json::json!(times),
            };
            prop_assert_eq!(member, &expected, "{}", field.name);
            prop_assert!(!member.is_null() || !field.is_required, "{}", field.name);
            if field.uses.column.is_some() {
                // A row of the table is the same if it is made of the line.
                let again = field_of_line(&format!("{{\"metadata\":{members}}}"), field);
                prop_assert_eq!(shown(&again), shown(&value), "{}", field.name);
            }
        }

        let read: Metadata<'_> = serde_json::from_slice(&written).unwrap();
        prop_assert_eq!(read.session_num, Some(measured.record.turn.session));
        let known = Some(Uuid::from_u128(id)).filter(|id| !id.is_nil());
        prop_assert_eq!(read.x_request_id.and_then(Id::known), known);
        prop_assert_eq!(read.conversation_id.map(|id| id.0.into_owned()), Some(text.clone()));
        prop_assert_eq!(read.agent_depth, measured.record.ancestry.map(|ancestry| ancestry.depth));
        prop_assert_eq!(read.is_final_turn, measured.agent.as_ref().map(|call| call.is_last));
        prop_assert_eq!(read.benchmark_phase, Some(PhaseKind::Profiling));
        prop_assert_eq!(read.late_ns, late);
        prop_assert_eq!(read.first_content_uncertainty_ns.unwrap_or_default(), uncertainty);
        prop_assert_eq!(read.tenant.map(|name| name.0.into_owned()), flags[2].then_some(text));
    }
}
