//! The documentation is short enough to be read.

use super::{page, read};

/// Maximum number of pages in `docs`, without the decisions.
const PAGES: usize = 26;

/// Maximum number of words of all of them together.
const WORDS: usize = 60_000;

/// Maximum number of decisions, without their index.
const DECISIONS: usize = 50;

/// Maximum number of lines of the README.
const LINES: usize = 120;

/// Returns the number of words of a text: what has a letter or a digit between two spaces, so that
/// the lines of tables do not count.
fn words(text: &str) -> usize {
    text.split_whitespace().filter(|word| word.contains(char::is_alphanumeric)).count()
}

/// With `--nocapture`, prints the number of words of each page.
#[test]
fn the_documentation_is_short_enough() {
    let paths = page::all().into_iter().map(|page| page.path.display().to_string());
    let (decisions, pages): (Vec<_>, Vec<_>) =
        paths.filter(|path| path.starts_with("docs/")).partition(|path| path.contains("decisions"));
    let mut counts: Vec<_> = pages.iter().map(|path| (words(&read(path)), path)).collect();
    counts.sort();
    for (words, path) in &counts {
        println!("{words:6} {path}");
    }
    let total: usize = counts.iter().map(|(words, _)| words).sum();
    println!("{total:6} words in {} pages; {} decisions", pages.len(), decisions.len() - 1);
    assert!(pages.len() <= PAGES, "{} pages, of {PAGES} at most", pages.len());
    assert!(total <= WORDS, "{total} words, of {WORDS} at most");
    assert!(decisions.len() <= DECISIONS + 1, "{} decisions", decisions.len() - 1);
    let lines = read("README.md").lines().count();
    assert!(lines <= LINES, "README.md has {lines} lines, of {LINES} at most");
}

#[test]
fn words_are_counted_without_the_lines_of_tables() {
    assert_eq!(words("| a-b | 2 |\n|---|---|\n| `c d` | \u{2192} |"), 4);
}
