//! `aiperf report DIR DIR...` over generated directories: any split of a run's records has the
//! results of the run, and directories that cannot be combined are rejected with a reason.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use proptest::prelude::*;
use results::artifacts::rebuild;
use results::console::{self, Style};
use serde_json::{Value, json};
use tempfile::TempDir;
use uuid::Uuid;

use crate::support::python::run_python;
use crate::support::run::{aiperf, program};

const RECORDS: &str = "profile_export.jsonl";
const SUMMARY: &str = "profile_export_aiperf.json";
const TABLE: &str = "profile_export.parquet";
const MANIFEST: &str = "run_manifest.json";

/// A record with the values that its seed determines.
#[derive(Debug, Clone)]
struct Seed {
    start_ms: u64,
    latency_ns: u64,
    gaps_ns: Vec<u32>,
    input: u32,
    asked: u32,
    is_warmup: bool,
    is_failed: bool,
    slip_ns: Option<u32>,
}

fn seed() -> impl Strategy<Value = Seed> {
    let times =
        (0_u64..60_000, 1_u64..5_000_000_000, prop::collection::vec(0_u32..90_000_000, 0..6));
    let tokens = (1_u32..5_000, 1_u32..50);
    let kind = (prop::bool::weighted(0.2), prop::bool::weighted(0.2));
    let slip = prop::option::of(0_u32..2_000_000);
    (times, tokens, kind, slip).prop_map(
        |((start_ms, latency_ns, gaps_ns), (input, asked), (is_warmup, is_failed), slip_ns)| Seed {
            start_ms,
            latency_ns,
            gaps_ns,
            input,
            asked,
            is_warmup,
            is_failed,
            slip_ns,
        },
    )
}

/// Formats nanoseconds as milliseconds, without rounding.
fn millis(nanos: u64) -> Value {
    serde_json::from_str(&format!("{}.{:06}", nanos / 1_000_000, nanos % 1_000_000)).unwrap()
}

fn measured(value: impl Into<Value>, unit: &str) -> Value {
    json!({"value": value.into(), "unit": unit})
}

impl Seed {
    fn line(&self, number: usize) -> String {
        let start = 1_795_273_445_000_000_000 + self.start_ms * 1_000_000;
        let phase = if self.is_warmup { "warmup" } else { "profiling" };
        let mut metadata = json!({
            "session_num": number,
            "x_request_id": Uuid::new_v4().to_string(),
            "conversation_id": "session_000000",
            "turn_index": 0,
            "credit_issued_ns": start,
            "request_start_ns": start,
            "request_end_ns": start + self.latency_ns,
            "worker_id": "worker_0",
            "benchmark_phase": phase,
            "phase_index": u8::from(!self.is_warmup),
            "was_cancelled": false,
            "requested_output_tokens": self.asked,
        });
        if let Some(slip) = self.slip_ns {
            metadata["request_due_ns"] = (start - u64::from(slip)).into();
        }
        let error = if self.is_failed {
            json!({"code": 500, "type": "Internal Server Error", "message": "no",
                "cause": null, "error_type": "http_5xx"})
        } else {
            Value::Null
        };
        let line = json!({"metadata": metadata, "metrics": self.metrics(), "error": error});
        line.to_string()
    }

    fn metrics(&self) -> Value {
        if self.is_failed {
            return json!({"error_isl": measured(self.input, "tokens")});
        }
        let tokens = self.gaps_ns.len() as u64 + 1;
        let gaps: Vec<Value> = self.gaps_ns.iter().map(|gap| millis((*gap).into())).collect();
        let sum: u64 = self.gaps_ns.iter().map(|gap| u64::from(*gap)).sum();
        let mut metrics = json!({
            "request_latency": measured(millis(self.latency_ns), "ms"),
            "time_to_first_token": measured(millis(self.latency_ns.saturating_sub(sum)), "ms"),
            "input_sequence_length": measured(self.input, "tokens"),
            "output_sequence_length": measured(tokens, "tokens"),
            "output_token_count": measured(tokens, "tokens"),
        });
        if !gaps.is_empty() {
            metrics["inter_chunk_latency"] = measured(gaps, "ms");
        }
        metrics
    }
}

