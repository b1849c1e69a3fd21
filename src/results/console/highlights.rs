//! What is worth a line beside the statistics of a run: the use of the prefix cache, how turns differ,
//! tool calls, how lanes followed the recorded run, and whether the server counted the same.

use std::fmt::Write as _;

use base::redact::printable;
use base::statistics::Percent;
use client::schedule::ReplayStats;
use client::server_family::Quantity;
use measure::metrics::breakdown::GroupResult;
use measure::metrics::finish_reason;
use measure::metrics::tag;

use super::panel;
use super::style::Style;
use crate::run::RunReport;
use crate::tables::format::{count, four_digits, percentile};

/// Number of groups of turns that are told.
const MAX_TURNS: usize = 6;

/// Difference of two shares of cached prompts, in percentage points, that is not worth an explanation.
const SAME_SHARE: f64 = 1.0;

/// A fact in a line.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Highlight {
    pub title: &'static str,
    pub text: String,
}

/// Returns what is worth a line of a run, as far as it is known.
#[must_use]
pub fn highlights(report: &RunReport) -> Vec<Highlight> {
    let lines = [
        ("Cached prompt tokens", cached(report)),
        ("Theoretical cache hits", theoretical(report)),
        ("TTFT p50 by turn", by_turn(&report.breakdowns.by_turn)),
        ("Sessions", sessions(report)),
        ("Replay", report.outcome.replay.as_ref().map(replay)),
        ("Finish reasons", finish_reasons(report)),
        ("Tool calls", tool_calls(report)),
        ("Server and client agree", agreement(report)),
    ];
    let known =
        lines.into_iter().filter_map(|(title, text)| Some(Highlight { title, text: text? }));
    known.collect()
}

/// Returns the share of prompt tokens that the server read from its cache, and the share that prompts
/// repeat.
fn cached(report: &RunReport) -> Option<String> {
    let cache = report.outcome.prefix_cache.as_ref();
    let share = report.cached_percent()?;
    let of_requests = report.average(tag::TOTAL_USAGE_PROMPT_TOKENS);
    let all = of_requests.or_else(|| Some(cache?.total.prompt_tokens))?;
    let text = format!("{share:.1}% of {}", count(all as u64));
    let Some(cache) = cache else { return Some(text) };
    Some(format!("{text}; prompts repeat {:.1}%", 100.0 * cache.total.expected_ratio))
}

/// Returns the share of prompts that a cache that keeps everything would find, beside the measured one,
/// and what may be the cause of the difference.
fn theoretical(report: &RunReport) -> Option<String> {
    let theoretical = report.average(tag::THEORETICAL_PREFIX_CACHE_HIT)?;
    let text = format!("{theoretical:.1}% of the blocks of prompts");
    let Some(measured) = report.cached_percent() else { return Some(text) };
    let cause = match measured - theoretical {
        more if more >= SAME_SHARE => {
            "; more than the trace repeats was cached by the warmup, by other traces or before the run"
        }
        less if less <= -SAME_SHARE => {
            "; prefixes were evicted, or the requests of the trace before them were not sent"
        }
        _ => "",
    };
    Some(format!("{text}, {measured:.1}% of the prompt tokens measured{cause}"))
}

/// Returns how lanes followed the recorded run.
fn replay(stats: &ReplayStats) -> String {
    let counted = |number: u64, noun: &str| {
        format!("{} {noun}{}", count(number), if number == 1 { "" } else { "s" })
    };
    let mut text = format!(
        "{}, {}; {}",
        counted(stats.lanes, "lane"),
        counted(stats.trees, "trace"),
        counted(stats.requests, "request")
    );
    // Writing to a string does not fail.
    if stats.requests > 0 {
        let share = |held: u64| 100.0 * held as f64 / stats.requests as f64;
        let (barrier, join) = (share(stats.held_by_barrier), share(stats.held_by_join));
        let _ = write!(text, ", {barrier:.1}% held by barriers, {join:.1}% by sub-agents");
    }
    if stats.trees > 0 {
        let _ = write!(text, "; {:.2} requests in flight per trace", stats.concurrency);
    }
    if let Some(slowdown) = stats.slowdown() {
        let recorded = stats.recorded_concurrency;
        let _ = write!(text, " ({recorded:.2} recorded), {slowdown:.1} times the recorded time");
    }
    text
}

