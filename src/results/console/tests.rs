mod ends;
mod highlights;
mod widths;

use base::statistics::Percentiles;
use client::endpoint::EndpointType;
use client::record::{ErrorKind, RequestError};
use client::server_family::Quantity;
use client::server_family::SeriesKind;
use measure::metrics::health::{
    Bound, ClientHealth, ErrorBounds, MetricBounds, RateBounds, Reason, Verdict,
};
use measure::metrics::metric::{Distribution, MetricResult, Stats};
use measure::metrics::name_counts::NameCounts;
use measure::metrics::steady::Unsteady;
use measure::metrics::tag::{self, MetricTag};
use measure::metrics::{LoadReport, LongRun, Registry};
use measure::server_metrics::conservation::Comparison;
use measure::server_metrics::report::{
    self as server_stats, MetricReport, SeriesReport, ServerMetrics,
};
use telemetry::{ScrapesReport, TelemetryReport, TracesReport};

use super::layout::Cell;
use super::*;
use crate::run::provenance::Tokenizer;
use crate::run::setup::Setup;
use crate::run::{ClientTables, ErrorCount, RunDescription, RunOutcome, RunReport};
use crate::warnings::Warning;

fn single(tag: MetricTag, avg: f64) -> MetricResult {
    let metric = Registry::row(tag).unwrap();
    MetricResult { metric, stats: Stats { avg, ..Stats::default() } }
}

fn distributed(tag: MetricTag) -> MetricResult {
    let distribution = Distribution {
        count: 36,
        min: 31.056,
        max: 1234.5,
        p99: f64::INFINITY,
        p90: 32.2566,
        p50: 31.7546,
        std: 0.6084,
        ..Distribution::default()
    };
    let metric = Registry::row(tag).unwrap();
    MetricResult {
        metric,
        stats: Stats { avg: 31.779, instant: None, distribution: Some(distribution) },
    }
}

fn report(results: Vec<MetricResult>) -> RunReport {
    RunReport {
        coverage: None,
        run: RunDescription {
            streaming: true,
            ..RunDescription::for_endpoint_type(EndpointType::CHAT)
        },
        outcome: RunOutcome::default(),
        results,
        bases: Vec::new(),
        long_run: LongRun::default(),
        missed_objectives: Vec::new(),
        steady_state: Err(Unsteady::UnknownLoad),
        by_phase: Vec::new(),
        levels: Vec::new(),
        slices: None,
        sessions: None,
        finish_reasons: NameCounts::default(),
        response_notes: NameCounts::default(),
        silences: Vec::new(),
        breakdowns: measure::metrics::breakdown::BreakdownResults::default(),
        warmup_results: Vec::new(),
        errors: Vec::new(),
        phases: Vec::new(),
        server_metrics: None,
    }
}

#[test]
fn numbers_have_two_decimals_and_thousands() {
    assert_eq!(number(Some(0.0)), "0.00");
    assert_eq!(number(Some(999.999)), "1,000.00");
    assert_eq!(number(Some(-1_234_567.891)), "-1,234,567.89");
    assert_eq!(number(Some(f64::NAN)), "N/A");
    assert_eq!(number(None), "N/A");
    assert_eq!(count(1_000), "1,000");
    assert_eq!(count(0), "0");
}

#[test]
fn the_main_table_is_laid_out_as_aiperf_has_it() {
    let report = report(vec![
        single(tag::REQUEST_COUNT, 36.0),
        distributed(tag::OUTPUT_TOKEN_THROUGHPUT_PER_USER),
        distributed(tag::TIME_TO_FIRST_TOKEN),
    ]);
    insta::assert_snapshot!(render_file(&report));
}

