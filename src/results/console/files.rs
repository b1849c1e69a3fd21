//! The list of the files that a command has written, with their sizes.

use std::fs;
use std::path::{Path, PathBuf};

use base::redact::printable;

use super::panel;
use super::style::Style;

/// Units of sizes, each 1000 times the one before; the first is 1000 bytes.
const UNITS: [&str; 4] = ["kB", "MB", "GB", "TB"];

/// Renders in a line where the files are, how large everything in `directory` is, and which page there
/// is to open.
#[must_use]
pub fn render_place(directory: &Path, files: &[PathBuf]) -> String {
    let page = files.iter().find(|file| file.extension().is_some_and(|kind| kind == "html"));
    let page = page.map(|page| page.strip_prefix(directory).unwrap_or(page));
    let page = page.map(|page| format!("; open {}", printable(&page.display().to_string())));
    format!("{}{}\n", title(directory), page.unwrap_or_default())
}

/// Renders in a line how many pictures are in `directory`.
#[must_use]
pub fn render_pictures(directory: &Path, count: usize) -> String {
    let noun = if count == 1 { "picture" } else { "pictures" };
    format!("{count} {noun} in {}\n", printable(&directory.display().to_string()))
}

/// Returns the directory with the size of everything in it.
fn title(directory: &Path) -> String {
    let (name, size) = (directory.display().to_string(), size(total(directory)));
    format!("Files in {} ({size})", printable(&name))
}

/// Renders the list of files written and their sizes, with the size of everything in `directory`.
/// Names are relative to `directory` if they are in it.
#[must_use]
pub fn render_files(directory: &Path, files: &[PathBuf], style: Style) -> String {
    let mut items: Vec<String> = files
        .iter()
        .map(|file| {
            let name = file.strip_prefix(directory).unwrap_or(file);
            let name = printable(&name.display().to_string());
            match fs::metadata(file) {
                Ok(found) => format!("{name} ({}),", size(found.len())),
                Err(_) => format!("{name},"),
            }
        })
        .collect();
    // Only between files.
    if let Some(last) = items.last_mut() {
        last.pop();
    }
    let lines = panel::filled(2, items.iter().map(String::as_str), style.width.into()).join("\n");
    format!("{}\n{lines}\n", title(directory))
}

/// Returns the size in bytes of all files in `directory` and below, without following links.
fn total(directory: &Path) -> u64 {
    let entries = fs::read_dir(directory).into_iter().flatten().flatten();
    let sizes = entries.map(|entry| match entry.metadata() {
        Ok(found) if found.is_dir() => total(&entry.path()),
        Ok(found) if found.is_file() => found.len(),
        _ => 0,
    });
    sizes.sum()
}

/// Formats a size in bytes, as in `812 B`, `9.4 kB` and `12 MB`.
pub(super) fn size(bytes: u64) -> String {
    if bytes < 1000 {
        return format!("{bytes} B");
    }
    let mut value = bytes as f64 / 1000.0;
    let mut units = UNITS.into_iter().peekable();
    let mut unit = units.next().unwrap_or_default();
    // Below it, the value has at most three digits.
    while value >= 999.5
        && let Some(next) = units.next()
    {
        value /= 1000.0;
        unit = next;
    }
    let decimals = usize::from(value < 9.95);
    format!("{value:.decimals$} {unit}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_have_a_unit() {
        for (bytes, shown) in [
            (0, "0 B"),
            (999, "999 B"),
            (1000, "1.0 kB"),
            (9_949, "9.9 kB"),
            (9_950, "10 kB"),
            (999_499, "999 kB"),
            (999_500, "1.0 MB"),
            (1_234_567_890, "1.2 GB"),
            (5_000_000_000_000_000, "5000 TB"),
        ] {
            assert_eq!(size(bytes), shown, "{bytes}");
        }
    }

    #[test]
    fn files_are_listed_by_their_names_with_their_sizes() {
        let run = tempfile::tempdir().unwrap();
        let directory = run.path();
        fs::create_dir(directory.join("logs")).unwrap();
        for (name, bytes) in [("a.csv", 20), ("b.jsonl", 1500), ("logs/aiperf.log", 80)] {
            fs::write(directory.join(name), vec![b'x'; bytes]).unwrap();
        }
        let files =
            ["a.csv", "b.jsonl", "logs/x", "/else/a b.csv"].map(|name| directory.join(name));
        let text = render_files(directory, &files, Style { width: 40, colour: false });
        let (title, list) = text.split_once('\n').unwrap();
        assert_eq!(title, format!("Files in {} (1.6 kB)", directory.display()));
        // No line ends between a name and its size.
        assert_eq!(list, "  a.csv (20 B), b.jsonl (1.5 kB),\n  logs/x, /else/a b.csv\n");
    }

    #[test]
    fn the_place_of_the_files_is_one_line_with_the_page() {
        let run = tempfile::tempdir().unwrap();
        let directory = run.path();
        fs::write(directory.join("report.html"), "1234567").unwrap();
        let place = |files: &[PathBuf]| render_place(directory, files);
        let shown = directory.display();
        assert_eq!(place(&[]), format!("Files in {shown} (7 B)\n"));
        let page = directory.join("report.html");
        assert_eq!(
            place(&[directory.join("a.csv"), page]),
            format!("Files in {shown} (7 B); open report.html\n")
        );
    }
}
