//! The text in the body of a request, read without parsing it as JSON.

use memchr::memmem;

/// The members whose strings are the text of prompts.
const PROMPTS: [&str; 5] = ["\"content\"", "\"text\"", "\"prompt\"", "\"input\"", "\"inputs\""];

/// The characters of a body in JSON, with `\uXXXX` decoded. Only those outside ASCII are of interest: of
/// several ASCII characters, there is one space.
///
/// A backslash before the one of an escape is not considered, so that what a text in JSON has within a
/// string of the body is decoded too. What is not a character is U+FFFD.
#[derive(Debug, Clone)]
pub(super) struct Chars<'a> {
    rest: &'a [u8],
}

pub(super) const fn chars(body: &[u8]) -> Chars<'_> {
    Chars { rest: body }
}

impl Iterator for Chars<'_> {
    type Item = char;

    fn next(&mut self) -> Option<char> {
        let (first, others) = self.rest.split_first()?;
        let (found, length) = if !first.is_ascii() {
            character(self.rest).unwrap_or((char::REPLACEMENT_CHARACTER, 1))
        } else if let Some(escaped) = escape(self.rest) {
            escaped
        } else {
            let ends = |byte: &u8| !byte.is_ascii() || *byte == b'\\';
            (' ', 1 + others.iter().position(ends).unwrap_or(others.len()))
        };
        self.rest = self.rest.get(length..).unwrap_or_default();
        Some(found)
    }
}

/// Returns the character outside ASCII at the start of `bytes`, and its length.
fn character(bytes: &[u8]) -> Option<(char, usize)> {
    let length = match bytes.first()? {
        0xC2..=0xDF => 2,
        0xE0..=0xEF => 3,
        0xF0..=0xF4 => 4,
        _ => return None,
    };
    let text = std::str::from_utf8(bytes.get(..length)?).ok()?;
    Some((text.chars().next()?, length))
}

/// Returns the character that the escape at the start of `bytes` stands for, and the escape's length.
fn escape(bytes: &[u8]) -> Option<(char, usize)> {
    let code = code_unit(bytes)?;
    let other = bytes.get(6..).and_then(code_unit);
    if let (0xD800..=0xDBFF, Some(low @ 0xDC00..=0xDFFF)) = (code, other) {
        let pair = 0x1_0000 + ((code - 0xD800) << 10) + (low - 0xDC00);
        return Some((char::from_u32(pair)?, 12));
    }
    Some((char::from_u32(code).unwrap_or(char::REPLACEMENT_CHARACTER), 6))
}

/// Returns the number in the `\uXXXX` at the start of `bytes`.
fn code_unit(bytes: &[u8]) -> Option<u32> {
    let digits = bytes.strip_prefix(b"\\u")?.get(..4)?;
    digits.iter().try_fold(0, |code, digit| Some(code * 16 + char::from(*digit).to_digit(16)?))
}

/// Returns whether the texts of prompts in `body` have `least` letters or more, of which each counts
/// as `weight` says.
pub(super) fn has_letters(body: &[u8], least: u32, weight: impl Fn(char) -> u32) -> bool {
    let mut letters = 0;
    for name in PROMPTS {
        for at in memmem::find_iter(body, name) {
            let mut text = body.get(at + name.len()..).and_then(string).unwrap_or_default();
            while let Some(first) = text.first() {
                let (found, length) = match first {
                    b'\\' => escape(text).unwrap_or((' ', 2)),
                    byte if byte.is_ascii() => (char::from(*byte), 1),
                    _ => character(text).unwrap_or((' ', 1)),
                };
                letters += weight(found);
                if letters >= least {
                    return true;
                }
                text = text.get(length..).unwrap_or_default();
            }
        }
    }
    false
}

/// Returns the string that is the value, or the first of the list that is the value, of the member whose
/// name precedes `bytes`.
fn string(bytes: &[u8]) -> Option<&[u8]> {
    let value = bytes.trim_ascii_start().strip_prefix(b":")?.trim_ascii_start();
    let first = value.strip_prefix(b"[").unwrap_or(value).trim_ascii_start();
    let text = first.strip_prefix(b"\"")?;
    let mut at = 0;
    loop {
        at += memchr::memchr2(b'"', b'\\', text.get(at..)?)?;
        if text[at] == b'"' {
            return text.get(..at);
        }
        at += 2;
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn all(body: &str) -> String {
        chars(body.as_bytes()).collect()
    }

    #[test]
    fn escapes_and_utf_8_are_the_same() {
        assert_eq!(all(r#"{"a":"é\u00e9\u4F60"}"#), " éé你 ");
        assert_eq!(all(r#""\ud83d\ude00\uD83D." \n"#), " 😀\u{fffd}  ");
        assert_eq!(all(r"\\u4f60\u12"), " 你 ");
        let not_text = [b'a', 0xFF, 0xE4, 0xBD, b'a'];
        assert_eq!(chars(&not_text).collect::<String>(), " \u{fffd}\u{fffd}\u{fffd} ");
    }

    #[test]
    fn only_texts_of_prompts_have_letters() {
        let count = |body: &str| {
            let weight = |found: char| u32::from(found.is_alphabetic());
            (1..99).take_while(|least| has_letters(body.as_bytes(), *least, weight)).count()
        };
        assert_eq!(count(r#"{"model":"model","prompt":[1,2,3],"seed":1}"#), 0);
        assert_eq!(count(r#"{"model":"model","prompt":["ab c","d"]}"#), 3);
        assert_eq!(count(r#"{"messages":[{"content" : "a\n\"b\u00e9é"}]}"#), 4);
        assert_eq!(count(r#"{"input":[{"content":[{"text":"ab"},{"text":"cd"}]}]}"#), 4);
        assert_eq!(count(r#"{"prompt":"cut"#), 0);
        assert_eq!(count(r#"{"prompt":"cut\"#), 0);
        assert_eq!(count(r#"{"prompt""#), 0);
    }

    proptest! {
        #[test]
        fn any_bytes_are_a_body(bytes in proptest::collection::vec(any::<u8>(), 0..200)) {
            prop_assert!(chars(&bytes).count() <= bytes.len());
            has_letters(&[b"\"text\":\"", &*bytes].concat(), u32::MAX, |_| 1);
        }

        #[test]
        fn characters_of_a_body_are_those_of_its_texts(text in "[^\\x00-\\x7f]{0,40}") {
            prop_assert_eq!(all(&text), text.clone());
            let escaped: Vec<String> =
                text.encode_utf16().map(|unit| format!("\\u{unit:04X}")).collect();
            prop_assert_eq!(all(&escaped.concat()), text);
        }
    }
}
