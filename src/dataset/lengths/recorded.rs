//! Lengths that were observed, drawn again as they are.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use rand::{Rng, RngExt};
use serde::{Deserialize, Serialize};

use base::input::lines::{Line as Text, LineFault, Lines};
use base::input::{self, Input, MAX_PART_BYTES};
use base::setting;

use super::MAX_TOKENS;
use crate::NormalDistribution;

/// Maximum number of pairs that are kept.
const MAX_PAIRS: usize = 10_000_000;

/// Input lengths of requests, with the output length of each if it is known (`--lengths-from`).
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct RecordedLengths {
    /// The file.
    #[serde(serialize_with = "setting::path")]
    path: PathBuf,
    /// Number of requests in it that have lengths.
    requests: usize,
    #[serde(skip)]
    pairs: Arc<[Pair]>,
}

/// The input and output length of one request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Pair {
    input: u32,
    output: Option<u32>,
}

impl RecordedLengths {
    /// Reads the lengths of a file: lines of `input,output` or of `input`, after a line of column
    /// names or without one; lines of an earlier run's `profile_export.jsonl`; or lines of a trace
    /// with `input_length` and `output_length`. A file that is compressed by gzip or zstd is decompressed.
    ///
    /// # Errors
    ///
    /// Fails if the file cannot be read, if a line is none of these, or if there are no lengths.
    pub fn read(path: &Path) -> Result<Self, String> {
        let input = input::open(path).and_then(Input::new).map_err(|error| error.to_string())?;
        let pairs = read_lines(input)?;
        if pairs.is_empty() {
            return Err("there are no lengths of successful requests in it".to_owned());
        }
        Ok(Self { path: path.to_owned(), requests: pairs.len(), pairs: pairs.into() })
    }

    /// Returns whether the output length of any request is known.
    #[must_use]
    pub fn has_outputs(&self) -> bool {
        self.pairs.iter().any(|pair| pair.output.is_some())
    }

    /// Returns the mean and the standard deviation of the input lengths.
    #[must_use]
    pub fn input_tokens(&self) -> NormalDistribution {
        let count = self.pairs.len() as f64;
        let sum = |of: &dyn Fn(f64) -> f64| {
            self.pairs.iter().map(|pair| of(f64::from(pair.input))).sum::<f64>()
        };
        let mean = sum(&|tokens| tokens) / count;
        let variance = sum(&|tokens| (tokens - mean).powi(2)) / count;
        NormalDistribution { mean, stddev: variance.sqrt() }
    }

    /// Draws the input and the output length of one request, independently of earlier draws.
    pub fn draw(&self, rng: &mut impl Rng) -> (u32, Option<u32>) {
        // There is at least one.
        let Pair { input, output } = self.pairs[rng.random_range(0..self.pairs.len())];
        (input, output)
    }
}

fn read_lines(input: Input<'_>) -> Result<Vec<Pair>, String> {
    let mut pairs = Vec::new();
    let meter = input.meter();
    let mut lines = Lines::new(input, MAX_PART_BYTES);
    while let Some(Text { number, bytes, .. }) = lines.next().map_err(|fault| match fault {
        LineFault::Read(error) => error.to_string(),
        LineFault::TooLong { number, why } => format!("line {number}: {why}"),
    })? {
        meter.part().map_err(|error| error.to_string())?;
        let text = String::from_utf8_lossy(bytes);
        let text = text.trim().trim_start_matches('\u{feff}');
        if text.is_empty() {
            continue;
        }
        let is_header = number == 1 && text.starts_with(|first: char| first.is_alphabetic());
        let pair = if text.starts_with('{') {
            of_json(text)
        } else if is_header {
            of_header(text).map(|()| None)
        } else {
            of_columns(text).map(Some)
        };
        let at_line = |why: String| format!("line {number}: {why}");
        let Some(pair) = pair.map_err(at_line)? else { continue };
        for tokens in [Some(pair.input), pair.output].into_iter().flatten() {
            if !(1..=MAX_TOKENS).contains(&tokens) {
                let why = format!("a length must be between 1 and {MAX_TOKENS}, got {tokens}");
                return Err(at_line(why));
            }
        }
        if pairs.len() == MAX_PAIRS {
            return Err(format!("it has more than {MAX_PAIRS} requests; use a part of it"));
        }
        pairs.push(pair);
    }
    Ok(pairs)
}

/// Rejects column names in another order than that of the lengths.
fn of_header(text: &str) -> Result<(), String> {
    let first = text.split([',', ';', '\t']).next().unwrap_or_default().to_lowercase();
    if first.contains("out") || first.contains("osl") {
        return Err(format!("the first column must be the input length, got {text:?}"));
    }
    Ok(())
}

fn of_columns(text: &str) -> Result<Pair, String> {
    let malformed = || format!("expected input,output or input, got {text:?}");
    let columns = text.split([',', ';', '\t']).map(|column| column.trim().parse().ok());
    let columns: Option<Vec<u32>> = columns.collect();
    match columns.ok_or_else(malformed)?.as_slice() {
        [input] => Ok(Pair { input: *input, output: None }),
        [input, output] => Ok(Pair { input: *input, output: Some(*output) }),
        _ => Err(malformed()),
    }
}

