//! Infers the units of metrics from descriptions and names.

use client::server_family::SeriesKind;

/// Tags as in `(in MiB)`, case-sensitive.
const TAGS: &[(&str, &str)] = &[
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

/// Units in the words of a description, `in seconds` or `(seconds)`; lower case.
const WORDS: &[(&str, &str)] = &[
    ("second", "seconds"),
    ("seconds", "seconds"),
    ("millisecond", "milliseconds"),
    ("milliseconds", "milliseconds"),
    ("ms", "milliseconds"),
    ("microsecond", "microseconds"),
    ("microseconds", "microseconds"),
    ("nanosecond", "nanoseconds"),
    ("nanoseconds", "nanoseconds"),
    ("ns", "nanoseconds"),
    ("byte", "bytes"),
    ("bytes", "bytes"),
    ("gb/s", "gb/s"),
    ("mb/s", "mb/s"),
    ("token/s", "tokens/s"),
    ("tokens/s", "tokens/s"),
    ("token/sec", "tokens/s"),
    ("tokens/sec", "tokens/s"),
    ("token/second", "tokens/s"),
    ("tokens/second", "tokens/s"),
    ("request/s", "requests/s"),
    ("requests/s", "requests/s"),
    ("request/sec", "requests/s"),
    ("requests/sec", "requests/s"),
    ("request/second", "requests/s"),
    ("requests/second", "requests/s"),
    ("tokens", "tokens"),
    ("percent", "percent"),
    ("%", "percent"),
];

/// Suffixes of names, of which the longest match applies; lower case.
const SUFFIXES: &[(&str, &str)] = &[
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

/// Phrases in a description that indicate a ratio; lower case.
const RATIOS: &[&str] = &[
    "(0-1)",
    "[0-1]",
    "0.0-1.0",
    "0.0 - 1.0",
    "0 - 1",
    "0 to 1",
    "0.0 to 1.0",
    "range 0-1",
    "fraction of",
];

/// Words between `1` and `100%` in the description of a ratio.
const EQUALS: &[&str] = &["means", "is", "equals", "="];

/// Phrases in a description that indicate a percentage; lower case.
const PERCENTAGES: &[&str] =
    &["(0-100)", "[0-100]", "range 0-100", "0-100%", "0 - 100%", "0 to 100%", "0 to 100 percent"];

/// Endings of words in singular or plural; lower case.
const PLURALS: [(&str, &str); 3] =
    [("second(s)", "seconds"), ("byte(s)", "bytes"), ("token(s)", "tokens")];

/// Infers the unit of the metric `name` from the scale in its `description`, the unit in the
/// description, or the suffix of the name, in this order; `None` if there is none of these.
///
/// A `# UNIT` line takes precedence, so this should be used only without one. `name` is as in
/// files: a counter's may lack `_total`, which does not affect the unit.
#[must_use]
pub fn infer(name: &str, kind: SeriesKind, description: &str) -> Option<&'static str> {
    if kind == SeriesKind::Info {
        return None;
    }
    let mut lower = description.to_lowercase();
    for (either, several) in PLURALS {
        lower = lower.replace(either, several);
    }
    let name = name.to_lowercase();
    scale(&lower)
        .or_else(|| tag(description))
        .or_else(|| word(&lower))
        .or_else(|| suffix(&name))
        .or_else(|| name.contains("num_requests_").then_some("requests"))
}

fn scale(description: &str) -> Option<&'static str> {
    let says = |text: &str| contains_whole(description, text);
    let explains = |equals: &&str| {
        says(&format!("1 {equals} 100%")) || says(&format!("1 {equals} 100 percent"))
    };
    let is_explained = EQUALS.iter().any(explains) || says("1=100%");
    if RATIOS.iter().any(|text| says(text)) || is_explained {
        return Some("ratio");
    }
    PERCENTAGES.iter().any(|text| says(text)).then_some("percent")
}

/// Finds `(in X)`, where X is case-sensitive.
fn tag(description: &str) -> Option<&'static str> {
    description.split("(in ").skip(1).find_map(|rest| {
        let (tag, _) = rest.split_once(')')?;
        unit_of(TAGS, tag.trim())
    })
}

/// Finds `in X` or `(X)`.
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

/// Returns whether `description` contains `text`, but not as a part of a longer word or number.
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
