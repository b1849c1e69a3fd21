//! One binary of tests over real sockets and real files.

#[path = "integration/otlp_receiver.rs"]
mod otlp_receiver;
#[path = "integration/telemetry.rs"]
mod telemetry;
