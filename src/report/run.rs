//! The page and the charts of a run.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use parquet::errors::ParquetError;
use serde_json::{Value, json};

use super::chart::{Axis, Chart, Mark, Point, Series, Shape, Tone};
use super::distribution::{Bins, cumulative, sorted};
use super::document::{
    Document, Figure, Level, Notice, Section, ShownRequest, ShownRequests, Table,
};
use super::requests::{self, PHASES, Request, Requests};
use super::sample::{MAX_ROWS, Sample};
use super::server;
use super::timeline::Intervals;
use crate::judge::Judged;
use crate::metrics::metric::{Metric, MetricResult, Statistic};
use crate::metrics::tag::{self, MetricTag};
use crate::metrics::{Registry, Verdict};
use crate::run::RunReport;

/// Returns a value of a request.
pub(super) type ValueOf = fn(&Request) -> Option<f64>;

/// The latencies with a distribution, and their values.
pub(super) const LATENCIES: [(MetricTag, ValueOf); 3] = [
    (tag::TIME_TO_FIRST_TOKEN, |request| request.ttft),
    (tag::INTER_TOKEN_LATENCY, |request| request.itl),
    (tag::REQUEST_LATENCY, |request| request.latency),
];

/// The metrics of the first screen; the first four that the run has.
const FIGURES: [MetricTag; 7] = [
    tag::REQUEST_THROUGHPUT,
    tag::OUTPUT_TOKEN_THROUGHPUT,
    tag::TIME_TO_FIRST_TOKEN,
    tag::INTER_TOKEN_LATENCY,
    tag::REQUEST_LATENCY,
    tag::REQUEST_COUNT,
    tag::ERROR_REQUEST_COUNT,
];

/// A run whose requests have been read.
pub(super) struct Run<'a> {
    report: &'a RunReport,
    table: &'a Path,
    requests: Requests,
    sample: Sample,
    intervals: Intervals,
}

impl<'a> Run<'a> {
    /// Reads the requests of `report` from the `table`; a run without records has none.
    pub(super) fn read(report: &'a RunReport, table: &'a Path) -> Result<Self, ParquetError> {
        let requests = if table.exists() {
            Requests::read(table, report.outcome.start_wall_ns)?
        } else {
            Requests::default()
        };
        let sample = Sample::of(&requests.all);
        let end = requests.all.iter().map(Request::end).fold(0.0, f64::max);
        Ok(Self { report, table, requests, sample, intervals: Intervals::until(end) })
    }

    /// Returns the page.
    pub(super) fn document(&self) -> Result<Document, ParquetError> {
        let shown = self.shown()?;
        let mut sections = vec![
            Section::new("Latency", "", self.latencies()),
            Section::new(
                "Over time",
                format!(
                    "All charts share the time axis. Values are those of intervals of {}, each \
                     drawn from its start.",
                    self.intervals.described()
                ),
                self.timelines(),
            ),
            Section::new("Server", "Gauges that the server exposes.", self.server()),
            Section::new("Requests", self.about_sample(shown.has_all_arrivals), self.scatters()),
        ];
        if let Some(requests) = sections.last_mut() {
            requests.tables = self.request_tables();
        }
        sections.push(Section {
            tables: vec![self.statistics()],
            ..Section::new("Statistics", "", vec![])
        });
        sections.retain(|section| !section.is_empty());
        Ok(Document {
            title: self.title(),
            facts: self.facts(),
            notices: self.notices(),
            figures: self.figures(),
            sections,
            requests: shown.requests,
        })
    }

    fn title(&self) -> String {
        let models = strings(&self.report.run.input_config, "/models/items");
        let names: Vec<&str> = models.iter().map(String::as_str).collect();
        match names.as_slice() {
            [] => "aiperf".to_owned(),
            names => format!("{} | aiperf", names.join(", ")),
        }
    }

