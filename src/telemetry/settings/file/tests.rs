use std::collections::BTreeSet;
use std::fs;

use proptest::prelude::*;

use base::input::yaml::Room;

use super::super::{Protocol, Settings};
use super::*;
use crate::{Config, Temporality};

const EXAMPLES: [&str; 3] =
    ["1-metrics-grpc.yaml", "2-delta-http-mtls.yaml", "3-all-signals-detectors.yaml"];

fn golden(name: &str) -> String {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../tests/golden/otel-config/");
    fs::read_to_string(format!("{path}{name}")).unwrap()
}

/// The settings of a file with these variables.
fn declared(text: &str, variables: &[(&str, &str)]) -> Result<Declared, String> {
    let lookup = |name: &str| {
        variables.iter().find(|(key, _)| *key == name).map(|(_, value)| (*value).to_owned())
    };
    Declared::parse(text, Environment::new(&lookup))
}

/// Resolves the settings of aiperf with a file, without flags.
fn resolved(text: &str) -> Result<Settings, String> {
    let place = tempfile::NamedTempFile::new().unwrap();
    fs::write(place.path(), text).unwrap();
    let path = place.path().display().to_string();
    let lookup = |name: &str| match name {
        NAME => Some(path.clone()),
        "OTLP_TOKEN" => Some("12345".to_owned()),
        // Ignored, since the file does not refer to it.
        "OTEL_EXPORTER_OTLP_ENDPOINT" => Some("http://other:4317".to_owned()),
        _ => None,
    };
    Settings::resolve(&Config::default(), Environment::new(&lookup)).map_err(|it| it.to_string())
}

#[test]
fn the_examples_have_their_meaning() {
    let settings = resolved(&golden(EXAMPLES[0])).unwrap();
    let to = settings.destination.unwrap();
    assert_eq!((to.url.as_str(), to.protocol), ("http://localhost:4317/", Protocol::Grpc));
    assert_eq!(to.headers["authorization"], "Bearer 12345");
    assert_eq!((to.gzip, to.timeout.as_secs()), (true, 10));
    assert_eq!((settings.interval.as_secs(), settings.exponential), (2, true));
    assert!(settings.traces.is_none());
    let attribute = |name: &str| {
        let found = settings.resource_attributes.iter().find(|it| it.key.as_str() == name);
        found.map(|it| it.value.clone())
    };
    assert_eq!(attribute("service.name"), Some("aiperf".into()));
    assert_eq!(attribute("aiperf.repetition"), Some(1_i64.into()));

    let variables = [
        ("OTEL_RESOURCE_ATTRIBUTES", "team=a%20b"),
        ("OTEL_EXPORTER_OTLP_HEADERS", "x-key=s"),
        ("OTEL_SERVICE_NAME", "nightly"),
    ];
    let found = declared(&golden(EXAMPLES[1]), &variables).unwrap();
    let variable = |name: &str| found.variables.get(name).map(String::as_str);
    assert_eq!(
        variable("OTEL_EXPORTER_OTLP_METRICS_ENDPOINT"),
        Some("https://collector.example:4318/v1/metrics")
    );
    assert_eq!(variable("OTEL_EXPORTER_OTLP_TRACES_PROTOCOL"), Some("http/protobuf"));
    assert_eq!(variable("OTEL_EXPORTER_OTLP_TRACES_CLIENT_KEY"), Some("/etc/aiperf/client.key"));
    assert_eq!(variable("OTEL_EXPORTER_OTLP_METRICS_TEMPORALITY_PREFERENCE"), Some("delta"));
    assert_eq!(variable("OTEL_EXPORTER_OTLP_METRICS_HEADERS"), Some("x-key=s"));
    assert_eq!(variable("OTEL_METRIC_EXPORT_INTERVAL"), Some("5000"));
    assert_eq!(variable("OTEL_RESOURCE_ATTRIBUTES"), Some("team=a%20b"));
    assert_eq!(found.sample.unwrap().percent, Some(5.0));
    assert_eq!(
        found.ignored,
        [
            "attribute_limits",
            "tracer_provider.processors[0].batch.schedule_delay",
            "tracer_provider.processors[0].batch.max_queue_size",
            "tracer_provider.limits",
        ]
    );

    let settings = resolved(&golden(EXAMPLES[2])).unwrap();
    assert_eq!(settings.temporality, Temporality::LowMemory);
    assert_eq!(settings.interval.as_secs(), 60);
    let found = declared(&golden(EXAMPLES[2]), &[]).unwrap();
    assert_eq!(found.sample.unwrap().percent, Some(25.0));
    assert_eq!(found.variables["OTEL_SEMCONV_STABILITY_OPT_IN"], "gen_ai_latest_experimental");
    for ignored in ["log_level", "resource.schema_url", "meter_provider.views"] {
        assert!(found.ignored.iter().any(|it| it == ignored), "{:?}", found.ignored);
    }
}

