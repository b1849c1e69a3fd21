//! GenAI, timing and client names, units, kinds, boundaries and attributes.

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
