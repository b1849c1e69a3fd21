//! What is unusual about how a response says its content and its counts, by names that the lines of
//! `profile_export.jsonl` contain.

/// A count was smaller in a later event; the largest value applies.
pub const USAGE_DECREASED: &str = "usage_decreased";
/// The total is neither prompt and completion tokens, nor these and the reasoning tokens.
pub const USAGE_CONTRADICTS_ITSELF: &str = "usage_contradicts_itself";
/// Completion tokens do not include the reasoning tokens; they were added.
pub const REASONING_BESIDE_COMPLETION: &str = "reasoning_beside_completion";
/// Events contained text of earlier ones again, which counts once.
pub const TEXT_REPEATED: &str = "text_repeated";
/// The same text was in two members of an event, and counts once.
pub const TEXT_MIRRORED: &str = "text_mirrored";
/// Texts were found in a member that is not known; its place follows.
pub const TEXT_IN: &str = "text_in:";
