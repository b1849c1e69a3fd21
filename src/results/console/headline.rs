//! The first screen of a run: what was measured, and one table of the metrics that people name.

use std::fmt::Write as _;

use base::redact::{printable, printable_names};
use base::statistics::further;
use base::units::Nanos;
use measure::metrics::Registry;
use measure::metrics::health::{Bound, ErrorBounds, RateBounds};
use measure::metrics::metric::{
    Distribution, LatencyFrom, MetricResult, Objective, Percent, Statistic,
};
use measure::metrics::steady::Unsteady;
use measure::metrics::tag::{self, MetricTag};

use super::layout::{Cell, Column, Table};
use super::panel;
use super::run;
use super::screen::{Screen, rank};
use super::server_spans;
use super::style::Style;
use super::table::TELLING_WAIT_MS;
use super::vocabulary::Term;
use crate::run::RunReport;
use crate::tables::format::{count, four_digits, percentile, two_digits};
use crate::tables::too_few;

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

/// Maximum number of lines on how many requests succeeded.
const LONGEST_REASON: usize = 4;

/// Fewest requests whose rate in the steady state is shown.
const FEWEST_OF_RATE: u64 = 32;

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

/// Most servers that the header names.
const MAX_SERVERS: usize = 2;

/// Returns the lines on what was run, each with its rank on a screen: models and servers, load, tokenizer, and
/// what became of a dataset that was not sent as it is.
pub(super) fn lines(report: &RunReport) -> Vec<(u8, String)> {
    let RunReport { run, outcome, .. } = report;
    let streaming = if run.streaming { "streaming, " } else { "" };
    let load = format!("  {}, {streaming}{}", run.endpoint.name, outcome.load);
    let account = report.dataset().filter(|account| !account.is_whole());
    let mut lines = vec![
        (rank::KEPT, format!("  {}", printable_names(&run.servers(), MAX_SERVERS))),
        (rank::KEPT, load.trim_end_matches([',', ' ']).to_owned()),
    ];
    let submission = report.submission().map(|submission| format!("  {}", submission.line()));
    lines.extend(submission.map(|line| (rank::SUBMISSION, line)));
    lines.extend(tokenizer(report).map(|line| (rank::TOKENIZER, line)));
    lines.extend(account.map(|it| (rank::DATASET, format!("  dataset: {}", it.text()))));
    lines.extend(server_spans::line(report).map(|line| (rank::SPANS, line)));
    lines.retain(|(_, line)| !line.trim().is_empty());
    lines
}

/// Returns the title: the models, or else the kind of endpoint.
pub(super) fn title(report: &RunReport) -> String {
    let models = report.run.setup.models.join(", ");
    printable(if models.is_empty() { report.run.endpoint.name } else { &models })
}

/// Renders what was run, and how many requests succeeded.
pub(super) fn header(report: &RunReport, style: Style) -> String {
    let lines = lines(report);
    let lines =
        lines.iter().flat_map(|(_, line)| panel::wrapped(&printable(line), style.width.into()));
    let lines: Vec<String> = lines.collect();
    format!("{}\n{}\n{}", style.bold(&title(report)), lines.join("\n"), success(report, style))
}

/// Adds what was run, and how many requests succeeded, to a screen.
pub(super) fn add(report: &RunReport, screen: &mut Screen, style: Style) {
    screen.add(rank::KEPT, style.bold(&title(report)) + "\n");
    for (rank, line) in lines(report) {
        let line = panel::wrapped(&printable(&line), style.width.into());
        screen.add(rank, line.join("\n") + "\n");
    }
    screen.add(rank::KEPT, success(report, style));
}

/// Renders how many requests succeeded, and of those that failed the share and the most frequent reason.
pub(super) fn success(report: &RunReport, style: Style) -> String {
    let outcome = &report.outcome;
    let (ended, failed, cancelled) = (report.ended(), report.failed(), report.cancelled());
    let succeeded = ended.saturating_sub(failed + cancelled);
    let seconds = Nanos(outcome.end_wall_ns.saturating_sub(outcome.start_wall_ns)).as_seconds();
    let mut line = format!("{} of {} succeeded", count(succeeded), requests(ended));
    let _ = match seconds {
        0.0..1.0 => write!(line, " in {} ms", four_digits(1e3 * seconds)),
        _ => write!(line, " in {} s", four_digits(seconds)),
    };
    if cancelled > 0 {
        let _ = write!(line, "; {} cancelled", count(cancelled));
    }
    if failed == 0 {
        return panel::wrapped_line(&line, style);
    }
    let _ =
        write!(line, "; {} failed ({:.1}%)", count(failed), 100.0 * failed as f64 / ended as f64);
    if let Some(most) = report.failures().next() {
        let _ = write!(line, ": {}", most.error_details.in_words());
    }
    run::bounded_lines(&printable(&line), LONGEST_REASON, style)
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

/// Returns the number of rows of metrics with a distribution.
pub(super) fn row_count(report: &RunReport) -> usize {
    distributions(report, &bounds(report)).count()
}

fn bounds(report: &RunReport) -> ErrorBounds {
    let health = report.outcome.client_health.as_ref();
    health.and_then(|health| health.error_bounds_ms).unwrap_or_default()
}

/// Returns the metrics with a distribution that have rows, in order.
fn distributions<'a>(
    report: &'a RunReport,
    bounds: &'a ErrorBounds,
) -> impl Iterator<Item = (&'a MetricResult, Distribution)> {
    let found = DISTRIBUTIONS
        .iter()
        .filter_map(|tag| report.results.iter().find(|result| result.metric.tag == *tag));
    let shown = found.filter(|result| is_of_its_own(result, report, bounds));
    shown.filter_map(|result| Some((result, result.stats.distribution?)))
}

