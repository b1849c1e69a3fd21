use serde_json::json;

use client::endpoint::EndpointType;
use client::record::{RequestRecord, TurnId};

use super::*;
use crate::metrics::fixture::{START, content, dataset, measurer, record, registry, stream, usage};
use crate::metrics::metric::Settings;

/// A chat request with these messages, its turn, and the numbers of prompt tokens and of cached ones; its
/// response arrives after 20 ms.
fn request(messages: &[&str], turn: usize, tokens: [u64; 2], answer: &str) -> MeasuredRecord {
    let messages: Vec<_> =
        messages.iter().map(|text| json!({"role": "user", "content": text})).collect();
    let [prompt, cached] = tokens;
    let usage = usage(&format!(
        r#""prompt_tokens":{prompt},"completion_tokens":1,"prompt_tokens_details":{{"cached_tokens":{cached}}}"#
    ));
    let stop = r#"{"choices":[{"index":0,"delta":{},"finish_reason":"stop"}]}"#;
    let content = content(answer);
    let events = [(20, &*content), (20, stop), (20, &*usage), (20, "[DONE]")];
    let body = stream(START, &events);
    let record = RequestRecord {
        payload: json!({"messages": messages, "max_tokens": 10}).to_string().into(),
        turn: TurnId { session: 0, conversation: 0, turn, first: 0, is_final: false },
        earlier_answers: Vec::new(),
        ..record(START, body)
    };
    let registry = registry(EndpointType::CHAT, Settings::default(), true);
    let measured = measurer(EndpointType::CHAT, registry, dataset()).measure(record);
    assert_eq!(measured.observation.error, None);
    measured
}

/// Returns the report of these requests. The tokens that a template may add are not known.
fn report(requests: &[&MeasuredRecord]) -> PrefixCache {
    let mut ledger = CacheLedger::new(false);
    for request in requests {
        ledger.observe(request, &PromptBlocks::from_record(request));
    }
    ledger.report(None).unwrap()
}

fn close(a: f64, b: f64) -> bool {
    (a - b).abs() < 1e-12
}

/// Prompts of 128 bytes, two blocks each. Of the six blocks, three are different: that of a's, that of a's
/// after a's, and that of b's after a's. So three of six, 192 of 384 bytes, are repeated.
#[test]
fn repeated_blocks_are_counted_in_any_order() {
    let (a, b) = ("a".repeat(128), "a".repeat(64) + &"b".repeat(64));
    let all = [
        request(&[&a], 0, [32, 16], "ok"),
        request(&[&b], 0, [32, 16], "ok"),
        request(&[&a], 0, [32, 0], "ok"),
    ];
    for order in [[0, 1, 2], [2, 0, 1], [1, 2, 0]] {
        let found = report(&order.map(|at| &all[at]));
        let CacheUse { requests, prompt_tokens, expected_ratio, .. } = found.total;
        assert_eq!((requests, prompt_tokens, expected_ratio), (3, 96.0, 0.5));
        // 32 of 96 tokens were cached, and 16 of the 64 others could have been.
        assert!(close(found.cached_ratio().unwrap(), 1.0 / 3.0));
        assert!(close(found.total.repeated_prefill_ratio.unwrap(), 0.25));
        assert!(close(found.total.mean_ttft_ms.unwrap(), 20.0));
        assert!(found.by_turn.is_empty());
        // All have the first block alone.
        assert_eq!(found.by_prefix.len(), 1);
        assert_eq!(found.by_prefix[0].prefix_bytes, 64);
        assert_eq!(found.by_prefix[0].starts_with, "a".repeat(40));
        assert_eq!(found.by_prefix[0].cache, found.total);
    }
}

/// The second turn has 60 + 1 + 3 + 1 + 64 = 129 bytes, of which the first 64 are the first turn with its
/// response.
#[test]
fn a_turn_repeats_the_response_before_it() {
    let (a, c) = ("a".repeat(60), "c".repeat(64));
    let first = request(&[&a], 0, [15, 0], "bbb");
    let second = request(&[&a, "bbb", &c], 1, [33, 16], "d");
    let found = report(&[&first, &second]);
    let turns: Vec<(&str, f64)> =
        found.by_turn.iter().map(|of| (&*of.turn, of.cache.expected_ratio)).collect();
    assert_eq!(turns, [("1", 0.0), ("2", 64.0 / 129.0)]);
    assert!(close(found.total.expected_ratio, 64.0 / 189.0));
    // Two prompts with different first blocks do not form a family, nor does a prompt of less than a block.
    assert!(found.by_prefix.is_empty());
}

