//! The requests that a run would send: lengths, and the shared parts of prompts.

use std::collections::HashMap;
use std::sync::Arc;

use serde_json::value::RawValue;

use tokens::tokenizer::TokenCounter;

use super::account::{Sent, SentCounter};
use super::known_prefixes::{KnownPrefixes, MAX_PREFIXES, prefixes};
use super::trees::tree;
use super::{Conversation, Dataset, Sampler, Turn, payload};

/// Number of tokens of a block. vLLM's prefix cache has blocks of as many.
pub const BLOCK_TOKENS: usize = 16;

/// Maximum number of requests whose lengths are determined.
const MAX_REQUESTS: usize = 1_000_000;

/// Maximum number of tokens of the prompts that are compared.
const MAX_COMPARED_TOKENS: u64 = 50_000_000;

/// The requests of a run, as far as they are known before it.
#[derive(Debug, Default, PartialEq)]
pub struct Preview {
    /// Number of requests; `None` if only the time ends the run.
    pub requests: Option<u64>,
    /// Tokens of each prompt with its history, of the requests that have text. Responses in the
    /// history have as many tokens as were requested.
    pub input: Vec<f64>,
    /// Requested output tokens, of the requests that have a number.
    pub output: Vec<f64>,
    /// Turns of each session.
    pub turns: Vec<f64>,
    /// The shared parts of the prompts; `None` if they differ by markers, or do not have text.
    pub prefixes: Option<Prefixes>,
    /// The requests of the dataset that are sent; `None` if that is not known.
    pub sent: Option<Sent>,
}

/// The parts that prompts share with earlier ones.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
pub struct Prefixes {
    /// Number of prompts that were compared.
    pub prompts: u64,
    /// Their tokens.
    pub tokens: u64,
    /// Tokens in the first blocks of prompts that an earlier prompt, with its response, has too.
    pub shared: u64,
}

/// How a phase goes through its part of the dataset.
#[derive(Debug, Clone)]
pub struct Walk {
    /// Index of the part.
    pub part: usize,
    /// The source of its conversations.
    pub sampler: Sampler,
    /// Number of sessions that phases drew which are not followed.
    pub skipped: u64,
    /// Number of requests to send.
    pub requests: Option<u64>,
    /// Number of sessions to start. Without it and a number of requests, each conversation is sent once.
    pub sessions: Option<u64>,
    /// Whether its requests are in the account of the dataset.
    pub is_accounted: bool,
}

/// How requests are looked at.
#[derive(Debug, Clone, Copy)]
pub struct Look<'a> {
    /// Counts the tokens of texts.
    pub counter: &'a TokenCounter,
    /// Whether requests repeat the earlier turns and responses of their session.
    pub repeats_history: bool,
    /// Whether prompts are compared.
    pub compares: bool,
}

impl Preview {
    /// Follows the sessions of phases, one phase after the other.
    pub fn for_walks(dataset: &Dataset, walks: &[Walk], look: Look<'_>) -> Self {
        let mut preview = Self { requests: Some(0), ..Self::default() };
        let mut places = SentCounter::default();
        let mut compared = look.compares.then(Compared::default);
        let mut drawn: HashMap<usize, u64> = HashMap::new();
        let mut are_whole = true;
        for walk in walks {
            let first = drawn.entry(walk.part).or_default();
            *first += walk.skipped;
            let (sessions, sent, is_whole) =
                preview.follow(dataset, walk, *first, look, (&mut places, &mut compared));
            *first += sessions;
            are_whole &= is_whole;
            let requests = if is_whole { Some(sent) } else { walk.requests };
            preview.requests = preview.requests.zip(requests).map(|(all, own)| all + own);
        }
        preview.sent = are_whole.then(|| places.sent());
        preview.prefixes = compared.map(Compared::found).filter(|it| it.tokens > 0);
        preview
    }

    /// Follows the sessions of a phase, the first of which is number `first` of its part. Returns their
    /// number, that of their requests, and whether the phase sends just these.
    fn follow(
        &mut self,
        dataset: &Dataset,
        walk: &Walk,
        first: u64,
        look: Look<'_>,
        (places, compared): (&mut SentCounter<usize>, &mut Option<Compared>),
    ) -> (u64, u64, bool) {
        let is_open = walk.requests.is_none() && walk.sessions.is_none();
        let sessions = walk.sessions.unwrap_or(if is_open { walk.sampler.len() } else { u64::MAX });
        let most = walk.requests.unwrap_or(u64::MAX);
        let (mut sent, mut session) = (0, 0);
        while session < sessions && sent < most && self.room() > 0 {
            let before = sent;
            let drawn = walk.sampler.conversation(first + session);
            let exists = drawn < dataset.conversations.len();
            // Those that are made while the run goes on are like those before it.
            let like = || walk.sampler.nth((first + session) % walk.sampler.len());
            let root = if exists { drawn } else { like() };
            for at in tree(&dataset.conversations, root) {
                let Some(conversation) = dataset.conversations.get(at) else { continue };
                let turns = conversation.own_turns().len();
                let turns = turns.min(usize::try_from(most - sent).unwrap_or(usize::MAX));
                if turns == 0 {
                    continue;
                }
                self.add(conversation, turns, look.repeats_history);
                for turn in (conversation.inherited_turns..).take(turns) {
                    places.count(walk.is_accounted, at, turn);
                }
                if let Some(compared) = compared.as_mut().filter(|_| exists) {
                    let session = first + session;
                    compared.add(conversation, turns, session, look);
                }
                sent += turns as u64;
            }
            // A conversation without turns would otherwise be drawn for ever.
            if sent == before {
                break;
            }
            session += 1;
        }
        let is_whole = (session == sessions || sent == most) && !is_open;
        (session, sent, is_whole)
    }

