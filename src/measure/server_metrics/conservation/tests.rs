use std::fs;
use std::io::Read as _;
use std::path::Path;

use serde_json::Value as Json;

use base::redact::ShownUrl;

use super::*;
use crate::server_metrics::exposition::{Exposition, Format};
use crate::server_metrics::report::{self, Window};
use crate::server_metrics::scrape::FetchTimes;
use crate::server_metrics::snapshot::Snapshot;

/// A store with the recorded scrapes `files`, each of which is an endpoint.
fn captured(files: &[&str]) -> Store {
    let golden = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/golden");
    let mut store = Store::new(files.iter().map(|file| (*file).into()));
    for (endpoint, file) in files.iter().enumerate() {
        let packed = fs::File::open(golden.join(file)).unwrap();
        let mut lines = String::new();
        flate2::read::GzDecoder::new(packed).read_to_string(&mut lines).unwrap();
        for line in lines.lines() {
            let scrape: Json = serde_json::from_str(line).unwrap();
            push(&mut store, endpoint, scrape["body"].as_str().unwrap());
        }
    }
    store
}

fn push(store: &mut Store, endpoint: usize, body: &str) {
    let exposition = Exposition::parse(body.as_bytes(), Format::Text).unwrap();
    store.push(endpoint, FetchTimes::default(), &Snapshot::from_exposition(&exposition));
}

/// The counts of the client that generated the recorded load.
fn client(server: &str) -> ClientCounts {
    let golden = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/golden");
    let lines = fs::read_to_string(golden.join(server).join("requests.jsonl")).unwrap();
    let requests: Vec<Json> =
        lines.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    let sum = |name: &str| requests.iter().map(|r| r["usage"][name].as_u64()).sum();
    ClientCounts {
        succeeded: requests.len() as u64,
        failed: 0,
        cancelled: 0,
        prompt_tokens: sum("prompt_tokens"),
        completion_tokens: sum("completion_tokens"),
        choices: 1,
    }
}

/// A store with one endpoint that exposed `bodies`.
fn exposed(bodies: &[&str]) -> Store {
    let mut store = Store::new(["http://a/metrics".into()]);
    for body in bodies {
        push(&mut store, 0, body);
    }
    store
}

/// Quantity, the server's count, the client's, and whether they agree.
fn told(comparisons: &[Comparison]) -> Vec<(Quantity, f64, f64, bool)> {
    comparisons.iter().map(|c| (c.quantity, c.server, c.client, c.agrees)).collect()
}

fn requests(succeeded: u64) -> ClientCounts {
    ClientCounts { succeeded, ..ClientCounts::default() }
}

#[test]
fn vllm_counts_what_its_client_saw() {
    let store = captured(&["vllm/scrapes.jsonl.gz"]);
    assert_eq!(
        told(&compare(&store, &client("vllm"))),
        [
            (Requests, 200.0, 200.0, true),
            (PromptTokens, 28_903.0, 28_903.0, true),
            (CompletionTokens, 55_983.0, 55_983.0, true),
        ]
    );
}

#[test]
fn dynamo_counts_what_its_client_saw_whether_or_not_its_worker_is_scraped() {
    let expected = [
        (Requests, 160.0, 160.0, true),
        (PromptTokens, 21_120.0, 21_120.0, true),
        (CompletionTokens, 14_384.0, 14_384.0, true),
    ];
    let (frontend, worker) = ("dynamo/scrapes_frontend.jsonl.gz", "dynamo/scrapes_worker.jsonl.gz");
    assert_eq!(told(&compare(&captured(&[frontend]), &client("dynamo"))), expected);
    assert_eq!(told(&compare(&captured(&[frontend, worker]), &client("dynamo"))), expected);
}

#[test]
fn llama_cpp_counts_cached_prompt_tokens_apart() {
    let store = captured(&["llamacpp/scrapes.jsonl.gz"]);
    assert_eq!(
        told(&compare(&store, &client("llamacpp"))),
        [(PromptTokens, 28_903.0, 28_903.0, true), (CompletionTokens, 55_983.0, 55_983.0, true)]
    );
}

#[test]
fn without_that_count_llama_cpp_may_have_fewer() {
    let body = |tokens| {
        format!(
            "# TYPE llamacpp:prompt_tokens_total counter\nllamacpp:prompt_tokens_total {tokens}\n"
        )
    };
    let agrees = |tokens| {
        let client = ClientCounts { prompt_tokens: Some(100), ..requests(1) };
        compare(&exposed(&[&body(50), &body(50 + tokens)]), &client)[0].agrees
    };
    assert!(agrees(60) && agrees(100));
    assert!(!agrees(101));
}

