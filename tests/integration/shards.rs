//! Processes that share a run, and the report that combines their files.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Output};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use base::units::Nanos;
use mock_server::{MockServer, Script};
use opentelemetry_proto::tonic::metrics::v1::HistogramDataPoint;
use opentelemetry_proto::tonic::metrics::v1::metric::Data;
use parquet::file::reader::{FileReader, SerializedFileReader};
use rustix::process::Signal;
use serde_json::{Value, json};
use tempfile::TempDir;

use crate::support::load::mock;
use crate::support::otlp_receiver::{OtlpReceiver, Received, attribute};
use crate::support::python::run_python;
use crate::support::run::{aiperf, json_lines, profile_command, signal, summary};

const SHARDS: u64 = 3;

fn server() -> MockServer {
    mock(Script { ttft: Nanos::from_millis(30.0), ..Script::default() })
}

/// The same run as a single process and as shards, each with its own server.
pub(crate) struct Sharded {
    directory: TempDir,
    whole: MockServer,
    parts: MockServer,
    flags: Vec<String>,
}

impl Sharded {
    pub(crate) fn new(flags: &[&str]) -> Self {
        let flags = flags.iter().map(|flag| (*flag).to_owned()).collect();
        let directory = tempfile::tempdir().unwrap();
        Self { directory, whole: server(), parts: server(), flags }
    }

    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.directory.path().join(name)
    }

    fn part(&self, index: u64) -> PathBuf {
        self.path(&format!("shard-{index}"))
    }

    fn start(&self, url: &str, directory: &Path, at: u64, more: &[&str]) -> Child {
        let at = at.to_string();
        let mut flags: Vec<&str> = self.flags.iter().map(String::as_str).collect();
        flags.extend(["--random-seed", "11", "--start-at", &at, "--export-level", "raw"]);
        flags.extend(more);
        profile_command(url, directory, &flags).spawn().unwrap()
    }

    fn start_all(&self, at: u64) -> Vec<Child> {
        let whole = self.start(&self.whole.url(), &self.path("whole"), at, &[]);
        let part = |index| {
            let shard = format!("{index}/{SHARDS}");
            self.start(&self.parts.url(), &self.part(index), at, &["--shard", &shard])
        };
        [whole].into_iter().chain((0..SHARDS).map(part)).collect()
    }

    pub(crate) fn parts(&self) -> Vec<PathBuf> {
        (0..SHARDS).map(|index| self.part(index)).collect()
    }
}

/// Two shards of 20 requests, whose records are all in one of the files twice, and in the other once
/// more.
#[test]
fn records_of_the_same_request_are_counted_once() {
    let server = server();
    let directory = tempfile::tempdir().unwrap();
    let part = |index: u64| directory.path().join(format!("shard-{index}"));
    let at = (now() + 3).to_string();
    let children = [0, 1].map(|index| {
        let shard = format!("{index}/2");
        let flags =
            ["--request-count", "40", "--concurrency", "8", "--random-seed", "3", "--shard"];
        let flags = [&flags[..], &[&shard, "--start-at", &at]].concat();
        profile_command(&server.url(), &part(index), &flags).spawn().unwrap()
    });
    for child in children {
        let output = child.wait_with_output().unwrap();
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    }
    let lines = |index| part(index).join("profile_export.jsonl");
    let [first, second] = [0, 1].map(|index| fs::read_to_string(lines(index)).unwrap());
    assert_eq!(first.lines().count() + second.lines().count(), 40);
    fs::write(lines(0), format!("{first}{first}")).unwrap();
    let other = first.lines().next().unwrap();
    fs::write(lines(1), format!("{other}\n{second}")).unwrap();
    let output = aiperf(&["report"]).args([part(0), part(1)]).output().unwrap();
    let stderr = String::from_utf8(output.stderr).unwrap();
    assert!(output.status.success(), "{stderr}");
    let told = format!("{} of its records are of requests that were read", first.lines().count());
    assert!(stderr.contains(&told) && stderr.contains("1 of its records are"), "{stderr}");
    let combined = directory.path().join("combined");
    assert_eq!(summary(&combined)["request_count"]["avg"], 40.0);
    assert_eq!(json_lines(&combined.join("profile_export.jsonl")).len(), 40);
    let table = fs::File::open(combined.join("profile_export.parquet")).unwrap();
    let table = SerializedFileReader::new(table).unwrap();
    assert_eq!(table.metadata().file_metadata().num_rows(), 40);

    let output = aiperf(&["report"]).arg(part(0)).output().unwrap();
    assert!(output.status.success(), "{output:?}");
    assert_eq!(summary(&part(0))["request_count"]["avg"], first.lines().count() as f64);
}

