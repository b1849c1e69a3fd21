//! The figures that a client reports, read from its output as its description says.

use std::ffi::OsStr;
use std::fs;
use std::path::{Component, Path, PathBuf};

use anyhow::{Context, bail, ensure};
use regex_automata::meta::{Config, Regex};
use serde_json::{Map, Value};

use base::input;

use super::client::{Client, Format, Reported, Unit};
use super::figure::{Figures, name};

/// Maximum size of a file of results in bytes.
const MAX_FILE: u64 = 256 << 20;
/// Maximum size of a compiled regular expression.
const MAX_REGEX: usize = 1 << 20;
/// Maximum number of files that a pattern is compared with.
const MAX_ENTRIES: usize = 10_000;

/// Returns the figures in the files of a client that ran in `directory`, with its standard output in
/// `stdout`. `pattern` is the path of the results with its placeholders replaced.
///
/// # Errors
///
/// If the file is missing or cannot be parsed, or a figure is not a number. A figure that is absent
/// or null is left out.
pub(crate) fn read(client: &Client, pattern: &str, stdout: &Path) -> anyhow::Result<Figures> {
    let file = match pattern {
        "stdout" => stdout.to_owned(),
        pattern => newest(Path::new(pattern))
            .with_context(|| format!("the client has not written {pattern}"))?,
    };
    let text =
        input::text(&file, MAX_FILE).with_context(|| format!("cannot read {}", file.display()))?;
    figures(client, &text).with_context(|| format!("cannot use {}", file.display()))
}

/// Returns the figures in the text of a file of results.
///
/// # Errors
///
/// As [`read`].
pub(crate) fn figures(client: &Client, text: &str) -> anyhow::Result<Figures> {
    let source = match client.results.format {
        Format::Json => Source::Tree(last_json(text)?),
        Format::Csv => Source::Tree(csv(text)?),
        Format::Text => Source::Text(text),
    };
    let mut figures = Figures::new();
    for (figure, reported) in &client.figures {
        for (statistic, place) in &reported.places {
            let value =
                source.value(place, reported).with_context(|| name((*figure, *statistic)))?;
            if let Some(value) = value.or(reported.absent) {
                figures.insert((*figure, *statistic), value);
            }
        }
    }
    ensure!(!figures.is_empty(), "it has none of the figures of the description");
    Ok(figures)
}

impl Client {
    /// Checks that figures can be read from the text of its results.
    ///
    /// # Errors
    ///
    /// If the text cannot be parsed, a figure is not a number, or there is none.
    pub fn check_results(&self, text: &str) -> anyhow::Result<()> {
        figures(self, text).map(|_| ())
    }
}

enum Source<'a> {
    Tree(Value),
    Text(&'a str),
}

impl Source<'_> {
    /// Returns the value at `place`, in seconds if it is a time; `None` if it is absent.
    fn value(&self, place: &str, reported: &Reported) -> anyhow::Result<Option<f64>> {
        let (number, unit) = match self {
            Self::Tree(tree) => match tree.pointer(place) {
                None | Some(Value::Null) => return Ok(None),
                Some(Value::Number(number)) => (number.as_f64(), reported.unit),
                Some(Value::String(text)) if text.trim().is_empty() => return Ok(None),
                Some(Value::String(text)) => (number(text), reported.unit),
                Some(_) => (None, None),
            },
            Self::Text(text) => match captures(text, place)? {
                None => return Ok(None),
                Some((value, unit)) => {
                    let unit = match unit {
                        None => reported.unit,
                        Some(name) => {
                            Some(Unit::named(name).with_context(|| format!("the unit {name:?}"))?)
                        }
                    };
                    (number(value), unit)
                }
            },
        };
        let Some(number) = number.filter(|number| number.is_finite()) else {
            bail!("{place} is not a number");
        };
        Ok(Some(number * unit.map_or(1.0, Unit::seconds)))
    }
}

/// Parses a number that may have separators of thousands.
fn number(text: &str) -> Option<f64> {
    text.trim().replace(',', "").parse().ok()
}

