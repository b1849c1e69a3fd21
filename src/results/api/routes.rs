//! The routes of the API.

use std::convert::Infallible;
use std::fs::{self, File};
use std::io::Read;
use std::net::{IpAddr, SocketAddr};
use std::path::{Component, Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use http::header::{
    ALLOW, CACHE_CONTROL, CONTENT_TYPE, HOST, HeaderValue, ORIGIN, WWW_AUTHENTICATE,
};
use http::{HeaderMap, Method, Request, Response, StatusCode};
use percent_encoding::percent_decode_str;
use serde_json::value::RawValue;
use serde_json::{Map, Value, json};
use tokio::sync::watch;

use base::interrupt::Interrupter;
use base::units::Nanos;
use client::schedule::PhaseStats;
use measure::metrics::metric::MetricResult;
use telemetry::MetricSet;

use super::body::{Answer, Parts};
use super::prometheus::exposition;
use super::token::Token;
use crate::artifacts::with_header;
use crate::status::snapshot::Stage;
use crate::status::{CurrentRun, Exported, Status};

const JSON: &str = "application/json";
const TEXT: &str = "text/plain; charset=utf-8";
const EXPOSITION: &str = "text/plain; version=0.0.4; charset=utf-8";
const EVENTS: &str = "text/event-stream";

/// Interval between events of a stream.
const EVENT_INTERVAL: Duration = Duration::from_secs(1);

/// Size of the parts of a file.
const PART: usize = 64 << 10;

/// The paths, and what they are for.
const PATHS: &str = "\
GET  /healthz, /readyz
GET  /metrics               results so far, for Prometheus
GET  /api/metrics           the same as JSON
GET  /api/progress          phases, requests and sessions
GET  /api/run               the run and its command line
GET  /api/config            its settings
GET  /api/server-metrics    the latest scrape of each server
GET  /api/results           the final results, once they are written
GET  /api/results/list      the files, once all are written
GET  /api/results/files/... one of them
GET  /api/events            progress and metrics each second, as server-sent events
POST /api/shutdown          ends the run as Ctrl-C does; needs the token
";

/// What the responses are made from.
#[derive(Debug)]
pub(super) struct Service {
    pub(super) status: Arc<Status>,
    pub(super) interrupter: Interrupter,
    /// The address that it listens on.
    pub(super) address: SocketAddr,
    pub(super) token: Token,
    /// The metrics under `/metrics`.
    pub(super) metric_set: MetricSet,
    pub(super) stopped: watch::Receiver<bool>,
}

impl Service {
    /// Responds to a request; sets `is_stream` if the response takes as long as the run.
    #[expect(clippy::unnecessary_wraps, reason = "hyper's services may fail")]
    pub(super) fn answer<B>(
        self: &Arc<Self>,
        request: Request<B>,
        is_stream: &watch::Sender<bool>,
    ) -> Result<Response<Answer>, Infallible> {
        let (head, _) = request.into_parts();
        if let Some(why) = self.refusal(&head.method, &head.headers) {
            return Ok(failure(StatusCode::FORBIDDEN, why));
        }
        let path = head.uri.path();
        let is_shutdown = path == "/api/shutdown";
        if head.method != if is_shutdown { Method::POST } else { Method::GET } {
            let mut response = failure(StatusCode::METHOD_NOT_ALLOWED, "use another method");
            let allowed = HeaderValue::from_static(if is_shutdown { "POST" } else { "GET" });
            response.headers_mut().insert(ALLOW, allowed);
            return Ok(response);
        }
        if self.needs_token(path) && !self.token.is_in(&head.headers) {
            let mut response = failure(
                StatusCode::UNAUTHORIZED,
                "send the token of --api-token, or the one printed at the start, as Authorization: \
                 Bearer TOKEN",
            );
            let challenge = HeaderValue::from_static("Bearer");
            response.headers_mut().insert(WWW_AUTHENTICATE, challenge);
            return Ok(response);
        }
        let run = self.status.run();
        Ok(match path {
            "/" => whole(TEXT, PATHS),
            "/healthz" | "/readyz" => whole(TEXT, "ok"),
            "/metrics" => {
                let mut results = self.status.results();
                results.retain(|result| self.metric_set.includes_metric(result.metric.tag.name()));
                whole(EXPOSITION, exposition(&labels(run.as_ref()), &results))
            }
            "/api/metrics" => object(&self.metrics(run.as_ref())),
            "/api/progress" => object(&self.progress(run.as_ref())),
            "/api/run" => object(&run_info(run.as_ref())),
            "/api/config" => object(&run.map_or(Value::Null, |run| run.description.config.clone())),
            "/api/server-metrics" => self.server_metrics(),
            "/api/results" => self.results(),
            "/api/results/list" => object(&self.list()),
            "/api/events" => {
                is_stream.send_replace(true);
                let (parts, answer) = Answer::parts();
                tokio::spawn(Arc::clone(self).events(parts));
                response(StatusCode::OK, EVENTS, answer)
            }
            "/api/shutdown" => {
                tracing::warn!("the run ends on request of a client of the HTTP API");
                self.interrupter.signal();
                object(&json!({ "status": "shutting_down" }))
            }
            _ => match path.strip_prefix("/api/results/files/") {
                Some(name) => self.file(name, is_stream),
                None => failure(StatusCode::NOT_FOUND, "no such path; GET / lists all paths"),
            },
        })
    }

    /// Returns why a request is refused: it may come from a page of another site in a browser on
    /// this machine, whose name leads here (DNS rebinding), or which sends a request blindly.
    fn refusal(&self, method: &Method, headers: &HeaderMap) -> Option<&'static str> {
        let text = |name| headers.get(name).and_then(|value| value.to_str().ok());
        let host = text(HOST).unwrap_or_default();
        if self.address.ip().is_loopback() && !is_loopback(host) {
            return Some(
                "the host must be localhost or a loopback address; use --api-host to be reached by other names",
            );
        }
        let is_foreign = |origin: &str| origin != format!("http://{host}");
        (*method != Method::GET && text(ORIGIN).is_some_and(is_foreign))
            .then_some("requests of pages of other sites are not accepted")
    }

    /// Returns whether requests to `path` need the token: all that end the run, and those from other
    /// machines, except the probes of whether the API answers.
    fn needs_token(&self, path: &str) -> bool {
        let is_probe = matches!(path, "/healthz" | "/readyz");
        path == "/api/shutdown" || !self.address.ip().is_loopback() && !is_probe
    }

    fn metrics(&self, run: Option<&CurrentRun>) -> Value {
        let mut members = Map::new();
        members.insert("aiperf_version".to_owned(), env!("CARGO_PKG_VERSION").into());
        if let Some(run) = run {
            let of = &run.description;
            members.insert("benchmark_id".to_owned(), of.benchmark_id.to_string().into());
            members.insert("model".to_owned(), models(run).into());
            members.insert("endpoint_type".to_owned(), of.endpoint.name.into());
            members.insert("streaming".to_owned(), of.streaming.into());
            for (name, value) in load(run) {
                members.insert(name.to_owned(), value.unwrap_or_default());
            }
        }
        let results = self.status.results();
        let metric =
            |result: &MetricResult| (result.metric.tag.name().to_owned(), with_header(result));
        members
            .insert("metrics".to_owned(), results.iter().map(metric).collect::<Map<_, _>>().into());
        members.into()
    }

    fn progress(&self, run: Option<&CurrentRun>) -> Value {
        let phases = self.status.phases();
        let phase = |stats: &PhaseStats| {
            let kind = stats.phase.as_str();
            let is_first = !phases
                .iter()
                .any(|other| other.phase == stats.phase && other.phase_index < stats.phase_index);
            let listed = run.map(|run| &run.description.setup.phases);
            let listed = listed.and_then(|phases| phases.get(stats.phase_index as usize));
            let name = match listed.and_then(|phase| phase.name.as_deref()) {
                Some(name) => name.to_owned(),
                None if is_first => kind.to_owned(),
                None => format!("{kind}_{}", stats.phase_index),
            };
            (name, run.map_or(Value::Null, |run| phase_progress(run, stats)))
        };
        let workers = run.map_or(0, |run| run.workers);
        let state = match self.status.stage() {
            _ if self.status.files().is_some() => "stopping",
            Stage::Starting if run.is_some() => "ready",
            Stage::Starting => "configuring",
            Stage::Sending | Stage::Draining => "profiling",
            Stage::Finishing => "processing",
        };
        json!({
            "phases": phases.iter().map(phase).collect::<Map<_, _>>(),
            "workers": { "ready": workers, "total": workers },
            "results_exported": self.status.files().is_some(),
            "system_state": state,
        })
    }

    fn server_metrics(&self) -> Response<Answer> {
        let scrapes = self.status.scrapes();
        let scrapes = scrapes.iter().map(|line| String::from_utf8_lossy(line));
        let list: Vec<_> = scrapes.map(|line| line.trim_end().to_owned()).collect();
        whole(JSON, format!("{{\"scrapes\":[{}]}}", list.join(",")))
    }

    fn results(&self) -> Response<Answer> {
        let Some(ending) = self.status.ending() else {
            return object(&json!({ "status": "running", "results": null }));
        };
        let status = ending_status(ending.was_cancelled, ending.is_complete);
        let summary = fs::read_to_string(&ending.summary).ok();
        let summary = summary.and_then(|text| RawValue::from_string(text).ok());
        let null = || RawValue::NULL.to_owned();
        let summary = summary.unwrap_or_else(null);
        whole(JSON, format!("{{\"status\":\"{status}\",\"results\":{}}}", summary.get()))
    }

    fn list(&self) -> Value {
        let exported = self.status.files();
        let files = exported.as_ref().map(|exported| {
            let file = |path: &PathBuf| {
                let name = path.strip_prefix(&exported.directory).ok()?.display().to_string();
                let path = within(&exported.directory, path)?;
                Some(json!({ "name": name, "size": path.metadata().ok()?.len() }))
            };
            exported.files.iter().filter_map(file).collect::<Vec<_>>()
        });
        json!({
            "files": files.unwrap_or_default(),
            "ready": exported.is_some(),
            "processing": exported.is_none() && self.status.stage() == Stage::Finishing,
            "partial": exported.as_ref().is_some_and(|exported| exported.is_partial),
            "failed_exporters": [],
        })
    }

    /// Sends a file that the command has written to its directory.
    fn file(&self, name: &str, is_stream: &watch::Sender<bool>) -> Response<Answer> {
        let Some(exported) = self.status.files() else {
            return failure(StatusCode::NOT_FOUND, "the files are not complete yet");
        };
        let Some(path) = own(&exported, name) else {
            return failure(StatusCode::NOT_FOUND, "no such file; GET /api/results/list lists all");
        };
        let Ok(mut file) = File::open(path) else {
            return failure(StatusCode::NOT_FOUND, "the file cannot be read");
        };
        is_stream.send_replace(true);
        let (parts, answer) = Answer::parts();
        tokio::spawn(async move {
            let mut part = vec![0; PART];
            while let Ok(read @ 1..) = file.read(&mut part) {
                if !parts.send(Bytes::copy_from_slice(&part[..read])).await {
                    return;
                }
            }
        });
        let is_json = Path::new(name).extension().is_some_and(|it| it == "json");
        let media_type = if is_json { JSON } else { "application/octet-stream" };
        response(StatusCode::OK, media_type, answer)
    }

    /// Sends progress and metrics until the files are written or the client is gone.
    async fn events(self: Arc<Self>, parts: Parts) {
        let mut stopped = self.stopped.clone();
        loop {
            // Before the metrics, so that the last ones are final.
            let is_over = self.status.files().is_some();
            let run = self.status.run();
            let progress = event("progress", &self.progress(run.as_ref()));
            let metrics = event("metrics", &self.metrics(run.as_ref()));
            if !parts.send(progress + &metrics).await {
                return;
            }
            if is_over || *stopped.borrow() {
                break;
            }
            tokio::select! {
                () = tokio::time::sleep(EVENT_INTERVAL) => {}
                () = parts.closed() => return,
                _ = stopped.wait_for(|stopped| *stopped) => {}
            }
        }
        let status = self
            .status
            .ending()
            .map_or("incomplete", |ending| ending_status(ending.was_cancelled, ending.is_complete));
        parts.send(event("end", &json!({ "status": status }))).await;
    }
}

