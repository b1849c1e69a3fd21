//! Draws the live view: plain text in the terminal's own colours.

use std::iter;

use ratatui_core::buffer::Buffer;
use ratatui_core::text::Span;

use base::redact::printable;
use base::statistics::Percent;
use client::schedule::{LaneLoad, PhaseStats};
use measure::judge::Judged;
use measure::metrics::health::{LoadHealth, LoadVerdict};
use measure::metrics::live::{LiveError, LiveRate, LiveTime, Percentiles, RECENT};
use measure::metrics::metric::Metric;
use measure::metrics::{ClientHealth, Verdict};
use measure::server_metrics::watch::LiveGauge;

use super::duration;
use super::sheet::{Chart, Sheet, bold, dim, plain, shortened};
use crate::console::panel::wrapped;
use crate::console::vocabulary::Term;
use crate::status::snapshot::{Snapshot, Stage};
use crate::tables::format::{count, four_digits, percentile};

/// The smallest terminal that the view is made for: columns and rows.
pub const SMALLEST: (u16, u16) = (80, 24);

/// Width of a column of numbers.
const NUMBER: usize = 8;
/// Maximum number of rows of a chart.
const MOST_ROWS: usize = 8;
/// Maximum width of the name of a phase.
const MAX_NAME: usize = 24;

/// What the user chose to see.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Choice {
    pub page: Page,
    /// Whether the numbers stand still.
    pub(crate) is_paused: bool,
    /// Whether the keys are explained.
    pub(crate) shows_help: bool,
    /// Whether colours are used.
    pub(crate) has_colour: bool,
}

/// A page of the view.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Page {
    #[default]
    Overview,
    Errors,
    Server,
}

impl Page {
    /// All pages, in the order of their numbers.
    pub const ALL: [Self; 3] = [Self::Overview, Self::Errors, Self::Server];

    /// Returns its title.
    const fn title(self) -> &'static str {
        match self {
            Self::Overview => "Overview",
            Self::Errors => "Errors and log",
            Self::Server => "Server and client",
        }
    }

    /// Returns the page after this one.
    pub fn next(self) -> Self {
        let mut pages = Self::ALL.into_iter().cycle().skip_while(|page| *page != self);
        pages.nth(1).unwrap_or_default()
    }
}

/// Draws `snapshot` on a terminal of `width` columns and `height` rows.
#[must_use]
pub fn draw(snapshot: &Snapshot, choice: Choice, (width, height): (u16, u16)) -> Buffer {
    let mut sheet = Sheet::new((width, height), choice.has_colour);
    head(&mut sheet, snapshot, choice);
    if choice.shows_help {
        help(&mut sheet);
    } else {
        match choice.page {
            Page::Overview => overview(&mut sheet, snapshot),
            Page::Errors => errors_and_log(&mut sheet, snapshot),
            Page::Server => server_and_client(&mut sheet, snapshot),
        }
    }
    sheet.foot(&foot(choice));
    sheet.buffer
}

impl Sheet {
    /// Draws the row of a `metric`: its name, `columns` of numbers, and a chart, which may have more
    /// rows. Then its scale is below the name.
    fn chart(&mut self, metric: &Metric, columns: Vec<Span<'_>>, chart: &Chart) {
        let width = label_width(self);
        let name = shortened(&label(self, metric), width);
        let scale = chart.most.map(|most| format!("max {}", four_digits(most)));
        let scale = scale.unwrap_or_default();
        let used: usize = columns.iter().map(Span::width).sum();
        let first = [vec![plain(format!(" {name:width$}"))], columns].concat();
        let second = vec![dim(format!(" {scale:width$}{:used$}", ""))];
        let rest = iter::repeat(vec![plain(format!(" {:width$}{:used$}", "", ""))]);
        for (bars, left) in chart.rows.iter().zip([first, second].into_iter().chain(rest)) {
            let bars = self.bar(bars.clone());
            self.line(left.into_iter().chain([bars]));
        }
    }
}

