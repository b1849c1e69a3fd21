//! `single_turn` and `multi_turn`: JSONL, a request or a conversation a line.

use std::io::{BufRead, Read};
use std::path::Path;
use std::sync::Arc;

use serde::Deserialize;
use serde::de::{DeserializeOwned, IgnoredAny};

use super::{Conversation, DatasetError, Turn};
use crate::units::Nanos;

/// The longest line that is taken, in bytes.
const LINE_LIMIT: u64 = 64 << 20;

/// A line of `single_turn`, or a turn of `multi_turn`.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct TurnLine {
    #[serde(rename = "type")]
    _type: Option<IgnoredAny>,
    text: Option<String>,
    texts: Option<Vec<TextEntry>>,
    role: Option<String>,
    model: Option<String>,
    #[serde(alias = "max_tokens")]
    output_length: Option<u32>,
    /// Milliseconds.
    delay: Option<f64>,
    timestamp: Option<IgnoredAny>,
    image: Option<IgnoredAny>,
    images: Option<IgnoredAny>,
    audio: Option<IgnoredAny>,
    audios: Option<IgnoredAny>,
    video: Option<IgnoredAny>,
    videos: Option<IgnoredAny>,
}

/// An entry of `texts`: a text, or several under a name.
#[derive(Deserialize)]
#[serde(untagged)]
enum TextEntry {
    One(String),
    Several { contents: Vec<String> },
}

/// A line of `multi_turn`.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct ConversationLine {
    #[serde(rename = "type")]
    _type: Option<IgnoredAny>,
    session_id: Option<String>,
    system: Option<String>,
    turns: Vec<TurnLine>,
}

/// Reads `single_turn` lines: each is a conversation of one turn.
pub(super) fn single_turn(
    reader: impl BufRead,
    path: &Path,
) -> Result<Vec<Conversation>, DatasetError> {
    lines(reader, path, |line: TurnLine| {
        Ok(Conversation { turns: vec![turn(line)?], ..Conversation::default() })
    })
}

/// Reads `multi_turn` lines.
pub(super) fn multi_turn(
    reader: impl BufRead,
    path: &Path,
) -> Result<Vec<Conversation>, DatasetError> {
    lines(reader, path, |line: ConversationLine| {
        if line.turns.is_empty() {
            return Err("`turns` is empty".to_owned());
        }
        Ok(Conversation {
            id: line.session_id.unwrap_or_default().into(),
            system: line.system.map(Arc::from),
            turns: line.turns.into_iter().map(turn).collect::<Result<_, _>>()?,
            ..Conversation::default()
        })
    })
}

/// Reads each line that is not blank as a `T`, and that as a conversation.
fn lines<T: DeserializeOwned>(
    mut reader: impl BufRead,
    path: &Path,
    convert: impl Fn(T) -> Result<Conversation, String>,
) -> Result<Vec<Conversation>, DatasetError> {
    let mut conversations = Vec::new();
    let mut line = Vec::new();
    for number in 1.. {
        line.clear();
        let read = reader.by_ref().take(LINE_LIMIT + 1).read_until(b'\n', &mut line);
        if read.map_err(|error| DatasetError::read(path, &error))? == 0 {
            break;
        }
        let bad = |reason: String| DatasetError::line(path, number, reason);
        if line.len() as u64 > LINE_LIMIT {
            return Err(bad(format!("the line has more than {LINE_LIMIT} bytes")));
        }
        let text =
            std::str::from_utf8(&line).map_err(|error| bad(format!("not UTF-8: {error}")))?;
        if text.trim().is_empty() {
            continue;
        }
        let parsed = serde_json::from_str(text).map_err(|error| bad(error.to_string()))?;
        conversations.push(convert(parsed).map_err(bad)?);
    }
    Ok(conversations)
}

fn turn(line: TurnLine) -> Result<Turn, String> {
    let unsupported = [
        ("image", line.image.is_some() || line.images.is_some()),
        ("audio", line.audio.is_some() || line.audios.is_some()),
        ("video", line.video.is_some() || line.videos.is_some()),
        ("timestamp", line.timestamp.is_some()),
    ];
    if let Some((name, _)) = unsupported.iter().find(|(_, is_there)| *is_there) {
        return Err(format!("it has `{name}`, which aiperf does not support yet"));
    }
    let mut texts: Vec<Arc<str>> = Vec::new();
    for entry in line.texts.into_iter().flatten() {
        match entry {
            TextEntry::One(text) => texts.push(text.into()),
            TextEntry::Several { contents } => texts.extend(contents.into_iter().map(Arc::from)),
        }
    }
    match (line.text, texts.is_empty()) {
        (Some(text), true) => texts.push(text.into()),
        (Some(_), false) => return Err("it has both `text` and `texts`; give one".to_owned()),
        (None, true) => return Err("it has neither `text` nor `texts`".to_owned()),
        (None, false) => {}
    }
    if line.delay.is_some_and(|delay| !delay.is_finite() || delay < 0.0) {
        return Err("`delay` is no number of milliseconds of at least 0".to_owned());
    }
    Ok(Turn {
        model: line.model.unwrap_or_default().into(),
        role: line.role.map(Arc::from),
        texts,
        max_tokens: line.output_length,
        delay: Nanos::from_millis(line.delay.unwrap_or(0.0)),
        ..Turn::default()
    })
}
