//! One binary of tests over real sockets and real files.

#![expect(clippy::unwrap_used, clippy::expect_used, reason = "a test fails by panicking")]

#[path = "integration/otlp_receiver.rs"]
mod otlp_receiver;
#[path = "integration/telemetry.rs"]
mod telemetry;