#[test]
fn the_first_screen_has_the_metrics_that_people_name_in_80_columns() {
    let result = |tag, value: f64| {
        let distribution = Distribution {
            count: 1033,
            p50: value,
            p90: value * 2.0,
            p95: value * 3.0,
            p99: f64::INFINITY,
            max: value * 1000.0,
            ..Distribution::default()
        };
        let metric = Registry::row(tag).unwrap();
        let stats = Stats { avg: value, instant: None, distribution: Some(distribution) };
        MetricResult { metric, stats }
    };
    let mut report = report(vec![
        result(tag::TIME_TO_FIRST_TOKEN, 31.777),
        result(tag::INTER_TOKEN_LATENCY, 0.01),
        result(tag::TIME_TO_SECOND_TOKEN, 1.0),
        result(tag::OUTPUT_SEQUENCE_LENGTH, 128.0),
        single(tag::OUTPUT_TOKEN_THROUGHPUT, 12345.6),
        single(tag::REQUEST_THROUGHPUT, 7.0),
        single(tag::REQUEST_COUNT, 1033.0),
        single(tag::ERROR_REQUEST_COUNT, 3.0),
    ]);
    report.run.setup = Setup {
        models: vec!["org/model".to_owned()],
        urls: vec!["http://localhost:8000".to_owned()],
        ..Setup::default()
    };
    report.outcome.end_wall_ns = 61_500_000_000;
    report.outcome.load =
        LoadReport { requested_concurrency: Some(8), reached_concurrency: 8, ..Default::default() };
    let style = Style { width: 80, colour: false };
    insta::assert_snapshot!(render(&report, style));
    let text = render(&report, style);
    assert!(text.lines().all(|line| line.chars().count() <= 80), "{text}");
    report.run.streaming = false;
    let text = render(&report, style);
    assert!(text.contains("Time to first token and inter-token latency need --streaming."));
    // The same with colour, but for the codes.
    report.run.streaming = true;
    let coloured = render(&report, Style { colour: true, ..style });
    assert!(coloured.contains("\x1b[31m1,033 of 1,036 requests succeeded"), "{coloured}");
}

#[test]
fn groups_have_tables_in_order_and_hidden_metrics_none() {
    let report = report(vec![
        single(tag::REQUEST_COUNT, 1.0),
        single(tag::ERROR_REQUEST_COUNT, 1.0),
        single(tag::TOTAL_OUTPUT_TOKENS, 5.0),
        distributed(tag::USAGE_REASONING_TOKENS),
        distributed(tag::USAGE_PROMPT_CACHE_READ_TOKENS),
        distributed(tag::USAGE_PROMPT_TOKENS),
    ]);
    let text = render_file(&report);
    let titles: Vec<_> =
        text.lines().filter(|line| line.contains("aiperf |")).map(str::trim).collect();
    assert_eq!(
        titles,
        [
            "aiperf | LLM Metrics: Usage",
            "aiperf | LLM Metrics: Cache",
            "aiperf | LLM Metrics: Reasoning",
            "aiperf | LLM Metrics",
        ]
    );
    assert!(!text.contains("Error Request Count"));
}

#[test]
fn narrow_tables_break_labels_but_no_number() {
    let mut report =
        report(vec![distributed(tag::TIME_TO_FIRST_TOKEN), single(tag::REQUEST_COUNT, 1.0)]);
    report.run.tables.client = ClientTables::All;
    let table = |width| {
        let text = render(&report, Style { width, colour: false });
        text.split_once("\n\n").unwrap().0.to_owned()
    };
    // Whole labels, without borders.
    let text = table(72);
    assert!(text.lines().all(|line| line.chars().count() <= 72), "{text}");
    assert!(text.contains("Time to First Token (ms) ") && text.contains("1,234 "), "{text}");
    // Short names, without the columns that are left out first.
    let narrow = table(30);
    assert!(narrow.lines().all(|line| line.chars().count() <= 30), "{narrow}");
    assert!(narrow.contains("TTFT (ms) 31.78     31.75"), "{narrow}");
    assert!(narrow.contains("Left out"), "{narrow}");
}

