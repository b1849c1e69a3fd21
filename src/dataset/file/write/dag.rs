//! Writes `dag_jsonl`: a conversation per line, with the messages of its turns.

use std::io::{self, Write};

use super::super::dag::{ContextMode, Fork, Line, SettledFork, SettledSpawn, Spawn, TurnMembers};
use super::messages::{Said, Whole, array, has_system, said, whole};
use super::{Lost, Names, Written, millis, own};
use crate::dataset::{Branch, Conversation, Turn};
use crate::units::Nanos;

/// Writes all conversations. One whose requests do not have messages is left out.
pub(super) fn write(conversations: &[Conversation], out: &mut impl Write) -> io::Result<Written> {
    let mut names = Names::default();
    let names = conversations.iter().map(|of| names.unique(&of.id)).collect();
    let modes: Vec<ContextMode> = conversations.iter().map(|of| mode(of, conversations)).collect();
    let mut writer = Writer {
        all: conversations,
        names,
        modes,
        forks: vec![false; conversations.len()],
        written: Written::default(),
    };
    for (index, of) in conversations.iter().enumerate() {
        for branch in &of.branches {
            if writer.stays_fork(index, branch) {
                writer.forks[branch.conversation] = true;
            }
        }
    }
    let lines: Vec<Option<Line>> = (0..conversations.len()).map(|at| writer.line(at)).collect();
    for (line, of) in lines.iter().zip(conversations) {
        let Some(line) = line else {
            writer.written.lose(Lost::Body, own(of).len() as u64);
            continue;
        };
        writer.written.conversations += u64::from(!of.is_child);
        writer.written.requests += line.turns.len() as u64;
        serde_json::to_writer(&mut *out, line)?;
        out.write_all(b"\n")?;
    }
    Ok(writer.written)
}

struct Writer<'a> {
    all: &'a [Conversation],
    /// The name of each conversation.
    names: Vec<String>,
    modes: Vec<ContextMode>,
    /// Whether each conversation is written as a fork.
    forks: Vec<bool>,
    written: Written,
}

/// Returns what the messages of a conversation's turns are: the new ones, if the whole conversation can
/// be written so.
fn mode(of: &Conversation, all: &[Conversation]) -> ContextMode {
    let turns = own(of);
    let later = turns.get(1..).unwrap_or_default();
    let begins_anew = |turn: &Turn| turn.starts_anew || has_system(turn);
    if of.standalone_turns
        || turns.iter().any(|turn| turn.raw_payload.is_some())
        || later.iter().any(begins_anew)
    {
        return ContextMode::Whole;
    }
    let of_own = turns.iter().take(later.len()).map(|turn| turn.answer_is_recorded);
    // Whether the last response is recorded is known only of those who continue it.
    let continued =
        of.branches.iter().filter(|it| it.is_fork && after_own(of, it) == Some(later.len()));
    let of_last = continued.filter_map(|branch| {
        Some(all.get(branch.conversation)?.turn(branch.after?)?.answer_is_recorded)
    });
    let mut recorded = of_own.chain(of_last);
    match recorded.next() {
        Some(first) if recorded.any(|other| other != first) => ContextMode::Whole,
        Some(true) => ContextMode::Recorded,
        _ => ContextMode::Live,
    }
}

/// Returns the conversation's own turn after which another one starts, counted from its first one.
fn after_own(of: &Conversation, branch: &Branch) -> Option<usize> {
    branch.after?.checked_sub(of.inherited_turns)
}

impl Writer<'_> {
    /// Returns whether a branch of the conversation `at` can be written as a fork. Otherwise it is written
    /// as a spawn whose first turn has the whole history.
    fn stays_fork(&self, at: usize, branch: &Branch) -> bool {
        let (Some(after), Some(child)) = (branch.after, self.all.get(branch.conversation)) else {
            return false;
        };
        let parent = &self.all[at];
        let is_whole = |at: usize| self.modes[at] == ContextMode::Whole;
        let has_responses = self.modes[at] == ContextMode::Recorded;
        let expected = |turn: usize| match parent.turn(turn) {
            Some(inherited) if turn < parent.inherited_turns => inherited.answer_is_recorded,
            _ => has_responses,
        };
        let mut inherited = child.turns_in(0..after + 1).enumerate();
        branch.is_fork
            && branch.join.is_none()
            && !is_whole(at)
            && !is_whole(branch.conversation)
            && !own(child).first().is_some_and(has_system)
            && inherited.all(|(at, turn)| turn.answer_is_recorded == expected(at))
    }

    /// Returns the line of a conversation; `None` if a request does not have messages.
    fn line(&mut self, at: usize) -> Option<Line> {
        let of = &self.all[at];
        let mode = self.modes[at];
        let count = own(of).len();
        let mut line = Line {
            session_id: self.names[at].clone(),
            context_mode: Some(mode).filter(|mode| *mode != ContextMode::Live),
            ..Line::default()
        };
        for place in 0..count {
            let turn = self.turn(at, place)?;
            line.turns.push(turn);
        }
        for branch in &of.branches {
            let Some(name) = self.names.get(branch.conversation).cloned() else { continue };
            let join = branch.join.and_then(|join| join.checked_sub(of.inherited_turns));
            let Some(after) = after_own(of, branch) else {
                self.written.lose(Lost::Join, u64::from(join.is_some()));
                line.pre_session_spawns.push(name);
                continue;
            };
            let Some(turn) = line.turns.get_mut(after) else { continue };
            let next = Some(after + 1).filter(|next| *next < count);
            if branch.is_fork && self.forks[branch.conversation] {
                turn.forks.push(match next {
                    None => Fork::Plain(name),
                    Some(_) => Fork::Settled(SettledFork { child: name, background: true }),
                });
                continue;
            }
            self.written.lose(Lost::NoJoin, u64::from(join.is_none() && next.is_some()));
            turn.spawns.push(if join.is_none() || join == next {
                Spawn::Plain(name)
            } else {
                Spawn::Settled(SettledSpawn { children: vec![name], join_at: join })
            });
        }
        Some(line)
    }

    /// Returns the own turn at `place` of a conversation.
    fn turn(&mut self, at: usize, place: usize) -> Option<TurnMembers> {
        let of = &self.all[at];
        let turn = own(of).get(place)?;
        let begins = place == 0 && of.inherited_turns > 0 && !self.forks[at];
        let has_history = begins || self.modes[at] == ContextMode::Whole;
        let said = if has_history {
            let Whole { said, lacks_response } = whole(of, of.inherited_turns + place)?;
            self.written.lose(Lost::Response, u64::from(lacks_response));
            said
        } else {
            said(turn)?
        };
        let Said { messages, tools, extra } = said;
        let has_names = turn.texts.iter().any(|text| text.name().is_some());
        self.written.lose(Lost::Names, u64::from(has_names));
        self.written.lose(Lost::Media, u64::from(!turn.media.is_empty()));
        Some(TurnMembers {
            timestamp: turn.timestamp.map(Nanos::as_millis),
            delay: millis(turn.delay),
            model: Some(turn.model.to_string()).filter(|model| !model.is_empty()),
            messages: array(&messages),
            tools,
            max_tokens: turn.max_tokens.filter(|tokens| *tokens > 0),
            extra: Some(extra).filter(|extra| !extra.is_empty()),
            forks: Vec::new(),
            spawns: Vec::new(),
        })
    }
}
