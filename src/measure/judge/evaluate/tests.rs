use std::sync::Arc;

use base::redact::ShownUrl;
use client::server_family::SeriesKind;

use super::*;
use crate::metrics::health::{
    Bound, ErrorBounds, LoadVerdict, MetricBounds, OutputHealth, RateBounds,
};
use crate::metrics::metric::{Distribution, Stats};
use crate::metrics::{Extent, Registry};
use crate::server_metrics::report::{self, CounterStats, GaugeStats, Resets, SeriesReport};

#[expect(clippy::large_types_passed_by_value, reason = "it is kept")]
fn result(tag: &str, stats: Stats) -> MetricResult {
    MetricResult { metric: Registry::find(tag).unwrap(), stats }
}

fn single(tag: &str, avg: f64) -> MetricResult {
    result(tag, Stats { avg, ..Stats::default() })
}

fn latency() -> MetricResult {
    let distribution = Distribution { p99: 231.5, max: 400.0, count: 400, ..Distribution::UNKNOWN };
    result(
        "time_to_first_token",
        Stats { avg: 100.0, instant: None, distribution: Some(distribution) },
    )
}

static NO_REASONS: NameCounts = NameCounts::NONE;

/// A run without results.
const NOTHING: Facts<'static> = Facts {
    finish_reasons: &NO_REASONS,
    results: &[],
    phases: &[],
    steady_state: Err(&Unsteady::UnknownLoad),
    server: None,
    verdict: None,
    load_verdict: None,
    outputs: None,
    bounds: ClientBounds { latencies: None, rates: None },
    basis: Basis { certainty: None, long_run: LongRun::WHOLE, rate_error: None },
};

fn judge(gate: &str, facts: &Facts<'_>) -> Judged {
    gate.parse::<Gate>().unwrap().judge(facts)
}

fn of_client(gate: &str) -> Judged {
    let results = [
        latency(),
        single("request_throughput", 18.0),
        single("completed_request_count", 20.0),
        single("goodput", f64::NAN),
        result(
            "adj_time_to_first_token",
            Stats {
                avg: f64::INFINITY,
                instant: None,
                distribution: Some(Distribution { p99: f64::INFINITY, ..Distribution::UNKNOWN }),
            },
        ),
    ];
    judge(gate, &Facts { results: &results, verdict: Some(Verdict::Suspect), ..NOTHING })
}

#[test]
fn a_value_that_the_client_may_have_put_beyond_the_limit_has_a_note() {
    let bound = Bound { value: 231.5, below: 20.0, above: 0.5, ..Bound::default() };
    let first_token = MetricBounds { count: 20, p99: bound, ..MetricBounds::default() };
    let bounds = ErrorBounds { time_to_first_token: Some(first_token), ..ErrorBounds::default() };
    let results = [latency()];
    let facts = Facts {
        results: &results,
        bounds: ClientBounds { latencies: Some(bounds), rates: None },
        ..NOTHING
    };
    let judged = judge("time_to_first_token:p99<=250ms", &facts);
    assert_eq!((judged.held, judged.range, judged.note), (true, Some([211.5, 232.0]), None));
    let judged = judge("time_to_first_token:p99<=220ms", &facts);
    let note = "the client was late to send or to read, so the value may be anything from 211.5 to \
                232 ms";
    assert_eq!((judged.held, judged.note.as_deref()), (false, Some(note)));
    assert_eq!(judge("time_to_first_token:max<=500ms", &facts).range, None);
}

#[test]
fn rates_are_judged_as_they_are_in_the_long_run() {
    let results =
        [single("request_throughput", 3.0 / 2.75), single("completed_request_count", 3.0)];
    let mut extent = Extent::default();
    for at in [0, 1250, 2500] {
        extent.add(at * 1_000_000, (at + 250) * 1_000_000);
    }
    let basis =
        Basis { long_run: extent.long_run(None), rate_error: Some(0.1), ..Basis::default() };
    let facts = Facts { results: &results, basis, ..NOTHING };
    // Three requests at 0.8/s.
    let judged = judge("request_throughput>=0.9", &facts);
    let [low, high] = judged.interval.unwrap();
    assert!((low - 0.72).abs() < 1e-9 && (high - 0.88).abs() < 1e-9, "{low} {high}");
    assert_eq!(
        judged.message(),
        "0.8 requests/sec (in the long run; 1.0909 by the time until the last response), required \
         >= 0.9 requests/sec"
    );
    assert!(!judged.held && judge("request_throughput>=0.79", &facts).held);
    let same = Facts { basis: Basis::default(), ..facts };
    let judged = judge("request_throughput>=0.9", &same);
    assert_eq!((judged.held, judged.interval, judged.note), (true, None, None));
}

