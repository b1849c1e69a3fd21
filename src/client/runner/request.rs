//! Request headers.

use http::HeaderMap;
use http::header::{
    ACCEPT, AUTHORIZATION, CONTENT_LENGTH, CONTENT_TYPE, HOST, HeaderName, HeaderValue,
    TRANSFER_ENCODING, USER_AGENT,
};
use thiserror::Error;
use uuid::Uuid;

use crate::endpoint::EndpointTraits;
use crate::record::{TraceContext, TraceFlags, TraceShare};
use crate::transport::RequestHeaders;

/// Header with the ID of the request.
const REQUEST_ID: HeaderName = HeaderName::from_static("x-request-id");
/// Header with the ID of the session, the same for all its requests.
const CORRELATION_ID: HeaderName = HeaderName::from_static("x-correlation-id");
/// Header that repeats the ID of the session for Dynamo.
const DYNAMO_SESSION: HeaderName = HeaderName::from_static("x-dynamo-session-id");
/// Header with the ID of the session that started a session, for Dynamo.
const DYNAMO_PARENT: HeaderName = HeaderName::from_static("x-dynamo-parent-session-id");

/// Position of the request in a trace, following W3C Trace Context.
const TRACEPARENT: HeaderName = HeaderName::from_static("traceparent");
/// How the trace was sampled, if it is.
const TRACESTATE: HeaderName = HeaderName::from_static("tracestate");

/// A header that cannot be sent.
#[derive(Debug, Error, PartialEq, Eq)]
pub enum HeaderError {
    /// The name is not a valid header name.
    #[error("{0:?} is not a valid header name; write headers as \"Name: value\"")]
    Name(String),
    /// The name has a meaning of its own, so that it cannot have the session ID.
    #[error("{0:?} is set for every request already; choose another name")]
    Taken(String),
    /// The value has characters that are not allowed in a header. The value may be secret.
    #[error("the value of header {0:?} contains characters that are not valid in a header")]
    Value(String),
}

/// Builds requests' headers: those common to all requests, and those of a single request.
#[derive(Debug, Clone)]
pub struct RequestBuilder {
    base: HeaderMap,
    /// Name of the header with the session ID.
    session: HeaderName,
    /// Further headers with the session ID, for routers that keep a session on one server.
    copies: Vec<HeaderName>,
    /// The trace context of requests; `None` if they do not carry any.
    traced: Option<Traced>,
}

/// The trace headers of requests.
#[derive(Debug, Clone)]
struct Traced {
    /// Traces that are marked as sampled.
    share: TraceShare,
    /// Whether trace IDs are marked as random.
    is_random: bool,
    /// `tracestate` of sampled traces, unless the user sets that header.
    state: Option<HeaderValue>,
    /// Whether each request is a trace of its own, even if it belongs to an agent's session.
    is_of_request: bool,
}

impl RequestBuilder {
    /// Creates the builder for requests to `endpoint`. `headers` override the default headers and
    /// keep their order.
    pub fn new(
        endpoint: &EndpointTraits,
        streaming: bool,
        api_key: Option<&str>,
        headers: &[(String, String)],
    ) -> Result<Self, HeaderError> {
        let mut base = HeaderMap::new();
        let agent = concat!("aiperf/", env!("CARGO_PKG_VERSION"));
        base.insert(USER_AGENT, HeaderValue::from_static(agent));
        let accept = if streaming { "text/event-stream" } else { "application/json" };
        base.insert(ACCEPT, HeaderValue::from_static(accept));
        base.insert(CONTENT_TYPE, HeaderValue::from_static(endpoint.content_type));
        for (name, value) in endpoint.headers {
            base.insert(HeaderName::from_static(name), HeaderValue::from_static(value));
        }
        if let Some(key) = api_key {
            let name = HeaderName::from_static(endpoint.api_key_header);
            let value =
                if name == AUTHORIZATION { format!("Bearer {key}") } else { key.to_owned() };
            base.insert(name, secret(&value, endpoint.api_key_header)?);
        }
        for (name, value) in headers {
            let parsed =
                HeaderName::try_from(name.trim()).map_err(|_| HeaderError::Name(name.clone()))?;
            base.insert(parsed, secret(value.trim(), name)?);
        }
        Ok(Self { base, session: CORRELATION_ID, copies: Vec::new(), traced: None })
    }

