//! Writes a run to an MLflow server over its REST API (version 2.0, which all servers since 1.x
//! have), while it goes on and after it.
//!
//! A run is never delayed: live metrics are sent from a thread of their own, and the rest within a
//! deadline after the files are written. What is sent is recorded in `mlflow_export.json`; if the
//! server could not be reached, `aiperf report` sends it again from the files.
//!
//! See <https://mlflow.org/docs/latest/rest-api.html>.

mod client;
mod content;
mod glob;

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::thread;
use std::time::Duration;

use http::HeaderValue;
use serde::{Deserialize, Serialize};
use tokio::sync::oneshot;
use url::Url;

use ::client::schedule::PhaseKind;
use base::interrupt::Interrupt;
use base::lock::Lock;
use base::platform::Background;
use base::platform::process::yield_to_measurement;
use base::redact::{Secret, ShownUrl};
use base::units::{Clock, Nanos};

use self::client::{Client, Remote};
use self::content::{Content, Sample};
use crate::artifacts::layout::Layout;
use crate::follow::{Began, Ended, Follower};
use crate::run::RunReport;
use crate::status::Status;

/// Interval between live metrics.
const INTERVAL: Duration = Duration::from_secs(5);

/// Where runs are written to.
#[derive(Debug, Clone)]
pub struct Config {
    /// The server (`--mlflow-tracking-uri`), without user and password.
    pub server: Secret<Url>,
    /// Name of the experiment, which is created if necessary (`--mlflow-experiment`).
    pub experiment: String,
    /// Name of the run; by default `aiperf-` and the start of the benchmark ID.
    pub run_name: Option<String>,
    /// Further tags of the run (`--mlflow-tag`).
    pub tags: Vec<(String, String)>,
    /// The run that this one is part of (`--mlflow-parent-run-id`).
    pub parent_run_id: Option<String>,
    /// Patterns of the files to upload (`--mlflow-artifact-glob`); the usual ones if empty.
    pub artifact_globs: Vec<String>,
    /// The `Authorization` header, marked as sensitive.
    pub authorization: Option<HeaderValue>,
    /// Time for everything that is sent after the run (`AIPERF_MLFLOW_EXPORT_TIMEOUT_SECONDS`).
    pub timeout: Nanos,
}

/// Writes each run of a command to the server.
#[derive(Debug)]
pub struct Tracker {
    config: Config,
    /// Where the live metrics are read.
    status: Arc<Status>,
    /// The run that goes on.
    current: Lock<Option<Tracking>>,
}

/// A run that is written to the server while it goes on.
#[derive(Debug)]
struct Tracking {
    /// Ends the live metrics when dropped; nothing is sent.
    running: Sender<()>,
    /// The run on the server, if it could be created.
    created: oneshot::Receiver<Option<Remote>>,
}

/// What was sent, and what was not: `mlflow_export.json`. The keys up to `exported_at_ns` are
/// AIPerf's.
#[derive(Debug, Serialize, Deserialize)]
struct Export {
    tracking_uri: ShownUrl,
    experiment: String,
    #[serde(default)]
    run_id: Option<String>,
    #[serde(default)]
    run_name: Option<String>,
    #[serde(default)]
    benchmark_id: Option<String>,
    #[serde(default)]
    parent_run_id: Option<String>,
    #[serde(default)]
    live_streaming: bool,
    #[serde(default)]
    reused_live_run: bool,
    #[serde(default)]
    metric_keys: Vec<String>,
    #[serde(default)]
    param_keys: Vec<String>,
    #[serde(default)]
    tag_keys: Vec<String>,
    #[serde(default)]
    uploaded_artifacts: Vec<String>,
    #[serde(default)]
    exported_at_ns: u64,
    /// Whether everything was sent.
    #[serde(default)]
    is_complete: bool,
    /// Why not.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    error: Option<String>,
    /// What was to be sent.
    #[serde(default)]
    content: Content,
}

impl Tracker {
    /// Creates a follower that sends the results that `status` has while a run goes on.
    pub const fn new(config: Config, status: Arc<Status>) -> Self {
        Self { config, status, current: Lock::new(None) }
    }
}

impl Follower for Tracker {
    /// Creates the run on the server and sends its metrics, from a thread of its own.
    fn began(&self, run: &Began<'_>) {
        let (running, ended) = channel::<()>();
        let (tell, created) = oneshot::channel();
        let (config, status) = (self.config.clone(), Arc::clone(&self.status));
        let content = Content::of_run(run.run, &config);
        let work = move || {
            yield_to_measurement(Background::Timely);
            let remote = live(&config, &content, &status, &ended);
            // The run may have ended without waiting for this.
            let _ = tell.send(remote);
        };
        if let Err(error) = thread::Builder::new().name("mlflow".to_owned()).spawn(work) {
            tracing::warn!("no live metrics are sent to MLflow: {error}");
        }
        *self.current.lock() = Some(Tracking { running, created });
    }

    /// Sends the results and the files of the run, until a deadline or an interrupt, and adds the
    /// file with what was sent.
    fn ended(&self, run: &mut Ended<'_>) {
        let Some(Tracking { running, created }) = self.current.lock().take() else { return };
        drop(running);
        let Config { timeout, .. } = self.config;
        let deadline = Clock::now() + timeout;
        let half = Clock::now() + Nanos(timeout.0 / 2);
        let live = run.interrupt.wait_for(created, half).and_then(Result::ok).flatten();
        let (report, layout) = (run.report, run.layout);
        run.files.extend(send(&self.config, report, layout, live, deadline, run.interrupt));
    }
}

