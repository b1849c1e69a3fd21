//! Reads from a socket, with the kernel's receive timestamps if there are any.

pub use super::system::reads::{Receiver, keep_stamping};

/// The outcome of one read.
#[derive(Clone, Copy, Debug)]
pub struct Received {
    /// Number of bytes.
    pub bytes: usize,
    /// Time at which the kernel received the last of them, in nanoseconds since the Unix epoch.
    pub stamp_ns: Option<u64>,
}
