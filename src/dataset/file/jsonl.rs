//! JSONL files: `single_turn` with one request per line, and `multi_turn` with one conversation per
//! line.
//!
//! `random_pool` is `single_turn` with random sampling. In `raw_payload` each line is a body, and in
//! `openai_batch` a request of OpenAI's Batch API with a body.
//!
//! A turn has `text` (also `prompt`) or `texts` (texts, or objects of `name` and `contents`), and may
//! have `role`, `model`, `max_tokens` (also `output_length` or `output_tokens`), `delay` in milliseconds and `timestamp`, the time
//! at which a fixed schedule sends it. In addition to the text or instead of it, a turn may have
//! media: `image`, `audio` and `video`, or lists of them, each a path, a URL or a data URL.
//! `image_uuids` has the UUIDs under which the server caches the `images`. Any other member is
//! rejected, since a misspelt one would silently change the benchmark.
//!
//! The lines of a `single_turn` file with the same `session_id` are sent one after the other, none
//! with the lines before it.

use std::collections::HashMap;
use std::path::Path;
use std::sync::Arc;

use serde::Deserialize;
use serde_json::value::RawValue;
use serde_json::{Map, Value};

use base::units::Nanos;

use super::lines::Lines;
use super::trace::{TimeUnit, instant};
use super::{Fault, Loaded, inputs_json, json_reason};
use crate::media::MediaFiles;
use crate::{Conversation, Media, MediaKinds, Text, Turn};

/// Members of other tools' files that are not supported yet.
#[rustfmt::skip]
const UNSUPPORTED: &[&str] = &[
    "tools", "raw_tools", "messages", "raw_messages", "payload", "extra", "hash_ids", "input_length",
];

/// The members of a turn, for messages.
const TURN_MEMBERS: &str = "text, prompt, texts, image, images, image_uuids, audio, audios, video, videos, role, model, \
     max_tokens, output_length, output_tokens, delay and timestamp";

#[derive(Deserialize)]
struct TurnMembers {
    #[serde(rename = "type")]
    kind: Option<String>,
    /// vLLM's own datasets have a `prompt`.
    #[serde(alias = "prompt")]
    text: Option<String>,
    texts: Option<Vec<TextMember>>,
    #[serde(default)]
    image: Named,
    #[serde(default)]
    images: Named<ImageMember>,
    image_uuids: Option<Vec<String>>,
    #[serde(default)]
    audio: Named,
    #[serde(default)]
    audios: Named,
    #[serde(default)]
    video: Named,
    #[serde(default)]
    videos: Named,
    role: Option<String>,
    model: Option<String>,
    max_tokens: Option<u32>,
    #[serde(alias = "output_tokens")]
    output_length: Option<u32>,
    /// Delay in milliseconds.
    delay: Option<f64>,
    /// Timestamp in milliseconds.
    timestamp: Option<f64>,
    #[serde(flatten)]
    rest: Map<String, Value>,
}

/// An item of `texts`: a text, or several with a name.
#[derive(Deserialize)]
#[serde(
    untagged,
    expecting = "an entry of `texts` must be a string, or an object with `name` and `contents`"
)]
enum TextMember {
    Plain(String),
    Named(NamedTexts),
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct NamedTexts {
    name: Option<String>,
    contents: Vec<String>,
}

impl TextMember {
    fn into_texts(self) -> Vec<Text> {
        match self {
            Self::Plain(text) => vec![text.into()],
            Self::Named(NamedTexts { name, contents }) => {
                let name: Option<Arc<str>> = name.filter(|name| !name.is_empty()).map(Arc::from);
                let named = |text: String| match &name {
                    Some(name) => Text::from(text).named(Arc::clone(name)),
                    None => Text::from(text),
                };
                contents.into_iter().map(named).collect()
            }
        }
    }
}

/// One or several media.
#[derive(Default, Deserialize)]
#[serde(
    untagged,
    expecting = "media must be a string or a list of strings; `images` may also have objects with \
                 `contents` and `uuids`"
)]
enum Named<T = String> {
    #[default]
    None,
    One(T),
    Several(Vec<T>),
}

impl<T> Named<T> {
    fn names(&self) -> &[T] {
        match self {
            Self::None => &[],
            Self::One(name) => std::slice::from_ref(name),
            Self::Several(names) => names,
        }
    }
}

