//! Which tokenizer counts when none is named.

use std::path::{Path, PathBuf};

use super::Environment;
use crate::tokenizer::Source;

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
    let is_local = is_tokenizer(Path::new(model)) || in_hub_cache(model, revision, environment);
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

/// Whether the hub cache has the tokenizer of this revision of `model`.
fn in_hub_cache(model: &str, revision: &str, environment: Environment<'_>) -> bool {
    let Some(cache) = hub_cache(environment) else { return false };
    let folder = cache.join(format!("models--{}", model.replace('/', "--")));
    // A branch or tag is a file that names its commit; a commit is a snapshot.
    let commit = std::fs::read_to_string(folder.join("refs").join(revision));
    let commit = commit.as_deref().map_or(revision, str::trim);
    folder.join("snapshots").join(commit).join("tokenizer.json").is_file()
}

fn hub_cache(environment: Environment<'_>) -> Option<PathBuf> {
    let below =
        |name: &str, path: &str| environment.get(name).map(|dir| Path::new(&dir).join(path));
    below("HF_HUB_CACHE", "")
        .or_else(|| below("HF_HOME", "hub"))
        .or_else(|| below("XDG_CACHE_HOME", "huggingface/hub"))
        .or_else(|| below("HOME", ".cache/huggingface/hub"))
}
