//! Tables, progress and warnings for the terminal.
//!
//! All output is plain text and means the same without colour. Nothing here prints: callers
//! write what [`render`] returns, and pass the progress line its output stream.

pub(crate) mod compare;
mod files;
pub(crate) mod gates;
mod gpu;
mod headline;
mod health;
pub(crate) mod live;
mod panel;
pub(crate) mod runs;
mod server_metrics;
mod speculation;
mod steady;
mod table;
mod time_breakdown;
mod warning;

use std::borrow::Cow;

use crate::metrics::tag;
use crate::redact::printable;
use crate::run::{ClientTables, RunReport};

pub(crate) use files::render_files;
pub use live::Ui;
pub(crate) use live::{DownloadLine, ProgressLine, block};
pub(crate) use table::{SummaryTable, figures};
pub(crate) use warning::{Given, Warning};

/// Maximum length of a text in a table or a box, in characters. Widths of formatted text are limited
/// to 65,535.
const LONGEST_TEXT: usize = 1000;

/// Returns the beginning of a text for a table or a box, which may come from a server.
fn bounded(text: &str) -> Cow<'_, str> {
    match text.char_indices().nth(LONGEST_TEXT) {
        Some((end, _)) => format!("{}…", &text[..end]).into(),
        None => text.into(),
    }
}

/// Width of the text, and whether it is coloured.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Style {
    /// Width in columns.
    pub(crate) width: u16,
    /// Whether titles are coloured; only on terminals.
    pub(crate) colour: bool,
}

impl Style {
    /// The style of `profile_export_console.txt`.
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

/// Renders `profile_export_console.txt`, which has all tables.
#[must_use]
pub fn render_file(report: &RunReport) -> String {
    rendered(report, ClientTables::All, Style::FILE)
}

/// Renders what the terminal shows of a run: what was measured, statistics, errors, warnings,
/// client health and gates.
#[must_use]
pub fn render(report: &RunReport, style: Style) -> String {
    rendered(report, report.run.tables.client, style)
}

fn rendered(report: &RunReport, tables: ClientTables, style: Style) -> String {
    let mut warnings = String::new();
    let given = Given::of(report);
    for warning in Warning::of(report) {
        warnings.push_str(&panel::render(warning.title(), &warning.text(&given), style));
        warnings.push('\n');
    }
    let has_results = report.average(tag::REQUEST_COUNT).is_some_and(|count| count > 0.0);
    // Without results, the reason is what there is to say.
    let (first, later) =
        if has_results { (String::new(), warnings) } else { (warnings, String::new()) };
    let mut text = first + &headline::header(report, style);
    for table in SummaryTable::shown(report, tables) {
        text.push_str(&table.render(style));
        text.push('\n');
    }
    text.push_str(&headline::table(report, style));
    text.push_str(&steady::render(report, tables, style));
    text.push_str(&time_breakdown::render(report, style));
    text.push_str(&speculation::render(report, style));
    text.push_str(&gpu::render(report, style));
    if report.run.tables.server_metrics {
        let metrics = report.server_metrics.as_ref().map(|metrics| &metrics.report);
        text.push_str(&server_metrics::render(metrics, style));
    }
    if !report.errors.is_empty() {
        text.push_str(&table::errors(&report.errors, style));
        text.push('\n');
    }
    text.push_str(&later);
    if let Some(health) = &report.outcome.client_health {
        text.push_str(&health::render(health, style));
    }
    text.push_str(&gates::render(&report.gates(), style));
    text
}

/// Formats a number with two decimals and thousands separators, as in `1,234.50`; `N/A` if
/// absent.
pub(crate) fn number(value: Option<f64>) -> String {
    let Some(value) = value.filter(|value| value.is_finite()) else {
        return "N/A".to_owned();
    };
    let text = format!("{value:.2}");
    let (sign, digits) = text.strip_prefix('-').map_or(("", text.as_str()), |rest| ("-", rest));
    let (whole, fraction) = digits.split_once('.').unwrap_or((digits, "00"));
    format!("{sign}{}.{fraction}", grouped(whole))
}

/// Formats a number with four significant digits and thousands separators, whole numbers without
/// decimals; `N/A` if it is not finite.
fn four_digits(value: f64) -> String {
    if !value.is_finite() {
        return "N/A".to_owned();
    }
    let size = value.abs();
    if size >= 1e15 || (size < 1e-4 && size > 0.0) {
        return format!("{value:.3e}");
    }
    if size >= 1000.0 {
        let sign = if value < 0.0 { "-" } else { "" };
        return format!("{sign}{}", grouped(&format!("{size:.0}")));
    }
    let decimals = match size {
        _ if value.fract() == 0.0 => 0,
        ..1.0 => 3 - size.log10().floor() as i32,
        ..10.0 => 3,
        ..100.0 => 2,
        _ => 1,
    };
    format!("{value:.*}", usize::try_from(decimals).unwrap_or(0))
}

/// Formats a whole number with thousands separators.
pub(crate) fn count(value: u64) -> String {
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
