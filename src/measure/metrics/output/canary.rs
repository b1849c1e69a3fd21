//! Compares answers to canaries with those of the idle server.

use std::sync::Arc;

use dataset::Canary;

use super::CanaryAnswer;
use crate::metrics::CountTokens;

/// The canaries of a run, with the answers that are known.
#[derive(Debug, Default)]
pub struct Canaries(Vec<Known>);

/// A canary.
#[derive(Debug)]
struct Known {
    /// The text that a right answer contains, if all known answers contain it: otherwise the server
    /// does not give the answer even if it is idle.
    expected: Option<Arc<str>>,
    answers: Vec<Arc<str>>,
}

impl Canaries {
    /// Creates those of `canaries`, each of which has the different answers of the idle server.
    #[must_use]
    pub fn new(canaries: &[Canary]) -> Self {
        let known = |canary: &Canary| {
            let are_right = |text: &Arc<str>| canary.answers.iter().all(|it| it.contains(&**text));
            Known {
                expected: canary.expected.clone().filter(are_right),
                answers: canary.answers.clone(),
            }
        };
        Self(canaries.iter().map(known).collect())
    }

    /// Compares the answer `text` to the canary with this number, from 0. Returns also whether it is
    /// wrong. Without a tokenizer to `count`, words are counted as tokens.
    pub(in crate::metrics) fn answer(
        &self,
        number: usize,
        text: &str,
        count: Option<&CountTokens>,
    ) -> (CanaryAnswer, bool) {
        let unknown = CanaryAnswer { number: number_of(number), ..CanaryAnswer::default() };
        let Some(Known { expected, answers }) = self.0.get(number) else {
            return (unknown, false);
        };
        let text = text.trim();
        let tokens = |text: &str| {
            let tokens = match count {
                Some(count) if !text.is_empty() => count(text),
                Some(_) => 0,
                None => text.split_whitespace().count() as u64,
            };
            u32::try_from(tokens).unwrap_or(u32::MAX)
        };
        let known = || answers.iter().map(|answer| answer.trim());
        let common = known().map(|answer| common_bytes(text, answer)).max();
        let is_known = known().any(|answer| answer == text);
        let answer = CanaryAnswer {
            common_tokens: common.map(|bytes| tokens(text[..bytes].trim_end())),
            differing_tokens: (common.is_some() && !is_known).then(|| tokens(text)),
            ..unknown
        };
        (answer, expected.as_ref().is_some_and(|expected| !text.contains(&**expected)))
    }
}

/// Returns the number, from 1, of the canary with this index.
pub(in crate::metrics) fn number_of(index: usize) -> u32 {
    u32::try_from(index).unwrap_or(u32::MAX).saturating_add(1)
}

/// Returns the length in bytes of the longest text that both begin with.
fn common_bytes(one: &str, other: &str) -> usize {
    let same = one.chars().zip(other.chars()).take_while(|(a, b)| a == b);
    same.map(|(c, _)| c.len_utf8()).sum()
}

#[cfg(test)]
mod tests {
    use client::endpoint::EndpointType;
    use dataset::Dataset;

    use super::*;
    use crate::metrics::fixture::{START, content, dataset, measurer, record, registry, stream};
    use crate::metrics::metric::Settings;
    use crate::metrics::output::{Fault, Output};

    fn canary(expected: Option<&str>, answers: &[&str]) -> Canary {
        Canary {
            prompt: "p".into(),
            expected: expected.map(Arc::from),
            max_tokens: 8,
            answers: answers.iter().map(|answer| Arc::from(*answer)).collect(),
        }
    }

    fn answered(
        canaries: &Canaries,
        number: usize,
        text: &str,
    ) -> (u32, Option<u32>, Option<u32>, bool) {
        let (answer, is_wrong) = canaries.answer(number, text, None);
        (answer.number, answer.common_tokens, answer.differing_tokens, is_wrong)
    }