#[test]
fn errors_are_listed_without_control_characters() {
    let counts = [single(tag::REQUEST_COUNT, 1.0), single(tag::ERROR_REQUEST_COUNT, 4.0)];
    let mut report = report(counts.into());
    let mut details = RequestError::new(ErrorKind::Http5xx, "Internal Server Error", "\x1b[2Jboom");
    details.code = Some(500);
    report.errors = vec![ErrorCount { error_details: details, count: 4 }];
    let text = render_file(&report);
    assert!(text.contains("aiperf | Error Summary"));
    assert!(text.contains("│  500 │ Internal Server Error │ [2Jboom "), "{text}");
    assert!(!text.contains('\x1b'));
    let coloured = render(&report, Style { colour: true, ..Style::FILE });
    let line = "500 Internal Server Error: [2Jboom\x1b[0m\n";
    assert!(coloured.contains(line), "{coloured}");
}

#[test]
fn a_sound_run_has_no_warnings() {
    let mut report = report(vec![single(tag::REQUEST_COUNT, 100.0)]);
    report.outcome.load = LoadReport {
        requested_concurrency: Some(10),
        reached_concurrency: 10,
        requested_rate: Some(10.0),
        // 3/√100 is 30 %: less than that may be chance.
        reached_rate: Some(7.1),
        ..LoadReport::default()
    };
    report.outcome.telemetry = Some(TelemetryReport {
        endpoint: Some("http://localhost:4317".to_owned()),
        exports_ok: 3,
        exports_failed: 1,
        delivered_final: true,
        reconciled: true,
        ..TelemetryReport::default()
    });
    assert_eq!(Warning::all_from_report(&report), []);
}

#[test]
fn server_samples_that_did_not_reach_the_collector_are_told() {
    let mut report = report(vec![single(tag::REQUEST_COUNT, 100.0)]);
    let scrapes = ScrapesReport {
        scrapes_forwarded: 97,
        scrapes_dropped: 3,
        points_rejected: 12,
        delivered_final: true,
        ..ScrapesReport::default()
    };
    let telemetry = TelemetryReport {
        endpoint: Some("http://localhost:4317".to_owned()),
        exports_ok: 3,
        delivered_final: true,
        reconciled: true,
        scrapes: Some(scrapes),
        ..TelemetryReport::default()
    };
    report.outcome.telemetry = Some(telemetry.clone());
    let [warning] = &Warning::all_from_report(&report)[..] else {
        panic!("{:?}", Warning::all_from_report(&report))
    };
    assert_eq!(warning.title, "Server Samples Incomplete");
    let text = render_file(&report);
    let fact = "3 of 100 scrapes were not delivered, and 12 data points were rejected.";
    let text: Vec<_> = text.split_whitespace().filter(|word| *word != "│").collect();
    assert!(text.join(" ").contains(fact), "{text:?}");

    // A collector that accepted nothing causes a single warning.
    report.outcome.telemetry =
        Some(TelemetryReport { exports_ok: 0, exports_failed: 2, ..telemetry });
    let titles: Vec<_> = Warning::all_from_report(&report).iter().map(|it| it.title).collect();
    assert_eq!(titles, ["Collector Not Reached"]);
}

#[test]
fn traces_that_did_not_reach_the_collector_are_told() {
    let mut report = report(vec![single(tag::REQUEST_COUNT, 100.0)]);
    let traces =
        TracesReport { sampled: 40, sent: 30, lost: 10, rejected: 7, ..TracesReport::default() };
    // Traces alone may be exported, without metrics.
    report.outcome.telemetry =
        Some(TelemetryReport { reconciled: true, traces: Some(traces), ..Default::default() });
    let [warning] = &Warning::all_from_report(&report)[..] else {
        panic!("{:?}", Warning::all_from_report(&report))
    };
    assert_eq!(warning.title, "Traces Incomplete");
    let fact = "The traces of 10 of 40 sampled requests were not delivered to the collector, and \
                it rejected 7 spans.";
    assert!(warning.findings[0].starts_with(fact), "{:?}", warning.findings);
}

