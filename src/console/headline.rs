//! The first screen of a run: what was measured, and one table of the metrics that people name.

use super::format::{count, four_digits, two_digits};
use super::panel;
use super::server_spans;
use super::style::Style;
use crate::metrics::SteadyState;
use crate::metrics::metric::{Distribution, MetricResult};
use crate::metrics::tag::{self, MetricTag};
use crate::redact::printable;
use crate::run::RunReport;
use crate::units::Nanos;

/// The metrics with a distribution, and their labels; those that the run has are shown.
const DISTRIBUTIONS: &[(MetricTag, &str)] = &[
    (tag::TIME_TO_FIRST_TOKEN, "Time to first token (ms)"),
    (tag::NETWORK_ADJUSTED_TIME_TO_FIRST_TOKEN, "TTFT less network (ms)"),
    (tag::INTER_TOKEN_LATENCY, "Inter-token latency (ms)"),
    (tag::REQUEST_LATENCY, "Request latency (ms)"),
    (tag::SERVER_QUEUE_TIME, "Server queue (ms)"),
    (tag::SERVER_PREFILL_TIME, "Server prefill (ms)"),
    (tag::SERVER_QUEUE_AND_PREFILL_TIME, "Server queue+prefill (ms)"),
    (tag::SERVER_KV_TRANSFER_TIME, "Server KV transfer (ms)"),
    (tag::SERVER_DECODE_TIME, "Server decode (ms)"),
    (tag::SERVER_PREFILL_AND_DECODE_TIME, "Server prefill+decode (ms)"),
    (tag::SERVER_KV_TRANSFER_AND_DECODE_TIME, "Server transfer+decode (ms)"),
    (tag::SPEC_DECODE_ACCEPTANCE_LENGTH, "Acceptance length"),
    (tag::NETWORK_ADJUSTED_REQUEST_LATENCY, "Latency less network (ms)"),
    (tag::NETWORK_RTT, "Network RTT (ms)"),
    (tag::OUTPUT_TOKEN_THROUGHPUT_PER_USER, "Output tokens/s per user"),
    (tag::INPUT_SEQUENCE_LENGTH, "Input tokens"),
    (tag::OUTPUT_SEQUENCE_LENGTH, "Output tokens"),
    (tag::NUM_IMAGES, "Images per request"),
    (tag::IMAGE_LATENCY, "Time per image (ms)"),
    (tag::VIDEO_INFERENCE_TIME, "Video inference (s)"),
    (tag::AUDIO_DURATION, "Audio per request (s)"),
];

/// The metrics of the whole run, and their labels.
const TOTALS: &[(MetricTag, &str)] = &[
    (tag::REQUEST_THROUGHPUT, "Requests/s"),
    (tag::GOODPUT, "Good requests/s"),
    (tag::OUTPUT_TOKEN_THROUGHPUT, "Output tokens/s"),
    (tag::TOTAL_TOKEN_THROUGHPUT, "Input and output tokens/s"),
    (tag::IMAGE_THROUGHPUT, "Images/s"),
];

/// The label of the number of failed requests.
const ERRORS: &str = "Errors";

/// A deviation from Little's law in percent that is shown: with few requests, chance exceeds 5%.
const NOTABLE_RESIDUAL: f64 = 10.0;

const COLUMNS: [&str; 6] = ["avg", "p50", "p90", "p95", "p99", "max"];

/// Renders what was run: models and servers, load, tokenizer, and what became of a dataset that was
/// not sent as it is.
pub(super) fn header(report: &RunReport, style: Style) -> String {
    let RunReport { run, outcome, .. } = report;
    let models = run.setup.models.join(", ");
    let title = if models.is_empty() { run.endpoint.name } else { &models };
    let mut lines = vec![format!("  {}", run.servers().join(", "))];
    let streaming = if run.streaming { "streaming, " } else { "" };
    let seconds = Nanos(outcome.end_wall_ns.saturating_sub(outcome.start_wall_ns)).as_seconds();
    lines.push(format!(
        "  {}, {streaming}{}, {} in {} s",
        run.endpoint.name,
        outcome.load,
        requests(sent(report)),
        four_digits(seconds),
    ));
    lines.extend(tokenizer(report));
    let account = report.dataset().filter(|account| !account.is_whole());
    lines.extend(account.map(|account| format!("  dataset: {}", account.text())));
    lines.extend(server_spans::line(report));
    lines.retain(|line| !line.trim().is_empty());
    let lines = lines.iter().flat_map(|line| panel::wrapped(&printable(line), style.width.into()));
    let lines: Vec<String> = lines.collect();
    format!("{}\n{}\n\n", style.bold(&printable(title)), lines.join("\n"))
}

