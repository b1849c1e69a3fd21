//! What metrics are computed from, and the values of a single request.

use super::MetricTag;
use crate::endpoint::{ParsedResponse, Usage};
use crate::record::{RequestError, RequestRecord};
use crate::schedule::PhaseKind;
use crate::units::Nanos;

/// A value in the metric's own unit.
#[derive(Debug, Clone, PartialEq)]
pub enum Value {
    /// One number.
    Scalar(f64),
    /// Several.
    List(Vec<f64>),
}

/// What record metrics are computed from.
#[derive(Debug, Clone, Copy)]
pub struct Facts<'a> {
    /// The request.
    pub record: &'a RequestRecord,
    /// Its response.
    pub response: &'a ParsedResponse,
    /// Why it failed, if it did: the transport's error or the response's.
    pub error: Option<&'a RequestError>,
    /// Tokens of the whole prompt: context, earlier turns and answers, this turn.
    pub input_tokens: Option<u64>,
    /// Tokens of the output text without reasoning.
    pub output_tokens: Option<u64>,
    /// Tokens of the reasoning text, where there was any.
    pub reasoning_tokens: Option<u64>,
    /// Output tokens that were asked for.
    pub requested_output_tokens: Option<u64>,
    /// Images that the request bears.
    pub images: u64,
    /// Seconds that its sound plays; `None` without any, or where one does not say it.
    pub audio_seconds: Option<f64>,
}

impl Facts<'_> {
    /// Nanoseconds from the request's start to the arrival of the `n`th piece of content.
    #[must_use]
    pub fn until_content(&self, n: usize) -> Option<f64> {
        self.response.content.get(n).map(|piece| self.since_start(piece.arrival))
    }

    /// Nanoseconds from the request's start to `at`.
    #[must_use]
    pub fn since_start(&self, at: Nanos) -> f64 {
        at.since(self.record.start).0 as f64
    }

    /// A field of the usage the server reported.
    #[must_use]
    pub fn usage(&self, field: fn(&Usage) -> Option<u64>) -> Option<f64> {
        self.response.usage.as_ref().and_then(field).map(|tokens| tokens as f64)
    }
}

/// The values of one request by metric, in order of computation: a metric comes
/// after those it requires.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct RecordValues {
    values: Vec<(&'static str, Value)>,
}

impl RecordValues {
    /// No values, with room for `count`.
    #[must_use]
    pub fn with_capacity(count: usize) -> Self {
        Self { values: Vec::with_capacity(count) }
    }

    /// Adds a value; the last one of a tag counts.
    pub fn push(&mut self, tag: MetricTag, value: Value) {
        self.values.push((tag, value));
    }

    /// The value of `tag`.
    #[must_use]
    pub fn get(&self, tag: &str) -> Option<&Value> {
        self.values.iter().rev().find(|(have, _)| *have == tag).map(|(_, value)| value)
    }

    /// The value of `tag`, if it is one number.
    #[must_use]
    pub fn scalar(&self, tag: &str) -> Option<f64> {
        match self.get(tag) {
            Some(Value::Scalar(value)) => Some(*value),
            _ => None,
        }
    }

    /// Every tag with its value.
    pub fn iter(&self) -> impl Iterator<Item = (MetricTag, &Value)> {
        self.values.iter().map(|(tag, value)| (*tag, value))
    }

    /// Drops the values of tags that `keep` refuses.
    pub fn retain(&mut self, keep: impl Fn(MetricTag) -> bool) {
        self.values.retain(|(tag, _)| keep(tag));
    }
}

/// What statistics need of a request: all of it is in its JSONL line, so that
/// results can be rebuilt from the file.
#[derive(Debug, Clone)]
pub struct Observation {
    /// Phase of the request.
    pub phase: PhaseKind,
    /// Wall time of its start, in nanoseconds since the epoch.
    pub start_wall_ns: u64,
    /// Wall time at which its response ended or it failed.
    pub end_wall_ns: u64,
    /// Output tokens that were asked for.
    pub requested_output_tokens: Option<u64>,
    /// Why it failed, if it did.
    pub error: Option<RequestError>,
    /// Its record metrics.
    pub values: RecordValues,
}

/// A request with everything that was found out about it.
#[derive(Debug, Clone)]
pub struct MeasuredRecord {
    /// As the transport saw it.
    pub record: RequestRecord,
    /// Its response, read.
    pub response: ParsedResponse,
    /// Its values.
    pub observation: Observation,
}
