use proptest::prelude::*;

use base::redact::Secret;

use super::*;

fn resolve(url: Option<&str>, variables: &[(&str, &str)]) -> Result<Settings, TelemetryError> {
    let config = Config { url: url.map(Secret::new), ..Config::default() };
    let found = |name: &str| {
        let pair = variables.iter().find(|(have, _)| *have == name);
        pair.map(|(_, value)| (*value).to_owned())
    };
    Settings::resolve(&config, Environment::new(&found))
}

fn destination(url: Option<&str>, variables: &[(&str, &str)]) -> (String, Protocol) {
    let settings = resolve(url, variables).unwrap_or_else(|e| panic!("{e}"));
    let destination = settings.destination.expect("no destination");
    (destination.url.to_string(), destination.protocol)
}

fn complaint(url: Option<&str>, variables: &[(&str, &str)]) -> String {
    resolve(url, variables).err().expect("was accepted").to_string()
}

/// The flag's value, and the resulting destinations of metrics and traces.
const FLAGS: &[(&str, &str, &str, Protocol)] = &[
    ("localhost:4317", "http://localhost:4317/", "http://localhost:4317/", Protocol::Grpc),
    (
        "https://c.example:4317",
        "https://c.example:4317/",
        "https://c.example:4317/",
        Protocol::Grpc,
    ),
    ("http://c:9999/", "http://c:9999/v1/metrics", "http://c:9999/v1/traces", Protocol::Http),
    ("http://c", "http://c/v1/metrics", "http://c/v1/traces", Protocol::Http),
    ("http://c:4318", "http://c:4318/v1/metrics", "http://c:4318/v1/traces", Protocol::Http),
    ("c:4318/", "http://c:4318/v1/metrics", "http://c:4318/v1/traces", Protocol::Http),
    (
        "http://c:4318/v1/metrics",
        "http://c:4318/v1/metrics",
        "http://c:4318/v1/traces",
        Protocol::Http,
    ),
    (
        "http://c:4318/v1/metrics/",
        "http://c:4318/v1/metrics",
        "http://c:4318/v1/traces",
        Protocol::Http,
    ),
    (
        "http://c:4318/v1/traces",
        "http://c:4318/v1/metrics",
        "http://c:4318/v1/traces",
        Protocol::Http,
    ),
    (
        "http://c:4318/custom",
        "http://c:4318/custom/v1/metrics",
        "http://c:4318/custom/v1/traces",
        Protocol::Http,
    ),
    (
        "https://c/otlp/v1/metrics",
        "https://c/otlp/v1/metrics",
        "https://c/otlp/v1/traces",
        Protocol::Http,
    ),
    // The receivers of Prometheus 3 and of a hosted backend.
    (
        "http://localhost:9090/api/v1/otlp",
        "http://localhost:9090/api/v1/otlp/v1/metrics",
        "http://localhost:9090/api/v1/otlp/v1/traces",
        Protocol::Http,
    ),
    (
        "http://localhost:9090/api/v1/otlp/",
        "http://localhost:9090/api/v1/otlp/v1/metrics",
        "http://localhost:9090/api/v1/otlp/v1/traces",
        Protocol::Http,
    ),
    (
        "localhost:9090/api/v1/otlp/v1/metrics",
        "http://localhost:9090/api/v1/otlp/v1/metrics",
        "http://localhost:9090/api/v1/otlp/v1/traces",
        Protocol::Http,
    ),
    (
        "https://gw.example/otlp",
        "https://gw.example/otlp/v1/metrics",
        "https://gw.example/otlp/v1/traces",
        Protocol::Http,
    ),
];

#[test]
fn the_flag_is_a_base_or_the_url_of_a_signal() {
    for &(given, metrics, of_traces, protocol) in FLAGS {
        assert_eq!(destination(Some(given), &[]), (metrics.into(), protocol), "{given}");
        assert_eq!(traces(Some(given), &[]), (of_traces.into(), protocol, true), "{given}");
    }
}

type Variables<'a> = &'a [(&'a str, &'a str)];

