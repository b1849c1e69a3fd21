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
    [
        p99("slip", health.schedule_slip_ms),
        p99("read lag", health.read_lag_ms),
        p99("arrival error", health.arrival_error_ms),
        health.cpu.map(|cpu| format!("busiest worker {:.0}% of a core", 100.0 * cpu.worker_max)),
    ]
    .into_iter()
    .flatten()
    .collect()
}
