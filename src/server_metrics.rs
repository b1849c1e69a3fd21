//! The server's side of a run: its Prometheus expositions.

pub mod exposition;
