//! Request bodies as shown in files: each is a JSON object.
//!
//! A body that is an object is unchanged. A form (`multipart/form-data`) has a member for each
//! field: text as a string, a file as `{"filename", "content_type", "base64"}`, a list if a name
//! repeats. Any other body is `{"body": ...}`, as JSON or as text.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde::Serialize;
use serde_json::value::RawValue;
use serde_json::{Map, Value, json};

use base::redact;
use client::endpoint::multipart::{self, Part};

use super::redacted::redact_body;

/// A body, unchanged if no member needs to be replaced.
#[derive(Serialize)]
#[serde(untagged)]
pub(super) enum Payload<'a> {
    Sent(&'a RawValue),
    Shown(Value),
}

/// Returns the body on one line, with the members of `redacted`.
pub(super) fn on_one_line<'a>(body: &'a [u8], redacted: &[(String, Value)]) -> Payload<'a> {
    let stays = redacted.is_empty()
        && body.first() == Some(&b'{')
        && !body.contains(&b'\n')
        && !redact::may_have_urls(body)
        && !redact::may_have_credentials(body);
    match serde_json::from_slice(body) {
        Ok(json) if stays => Payload::Sent(json),
        _ => Payload::Shown(object(body, redacted)),
    }
}

/// Returns the body as an object, with the members of `redacted`.
pub(super) fn object(body: &[u8], redacted: &[(String, Value)]) -> Value {
    let mut shown = match serde_json::from_slice(body) {
        Ok(object @ Value::Object(_)) => object,
        Ok(other) => json!({"body": other}),
        Err(_) => match multipart::parts(body) {
            Some(parts) => form(&parts),
            None => json!({"body": String::from_utf8_lossy(body)}),
        },
    };
    redact_body(&mut shown, redacted);
    shown
}

fn form(parts: &[Part<'_>]) -> Value {
    let mut fields = Map::new();
    for part in parts {
        let value = match part.file {
            Some((name, media_type)) => json!({
                "filename": name,
                "content_type": media_type,
                "base64": STANDARD.encode(part.content),
            }),
            None => String::from_utf8_lossy(part.content).into(),
        };
        match fields.get_mut(part.name) {
            Some(Value::Array(values)) => values.push(value),
            Some(earlier) => *earlier = json!([earlier.take(), value]),
            None => {
                fields.insert(part.name.to_owned(), value);
            }
        }
    }
    Value::Object(fields)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn line(body: &[u8]) -> String {
        serde_json::to_string(&on_one_line(body, &[])).unwrap()
    }

    #[test]
    fn every_body_is_an_object_on_one_line() {
        assert_eq!(line(br#"{"model": "m"}"#), r#"{"model": "m"}"#);
        assert_eq!(line(b"{\n}"), "{}");
        assert_eq!(line(b"[1]"), r#"{"body":[1]}"#);
        assert_eq!(line(b"not json"), r#"{"body":"not json"}"#);
        // A repeated name becomes a list; bytes that are not text are kept unchanged.
        let file =
            |content| Part { name: "image", file: Some(("image.png", "image/png")), content };
        let parts = [Part { name: "model", file: None, content: b"m" }, file(b"\xff"), file(b"")];
        let image = |base64: &str| json!({"filename": "image.png", "content_type": "image/png", "base64": base64});
        assert_eq!(form(&parts), json!({"model": "m", "image": [image("/w=="), image("")]}));
    }

    proptest! {
        #[test]
        fn any_bytes_make_one_line_of_json(body in any::<Vec<u8>>()) {
            let written = line(&body);
            prop_assert!(!written.contains('\n'));
            prop_assert!(serde_json::from_str::<Map<String, Value>>(&written).is_ok());
        }
    }
}
