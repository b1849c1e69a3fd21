use proptest::prelude::*;

use super::*;

/// A prompt with 25 letters.
const PROMPT: &str = r#"{"messages":[{"content":"Tell me something about that sea"}]}"#;

fn wrong(text: &str, body: &str) -> bool {
    is_wrong(text, body.as_bytes())
}

#[test]
fn letters_have_scripts() {
    for (letters, script) in [
        ("aZéßłơếǅ", Script::Latin),
        ("αΩἀ", Script::Greek),
        ("яЁѓ", Script::Cyrillic),
        ("ա", Script::Armenian),
        ("გ", Script::Georgian),
        ("שא", Script::Hebrew),
        ("سپچ", Script::Arabic),
        ("नी", Script::Devanagari),
        ("ক", Script::Bengali),
        ("ਕ", Script::Gurmukhi),
        ("ક", Script::Gujarati),
        ("କ", Script::Oriya),
        ("க", Script::Tamil),
        ("క", Script::Telugu),
        ("ಕ", Script::Kannada),
        ("ക", Script::Malayalam),
        ("ක", Script::Sinhala),
        ("สั", Script::Thai),
        ("한ㄱ", Script::Hangul),
        ("漢あカ々𠀀", Script::Han),
    ] {
        for letter in letters.chars() {
            assert_eq!(Script::of(letter), Some(script), "{letter}");
        }
    }
    for other in "1 -_。、「😀×÷٣፩ក\u{FFFD}".chars() {
        assert_eq!(Script::of(other), None, "{other}");
    }
}

#[test]
fn a_whole_text_in_another_script_is_wrong() {
    // 24 letters: 8 of 3, or 24 of 1.
    assert!(!wrong("这是一个关于海", PROMPT), "21 letters");
    assert!(wrong("这是一个关于海的", PROMPT));
    assert!(wrong(&"я".repeat(24), PROMPT));
    assert!(!wrong(&"я".repeat(23), PROMPT));
    // 90% of 30 are 27.
    assert!(wrong(&("я".repeat(27) + "abc"), PROMPT));
    assert!(!wrong(&("abcd".to_owned() + &"я".repeat(26)), PROMPT));
}

#[test]
fn the_request_may_have_the_script() {
    let text = "я".repeat(24);
    assert!(!wrong(&text, r#"{"messages":[{"content":"Tell me something about that sea: м"}]}"#));
    assert!(!wrong(
        &text,
        r#"{"messages":[{"content":"Tell me something about that sea \u043C"}]}"#
    ));
    assert!(wrong(
        &text,
        r#"{"messages":[{"content":"Tell me something about that sea \u6d77"}]}"#
    ));
    for request in
        ["Translate: I was at that sea once", "What is sea called in Russian, dear friend?"]
    {
        assert!(!wrong(&text, &format!(r#"{{"prompt":"{request}"}}"#)), "{request}");
    }
    assert!(wrong(&text, r#"{"prompt":"What is sea called in prussiaN, dear friend?"}"#));
}

#[test]
fn a_prompt_without_a_text_does_not_say_anything() {
    let text = "я".repeat(24);
    assert!(!wrong(&text, r#"{"model":"some-very-long-name-of-a-model","prompt":[1,2,3]}"#));
    let prompt = |letters: usize| format!(r#"{{"prompt":"{}"}}"#, "a".repeat(letters));
    assert!(!wrong(&text, &prompt(23)));
    assert!(wrong(&text, &prompt(24)));
}

#[test]
fn a_change_of_the_script_is_wrong() {
    let changed = |first: &str, second: &str| first.to_owned() + second;
    let short = r#"{"prompt":"Hi"}"#;
    // 12 Latin letters, and 4 that count for 12.
    assert!(!wrong(&changed("It is the sea", " 海水很蓝"), short), "10 + 12 letters");
    assert!(wrong(&changed("It is the one sea", " 海水很蓝"), short));
    // Half of 12 are 6.
    assert!(wrong(&changed("It is a large se", "a so deep 海水"), short));
    assert!(!wrong(&changed("It is a large se", "a so deep, 海"), short));
    // 90% of 20 are 18.
    let half = |others: usize| "a".repeat(20 - others) + &"я".repeat(others);
    assert!(wrong(&(half(2) + &half(20)), short));
    assert!(!wrong(&(half(3) + &half(20)), short));
    // Of a change to Latin letters, nothing is said.
    assert!(!wrong(&(half(20) + &half(0)), short));
    assert!(wrong(&("α".repeat(20) + &half(20)), r#"{"prompt":"αβ"}"#));
    assert!(!wrong(&(half(0) + &half(20)), r#"{"prompt":"м"}"#));
    assert!(!wrong(&(half(0) + &half(20)), r#"{"prompt":[1]}"#));
}

proptest! {
    #[test]
    fn never_panics(text in any::<String>(), body in any::<Vec<u8>>()) {
        is_wrong(&text, &body);
        is_wrong(&(text + &"я".repeat(99)), &[PROMPT.as_bytes(), &body].concat());
    }

    #[test]
    fn what_the_request_has_is_right(text in "[a-zа-я一-九가-나 ]{0,80}") {
        let body = format!(r#"{{"prompt":"{text}"}}"#);
        prop_assert!(!wrong(&text, &body));
    }
}
