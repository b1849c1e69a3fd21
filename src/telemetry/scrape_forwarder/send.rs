//! One request to the collector, over the connection that the exporter uses.

use std::io::Write as _;
use std::time::Duration;

use bytes::{Buf as _, BufMut as _, Bytes};
use flate2::Compression;
use flate2::write::GzEncoder;
use http::header::{CONTENT_ENCODING, CONTENT_TYPE, RETRY_AFTER};
use http::uri::PathAndQuery;
use opentelemetry_proto::tonic::collector::metrics::v1::ExportMetricsServiceResponse;
use prost::Message as _;
use tonic::codec::{Codec, CompressionEncoding, DecodeBuf, Decoder, EncodeBuf, Encoder};
use tonic::metadata::MetadataMap;
use tonic::transport::Channel;
use tonic::{Code, Status};

use super::super::connection::{Client, Connection, described};

/// The method of the collector's service.
const EXPORT: &str = "/opentelemetry.proto.collector.metrics.v1.MetricsService/Export";

/// Of an answer over HTTP no more is read: it holds a number and a sentence.
const MOST_ANSWER_BYTES: usize = 64 * 1024;

/// Why the collector did not take a request.
#[derive(Debug)]
pub(super) struct Failure {
    /// What happened.
    pub(super) reason: String,
    /// It may take it later.
    pub(super) is_passing: bool,
    /// When to try again, if the collector said so.
    pub(super) after: Option<Duration>,
}

impl Connection {
    /// Sends an encoded `ExportMetricsServiceRequest`. Returns how many of its
    /// points the collector rejected.
    pub(super) async fn send(&self, body: Bytes) -> Result<u64, Failure> {
        let response = match &self.client {
            Client::Grpc(channel) => self.call(channel.clone(), body).await,
            Client::Http(client) => self.post(client, body).await,
        }?;
        let rejected = response.partial_success.map_or(0, |partial| partial.rejected_data_points);
        Ok(u64::try_from(rejected).unwrap_or(0))
    }

    async fn call(
        &self,
        channel: Channel,
        body: Bytes,
    ) -> Result<ExportMetricsServiceResponse, Failure> {
        let mut client = tonic::client::Grpc::new(channel);
        if self.gzip {
            client = client.send_compressed(CompressionEncoding::Gzip);
        }
        client.ready().await.map_err(|error| Failure {
            reason: described(error),
            is_passing: true,
            after: None,
        })?;
        let mut request = tonic::Request::new(body);
        *request.metadata_mut() = MetadataMap::from_headers(self.headers.clone());
        let answer = client.unary(request, PathAndQuery::from_static(EXPORT), Encoded).await;
        Ok(answer.map_err(|status| refused(&status))?.into_inner())
    }

    async fn post(
        &self,
        client: &reqwest::Client,
        body: Bytes,
    ) -> Result<ExportMetricsServiceResponse, Failure> {
        let mut request = client
            .post(self.url.clone())
            .headers(self.headers.clone())
            .header(CONTENT_TYPE, "application/x-protobuf");
        request = if self.gzip {
            request.header(CONTENT_ENCODING, "gzip").body(gzip(&body))
        } else {
            request.body(body)
        };
        let mut response = request.send().await.map_err(unanswered)?;
        let status = response.status();
        if !status.is_success() {
            let after = response.headers().get(RETRY_AFTER);
            let after = after.and_then(|value| value.to_str().ok()?.trim().parse().ok());
            return Err(Failure {
                reason: format!("it answered {status}"),
                is_passing: matches!(status.as_u16(), 429 | 502 | 503 | 504),
                after: after.map(Duration::from_secs),
            });
        }
        let mut answer = Vec::new();
        while let Some(piece) = response.chunk().await.map_err(unanswered)? {
            answer.extend_from_slice(&piece);
            if answer.len() > MOST_ANSWER_BYTES {
                break;
            }
        }
        // A status of success is what counts; some collectors send no message.
        Ok(ExportMetricsServiceResponse::decode(&answer[..]).unwrap_or_default())
    }
}

fn unanswered(error: reqwest::Error) -> Failure {
    Failure { is_passing: !error.is_builder(), reason: described(error), after: None }
}

/// Which codes pass is said by the OTLP specification, "Failures"; an exhausted
/// collector says so itself.
fn refused(status: &Status) -> Failure {
    let is_passing = match status.code() {
        Code::Cancelled
        | Code::DeadlineExceeded
        | Code::Aborted
        | Code::OutOfRange
        | Code::Unavailable
        | Code::DataLoss => true,
        Code::ResourceExhausted => {
            memchr::memmem::find(status.details(), b"google.rpc.RetryInfo").is_some()
        }
        _ => false,
    };
    Failure { reason: described(status), is_passing, after: None }
}

fn gzip(body: &[u8]) -> Vec<u8> {
    let mut encoder = GzEncoder::new(Vec::new(), Compression::default());
    // A vector takes all that is written.
    let _ = encoder.write_all(body);
    encoder.finish().unwrap_or_default()
}

/// Sends messages that are encoded already.
struct Encoded;

impl Codec for Encoded {
    type Encode = Bytes;
    type Decode = ExportMetricsServiceResponse;
    type Encoder = Self;
    type Decoder = Self;

    fn encoder(&mut self) -> Self {
        Self
    }

    fn decoder(&mut self) -> Self {
        Self
    }
}

impl Encoder for Encoded {
    type Item = Bytes;
    type Error = Status;

    fn encode(&mut self, body: Bytes, buffer: &mut EncodeBuf<'_>) -> Result<(), Status> {
        buffer.put(body);
        Ok(())
    }
}

impl Decoder for Encoded {
    type Item = ExportMetricsServiceResponse;
    type Error = Status;

    fn decode(&mut self, buffer: &mut DecodeBuf<'_>) -> Result<Option<Self::Item>, Status> {
        let answer = buffer.copy_to_bytes(buffer.remaining());
        Ok(Some(ExportMetricsServiceResponse::decode(answer).unwrap_or_default()))
    }
}
