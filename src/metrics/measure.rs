//! From a finished request to its values: reads the response, counts tokens,
//! computes the record metrics. Pure but for the token counter given to it.

use std::fmt;
use std::sync::Arc;

use super::metric::{Facts, MeasuredRecord, Observation};
use super::registry::Registry;
use crate::dataset::{Conversation, Dataset, Media, MediaKinds, Turn, tokens_sent};
use crate::endpoint::{ChatMessages, Endpoint, ParsedResponse, chat_messages, http_error};
use crate::record::{RequestError, RequestRecord};
use crate::units::Clock;

/// Counts the tokens of a text, without special tokens.
pub type CountTokens = dyn Fn(&str) -> u64 + Send + Sync;

/// Counts the tokens of the text that a model gets for messages; `None` where its
/// template makes none of them.
pub type CountChat = dyn Fn(&ChatMessages) -> Option<u64> + Send + Sync;

/// Measures requests of one run.
pub struct Measurer {
    endpoint: Arc<dyn Endpoint>,
    counter: Option<Arc<CountTokens>>,
    chat: Option<Arc<CountChat>>,
    dataset: Arc<Dataset>,
    registry: Arc<Registry>,
    clock: Clock,
}

/// Token counts of one request.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
struct Tokens {
    input: Option<u64>,
    output: Option<u64>,
    reasoning: Option<u64>,
}

impl Measurer {
    /// Without a `counter` there are no token counts but the server's.
    #[must_use]
    pub fn new(
        endpoint: Arc<dyn Endpoint>,
        counter: Option<Arc<CountTokens>>,
        dataset: Arc<Dataset>,
        registry: Arc<Registry>,
        clock: Clock,
    ) -> Self {
        Self { endpoint, counter, chat: None, dataset, registry, clock }
    }

    /// The input of a body with messages is counted by `chat`, as the body has it.
    #[must_use]
    pub fn counting_chats(self, chat: Arc<CountChat>) -> Self {
        Self { chat: Some(chat), ..self }
    }

    /// Reads `record`'s response and computes its values. It failed if the
    /// transport, the status or the response says so, in this order.
    #[must_use]
    pub fn measure(&self, record: RequestRecord) -> MeasuredRecord {
        let response = self.parse(&record);
        let error = failure(&record, &response);
        let requested_output_tokens =
            self.turn(&record).and_then(|turn| turn.max_tokens).map(u64::from);
        let tokens = if self.registry.settings().use_server_token_count {
            reported_tokens(&response)
        } else {
            self.counted_tokens(&record, &response)
        };
        let values = self.registry.compute(&Facts {
            record: &record,
            response: &response,
            error: error.as_ref(),
            input_tokens: tokens.input,
            output_tokens: tokens.output,
            reasoning_tokens: tokens.reasoning,
            requested_output_tokens,
            images: self.media(&record, MediaKinds::IMAGE).count() as u64,
            audio_seconds: audio_seconds(self.media(&record, MediaKinds::AUDIO)),
        });
        let observation = Observation {
            phase: record.phase,
            start_wall_ns: self.clock.wall_ns(record.start),
            end_wall_ns: self.clock.wall_ns(record.end),
            requested_output_tokens,
            error,
            values,
        };
        MeasuredRecord { record, response, observation }
    }

    /// The response, or what there is of it: one that was cut short is read up
    /// to there. Bodies of other statuses than 2xx are not the endpoint's.
    fn parse(&self, record: &RequestRecord) -> ParsedResponse {
        let readable = record.status.map_or(record.error.is_none(), is_success);
        if readable { self.endpoint.parse(&record.body) } else { ParsedResponse::default() }
    }

    fn turn(&self, record: &RequestRecord) -> Option<&Turn> {
        self.dataset.conversations.get(record.turn.conversation)?.turns.get(record.turn.turn)
    }

    /// The media of a kind that the request bears: its turn's, and those of the
    /// turns that it repeats.
    fn media(&self, record: &RequestRecord, kind: MediaKinds) -> impl Iterator<Item = &Media> {
        let (conversation, turn) = (record.turn.conversation, record.turn.turn);
        let found = self.dataset.conversations.get(conversation);
        let repeats = self.endpoint.traits().repeats_history;
        let is_sent = move |(at, standalone): (usize, bool)| {
            at == turn || (at < turn && repeats && !standalone)
        };
        let turns = found.into_iter().flat_map(move |found| {
            let turns = found.turns.iter().enumerate();
            turns.filter(move |(at, _)| is_sent((*at, found.standalone_turns)))
        });
        turns.flat_map(|(_, turn)| &turn.media).filter(move |media| media.kind == kind)
    }

