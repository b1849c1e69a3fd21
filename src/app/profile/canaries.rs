//! The known answers to the canaries of a run.

use std::fmt::Write as _;
use std::io::Write as _;

use bytes::Bytes;

use base::interrupt::Interrupt;
use dataset::Canary;
use results::terminal::Stderr;

use super::Run;
use crate::config::Ui;
use crate::server_control::{CanaryQuestions, ROUNDS};

impl Run {
    /// Asks the idle servers for the answers to the canaries whose answers are not known yet. Returns
    /// early when interrupted.
    ///
    /// # Errors
    /// If a canary is not answered.
    pub(super) fn ask_canaries(&mut self, interrupt: &Interrupt) -> anyhow::Result<()> {
        let conversations = self.dataset.canaries();
        let unknown: Vec<usize> =
            (0..self.canaries.len()).filter(|at| self.canaries[*at].answers.is_empty()).collect();
        let Some(first) = unknown.first().filter(|_| !interrupt.is_draining()) else {
            return Ok(());
        };
        let model = self.dataset.conversations[conversations.start + first].turns.first();
        let model = model.map_or_else(Default::default, |turn| turn.model.clone());
        let body = |at: &usize| {
            let conversation = &self.dataset.conversations[conversations.start + at];
            (at + 1, Bytes::from(self.endpoint.request_body(conversation, 0, &[])))
        };
        let questions = CanaryQuestions {
            server: &self.config.server,
            connections: &self.config.transport.connections,
            path: &self.config.endpoint.path(&model),
            endpoint: &*self.endpoint,
            builder: &self.builder,
            timeout: self.config.transport.request_timeout,
            canaries: unknown.iter().map(body).collect(),
        };
        let Some(answers) = questions.ask(interrupt)? else { return Ok(()) };
        for (at, answers) in unknown.iter().zip(answers) {
            let known = &mut self.canaries[*at].answers;
            for answer in answers {
                if !known.contains(&answer) {
                    known.push(answer);
                }
            }
        }
        if self.config.ui != Ui::None {
            let asked: Vec<&Canary> = unknown.iter().map(|at| &self.canaries[*at]).collect();
            // An error means that the terminal is gone; there is nowhere to report it.
            let _ = writeln!(Stderr, "{}", summary(&asked));
        }
        Ok(())
    }
}

/// Says how often the idle servers answered differently.
fn summary(asked: &[&Canary]) -> String {
    let count = asked.len();
    let varied = asked.iter().filter(|canary| canary.answers.len() > 1).count();
    let plural = if count == 1 { "canary" } else { "canaries" };
    let mut line = format!(
        "asked the idle server {count} {plural}, {ROUNDS} times each: {} always had the same answer",
        count - varied
    );
    // Writing to a string cannot fail.
    if varied > 0 {
        let _ = write!(line, ", {varied} varied");
    }
    let is_unexpected = |canary: &&&Canary| {
        let lacks = |expected: &str| canary.answers.iter().any(|it| !it.contains(expected));
        canary.expected.as_deref().is_some_and(lacks)
    };
    let unexpected = asked.iter().filter(is_unexpected).count();
    if unexpected > 0 {
        let _ = write!(line, "; {unexpected} not as expected");
    }
    line
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn answers_are_counted() {
        let canary = |expected: Option<&str>, answers: &[&str]| Canary {
            prompt: "p".into(),
            expected: expected.map(Into::into),
            max_tokens: 8,
            answers: answers.iter().map(|answer| (*answer).into()).collect(),
        };
        let same = canary(Some("a"), &["a b"]);
        let varied = canary(Some("b"), &["a b", "a c"]);
        assert_eq!(
            summary(&[&same]),
            "asked the idle server 1 canary, 3 times each: 1 always had the same answer"
        );
        assert_eq!(
            summary(&[&same, &canary(None, &["x", "y"]), &varied]),
            "asked the idle server 3 canaries, 3 times each: 1 always had the same answer, 2 varied; \
             1 not as expected"
        );
    }
}