/// Returns the first and, if there is one, the second group of the last match of `pattern`.
fn captures<'t>(
    text: &'t str,
    pattern: &str,
) -> anyhow::Result<Option<(&'t str, Option<&'t str>)>> {
    let config = Config::new().nfa_size_limit(Some(MAX_REGEX));
    let regex = Regex::builder()
        .configure(config)
        .syntax(regex_automata::util::syntax::Config::new().multi_line(true))
        .build(pattern)
        .with_context(|| format!("{pattern:?} is not a regular expression"))?;
    let Some(found) = regex.captures_iter(text).last() else { return Ok(None) };
    let group = |at| found.get_group(at).map(|span| &text[span.start..span.end]);
    let value = group(1).with_context(|| format!("{pattern:?} does not have a group"))?;
    Ok(Some((value, group(2))))
}

/// Parses JSON, or the last line, for files to which each run adds a line.
fn last_json(text: &str) -> anyhow::Result<Value> {
    let text = without_nan(text);
    serde_json::from_str(&text).or_else(|error| {
        let last = text.lines().rfind(|line| !line.trim().is_empty());
        let last = last.and_then(|line| serde_json::from_str(line).ok());
        last.ok_or(error).context("it is not JSON")
    })
}

/// Replaces what Python writes for numbers that JSON does not have.
fn without_nan(text: &str) -> String {
    let mut json = String::with_capacity(text.len());
    // Every other part is within quotes, but for those that a backslash precedes.
    let mut is_quoted = false;
    for part in text.split_inclusive('"') {
        if is_quoted {
            json.push_str(part);
        } else {
            let part = part.replace("-Infinity", "null").replace("Infinity", "null");
            json.push_str(&part.replace("NaN", "null"));
        }
        let before = part.strip_suffix('"').unwrap_or(part);
        let slashes = before.len() - before.trim_end_matches('\\').len();
        is_quoted ^= !(is_quoted && slashes % 2 == 1);
    }
    json
}

/// Parses a CSV file to an object with a member for each row, by its first column, whose members
/// are the other columns. Blank lines divide sections with headers of their own.
fn csv(text: &str) -> anyhow::Result<Value> {
    let mut rows = Map::new();
    for section in text.replace("\r\n", "\n").split("\n\n") {
        let mut reader = csv::ReaderBuilder::new().flexible(true).from_reader(section.as_bytes());
        let header = reader.headers().context("it is not CSV")?.clone();
        for row in reader.records() {
            let row = row.context("it is not CSV")?;
            let columns = header.iter().zip(&row).skip(1);
            let columns = columns.map(|(name, value)| (name.to_owned(), Value::from(value)));
            let name = row.get(0).unwrap_or_default().to_owned();
            rows.insert(name, Value::Object(columns.collect()));
        }
    }
    Ok(Value::Object(rows))
}

