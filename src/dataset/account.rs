//! The account of a dataset: how many requests its source has, and what became of each.
//!
//! Conversations can only be removed with a reason, so that what was read is what is left plus what
//! was left out.

use std::collections::{BTreeMap, HashSet};
use std::fmt::Write as _;
use std::hash::Hash;
use std::ops::{Deref, DerefMut};

use serde::{Deserialize, Serialize};

use base::setting::named;

use super::Conversation;

/// Why a request of the source is not sent.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum LeftOut {
    /// It failed when the trace was recorded.
    Failed,
    /// It lacks a prompt, or the response that gives the output length of a format that needs one.
    WithoutPrompt,
    /// It is shorter than the format's own limit.
    TooShort,
    /// It is longer than the format's own limit.
    TooLong,
    /// Only the first turn of its conversation is sent.
    LaterTurn,
    /// Its row is of another category, or does not pass a filter.
    Filtered,
    /// It is beyond the number of conversations to use.
    BeyondLimit,
    /// Its prompt is longer than `--synthesis-max-isl`.
    MaxInput,
    /// Its conversation has a request that is longer than `--max-context-length`.
    MaxContext,
    /// Its conversation is not in the share that `--trace-session-sample-ratio` draws.
    NotSampled,
    /// It is due outside the window of the fixed schedule.
    OutsideWindow,
    /// The run ended before it, or did not draw it.
    NotReached,
    /// It is missing without a reason.
    Unexplained,
}

named! {
    LeftOut {
        "failed" => Failed,
        "without_prompt" => WithoutPrompt,
        "too_short" => TooShort,
        "too_long" => TooLong,
        "later_turn" => LaterTurn,
        "filtered" => Filtered,
        "beyond_limit" => BeyondLimit,
        "synthesis_max_isl" => MaxInput,
        "max_context_length" => MaxContext,
        "not_sampled" => NotSampled,
        "outside_window" => OutsideWindow,
        "not_reached" => NotReached,
        "unexplained" => Unexplained,
    }
}

impl LeftOut {
    /// Returns the reason in words that follow a number of requests.
    const fn words(self) -> &'static str {
        match self {
            Self::Failed => "failed when recorded",
            Self::WithoutPrompt => "without a usable prompt",
            Self::TooShort => "too short",
            Self::TooLong => "too long",
            Self::LaterTurn => "later turns of conversations of which only the first is sent",
            Self::Filtered => "of another category, or not selected by a filter",
            Self::BeyondLimit => "beyond the number of conversations to use",
            Self::MaxInput => "longer than --synthesis-max-isl",
            Self::MaxContext => "longer than --max-context-length",
            Self::NotSampled => "not drawn by --trace-session-sample-ratio",
            Self::OutsideWindow => "outside the window of the fixed schedule",
            Self::NotReached => "not drawn before the run ended",
            Self::Unexplained => "for unknown reasons",
        }
    }
}

/// The fate of the requests of a dataset that was read. What was read is what was sent, or what
/// is to be sent before the run, plus what was left out.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema)]
pub struct Account {
    /// Requests in the source, as far as it was read. An entry that cannot be used counts as one.
    read: u64,
    /// Requests that are not sent, by reason.
    left_out: BTreeMap<LeftOut, u64>,
    /// Requests that were sent; absent before the run.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    sent: Option<u64>,
    /// Requests that were sent although they had been sent before; absent before the run.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    repeated: Option<u64>,
    /// Whether reading stopped at the number of conversations to use, so that the source may have
    /// more.
    #[serde(skip_serializing_if = "is_false", default)]
    stopped_at_limit: bool,
    /// The pool of which requests were drawn, if it is not the source.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pool: Option<Pool>,
}

