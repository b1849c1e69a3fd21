//! Power and energy of GPUs.

use base::units::Unit;

use crate::metrics::ConsoleGroup;
use crate::metrics::gpu::{GpuFacts, Vendor, quotient};
use crate::metrics::metric::{Metric, MetricFlags as Flag};
use crate::metrics::tag::{self, MetricTag};

pub(super) const ABOUT: &str = "Power and energy of all GPUs of one vendor in the profiling phase, \
                                from the exporters of `--gpu-telemetry` ([GPU \
                                telemetry](server-metrics.md#gpu-telemetry)), and what they mean \
                                for each request and token. Absent if no exporter reports power or \
                                energy.";

/// The number of tokens that a price is quoted for.
pub(super) const MILLION: f64 = 1e6;

/// The tags of a vendor's metrics.
struct Tags {
    vendor: Vendor,
    group: ConsoleGroup,
    /// Position of the first in the console table.
    first: u32,
    total_energy: MetricTag,
    energy_error: MetricTag,
    energy_above_idle: MetricTag,
    average_power: MetricTag,
    total_power: MetricTag,
    idle_power: MetricTag,
    tokens_per_joule: MetricTag,
    per_output_token: MetricTag,
    per_total_token: MetricTag,
    per_million_output_tokens: MetricTag,
    per_million_tokens: MetricTag,
    per_request: MetricTag,
    per_user: MetricTag,
    delay_product: MetricTag,
    requests_per_watt: MetricTag,
    output_per_watt: MetricTag,
    goodput_per_watt: MetricTag,
}

pub(super) static NVIDIA_ROWS: &[Metric] = &rows(&Tags {
    vendor: Vendor::Nvidia,
    group: ConsoleGroup::GpuPowerEfficiencyNvidia,
    first: 700,
    total_energy: tag::NVIDIA_TOTAL_GPU_ENERGY,
    energy_error: tag::NVIDIA_GPU_ENERGY_ERROR,
    energy_above_idle: tag::NVIDIA_GPU_ENERGY_ABOVE_IDLE,
    average_power: tag::NVIDIA_AVERAGE_GPU_POWER,
    total_power: tag::NVIDIA_TOTAL_GPU_POWER,
    idle_power: tag::NVIDIA_IDLE_GPU_POWER,
    tokens_per_joule: tag::NVIDIA_OUTPUT_TOKENS_PER_JOULE,
    per_output_token: tag::NVIDIA_ENERGY_PER_OUTPUT_TOKEN,
    per_total_token: tag::NVIDIA_ENERGY_PER_TOTAL_TOKEN,
    per_million_output_tokens: tag::NVIDIA_ENERGY_PER_MILLION_OUTPUT_TOKENS,
    per_million_tokens: tag::NVIDIA_ENERGY_PER_MILLION_TOKENS,
    per_request: tag::NVIDIA_ENERGY_PER_REQUEST,
    per_user: tag::NVIDIA_ENERGY_PER_USER,
    delay_product: tag::NVIDIA_ENERGY_DELAY_PRODUCT,
    requests_per_watt: tag::NVIDIA_PERFORMANCE_PER_WATT,
    output_per_watt: tag::NVIDIA_OUTPUT_TPS_PER_WATT,
    goodput_per_watt: tag::NVIDIA_GOODPUT_PER_WATT,
});

