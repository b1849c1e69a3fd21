//! The metric reference (`docs/metrics.md`) and the registry's entries
//! (`semconv/aiperf-metrics.yaml`), written from the rows.

use std::fmt::Write as _;

use super::catalogue::{FAMILIES, Family};
use super::listing::flag_names;
use super::metric::Metric;
use super::otel::Instrument;
use crate::semconv::{self, InstrumentKind, MetricSpec};

/// How both files are written anew.
pub const REGENERATE: &str = "UPDATE=1 cargo test --test integration metrics";

/// The metric reference.
#[must_use]
pub fn markdown() -> String {
    let mut text = format!(
        "# Metric reference\n\n\
         <!-- Written from the catalogue in `src/metrics/catalogue/`. To write it anew:\n     \
         {REGENERATE} -->\n\n\
         A record metric gives a value for each request, an aggregate folds over requests, a \
         derived metric is computed from other results. Record metrics are reported as `avg`, \
         `min`, `max`, `std` (of the population), `sum`, `count` and the percentiles 1, 5, 10, 25, \
         50, 75, 90, 95 and 99 (linear interpolation), the others as one value in `avg`. A value \
         that does not exist is left out; it is never 0.\n\n\
         A request that failed or was cancelled has the metrics flagged `ERROR_ONLY` alone, any \
         other request the rest. Metrics flagged `INTERNAL` are written in developer mode only.\n"
    );
    for family in FAMILIES {
        family_section(&mut text, family);
    }
    text
}

fn family_section(text: &mut String, family: &Family) {
    let _ = write!(text, "\n## {}\n\n{}\n", family.title, family.about);
    for metric in family.rows {
        let _ = write!(
            text,
            "\n### `{}`\n\n{} ({}). {}\n\n- Kind: {}\n- Unit: {}\n- Formula: {}\n",
            metric.tag,
            metric.header,
            metric.short_header,
            metric.brief,
            metric.kind.label(),
            unit(metric),
            metric.formula,
        );
        bullet(text, "Requires", metric.requires);
        bullet(text, "Flags", &flag_names(metric.flags));
        let _ = writeln!(text, "- Console: {}", metric.group.as_str());
        let _ = writeln!(text, "- OpenTelemetry: {}", in_otel(metric));
        if metric.instrument().is_some() {
            let _ = writeln!(text, "- Prometheus: {}", in_prometheus(metric));
        }
    }
}

fn bullet(text: &mut String, title: &str, names: &[&str]) {
    if !names.is_empty() {
        let names: Vec<String> = names.iter().map(|name| format!("`{name}`")).collect();
        let _ = writeln!(text, "- {title}: {}", names.join(", "));
    }
}

fn unit(metric: &Metric) -> String {
    if metric.unit == metric.display_unit {
        metric.unit.label().to_owned()
    } else {
        format!("{}, shown in {}", metric.unit, metric.display_unit)
    }
}

fn in_otel(metric: &Metric) -> String {
    let Some(Instrument { spec, .. }) = metric.instrument() else { return "none".to_owned() };
    let own = format!("{} `{}` in `{}`", spec.kind.as_str(), spec.name, spec.unit);
    metric.gen_ai().map_or_else(|| own.clone(), |gen_ai| format!("{own}, and `{}`", gen_ai.name))
}

/// The metric's names in Prometheus, of the conventions' instrument too.
fn in_prometheus(metric: &Metric) -> String {
    let specs = metric.instrument().map(|instrument| instrument.spec);
    let specs = specs.into_iter().chain(metric.gen_ai().map(MetricSpec::from));
    let names: Vec<String> = specs.map(|spec| format!("`{}`", spec.prometheus_name())).collect();
    names.join(", and ")
}

/// Every metric that goes out over OTLP, and what Prometheus calls it
/// (`docs/otlp-metrics.md`).
#[must_use]
pub fn otlp_table() -> String {
    let catalogue = FAMILIES.iter().flat_map(|family| family.rows);
    let instruments: Vec<Instrument> = catalogue
        .flat_map(|metric| [metric.instrument(), metric.percentiles_instrument()])
        .flatten()
        .collect();
    let specs: Vec<MetricSpec> = (semconv::metric::ALL.into_iter().map(MetricSpec::from))
        .chain(instruments.into_iter().map(|instrument| instrument.spec))
        .collect();
    let mut text = format!(
        "# Metrics over OTLP and in Prometheus\n\n\
         <!-- Written from the catalogue in `src/metrics/catalogue/` and `semconv/`. To write it \
         anew:\n     {REGENERATE} -->\n\n{OTLP_TABLE}"
    );
    for (kind, title) in KINDS {
        let _ = write!(text, "\n## {title}\n\n");
        text.push_str("| OpenTelemetry | Unit | Prometheus | Labels |\n|---|---|---|---|\n");
        for spec in specs.iter().filter(|spec| spec.kind == kind) {
            let (name, unit, labels) = (&spec.name, spec.unit, labels(spec));
            let prometheus = spec.prometheus_name();
            let _ = writeln!(text, "| `{name}` | `{unit}` | `{prometheus}` | {labels} |");
        }
    }
    text
}

