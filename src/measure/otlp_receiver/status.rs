//! The errors of OTLP servers: `google.rpc.Status`, and the time after which to send again in it.

use std::time::Duration;

use prost::Message;

/// `google.rpc.Status`.
#[derive(Clone, PartialEq, Message)]
pub struct Status {
    #[prost(int32, tag = "1")]
    pub code: i32,
    #[prost(string, tag = "2")]
    pub message: String,
    #[prost(message, repeated, tag = "3")]
    details: Vec<Any>,
}

/// `google.protobuf.Any`.
#[derive(Clone, PartialEq, Message)]
struct Any {
    #[prost(string, tag = "1")]
    type_url: String,
    #[prost(bytes = "vec", tag = "2")]
    value: Vec<u8>,
}

/// `google.rpc.RetryInfo`.
#[derive(Clone, PartialEq, Message)]
struct RetryInfo {
    #[prost(message, optional, tag = "1")]
    retry_delay: Option<Delay>,
}

/// `google.protobuf.Duration`.
#[derive(Clone, PartialEq, Message)]
struct Delay {
    #[prost(int64, tag = "1")]
    seconds: i64,
    #[prost(int32, tag = "2")]
    nanos: i32,
}

impl Status {
    /// Creates a status without details.
    pub(super) const fn new(code: i32, message: String) -> Self {
        Self { code, message, details: Vec::new() }
    }
}

/// Returns the delay of the `RetryInfo` in the details of a gRPC status, an encoded [`Status`]; zero if it
/// does not have a delay, and `None` if there is no `RetryInfo`.
pub fn retry_delay(details: &[u8]) -> Option<Duration> {
    let status = Status::decode(details).ok()?;
    let info = status.details.iter().find(|it| it.type_url.ends_with("/google.rpc.RetryInfo"))?;
    let delay = RetryInfo::decode(&*info.value).ok()?.retry_delay.unwrap_or_default();
    Some(Duration::new(delay.seconds.try_into().ok()?, delay.nanos.try_into().ok()?))
}
