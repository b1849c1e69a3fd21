//! One binary of tests over real sockets and real files.

#[path = "integration/load.rs"]
mod load;
#[path = "integration/metrics.rs"]
mod metrics;
#[path = "integration/mock_server.rs"]
mod mock_server;
#[path = "integration/raw_server.rs"]
mod raw_server;
