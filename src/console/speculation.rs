//! The table of the acceptance of drafts by servers with speculative decoding.

use super::format::number;
use super::layout::{Column, Table};
use super::style::Style;
use crate::redact::printable;
use crate::run::RunReport;
use crate::server_metrics::speculation::{Acceptance, acceptance};

/// Renders a table for each endpoint that drafted tokens; nothing if none did.
pub(super) fn render(report: &RunReport, style: Style) -> String {
    let found = report.server_metrics.as_ref().map(|metrics| acceptance(&metrics.report));
    let found = found.unwrap_or_default();
    let title = |acceptance: &Acceptance| match found.len() {
        1 => "aiperf | Speculative Decoding".to_owned(),
        _ => format!("aiperf | Speculative Decoding: {}", printable(&acceptance.endpoint_url)),
    };
    let table = |acceptance: &Acceptance| {
        let percent = |share: f64| number(Some(share * 100.0));
        let whole = [
            ("Acceptance Rate (%)", acceptance.rate.map(percent)),
            ("Acceptance Length (tokens)", acceptance.length.map(|length| number(Some(length)))),
        ];
        let whole = whole.into_iter().filter_map(|(name, value)| Some([name.to_owned(), value?]));
        let positions = acceptance.by_position.iter();
        let positions = positions.map(|(position, share)| {
            [format!("Acceptance Rate at Position {position} (%)"), percent(*share)]
        });
        let columns = [Column::label("Metric"), Column::number("Value")];
        Table::new(&title(acceptance), columns).rows(whole.chain(positions)).render(style) + "\n"
    };
    found.iter().map(table).collect()
}
