use std::collections::BTreeMap;

use proptest::prelude::*;

use measure::server_metrics::exposition::{Exposition, Format};
use measure::server_metrics::{Endpoint, Scrape};

use super::*;
use crate::artifacts::server_metrics::jsonl::LineWriter;

/// Two lines of an AIPerf 0.13 run.
const AIPERF: [&str; 2] = [
    r#"{"endpoint_url":"http://127.0.0.1:18473/metrics","timestamp_ns":1795226088122058916,"endpoint_latency_ns":1496696,"metrics":{"vllm:num_requests_running":[{"labels":{"engine":"0"},"value":0.0}],"vllm:generation_tokens":[{"labels":{"engine":"0"},"value":0.0}],"vllm:ttft_seconds":[{"buckets":{"0.02":0.0,"0.05":0.0,"+Inf":0.0},"sum":0.0,"count":0.0}]},"request_sent_ns":1795226088120638141,"first_byte_ns":1795226088122058916}"#,
    r#"{"endpoint_url":"http://127.0.0.1:18473/metrics","timestamp_ns":1795226094812758965,"endpoint_latency_ns":752790,"metrics":{"vllm:num_requests_running":[{"labels":{"engine":"0"},"value":1.0}],"vllm:generation_tokens":[{"labels":{"engine":"0"},"value":24.0}],"vllm:ttft_seconds":[{"buckets":{"0.02":0.0,"0.05":3.0,"+Inf":3.0},"sum":0.093,"count":3.0}]},"request_sent_ns":1795226094812038049,"first_byte_ns":1795226094812758965,"benchmark_phase":"profiling","phase_index":1,"profiling_index":0,"phase_name":"profiling","phase_kind":"profiling"}"#,
];

/// A body with these numbers, from which the lines in [`AIPERF`] result.
fn body(running: u32, tokens: u32, ttft: (u32, f64)) -> String {
    let (count, sum) = ttft;
    format!(
        "# HELP vllm:num_requests_running Running \"now\".\n\
         # TYPE vllm:num_requests_running gauge\n\
         vllm:num_requests_running{{engine=\"0\"}} {running}\n\
         # TYPE vllm:generation_tokens_total counter\n\
         vllm:generation_tokens_total{{engine=\"0\"}} {tokens}\n\
         # TYPE vllm:ttft_seconds histogram\n\
         # UNIT vllm:ttft_seconds seconds\n\
         vllm:ttft_seconds_bucket{{le=\"0.02\"}} 0\n\
         vllm:ttft_seconds_bucket{{le=\"0.05\"}} {count}\n\
         vllm:ttft_seconds_bucket{{le=\"+Inf\"}} {count}\n\
         vllm:ttft_seconds_sum {sum}\n\
         vllm:ttft_seconds_count {count}\n"
    )
}

struct Fetch {
    endpoint: Endpoint,
    times: FetchTimes,
    phase: Option<PhaseMark>,
    is_duplicate: bool,
}

impl Fetch {
    fn new(times: [u64; 3], phase: Option<PhaseMark>) -> Self {
        let [request_sent_ns, first_byte_ns, last_byte_ns] = times;
        Self {
            endpoint: Endpoint { url: "http://127.0.0.1:18473/metrics".into() },
            times: FetchTimes { request_sent_ns, first_byte_ns, last_byte_ns },
            phase,
            is_duplicate: false,
        }
    }

    fn line(&self, writer: &mut LineWriter, snapshot: &Snapshot<'_>) -> String {
        let scrape = Scrape {
            index: 0,
            endpoint: &self.endpoint,
            times: self.times,
            phase: self.phase,
            is_duplicate: self.is_duplicate,
            exposition: &Exposition::default(),
            snapshot,
        };
        String::from_utf8(writer.line(&scrape).unwrap().to_vec()).unwrap()
    }
}

