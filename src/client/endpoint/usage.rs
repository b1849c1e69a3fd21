//! Token counts from the `usage` objects of all vendors.
//!
//! | field | OpenAI chat, completions | OpenAI responses, Anthropic | Gemini |
//! |---|---|---|---|
//! | prompt | `prompt_tokens` | `input_tokens` | `promptTokenCount` |
//! | completion | `completion_tokens` | `output_tokens` | `candidatesTokenCount` + `thoughtsTokenCount` |
//! | total | `total_tokens` | `total_tokens` | `totalTokenCount` |
//! | reasoning | `completion_tokens_details.reasoning_tokens` | `output_tokens_details.reasoning_tokens` | `thoughtsTokenCount` |
//! | cache read | `prompt_tokens_details.cached_tokens` | `input_tokens_details.cached_tokens`, `cache_read_input_tokens` | `cachedContentTokenCount` |
//!
//! Anthropic adds `cache_creation_input_tokens` (its `input_tokens` excludes tokens read from and
//! written to the cache; they are added), DeepSeek `prompt_cache_hit_tokens` and
//! `prompt_cache_miss_tokens`, Mistral `prompt_audio_seconds`. Values that are not counts are
//! treated as absent.

use std::fmt;

use serde::de::{DeserializeSeed, Deserializer, IgnoredAny, MapAccess, SeqAccess, Visitor};
use serde_json::value::RawValue;

use super::note;
use super::text::{Number, Text, ignore_scalars};

/// Token counts that the server reports, in a format common to all vendors.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct Usage {
    /// Prompt tokens.
    pub prompt_tokens: Option<u64>,
    /// Completion tokens, including reasoning.
    pub completion_tokens: Option<u64>,
    /// Prompt and completion tokens.
    pub total_tokens: Option<u64>,
    /// Reasoning tokens.
    pub reasoning_tokens: Option<u64>,
    /// Prompt tokens read from the cache.
    pub prompt_cache_read_tokens: Option<u64>,
    /// Prompt tokens written to the cache.
    pub prompt_cache_write_tokens: Option<u64>,
    /// Prompt tokens that missed the cache.
    pub prompt_cache_miss_tokens: Option<u64>,
    /// Audio tokens of the prompt.
    pub prompt_audio_tokens: Option<u64>,
    /// Audio tokens of the completion.
    pub completion_audio_tokens: Option<u64>,
    /// Seconds of audio in the prompt.
    pub prompt_audio_seconds: Option<f64>,
    /// Prompt tokens used for tool declarations.
    pub tool_use_prompt_tokens: Option<u64>,
    /// Predicted tokens that appear in the completion.
    pub accepted_prediction_tokens: Option<u64>,
    /// Predicted tokens that do not appear in the completion.
    pub rejected_prediction_tokens: Option<u64>,
    /// Whether `prompt_tokens` excludes tokens read from and written to the cache, as in
    /// Anthropic's format; see [`Usage::whole_prompt`].
    pub(crate) leaves_out_cache: bool,
    /// Whether the format, which is Gemini's, counts reasoning apart from the output by definition;
    /// `completion_tokens` has both.
    pub(crate) counts_reasoning_apart: bool,
}

impl Usage {
    /// Merges every count of `usage`, an object of a response or of an event. A count of a response
    /// does not decrease: the largest value of a field applies. A value that is not an object is
    /// ignored.
    ///
    /// Returns whether a count was smaller than before.
    pub fn merge(&mut self, usage: &RawValue) -> bool {
        let mut read = Counts::default();
        let seed = Reader { counts: &mut read, within: Within::Usage };
        // The text is valid JSON already, and the reader accepts any type.
        let _ = seed.deserialize(&mut serde_json::Deserializer::from_str(usage.get()));
        self.merge_counts(read)
    }

