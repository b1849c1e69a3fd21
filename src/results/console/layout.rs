//! The layout of tables: what a terminal of any width shows of them.
//!
//! A table that does not fit is made narrower in the same steps everywhere: first without borders,
//! then with the short names of its columns and rows, then with names of rows that are broken between
//! words, then without its spare columns, one after the other. Texts are broken between words, numbers
//! and words never. Only where a word is wider than the terminal allows it is broken after punctuation.

use base::redact::printable;

use super::panel;
use super::style::Style;
pub use crate::tables::Column;
use crate::tables::format::bounded;
use crate::tables::{self, Content};

/// Words longer than this may be broken after punctuation if nothing else helps: they are paths, URLs
/// and the like.
const LONGEST_WORD: usize = 24;
/// Parts longer than this are then broken anywhere.
const LONGEST_PIECE: usize = 40;

/// How a layout saves width once it is without its extra columns, in this order for each number of
/// columns.
const SAVINGS: [Saving; 3] = [
    Saving { is_short: false, wraps_labels: false },
    Saving { is_short: true, wraps_labels: false },
    Saving { is_short: true, wraps_labels: true },
];

/// What a layout does to save width.
#[derive(Debug, Clone, Copy)]
struct Saving {
    /// Whether columns and rows have their short names.
    is_short: bool,
    /// Whether names of rows are broken between words.
    wraps_labels: bool,
}