/// An entry of `images`: one image, or several with UUIDs.
#[derive(Deserialize)]
#[serde(untagged)]
enum ImageMember {
    Plain(String),
    WithUuids(ImagesWithUuids),
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct ImagesWithUuids {
    #[serde(default)]
    contents: Vec<String>,
    #[serde(default)]
    uuids: Vec<String>,
}

#[derive(Deserialize)]
struct ConversationMembers {
    #[serde(rename = "type")]
    kind: Option<String>,
    session_id: Option<String>,
    turns: Vec<TurnMembers>,
    #[serde(flatten)]
    rest: Map<String, Value>,
}

/// A line of a `single_turn` file.
#[derive(Deserialize)]
struct RequestMembers {
    session_id: Option<String>,
    #[serde(flatten)]
    turn: TurnMembers,
}

/// Reads the requests of a `single_turn` file at `path`. Those with the same `session_id` are the
/// turns of a conversation, which do not repeat each other.
pub(super) fn read_requests(lines: Lines<'_>, path: &Path) -> Result<Loaded, Fault> {
    let mut files = MediaFiles::beside(path);
    let mut conversations: Vec<Conversation> = Vec::new();
    let mut places: HashMap<Arc<str>, usize> = HashMap::new();
    for line in lines {
        let line = line?;
        let (id, turn) =
            request(&line.text, &mut files).map_err(|why| Fault::Line(line.number, why))?;
        let next = conversations.len();
        let at = if id.is_empty() { next } else { *places.entry(Arc::clone(&id)).or_insert(next) };
        match conversations.get_mut(at) {
            Some(conversation) => {
                conversation.turns.push(turn);
                conversation.standalone_turns = true;
            }
            None => {
                conversations.push(Conversation {
                    id,
                    turns: vec![turn],
                    ..Conversation::default()
                });
            }
        }
    }
    Ok(conversations.into())
}

/// Parses a line of a `single_turn` file: the identifier of its session, if any, and a turn.
fn request(line: &str, files: &mut MediaFiles) -> Result<(Arc<str>, Turn), String> {
    let RequestMembers { session_id, turn } = from_object(line)?;
    check_kind(turn.kind.as_deref(), "single_turn")?;
    Ok((session_id.unwrap_or_default().into(), turn.into_turn(files)?))
}

/// Reads all lines of the file at `path` with `parse`. The identifier of a conversation must be
/// unique.
pub(super) fn read(
    lines: Lines<'_>,
    path: &Path,
    parse: fn(&str, &mut MediaFiles) -> Result<Conversation, String>,
) -> Result<Loaded, Fault> {
    let mut files = MediaFiles::beside(path);
    let mut conversations: Vec<Conversation> = Vec::new();
    let mut seen: HashMap<Arc<str>, u64> = HashMap::new();
    for line in lines {
        let line = line?;
        let conversation =
            parse(&line.text, &mut files).map_err(|why| Fault::Line(line.number, why))?;
        if !conversation.id.is_empty()
            && let Some(earlier) = seen.insert(Arc::clone(&conversation.id), line.number)
        {
            let reason =
                format!("session_id {:?} is already used by line {earlier}", conversation.id);
            return Err(Fault::Line(line.number, reason));
        }
        conversations.push(conversation);
    }
    Ok(conversations.into())
}

/// Parses a line of a `random_pool` file: a request that any session may draw.
pub(super) fn random_pool(line: &str, files: &mut MediaFiles) -> Result<Conversation, String> {
    let members: TurnMembers = from_object(line)?;
    check_kind(members.kind.as_deref(), "random_pool")?;
    if members.timestamp.is_some() || members.delay.is_some() {
        return Err(
            "`timestamp` and `delay` are not supported in requests that are drawn at random".into(),
        );
    }
    Ok(Conversation { turns: vec![members.into_turn(files)?], ..Conversation::default() })
}

/// A line of a file for OpenAI's Batch API.
#[derive(Deserialize)]
struct BatchLine<'a> {
    custom_id: String,
    method: Option<String>,
    url: String,
    #[serde(borrow)]
    body: &'a RawValue,
}

/// Returns whether a line with these members is one of OpenAI's Batch API.
pub(super) fn is_batch(members: &Map<String, Value>) -> bool {
    ["custom_id", "url", "body"].iter().all(|name| members.contains_key(*name))
}