    /// Sends the session ID in the header `name` instead of `X-Correlation-ID`, if there is one.
    pub fn with_session_header(self, name: Option<&str>) -> Result<Self, HeaderError> {
        let Some(name) = name else { return Ok(self) };
        let session =
            HeaderName::try_from(name.trim()).map_err(|_| HeaderError::Name(name.to_owned()))?;
        let others = [REQUEST_ID, TRACEPARENT, HOST, CONTENT_LENGTH, TRANSFER_ENCODING];
        if self.base.contains_key(&session) || others.contains(&session) {
            return Err(HeaderError::Taken(name.to_owned()));
        }
        Ok(Self { session, ..self })
    }

    /// Repeats the session ID in the headers with these `names`. If one of them is Dynamo's, a session
    /// that another one started also names that one.
    #[must_use]
    pub fn with_session_copies(self, names: &[&'static str]) -> Self {
        let copies = names.iter().map(|name| HeaderName::from_static(name));
        let copies = copies.filter(|name| *name != self.session).collect();
        Self { copies, ..self }
    }

    /// Adds `traceparent` to requests, marks `share` of them as sampled, and adds `tracestate` to
    /// those, unless the user sets it. `is_random` marks all trace IDs as random.
    #[must_use]
    pub fn with_trace_context(self, share: TraceShare, is_random: bool) -> Self {
        let state = share.tracestate().filter(|_| !self.base.contains_key(&TRACESTATE));
        let state = state.and_then(|state| HeaderValue::try_from(state).ok());
        let is_of_request = false;
        Self { traced: Some(Traced { share, is_random, state, is_of_request }), ..self }
    }

    /// Makes each request a trace of its own, also those of agents.
    #[must_use]
    pub fn tracing_each_request(mut self) -> Self {
        if let Some(traced) = &mut self.traced {
            traced.is_of_request = true;
        }
        self
    }

    /// Returns whether each request is a trace of its own, also those of agents.
    pub(super) fn traces_each_request(&self) -> bool {
        self.traced.as_ref().is_some_and(|traced| traced.is_of_request)
    }

    /// Returns a request of its own trace.
    #[must_use]
    pub const fn request(&self, request_id: Uuid, correlation_id: Uuid) -> Identified<'_> {
        Identified { builder: self, request_id, correlation_id, parent: None, trace_id: request_id }
    }

    /// Returns the headers of a request of its own trace.
    #[must_use]
    pub fn headers(&self, request_id: Uuid, correlation_id: Uuid) -> HeaderMap {
        self.request(request_id, correlation_id).to_map()
    }

    /// Returns whether each request sets this header itself.
    fn sets(&self, name: &HeaderName) -> bool {
        *name == REQUEST_ID
            || *name == self.session
            || self.copies.contains(name)
            || *name == DYNAMO_PARENT && self.copies.contains(&DYNAMO_SESSION)
            || self.traced.is_some() && *name == TRACEPARENT
    }
}

/// A request whose headers a [`RequestBuilder`] makes.
#[derive(Debug, Clone, Copy)]
pub struct Identified<'a> {
    pub(super) builder: &'a RequestBuilder,
    pub(super) request_id: Uuid,
    pub(super) correlation_id: Uuid,
    /// ID of the session that started the session, if one did.
    pub(super) parent: Option<Uuid>,
    /// See [`RequestRecord::trace_id`](crate::record::RequestRecord::trace_id).
    pub(super) trace_id: Uuid,
}

impl RequestHeaders for Identified<'_> {
    fn visit(&self, each: &mut dyn FnMut(&HeaderName, &[u8])) {
        let builder = self.builder;
        for (name, value) in builder.base.iter().filter(|(name, _)| !builder.sets(name)) {
            each(name, value.as_bytes());
        }
        let mut buffer = Uuid::encode_buffer();
        let id = self.request_id.hyphenated().encode_lower(&mut buffer);
        each(&REQUEST_ID, id.as_bytes());
        let session = self.correlation_id.hyphenated().encode_lower(&mut buffer);
        each(&builder.session, session.as_bytes());
        for name in &builder.copies {
            each(name, session.as_bytes());
        }
        if let Some(parent) = self.parent.filter(|_| builder.copies.contains(&DYNAMO_SESSION)) {
            let parent = parent.hyphenated().encode_lower(&mut buffer);
            each(&DYNAMO_PARENT, parent.as_bytes());
        }
        if let Some(traced) = &builder.traced {
            traced.visit(self.trace_id, self.request_id, each);
        }
    }
}