/// Seconds since 1970.
pub(crate) fn now() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_secs()
}

/// Runs all processes with a common start time. If the machine was not ready by then, it is given
/// more time.
pub(crate) fn run_together(all: &mut [Sharded]) -> u64 {
    for ahead in [8, 40, 200] {
        let at = now() + ahead;
        let children: Vec<Child> = all.iter().flat_map(|one| one.start_all(at)).collect();
        let outputs: Vec<Output> =
            children.into_iter().map(|child| child.wait_with_output().unwrap()).collect();
        let said = |output: &Output| String::from_utf8_lossy(&output.stderr).into_owned();
        if outputs.iter().all(|output| output.status.success()) {
            return at;
        }
        for output in outputs.iter().filter(|output| !output.status.success()) {
            assert!(said(output).contains("--start-at was"), "{}", said(output));
        }
        for one in all.iter_mut() {
            *one = Sharded::new(&one.flags.iter().map(String::as_str).collect::<Vec<_>>());
        }
    }
    panic!("the machine was never ready in time");
}

/// The identity of a request, without its times and identifiers: phase, session, turn,
/// conversation, body, and whether it was cancelled.
pub(crate) fn requests<'a>(directories: impl IntoIterator<Item = &'a PathBuf>) -> Vec<String> {
    let read = |directory: &PathBuf| json_lines(&directory.join("profile_export_raw.jsonl"));
    let mut all: Vec<String> = directories
        .into_iter()
        .flat_map(read)
        .map(|line| {
            let of = &line["metadata"];
            let names = [
                "benchmark_phase",
                "session_num",
                "turn_index",
                "conversation_id",
                "was_cancelled",
            ];
            let said: Vec<String> = names.iter().map(|name| of[*name].to_string()).collect();
            format!("{} {}", said.join(" "), line["payload"])
        })
        .collect();
    all.sort();
    all
}

/// Returns the due times in the first phase relative to its start, by session and turn.
fn due<'a>(
    directories: impl IntoIterator<Item = &'a PathBuf>,
    start: u64,
) -> BTreeMap<(u64, u64), u64> {
    let read = |directory: &PathBuf| json_lines(&directory.join("profile_export.jsonl"));
    let all = directories.into_iter().flat_map(read).filter_map(|line| {
        let of = &line["metadata"];
        let due = of["request_due_ns"].as_u64().filter(|_| of["phase_index"] == 0)?;
        let key = (of["session_num"].as_u64()?, of["turn_index"].as_u64()?);
        Some((key, due - start * 1_000_000_000))
    });
    all.collect()
}

fn report(parts: &[PathBuf], more: &[&str]) -> Output {
    let mut command = aiperf(&["report"]);
    command.args(parts).args(more).output().unwrap()
}

#[test]
fn parts_together_are_the_whole_run() {
    let trace = tempfile::NamedTempFile::new().unwrap();
    let text: Vec<String> = (0..14)
        .map(|at| json!({"timestamp": at * 37, "input_length": 20 + at, "output_length": 3}))
        .map(|line| line.to_string())
        .collect();
    fs::write(trace.path(), text.join("\n")).unwrap();
    let trace = trace.path().to_str().unwrap();
    let closed_loop = ["--concurrency", "5", "--request-count", "31"];
    let cancelled = ["--request-cancellation-rate", "30"];
    let turns = ["--session-turns-mean", "3", "--session-turns-stddev", "1"];
    let mut all = [
        Sharded::new(
            &[
                &closed_loop[..],
                &["--warmup-request-count", "7", "--warmup-concurrency", "4"],
                &["--slice-duration", "0.1"],
            ]
            .concat(),
        ),
        Sharded::new(
            &[&["--request-rate", "60", "--request-count", "40"], &cancelled[..]].concat(),
        ),
        Sharded::new(&["--input-file", trace, "--custom-dataset-type", "mooncake-trace"]),
        Sharded::new(
            &[
                &["--user-centric-rate", "20", "--num-users", "5", "--num-sessions", "8"],
                &turns[..],
            ]
            .concat(),
        ),
        Sharded::new(&[&["--concurrency", "4", "--num-sessions", "10"], &turns[..]].concat()),
    ];
    let start = run_together(&mut all);
    for run in &all {
        let whole = run.path("whole");
        assert_eq!(requests(&run.parts()), requests([&whole]), "{:?}", run.flags);
        // Each host maps its wall clock to its own timer, which differs by a few nanoseconds.
        let (parts, wholes) = (due(&run.parts(), start), due([&whole], start));
        assert_eq!(parts.len(), wholes.len(), "{:?}", run.flags);
        for (key, due) in &parts {
            assert!(due.abs_diff(wholes[key]) < 1_000, "{key:?}: {due} {}", wholes[key]);
        }
        combined_is_the_sum(run, start);
    }
    same_records_say_the_same(&all[0]);
    others_are_refused(&all[0], &all[4]);
    a_lost_part_is_said(&all[1]);
}

