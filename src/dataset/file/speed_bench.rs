//! SPEED-Bench: JSONL with a question per line, which the program of the dataset creates.
//!
//! Each message is a turn. The name of the format contains the category to use, if it is not all of
//! them.

use serde::Deserialize;

use super::jsonl::from_object;
use super::lines::Lines;
use super::{Fault, Loaded};
use crate::account::{Conversations, LeftOut};
use crate::hub::PLACEHOLDER;
use crate::{Conversation, Turn};

#[derive(Deserialize)]
struct Question {
    #[serde(rename = "question_id")]
    id: String,
    category: String,
    messages: Vec<Message>,
}

#[derive(Deserialize)]
struct Message {
    role: String,
    content: String,
}

/// Reads the questions of `part`: all of `qualitative` and `throughput_1k`, the category `mixed` of
/// `throughput_1k_mixed`, and otherwise the category `part`.
pub(super) fn read(lines: Lines<'_>, part: &str) -> Result<Loaded, Fault> {
    let category = match part.strip_prefix("throughput_") {
        Some(throughput) => throughput.split_once('_').map(|(_, category)| category),
        None => Some(part).filter(|part| *part != "qualitative"),
    };
    let mut chosen = Conversations::default();
    for line in lines {
        let line = line?;
        let wrong = |why| Fault::Line(line.number, why);
        let question: Question = from_object(&line.text).map_err(wrong)?;
        if category.is_some_and(|category| question.category != category) {
            chosen.leave_out(LeftOut::Filtered, question.messages.len() as u64);
            continue;
        }
        chosen.push(question.into_conversation().map_err(wrong)?);
    }
    Ok(chosen.into())
}

impl Question {
    fn into_conversation(self) -> Result<Conversation, String> {
        if self.messages.is_empty() {
            return Err("the question does not have any messages".to_owned());
        }
        let turn = |message: Message| match message.content.trim() {
            "" => Err("a text is empty".to_owned()),
            text if text.starts_with(PLACEHOLDER) => {
                Err("it contains a reference instead of a prompt; create the file with the \
                     dataset's own program"
                    .to_owned())
            }
            _ => Ok(Turn {
                role: Some(message.role.into()),
                texts: vec![message.content.into()],
                ..Turn::default()
            }),
        };
        let turns = self.messages.into_iter().map(turn).collect::<Result<_, String>>()?;
        Ok(Conversation { id: self.id.into(), turns, ..Conversation::default() })
    }
}
