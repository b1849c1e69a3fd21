//! OTLP/JSON requests with spans, converted to protobuf span by span.

use otlp::{self, each_element};

use super::wire::{RESOURCE_SPANS, SCOPE_SPANS, SPANS, Source};

/// Gives each span of the request `body` to `sink`, encoded in protobuf, with its source. `None`
/// stands for a span that is not valid or longer than `most` bytes.
///
/// # Errors
///
/// If the body is not JSON, or not of this form. The spans before the error have been given.
pub(super) fn each_span(
    body: &[u8],
    most: usize,
    sink: &mut dyn FnMut(&Source, Option<&[u8]>),
) -> Result<(), String> {
    let body = std::str::from_utf8(body).map_err(|error| error.to_string())?;
    each_element(body, &otlp::TRACES, RESOURCE_SPANS, usize::MAX, &mut |_, of_resource| {
        let message = &otlp::RESOURCE_SPANS;
        each_element(of_resource, message, SCOPE_SPANS, most, &mut |resource, of_scope| {
            each_element(of_scope, &otlp::SCOPE_SPANS, SPANS, most, &mut |scope, span| {
                let source = Source { resource: resource.clone(), scope: scope.clone() };
                let text = Some(span).filter(|text| text.len() <= most);
                let span = text.and_then(|text| otlp::from_json(text, &otlp::SPAN).ok());
                sink(&source, span.as_deref());
                Ok(())
            })
        })
    })
}
