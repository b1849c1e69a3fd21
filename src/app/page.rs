//! The page of `--html`.

use results::report::PageFile;

use super::gates;

/// Checks that the page can be written, and creates its directory.
pub(super) fn check(page: Option<&PageFile>) -> anyhow::Result<()> {
    match page {
        Some(PageFile::At(path)) => gates::check_file(path, "--html"),
        _ => Ok(()),
    }
}