/// Creates a value that debug output does not show.
fn secret(value: &str, name: &str) -> Result<HeaderValue, HeaderError> {
    let mut value =
        HeaderValue::from_str(value).map_err(|_| HeaderError::Value(name.to_owned()))?;
    value.set_sensitive(true);
    Ok(value)
}

impl Traced {
    fn visit(&self, trace_id: Uuid, request_id: Uuid, each: &mut dyn FnMut(&HeaderName, &[u8])) {
        let is_sampled = self.share.covers(trace_id);
        let flags = TraceFlags { is_sampled, is_random: self.is_random };
        each(&TRACEPARENT, &TraceContext::within(trace_id, request_id).traceparent(flags));
        if let Some(state) = self.state.as_ref().filter(|_| is_sampled) {
            each(&TRACESTATE, state.as_bytes());
        }
    }
}

#[cfg(test)]
mod tests {
    use base::redact;

    use super::*;
    use crate::endpoint::EndpointType;

    const CHAT: &EndpointTraits = EndpointType::CHAT.traits();

    #[test]
    fn a_request_bears_its_identifiers_and_the_users_headers() {
        let users = [("X-Team".to_owned(), " serving ".to_owned())];
        let builder = RequestBuilder::new(CHAT, true, Some("k3y"), &users).unwrap();
        let builder = builder.with_session_copies(&["x-session-affinity"]);
        let headers = builder.headers(Uuid::from_u128(1), Uuid::from_u128(2));
        assert_eq!(headers["x-request-id"], "00000000-0000-0000-0000-000000000001");
        assert_eq!(headers["x-correlation-id"], "00000000-0000-0000-0000-000000000002");
        assert_eq!(headers["x-session-affinity"], headers["x-correlation-id"]);
        assert_eq!(headers["accept"], "text/event-stream");
        assert_eq!(headers["authorization"], "Bearer k3y");
        assert_eq!(headers["x-team"], "serving");
        assert!(!format!("{headers:?} {builder:?}").contains("k3y"));
        let shown = |name: &str| redact::header_bytes(name, headers[name].as_bytes());
        assert_eq!(shown("authorization"), redact::REDACTED);
        assert_eq!(shown("x-team"), "serving");
    }

    #[test]
    fn a_dialect_may_have_headers_of_its_own() {
        let ids = (Uuid::from_u128(1), Uuid::from_u128(2));
        let headers_for = |endpoint: EndpointType, users: &[(String, String)]| {
            let builder = RequestBuilder::new(endpoint.traits(), true, Some("k3y"), users);
            builder.unwrap().headers(ids.0, ids.1)
        };
        let headers = headers_for(EndpointType::MESSAGES, &[]);
        assert_eq!(
            (&headers["x-api-key"], &headers["anthropic-version"]),
            (&HeaderValue::from_static("k3y"), &HeaderValue::from_static("2023-06-01"))
        );
        assert!(!headers.contains_key("authorization"));
        assert_eq!(redact::header_bytes("x-api-key", b"k3y"), redact::REDACTED);
        assert_eq!(headers_for(EndpointType::GEMINI, &[])["x-goog-api-key"], "k3y");
        assert_eq!(headers_for(EndpointType::RESPONSES, &[])["authorization"], "Bearer k3y");
        let users = [("anthropic-version".to_owned(), "2024-01-01".to_owned())];
        assert_eq!(headers_for(EndpointType::MESSAGES, &users)["anthropic-version"], "2024-01-01");
    }

    #[test]
    fn the_session_may_have_another_header() {
        let builder = || RequestBuilder::new(CHAT, true, Some("k3y"), &[]).unwrap();
        let named = |name: &str| {
            let copies = &["x-session-affinity", "x-session-id"];
            builder().with_session_header(Some(name)).map(|it| it.with_session_copies(copies))
        };
        let headers = named("X-Session-ID").unwrap().headers(Uuid::nil(), Uuid::from_u128(2));
        assert_eq!(headers["x-session-id"], "00000000-0000-0000-0000-000000000002");
        assert_eq!(headers["x-session-affinity"], headers["x-session-id"]);
        assert!(!headers.contains_key("x-correlation-id"));
        assert!(matches!(named("no name"), Err(HeaderError::Name(_))));
        for taken in ["Authorization", "content-type", "X-Request-ID", "host", "traceparent"] {
            assert!(matches!(named(taken), Err(HeaderError::Taken(_))), "{taken}");
        }
    }

