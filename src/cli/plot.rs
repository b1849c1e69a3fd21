//! The flags of `aiperf plot`.

use std::path::PathBuf;

use clap::Args;

use base::setting::Named as _;
use results::report::ThemeName;
use results::report::plot::Format;

use super::value::choice;

/// What to draw, and how.
#[derive(Debug, Args)]
pub struct Plot {
    /// Artifact directory of a run, of several runs of one command, or of a sweep, or a directory
    /// that contains some; several runs are compared
    #[arg(value_name = "DIR", default_value = "artifacts")]
    pub(crate) directories: Vec<PathBuf>,
    /// The same as DIR
    #[arg(long, value_name = "DIR", num_args = 1.., conflicts_with = "directories")]
    pub(crate) paths: Vec<PathBuf>,
    /// Directory for the pictures [default: "plots" in the first DIR]
    #[arg(long, value_name = "DIR")]
    pub(crate) output: Option<PathBuf>,
    /// Colours of the pictures
    #[arg(long, value_name = "THEME", value_parser = choice::<ThemeName>(),
          default_value = ThemeName::default().name())]
    pub(crate) theme: ThemeName,
    /// Formats of the pictures, separated by commas
    #[arg(long, value_name = "FORMAT", value_parser = choice::<Format>(), value_delimiter = ',',
          default_value = Format::Png.name())]
    pub(crate) format: Vec<Format>,
}
