//! The acceptance of drafts by servers with speculative decoding.

use std::collections::BTreeSet;

use measure::metrics::tag;
use measure::server_metrics::speculation::{Acceptance, acceptance};

use super::{Cell, Column, Table};
use crate::run::RunReport;

/// Returns a row for each endpoint that drafted tokens, with the share of accepted drafts by position;
/// `None` if none did and the responses do not report impossible shares either.
pub(super) fn speculation(report: &RunReport) -> Option<Table> {
    let found = report.server_metrics.as_ref().map(|metrics| acceptance(&metrics.report));
    let found = found.unwrap_or_default();
    let positions: BTreeSet<u64> =
        found.iter().flat_map(|of| of.by_position.iter().map(|(at, _)| *at)).collect();
    let row = |of: &Acceptance| {
        let at = |position: &u64| of.by_position.iter().find(|(at, _)| at == position);
        let by_position =
            positions.iter().map(|position| Cell::percent(at(position).map(|(_, share)| *share)));
        let first =
            [Cell::Text(of.endpoint_url.to_string()), Cell::percent(of.rate), of.length.into()];
        first.into_iter().chain(by_position).collect()
    };
    let mut columns = vec![
        Column::name("Server"),
        Column::number("Accepted (%)").or("Accepted %"),
        Column::number("Tokens per step").or("Tokens"),
    ];
    // The last positions are the least likely ones.
    let spare = |nth: usize| u8::try_from(positions.len() - nth).unwrap_or(u8::MAX);
    columns.extend(positions.iter().enumerate().map(|(nth, position)| {
        Column::number(format!("At position {position} (%)")).spare(spare(nth))
    }));
    let doubt = |of: &Acceptance| {
        Some(format!("The numbers of {} are doubtful: {}", of.endpoint_url, of.doubt()?))
    };
    let findings: Vec<String> = found.iter().filter_map(doubt).chain(of_requests(report)).collect();
    (!found.is_empty() || !findings.is_empty()).then(|| Table {
        title: "Speculative Decoding".to_owned(),
        note: "Share of the drafted tokens that are accepted.".to_owned(),
        columns,
        rows: found.iter().map(row).collect(),
        findings,
        ..Table::default()
    })
}

/// Returns the doubt about what the server reports of single requests, if one has a rate that no draft
/// can have.
fn of_requests(report: &RunReport) -> Option<String> {
    let tag = tag::SPEC_DECODE_DRAFT_ACCEPTANCE_RATE;
    let rates = report.results.iter().find(|result| result.metric.tag == tag)?;
    let highest = rates.stats.distribution?.max;
    (highest > 100.0).then(|| {
        format!(
            "doubtful: {} is up to {highest:.1}%: the server reports more accepted than drafted tokens",
            rates.metric.header
        )
    })
}
