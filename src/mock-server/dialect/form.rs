//! Multipart bodies (`multipart/form-data`, RFC 7578).

use std::borrow::Cow;

use memchr::memmem;

use super::Call;
use crate::request::{BadRequest, missing};

/// Maximum number of parts of a body.
const MAX_PARTS: usize = 256;

/// The parts of a body.
#[derive(Debug)]
pub(super) struct Form<'a> {
    parts: Vec<Part<'a>>,
}

#[derive(Debug)]
struct Part<'a> {
    name: &'a str,
    is_file: bool,
    content: &'a [u8],
}

impl<'a> Form<'a> {
    pub(super) fn read(call: &Call<'a>) -> Result<Self, BadRequest> {
        let wrong = |message: &str| BadRequest { message: message.to_owned(), param: None };
        let (kind, parameter) =
            call.content_type.and_then(|t| t.split_once(';')).unwrap_or_default();
        let boundary = parameter.trim().strip_prefix("boundary=").unwrap_or_default();
        let boundary = boundary.trim_matches('"');
        if kind.trim() != "multipart/form-data" || boundary.is_empty() {
            return Err(wrong("The body must be multipart/form-data with a boundary."));
        }
        let separator = format!("\r\n--{boundary}");
        let opening = call.body.strip_prefix(&separator.as_bytes()[2..]);
        let mut rest =
            opening.ok_or_else(|| wrong("The body does not begin with its boundary."))?;
        let separator = memmem::Finder::new(&separator);
        let mut parts = Vec::new();
        while !rest.starts_with(b"--") {
            let end = separator.find(rest).ok_or_else(|| wrong("A part does not end."))?;
            if parts.len() == MAX_PARTS {
                return Err(wrong("There are too many parts."));
            }
            parts.push(
                Part::read(&rest[..end]).ok_or_else(|| wrong("A part does not have a name."))?,
            );
            rest = &rest[end + separator.needle().len()..];
        }
        Ok(Self { parts })
    }

    pub(super) fn text(&self, name: &str) -> Option<Cow<'a, str>> {
        let part = self.parts.iter().find(|part| part.name == name && !part.is_file)?;
        Some(String::from_utf8_lossy(part.content))
    }

    /// Returns the first file with this name.
    pub(super) fn file(&self, name: &'static str) -> Result<&'a [u8], BadRequest> {
        let found = self.parts.iter().find(|part| part.name == name && part.is_file);
        found.map(|part| part.content).ok_or_else(|| missing(name))
    }

    /// Returns whether a field has a true value.
    pub(super) fn is_set(&self, name: &str) -> bool {
        self.text(name).is_some_and(|text| text == "true" || text == "1")
    }
}

impl<'a> Part<'a> {
    fn read(bytes: &'a [u8]) -> Option<Self> {
        let end = memmem::find(bytes, b"\r\n\r\n")?;
        let head = std::str::from_utf8(&bytes[..end]).ok()?;
        let (_, after) = head.split_once(" name=\"")?;
        let (name, rest) = after.split_once('"')?;
        Some(Self { name, is_file: rest.contains("filename="), content: &bytes[end + 4..] })
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::super::Route;
    use super::*;

    static ROUTE: Route = Route::generate("/");

    fn read<'a>(content_type: &'a str, body: &'a [u8]) -> Result<Form<'a>, BadRequest> {
        Form::read(&Call { route: &ROUTE, name: None, content_type: Some(content_type), body })
    }

    const TYPE: &str = "multipart/form-data; boundary=b-b";

    #[test]
    fn parts_are_fields_and_files() {
        let body = b"--b-b\r\ncontent-disposition: form-data; name=\"n\"\r\n\r\n1\r\n\
            --b-b\r\nContent-Disposition: form-data; name=\"file\"; filename=\"a.wav\"\r\n\
            content-type: audio/wav\r\n\r\n\xff\r\n\r\n--\r\n--b-b--\r\n";
        let form = read(TYPE, body).unwrap();
        assert_eq!(form.text("n").as_deref(), Some("1"));
        assert!(form.is_set("n"));
        assert_eq!(form.file("file").unwrap(), b"\xff\r\n\r\n--");
        assert_eq!(form.file("n").unwrap_err().param, Some("n"));
        assert_eq!(form.text("file"), None);
    }

    #[test]
    fn bodies_that_are_none_are_refused() {
        for (kind, body) in [
            ("application/json", &b"--b-b--"[..]),
            ("multipart/form-data", b"--b-b--"),
            (TYPE, b""),
            (TYPE, b"--b-b\r\n\r\n\r\n"),
            (TYPE, b"--b-b\r\nx\r\n\r\ny\r\n--b-b--"),
        ] {
            assert!(read(kind, body).is_err(), "{kind}");
        }
    }

    proptest! {
        #[test]
        fn no_body_panics(body: Vec<u8>, shaped in "(--b-b|\r\n| name=\"|filename=|x){0,30}") {
            for body in [&body[..], shaped.as_bytes()] {
                let _ = read(TYPE, body);
            }
        }
    }
}