/// Returns the `run_manifest.json` of shard `index` of `count`.
fn manifest(index: u64, count: u64) -> Value {
    json!({
        "schema_version": "1.0",
        "aiperf_version": env!("CARGO_PKG_VERSION"),
        "benchmark_id": "6f1c3a52-7d0e-5b6f-9a51-0f3f8f1f2a11",
        "endpoint_type": "chat",
        "streaming": true,
        "random_seed": 7,
        "shard": {"index": index, "count": count},
        "start_at_ns": 1_795_273_445_000_000_000_u64,
        "cli_command": "aiperf profile",
        "show_trace_timing": false,
        "settings": {
            "objectives": [],
            "usage_diff_threshold_percent": 10.0,
            "osl_mismatch_threshold_percent": 5.0,
            "osl_mismatch_threshold_tokens": 50.0,
            "use_server_token_count": false,
            "developer_mode": false,
        },
        "input_config": {"endpoint": {"urls": ["http://localhost:8000"]}},
        "config": config("http://localhost:8000/", &json!({"concurrency": {"most": 4}})),
    })
}

/// Returns the serialized configuration of a run against `url` whose measurement has this load.
fn config(url: &str, load: &Value) -> Value {
    let mut phase = json!({
        "kind": "profiling",
        "load": "closed_loop",
        "stop": {},
        "end_failed_sessions": false,
    });
    phase.as_object_mut().unwrap().extend(load.as_object().unwrap().clone());
    json!({
        "dataset": {"models": ["m"], "lora_modules": [], "random_seed": 7, "cache_bust": "none"},
        "endpoint": {"extra_inputs": {}},
        "schedule": {"phases": [phase]},
        "server": {
            "urls": [url],
            "headers": {},
            "api_key": null,
            "wait_for_model": {"timeout": 0},
        },
        "artifacts": {"directory": "out", "server_metrics": {"slice_duration": null}},
        "network_latency": null,
        "telemetry": {"run_name": null},
        "multi_run": {
            "runs": 1,
            "cooldown": 0,
            "confidence_level": 0.95,
            "repeats_warmup": false,
            "varies_seed": false,
        },
    })
}

fn write(directory: &Path, manifest: &Value, lines: &[String]) {
    fs::create_dir_all(directory).unwrap();
    let text: String = lines.iter().flat_map(|line| [line, "\n"]).collect();
    fs::write(directory.join(RECORDS), text).unwrap();
    fs::write(directory.join(MANIFEST), manifest.to_string()).unwrap();
}

fn read(directory: &Path) -> Value {
    serde_json::from_slice(&fs::read(directory.join(SUMMARY)).unwrap()).unwrap()
}

fn rows(directory: &Path) -> usize {
    let file = fs::File::open(directory.join(TABLE)).unwrap();
    let reader = parquet::file::reader::SerializedFileReader::new(file).unwrap();
    let rows = parquet::file::reader::FileReader::get_row_iter(&reader, None).unwrap();
    rows.map(Result::unwrap).count()
}

fn finish(mut rebuilt: rebuild::Rebuilt) {
    let text = console::render(&rebuilt.report, Style::FILE);
    rebuild::write(&mut rebuilt, &text).unwrap();
}

/// Members that only a combination has, or that differ from those of a single process.
const OF_THE_COMBINATION: [&str; 5] = ["shards", "incomplete_reason", "load", "shard", "warnings"];

