//! `cargo bench [-- FILTER… --quick --repeat N]`: the cost of the client, compared with the limits
//! of the machine.
//!
//! The mock server and the client are separate processes, each on its own core. Every result is the
//! median of several runs. `docs/performance.md` explains and lists the results.

#![expect(clippy::print_stdout, reason = "a benchmark prints its figures")]
#![expect(clippy::disallowed_methods, reason = "a benchmark measures the client's clock too")]

mod baseline;
mod client;
mod cores;
mod exposition;
mod first_request;
mod histogram;
mod lanes;
mod machine;
#[path = "../integration/support/otlp_receiver.rs"]
#[expect(dead_code, reason = "tests use more of it")]
#[expect(clippy::unwrap_used, clippy::expect_used, reason = "it serves tests")]
mod otlp_receiver;
mod reader;

use std::time::Duration;

use anyhow::Context;
use serde_json::Value;

use baseline::{Load, body};
use client::{profile, selfcheck};
use machine::{AIPERF, Server};
use otlp_receiver::OtlpReceiver;

/// One line of the results.
struct Figure {
    what: String,
    value: f64,
    unit: &'static str,
}

/// The number and size of measurements.
struct Scale {
    quick: bool,
    repeat: usize,
}

type Benchmark = fn(&Scale) -> anyhow::Result<Vec<Figure>>;

const BENCHMARKS: [(&str, Benchmark); 11] = [
    ("closed-loop", closed_loop),
    ("events", events),
    ("streams", streams),
    ("cores", cores::cores),
    ("slip", slip),
    ("lanes", lanes::lanes),
    ("memory", memory),
    ("overhead", overhead),
    ("otlp", otlp),
    ("exposition", exposition::exposition),
    ("histogram", histogram),
];

fn main() -> anyhow::Result<()> {
    let mut scale = Scale { quick: false, repeat: 3 };
    let mut filters = Vec::new();
    let mut arguments = std::env::args().skip(1);
    while let Some(argument) = arguments.next() {
        match argument.as_str() {
            "--quick" => (scale.quick, scale.repeat) = (true, 1),
            "--repeat" => {
                let count = arguments.next().and_then(|count| count.parse().ok());
                scale.repeat =
                    count.filter(|n| *n > 0).context("--repeat takes a number above 0")?;
            }
            // Added by cargo.
            "--bench" => {}
            _ => filters.push(argument),
        }
    }
    let is_wanted =
        |name: &str| filters.is_empty() || filters.iter().any(|f| name.contains(f.as_str()));
    for (name, benchmark) in BENCHMARKS.iter().filter(|(name, _)| is_wanted(name)) {
        println!("{name}");
        for Figure { what, value, unit } in
            benchmark(&scale).with_context(|| format!("benchmark {name}"))?
        {
            println!("  {what:<58}{} {unit}", shown(value));
        }
    }
    Ok(())
}

/// Formats a value with at least three significant digits, in a column.
fn shown(value: f64) -> String {
    match value.abs() {
        size if size >= 100.0 => format!("{value:>12.0}"),
        size if size >= 1.0 => format!("{value:>12.2}"),
        _ => format!("{value:>12.3}"),
    }
}

fn figure(what: impl Into<String>, value: f64, unit: &'static str) -> Figure {
    Figure { what: what.into(), value, unit }
}

/// The median of `scale.repeat` measurements.
fn median(scale: &Scale, mut measure: impl FnMut() -> anyhow::Result<f64>) -> anyhow::Result<f64> {
    let mut values = (0..scale.repeat).map(|_| measure()).collect::<anyhow::Result<Vec<_>>>()?;
    values.sort_unstable_by(f64::total_cmp);
    Ok(values[values.len() / 2])
}

/// Rates of the two baselines and of aiperf, and their ratios.
fn compared(
    scale: &Scale,
    load: &Load<'_>,
    per_request: f64,
    unit: &'static str,
    ours: impl FnMut() -> anyhow::Result<f64>,
) -> anyhow::Result<Vec<Figure>> {
    let hyper = median(scale, || Ok(baseline::hyper(load)? * per_request))?;
    let mut figures = vec![figure("raw hyper loop", hyper, unit)];
    let ours = median(scale, ours)?;
    let mut wrk_missing = false;
    let wrk = median(scale, || {
        let rate = baseline::wrk(load)?;
        wrk_missing = rate.is_none();
        Ok(rate.unwrap_or_default() * per_request)
    })?;
    if !wrk_missing {
        figures.push(figure("wrk", wrk, unit));
    }
    figures.push(figure("aiperf, start-up, drain and files included", ours, unit));
    figures.push(figure("aiperf / raw hyper loop", ours / hyper, ""));
    if !wrk_missing {
        figures.push(figure("aiperf / wrk", ours / wrk, ""));
    }
    Ok(figures)
}

