//! Downloads from the hub, which are repeated if they fail, and continued where they stopped.

use std::error::Error as _;
use std::fs::File;
use std::io::{self, Read, Seek, SeekFrom, Write as _};
use std::sync::Arc;
use std::time::Duration;

use reqwest::StatusCode;
use reqwest::blocking::{Client, Response};
use reqwest::header::{
    AUTHORIZATION, CONTENT_LENGTH, CONTENT_RANGE, ETAG, HeaderMap, HeaderName, HeaderValue,
    LOCATION, RANGE, RETRY_AFTER,
};
use reqwest::redirect::Policy;
use ring::digest::{Context, SHA1_FOR_LEGACY_USE_ONLY, SHA256};
use url::Url;

use base::causes::described;
use base::platform::lookup::Lookup;
use base::units::retry_after;

use super::cache::{Blob, is_commit};
use super::{Hub, HubError, Repository, Transfer, hexadecimal};

/// Timeout of each wait for the hub.
const TIMEOUT: Duration = Duration::from_mins(2);
const CONNECT_TIMEOUT: Duration = Duration::from_secs(10);
const MAX_REDIRECTS: usize = 5;
/// Number of attempts to download a file.
const MAX_ATTEMPTS: u32 = 8;
/// Number of attempts if none of them gets a response.
const MAX_UNANSWERED: u32 = 3;
/// Maximum wait that the hub may request.
const MAX_PAUSE: Duration = Duration::from_mins(1);
/// Header with the commit of a branch or tag. It is in the hub's own response, not in that of the
/// storage it redirects to.
const COMMIT: HeaderName = HeaderName::from_static("x-repo-commit");
/// Header with the hash of a file in another storage.
const LINKED_ETAG: HeaderName = HeaderName::from_static("x-linked-etag");

/// Maximum wait between two attempts that the hub does not request.
const LONGEST_PAUSE: Duration = Duration::from_secs(8);

/// Why an attempt failed.
enum Failure {
    /// No connection; it is final unless an earlier attempt had one.
    Unreachable(String),
    /// A connection without a response.
    Unanswered(String),
    /// It may succeed if it is repeated, after the pause that the hub requests.
    Temporary(String, Option<Duration>),
    Final(HubError),
}

impl From<HubError> for Failure {
    fn from(error: HubError) -> Self {
        Self::Final(error)
    }
}

/// Returns the body at `url`.
pub(super) fn text(hub: &Hub, url: &Url, max_bytes: u64) -> Result<Vec<u8>, HubError> {
    let client = client()?;
    repeated(hub, || {
        let reply = send(hub, &client, url, 0)?;
        let mut bytes = Vec::new();
        // A body with one byte more than allowed is too long.
        let mut body = reply.response.take(max_bytes + 1);
        body.read_to_end(&mut bytes).map_err(|why| interrupted(&why))?;
        check_size(bytes.len() as u64, max_bytes)?;
        Ok(bytes)
    })
}

/// Downloads the file at `url` into the cache and opens it. If it cannot be cached, the returned
/// file does not have a name.
pub(super) fn file(
    repository: Repository<'_>,
    url: &Url,
    name: &str,
    max_bytes: u64,
) -> Result<File, HubError> {
    let client = client()?;
    repeated(repository.hub, || {
        let reply = send(repository.hub, &client, url, 0)?;
        let Some(blob) = reply.blob() else {
            let mut file = tempfile::tempfile().map_err(|why| unwritable(repository, why))?;
            receive(repository, reply.response, &mut file, name, max_bytes)?;
            return rewound(repository, file);
        };
        let unwritable = |why| unwritable(repository, why);
        let mut file = match repository.cache().incomplete(&blob) {
            Ok(Some(file)) => file,
            // The content is in the cache, as a file of another commit.
            Ok(None) => return stored(repository, &blob, name),
            Err(error) => {
                repository.warn_not_cached(&error);
                tempfile::tempfile().map_err(unwritable)?
            }
        };
        let response = rest(repository.hub, &client, url, reply, &mut file, unwritable)?;
        receive(repository, response, &mut file, name, max_bytes)?;
        if !is_content(&mut file, &blob.etag).map_err(unwritable)? {
            file.set_len(0).map_err(unwritable)?;
            let why = "the downloaded file does not match its checksum";
            return Err(Failure::Temporary(why.to_owned(), None));
        }
        if let Err(error) = repository.cache().store(&blob, repository.revision, name) {
            repository.warn_not_cached(&error);
        }
        rewound(repository, file)
    })
}

/// Returns the response with what `file` lacks of the content; `reply` has all of it.
fn rest(
    hub: &Hub,
    client: &Client,
    url: &Url,
    reply: Reply,
    file: &mut File,
    unwritable: impl Fn(io::Error) -> HubError,
) -> Result<Response, Failure> {
    let bytes = file.seek(SeekFrom::End(0)).map_err(&unwritable)?;
    if bytes == 0 {
        return Ok(reply.response);
    }
    match send(hub, client, url, bytes) {
        Ok(rest) if rest.starts_at(bytes) => return Ok(rest.response),
        // The hub sends whole files only, or the file has more bytes than the content.
        Ok(_) | Err(Failure::Final(_)) => file.set_len(0).map_err(unwritable)?,
        Err(failure) => return Err(failure),
    }
    Ok(reply.response)
}

