//! Generates the metric reference (`docs/metrics.md`) and the registry's entries
//! (`semconv/aiperf-metrics.yaml`) from the catalogue.

use std::fmt::{self, Write as _};

use base::semconv::{self, Conventions, InstrumentKind, MetricSpec};

use super::catalogue::{FAMILIES, Family};
use super::listing::flag_names;
use super::metric::{Metric, MetricFlags};
use super::otel::Instrument;

/// The command that regenerates the files.
pub const REGENERATE: &str = "UPDATE=1 cargo test --test integration metrics";

/// Renders the metric reference.
#[must_use]
pub fn markdown() -> String {
    let mut text = format!(
        "# Metric reference\n\n<!-- Generated from the catalogue in `src/measure/metrics/catalogue/`. To \
         regenerate:\n     {REGENERATE} -->\n\n`aiperf explain METRIC` has the same of one \
         metric, and [OTLP](otlp-metrics.md) the names in OpenTelemetry and Prometheus.\n\nA record \
         metric has a value for each request, an aggregate metric folds over requests, and a \
         derived metric is computed from other results. Record metrics are reported as `avg`, `min`, `max`, `std` (of the population), \
         `sum`, `count` and the percentiles 1, 5, 10, 25, 50, 75, 90, 95 and 99 (linear \
         interpolation); most others have a single value, in `avg`. Metrics [over \
         time](#over-time) and [`adj_*`](#errors) have the statistics described in their sections. \
         A value that does not exist is absent; it is never 0.\n\nA request that failed or was \
         cancelled has only the metrics flagged `ERROR_ONLY`; any other request has the rest. \
         Metrics flagged `INTERNAL` or `EXPERIMENTAL` are written only in developer mode \
         (`AIPERF_DEV_MODE=true`).\n"
    );
    let before = std::iter::once(None).chain(FAMILIES.iter().map(Some));
    for (family, before) in FAMILIES.iter().zip(before) {
        family_section(&mut text, family, before);
    }
    text
}

/// Writes the section of a family, which is short if the family `before` has the same metrics of
/// another vendor.
fn family_section(text: &mut String, family: &Family, before: Option<&Family>) {
    if let Some(same) = before.filter(|before| before.about == family.about) {
        let [own, other] = [family, same].map(vendor);
        let _ = write!(
            text,
            "\n## {}\n\nThose of [{}](#{}), with `{own}` in the place of `{other}`.\n",
            family.title,
            same.title,
            same.title.to_lowercase().replace(' ', "-"),
        );
        return;
    }
    let _ = write!(
        text,
        "\n## {}\n\n{}\n\n| metric | what it is | kind, unit | formula |\n|---|---|---|---|\n",
        family.title, family.about
    );
    for metric in family.rows {
        let told = MetricFlags::ERROR_ONLY
            .union(MetricFlags::INTERNAL)
            .union(MetricFlags::EXPERIMENTAL)
            .intersection(metric.flags);
        let flags = flag_names(told);
        let flags = flags.iter().fold(String::new(), |all, name| all + ", `" + name + "`");
        let _ = writeln!(
            text,
            "| `{}` | {}. {} | {}, {}{flags} | {} |",
            metric.tag,
            metric.header,
            metric.brief,
            metric.kind.label(),
            metric.display_unit.label(),
            metric.formula.replace('|', "\\|"),
        );
    }
}

/// Returns the word with which the names of a family's metrics begin.
fn vendor(family: &Family) -> String {
    let name = family.rows.first().map(|metric| metric.tag.to_string()).unwrap_or_default();
    name.split('_').next().unwrap_or_default().to_owned()
}

/// Renders the entry of a metric, without its heading.
pub fn entry(metric: &Metric) -> String {
    let mut text = format!(
        "{} ({}). {}\n\n- Kind: {}\n- Unit: {}\n- Formula: {}\n",
        metric.header,
        metric.short_header,
        metric.brief,
        metric.kind.label(),
        unit(metric),
        metric.formula,
    );
    bullet(&mut text, "Requires", metric.requires);
    bullet(&mut text, "Flags", &flag_names(metric.flags));
    let _ = writeln!(text, "- Console: {}", metric.group.as_str());
    let _ = writeln!(text, "- OpenTelemetry: {}", in_otel(metric));
    if metric.main_instrument().is_some() {
        let _ = writeln!(text, "- Prometheus: {}", in_prometheus(metric));
    }
    text
}