/// The title, the position among several runs, and the progress.
fn head(sheet: &mut Sheet, snapshot: &Snapshot, choice: Choice) {
    let page = format!("{} ", choice.page.title());
    let name = " aiperf  ";
    let room = sheet.width().saturating_sub(name.len() + page.len() + 1);
    let title = shortened(&printable(&snapshot.title), room);
    let gap = room.saturating_sub(title.chars().count()) + 1;
    sheet.line([bold(name), plain(title), plain(" ".repeat(gap)), dim(page)]);
    if let Some(member) = &snapshot.member {
        sheet.line([plain(format!(" {}", printable(member)))]);
    }
    let progress = match &snapshot.phase {
        None => vec![plain(" starting")],
        Some(stats) => progress(sheet, &snapshot.phase_name, stats),
    };
    sheet.line(progress);
    let stage = match snapshot.stage {
        Stage::Draining => Some("draining; Q quits at once"),
        Stage::Finishing => Some("load ended, finishing"),
        _ => None,
    };
    let behind = snapshot.is_behind.then_some("client behind: records are waiting");
    let paused = choice.is_paused.then_some("view paused");
    let notes: Vec<&str> = [stage, behind, paused].into_iter().flatten().collect();
    let gap = if snapshot.load.is_empty() || notes.is_empty() { "" } else { "   " };
    let notes = sheet.warning(format!("{gap}{}", notes.join(", ")));
    sheet.line([plain(format!(" {}", printable(&snapshot.load))), notes]);
}

fn progress<'a>(sheet: &Sheet, name: &str, stats: &PhaseStats) -> Vec<Span<'a>> {
    let percent = stats.progress_percent();
    let width = (sheet.width() / 4).min(40);
    let done = (percent / 100.0 * width as f64) as usize;
    let elapsed = duration(stats.elapsed_seconds().floor());
    let left = stats.seconds_left().filter(|_| stats.requests_end.is_none());
    let left = left.map(|left| format!(", {} left", duration(left)));
    vec![
        bold(format!(" {:9} ", shortened(name, MAX_NAME))),
        sheet.bar("█".repeat(done)),
        dim("░".repeat(width.saturating_sub(done))),
        plain(format!("{percent:4.0}%  {elapsed}{}", left.unwrap_or_default())),
    ]
}

fn overview(sheet: &mut Sheet, snapshot: &Snapshot) {
    let rows = chart_rows(sheet, snapshot);
    load(sheet, snapshot, rows);
    sheet.skip();
    times(sheet, snapshot, rows);
    sheet.skip();
    if let Some(lanes) = snapshot.phase.and_then(|stats| stats.lanes) {
        sheet.line(lanes_in_line(&lanes));
    }
    if !snapshot.gauges.is_empty() {
        sheet.line(gauges_in_line(&snapshot.gauges));
    }
    let limits = limits_in_line(sheet, snapshot);
    if limits.len() > 1 {
        sheet.line(limits);
    }
    let client = client_in_line(sheet, snapshot);
    sheet.line(client);
    let errors = &snapshot.statistics.errors;
    for error in errors.iter().take(3) {
        let line = error_in_line(sheet, error);
        sheet.line(line);
    }
    if errors.len() > 3 {
        sheet.line([dim(format!(" and {} more on page 2", errors.len() - 3))]);
    }
    if !snapshot.log.is_empty() && sheet.left() > 2 {
        sheet.skip();
        log(sheet, &snapshot.log);
    }
}

/// Width of the first column.
fn label_width(sheet: &Sheet) -> usize {
    if sheet.width() < 100 { 18 } else { 28 }
}

fn label(sheet: &Sheet, metric: &Metric) -> String {
    let term = Term::for_metric(metric);
    if sheet.width() < 100 { term.short_label() } else { term.label() }
}

/// Seconds in the charts, which are right of `columns` columns of numbers.
fn chart_width(sheet: &Sheet, columns: usize) -> usize {
    let used = 1 + label_width(sheet) + columns * NUMBER + 2;
    sheet.width().saturating_sub(used + 1)
}

/// Rows of each chart. The charts share the rows that the smallest terminal does not have, half of
/// them if there is a log. Charts of several rows have one between them.
fn chart_rows(sheet: &Sheet, snapshot: &Snapshot) -> usize {
    let charts = snapshot.statistics.rates.len() + snapshot.statistics.times.len();
    let more = usize::from(sheet.buffer.area.height.saturating_sub(SMALLEST.1));
    let more = if snapshot.log.is_empty() { more } else { more / 2 };
    more.checked_div(charts).unwrap_or(0).clamp(1, MOST_ROWS)
}

/// Columns of numbers in the wider table.
const COLUMNS: usize = 6;

