//! The model hub's local cache, and downloads into it.
//!
//! Layout: `models--org--name/refs/<revision>` holds a commit, and
//! `models--org--name/snapshots/<commit>/tokenizer.json` the file.

use std::fs;
use std::io::{Read, Write};
use std::path::{Path, PathBuf};
use std::time::Duration;

use reqwest::blocking::{Client, Response};

use super::TokenizerError;

type Environment<'a> = &'a dyn Fn(&str) -> Option<String>;

/// The largest `tokenizer.json` that is taken, in bytes.
const SIZE_LIMIT: u64 = 256 << 20;

/// Bound on a download.
const TIMEOUT: Duration = Duration::from_mins(2);

/// Variables that forbid downloads.
const OFFLINE: [&str; 2] = ["HF_HUB_OFFLINE", "TRANSFORMERS_OFFLINE"];

/// The `tokenizer.json` of `name`: the cached one, else downloaded.
pub(super) fn tokenizer_file(
    name: &str,
    revision: &str,
    environment: Environment<'_>,
) -> Result<PathBuf, TokenizerError> {
    if let Some(file) = cached_file(name, revision, environment) {
        return Ok(file);
    }
    if let Some(variable) = OFFLINE.iter().find(|variable| is_set(variable, environment)) {
        return Err(TokenizerError::Offline(name.to_owned(), variable));
    }
    download(name, revision, environment)
        .map_err(|reason| TokenizerError::Download { name: name.to_owned(), reason })
}

/// The cached `tokenizer.json` of `name`, if there is one.
pub(super) fn cached_file(
    name: &str,
    revision: &str,
    environment: Environment<'_>,
) -> Option<PathBuf> {
    let model = model_directory(name, environment)?;
    let commit = fs::read_to_string(model.join("refs").join(revision));
    let commit = commit.as_deref().map_or(revision, str::trim);
    Some(model.join("snapshots").join(commit).join("tokenizer.json")).filter(|file| file.is_file())
}

fn is_set(variable: &str, environment: Environment<'_>) -> bool {
    environment(variable).is_some_and(|value| {
        matches!(value.to_ascii_lowercase().as_str(), "1" | "true" | "yes" | "on")
    })
}

fn model_directory(name: &str, environment: Environment<'_>) -> Option<PathBuf> {
    // Segments such as `..` could leave the cache.
    if name.split('/').any(|part| part.is_empty() || part.starts_with('.')) {
        return None;
    }
    let below = |variable, path| Some(Path::new(&environment(variable)?).join(path));
    let cache = below("HF_HUB_CACHE", "")
        .or_else(|| below("HF_HOME", "hub"))
        .or_else(|| below("XDG_CACHE_HOME", "huggingface/hub"))
        .or_else(|| below("HOME", ".cache/huggingface/hub"))?;
    Some(cache.join(format!("models--{}", name.replace('/', "--"))))
}

fn download(name: &str, revision: &str, environment: Environment<'_>) -> Result<PathBuf, String> {
    let model = model_directory(name, environment).ok_or("it is no name of a model")?;
    let base = environment("HF_ENDPOINT").unwrap_or_else(|| "https://huggingface.co".to_owned());
    let url = format!("{}/{name}/resolve/{revision}/tokenizer.json", base.trim_end_matches('/'));
    // Fails only where another part of the program was first.
    let _ = tokio_rustls::rustls::crypto::ring::default_provider().install_default();
    let client = Client::builder().timeout(TIMEOUT).build().map_err(describe)?;
    let mut request = client.get(url);
    if let Some(token) = environment("HF_TOKEN") {
        request = request.bearer_auth(token);
    }
    let response = request.send().and_then(Response::error_for_status).map_err(describe)?;
    let commit = response
        .headers()
        .get("x-repo-commit")
        .and_then(|commit| commit.to_str().ok())
        .filter(|commit| !commit.is_empty() && commit.bytes().all(|b| b.is_ascii_alphanumeric()))
        .unwrap_or(revision)
        .to_owned();
    let mut content = Vec::new();
    response.take(SIZE_LIMIT + 1).read_to_end(&mut content).map_err(|error| error.to_string())?;
    if content.len() as u64 > SIZE_LIMIT {
        return Err(format!("its tokenizer.json has more than {SIZE_LIMIT} bytes"));
    }
    keep(&model, revision, &commit, &content).map_err(|error| format!("the hub cache: {error}"))
}

/// Writes the file and the reference, each by renaming a complete temporary one.
fn keep(model: &Path, revision: &str, commit: &str, content: &[u8]) -> std::io::Result<PathBuf> {
    let write = |path: &Path, bytes: &[u8]| -> std::io::Result<()> {
        let directory = path.parent().unwrap_or(model);
        fs::create_dir_all(directory)?;
        let mut file = tempfile::NamedTempFile::new_in(directory)?;
        file.write_all(bytes)?;
        file.persist(path)?;
        Ok(())
    };
    let file = model.join("snapshots").join(commit).join("tokenizer.json");
    write(&file, content)?;
    if commit != revision {
        write(&model.join("refs").join(revision), commit.as_bytes())?;
    }
    Ok(file)
}

/// An error's text and its cause's; without the URL, which may bear credentials.
fn describe(error: reqwest::Error) -> String {
    use std::error::Error as _;
    let error = error.without_url();
    let cause = error.source().map(|cause| format!(": {cause}")).unwrap_or_default();
    format!("{error}{cause}")
}
