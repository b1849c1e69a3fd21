//! One binary of tests over real sockets and real files.

#[path = "integration/artifacts.rs"]
mod artifacts;
#[path = "integration/cli.rs"]
mod cli;
#[path = "integration/endpoint.rs"]
mod endpoint;
#[path = "integration/metrics.rs"]
mod metrics;
#[path = "integration/mock_server.rs"]
mod mock_server;
