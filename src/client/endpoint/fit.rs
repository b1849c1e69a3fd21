//! Checks before the run whether a dialect can send the requests of a dataset.

use memchr::memmem;
use thiserror::Error;

use dataset::{Conversation, Dataset, MediaContent, MediaKinds, Turn};

use super::{Endpoint, EndpointTraits, multipart};

/// A conversation that a dialect cannot send.
#[derive(Debug, Error, PartialEq, Eq)]
#[error("{}conversation {conversation} of the dataset: {reason}", of_turn(*.turn))]
pub struct MisfitError {
    /// The invalid turn, counted from 1; `None` if the whole conversation is invalid.
    pub turn: Option<usize>,
    /// Position of the conversation in the dataset, counted from 1.
    pub conversation: usize,
    /// What is wrong and how to correct it.
    pub reason: String,
}

/// Checks that `endpoint` can send every conversation: by its traits, then by its own
/// [`Endpoint::check`].
pub fn check(endpoint: &dyn Endpoint, dataset: &Dataset) -> Result<(), MisfitError> {
    for (conversation, found) in (1..).zip(&dataset.conversations) {
        let misfit = |turn, reason| MisfitError { turn, conversation, reason };
        for (turn, asked) in (found.inherited_turns + 1..).zip(found.own_turns()) {
            if let Some(reason) = reason(endpoint.traits(), found, asked) {
                return Err(misfit(Some(turn), reason));
            }
        }
        endpoint.check(found).map_err(|reason| misfit(None, reason))?;
    }
    Ok(())
}

fn of_turn(turn: Option<usize>) -> String {
    turn.map_or_else(String::new, |turn| format!("turn {turn} of "))
}

fn reason(traits: &EndpointTraits, conversation: &Conversation, turn: &Turn) -> Option<String> {
    let name = traits.name;
    let is_multipart = traits.content_type == multipart::CONTENT_TYPE;
    if turn.raw_payload.is_some() {
        let reason = || {
            format!("a JSON payload cannot be sent as a {name} request, which has files as parts")
        };
        return is_multipart.then(reason);
    }
    if let Some(other) = turn.media.iter().find(|media| !traits.takes.contains(media.kind)) {
        let takes = match traits.takes {
            none if none.is_empty() => "only text".to_owned(),
            some => format!("{} in addition to text", some.names()),
        };
        return Some(format!("it has {}, but {name} supports {takes}", other.kind.names()));
    }
    let kinds = turn.media.iter().fold(MediaKinds::empty(), |kinds, media| kinds | media.kind);
    let missing = traits.needs - kinds;
    if !missing.is_empty() {
        let missing = missing.names();
        return Some(format!(
            "{name} requires {missing}; refer to a file in the `{missing}` field of --input-file, \
             or generate it"
        ));
    }
    if turn.texts.is_empty()
        && turn.prompt.is_none()
        && traits.needs_text
        && turn.messages.is_none()
    {
        return Some(format!("{name} requires a text in the field `text`"));
    }
    if !traits.takes_image_uuids && turn.media.iter().any(|media| media.uuid.is_some()) {
        return Some(format!(
            "its images have UUIDs, but {name} requests do not; remove them, or use chat"
        ));
    }
    let has_url = turn.media.iter().any(|media| matches!(media.content, MediaContent::Url(_)));
    if has_url && !traits.takes_urls {
        return Some(format!("{name} sends files; use a file instead of a URL"));
    }
    (is_multipart && has_boundary(conversation, turn)).then(|| {
        format!("it contains {:?}, which separates the parts of a request", multipart::BOUNDARY)
    })
}

fn has_boundary(conversation: &Conversation, turn: &Turn) -> bool {
    let boundary = memmem::Finder::new(multipart::BOUNDARY);
    let has = |bytes: &[u8]| boundary.find(bytes).is_some();
    let file = |content: &MediaContent| match content {
        MediaContent::Inline(file) => has(&file.bytes),
        MediaContent::Url(url) => has(url.as_bytes()),
    };
    let lead = [&conversation.system, &conversation.user_context];
    lead.into_iter().flatten().any(|text| has(text.as_bytes()))
        || turn.texts.iter().any(|text| has(text.to_string().as_bytes()))
        || turn.media.iter().any(|media| file(&media.content))
}

