//! What can be wrong with the output of a response whose status is 200.

use base::setting::Named;

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

impl Named for Corruption {
    const NAMES: &'static [(&'static str, Self)] = &[
        ("repeat", Self::Repeat),
        ("replacement", Self::Replacement),
        ("mojibake", Self::Mojibake),
        ("script", Self::Script),
        ("blank", Self::Blank),
        ("after-end", Self::AfterEnd),
        ("usage", Self::Usage),
        ("same", Self::Same),
        ("crosstalk", Self::Crosstalk),
        ("burst", Self::Burst),
        ("truncated", Self::Truncated),
    ];
}
