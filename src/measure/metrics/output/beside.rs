//! Finds the faults that an output shows only beside those of other requests.

use std::collections::HashMap;
use std::hash::{BuildHasher, Hash, Hasher};
use std::mem;

use foldhash::fast::FixedState;

use client::endpoint::ParsedResponse;
use dataset::CacheBust;

use super::{Fault, Faults};
use crate::metrics::metric::MeasuredRecord;
use crate::metrics::tag;

/// Number of requests of which is known what their prompts and outputs are, at least.
const REMEMBERED: usize = 1 << 17;

/// Shortest output, in bytes, that two prompts hardly have in common by chance.
const LONG: usize = 64;

/// Bytes at the beginning and at the end of a body by which prompts are told apart.
const BEGINNING: usize = 1 << 10;
const END: usize = 1 << 12;

/// Number of outputs from which it is learned how client and server count tokens.
const LEARNED: usize = 64;

/// Fewest tokens of an output whose counts are compared, and least difference between them.
const FEWEST_TOKENS: f64 = 16.0;
const LEAST_DIFFERENCE: f64 = 8.0;

/// Least factor by which counts differ from how they usually do, and how many times as much as those of
/// nearly all.
const LEAST_FACTOR: f64 = 1.35;
const DEVIATIONS: f64 = 2.0;

/// Number of the first outputs whose counts may be wrong.
const WRONG: usize = 2;

/// The requests so far, by which outputs are compared.
#[derive(Debug)]
pub struct Outputs {
    hasher: FixedState,
    /// Whether each session has a marker in its prompts.
    has_markers: bool,
    /// For each output, the conversation and the prompt of the first request that had it.
    answers: Recent<(usize, u64)>,
    /// The markers of prompts.
    markers: Recent<()>,
    /// The markers in outputs of other requests than theirs.
    leaked: Recent<()>,
    counts: TokenCounts,
}

impl Outputs {
    /// Creates what compares outputs of prompts with the markers of `cache_bust`; token counts are
    /// compared if the client `counts_tokens` itself.
    #[must_use]
    pub fn new(cache_bust: CacheBust, counts_tokens: bool) -> Self {
        Self {
            hasher: FixedState::default(),
            has_markers: cache_bust.marks_sessions(),
            answers: Recent::default(),
            markers: Recent::default(),
            leaked: Recent::default(),
            counts: TokenCounts { is_learning: counts_tokens, ..TokenCounts::default() },
        }
    }

    /// Returns the faults of a request beside those before it.
    pub fn faults(&mut self, measured: &MeasuredRecord) -> Faults {
        let mut faults = Faults::default();
        if self.has_markers {
            self.compare_markers(measured, &mut faults);
        }
        if measured.observation.error.is_none() && !measured.observation.output.has_idle_answer() {
            faults.set(Fault::SameAnswer, self.is_anothers(measured));
            let counts = counts(measured);
            let is_unusual = counts.is_some_and(|[text, told]| self.counts.is_unusual(text, told));
            faults.set(Fault::UsageContradictsText, is_unusual);
        }
        faults
    }

    /// Finds markers of other requests in the output, and its own in earlier outputs.
    fn compare_markers(&mut self, measured: &MeasuredRecord, faults: &mut Faults) {
        let payload = &*measured.record.payload;
        for own in CacheBust::markers(payload) {
            self.markers.insert(own, ());
            faults.set(Fault::Leaked, self.leaked.get(own).is_some());
        }
        let ParsedResponse { output_text, reasoning_text, .. } = &measured.response;
        let texts = [output_text, reasoning_text];
        for found in texts.into_iter().flat_map(|text| CacheBust::markers(text.as_bytes())) {
            if CacheBust::markers(payload).all(|own| own != found) {
                self.leaked.insert(found, ());
                // A model may also invent one.
                faults.set(Fault::Crosstalk, self.markers.get(found).is_some());
            }
        }
    }

