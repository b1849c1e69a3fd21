use proptest::prelude::*;

use super::*;

fn parse(text: &str) -> Condition {
    text.parse::<Gate>().unwrap_or_else(|error| panic!("{text}: {error}")).condition
}

fn error(text: &str) -> String {
    text.parse::<Gate>().map(|gate| gate.to_string()).unwrap_err().to_string()
}

/// Returns tag, statistic, operator and limit of a gate on a client's metric.
fn client(text: &str) -> (&'static str, &'static str, &'static str, f64) {
    match parse(text) {
        Condition::Metric { subject, operator, limit, .. } => {
            let statistic = subject.statistic.to_string().leak();
            (subject.metric.tag.name(), &*statistic, operator.symbol(), limit)
        }
        other => panic!("{text}: {other:?}"),
    }
}

#[test]
fn limits_are_in_the_unit_of_the_metric() {
    let ttft = "time_to_first_token";
    assert_eq!(client("time_to_first_token:p99<=250ms"), (ttft, "p99", "<=", 250.0));
    assert_eq!(client("time_to_first_token:p99 < 0.25s"), (ttft, "p99", "<", 250.0));
    assert_eq!(client("ttft:max<=250us"), (ttft, "max", "<=", 0.25));
    assert_eq!(client(" time_to_first_token <= 7 "), (ttft, "avg", "<=", 7.0));
    assert_eq!(client("time_to_first_token:count>=1_000"), (ttft, "count", ">=", 1000.0));
    assert_eq!(client("benchmark_duration<=2500ms").3, 2.5);
    assert_eq!(client("request_error_rate<=1%").3, 1.0);
    assert_eq!(client("request_error_rate<=1").3, 1.0);
    assert_eq!(client("good_request_fraction>=95%").3, 0.95);
    assert_eq!(client("request_throughput:avg>=2e1").3, 20.0);
    assert_eq!(client("error_request_count==0").2, "==");
    assert_eq!(client("osl_mismatch_diff_pct:min>-5%").3, -5.0);
    assert_eq!(client("adj_time_to_first_token:p99<=1s").3, 1000.0);
    assert_eq!(client("effective_concurrency:p90>=8").1, "p90");
}

#[test]
fn a_statistic_may_be_of_the_steady_state() {
    let is_steady = |text: &str| match parse(text) {
        Condition::Metric { subject, .. } => subject.is_steady,
        other => panic!("{text}: {other:?}"),
    };
    assert!(is_steady("steady:request_throughput>=20") && is_steady("steady: ttft:p99 <= 1s"));
    assert!(!is_steady("request_throughput>=20"));
    assert_eq!(client("steady:ttft:p99<=1s"), ("time_to_first_token", "p99", "<=", 1000.0));
    assert!(error("steady:request_latencies<=1s").contains("did you mean request_latency"));
    assert!(error("steady:<=1s").contains("unknown metric"));
}

#[test]
fn a_gate_may_be_on_a_phase() {
    let gate = |text: &str| text.parse::<Gate>().unwrap();
    assert_eq!(gate("phase:storm:ttft:p99<=1s").phase(), Some("storm"));
    assert_eq!(gate("ttft:p99<=1s").phase(), None);
    assert_eq!(client("phase: storm : ttft:p99 <= 1s"), client("ttft:p99<=1s"));
    assert_eq!(gate("phase:storm:ttft<=1s").metric(), "phase:storm:time_to_first_token");
    assert_eq!(gate("phase:a:steady:ttft<=1s").metric(), "phase:a:steady:time_to_first_token");
    assert_eq!(gate("phase:a:server:x:max<=1").metric(), "phase:a:server:x");
    assert!(error("phase:storm").contains("is not a gate"));
    assert!(error("phase:storm:client_health==valid").contains("is not a gate on a phase"));
}