#[test]
fn a_request_of_somebody_else_is_seen() {
    for (server, file) in
        [("vllm", "vllm/scrapes.jsonl.gz"), ("dynamo", "dynamo/scrapes_frontend.jsonl.gz")]
    {
        let all = client(server);
        let but_one = ClientCounts {
            succeeded: all.succeeded - 1,
            prompt_tokens: all.prompt_tokens.map(|tokens| tokens - 69),
            completion_tokens: all.completion_tokens.map(|tokens| tokens - 98),
            ..all
        };
        let comparisons = compare(&captured(&[file]), &but_one);
        assert_eq!(comparisons.len(), 3);
        assert!(comparisons.iter().all(|comparison| !comparison.agrees), "{comparisons:?}");
    }
}

#[test]
fn what_the_client_gave_up_may_be_counted() {
    let store = captured(&["vllm/scrapes.jsonl.gz"]);
    let all = client("vllm");
    let agree = |succeeded, cancelled, missing| {
        let tokens = |tokens: Option<u64>| tokens.map(|tokens| tokens - missing);
        let client = ClientCounts {
            succeeded,
            cancelled,
            failed: 0,
            prompt_tokens: tokens(all.prompt_tokens),
            completion_tokens: tokens(all.completion_tokens),
            choices: 1,
        };
        compare(&store, &client).iter().map(|comparison| comparison.agrees).collect::<Vec<_>>()
    };
    assert_eq!(agree(198, 2, 500), [true, true, true]);
    assert_eq!(agree(200, 2, 0), [true, true, true]);
    // More successes than requests were sent.
    assert_eq!(agree(197, 2, 500), [false, true, true]);
    // The server's count lacks a success.
    assert_eq!(agree(201, 2, 0), [false, true, true]);
}

const HEAD: &str = "# TYPE vllm:request_success_total counter\n";

fn successes(stop: Option<u32>, length: u32) -> String {
    let stop = stop
        .map(|count| format!("vllm:request_success_total{{finished_reason=\"stop\"}} {count}\n"));
    format!(
        "{HEAD}vllm:request_success_total{{finished_reason=\"length\"}} {length}\n\
         vllm:request_success_total{{finished_reason=\"abort\"}} {}\n{}",
        length * 7,
        stop.unwrap_or_default()
    )
}

#[test]
fn a_series_that_appears_began_at_zero_and_one_that_falls_began_anew() {
    let bodies = [successes(None, 5), successes(Some(3), 7), successes(Some(1), 9)];
    let bodies: Vec<&str> = bodies.iter().map(String::as_str).collect();
    // From nothing to 3, again from nothing to 1, and from 5 to 9.
    assert_eq!(told(&compare(&exposed(&bodies), &requests(8))), [(Requests, 8.0, 8.0, true)]);
}

#[test]
fn one_scrape_tells_nothing() {
    assert_eq!(compare(&exposed(&[&successes(None, 5)]), &requests(5)), []);
    assert_eq!(compare(&Store::default(), &requests(5)), []);
}

#[test]
fn replicas_add_up_and_models_of_an_ensemble_do_not() {
    let mut store = Store::new(["http://a".into(), "http://b".into()]);
    for (endpoint, count) in [(0, 3), (1, 4)] {
        push(&mut store, endpoint, &successes(None, 0));
        push(&mut store, endpoint, &successes(None, count));
    }
    assert_eq!(told(&compare(&store, &requests(7))), [(Requests, 7.0, 7.0, true)]);
    let triton = |count| {
        let counts_of = |model| {
            format!("nv_inference_request_success{{model=\"{model}\",version=\"1\"}} {count}\n")
        };
        format!(
            "# TYPE nv_inference_request_success counter\n{}{}",
            counts_of("ensemble"),
            counts_of("tensorrt_llm")
        )
    };
    let store = exposed(&[&triton(2), &triton(9)]);
    assert_eq!(told(&compare(&store, &requests(7))), [(Requests, 7.0, 7.0, true)]);
}

