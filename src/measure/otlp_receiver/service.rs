//! Answers requests: OTLP over gRPC and over HTTP, by the OTLP specification.

use std::convert::Infallible;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use bytes::{BufMut as _, Bytes, BytesMut};
use http::header::{ALLOW, CONTENT_ENCODING, CONTENT_TYPE};
use http::{HeaderMap, HeaderValue, Method, Request, Response, StatusCode};
use http_body_util::{BodyExt as _, LengthLimitError, Limited};
use hyper::body::{Body, Frame, SizeHint};
use opentelemetry_proto::tonic::collector::trace::v1::{
    ExportTracePartialSuccess, ExportTraceServiceResponse,
};
use prost::Message as _;
use serde_json::json;
use tokio::sync::Semaphore;

use base::input::packed::gunzipped;

use super::join::SpanJoin;
use super::status::Status;
use super::table::MAX_SPAN;
use super::{json as otlp_json, wire};

/// Maximum size of the body of a request, before and after decompression.
pub(super) const MAX_BODY: usize = 16 << 20;

/// Maximum number of bodies that are read at the same time; others wait.
const MAX_BODIES: usize = 8;

/// Maximum time for the body of a request.
const BODY_TIMEOUT: Duration = Duration::from_secs(10);

/// Size of the flag and the length before a message of gRPC.
const PREFIX: usize = 5;

const GRPC: &str = "application/grpc";
const PROTOBUF: &str = "application/x-protobuf";
const JSON: &str = "application/json";

/// The methods of gRPC, and the paths of HTTP.
const EXPORT_TRACES: &str = "/opentelemetry.proto.collector.trace.v1.TraceService/Export";
const EXPORT_OTHERS: [&str; 2] = [
    "/opentelemetry.proto.collector.metrics.v1.MetricsService/Export",
    "/opentelemetry.proto.collector.logs.v1.LogsService/Export",
];
const TRACES: &str = "/v1/traces";
const OTHERS: [&str; 2] = ["/v1/metrics", "/v1/logs"];

/// Why a request is not accepted.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Refusal {
    /// There is nothing at this path.
    NotFound,
    /// The HTTP method is not POST.
    Method,
    /// The type of the content is not supported.
    MediaType,
    /// The content coding is not supported.
    Coding,
    /// The body is too large.
    TooLarge,
    /// The body did not arrive in time, or its connection broke.
    Incomplete,
    /// The body cannot be read.
    Malformed(String),
}

impl Refusal {
    /// Returns the HTTP status and the code of gRPC.
    const fn codes(&self) -> (StatusCode, u8) {
        match self {
            Self::NotFound => (StatusCode::NOT_FOUND, 12),
            Self::Method => (StatusCode::METHOD_NOT_ALLOWED, 12),
            Self::MediaType => (StatusCode::UNSUPPORTED_MEDIA_TYPE, 3),
            Self::Coding => (StatusCode::UNSUPPORTED_MEDIA_TYPE, 12),
            Self::TooLarge => (StatusCode::PAYLOAD_TOO_LARGE, 8),
            Self::Incomplete => (StatusCode::REQUEST_TIMEOUT, 14),
            Self::Malformed(_) => (StatusCode::BAD_REQUEST, 3),
        }
    }

    fn message(&self) -> String {
        match self {
            Self::NotFound => "no such path; traces are received at /v1/traces".to_owned(),
            Self::Method => "only POST is supported".to_owned(),
            Self::MediaType => format!("the content type must be {PROTOBUF} or {JSON}"),
            Self::Coding => "the only supported compression is gzip".to_owned(),
            Self::TooLarge => {
                format!("the request is larger than {} MiB; send smaller batches", MAX_BODY >> 20)
            }
            Self::Incomplete => "the request did not arrive completely".to_owned(),
            Self::Malformed(why) => why.clone(),
        }
    }
}

/// What the connections share.
pub(super) struct Service {
    join: Arc<SpanJoin>,
    bodies: Semaphore,
}

/// How messages are encoded.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Encoding {
    /// Protobuf.
    Protobuf,
    /// OTLP/JSON.
    Json,
}

impl Service {
    pub(super) fn new(join: Arc<SpanJoin>) -> Self {
        Self { join, bodies: Semaphore::new(MAX_BODIES) }
    }

    /// Answers a request.
    pub(super) async fn answer<B>(&self, request: Request<B>) -> Response<Answer>
    where
        B: Body<Data = Bytes, Error: std::error::Error + Send + Sync + 'static>,
    {
        let kind = media_type(request.headers());
        if kind.starts_with(GRPC) {
            let answer = self.grpc(request).await;
            return answer.map_or_else(|refusal| self.refuse_grpc(&refusal), grpc_answer);
        }
        let encoding = if kind == JSON { Encoding::Json } else { Encoding::Protobuf };
        let answer = self.http(&kind, encoding, request).await;
        answer.map_or_else(
            |refusal| self.refuse(encoding, &refusal),
            |answer| whole(StatusCode::OK, encoding, encoded(&answer, encoding)),
        )
    }

