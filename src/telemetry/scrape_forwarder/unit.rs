//! Converts the units of `# UNIT` to UCUM, which OpenTelemetry uses.

/// Returns the OTLP unit for an OpenMetrics unit: `seconds` is `s`, `ratio` is `1`,
/// `bytes_per_second` is `By/s`. Unknown units are returned unchanged.
///
/// Source: the OpenTelemetry specification, "Prometheus and OpenMetrics Compatibility", metric
/// metadata.
pub(super) fn ucum(unit: &str) -> String {
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
