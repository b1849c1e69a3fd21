//! Configuration of lanes that replay trees of conversations.

use serde::{Deserialize, Serialize};

use base::units::Nanos;

/// Lanes, each of which replays trees of conversations as agents recorded them, one after the other.
/// Their number is the concurrency of the phase.
///
/// A lane enters its first tree in the middle. The phases of a run with lanes continue each other: primers, a
/// warmup of the cache, and the replay.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Agentic {
    /// The requests of the phase.
    pub part: AgenticPart,
    /// Where lanes enter their first trees.
    pub entry: EntryRange,
    /// Whether the requests with which a phase begins are sent at once, instead of at their recorded
    /// distances.
    pub bursts: bool,
    /// Longest time without any request in flight. If it passes, all waiting requests move to an earlier
    /// time.
    pub system_idle_cap: Option<Nanos>,
    /// Longest time in which a tree does not have any request in flight. If it passes, the waiting requests of
    /// the tree move to an earlier time.
    pub tree_idle_cap: Option<Nanos>,
}

/// The requests of a phase of lanes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum AgenticPart {
    /// The last request before its entry of each conversation that is entered in the middle, for a
    /// single token.
    Primers,
    /// The requests that follow, without delays and for a single token each: so many of each lane.
    CacheRequests(u64),
    /// The requests that follow, without delays and for a single token each, for so long.
    CacheDuration(Nanos),
    /// The trees as recorded, which is the measurement.
    Replay,
}

/// The part of a tree's recorded duration in which lanes enter it, as fractions of it from 0 to 1.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct EntryRange {
    /// The earliest.
    pub min: f64,
    /// The latest; not smaller than `min`.
    pub max: f64,
}

impl EntryRange {
    /// Trees are entered in the middle half of their durations.
    pub const MIDDLE: Self = Self { min: 0.25, max: 0.75 };
}
