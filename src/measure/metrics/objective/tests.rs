use proptest::prelude::*;

use super::*;

fn error(text: &str) -> MetricsError {
    parse_objectives(text).unwrap_err()
}

#[test]
fn pairs_are_read_in_order() {
    let objectives = parse_objectives(" time_to_first_token:50\tinter_token_latency:1e1 ").unwrap();
    assert_eq!(
        objectives,
        [
            Objective { tag: tag::TIME_TO_FIRST_TOKEN, threshold: 50.0 },
            Objective { tag: tag::INTER_TOKEN_LATENCY, threshold: 10.0 },
        ]
    );
    assert_eq!(parse_objectives("").unwrap(), []);
}

#[test]
fn what_is_wrong_is_said() {
    assert_eq!(error("x"), MetricsError::MalformedObjective("x".to_owned()));
    assert_eq!(error(":5"), MetricsError::MalformedObjective(":5".to_owned()));
    assert_eq!(error("goodput:5"), MetricsError::NotPerRequest(tag::GOODPUT));
    assert_eq!(
        error("inter_chunk_latency:5"),
        MetricsError::NotPerRequest(tag::INTER_CHUNK_LATENCY)
    );
    assert_eq!(
        error("request_latency:1 request_latency:2"),
        MetricsError::RepeatedObjective(tag::REQUEST_LATENCY)
    );
    for bound in ["NaN", "inf", "5ms", "1:2"] {
        let error = error(&format!("request_latency:{bound}")).to_string();
        assert!(error.contains(bound) && error.contains("in ms"), "{error}");
    }
}

#[test]
fn a_name_that_is_not_there_gets_those_near_it() {
    let MetricsError::UnknownObjective { tag, near } = error("time_to_frist_token:5") else {
        panic!("another error")
    };
    assert_eq!((tag.as_str(), near[0]), ("time_to_frist_token", tag::TIME_TO_FIRST_TOKEN));
    let unlike = error("zzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzz:5").to_string();
    assert!(unlike.contains("aiperf list metrics"), "{unlike}");
}

proptest! {
    #[test]
    fn any_text_is_read_or_refused(text in ".{0,80}") {
        let _ = parse_objectives(&text);
    }

    #[test]
    fn any_bound_is_read_back(bound in -1e12..1e12f64) {
        let objectives = parse_objectives(&format!("request_latency:{bound}")).unwrap();
        prop_assert_eq!(objectives[0].threshold, bound);
    }
}

#[test]
fn objectives_can_be_written_as_limits() {
    let limits = "ttft<=0.2s output_token_throughput_per_user>=5 itl<=10";
    let pairs = "ttft:200 output_token_throughput_per_user:5 itl:10";
    assert_eq!(parse_objectives(limits).unwrap(), parse_objectives(pairs).unwrap());
    for (text, why) in [
        ("ttft>=200ms", "write time_to_first_token<=LIMIT"),
        ("output_token_throughput_per_user<=5", "write output_token_throughput_per_user>=LIMIT"),
        ("ttft<200ms", "write time_to_first_token<=LIMIT"),
        ("ttft:p99<=200ms", "does not have a single value"),
        ("request_throughput>=5", "does not have a single value"),
        ("ttft<=5%", "does not fit"),
        ("ttft<=fast", "is not a limit"),
    ] {
        let found = parse_objectives(text).unwrap_err().to_string();
        assert!(found.contains(why), "{text}: {found}");
    }
}

#[test]
fn limits_take_the_names_that_people_type() {
    let limit = |text: &str| {
        let Limit { metric, statistic, operator, bound } = Limit::parse(text).unwrap();
        (metric.tag, statistic.to_string(), operator, bound)
    };
    let avg = || "avg".to_owned();
    let least = Operator::AtLeast;
    for (text, tag) in [
        ("rps>=5", tag::REQUEST_THROUGHPUT),
        ("throughput>=5", tag::REQUEST_THROUGHPUT),
        ("tps>=5", tag::OUTPUT_TOKEN_THROUGHPUT),
    ] {
        assert_eq!(limit(text), (tag, avg(), least, 5.0), "{text}");
    }
    let most = Operator::AtMost;
    assert_eq!(limit("error_rate<=1%"), (tag::REQUEST_ERROR_RATE, avg(), most, 1.0));
    assert_eq!(limit("success_rate>=99.5%"), (tag::REQUEST_ERROR_RATE, avg(), most, 0.5));
    assert_eq!(limit("success_rate==100"), (tag::REQUEST_ERROR_RATE, avg(), Operator::Equal, 0.0));
    for text in
        ["p99_ttft<=250ms", "ttft_p99<=250ms", "time_to_first_token_p99<=250", "ttft:p99<=0.25s"]
    {
        let expected = (tag::TIME_TO_FIRST_TOKEN, "p99".to_owned(), most, 250.0);
        assert_eq!(limit(text), expected, "{text}");
    }
    for wrong in
        ["success_rate>=1s", "success_rate>=x", "p99_ttft:p50<=1", "p101_ttft<=1", "_ttft<=1"]
    {
        assert!(Limit::parse(wrong).is_err(), "{wrong}");
    }
}
