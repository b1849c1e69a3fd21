//! What to know before reading the figures of a run.

use measure::judge::Judged;
use measure::metrics::Verdict;
use measure::metrics::health::{LoadHealth, LoadVerdict, OutputHealth};
use measure::metrics::time_breakdown::TimeBreakdown;

use super::Run;
use crate::report::document::{Level, Notice};
use crate::warnings::{self, Warning};

impl Run<'_> {
    /// Returns the results of gates, the verdicts, and what else is to be known, most serious first.
    pub(super) fn notices(&self) -> Vec<Notice> {
        let outcome = &self.report.outcome;
        let mut notices = Vec::new();
        let mut add = |level, text| notices.push(Notice { level, text });
        for judged in self.report.gates() {
            let (level, text) = gate(&judged);
            add(level, text);
        }
        if let Some(early) = &outcome.ended_early {
            add(Level::Good, format!("{}.", capitalized(&early.to_string())));
        }
        let client =
            outcome.client_health.as_ref().and_then(|health| Some((health, health.verdict?)));
        let load = outcome.load_health.as_ref();
        let verdicts = client.map(|(_, verdict)| of_client(verdict)).into_iter();
        let outputs = outcome.output_health.as_ref();
        let of_outputs = outputs.and_then(|health| Some(of_outputs(health, health.verdict?)));
        let verdicts: Vec<Notice> = verdicts.chain(load.map(of_load)).chain(of_outputs).collect();
        if let Some(level) = verdicts.iter().map(|verdict| verdict.level).max() {
            let texts: Vec<&str> = verdicts.iter().map(|verdict| &*verdict.text).collect();
            add(level, texts.join(" "));
        }
        if let Some((health, verdict)) = client {
            for reason in &health.reasons {
                let text = format!("{}; {}.", capitalized(&reason.finding), reason.advice);
                add(of_client(verdict).level, text);
            }
        }
        for reason in outputs.into_iter().flat_map(|health| &health.reasons) {
            let text = format!("{}; {}.", reason.finding, reason.advice);
            add(level_of(reason.verdict), text);
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
        notices.sort_by_key(|notice| std::cmp::Reverse(notice.level));
        notices
    }
}

fn of_client(verdict: Verdict) -> Notice {
    let is_valid = verdict == Verdict::Valid;
    let said = if is_valid { ": the client kept up with the load" } else { "" };
    Notice {
        level: level_of(verdict),
        text: format!("Client health is {}{said}.", verdict.as_str()),
    }
}

const fn level_of(verdict: Verdict) -> Level {
    match verdict {
        Verdict::Valid => Level::Good,
        Verdict::Suspect => Level::Doubtful,
        Verdict::Invalid => Level::Bad,
    }
}

fn of_outputs(health: &OutputHealth, verdict: Verdict) -> Notice {
    Notice { level: level_of(verdict), text: format!("Outputs: {health}.") }
}

fn of_load(health: &LoadHealth) -> Notice {
    let level = match health.verdict {
        LoadVerdict::Sustained => Level::Good,
        LoadVerdict::TooShort | LoadVerdict::NotStationary => Level::Doubtful,
        LoadVerdict::Saturated | LoadVerdict::Rejecting | LoadVerdict::Failing => Level::Bad,
    };
    Notice { level, text: format!("Load: {health}.") }
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
