//! Canaries: prompts whose answers are known, which are sent among the requests of the load to see
//! whether a server still answers right under it.

use std::ops::Range;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use serde::{Deserialize, Serialize};

use base::input::lines::{Line, LineFault, Lines};
use base::input::{self, Input, MAX_PART_BYTES};
use base::setting;

use super::file::json_reason;
use super::{Conversation, Dataset, DatasetError, Text, Turn};

/// Maximum number of canaries.
const MAX_CANARIES: usize = 1000;

/// Output tokens that a canary requests, unless it says how many.
const MAX_TOKENS: u32 = 64;

/// Which requests of a run are canaries (`--canaries`).
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct CanaryConfig {
    /// The share of the sessions that send a canary, above 0 and at most a half.
    pub share: f64,
    /// The file with the canaries (`--canary-file`); without it, they are [`Canary::standard`].
    #[serde(serialize_with = "setting::optional_path")]
    pub file: Option<PathBuf>,
}

impl CanaryConfig {
    /// Returns the canaries.
    ///
    /// # Errors
    ///
    /// Fails if the file cannot be read, or has anything but canaries.
    pub fn load(&self) -> Result<Vec<Canary>, DatasetError> {
        match &self.file {
            Some(path) => Canary::read(path),
            None => Ok(Canary::standard()),
        }
    }
}

/// A prompt whose answers are known. It is answered by greedy decoding.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Canary {
    pub prompt: Arc<str>,
    /// A text that a right answer contains, if one is certain.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub expected: Option<Arc<str>>,
    /// Requested output tokens.
    #[serde(default = "max_tokens")]
    pub max_tokens: u32,
    /// The different answers of an idle server, if they are known.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub answers: Vec<Arc<str>>,
}

const fn max_tokens() -> u32 {
    MAX_TOKENS
}

/// What the prompts of the standard canaries begin with.
const REPEAT: &str = "Repeat the following words exactly, and nothing else: ";

/// The words that the standard canaries ask for. Each canary has others, so that the answer to
/// another one is wrong.
const WORDS: [&str; 8] = [
    "lantern harbor velvet meadow copper thunder orchard pebble ribbon glacier walnut compass \
     feather island marble saddle",
    "candle forest hammer silver pocket winter garden bottle mirror castle rabbit window ladder \
     desert violin button",
    "anchor basket cherry dragon engine falcon guitar helmet insect jacket kettle lemon magnet \
     needle oyster pepper",
    "quartz rocket spider temple umbrella valley whistle yellow zebra almond bridge camera dollar \
     eagle fabric goose",
    "honey ivory jungle kitchen leather monkey nickel onion planet quilt river sandal tiger uncle \
     vessel wagon",
    "apron barrel cactus dolphin elbow flute granite hazel igloo jelly knight lobster mustard \
     napkin olive parrot",
    "raven salmon tunnel urban vapor wolf acorn bamboo carrot donkey ember fiddle galaxy hermit \
     ink juniper",
    "kiwi lily moss nectar opera pigeon quiver reef scarf tulip unicorn vault wheat yarn zipper \
     arrow",
];

impl Canary {
    /// Returns prompts whose right answers are certain: words to repeat. A server that works copies
    /// them without an error, although the answers of greedy decoding may differ with what else is
    /// in the batch: where text is copied, no other token is nearly as likely.
    #[must_use]
    pub fn standard() -> Vec<Self> {
        let asking = |words: &str| Self {
            prompt: format!("{REPEAT}{words}").into(),
            expected: Some(words.into()),
            max_tokens: MAX_TOKENS,
            answers: Vec::new(),
        };
        WORDS.iter().map(|words| asking(words)).collect()
    }

    /// Reads canaries: a JSON object a line, with a `prompt`, and with `expected`, `max_tokens` and
    /// `answers` if they are known, as runs with canaries write them. A file that is compressed by gzip
    /// or zstd is decompressed.
    ///
    /// # Errors
    ///
    /// Fails if the file cannot be read, if a line is something else, or if there are no or too many
    /// canaries.
    pub fn read(path: &Path) -> Result<Vec<Self>, DatasetError> {
        let unreadable = |source| DatasetError::Read { path: path.to_owned(), source };
        let input = input::open(path).and_then(Input::new).map_err(unreadable)?;
        let canaries = read(input, path)?;
        if canaries.is_empty() {
            let reason = "expected a canary such as {\"prompt\": \"...\", \"expected\": \"...\"}; \
                          the file is empty";
            let (path, reason) = (path.to_owned(), reason.to_owned());
            return Err(DatasetError::Line { path, line: 1, reason });
        }
        Ok(canaries)
    }

