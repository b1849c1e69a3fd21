use proptest::prelude::*;

use base::setting::Named as _;
use base::units::Nanos;

use super::*;
use crate::account::LeftOut;
use crate::{MediaKinds, Text, Turn};

fn loaded(content: &str, format: Option<FileFormat>) -> Result<Loaded, Fault> {
    read_bytes(content.as_bytes(), format)
}

fn read_bytes(content: &[u8], format: Option<FileFormat>) -> Result<Loaded, Fault> {
    read_from(
        content,
        Path::new(""),
        format,
        &TraceSettings::default(),
        &TokenCounter::builtin(),
        Seed(1),
    )
}

fn conversations(content: &str) -> Vec<Conversation> {
    loaded(content, None).unwrap().conversations.into_vec()
}

/// Returns the line and description of the error in `content`.
fn fault(content: &str, format: Option<FileFormat>) -> (u64, String) {
    match loaded(content, format) {
        Err(Fault::Line(line, reason)) => (line, reason),
        Err(Fault::Entry(entry, reason)) => (entry as u64, reason),
        other => panic!("{content}: {other:?}"),
    }
}

fn texts(turn: &Turn) -> Vec<String> {
    turn.texts.iter().map(Text::to_string).collect()
}

#[test]
fn single_turn_members_are_read() {
    let read = conversations(concat!(
        "{\"text\": \"Hi\"}\r\n\n",
        r#"{"type": "single_turn", "texts": ["a", "b"], "role": "system", "model": "m2", "#,
        r#""output_length": 7, "delay": 12.5, "timestamp": 1000}"#,
    ));
    assert_eq!(read.len(), 2);
    assert_eq!(texts(&read[0].turns[0]), ["Hi"]);
    assert_eq!((read[0].turns[0].max_tokens, read[0].turns[0].delay), (None, Nanos::ZERO));
    let turn = &read[1].turns[0];
    assert_eq!(texts(turn), ["a", "b"]);
    assert_eq!(turn.role.as_deref(), Some("system"));
    assert_eq!((&*turn.model, turn.max_tokens), ("m2", Some(7)));
    assert_eq!(turn.delay, Nanos(12_500_000));
    assert_eq!(turn.timestamp, Some(Nanos(1_000_000_000)));
    assert_eq!(read[0].turns[0].timestamp, None);
}

#[test]
fn media_are_read_with_a_text_and_without() {
    let read = conversations(concat!(
        r#"{"images": ["http://x/a.png", "http://x/b.png"], "image": "http://x/c.png"}"#,
        "\n",
        r#"{"text": "a", "video": "http://x/v.mp4", "audio": "data:;base64,"#,
        // One channel of 8 bits at 4 Hz, two samples.
        r#"UklGRiYAAABXQVZFZm10IBAAAAABAAEABAAAAAQAAAABAAgAZGF0YQIAAAB/fw=="}"#,
    ));
    let urls: Vec<String> = read[0].turns[0].media.iter().map(|m| m.content.url()).collect();
    assert_eq!(urls, ["http://x/c.png", "http://x/a.png", "http://x/b.png"]);
    assert!(texts(&read[0].turns[0]).is_empty());
    let media = &read[1].turns[0].media;
    assert_eq!((media[0].kind, media[0].seconds), (MediaKinds::AUDIO, Some(0.5)));
    assert_eq!(media[1].kind, MediaKinds::VIDEO);
    assert_eq!(texts(&read[1].turns[0]), ["a"]);
}