/// Returns the number of tool calls, and of those that cannot be used.
fn tool_calls(report: &RunReport) -> Option<String> {
    let result = report.results.iter().find(|it| it.metric.tag == tag::TOOL_CALL_COUNT)?;
    let responses = count(result.stats.distribution?.count);
    let calls = count(report.average(tag::TOTAL_TOOL_CALLS)? as u64);
    let what = match report.average(tag::TOTAL_INVALID_TOOL_CALLS)? as u64 {
        0 => "all with valid JSON".to_owned(),
        invalid => format!("{} with arguments that are not valid JSON", count(invalid)),
    };
    Some(format!("{calls} in {responses} responses, {what}"))
}

/// Returns the median time to first token of the first groups of turns.
fn by_turn(groups: &[GroupResult]) -> Option<String> {
    let p50 = |group: &GroupResult| {
        let p50 = group.value(tag::TIME_TO_FIRST_TOKEN, "p50")?;
        Some(format!("{}: {}", group.name, four_digits(p50)))
    };
    let told: Vec<String> = groups.iter().filter_map(p50).take(MAX_TURNS).collect();
    let more = if groups.len() > MAX_TURNS { ", …" } else { "" };
    (told.len() > 1).then(|| format!("{}{more} ms", told.join(", ")))
}

/// Returns the share of requests with each finish reason, if one of them is unusual.
fn finish_reasons(report: &RunReport) -> Option<String> {
    let told = finish_reason::telling(&report.finish_reasons)?;
    let requests: f64 = report.average(tag::REQUEST_COUNT).filter(|count| *count > 0.0)?;
    let shares = told.iter().map(|(reason, count)| {
        format!("{} {:.1}%", printable(reason), 100.0 * *count as f64 / requests)
    });
    Some(shares.collect::<Vec<_>>().join(", "))
}

/// Returns how sessions of several turns ended, and how long they took.
fn sessions(report: &RunReport) -> Option<String> {
    let number = |tag| report.average(tag).unwrap_or(0.0) as u64;
    report.average(tag::SESSION_COUNT)?;
    let mut text = format!("{} completed", count(number(tag::SESSION_COUNT)));
    // Writing to a string does not fail.
    for (tag, what) in [
        (tag::ERROR_SESSION_COUNT, "failed"),
        (tag::CANCELLED_SESSION_COUNT, "cut off by the end of the run"),
    ] {
        if number(tag) > 0 {
            let _ = write!(text, ", {} {what}", count(number(tag)));
        }
    }
    let duration = report.results.iter().find(|it| it.metric.tag == tag::SESSION_DURATION);
    if let Some(times) = duration.and_then(|it| it.stats.distribution) {
        let percentile_cell =
            |value, percent| percentile(value / 1e3, Percent::whole(percent), times.count);
        let (p50, p99) = (percentile_cell(times.p50, 50), percentile_cell(times.p99, 99));
        let _ = write!(text, "; duration p50 {p50} s, p99 {p99} s");
    }
    let mean = |tag| report.average(tag);
    if let (Some(all), Some(server)) = (mean(tag::SESSION_DURATION), mean(tag::SESSION_SERVER_TIME))
    {
        let _ = write!(text, ", {:.0}% of it waiting for the server", 100.0 * server / all);
    }
    Some(text)
}

/// Returns what server and client counted alike; `None` if they differ anywhere or nothing is known.
fn agreement(report: &RunReport) -> Option<String> {
    let compared = report.conservation();
    if report.has_mostly_failed() || !compared.iter().all(|one| one.agrees) {
        return None;
    }
    let disagreement = |quantity: Quantity, noun: &str| {
        let one = compared.iter().find(|one| one.quantity == quantity)?;
        let plural = if one.client as u64 == 1 { "" } else { "s" };
        Some(format!("{} {noun}{plural}", count(one.client as u64)))
    };
    let counts = [
        disagreement(Quantity::Requests, "request"),
        disagreement(Quantity::PromptTokens, "prompt token"),
        disagreement(Quantity::CompletionTokens, "completion token"),
    ];
    let counts: Vec<String> = counts.into_iter().flatten().collect();
    (!counts.is_empty()).then(|| format!("on {}", counts.join(", ")))
}

/// Renders each in a line.
pub(super) fn lines(report: &RunReport, style: Style) -> impl Iterator<Item = String> {
    let line =
        move |Highlight { title, text }| panel::wrapped_line(&format!("{title}: {text}"), style);
    highlights(report).into_iter().map(line)
}