/// Returns the columns of statistics with these names and their order of being left out.
pub fn numbers(columns: &[(&'static str, u8)]) -> Vec<Column> {
    columns.iter().map(|&(name, order)| Column::number(name).spare(order)).collect()
}

/// A cell of a table.
#[derive(Debug, Clone, Default)]
pub struct Cell {
    text: String,
    short: Option<String>,
}

impl Cell {
    /// Creates a cell with another text on a narrow terminal.
    pub fn or(text: impl Into<String>, short: impl Into<String>) -> Self {
        Self { text: text.into(), short: Some(short.into()) }
    }

    /// Formats a cell of a column with this `content`.
    fn for_content(cell: &tables::Cell, content: Content) -> Self {
        match cell {
            tables::Cell::Name(name, short) => Self::or(name, short),
            cell => printable(&cell.shown(content)).into(),
        }
    }
}

impl From<&tables::Cell> for Cell {
    fn from(cell: &tables::Cell) -> Self {
        Self::for_content(cell, Content::Number)
    }
}

impl From<String> for Cell {
    fn from(text: String) -> Self {
        Self { text, short: None }
    }
}

impl From<&str> for Cell {
    fn from(text: &str) -> Self {
        text.to_owned().into()
    }
}

/// A row of a table.
#[derive(Debug, Clone, Default)]
struct Row {
    cells: Vec<Cell>,
    /// What follows its last cell, across the other columns.
    rest: String,
    /// Whether it is about something bad, which is coloured.
    is_bad: bool,
}

/// A table.
#[derive(Debug, Clone)]
pub struct Table {
    title: String,
    columns: Vec<Column>,
    rows: Vec<Row>,
    has_borders: bool,
}

impl Table {
    /// Creates a table with a title above it.
    pub fn new(title: &str, columns: impl IntoIterator<Item = Column>) -> Self {
        Self {
            title: bounded(title).into_owned(),
            columns: columns.into_iter().collect(),
            rows: Vec::new(),
            has_borders: true,
        }
    }

    /// Creates a table without a title and without borders.
    pub fn plain(columns: impl IntoIterator<Item = Column>) -> Self {
        Self { has_borders: false, ..Self::new("", columns) }
    }

    /// Renders a table of results with the sentences that belong to it, and an empty line.
    pub(crate) fn render_table(table: &tables::Table, style: Style) -> String {
        let named = Self::new(&format!("aiperf | {}", table.title), Vec::new());
        named.with_results(table, style) + "\n"
    }

    /// Renders a table of results without its title and without borders.
    pub(super) fn render_plain(table: &tables::Table, style: Style) -> String {
        Self::plain(Vec::new()).with_results(table, style)
    }

    /// Renders the columns and rows of `table`, and its sentences.
    fn with_results(mut self, table: &tables::Table, style: Style) -> String {
        let is_shown = |column: &&Column| !column.is_detail;
        self.columns = table.columns.iter().filter(is_shown).cloned().collect();
        let rows = table.rows.iter().map(|row| {
            let cells = table.columns.iter().zip(row).filter(|(column, _)| is_shown(column));
            cells.map(|(column, cell)| Cell::for_content(cell, column.content))
        });
        let mut text = self.rows(rows).render(style);
        for line in table.few().iter().chain(&table.findings) {
            text.push_str(&panel::wrapped(line, style.width.into()).join("\n"));
            text.push('\n');
        }
        text
    }

    /// Adds a row.
    pub fn row(&mut self, cells: impl IntoIterator<Item = impl Into<Cell>>) {
        self.row_with(cells, String::new(), false);
    }

    /// Adds rows.
    #[must_use]
    pub fn rows<R: IntoIterator<Item: Into<Cell>>>(
        mut self,
        rows: impl IntoIterator<Item = R>,
    ) -> Self {
        for row in rows {
            self.row(row);
        }
        self
    }

    /// Adds a row with a `rest` after its last cell, which is coloured if it `is_bad`. Only tables
    /// without borders have such rows.
    pub(crate) fn row_with(
        &mut self,
        cells: impl IntoIterator<Item = impl Into<Cell>>,
        rest: String,
        is_bad: bool,
    ) {
        let limit = |text: String| bounded(&text).into_owned();
        let cells = cells
            .into_iter()
            .map(Into::into)
            .map(|Cell { text, short }| Cell { text: limit(text), short: short.map(limit) });
        self.rows.push(Row { cells: cells.collect(), rest, is_bad });
    }

    /// Renders the table, and which columns are left out for lack of width.
    #[must_use]
    pub fn render(&self, style: Style) -> String {
        let width = usize::from(style.width);
        let most = self.columns.iter().map(|column| column.spare).max().unwrap_or(0);
        let of_words = |breaks_words| {
            (0..=most).flat_map(move |level| {
                SAVINGS.map(|saving| Layout::fit(self, Some(level), saving, breaks_words))
            })
        };
        let with_extra = std::iter::once_with(|| Layout::fit(self, None, SAVINGS[0], false))
            .filter(|layout| !self.has_borders || layout.bordered(width).is_some());
        let mut layouts = with_extra.chain(of_words(false)).chain(of_words(true));
        let narrowest = || Layout::fit(self, Some(most), SAVINGS[SAVINGS.len() - 1], true);
        let layout = layouts.find(|it| it.narrowest(1) <= width).unwrap_or_else(narrowest);
        let body = match layout.bordered(width).filter(|_| self.has_borders) {
            Some(body) => body,
            None => layout.unlined(width, style, self.title.is_empty()),
        };
        let mut text = String::new();
        if !self.title.is_empty() {
            let widest = body.lines().map(length).max().unwrap_or(0);
            for line in panel::wrapped(&self.title, width) {
                let indent = widest.saturating_sub(length(&line)) / 2;
                text.extend([&" ".repeat(indent), &*style.bold(&line), "\n"]);
            }
        }
        text.push_str(&body);
        let left_out: Vec<&str> = layout.left_out.iter().map(|name| name.trim()).collect();
        if !left_out.is_empty() && !self.title.is_empty() {
            let note = format!("Left out for lack of width: {}.", left_out.join(", "));
            text.push_str(&(panel::wrapped(&note, width).join("\n") + "\n"));
        }
        text
    }
}

/// The part of a table that is shown.
struct Layout<'a> {
    contents: Vec<Content>,
    heads: Vec<&'a str>,
    rows: Vec<(Vec<&'a str>, &'a Row)>,
    left_out: Vec<&'a str>,
    wraps_labels: bool,
    breaks_words: bool,
}

impl<'a> Layout<'a> {
    /// Returns the table without its extra columns and its spare columns up to `level`, or with all, and
    /// with this `saving`.
    fn fit(table: &'a Table, level: Option<u8>, saving: Saving, breaks_words: bool) -> Self {
        let Saving { is_short, wraps_labels } = saving;
        let is_shown = |column: &&Column| {
            level
                .is_none_or(|level| !column.is_extra && (column.spare == 0 || column.spare > level))
        };
        let shown = || table.columns.iter().filter(is_shown);
        let cells = |row: &'a Row| -> Vec<&'a str> {
            let cells = table.columns.iter().zip(&row.cells);
            let cells = cells.filter(|(column, _)| is_shown(column));
            cells.map(|(_, cell)| pick(&cell.text, cell.short.as_deref(), is_short)).collect()
        };
        Self {
            contents: shown().map(|column| column.content).collect(),
            heads: shown()
                .map(|column| pick(&column.name, column.short.as_deref(), is_short))
                .collect(),
            rows: table.rows.iter().map(|row| (cells(row), row)).collect(),
            left_out: table
                .columns
                .iter()
                .filter(|column| !column.is_extra && !is_shown(column))
                .map(|column| &*column.name)
                .collect(),
            wraps_labels,
            breaks_words,
        }
    }

    /// Returns the least widths of the columns.
    fn least(&self) -> Vec<usize> {
        let column_width = |(at, (kind, head)): (usize, (&Content, &&str))| {
            let cells = self.rows.iter().filter_map(|(cells, _)| cells.get(at));
            let cells = cells.map(|text| match kind {
                Content::Label | Content::Name if self.wraps_labels => self.longest_word(text),
                Content::Number
                | Content::Fixed
                | Content::Label
                | Content::Name
                | Content::Word => text.lines().map(length).max().unwrap_or(0),
                Content::Text => self.longest_word(text),
            });
            cells.chain([self.longest_word(head)]).max().unwrap_or(0)
        };
        self.contents.iter().zip(&self.heads).enumerate().map(column_width).collect()
    }

    /// Returns the length of the longest part of a text that is not broken.
    fn longest_word(&self, text: &str) -> usize {
        let words = text.split_whitespace();
        let parts = words.map(|word| {
            if self.breaks_words && length(word) > LONGEST_WORD {
                pieces(word).into_iter().map(length).max().unwrap_or(0)
            } else {
                length(word)
            }
        });
        parts.max().unwrap_or(0)
    }

    /// Returns the width of the table with its least widths and this `gap` between columns.
    fn narrowest(&self, gap: usize) -> usize {
        let least = self.least();
        least.iter().sum::<usize>() + gap * least.len().saturating_sub(1)
    }

    /// Returns the widths of the columns if no cell is broken.
    fn of_cells(&self) -> Vec<usize> {
        let width_at = |at: usize| {
            let cells = self.rows.iter().filter_map(|(cells, _)| cells.get(at));
            cells.flat_map(|text| text.lines()).map(length).max().unwrap_or(0)
        };
        (0..self.contents.len()).map(width_at).collect()
    }

    /// Returns the widths of the columns if neither a cell nor a head is broken.
    fn whole(&self) -> Vec<usize> {
        let heads = self.heads.iter().map(|head| length(head));
        self.of_cells().into_iter().zip(heads).map(|(cells, head)| cells.max(head)).collect()
    }

    /// Makes columns wider until `room` is used up: first as far as their cells need it, then as far as
    /// their heads do.
    fn widened(&self, mut widths: Vec<usize>, mut room: usize) -> Vec<usize> {
        for needed in [self.of_cells(), self.whole()] {
            loop {
                let before = room;
                for (width, needed) in widths.iter_mut().zip(&needed) {
                    if *width < *needed && room > 0 {
                        *width += 1;
                        room -= 1;
                    }
                }
                if room == before {
                    break;
                }
            }
        }
        widths
    }

    /// Renders the table with borders: heavy lines around the header, light ones around the rows;
    /// `None` if it does not fit into `width`.
    fn bordered(&self, width: usize) -> Option<String> {
        let whole_heads = self.heads.iter().map(|head| length(head));
        let least = self.least().into_iter().zip(whole_heads);
        let least: Vec<usize> = least.map(|(least, head)| least.max(head)).collect();
        let used = least.iter().sum::<usize>() + 3 * least.len() + 1;
        let widths = self.widened(least, width.checked_sub(used)?);
        let border = |[left, line, cross, right]: [char; 4]| {
            let parts = widths.iter().map(|width| line.to_string().repeat(width + 2));
            let parts = parts.collect::<Vec<_>>().join(&cross.to_string());
            format!("{left}{parts}{right}\n")
        };
        let lines = |cells: &[&str], edge: char| {
            let cells = broken(cells, &widths);
            let inner = format!(" {edge} ");
            let lines = padded(&cells, &widths, &self.contents, false);
            let line = |line: Vec<String>| format!("{edge} {} {edge}\n", line.join(&inner));
            lines.into_iter().map(line).collect::<String>()
        };
        let mut text = border(['┏', '━', '┳', '┓']);
        text.push_str(&lines(&self.heads, '┃'));
        text.push_str(&border(['┡', '━', '╇', '┩']));
        for (cells, _) in &self.rows {
            text.push_str(&lines(cells, '│'));
        }
        text.push_str(&border(['└', '─', '┴', '┘']));
        Some(text)
    }

    /// Renders the table without borders; its header is bold if it `has_bold_head`.
    fn unlined(&self, width: usize, style: Style, has_bold_head: bool) -> String {
        let whole = self.whole();
        let is_wide = whole.iter().sum::<usize>() + 2 * whole.len() <= width + 2;
        let gap = if is_wide { 2 } else { 1 };
        let widths = self.widened(self.least(), width.saturating_sub(self.narrowest(gap)));
        let gap = " ".repeat(gap);
        let join = |line: Vec<String>| line.join(&gap).trim_end().to_owned();
        let mut text = String::new();
        let heads: Vec<Vec<String>> =
            self.heads.iter().zip(&widths).map(|(head, width)| wrap(head, *width)).collect();
        for line in padded(&heads, &widths, &self.contents, true).into_iter().map(join) {
            text.push_str(&if has_bold_head { style.bold(&line) } else { line });
            text.push('\n');
        }
        for (cells, row) in &self.rows {
            let cells: Vec<Vec<String>> =
                cells.iter().zip(&widths).map(|(cell, width)| wrap(cell, *width)).collect();
            let mut lines: Vec<String> =
                padded(&cells, &widths, &self.contents, false).into_iter().map(join).collect();
            add_rest(&mut lines, &row.rest, width);
            for line in lines {
                text.push_str(&if row.is_bad { style.red(&line) } else { line });
                text.push('\n');
            }
        }
        text
    }
}

/// Returns the short text if it is wanted and there is one.
fn pick<'a>(text: &'a str, short: Option<&'a str>, is_short: bool) -> &'a str {
    short.filter(|_| is_short).unwrap_or(text)
}

/// Returns the lines of cells in columns of these widths.
fn broken(cells: &[&str], widths: &[usize]) -> Vec<Vec<String>> {
    let cell =
        |(text, width): (&&str, &usize)| text.lines().flat_map(|line| wrap(line, *width)).collect();
    cells.iter().zip(widths).map(cell).collect()
}

/// Adds the `rest` of a row to its first line, and to lines below it if it is too long.
fn add_rest(lines: &mut Vec<String>, rest: &str, width: usize) {
    let Some(first) = lines.first_mut().filter(|_| !rest.is_empty()) else { return };
    let indent = length(first) + 2;
    let mut parts = wrap(rest, width.saturating_sub(indent).max(LONGEST_WORD)).into_iter();
    if let Some(part) = parts.next() {
        first.push_str("  ");
        first.push_str(&part);
    }
    lines.splice(1..1, parts.map(|part| format!("{:indent$}{part}", "")));
}

/// Returns the lines of a row, each as its padded cells; short cells end `at_bottom`, or else begin at
/// the top.
fn padded(
    cells: &[Vec<String>],
    widths: &[usize],
    contents: &[Content],
    at_bottom: bool,
) -> Vec<Vec<String>> {
    let height = cells.iter().map(Vec::len).max().unwrap_or(0);
    let blank = Vec::new();
    let line = |number: usize| {
        let columns = widths.iter().zip(contents).enumerate();
        let cell = |(at, (width, content)): (usize, (&usize, &Content))| {
            let cell = cells.get(at).unwrap_or(&blank);
            let above = if at_bottom { height - cell.len() } else { 0 };
            let text = number.checked_sub(above).and_then(|line| cell.get(line));
            let text = text.map_or("", String::as_str);
            match content {
                Content::Text | Content::Name | Content::Word => format!("{text:width$}"),
                Content::Label | Content::Number | Content::Fixed => format!("{text:>width$}"),
            }
        };
        columns.map(cell).collect()
    };
    (0..height).map(line).collect()
}

/// Breaks a text between words into lines of at most `most` characters, as far as its words allow.
fn wrap(text: &str, most: usize) -> Vec<String> {
    let mut lines = vec![String::new()];
    let mut used = 0;
    for word in text.split_whitespace() {
        let parts = if length(word) <= most { vec![word] } else { pieces(word) };
        for (at, piece) in parts.into_iter().enumerate() {
            let space = usize::from(at == 0 && used > 0);
            let needed = length(piece);
            if used > 0 && used + space + needed > most {
                lines.push(String::new());
                used = 0;
            }
            if let Some(line) = lines.last_mut() {
                if used > 0 && space > 0 {
                    line.push(' ');
                    used += 1;
                }
                line.push_str(piece);
                used += needed;
            }
        }
    }
    lines
}

/// Returns the parts of a word between which it may be broken if it is too wide.
fn pieces(word: &str) -> Vec<&str> {
    let parts = word.split_inclusive(|c: char| c.is_ascii_punctuation());
    parts.flat_map(limited).collect()
}

/// Breaks a part that has too many characters.
fn limited(part: &str) -> Vec<&str> {
    let mut rest = part;
    let mut all = Vec::new();
    while let Some((at, _)) = rest.char_indices().nth(LONGEST_PIECE) {
        let (piece, more) = rest.split_at(at);
        all.push(piece);
        rest = more;
    }
    all.push(rest);
    all
}

/// The length of a text in characters.
fn length(text: &str) -> usize {
    text.chars().count()
}
