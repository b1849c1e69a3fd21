//! Requests to the server, which are repeated if they fail for a while.

use std::collections::BTreeMap;
use std::error::Error as _;
use std::fs::File;
use std::io::Read;
use std::path::Path;
use std::sync::Arc;
use std::thread;
use std::time::Duration;

use http::header::{AUTHORIZATION, RETRY_AFTER};
use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, utf8_percent_encode};
use reqwest::blocking::{Body, RequestBuilder};
use reqwest::{Method, StatusCode};
use serde_json::{Value, json};
use thiserror::Error;
use tokio::sync::oneshot;
use url::Url;

use base::causes::described;
use base::interrupt::Interrupt;
use base::platform::lookup::Lookup;
use base::redact::{self, ShownUrl};
use base::units::{Clock, Nanos, retry_after};

use super::Config;
use super::content::{Content, Sample};

/// Maximum number of metrics in one request.
const MAX_METRICS: usize = 1000;
/// Maximum number of parameters, and of tags, in one request.
const MAX_OTHERS: usize = 100;
/// Maximum size of a response, in bytes.
const MAX_RESPONSE: u64 = 4 << 20;
/// Maximum number of attempts of a request.
const MAX_ATTEMPTS: u32 = 4;
/// Pause before the second attempt; it doubles with each.
const FIRST_PAUSE: Duration = Duration::from_millis(500);
/// Maximum time of an attempt, except an upload.
const TIMEOUT: Duration = Duration::from_secs(10);
const CONNECT_TIMEOUT: Duration = Duration::from_secs(5);

/// Characters that stay in a path: those that RFC 3986 does not reserve.
const UNRESERVED: &AsciiSet = &NON_ALPHANUMERIC.remove(b'-').remove(b'.').remove(b'_').remove(b'~');

/// The reason why something was not sent.
#[derive(Debug, Error)]
pub(super) enum MlflowError {
    /// There was no response.
    #[error("{server} does not respond: {why}")]
    Unreachable { server: ShownUrl, why: String },
    /// The server rejected a request.
    #[error("{server} responded to {path} with status {status}: {message}")]
    Rejected { server: ShownUrl, path: String, status: u16, code: String, message: String },
    /// The response is not what the API specifies.
    #[error("the response of {server} to {path} is not that of an MLflow server; check the URL")]
    Unexpected { server: ShownUrl, path: String },
    /// The experiment was deleted.
    #[error(
        "the experiment {0:?} is deleted; restore it, or choose another with --mlflow-experiment"
    )]
    Deleted(String),
    /// Files cannot be uploaded through the server.
    #[error(
        "the server keeps files at {0}, where only its own client can write; start it with --serve-artifacts"
    )]
    NoProxy(ShownUrl),
    /// A file cannot be read.
    #[error("cannot read {path}: {why}")]
    File { path: String, why: std::io::Error },
    /// The user interrupted it.
    #[error("it was interrupted")]
    Interrupted,
    /// There was not enough time.
    #[error("the time of AIPERF_MLFLOW_EXPORT_TIMEOUT_SECONDS is over; use a longer one")]
    TimeOver,
}

/// A run on the server.
#[derive(Debug, Clone)]
pub(super) struct Remote {
    pub(super) run_id: String,
    /// Where its files are.
    artifacts: String,
}

/// A connection to the server until a deadline or an interrupt.
pub(super) struct Client<'a> {
    config: &'a Config,
    http: reqwest::blocking::Client,
    deadline: Nanos,
    interrupt: Interrupt,
}

impl<'a> Client<'a> {
    pub(super) fn new(
        config: &'a Config,
        deadline: Nanos,
        interrupt: &Interrupt,
    ) -> Result<Self, MlflowError> {
        // Fails only if another part of the program was first.
        let _ = tokio_rustls::rustls::crypto::ring::default_provider().install_default();
        let http = reqwest::blocking::Client::builder()
            .dns_resolver(Arc::new(Lookup))
            .connect_timeout(CONNECT_TIMEOUT)
            .user_agent(concat!("aiperf/", env!("CARGO_PKG_VERSION")))
            .build()
            .map_err(|why| unreachable(config, &why))?;
        Ok(Self { config, http, deadline, interrupt: interrupt.clone() })
    }

