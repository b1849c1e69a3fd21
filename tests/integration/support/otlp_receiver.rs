//! A scripted OTLP receiver on port 0: gRPC and HTTP/protobuf on real sockets.

use std::collections::VecDeque;
use std::convert::Infallible;
use std::io::Read as _;
use std::net::SocketAddr;
use std::sync::{Arc, Condvar, Mutex};
use std::thread;
use std::time::{Duration, Instant};

use bytes::Bytes;
use http_body_util::{BodyExt as _, Full};
use opentelemetry_proto::tonic::collector::logs::v1::logs_service_server::{
    LogsService, LogsServiceServer,
};
use opentelemetry_proto::tonic::collector::logs::v1::{
    ExportLogsServiceRequest, ExportLogsServiceResponse,
};
use opentelemetry_proto::tonic::collector::metrics::v1::metrics_service_server::{
    MetricsService, MetricsServiceServer,
};
use opentelemetry_proto::tonic::collector::metrics::v1::{
    ExportMetricsPartialSuccess, ExportMetricsServiceRequest, ExportMetricsServiceResponse,
};
use opentelemetry_proto::tonic::collector::trace::v1::trace_service_server::{
    TraceService, TraceServiceServer,
};
use opentelemetry_proto::tonic::collector::trace::v1::{
    ExportTracePartialSuccess, ExportTraceServiceRequest, ExportTraceServiceResponse,
};
use opentelemetry_proto::tonic::common::v1::KeyValue;
use opentelemetry_proto::tonic::common::v1::any_value::Value;
use opentelemetry_proto::tonic::metrics::v1::metric::Data;
use opentelemetry_proto::tonic::metrics::v1::number_data_point::Value as Number;
use opentelemetry_proto::tonic::metrics::v1::{
    ExponentialHistogramDataPoint, HistogramDataPoint, Metric,
};
use prost::Message as _;
use tokio::net::TcpListener;
use tokio::sync::oneshot;
use tonic_types::StatusExt as _;

/// The response to an export.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Answer {
    /// Accepts it.
    Take,
    /// Accepts it except for this many data points.
    Reject(i64),
    /// Fails with a code that permits a retry.
    Unavailable,
    /// Fails, and requests a retry after this many seconds: 503 with `Retry-After`, or over gRPC
    /// resource exhausted with `RetryInfo`.
    RetryAfter(u64),
    /// Fails permanently.
    Refuse,
    /// Never responds.
    Hang,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Transport {
    Grpc,
    /// gRPC over TLS; clients must send a certificate of the tests' authority.
    GrpcTls,
    Http,
}

/// A running receiver, which stops when dropped.
pub(crate) struct OtlpReceiver {
    address: SocketAddr,
    transport: Transport,
    shared: Arc<Shared>,
    _stop: oneshot::Sender<()>,
}

/// A received export, of metrics unless specified otherwise.
#[derive(Debug, Clone)]
pub(crate) struct Export<M = ExportMetricsServiceRequest> {
    /// The message.
    pub(crate) message: M,
    /// Headers or metadata, in order of arrival; over HTTP, the path comes first as `:path`.
    pub(crate) headers: Vec<(String, String)>,
}

type TraceExport = Export<ExportTraceServiceRequest>;
type LogExport = Export<ExportLogsServiceRequest>;

impl<M> Export<M> {
    fn over_grpc(request: tonic::Request<M>) -> Self {
        let headers = pairs(&request.metadata().clone().into_headers());
        Self { message: request.into_inner(), headers }
    }

    /// Returns the value of a header.
    pub(crate) fn header(&self, name: &str) -> Option<&str> {
        self.headers.iter().find(|(have, _)| have == name).map(|(_, value)| value.as_str())
    }
}

struct Shared {
    script: Mutex<Script>,
    changed: Condvar,
}

struct Script {
    next: VecDeque<Answer>,
    otherwise: Answer,
    taken: Vec<Export>,
    /// Received exports, whatever the response.
    seen: usize,
    /// Responses to exports of traces; if empty, the same as for all exports.
    next_traces: VecDeque<Answer>,
    otherwise_traces: Option<Answer>,
    traces: Vec<TraceExport>,
    seen_traces: usize,
    /// Whether logs are accepted; otherwise the receiver does not know them.
    has_logs: bool,
    otherwise_logs: Answer,
    logs: Vec<LogExport>,
    seen_logs: usize,
}