#[test]
fn a_confidence_is_judged_by_the_bound_of_the_percentile() {
    let results = [latency()];
    let known = Certainty {
        percent: "99".parse().unwrap(),
        values: 1000,
        beyond: 3,
        permitted: Some(2),
        more_needed: Some(1),
        bound: Some(251.0),
    };
    let facts = |certainty| Facts {
        results: &results,
        basis: Basis { certainty, ..Basis::default() },
        ..NOTHING
    };
    // The measured p99 of 231.5 ms does not decide.
    let gate = "time_to_first_token:p99<=250ms@99%";
    let judged = judge(gate, &facts(Some(known)));
    assert_eq!((judged.held, judged.value), (false, Some(Reading::Number(251.0))));
    assert_eq!(
        judged.message(),
        "251 ms (the bound of p99 with 99% confidence; 3 of 1000 requests are beyond the limit, at \
         most 2 may be; at least 1 more request within the limit is needed), required <= 250 ms"
    );
    let json = serde_json::to_value(&judged).unwrap();
    let expected = serde_json::json!({
        "percent": 99.0, "values": 1000, "beyond": 3, "permitted": 2, "more_needed": 1,
    });
    assert_eq!(json["confidence"], expected);
    let held = Certainty { beyond: 2, more_needed: None, bound: Some(249.0), ..known };
    assert!(judge(gate, &facts(Some(held))).held);
    let few = Certainty {
        values: 458,
        beyond: 0,
        permitted: None,
        more_needed: Some(1),
        bound: None,
        ..known
    };
    let judged = judge(gate, &facts(Some(few)));
    assert_eq!((judged.held, judged.value), (false, None));
    assert!(
        judged.message().starts_with("458 requests are too few to tell p99 with 99% confidence")
    );
    let judged = judge(gate, &facts(None));
    let note = "p99 of time_to_first_token is not available for the run; it requires --streaming";
    assert_eq!((judged.held, judged.note.as_deref()), (false, Some(note)));
}

#[test]
fn a_rate_that_the_client_may_have_lowered_has_a_note() {
    let results = [single("request_throughput", 18.0)];
    let rates = RateBounds { above_percent: 50.0, ..RateBounds::default() };
    let bounds = ClientBounds { latencies: None, rates: Some(rates) };
    let facts = Facts { results: &results, bounds, ..NOTHING };
    let judged = judge("request_throughput>=20", &facts);
    let note = "the client was late to send or to read, so the value may be anything from 18 to 27 \
                requests/sec";
    assert_eq!((judged.held, judged.range), (false, Some([18.0, 27.0])));
    assert_eq!(judged.note.as_deref(), Some(note));
    assert_eq!(judge("request_throughput>=15", &facts).note, None);
}

#[test]
fn a_value_is_compared_with_its_limit() {
    let cases = [
        ("time_to_first_token:p99<=250ms", true, Some(7.4)),
        ("time_to_first_token:p99<=200ms", false, Some(-15.75)),
        ("time_to_first_token<=100ms", true, Some(0.0)),
        ("time_to_first_token<100ms", false, Some(0.0)),
        ("time_to_first_token>=0.1s", true, Some(0.0)),
        ("time_to_first_token>0.1s", false, Some(0.0)),
        ("time_to_first_token==100", true, None),
        ("time_to_first_token==101", false, None),
        ("request_throughput>=20", false, Some(-10.0)),
        ("request_throughput>=15", true, Some(20.0)),
        ("error_request_count<=0", true, None),
        ("client_health==suspect", true, None),
        ("client_health==valid", false, None),
    ];
    for (gate, held, margin) in cases {
        let judged = of_client(gate);
        assert_eq!(judged.held, held, "{gate}");
        assert_eq!(judged.margin_percent.is_some(), margin.is_some(), "{gate}: {judged:?}");
        if let (Some(found), Some(margin)) = (judged.margin_percent, margin) {
            assert!((found - margin).abs() < 1e-9, "{gate}: {found}");
        }
        assert_eq!(judged.note, None, "{gate}");
    }
    let judged = of_client("time_to_first_token:p99<=0.2s");
    assert_eq!(judged.message(), "231.5 ms, required <= 200 ms");
    assert_eq!(judged.shown_margin(), "-15.8%");
}

