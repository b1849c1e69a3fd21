//! Throughput for each GPU, and costs.

use base::units::Unit;

use super::gpu::MILLION;
use crate::metrics::ConsoleGroup;
use crate::metrics::deployment::DeploymentFacts;
use crate::metrics::gpu::quotient;
use crate::metrics::metric::{Metric, MetricFlags as Flag};
use crate::metrics::tag::{self, MetricTag};

pub(super) const ABOUT: &str = "What each GPU achieves and what it costs ([throughput per \
                                GPU](server-metrics.md#throughput-per-gpu-and-cost)). The number \
                                of GPUs is that of `--gpus`, or else of the exporters. Costs are \
                                in the currency of `--gpu-hour-price` and `--power-price`, and \
                                absent without them. A cost per input or output token is the whole \
                                cost divided by these tokens alone.";

pub(super) static ROWS: &[Metric] = &[
    row(tag::GPU_COUNT, "GPU Count", Unit::Count, 10, gpus)
        .says("Number of GPUs that serve the model.", "`--gpus`, or the GPUs of all exporters."),
    row(
        tag::OUTPUT_TOKEN_THROUGHPUT_PER_GPU,
        "Output Token Throughput Per GPU",
        Unit::TokensPerSecondPerGpu,
        20,
        |facts| facts.per_gpu(tag::OUTPUT_TOKEN_THROUGHPUT),
    )
    .flagged(Flag::PRODUCES_TOKENS_ONLY.union(Flag::LARGER_IS_BETTER))
    .says("Output tokens per second and GPU.", "output_token_throughput / gpu_count."),
    row(
        tag::TOTAL_TOKEN_THROUGHPUT_PER_GPU,
        "Total Token Throughput Per GPU",
        Unit::TokensPerSecondPerGpu,
        30,
        |facts| facts.per_gpu(tag::TOTAL_TOKEN_THROUGHPUT),
    )
    .flagged(Flag::PRODUCES_TOKENS_ONLY.union(Flag::LARGER_IS_BETTER))
    .says(
        "Tokens of inputs and outputs per second and GPU.",
        "total_token_throughput / gpu_count.",
    ),
    row(
        tag::REQUEST_THROUGHPUT_PER_GPU,
        "Request Throughput Per GPU",
        Unit::RequestsPerSecondPerGpu,
        40,
        |facts| facts.per_gpu(tag::REQUEST_THROUGHPUT),
    )
    .flagged(Flag::LARGER_IS_BETTER)
    .says("Requests per second and GPU.", "request_throughput / gpu_count."),
    row(tag::USERS_PER_GPU, "Users Per GPU", Unit::UsersPerGpu, 50, users_per_gpu).says(
        "Concurrent requests per GPU.",
        "Configured concurrency / gpu_count. Absent without a concurrency.",
    ),
    row(
        tag::COST_PER_MILLION_INPUT_TOKENS,
        "Cost Per Million Input Tokens",
        Unit::PricePerMillionTokens,
        60,
        |facts| Some(MILLION * facts.cost_per(tag::TOTAL_ISL)?),
    )
    .says("Whole cost per million input tokens.", "10⁶ × cost / total_isl."),
    row(
        tag::COST_PER_MILLION_OUTPUT_TOKENS,
        "Cost Per Million Output Tokens",
        Unit::PricePerMillionTokens,
        70,
        |facts| Some(MILLION * facts.cost_per(tag::TOTAL_OSL)?),
    )
    .flagged(Flag::PRODUCES_TOKENS_ONLY)
    .says("Whole cost per million output tokens.", "10⁶ × cost / total_osl."),
    row(
        tag::COST_PER_MILLION_TOKENS,
        "Cost Per Million Tokens",
        Unit::PricePerMillionTokens,
        80,
        |facts| {
            let output = facts.result(tag::TOTAL_OSL).unwrap_or(0.0);
            Some(MILLION * quotient(facts.cost()?, facts.result(tag::TOTAL_ISL)? + output)?)
        },
    )
    .says(
        "Cost per million tokens of inputs and outputs.",
        "10⁶ × cost / (total_isl + total_osl).",
    ),
    row(tag::COST_PER_REQUEST, "Cost Per Request", Unit::PricePerRequest, 90, |facts| {
        facts.cost_per(tag::REQUEST_COUNT)
    })
    .says(
        "Cost per successful request.",
        "cost / request_count, where cost = benchmark_duration in hours × (gpu_count × \
         `--gpu-hour-price` + average power of all GPUs in kW × `--power-price`).",
    ),
];

/// Returns a row without its description.
const fn row(
    tag: MetricTag,
    header: &'static str,
    unit: Unit,
    place: u32,
    compute: fn(&DeploymentFacts<'_>) -> Option<f64>,
) -> Metric {
    Metric::of_deployment(tag, header, unit, compute).at(ConsoleGroup::Deployment, 600 + place)
}

/// Returns the number of GPUs.
fn gpus(facts: &DeploymentFacts<'_>) -> Option<f64> {
    facts.gpus()
}

/// Returns the configured concurrency divided by the number of GPUs.
fn users_per_gpu(facts: &DeploymentFacts<'_>) -> Option<f64> {
    facts.users_per_gpu()
}
