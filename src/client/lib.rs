//! Sends requests and records what happened: when each is due, its body, its connection, and the
//! times of every byte of the response.
//!
//! [`runner`] is the measured path. Everything after its queue of records runs elsewhere.

pub mod schedule;

pub mod record;

pub mod server_family;

pub mod endpoint;

pub mod transport;

pub mod runner;

pub mod network_latency;
