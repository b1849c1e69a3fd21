//! Client of the Hugging Face hub, and the local cache that all clients of the hub share.
//!
//! The directory of a repository in the cache has `refs/<revision>`, which contains a commit,
//! `snapshots/<commit>/<path>`, the files of that commit, and `blobs/<etag>`, to which the
//! snapshots link. An interrupted download stays in `blobs/<etag>.incomplete`, and the next one
//! continues it.

mod cache;
mod download;
#[cfg(test)]
pub(crate) mod fixture;
#[cfg(test)]
mod tests;

use std::fmt::{self, Write as _};
use std::fs::File;
use std::path::PathBuf;
use std::time::Duration;

use serde::Deserialize;
use thiserror::Error;
use url::Url;

use base::environment::Environment;
use base::parallel;

use self::cache::{Cache, check_file, check_name};

/// URL of the hub unless `HF_ENDPOINT` is set.
const DEFAULT_ENDPOINT: &str = "https://huggingface.co";
/// Wait before the first repetition of a download, doubled for each further one.
const PAUSE: Duration = Duration::from_millis(500);
/// Maximum size of a repository's list of files.
const MAX_LIST_BYTES: u64 = 64 << 20;

/// Error of a request to the hub.
#[derive(Debug, Error)]
pub enum HubError {
    /// The name, revision or path cannot be one of the hub.
    #[error("{name:?} is not a valid name on the hub")]
    Name {
        /// The name.
        name: String,
    },
    /// The file is not in the cache, and the environment forbids the download.
    #[error("it is not in the cache {cache}, and {variable} forbids downloading it")]
    Offline {
        /// Cache directory that was searched.
        cache: PathBuf,
        /// Variable that forbids the download.
        variable: &'static str,
    },
    /// The repository, revision or file does not exist.
    #[error("it does not exist on the hub")]
    NotFound,
    /// The hub or the way to it failed; the text contains neither tokens nor signed URLs.
    #[error("{0}")]
    Failed(String),
    /// The file cannot be read or written.
    #[error("cannot use {path}: {source}")]
    Io {
        /// The file.
        path: PathBuf,
        /// Error of the system.
        source: std::io::Error,
    },
}

/// State of a download.
#[derive(Debug, Clone, Copy)]
pub struct Transfer<'a> {
    /// Name of the repository.
    pub repository: &'a str,
    /// Path of the file in it.
    pub file: &'a str,
    /// Number of bytes in the cache, including those of an interrupted download.
    pub bytes: u64,
    /// Size of the file, if the hub reports it.
    pub total: Option<u64>,
}

/// Callback for the progress of downloads.
type OnTransfer = Box<dyn Fn(Transfer<'_>) + Send + Sync>;

/// The hub as configured by the environment.
pub struct Hub {
    cache: PathBuf,
    endpoint: String,
    token: Option<String>,
    /// The variable that forbids downloads, if one is set.
    offline: Option<&'static str>,
    pause: Duration,
    watch: Option<OnTransfer>,
}

/// Omits the token.
impl fmt::Debug for Hub {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Hub").field("cache", &self.cache).finish_non_exhaustive()
    }
}

/// Kinds of repositories.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RepositoryKind {
    Model,
    Dataset,
}

impl RepositoryKind {
    /// Returns the kind's name in the API and in the cache.
    const fn plural(self) -> &'static str {
        match self {
            Self::Model => "models",
            Self::Dataset => "datasets",
        }
    }

    /// Returns what precedes a repository's name in the URLs of files.
    const fn prefix(self) -> &'static str {
        match self {
            Self::Model => "",
            Self::Dataset => "datasets/",
        }
    }
}

/// A repository at a revision: a branch, a tag or a commit.
#[derive(Debug, Clone, Copy)]
pub struct Repository<'a> {
    hub: &'a Hub,
    kind: RepositoryKind,
    name: &'a str,
    revision: &'a str,
}

/// The files of a repository at a commit.
#[derive(Debug, PartialEq, Eq)]
pub struct Listing {
    pub commit: String,
    /// Paths, sorted.
    pub files: Vec<String>,
}

/// The members of the hub's description of a revision that are used.
#[derive(Deserialize)]
struct Revision {
    sha: String,
    siblings: Vec<Sibling>,
}

#[derive(Deserialize)]
struct Sibling {
    rfilename: String,
}

impl Hub {
    /// Returns the hub that `environment` describes: `HF_HUB_CACHE`, `HF_HOME`, `HF_ENDPOINT`,
    /// `HF_TOKEN`, `HF_HUB_OFFLINE`, `TRANSFORMERS_OFFLINE`, `HF_DATASETS_OFFLINE`,
    /// `XDG_CACHE_HOME` and `HOME`.
    #[must_use]
    pub fn new(environment: Environment<'_>) -> Self {
        let truthy = |name: &str| {
            environment.get(name).is_some_and(|value| {
                ["1", "true", "yes", "on"].contains(&value.to_ascii_lowercase().as_str())
            })
        };
        Self {
            cache: cache::directory(environment),
            endpoint: environment.get("HF_ENDPOINT").unwrap_or_else(|| DEFAULT_ENDPOINT.to_owned()),
            token: environment.get("HF_TOKEN"),
            offline: ["HF_HUB_OFFLINE", "TRANSFORMERS_OFFLINE", "HF_DATASETS_OFFLINE"]
                .into_iter()
                .find(|name| truthy(name)),
            pause: PAUSE,
            watch: None,
        }
    }

