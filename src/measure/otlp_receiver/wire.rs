//! Finds the spans in an encoded `ExportTraceServiceRequest`, without copies.
//!
//! Requests are walked field by field, and a span is decoded once a record of this run has
//! claimed it.

use std::sync::Arc;

use serde_json::Value;

use base::input::protobuf::{Content, Malformed, each_field, each_nested};
use client::record::{OriginalSpan, ServerSpan};
use otlp::append;

/// Maximum length of an attribute that is a text, in bytes.
const MAX_TEXT: usize = 256;

/// Maximum number of attributes, and of events, of a span.
const MAX_ENTRIES: usize = 64;

/// The list of a request, of a resource and of a scope: their numbers in protobuf.
pub(super) const RESOURCE_SPANS: u32 = 1;
pub(super) const SCOPE_SPANS: u32 = 2;
pub(super) const SPANS: u32 = 2;
/// The list of a span.
const ATTRIBUTES: u32 = 9;

/// The beginnings of the names of attributes that tell where in the server's code a span is.
const CODE: &[&str] = &["code.", "thread."];

/// What the spans of a scope have in common: the fields of the resource and of the scope, encoded,
/// without what they contain.
#[derive(Debug, Clone)]
pub(super) struct Source {
    pub(super) resource: Arc<[u8]>,
    pub(super) scope: Arc<[u8]>,
}

/// Gives each span of the request `body` to `sink`, with its source.
///
/// # Errors
///
/// If the bytes are not valid protobuf. The spans before them have been given.
pub(super) fn each_span(
    body: &[u8],
    sink: &mut dyn FnMut(&Source, &[u8]),
) -> Result<(), Malformed> {
    each_nested(body, RESOURCE_SPANS, &mut |resource_spans| {
        let resource: Arc<[u8]> = without(resource_spans, SCOPE_SPANS)?.into();
        each_nested(resource_spans, SCOPE_SPANS, &mut |scope_spans| {
            let scope = without(scope_spans, SPANS)?.into();
            let source = Source { resource: Arc::clone(&resource), scope };
            each_nested(scope_spans, SPANS, &mut |span| {
                sink(&source, span);
                Ok(())
            })
        })
    })
}

/// Returns `message` without the fields with this number.
fn without(message: &[u8], unwanted: u32) -> Result<Vec<u8>, Malformed> {
    let mut rest = Vec::new();
    each_field(message, &mut |number, _, encoded| {
        if number != unwanted {
            rest.extend_from_slice(encoded);
        }
        Ok(())
    })?;
    Ok(rest)
}

/// What of a span decides where it belongs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct SpanPlace {
    pub(super) trace: [u8; 16],
    pub(super) span: [u8; 8],
    /// Zeros without a parent.
    pub(super) parent: [u8; 8],
    /// Its end, in nanoseconds since the Unix epoch.
    pub(super) end_ns: u64,
}

/// Reads the place of an encoded span.
///
/// # Errors
///
/// If it is not valid protobuf, or its IDs are not.
pub(super) fn place(span: &[u8]) -> Result<SpanPlace, Malformed> {
    let (mut trace, mut id, mut parent, mut end_ns) = ([0; 16], [0; 8], [0; 8], 0);
    each_field(span, &mut |number, content, _| {
        match (number, content) {
            (1, Content::Bytes(bytes)) => trace = bytes.try_into().map_err(|_| Malformed)?,
            (2, Content::Bytes(bytes)) => id = bytes.try_into().map_err(|_| Malformed)?,
            (4, Content::Bytes([])) => parent = [0; 8],
            (4, Content::Bytes(bytes)) => parent = bytes.try_into().map_err(|_| Malformed)?,
            (8, Content::Number(number)) => end_ns = number,
            _ => {}
        }
        Ok(())
    })?;
    if trace == [0; 16] || id == [0; 8] {
        return Err(Malformed);
    }
    Ok(SpanPlace { trace, span: id, parent, end_ns })
}

/// Returns the texts of those attributes of an encoded span, in `names`, that have one; the first
/// that `read` accepts.
pub(super) fn first_text<T>(
    span: &[u8],
    names: &[&str],
    read: impl Fn(&str) -> Option<T>,
) -> Option<T> {
    let mut found = None;
    let walked = each_nested(span, ATTRIBUTES, &mut |pair| {
        if found.is_none()
            && let Some((name, text)) = text_of(pair)
            && names.contains(&name)
        {
            found = read(text);
        }
        Ok(())
    });
    walked.ok().and(found)
}

/// Returns `service.name` of the encoded fields of a resource; empty without one.
pub(super) fn service(resource_spans: &[u8]) -> &str {
    const RESOURCE: u32 = 1;
    const ITS_ATTRIBUTES: u32 = 1;
    let mut service = "";
    // Without a service, the span is as good.
    let _ = each_nested(resource_spans, RESOURCE, &mut |resource| {
        each_nested(resource, ITS_ATTRIBUTES, &mut |pair| {
            if let Some(("service.name", text)) = text_of(pair) {
                service = text;
            }
            Ok(())
        })
    });
    service
}

