//! Sends requests that are encoded by aiperf to the collector, over the exporter's connection, and
//! runs the sending task.

use std::io::Write as _;
use std::marker::PhantomData;
use std::sync::Arc;
use std::time::Duration;

use bytes::{Buf as _, BufMut as _, Bytes};
use flate2::Compression;
use flate2::write::GzEncoder;
use http::header::{CONTENT_ENCODING, CONTENT_TYPE, RETRY_AFTER};
use http::uri::PathAndQuery;
use opentelemetry_proto::tonic::collector::logs::v1::ExportLogsServiceResponse;
use opentelemetry_proto::tonic::collector::metrics::v1::ExportMetricsServiceResponse;
use opentelemetry_proto::tonic::collector::trace::v1::ExportTraceServiceResponse;
use serde_json::Value;
use tokio::sync::{mpsc, watch};
use tokio::task::{AbortHandle, JoinHandle};
use tokio::time::Instant;
use tonic::codec::{Codec, CompressionEncoding, DecodeBuf, Decoder, EncodeBuf, Encoder};
use tonic::metadata::MetadataMap;
use tonic::transport::Channel;
use tonic::{Code, Status};

use base::causes::{find, root};
use base::interrupt::Interrupt;
use base::lock::Lock;
use base::units::{Nanos, retry_after};
use measure::otlp_receiver::status::retry_delay;

use super::connection::{Client, Connection};
use super::finish::{FINAL_RETRIES, RETRY_PAUSE};

/// How long a request is retried if the collector may accept it later; other requests wait for it.
const RETRIES: Duration = Duration::from_mins(1);

/// Longest pause between two attempts, unless the collector asks for a longer one.
const LONGEST_PAUSE: Duration = Duration::from_secs(5);

/// Maximum size of an HTTP response that is read; it contains a number and a sentence.
const MAX_RESPONSE_BYTES: usize = 64 * 1024;

/// The collector's response to the requests of a signal.
pub(super) trait Answer: prost::Message + Default + 'static {
    /// The method of the collector's service.
    const METHOD: &'static str;

    /// The name of the items that requests consist of.
    const ITEMS: &'static str;

    /// The format of the requests, for JSON.
    const REQUEST: &'static otlp::Message;

    /// The member of `partialSuccess` with the number of rejected items, in JSON.
    const REJECTED: &'static str;

    /// The name of the file with the requests.
    const FILE: &'static str;

    /// Whether a collector may do without the signal, so that it is not a failure if it does.
    const IS_OPTIONAL: bool = false;

    /// Returns the number of rejected items.
    fn rejected(&self) -> i64;
}

impl Answer for ExportMetricsServiceResponse {
    const METHOD: &'static str = "/opentelemetry.proto.collector.metrics.v1.MetricsService/Export";
    const ITEMS: &'static str = "data points";
    const REQUEST: &'static otlp::Message = &otlp::METRICS;
    const REJECTED: &'static str = "rejectedDataPoints";
    const FILE: &'static str = "metrics.jsonl";

    fn rejected(&self) -> i64 {
        self.partial_success.as_ref().map_or(0, |partial| partial.rejected_data_points)
    }
}

impl Answer for ExportTraceServiceResponse {
    const METHOD: &'static str = "/opentelemetry.proto.collector.trace.v1.TraceService/Export";
    const ITEMS: &'static str = "spans";
    const REQUEST: &'static otlp::Message = &otlp::TRACES;
    const REJECTED: &'static str = "rejectedSpans";
    const FILE: &'static str = "traces.jsonl";

    fn rejected(&self) -> i64 {
        self.partial_success.as_ref().map_or(0, |partial| partial.rejected_spans)
    }
}

impl Answer for ExportLogsServiceResponse {
    const METHOD: &'static str = "/opentelemetry.proto.collector.logs.v1.LogsService/Export";
    const ITEMS: &'static str = "log records";
    const REQUEST: &'static otlp::Message = &otlp::LOGS;
    const REJECTED: &'static str = "rejectedLogRecords";
    const FILE: &'static str = "logs.jsonl";
    const IS_OPTIONAL: bool = true;

    fn rejected(&self) -> i64 {
        self.partial_success.as_ref().map_or(0, |partial| partial.rejected_log_records)
    }
}

/// A task on the exporter's runtime that sends until its input ends; it is aborted when this value
/// is dropped.
pub(super) struct SendTask {
    closing: watch::Sender<Option<Instant>>,
    task: AbortHandle,
    /// Closed when the task ends; nothing is sent.
    ended: Lock<mpsc::Receiver<()>>,
}