#[test]
fn lines_of_a_session_are_turns_without_a_history() {
    let read = conversations(concat!(
        r#"{"session_id": "a", "text": "a1"}"#,
        "\n",
        r#"{"text": "alone"}"#,
        "\n",
        r#"{"session_id": "b", "text": "b1"}"#,
        "\n",
        r#"{"session_id": "a", "text": "a2", "delay": 5, "output_length": 3}"#,
    ));
    let ids: Vec<&str> = read.iter().map(|conversation| &*conversation.id).collect();
    assert_eq!(ids, ["a", "", "b"]);
    let turns: Vec<usize> = read.iter().map(|conversation| conversation.turns.len()).collect();
    assert_eq!(turns, [2, 1, 1]);
    assert!(read[0].standalone_turns && !read[2].standalone_turns);
    let last = &read[0].turns[1];
    assert_eq!(
        (texts(last), last.delay, last.max_tokens),
        (vec!["a2".into()], Nanos(5_000_000), Some(3))
    );
    let (_, reason) = fault(r#"{"turns": [{"text": "a", "session_id": "x"}]}"#, None);
    assert!(reason.contains("unknown field `session_id`"), "{reason}");
}

#[test]
fn images_may_have_uuids() {
    let read = conversations(concat!(
        r#"{"text": "a", "images": ["http://x/a.png", "http://x/b.png"], "image_uuids": ["u", "v"]}"#,
        "\n",
        r#"{"image_uuids": ["u"]}"#,
        "\n",
        r#"{"images": ["http://x/c.png", {"contents": ["http://x/d.png", ""], "uuids": ["w", "x"]}]}"#,
        "\n",
        r#"{"images": [{"uuids": ["y"]}, {"contents": ["http://x/e.png"]}]}"#,
    ));
    let images = |at: usize| -> Vec<(String, Option<String>)> {
        let media = read[at].turns[0].media.iter();
        media.map(|it| (it.content.url(), it.uuid.as_deref().map(str::to_owned))).collect()
    };
    let image = |url: &str, uuid: Option<&str>| (url.to_owned(), uuid.map(str::to_owned));
    let of_both = [image("http://x/a.png", Some("u")), image("http://x/b.png", Some("v"))];
    assert_eq!(images(0), of_both);
    assert_eq!(images(1), [image("", Some("u"))]);
    let mixed =
        [image("http://x/c.png", None), image("http://x/d.png", Some("w")), image("", Some("x"))];
    assert_eq!(images(2), mixed);
    assert_eq!(images(3), [image("", Some("y")), image("http://x/e.png", None)]);
}

#[test]
fn faults_of_uuids_are_named() {
    let cases = [
        (
            r#"{"images": ["http://x/a"], "image_uuids": ["u", "v"]}"#,
            "`image_uuids` has 2 entries and `images` has 1",
        ),
        (r#"{"image": "http://x/a", "image_uuids": ["u"]}"#, "use it instead of `image`"),
        (r#"{"image_uuids": [""]}"#, "the UUID of an image is empty"),
        (
            r#"{"images": [{"uuids": ["u"]}], "image_uuids": ["u"]}"#,
            "both `image_uuids` and `uuids`",
        ),
        (
            r#"{"images": [{"contents": ["http://x/a"], "uuids": ["u", "v"]}]}"#,
            "`uuids` has 2 entries and `contents` has 1",
        ),
        (r#"{"images": [""]}"#, "the reference to its image is empty"),
        (r#"{"images": [{"name": "a"}]}"#, "objects with `contents` and `uuids`"),
        (r#"{"text": "a", "image_uuids": "u"}"#, "invalid type: string"),
    ];
    for (line, expected) in cases {
        let (number, reason) = fault(line, Some(FileFormat::SingleTurn));
        assert!(number == 1 && reason.contains(expected), "{line}: {reason}");
    }
}

#[test]
fn multi_turn_members_are_read() {
    let read = conversations(
        r#"{"session_id": "s1", "turns": [{"text": "a"}, {"text": "b", "delay": 500, "max_tokens": 9}]}"#,
    );
    assert_eq!(read.len(), 1);
    assert_eq!(&*read[0].id, "s1");
    assert_eq!(read[0].turns.len(), 2);
    assert_eq!(texts(&read[0].turns[1]), ["b"]);
    assert_eq!(read[0].turns[1].delay, Nanos(500_000_000));
    assert_eq!(read[0].turns[1].max_tokens, Some(9));
}

#[test]
fn payloads_are_kept_as_they_are() {
    let document = r#"
{
  "data": [
    {"session_id": "s", "payloads": [
      {"messages": [{"role": "user", "content": "a  b"}],
       "model": "m", "max_completion_tokens": 8, "temperature": 0.10},
      {"prompt": "x"}
    ]}
  ]
}"#;
    let read = conversations(document);
    assert_eq!(&*read[0].id, "s");
    let [first, second] = read[0].turns.as_slice() else { panic!("not two turns") };
    assert_eq!(
        first.raw_payload.as_ref().unwrap().get(),
        r#"{"messages":[{"role":"user","content":"a  b"}],"model":"m","max_completion_tokens":8,"temperature":0.10}"#
    );
    assert_eq!((&*first.model, first.max_tokens), ("m", Some(8)));
    assert_eq!((&*second.model, second.max_tokens), ("", None));
    assert!(second.texts.is_empty());
}

#[test]
fn formats_are_told_from_the_content() {
    let one_line = r#"{"data": [{"payloads": [{"prompt": "x"}]}]}"#;
    assert!(conversations(one_line)[0].turns[0].raw_payload.is_some());
    let with_mark = "\u{feff}\n {\"text\": \"Hi\"}";
    assert_eq!(texts(&conversations(with_mark)[0].turns[0]), ["Hi"]);
    assert!(conversations("").is_empty() && conversations(" \n\n").is_empty());
    assert!(conversations(" [ ]").is_empty());
    assert!(matches!(loaded("{\"question\": \"x\"}", None), Err(Fault::UnknownFormat)));
    assert_eq!(fault("\n\nhello", None).0, 3);
    assert_eq!(fault("7", None).0, 1);
}

#[test]
fn a_document_in_one_line_may_be_longer_than_a_line_of_jsonl() {
    let text = "x".repeat(base::input::MAX_PART_BYTES as usize);
    let document = format!("{{\"data\": [{{\"payloads\": [{{\"prompt\": \"{text}\"}}]}}]}}");
    assert_eq!(conversations(&document).len(), 1);
}

#[test]
fn texts_may_have_names() {
    let line = r#"{"texts": [{"name": "query", "contents": ["a"]}, "b",
        {"name": "passages", "contents": ["c", "d"]}, {"contents": ["e"]}]}"#;
    let [conversation] = &conversations(&line.replace('\n', ""))[..] else { panic!() };
    let texts = conversation.turns[0].texts.iter();
    let named: Vec<_> = texts.map(|text| (text.name(), text.to_string())).collect();
    let expected = [
        (Some("query"), "a"),
        (None, "b"),
        (Some("passages"), "c"),
        (Some("passages"), "d"),
        (None, "e"),
    ];
    assert_eq!(named, expected.map(|(name, text)| (name, text.to_owned())));
}

#[test]
fn datasets_of_vllm_have_prompts() {
    let read = conversations("{\"prompt\": \"a\", \"output_tokens\": 7}\n{\"prompt\": \"b\"}\n");
    let turns: Vec<_> = read.iter().map(|one| &one.turns[0]).collect();
    assert_eq!((turns[0].texts[0].to_string(), turns[0].max_tokens), ("a".to_owned(), Some(7)));
    assert_eq!((turns[1].texts[0].to_string(), turns[1].max_tokens), ("b".to_owned(), None));
    let (line, why) = fault("{\"prompt\": \"a\", \"text\": \"b\"}", None);
    assert!(line == 1 && why.starts_with("duplicate field"), "{why}");
}

#[test]
fn batches_of_openai_are_bodies() {
    let line = |id: &str, url: &str| {
        format!(
            "{{\"custom_id\": \"{id}\", \"method\": \"POST\", \"url\": \"{url}\", \"body\": \
             {{\"model\": \"m\", \"max_tokens\": 3, \"messages\": []}}}}\n"
        )
    };
    let chat = "/v1/chat/completions";
    let read = conversations(&(line("a", chat) + &line("b", chat)));
    let ids: Vec<&str> = read.iter().map(|one| &*one.id).collect();
    assert_eq!(ids, ["a", "b"]);
    let turn = &read[1].turns[0];
    let sent = turn.raw_payload.as_ref().unwrap().get();
    assert_eq!(sent, "{\"model\":\"m\",\"max_tokens\":3,\"messages\":[]}");
    assert_eq!((&*turn.model, turn.max_tokens), ("m", Some(3)));
    let why = |text: String| fault(&text, None);
    assert_eq!(
        why(line("a", chat) + &line("a", chat)),
        (2, "custom_id \"a\" is already used by line 1".to_owned())
    );
    let (number, other) = why(line("a", chat) + &line("b", "/v1/embeddings"));
    assert!(number == 2 && other.contains("a run has one endpoint"), "{other}");
    let (_, method) = why(line("a", chat).replace("POST", "GET"));
    assert_eq!(method, "the `method` of a request must be POST");
}

#[test]
fn each_line_is_a_body_or_a_request_of_a_pool() {
    let raw = Some(FileFormat::RawPayload);
    let bodies = loaded("{ \"a\": [1.0] }\n\n{\"model\":\"m\"}\n", raw).unwrap().conversations;
    let sent: Vec<&str> =
        bodies.iter().map(|body| body.turns[0].raw_payload.as_ref().unwrap().get()).collect();
    assert_eq!(sent, ["{\"a\":[1.0]}", "{\"model\":\"m\"}"]);
    assert_eq!(&*bodies[1].turns[0].model, "m");
    assert_eq!(fault("{}\n[1]", raw), (2, "not a JSON object".to_owned()));
    let pool = Some(FileFormat::RandomPool);
    let line = r#"{"type": "random_pool", "text": "a"}"#;
    assert_eq!(texts(&loaded(line, pool).unwrap().conversations[0].turns[0]), ["a"]);
    let (line, reason) = fault(r#"{"text": "a", "timestamp": 1}"#, pool);
    assert!(line == 1 && reason.contains("`timestamp` and `delay` are not supported"), "{reason}");
}

#[test]
fn faults_of_single_turn_are_named_with_their_line() {
    for (line, words) in [
        ("{\"text\": 1}", "expected a string"),
        ("{\"text\": \"a\"", "EOF while parsing"),
        ("[\"a\"]", "not a JSON object"),
        ("{}", "neither `text` nor `texts`"),
        (r#"{"text": "a", "texts": ["b"]}"#, "both `text` and `texts`"),
        (r#"{"texts": []}"#, "a text is empty"),
        (r#"{"text": ""}"#, "a text is empty"),
        (r#"{"texts": [1]}"#, "must be a string, or an object with `name` and `contents`"),
        (
            r#"{"texts": [{"name": "query", "content": "a"}]}"#,
            "must be a string, or an object with `name`",
        ),
        (r#"{"texts": [{"name": "query", "contents": []}]}"#, "a text is empty"),
        (r#"{"text": "a", "tools": []}"#, "`tools` is not supported yet"),
        (r#"{"text": "a", "images": ["/no/x.png"]}"#, "cannot read image /no/x.png: No such file"),
        (r#"{"image": "data:image/png,hello"}"#, "do not match any image format"),
        (
            r#"{"audio": "data:audio/wav,RIFF....WAVE"}"#,
            "starts like audio/wav, but it does not contain any data",
        ),
        (r#"{"video": 7}"#, "media must be a string or a list of strings"),
        (r#"{"images": []}"#, "neither `text` nor `texts`"),
        (
            r#"{"text": "a", "max_token": 5}"#,
            "unknown field `max_token`; supported fields are text",
        ),
        (r#"{"text": "a", "max_tokens": 5, "output_length": 5}"#, "both `max_tokens`"),
        (r#"{"text": "a", "max_tokens": 0}"#, "output tokens must be at least 1"),
        (r#"{"text": "a", "max_tokens": -1}"#, "integer `-1`"),
        (r#"{"text": "a", "delay": -3}"#, "must not be negative, got -3 ms"),
        (r#"{"text": "a", "timestamp": -1}"#, "timestamp must be at least 0, got -1 ms"),
        (r#"{"type": "mooncake_trace", "text": "a"}"#, "read as single_turn"),
    ] {
        let (number, reason) = fault(&format!("{{\"text\": \"ok\"}}\n{line}\n"), None);
        assert_eq!(number, 2, "{line}");
        assert!(reason.contains(words) && !reason.contains("at line"), "{line}: {reason}");
    }
}

#[test]
fn faults_of_multi_turn_are_named_with_line_and_turn() {
    let format = Some(FileFormat::MultiTurn);
    for (line, words) in [
        (r#"{"turns": []}"#, "does not have any turns"),
        (r#"{"turns": [{"text": "a"}, {"text": "b", "tools": 1}]}"#, "turn 2: `tools` is not"),
        (r#"{"turns": [{"text": "a"}, {"image": "/no/x.png"}]}"#, "turn 2: cannot read image"),
        (r#"{"turns": [{"text": "a"}], "name": 1}"#, "unknown field `name`"),
        (r#"{"text": "a"}"#, "missing field `turns`"),
        (r#"{"session_id": "s", "turns": [{"text": "a"}]}"#, "is already used by line 1"),
    ] {
        let first = r#"{"session_id": "s", "turns": [{"text": "a"}]}"#;
        let (number, reason) = fault(&format!("{first}\n\n{line}"), format);
        assert_eq!(number, 3, "{line}");
        assert!(reason.contains(words), "{line}: {reason}");
    }
}

#[test]
fn faults_of_documents_are_named() {
    let format = Some(FileFormat::InputsJson);
    for (document, number, words) in [
        ("{\n\"data\": 1}", 2, "expected a sequence"),
        ("{\"data\": [", 1, "EOF"),
        (r#"{"data": [{"payloads": [{}]}, {"payloads": []}]}"#, 2, "no payloads"),
        (r#"{"data": [{"payloads": [1]}]}"#, 1, "not a JSON object"),
        (r#"{"data": [{"payloads": [{"model": 1}]}]}"#, 1, "expected a string"),
    ] {
        let (at, reason) = fault(document, format);
        assert!(at == number && reason.contains(words), "{document}: {at} {reason}");
    }
    let (line, reason) = fault("[{},\n{\"conversations\": ]", None);
    assert_eq!(line, 2);
    assert!(reason.starts_with("row 2: "), "{reason}");
    assert_eq!(fault("[] x", None).0, 1);
}

/// Creates a ShareGPT entry with a prompt and a response of these numbers of o200k tokens; both "
/// a" and "a" are one token.
fn exchange(prompt: usize, answer: usize) -> String {
    let text = |tokens: usize| vec!["a"; tokens].join(" ");
    format!(
        r#"{{"id": "x", "conversations": [{{"from": "human", "value": "{}"}}, {{"from": "gpt", "value": "{}"}}]}}"#,
        text(prompt),
        text(answer)
    )
}

#[test]
fn sharegpt_takes_the_first_exchange_within_its_bounds() {
    let taken = [(4, 4), (1024, 1024), (1024, 4), (4, 2044)];
    let too_short = [(3, 100), (100, 3)];
    let too_long = [(1025, 4), (1024, 1025), (4, 2045)];
    let mut entries: Vec<String> = [&taken[..], &too_short, &too_long]
        .concat()
        .iter()
        .map(|(p, a)| exchange(*p, *a))
        .collect();
    entries.push(r#"{"id": "y", "conversations": [{"from": "human", "value": "a b c d"}]}"#.into());
    entries.push(r#"{"conversations": [{"from": "gpt", "value": "a b c d"}]}"#.into());
    entries.push(
        r#"{"conversations": [{"from": "system", "value": "s"}, {"from": "human", "value": "one two three four"},
            {"from": "gpt", "value": "five six seven eight nine"}, {"from": "human", "value": "ten"}]}"#
            .into(),
    );
    let loaded = loaded(&format!("[{}]", entries.join(",\n")), None).unwrap();

    let read: Vec<(usize, u32)> = loaded
        .conversations
        .iter()
        .map(|c| {
            (c.turns[0].texts[0].to_string().split(' ').count(), c.turns[0].max_tokens.unwrap())
        })
        .collect();
    assert_eq!(read, [(4, 4), (1024, 1024), (1024, 4), (4, 2044), (4, 5)]);
    assert!(loaded.conversations.iter().all(|conversation| conversation.turns.len() == 1));
    assert_eq!(loaded.note(), ": 2 without a usable prompt, 2 too short, 3 too long left out");
}

#[test]
fn sharegpt_may_have_the_names_of_openai_and_odd_rows() {
    let text = r#"[
        {"messages": [{"role": "user", "content": "one two three four"},
            {"role": "assistant", "content": "five six seven eight nine"}]},
        null,
        {"conversations": [{"from": "Human", "value": [{"type": "text", "text": "one two three four"}]},
            {"from": "gpt", "value": "five six seven eight"}]},
        {"conversations": null}, {"conversations": [null]}, {"id": 7}, "text", [],
        {"conversations": [{"from": "human"}]}
    ]"#;
    let loaded = loaded(text, None).unwrap();
    let tokens = loaded.conversations.iter().map(|chat| chat.turns[0].max_tokens.unwrap());
    assert_eq!(tokens.collect::<Vec<_>>(), [5, 4]);
    assert_eq!(loaded.note(), ": 7 without a usable prompt left out");
}

#[test]
fn the_public_sharegpt_sends_every_message_with_a_response() {
    let read = |text: &str| {
        let counter = TokenCounter::builtin();
        let loaded = sharegpt::read(text.as_bytes().into(), &counter, Sent::All).unwrap();
        let turns = loaded.conversations.iter().map(|found| {
            let turn = |turn: &Turn| (turn.texts[0].to_string(), turn.max_tokens.unwrap());
            found.turns.iter().map(turn).collect::<Vec<_>>()
        });
        turns.collect::<Vec<_>>()
    };
    let message = |from: &str, value: &str| format!(r#"{{"from": "{from}", "value": "{value}"}}"#);
    let chat = |messages: &[String]| format!(r#"[{{"conversations": [{}]}}]"#, messages.join(","));
    let [one, two] = ["one two three four", "five six seven eight"];
    let answered = [
        message("system", "s"),
        message("human", "not answered"),
        message("human", one),
        message("gpt", "one two three four five"),
        message("human", two),
        message("gpt", "one two three four"),
    ];
    assert_eq!(read(&chat(&answered)), [vec![(one.to_owned(), 5), (two.to_owned(), 4)]]);
    // A later exchange that is too short excludes the whole chat.
    let short =
        [message("human", one), message("gpt", one), message("human", "a"), message("gpt", one)];
    assert_eq!(read(&chat(&short)), Vec::<Vec<_>>::new());
}

#[test]
fn parts_of_speed_bench_are_questions_of_a_category() {
    let question = |id: &str, category: &str| {
        format!(
            r#"{{"question_id": "{id}", "category": "{category}", "source": "x", "messages":
            [{{"role": "system", "content": "s"}}, {{"role": "user", "content": "u"}}]}}"#
        )
        .replace('\n', " ")
    };
    let text =
        [question("1", "coding"), question("2", "mixed"), question("3", "coding")].join("\n");
    let ids = |part: Option<&'static str>| {
        let found = loaded(&text, part.map(FileFormat::SpeedBench)).unwrap().conversations;
        found.iter().map(|found| found.id.to_string()).collect::<Vec<_>>()
    };
    for part in [None, Some("qualitative"), Some("throughput_1k")] {
        assert_eq!(ids(part), ["1", "2", "3"], "{part:?}");
    }
    assert_eq!(ids(Some("coding")), ["1", "3"]);
    assert_eq!(ids(Some("throughput_16k_mixed")), ["2"]);
    let first = &loaded(&text, None).unwrap().conversations[0].turns;
    let roles: Vec<_> = first.iter().map(|turn| turn.role.as_deref().unwrap()).collect();
    assert_eq!(roles, ["system", "user"]);
    let placeholder =
        text.replace("\"u\"", "\"FULL BENCHMARK DATA SHOULD BE FETCHED FROM THE SOURCE\"");
    match loaded(&placeholder, None) {
        Err(Fault::Line(1, reason)) => assert!(reason.contains("reference"), "{reason}"),
        other => panic!("{other:?}"),
    }
}

fn any_json() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        any::<i64>().prop_map(Value::from),
        ".{0,8}".prop_map(Value::from),
    ];
    let names = "text|texts|turns|role|delay|max_tokens|data|payloads|session_id|from|value\
                 |conversations|model|type|timestamp|input_length|output_length|hash_ids|text_input\
                 |messages|payload|chat_id|parent_chat_id|turn|[a-z]{1,3}";
    leaf.prop_recursive(4, 32, 4, move |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..4).prop_map(Value::from),
            prop::collection::vec((names, inner), 0..4)
                .prop_map(|members| Value::Object(members.into_iter().collect())),
        ]
    })
}

const FORMATS: &[Option<FileFormat>] = &[
    None,
    Some(FileFormat::SingleTurn),
    Some(FileFormat::MultiTurn),
    Some(FileFormat::RandomPool),
    Some(FileFormat::RawPayload),
    Some(FileFormat::InputsJson),
    Some(FileFormat::ShareGpt),
    Some(FileFormat::MooncakeTrace),
    Some(FileFormat::BailianTrace),
    Some(FileFormat::BurstGptTrace),
];

proptest! {
    #[test]
    fn any_bytes_are_read_or_refused(bytes in prop::collection::vec(any::<u8>(), 0..120)) {
        for &format in FORMATS {
            let _ = read_bytes(&bytes, format);
        }
    }

    #[test]
    fn any_json_is_read_or_refused(value in any_json()) {
        for &format in FORMATS {
            let text = value.to_string();
            if let Ok(loaded) = loaded(&text, format) {
                prop_assert!(loaded.conversations.iter().all(|c| !c.turns.is_empty()), "{}", text);
            }
        }
    }

    #[test]
    fn what_is_written_is_read(
        rows in prop::collection::vec((".{1,20}", 1u32.., 0u32..100_000, "[a-z]{0,4}"), 1..6)
    ) {
        let line = |(text, tokens, delay, model): &(String, u32, u32, String)| {
            serde_json::json!({"text": text, "max_tokens": tokens, "delay": delay, "model": model})
        };
        let expect = |conversation: &Conversation, turn: usize, row: &(String, u32, u32, String)| {
            let turn = &conversation.turns[turn];
            assert_eq!(texts(turn), [row.0.as_str()]);
            assert_eq!((turn.max_tokens, &*turn.model), (Some(row.1), row.3.as_str()));
            assert_eq!(turn.delay, Nanos(u64::from(row.2) * 1_000_000));
        };
        let lines: Vec<Value> = rows.iter().map(line).collect();
        let single: Vec<String> = lines.iter().map(Value::to_string).collect();
        let read = conversations(&single.join("\n"));
        prop_assert_eq!(read.len(), rows.len());
        for (conversation, row) in read.iter().zip(&rows) {
            expect(conversation, 0, row);
        }
        let read = conversations(&serde_json::json!({"turns": lines}).to_string());
        prop_assert_eq!((read.len(), read[0].turns.len()), (1, rows.len()));
        for (turn, row) in rows.iter().enumerate() {
            expect(&read[0], turn, row);
        }
    }

    #[test]
    fn payloads_survive(values in prop::collection::vec(any_json(), 1..4)) {
        let payloads: Vec<Value> =
            values.into_iter().map(|value| serde_json::json!({"messages": value})).collect();
        let document = serde_json::json!({"data": [{"session_id": "s", "payloads": payloads}]});
        let read = conversations(&serde_json::to_string_pretty(&document).unwrap());
        let sent: Vec<Value> = read[0].turns.iter()
            .map(|turn| serde_json::from_str(turn.raw_payload.as_ref().unwrap().get()).unwrap())
            .collect();
        prop_assert_eq!(sent, payloads);
    }
}

/// A file of a format, its settings, and what the account of it must be.
struct Case {
    format: FileFormat,
    content: String,
    settings: TraceSettings,
    read: u64,
    left_out: Vec<(LeftOut, u64)>,
}

fn plain(format: FileFormat, content: &str, read: u64) -> Case {
    let settings = TraceSettings::default();
    Case { format, content: content.to_owned(), settings, read, left_out: Vec::new() }
}

/// Prompts have at most 50 tokens.
fn limited(format: FileFormat, content: &str, read: u64, left_out: &[(LeftOut, u64)]) -> Case {
    let settings = TraceSettings { max_input_tokens: Some(50), ..TraceSettings::default() };
    Case { settings, left_out: left_out.to_vec(), ..plain(format, content, read) }
}

const MESSAGE: &str = r#"[{"role": "user", "content": "a"}]"#;

/// A case for each format that has prompts, counted by hand.
fn accounts_of_prompts() -> Vec<Case> {
    let body = format!("{{\"messages\": {MESSAGE}}}");
    let chat = |turns: &[(&str, &str)]| {
        let said = |from: &str, text: &str| serde_json::json!({"from": from, "value": text});
        let both =
            turns.iter().flat_map(|(asked, answer)| [said("human", asked), said("gpt", answer)]);
        serde_json::json!({"conversations": both.collect::<Vec<_>>()})
    };
    let four = "one two three four";
    let sharegpt = serde_json::json!([
        chat(&[(four, four), (four, four), (four, four)]),
        chat(&[("one", four)]),
        chat(&[]),
        {"conversations": [{"from": "gpt", "value": four}]},
    ]);
    let question = |category: &str| {
        serde_json::json!({
            "question_id": category, "category": category,
            "messages": [{"role": "user", "content": "a"}, {"role": "user", "content": "b"}],
        })
        .to_string()
    };
    let dag = format!(
        "{{\"session_id\": \"a\", \"turns\": [{body}, {{\"messages\": {MESSAGE}, \"forks\": [\"b\"]}}]}}\n\
         {{\"session_id\": \"b\", \"turns\": [{body}]}}\n"
    );
    let batch = format!(
        "{{\"custom_id\": \"a\", \"method\": \"POST\", \"url\": \"/v1/chat/completions\", \
         \"body\": {body}}}"
    );
    vec![
        plain(FileFormat::SingleTurn, "{\"text\": \"a\"}\n\n{\"text\": \"b\"}\n", 2),
        plain(FileFormat::MultiTurn, "{\"turns\": [{\"text\": \"a\"}, {\"text\": \"b\"}]}", 2),
        plain(FileFormat::RandomPool, "{\"text\": \"a\"}\n{\"texts\": [\"b\", \"c\"]}", 2),
        plain(FileFormat::RawPayload, &format!("{body}\n{body}\n{body}"), 3),
        plain(
            FileFormat::InputsJson,
            &format!("{{\"data\": [{{\"session_id\": \"a\", \"payloads\": [{body}, {body}]}}]}}"),
            2,
        ),
        Case {
            left_out: vec![
                (LeftOut::WithoutPrompt, 2),
                (LeftOut::TooShort, 1),
                (LeftOut::LaterTurn, 2),
            ],
            ..plain(FileFormat::ShareGpt, &sharegpt.to_string(), 6)
        },
        plain(FileFormat::OpenAiBatch, &batch, 1),
        plain(FileFormat::DagJsonl, &dag, 3),
        Case {
            left_out: vec![(LeftOut::Filtered, 2)],
            ..plain(
                FileFormat::SpeedBench("coding"),
                &[question("coding"), question("math")].join("\n"),
                4,
            )
        },
    ]
}

/// A case for each format that has lengths, or the lengths of responses, counted by hand.
fn accounts_of_traces() -> Vec<Case> {
    let capture = |tokens: u32| {
        let request = serde_json::json!({"messages": [{"role": "user", "content": "a"}]});
        let response = serde_json::json!({"usage": {"prompt_tokens": tokens}});
        serde_json::json!({
            "captureData": {
                "endpointInput": {"data": request.to_string(), "encoding": "JSON"},
                "endpointOutput": {"data": response.to_string(), "encoding": "JSON"},
            },
            "eventMetadata": {"inferenceTime": "2026-11-21T15:04:05Z"},
        })
        .to_string()
    };
    let mooncake = (0..6)
        .map(|n| format!("{{\"input_length\": {}, \"session_id\": \"{}\"}}\n", 48 + n, n % 2));
    let otel = [("1", 50, 0), ("2", 51, 0), ("3", 9, 2), ("4", 60, 0)].map(|(id, tokens, code)| {
        let pair = |key: &str, value: Value| serde_json::json!({"key": key, "value": value});
        let attributes = [
            pair("gen_ai.operation.name", serde_json::json!({"stringValue": "chat"})),
            pair("gen_ai.usage.input_tokens", serde_json::json!({"intValue": tokens})),
        ];
        let span = serde_json::json!({"traceId": "a", "spanId": id, "startTimeUnixNano": 1,
            "endTimeUnixNano": 2, "attributes": attributes, "status": {"code": code}});
        serde_json::json!({"resourceSpans": [{"scopeSpans": [{"spans": [span]}]}]}).to_string()
    });
    let bailian = (0..4).map(|n| {
        format!(
            "{{\"chat_id\": {n}, \"parent_chat_id\": {}, \"timestamp\": {n}, \"turn\": {n}, \
             \"input_length\": {}, \"output_length\": 1}}\n",
            n - 1,
            49 + n
        )
    });
    let baseten = [9, 50, 51].map(|tokens| {
        format!(
            "{{\"timestamp_start_unix_ms\": 1, \"prompt\": \"a\", \"input_tokens\": {tokens}, \
             \"output_tokens\": 1}}\n"
        )
    });
    let burst = "Timestamp,Request tokens,Response tokens\n1,9,9\n2,9,0\n3,0,9\n4,51,9\n";
    vec![
        limited(
            FileFormat::MooncakeTrace,
            &mooncake.collect::<String>(),
            6,
            &[(LeftOut::MaxInput, 3)],
        ),
        limited(
            FileFormat::BailianTrace,
            &bailian.collect::<String>(),
            4,
            &[(LeftOut::MaxInput, 2)],
        ),
        limited(
            FileFormat::BurstGptTrace,
            burst,
            4,
            &[(LeftOut::Failed, 2), (LeftOut::MaxInput, 1)],
        ),
        limited(
            FileFormat::Otel,
            &otel.concat(),
            4,
            &[(LeftOut::Failed, 1), (LeftOut::MaxInput, 2)],
        ),
        limited(FileFormat::BasetenTrace, &baseten.concat(), 3, &[(LeftOut::MaxInput, 1)]),
        limited(
            FileFormat::SageMakerDataCapture,
            &[capture(50), capture(51)].join("\n"),
            2,
            &[(LeftOut::MaxInput, 1)],
        ),
    ]
}

/// What is left out of the formats of traces of agents.
fn accounts_of_agents() -> Vec<Case> {
    let request = |input: u32| serde_json::json!({"t": 0.0, "type": "n", "in": input, "out": 1});
    let agent = |inputs: &[u32]| {
        let requests: Vec<_> = inputs.iter().map(|input| request(*input)).collect();
        serde_json::json!({"t": 0.0, "type": "subagent", "agent_id": "s", "requests": requests})
    };
    let document = |id: &str, requests: &[Value]| {
        serde_json::json!({"id": id, "block_size": 16, "hash_id_scope": "local",
                           "requests": requests})
        .to_string()
    };
    // The sub-agent of the second document does not have an agent once the request of that agent is too long.
    let weka = [
        document("a", &[request(9), request(51), agent(&[9, 9, 60])]),
        document("b", &[request(99), agent(&[9, 9])]),
    ];
    let tracelab = ["{\"event_type\": \"text\", \"timestamp\": \"2026-01-01T00:00:00Z\"}", ""];
    let tracelab = [(9, 0), (51, 0), (9, 1)].map(|(tokens, event)| {
        format!(
            "{{\"session_id\": \"a\", \"input_tokens_total\": {tokens}, \"timing_events\": [{}]}}\n",
            tracelab[event]
        )
    });
    let exgentic = [(50, 0), (51, 0), (9, 2)].map(|(tokens, code)| {
        let messages = serde_json::json!([{"role": "user", "parts": []}]);
        let attributes = serde_json::json!({"gen_ai.input.messages": messages,
            "gen_ai.usage.input_tokens": tokens, "gen_ai.usage.output_tokens": 1});
        serde_json::json!({"type": "llm_call", "attributes": attributes, "status": {"code": code},
            "start_time": "2026-01-01T00:00:00Z", "end_time": "2026-01-01T00:00:01Z"})
    });
    let exgentic = serde_json::json!({"harness": "h", "session_id": "s", "spans": exgentic});
    vec![
        limited(FileFormat::WekaTrace, &weka.concat(), 8, &[(LeftOut::MaxInput, 5)]),
        limited(
            FileFormat::TraceLab,
            &tracelab.concat(),
            3,
            &[(LeftOut::MaxInput, 1), (LeftOut::WithoutPrompt, 1)],
        ),
        limited(
            FileFormat::Exgentic,
            &exgentic.to_string(),
            3,
            &[(LeftOut::Failed, 1), (LeftOut::MaxInput, 1)],
        ),
    ]
}

#[test]
fn every_format_accounts_for_what_it_reads() {
    let counter = TokenCounter::builtin();
    let mut formats = Vec::new();
    for Case { format, content, settings, read, left_out } in
        accounts_of_prompts().into_iter().chain(accounts_of_traces()).chain(accounts_of_agents())
    {
        let found = read_from(
            content.as_bytes(),
            Path::new(""),
            Some(format),
            &settings,
            &counter,
            Seed(1),
        );
        let conversations =
            found.unwrap_or_else(|fault| panic!("{format:?}: {fault:?}")).conversations;
        let account = conversations.account();
        let own = |it: &Conversation| it.own_turns().len();
        let kept = conversations.iter().map(own).sum::<usize>() as u64;
        assert_eq!((account.read(), account.kept()), (read, kept), "{format:?}");
        let expected: u64 = left_out.iter().map(|(_, number)| number).sum();
        assert_eq!(read, kept + expected, "{format:?}: {account:?}");
        for (why, number) in left_out {
            assert_eq!(account.left_out(why), number, "{format:?}: {account:?}");
        }
        formats.push(format);
    }
    let is_missing = |(_, format): &&(&str, FileFormat)| match format {
        FileFormat::SpeedBench(_) => false,
        format => !formats.contains(format),
    };
    let missing: Vec<_> = FileFormat::NAMES.iter().filter(is_missing).collect();
    assert!(missing.is_empty(), "{missing:?}");
}
