//! Faults, the requests that they apply to, and the textual format of both.

use std::fmt;
use std::str::FromStr;

use base::setting::Named;
use base::units::Nanos;

use super::corruption::Corruption;
use super::{Arrival, parse_duration, parse_fraction};
use crate::MockServerError;
use crate::schedule::unit;

/// A fault, and the requests that it applies to.
#[derive(Debug, Clone, PartialEq)]
pub struct FaultRule {
    /// The requests.
    pub selector: Selector,
    /// It applies only to those of them at whose arrival more than this number are in flight, each
    /// included.
    pub above: Option<u64>,
    /// What happens to them.
    pub fault: Fault,
}

/// A selection of inference requests, numbered from 1 in order of arrival.
#[derive(Debug, Clone, PartialEq)]
pub enum Selector {
    /// All requests.
    All,
    /// Every `n`th request.
    Every(u64),
    /// The first `n` requests.
    First(u64),
    /// The requests with these numbers.
    Requests(Vec<u64>),
    /// A share of the requests, from 0 to 1.
    Rate(f64),
}

impl FaultRule {
    /// Returns whether the rule applies to a request, whose `bits` are random.
    pub(super) fn selects(&self, arrival: Arrival, bits: u64) -> bool {
        self.selector.selects(arrival.number, bits)
            && self.above.is_none_or(|above| arrival.in_flight > above)
    }
}

impl Selector {
    fn selects(&self, number: u64, bits: u64) -> bool {
        match self {
            Self::All => true,
            Self::Every(n) => number.is_multiple_of(*n),
            Self::First(n) => number <= *n,
            Self::Requests(list) => list.contains(&number),
            Self::Rate(share) => unit(bits) < *share,
        }
    }
}

/// A fault. Events are content events, which contain tokens.
///
/// A response that is not streamed is one event, its body.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Fault {
    /// Responds at once with this status.
    Status {
        /// The HTTP status, 200 to 599.
        code: u16,
        /// The body; without one, an error in OpenAI's format.
        body: Option<String>,
    },
    /// Closes the connection mid-stream, unless the stream is shorter.
    CutStream {
        /// Number of content events sent before.
        after_events: u64,
        /// Whether half of the next event is sent too.
        mid_event: bool,
    },
    /// One event is broken JSON.
    GarbageJson {
        /// Index of the event, from 0.
        at_event: u64,
    },
    /// Status 200 with only the stream's end marker (such as `[DONE]`); an empty body without
    /// streaming.
    EmptyStream,
    /// The stream lacks its end marker (such as `[DONE]`).
    NoDone,
    /// An `error` event inside the stream with status 200, then `[DONE]` if the dialect has it.
    ErrorEvent {
        /// Number of content events sent before.
        after_events: u64,
    },
    /// Accepts the request and never responds.
    Hang,
    /// Closes the connection without a response.
    CloseBeforeResponse,
    /// Sends one byte at a time.
    DripBytes {
        /// Pause between two bytes.
        pause: Nanos,
    },
    /// Announces keep-alive but closes the connection after the response, as llama.cpp does after
    /// streams.
    CloseAfterEach,
    /// A job does not complete normally; responses other than jobs are not affected.
    Job(JobFault),
    /// One step of the schedule is late, and delays the following ones.
    Stall {
        /// Index of the step, from 0.
        at_event: u64,
        duration: Nanos,
    },
    /// The times that the server reports are this many times as long as the true ones.
    Lie {
        /// The factor.
        factor: u32,
    },
    /// The spans of the request are in a trace of their own, and without its `x-request-id`.
    NewTrace,
    /// The output is corrupt, though the status is 200.
    Corrupt(Corruption),
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum JobFault {
    /// It fails when it should be done.
    Failed,
    /// It is never done.
    Never,
    /// It has an unknown status.
    Odd,
}

impl Named for JobFault {
    const NAMES: &'static [(&'static str, Self)] =
        &[("failed", Self::Failed), ("never", Self::Never), ("odd", Self::Odd)];
}

impl FromStr for FaultRule {
    type Err = MockServerError;