/// Renders the table: at most so many rows of metrics with a distribution as `most`, or all rows with the
/// rates besides that of the whole run.
pub(super) fn table(report: &RunReport, most: Option<usize>, style: Style) -> String {
    let bounds = bounds(report);
    let rows = || distributions(report, &bounds).take(most.unwrap_or(usize::MAX));
    let intervals = |result: &MetricResult| {
        let bounds = ["p50", "p99"].map(|statistic| bounds.get(result.metric.tag, statistic));
        bounds.map(|bound| bound.and_then(interval))
    };
    let mut columns = vec![Column::name("")];
    columns.extend(STATISTICS.map(|(name, order)| Column::number(name).spare(order)));
    let further: Vec<Percent> = further(&report.run.settings.percentiles).collect();
    let own = (7..).zip(&further);
    columns.extend(own.map(|(order, p)| Column::number(format!("p{p}")).spare(order)));
    let has_interval = [0, 1].map(|at| rows().any(|(result, _)| intervals(result)[at].is_some()));
    let of_intervals = BOUNDS.map(Column::number);
    let [p50, p99] = of_intervals;
    let of_intervals = [p50.extra(), p99.spare(3)].into_iter().zip(has_interval);
    columns.extend(of_intervals.filter_map(|(column, has)| has.then_some(column)));
    let mut table = Table::plain(columns);
    for (result, distribution) in rows() {
        let values = of_distribution(result.stats.avg, &distribution);
        let own = further.iter().map(|percent| {
            let value = distribution.percentile(*percent);
            value.map_or_else(String::new, |it| percentile(it, *percent, distribution.count))
        });
        let intervals = intervals(result).into_iter().zip(has_interval);
        let intervals = intervals.filter_map(|(it, has)| has.then(|| it.unwrap_or_default()));
        let cells = values.into_iter().chain(own).chain(intervals).map(Cell::from);
        let term = Term::for_metric(result.metric);
        let name = Cell::or(term.label(), term.short_label());
        table.row([name].into_iter().chain(cells));
    }
    for tag in TOTALS {
        let found = report.results.iter().find(|result| result.metric.tag == *tag);
        let Some(result) = found else { continue };
        let goodput = (*tag == tag::GOODPUT).then(|| beside_goodput(report)).flatten();
        let rates = if most.is_none() { other_rates(report, *tag) } else { Vec::new() };
        let beside: Vec<String> = goodput.into_iter().chain(rates).collect();
        let term = Term::for_metric(result.metric);
        let name = Cell::or(term.label(), term.short_label());
        table.row_with([name, four_digits(result.stats.avg).into()], beside.join("; "), false);
    }
    table.render(style)
}

/// Says what is missing in the table, and which of its percentiles have too few requests.
pub(super) fn table_note(report: &RunReport, style: Style) -> String {
    let run = &report.run;
    let bounds = bounds(report);
    let counts = distributions(report, &bounds).map(|(_, distribution)| distribution.count);
    let least = counts.min().unwrap_or(u64::MAX);
    let shown = STATISTICS.iter().filter_map(|(name, _)| name.strip_prefix('p')?.parse().ok());
    let few = too_few(shown.filter(|percent: &Percent| least < percent.values_needed()), "");
    let is_whole =
        run.endpoint.supports_streaming && run.endpoint.produces_tokens && !run.streaming;
    let need = "Time to first token and inter-token latency need --streaming.";
    let lines = few.into_iter().chain(is_whole.then(|| need.to_owned()));
    lines.map(|line| panel::wrapped_line(&line, style)).collect()
}

/// Returns the share of good requests, and how often each objective was missed.
fn beside_goodput(report: &RunReport) -> Option<String> {
    let good = report.average(tag::GOOD_REQUEST_FRACTION)?;
    let mut text = format!("{}% of requests good", four_digits(100.0 * good));
    let missed: Vec<String> = report
        .missed_objectives
        .iter()
        .map(|(objective, missed)| {
            let Objective { tag, threshold } = objective;
            let unit = Registry::row(*tag).map_or("", |metric| metric.display_unit.label());
            let limit = format!("{tag}{}{threshold}{unit}", objective.operator().symbol());
            format!("{limit} missed by {}", count(*missed))
        })
        .collect();
    if !missed.is_empty() {
        text = format!("{text}; {}", missed.join(", "));
    }
    Some(text)
}

