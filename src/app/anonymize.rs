//! `aiperf anonymize`: a trace without its texts.

use std::io::{BufWriter, Write};

use anyhow::{Context, bail};

use super::datasets;
use super::outcome::Outcome;
use crate::cli::Anonymize;
use crate::config::{Environment, Ui};
use crate::console;
use crate::dataset::anonymous::{Anonymizer, Written};
use crate::dataset::{
    Config, Dataset, DatasetError, FileFormat, ReplayOutputs, Source, TraceSettings,
};
use crate::platform::replace;
use crate::tokenizer::{Source as TokenizerSource, TokenCounter};

/// Writes the trace, and prints what it has.
pub(super) fn anonymize(asked: &Anonymize, out: &mut impl Write) -> anyhow::Result<Outcome> {
    if asked.output.exists() {
        bail!("{} exists already; choose another file", asked.output.display());
    }
    let source = TokenizerSource::parse(&asked.tokenizer);
    let counter = TokenCounter::load(&source, Environment::process())?;
    let conversations = load(asked, &counter)?.conversations;
    let account = conversations.account();
    let block = u32::try_from(asked.block_size).unwrap_or(u32::MAX);
    let mut anonymizer = Anonymizer::new(&conversations, &counter, block, asked.keep.clone());
    replace::replace(&asked.output, |file| {
        let mut file = BufWriter::new(file);
        for document in anonymizer.documents() {
            serde_json::to_writer(&mut file, &document)?;
            file.write_all(b"\n")?;
        }
        file.flush()
    })
    .with_context(|| format!("cannot write {}", asked.output.display()))?;
    let Written { conversations, requests, input_tokens, blocks, joined_early, with_media } =
        anonymizer.written();
    let count = console::count;
    writeln!(
        out,
        "{}: weka_trace, {} conversations with {} requests, {} input tokens in {} different blocks of \
         {block} tokens",
        asked.output.display(),
        count(conversations),
        count(requests),
        count(input_tokens),
        count(blocks),
    )?;
    if !account.is_whole() {
        writeln!(out, "Left out when reading: {}", account.reasons())?;
    }
    if joined_early > 0 {
        writeln!(
            out,
            "{} sub-agents end before the next request of their agent, and not later as in the input",
            count(joined_early)
        )?;
    }
    if with_media > 0 {
        writeln!(
            out,
            "{} requests have images, audio or video, which are left out",
            count(with_media)
        )?;
    }
    Ok(Outcome::Done)
}

/// Reads the trace with the responses that it has.
fn load(asked: &Anonymize, counter: &TokenCounter) -> Result<Dataset, DatasetError> {
    let read = |replay_outputs| {
        let source = Source::File {
            path: asked.input.clone(),
            format: asked.custom_dataset_type,
            traces: TraceSettings { replay_outputs, ..TraceSettings::default() },
            entries: 1,
            batch_size: 1,
        };
        let config =
            Config { random_seed: Some(0), ..Config::new(source, vec!["unknown".to_owned()]) };
        Dataset::load(&config, counter, true, &datasets::hub(Ui::None))
    };
    match asked.custom_dataset_type {
        Some(FileFormat::Otel) => read(Some(ReplayOutputs::Recorded)),
        Some(_) => read(None),
        // Only a format with responses accepts the setting.
        None => read(Some(ReplayOutputs::Recorded)).or_else(|_| read(None)),
    }
}