/// Combines `seeds` split as in `owners`, and as a single process would; returns the directories.
fn single_and_combined(seeds: &[Seed], owners: &[u8], parts: u64) -> (TempDir, PathBuf, PathBuf) {
    let directory = tempfile::tempdir().unwrap();
    let (single, whole) = (directory.path().join("single"), directory.path().join("whole"));
    let lines: Vec<String> = seeds.iter().enumerate().map(|(at, seed)| seed.line(at)).collect();
    write(&single, &manifest(0, 1), &lines);
    let of_part = |part: u64| {
        let owned =
            lines.iter().zip(owners).filter(|(_, owner)| u64::from(**owner) % parts == part);
        owned.map(|(line, _)| line.clone()).collect::<Vec<_>>()
    };
    let all: Vec<PathBuf> =
        (0..parts).map(|part| directory.path().join(format!("shard-{part}"))).collect();
    for (part, place) in (0..).zip(&all) {
        write(place, &manifest(part, parts), &of_part(part));
    }
    finish(rebuild::rebuild(&single).unwrap());
    finish(rebuild::combine(&all, Some(whole.clone()), false, &[], &[]).unwrap());
    (directory, single, whole)
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 32, ..ProptestConfig::default() })]

    /// Counts, sums, extremes, percentiles, and rates over the time of all shards.
    #[test]
    fn any_split_says_what_the_whole_says(
        (seeds, owners) in prop::collection::vec((seed(), any::<u8>()), 1..40)
            .prop_map(|pairs| pairs.into_iter().unzip::<_, _, Vec<Seed>, Vec<u8>>()),
        parts in 1_u64..7,
    ) {
        let (_directory, single, whole) = single_and_combined(&seeds, &owners, parts);
        let (one, all) = (read(&single), read(&whole));
        let names = |of: &Value| -> Vec<String> {
            let names = of.as_object().unwrap().keys().cloned();
            let mut names: Vec<_> =
                names.filter(|name| !OF_THE_COMBINATION.contains(&&**name)).collect();
            names.sort();
            names
        };
        prop_assert_eq!(names(&one), names(&all));
        for name in names(&one) {
            // The number of the shard is in its configuration.
            if name != "input_config" {
                prop_assert_eq!(one[&name].to_string(), all[&name].to_string(), "{}", name);
            }
        }
        prop_assert_eq!(&one["load"]["reached_concurrency"], &all["load"]["reached_concurrency"]);
        let csv = |place: &Path| fs::read_to_string(place.join("profile_export_aiperf.csv")).unwrap();
        prop_assert_eq!(csv(&single), csv(&whole));
        prop_assert_eq!(rows(&single), seeds.len());
        prop_assert_eq!(rows(&whole), seeds.len());
    }
}

/// The same results, computed by numpy, pyarrow and duckdb.
#[test]
fn a_split_says_what_numpy_says() {
    let seeds: Vec<Seed> = (0..200_u32)
        .map(|n| Seed {
            start_ms: u64::from(n * 7919 % 20_000),
            latency_ns: u64::from(n * 7_654_321 % 900_000_007) + 1_000_000_000,
            gaps_ns: (0..n % 9).map(|gap| (n * 31 + gap * 977) * 1_013 % 80_000_000).collect(),
            input: 1 + n * 13 % 997,
            asked: 1 + n % 9,
            is_warmup: n % 10 == 3,
            is_failed: n % 11 == 5,
            slip_ns: (n % 2 == 0).then_some(n * 1_001),
        })
        .collect();
    let owners: Vec<u8> = (0..200_u32).map(|n| (n * n % 251) as u8).collect();
    let (_directory, single, whole) = single_and_combined(&seeds, &owners, 5);
    for place in [&single, &whole] {
        run_python("tests/check_profile_export.py", place);
        run_python("tests/read_parquet.py", place);
    }
}

/// The files of three shards, to be damaged.
struct Parts {
    directory: TempDir,
}

impl Parts {
    fn new() -> Self {
        let parts = Self { directory: tempfile::tempdir().unwrap() };
        for index in 0..3 {
            parts.write(&format!("shard-{index}"), &manifest(index, 3));
        }
        parts
    }

    fn path(&self, name: &str) -> PathBuf {
        self.directory.path().join(name)
    }

    fn write(&self, name: &str, manifest: &Value) {
        let seed = |n: u32| Seed {
            start_ms: n.into(),
            latency_ns: 1_000_000,
            gaps_ns: vec![5, 6],
            input: 3,
            asked: 3,
            is_warmup: false,
            is_failed: false,
            slip_ns: None,
        };
        let lines: Vec<String> = (0..4).map(|n| seed(n).line(n as usize)).collect();
        write(&self.path(name), manifest, &lines);
    }

    /// Writes a file of a shard.
    fn put(&self, name: &str, content: impl AsRef<[u8]>) {
        fs::write(self.path(name), content).unwrap();
    }

    fn report(&self, parts: &[&str], place: &Path) -> Output {
        let parts = parts.iter().map(|part| self.path(part));
        let mut command = aiperf(&["report"]);
        command.args(parts).arg("--artifact-dir").arg(place).output().unwrap()
    }

