//! How runs end: each on one screen of a terminal of 80 columns.

use std::sync::Arc;

use client::schedule::{PhaseKind, ReplayStats};
use measure::metrics::breakdown::{Counted, Tenant, Tenants};
use measure::metrics::breakdown::{GroupResult, PhaseResult, PhaseTimes};

use super::widths::with_server;
use super::*;
use crate::run::Offered;

/// Lines of the smallest terminal, less that of the files.
const MOST: usize = 23;

fn failed_with(name: &str, code: Option<u16>, message: &str) -> RunReport {
    let kind = if code.is_some() { ErrorKind::Http4xx } else { ErrorKind::Other };
    let mut error = RequestError::new(kind, name, message);
    error.code = code;
    let mut report = usual();
    report.results = vec![single(tag::ERROR_REQUEST_COUNT, 10.0)];
    report.errors = vec![ErrorCount { error_details: error, count: 10 }];
    report
}

fn at(url: &str, mut report: RunReport) -> RunReport {
    report.run.setup.urls = vec![url.to_owned()];
    report
}

fn succeeded(warnings: bool) -> RunReport {
    let mut report = usual();
    report.errors.clear();
    if let Some(errors) =
        report.results.iter_mut().find(|it| it.metric.tag == tag::ERROR_REQUEST_COUNT)
    {
        errors.stats.avg = 0.0;
    }
    if !warnings {
        report.outcome.client_health = None;
    }
    report
}

fn with_phases(count: usize) -> RunReport {
    let mut report = succeeded(true);
    let phase = |at: usize| PhaseResult {
        name: format!("phase-{at}").into(),
        kind: PhaseKind::Profiling,
        load: "concurrency 8".to_owned(),
        times: PhaseTimes { start_wall_ns: 0, end_wall_ns: 5_000_000_000 },
        results: report.results.clone(),
        steady_state: Err(Unsteady::UnknownLoad),
        errors: Vec::new(),
        recovery: None,
    };
    report.by_phase = (1..=count).map(phase).collect();
    report
}

fn with_tenants() -> RunReport {
    let mut report = succeeded(true);
    let names = ["alpha", "beta", "gamma"];
    let tenant = |name: &str| Tenant {
        name: name.to_owned(),
        share: 0.333,
        throughput_share: 0.333,
        slowdown: Some(1.25),
    };
    let group = |name: &str| GroupResult { name: Arc::from(name), results: report.results.clone() };
    report.breakdowns.by_tenant = names.map(group).into();
    let tenants = names.map(tenant).into();
    report.breakdowns.tenants =
        Some(Tenants { jain_index: Some(0.9876), counted: Counted::OutputTokens, tenants });
    report
}

fn with_lanes() -> RunReport {
    let mut report = succeeded(true);
    report.outcome.replay = Some(ReplayStats {
        lanes: 8,
        trees: 24,
        requests: 360,
        held_by_barrier: 12,
        concurrency: 1.5,
        recorded_concurrency: 1.4,
        ..ReplayStats::default()
    });
    report
}

fn with_gpus() -> RunReport {
    let mut report = with_server();
    report.results.extend([
        single(tag::OUTPUT_TOKEN_THROUGHPUT_PER_GPU, 615.5),
        single(tag::COST_PER_MILLION_OUTPUT_TOKENS, 0.75),
    ]);
    report
}