/// The examples of "OTLP Exporter Configuration", "Endpoint URLs for OTLP/HTTP", and bases with and
/// without a trailing slash.
#[test]
fn variables_are_used_as_opentelemetry_says() {
    const BASE: &str = "OTEL_EXPORTER_OTLP_ENDPOINT";
    const METRICS: &str = "OTEL_EXPORTER_OTLP_METRICS_ENDPOINT";
    const TRACES: &str = "OTEL_EXPORTER_OTLP_TRACES_ENDPOINT";
    let table: [(Variables<'_>, &str, &str); 7] = [
        (
            &[(BASE, "http://collector:4318")],
            "http://collector:4318/v1/metrics",
            "http://collector:4318/v1/traces",
        ),
        (
            &[(BASE, "http://collector:4318/mycollector/")],
            "http://collector:4318/mycollector/v1/metrics",
            "http://collector:4318/mycollector/v1/traces",
        ),
        (
            &[(BASE, "http://collector/mycollector")],
            "http://collector/mycollector/v1/metrics",
            "http://collector/mycollector/v1/traces",
        ),
        (
            &[
                (TRACES, "http://collector:4318/"),
                (METRICS, "https://collector.example.com/v1/metrics"),
            ],
            "https://collector.example.com/v1/metrics",
            "http://collector:4318/",
        ),
        (
            &[(BASE, "http://example.com/api/"), (METRICS, "http://a:4318")],
            "http://a:4318/",
            "http://example.com/api/v1/traces",
        ),
        (
            &[(BASE, "http://example.com/api"), (TRACES, "http://t/custom/")],
            "http://example.com/api/v1/metrics",
            "http://t/custom/",
        ),
        (
            &[(METRICS, "http://c/v1/metrics/"), (TRACES, "http://c/v1/traces")],
            "http://c/v1/metrics/",
            "http://c/v1/traces",
        ),
    ];
    for (variables, metrics, of_traces) in table {
        assert_eq!(destination(None, variables), (metrics.into(), Protocol::Http), "{variables:?}");
        assert_eq!(traces(None, variables).0, of_traces, "{variables:?}");
    }
}

/// Flag, variables, and words of the error message.
type Case<'a> = (Option<&'a str>, Vec<(&'a str, &'a str)>, &'a [&'a str]);

#[test]
fn what_cannot_be_meant_is_refused_with_what_to_write() {
    let grpc = ("OTEL_EXPORTER_OTLP_PROTOCOL", "grpc");
    let base = |url| ("OTEL_EXPORTER_OTLP_ENDPOINT", url);
    let metrics = |url| ("OTEL_EXPORTER_OTLP_METRICS_ENDPOINT", url);
    let table: [Case<'_>; 6] = [
        (
            Some("http://c:4318/v1/metrics"),
            vec![grpc],
            &["write http://c:4318 as --otel-url", "OTEL_EXPORTER_OTLP_PROTOCOL to http/protobuf"],
        ),
        (Some("c:9090/api/v1/otlp"), vec![grpc], &["write http://c:9090 as --otel-url"]),
        (
            None,
            vec![base("http://c:4317/x"), grpc],
            &["write http://c:4317 as OTEL_EXPORTER_OTLP_ENDPOINT"],
        ),
        (
            None,
            vec![base("http://c/otlp/v1/metrics")],
            &["set it to http://c/otlp,", "set OTEL_EXPORTER_OTLP_METRICS_ENDPOINT"],
        ),
        (None, vec![base("http://c:4318/v1/traces/")], &["set it to http://c:4318,"]),
        (None, vec![metrics("http://c:4318/v1/traces")], &["set it to http://c:4318/v1/metrics"]),
    ];
    for (flag, variables, wanted) in table {
        let said = complaint(flag, &variables);
        assert!(wanted.iter().all(|words| said.contains(words)), "{said}");
    }
}

#[test]
fn without_a_scheme_a_variable_says_whether_the_way_is_secure() {
    let insecure = |value| [("OTEL_EXPORTER_OTLP_INSECURE", value)];
    for (given, variables, url) in [
        ("c:4317", &[][..], "http://c:4317/"),
        ("c:4317", &insecure("true"), "http://c:4317/"),
        ("c:4317", &insecure("False"), "https://c:4317/"),
        ("http://c:4317", &insecure("false"), "http://c:4317/"),
        ("https://c:4317", &insecure("true"), "https://c:4317/"),
    ] {
        assert_eq!(destination(Some(given), variables).0, url, "{given} {variables:?}");
    }
}

