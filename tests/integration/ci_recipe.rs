//! The workflow of the documentation, run step by step as a runner of GitHub does.

use std::fs;
use std::path::Path;
use std::process::{Command, Output};

use mock_server::Script;
use serde_norway::Value;
use tempfile::TempDir;

use crate::support::load::mock;
use crate::support::run::search_path;

/// The step that is replaced by the program under test.
const INSTALL: &str = "Install aiperf";

/// A job that was run.
struct Job {
    directory: TempDir,
    output: Output,
}

impl Job {
    fn text(&self, name: &str) -> String {
        fs::read_to_string(self.directory.path().join(name)).unwrap()
    }
}

/// Returns the only job of the workflow.
fn job() -> Value {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("docs/ci/aiperf.yml");
    let workflow: Value = serde_norway::from_str(&fs::read_to_string(path).unwrap()).unwrap();
    workflow["jobs"]["benchmark"].clone()
}

/// Runs the commands of the job against a mock server, with the variables of the job except
/// `gates`, until one fails.
fn run(gates: &str) -> Job {
    let server = mock(Script::default());
    let directory = tempfile::tempdir().unwrap();
    let summary = directory.path().join("summary.md");
    let job = job();
    let steps = job["steps"].as_sequence().unwrap().iter();
    let is_command = |step: &&Value| step["name"] != INSTALL && !step["run"].is_null();
    let mut last = None;
    for step in steps.filter(is_command) {
        // As GitHub starts bash.
        let mut command = Command::new("bash");
        command.args(["--noprofile", "--norc", "-eo", "pipefail", "-c"]);
        command.arg(step["run"].as_str().unwrap()).current_dir(directory.path());
        for (name, value) in job["env"].as_mapping().unwrap() {
            command.env(name.as_str().unwrap(), value.as_str().unwrap());
        }
        command.env("SERVER", server.url()).env("MODEL", "mock-model").env("GATES", gates);
        command.env("GITHUB_ACTIONS", "true").env("GITHUB_STEP_SUMMARY", &summary);
        let output = command.env("PATH", search_path()).output().unwrap();
        let has_failed = !output.status.success();
        last = Some(output);
        if has_failed {
            break;
        }
    }
    Job { directory, output: last.unwrap() }
}

#[test]
fn a_job_succeeds_if_all_gates_hold() {
    let job = run("--gate request_error_rate<=1% --gate request_latency:min>=0");
    let stdout = String::from_utf8_lossy(&job.output.stdout);
    assert_eq!(job.output.status.code(), Some(0), "{stdout}");
    assert!(!stdout.contains("::error"), "{stdout}");
    assert!(job.text("summary.md").contains("| request_error_rate&lt;=1% |"));
    let junit = job.text("results/junit.xml");
    assert!(junit.contains(r#"<testsuites tests="3" failures="0" errors="0">"#), "{junit}");
    assert!(job.text("results/run/profile_export_aiperf.json").contains("request_throughput"));
}

#[test]
fn a_job_fails_if_a_gate_does_not_hold() {
    let job = run("--gate request_error_rate<=1% --gate request_latency:max<=1ns");
    let stdout = String::from_utf8_lossy(&job.output.stdout);
    assert_eq!(job.output.status.code(), Some(3), "{stdout}");
    assert!(stdout.contains("::error title=aiperf gate failed::request_latency:max<=1ns"));
    assert!(job.text("summary.md").contains("| **no** |"));
    let junit = job.text("results/junit.xml");
    assert!(junit.contains(r#"<testsuites tests="3" failures="1" errors="0">"#), "{junit}");
}

#[test]
fn the_gates_of_the_job_are_valid() {
    let job = job();
    let gates = job["env"]["GATES"].as_str().unwrap();
    let gates: Vec<&str> = gates.split_whitespace().filter(|word| *word != "--gate").collect();
    assert_eq!(gates.len(), 3);
    for gate in gates {
        gate.parse::<measure::judge::Gate>().unwrap();
    }
}