/// The combination contains every record once, and its statistics are those of all records.
fn combined_is_the_sum(run: &Sharded, start: u64) {
    let output = report(&run.parts(), &[]);
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{said}");
    let combined = run.path("combined");
    let ids = |directory: &Path| -> Vec<String> {
        let ids = json_lines(&directory.join("profile_export.jsonl")).into_iter();
        ids.map(|line| line["metadata"]["x_request_id"].to_string()).collect()
    };
    let of_parts: Vec<String> = run.parts().iter().flat_map(|part| ids(part)).collect();
    assert_eq!(of_parts.iter().collect::<BTreeSet<_>>().len(), of_parts.len());
    assert_eq!(ids(&combined), of_parts);
    let summaries: Vec<Value> = run.parts().iter().map(|part| summary(part)).collect();
    let whole = summary(&combined);
    for tag in ["request_count", "error_request_count", "total_output_tokens"] {
        let of = |summary: &Value| summary[tag]["avg"].as_f64().unwrap_or(0.0);
        assert_eq!(of(&whole), summaries.iter().map(of).sum::<f64>(), "{tag}");
    }
    assert_eq!(whole["is_complete"], true);
    assert_eq!(whole["start_at_ns"], start * 1_000_000_000);
    assert_eq!(whole["shards"]["count"], SHARDS);
    for (index, part) in summaries.iter().enumerate() {
        assert_eq!(part["benchmark_id"], whole["benchmark_id"]);
        assert_eq!(part["shard"], json!({"index": index, "count": SHARDS}));
        // The server also counts the requests of the other shards.
        assert_eq!(part.get("server_metrics"), None);
    }
    // Only the first shard scraped; all shards together sent the requests that the server counted.
    assert!(run.part(0).join("server_metrics_export.json").exists());
    assert!(!run.part(1).join("server_metrics_export.json").exists());
    assert!(combined.join("server_metrics_export.json").exists());
    let compared = whole["server_metrics"]["conservation"].as_array();
    // Unless the first shard ended so long before the others that its scrapes are incomplete.
    assert!(compared.is_some() || said.contains("counts are not compared"), "{said}");
    for comparison in compared.into_iter().flatten() {
        assert_eq!(comparison["agrees"], true, "{comparison}");
    }
    let rows = fs::File::open(combined.join("profile_export.parquet")).unwrap();
    let reader = SerializedFileReader::new(rows).unwrap();
    let rows = reader.get_row_iter(None).unwrap();
    assert_eq!(rows.map(Result::unwrap).count(), of_parts.len());
    run_python("tests/check_profile_export.py", &combined);
    run_python("tests/read_parquet.py", &combined);
    if run.flags.contains(&"--slice-duration".to_owned()) {
        run_python("tests/read_timeslices.py", &combined);
    }
    // Again, in the same directory.
    let before = fs::read_to_string(combined.join("profile_export_aiperf.json")).unwrap();
    assert!(report(std::slice::from_ref(&combined), &[]).status.success());
    let after = fs::read_to_string(combined.join("profile_export_aiperf.json")).unwrap();
    assert_eq!(before, after);
}

