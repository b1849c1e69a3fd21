//! `aiperf selfcheck`: determines how much load this machine measures accurately.
//!
//! A mock server in a separate process, on separate cores if there are at least two, logs
//! when it sent each event. Runs with increasing load are performed as by `aiperf profile`,
//! and their results are compared with that log.

mod accuracy;
mod report;

use std::fs::File;
use std::io::{self, BufReader, Write};
use std::path::Path;
use std::sync::Arc;

use anyhow::Context;
use chrono::Local;

use base::interrupt::Interrupt;
use base::lock::Lock;
use base::platform::cores::keep_to;
use base::platform::replace::replace;
use measure::metrics::health::{Limits, SelfCheck};
use measure::metrics::metric::MeasuredRecord;
use mock_server::read_write_log;
use referee::{Cores, Server};
use results::follow::{Follower, Followers};
use results::terminal::terminal_style;

use super::interrupt;
use super::outcome::Outcome;
use super::profile;
use crate::cli::{self, Command};
use crate::config::{Environment, selfcheck};
use accuracy::{Errors, Sample};
use report::{Level, Report, Step};

/// Duration of an open-loop run at one rate, in seconds.
const RATE_SECONDS: f64 = 3.0;
/// Duration with `--quick`, in seconds.
const QUICK_RATE_SECONDS: f64 = 0.5;
/// Number of requests of each stream of a closed loop.
const ROUNDS: u64 = 6;

/// Tries the loads of `asked` in order, and reports how accurately each is measured.
pub(super) fn run(asked: &cli::SelfCheck, out: &mut impl Write) -> anyhow::Result<Outcome> {
    // Before this thread is restricted to some of the cores.
    let machine = selfcheck::machine();
    let cores = Cores::split();
    let interrupt = interrupt::listen()?.interrupt();
    let mut check = Check { asked, cores: &cores, interrupt, interrupted: false };
    let streams = check.rising(asked.streams.iter().map(|n| Level::Concurrency(*n)))?;
    let rates = check.rising(asked.rates.iter().map(|n| Level::RequestRate(*n)))?;
    if check.interrupted {
        writeln!(out, "Interrupted: no result, and nothing was saved.")?;
        return Ok(Outcome::Interrupted);
    }
    let limits = Limits {
        concurrency: highest(&streams),
        request_rate: highest(&rates).map(|rate| rate as f64),
    };
    let found = SelfCheck {
        aiperf_version: env!("CARGO_PKG_VERSION").to_owned(),
        date: Local::now().format("%Y-%m-%dT%H:%M:%S%:z").to_string(),
        machine,
        bound_ms: asked.bound.as_millis(),
        limits,
    };
    if let Some(path) = &asked.save {
        if let Some(directory) = path.parent() {
            std::fs::create_dir_all(directory)
                .with_context(|| format!("cannot create {}", directory.display()))?;
        }
        write(path, &found)?;
    }
    let report = Report { found, cores, streams, rates };
    if let Some(path) = &asked.output {
        write(path, &report)?;
    }
    out.write_all(report.render(terminal_style()).as_bytes())?;
    if let Some(path) = &asked.save {
        writeln!(out, "Saved for later runs: {}", path.display())?;
    }
    Ok(Outcome::Done)
}

fn write(path: &Path, value: &impl serde::Serialize) -> anyhow::Result<()> {
    let mut text = serde_json::to_vec_pretty(value)?;
    text.push(b'\n');
    replace(path, |file| file.write_all(&text))
        .with_context(|| format!("cannot write {}", path.display()))
}

/// The highest load that passed, of increasing loads until one fails.
fn highest(steps: &[Step]) -> Option<u64> {
    steps.iter().rev().find(|step| step.failures.is_empty()).map(|step| step.load.size())
}

/// The server's time to first token and inter-token latency of paced streams.
const TTFT_SECONDS: f64 = 0.05;
const ITL_SECONDS: f64 = 0.01;

/// Scripts for paced streams and for immediate responses.
const fn server_flags(load: Level) -> &'static [&'static str] {
    match load {
        Level::Concurrency(_) => &["--ttft", "50ms", "--itl", "10ms", "--jitter", "5%"],
        Level::RequestRate(_) => &[],
    }
}

