//! Sessions: what all requests of a simulated user took and achieved together.
//!
//! A session is its first conversation and all conversations that this one starts. The requests of a
//! tree end in any order, so what is needed of each is kept in a column, which limits memory, and put
//! together after the phase.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use bitflags::bitflags;
use uuid::Uuid;

use base::column::{Column, Sorted, Store, fixed_struct};
use base::units::Nanos;
use client::record::{Ancestry, ErrorKind};

use super::accumulate::statistics;
use super::metric::{MeasuredRecord, Metric, MetricKind, MetricResult, Observation, Stats};
use super::registry::Registry;
use super::tag;

/// How a session or a conversation ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SessionEnd {
    /// All turns were sent and succeeded.
    Completed,
    /// A turn failed.
    Failed,
    /// Not all turns were sent, or the run cancelled one, and none failed otherwise.
    Cancelled,
}

impl SessionEnd {
    /// Returns its name in files.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Completed => "completed",
            Self::Failed => "failed",
            Self::Cancelled => "cancelled",
        }
    }
}

/// The place of a request in a conversation of several turns, or of a tree.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TurnPlace {
    /// Whether the conversation ended with it.
    pub is_final: bool,
    /// Number of conversations that start before or after it.
    pub children: u32,
    /// How long after the response before it the dataset sends it.
    pub delay: Nanos,
}

/// A request to add to the sessions.
#[derive(Debug, Clone, Copy)]
pub struct SessionTurn<'a> {
    /// Number of the session.
    pub session: u64,
    /// `X-Correlation-ID` of its conversation.
    pub correlation_id: Uuid,
    pub ancestry: Option<Ancestry>,
    /// ID of the conversation in the dataset.
    pub conversation_id: &'a str,
    /// Index of the turn in the conversation.
    pub index: usize,
    /// When it was due; absent in a closed loop.
    pub due_wall_ns: Option<u64>,
    /// Absent if the conversation is this turn alone.
    pub place: Option<TurnPlace>,
    pub observation: &'a Observation,
}

impl<'a> SessionTurn<'a> {
    /// Returns the place of a request in its session, with the ID of its conversation in the dataset,
    /// and when it was due in nanoseconds since the epoch.
    pub fn for_request(
        measured: &'a MeasuredRecord,
        conversation_id: &'a str,
        due_wall_ns: Option<u64>,
    ) -> Self {
        let MeasuredRecord { record, observation, agent, .. } = measured;
        Self {
            session: record.turn.session,
            correlation_id: record.correlation_id,
            ancestry: record.ancestry,
            conversation_id,
            index: record.turn.turn,
            due_wall_ns,
            place: agent.as_ref().map(TurnPlace::from),
            observation,
        }
    }
}

bitflags! {
    /// The kind of a turn.
    #[derive(Debug, Clone, Copy, PartialEq, Eq)]
    struct Marks: u8 {
        const FINAL = 1;
        const FAILED = 1 << 1;
        const CANCELLED = 1 << 2;
        const GOOD = 1 << 3;
    }
}

fixed_struct! {
    /// The part of a request that is kept. Times are wall time in nanoseconds since the epoch, values are in
    /// the units of their metrics.
    #[derive(Debug, Clone, Copy, Default)]
    struct Turn {
        session: u64,
        /// The two halves of the `X-Correlation-ID`.
        id_high: u64,
        id_low: u64,
        /// The same of the conversation that started this one; zero if none did.
        parent_high: u64,
        parent_low: u64,
        /// Index of the conversation's name.
        name: u32,
        index: u32,
        children: u32,
        marks: u8,
        start: u64,
        end: u64,
        due: Option<u64>,
        delay: u64,
        time_to_first_token: Option<f64>,
        input_tokens: Option<f64>,
        output_tokens: Option<f64>,
        prompt_tokens: Option<f64>,
        cached_tokens: Option<f64>,
    }
}

impl Turn {
    fn is(&self, mark: Marks) -> bool {
        Marks::from_bits_truncate(self.marks).contains(mark)
    }

    fn id(&self) -> Uuid {
        Uuid::from_u64_pair(self.id_high, self.id_low)
    }

    fn parent(&self) -> Option<Uuid> {
        Some(Uuid::from_u64_pair(self.parent_high, self.parent_low)).filter(|id| !id.is_nil())
    }
}

/// Collects the requests of a phase.
#[derive(Debug)]
pub struct SessionLedger {
    turns: Column<Turn>,
    names: Vec<Arc<str>>,
    numbers: HashMap<Arc<str>, u32>,
    /// Whether the dataset has the time at which each turn is sent.
    is_scheduled: bool,
    has_several_turns: bool,
}

