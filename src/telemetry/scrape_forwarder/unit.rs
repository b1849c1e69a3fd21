//! Converts the units of `# UNIT` to UCUM, which OpenTelemetry uses.

use base::semconv::{InstrumentKind, prometheus_name};

/// Returns the OTLP unit of the metric `name` with an OpenMetrics unit; empty if the name ends with
/// the unit and Prometheus, which appends units to the names of OTLP, would not recognize it there:
/// `a_bytes_per_second` would become `a_bytes_per_second_per_second`.
pub(super) fn unit_of(name: &str, unit: &str, kind: InstrumentKind) -> String {
    let converted = ucum(unit);
    let stem = name.strip_suffix("_total").unwrap_or(name);
    let is_named = stem.strip_suffix(unit).is_some_and(|rest| rest.ends_with('_'));
    let in_prometheus = |unit| prometheus_name(name, unit, kind);
    if is_named && in_prometheus(&converted) != in_prometheus("") {
        return String::new();
    }
    converted
}

/// Returns the OTLP unit for an OpenMetrics unit: `seconds` is `s`, `ratio` is `1`,
/// `bytes_per_second` is `By/s`. Unknown units are returned unchanged.
///
/// Source: the OpenTelemetry specification, "Prometheus and OpenMetrics Compatibility", metric
/// metadata.
fn ucum(unit: &str) -> String {
    match unit.split_once("_per_") {
        Some((of, per)) => format!("{}/{}", symbol(of), symbol_of_one(per)),
        None => symbol(unit).to_owned(),
    }
}

fn symbol(unit: &str) -> &str {
    match unit {
        "days" => "d",
        "hours" => "h",
        "minutes" => "min",
        "seconds" => "s",
        "milliseconds" => "ms",
        "microseconds" => "us",
        "nanoseconds" => "ns",
        "bytes" => "By",
        "kibibytes" => "KiBy",
        "mebibytes" => "MiBy",
        "gibibytes" => "GiBy",
        "tebibytes" => "TiBy",
        "kilobytes" => "kBy",
        "megabytes" => "MBy",
        "gigabytes" => "GBy",
        "terabytes" => "TBy",
        "meters" => "m",
        "volts" => "V",
        "amperes" => "A",
        "joules" => "J",
        "watts" => "W",
        "grams" => "g",
        "celsius" => "Cel",
        "hertz" => "Hz",
        "ratio" => "1",
        "percent" => "%",
        other => other,
    }
}

fn symbol_of_one(unit: &str) -> &str {
    match unit {
        "second" => "s",
        "minute" => "min",
        "hour" => "h",
        "day" => "d",
        "week" => "wk",
        "month" => "mo",
        "year" => "a",
        "meter" => "m",
        other => other,
    }
}
