//! Reads from a socket, with the kernel's receive timestamps if there are any.

pub(crate) use super::system::reads::{Receiver, keep_stamping};

/// The outcome of one read.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Received {
    /// Number of bytes.
    pub(crate) bytes: usize,
    /// Time at which the kernel received the last of them, in nanoseconds since the Unix epoch.
    pub(crate) stamp_ns: Option<u64>,
}