#[test]
fn variables_turn_off_what_variables_turned_on() {
    let base = ("OTEL_EXPORTER_OTLP_ENDPOINT", "http://c:4317");
    let is_on = |flag, more| resolve(flag, &[base, more]).unwrap().destination.is_some();
    for (off, on) in [
        (("OTEL_SDK_DISABLED", "TRUE"), ("OTEL_SDK_DISABLED", "1")),
        (("OTEL_METRICS_EXPORTER", "none"), ("OTEL_METRICS_EXPORTER", "console, otlp")),
    ] {
        assert!(!is_on(None, off), "{off:?}");
        assert!(is_on(None, on), "{on:?}");
        assert!(is_on(Some("f:4317"), off), "the flag wins over {off:?}");
    }
    let other = ("OTEL_METRICS_EXPORTER", "prometheus");
    assert!(complaint(None, &[base, other]).contains("must be otlp, otlp/stdout or none"));
    assert!(is_on(Some("f:4317"), other));
    // Nothing is exported in any case.
    assert!(resolve(None, &[other]).unwrap().destination.is_none());
    // Each signal has its own.
    let (url, _, _) = traces(None, &[base, ("OTEL_METRICS_EXPORTER", "none")]);
    assert_eq!(url, "http://c:4317/");
    for off in ["OTEL_TRACES_EXPORTER", "OTEL_SDK_DISABLED"] {
        let value = if off == "OTEL_SDK_DISABLED" { "true" } else { "none" };
        let found = |name: &str| match name {
            "OTEL_EXPORTER_OTLP_ENDPOINT" => Some("http://c:4317".to_owned()),
            _ => (name == off).then(|| value.to_owned()),
        };
        let refused =
            Settings::resolve(&traced(None), Environment::new(&found)).err().expect("was accepted");
        assert!(refused.to_string().contains(off), "{refused}");
    }
}

#[test]
fn the_kind_of_histograms_is_the_flags_else_the_variables() {
    const NAME: &str = "OTEL_EXPORTER_OTLP_METRICS_DEFAULT_HISTOGRAM_AGGREGATION";
    let settings_with = |flag, value: &str| {
        let url = Some("c:4317".to_owned());
        let config =
            Config { url: url.map(Secret::new), exponential_histograms: flag, ..Config::default() };
        Settings::resolve(
            &config,
            Environment::new(&|name| (name == NAME).then(|| value.to_owned())),
        )
        .map(|settings| settings.exponential)
    };
    let (explicit, exponential) =
        ("explicit_bucket_histogram", "BASE2_exponential_bucket_histogram");
    for (flag, value, wanted) in [
        (None, "", false),
        (None, explicit, false),
        (None, exponential, true),
        (Some(false), exponential, false),
        (Some(true), explicit, true),
    ] {
        assert_eq!(settings_with(flag, value).ok(), Some(wanted), "{flag:?} {value:?}");
    }
    assert!(
        settings_with(None, "exponential")
            .err()
            .unwrap()
            .to_string()
            .contains(exponential.to_lowercase().as_str())
    );
}

#[test]
fn a_certificate_without_its_key_is_refused() {
    let file = concat!(env!("CARGO_MANIFEST_DIR"), "/../../tests/golden/tls/client.pem");
    let (certificate, key) =
        ("OTEL_EXPORTER_OTLP_CLIENT_CERTIFICATE", "OTEL_EXPORTER_OTLP_METRICS_CLIENT_KEY");
    let said = complaint(Some("c:4317"), &[(certificate, file)]);
    assert!(
        said.starts_with(certificate) && said.contains("OTEL_EXPORTER_OTLP_CLIENT_KEY"),
        "{said}"
    );
    assert!(complaint(Some("c:4317"), &[(key, file)]).starts_with(key));
    // The key is that of metrics alone: there are none for events, which are optional.
    let settings = resolve(Some("c:4317"), &[(certificate, file), (key, file)]).unwrap();
    assert!(settings.destination.is_some() && settings.logs.is_none());
    let of_logs = "OTEL_EXPORTER_OTLP_LOGS_CLIENT_KEY";
    let variables = [(certificate, file), (key, file), (of_logs, file)];
    assert!(resolve(Some("c:4317"), &variables).unwrap().logs.is_some());
    let wrong = [("OTEL_EXPORTER_OTLP_LOGS_PROTOCOL", "smoke signals")];
    assert!(complaint(Some("c:4317"), &wrong).contains("_LOGS_PROTOCOL"));
}

