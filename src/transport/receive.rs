//! Reads from a socket, with the kernel's receive stamps where there are any.

pub(super) use imp::{Receiver, keep_stamping};

/// What one read brought.
#[derive(Clone, Copy, Debug)]
pub(super) struct Received {
    pub(super) bytes: usize,
    /// When the kernel received the last of them: nanoseconds since the Unix epoch.
    pub(super) stamp_ns: Option<u64>,
}

#[cfg(target_os = "linux")]
mod imp {
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

    use super::Received;

    /// Stamps taken by the kernel's network stack as segments come.
    const RECEIVE_STAMPS: TimestampingFlag = TimestampingFlag::SOF_TIMESTAMPING_RX_SOFTWARE
        .union(TimestampingFlag::SOF_TIMESTAMPING_SOFTWARE);

    /// Keeps the kernel stamping for as long as the process lives: it starts to a
    /// little after the first socket asks, and stops with the last.
    pub(in crate::transport) fn keep_stamping() {
        static KEEPER: OnceLock<Option<UdpSocket>> = OnceLock::new();
        KEEPER.get_or_init(|| {
            let socket = UdpSocket::bind(("127.0.0.1", 0)).ok()?;
            setsockopt(&socket, Timestamping, &RECEIVE_STAMPS).ok()?;
            Some(socket)
        });
    }

    /// Reads from one socket.
    #[derive(Debug)]
    pub(in crate::transport) struct Receiver {
        control: Vec<u8>,
    }

    impl Receiver {
        /// A receiver for `stream`, whose reads bear stamps if asked. A socket that
        /// refuses them is read without.
        pub(in crate::transport) fn new(stream: &TcpStream, kernel_timestamps: bool) -> Self {
            if kernel_timestamps {
                let _ = setsockopt(stream, Timestamping, &RECEIVE_STAMPS);
            }
            Self { control: nix::cmsg_space!(Timestamps) }
        }

        /// Reads what is there; `WouldBlock` if that is nothing.
        pub(in crate::transport) fn receive(
            &mut self,
            stream: &TcpStream,
            buf: &mut [u8],
        ) -> io::Result<Received> {
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

    /// Zero is how the kernel says that there is no stamp.
    fn nanoseconds(time: TimeSpec) -> Option<u64> {
        let seconds = u64::try_from(time.tv_sec()).ok()?;
        let nanoseconds = u64::try_from(time.tv_nsec()).ok()?;
        Some(seconds * 1_000_000_000 + nanoseconds).filter(|stamp| *stamp > 0)
    }
}

#[cfg(not(target_os = "linux"))]
mod imp {
    use std::io;

    use tokio::net::TcpStream;

    use super::Received;

    /// There is nothing to keep: no stamps here.
    pub(in crate::transport) const fn keep_stamping() {}

    /// Reads from one socket.
    #[derive(Debug)]
    pub(in crate::transport) struct Receiver;

    impl Receiver {
        /// A receiver; no stamps here.
        pub(in crate::transport) const fn new(_: &TcpStream, _: bool) -> Self {
            Self
        }

        /// Reads what is there; `WouldBlock` if that is nothing.
        pub(in crate::transport) fn receive(
            &mut self,
            stream: &TcpStream,
            buf: &mut [u8],
        ) -> io::Result<Received> {
            stream.try_read(buf).map(|bytes| Received { bytes, stamp_ns: None })
        }
    }
}
