//! The state of the lanes at one moment.

use serde::Serialize;

use dataset::KnownBlocks;

/// The state of the lanes at one moment of a phase.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize)]
pub struct LaneLoad {
    /// Lanes that replay a tree.
    pub lanes: u64,
    /// Conversations of these trees that have begun and not ended.
    pub conversations: u64,
    /// Depth of the deepest agent with a request in flight, 0 for the root of a tree; absent if nothing is in
    /// flight.
    pub depth: Option<u64>,
    /// Tokens of the prompts in flight, as they were recorded.
    pub context_tokens: u64,
    /// Share of the blocks of the prompts so far that earlier requests of their traces have, in percent; absent
    /// without any.
    pub theoretical_hit_percent: Option<f64>,
}

/// Counts what lanes do.
#[derive(Debug, Default)]
pub(crate) struct LaneCounts {
    /// Number of conversations of each lane's tree that have begun and not ended.
    conversations: Vec<u64>,
    /// Number of requests in flight, by the depth of their agents.
    in_flight: Vec<u64>,
    context_tokens: u64,
    known_blocks: u64,
    blocks: u64,
}

impl LaneCounts {
    /// Takes note of how many conversations of a lane's tree have begun and not ended.
    pub(crate) fn stands(&mut self, lane: usize, conversations: usize) {
        grown(&mut self.conversations, lane);
        self.conversations[lane] = conversations as u64;
    }

    /// Counts a request of an agent at this depth that is sent.
    pub(crate) fn sent(&mut self, depth: u32, prompt: Option<KnownBlocks>) {
        grown(&mut self.in_flight, depth as usize);
        self.in_flight[depth as usize] += 1;
        if let Some(KnownBlocks { known, all, tokens }) = prompt {
            self.context_tokens += u64::from(tokens);
            self.known_blocks += u64::from(known);
            self.blocks += u64::from(all);
        }
    }

    /// Counts the return of such a request.
    pub(crate) fn returned(&mut self, depth: u32, prompt: Option<KnownBlocks>) {
        if let Some(count) = self.in_flight.get_mut(depth as usize) {
            *count = count.saturating_sub(1);
        }
        let tokens = prompt.map_or(0, |prompt| prompt.tokens.into());
        self.context_tokens = self.context_tokens.saturating_sub(tokens);
    }

    /// Returns what lanes do now; `None` without lanes.
    pub(crate) fn load(&self) -> Option<LaneLoad> {
        let deepest = self.in_flight.iter().rposition(|count| *count > 0);
        let hits = || 100.0 * self.known_blocks as f64 / self.blocks as f64;
        (!self.conversations.is_empty()).then(|| LaneLoad {
            lanes: self.conversations.iter().filter(|count| **count > 0).count() as u64,
            conversations: self.conversations.iter().sum(),
            depth: deepest.map(|depth| depth as u64),
            context_tokens: self.context_tokens,
            theoretical_hit_percent: (self.blocks > 0).then(hits),
        })
    }
}

/// Makes room for the index `at`.
fn grown(counts: &mut Vec<u64>, at: usize) {
    counts.resize(counts.len().max(at + 1), 0);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lanes_are_counted_while_their_requests_are_in_flight() {
        let mut counts = LaneCounts::default();
        assert_eq!(counts.load(), None);
        counts.stands(1, 3);
        counts.stands(0, 0);
        let idle = LaneLoad { lanes: 1, conversations: 3, ..LaneLoad::default() };
        assert_eq!(counts.load(), Some(idle));
        let prompt = |known, all| Some(KnownBlocks { known, all, tokens: 16 * all });
        counts.sent(0, prompt(0, 4));
        counts.sent(2, prompt(3, 4));
        counts.sent(1, None);
        // 3 of 8 blocks, 128 tokens.
        let busy = LaneLoad {
            depth: Some(2),
            context_tokens: 128,
            theoretical_hit_percent: Some(37.5),
            ..idle
        };
        assert_eq!(counts.load(), Some(busy));
        counts.returned(2, prompt(3, 4));
        assert_eq!(counts.load(), Some(LaneLoad { depth: Some(1), context_tokens: 64, ..busy }));
        counts.returned(1, None);
        counts.returned(0, prompt(0, 4));
        assert_eq!(counts.load(), Some(LaneLoad { depth: None, context_tokens: 0, ..busy }));
    }
}
