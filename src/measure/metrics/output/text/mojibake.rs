//! Finds UTF-8 that was decoded as Latin-1 or Windows-1252.

use crate::metrics::output::body;

/// Fewest wrongly decoded characters.
const LEAST: usize = 2;

/// Returns whether some characters of the text were decoded wrongly, and none of the request's body.
pub(super) fn is_in(text: &str, body: &[u8]) -> bool {
    let mut found = 0;
    let mut follows_another = false;
    let mut rest = text;
    // Each first byte of a character, decoded as Latin-1, begins with this byte in UTF-8.
    while let Some(at) = memchr::memchr(0xC3, rest.as_bytes()) {
        let mut chars = rest[at..].chars();
        let sequence = chars.next().and_then(|lead| sequence(lead, chars.clone()));
        if let Some(Sequence { others, is_strange }) = sequence {
            // Two of them without anything between them are strange too.
            found += usize::from(is_strange || (follows_another && at == 0));
            if found >= LEAST {
                return !is_in_body(body);
            }
            chars.by_ref().take(others).for_each(drop);
        }
        follows_another = sequence.is_some();
        rest = chars.as_str();
    }
    false
}

fn is_in_body(body: &[u8]) -> bool {
    let mut chars = body::chars(body);
    while let Some(lead) = chars.next() {
        if sequence(lead, chars.clone()).is_some_and(|sequence| sequence.is_strange) {
            return true;
        }
    }
    false
}

/// Characters whose bytes in Windows-1252 are one character in UTF-8.
#[derive(Debug, Clone, Copy)]
struct Sequence {
    /// How many follow the first one.
    others: usize,
    /// Whether texts do not have them after each other.
    is_strange: bool,
}

fn sequence(lead: char, mut following: impl Iterator<Item = char>) -> Option<Sequence> {
    let others = match lead {
        '\u{C2}'..='\u{DF}' => 1,
        '\u{E0}'..='\u{EF}' => 2,
        '\u{F0}'..='\u{F4}' => 3,
        _ => return None,
    };
    let mut bytes = [lead as u8, 0, 0, 0];
    let mut is_strange = false;
    for (at, byte) in bytes.iter_mut().enumerate().skip(1).take(others) {
        let next = following.next()?;
        // The word ends, and what follows belongs to the next one.
        if at == 1 && others > 1 && next == '\u{A0}' {
            return None;
        }
        *byte = byte_of(next)?;
        is_strange |= !may_follow(lead, next);
    }
    std::str::from_utf8(&bytes[..=others]).ok()?;
    Some(Sequence { others, is_strange })
}

/// Returns whether texts have `next` after a word that ends with `lead`.
fn may_follow(lead: char, next: char) -> bool {
    match next {
        // «À», „Spaß“, Ç’kemi.
        '\u{A0}' | '«' | '»' | '‹' | '›' | '‘' | '’' | '“' | '”' | '…' | '–' | '—' => {
            true
        }
        // Marks after a word, and the letters of Windows-1252: NÍŽE. The excepted letters are the most
        // frequent ones in wrongly decoded texts, and are seldom the last of a word.
        '\u{AD}' | '•' | '·' | '†' | '‡' | '®' | '™' | '©' | '°' | 'º' | 'ª' | '¹' | '²' | '³'
        | '´' | '¡' | '¿' | 'Š' | 'š' | 'Ž' | 'ž' | 'Œ' | 'œ' | 'Ÿ' => {
            !matches!(lead, 'Â' | 'Ã' | 'â')
        }
        // 2×½, Ø½ inch, 5.2 Å±0.1.
        '¼' | '½' | '¾' | '±' | '€' | '£' | '¥' | '¢' => matches!(lead, '×' | 'Ø' | 'Å'),
        _ => false,
    }
}