    #[test]
    fn dynamo_gets_the_session_and_the_one_that_started_it() {
        let [first, second, third] = [1, 2, 3].map(Uuid::from_u128);
        let headers_with = |copies: &[&'static str], parent| {
            let builder = RequestBuilder::new(CHAT, true, None, &[]).unwrap();
            let builder = builder.with_session_copies(copies);
            Identified { parent, ..builder.request(first, second) }.to_map()
        };
        let child = headers_with(&["x-smg-routing-key", "x-dynamo-session-id"], Some(third));
        for name in ["x-correlation-id", "x-smg-routing-key", "x-dynamo-session-id"] {
            assert_eq!(child[name], "00000000-0000-0000-0000-000000000002", "{name}");
        }
        assert_eq!(child["x-dynamo-parent-session-id"], "00000000-0000-0000-0000-000000000003");
        assert!(!child.contains_key("x-session-affinity"));
        let names = |map: HeaderMap| map.contains_key("x-dynamo-parent-session-id");
        assert!(!names(headers_with(&["x-dynamo-session-id"], None)));
        assert!(!names(headers_with(&["x-session-affinity"], Some(third))));
    }

    #[test]
    fn only_traced_requests_bear_a_trace_context() {
        let id = Uuid::from_u128(0x0af7_6519_16cd_43dd_8448_eb21_1c80_319c);
        let plain = RequestBuilder::new(CHAT, true, None, &[]).unwrap();
        assert!(!plain.headers(id, Uuid::nil()).contains_key("traceparent"));
        let headers = |share, is_random| {
            plain.clone().with_trace_context(share, is_random).headers(id, Uuid::nil())
        };
        let header = |share, is_random| {
            headers(share, is_random)["traceparent"].to_str().unwrap().to_owned()
        };
        let sampled = header(TraceShare::of_percent(100.0), false);
        assert!(sampled.starts_with("00-0af7651916cd43dd8448eb211c80319c-"), "{sampled}");
        assert!(sampled.ends_with("-01"), "{sampled}");
        assert_eq!(header(TraceShare::NONE, false), sampled.replace("-01", "-00"));
        assert_eq!(header(TraceShare::of_percent(100.0), true), sampled.replace("-01", "-03"));
        assert_eq!(header(TraceShare::NONE, true), sampled.replace("-01", "-02"));
    }

    #[test]
    fn the_probability_is_told_for_sampled_requests_unless_the_user_has_a_tracestate() {
        // The last 56 bits are 48eb211c80319c: sampled at 75%, whose threshold is 40000000000000.
        let id = Uuid::from_u128(0x0af7_6519_16cd_43dd_8448_eb21_1c80_319c);
        let state = |percent, users: &[(String, String)]| {
            let plain = RequestBuilder::new(CHAT, true, None, users).unwrap();
            let traced = plain.with_trace_context(TraceShare::of_percent(percent), false);
            let headers = traced.headers(id, Uuid::nil());
            headers.get("tracestate").map(|value| value.to_str().unwrap().to_owned())
        };
        assert_eq!(state(75.0, &[]).as_deref(), Some("ot=th:4"));
        assert_eq!(state(50.0, &[]), None);
        assert_eq!(state(0.0, &[]), None);
        let users = [("TraceState".to_owned(), "a=b".to_owned())];
        assert_eq!(state(75.0, &users).as_deref(), Some("a=b"));
        assert_eq!(state(50.0, &users).as_deref(), Some("a=b"));
    }

    #[test]
    fn headers_that_cannot_be_sent_are_refused_without_their_value() {
        let bad = |name: &str, value: &str| {
            RequestBuilder::new(CHAT, false, None, &[(name.into(), value.into())])
                .unwrap_err()
                .to_string()
        };
        assert!(bad("no name", "x").contains("\"no name\""));
        assert!(!bad("x-key", "sec\nret").contains("sec"));
    }
}
