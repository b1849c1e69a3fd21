//! `inputs.json` as written by a run: bodies that are sent unchanged.

use std::io::Read;
use std::sync::Arc;

use serde::Deserialize;
use serde_json::value::RawValue;

use super::{Fault, Loaded, document_fault, json_reason};
use crate::dataset::{Conversation, Turn};

#[derive(Deserialize)]
struct Document {
    data: Vec<Session>,
}

#[derive(Deserialize)]
struct Session {
    #[serde(default)]
    session_id: String,
    payloads: Vec<Box<RawValue>>,
}

/// The members of a body that are read; the others are ignored.
#[derive(Deserialize)]
struct Body {
    model: Option<String>,
    max_completion_tokens: Option<u32>,
    max_tokens: Option<u32>,
}

/// Reads the document `{"data": [{"session_id", "payloads": [...]}]}`.
pub(super) fn read(input: impl Read) -> Result<Loaded, Fault> {
    let document: Document = serde_json::from_reader(input).map_err(document_fault)?;
    let conversations = (1..)
        .zip(document.data)
        .map(|(number, session)| conversation(number, session))
        .collect::<Result<Vec<_>, _>>()?;
    Ok(conversations.into())
}

fn conversation(number: usize, session: Session) -> Result<Conversation, Fault> {
    if session.payloads.is_empty() {
        return Err(Fault::Entry(number, "no payloads".to_owned()));
    }
    let turns = session
        .payloads
        .iter()
        .map(|payload| turn(payload).map_err(|why| Fault::Entry(number, why)))
        .collect::<Result<_, _>>()?;
    Ok(Conversation { id: session.session_id.into(), turns, ..Conversation::default() })
}

/// Returns a turn that sends `payload` unchanged.
pub(super) fn turn(payload: &RawValue) -> Result<Turn, String> {
    if !payload.get().starts_with('{') {
        return Err("a payload is not a JSON object".to_owned());
    }
    let body: Body = serde_json::from_str(payload.get()).map_err(|error| json_reason(&error))?;
    let payload = RawValue::from_string(compact(payload.get())).map_err(|e| json_reason(&e))?;
    Ok(Turn {
        model: body.model.unwrap_or_default().into(),
        max_tokens: body.max_completion_tokens.or(body.max_tokens),
        raw_payload: Some(Arc::from(payload)),
        ..Turn::default()
    })
}

/// Returns valid JSON without white space between its tokens, so that it fits on one line. Numbers
/// and strings keep every byte.
fn compact(json: &str) -> String {
    let mut in_string = false;
    let mut escaped = false;
    json.chars()
        .filter(|c| {
            if in_string {
                in_string = escaped || *c != '"';
                escaped = !escaped && *c == '\\';
                return true;
            }
            in_string = *c == '"';
            !c.is_ascii_whitespace()
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde_json::{Value, json};

    use super::*;

    #[test]
    fn compact_leaves_strings_and_numbers_alone() {
        let json = "{ \"a b\" : [ 1.50 , 1e400 ],\n\t\"q\\\" \\\\\" : \" x \" }";
        assert_eq!(compact(json), "{\"a b\":[1.50,1e400],\"q\\\" \\\\\":\" x \"}");
    }

    proptest! {
        #[test]
        fn compact_means_the_same(key in ".*", text in ".*", number: i64) {
            let value = json!({key: [text, number, {"inner": null}]});
            let pretty = serde_json::to_string_pretty(&value).unwrap();
            prop_assert_eq!(compact(&pretty), serde_json::to_string(&value).unwrap());
            prop_assert_eq!(serde_json::from_str::<Value>(&compact(&pretty)).unwrap(), value);
        }
    }
}