/// The members of a line in JSON that matter.
#[derive(Deserialize)]
struct Line {
    input_length: Option<u32>,
    output_length: Option<u32>,
    metadata: Option<Metadata>,
    metrics: Option<Metrics>,
}

#[derive(Deserialize)]
struct Metadata {
    benchmark_phase: Option<String>,
}

#[derive(Deserialize)]
struct Metrics {
    input_sequence_length: Option<Value>,
    output_sequence_length: Option<Value>,
}

#[derive(Deserialize)]
struct Value {
    value: u32,
}

/// Reads a request of an earlier run or of a trace; `None` if it was part of a warmup, or does not
/// have both lengths because it failed.
fn of_json(text: &str) -> Result<Option<Pair>, String> {
    let line: Line = serde_json::from_str(text).map_err(|error| error.to_string())?;
    if let Some(Metrics { input_sequence_length, output_sequence_length }) = line.metrics {
        let phase = line.metadata.and_then(|metadata| metadata.benchmark_phase);
        let is_warmup = phase.is_some_and(|phase| phase == "warmup");
        let (Some(input), Some(output)) = (input_sequence_length, output_sequence_length) else {
            return Ok(None);
        };
        // A response without tokens does not have a length that could be requested.
        let is_usable = !is_warmup && input.value > 0 && output.value > 0;
        let pair = Pair { input: input.value, output: Some(output.value) };
        return Ok(is_usable.then_some(pair));
    }
    match line.input_length {
        Some(input) => Ok(Some(Pair { input, output: line.output_length })),
        None => Err("expected input_length, or the metrics of a request".to_owned()),
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::Seed;

    fn read(text: &str) -> Result<Vec<(u32, Option<u32>)>, String> {
        let pairs = read_lines(text.as_bytes().into())?;
        Ok(pairs.iter().map(|pair| (pair.input, pair.output)).collect())
    }

    #[test]
    fn lengths_are_read_from_columns_traces_and_records() {
        let pairs = vec![(512, Some(64)), (20, Some(1))];
        assert_eq!(read("512,64\n\n20;1\n"), Ok(pairs.clone()));
        assert_eq!(
            read("\u{feff}input_length,output_length\r\n512,64\r\n20\t1"),
            Ok(pairs.clone())
        );
        let trace = r#"{"timestamp": 0, "input_length": 512, "output_length": 64, "hash_ids": [1]}
            {"input_length": 20, "output_length": 1}"#;
        assert_eq!(read(trace), Ok(pairs.clone()));
        assert_eq!(read("7\n8"), Ok(vec![(7, None), (8, None)]));
        let record = |phase: &str, input: u32, output: &str| {
            format!(
                r#"{{"metadata":{{"benchmark_phase":"{phase}"}},"metrics":{{"input_sequence_length":{{"value":{input},"unit":"tokens"}}{output}}},"error":null}}"#
            )
        };
        let output = |tokens: u32| {
            format!(r#","output_sequence_length":{{"value":{tokens},"unit":"tokens"}}"#)
        };
        let lines = [
            record("warmup", 9, &output(9)),
            record("profiling", 512, &output(64)),
            // It failed.
            record("profiling", 9, ""),
            record("profiling", 20, &output(1)),
        ];
        assert_eq!(read(&lines.join("\n")), Ok(pairs));
    }

    #[test]
    fn faults_are_named() {
        for (text, fault) in [
            ("1,2\nx,3", "line 2: expected input,output or input, got \"x,3\""),
            ("1,2,3", "line 1: expected input,output"),
            ("0,3", "line 1: a length must be between 1 and 10000000, got 0"),
            ("output,input\n1,2", "line 1: the first column must be the input length"),
            ("{\"a\": 1}", "line 1: expected input_length"),
            ("{\"input_length\": -1}", "line 1: invalid value"),
        ] {
            let found = read(text).unwrap_err();
            assert!(found.contains(fault), "{text}: {found}");
        }
    }

    #[test]
    fn pairs_stay_together_and_are_drawn_alike() {
        let pairs = read_lines("100,1\n200,2\n300,3\n400,4\n".as_bytes().into()).unwrap();
        let all =
            RecordedLengths { path: PathBuf::new(), requests: pairs.len(), pairs: pairs.into() };
        // The variance of 100, 200, 300 and 400 is (150² + 50²)/2 = 12,500.
        let expected = NormalDistribution { mean: 250.0, stddev: 12_500f64.sqrt() };
        assert_eq!(all.input_tokens(), expected);
        let mut rng = Seed(8).stream("test");
        let mut counts = [0u32; 4];
        for _ in 0..10_000 {
            let (input, output) = all.draw(&mut rng);
            assert_eq!(Some(input / 100), output);
            counts[input as usize / 100 - 1] += 1;
        }
        // Standard deviation: sqrt(10,000 · 0.25 · 0.75) = 43.
        assert!(counts.iter().all(|count| count.abs_diff(2500) < 173), "{counts:?}");
    }

    proptest! {
        #[test]
        fn any_text_is_read_or_refused(text in "[0-9,;a{}\":inputlength_\n]{0,60}") {
            if let Ok(pairs) = read(&text) {
                prop_assert!(pairs.iter().all(|(input, _)| *input > 0));
            }
        }
    }
}