    fn facts(&self) -> Vec<(&'static str, String)> {
        let RunReport { run, outcome, .. } = self.report;
        let provenance = &run.provenance;
        let mut facts = vec![
            ("Load", load(&outcome.load)),
            (
                "Endpoint",
                format!("{}{}", run.endpoint.name, if run.streaming { ", streaming" } else { "" }),
            ),
        ];
        let answered: Vec<String> = provenance
            .servers
            .iter()
            .map(|server| {
                let about = [Some(&server.url), server.name.as_ref(), server.version.as_ref()];
                about.into_iter().flatten().cloned().collect::<Vec<_>>().join(" ")
            })
            .collect();
        let configured = strings(&run.input_config, "/endpoint/urls");
        facts.push(("Server", if answered.is_empty() { configured } else { answered }.join(", ")));
        if let Some(tokenizer) = &provenance.tokenizer {
            facts.push(("Tokenizer", tokenizer.name.clone()));
        }
        let host = &provenance.host;
        let cpu = host.cpu.as_deref().unwrap_or(&host.arch);
        facts.push(("Client", format!("{}, {cpu}, {} cores, {}", host.name, host.cores, host.os)));
        let program = &provenance.program;
        let commit = program.commit.as_ref().map(|commit| format!(" ({commit})"));
        facts.push((
            "Program",
            format!("{} {}{}", program.name, program.version, commit.unwrap_or_default()),
        ));
        facts.push(("Start", crate::artifacts::local_time(outcome.start_wall_ns)));
        let seconds = outcome.end_wall_ns.saturating_sub(outcome.start_wall_ns) as f64 / 1e9;
        facts.push(("Duration", format!("{} s", rounded(seconds))));
        facts.push(("Command", run.cli_command.clone()));
        facts.push(("Benchmark ID", run.benchmark_id.to_string()));
        facts.retain(|(_, value)| !value.is_empty());
        facts
    }

    fn notices(&self) -> Vec<Notice> {
        let outcome = &self.report.outcome;
        let mut notices = Vec::new();
        let mut add = |level, text| notices.push(Notice { level, text });
        if let Some(reason) = &outcome.incomplete_reason {
            add(Level::Bad, format!("The run is not complete: {reason}."));
        }
        if let Some(health) = &outcome.client_health {
            match health.verdict {
                Some(Verdict::Valid) => {
                    add(
                        Level::Good,
                        "Client health is valid: the client kept up with the load.".to_owned(),
                    );
                }
                Some(verdict) => {
                    let level =
                        if verdict == Verdict::Invalid { Level::Bad } else { Level::Doubtful };
                    add(level, format!("Client health is {}.", verdict.as_str()));
                    for reason in &health.reasons {
                        add(level, format!("{}; {}.", capitalized(&reason.finding), reason.advice));
                    }
                }
                None => {}
            }
        }
        let failed = self.requests.all.iter().filter(|request| !request.succeeded()).count();
        if failed > 0 {
            let all = self.requests.all.len();
            add(
                Level::Bad,
                format!("{failed} of {all} requests failed; latencies are those of the others."),
            );
        }
        if self.requests.all.is_empty() {
            add(
                Level::Doubtful,
                "There are no records of requests, so there are no charts.".to_owned(),
            );
        }
        for judged in self.report.gates() {
            let (level, text) = gate(&judged);
            add(level, text);
        }
        notices
    }

    fn result(&self, tag: MetricTag) -> Option<&MetricResult> {
        self.report.results.iter().find(|result| result.metric.tag == tag)
    }

    fn figures(&self) -> Vec<Figure> {
        let known = FIGURES.iter().filter_map(|tag| self.result(*tag));
        known.filter_map(figure).take(4).collect()
    }

    /// Returns the distributions of latencies.
    pub(super) fn latencies(&self) -> Vec<Chart> {
        let mut charts = Vec::new();
        for (tag, value) in LATENCIES {
            let Some(metric) = Registry::row(tag) else { continue };
            let values = sorted(self.requests.all.iter().filter_map(value));
            let failed = if tag == tag::REQUEST_LATENCY {
                let failed = self.requests.all.iter().filter(|request| !request.succeeded());
                sorted(failed.map(|request| request.duration))
            } else {
                Vec::new()
            };
            charts.push(self.cumulative(metric, &values, &failed));
            charts.push(self.histogram(metric, &values, &failed));
        }
        charts
    }