/// Returns whether a latency from the due time differs from that from sending by more than the client may
/// have shifted it, in the median or in p99; true for other metrics.
fn is_of_its_own(due: &MetricResult, report: &RunReport, bounds: &ErrorBounds) -> bool {
    let Some(tag) = LatencyFrom::sent(due.metric.tag) else { return true };
    let Some(sent) = report.results.iter().find(|result| result.metric.tag == tag) else {
        return true;
    };
    ["p50", "p99"].iter().any(|name| {
        let value = |of: &MetricResult| Statistic::named(name)?.value_in(&of.stats);
        let shift = bounds.get(tag, name).map_or(0.0, |bound| bound.error());
        let waited = value(due).zip(value(sent)).map(|(due, sent)| due - sent);
        waited.is_some_and(|waited| waited > shift.max(TELLING_WAIT_MS))
    })
}

/// Formats the 95% interval of a statistic: that for other requests of the same kind, wider by how far
/// the client may have shifted the statistic; `None` without enough requests for it, and if it is wider than
/// the statistic.
fn interval(bound: Bound) -> Option<String> {
    let [Some(low), Some(high)] = bound.sample_interval() else { return None };
    let (low, high) = ((low - bound.below).max(0.0), high + bound.above);
    (high - low <= bound.value).then(|| format!("{}–{}", four_digits(low), four_digits(high)))
}

/// Returns a total in the long run and in the steady state, and how much higher it is at most without the
/// client's delays.
fn other_rates(report: &RunReport, tag: MetricTag) -> Vec<String> {
    // The rate of a single request is its latency.
    if report.ended() < 2 {
        return Vec::new();
    }
    let health = report.outcome.client_health.as_ref();
    let rates = health.and_then(|health| health.throughput_bounds);
    let is_notable = |it: &RateBounds| it.above_percent >= NOTABLE_PERCENT && has_rates(report);
    let rates = rates.filter(|it| tag == tag::REQUEST_THROUGHPUT && is_notable(it));
    let client = rates.map(|it| format!("client delays ≤ {:.1}%", it.above_percent));
    let steady =
        report.steady_state.as_ref().ok().filter(|_| has_rates(report)).and_then(|steady| {
            let value = steady.results.iter().find(|result| result.metric.tag == tag)?.stats.avg;
            let half = steady.request_throughput_half_width;
            let half = half.filter(|_| tag == tag::REQUEST_THROUGHPUT);
            if half.is_some_and(|half| 2.0 * half > value) {
                return None;
            }
            let half = half.map(|half| format!(" ± {}", two_digits(half))).unwrap_or_default();
            Some(format!("steady state {}{half}", four_digits(value)))
        });
    let long_run = report.results.iter().find(|result| result.metric.tag == tag).and_then(|it| {
        let value = report.long_run.value(it.metric, it.stats.avg);
        let is_other = it.stats.avg - value > NOTABLE_SHARE * value;
        is_other.then(|| format!("in the long run {}", four_digits(value)))
    });
    [long_run, steady, client].into_iter().flatten().collect()
}

/// Returns whether the run has enough requests to report its rates over time, and results.
fn has_rates(report: &RunReport) -> bool {
    report.ended() >= FEWEST_OF_RATE && !report.has_mostly_failed()
}

/// Renders what is unusual about the steady state; empty if nothing is, or if there are too few requests.
pub(super) fn steady_note(report: &RunReport, style: Style) -> String {
    if !has_rates(report) {
        return String::new();
    }
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

fn of_distribution(avg: f64, distribution: &Distribution) -> [String; 6] {
    let Distribution { p50, p90, p95, p99, max, count, .. } = *distribution;
    let percentile_cell = |value, percent| percentile(value, Percent::whole(percent), count);
    [
        four_digits(avg),
        percentile_cell(p50, 50),
        percentile_cell(p90, 90),
        percentile_cell(p95, 95),
        percentile_cell(p99, 99),
        four_digits(max),
    ]
}

/// Renders which of the percentiles that were asked for too few requests have; empty if none are.
pub(super) fn percentiles_note(report: &RunReport, style: Style) -> String {
    let notes = report.percentiles().into_iter().filter_map(|found| found.note);
    let lines = notes.flat_map(|note| panel::wrapped(&(note + "."), style.width.into()));
    lines.map(|line| line + "\n").collect()
}

fn requests(count: u64) -> String {
    let noun = if count == 1 { "request" } else { "requests" };
    format!("{} {noun}", crate::tables::format::count(count))
}
