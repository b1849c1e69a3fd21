//! Why telemetry cannot be started.

use std::path::PathBuf;

/// Why telemetry cannot be started. A collector that does not answer is not
/// among the reasons: that is found out later, and the run goes on.
#[derive(Debug, thiserror::Error)]
pub enum TelemetryError {
    /// The collector's URL cannot be used.
    #[error("the collector's URL {url:?} cannot be used: {reason}")]
    Url {
        /// As given, credentials removed.
        url: String,
        /// What is wrong and what to do.
        reason: String,
    },
    /// A setting or variable has a value that makes no sense.
    #[error("{name} {reason}")]
    Setting {
        /// Flag or variable.
        name: &'static str,
        /// What is wrong and what to do; never a header's value.
        reason: String,
    },
    /// A file named by a variable cannot be read.
    #[error("cannot read {path:?}, which {name} names: {source}")]
    File {
        /// The variable.
        name: &'static str,
        /// The file.
        path: PathBuf,
        /// Why.
        source: std::io::Error,
    },
    /// The exporter cannot be built.
    #[error("cannot set up the export to {endpoint}: {reason}")]
    Exporter {
        /// The collector.
        endpoint: String,
        /// Why.
        reason: String,
    },
    /// The exporter's thread cannot be started.
    #[error("cannot start the exporter's thread: {0}")]
    Thread(#[from] std::io::Error),
}
