//! `aiperf validate`: reads a dataset file as a run would, and sends nothing.

use std::io::Write;

use super::{Outcome, datasets};
use crate::cli::Validate;
use crate::config::Ui;
use crate::console;
use crate::dataset::{
    CacheBust, Config, Dataset, FileFormat, ModelSelection, Source, TraceSettings,
};
use crate::setting::Named as _;
use crate::tokenizer::TokenCounter;

/// Prints what the file contains.
///
/// # Errors
/// If a run would reject the file.
pub(super) fn validate(asked: &Validate, out: &mut impl Write) -> anyhow::Result<Outcome> {
    let path = asked.file();
    let config = Config {
        source: Source::File {
            path: path.clone(),
            format: Some(asked.format),
            traces: TraceSettings::default(),
            // A directory of pools is read completely, whatever is drawn from it.
            entries: 1,
        },
        models: vec![String::new()],
        model_selection: ModelSelection::default(),
        model_weights: Vec::new(),
        lora_modules: Vec::new(),
        sampling: None,
        output_tokens: None,
        delay_ratio: 1.0,
        cache_bust: CacheBust::None,
        random_seed: Some(0),
    };
    let dataset = Dataset::load(&config, &TokenCounter::builtin(), true, &datasets::hub(Ui::None))?;
    let turns: usize = dataset.conversations.iter().map(|it| it.turns.len()).sum();
    let format: FileFormat = asked.format;
    writeln!(
        out,
        "{}: valid {}, {} conversations with {} requests",
        path.display(),
        format.name(),
        console::count(dataset.conversations.len() as u64),
        console::count(turns as u64),
    )?;
    Ok(Outcome::Done)
}
