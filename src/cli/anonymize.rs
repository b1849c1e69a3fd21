//! The arguments of `aiperf anonymize`.

#![expect(clippy::doc_markdown, reason = "the doc comments are the --help text")]

use std::path::PathBuf;

use clap::Args;

use super::value::{choice, positive};
use crate::dataset::FileFormat;
use crate::dataset::anonymous::Names;

/// The trace to anonymize.
#[derive(Debug, Args)]
pub struct Anonymize {
    /// Dataset file, or directory of such files
    #[arg(value_name = "IN")]
    pub(crate) input: PathBuf,
    /// File for the result, a weka_trace
    #[arg(value_name = "OUT")]
    pub(crate) output: PathBuf,
    /// Format of the input [default: detected]
    #[arg(long, value_name = "TYPE", value_parser = choice::<FileFormat>())]
    pub(crate) custom_dataset_type: Option<FileFormat>,
    /// Tokenizer that counts tokens, as for aiperf profile
    #[arg(long, value_name = "NAME", default_value = "builtin")]
    pub(crate) tokenizer: String,
    /// Number of tokens in a block; prompts have whole blocks in common
    #[arg(long, value_name = "TOKENS", value_parser = positive, default_value = "64")]
    pub(crate) block_size: u64,
    /// Names that stay as they are; others are numbered
    #[arg(long, value_name = "NAMES", value_delimiter = ',', value_parser = choice::<Names>())]
    pub(crate) keep: Vec<Names>,
}
