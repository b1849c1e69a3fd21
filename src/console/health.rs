//! Whether the client kept up, in a line, and why not.

use super::{Style, panel, printable};
use crate::metrics::health::{ClientHealth, Spread, Verdict};

/// `Client health: valid (…)`, or the verdict with its reasons and what to do;
/// nothing where there is no verdict.
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
        lines.push(format!("    To do: {}.", printable(&reason.advice)));
    }
    let width = usize::from(style.width);
    let lines: Vec<String> = lines.iter().flat_map(|line| panel::wrapped(line, width)).collect();
    // Colour takes no room, so it comes last.
    lines.join("\n").replacen(word, &coloured, 1) + "\n\n"
}

/// What is worth knowing in any case, as far as it is known.
fn facts(health: &ClientHealth) -> Vec<String> {
    let p99 = |name: &str, spread: Option<Spread>| {
        spread.map(|spread| format!("{name} p99 {:.2} ms", spread.p99))
    };
    // Such a wait is the server's doing, and no reason for doubt.
    let is_bounded = health.concurrency_ratio.is_some_and(|ratio| ratio >= 1.0);
    let slip = if is_bounded { "slip with the wait for --concurrency" } else { "slip" };
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
        let slip = Spread { count: 9, avg: 1.0, p50: 1.0, p90: 1.0, p99: 1500.0, max: 1500.0 };
        let bounded = ClientHealth {
            verdict: Some(Verdict::Valid),
            schedule_slip_ms: Some(slip),
            concurrency_ratio: Some(1.0),
            ..ClientHealth::default()
        };
        assert_eq!(
            render(&bounded, Style::FILE),
            "Client health: valid (slip with the wait for --concurrency p99 1500.00 ms)\n\n"
        );
        let below = ClientHealth { concurrency_ratio: Some(0.5), ..bounded };
        assert_eq!(render(&below, Style::FILE), "Client health: valid (slip p99 1500.00 ms)\n\n");
    }
}