#[cfg(test)]
mod tests {
    use dataset::{Inline, Media};

    use super::super::fixture::{config, turn};
    use super::super::{EndpointType, build};
    use super::*;

    fn medium(kind: MediaKinds, bytes: &str) -> Media {
        let file = Inline { media_type: "x/y".into(), bytes: bytes.to_owned().into() };
        Media { kind, content: MediaContent::Inline(file), seconds: None, uuid: None }
    }

    fn refusal(endpoint: EndpointType, turn: Turn) -> Option<String> {
        let conversation = Conversation { turns: vec![turn], ..Conversation::default() };
        let dataset = Dataset::from_conversations(vec![Conversation::default(), conversation]);
        check(&*build(&config(endpoint, false)), &dataset).err().map(|misfit| misfit.to_string())
    }

    fn with(media: Vec<Media>, texts: &[&str]) -> Turn {
        Turn { media, ..turn(texts, None) }
    }

    #[test]
    fn media_that_a_dialect_does_not_take_are_refused() {
        let audio = || with(vec![medium(MediaKinds::AUDIO, "a")], &["x"]);
        assert_eq!(refusal(EndpointType::CHAT, audio()), None);
        assert_eq!(
            refusal(EndpointType::COMPLETIONS, audio()).unwrap(),
            "turn 1 of conversation 2 of the dataset: it has audio, but completions supports only \
             text"
        );
        let messages = refusal(EndpointType::MESSAGES, audio()).unwrap();
        assert!(
            messages.ends_with("it has audio, but messages supports image in addition to text")
        );
    }

    #[test]
    fn uuids_of_images_are_sent_only_by_dialects_that_have_them() {
        let cached = || with(vec![Media::cached_image("u")], &["x"]);
        assert_eq!(refusal(EndpointType::CHAT, cached()), None);
        assert_eq!(refusal(EndpointType::CHAT_EMBEDDINGS, cached()), None);
        let refused = refusal(EndpointType::RESPONSES, cached()).unwrap();
        assert!(refused.contains("but responses requests do not"), "{refused}");
    }

    #[test]
    fn a_dialect_may_refuse_what_its_traits_allow() {
        let refused = refusal(EndpointType::NIM_RANKINGS, with(vec![], &["x"])).unwrap();
        // The first conversation does not have any turns.
        let expected = "conversation 1 of the dataset: a ranking request has only one turn";
        assert_eq!(refused, expected);
    }

    #[test]
    fn what_a_dialect_needs_must_be_there() {
        let transcription = EndpointType::AUDIO_TRANSCRIPTION;
        assert!(refusal(transcription, with(vec![], &["x"])).unwrap().contains("requires audio"));
        assert_eq!(refusal(transcription, with(vec![medium(MediaKinds::AUDIO, "a")], &[])), None);
        let url = MediaContent::Url("http://x/a.wav".into());
        let url = Media { content: url, ..medium(MediaKinds::AUDIO, "") };
        assert!(refusal(transcription, with(vec![url], &[])).unwrap().contains("sends files"));
        let image = || vec![medium(MediaKinds::IMAGE, "i")];
        assert_eq!(refusal(EndpointType::IMAGE_EDIT, with(image(), &["x"])), None);
        let without_text = refusal(EndpointType::IMAGE_EDIT, with(image(), &[])).unwrap();
        assert!(without_text.contains("requires a text"), "{without_text}");
    }

    #[test]
    fn no_part_has_the_boundary() {
        let file = vec![medium(MediaKinds::IMAGE, &format!("..{}..", multipart::BOUNDARY))];
        let reason = refusal(EndpointType::IMAGE_EDIT, with(file.clone(), &["x"])).unwrap();
        assert!(reason.contains("separates the parts"), "{reason}");
        assert_eq!(refusal(EndpointType::CHAT, with(file, &["x"])), None);
        let text = with(vec![medium(MediaKinds::IMAGE, "i")], &[multipart::BOUNDARY]);
        assert!(refusal(EndpointType::IMAGE_EDIT, text).is_some());
    }
}