pub(super) static AMD_ROWS: &[Metric] = &rows(&Tags {
    vendor: Vendor::Amd,
    group: ConsoleGroup::GpuPowerEfficiencyAmd,
    first: 800,
    total_energy: tag::AMD_TOTAL_GPU_ENERGY,
    energy_error: tag::AMD_GPU_ENERGY_ERROR,
    energy_above_idle: tag::AMD_GPU_ENERGY_ABOVE_IDLE,
    average_power: tag::AMD_AVERAGE_GPU_POWER,
    total_power: tag::AMD_TOTAL_GPU_POWER,
    idle_power: tag::AMD_IDLE_GPU_POWER,
    tokens_per_joule: tag::AMD_OUTPUT_TOKENS_PER_JOULE,
    per_output_token: tag::AMD_ENERGY_PER_OUTPUT_TOKEN,
    per_total_token: tag::AMD_ENERGY_PER_TOTAL_TOKEN,
    per_million_output_tokens: tag::AMD_ENERGY_PER_MILLION_OUTPUT_TOKENS,
    per_million_tokens: tag::AMD_ENERGY_PER_MILLION_TOKENS,
    per_request: tag::AMD_ENERGY_PER_REQUEST,
    per_user: tag::AMD_ENERGY_PER_USER,
    delay_product: tag::AMD_ENERGY_DELAY_PRODUCT,
    requests_per_watt: tag::AMD_PERFORMANCE_PER_WATT,
    output_per_watt: tag::AMD_OUTPUT_TPS_PER_WATT,
    goodput_per_watt: tag::AMD_GOODPUT_PER_WATT,
});

