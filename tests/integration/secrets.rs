//! Secrets in the URLs of every flag that takes one: no output has them.

use std::fs::{self, File};
use std::path::Path;
use std::sync::{Arc, Mutex};

use parquet::file::reader::{FileReader, SerializedFileReader};

use crate::api;
use crate::support::load::{mock, varied};
use crate::support::otlp_receiver::OtlpReceiver;
use crate::support::raw_server::{read_request, serve, write};
use crate::support::run::{aiperf, profile};

/// Names of secret parameters.
const NAMES: [&str; 23] = [
    "api_key",
    "apikey",
    "api-key",
    "key",
    "token",
    "access_token",
    "session_token",
    "secret",
    "client_secret",
    "password",
    "passwd",
    "auth",
    "Authorization",
    "credential",
    "X-Amz-Signature",
    "sig",
    "jwt",
    "pwd",
    "passphrase",
    "pass",
    "sas",
    "code",
    "subscription%2Dkey",
];

/// The start of every secret.
const SECRET: &str = "S3CR";

/// Returns a query with a secret in each parameter, which differ between flags.
fn query(flag: &str) -> String {
    let parameter = |(number, name): (usize, &&str)| format!("{name}={SECRET}{flag}{number:02}");
    NAMES.iter().enumerate().map(parameter).collect::<Vec<_>>().join("&")
}

/// Fails if there is a secret in `bytes`.
fn assert_clean(bytes: &[u8], of: &str) {
    if let Some(at) = memchr::memmem::find(bytes, SECRET.as_bytes()) {
        let around = &bytes[at.saturating_sub(200)..bytes.len().min(at + 50)];
        panic!("{of} has a secret: {}", String::from_utf8_lossy(around));
    }
}

/// Fails if a file in `directory` has a secret, except those named `except`. Compressed files are
/// read, and so are the values of Parquet files.
fn assert_files_clean(directory: &Path, except: &[&str]) -> usize {
    let mut count = 0;
    for entry in fs::read_dir(directory).unwrap() {
        let path = entry.unwrap().path();
        let name = path.file_name().unwrap().to_str().unwrap().to_owned();
        if path.is_dir() {
            count += assert_files_clean(&path, except);
            continue;
        }
        if except.contains(&&*name) {
            continue;
        }
        let shown = path.display().to_string();
        assert_clean(&fs::read(&path).unwrap(), &shown);
        if path.extension().is_some_and(|end| end == "parquet") {
            let reader = SerializedFileReader::new(File::open(&path).unwrap()).unwrap();
            for row in reader.get_row_iter(None).unwrap() {
                assert_clean(row.unwrap().to_string().as_bytes(), &shown);
            }
        }
        if path.extension().is_some_and(|end| end == "zst") {
            let lines = zstd::decode_all(File::open(&path).unwrap()).unwrap();
            assert!(!lines.is_empty());
            assert_clean(&lines, &shown);
        }
        count += 1;
    }
    count
}

/// Starts a server that responds as MLflow does. Returns its address and the bodies and headers
/// that it received; the URLs of requests have secrets of their own.
fn tracker() -> (String, Arc<Mutex<Vec<String>>>) {
    let received = Arc::new(Mutex::new(Vec::new()));
    let kept = Arc::clone(&received);
    let address = serve(move |_, stream| {
        while let Some(request) = read_request(stream) {
            let (line, rest) = request.split_once("\r\n").unwrap();
            assert!(line.contains(&format!("?api_key={SECRET}m00&")), "{line}");
            let answer = match line {
                _ if line.contains("/experiments/") => {
                    r#"{"experiment_id": "7", "experiment": {"experiment_id": "7"}}"#
                }
                _ if line.contains("/runs/create") || line.contains("/runs/get") => {
                    r#"{"run": {"info": {"run_id": "0f1e", "artifact_uri": "mlflow-artifacts:/7/0f1e/artifacts"}}}"#
                }
                _ => "{}",
            };
            kept.lock().unwrap().push(rest.to_owned());
            let length = answer.len();
            let head = "HTTP/1.1 200 OK\r\ncontent-type: application/json";
            write(stream, format!("{head}\r\ncontent-length: {length}\r\n\r\n{answer}").as_bytes());
        }
    });
    (format!("http://{address}"), received)
}

