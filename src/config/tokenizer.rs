//! The default tokenizer.

use super::Environment;
use crate::tokenizer::{Source, is_local};

/// The tokenizer to use without `--tokenizer`: the model's own if it is on this machine,
/// otherwise the builtin one, with a warning.
#[must_use]
pub(crate) fn default_for(
    model: &str,
    revision: &str,
    environment: Environment<'_>,
) -> (Source, Option<String>) {
    if is_local(model, revision, environment) {
        return (Source::parse(model).at_revision(revision), None);
    }
    let warning = format!(
        "no tokenizer for {model:?} is on this machine; tokens are counted with the builtin \
         tokenizer, so counts differ from the server's. Use --tokenizer to select the model's own, \
         or --use-server-token-count to use the server's counts"
    );
    (Source::Builtin, Some(warning))
}
