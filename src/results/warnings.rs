//! Warnings about a result, with advice.
//!
//! A warning is a row of one of the lists of [`WarningKind`]s: its name, its title, when it applies and what it
//! finds then, and an example. The terminal, the page, the JSON summary, `aiperf explain` and events read
//! it.

mod counts;
mod given;
mod load;
mod responses;
mod servers;
mod telemetry;
mod tokens;

use serde::Serialize;

use base::redact::printable;
use measure::metrics::tag::MetricTag;

use crate::run::RunReport;
use crate::tables::format::count;

use given::Given;

/// Maximum number of findings of one kind that are listed.
const MAX_LISTED: usize = 5;

/// All kinds, the most serious first.
const ALL: [&[WarningKind]; 5] =
    [load::KINDS, responses::KINDS, tokens::KINDS, servers::KINDS, telemetry::KINDS];

/// A kind of warning.
pub(crate) struct WarningKind {
    /// Its name for `aiperf explain`.
    name: &'static str,
    title: &'static str,
    level: Level,
    /// Returns what it finds in a report, if it applies.
    find: fn(&RunReport, &Given) -> Option<Found>,
    /// Returns the same with the numbers of an example.
    example: fn(&Given) -> Found,
}

/// How serious a warning is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(rename_all = "lowercase")]
pub enum Level {
    /// The results are not those that were asked for.
    Bad,
    /// The results need to be read with care.
    Doubtful,
}

impl Level {
    /// Returns the name in files and events.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Bad => "bad",
            Self::Doubtful => "doubtful",
        }
    }
}

/// What a warning finds.
struct Found {
    /// In a few words.
    summary: String,
    /// One sentence each.
    findings: Vec<String>,
    /// What to do, one sentence each; never names a flag that is given.
    advice: Vec<String>,
    /// Whether the texts may contain the message of a server, which may repeat a prompt.
    may_quote: bool,
}

impl Found {
    fn new(
        summary: impl Into<String>,
        findings: impl IntoIterator<Item = String>,
        advice: impl IntoIterator<Item = impl Into<String>>,
    ) -> Self {
        Self {
            summary: summary.into(),
            findings: findings.into_iter().collect(),
            advice: advice.into_iter().map(Into::into).collect(),
            may_quote: false,
        }
    }
}

/// A warning about a result.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct Warning {
    /// Its name for `aiperf explain`.
    pub name: &'static str,
    #[serde(skip)]
    pub title: &'static str,
    pub level: Level,
    /// What it found, in a few words.
    pub summary: String,
    /// What it found, one sentence each.
    pub findings: Vec<String>,
    /// What to do, one sentence each.
    pub advice: Vec<String>,
    /// Whether the texts may contain the message of a server, which may repeat a prompt.
    #[serde(skip)]
    may_quote: bool,
}

impl Warning {
    fn new(kind: &WarningKind, found: Found) -> Self {
        let WarningKind { name, title, level, .. } = kind;
        let Found { summary, findings, advice, may_quote } = found;
        Self { name, title, level: *level, summary, findings, advice, may_quote }
    }

    /// Returns all warnings about `report`, the most serious first.
    #[must_use]
    pub fn all_from_report(report: &RunReport) -> Vec<Self> {
        let given = Given::from_report(report);
        let found = |kind: &WarningKind| Some(Self::new(kind, (kind.find)(report, &given)?));
        ALL.into_iter().flatten().filter_map(found).collect()
    }

    /// Returns each warning with the numbers of an example and the advice for a run with few settings,
    /// for those who ask what it means.
    #[must_use]
    pub fn examples() -> Vec<Self> {
        let example = |kind: &WarningKind| Self::new(kind, (kind.example)(&Given::default()));
        ALL.into_iter().flatten().map(example).collect()
    }

    /// Returns the summary for telemetry, unless it may quote a server.
    pub fn exported_summary(&self) -> Option<&str> {
        (!self.may_quote).then_some(&*self.summary)
    }

    /// Returns findings and advice, one line each.
    pub fn text(&self) -> Vec<String> {
        let advice = self.advice.iter().map(|advice| format!("  - {advice}"));
        let before = [String::new(), "What to do:".to_owned()];
        self.findings.iter().cloned().chain(before).chain(advice).collect()
    }
}

/// A count from the results; 0 if absent.
fn counted(report: &RunReport, tag: MetricTag) -> u64 {
    report.average(tag).map_or(0, |value| value.round() as u64)
}

/// Returns the first items of `all`, indented, and how many more there are.
fn first(all: &[String], indent: &str) -> Vec<String> {
    let named = all.iter().take(MAX_LISTED);
    let mut lines: Vec<_> = named.map(|one| format!("{indent}{}", printable(one))).collect();
    if let more @ 1.. = all.len().saturating_sub(MAX_LISTED) {
        lines.push(format!("{indent}and {more} more"));
    }
    lines
}

/// Formats a share of requests as `36 of 40 requests (90.0%)`.
pub fn share(requests: u64, of: u64) -> String {
    let percent = if of == 0 { 0.0 } else { 100.0 * requests as f64 / of as f64 };
    format!("{} of {} requests ({percent:.1}%)", count(requests), count(of))
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn each_warning_has_a_name_a_title_findings_and_advice() {
        let all = Warning::examples();
        let names: BTreeSet<&str> = all.iter().map(|it| it.name).collect();
        let titles: BTreeSet<&str> = all.iter().map(|it| it.title).collect();
        assert_eq!((names.len(), titles.len()), (all.len(), all.len()));
        for warning in &all {
            assert!(!warning.findings.is_empty() && !warning.summary.is_empty(), "{warning:?}");
            assert!(!warning.advice.is_empty(), "{warning:?}");
        }
    }
}
