//! Makes a dataset: reads or generates it, then fills in what was left open.

use std::fs::File;
use std::io::{BufRead, BufReader, Read};
use std::path::Path;
use std::sync::Arc;

use rand::RngExt;
use rand_chacha::ChaCha8Rng;

use super::seed::Seed;
use super::{
    Config, Conversation, Dataset, DatasetError, FileFormat, ModelSelection, Source, inputs_json,
    jsonl, share_gpt, synthetic,
};
use crate::tokenizer::TokenCounter;

/// The largest JSON file that is read whole, in bytes.
const FILE_LIMIT: u64 = 4 << 30;

impl Dataset {
    /// Reads or generates what `config` describes. Token counts are filled in
    /// where the endpoint `tokenizes_input`.
    pub fn load(
        config: &Config,
        counter: &TokenCounter,
        tokenizes_input: bool,
        seed: Seed,
    ) -> Result<Self, DatasetError> {
        let mut conversations = match &config.source {
            Source::Synthetic(synthetic) => synthetic::generate(config, synthetic, counter, seed)?,
            Source::File { path, format } => read(path, *format, counter)?,
        };
        if conversations.is_empty() {
            return Err(DatasetError::Empty);
        }
        let mut models = Models { config, next: 0, rng: seed.stream("dataset.model") };
        let mut lengths = seed.stream("dataset.output_tokens");
        for (index, conversation) in conversations.iter_mut().enumerate() {
            if conversation.id.is_empty() {
                conversation.id = seed.uuid("dataset.id", index as u64).to_string().into();
            }
            count_tokens(conversation, counter, tokenizes_input);
            for turn in &mut conversation.turns {
                if turn.model.is_empty() {
                    turn.model = models.next();
                }
                if turn.max_tokens.is_none() && turn.raw_payload.is_none() {
                    turn.max_tokens =
                        config.output_tokens.map(|spread| spread.draw(&mut lengths) as u32);
                }
            }
        }
        Ok(Self { conversations })
    }
}

/// Gives each turn its model.
struct Models<'a> {
    config: &'a Config,
    next: usize,
    rng: ChaCha8Rng,
}

impl Models<'_> {
    fn next(&mut self) -> Arc<str> {
        let models = &self.config.models;
        let index = match self.config.model_selection {
            _ if models.len() < 2 => 0,
            ModelSelection::RoundRobin => self.next % models.len(),
            ModelSelection::Random => self.rng.random_range(0..models.len()),
        };
        self.next += 1;
        models.get(index).map_or("", String::as_str).into()
    }
}

fn count_tokens(conversation: &mut Conversation, counter: &TokenCounter, tokenizes_input: bool) {
    if !tokenizes_input {
        conversation.context_tokens = None;
        conversation.turns.iter_mut().for_each(|turn| turn.input_tokens = None);
        return;
    }
    if conversation.context_tokens.is_none() {
        let context = [&conversation.system, &conversation.user_context];
        conversation.context_tokens =
            Some(context.into_iter().flatten().map(|text| counter.count(text)).sum());
    }
    for turn in &mut conversation.turns {
        if turn.input_tokens.is_none() && turn.raw_payload.is_none() {
            turn.input_tokens = Some(turn.texts.iter().map(|text| counter.count(text)).sum());
        }
    }
}

fn read(
    path: &Path,
    format: Option<FileFormat>,
    counter: &TokenCounter,
) -> Result<Vec<Conversation>, DatasetError> {
    let open = || File::open(path).map_err(|error| DatasetError::read(path, &error));
    let format = match format {
        Some(format) => format,
        None => detect(BufReader::new(open()?), path)?,
    };
    let mut reader = BufReader::new(open()?);
    match format {
        FileFormat::SingleTurn => jsonl::single_turn(reader, path),
        FileFormat::MultiTurn => jsonl::multi_turn(reader, path),
        FileFormat::InputsJson | FileFormat::ShareGpt => {
            let mut text = String::new();
            let limited = reader.by_ref().take(FILE_LIMIT).read_to_string(&mut text);
            limited.map_err(|error| DatasetError::read(path, &error))?;
            let parsed = match format {
                FileFormat::InputsJson => inputs_json::parse(&text),
                _ => share_gpt::parse(&text, counter),
            };
            parsed.map_err(|reason| DatasetError::Content { path: path.to_owned(), reason })
        }
    }
}

/// Finds the format out from the beginning of the file.
fn detect(mut reader: impl BufRead, path: &Path) -> Result<FileFormat, DatasetError> {
    let mut line = String::new();
    while line.trim().is_empty() {
        line.clear();
        let read = reader.by_ref().take(1 << 20).read_line(&mut line);
        if read.map_err(|error| DatasetError::read(path, &error))? == 0 {
            return Err(DatasetError::Empty);
        }
    }
    let start = line.trim_start();
    let has_member = |name: &str| {
        serde_json::from_str::<serde_json::Value>(start)
            .is_ok_and(|value| value.get(name).is_some())
    };
    Ok(match start.as_bytes().first() {
        Some(b'[') => FileFormat::ShareGpt,
        _ if has_member("turns") => FileFormat::MultiTurn,
        _ if has_member("data") => FileFormat::InputsJson,
        // A JSON file over several lines: its first line is no value by itself.
        _ if start.trim_end() == "{" || start.starts_with("{\"data\"") => FileFormat::InputsJson,
        _ => FileFormat::SingleTurn,
    })
}
