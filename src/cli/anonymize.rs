//! The arguments of `aiperf dataset anonymize`.

use std::path::PathBuf;

use clap::Args;

use dataset::FileFormat;
use dataset::anonymous::Names;
use dataset::file::write::AnonymousFormat;

use super::value::{choice, positive};

/// The trace to anonymize.
#[derive(Debug, Args)]
pub struct Anonymize {
    /// Dataset file, or directory of such files
    #[arg(value_name = "IN")]
    pub(crate) input: PathBuf,
    /// File for the result
    #[arg(value_name = "OUT")]
    pub(crate) output: PathBuf,
    /// Format of the input [default: detected]
    #[arg(long, value_name = "TYPE", value_parser = choice::<FileFormat>())]
    pub(crate) custom_dataset_type: Option<FileFormat>,
    /// Tokenizer that counts tokens, as for aiperf profile
    #[arg(long, value_name = "NAME", default_value = "builtin")]
    pub(crate) tokenizer: String,
    /// Format of the result
    #[arg(long, value_name = "FORMAT", value_parser = choice::<AnonymousFormat>(),
        default_value = "weka_trace")]
    pub(crate) to: AnonymousFormat,
    /// Number of tokens in a block; prompts have whole blocks in common [default: 64; 512 for a
    /// Mooncake trace]
    #[arg(long, value_name = "TOKENS", value_parser = positive)]
    pub(crate) block_size: Option<u64>,
    /// Names that stay as they are; others are numbered
    #[arg(long, value_name = "NAMES", value_delimiter = ',', value_parser = choice::<Names>())]
    pub(crate) keep: Vec<Names>,
}
