//! `aiperf config expand`: the runs of a configuration file, with all that it resolves to.

use std::ffi::OsString;
use std::fmt::Write as _;

use serde::Serialize;
use serde_json::{Map, Value};

use base::setting::named;

use super::merged;
use crate::cli::{CliError, command};
use crate::config::{Benchmark, Environment, RunConfig};

/// How the runs are printed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Form {
    Text,
    Yaml,
    Json,
}

named! { Form { "text" => Text, "yaml" => Yaml, "json" => Json } }

/// The runs, in AIPerf's layout.
#[derive(Serialize)]
struct Runs {
    sweep_type: &'static str,
    variations: Vec<Run>,
}

/// A run that the file describes.
#[derive(Serialize)]
struct Run {
    index: u64,
    dir_name: String,
    label: String,
    values: Map<String, Value>,
    /// Its settings as in `input_config`.
    #[serde(skip_serializing_if = "Option::is_none")]
    benchmark: Option<Value>,
}

/// What to print of the runs.
#[derive(Debug, Clone, Copy)]
pub(super) struct Shown {
    pub(super) full: bool,
    pub(super) index: Option<usize>,
    pub(super) form: Form,
}

/// Returns the runs of `benchmark`, which the `arguments` describe. Secrets are redacted.
pub(super) fn text(
    benchmark: &Benchmark,
    arguments: &[OsString],
    shown: Shown,
    environment: Environment<'_>,
) -> Result<String, CliError> {
    let sweep = benchmark.config.multi_run.sweep.as_ref();
    if sweep.is_some_and(|sweep| sweep.choice.is_open()) {
        let why = "error: a search chooses its runs from the results of those before them, so that they \
                   are not known yet";
        return Err(CliError::Usage(why.to_owned()));
    }
    let full = shown.full || shown.index.is_some();
    let of = |config: &RunConfig| full.then(|| config.input_config());
    let run = |cell: &crate::config::Cell| Run {
        index: cell.variation.index,
        dir_name: cell.variation.directory().to_owned(),
        label: cell.variation.label().to_owned(),
        values: cell.variation.values.clone(),
        benchmark: of(&cell.config),
    };
    let mut variations: Vec<Run> = benchmark.cells.iter().map(run).collect();
    if variations.is_empty() {
        let (dir_name, label) = ("base".to_owned(), "base".to_owned());
        let benchmark = of(&benchmark.config);
        variations.push(Run { index: 0, dir_name, label, values: Map::new(), benchmark });
    }
    let all = variations.len();
    if let Some(index) = shown.index {
        if index >= all {
            let why =
                format!("error: --index {index}: the file has {all} runs, the first of which is 0");
            return Err(CliError::Usage(why));
        }
        variations = variations.drain(index..=index).collect();
    }
    let merged = merged(arguments, &command(), environment)?;
    let sweep_type = kind(&merged.arguments, benchmark.cells.is_empty());
    let runs = Runs { sweep_type, variations };
    let unreadable = |error: &dyn std::fmt::Display| CliError::Usage(format!("error: {error}"));
    let text = match shown.form {
        Form::Text => listed(&runs, all).map_err(|error| unreadable(&error))?,
        Form::Yaml => serde_norway::to_string(&runs).map_err(|error| unreadable(&error))?,
        Form::Json => {
            serde_json::to_string_pretty(&runs).map_err(|error| unreadable(&error))? + "\n"
        }
    };
    Ok(merged.redacted(&text))
}

/// Returns AIPerf's name of the kind of a sweep.
fn kind(merged: &[OsString], is_single: bool) -> &'static str {
    let has = |start: &str| {
        merged.iter().any(|it| it.to_str().is_some_and(|text| text.starts_with(start)))
    };
    match is_single {
        true => "none",
        false if has("--variant=") => "ScenarioSweep",
        false if has("--sweep-type=zip") => "ZipSweep",
        false => "GridSweep",
    }
}

/// Returns a line for each run, with its settings below if they are there.
fn listed(runs: &Runs, all: usize) -> Result<String, serde_norway::Error> {
    let shown = match runs.variations.len() {
        1 if all == 1 => "1 variation".to_owned(),
        count if count == all => format!("{all} variations"),
        count => format!("showing {count} of {all}"),
    };
    let mut text = format!("Sweep type: {} ({shown})\n\n", runs.sweep_type);
    for Run { index, dir_name, label, benchmark, .. } in &runs.variations {
        // Writing to a string cannot fail.
        let _ = writeln!(text, "[{index}] dir={dir_name}  label={label}");
        if let Some(benchmark) = benchmark {
            for line in serde_norway::to_string(benchmark)?.lines() {
                let _ = writeln!(text, "    {line}");
            }
            text.push('\n');
        }
    }
    Ok(text)
}
