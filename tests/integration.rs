//! One binary of tests over real sockets and real files.

#[path = "integration/artifacts.rs"]
mod artifacts;

#[path = "integration/metrics.rs"]
mod metrics;