/// Returns whether `host`, a name or address with or without a port, is of this machine only.
fn is_loopback(host: &str) -> bool {
    let name = match host.strip_prefix('[') {
        Some(rest) => rest.split(']').next().unwrap_or_default(),
        None => host.split(':').next().unwrap_or_default(),
    };
    let is_address = name.parse::<IpAddr>().is_ok_and(|address| address.is_loopback());
    is_address || name.eq_ignore_ascii_case("localhost")
}

/// Returns the path of the file `name`, if the command has written it.
fn own(exported: &Exported, name: &str) -> Option<PathBuf> {
    let name = percent_decode_str(name).decode_utf8().ok()?;
    let relative = Path::new(&*name);
    let is_plain = relative.components().all(|part| matches!(part, Component::Normal(_)));
    let path = exported.directory.join(relative);
    let is_own = is_plain && exported.files.contains(&path);
    is_own.then(|| within(&exported.directory, &path)).flatten()
}

/// Returns the path that `path` leads to, if it is a file in `directory`; links that lead elsewhere
/// are not.
fn within(directory: &Path, path: &Path) -> Option<PathBuf> {
    let path = path.canonicalize().ok()?;
    let is_inside = path.starts_with(directory.canonicalize().ok()?);
    (is_inside && path.is_file()).then_some(path)
}