fn bullet(text: &mut String, title: &str, names: &[impl fmt::Display]) {
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
    let Some(Instrument { spec, stage, .. }) = metric.main_instrument() else {
        return "none".to_owned();
    };
    let own = format!("{} `{}` in `{}`", spec.kind.as_str(), spec.name, spec.unit);
    let stage = stage.map(|stage| format!(", where `aiperf.stage` is `{stage}`"));
    let known = metric.gen_ai().map(|gen_ai| format!(", and `{}`", gen_ai.name));
    let newest = metric.gen_ai_of(Conventions::Latest);
    let newest = newest.map(|gen_ai| format!(", in the newest conventions `{}`", gen_ai.name));
    [Some(own), stage, known, newest].into_iter().flatten().collect()
}

/// Returns the metric's names in Prometheus, including that of the conventions' instrument.
fn in_prometheus(metric: &Metric) -> String {
    let specs = metric.main_instrument().map(|instrument| instrument.spec);
    let gen_ai = [Conventions::V1_41, Conventions::Latest].map(|version| metric.gen_ai_of(version));
    let specs = specs.into_iter().chain(gen_ai.into_iter().flatten().map(MetricSpec::from));
    let names: Vec<String> = specs.map(|spec| format!("`{}`", spec.prometheus_name())).collect();
    names.join(", and ")
}

