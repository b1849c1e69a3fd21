//! A box with a title in its top border.

use super::style::Style;
use crate::tables::format::bounded;

/// Minimum width of the text in a box.
const MIN_WIDTH: usize = 20;

/// Renders `lines` in a box no wider than the style's width. Longer lines are wrapped between
/// words and keep their indentation.
pub(super) fn render(title: &str, lines: &[String], style: Style) -> String {
    let most = usize::from(style.width).saturating_sub(6).max(MIN_WIDTH);
    let title = &*bounded(title);
    let lines: Vec<String> = lines.iter().flat_map(|line| wrapped(line, most)).collect();
    let width = lines
        .iter()
        .map(|line| line.chars().count())
        .chain([title.chars().count() + 2])
        .max()
        .unwrap_or(most);
    let edge = width + 4 - title.chars().count() - 2;
    let (left, right) = ("─".repeat(edge / 2), "─".repeat(edge - edge / 2));
    let body: Vec<String> = lines.iter().map(|line| format!("│  {line:width$}  │\n")).collect();
    let floor = "─".repeat(width + 4);
    format!("╭{left} {} {right}╮\n{}╰{floor}╯\n", style.yellow(title), body.concat())
}

/// Wraps `line` between words into lines of at most `most` characters that keep its
/// indentation.
pub(super) fn wrapped(line: &str, most: usize) -> Vec<String> {
    let indent = line.chars().take_while(|c| *c == ' ').count().min(most / 2);
    filled(indent, line.split_whitespace(), most)
}

/// Wraps a line between words, with a newline at its end and other lines indented.
#[must_use]
pub fn wrapped_line(line: &str, style: Style) -> String {
    let width = style.width.into();
    let first = filled(0, line.split_whitespace(), width).into_iter().next().unwrap_or_default();
    let rest: Vec<&str> = line.split_whitespace().skip(first.split_whitespace().count()).collect();
    if rest.is_empty() {
        return first + "\n";
    }
    format!("{first}\n{}\n", filled(2, rest, width).join("\n"))
}

/// Returns lines of `words` with `indent` spaces before them, of at most `most` characters.
pub(super) fn filled<'a>(
    indent: usize,
    words: impl IntoIterator<Item = &'a str>,
    most: usize,
) -> Vec<String> {
    let mut lines = vec![" ".repeat(indent)];
    let mut length = indent;
    for word in words {
        let word = bounded(word);
        let word_length = word.chars().count();
        if length > indent && length + 1 + word_length > most {
            lines.push(" ".repeat(indent));
            length = indent;
        }
        let Some(last) = lines.last_mut() else { continue };
        if length > indent {
            last.push(' ');
            length += 1;
        }
        last.push_str(&word);
        length += word_length;
    }
    lines
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn long_lines_break_between_words_and_keep_their_indentation() {
        assert_eq!(wrapped("  one two three", 9), ["  one two", "  three"]);
        assert_eq!(wrapped("short", 9), ["short"]);
        assert_eq!(wrapped("", 9), [""]);
        assert_eq!(wrapped("a-word-too-long", 5), ["a-word-too-long"]);
    }

    #[test]
    fn further_lines_are_indented_within_the_width() {
        let style = Style { width: 9, colour: false };
        assert_eq!(wrapped_line("one two six ten for", style), "one two\n  six ten\n  for\n");
        assert_eq!(wrapped_line("one two\n", style), "one two\n");
    }

    #[test]
    fn the_box_is_even() {
        let lines = ["What happened.".to_owned(), String::new(), "  - a remedy".to_owned()];
        let text = render("Title", &lines, Style { width: 60, colour: false });
        let expected = "\
╭───── Title ──────╮
│  What happened.  │
│                  │
│    - a remedy    │
╰──────────────────╯
";
        assert_eq!(text, expected);
    }
}