fn load(sheet: &mut Sheet, snapshot: &Snapshot, rows: usize) {
    let width = label_width(sheet);
    let seconds = chart_width(sheet, 2);
    sheet.line([
        bold(format!(" {:width$}", "Load")),
        dim(format!("{:>NUMBER$}{:>NUMBER$}  ", format!("{RECENT} s"), "whole")),
        dim("each second"),
    ]);
    let statistics = &snapshot.statistics;
    for (at, LiveRate { metric, recent, whole, by_second }) in statistics.rates.iter().enumerate() {
        let by_second: Vec<_> = by_second.iter().copied().map(Some).collect();
        if at > 0 && rows > 1 {
            sheet.skip();
        }
        let columns = vec![
            bold(format!("{:>NUMBER$}", value(*recent))),
            plain(format!("{:>NUMBER$}  ", value(*whole))),
        ];
        sheet.chart(metric, columns, &Chart::draw(&by_second, seconds, rows));
    }
    let offered = snapshot.load_health.filter(LoadHealth::has_rates);
    if let Some(LoadHealth { offered_rate, .. }) = offered {
        sheet.line([
            plain(format!(" {:width$}{:NUMBER$}", "Offered/s", "")),
            plain(format!("{:>NUMBER$}", four_digits(offered_rate))),
        ]);
    }
    let done = statistics.succeeded + statistics.failed + statistics.cancelled;
    sheet.line([
        plain(format!(" {:width$}{:NUMBER$}", "Succeeded", "")),
        plain(format!("{:>NUMBER$}", count(statistics.succeeded))),
    ]);
    let failed = format!("{:>NUMBER$}", count(statistics.failed_recently));
    let mut line = vec![
        plain(format!(" {:width$}", "Failed")),
        if statistics.failed_recently > 0 { sheet.bad(failed) } else { plain(failed) },
        plain(format!("{:>NUMBER$}", count(statistics.failed))),
    ];
    if statistics.failed > 0 {
        let share = 100.0 * statistics.failed as f64 / done as f64;
        line.push(plain(format!("  {share:.2}% of the requests")));
    }
    if statistics.cancelled > 0 {
        line.push(plain(format!("  {} cancelled", count(statistics.cancelled))));
    }
    sheet.line(line);
    let in_flight = snapshot.phase.map_or(0, |stats| stats.requests_in_flight());
    let mut line = vec![
        plain(format!(" {:width$}", "In flight")),
        bold(format!("{:>NUMBER$}", count(in_flight))),
    ];
    if let Some(silence) = snapshot.silence {
        let text = format!("no response for {:.1} s", silence.seconds);
        line.push(plain(format!("{:NUMBER$}  ", "")));
        line.push(if silence.is_unusual { sheet.warning(text) } else { plain(text) });
    }
    let growing = snapshot.load_health.filter(|load| load.verdict == LoadVerdict::Saturated);
    if let Some(slope) = growing.and_then(|load| load.queue_slope) {
        line.push(sheet.bad(format!("  the queue grows by {:.1}/s", slope.value)));
    }
    sheet.line(line);
}

fn times(sheet: &mut Sheet, snapshot: &Snapshot, rows: usize) {
    let width = label_width(sheet);
    let seconds = chart_width(sheet, COLUMNS);
    let group = NUMBER * COLUMNS / 2;
    sheet.line([
        bold(format!(" {:width$}", "Latency")),
        dim(format!("{:>group$}{:>group$}", format!("last {RECENT} s"), "whole phase")),
    ]);
    let titles: Vec<_> = ["p50", "p90", "p99"].map(|title| format!("{title:>NUMBER$}")).into();
    let titles = titles.concat();
    sheet.line([dim(format!(" {:width$}{titles}{titles}  p99 each s", ""))]);
    for (at, LiveTime { metric, recent, whole, by_second }) in
        snapshot.statistics.times.iter().enumerate()
    {
        if at > 0 && rows > 1 {
            sheet.skip();
        }
        let columns = vec![bold(percentiles(*recent)), plain(percentiles(*whole) + "  ")];
        sheet.chart(metric, columns, &Chart::draw(by_second, seconds, rows));
    }
}

fn percentiles(values: Option<Percentiles>) -> String {
    let Some(Percentiles { count, p50, p90, p99 }) = values else {
        return format!("{0:>NUMBER$}{0:>NUMBER$}{0:>NUMBER$}", "-");
    };
    let percentile_cell = |(percent, value)| percentile(value, Percent::whole(percent), count);
    [(50, p50), (90, p90), (99, p99)].map(|it| format!("{:>NUMBER$}", percentile_cell(it))).concat()
}

fn value(value: Option<f64>) -> String {
    value.map_or_else(|| "-".to_owned(), four_digits)
}

