//! The server's behaviour: sizes, times and faults, and their textual format.

mod corruption;
mod fault;

use std::str::FromStr;

use base::setting::named;
use base::units::Nanos;

use super::schedule::{mix, unit};
use super::{MockServerError, PrefixCacheSize, Timing};

pub(crate) use self::corruption::Corruption;
pub use self::fault::FaultRule;
pub(crate) use self::fault::{Fault, JobFault};

/// The content and timing of the server's responses. By default it responds at once, without
/// faults.
#[derive(Debug, Clone, PartialEq)]
pub struct Script {
    /// The models that `/v1/models` lists; the first labels the server's metrics.
    pub models: Vec<String>,
    /// Whether requests for unlisted models get the status 404; otherwise any name is accepted.
    pub strict_models: bool,
    /// Time from a request's admission to its first token.
    pub ttft: Nanos,
    /// Time from one chunk of tokens to the next.
    pub itl: Nanos,
    /// Deviation of each chunk from its due time, which does not affect the next chunk.
    pub jitter: Jitter,
    /// Seed of texts, IDs, embeddings and jitter.
    pub seed: u64,
    /// Number of tokens generated for requests without a limit. If a request has a limit, that
    /// number is generated.
    pub output_tokens: u64,
    /// Number of tokens per stream event.
    pub tokens_per_chunk: u64,
    /// Number of the generated tokens that are reasoning, sent before the rest, if the dialect
    /// supports it.
    pub reasoning_tokens: u64,
    /// Where chats have their reasoning.
    pub reasoning_place: ReasoningPlace,
    /// Whether chats respond with a tool call: the tokens after those of reasoning are in its
    /// arguments.
    pub tool_calls: bool,
    /// Whether the events before the first token, such as that with the role, are sent at once at the
    /// request's admission, and not with the first token.
    pub early_role: bool,
    /// Whether a content event with an empty text precedes the first token of each choice, if the
    /// dialect supports it. It is sent at admission, and so are the events before it.
    pub empty_first: bool,
    /// Time from the last token to what follows it in a stream, such as usage and `[DONE]`.
    pub end_delay: Nanos,
    /// Minimum time between two writes of a stream, as with Nagle's algorithm and delayed
    /// acknowledgements: what is due meanwhile is sent together after it.
    pub write_interval: Nanos,
    /// Time from the beginning of a connection until the server reads from it.
    pub accept_delay: Nanos,
    /// Time from the beginning of a TLS handshake until the server responds to it.
    pub tls_delay: Nanos,
    /// Which responses report usage.
    pub usage: UsageReport,
    /// Number of dimensions of an embedding.
    pub embedding_dimensions: usize,
    /// Maximum number of concurrent requests; others wait in order of arrival.
    pub max_concurrent: Option<usize>,
    /// Capacity of the simulated key-value cache in tokens.
    pub kv_cache_tokens: u64,
    /// Size of the simulated prefix cache, if there is one. A prompt is in it from its admission on.
    pub prefix_cache: Option<PrefixCacheSize>,
    /// Time that each token of the prompt adds to `ttft`, without the cached ones.
    pub prefill_per_token: Nanos,
    /// Share by which all times grow in each second since the first request. Reported times do not.
    pub drift: f64,
    /// When nothing is sent: the time since the first request, and the duration.
    pub silence: Option<[Nanos; 2]>,
    /// Number of chunks that are sent together, when the last of them is due, as by some gateways.
    pub chunks_together: u64,
    /// Requests per second that are accepted, with bursts of as many at once as in one second; others
    /// get the status 429 with `Retry-After`.
    pub rate_limit: Option<f64>,
    /// Share of the responses, from 0 to 1, whose text goes on as another one from some token on, as
    /// it does if the sizes of batches affect the numbers. Only if other requests are in flight at
    /// their arrival.
    pub batch_variance: f64,
    /// What is reported of the times of requests, if anything is.
    pub timing: Option<Timing>,
    /// The faults; the first rule that selects a request applies.
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
            reasoning_place: ReasoningPlace::default(),
            tool_calls: false,
            early_role: false,
            empty_first: false,
            end_delay: Nanos::ZERO,
            write_interval: Nanos::ZERO,
            accept_delay: Nanos::ZERO,
            tls_delay: Nanos::ZERO,
            usage: UsageReport::default(),
            embedding_dimensions: 64,
            max_concurrent: None,
            kv_cache_tokens: 131_072,
            prefix_cache: None,
            prefill_per_token: Nanos::ZERO,
            drift: 0.0,
            silence: None,
            chunks_together: 1,
            rate_limit: None,
            batch_variance: 0.0,
            timing: None,
            faults: Vec::new(),
        }
    }
}