/// Returns a listener on a free port.
fn free() -> std::net::TcpListener {
    std::net::TcpListener::bind("127.0.0.1:0").unwrap()
}

impl OtlpReceiver {
    /// Starts a gRPC receiver that accepts everything.
    pub(crate) fn grpc() -> Self {
        Self::grpc_on(free())
    }

    /// Starts an HTTP receiver that accepts everything at `/v1/metrics` and the paths of the other signals,
    /// also below `/base`.
    pub(crate) fn http() -> Self {
        Self::start(free(), Transport::Http)
    }

    /// Starts a gRPC receiver over TLS, as `localhost`, that requires a client certificate.
    pub(crate) fn grpc_tls() -> Self {
        Self::start(free(), Transport::GrpcTls)
    }

    /// Returns whether the protocol is gRPC rather than HTTP.
    pub(crate) fn is_grpc(&self) -> bool {
        self.transport != Transport::Http
    }

    /// Starts a gRPC receiver on a listener that was used for something else before.
    pub(crate) fn grpc_on(listener: std::net::TcpListener) -> Self {
        Self::start(listener, Transport::Grpc)
    }

    fn start(listener: std::net::TcpListener, transport: Transport) -> Self {
        let script = Script {
            next: VecDeque::new(),
            otherwise: Answer::Take,
            taken: Vec::new(),
            seen: 0,
            next_traces: VecDeque::new(),
            otherwise_traces: None,
            traces: Vec::new(),
            seen_traces: 0,
            has_logs: true,
            otherwise_logs: Answer::Take,
            logs: Vec::new(),
            seen_logs: 0,
        };
        let shared = Arc::new(Shared { script: Mutex::new(script), changed: Condvar::new() });
        let (stop, stopped) = oneshot::channel();
        let address = listener.local_addr().unwrap();
        let served = Arc::clone(&shared);
        thread::spawn(move || {
            let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
            runtime.unwrap().block_on(async move {
                listener.set_nonblocking(true).unwrap();
                let listener = TcpListener::from_std(listener).unwrap();
                let serve = async {
                    match transport {
                        Transport::Http => serve_http(listener, served).await,
                        _ => serve_grpc(listener, served, transport).await,
                    }
                };
                tokio::select! { () = serve => {}, _ = stopped => {} }
            });
        });
        Self { address, transport, shared, _stop: stop }
    }

    /// Returns the address of the listener.
    pub(crate) fn address(&self) -> SocketAddr {
        self.address
    }

    /// Returns `http://host:port`.
    pub(crate) fn url(&self) -> String {
        format!("http://{}", self.address)
    }

    /// Returns the value for `--otel-url`.
    pub(crate) fn otel_url(&self) -> String {
        let path = if self.is_grpc() { "" } else { "/v1/metrics" };
        format!("{}{path}", self.url())
    }

    /// Sets the response to all further exports.
    pub(crate) fn always(self, answer: Answer) -> Self {
        self.shared.script.lock().unwrap().otherwise = answer;
        self
    }

    /// Sets the responses to the next exports, one each.
    pub(crate) fn first(self, answers: impl IntoIterator<Item = Answer>) -> Self {
        self.shared.script.lock().unwrap().next.extend(answers);
        self
    }

    /// Sets the responses to the next exports of traces, one each.
    pub(crate) fn first_traces(self, answers: impl IntoIterator<Item = Answer>) -> Self {
        self.shared.script.lock().unwrap().next_traces.extend(answers);
        self
    }

    /// Sets the response to all further exports of traces.
    pub(crate) fn now_traces(&self, answer: Answer) {
        self.shared.script.lock().unwrap().otherwise_traces = Some(answer);
    }

    /// Waits until `count` exports of traces have arrived, whatever the responses.
    pub(crate) fn wait_for_traces(&self, count: usize) {
        self.wait_for(count, "traces", |script| script.seen_traces);
    }

    /// Changes the response while running.
    pub(crate) fn now(&self, answer: Answer) {
        self.shared.script.lock().unwrap().otherwise = answer;
    }

    /// Returns the accepted exports, in order.
    pub(crate) fn taken(&self) -> Vec<Export> {
        self.shared.script.lock().unwrap().taken.clone()
    }

