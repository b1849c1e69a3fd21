//! `aiperf dataset validate`: reads a dataset file as a run would, and sends nothing.

use std::io::Write;

use base::setting::Named as _;
use dataset::{Config, Dataset, Source, TraceSettings, detected_format};
use results::console;
use tokens::tokenizer::TokenCounter;

use super::datasets;
use super::outcome::Outcome;
use crate::cli::Validate;
use crate::config::Ui;

/// Prints what the file contains.
///
/// # Errors
/// If a run would reject the file.
pub(super) fn validate(asked: &Validate, out: &mut impl Write) -> anyhow::Result<Outcome> {
    let Validate { path, format } = asked;
    let config = Config {
        random_seed: Some(0),
        ..Config::new(
            Source::File {
                path: path.clone(),
                format: *format,
                traces: TraceSettings::default(),
                // A directory of pools is read completely, whatever is drawn from it.
                entries: 1,
                batch_size: 1,
            },
            vec![String::new()],
        )
    };
    let dataset = Dataset::load(&config, &TokenCounter::builtin(), true, &datasets::hub(Ui::None))?;
    let turns: usize = dataset.conversations.iter().map(|it| it.own_turns().len()).sum();
    let found = match format {
        // A pipe has been read.
        None if path.is_file() || path.is_dir() => detected_format(path)?,
        given => *given,
    };
    let name = found.map_or_else(String::new, |format| format!(" {}", format.name()));
    writeln!(
        out,
        "{}: valid{name}, {} conversations with {} requests",
        path.display(),
        console::count(dataset.conversations.len() as u64),
        console::count(turns as u64),
    )?;
    Ok(Outcome::Done)
}
