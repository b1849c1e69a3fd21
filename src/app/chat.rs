//! `aiperf chat`: sends messages one by one, and prints each response with its speed.

use std::io::{self, BufRead, IsTerminal as _, Read as _, Write};
use std::sync::Arc;

use anyhow::{Context as _, bail};
use tokio::runtime;
use uuid::Uuid;

use base::redact;
use base::units::Nanos;
use client::endpoint::{self, Endpoint, ParsedResponse, http_error};
use client::record::{Arrival, RequestError, ResponseBody, SseEvent};
use client::runner::RequestBuilder;
use client::transport::{
    Client, Connector, Notifications, OutgoingRequest, SessionConnection, Target,
};
use dataset::{Conversation, Turn};
use results::terminal::Stderr;
use tokens::tokenizer::TokenCounter;

use super::outcome::Outcome;
use super::profile::counter;
use crate::cli::Chat;
use crate::config::{RunConfig, url as urls};

/// Maximum length of a message in bytes.
const MAX_MESSAGE: u64 = 1 << 20;

/// Chats until there are no more messages.
pub(super) fn chat(asked: Chat, out: &mut impl Write) -> anyhow::Result<Outcome> {
    let Chat { config, system_prompt, message, has_history, max_tokens } = asked;
    let mut chat = Session::new(&config, system_prompt, has_history, max_tokens)?;
    if let Some(message) = message {
        chat.say(&message, out)?;
        return Ok(Outcome::Done);
    }
    let is_terminal = io::stdin().is_terminal();
    let mut failed = false;
    loop {
        if is_terminal {
            write!(Stderr, "> ")?;
        }
        let Some(message) = read_message(&mut io::stdin().lock())? else {
            return Ok(if failed { Outcome::Failed } else { Outcome::Done });
        };
        match message.trim() {
            "" => {}
            "exit" | "quit" | "/exit" | "/quit" => return Ok(Outcome::Done),
            message => {
                // The next message may succeed.
                if let Err(error) = chat.say(message, out) {
                    failed = true;
                    let text = redact::printable_lines(&format!("{error:#}"));
                    writeln!(Stderr, "error: {text}")?;
                }
            }
        }
    }
}

/// Reads a line of limited length; `None` at the end.
fn read_message(input: &mut impl BufRead) -> anyhow::Result<Option<String>> {
    let mut line = String::new();
    input.take(MAX_MESSAGE + 1).read_line(&mut line).context("cannot read the message")?;
    if line.len() as u64 > MAX_MESSAGE {
        bail!("a message may have at most {MAX_MESSAGE} bytes; send a longer one with --message");
    }
    Ok((!line.is_empty()).then_some(line))
}

/// A chat with a server.
struct Session {
    runtime: runtime::Runtime,
    client: Client,
    endpoint: Arc<dyn Endpoint>,
    builder: RequestBuilder,
    connection: SessionConnection,
    counter: TokenCounter,
    model: Arc<str>,
    max_tokens: Option<u32>,
    has_history: bool,
    id: Uuid,
    conversation: Conversation,
    /// The response to each turn of the conversation.
    answers: Vec<Option<Arc<str>>>,
}

impl Session {
    fn new(
        config: &RunConfig,
        system_prompt: Option<String>,
        has_history: bool,
        max_tokens: Option<u32>,
    ) -> anyhow::Result<Self> {
        let endpoint = endpoint::build(&config.endpoint);
        let traits = endpoint.traits();
        let model: Arc<str> = config.dataset.models.first().map_or("", String::as_str).into();
        let base = config.server.urls.first().context("--url is missing")?;
        let target = Target::new(urls::join(base, &config.endpoint.path(&model)).expose())?;
        let key = config.server.api_key.as_ref().map(|key| key.expose().as_str());
        let builder = RequestBuilder::new(traits, true, key, &config.server.headers)?;
        let connector = Connector::new(config.transport.clone(), &[target])?;
        Ok(Self {
            runtime: runtime::Builder::new_current_thread().enable_all().build()?,
            client: Client::new(Arc::new(connector)),
            endpoint,
            builder,
            connection: SessionConnection::default(),
            counter: counter(config)?,
            model,
            max_tokens,
            has_history,
            id: Uuid::new_v4(),
            conversation: Conversation {
                system: system_prompt.map(Into::into),
                ..Conversation::default()
            },
            answers: Vec::new(),
        })
    }

    /// Sends `message` and prints the response as it arrives, and then its speed.
    fn say(&mut self, message: &str, out: &mut impl Write) -> anyhow::Result<()> {
        if !self.has_history {
            self.conversation.turns.clear();
            self.answers.clear();
        }
        self.conversation.turns.push(Turn {
            model: Arc::clone(&self.model),
            texts: vec![message.into()],
            max_tokens: self.max_tokens,
            ..Turn::default()
        });
        let said = self.exchange(out);
        match &said {
            Ok(text) => self.answers.push(Some(text.as_str().into())),
            // It is not part of the history.
            Err(_) => drop(self.conversation.turns.pop()),
        }
        said.map(drop)
    }