/// Splits the lines of one process as if several had written them.
fn same_records_say_the_same(run: &Sharded) {
    let whole = run.path("whole");
    let text = fs::read_to_string(whole.join("profile_export.jsonl")).unwrap();
    let manifest = fs::read_to_string(whole.join("run_manifest.json")).unwrap();
    let parts: Vec<PathBuf> = (0..4).map(|index| run.path(&format!("split-{index}"))).collect();
    for (index, part) in parts.iter().enumerate() {
        fs::create_dir(part).unwrap();
        let lines: Vec<&str> = text.lines().skip(index).step_by(4).collect();
        fs::write(part.join("profile_export.jsonl"), lines.join("\n") + "\n").unwrap();
        let mut manifest: Value = serde_json::from_str(&manifest).unwrap();
        manifest["shard"] = json!({"index": index, "count": 4});
        fs::write(part.join("run_manifest.json"), manifest.to_string()).unwrap();
    }
    let place = run.path("joined");
    let output = report(&parts, &["--artifact-dir", place.to_str().unwrap()]);
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let (one, other) = (summary(&whole), summary(&place));
    let mut metrics = 0;
    for (name, value) in one.as_object().unwrap() {
        let is_metric = value.get("unit").is_some();
        metrics += usize::from(is_metric);
        if is_metric
            || ["warmup_metrics", "error_summary", "start_time", "end_time"].contains(&&**name)
        {
            assert_eq!(other.get(name).map(Value::to_string), Some(value.to_string()), "{name}");
        }
    }
    assert!(metrics > 20, "{metrics}");
    let bounds = |summary: &Value| summary["client_health"]["error_bounds_ms"].clone();
    assert!(bounds(&one).is_object(), "{one}");
    assert_eq!(bounds(&one), bounds(&other));
    for csv in ["profile_export_aiperf.csv", "profile_export_aiperf_timeslices.csv"] {
        let of = |directory: &Path| fs::read_to_string(directory.join(csv)).unwrap();
        assert_eq!(of(&whole), of(&place));
    }
}

fn others_are_refused(run: &Sharded, other: &Sharded) {
    let refusal = |parts: &[PathBuf]| {
        let output = report(parts, &["--artifact-dir", run.path("no").to_str().unwrap()]);
        assert_eq!(output.status.code(), Some(1));
        String::from_utf8(output.stderr).unwrap()
    };
    let said = refusal(&[run.part(0), other.part(1)]);
    assert!(said.contains("the load") && said.contains("the servers"), "{said}");
    let said = refusal(&[run.part(0), run.part(1), run.part(0)]);
    assert!(said.contains("both shard 0/3"), "{said}");
    let said = refusal(&[run.part(0), run.path("whole")]);
    assert!(said.contains("not a shard of a run"), "{said}");
    let output =
        report(&[run.part(0), other.part(1)], &["--artifact-dir", run.part(0).to_str().unwrap()]);
    assert_eq!(output.status.code(), Some(1));
}

/// A shard that is missing, and one that was killed.
fn a_lost_part_is_said(run: &Sharded) {
    let killed = run.part(2);
    let path = killed.join("run_manifest.json");
    let mut manifest: Value = serde_json::from_str(&fs::read_to_string(&path).unwrap()).unwrap();
    manifest.as_object_mut().unwrap().remove("end");
    fs::write(&path, manifest.to_string()).unwrap();
    fs::remove_file(killed.join("profile_export.parquet")).unwrap();
    let records = killed.join("profile_export.jsonl");
    let text = fs::read_to_string(&records).unwrap();
    fs::write(&records, &text[..text.len() - 20]).unwrap();
    let place = run.path("rest");
    let output = report(&[run.part(0), killed], &["--artifact-dir", place.to_str().unwrap()]);
    let said = String::from_utf8(output.stderr).unwrap();
    assert!(output.status.success(), "{said}");
    assert!(said.contains("1 of 3 shards are missing: 1"), "{said}");
    assert!(said.contains("is incomplete and is ignored"), "{said}");
    assert!(said.contains("the table is missing (shard 2)"), "{said}");
    let summary = summary(&place);
    assert_eq!(summary["is_complete"], false);
    let reason = summary["incomplete_reason"].as_str().unwrap();
    assert!(reason.contains("missing: 1") && reason.contains("shard 2: it ended"), "{reason}");
    assert_eq!(summary["shards"]["missing"], json!([1]));
    assert_eq!(summary.get("server_metrics"), None, "{}", summary["server_metrics"]);
    run_python("tests/check_profile_export.py", &place);
    run_python("tests/read_parquet.py", &place);
}