/// Returns the newest file whose path is `pattern`, in which each component may have one `*`.
fn newest(pattern: &Path) -> Option<PathBuf> {
    let mut found = vec![PathBuf::new()];
    for component in pattern.components() {
        let name = match component {
            Component::Normal(name) => name.to_string_lossy(),
            other => {
                for path in &mut found {
                    path.push(other);
                }
                continue;
            }
        };
        let Some((before, after)) = name.split_once('*') else {
            for path in &mut found {
                path.push(&*name);
            }
            continue;
        };
        let matches = |entry: &OsStr| {
            let entry = entry.to_string_lossy();
            entry.len() >= before.len() + after.len()
                && entry.starts_with(before)
                && entry.ends_with(after)
        };
        let mut next = Vec::new();
        for path in found {
            let Ok(entries) = fs::read_dir(&path) else { continue };
            let names = entries.take(MAX_ENTRIES).flatten().map(|entry| entry.file_name());
            next.extend(names.filter(|name| matches(name)).map(|name| path.join(name)));
        }
        found = next;
    }
    let times = found.into_iter().filter_map(|path| {
        let modified = fs::metadata(&path).ok()?.modified().ok()?;
        Some((modified, path))
    });
    times.max().map(|(_, path)| path)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::figure::{Figure, Statistic};

    fn client(format: &str, figures: &str) -> Client {
        let text = format!(
            "name = \"a\"\nprogram = \"a\"\nresults = {{ file = \"stdout\", format = \"{format}\" }}\n\
             [figures]\n{figures}"
        );
        Client::parse(&text).unwrap()
    }

    const TTFT: Figure = Figure::TimeToFirstToken;

    #[test]
    fn json_has_figures_at_pointers() {
        let client = client(
            "json",
            "time_to_first_token = { unit = \"ms\", mean = \"/a/mean\", p99 = \"/a/0/x\", p50 = \"/no\" }\n\
             request_count = { value = \"/n\" }",
        );
        let found = figures(&client, r#"{"a":{"mean":52.5,"0":{"x":"1,060.5"}},"n":80}"#).unwrap();
        let expected = [
            ((TTFT, Statistic::Mean), 0.0525),
            ((TTFT, Statistic::P99), 1.0605),
            ((Figure::RequestCount, Statistic::Value), 80.0),
        ];
        assert_eq!(found.len(), 3);
        for (key, value) in expected {
            assert!((found[&key] - value).abs() < 1e-12, "{key:?}");
        }
        // Of several documents, the last line is read.
        let found = figures(&client, "{\"n\":1}\n{\"n\":2}\n").unwrap();
        assert_eq!(found[&(Figure::RequestCount, Statistic::Value)], 2.0);
        // Python writes numbers that JSON does not have.
        let text = r#"{"a":{"mean":NaN},"NaN \" NaN":[-Infinity,Infinity],"n":3}"#;
        assert_eq!(figures(&client, text).unwrap().len(), 1);
        assert_eq!(without_nan(text), r#"{"a":{"mean":null},"NaN \" NaN":[null,null],"n":3}"#);
        let error = format!("{:#}", figures(&client, r#"{"n":[]}"#).unwrap_err());
        assert_eq!(error, "successful requests: /n is not a number");
        assert!(figures(&client, "{}").is_err());
    }

    #[test]
    fn csv_has_figures_by_row_and_column_of_each_section() {
        let client = client(
            "csv",
            "time_to_first_token = { unit = \"ms\", mean = \"/TTFT (ms)/avg\" }\n\
             request_count = { value = \"/Request Count/Value\" }",
        );
        let text = "Metric,avg,p99\nTTFT (ms),50.5,60\n\nMetric,Value\nRequest Count,80\n";
        let found = figures(&client, text).unwrap();
        assert_eq!(found[&(Figure::RequestCount, Statistic::Value)], 80.0);
        assert!((found[&(TTFT, Statistic::Mean)] - 0.0505).abs() < 1e-12);
    }

    #[test]
    fn text_has_figures_by_expressions_with_their_units() {
        let client = client(
            "text",
            r"request_latency = { p50 = '^ +50% +([\d.]+)(us|ms|s)$' }
              request_throughput = { value = 'Requests/sec: +([\d.]+)' }",
        );
        let text = "  Latency\n     50%  105.20ms\n     90%  1.20s\nRequests/sec:   37.50\n";
        let found = figures(&client, text).unwrap();
        assert!((found[&(Figure::RequestLatency, Statistic::P50)] - 0.1052).abs() < 1e-12);
        assert_eq!(found[&(Figure::RequestThroughput, Statistic::Value)], 37.5);
    }

    #[test]
    fn the_newest_file_of_a_pattern_is_read() {
        let directory = tempfile::tempdir().unwrap();
        let run = directory.path().join("run-1");
        fs::create_dir(&run).unwrap();
        fs::write(run.join("result_7.json"), "{}").unwrap();
        fs::write(run.join("other.txt"), "").unwrap();
        let found = newest(&directory.path().join("run-*/result_*.json"));
        assert_eq!(found, Some(run.join("result_7.json")));
        assert_eq!(newest(&directory.path().join("run-*/x*")), None);
    }

    proptest! {
        #[test]
        fn no_results_panic(text in ".*", place in ".*") {
            for format in [Source::Text(&text), Source::Tree(csv(&text).unwrap_or_default())] {
                let reported = Reported { unit: None, absent: None, places: std::collections::BTreeMap::new() };
                let _ = format.value(&place, &reported);
            }
        }
    }
}
