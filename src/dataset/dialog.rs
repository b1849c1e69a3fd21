//! Conversations whose messages are blocks of a trace. Their texts are made when they are needed.
//!
//! Each prompt of a trace has its whole history. A prompt is stored as what it adds to the one before
//! it: how many blocks it keeps, the numbers of the new blocks, and which of them the assistant said.
//! The rules are those of AIPerf.

use std::fmt;
use std::sync::Arc;

use super::words::Words;
use super::{CacheBust, Text};

/// The prompts of a conversation, one for each turn.
pub(super) struct Dialog {
    words: Arc<Words>,
    block_tokens: u32,
    /// Numbers of the blocks that prompts add, one prompt after the other.
    blocks: Vec<u32>,
    steps: Vec<Step>,
}

impl fmt::Debug for Dialog {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Dialog").field("steps", &self.steps).finish_non_exhaustive()
    }
}

/// The addition of a prompt to the one before it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Step {
    /// Number of first blocks of the prompt before that this one has too.
    kept: u32,
    /// Place of the first new block in [`Dialog::blocks`].
    first: u32,
    /// Number of new blocks that the system message (of the first prompt) or the assistant has.
    lead: u32,
    /// Number of new blocks that the user has.
    user: u32,
    /// What the user has after the blocks, which no other prompt keeps: the number of a block, and its
    /// tokens, of which there may be none.
    tail: (u32, u32),
}

impl Step {
    const fn covered(self) -> u32 {
        self.kept + self.lead + self.user
    }
}

/// A message of a prompt.
#[derive(Debug, Clone)]
pub struct Message {
    /// `system`, `user` or `assistant`.
    pub role: &'static str,
    pub text: Text,
}

/// A message as blocks.
struct Outline {
    role: &'static str,
    /// Place of its first block, and their number.
    first: u32,
    blocks: u32,
    tail: (u32, u32),
}

impl Dialog {
    /// Returns the messages of the prompt `at`, without texts.
    fn outline(&self, at: usize) -> Vec<Outline> {
        let mut outline = Vec::new();
        let mut most = u32::MAX;
        for (nth, step) in self.steps.iter().enumerate().take(at + 1).rev() {
            // Blocks that a later prompt has not kept are not of this one.
            let new = most.saturating_sub(step.kept).min(step.lead + step.user);
            let tail = if nth == at { step.tail } else { (0, 0) };
            let lead = step.lead.min(new);
            let (first, blocks) = (step.first + step.lead, new - lead);
            if blocks > 0 || tail.1 > 0 {
                outline.push(Outline { role: "user", first, blocks, tail });
            }
            if lead > 0 {
                let role = if nth == 0 { "system" } else { "assistant" };
                outline.push(Outline { role, first: step.first, blocks: lead, tail: (0, 0) });
            }
            most = most.min(step.kept);
            if most == 0 {
                break;
            }
        }
        outline.reverse();
        outline
    }

    /// Returns the messages of the prompt `at`.
    fn messages(&self, at: usize) -> Vec<Message> {
        let text = |outline: Outline| {
            let mut pieces = Vec::with_capacity(outline.blocks as usize * 4);
            self.write(&outline, &mut pieces);
            Message { role: outline.role, text: joined(pieces) }
        };
        self.outline(at).into_iter().map(text).collect()
    }

    /// Appends the text of a message.
    fn write(&self, outline: &Outline, pieces: &mut Vec<&'static str>) {
        let first = outline.first as usize;
        let blocks = self.blocks.get(first..first + outline.blocks as usize).unwrap_or_default();
        let whole = blocks.iter().map(|block| (*block, self.block_tokens));
        let tail = Some(outline.tail).filter(|(_, tokens)| *tokens > 0);
        for (block, tokens) in whole.chain(tail) {
            self.words.write(block.into(), tokens, pieces);
        }
    }

    /// Returns the number of tokens of the prompt `at`; `None` if its texts must be counted.
    fn tokens(&self, at: usize) -> Option<u64> {
        let step = self.steps.get(at).filter(|_| self.words.adds_up())?;
        Some(u64::from(step.covered()) * u64::from(self.block_tokens) + u64::from(step.tail.1))
    }
}

/// Joins the parts of a message. Chat templates strip leading space.
fn joined(mut pieces: Vec<&'static str>) -> Text {
    if let Some(first) = pieces.first_mut() {
        *first = first.trim_start();
    }
    Text::joined(&pieces)
}

/// A prompt of a [`Dialog`].
#[derive(Debug, Clone)]
pub struct Prompt {
    dialog: Arc<Dialog>,
    at: usize,
    /// The text that one of the messages has in addition, which depends on the mode.
    marker: Option<(CacheBust, Arc<str>)>,
}

impl Prompt {
    /// Returns the messages, in order: the system message, if there is one, and those of the user and
    /// the assistant.
    pub fn messages(&self) -> Vec<Message> {
        let mut messages = self.dialog.messages(self.at);
        if let Some((mode, marker)) = &self.marker {
            let place = |role| messages.iter().position(|message| message.role == role);
            let system = mode.is_of_system().then(|| place("system")).flatten();
            match system.or_else(|| place("user")).and_then(|at| messages.get_mut(at)) {
                Some(marked) => {
                    marked.text = mode.marked(&marked.text.to_string(), marker).into();
                }
                None => messages.push(Message { role: "user", text: (**marker).into() }),
            }
        }
        messages
    }