#[test]
fn a_servers_metric_may_have_colons_and_labels() {
    let parsed = |text: &str| match parse(text) {
        Condition::Server { series, operator, limit } => (series, operator, limit),
        other => panic!("{text}: {other:?}"),
    };
    let series = |name: &str, labels: &[(&str, &str)], statistic: &str| Series {
        name: name.to_owned(),
        labels: labels.iter().map(|(a, b)| ((*a).to_owned(), (*b).to_owned())).collect(),
        statistic: statistic.to_owned(),
    };
    let waiting = "vllm:num_requests_waiting";
    let (found, operator, limit) = parsed("server:vllm:num_requests_waiting:max<=10");
    assert_eq!(found, series(waiting, &[], "max"));
    assert_eq!((operator, limit.number, limit.suffix), (Operator::AtMost, 10.0, None));
    assert_eq!(parsed("server:vllm:num_requests_waiting<10").0, series(waiting, &[], "avg"));
    assert_eq!(parsed("server:up==1").0, series("up", &[], "avg"));
    let labelled = r#"server:vllm:num_requests_waiting{engine="0",model="a<=\"b\""}:max <= 10"#;
    let labels = [("engine", "0"), ("model", "a<=\"b\"")];
    assert_eq!(parsed(labelled).0, series(waiting, &labels, "max"));
    assert_eq!(parsed(r#"server:a:max{b="c"}>1"#).0, series("a:max", &[("b", "c")], "avg"));
    let (found, _, limit) = parsed("server:vllm:e2e_request_latency_seconds:p99<=1500ms");
    assert_eq!(found.statistic, "p99");
    assert_eq!(limit.in_named_unit(Some("seconds")), Some(1.5));
    assert_eq!(limit.in_named_unit(Some("microseconds")), Some(1_500_000.0));
    assert_eq!(limit.in_named_unit(Some("requests")), None);
    assert_eq!(limit.in_named_unit(None), None);
    let (_, _, share) = parsed("server:vllm:kv_cache_usage_perc:max<=90%");
    assert_eq!(share.in_named_unit(Some("ratio")), Some(0.9));
    assert_eq!(share.in_named_unit(Some("percent")), Some(90.0));
}

#[test]
fn the_client_has_a_verdict() {
    assert!(matches!(parse("client_health==valid"), Condition::ClientHealth(Verdict::Valid)));
    let sustained = Condition::LoadHealth(LoadVerdict::Sustained);
    assert_eq!(format!("{:?}", parse("load_health==sustained")), format!("{sustained:?}"));
    for wrong in ["load_health==good", "load_health>=sustained"] {
        assert!(error(wrong).contains("load_health==sustained"), "{wrong}");
    }
    assert!(matches!(parse("output_health==valid"), Condition::OutputHealth(Verdict::Valid)));
    assert!(error("output_health==sustained").contains("output_health==valid"));
    assert!(error("corrupted_outputs<=1%").contains("corrupted_outputs<=0"));
    assert!(error("phase:storm:corrupted_outputs<=0").contains("not a gate on a phase"));
    for wrong in ["client_health==good", "client_health<=valid", "client_health>=1"] {
        assert!(error(wrong).contains("client_health==valid"), "{wrong}");
    }
}

#[test]
fn a_percentile_may_have_decimals() {
    let ttft = "time_to_first_token";
    assert_eq!(client("ttft:p99.9<=1s"), (ttft, "p99.9", "<=", 1000.0));
    assert_eq!(client("ttft:p0.5>=1ms"), (ttft, "p0.5", ">=", 1.0));
    let percentile = |text: &str| text.parse::<Gate>().unwrap().percentile();
    assert_eq!(percentile("ttft:p99.9<=1s").map(Percent::value), Some(99.9));
    // Every run has it.
    assert_eq!(percentile("ttft:p99<=1s"), None);
    assert!(error("effective_concurrency:p99.9>=8").contains("p99.9 is not available"));
}

#[test]
fn a_percentile_may_be_limited_with_a_confidence() {
    let parsed = |text: &str| match parse(text) {
        Condition::Metric { limit, confidence, .. } => (limit, confidence.map(Percent::value)),
        other => panic!("{text}: {other:?}"),
    };
    assert_eq!(parsed("ttft:p99<=250ms@99%"), (250.0, Some(99.0)));
    assert_eq!(parsed("ttft:p99.9 < 1 s @ 99.5 %"), (1000.0, Some(99.5)));
    assert_eq!(parsed("adj_time_to_first_token:p50<=7@95%"), (7.0, Some(95.0)));
    assert_eq!(parsed("output_token_throughput_per_user:p1>=20@99%"), (20.0, Some(99.0)));
    assert_eq!(parsed("ttft:p99<=250ms"), (250.0, None));
    for level in ["", "99", "100%", "49%", "0%", "x%"] {
        let text = error(&format!("ttft:p99<=250ms@{level}"));
        assert!(text.contains("is not valid; write a percentage of at least 50%"), "{text}");
    }
    for gate in [
        "ttft<=250ms@99%",
        "ttft:max<=250ms@99%",
        "ttft:p99==250ms@99%",
        "steady:ttft:p99<=250ms@99%",
        "request_throughput>=5@99%",
        "effective_concurrency:p99<=8@99%",
    ] {
        assert!(error(gate).contains("cannot have a confidence"), "{gate}: {}", error(gate));
    }
}

#[test]
fn a_latency_may_count_from_the_due_time() {
    let counting = |text: &str, from| text.parse::<Gate>().unwrap().counting(from).to_string();
    for (text, due) in [
        ("ttft:p99<=250ms", "effective_time_to_first_token:p99<=250ms"),
        ("time_to_first_token <= 1s", "effective_time_to_first_token<= 1s"),
        ("steady:request_latency:p99<=1s", "steady:effective_latency:p99<=1s"),
        ("e2el:p99.9<=1s@99%", "effective_latency:p99.9<=1s@99%"),
        ("inter_token_latency<=1s", "inter_token_latency<=1s"),
        ("phase:storm:steady:ttft<=1s", "phase:storm:steady:effective_time_to_first_token<=1s"),
        ("client_health==valid", "client_health==valid"),
    ] {
        assert_eq!(counting(text, LatencyFrom::Due), due);
        assert_eq!(counting(text, LatencyFrom::Sent), text);
    }
}

#[test]
fn what_is_not_a_gate_is_explained() {
    for wrong in [
        "",
        "<=",
        "<=5",
        "request_latency",
        "request_latency=5",
        "request_latency!=5",
        "server:",
        "server:<5",
        "server:up",
        "server:{}<5",
        "server:up{a=b}<5",
        "server:up{}x<5",
        r#"server:up{a="b"<5"#,
        "server::max<5",
    ] {
        assert!(error(wrong).contains("is not a gate"), "{wrong}: {}", error(wrong));
    }
    assert!(error("time_to_frist_token<=5").contains("did you mean time_to_first_token"));
    assert!(
        error("request_latency:p100<=5").contains("p95, p99, std, count, or another percentile")
    );
    assert!(error(r#"server:up{a="b"}:p98<=5"#).contains("unknown statistic \"p98\""));
    assert!(
        error("request_throughput:p99>=5")
            .contains("p99 is not available for request_throughput; use one of avg")
    );
    // Time-weighted metrics do not have a sum, and those with failures not a finite mean.
    assert!(error("effective_concurrency:sum>=5").contains("sum is not available"));
    assert!(
        error("adj_time_to_first_token<=5")
            .contains("avg is not available for adj_time_to_first_token; use one of min, p1")
    );
    for wrong in ["", "x", "5x", "ms", "%", "nan", "inf", "1e999", "5 5", "<5"] {
        let text = error(&format!("request_latency<={wrong}"));
        assert!(text.contains("is not a limit"), "{wrong}: {text}");
    }
    for wrong in ["request_latency<=5%", "request_throughput>=5ms", "request_latency:count>=5ms"] {
        assert!(error(wrong).contains("does not fit"), "{wrong}");
    }
    assert!(error("request_latency<=1e300s").contains("does not fit"));
}

proptest! {
    #[test]
    fn any_text_is_a_gate_or_an_error(text: String) {
        let _ = text.parse::<Gate>();
        let _ = format!("server:{text}<=1").parse::<Gate>();
        let _ = format!("request_latency<={text}").parse::<Gate>();
    }

    #[test]
    fn a_gate_is_what_its_text_says(
        metric in 0..crate::metrics::Registry::catalogue().len(),
        statistic in 0..Statistic::ALL.len(),
        operator in 0..Operator::ALL.len(),
        limit in -1e12_f64..1e12,
        blank in " ?",
    ) {
        let metric = crate::metrics::Registry::catalogue()[metric];
        let statistic = Statistic::ALL[statistic];
        let (symbol, _) = Operator::ALL[operator];
        let text =
            format!("{}:{}{blank}{symbol}{blank}{limit}", metric.tag, statistic);
        let parsed = text.parse::<Gate>();
        prop_assert_eq!(parsed.is_ok(), metric.has(statistic), "{}", text);
        if let Ok(gate) = parsed {
            let again = serde_json::from_str::<Gate>(&serde_json::to_string(&gate).unwrap());
            for gate in [gate, again.unwrap()] {
                let name = statistic.to_string();
                let expected = (metric.tag.name(), &*name, symbol, limit);
                prop_assert_eq!(client(&gate.to_string()), expected);
            }
        }
    }

    #[test]
    fn units_of_time_are_powers_of_a_thousand(number in 0.0_f64..1e9) {
        let limit_in = |unit: &str| client(&format!("request_latency<={number}{unit}")).3;
        let near = |a: f64, b: f64| (a - b).abs() <= 1e-12 * b.abs();
        prop_assert_eq!(limit_in(""), number);
        prop_assert!(near(limit_in("ms"), number));
        prop_assert!(near(limit_in("s"), number * 1e3));
        prop_assert!(near(limit_in("us"), number / 1e3));
        prop_assert!(near(limit_in("ns"), number / 1e6));
    }
}

#[test]
fn a_finish_reason_is_limited_by_a_number_or_a_share() {
    let gate: Gate = "finish_reason:content_filter <= 5%".parse().unwrap();
    assert_eq!(gate.metric(), "finish_reason:content_filter");
    assert_eq!((gate.statistic(), gate.percentile()), (None, None));
    for text in ["finish_reason:<=5%", "finish_reason:length<=5ms"] {
        let error = text.parse::<Gate>().unwrap_err();
        assert_eq!(error, GateError::FinishReason(text.to_owned()));
    }
    assert!("finish_reason:length<=many".parse::<Gate>().is_err());
}