/// The ends of runs with their names.
fn ends() -> Vec<(&'static str, RunReport)> {
    let model = r#"{"error":{"message":"The model `foo` does not exist.","code":404}}"#;
    let context = "This model's maximum context length is 4096 tokens. However, you requested 5120 \
                   tokens (4096 in the messages, 1024 in the completion). Please reduce the length of \
                   the messages or completion.";
    let offers = |mut report: RunReport, models: &[&str], paths: &[&str]| {
        let own = |names: &[&str]| names.iter().map(|&name| name.to_owned()).collect();
        report.outcome.offered = Some(Offered { models: own(models), paths: own(paths) });
        report
    };
    let mut cancelled = succeeded(true);
    cancelled.outcome.was_cancelled = true;
    let mut partial = usual();
    partial.errors[0].error_details.message = context.to_owned();
    vec![
        ("succeeded", succeeded(false)),
        ("with warnings", succeeded(true)),
        ("cancelled", cancelled),
        ("some failed", usual()),
        ("some failed with a long reason", partial),
        ("server", with_server()),
        ("phases", with_phases(3)),
        ("many phases", with_phases(30)),
        ("tenants", with_tenants()),
        ("lanes", with_lanes()),
        ("GPUs", with_gpus()),
        ("wrong model", offers(failed_with("Not Found", Some(404), model), &["bar"], &[])),
        (
            "wrong path",
            offers(
                failed_with("Not Found", Some(404), "no such path"),
                &["org/model"],
                &["/v1/chat/completions", "/v1/embeddings"],
            ),
        ),
        ("too long", failed_with("Bad Request", Some(400), context)),
        ("no key", failed_with("Unauthorized", Some(401), "missing key")),
        ("dead port", failed_with("ConnectionRefused", None, "cannot connect to localhost:8000")),
        (
            "https on http",
            at(
                "https://localhost:8000",
                failed_with("TlsError", None, "the server does not use TLS on this port"),
            ),
        ),
        (
            "a page",
            failed_with("Not Found", Some(404), "<!DOCTYPE html><html><head></head></html>"),
        ),
        (
            "/v1 twice",
            at("http://localhost:8000/v1/v1", failed_with("Not Found", Some(404), model)),
        ),
    ]
}

#[test]
fn each_end_is_one_screen_of_24_lines_in_80_columns_and_more() {
    for width in [80, 100, 160] {
        let style = Style { width, colour: false };
        for (name, report) in ends() {
            let text = render(&report, style);
            assert!(text.lines().count() <= MOST, "{name}, {width} columns:\n{text}");
            let fits = text.lines().all(|line| line.chars().count() <= width.into());
            assert!(fits, "{name}, {width} columns:\n{text}");
            assert!(text.starts_with("org/model\n"), "the title stands first: {name}:\n{text}");
        }
    }
}

#[test]
fn ends_at_80_columns() {
    let style = Style { width: 80, colour: false };
    let shown =
        ends().into_iter().map(|(name, report)| format!("=== {name}\n{}", render(&report, style)));
    insta::assert_snapshot!(shown.collect::<String>());
}

#[test]
fn a_failed_run_says_what_the_server_said_and_what_to_try() {
    let text = |wanted: &str| {
        let (_, report) = ends().into_iter().find(|(name, _)| *name == wanted).unwrap();
        let text = render(&report, Style { width: 80, colour: false });
        text.split_whitespace().collect::<Vec<_>>().join(" ")
    };
    let long = text("too long");
    let words = "maximum context length is 4096 tokens. However, you requested 5120 tokens (4096 in \
                 the messages, 1024 in the completion). Please reduce the length of the messages or \
                 completion.";
    assert!(long.contains(words), "{long}");
    for (name, expected) in [
        (
            "wrong model",
            "The server offers bar; choose with --model. Try: aiperf chat --url http://localhost:8000 --model bar --message hello",
        ),
        ("wrong path", "The server answers at /v1/chat/completions, /v1/embeddings; choose with"),
        ("no key", "set it with --api-key"),
        ("dead port", "Nothing listens at http://localhost:8000."),
        ("https on http", "does not use TLS; use --url http://localhost:8000"),
        ("a page", "All 10 requests failed: 404 Not Found, with an HTML page"),
        ("too long", "Send shorter requests with --isl and --osl."),
        ("/v1 twice", "The URL has /v1 twice; use --url http://localhost:8000"),
    ] {
        assert!(text(name).contains(expected), "{}", text(name));
    }
}
