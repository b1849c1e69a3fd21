//! One HTTP/1.1 connection, driven by the request that uses it.
//!
//! hyper's connection future is not spawned; the exchange polls it. A body frame is therefore taken
//! before the socket is read again, and the timestamp of the last read is that of the frame. It is
//! also known when the rest of a response is awaited.

use std::future::poll_fn;
use std::net::SocketAddr;
use std::pin::{Pin, pin};
use std::rc::Rc;
use std::task::{Context, Poll, Waker};

use bytes::Bytes;
use http::{Request, Response};
use http_body_util::Full;
use hyper::body::{Body, Frame, Incoming};
use hyper::client::conn::http1;

use super::acknowledge::Acknowledger;
use super::io_log::IoLog;
use super::limit::Slot;
use super::traced_io::TracedIo;

/// A connection and the log of its socket.
#[derive(Debug)]
pub(super) struct Connection {
    sender: http1::SendRequest<Full<Bytes>>,
    driver: http1::Connection<TracedIo, Full<Bytes>>,
    log: Rc<IoLog>,
    acknowledger: Acknowledger,
    slot: Slot,
    local_addr: Option<SocketAddr>,
    remote_addr: Option<SocketAddr>,
    ended: bool,
}

impl Connection {
    pub(super) const fn new(
        sender: http1::SendRequest<Full<Bytes>>,
        driver: http1::Connection<TracedIo, Full<Bytes>>,
        log: Rc<IoLog>,
        acknowledger: Acknowledger,
        slot: Slot,
        local_addr: Option<SocketAddr>,
        remote_addr: Option<SocketAddr>,
    ) -> Self {
        Self { sender, driver, log, acknowledger, slot, local_addr, remote_addr, ended: false }
    }

    pub(super) const fn log(&self) -> &Rc<IoLog> {
        &self.log
    }

    /// Closes the connection and returns its slot.
    pub(super) fn into_slot(self) -> Slot {
        self.slot
    }

    /// Returns the local and the remote address.
    pub(super) const fn addresses(&self) -> (Option<SocketAddr>, Option<SocketAddr>) {
        (self.local_addr, self.remote_addr)
    }

    /// Returns whether another request can be sent; checks whether the server has closed the idle
    /// connection.
    pub(super) fn is_usable(&mut self) -> bool {
        self.poll_driver(&mut Context::from_waker(Waker::noop()));
        !self.ended && self.sender.is_ready()
    }

    /// Sends a request and waits for the response's headers.
    pub(super) async fn send(
        &mut self,
        request: Request<Full<Bytes>>,
    ) -> hyper::Result<Response<Incoming>> {
        let mut response = pin!(self.sender.send_request(request));
        let (driver, ended) = (&mut self.driver, &mut self.ended);
        poll_fn(|cx| {
            // hyper hands the request to the driver, and the driver returns the response, so it is
            // polled before and after the driver.
            if let Poll::Ready(outcome) = response.as_mut().poll(cx) {
                return Poll::Ready(outcome);
            }
            poll_once(driver, ended, cx);
            let outcome = response.as_mut().poll(cx);
            if outcome.is_pending() {
                acknowledge(&self.log, &self.acknowledger);
            }
            outcome
        })
        .await
    }

    /// Returns the next frame of `body`; `None` at its end.
    pub(super) async fn next_frame(
        &mut self,
        body: &mut Incoming,
    ) -> Option<hyper::Result<Frame<Bytes>>> {
        poll_fn(|cx| {
            if let Poll::Ready(frame) = Pin::new(&mut *body).poll_frame(cx) {
                return Poll::Ready(frame);
            }
            self.poll_driver(cx);
            let outcome = Pin::new(&mut *body).poll_frame(cx);
            if outcome.is_pending() {
                acknowledge(&self.log, &self.acknowledger);
            }
            outcome
        })
        .await
    }

    fn poll_driver(&mut self, cx: &mut Context<'_>) {
        poll_once(&mut self.driver, &mut self.ended, cx);
    }
}

/// Has the received data acknowledged while the response continues. The end of a response is
/// acknowledged by the next request.
fn acknowledge(log: &IoLog, acknowledger: &Acknowledger) {
    if log.take_new_bytes() {
        acknowledger.has_read();
    }
}

/// Polls the driver unless it has ended. Its result shows in the exchange.
fn poll_once(
    driver: &mut http1::Connection<TracedIo, Full<Bytes>>,
    ended: &mut bool,
    cx: &mut Context<'_>,
) {
    if !*ended && Pin::new(driver).poll(cx).is_ready() {
        *ended = true;
    }
}
