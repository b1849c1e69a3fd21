use proptest::prelude::*;

use super::*;

/// Texts as models return them, without a fault. Each follows a line with its name.
const SOUND: &str = include_str!("sound.txt");

fn names(text: &str, body: &str) -> String {
    faults_of_answer(text, body.as_bytes()).names().unwrap_or_default()
}

fn sound() -> impl Iterator<Item = (&'static str, &'static str)> {
    SOUND.split("=== ").skip(1).filter_map(|part| part.split_once(" ===\n"))
}

#[test]
fn a_loop_has_five_repetitions_and_48_bytes() {
    assert!(ends_in_a_loop(&"abcdefghij".repeat(5)), "50 bytes");
    assert!(!ends_in_a_loop(&"abcdefghij".repeat(5)[..49]), "4.9 times");
    assert!(ends_in_a_loop(&"ab ".repeat(16)), "48 bytes");
    assert!(!ends_in_a_loop(&"ab ".repeat(16)[1..]), "47 bytes");
    assert!(!ends_in_a_loop(""));
}

#[test]
fn a_loop_is_half_of_the_text() {
    let looping = "and so on, ".repeat(10);
    let other: String = ('\u{4e00}'..).take(40).collect();
    let with = |bytes: usize| other[..bytes].to_owned() + &looping;
    assert_eq!((looping.len(), other.len()), (110, 120));
    assert!(ends_in_a_loop(&with(108)));
    assert!(!ends_in_a_loop(&with(111)), "221 bytes");
    // A last unit that is not complete belongs to the loop.
    assert!(ends_in_a_loop(&(with(111) + "and")));
    assert!(!ends_in_a_loop(&(with(0) + "no")), "it ended");
}

#[test]
fn only_the_end_of_a_long_text_counts() {
    let looping = |bytes: usize| "0123456789abcdef".repeat(bytes / 16);
    let before: Vec<String> = (0..9000).map(|number| format!("{number} ")).collect();
    let before = before.concat();
    // Half of 4096 are 2048.
    assert!(ends_in_a_loop(&(before.clone() + &looping(2048))));
    assert!(!ends_in_a_loop(&(before.clone() + &looping(2032))));
    // The longest period is a fifth of 4096.
    let unit = |bytes: usize| before[2000..2000 + bytes].repeat(5);
    assert!(ends_in_a_loop(&(before.clone() + &unit(819))));
    assert!(!ends_in_a_loop(&(before.clone() + &unit(820))));
}

#[test]
fn rules_are_not_loops() {
    assert!(!ends_in_a_loop(&"-".repeat(300)));
    assert!(!ends_in_a_loop(&"|---|:-:".repeat(40)));
    assert!(!ends_in_a_loop(&"😀 ".repeat(40)));
    assert!(!ends_in_a_loop(&("Title\n".to_owned() + &"=".repeat(100))));
    assert!(ends_in_a_loop(&"|---|:1:".repeat(40)));
    assert!(ends_in_a_loop(&"你".repeat(16)), "48 bytes");
    assert!(!ends_in_a_loop(&"你".repeat(15)));
    // Token 0.
    assert!(ends_in_a_loop(&"!".repeat(48)));
    assert!(ends_in_a_loop(&("The answer".to_owned() + &"!".repeat(48))));
}