    /// Returns the percentiles of a metric that are marked.
    fn marks(&self, metric: &Metric) -> Vec<Mark> {
        let distribution = self.result(metric.tag).and_then(|result| result.stats.distribution);
        let Some(found) = distribution else { return Vec::new() };
        let marks =
            [("p50", found.p50), ("p90", found.p90), ("p95", found.p95), ("p99", found.p99)];
        let marks = marks.into_iter().filter(|(_, at)| at.is_finite());
        marks.map(|(label, at)| Mark { at, label: label.to_owned() }).collect()
    }

    fn cumulative(&self, metric: &Metric, values: &[f64], failed: &[f64]) -> Chart {
        let mut series = vec![Series::new("successful", Shape::Line, cumulative(values))];
        if !failed.is_empty() {
            let points = cumulative(failed);
            series.push(Series::new("failed", Shape::Line, points).toned(Tone::Bad));
        }
        Chart {
            name: format!("{}_cdf", metric.tag),
            title: format!("{}: share of requests below a value", metric.header),
            note: format!("{} requests", values.len()) + &of_failed(failed),
            x: axis(metric),
            y: Axis::new("Requests", "%"),
            series,
            marks: self.marks(metric),
            is_timeline: false,
        }
    }

    fn histogram(&self, metric: &Metric, values: &[f64], failed: &[f64]) -> Chart {
        let all = sorted(values.iter().chain(failed).copied());
        let mut beyond = 0;
        let mut series = Vec::new();
        if let Some(bins) = Bins::of(&all) {
            for (name, values, tone) in
                [("successful", values, Tone::Own), ("failed", failed, Tone::Bad)]
            {
                let histogram = bins.histogram(values);
                beyond += histogram.beyond;
                if !values.is_empty() {
                    series.push(Series::new(name, Shape::Area, histogram.bins).toned(tone));
                }
            }
        }
        let above = match beyond {
            0 => String::new(),
            1 => ", and 1 request above the last bin".to_owned(),
            _ => format!(", and {beyond} requests above the last bin"),
        };
        let end = series
            .iter()
            .filter_map(|series| series.points.last())
            .map(|last| last.x)
            .fold(0.0, f64::max);
        let mut marks = self.marks(metric);
        marks.retain(|mark| mark.at <= end);
        Chart {
            name: format!("{}_histogram", metric.tag),
            title: format!("{}: histogram", metric.header),
            note: format!("{} requests", values.len()) + &of_failed(failed) + &above,
            x: axis(metric),
            y: Axis::new("Requests", ""),
            series,
            marks,
            is_timeline: false,
        }
    }

    /// Returns the charts over the time of the run.
    pub(super) fn timelines(&self) -> Vec<Chart> {
        let all = &self.requests.all;
        let intervals = self.intervals;
        if all.is_empty() {
            return Vec::new();
        }
        let successful = || all.iter().filter(|request| request.succeeded());
        let steps = |name: &str, points| Series::new(name, Shape::Steps, points);
        let seconds = || intervals.described();
        let mut charts = vec![
            over_time(
                "request_rate_over_time",
                "Request rate",
                "Requests by their start, and by their end",
                Axis::new("Requests", "requests/s"),
                vec![
                    steps("started", intervals.rate(all.iter().map(|request| request.start))),
                    steps("completed", intervals.rate(successful().map(Request::end))),
                ],
            ),
            over_time(
                "output_tokens_over_time",
                "Output token throughput",
                "The output tokens of each request, spread evenly from its first token to its end",
                Axis::new("Output tokens", "tokens/s"),
                vec![steps(
                    "output tokens",
                    intervals.flow(successful().filter_map(|request| {
                        let first = request.start + request.ttft.unwrap_or(0.0);
                        Some((first, request.end(), request.osl?))
                    })),
                )],
            ),
            over_time(
                "in_flight_over_time",
                "Requests in flight",
                "Mean number in each interval",
                Axis::new("Requests", ""),
                vec![steps("in flight", intervals.in_flight(all.iter()))],
            ),
        ];
        for (tag, value) in LATENCIES {
            let Some(metric) = Registry::row(tag) else { continue };
            let values = all.iter().filter_map(|request| Some((request.start, value(request)?)));
            let [p50, p99] = intervals.percentiles(values, [50.0, 99.0]);
            let series = |name, points| Series::new(name, Shape::Line, points);
            charts.push(over_time(
                &format!("{tag}_over_time"),
                metric.header,
                &format!("Of the requests that started in each interval of {}", seconds()),
                axis(metric),
                vec![series("p50", p50), series("p99", p99)],
            ));
        }
        let of_class =
            |class: usize| all.iter().filter(move |request| request.class == Some(class));
        let errors = self.requests.classes.iter().enumerate();
        charts.push(over_time(
            "errors_over_time",
            "Failed requests",
            "By the end of the request",
            Axis::new("Failed requests", format!("per {}", seconds())),
            errors
                .map(|(class, name)| {
                    steps(name, intervals.count(of_class(class).map(Request::end)))
                })
                .collect(),
        ));
        let worst = |value: ValueOf| {
            let values = all.iter().filter_map(|request| Some((request.start, value(request)?)));
            let [max] = intervals.percentiles(values, [100.0]);
            max
        };
        charts.push(over_time(
            "client_delays_over_time",
            "Delays by the client",
            "The longest in each interval: from due to started, and from the arrival of an event to \
             its read",
            Axis::new("Delay", "ms"),
            vec![
                Series::new("schedule slip", Shape::Line, worst(|request| request.slip)),
                Series::new("read lag", Shape::Line, worst(|request| request.read_lag)),
            ],
        ));
        for chart in &mut charts {
            chart.series.retain(|series| series.points.iter().any(|point| point.y.is_some()));
        }
        charts
    }