#[test]
fn doubts_are_told_with_numbers_and_advice() {
    let mut report = report(vec![
        single(tag::REQUEST_COUNT, 36.0),
        single(tag::USAGE_DISCREPANCY_COUNT, 9.0),
        single(tag::OSL_MISMATCH_COUNT, 36.0),
        distributed(tag::OSL_MISMATCH_DIFF_PCT),
    ]);
    report.outcome.was_cancelled = true;
    report.outcome.load = LoadReport {
        requested_concurrency: Some(1000),
        reached_concurrency: 36,
        requested_rate: Some(10.0),
        reached_rate: Some(4.9),
        ..LoadReport::default()
    };
    report.outcome.telemetry = Some(TelemetryReport {
        endpoint: Some("http://localhost:4317".to_owned()),
        exports_failed: 7,
        discrepancies: vec!["aiperf.request_latency: count".to_owned()],
        ..TelemetryReport::default()
    });
    let warnings = Warning::all_from_report(&report);
    let titles: Vec<_> = warnings.iter().map(|it| it.title).collect();
    assert_eq!(
        titles,
        [
            "Incomplete Run",
            "Request Rate Not Reached",
            "Token Count Discrepancy",
            "Output Sequence Length Mismatch",
            "Collector Not Reached",
            "Telemetry Does Not Agree",
        ]
    );
    assert!(warnings.iter().all(|warning| !warning.advice.is_empty()));
    let text = render_file(&report);
    for fact in [
        "The request rate was set to 10.00 per second, but 4.90 were sent.",
        "In 9 of 36 requests (25.0%)",
        "differ from the client's by more than 10%.",
        "Threshold (tokens): min(requested x 5%, 50)",
        "Average mismatch: 31.8%",
        "7 failed",
    ] {
        assert!(text.contains(fact), "{fact} is not in {text}");
    }
    assert!(text.lines().all(|line| line.chars().count() <= 140), "{text}");
}

#[test]
fn advice_does_not_name_what_is_given() {
    let mut report = report(vec![
        single(tag::REQUEST_COUNT, 36.0),
        single(tag::USAGE_DISCREPANCY_COUNT, 9.0),
        single(tag::OSL_MISMATCH_COUNT, 36.0),
    ]);
    report.outcome.load = LoadReport {
        sends_held_back: 1,
        requested_rate: Some(10.0),
        reached_rate: Some(4.9),
        ..LoadReport::default()
    };
    let flags = [
        "--extra-inputs ignore_eos:true",
        "--extra-inputs min_tokens",
        "with --use-server-token-count",
        "--wait-for-model-timeout",
        "Set --tokenizer",
    ];
    let advice = |report: &RunReport| {
        let all = Warning::all_from_report(report).into_iter();
        all.flat_map(|warning| warning.advice).collect::<Vec<_>>().join("\n")
    };
    let without = advice(&report);
    assert!(flags.iter().all(|flag| without.contains(flag)), "{without}");
    // Without a limit of the concurrency, nothing is said of it.
    assert!(!without.contains("--concurrency"), "{without}");
    let extra_inputs = serde_json::json!({"ignore_eos": true, "min_tokens": 20});
    report.run.setup = Setup {
        extra_inputs: extra_inputs.as_object().unwrap().clone(),
        waits_for_model: true,
        ..Setup::default()
    };
    report.run.settings.use_server_token_count = true;
    let (name, sha256) = ("org/model".to_owned(), String::new());
    report.run.provenance.tokenizer = Some(Tokenizer { name, sha256 });
    report.outcome.load.requested_concurrency = Some(8);
    let with = advice(&report);
    assert!(flags.iter().all(|flag| !with.contains(flag)), "{with}");
    assert!(with.contains("The requests have ignore_eos"), "{with}");
    assert!(with.contains("Check that org/model is the tokenizer"), "{with}");
    assert!(with.contains("Raise or remove --concurrency"), "{with}");
}

