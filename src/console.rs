//! Tables, progress and warnings with advice.
//!
//! Everything is text first and means the same without colour. Nothing here
//! prints: callers write what [`render`] returns, and give the live view its output.

mod health;
mod live;
mod panel;
pub mod runs;
mod server_metrics;
mod table;
mod warning;

use std::fmt::Write as _;
use std::path::{Path, PathBuf};

use crate::artifacts::RunReport;

pub use live::{LiveView, Ui};
pub use table::{SummaryTable, figures};
pub use warning::Warning;

/// How wide the text may be and whether it has colour.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Style {
    /// Columns.
    pub width: u16,
    /// Whether titles are coloured: for terminals only.
    pub colour: bool,
}

impl Style {
    /// Of `profile_export_console.txt`.
    pub const FILE: Self = Self { width: 140, colour: false };

    fn bold(self, text: &str) -> String {
        if self.colour { format!("\x1b[1m{text}\x1b[0m") } else { text.to_owned() }
    }

    fn green(self, text: &str) -> String {
        self.coloured(32, text)
    }

    fn yellow(self, text: &str) -> String {
        self.coloured(33, text)
    }

    fn red(self, text: &str) -> String {
        self.coloured(31, text)
    }

    fn coloured(self, code: u8, text: &str) -> String {
        if self.colour { format!("\x1b[{code}m{text}\x1b[0m") } else { text.to_owned() }
    }
}

/// What the console says of a run: failures, statistics, the server's metrics, warnings.
#[must_use]
pub fn render(report: &RunReport, style: Style) -> String {
    let mut text = String::new();
    if !report.errors.is_empty() {
        text.push_str(&table::errors(&report.errors, style));
        text.push('\n');
    }
    for table in SummaryTable::all(report) {
        text.push_str(&table.render(style));
        text.push('\n');
    }
    if report.run.show_server_metrics {
        let metrics = report.server_metrics.as_ref().map(|metrics| &metrics.report);
        text.push_str(&server_metrics::render(metrics, style));
    }
    if let Some(health) = &report.client_health {
        text.push_str(&health::render(health, style));
    }
    for warning in Warning::of(report) {
        text.push_str(&panel::render(warning.title(), &warning.text(), style));
        text.push('\n');
    }
    text
}

/// The list of files written, relative to `directory` where they are in it.
#[must_use]
pub fn render_files(directory: &Path, files: &[PathBuf]) -> String {
    let mut text = format!("Files in {}\n", printable(&directory.display().to_string()));
    for file in files {
        let name = file.strip_prefix(directory).unwrap_or(file);
        // Writing to a string cannot fail.
        let _ = writeln!(text, "  {}", printable(&name.display().to_string()));
    }
    text
}

/// `text` without what could steer a terminal: it may come from a server.
fn printable(text: &str) -> String {
    text.chars().map(|c| if c.is_control() { ' ' } else { c }).collect()
}

/// Two decimals, thousands separated: `1,234.50`; `N/A` where there is no number.
fn number(value: Option<f64>) -> String {
    let Some(value) = value.filter(|value| value.is_finite()) else {
        return "N/A".to_owned();
    };
    let text = format!("{value:.2}");
    let (sign, digits) = text.strip_prefix('-').map_or(("", text.as_str()), |rest| ("-", rest));
    let (whole, fraction) = digits.split_once('.').unwrap_or((digits, "00"));
    format!("{sign}{}.{fraction}", grouped(whole))
}

/// A whole number with its thousands separated.
fn count(value: u64) -> String {
    grouped(&value.to_string())
}

fn grouped(digits: &str) -> String {
    let mut out = String::with_capacity(digits.len() * 4 / 3);
    for (at, digit) in digits.chars().enumerate() {
        if at > 0 && (digits.len() - at).is_multiple_of(3) {
            out.push(',');
        }
        out.push(digit);
    }
    out
}

#[cfg(test)]
mod tests;
