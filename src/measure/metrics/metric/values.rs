//! The input of record metrics, and the values of a request.

use crate::metrics::output::Output;
use base::units::Nanos;
use client::endpoint::{ContentPiece, ParsedResponse, Usage};
use client::record::{RequestError, RequestRecord};
use client::schedule::PhaseKind;
use dataset::KnownBlocks;

use crate::metrics::agent::AgentCall;
use crate::metrics::tag::{MetricTag, TagSet};

/// A value in the metric's own unit.
#[derive(Debug, Clone, PartialEq)]
pub enum Value {
    /// One number.
    Scalar(f64),
    /// Several.
    List(Vec<f64>),
}

/// The input of record metrics.
#[derive(Debug, Clone, Copy)]
pub struct Facts<'a> {
    pub record: &'a RequestRecord,
    pub response: &'a ParsedResponse,
    /// Its pieces of content, those of each choice together.
    pub pieces: &'a [ContentPiece],
    /// The error of the transport or the response, if the request failed.
    pub error: Option<&'a RequestError>,
    /// Tokens of the whole prompt: context, earlier turns and responses, and this turn.
    pub input_tokens: Option<u64>,
    /// Tokens of the output text without reasoning.
    pub output_tokens: Option<u64>,
    /// Tokens of the reasoning text, if there was any.
    pub reasoning_tokens: Option<u64>,
    pub requested_output_tokens: Option<u64>,
    /// Tokens of the first content event, if the server was asked to report them.
    pub first_content_tokens: Option<u64>,
    /// The part of the prompt that a prefix cache that keeps everything would find, if the dataset has blocks.
    pub known_blocks: Option<KnownBlocks>,
    /// Number of images in the request.
    pub images: u64,
    /// Duration of the audio in seconds; `None` without audio, or if a duration is unknown.
    pub audio_seconds: Option<f64>,
}

impl Facts<'_> {
    /// Returns the pieces of content of each choice that has any.
    pub fn choices(&self) -> impl Iterator<Item = &[ContentPiece]> {
        self.pieces.chunk_by(|one, next| one.choice == next.choice)
    }

    /// Returns a time of the request: the mean of `time` in nanoseconds over its choices, of which most
    /// requests have one, without those that do not have it.
    #[must_use]
    pub(crate) fn mean_of_choices(
        &self,
        time: impl Fn(&[ContentPiece]) -> Option<f64>,
    ) -> Option<f64> {
        let (sum, count) = self
            .choices()
            .filter_map(time)
            .fold((0.0, 0.0), |(sum, count), time| (sum + time, count + 1.0));
        (count > 0.0).then(|| sum / count)
    }

    /// Returns the nanoseconds from the request's start to its first content event.
    #[must_use]
    pub(crate) fn until_first_content(&self) -> Option<f64> {
        self.mean_of_choices(|pieces| Some(self.since_start(pieces.first()?.arrival.at)))
    }

    /// Returns the nanoseconds from the request's start to `at`.
    #[must_use]
    pub(crate) fn since_start(&self, at: Nanos) -> f64 {
        at.since(self.record.start).0 as f64
    }

    /// Returns a field of the usage that the server reported.
    #[must_use]
    pub fn usage(&self, field: fn(&Usage) -> Option<u64>) -> Option<f64> {
        self.response.usage.as_ref().and_then(field).map(|tokens| tokens as f64)
    }
}

/// The values of one request, by metric: those that it has, in order of computation.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct RecordValues {
    tags: TagSet,
    values: Vec<Value>,
}

impl RecordValues {
    /// Creates values of nothing, with room for those of `metrics` metrics.
    pub fn with_capacity(metrics: usize) -> Self {
        Self { tags: TagSet::default(), values: Vec::with_capacity(metrics) }
    }

    /// Sets the value of `tag`.
    pub fn set(&mut self, tag: MetricTag, value: Value) {
        let at = self.tags.rank(tag);
        match self.values.get_mut(at) {
            Some(present) if self.tags.contains(tag) => *present = value,
            _ => {
                self.tags.insert(tag);
                self.values.insert(at, value);
            }
        }
    }

    /// Returns the value of `tag`.
    #[must_use]
    pub fn get(&self, tag: MetricTag) -> Option<&Value> {
        if self.tags.contains(tag) { self.values.get(self.tags.rank(tag)) } else { None }
    }

    /// Returns the value of `tag`, if it is a single number.
    #[must_use]
    pub fn scalar(&self, tag: MetricTag) -> Option<f64> {
        match self.get(tag) {
            Some(Value::Scalar(value)) => Some(*value),
            _ => None,
        }
    }

    /// Iterates over the tags with a value, in order of computation.
    pub fn iter(&self) -> impl Iterator<Item = (MetricTag, &Value)> {
        self.tags.iter().zip(&self.values)
    }

    /// Removes the value of `tag`.
    pub fn remove(&mut self, tag: MetricTag) {
        if self.tags.contains(tag) {
            self.values.remove(self.tags.rank(tag));
            self.tags.remove(tag);
        }
    }
}

/// The part of a request that statistics need. All of it is in the JSONL line, so that results
/// can be recomputed from the file.
#[derive(Debug, Clone)]
pub struct Observation {
    /// The request's phase.
    pub phase: PhaseKind,
    /// Wall time of its start, in nanoseconds since the Unix epoch.
    pub start_wall_ns: u64,
    /// Wall time at which its response ended or it failed, in the same unit.
    pub end_wall_ns: u64,
    /// Output tokens that were requested.
    pub requested_output_tokens: Option<u64>,
    /// Number of earlier responses of its session that it should have repeated but are missing
    /// because their turns failed.
    pub missing_answers: u32,
    /// What is known of its output besides its metrics.
    pub output: Output,
    /// The error, if it failed.
    pub error: Option<RequestError>,
    /// Its record metrics.
    pub values: RecordValues,
}

/// A measured request.
#[derive(Debug, Clone)]
pub struct MeasuredRecord {
    /// The request as recorded by the transport.
    pub record: RequestRecord,
    /// The parsed response.
    pub response: ParsedResponse,
    /// Its values.
    pub observation: Observation,
    /// Whether request and response consist of text alone; false if this is not known.
    pub is_text: bool,
    /// Its place in the work of an agent, if it has one.
    pub agent: Option<AgentCall>,
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::metrics::tag::TagMap;

    proptest! {
        /// A table with a place for every metric says the same.
        #[test]
        fn values_are_those_that_were_set_last(
            steps in prop::collection::vec((0..MetricTag::COUNT, any::<bool>(), any::<u16>()), 0..200),
        ) {
            let (mut values, mut table) = (RecordValues::default(), TagMap::default());
            for (slot, is_set, number) in steps {
                let tag = MetricTag::in_slot(slot);
                let value = Value::Scalar(number.into());
                if is_set {
                    values.set(tag, value.clone());
                    table.insert(tag, value);
                } else {
                    values.remove(tag);
                    *table.slot_mut(tag) = None;
                }
                prop_assert_eq!(values.get(tag), table.get(tag));
            }
            let tags = || (0..MetricTag::COUNT).map(MetricTag::in_slot);
            prop_assert!(tags().all(|tag| values.get(tag) == table.get(tag)));
            let set: Vec<_> = tags().filter_map(|tag| Some((tag, table.get(tag)?))).collect();
            prop_assert_eq!(values.iter().collect::<Vec<_>>(), set);
        }
    }
}
