//! What metrics and attributes are called in Prometheus.
//!
//! The classic translation of names: dots become underscores, units and
//! `_total` become suffixes. The Collector's scrape endpoint and remote write
//! do it, and Prometheus' own OTLP receiver with the strategy
//! `UnderscoreEscapingWithSuffixes`. It is OpenTelemetry's "Prometheus and
//! OpenMetrics Compatibility" in the words of the library that all of them use:
//! <https://github.com/prometheus/otlptranslator>.

use super::InstrumentKind;

#[cfg(test)]
mod tests;

/// The metric `name` with the UCUM `unit` as Prometheus has it, without the
/// `_bucket`, `_sum` and `_count` of a histogram's series.
///
/// Empty where no character of `name` can stand in a name of Prometheus.
#[must_use]
pub fn prometheus_name(name: &str, unit: &str, kind: InstrumentKind) -> String {
    let mut words: Vec<&str> = name.split(|c| !is_metric_char(c)).collect();
    words.retain(|word| !word.is_empty());
    let (main, per) = unit.split_once('/').unwrap_or((unit, ""));
    let (mut main, mut per) = (unit_word(main, main_unit), unit_word(per, per_unit));
    if !per.is_empty() {
        main.truncate(main.trim_end_matches('_').len());
        per = format!("per_{}", per.trim_end_matches('_'));
    }
    // A word that the name has anywhere is not said again.
    let suffixes = [main, per];
    let unsaid = |suffix: &&str| !suffix.is_empty() && !words.contains(suffix);
    let unsaid: Vec<&str> = suffixes.iter().map(String::as_str).filter(unsaid).collect();
    words.extend(unsaid);
    match kind {
        InstrumentKind::Counter => move_to_end(&mut words, "total"),
        InstrumentKind::Gauge if unit == "1" => move_to_end(&mut words, "ratio"),
        _ => {}
    }
    let name = words.join("_");
    if name.starts_with(|c: char| c.is_ascii_digit()) { format!("_{name}") } else { name }
}

/// The attribute `name` as a label of Prometheus.
///
/// What cannot stand in a label becomes `_`, and `key_` goes before a digit.
#[must_use]
pub fn prometheus_label(name: &str) -> String {
    let label: String =
        name.chars().map(|c| if c.is_ascii_alphanumeric() { c } else { '_' }).collect();
    if label.starts_with(|c: char| c.is_ascii_digit()) { format!("key_{label}") } else { label }
}

const fn is_metric_char(c: char) -> bool {
    c.is_ascii_alphanumeric() || c == ':'
}

fn move_to_end<'a>(words: &mut Vec<&'a str>, word: &'a str) {
    words.retain(|have| *have != word);
    words.push(word);
}

/// A part of a unit as a suffix: in Prometheus' word for it where it has one.
/// An annotation such as `{token}` is not a unit.
fn unit_word(part: &str, known: fn(&str) -> Option<&'static str>) -> String {
    let part = part.trim();
    if part.contains(['{', '}']) {
        return String::new();
    }
    let mut word = String::new();
    for c in known(part).unwrap_or(part).chars() {
        let c = if is_metric_char(c) { c } else { '_' };
        // None in front, and one for several in a row.
        if c != '_' || !(word.is_empty() || word.ends_with('_')) {
            word.push(c);
        }
    }
    word
}

fn main_unit(unit: &str) -> Option<&'static str> {
    Some(match unit {
        "d" => "days",
        "h" => "hours",
        "min" => "minutes",
        "s" => "seconds",
        "ms" => "milliseconds",
        "us" => "microseconds",
        "ns" => "nanoseconds",
        "By" => "bytes",
        "KiBy" => "kibibytes",
        "MiBy" => "mebibytes",
        "GiBy" => "gibibytes",
        "TiBy" => "tibibytes",
        "KBy" => "kilobytes",
        "MBy" => "megabytes",
        "GBy" => "gigabytes",
        "TBy" => "terabytes",
        "m" => "meters",
        "V" => "volts",
        "A" => "amperes",
        "J" => "joules",
        "W" => "watts",
        "g" => "grams",
        "Cel" => "celsius",
        "Hz" => "hertz",
        "1" => "",
        "%" => "percent",
        _ => return None,
    })
}

fn per_unit(unit: &str) -> Option<&'static str> {
    Some(match unit {
        "s" => "second",
        "m" => "minute",
        "h" => "hour",
        "d" => "day",
        "w" => "week",
        "mo" => "month",
        "y" => "year",
        _ => return None,
    })
}
