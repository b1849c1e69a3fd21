//! Which tokenizer counts when none is named.

use super::Environment;
use crate::tokenizer::{Source, is_local};

/// The tokenizer where `--tokenizer` is absent: the model's own if it is on
/// this machine, else the embedded one, with a warning that says so.
#[must_use]
pub fn default_for(
    model: &str,
    revision: &str,
    environment: Environment<'_>,
) -> (Source, Option<String>) {
    if is_local(model, revision, &|name| environment.get(name)) {
        return (Source::parse(model).at_revision(revision), None);
    }
    let warning = format!(
        "no tokenizer of {model} is on this machine: tokens are counted by the builtin one, so \
         counts differ from the server's; name the model's own with --tokenizer, or count by the \
         server with --use-server-token-count"
    );
    (Source::Builtin, Some(warning))
}
