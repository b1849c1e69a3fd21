//! Code that several tests share: servers, receivers, runs and external readers.

#[cfg(unix)]
pub(crate) mod browser;
pub(crate) mod hub;
pub(crate) mod left_out;
pub(crate) mod load;
pub(crate) mod metrics_endpoint;
pub(crate) mod otlp_receiver;
pub(crate) mod port;
pub(crate) mod python;
pub(crate) mod raw_server;
pub(crate) mod run;
pub(crate) mod schema;