impl Script {
    /// Parses a rule of the form `SELECTOR:FAULT`.
    ///
    /// `docs/mock-server.md` has the selectors and faults.
    pub fn parse_fault(rule: &str) -> Result<FaultRule, MockServerError> {
        rule.parse()
    }

    /// Checks the assumptions of the server.
    ///
    /// # Errors
    ///
    /// Names the field that is invalid.
    pub(super) fn check(&self) -> Result<(), MockServerError> {
        let problem = if self.models.is_empty() {
            "does not have a model; specify at least one"
        } else if self.tokens_per_chunk == 0 {
            "has chunks of 0 tokens; use at least 1"
        } else if self.chunks_together == 0 {
            "sends 0 chunks together; use at least 1"
        } else if self.rate_limit.is_some_and(|rate| !(rate > 0.0 && rate.is_finite())) {
            "requires a rate limit above 0"
        } else if !(self.drift >= 0.0 && self.drift.is_finite()) {
            "requires a drift of at least 0"
        } else if !(0.0..=1.0).contains(&self.batch_variance) {
            "requires a batch variance from 0 to 1"
        } else if self.max_concurrent == Some(0) {
            "has a limit of 0 concurrent requests; use at least 1, or no limit"
        } else if self.max_concurrent.is_some_and(|n| n > MAX_CONCURRENT) {
            "has a limit on concurrent requests that is too high; remove the limit"
        } else if self.prefix_cache.is_some_and(|it| it.block_tokens == 0 || it.blocks == 0) {
            "has a prefix cache without blocks or tokens in them; use at least 1 of each"
        } else if self.timing.is_some_and(|it| it.spans.is_some() && !it.form.has_spans()) {
            "cannot send the spans of this server; use vllm, dynamo, dynamo-separate or \
             dynamo-bootstrap"
        } else if self.embedding_dimensions == 0 || self.embedding_dimensions > MAX_DIMENSIONS {
            "requires an embedding length from 1 to 65536"
        } else {
            return Ok(());
        };
        Err(MockServerError::Script { problem })
    }

    /// Returns what its responses look like.
    pub(super) const fn form(&self) -> Form {
        let Self { reasoning_place, tool_calls, early_role, empty_first, end_delay, .. } = *self;
        Form { reasoning_place, tool_calls, early_role, empty_first, end_delay }
    }

    /// Returns the fault of a request.
    pub(super) fn fault_for(&self, arrival: Arrival) -> Option<&Fault> {
        // Each rule draws for itself, so that a share is one of the requests that reach the rule.
        let bits = |rule| mix(mix(mix(self.seed, RULES), rule), arrival.number);
        let mut rules = (0..).zip(&self.faults);
        rules.find(|(at, rule)| rule.selects(arrival, bits(*at))).map(|(_, rule)| &rule.fault)
    }

    /// Returns from which of its `tokens` on the text of a request is another one, and the position at
    /// which that text would begin.
    pub(super) fn turn(&self, arrival: Arrival, tokens: u64) -> Option<[u64; 2]> {
        let draw = |at| mix(mix(mix(self.seed, BATCHES), arrival.number), at);
        let turns = arrival.in_flight > 1 && unit(draw(0)) < self.batch_variance;
        turns.then(|| [draw(1) % tokens.max(1), draw(2)])
    }

    /// Returns whether a response may begin with another request's prompt.
    pub(super) fn has_crosstalk(&self) -> bool {
        let crosstalk = Fault::Corrupt(Corruption::Crosstalk);
        self.faults.iter().any(|rule| rule.fault == crosstalk)
    }
}

/// Where a chat has its reasoning.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum ReasoningPlace {
    /// In the member `reasoning_content`.
    #[default]
    ReasoningContent,
    /// In the member `reasoning`.
    Reasoning,
    /// In the content, between `<think>` and `</think>`.
    Think,
}

named! {
    ReasoningPlace {
        "reasoning_content" => ReasoningContent,
        "reasoning" => Reasoning,
        "think" => Think,
    }
}

/// What a response looks like besides its text: a part of the [`Script`].
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Form {
    pub(crate) reasoning_place: ReasoningPlace,
    pub(crate) tool_calls: bool,
    pub(crate) early_role: bool,
    pub(crate) empty_first: bool,
    pub(crate) end_delay: Nanos,
}

/// Which responses report usage.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum UsageReport {
    /// None of them.
    Never,
    /// Streams if the request asks for it, and all others.
    #[default]
    Asked,
    /// All of them.
    Always,
}