/// ` Lanes   4   agents 9   depth 2   context 123,456   theoretical hits 62.5%`
fn lanes_in_line<'a>(load: &LaneLoad) -> Vec<Span<'a>> {
    let hits = load.theoretical_hit_percent;
    let others = [
        ("agents", Some(count(load.conversations))),
        ("depth", load.depth.map(count)),
        ("context", Some(load.context_tokens).filter(|tokens| *tokens > 0).map(count)),
        ("theoretical hits", hits.map(|percent| format!("{}%", four_digits(percent)))),
    ];
    let mut line = vec![bold(" Lanes   "), bold(format!("{}   ", count(load.lanes)))];
    for (name, value) in others {
        if let Some(value) = value {
            line.push(plain(format!("{name} ")));
            line.push(bold(format!("{value}   ")));
        }
    }
    line
}

fn gauges_in_line<'a>(gauges: &[LiveGauge]) -> Vec<Span<'a>> {
    let mut line = vec![bold(" Server  ")];
    for gauge in gauges {
        line.push(plain(format!("{} ", short_meaning(gauge))));
        line.push(bold(format!("{}   ", value_of(gauge))));
    }
    line
}

/// The value of a gauge, with `%` for a share.
fn value_of(gauge: &LiveGauge) -> String {
    let unit = gauge.watched.shown_unit().unwrap_or_default();
    four_digits(gauge.watched.shown(gauge.value)) + unit
}

/// The meaning of a gauge, without the advice that follows a semicolon.
fn short_meaning(gauge: &LiveGauge) -> &'static str {
    gauge.watched.meaning.split(';').next().unwrap_or_default()
}

/// The gates and objectives with what they limit so far, those that are not met first.
fn limits_in_line<'a>(sheet: &Sheet, snapshot: &Snapshot) -> Vec<Span<'a>> {
    let mut line = vec![bold(" Limits  ")];
    if let Some(percent) = snapshot.good_percent {
        line.push(plain("good requests "));
        line.push(bold(format!("{}%   ", four_digits(percent))));
    }
    let (held, missed): (Vec<&Judged>, Vec<&Judged>) =
        snapshot.gates.iter().partition(|gate| gate.held);
    for gate in missed {
        line.push(sheet.bad(with_value(gate)));
    }
    for gate in held {
        line.push(plain(with_value(gate)));
    }
    line
}

fn with_value(gate: &Judged) -> String {
    printable(&format!("{} ({})   ", gate.gate, gate.shown_value()))
}

fn client_in_line<'a>(sheet: &Sheet, snapshot: &Snapshot) -> Vec<Span<'a>> {
    let mut line = vec![bold(" Client  ")];
    match snapshot.health.as_ref().and_then(|health| Some((health.verdict?, health))) {
        Some((verdict, health)) => {
            line.push(verdict_of(sheet, verdict));
            line.push(plain(" so far"));
            if let Some(reason) = health.reasons.first() {
                line.push(plain(format!(": {}", reason.finding)));
            }
        }
        None => line.push(plain("not known yet")),
    }
    // A load that is too short to judge becomes long enough.
    if let Some(load) = snapshot.load_health.filter(|it| it.verdict != LoadVerdict::TooShort) {
        line.push(bold("  Load  "));
        line.push(match load.verdict {
            LoadVerdict::Saturated | LoadVerdict::Rejecting | LoadVerdict::Failing => {
                sheet.bad(load.to_string())
            }
            LoadVerdict::NotStationary => sheet.warning(load.to_string()),
            LoadVerdict::Sustained | LoadVerdict::TooShort => sheet.good(load.verdict.words()),
        });
    }
    line
}

fn verdict_of<'a>(sheet: &Sheet, verdict: Verdict) -> Span<'a> {
    match verdict {
        Verdict::Valid => sheet.good(verdict.as_str()),
        Verdict::Suspect => sheet.warning(verdict.as_str()),
        Verdict::Invalid => sheet.bad(verdict.as_str()),
    }
}

/// `12 × 503 Service Unavailable: the queue is full`
fn error_in_line<'a>(sheet: &Sheet, error: &LiveError) -> Vec<Span<'a>> {
    let name = error_name(error);
    vec![
        sheet.bad(format!(" {} × {name}", count(error.count))),
        plain(format!(": {}", printable(&error.message))),
    ]
}

fn error_name(error: &LiveError) -> String {
    let code = error.code.map(|code| format!("{code} ")).unwrap_or_default();
    printable(&format!("{code}{}", error.name))
}

/// The latest lines, as many as fit.
fn log(sheet: &mut Sheet, lines: &[String]) {
    sheet.line([bold(" Log")]);
    let most = sheet.width().saturating_sub(2);
    let rows: Vec<String> = lines.iter().flat_map(|line| wrapped(&printable(line), most)).collect();
    for row in &rows[rows.len().saturating_sub(sheet.left())..] {
        sheet.line([plain(format!(" {row}"))]);
    }
}