/// Returns the complete lines of records.
fn whole_lines(directory: &Path) -> usize {
    let text = fs::read(directory.join("profile_export.jsonl")).unwrap_or_default();
    text.split_inclusive(|byte| *byte == b'\n').filter(|line| line.ends_with(b"\n")).count()
}

/// Starts shards that run until they are stopped, and waits until each has some records.
fn running_parts(run: &mut Sharded) -> Vec<Child> {
    for ahead in [8, 40, 200] {
        let at = now() + ahead;
        let part = |index| {
            let shard = format!("{index}/{SHARDS}");
            run.start(&run.parts.url(), &run.part(index), at, &["--shard", &shard])
        };
        let mut children: Vec<Child> = (0..SHARDS).map(part).collect();
        let until = Instant::now() + Duration::from_secs(ahead + 60);
        while children.iter_mut().all(|child| child.try_wait().unwrap().is_none()) {
            if run.parts().iter().all(|part| whole_lines(part) > 3) {
                return children;
            }
            assert!(Instant::now() < until, "the parts do nothing");
            std::thread::sleep(Duration::from_millis(20));
        }
        for mut child in children {
            child.kill().unwrap();
            child.wait().unwrap();
        }
        *run = Sharded::new(&run.flags.iter().map(String::as_str).collect::<Vec<_>>());
    }
    panic!("the machine was never ready in time");
}

#[test]
fn a_killed_part_is_in_every_file_of_the_whole() {
    let mut run = Sharded::new(&["--concurrency", "6", "--benchmark-duration", "3600"]);
    let mut children = running_parts(&mut run);
    children[1].kill().unwrap();
    for child in [&children[0], &children[2]] {
        signal(child, Signal::INT);
    }
    for child in &mut children {
        child.wait().unwrap();
    }
    assert!(!run.part(1).join("profile_export.parquet").exists());
    let output = report(&run.parts(), &[]);
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{said}");
    let combined = run.path("combined");
    let killed = whole_lines(&run.part(1));
    // Its rows are in parts, as far as it had written them.
    let part = fs::File::open(run.part(1).join("profile_export.parquet.parts/000001.parquet"));
    let saved = part.map_or(0, |part| {
        let reader = SerializedFileReader::new(part).unwrap();
        usize::try_from(reader.metadata().file_metadata().num_rows()).unwrap()
    });
    let is_partial = said.contains("since the table ") && said.contains(" (shard 1)");
    assert_eq!(is_partial, saved < killed, "{saved} of {killed}: {said}");
    assert_eq!(summary(&combined)["shards"]["parts"][1]["records"], killed);
    let of_parts: usize = run.parts().iter().map(|part| whole_lines(part)).sum();
    assert_eq!(whole_lines(&combined), of_parts);
    run_python("tests/check_profile_export.py", &combined);
    run_python("tests/read_parquet.py", &combined);
    // Also for the killed shard alone.
    let output = report(&[run.part(1)], &[]);
    assert!(output.status.success(), "{output:?}");
    let lines = fs::read_to_string(run.part(1).join("profile_export.jsonl")).unwrap();
    if lines.ends_with('\n') {
        run_python("tests/read_parquet.py", &run.part(1));
    }
}

const DURATION: &str = "gen_ai.client.operation.duration";

fn points(received: &Received) -> Vec<HistogramDataPoint> {
    match &received.metric(DURATION).data {
        Some(Data::Histogram(histogram)) => histogram.data_points.clone(),
        other => panic!("{other:?}"),
    }
}

