//! The metric catalogue, with one row per metric, and the statistics over metric values.
//!
//! A record metric has a value for each request, an aggregate metric folds over requests, and
//! a derived metric is computed from other results. Console, JSON, CSV, Parquet,
//! documentation and OpenTelemetry are all generated from the rows.
//!
//! [`Measurer`] computes the values of a finished request; the [`Accumulator`] of its phase
//! collects them and computes the results.

pub(crate) mod accumulate;
pub mod agent;
pub mod breakdown;
pub mod catalogue;
pub mod deployment;
mod error;
pub mod fields;
pub mod finish_reason;
pub mod gpu;
pub mod health;
mod histogram;
pub mod limit;
pub mod listing;
pub mod live;
pub mod measure;
pub mod metric;
pub mod name_counts;
pub mod objective;
pub mod otel;
pub mod output;
pub mod prefix_cache;
pub mod reference;
pub mod registry;
pub mod session;
pub mod silence;
pub mod slices;
pub mod steady;
pub mod tag;
pub(crate) mod time_bins;
pub mod time_breakdown;
pub mod timeline;

pub mod fixture;

pub use accumulate::{Accumulator, Extent, LongRun, PhaseTotals, RowTotals};
pub use agent::{AgentCall, AgentTotals};
pub use error::MetricsError;
pub use health::{ClientHealth, Health, LoadReport, Verdict};
pub use measure::{CountChat, CountTokens, Measurer};
pub use metric::{ConsoleGroup, Metric, MetricFlags, ValueType};
pub use objective::parse_objectives;
pub use registry::Registry;
pub use slices::Slices;
pub use steady::SteadyState;
pub use tag::MetricTag;
