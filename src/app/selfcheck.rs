//! `aiperf selfcheck`: what can be measured on this machine, and how well.
//!
//! A mock server in a process of its own, apart from the client where there are
//! two cores, writes down when each event left. Runs of rising load are made as
//! `aiperf profile` makes them, and what they report is held to that log.

mod cores;
mod errors;
mod report;
mod server;

use std::fs::File;
use std::io::{self, BufReader, Write};
use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};

use anyhow::Context;
use jiff::Zoned;
use tokio::sync::watch;

use super::profile::{self, Observer};
use super::{Outcome, interrupt, terminal_style};
use crate::cli::{self, Command};
use crate::config::{Environment, selfcheck};
use crate::metrics::health::{Limits, SelfCheck};
use crate::runner::Interrupt;
use cores::Cores;
use errors::{Errors, Sample, Served};
use report::{Load, Report, Step};
use server::Server;

/// Seconds of an open loop at one rate.
const RATE_SECONDS: f64 = 3.0;
/// The same where it is to be quick.
const QUICK_RATE_SECONDS: f64 = 0.5;
/// Requests of each stream of a closed loop.
const ROUNDS: u64 = 6;

/// Tries the loads of `asked` in order, and tells how well each is measured.
pub(super) fn run(asked: &cli::SelfCheck, out: &mut impl Write) -> anyhow::Result<Outcome> {
    // Before this thread is kept to some of the cores.
    let machine = selfcheck::machine();
    let cores = Cores::split();
    let interrupt = interrupt::listen()?;
    let mut check = Check { asked, cores: &cores, interrupt, interrupted: false };
    let streams = check.rising(asked.streams.iter().map(|n| Load::Concurrency(*n)))?;
    let rates = check.rising(asked.rates.iter().map(|n| Load::RequestRate(*n)))?;
    if check.interrupted {
        writeln!(out, "Interrupted: nothing was found out, and nothing kept.")?;
        return Ok(Outcome::Interrupted);
    }
    let limits = Limits {
        concurrency: highest(&streams),
        request_rate: highest(&rates).map(|rate| rate as f64),
    };
    let found = SelfCheck {
        aiperf_version: env!("CARGO_PKG_VERSION").to_owned(),
        date: Zoned::now().strftime("%Y-%m-%dT%H:%M:%S%:z").to_string(),
        machine,
        bound_ms: asked.bound.as_millis(),
        limits,
    };
    if let Some(path) = &asked.save {
        if let Some(directory) = path.parent() {
            std::fs::create_dir_all(directory)
                .with_context(|| format!("{} cannot be made", directory.display()))?;
        }
        write(path, &found)?;
    }
    let report = Report { found, cores, streams, rates };
    if let Some(path) = &asked.output {
        write(path, &report)?;
    }
    out.write_all(report.render(terminal_style()).as_bytes())?;
    if let Some(path) = &asked.save {
        writeln!(out, "Later results say so: {}", path.display())?;
    }
    Ok(Outcome::Done)
}

fn write(path: &Path, value: &impl serde::Serialize) -> anyhow::Result<()> {
    let mut text = serde_json::to_vec_pretty(value)?;
    text.push(b'\n');
    std::fs::write(path, text).with_context(|| format!("{} cannot be written", path.display()))
}

/// The highest load that held, of loads that rise until one fails.
fn highest(steps: &[Step]) -> Option<u64> {
    steps.iter().rev().find(|step| step.failures.is_empty()).map(|step| step.load.size())
}

/// Time to the server's first token of a paced stream, and from token to token.
const TTFT_SECONDS: f64 = 0.05;
const ITL_SECONDS: f64 = 0.01;

/// Paced streams, or answers at once.
const fn server_flags(load: Load) -> &'static [&'static str] {
    match load {
        Load::Concurrency(_) => &["--ttft", "50ms", "--itl", "10ms", "--jitter", "5%"],
        Load::RequestRate(_) => &[],
    }
}

struct Check<'a> {
    asked: &'a cli::SelfCheck,
    cores: &'a Cores,
    interrupt: watch::Receiver<Interrupt>,
    interrupted: bool,
}

impl Check<'_> {
    /// Tries `loads` until one fails twice.
    fn rising(&mut self, loads: impl Iterator<Item = Load>) -> anyhow::Result<Vec<Step>> {
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

    /// Makes one run and compares what it reports with the server's log.
    fn step(&mut self, load: Load) -> anyhow::Result<Step> {
        let directory = tempfile::tempdir().context("no directory for the run's files")?;
        let log = directory.path().join("writes.jsonl");
        cores::keep_to(&self.cores.server)?;
        let server = Server::start(server_flags(load), &log)?;
        cores::keep_to(&self.cores.client)?;
        let files = directory.path().join("run");
        let samples = self.profile(&self.profile_flags(load, server.url(), &files))?;
        server.stop()?;
        let log = File::open(&log).context("the mock server left no write log")?;
        let truth = Served::read(BufReader::new(log))?;
        let errors = Errors::of(&samples, &truth);
        Ok(Step::judge(load, samples.len(), errors, self.asked.bound.as_millis()))
    }

    fn profile_flags(&self, load: Load, url: &str, files: &Path) -> Vec<String> {
        let shape = match load {
            Load::Concurrency(streams) => {
                let (rounds, tokens) = if self.asked.quick { (2, 8) } else { (ROUNDS, 64) };
                let requests = streams * rounds;
                // Over the time that one takes, so that they stay spread.
                let ramp = TTFT_SECONDS + f64::from(tokens - 1) * ITL_SECONDS;
                format!(
                    "--streaming --concurrency {streams} --concurrency-ramp-duration {ramp} \
                     --request-count {requests} --osl {tokens}"
                )
            }
            Load::RequestRate(rate) => {
                let seconds = if self.asked.quick { QUICK_RATE_SECONDS } else { RATE_SECONDS };
                let requests = (rate as f64 * seconds).ceil();
                format!(
                    "--request-rate {rate} --arrival-pattern constant --request-count {requests} --osl 16"
                )
            }
        };
        let fixed = "aiperf profile --model mock-model --tokenizer builtin --isl 20 \
                     --num-prompts 100 --ui none --no-server-metrics";
        let mut flags: Vec<String> =
            fixed.split(' ').chain(shape.split(' ')).map(str::to_owned).collect();
        let files = files.display().to_string();
        flags.extend(["--url", url, "--artifact-dir", &files].map(str::to_owned));
        flags
    }

    /// Profiles as the command line `flags` says; what was reported of each request.
    fn profile(&mut self, flags: &[String]) -> anyhow::Result<Vec<Sample>> {
        // Settings of the transport are those of later runs; nothing else is.
        let transport = |name: &str| {
            name.starts_with("AIPERF_HTTP_").then(|| std::env::var(name).ok()).flatten()
        };
        let flags = flags.iter().map(Into::into);
        let Command::Profile(config) = cli::parse_with(flags, Environment::new(&transport))? else {
            anyhow::bail!("the self-check's command line is no profile");
        };
        let samples = Arc::new(Mutex::new(Vec::new()));
        let kept = Arc::clone(&samples);
        let observer: Observer = Box::new(move |measured| {
            kept.lock().unwrap_or_else(PoisonError::into_inner).push(Sample::of(measured));
        });
        let outcome = profile::observed(*config, &self.interrupt, observer, &mut io::sink())?;
        self.interrupted = outcome == Outcome::Interrupted;
        Ok(std::mem::take(&mut *samples.lock().unwrap_or_else(PoisonError::into_inner)))
    }
}