    /// Returns the accepted exports of traces, in order.
    pub(crate) fn traces(&self) -> Vec<TraceExport> {
        self.shared.script.lock().unwrap().traces.clone()
    }

    /// Makes the receiver one that does not know logs.
    pub(crate) fn without_logs(self) -> Self {
        self.shared.script.lock().unwrap().has_logs = false;
        self
    }

    /// Waits until `count` exports of logs have arrived, whatever the responses.
    pub(crate) fn wait_for_logs(&self, count: usize) {
        self.wait_for(count, "logs", |script| script.seen_logs);
    }

    /// Sets the response to all further exports of logs.
    pub(crate) fn now_logs(&self, answer: Answer) {
        self.shared.script.lock().unwrap().otherwise_logs = answer;
    }

    /// Returns the number of exports of each signal so far, whatever the responses: metrics, traces
    /// and logs.
    pub(crate) fn seen(&self) -> [usize; 3] {
        let script = self.shared.script.lock().unwrap();
        [script.seen, script.seen_traces, script.seen_logs]
    }

    /// Returns the accepted exports of logs, in order.
    pub(crate) fn logs(&self) -> Vec<LogExport> {
        self.shared.script.lock().unwrap().logs.clone()
    }

    /// Returns the number of exports of logs, accepted or not.
    pub(crate) fn seen_logs(&self) -> usize {
        self.shared.script.lock().unwrap().seen_logs
    }

    /// Returns the last accepted export: values are cumulative, so it covers the whole run.
    pub(crate) fn last(&self) -> Received {
        let taken = self.taken();
        Received(taken.last().expect("the receiver took no export").message.clone())
    }

    /// Waits until `count` exports have arrived, whatever the responses.
    pub(crate) fn wait_for_exports(&self, count: usize) {
        self.wait_for(count, "metrics", |script| script.seen);
    }

    fn wait_for(&self, count: usize, what: &str, seen: fn(&Script) -> usize) {
        let until = Instant::now() + Duration::from_mins(2);
        let mut script = self.shared.script.lock().unwrap();
        while seen(&script) < count {
            let left = until.saturating_duration_since(Instant::now());
            assert!(!left.is_zero(), "only {} of {count} exports of {what}", seen(&script));
            script = self.shared.changed.wait_timeout(script, left).unwrap().0;
        }
    }
}

impl Shared {
    fn answer(&self, export: Export) -> Answer {
        let mut script = self.script.lock().unwrap();
        let answer = script.next.pop_front().unwrap_or(script.otherwise);
        if matches!(answer, Answer::Take | Answer::Reject(_)) {
            script.taken.push(export);
        }
        script.seen += 1;
        self.changed.notify_all();
        answer
    }

    fn answer_traces(&self, export: TraceExport) -> Answer {
        let mut script = self.script.lock().unwrap();
        let otherwise = script.otherwise_traces.unwrap_or(script.otherwise);
        let answer = script.next_traces.pop_front().unwrap_or(otherwise);
        if matches!(answer, Answer::Take | Answer::Reject(_)) {
            script.traces.push(export);
        }
        script.seen_traces += 1;
        self.changed.notify_all();
        answer
    }
}

impl Shared {
    /// Returns the response to logs; `None` if the receiver does not know them.
    fn answer_logs(&self, export: LogExport) -> Option<Answer> {
        let mut script = self.script.lock().unwrap();
        script.seen_logs += 1;
        if script.has_logs && matches!(script.otherwise_logs, Answer::Take) {
            script.logs.push(export);
        }
        self.changed.notify_all();
        script.has_logs.then_some(script.otherwise_logs)
    }
}

fn accepted_spans(rejected: i64) -> ExportTraceServiceResponse {
    let partial_success = (rejected > 0).then(|| ExportTracePartialSuccess {
        rejected_spans: rejected,
        error_message: "as scripted".into(),
    });
    ExportTraceServiceResponse { partial_success }
}

fn accepted(rejected: i64) -> ExportMetricsServiceResponse {
    let partial_success = (rejected > 0).then(|| ExportMetricsPartialSuccess {
        rejected_data_points: rejected,
        error_message: "as scripted".into(),
    });
    ExportMetricsServiceResponse { partial_success }
}

struct Grpc(Arc<Shared>);

