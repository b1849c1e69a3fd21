//! The bodies of responses: whole, or sent in parts.

use std::convert::Infallible;
use std::pin::Pin;
use std::task::{Context, Poll};

use bytes::Bytes;
use hyper::body::{Body, Frame, SizeHint};
use tokio::sync::mpsc;

use super::STALL_TIMEOUT;

/// Number of parts that wait for a client.
const WAITING: usize = 4;

/// The body of a response.
#[derive(Debug)]
pub(super) enum Answer {
    /// The whole body, until it is sent.
    Whole(Option<Bytes>),
    /// Its parts, as they come.
    Parts(mpsc::Receiver<Bytes>),
}

/// Sends the parts of a body.
#[derive(Debug)]
pub(super) struct Parts(mpsc::Sender<Bytes>);

impl Answer {
    /// Returns a body, and what sends its parts.
    pub(super) fn parts() -> (Parts, Self) {
        let (sender, receiver) = mpsc::channel(WAITING);
        (Parts(sender), Self::Parts(receiver))
    }
}

impl Parts {
    /// Sends a part; returns false if the client is gone or takes nothing.
    pub(super) async fn send(&self, part: impl Into<Bytes>) -> bool {
        self.0.send_timeout(part.into(), STALL_TIMEOUT).await.is_ok()
    }

    /// Waits until the client is gone.
    pub(super) async fn closed(&self) {
        self.0.closed().await;
    }
}

impl Body for Answer {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        let part = match self.get_mut() {
            Self::Whole(body) => Poll::Ready(body.take()),
            Self::Parts(parts) => parts.poll_recv(cx),
        };
        part.map(|part| part.map(|part| Ok(Frame::data(part))))
    }

    fn size_hint(&self) -> SizeHint {
        match self {
            Self::Whole(body) => SizeHint::with_exact(body.as_ref().map_or(0, Bytes::len) as u64),
            Self::Parts(_) => SizeHint::default(),
        }
    }
}
