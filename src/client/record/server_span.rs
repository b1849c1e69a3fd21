//! A span of a server about one request.

use std::sync::Arc;

use serde_json::{Map, Value};

/// A span that a server has sent about one request, with what explains its time.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ServerSpan {
    /// `service.name` of the process that sent it; empty if it has none.
    pub service: Arc<str>,
    /// Name of the instrumentation scope.
    pub scope: Arc<str>,
    /// Name of the span.
    pub name: String,
    /// Span ID.
    pub id: [u8; 8],
    /// ID of its parent; zeros for the root of a trace.
    pub parent: [u8; 8],
    /// Whether its parent is the client's span of the request.
    pub is_child_of_request: bool,
    /// Wall time of its start on the server's clock, in nanoseconds since the Unix epoch.
    pub start_ns: u64,
    /// Wall time of its end, in the same unit.
    pub end_ns: u64,
    /// Attributes that are texts of at most 256 bytes, numbers or booleans.
    pub attributes: Map<String, Value>,
    /// Events: names, and wall times in nanoseconds since the Unix epoch.
    pub events: Vec<(String, u64)>,
    /// The span as it was received, to be passed on.
    pub original: OriginalSpan,
}

/// A span as the server encoded it in protobuf.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct OriginalSpan {
    /// The fields of its `ResourceSpans`, without the scopes.
    pub resource: Arc<[u8]>,
    /// The fields of its `ScopeSpans`, without the spans.
    pub scope: Arc<[u8]>,
    /// The `Span`.
    pub span: Arc<[u8]>,
}
