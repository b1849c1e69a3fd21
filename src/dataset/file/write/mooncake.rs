//! Writes `mooncake_trace`: a request per line. The lines of a session are the turns of a conversation.

use std::io::{self, Write};

pub use super::super::mooncake::BLOCK_TOKENS;
use super::super::mooncake::Line;
use super::super::trace::HashId;
use super::weka::{Document, Entry, Request};
use super::{Lost, Names, Written};

/// Writes the requests of a document. Each that continues the one before it is a turn of the same session;
/// any other begins one, with its time.
pub fn write_document(
    document: &Document,
    written: &mut Written,
    out: &mut impl Write,
) -> io::Result<()> {
    let mut sessions = Sessions { start: document.start_seconds(), written, out };
    sessions.write(document.id(), document.entries())
}

struct Sessions<'a, W> {
    /// When the document starts, in seconds.
    start: Option<f64>,
    written: &'a mut Written,
    out: &'a mut W,
}

impl<W: Write> Sessions<'_, W> {
    fn write(&mut self, name: &str, entries: &[Entry]) -> io::Result<()> {
        let (mut names, mut session) = (Names::default(), String::new());
        let mut before: Option<f64> = None;
        for entry in entries {
            let request = match entry {
                Entry::Request(request) => request,
                Entry::Agent(agent) => {
                    self.written.lose(Lost::Tree, 1);
                    self.write(&agent.id, &agent.requests)?;
                    continue;
                }
            };
            let Request { t, input, output, ref hash_ids, ref tools, added, .. } = *request;
            self.written.lose(Lost::Tools, u64::from(!tools.is_empty()));
            let tokens = |tokens: u64| Some(u32::try_from(tokens).unwrap_or(u32::MAX));
            let line = if let (Some(before), Some(added)) = (before, added) {
                Line {
                    delay: Some((t - before) * 1e3).filter(|millis| *millis > 0.0),
                    input_length: tokens(added),
                    ..Line::default()
                }
            } else {
                self.written.lose(Lost::Order, u64::from(before.is_some()));
                session = names.unique(name);
                let first = self.start.is_none().then_some(t * 1e3);
                Line {
                    timestamp: self.start.map(|start| (start + t) * 1e3),
                    delay: first.filter(|millis| *millis > 0.0 && before.is_none()),
                    input_length: tokens(input),
                    hash_ids: Some(hash_ids.iter().map(|id| HashId::from(*id)).collect()),
                    ..Line::default()
                }
            };
            let session_id = Some(session.clone());
            write_line(&Line { session_id, output_length: Some(output), ..line }, self.out)?;
            before = Some(t);
        }
        Ok(())
    }
}

fn write_line(line: &Line, out: &mut impl Write) -> io::Result<()> {
    serde_json::to_writer(&mut *out, line)?;
    out.write_all(b"\n")
}
