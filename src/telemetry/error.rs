//! Errors that prevent telemetry from starting.

use std::path::PathBuf;

use base::redact::ShownUrl;

/// The reason why telemetry cannot be started. An unreachable collector is not among them: it is
/// detected later, and the run continues.
#[derive(Debug, thiserror::Error)]
pub enum TelemetryError {
    /// The collector's URL cannot be used.
    #[error("the collector URL {url:?} is not valid: {reason}")]
    Url {
        /// The URL as given.
        url: ShownUrl,
        /// The problem, and how to solve it.
        reason: String,
    },
    /// A setting or variable has an invalid value.
    #[error("{name} {reason}")]
    Setting {
        /// The flag or variable.
        name: &'static str,
        /// The problem, and how to solve it; never contains a header's value.
        reason: String,
    },
    /// A file named by a variable cannot be read.
    #[error("{name}: cannot read {path:?}: {source}")]
    File { name: &'static str, path: PathBuf, source: std::io::Error },
    /// The exporter cannot be built.
    #[error("cannot set up the export to {endpoint}: {reason}")]
    Exporter { endpoint: String, reason: String },
    /// The exporter's thread cannot be started.
    #[error("cannot start the exporter's thread: {0}")]
    Thread(#[from] std::io::Error),
}
