//! What the prompts of a trace share, and their lengths.

use std::io::{BufReader, Cursor, Read};
use std::path::Path;

use serde::Deserialize;

use super::jsonl::from_object;
use super::lines::Lines;
use super::prefix_tree::PrefixTree;
use super::trace::HashId;
use super::{Fault, Opening, bailian, mooncake, named, open};
use crate::dataset::DatasetError;

/// Lengths of the requests of a trace, and what a prefix cache that keeps everything would find.
#[derive(Debug, Default, PartialEq)]
pub(crate) struct TraceAnalysis {
    /// Tokens of each prompt.
    pub(crate) input: Vec<f64>,
    /// Requested output tokens, of the requests that have a number.
    pub(crate) output: Vec<f64>,
    /// Tokens of each prompt's first blocks that another prompt has too.
    pub(crate) context: Vec<f64>,
    /// Tokens of the rest of each prompt.
    pub(crate) unique: Vec<f64>,
    /// Share of each prompt's blocks, from 0 to 1, that are also the first blocks of an earlier
    /// prompt; of prompts with blocks.
    pub(crate) hit_rates: Vec<f64>,
    /// Number of different sequences of first blocks.
    pub(crate) prefixes: u64,
    /// Number of first blocks that several prompts have.
    pub(crate) groups: u64,
    /// Share of blocks that belong to a prefix of several prompts, from 0 to 1.
    pub(crate) reuse: f64,
}

/// The members of a line that are analyzed.
#[derive(Deserialize)]
struct Line {
    chat_id: Option<serde_json::Value>,
    input_length: Option<u32>,
    output_length: Option<u32>,
    hash_ids: Option<Vec<HashId>>,
}

/// Analyzes the Mooncake or Bailian trace at `path`, whose blocks have `block_tokens` tokens;
/// `None` is the default of the format.
pub(crate) fn analyze(
    path: &Path,
    block_tokens: Option<u32>,
) -> Result<TraceAnalysis, DatasetError> {
    let file = open(path).map_err(Fault::Read).map_err(|fault| named(fault, path))?;
    let analysis = analyze_from(file, block_tokens).map_err(|fault| named(fault, path))?;
    if analysis.input.is_empty() {
        return Err(DatasetError::Empty { path: path.to_owned(), note: String::new() });
    }
    Ok(analysis)
}

fn analyze_from(input: impl Read, block_tokens: Option<u32>) -> Result<TraceAnalysis, Fault> {
    let opening = Opening::read(input)?;
    let input = BufReader::with_capacity(1 << 16, Cursor::new(opening.bytes).chain(opening.rest));
    let mut analysis = TraceAnalysis::default();
    let mut tree = PrefixTree::default();
    let mut prompts: Vec<(u32, Vec<HashId>)> = Vec::new();
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
        let known = tree.insert(&hash_ids);
        if !hash_ids.is_empty() {
            analysis.hit_rates.push(known as f64 / hash_ids.len() as f64);
        }
        analysis.input.push(f64::from(input_tokens));
        analysis.output.extend(read.output_length.map(f64::from));
        prompts.push((input_tokens, hash_ids));
    }
    for (input_tokens, hash_ids) in prompts {
        let shared = tree.shared(&hash_ids) as u64 * u64::from(block.unwrap_or_default());
        // The last block of a prompt may be shorter than the others.
        let context = shared.min(u64::from(input_tokens));
        analysis.context.push(context as f64);
        analysis.unique.push((u64::from(input_tokens) - context) as f64);
    }
    analysis.prefixes = tree.prefixes();
    analysis.groups = tree.shared_roots();
    analysis.reuse = tree.reuse();
    Ok(analysis)
}

fn prompt(
    input_tokens: Option<u32>,
    hash_ids: Option<Vec<HashId>>,
    block_tokens: u32,
) -> Result<(u32, Vec<HashId>), String> {
    let input_tokens = input_tokens.ok_or(
        "`input_length` is missing; only traces with the \
                                           lengths of their prompts can be analyzed",
    )?;
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

    use super::*;

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
        let analysis = analyze_from(trace.as_bytes(), None).unwrap();
        let expected = TraceAnalysis {
            input: vec![1100.0, 1536.0, 900.0, 1024.0, 7.0],
            output: vec![10.0, 30.0],
            context: vec![1100.0, 1536.0, 512.0, 0.0, 0.0],
            unique: vec![0.0, 0.0, 388.0, 1024.0, 7.0],
            hit_rates: vec![0.0, 1.0, 0.5, 0.0],
            prefixes: 6,
            groups: 1,
            reuse: 0.7,
        };
        // Blocks: 3 + 3 + 2 + 2, of which 3 + 2 + 2 are shared.
        assert_eq!(analysis, expected);
    }

    #[test]
    fn a_bailian_trace_has_blocks_of_16_tokens() {
        let trace = std::fs::read("tests/golden/traces/bailian.jsonl").unwrap();
        let analysis = analyze_from(trace.as_slice(), None).unwrap();
        assert_eq!(analysis.context.iter().sum::<f64>(), 64.0 + 16.0 + 96.0 + 96.0);
    }

    #[test]
    fn lines_without_lengths_and_wrong_blocks_are_rejected() {
        for (line, words) in [
            (r#"{"text_input": "x"}"#, "`input_length` is missing"),
            (r#"{"input_length": 513, "hash_ids": [1, 2, 3]}"#, "with --block-size"),
            ("[]", "not a JSON object"),
            (r#"{"input_length": -1}"#, "invalid value"),
        ] {
            match analyze_from(line.as_bytes(), None) {
                Err(Fault::Line(1, reason)) => assert!(reason.contains(words), "{reason}"),
                other => panic!("{line}: {other:?}"),
            }
        }
    }

    proptest! {
        #[test]
        fn any_text_is_analyzed_or_rejected(text in "[\\PC\n]{0,60}", block in 1u32..600) {
            drop(analyze_from(text.as_bytes(), Some(block)));
        }
    }
}
