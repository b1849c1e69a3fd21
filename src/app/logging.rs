//! Log lines: to the run's file, and what matters to stderr.

use std::fs::File;
use std::io::{self, Write};
use std::path::Path;
use std::sync::{Mutex, MutexGuard, PoisonError};

use tracing::level_filters::LevelFilter;
use tracing_subscriber::Layer;
use tracing_subscriber::layer::SubscriberExt;
use tracing_subscriber::util::SubscriberInitExt;

use crate::config::LogLevel;

/// Where lines go now: to the file of the run that is being made.
static FILE: Mutex<Option<File>> = Mutex::new(None);

/// Sends log lines to `file`, and warnings to stderr; with a more talkative
/// `level` than the default, stderr has its lines too. A further call changes the
/// file alone.
pub(super) fn start(file: &Path, level: LogLevel) -> io::Result<()> {
    *current() = Some(File::create(file)?);
    let to_file = filter(level);
    let to_terminal = if level < LogLevel::Info { to_file } else { LevelFilter::WARN.min(to_file) };
    let in_file =
        tracing_subscriber::fmt::layer().with_ansi(false).with_writer(|| Line).with_filter(to_file);
    let on_terminal = tracing_subscriber::fmt::layer()
        .with_ansi(false)
        .without_time()
        .with_target(false)
        .with_writer(io::stderr)
        .with_filter(to_terminal);
    // A process that runs twice has it already.
    let _ = tracing_subscriber::registry().with(in_file).with(on_terminal).try_init();
    Ok(())
}

fn current() -> MutexGuard<'static, Option<File>> {
    FILE.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Writes to the current file.
struct Line;

impl Write for Line {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        current().as_mut().map_or(Ok(bytes.len()), |file| file.write(bytes))
    }

    fn flush(&mut self) -> io::Result<()> {
        current().as_mut().map_or(Ok(()), File::flush)
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
