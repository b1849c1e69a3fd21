//! The statistics of recorded scrapes, compared with the results of `prometheus_client` and numpy
//! for the same bodies.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Arc;

use base::units::Nanos;
use measure::server_metrics::exposition::{Exposition, Format, MetricType};
use measure::server_metrics::report::{
    self, MetricReport, RateSpread, Stats, Timeslice, Window, Windows,
};
use measure::server_metrics::snapshot::Snapshot;
use measure::server_metrics::store::{Labels, Store};
use measure::server_metrics::{FetchTimes, report::ServerMetricsReport};
use proptest::prelude::*;
use proptest::strategy::ValueTree as _;
use proptest::test_runner::TestRunner;
use serde_json::{Value, json};

use crate::support::left_out::python;
use crate::support::metrics_endpoint::recorded;

/// Name, labels, value and timestamp.
type Sample = (String, Vec<(String, String)>, String, Option<f64>);

const CAPTURES: [(&str, &str); 4] = [
    ("vllm", "scrapes"),
    ("llamacpp", "scrapes"),
    ("dynamo", "scrapes_frontend"),
    ("dynamo", "scrapes_worker"),
];

fn golden(server: &str, file: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/golden").join(server).join(file)
}

fn scrapes(server: &str, file: &str) -> Vec<Value> {
    recorded(&format!("{server}/{file}"))
}

fn times(scrape: &Value) -> FetchTimes {
    let at = |name: &str| scrape[name].as_u64().unwrap();
    FetchTimes {
        request_sent_ns: at("request_sent_ns"),
        first_byte_ns: at("first_byte_ns"),
        last_byte_ns: at("last_byte_ns"),
    }
}

fn parse(scrape: &Value) -> Exposition<'_> {
    let format = Format::of_content_type(scrape["content_type"].as_str().unwrap());
    Exposition::parse(scrape["body"].as_str().unwrap().as_bytes(), format).unwrap()
}

fn store(scrapes: &[Value]) -> Store {
    let mut store = Store::new(["http://server/metrics".into()]);
    let mut before = None;
    for scrape in scrapes {
        if before.replace(&scrape["body"]) == Some(&scrape["body"]) {
            store.repeat(0, times(scrape));
        } else {
            store.push(0, times(scrape), &Snapshot::from_exposition(&parse(scrape)));
        }
    }
    store
}

