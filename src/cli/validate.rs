//! The arguments of `aiperf validate`.

use std::path::PathBuf;

use clap::{ArgGroup, Args};

use dataset::FileFormat;

use super::value::choice;

/// The file to validate.
#[derive(Debug, Args)]
#[command(group = ArgGroup::new("file").required(true),
          override_usage = "aiperf validate <TYPE> <FILE>")]
pub struct Validate {
    /// Format of the file, as in --custom-dataset-type of aiperf profile
    #[arg(value_name = "TYPE", value_parser = choice::<FileFormat>())]
    pub(crate) format: FileFormat,
    /// Dataset file, or directory of such files
    #[arg(value_name = "FILE", group = "file")]
    path: Option<PathBuf>,
    /// The same as FILE
    #[arg(long, visible_alias = "input-file", value_name = "FILE", group = "file")]
    input: Option<PathBuf>,
}

impl Validate {
    /// The file.
    pub(crate) fn file(&self) -> PathBuf {
        self.path.clone().or_else(|| self.input.clone()).unwrap_or_default()
    }
}