/// Renders the table of all metrics exported over OTLP with their names in Prometheus
/// (`docs/otlp-metrics.md`).
#[must_use]
pub fn otlp_table() -> String {
    let catalogue = FAMILIES.iter().flat_map(|family| family.rows);
    let instruments: Vec<Instrument> = catalogue.flat_map(instruments).collect();
    let specs: Vec<MetricSpec> = (semconv::metric::ALL.into_iter().map(MetricSpec::from))
        .chain(instruments.into_iter().map(|instrument| instrument.spec))
        .collect();
    let mut text = format!(
        "# Metrics over OTLP and in Prometheus\n\n\
         <!-- Generated from the catalogue in `src/measure/metrics/catalogue/` and `semconv/`. To \
         regenerate:\n     {REGENERATE} -->\n\n{OTLP_TABLE}"
    );
    for &(kind, title) in KINDS {
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

/// The text above the tables.
const OTLP_TABLE: &str = "\
The [metric reference](metrics.md) describes what each metric measures, and the \
[OTLP guide](otlp.md) how metrics reach Prometheus. `gen_ai.client.inference.*` are exported \
with [`--otel-semconv`](otlp.md#genai-conventions) only, and `gen_ai.server.*` with \
`--otel-server-semconv`.\n\n\
Labels:\n\n\
- *request*: `gen_ai_operation_name`, `gen_ai_provider_name`, `gen_ai_request_model`, \
`aiperf_benchmark_phase`; if known, `gen_ai_response_model`, `server_address`, `server_port`; \
for failed requests, `error_type`\n\
- *phase*: `gen_ai_operation_name`, `gen_ai_provider_name`, `gen_ai_request_model`, \
`aiperf_benchmark_phase`\n";

/// The tables, in order.
const KINDS: &[(InstrumentKind, &str)] = &[
    (InstrumentKind::Histogram, "Histograms (series `_bucket`, `_sum` and `_count`)"),
    (InstrumentKind::Counter, "Counters"),
    (InstrumentKind::UpDownCounter, "Sums that can fall (gauges in Prometheus)"),
    (InstrumentKind::Gauge, "Gauges"),
];

/// Returns the labels of the metric's series.
fn labels(spec: &MetricSpec) -> &'static str {
    let of_requests = matches!(spec.kind, InstrumentKind::Histogram)
        || spec.kind == InstrumentKind::Counter && !spec.name.starts_with("aiperf.timing.");
    match spec.name.as_str() {
        "gen_ai.client.token.usage" => "request, `gen_ai_token_type`",
        name if name.starts_with("gen_ai.server.") => {
            "`gen_ai_operation_name`, `gen_ai_provider_name`, `gen_ai_request_model`, \
             `aiperf_server_metric`, and those of the server"
        }
        name if name.starts_with("gen_ai.client.inference.usage.") => {
            "request without `error_type`, `gen_ai_token_modality`"
        }
        "aiperf.client.queue.spilled"
        | "aiperf.client.traces.lost"
        | "aiperf.client.error_bound.throughput" => "phase",
        "aiperf.client.verdict.reason" => "phase, `aiperf_client_finding`",
        "aiperf.output.faults" => "phase, `aiperf_output_fault`",
        "aiperf.run.info" => {
            "phase, `aiperf_run_load`, `aiperf_run_url`, `aiperf_run_input_tokens`, \
             `aiperf_run_output_tokens`, `aiperf_run_objectives`"
        }
        name if name.starts_with("aiperf.gate.") => {
            "phase, `aiperf_gate_expression`, `aiperf_gate_metric`, `aiperf_gate_statistic`, \
             `aiperf_gate_unit`"
        }
        name if name.starts_with("aiperf.percentiles.")
            || name.starts_with("aiperf.client.error_bound.") =>
        {
            "phase, `aiperf_percentile`"
        }
        name if name.starts_with("aiperf.sample_interval.") => {
            "phase, `aiperf_percentile`, `aiperf_interval_end`"
        }
        "gen_ai.invoke_agent.duration" => {
            "`aiperf_benchmark_phase`, `gen_ai_request_model`, `error_type`"
        }
        "gen_ai.invoke_agent.inference_calls" | "gen_ai.invoke_agent.tool_calls" => {
            "`aiperf_benchmark_phase`"
        }
        "gen_ai.execute_tool.duration" => "`aiperf_benchmark_phase`, `gen_ai_tool_name`",
        name if name.starts_with("aiperf.steady_state.") => "phase, `aiperf_statistic`",
        name if name.starts_with("aiperf.time_breakdown.") => "phase, `aiperf_stage`",
        "aiperf.server.stage.duration" => "request, `aiperf_stage`",
        _ if of_requests => "request",
        _ => "phase",
    }
}

/// Renders the registry's entries for the `aiperf.<tag>` instruments, in version 2 of weaver's
/// definition format.
#[must_use]
pub fn semconv_yaml() -> String {
    let mut text = format!(
        "# DO NOT EDIT: generated from the catalogue in src/measure/metrics/catalogue/.\n\
         # To regenerate: {REGENERATE}\n\
         file_format: definition/2\nmetrics:\n"
    );
    for metric in FAMILIES.iter().flat_map(|family| family.rows) {
        for instrument in instruments(metric) {
            metric_entry(&mut text, &instrument.spec);
        }
    }
    text
}

/// Returns the instruments of a metric that no other metric has.
fn instruments(metric: &Metric) -> impl Iterator<Item = Instrument> {
    let (percentiles, steady) = (metric.percentiles_instrument(), metric.steady_state_instrument());
    let own = metric.instrument().filter(|instrument| instrument.stage.is_none());
    own.into_iter().chain(percentiles).chain(steady)
}

/// The prefixes of instruments that have an attribute in addition to the phase's.
const DISTINGUISHED: [(&str, &str); 2] =
    [("aiperf.percentiles.", "aiperf.percentile"), ("aiperf.steady_state.", "aiperf.statistic")];

/// Writes an entry. The attribute groups are in `semconv/gen-ai.yaml`: that of a phase for
/// gauges, that of a request for all others.
fn metric_entry(text: &mut String, spec: &MetricSpec) {
    let _ = write!(
        text,
        "  - name: {}\n    brief: {}\n    instrument: {}\n    unit: {}\n    stability: \
         development\n    requirement_level: recommended\n",
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
    for (_, attribute) in DISTINGUISHED.iter().filter(|(of, _)| spec.name.starts_with(of)) {
        let _ = write!(text, "      - ref: {attribute}\n        requirement_level: required\n");
    }
}

/// Formats `text` as a double-quoted scalar, since JSON strings are valid YAML.
fn quoted(text: &str) -> String {
    serde_json::Value::from(text).to_string()
}