    /// Combines the shards `parts`, instead of any combination before; returns the notes.
    fn combined(&self, parts: &[&str]) -> String {
        let _ = fs::remove_dir_all(self.path("all"));
        let output = self.report(parts, &self.path("all"));
        let said = String::from_utf8(output.stderr).unwrap();
        assert!(output.status.success() && !said.contains("panicked"), "{said}");
        let all = self.path("all");
        let count = read(&all)["request_count"]["avg"].as_f64().unwrap();
        let lines = fs::read_to_string(all.join(RECORDS)).unwrap().lines().count();
        assert_eq!((count, rows(&all)), (lines as f64, lines));
        said
    }

    /// Combines the shards `parts`, which must fail; returns the error.
    fn refused(&self, parts: &[&str]) -> String {
        self.refused_at(parts, &self.path("all"))
    }

    fn refused_at(&self, parts: &[&str], place: &Path) -> String {
        let output = self.report(parts, place);
        let said = String::from_utf8(output.stderr).unwrap();
        assert_eq!(output.status.code(), Some(1), "{said}");
        assert!(said.starts_with("error: ") && said.len() < 2_000, "{said}");
        assert!(!place.join(SUMMARY).exists() && !place.join(RECORDS).exists());
        said
    }
}

const ALL: [&str; 3] = ["shard-0", "shard-1", "shard-2"];

#[track_caller]
fn says(said: &str, parts: &[&str]) {
    for part in parts {
        assert!(said.contains(part), "{part:?} is not in {said}");
    }
}

#[test]
fn damaged_records_are_named() {
    let parts = Parts::new();
    let text = fs::read_to_string(parts.path("shard-1/profile_export.jsonl")).unwrap();
    parts.put("shard-1/profile_export.jsonl", &text[..text.len() - 20]);
    says(&parts.combined(&ALL), &["shard-1/profile_export.jsonl", "line 4", "is incomplete"]);
    assert_eq!(read(&parts.path("all"))["request_count"]["avg"], 11.0);
    // A shard that was killed before its first record.
    parts.put("shard-1/profile_export.jsonl", "");
    parts.combined(&ALL);
    assert_eq!(read(&parts.path("all"))["shards"]["parts"][1]["records"], 0);

    let parts = Parts::new();
    let junk: Vec<u8> = (0..100_000_u32).map(|n| ((n * 197) >> 3) as u8).collect();
    parts.put("shard-1/profile_export.jsonl", &junk);
    says(&parts.refused(&ALL), &["shard-1/profile_export.jsonl, line 1:", "not a valid record"]);
    let lines: Vec<&str> = text.lines().collect();
    let middle = [lines[0], "\u{0}\u{fffd}{", lines[1], ""].join("\n");
    parts.put("shard-1/profile_export.jsonl", middle);
    says(&parts.refused(&ALL), &["line 2: not a valid record"]);
    let mut backwards: Value = serde_json::from_str(lines[0]).unwrap();
    backwards["metadata"]["request_end_ns"] = 1.into();
    parts.put("shard-1/profile_export.jsonl", format!("{backwards}\n{}\n", lines[1]));
    says(&parts.refused(&ALL), &["line 1: not a valid record: request_end_ns is before"]);
    fs::remove_file(parts.path("shard-1/profile_export.jsonl")).unwrap();
    says(&parts.refused(&ALL), &["shard-1/profile_export.jsonl", "No such file"]);
    fs::create_dir(parts.path("shard-1/profile_export.jsonl")).unwrap();
    says(&parts.refused(&ALL), &["shard-1/profile_export.jsonl", "directory"]);
    for part in ALL {
        let _ = fs::remove_dir(parts.path(&format!("{part}/{RECORDS}")));
        parts.put(&format!("{part}/{RECORDS}"), "");
    }
    says(&parts.refused(&ALL), &["does not contain a complete record"]);
}