    /// Returns what is wrong with it.
    fn fault(&self) -> Option<&'static str> {
        if self.prompt.trim().is_empty() {
            Some("`prompt` is blank; a canary needs a prompt")
        } else if self.expected.as_ref().is_some_and(|text| text.trim().is_empty()) {
            Some("`expected` is blank, so that every answer would contain it; leave it out")
        } else if self.max_tokens == 0 {
            Some("`max_tokens` must be at least 1")
        } else {
            None
        }
    }

    /// Returns the conversation that sends it, as number `number` from 1, whose prompt has so many tokens.
    fn conversation(&self, number: usize, model: &Arc<str>, tokens: u64) -> Conversation {
        let turn = Turn {
            model: Arc::clone(model),
            texts: vec![Text::from(Arc::clone(&self.prompt))],
            max_tokens: Some(self.max_tokens),
            is_greedy: true,
            input_tokens: Some(tokens),
            ..Turn::default()
        };
        Conversation {
            id: format!("canary_{number}").into(),
            context_tokens: Some(0),
            turns: vec![turn],
            ..Conversation::default()
        }
    }
}

/// Reads the canaries of the file at `path`.
fn read(input: Input<'_>, path: &Path) -> Result<Vec<Canary>, DatasetError> {
    let mut canaries: Vec<Canary> = Vec::new();
    let unreadable = |source| DatasetError::Read { path: path.to_owned(), source };
    let at = |line, reason| DatasetError::Line { path: path.to_owned(), line, reason };
    let meter = input.meter();
    let mut lines = Lines::new(input, MAX_PART_BYTES);
    while let Some(Line { number, bytes, .. }) = lines.next().map_err(|fault| match fault {
        LineFault::Read(source) => unreadable(source),
        LineFault::TooLong { number, why } => at(number, why),
    })? {
        meter.part().map_err(unreadable)?;
        let canary: Canary =
            serde_json::from_slice(bytes).map_err(|error| at(number, json_reason(&error)))?;
        if let Some(why) = canary.fault() {
            return Err(at(number, why.to_owned()));
        }
        if canaries.len() == MAX_CANARIES {
            return Err(at(number, format!("more than {MAX_CANARIES} canaries; use fewer")));
        }
        canaries.push(canary);
    }
    Ok(canaries)
}

impl Dataset {
    /// Adds a conversation for each canary, of the model of the first turn, after those that sessions
    /// draw. `count` counts their tokens.
    #[must_use]
    pub fn with_canaries(mut self, canaries: &[Canary], count: impl Fn(&str) -> u64) -> Self {
        let model = self.models().next().unwrap_or_default();
        for (number, canary) in (1..).zip(canaries) {
            let mut conversation = canary.conversation(number, &model, count(&canary.prompt));
            while self.conversations.iter().any(|other| other.id == conversation.id) {
                conversation.id = format!("{}_", conversation.id).into();
            }
            self.conversations.push(conversation);
        }
        self.canaries += canaries.len();
        if let Some(growth) = self.growth.as_mut().and_then(Arc::get_mut) {
            growth.skip(canaries.len());
        }
        self
    }

    /// Returns the indices of the conversations of the canaries.
    #[must_use]
    pub fn canaries(&self) -> Range<usize> {
        let end = self.conversations.len();
        end - self.canaries..end
    }

    /// Returns the number of the canary, from 0, that the conversation with this index is.
    #[must_use]
    pub fn canary(&self, conversation: usize) -> Option<usize> {
        let canaries = self.canaries();
        canaries.contains(&conversation).then(|| conversation - canaries.start)
    }
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use proptest::prelude::*;
    use tokens::tokenizer::TokenCounter;

    use super::*;

    fn of(text: &str) -> Result<Vec<Canary>, String> {
        read(text.as_bytes().into(), Path::new("f")).map_err(|error| error.to_string())
    }

    #[test]
    fn standard_canaries_have_words_of_one_token_that_no_other_has() {
        let canaries = Canary::standard();
        let counter = TokenCounter::builtin();
        let mut all = HashSet::new();
        for canary in &canaries {
            let expected = canary.expected.as_deref().unwrap();
            let words: Vec<&str> = expected.split(' ').collect();
            assert_eq!(words.len(), 16, "{expected}");
            all.extend(words.iter().map(|word| (*word).to_owned()));
            assert_eq!(
                canary
                    .prompt
                    .strip_prefix("Repeat the following words exactly, and nothing else: "),
                Some(expected)
            );
            let tokens = counter.count(expected);
            assert!(tokens <= 24, "{tokens} tokens: {expected}");
        }
        assert_eq!((canaries.len(), all.len()), (8, 128));
    }