    fn server(&self) -> Vec<Chart> {
        let Some(metrics) = &self.report.server_metrics else { return Vec::new() };
        let outcome = &self.report.outcome;
        server::charts(metrics, outcome.start_wall_ns, outcome.end_wall_ns)
    }

    /// Returns the requests one by one.
    pub(super) fn scatters(&self) -> Vec<Chart> {
        let time = |request: &Request| Some(request.start / 1e3);
        let latency = Axis::new("Request latency", "ms");
        let tokens = |title: &str| Axis::new(title, "tokens");
        let mut over_time = self.scatter(
            "requests",
            "Requests by start",
            Axis::time(),
            latency.clone(),
            time,
            |request| Some(request.latency.unwrap_or(request.duration)),
        );
        over_time.is_timeline = true;
        let isl = self.scatter(
            "latency_by_input_length",
            "Time to first token by input length",
            tokens("Input length"),
            Axis::new("Time to first token", "ms"),
            |request| request.isl,
            |request| request.ttft,
        );
        let osl = self.scatter(
            "latency_by_output_length",
            "Request latency by output length",
            tokens("Output length"),
            latency,
            |request| request.osl,
            |request| request.latency,
        );
        vec![over_time, isl, osl]
    }

    fn scatter(
        &self,
        name: &str,
        title: &str,
        x: Axis,
        y: Axis,
        x_of: impl Fn(&Request) -> Option<f64>,
        y_of: impl Fn(&Request) -> Option<f64>,
    ) -> Chart {
        let names =
            std::iter::once("successful").chain(self.requests.classes.iter().map(String::as_str));
        let mut series: Vec<Series> = names
            .enumerate()
            .map(|(at, name)| {
                let series = Series::new(name, Shape::Points, Vec::new());
                if at == 1 { series.toned(Tone::Bad) } else { series }
            })
            .collect();
        for (place, at) in (0..).zip(&self.sample.shown) {
            let request = &self.requests.all[*at];
            if let (Some(x), Some(y)) = (x_of(request), y_of(request)) {
                let series = &mut series[request.class.map_or(0, |class| class + 1)];
                series.points.push(Point::new(x, y));
                series.requests.push(place);
            }
        }
        series.retain(|series| !series.points.is_empty());
        Chart {
            name: name.to_owned(),
            title: title.to_owned(),
            note: String::new(),
            x,
            y,
            series,
            marks: Vec::new(),
            is_timeline: false,
        }
    }

