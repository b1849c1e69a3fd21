//! Tokenizers of models on the hub: the local cache that all hub clients
//! share, and the download into it.
//!
//! Layout of the cache: `models--org--name/refs/<revision>` holds a commit,
//! `models--org--name/snapshots/<commit>/tokenizer.json` the file.

use std::io::{Read, Write};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use reqwest::blocking::{Client, Response};
use reqwest::header::{AUTHORIZATION, HeaderMap, HeaderName, HeaderValue, LOCATION};
use reqwest::redirect::Policy;
use url::Url;

use super::{Environment, TokenizerError, from_bytes};

/// Where models live unless `HF_ENDPOINT` says otherwise.
const DEFAULT_ENDPOINT: &str = "https://huggingface.co";
/// Whole time of one request.
const TIMEOUT: Duration = Duration::from_mins(2);
const CONNECT_TIMEOUT: Duration = Duration::from_secs(10);
/// The largest vocabularies in use are a quarter of this.
const MAX_BYTES: u64 = 128 << 20;
const MAX_REDIRECTS: usize = 5;
/// The file that counts.
const TOKENIZER: &str = "tokenizer.json";
/// What is said of a file that the hub does not have.
const NOT_THERE: &str = "the hub has no such model, or the model no tokenizer.json";
/// Names the commit behind a branch or tag; on the hub's own answer, not on
/// that of the storage it redirects to.
const COMMIT: HeaderName = HeaderName::from_static("x-repo-commit");

/// The hub as the environment describes it.
pub(super) struct Hub {
    cache: PathBuf,
    endpoint: String,
    token: Option<String>,
    /// The variable that forbids downloads, if one does.
    offline: Option<&'static str>,
}

/// A downloaded file and the commit it belongs to, where the hub told.
struct Download {
    bytes: Vec<u8>,
    commit: Option<String>,
}

impl Hub {
    pub(super) fn new(environment: Environment<'_>) -> Self {
        let set = |name: &str| environment(name).filter(|value| !value.is_empty());
        let truthy = |name: &str| {
            set(name).is_some_and(|value| {
                ["1", "true", "yes", "on"].contains(&value.to_ascii_lowercase().as_str())
            })
        };
        Self {
            cache: cache_directory(&set),
            endpoint: set("HF_ENDPOINT").unwrap_or_else(|| DEFAULT_ENDPOINT.to_owned()),
            token: set("HF_TOKEN"),
            offline: ["HF_HUB_OFFLINE", "TRANSFORMERS_OFFLINE"]
                .into_iter()
                .find(|name| truthy(name)),
        }
    }

