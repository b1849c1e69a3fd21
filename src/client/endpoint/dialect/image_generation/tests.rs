use proptest::prelude::*;
use serde_json::{Value, json};

use crate::endpoint::fixture::{body, config, conversation, endpoint, piece, stream, whole};
use crate::endpoint::{EndpointType, ParsedResponse};

const IMAGES: EndpointType = EndpointType::IMAGE_GENERATION;

fn read(events: &[Value]) -> ParsedResponse {
    let event =
        |value: &Value| format!("event: {}\ndata: {value}", value["type"].as_str().unwrap());
    let events: Vec<String> = events.iter().map(event).collect();
    endpoint(IMAGES).parse(&stream(&events))
}

fn partial(index: u64) -> Value {
    json!({"type": "image_generation.partial_image", "b64_json": "AAAA", "created_at": 1,
           "size": "1024x1024", "partial_image_index": index})
}

fn completed() -> Value {
    json!({"type": "image_generation.completed", "b64_json": "BBBB", "created_at": 2,
           "usage": {"total_tokens": 100, "input_tokens": 50, "output_tokens": 50,
                     "input_tokens_details": {"text_tokens": 10, "image_tokens": 40}}})
}

#[test]
fn a_request_asks_for_one_image_unless_extras_say_otherwise() {
    let mut conversation = conversation();
    (conversation.system, conversation.user_context) = (None, None);
    let plain = json!({"prompt": "one", "model": "m", "response_format": "b64_json", "n": 1});
    assert_eq!(body(&config(IMAGES, false), &conversation, 0), plain);
    let mut config = config(IMAGES, true);
    config.extra_inputs = vec![("n".to_owned(), json!(3)), ("partial_images".to_owned(), json!(2))];
    assert_eq!(
        body(&config, &conversation, 1),
        json!({"prompt": "two", "model": "m", "response_format": "b64_json", "n": 3,
               "stream": true, "partial_images": 2})
    );
}

#[test]
fn images_are_content_wherever_they_are() {
    for image in [json!({"b64_json": "AAAA", "revised_prompt": "x"}), json!({"url": "http://x/i"})]
    {
        let answer = json!({"created": 1, "data": [image], "usage": {"input_tokens": 5}});
        let parsed = endpoint(IMAGES).parse(&whole(answer.to_string().as_bytes()));
        assert_eq!((parsed.error, parsed.content), (None, vec![piece(9, true)]));
        assert_eq!(parsed.usage.unwrap().prompt_tokens, Some(5));
        assert_eq!(parsed.output_text, "");
    }
}

#[test]
fn partial_images_are_content_and_the_last_event_ends_the_stream() {
    let parsed = read(&[partial(0), partial(1), completed()]);
    assert_eq!(parsed.error, None);
    assert_eq!(parsed.content, [piece(1, true), piece(2, true), piece(3, true)]);
    assert_eq!(parsed.usage.unwrap().completion_tokens, Some(50));
    assert!(endpoint(IMAGES).has_content(format!("data: {}", partial(0)).as_bytes()));
    assert_eq!(read(&[partial(0)]).error.unwrap().name, "CutStream");
}

#[test]
fn answers_without_an_image_are_failures() {
    let name = |text: &str| endpoint(IMAGES).parse(&whole(text.as_bytes())).error.unwrap().name;
    assert_eq!(name(r#"{"created":1,"data":[]}"#), "EmptyResponse");
    assert_eq!(name(r#"{"created":1,"data":[{"b64_json":""}]}"#), "EmptyResponse");
    assert_eq!(
        name(r#"{"error":{"message":"no","type":"moderation_blocked"}}"#),
        "moderation_blocked"
    );
    assert_eq!(name(r#"{"message":"down","type":"Unavailable"}"#), "Unavailable");
    assert_eq!(
        endpoint(IMAGES).parse(&whole(b"{\"data\":")).error.unwrap().kind.as_str(),
        "parse_error"
    );
}

proptest! {
    #[test]
    fn no_bytes_panic(bytes: Vec<u8>, shaped in r#"\{"(data|b64_json|usage|error)":[\[\]{}",a-z0-9]{0,12}\}"#) {
        for bytes in [&bytes[..], shaped.as_bytes()] {
            let _ = endpoint(IMAGES).parse(&whole(bytes));
        }
    }
}