fn closed_loop(scale: &Scale) -> anyhow::Result<Vec<Figure>> {
    let server = Server::start(&[])?;
    let requests = if scale.quick { 2_000 } else { 200_000 };
    let flags =
        format!("--concurrency 64 --request-count {requests} --isl 100 --osl 16 --num-prompts 100");
    let load = Load {
        url: &server.url,
        concurrency: 64,
        duration: Duration::from_secs(if scale.quick { 1 } else { 4 }),
        body: body(16, false),
    };
    compared(scale, &load, 1.0, "req/s", || {
        Ok(f64::from(requests) / profile(&server.url, &flags)?.usage.wall.as_secs_f64())
    })
}

fn events(scale: &Scale) -> anyhow::Result<Vec<Figure>> {
    let server = Server::start(&[])?;
    let (requests, tokens) = if scale.quick { (200, 20) } else { (20_000, 200) };
    let flags = format!(
        "--streaming --concurrency 64 --request-count {requests} --isl 100 --osl {tokens} --num-prompts 100"
    );
    let load = Load {
        url: &server.url,
        concurrency: 64,
        duration: Duration::from_secs(if scale.quick { 1 } else { 4 }),
        body: body(tokens, true),
    };
    compared(scale, &load, tokens as f64, "events/s", || {
        let events = f64::from(requests) * tokens as f64;
        Ok(events / profile(&server.url, &flags)?.usage.wall.as_secs_f64())
    })
}

/// Arrival errors of streams with constant intervals, by the self-check.
fn streams(scale: &Scale) -> anyhow::Result<Vec<Figure>> {
    let sizes: &[u64] = if scale.quick { &[10] } else { &[200, 1000, 2000, 4000] };
    let mut figures = Vec::new();
    for size in sizes {
        let steps = repeated(scale, "streams", &format!("--streams {size} --rates 1"))?;
        for (metric, name) in
            [("time_to_first_token", "first token"), ("request_latency", "last token")]
        {
            for clock in ["by_arrival", "by_read"] {
                for percentile in ["p50_ms", "p99_ms"] {
                    let path = format!("/errors/{metric}/{clock}/{percentile}");
                    let what = format!(
                        "{size} streams, {name}, {}, {}",
                        clock.replace('_', " "),
                        &percentile[..3]
                    );
                    figures.push(figure(what, middle(&steps, &path)?, "ms"));
                }
            }
        }
        figures.push(figure(
            format!("{size} streams, reached"),
            middle(&steps, "/reached_concurrency")?,
            "streams",
        ));
        let stamps = middle(&steps, "/kernel_stamps")?;
        figures.push(figure(format!("{size} streams, reads stamped by the kernel"), stamps, ""));
        let seen = reader::streams(usize::try_from(*size)?)?;
        for (name, errors) in [("first token", &seen.first), ("last token", &seen.last)] {
            let p99 = errors.get(errors.len() * 99 / 100).context("a response is missing")?;
            figures.push(figure(
                format!("{size} streams, minimal reader, {name}, p99"),
                *p99,
                "ms",
            ));
        }
        let what = format!("{size} streams, minimal reader, reads of several events");
        figures.push(figure(what, seen.merged, ""));
    }
    Ok(figures)
}

/// Schedule slip at a fixed rate, by the self-check.
fn slip(scale: &Scale) -> anyhow::Result<Vec<Figure>> {
    let rate = if scale.quick { 100 } else { 1000 };
    let steps = repeated(scale, "rates", &format!("--streams 1 --rates {rate}"))?;
    let of = |what: &str, path: &str| {
        Ok(figure(format!("{rate} requests/s, {what}"), middle(&steps, path)?, "ms"))
    };
    [
        of("due to sent, p50", "/schedule_slip/p50_ms"),
        of("due to sent, p99", "/schedule_slip/p99_ms"),
        of("due to the server, p99", "/slip_at_server/p99_ms"),
    ]
    .into_iter()
    .collect()
}

