//! The verdict on client health, with its reasons.

use super::{Style, panel, printable};
use crate::metrics::health::{ClientHealth, TimeStatistics, Verdict};

/// Renders `Client health: valid (…)`, or another verdict with its reasons and advice; empty
/// without a verdict.
pub(super) fn render(health: &ClientHealth, style: Style) -> String {
    let Some(verdict) = health.verdict else { return String::new() };
    let word = verdict.as_str();
    let coloured = match verdict {
        Verdict::Valid => style.green(word),
        Verdict::Suspect => style.yellow(word),
        Verdict::Invalid => style.red(word),
    };
    let facts = facts(health).join(", ");
    let facts = if facts.is_empty() { facts } else { format!(" ({facts})") };
    let mut lines = vec![format!("Client health: {word}{facts}")];
    for reason in &health.reasons {
        lines.push(format!("  - {}.", printable(&reason.finding)));
        lines.push(format!("    What to do: {}.", printable(&reason.advice)));
    }
    let width = usize::from(style.width);
    let lines: Vec<String> = lines.iter().flat_map(|line| panel::wrapped(line, width)).collect();
    // Colour codes do not take any width, so they are added last.
    lines.join("\n").replacen(word, &coloured, 1) + "\n\n"
}

/// The measures that are shown with any verdict, as far as they are known.
fn facts(health: &ClientHealth) -> Vec<String> {
    let p99 = |name: &str, spread: Option<TimeStatistics>| {
        spread.map(|spread| format!("{name} p99 {:.2} ms", spread.p99))
    };
    // A wait for the concurrency limit is caused by the server and is not a reason for doubt.
    let is_bounded = health.concurrency_ratio.is_some_and(|ratio| ratio >= 1.0);
    let slip = if is_bounded { "slip including the wait for --concurrency" } else { "slip" };
    [
        p99(slip, health.schedule_slip_ms),
        p99("read lag", health.read_lag_ms),
        p99("arrival error", health.arrival_error_ms),
        health.cpu.map(|cpu| format!("busiest worker {:.0}% of a core", 100.0 * cpu.worker_max)),
    ]
    .into_iter()
    .flatten()
    .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_wait_for_a_slot_is_not_taken_for_the_clients_lateness() {
        let slip =
            TimeStatistics { count: 9, avg: 1.0, p50: 1.0, p90: 1.0, p99: 1500.0, max: 1500.0 };
        let bounded = ClientHealth {
            verdict: Some(Verdict::Valid),
            schedule_slip_ms: Some(slip),
            concurrency_ratio: Some(1.0),
            ..ClientHealth::default()
        };
        assert_eq!(
            render(&bounded, Style::FILE),
            "Client health: valid (slip including the wait for --concurrency p99 1500.00 ms)\n\n"
        );
        let below = ClientHealth { concurrency_ratio: Some(0.5), ..bounded };
        assert_eq!(render(&below, Style::FILE), "Client health: valid (slip p99 1500.00 ms)\n\n");
    }
}
