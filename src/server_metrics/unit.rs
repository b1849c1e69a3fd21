//! Units of metrics, told from descriptions and names.

use super::snapshot::Kind;

/// Tags as in `(in MiB)`, as they are written.
const TAGS: [(&str, &str); 33] = [
    ("B", "bytes"),
    ("KB", "kilobytes"),
    ("KiB", "kilobytes"),
    ("MB", "megabytes"),
    ("MiB", "megabytes"),
    ("GB", "gigabytes"),
    ("GiB", "gigabytes"),
    ("TB", "terabytes"),
    ("TiB", "terabytes"),
    ("C", "celsius"),
    ("°C", "celsius"),
    ("F", "fahrenheit"),
    ("K", "kelvin"),
    ("Hz", "hertz"),
    ("MHz", "megahertz"),
    ("GHz", "gigahertz"),
    ("W", "watt"),
    ("mW", "milliwatt"),
    ("J", "joule"),
    ("mJ", "millijoule"),
    ("MJ", "megajoule"),
    ("s", "seconds"),
    ("sec", "seconds"),
    ("ms", "milliseconds"),
    ("ns", "nanoseconds"),
    ("us", "microseconds"),
    ("µs", "microseconds"),
    ("μs", "microseconds"),
    ("GB/s", "gb/s"),
    ("MB/s", "mb/s"),
    ("%", "percent"),
    ("percent", "percent"),
    ("seconds", "seconds"),
];

/// Units that a description says in words, `in seconds` or `(seconds)`; lower case.
const WORDS: [(&str, &str); 13] = [
    ("seconds", "seconds"),
    ("milliseconds", "milliseconds"),
    ("ms", "milliseconds"),
    ("microseconds", "microseconds"),
    ("nanoseconds", "nanoseconds"),
    ("ns", "nanoseconds"),
    ("bytes", "bytes"),
    ("gb/s", "gb/s"),
    ("mb/s", "mb/s"),
    ("tokens/s", "tokens/s"),
    ("tokens/sec", "tokens/s"),
    ("requests/s", "requests/s"),
    ("tokens", "tokens"),
];

/// Ends of names; the longest that fits counts.
const SUFFIXES: [(&str, &str); 40] = [
    ("_seconds", "seconds"),
    ("_seconds_total", "seconds"),
    ("_milliseconds", "milliseconds"),
    ("_ms", "milliseconds"),
    ("_ms_total", "milliseconds"),
    ("_microseconds", "microseconds"),
    ("_microseconds_total", "microseconds"),
    ("_us", "microseconds"),
    ("_us_total", "microseconds"),
    ("_nanoseconds", "nanoseconds"),
    ("_ns", "nanoseconds"),
    ("_ns_total", "nanoseconds"),
    ("_bytes", "bytes"),
    ("_bytes_total", "bytes"),
    ("_kilobytes", "kilobytes"),
    ("_megabytes", "megabytes"),
    ("_gigabytes", "gigabytes"),
    ("_total", "count"),
    ("_count", "count"),
    ("_tokens", "tokens"),
    ("_tokens_total", "tokens"),
    ("_requests", "requests"),
    ("_requests_total", "requests"),
    ("_reqs", "requests"),
    ("request_success", "requests"),
    ("request_success_total", "requests"),
    ("_errors", "errors"),
    ("_errors_total", "errors"),
    ("_error_count", "errors"),
    ("_error_count_total", "errors"),
    ("_blocks", "blocks"),
    ("_blocks_total", "blocks"),
    ("_block_count", "blocks"),
    ("_gb_s", "gb/s"),
    ("_ratio", "ratio"),
    ("_percent", "percent"),
    ("_perc", "percent"),
    ("_celsius", "celsius"),
    ("_joules", "joule"),
    ("_watts", "watt"),
];

/// Scales that a description gives a ratio; lower case.
const RATIOS: [&str; 5] = ["(0-1)", "0.0-1.0", "0 to 1", "range 0-1", "fraction of"];

/// What stands between `1` and `100%` where a description explains a ratio.
const EQUALS: [&str; 4] = ["means", "is", "equals", "="];

/// Scales that a description gives a percentage; lower case.
const PERCENTAGES: [&str; 3] = ["(0-100)", "range 0-100", "0-100%"];

/// The unit of the metric `name`, by the scale that its `description` gives, the
/// unit that this says, then the end of the name; `None` where nothing tells.
///
/// A `# UNIT` line says it with authority: ask here where there is none. `name` is
/// as in files: a counter's may have lost `_total`, which changes no unit.
#[must_use]
pub fn infer(name: &str, kind: Kind, description: &str) -> Option<&'static str> {
    if kind == Kind::Info {
        return None;
    }
    let lower = description.to_lowercase();
    scale(&lower)
        .or_else(|| tag(description))
        .or_else(|| word(&lower))
        .or_else(|| suffix(name))
        .or_else(|| name.contains("num_requests_").then_some("requests"))
}

fn scale(description: &str) -> Option<&'static str> {
    let says = |text: &str| contains_whole(description, text);
    let explains = |equals: &&str| {
        says(&format!("1 {equals} 100%")) || says(&format!("1 {equals} 100 percent"))
    };
    if RATIOS.iter().any(|text| says(text)) || EQUALS.iter().any(explains) {
        return Some("ratio");
    }
    PERCENTAGES.iter().any(|text| says(text)).then_some("percent")
}

/// `(in X)`, with X as it is written.
fn tag(description: &str) -> Option<&'static str> {
    description.split("(in ").skip(1).find_map(|rest| {
        let (tag, _) = rest.split_once(')')?;
        unit_of(&TAGS, tag.trim())
    })
}

/// `in X` or `(X)`.
fn word(description: &str) -> Option<&'static str> {
    let says = |word: &str| {
        contains_whole(description, &format!("in {word}"))
            || description.contains(&format!("({word})"))
    };
    WORDS.iter().find(|(word, _)| says(word)).map(|(_, unit)| *unit)
}

fn suffix(name: &str) -> Option<&'static str> {
    SUFFIXES
        .iter()
        .filter(|(suffix, _)| name.ends_with(suffix))
        .max_by_key(|(suffix, _)| suffix.len())
        .map(|(_, unit)| *unit)
}

fn unit_of(units: &[(&str, &'static str)], name: &str) -> Option<&'static str> {
    units.iter().find(|(other, _)| *other == name).map(|(_, unit)| *unit)
}

/// `text` stands in `description`, and not as a part of a longer word or number.
fn contains_whole(description: &str, text: &str) -> bool {
    description.match_indices(text).any(|(at, _)| {
        let before = description[..at].chars().next_back();
        let mut after = description[at + text.len()..].chars();
        let (next, second) = (after.next(), after.next());
        let goes_on = |c: char| c.is_alphanumeric() || c == '_' || c == '/';
        let is_decimal = next == Some('.') && second.is_some_and(|c| c.is_ascii_digit());
        let starts_word = text.starts_with(|c: char| c.is_alphanumeric());
        let ends_word = text.ends_with(|c: char| c.is_alphanumeric());
        let begins = !(starts_word && before.is_some_and(|c| goes_on(c) || c == '.'));
        begins && !(ends_word && (next.is_some_and(goes_on) || is_decimal))
    })
}

#[cfg(test)]
mod tests;
