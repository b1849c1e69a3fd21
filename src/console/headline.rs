//! The first screen of a run: what was measured, and one table of the metrics that people name.

use super::format::{count, four_digits, two_digits};
use super::layout::{Cell, Column, Table};
use super::panel;
use super::server_spans;
use super::style::Style;
use super::table::TELLING_WAIT_MS;
use super::vocabulary::Term;
use crate::metrics::health::{Bound, ErrorBounds, RateBounds};
use crate::metrics::metric::{Distribution, LatencyFrom, MetricResult, Percent, Statistic};
use crate::metrics::steady::Unsteady;
use crate::metrics::tag::{self, MetricTag};
use crate::redact::printable;
use crate::run::RunReport;
use crate::statistics::further;
use crate::units::Nanos;

/// The metrics with a distribution; those that the run has are shown.
const DISTRIBUTIONS: &[MetricTag] = &[
    tag::TIME_TO_FIRST_TOKEN,
    tag::EFFECTIVE_TIME_TO_FIRST_TOKEN,
    tag::NETWORK_ADJUSTED_TIME_TO_FIRST_TOKEN,
    tag::INTER_TOKEN_LATENCY,
    tag::REQUEST_LATENCY,
    tag::EFFECTIVE_LATENCY,
    tag::SERVER_QUEUE_TIME,
    tag::SERVER_PREFILL_TIME,
    tag::SERVER_QUEUE_AND_PREFILL_TIME,
    tag::SERVER_KV_TRANSFER_TIME,
    tag::SERVER_DECODE_TIME,
    tag::SERVER_PREFILL_AND_DECODE_TIME,
    tag::SERVER_KV_TRANSFER_AND_DECODE_TIME,
    tag::SPEC_DECODE_ACCEPTANCE_LENGTH,
    tag::NETWORK_ADJUSTED_REQUEST_LATENCY,
    tag::NETWORK_RTT,
    tag::OUTPUT_TOKEN_THROUGHPUT_PER_USER,
    tag::INPUT_SEQUENCE_LENGTH,
    tag::OUTPUT_SEQUENCE_LENGTH,
    tag::NUM_IMAGES,
    tag::IMAGE_LATENCY,
    tag::VIDEO_INFERENCE_TIME,
    tag::AUDIO_DURATION,
];

/// The metrics of the whole run, likewise.
const TOTALS: &[MetricTag] = &[
    tag::REQUEST_THROUGHPUT,
    tag::GOODPUT,
    tag::OUTPUT_TOKEN_THROUGHPUT,
    tag::TOTAL_TOKEN_THROUGHPUT,
    tag::IMAGE_THROUGHPUT,
];

/// The label of the number of failed requests.
const ERRORS: &str = "Errors";

/// A deviation from Little's law in percent that is shown: with few requests, chance exceeds 5%.
const NOTABLE_RESIDUAL: f64 = 10.0;

/// The least share of a throughput, in percent, by which the client's delays are shown.
pub(super) const NOTABLE_PERCENT: f64 = 0.05;

/// The statistics, and the order in which a narrow terminal does without them.
const STATISTICS: [(&str, u8); 6] =
    [("avg", 4), ("p50", 0), ("p90", 2), ("p95", 1), ("p99", 0), ("max", 5)];

/// How far a rate in the long run is below that by the time until the last response, as a share, to be shown.
const NOTABLE_SHARE: f64 = 0.01;

/// The columns of error bounds. A terminal of less than 100 columns usually does without the first.
const BOUNDS: [&str; 2] = ["p50 95% CI", "p99 95% CI"];

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
    lines.extend(report.submission().map(|submission| format!("  {}", submission.line())));
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
    let health = report.outcome.client_health.as_ref();
    let bounds = health.and_then(|health| health.error_bounds_ms).unwrap_or_default();
    let rates = health.and_then(|health| health.throughput_bounds);
    let mut columns = vec![Column::name("")];
    columns.extend(STATISTICS.map(|(name, order)| Column::number(name).spare(order)));
    let further: Vec<Percent> = further(&report.run.settings.percentiles).collect();
    let own = (7..).zip(&further);
    columns.extend(own.map(|(order, p)| Column::number(format!("p{p}")).spare(order)));
    if bounds != ErrorBounds::default() {
        let [p50, p99] = BOUNDS.map(Column::number);
        columns.extend([p50.extra(), p99.spare(3)]);
    }
    let mut table = Table::plain(columns);
    for &tag in DISTRIBUTIONS {
        let Some(result) = result(tag) else { continue };
        if !is_of_its_own(result, report, &bounds) {
            continue;
        }
        let Some(distribution) = result.stats.distribution else { continue };
        let values = of_distribution(result.stats.avg, &distribution);
        let own = further.iter().map(|percent| distribution.percentile(*percent));
        let own = own.map(|value| value.map_or_else(String::new, four_digits));
        let term = Term::of(result.metric);
        let intervals = ["p50", "p99"].map(|statistic| bounds.of(tag, statistic));
        let intervals = intervals.map(|bound| bound.map_or_else(String::new, interval));
        let values = values.map(four_digits).into_iter().chain(own);
        let cells = values.chain(intervals).map(Cell::from);
        let name = Cell::or(term.label(), term.short_label());
        table.row([name].into_iter().chain(cells));
    }
    for &tag in TOTALS {
        let Some(result) = result(tag) else { continue };
        let (value, term) = (result.stats.avg, Term::of(result.metric));
        let beside = beside_total(report, tag, rates);
        let name = Cell::or(term.label(), term.short_label());
        table.row_with([name, four_digits(value).into()], beside, false);
    }
    let (sent, failed) = (sent(report), failed(report));
    let of = if sent == 0 { String::new() } else { format!("of {}", requests(sent)) };
    table.row_with([Cell::from(ERRORS), count(failed).into()], of, failed > 0);
    let mut text = table.render(style);
    let RunReport { run, .. } = report;
    if run.endpoint.supports_streaming && run.endpoint.produces_tokens && !run.streaming {
        text.push_str("Time to first token and inter-token latency need --streaming.\n");
    }
    text
}