    /// Calls `watch` at the start of each download, after each part of it, and at its end.
    #[must_use]
    pub fn watched(self, watch: impl Fn(Transfer<'_>) + Send + Sync + 'static) -> Self {
        Self { watch: Some(Box::new(watch)), ..self }
    }

    /// Returns the repository `name` at `revision`.
    pub fn repository<'a>(
        &'a self,
        kind: RepositoryKind,
        name: &'a str,
        revision: &'a str,
    ) -> Result<Repository<'a>, HubError> {
        check_name(name, 1)?;
        check_name(revision, usize::MAX)?;
        Ok(Repository { hub: self, kind, name, revision })
    }

    /// Returns the body at `url`, outside the hub, which is not cached.
    pub fn get(&self, url: &str, max_bytes: u64) -> Result<Vec<u8>, HubError> {
        self.check_online()?;
        let url = Url::parse(url).map_err(|why| HubError::Failed(why.to_string()))?;
        on_a_thread(|| download::text(self, &url, max_bytes))
    }

    fn check_online(&self) -> Result<(), HubError> {
        let cache = || self.cache.clone();
        self.offline.map_or(Ok(()), |variable| Err(HubError::Offline { cache: cache(), variable }))
    }

    /// Returns whether `url` is one of the hub, which may have the token.
    fn is_own(&self, url: &Url) -> bool {
        Url::parse(&self.endpoint).is_ok_and(|endpoint| endpoint.origin() == url.origin())
    }

    fn transferred(&self, transfer: Transfer<'_>) {
        if let Some(watch) = &self.watch {
            watch(transfer);
        }
    }
}

impl Repository<'_> {
    /// Returns the path of `file` in the cache, if it is there.
    pub fn cached(&self, file: &str) -> Option<PathBuf> {
        self.cache().file(self.revision, file)
    }

    /// Opens `file`, which is downloaded first if it is not in the cache. Fails if it has more than
    /// `max_bytes`.
    pub fn open(&self, file: &str, max_bytes: u64) -> Result<File, HubError> {
        check_file(file)?;
        if let Some(path) = self.cached(file) {
            return File::open(&path).map_err(|source| HubError::Io { path, source });
        }
        self.hub.check_online()?;
        let path = format!("{}{}/resolve", self.kind.prefix(), self.name);
        let url = self.url(&path, file.split('/'))?;
        tracing::info!(repository = self.name, "downloading {file}");
        on_a_thread(|| download::file(*self, &url, file, max_bytes))
    }

    /// Lists the files. If the hub cannot be reached, these are the files in the cache.
    pub fn list(&self) -> Result<Listing, HubError> {
        let cached = || self.cache().list(self.revision);
        if let Err(offline) = self.hub.check_online() {
            return cached().ok_or(offline);
        }
        match self.list_online() {
            Ok(listing) => Ok(listing),
            Err(HubError::Failed(reason)) => match cached() {
                Some(listing) => {
                    tracing::warn!(
                        repository = self.name,
                        "{reason}; using the files in the cache"
                    );
                    Ok(listing)
                }
                None => Err(HubError::Failed(reason)),
            },
            Err(error) => Err(error),
        }
    }

    fn list_online(&self) -> Result<Listing, HubError> {
        let path = format!("api/{}/{}/revision", self.kind.plural(), self.name);
        let url = self.url(&path, std::iter::empty())?;
        let body = on_a_thread(|| download::text(self.hub, &url, MAX_LIST_BYTES))?;
        let wrong = |why: &dyn fmt::Display| {
            HubError::Failed(format!("the hub's list of files is not valid: {why}"))
        };
        let Revision { sha, siblings } =
            serde_json::from_slice(&body).map_err(|why| wrong(&why))?;
        if !cache::is_commit(&sha) {
            return Err(wrong(&"its commit is not a hash"));
        }
        let mut files: Vec<String> =
            siblings.into_iter().map(|sibling| sibling.rfilename).collect();
        files.sort();
        if let Err(error) = self.cache().refer(self.revision, &sha) {
            self.warn_not_cached(&error);
        }
        Ok(Listing { commit: sha, files })
    }

    /// Returns the repository's directory in the cache.
    fn cache(&self) -> Cache {
        let name = format!("{}--{}", self.kind.plural(), self.name.replace('/', "--"));
        Cache { directory: self.hub.cache.join(name) }
    }

    fn warn_not_cached(&self, error: &dyn fmt::Display) {
        let cache = self.hub.cache.display();
        tracing::warn!(%cache, repository = self.name, %error, "cannot cache the file");
    }

    /// Returns the URL of `path` on the hub, followed by the revision and `parts`.
    fn url<'p>(&self, path: &str, parts: impl Iterator<Item = &'p str>) -> Result<Url, HubError> {
        let wrong = |why: &dyn fmt::Display| {
            HubError::Failed(format!("HF_ENDPOINT is not a valid URL: {why}"))
        };
        let base = self.hub.endpoint.trim_end_matches('/');
        let mut url = Url::parse(&format!("{base}/{path}")).map_err(|why| wrong(&why))?;
        url.path_segments_mut()
            .map_err(|()| wrong(&"it cannot have a path"))?
            .push(self.revision)
            .extend(parts);
        Ok(url)
    }
}

/// Returns the digits of a hash.
pub(crate) fn hexadecimal(hash: &[u8]) -> String {
    hash.iter().fold(String::with_capacity(2 * hash.len()), |mut digits, byte| {
        // Writing to a string cannot fail.
        let _ = write!(digits, "{byte:02x}");
        digits
    })
}

/// Calls `work` on a thread of its own, because a blocking client must not be used or dropped while
/// an async runtime is running.
fn on_a_thread<T: Send>(work: impl FnOnce() -> Result<T, HubError> + Send) -> Result<T, HubError> {
    parallel::apart("hub", work)
        .map_err(|why| HubError::Failed(format!("cannot start a thread: {why}")))?
        .unwrap_or_else(|_| Err(HubError::Failed("the download failed".to_owned())))
}
