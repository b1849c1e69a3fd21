//! `--html`.

use std::convert::Infallible;
use std::path::PathBuf;

use clap::Args;

use results::report::PageFile;

/// Whether a page is written, and where.
#[derive(Args, Clone, Debug)]
pub(super) struct PageArgs {
    /// Write a page with charts of the results, which needs no network and no other file
    /// [default FILE: report.html in the artifact directory]
    #[arg(long, value_name = "FILE", num_args = 0..=1, default_missing_value = "",
          value_parser = page_file)]
    pub(super) html: Option<PageFile>,
}

#[expect(clippy::unnecessary_wraps, reason = "clap expects a result")]
pub(super) fn page_file(text: &str) -> Result<PageFile, Infallible> {
    Ok(if text.is_empty() { PageFile::Default } else { PageFile::At(PathBuf::from(text)) })
}
