//! Pages of the documentation for the terminal: their Markdown without its marks.

use super::layout::{Column, Table};
use super::panel;
use super::style::Style;

/// Renders Markdown: headings in bold, links and emphasis as their text, tables as tables, lists and
/// paragraphs as wide as the terminal, code as it is.
#[must_use]
pub fn render(markdown: &str, style: Style) -> String {
    let width = usize::from(style.width);
    let mut text = String::new();
    let mut lines = markdown.trim().lines().peekable();
    while let Some(line) = lines.next() {
        if line.starts_with("```") {
            let code = lines.by_ref().take_while(|line| !line.starts_with("```"));
            text.extend(code.map(|line| format!("    {line}\n")));
        } else if line.starts_with('|') {
            let mut rows = vec![cells(line)];
            while let Some(row) = lines.next_if(|line| line.starts_with('|')) {
                rows.push(cells(row));
            }
            text.push_str(&table(rows).render(style));
        } else if let Some(title) = line.strip_prefix('#') {
            let title = plain(title.trim_start_matches('#').trim());
            text.push_str(&(style.bold(&title) + "\n"));
        } else if line.trim().is_empty() {
            text.push('\n');
        } else {
            let mut whole = line.to_owned();
            let goes_on = |line: &&str| {
                let line = line.trim_start();
                !line.is_empty()
                    && !line.starts_with(['|', '#', '-', '*'])
                    && !line.starts_with("```")
            };
            while let Some(more) = lines.next_if(goes_on) {
                whole.push(' ');
                whole.push_str(more.trim());
            }
            let is_item = whole.trim_start().starts_with("- ");
            let wrapped = panel::wrapped(&plain(&whole), width.saturating_sub(2));
            for (at, line) in wrapped.iter().enumerate() {
                let indent = if is_item && at > 0 { "  " } else { "" };
                text.extend([indent, line, "\n"]);
            }
        }
    }
    text
}

/// Returns the table with these rows, of which the first is the header and the second the rule.
fn table(rows: Vec<Vec<String>>) -> Table {
    let mut rows = rows.into_iter();
    let columns = rows.next().unwrap_or_default().into_iter().map(Column::text);
    Table::plain(columns).rows(rows.skip(1))
}

/// Returns the cells of a row.
fn cells(row: &str) -> Vec<String> {
    let row = row.trim().trim_matches('|').replace("\\|", "\u{1}");
    row.split('|').map(|cell| plain(&cell.replace('\u{1}', "|")).trim().to_owned()).collect()
}

/// Returns a text without the marks of links, emphasis and code.
fn plain(text: &str) -> String {
    let mut shown = String::new();
    let mut rest = text;
    while let Some((before, after)) = rest.split_once('[') {
        shown.push_str(before);
        let link = after.split_once("](").and_then(|(name, more)| {
            let (_, more) = more.split_once(')')?;
            (!name.contains('\n')).then_some((name, more))
        });
        if let Some((name, more)) = link {
            shown.push_str(name);
            rest = more;
        } else {
            shown.push('[');
            rest = after;
        }
    }
    shown.push_str(rest);
    without_emphasis(&shown.replace("**", "")).replace('`', "")
}

/// Removes the asterisks around words, but none that stands alone.
fn without_emphasis(text: &str) -> String {
    let mut shown = String::new();
    let mut rest = text;
    while let Some((before, after)) = rest.split_once('*') {
        shown.push_str(before);
        let is_start = after.starts_with(|c: char| c.is_alphanumeric());
        let inner = after.split_once('*').filter(|(inner, _)| is_start && !inner.ends_with(' '));
        if let Some((inner, more)) = inner {
            shown.push_str(inner);
            rest = more;
        } else {
            shown.push('*');
            rest = after;
        }
    }
    shown + rest
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn markdown_is_shown_without_its_marks() {
        let page = "## Load `health`\n\nA **verdict** *on* the\n[load](gates.md#x), and [a].\n\n- one item \
                    that is long\n- two\n\n```sh\naiperf  demo\n```\n\n| a | b |\n|---|---|\n| `x\\|y` | 2 |\n";
        let text = render(page, Style { width: 24, colour: false });
        assert_eq!(
            text,
            "Load health\n\nA verdict on the load,\nand [a].\n\n- one item that is\n  long\n- two\n\n    \
             aiperf  demo\n\na    b\nx|y  2\n"
        );
    }
}
