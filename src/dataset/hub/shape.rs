//! How a row becomes a conversation.

use base64::prelude::{BASE64_STANDARD, Engine as _};
use serde_json::Value;

use base::setting::InvalidSetting;

use super::{HubDataset, Public};
use crate::account::{Conversations, LeftOut};
use crate::media::MediaFiles;
use crate::rows::Row;
use crate::said::{self, CHATS, Role, Said, names, text};
use crate::{Conversation, Media, MediaKinds, Turn};

/// Columns with prompts other than messages, in the order in which they are looked for.
const PROMPTS: [&str; 9] =
    ["prompt", "turns", "instruction", "question", "problem", "query", "input", "text", "content"];
/// Columns with what an `instruction` is about.
const INPUTS: [&str; 2] = ["input", "context"];
/// Text in place of an image in messages.
const IMAGE_MARK: &str = "<image>";
/// The placeholder that SPEED-Bench contains instead of texts that may not be copied.
pub(crate) const PLACEHOLDER: &str = "FULL BENCHMARK DATA SHOULD BE FETCHED FROM THE SOURCE";
/// Maximum duration of audio; longer clips are left out.
const MAX_AUDIO_SECONDS: f64 = 30.0;

/// How a row becomes a conversation.
pub(super) struct Shape<'a> {
    public: Option<&'static Public>,
    source: Source<'a>,
}

/// Where the prompts of a row are.
enum Source<'a> {
    Column(&'a str),
    /// An instruction, and the column with what it is about.
    Instruction(&'a str, &'static str),
    /// A text with columns in braces.
    Template(&'static str),
}

/// Why a row does not have a conversation.
#[derive(Debug)]
pub(super) enum Unusable {
    /// It is not like the others, which can be used without it.
    Row(String),
    /// The dataset cannot be used.
    Dataset(String),
}

/// The messages of a row that are sent.
#[derive(Debug, Default, PartialEq, Eq)]
struct Prompts {
    system: Option<String>,
    user: Vec<String>,
}

impl<'a> Shape<'a> {
    /// Finds the columns, of which `row` is an example.
    pub(super) fn find(dataset: &'a HubDataset, row: &Row) -> Result<Self, InvalidSetting> {
        let public = dataset.public;
        let of_public = public.map(|public| public.column);
        let source = match (dataset.column.as_deref(), public.and_then(|public| public.template)) {
            (None, Some(template)) => Source::Template(template),
            (given, _) => match given.or(of_public) {
                Some(column) if row.contains_key(column) => Source::Column(column),
                Some(column) => return Err(missing("--hf-column", column, row)),
                None => Source::found(&dataset.repository, row)?,
            },
        };
        Ok(Self { public, source })
    }

    /// Adds the conversation of `row` to `all`, or the reason why it is left out.
    pub(super) fn add(
        &self,
        row: &Row,
        files: &mut MediaFiles,
        all: &mut Conversations,
    ) -> Result<(), Unusable> {
        let mut prompts = self.prompts(row)?;
        let medium = match self.public.and_then(|public| public.medium) {
            Some((kind, column)) => {
                let medium = medium(row.get(column), kind, files).map_err(Unusable::Dataset)?;
                let Some(medium) = medium else {
                    all.leave_out(LeftOut::WithoutPrompt, 1);
                    return Ok(());
                };
                if medium.seconds.is_some_and(|seconds| seconds > MAX_AUDIO_SECONDS) {
                    all.leave_out(LeftOut::TooLong, 1);
                    return Ok(());
                }
                Some(medium)
            }
            None => None,
        };
        let count = prompts.user.len();
        if self.public.is_some_and(|public| public.only_first) {
            all.leave_out(LeftOut::LaterTurn, prompts.user.drain(1.min(count)..).count() as u64);
        }
        let turn = |text: String| Turn { texts: vec![text.into()], ..Turn::default() };
        let mut turns: Vec<Turn> = prompts.user.into_iter().map(turn).collect();
        let Some(first) = turns.first_mut() else {
            all.leave_out(LeftOut::WithoutPrompt, 1);
            return Ok(());
        };
        first.media.extend(medium);
        let system = prompts.system.map(Into::into);
        all.push(Conversation { system, turns, ..Conversation::default() });
        Ok(())
    }

    fn prompts(&self, row: &Row) -> Result<Prompts, Unusable> {
        let mut prompts = Prompts::default();
        let column = |name: &str| row.get(name).unwrap_or(&Value::Null);
        match self.source {
            Source::Column(name) => prompts.add(column(name)).map_err(Unusable::Row)?,
            Source::Instruction(name, about) => {
                let both = [column(name), column(about)].map(text);
                prompts.push(both.join("\n\n").trim());
            }
            Source::Template(template) => prompts.push(&filled(template, row)),
        }
        if prompts.user.iter().any(|prompt| prompt.starts_with(PLACEHOLDER)) {
            let why = "it contains a reference instead of a prompt, since its text may not be \
                        copied; create the file with the dataset's own program and use \
                       --custom-dataset-type with --input-file";
            return Err(Unusable::Dataset(why.to_owned()));
        }
        Ok(prompts)
    }
}

impl Source<'_> {
    /// Finds the column with the prompts of an unknown dataset by its name.
    fn found(repository: &str, row: &Row) -> Result<Self, InvalidSetting> {
        let has = |column: &&str| row.contains_key(*column);
        let Some(column) = CHATS.into_iter().chain(PROMPTS).find(has) else {
            let why = format!(
                "is required, since no column of {repository} has a name that is usual for \
                 prompts; its columns are {}",
                names(row)
            );
            return Err(InvalidSetting::new("--hf-column", why));
        };
        match INPUTS.into_iter().find(has) {
            Some(about) if column == "instruction" => Ok(Self::Instruction(column, about)),
            _ => Ok(Self::Column(column)),
        }
    }
}

