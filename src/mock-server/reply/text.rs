//! The text of a response, token by token, and what the script corrupts in it.

use std::ops::Range;

use super::Reply;
use crate::activity::Finish;
use crate::dialect::json_string;
use crate::script::{Corruption, Fault};

/// Which text a response has.
#[derive(Debug, Clone, Default)]
pub(crate) struct Wording {
    /// Position in the vocabulary's text at which it begins.
    pub(crate) start: u64,
    /// The token from which on it is another text, and where that begins.
    pub(crate) turn: Option<[u64; 2]>,
    /// The pieces of another request's prompt that its first tokens are replaced by.
    pub(crate) foreign: Vec<String>,
    /// The pieces that its first tokens are replaced by, since the prompt asks for them.
    pub(crate) copied: Vec<String>,
}

/// What a prompt asks to repeat follows this text, up to the end of the line.
const REPEAT: &str = "Repeat the following words exactly, and nothing else: ";

/// Number of tokens between the beginnings of two choices.
const BETWEEN_CHOICES: u64 = 17;

/// Number of tokens that are repeated.
const PERIOD: u64 = 4;

/// UTF-8 that was decoded as Latin-1, or as Windows-1252: é, ü, ’, ö and ñ in words.
const MOJIBAKE: &[&str] = &[
    " caf\u{c3}\u{a9}",
    " f\u{c3}\u{bc}r",
    " it\u{e2}\u{20ac}\u{2122}s",
    " sch\u{c3}\u{b6}n",
    " ma\u{c3}\u{b1}ana",
];

impl Wording {
    /// Returns the text of a response that begins with the end of another request's prompt.
    pub(crate) fn with_prompt(start: u64, prompt: &str) -> Self {
        Self { start, foreign: pieces(prompt), ..Self::default() }
    }

    /// Begins the text with what the prompt asks to repeat, if it does: as models do, however busy the
    /// server is.
    pub(crate) fn copying(self, prompt: &str) -> Self {
        let asked = prompt.rfind(REPEAT).map(|at| &prompt[at + REPEAT.len()..]);
        let words = asked.and_then(|rest| rest.lines().next()).unwrap_or_default();
        Self { copied: pieces(words.trim()), ..self }
    }
}

/// Cuts a text before each space.
fn pieces(text: &str) -> Vec<String> {
    let mut pieces: Vec<String> = Vec::new();
    for c in text.chars() {
        match pieces.last_mut().filter(|_| c != ' ') {
            Some(piece) => piece.push(c),
            None => pieces.push(c.into()),
        }
    }
    pieces
}

impl Reply {
    /// Appends the tokens of `choice` from the index `first` on, as the content of a JSON string. Each
    /// choice begins at a different position of the vocabulary's text.
    pub(crate) fn append_text(&self, out: &mut String, choice: u64, first: u64, count: u64) {
        let may_need_escapes = !self.wording.copied.is_empty()
            || matches!(self.corruption(), Some(Corruption::Blank | Corruption::Crosstalk));
        if may_need_escapes {
            let quoted = json_string(&self.tokens_of(choice, first, count));
            out.push_str(&quoted[1..quoted.len() - 1]);
        } else {
            // Nothing else needs an escape.
            self.append_tokens(out, choice, first, count);
        }
    }

    /// Returns the tokens of the first choice from the index `first` on, as the content of a JSON
    /// string.
    pub(crate) fn text(&self, first: u64, count: u64) -> String {
        let mut text = String::new();
        self.append_text(&mut text, 0, first, count);
        text
    }

    /// Returns the text of the first choice, without escapes.
    pub(crate) fn plain_text(&self) -> String {
        self.tokens_of(0, 0, self.tokens)
    }

    /// Ends the output soon after what the prompt asked to repeat.
    pub(crate) fn end_after_copy(&mut self) {
        let copied = self.wording.copied.len() as u64;
        let end = self.reasoning + copied + copied / 4;
        if copied > 0 && self.tokens > end {
            self.tokens = end;
            self.finish = Finish::Stop;
        }
    }

