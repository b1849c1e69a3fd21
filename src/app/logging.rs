//! Log lines: to the run's file, and what matters to stderr.

use std::fs::File;
use std::io;
use std::path::Path;
use std::sync::Mutex;

use tracing::level_filters::LevelFilter;
use tracing_subscriber::Layer;
use tracing_subscriber::layer::SubscriberExt;
use tracing_subscriber::util::SubscriberInitExt;

use crate::config::LogLevel;

/// Sends log lines to `file`, and warnings to stderr; with a more talkative
/// `level` than the default, stderr has its lines too. The first call counts.
pub(super) fn start(file: &Path, level: LogLevel) -> io::Result<()> {
    let to_file = filter(level);
    let to_terminal = if level < LogLevel::Info { to_file } else { LevelFilter::WARN.min(to_file) };
    let in_file = tracing_subscriber::fmt::layer()
        .with_ansi(false)
        .with_writer(Mutex::new(File::create(file)?))
        .with_filter(to_file);
    let on_terminal = tracing_subscriber::fmt::layer()
        .with_ansi(false)
        .without_time()
        .with_target(false)
        .with_writer(io::stderr)
        .with_filter(to_terminal);
    // A process that runs twice keeps its first log.
    let _ = tracing_subscriber::registry().with(in_file).with(on_terminal).try_init();
    Ok(())
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
