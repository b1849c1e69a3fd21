//! `inputs.json` as written by a run: bodies that are sent unchanged.

use std::fmt;
use std::sync::Arc;

use serde::Deserialize;
use serde::de::{DeserializeSeed, Deserializer, Error, MapAccess, SeqAccess, Unexpected, Visitor};
use serde_json::value::RawValue;

use base::input::json::{self, Each, Skipped};
use base::input::{Input, Meter};

use super::{Fault, Loaded, document_fault, json_reason};
use crate::{Conversation, Turn};

#[derive(Default)]
struct Session {
    session_id: String,
    turns: Vec<Turn>,
}

/// The members of a body that are read; the others are ignored.
#[derive(Deserialize)]
struct Body {
    model: Option<String>,
    max_completion_tokens: Option<u32>,
    max_tokens: Option<u32>,
}

/// Reads the document `{"data": [{"session_id", "payloads": [...]}]}`.
///
/// It is read payload by payload, since all together may be large.
pub(super) fn read(input: Input<'_>) -> Result<Loaded, Fault> {
    let meter = input.meter();
    let mut sessions = Sessions { conversations: Vec::new(), meter: &meter, fault: None };
    let mut document = json::documents(input);
    let read = Level::Document(&mut sessions).deserialize(&mut document);
    if let Some(fault) = sessions.fault {
        return Err(fault);
    }
    read.and_then(|()| document.end()).map_err(document_fault)?;
    Ok(sessions.conversations.into())
}

/// The sessions that were read.
struct Sessions<'a> {
    conversations: Vec<Conversation>,
    meter: &'a Meter,
    /// An error in a session.
    fault: Option<Fault>,
}

impl Sessions<'_> {
    /// Returns an error for serde, and keeps the reason.
    fn refuse<E: Error>(&mut self, why: &str) -> E {
        self.fault = Some(Fault::Entry(self.conversations.len() + 1, why.to_owned()));
        E::custom(why)
    }
}

/// A part of the document.
enum Level<'a, 'b> {
    /// An object with `data`.
    Document(&'a mut Sessions<'b>),
    /// The list in `data`.
    List(&'a mut Sessions<'b>),
    /// An object with `payloads`.
    Session(&'a mut Sessions<'b>),
}

impl<'de> DeserializeSeed<'de> for Level<'_, '_> {
    type Value = ();

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<(), D::Error> {
        match self {
            Self::List(_) => deserializer.deserialize_seq(self),
            Self::Document(_) | Self::Session(_) => deserializer.deserialize_map(self),
        }
    }
}

impl<'de> Visitor<'de> for Level<'_, '_> {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Document(_) => "an object with `data`",
            Self::List(_) => "a sequence of sessions",
            Self::Session(_) => "a session with `payloads`",
        })
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut list: A) -> Result<(), A::Error> {
        let Self::List(sessions) = self else {
            return Err(Error::invalid_type(Unexpected::Seq, &self));
        };
        while list.next_element_seed(Level::Session(sessions))?.is_some() {}
        Ok(())
    }

    fn visit_map<A: MapAccess<'de>>(self, mut members: A) -> Result<(), A::Error> {
        let (sessions, wanted) = match self {
            Self::Document(sessions) => (sessions, "data"),
            Self::List(sessions) | Self::Session(sessions) => (sessions, "payloads"),
        };
        let mut found = false;
        let mut session = Session::default();
        while let Some(name) = members.next_key::<String>()? {
            let is_session = wanted == "payloads";
            match &*name {
                "data" if !is_session => members.next_value_seed(Level::List(sessions))?,
                "session_id" if is_session => session.session_id = members.next_value()?,
                "payloads" if is_session => {
                    let mut fault = None;
                    let payloads = Each::new(sessions.meter, "a list", |payload: Box<RawValue>| {
                        session
                            .turns
                            .push(turn(&payload).inspect_err(|why| fault = Some(why.clone()))?);
                        Ok(())
                    });
                    let read = members.next_value_seed(payloads);
                    if let Some(why) = fault {
                        return Err(sessions.refuse(&why));
                    }
                    read?;
                }
                _ => {
                    members.next_value_seed(Skipped(sessions.meter))?;
                    continue;
                }
            }
            found |= name == wanted;
        }
        if !found {
            return Err(Error::missing_field(wanted));
        }
        if wanted == "payloads" {
            if session.turns.is_empty() {
                return Err(sessions.refuse("no payloads"));
            }
            let Session { session_id, turns } = session;
            let conversation =
                Conversation { id: session_id.into(), turns, ..Conversation::default() };
            sessions.conversations.push(conversation);
        }
        Ok(())
    }
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