#[test]
fn the_warmup_and_failures_are_known_but_not_measured() {
    let text = "a".repeat(128);
    let measured = request(&[&text], 0, [32, 0], "ok");
    let mut warmup = measured.clone();
    warmup.observation.phase = PhaseKind::Warmup;
    let mut failed = request(&[&"b".repeat(128)], 0, [32, 0], "ok");
    failed.observation.error = Some(client::record::RequestError::new(
        client::record::ErrorKind::Other,
        "Any",
        "any".to_owned(),
    ));
    let other = request(&[&"b".repeat(128)], 0, [32, 0], "ok");
    let found = report(&[&measured, &other, &warmup, &failed]);
    assert_eq!((found.total.requests, found.total.expected_ratio), (2, 1.0));
    let found = report(&[&measured, &failed]);
    assert_eq!((found.total.requests, found.total.expected_ratio), (1, 0.0));
    assert!(CacheLedger::new(true).report(None).is_none());
}

/// Returns 6,400 bytes of which no part repeats.
fn digits() -> String {
    (0..1600).flat_map(|number| format!("{number:04}").into_bytes()).map(char::from).collect()
}

/// A prompt of 6,400 bytes and 1,600 tokens: a block is 16 tokens, and the template may have 64, so that 80
/// of 1,600 may be cached, 5%. One percent more is not told.
#[test]
fn a_cache_that_was_not_cold_is_told() {
    let text = digits();
    let excess = |cached| report(&[&request(&[&text], 0, [1600, cached], "ok")]).excess();
    assert_eq!((excess(0), excess(80), excess(95)), (None, None, None));
    let found = excess(160).unwrap();
    assert!(close(found.cached, 0.1) && close(found.expected_most, 0.05));
    assert_eq!(found.expected, 0.0);
}

/// The fixture's tokenizer counts 15 tokens in the first turn, so that the template of a prompt of 1,600 may
/// have had the other 1,585.
#[test]
fn tokens_that_the_client_does_not_know_may_be_cached() {
    let text = digits();
    let measured = request(&[&text], 0, [1600, 1500], "ok");
    let mut ledger = CacheLedger::new(true);
    ledger.observe(&measured, &PromptBlocks::from_record(&measured));
    let found = ledger.report(None).unwrap();
    assert_eq!((found.total.expected_most_ratio, found.excess()), (1.0, None));
}

#[test]
fn without_usage_the_servers_counters_tell() {
    let text = digits();
    let mut measured = request(&[&text], 0, [1600, 0], "ok");
    measured.observation.values.remove(tag::USAGE_PROMPT_CACHE_READ_TOKENS);
    let mut ledger = CacheLedger::new(false);
    ledger.observe(&measured, &PromptBlocks::from_record(&measured));
    let counted = |cached_tokens| {
        let metric = "vllm:prefix_cache_hits".into();
        ledger.report(Some(ServerCache { metric, queried_tokens: 1600.0, cached_tokens })).unwrap()
    };
    assert_eq!((counted(0.0).cached_ratio(), counted(0.0).excess()), (Some(0.0), None));
    assert_eq!(counted(800.0).excess().map(|it| it.cached), Some(0.5));
    assert_eq!(ledger.report(None).unwrap().excess(), None);
}

/// Two requests of 100 tokens: 50 each are repeated, and 25 each were cached. At 0.1 ms per token the other
/// 25 took 2.5 ms, as much as the cache saved.
#[test]
fn repeated_work_has_a_cost() {
    let total = CacheUse {
        requests: 2,
        prompt_tokens: 200.0,
        expected_ratio: 0.5,
        cached_ratio: Some(0.25),
        ..CacheUse::default()
    };
    let cost = PrefillCost::from_slope(cost::Slope { value: 0.1, half_width: 0.01 }, &total);
    assert!(close(cost.repeated_ms, 2.5) && close(cost.saved_ms, 2.5), "{cost:?}");
}