#[test]
fn the_steady_state_has_values_of_its_own() {
    let steady = SteadyState {
        start_ns: 0,
        end_ns: 1,
        request_count: 9,
        request_share: 0.45,
        littles_law_residual_percent: None,
        request_throughput_half_width: None,
        results: vec![
            single("request_throughput", 30.0),
            single("completed_request_count", 9.0),
            single("goodput", f64::NAN),
        ],
    };
    let results = [single("request_throughput", 18.0)];
    let facts = Facts { results: &results, steady_state: Ok(&steady), ..NOTHING };
    let found = judge("steady:request_throughput>=20", &facts);
    assert_eq!((found.held, found.value), (true, Some(Reading::Number(30.0))));
    assert!(!judge("request_throughput>=20", &facts).held);
    assert!(judge("steady:error_request_count==0", &facts).held);
    let missing = judge("steady:goodput>=1", &facts);
    let why = "avg of goodput is not available for the steady state; it requires --goodput";
    assert_eq!((missing.held, missing.message().as_str()), (false, why));
    let unsteady = judge("steady:request_throughput>=1", &NOTHING);
    let why = "the run does not have a steady state: the configured load is not known";
    assert_eq!((unsteady.held, unsteady.message().as_str()), (false, why));
}

#[test]
fn without_a_value_a_gate_fails_with_the_reason() {
    let cases = [
        ("request_latency<=1s", "avg of request_latency is not available for the run"),
        (
            "inter_token_latency:p99<=1s",
            "p99 of inter_token_latency is not available for the run; it requires --streaming",
        ),
        // It is there, but not a number.
        ("goodput>=1", "avg of goodput is not available for the run; it requires --goodput"),
        ("server:up>=0", "the run did not collect server metrics"),
    ];
    for (gate, why) in cases {
        let judged = of_client(gate);
        assert_eq!((judged.held, judged.value, judged.message().as_str()), (false, None, why));
    }
    // Without any request, there is no count.
    assert!(!judge("error_request_count==0", &NOTHING).held);
    let health = OutputHealth {
        verdict: Some(Verdict::Suspect),
        outputs: 2000,
        corrupted_outputs: 4,
        ..OutputHealth::default()
    };
    let suspect = Facts { outputs: Some(&health), ..NOTHING };
    assert!(judge("output_health==suspect", &suspect).held);
    assert!(!judge("output_health==valid", &suspect).held);
    assert!(judge("corrupted_outputs<=4", &suspect).held);
    assert!(!judge("corrupted_outputs<=0", &suspect).held);
    let unknown = judge("corrupted_outputs<=0", &NOTHING);
    assert_eq!(
        (unknown.held, unknown.note.as_deref()),
        (false, Some("the run does not have outputs"))
    );
    let load_verdict = Some(LoadVerdict::Saturated);
    let saturated = Facts { load_verdict, ..NOTHING };
    assert!(judge("load_health==saturated", &saturated).held);
    assert!(!judge("load_health==sustained", &saturated).held);
    let unknown = judge("load_health==sustained", &NOTHING);
    let note = "the run does not state a verdict on the load";
    assert_eq!((unknown.held, unknown.note.as_deref()), (false, Some(note)));
    let unknown = judge("client_health==valid", &NOTHING);
    assert!(!unknown.held && unknown.message().contains("does not state a verdict"), "{unknown:?}");
    let infinite = of_client("adj_time_to_first_token:p99<=1s");
    assert!(!infinite.held && infinite.value.is_none(), "{infinite:?}");
    assert_eq!(infinite.message(), "the value is infinite");
}