#[test]
fn replacement_characters_before_the_end_are_a_fault() {
    let text = |after: usize| "Caf\u{FFFD}".to_owned() + &"é".repeat(after);
    assert_eq!(names(&text(4), "{}"), "replacement_characters");
    assert_eq!(names(&text(3), "{}"), "");
    assert_eq!(names("ab\u{FFFD}\u{FFFD}\u{FFFD}", "{}"), "");
    for body in ["{\"prompt\":\"\u{FFFD}\"}", r#"{"prompt":"\ufffd"}"#, r#"{"prompt":"\uFFfD"}"#] {
        assert_eq!(names(&text(9), body), "", "{body}");
    }
    assert_eq!(names(&text(9), r#"{"prompt":"\ufff0"}"#), "replacement_characters");
}

#[test]
fn reasoning_may_be_in_any_language() {
    let body = br#"{"prompt":"Tell me something about that sea"}"#;
    let text = "这是一个关于海的故事\u{FFFD}CafÃ©s et thÃ©s";
    let of_reasoning = faults_of_reasoning(text, body).names();
    assert_eq!(of_reasoning.as_deref(), Some("replacement_characters,mojibake"));
    assert_eq!(
        names(&text[..30], "{\"prompt\":\"Tell me something about that sea\"}"),
        "wrong_script"
    );
}

#[test]
fn sound_texts_do_not_have_faults() {
    assert!(sound().count() >= 30);
    for (name, text) in sound() {
        assert!(text.chars().count() >= 150, "{name} is short");
        // Each request is in the language of the answer.
        let body = serde_json::json!({"messages": [{"role": "user", "content": request(name)}]})
            .to_string();
        for end in (0..text.len()).step_by(7).chain([text.len()]) {
            if let Some(part) = text.get(..end) {
                assert_eq!(names(part, &body), "", "{name}, {end} bytes: {part}");
                assert_eq!(names(part, ""), "", "{name}, {end} bytes, without a request");
            }
        }
    }
}

/// Returns a request to which the text with this name is an answer.
fn request(name: &str) -> &'static str {
    match name {
        "chinese" => "请简单介绍一下大语言模型的推理服务。",
        "japanese" => "大規模言語モデルの推論について説明してください。",
        "korean" => "대규모 언어 모델의 추론을 설명해 주세요.",
        "arabic" => "اشرح لي كيف تعمل خوادم النماذج اللغوية.",
        "hebrew" => "הסבר לי איך פועלים שרתים של מודלי שפה.",
        "russian" => "Объясни, как работают серверы языковых моделей.",
        "hindi" => "भाषा मॉडल के सर्वर कैसे काम करते हैं?",
        "thai" => "อธิบายการทำงานของเซิร์ฟเวอร์โมเดลภาษา",
        "greek" => "Εξήγησέ μου πώς λειτουργούν οι διακομιστές.",
        "bilingual" => "Answer in English, and then in the language of this sentence: 什么是延迟？",
        "translation" => "Please translate these three sentences about the harbour into Russian.",
        _ => "Please write what I have described above, in as much detail as you can.",
    }
}

#[test]
fn damaged_texts_have_faults() {
    for (name, text) in sound() {
        let looping =
            text.to_owned() + &" and again the same".repeat(1 + text.len().min(4096) / 19);
        assert_eq!(names(&looping, ""), "repetition", "{name}");
        if text.is_ascii() || ["emoji", "drawing", "latex"].contains(&name) {
            continue;
        }
        let latin_1: String = text.bytes().map(char::from).collect();
        assert!(faults_of_reasoning(&latin_1, b"").contains(Fault::Mojibake), "{name}");
        let end = text.char_indices().rev().nth(9).unwrap().0;
        let replaced =
            text[..end].replace(|found: char| !found.is_ascii(), "\u{FFFD}") + &text[end..];
        let faults = faults_of_answer(&replaced, b"");
        assert!(faults.contains(Fault::ReplacementCharacters), "{name}");
    }
}

proptest! {
    #[test]
    fn never_panics(text in any::<String>(), body in any::<Vec<u8>>()) {
        faults_of_answer(&text, &body);
    }

    #[test]
    fn repeated_units_are_found(
        unit in ".{0,20}[a-zА-я一-九].{0,20}",
        prefix in ".{0,49}",
    ) {
        let times = 5.max(200_usize.div_ceil(unit.len()));
        prop_assert!(ends_in_a_loop(&(prefix + &unit.repeat(times))));
    }

    #[test]
    fn loops_are_those_of_the_definition(text in "[ab-]{0,9}([ab]{1,4}-?){10,40}|(ab-?){20,40}|[ab!]{40,70}") {
        let bytes = text.as_bytes();
        // The longest suffix in which each byte is the one `period` bytes before it.
        let suffix = |period: usize| {
            let equal = |at: &usize| bytes[*at] == bytes[*at - period];
            period + (period..bytes.len()).rev().take_while(equal).count()
        };
        let expected = (1..=bytes.len() / 5).any(|period| {
            let length = suffix(period);
            let has_letter = bytes[bytes.len() - length..].iter().any(|byte| *byte != b'-');
            length >= 48 && length >= 5 * period && 2 * length >= bytes.len() && has_letter
        });
        prop_assert_eq!(ends_in_a_loop(&text), expected);
    }
}
