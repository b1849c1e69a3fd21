//! Telemetry of GPUs: the Prometheus expositions of DCGM and AMD exporters during a run.
//!
//! The exporters are scraped and their samples stored like those of
//! [servers](crate::server_metrics), and so are the GPUs of this machine without one ([local]). The [fields] that AIPerf knows get its names and
//! units; the [report] has their statistics and the [energy] of each GPU over the profiling phase.

pub mod doubts;
pub mod energy;
pub mod fields;
pub mod identity;
pub mod live;
pub mod local;
pub mod report;
pub mod sample;
mod series;
#[cfg(test)]
mod tests;

use serde::Serialize;

use base::units::Nanos;

use crate::server_metrics;
use fields::Fields;

/// Which exporters are scraped, and what is read from them.
#[derive(Debug, Clone, Serialize)]
pub struct Config {
    /// The exporters and the timing of scrapes.
    #[serde(flatten)]
    pub scrapes: server_metrics::Config,
    /// The fields that are read.
    #[serde(skip)]
    pub fields: Fields,
    /// Whether the user asked for GPU telemetry (`--gpu-telemetry`), so that tables are printed.
    pub is_asked: bool,
    /// Time for which idle GPUs are measured before the first request (`--gpu-idle-duration`).
    pub idle: Nanos,
    /// Number of lines after which the file of samples is flushed (`AIPERF_GPU_EXPORT_BATCH_SIZE`).
    pub batch_size: usize,
}

impl Default for Config {
    fn default() -> Self {
        Self {
            scrapes: server_metrics::Config {
                flush_period: Nanos::from_millis(666.0),
                exporters_of: server_metrics::Source::Gpus,
                local: Some(local::expose),
                ..server_metrics::Config::default()
            },
            fields: Fields::default(),
            is_asked: false,
            idle: Nanos::from_seconds(1.0),
            batch_size: 100,
        }
    }
}