#[tonic::async_trait]
impl MetricsService for Grpc {
    async fn export(
        &self,
        request: tonic::Request<ExportMetricsServiceRequest>,
    ) -> Result<tonic::Response<ExportMetricsServiceResponse>, tonic::Status> {
        over_grpc(self.0.answer(Export::over_grpc(request)), accepted).await
    }
}

#[tonic::async_trait]
impl TraceService for Grpc {
    async fn export(
        &self,
        request: tonic::Request<ExportTraceServiceRequest>,
    ) -> Result<tonic::Response<ExportTraceServiceResponse>, tonic::Status> {
        over_grpc(self.0.answer_traces(Export::over_grpc(request)), accepted_spans).await
    }
}

#[tonic::async_trait]
impl LogsService for Grpc {
    async fn export(
        &self,
        request: tonic::Request<ExportLogsServiceRequest>,
    ) -> Result<tonic::Response<ExportLogsServiceResponse>, tonic::Status> {
        match self.0.answer_logs(Export::over_grpc(request)) {
            Some(answer) => over_grpc(answer, |_| ExportLogsServiceResponse::default()).await,
            None => Err(tonic::Status::unimplemented("unknown service")),
        }
    }
}

/// Returns the response; `accepted` builds the one that rejects some items.
async fn over_grpc<R>(
    answer: Answer,
    accepted: fn(i64) -> R,
) -> Result<tonic::Response<R>, tonic::Status> {
    match answer {
        Answer::Take => Ok(tonic::Response::new(accepted(0))),
        Answer::Reject(items) => Ok(tonic::Response::new(accepted(items))),
        Answer::Unavailable => Err(tonic::Status::unavailable("as scripted")),
        Answer::RetryAfter(seconds) => Err(exhausted(seconds)),
        Answer::Refuse => Err(tonic::Status::invalid_argument("as scripted")),
        Answer::Hang => std::future::pending().await,
    }
}

/// Returns resource exhausted with the delay before a retry.
fn exhausted(seconds: u64) -> tonic::Status {
    let delay = Some(Duration::from_secs(seconds));
    let details = tonic_types::ErrorDetails::with_retry_info(delay);
    tonic::Status::with_error_details(tonic::Code::ResourceExhausted, "as scripted", details)
}

fn pairs(headers: &http::HeaderMap) -> Vec<(String, String)> {
    let text = |value: &http::HeaderValue| value.to_str().unwrap().to_owned();
    headers.iter().map(|(name, value)| (name.to_string(), text(value))).collect()
}

/// Returns a file of `tests/golden/tls/`.
fn pem(name: &str) -> Vec<u8> {
    let directory = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/golden/tls");
    std::fs::read(format!("{directory}/{name}")).unwrap()
}

async fn serve_grpc(listener: TcpListener, shared: Arc<Shared>, transport: Transport) {
    let traces = TraceServiceServer::new(Grpc(Arc::clone(&shared)))
        .accept_compressed(tonic::codec::CompressionEncoding::Gzip);
    let logs = LogsServiceServer::new(Grpc(Arc::clone(&shared)))
        .accept_compressed(tonic::codec::CompressionEncoding::Gzip);
    let service = MetricsServiceServer::new(Grpc(shared))
        .accept_compressed(tonic::codec::CompressionEncoding::Gzip);
    let incoming = tonic::transport::server::TcpIncoming::from(listener);
    let mut server = tonic::transport::Server::builder();
    if transport == Transport::GrpcTls {
        let _ = tokio_rustls::rustls::crypto::ring::default_provider().install_default();
        let identity = tonic::transport::Identity::from_pem(pem("server.pem"), pem("server.key"));
        let authority = tonic::transport::Certificate::from_pem(pem("ca.pem"));
        let tls = tonic::transport::ServerTlsConfig::new();
        let tls = tls.identity(identity).client_ca_root(authority);
        server = server.tls_config(tls).unwrap();
    }
    let server = server.add_service(service).add_service(traces).add_service(logs);
    server.serve_with_incoming(incoming).await.unwrap();
}

async fn serve_http(listener: TcpListener, shared: Arc<Shared>) {
    loop {
        let (stream, _) = listener.accept().await.unwrap();
        let shared = Arc::clone(&shared);
        tokio::spawn(async move {
            let service = hyper::service::service_fn(move |request| {
                let shared = Arc::clone(&shared);
                async move { Ok::<_, Infallible>(answer_http(request, &shared).await) }
            });
            let io = TokioIo(stream);
            let _ = hyper::server::conn::http1::Builder::new().serve_connection(io, service).await;
        });
    }
}

