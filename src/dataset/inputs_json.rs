//! `inputs_json`: request bodies of an earlier run, sent as they are.

use std::sync::Arc;

use serde::Deserialize;
use serde_json::value::RawValue;

use super::{Conversation, Turn};

#[derive(Deserialize)]
struct Inputs {
    data: Vec<Session>,
}

#[derive(Deserialize)]
struct Session {
    session_id: String,
    payloads: Vec<Box<RawValue>>,
}

/// Reads `{"data":[{"session_id":…,"payloads":[…]}]}`.
pub(super) fn parse(text: &str) -> Result<Vec<Conversation>, String> {
    let inputs: Inputs = serde_json::from_str(text).map_err(|error| error.to_string())?;
    inputs.data.into_iter().map(conversation).collect()
}

fn conversation(session: Session) -> Result<Conversation, String> {
    if session.payloads.is_empty() {
        return Err(format!("session `{}` has no payloads", session.session_id));
    }
    if session.payloads.iter().any(|payload| !payload.get().trim_start().starts_with('{')) {
        return Err(format!("session `{}` has a payload that is no object", session.session_id));
    }
    let turns = session.payloads.into_iter().map(|payload| Turn {
        model: model_of(&payload).into(),
        raw_payload: Some(Arc::from(payload)),
        ..Turn::default()
    });
    Ok(Conversation {
        id: session.session_id.into(),
        turns: turns.collect(),
        ..Conversation::default()
    })
}

/// The model that the payload asks for, if it names one.
fn model_of(payload: &RawValue) -> String {
    #[derive(Deserialize)]
    struct Named {
        #[serde(default)]
        model: Option<String>,
    }
    serde_json::from_str(payload.get())
        .ok()
        .and_then(|named: Named| named.model)
        .unwrap_or_default()
}