impl SendTask {
    /// Starts `work`, which sends `what` over `connection`.
    pub(super) fn start<W>(
        connection: Arc<Connection>,
        what: &'static str,
        work: impl FnOnce(Courier) -> W + Send + 'static,
    ) -> Self
    where
        W: Future<Output = ()> + Send + 'static,
    {
        let closing = watch::Sender::new(None);
        let (running, ended) = mpsc::channel(1);
        let runtime = connection.runtime().clone();
        let courier = Courier { connection, what, closing: closing.subscribe() };
        let task = runtime.spawn(async move {
            let _running = running;
            work(courier).await;
        });
        Self { closing, task: task.abort_handle(), ended: Lock::new(ended) }
    }

    /// Limits the retries of failed requests to a moment from now on.
    pub(super) fn hurry(&self) {
        self.closing.send_replace(Some(Instant::now() + FINAL_RETRIES.into()));
    }

    /// Waits until the task has ended, at most until `deadline` and until the user interrupts the
    /// run, and then aborts it.
    pub(super) fn end(&self, deadline: Nanos, interrupt: &Interrupt) {
        interrupt.wait_for(self.ended.lock().recv(), deadline);
        self.task.abort();
    }
}

impl Drop for SendTask {
    fn drop(&mut self) {
        self.task.abort();
    }
}

/// Sends requests, retries those that failed temporarily, and reports what the collector did not
/// accept.
pub(super) struct Courier {
    connection: Arc<Connection>,
    /// Describes the contents of the requests.
    what: &'static str,
    /// The end of retries, once the run has ended.
    closing: watch::Receiver<Option<Instant>>,
}

impl Courier {
    /// Sends an encoded request. Returns the number of its items that the collector rejected.
    pub(super) async fn send<A: Answer>(&mut self, body: &Bytes) -> Result<u64, Failure> {
        self.send_differences::<A>(body, body).await
    }

    /// Like [`Courier::send`], for a request with the differences of `totals`.
    pub(super) async fn send_differences<A: Answer>(
        &mut self,
        body: &Bytes,
        totals: &Bytes,
    ) -> Result<u64, Failure> {
        let outcome = match self.connection.keep::<A>(body, totals) {
            Ok(()) => self.send_until_taken::<A>(body).await,
            Err(failure) => Err(failure),
        };
        match &outcome {
            Ok(0) => {}
            Err(failure) if A::IS_OPTIONAL && failure.is_unsupported => {}
            Ok(rejected) => self.connection.complain(format_args!(
                "rejected {rejected} {} of {}; see its log for the reason",
                A::ITEMS,
                self.what
            )),
            Err(failure) => self.connection.complain(format_args!(
                "did not accept {} ({}); the run continues, and its files are complete",
                self.what, failure.reason
            )),
        }
        outcome
    }

    async fn send_until_taken<A: Answer>(&mut self, body: &Bytes) -> Result<u64, Failure> {
        let mut pause = RETRY_PAUSE;
        let until = Instant::now() + RETRIES;
        loop {
            let failure = match self.connection.send::<A>(body.clone()).await {
                Err(failure) if failure.is_passing => failure,
                outcome => return outcome,
            };
            if !self.pause(failure.after.unwrap_or_default(), pause, until).await {
                return Err(failure);
            }
            pause = (pause * 2).min(LONGEST_PAUSE);
        }
    }

    /// Waits before a retry for the time that the collector `asked` for, but at least `ours`.
    /// Returns false if there is not enough time left.
    async fn pause(&mut self, asked: Duration, ours: Duration, until: Instant) -> bool {
        let closing = *self.closing.borrow_and_update();
        let left = closing.unwrap_or(until).saturating_duration_since(Instant::now());
        if left.is_zero() || closing.is_some() && asked > left {
            return false;
        }
        if closing.is_some() {
            // No later attempt is possible.
            tokio::time::sleep(asked.max(RETRY_PAUSE).min(left)).await;
        } else {
            // The end of the run ends the pause.
            let wanted = asked.max(ours).min(left);
            let _ = tokio::time::timeout(wanted, self.closing.changed()).await;
        }
        true
    }
}

/// Maximum length of a collector's message that is shown, in bytes.
const MAX_MESSAGE: usize = 120;

/// The reason why the collector did not accept a request.
#[derive(Debug)]
pub(super) struct Failure {
    /// The reason: a status, or an error of the connection.
    pub(super) reason: String,
    /// Whether the collector may accept it later.
    pub(super) is_passing: bool,
    /// Whether the collector does not know the signal.
    pub(super) is_unsupported: bool,
    /// When to retry, if the collector specified it.
    pub(super) after: Option<Duration>,
}