impl SessionLedger {
    /// Creates a ledger whose requests are kept in `store`. `is_scheduled` is whether they are sent
    /// at the timestamps of the dataset.
    pub fn new(store: Store, is_scheduled: bool) -> Self {
        let (names, numbers) = (Vec::new(), HashMap::new());
        let turns = Column::new(store);
        Self { turns, names, numbers, is_scheduled, has_several_turns: false }
    }

    /// Adds a request.
    pub fn observe(&mut self, turn: &SessionTurn<'_>) {
        let place =
            turn.place.unwrap_or(TurnPlace { is_final: true, children: 0, delay: Nanos::ZERO });
        self.has_several_turns |= turn.place.is_some();
        let parent = turn.ancestry.filter(|place| place.depth > 0).map(|place| place.parent);
        let (id_high, id_low) = turn.correlation_id.as_u64_pair();
        let (parent_high, parent_low) = parent.unwrap_or_default().as_u64_pair();
        let Observation { start_wall_ns, end_wall_ns, error, values, .. } = turn.observation;
        let value = |tag| values.scalar(tag).filter(|_| error.is_none());
        let kind = error.as_ref().map(|error| error.kind);
        let mut marks = Marks::empty();
        marks.set(Marks::FINAL, place.is_final);
        marks.set(Marks::CANCELLED, kind == Some(ErrorKind::Cancelled));
        marks.set(Marks::FAILED, kind.is_some_and(|kind| kind != ErrorKind::Cancelled));
        marks.set(Marks::GOOD, value(tag::GOOD_REQUEST_COUNT).is_some_and(|good| good > 0.0));
        let name = self.number(turn.conversation_id);
        self.turns.push(Turn {
            session: turn.session,
            id_high,
            id_low,
            parent_high,
            parent_low,
            name,
            index: u32::try_from(turn.index).unwrap_or(u32::MAX),
            children: place.children,
            marks: marks.bits(),
            start: *start_wall_ns,
            end: *end_wall_ns,
            due: turn.due_wall_ns.filter(|_| self.is_scheduled),
            delay: place.delay.0,
            time_to_first_token: value(tag::TIME_TO_FIRST_TOKEN),
            input_tokens: value(tag::INPUT_SEQUENCE_LENGTH),
            output_tokens: value(tag::OUTPUT_SEQUENCE_LENGTH),
            prompt_tokens: value(tag::USAGE_PROMPT_TOKENS),
            cached_tokens: value(tag::USAGE_PROMPT_CACHE_READ_TOKENS),
        });
    }

    /// Returns the index of a conversation's name.
    fn number(&mut self, name: &str) -> u32 {
        if let Some(number) = self.numbers.get(name) {
            return *number;
        }
        let (name, number): (Arc<str>, u32) = (name.into(), self.names.len() as u32);
        self.names.push(Arc::clone(&name));
        self.numbers.insert(name, number);
        number
    }

    /// Returns the sessions; `None` if each is a single turn, as its request has all its facts.
    pub fn sessions(&self) -> Option<Sessions> {
        let store = self.turns.scratch();
        self.has_several_turns.then(|| Sessions {
            turns: Arc::new(Sorted::new(self.turns.iter(), |turn| turn.session, &store)),
            names: self.names.as_slice().into(),
            store,
        })
    }
}

/// The sessions of a phase.
#[derive(Debug, Clone)]
pub struct Sessions {
    /// By the number of the session.
    turns: Arc<Sorted<Turn>>,
    names: Arc<[Arc<str>]>,
    store: Store,
}

/// A session.
#[derive(Debug, Clone)]
pub struct Session {
    /// Its number.
    pub number: u64,
    /// The work of all its conversations.
    pub work: Work,
    /// In the order in which they began, so that the first one is the root of the others.
    pub conversations: Vec<SessionConversation>,
}

/// A conversation of a session.
#[derive(Debug, Clone)]
pub struct SessionConversation {
    /// Its ID in the dataset.
    pub name: Arc<str>,
    /// Its `X-Correlation-ID`.
    pub id: Uuid,
    /// The ID of the conversation that started it.
    pub parent: Option<Uuid>,
    pub work: Work,
}