const fn ending_status(was_cancelled: bool, is_complete: bool) -> &'static str {
    match (was_cancelled, is_complete) {
        (true, _) => "cancelled",
        (false, true) => "complete",
        (false, false) => "incomplete",
    }
}

fn phase_progress(run: &CurrentRun, stats: &PhaseStats) -> Value {
    let wall = |at: Nanos| run.clock.wall_ns(at);
    let elapsed = stats.elapsed_seconds();
    let rate = |count: u64| (elapsed > 0.0).then(|| count as f64 / elapsed);
    let percent = stats.progress_percent();
    let records = stats.requests_completed + stats.request_errors + stats.requests_cancelled;
    let mut progress = json!({
        "phase": stats.phase,
        "phase_index": stats.phase_index,
        "start_ns": wall(stats.start),
        "last_update_ns": wall(stats.now),
        "sent_end_ns": stats.sent_end.map(wall),
        "requests_end_ns": stats.requests_end.map(wall),
        "total_expected_requests": stats.total_expected_requests,
        "expected_duration_sec": stats.expected_duration_seconds,
        "expected_num_sessions": stats.expected_sessions,
        "requests_sent": stats.requests_sent,
        "requests_completed": stats.requests_completed,
        "requests_cancelled": stats.requests_cancelled,
        "request_errors": stats.request_errors,
        "in_flight_requests": stats.requests_in_flight(),
        "sent_sessions": stats.sessions_sent,
        "completed_sessions": stats.sessions_completed,
        "failed_sessions": stats.sessions_failed,
        "cancelled_sessions": stats.sessions_cancelled,
        "in_flight_sessions": stats.sessions_in_flight(),
        "total_session_turns": stats.session_turns_total,
        "requests_elapsed_time": elapsed,
        "requests_progress_percent": percent,
        "requests_per_second": rate(stats.requests_returned),
        "success_records": stats.requests_completed,
        "error_records": stats.request_errors,
        "total_records": records,
        "records_per_second": rate(records),
        "timeout_triggered": stats.timeout_triggered,
        "grace_period_timeout_triggered": stats.grace_timeout_triggered,
        "was_cancelled": stats.was_cancelled,
    });
    if let Some(lanes) = stats.lanes {
        progress["lanes"] = json!(lanes);
    }
    if let (Some(members), Some(left)) = (progress.as_object_mut(), stats.seconds_left()) {
        members.insert("requests_eta_sec".to_owned(), left.into());
    }
    progress
}

