//! The metric catalogue, with one row per metric, and the statistics over metric values.
//!
//! A record metric has a value for each request, an aggregate metric folds over requests, and
//! a derived metric is computed from other results. Console, JSON, CSV, Parquet,
//! documentation and OpenTelemetry are all generated from the rows.
//!
//! [`Measurer`] computes the values of a finished request; the [`Accumulator`] of its phase
//! collects them and computes the results.

pub(crate) mod accumulate;
pub(crate) mod accuracy;
pub(crate) mod agent;
pub mod breakdown;
pub(crate) mod catalogue;
pub mod deployment;
mod error;
pub(crate) mod fields;
pub mod finish_reason;
pub mod gpu;
pub mod health;
mod histogram;
pub mod limit;
pub mod listing;
pub(crate) mod live;
pub(crate) mod measure;
pub mod metric;
pub mod name_counts;
pub(crate) mod objective;
pub(crate) mod otel;
pub(crate) mod prefix_cache;
pub mod reference;
pub(crate) mod registry;
pub(crate) mod session;
pub mod silence;
pub(crate) mod slices;
pub mod steady;
pub mod tag;
pub(crate) mod time_bins;
pub(crate) mod time_breakdown;
pub(crate) mod timeline;

#[cfg(test)]
pub(crate) mod fixture;

pub use accumulate::{Accumulator, LongRun};
pub(crate) use accumulate::{Extent, PhaseTotals, RowTotals};
pub use agent::{AgentCall, AgentTotals};
pub use error::MetricsError;
pub(crate) use health::Verdict;
pub use health::{ClientHealth, Health, LoadReport};
pub(crate) use measure::CountChat;
pub use measure::{CountTokens, Measurer};
pub(crate) use metric::ValueType;
pub use metric::{ConsoleGroup, Metric, MetricFlags};
pub use objective::parse_objectives;
pub use registry::Registry;
pub(crate) use slices::Slices;
pub use steady::SteadyState;
pub(crate) use tag::MetricTag;
