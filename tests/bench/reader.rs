//! The limit of the machine for paced streams: a loop around `epoll` and `recvmsg` that takes the
//! kernel's timestamps, counts events and does nothing else.

use std::fs;
use std::io::{IoSliceMut, Write as _};
use std::net::TcpStream;
use std::os::fd::AsRawFd;
use std::path::Path;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use anyhow::Context;
use base::units::Clock;
use nix::errno::Errno;
use nix::sys::socket::sockopt::Timestamping;
use nix::sys::socket::{
    ControlMessageOwned, MsgFlags, TimestampingFlag, Timestamps, recvmsg, setsockopt,
};
use rustix::buffer::spare_capacity;
use rustix::event::{Timespec, epoll};
use serde_json::Value;

use crate::baseline::body;
use crate::machine::{Server, Side};

/// Requests of each stream.
const REQUESTS: u64 = 6;
/// Output tokens of a request.
const TOKENS: u64 = 64;
/// Duration of a response: 50 ms to the first token, and 10 ms to each of the others.
const RESPONSE: Duration = Duration::from_millis(50 + 63 * 10);
/// Time limit of all streams.
const TIMEOUT: Duration = Duration::from_mins(1);

/// What the loop saw.
pub(crate) struct Seen {
    /// Errors of the first tokens' timestamps in ms, sorted.
    pub(crate) first: Vec<f64>,
    /// The same of the last tokens.
    pub(crate) last: Vec<f64>,
    /// Share of the reads that returned several events.
    pub(crate) merged: f64,
}

/// One read: the number of events of the response so far, and its timestamp on the monotonic clock.
struct Read {
    events: usize,
    stamp: u64,
}

struct Stream {
    socket: TcpStream,
    /// The reads of each request.
    responses: Vec<Vec<Read>>,
}

/// Reads `count` streams at once, whose starts are spread over the duration of a response.
pub(crate) fn streams(count: usize) -> anyhow::Result<Seen> {
    let directory = tempfile::tempdir()?;
    let log = directory.path().join("server.jsonl");
    let flags = ["--ttft", "50ms", "--itl", "10ms", "--jitter", "5%", "--write-log"];
    let path = log.to_str().context("the name of a temporary directory is text")?;
    let server = Server::start(&[&flags[..], &[path]].concat())?;
    let address =
        server.url.strip_prefix("http://").context("a URL of the mock server")?.to_owned();
    let streams = std::thread::scope(|scope| {
        let looping = scope.spawn(|| {
            Side::Client.enter()?;
            read_all(&address, count)
        });
        looping.join().map_err(|_| anyhow::anyhow!("the loop panicked"))?
    })?;
    drop(server);
    compare(&streams, &log)
}

fn read_all(address: &str, count: usize) -> anyhow::Result<Vec<Stream>> {
    let poll = epoll::create(epoll::CreateFlags::empty())?;
    let (mut streams, mut finished) = (Vec::<Stream>::with_capacity(count), 0);
    let mut ready = Vec::with_capacity(1024);
    let (mut buffer, mut control) = (vec![0; 64 << 10], nix::cmsg_space!(Timestamps));
    let begin = Instant::now();
    while finished < count {
        anyhow::ensure!(begin.elapsed() < TIMEOUT, "the streams did not end within {TIMEOUT:?}");
        let due = RESPONSE.mul_f64(streams.len() as f64 / count as f64);
        let wait = if streams.len() < count {
            due.saturating_sub(begin.elapsed())
        } else {
            Duration::from_millis(100)
        };
        let wait = Timespec::try_from(wait)?;
        epoll::wait(&poll, spare_capacity(&mut ready), Some(&wait))?;
        for event in ready.drain(..) {
            let index = usize::try_from(event.data.u64())?;
            if read(&mut streams[index], index, &mut buffer, &mut control)? {
                finished += 1;
            }
        }
        if streams.len() < count && begin.elapsed() >= due {
            let index = streams.len();
            let mut stream = connect(address)?;
            let data = epoll::EventData::new_u64(index as u64);
            epoll::add(&poll, &stream.socket, data, epoll::EventFlags::IN)?;
            request(&mut stream, index)?;
            streams.push(stream);
        }
    }
    Ok(streams)
}

fn connect(address: &str) -> anyhow::Result<Stream> {
    let socket = TcpStream::connect(address)?;
    socket.set_nodelay(true)?;
    socket.set_nonblocking(true)?;
    let stamps = TimestampingFlag::SOF_TIMESTAMPING_RX_SOFTWARE
        | TimestampingFlag::SOF_TIMESTAMPING_SOFTWARE;
    setsockopt(&socket, Timestamping, &stamps)?;
    Ok(Stream { socket, responses: Vec::new() })
}

