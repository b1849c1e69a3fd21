//! One run: a client against a mock server that has a hazard.

use std::fs::{self, File};
use std::io::{BufReader, Seek, SeekFrom};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::mpsc::RecvTimeoutError;
use std::time::Duration;

use anyhow::{Context, bail};
use regex_automata::meta::Regex;
use serde_json::{Map, Value, json};

use base::input;
use base::interrupt::Interrupt;
use base::platform::cores::keep_to;
use base::platform::{child, process};
use base::redact;
use base::units::{Clock, Nanos};
use mock_server::read_write_log;

use super::client::{Client, OpenArrivals, Placeholders};
use super::cores::Cores;
use super::figure::{Figure, Figures, Statistic};
use super::hazard::{Arrivals, Hazard};
use super::judge::{Observed, compare};
use super::reference::{self, Target};
use super::server::Server;
use super::truth::{Truth, View};
use super::{results, tokenizer};

/// The certificates of the server and its authority.
const AUTHORITY: &str = include_str!("../../tests/golden/tls/ca.pem");
const CERTIFICATE: &str = include_str!("../../tests/golden/tls/server.pem");
const KEY: &str = include_str!("../../tests/golden/tls/server.key");

/// The model that the server lists.
const MODEL: &str = "mock-model";
/// Time that a client may take beside the load itself, and the factor by which it may be slower.
const PATIENCE: Duration = Duration::from_mins(3);
const SLOWNESS: f64 = 8.0;
/// Maximum duration of a command that prints a version, and size of what it prints.
const MAX_VERSION_TIME: Duration = Duration::from_mins(1);
const MAX_VERSION_BYTES: u64 = 1 << 20;
/// Pause between two looks at whether the user interrupts.
const LOOK: Duration = Duration::from_millis(100);
/// Maximum length of the end of a client's output that an error has.
const TAIL: u64 = 400;

/// A server for one hazard, and a directory for everything about the run.
struct Stage<'a> {
    hazard: &'a Hazard,
    directory: tempfile::TempDir,
    server: Server,
}

/// What is left of a run.
pub(crate) struct Finished {
    pub(crate) truth: Truth,
    pub(crate) observed: Observed,
}

/// Why a client does not have figures.
pub(crate) enum Failure {
    /// The user interrupted the run.
    Interrupted,
    /// The client failed, or its results cannot be read.
    Client(anyhow::Error),
    /// The referee itself failed.
    Referee(anyhow::Error),
}

impl<'a> Stage<'a> {
    fn set_up(hazard: &'a Hazard, cores: &'a Cores) -> anyhow::Result<Self> {
        let directory = tempfile::tempdir().context("cannot create a directory for the run")?;
        let path = |name: &str| directory.path().join(name);
        let mut flags: Vec<_> = hazard.server_flags().into_iter().map(str::to_owned).collect();
        fs::write(path("ca.pem"), AUTHORITY)?;
        if hazard.tls {
            fs::write(path("server.pem"), CERTIFICATE)?;
            fs::write(path("server.key"), KEY)?;
            for (flag, file) in [("--tls-cert", "server.pem"), ("--tls-key", "server.key")] {
                flags.extend([flag.to_owned(), path(file).display().to_string()]);
            }
        }
        keep_to(&cores.server)?;
        let server = Server::start(&flags, &path("writes.jsonl"));
        keep_to(&cores.client)?;
        Ok(Self { hazard, server: server?, directory })
    }

    fn path(&self, name: &str) -> PathBuf {
        self.directory.path().join(name)
    }

    /// Stops the server and returns what it saw, without the first `own` requests.
    fn clear(self, own: u64) -> anyhow::Result<Truth> {
        let path = self.path("writes.jsonl");
        self.server.stop()?;
        let log = File::open(&path).context("the mock server has not written its log")?;
        Ok(Truth::new(read_write_log(BufReader::new(log))?, own, self.hazard.load.osl))
    }

    fn authority(&self) -> &str {
        let url = self.server.url();
        url.split_once("://").map_or(url, |(_, authority)| authority)
    }

    /// Returns a prompt of this load.
    fn prompt(&self) -> String {
        let words = mock_server::WORDS.iter().cycle().take(self.hazard.load.isl as usize);
        words.copied().collect::<Vec<_>>().join(" ")
    }

    /// Returns the body of a request of this load.
    fn body(&self) -> String {
        let load = self.hazard.load;
        let mut body = json!({
            "model": MODEL,
            "messages": [{"role": "user", "content": self.prompt()}],
            "max_tokens": load.osl,
            "stream": true,
            "stream_options": {"include_usage": true},
        });
        let extra = self.hazard.extra_body.and_then(|text| serde_json::from_str(text).ok());
        if let (Some(body), Some(extra)) = (body.as_object_mut(), extra) {
            body.extend::<Map<String, Value>>(extra);
        }
        body.to_string()
    }