    /// Creates the run with its parameters and tags, and the experiment if necessary.
    pub(super) fn create(&self, content: &Content) -> Result<Remote, MlflowError> {
        let experiment = self.experiment()?;
        let tags = list(content.tags.iter().take(MAX_OTHERS));
        let created = self.call(
            "runs/create",
            &json!({
                "experiment_id": experiment,
                "run_name": content.run_name,
                "start_time": Clock::start().wall_ns(Clock::now()) / 1_000_000,
                "tags": tags,
            }),
        )?;
        let remote = self.remote("runs/create", &created)?;
        self.log(&remote, &[], &content.params, &BTreeMap::new())?;
        Ok(remote)
    }

    /// Returns a run that was created before.
    pub(super) fn find(&self, run_id: &str) -> Result<Remote, MlflowError> {
        let found = self.get("runs/get", &[("run_id", run_id)])?;
        self.remote("runs/get", &found)
    }

    /// Sends metrics.
    pub(super) fn log_metrics(&self, run: &Remote, samples: &[Sample]) -> Result<(), MlflowError> {
        self.log(run, samples, &BTreeMap::new(), &BTreeMap::new())
    }

    /// Sends the results, and ends the run at `end_ms`.
    pub(super) fn finish(
        &self,
        run: &Remote,
        content: &Content,
        end_ms: u64,
    ) -> Result<(), MlflowError> {
        let step = end_ms.saturating_sub(content.start_ms).div_ceil(1000);
        let metrics = content.metrics.iter();
        let samples = metrics.map(|(key, value)| Sample::new(key.clone(), *value, end_ms, step));
        let samples: Vec<_> = samples.collect();
        self.log(run, &samples, &content.params, &content.tags)?;
        let ended = json!({
            "run_id": run.run_id, "status": content.status.name(), "end_time": end_ms,
        });
        self.call("runs/update", &ended).map(drop)
    }

    /// Uploads a file of `directory` through the server's proxy.
    pub(super) fn upload(
        &self,
        run: &Remote,
        directory: &Path,
        name: &str,
    ) -> Result<(), MlflowError> {
        let no_proxy = || MlflowError::NoProxy(ShownUrl::new(&run.artifacts));
        let place = Url::parse(&run.artifacts).map_err(|_| no_proxy())?;
        if place.scheme() != "mlflow-artifacts" {
            return Err(no_proxy());
        }
        let parts = place.path().split('/').chain(name.split('/')).filter(|part| !part.is_empty());
        let parts = parts.map(|part| utf8_percent_encode(part, UNRESERVED).to_string());
        let path = format!("mlflow-artifacts/artifacts/{}", parts.collect::<Vec<_>>().join("/"));
        let local = directory.join(name);
        self.repeat(&path, || {
            let opened = File::open(&local).and_then(|file| Ok((file.metadata()?.len(), file)));
            let failure = |why| MlflowError::File { path: local.display().to_string(), why };
            let (size, file) = opened.map_err(failure)?;
            let request = self.request(Method::PUT, &path);
            Ok(request.timeout(self.left()?).body(Body::sized(file, size)))
        })
        .map(drop)
    }

    /// Returns the ID of the experiment.
    fn experiment(&self) -> Result<String, MlflowError> {
        let name = &self.config.experiment;
        let path = "experiments/get-by-name";
        let found = || self.get(path, &[("experiment_name", name)]);
        let is = |error: &MlflowError, expected: &str| matches!(error, MlflowError::Rejected { code, .. } if code == expected);
        let found = match found() {
            Err(error) if is(&error, "RESOURCE_DOES_NOT_EXIST") => {
                match self.call("experiments/create", &json!({ "name": name })) {
                    // Another process was first.
                    Err(error) if is(&error, "RESOURCE_ALREADY_EXISTS") => found()?,
                    created => {
                        let created = created?;
                        return text(&created, "/experiment_id")
                            .ok_or_else(|| self.unexpected("experiments/create"));
                    }
                }
            }
            found => found?,
        };
        if found.pointer("/experiment/lifecycle_stage") == Some(&json!("deleted")) {
            return Err(MlflowError::Deleted(name.clone()));
        }
        text(&found, "/experiment/experiment_id").ok_or_else(|| self.unexpected(path))
    }

