//! Combined telemetry reports of several clients.

use super::{LogsReport, ScrapesReport, ServerSpansReport, TelemetryReport, TracesReport};

impl TelemetryReport {
    /// Combines the reports of all `clients`: counts are summed, and a statement about one client
    /// applies to all. `None` if nothing is known.
    #[must_use]
    pub fn combined(clients: impl IntoIterator<Item = Self>) -> Option<Self> {
        clients.into_iter().reduce(|mut all, one| {
            all.endpoint = all.endpoint.or(one.endpoint);
            all.exports_ok = all.exports_ok.saturating_add(one.exports_ok);
            all.exports_failed = all.exports_failed.saturating_add(one.exports_failed);
            all.rejected_data_points =
                all.rejected_data_points.saturating_add(one.rejected_data_points);
            all.delivered_final &= one.delivered_final;
            all.reconciled &= one.reconciled;
            for (have, more) in [
                (&mut all.discrepancies, one.discrepancies),
                (&mut all.not_exported, one.not_exported),
            ] {
                let new: Vec<_> = more.into_iter().filter(|text| !have.contains(text)).collect();
                have.extend(new);
            }
            all.traces = match (all.traces, one.traces) {
                (Some(have), Some(more)) => Some(have.and(&more)),
                (have, more) => have.or(more),
            };
            all.server_spans = match (all.server_spans, one.server_spans) {
                (Some(have), Some(more)) => Some(have.and(&more)),
                (have, more) => have.or(more),
            };
            all.receiver = match (all.receiver, one.receiver) {
                (Some(have), Some(more)) => Some(have.and(&more)),
                (have, more) => have.or(more),
            };
            all.logs = match (all.logs, one.logs) {
                (Some(have), Some(more)) => Some(have.and(&more)),
                (have, more) => have.or(more),
            };
            all.scrapes = match (all.scrapes, one.scrapes) {
                (Some(have), Some(more)) => Some(have.and(&more)),
                (have, more) => have.or(more),
            };
            all
        })
    }
}

impl ScrapesReport {
    const fn and(self, other: &Self) -> Self {
        Self {
            scrapes_forwarded: self.scrapes_forwarded.saturating_add(other.scrapes_forwarded),
            scrapes_dropped: self.scrapes_dropped.saturating_add(other.scrapes_dropped),
            points_forwarded: self.points_forwarded.saturating_add(other.points_forwarded),
            points_rejected: self.points_rejected.saturating_add(other.points_rejected),
            points_dropped: self.points_dropped.saturating_add(other.points_dropped),
            points_inexpressible: self
                .points_inexpressible
                .saturating_add(other.points_inexpressible),
            requests_ok: self.requests_ok.saturating_add(other.requests_ok),
            requests_failed: self.requests_failed.saturating_add(other.requests_failed),
            delivered_final: self.delivered_final && other.delivered_final,
        }
    }
}

impl ServerSpansReport {
    const fn and(self, other: &Self) -> Self {
        Self {
            requests: self.requests.saturating_add(other.requests),
            sent: self.sent.saturating_add(other.sent),
            rejected: self.rejected.saturating_add(other.rejected),
            lost: self.lost.saturating_add(other.lost),
        }
    }
}

impl TracesReport {
    const fn and(self, other: &Self) -> Self {
        Self {
            sampled: self.sampled.saturating_add(other.sampled),
            sent: self.sent.saturating_add(other.sent),
            rejected: self.rejected.saturating_add(other.rejected),
            lost: self.lost.saturating_add(other.lost),
            errors_left_out: self.errors_left_out.saturating_add(other.errors_left_out),
        }
    }
}

impl LogsReport {
    const fn and(self, other: &Self) -> Self {
        Self {
            sent: self.sent.saturating_add(other.sent),
            rejected: self.rejected.saturating_add(other.rejected),
            lost: self.lost.saturating_add(other.lost),
            is_unsupported: self.is_unsupported || other.is_unsupported,
            failures_left_out: self.failures_left_out.saturating_add(other.failures_left_out),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counts_add_up_and_all_must_have_delivered() {
        let one = |delivered_final, exports_ok| TelemetryReport {
            exports_ok,
            delivered_final,
            reconciled: true,
            not_exported: vec!["same".to_owned()],
            traces: Some(TracesReport { sampled: 3, sent: 2, lost: 1, ..TracesReport::default() }),
            ..TelemetryReport::default()
        };
        let all = TelemetryReport::combined([one(true, 2), one(false, 3)]).unwrap();
        assert_eq!((all.exports_ok, all.delivered_final, all.reconciled), (5, false, true));
        assert_eq!(all.not_exported, ["same"]);
        let traces = all.traces.unwrap();
        assert_eq!((traces.sampled, traces.sent, traces.lost), (6, 4, 2));
        assert!(TelemetryReport::combined([]).is_none());
        let most = TelemetryReport::combined([one(true, u64::MAX), one(true, 1)]).unwrap();
        assert_eq!(most.exports_ok, u64::MAX);
    }
}
