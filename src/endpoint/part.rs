//! Parts of a message's content, as OpenAI's chat has them.

use serde::Serialize;

use super::body::Content;
use crate::dataset::{Media, MediaContent, MediaKinds, Turn};

/// Text or a medium.
#[derive(Serialize)]
#[serde(tag = "type", rename_all = "snake_case")]
pub(super) enum Part<'a> {
    Text { text: Box<Content<'a>> },
    ImageUrl { image_url: Link },
    InputAudio { input_audio: Audio<'a> },
    // As vLLM has them: OpenAI takes neither sound by URL nor videos.
    AudioUrl { audio_url: Link },
    VideoUrl { video_url: Link },
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
    /// A turn's texts, then its media.
    pub(super) fn all(turn: &'a Turn) -> Vec<Self> {
        let text = |text| Self::Text { text: Box::new(Content::Asked(text)) };
        turn.texts.iter().map(text).chain(turn.media.iter().map(Self::of)).collect()
    }

    fn of(media: &'a Media) -> Self {
        let link = || Link { url: media.content.url() };
        match (media.kind, &media.content) {
            (MediaKinds::IMAGE, _) => Self::ImageUrl { image_url: link() },
            (MediaKinds::AUDIO, MediaContent::Inline(file)) => Self::InputAudio {
                input_audio: Audio { data: file.base64(), format: file.format() },
            },
            (MediaKinds::AUDIO, MediaContent::Url(_)) => Self::AudioUrl { audio_url: link() },
            _ => Self::VideoUrl { video_url: link() },
        }
    }
}