/// Reads a file for OpenAI's Batch API: requests with a unique `custom_id`, all for one `url`, whose
/// bodies are sent unchanged.
pub(super) fn read_batch(lines: Lines<'_>) -> Result<Loaded, Fault> {
    let mut conversations: Vec<Conversation> = Vec::new();
    let mut seen: HashMap<Arc<str>, u64> = HashMap::new();
    let mut path: Option<String> = None;
    for line in lines {
        let line = line?;
        let wrong = |why: String| Fault::Line(line.number, why);
        let request: BatchLine<'_> = from_object(&line.text).map_err(wrong)?;
        if request.method.as_deref().is_some_and(|method| !method.eq_ignore_ascii_case("post")) {
            return Err(wrong("the `method` of a request must be POST".to_owned()));
        }
        let path = path.get_or_insert_with(|| request.url.clone());
        if *path != request.url {
            return Err(wrong(format!(
                "its `url` is {:?}, but that of an earlier line is {path:?}; a run has one endpoint",
                request.url
            )));
        }
        let id: Arc<str> = request.custom_id.into();
        if let Some(earlier) = seen.insert(Arc::clone(&id), line.number) {
            return Err(wrong(format!("custom_id {id:?} is already used by line {earlier}")));
        }
        let turns = vec![inputs_json::turn(request.body).map_err(wrong)?];
        conversations.push(Conversation { id, turns, ..Conversation::default() });
    }
    let note = path.map(|path| format!("requests for {path}")).unwrap_or_default();
    Ok(Loaded { conversations: conversations.into(), note })
}

/// Parses a line of a `raw_payload` file: a body that is sent unchanged.
pub(super) fn raw_payload(line: &str, _files: &mut MediaFiles) -> Result<Conversation, String> {
    let payload: &RawValue = from_object(line)?;
    Ok(Conversation { turns: vec![inputs_json::turn(payload)?], ..Conversation::default() })
}

pub(super) fn multi_turn(line: &str, files: &mut MediaFiles) -> Result<Conversation, String> {
    let members: ConversationMembers = from_object(line)?;
    check_kind(members.kind.as_deref(), "multi_turn")?;
    refuse(&members.rest, "session_id and turns")?;
    if members.turns.is_empty() {
        return Err("the conversation does not have any turns".to_owned());
    }
    let turns = (1..)
        .zip(members.turns)
        .map(|(number, turn)| turn.into_turn(files).map_err(|why| format!("turn {number}: {why}")))
        .collect::<Result<_, String>>()?;
    let id = members.session_id.unwrap_or_default().into();
    Ok(Conversation { id, turns, ..Conversation::default() })
}

impl TurnMembers {
    fn into_turn(self, files: &mut MediaFiles) -> Result<Turn, String> {
        refuse(&self.rest, TURN_MEMBERS)?;
        let media = self.media(files)?;
        let texts: Vec<Text> = match (self.text, self.texts) {
            (Some(text), None) => vec![text.into()],
            (None, Some(texts)) => texts.into_iter().flat_map(TextMember::into_texts).collect(),
            (Some(_), Some(_)) => return Err("it has both `text` and `texts`".to_owned()),
            (None, None) if !media.is_empty() => Vec::new(),
            (None, None) => return Err("it has neither `text` nor `texts`".to_owned()),
        };
        if (texts.is_empty() && media.is_empty()) || texts.iter().any(|text| text.bytes() == 0) {
            return Err("a text is empty".to_owned());
        }
        if self.max_tokens.is_some() && self.output_length.is_some() {
            return Err("it has both `max_tokens` and `output_length`".to_owned());
        }
        let max_tokens = self.max_tokens.or(self.output_length);
        if max_tokens == Some(0) {
            return Err("the number of output tokens must be at least 1".to_owned());
        }
        Ok(Turn {
            model: self.model.unwrap_or_default().into(),
            role: self.role.map(Arc::from),
            texts,
            media,
            max_tokens,
            timestamp: self.timestamp.map(|at| instant(at, TimeUnit::Milliseconds)).transpose()?,
            delay: delay(self.delay)?,
            ..Turn::default()
        })
    }
}

impl TurnMembers {
    /// Opens the images, then the audio, then the video.
    fn media(&self, files: &mut MediaFiles) -> Result<Vec<Media>, String> {
        let kinds = [
            (MediaKinds::AUDIO, &self.audio, &self.audios),
            (MediaKinds::VIDEO, &self.video, &self.videos),
        ];
        let mut media = self.images(files)?;
        for (kind, one, several) in kinds {
            for name in one.names().iter().chain(several.names()) {
                media.push(files.open(kind, name)?);
            }
        }
        Ok(media)
    }
}