    fn about_sample(&self, has_all_arrivals: bool) -> String {
        let mut text = "Select a point or a row to see the phases of the request.".to_owned();
        if let Some(group) = self.sample.group {
            let sample = format!(
                " {} of {} requests are shown: of each {group} consecutive ones the first, the \
                 fastest, the slowest and the first failed one, and those of the tables.",
                self.sample.shown.len(),
                self.requests.all.len(),
            );
            text.push_str(&sample);
        }
        if !has_all_arrivals {
            text += " The arrivals of tokens are shown for some requests only, to limit the size of \
                     the page.";
        }
        text
    }

    fn shown(&self) -> Result<Shown, ParquetError> {
        let mut by_row: Vec<(usize, usize)> = (0..)
            .zip(&self.sample.shown)
            .map(|(place, at)| (self.requests.all[*at].row, place))
            .collect();
        by_row.sort_unstable();
        let rows: Vec<usize> = by_row.iter().map(|(row, _)| *row).collect();
        let in_tables: BTreeSet<usize> = self
            .sample
            .slowest
            .iter()
            .chain(&self.sample.failed)
            .map(|at| self.requests.all[*at].row)
            .collect();
        if rows.is_empty() {
            return Ok(Shown { requests: ShownRequests::default(), has_all_arrivals: true });
        }
        let (details, has_all_arrivals) =
            requests::details(self.table, &rows, |row| in_tables.contains(&row))?;
        let mut shown: Vec<Option<requests::Details>> = Vec::new();
        shown.resize_with(rows.len(), || None);
        for ((_, place), details) in by_row.into_iter().zip(details) {
            shown[place] = Some(details);
        }
        let rows = self.sample.shown.iter().zip(shown).map(|(at, details)| {
            let request = &self.requests.all[*at];
            let details = details.unwrap_or_default();
            let class = request.class.map(|class| self.requests.classes[class].clone());
            let facts = [
                ("Session", json!(details.session)),
                ("Turn", json!(details.turn)),
                ("Time to first token (ms)", json!(request.ttft)),
                ("Input tokens", json!(request.isl)),
                ("Output tokens", json!(request.osl)),
                ("Error", json!(details.error)),
            ];
            let facts = facts.into_iter().filter(|(_, value)| !value.is_null()).collect();
            let phases = details.phases;
            ShownRequest(
                details.id,
                request.start / 1e3,
                request.duration,
                class,
                phases,
                details.arrivals,
                facts,
            )
        });
        let phases = PHASES.iter().map(|(name, _)| *name).collect();
        Ok(Shown { requests: ShownRequests { phases, rows: rows.collect() }, has_all_arrivals })
    }

    fn request_tables(&self) -> Vec<Table> {
        let places: BTreeMap<usize, u32> = self.sample.shown.iter().copied().zip(0..).collect();
        let table = |title: &str, note: String, list: &[usize]| Table {
            title: title.to_owned(),
            note,
            columns: [
                "Start (s)",
                "Duration (ms)",
                "Time to first token (ms)",
                "Inter token latency (ms)",
                "Input tokens",
                "Output tokens",
                "Outcome",
            ]
            .map(str::to_owned)
            .to_vec(),
            rows: list
                .iter()
                .map(|at| {
                    let request = &self.requests.all[*at];
                    let outcome =
                        request.class.map_or("successful", |class| &self.requests.classes[class]);
                    vec![
                        json!(request.start / 1e3),
                        json!(request.latency.unwrap_or(request.duration)),
                        json!(request.ttft),
                        json!(request.itl),
                        json!(request.isl),
                        json!(request.osl),
                        json!(outcome),
                    ]
                })
                .collect(),
            requests: list.iter().filter_map(|at| places.get(at).copied()).collect(),
        };
        let failed = self.requests.all.iter().filter(|request| !request.succeeded()).count();
        let some = if failed > MAX_ROWS {
            format!("The first {MAX_ROWS} of {failed}.")
        } else {
            String::new()
        };
        let mut tables = vec![
            table("Slowest requests", String::new(), &self.sample.slowest),
            table("Failed requests", some, &self.sample.failed),
        ];
        tables.retain(|table| !table.rows.is_empty());
        tables
    }

    fn statistics(&self) -> Table {
        statistics(&self.report.results, self.report.run.settings.developer_mode)
    }
}

struct Shown {
    requests: ShownRequests,
    has_all_arrivals: bool,
}