fn series(labels: &[(&str, &str)], stats: report::Stats) -> SeriesReport {
    let labels = labels.iter().map(|(name, value)| (Arc::from(*name), Arc::from(*value)));
    SeriesReport {
        endpoint_url: ShownUrl::from("http://a/metrics"),
        labels: labels.collect(),
        stats,
    }
}

fn metric(name: &str, kind: SeriesKind, unit: &str, series: Vec<SeriesReport>) -> MetricReport {
    MetricReport {
        name: Arc::from(name),
        kind,
        description: Arc::from(""),
        unit: Some(Arc::from(unit)),
        series,
    }
}

fn of_server(gate: &str) -> Judged {
    let gauge = |max: f64| {
        report::Stats::Gauge(GaugeStats { max, avg: max / 2.0, ..GaugeStats::default() })
    };
    let restarted = CounterStats {
        total: 5.0,
        rate: 2.0,
        resets: Some(Resets { reset_count: 1, total_with_resets: 9.0 }),
        ..CounterStats::default()
    };
    let report = ServerMetricsReport {
        metrics: vec![
            metric(
                "vllm:num_requests_waiting",
                SeriesKind::Gauge,
                "requests",
                vec![
                    series(&[("engine", "0")], gauge(4.0)),
                    series(&[("engine", "1"), ("rank", "a")], gauge(12.0)),
                ],
            ),
            metric(
                "vllm:num_preemptions",
                SeriesKind::Counter,
                "count",
                vec![series(&[], report::Stats::Counter(restarted))],
            ),
            metric("step_seconds", SeriesKind::Gauge, "seconds", vec![series(&[], gauge(0.5))]),
        ],
        ..ServerMetricsReport::default()
    };
    judge(gate, &Facts { server: Some(&report), ..NOTHING })
}

#[test]
fn every_matching_series_must_keep_the_limit() {
    let waiting = "server:vllm:num_requests_waiting";
    let value = |gate: &str| match of_server(gate) {
        Judged { value: Some(Reading::Number(value)), held, .. } => (value, held),
        other => panic!("{gate}: {other:?}"),
    };
    assert_eq!(value(&format!("{waiting}:max<=10")), (12.0, false));
    assert_eq!(value(&format!("{waiting}:max<=12")), (12.0, true));
    assert_eq!(value(&format!("{waiting}:max>=4")), (4.0, true));
    assert_eq!(value(&format!("{waiting}:max==12")), (4.0, false));
    assert_eq!(value(&format!("{waiting}{{engine=\"0\"}}:max<=10")), (4.0, true));
    assert_eq!(value(&format!("{waiting}{{rank=\"\"}}:max<=10")), (4.0, true));
    assert_eq!(value(&format!("{waiting}<=10")), (6.0, true));
    assert_eq!(value("server:step_seconds:max<=500ms"), (0.5, true));
    let judged = of_server(&format!("{waiting}:max<=10"));
    assert_eq!(
        judged.message(),
        "12 requests (of 2 series, {engine=\"1\",rank=\"a\"} at http://a/metrics), required <= 10 \
         requests"
    );
    let reset = of_server("server:vllm:num_preemptions_total:total<=5");
    assert!(reset.held, "{reset:?}");
    assert_eq!(reset.note.as_deref(), Some("doubtful: reset"));
}

