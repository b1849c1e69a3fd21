//! Datasets from the hub: their list, and the progress of their downloads. Datasets that no run sends.

use std::fmt::Write as _;
use std::io;
use std::path::Path;

use serde_json::{Value, json};

use crate::config::{Environment, Ui};
use crate::console::DownloadLine;
use crate::dataset::{
    Config, Dataset, DatasetError, FileFormat, PUBLIC, Public, ReplayOutputs, Source, TraceSettings,
};
use crate::hub::Hub;
use crate::terminal::{Stderr, terminal_width};
use crate::tokenizer::TokenCounter;

/// The hub, whose downloads are shown as `ui` asks.
pub(super) fn hub(ui: Ui) -> Hub {
    let line = DownloadLine::new(ui, terminal_width(&io::stderr()), Box::new(Stderr));
    Hub::new(Environment::process()).watched(move |transfer| line.update(transfer))
}

/// Reads a dataset file or directory with the responses that it has.
pub(super) fn recorded(
    path: &Path,
    format: Option<FileFormat>,
    counter: &TokenCounter,
) -> Result<Dataset, DatasetError> {
    let read = |replay_outputs| {
        let source = Source::File {
            path: path.to_owned(),
            format,
            traces: TraceSettings { replay_outputs, ..TraceSettings::default() },
            entries: 1,
            batch_size: 1,
        };
        let config =
            Config { random_seed: Some(0), ..Config::new(source, vec!["unknown".to_owned()]) };
        Dataset::load(&config, counter, true, &hub(Ui::None))
    };
    match format {
        Some(FileFormat::Otel) => read(Some(ReplayOutputs::Recorded)),
        Some(_) => read(None),
        // Only a format with responses accepts the setting.
        None => read(Some(ReplayOutputs::Recorded)).or_else(|_| read(None)),
    }
}

/// The output of `aiperf datasets`: a table with a line for each public dataset.
pub(super) fn table() -> String {
    let titles = ["NAME", "ROWS", "LICENCE", "CONTENT", "REPOSITORY"];
    let lines: Vec<[&str; 5]> = std::iter::once(titles).chain(PUBLIC.iter().map(cells)).collect();
    let width = |column: usize| lines.iter().map(|line| line[column].len()).max().unwrap_or(0);
    let mut text = String::new();
    for line in &lines {
        let padded = line.iter().enumerate().map(|(column, cell)| {
            let width = width(column);
            format!("{cell:width$}")
        });
        let padded = padded.collect::<Vec<_>>().join("  ");
        // Writing to a string cannot fail.
        let _ = writeln!(text, "{}", padded.trim_end());
    }
    text
}

/// The same as a JSON array.
pub(super) fn json() -> String {
    let list: Value = PUBLIC
        .iter()
        .map(|public| {
            let [name, rows, licence, content, repository] = cells(public);
            json!({
                "name": name,
                "repository": repository,
                "subset": public.subset(),
                "split": public.split(),
                "rows": rows,
                "licence": licence,
                "content": content,
            })
        })
        .collect();
    format!("{list:#}\n")
}

const fn cells(public: &Public) -> [&'static str; 5] {
    [public.name, public.rows, public.licence, public.content, public.repository]
}
