//! What the server does: sizes, times and faults, and the text they are written in.

use std::fmt;
use std::str::FromStr;

use super::MockServerError;
use crate::units::Nanos;

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

/// One thing that goes wrong, and for which requests.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FaultRule {
    /// Which requests.
    pub selector: Selector,
    /// What happens to them.
    pub fault: Fault,
}

/// Which inference requests, counted from 1 in order of arrival.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Selector {
    /// All of them.
    All,
    /// The `n`th, the `2n`th and so on.
    Every(u64),
    /// The first so many.
    First(u64),
    /// These.
    Requests(Vec<u64>),
}

impl Selector {
    fn selects(&self, arrival: u64) -> bool {
        match self {
            Self::All => true,
            Self::Every(n) => arrival.is_multiple_of(*n),
            Self::First(n) => arrival <= *n,
            Self::Requests(list) => list.contains(&arrival),
        }
    }
}

/// What goes wrong. Events are content events: those that bear tokens.
///
/// An answer that is not streamed is one event, its body.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Fault {
    /// Answers at once with this status.
    Status {
        /// The HTTP status, 200 to 599.
        code: u16,
        /// The body; without one, an error in OpenAI's form.
        body: Option<String>,
    },
    /// Closes the connection mid-stream; not at all where the stream is shorter.
    CutStream {
        /// Content events sent before.
        after_events: u64,
        /// Whether half of the next event is sent too.
        mid_event: bool,
    },
    /// One event is broken JSON.
    GarbageJson {
        /// Which, from 0.
        at_event: u64,
    },
    /// 200, and nothing but the stream's end (`[DONE]`, say); an empty body where nothing is streamed.
    EmptyStream,
    /// The stream lacks what says that it ends (`[DONE]`, say).
    NoDone,
    /// An `error` event inside the 200 stream, then `[DONE]` where the dialect has it.
    ErrorEvent {
        /// Content events sent before.
        after_events: u64,
    },
    /// Accepts the request and never answers.
    Hang,
    /// Closes the connection without an answer.
    CloseBeforeResponse,
    /// One byte at a time.
    DripBytes {
        /// From one byte to the next.
        pause: Nanos,
    },
    /// Announces keep-alive and closes after the answer, as llama.cpp does after streams.
    CloseAfterEach,
    /// A job comes to no good end; answers that are no jobs are as always.
    Job(JobFault),
    /// One step of the schedule is late, and holds back those behind it.
    Stall {
        /// Which step, from 0.
        at_event: u64,
        /// By how much.
        duration: Nanos,
    },
}

/// How a job goes wrong.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum JobFault {
    /// It fails when it should be done.
    Failed,
    /// It is never done.
    Never,
    /// Its status is none that is known.
    Odd,
}

impl JobFault {
    pub(super) const ALL: [Self; 3] = [Self::Failed, Self::Never, Self::Odd];

    pub(super) const fn name(self) -> &'static str {
        match self {
            Self::Failed => "failed",
            Self::Never => "never",
            Self::Odd => "odd",
        }
    }
}

impl FromStr for FaultRule {
    type Err = MockServerError;

    fn from_str(rule: &str) -> Result<Self, Self::Err> {
        let parse = || {
            let (selector, fault) = rule.split_once(':').ok_or("has no `:`")?;
            Ok(Self { selector: parse_selector(selector)?, fault: parse_fault(fault)? })
        };
        parse().map_err(|problem| MockServerError::Fault { rule: rule.to_owned(), problem })
    }
}

fn parse_selector(text: &str) -> Result<Selector, &'static str> {
    match text.split_once('=') {
        None if text == "all" => Ok(Selector::All),
        Some(("every", n)) => positive(n).map(Selector::Every),
        Some(("first", n)) => positive(n).map(Selector::First),
        Some(("requests", list)) => {
            list.split(',').map(positive).collect::<Result<_, _>>().map(Selector::Requests)
        }
        _ => Err("has an unknown selector (all, every=N, first=N, requests=N,N,…)"),
    }
}

