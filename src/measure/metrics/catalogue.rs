//! All metrics, by family. To add a metric, add a row to its family's file.

use super::metric::{Metric, Totals};

mod deployment;
mod errors;
mod general;
mod goodput;
mod gpu;
mod http_trace;
mod media;
mod network;
mod osl_mismatch;
mod over_time;
mod reasoning;
mod schedule;
mod server_timing;
mod sessions;
mod speculation;
mod streaming;
mod tokens;
mod tools;
mod usage;
mod usage_diff;

/// A family of related metrics.
#[derive(Debug)]
pub struct Family {
    /// Title in the metric reference.
    pub title: &'static str,
    /// Description of the family.
    pub about: &'static str,
    /// The family's metrics.
    pub rows: &'static [Metric],
}

/// All families, in display order.
pub(crate) static FAMILIES: &[Family] = &[
    Family { title: "Streaming", about: streaming::ABOUT, rows: streaming::ROWS },
    Family { title: "Tokens", about: tokens::ABOUT, rows: tokens::ROWS },
    Family { title: "Images", about: media::IMAGES, rows: media::IMAGE_ROWS },
    Family { title: "Video", about: media::VIDEO, rows: media::VIDEO_ROWS },
    Family { title: "Audio", about: media::AUDIO, rows: media::AUDIO_ROWS },
    Family { title: "Reasoning", about: reasoning::ABOUT, rows: reasoning::ROWS },
    Family { title: "Usage fields", about: usage::ABOUT, rows: usage::ROWS },
    Family { title: "Tool calls", about: tools::ABOUT, rows: tools::ROWS },
    Family { title: "Usage discrepancy", about: usage_diff::ABOUT, rows: usage_diff::ROWS },
    Family { title: "OSL mismatch", about: osl_mismatch::ABOUT, rows: osl_mismatch::ROWS },
    Family { title: "Goodput", about: goodput::ABOUT, rows: goodput::ROWS },
    Family { title: "Errors", about: errors::ABOUT, rows: errors::ROWS },
    Family { title: "General", about: general::ABOUT, rows: general::ROWS },
    Family { title: "Sessions", about: sessions::ABOUT, rows: sessions::ROWS },
    Family { title: "Over time", about: over_time::ABOUT, rows: over_time::ROWS },
    Family { title: "Load schedule", about: schedule::ABOUT, rows: schedule::ROWS },
    Family { title: "Network", about: network::ABOUT, rows: network::ROWS },
    Family { title: "Server timing", about: server_timing::ABOUT, rows: server_timing::ROWS },
    Family { title: "Speculative decoding", about: speculation::ABOUT, rows: speculation::ROWS },
    Family { title: "Deployment", about: deployment::ABOUT, rows: deployment::ROWS },
    Family { title: "GPUs of NVIDIA", about: gpu::ABOUT, rows: gpu::NVIDIA_ROWS },
    Family { title: "GPUs of AMD", about: gpu::ABOUT, rows: gpu::AMD_ROWS },
    Family { title: "HTTP trace", about: http_trace::ABOUT, rows: http_trace::ROWS },
];

/// Nanoseconds per second.
const SECOND: f64 = 1e9;

/// Returns `dividend / divisor`; `None` if the divisor is zero.
fn ratio(dividend: f64, divisor: f64) -> Option<f64> {
    (divisor != 0.0).then(|| dividend / divisor)
}

/// Returns `amount` per second of the benchmark's duration, or of the slice's.
fn per_second(totals: &dyn Totals, amount: f64) -> Option<f64> {
    ratio(amount, totals.duration()?.as_seconds())
}