#[test]
fn lmdeploy_counts_what_it_finishes_and_more_tokens_than_it_reports() {
    let body = |count: u32| {
        format!(
            "# TYPE lmdeploy:request_success counter\n\
             lmdeploy:request_success_total{{finished_reason=\"ResponseType.FINISH\"}} {count}\n\
             lmdeploy:request_success_total{{finished_reason=\"ResponseType.CANCEL\"}} 3\n\
             # TYPE lmdeploy:prompt_tokens counter\nlmdeploy:prompt_tokens_total {}\n\
             # TYPE lmdeploy:generation_tokens counter\nlmdeploy:generation_tokens_total {}\n",
            count * 10,
            count * 6
        )
    };
    // Each response has five tokens, and a stop token.
    let client =
        ClientCounts { prompt_tokens: Some(40), completion_tokens: Some(20), ..requests(4) };
    assert_eq!(
        told(&compare(&exposed(&[&body(1), &body(5)]), &client)),
        [(Requests, 4.0, 4.0, true), (PromptTokens, 40.0, 40.0, true)]
    );
}

/// A store whose endpoint counted so many successful requests and tokens at each of the seconds 1, 2, …
fn counted(values: &[(u64, u64)]) -> Store {
    let mut store = Store::new([ShownUrl::new("http://a/metrics")]);
    for (second, (requests, tokens)) in (1..).zip(values) {
        let body = format!(
            "# TYPE vllm:request_success counter\nvllm:request_success_total{{finished_reason=\"stop\"}} \
             {requests}\n# TYPE vllm:generation_tokens counter\nvllm:generation_tokens_total {tokens}\n"
        );
        let at = second * 1_000_000_000;
        let times = FetchTimes { request_sent_ns: at, first_byte_ns: at, last_byte_ns: at };
        let exposition = Exposition::parse(body.as_bytes(), Format::Text).unwrap();
        store.push(0, times, &Snapshot::from_exposition(&exposition));
    }
    store
}

/// Whose the late counts are, the total of requests and of tokens, and their late increases.
fn attributed(
    values: &[(u64, u64)],
    succeeded: u64,
    cancelled: u64,
) -> (LateCounts, [f64; 2], [Option<f64>; 2]) {
    let mut store = counted(values);
    // From 1.5 to 3.5 s: the scrape at 4 s is the final one.
    let profiling = Window { start_ns: 1_500_000_000, end_ns: 3_500_000_000 };
    let windows = Windows { warmup: None, profiling: Some(profiling) };
    let client = ClientCounts { succeeded, cancelled, ..ClientCounts::default() };
    let late = late(&store, &windows, &client);
    store.attribute_late(late.clone());
    let late = late[0];
    let report = report::build(&store, windows, None);
    let stats = |name: &str| {
        let metric = report.metrics.iter().find(|metric| &*metric.name == name).unwrap();
        let stats = &metric.series[0].stats;
        (stats.named("total").unwrap(), stats.late_increase())
    };
    let (requests, tokens) = (stats("vllm:request_success"), stats("vllm:generation_tokens"));
    (late, [requests.0, tokens.0], [requests.1, tokens.1])
}

#[test]
fn what_others_send_after_the_run_is_not_counted() {
    // 38 requests were counted in time; six of others follow, and then there are none for a while.
    let values =
        [(0, 0), (20, 2_000), (30, 3_000), (38, 3_800), (40, 4_100), (44, 4_360), (44, 4_360)];
    let expected = (LateCounts::Others, [38.0, 3_800.0], [Some(6.0), Some(560.0)]);
    assert_eq!(attributed(&values, 38, 0), expected);
    // If two of the client's were not counted yet, six are too many all the same.
    let expected = (LateCounts::Others, [38.0, 3_800.0], [Some(6.0), Some(560.0)]);
    assert_eq!(attributed(&values, 40, 0), expected);
    // A client that sent as many, or cancelled requests that the server may have completed.
    let own = (LateCounts::Own, [44.0, 4_360.0], [None, None]);
    assert_eq!(attributed(&values, 44, 0), own);
    assert_eq!(attributed(&values, 38, 6), own);
}

#[test]
fn what_cannot_be_compared_is_doubtful() {
    let values = [(0, 0), (38, 3_800), (38, 3_800), (38, 3_800), (38, 4_000), (38, 4_000)];
    // Requests are not counted late, so that late tokens are the client's.
    assert_eq!(attributed(&values, 38, 0), (LateCounts::Own, [38.0, 4_000.0], [None, None]));
    let store = counted(&values);
    let other = Store::new([ShownUrl::new("http://b/metrics")]);
    let (windows, client) = (Windows::default(), ClientCounts::default());
    assert_eq!(late(&other, &windows, &client), [LateCounts::Unknown]);
    assert_eq!(store.endpoints()[0].late_counts(), LateCounts::Unknown);
}

