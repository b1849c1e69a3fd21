//! The shared parts of the prompts of a trace, their lengths, and its conversations.

use std::path::Path;

use serde::Deserialize;

use base::input::{self, Input};
use base::statistics::percentile::distribution;
use tokens::tokenizer::TokenCounter;

use super::jsonl::from_object;
use super::lines::Lines;
use super::prefix_tree::PrefixTree;
use super::trace::HashId;
use super::write::weka::Entry;
use super::{
    Fault, Opening, RECORDED_SEED, bailian, detect, inline, mooncake, named, read_as, read_recorded,
};
use crate::anonymous::Anonymizer;
use crate::{Conversation, DatasetError, FileFormat, TraceSettings};

/// Lengths of the requests of a trace, and what a prefix cache that keeps everything would find.
#[derive(Debug, Default, PartialEq)]
pub struct TraceAnalysis {
    /// Tokens of each prompt.
    pub input: Vec<f64>,
    /// Requested output tokens, of the requests that have a number.
    pub output: Vec<f64>,
    /// Tokens of each prompt's first blocks that another prompt has too.
    pub context: Vec<f64>,
    /// Tokens of the rest of each prompt.
    pub unique: Vec<f64>,
    /// Share of each prompt's blocks, from 0 to 1, that are also the first blocks of an earlier
    /// prompt; of prompts with blocks.
    pub hit_rates: Vec<f64>,
    /// Number of different sequences of first blocks.
    pub prefixes: u64,
    /// Number of first blocks that several prompts have.
    pub groups: u64,
    /// Share of blocks that belong to a prefix of several prompts, from 0 to 1.
    pub reuse: f64,
    /// The conversations; `None` for lines of lengths.
    pub sessions: Option<Sessions>,
}

/// The conversations of a trace.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Sessions {
    /// The conversations that each starts.
    pub trees: Vec<Tree>,
    /// When each starts, in seconds after the earliest one, in order; empty without times.
    pub starts: Vec<f64>,
}

/// A conversation with what it starts.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Tree {
    /// Number of its requests, without those of its sub-agents.
    pub turns: u64,
    /// Number of its sub-agents, at any depth.
    pub agents: u64,
    /// Number of levels of sub-agents.
    pub depth: u64,
}

impl Sessions {
    /// Returns a number of each conversation.
    pub fn each(&self, number: fn(&Tree) -> u64) -> Vec<f64> {
        self.trees.iter().map(|tree| number(tree) as f64).collect()
    }

    /// Returns the number of levels of sub-agents of the deepest tree.
    pub fn depth(&self) -> u64 {
        self.trees.iter().map(|tree| tree.depth).max().unwrap_or(0)
    }

    /// Returns the seconds between the starts of conversations, in order.
    pub fn gaps(&self) -> Vec<f64> {
        self.starts.windows(2).map(|pair| pair[1] - pair[0]).collect()
    }

    /// Returns the coefficient of variation of the times between conversations: 0 if they are equal, 1 if
    /// conversations start independently of each other, and more in bursts. `None` without two of them.
    pub fn variation(&self) -> Option<f64> {
        let gaps = self.gaps();
        let found = distribution(|| gaps.iter().copied()).filter(|_| gaps.len() > 1)?;
        let mean = found.sum / found.count as f64;
        (mean > 0.0).then(|| found.std / mean)
    }
}

/// Collects the prompts of a trace.
#[derive(Default)]
struct Prompts {
    analysis: TraceAnalysis,
    tree: PrefixTree,
    all: Vec<(u64, Vec<HashId>)>,
}

impl Prompts {
    fn add(&mut self, input_tokens: u64, output_tokens: Option<u32>, blocks: Vec<HashId>) {
        let known = self.tree.insert(&blocks);
        if !blocks.is_empty() {
            self.analysis.hit_rates.push(known as f64 / blocks.len() as f64);
        }
        self.analysis.input.push(input_tokens as f64);
        self.analysis.output.extend(output_tokens.map(f64::from));
        self.all.push((input_tokens, blocks));
    }

    /// Adds requests and those of their sub-agents.
    fn add_all(&mut self, entries: &[Entry]) -> Tree {
        let mut tree = Tree { turns: 0, agents: 0, depth: 0 };
        for entry in entries {
            match entry {
                Entry::Request(request) => {
                    tree.turns += 1;
                    let blocks = request.hash_ids.iter().map(|block| HashId::from(*block));
                    self.add(request.input, Some(request.output), blocks.collect());
                }
                Entry::Agent(agent) => {
                    let inner = self.add_all(&agent.requests);
                    tree.agents += 1 + inner.agents;
                    tree.depth = tree.depth.max(1 + inner.depth);
                }
            }
        }
        tree
    }

    /// Returns the analysis of all prompts, whose blocks have `block_tokens` tokens.
    fn finish(self, block_tokens: u32) -> TraceAnalysis {
        let Self { mut analysis, tree, all } = self;
        for (input_tokens, blocks) in all {
            let shared = tree.shared(&blocks) as u64 * u64::from(block_tokens);
            // The last block of a prompt may be shorter than the others.
            let context = shared.min(input_tokens);
            analysis.context.push(context as f64);
            analysis.unique.push((input_tokens - context) as f64);
        }
        analysis.prefixes = tree.prefixes();
        analysis.groups = tree.shared_roots();
        analysis.reuse = tree.reuse();
        analysis
    }
}

