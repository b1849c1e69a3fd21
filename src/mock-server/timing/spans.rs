//! Spans of requests, in the forms of several servers, exported over OTLP/HTTP in batches.

use std::io::{self, Read as _, Write as _};
use std::net::{SocketAddr, TcpStream};
use std::sync::Arc;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::thread::JoinHandle;
use std::time::Duration;

use http::HeaderMap;
use opentelemetry_proto::tonic::collector::trace::v1::ExportTraceServiceRequest;
use opentelemetry_proto::tonic::common::v1::any_value::Value;
use opentelemetry_proto::tonic::common::v1::{AnyValue, KeyValue};
use opentelemetry_proto::tonic::resource::v1::Resource;
use opentelemetry_proto::tonic::trace::v1::{ResourceSpans, ScopeSpans, Span};
use prost::Message as _;

use base::lock::Lock;
use base::units::{Clock, Nanos};

use super::{Report, TimingForm};
use crate::schedule::mix;

/// Where spans are sent, and when.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SpanExport {
    /// The address of an OTLP receiver for HTTP.
    pub address: SocketAddr,
    /// How long a batch is collected, from its first span on.
    pub delay: Nanos,
    /// Whether the times are in spans only, and not in responses.
    pub is_only: bool,
}

/// Maximum number of spans of a batch.
const MAX_BATCH: usize = 512;

/// Maximum time that the receiver may take for one batch.
const TIMEOUT: Duration = Duration::from_secs(1);

/// Sends the spans of requests, on a thread of its own.
#[derive(Debug)]
pub(crate) struct SpanSender {
    queue: Lock<Option<Sender<Vec<ResourceSpans>>>>,
    thread: Lock<Option<JoinHandle<()>>>,
}

impl SpanSender {
    /// Starts the thread.
    pub(crate) fn start(export: SpanExport) -> io::Result<Self> {
        let (sender, queue) = channel();
        let run = move || send_batches(&queue, export);
        let thread = std::thread::Builder::new().name("mock-spans".to_owned()).spawn(run)?;
        Ok(Self { queue: Lock::new(Some(sender)), thread: Lock::new(Some(thread)) })
    }

    /// Sends what has been queued, and ends the thread.
    pub(crate) fn close(&self) {
        drop(self.queue.lock().take());
        if let Some(thread) = self.thread.lock().take() {
            let _ = thread.join();
        }
    }
}

/// Sends each batch once it is old or large enough. Like a server's start-up, the first one has a span
/// that belongs to no request.
fn send_batches(queue: &Receiver<Vec<ResourceSpans>>, export: SpanExport) {
    let mut batch = vec![sent_by("engine", vec![start_up()])];
    while let Ok(first) = queue.recv() {
        batch.extend(first);
        let due = Clock::now() + export.delay;
        while batch.len() < MAX_BATCH
            && let Ok(more) = queue.recv_timeout(due.since(Clock::now()).into())
        {
            batch.extend(more);
        }
        let request = ExportTraceServiceRequest { resource_spans: std::mem::take(&mut batch) };
        if let Err(error) = post(export.address, &request.encode_to_vec()) {
            tracing::debug!("the mock server cannot send spans to {}: {error}", export.address);
        }
    }
}

fn post(address: SocketAddr, body: &[u8]) -> io::Result<()> {
    let mut stream = TcpStream::connect_timeout(&address, TIMEOUT)?;
    stream.set_read_timeout(Some(TIMEOUT))?;
    stream.set_write_timeout(Some(TIMEOUT))?;
    let head = format!(
        "POST /v1/traces HTTP/1.1\r\nhost: {address}\r\ncontent-type: application/x-protobuf\r\n\
         content-length: {}\r\nconnection: close\r\n\r\n",
        body.len()
    );
    stream.write_all(head.as_bytes())?;
    stream.write_all(body)?;
    io::copy(&mut stream.take(1 << 16), &mut io::sink()).map(drop)
}

/// The spans of one request, which are sent when it has ended.
#[derive(Debug)]
pub(crate) struct PendingSpans {
    sender: Arc<SpanSender>,
    report: Report,
    trace: [u8; 16],
    /// The client's span; absent if the trace is the server's own.
    parent: Vec<u8>,
    /// Header `x-request-id`.
    request_id: Option<String>,
    /// The ID in the response, without its prefix.
    response_id: u64,
    /// Wall time of the arrival.
    start_ns: u64,
}

impl PendingSpans {
    /// Returns the spans of a request with `headers` that arrived at `start_ns`; `None` if its
    /// `traceparent` has the flag for not sampled. A server that `ignores` that header begins a trace
    /// of its own.
    pub(crate) fn for_request(
        sender: &Arc<SpanSender>,
        report: Report,
        headers: &HeaderMap,
        response_id: u64,
        start_ns: u64,
        ignores: bool,
    ) -> Option<Self> {
        let text = |name: &str| headers.get(name).filter(|_| !ignores)?.to_str().ok();
        let context = text("traceparent").and_then(parent);
        if context.as_ref().is_some_and(|(.., is_sampled)| !is_sampled) {
            return None;
        }
        let (trace, parent) = context.map_or_else(
            || {
                let halves = [1, 2].map(|half| mix(response_id, half).to_be_bytes());
                let mut trace = [0; 16];
                trace[..8].copy_from_slice(&halves[0]);
                trace[8..].copy_from_slice(&halves[1]);
                (trace, Vec::new())
            },
            |(trace, parent, _)| (trace, parent.to_vec()),
        );
        let request_id = text("x-request-id").map(str::to_owned);
        let sender = sender.clone();
        Some(Self { sender, report, trace, parent, request_id, response_id, start_ns })
    }