/// Returns the name and the value of an encoded attribute, if it is a text.
fn text_of(pair: &[u8]) -> Option<(&str, &str)> {
    let (mut name, mut text) = (None, None);
    each_field(pair, &mut |number, content, _| {
        match (number, content) {
            (1, Content::Bytes(bytes)) => name = std::str::from_utf8(bytes).ok(),
            (2, Content::Bytes(value)) => each_nested(value, 1, &mut |bytes| {
                text = std::str::from_utf8(bytes).ok();
                Ok(())
            })?,
            _ => {}
        }
        Ok(())
    })
    .ok()?;
    name.zip(text)
}

/// Returns the name of the scope with these encoded fields; empty without one.
fn scope_name(scope_spans: &[u8]) -> &str {
    let mut found = "";
    // Without a name, the span is as good.
    let _ = each_nested(scope_spans, 1, &mut |scope| {
        each_nested(scope, 1, &mut |name| {
            found = std::str::from_utf8(name).unwrap_or_default();
            Ok(())
        })
    });
    found
}

/// Reads a span of the request whose own span has the ID `request`. Its links and the attributes of
/// its events are skipped, which are most of the work of decoding it as a whole.
///
/// # Errors
///
/// If it is not valid protobuf.
pub(super) fn decode(original: OriginalSpan, request: [u8; 8]) -> Result<ServerSpan, Malformed> {
    let mut span = ServerSpan::default();
    let bytes = Arc::clone(&original.span);
    each_field(&bytes, &mut |number, content, _| {
        match (number, content) {
            (2, Content::Bytes(id)) => span.id = id.try_into().map_err(|_| Malformed)?,
            (4, Content::Bytes(id)) => span.parent = id.try_into().unwrap_or_default(),
            (5, Content::Bytes(name)) => shortened(text(name)?).clone_into(&mut span.name),
            (7, Content::Number(at)) => span.start_ns = at,
            (8, Content::Number(at)) => span.end_ns = at,
            (ATTRIBUTES, Content::Bytes(pair)) if span.attributes.len() < MAX_ENTRIES => {
                if let Some((name, value)) = attribute(pair)? {
                    span.attributes.insert(name.to_owned(), value);
                }
            }
            (11, Content::Bytes(event)) if span.events.len() < MAX_ENTRIES => {
                span.events.push(self::event(event)?);
            }
            _ => {}
        }
        Ok(())
    })?;
    span.service = shortened(service(&original.resource)).into();
    span.scope = shortened(scope_name(&original.scope)).into();
    span.is_child_of_request = span.parent == request;
    span.original = original;
    Ok(span)
}

/// Returns an attribute, unless it is about the server's code, or its value is something else than a
/// short text, a number or a boolean.
fn attribute(pair: &[u8]) -> Result<Option<(&str, Value)>, Malformed> {
    let (mut name, mut value) = ("", None);
    each_field(pair, &mut |number, content, _| {
        match (number, content) {
            (1, Content::Bytes(bytes)) => name = text(bytes)?,
            (2, Content::Bytes(bytes)) => value = Some(bytes),
            _ => {}
        }
        Ok(())
    })?;
    let is_about_code = CODE.iter().any(|prefix| name.starts_with(prefix));
    let value = value.filter(|_| !is_about_code && name.len() <= MAX_TEXT);
    Ok(value.map(plain).transpose()?.flatten().map(|value| (name, value)))
}

/// Returns the value of an attribute as JSON, if it is a short text, a number or a boolean.
fn plain(value: &[u8]) -> Result<Option<Value>, Malformed> {
    let mut found = None;
    each_field(value, &mut |number, content, _| {
        found = match (number, content) {
            (1, Content::Bytes(bytes)) if bytes.len() <= MAX_TEXT => Some(text(bytes)?.into()),
            (2, Content::Number(number)) => Some((number != 0).into()),
            (3, Content::Number(number)) => Some(number.cast_signed().into()),
            (4, Content::Number(bits)) => Some(f64::from_bits(bits).into()),
            _ => None,
        };
        Ok(())
    })?;
    Ok(found)
}

/// Returns the name and the time of an event.
fn event(event: &[u8]) -> Result<(String, u64), Malformed> {
    let (mut name, mut at) = ("", 0);
    each_field(event, &mut |number, content, _| {
        match (number, content) {
            (1, Content::Number(number)) => at = number,
            (2, Content::Bytes(bytes)) => name = text(bytes)?,
            _ => {}
        }
        Ok(())
    })?;
    Ok((shortened(name).to_owned(), at))
}

fn text(bytes: &[u8]) -> Result<&str, Malformed> {
    std::str::from_utf8(bytes).map_err(|_| Malformed)
}

/// Returns the beginning of `text`, at most 256 bytes of it.
fn shortened(text: &str) -> &str {
    text.get(..text.floor_char_boundary(MAX_TEXT)).unwrap_or_default()
}

/// Encodes spans with their sources as a request.
pub fn request(spans: &[ServerSpan]) -> Vec<u8> {
    let mut request = Vec::new();
    for span in spans {
        let OriginalSpan { resource, scope, span } = &span.original;
        let mut scope_spans = scope.to_vec();
        append(SPANS, &[span], &mut scope_spans);
        let mut resource_spans = resource.to_vec();
        append(SCOPE_SPANS, &[&scope_spans], &mut resource_spans);
        append(RESOURCE_SPANS, &[&resource_spans], &mut request);
    }
    request
}

#[cfg(test)]
mod tests;
