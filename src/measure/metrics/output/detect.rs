//! Finds the faults that an output shows by itself.

use memchr::memmem;

use client::endpoint::{ParsedResponse, choices};

use super::{Fault, Faults, json, text};
use crate::metrics::finish_reason;

/// Fewest tokens of an output that is expected to arrive in several events.
const MANY_TOKENS: u64 = 32;

/// Least share of the minimum length that an output has, since client and server may count differently.
const ENOUGH: f64 = 0.9;

/// A request that succeeded, and what the server answered.
pub(in crate::metrics) struct Answered<'a> {
    /// The body of the request.
    pub(in crate::metrics) payload: &'a [u8],
    pub(in crate::metrics) response: &'a ParsedResponse,
    /// Tokens of the output without reasoning, as the results count them.
    pub(in crate::metrics) output_tokens: Option<u64>,
    /// Most output tokens that were requested.
    pub(in crate::metrics) requested_tokens: Option<u64>,
    /// Whether the response is an event stream.
    pub(in crate::metrics) is_stream: bool,
}

impl Answered<'_> {
    /// Returns the faults that the output shows by itself.
    pub(in crate::metrics) fn faults(&self) -> Faults {
        let Self { response, is_stream, .. } = self;
        let tokens = self.output_tokens.unwrap_or(0);
        let mut faults = Faults::default();
        faults.set(Fault::AfterEnd, response.has_content_after_end);
        faults.set(Fault::EndedEarly, self.ended_early());
        let is_one_event = *is_stream && response.content.len() == 1;
        faults.set(Fault::SingleEvent, is_one_event && tokens >= MANY_TOKENS);
        let has_invalid_call = response.tool_calls.invalid > 0 && !self.is_cut();
        faults.set(Fault::InvalidToolArguments, has_invalid_call);
        let output = &response.output_text;
        faults.set(Fault::Blank, !output.is_empty() && output.trim().is_empty());
        faults.set(Fault::InvalidJson, self.is_invalid_json());
        faults.union(self.of_texts())
    }

    /// Returns what is wrong with the text of any choice, or with its reasoning.
    fn of_texts(&self) -> Faults {
        let Self { payload, response, .. } = self;
        let answers = self.answers().map(|text| text::faults_of_answer(text, payload));
        let reasoning = choices(&response.reasoning_text, &response.reasoning_choices)
            .map(|text| text::faults_of_reasoning(text, payload));
        answers.chain(reasoning).fold(Faults::default(), Faults::union)
    }

    /// Returns the output of each choice.
    fn answers(&self) -> impl Iterator<Item = &str> {
        choices(&self.response.output_text, &self.response.output_choices)
    }

    /// Returns whether an output is something else than the JSON that the request asks for, although
    /// it is complete and no tool is called.
    fn is_invalid_json(&self) -> bool {
        let ParsedResponse { tool_calls, finish_reasons, .. } = self.response;
        let is_whole = !finish_reasons.is_empty()
            && finish_reasons.iter().all(|reason| finish_reason::is_complete(reason));
        is_whole && tool_calls.count == 0 && json::is_wrong(self.answers(), self.payload)
    }

    /// Returns whether a limit on tokens ended an output.
    fn is_cut(&self) -> bool {
        self.response.finish_reasons.iter().any(|reason| finish_reason::is_limit(reason))
    }

    /// Returns whether the output has fewer tokens than the request asked for at least, although no stop
    /// sequence may end it.
    fn ended_early(&self) -> bool {
        let ParsedResponse { usage, finish_reasons, .. } = self.response;
        // Before the body is searched.
        if finish_reasons.is_empty() || self.is_cut() {
            return false;
        }
        let of_server = usage.as_ref().and_then(|usage| usage.completion_tokens);
        let tokens = of_server.or(self.output_tokens).zip(self.least_tokens());
        tokens.is_some_and(|(tokens, least)| (tokens as f64) < ENOUGH * least as f64)
    }

    /// Returns how many tokens the request asks for at least.
    fn least_tokens(&self) -> Option<u64> {
        // In a text, the quotation marks would be escaped.
        if memmem::find(self.payload, b"\"stop\":").is_some() {
            return None;
        }
        if memmem::find(self.payload, b"\"ignore_eos\":true").is_some() {
            return self.requested_tokens;
        }
        let name = b"\"min_tokens\":";
        let at = memmem::find(self.payload, name)? + name.len();
        let digits = self.payload.get(at..)?.iter().take_while(|byte| byte.is_ascii_digit());
        digits.take(9).try_fold(0, |number: u64, digit| Some(number * 10 + u64::from(digit - b'0')))
    }
}

#[cfg(test)]
mod tests;