async fn answer_http(
    request: http::Request<hyper::body::Incoming>,
    shared: &Shared,
) -> http::Response<Full<Bytes>> {
    let respond = |status: u16, body: Vec<u8>| {
        http::Response::builder().status(status).body(Full::from(body)).unwrap()
    };
    let full_path = request.uri().path().to_owned();
    let path = full_path.strip_prefix("/base").unwrap_or(&full_path);
    if request.method() != "POST" || !["/v1/metrics", "/v1/traces", "/v1/logs"].contains(&path) {
        return respond(404, Vec::new());
    }
    let mut headers = pairs(request.headers());
    headers.insert(0, (":path".to_owned(), full_path.clone()));
    let gzip = request.headers().get("content-encoding").is_some_and(|coding| coding == "gzip");
    let body = request.into_body().collect().await.unwrap().to_bytes();
    let body = if gzip {
        let mut plain = Vec::new();
        flate2::read::GzDecoder::new(&body[..]).read_to_end(&mut plain).unwrap();
        plain
    } else {
        body.to_vec()
    };
    let (answer, rejecting): (Answer, fn(i64) -> Vec<u8>) = if path == "/v1/logs" {
        let message = ExportLogsServiceRequest::decode(&body[..]).unwrap();
        match shared.answer_logs(Export { message, headers }) {
            Some(answer) => (answer, |_| Vec::new()),
            None => return respond(404, Vec::new()),
        }
    } else if path == "/v1/traces" {
        let message = ExportTraceServiceRequest::decode(&body[..]).unwrap();
        let answer = shared.answer_traces(Export { message, headers });
        (answer, |spans| accepted_spans(spans).encode_to_vec())
    } else {
        let message = ExportMetricsServiceRequest::decode(&body[..]).unwrap();
        let answer = shared.answer(Export { message, headers });
        (answer, |points| accepted(points).encode_to_vec())
    };
    match answer {
        Answer::Take => respond(200, rejecting(0)),
        Answer::Reject(items) => respond(200, rejecting(items)),
        Answer::Unavailable => respond(503, Vec::new()),
        Answer::RetryAfter(seconds) => {
            let mut response = respond(503, Vec::new());
            response.headers_mut().insert("retry-after", seconds.into());
            response
        }
        Answer::Refuse => respond(400, Vec::new()),
        Answer::Hang => std::future::pending().await,
    }
}

/// hyper's I/O traits over a tokio stream.
struct TokioIo(tokio::net::TcpStream);

impl hyper::rt::Read for TokioIo {
    fn poll_read(
        mut self: std::pin::Pin<&mut Self>,
        context: &mut std::task::Context<'_>,
        mut buffer: hyper::rt::ReadBufCursor<'_>,
    ) -> std::task::Poll<std::io::Result<()>> {
        let mut bytes = vec![0; buffer.remaining().min(64 * 1024)];
        let mut read = tokio::io::ReadBuf::new(&mut bytes);
        let polled =
            tokio::io::AsyncRead::poll_read(std::pin::Pin::new(&mut self.0), context, &mut read);
        if polled.is_ready() {
            buffer.put_slice(read.filled());
        }
        polled
    }
}

impl hyper::rt::Write for TokioIo {
    fn poll_write(
        mut self: std::pin::Pin<&mut Self>,
        context: &mut std::task::Context<'_>,
        bytes: &[u8],
    ) -> std::task::Poll<std::io::Result<usize>> {
        tokio::io::AsyncWrite::poll_write(std::pin::Pin::new(&mut self.0), context, bytes)
    }

    fn poll_flush(
        mut self: std::pin::Pin<&mut Self>,
        context: &mut std::task::Context<'_>,
    ) -> std::task::Poll<std::io::Result<()>> {
        tokio::io::AsyncWrite::poll_flush(std::pin::Pin::new(&mut self.0), context)
    }

    fn poll_shutdown(
        mut self: std::pin::Pin<&mut Self>,
        context: &mut std::task::Context<'_>,
    ) -> std::task::Poll<std::io::Result<()>> {
        tokio::io::AsyncWrite::poll_shutdown(std::pin::Pin::new(&mut self.0), context)
    }
}