#[test]
fn a_closed_loop_that_falls_short_is_told() {
    let mut report = report(vec![single(tag::REQUEST_COUNT, 36.0)]);
    report.outcome.load = LoadReport {
        requested_concurrency: Some(1000),
        reached_concurrency: 36,
        ..LoadReport::default()
    };
    let text = render_file(&report);
    let fact = "The concurrency was set to 1,000, but never exceeded 36.";
    assert!(text.contains("Concurrency Not Reached") && text.contains(fact), "{text}");
    // With a rate, the concurrency is only a limit.
    report.outcome.load.requested_rate = Some(10.0);
    assert!(!render(&report, Style::FILE).contains("Concurrency Not Reached"));
}

#[test]
fn latency_from_the_due_time_is_shown_where_requests_waited() {
    let wait = |max| {
        let distribution = Distribution { max, ..Distribution::default() };
        let metric = Registry::row(tag::CREDIT_TO_START_LATENCY).unwrap();
        MetricResult {
            metric,
            stats: Stats { avg: 0.1, instant: None, distribution: Some(distribution) },
        }
    };
    let titles = |max| -> Vec<String> {
        let results =
            vec![distributed(tag::REQUEST_LATENCY), distributed(tag::EFFECTIVE_LATENCY), wait(max)];
        let text = render_file(&report(results));
        let title = |line: &str| line.trim().strip_prefix("aiperf | ").map(str::to_owned);
        text.lines().filter_map(title).collect()
    };
    assert_eq!(titles(0.99), ["LLM Metrics"]);
    assert_eq!(titles(1.0), ["LLM Metrics: Effective", "LLM Metrics"]);
}

#[test]
fn latency_from_the_due_time_has_a_row_where_it_differs_by_more_than_its_bounds() {
    let result = |tag, p99| {
        let distribution = Distribution { count: 36, p50: 30.0, p99, ..Distribution::default() };
        let metric = Registry::row(tag).unwrap();
        let stats = Stats { avg: 31.0, instant: None, distribution: Some(distribution) };
        MetricResult { metric, stats }
    };
    let shows = |due, error| {
        let mut report = report(vec![
            single(tag::REQUEST_COUNT, 36.0),
            result(tag::TIME_TO_FIRST_TOKEN, 40.0),
            result(tag::EFFECTIVE_TIME_TO_FIRST_TOKEN, due),
        ]);
        let bound = Bound { value: 40.0, below: error, ..Bound::default() };
        let first_token = MetricBounds { count: 36, p99: bound, ..MetricBounds::default() };
        report.outcome.client_health = Some(ClientHealth {
            error_bounds_ms: Some(ErrorBounds {
                time_to_first_token: Some(first_token),
                ..ErrorBounds::default()
            }),
            ..ClientHealth::default()
        });
        render(&report, Style::FILE).contains("TTFT from due (ms)")
    };
    assert!(shows(45.0, 4.0));
    assert!(!shows(45.0, 6.0));
    // Less than a millisecond is not told apart.
    assert!(!shows(40.9, 0.0));
}

#[test]
fn percentiles_that_were_asked_for_have_columns_and_say_what_they_lack() {
    let percents = ["90", "99.9"].map(|text| text.parse().unwrap());
    let mut latency = distributed(tag::REQUEST_LATENCY);
    let distribution = latency.stats.distribution.as_mut().unwrap();
    distribution.further = Percentiles::compute(&percents, |percent| 1000.0 + percent);
    let mut report = report(vec![single(tag::REQUEST_COUNT, 36.0), latency]);
    assert!(!render(&report, Style::FILE).contains("p99.9"));
    report.run.settings.add_percentiles(percents);
    let text = render(&report, Style::FILE);
    let header = text.lines().find(|line| line.contains("p99.9")).unwrap();
    let columns: Vec<&str> = header.split_whitespace().collect();
    assert_eq!(columns, ["avg", "p50", "p90", "p95", "p99", "max", "p99.9"]);
    let row = text.lines().find(|line| line.contains("Request latency (ms)")).unwrap();
    // In brackets, since 36 are too few for it.
    assert!(row.trim_end().ends_with("(1,100)"), "{row}");
    let note = "Too few requests to judge p99.9: 36, at least 3688 needed; it is little more than the \
                largest value.";
    assert!(text.contains(note), "{text}");
    assert!(!text.contains("to judge p90"), "{text}");
}

