//! vLLM's own spans: one for each request, with lengths and without content.

use super::{Dialect, OperationKind};
use crate::file::otel::span::Span;

pub(super) const DIALECT: Dialect = Dialect { kind, content: |_| None };

fn kind(span: &Span) -> Option<OperationKind> {
    let is_request =
        span.name == "llm_request" && span.attributes.contains_key("gen_ai.request.id");
    is_request.then_some(OperationKind::Call)
}
