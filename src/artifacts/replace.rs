//! Files that are replaced as a whole.

use std::path::Path;

use super::error::ArtifactError;
use crate::platform::replace;
pub(super) use crate::platform::replace::{
    beside, clear_temporary, link, replace_whole as replace,
};

/// Fails if `path` cannot be replaced later.
pub(super) fn check(path: &Path) -> Result<(), ArtifactError> {
    replace::check_whole(path)
        .map_err(|why| ArtifactError::NotWritable { path: path.to_owned(), why })
}