    #[test]
    fn answers_are_compared_with_the_most_similar_one() {
        let canaries = Canaries::new(&[
            canary(Some("b"), &["a b c", "a b d e "]),
            canary(None, &["\u{e4}\u{f6}"]),
            canary(Some("x"), &[]),
        ]);
        let answered = |number, text| answered(&canaries, number, text);
        // Those that are known, whatever the white space around them.
        assert_eq!(answered(0, "a b c"), (1, Some(3), None, false));
        assert_eq!(answered(0, "\n a b d e"), (1, Some(4), None, false));
        // "a b d" is in common with the second one, and "a b " with the first one.
        assert_eq!(answered(0, "a b d f g"), (1, Some(3), Some(5), false));
        assert_eq!(answered(0, "a c"), (1, Some(1), Some(2), true));
        assert_eq!(answered(0, ""), (1, Some(0), Some(0), true));
        // The first letter is in common.
        assert_eq!(answered(1, "\u{e4}\u{fc} z"), (2, Some(1), Some(2), false));
        assert_eq!(answered(1, "z"), (2, Some(0), Some(1), false));
        // Without known answers.
        assert_eq!(answered(2, "y"), (3, None, None, true));
        assert_eq!(answered(2, "wx"), (3, None, None, false));
        assert_eq!(answered(3, "y"), (4, None, None, false));
    }

    #[test]
    fn what_the_idle_server_does_not_answer_is_not_expected() {
        let canaries = Canaries::new(&[canary(Some("b"), &["a b", "a c"])]);
        assert_eq!(answered(&canaries, 0, "c"), (1, Some(0), Some(1), false));
    }

    #[test]
    fn tokens_are_counted_if_there_is_a_tokenizer() {
        let canaries = Canaries::new(&[canary(None, &["abcd"])]);
        let bytes: &CountTokens = &|text| text.len() as u64;
        let (answer, _) = canaries.answer(0, " abx", Some(bytes));
        assert_eq!((answer.common_tokens, answer.differing_tokens), (Some(2), Some(3)));
        let (answer, _) = canaries.answer(0, "abcd", Some(bytes));
        assert_eq!((answer.common_tokens, answer.differing_tokens), (Some(4), None));
    }

    /// What is known of the output of a request to the conversation with this index, of one that is not a
    /// canary and two that are.
    fn output(conversation: usize, text: &str, status: u16) -> Output {
        let canaries = [canary(Some("one two"), &["one two"]), canary(None, &["three"])];
        let dataset = Dataset::clone(&dataset());
        let dataset = Arc::new(dataset.with_canaries(&canaries, |_| 1));
        let registry = registry(EndpointType::CHAT, Settings::default(), true);
        let measurer = measurer(EndpointType::CHAT, registry, dataset)
            .with_canaries(Arc::new(Canaries::new(&canaries)));
        let body = stream(START, &[(20, &content(text)), (30, "[DONE]")]);
        let mut record = record(START, body);
        record.turn.conversation = conversation;
        record.turn.turn = 0;
        record.status = Some(status);
        measurer.measure(record).observation.output
    }

    #[test]
    fn white_space_at_the_end_of_what_is_in_common_is_not_a_token() {
        let canaries = Canaries::new(&[canary(None, &["ab cd"])]);
        let bytes: &CountTokens = &|text| text.len() as u64;
        let (answer, _) = canaries.answer(0, "ab x", Some(bytes));
        assert_eq!((answer.common_tokens, answer.differing_tokens), (Some(2), Some(4)));
    }

    #[test]
    fn requests_that_are_canaries_are_marked() {
        let answer = |number, common_tokens, differing_tokens| {
            Some(CanaryAnswer { number, common_tokens, differing_tokens })
        };
        assert_eq!(output(0, "one", 200), Output::default());
        let right = output(1, "one two", 200);
        assert_eq!((right.canary, right.faults.names()), (answer(1, Some(2), None), None));
        let wrong = output(1, "one other four", 200);
        assert_eq!(wrong.canary, answer(1, Some(1), Some(3)));
        assert!(wrong.faults.contains(Fault::CanaryWrong));
        let other = output(2, "one", 200);
        assert_eq!((other.canary, other.faults.names()), (answer(2, Some(0), Some(1)), None));
        let failed = output(1, "one two", 500);
        assert_eq!((failed.canary, failed.faults.names()), (answer(1, None, None), None));
    }
}