#[test]
fn what_a_server_does_not_have_fails() {
    for (gate, why) in [
        ("server:vllm:other:max<=1", "no server exposed vllm:other"),
        (r#"server:vllm:num_requests_waiting{engine="7"}:max<=1"#, "has the labels"),
        (
            "server:vllm:num_preemptions:max<=1",
            "max is not available for any series of vllm:num_preemptions",
        ),
        ("server:vllm:num_requests_waiting:max<=1ms", "whose unit is requests"),
        ("server:step_seconds:max<=90%", "a limit in % does not fit"),
    ] {
        let judged = of_server(gate);
        assert!(!judged.held && judged.message().contains(why), "{gate}: {}", judged.message());
    }
}

#[test]
fn numbers_are_short_but_exact_enough() {
    let cases = [
        (250.0, "250"),
        (250.04, "250.04"),
        (0.95, "0.95"),
        (0.0, "0"),
        (-1.5, "-1.5"),
        (0.000_2, "2.000e-4"),
        (1e20, "1.000e20"),
        (100.0, "100"),
    ];
    for (number, shown) in cases {
        assert_eq!(Reading::Number(number).to_string(), shown);
    }
}

#[test]
fn finish_reasons_are_limited_by_number_and_by_share() {
    let mut reasons = NameCounts::default();
    for joined in ["stop", "stop", "stop", "content_filter"] {
        reasons.observe(Some(joined));
    }
    let judged = |gate: &str| judge(gate, &Facts { finish_reasons: &reasons, ..NOTHING });
    for (gate, value, unit, held) in [
        ("finish_reason:content_filter<=5%", 25.0, "%", false),
        ("finish_reason:content_filter<=25%", 25.0, "%", true),
        ("finish_reason:content_filter<=1", 1.0, "requests", true),
        ("finish_reason:stop>=90%", 75.0, "%", false),
        ("finish_reason:abort==0", 0.0, "requests", true),
    ] {
        let judged = judged(gate);
        let found = (judged.value, judged.unit.as_str(), judged.held);
        assert_eq!(found, (Some(Reading::Number(value)), unit, held), "{gate}");
    }
    // Without any reason, it is not known whether the output was filtered.
    let unknown = judge("finish_reason:content_filter<=5%", &NOTHING);
    assert_eq!((unknown.value, unknown.held), (None, false));
}

#[test]
fn a_percentile_of_too_few_requests_is_undecided() {
    let judged_with = |count, p90, p99| {
        let distribution = Some(Distribution { count, p90, p99, ..Distribution::UNKNOWN });
        [result("time_to_first_token", Stats { avg: 100.0, instant: None, distribution })]
    };
    let judged = |results: &[MetricResult], gate: &str| judge(gate, &Facts { results, ..NOTHING });
    let few = judged(&judged_with(50, 120.0, 200.0), "time_to_first_token:p99<=250ms");
    let note = "p99 of 50 requests: at least 368 needed, or gate p90";
    assert_eq!((few.held, few.undecided, few.note.as_deref()), (false, true, Some(note)));
    assert!(few.message().contains(note) && few.shown_result() == "undecided");
    // 0.9^50 is 0.5%: that the p90 misses the limit is known, so the p99 does as well.
    let missed = judged(&judged_with(50, 260.0, 300.0), "time_to_first_token:p99<=250ms");
    assert_eq!((missed.held, missed.undecided), (false, false));
    // All of four are beyond the limit, of which only 1% would be.
    let all = Distribution { count: 4, min: 3.0, p99: 4.0, ..Distribution::UNKNOWN };
    let all =
        [result("time_to_first_token", Stats { avg: 3.5, instant: None, distribution: Some(all) })];
    assert!(!judged(&all, "time_to_first_token:p99<=2ms").undecided);
    assert!(judged(&all, "time_to_first_token:p99<=3.5ms").undecided);
    for (results, gate) in [
        // That a p90 is above a lower limit holds for the p99 as well.
        (judged_with(50, 120.0, 200.0), "time_to_first_token:p99>=100ms"),
        (judged_with(50, 120.0, 200.0), "time_to_first_token:p90<=250ms"),
        (judged_with(368, 120.0, 200.0), "time_to_first_token:p99<=250ms"),
        (judged_with(50, 120.0, 200.0), "time_to_first_token<=250ms"),
    ] {
        let found = judged(&results, gate);
        assert_eq!((found.held, found.undecided), (true, false), "{gate}");
    }
    let run = || JudgedRun { label: None, failure: None, gates: vec![few.clone()] };
    let counted = |undecided| {
        let mut runs = [run()];
        JudgedRun::count(&mut runs, undecided);
        (JudgedRun::all_held(&runs), JudgedRun::any_missed(&runs))
    };
    assert_eq!(counted(None), (false, false));
    assert_eq!(counted(Some(Undecided::Pass)), (true, false));
    assert_eq!(counted(Some(Undecided::Fail)), (false, true));
}