    /// The tokenizer of the model `name` at `revision`.
    pub(super) fn load(
        &self,
        name: &str,
        revision: &str,
    ) -> Result<Arc<tokenizers::Tokenizer>, TokenizerError> {
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
            tracing::warn!(cache = %self.cache.display(), %error, "the tokenizer could not be cached");
        }
        Ok(tokenizer)
    }

    /// The file `file` beside the tokenizer of `name`: from the cache, else from the
    /// hub. `None` where the model has no such file.
    pub(super) fn companion(
        &self,
        name: &str,
        revision: &str,
        file: &str,
    ) -> Result<Option<Vec<u8>>, TokenizerError> {
        let beside = self.cached(name, revision).map(|tokenizer| tokenizer.with_file_name(file));
        if let Some(path) = beside.filter(|path| path.is_file()) {
            let read = std::fs::read(&path);
            return read.map(Some).map_err(|source| TokenizerError::Read { path, source });
        }
        // What is not in the cache may be on the hub, where that may be asked.
        if self.offline.is_some() {
            return Ok(None);
        }
        match self.download(name, revision, file) {
            Ok(Download { bytes, commit }) => {
                if let Some(commit) = &commit
                    && let Err(error) = store(&self.model(name), revision, commit, file, &bytes)
                {
                    tracing::warn!(cache = %self.cache.display(), %error, "{file} could not be cached");
                }
                Ok(Some(bytes))
            }
            Err(reason) if reason == NOT_THERE => Ok(None),
            Err(reason) => Err(TokenizerError::Download { name: name.to_owned(), reason }),
        }
    }

    /// The cached `tokenizer.json` of `name`, if there is one.
    pub(super) fn cached(&self, name: &str, revision: &str) -> Option<PathBuf> {
        check_name(name, 1).ok()?;
        check_name(revision, usize::MAX).ok()?;
        cached(&self.model(name), revision)
    }

    /// The model's directory in the cache.
    fn model(&self, name: &str) -> PathBuf {
        self.cache.join(format!("models--{}", name.replace('/', "--")))
    }

    /// Fetches one of the model's files. On a thread of its own: a blocking client may
    /// not be used, nor dropped, where an async runtime is running.
    fn download(&self, name: &str, revision: &str, file: &str) -> Result<Download, String> {
        let base = self.endpoint.trim_end_matches('/');
        let revision = revision.replace('/', "%2F");
        let url = format!("{base}/{name}/resolve/{revision}/{file}");
        let url = Url::parse(&url).map_err(|error| format!("HF_ENDPOINT is no URL: {error}"))?;
        tracing::info!(model = name, "downloading {file}");
        std::thread::scope(|scope| {
            scope
                .spawn(|| self.fetch(url))
                .join()
                .unwrap_or_else(|_| Err("the download failed".to_owned()))
        })
    }

    /// Follows redirects by hand: the commit is named on the way, and the token
    /// must not leave the hub's own origin.
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
                .ok_or("the hub redirects to nowhere")?;
        }
        Err(format!("more than {MAX_REDIRECTS} redirects"))
    }
}

fn cache_directory(set: &dyn Fn(&str) -> Option<String>) -> PathBuf {
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

/// Names become parts of paths and URLs: letters, digits, `-`, `_` and `.`,
/// with up to `max_slashes` slashes and no part that is empty or all dots.
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

/// A commit, as opposed to a branch or tag.
fn is_commit(revision: &str) -> bool {
    revision.len() == 40 && revision.bytes().all(|b| b.is_ascii_hexdigit())
}

/// The cached file, if it is there.
fn cached(model: &Path, revision: &str) -> Option<PathBuf> {
    let commit = if is_commit(revision) {
        revision.to_owned()
    } else {
        std::fs::read_to_string(model.join("refs").join(revision)).ok()?.trim().to_owned()
    };
    let file = model.join("snapshots").join(commit).join("tokenizer.json");
    file.is_file().then_some(file)
}

/// Puts the file into the cache, and the commit behind `revision`. Each is
/// renamed into place, so that no reader sees half of one.
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
    let mut temporary = tempfile::NamedTempFile::new_in(directory)?;
    temporary.write_all(bytes)?;
    temporary.persist(file).map_err(|error| error.error)?;
    Ok(())
}

fn client() -> Result<Client, String> {
    // A second installation fails: then one is there already.
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
        .map_err(|_| "HF_TOKEN holds characters that no header may hold")?;
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
            401 | 403 => format!("the hub says {status}: set HF_TOKEN to one that may read it"),
            404 => NOT_THERE.to_owned(),
            _ => format!("the hub says {status}"),
        });
    }
    let mut bytes = Vec::new();
    // One byte more than allowed tells a file that is too long.
    response
        .take(MAX_BYTES + 1)
        .read_to_end(&mut bytes)
        .map_err(|error| format!("the download broke off: {error}"))?;
    if bytes.len() as u64 > MAX_BYTES {
        return Err(format!("it is larger than {} MiB", MAX_BYTES >> 20));
    }
    Ok(bytes)
}

/// An error's words and those of its causes, without the address: it may bear
/// credentials or a signature.
fn explain(error: &reqwest::Error) -> String {
    let mut words = if error.is_timeout() {
        "the hub did not answer in time".to_owned()
    } else if error.is_connect() {
        "cannot connect to the hub".to_owned()
    } else {
        "the request failed".to_owned()
    };
    let mut cause = std::error::Error::source(error);
    while let Some(error) = cause {
        words = format!("{words}: {error}");
        cause = error.source();
    }
    words
}