/// What stands above the tables.
const OTLP_TABLE: &str = "\
What each metric measures is in the [metric reference](metrics.md); the way to Prometheus is in \
the [OTLP guide](otlp.md).\n\n\
Labels:\n\n\
- *request*: `gen_ai_operation_name`, `gen_ai_provider_name`, `gen_ai_request_model`, \
`aiperf_benchmark_phase`; where known `gen_ai_response_model`, `server_address`, `server_port`; \
of requests that failed `error_type`\n\
- *phase*: `gen_ai_operation_name`, `gen_ai_provider_name`, `gen_ai_request_model`, \
`aiperf_benchmark_phase`\n";

/// The tables, in their order.
const KINDS: [(InstrumentKind, &str); 4] = [
    (InstrumentKind::Histogram, "Histograms (series `_bucket`, `_sum` and `_count`)"),
    (InstrumentKind::Counter, "Counters"),
    (InstrumentKind::UpDownCounter, "Sums that can fall (gauges in Prometheus)"),
    (InstrumentKind::Gauge, "Gauges"),
];

/// What tells the metric's series apart.
fn labels(spec: &MetricSpec) -> &'static str {
    let of_requests = matches!(spec.kind, InstrumentKind::Histogram)
        || spec.kind == InstrumentKind::Counter && !spec.name.starts_with("aiperf.timing.");
    match spec.name.as_str() {
        "gen_ai.client.token.usage" => "request, `gen_ai_token_type`",
        "aiperf.client.queue.spilled" | "aiperf.client.traces.lost" => "phase",
        name if name.starts_with("aiperf.percentiles.") => "phase, `aiperf_percentile`",
        _ if of_requests => "request",
        _ => "phase",
    }
}

/// The registry's entries for the `aiperf.<tag>` instruments, in weaver's
/// definition format, version 2.
#[must_use]
pub fn semconv_yaml() -> String {
    let mut text = format!(
        "# DO NOT EDIT: written from the catalogue in src/metrics/catalogue/.\n\
         # To write it anew: {REGENERATE}\n\
         file_format: definition/2\nmetrics:\n"
    );
    for metric in FAMILIES.iter().flat_map(|family| family.rows) {
        if let Some(instrument) = metric.instrument() {
            metric_entry(&mut text, &instrument.spec);
        }
        if let Some(instrument) = metric.percentiles_instrument() {
            metric_entry(&mut text, &instrument.spec);
            text.push_str(PERCENTILE);
        }
    }
    text
}

/// What `aiperf.percentiles.<tag>` instruments bear beside the phase's attributes.
const PERCENTILE: &str = "      - ref: aiperf.percentile\n        requirement_level: required\n";

/// The groups of attributes are in `semconv/gen-ai.yaml`: results are of a
/// phase, all else is of a request.
fn metric_entry(text: &mut String, spec: &MetricSpec) {
    let _ = write!(
        text,
        "  - name: {}\n    brief: {}\n    instrument: {}\n    unit: {}\n    stability: development\n",
        spec.name,
        quoted(spec.brief),
        spec.kind.as_str(),
        quoted(spec.unit),
    );
    if !spec.boundaries.is_empty() {
        let bounds: Vec<String> = spec.boundaries.iter().map(f64::to_string).collect();
        let bounds = bounds.join(", ");
        let _ = write!(text, "    annotations:\n      aiperf:\n        boundaries: [{bounds}]\n");
    }
    let of = if spec.kind == InstrumentKind::Gauge { "phase" } else { "request" };
    let _ = write!(text, "    attributes:\n      - ref_group: aiperf.{of}.attributes\n");
}

/// `text` as a double-quoted scalar: JSON's strings are YAML's too.
fn quoted(text: &str) -> String {
    serde_json::Value::from(text).to_string()
}