impl Prompts {
    /// Adds a text, a message, or a list of them.
    fn add(&mut self, value: &Value) -> Result<(), String> {
        match value {
            Value::Null => Ok(()),
            Value::String(text) => {
                self.push(text);
                Ok(())
            }
            Value::Array(items) => items.iter().try_for_each(|item| self.add(item)),
            Value::Object(message) => self.add_message(message),
            _ => Err("expected a text or messages, got a number or a truth value".to_owned()),
        }
    }

    /// Adds a message of the user or of the system; those of the model are its own responses in
    /// this run.
    fn add_message(&mut self, message: &Row) -> Result<(), String> {
        let Said { role, text } = said::message(message)?;
        match role {
            Role::User => self.push(&text),
            Role::System if self.user.is_empty() => self.system = Some(text),
            _ => {}
        }
        Ok(())
    }

    /// Adds a text that is not blank.
    fn push(&mut self, text: &str) {
        let text = text.replace(IMAGE_MARK, "");
        if !text.trim().is_empty() {
            self.user.push(text.trim().to_owned());
        }
    }
}

/// Replaces the names in braces by the columns of `row`.
fn filled(template: &str, row: &Row) -> String {
    let mut filled = String::new();
    let mut rest = template;
    while let Some((before, after)) = rest.split_once('{') {
        filled.push_str(before);
        let Some((name, after)) = after.split_once('}') else { break };
        filled.push_str(&row.get(name).map(text).unwrap_or_default());
        rest = after;
    }
    filled + rest
}

/// Returns the first medium in `value`: the content of a file, or a URL.
fn medium(
    value: Option<&Value>,
    kind: MediaKinds,
    files: &mut MediaFiles,
) -> Result<Option<Media>, String> {
    match value {
        Some(Value::Array(items)) => medium(items.first(), kind, files),
        Some(Value::Object(file)) => match file.get("bytes") {
            Some(Value::String(bytes)) => {
                let bytes = BASE64_STANDARD.decode(bytes).map_err(|why| why.to_string())?;
                files.inline(kind, bytes, &format!("its {}", kind.names())).map(Some)
            }
            _ => Ok(None),
        },
        Some(Value::String(url)) if url.contains("://") => files.open(kind, url).map(Some),
        _ => Ok(None),
    }
}

/// Returns the error for a column that does not exist.
pub(super) fn missing(flag: &str, column: &str, row: &Row) -> InvalidSetting {
    let why =
        format!("the dataset does not have a column {column:?}; its columns are {}", names(row));
    InvalidSetting::new(flag, why)
}