    async fn http<B>(
        &self,
        kind: &str,
        encoding: Encoding,
        request: Request<B>,
    ) -> Result<ExportTraceServiceResponse, Refusal>
    where
        B: Body<Data = Bytes, Error: std::error::Error + Send + Sync + 'static>,
    {
        let path = request.uri().path().to_owned();
        let is_other = OTHERS.contains(&&*path);
        if path != TRACES && !is_other {
            return Err(Refusal::NotFound);
        }
        if request.method() != Method::POST {
            return Err(Refusal::Method);
        }
        if kind != JSON && kind != PROTOBUF {
            return Err(Refusal::MediaType);
        }
        let coding = text(request.headers(), CONTENT_ENCODING.as_str()).to_owned();
        let _place = self.bodies.acquire().await;
        let body = read(request.into_body()).await?;
        if is_other {
            self.join.add_other_signal();
            return Ok(ExportTraceServiceResponse::default());
        }
        self.receive(&decompressed(body, &coding)?, encoding)
    }

    async fn grpc<B>(&self, request: Request<B>) -> Result<ExportTraceServiceResponse, Refusal>
    where
        B: Body<Data = Bytes, Error: std::error::Error + Send + Sync + 'static>,
    {
        let path = request.uri().path().to_owned();
        let is_other = EXPORT_OTHERS.contains(&&*path);
        if path != EXPORT_TRACES && !is_other {
            return Err(Refusal::NotFound);
        }
        let coding = text(request.headers(), "grpc-encoding").to_owned();
        let _place = self.bodies.acquire().await;
        let body = read(request.into_body()).await?;
        if is_other {
            self.join.add_other_signal();
            return Ok(ExportTraceServiceResponse::default());
        }
        self.receive(&message(&body, &coding)?, Encoding::Protobuf)
    }

    /// Takes the spans of a message.
    fn receive(
        &self,
        body: &[u8],
        encoding: Encoding,
    ) -> Result<ExportTraceServiceResponse, Refusal> {
        receive(&self.join, body, encoding)
    }

    fn refuse(&self, encoding: Encoding, refusal: &Refusal) -> Response<Answer> {
        self.count(refusal);
        let (status, code) = refusal.codes();
        let message = refusal.message();
        let body = match encoding {
            Encoding::Json => json!({ "code": code, "message": message }).to_string().into(),
            Encoding::Protobuf => {
                let status = Status::new(code.into(), message);
                status.encode_to_vec().into()
            }
        };
        let mut response = whole(status, encoding, body);
        if *refusal == Refusal::Method {
            response.headers_mut().insert(ALLOW, HeaderValue::from_static("POST"));
        }
        response
    }

    fn refuse_grpc(&self, refusal: &Refusal) -> Response<Answer> {
        self.count(refusal);
        let (_, code) = refusal.codes();
        let mut response = Response::new(Answer::default());
        let headers = response.headers_mut();
        headers.insert(CONTENT_TYPE, HeaderValue::from_static(GRPC));
        headers.insert("grpc-status", HeaderValue::from(u16::from(code)));
        headers.insert("grpc-accept-encoding", HeaderValue::from_static("gzip"));
        // The messages are plain text without characters that would have to be encoded.
        if let Ok(message) = HeaderValue::try_from(refusal.message()) {
            headers.insert("grpc-message", message);
        }
        response
    }

    fn count(&self, refusal: &Refusal) {
        tracing::debug!("a request to the receiver of spans is refused: {}", refusal.message());
        self.join.add_malformed_request();
    }
}

/// Takes the spans of a message.
pub(super) fn receive(
    join: &SpanJoin,
    body: &[u8],
    encoding: Encoding,
) -> Result<ExportTraceServiceResponse, Refusal> {
    let (invalid, read) = join.add(|sink| match encoding {
        Encoding::Protobuf => wire::each_span(body, &mut |source, span| sink(source, Some(span)))
            .map_err(|error| format!("the request is not an ExportTraceServiceRequest: {error}")),
        Encoding::Json => otlp_json::each_span(body, MAX_SPAN, sink)
            .map_err(|error| format!("the request is not OTLP/JSON: {error}")),
    });
    read.map_err(Refusal::Malformed)?;
    let partial_success = (invalid > 0).then(|| ExportTracePartialSuccess {
        rejected_spans: invalid.cast_signed(),
        error_message: "some spans are not valid: their IDs must be 16 and 8 bytes, and not zero"
            .to_owned(),
    });
    Ok(ExportTraceServiceResponse { partial_success })
}

