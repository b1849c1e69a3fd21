//! `OTEL_CONFIG_FILE` decides what is exported where, instead of all other variables of OpenTelemetry.

use std::fs;

use mock_server::Script;

use crate::support::load::mock;
use crate::support::otlp_receiver::{OtlpReceiver, attribute};
use crate::support::run::{profile_command, summary};

#[test]
fn the_file_is_the_sole_source_and_flags_override_it() {
    let server = mock(Script::default());
    let (collector, other) = (OtlpReceiver::http(), OtlpReceiver::http());
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("otel.yaml");
    let base = format!("http://{}", collector.address());
    fs::write(
        &file,
        format!(
            r#"
file_format: "1.0"
resource:
  attributes:
    - {{name: team, value: "${{TEAM}}"}}
    - {{name: attempt, value: 3, type: int}}
meter_provider:
  readers:
    - periodic:
        interval: 500
        exporter:
          otlp_http:
            endpoint: {base}/v1/metrics
            headers: [{{name: authorization, value: "Bearer ${{TOKEN}}"}}]
            default_histogram_aggregation: base2_exponential_bucket_histogram
tracer_provider:
  processors: [{{batch: {{exporter: {{otlp_http: {{endpoint: "{base}/v1/traces"}}}}}}}}]
  sampler: {{trace_id_ratio_based: {{ratio: 1}}}}
  limits: {{event_count_limit: 1}}
"#
        ),
    )
    .unwrap();
    let place = directory.path().join("run");
    let run = |extra: &[&str]| {
        let flags = ["--request-count", "5", "--overwrite"];
        let mut command = profile_command(&server.url(), &place, &[&flags[..], extra].concat());
        command.env("OTEL_CONFIG_FILE", &file).env("TEAM", "blue").env("TOKEN", "sesame");
        // Neither counts beside the file.
        command.env("OTEL_EXPORTER_OTLP_ENDPOINT", other.url());
        command.env("OTEL_RESOURCE_ATTRIBUTES", "team=red");
        let output = command.output().unwrap();
        let stderr = String::from_utf8_lossy(&output.stderr).into_owned();
        assert_eq!(output.status.code(), Some(0), "{stderr}");
        let everything = format!("{stderr}{}", String::from_utf8_lossy(&output.stdout));
        assert!(!everything.contains("sesame"), "{everything}");
        stderr
    };

    let stderr = run(&[]);
    let limits = "OTEL_CONFIG_FILE: aiperf does not apply tracer_provider.limits";
    assert_eq!(stderr.matches(limits).count(), 1, "{stderr}");
    let telemetry = &summary(&place)["telemetry"];
    assert_eq!(
        (&telemetry["delivered_final"], &telemetry["reconciled"]),
        (&true.into(), &true.into())
    );
    let last = collector.last();
    assert_eq!(last.resource("team").as_deref(), Some("blue"));
    assert_eq!(last.resource("attempt").as_deref(), Some("3"));
    assert_eq!(last.exponential("aiperf.request_latency", &[]).count, 5);
    let exports = collector.taken();
    assert!(exports.iter().all(|it| it.header("authorization") == Some("Bearer sesame")));
    let resources = collector.traces();
    let spans = resources.iter().flat_map(|it| &it.message.resource_spans);
    let spans = spans.flat_map(|it| &it.scope_spans).flat_map(|it| &it.spans);
    let requests = spans.filter(|it| attribute(&it.attributes, "aiperf.request.id").is_some());
    assert_eq!(requests.count(), 5);
    assert!(other.taken().is_empty());

    let sent = collector.taken().len();
    run(&["--otel-url", &other.url(), "--otel-histograms", "explicit"]);
    assert_eq!(collector.taken().len(), sent);
    assert_eq!(other.last().histogram("aiperf.request_latency", &[]).count, 5);
}

#[test]
fn a_file_that_is_not_valid_ends_the_command_before_the_run() {
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("otel.yaml");
    fs::write(&file, "file_format: \"1.0\"\nmeter_provider: {reader: []}\n").unwrap();
    let place = directory.path().join("run");
    let mut command = profile_command("http://127.0.0.1:1", &place, &[]);
    let output = command.env("OTEL_CONFIG_FILE", &file).output().unwrap();
    let stderr = String::from_utf8_lossy(&output.stderr).into_owned();
    assert_eq!(output.status.code(), Some(2), "{stderr}");
    let why = "meter_provider has an unknown key \"reader\"; did you mean readers?";
    assert!(stderr.contains(why), "{stderr}");
    assert!(!place.exists());
}