#[test]
fn damaged_manifests_are_named() {
    let parts = Parts::new();
    let path = "shard-1/run_manifest.json";
    let part = |shard: Value| {
        let mut manifest = manifest(1, 3);
        manifest["shard"] = shard;
        manifest.to_string()
    };
    for (content, why) in [
        (String::new(), "EOF"),
        ("\u{1}\u{2}".to_owned(), "expected value"),
        ("[1]".to_owned(), "invalid"),
        (part(json!({"index": 3, "count": 3})), "shards are numbered from 0"),
        (part(json!({"index": 0, "count": 0})), "number of shards must be at least 1"),
        (part(json!({"index": 0, "count": u64::MAX})), "at most 65536"),
        (part(json!({"index": -1, "count": 3})), "invalid value"),
    ] {
        parts.put(path, content);
        says(&parts.refused(&ALL), &[path, "cannot use", why]);
    }
    parts.put(path, part(Value::Null));
    says(&parts.refused(&ALL), &["shard-1 is not a shard of a run"]);
    fs::remove_file(parts.path(path)).unwrap();
    says(&parts.refused(&ALL), &["shard-1 is not a shard of a run", "run_manifest.json"]);
    fs::create_dir(parts.path(path)).unwrap();
    says(&parts.refused(&ALL), &[path, "cannot use", "directory"]);

    fs::create_dir(parts.path("empty")).unwrap();
    says(&parts.refused(&["shard-0", "empty"]), &["empty is not a shard of a run"]);
    says(&parts.refused(&["shard-0", "none"]), &["none: No such file"]);
    parts.put("file", "");
    says(&parts.refused(&["shard-0", "file"]), &["file: not a directory"]);
}

#[test]
fn numbers_beyond_reason_do_not_matter() {
    let parts = Parts::new();
    let most = u64::MAX;
    for index in 0..3 {
        let mut manifest = manifest(index, 3);
        manifest["end"] = json!({
            "start_wall_ns": most, "end_wall_ns": 0, "was_cancelled": false, "load": {
                "requested_concurrency": most, "reached_concurrency": most,
                "requested_rate": 1e308, "reached_rate": 1e308,
            },
            "telemetry": {"exports_ok": most, "exports_failed": most, "traces": {"sent": most}},
        });
        parts.write(&format!("shard-{index}"), &manifest);
    }
    parts.combined(&ALL);
}

/// Replaces some bytes.
fn damage() -> impl Strategy<Value = (usize, prop::sample::Index, usize, Vec<u8>)> {
    let extremes = ["18446744073709551615", "-1", "1e308", "null", "[]", "{}", "\"\"", "\n", ""];
    let other = prop_oneof![
        prop::sample::select(extremes.map(|text| text.as_bytes().to_vec()).to_vec()),
        prop::collection::vec(any::<u8>(), 0..4),
    ];
    (0..6_usize, any::<prop::sample::Index>(), 0..12_usize, other)
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 48, ..ProptestConfig::default() })]

    #[test]
    fn any_damage_is_refused_or_combined(damages in prop::collection::vec(damage(), 1..4)) {
        let parts = Parts::new();
        let ends = |index: u64| json!({
            "start_wall_ns": 1_795_273_445_000_000_000_u64, "end_wall_ns": 1_795_273_446_000_000_000_u64,
            "was_cancelled": false, "load": {"requested_concurrency": 4, "reached_concurrency": index},
            "telemetry": {"exports_ok": 3, "delivered_final": true, "reconciled": true},
        });
        for index in 0..3 {
            let mut manifest = manifest(index, 3);
            manifest["end"] = ends(index);
            parts.write(&format!("shard-{index}"), &manifest);
        }
        for (file, at, length, other) in damages {
            let name = format!("shard-{}/{}", file / 2, [MANIFEST, RECORDS][file % 2]);
            let mut content = fs::read(parts.path(&name)).unwrap();
            let start = at.index(content.len());
            let end = content.len().min(start + length);
            content.splice(start..end, other);
            parts.put(&name, content);
        }
        let before = contents(&parts);
        let all: Vec<PathBuf> = ALL.iter().map(|part| parts.path(part)).collect();
        match rebuild::combine(&all, Some(parts.path("all")), false, &[], &[]) {
            Err(error) => prop_assert!(!error.to_string().is_empty()),
            Ok(rebuilt) => {
                finish(rebuilt);
                let lines = fs::read_to_string(parts.path("all").join(RECORDS)).unwrap();
                prop_assert_eq!(lines.lines().count(), rows(&parts.path("all")));
            }
        }
        prop_assert_eq!(contents(&parts), before);
    }
}

