//! One binary of tests over real sockets and real files.

#[path = "integration/metrics.rs"]
mod metrics;
