//! Tokenizers of models on the hub: the local cache that all hub clients share, and downloads into
//! it.
//!
//! Layout of the cache: `models--org--name/refs/<revision>` contains a commit, and
//! `models--org--name/snapshots/<commit>/tokenizer.json` is the file.

use std::error::Error as _;
use std::io::Read;
use std::path::{Path, PathBuf};
use std::time::Duration;

use reqwest::blocking::{Client, Response};
use reqwest::header::{AUTHORIZATION, HeaderMap, HeaderName, HeaderValue, LOCATION};
use reqwest::redirect::Policy;
use url::Url;

use super::{Loaded, MAX_BYTES, TokenizerError, from_bytes};
use crate::causes::described;
use crate::environment::Environment;
use crate::platform::replace::replace;

/// URL of the hub unless `HF_ENDPOINT` is set.
const DEFAULT_ENDPOINT: &str = "https://huggingface.co";
/// Timeout of a whole request.
const TIMEOUT: Duration = Duration::from_mins(2);
const CONNECT_TIMEOUT: Duration = Duration::from_secs(10);
const MAX_REDIRECTS: usize = 5;
/// Name of the tokenizer file.
const TOKENIZER: &str = "tokenizer.json";
/// Error for a file that is not on the hub.
const NOT_THERE: &str = "the model does not exist on the hub, or lacks a tokenizer.json";
/// Header with the commit of a branch or tag. It is in the hub's own response, not in that of the
/// storage it redirects to.
const COMMIT: HeaderName = HeaderName::from_static("x-repo-commit");

/// The hub as configured by the environment.
pub(super) struct Hub {
    cache: PathBuf,
    endpoint: String,
    token: Option<String>,
    /// The variable that forbids downloads, if one is set.
    offline: Option<&'static str>,
}

/// A downloaded file and its commit, if the hub returned one.
struct Download {
    bytes: Vec<u8>,
    commit: Option<String>,
}

impl Hub {
    pub(super) fn new(environment: Environment<'_>) -> Self {
        let truthy = |name: &str| {
            environment.get(name).is_some_and(|value| {
                ["1", "true", "yes", "on"].contains(&value.to_ascii_lowercase().as_str())
            })
        };
        Self {
            cache: cache_directory(environment),
            endpoint: environment.get("HF_ENDPOINT").unwrap_or_else(|| DEFAULT_ENDPOINT.to_owned()),
            token: environment.get("HF_TOKEN"),
            offline: ["HF_HUB_OFFLINE", "TRANSFORMERS_OFFLINE"]
                .into_iter()
                .find(|name| truthy(name)),
        }
    }

    pub(super) fn load(&self, name: &str, revision: &str) -> Result<Loaded, TokenizerError> {
        check_name(name, 1)?;
        check_name(revision, usize::MAX)?;
        if let Some(file) = self.cached(name, revision) {
            return super::from_path(&file);
        }
        let model = self.model(name);
        if let Some(variable) = self.offline {
            let cache = self.cache.clone();
            return Err(TokenizerError::Offline { name: name.to_owned(), cache, variable });
        }
        let download = self
            .download(name, revision, TOKENIZER)
            .map_err(|reason| TokenizerError::Download { name: name.to_owned(), reason })?;
        let tokenizer = from_bytes(&download.bytes, &format!("tokenizer.json of {name}"))?;
        if let Some(commit) = &download.commit
            && let Err(error) = store(&model, revision, commit, TOKENIZER, &download.bytes)
        {
            tracing::warn!(cache = %self.cache.display(), %error, "cannot cache the tokenizer");
        }
        Ok(tokenizer)
    }

