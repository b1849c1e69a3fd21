//! What the server does: sizes, times and faults, and the text they are written in.

mod fault;

use std::str::FromStr;

use super::MockServerError;
use crate::units::Nanos;

pub use self::fault::{Fault, FaultRule, JobFault, Selector};

/// What the server answers, and when. The default answers at once, without faults.
#[derive(Debug, Clone, PartialEq)]
pub struct Script {
    /// Models that `/v1/models` lists; the first labels the server's metrics.
    pub models: Vec<String>,
    /// Whether a model that is not listed gets a 404; otherwise any name is accepted.
    pub strict_models: bool,
    /// From a request's admission to its first token.
    pub ttft: Nanos,
    /// From one chunk of tokens to the next.
    pub itl: Nanos,
    /// How far each chunk strays from its due time; one chunk's does not move the next.
    pub jitter: Jitter,
    /// Decides texts, ids, embeddings and jitter.
    pub seed: u64,
    /// Tokens generated when a request names no limit. A named limit is generated in full.
    pub output_tokens: u64,
    /// Tokens in one event of a stream.
    pub tokens_per_chunk: u64,
    /// How many of the generated tokens are reasoning, sent before the rest, where a dialect has it.
    pub reasoning_tokens: u64,
    /// Whether usage is told: in streams when asked for, otherwise always.
    pub usage: bool,
    /// Length of an embedding.
    pub embedding_dimensions: usize,
    /// How many requests run at once; the rest wait in order of arrival.
    pub max_concurrent: Option<usize>,
    /// Tokens that the pretended key-value cache holds.
    pub kv_cache_tokens: u64,
    /// What goes wrong: the first rule that selects a request applies.
    pub faults: Vec<FaultRule>,
}

impl Default for Script {
    fn default() -> Self {
        Self {
            models: vec!["mock-model".to_owned()],
            strict_models: false,
            ttft: Nanos::ZERO,
            itl: Nanos::ZERO,
            jitter: Jitter::None,
            seed: 0,
            output_tokens: 64,
            tokens_per_chunk: 1,
            reasoning_tokens: 0,
            usage: true,
            embedding_dimensions: 64,
            max_concurrent: None,
            kv_cache_tokens: 131_072,
            faults: Vec::new(),
        }
    }
}

impl Script {
    /// Reads one rule, written `SELECTOR:FAULT`.
    ///
    /// Selectors count the inference requests in order of arrival, from 1:
    /// `all`, `every=N`, `first=N`, `requests=N,N,…`.
    ///
    /// | fault | effect |
    /// |---|---|
    /// | `status=CODE[,BODY]` | answers at once with this status |
    /// | `cut=EVENTS` | closes the connection after so many content events |
    /// | `cut-mid=EVENTS` | the same, with half of the next event sent |
    /// | `garbage=EVENT` | this content event (from 0) is broken JSON |
    /// | `empty` | a 200 stream of nothing but its end, as `[DONE]` is one |
    /// | `no-done` | a stream that lacks what says that it ends, as `[DONE]` does |
    /// | `error=EVENTS` | an `error` event after so many content events |
    /// | `hang` | never answers |
    /// | `close` | closes the connection without an answer |
    /// | `drip=DURATION` | one byte at a time, with this pause between |
    /// | `close-after-each` | announces keep-alive, closes after the answer |
    /// | `job=failed`, `job=never`, `job=odd` | a job fails, goes on for ever, or has a status of no sense |
    /// | `stall=EVENT,DURATION` | this step of the schedule (from 0) and later ones are held back |
    pub fn parse_fault(rule: &str) -> Result<FaultRule, MockServerError> {
        rule.parse()
    }

    /// Holds what the server relies on; says which field is wrong.
    pub(super) fn check(&self) -> Result<(), MockServerError> {
        let problem = if self.models.is_empty() {
            "names no model; name at least one"
        } else if self.tokens_per_chunk == 0 {
            "has chunks of 0 tokens; use at least 1"
        } else if self.max_concurrent == Some(0) {
            "lets 0 requests run; use at least 1, or no limit"
        } else if self.max_concurrent.is_some_and(|n| n > MAX_CONCURRENT) {
            "lets more requests run than can be counted; leave the limit out"
        } else if self.embedding_dimensions == 0 || self.embedding_dimensions > MAX_DIMENSIONS {
            "needs an embedding length from 1 to 65536"
        } else {
            return Ok(());
        };
        Err(MockServerError::Script { problem })
    }

