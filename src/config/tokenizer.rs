//! The default tokenizer.

use tokens::tokenizer::{Source, is_local};

use super::Environment;

/// The tokenizer to use without `--tokenizer`: the model's own if it is on this machine,
/// otherwise the builtin one.
#[must_use]
pub(crate) fn default_for(model: &str, revision: &str, environment: Environment<'_>) -> Source {
    if is_local(model, revision, environment) {
        return Source::parse(model).at_revision(revision);
    }
    Source::Builtin
}
