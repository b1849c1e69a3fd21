//! The composition root: builds the components, runs them, writes the results and sets the
//! exit code.

mod analyze_trace;
mod anonymize;
mod audience;
mod capacity;
mod chat;
mod compare;
mod datasets;
mod ending;
mod explain;
mod gates;
mod interrupt;
mod list;
mod logging;
mod outcome;
mod output;
mod page;
mod plot;
mod profile;
mod referee;
mod rehearsal;
mod report;
mod selfcheck;
mod shards;
mod start;
mod synthesize;
mod validate;

use std::ffi::OsString;
use std::fs;
use std::io::{self, Write};
use std::path::Path;

use anyhow::Context;

use base::redact;
use measure::metrics;
use mock_server::{self, MockServer};
use results::console;
use results::terminal::{Stderr, stderr, terminal_style, terminal_width};
use telemetry;

use self::outcome::{NO_THREADS, Outcome, exit_code, explained, is_broken_pipe, lacks_threads};
use crate::cli::{self, Command, Demo, ManPage};

/// Runs the command that `arguments`, program name first, describe, and returns the exit
/// code. Results are written to stdout, everything else to stderr.
#[must_use]
pub fn run(arguments: impl IntoIterator<Item = OsString>) -> u8 {
    let mut arguments: Vec<OsString> = arguments.into_iter().collect();
    if arguments.get(1).is_some_and(|first| first == rehearsal::FLAG) {
        arguments.remove(1);
        return rehearsal::rehearse(arguments).unwrap_or(Outcome::Failed).exit_code();
    }
    stderr::start();
    let mut out = io::stdout().lock();
    let said: Vec<_> = arguments.iter().map(|a| a.to_string_lossy().into_owned()).collect();
    // Messages repeat user input, so secrets are redacted.
    let complain = |text: &str| {
        let text = redact::printable_lines(&redact::message(text, &said));
        // An error means that the terminal is gone; there is nowhere to report it.
        let _ = writeln!(Stderr, "{text}");
        stderr::finish();
    };
    let command = match cli::parse(arguments.clone()) {
        Ok(command) => command,
        Err(error) => {
            match error.exit_code() {
                0 => drop(write!(out, "{error}")),
                _ => complain(&error.to_string()),
            }
            return error.exit_code();
        }
    };
    let done = interrupt::end_first_process().map_err(anyhow::Error::from);
    match done.and_then(|()| execute(command, &arguments, &mut out)) {
        Ok(outcome) => {
            stderr::finish();
            outcome.exit_code()
        }
        // The reader closed the pipe, as in `aiperf list metrics | head`.
        Err(error) if is_broken_pipe(&error) => Outcome::Done.exit_code(),
        Err(error) => {
            let hint = if lacks_threads(&error) { NO_THREADS } else { "" };
            complain(&format!("error: {}{hint}", explained(&error)));
            exit_code(&error)
        }
    }
}