#[test]
fn parts_of_other_runs_are_refused() {
    let parts = Parts::new();
    let with = |change: &dyn Fn(&mut Value)| {
        let mut other = manifest(1, 3);
        change(&mut other);
        parts.write("shard-1", &other);
        parts.refused(&ALL)
    };
    let id = "6f1c3a52-7d0e-5b6f-9a51-0f3f8f1f2a12";
    says(&with(&|other| other["benchmark_id"] = id.into()), &["their benchmark IDs", id]);
    let said = with(&|other| {
        other["benchmark_id"] = id.into();
        other["aiperf_version"] = "0.0.9".into();
    });
    says(&said, &["the aiperf version", "0.0.9", env!("CARGO_PKG_VERSION")]);
    let said = with(&|other| {
        let texts: Vec<String> = (0..10_000).map(|n| format!("text {n}")).collect();
        other["random_seed"] = 8.into();
        other["start_at_ns"] = 5.into();
        other["streaming"] = false.into();
        other["endpoint_type"] = "completions".into();
        let rate = json!({"rate": {"points": [{"at": 0, "rate": 7.5}], "pattern": "poisson"}});
        other["config"] = config("http://elsewhere/", &json!({"load": rate}));
        other["config"]["dataset"]["models"] = json!(["other"]);
        other["config"]["dataset"]["parts"] = json!(texts);
    });
    let differences =
        ["models", "servers", "endpoint type", "load", "dataset", "--random-seed", "--start-at"];
    says(&said, &differences);
    says(&with(&|other| other["shard"]["count"] = 4.into()), &["the number of shards (3 and 4)"]);
    says(&with(&|other| other["settings"]["developer_mode"] = true.into()), &["thresholds"]);
    says(&with(&|other| other["shard"]["index"] = 2.into()), &["are both shard 2/3"]);

    let parts = Parts::new();
    for (part, asked) in [("shard-0", "{}"), ("shard-2", "{\"data\":[]}")] {
        parts.put(&format!("{part}/inputs.json"), asked);
    }
    says(&parts.refused(&ALL), &["the requests (inputs.json)"]);
}

#[test]
fn each_part_counts_once_and_a_missing_one_is_said() {
    let parts = Parts::new();
    says(&parts.refused(&["shard-0", "shard-1", "shard-0"]), &["are both shard 0/3"]);
    std::os::unix::fs::symlink(parts.path("shard-0"), parts.path("link")).unwrap();
    says(&parts.refused(&["shard-0", "shard-1", "link"]), &["are both shard 0/3"]);
    says(&parts.combined(&["shard-1", "link"]), &["1 of 3 shards are missing: 2"]);
    let all = read(&parts.path("all"));
    assert_eq!((&all["is_complete"], &all["shards"]["missing"]), (&json!(false), &json!([2])));
    says(all["incomplete_reason"].as_str().unwrap(), &["1 of 3 shards are missing: 2"]);
}

/// Returns every file of the shards.
fn contents(parts: &Parts) -> Vec<(PathBuf, Vec<u8>)> {
    let files = ALL.iter().flat_map(|part| fs::read_dir(parts.path(part)).unwrap());
    let files = files.map(|entry| entry.unwrap().path()).filter(|path| path.is_file());
    let mut all: Vec<_> = files.map(|path| (path.clone(), fs::read(path).unwrap())).collect();
    all.sort();
    all
}

