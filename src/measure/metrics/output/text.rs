//! Finds the faults that a text shows by itself.

mod mojibake;
mod script;

use memchr::memmem;

use super::{Fault, Faults, body};

/// Most bytes at the end of a text in which a loop is searched.
const WINDOW: usize = 4096;

/// Fewest times that a text is repeated in a loop.
const REPEATS: usize = 5;

/// Fewest bytes of a loop.
const LOOP: usize = 48;

/// Most characters that a limit on tokens may leave of one that it cuts.
const CUT: usize = 4;

/// Returns what is wrong with the text of an answer to a request with this body.
pub(super) fn faults_of_answer(text: &str, body: &[u8]) -> Faults {
    let mut faults = faults_of_reasoning(text, body);
    faults.set(Fault::WrongScript, script::is_wrong(text, body));
    faults
}

/// Returns what is wrong with the text of the reasoning before the answer. It may be in any language.
pub(super) fn faults_of_reasoning(text: &str, body: &[u8]) -> Faults {
    let mut faults = Faults::default();
    faults.set(Fault::Repetition, ends_in_a_loop(text));
    if !text.is_ascii() {
        faults.set(Fault::ReplacementCharacters, has_replacements(text, body));
        faults.set(Fault::Mojibake, mojibake::is_in(text, body));
    }
    faults
}

/// Returns whether the text repeats the same until its end: for a `p`, its last bytes have the period `p`,
/// and are `REPEATS` times as many or more, and half of what is considered or more.
///
/// The suffix with the period `p` is `p` bytes longer than what the text and the text without its last `p`
/// bytes have in common at their ends: than the value of the Z-algorithm at `p` of the reversed text
/// (D. Gusfield, *Algorithms on Strings, Trees, and Sequences*, Cambridge 1997, sections 1.3 and 1.4). It
/// takes linear time.
///
/// What is repeated has a letter or a digit, since rules and the lines of tables repeat other characters
/// for good reason; or it has a `!`, which is token 0 of many vocabularies, and what servers return whose
/// numbers are not numbers.
fn ends_in_a_loop(text: &str) -> bool {
    let bytes = text.as_bytes();
    let bytes = &bytes[bytes.len().saturating_sub(WINDOW)..];
    let length = bytes.len();
    let least = LOOP.max(length.div_ceil(2));
    // How far from the end the last character is that a loop has. A suffix that is a loop has it if it is
    // long enough.
    let counts = |found: char| found.is_alphanumeric() || found == '!';
    let ends = text.char_indices().rev().map(|(at, found)| (text.len() - at, found));
    let mut near = ends.take_while(|(distance, _)| *distance <= length);
    let Some((distance, _)) = near.find(|(_, found)| counts(*found)) else { return false };

    let reversed = |at: usize| bytes[length - 1 - at];
    let mut common = [0; WINDOW / REPEATS + 1];
    // The part of the reversed text that is known to be equal to its start, as far as possible.
    let (mut left, mut right) = (0, 0);
    for period in 1..=length / REPEATS {
        let known = if period < right { common[period - left].min(right - period) } else { 0 };
        let is_equal = |ahead: &usize| reversed(*ahead) == reversed(period + ahead);
        let equal = known + (known..length - period).take_while(is_equal).count();
        common[period] = equal;
        if period + equal > right {
            (left, right) = (period, period + equal);
        }
        let looping = period + equal;
        if looping >= least.max(REPEATS * period) && looping >= distance {
            return true;
        }
    }
    false
}

/// Returns whether the text has U+FFFD before its end, and the body of the request does not.
fn has_replacements(text: &str, body: &[u8]) -> bool {
    let end = text.char_indices().rev().take(CUT).last().map_or(0, |(at, _)| at);
    let sought = "\u{FFFD}".as_bytes();
    memmem::find(&text.as_bytes()[..end], sought).is_some()
        && !body::chars(body).any(|found| found == char::REPLACEMENT_CHARACTER)
}

#[cfg(test)]
mod tests;
