//! The verdicts on the client and on the load.

use base::redact::printable;
use measure::metrics::health::{
    ClientHealth, HostActivity, LoadHealth, LoadVerdict, OutputHealth, Reason, TimeStatistics,
    Verdict,
};

use super::panel;
use super::style::Style;
use crate::run::{LoadLimit, RunReport};
use crate::tables::format::two_digits;

/// Renders the verdicts in one line, as in `Client health: valid. Load: sustained.`, with the offered and
/// the served rate if it `has_rates`; empty without verdicts.
pub(super) fn verdicts(report: &RunReport, has_rates: bool, style: Style) -> String {
    let client = report.outcome.client_health.as_ref().and_then(|health| health.verdict);
    let load = report.outcome.load_health.as_ref();
    let outputs = report.outcome.output_health.as_ref();
    let outputs = outputs.and_then(|health| Some((health, health.verdict?)));
    let words = [
        client.map(|verdict| format!("Client health: {}.", verdict.as_str())),
        load.map(|health| {
            let verdict = if has_rates { health.to_string() } else { without_rates(health) };
            format!("Load: {verdict}{}.", limit(report))
        }),
        outputs.map(|(health, _)| format!("Outputs: {health}.")),
    ];
    let line = words.into_iter().flatten().collect::<Vec<_>>().join(" ");
    if line.is_empty() {
        return String::new();
    }
    let text = panel::wrapped(&line, style.width.into()).join("\n") + "\n";
    // Colour codes do not take any width, so they are added last.
    let text = match client {
        Some(verdict) => text.replacen(verdict.as_str(), &coloured(verdict, style), 1),
        None => text,
    };
    let text = match load {
        Some(health) => coloured_load(&text, health, style),
        None => text,
    };
    match outputs {
        Some((_, verdict)) => coloured_outputs(&text, verdict, style),
        None => text,
    }
}

/// Returns the verdict on the load beside a table that has the served rate.
fn without_rates(health: &LoadHealth) -> String {
    let words = health.verdict.words();
    let text = match (health.verdict, health.queue_slope) {
        (LoadVerdict::Saturated, Some(slope)) => {
            let since = health.since_seconds.unwrap_or(0.0);
            format!("{words} (the queue grew by {:.1}/s from {since:.1} s on)", slope.value)
        }
        (LoadVerdict::Sustained, Some(_)) => words.to_owned(),
        _ => return health.to_string(),
    };
    match health.failures {
        Some(failures) => format!("{text}; {failures}"),
        None => text,
    }
}

fn coloured(verdict: Verdict, style: Style) -> String {
    match verdict {
        Verdict::Valid => style.green(verdict.as_str()),
        Verdict::Suspect => style.yellow(verdict.as_str()),
        Verdict::Invalid => style.red(verdict.as_str()),
    }
}

fn coloured_outputs(text: &str, verdict: Verdict, style: Style) -> String {
    let words = |word: &str| format!("Outputs: {word}");
    text.replacen(&words(verdict.as_str()), &words(&coloured(verdict, style)), 1)
}

fn coloured_load(text: &str, health: &LoadHealth, style: Style) -> String {
    let word = health.verdict.words();
    let coloured = match health.verdict {
        LoadVerdict::Sustained => style.green(word),
        LoadVerdict::TooShort | LoadVerdict::NotStationary => style.yellow(word),
        LoadVerdict::Saturated | LoadVerdict::Rejecting | LoadVerdict::Failing => style.red(word),
    };
    text.replacen(word, &coloured, 1)
}

/// Renders the verdicts with what they are based on, their reasons and advice: `Client health: valid
/// (…)`, then `Load: sustained (offered 20.0/s, served 20.0/s)`; empty without verdicts.
pub(super) fn details(report: &RunReport, style: Style) -> String {
    let client = report.outcome.client_health.as_ref();
    let mut text = client.map(|health| of_client(health, style)).unwrap_or_default();
    if let Some(health) = &report.outcome.load_health {
        let line = format!("Load: {health}{}", limit(report));
        let lines = panel::wrapped(&line, style.width.into());
        text.push_str(&(coloured_load(&lines.join("\n"), health, style) + "\n\n"));
    }
    let outputs = report.outcome.output_health.as_ref();
    text + &outputs.map(|health| of_outputs(health, style)).unwrap_or_default()
}