/// Appends the body of `response` to `file`.
fn receive(
    repository: Repository<'_>,
    mut response: Response,
    file: &mut File,
    name: &str,
    max_bytes: u64,
) -> Result<(), Failure> {
    let mut bytes = file.seek(SeekFrom::End(0)).map_err(|why| unwritable(repository, why))?;
    let length = response.headers().get(CONTENT_LENGTH).and_then(|length| length.to_str().ok());
    let total = length.and_then(|length| length.parse::<u64>().ok()).map(|length| bytes + length);
    check_size(total.unwrap_or_default(), max_bytes)?;
    let mut buffer = vec![0; 1 << 17];
    loop {
        let transfer = Transfer { repository: repository.name, file: name, bytes, total };
        repository.hub.transferred(transfer);
        let read = response.read(&mut buffer).map_err(|why| interrupted(&why))?;
        if read == 0 {
            return Ok(());
        }
        file.write_all(&buffer[..read]).map_err(|why| unwritable(repository, why))?;
        bytes += read as u64;
        check_size(bytes, max_bytes)?;
    }
}

/// Adds the content to the cache as `name` and opens it.
fn stored(repository: Repository<'_>, blob: &Blob, name: &str) -> Result<File, Failure> {
    let stored = repository.cache().store(blob, repository.revision, name);
    let opened = stored.and_then(File::open);
    opened.map_err(|why| unwritable(repository, why).into())
}

fn rewound(repository: Repository<'_>, mut file: File) -> Result<File, Failure> {
    file.rewind().map_err(|why| unwritable(repository, why))?;
    Ok(file)
}

fn unwritable(repository: Repository<'_>, source: io::Error) -> HubError {
    HubError::Io { path: repository.cache().directory, source }
}

/// Returns whether `file` has the content that `etag` is the hash of: a SHA-256, or the hash of a
/// git object. Any other `etag` matches everything.
fn is_content(file: &mut File, etag: &str) -> io::Result<bool> {
    if !etag.bytes().all(|byte| byte.is_ascii_hexdigit()) {
        return Ok(true);
    }
    let mut context = match etag.len() {
        64 => Context::new(&SHA256),
        40 => {
            let mut context = Context::new(&SHA1_FOR_LEGACY_USE_ONLY);
            context.update(format!("blob {}\0", file.metadata()?.len()).as_bytes());
            context
        }
        _ => return Ok(true),
    };
    file.rewind()?;
    let mut buffer = vec![0; 1 << 17];
    loop {
        match file.read(&mut buffer)? {
            0 => break,
            read => context.update(&buffer[..read]),
        }
    }
    Ok(hexadecimal(context.finish().as_ref()) == etag.to_ascii_lowercase())
}

fn check_size(bytes: u64, max_bytes: u64) -> Result<(), HubError> {
    if bytes > max_bytes {
        return Err(HubError::Failed(format!("it exceeds {} MiB", max_bytes >> 20)));
    }
    Ok(())
}

/// Calls `attempt` until it succeeds, fails for good or has failed too often.
fn repeated<T>(hub: &Hub, attempt: impl Fn() -> Result<T, Failure>) -> Result<T, HubError> {
    let (mut failures, mut unanswered) = (0, 0);
    loop {
        let (reason, pause) = match attempt() {
            Ok(done) => return Ok(done),
            Err(Failure::Final(error)) => return Err(error),
            Err(Failure::Unreachable(reason)) if failures == 0 => {
                return Err(HubError::Failed(reason));
            }
            Err(Failure::Unreachable(reason)) => (reason, None),
            Err(Failure::Unanswered(reason)) => {
                unanswered += 1;
                if unanswered == MAX_UNANSWERED && failures + 1 == unanswered {
                    let why = format!("{reason}; is HF_ENDPOINT the URL of a hub?");
                    return Err(HubError::Failed(why));
                }
                (reason, None)
            }
            Err(Failure::Temporary(reason, pause)) => (reason, pause),
        };
        let own = (hub.pause * 2u32.pow(failures)).min(LONGEST_PAUSE);
        failures += 1;
        let pause = pause.unwrap_or_default().max(own);
        if pause > MAX_PAUSE {
            let why = format!("{reason}, and asked for a pause of {} s", pause.as_secs());
            return Err(HubError::Failed(why));
        }
        if failures == MAX_ATTEMPTS {
            return Err(HubError::Failed(reason));
        }
        tracing::warn!("{reason}; trying again in {pause:?}");
        std::thread::sleep(pause);
    }
}

/// A successful response, and what the headers on the way to it said.
struct Reply {
    response: Response,
    commit: Option<String>,
    etag: Option<String>,
}

impl Reply {
    fn blob(&self) -> Option<Blob> {
        Some(Blob { commit: self.commit.clone()?, etag: self.etag.clone()? })
    }