/// Analyzes conversations of any format, whose prompts are divided into blocks of `block_tokens` tokens.
fn analyze_conversations(
    conversations: &[Conversation],
    counter: &TokenCounter,
    block_tokens: u32,
) -> TraceAnalysis {
    let mut prompts = Prompts::default();
    let mut sessions = Sessions::default();
    let mut anonymizer = Anonymizer::new(conversations, counter, block_tokens, Vec::new());
    for document in anonymizer.documents() {
        sessions.trees.push(prompts.add_all(document.entries()));
        sessions.starts.extend(document.start_seconds());
    }
    sessions.starts.sort_by(f64::total_cmp);
    TraceAnalysis { sessions: Some(sessions), ..prompts.finish(block_tokens) }
}

/// The members of a line that are analyzed.
#[derive(Deserialize)]
struct Line {
    chat_id: Option<serde_json::Value>,
    input_length: Option<u32>,
    output_length: Option<u32>,
    hash_ids: Option<Vec<HashId>>,
}

/// Tokens of a block of prompts that the trace does not divide.
const BLOCK_TOKENS: u32 = 64;

/// Analyzes the trace or dataset at `path`, whose blocks have `block_tokens` tokens; `None` is the default
/// of the format. A file is read once, so that it may be a pipe, unless only some lines of a Mooncake
/// trace have lengths.
pub fn analyze(
    path: &Path,
    block_tokens: Option<u32>,
    counter: &TokenCounter,
) -> Result<TraceAnalysis, DatasetError> {
    let of_conversations = || {
        let read = read_recorded(path, None, counter)?;
        Ok(analyze_conversations(&read, counter, block_tokens.unwrap_or(BLOCK_TOKENS)))
    };
    if path.is_dir() || inline(path).is_some() {
        return of_conversations();
    }
    let fault = |fault| named(fault, path);
    let mut opening =
        input::open(path).map_err(Fault::Read).and_then(Opening::read).map_err(fault)?;
    let format = detect(&mut opening).map_err(fault)?;
    let Some(format) = format else {
        return Err(DatasetError::Empty { path: path.to_owned(), note: String::new() });
    };
    if has_lengths(format, &mut opening).map_err(fault)? {
        return match analyze_lines(opening.whole(), block_tokens) {
            Err(Fault::Line(_, reason)) if reason == WITHOUT_LENGTH && path.is_file() => {
                of_conversations()
            }
            analysis => analysis.map_err(fault),
        };
    }
    let traces = TraceSettings { prefers_recorded: true, ..TraceSettings::default() };
    let read = read_as(format, opening.whole(), path, &traces, counter, RECORDED_SEED);
    let read = read.map_err(fault)?.noted(path)?;
    Ok(analyze_conversations(&read, counter, block_tokens.unwrap_or(BLOCK_TOKENS)))
}

/// Returns whether the first line of a trace has a length instead of a text.
fn has_lengths(format: FileFormat, opening: &mut Opening<'_>) -> Result<bool, Fault> {
    if !matches!(format, FileFormat::MooncakeTrace | FileFormat::BailianTrace) {
        return Ok(false);
    }
    // What the line lacks is said where it is read.
    let first = opening.first_line()?;
    Ok(serde_json::from_slice::<Line>(first).map_or(true, |line| line.input_length.is_some()))
}

/// Analyzes the lines of a Mooncake or Bailian trace.
fn analyze_lines(input: Input<'_>, block_tokens: Option<u32>) -> Result<TraceAnalysis, Fault> {
    let mut prompts = Prompts::default();
    let mut block = block_tokens;
    for line in Lines::new(input) {
        let line = line?;
        let fault = |why| Fault::Line(line.number, why);
        let read: Line = from_object(&line.text).map_err(fault)?;
        let block = *block.get_or_insert(match read.chat_id {
            Some(_) => bailian::BLOCK_TOKENS,
            None => mooncake::BLOCK_TOKENS,
        });
        let (input_tokens, hash_ids) =
            prompt(read.input_length, read.hash_ids, block).map_err(fault)?;
        prompts.add(input_tokens.into(), read.output_length, hash_ids);
    }
    Ok(prompts.finish(block.unwrap_or_default()))
}

/// Why a line cannot be analyzed by itself.
const WITHOUT_LENGTH: &str = "`input_length` is missing";

