//! The first screen of a run: what was measured, and one table of the metrics that people name.

use super::table::SummaryTable;
use super::{Style, count, grouped, panel, printable};
use crate::metrics::metric::{Distribution, MetricResult};
use crate::metrics::tag::{self, MetricTag};
use crate::metrics::{LoadReport, SteadyState};
use crate::run::RunReport;
use crate::units::Nanos;

/// The metrics with a distribution, and their labels; those that the run has are shown.
const DISTRIBUTIONS: [(MetricTag, &str); 10] = [
    (tag::TIME_TO_FIRST_TOKEN, "Time to first token (ms)"),
    (tag::INTER_TOKEN_LATENCY, "Inter-token latency (ms)"),
    (tag::REQUEST_LATENCY, "Request latency (ms)"),
    (tag::OUTPUT_TOKEN_THROUGHPUT_PER_USER, "Output tokens/s per user"),
    (tag::INPUT_SEQUENCE_LENGTH, "Input tokens"),
    (tag::OUTPUT_SEQUENCE_LENGTH, "Output tokens"),
    (tag::NUM_IMAGES, "Images per request"),
    (tag::IMAGE_LATENCY, "Time per image (ms)"),
    (tag::VIDEO_INFERENCE_TIME, "Video inference (s)"),
    (tag::AUDIO_DURATION, "Audio per request (s)"),
];

/// The metrics of the whole run, and their labels.
const TOTALS: [(MetricTag, &str); 5] = [
    (tag::REQUEST_THROUGHPUT, "Requests/s"),
    (tag::GOODPUT, "Good requests/s"),
    (tag::OUTPUT_TOKEN_THROUGHPUT, "Output tokens/s"),
    (tag::TOTAL_TOKEN_THROUGHPUT, "Input and output tokens/s"),
    (tag::IMAGE_THROUGHPUT, "Images/s"),
];

const COLUMNS: [&str; 6] = ["avg", "p50", "p90", "p95", "p99", "max"];

/// Renders what was run: models and servers, load, tokenizer.
pub(super) fn header(report: &RunReport, style: Style) -> String {
    let RunReport { run, outcome, .. } = report;
    let models = run.models().join(", ");
    let title = if models.is_empty() { run.endpoint.name } else { &models };
    let mut lines = vec![format!("  {}", run.servers().join(", "))];
    let streaming = if run.streaming { "streaming, " } else { "" };
    let seconds = Nanos(outcome.end_wall_ns.saturating_sub(outcome.start_wall_ns)).as_seconds();
    lines.push(format!(
        "  {}, {streaming}{}, {} in {} s",
        run.endpoint.name,
        outcome.load,
        requests(sent(report)),
        figure(seconds, decimals([seconds])),
    ));
    if let Some(tokenizer) = &run.provenance.tokenizer {
        let builtin = tokenizer.name == "builtin";
        let which = if builtin { "the built-in tokenizer (o200k)" } else { &tokenizer.name };
        lines.push(format!("  tokens counted with {which}"));
    }
    lines.retain(|line| !line.trim().is_empty());
    let lines = lines.iter().flat_map(|line| panel::wrapped(&printable(line), style.width.into()));
    let lines: Vec<String> = lines.collect();
    format!("{}\n{}\n\n", style.bold(&printable(title)), lines.join("\n"))
}

/// Renders the table, and what is missing in it.
pub(super) fn table(report: &RunReport, style: Style) -> String {
    let result = |tag| report.results.iter().find(|result| result.metric.tag == tag);
    let mut rows: Vec<(&str, Vec<String>, String)> = Vec::new();
    for (tag, label) in DISTRIBUTIONS {
        let Some(values) = result(tag).and_then(of_distribution) else { continue };
        let decimals = decimals(values);
        rows.push((label, values.map(|value| figure(value, decimals)).into(), String::new()));
    }
    for (tag, label) in TOTALS {
        let Some(value) = result(tag).map(|result| result.stats.avg) else { continue };
        rows.push((label, vec![figure(value, decimals([value]))], String::new()));
    }
    let (sent, failed) = (sent(report), failed(report));
    let errors = if sent == 0 { String::new() } else { format!("  of {}", requests(sent)) };
    rows.push(("Errors", vec![count(failed)], errors));

    let labels = rows.iter().map(|(label, ..)| label.len()).max().unwrap_or(0);
    let cells = rows.iter().flat_map(|(_, values, _)| values);
    let width = cells.map(|cell| cell.chars().count()).max().unwrap_or(0).max(5) + 2;
    let columns: String = COLUMNS.iter().map(|name| format!("{name:>width$}")).collect();
    let mut text = style.bold(&format!("{:labels$}{columns}", "")) + "\n";
    for (label, values, rest) in &rows {
        let values: String = values.iter().map(|value| format!("{value:>width$}")).collect();
        let line = format!("{label:labels$}{values}{rest}\n");
        let is_bad = *label == "Errors" && failed > 0;
        text.push_str(&if is_bad { style.red(line.trim_end()) + "\n" } else { line });
    }
    let RunReport { run, .. } = report;
    if run.endpoint.supports_streaming && run.endpoint.produces_tokens && !run.streaming {
        text.push_str("Time to first token and inter-token latency need --streaming.\n");
    }
    text.push('\n');
    text
}