    fn room(&self) -> usize {
        MAX_REQUESTS.saturating_sub(self.input.len().max(self.turns.len()))
    }

    /// Adds the first `turns` turns of a conversation that it sends itself.
    fn add(&mut self, conversation: &Conversation, turns: usize, repeats_history: bool) {
        let repeats = repeats_history && !conversation.standalone_turns;
        let context = conversation.context_tokens.unwrap_or(0);
        let mut history = 0;
        let end = conversation.inherited_turns + turns;
        for (index, turn) in conversation.all_turns().take(end).enumerate() {
            if turn.starts_anew {
                history = 0;
            }
            if index >= conversation.inherited_turns {
                let prompt = turn.input_tokens.map(|tokens| context + history + tokens);
                self.input.extend(prompt.map(|tokens| tokens as f64));
                self.output.extend(turn.max_tokens.map(f64::from));
            }
            if repeats {
                let repeated = if turn.answer_is_recorded { 0 } else { turn.assumed_output() };
                let repeated = u64::from(repeated);
                history += turn.input_tokens.unwrap_or(0) + repeated;
            }
        }
        self.turns.push(turns as f64);
    }
}

/// The prompts so far, as a server's prefix cache that keeps everything would know them.
struct Compared {
    known: KnownPrefixes,
    /// Number of whole blocks of the prompts.
    blocks: u64,
    prefixes: Prefixes,
    /// Number of responses so far; each differs from all others.
    responses: u64,
}

/// The owners of prefixes: responses, and then prompts.
const RESPONSES: u32 = 0;
const PROMPTS: u32 = 1;

impl Default for Compared {
    fn default() -> Self {
        let known = KnownPrefixes::keeping(MAX_PREFIXES);
        Self { known, blocks: 0, prefixes: Prefixes::default(), responses: 0 }
    }
}

impl Compared {
    fn add(&mut self, conversation: &Conversation, turns: usize, session: u64, look: Look<'_>) {
        let Look { counter, repeats_history, .. } = look;
        let repeats = repeats_history && !conversation.standalone_turns;
        let context = [&conversation.system, &conversation.user_context];
        let context: Vec<u64> = context
            .into_iter()
            .flatten()
            .flat_map(|text: &Arc<str>| encode(text, counter))
            .collect();
        let mut prompt = context.clone();
        let end = conversation.inherited_turns + turns;
        for (index, turn) in conversation.all_turns().take(end).enumerate() {
            if !repeats || turn.starts_anew {
                prompt.clone_from(&context);
            }
            prompt.extend(encode(&text(turn), counter));
            if index >= conversation.inherited_turns {
                if self.prefixes.tokens + prompt.len() as u64 > MAX_COMPARED_TOKENS {
                    return;
                }
                self.compare(&prompt);
            }
            if repeats && !turn.answer_is_recorded && index + 1 < end {
                // Tokens of a response, which no text has: their numbers exceed those of tokens.
                self.responses += 1;
                let unknown = self.responses << 32 | session & u64::from(u32::MAX);
                let length = turn.assumed_output() as usize;
                let own = prompt.len() / BLOCK_TOKENS;
                prompt.extend(std::iter::repeat_n(unknown, length));
                self.known.add(&prefixes(&prompt, BLOCK_TOKENS)[own..], RESPONSES);
            }
        }
    }

    fn compare(&mut self, prompt: &[u64]) {
        let prefixes = prefixes(prompt, BLOCK_TOKENS);
        self.known.add(&prefixes, PROMPTS);
        self.blocks += prefixes.len() as u64;
        self.prefixes.prompts += 1;
        self.prefixes.tokens += prompt.len() as u64;
    }

    fn found(self) -> Prefixes {
        let new = self.known.owned().get(&PROMPTS).copied().unwrap_or(0.0);
        let shared = (self.blocks as f64 - new).max(0.0) * BLOCK_TOKENS as f64;
        Prefixes { shared: shared.round() as u64, ..self.prefixes }
    }
}