#[test]
fn the_parts_are_left_as_they_are_wherever_the_whole_goes() {
    let parts = Parts::new();
    for part in ALL {
        parts.put(&format!("{part}/inputs.json"), "{\"data\":[1]}");
    }
    let before = contents(&parts);
    let own = |place: &str| {
        let output = parts.report(&ALL, &parts.path(place));
        assert_eq!(output.status.code(), Some(1));
        says(&String::from_utf8(output.stderr).unwrap(), &["is one of the shards"]);
    };
    own("shard-1");
    own("shard-0/../shard-1/.");
    std::os::unix::fs::symlink(parts.path("shard-2"), parts.path("link")).unwrap();
    own("link");
    parts.put("file", "");
    let said = parts.refused_at(&ALL, &parts.path("file/all"));
    says(&said, &["cannot create the artifact directory", "file/all", "Not a directory"]);
    let said = parts.refused_at(&ALL, Path::new("/proc/self/all"));
    says(&said, &["cannot create the artifact directory /proc/self/all"]);
    assert_eq!(contents(&parts), before);

    // Inside a shard's directory, where links to the shard's own files are in place of the combined
    // files.
    let inner = parts.path("shard-0/all");
    fs::create_dir(&inner).unwrap();
    for name in [RECORDS, "inputs.json", MANIFEST] {
        std::os::unix::fs::symlink(parts.path("shard-0").join(name), inner.join(name)).unwrap();
    }
    let output = parts.report(&ALL, &inner);
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    assert_eq!(contents(&parts), before);
    assert_eq!((read(&inner)["request_count"]["avg"].as_f64(), rows(&inner)), (Some(12.0), 12));
}

#[test]
fn a_table_that_is_not_of_the_records_is_made_anew() {
    let parts = Parts::new();
    for part in ALL {
        finish(rebuild::rebuild(&parts.path(part)).unwrap());
    }
    assert_eq!(parts.combined(&ALL).lines().count(), 0, "rows are copied, and no part is missing");
    let table = |part: &str| parts.path(part).join(TABLE);
    let whole = fs::read(table("shard-1")).unwrap();
    fs::write(table("shard-0"), &whole[..whole.len() / 2]).unwrap();
    fs::write(table("shard-1"), "junk").unwrap();
    fs::remove_file(table("shard-2")).unwrap();
    let reasons =
        ["cannot be read (Parquet error", "(shard 0)", "(shard 1)", "is missing (shard 2)"];
    says(&parts.combined(&ALL), &reasons);

    // Files of the previous run, in the same place.
    let mut other = manifest(0, 3);
    other["benchmark_id"] = "6f1c3a52-7d0e-5b6f-9a51-0f3f8f1f2a12".into();
    parts.write("other", &other);
    finish(rebuild::rebuild(&parts.path("other")).unwrap());
    fs::copy(parts.path("other").join(TABLE), table("shard-0")).unwrap();
    // As many records as there were before the user removed one.
    fs::write(table("shard-1"), &whole).unwrap();
    let text = fs::read_to_string(parts.path("shard-1/profile_export.jsonl")).unwrap();
    parts.put("shard-1/profile_export.jsonl", text.split_once('\n').unwrap().1);
    let reasons = ["is from another run (shard 0)", "has 4 rows for 3 records (shard 1)"];
    says(&parts.combined(&ALL), &reasons);
}

#[test]
fn compressed_records_are_combined_to_compressed_ones() {
    let parts = Parts::new();
    let mut text = Vec::new();
    for part in ALL {
        let path = parts.path(part).join(RECORDS);
        let lines = fs::read(&path).unwrap();
        fs::remove_file(path).unwrap();
        parts.put(&format!("{part}/{RECORDS}.zst"), zstd::encode_all(&*lines, 0).unwrap());
        text.extend(lines);
    }
    let all = parts.path("all");
    let output = parts.report(&ALL, &all);
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let compressed = fs::read(all.join(format!("{RECORDS}.zst"))).unwrap();
    assert_eq!(zstd::decode_all(&*compressed).unwrap(), text);
    assert!(!all.join(RECORDS).exists());
    assert_eq!((read(&all)["request_count"]["avg"].as_f64(), rows(&all)), (Some(12.0), 12));
}

/// Only one file is open at a time.
#[test]
fn more_parts_than_open_files_are_combined() {
    const MANY: u64 = 120;
    let parts = Parts::new();
    for index in 0..MANY {
        parts.write(&format!("many-{index}"), &manifest(index, MANY));
    }
    let mut command = Command::new("sh");
    let output = command
        .args(["-c", "ulimit -n 24; exec \"$0\" report many-* --artifact-dir all"])
        .arg(program())
        .current_dir(parts.directory.path())
        .output()
        .unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let all = parts.path("all");
    assert_eq!(read(&all)["request_count"]["avg"], 4.0 * MANY as f64);
    assert_eq!(rows(&all) as u64, 4 * MANY);
}