    /// Sends the last turn. Returns the text of the response.
    fn exchange(&mut self, out: &mut impl Write) -> anyhow::Result<String> {
        let turn = self.conversation.turns.len().saturating_sub(1);
        let body = self.endpoint.request_body(&self.conversation, turn, &self.answers);
        let headers = self.builder.request(Uuid::new_v4(), self.id);
        let request = OutgoingRequest {
            target: 0,
            method: http::Method::POST,
            path: None,
            headers: &headers,
            body: body.into(),
        };
        let mut shown = Ok(());
        let endpoint = Arc::clone(&self.endpoint);
        let mut show = |event: &[u8]| {
            let response = endpoint.parse(&of_event(event));
            let text = [response.reasoning_text, response.output_text].concat();
            shown = out.write_all(redact::printable_lines(&text).as_bytes());
            shown = std::mem::replace(&mut shown, Ok(())).and_then(|()| out.flush());
            shown.is_err()
        };
        let watch = Notifications { event: Some(Box::new(&mut show)), ..Notifications::default() };
        let never = std::future::pending();
        let exchange =
            self.runtime.block_on(self.client.exchange(&request, &self.connection, watch, never));
        shown?;
        if let Some(error) = exchange.error {
            return Err(failure(&error));
        }
        if let Some(status) = exchange.status.filter(|status| !(200..300).contains(status)) {
            return Err(failure(&http_error(status, None, &exchange.body.bytes)));
        }
        let response = self.endpoint.parse(&exchange.body);
        if !exchange.body.is_event_stream {
            write!(out, "{}", redact::printable_lines(&response.output_text))?;
        }
        writeln!(out)?;
        if let Some(error) = &response.error {
            return Err(failure(error));
        }
        let speed = Speed::measure(&response, exchange.start, exchange.end, &self.counter);
        writeln!(out, "[{}]", speed.shown())?;
        Ok(response.output_text)
    }
}

fn failure(error: &RequestError) -> anyhow::Error {
    anyhow::anyhow!("{}: {}", error.name, error.message)
}

/// Returns a stream of one event.
fn of_event(event: &[u8]) -> ResponseBody {
    ResponseBody {
        bytes: event.to_vec(),
        is_event_stream: true,
        events: vec![SseEvent { arrival: Arrival::default(), start: 0, end: event.len() as u32 }],
    }
}

/// How fast a response was.
#[derive(Debug, PartialEq)]
struct Speed {
    /// From the start of the request to the first content.
    first: Option<Nanos>,
    /// From the start of the request to the end of the response.
    whole: Nanos,
    /// Output tokens, with reasoning.
    tokens: u64,
    /// From the first content to the last one.
    decoding: Nanos,
}

impl Speed {
    /// Tokens are those that the server reports, or else counted.
    fn measure(
        response: &ParsedResponse,
        start: Nanos,
        end: Nanos,
        counter: &TokenCounter,
    ) -> Self {
        let reported = response.usage.as_ref().and_then(|usage| usage.completion_tokens);
        let estimate =
            || counter.count(&response.output_text) + counter.count(&response.reasoning_text);
        let at = |piece: Option<&endpoint::ContentPiece>| piece.map(|piece| piece.arrival.at);
        let (first, last) = (at(response.content.first()), at(response.content.last()));
        Self {
            first: first.map(|first| first.since(start)),
            whole: end.since(start),
            tokens: reported.unwrap_or_else(estimate),
            decoding: first.zip(last).map(|(first, last)| last.since(first)).unwrap_or_default(),
        }
    }

    fn shown(&self) -> String {
        let first = self.first.map(|first| format!("TTFT {:.1} ms", first.as_millis()));
        let tokens = format!("{} tokens", self.tokens);
        // The first token is not decoded in that time.
        let seconds = self.decoding.as_seconds();
        let rate = (self.tokens > 1 && seconds > 0.0)
            .then(|| format!("{:.1} tok/s", (self.tokens - 1) as f64 / seconds));
        let whole = format!("latency {:.1} ms", self.whole.as_millis());
        let parts: Vec<String> =
            first.into_iter().chain([tokens]).chain(rate).chain([whole]).collect();
        parts.join(", ")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_rate_is_that_after_the_first_token() {
        let speed = Speed {
            first: Some(Nanos(50_000_000)),
            whole: Nanos(1_100_000_000),
            tokens: 101,
            decoding: Nanos(1_000_000_000),
        };
        assert_eq!(speed.shown(), "TTFT 50.0 ms, 101 tokens, 100.0 tok/s, latency 1100.0 ms");
        let none = Speed { first: None, tokens: 1, ..speed };
        assert_eq!(none.shown(), "1 tokens, latency 1100.0 ms");
    }

    #[test]
    fn messages_are_lines_of_limited_length() {
        let mut input = io::Cursor::new(b"one\ntwo".as_slice());
        assert_eq!(read_message(&mut input).unwrap().unwrap(), "one\n");
        assert_eq!(read_message(&mut input).unwrap().unwrap(), "two");
        assert_eq!(read_message(&mut input).unwrap(), None);
        let long = "x".repeat(MAX_MESSAGE as usize + 1);
        assert!(read_message(&mut io::Cursor::new(long)).is_err());
    }
}