fn errors_and_log(sheet: &mut Sheet, snapshot: &Snapshot) {
    let statistics = &snapshot.statistics;
    let all = statistics.succeeded + statistics.failed + statistics.cancelled;
    sheet.line([
        bold(" Errors"),
        plain(format!("  {} of {} requests failed", count(statistics.failed), count(all))),
    ]);
    let most = sheet.width().saturating_sub(4);
    let limit = sheet.left() / 2;
    let mut used = 0;
    for error in &statistics.errors {
        let message = wrapped(&printable(&error.message), most);
        if used + 1 + message.len() > limit {
            break;
        }
        used += 1 + message.len();
        sheet.line([sheet.bad(format!(" {} × {}", count(error.count), error_name(error)))]);
        for row in message {
            sheet.line([plain(format!("   {row}"))]);
        }
    }
    sheet.skip();
    log(sheet, &snapshot.log);
}

fn server_and_client(sheet: &mut Sheet, snapshot: &Snapshot) {
    sheet.line([bold(" Server metrics")]);
    if snapshot.gauges.is_empty() {
        sheet.line([plain(" none: no known gauge was scraped")]);
    }
    for gauge in &snapshot.gauges {
        let series = match gauge.series {
            1 => String::new(),
            several => format!(" (highest of {several} series)"),
        };
        sheet.line([
            bold(format!(" {:>10}  ", value_of(gauge))),
            plain(format!("{}{series}  ", gauge.watched.meaning)),
            dim(gauge.watched.name),
        ]);
    }
    sheet.skip();
    let client = client_in_line(sheet, snapshot);
    sheet.line(client);
    for (title, value) in snapshot.health.iter().flat_map(details) {
        sheet.line([plain(format!(" {title:40}{value:>12}"))]);
    }
    let reasons = snapshot.health.iter().flat_map(|health| &health.reasons);
    let most = sheet.width().saturating_sub(3);
    for reason in reasons {
        for row in wrapped(&format!("{}; {}", reason.finding, reason.advice), most) {
            sheet.line([plain(format!("   {row}"))]);
        }
    }
}

fn details(health: &ClientHealth) -> Vec<(&'static str, String)> {
    let times = [
        ("Schedule slip p99 (ms)", health.schedule_slip_ms),
        ("Read lag p99 (ms)", health.read_lag_ms),
        ("Arrival error p99 (ms)", health.arrival_error_ms),
    ];
    let mut rows: Vec<_> = times
        .into_iter()
        .filter_map(|(title, times)| Some((title, four_digits(times?.p99))))
        .collect();
    let bounds = health.error_bounds_ms.unwrap_or_default();
    let bounds = [
        ("Error bound of TTFT p99 (ms)", bounds.time_to_first_token),
        ("Error bound of ITL p99 (ms)", bounds.inter_token_latency),
        ("Error bound of request latency p99 (ms)", bounds.request_latency),
    ];
    rows.extend(
        bounds
            .into_iter()
            .filter_map(|(title, bounds)| Some((title, four_digits(bounds?.p99.error())))),
    );
    if let Some(queue) = &health.queue {
        rows.push(("Sends delayed by the record queue", count(queue.pauses)));
        rows.push(("Records spilled to a file", count(queue.spilled_records)));
    }
    rows.extend(health.retries.map(|retries| ("Retries on dead connections", count(retries))));
    rows
}

/// The keys and what they do.
pub(crate) const KEYS: &[(&str, &str)] = &[
    ("q", "end the run: requests in flight may finish (like the first Ctrl-C)"),
    ("Q", "end the run at once (like the second Ctrl-C)"),
    ("p", "pause the view, or continue it; the run goes on"),
    ("tab", "next page"),
    ("1 2 3", "overview; errors and log; server and client"),
    ("?", "this help, or back"),
];

fn help(sheet: &mut Sheet) {
    sheet.line([bold(" Keys")]);
    for &(key, meaning) in KEYS {
        sheet.line([bold(format!("   {key:7}")), plain(meaning)]);
    }
    sheet.skip();
    let notes = [
        "Recent numbers cover the last 10 seconds, or the phase if it is shorter.",
        "A request counts in the second in which it ended, with all of its tokens.",
        "Percentiles are at most 0.8% too high; the tables at the end are exact.",
        "The server's gauges are those of its last scrape.",
    ];
    for note in notes {
        sheet.line([plain(format!(" {note}"))]);
    }
}

fn foot(choice: Choice) -> String {
    let pause = if choice.is_paused { "continue" } else { "pause" };
    format!(" q quit   Q quit at once   p {pause}   tab, 1-3 pages   ? help")
}