/// The arrival of a request.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Arrival {
    /// Its number, from 1.
    pub(crate) number: u64,
    /// Number of requests that are in flight then, with this one.
    pub(crate) in_flight: u64,
}

/// These keep the draws of rules and of batches apart from other uses of the seed.
const RULES: u64 = 0x72_75_6c_65_73;
const BATCHES: u64 = 0x62_61_74_63_68;

/// Maximum count of a semaphore on any platform.
const MAX_CONCURRENT: usize = 1 << 28;
const MAX_DIMENSIONS: usize = 65_536;

/// Deviation of events from their due times.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub enum Jitter {
    /// No deviation.
    #[default]
    None,
    /// Uniform, up to this fraction of `ttft` for the first event and of `itl` for the others.
    Fraction(f64),
    /// Normal, with this standard deviation.
    StdDev(Nanos),
    /// The time of the chunk, `ttft` or `itl`, is distributed exponentially.
    Exponential,
}

impl FromStr for Jitter {
    type Err = MockServerError;

    /// Parses a jitter: `10%` or `0.1` is a fraction, `2ms` a standard deviation, and `exponential` the
    /// distribution.
    fn from_str(text: &str) -> Result<Self, Self::Err> {
        if text == "exponential" {
            return Ok(Self::Exponential);
        }
        let problem = || MockServerError::Jitter { text: text.to_owned() };
        let Some(fraction) = parse_fraction(text) else {
            return parse_duration(text).map(Self::StdDev).map_err(|_| problem());
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

/// Parses a fraction of at least 0, such as `5%` or `0.05`.
pub fn parse_fraction(text: &str) -> Option<f64> {
    let (number, divisor) = text.strip_suffix('%').map_or((text, 1.0), |number| (number, 100.0));
    let fraction = number.parse::<f64>().ok()? / divisor;
    (fraction.is_finite() && fraction >= 0.0).then_some(fraction)
}

/// Units of [`parse_duration`] and their lengths in nanoseconds, longer suffixes first.
const UNITS: &[(&str, f64)] = &[("ns", 1.0), ("us", 1e3), ("ms", 1e6), ("s", 1e9)];

/// Parses a duration: a number and `ns`, `us`, `ms` or `s`. Zero needs no unit.
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

    fn numbers(script: &Script, fault: &Fault) -> Vec<u64> {
        let hit = |number| script.fault_for(Arrival { number, in_flight: 1 }) == Some(fault);
        (1..=10_000).filter(|number| hit(*number)).collect()
    }

    #[test]
    fn a_rate_selects_its_share_and_the_same_again() {
        let rules = ["rate=10%:hang", "rate=10%:close"];
        let faults: Vec<FaultRule> = rules.iter().map(|rule| rule.parse().unwrap()).collect();
        let script = Script { faults, ..Script::default() };
        let (hang, close) =
            (numbers(&script, &Fault::Hang), numbers(&script, &Fault::CloseBeforeResponse));
        // 1000 and 900 of 10,000, each with a standard deviation of 30: six of them either way.
        assert!((820..1180).contains(&hang.len()), "{}", hang.len());
        assert!((720..1080).contains(&close.len()), "{}", close.len());
        assert_eq!(numbers(&script, &Fault::Hang), hang);
        let other = Script { seed: 1, ..script };
        assert_ne!(numbers(&other, &Fault::Hang), hang);
    }

    #[test]
    fn texts_vary_only_beside_other_requests() {
        let script = Script { batch_variance: 0.1, ..Script::default() };
        let turns = |in_flight| -> Vec<_> {
            let turn = |number| script.turn(Arrival { number, in_flight }, 50);
            (1..=10_000).filter_map(turn).collect()
        };
        assert_eq!(turns(1), Vec::<[u64; 2]>::new());
        let varied = turns(2);
        // 1000 with a standard deviation of 30: six of them either way.
        assert!((820..1180).contains(&varied.len()), "{}", varied.len());
        assert_eq!(turns(9), varied);
        // Each token is in its turn.
        assert!((0..50).all(|token| varied.iter().any(|[at, _]| *at == token)));
        assert!(varied.iter().all(|[at, _]| *at < 50));
        let always = Script { batch_variance: 1.0, ..Script::default() };
        let beside = |number| Arrival { number, in_flight: 2 };
        assert!((1..1_000).all(|number| always.turn(beside(number), 0).is_some()));
    }

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
        assert_eq!("exponential".parse::<Jitter>().unwrap(), Jitter::Exponential);
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
