//! Reads with the kernel's receive timestamps.

use std::io::{self, IoSliceMut};
use std::net::UdpSocket;
use std::os::fd::AsRawFd;
use std::sync::OnceLock;

use nix::sys::socket::{
    ControlMessageOwned, MsgFlags, RecvMsg, TimestampingFlag, Timestamps, recvmsg, setsockopt,
    sockopt::Timestamping,
};
use nix::sys::time::TimeSpec;
use tokio::io::Interest;
use tokio::net::TcpStream;

use crate::platform::receive::Received;

/// Timestamps of the kernel's network stack, taken when segments arrive.
const RECEIVE_STAMPS: TimestampingFlag = TimestampingFlag::SOF_TIMESTAMPING_RX_SOFTWARE
    .union(TimestampingFlag::SOF_TIMESTAMPING_SOFTWARE);

/// Keeps the kernel's receive timestamps enabled for the life of the process: the kernel
/// enables them shortly after the first socket requests them, and disables them with the
/// last.
pub fn keep_stamping() {
    static KEEPER: OnceLock<Option<UdpSocket>> = OnceLock::new();
    KEEPER.get_or_init(|| {
        let socket = UdpSocket::bind(("127.0.0.1", 0)).ok()?;
        setsockopt(&socket, Timestamping, &RECEIVE_STAMPS).ok()?;
        Some(socket)
    });
}

/// The reader of one socket.
#[derive(Debug)]
pub struct Receiver {
    control: Vec<u8>,
}

impl Receiver {
    /// Creates the reader of `stream`, with timestamps if they are requested and the socket
    /// accepts the option.
    pub fn new(stream: &TcpStream, kernel_timestamps: bool) -> Self {
        if kernel_timestamps {
            let _ = setsockopt(stream, Timestamping, &RECEIVE_STAMPS);
        }
        Self { control: nix::cmsg_space!(Timestamps) }
    }

    /// Reads the received data; `WouldBlock` if there is none.
    pub fn receive(&mut self, stream: &TcpStream, buf: &mut [u8]) -> io::Result<Received> {
        let room = buf.len();
        let mut received = None;
        let outcome = stream.try_io(Interest::READABLE, || {
            let mut slices = [IoSliceMut::new(buf)];
            let message = recvmsg::<()>(
                stream.as_raw_fd(),
                &mut slices,
                Some(&mut self.control),
                MsgFlags::empty(),
            )?;
            let bytes = message.bytes;
            received = Some(Received { bytes, stamp_ns: stamp(&message) });
            if 0 < bytes && bytes < room {
                // The socket is empty now. Said this way the runtime waits for
                // the next bytes at once, and no system call finds it out.
                return Err(io::ErrorKind::WouldBlock.into());
            }
            Ok(())
        });
        match (received, outcome) {
            (Some(received), _) => Ok(received),
            (None, Err(error)) => Err(error),
            (None, Ok(())) => Err(io::ErrorKind::WouldBlock.into()),
        }
    }
}

fn stamp(message: &RecvMsg<'_, '_, ()>) -> Option<u64> {
    message.cmsgs().ok()?.find_map(|control| match control {
        ControlMessageOwned::ScmTimestampsns(stamps) => nanoseconds(stamps.system),
        _ => None,
    })
}

/// The kernel reports zero if it did not take a timestamp.
fn nanoseconds(time: TimeSpec) -> Option<u64> {
    let seconds = u64::try_from(time.tv_sec()).ok()?;
    let nanoseconds = u64::try_from(time.tv_nsec()).ok()?;
    Some(seconds * 1_000_000_000 + nanoseconds).filter(|stamp| *stamp > 0)
}