fn parse_fault(text: &str) -> Result<Fault, &'static str> {
    let (name, argument) = match text.split_once('=') {
        Some((name, argument)) => (name, Some(argument)),
        None => (text, None),
    };
    let fault = match (name, argument) {
        ("status", Some(argument)) => parse_status(argument)?,
        ("cut", Some(n)) => Fault::CutStream { after_events: count(n)?, mid_event: false },
        ("cut-mid", Some(n)) => Fault::CutStream { after_events: count(n)?, mid_event: true },
        ("garbage", Some(n)) => Fault::GarbageJson { at_event: count(n)? },
        ("empty", None) => Fault::EmptyStream,
        ("no-done", None) => Fault::NoDone,
        ("error", Some(n)) => Fault::ErrorEvent { after_events: count(n)? },
        ("hang", None) => Fault::Hang,
        ("close", None) => Fault::CloseBeforeResponse,
        ("job", Some(end)) => {
            let mut known = JobFault::ALL.into_iter();
            let found = known.find(|fault| fault.name() == end);
            Fault::Job(found.ok_or("needs job=failed, job=never or job=odd")?)
        }
        ("drip", Some(pause)) => Fault::DripBytes { pause: duration(pause)? },
        ("close-after-each", None) => Fault::CloseAfterEach,
        ("stall", Some(argument)) => {
            let (at, by) = argument.split_once(',').ok_or("needs stall=EVENT,DURATION")?;
            Fault::Stall { at_event: count(at)?, duration: duration(by)? }
        }
        _ => {
            return Err("has an unknown fault, or one with an argument too many or too few \
                        (status, cut, cut-mid, garbage, empty, no-done, error, hang, close, \
                        drip, close-after-each, job, stall)");
        }
    };
    Ok(fault)
}

fn parse_status(argument: &str) -> Result<Fault, &'static str> {
    let (code, body) = match argument.split_once(',') {
        Some((code, body)) => (code, Some(body.to_owned())),
        None => (argument, None),
    };
    match code.parse() {
        Ok(code @ 200..600) => Ok(Fault::Status { code, body }),
        _ => Err("needs a status from 200 to 599"),
    }
}

fn count(text: &str) -> Result<u64, &'static str> {
    text.parse().map_err(|_| "needs a whole number")
}

fn positive(text: &str) -> Result<u64, &'static str> {
    match text.parse() {
        Ok(n) if n > 0 => Ok(n),
        _ => Err("needs a whole number from 1"),
    }
}

fn duration(text: &str) -> Result<Nanos, &'static str> {
    parse_duration(text).map_err(|_| "needs a duration such as 250ms, 1.5s, 80us")
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

impl fmt::Display for FaultRule {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}", self.selector, self.fault)
    }
}

