//! Files that are replaced as a whole.

use std::path::Path;

use base::platform::replace;

use super::error::ArtifactError;
pub(super) use base::platform::replace::{beside, clear_temporary, link, replace_whole as replace};

/// Fails if `path` cannot be replaced later.
pub(super) fn check(path: &Path) -> Result<(), ArtifactError> {
    replace::check_whole(path)
        .map_err(|why| ArtifactError::NotWritable { path: path.to_owned(), why })
}
