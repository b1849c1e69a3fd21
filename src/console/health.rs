//! The verdict on client health, with its reasons.

use super::panel;
use super::style::Style;
use crate::metrics::health::{
    Bound, ClientHealth, ErrorBounds, RateBounds, TimeStatistics, Verdict,
};
use crate::redact::printable;

/// Renders `Client health: valid (…)`, or another verdict with its reasons and advice, and the error
/// bounds; empty without a verdict.
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
    lines.extend(health.throughput_bounds.as_ref().map(of_throughput));
    if let Some(bounds) = &health.error_bounds_ms {
        lines.extend(bounds_of(bounds));
        lines.extend(bounds.too_few().into_iter().map(|text| format!("  {text}")));
    }
    let width = usize::from(style.width);
    let lines: Vec<String> = lines.iter().flat_map(|line| panel::wrapped(line, width)).collect();
    // Colour codes do not take any width, so they are added last.
    lines.join("\n").replacen(word, &coloured, 1) + "\n\n"
}

/// Returns the line of the throughput.
fn of_throughput(bounds: &RateBounds) -> String {
    let RateBounds { below_percent, above_percent, delay_ms, .. } = bounds;
    format!(
        "  Error bounds of the throughput: client −{below_percent:.1}% +{above_percent:.1}% \
         (requests left {delay_ms:.2} ms after they could have on average)"
    )
}

/// Returns a line for each metric.
fn bounds_of(bounds: &ErrorBounds) -> impl Iterator<Item = String> {
    let range = |name: &str, below: f64, above: f64| format!("{name} −{below:.2} +{above:.2}");
    let statistic = move |(percent, bound): (i64, Bound)| {
        let sample = bound.sample_below.zip(bound.sample_above);
        let sample = sample.map(|(below, above)| range(", sample", below, above));
        let client = range("client", bound.below, bound.above);
        format!("p{percent} {:.2} ms ({client}{})", bound.value, sample.unwrap_or_default())
    };
    bounds.iter().map(move |(metric, of)| {
        let statistics: Vec<String> = of.percentiles().map(statistic).collect();
        format!("  Error bounds of the {metric}: {}", statistics.join(", "))
    })
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
    use crate::metrics::health::MetricBounds;

    #[test]
    fn each_metric_has_a_line_of_bounds() {
        let p50 = Bound {
            value: 40.0,
            below: 0.125,
            sample_below: Some(1.0),
            sample_above: Some(2.5),
            ..Bound::default()
        };
        let p99 = Bound { value: 50.0, below: 3.0, requests_needed: Some(368), ..Bound::default() };
        let bounds = MetricBounds { count: 100, avg: Bound::default(), p50, p99 };
        let health = ClientHealth {
            verdict: Some(Verdict::Valid),
            error_bounds_ms: Some(ErrorBounds {
                time_to_first_token: Some(bounds),
                request_latency: Some(MetricBounds { count: 99, ..bounds }),
                ..ErrorBounds::default()
            }),
            throughput_bounds: Some(RateBounds {
                above_percent: 12.34,
                delay_ms: 6.0,
                ..RateBounds::default()
            }),
            ..ClientHealth::default()
        };
        let rates = "  Error bounds of the throughput: client −0.0% +12.3% (requests left 6.00 ms \
                     after they could have on average)";
        let told = "p50 40.00 ms (client −0.12 +0.00, sample −1.00 +2.50), p99 50.00 ms (client \
                    −3.00 +0.00)";
        let style = Style { width: 200, ..Style::FILE };
        assert_eq!(
            render(&health, style),
            format!(
                "Client health: valid\n{rates}\n  Error bounds of the time to first token: {told}\n  \
                 Error bounds of the request latency: {told}\n  Too few requests to judge p99: 99, at \
                 least 368 needed\n\n"
            )
        );
    }

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
            render(&waited, style),
            "Client health: valid (slip p99 0.25 ms by the client, 1500.00 ms with the waits for \
             free slots and earlier responses)\n\n"
        );
        let late = ClientHealth { client_slip_ms: Some(slip), ..waited };
        assert_eq!(render(&late, style), "Client health: valid (slip p99 1500.00 ms)\n\n");
    }
}
