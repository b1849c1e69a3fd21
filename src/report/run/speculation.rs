//! The acceptance of drafts by servers with speculative decoding.

use std::fmt::Write as _;

use serde_json::{Value, json};

use super::Run;
use crate::redact::printable;
use crate::report::document::Table;
use crate::server_metrics::speculation::{Acceptance, acceptance};

impl Run<'_> {
    /// Returns the acceptance of each endpoint that drafted tokens, if any did.
    pub(super) fn speculation(&self) -> Option<Table> {
        let found = acceptance(&self.report.server_metrics.as_ref()?.report);
        let mut positions: Vec<u64> =
            found.iter().flat_map(|of| of.by_position.iter().map(|(at, _)| *at)).collect();
        positions.sort_unstable();
        positions.dedup();
        let percent = |share: Option<f64>| json!(share.map(|share| share * 100.0));
        let row = |of: &Acceptance| -> Vec<Value> {
            let at = |position: &u64| {
                of.by_position.iter().find(|(at, _)| at == position).map(|(_, share)| *share)
            };
            [json!(of.endpoint_url), percent(of.rate), json!(of.length)]
                .into_iter()
                .chain(positions.iter().map(|position| percent(at(position))))
                .collect()
        };
        let whole = ["Server", "Accepted (%)", "Tokens per step"].map(str::to_owned);
        let by_position = positions.iter().map(|position| format!("At position {position} (%)"));
        let doubts = found.iter().find_map(|of| Some((of.doubt()?, &of.endpoint_url)));
        let mut note = "Share of the drafted tokens that are accepted.".to_owned();
        if let Some((doubt, url)) = doubts {
            let _ = write!(note, " The numbers of {} are doubtful: {doubt}.", printable(url));
        }
        (!found.is_empty()).then(|| Table {
            title: "Speculative decoding".to_owned(),
            note,
            columns: whole.into_iter().chain(by_position).collect(),
            rows: found.iter().map(row).collect(),
            requests: Vec::new(),
        })
    }
}
