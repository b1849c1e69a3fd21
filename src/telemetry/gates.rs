//! `aiperf.gate.*`: the results of gates as gauges.

use opentelemetry::KeyValue;
use opentelemetry::metrics::{Gauge, Meter};

use base::semconv::{Definition, attribute, metric};
use client::schedule::PhaseKind;

use super::attributes::PhaseAttributes;

/// A gate, and how the run compares with it.
#[derive(Debug, Clone)]
pub struct GateResult<'a> {
    /// The gate as the user wrote it.
    pub expression: &'a str,
    /// What it limits, without the statistic.
    pub metric: String,
    /// The statistic; `None` for a verdict.
    pub statistic: Option<String>,
    /// Whether it held; `None` if the run does not have what it limits.
    pub held: Option<bool>,
    /// The value, in `unit`, if it is a number.
    pub value: Option<f64>,
    /// The limit, in `unit`, if it is a number.
    pub limit: Option<f64>,
    /// Empty without one.
    pub unit: &'a str,
}

/// The instruments.
#[derive(Debug)]
pub(super) struct Gates {
    attributes: PhaseAttributes,
    value: Gauge<f64>,
    limit: Gauge<f64>,
    passed: Gauge<f64>,
}

impl Gates {
    pub(super) fn new(meter: &Meter, attributes: PhaseAttributes) -> Self {
        let gauge = |of: Definition| {
            meter.f64_gauge(of.name).with_unit(of.unit).with_description(of.brief).build()
        };
        Self {
            attributes,
            value: gauge(metric::AIPERF_GATE_VALUE),
            limit: gauge(metric::AIPERF_GATE_LIMIT),
            passed: gauge(metric::AIPERF_GATE_PASSED),
        }
    }

    /// Records the result of a gate.
    pub(super) fn record(&self, gate: &GateResult<'_>) {
        let mut attributes = self.attributes.for_kind(PhaseKind::Profiling);
        attributes.extend([
            KeyValue::new(attribute::AIPERF_GATE_EXPRESSION, gate.expression.to_owned()),
            KeyValue::new(attribute::AIPERF_GATE_METRIC, gate.metric.clone()),
        ]);
        let unit = Some(gate.unit).filter(|unit| !unit.is_empty());
        for (key, text) in [
            (attribute::AIPERF_GATE_STATISTIC, gate.statistic.as_deref()),
            (attribute::AIPERF_GATE_UNIT, unit),
        ] {
            attributes.extend(text.map(|text| KeyValue::new(key, text.to_owned())));
        }
        let passed = f64::from(u8::from(gate.held == Some(true)));
        for (gauge, value) in
            [(&self.value, gate.value), (&self.limit, gate.limit), (&self.passed, Some(passed))]
        {
            if let Some(value) = value.filter(|value| value.is_finite()) {
                gauge.record(value, &attributes);
            }
        }
    }
}
