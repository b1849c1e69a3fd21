//! `inputs.json`: the bodies that the run sends, conversation by conversation.

use std::io::{self, Write};

use serde::Serialize;
use serde_json::Value;

use super::redact_body;

#[derive(Serialize)]
struct Session {
    session_id: String,
    payloads: Vec<Value>,
}

/// Writes `{"data":[{"session_id", "payloads"}]}`, indented by two, one session
/// at a time, members of bodies as `redacted` has them; puts their ids into `ids`.
pub(super) fn write(
    out: &mut dyn Write,
    sessions: impl IntoIterator<Item = (String, Vec<Vec<u8>>)>,
    redacted: &[(String, Value)],
    ids: &mut Vec<String>,
) -> io::Result<()> {
    ids.clear();
    out.write_all(b"{\n  \"data\": [")?;
    for (at, (session_id, payloads)) in sessions.into_iter().enumerate() {
        out.write_all(if at == 0 { b"\n    " } else { b",\n    " })?;
        ids.push(session_id.clone());
        let payloads = payloads.iter().map(|body| payload(body, redacted)).collect();
        let text = serde_json::to_string_pretty(&Session { session_id, payloads })?;
        // JSON strings bear no line feeds: each one is the formatter's.
        out.write_all(text.replace('\n', "\n    ").as_bytes())?;
    }
    out.write_all(if ids.is_empty() { b"]\n}\n" } else { b"\n  ]\n}\n" })
}

/// A body that is no JSON stands as a string.
fn payload(body: &[u8], redacted: &[(String, Value)]) -> Value {
    match serde_json::from_slice(body) {
        Ok(mut body) => {
            redact_body(&mut body, redacted);
            body
        }
        Err(_) => Value::String(String::from_utf8_lossy(body).into_owned()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sessions_are_written_as_one_document() {
        let mut out = Vec::new();
        let mut ids = Vec::new();
        let sessions = vec![
            ("a".to_owned(), vec![br#"{"model":"m","n":1}"#.to_vec()]),
            ("b".to_owned(), vec![b"plain".to_vec()]),
        ];
        write(&mut out, sessions, &[], &mut ids).unwrap();
        let expected = r#"{
  "data": [
    {
      "session_id": "a",
      "payloads": [
        {
          "model": "m",
          "n": 1
        }
      ]
    },
    {
      "session_id": "b",
      "payloads": [
        "plain"
      ]
    }
  ]
}
"#;
        assert_eq!(String::from_utf8(out).unwrap(), expected);
        assert_eq!(ids, ["a", "b"]);
    }

    #[test]
    fn no_sessions_are_still_a_document() {
        let mut out = Vec::new();
        write(&mut out, Vec::new(), &[], &mut Vec::new()).unwrap();
        assert_eq!(out, b"{\n  \"data\": []\n}\n");
    }
}