#[test]
fn events_go_where_metrics_go_unless_they_are_turned_off() {
    let settings = resolve(Some("http://c:4318/otlp/v1/metrics"), &[]).unwrap();
    let logs = settings.logs.unwrap();
    assert_eq!(logs.url.as_str(), "http://c:4318/otlp/v1/logs");
    assert!(settings.destination.unwrap().is_reached_like(&logs));
    let off = [("OTEL_LOGS_EXPORTER", "none")];
    assert!(resolve(Some("http://c:4318"), &off).unwrap().logs.is_none());
    let own = [("OTEL_EXPORTER_OTLP_LOGS_ENDPOINT", "http://logs:1/x")];
    assert_eq!(resolve(None, &own).unwrap().logs.unwrap().url.as_str(), "http://logs:1/x");
}

/// Returns the destination of traces, and whether they share the connection of the metrics.
fn traces(url: Option<&str>, variables: &[(&str, &str)]) -> (String, Protocol, bool) {
    let config = traced(url);
    let found = |name: &str| {
        let pair = variables.iter().find(|(have, _)| *have == name);
        pair.map(|(_, value)| (*value).to_owned())
    };
    let settings =
        Settings::resolve(&config, Environment::new(&found)).unwrap_or_else(|e| panic!("{e}"));
    let traces = settings.traces.expect("no destination");
    let is_one = settings.destination.is_some_and(|metrics| metrics.is_reached_like(&traces));
    (traces.url.to_string(), traces.protocol, is_one)
}

fn traced(url: Option<&str>) -> Config {
    let trace_sample = "all".parse().ok();
    Config { url: url.map(Secret::new), trace_sample, ..Config::default() }
}

#[test]
fn variables_name_the_collector_of_traces_as_opentelemetry_says() {
    let base = ("OTEL_EXPORTER_OTLP_ENDPOINT", "http://base:4318/otlp/");
    let own = ("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT", "http://traces:4318/t");
    let metrics = ("OTEL_EXPORTER_OTLP_METRICS_ENDPOINT", "http://metrics:4318/m");
    let traces_with = |variables: &[(&str, &str)]| traces(None, variables);
    assert_eq!(
        traces_with(&[base]),
        ("http://base:4318/otlp/v1/traces".into(), Protocol::Http, true)
    );
    assert_eq!(traces_with(&[base, own]), ("http://traces:4318/t".into(), Protocol::Http, false));
    assert_eq!(traces_with(&[own]), ("http://traces:4318/t".into(), Protocol::Http, false));
    let flag = Some("http://flag:4317");
    assert_eq!(traces(flag, &[base, own]), ("http://flag:4317/".into(), Protocol::Grpc, true));
    let grpc = ("OTEL_EXPORTER_OTLP_TRACES_PROTOCOL", "grpc");
    let plain = ("OTEL_EXPORTER_OTLP_ENDPOINT", "http://base:4318");
    assert_eq!(traces_with(&[plain, grpc]), ("http://base:4318/".into(), Protocol::Grpc, false));
    let slow = ("OTEL_EXPORTER_OTLP_TRACES_TIMEOUT", "30000");
    assert!(!traces_with(&[base, slow]).2, "a channel has one timeout");

    // Settings for metrics alone do not apply to traces.
    let refused = Settings::resolve(
        &traced(None),
        Environment::new(&|name| (name == metrics.0).then(|| metrics.1.to_owned())),
    );
    assert!(refused.err().expect("was accepted").to_string().contains("--trace-sample"));
    // Without the flag, the variables for traces are ignored.
    let broken = [base, ("OTEL_EXPORTER_OTLP_TRACES_COMPRESSION", "zip")];
    assert!(resolve(None, &broken).unwrap().traces.is_none());
}

#[test]
fn the_variable_decides_the_protocol_over_the_url() {
    let grpc = [("OTEL_EXPORTER_OTLP_PROTOCOL", "grpc")];
    assert_eq!(
        destination(Some("http://c:4318"), &grpc),
        ("http://c:4318/".into(), Protocol::Grpc)
    );
    let both = [
        ("OTEL_EXPORTER_OTLP_PROTOCOL", "grpc"),
        ("OTEL_EXPORTER_OTLP_METRICS_PROTOCOL", "http/protobuf"),
    ];
    assert_eq!(
        destination(Some("http://c:4317"), &both),
        ("http://c:4317/v1/metrics".into(), Protocol::Http)
    );
    let json = [("OTEL_EXPORTER_OTLP_PROTOCOL", "http/json")];
    assert_eq!(
        destination(Some("http://c:4317"), &json),
        ("http://c:4317/v1/metrics".into(), Protocol::HttpJson)
    );
    let other = [("OTEL_EXPORTER_OTLP_PROTOCOL", "http/xml")];
    assert!(complaint(Some("http://c"), &other).contains("http/json"));
}