impl Failure {
    fn new(reason: String, is_passing: bool) -> Self {
        Self { reason, is_passing, is_unsupported: false, after: None }
    }

    /// Returns the failure of a request that received no response in time.
    pub(super) fn unanswered() -> Self {
        Self::new("no response in time".to_owned(), true)
    }

    /// Returns the failure of a request that is not sent, since the collector asked for a pause that
    /// is not over.
    fn throttled(left: Duration) -> Self {
        let reason = "it asked for a pause that is not over".to_owned();
        Self { after: Some(left), ..Self::new(reason, true) }
    }

    /// Returns the failure of a request that is not a valid message.
    fn not_convertible() -> Self {
        Self::new("the request cannot be converted to JSON".to_owned(), false)
    }
}

impl Connection {
    /// Sends an encoded request with the differences of `totals`, or with these themselves, once, on the
    /// connection's runtime, within its timeout.
    pub(super) fn start_sending<A: Answer>(
        self: &Arc<Self>,
        body: Bytes,
        totals: Bytes,
    ) -> JoinHandle<Result<u64, Failure>> {
        let connection = Arc::clone(self);
        self.runtime().spawn(async move {
            connection.keep::<A>(&body, &totals)?;
            let sending = connection.send::<A>(body);
            let sent = tokio::time::timeout(connection.timeout, sending).await;
            sent.unwrap_or_else(|_| Err(Failure::unanswered()))
        })
    }

    /// Writes an encoded request to the files, if there are any. Without a collector, this is the
    /// whole export. Next to one, the files have the `totals` of the differences: these cover the time
    /// since the collector's last answer, and would overlap where one is missing.
    fn keep<A: Answer>(&self, body: &Bytes, totals: &Bytes) -> Result<(), Failure> {
        let Some(files) = &self.files else { return Ok(()) };
        let is_export = matches!(self.client, Client::Files);
        let kept = if is_export { body } else { totals };
        let Err(reason) = files.append::<A>(kept) else { return Ok(()) };
        if is_export {
            return Err(Failure::new(reason, false));
        }
        files.complain(&reason);
        Ok(())
    }

    /// Sends an encoded request to the collector once, unless it asked for a pause that is not over.
    /// Returns the number of rejected items.
    async fn send<A: Answer>(&self, body: Bytes) -> Result<u64, Failure> {
        if let Some(left) = self.throttle.left() {
            return Err(Failure::throttled(left));
        }
        let outcome = self.exchange::<A>(body).await;
        if let Err(Failure { after: Some(after), is_passing: true, .. }) = &outcome {
            self.throttle.start(*after);
        }
        outcome
    }

    async fn exchange<A: Answer>(&self, body: Bytes) -> Result<u64, Failure> {
        let rejected = match &self.client {
            Client::Grpc(channel) => self.call::<A>(channel.clone(), body).await?.rejected(),
            Client::Http(client) => {
                let answer = self.post(client, "application/x-protobuf", body).await?;
                // The status determines success; some collectors send no message.
                A::decode(&answer[..]).unwrap_or_default().rejected()
            }
            Client::HttpJson(client) => {
                let json = otlp::to_json(&body, A::REQUEST).ok_or_else(Failure::not_convertible)?;
                let answer = self.post(client, "application/json", json.into()).await?;
                let answer: Value = serde_json::from_slice(&answer).unwrap_or_default();
                rejected_in(&answer, A::REJECTED)
            }
            Client::Files => 0,
        };
        Ok(u64::try_from(rejected).unwrap_or(0))
    }

    async fn call<A: Answer>(&self, channel: Channel, body: Bytes) -> Result<A, Failure> {
        let mut client = tonic::client::Grpc::new(channel);
        if self.gzip {
            client = client.send_compressed(CompressionEncoding::Gzip);
        }
        client.ready().await.map_err(|error| Failure::new(root(&error).to_string(), true))?;
        let mut request = tonic::Request::new(body);
        *request.metadata_mut() = MetadataMap::from_headers(self.headers.clone());
        let answer =
            client.unary(request, PathAndQuery::from_static(A::METHOD), Encoded::new()).await;
        let failed = |status: Status| match broken(&status) {
            Some(failure) => failure,
            None => refused(&status),
        };
        Ok(answer.map_err(failed)?.into_inner())
    }