    /// Reads the file `file` beside the tokenizer of `name` from the cache or from the hub. Returns
    /// `None` if the model does not have this file.
    pub(super) fn companion(
        &self,
        name: &str,
        revision: &str,
        file: &str,
    ) -> Result<Option<Vec<u8>>, TokenizerError> {
        let beside = self.cached(name, revision).map(|tokenizer| tokenizer.with_file_name(file));
        if let Some(path) = beside.filter(|path| path.is_file()) {
            let read = super::read(&path);
            return read.map(Some).map_err(|source| TokenizerError::Read { path, source });
        }
        // A file that is not in the cache may be on the hub, if downloads are allowed.
        if self.offline.is_some() {
            return Ok(None);
        }
        match self.download(name, revision, file) {
            Ok(Download { bytes, commit }) => {
                if let Some(commit) = &commit
                    && let Err(error) = store(&self.model(name), revision, commit, file, &bytes)
                {
                    tracing::warn!(cache = %self.cache.display(), %error, "cannot cache {file}");
                }
                Ok(Some(bytes))
            }
            Err(reason) if reason == NOT_THERE => Ok(None),
            Err(reason) => Err(TokenizerError::Download { name: name.to_owned(), reason }),
        }
    }

    /// Returns the path of the cached `tokenizer.json` of `name`, if there is one.
    pub(super) fn cached(&self, name: &str, revision: &str) -> Option<PathBuf> {
        check_name(name, 1).ok()?;
        check_name(revision, usize::MAX).ok()?;
        cached(&self.model(name), revision)
    }

    /// Returns the model's directory in the cache.
    fn model(&self, name: &str) -> PathBuf {
        self.cache.join(format!("models--{}", name.replace('/', "--")))
    }

    /// Downloads one of the model's files. It runs on its own thread, because a blocking client
    /// must not be used or dropped while an async runtime is running.
    fn download(&self, name: &str, revision: &str, file: &str) -> Result<Download, String> {
        let base = self.endpoint.trim_end_matches('/');
        let revision = revision.replace('/', "%2F");
        let url = format!("{base}/{name}/resolve/{revision}/{file}");
        let url =
            Url::parse(&url).map_err(|error| format!("HF_ENDPOINT is not a valid URL: {error}"))?;
        tracing::info!(model = name, "downloading {file}");
        std::thread::scope(|scope| {
            std::thread::Builder::new()
                .spawn_scoped(scope, || self.fetch(url))
                .map_err(|why| format!("cannot start a thread: {why}"))?
                .join()
                .unwrap_or_else(|_| Err("the download failed".to_owned()))
        })
    }

    /// Downloads `url` and follows redirects itself: the commit is in a header on the way, and the
    /// token must not leave the origin of the hub.
    fn fetch(&self, mut url: Url) -> Result<Download, String> {
        let client = client()?;
        let origin = url.origin();
        let mut commit = None;
        for _ in 0..=MAX_REDIRECTS {
            let mut headers = HeaderMap::new();
            if let Some(token) = self.token.as_deref().filter(|_| url.origin() == origin) {
                headers.insert(AUTHORIZATION, bearer(token)?);
            }
            let response =
                client.get(url.clone()).headers(headers).send().map_err(|error| explain(&error))?;
            commit = commit.or_else(|| commit_of(&response));
            if !response.status().is_redirection() {
                return read_body(response).map(|bytes| Download { bytes, commit });
            }
            let location = response.headers().get(LOCATION).and_then(|value| value.to_str().ok());
            url = location
                .and_then(|location| url.join(location).ok())
                .ok_or("the hub sent a redirect without a location")?;
        }
        Err(format!("more than {MAX_REDIRECTS} redirects"))
    }
}