    /// Counts by our own tokenizer; a text that is empty has no count.
    fn counted_tokens(&self, record: &RequestRecord, response: &ParsedResponse) -> Tokens {
        let count = |text: &str| {
            let counter = self.counter.as_ref()?;
            (!text.is_empty()).then(|| counter(text))
        };
        Tokens {
            input: self.counted_input(record),
            output: count(&response.output_text),
            reasoning: count(&response.reasoning_text),
        }
    }

    /// Tokens of texts that have the context in front: in the body they are others than
    /// the turn's own. `None` without a context, or where the body is no JSON.
    fn joined_input(&self, record: &RequestRecord, conversation: &Conversation) -> Option<u64> {
        conversation.context_tokens.filter(|context| *context > 0)?;
        self.turn(record)?.input_tokens?;
        let counter = self.counter.as_ref()?;
        tokens_sent(&record.payload, |text| counter(text))
    }

    /// Tokens of the whole prompt. `None` where part of it is not known.
    fn counted_input(&self, record: &RequestRecord) -> Option<u64> {
        if let Some(chat) = &self.chat
            && let Some(messages) = chat_messages(&record.payload)
        {
            return chat(&messages);
        }
        let conversation = self.dataset.conversations.get(record.turn.conversation)?;
        // Such a turn bears its whole history.
        let is_whole = self.turn(record)?.raw_payload.is_some() || conversation.standalone_turns;
        if is_whole {
            return lone_input(conversation, record.turn.turn);
        }
        if !self.endpoint.traits().repeats_history {
            let joined = self.joined_input(record, conversation);
            return joined.or_else(|| lone_input(conversation, record.turn.turn));
        }
        let turns = conversation.turns.get(..=record.turn.turn)?;
        let asked: u64 = turns.iter().map(|turn| turn.input_tokens).sum::<Option<u64>>()?;
        let answered = if record.earlier_answers.is_empty() {
            0
        } else {
            let counter = self.counter.as_ref()?;
            record.earlier_answers.iter().map(|answer| counter(answer)).sum()
        };
        Some(conversation.context_tokens.unwrap_or(0) + asked + answered)
    }
}

/// Tokens of a prompt that is one turn: its texts after the context, which a body
/// that is sent as it is has not.
fn lone_input(conversation: &Conversation, turn: usize) -> Option<u64> {
    let turn = conversation.turns.get(turn)?;
    let context = conversation.context_tokens.filter(|_| !turn.texts.is_empty()).unwrap_or(0);
    Some(context + turn.input_tokens?)
}

/// Seconds of all; `None` where there is none, or one does not say it.
fn audio_seconds<'a>(media: impl Iterator<Item = &'a Media>) -> Option<f64> {
    let seconds: Option<Vec<f64>> = media.map(|media| media.seconds).collect();
    seconds.filter(|all| !all.is_empty()).map(|all| all.iter().sum())
}

fn failure(record: &RequestRecord, response: &ParsedResponse) -> Option<RequestError> {
    let refused = || {
        let status = record.status.filter(|status| !is_success(*status))?;
        Some(http_error(status, record.trace.reason.as_deref(), &record.body.bytes))
    };
    record.error.clone().or_else(refused).or_else(|| response.error.clone())
}

const fn is_success(status: u16) -> bool {
    status >= 200 && status < 300
}

/// Counts as the server reports them; absent where it does not.
fn reported_tokens(response: &ParsedResponse) -> Tokens {
    let usage = response.usage.unwrap_or_default();
    let reasoning = usage.reasoning_tokens;
    Tokens {
        input: usage.prompt_tokens,
        output: usage
            .completion_tokens
            .map(|completion| completion.saturating_sub(reasoning.unwrap_or(0))),
        reasoning,
    }
}

impl fmt::Debug for Measurer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Measurer").field("endpoint", &self.endpoint).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests;