/// The last steps of several self-checks, with bounds that all steps meet.
fn repeated(scale: &Scale, kind: &str, flags: &str) -> anyhow::Result<Vec<Value>> {
    let quick = if scale.quick { " --quick" } else { "" };
    (0..scale.repeat)
        .map(|_| {
            let check = selfcheck(&format!("{flags} --bound 1000000{quick}"))?;
            let steps = check[kind].as_array().context("the self-check lacks its steps")?;
            steps.last().cloned().context("the self-check tried nothing")
        })
        .collect()
}

/// The median of the numbers at `path`.
fn middle(steps: &[Value], path: &str) -> anyhow::Result<f64> {
    let number = |step: &Value| step.pointer(path).and_then(Value::as_f64);
    let mut values: Vec<f64> = steps.iter().filter_map(number).collect();
    values.sort_unstable_by(f64::total_cmp);
    values.get(values.len() / 2).copied().with_context(|| format!("the self-check has no {path}"))
}

fn memory(scale: &Scale) -> anyhow::Result<Vec<Figure>> {
    let server = Server::start(&[])?;
    let requests = if scale.quick { 500 } else { 100_000 };
    let flags = format!(
        "--streaming --concurrency 64 --request-count {requests} --isl 100 --osl 64 --num-prompts 100"
    );
    let megabytes = median(scale, || {
        Ok(profile(&server.url, &flags)?.usage.peak_memory as f64 / f64::from(1 << 20))
    })?;
    Ok(vec![figure(format!("peak at {requests} requests of 64 events"), megabytes, "MB")])
}

/// Time that a run takes in addition to the benchmark itself, and the size of the program.
fn overhead(scale: &Scale) -> anyhow::Result<Vec<Figure>> {
    let server = Server::start(&["--ttft", "50ms", "--itl", "5ms"])?;
    let receiver = OtlpReceiver::http();
    let flags = "--streaming --concurrency 8 --request-count 200 --isl 100 --osl 32";
    let with_collector = format!("{flags} --otel-url {}", receiver.url());
    let seconds = |flags: &str| median(scale, || profile(&server.url, flags)?.overhead());
    let size = std::fs::metadata(AIPERF)?.len() as f64 / 1e6;
    Ok(vec![
        figure("beyond the benchmark's own, 200 requests", seconds(flags)?, "s"),
        figure("the same with a collector", seconds(&with_collector)?, "s"),
        figure("start until the first request", median(scale, first_request::milliseconds)?, "ms"),
        figure("program", size, "MB"),
    ])
}

fn otlp(scale: &Scale) -> anyhow::Result<Vec<Figure>> {
    let server = Server::start(&[])?;
    let receiver = OtlpReceiver::http();
    let requests = if scale.quick { 2_000 } else { 200_000 };
    let off =
        format!("--concurrency 64 --request-count {requests} --isl 100 --osl 16 --num-prompts 100");
    let on = format!("{off} --otel-url {}", receiver.url());
    let rate = |flags: &str| profile(&server.url, flags)?.metric("request_throughput");
    // Alternating, so that other load on the machine affects both.
    let mut ratios = Vec::new();
    for _ in 0..scale.repeat.max(if scale.quick { 1 } else { 5 }) {
        ratios.push(rate(&on)? / rate(&off)?);
    }
    ratios.sort_unstable_by(f64::total_cmp);
    let cost = (1.0 - ratios[ratios.len() / 2]) * 100.0;
    Ok(vec![figure("throughput lost with OTLP on", cost, "%")])
}

/// Errors of percentiles estimated from histograms.
#[expect(clippy::unnecessary_wraps, reason = "benchmarks have one type")]
fn histogram(scale: &Scale) -> anyhow::Result<Vec<Figure>> {
    let runs = if scale.quick { 1 } else { 20 };
    let mut figures = Vec::new();
    for case in &histogram::CASES {
        let errors = histogram::errors(case, runs);
        for (how, values) in [
            ("estimated", errors.estimate),
            ("with nothing learned", errors.unlearned),
            ("linear", errors.linear),
            ("as AIPerf", errors.listed),
        ] {
            for (percentile, value) in ["p50", "p90", "p95", "p99"].into_iter().zip(values) {
                figures.push(figure(format!("{}, {how}, {percentile}", case.name()), value, "%"));
            }
        }
    }
    Ok(figures)
}