#[test]
fn lines_are_those_of_aiperf_and_say_once_what_families_are() {
    let mut writer = LineWriter::default();
    let before = Fetch::new(
        [1_795_226_088_120_638_141, 1_795_226_088_122_058_916, 1_795_226_088_122_134_837],
        None,
    );
    let during = Fetch::new(
        [1_795_226_094_812_038_049, 1_795_226_094_812_758_965, 1_795_226_094_812_790_839],
        Some(PhaseMark { index: 1, kind: PhaseKind::Profiling }),
    );
    let [first, second] = [(&before, body(0, 0, (0, 0.0))), (&during, body(1, 24, (3, 0.093)))]
        .map(|(fetch, body)| {
            let exposition = Exposition::parse(body.as_bytes(), Format::Text).unwrap();
            fetch.line(&mut writer, &Snapshot::from_exposition(&exposition))
        });
    let families = r#","families":{"vllm:num_requests_running":{"type":"gauge","description":"Running \"now\"."},"vllm:generation_tokens":{"type":"counter"},"vllm:ttft_seconds":{"type":"histogram","unit":"seconds"}}}"#;
    assert_eq!(first, format!("{}{families}\n", &AIPERF[0][..AIPERF[0].len() - 1]));
    assert_eq!(second, format!("{}\n", AIPERF[1]));
}

#[test]
fn a_warmup_and_a_repeat_are_marked() {
    let mut fetch = Fetch::new([1, 2, 3], Some(PhaseMark { index: 0, kind: PhaseKind::Warmup }));
    fetch.is_duplicate = true;
    let line = fetch.line(&mut LineWriter::default(), &Snapshot::default());
    assert_eq!(
        line,
        "{\"endpoint_url\":\"http://127.0.0.1:18473/metrics\",\"timestamp_ns\":2,\
         \"endpoint_latency_ns\":2,\"metrics\":{},\"request_sent_ns\":1,\"first_byte_ns\":2,\
         \"benchmark_phase\":\"warmup\",\"phase_index\":0,\"phase_name\":\"warmup\",\
         \"phase_kind\":\"warmup\",\"is_duplicate\":true}\n"
    );
}

#[test]
fn a_family_that_changes_its_type_says_so_again() {
    let mut writer = LineWriter::default();
    let fetch = Fetch::new([1, 2, 3], None);
    let lines = ["gauge", "counter", "counter"].map(|kind| {
        let body = format!("# TYPE a {kind}\na 1\n");
        let exposition = Exposition::parse(body.as_bytes(), Format::Text).unwrap();
        fetch.line(&mut writer, &Snapshot::from_exposition(&exposition))
    });
    assert!(lines[1].ends_with(",\"families\":{\"a\":{\"type\":\"counter\"}}}\n"));
    assert!(!lines[2].contains("families"));
    let mut reader = ScrapeLineReader::default();
    let kinds = lines
        .each_ref()
        .map(|line| reader.read(line.as_bytes()).unwrap().snapshot.families[0].kind);
    assert_eq!(kinds, [SeriesKind::Gauge, SeriesKind::Counter, SeriesKind::Counter]);
}