    fn remote(&self, path: &str, response: &Value) -> Result<Remote, MlflowError> {
        let run_id = text(response, "/run/info/run_id");
        let artifacts = text(response, "/run/info/artifact_uri").unwrap_or_default();
        run_id.map(|run_id| Remote { run_id, artifacts }).ok_or_else(|| self.unexpected(path))
    }

    /// Sends metrics, parameters and tags in as many requests as their limits require.
    fn log(
        &self,
        run: &Remote,
        samples: &[Sample],
        params: &BTreeMap<String, String>,
        tags: &BTreeMap<String, String>,
    ) -> Result<(), MlflowError> {
        let params: Vec<_> = params.iter().collect();
        let tags: Vec<_> = tags.iter().collect();
        let metrics = samples.chunks(MAX_METRICS).map(|part| json!({ "metrics": part }));
        let params =
            params.chunks(MAX_OTHERS).map(|part| json!({ "params": list(part.iter().copied()) }));
        let tags =
            tags.chunks(MAX_OTHERS).map(|part| json!({ "tags": list(part.iter().copied()) }));
        for mut part in metrics.chain(params).chain(tags) {
            part["run_id"] = json!(run.run_id);
            self.call("runs/log-batch", &part)?;
        }
        Ok(())
    }

    fn call(&self, path: &str, body: &Value) -> Result<Value, MlflowError> {
        let path = format!("mlflow/{path}");
        let body = body.to_string();
        self.repeat(&path, || {
            let request = self.request(Method::POST, &path);
            let request = request.header("Content-Type", "application/json").body(body.clone());
            Ok(request.timeout(self.left()?.min(TIMEOUT)))
        })
    }

    fn get(&self, path: &str, query: &[(&str, &str)]) -> Result<Value, MlflowError> {
        let mut address = Url::parse("http://x").map_err(|_| self.unexpected(path))?;
        address.query_pairs_mut().extend_pairs(query);
        let path = format!("mlflow/{path}?{}", address.query().unwrap_or_default());
        self.repeat(&path, || {
            Ok(self.request(Method::GET, &path).timeout(self.left()?.min(TIMEOUT)))
        })
    }

    fn request(&self, method: Method, path: &str) -> RequestBuilder {
        let mut url = self.config.server.expose().clone();
        let (path, query) = path.split_once('?').unwrap_or((path, ""));
        url.set_path(&format!("{}/api/2.0/{path}", url.path().trim_end_matches('/')));
        // A proxy in front of the server may require a query of its own.
        let queries = [url.query().unwrap_or_default(), query];
        let queries: Vec<&str> = queries.into_iter().filter(|query| !query.is_empty()).collect();
        let query = queries.join("&");
        url.set_query(Some(query.as_str()).filter(|query| !query.is_empty()));
        let request = self.http.request(method, url);
        match &self.config.authorization {
            Some(value) => request.header(AUTHORIZATION, value.clone()),
            None => request,
        }
    }

