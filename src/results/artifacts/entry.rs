//! The statistics of a metric as the JSON files contain them.

use serde::{Serialize, Serializer};
use serde_json::Value;

use base::statistics::Percentiles;
use measure::metrics::metric::{MetricResult, Stats};

use crate::run::RunReport;

/// Returns the results that are visible to users.
pub(super) fn exported<'a>(
    report: &RunReport,
    results: &'a [MetricResult],
) -> impl Iterator<Item = &'a MetricResult> {
    let developer_mode = report.run.settings.developer_mode;
    results.iter().filter(move |result| result.metric.is_exported(developer_mode))
}

/// The statistics of one metric. Values that are not finite are absent, since JSON cannot represent
/// them.
#[derive(Debug, Default, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub(super) struct Entry<'a> {
    pub(super) unit: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) avg: Option<Average>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) p1: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) p5: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) p10: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) p25: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) p50: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) p75: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) p90: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) p95: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) p99: Option<f64>,
    #[serde(flatten)]
    pub(super) further: Further,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) min: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) max: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) std: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) count: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) sum: Option<f64>,
}

/// The percentiles that only some runs have (`--percentiles`), by names such as `p99.9`.
#[derive(Debug, Default)]
pub(super) struct Further(Percentiles);

impl Serialize for Further {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let finite = self.0.iter().filter(|(_, value)| value.is_finite());
        serializer.collect_map(finite.map(|(percent, value)| (format!("p{percent}"), value)))
    }
}

#[cfg(test)]
impl schemars::JsonSchema for Further {
    fn schema_name() -> std::borrow::Cow<'static, str> {
        "Further".into()
    }

    fn json_schema(_: &mut schemars::SchemaGenerator) -> schemars::Schema {
        schemars::json_schema!({
            "type": "object",
            "patternProperties": {
                r"^p[0-9]{1,2}(\.[0-9]{1,4})?$": {
                    "description": "A percentile of --percentiles.",
                    "type": "number",
                },
            },
        })
    }
}

/// Returns the statistics of a metric as in the summary, with its title as `header`.
pub(crate) fn with_header(result: &MetricResult) -> Value {
    let mut entry = serde_json::to_value(Entry::from_result(result)).unwrap_or_default();
    if let Some(members) = entry.as_object_mut() {
        members.insert("header".to_owned(), result.metric.header.into());
    }
    entry
}

/// A mean, or a single value.
#[derive(Debug, Clone, Copy, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(untagged)]
pub(super) enum Average {
    Instant(u64),
    Number(f64),
}

impl Entry<'_> {
    pub(super) fn from_result(result: &MetricResult) -> Self {
        let finite = |value: f64| Some(value).filter(|value| value.is_finite());
        let Stats { avg, instant, distribution } = result.stats;
        let avg = instant.map(Average::Instant).or(finite(avg).map(Average::Number));
        let unit = result.metric.display_unit.label();
        let Some(d) = distribution else {
            return Self { unit, avg, ..Self::default() };
        };
        Self {
            unit,
            avg,
            p1: finite(d.p1),
            p5: finite(d.p5),
            p10: finite(d.p10),
            p25: finite(d.p25),
            p50: finite(d.p50),
            p75: finite(d.p75),
            p90: finite(d.p90),
            p95: finite(d.p95),
            p99: finite(d.p99),
            further: Further(d.further),
            min: finite(d.min),
            max: finite(d.max),
            std: finite(d.std),
            count: Some(d.count).filter(|count| *count > 0),
            sum: finite(d.sum),
        }
    }
}
