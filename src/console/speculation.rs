//! The table of the acceptance of drafts by servers with speculative decoding.

use super::format::number;
use super::layout::{Column, Table};
use super::style::Style;
use crate::metrics::tag;
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
        let table = Table::new(&title(acceptance), columns).rows(whole.chain(positions));
        let doubt = acceptance.doubt().map(|doubt| format!("doubtful: {doubt}\n"));
        table.render(style) + &doubt.unwrap_or_default() + "\n"
    };
    found.iter().map(table).chain(of_requests(report)).collect()
}

/// Returns the doubt about what the server reports of single requests, if one has a rate that no draft
/// can have.
fn of_requests(report: &RunReport) -> Option<String> {
    let tag = tag::SPEC_DECODE_DRAFT_ACCEPTANCE_RATE;
    let rates = report.results.iter().find(|result| result.metric.tag == tag)?;
    let highest = rates.stats.distribution?.max;
    (highest > 100.0).then(|| {
        format!(
            "doubtful: {} is up to {highest:.1}%: the server reports more accepted than drafted tokens\n\n",
            rates.metric.header
        )
    })
}
