use proptest::prelude::*;
use serde_json::json;

use dataset::{Conversation, Inline, MediaContent, Turn};

use super::*;
use crate::endpoint::EndpointType;
use crate::endpoint::fixture::{body, config, endpoint, piece, turn, whole};

const RETRIEVAL: EndpointType = EndpointType::IMAGE_RETRIEVAL;

fn image(media_type: &str) -> Media {
    let file = Inline { media_type: media_type.into(), bytes: vec![0, 0, 0].into() };
    Media {
        kind: MediaKinds::IMAGE,
        content: MediaContent::Inline(file),
        seconds: None,
        uuid: None,
    }
}

/// The request from NVIDIA's reference for the NIM for Object Detection, with `merge_levels` from
/// the reference for the NIM for Image OCR.
#[test]
fn a_request_bears_images_and_nothing_else() {
    let media = vec![image("image/png"), image("image/jpeg")];
    let turns = vec![Turn { media, ..turn(&["not sent"], Some(9)) }];
    let conversation = Conversation { turns, ..Conversation::default() };
    let mut config = config(RETRIEVAL, false);
    let images = json!([
        {"type": "image_url", "url": "data:image/png;base64,AAAA"},
        {"type": "image_url", "url": "data:image/jpeg;base64,AAAA"},
    ]);
    assert_eq!(body(&config, &conversation, 0), json!({"input": images}));
    config.extra_inputs = vec![("merge_levels".to_owned(), json!(["word", "word"]))];
    let merged = json!({"input": images, "merge_levels": ["word", "word"]});
    assert_eq!(body(&config, &conversation, 0), merged);
}

/// Responses from the same references: boxes by class, and text. An image in which nothing was
/// found has an entry too.
#[test]
fn what_is_found_is_content() {
    for answer in [
        r#"{"data":[{"index":0,"bounding_boxes":{"chart":[{"x_min":0.3982,"y_min":0.1893,
            "x_max":0.9104,"y_max":0.4123,"confidence":0.9716}],"table":[]}}],
            "usage":{"images_size_mb":0.42}}"#,
        r#"{"data":[{"index":0,"text_detections":[{"text_prediction":{"text":"a",
            "confidence":0.9},"bounding_box":{"points":[{"x":0.1,"y":0.1}],"type":"quadrilateral"}}]}],
            "usage":{"images_size_mb":0.2}}"#,
        r#"{"data":[{"index":0,"bounding_boxes":{}}],"usage":{"images_size_mb":0.1}}"#,
    ] {
        let parsed = endpoint(RETRIEVAL).parse(&whole(answer.as_bytes()));
        assert_eq!((parsed.error, parsed.content), (None, vec![piece(9, true)]), "{answer}");
        // Megabytes are not tokens.
        assert_eq!((parsed.output_text.as_str(), parsed.usage), ("", None));
    }
}

#[test]
fn answers_without_an_entry_are_failures() {
    let read = |text: &str| endpoint(RETRIEVAL).parse(&whole(text.as_bytes())).error.unwrap();
    assert_eq!(read(r#"{"data":[],"usage":{"images_size_mb":0}}"#).name, "EmptyResponse");
    assert_eq!(read("{}").name, "EmptyResponse");
    assert_eq!(read(r#"{"data":null}"#).name, "EmptyResponse");
    assert_eq!(read(r#"{"error":"no model"}"#).message, "no model");
    assert_eq!(read("{").name, "InvalidJson");
}

proptest! {
    #[test]
    fn any_answer_is_read(answer in r#"\{"(data|usage|error|message)":[\[\]{}":,a-z0-9]{0,12}\}?"#) {
        let parsed = endpoint(RETRIEVAL).parse(&whole(answer.as_bytes()));
        prop_assert!(parsed.error.is_some() || !parsed.content.is_empty());
    }
}
