//! The messages of HTTP/1.1: writes requests, and reads responses in whatever pieces they arrive.
//! It uses no socket and reads no clock.

mod chunked;
mod request;
mod response;
#[cfg(test)]
mod tests;

pub(super) use request::{as_sent, head};
pub use response::{Progress, ResponseDecoder, ResponseHead, ResponseSink};