/// Returns whether a latency from the due time differs from that from sending by more than the client may
/// have shifted it, in the median or in p99; true for other metrics.
fn is_of_its_own(due: &MetricResult, report: &RunReport, bounds: &ErrorBounds) -> bool {
    let Some(tag) = LatencyFrom::sent(due.metric.tag) else { return true };
    let Some(sent) = report.results.iter().find(|result| result.metric.tag == tag) else {
        return true;
    };
    ["p50", "p99"].iter().any(|name| {
        let value = |of: &MetricResult| Statistic::named(name)?.of(&of.stats);
        let shift = bounds.of(tag, name).map_or(0.0, |bound| bound.error());
        let waited = value(due).zip(value(sent)).map(|(due, sent)| due - sent);
        waited.is_some_and(|waited| waited > shift.max(TELLING_WAIT_MS))
    })
}

/// Formats the 95% interval of a statistic: that for other requests of the same kind, wider by how far
/// the client may have shifted the statistic. Without enough requests for it, how many are needed.
fn interval(bound: Bound) -> String {
    match (bound.sample_interval(), bound.requests_needed) {
        ([Some(low), Some(high)], _) => {
            let low = (low - bound.below).max(0.0);
            format!("{}–{}", four_digits(low), four_digits(high + bound.above))
        }
        (_, Some(needed)) => format!("needs {}", count(needed)),
        _ => String::new(),
    }
}

/// Returns what is shown beside a total: its value in the long run and in the steady state, and how much higher it is at most
/// without the client's delays.
fn beside_total(report: &RunReport, tag: MetricTag, rates: Option<RateBounds>) -> String {
    let rates =
        rates.filter(|it| tag == tag::REQUEST_THROUGHPUT && it.above_percent >= NOTABLE_PERCENT);
    let client = rates.map(|it| format!("client delays ≤ {:.1}%", it.above_percent));
    let steady = report.steady_state.as_ref().ok().and_then(|steady| {
        let value = steady.results.iter().find(|result| result.metric.tag == tag)?.stats.avg;
        let half = steady.request_throughput_half_width;
        let half = half.filter(|_| tag == tag::REQUEST_THROUGHPUT);
        let half = half.map(|half| format!(" ± {}", two_digits(half))).unwrap_or_default();
        Some(format!("steady state {}{half}", four_digits(value)))
    });
    let long_run = report.results.iter().find(|result| result.metric.tag == tag).and_then(|it| {
        let value = report.long_run.value(it.metric, it.stats.avg);
        let is_other = it.stats.avg - value > NOTABLE_SHARE * value;
        is_other.then(|| format!("in the long run {}", four_digits(value)))
    });
    long_run.into_iter().chain(steady).chain(client).collect::<Vec<_>>().join("; ")
}

/// Renders what is unusual about the steady state; empty if nothing is.
pub(super) fn steady_note(report: &RunReport, style: Style) -> String {
    let note = match &report.steady_state {
        Err(Unsteady::UnknownLoad) => return String::new(),
        Err(reason) => format!("No steady state: {reason}"),
        Ok(steady) => {
            let residual = steady.littles_law_residual_percent;
            let Some(percent) = residual.filter(|it| it.abs() > NOTABLE_RESIDUAL) else {
                return String::new();
            };
            format!(
                "In the steady state the rate times the mean latency is {percent:+.0}% off the mean \
                 number of requests in flight, so the load was not constant."
            )
        }
    };
    panel::wrapped(&note, style.width.into()).join("\n") + "\n"
}

const fn of_distribution(avg: f64, distribution: &Distribution) -> [f64; 6] {
    let Distribution { p50, p90, p95, p99, max, .. } = *distribution;
    [avg, p50, p90, p95, p99, max]
}

/// Renders which of the percentiles that were asked for too few requests have; empty if none are.
pub(super) fn percentiles_note(report: &RunReport, style: Style) -> String {
    let notes = report.percentiles().into_iter().filter_map(|found| found.note);
    let lines = notes.flat_map(|note| panel::wrapped(&(note + "."), style.width.into()));
    lines.map(|line| line + "\n").collect()
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
