//! Comparisons of runs, as tables and as Markdown.

use base::redact::printable;
use measure::judge::Comparison;

use super::layout::Table;
use super::panel;
use super::style::Style;
use crate::tables::Content;
use crate::tables::compare::{comparison, conclusion, different_loads};

/// Renders the comparison of two directories: of their runs, or of each cell of their sweeps.
#[must_use]
pub fn render(cells: &[Comparison], style: Style) -> String {
    let said = |text: &str| panel::wrapped(text, style.width.into()).join("\n") + "\n\n";
    let first = different_loads(cells);
    let first = if first.is_empty() { first } else { said(&first) };
    first + &Table::render_table(&comparison(cells), style) + &said(&conclusion(cells))
}

/// Renders what [`render`] does as Markdown.
#[must_use]
pub fn markdown(cells: &[Comparison]) -> String {
    let table = comparison(cells);
    let escaped = |text: &str| printable(text).replace('<', "&lt;");
    let cell = |text: &str| escaped(text).replace('|', "\\|");
    let line = |cells: Vec<String>| format!("| {} |\n", cells.join(" | "));
    let first = different_loads(cells);
    let first = if first.is_empty() { first } else { escaped(&first) + "\n\n" };
    let title = escaped(&table.title);
    let mut text =
        format!("{first}### aiperf | {title}\n\n**{}**\n\n", escaped(&conclusion(cells)));
    let columns = || table.columns.iter();
    text += &line(columns().map(|column| column.name.to_string()).collect());
    let rule = |content| if content == Content::Number { "---:" } else { "---" };
    text += &line(columns().map(|column| rule(column.content).to_owned()).collect());
    for row in &table.rows {
        let shown = columns().zip(row).map(|(column, it)| cell(&it.shown(column.content)));
        text += &line(shown.collect());
    }
    text += "\n";
    let notes = table.few().into_iter().chain(table.findings);
    text.extend(notes.map(|note| format!("- {}\n", cell(&note))));
    text + "\n"
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tables::compare::tests::compared;

    #[test]
    fn the_table_of_a_comparison_at_four_widths() {
        let shown = [60, 80, 100, 160].map(|width| {
            let text = render(&[compared()], Style { width, colour: false });
            assert!(text.lines().all(|line| line.chars().count() <= width.into()), "{text}");
            format!("{width} columns\n{text}")
        });
        insta::assert_snapshot!(shown.join("\n"));
    }
}
