//! Flags and console groups of metrics.

use bitflags::bitflags;

bitflags! {
    /// When a metric is computed and shown.
    #[derive(Debug, Clone, Copy, PartialEq, Eq)]
    pub struct MetricFlags: u32 {
        /// Only for streamed responses.
        const STREAMING_ONLY = 1;
        /// Only for failed requests.
        const ERROR_ONLY = 1 << 1;
        /// Only for endpoints that produce tokens.
        const PRODUCES_TOKENS_ONLY = 1 << 2;
        /// Higher is better.
        const LARGER_IS_BETTER = 1 << 3;
        /// About aiperf itself; shown only in developer mode.
        const INTERNAL = 1 << 4;
        /// Only for audio endpoints.
        const SUPPORTS_AUDIO_ONLY = 1 << 5;
        /// Only for image endpoints.
        const SUPPORTS_IMAGE_ONLY = 1 << 6;
        /// Only for models that report reasoning separately.
        const SUPPORTS_REASONING = 1 << 7;
        /// May change; shown only in developer mode.
        const EXPERIMENTAL = 1 << 8;
        /// Only with service level objectives.
        const GOODPUT = 1 << 9;
        /// Not in the records of individual requests.
        const NO_INDIVIDUAL_RECORDS = 1 << 10;
        /// Only for endpoints that tokenise their input.
        const TOKENIZES_INPUT_ONLY = 1 << 11;
        /// Only with HTTP trace data.
        const HTTP_TRACE_ONLY = 1 << 12;
        /// Only for video endpoints.
        const SUPPORTS_VIDEO_ONLY = 1 << 13;
        /// Only if the server reports usage.
        const USAGE_DIFF_ONLY = 1 << 14;
        /// Only for endpoints that produce video.
        const PRODUCES_VIDEO_ONLY = 1 << 15;
        /// Only with a fixed schedule, where every request has a due time.
        const FIXED_SCHEDULE_ONLY = 1 << 16;
        /// A time that the server reports of each request.
        const SERVER_TIMING = 1 << 17;
        /// Only for streamed tokens.
        const STREAMING_TOKENS_ONLY = Self::STREAMING_ONLY.bits() | Self::PRODUCES_TOKENS_ONLY.bits();
    }
}

/// The console table of a metric.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum ConsoleGroup {
    /// No table; only exported.
    None,
    /// The effective metrics: over the whole time, and from the due time of requests.
    Effective,
    /// The active metrics: over the time in which there were requests.
    Active,
    /// API-reported usage.
    Usage,
    /// Cache tokens.
    Cache,
    /// Predicted tokens.
    Prediction,
    /// Audio tokens.
    Audio,
    /// Reasoning tokens.
    Reasoning,
    /// The server's times of stages.
    Server,
    /// The main table.
    Default,
    /// Speculative decoding.
    SpecDecode,
    /// Sessions of several turns.
    Sessions,
    /// Throughput for each GPU, and costs.
    Deployment,
    /// Power and energy of NVIDIA GPUs.
    GpuPowerEfficiencyNvidia,
    /// Power and energy of AMD GPUs.
    GpuPowerEfficiencyAmd,
}

impl ConsoleGroup {
    /// Returns the name in the catalogue's listing.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::None => "none",
            Self::Effective => "effective",
            Self::Active => "active",
            Self::Usage => "usage",
            Self::Cache => "cache",
            Self::Prediction => "prediction",
            Self::Audio => "audio",
            Self::Reasoning => "reasoning",
            Self::Server => "server",
            Self::Default => "default",
            Self::SpecDecode => "spec_decode",
            Self::Sessions => "sessions",
            Self::Deployment => "deployment",
            Self::GpuPowerEfficiencyNvidia => "gpu_power_efficiency_nvidia",
            Self::GpuPowerEfficiencyAmd => "gpu_power_efficiency_amd",
        }
    }
}