#[test]
fn the_conventions_have_a_setting_of_their_own() {
    let semconv = |settings: &str| {
        let general = format!("{{general: {{gen_ai: {{semconv: {settings}}}}}}}");
        let metrics = "meter_provider: {readers: [{periodic: {exporter: {otlp_grpc: }}}]}";
        let text =
            format!("file_format: \"1.1\"\n{metrics}\ninstrumentation/development: {general}");
        resolved(&text).unwrap().conventions
    };
    assert_eq!(semconv("{experimental: true}"), Conventions::Latest);
    assert_eq!(semconv("{experimental: true, dual_emit: true}"), Conventions::Both);
    assert_eq!(semconv("{version: 1}"), Conventions::V1_41);
}

#[test]
fn references_have_the_values_of_variables() {
    let variables = [("NAME", "a"), ("NUMBER", "5"), ("YAML", "x: [1"), ("DOLLAR", "${NAME}")];
    let lookup = |name: &str| {
        variables.iter().find(|(key, _)| *key == name).map(|(_, value)| (*value).to_owned())
    };
    let declared = |text: &str| {
        substitution::substitute(text, Environment::new(&lookup), &mut Room::default())
    };
    let table = [
        ("${NAME}", "a"),
        ("${env:NAME}-${NUMBER}", "a-5"),
        ("${MISSING:-b c}", "b c"),
        ("${MISSING}", ""),
        ("${NAME:-b}", "a"),
        ("$${NAME}", "${NAME}"),
        ("$$$${NAME}", "$${NAME}"),
        ("$$${NAME}", "$a"),
        ("$NAME and $", "$NAME and $"),
        // Values are not looked into, neither for references nor for structure.
        ("${DOLLAR}", "${NAME}"),
        ("${YAML}", "x: [1"),
    ];
    for (text, expected) in table {
        assert_eq!(declared(text).unwrap().0, expected, "{text}");
    }
    for text in ["${1A}", "${}", "${A:?x}", "${sys:A}", "${A B}"] {
        assert!(declared(text).unwrap_err().contains("is not valid"), "{text}");
    }
}

#[test]
fn a_file_has_the_limits_of_other_configuration_files() {
    for nested in ["[".repeat(400_000), "{a: ".repeat(100_000), "- ".repeat(200_000)] {
        let error = declared(&format!("file_format: \n {nested}"), &[]).unwrap_err();
        assert_eq!(error, "is nested more than 128 levels deep");
    }
    let big = "x".repeat(1 << 17);
    let text = format!(
        "file_format: \"1.0\"\nresource: {{attributes_list: \"{}\"}}",
        "${BIG}".repeat(20_000)
    );
    let error = declared(&text, &[("BIG", &big)]).unwrap_err();
    assert!(error.ends_with("the values of variables exceed 4 MiB"), "{error}");
    let place = tempfile::NamedTempFile::new().unwrap();
    fs::write(place.path(), "#".repeat((1 << 20) + 1)).unwrap();
    let lookup = |name: &str| (name == NAME).then(|| place.path().display().to_string());
    let error = Declared::read(Environment::new(&lookup)).unwrap_err();
    let causes = base::causes::described(&error);
    assert!(causes.contains("larger than 1 MiB"), "{causes}");
}

