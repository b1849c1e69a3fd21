//! Passes the spans of the servers on to the collector, as they were received.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use opentelemetry_proto::tonic::collector::trace::v1::ExportTraceServiceResponse;
use serde::{Deserialize, Serialize};

use base::interrupt::Interrupt;
use base::units::Nanos;
use client::record::ServerSpan;
use measure::otlp_receiver;

use super::connection::Connection;
use super::outbox::{Head, Item, Outbox};

/// Maximum size of waiting spans.
const MAX_BYTES: usize = 32 << 20;

/// Maximum number of requests whose spans wait.
const MAX_REQUESTS: u64 = 20_000;

/// How the spans of the servers were passed on to the collector.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(default)]
pub struct ServerSpansReport {
    /// Number of requests with spans: the sum of `sent` and `lost`.
    pub requests: u64,
    /// Number of requests whose spans the collector accepted, at least in part.
    pub sent: u64,
    /// Number of spans that it reported as rejected.
    pub rejected: u64,
    /// Number of requests whose spans did not reach it: they were dropped from the full queue, the
    /// collector failed, or the run ended.
    pub lost: u64,
}

/// Passes spans on.
pub(super) struct ServerSpans(Outbox);

impl ServerSpans {
    /// Starts sending over `connection`, every `interval` or when there are many.
    pub(super) fn start(connection: Arc<Connection>, interval: Duration) -> Self {
        Self(Outbox::start::<ExportTraceServiceResponse>(
            connection,
            "spans of the servers",
            Head::default(),
            (MAX_BYTES, MAX_REQUESTS),
            interval,
        ))
    }

    /// Passes on the spans of a request. Never waits for the collector.
    pub(super) fn pass_on(&self, spans: &[ServerSpan]) {
        if !spans.is_empty() {
            self.0.push(Item::of_request(otlp_receiver::request_of(spans), 1));
        }
    }

    /// Ends the input; what waits is sent.
    pub(super) fn close(&self) {
        self.0.close();
    }

    /// Waits until the rest is sent, at most until `deadline` and until the user interrupts the run,
    /// and drops what is left.
    pub(super) fn finish(&self, deadline: Nanos, interrupt: &Interrupt) -> ServerSpansReport {
        let tally = self.0.finish(deadline, interrupt);
        ServerSpansReport {
            requests: tally.given,
            sent: tally.sent,
            rejected: tally.rejected,
            lost: tally.lost,
        }
    }
}

impl fmt::Debug for ServerSpans {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ServerSpans").finish_non_exhaustive()
    }
}
