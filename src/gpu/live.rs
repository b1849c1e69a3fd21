//! What the live view shows of GPUs.

use super::sample::GpuSample;
use crate::server_metrics::snapshot::Kind;
use crate::server_metrics::watch::{LiveGauge, Statistic, Watched};

const fn gauge(name: &'static str, meaning: &'static str) -> Watched {
    Watched { name, earlier: None, kind: Kind::Gauge, statistic: Statistic::Max, meaning }
}

/// The fields that show how busy and how hot GPUs are.
static WATCHED: [Watched; 6] = [
    gauge("nvidia_power_usage", "GPU power (W)"),
    gauge("nvidia_gpu_utilization", "GPU utilization (%)"),
    gauge("nvidia_temperature", "GPU temperature (°C)"),
    gauge("amd_power", "AMD GPU power (W)"),
    gauge("amd_gfx_activity", "AMD GPU utilization (%)"),
    gauge("amd_temperature", "AMD GPU temperature (°C)"),
];

/// Returns the highest value of each field over the GPUs of an exporter.
#[must_use]
pub(crate) fn gauges(samples: &[GpuSample]) -> Vec<LiveGauge> {
    let of = |watched: &'static Watched| {
        let values = || {
            let fields = samples.iter().flat_map(|sample| &sample.values);
            fields.filter(|(tag, _)| **tag == *watched.name).map(|(_, value)| *value)
        };
        let value = values().reduce(f64::max)?;
        Some(LiveGauge { watched, value, series: values().count() })
    };
    WATCHED.iter().filter_map(of).collect()
}