#[test]
fn counts_that_differ_from_the_servers_are_told_with_both_numbers() {
    let comparison = |quantity, metric: &str, server, client, agrees| Comparison {
        quantity,
        metric: metric.into(),
        server,
        client,
        agrees,
    };
    let mut report = report(vec![single(tag::REQUEST_COUNT, 200.0)]);
    let mut counts = vec![comparison(Quantity::PromptTokens, "vllm:prompt_tokens", 9.0, 9.0, true)];
    let metrics = |conservation| ServerMetrics { conservation, ..ServerMetrics::default() };
    report.server_metrics = Some(metrics(counts.clone()));
    assert_eq!(Warning::all_from_report(&report), []);
    let mut one = counts.clone();
    one.push(comparison(Quantity::Requests, "vllm:request_success", 1.0, 1.0, true));
    report.server_metrics = Some(metrics(one));
    let text = render_file(&report);
    assert!(text.contains("on 1 request, 9 prompt tokens"), "{text}");

    counts.push(comparison(Quantity::Requests, "vllm:request_success", 1201.0, 1200.0, false));
    report.server_metrics = Some(metrics(counts.clone()));
    let text = render_file(&report);
    assert!(text.contains("Server and Client Counts Differ"), "{text}");
    let difference =
        "1,201 successful requests (server), 1,200 (client): 1 more (vllm:request_success)";
    assert!(text.contains(difference) && !text.contains("prompt tokens (server)"), "{text}");
    assert!(text.contains("Other clients used the server"), "{text}");

    counts[1].server = 1000.0;
    report.server_metrics = Some(metrics(counts));
    let text = render_file(&report);
    assert!(text.contains("200 fewer") && text.contains("--server-metrics"), "{text}");
}

#[test]
fn the_servers_metrics_are_shown_where_asked_for() {
    let series = SeriesReport {
        endpoint_url: "http://a/metrics".into(),
        labels: std::sync::Arc::from([]),
        stats: server_stats::Stats::Gauge(server_stats::GaugeStats::default()),
    };
    let metric = MetricReport {
        name: "vllm:num_requests_running".into(),
        kind: SeriesKind::Gauge,
        description: "".into(),
        unit: None,
        series: vec![series],
    };
    let mut report = report(Vec::new());
    let mut metrics = ServerMetrics::default();
    metrics.report.metrics.push(metric);
    report.server_metrics = Some(metrics);
    assert!(!render(&report, Style::FILE).contains("Server Metrics"));
    report.run.tables.server_metrics = true;
    assert!(render(&report, Style::FILE).contains("aiperf | Server Metrics: vLLM"));
}

/// The columns are as wide as their longest cell or word; the first has what is left of 40.
#[test]
fn a_table_that_is_too_wide_has_no_borders_and_no_broken_word() {
    let columns = || {
        let rest = numbers(&[("steady req/s", 0), ("TTFT p50", 0), ("max", 0)]);
        [Column::label("Metric")].into_iter().chain(rest)
    };
    let rows = [
        ["Time to First Token (ms)", "1,153.42", "31.11", "33.78"],
        ["Throughput (/s)", "4.55", "0.40", "12,345.67"],
    ];
    let table = Table::new("aiperf | Runs", columns()).rows(rows);
    let narrow = table.render(Style { width: 40, colour: false });
    insta::assert_snapshot!(narrow);
    assert!(narrow.lines().all(|line| line.chars().count() <= 40), "{narrow}");
    let wide = table.render(Style { width: 70, colour: false });
    assert!(wide.contains("│ Time to First Token (ms) │"), "{wide}");
}

