//! Request bodies of several parts, including files (`multipart/form-data`, RFC 7578).

use std::fmt::Write as _;

use memchr::memmem;
use serde_json::Value;

use dataset::Inline;

use super::Config;

/// The boundary, as a macro because `concat` accepts only literals.
macro_rules! boundary {
    () => {
        "aiperf-5f1d8a3c94e7426bb0d2-boundary"
    };
}

/// The media type of such a body. All bodies have the same boundary; a check before the run ensures
/// that no part contains it.
pub(super) const CONTENT_TYPE: &str = concat!("multipart/form-data; boundary=", boundary!());
/// The delimiter of parts, written after a line break and two dashes.
pub(super) const BOUNDARY: &str = boundary!();

/// A builder for a body.
pub(super) struct Form<'a> {
    bytes: Vec<u8>,
    extras: &'a [(String, Value)],
}

impl<'a> Form<'a> {
    pub(super) fn new(config: &'a Config) -> Self {
        Self { bytes: Vec::new(), extras: &config.extra_inputs }
    }

    /// Adds a field; an extra input of the same name replaces it.
    pub(super) fn field(mut self, name: &str, value: &str) -> Self {
        if !self.extras.iter().any(|(extra, _)| extra == name) {
            self.put(name, None, value.as_bytes());
        }
        self
    }

    pub(super) fn file(mut self, name: &str, stem: &str, file: &Inline) -> Self {
        let file_name = format!("{stem}.{}", file.format());
        self.put(name, Some((&file_name, &file.media_type)), &file.bytes);
        self
    }

    /// Returns the whole body, with the extra inputs at the end.
    pub(super) fn into_bytes(mut self) -> Vec<u8> {
        for (name, value) in self.extras {
            match value {
                Value::String(text) => self.put(name, None, text.as_bytes()),
                value => self.put(name, None, value.to_string().as_bytes()),
            }
        }
        self.bytes.extend(format!("--{BOUNDARY}--\r\n").into_bytes());
        self.bytes
    }

    fn put(&mut self, name: &str, file: Option<(&str, &str)>, content: &[u8]) {
        let mut head =
            format!("--{BOUNDARY}\r\ncontent-disposition: form-data; name=\"{}\"", escaped(name));
        if let Some((file_name, media_type)) = file {
            let _ = write!(head, "; filename=\"{file_name}\"\r\ncontent-type: {media_type}");
        }
        head.push_str("\r\n\r\n");
        self.bytes.reserve(head.len() + content.len() + 2 * BOUNDARY.len());
        self.bytes.extend_from_slice(head.as_bytes());
        self.bytes.extend_from_slice(content);
        self.bytes.extend_from_slice(b"\r\n");
    }
}

/// A part of a body, as returned by [`parts`].
#[derive(Debug, PartialEq, Eq)]
pub struct Part<'a> {
    /// The field's name, escaped.
    pub name: &'a str,
    /// File name and media type, if it is a file.
    pub file: Option<(&'a str, &'a str)>,
    /// The value, or the file's content.
    pub content: &'a [u8],
}

/// Returns the parts of a body that was built here; `None` for any other.
#[must_use]
pub fn parts(body: &[u8]) -> Option<Vec<Part<'_>>> {
    let separator = memmem::Finder::new(concat!("\r\n--", boundary!()));
    let mut rest = body.strip_prefix(&separator.needle()[2..])?;
    let mut parts = Vec::new();
    while rest != b"--\r\n" {
        let end = separator.find(rest)?;
        parts.push(part(&rest[..end])?);
        rest = &rest[end + separator.needle().len()..];
    }
    Some(parts)
}

fn part(bytes: &[u8]) -> Option<Part<'_>> {
    let end = memmem::find(bytes, b"\r\n\r\n")?;
    let head = std::str::from_utf8(&bytes[..end]).ok()?;
    let (name, rest) = head.split_once("; name=\"")?.1.split_once('"')?;
    let file = rest.strip_prefix("; filename=\"").and_then(|rest| rest.split_once('"'));
    let file = file.map(|(file_name, rest)| {
        (file_name, rest.strip_prefix("\r\ncontent-type: ").unwrap_or_default())
    });
    Some(Part { name, file, content: &bytes[end + 4..] })
}

/// Escapes a field's name as browsers do (HTML, 4.10.21.8).
fn escaped(name: &str) -> String {
    name.replace('\r', "%0D").replace('\n', "%0A").replace('"', "%22")
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::super::EndpointType;
    use super::super::fixture::config;
    use super::*;

    #[test]
    fn fields_files_and_extras_are_parts() {
        let mut config = config(EndpointType::IMAGE_EDIT, false);
        config.extra_inputs = vec![
            ("size".to_owned(), json!("1x1")),
            ("n".to_owned(), json!(2)),
            ("a\"b".to_owned(), json!(true)),
        ];
        let file = Inline { media_type: "audio/mpeg".into(), bytes: vec![0xff, 0x0d, 0x0a].into() };
        let form =
            Form::new(&config).field("n", "1").field("model", "m").file("file", "audio", &file);
        let part =
            |rest: &str| format!("--{BOUNDARY}\r\ncontent-disposition: form-data; {rest}\r\n");
        let expected = [
            part("name=\"model\"\r\n\r\nm").into_bytes(),
            format!("--{BOUNDARY}\r\ncontent-disposition: form-data; name=\"file\"; ").into_bytes(),
            b"filename=\"audio.mp3\"\r\ncontent-type: audio/mpeg\r\n\r\n\xff\r\n\r\n".to_vec(),
            part("name=\"size\"\r\n\r\n1x1").into_bytes(),
            part("name=\"n\"\r\n\r\n2").into_bytes(),
            part("name=\"a%22b\"\r\n\r\ntrue").into_bytes(),
            format!("--{BOUNDARY}--\r\n").into_bytes(),
        ];
        let bytes = form.into_bytes();
        assert_eq!(bytes, expected.concat());
        let text = |name, content| Part { name, file: None, content };
        assert_eq!(
            parts(&bytes).unwrap(),
            [
                text("model", b"m"),
                Part {
                    name: "file",
                    file: Some(("audio.mp3", "audio/mpeg")),
                    content: b"\xff\r\n",
                },
                text("size", b"1x1"),
                text("n", b"2"),
                text("a%22b", b"true"),
            ]
        );
        for end in 0..bytes.len() {
            assert_eq!(parts(&bytes[..end]), None);
        }
        assert!(CONTENT_TYPE.ends_with(BOUNDARY));
    }
}
