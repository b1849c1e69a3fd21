//! A line at the end of a terminal that is drawn again as what it shows changes.

use std::fmt;
use std::io::Write;

use base::units::{Clock, Nanos};

use crate::console::run::cut;

/// Time between two drawings of the line.
const INTERVAL: Nanos = Nanos(50_000_000);

/// Columns of the bar itself.
const STEPS: usize = 30;

/// The line, and its terminal. Errors are ignored, so that a closed standard error does not stop a run.
pub(super) struct BarLine {
    out: Box<dyn Write + Send>,
    width: usize,
    shown: String,
    drawn: Option<Nanos>,
}

impl fmt::Debug for BarLine {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("BarLine").field("width", &self.width).finish_non_exhaustive()
    }
}

impl BarLine {
    pub(super) fn new(width: u16, out: Box<dyn Write + Send>) -> Self {
        Self { out, width: usize::from(width), shown: String::new(), drawn: None }
    }

    /// Shows `line` instead of the one before, unless that was drawn a moment ago.
    pub(super) fn show(&mut self, line: impl FnOnce() -> String) {
        let now = Clock::now();
        if self.drawn.is_none_or(|drawn| now.since(drawn) >= INTERVAL) {
            self.drawn = Some(now);
            // The last column of some terminals wraps.
            self.shown = cut(&line(), self.width.saturating_sub(1));
            self.put("");
        }
    }

    /// Writes `lines` above the line.
    pub(super) fn print_above(&mut self, lines: &str) {
        self.put(&format!("{lines}\n"));
    }

    /// Removes the line.
    pub(super) fn clear(&mut self) {
        (self.shown, self.drawn) = (String::new(), None);
        self.put("");
    }

    fn put(&mut self, above: &str) {
        let _ = write!(self.out, "\r\x1b[2K{above}{}", self.shown).and_then(|()| self.out.flush());
    }
}

/// Returns a bar of which `share` is full.
pub(super) fn bar(share: f64) -> String {
    let done = ((share.clamp(0.0, 1.0) * STEPS as f64) as usize).min(STEPS);
    format!("[{}{}]", "█".repeat(done), "░".repeat(STEPS - done))
}
