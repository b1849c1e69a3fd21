//! The local cache of a repository.

use std::fs::{self, File, OpenOptions};
use std::io;
use std::path::{Path, PathBuf};

use base::environment::Environment;
use base::input;
use base::platform::files::link;
use base::platform::replace::replace;

use super::{HubError, Listing};

/// Returns the directory of the cache.
pub(super) fn directory(environment: Environment<'_>) -> PathBuf {
    let set = |name| environment.get(name);
    if let Some(cache) = set("HF_HUB_CACHE") {
        return PathBuf::from(cache);
    }
    let home = set("HF_HOME").map_or_else(
        || {
            let caches = set("XDG_CACHE_HOME").map_or_else(
                || PathBuf::from(set("HOME").unwrap_or_else(|| ".".to_owned())).join(".cache"),
                PathBuf::from,
            );
            caches.join("huggingface")
        },
        PathBuf::from,
    );
    home.join("hub")
}

/// A repository's directory in the cache.
#[derive(Debug)]
pub(super) struct Cache {
    pub(super) directory: PathBuf,
}

/// The identity of a file's content in a repository.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Blob {
    /// The commit in which the content was found.
    pub(super) commit: String,
    /// The content's hash, which is its name in the cache.
    pub(super) etag: String,
}

impl Cache {
    /// Returns the path of `file` at `revision`, if it is in the cache.
    pub(super) fn file(&self, revision: &str, file: &str) -> Option<PathBuf> {
        check_file(file).ok()?;
        let path = self.snapshot(&self.commit(revision)?).join(file);
        path.is_file().then_some(path)
    }

    /// Lists the files at `revision`; `None` if none is in the cache.
    pub(super) fn list(&self, revision: &str) -> Option<Listing> {
        let commit = self.commit(revision)?;
        let snapshot = self.snapshot(&commit);
        let mut files = Vec::new();
        let mut directories = vec![snapshot.clone()];
        while let Some(directory) = directories.pop() {
            for path in fs::read_dir(directory).ok()?.flatten().map(|entry| entry.path()) {
                if path.is_dir() {
                    directories.push(path);
                } else if let Some(file) = path.strip_prefix(&snapshot).ok().and_then(Path::to_str)
                {
                    files.push(file.replace(std::path::MAIN_SEPARATOR, "/"));
                }
            }
        }
        files.sort();
        (!files.is_empty()).then_some(Listing { commit, files })
    }

    fn commit(&self, revision: &str) -> Option<String> {
        if is_commit(revision) {
            return Some(revision.to_owned());
        }
        let path = self.directory.join("refs").join(revision);
        let commit = input::text(&path, input::MAX_SETTINGS_BYTES).ok()?;
        Some(commit.trim().to_owned()).filter(|commit| check_name(commit, 0).is_ok())
    }

    /// Stores that `revision` is `commit`.
    pub(super) fn refer(&self, revision: &str, commit: &str) -> io::Result<()> {
        if is_commit(revision) || !is_commit(commit) {
            return Ok(());
        }
        let path = self.directory.join("refs").join(revision);
        create_parent(&path)?;
        replace(&path, |out| out.write_all(commit.as_bytes()))
    }

    fn snapshot(&self, commit: &str) -> PathBuf {
        self.directory.join("snapshots").join(commit)
    }

    fn blob(&self, etag: &str) -> PathBuf {
        self.directory.join("blobs").join(etag)
    }

    /// Opens the incomplete download of `blob`, which no other process writes until it is closed.
    /// Returns `None` if it is complete.
    pub(super) fn incomplete(&self, blob: &Blob) -> io::Result<Option<File>> {
        let complete = self.blob(&blob.etag);
        let path = incomplete(&complete);
        create_parent(&path)?;
        if complete.is_file() {
            return Ok(None);
        }
        let file = OpenOptions::new().read(true).append(true).create(true).open(path)?;
        if file.try_lock().is_err() {
            tracing::info!("waiting for the download by another process");
            file.lock()?;
        }
        // Another process may have completed it in the meantime.
        Ok((!complete.is_file()).then_some(file))
    }

    /// Gives the completed download its name, if it does not have one yet, and adds it to the
    /// snapshot of its commit as `file`. Returns its path.
    pub(super) fn store(&self, blob: &Blob, revision: &str, file: &str) -> io::Result<PathBuf> {
        let content = self.blob(&blob.etag);
        if !content.is_file() {
            fs::rename(incomplete(&content), &content)?;
        }
        let path = self.snapshot(&blob.commit).join(file);
        create_parent(&path)?;
        // Relative, so that the cache can be moved: out of the file's directories, of the snapshot
        // and of `snapshots`.
        let up = "../".repeat(file.split('/').count() + 1);
        if !path.is_file() {
            // A link may be left of a blob that was deleted.
            let _ = fs::remove_file(&path);
            let linked = link(&Path::new(&up).join("blobs").join(&blob.etag), &path);
            // Another process may have stored it at the same time.
            linked.or_else(|error| if path.is_file() { Ok(()) } else { Err(error) })?;
        }
        self.refer(revision, &blob.commit)?;
        Ok(path)
    }
}

fn incomplete(complete: &Path) -> PathBuf {
    complete.with_added_extension("incomplete")
}

fn create_parent(path: &Path) -> io::Result<()> {
    path.parent().map_or(Ok(()), fs::create_dir_all)
}

/// Returns whether `revision` is a commit and not a branch or tag.
pub(super) fn is_commit(revision: &str) -> bool {
    revision.len() == 40 && revision.bytes().all(|b| b.is_ascii_hexdigit())
}

/// Checks a name, which becomes part of paths and URLs: letters, digits, `-`, `_` and `.`, with up
/// to `max_slashes` slashes and no part that is empty or consists of dots.
pub(super) fn check_name(name: &str, max_slashes: usize) -> Result<(), HubError> {
    let plain = |part: &str| {
        part.chars().all(|c| c.is_ascii_alphanumeric() || "-_.".contains(c))
            && part.chars().any(|c| c != '.')
    };
    if name.split('/').all(plain) && name.matches('/').count() <= max_slashes {
        Ok(())
    } else {
        Err(HubError::Name { name: name.to_owned() })
    }
}

/// Checks the path of a file in a repository, which must not leave the cache.
pub(super) fn check_file(file: &str) -> Result<(), HubError> {
    let plain = |part: &str| {
        !part.contains(['\\', ':'])
            && part.chars().all(|c| !c.is_control())
            && !part.trim_matches('.').is_empty()
    };
    if file.split('/').all(plain) { Ok(()) } else { Err(HubError::Name { name: file.to_owned() }) }
}
