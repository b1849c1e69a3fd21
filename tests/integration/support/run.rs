//! Runs of the program, and the files that they write.

use std::ffi::OsString;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};

use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;
use tempfile::TempDir;

use super::schema::{self, RECORD, SUMMARY};

/// Returns the path of the program under test: the one in `AIPERF_TEST_PROGRAM`, such as the static
/// program of a release, or else the one that Cargo has built for the tests.
pub(crate) fn program() -> PathBuf {
    given_program().map_or_else(|| env!("CARGO_BIN_EXE_aiperf").into(), PathBuf::from)
}

/// Returns `AIPERF_TEST_PROGRAM`, if it is set.
pub(crate) fn given_program() -> Option<OsString> {
    std::env::var_os("AIPERF_TEST_PROGRAM")
}

/// Returns `PATH` with the directories of `aiperf` and of the tests' interpreter, as `python3`, before
/// all others.
pub(crate) fn search_path() -> OsString {
    let python = std::env::var_os("AIPERF_TEST_PYTHON").map(PathBuf::from);
    let ours = [Some(program()), python].into_iter().flatten();
    let ours = ours.filter_map(|path| Some(path.parent()?.to_owned()));
    let inherited = std::env::var_os("PATH").unwrap_or_default();
    std::env::join_paths(ours.chain(std::env::split_paths(&inherited))).unwrap()
}

/// Returns the program, without variables of the tester's environment that would affect it.
pub(crate) fn aiperf(arguments: &[&str]) -> Command {
    let mut command = Command::new(program());
    for (name, _) in std::env::vars() {
        if ["OTEL_", "AIPERF_", "HF_", "GITHUB_", "TRACE"]
            .iter()
            .any(|prefix| name.starts_with(prefix))
        {
            command.env_remove(name);
        }
    }
    // The tester may have saved a self-check of the machine.
    command.env("AIPERF_SELFCHECK_FILE", "/nonexistent");
    // There may be exporters of GPUs on the machine.
    command.env("AIPERF_GPU_DEFAULT_DCGM_ENDPOINTS", "[]");
    command.args(arguments).stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    command
}

/// The command line of InferenceX's replay of agents, with the server at `url`, files in `place` and further
/// `flags`.
pub(crate) fn inferencex_command(url: &str, place: &str, flags: &str) -> String {
    format!(
        "profile --scenario inferencex-agentx-mvp --url {url} --endpoint /v1/chat/completions \
         --endpoint-type chat --streaming --model org/model --tokenizer builtin \
         --stats-interval 30 --random-seed 42 --failed-request-threshold 0.10 \
         --trajectory-start-min-ratio 0.25 --trajectory-start-max-ratio 0.75 \
         --trace-idle-gap-cap-seconds 300 --warmup-grace-period 1800 --use-server-token-count \
         --extra-inputs top_k:3 min_p:0 --use-dynamo-conv-aware-routing \
         --dynamo-session-timeout-seconds 3600 --no-gpu-telemetry --tokenizer-trust-remote-code \
         --num-dataset-entries 393 --slice-duration 1.0 --server-metrics {url}/metrics \
         --output-artifact-dir {place} {flags}"
    )
}

/// A completed run.
pub(crate) struct Run {
    pub(crate) output: Output,
    pub(crate) directory: TempDir,
}

/// Profiles the server at `url`, with streamed chat of 4 tokens unless `extra` changes this or
/// contains a dataset. What is exported are all metrics unless `extra` selects a set.
pub(crate) fn profile(url: &str, extra: &[&str]) -> Run {
    let directory = tempfile::tempdir().unwrap();
    let output = profile_command(url, directory.path(), extra).output().unwrap();
    Run { output, directory }
}