#[test]
fn what_is_wrong_is_named_by_its_place_and_no_value_is_repeated() {
    let reader = |exporter: &str| {
        format!("file_format: \"1.0\"\nmeter_provider: {{readers: [{{periodic: {exporter}}}]}}")
    };
    let table = [
        ("disabled: true".to_owned(), "requires file_format"),
        ("file_format: 1.0".to_owned(), "requires file_format"),
        ("file_format: \"2.0\"".to_owned(), "file_format must be"),
        ("file_format: [".to_owned(), "is not valid YAML at line 2"),
        ("file_format: \"1.0\"\ndisabled: secret".to_owned(), "disabled must be true or false"),
        ("file_format: \"1.0\"\nresource: !a {}".to_owned(), "tag"),
        (reader("{}"), "meter_provider.readers[0].periodic requires exporter"),
        (
            reader("{exporter: {otlp_grpc: {endpont: secret}}}"),
            "meter_provider.readers[0].periodic.exporter.otlp_grpc has an unknown key \"endpont\"; \
             did you mean endpoint?",
        ),
        (reader("{exporter: {otlp_grpc: , console: }}"), "exporter must have 1 key"),
        (
            reader("{interval: -1, exporter: {otlp_grpc: }}"),
            "interval must be a whole number of at least 0",
        ),
        (
            reader("{exporter: {otlp_http: {temporality_preference: lowmemory}}}"),
            "temporality_preference must be one of cumulative, delta, low_memory",
        ),
        (
            reader("{exporter: {otlp_http: {endpoint: \"${A:?secret}\"}}}"),
            "meter_provider.readers[0].periodic.exporter.otlp_http.endpoint has a reference",
        ),
        (reader("{exporter: {otlp_http: {endpoint: 5}}}"), "otlp_http.endpoint must be text"),
        (reader("{exporter: {otlp_http: {endpoint: [secret]}}}"), "endpoint must be text"),
        (reader("{exporter: {otlp_http: secret}}"), "exporter.otlp_http must be a mapping"),
        (reader("{exporter: {otlp_http: {timeout: 1.5}}}"), "timeout must be a whole number"),
        (reader("{exporter: {otlp_http: {tls: {insecure: true}}}}"), "key \"insecure\""),
        (
            reader("{exporter: {otlp_http: {headers: [{value: secret}]}}}"),
            "headers[0] requires name",
        ),
        (reader("{exporter: {otlp_http: {headers: []}}}"), "headers must have at least 1 item"),
        ("file_format: \"1.0\"\nmeter_provider: {}".to_owned(), "meter_provider requires readers"),
        (
            "file_format: \"1.0\"\nresource: {attributes: {a: secret}}".to_owned(),
            "resource.attributes must be a list",
        ),
        (
            "file_format: \"1.0\"\nresource: {attributes: [{name: a, value: secret, type: int}]}"
                .to_owned(),
            "resource.attributes[0].value is not a value of the type int",
        ),
        (
            "file_format: \"1.0\"\ntracer_provider: {processors: [{batch: {exporter: {otlp_grpc: \
             }}}], sampler: {trace_id_ratio_based: {ratio: 2}}}"
                .to_owned(),
            "tracer_provider.sampler.trace_id_ratio_based.ratio must be a number from 0 to 1",
        ),
    ];
    for (text, why) in table {
        let reason = declared(&text, &[]).unwrap_err();
        assert!(reason.contains(why), "{text}\n{reason}");
        assert!(!reason.contains("secret"), "{reason}");
    }
    let reason =
        resolved(&reader("{exporter: {otlp_http: {endpoint: \"ftp://a\"}}}")).err().unwrap();
    assert!(reason.starts_with("OTEL_CONFIG_FILE") && reason.contains("http or https"), "{reason}");
}