    #[test]
    fn files_have_a_canary_a_line() {
        let read =
            of("{\"prompt\": \"a\"}\n\n{\"prompt\":\"b\",\"expected\":\"c\",\"max_tokens\":3,\
                       \"answers\":[\"c d\",\"e\"]}")
            .unwrap();
        let plain = Canary { prompt: "a".into(), expected: None, max_tokens: 64, answers: vec![] };
        let whole = Canary {
            prompt: "b".into(),
            expected: Some("c".into()),
            max_tokens: 3,
            answers: vec!["c d".into(), "e".into()],
        };
        assert_eq!(read, [plain, whole]);
        let line = serde_json::to_string(&read[0]).unwrap();
        assert_eq!(line, r#"{"prompt":"a","max_tokens":64}"#);
    }

    #[test]
    fn lines_that_are_not_canaries_are_named() {
        let fault = |text: &str| of(text).unwrap_err();
        let unknown = fault("{\"prompt\":\"a\"}\n{\"prompt\":\"a\",\"answer\":\"b\"}");
        assert!(unknown.starts_with("f, line 2: unknown field `answer`"), "{unknown}");
        assert!(fault("{}").starts_with("f, line 1: missing field `prompt`"));
        assert!(fault("{\"prompt\":\" \"}").starts_with("f, line 1: `prompt` is blank"));
        assert!(
            fault("{\"prompt\":\"a\",\"expected\":\"\"}")
                .starts_with("f, line 1: `expected` is blank")
        );
        assert!(
            fault("{\"prompt\":\"a\",\"max_tokens\":0}")
                .starts_with("f, line 1: `max_tokens` must")
        );
        let many = "{\"prompt\":\"a\"}\n".repeat(1001);
        assert!(fault(&many).starts_with("f, line 1001: more than 1000 canaries"));
        assert_eq!(of(&many[many.len() / 1001..]).unwrap().len(), 1000);
    }

    #[test]
    fn errors_name_the_file() {
        let file = tempfile::NamedTempFile::new().unwrap();
        let error = Canary::read(file.path()).unwrap_err().to_string();
        assert!(error.ends_with("the file is empty"), "{error}");
        std::fs::write(file.path(), "\n[]\n").unwrap();
        let error = Canary::read(file.path()).unwrap_err().to_string();
        assert!(error.contains(", line 2: "), "{error}");
        let missing = Canary::read(Path::new("/does/not/exist")).unwrap_err().to_string();
        assert!(missing.contains("/does/not/exist"), "{missing}");
    }

    #[test]
    fn canaries_follow_the_conversations_that_are_drawn() {
        let conversation = |id: &str| Conversation {
            id: id.into(),
            turns: vec![Turn { model: "m".into(), ..Turn::default() }],
            ..Conversation::default()
        };
        let dataset =
            Dataset::from_conversations(vec![conversation("a"), conversation("canary_2")]);
        let dataset = dataset.with_canaries(&Canary::standard()[..2], |text| text.len() as u64);
        let ids: Vec<&str> = dataset.conversations.iter().map(|it| &*it.id).collect();
        assert_eq!(ids, ["a", "canary_2", "canary_1", "canary_2_"]);
        assert_eq!(
            [0, 1, 2, 3, 4].map(|at| dataset.canary(at)),
            [None, None, Some(0), Some(1), None]
        );
        assert_eq!((dataset.roots(0), dataset.canaries()), (0..2, 2..4));
        let turn = &dataset.conversations[2].turns[0];
        assert_eq!((&*turn.model, turn.max_tokens, turn.is_greedy), ("m", Some(64), true));
        assert_eq!(turn.input_tokens, Some(Canary::standard()[0].prompt.len() as u64));
        assert_eq!(Dataset::default().canary(0), None);
    }

    proptest! {
        #[test]
        fn what_is_written_is_read(
            prompt in "[a-z\"\n\u{e4}]{1,20}x",
            expected in proptest::option::of("x[a-z ]{1,20}"),
            max_tokens in 1_u32..,
            answers in prop::collection::vec(".{0,20}", 0..3),
        ) {
            let canary = Canary {
                prompt: prompt.into(),
                expected: expected.map(Arc::from),
                max_tokens,
                answers: answers.into_iter().map(Arc::from).collect(),
            };
            let line = serde_json::to_string(&canary).unwrap();
            prop_assert_eq!(of(&line).unwrap(), [canary]);
        }

        #[test]
        fn any_text_is_read_or_rejected(text in ".{0,200}") {
            let _ = of(&text);
        }
    }
}
