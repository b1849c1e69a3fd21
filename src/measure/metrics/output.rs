//! What is wrong with outputs that arrived without an error: a server under load may return garbage
//! that every request counts as a success.
//!
//! The faults of a record are found when it is measured, and are on its line, so that
//! `aiperf report` has the same verdict ([`OutputHealth`](super::health::OutputHealth)). Nothing here
//! grades the quality of answers.

mod beside;
mod body;
mod canary;
mod detect;
mod json;
mod text;

use base::setting::{Named as _, named};

pub use self::beside::Outputs;
pub use self::canary::Canaries;
pub(super) use self::canary::number_of;
pub(super) use self::detect::Answered;

/// A kind of fault of an output.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Fault {
    /// The output has the marker of another request's prompt.
    Crosstalk,
    /// The output of another request had the marker of this one's prompt.
    Leaked,
    /// A canary did not give the answer that the idle server gave.
    CanaryWrong,
    /// Content followed the finish reason.
    AfterEnd,
    /// The server counted far more or far fewer tokens than the text has.
    UsageContradictsText,
    /// The output stopped before the minimum length that the request asked for.
    EndedEarly,
    /// The whole output arrived in one event.
    SingleEvent,
    /// The request asked for JSON, and the output is something else.
    InvalidJson,
    /// The arguments of a tool call are not a JSON object.
    InvalidToolArguments,
    /// The output consists of white space.
    Blank,
    /// The output repeats the same text until its end.
    Repetition,
    /// There are replacement characters (U+FFFD) in the output.
    ReplacementCharacters,
    /// The output has text that was decoded with the wrong character encoding.
    Mojibake,
    /// The output is in a script that the prompt does not have.
    WrongScript,
    /// The output is the same as that of a request with another prompt.
    SameAnswer,
}

named! {
    Fault {
        "crosstalk" => Crosstalk,
        "leaked" => Leaked,
        "canary_wrong" => CanaryWrong,
        "after_end" => AfterEnd,
        "usage_contradicts_text" => UsageContradictsText,
        "ended_early" => EndedEarly,
        "single_event" => SingleEvent,
        "invalid_json" => InvalidJson,
        "invalid_tool_arguments" => InvalidToolArguments,
        "blank" => Blank,
        "repetition" => Repetition,
        "replacement_characters" => ReplacementCharacters,
        "mojibake" => Mojibake,
        "wrong_script" => WrongScript,
        "same_answer" => SameAnswer,
    }
}

impl Fault {
    /// Returns whether no model can cause it, so that one is a finding.
    #[must_use]
    pub(crate) const fn is_certain(self) -> bool {
        matches!(self, Self::Crosstalk | Self::Leaked)
    }

    /// Returns what outputs with the fault do.
    #[must_use]
    pub(crate) const fn words(self) -> &'static str {
        match self {
            Self::Crosstalk => {
                "quote the marker of another request's prompt: cross-talk between users"
            }
            Self::Leaked => {
                "have prompts whose marker another output quotes: cross-talk between users"
            }
            Self::CanaryWrong => {
                "are wrong answers to canaries that the idle server answered correctly"
            }
            Self::AfterEnd => "go on after their finish reason",
            Self::UsageContradictsText => "have a text that contradicts the reported usage",
            Self::EndedEarly => "stopped before the minimum length that the request asked for",
            Self::SingleEvent => "arrived in one event",
            Self::InvalidJson => "are not the JSON that the request asked for",
            Self::InvalidToolArguments => "call tools with arguments that are not JSON objects",
            Self::Blank => "consist of white space",
            Self::Repetition => "repeat the same text until their end",
            Self::ReplacementCharacters => "have replacement characters (U+FFFD)",
            Self::Mojibake => "have text in the wrong character encoding",
            Self::WrongScript => "are in a script that the prompt does not have",
            Self::SameAnswer => "are the same as the output for another prompt",
        }
    }
}

/// The faults of an output.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Faults(u16);

impl Faults {
    /// Adds a fault.
    pub const fn insert(&mut self, fault: Fault) {
        self.0 |= 1 << fault as u16;
    }

    /// Adds a fault if it is there.
    pub const fn set(&mut self, fault: Fault, is_there: bool) {
        if is_there {
            self.insert(fault);
        }
    }

    /// Returns whether the fault is there.
    #[must_use]
    pub const fn contains(self, fault: Fault) -> bool {
        self.0 & (1 << fault as u16) != 0
    }

    /// Returns whether nothing is wrong.
    #[must_use]
    pub const fn is_empty(self) -> bool {
        self.0 == 0
    }

    /// Returns those that are not about the text.
    #[must_use]
    pub(in crate::metrics) fn of_delivery(self) -> Self {
        let mut kept = Self::default();
        for fault in [Fault::AfterEnd, Fault::SingleEvent] {
            kept.set(fault, self.contains(fault));
        }
        kept
    }

    /// Returns the faults of both.
    #[must_use]
    pub const fn union(self, other: Self) -> Self {
        Self(self.0 | other.0)
    }

    /// Returns the faults, in order.
    pub fn iter(self) -> impl Iterator<Item = Fault> {
        Fault::NAMES.iter().map(|(_, fault)| *fault).filter(move |fault| self.contains(*fault))
    }

    /// Returns the names, joined by commas; `None` without faults.
    #[must_use]
    pub fn names(self) -> Option<String> {
        let names: Vec<&str> = self.iter().map(Fault::name).collect();
        (!names.is_empty()).then(|| names.join(","))
    }

    /// Returns the faults with these names, joined by commas; unknown names, as those of later
    /// versions, are left out.
    #[must_use]
    pub fn from_names(names: &str) -> Self {
        let mut faults = Self::default();
        for fault in names.split(',').filter_map(Fault::named) {
            faults.insert(fault);
        }
        faults
    }
}

/// What is known of a request's output besides its measures.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Output {
    pub faults: Faults,
    /// The answer to a canary, if the request is one.
    pub canary: Option<CanaryAnswer>,
}

impl Output {
    /// Returns whether it is the answer to a canary that the idle server gave too.
    pub(in crate::metrics) fn has_idle_answer(&self) -> bool {
        self.canary.is_some_and(|canary| {
            canary.common_tokens.is_some() && canary.differing_tokens.is_none()
        })
    }
}

/// The answer to a canary: a prompt whose answer is known from the idle server.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct CanaryAnswer {
    /// Its number among the canaries, from 1.
    pub number: u32,
    /// Tokens that it has in common with the beginning of the most similar answer of the idle server;
    /// absent if there is none or the request failed.
    pub common_tokens: Option<u32>,
    /// Tokens of the answer, if it differs from each answer of the idle server.
    pub differing_tokens: Option<u32>,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn faults_are_read_from_their_names() {
        let mut faults = Faults::default();
        assert_eq!(faults.names(), None);
        faults.insert(Fault::SameAnswer);
        faults.set(Fault::Crosstalk, true);
        faults.set(Fault::Blank, false);
        assert_eq!(faults.names().as_deref(), Some("crosstalk,same_answer"));
        assert_eq!(Faults::from_names("same_answer,of_later_version,crosstalk"), faults);
        assert_eq!(Faults::from_names(""), Faults::default());
    }

    #[test]
    fn each_fault_has_a_place_in_the_set() {
        let mut all = Faults::default();
        for (_, fault) in Fault::NAMES {
            all.insert(*fault);
        }
        assert_eq!(all.iter().count(), Fault::NAMES.len());
        let names: Vec<&str> = Fault::NAMES.iter().map(|(name, _)| *name).collect();
        assert_eq!(all.names(), Some(names.join(",")));
    }
}