    fn merge_counts(&mut self, read: Counts) -> bool {
        let Counts { mut usage, candidates, thoughts, cache, shape } = read;
        usage.prompt_cache_read_tokens = usage.prompt_cache_read_tokens.or(cache.read);
        usage.prompt_cache_write_tokens = usage.prompt_cache_write_tokens.or(cache.write);
        usage.reasoning_tokens = thoughts.or(usage.reasoning_tokens);
        usage.leaves_out_cache = shape.leaves_out_cache(self.leaves_out_cache);
        if let Some(candidates) = candidates {
            // Only Gemini counts reasoning separately from the response, and may have reported it
            // earlier.
            let thoughts = usage.reasoning_tokens.max(self.reasoning_tokens).unwrap_or(0);
            usage.completion_tokens = Some(candidates + thoughts);
            usage.counts_reasoning_apart = true;
        }
        if usage.moves_to_cache(self) {
            self.prompt_tokens = usage.prompt_tokens;
        }
        self.leaves_out_cache = usage.leaves_out_cache;
        self.counts_reasoning_apart |= usage.counts_reasoning_apart;
        self.prompt_audio_seconds = match (self.prompt_audio_seconds, usage.prompt_audio_seconds) {
            (Some(before), Some(now)) => Some(before.max(now)),
            (before, now) => before.or(now),
        };
        let mut decreased = false;
        for (count, now) in self.counts().into_iter().zip(usage.counts()) {
            decreased |= now.is_some() && *now < *count;
            *count = (*count).max(*now);
        }
        decreased
    }

    /// Returns whether fewer prompt tokens are reported than `before` because those of the cache are
    /// reported apart from them.
    fn moves_to_cache(&self, before: &Self) -> bool {
        let (Some(now), Some(earlier)) = (self.prompt_tokens, before.prompt_tokens) else {
            return false;
        };
        let is_apart = self.leaves_out_cache && before.cache_tokens() == 0;
        is_apart && now < earlier && now.saturating_add(self.cache_tokens()) >= earlier
    }

    /// Returns the tokens of the prompt that were read from or written to the cache.
    fn cache_tokens(&self) -> u64 {
        let of_cache = [self.prompt_cache_read_tokens, self.prompt_cache_write_tokens];
        of_cache.into_iter().flatten().fold(0, u64::saturating_add)
    }

    /// Returns all fields that are numbers of tokens.
    fn counts(&mut self) -> [&mut Option<u64>; 12] {
        [
            &mut self.prompt_tokens,
            &mut self.completion_tokens,
            &mut self.total_tokens,
            &mut self.reasoning_tokens,
            &mut self.prompt_cache_read_tokens,
            &mut self.prompt_cache_write_tokens,
            &mut self.prompt_cache_miss_tokens,
            &mut self.prompt_audio_tokens,
            &mut self.completion_audio_tokens,
            &mut self.tool_use_prompt_tokens,
            &mut self.accepted_prediction_tokens,
            &mut self.rejected_prediction_tokens,
        ]
    }

    /// Returns the usage with all tokens of the prompt in `prompt_tokens`, including those read
    /// from and written to the cache.
    #[must_use]
    pub(crate) fn whole_prompt(mut self) -> Self {
        if self.leaves_out_cache {
            let of_cache = self.cache_tokens();
            self.prompt_tokens = self.prompt_tokens.map(|prompt| prompt.saturating_add(of_cache));
        }
        Self { leaves_out_cache: false, ..self }
    }

    /// Returns the usage with reasoning in `completion_tokens`, and what is unusual about its counts.
    /// `shown` has the lengths of the texts of output and reasoning that the response contains.
    ///
    /// Some vendors count reasoning beside the completion. The numbers show which: the total is the
    /// prompt and the completion, or these two and the reasoning. If it is neither, or there is no
    /// total, the lengths of the texts decide.
    #[must_use]
    pub(crate) fn whole_completion(mut self, shown: [usize; 2]) -> (Self, Option<&'static str>) {
        if self.counts_reasoning_apart {
            return (Self { counts_reasoning_apart: false, ..self }, None);
        }
        let Some(completion) = self.completion_tokens else { return (self, None) };
        let reasoning = self.reasoning_tokens.unwrap_or(0);
        let beside = completion.saturating_add(reasoning);
        // Whether a total is the sum of these and the prompt, with or without the cache's tokens.
        let is_total = |tokens: u64| {
            let of_cache = if self.leaves_out_cache { self.cache_tokens() } else { 0 };
            let (prompt, total) = (self.prompt_tokens?, self.total_tokens?);
            let sum = prompt.saturating_add(tokens);
            Some(total == sum || total == sum.saturating_add(of_cache))
        };
        // The total of audio has tokens for the seconds of the prompt.
        let is_audio = self.prompt_audio_seconds.is_some();
        let (is_beside, is_told) = match (is_total(completion), is_total(beside)) {
            (Some(true), _) if reasoning <= completion => (false, true),
            (_, Some(true)) if reasoning > 0 => (true, true),
            (inside, _) => {
                (is_beside_by_text(completion, reasoning, shown), inside.is_none() || is_audio)
            }
        };
        if is_beside {
            self.completion_tokens = Some(beside);
        }
        let note = match (is_told, is_beside) {
            (false, _) => Some(note::USAGE_CONTRADICTS_ITSELF),
            (true, true) => Some(note::REASONING_BESIDE_COMPLETION),
            (true, false) => None,
        };
        (self, note)
    }