#[test]
fn the_flag_wins_over_the_variables() {
    let base = ("OTEL_EXPORTER_OTLP_ENDPOINT", "http://base:4318/otlp/");
    let metrics = ("OTEL_EXPORTER_OTLP_METRICS_ENDPOINT", "http://metrics:4318/m");
    assert_eq!(destination(Some("http://flag:4317"), &[base, metrics]).0, "http://flag:4317/");
    assert_eq!(destination(None, &[base, metrics]).0, "http://metrics:4318/m");
    assert_eq!(destination(None, &[base]).0, "http://base:4318/otlp/v1/metrics");
    assert!(resolve(None, &[]).unwrap().destination.is_none());
    assert!(resolve(Some(" "), &[]).unwrap().destination.is_none());
}

#[test]
fn the_temporality_is_that_of_the_flag_or_of_the_variable() {
    use Temporality::{Cumulative, Delta, LowMemory};
    let temporality = |flag, value: Option<&str>| {
        let config = Config {
            temporality: flag,
            url: Some(Secret::new("c:4317".to_owned())),
            ..Config::default()
        };
        let found = |name: &str| {
            let is_asked = name == "OTEL_EXPORTER_OTLP_METRICS_TEMPORALITY_PREFERENCE";
            value.filter(|_| is_asked).map(str::to_owned)
        };
        Settings::resolve(&config, Environment::new(&found)).map(|settings| settings.temporality)
    };
    let table = [
        (None, None, Cumulative),
        (None, Some("Cumulative"), Cumulative),
        (None, Some("DELTA"), Delta),
        (None, Some("lowmemory"), LowMemory),
        (Some(Cumulative), Some("delta"), Cumulative),
        (Some(Delta), None, Delta),
    ];
    for (flag, value, expected) in table {
        assert_eq!(temporality(flag, value).ok(), Some(expected), "{flag:?} {value:?}");
    }
    let refused = temporality(None, Some("deltas")).err().unwrap().to_string();
    assert!(refused.contains("must be cumulative, delta or lowmemory"), "{refused}");
}

#[test]
fn the_newest_names_are_exported_if_the_flag_or_the_variable_asks_for_them() {
    use Conventions::{Both, Latest, V1_41};
    let conventions = |flag, value: Option<&str>| {
        let config = Config { conventions: flag, ..Config::default() };
        let found = |name: &str| {
            value.filter(|_| name == "OTEL_SEMCONV_STABILITY_OPT_IN").map(str::to_owned)
        };
        Settings::resolve(&config, Environment::new(&found)).unwrap().conventions
    };
    assert_eq!(conventions(None, None), V1_41);
    assert_eq!(conventions(None, Some("http, gen_ai_latest_experimental")), Latest);
    assert_eq!(conventions(None, Some("http,gen_ai")), V1_41);
    assert_eq!(conventions(Some(Both), Some("gen_ai_latest_experimental")), Both);
    assert_eq!(conventions(Some(V1_41), Some("gen_ai_latest_experimental")), V1_41);
}

#[test]
fn exemplars_are_those_of_sampled_requests_unless_the_variable_says_otherwise() {
    let filter = |value| {
        let variables = [("OTEL_METRICS_EXEMPLAR_FILTER", value)];
        resolve(Some("http://c:4317"), &variables).map(|settings| settings.exemplars)
    };
    let table = [
        ("", ExemplarFilter::TraceBased),
        ("always_on", ExemplarFilter::AlwaysOn),
        ("ALWAYS_OFF", ExemplarFilter::AlwaysOff),
        ("trace_based", ExemplarFilter::TraceBased),
    ];
    for (value, expected) in table {
        assert_eq!(filter(value).ok(), Some(expected), "{value}");
    }
    let refused = filter("on").err().unwrap().to_string();
    assert!(refused.contains("must be always_on, always_off or trace_based"), "{refused}");
}