/// Renders the steady state as one line: its bounds and throughputs.
pub(super) fn steady_state(steady: &SteadyState, report: &RunReport, style: Style) -> String {
    let after = |at: u64| {
        let start = report.outcome.start_wall_ns;
        format!("{:.2} s", Nanos(at.saturating_sub(start)).as_seconds())
    };
    let throughputs = TOTALS.iter().filter_map(|(tag, label)| {
        let result = steady.results.iter().find(|result| result.metric.tag == *tag)?;
        let value = result.stats.avg;
        Some(format!("{} {}", figure(value, decimals([value])), lowered(label)))
    });
    let line = format!(
        "Steady state from {} to {} ({:.0}% of the requests): {}",
        after(steady.start_ns),
        after(steady.end_ns),
        100.0 * steady.request_share,
        throughputs.collect::<Vec<_>>().join(", "),
    );
    panel::wrapped(&line, style.width.into()).join("\n") + "\n\n"
}

/// Renders the number of tables that are not shown.
pub(super) fn other_tables(report: &RunReport) -> String {
    match SummaryTable::all(report).len() {
        0 => String::new(),
        _ => "All metrics: --tables all, or profile_export_console.txt\n".to_owned(),
    }
}

fn lowered(label: &str) -> String {
    let mut letters = label.chars();
    letters.next().map(|first| first.to_lowercase().chain(letters).collect()).unwrap_or_default()
}

fn of_distribution(result: &MetricResult) -> Option<[f64; 6]> {
    let Distribution { p50, p90, p95, p99, max, .. } = result.stats.distribution?;
    Some([result.stats.avg, p50, p90, p95, p99, max])
}

fn requests(count: u64) -> String {
    let noun = if count == 1 { "request" } else { "requests" };
    format!("{} {noun}", super::count(count))
}

/// The number of requests that ended, with and without success.
fn sent(report: &RunReport) -> u64 {
    total(report, tag::REQUEST_COUNT) + failed(report)
}

fn failed(report: &RunReport) -> u64 {
    total(report, tag::ERROR_REQUEST_COUNT)
}

fn total(report: &RunReport, tag: MetricTag) -> u64 {
    report.average(tag).map_or(0, |value| value as u64)
}

/// Returns the decimals of numbers in one row: none if all are whole, and at most five digits
/// where the largest has fewer than that.
fn decimals<const N: usize>(values: [f64; N]) -> usize {
    let largest = values.into_iter().filter(|value| value.is_finite()).map(f64::abs).fold(0.0, f64::max);
    let is_whole = values.iter().all(|value| !value.is_finite() || value.fract() == 0.0);
    match largest {
        _ if is_whole => 0,
        ..100.0 => 2,
        ..1000.0 => 1,
        _ => 0,
    }
}

/// Formats a number with `decimals` and thousands separators; `-` if there is none.
fn figure(value: f64, decimals: usize) -> String {
    if !value.is_finite() {
        return "-".to_owned();
    }
    let text = format!("{value:.decimals$}");
    let (sign, digits) = text.strip_prefix('-').map_or(("", text.as_str()), |rest| ("-", rest));
    match digits.split_once('.') {
        Some((whole, fraction)) => format!("{sign}{}.{fraction}", grouped(whole)),
        None => format!("{sign}{}", grouped(digits)),
    }
}
