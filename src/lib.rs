//! An OpenTelemetry-native benchmark for LLM servers.
//!
//! The modules stand in the order in which data meets them; each imports only
//! from those above it.

mod lock;

mod parallel;

mod platform;

pub mod environment;

mod causes;

mod input;

mod column;

pub mod statistics;

pub mod units;

mod setting;

mod timer;

pub mod interrupt;

pub mod jinja;

pub mod redact;

pub mod semconv;

mod otlp;

pub mod hub;

pub mod tokenizer;

mod png;

pub mod dataset;

pub mod schedule;

pub mod record;

pub mod server_family;

pub mod endpoint;

pub mod transport;

pub mod runner;

pub mod otlp_receiver;

pub mod metrics;

pub mod multi_run;

pub mod server_metrics;

pub mod gpu;

pub mod network_latency;

pub mod telemetry;

pub mod judge;

pub mod run;

mod tables;

mod warnings;

pub mod artifacts;

mod follow;

mod status;

mod processing;

pub mod console;

mod terminal;

pub mod report;

pub mod api;

pub mod mlflow;

pub mod mock_server;

pub mod config;

mod server_control;

mod collection;

pub mod cli;

pub mod app;
