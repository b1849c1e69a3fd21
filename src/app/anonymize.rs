//! `aiperf dataset anonymize`: a trace without its texts.

use std::io::{self, BufWriter, Write};

use anyhow::{Context, bail};

use base::interrupt::Interrupt;
use base::platform::replace;
use base::redact::printable;
use base::setting::Named as _;
use dataset::anonymous::Anonymizer;
use dataset::file::write::{AnonymousFormat, Written, mooncake};
use dataset::{Account, Conversations};
use results::console;
use tokens::tokenizer::{Source as TokenizerSource, TokenCounter};

use super::interrupt;
use super::outcome::Outcome;
use crate::cli::Anonymize;
use crate::config::Environment;

/// Tokens of a block, unless the format or the user has another number.
const BLOCK_TOKENS: u32 = 64;

/// Writes the trace without its texts, and prints what it has.
pub(super) fn anonymize(asked: &Anonymize, out: &mut impl Write) -> anyhow::Result<Outcome> {
    let Anonymize { to, block_size, keep, .. } = asked;
    let read = Read::new(asked)?;
    let default = match to {
        AnonymousFormat::WekaTrace => BLOCK_TOKENS,
        AnonymousFormat::MooncakeTrace => mooncake::BLOCK_TOKENS,
    };
    let asked_block = block_size.map(|tokens| u32::try_from(tokens).unwrap_or(u32::MAX));
    let block = asked_block.unwrap_or(default);
    let mut anonymizer = Anonymizer::new(&read.conversations, &read.counter, block, keep.clone());
    let mut written = Written::default();
    let is_written = asked.write(|file| {
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
    if !is_written {
        return Ok(Outcome::Interrupted);
    }
    let count = console::count;
    writeln!(
        out,
        "{}, {} input tokens in {} different blocks of {block} tokens",
        asked.heading(to.name(), anonymizer.written()),
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
    fn new(asked: &Anonymize) -> anyhow::Result<Self> {
        if asked.output.exists() {
            bail!("{} exists already; choose another file", asked.output.display());
        }
        let source = TokenizerSource::parse(&asked.tokenizer);
        let counter = TokenCounter::load(&source, Environment::process())?;
        let conversations =
            dataset::read_recorded(&asked.input, asked.custom_dataset_type, &counter)?;
        Ok(Self { conversations, counter })
    }

    fn account(&self) -> Account {
        self.conversations.account()
    }
}

impl Anonymize {
    /// Writes the output; returns false, without a file, if the user interrupts it.
    fn write(
        &self,
        write: impl FnOnce(&mut BufWriter<&mut dyn Write>) -> io::Result<()>,
    ) -> anyhow::Result<bool> {
        // A signal must not end the process now, which would leave a temporary file.
        let interrupter = interrupt::listen()?;
        let interrupt = interrupter.interrupt();
        let written = replace::replace(&self.output, |file| {
            let mut file = Interruptible { file, interrupt: &interrupt };
            let mut file = BufWriter::new(&mut file as &mut dyn Write);
            write(&mut file)?;
            file.flush()
        });
        if interrupt.is_draining() && written.is_err() {
            return Ok(false);
        }
        written.with_context(|| format!("cannot write {}", self.output.display()))?;
        Ok(true)
    }

    /// The file, its format and what it has.
    fn heading(&self, format: &str, written: &Written) -> String {
        format!(
            "{}: {format}, {} conversations with {} requests",
            printable(&self.output.display().to_string()),
            console::count(written.conversations),
            console::count(written.requests),
        )
    }
}

/// A file to which nothing is written after an interrupt.
struct Interruptible<'a> {
    file: &'a mut dyn Write,
    interrupt: &'a Interrupt,
}

impl Write for Interruptible<'_> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        if self.interrupt.is_draining() {
            return Err(io::Error::other("interrupted"));
        }
        self.file.write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.file.flush()
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

#[cfg(test)]
mod tests {
    use base::interrupt::Interrupter;

    use super::*;

    #[test]
    fn an_interrupt_leaves_no_file() {
        let directory = tempfile::tempdir().unwrap();
        let interrupter = Interrupter::default();
        let interrupt = interrupter.interrupt();
        let written = replace::replace(&directory.path().join("out"), |file| {
            let mut file = Interruptible { file, interrupt: &interrupt };
            file.write_all(b"{}\n")?;
            interrupter.signal();
            file.write_all(b"{}\n")
        });
        assert!(written.is_err());
        assert_eq!(std::fs::read_dir(directory.path()).unwrap().count(), 0);
    }
}
