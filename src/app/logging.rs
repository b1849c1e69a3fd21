//! Logging to the run's log file and, for warnings, to stderr.

use std::fs::File;
use std::io::{self, Write};
use std::path::Path;

use tracing::level_filters::LevelFilter;
use tracing_subscriber::Layer;
use tracing_subscriber::filter::Targets;
use tracing_subscriber::layer::SubscriberExt;
use tracing_subscriber::util::SubscriberInitExt;

use base::lock::{Guard, Lock};
use base::redact;
use results::terminal::Stderr;

use crate::config::LogLevel;

/// The log file of the current run.
static FILE: Lock<Option<File>> = Lock::new(None);

/// Logs to `file`, and warnings to stderr too; with a `level` more verbose than the default,
/// stderr gets all lines of that level. Lines of OpenTelemetry are dropped unless the run
/// `exports`, since its SDK runs the in-process reader in any case. Later calls only replace
/// the file.
pub(super) fn start(file: &Path, level: LogLevel, exports: bool) -> io::Result<()> {
    *current() = Some(File::create(file)?);
    let to_file = filter(level);
    let to_terminal = if level < LogLevel::Info { to_file } else { LevelFilter::WARN.min(to_file) };
    let [to_file, to_terminal] = [to_file, to_terminal].map(|level| {
        let of_sdk = if exports { level } else { LevelFilter::OFF };
        Targets::new().with_default(level).with_target("opentelemetry", of_sdk)
    });
    let in_file =
        tracing_subscriber::fmt::layer().with_ansi(false).with_writer(|| Line).with_filter(to_file);
    let on_terminal = tracing_subscriber::fmt::layer()
        .with_ansi(false)
        .without_time()
        .with_target(false)
        .with_writer(|| OnTerminal)
        .with_filter(to_terminal);
    // A process with several runs has set it already.
    let _ = tracing_subscriber::registry().with(in_file).with(on_terminal).try_init();
    Ok(())
}

fn current() -> Guard<'static, Option<File>> {
    FILE.lock()
}

/// A writer to the current log file.
struct Line;

impl Write for Line {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        current().as_mut().map_or(Ok(bytes.len()), |file| file.write(bytes))
    }

    fn flush(&mut self) -> io::Result<()> {
        current().as_mut().map_or(Ok(()), File::flush)
    }
}

/// A writer to standard error that removes control characters.
struct OnTerminal;

impl Write for OnTerminal {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let shown = redact::printable_lines(&String::from_utf8_lossy(bytes));
        Stderr.write_all(shown.as_bytes()).map(|()| bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

const fn filter(level: LogLevel) -> LevelFilter {
    match level {
        LogLevel::Trace => LevelFilter::TRACE,
        LogLevel::Debug => LevelFilter::DEBUG,
        LogLevel::Info => LevelFilter::INFO,
        LogLevel::Warn => LevelFilter::WARN,
        LogLevel::Error => LevelFilter::ERROR,
    }
}
