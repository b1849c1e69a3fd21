//! What can be wrong with the output of a response whose status is 200.

use std::fmt;
use std::str::FromStr;

/// What is wrong with the output of a response. Reasoning is left as it is, but for `Same`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Corruption {
    /// After a third of the text, its last four tokens are repeated until the end.
    Repeat,
    /// In the middle half of the text, every eighth token is a replacement character.
    Replacement,
    /// In the middle half of the text, every second token is UTF-8 that was decoded as Latin-1.
    Mojibake,
    /// The second half of the text is in another script.
    Script,
    /// The text consists of spaces and line feeds.
    Blank,
    /// A content event follows the one with the finish reason, if the dialect can have it.
    AfterEnd,
    /// Usage reports half as many tokens as were generated.
    Usage,
    /// The text does not depend on the prompt.
    Same,
    /// The text begins with the end of another request's prompt, if there was one.
    Crosstalk,
    /// All tokens of a stream are in one event, when the last of them is due.
    Burst,
    /// The output ends after a third of its tokens, as if it were complete.
    Truncated,
}

impl Corruption {
    /// All kinds.
    pub const ALL: [Self; 11] = [
        Self::Repeat,
        Self::Replacement,
        Self::Mojibake,
        Self::Script,
        Self::Blank,
        Self::AfterEnd,
        Self::Usage,
        Self::Same,
        Self::Crosstalk,
        Self::Burst,
        Self::Truncated,
    ];

    /// Returns its name in a rule.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Repeat => "repeat",
            Self::Replacement => "replacement",
            Self::Mojibake => "mojibake",
            Self::Script => "script",
            Self::Blank => "blank",
            Self::AfterEnd => "after-end",
            Self::Usage => "usage",
            Self::Same => "same",
            Self::Crosstalk => "crosstalk",
            Self::Burst => "burst",
            Self::Truncated => "truncated",
        }
    }
}

impl FromStr for Corruption {
    type Err = &'static str;

    fn from_str(name: &str) -> Result<Self, Self::Err> {
        Self::ALL.into_iter().find(|kind| kind.name() == name).ok_or(
            "has an unknown kind of corruption (repeat, replacement, mojibake, script, blank, \
             after-end, usage, same, crosstalk, burst, truncated)",
        )
    }
}

impl fmt::Display for Corruption {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}
