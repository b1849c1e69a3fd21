//! The prompts that the server received last.

/// The ends of the latest prompt and of the latest one that differs from it.
#[derive(Debug, Default)]
pub(super) struct LatestPrompts([Option<(u64, String)>; 2]);

/// Number of characters that are kept of a prompt.
const KEPT: usize = 40;

impl LatestPrompts {
    /// Adds the text of a prompt with this hash. Returns the end of the latest prompt with another
    /// hash, if there was one.
    pub(super) fn replace(&mut self, hash: u64, text: &str) -> Option<String> {
        let [latest, before] = &mut self.0;
        if latest.as_ref().is_none_or(|(known, _)| *known != hash) {
            let start = text.char_indices().rev().nth(KEPT - 1).map_or(0, |(at, _)| at);
            *before = latest.replace((hash, text[start..].to_owned()));
        }
        before.as_ref().map(|(_, end)| end.clone())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_latest_other_prompt_is_found() {
        let mut latest = LatestPrompts::default();
        assert_eq!(latest.replace(1, "one"), None);
        assert_eq!(latest.replace(1, "one"), None);
        assert_eq!(latest.replace(2, "two").as_deref(), Some("one"));
        assert_eq!(latest.replace(2, "two").as_deref(), Some("one"));
        assert_eq!(latest.replace(1, "one").as_deref(), Some("two"));
        assert_eq!(latest.replace(3, "").as_deref(), Some("one"));
        assert_eq!(latest.replace(1, "one").as_deref(), Some(""));
    }

    #[test]
    fn forty_characters_are_kept() {
        let mut latest = LatestPrompts::default();
        latest.replace(1, &format!("über{}", "ä".repeat(39)));
        assert_eq!(latest.replace(2, ""), Some(format!("r{}", "ä".repeat(39))));
    }
}
