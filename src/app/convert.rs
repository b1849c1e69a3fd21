//! `aiperf convert`: a trace in another format. `aiperf anonymize`: a trace without its texts.

use std::io::{self, BufWriter, Write};

use anyhow::{Context, bail};

use super::outcome::Outcome;
use crate::cli::{Anonymize, Convert, Files};
use crate::config::Environment;
use crate::console;
use crate::dataset::anonymous::Anonymizer;
use crate::dataset::file::write::{AnonymousFormat, Written, mooncake};
use crate::dataset::{self, Account, Conversations, file};
use crate::platform::replace;
use crate::setting::Named as _;
use crate::tokenizer::{Source as TokenizerSource, TokenCounter};

/// Tokens of a block, unless the format or the user has another number.
const BLOCK_TOKENS: u32 = 64;

/// Writes the trace in another format, and prints what it has.
pub(super) fn convert(asked: &Convert, out: &mut impl Write) -> anyhow::Result<Outcome> {
    let read = Read::new(&asked.files)?;
    let mut written = Written::default();
    asked.files.write(|file| {
        written = file::write::write(&read.conversations, asked.to, file)?;
        Ok(())
    })?;
    writeln!(out, "{}", asked.files.heading(asked.to.name(), &written))?;
    differences(&read.account(), &written, out)?;
    Ok(Outcome::Done)
}

/// Writes the trace without its texts, and prints what it has.
pub(super) fn anonymize(asked: &Anonymize, out: &mut impl Write) -> anyhow::Result<Outcome> {
    let Anonymize { files, to, block_size, keep } = asked;
    let read = Read::new(files)?;
    let default = match to {
        AnonymousFormat::WekaTrace => BLOCK_TOKENS,
        AnonymousFormat::MooncakeTrace => mooncake::BLOCK_TOKENS,
    };
    let asked_block = block_size.map(|tokens| u32::try_from(tokens).unwrap_or(u32::MAX));
    let block = asked_block.unwrap_or(default);
    let mut anonymizer = Anonymizer::new(&read.conversations, &read.counter, block, keep.clone());
    let mut written = Written::default();
    files.write(|file| {
        for document in anonymizer.documents() {
            match to {
                AnonymousFormat::WekaTrace => document.write(file)?,
                AnonymousFormat::MooncakeTrace => {
                    mooncake::write_document(&document, &mut written, file)?;
                }
            }
        }
        Ok(())
    })?;
    let count = console::count;
    writeln!(
        out,
        "{}, {} input tokens in {} different blocks of {block} tokens",
        files.heading(to.name(), anonymizer.written()),
        count(anonymizer.input_tokens()),
        count(anonymizer.blocks() as u64),
    )?;
    if *to == AnonymousFormat::MooncakeTrace && block != default {
        writeln!(out, "Replay it with --isl-block-size {block}")?;
    }
    written.add(anonymizer.written());
    differences(&read.account(), &written, out)?;
    Ok(Outcome::Done)
}

/// What was read, and the tokenizer for it.
struct Read {
    conversations: Conversations,
    counter: TokenCounter,
}

impl Read {
    fn new(files: &Files) -> anyhow::Result<Self> {
        if files.output.exists() {
            bail!("{} exists already; choose another file", files.output.display());
        }
        let source = TokenizerSource::parse(&files.tokenizer);
        let counter = TokenCounter::load(&source, Environment::process())?;
        let conversations =
            dataset::read_recorded(&files.input, files.custom_dataset_type, &counter)?;
        Ok(Self { conversations, counter })
    }

    fn account(&self) -> Account {
        self.conversations.account()
    }
}

impl Files {
    fn write(
        &self,
        write: impl FnOnce(&mut BufWriter<&mut dyn Write>) -> io::Result<()>,
    ) -> anyhow::Result<()> {
        let written = replace::replace(&self.output, |file| {
            let mut file = BufWriter::new(file);
            write(&mut file)?;
            file.flush()
        });
        written.with_context(|| format!("cannot write {}", self.output.display()))
    }

    /// The file, its format and what it has.
    fn heading(&self, format: &str, written: &Written) -> String {
        format!(
            "{}: {format}, {} conversations with {} requests",
            self.output.display(),
            console::count(written.conversations),
            console::count(written.requests),
        )
    }
}

/// Prints what was left out, or is different from the input.
fn differences(account: &Account, written: &Written, out: &mut impl Write) -> io::Result<()> {
    if !account.is_whole() {
        writeln!(out, "Left out when reading: {}", account.reasons())?;
    }
    for (number, words) in written.differences() {
        writeln!(out, "{} {words}", console::count(number))?;
    }
    Ok(())
}
