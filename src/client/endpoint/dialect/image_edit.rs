//! OpenAI image edits.

use dataset::{MediaContent, MediaKinds};

use super::image_generation::Images;
use super::{Asked, Dialect, build};
use crate::endpoint::body::joined_text;
use crate::endpoint::multipart::{self, Form};
use crate::endpoint::{Config, EndpointTraits};

/// The dialect's properties and capabilities.
pub(crate) static TRAITS: EndpointTraits = EndpointTraits {
    content_type: multipart::CONTENT_TYPE,
    produces_tokens: false,
    takes: MediaKinds::IMAGE,
    needs: MediaKinds::IMAGE,
    needs_text: true,
    produces: MediaKinds::IMAGE,
    metrics_title: "Image Edit Metrics",
    ..EndpointTraits::text("image_edit", "/v1/images/edits", build::<ImageEdit>)
};

/// `/v1/images/edits`.
///
/// A request contains its turn's text and images: one file as `image`, several as `image[]`,
/// a URL as `url` as in `SGLang`. It requests one image in base64 unless extra inputs override
/// that. Responses are parsed like those of image generation.
struct ImageEdit;

impl Dialect for ImageEdit {
    type Reader = Images;

    fn body(config: &Config, asked: &Asked<'_>) -> Vec<u8> {
        let turn = asked.turn;
        let mut form = Form::new(config)
            .field("prompt", &joined_text(asked.conversation, turn))
            .field("model", &turn.model)
            .field("response_format", "b64_json")
            .field("n", "1");
        if config.streaming {
            form = form.field("stream", "true");
        }
        let name = if turn.media.len() > 1 { "image[]" } else { "image" };
        for media in &turn.media {
            form = match &media.content {
                MediaContent::Inline(file) => form.file(name, "image", file),
                MediaContent::Url(url) => form.field("url", url),
            };
        }
        form.into_bytes()
    }
}

#[cfg(test)]
mod tests {
    use dataset::{Conversation, Inline, Media, Turn};

    use super::*;
    use crate::endpoint::EndpointType;
    use crate::endpoint::fixture::{config, endpoint, piece, stream, turn};

    fn body(media: &[Media]) -> String {
        let turn = Turn { media: media.to_vec(), ..turn(&["paint", "it"], None) };
        let conversation = Conversation { turns: vec![turn], ..Conversation::default() };
        let endpoint = crate::endpoint::build(&config(EndpointType::IMAGE_EDIT, true));
        String::from_utf8(endpoint.request_body(&conversation, 0, &[])).unwrap()
    }

    fn medium(content: MediaContent) -> Media {
        Media { kind: MediaKinds::IMAGE, content, seconds: None, uuid: None }
    }

    fn file() -> Media {
        let file = Inline { media_type: "image/png".into(), bytes: "PIXELS".into() };
        medium(MediaContent::Inline(file))
    }

    #[test]
    fn images_are_parts_by_their_number() {
        let one = body(&[file()]);
        assert!(one.contains("name=\"prompt\"\r\n\r\npaint it\r\n"));
        assert!(one.contains("name=\"stream\"\r\n\r\ntrue\r\n"));
        assert!(one.contains(
            "name=\"image\"; filename=\"image.png\"\r\ncontent-type: image/png\r\n\r\nPIXELS\r\n"
        ));
        assert_eq!(body(&[file(), file()]).matches("name=\"image[]\"").count(), 2);
        let url = body(&[medium(MediaContent::Url("http://x/i.png".into()))]);
        assert!(url.contains("name=\"url\"\r\n\r\nhttp://x/i.png\r\n"));
    }

    #[test]
    fn events_are_those_of_edits() {
        let parsed = endpoint(EndpointType::IMAGE_EDIT).parse(&stream(&[
            r#"data: {"type":"image_edit.partial_image","b64_json":"AA","partial_image_index":0}"#,
            r#"data: {"type":"image_edit.completed","b64_json":"BB"}"#,
        ]));
        assert_eq!((parsed.error, parsed.content), (None, vec![piece(1, true), piece(2, true)]));
    }
}