#[test]
fn a_provider_that_is_missing_or_disabled_exports_nothing() {
    let metrics = "meter_provider: {readers: [{periodic: {exporter: {otlp_grpc: }}}]}";
    let settings = resolved(&format!("file_format: \"1.0\"\n{metrics}")).unwrap();
    assert_eq!(settings.destination.unwrap().url.as_str(), "http://localhost:4317/");
    for text in [
        "file_format: \"1.0\"".to_owned(),
        format!("file_format: \"1.0\"\ndisabled: true\n{metrics}"),
        "file_format: \"1.0\"\nmeter_provider: {readers: [{periodic: {exporter: {console: }}}]}"
            .to_owned(),
    ] {
        assert!(resolved(&text).unwrap().destination.is_none(), "{text}");
    }
}

/// Changes one place of a document: removes it, renames it, or gives it another value.
fn changed(value: &mut Value, path: &mut impl Iterator<Item = usize>, change: usize) {
    let Some(at) = path.next() else { return };
    let others = [
        Value::Null,
        (-1).into(),
        "word".into(),
        true.into(),
        Value::Array(vec![]),
        serde_json::json!({}),
    ];
    let other = others[change % others.len()].clone();
    match value {
        Value::Object(members) if !members.is_empty() => {
            let key = members.keys().nth(at % members.len()).cloned().unwrap();
            match at % 5 {
                0 => {
                    members.remove(&key);
                }
                1 => {
                    let inner = members.remove(&key).unwrap();
                    members.insert(format!("{key}x"), inner);
                }
                _ => changed(&mut members[&key], path, change),
            }
        }
        Value::Array(items) if !items.is_empty() => {
            let at = at % items.len();
            changed(&mut items[at], path, change);
        }
        place => *place = other,
    }
}

/// The schemas that OpenTelemetry publishes, without titles and descriptions.
fn schemas() -> [Value; 2] {
    ["schema-1.0.json", "schema-1.1.json"].map(|name| serde_json::from_str(&golden(name)).unwrap())
}

#[test]
fn keys_are_those_of_the_published_schemas() {
    for (definition, keys) in [
        ("Resource", RESOURCE),
        ("AttributeNameValue", ATTRIBUTE),
        ("MeterProvider", METER_PROVIDER),
        ("PeriodicMetricReader", PERIODIC),
        ("TracerProvider", TRACER_PROVIDER),
        ("LoggerProvider", LOGGER_PROVIDER),
        ("BatchSpanProcessor", BATCH),
        ("BatchLogRecordProcessor", BATCH),
        ("SimpleSpanProcessor", Keys::Of("exporter")),
        ("OtlpGrpcExporter", GRPC),
        ("OtlpHttpExporter", HTTP),
        ("ExperimentalOtlpFileExporter", FILE),
        ("OtlpGrpcMetricExporter", METRIC_GRPC),
        ("OtlpHttpMetricExporter", METRIC_HTTP),
        ("ExperimentalOtlpFileMetricExporter", METRIC_FILE),
        ("GrpcTls", GRPC_TLS),
        ("HttpTls", HTTP_TLS),
        ("NameStringValuePair", Keys::Of("name value")),
        ("ParentBasedSampler", PARENT_BASED),
        ("TraceIdRatioBasedSampler", Keys::Of("ratio")),
        ("ExperimentalComposableParentThresholdSampler", Keys::Of("root")),
        ("Propagator", PROPAGATOR),
        ("ExperimentalGeneralInstrumentation", GENERAL),
        ("ExperimentalGenAiInstrumentation", Keys::Of("semconv")),
        ("ExperimentalSemconvConfig", SEMCONV),
    ] {
        let names_in = |schema: &Value| -> Vec<String> {
            let properties = schema["$defs"][definition]["properties"].as_object().unwrap();
            properties.keys().cloned().collect()
        };
        let expected: BTreeSet<String> = schemas().iter().flat_map(names_in).collect();
        let Keys::Of(keys) = keys else { panic!("{definition}") };
        assert_eq!(keys.split(' ').map(str::to_owned).collect::<BTreeSet<_>>(), expected);
    }
}