    /// Returns all messages as one text, for APIs without messages.
    pub fn text(&self) -> Text {
        let mut pieces = Vec::new();
        for outline in self.dialog.outline(self.at) {
            self.dialog.write(&outline, &mut pieces);
        }
        let text = joined(pieces);
        match &self.marker {
            Some((mode, marker)) => mode.marked(&text.to_string(), marker).into(),
            None => text,
        }
    }

    /// Returns the number of tokens without a marker; `None` if they must be counted.
    pub(super) fn tokens(&self) -> Option<u64> {
        self.dialog.tokens(self.at)
    }

    /// Adds a marker, as the mode requires.
    pub(super) fn mark(&mut self, mode: CacheBust, marker: &str) {
        self.marker = Some((mode, marker.into()));
    }
}

/// A prompt as a trace has it.
#[derive(Debug, Clone, Copy)]
pub(super) struct Recorded<'a, I> {
    pub(super) input_tokens: u32,
    /// Tokens of the response to it.
    pub(super) output_tokens: u32,
    /// Identifiers of its blocks, of which the last one may be shorter than the others.
    pub(super) hash_ids: &'a [I],
}

/// A prompt while the assistant's blocks are not known.
#[derive(Clone, Copy)]
struct Drawn {
    kept: u32,
    first: u32,
    new: u32,
    tail: (u32, u32),
    output_tokens: u32,
}

/// Makes a [`Dialog`].
pub(super) struct Builder {
    block_tokens: u32,
    blocks: Vec<u32>,
    drawn: Vec<Drawn>,
}

impl Builder {
    pub(super) const fn new(block_tokens: u32) -> Self {
        Self { block_tokens, blocks: Vec::new(), drawn: Vec::new() }
    }

    /// Adds a prompt after `before`. `number` gives blocks their numbers, and those without an identifier
    /// new ones. Returns whether whole blocks do not have an identifier.
    pub(super) fn add<I: Copy + PartialEq>(
        &mut self,
        before: Option<&Recorded<'_, I>>,
        own: &Recorded<'_, I>,
        mut number: impl FnMut(Option<I>) -> u32,
    ) -> bool {
        let covered = self.covered(own);
        let missing = own.input_tokens / self.block_tokens - covered.len() as u32;
        let shared = before.map_or(0, |before| {
            let blocks = self.covered(before).iter().zip(covered);
            blocks.take_while(|(before, own)| before == own).count()
        });
        let first = self.blocks.len() as u32;
        self.blocks.extend(covered[shared..].iter().map(|id| number(Some(*id))));
        let tokens = own.input_tokens % self.block_tokens + missing * self.block_tokens;
        let partial = own.hash_ids.get(covered.len()).filter(|_| missing == 0);
        let tail = if tokens == 0 { 0 } else { number(partial.copied()) };
        self.drawn.push(Drawn {
            kept: shared as u32,
            first,
            new: (covered.len() - shared) as u32,
            tail: (tail, tokens),
            output_tokens: own.output_tokens,
        });
        missing > 0
    }

    /// Returns the identifiers of the whole blocks.
    fn covered<'a, I>(&self, of: &Recorded<'a, I>) -> &'a [I] {
        let whole = (of.input_tokens / self.block_tokens) as usize;
        &of.hash_ids[..whole.min(of.hash_ids.len())]
    }

    /// Returns the dialog, whose system message has at most so many blocks.
    pub(super) fn finish(self, words: Arc<Words>, system_blocks: u32) -> Dialog {
        let Self { block_tokens, mut blocks, drawn } = self;
        blocks.shrink_to_fit();
        let caps = caps(&drawn);
        let mut steps: Vec<Step> = Vec::with_capacity(drawn.len());
        // The depth at which the first message of the user begins.
        let mut user_from: Option<u32> = None;
        let mut output_tokens = 0_u32;
        for (at, own) in drawn.iter().enumerate() {
            user_from = user_from.filter(|from| *from < own.kept);
            let is_end = own.tail.1 == 0;
            let lead = if at == 0 {
                system_blocks.min(own.new)
            } else if user_from.is_none() {
                0
            } else {
                let said = output_tokens.div_ceil(block_tokens).min(own.new).min(caps[at]);
                // The last message is the user's.
                said - u32::from(said > 0 && said == own.new && is_end)
            };
            let user = own.new - lead;
            if user > 0 || !is_end {
                user_from.get_or_insert(own.kept + lead);
            }
            steps.push(Step { kept: own.kept, first: own.first, lead, user, tail: own.tail });
            output_tokens = own.output_tokens;
        }
        Dialog { words, block_tokens, blocks, steps }
    }
}

/// Returns how many blocks the assistant may have in each prompt, so that a later one that only keeps
/// some of them ends with a message of the user.
fn caps(drawn: &[Drawn]) -> Vec<u32> {
    let mut caps = vec![u32::MAX; drawn.len()];
    // The prompt that added each block.
    let mut owners: Vec<usize> = Vec::new();
    for (at, own) in drawn.iter().enumerate() {
        owners.truncate(own.kept as usize);
        if own.new == 0
            && own.tail.1 == 0
            && let Some(owner) = owners.last().copied().filter(|owner| *owner > 0)
        {
            caps[owner] = caps[owner].min(own.kept - 1 - drawn[owner].kept);
        }
        owners.resize(owners.len() + own.new as usize, at);
    }
    caps
}

/// Returns the prompts of a dialog, one for each turn.
pub(super) fn prompts(dialog: Dialog) -> impl Iterator<Item = Prompt> {
    let dialog = Arc::new(dialog);
    let count = dialog.steps.len();
    (0..count).map(move |at| Prompt { dialog: Arc::clone(&dialog), at, marker: None })
}

#[cfg(test)]
mod tests;
