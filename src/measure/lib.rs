//! Numbers from what was recorded: the catalogue of metrics, the servers' own metrics, GPUs, and
//! what follows from several runs or from gates.

pub mod otlp_receiver;

pub mod metrics;

pub mod multi_run;

pub mod server_metrics;

pub mod gpu;

pub mod judge;
