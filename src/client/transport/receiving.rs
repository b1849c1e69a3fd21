//! Receives a response into its exchange.

use base::redact;

use super::Config;
use super::body::BodySink;
use super::budget::Held;
use super::exchange::{Exchange, Notifications};
use super::http1::{ResponseHead, ResponseSink};
use crate::record::RequestError;
use crate::server_family;

/// Number of bytes kept of a response that is too large: enough to identify it.
const KEPT_OF_TOO_MUCH: usize = 1 << 20;

/// Receives the response of an exchange.
pub(super) struct Receiving<'a, 'w> {
    exchange: &'a mut Exchange,
    watch: &'a mut Notifications<'w>,
    config: &'a Config,
    body: Body<'a>,
}

/// The body of the response.
enum Body<'a> {
    /// Its head has not arrived. It will be received within this part of the memory budget.
    Expected(Option<Held<'a>>),
    Begun(BodySink<'a>),
}

impl<'a, 'w> Receiving<'a, 'w> {
    /// Creates the receiver of the response of `exchange`, whose body is received within `memory`.
    pub(super) const fn new(
        exchange: &'a mut Exchange,
        watch: &'a mut Notifications<'w>,
        config: &'a Config,
        memory: Held<'a>,
    ) -> Self {
        Self { exchange, watch, config, body: Body::Expected(Some(memory)) }
    }

    /// Completes the body.
    pub(super) fn finish(&mut self) -> Result<(), RequestError> {
        let Body::Begun(sink) = &mut self.body else { return Ok(()) };
        let read = self.exchange.last_read();
        let finished = sink.finish(read, &mut self.exchange.body);
        if finished.is_err() {
            self.exchange.body.shorten(KEPT_OF_TOO_MUCH);
        }
        finished
    }
}

impl ResponseSink for Receiving<'_, '_> {
    fn head(&mut self, head: &ResponseHead<'_>) -> Result<(), RequestError> {
        let exchange = &mut *self.exchange;
        exchange.status = Some(head.status);
        exchange.trace.headers_received = Some(exchange.last_read().arrival.at);
        exchange.trace.reason = Some(head.owned_reason());
        exchange.trace.report_headers = server_family::reports(head.headers());
        if self.config.keep_headers {
            let shown = |(name, value): (&str, &[u8])| {
                (name.to_ascii_lowercase(), redact::header_bytes(name, value))
            };
            exchange.trace.response_headers = head.headers().map(shown).collect();
        }
        if let Body::Expected(memory) = &mut self.body
            && let Some(memory) = memory.take()
        {
            let sink = BodySink::new(head, self.config.body_limit, memory)?;
            exchange.body.is_event_stream = sink.is_event_stream();
            self.body = Body::Begun(sink);
        }
        Ok(())
    }

    fn data(&mut self, bytes: &[u8]) -> Result<(), RequestError> {
        let Body::Begun(sink) = &mut self.body else { return Ok(()) };
        let exchange = &mut *self.exchange;
        let read = exchange.last_read();
        exchange.trace.receive_start.get_or_insert(read.arrival.at);
        let seen = exchange.body.events.len();
        let pushed = sink.push(bytes, read, &mut exchange.body);
        if pushed.is_err() {
            exchange.body.shorten(KEPT_OF_TOO_MUCH);
            return pushed;
        }
        self.watch.show(&exchange.body, seen);
        Ok(())
    }
}
