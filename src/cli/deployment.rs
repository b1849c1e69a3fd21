//! The flags of what serves the model and what that costs.

use clap::Args;

use measure::metrics::deployment::Deployment;

use super::value::{above_zero, positive};

/// What serves the model and what that costs.
#[derive(Args)]
#[command(next_help_heading = "Deployment")]
pub(super) struct DeploymentArgs {
    /// Number of GPUs that serve the model, to report throughput per GPU [default: the GPUs that
    /// exporters report]
    #[arg(long, value_name = "COUNT", value_parser = positive)]
    pub(super) gpus: Option<u64>,
    /// Price of one GPU for an hour, in any currency, to report the cost of tokens and requests
    #[arg(long, value_name = "PRICE", value_parser = above_zero)]
    pub(super) gpu_hour_price: Option<f64>,
    /// Price of a kilowatt-hour, in the same currency, to add the energy that exporters of GPUs
    /// report to the cost
    #[arg(long, value_name = "PRICE", value_parser = above_zero)]
    pub(super) power_price: Option<f64>,
}

impl DeploymentArgs {
    pub(super) const fn config(&self) -> Deployment {
        let &Self { gpus, gpu_hour_price, power_price } = self;
        Deployment { gpus, gpu_hour_price, power_price }
    }
}