    fn from_str(rule: &str) -> Result<Self, Self::Err> {
        let parse = || {
            let (selector, fault) = rule.split_once(':').ok_or("does not contain `:`")?;
            let (selector, above) = match selector.rsplit_once(",above=") {
                Some((selector, above)) => (selector, Some(count(above)?)),
                None => (selector, None),
            };
            Ok(Self { selector: parse_selector(selector)?, above, fault: parse_fault(fault)? })
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
        Some(("rate", share)) => share_of(share).map(Selector::Rate),
        _ => {
            Err("has an unknown selector (all, every=N, first=N, requests=N,N,…, rate=SHARE; and \
                  one of them with ,above=N)")
        }
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
            Fault::Job(JobFault::named(end).ok_or("requires job=failed, job=never or job=odd")?)
        }
        ("drip", Some(pause)) => Fault::DripBytes { pause: duration(pause)? },
        ("close-after-each", None) => Fault::CloseAfterEach,
        ("stall", Some(argument)) => {
            let (at, by) = argument.split_once(',').ok_or("requires stall=EVENT,DURATION")?;
            Fault::Stall { at_event: count(at)?, duration: duration(by)? }
        }
        ("new-trace", None) => Fault::NewTrace,
        ("corrupt", Some(kind)) => Fault::Corrupt(kind_of(kind)?),
        ("lie", Some(factor)) => {
            Fault::Lie { factor: factor.parse().map_err(|_| "requires a whole number")? }
        }
        _ => {
            return Err("has an unknown fault, or one with the wrong number of arguments \
                        (status, cut, cut-mid, garbage, empty, no-done, error, hang, close, \
                        drip, close-after-each, job, stall, lie, new-trace, corrupt)");
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
        _ => Err("requires a status from 200 to 599"),
    }
}

fn kind_of(name: &str) -> Result<Corruption, &'static str> {
    Corruption::named(name).ok_or(
        "has an unknown kind of corruption (repeat, replacement, mojibake, script, blank, \
         after-end, usage, same, crosstalk, burst, truncated)",
    )
}

fn share_of(text: &str) -> Result<f64, &'static str> {
    let share = parse_fraction(text).filter(|share| *share <= 1.0);
    share.ok_or("requires a share up to 100%, such as 0.5%")
}

fn count(text: &str) -> Result<u64, &'static str> {
    text.parse().map_err(|_| "requires a whole number")
}

fn positive(text: &str) -> Result<u64, &'static str> {
    match text.parse() {
        Ok(n) if n > 0 => Ok(n),
        _ => Err("requires a whole number of at least 1"),
    }
}

fn duration(text: &str) -> Result<Nanos, &'static str> {
    parse_duration(text).map_err(|_| "requires a duration such as 250ms, 1.5s or 80us")
}