struct Check<'a> {
    asked: &'a cli::SelfCheck,
    cores: &'a Cores,
    interrupt: Interrupt,
    interrupted: bool,
}

impl Check<'_> {
    /// Tries `loads` until one fails twice.
    fn rising(&mut self, loads: impl Iterator<Item = Level>) -> anyhow::Result<Vec<Step>> {
        let mut steps: Vec<Step> = Vec::new();
        for load in loads {
            for _ in 0..2 {
                if self.interrupted {
                    return Ok(steps);
                }
                steps.push(self.step(load)?);
                if steps.last().is_some_and(|step| step.failures.is_empty()) {
                    break;
                }
            }
            if steps.last().is_some_and(|step| !step.failures.is_empty()) {
                break;
            }
        }
        Ok(steps)
    }

    /// Performs one run and compares its results with the server's log.
    fn step(&mut self, load: Level) -> anyhow::Result<Step> {
        let directory =
            tempfile::tempdir().context("cannot create a directory for the run's files")?;
        let log = directory.path().join("writes.jsonl");
        keep_to(&self.cores.server)?;
        let server = Server::start(server_flags(load), &log)?;
        keep_to(&self.cores.client)?;
        let files = directory.path().join("run");
        let samples = self.profile(&self.profile_flags(load, server.url(), &files))?;
        server.stop()?;
        let log = File::open(&log).context("the mock server wrote no log")?;
        let truth = accuracy::by_id(read_write_log(BufReader::new(log))?);
        let errors = Errors::compare(&samples, &truth);
        Ok(Step::judge(load, samples.len(), errors, self.asked.bound.as_millis()))
    }

    fn profile_flags(&self, load: Level, url: &str, files: &Path) -> Vec<String> {
        let shape = match load {
            Level::Concurrency(streams) => {
                let (rounds, tokens) = if self.asked.quick { (2, 8) } else { (ROUNDS, 64) };
                let requests = streams * rounds;
                // Ramped up over the duration of one stream, so that streams stay spread out.
                let ramp = TTFT_SECONDS + f64::from(tokens - 1) * ITL_SECONDS;
                format!(
                    "--streaming --concurrency {streams} --concurrency-ramp-duration {ramp} \
                     --request-count {requests} --osl {tokens}"
                )
            }
            Level::RequestRate(rate) => {
                let seconds = if self.asked.quick { QUICK_RATE_SECONDS } else { RATE_SECONDS };
                let requests = (rate as f64 * seconds).ceil();
                format!(
                    "--request-rate {rate} --arrival-pattern constant --request-count {requests} \
                     --osl 16"
                )
            }
        };
        let fixed = "aiperf profile --model mock-model --tokenizer builtin --isl 20 \
                     --num-prompts 100 --ui none --no-server-metrics --no-gpu-telemetry";
        let mut flags: Vec<String> =
            fixed.split(' ').chain(shape.split(' ')).map(str::to_owned).collect();
        let files = files.display().to_string();
        flags.extend(["--url", url, "--artifact-dir", &files].map(str::to_owned));
        flags
    }

    /// Runs `aiperf profile` with `flags` and returns a sample for each request.
    fn profile(&mut self, flags: &[String]) -> anyhow::Result<Vec<Sample>> {
        // Only transport settings apply to later runs too.
        let transport = |name: &str| {
            name.starts_with("AIPERF_HTTP_").then(|| Environment::process().get(name)).flatten()
        };
        let flags = flags.iter().map(Into::into);
        let Command::Profile(benchmark) = cli::parse_with(flags, Environment::new(&transport))?
        else {
            anyhow::bail!("the self-check's command line is not a profile command");
        };
        let samples = Arc::new(Samples::default());
        let mut followers = Followers::default();
        followers.add(Arc::<Samples>::clone(&samples));
        let outcome =
            profile::followed(benchmark.config, &self.interrupt, followers, &mut io::sink())?;
        self.interrupted = outcome == Outcome::Interrupted;
        Ok(std::mem::take(&mut *samples.0.lock()))
    }
}

/// Collects a sample of each request.
#[derive(Default)]
struct Samples(Lock<Vec<Sample>>);

impl Follower for Samples {
    fn record(&self, record: &MeasuredRecord) {
        let sample = Sample::from_record(record);
        self.0.lock().push(sample);
    }
}