/// The lines that requests are drawn from.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema)]
pub struct Pool {
    /// Number of lines.
    pub(super) lines: u64,
    /// Number of lines that no request has a part of.
    pub(super) unused: u64,
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde hands over a reference")]
const fn is_false(value: &bool) -> bool {
    !*value
}

impl Account {
    /// Returns the number of requests in the source.
    #[cfg(test)]
    pub const fn read(&self) -> u64 {
        self.read
    }

    /// Returns the number of requests that are not left out.
    pub fn kept(&self) -> u64 {
        self.read.saturating_sub(self.left_out.values().sum())
    }

    /// Returns the number of requests left out for this reason.
    #[cfg(test)]
    pub fn left_out(&self, why: LeftOut) -> u64 {
        self.left_out.get(&why).copied().unwrap_or(0)
    }

    fn leave_out(&mut self, why: LeftOut, requests: u64) {
        if requests > 0 {
            *self.left_out.entry(why).or_default() += requests;
        }
    }

    /// Returns the account of two parts together.
    #[must_use]
    pub fn and(mut self, other: Self) -> Self {
        self.read += other.read;
        for (why, requests) in other.left_out {
            self.leave_out(why, requests);
        }
        self.stopped_at_limit |= other.stopped_at_limit;
        self.pool = match (self.pool, other.pool) {
            (Some(one), Some(two)) => {
                Some(Pool { lines: one.lines + two.lines, unused: one.unused + two.unused })
            }
            (one, two) => one.or(two),
        };
        let sum = |one: Option<u64>, two: Option<u64>| Some(one? + two?);
        self.sent = sum(self.sent, other.sent);
        self.repeated = sum(self.repeated, other.repeated);
        self
    }

    /// Returns the account after a run that sent these requests.
    #[must_use]
    pub fn after(mut self, sent: Sent) -> Self {
        self.leave_out(LeftOut::NotReached, self.kept().saturating_sub(sent.requests));
        self.sent = Some(self.kept());
        self.repeated = Some(sent.repeated);
        self
    }

    /// Returns the account before the run.
    #[must_use]
    pub fn before(mut self) -> Self {
        self.left_out.remove(&LeftOut::NotReached);
        (self.sent, self.repeated) = (None, None);
        self
    }

    /// Returns whether each request of the source is sent, and none twice.
    pub fn is_whole(&self) -> bool {
        self.left_out.is_empty()
            && self.repeated.unwrap_or(0) == 0
            && !self.stopped_at_limit
            && self.pool.is_none_or(|pool| pool.unused == 0)
    }

    /// Returns the reasons, each with its number; empty if nothing is left out.
    pub fn reasons(&self) -> String {
        let reason = |(why, number): (&LeftOut, &u64)| format!("{number} {}", why.words());
        self.left_out.iter().map(reason).collect::<Vec<_>>().join(", ")
    }

    /// `40 requests read, 20 sent, 20 left out: 20 longer than --max-context-length`
    pub fn text(&self) -> String {
        let plural = |count: u64| if count == 1 { "" } else { "s" };
        let used = if self.sent.is_some() { "sent" } else { "to send" };
        let kept = self.kept();
        let mut text = format!("{} request{} read, {kept} {used}", self.read, plural(self.read));
        // Writing to a string cannot fail.
        if !self.left_out.is_empty() {
            let _ = write!(text, ", {} left out: {}", self.read - kept, self.reasons());
        }
        if let Some(repeated) = self.repeated.filter(|repeated| *repeated > 0) {
            let _ = write!(text, "; {repeated} more sent as repetitions");
        }
        if let Some(pool) = self.pool {
            let Pool { lines, unused } = pool;
            let _ = write!(
                text,
                "; drawn from {lines} line{}, {unused} of which no request has",
                plural(lines)
            );
        }
        if self.stopped_at_limit {
            text.push_str("; the rest of the dataset was not read");
        }
        text
    }
}

/// How many requests of a dataset a run sent.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Sent {
    /// Different requests.
    pub requests: u64,
    /// Requests that had been sent before.
    pub repeated: u64,
    /// Requests of parts that are not in the account, since they are generated.
    #[serde(skip_serializing_if = "is_none", default)]
    pub generated: u64,
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde hands over a reference")]
const fn is_none(count: &u64) -> bool {
    *count == 0
}

impl Sent {
    /// Returns the number of requests that were sent, with repetitions.
    pub const fn total(self) -> u64 {
        self.requests.saturating_add(self.repeated).saturating_add(self.generated)
    }
}

/// Counts the requests of a dataset that were sent, by conversation and turn.
#[derive(Debug, Default)]
pub struct SentCounter<K> {
    seen: HashSet<(K, usize)>,
    repeated: u64,
    generated: u64,
}

impl<K: Hash + Eq> SentCounter<K> {
    /// Counts a request: a turn of a conversation, of a part that is in the account if it
    /// `is_accounted`.
    pub fn count(&mut self, is_accounted: bool, conversation: K, turn: usize) {
        if !is_accounted {
            self.generated += 1;
            return;
        }
        self.repeated += u64::from(!self.seen.insert((conversation, turn)));
    }

