//! `inputs.json`: the request bodies of the run, by conversation.

use std::io::{self, Write};

use serde_json::Value;

use super::payload;

/// Maximum size of the file in bytes; a larger one would not be useful.
pub const MAX_INPUT_BYTES: usize = 256 << 20;

/// Writes `{"data":[{"session_id", "payloads"}]}`, indented by two spaces, one body at a time, with
/// the members of `redacted` in bodies; stores the session IDs in `ids`. Returns false, with an
/// incomplete file, if `goes_on` rejects the number of bytes.
pub(super) fn write<P: IntoIterator<Item = Vec<u8>>>(
    out: &mut dyn Write,
    sessions: impl IntoIterator<Item = (String, P)>,
    redacted: &[(String, Value)],
    ids: &mut Vec<String>,
    goes_on: &dyn Fn(usize) -> bool,
) -> io::Result<bool> {
    ids.clear();
    let mut written = 0;
    out.write_all(b"{\n  \"data\": [")?;
    for (at, (session_id, payloads)) in sessions.into_iter().enumerate() {
        let comma = if at == 0 { "" } else { "," };
        let id = serde_json::to_string(&session_id)?;
        write!(out, "{comma}\n    {{\n      \"session_id\": {id},\n      \"payloads\": [")?;
        written += id.len();
        ids.push(session_id);
        let mut is_empty = true;
        for body in payloads {
            out.write_all(if is_empty { b"\n        " } else { b",\n        " })?;
            is_empty = false;
            let text = serde_json::to_string_pretty(&payload::object(&body, redacted))?;
            // JSON strings contain no line feeds, so all are the formatter's.
            let text = text.replace('\n', "\n        ");
            written += text.len();
            if !goes_on(written) {
                return Ok(false);
            }
            out.write_all(text.as_bytes())?;
        }
        out.write_all(if is_empty { b"]\n    }" } else { b"\n      ]\n    }" })?;
    }
    out.write_all(if ids.is_empty() { b"]\n}\n" } else { b"\n  ]\n}\n" })?;
    Ok(true)
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
        write(&mut out, sessions, &[], &mut ids, &|_| true).unwrap();
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
        {
          "body": "plain"
        }
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
        let none: Vec<(String, Vec<Vec<u8>>)> = Vec::new();
        write(&mut out, none, &[], &mut Vec::new(), &|_| true).unwrap();
        assert_eq!(out, b"{\n  \"data\": []\n}\n");
    }

    #[test]
    fn writing_ends_when_it_is_not_wanted_any_more() {
        let made = std::cell::Cell::new(0);
        let body = |_| {
            made.set(made.get() + 1);
            b"{}".to_vec()
        };
        let sessions = [("a".to_owned(), (0..1000).map(body))];
        let outcome = write(&mut Vec::new(), sessions, &[], &mut Vec::new(), &|_| made.get() < 3);
        assert!(!outcome.unwrap());
        assert_eq!(made.get(), 3);
        // An ID of 3 bytes with its quotes, and bodies of 2.
        let bounded = |most: usize| {
            let sessions = [("a".to_owned(), vec![b"{}".to_vec(); 10])];
            write(&mut Vec::new(), sessions, &[], &mut Vec::new(), &|bytes| bytes <= most).unwrap()
        };
        assert_eq!([22, 23].map(bounded), [false, true]);
    }
}