    /// Returns whether the body is the content from its byte `first`.
    fn starts_at(&self, first: u64) -> bool {
        let range =
            self.response.headers().get(CONTENT_RANGE).and_then(|range| range.to_str().ok());
        self.response.status() == StatusCode::PARTIAL_CONTENT
            && range.is_some_and(|range| range.starts_with(&format!("bytes {first}-")))
    }
}

/// Requests `url` from its byte `first`. Follows redirects itself: the commit and the hash are in
/// headers on the way, and the token must not leave the origin of the hub.
fn send(hub: &Hub, client: &Client, url: &Url, first: u64) -> Result<Reply, Failure> {
    let mut url = url.clone();
    let (mut commit, mut etag) = (None, None);
    for _ in 0..=MAX_REDIRECTS {
        if !matches!(url.scheme(), "http" | "https") {
            let why = format!(
                "cannot download over {}; set HF_ENDPOINT to a URL that starts with http:// or \
                 https://",
                url.scheme()
            );
            return Err(HubError::Failed(why).into());
        }
        let mut headers = HeaderMap::new();
        let is_hub = hub.is_own(&url);
        if let Some(token) = hub.token.as_deref().filter(|_| is_hub) {
            headers.insert(AUTHORIZATION, bearer(token)?);
        }
        if first > 0
            && let Ok(range) = HeaderValue::from_str(&format!("bytes={first}-"))
        {
            headers.insert(RANGE, range);
        }
        let response = client.get(url.clone()).headers(headers).send().map_err(|error| {
            let reason = explain(&error);
            if error.is_connect() {
                Failure::Unreachable(reason)
            } else {
                Failure::Unanswered(reason)
            }
        })?;
        let target = redirect(&response, &url)?;
        if is_hub {
            let leaves = target.as_ref().is_none_or(|target| !hub.is_own(target));
            let of_file = || etag_of(&response, &ETAG).filter(|_| leaves);
            etag = etag.or_else(|| etag_of(&response, &LINKED_ETAG)).or_else(of_file);
            commit = commit.or_else(|| commit_of(&response));
        }
        match target {
            Some(target) => url = target,
            None => return Ok(Reply { response: checked(response)?, commit, etag }),
        }
    }
    Err(HubError::Failed(format!("more than {MAX_REDIRECTS} redirects")).into())
}

/// Returns where `response` redirects to, if it does.
fn redirect(response: &Response, from: &Url) -> Result<Option<Url>, HubError> {
    if !response.status().is_redirection() {
        return Ok(None);
    }
    let location = response.headers().get(LOCATION).and_then(|value| value.to_str().ok());
    let target = location.and_then(|location| from.join(location).ok());
    target
        .map(Some)
        .ok_or_else(|| HubError::Failed("the hub sent a redirect without a location".to_owned()))
}

fn client() -> Result<Client, HubError> {
    // Fails if a provider is already installed.
    let _ = tokio_rustls::rustls::crypto::ring::default_provider().install_default();
    Client::builder()
        .redirect(Policy::none())
        .dns_resolver(Arc::new(Lookup))
        .timeout(TIMEOUT)
        .connect_timeout(CONNECT_TIMEOUT)
        .user_agent(concat!("aiperf/", env!("CARGO_PKG_VERSION")))
        .build()
        .map_err(|error| HubError::Failed(explain(&error)))
}

fn bearer(token: &str) -> Result<HeaderValue, HubError> {
    let mut value = HeaderValue::from_str(&format!("Bearer {}", token.trim())).map_err(|_| {
        let why = "HF_TOKEN contains characters that are not valid in a header";
        HubError::Failed(why.to_owned())
    })?;
    value.set_sensitive(true);
    Ok(value)
}

fn commit_of(response: &Response) -> Option<String> {
    let commit = response.headers().get(COMMIT)?.to_str().ok()?;
    is_commit(commit).then(|| commit.to_owned())
}

/// Returns the hash in the header `name`, if it can be the name of a file.
fn etag_of(response: &Response, name: &HeaderName) -> Option<String> {
    let etag = response.headers().get(name)?.to_str().ok()?;
    let etag = etag.trim_start_matches("W/").trim_matches('"');
    let plain = |byte: u8| byte.is_ascii_alphanumeric() || b"-_".contains(&byte);
    (!etag.is_empty() && etag.bytes().all(plain)).then(|| etag.to_owned())
}

fn checked(response: Response) -> Result<Response, Failure> {
    let status = response.status();
    if status.is_success() {
        return Ok(response);
    }
    Err(match status.as_u16() {
        401 | 403 => HubError::Failed(format!(
            "the hub returned status {status}; set HF_TOKEN to a token with read access"
        ))
        .into(),
        404 => HubError::NotFound.into(),
        429 | 500.. => {
            let pause = response.headers().get(RETRY_AFTER).and_then(|wait| wait.to_str().ok());
            let pause = pause.and_then(retry_after);
            Failure::Temporary(format!("the hub returned status {status}"), pause)
        }
        _ => HubError::Failed(format!("the hub returned status {status}")).into(),
    })
}

fn interrupted(why: &io::Error) -> Failure {
    Failure::Temporary(format!("the download was interrupted: {}", described(why)), None)
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
