//! Measures a finished request: parses the response, counts tokens and computes the record
//! metrics. Pure except for the token counter.

use std::any::Any;
use std::borrow::Cow;
use std::fmt;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, OnceLock};

use bytes::Bytes;

use super::output::{Answered, Canaries, CanaryAnswer, Fault, Output, number_of};
use base::units::Clock;
use client::endpoint::{
    ChatMessages, ContentPiece, Endpoint, ParsedResponse, chat_messages, choices, http_error,
    requested_output_tokens,
};
use client::record::{ErrorKind, RequestError, RequestRecord};
use client::runner::has_shared_payload;
use dataset::{Conversation, Dataset, Media, MediaKinds, Turn, tokens_sent};

use super::agent::AgentCall;
use super::metric::{Facts, MeasuredRecord, Observation, RecordValues};
use super::registry::Registry;

/// Counts the tokens of a text without special tokens.
pub type CountTokens = dyn Fn(&str) -> u64 + Send + Sync;

/// Counts the tokens of messages rendered with the model's chat template; `None` if the
/// template cannot render them.
pub type CountChat = dyn Fn(&ChatMessages) -> Option<u64> + Send + Sync;

/// Measures the requests of a run.
pub struct Measurer {
    endpoint: Arc<dyn Endpoint>,
    counter: Option<Arc<CountTokens>>,
    chat: Option<Arc<CountChat>>,
    dataset: Arc<Dataset>,
    registry: Arc<Registry>,
    clock: Clock,
    /// Whether prompts are counted as they were sent, since they differ from the dataset.
    counts_bodies: bool,
    shared: SharedBodies,
    /// The canaries of the run, with what is known of their answers.
    canaries: Arc<Canaries>,
}

/// The bodies of first turns, by conversation, which all sessions of a conversation share, and what
/// has been found in them.
#[derive(Default)]
struct SharedBodies {
    bodies: Arc<[Bytes]>,
    requested_tokens: Box<[OnceLock<Option<u64>>]>,
}

impl SharedBodies {
    /// Returns the number of output tokens that the request asks for.
    fn requested_tokens(&self, record: &RequestRecord) -> Option<u64> {
        let found = self.requested_tokens.get(record.turn.conversation);
        match found.filter(|_| has_shared_payload(record, &self.bodies)) {
            Some(found) => *found.get_or_init(|| requested_output_tokens(&record.payload)),
            None => requested_output_tokens(&record.payload),
        }
    }
}

/// The token counts of a request.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
struct Tokens {
    input: Option<u64>,
    output: Option<u64>,
    reasoning: Option<u64>,
}

impl Measurer {
    /// Creates a measurer. Without a `counter`, only the server's token counts are available.
    #[must_use]
    pub fn new(
        endpoint: Arc<dyn Endpoint>,
        counter: Option<Arc<CountTokens>>,
        dataset: Arc<Dataset>,
        registry: Arc<Registry>,
        clock: Clock,
    ) -> Self {
        let chat = None;
        let shared = SharedBodies::default();
        let canaries = Arc::default();
        let counts_bodies = false;
        Self { endpoint, counter, chat, dataset, registry, clock, counts_bodies, shared, canaries }
    }

    /// Compares the answers to the canaries of the dataset with those that are known.
    #[must_use]
    pub fn with_canaries(self, canaries: Arc<Canaries>) -> Self {
        Self { canaries, ..self }
    }

    /// Reads each of `bodies`, those of first turns by conversation, only once.
    #[must_use]
    pub fn sharing(self, bodies: Arc<[Bytes]>) -> Self {
        let requested_tokens = bodies.iter().map(|_| OnceLock::new()).collect();
        Self { shared: SharedBodies { bodies, requested_tokens }, ..self }
    }

    /// Counts prompts as they were sent, since they have markers.
    #[must_use]
    pub fn counting_bodies(self, counts_bodies: bool) -> Self {
        Self { counts_bodies, ..self }
    }

    /// Counts the input of bodies with messages with `chat`.
    #[must_use]
    pub fn counting_chats(self, chat: Arc<CountChat>) -> Self {
        Self { chat: Some(chat), ..self }
    }

