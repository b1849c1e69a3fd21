//! The fields of one server-sent event, as specified in the WHATWG's HTML standard, section
//! "Interpreting an event stream".

use std::borrow::Cow;

/// The fields of an event that are used. `id` and `retry` are for reconnecting, which a benchmark
/// does not do.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct SseFields<'a> {
    /// The values of all `data` lines, joined by line feeds; absent if there are none.
    pub data: Option<Cow<'a, [u8]>>,
    /// The value of the last `event` line.
    pub event: Option<&'a [u8]>,
    /// The last comment, without its colon. The standard ignores comments, but Dynamo reports
    /// errors in them.
    pub comment: Option<&'a [u8]>,
}

/// Parses the lines of one event, which end in CR LF, LF or CR. A byte order mark at the start is
/// ignored.
#[must_use]
pub fn data(event: &[u8]) -> SseFields<'_> {
    let mut fields = SseFields::default();
    let mut rest = event.strip_prefix(b"\xef\xbb\xbf").unwrap_or(event);
    while !rest.is_empty() {
        let (line, after) = next_line(rest);
        rest = after;
        read_line(line, &mut fields);
    }
    fields
}

fn read_line<'a>(line: &'a [u8], fields: &mut SseFields<'a>) {
    let (name, value) = match memchr::memchr(b':', line) {
        Some(colon) => {
            let value = &line[colon + 1..];
            (&line[..colon], value.strip_prefix(b" ").unwrap_or(value))
        }
        None => (line, &line[line.len()..]),
    };
    match name {
        b"data" => match &mut fields.data {
            None => fields.data = Some(Cow::Borrowed(value)),
            Some(joined) => {
                let joined = joined.to_mut();
                joined.push(b'\n');
                joined.extend_from_slice(value);
            }
        },
        b"event" => fields.event = Some(value),
        // Not a field of the standard: older servers of llama.cpp report errors in it.
        b"error" => (fields.event, fields.data) = (Some(name), Some(Cow::Borrowed(value))),
        b"" if !line.is_empty() => fields.comment = Some(value),
        _ => {}
    }
}

/// Returns the first line of `text` without its line break, and the rest.
fn next_line(text: &[u8]) -> (&[u8], &[u8]) {
    match memchr::memchr2(b'\r', b'\n', text) {
        None => (text, &[]),
        Some(at) => {
            let end = if text[at..].starts_with(b"\r\n") { at + 2 } else { at + 1 };
            (&text[..at], &text[end..])
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn text(event: &[u8]) -> Option<String> {
        data(event).data.map(|bytes| String::from_utf8(bytes.into_owned()).unwrap())
    }

    // The first four are the examples in the standard.
    #[test]
    fn examples_of_the_standard() {
        assert_eq!(text(b"data: YHOO\ndata: +2\ndata: 10").unwrap(), "YHOO\n+2\n10");
        assert_eq!(data(b": test stream").data, None);
        assert_eq!(text(b"data\ndata").unwrap(), "\n");
        assert_eq!(text(b"data:test").unwrap(), text(b"data: test").unwrap());
        assert_eq!(text(b"data:  two spaces").unwrap(), " two spaces");
    }

    #[test]
    fn every_line_end_is_one() {
        for event in ["event: e\r\ndata: 1\r\ndata: 2", "event: e\rdata: 1\rdata: 2\r"] {
            let fields = data(event.as_bytes());
            assert_eq!(fields.event, Some(&b"e"[..]));
            assert_eq!(fields.data.as_deref(), Some(&b"1\n2"[..]));
        }
    }

    #[test]
    fn other_fields_and_near_misses_are_ignored() {
        let fields = data(b"id: 7\nretry: 10\nDATA: no\n data: no\ndatax: no\n:note\ndata: a:b");
        assert_eq!(fields.data.as_deref(), Some(&b"a:b"[..]));
        assert_eq!(fields.comment, Some(&b"note"[..]));
        assert_eq!(fields.event, None);
    }

    #[test]
    fn a_byte_order_mark_is_dropped() {
        assert_eq!(text("\u{feff}data: x".as_bytes()).unwrap(), "x");
    }

    proptest! {
        #[test]
        fn any_bytes_are_read(event: Vec<u8>) {
            let _ = data(&event);
        }

        #[test]
        fn lines_come_back_joined(
            lines in prop::collection::vec("[^\r\n]{0,12}", 1..6),
            end in prop::sample::select(vec!["\n", "\r\n", "\r"]),
        ) {
            let mut event = String::new();
            for line in &lines {
                event += &["data: ", line, end].concat();
            }
            prop_assert_eq!(text(event.as_bytes()).unwrap(), lines.join("\n"));
        }
    }
}