/// Returns the message in the body of a request of gRPC, which has exactly one.
pub(super) fn message(body: &[u8], coding: &str) -> Result<Vec<u8>, Refusal> {
    let malformed = || Refusal::Malformed("the body is not a message of gRPC".to_owned());
    let (prefix, message) = body.split_first_chunk::<PREFIX>().ok_or_else(malformed)?;
    let [flag, length @ ..] = *prefix;
    if message.len() != u32::from_be_bytes(length) as usize || flag > 1 {
        return Err(malformed());
    }
    decompressed(Bytes::copy_from_slice(message), if flag == 1 { coding } else { "" })
}

/// Returns a body without its content coding.
pub(super) fn decompressed(body: Bytes, coding: &str) -> Result<Vec<u8>, Refusal> {
    match coding {
        "" | "identity" => Ok(body.into()),
        "gzip" => {
            let plain = gunzipped(&body, MAX_BODY as u64);
            let malformed = |error| Refusal::Malformed(format!("the body is not gzip: {error}"));
            plain.map_err(malformed)?.ok_or(Refusal::TooLarge)
        }
        _ => Err(Refusal::Coding),
    }
}

/// Reads a body within the limits of size and time.
async fn read<B>(body: B) -> Result<Bytes, Refusal>
where
    B: Body<Data = Bytes, Error: std::error::Error + Send + Sync + 'static>,
{
    let body = std::pin::pin!(Limited::new(body, MAX_BODY));
    match tokio::time::timeout(BODY_TIMEOUT, body.collect()).await {
        Ok(Ok(body)) => Ok(body.to_bytes()),
        Ok(Err(error)) => Err(if error.is::<LengthLimitError>() {
            Refusal::TooLarge
        } else {
            Refusal::Incomplete
        }),
        Err(_) => Err(Refusal::Incomplete),
    }
}

fn encoded(answer: &ExportTraceServiceResponse, encoding: Encoding) -> Bytes {
    match encoding {
        Encoding::Protobuf => answer.encode_to_vec().into(),
        Encoding::Json => {
            let partial = answer.partial_success.as_ref().map(|partial| {
                json!({
                    "rejectedSpans": partial.rejected_spans.to_string(),
                    "errorMessage": partial.error_message,
                })
            });
            let answer = partial.map_or_else(|| json!({}), |of| json!({ "partialSuccess": of }));
            answer.to_string().into()
        }
    }
}

fn whole(status: StatusCode, encoding: Encoding, body: Bytes) -> Response<Answer> {
    let media_type = match encoding {
        Encoding::Protobuf => PROTOBUF,
        Encoding::Json => JSON,
    };
    let mut response = Response::new(Answer { data: Some(body), trailers: None });
    *response.status_mut() = status;
    response.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static(media_type));
    response
}

#[expect(clippy::needless_pass_by_value, reason = "it is passed as a function")]
fn grpc_answer(answer: ExportTraceServiceResponse) -> Response<Answer> {
    let message = answer.encode_to_vec();
    let mut data = BytesMut::with_capacity(PREFIX + message.len());
    data.put_u8(0);
    data.put_u32(message.len() as u32);
    data.put_slice(&message);
    let mut trailers = HeaderMap::new();
    trailers.insert("grpc-status", HeaderValue::from_static("0"));
    let mut response =
        Response::new(Answer { data: Some(data.freeze()), trailers: Some(trailers) });
    response.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static(GRPC));
    response
}

/// Returns the content type without its parameters.
fn media_type(headers: &HeaderMap) -> String {
    let value = text(headers, CONTENT_TYPE.as_str());
    value.split(';').next().unwrap_or_default().trim().to_ascii_lowercase()
}

fn text<'a>(headers: &'a HeaderMap, name: &str) -> &'a str {
    headers.get(name).and_then(|value| value.to_str().ok()).unwrap_or_default()
}

/// The body of a response.
#[derive(Debug, Default)]
pub(super) struct Answer {
    data: Option<Bytes>,
    trailers: Option<HeaderMap>,
}

impl Body for Answer {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        _: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        let data = self.data.take().map(Frame::data);
        Poll::Ready(data.or_else(|| self.trailers.take().map(Frame::trailers)).map(Ok))
    }

    fn is_end_stream(&self) -> bool {
        self.data.is_none() && self.trailers.is_none()
    }

    fn size_hint(&self) -> SizeHint {
        SizeHint::with_exact(self.data.as_ref().map_or(0, Bytes::len) as u64)
    }
}

#[cfg(test)]
mod tests;