/// The work of the turns of a session, or of one of its conversations. Sums are over those of its turns
/// that have the value; `None` if none has.
#[derive(Debug, Clone, PartialEq)]
pub struct Work {
    pub end: SessionEnd,
    /// Start of the first request, in nanoseconds since the epoch.
    pub start_wall_ns: u64,
    /// End of the last request, in the same unit.
    pub end_wall_ns: u64,
    /// Number of requests.
    pub turns: u64,
    /// Number of requests that failed, and that the run cancelled.
    pub failed_turns: u64,
    /// Time in which any of its requests was in flight.
    pub(crate) server_time: Nanos,
    /// Time without any in which the dataset did not yet send the next one.
    pub(crate) delay_time: Nanos,
    pub input_tokens: Option<f64>,
    pub output_tokens: Option<f64>,
    /// Tokens of the prompts as the server reports them.
    pub prompt_tokens: Option<f64>,
    /// Those of them that it read from its cache.
    pub cached_tokens: Option<f64>,
    /// Time to first token of the first request, in nanoseconds.
    pub(crate) first_ttft: Option<f64>,
    /// Mean time to first token of the requests that follow another one of their conversation.
    pub(crate) later_ttft: Option<f64>,
    /// Whether each request meets all objectives.
    pub is_good: bool,
}

impl Work {
    /// Returns the time from the first request's start to the last one's end.
    pub const fn duration(&self) -> Nanos {
        Nanos(self.end_wall_ns.saturating_sub(self.start_wall_ns))
    }

    /// Returns the time between requests in which the next one waited for the load's schedule or for
    /// a slot.
    pub(crate) const fn schedule_time(&self) -> Nanos {
        Nanos(self.duration().0.saturating_sub(self.server_time.0 + self.delay_time.0))
    }

    /// Returns the values of the metrics of sessions, in their display units.
    pub fn values(&self) -> impl Iterator<Item = (&'static Metric, f64)> + '_ {
        Registry::catalogue().iter().filter_map(|metric| match metric.kind {
            MetricKind::OfSession(compute) => Some((*metric, metric.to_display(compute(self)?))),
            _ => None,
        })
    }

    /// Adds up `turns`, at least one, in the order of their starts. `is_whole` is whether no turn
    /// and no conversation is missing.
    fn from_turns(turns: &[Turn], is_whole: bool) -> Self {
        let sum = |value: fn(&Turn) -> Option<f64>| {
            let values = turns.iter().filter_map(value);
            values.fold(None, |sum, value| Some(sum.unwrap_or(0.0) + value))
        };
        let has = |mark| turns.iter().any(|turn| turn.is(mark));
        let times = Times::from_turns(turns);
        let later = times.later_ttft;
        Self {
            end: if has(Marks::FAILED) {
                SessionEnd::Failed
            } else if is_whole && !has(Marks::CANCELLED) {
                SessionEnd::Completed
            } else {
                SessionEnd::Cancelled
            },
            start_wall_ns: turns.iter().map(|turn| turn.start).min().unwrap_or(0),
            end_wall_ns: turns.iter().map(|turn| turn.end).max().unwrap_or(0),
            turns: turns.len() as u64,
            failed_turns: turns
                .iter()
                .filter(|turn| turn.is(Marks::FAILED) || turn.is(Marks::CANCELLED))
                .count() as u64,
            server_time: Nanos(times.server),
            delay_time: Nanos(times.delay),
            input_tokens: sum(|turn| turn.input_tokens),
            output_tokens: sum(|turn| turn.output_tokens),
            prompt_tokens: sum(|turn| turn.prompt_tokens),
            cached_tokens: sum(|turn| turn.cached_tokens),
            first_ttft: turns.first().and_then(|turn| turn.time_to_first_token),
            later_ttft: (later.1 > 0).then(|| later.0 / f64::from(later.1)),
            is_good: turns.iter().all(|turn| turn.is(Marks::GOOD)),
        }
    }
}

/// Where the time of requests goes, in nanoseconds.
#[derive(Default)]
struct Times {
    server: u64,
    delay: u64,
    /// Sum and number of the times to first token of turns that follow others.
    later_ttft: (f64, u32),
}

impl Times {
    /// Follows `turns` in the order of their starts.
    fn from_turns(turns: &[Turn]) -> Self {
        let mut times = Self::default();
        let mut begun: HashSet<Uuid> = HashSet::new();
        let mut busy_until = turns.first().map_or(0, |turn| turn.start);
        for turn in turns {
            let planned = turn.due.unwrap_or(busy_until.saturating_add(turn.delay));
            times.delay += planned.min(turn.start).saturating_sub(busy_until);
            times.server += turn.end.saturating_sub(turn.start.max(busy_until));
            busy_until = busy_until.max(turn.end);
            let follows = !begun.insert(turn.id());
            if let Some(ttft) = turn.time_to_first_token.filter(|_| follows) {
                times.later_ttft.0 += ttft;
                times.later_ttft.1 += 1;
            }
        }
        times
    }
}

/// The sessions of a phase counted.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct SessionCounts {
    pub completed: u64,
    pub failed: u64,
    pub cancelled: u64,
    /// Completed ones whose requests all meet the objectives.
    pub good: u64,
    /// Duration of the phase in seconds.
    pub seconds: Option<f64>,
}