impl fmt::Display for FaultRule {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.selector)?;
        if let Some(above) = self.above {
            write!(f, ",above={above}")?;
        }
        write!(f, ":{}", self.fault)
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
            Self::Rate(share) => write!(f, "rate={share}"),
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
            Self::Lie { factor } => write!(f, "lie={factor}"),
            Self::NewTrace => f.write_str("new-trace"),
            Self::Corrupt(kind) => write!(f, "corrupt={}", kind.name()),
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
        let rule = |text: &str| text.parse::<FaultRule>().unwrap();
        assert_eq!(
            rule("every=9:status=500"),
            FaultRule {
                selector: Selector::Every(9),
                above: None,
                fault: Fault::Status { code: 500, body: None }
            }
        );
        assert_eq!(
            rule("requests=1,4:status=429,{\"error\":\"slow, please: = \"}"),
            FaultRule {
                selector: Selector::Requests(vec![1, 4]),
                above: None,
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
        assert_eq!(rule("all:corrupt=after-end").fault, Fault::Corrupt(Corruption::AfterEnd));
    }

    #[test]
    fn a_condition_follows_the_selector() {
        let rule = |text: &str| {
            let FaultRule { selector, above, .. } = text.parse().unwrap();
            (selector, above)
        };
        let rate = Selector::Rate;
        assert_eq!(rule("rate=0.5%:hang"), (rate(0.005), None));
        assert_eq!(rule("rate=0.25:hang"), (rate(0.25), None));
        assert_eq!(rule("rate=5%,above=8:corrupt=repeat"), (rate(0.05), Some(8)));
        assert_eq!(rule("all,above=0:hang"), (Selector::All, Some(0)));
        assert_eq!(rule("every=3,above=2:hang"), (Selector::Every(3), Some(2)));
        let list = Selector::Requests(vec![1, 2, 3]);
        assert_eq!(rule("requests=1,2,3:status=500,above=4:"), (list.clone(), None));
        assert_eq!(rule("requests=1,2,3,above=4:hang"), (list, Some(4)));
    }

    #[test]
    fn wrong_rules_name_the_problem() {
        let problem = |text: &str| text.parse::<FaultRule>().unwrap_err().to_string();
        assert!(problem("hang").contains("does not contain `:`"));
        assert!(problem("every=0:hang").contains("whole number of at least 1"));
        assert!(problem("some:hang").contains("unknown selector"));
        assert!(problem("all:explode").contains("unknown fault"));
        assert!(problem("all:hang=1").contains("unknown fault"));
        assert!(problem("all:status=99").contains("200 to 599"));
        assert!(problem("all:stall=3").contains("stall=EVENT,DURATION"));
        assert!(problem("all:drip=fast").contains("a duration"));
        assert!(problem("all:job=late").contains("job=never"));
        assert!(problem("all:cut=-1").contains("whole number"));
        assert!(problem("all:corrupt=odd").contains("unknown kind of corruption (repeat, "));
        for share in ["101%", "5", "-1%", "NaN%", "inf%", "", "%", "5%,6%"] {
            assert!(
                problem(&format!("rate={share}:hang")).contains("a share up to 100%"),
                "{share}"
            );
        }
        assert!(problem("above=8:hang").contains("unknown selector"));
        assert!(problem("all,above=:hang").contains("whole number"));
        assert!(problem("all,above=1,above=2:hang").contains("unknown selector"));
    }

    #[test]
    fn selectors_count_from_one() {
        let chosen = |selector: Selector| {
            (1..=6).filter(|number| selector.selects(*number, 0)).collect::<Vec<_>>()
        };
        assert_eq!(chosen(Selector::Every(3)), [3, 6]);
        assert_eq!(chosen(Selector::First(2)), [1, 2]);
        assert_eq!(chosen(Selector::Requests(vec![5, 2])), [2, 5]);
        assert_eq!(chosen(Selector::All), [1, 2, 3, 4, 5, 6]);
    }

    #[test]
    fn a_share_has_the_requests_with_the_lowest_bits() {
        let has = |share, bits| Selector::Rate(share).selects(1, bits);
        assert!(has(0.25, (1 << 62) - 1) && !has(0.25, 1 << 62));
        assert!(!has(0.0, 0) && has(1.0, u64::MAX));
    }

    #[test]
    fn a_condition_is_about_the_requests_in_flight() {
        let rule: FaultRule = "every=2,above=3:hang".parse().unwrap();
        let selects = |number, in_flight| rule.selects(Arrival { number, in_flight }, 0);
        assert!(selects(2, 4) && selects(4, u64::MAX));
        assert!(!selects(2, 3) && !selects(3, 4));
    }

    fn any_rule() -> impl Strategy<Value = FaultRule> {
        let selector = prop_oneof![
            Just(Selector::All),
            (1..u64::MAX).prop_map(Selector::Every),
            (1..u64::MAX).prop_map(Selector::First),
            prop::collection::vec(1..u64::MAX, 1..5).prop_map(Selector::Requests),
            (0.0..=1.0).prop_map(Selector::Rate),
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
            prop::sample::select(JobFault::NAMES).prop_map(|(_, fault)| Fault::Job(fault)),
            prop::sample::select(Corruption::NAMES).prop_map(|(_, kind)| Fault::Corrupt(kind)),
        ];
        let above = prop::option::of(any::<u64>());
        (selector, above, fault).prop_map(|(selector, above, fault)| FaultRule {
            selector,
            above,
            fault,
        })
    }

    proptest! {
        #[test]
        fn a_rule_is_read_as_it_is_written(rule in any_rule()) {
            prop_assert_eq!(rule.to_string().parse::<FaultRule>().unwrap(), rule);
        }

        #[test]
        fn no_text_panics(text in ".*", shaped in "(all|every=|first=|requests=|rate=)[0-9,.%]*(,above=)?[0-9]*:[a-z-]*=?[0-9.,a-z]*") {
            let _ = text.parse::<FaultRule>();
            let _ = shaped.parse::<FaultRule>();
        }
    }
}
