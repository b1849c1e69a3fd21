//! Which tokenizer counts when none is named.

use std::path::Path;

use super::Environment;
use crate::tokenizer::{self, Source};

/// The tokenizer of `--tokenizer NAME`: `builtin`, a path, or a hub name.
#[must_use]
pub fn named(name: &str, revision: &str) -> Source {
    if name == "builtin" {
        return Source::Builtin;
    }
    let path = Path::new(name);
    let is_path = path.is_absolute() || name.starts_with('.') || name.starts_with('~');
    if is_path || path.exists() {
        Source::Path(path.to_owned())
    } else {
        Source::Hub { name: name.to_owned(), revision: revision.to_owned() }
    }
}

/// The tokenizer where `--tokenizer` is absent: the model's own if it is on
/// this machine, else the embedded one, with a warning that says so.
#[must_use]
pub fn default_for(
    model: &str,
    revision: &str,
    environment: Environment<'_>,
) -> (Source, Option<String>) {
    let is_cached = tokenizer::is_cached(model, revision, &|name| environment.get(name));
    let is_local = is_tokenizer(Path::new(model)) || is_cached;
    if is_local {
        return (named(model, revision), None);
    }
    let warning = format!(
        "no tokenizer of {model} is on this machine: tokens are counted by the builtin one, so \
         counts differ from the server's; name the model's own with --tokenizer, or count by the \
         server with --use-server-token-count"
    );
    (Source::Builtin, Some(warning))
}

/// Whether `path` is a `tokenizer.json` or a directory that holds one.
fn is_tokenizer(path: &Path) -> bool {
    path.is_file() && path.extension().is_some_and(|ending| ending == "json")
        || path.join("tokenizer.json").is_file()
}
