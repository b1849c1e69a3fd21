//! An OpenTelemetry-native benchmark for LLM servers: the program, whose parts are the crates below
//! `src`.
//!
//! The modules are in the order in which data passes through them; each imports only from those above
//! it.

pub mod config;

mod server_control;

mod collection;

pub mod cli;

pub mod app;
