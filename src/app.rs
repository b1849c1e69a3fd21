//! Composition root: builds the parts, runs them, writes the results, sets the
//! exit code.

mod interrupt;
mod logging;
mod profile;
mod readiness;
mod report;
mod selfcheck;
mod server_metrics;
mod start;

use std::ffi::OsString;
use std::fs;
use std::io::{self, IsTerminal, Write};
use std::path::Path;

use anyhow::Context;
use tokio::sync::watch;

use crate::cli::{self, Command, Demo, ManPage};
use crate::console::Style;
use crate::metrics;
use crate::mock_server::{self, MockServer};
use crate::runner::Interrupt;

/// How the program ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Outcome {
    /// What was asked for was done.
    Done,
    /// It could not be done, or not wholly.
    Failed,
    /// The user stopped it; what there was has been written.
    Interrupted,
}

impl Outcome {
    /// The exit code: 0, 1 or 130.
    #[must_use]
    pub const fn exit_code(self) -> u8 {
        match self {
            Self::Done => 0,
            Self::Failed => 1,
            Self::Interrupted => 130,
        }
    }
}

/// Reads `arguments`, program name first, and does what they say: the exit
/// code. Results go to stdout, everything else to stderr.
#[must_use]
pub fn run(arguments: impl IntoIterator<Item = OsString>) -> u8 {
    let mut out = io::stdout().lock();
    let mut err = io::stderr();
    let arguments: Vec<OsString> = arguments.into_iter().collect();
    let command = match cli::parse(arguments) {
        Ok(command) => command,
        Err(error) => {
            let code = error.exit_code();
            // Nobody is left to tell if the terminal is gone.
            let _ = if code == 0 { write!(out, "{error}") } else { writeln!(err, "{error}") };
            return code;
        }
    };
    match execute(command, &mut out) {
        Ok(outcome) => outcome.exit_code(),
        // A reader that has seen enough, as in `aiperf metrics | head`.
        Err(error) if is_broken_pipe(&error) => Outcome::Done.exit_code(),
        Err(error) => {
            let _ = writeln!(err, "error: {}", explained(&error));
            Outcome::Failed.exit_code()
        }
    }
}

/// An error and its causes, each said once: many name their cause themselves.
fn explained(error: &anyhow::Error) -> String {
    error
        .chain()
        .map(ToString::to_string)
        .reduce(|said, cause| if said.contains(&cause) { said } else { format!("{said}: {cause}") })
        .unwrap_or_default()
}

fn is_broken_pipe(error: &anyhow::Error) -> bool {
    let pipe = |cause: &io::Error| cause.kind() == io::ErrorKind::BrokenPipe;
    error.chain().filter_map(|cause| cause.downcast_ref()).any(pipe)
}

fn execute(command: Command, out: &mut impl Write) -> anyhow::Result<Outcome> {
    match command {
        Command::Profile(config) => profile::profile(*config, out),
        Command::Demo(demo) => run_demo(&demo, out),
        Command::MockServer(config) => serve(*config, out),
        Command::SelfCheck(asked) => selfcheck::run(&asked, out),
        Command::Report { directories, artifact_dir } => {
            report::report(&directories, artifact_dir, out)
        }
        Command::Metrics { json } => {
            out.write_all(
                if json { metrics::listing::json() } else { metrics::listing::table() }.as_bytes(),
            )?;
            Ok(Outcome::Done)
        }
        Command::Show(text) => {
            out.write_all(text.as_bytes())?;
            Ok(Outcome::Done)
        }
        Command::ManPages { pages, directory } => write_man_pages(&pages, &directory),
    }
}

/// Writes the pages into the directory, made where it is not there.
fn write_man_pages(pages: &[ManPage], directory: &Path) -> anyhow::Result<Outcome> {
    let shown = || format!("{} cannot be written", directory.display());
    fs::create_dir_all(directory).with_context(shown)?;
    for page in pages {
        fs::write(directory.join(&page.file), &page.text).with_context(shown)?;
    }
    Ok(Outcome::Done)
}

/// Profiles a mock server that is started for it.
fn run_demo(demo: &Demo, out: &mut impl Write) -> anyhow::Result<Outcome> {
    let server = MockServer::start(demo.server()).context("the mock server cannot be started")?;
    match cli::parse(demo.profile_arguments(&server.url()))? {
        Command::Profile(config) => profile::profile(*config, out),
        _ => anyhow::bail!("the demo's command line is no profile"),
    }
}

/// Serves scripted answers until interrupted.
fn serve(config: mock_server::Config, out: &mut impl Write) -> anyhow::Result<Outcome> {
    let server = MockServer::start(config).context("the mock server cannot be started")?;
    let interrupt = interrupt::listen()?;
    writeln!(out, "{}", server.url())?;
    out.flush()?;
    wait_for(&interrupt);
    server.stop();
    Ok(Outcome::Done)
}

fn wait_for(interrupt: &watch::Receiver<Interrupt>) {
    while *interrupt.borrow() == Interrupt::None {
        std::thread::sleep(std::time::Duration::from_millis(50));
    }
}

/// As wide as the terminal, and in colour there; as in files elsewhere.
fn terminal_style() -> Style {
    let stdout = io::stdout();
    if !stdout.is_terminal() {
        return Style::FILE;
    }
    #[cfg(unix)]
    let width = rustix::termios::tcgetwinsize(&stdout).map_or(0, |size| size.ws_col);
    #[cfg(not(unix))]
    let width = 0;
    let colour = std::env::var_os("NO_COLOR").is_none();
    Style { width: if width == 0 { Style::FILE.width } else { width }, colour }
}