pub(crate) fn profile_command(url: &str, directory: &Path, extra: &[&str]) -> Command {
    let mut command = aiperf(&["profile", "--model", "mock-model", "--tokenizer", "builtin"]);
    command.args(["--url", url, "--ui", "none", "--artifact-dir"]).arg(directory).args(extra);
    let is_media = extra.contains(&"image_retrieval") || extra.contains(&"audio_transcription");
    let has_prompts = ["--input-file", "--public-dataset", "--hf-dataset"];
    if !extra.iter().any(|flag| has_prompts.contains(flag)) && !is_media {
        command.args(["--isl", "20", "--osl", "4"]);
    }
    if !extra.contains(&"--endpoint-type") {
        command.arg("--streaming");
    }
    if exports(extra) && !extra.contains(&"--otel-metrics") {
        command.args(["--otel-metrics", "full"]);
    }
    let otel_url = extra.iter().position(|flag| *flag == "--otel-url").map(|at| extra[at + 1]);
    if otel_url.is_some_and(is_of_grpc) {
        command.env("OTEL_EXPORTER_OTLP_PROTOCOL", "grpc");
    }
    command
}

fn exports(flags: &[&str]) -> bool {
    ["--otel-url", "--otel-file"].iter().any(|flag| flags.contains(flag))
}

/// Returns whether a collector's URL means gRPC in the tests: without a path, and not on the HTTP
/// port.
pub(crate) fn is_of_grpc(url: &str) -> bool {
    let place = url.split_once("://").map_or(url, |(_, place)| place);
    !place.contains('/') && !place.ends_with(":4318")
}

impl Run {
    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.directory.path().join(name)
    }

    pub(crate) fn text(&self, name: &str) -> String {
        fs::read_to_string(self.path(name)).unwrap()
    }

    pub(crate) fn summary(&self) -> Value {
        summary(self.directory.path())
    }

    /// The records in the order in which their requests started; the file has them in the order in
    /// which they were processed.
    pub(crate) fn records(&self) -> Vec<Value> {
        let mut records = json_lines(&self.path("profile_export.jsonl"));
        for record in &records {
            RECORD.check(record);
        }
        records.sort_by_key(|record| record["metadata"]["request_start_ns"].as_u64());
        records
    }

    pub(crate) fn exit_code(&self) -> Option<i32> {
        self.output.status.code()
    }

    pub(crate) fn stdout(&self) -> String {
        String::from_utf8_lossy(&self.output.stdout).into_owned()
    }

    pub(crate) fn stderr(&self) -> String {
        String::from_utf8_lossy(&self.output.stderr).into_owned()
    }

    pub(crate) fn succeeded(self) -> Self {
        assert_eq!(self.exit_code(), Some(0), "{}\n{}", self.stdout(), self.stderr());
        schema::check_files(self.directory.path());
        self
    }
}

/// Returns the JSON summary of the run in `directory`.
pub(crate) fn summary(directory: &Path) -> Value {
    let text = fs::read_to_string(directory.join("profile_export_aiperf.json")).unwrap();
    let summary = serde_json::from_str(&text).unwrap();
    SUMMARY.check(&summary);
    summary
}

/// Returns the values of a file with one per line.
pub(crate) fn json_lines(path: &Path) -> Vec<Value> {
    let text = fs::read_to_string(path).unwrap();
    text.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

/// Sends `signal` to a process that the test started.
/// The command with a signal handled as `handling` says, an option of `env`, whatever the tests
/// themselves were started with: shells start background jobs with signals ignored.
pub(crate) fn with_signal(handling: &str, command: &Command) -> Command {
    let mut run = Command::new("env");
    run.arg(handling).arg(command.get_program()).args(command.get_args());
    for (name, value) in command.get_envs() {
        match value {
            Some(value) => run.env(name, value),
            None => run.env_remove(name),
        };
    }
    run.stdout(Stdio::piped()).stderr(Stdio::piped());
    run
}

pub(crate) fn signal(child: &Child, signal: Signal) {
    kill_process(Pid::from_child(child), signal).unwrap();
}
