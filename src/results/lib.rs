//! What a run leads to: its report, its files, the terminal, the HTML page, the HTTP API and MLflow.
//!
//! [`processing`] turns each record into values while the run goes on, and all of them into one report
//! at its end; [`artifacts`] also reads files again, for the same report.

pub mod run;

pub mod tables;

pub mod warnings;

pub mod artifacts;

pub mod follow;

pub mod status;

pub mod processing;

pub mod console;

pub mod terminal;

pub mod report;

pub mod api;

pub mod mlflow;