fn prompt(
    input_tokens: Option<u32>,
    hash_ids: Option<Vec<HashId>>,
    block_tokens: u32,
) -> Result<(u32, Vec<HashId>), String> {
    let input_tokens = input_tokens.ok_or(WITHOUT_LENGTH)?;
    let hash_ids = hash_ids.unwrap_or_default();
    if hash_ids.len() > input_tokens.div_ceil(block_tokens) as usize {
        return Err(format!(
            "{} blocks of {block_tokens} tokens exceed the {input_tokens} input tokens; set the \
             number of tokens in a block with --block-size",
            hash_ids.len(),
        ));
    }
    Ok((input_tokens, hash_ids))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use base::units::Nanos;

    use super::*;
    use crate::{Branch, BranchStart, Turn};

    /// Worked out by hand. The tree is 1 (3 prompts), 1-2 (2), 1-2-3 (2), 1-4 (1), 5 (1), 5-2 (1).
    #[test]
    fn a_trace_is_analyzed() {
        let trace = concat!(
            r#"{"input_length": 1100, "output_length": 10, "hash_ids": [1, 2, 3]}"#,
            "\n\n",
            r#"{"input_length": 1536, "output_length": 30, "hash_ids": [1, 2, 3], "x": 1}"#,
            "\n",
            r#"{"input_length": 900, "hash_ids": [1, 4]}"#,
            "\n",
            r#"{"input_length": 1024, "hash_ids": [5, 2], "output_length": null}"#,
            "\n",
            r#"{"input_length": 7}"#,
        );
        let analysis = analyze_lines(trace.as_bytes().into(), None).unwrap();
        let expected = TraceAnalysis {
            input: vec![1100.0, 1536.0, 900.0, 1024.0, 7.0],
            output: vec![10.0, 30.0],
            context: vec![1100.0, 1536.0, 512.0, 0.0, 0.0],
            unique: vec![0.0, 0.0, 388.0, 1024.0, 7.0],
            hit_rates: vec![0.0, 1.0, 0.5, 0.0],
            prefixes: 6,
            groups: 1,
            reuse: 0.7,
            sessions: None,
        };
        // Blocks: 3 + 3 + 2 + 2, of which 3 + 2 + 2 are shared.
        assert_eq!(analysis, expected);
    }

    #[test]
    fn a_bailian_trace_has_blocks_of_16_tokens() {
        let trace = std::fs::read("../../tests/golden/traces/bailian.jsonl").unwrap();
        let analysis = analyze_lines(trace.as_slice().into(), None).unwrap();
        assert_eq!(analysis.context.iter().sum::<f64>(), 64.0 + 16.0 + 96.0 + 96.0);
    }

    #[test]
    fn lines_without_lengths_and_wrong_blocks_are_rejected() {
        for (line, words) in [
            (r#"{"text_input": "x"}"#, "`input_length` is missing"),
            (r#"{"input_length": 513, "hash_ids": [1, 2, 3]}"#, "with --block-size"),
            (r#"{"input_length": -1}"#, "invalid value"),
        ] {
            match analyze_lines(line.as_bytes().into(), None) {
                Err(Fault::Line(1, reason)) => assert!(reason.contains(words), "{reason}"),
                other => panic!("{line}: {other:?}"),
            }
        }
    }

    #[test]
    fn conversations_are_analyzed_with_their_trees_and_times() {
        let turn = |text: &str, at: Option<u64>| Turn {
            texts: vec![text.into()],
            max_tokens: Some(2),
            timestamp: at.map(Nanos),
            ..Turn::default()
        };
        let conversation = |turns: Vec<Turn>| Conversation { turns, ..Conversation::default() };
        let branch = |conversation, after| Branch {
            conversation,
            after,
            join: None,
            from: BranchStart::Response,
            is_fork: false,
        };
        // The first one starts a sub-agent, which starts another.
        let root = Conversation {
            branches: vec![branch(2, Some(0))],
            ..conversation(vec![turn("a b c d", Some(5_000_000_000)), turn("e f", None)])
        };
        let agent = Conversation {
            branches: vec![branch(3, Some(0))],
            is_child: true,
            ..conversation(vec![turn("g", None)])
        };
        let inner = Conversation { is_child: true, ..conversation(vec![turn("h", None)]) };
        let all = [root, conversation(vec![turn("a b x y", Some(2_000_000_000))]), agent, inner];
        let counter = TokenCounter::builtin();
        let analysis = analyze_conversations(&all, &counter, 2);
        assert_eq!(analysis.input, [4.0, 1.0, 1.0, 8.0, 4.0]);
        assert_eq!(analysis.output, [2.0; 5]);
        // Two blocks of the first prompt are in the fourth, and one is in the last.
        assert_eq!(analysis.context, [4.0, 0.0, 0.0, 4.0, 2.0]);
        assert_eq!(analysis.hit_rates, [0.0, 0.0, 0.0, 0.5, 0.5]);
        let sessions = analysis.sessions.unwrap();
        let tree = |turns, agents, depth| Tree { turns, agents, depth };
        assert_eq!(sessions.trees, [tree(2, 2, 2), tree(1, 0, 0)]);
        assert_eq!((sessions.starts.as_slice(), sessions.gaps()), (&[0.0, 3.0][..], vec![3.0]));
        assert_eq!((sessions.depth(), sessions.variation()), (2, None));
    }

    proptest! {
        #[test]
        fn any_text_is_analyzed_or_rejected(text in "[\\PC\n]{0,60}", block in 1u32..600) {
            drop(analyze_lines(text.as_bytes().into(), Some(block)));
        }
    }
}