fn run_info(run: Option<&CurrentRun>) -> Value {
    run.map_or(Value::Null, |run| {
        let of = &run.description;
        json!({
            "benchmark_id": of.benchmark_id,
            "trial": of.member.as_ref().map_or(0, |member| member.trial),
            "run_label": of.member.as_ref().map(|member| &member.run_label),
            "cli_command": of.cli_command,
        })
    })
}

fn models(run: &CurrentRun) -> String {
    run.description.setup.models.join(",")
}

/// Returns the configured load of the measured phase.
fn load(run: &CurrentRun) -> [(&'static str, Option<Value>); 2] {
    let phase = run.description.setup.measured_phase();
    let concurrency = phase.and_then(|phase| Some(phase.concurrency?.most.into()));
    let rate = phase.and_then(|phase| Some(phase.rate()?.into()));
    [("concurrency", concurrency), ("request_rate", rate)]
}

/// Returns the labels in which runs differ.
fn labels(run: Option<&CurrentRun>) -> Vec<(&'static str, String)> {
    let Some(run) = run else { return Vec::new() };
    let of = &run.description;
    let mut labels = vec![
        ("benchmark_id", of.benchmark_id.to_string()),
        ("model", models(run)),
        ("endpoint_type", of.endpoint.name.to_owned()),
        ("streaming", of.streaming.to_string()),
    ];
    let load = load(run).into_iter();
    labels.extend(load.filter_map(|(name, value)| Some((name, value?.to_string()))));
    labels
}

/// Returns a server-sent event. JSON in one line never contains a line feed.
fn event(name: &str, data: &Value) -> String {
    format!("event: {name}\ndata: {data}\n\n")
}

fn object(value: &Value) -> Response<Answer> {
    whole(JSON, value.to_string())
}

fn whole(media_type: &'static str, body: impl Into<Bytes>) -> Response<Answer> {
    response(StatusCode::OK, media_type, Answer::Whole(Some(body.into())))
}

fn failure(status: StatusCode, why: &str) -> Response<Answer> {
    let body = json!({ "detail": why }).to_string();
    response(status, JSON, Answer::Whole(Some(body.into())))
}

fn response(status: StatusCode, media_type: &'static str, body: Answer) -> Response<Answer> {
    let mut response = Response::new(body);
    *response.status_mut() = status;
    let headers = response.headers_mut();
    headers.insert(CONTENT_TYPE, HeaderValue::from_static(media_type));
    headers.insert(CACHE_CONTROL, HeaderValue::from_static("no-store"));
    response
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn hosts_of_this_machine_are_loopback() {
        for host in
            ["localhost", "LOCALHOST:80", "127.0.0.1:8000", "127.1.2.3", "[::1]:80", "[::1]"]
        {
            assert!(is_loopback(host), "{host}");
        }
        for host in [
            "",
            "example.com",
            "localhost.example.com:80",
            "127.0.0.1.nip.io",
            "10.0.0.1",
            "[::2]:80",
        ] {
            assert!(!is_loopback(host), "{host}");
        }
    }

    /// A directory `run` with files, a few of which are the command's, and a file beside it.
    fn place() -> (tempfile::TempDir, Exported) {
        let place = tempfile::tempdir().unwrap();
        let (inside, outside) = (place.path().join("run"), place.path().join("secret.json"));
        fs::create_dir_all(inside.join("logs")).unwrap();
        for file in ["logs/a b.log", "a", "key.pem"] {
            fs::write(inside.join(file), "x").unwrap();
        }
        fs::write(&outside, "x").unwrap();
        #[cfg(unix)]
        std::os::unix::fs::symlink(&outside, inside.join("link.json")).unwrap();
        let files = ["logs/a b.log", "a", "link.json", "missing", "logs", "../secret.json"];
        let files = files.map(|file| inside.join(file)).into();
        (place, Exported { directory: inside, files, is_partial: false })
    }

    #[test]
    fn only_files_of_the_run_in_its_directory_are_served() {
        let (place, exported) = place();
        assert!(own(&exported, "logs/a%20b.log").is_some() && own(&exported, "a").is_some());
        let others = [
            "",
            "key.pem",
            "missing",
            "logs",
            "../secret.json",
            "%2e%2e/secret.json",
            "logs/../../secret.json",
            "link.json",
            "/etc/passwd",
            "%2fetc%2fpasswd",
            "logs%00",
            "%ff",
        ];
        for name in others {
            assert_eq!(own(&exported, name), None, "{name}");
        }
        let outside = place.path().join("secret.json").display().to_string();
        assert_eq!(own(&exported, &outside), None);
    }

    proptest! {
        #[test]
        fn no_name_leads_elsewhere(name in "(\\.|/|%2e|%2F|a|key.pem|\\\\){0,12}") {
            let (_place, exported) = place();
            let expected = exported.directory.join("a").canonicalize().unwrap();
            prop_assert!(own(&exported, &name).is_none_or(|path| path == expected));
        }
    }
}