    /// Returns whether nothing was reported.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        *self == Self::default()
    }
}

/// Returns whether the lengths of the texts speak for reasoning beside the completion. More reasoning
/// than completion can only be beside it.
fn is_beside_by_text(completion: u64, reasoning: u64, [output, thought]: [usize; 2]) -> bool {
    if reasoning > completion {
        return true;
    }
    if reasoning == 0 || thought == 0 {
        return false;
    }
    let share = thought as f64 / (output + thought) as f64;
    let [inside, beside] =
        [completion, completion + reasoning].map(|all| reasoning as f64 / all as f64);
    (beside - share).abs() < (inside - share).abs()
}

/// The counts of one object.
#[derive(Default)]
struct Counts {
    usage: Usage,
    candidates: Option<u64>,
    thoughts: Option<u64>,
    /// Some servers report the cache in two formats: that of the details, which is in `usage`, takes
    /// precedence over this one.
    cache: Cache,
    shape: Shape,
}

/// The object being parsed; the names of details occur in several.
#[derive(Clone, Copy)]
enum Within {
    Usage,
    PromptDetails,
    CompletionDetails,
}

struct Reader<'u> {
    counts: &'u mut Counts,
    within: Within,
}

impl<'de> DeserializeSeed<'de> for Reader<'_> {
    type Value = ();

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<(), D::Error> {
        deserializer.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for Reader<'_> {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a usage object")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut members: A) -> Result<(), A::Error> {
        let Self { counts, within } = self;
        while let Some(name) = members.next_key::<Text<'de>>()? {
            counts.shape.see(&name.0);
            if let Some(within) = inner(&name.0) {
                members.next_value_seed(Reader { counts, within })?;
                continue;
            }
            let number = members.next_value::<Number>()?;
            let field = match (&*name.0, within) {
                ("candidatesTokenCount", Within::Usage) => Some(&mut counts.candidates),
                ("thoughtsTokenCount", Within::Usage) => Some(&mut counts.thoughts),
                ("prompt_audio_seconds", Within::Usage) => {
                    counts.usage.prompt_audio_seconds = number.0;
                    None
                }
                (name, Within::Usage) if Cache::has(name) => counts.cache.field(name),
                (name, within) => field(&mut counts.usage, within, name),
            };
            if let (Some(field), Some(count)) = (field, number.whole()) {
                *field = Some(count);
            }
        }
        Ok(())
    }

    ignore_scalars!();

    fn visit_seq<A: SeqAccess<'de>>(self, mut items: A) -> Result<(), A::Error> {
        while items.next_element::<IgnoredAny>()?.is_some() {}
        Ok(())
    }
}

/// The names that an object uses for the prompt and the cache.
#[derive(Default)]
struct Shape {
    has_input: bool,
    has_prompt: bool,
    has_details: bool,
    has_flat_cache: bool,
}

impl Shape {
    fn see(&mut self, name: &str) {
        match name {
            "input_tokens" => self.has_input = true,
            "prompt_tokens" => self.has_prompt = true,
            "prompt_tokens_details" | "input_tokens_details" => self.has_details = true,
            "cache_read_input_tokens" | "cache_creation_input_tokens" => self.has_flat_cache = true,
            _ => {}
        }
    }

    /// Returns whether Anthropic's `input_tokens` excludes the cache. An object without prompt
    /// tokens changes nothing.
    const fn leaves_out_cache(&self, before: bool) -> bool {
        if self.has_prompt || self.has_details {
            false
        } else if self.has_input {
            self.has_flat_cache
        } else {
            before
        }
    }
}

/// Tokens of the cache, from one object.
#[derive(Default)]
struct Cache {
    read: Option<u64>,
    write: Option<u64>,
}

impl Cache {
    /// Returns whether a member outside of the details has tokens of the cache.
    fn has(name: &str) -> bool {
        Self::default().field(name).is_some()
    }

    /// Returns the field for a member outside of the details.
    fn field(&mut self, name: &str) -> Option<&mut Option<u64>> {
        Some(match name {
            "cache_read_input_tokens" | "prompt_cache_hit_tokens" | "cachedContentTokenCount" => {
                &mut self.read
            }
            "cache_creation_input_tokens" => &mut self.write,
            _ => return None,
        })
    }
}