    /// Parses the response of `record` and computes its values. The request failed if the
    /// status, the transport or the response indicates an error, checked in this order.
    ///
    /// If a response makes the client panic, for example in a tokenizer, the panic becomes the
    /// record's error, and other records are not affected.
    #[must_use]
    pub fn measure(&self, mut record: RequestRecord) -> MeasuredRecord {
        if record.grown.is_none() && record.turn.conversation >= self.dataset.conversations.len() {
            // The queue had written the record to its file, without its conversation.
            let growth = self.dataset.growth.as_ref();
            let again = growth.and_then(|growth| growth.make(record.turn.conversation));
            record.grown = again.map(Into::into);
        }
        let read = catch_unwind(AssertUnwindSafe(|| self.read(&record)));
        let (response, observation) = read.unwrap_or_else(|panic| {
            let response = ParsedResponse { error: Some(panicked(&*panic)), ..Default::default() };
            let values = RecordValues::default();
            let observation = self.observation(&record, response.error.clone(), None, values);
            (response, observation)
        });
        let is_text = self.is_text(&record, &response);
        let conversation = self.conversation(&record);
        let agent =
            conversation.and_then(|conversation| AgentCall::for_request(conversation, &record));
        MeasuredRecord { record, response, observation, is_text, agent }
    }

    fn read(&self, record: &RequestRecord) -> (ParsedResponse, Observation) {
        let mut response = self.parse(record);
        self.add_reports(record, &mut response);
        let error = failure(record, &response);
        let requested_output_tokens = self.shared.requested_tokens(record);
        let tokens = if self.registry.settings().use_server_token_count {
            reported_tokens(&response)
        } else {
            self.counted_tokens(record, &response)
        };
        let values = self.registry.compute(&Facts {
            record,
            response: &response,
            pieces: &by_choice(&response.content),
            error: error.as_ref(),
            input_tokens: tokens.input,
            output_tokens: tokens.output,
            reasoning_tokens: tokens.reasoning,
            requested_output_tokens,
            first_content_tokens: response
                .first_content_tokens
                .filter(|_| self.registry.settings().per_chunk_usage),
            known_blocks: self.turn(record).and_then(|turn| turn.known_blocks),
            images: self.media(record, MediaKinds::IMAGE).count() as u64,
            audio_seconds: audio_seconds(self.media(record, MediaKinds::AUDIO)),
        });
        let mut observation = self.observation(record, error, requested_output_tokens, values);
        if observation.error.is_none() && self.endpoint.traits().produces_tokens {
            let answered = Answered {
                payload: &record.payload,
                response: &response,
                output_tokens: tokens.output,
                requested_tokens: requested_output_tokens,
                is_stream: record.body.is_event_stream,
            };
            observation.output.faults = answered.faults();
        }
        self.compare_canary(record, &response, &mut observation);
        self.registry.judge_of_tenant(record.tenant.as_deref(), &mut observation);
        (response, observation)
    }

    fn observation(
        &self,
        record: &RequestRecord,
        error: Option<RequestError>,
        requested_output_tokens: Option<u64>,
        values: RecordValues,
    ) -> Observation {
        Observation {
            phase: record.phase,
            start_wall_ns: self.clock.wall_ns(record.start),
            end_wall_ns: self.clock.wall_ns(record.end),
            requested_output_tokens,
            missing_answers: self.missing_answers(record),
            output: Output { canary: self.canary(record), ..Output::default() },
            error,
            values,
        }
    }

    /// Returns the number of the canary that a request is, without its answer.
    fn canary(&self, record: &RequestRecord) -> Option<CanaryAnswer> {
        let index = self.dataset.canary(record.turn.conversation)?;
        Some(CanaryAnswer { number: number_of(index), ..CanaryAnswer::default() })
    }

    /// Compares the answer to a canary, if the request is one and has succeeded.
    fn compare_canary(
        &self,
        record: &RequestRecord,
        response: &ParsedResponse,
        observation: &mut Observation,
    ) {
        let index = self.dataset.canary(record.turn.conversation);
        let Some(index) = index.filter(|_| observation.error.is_none()) else { return };
        let text = &response.output_text;
        let (answer, is_wrong) = self.canaries.answer(index, text, self.counter.as_deref());
        let output = &mut observation.output;
        output.canary = Some(answer);
        if output.has_idle_answer() {
            // A text that the idle server gives too is what the model does by itself.
            output.faults = output.faults.of_delivery();
        }
        output.faults.set(Fault::CanaryWrong, is_wrong);
    }