fn execute(
    command: Command,
    arguments: &[OsString],
    out: &mut impl Write,
) -> anyhow::Result<Outcome> {
    let telemetry = match &command {
        Command::Profile(benchmark) => Some(&benchmark.config.telemetry),
        Command::Ab(asked) => asked.sides.first().map(|side| &side.config.telemetry),
        Command::Capacity { run, .. } => run.as_ref().map(|run| &run.config.telemetry),
        _ => None,
    };
    // Lines of OTLP/JSON are for a program, which must not find anything else there.
    let is_taken = telemetry.is_some_and(telemetry::writes_to_stdout);
    let mut out: &mut dyn Write = if is_taken { &mut Stderr } else { out };
    let out = &mut out;
    match command {
        Command::Profile(benchmark) => {
            profile::check_place(&benchmark.config)?;
            rehearsal::hold(&benchmark, arguments)?;
            profile::profile(*benchmark, out)
        }
        Command::Demo(demo) => run_demo(&demo, out),
        Command::MockServer(config) => serve(*config, out),
        Command::SelfCheck(asked) => selfcheck::run(&asked, out),
        Command::Referee(asked) => referee::run(&asked, out),
        Command::Report(asked) => report::report(&asked, out),
        Command::Compare(asked) => compare::compare(&asked, out),
        Command::Ab(asked) => profile::ab(*asked, out),
        Command::Capacity { asked, run } => capacity::capacity(&asked, run.map(|it| *it), out),
        Command::Plot(asked) => plot::plot(&asked, out),
        Command::AnalyzeTrace(asked) => analyze_trace::analyze(&asked, out),
        Command::Synthesize(asked) => synthesize::synthesize(&asked, out),
        Command::Anonymize(asked) => anonymize::anonymize(&asked, out),
        Command::List(asked) => list::list(&asked, out),
        Command::ShowRun(asked) => list::show(&asked, out),
        Command::Explain(asked) => explain::explain(&asked, out),
        Command::Validate(asked) => validate::validate(&asked, out),
        Command::Chat(asked) => chat::chat(asked, out),
        Command::Metrics { json } => {
            let list = match (json, terminal_width(&io::stdout())) {
                (true, _) => metrics::listing::json(),
                (false, None) => metrics::listing::table(),
                (false, Some(_)) => console::metrics(terminal_style()),
            };
            out.write_all(list.as_bytes())?;
            Ok(Outcome::Done)
        }
        Command::Datasets { json } => {
            let list = if json { datasets::json() } else { datasets::table() };
            out.write_all(list.as_bytes())?;
            Ok(Outcome::Done)
        }
        Command::Show(text) => {
            out.write_all(text.as_bytes())?;
            Ok(Outcome::Done)
        }
        Command::Write { file, text } => {
            let mut new = fs::File::create_new(&file).with_context(|| {
                format!("cannot write {}; choose a file that does not exist", file.display())
            })?;
            new.write_all(text.as_bytes())?;
            Ok(Outcome::Done)
        }
        Command::ManPages { pages, directory } => write_man_pages(&pages, &directory),
    }
}

/// Writes the pages to the directory, creating it if necessary.
fn write_man_pages(pages: &[ManPage], directory: &Path) -> anyhow::Result<Outcome> {
    let shown = || format!("cannot write to {}", directory.display());
    fs::create_dir_all(directory).with_context(shown)?;
    for page in pages {
        fs::write(directory.join(&page.file), &page.text).with_context(shown)?;
    }
    Ok(Outcome::Done)
}

/// Starts a mock server and profiles it.
fn run_demo(demo: &Demo, out: &mut impl Write) -> anyhow::Result<Outcome> {
    let server = MockServer::start(demo.server()).context("cannot start the mock server")?;
    let outcome = match cli::parse(demo.profile_arguments(&server.url()))? {
        Command::Profile(benchmark) => profile::profile(*benchmark, out)?,
        _ => anyhow::bail!("the demo's command line is not a profile command"),
    };
    if outcome == Outcome::Done {
        let directory = demo.artifact_dir.as_deref().unwrap_or(Path::new("artifacts/latest"));
        let directory = redact::printable(&directory.display().to_string());
        writeln!(
            out,
            "\nMeasure your server:  aiperf URL --concurrency 8\n\
             See it as a page:     aiperf report {directory} --html\n\
             Fail in CI:           --gate 'time_to_first_token:p90<=250ms' on the command line"
        )?;
    }
    Ok(outcome)
}

/// Serves scripted responses until interrupted.
fn serve(config: mock_server::Config, out: &mut impl Write) -> anyhow::Result<Outcome> {
    let server = MockServer::start(config).context("cannot start the mock server")?;
    let interrupt = interrupt::listen()?.interrupt();
    writeln!(out, "{}", server.url())?;
    out.flush()?;
    interrupt.wait();
    server.stop();
    Ok(Outcome::Done)
}