/// Returns the byte that is `decoded` in Windows-1252; where that does not have a character, in Latin-1.
const fn byte_of(decoded: char) -> Option<u8> {
    Some(match decoded {
        '\u{80}'..='\u{FF}' => decoded as u8,
        '€' => 0x80,
        '‚' => 0x82,
        'ƒ' => 0x83,
        '„' => 0x84,
        '…' => 0x85,
        '†' => 0x86,
        '‡' => 0x87,
        'ˆ' => 0x88,
        '‰' => 0x89,
        'Š' => 0x8A,
        '‹' => 0x8B,
        'Œ' => 0x8C,
        'Ž' => 0x8E,
        '‘' => 0x91,
        '’' => 0x92,
        '“' => 0x93,
        '”' => 0x94,
        '•' => 0x95,
        '–' => 0x96,
        '—' => 0x97,
        '˜' => 0x98,
        '™' => 0x99,
        'š' => 0x9A,
        '›' => 0x9B,
        'œ' => 0x9C,
        'ž' => 0x9E,
        'Ÿ' => 0x9F,
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// Returns the text as a reader of Windows-1252 (WHATWG) sees it.
    fn wrong(text: &str) -> String {
        let decoded = |byte: u8| {
            (0x80..0x2123)
                .filter_map(char::from_u32)
                .filter(|found| !('\u{80}'..'\u{A0}').contains(found))
                .find(|found| byte_of(*found) == Some(byte))
                .unwrap_or(char::from(byte))
        };
        text.bytes()
            .map(|byte| if byte < 0x80 { char::from(byte) } else { decoded(byte) })
            .collect()
    }

    fn latin_1(text: &str) -> String {
        text.bytes().map(char::from).collect()
    }

    #[test]
    fn the_decoder_for_the_tests_is_right() {
        assert_eq!(wrong("It’s é – 你好"), "Itâ€™s Ã© â€“ ä½\u{a0}å¥½");
        assert_eq!(latin_1("’é"), "â\u{80}\u{99}Ã©");
    }

    #[test]
    fn wrongly_decoded_texts_of_many_languages_are_found() {
        for text in [
            "déjà vu, à côté de l’été",
            "señor, ¿qué año?",
            "für Mädchen über Straße",
            "não há ação",
            "It’s “fine” — don’t worry…",
            "25 °C or 30 °C",
            "Привет, мир",
            "Καλημέρα",
            "שלום",
            "مرحبا بالعالم",
            "你好，世界",
            "こんにちは",
            "안녕하세요",
            "नमस्ते",
            "สวัสดี",
            "😀 and 🚀",
            "a → b → c",
            "│ a │ b │",
            "✓ done ✗ failed ✓",
            "Tiếng Việt rất đẹp và khó",
            "Příliš žluťoučký kůň",
        ] {
            for garbled in [wrong(text), latin_1(text)] {
                assert!(is_in(&garbled, b"{}"), "{garbled}");
            }
            assert!(!is_in(text, b"{}"), "{text}");
        }
    }

    #[test]
    fn two_characters_are_enough() {
        assert!(is_in("CafÃ©s et thÃ©s", b"{}"));
        assert!(!is_in("CafÃ©s et thés", b"{}"));
        // One is not complete, or not valid.
        assert!(!is_in("CafÃ©s et â€", b"{}"));
        assert!(!is_in("CafÃ©s et Ã", b"{}"));
        assert!(!is_in("CafÃ©s et ô©©©", b"{}"));
    }

    #[test]
    fn what_the_request_has_may_be_repeated() {
        let text = "CafÃ©s et thÃ©s";
        assert!(!is_in(text, "{\"content\":\"Repair: CafÃ©\"}".as_bytes()));
        assert!(!is_in(text, br#"{"content":"Repair: Caf\u00c3\u00A9"}"#));
        assert!(is_in(text, br#"{"content":"Repair: Caf\u00c3 \u00A9"}"#));
    }

    #[test]
    fn punctuation_after_letters_is_right() {
        for text in [
            "« voilà\u{a0}» et « déjà\u{a0}»",
            "NÃO É, «AMANHÃ», «MAÇÃ»",
            "Depois da manhã”… e da maçã”…",
            "„Spaß“ macht Spaß… „Groß“",
            "CAFÉ® et CAFÉ™, «À», «É»",
            "VÝŠE a NÍŽE, BLÍŽE",
            "Ç’kemi? Ç’thua?",
            "AGÜ’nün İTÜ’de",
            "2×½ + 3×¼ = 5×€",
            "Ø½ inch, Ø¼ inch",
            "No sé…¿qué? Está…¡ya!",
            "é”— disse; até”— disse",
        ] {
            assert!(!is_in(text, b"{}"), "{text}");
        }
    }

    proptest! {
        #[test]
        fn never_panics(text in any::<String>(), body in any::<Vec<u8>>()) {
            is_in(&text, &body);
            is_in(&latin_1(&text), &body);
        }
    }
}