    /// Parses the response, even if it is incomplete. Bodies of statuses other than 2xx are not
    /// parsed.
    fn parse(&self, record: &RequestRecord) -> ParsedResponse {
        let readable = record.status.map_or(record.error.is_none(), is_success);
        if readable { self.endpoint.parse(&record.body) } else { ParsedResponse::default() }
    }

    /// Adds the server's times from headers and spans, or removes those from the body.
    fn add_reports(&self, record: &RequestRecord, response: &mut ParsedResponse) {
        if !self.registry.settings().server_timing {
            response.server = None;
            return;
        }
        if !record.trace.report_headers.is_empty() {
            let server = response.server.get_or_insert_default();
            server.headers(&record.trace.report_headers, record.body.is_event_stream);
        }
        if !record.server_spans.is_empty() {
            response.server.get_or_insert_default().spans(&record.server_spans);
        }
    }

    /// Returns the conversation of a request.
    fn conversation<'a>(&'a self, record: &'a RequestRecord) -> Option<&'a Conversation> {
        let known = || self.dataset.conversations.get(record.turn.conversation);
        record.grown.as_deref().or_else(known)
    }

    fn turn<'a>(&'a self, record: &'a RequestRecord) -> Option<&'a Turn> {
        self.conversation(record)?.turn(record.turn.turn)
    }

    /// Returns whether the request and its response consist of text alone. This is not known of
    /// messages and bodies that are sent unchanged.
    fn is_text(&self, record: &RequestRecord, response: &ParsedResponse) -> bool {
        let traits = self.endpoint.traits();
        let speaks = response.usage.as_ref().and_then(|usage| usage.completion_audio_tokens);
        let is_plain = |turn: &Turn| {
            turn.media.is_empty() && turn.messages.is_none() && turn.raw_payload.is_none()
        };
        traits.produces_tokens
            && traits.tokenizes_input
            && speaks.is_none_or(|tokens| tokens == 0)
            && self.turns(record).all(is_plain)
    }

    /// Returns the media of a kind in the request.
    fn media<'a>(
        &'a self,
        record: &'a RequestRecord,
        kind: MediaKinds,
    ) -> impl Iterator<Item = &'a Media> {
        let media = self.turns(record).flat_map(|turn| &turn.media);
        media.filter(move |media| media.kind == kind)
    }

    /// Returns the turns in the request: its own, and those that it repeats.
    fn turns<'a>(&'a self, record: &'a RequestRecord) -> impl Iterator<Item = &'a Turn> {
        let turn = record.turn.turn;
        let found = self.conversation(record);
        let repeats = self.endpoint.traits().repeats_history;
        found.into_iter().flat_map(move |found| {
            let first = if repeats { found.repeated(turn).start } else { turn };
            found.turns_in(first..turn + 1)
        })
    }

    /// Returns the number of earlier responses that the request lacks.
    fn missing_answers(&self, record: &RequestRecord) -> u32 {
        let repeats = self.endpoint.traits().repeats_history
            && self.turn(record).is_some_and(|turn| turn.raw_payload.is_none());
        let Some(conversation) = self.repeating(record).filter(|_| repeats) else { return 0 };
        let missing = repeated_answers(conversation, record).filter(Option::is_none);
        u32::try_from(missing.count()).unwrap_or(u32::MAX)
    }

    /// Returns the conversation of a request, unless all its turns contain their history.
    fn repeating<'a>(&'a self, record: &'a RequestRecord) -> Option<&'a Conversation> {
        self.conversation(record).filter(|found| !found.standalone_turns)
    }

    /// Counts tokens with the client's tokenizer; `None` for an empty text.
    fn counted_tokens(&self, record: &RequestRecord, response: &ParsedResponse) -> Tokens {
        let count = |text: &str, starts: &[usize]| {
            let counter = self.counter.as_ref()?;
            (!text.is_empty()).then(|| choices(text, starts).map(|choice| counter(choice)).sum())
        };
        Tokens {
            input: self.counted_input(record),
            output: count(&response.output_text, &response.output_choices),
            reasoning: count(&response.reasoning_text, &response.reasoning_choices),
        }
    }

    /// Counts texts that are prefixed with the context, so that the body's texts differ from the
    /// turn's own. `None` without a context, or if the body is not JSON.
    fn joined_input(&self, record: &RequestRecord, conversation: &Conversation) -> Option<u64> {
        conversation.context_tokens.filter(|context| *context > 0)?;
        self.turn(record)?.input_tokens?;
        let counter = self.counter.as_ref()?;
        tokens_sent(&record.payload, |text| counter(text))
    }

    /// Counts the whole prompt. `None` if part of it is unknown.
    fn counted_input(&self, record: &RequestRecord) -> Option<u64> {
        if let Some(chat) = &self.chat
            && let Some(messages) = chat_messages(&record.payload)
        {
            return chat(&messages);
        }
        if self.counts_bodies
            && let Some(counter) = &self.counter
        {
            return tokens_sent(&record.payload, |text| counter(text));
        }
        let conversation = self.conversation(record)?;
        // Such a turn contains its whole history.
        let is_whole = self.turn(record)?.raw_payload.is_some() || conversation.standalone_turns;
        if is_whole {
            return lone_input(conversation, record.turn.turn);
        }
        if !self.endpoint.traits().repeats_history {
            let joined = self.joined_input(record, conversation);
            return joined.or_else(|| lone_input(conversation, record.turn.turn));
        }
        let first = conversation.repeated(record.turn.turn).start;
        let turns = conversation.turns_in(first..record.turn.turn + 1);
        let asked: u64 = turns.map(|turn| turn.input_tokens).sum::<Option<u64>>()?;
        let answers = || repeated_answers(conversation, record).flatten();
        let answered = if answers().next().is_none() {
            0
        } else {
            let counter = self.counter.as_ref()?;
            answers().map(|answer| counter(answer)).sum()
        };
        Some(conversation.context_tokens.unwrap_or(0) + asked + answered)
    }
}