    /// The fault for the request that was the `arrival`th, counted from 1.
    pub(super) fn fault_for(&self, arrival: u64) -> Option<&Fault> {
        self.faults.iter().find(|rule| rule.selector.selects(arrival)).map(|rule| &rule.fault)
    }
}

/// What a semaphore can count, on any platform.
const MAX_CONCURRENT: usize = 1 << 28;
const MAX_DIMENSIONS: usize = 65_536;

/// How far an event strays from its due time.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub enum Jitter {
    /// Not at all.
    #[default]
    None,
    /// Uniformly, by up to this fraction of `ttft` for the first event and of `itl` for the rest.
    Fraction(f64),
    /// Normally, with this standard deviation.
    StdDev(Nanos),
}

impl FromStr for Jitter {
    type Err = MockServerError;

    /// `10%` or `0.1` is a fraction, `2ms` a standard deviation.
    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let problem = || MockServerError::Jitter { text: text.to_owned() };
        let fraction = match text.strip_suffix('%') {
            Some(percent) => percent.parse::<f64>().map_err(|_| problem())? / 100.0,
            None => match text.parse::<f64>() {
                Ok(fraction) => fraction,
                Err(_) => return parse_duration(text).map(Self::StdDev).map_err(|_| problem()),
            },
        };
        if fraction == 0.0 {
            Ok(Self::None)
        } else if (0.0..=1.0).contains(&fraction) {
            Ok(Self::Fraction(fraction))
        } else {
            Err(problem())
        }
    }
}

/// Units of [`parse_duration`] and their lengths in nanoseconds, longer suffixes first.
const UNITS: [(&str, f64); 4] = [("ns", 1.0), ("us", 1e3), ("ms", 1e6), ("s", 1e9)];

/// Reads a duration: a number and `ns`, `us`, `ms` or `s`. Zero needs no unit.
pub fn parse_duration(text: &str) -> Result<Nanos, MockServerError> {
    let problem = || MockServerError::Duration { text: text.to_owned() };
    if text == "0" {
        return Ok(Nanos::ZERO);
    }
    let (number, unit_ns) = UNITS
        .iter()
        .find_map(|(suffix, ns)| text.strip_suffix(suffix).map(|number| (number, ns)))
        .ok_or_else(problem)?;
    if let (Ok(whole), 1.0) = (number.parse(), *unit_ns) {
        return Ok(Nanos(whole));
    }
    match number.parse::<f64>() {
        Ok(value) if value.is_finite() && value >= 0.0 => {
            Ok(Nanos((value * unit_ns).round() as u64))
        }
        _ => Err(problem()),
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn durations_and_jitter() {
        assert_eq!(parse_duration("250ms").unwrap(), Nanos(250_000_000));
        assert_eq!(parse_duration("0.5s").unwrap(), Nanos(500_000_000));
        assert_eq!(parse_duration("18446744073709551615ns").unwrap(), Nanos(u64::MAX));
        assert_eq!(parse_duration("0").unwrap(), Nanos::ZERO);
        for wrong in ["", "5", "ms", "-1ms", "NaNs", "infs", "1 h"] {
            assert!(parse_duration(wrong).is_err(), "{wrong}");
        }
        assert_eq!("10%".parse::<Jitter>().unwrap(), Jitter::Fraction(0.1));
        assert_eq!("0.25".parse::<Jitter>().unwrap(), Jitter::Fraction(0.25));
        assert_eq!("2ms".parse::<Jitter>().unwrap(), Jitter::StdDev(Nanos(2_000_000)));
        assert_eq!("0".parse::<Jitter>().unwrap(), Jitter::None);
        assert!("1.5".parse::<Jitter>().is_err());
        assert!("-5%".parse::<Jitter>().is_err());
    }

    proptest! {
        #[test]
        fn no_text_panics(text in ".*") {
            let _ = parse_duration(&text);
            let _ = text.parse::<Jitter>();
        }
    }
}