proptest! {
    /// A document that a complete implementation of JSON Schema accepts is read.
    #[test]
    fn documents_with_the_published_schema_are_read(
        example in 0..EXAMPLES.len(),
        path in proptest::collection::vec(0_usize..60, 1..12),
        change in 0_usize..6,
        version in 0_usize..2,
    ) {
        // Without references, whose types depend on where they are.
        let text = golden(EXAMPLES[example]).replace("${EXPORT_INTERVAL_MS:-5000}", "5000")
            .replace("${OTEL_SDK_DISABLED:-false}", "false").replace("${env:REPETITION:-1}", "1")
            .replace("${", "$");
        let mut document: Value = serde_norway::from_str(&text).unwrap();
        changed(&mut document, &mut path.into_iter(), change);
        document["file_format"] = ["1.0", "1.1"][version].into();
        let is_valid = jsonschema::is_valid(&schemas()[version], &document);
        let found = declared(&document.to_string(), &[]);
        // What the schema does not express: the types of attributes, and URLs of files.
        let further = ["is not a value of the type", "output_stream must be stdout"];
        let is_read = found.is_ok()
            || found.as_ref().is_err_and(|why| further.iter().any(|it| why.contains(it)));
        prop_assert!(is_read || !is_valid, "{:?} {}", found, document);
    }

    #[test]
    fn any_text_is_read_or_refused(text in "\\PC{0,200}") {
        let _ = declared(&text, &[]);
        let _ = declared(&format!("file_format: \"1.0\"\n{text}"), &[]);
    }
}

#[test]
fn the_first_collector_and_the_first_file_of_a_signal_are_used() {
    let found = declared(&golden(EXAMPLES[2]), &[]).unwrap();
    assert_eq!(found.outputs.metrics, Some(Output::File("/var/tmp/aiperf-metrics.jsonl".into())));
    assert_eq!((found.outputs.traces, found.outputs.logs), (None, None));

    let reader = |exporter: &str, interval: u32| {
        format!("{{periodic: {{interval: {interval}, exporter: {{{exporter}}}}}}}")
    };
    let readers = [
        reader("console: ", 1),
        reader("otlp_file/development: {output_stream: \"file:///a/b%20c.jsonl\"}", 2),
        reader("otlp_http: {endpoint: \"http://c:4318/v1/metrics\"}", 3),
        reader("otlp_file/development: ", 4),
        reader("otlp_grpc: {endpoint: \"http://d:4317\"}", 5),
    ];
    let readers = readers.join(", ");
    let text = format!("file_format: \"1.1\"\nmeter_provider: {{readers: [{readers}]}}");
    let found = declared(&text, &[]).unwrap();
    assert_eq!(found.outputs.metrics, Some(Output::File("/a/b c.jsonl".into())));
    let endpoint = &found.variables["OTEL_EXPORTER_OTLP_METRICS_ENDPOINT"];
    assert_eq!(endpoint, "http://c:4318/v1/metrics");
    assert_eq!(found.variables["OTEL_METRIC_EXPORT_INTERVAL"], "2");
    let places = ["[0]", "[2].periodic.interval", "[3]", "[4]"];
    for (ignored, place) in found.ignored.iter().zip(places) {
        assert!(ignored.starts_with(&format!("meter_provider.readers{place}")), "{ignored}");
    }
    assert_eq!(found.ignored.len(), places.len(), "{:?}", found.ignored);

    // An absolute URL of a file, or standard output.
    for wrong in ["b.jsonl", "http://a/b.jsonl", "file://host:1/b"] {
        let exporter = format!("otlp_file/development: {{output_stream: \"{wrong}\"}}");
        let provider = format!("{{processors: [{{batch: {{exporter: {{{exporter}}}}}}}]}}");
        let text = format!("file_format: \"1.1\"\ntracer_provider: {provider}");
        let why = declared(&text, &[]).unwrap_err();
        assert!(why.contains("output_stream must be stdout or"), "{why}");
        assert!(!why.contains(wrong), "{why}");
    }
}