#[test]
fn two_families_of_one_name_have_a_key_each() {
    let body = "# TYPE x gauge\nx 1\n# TYPE x_total counter\nx_total 2\n";
    let exposition = Exposition::parse(body.as_bytes(), Format::Text).unwrap();
    let snapshot = Snapshot::from_exposition(&exposition);
    let line = Fetch::new([1, 2, 3], None).line(&mut LineWriter::default(), &snapshot);
    assert!(line.contains(r#""metrics":{"x":[{"value":1.0}],"x (counter)":[{"value":2.0}]}"#));
    let said = r#""x (counter)":{"type":"counter","name":"x"}"#;
    assert!(line.contains(said), "{line}");
    let read = ScrapeLineReader::default().read(line.as_bytes()).unwrap().snapshot;
    assert_eq!(read, snapshot);
}

fn refusal(line: &str) -> String {
    ScrapeLineReader::default().read(line.as_bytes()).unwrap_err().to_string()
}

#[test]
fn what_is_not_a_scrape_is_refused_with_a_reason() {
    let line = |series: &str, kind: &str| {
        format!(
            r#"{{"endpoint_url":"u","timestamp_ns":1,"metrics":{{"a":[{series}]}},"families":{{"a":{{"type":"{kind}"}}}},"new":1}}"#
        )
    };
    let mut reader = ScrapeLineReader::default();
    assert!(reader.read(line(r#"{"value":1,"new":[]}"#, "gauge").as_bytes()).is_ok());
    assert!(refusal("{}").contains("endpoint_url"));
    assert!(refusal(&line(r#"{"value":1}"#, "sundial")).contains("sundial"));
    assert!(refusal(&line(r#"{"value":1e999}"#, "gauge")).contains("out of range"));
    let wrong_shape = "a series of a does not have the values of its type";
    for (series, kind) in [
        (r#"{"value":1}"#, "histogram"),
        (r#"{"buckets":{"1":1},"sum":1,"count":1}"#, "histogram"),
        (r#"{"buckets":{"1":1,"1.0":1,"+Inf":1},"sum":1,"count":1}"#, "histogram"),
        (r#"{"buckets":{"1":1,"+Inf":1},"count":1}"#, "histogram"),
        (r#"{"sum":1}"#, "summary"),
        (r#"{"labels":{}}"#, "counter"),
    ] {
        assert_eq!(refusal(&line(series, kind)), wrong_shape, "{series}");
    }
    assert_eq!(refusal(AIPERF[0]), "no line so far contains the type of vllm:num_requests_running");
}

fn number() -> impl Strategy<Value = f64> {
    prop_oneof![
        prop::num::f64::NORMAL | prop::num::f64::SUBNORMAL | prop::num::f64::ZERO,
        (0_u32..2000).prop_map(f64::from),
    ]
}

/// Text with quotes, backslashes, line feeds, control characters and all of Unicode.
fn text() -> impl Strategy<Value = String> {
    prop_oneof!["[a-z_:\"\\\\\n\t{}=,]{0,8}", any::<String>()]
}

/// Bounds in ascending order, in the notation of servers.
fn named(most: usize) -> impl Strategy<Value = Vec<(Cow<'static, str>, f64)>> {
    prop::collection::btree_map(-1000_i32..1000, number(), 0..most).prop_map(|named| {
        let text = |at: i32| format!("{}", f64::from(at) / 8.0);
        named.into_iter().map(|(at, value)| (text(at).into(), value)).collect()
    })
}

fn value(kind: SeriesKind) -> BoxedStrategy<Value<'static>> {
    match kind {
        SeriesKind::Histogram => (named(6), number(), number())
            .prop_map(|(mut buckets, sum, count)| {
                buckets.push(("+Inf".into(), count));
                Value::Histogram { buckets, sum, count }
            })
            .boxed(),
        SeriesKind::Summary => (named(4), prop::option::of(number()), prop::option::of(number()))
            .prop_map(|(quantiles, sum, count)| Value::Summary { quantiles, sum, count })
            .boxed(),
        _ => number().prop_map(Value::Number).boxed(),
    }
}

fn point(kind: SeriesKind) -> impl Strategy<Value = Point<'static>> {
    let labels = prop::collection::btree_map(text(), text(), 0..4);
    (labels, value(kind)).prop_map(|(labels, value)| Point {
        labels: labels.into_iter().map(|(name, value)| (name.into(), value.into())).collect(),
        value,
    })
}

fn about() -> impl Strategy<Value = (SeriesKind, Option<String>, Option<String>)> {
    let kinds = [
        SeriesKind::Gauge,
        SeriesKind::Counter,
        SeriesKind::Histogram,
        SeriesKind::Unknown,
        SeriesKind::Info,
        SeriesKind::Summary,
    ];
    (prop::sample::select(kinds.to_vec()), prop::option::of(text()), prop::option::of(text()))
}

fn family(name: String) -> impl Strategy<Value = Family<'static>> {
    about().prop_flat_map(move |(kind, description, unit)| {
        let name = name.clone();
        prop::collection::vec(point(kind), 1..4).prop_map(move |series| Family {
            name: name.clone().into(),
            kind,
            description: description.clone().map(Into::into),
            unit: unit.clone().map(Into::into),
            series,
        })
    })
}

fn snapshot() -> impl Strategy<Value = Snapshot<'static>> {
    prop::collection::btree_set(text(), 0..4)
        .prop_flat_map(|names| names.into_iter().map(family).collect::<Vec<_>>())
        .prop_map(|families| Snapshot { families })
}

fn bits(snapshot: &Snapshot<'_>) -> Vec<u64> {
    let kind_of = |value: &Value<'_>| match value {
        Value::Number(number) => vec![*number],
        Value::Histogram { buckets: named, sum, count } => {
            named.iter().map(|(_, value)| *value).chain([*sum, *count]).collect()
        }
        Value::Summary { quantiles: named, sum, count } => {
            named.iter().map(|(_, value)| *value).chain(*sum).chain(*count).collect()
        }
    };
    let points = snapshot.families.iter().flat_map(|family| &family.series);
    points.flat_map(|point| kind_of(&point.value)).map(f64::to_bits).collect()
}

proptest! {
    #[test]
    fn a_snapshot_comes_back_from_its_line(
        snapshots in prop::collection::vec(snapshot(), 1..4),
        times in any::<[u32; 3]>(),
    ) {
        let mut writer = LineWriter::default();
        let mut reader = ScrapeLineReader::default();
        let mut known = BTreeMap::new();
        let mut times = times.map(u64::from);
        times.sort_unstable();
        let mut fetch = Fetch::new(times, None);
        for (number, mut snapshot) in snapshots.into_iter().enumerate() {
            // In a line, summaries come after all others.
            snapshot.families.sort_by_key(|family| family.kind == SeriesKind::Summary);
            fetch.is_duplicate = number % 2 == 1;
            fetch.phase = Some(PhaseMark { index: number as u32, kind: PhaseKind::Profiling });
            let line = fetch.line(&mut writer, &snapshot);
            prop_assert_eq!(line.matches('\n').count(), 1);
            let read = reader.read(line.as_bytes()).unwrap();
            // A declaration is in the first line of a family, and in lines with another type or
            // additional declarations.
            for family in &mut snapshot.families {
                let now = (family.kind, family.description.is_some(), family.unit.is_some());
                let before = known.get(&family.name).copied().filter(|before: &(SeriesKind, _, _)| {
                    before.0 == family.kind
                });
                let (_, described, has_unit) = before.unwrap_or((family.kind, false, false));
                known.insert(family.name.clone(), (now.0, described | now.1, has_unit | now.2));
                if before.is_some() && described >= now.1 && has_unit >= now.2 {
                    (family.description, family.unit) = (None, None);
                }
            }
            prop_assert_eq!(bits(&read.snapshot), bits(&snapshot));
            prop_assert_eq!(&read.snapshot, &snapshot);
            prop_assert_eq!(read.times, fetch.times);
            prop_assert_eq!(read.phase, fetch.phase);
            prop_assert_eq!(read.is_duplicate, fetch.is_duplicate);
            prop_assert_eq!(&*read.endpoint_url, &*fetch.endpoint.url);
        }
    }

    #[test]
    fn any_bytes_are_a_scrape_or_refused(text in any::<Vec<u8>>(), cut in 0_usize..600) {
        let mut reader = ScrapeLineReader::default();
        let _ = reader.read(&text);
        let line = AIPERF[0].as_bytes();
        prop_assert!(reader.read(&line[..cut.min(line.len() - 1)]).is_err());
    }
}