fn encode(text: &str, counter: &TokenCounter) -> impl Iterator<Item = u64> {
    counter.encode(text).into_iter().map(u64::from)
}

/// Returns the texts of a turn, joined.
fn text(turn: &Turn) -> String {
    match (&turn.raw_payload, &turn.messages) {
        (Some(body), _) => payload::joined_texts(body),
        (None, Some(messages)) => {
            let tools = turn.tools.as_ref().map_or("[]", |tools| tools.get());
            let body = format!("{{\"messages\":{},\"tools\":{tools}}}", messages.get());
            RawValue::from_string(body)
                .map_or_else(|_| String::new(), |it| payload::joined_texts(&it))
        }
        (None, None) => {
            turn.as_text().texts.iter().map(ToString::to_string).collect::<Vec<_>>().join("\n")
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Sampling, Seed};

    fn turn(text: &str, output: u32, counter: &TokenCounter) -> Turn {
        Turn {
            texts: vec![text.into()],
            input_tokens: Some(counter.count(text)),
            max_tokens: Some(output),
            ..Turn::default()
        }
    }

    /// A walk through the first `count` conversations.
    fn through(count: usize) -> Walk {
        Walk {
            part: 0,
            sampler: Sampler::new(Sampling::Sequential, 0..count, Seed(1)),
            skipped: 0,
            requests: None,
            sessions: None,
            is_accounted: true,
        }
    }

    const fn look(counter: &TokenCounter) -> Look<'_> {
        Look { counter, repeats_history: true, compares: true }
    }

    /// Words of one token each.
    fn words(word: &str, count: usize) -> String {
        vec![word; count].join(" ")
    }

    #[test]
    fn lengths_are_those_of_the_requests_and_their_history() {
        let counter = TokenCounter::builtin();
        let conversation = Conversation {
            system: Some(words("a", 32).into()),
            context_tokens: Some(32),
            turns: vec![turn(&words("b", 10), 5, &counter), turn(&words("c", 20), 7, &counter)],
            ..Conversation::default()
        };
        let single = Conversation {
            system: Some(words("a", 32).into()),
            context_tokens: Some(32),
            turns: vec![turn(&words("d", 8), 3, &counter)],
            ..Conversation::default()
        };
        let dataset = Dataset::from_conversations(vec![conversation, single]);
        let look = look(&counter);
        let preview = Preview::for_walks(&dataset, &[through(2)], look);
        assert_eq!((preview.requests, preview.sent), (None, None));
        // The second prompt repeats the context, the first turn and its response.
        assert_eq!(preview.input, [42.0, 32.0 + 10.0 + 5.0 + 20.0, 40.0]);
        assert_eq!(preview.output, [5.0, 7.0, 3.0]);
        assert_eq!(preview.turns, [2.0, 1.0]);
        // Of 42 tokens, 67 and 40: the second prompt repeats two blocks of the first, whose third
        // is not full; the third prompt shares the two blocks of the system message.
        let prefixes = Prefixes { prompts: 3, tokens: 149, shared: 32 + 32 };
        assert_eq!(preview.prefixes, Some(prefixes));

        // Three requests: a session of two turns, and one of one.
        let walk = Walk { requests: Some(4), ..through(2) };
        let preview = Preview::for_walks(&dataset, &[walk], look);
        assert_eq!(preview.requests, Some(4));
        assert_eq!(preview.turns, [2.0, 1.0, 1.0]);
        assert_eq!(preview.sent, Some(Sent { requests: 3, repeated: 1, generated: 0 }));
        // The fourth request repeats the first one, but for its last, partial block.
        assert_eq!(preview.prefixes.unwrap().shared, 32 + 32 + 32);

        let walk = Walk { sessions: Some(3), ..through(1) };
        let look = Look { repeats_history: false, compares: false, ..look };
        let preview = Preview::for_walks(&dataset, &[walk], look);
        assert_eq!((preview.requests, preview.prefixes), (Some(6), None));
        assert_eq!(preview.input[..2], [42.0, 52.0]);
    }

    #[test]
    fn a_request_without_a_limit_has_no_history_of_its_length() {
        let counter = TokenCounter::builtin();
        let turns = vec![turn("a", u32::MAX, &counter), turn("b", u32::MAX, &counter)];
        let dataset =
            Dataset::from_conversations(vec![Conversation { turns, ..Conversation::default() }]);
        let preview = Preview::for_walks(&dataset, &[through(1)], look(&counter));
        assert_eq!(preview.input, [1.0, 2.0]);
        assert_eq!(preview.output, [f64::from(u32::MAX); 2]);
    }

    #[test]
    fn a_dataset_without_turns_ends() {
        let dataset = Dataset::from_conversations(vec![Conversation::default()]);
        let walk = Walk { requests: Some(5), ..through(1) };
        let preview = Preview::for_walks(&dataset, &[walk], look(&TokenCounter::builtin()));
        assert!(preview.turns.is_empty());
    }
}