/// Returns the rows of a vendor's metrics.
#[expect(clippy::too_many_lines, reason = "one table")]
const fn rows(tags: &Tags) -> [Metric; 17] {
    [
        row(tags, tags.total_energy, "Total GPU Energy", Unit::Joules, 30, joules).says(
            "Energy that the GPUs used from the start of the profiling phase to its end.",
            "Σ over GPUs: increase of the energy counter between the two times, or the integral of \
             power over time for a GPU without one. Absent if a GPU has neither.",
        ),
        row(tags, tags.energy_error, "GPU Energy Error", Unit::Joules, 31, |facts| {
            facts.fleet.energy.map(|energy| energy.error())
        })
        .says(
            "How far the energy may be from the true value, since it is sampled.",
            "Largest distance of the total energy from the lowest and the highest value that the \
             samples permit.",
        ),
        row(tags, tags.energy_above_idle, "GPU Energy Above Idle", Unit::Joules, 32, |facts| {
            let above = facts.joules()? - facts.fleet.idle_watts? * facts.fleet.seconds;
            // Less than idle by more than its error: one of the two is wrong.
            (above >= -facts.fleet.energy?.error()).then_some(above)
        })
        .says(
            "Energy beyond what the GPUs would have used without requests.",
            "Total energy − idle power × duration of the profiling phase. Absent if it is negative by \
             more than the error of the energy.",
        ),
        row(tags, tags.average_power, "Average GPU Power", Unit::Watts, 20, |facts| {
            facts.average_watts()
        })
        .says(
            "Power of all GPUs together, averaged over the profiling phase.",
            "Total energy / duration of the profiling phase, or else the total power.",
        ),
        row(tags, tags.total_power, "Total GPU Power", Unit::Watts, 40, |facts| {
            facts.fleet.power_watts
        })
        .says(
            "Power of all GPUs together, by its samples.",
            "Σ over GPUs: mean of the power samples in the profiling phase.",
        ),
        row(tags, tags.idle_power, "Idle GPU Power", Unit::Watts, 41, |facts| {
            facts.fleet.idle_watts
        })
        .says(
            "Power of all GPUs together before the first request.",
            "Σ over GPUs: mean of the power samples before the first phase.",
        ),
        row(
            tags,
            tags.per_total_token,
            "Energy per Total Token",
            Unit::MillijoulesPerToken,
            45,
            |facts| Some(1e3 * quotient(facts.joules()?, total_tokens(facts)?)?),
        )
        .says(
            "Energy per token, of inputs and outputs.",
            "1000 × total energy / (total_isl + total_osl).",
        ),
        row(
            tags,
            tags.per_output_token,
            "Energy per Output Token",
            Unit::MillijoulesPerToken,
            50,
            |facts| Some(1e3 * facts.joules_per(tag::TOTAL_OSL)?),
        )
        .flagged(Flag::PRODUCES_TOKENS_ONLY)
        .says("Energy per output token.", "1000 × total energy / total_osl."),
        row(
            tags,
            tags.per_million_tokens,
            "Energy per Million Tokens",
            Unit::JoulesPerMillionTokens,
            51,
            |facts| Some(MILLION * quotient(facts.joules()?, total_tokens(facts)?)?),
        )
        .says(
            "Energy per million tokens, of inputs and outputs.",
            "10⁶ × total energy / (total_isl + total_osl).",
        ),
        row(
            tags,
            tags.per_million_output_tokens,
            "Energy per Million Output Tokens",
            Unit::JoulesPerMillionTokens,
            52,
            |facts| Some(MILLION * facts.joules_per(tag::TOTAL_OSL)?),
        )
        .flagged(Flag::PRODUCES_TOKENS_ONLY)
        .says("Energy per million output tokens.", "10⁶ × total energy / total_osl."),
        row(tags, tags.per_request, "Energy per Request", Unit::JoulesPerRequest, 55, |facts| {
            facts.joules_per(tag::REQUEST_COUNT)
        })
        .says("Energy per successful request.", "Total energy / request_count."),
        row(
            tags,
            tags.tokens_per_joule,
            "Output Tokens per Joule",
            Unit::TokensPerJoule,
            60,
            |facts| quotient(facts.result(tag::TOTAL_OSL)?, facts.joules()?),
        )
        .flagged(Flag::PRODUCES_TOKENS_ONLY.union(Flag::LARGER_IS_BETTER))
        .says("Output tokens per joule.", "total_osl / total energy."),
        row(tags, tags.per_user, "Energy per User", Unit::JoulesPerUser, 65, |facts| {
            quotient(facts.joules()?, facts.concurrency()?)
        })
        .says(
            "Energy per concurrent request.",
            "Total energy / configured concurrency. Absent without a concurrency.",
        ),
        row(tags, tags.delay_product, "Energy Delay Product", Unit::JouleSeconds, 0, |facts| {
            let seconds = facts.result(tag::REQUEST_LATENCY)? / 1e3;
            Some(facts.joules_per(tag::REQUEST_COUNT)? * seconds)
        })
        .says(
            "Energy per request times its latency: low if requests are both cheap and fast.",
            "Total energy / request_count × mean request_latency in seconds.",
        ),
        row(
            tags,
            tags.requests_per_watt,
            "Performance per Watt",
            Unit::RequestsPerSecondPerWatt,
            10,
            |facts| facts.per_watt(tag::REQUEST_THROUGHPUT),
        )
        .flagged(Flag::LARGER_IS_BETTER)
        .says("Requests per second and watt.", "request_throughput / average power."),
        row(
            tags,
            tags.output_per_watt,
            "Output Tokens per Second per Watt",
            Unit::TokensPerSecondPerWatt,
            12,
            |facts| facts.per_watt(tag::OUTPUT_TOKEN_THROUGHPUT),
        )
        .flagged(Flag::PRODUCES_TOKENS_ONLY.union(Flag::LARGER_IS_BETTER))
        .says("Output tokens per second and watt.", "output_token_throughput / average power."),
        row(
            tags,
            tags.goodput_per_watt,
            "Goodput per Watt",
            Unit::GoodRequestsPerSecondPerWatt,
            14,
            |facts| facts.per_watt(tag::GOODPUT),
        )
        .flagged(Flag::LARGER_IS_BETTER)
        .says(
            "Good requests per second and watt. Only with `--goodput`.",
            "goodput / average power.",
        ),
    ]
}

/// Returns a row without its description.
const fn row(
    tags: &Tags,
    tag: MetricTag,
    header: &'static str,
    unit: Unit,
    place: u32,
    compute: fn(&GpuFacts<'_>) -> Option<f64>,
) -> Metric {
    Metric::of_gpus(tag, header, unit, tags.vendor, compute).at(tags.group, tags.first + place)
}

/// Returns the energy in joules.
fn joules(facts: &GpuFacts<'_>) -> Option<f64> {
    facts.joules()
}

/// Returns the number of tokens in the inputs and outputs of successful requests.
fn total_tokens(facts: &GpuFacts<'_>) -> Option<f64> {
    let (input, output) = (facts.result(tag::TOTAL_ISL), facts.result(tag::TOTAL_OSL));
    Some(input? + output.unwrap_or(0.0))
}
