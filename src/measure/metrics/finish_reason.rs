//! Why outputs ended, as the server reports it.

use super::name_counts::NameCounts;

/// The reasons with which outputs usually end: the model or a stop sequence ended it, the limit was
/// reached, or it calls tools.
const USUAL: [&str; 14] = [
    "stop",
    "length",
    "tool_calls",
    "function_call",
    // Anthropic
    "end_turn",
    "max_tokens",
    "stop_sequence",
    "tool_use",
    // OpenAI responses
    "completed",
    "max_output_tokens",
    // Gemini
    "STOP",
    "MAX_TOKENS",
    // TGI
    "eos_token",
    // Several servers
    "eos",
];

/// The reasons of outputs that a limit ended.
const LIMITS: [&str; 5] =
    ["length", "max_tokens", "max_output_tokens", "MAX_TOKENS", "model_length"];

/// The reasons of outputs that the model or a stop sequence ended.
const ENDS: [&str; 7] =
    ["stop", "end_turn", "stop_sequence", "completed", "STOP", "eos_token", "eos"];

/// Returns whether a limit ended the output, and not the model with a token without a text.
pub fn is_limit(reason: &str) -> bool {
    LIMITS.contains(&reason)
}

/// Returns whether the model or a stop sequence ended the output, so that it is complete. A filter or a
/// limit on tokens cuts it.
pub(super) fn is_complete(reason: &str) -> bool {
    ENDS.contains(&reason)
}

/// Returns the reasons with the most requests first, if any of them is unusual, or if only some
/// requests have one.
pub fn telling(reasons: &NameCounts) -> Option<Vec<(&str, u64)>> {
    let is_unusual = reasons.iter().any(|(reason, _)| !USUAL.contains(&reason));
    if reasons.requests() == 0 || (!is_unusual && reasons.without() == 0) {
        return None;
    }
    let mut all: Vec<(&str, u64)> = reasons.iter().collect();
    if reasons.without() > 0 {
        all.push(("none", reasons.without()));
    }
    all.sort_by_key(|(_, count)| std::cmp::Reverse(*count));
    Some(all)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn usual_reasons_are_not_told() {
        assert_eq!(telling(&NameCounts::from_names(&[Some("stop"), Some("length")])), None);
        assert_eq!(
            telling(&NameCounts::from_names(&[None])),
            None,
            "the endpoint does not report any"
        );
        let filtered =
            NameCounts::from_names(&[Some("stop"), Some("stop"), Some("content_filter")]);
        assert_eq!(telling(&filtered).unwrap(), [("stop", 2), ("content_filter", 1)]);
        assert_eq!(
            telling(&NameCounts::from_names(&[Some("stop"), None])).unwrap(),
            [("stop", 1), ("none", 1)]
        );
    }
}