    /// Sends a body over HTTP. Returns the beginning of the response's.
    async fn post(
        &self,
        client: &reqwest::Client,
        content_type: &'static str,
        body: Bytes,
    ) -> Result<Vec<u8>, Failure> {
        let mut request = client
            .post(self.url.clone())
            .headers(self.headers.clone())
            .header(CONTENT_TYPE, content_type);
        request = if self.gzip {
            request.header(CONTENT_ENCODING, "gzip").body(gzip(&body))
        } else {
            request.body(body)
        };
        let mut response = request.send().await.map_err(|error| unanswered(&error))?;
        let status = response.status();
        if !status.is_success() {
            let after = response.headers().get(RETRY_AFTER);
            let after = after.and_then(|value| retry_after(value.to_str().ok()?));
            return Err(Failure {
                reason: format!("it returned status {status}"),
                is_passing: matches!(status.as_u16(), 429 | 502 | 503 | 504),
                is_unsupported: matches!(status.as_u16(), 404 | 405 | 415 | 501),
                after,
            });
        }
        let mut answer = Vec::new();
        while let Some(piece) = response.chunk().await.map_err(|error| unanswered(&error))? {
            answer.extend_from_slice(&piece);
            if answer.len() > MAX_RESPONSE_BYTES {
                break;
            }
        }
        Ok(answer)
    }
}

/// Returns the number of rejected items in a JSON response; 64-bit integers are text, but some
/// collectors write numbers.
fn rejected_in(answer: &Value, member: &str) -> i64 {
    let count = &answer["partialSuccess"][member];
    count.as_i64().or_else(|| count.as_str()?.parse().ok()).unwrap_or(0)
}

fn unanswered(error: &reqwest::Error) -> Failure {
    Failure::new(root(error).to_string(), !error.is_builder())
}

/// Returns the failure of a request whose connection broke. The status is then not a response of
/// the collector, whatever its code.
fn broken(status: &Status) -> Option<Failure> {
    find::<tonic::transport::Error>(status)?;
    Some(Failure::new(root(status).to_string(), true))
}

/// Returns the failure for a status. The OTLP specification, "Failures", defines which codes are
/// temporary; a collector with exhausted resources indicates it itself, and any may specify when to
/// retry ("OTLP/gRPC Throttling").
fn refused(status: &Status) -> Failure {
    let after = retry_delay(status.details());
    let is_passing = match status.code() {
        Code::Cancelled
        | Code::DeadlineExceeded
        | Code::Aborted
        | Code::OutOfRange
        | Code::Unavailable
        | Code::DataLoss => true,
        Code::ResourceExhausted => after.is_some(),
        _ => false,
    };
    let is_unsupported = status.code() == Code::Unimplemented;
    let reason = one_line(status.code().description(), status.message());
    Failure { reason, is_passing, is_unsupported, after }
}

/// Returns what a status means, with the first line of its message if that is not too long.
fn one_line(meaning: &str, message: &str) -> String {
    let line = message.lines().next().map(str::trim).unwrap_or_default();
    if line.is_empty() || line.len() > MAX_MESSAGE {
        return meaning.to_owned();
    }
    format!("{meaning}: {line}")
}

fn gzip(body: &[u8]) -> Vec<u8> {
    let mut encoder = GzEncoder::new(Vec::new(), Compression::default());
    // Writing to a vector cannot fail.
    let _ = encoder.write_all(body);
    encoder.finish().unwrap_or_default()
}

/// A codec for messages that are already encoded.
struct Encoded<A>(PhantomData<fn() -> A>);

impl<A> Encoded<A> {
    const fn new() -> Self {
        Self(PhantomData)
    }
}

impl<A: Answer> Codec for Encoded<A> {
    type Encode = Bytes;
    type Decode = A;
    type Encoder = Self;
    type Decoder = Self;

    fn encoder(&mut self) -> Self {
        Self::new()
    }

    fn decoder(&mut self) -> Self {
        Self::new()
    }
}

impl<A: Answer> Encoder for Encoded<A> {
    type Item = Bytes;
    type Error = Status;

    fn encode(&mut self, body: Bytes, buffer: &mut EncodeBuf<'_>) -> Result<(), Status> {
        buffer.put(body);
        Ok(())
    }
}

impl<A: Answer> Decoder for Encoded<A> {
    type Item = A;
    type Error = Status;

    fn decode(&mut self, buffer: &mut DecodeBuf<'_>) -> Result<Option<A>, Status> {
        let answer = buffer.copy_to_bytes(buffer.remaining());
        Ok(Some(A::decode(answer).unwrap_or_default()))
    }
}
