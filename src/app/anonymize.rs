//! `aiperf anonymize`: a trace without its texts.

use std::io::{BufWriter, Write};

use anyhow::{Context, bail};

use super::datasets;
use super::outcome::Outcome;
use crate::cli::Anonymize;
use crate::config::Environment;
use crate::console;
use crate::dataset::anonymous::{Anonymizer, Written};
use crate::platform::replace;
use crate::tokenizer::{Source as TokenizerSource, TokenCounter};

/// Writes the trace, and prints what it has.
pub(super) fn anonymize(asked: &Anonymize, out: &mut impl Write) -> anyhow::Result<Outcome> {
    if asked.output.exists() {
        bail!("{} exists already; choose another file", asked.output.display());
    }
    let source = TokenizerSource::parse(&asked.tokenizer);
    let counter = TokenCounter::load(&source, Environment::process())?;
    let format = asked.custom_dataset_type;
    let conversations = datasets::recorded(&asked.input, format, &counter)?.conversations;
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
