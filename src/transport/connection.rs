//! One HTTP/1.1 connection, driven by the request that uses it.
//!
//! hyper's connection future is not spawned: the exchange polls it. So a body
//! frame is taken before the socket is read again, and the stamp of the last
//! read is the frame's own.

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

use super::io_log::IoLog;
use super::limit::Slot;
use super::traced_io::TracedIo;

/// A connection and its socket's log.
#[derive(Debug)]
pub(super) struct Connection {
    sender: http1::SendRequest<Full<Bytes>>,
    driver: http1::Connection<TracedIo, Full<Bytes>>,
    log: Rc<IoLog>,
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
        slot: Slot,
        local_addr: Option<SocketAddr>,
        remote_addr: Option<SocketAddr>,
    ) -> Self {
        Self { sender, driver, log, slot, local_addr, remote_addr, ended: false }
    }

    /// The socket's log.
    pub(super) const fn log(&self) -> &Rc<IoLog> {
        &self.log
    }

    /// Closes the connection and gives back its slot.
    pub(super) fn into_slot(self) -> Slot {
        self.slot
    }

    /// Our address and the server's.
    pub(super) const fn addresses(&self) -> (Option<SocketAddr>, Option<SocketAddr>) {
        (self.local_addr, self.remote_addr)
    }

    /// Whether another request can be sent: looks whether the server has
    /// closed the idle connection.
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
            // hyper hands the request to the driver, and the driver hands the
            // response back: poll either side of it.
            if let Poll::Ready(outcome) = response.as_mut().poll(cx) {
                return Poll::Ready(outcome);
            }
            poll_once(driver, ended, cx);
            response.as_mut().poll(cx)
        })
        .await
    }

    /// The next frame of `body`; `None` at its end.
    pub(super) async fn next_frame(
        &mut self,
        body: &mut Incoming,
    ) -> Option<hyper::Result<Frame<Bytes>>> {
        poll_fn(|cx| {
            if let Poll::Ready(frame) = Pin::new(&mut *body).poll_frame(cx) {
                return Poll::Ready(frame);
            }
            self.poll_driver(cx);
            Pin::new(&mut *body).poll_frame(cx)
        })
        .await
    }

    fn poll_driver(&mut self, cx: &mut Context<'_>) {
        poll_once(&mut self.driver, &mut self.ended, cx);
    }
}

/// Polls the driver unless it has ended. How it ended shows in the exchange.
fn poll_once(
    driver: &mut http1::Connection<TracedIo, Full<Bytes>>,
    ended: &mut bool,
    cx: &mut Context<'_>,
) {
    if !*ended && Pin::new(driver).poll(cx).is_ready() {
        *ended = true;
    }
}
