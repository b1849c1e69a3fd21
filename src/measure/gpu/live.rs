//! What the live view shows of GPUs.

use client::server_family::Statistic::Max;
use client::server_family::{Watched, gauge};

use super::sample::GpuSample;
use crate::server_metrics::watch::LiveGauge;

/// The fields that show how busy and how hot GPUs are.
static WATCHED: [Watched; 6] = [
    gauge("nvidia_power_usage", Max, "GPU power (W)"),
    gauge("nvidia_gpu_utilization", Max, "GPU utilization (%)"),
    gauge("nvidia_temperature", Max, "GPU temperature (°C)"),
    gauge("amd_power", Max, "AMD GPU power (W)"),
    gauge("amd_gfx_activity", Max, "AMD GPU utilization (%)"),
    gauge("amd_temperature", Max, "AMD GPU temperature (°C)"),
];

/// Returns the highest value of each field over the GPUs of an exporter.
#[must_use]
pub fn gauges(samples: &[GpuSample]) -> Vec<LiveGauge> {
    let value_of = |watched: &'static Watched| {
        let values = || {
            let fields = samples.iter().flat_map(|sample| &sample.values);
            fields.filter(|(tag, _)| **tag == *watched.name).map(|(_, value)| *value)
        };
        let value = values().reduce(f64::max)?;
        Some(LiveGauge { watched, value, series: values().count() })
    };
    WATCHED.iter().filter_map(value_of).collect()
}