    pub(super) const fn corruption(&self) -> Option<Corruption> {
        match self.fault {
            Some(Fault::Corrupt(kind)) => Some(kind),
            _ => None,
        }
    }

    fn tokens_of(&self, choice: u64, first: u64, count: u64) -> String {
        let mut text = String::new();
        self.append_tokens(&mut text, choice, first, count);
        text
    }

    fn append_tokens(&self, out: &mut String, choice: u64, first: u64, count: u64) {
        match self.corruption() {
            None => self.append_words(out, choice, first, count),
            Some(kind) => {
                for index in first..first + count {
                    self.append_corrupt(out, kind, choice, index);
                }
            }
        }
    }

    fn append_words(&self, out: &mut String, choice: u64, first: u64, count: u64) {
        let end = first + count;
        let copied = self.copied();
        let [from, to] = [copied.start, copied.end].map(|at| at.clamp(first, end));
        let turn = self.turn().map_or(end, |[at, _]| at.clamp(to, end));
        for part in [first..from, to..turn, turn..end] {
            let position = self.position(choice, part.start);
            self.material.vocabulary.append(out, position, part.end - part.start);
            if part.end == from {
                for index in from..to {
                    out.push_str(&self.wording.copied[(index - copied.start) as usize]);
                }
            }
        }
    }

    /// Returns the indices of the tokens that are copied from the prompt: the first ones of the content.
    fn copied(&self) -> Range<u64> {
        let is_same = self.corruption() == Some(Corruption::Same);
        let count = if is_same { 0 } else { self.wording.copied.len() as u64 };
        self.reasoning..self.reasoning + count
    }

    /// Returns the token from which on it is another text, and where that begins: not before what is
    /// copied has ended.
    fn turn(&self) -> Option<[u64; 2]> {
        let copied = self.copied();
        let least = if copied.is_empty() { 0 } else { copied.end };
        self.wording.turn.map(|[at, other]| [at.max(least), other])
    }

    fn append_corrupt(&self, out: &mut String, kind: Corruption, choice: u64, index: u64) {
        let Some(at) = index.checked_sub(self.reasoning) else {
            return self.append_words(out, choice, index, 1);
        };
        let count = self.tokens - self.reasoning;
        let quarter = count / 4;
        // Number of tokens since the beginning of the middle half, in it.
        let within = at.checked_sub(quarter).filter(|_| at < count - quarter);
        match (kind, within) {
            (Corruption::Repeat, _) => {
                let index = self.reasoning + repeated(at, count / 3);
                self.append_words(out, choice, index, 1);
            }
            (Corruption::Replacement, Some(within)) if within.is_multiple_of(8) => {
                out.push_str(" \u{fffd}");
            }
            (Corruption::Mojibake, Some(within)) if within.is_multiple_of(2) => {
                let word = within / 2 % MOJIBAKE.len() as u64;
                out.push_str(MOJIBAKE[word as usize]);
            }
            (Corruption::Script, _) if at >= count / 2 => {
                let position = self.position(choice, index);
                self.material.vocabulary.append_foreign(out, position);
            }
            (Corruption::Blank, _) => out.push(if at % 4 == 3 { '\n' } else { ' ' }),
            (Corruption::Crosstalk, _) => match self.wording.foreign.get(at as usize) {
                Some(piece) => out.push_str(piece),
                None => self.append_words(out, choice, index, 1),
            },
            _ => self.append_words(out, choice, index, 1),
        }
    }

    /// Returns the position of a token in the vocabulary's text.
    fn position(&self, choice: u64, index: u64) -> u64 {
        let start = match self.turn() {
            _ if self.corruption() == Some(Corruption::Same) => 0,
            Some([at, other]) if index >= at => other,
            _ => self.wording.start,
        };
        start.wrapping_add(BETWEEN_CHOICES * choice).wrapping_add(index)
    }
}

/// Returns the index of the token that is in the place `at` if those before `from` are repeated from
/// there on.
const fn repeated(at: u64, from: u64) -> u64 {
    let period = if from < PERIOD { from } else { PERIOD };
    if at < from || period == 0 { at } else { from - period + (at - from) % period }
}

#[cfg(test)]
mod tests;