#[test]
fn a_collector_tells_the_parts_apart_and_adds_them_up() {
    let collector = OtlpReceiver::grpc();
    let url = collector.url();
    let flags = ["--concurrency", "6", "--request-count", "20", "--otel-url", &url];
    let flags = [&flags[..], &["--otel-metrics", "full"]].concat();
    let mut all = [Sharded::new(&flags)];
    run_together(&mut all);
    let [run] = &all;
    let benchmark = summary(&run.part(0))["benchmark_id"].as_str().unwrap().to_owned();
    let mut instances: BTreeMap<String, Received> = BTreeMap::new();
    // The last export of each instance.
    for export in collector.taken() {
        let received = Received(export.message);
        let instance = received.resource("service.instance.id").unwrap();
        if received.resource("aiperf.benchmark.id").as_deref() == Some(&*benchmark)
            && received.resource("aiperf.shard.index").is_some()
        {
            instances.insert(instance, received);
        }
    }
    for part in run.parts() {
        let telemetry = &summary(&part)["telemetry"];
        let said = fs::read_to_string(part.join("logs/aiperf.log")).unwrap();
        assert_eq!(telemetry["delivered_final"], true, "{telemetry} {said}");
        assert_eq!(telemetry["reconciled"], true, "{telemetry} {said}");
    }
    // They run on one machine.
    let ends: Vec<&str> = instances.keys().map(|name| &name[36..]).collect();
    let expected: Vec<String> = (0..SHARDS).map(|index| format!("-{index}")).collect();
    assert_eq!(ends, expected);
    for (index, received) in instances.values().enumerate() {
        assert_eq!(received.resource("aiperf.shard.index"), Some(index.to_string()));
        assert_eq!(received.resource("aiperf.shard.count"), Some(SHARDS.to_string()));
    }
    let all: Vec<HistogramDataPoint> = instances
        .values()
        .flat_map(points)
        .filter(|point| {
            attribute(&point.attributes, "aiperf.benchmark_phase").as_deref() == Some("profiling")
        })
        .collect();
    assert!(report(&run.parts(), &[]).status.success());
    let latency = summary(&run.path("combined"))["request_latency"].clone();
    assert_eq!(all.iter().map(|point| point.count).sum::<u64>(), 20);
    assert_eq!(latency["count"], 20);
    let seconds: f64 = all.iter().filter_map(|point| point.sum).sum();
    let millis = latency["sum"].as_f64().unwrap();
    assert!((seconds * 1000.0 - millis).abs() < 1e-9 * millis, "{seconds} {millis}");
}

#[test]
fn what_cannot_be_a_part_is_refused() {
    let refused = |flags: &str, why: &str| {
        let flags = flags.split_whitespace();
        let output = aiperf(&["profile", "--model", "m"]).args(flags).output().unwrap();
        let said = String::from_utf8(output.stderr).unwrap();
        assert!(!output.status.success() && said.contains(why), "{said}");
    };
    let far = now() + 3600;
    refused("--shard 0/2 --random-seed 1", "--shard: requires --start-at");
    refused(&format!("--shard 0/2 --start-at {far}"), "--random-seed");
    refused("--shard 2/2", "shards are numbered from 0");
    let part = format!("--shard 0/3 --random-seed 1 --start-at {far}");
    refused(
        &format!("{part} --concurrency 2"),
        "concurrent session, but the profiling phase has only 2",
    );
    refused(&format!("{part} --request-rate 5 --request-count 2"), "has only 2 in total");
    refused("--start-at 1000", "nothing was sent");
    refused("--start-at -1", "before 1970");
    refused("--start-at 1e300", "Unix time in seconds");
    refused("--start-at 2026-11-21T15:04:05", "time zone");
    refused(&format!("--start-at {far}000"), "milliseconds");
    refused(&format!("--start-at {}", now() + 100 * 3600), "use a time within 24 h");
}

#[test]
fn the_wait_for_the_start_can_be_ended() {
    let server = server();
    let directory = tempfile::tempdir().unwrap();
    let at = (now() + 3600).to_string();
    let mut child =
        aiperf(&["profile", "--model", "m", "--tokenizer", "builtin", "--ui", "simple"])
            .args(["--url", &server.url(), "--start-at", &at, "--artifact-dir"])
            .arg(directory.path())
            .spawn()
            .unwrap();
    let mut said = String::new();
    BufReader::new(child.stderr.as_mut().unwrap()).read_line(&mut said).unwrap();
    assert!(said.starts_with("ready; the load starts at 20"), "{said}");
    signal(&child, Signal::INT);
    assert_eq!(child.wait().unwrap().code(), Some(130));
    assert_eq!(server.requests_received(), 0);
    assert_eq!(summary(directory.path())["was_cancelled"], true);
}