    /// Sends them.
    pub(crate) fn send(self) {
        let spans = self.spans();
        if let Some(queue) = &*self.sender.queue.lock() {
            let _ = queue.send(spans);
        }
    }

    fn spans(&self) -> Vec<ResourceSpans> {
        let Report { form, worker, queue, prefill, kv_transfer, decode, .. } = self.report;
        let first = queue + prefill;
        let total = first + kv_transfer + decode;
        let id = format!("{:016x}", self.response_id);
        match form {
            TimingForm::Dynamo => self.dynamo(&id, first, total, vec![(None, worker, "worker")]),
            TimingForm::DynamoSeparate | TimingForm::DynamoBootstrap => {
                let workers =
                    vec![(Some("Prefill"), 1, "prefill"), (Some("Decode"), worker, "decode")];
                self.dynamo(&id, first + kv_transfer, total, workers)
            }
            // The queue contains the transfer, as in the response.
            _ => {
                let latency = |name: &str, ms: f64| {
                    attribute(&format!("gen_ai.latency.{name}"), Value::DoubleValue(ms / 1e3))
                };
                let span = Span {
                    attributes: vec![
                        text("gen_ai.request.id", &format!("chatcmpl-{id}")),
                        latency("time_in_queue", queue + kv_transfer),
                        latency("time_in_model_prefill", prefill),
                        latency("time_in_model_decode", decode),
                        latency("time_in_model_inference", prefill + decode),
                        latency("time_to_first_token", first + kv_transfer),
                        latency("e2e", total),
                    ],
                    ..self.span("llm_request", 1, total)
                };
                vec![sent_by("engine", vec![span])]
            }
        }
    }

    /// The front end's span, and those of the router and of each of `workers` below it: phase, ID and
    /// service.
    fn dynamo(
        &self,
        id: &str,
        first_token: f64,
        total: f64,
        workers: Vec<(Option<&str>, u64, &str)>,
    ) -> Vec<ResourceSpans> {
        let mut request = Span {
            attributes: vec![text("request_id", id), text("ttft_ms", &first_token.to_string())],
            ..self.span("http-request", 1, total)
        };
        request.attributes.extend(self.request_id.iter().map(|id| text("x_request_id", id)));
        let below = request.span_id.clone();
        let (mut front_end, mut all) = (vec![request], Vec::new());
        for (number, (phase, worker, service)) in (1..).zip(workers) {
            let name =
                if phase.is_some() { "kv_router.route_request" } else { "router.route_request" };
            let mut route =
                Span { parent_span_id: below.clone(), ..self.span(name, 2 * number, total) };
            route.attributes.push(text("worker_id", &worker.to_string()));
            route.attributes.extend(phase.map(|phase| text("phase", phase)));
            let parent_span_id = route.span_id.clone();
            front_end.push(route);
            let work = self.span("handle_payload", 2 * number + 1, total);
            all.push(sent_by(service, vec![Span { parent_span_id, ..work }]));
        }
        all.push(sent_by("frontend", front_end));
        all
    }

    /// Returns the span `number` of the request, which lasts `ms` milliseconds from its arrival on.
    fn span(&self, name: &str, number: u64, ms: f64) -> Span {
        Span {
            trace_id: self.trace.to_vec(),
            span_id: mix(self.response_id, 16 + number).max(1).to_be_bytes().to_vec(),
            parent_span_id: self.parent.clone(),
            name: name.to_owned(),
            kind: 2,
            start_time_unix_nano: self.start_ns,
            end_time_unix_nano: self.start_ns + Nanos::from_millis(ms).0,
            ..Span::default()
        }
    }
}

/// Returns the trace ID, the span ID and the sampled flag in `traceparent`.
fn parent(text: &str) -> Option<([u8; 16], [u8; 8], bool)> {
    let mut parts = text.split('-');
    let (_, trace, span, flags) = (parts.next()?, parts.next()?, parts.next()?, parts.next()?);
    let is_sampled = u8::from_str_radix(flags, 16).ok()? & 1 == 1;
    let trace = u128::from_str_radix(trace, 16).ok()?.to_be_bytes();
    Some((trace, u64::from_str_radix(span, 16).ok()?.to_be_bytes(), is_sampled))
}

/// A span of the start of a server, as vLLM sends it.
fn start_up() -> Span {
    Span {
        trace_id: vec![7; 16],
        span_id: vec![7; 8],
        name: "Overall Loading".to_owned(),
        start_time_unix_nano: 1,
        end_time_unix_nano: 2,
        ..Span::default()
    }
}

fn sent_by(service: &str, spans: Vec<Span>) -> ResourceSpans {
    let attributes = vec![text("service.name", service)];
    ResourceSpans {
        resource: Some(Resource { attributes, ..Resource::default() }),
        scope_spans: vec![ScopeSpans { spans, ..ScopeSpans::default() }],
        ..ResourceSpans::default()
    }
}

fn text(key: &str, value: &str) -> KeyValue {
    attribute(key, Value::StringValue(value.to_owned()))
}

fn attribute(key: &str, value: Value) -> KeyValue {
    let value = Some(AnyValue { value: Some(value) });
    KeyValue { key: key.to_owned(), value, ..KeyValue::default() }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_context_of_the_client_is_read() {
        let found = parent("00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01").unwrap();
        assert_eq!(found.0[..2], [0x0a, 0xf7]);
        assert_eq!(found.1, [0xb7, 0xad, 0x6b, 0x71, 0x69, 0x20, 0x33, 0x31]);
        assert!(found.2);
        assert!(!parent("00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-00").unwrap().2);
        for wrong in ["", "00", "00-x-y-01", "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331"]
        {
            assert_eq!(parent(wrong), None, "{wrong}");
        }
    }
}