/// The widths by hand: with all columns, 22 + 5 + 5 + 8 and three gaps; with short names, 6 for the
/// first; then without the spare columns in their order.
#[test]
fn a_narrow_table_first_has_short_names_and_then_does_without_spare_columns() {
    let columns = [
        Column::label("A metric"),
        Column::number("first").spare(2),
        Column::number("other").spare(1),
        Column::number("kept").or("k"),
    ];
    let row = || {
        let cells = ["1,000", "2,000", "3,000.00"].map(Cell::from);
        [Cell::or("Averylongnameofametric", "Metric")].into_iter().chain(cells)
    };
    let table = Table::new("", columns).rows([row()]);
    let shown = |width| {
        let text = table.render(Style { width, colour: false });
        assert!(text.lines().all(|line| line.chars().count() <= width.into()), "{text}");
        text
    };
    let has = |text: &str, words: [&str; 4]| words.map(|word| text.contains(word));
    let words = ["Averylong", "2,000", "1,000", "3,000.00"];
    assert_eq!(has(&shown(43), words), [true, true, true, true]);
    assert_eq!(has(&shown(42), words), [false, true, true, true]);
    assert_eq!(has(&shown(27), words), [false, true, true, true]);
    assert_eq!(has(&shown(26), words), [false, false, true, true]);
    assert_eq!(has(&shown(20), words), [false, false, false, true]);
}

#[test]
fn a_table_says_which_columns_are_left_out() {
    let columns = [Column::label("Metric"), Column::number("avg"), Column::number("std").spare(1)];
    let table = Table::new("T", columns).rows([["Latency", "1,000.00", "2,000.00"]]);
    let narrow = table.render(Style { width: 20, colour: false });
    assert!(narrow.ends_with("Left out for lack of\nwidth: std.\n"), "{narrow}");
    assert!(!table.render(Style { width: 26, colour: false }).contains("Left out"));
}

#[test]
fn no_text_is_too_long_for_a_table_or_a_box() {
    let style = Style { width: 80, colour: false };
    let long = "x".repeat(70_000);
    let lines = [long.clone(), format!("a {long} b")];
    let shown = panel::render(&long, &lines, style);
    assert_eq!(shown.matches('…').count(), 3);
    let row = || [long.clone(), long.clone()];
    let tables =
        [Column::label, Column::number, Column::text].map(|column: fn(String) -> Column| {
            Table::new(&long, row().map(column)).rows([row(), row()]).render(style)
        });
    for text in tables.iter().chain([&shown]) {
        assert!(text.lines().all(|line| line.chars().count() < 4000), "{text}");
    }
    // Text without spaces is broken all the same.
    assert!(tables[2].lines().skip(1).all(|line| line.chars().count() <= 84), "{}", tables[2]);
}

