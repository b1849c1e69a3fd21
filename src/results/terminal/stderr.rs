//! Non-blocking standard error: a paused terminal, or a pipe that nobody reads, delays
//! neither the load nor the end of a run.

use std::collections::VecDeque;
use std::io::{self, Write};
use std::sync::OnceLock;
use std::thread;
use std::time::Duration;

use base::lock::{Condition, Lock};

/// Maximum number of buffered bytes; further output is dropped.
const MAX_WAITING: usize = 1 << 20;

/// Maximum time to wait for the reader when the program ends.
const FLUSH_TIMEOUT: Duration = Duration::from_secs(1);

/// A writer whose output a separate thread writes to standard error, in order.
#[derive(Debug, Clone, Copy)]
pub struct Stderr;

#[derive(Default)]
struct Waiting {
    bytes: Vec<u8>,
    is_writing: bool,
    /// Present while the live view has the terminal.
    held: Option<Held>,
}

impl Waiting {
    fn append(&mut self, bytes: &[u8]) {
        if self.bytes.len() + bytes.len() <= MAX_WAITING {
            self.bytes.extend_from_slice(bytes);
        }
    }

    fn is_idle(&self) -> bool {
        !self.is_writing && self.bytes.is_empty()
    }
}

/// Output during the live view.
#[derive(Default)]
struct Held {
    pieces: VecDeque<Piece>,
    size: usize,
}

struct Piece {
    bytes: Vec<u8>,
    /// Whether it is only for the view, and not written after it.
    is_note: bool,
}

impl Held {
    /// Appends output. Beyond a limit, the oldest is dropped.
    fn append(&mut self, bytes: &[u8], is_note: bool) {
        self.size += bytes.len();
        self.pieces.push_back(Piece { bytes: bytes.to_vec(), is_note });
        while self.size > MAX_WAITING {
            let Some(oldest) = self.pieces.pop_front() else { break };
            self.size -= oldest.bytes.len();
        }
    }
}

#[derive(Default)]
struct Queue {
    waiting: Lock<Waiting>,
    changed: Condition,
}

impl Queue {
    /// Writes queued output for the rest of the program's life.
    fn serve(&self) {
        loop {
            let mut waiting =
                self.changed.wait_while(self.waiting.lock(), |waiting| waiting.bytes.is_empty());
            let bytes = std::mem::take(&mut waiting.bytes);
            waiting.is_writing = true;
            drop(waiting);
            // An error means that the reader is gone; there is nowhere to report it.
            let _ = io::stderr().write_all(&bytes);
            self.waiting.lock().is_writing = false;
            self.changed.notify_all();
        }
    }
}

/// The queue; `None` if its thread could not be started.
fn queue() -> Option<&'static Queue> {
    static QUEUE: OnceLock<Option<&'static Queue>> = OnceLock::new();
    *QUEUE.get_or_init(|| {
        let queue: &'static Queue = Box::leak(Box::default());
        let thread = thread::Builder::new().name("stderr".to_owned());
        thread.spawn(move || queue.serve()).ok().map(|_| queue)
    })
}

/// Starts the thread, so that it does not get the priority of the first thread that writes.
pub fn start() {
    queue();
}

impl Write for Stderr {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let Some(queue) = queue() else { return io::stderr().write(bytes) };
        let mut waiting = queue.waiting.lock();
        if let Some(held) = &mut waiting.held {
            held.append(bytes, false);
        } else {
            waiting.append(bytes);
            queue.changed.notify_all();
        }
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// Writes `enter` and holds all further output back until [`release`]. Returns false if output
/// is not queued, so that it cannot be held back.
pub fn hold(enter: &[u8]) -> bool {
    let Some(queue) = queue() else { return false };
    let mut waiting = queue.waiting.lock();
    waiting.append(enter);
    waiting.held = Some(Held::default());
    queue.changed.notify_all();
    true
}

/// Writes `leave`, and then what was held back.
pub fn release(leave: &[u8]) {
    let Some(queue) = queue() else { return };
    let mut waiting = queue.waiting.lock();
    let Some(held) = waiting.held.take() else { return };
    waiting.append(leave);
    for piece in held.pieces.iter().filter(|piece| !piece.is_note) {
        waiting.append(&piece.bytes);
    }
    queue.changed.notify_all();
}

/// Adds text that only the live view shows.
pub fn note(text: &str) {
    let Some(queue) = queue() else { return };
    if let Some(held) = &mut queue.waiting.lock().held {
        held.append(text.as_bytes(), true);
    }
}

/// Returns the lines that were held back, about the last `size` bytes of them; `None` unless output
/// is held back and everything else has been written.
pub fn ready(size: usize) -> Option<Vec<String>> {
    let waiting = queue()?.waiting.lock();
    let held = waiting.held.as_ref().filter(|_| waiting.is_idle())?;
    let mut left = size;
    let is_near = |piece: &&Piece| {
        let is_near = left > 0;
        left = left.saturating_sub(piece.bytes.len());
        is_near
    };
    let near: Vec<&Piece> = held.pieces.iter().rev().take_while(is_near).collect();
    let bytes: Vec<u8> = near.iter().rev().flat_map(|piece| &piece.bytes).copied().collect();
    let text = String::from_utf8_lossy(&bytes);
    Some(text.lines().filter(|line| !line.is_empty()).map(Into::into).collect())
}

/// Returns whether output is held back.
pub(crate) fn is_held() -> bool {
    queue().is_some_and(|queue| queue.waiting.lock().held.is_some())
}

/// Writes a frame of the live view; dropped once the view has ended.
pub fn frame(bytes: &[u8]) {
    let Some(queue) = queue() else { return };
    let mut waiting = queue.waiting.lock();
    if waiting.held.is_some() {
        waiting.append(bytes);
        queue.changed.notify_all();
    }
}

/// Waits a limited time until all output is written.
pub fn finish() {
    let Some(queue) = queue() else { return };
    let is_left = |waiting: &mut Waiting| !waiting.is_idle();
    drop(queue.changed.wait_timeout_while(queue.waiting.lock(), FLUSH_TIMEOUT, is_left));
}
