use proptest::prelude::*;
use serde_json::{Value, json};

use dataset::{Inline, Media, MediaContent};

use super::*;
use crate::endpoint::EndpointType;
use crate::endpoint::fixture::{body, config, endpoint, piece, turn, whole};

const NIM: EndpointType = EndpointType::NIM_EMBEDDINGS;
const PIXELS: &str = "data:image/png;base64,AAAA";

fn image() -> Media {
    let file = Inline { media_type: "image/png".into(), bytes: vec![0, 0, 0].into() };
    Media {
        kind: MediaKinds::IMAGE,
        content: MediaContent::Inline(file),
        seconds: None,
        uuid: None,
    }
}

fn asked(texts: &[&str], images: usize) -> Conversation {
    let media = (0..images).map(|_| image()).collect();
    let turns = vec![Turn { media, ..turn(texts, None) }];
    Conversation { turns, ..Conversation::default() }
}

fn input(conversation: &Conversation) -> Value {
    body(&config(NIM, false), conversation, 0)["input"].clone()
}

/// The possible values of `input`, from the table of the request body in NVIDIA's reference for the
/// `NeMo` Retriever Embedding NIM 2.0.
#[test]
fn texts_images_and_texts_with_images_are_a_list() {
    assert_eq!(input(&asked(&["one"], 0)), json!(["one"]));
    assert_eq!(input(&asked(&["one", "two"], 0)), json!(["one", "two"]));
    assert_eq!(input(&asked(&[], 2)), json!([PIXELS, PIXELS]));
    let both = json!([format!("one {PIXELS}"), format!("two {PIXELS}")]);
    assert_eq!(input(&asked(&["one", "two"], 2)), both);
    let led = Conversation { system: Some("s".into()), ..asked(&["one"], 1) };
    assert_eq!(input(&led), json!([format!("s\none {PIXELS}")]));
    let only_text = Conversation { system: Some("s".into()), ..asked(&["one"], 0) };
    assert_eq!(input(&only_text), json!(["s\none"]));
}

/// The example request of the same reference; its `input_type` and `modality` are extra inputs.
#[test]
fn what_only_nim_has_is_extra() {
    let mut config = config(NIM, false);
    config.extra_inputs =
        vec![("input_type".to_owned(), "query".into()), ("modality".to_owned(), "text".into())];
    assert_eq!(
        body(&config, &asked(&["What is the population of Pittsburgh?"], 0), 0),
        json!({"input": ["What is the population of Pittsburgh?"], "model": "m",
               "input_type": "query", "modality": "text"})
    );
}

#[test]
fn what_cannot_be_paired_is_refused() {
    let check = |texts: &[&str], images| endpoint(NIM).check(&asked(texts, images));
    assert_eq!(check(&["one"], 0), Ok(()));
    assert_eq!(check(&[], 3), Ok(()));
    assert_eq!(check(&["one", "two"], 2), Ok(()));
    assert!(check(&["one"], 2).unwrap_err().contains("there are 1 texts and 2 images"));
    assert!(check(&[], 0).unwrap_err().contains("requires a text or an image"));
}

/// The members of a response in the same reference, and errors from users' reports.
#[test]
fn vectors_are_content_and_errors_are_reported() {
    let read = |text: &str| endpoint(NIM).parse(&whole(text.as_bytes()));
    let parsed = read(
        r#"{"object":"list","data":[{"index":0,"embedding":[0.01,-0.03],"object":"embedding"}],
            "model":"nvidia/llama-nemotron-embed-vl-1b-v2",
            "usage":{"num_images":1,"prompt_tokens":8,"total_tokens":8}}"#,
    );
    assert_eq!((parsed.error, parsed.content), (None, vec![piece(9, true)]));
    assert_eq!(parsed.usage.unwrap().prompt_tokens, Some(8));
    let packed =
        read(r#"{"object":"list","data":[{"object":"embedding","embedding":"AACAPw=="}]}"#);
    assert_eq!(packed.error, None);
    let error = read(r#"{"error":"'input_type' parameter is required for asymmetric models"}"#);
    assert!(error.error.unwrap().message.contains("input_type"));
    assert_eq!(read(r#"{"object":"list","data":[]}"#).error.unwrap().name, "EmptyResponse");
}

proptest! {
    #[test]
    fn any_answer_is_read(answer in r#"\{"(data|usage|error|message)":[\[\]{}":,a-z0-9]{0,12}\}?"#) {
        let parsed = endpoint(NIM).parse(&whole(answer.as_bytes()));
        prop_assert!(parsed.error.is_some() || !parsed.content.is_empty());
    }

    /// The number of inputs is the number of vectors to compute.
    #[test]
    fn what_passes_the_check_is_sent(texts in 0..4_usize, images in 0..4_usize) {
        let conversation = asked(&vec!["one"; texts], images);
        if endpoint(NIM).check(&conversation).is_ok() {
            let inputs = input(&conversation);
            prop_assert_eq!(inputs.as_array().unwrap().len(), texts.max(images));
        }
    }
}