    /// Sends the request that `make` returns until it succeeds or fails for good; returns the JSON
    /// of the response, `null` if it has none.
    fn repeat(
        &self,
        path: &str,
        make: impl Fn() -> Result<RequestBuilder, MlflowError>,
    ) -> Result<Value, MlflowError> {
        let mut pause = FIRST_PAUSE;
        for attempt in 1..=MAX_ATTEMPTS {
            let failure = match self.send(make()?, path)? {
                Ok(Answer { status, body, is_whole, after }) => {
                    if is_whole && status.is_success() {
                        return Ok(serde_json::from_slice(&body).unwrap_or_default());
                    }
                    pause = pause.max(after.unwrap_or_default());
                    self.rejected(path, status, &body)
                }
                Err(why) => unreachable(self.config, &why),
            };
            let is_temporary = match &failure {
                MlflowError::Rejected { status, .. } => *status == 429 || *status >= 500,
                _ => true,
            };
            let has_time = self.left().is_ok_and(|left| left > pause);
            if !is_temporary || attempt == MAX_ATTEMPTS || !has_time {
                return Err(failure);
            }
            self.interrupt.sleep_until(Clock::now() + Nanos::from(pause));
            pause = pause.saturating_mul(2);
        }
        Err(MlflowError::TimeOver)
    }

    /// Sends a request from a thread of its own, which is left to its timeout if the user interrupts
    /// the wait.
    fn send(
        &self,
        request: RequestBuilder,
        path: &str,
    ) -> Result<reqwest::Result<Answer>, MlflowError> {
        let (tell, answer) = oneshot::channel();
        // The receiver is gone after an interrupt.
        let work = move || drop(tell.send(exchange(request)));
        let started = thread::Builder::new().name("mlflow-request".to_owned()).spawn(work);
        if started.is_err() {
            return Err(self.unexpected(path));
        }
        let answer = self.interrupt.wait_for(answer, Nanos(u64::MAX));
        answer.ok_or(MlflowError::Interrupted)?.map_err(|_| self.unexpected(path))
    }

    /// Returns the time until the deadline, unless the user interrupted.
    fn left(&self) -> Result<Duration, MlflowError> {
        if self.interrupt.is_draining() {
            return Err(MlflowError::Interrupted);
        }
        let left = Duration::from(self.deadline.since(Clock::now()));
        if left.is_zero() { Err(MlflowError::TimeOver) } else { Ok(left) }
    }

    fn rejected(&self, path: &str, status: StatusCode, body: &[u8]) -> MlflowError {
        let error: Value = serde_json::from_slice(body).unwrap_or_default();
        let member = |name: &str| text(&error, name).map(|text| redact::printable(&text));
        let message = member("/message")
            .unwrap_or_else(|| status.canonical_reason().unwrap_or("no reason given").to_owned());
        MlflowError::Rejected {
            server: self.config.server.shown(),
            path: path.split('?').next().unwrap_or_default().to_owned(),
            status: status.as_u16(),
            code: member("/error_code").unwrap_or_default(),
            message: message.chars().take(300).collect(),
        }
    }

    fn unexpected(&self, path: &str) -> MlflowError {
        MlflowError::Unexpected { server: self.config.server.shown(), path: path.to_owned() }
    }
}

/// A response.
struct Answer {
    status: StatusCode,
    body: Vec<u8>,
    /// Whether the whole body was read.
    is_whole: bool,
    /// The pause that the server asks for.
    after: Option<Duration>,
}

fn exchange(request: RequestBuilder) -> reqwest::Result<Answer> {
    let response = request.send()?;
    let status = response.status();
    let after = response.headers().get(RETRY_AFTER);
    let after = after.and_then(|after| retry_after(after.to_str().ok()?));
    let mut body = Vec::new();
    let is_whole = response.take(MAX_RESPONSE).read_to_end(&mut body).is_ok();
    Ok(Answer { status, body, is_whole, after })
}

/// The error itself has the URL, which may contain a password.
fn unreachable(config: &Config, error: &reqwest::Error) -> MlflowError {
    let what = if error.is_timeout() { "no response in time" } else { "the request failed" };
    let why = error.source().map_or_else(|| what.to_owned(), described);
    MlflowError::Unreachable { server: config.server.shown(), why }
}

/// Returns names and values in the form of the API.
fn list<'a>(pairs: impl Iterator<Item = (&'a String, &'a String)>) -> Vec<Value> {
    pairs.map(|(key, value)| json!({ "key": key, "value": value })).collect()
}

fn text(value: &Value, at: &str) -> Option<String> {
    value.pointer(at)?.as_str().map(str::to_owned)
}