/// States what limits the throughput, if that is known: `; the server limits it: on average 16 requests ran and
/// 48 waited`.
fn limit(report: &RunReport) -> String {
    match report.load_limit() {
        Some(LoadLimit::ServerQueue { running, waiting }) => format!(
            "; the server limits it: on average {} requests ran and {} waited",
            two_digits(running),
            two_digits(waiting)
        ),
        Some(LoadLimit::ThinkTime { share }) => format!(
            "; think time limits it: {:.0}% of the sessions' time is between turns",
            100.0 * share
        ),
        Some(LoadLimit::Concurrency(concurrency)) => {
            format!("; the concurrency of {concurrency} limits it")
        }
        None => String::new(),
    }
}

fn of_client(health: &ClientHealth, style: Style) -> String {
    let Some(verdict) = health.verdict else { return String::new() };
    let word = verdict.as_str();
    let facts = facts(health).join(", ");
    let facts = if facts.is_empty() { facts } else { format!(" ({facts})") };
    let text = with_reasons(format!("Client health: {word}{facts}"), &health.reasons, style);
    text.replacen(word, &coloured(verdict, style), 1)
}

fn of_outputs(health: &OutputHealth, style: Style) -> String {
    let Some(verdict) = health.verdict else { return String::new() };
    let first = if health.reasons.is_empty() {
        format!("Outputs: {health}")
    } else {
        format!("Outputs: {} ({} in all)", verdict.as_str(), health.outputs)
    };
    coloured_outputs(&with_reasons(first, &health.reasons, style), verdict, style)
}

/// Renders a verdict with its reasons and advice.
fn with_reasons(first: String, reasons: &[Reason], style: Style) -> String {
    let mut lines = vec![first];
    for reason in reasons {
        lines.push(format!("  - {}.", printable(&reason.finding)));
        lines.push(format!("    What to do: {}.", printable(&reason.advice)));
    }
    let width = usize::from(style.width);
    let lines: Vec<String> = lines.iter().flat_map(|line| panel::wrapped(line, width)).collect();
    lines.join("\n") + "\n\n"
}

/// The measures that are shown with any verdict, as far as they are known.
fn facts(health: &ClientHealth) -> Vec<String> {
    let p99 = |name: &str, spread: Option<TimeStatistics>| {
        spread.map(|spread| format!("{name} p99 {:.2} ms", spread.p99))
    };
    [
        slip(health),
        p99("read lag", health.read_lag_ms),
        p99("arrival error", health.arrival_error_ms),
        health.cpu.map(|cpu| format!("busiest worker {:.0}% of a core", 100.0 * cpu.worker_max)),
    ]
    .into_iter()
    .flatten()
    .chain(health.host.iter().flat_map(HostActivity::facts))
    .collect()
}

/// Slip that is shown as such, in milliseconds, although it was not the client's.
const NOTABLE_MS: f64 = 1.0;

/// The slip, and how much of it was the client's: only that is a reason for doubt.
fn slip(health: &ClientHealth) -> Option<String> {
    let all = health.schedule_slip_ms?.p99;
    Some(match health.client_slip_ms {
        Some(TimeStatistics { p99: own, .. }) if all - own > NOTABLE_MS.max(0.1 * own) => format!(
            "slip p99 {own:.2} ms by the client, {all:.2} ms with the waits for free slots and \
             earlier responses"
        ),
        _ => format!("slip p99 {all:.2} ms"),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_wait_for_a_slot_is_not_taken_for_the_clients_lateness() {
        let slip =
            TimeStatistics { count: 9, avg: 1.0, p50: 1.0, p90: 1.0, p99: 1500.0, max: 1500.0 };
        let waited = ClientHealth {
            verdict: Some(Verdict::Valid),
            schedule_slip_ms: Some(slip),
            client_slip_ms: Some(TimeStatistics { p99: 0.25, max: 0.25, ..slip }),
            ..ClientHealth::default()
        };
        let style = Style { width: 200, ..Style::FILE };
        assert_eq!(
            of_client(&waited, style),
            "Client health: valid (slip p99 0.25 ms by the client, 1500.00 ms with the waits for \
             free slots and earlier responses)\n\n"
        );
        let late = ClientHealth { client_slip_ms: Some(slip), ..waited };
        assert_eq!(of_client(&late, style), "Client health: valid (slip p99 1500.00 ms)\n\n");
    }
}
