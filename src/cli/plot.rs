//! The flags of `aiperf plot`.

use std::path::{Path, PathBuf};

use clap::Args;

use super::value::choice;
use crate::report::ThemeName;
use crate::report::plot::Format;

/// What to draw, and how.
#[derive(Debug, Args)]
pub struct Plot {
    /// Artifact directory of a run, of several runs of one command, or of a sweep, or a directory
    /// that contains some; several runs are compared
    #[arg(value_name = "DIR", default_value = "artifacts")]
    pub(crate) directories: Vec<PathBuf>,
    /// Directory for the pictures [default: "plots" in the first DIR]
    #[arg(long, value_name = "DIR")]
    pub(crate) output: Option<PathBuf>,
    /// Colours of the pictures
    #[arg(long, value_name = "THEME", value_parser = choice::<ThemeName>(), default_value = "light")]
    pub(crate) theme: ThemeName,
    /// Formats of the pictures, separated by commas
    #[arg(long, value_name = "FORMAT", value_parser = choice::<Format>(), value_delimiter = ',',
          default_value = "png,svg")]
    pub(crate) format: Vec<Format>,
}

impl Plot {
    /// Returns the command for the runs in `directory`, with the default of each flag.
    pub(crate) fn of(directory: &Path) -> Self {
        Self {
            directories: vec![directory.to_owned()],
            output: None,
            theme: ThemeName::default(),
            format: vec![Format::Png, Format::Svg],
        }
    }
}
