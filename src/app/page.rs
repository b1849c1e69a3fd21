//! The page of `--html`.

use super::gates;
use crate::report::PageFile;

/// Checks that the page can be written, and creates its directory.
pub(super) fn check(page: Option<&PageFile>) -> anyhow::Result<()> {
    match page {
        Some(PageFile::At(path)) => gates::check_file(path, "--html"),
        _ => Ok(()),
    }
}