    /// Returns whether an earlier request with another prompt had the same output.
    fn is_anothers(&mut self, measured: &MeasuredRecord) -> bool {
        let output = &measured.response.output_text;
        if output.len() < LONG {
            return false;
        }
        let conversation = measured.record.turn.conversation;
        let prompt = self.prompt(&measured.record.payload);
        let answer = self.hasher.hash_one(output);
        if let Some((other, same)) = self.answers.get(answer) {
            return *other != conversation && *same != prompt;
        }
        self.answers.insert(answer, (conversation, prompt));
        false
    }

    /// Returns what tells prompts apart.
    fn prompt(&self, payload: &[u8]) -> u64 {
        let mut hasher = self.hasher.build_hasher();
        payload.len().hash(&mut hasher);
        payload[..payload.len().min(BEGINNING)].hash(&mut hasher);
        payload[payload.len().saturating_sub(END)..].hash(&mut hasher);
        hasher.finish()
    }
}

/// Returns the tokens of the text and those that the server reports, if they can be compared. Calls of tools
/// have tokens that are not in the text. A text with loops or replacement characters has other tokens than the
/// model made it of.
fn counts(measured: &MeasuredRecord) -> Option<[f64; 2]> {
    let MeasuredRecord { response, observation, .. } = measured;
    let faults = observation.output.faults;
    let is_unlike = [Fault::Repetition, Fault::ReplacementCharacters]
        .into_iter()
        .any(|fault| faults.contains(fault));
    let is_comparable = response.tool_calls.count == 0 && !is_unlike;
    let told = response.usage?.completion_tokens.filter(|_| is_comparable)?;
    let text = observation.values.scalar(tag::OUTPUT_SEQUENCE_LENGTH)?;
    Some([text, told as f64])
}

/// How the client's counts of tokens differ from the server's, as logarithms of their ratio.
#[derive(Debug, Default)]
struct TokenCounts {
    is_learning: bool,
    first: Vec<f64>,
    /// How they usually differ, and by how much more they may.
    usual: Option<[f64; 2]>,
}

impl TokenCounts {
    /// Returns whether a text's tokens and those that the server `told` differ more than they usually do.
    fn is_unusual(&mut self, text: f64, told: f64) -> bool {
        if text.max(told) < FEWEST_TOKENS {
            return false;
        }
        let ratio = (told.max(1.0) / text.max(1.0)).ln();
        if let Some([usual, most]) = self.usual {
            let expected = text * usual.exp();
            return (ratio - usual).abs() > most && (told - expected).abs() >= LEAST_DIFFERENCE;
        }
        if self.is_learning {
            self.first.push(ratio);
            if self.first.len() == LEARNED {
                self.usual = Some(learned(mem::take(&mut self.first)));
            }
        }
        false
    }
}

/// Returns the median of `ratios`, and how far others may be from it.
fn learned(mut ratios: Vec<f64>) -> [f64; 2] {
    ratios.sort_unstable_by(f64::total_cmp);
    let usual = ratios[ratios.len() / 2];
    let mut deviations: Vec<f64> = ratios.iter().map(|ratio| (ratio - usual).abs()).collect();
    deviations.sort_unstable_by(f64::total_cmp);
    let most = deviations[deviations.len() - 1 - WRONG];
    [usual, LEAST_FACTOR.ln().max(DEVIATIONS * most)]
}

/// The latest entries, at least [`REMEMBERED`] of them and at most twice as many.
#[derive(Debug)]
struct Recent<V> {
    latest: HashMap<u64, V, FixedState>,
    before: HashMap<u64, V, FixedState>,
}

impl<V> Default for Recent<V> {
    fn default() -> Self {
        Self { latest: HashMap::default(), before: HashMap::default() }
    }
}

impl<V> Recent<V> {
    fn get(&self, key: u64) -> Option<&V> {
        self.latest.get(&key).or_else(|| self.before.get(&key))
    }

    fn insert(&mut self, key: u64, value: V) {
        if self.latest.len() == REMEMBERED {
            self.before = mem::take(&mut self.latest);
        }
        self.latest.insert(key, value);
    }
}

#[cfg(test)]
mod tests;