/// Adds scrapes of an endpoint at each of the seconds 1, 2, …, in which the counter has these values.
fn scrape(store: &mut Store, endpoint: usize, counter: &str, values: &[u64]) {
    for (second, value) in (1..).zip(values) {
        let name = counter.split('{').next().unwrap().trim_end_matches("_total");
        let body = format!("# TYPE {name} counter\n{counter} {value}\n");
        let at = second * 1_000_000_000;
        let times = FetchTimes { request_sent_ns: at, first_byte_ns: at, last_byte_ns: at };
        let exposition = Exposition::parse(body.as_bytes(), Format::Text).unwrap();
        store.push(endpoint, times, &Snapshot::from_exposition(&exposition));
    }
}

const OF_VLLM: &str = "vllm:request_success_total{finished_reason=\"stop\"}";
const OF_DYNAMO: &str = "dynamo_frontend_requests_total{status=\"success\"}";

#[test]
fn each_endpoint_has_its_own_verdict_on_late_counts() {
    let windows = Windows {
        warmup: None,
        profiling: Some(Window { start_ns: 1_500_000_000, end_ns: 3_500_000_000 }),
    };
    let client = ClientCounts { succeeded: 38, ..ClientCounts::default() };
    let urls = || ["http://a/metrics", "http://b/metrics"].map(ShownUrl::new);
    // An engine that others use too, beside a frontend that has nothing to do.
    let mut store = Store::new(urls());
    scrape(&mut store, 0, OF_VLLM, &[0, 20, 30, 38, 38, 41, 45]);
    scrape(&mut store, 1, OF_DYNAMO, &[0; 7]);
    let found = late(&store, &windows, &client);
    assert_eq!(found, [LateCounts::Others, LateCounts::Own]);
    store.attribute_late(found);
    let report = report::build(&store, windows, None);
    let metric = |name: &str| report.metrics.iter().find(|metric| &*metric.name == name).unwrap();
    let stats = &metric("vllm:request_success").series[0].stats;
    // The count still increases in the last scrape: it is not the client's, and that is stated.
    assert_eq!((stats.named("total"), stats.late_increase()), (Some(38.0), Some(7.0)));
    // Two engines behind the frontend, each of which counts every request: for prefill and for decode.
    let mut store =
        Store::new(["http://a/metrics", "http://b/metrics", "http://c/metrics"].map(ShownUrl::new));
    for engine in [0, 1] {
        scrape(&mut store, engine, OF_VLLM, &[0, 20, 30, 36, 38, 38, 38]);
    }
    scrape(&mut store, 2, OF_DYNAMO, &[0, 20, 30, 38, 38, 38, 38]);
    assert_eq!(late(&store, &windows, &client), [LateCounts::Own; 3]);
}

/// vLLM 0.32.0 counted 120 requests and 8,880 prompt tokens for 60 requests with `n: 2`, whose usage
/// had 4,440 prompt tokens.
#[test]
fn vllm_counts_each_choice() {
    let bodies = [[0, 0, 0], [120, 8880, 3840]].map(|[requests, prompt, completion]| {
        format!(
            "# TYPE vllm:request_success counter\n\
             vllm:request_success_total{{finished_reason=\"length\"}} {requests}\n\
             # TYPE vllm:prompt_tokens counter\nvllm:prompt_tokens_total {prompt}\n\
             # TYPE vllm:generation_tokens counter\nvllm:generation_tokens_total {completion}\n"
        )
    });
    let store = exposed(&[&bodies[0], &bodies[1]]);
    let client =
        ClientCounts { prompt_tokens: Some(4440), completion_tokens: Some(3840), ..requests(60) };
    let agree = |choices| {
        let found = compare(&store, &client.of_choices(choices));
        found.iter().map(|one| (one.client, one.agrees)).collect::<Vec<_>>()
    };
    assert_eq!(agree(2), [(120.0, true), (8880.0, true), (3840.0, true)]);
    assert_eq!(agree(1), [(60.0, false), (4440.0, false), (3840.0, true)]);
}
