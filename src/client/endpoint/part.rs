//! Parts of a message's content, as in OpenAI's chat API.

use serde::Serialize;

use dataset::{Media, MediaContent, MediaKinds, Turn};

use super::body::Content;

/// A text or a media item.
#[derive(Serialize)]
#[serde(tag = "type", rename_all = "snake_case")]
pub(super) enum Part<'a> {
    Text {
        text: Box<Content<'a>>,
    },
    /// The UUID is vLLM's; without a link, vLLM uses the image that it has cached under it.
    ImageUrl {
        image_url: Option<Link>,
        #[serde(skip_serializing_if = "Option::is_none")]
        uuid: Option<&'a str>,
    },
    InputAudio {
        input_audio: Audio<'a>,
    },
    // As in vLLM: OpenAI accepts neither audio by URL nor videos.
    AudioUrl {
        audio_url: Link,
    },
    VideoUrl {
        video_url: Link,
    },
}

#[derive(Serialize)]
pub(super) struct Link {
    url: String,
}

#[derive(Serialize)]
pub(super) struct Audio<'a> {
    data: String,
    format: &'a str,
}

impl<'a> Part<'a> {
    /// Returns a turn's texts, then its media.
    pub(super) fn all(turn: &'a Turn) -> Vec<Self> {
        let text = |text| Self::Text { text: Box::new(Content::Asked(text)) };
        turn.texts.iter().map(text).chain(turn.media.iter().map(Self::from_media)).collect()
    }

    fn from_media(media: &'a Media) -> Self {
        let link = || Link { url: media.content.url() };
        match (media.kind, &media.content) {
            (MediaKinds::IMAGE, _) => Self::ImageUrl {
                image_url: (!media.is_cached()).then(link),
                uuid: media.uuid.as_deref(),
            },
            (MediaKinds::AUDIO, MediaContent::Inline(file)) => Self::InputAudio {
                input_audio: Audio { data: file.base64(), format: file.format() },
            },
            (MediaKinds::AUDIO, MediaContent::Url(_)) => Self::AudioUrl { audio_url: link() },
            _ => Self::VideoUrl { video_url: link() },
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use dataset::{Conversation, Inline};

    use super::super::EndpointType;
    use super::super::fixture::{body, config, turn};
    use super::*;

    fn medium(kind: MediaKinds, media_type: &str) -> Media {
        let content = match media_type {
            "" => MediaContent::Url("http://x/y".into()),
            _ => {
                MediaContent::Inline(Inline { media_type: media_type.into(), bytes: "foob".into() })
            }
        };
        Media { kind, content, seconds: None, uuid: None }
    }

    /// "foob" in base64 is an example of RFC 4648, section 10.
    #[test]
    fn a_turn_with_media_is_one_message_of_parts() {
        let media = vec![
            medium(MediaKinds::IMAGE, "image/png"),
            medium(MediaKinds::IMAGE, ""),
            medium(MediaKinds::AUDIO, "audio/mpeg"),
            medium(MediaKinds::AUDIO, ""),
            medium(MediaKinds::VIDEO, "video/mp4"),
        ];
        let turns = vec![Turn { media, ..turn(&["one", "two"], None) }, turn(&["three"], None)];
        let mut conversation = Conversation { turns, ..Conversation::default() };
        conversation.turns[0].media[0].uuid = Some("u".into());
        conversation.turns[0].media.insert(1, Media::cached_image("v"));
        let sent = body(&config(EndpointType::CHAT, false), &conversation, 1);
        let link = |url: &str| json!({"url": url});
        assert_eq!(
            sent["messages"],
            json!([
                {"role": "user", "content": [
                    {"type": "text", "text": "one"},
                    {"type": "text", "text": "two"},
                    {"type": "image_url", "image_url": link("data:image/png;base64,Zm9vYg=="),
                        "uuid": "u"},
                    {"type": "image_url", "image_url": null, "uuid": "v"},
                    {"type": "image_url", "image_url": link("http://x/y")},
                    {"type": "input_audio", "input_audio": {"data": "Zm9vYg==", "format": "mp3"}},
                    {"type": "audio_url", "audio_url": link("http://x/y")},
                    {"type": "video_url", "video_url": link("data:video/mp4;base64,Zm9vYg==")},
                ]},
                {"role": "assistant", "content": "answer"},
                {"role": "user", "content": "three"},
            ])
        );
    }
}