    pub fn sent(&self) -> Sent {
        let Self { seen, repeated, generated } = self;
        Sent { requests: seen.len() as u64, repeated: *repeated, generated: *generated }
    }
}

/// Conversations, and the account of the requests that their source has. It is a slice, of which
/// nothing can be removed without a reason.
#[derive(Debug, Clone, Default)]
pub struct Conversations {
    all: Vec<Conversation>,
    account: Account,
}

impl From<Vec<Conversation>> for Conversations {
    fn from(all: Vec<Conversation>) -> Self {
        let account = Account { read: requests(&all), ..Account::default() };
        Self { all, account }
    }
}

impl Deref for Conversations {
    type Target = [Conversation];

    fn deref(&self) -> &[Conversation] {
        &self.all
    }
}

impl DerefMut for Conversations {
    fn deref_mut(&mut self) -> &mut [Conversation] {
        &mut self.all
    }
}

impl<'a> IntoIterator for &'a Conversations {
    type Item = &'a Conversation;
    type IntoIter = std::slice::Iter<'a, Conversation>;

    fn into_iter(self) -> Self::IntoIter {
        self.all.iter()
    }
}

impl Conversations {
    /// Returns requests that were drawn from `pool`.
    pub(super) fn drawn(all: Vec<Conversation>, pool: Pool) -> Self {
        let mut drawn = Self::from(all);
        drawn.account.pool = Some(pool);
        drawn
    }

    /// Returns the account so far.
    pub fn account(&self) -> Account {
        let mut account = self.account.clone();
        let missing = account.kept().saturating_sub(requests(&self.all));
        account.leave_out(LeftOut::Unexplained, missing);
        account
    }

    /// Returns the conversations without their account.
    #[must_use]
    pub fn into_vec(self) -> Vec<Conversation> {
        self.all
    }

    /// Adds a conversation of the source.
    pub(super) fn push(&mut self, conversation: Conversation) {
        self.account.read += requests(std::slice::from_ref(&conversation));
        self.all.push(conversation);
    }

    /// Counts requests of the source that none of the conversations has.
    pub(super) fn leave_out(&mut self, why: LeftOut, requests: u64) {
        self.account.read += requests;
        self.account.leave_out(why, requests);
    }

    /// Notes that the source may have more than was read.
    pub(super) const fn stop_at_limit(&mut self) {
        self.account.stopped_at_limit = true;
    }

    /// Keeps the conversations for which `keeps` returns true; it is called with the place of each.
    pub fn retain(&mut self, why: LeftOut, mut keeps: impl FnMut(usize, &Conversation) -> bool) {
        let before = requests(&self.all);
        let mut at = 0;
        self.all.retain(|conversation| {
            at += 1;
            keeps(at - 1, conversation)
        });
        self.account.leave_out(why, before - requests(&self.all));
    }

