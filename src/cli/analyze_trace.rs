//! The flags of `aiperf dataset analyze`.

#![expect(clippy::doc_markdown, reason = "the doc comments are the --help text")]

use std::path::PathBuf;

use clap::{ArgGroup, Args};

use super::value::positive;

/// The trace to analyze, and where to write the result.
#[derive(Debug, Args)]
#[command(group = ArgGroup::new("trace").required(true))]
pub(super) struct AnalyzeTraceArgs {
    /// Trace or dataset of any format, or a directory of such files
    #[arg(value_name = "FILE", group = "trace")]
    file: Option<PathBuf>,
    /// Number of tokens in the block that each hash ID stands for [default: 512; 16 for a Bailian
    /// trace, 64 for other formats]
    #[arg(value_name = "BLOCK_SIZE", value_parser = positive, conflicts_with = "block_size")]
    block: Option<u64>,
    /// File for the result, as JSON
    #[arg(value_name = "OUTPUT", conflicts_with = "output_file")]
    output: Option<PathBuf>,
    /// The same as FILE
    #[arg(long, value_name = "FILE", group = "trace")]
    input_file: Option<PathBuf>,
    /// The same as BLOCK_SIZE
    #[arg(long, value_name = "TOKENS", value_parser = positive)]
    block_size: Option<u64>,
    /// The same as OUTPUT
    #[arg(long, value_name = "FILE")]
    output_file: Option<PathBuf>,
    /// Write a page with charts of the trace, which needs no network and no other file
    #[arg(long, value_name = "FILE")]
    html: Option<PathBuf>,
}

/// A trace to analyze.
#[derive(Debug)]
pub struct AnalyzeTrace {
    /// The trace.
    pub(crate) file: PathBuf,
    /// Tokens of a block; `None` is the default of the format.
    pub(crate) block_tokens: Option<u32>,
    /// File for the result.
    pub(crate) output: Option<PathBuf>,
    /// File for the page.
    pub(crate) page: Option<PathBuf>,
}

impl AnalyzeTraceArgs {
    pub(super) fn into_config(self) -> AnalyzeTrace {
        let block = self.block.or(self.block_size);
        AnalyzeTrace {
            file: self.file.or(self.input_file).unwrap_or_default(),
            block_tokens: block.map(|tokens| u32::try_from(tokens).unwrap_or(u32::MAX)),
            output: self.output.or(self.output_file),
            page: self.html,
        }
    }
}