/// Sends the results and the files of runs again.
#[derive(Debug)]
pub struct Resender(Config);

impl Resender {
    pub const fn new(config: Config) -> Self {
        Self(config)
    }
}

impl Follower for Resender {
    /// Sends the results and the files to the same run on the server if an earlier attempt has
    /// created one, and adds the file with what was sent.
    fn ended(&self, run: &mut Ended<'_>) {
        let (config, layout) = (&self.0, run.layout);
        let deadline = Clock::now() + config.timeout;
        let before = fs::read(&layout.mlflow).ok();
        let before: Option<Export> = before.and_then(|text| serde_json::from_slice(&text).ok());
        let is_same = |before: &Export| {
            before.tracking_uri == config.server.shown()
                && before.benchmark_id.as_deref() == Some(&*run.report.run.benchmark_id.to_string())
        };
        let run_id = before.filter(is_same).and_then(|before| before.run_id);
        let known = run_id.and_then(|run_id| {
            let client = Client::new(config, deadline, run.interrupt).ok()?;
            client.find(&run_id).ok()
        });
        run.files.extend(send(config, run.report, layout, known, deadline, run.interrupt));
    }
}

/// Creates the run and sends live metrics to it until `ended`. Without a server there are none.
fn live(
    config: &Config,
    content: &Content,
    status: &Status,
    ended: &Receiver<()>,
) -> Option<Remote> {
    let (start, interrupt) = (Clock::now(), Interrupt::never());
    let client = Client::new(config, start + config.timeout, &interrupt).ok()?;
    let remote = match client.create(content) {
        Ok(remote) => remote,
        Err(why) => {
            tracing::warn!("the run continues without live metrics in MLflow: {why}");
            return None;
        }
    };
    let clock = Clock::start();
    while ended.recv_timeout(INTERVAL) == Err(RecvTimeoutError::Timeout) {
        // The results of a warmup are not those of the run.
        if status.phases().last().is_none_or(|phase| phase.phase == PhaseKind::Warmup) {
            continue;
        }
        let at = clock.wall_ns(Clock::now()) / 1_000_000;
        let step = Duration::from(Clock::now().since(start)).as_secs();
        let samples = content::metrics(&status.results());
        let samples = samples.into_iter().map(|(key, value)| Sample::new(key, value, at, step));
        let Ok(client) = Client::new(config, Clock::now() + INTERVAL.into(), &interrupt) else {
            continue;
        };
        if let Err(why) = client.log_metrics(&remote, &samples.collect::<Vec<_>>()) {
            tracing::debug!("live metrics were not sent to MLflow: {why}");
        }
    }
    Some(remote)
}

fn send(
    config: &Config,
    report: &RunReport,
    layout: &Layout,
    live: Option<Remote>,
    deadline: Nanos,
    interrupt: &Interrupt,
) -> Option<PathBuf> {
    let content = Content::of_report(report, config);
    let had_run = live.is_some();
    let mut remote = live;
    let mut uploaded = Vec::new();
    let sent = Client::new(config, deadline, interrupt).and_then(|client| {
        let run = match remote.take() {
            Some(run) => run,
            None => client.create(&content)?,
        };
        let run = remote.insert(run);
        client.finish(run, &content, report.outcome.end_wall_ns / 1_000_000)?;
        for file in glob::files(&layout.directory, &config.globs(), &layout.mlflow) {
            client.upload(run, &layout.directory, &file)?;
            uploaded.push(file);
        }
        Ok(())
    });
    if let Err(why) = &sent {
        tracing::warn!(
            "the run was not completely sent to MLflow: {why}; send it again with `aiperf report \
             {} --mlflow-tracking-uri {}`",
            layout.directory.display(),
            config.server.shown(),
        );
    }
    let export = Export {
        tracking_uri: config.server.shown(),
        experiment: config.experiment.clone(),
        run_id: remote.map(|run| run.run_id),
        run_name: Some(content.run_name.clone()),
        benchmark_id: Some(report.run.benchmark_id.to_string()),
        parent_run_id: config.parent_run_id.clone(),
        live_streaming: had_run,
        reused_live_run: had_run,
        metric_keys: content.metrics.keys().cloned().collect(),
        param_keys: content.params.keys().cloned().collect(),
        tag_keys: content.tags.keys().cloned().collect(),
        uploaded_artifacts: uploaded,
        exported_at_ns: Clock::start().wall_ns(Clock::now()),
        is_complete: sent.is_ok(),
        error: sent.err().map(|why| why.to_string()),
        content,
    };
    let path = &layout.mlflow;
    let written = write(path, &export);
    if let Err(why) = &written {
        tracing::warn!("cannot write {}: {why}", path.display());
    }
    written.ok().map(|()| path.clone())
}

fn write(path: &Path, export: &Export) -> std::io::Result<()> {
    let mut text = serde_json::to_vec_pretty(export)?;
    text.push(b'\n');
    fs::write(path, text)
}

impl Config {
    fn globs(&self) -> Vec<&str> {
        if self.artifact_globs.is_empty() {
            return glob::USUAL.to_vec();
        }
        self.artifact_globs.iter().map(String::as_str).collect()
    }
}