impl SessionCounts {
    fn add(&mut self, work: &Work) {
        let count = match work.end {
            SessionEnd::Completed => &mut self.completed,
            SessionEnd::Failed => &mut self.failed,
            SessionEnd::Cancelled => &mut self.cancelled,
        };
        *count += 1;
        self.good += u64::from(work.end == SessionEnd::Completed && work.is_good);
    }

    /// Returns `count` per second of the phase.
    pub fn per_second(&self, count: u64) -> Option<f64> {
        self.seconds.filter(|seconds| *seconds > 0.0).map(|seconds| count as f64 / seconds)
    }
}

impl Sessions {
    /// Iterates over the sessions in the order of their numbers.
    pub fn iter(&self) -> impl Iterator<Item = Session> + '_ {
        let mut turns = self.turns.iter().peekable();
        std::iter::from_fn(move || {
            let number = turns.peek()?.session;
            let mut own = Vec::new();
            while let Some(turn) = turns.next_if(|turn| turn.session == number) {
                own.push(turn);
            }
            own.sort_by_key(|turn| (turn.start, turn.end, turn.index));
            Some(self.session(number, &own))
        })
    }

    /// Puts together the session `number` of `turns`, in the order of their starts.
    fn session(&self, number: u64, turns: &[Turn]) -> Session {
        let mut order: Vec<Uuid> = Vec::new();
        let mut by_id: HashMap<Uuid, Vec<Turn>> = HashMap::new();
        for turn in turns {
            let of_conversation = by_id.entry(turn.id()).or_default();
            if of_conversation.is_empty() {
                order.push(turn.id());
            }
            of_conversation.push(*turn);
        }
        let conversation = |id: Uuid| {
            let turns = by_id.get(&id)?;
            let first = turns.first()?;
            Some(SessionConversation {
                name: self.names.get(first.name as usize).map_or_else(|| "".into(), Arc::clone),
                id,
                parent: first.parent(),
                work: Work::from_turns(turns, turns.iter().any(|turn| turn.is(Marks::FINAL))),
            })
        };
        let conversations: Vec<SessionConversation> =
            order.into_iter().filter_map(conversation).collect();
        let started: u64 = turns.iter().map(|turn| u64::from(turn.children)).sum();
        let has_ended = |turns: &Vec<Turn>| turns.iter().any(|turn| turn.is(Marks::FINAL));
        let is_whole = by_id.values().all(has_ended) && conversations.len() as u64 > started;
        Session { number, work: Work::from_turns(turns, is_whole), conversations }
    }

    /// Computes the metrics of `registry` that are about sessions; `seconds` is the duration of the
    /// phase. Distributions are of completed sessions.
    pub fn results(&self, registry: &Registry, seconds: Option<f64>) -> Vec<MetricResult> {
        let shown = registry.presentation().iter().map(|at| registry.rows()[*at]);
        let mut rows: Vec<_> =
            shown.map(|metric| (metric, Column::new(self.store.clone()))).collect();
        let mut counts = SessionCounts { seconds, ..SessionCounts::default() };
        for Session { work, .. } in self.iter() {
            counts.add(&work);
            if work.end != SessionEnd::Completed {
                continue;
            }
            for (metric, values) in &mut rows {
                if let MetricKind::OfSession(compute) = metric.kind {
                    values.extend(compute(&work).map(|value| metric.to_display(value)));
                }
            }
        }
        let percents = &*registry.settings().percentiles;
        let result = |(metric, values): (&'static Metric, Column<f64>)| {
            let stats = match metric.kind {
                MetricKind::OfSession(_) => statistics(|| values.iter(), percents)?,
                MetricKind::OfSessions(compute) => {
                    let avg = compute(&counts).filter(|value| value.is_finite())?;
                    Stats { avg, ..Stats::default() }
                }
                _ => return None,
            };
            Some(MetricResult { metric, stats })
        };
        rows.into_iter().filter_map(result).collect()
    }
}

/// Computes the metrics of the `sessions`, if there are any, of a phase with the `results` of requests.
pub fn results(
    sessions: Option<&Sessions>,
    registry: &Registry,
    results: &[MetricResult],
) -> Vec<MetricResult> {
    let duration = results.iter().find(|result| result.metric.tag == tag::BENCHMARK_DURATION);
    let seconds = duration.map(|result| result.stats.avg);
    sessions.map_or_else(Vec::new, |sessions| sessions.results(registry, seconds))
}

#[cfg(test)]
mod tests;
