//! The catalogue: one row a metric, and the statistics over their values.
//!
//! A record metric gives a value for each request, an aggregate folds over
//! requests, a derived metric is computed from other results. The row is the
//! source: console, JSON, CSV, Parquet, documentation and OpenTelemetry all
//! read it.

pub mod metric;
pub mod otel;

pub use metric::{ConsoleGroup, Metric, MetricFlags, MetricTag, ValueType};
