use serde_json::json;

use dataset::{Conversation, Inline, Media, MediaContent, MediaKinds, Turn};

use crate::endpoint::EndpointType;
use crate::endpoint::fixture::{body, config, conversation, endpoint, piece, turn, whole};

const EMBEDDINGS: EndpointType = EndpointType::CHAT_EMBEDDINGS;

/// A media item whose three bytes are `AAAA` in base64.
fn medium(kind: MediaKinds, media_type: &str) -> Media {
    let file = Inline { media_type: media_type.into(), bytes: vec![0, 0, 0].into() };
    Media { kind, content: MediaContent::Inline(file), seconds: None, uuid: None }
}

fn sent(turns: Vec<Turn>, at: usize) -> serde_json::Value {
    let conversation = Conversation { turns, ..Conversation::default() };
    body(&config(EMBEDDINGS, false), &conversation, at)
}

/// The request of vLLM's example client for multimodal embeddings
/// (`openai_chat_embedding_client_for_multimodal.py`, `VLM2Vec`), with its parts in the opposite
/// order.
#[test]
fn a_request_bears_messages_of_parts_as_vllm_takes_them() {
    let media = vec![medium(MediaKinds::IMAGE, "image/png")];
    let turns = vec![Turn { media, ..turn(&["Represent the given image."], Some(9)) }];
    let conversation = Conversation { turns, ..Conversation::default() };
    let mut config = config(EMBEDDINGS, false);
    config.extra_inputs = vec![("encoding_format".to_owned(), "float".into())];
    assert_eq!(
        body(&config, &conversation, 0),
        json!({
            "model": "m",
            "messages": [{"role": "user", "content": [
                {"type": "text", "text": "Represent the given image."},
                {"type": "image_url", "image_url": {"url": "data:image/png;base64,AAAA"}},
            ]}],
            "encoding_format": "float",
        })
    );
}

#[test]
fn texts_and_other_media_are_sent_as_in_a_chat() {
    let plain = sent(vec![turn(&["a text"], None)], 0);
    let expected = json!([{"role": "user", "content": "a text"}]);
    assert_eq!(plain, json!({"model": "m", "messages": expected}));
    let media =
        vec![medium(MediaKinds::VIDEO, "video/mp4"), medium(MediaKinds::AUDIO, "audio/mpeg")];
    let parts = sent(vec![Turn { media, ..turn(&[], None) }], 0);
    assert_eq!(
        parts["messages"][0]["content"],
        json!([
            {"type": "video_url", "video_url": {"url": "data:video/mp4;base64,AAAA"}},
            {"type": "input_audio", "input_audio": {"data": "AAAA", "format": "mp3"}},
        ])
    );
}

#[test]
fn earlier_turns_are_repeated_without_answers() {
    let build = crate::endpoint::build(&config(EMBEDDINGS, false));
    let body = build.request_body(&conversation(), 1, &[Some(std::sync::Arc::from(""))]);
    let body: serde_json::Value = serde_json::from_slice(&body).unwrap();
    let said: Vec<_> = body["messages"].as_array().unwrap().iter().collect();
    let message = |role, content| json!({"role": role, "content": content});
    let expected = [
        message("system", "be brief"),
        message("user", "context"),
        message("user", "one"),
        message("user", "two"),
    ];
    assert!(said.iter().copied().eq(&expected), "{said:?}");
}

/// The members of vLLM's `EmbeddingResponse`, and its error.
#[test]
fn vectors_are_content_and_errors_are_reported() {
    let read = |text: &str| endpoint(EMBEDDINGS).parse(&whole(text.as_bytes()));
    let parsed = read(
        r#"{"id":"embd-1","object":"list","created":1,"model":"TIGER-Lab/VLM2Vec-Full",
            "data":[{"index":0,"object":"embedding","embedding":[0.1,-0.2]}],
            "usage":{"prompt_tokens":772,"total_tokens":772,"completion_tokens":0,
                     "prompt_tokens_details":null}}"#,
    );
    assert_eq!((parsed.error, parsed.content), (None, vec![piece(9, true)]));
    assert_eq!(parsed.model.as_deref(), Some("TIGER-Lab/VLM2Vec-Full"));
    assert_eq!(parsed.usage.unwrap().prompt_tokens, Some(772));
    assert_eq!(parsed.output_text, "");
    let name = |text: &str| read(text).error.unwrap().name;
    assert_eq!(name(r#"{"object":"list","data":[]}"#), "EmptyResponse");
    assert_eq!(
        name(r#"{"object":"error","message":"no","type":"BadRequestError"}"#),
        "BadRequestError"
    );
    assert_eq!(name(r#"{"error":{"message":"no","type":"NotFoundError"}}"#), "NotFoundError");
}
