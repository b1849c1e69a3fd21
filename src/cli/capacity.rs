//! The flags of `aiperf capacity`.

use std::path::PathBuf;

use clap::Args;

use super::multi_run::level;
use super::value::{above_zero, positive, seconds};
use crate::multi_run::Filter;

/// What to predict from the loads of a sweep or a search.
#[derive(Debug, Args)]
pub struct Capacity {
    /// Artifact directory of a sweep over loads, or of a search, with at least four loads
    #[arg(value_name = "DIR", required = true)]
    pub(crate) directory: PathBuf,
    /// Predict the results at this number of requests per second
    #[arg(long, value_name = "RATE", value_parser = above_zero, conflicts_with = "users")]
    pub(crate) rate: Option<f64>,
    /// Predict the results with this number of users, and how many replicas they need
    #[arg(long, value_name = "COUNT", value_parser = positive)]
    pub(crate) users: Option<u64>,
    /// Time that a user thinks after each response, in seconds [default: 0]
    #[arg(long, value_name = "SECONDS", value_parser = seconds)]
    pub(crate) think_time: Option<f64>,
    /// Condition that a replica must meet, as for --search-sla; finds the most users that it can have.
    /// Can be repeated
    #[arg(long = "objective", value_name = "CONDITION", value_parser = Filter::parse)]
    pub(crate) objectives: Vec<Filter>,
    /// Artifact directory of a run with the load that --rate or --users predicts: compares it with the
    /// prediction, and ends with exit code 3 if the prediction did not come true
    #[arg(long, value_name = "DIR")]
    pub(crate) confirm: Option<PathBuf>,
    /// Confidence level of the intervals, between 0 and 1
    #[arg(long, value_name = "LEVEL", value_parser = level, default_value = "0.95")]
    pub(crate) confidence_level: f64,
}
