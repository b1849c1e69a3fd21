//! The output of `aiperf list metrics`: the catalogue as a table and as JSON.

use std::fmt::Write as _;

use serde_json::{Value, json};

use base::semconv::{Conventions, MetricSpec, attribute};

use super::metric::{Metric, MetricFlags};
use super::registry::Registry;

/// Renders a table with one line per metric below a header.
#[must_use]
pub fn table() -> String {
    let lines: Vec<[String; 7]> =
        std::iter::once(TITLES.map(str::to_owned)).chain(lines()).collect();
    let widths: [usize; 7] = std::array::from_fn(|column| {
        lines.iter().map(|line| line[column].chars().count()).max().unwrap_or(0)
    });
    let mut text = String::new();
    for line in &lines {
        let mut padded = String::new();
        for (cell, width) in line.iter().zip(widths) {
            let _ = write!(padded, "{cell:width$}  ");
        }
        text.push_str(padded.trim_end());
        text.push('\n');
    }
    text
}

/// The columns of the table.
pub const TITLES: [&str; 7] =
    ["TAG", "KIND", "UNIT", "CONSOLE", "OPENTELEMETRY", "PROMETHEUS", "MEASURES"];

/// Returns the rows of the table, one for each metric.
pub fn lines() -> impl Iterator<Item = [String; 7]> {
    Registry::catalogue().iter().map(|metric| line(metric))
}

fn line(metric: &Metric) -> [String; 7] {
    let spec = metric.main_instrument().map(|instrument| instrument.spec);
    let instrument = spec.as_ref().map(|spec| format!("{} ({})", spec.kind.as_str(), spec.unit));
    let prometheus = spec.as_ref().map(MetricSpec::prometheus_name);
    [
        metric.tag.name().to_owned(),
        metric.kind.label().to_owned(),
        metric.display_unit.label().to_owned(),
        metric.group.as_str().to_owned(),
        instrument.unwrap_or_default(),
        prometheus.unwrap_or_default(),
        metric.brief.to_owned(),
    ]
}

/// Renders a JSON array with an object per metric: `tag`, `header`, `unit`,
/// `display_unit`, `kind`, `flags`, `console_group`, `requires`, `formula` and `otel`, which
/// is null for metrics that are not exported over OTLP.
#[must_use]
pub fn json() -> String {
    let metrics: Value = Registry::catalogue().iter().map(|metric| object(metric)).collect();
    format!("{metrics:#}\n")
}

fn object(metric: &Metric) -> Value {
    json!({
        "tag": metric.tag,
        "header": metric.header,
        "unit": metric.unit.label(),
        "display_unit": metric.display_unit.label(),
        "kind": metric.kind.label(),
        "flags": flag_names(metric.flags),
        "console_group": metric.group.as_str(),
        "requires": metric.requires,
        "formula": metric.formula,
        "otel": otel(metric),
    })
}

fn otel(metric: &Metric) -> Value {
    let Some(instrument) = metric.main_instrument() else { return Value::Null };
    let mut otel = json!({
        "name": instrument.spec.name,
        "instrument": instrument.spec.kind.as_str(),
        "unit": instrument.spec.unit,
        "boundaries": instrument.spec.boundaries,
        "prometheus_name": instrument.spec.prometheus_name(),
    });
    if let Some(stage) = instrument.stage {
        otel["attributes"] = json!({ attribute::AIPERF_STAGE: stage });
    }
    if let Some(percentiles) = metric.percentiles_instrument() {
        otel["percentiles_name"] = percentiles.spec.name.as_str().into();
        otel["percentiles_prometheus_name"] = percentiles.spec.prometheus_name().into();
    }
    if let Some(steady) = metric.steady_state_instrument() {
        otel["steady_state_name"] = steady.spec.name.as_str().into();
        otel["steady_state_prometheus_name"] = steady.spec.prometheus_name().into();
    }
    if let Some(definition) = metric.gen_ai() {
        otel["gen_ai_name"] = definition.name.into();
        otel["gen_ai_prometheus_name"] = MetricSpec::from(definition).prometheus_name().into();
    }
    if let Some(definition) = metric.gen_ai_of(Conventions::Latest) {
        otel["gen_ai_latest_name"] = definition.name.into();
        let name = MetricSpec::from(definition).prometheus_name();
        otel["gen_ai_latest_prometheus_name"] = name.into();
    }
    otel
}

/// Returns the names of the flags that are set in `flags`.
pub(super) fn flag_names(flags: MetricFlags) -> Vec<&'static str> {
    MetricFlags::all()
        .iter_names()
        .filter(|(_, flag)| flag.bits().is_power_of_two() && flags.contains(*flag))
        .map(|(name, _)| name)
        .collect()
}
