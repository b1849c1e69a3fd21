//! GenAI, timing and client names, units, kinds, boundaries and attributes.
//!
//! The registry in `semconv/` is written by hand; [`attribute`], [`span`], [`event`] and
//! [`metric`] are generated from it, so that no other code spells a name.

#[rustfmt::skip]
#[expect(clippy::unreadable_literal, reason = "numbers as the generator writes them")]
mod generated;
mod prometheus;
#[cfg(test)]
mod tests;

use crate::setting::named;

pub use generated::{attribute, event, metric, span};
pub use prometheus::{prometheus_label, prometheus_name};

/// The conventions that names and boundaries are taken from.
pub const SCHEMA_URL: &str = "https://opentelemetry.io/schemas/1.41.1";

/// The newest GenAI conventions, which have left the others.
pub const LATEST_GEN_AI_SCHEMA_URL: &str = "https://opentelemetry.io/schemas/gen-ai-dev/1.42.0-dev";

/// The newest of the other conventions.
const LATEST_SCHEMA_URL: &str = "https://opentelemetry.io/schemas/1.44.0";

/// The versions of the GenAI conventions whose names are exported (`--otel-semconv`).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Conventions {
    /// 1.41.1, as OpenTelemetry's own instrumentations export them.
    #[default]
    V1_41,
    /// The newest.
    Latest,
    /// Both, side by side.
    Both,
}

named! { Conventions { "1.41" => V1_41, "latest" => Latest, "both" => Both } }

impl Conventions {
    /// Returns whether everything of `other` is exported.
    pub fn include(self, other: Self) -> bool {
        self == Self::Both || self == other
    }

    /// Returns the schema URL of a scope with the names of all conventions.
    pub const fn scope_schema_url(self) -> &'static str {
        match self {
            Self::Latest => LATEST_GEN_AI_SCHEMA_URL,
            Self::V1_41 | Self::Both => SCHEMA_URL,
        }
    }

    /// Returns the schema URL of the resource, which does not have names of the GenAI conventions.
    pub const fn resource_schema_url(self) -> &'static str {
        match self {
            Self::Latest => LATEST_SCHEMA_URL,
            Self::V1_41 | Self::Both => SCHEMA_URL,
        }
    }
}

/// The kind of an OpenTelemetry instrument.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum InstrumentKind {
    /// Distribution of values.
    Histogram,
    /// Monotonic sum.
    Counter,
    /// Sum that can fall.
    UpDownCounter,
    /// Last value.
    Gauge,
}

impl InstrumentKind {
    /// As the registry's YAML writes it.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Histogram => "histogram",
            Self::Counter => "counter",
            Self::UpDownCounter => "updowncounter",
            Self::Gauge => "gauge",
        }
    }
}

/// An instrument: what a metric is in OpenTelemetry.
#[derive(Debug, Clone, PartialEq)]
pub struct MetricSpec {
    /// As in `gen_ai.client.operation.duration`.
    pub name: String,
    /// Its kind.
    pub kind: InstrumentKind,
    /// UCUM unit.
    pub unit: &'static str,
    /// What it measures.
    pub brief: &'static str,
    /// Upper bounds of a histogram's buckets, without +Inf; empty otherwise.
    pub boundaries: Vec<f64>,
}

impl MetricSpec {
    /// What Prometheus calls it: see [`prometheus_name`].
    #[must_use]
    pub fn prometheus_name(&self) -> String {
        prometheus_name(&self.name, self.unit, self.kind)
    }
}

/// A metric of the registry: a [`MetricSpec`] known when the program is built.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Definition {
    /// As in `gen_ai.client.operation.duration`.
    pub name: &'static str,
    /// Its kind.
    pub kind: InstrumentKind,
    /// UCUM unit.
    pub unit: &'static str,
    /// What it measures.
    pub brief: &'static str,
    /// Upper bounds of a histogram's buckets, without +Inf; empty otherwise.
    pub boundaries: &'static [f64],
}

impl From<&Definition> for MetricSpec {
    fn from(definition: &Definition) -> Self {
        Self {
            name: definition.name.to_owned(),
            kind: definition.kind,
            unit: definition.unit,
            brief: definition.brief,
            boundaries: definition.boundaries.to_vec(),
        }
    }
}