    /// Shortens each conversation to the number of turns that `turns` returns for it.
    pub fn shorten(&mut self, why: LeftOut, turns: impl Fn(&Conversation) -> usize) {
        let before = requests(&self.all);
        for conversation in &mut self.all {
            let kept = turns(conversation);
            conversation.turns.truncate(kept);
        }
        self.account.leave_out(why, before - requests(&self.all));
    }

    /// Replaces the conversations by others with the same requests.
    pub fn rearrange(&mut self, change: impl FnOnce(Vec<Conversation>) -> Vec<Conversation>) {
        self.all = change(std::mem::take(&mut self.all));
    }
}

/// Returns the number of requests that the conversations send themselves.
fn requests(conversations: &[Conversation]) -> u64 {
    let own = |it: &Conversation| it.own_turns().len();
    conversations.iter().map(own).sum::<usize>() as u64
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Turn;

    fn conversation(turns: usize) -> Conversation {
        Conversation { turns: vec![Turn::default(); turns], ..Conversation::default() }
    }

    fn five_conversations() -> Conversations {
        (1..=5).map(conversation).collect::<Vec<_>>().into()
    }

    #[test]
    fn what_was_read_is_kept_or_left_out() {
        let mut all = five_conversations();
        all.leave_out(LeftOut::Failed, 2);
        all.push(conversation(3));
        all.retain(LeftOut::MaxContext, |at, _| at != 4);
        all.shorten(LeftOut::OutsideWindow, |_| 2);
        let account = all.account();
        // 1 + 2 + 3 + 4 + 5 turns and 3, and 2 that failed.
        assert_eq!((account.read(), account.kept()), (20, 9));
        let left_out = [LeftOut::Failed, LeftOut::MaxContext, LeftOut::OutsideWindow];
        assert_eq!(left_out.map(|why| account.left_out(why)), [2, 5, 4]);
        assert!(!account.is_whole());
        assert_eq!(
            account.text(),
            "20 requests read, 9 to send, 11 left out: 2 failed when recorded, 5 longer than \
             --max-context-length, 4 outside the window of the fixed schedule"
        );
    }

    #[test]
    fn a_request_that_is_removed_without_a_reason_is_noticed() {
        let mut all = five_conversations();
        all.rearrange(|mut all| {
            all.pop();
            all
        });
        all[0].turns.clear();
        let account = all.account();
        assert_eq!((account.read(), account.kept()), (15, 9));
        assert_eq!(account.left_out(LeftOut::Unexplained), 6);
    }

    #[test]
    fn what_is_sent_and_what_is_left_out_are_all() {
        let mut counter = SentCounter::default();
        for (conversation, turn) in [(0, 0), (1, 0), (1, 1), (0, 0), (1, 0), (0, 0)] {
            counter.count(true, conversation, turn);
        }
        // Of a part that is generated, while this one is read.
        counter.count(false, 9, 0);
        assert_eq!(counter.sent(), Sent { requests: 3, repeated: 3, generated: 1 });
        assert_eq!(counter.sent().total(), 7);
        let account = five_conversations().account();
        assert!(account.is_whole());
        let after = account.after(counter.sent());
        assert_eq!(
            serde_json::to_value(&after).unwrap(),
            serde_json::json!({
                "read": 15, "left_out": {"not_reached": 12}, "sent": 3, "repeated": 3,
            })
        );
        assert_eq!(
            after.text(),
            "15 requests read, 3 sent, 12 left out: 12 not drawn before the run ended; 3 more sent \
             as repetitions"
        );
    }

    /// A fork repeats the turns of its parent, but does not send them.
    #[test]
    fn inherited_turns_are_not_requests() {
        let fork = Conversation { inherited_turns: 3, ..conversation(5) };
        assert_eq!(Conversations::from(vec![conversation(3), fork]).account().read(), 5);
    }
}