fn requests(server: &str) -> Vec<Value> {
    let text = std::fs::read_to_string(golden(server, "requests.jsonl")).unwrap();
    text.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

/// From the start of the first request to the end of the last one.
fn window(server: &str) -> Window {
    let requests = requests(server);
    let ns = |request: &Value, name: &str| request[name].as_u64().unwrap();
    Window {
        start_ns: requests.iter().map(|request| ns(request, "start_ns")).min().unwrap(),
        end_ns: requests.iter().map(|request| ns(request, "end_ns")).max().unwrap(),
    }
}

fn build(server: &str, file: &str) -> (ServerMetricsReport, Window) {
    let mut scrapes = scrapes(server, file);
    let mut window = window(server);
    // Without late counts, which the checker does not support.
    let last = scrapes.iter().position(|scrape| times(scrape).request_sent_ns >= window.end_ns);
    scrapes.truncate(last.unwrap() + 1);
    let windows = Windows { warmup: None, profiling: Some(window) };
    // The window of the endpoint ends with its final scrape.
    window.end_ns = times(scrapes.last().unwrap()).first_byte_ns;
    (report::build(&store(&scrapes), windows, Some(Nanos::from_seconds(2.0))), window)
}

/// A body of one to four lines of pieces that parsers treat differently.
fn odd_body() -> impl Strategy<Value = String> {
    let name = || prop::sample::select(vec!["a", "b_total", "c:d", "1e", "f.g", "e", ""]);
    let label_name =
        prop::sample::select(vec!["a", "b", "c:d", "1e", "f.g", "\"h i\"", "__name__", ""]);
    let blank = || prop::sample::select(vec!["", " ", "  ", "\t"]);
    let comma = prop::sample::select(vec![",", ", ", " ,", ",,", ", ,", "", " "]);
    let value =
        prop::sample::select(vec!["\"\"", "\"x\"", "\"}\"", "\"\\\"\"", "\",=\"", "x", "\"x\"y"]);
    let equals = prop::sample::select(vec!["=", " = ", ""]);
    let label = (label_name, equals, value)
        .prop_map(|(name, equals, value)| format!("{name}{equals}{value}"));
    let inner = prop::collection::vec((comma.clone(), label), 0..3);
    let labels = (inner, comma).prop_map(|(labels, end)| {
        let labels: String =
            labels.into_iter().map(|(comma, label)| comma.to_owned() + &label).collect();
        format!("{{{}{end}}}", labels.trim_start())
    });
    let number =
        || prop::sample::select(vec!["1", "-2.5", "NaN", "+Inf", "1e3", "x", "1_0", "#", "0.5"]);
    let numbers = prop::collection::vec((blank(), number()), 0..4);
    let numbers = numbers.prop_map(|numbers| {
        numbers.into_iter().fold(String::new(), |text, (blank, number)| text + blank + " " + number)
    });
    let sample = (blank(), name(), blank(), prop::option::of(labels), numbers, blank()).prop_map(
        |(before, name, middle, labels, numbers, after)| {
            let labels = labels.unwrap_or_default();
            format!("{before}{name}{middle}{labels}{numbers}{after}")
        },
    );
    let word = prop::sample::select(vec!["HELP", "TYPE", "UNIT", "EOF", "note"]);
    let rest =
        prop::sample::select(vec!["", "gauge", "counter", "histogram", "two words", "speed"]);
    let comment = (blank(), word, blank(), name(), blank(), rest).prop_map(
        |(before, word, middle, name, after, rest)| {
            format!("#{before}{word}{middle}{name}{after}{rest}")
        },
    );
    let line = prop_oneof![4 => sample, 2 => comment, 1 => Just("a 1".to_owned())];
    (prop::collection::vec(line, 1..4), prop::bool::ANY)
        .prop_map(|(lines, has_end)| lines.join("\n") + if has_end { "\n# EOF\n" } else { "\n" })
}

/// What either parser of `prometheus_client` reads of a body is read alike.
#[test]
fn odd_bodies_are_read_as_prometheus_client_reads_them() {
    type Theirs = Option<Vec<(String, Vec<(String, String)>, String, Option<String>)>>;
    let Some(python) = python() else { return };
    let mut runner = TestRunner::deterministic();
    let strategy = odd_body();
    let bodies: Vec<String> =
        (0..20_000).map(|_| strategy.new_tree(&mut runner).unwrap().current()).collect();
    let file = tempfile::NamedTempFile::new().unwrap();
    let lines: Vec<String> = bodies.iter().map(|body| json!(body).to_string()).collect();
    std::fs::write(file.path(), lines.join("\n")).unwrap();
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/read_expositions.py");
    let input = std::fs::File::open(file.path()).unwrap();
    let output = Command::new(python).arg(script).stdin(input).output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let (mut accepted, mut different) = (0, Vec::new());
    let output = String::from_utf8(output.stdout).unwrap();
    assert_eq!(output.lines().count(), bodies.len());
    for (body, line) in bodies.iter().zip(output.lines()) {
        // It reads a line that is only a number as a name without its last letter, `Na`.
        if body.lines().any(|line| line.trim() == "NaN") {
            continue;
        }
        let (text, open_metrics): (Theirs, Theirs) = serde_json::from_str(line).unwrap();
        for (theirs, format) in [(text, Format::Text), (open_metrics, Format::OpenMetrics)] {
            let Some(theirs) = theirs else { continue };
            let ours = Exposition::parse(body.as_bytes(), format);
            let ours = match ours {
                Ok(ours) => ours,
                Err(error) => {
                    different.push(format!("{format:?} {body:?}: {error}"));
                    continue;
                }
            };
            accepted += ours.samples.len();
            // The parser adds or removes the ending of a counter.
            let bare = |name: &str| name.strip_suffix("_total").unwrap_or(name).to_owned();
            // NaN differs from itself.
            let shown = |number: f64| format!("{number:?}");
            let read = |text: &str| shown(text.parse().unwrap());
            let ours: Vec<_> = ours
                .samples
                .iter()
                .map(|sample| {
                    let labels = ours.labels(sample).iter();
                    let mut labels: Vec<(String, String)> =
                        labels.map(|one| (one.name.to_string(), one.value.to_string())).collect();
                    labels.sort();
                    let timestamp = sample.timestamp.map(shown);
                    (bare(&sample.name), labels, shown(sample.value), timestamp)
                })
                .collect();
            let theirs: Vec<_> = theirs
                .into_iter()
                .map(|(name, labels, value, timestamp)| {
                    (bare(&name), labels, read(&value), timestamp.as_deref().map(read))
                })
                .collect();
            // The parser of OpenMetrics leaves repeated samples out.
            let is_same = match format {
                Format::Text => ours == theirs,
                Format::OpenMetrics => theirs.iter().all(|one| ours.contains(one)),
            };
            if !is_same {
                different.push(format!("{format:?} {body:?}: {ours:?}, not {theirs:?}"));
            }
        }
    }
    let shown = different.iter().take(10).map(String::as_str).collect::<Vec<_>>().join("\n");
    assert!(different.is_empty(), "{} of {}:\n{shown}", different.len(), bodies.len());
    assert!(accepted > 2000, "only {accepted} samples were compared");
}

/// Returns the output of the checker; `None` without an interpreter.
fn checker(arguments: &[&Path]) -> Option<String> {
    let python = python()?;
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/check_server_metrics.py");
    let output = Command::new(python).arg(script).args(arguments).output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    Some(String::from_utf8(output.stdout).unwrap())
}

#[test]
fn prometheus_client_reads_the_same_samples() {
    for (server, file) in CAPTURES {
        let path = golden(server, &format!("{file}.jsonl.gz"));
        let Some(theirs) = checker(&[Path::new("samples"), &path]) else { return };
        let scrapes = scrapes(server, file);
        assert_eq!(theirs.lines().count(), scrapes.len());
        for (scrape, theirs) in scrapes.iter().zip(theirs.lines()) {
            let theirs: Vec<Sample> = serde_json::from_str(theirs).unwrap();
            let exposition = parse(scrape);
            assert_eq!(exposition.samples.len(), theirs.len(), "{server}");
            for (ours, (name, labels, value, timestamp)) in exposition.samples.iter().zip(theirs) {
                let kind = exposition.family(ours).unwrap().metric_type;
                let is_counter = kind == MetricType::Counter;
                let bare = ours.name.strip_suffix("_total").filter(|_| is_counter);
                assert_eq!(bare.unwrap_or(&ours.name), name);
                let mut ours_labels: Vec<(String, String)> = exposition
                    .labels(ours)
                    .iter()
                    .map(|label| (label.name.to_string(), label.value.to_string()))
                    .collect();
                ours_labels.sort();
                assert_eq!(ours_labels, labels, "{name}");
                let value: f64 = value.parse().unwrap();
                assert!(ours.value == value || (ours.value.is_nan() && value.is_nan()), "{name}");
                assert_eq!(ours.timestamp, timestamp, "{name}");
            }
        }
    }
}

#[test]
fn numpy_comes_to_the_same_statistics() {
    for (server, file) in CAPTURES {
        let (requests, path) =
            (golden(server, "requests.jsonl"), golden(server, &format!("{file}.jsonl.gz")));
        let Some(theirs) = checker(&[Path::new("statistics"), &requests, &path]) else { return };
        let theirs: Value = serde_json::from_str(&theirs).unwrap();
        let (report, window) = build(server, file);
        let ours = json!({
            "start_ns": window.start_ns, "end_ns": window.end_ns,
            "metrics": metrics(&report.metrics),
        });
        assert!(report.metrics.len() > 5, "{server} has metrics");
        assert_same(&ours, &theirs, &format!("{server} {file}"));
    }
}

fn metrics(metrics: &[MetricReport]) -> Value {
    let series = |metric: &MetricReport| -> BTreeMap<String, Value> {
        metric.series.iter().map(|one| (labels(&one.labels), stats(&one.stats))).collect()
    };
    let all: BTreeMap<String, BTreeMap<String, Value>> = metrics
        .iter()
        .map(|metric| {
            let kind = format!("{:?}", metric.kind).to_lowercase();
            (format!("{kind} {}", metric.name), series(metric))
        })
        .collect();
    json!(all)
}

/// Formats labels like Python's `json.dumps(labels, sort_keys=True)`.
fn labels(labels: &Labels) -> String {
    let text = |text: &str| serde_json::to_string(text).unwrap();
    let parts: Vec<String> =
        labels.iter().map(|(name, value)| format!("{}: {}", text(name), text(value))).collect();
    format!("{{{}}}", parts.join(", "))
}

fn stats(stats: &Stats) -> Value {
    let spread = |rates: &RateSpread| json!([rates.avg, rates.min, rates.max, rates.std]);
    let named = |parts: &[(Arc<str>, f64)]| -> Value {
        json!(parts.iter().map(|(at, n)| (at.to_string(), *n)).collect::<BTreeMap<_, _>>())
    };
    match stats {
        Stats::Gauge(of) => json!({
            "avg": of.avg, "min": of.min, "max": of.max, "std": of.std,
            "percentiles": of.percentiles,
            "slices": slices(&of.timeslices, |of| vec![json!(of.avg), json!(of.min), json!(of.max)]),
        }),
        Stats::Counter(of) => json!({
            "total": of.total, "rate": of.rate,
            "slice_rates": of.slice_rates.as_ref().map(spread),
            "point_rates": of.point_rates.as_ref().map(spread),
            "slices": slices(&of.timeslices, |of| vec![json!(of.total), json!(of.rate)]),
        }),
        Stats::Histogram(of) => json!({
            "count": of.count, "sum": of.sum,
            "count_rate": of.count_rate, "sum_rate": of.sum_rate,
            "buckets": of.buckets.as_deref().map(named),
            "slices": slices(&of.timeslices, |of| vec![
                json!(of.count), json!(of.sum), json!(of.avg), named(&of.buckets),
            ]),
        }),
        Stats::Summary(of) => json!({
            "count": of.count, "sum": of.sum,
            "count_rate": of.count_rate, "sum_rate": of.sum_rate,
            "quantiles": of.quantiles,
        }),
    }
}

fn slices<T>(slices: &[Timeslice<T>], stats: impl Fn(&T) -> Vec<Value>) -> Value {
    let slice = |slice: &Timeslice<T>| {
        let mut row = vec![json!(slice.start_ns), json!(slice.end_ns), json!(slice.is_complete)];
        row.extend(stats(&slice.stats));
        row
    };
    json!(slices.iter().map(slice).collect::<Vec<_>>())
}

/// Compares every key and every number, in both directions; numbers with a relative tolerance of
/// 1e-9.
fn assert_same(ours: &Value, theirs: &Value, at: &str) {
    match (ours, theirs) {
        (Value::Object(a), Value::Object(b)) => {
            let keys = |object: &serde_json::Map<String, Value>| {
                let mut keys: Vec<String> = object.keys().cloned().collect();
                keys.sort();
                keys
            };
            assert_eq!(keys(a), keys(b), "{at}");
            for (key, value) in a {
                assert_same(value, &b[key], &format!("{at} / {key}"));
            }
        }
        (Value::Array(a), Value::Array(b)) => {
            assert_eq!(a.len(), b.len(), "{at}");
            for (index, (a, b)) in a.iter().zip(b).enumerate() {
                assert_same(a, b, &format!("{at} [{index}]"));
            }
        }
        (Value::Number(a), Value::Number(b)) => {
            let (a, b) = (a.as_f64().unwrap(), b.as_f64().unwrap());
            // Differences of large numbers keep their absolute error.
            assert!((a - b).abs() <= 1e-9 * a.abs().max(b.abs()) + 1e-12, "{at}: {a} and {b}");
        }
        _ => assert_eq!(ours, theirs, "{at}"),
    }
}

/// The increases of the counters are the sums of the client's measurements.
#[test]
fn servers_counted_what_the_client_saw() {
    let cases = [
        ("vllm", "scrapes", "vllm:prompt_tokens", "vllm:generation_tokens", "vllm:request_success"),
        (
            "dynamo",
            "scrapes_frontend",
            "dynamo_frontend_input_sequence_tokens",
            "dynamo_frontend_output_tokens",
            "dynamo_frontend_requests",
        ),
    ];
    for (server, file, prompt, completion, count) in cases {
        let (report, _) = build(server, file);
        let risen = |name: &str| -> f64 {
            let metric = report.metrics.iter().find(|metric| &*metric.name == name).unwrap();
            let rise = |stats: &Stats| match stats {
                Stats::Counter(of) => of.total,
                Stats::Histogram(of) => of.sum,
                _ => panic!("{name} does not count"),
            };
            metric.series.iter().map(|series| rise(&series.stats)).sum()
        };
        let requests = requests(server);
        let sum = |tokens: &str| -> u64 {
            requests.iter().map(|request| request["usage"][tokens].as_u64().unwrap()).sum()
        };
        assert_eq!(risen(prompt), sum("prompt_tokens") as f64, "{prompt}");
        assert_eq!(risen(completion), sum("completion_tokens") as f64, "{completion}");
        assert_eq!(risen(count), requests.len() as f64, "{count}");
    }
}
