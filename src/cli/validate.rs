//! The arguments of `aiperf dataset validate`.

use std::ffi::OsString;
use std::path::PathBuf;

use clap::{ArgGroup, Args};

use base::setting::Named as _;
use dataset::FileFormat;

use super::CliError;
use super::value::{choice, shown};

/// The file to validate.
#[derive(Debug, Args)]
#[command(group = ArgGroup::new("file").required(true).multiple(true),
          override_usage = "aiperf dataset validate [TYPE] <FILE>")]
pub(super) struct ValidateArgs {
    /// Dataset file, or directory of such files, after the name of its format if that is not to be
    /// detected: one of those of --custom-dataset-type of aiperf profile
    #[arg(value_name = "FILE", num_args = 1..=2, group = "file")]
    words: Vec<OsString>,
    /// The same as FILE
    #[arg(long, visible_alias = "input-file", value_name = "FILE", group = "file")]
    input: Option<PathBuf>,
    /// Format of the file [default: detected]
    #[arg(long = "type", value_name = "TYPE", value_parser = choice::<FileFormat>(),
          hide_possible_values = true)]
    format: Option<FileFormat>,
}

impl ValidateArgs {
    /// What to validate.
    ///
    /// # Errors
    /// If the format is given twice or is not one.
    pub(super) fn into_validate(self) -> Result<Validate, CliError> {
        let files = usize::from(self.input.is_none());
        let named = self.words.len().checked_sub(files).and_then(|at| at.checked_sub(1));
        let mut words = self.words;
        let word = named.map(|_| words.remove(0));
        let format = match (word, self.format) {
            (None, format) => format,
            (Some(word), None) => {
                let word = word.to_string_lossy();
                Some(FileFormat::named(&word).ok_or_else(|| {
                    let formats: Vec<_> = shown::<FileFormat>().collect();
                    let why = format!("error: {word:?} is not a format; formats are");
                    CliError::Usage(format!("{why} {}", formats.join(", ")))
                })?)
            }
            (Some(_), Some(_)) => {
                let why = "error: give the format once, before FILE or with --type";
                return Err(CliError::Usage(why.to_owned()));
            }
        };
        let path = words.pop().map(PathBuf::from).or(self.input).unwrap_or_default();
        Ok(Validate { path, format })
    }
}

/// A file to validate.
#[derive(Debug)]
pub struct Validate {
    /// The file.
    pub(crate) path: PathBuf,
    /// Its format, unless it is to be detected.
    pub(crate) format: Option<FileFormat>,
}