fn cache_directory(environment: Environment<'_>) -> PathBuf {
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

/// Checks a name, which becomes part of paths and URLs: letters, digits, `-`, `_` and `.`, with up
/// to `max_slashes` slashes and no part that is empty or consists of dots.
fn check_name(name: &str, max_slashes: usize) -> Result<(), TokenizerError> {
    let plain = |part: &str| {
        part.chars().all(|c| c.is_ascii_alphanumeric() || "-_.".contains(c))
            && part.chars().any(|c| c != '.')
    };
    if name.split('/').all(plain) && name.matches('/').count() <= max_slashes {
        Ok(())
    } else {
        Err(TokenizerError::Name { name: name.to_owned() })
    }
}

/// Returns whether `revision` is a commit and not a branch or tag.
fn is_commit(revision: &str) -> bool {
    revision.len() == 40 && revision.bytes().all(|b| b.is_ascii_hexdigit())
}

/// Returns the path of the cached file, if it exists.
fn cached(model: &Path, revision: &str) -> Option<PathBuf> {
    let commit = if is_commit(revision) {
        revision.to_owned()
    } else {
        std::fs::read_to_string(model.join("refs").join(revision)).ok()?.trim().to_owned()
    };
    let file = model.join("snapshots").join(commit).join("tokenizer.json");
    file.is_file().then_some(file)
}

/// Stores the file in the cache, and the commit of `revision`. Each is renamed into place, so that
/// no reader sees an incomplete file.
fn store(
    model: &Path,
    revision: &str,
    commit: &str,
    file: &str,
    bytes: &[u8],
) -> std::io::Result<()> {
    write_atomically(&model.join("snapshots").join(commit).join(file), bytes)?;
    if is_commit(revision) {
        return Ok(());
    }
    write_atomically(&model.join("refs").join(revision), commit.as_bytes())
}

fn write_atomically(file: &Path, bytes: &[u8]) -> std::io::Result<()> {
    let directory = file.parent().unwrap_or(Path::new("."));
    std::fs::create_dir_all(directory)?;
    replace(file, |out| out.write_all(bytes))
}

fn client() -> Result<Client, String> {
    // Fails if a provider is already installed.
    let _ = tokio_rustls::rustls::crypto::ring::default_provider().install_default();
    Client::builder()
        .redirect(Policy::none())
        .timeout(TIMEOUT)
        .connect_timeout(CONNECT_TIMEOUT)
        .user_agent(concat!("aiperf/", env!("CARGO_PKG_VERSION")))
        .build()
        .map_err(|error| explain(&error))
}

fn bearer(token: &str) -> Result<HeaderValue, String> {
    let mut value = HeaderValue::from_str(&format!("Bearer {}", token.trim()))
        .map_err(|_| "HF_TOKEN contains characters that are not valid in a header")?;
    value.set_sensitive(true);
    Ok(value)
}

fn commit_of(response: &Response) -> Option<String> {
    let commit = response.headers().get(COMMIT)?.to_str().ok()?;
    is_commit(commit).then(|| commit.to_owned())
}

fn read_body(response: Response) -> Result<Vec<u8>, String> {
    let status = response.status();
    if !status.is_success() {
        return Err(match status.as_u16() {
            401 | 403 => format!(
                "the hub returned status {status}; set HF_TOKEN to a token with read access"
            ),
            404 => NOT_THERE.to_owned(),
            _ => format!("the hub returned status {status}"),
        });
    }
    let mut bytes = Vec::new();
    // A file with one byte more than allowed is too long.
    response
        .take(MAX_BYTES + 1)
        .read_to_end(&mut bytes)
        .map_err(|error| format!("the download was interrupted: {error}"))?;
    if bytes.len() as u64 > MAX_BYTES {
        return Err(format!("it exceeds {} MiB", MAX_BYTES >> 20));
    }
    Ok(bytes)
}

/// Returns the message of an error and of its causes, without the URL, which may contain
/// credentials or a signature.
fn explain(error: &reqwest::Error) -> String {
    let failure = if error.is_timeout() {
        "the hub did not respond in time"
    } else if error.is_connect() {
        "cannot connect to the hub"
    } else {
        "the request failed"
    };
    match error.source() {
        Some(cause) => format!("{failure}: {}", described(cause)),
        None => failure.to_owned(),
    }
}