impl fmt::Display for Selector {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::All => f.write_str("all"),
            Self::Every(n) => write!(f, "every={n}"),
            Self::First(n) => write!(f, "first={n}"),
            Self::Requests(list) => {
                let numbers: Vec<_> = list.iter().map(u64::to_string).collect();
                write!(f, "requests={}", numbers.join(","))
            }
        }
    }
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Status { code, body: None } => write!(f, "status={code}"),
            Self::Status { code, body: Some(body) } => write!(f, "status={code},{body}"),
            Self::CutStream { after_events, mid_event: false } => write!(f, "cut={after_events}"),
            Self::CutStream { after_events, mid_event: true } => {
                write!(f, "cut-mid={after_events}")
            }
            Self::GarbageJson { at_event } => write!(f, "garbage={at_event}"),
            Self::EmptyStream => f.write_str("empty"),
            Self::NoDone => f.write_str("no-done"),
            Self::ErrorEvent { after_events } => write!(f, "error={after_events}"),
            Self::Hang => f.write_str("hang"),
            Self::CloseBeforeResponse => f.write_str("close"),
            Self::DripBytes { pause } => write!(f, "drip={}ns", pause.0),
            Self::CloseAfterEach => f.write_str("close-after-each"),
            Self::Job(fault) => write!(f, "job={}", fault.name()),
            Self::Stall { at_event, duration } => write!(f, "stall={at_event},{}ns", duration.0),
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn rules_are_read_as_documented() {
        let rule = |text: &str| Script::parse_fault(text).unwrap();
        assert_eq!(
            rule("every=9:status=500"),
            FaultRule {
                selector: Selector::Every(9),
                fault: Fault::Status { code: 500, body: None }
            }
        );
        assert_eq!(
            rule("requests=1,4:status=429,{\"error\":\"slow, please: = \"}"),
            FaultRule {
                selector: Selector::Requests(vec![1, 4]),
                fault: Fault::Status {
                    code: 429,
                    body: Some("{\"error\":\"slow, please: = \"}".to_owned())
                }
            }
        );
        assert_eq!(rule("first=2:hang").fault, Fault::Hang);
        assert_eq!(
            rule("all:cut-mid=0").fault,
            Fault::CutStream { after_events: 0, mid_event: true }
        );
        assert_eq!(
            rule("all:stall=3,1.5s").fault,
            Fault::Stall { at_event: 3, duration: Nanos(1_500_000_000) }
        );
        assert_eq!(rule("all:drip=80us").fault, Fault::DripBytes { pause: Nanos(80_000) });
    }

    #[test]
    fn wrong_rules_name_the_problem() {
        let problem = |text: &str| Script::parse_fault(text).unwrap_err().to_string();
        assert!(problem("hang").contains("has no `:`"));
        assert!(problem("every=0:hang").contains("whole number from 1"));
        assert!(problem("some:hang").contains("unknown selector"));
        assert!(problem("all:explode").contains("unknown fault"));
        assert!(problem("all:hang=1").contains("unknown fault"));
        assert!(problem("all:status=99").contains("200 to 599"));
        assert!(problem("all:stall=3").contains("stall=EVENT,DURATION"));
        assert!(problem("all:drip=fast").contains("a duration"));
        assert!(problem("all:job=late").contains("job=never"));
        assert!(problem("all:cut=-1").contains("whole number"));
    }

    #[test]
    fn selectors_count_from_one() {
        let chosen = |selector: Selector| {
            (1..=6).filter(|arrival| selector.selects(*arrival)).collect::<Vec<_>>()
        };
        assert_eq!(chosen(Selector::Every(3)), [3, 6]);
        assert_eq!(chosen(Selector::First(2)), [1, 2]);
        assert_eq!(chosen(Selector::Requests(vec![5, 2])), [2, 5]);
        assert_eq!(chosen(Selector::All), [1, 2, 3, 4, 5, 6]);
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
        assert!("1.5".parse::<Jitter>().is_err());
        assert!("-5%".parse::<Jitter>().is_err());
    }

    fn any_rule() -> impl Strategy<Value = FaultRule> {
        let selector = prop_oneof![
            Just(Selector::All),
            (1..u64::MAX).prop_map(Selector::Every),
            (1..u64::MAX).prop_map(Selector::First),
            prop::collection::vec(1..u64::MAX, 1..5).prop_map(Selector::Requests),
        ];
        let fault = prop_oneof![
            (200..600u16, prop::option::of(".*"))
                .prop_map(|(code, body)| Fault::Status { code, body }),
            (any::<u64>(), any::<bool>())
                .prop_map(|(after_events, mid_event)| Fault::CutStream { after_events, mid_event }),
            any::<u64>().prop_map(|at_event| Fault::GarbageJson { at_event }),
            any::<u64>().prop_map(|after_events| Fault::ErrorEvent { after_events }),
            any::<u64>().prop_map(|ns| Fault::DripBytes { pause: Nanos(ns) }),
            (any::<u64>(), any::<u64>())
                .prop_map(|(at_event, ns)| Fault::Stall { at_event, duration: Nanos(ns) }),
            Just(Fault::EmptyStream),
            Just(Fault::NoDone),
            Just(Fault::Hang),
            Just(Fault::CloseBeforeResponse),
            Just(Fault::CloseAfterEach),
            prop::sample::select(JobFault::ALL.to_vec()).prop_map(Fault::Job),
        ];
        (selector, fault).prop_map(|(selector, fault)| FaultRule { selector, fault })
    }

    proptest! {
        #[test]
        fn a_rule_is_read_as_it_is_written(rule in any_rule()) {
            prop_assert_eq!(Script::parse_fault(&rule.to_string()).unwrap(), rule);
        }

        #[test]
        fn no_text_panics(text in ".*", shaped in "(all|every=|first=|requests=)[0-9,]*:[a-z-]*=?[0-9.,a-z]*") {
            let _ = Script::parse_fault(&text);
            let _ = Script::parse_fault(&shaped);
            let _ = parse_duration(&text);
            let _ = text.parse::<Jitter>();
        }
    }
}
