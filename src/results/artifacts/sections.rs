//! The form of CSV files: sections with a header each.

use std::io::{self, Write};

/// Tables in one file, separated by an empty line. No cell is a formula.
pub(super) struct Sections<'a> {
    out: &'a mut dyn Write,
    is_first: bool,
}

impl<'a> Sections<'a> {
    pub(super) fn new(out: &'a mut dyn Write) -> Self {
        Self { out, is_first: true }
    }

    /// Writes an empty line in addition to the one between sections.
    pub(super) fn write_empty_line(&mut self) -> io::Result<()> {
        if self.is_first { Ok(()) } else { self.out.write_all(b"\r\n") }
    }

    /// Writes a section, unless it is empty.
    pub(super) fn write(
        &mut self,
        header: impl IntoIterator<Item = String>,
        rows: impl Iterator<Item = Vec<String>>,
    ) -> io::Result<()> {
        let mut rows = rows.peekable();
        if rows.peek().is_none() {
            return Ok(());
        }
        self.write_with_header(header, rows)
    }

    /// Writes a section, with its header even if there are no rows.
    pub(super) fn write_with_header(
        &mut self,
        header: impl IntoIterator<Item = String>,
        rows: impl Iterator<Item = Vec<String>>,
    ) -> io::Result<()> {
        self.write_empty_line()?;
        self.is_first = false;
        let mut csv = csv::WriterBuilder::new()
            .terminator(csv::Terminator::CRLF)
            .flexible(true)
            .from_writer(&mut *self.out);
        csv.write_record(header.into_iter().map(|cell| text(&cell)))?;
        for row in rows {
            csv.write_record(row.iter().map(|cell| text(cell)))?;
        }
        csv.flush()
    }
}

/// Formats a number with two decimals; empty without a value.
pub(super) fn number(value: f64) -> String {
    if value.is_finite() { format!("{value:.2}") } else { String::new() }
}

/// Formats a text, which may be of a server, as a cell that no spreadsheet interprets as a formula, on one line,
/// since an empty line ends a section.
pub(super) fn text(said: &str) -> String {
    let cell = said.replace('\r', "\\r").replace('\n', "\\n");
    let is_formula = cell.starts_with(['=', '+', '-', '@', '\t']) && cell.parse::<f64>().is_err();
    if is_formula { format!("'{cell}") } else { cell }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_text_of_a_server_is_a_formula_and_numbers_stay() {
        let mut out = Vec::new();
        let mut sections = Sections::new(&mut out);
        let row = ["=1+1", "+cmd", "-x", "@a", "-0.50", "+Inf", "", "a=b", "stop"];
        let header = (0..row.len()).map(|column| column.to_string());
        sections.write(header, std::iter::once(row.map(str::to_owned).to_vec())).unwrap();
        let written = String::from_utf8(out).unwrap();
        let expected = "'=1+1,'+cmd,'-x,'@a,-0.50,+Inf,,a=b,stop";
        assert_eq!(written.lines().nth(1), Some(expected));
    }
}