#[test]
fn secrets_are_in_no_message() {
    let url = complaint(Some("http://user:hunter2@c:4317"), &[]);
    assert!(!url.contains("hunter2") && url.contains("OTEL_EXPORTER_OTLP_HEADERS"), "{url}");
    let url = complaint(Some("http://user:hunter2@c:99999?key=hunter2"), &[]);
    assert!(!url.contains("hunter2"), "{url}");
    for headers in ["Authorization hunter2", "x-key=hunter2%0A", "hunter2 x=1"] {
        let message = complaint(Some("http://c:4317"), &[("OTEL_EXPORTER_OTLP_HEADERS", headers)]);
        assert!(!message.contains("hunter2"), "{message}");
    }
}

#[test]
fn headers_for_metrics_replace_the_others() {
    let variables = [
        ("OTEL_EXPORTER_OTLP_HEADERS", "a=1,b=2"),
        ("OTEL_EXPORTER_OTLP_METRICS_HEADERS", "Authorization=Bearer%20x%3D, c = 3,"),
    ];
    let settings = resolve(Some("http://c:4317"), &variables).unwrap();
    let headers = settings.destination.unwrap().headers;
    assert_eq!(headers.len(), 2);
    assert_eq!(headers["authorization"], "Bearer x=");
    assert_eq!(headers["c"], "3");
    assert!(headers.values().all(HeaderValue::is_sensitive));
}

#[test]
fn standard_times_are_milliseconds_and_ours_come_first() {
    let settings_with = |variables: &[(&str, &str)]| {
        let settings = resolve(Some("http://c:4317"), variables).unwrap();
        (settings.interval, settings.destination.unwrap().timeout)
    };
    let seconds = Duration::from_secs_f64;
    assert_eq!(settings_with(&[]), (seconds(2.0), seconds(10.0)));
    let standard = [("OTEL_METRIC_EXPORT_INTERVAL", "500"), ("OTEL_EXPORTER_OTLP_TIMEOUT", "1500")];
    assert_eq!(settings_with(&standard), (seconds(0.5), seconds(1.5)));
    let ours = [standard[0], standard[1], ("AIPERF_OTEL_FLUSH_INTERVAL_SECONDS", "2")];
    assert_eq!(settings_with(&ours), (seconds(2.0), seconds(1.5)));
    assert!(complaint(Some("c:1"), &[("OTEL_METRIC_EXPORT_INTERVAL", "2s")]).contains("number"));
}

#[test]
fn times_that_make_no_sense_are_refused() {
    for interval_seconds in [0.0, -1.0, f64::NAN, f64::INFINITY] {
        let config =
            Config { url: Some(Secret::new("c:1")), interval_seconds, ..Config::default() };
        assert!(
            Settings::resolve(&config, Environment::new(&|_| None)).is_err(),
            "{interval_seconds}"
        );
    }
}

#[test]
fn resource_attributes_are_decoded_and_the_last_of_a_key_counts() {
    let variables = [("OTEL_RESOURCE_ATTRIBUTES", "a=x%2Cy,b=1,a=100%")];
    let settings = resolve(Some("c:1"), &variables).unwrap();
    let expected = [KeyValue::new("a", "100%"), KeyValue::new("b", "1")];
    assert_eq!(settings.resource_attributes, expected);
}

#[test]
fn a_missing_certificate_is_named() {
    let variables = [("OTEL_EXPORTER_OTLP_CERTIFICATE", "/no/such/ca.pem")];
    let message = complaint(Some("https://c:4317"), &variables);
    assert!(message.contains("/no/such/ca.pem") && message.contains("OTEL_EXPORTER_OTLP_CERT"));
}

proptest! {
    #[test]
    fn any_values_are_taken_or_refused(url in ".{0,40}", list in ".{0,40}") {
        let variables = [
            ("OTEL_EXPORTER_OTLP_HEADERS", list.as_str()),
            ("OTEL_RESOURCE_ATTRIBUTES", list.as_str()),
        ];
        let _ = resolve(Some(&url), &variables);
    }

    #[test]
    fn encoded_pairs_come_back(key in "[a-z.]{1,8}", value in "\\PC{0,12}") {
        let encoded: Vec<String> = value.bytes().map(|byte| format!("%{byte:02X}")).collect();
        let text = format!("{key}={}", encoded.concat());
        let read = pairs(Environment::new(&|_| Some(text.clone())), "OTEL_RESOURCE_ATTRIBUTES").unwrap();
        prop_assert_eq!(read, vec![(key, value)]);
    }
}