/// Sends the next request of a stream.
fn request(stream: &mut Stream, index: usize) -> anyhow::Result<()> {
    let body = body(TOKENS, true);
    let id = id(index, stream.responses.len());
    let length = body.len();
    let head = format!(
        "POST /v1/chat/completions HTTP/1.1\r\nhost: mock\r\ncontent-type: application/json\r\n\
         x-request-id: {id}\r\ncontent-length: {length}\r\n\r\n"
    );
    stream.socket.write_all([head.as_bytes(), body.as_bytes()].concat().as_slice())?;
    stream.responses.push(Vec::new());
    Ok(())
}

fn id(stream: usize, request: usize) -> String {
    format!("{stream}-{request}")
}

/// Reads what is there; returns whether the last response of the stream is complete.
fn read(
    stream: &mut Stream,
    index: usize,
    buffer: &mut [u8],
    control: &mut [u8],
) -> anyhow::Result<bool> {
    let mut slices = [IoSliceMut::new(buffer)];
    let flags = MsgFlags::empty();
    let message = match recvmsg::<()>(stream.socket.as_raw_fd(), &mut slices, Some(control), flags)
    {
        Err(Errno::EAGAIN) => return Ok(false),
        message => message?,
    };
    let wall = SystemTime::now().duration_since(UNIX_EPOCH)?.as_nanos();
    let age = message.cmsgs()?.find_map(|control| match control {
        ControlMessageOwned::ScmTimestampsns(stamps) => {
            let stamp = Duration::from(stamps.system).as_nanos();
            Some(wall.saturating_sub(stamp))
        }
        _ => None,
    });
    let now = Clock::now().0;
    let bytes = message.bytes;
    anyhow::ensure!(bytes > 0, "the server closed the connection");
    let age = u64::try_from(age.context("the kernel takes no timestamps")?)?;
    let bytes = &buffer[..bytes];
    let events = bytes.windows(6).filter(|window| *window == b"data: ").count();
    let response = stream.responses.last_mut().context("a response without a request")?;
    let before = response.last().map_or(0, |read| read.events);
    response.push(Read { events: before + events, stamp: now.saturating_sub(age) });
    if !bytes.ends_with(b"0\r\n\r\n") {
        return Ok(false);
    }
    if stream.responses.len() as u64 == REQUESTS {
        return Ok(true);
    }
    request(stream, index)?;
    Ok(false)
}

/// Compares the timestamps with the log of the server.
fn compare(streams: &[Stream], log: &Path) -> anyhow::Result<Seen> {
    let mut seen = Seen { first: Vec::new(), last: Vec::new(), merged: 0.0 };
    for line in fs::read_to_string(log)?.lines() {
        let line: Value = serde_json::from_str(line)?;
        let id = line["request_id"].as_str().and_then(|id| id.split_once('-'));
        let (stream, request) = id.context("a request without its ID")?;
        let reads = &streams[stream.parse::<usize>()?].responses[request.parse::<usize>()?];
        let events = line["events"].as_array().context("a request without events")?;
        let has_tokens = |event: &&Value| event["tokens"].as_u64() > Some(0);
        for (at, errors) in [
            (events.iter().position(|event| has_tokens(&event)), &mut seen.first),
            (events.iter().rposition(|event| has_tokens(&event)), &mut seen.last),
        ] {
            let at = at.context("a response without tokens")?;
            let read = reads.iter().find(|read| read.events > at).context("an event is missing")?;
            let time = |key: &str| events[at][key].as_u64().context("an event was not written");
            let (from, to) = (time("write_start_ns")?, time("written_ns")?);
            let error = from.saturating_sub(read.stamp).max(read.stamp.saturating_sub(to));
            errors.push(error as f64 / 1e6);
        }
    }
    let all = || streams.iter().flat_map(|stream| &stream.responses);
    let is_merged = |pair: &&[Read]| pair[1].events > pair[0].events + 1;
    let merged: usize = all().map(|reads| reads.windows(2).filter(is_merged).count()).sum();
    let reads: usize = all().map(Vec::len).sum();
    seen.merged = merged as f64 / reads as f64;
    seen.first.sort_by(f64::total_cmp);
    seen.last.sort_by(f64::total_cmp);
    Ok(seen)
}
