//! Finds outputs in a script that the request does not have.

use memchr::memmem;

use crate::metrics::output::body;

/// Fewest letters that show the script of a text.
const LETTERS: u32 = 24;

/// The scripts in which languages are usually written. Letters of others are ignored.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Script {
    Latin,
    Greek,
    Cyrillic,
    Armenian,
    Georgian,
    Hebrew,
    Arabic,
    Devanagari,
    Bengali,
    Gurmukhi,
    Gujarati,
    Oriya,
    Tamil,
    Telugu,
    Kannada,
    Malayalam,
    Sinhala,
    Thai,
    Hangul,
    /// Han, Hiragana and Katakana, which one text has together.
    Han,
}

const SCRIPTS: usize = Script::Han as usize + 1;

impl Script {
    /// Returns the script of a letter, by the blocks of Unicode.
    fn of(letter: char) -> Option<Self> {
        if letter.is_ascii() {
            return letter.is_ascii_alphabetic().then_some(Self::Latin);
        }
        let script = match letter as u32 {
            0xAA..=0x2AF | 0x1E00..=0x1EFF | 0x2C60..=0x2C7F | 0xA720..=0xA7FF => Self::Latin,
            0x370..=0x3FF | 0x1F00..=0x1FFF => Self::Greek,
            0x400..=0x52F | 0x1C80..=0x1C8F | 0x2DE0..=0x2DFF | 0xA640..=0xA69F => Self::Cyrillic,
            0x530..=0x58F => Self::Armenian,
            0x590..=0x5FF | 0xFB1D..=0xFB4F => Self::Hebrew,
            0x600..=0x6FF | 0x750..=0x77F | 0x870..=0x8FF | 0xFB50..=0xFDFF | 0xFE70..=0xFEFF => {
                Self::Arabic
            }
            0x900..=0x97F => Self::Devanagari,
            0x980..=0x9FF => Self::Bengali,
            0xA00..=0xA7F => Self::Gurmukhi,
            0xA80..=0xAFF => Self::Gujarati,
            0xB00..=0xB7F => Self::Oriya,
            0xB80..=0xBFF => Self::Tamil,
            0xC00..=0xC7F => Self::Telugu,
            0xC80..=0xCFF => Self::Kannada,
            0xD00..=0xD7F => Self::Malayalam,
            0xD80..=0xDFF => Self::Sinhala,
            0xE00..=0xE7F => Self::Thai,
            0x10A0..=0x10FF | 0x1C90..=0x1CBF | 0x2D00..=0x2D2F => Self::Georgian,
            0x1100..=0x11FF | 0x3130..=0x318F | 0xAC00..=0xD7FF => Self::Hangul,
            0x2E80..=0x312F
            | 0x31A0..=0x9FFF
            | 0xF900..=0xFAFF
            | 0xFF66..=0xFF9D
            | 0x2_0000..=0x3_FFFF => Self::Han,
            _ => return None,
        };
        letter.is_alphabetic().then_some(script)
    }

    /// Returns for how many letters one letter counts: a syllable or a word is about three.
    const fn weight(self) -> u32 {
        match self {
            Self::Han | Self::Hangul => 3,
            _ => 1,
        }
    }