/// Returns the responses that a request repeats, as far as there were any.
fn repeated_answers<'a>(
    conversation: &'a Conversation,
    record: &'a RequestRecord,
) -> impl Iterator<Item = Option<&'a Arc<str>>> {
    let first = conversation.repeated(record.turn.turn).start;
    let answers = record.earlier_answers.iter().skip(first);
    let turns = conversation.turns_in(first..conversation.len()).zip(answers);
    turns.filter(|(turn, _)| !turn.answer_is_recorded).map(|(_, answer)| answer.as_ref())
}

/// Counts a prompt of a single turn: the context and its texts. A body that is sent unchanged does
/// not contain the context.
fn lone_input(conversation: &Conversation, turn: usize) -> Option<u64> {
    let turn = conversation.turn(turn)?;
    let context = conversation.context_tokens.filter(|_| !turn.texts.is_empty()).unwrap_or(0);
    Some(context + turn.input_tokens?)
}

/// Returns the total duration in seconds; `None` without audio, or if a duration is unknown.
fn audio_seconds<'a>(media: impl Iterator<Item = &'a Media>) -> Option<f64> {
    let seconds: Option<Vec<f64>> = media.map(|media| media.seconds).collect();
    seconds.filter(|all| !all.is_empty()).map(|all| all.iter().sum())
}

/// Returns the pieces of each choice together, in their order.
fn by_choice(content: &[ContentPiece]) -> Cow<'_, [ContentPiece]> {
    if content.is_sorted_by_key(|piece| piece.choice) {
        return Cow::Borrowed(content);
    }
    let mut pieces = content.to_vec();
    pieces.sort_by_key(|piece| piece.choice);
    Cow::Owned(pieces)
}

fn failure(record: &RequestRecord, response: &ParsedResponse) -> Option<RequestError> {
    // A later request of a job; what the job is for was sent before.
    if let Some(told) = record.error.as_ref().filter(|error| error.code.is_some())
        && told.code == record.status
    {
        return Some(told.clone());
    }
    let refused = record.status.filter(|status| !is_success(*status)).map(|status| {
        http_error(status, record.trace.reason.as_deref(), &record.body.bytes)
            .because_of(record.error.as_ref())
    });
    refused.or_else(|| record.error.clone()).or_else(|| response.error.clone())
}

/// Returns the error of a record that made the client panic.
fn panicked(panic: &(dyn Any + Send)) -> RequestError {
    let words = panic.downcast_ref::<&str>().copied();
    let words = words.or_else(|| panic.downcast_ref::<String>().map(String::as_str));
    let message = format!(
        "the client failed to parse the response or to count its tokens: {}; other \
         requests are not affected",
        words.unwrap_or("unknown reason")
    );
    RequestError::new(ErrorKind::Other, "ProcessorPanic", message)
}

const fn is_success(status: u16) -> bool {
    status >= 200 && status < 300
}

/// Returns the counts that the server reports; absent if it does not.
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