/// Says how tokens were counted, if any were.
fn tokenizer(report: &RunReport) -> Option<String> {
    let run = &report.run;
    let counted = run.endpoint.tokenizes_input || run.endpoint.produces_tokens;
    let tokenizer = run.provenance.tokenizer.as_ref().filter(|_| counted)?;
    if run.settings.use_server_token_count {
        return Some("  tokens as counted by the server".to_owned());
    }
    Some(match tokenizer.name.as_str() {
        "builtin" => {
            "  tokens counted with the built-in tokenizer (o200k), see --tokenizer".to_owned()
        }
        name => format!("  tokens counted with {name}"),
    })
}

/// Renders the table, and what is missing in it.
pub(super) fn table(report: &RunReport, style: Style) -> String {
    let result = |tag| report.results.iter().find(|result| result.metric.tag == tag);
    let mut rows: Vec<(&str, Vec<String>, String)> = Vec::new();
    for &(tag, label) in DISTRIBUTIONS {
        let Some(values) = result(tag).and_then(of_distribution) else { continue };
        rows.push((label, values.map(four_digits).into(), String::new()));
    }
    for &(tag, label) in TOTALS {
        let Some(value) = result(tag).map(|result| result.stats.avg) else { continue };
        rows.push((label, vec![four_digits(value)], String::new()));
    }
    let (sent, failed) = (sent(report), failed(report));
    let errors = if sent == 0 { String::new() } else { format!("  of {}", requests(sent)) };
    rows.push((ERRORS, vec![count(failed)], errors));

    let labels = rows.iter().map(|(label, ..)| label.len()).max().unwrap_or(0);
    let cells = rows.iter().flat_map(|(_, values, _)| values);
    let width = cells.map(|cell| cell.chars().count()).max().unwrap_or(0).max(5) + 2;
    let line = |label: &str, cells: &[String], rest: &str| {
        let cells: Vec<String> = cells.iter().map(|cell| format!("{cell:>width$}")).collect();
        format!("{label:labels$}{}{rest}", cells.concat())
    };
    let mut text = style.bold(&line("", &COLUMNS.map(str::to_owned), "")) + "\n";
    for (label, values, rest) in &rows {
        let is_bad = *label == ERRORS && failed > 0;
        let line = line(label, values, rest);
        text.push_str(&if is_bad { style.red(&line) } else { line });
        text.push('\n');
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
        let is_bounded = *tag == tag::REQUEST_THROUGHPUT;
        let half = steady.request_throughput_half_width.filter(|_| is_bounded);
        let half = half.map(|half| format!(" ± {}", two_digits(half)));
        Some(format!("{}{} {}", four_digits(value), half.unwrap_or_default(), lowered(label)))
    });
    let residual = steady.littles_law_residual_percent.filter(|it| it.abs() > NOTABLE_RESIDUAL);
    let residual = residual.map(|percent| {
        format!(
            "; rate times mean latency is {percent:+.0}% off the mean number of requests in flight, \
             so the load was not constant"
        )
    });
    let line = format!(
        "Steady state from {} to {} ({:.0}% of the requests): {}{}",
        after(steady.start_ns),
        after(steady.end_ns),
        100.0 * steady.request_share,
        throughputs.collect::<Vec<_>>().join(", "),
        residual.unwrap_or_default(),
    );
    panel::wrapped(&line, style.width.into()).join("\n") + "\n\n"
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
    format!("{} {noun}", super::format::count(count))
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