/// Describes the result of a gate.
fn gate(judged: &Judged) -> (Level, String) {
    let (level, held) =
        if judged.held { (Level::Good, "held") } else { (Level::Bad, "did not hold") };
    (level, format!("The gate {} {held}: the value is {}.", judged.gate, judged.shown_value()))
}

/// Returns all statistics of `results`.
fn statistics(results: &[MetricResult], developer_mode: bool) -> Table {
    let row = |result: &MetricResult| {
        let value = |statistic: Statistic| {
            let value = statistic.of(&result.stats).filter(|value| value.is_finite());
            value.map_or(Value::Null, |value| json!(value))
        };
        let names = [json!(result.metric.tag), json!(result.metric.display_unit.label())];
        names.into_iter().chain(Statistic::ALL.map(value)).collect()
    };
    let exported = results.iter().filter(|result| result.metric.is_exported(developer_mode));
    let statistics = Statistic::ALL.iter().map(|statistic| statistic.name.to_owned());
    Table {
        title: "All metrics".to_owned(),
        note: String::new(),
        columns: ["metric", "unit"].map(str::to_owned).into_iter().chain(statistics).collect(),
        rows: exported.map(row).collect(),
        requests: Vec::new(),
    }
}

/// Returns the figure of a result: the median of a distribution, or the single value.
fn figure(result: &MetricResult) -> Option<Figure> {
    let metric = result.metric;
    let (title, value, detail) = match result.stats.distribution {
        Some(found) => (
            format!("{} p50", metric.header),
            found.p50,
            format!("p99 {}, avg {}", rounded(found.p99), rounded(result.stats.avg)),
        ),
        None => (metric.header.to_owned(), result.stats.avg, String::new()),
    };
    let unit = metric.display_unit.label().to_owned();
    value.is_finite().then_some(Figure { title, value, unit, detail })
}

/// Formats a value with four significant digits, or as a whole number.
pub(super) fn rounded(value: f64) -> String {
    let digits = if value == 0.0 { 1 } else { value.abs().log10().floor() as i32 + 1 };
    let decimals = usize::try_from(4 - digits).unwrap_or(0).min(6);
    let text = format!("{value:.decimals$}");
    if text.contains('.') {
        return text.trim_end_matches('0').trim_end_matches('.').to_owned();
    }
    text
}

fn capitalized(text: &str) -> String {
    let mut letters = text.chars();
    letters.next().map_or_else(String::new, |first| first.to_uppercase().chain(letters).collect())
}

fn of_failed(failed: &[f64]) -> String {
    match failed.len() {
        0 => String::new(),
        count => format!(", and {count} failed ones, from start to end"),
    }
}

fn over_time(name: &str, title: &str, note: &str, y: Axis, series: Vec<Series>) -> Chart {
    Chart {
        name: name.to_owned(),
        title: title.to_owned(),
        note: note.to_owned(),
        x: Axis::time(),
        y,
        series,
        marks: Vec::new(),
        is_timeline: true,
    }
}

/// Returns the axis of a metric's values.
pub(super) fn axis(metric: &Metric) -> Axis {
    Axis::new(metric.header, metric.display_unit.label())
}

/// Describes the configured load, and the one reached if it differs.
fn load(load: &crate::metrics::LoadReport) -> String {
    let mut parts = Vec::new();
    if let Some(rate) = load.requested_rate {
        let reached = load.reached_rate.map(|reached| format!(" ({} sent)", rounded(reached)));
        parts.push(format!("{} requests/s{}", rounded(rate), reached.unwrap_or_default()));
    }
    match load.requested_concurrency {
        Some(most) => {
            parts.push(format!("concurrency {most} ({} reached)", load.reached_concurrency));
        }
        None => parts.push(format!("at most {} requests in flight", load.reached_concurrency)),
    }
    parts.join(", ")
}

fn strings(config: &Value, at: &str) -> Vec<String> {
    let list = config.pointer(at).and_then(Value::as_array).into_iter().flatten();
    list.filter_map(|item| {
        let name = item.as_str().or_else(|| item.get("name")?.as_str());
        name.map(str::to_owned)
    })
    .collect()
}