/// An export, with accessors for its contents.
#[derive(Debug, Clone)]
pub(crate) struct Received(pub(crate) ExportMetricsServiceRequest);

/// Attributes as text, for comparison.
pub(crate) type Attributes<'a> = &'a [(&'a str, &'a str)];

impl Received {
    /// Returns every metric.
    pub(crate) fn metrics(&self) -> Vec<&Metric> {
        let scopes = self.0.resource_metrics.iter().flat_map(|resource| &resource.scope_metrics);
        scopes.flat_map(|scope| &scope.metrics).collect()
    }

    /// Returns the metric called `name`.
    pub(crate) fn metric(&self, name: &str) -> &Metric {
        let metrics = self.metrics();
        let found = metrics.iter().find(|metric| metric.name == name);
        found.unwrap_or_else(|| {
            let names: Vec<_> = metrics.iter().map(|metric| &metric.name).collect();
            panic!("no metric {name} among {names:?}")
        })
    }

    /// Returns the explicit histogram point of `name` with (at least) the attributes `with`.
    pub(crate) fn histogram(&self, name: &str, with: Attributes<'_>) -> &HistogramDataPoint {
        let Some(Data::Histogram(histogram)) = &self.metric(name).data else {
            panic!("{name} is not a histogram")
        };
        only(name, with, histogram.data_points.iter().map(|point| (&point.attributes, point)))
    }

    /// Returns the exponential histogram point of `name` with the attributes `with`.
    pub(crate) fn exponential(
        &self,
        name: &str,
        with: Attributes<'_>,
    ) -> &ExponentialHistogramDataPoint {
        let Some(Data::ExponentialHistogram(histogram)) = &self.metric(name).data else {
            panic!("{name} is not an exponential histogram")
        };
        only(name, with, histogram.data_points.iter().map(|point| (&point.attributes, point)))
    }

    /// Returns the sum or gauge of `name` with the attributes `with`.
    pub(crate) fn number(&self, name: &str, with: Attributes<'_>) -> f64 {
        let points = match &self.metric(name).data {
            Some(Data::Sum(sum)) => &sum.data_points,
            Some(Data::Gauge(gauge)) => &gauge.data_points,
            other => panic!("{name} is not a number: {other:?}"),
        };
        match only(name, with, points.iter().map(|point| (&point.attributes, point))).value {
            Some(Number::AsDouble(value)) => value,
            Some(Number::AsInt(value)) => value as f64,
            None => panic!("{name} lacks a value"),
        }
    }

    /// Returns a resource attribute.
    pub(crate) fn resource(&self, key: &str) -> Option<String> {
        let resource = self.0.resource_metrics[0].resource.as_ref().unwrap();
        attribute(&resource.attributes, key)
    }
}

/// Returns an attribute's value as text.
pub(crate) fn attribute(attributes: &[KeyValue], key: &str) -> Option<String> {
    let pair = attributes.iter().find(|pair| pair.key == key)?;
    match pair.value.as_ref()?.value.as_ref()? {
        Value::StringValue(text) => Some(text.clone()),
        Value::IntValue(number) => Some(number.to_string()),
        Value::BoolValue(truth) => Some(truth.to_string()),
        other => panic!("{key} has an unexpected value {other:?}"),
    }
}

fn only<'a, P>(
    name: &str,
    with: Attributes<'_>,
    points: impl Iterator<Item = (&'a Vec<KeyValue>, P)>,
) -> P {
    let mut found: Vec<P> = points
        .filter(|(attributes, _)| {
            with.iter().all(|(key, value)| attribute(attributes, key).as_deref() == Some(value))
        })
        .map(|(_, point)| point)
        .collect();
    assert_eq!(found.len(), 1, "points of {name} with {with:?}");
    found.remove(0)
}

/// TLS settings that trust the receiver and contain the client certificate it requires.
pub(crate) fn tls_variables() -> [(&'static str, String); 3] {
    [
        ("OTEL_EXPORTER_OTLP_CERTIFICATE", "ca.pem"),
        ("OTEL_EXPORTER_OTLP_CLIENT_CERTIFICATE", "client.pem"),
        ("OTEL_EXPORTER_OTLP_CLIENT_KEY", "client.key"),
    ]
    .map(|(name, file)| (name, format!("{}/tests/golden/tls/{file}", env!("CARGO_MANIFEST_DIR"))))
}