impl TurnMembers {
    /// Opens the images, with their UUIDs.
    fn images(&self, files: &mut MediaFiles) -> Result<Vec<Media>, String> {
        let mut listed = Vec::new();
        for member in self.images.names() {
            listed.extend(member.listed()?);
        }
        if let Some(uuids) = &self.image_uuids {
            if !self.image.names().is_empty() {
                return Err("`image_uuids` are those of `images`; use it instead of `image`".into());
            }
            if listed.iter().any(|(_, uuid)| uuid.is_some()) {
                return Err("it has both `image_uuids` and `uuids`".to_owned());
            }
            let names: Vec<&str> = listed.iter().map(|(name, _)| *name).collect();
            listed = with_uuids("image_uuids", "images", &names, uuids)?;
        }
        let first = self.image.names().iter().map(|name| (name.as_str(), None));
        let image = |(name, uuid): (&str, Option<&str>)| match uuid {
            Some("") => Err("the UUID of an image is empty".to_owned()),
            Some(uuid) if name.is_empty() => Ok(Media::cached_image(uuid)),
            uuid => {
                let media = files.open(MediaKinds::IMAGE, name)?;
                Ok(Media { uuid: uuid.map(Arc::from), ..media })
            }
        };
        first.chain(listed).map(image).collect()
    }
}

impl ImageMember {
    fn listed(&self) -> Result<Vec<(&str, Option<&str>)>, String> {
        match self {
            Self::Plain(name) => Ok(vec![(name, None)]),
            Self::WithUuids(ImagesWithUuids { contents, uuids }) if uuids.is_empty() => {
                Ok(contents.iter().map(|name| (name.as_str(), None)).collect())
            }
            Self::WithUuids(ImagesWithUuids { contents, uuids }) => {
                let names: Vec<&str> = contents.iter().map(String::as_str).collect();
                with_uuids("uuids", "contents", &names, uuids)
            }
        }
    }
}

/// Returns each of `names` with its UUID, or the UUIDs alone without names. The errors call them by
/// their members.
fn with_uuids<'a>(
    uuids_member: &str,
    names_member: &str,
    names: &[&'a str],
    uuids: &'a [String],
) -> Result<Vec<(&'a str, Option<&'a str>)>, String> {
    if !names.is_empty() && names.len() != uuids.len() {
        return Err(format!(
            "`{uuids_member}` has {} entries and `{names_member}` has {}, but each image has one UUID",
            uuids.len(),
            names.len()
        ));
    }
    let name = |at: usize| names.get(at).copied().unwrap_or_default();
    Ok(uuids.iter().enumerate().map(|(at, uuid)| (name(at), Some(uuid.as_str()))).collect())
}

/// Converts a delay in milliseconds.
pub(super) fn delay(millis: Option<f64>) -> Result<Nanos, String> {
    match millis {
        Some(millis) if millis < 0.0 => {
            Err(format!("the delay must not be negative, got {millis} ms"))
        }
        millis => Ok(Nanos::from_millis(millis.unwrap_or(0.0))),
    }
}

/// Parses an object; serde alone would also accept an array of its members.
pub(super) fn from_object<'a, T: Deserialize<'a>>(line: &'a str) -> Result<T, String> {
    if line.trim_start().starts_with('{') {
        serde_json::from_str(line).map_err(|error| json_reason(&error))
    } else {
        Err("not a JSON object".to_owned())
    }
}

/// Checks that the format that a line names, if any, is the expected one.
pub(super) fn check_kind(kind: Option<&str>, expected: &str) -> Result<(), String> {
    match kind {
        Some(kind) if kind != expected => {
            Err(format!("`type` is {kind:?}, but the file is read as {expected}"))
        }
        _ => Ok(()),
    }
}

/// Rejects unknown members.
fn refuse(rest: &Map<String, Value>, known: &str) -> Result<(), String> {
    match rest.keys().next() {
        None => Ok(()),
        Some(name) if UNSUPPORTED.contains(&name.as_str()) => {
            Err(format!("`{name}` is not supported yet; supported fields are {known}"))
        }
        Some(name) => Err(format!("unknown field `{name}`; supported fields are {known}")),
    }
}
