//! What to know before reading the figures of a run.

use measure::judge::Judged;
use measure::metrics::Verdict;
use measure::metrics::health::LoadVerdict;
use measure::metrics::time_breakdown::TimeBreakdown;

use super::Run;
use crate::report::document::{Level, Notice};
use crate::warnings::{self, Warning};

impl Run<'_> {
    pub(super) fn notices(&self) -> Vec<Notice> {
        let outcome = &self.report.outcome;
        let mut notices = Vec::new();
        let mut add = |level, text| notices.push(Notice { level, text });
        if let Some(early) = &outcome.ended_early {
            add(Level::Good, format!("{}.", capitalized(&early.to_string())));
        }
        if let Some(health) = &outcome.client_health {
            match health.verdict {
                Some(Verdict::Valid) => {
                    add(
                        Level::Good,
                        "Client health is valid: the client kept up with the load.".to_owned(),
                    );
                }
                Some(verdict) => {
                    let level =
                        if verdict == Verdict::Invalid { Level::Bad } else { Level::Doubtful };
                    add(level, format!("Client health is {}.", verdict.as_str()));
                    for reason in &health.reasons {
                        add(level, format!("{}; {}.", capitalized(&reason.finding), reason.advice));
                    }
                }
                None => {}
            }
        }
        if let Some(health) = &outcome.load_health {
            let level = match health.verdict {
                LoadVerdict::Sustained => Level::Good,
                LoadVerdict::TooShort | LoadVerdict::NotStationary => Level::Doubtful,
                LoadVerdict::Saturated | LoadVerdict::Rejecting | LoadVerdict::Failing => {
                    Level::Bad
                }
            };
            add(level, format!("Load: {health}."));
        }
        let (all, failed) = (self.report.ended(), self.report.failed());
        if failed > 0 && self.report.has_success() {
            let reason = self.report.failures().next();
            let reason =
                reason.map(|most| format!(" Most frequent: {}.", most.error_details.message));
            add(
                Level::Bad,
                format!(
                    "{failed} of {all} requests failed; latencies are those of the others.{}",
                    reason.unwrap_or_default()
                ),
            );
        }
        if let cancelled @ 1.. = self.report.cancelled() {
            add(Level::Good, format!("{cancelled} of {all} requests were cancelled."));
        }
        for warning in Warning::all_from_report(self.report) {
            let level = match warning.level {
                warnings::Level::Bad => Level::Bad,
                warnings::Level::Doubtful => Level::Doubtful,
            };
            add(level, format!("{}: {}", warning.title, warning.findings.join(" ")));
        }
        if let Some(TimeBreakdown::None { reason, is_unreported: false }) = &outcome.time_breakdown
        {
            add(
                Level::Doubtful,
                format!("The latencies are not divided by the server's times: {reason}."),
            );
        }
        if self.requests.is_empty() {
            add(
                Level::Doubtful,
                "There are no records of requests, so there are no charts.".to_owned(),
            );
        }
        for judged in self.report.gates() {
            let (level, text) = gate(&judged);
            add(level, text);
        }
        notices
    }
}

/// Describes the result of a gate.
fn gate(judged: &Judged) -> (Level, String) {
    if judged.undecided {
        let note = judged.note.as_deref().unwrap_or_default();
        return (Level::Bad, format!("The gate {} is undecided: {note}.", judged.gate));
    }
    let (level, held) =
        if judged.held { (Level::Good, "held") } else { (Level::Bad, "did not hold") };
    (level, format!("The gate {} {held}: the value is {}.", judged.gate, judged.shown_value()))
}

fn capitalized(text: &str) -> String {
    let mut letters = text.chars();
    letters.next().map_or_else(String::new, |first| first.to_uppercase().chain(letters).collect())
}