/// Returns the object that `name` opens, if it contains counts.
fn inner(name: &str) -> Option<Within> {
    Some(match name {
        "usage" | "usageMetadata" | "usage_metadata" => Within::Usage,
        "prompt_tokens_details" | "input_tokens_details" => Within::PromptDetails,
        "completion_tokens_details" | "output_tokens_details" => Within::CompletionDetails,
        _ => return None,
    })
}

/// Returns the field for a member.
fn field<'u>(usage: &'u mut Usage, within: Within, name: &str) -> Option<&'u mut Option<u64>> {
    Some(match (within, name) {
        (Within::Usage, "prompt_tokens" | "input_tokens" | "promptTokenCount") => {
            &mut usage.prompt_tokens
        }
        (Within::Usage, "completion_tokens" | "output_tokens") => &mut usage.completion_tokens,
        (Within::Usage, "total_tokens" | "totalTokenCount") => &mut usage.total_tokens,
        (Within::Usage | Within::CompletionDetails, "reasoning_tokens") => {
            &mut usage.reasoning_tokens
        }
        (Within::PromptDetails, "cached_tokens") => &mut usage.prompt_cache_read_tokens,
        (Within::PromptDetails, "cache_write_tokens" | "created_cache_tokens") => {
            &mut usage.prompt_cache_write_tokens
        }
        (Within::Usage, "prompt_cache_miss_tokens") => &mut usage.prompt_cache_miss_tokens,
        (Within::PromptDetails, "audio_tokens") => &mut usage.prompt_audio_tokens,
        (Within::CompletionDetails, "audio_tokens") => &mut usage.completion_audio_tokens,
        (Within::Usage, "toolUsePromptTokenCount") => &mut usage.tool_use_prompt_tokens,
        (Within::CompletionDetails, "accepted_prediction_tokens") => {
            &mut usage.accepted_prediction_tokens
        }
        (Within::CompletionDetails, "rejected_prediction_tokens") => {
            &mut usage.rejected_prediction_tokens
        }
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn usage(json: &str) -> Usage {
        let mut usage = Usage::default();
        merge(&mut usage, json);
        usage
    }

    fn merge(usage: &mut Usage, json: &str) {
        usage.merge(serde_json::from_str::<&RawValue>(json).unwrap());
    }

    #[test]
    fn openai_chat() {
        let found = usage(
            r#"{"prompt_tokens":10,"completion_tokens":20,"total_tokens":30,
                "prompt_tokens_details":{"cached_tokens":4,"audio_tokens":1},
                "completion_tokens_details":{"reasoning_tokens":5,"audio_tokens":2,
                    "accepted_prediction_tokens":6,"rejected_prediction_tokens":7}}"#,
        );
        let expected = Usage {
            prompt_tokens: Some(10),
            completion_tokens: Some(20),
            total_tokens: Some(30),
            reasoning_tokens: Some(5),
            prompt_cache_read_tokens: Some(4),
            prompt_audio_tokens: Some(1),
            completion_audio_tokens: Some(2),
            accepted_prediction_tokens: Some(6),
            rejected_prediction_tokens: Some(7),
            ..Usage::default()
        };
        assert_eq!(found, expected);
    }

    #[test]
    fn openai_responses_and_anthropic() {
        let found = usage(
            r#"{"input_tokens":14,"input_tokens_details":{"cached_tokens":3,"cache_write_tokens":2},
                "output_tokens":8,"output_tokens_details":{"reasoning_tokens":1},"total_tokens":22}"#,
        );
        assert_eq!((found.prompt_tokens, found.completion_tokens), (Some(14), Some(8)));
        assert_eq!((found.prompt_cache_read_tokens, found.reasoning_tokens), (Some(3), Some(1)));
        let found = usage(
            r#"{"input_tokens":5,"cache_creation_input_tokens":6,"cache_read_input_tokens":7,
                "cache_creation":{"ephemeral_5m_input_tokens":6},"output_tokens":8}"#,
        );
        assert_eq!(found.prompt_cache_write_tokens, Some(6));
        assert_eq!(found.prompt_cache_read_tokens, Some(7));
    }

    #[test]
    fn the_caches_details_win_over_what_stands_beside_them() {
        let flat = r#""cache_read_input_tokens":70,"cache_creation_input_tokens":60"#;
        let nested = r#""prompt_tokens_details":{"cached_tokens":7,"cache_write_tokens":6}"#;
        for json in [format!("{{{flat},{nested}}}"), format!("{{{nested},{flat}}}")] {
            let found = usage(&json);
            assert_eq!(found.prompt_cache_read_tokens, Some(7), "{json}");
            assert_eq!(found.prompt_cache_write_tokens, Some(6), "{json}");
        }
        // The value of a later event replaces that of an earlier one, in any format.
        let mut found = usage(&format!("{{{nested}}}"));
        merge(&mut found, r#"{"cache_read_input_tokens":9}"#);
        assert_eq!(found.prompt_cache_read_tokens, Some(9));
        assert_eq!(found.prompt_cache_write_tokens, Some(6));
        merge(&mut found, r#"{"completion_tokens":1,"prompt_tokens_details":null}"#);
        assert_eq!(found.prompt_cache_read_tokens, Some(9));
    }

    /// 5 tokens of the prompt were not cached, 7 were read from the cache, 6 were written to it.
    #[test]
    fn a_prompt_in_anthropics_shape_has_the_caches_tokens_in_it() {
        let of_anthropic = r#"{"input_tokens":5,"cache_creation_input_tokens":6,
            "cache_read_input_tokens":7,"output_tokens":8}"#;
        assert_eq!(usage(of_anthropic).whole_prompt().prompt_tokens, Some(18));
        // OpenAI's counts already include them, as do those of servers that report details.
        let whole = r#"{"prompt_tokens":18,"cache_read_input_tokens":7}"#;
        assert_eq!(usage(whole).whole_prompt().prompt_tokens, Some(18));
        let whole = r#"{"input_tokens":18,"input_tokens_details":{"cached_tokens":7}}"#;
        assert_eq!(usage(whole).whole_prompt().prompt_tokens, Some(18));
        let both = r#"{"input_tokens":5,"cache_read_input_tokens":7,"prompt_tokens":12}"#;
        assert_eq!(usage(both).whole_prompt().prompt_tokens, Some(12));
        // A stream reports the prompt at its start, and the cache again at its end.
        let mut found = usage(of_anthropic);
        merge(&mut found, r#"{"output_tokens":20,"cache_read_input_tokens":7}"#);
        assert_eq!(found.whole_prompt().prompt_tokens, Some(18));
    }

    #[test]
    fn deepseek_and_mistral() {
        let found = usage(r#"{"prompt_cache_hit_tokens":1,"prompt_cache_miss_tokens":2}"#);
        assert_eq!(found.prompt_cache_read_tokens, Some(1));
        assert_eq!(found.prompt_cache_miss_tokens, Some(2));
        assert_eq!(usage(r#"{"prompt_audio_seconds":12.5}"#).prompt_audio_seconds, Some(12.5));
        assert_eq!(usage(r#"{"prompt_audio_seconds":{}}"#).prompt_audio_seconds, None);
    }

    #[test]
    fn gemini_counts_thoughts_apart() {
        let found = usage(
            r#"{"usageMetadata":{"promptTokenCount":10,"candidatesTokenCount":20,
                "thoughtsTokenCount":5,"totalTokenCount":38,"cachedContentTokenCount":4,
                "toolUsePromptTokenCount":3}}"#,
        );
        let expected = Usage {
            prompt_tokens: Some(10),
            completion_tokens: Some(25),
            total_tokens: Some(38),
            reasoning_tokens: Some(5),
            prompt_cache_read_tokens: Some(4),
            tool_use_prompt_tokens: Some(3),
            counts_reasoning_apart: true,
            ..Usage::default()
        };
        assert_eq!(found, expected);
    }

    #[test]
    fn a_later_zero_does_not_replace_a_count() {
        let mut found = usage(r#"{"input_tokens":123,"output_tokens":1}"#);
        let delta = r#"{"input_tokens":0,"output_tokens":15,"cache_read_input_tokens":0}"#;
        assert!(found.merge(serde_json::from_str(delta).unwrap()), "a count decreased");
        assert_eq!((found.prompt_tokens, found.completion_tokens), (Some(123), Some(15)));
        let mut found = usage(r#"{"prompt_tokens_details":{"cached_tokens":900}}"#);
        merge(&mut found, r#"{"prompt_tokens_details":{"cached_tokens":0}}"#);
        assert_eq!(found.prompt_cache_read_tokens, Some(900));
        let mut found =
            usage(r#"{"promptTokenCount":9,"candidatesTokenCount":4,"thoughtsTokenCount":3}"#);
        merge(&mut found, r#"{"promptTokenCount":9,"candidatesTokenCount":0}"#);
        assert_eq!((found.completion_tokens, found.reasoning_tokens), (Some(7), Some(3)));
    }

    /// 100 of the 123 tokens were read from the cache, which only the last event says.
    #[test]
    fn tokens_that_are_moved_to_the_cache_count_once() {
        let mut found = usage(r#"{"input_tokens":123,"output_tokens":1}"#);
        let delta = r#"{"input_tokens":23,"cache_read_input_tokens":100,"output_tokens":15}"#;
        merge(&mut found, delta);
        assert_eq!(found.whole_prompt().prompt_tokens, Some(123));
    }

    /// The sums of xAI (reasoning beside the completion), of OpenAI (inside), and of a gateway that adds
    /// up neither.
    #[test]
    fn sums_tell_where_reasoning_is_counted() {
        let counts_of = |json: &str, shown: [usize; 2]| {
            let (usage, note) = usage(json).whole_completion(shown);
            (usage.completion_tokens.unwrap(), note)
        };
        let counts = |completion: u64, reasoning: u64, total: u64| {
            format!(
                r#"{{"prompt_tokens":10,"completion_tokens":{completion},"total_tokens":{total},
                    "completion_tokens_details":{{"reasoning_tokens":{reasoning}}}}}"#
            )
        };
        let beside = Some(note::REASONING_BESIDE_COMPLETION);
        assert_eq!(counts_of(&counts(20, 30, 60), [40, 60]), (50, beside));
        assert_eq!(counts_of(&counts(50, 30, 60), [40, 60]), (50, None));
        let odd = Some(note::USAGE_CONTRADICTS_ITSELF);
        // The reasoning is three fifths of the text: of 50 tokens, not of 20 or of 80.
        assert_eq!(counts_of(&counts(20, 30, 99), [40, 60]), (50, odd));
        assert_eq!(counts_of(&counts(50, 30, 99), [40, 60]), (50, odd));
        assert_eq!(counts_of(&counts(20, 15, 99), [400, 300]), (35, odd));
        // 20 is more than can be inside.
        assert_eq!(counts_of(&counts(10, 20, 20), [40, 0]), (30, odd));
        let untold = r#"{"completion_tokens":20,"reasoning_tokens":5}"#;
        assert_eq!(counts_of(untold, [40, 0]), (20, None));
        let cached =
            r#"{"input_tokens":3,"cache_read_input_tokens":7,"output_tokens":5,"total_tokens":15}"#;
        assert_eq!(counts_of(cached, [9, 0]), (5, None));
        let odd_without = r#"{"prompt_tokens":3,"completion_tokens":5,"total_tokens":9}"#;
        assert_eq!(counts_of(odd_without, [9, 0]), (5, odd));
        let of_gemini = r#"{"promptTokenCount":10,"candidatesTokenCount":20,"thoughtsTokenCount":5,
            "totalTokenCount":38,"toolUsePromptTokenCount":3}"#;
        assert_eq!(counts_of(of_gemini, [9, 9]), (25, None));
    }

    #[test]
    fn the_last_value_that_is_one_wins() {
        let mut found = usage(r#"{"prompt_tokens":35,"completion_tokens":1}"#);
        merge(&mut found, r#"{"prompt_tokens":null,"completion_tokens":6}"#);
        merge(&mut found, r#"{"prompt_tokens":"9","completion_tokens":-1,"total_tokens":1.5}"#);
        merge(&mut found, "null");
        merge(&mut found, r#"[{"prompt_tokens":1}]"#);
        assert_eq!((found.prompt_tokens, found.completion_tokens), (Some(35), Some(6)));
        assert_eq!(found.total_tokens, None);
        assert_eq!(usage(r#"{"completion_tokens_details":null}"#), Usage::default());
    }

    proptest! {
        #[test]
        fn any_json_is_read(
            name in "(prompt|completion|total)_tokens(_details)?|usage|thoughtsTokenCount",
            number: f64,
            text: String,
        ) {
            for value in [serde_json::json!(number), serde_json::json!([text]), serde_json::json!({&*text: number})] {
                let mut members = serde_json::Map::new();
                members.insert(name.clone(), value);
                let _ = usage(&serde_json::Value::Object(members).to_string());
            }
        }
    }
}