#[test]
fn no_output_has_a_secret_of_a_url() {
    let (mock, collector) = (mock(varied()), OtlpReceiver::http());
    let (mlflow, received) = tracker();
    let url = |flag: &str, path: &str| format!("{}{path}?{}", mock.url(), query(flag));
    let otel = collector.otel_url();
    let pages = tempfile::tempdir().unwrap();
    let page = |name: &str| pages.path().join(name).display().to_string();
    let flags = [
        ["--server-metrics", &url("s", "/other/metrics")],
        ["--gpu-telemetry", &url("g", "/gpu/metrics")],
        ["--mlflow-tracking-uri", &format!("{mlflow}/?{}", query("m"))],
        ["--otel-url", &otel],
        ["--reset-kv-cache-path", &format!("/reset_prefix_cache?{}", query("r"))],
        ["--concurrency", "2"],
        ["--request-count", "12"],
        ["--export-level", "raw"],
        ["--server-metrics-formats", "json"],
        ["--trace-sample", "all"],
        ["--log-level", "trace"],
        ["--html", &page("page.html")],
        ["--junit", &page("junit.xml")],
    ];
    let flags: Vec<&str> = flags.iter().flatten().copied().chain(["--reset-kv-cache"]).collect();
    let run = api::start(&url("u", "/v1"), &flags, &[api::GRACE]);
    api::wait_for_results(&run);
    for path in api::PATHS {
        assert_clean(run.text(path).as_bytes(), path);
    }
    let (_, output, directory) = run.shut_down();
    assert_clean(output.as_bytes(), "output");
    let place = directory.path().join("run");
    assert!(assert_files_clean(&place, &[]) > 10);
    assert_files_clean(pages.path(), &[]);
    assert!(!received.lock().unwrap().is_empty(), "{output}");
    for body in received.lock().unwrap().iter() {
        assert_clean(body.as_bytes(), "MLflow");
    }
    assert!(!collector.taken().is_empty() && !collector.traces().is_empty());
    for export in collector.taken() {
        assert_clean(format!("{export:?}").as_bytes(), "OTLP");
    }
    for export in collector.traces() {
        assert_clean(format!("{export:?}").as_bytes(), "OTLP");
    }
    // Files of a version that did not redact them are redacted when they are read.
    let lines = place.join("profile_export.jsonl");
    let text = fs::read_to_string(&lines).unwrap();
    assert!(text.contains("api_key=redacted"));
    fs::write(&lines, text.replace("=redacted", &format!("={SECRET}"))).unwrap();
    let report = ["report", place.to_str().unwrap(), "--html", &page("again.html")];
    let output = aiperf(&report).output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    assert_clean(&output.stdout, "report");
    assert_clean(&output.stderr, "report");
    assert_files_clean(&place, &["profile_export.jsonl"]);
    assert_files_clean(pages.path(), &[]);
}

#[test]
fn no_output_has_a_secret_of_a_path_or_a_configuration_file() {
    let mock = mock(varied());
    let endpoint = format!("/v1/chat/completions?{}", query("e"));
    let flags = [
        "--endpoint",
        &endpoint,
        "--request-count",
        "4",
        "--compress-jsonl",
        "--log-level",
        "trace",
    ];
    let run = profile(&mock.url(), &flags).succeeded();
    let directory = run.directory.path();
    assert!(assert_files_clean(directory, &[]) > 5);
    assert_clean(&run.output.stdout, "stdout");
    assert_clean(&run.output.stderr, "stderr");

    let place = tempfile::tempdir().unwrap();
    let (file, run) = (place.path().join("run.yaml"), place.path().join("run"));
    let settings = format!(
        "url: {}/v1?{}\nmodel: m\ntokenizer: builtin\nisl: 20\nosl: 4\nrequest-count: 2\nui: none\n",
        mock.url(),
        query("c")
    );
    fs::write(&file, settings).unwrap();
    let paths = [file.to_str().unwrap(), run.to_str().unwrap()];
    for arguments in [
        &["profile", "--config", paths[0], "--artifact-dir", paths[1]][..],
        &["config", "show", "--config", paths[0]],
    ] {
        let output = aiperf(arguments).output().unwrap();
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        assert_clean(&output.stdout, arguments[0]);
        assert_clean(&output.stderr, arguments[0]);
    }
    assert!(assert_files_clean(&run, &[]) > 5);
}

/// Texts that are not URLs, with secrets.
const MALFORMED: [&str; 15] = [
    "http://u:S3CR@h:port/v1",
    "http://h:port/v1?api_key=S3CR",
    "http://h:port/v1#S3CR",
    "http://h ost/v1?S3CR",
    "h:port?x=S3CR",
    "ht tp://u:S3CR@h/?key=S3CR",
    "http:/u:S3CR@h:port",
    "http://[::1/?sig=S3CR",
    "ftp://S3CR:x@h/v1?key=S3CR",
    "u:S3C?R/S3CR@h:port",
    "\"http://S3CR@h\"",
    "'http://S3CR@h'",
    "url=http://S3CR@h",
    "ht_tp://S3CR@h",
    "x/http://S3CR@h:port",
];

#[test]
fn what_is_not_a_url_is_not_printed_whole() {
    let place = tempfile::tempdir().unwrap();
    let file = place.path().join("run.yaml");
    fs::write(&file, "url: ${SERVER}\nmodel: m\n").unwrap();
    let file = file.to_str().unwrap();
    let profile = ["profile", "--model", "m", "--tokenizer", "builtin", "--request-count", "1"];
    for text in MALFORMED {
        let flag = |flag| [&profile[..], &["--url", "http://127.0.0.1:9", flag, text]].concat();
        for arguments in [
            [&profile[..], &["--url", text]].concat(),
            flag("--server-metrics"),
            flag("--gpu-telemetry"),
            flag("--mlflow-tracking-uri"),
            flag("--otel-url"),
            vec!["report", text],
            vec!["ab", text, text, "--model", "m", "--request-count", "1"],
            vec!["chat", "--model", "m", "--message", "hi", "--url", text],
            vec!["profile", "--config", file],
        ] {
            let mut command = aiperf(&arguments);
            command.env("SERVER", text).current_dir(place.path());
            let output = command.output().unwrap();
            assert!(!output.status.success(), "{arguments:?}");
            assert_clean(&output.stdout, &format!("{arguments:?}"));
            assert_clean(&output.stderr, &format!("{arguments:?}"));
        }
    }
}