    fn placeholders(&self) -> Placeholders {
        let load = self.hazard.load;
        let mut values = Placeholders::default();
        values.set("url", self.server.url());
        values.set("port", self.authority().rsplit(':').next().unwrap_or_default());
        values.set("directory", self.path("client").display());
        values.set("tokenizer", self.path("tokenizer").display());
        values.set("ca", self.path("ca.pem").display());
        values.set("model", MODEL);
        values.set("requests", load.requests);
        values.set("isl", load.isl);
        values.set("osl", load.osl);
        values.set("seconds", self.hazard.sending_seconds().ceil());
        values.set("prompt", self.prompt());
        values.set("body", self.body());
        values.set("extra_body", self.hazard.extra_body.unwrap_or("{}"));
        match load.arrivals {
            Arrivals::Closed(streams) => values.set("concurrency", streams),
            Arrivals::Open(rate) => values.set("rate", rate),
        }
        values
    }

    /// Runs the command of a client, and returns the figures that it reports.
    fn call(
        &self,
        client: &Client,
        line: &[String],
        interrupt: &Interrupt,
    ) -> Result<Figures, Failure> {
        let directory = self.path("client");
        let (stdout, stderr) = (self.path("stdout"), self.path("stderr"));
        let values = self.placeholders();
        let prepare = || -> anyhow::Result<Child> {
            fs::create_dir(&directory)?;
            tokenizer::write(&self.path("tokenizer"))?;
            for (name, text) in &client.files {
                fs::write(directory.join(name), values.fill(text))
                    .with_context(|| format!("cannot write the client's file {name}"))?;
            }
            let mut arguments = line.iter().map(|argument| values.fill(argument));
            let program = arguments.next().context("the command is empty")?;
            let mut command = Command::new(&program);
            command.args(arguments).current_dir(&directory).stdin(Stdio::null());
            command.stdout(File::create(&stdout)?).stderr(File::create(&stderr)?);
            if self.hazard.tls {
                for name in ["SSL_CERT_FILE", "REQUESTS_CA_BUNDLE", "CURL_CA_BUNDLE"] {
                    command.env(name, self.path("ca.pem"));
                }
            }
            command.envs(client.command.environment.iter().map(|(k, v)| (k, values.fill(v))));
            process::lead_group(&mut command);
            command
                .spawn()
                .with_context(|| format!("cannot start {program:?}; install it, or put it on PATH"))
        };
        let process = prepare().map_err(Failure::Client)?;
        let limit = PATIENCE + Duration::from_secs_f64(SLOWNESS * self.hazard.seconds());
        await_end(process, limit, interrupt).map_err(|failure| match failure {
            Failure::Client(error) => {
                Failure::Client(with_output(&error, line, [&stdout, &stderr]))
            }
            other => other,
        })?;
        let pattern = values.fill(&client.results.file);
        results::read(client, &pattern, &stdout)
            .map_err(|error| Failure::Client(with_output(&error, line, [&stdout, &stderr])))
    }
}

/// Returns the version that a command prints, if it does.
pub(crate) fn version(command: &[String], interrupt: &Interrupt) -> Option<String> {
    let (program, arguments) = command.split_first()?;
    let mut output = tempfile::tempfile().ok()?;
    let mut command = Command::new(program);
    command.args(arguments).stdin(Stdio::null());
    command.stdout(output.try_clone().ok()?).stderr(output.try_clone().ok()?);
    process::lead_group(&mut command);
    // Some print it and fail.
    let _ = await_end(command.spawn().ok()?, MAX_VERSION_TIME, interrupt);
    output.seek(SeekFrom::Start(0)).ok()?;
    let text = input::whole(output, MAX_VERSION_BYTES).ok()?;
    let found = Regex::new(r"\d+(\.\d+)+[0-9A-Za-z.+-]*").ok()?.find(&text)?;
    Some(String::from_utf8_lossy(&text[found.range()]).into_owned())
}

/// Adds the end of what a client has printed to an error.
fn with_output(
    error: &anyhow::Error,
    line: &[String],
    [stdout, stderr]: [&Path; 2],
) -> anyhow::Error {
    let tail = |path: &Path| {
        let mut file = File::open(path).ok()?;
        let length = file.metadata().ok()?.len();
        file.seek(SeekFrom::Start(length.saturating_sub(TAIL))).ok()?;
        let text = String::from_utf8_lossy(&input::whole(file, TAIL).ok()?).into_owned();
        let text = redact::message(&redact::printable(text.trim()), line);
        Some(text).filter(|text| !text.is_empty())
    };
    match tail(stderr).or_else(|| tail(stdout)) {
        Some(text) => anyhow::anyhow!("{error:#}; its output ends with: {text}"),
        None => anyhow::anyhow!("{error:#}"),
    }
}

