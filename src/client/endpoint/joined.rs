//! Joins the texts of a stream's events, of which some servers send more than what is new.

/// Minimum length in bytes of what was sent again, over all events of a response, to be recognized: a
/// model may well begin two tokens in the same way.
const EVIDENCE: usize = 12;

/// The text so far. An event whose text begins with all of it replaces it, instead of adding to it:
/// some servers send the whole text in each event, others once more at the end.
#[derive(Debug, Default)]
pub(super) struct Joined {
    text: String,
    /// Number of texts that were added.
    added: usize,
    /// The lengths that the text had when events replaced it.
    replaced: Vec<usize>,
}

impl Joined {
    pub(super) fn as_str(&self) -> &str {
        &self.text
    }

    pub(super) fn is_empty(&self) -> bool {
        self.text.is_empty()
    }

    /// Adds the text of an event, and returns whether any of it is new.
    pub(super) fn event(&mut self, text: &str) -> bool {
        let len = self.text.len();
        if len == 0 || !text.starts_with(&*self.text) {
            return self.add(text);
        }
        let more = &text[len..];
        // One token may follow another that is the same.
        if more.is_empty() && (self.added + self.replaced.len() < 2 || len < EVIDENCE) {
            return self.add(text);
        }
        self.replaced.push(len);
        self.text.push_str(more);
        !more.is_empty()
    }

    /// Adds a text that is new, whatever it is.
    pub(super) fn add(&mut self, text: &str) -> bool {
        self.added += usize::from(!text.is_empty());
        self.text.push_str(text);
        !text.is_empty()
    }

    /// Returns the text, and whether events sent some of it again. If too little was sent again to be
    /// sure of that, all texts are joined.
    pub(super) fn finish(self) -> (String, bool) {
        let again: usize = self.replaced.iter().sum();
        if again == 0 || again >= EVIDENCE {
            return (self.text, again > 0);
        }
        let mut joined: String = self.replaced.iter().map(|len| &self.text[..*len]).collect();
        joined.push_str(&self.text);
        (joined, false)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn joined(texts: &[&str]) -> (String, bool) {
        let mut joined = Joined::default();
        for text in texts {
            joined.event(text);
        }
        joined.finish()
    }

    #[test]
    fn a_whole_text_in_each_event_counts_once() {
        let whole = ["The", "The quick", "The quick brown", "The quick brown fox"];
        assert_eq!(joined(&whole), ("The quick brown fox".to_owned(), true));
        let at_the_end = ["The", " quick", " brown", " fox", "The quick brown fox"];
        assert_eq!(joined(&at_the_end), ("The quick brown fox".to_owned(), true));
        let mut last = Joined::default();
        for text in &at_the_end[..4] {
            assert!(last.event(text));
        }
        assert!(!last.event(at_the_end[4]), "nothing of it is new");
    }

    #[test]
    fn texts_that_happen_to_begin_alike_are_all_kept() {
        for texts in [&[" a", " ab", " c"][..], &["ha", "ha", "haha"], &["a", "a", "a", "a"]] {
            assert_eq!(joined(texts), (texts.concat(), false));
        }
        let repeated = "x".repeat(40);
        assert_eq!(joined(&[&repeated, &repeated]), (repeated.repeat(2), false));
    }

    proptest! {
        #[test]
        fn short_texts_are_joined_as_they_are(texts in prop::collection::vec("[ab]{0,2}", 0..8)) {
            let texts: Vec<&str> = texts.iter().map(String::as_str).collect();
            prop_assert_eq!(joined(&texts), (texts.concat(), false));
        }

        #[test]
        fn any_text_that_grows_is_what_it_ends_with(text in "[a-z é]{8,40}", at in 2..6_usize) {
            let chars: Vec<char> = text.chars().collect();
            let ends = (1..=chars.len()).filter(|end| end % at == 0 || *end == chars.len());
            let whole: Vec<String> = ends.map(|end| chars[..end].iter().collect()).collect();
            let whole: Vec<&str> = whole.iter().map(String::as_str).collect();
            let again: usize = whole.iter().rev().skip(1).map(|text| text.len()).sum();
            prop_assume!(again >= EVIDENCE);
            prop_assert_eq!(joined(&whole), (text, true));
        }
    }
}
