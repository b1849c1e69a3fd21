//! Conversations without their texts, as files of formats that this program reads.

pub mod mooncake;
#[cfg(test)]
mod tests;
pub mod weka;

use std::collections::{BTreeMap, HashSet};

use base::setting::named;
use base::units::Nanos;

use crate::Turn;

/// Formats with lengths and numbers of blocks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum AnonymousFormat {
    /// A conversation and its sub-agents per line.
    WekaTrace,
    /// A request per line.
    MooncakeTrace,
}

named! { AnonymousFormat { "weka_trace" => WekaTrace, "mooncake_trace" => MooncakeTrace } }

/// The parts of a dataset that a format cannot express.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Lost {
    /// A request has images, audio or video.
    Media,
    /// A request declares tools, of which the names are kept elsewhere.
    Tools,
    /// A conversation is started by another one.
    Tree,
    /// A request waits for the one before it, whose messages it does not repeat.
    Order,
    /// A request later than the next waits for a sub-agent.
    LaterJoin,
    /// Sub-agents are nested too deep.
    Depth,
}

impl Lost {
    /// Returns what is different, in words that follow a number.
    const fn words(self) -> &'static str {
        match self {
            Self::Media => "requests have images, audio or video, which are left out",
            Self::Tools => "requests declare tools, whose names are left out",
            Self::Tree => {
                "conversations that others start are sessions of their own, for whose end nothing waits"
            }
            Self::Order => "requests do not wait for the one before them",
            Self::LaterJoin => {
                "sub-agents end before the next request of their agent, and not later as in the input"
            }
            Self::Depth => "sub-agents are nested too deep, and left out",
        }
    }
}

/// The numbers of what was written.
#[derive(Debug, Default, Clone, PartialEq, Eq)]
pub struct Written {
    /// Conversations that sessions draw.
    pub conversations: u64,
    pub requests: u64,
    lost: BTreeMap<Lost, u64>,
}

impl Written {
    /// Counts what the format cannot express.
    pub(crate) fn lose(&mut self, what: Lost, count: u64) {
        if count > 0 {
            *self.lost.entry(what).or_default() += count;
        }
    }

    /// Counts what an earlier conversion could not express.
    pub fn add(&mut self, other: &Self) {
        for (what, count) in &other.lost {
            self.lose(*what, *count);
        }
    }

    /// Returns the numbers of what is different, each with words that follow it.
    pub fn differences(&self) -> impl Iterator<Item = (u64, &'static str)> {
        self.lost.iter().map(|(what, count)| (*count, what.words()))
    }
}

/// Returns how long a turn waits after `before`, if responses take no time: its delay, or the recorded
/// time between the two.
pub fn wait(before: Option<&Turn>, turn: &Turn) -> Nanos {
    let recorded = before.and_then(|before| before.timestamp).zip(turn.timestamp);
    turn.delay.max(recorded.map(|(before, at)| at.since(before)).unwrap_or_default())
}

/// Names, each given once.
#[derive(Default)]
struct Names(HashSet<String>);

impl Names {
    /// Returns `name`, with a number if it was given before.
    fn unique(&mut self, name: &str) -> String {
        let numbered = (2..).map(|number| format!("{name}-{number}"));
        let mut names = std::iter::once(name.to_owned()).chain(numbered);
        let free = names.find(|name| !self.0.contains(name)).unwrap_or_default();
        self.0.insert(free.clone());
        free
    }
}