/// The report of a usual run, with a verdict on its client, a reason for doubt and two warnings.
fn usual() -> RunReport {
    let mut report = report(vec![
        distributed(tag::TIME_TO_FIRST_TOKEN),
        distributed(tag::INTER_TOKEN_LATENCY),
        distributed(tag::REQUEST_LATENCY),
        distributed(tag::OUTPUT_TOKEN_THROUGHPUT_PER_USER),
        distributed(tag::INPUT_SEQUENCE_LENGTH),
        distributed(tag::OUTPUT_SEQUENCE_LENGTH),
        distributed(tag::INTER_CHUNK_LATENCY),
        single(tag::REQUEST_THROUGHPUT, 38.5),
        single(tag::OUTPUT_TOKEN_THROUGHPUT, 1231.0),
        single(tag::TOTAL_TOKEN_THROUGHPUT, 5079.0),
        single(tag::REQUEST_COUNT, 36.0),
        single(tag::ERROR_REQUEST_COUNT, 4.0),
        single(tag::USAGE_DISCREPANCY_COUNT, 9.0),
        single(tag::OSL_MISMATCH_COUNT, 36.0),
    ]);
    report.run.setup = Setup {
        models: vec!["org/model".to_owned()],
        urls: vec!["http://localhost:8000".to_owned()],
        ..Setup::default()
    };
    let mut details = RequestError::new(ErrorKind::Http5xx, "Internal Server Error", "boom");
    details.code = Some(500);
    report.errors = vec![ErrorCount { error_details: details, count: 4 }];
    let p50 = Bound {
        value: 31.75,
        below: 0.25,
        sample_below: Some(1.0),
        sample_above: Some(2.25),
        ..Bound::default()
    };
    let p99 = Bound { requests_needed: Some(368), ..p50 };
    let p99 = Bound { sample_below: None, sample_above: None, ..p99 };
    let bounds = MetricBounds { count: 36, avg: p50, p50, p99 };
    report.outcome.client_health = Some(ClientHealth {
        verdict: Some(Verdict::Suspect),
        reasons: vec![Reason {
            verdict: Verdict::Suspect,
            name: "busy-worker".into(),
            finding: "the busiest worker used 99% of a core".to_owned(),
            advice: "raise --workers-max".to_owned(),
        }],
        error_bounds_ms: Some(ErrorBounds {
            time_to_first_token: Some(bounds),
            ..ErrorBounds::default()
        }),
        throughput_bounds: Some(RateBounds { above_percent: 1.25, ..RateBounds::default() }),
        ..ClientHealth::default()
    });
    report
}

/// With the line about the files, which the command adds.
#[test]
fn the_end_of_a_usual_run_fits_80_columns_and_24_lines() {
    let text = render(&usual(), Style { width: 80, colour: false });
    assert!(text.lines().count() < 24, "{text}");
    assert!(text.lines().all(|line| line.chars().count() <= 80), "{text}");
    for said in [
        "Client health: suspect.",
        "36 of 40 requests succeeded in 0 ms; 4 failed (10.0%): 500 Internal Server\n  Error: boom",
        "! busy-worker: the busiest worker used 99% of a core",
        "! osl-mismatch: 36 of 36 requests (100.0%)",
        "! token-count-discrepancy: in 9 of 36 requests (25.0%)",
        "What to do: aiperf explain DIR",
    ] {
        assert!(text.contains(said), "{said} is not in {text}");
    }
    // What is long is in the file.
    assert!(!text.contains("raise --workers-max") && !text.contains("╭"), "{text}");
    let file = render_file(&usual());
    assert!(file.contains("What to do: raise --workers-max.") && file.contains("╭"), "{file}");
}

/// By hand: 31.75 − 1.00 − 0.25 to 31.75 + 2.25.
#[test]
fn error_bounds_are_beside_their_number_as_far_as_the_width_allows() {
    let line = |width, name| {
        let text = render(&usual(), Style { width, colour: false });
        text.lines().find(|line| line.contains(name)).unwrap().to_owned()
    };
    let wide = line(100, "Time to first token");
    assert!(wide.ends_with("30.50–34"), "p99 has too few requests: {wide}");
    let narrow = line(60, "Time to first token");
    assert!(!narrow.contains('–'), "{narrow}");
    let rate = line(80, "Requests/s");
    assert!(rate.ends_with(" 38.50"), "one rate is enough: {rate}");
    let mut few = usual();
    few.run.tables.client = ClientTables::All;
    let text = render(&few, Style { width: 80, colour: false });
    assert!(text.contains("38.50  client delays ≤ 1.2%"), "{text}");
    few.results.retain(|result| result.metric.tag != tag::REQUEST_COUNT);
    few.results.push(single(tag::REQUEST_COUNT, 27.0));
    let text = render(&few, Style { width: 80, colour: false });
    assert!(text.contains("38.5") && !text.contains("client delays"), "{text}");
}
