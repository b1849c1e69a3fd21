//! The standard output of a command.

use std::io::{self, Write};

use results::terminal::View;

use super::outcome::Outcome;

/// Where a command writes its results. An error does not end the command, since the reader of the
/// output may be gone: nothing more is written then.
pub(super) struct Output<'a> {
    out: &'a mut dyn Write,
    /// The view that has the terminal, if it is open.
    view: Option<&'a View>,
    failure: Option<io::Error>,
}

impl<'a> Output<'a> {
    pub(super) const fn new(out: &'a mut dyn Write) -> Self {
        Self { out, view: None, failure: None }
    }

    /// Writes `text` after the `view`, and not over it.
    pub(super) fn beside(mut self, view: &'a View) -> Self {
        self.view = Some(view);
        self
    }

    /// Writes `text`.
    pub(super) fn say(&mut self, text: &str) {
        if text.is_empty() || self.failure.is_some() || self.view.is_some_and(|it| it.takes(text)) {
            return;
        }
        self.failure = self.out.write_all(text.as_bytes()).and_then(|()| self.out.flush()).err();
    }

    /// Returns the outcome of the command, or that its output could not be written if it is done.
    pub(super) fn finish(self, outcome: anyhow::Result<Outcome>) -> anyhow::Result<Outcome> {
        match (outcome, self.failure) {
            (Ok(Outcome::Done), Some(failure)) => Err(failure.into()),
            (outcome, _) => outcome,
        }
    }
}
