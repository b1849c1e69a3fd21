//! Requests that control a server around a run.

use serde::Serialize;

use base::redact::{PathAndQuery, Secret};
use base::units::Nanos;

/// Which control requests are sent.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
pub struct Control {
    /// Resets the server's prefix cache before the run (`--reset-kv-cache`).
    pub reset_kv_cache: Option<ResetKvCache>,
    /// Profiles the server during the measurement (`--server-profiler`).
    pub server_profiler: Option<ServerProfiler>,
}

/// How the prefix cache is reset.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct ResetKvCache {
    /// Path of the request, relative to the origin of each URL.
    pub path: Secret<PathAndQuery>,
    /// Timeout of each request.
    pub timeout: Nanos,
}

/// How the server's profiler is started and stopped.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct ServerProfiler {
    /// Path of the request that starts it, relative to the origin of each URL.
    pub start_path: Secret<PathAndQuery>,
    /// Path of the request that stops it.
    pub stop_path: Secret<PathAndQuery>,
    /// Timeout of each request.
    pub timeout: Nanos,
    /// How long the concurrency must have been the configured one before the profiler is started;
    /// `None` starts it before the measurement.
    pub at_full_concurrency: Option<Nanos>,
}