/// Waits for the end of a client, and ends whatever it leaves behind.
fn await_end(mut process: Child, limit: Duration, interrupt: &Interrupt) -> Result<(), Failure> {
    let client = |error: std::io::Error| Failure::Client(error.into());
    let ended = child::watch(&process).map_err(client)?;
    let until = Clock::now() + Nanos::from(limit);
    let result = loop {
        if ended.recv_timeout(LOOK) == Err(RecvTimeoutError::Disconnected) {
            break Ok(());
        }
        if interrupt.is_draining() {
            break Err(Failure::Interrupted);
        }
        if Clock::now() > until {
            let seconds = limit.as_secs();
            break Err(Failure::Client(anyhow::anyhow!("it has not ended after {seconds} s")));
        }
    };
    // An error means that nothing is left.
    let _ = process::kill_group(&mut process);
    let status = process.wait().map_err(client)?;
    result?;
    if status.success() {
        Ok(())
    } else {
        Err(Failure::Client(anyhow::anyhow!("it ended with {status}")))
    }
}

/// Returns the figures that were asked for: what those that were really sent should be.
fn load_figures(hazard: &Hazard, mentions: impl Fn(&str) -> bool) -> Figures {
    let single = |figure, value| ((figure, Statistic::Value), value);
    let mut asked = Figures::new();
    if mentions("{requests}") {
        asked.extend([single(Figure::RequestsSent, hazard.load.requests as f64)]);
    }
    match hazard.load.arrivals {
        Arrivals::Closed(streams) if mentions("{concurrency}") => {
            asked.extend([single(Figure::Concurrency, streams as f64)]);
            asked.extend([((Figure::Concurrency, Statistic::Mean), streams as f64)]);
        }
        Arrivals::Open(rate) if mentions("{rate}") => {
            asked.extend([single(Figure::RequestRate, rate)]);
        }
        _ => {}
    }
    asked
}

/// Runs a client with the command `line`, whose placeholders are not yet replaced.
pub(crate) fn client(
    client: &Client,
    line: &[String],
    hazard: &Hazard,
    cores: &Cores,
    interrupt: &Interrupt,
) -> Result<Finished, Failure> {
    let stage = Stage::set_up(hazard, cores).map_err(Failure::Referee)?;
    let reported = stage.call(client, line, interrupt)?;
    let truth = stage.clear(client.own_requests).map_err(Failure::Referee)?;
    if truth.sent() == 0 {
        let error = "it has not sent a request to the server";
        return Err(Failure::Client(anyhow::anyhow!(error)));
    }
    let view = View { definition: client.definition.clone(), ..View::default() };
    let mentions =
        |name: &str| line.iter().chain(client.files.values()).any(|text| text.contains(name));
    let mut asked = load_figures(hazard, mentions);
    if client.overshoots {
        asked.remove(&(Figure::RequestsSent, Statistic::Value));
    }
    let mut sent = truth.sent_figures(hazard.load.arrivals);
    let mut chance = Figures::new();
    if client.command.arrivals == OpenArrivals::Poisson {
        sent.retain(|(figure, _), _| *figure != Figure::Lateness);
        // Three standard deviations of the number of arrivals.
        let error = 3.0 / (hazard.load.requests as f64).sqrt();
        chance.insert((Figure::RequestRate, Statistic::Value), error);
    }
    let observed = Observed { reported, truth: truth.figures(&view), asked, sent, chance };
    Ok(Finished { truth, observed })
}

/// Runs the reference client, and returns the error of each of its figures as a fraction.
pub(crate) fn noise(hazard: &Hazard, cores: &Cores) -> anyhow::Result<Figures> {
    let stage = Stage::set_up(hazard, cores)?;
    let target = Target {
        authority: stage.authority().to_owned(),
        authority_pem: hazard.tls.then(|| AUTHORITY.to_owned()),
        body: stage.body(),
    };
    let reported = reference::run(&target, &hazard.load)?;
    let truth = stage.clear(0)?;
    if truth.sent() == 0 {
        bail!("the reference client has not sent a request to the mock server");
    }
    let view = View { definition: reference::definition(), ..View::default() };
    let observed = Observed {
        reported,
        truth: truth.figures(&view),
        asked: load_figures(hazard, |_| true),
        sent: truth.sent_figures(hazard.load.arrivals),
        chance: Figures::new(),
    };
    let compared = compare(&observed, &Figures::new());
    Ok(compared.into_iter().map(|(key, comparison)| (key, comparison.error.abs())).collect())
}