    /// Returns English names of languages with the script, and of the script.
    const fn names(self) -> &'static [&'static str] {
        match self {
            Self::Latin => &[],
            Self::Greek => &["greek"],
            Self::Cyrillic => &[
                "cyrillic",
                "russian",
                "ukrainian",
                "bulgarian",
                "belarus",
                "serbian",
                "macedonian",
                "kazakh",
                "mongolian",
                "kyrgyz",
                "tajik",
                "tatar",
            ],
            Self::Armenian => &["armenian"],
            Self::Georgian => &["georgian"],
            Self::Hebrew => &["hebrew", "yiddish"],
            Self::Arabic => &["arabic", "persian", "farsi", "urdu", "pashto", "kurdish", "uyghur"],
            Self::Devanagari => &["devanagari", "hindi", "marathi", "nepali", "sanskrit"],
            Self::Bengali => &["bengali", "bangla", "assamese"],
            Self::Gurmukhi => &["punjabi", "gurmukhi"],
            Self::Gujarati => &["gujarati"],
            Self::Oriya => &["oriya", "odia"],
            Self::Tamil => &["tamil"],
            Self::Telugu => &["telugu"],
            Self::Kannada => &["kannada"],
            Self::Malayalam => &["malayalam"],
            Self::Sinhala => &["sinhala"],
            Self::Thai => &["thai"],
            Self::Hangul => &["korean", "hangul"],
            Self::Han => &["chinese", "mandarin", "cantonese", "japanese", "kanji", "hiragana"],
        }
    }
}

/// What asks for a translation: English, French, Italian, Portuguese, Spanish and German.
const TRANSLATIONS: [&str; 3] = ["translat", "tradu", "bersetz"];

/// Returns whether the body has this word in lower case, perhaps with a capital letter at its start.
fn has_word(body: &[u8], word: &str) -> bool {
    let Some((first, rest)) = word.as_bytes().split_first() else { return false };
    memmem::find_iter(body, rest)
        .filter_map(|at| body.get(at.checked_sub(1)?))
        .any(|before| before.eq_ignore_ascii_case(first))
}

/// Counts of letters by script.
#[derive(Debug, Default)]
struct Letters([u32; SCRIPTS]);

impl Letters {
    const fn add(&mut self, script: Script) {
        self.0[script as usize] += script.weight();
    }

    fn total(&self) -> u32 {
        self.0.iter().sum()
    }
}

/// Returns whether the text, or its second half, is in a script that the request does not have.
///
/// A change to Latin letters is not found, since each body has them in the names of members.
pub(super) fn is_wrong(text: &str, body: &[u8]) -> bool {
    if text.is_ascii() {
        return false;
    }
    let Some((script, fewest)) = suspicious(text) else { return false };
    let asks_for_it = || {
        let mut names = script.names().iter().chain(&TRANSLATIONS);
        names.any(|name| has_word(body, name))
    };
    // Of a prompt without letters, as one of tokens, nothing is known.
    let weight = |letter| Script::of(letter).map_or(0, Script::weight);
    !body::chars(body).any(|letter| Script::of(letter) == Some(script))
        && body::has_letters(body, fewest, weight)
        && !asks_for_it()
}

/// Returns the script that the text is in or changes to, unless it is Latin, and the fewest letters of
/// other scripts that the request has if that is wrong.
fn suspicious(text: &str) -> Option<(Script, u32)> {
    let scripts = || text.chars().filter_map(Script::of);
    let mut letters = Letters::default();
    scripts().for_each(|script| letters.add(script));
    let total = letters.total();
    // Latin letters may be all: most texts end here.
    let others = total - letters.0[Script::Latin as usize];
    if total < LETTERS || others * 5 < total {
        return None;
    }
    let count = |letters: &Letters, script: Script| letters.0[script as usize];
    let [mut first, mut second] = [Letters::default(), Letters::default()];
    let mut seen = 0;
    for script in scripts() {
        let half = if 2 * seen < total { &mut first } else { &mut second };
        half.add(script);
        seen += script.weight();
    }
    let most = |letters: &Letters| scripts().max_by_key(|script| count(letters, *script));
    let whole = most(&letters)?;
    if whole != Script::Latin && 10 * count(&letters, whole) >= 9 * total {
        return Some((whole, LETTERS));
    }
    let (before, after) = (most(&first)?, most(&second)?);
    let changes = before != after
        && after != Script::Latin
        && 10 * count(&first, before) >= 9 * first.total()
        && 2 * count(&second, after) >= second.total();
    changes.then_some((after, 1))
}

#[cfg(test)]
mod tests;
