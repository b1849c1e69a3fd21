//! Each kind of ending of `aiperf profile`: `aiperf report` of its directory has the same exit code,
//! files and console.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;
use std::process::Output;
use std::thread;
use std::time::{Duration, Instant};

use base::units::Nanos;
use mock_server::{Config, MockServer, Script};
use rustix::process::Signal;

use crate::support::run::{aiperf, profile_command, signal};

/// Maximum time until a run has sent a number of requests.
const BOUND: Duration = Duration::from_mins(1);

/// An ending, and what leads to it.
struct Ending {
    name: &'static str,
    exit_code: i32,
    /// The faults of the server, as flags of `aiperf mock-server`.
    fault: Option<&'static str>,
    flags: &'static str,
    /// Number of requests after which the user interrupts the command.
    interrupted_after: Option<u64>,
}

impl Ending {
    const fn new(name: &'static str, exit_code: i32, flags: &'static str) -> Self {
        Self { name, exit_code, fault: None, flags, interrupted_after: None }
    }

    const fn with(self, fault: &'static str) -> Self {
        Self { fault: Some(fault), ..self }
    }

    const fn interrupted_after(self, requests: u64) -> Self {
        Self { interrupted_after: Some(requests), ..self }
    }
}

const SEARCH: &str = "--search-recipe max-concurrency-under-sla --concurrency-max 4 \
                      --request-count 12 --error-rate-sla 0.5 --search-sla request_count:avg:le:40";

/// Declares a test for each ending: its exit code and flags, and how it comes about.
macro_rules! endings {
    ($($name:ident: ($exit_code:literal, $flags:expr)$(.$how:ident($value:literal))*,)*) => {
        $(
            #[test]
            fn $name() {
                let ending = Ending::new(stringify!($name), $exit_code, $flags)$(.$how($value))*;
                let differences = ending.differences();
                assert!(differences.is_empty(), "{}", differences.concat());
            }
        )*
    };
}

endings! {
    complete: (0, "--request-count 6"),
    gate_held: (0, "--request-count 6 --gate request_count==6"),
    gate_missed: (3, "--request-count 6 --gate request_count>=7"),
    none_succeeded: (1, "--request-count 6 --gate request_count>=0").with("every=1:status=500"),
    too_many_failed: (1, "--request-count 20000 --failed-request-threshold 0.1")
        .with("every=2:status=500"),
    interrupted: (130, "--request-count 5000 --gate request_count>=7").interrupted_after(8),
    without_spans_of_the_server:
        (0, "--request-count 6 --otel-receiver-wait 100ms --otel-receiver"),
    trials: (0, "--request-count 6 --num-profile-runs 3"),
    trials_gate_missed: (3, "--request-count 6 --num-profile-runs 2 --gate request_count>=7"),
    trials_one_failed: (1, "--request-count 6 --num-profile-runs 3")
        .with("requests=7,8,9,10,11,12:status=503"),
    trials_interrupted: (130, "--request-count 200 --num-profile-runs 3").interrupted_after(205),
    sweep: (0, "--request-count 6 --concurrency 1,2"),
    sweep_no_table: (0, "--request-count 6 --concurrency 1,2 --no-sweep-table"),
    sweep_with_trials: (0, "--request-count 6 --concurrency 1,2 --num-profile-runs 2"),
    sweep_a_cell_failed: (1, "--request-count 6 --concurrency 1,2")
        .with("requests=7,8,9,10,11,12:status=503"),
    saturation: (0, "--request-count 6 --sweep-auto --concurrency-max 2"),
    search: (0, SEARCH),
    search_none_feasible: (1, SEARCH).with("every=1:status=503"),
    search_cannot_tell:
        (4, "--search-recipe max-concurrency-under-sla --concurrency-max 4 \
             --benchmark-duration 0.02 --search-sla request_latency:p99:lt:60000"),
    sweep_with_conditions:
        (0, "--request-count 400 --concurrency 1,2 --search-sla request_latency:p99:lt:60000"),
    search_over_settings:
        (0, "--request-count 6 --search-space concurrency:1,2 --search-metric request_count \
             --search-stat avg --search-direction maximize --search-initial-points 2"),
}

impl Ending {
    /// Flags for what is written beside the files of the runs. A search does not have gates, and
    /// charts of each ending would take long.
    fn outputs(&self, place: &Path) -> Vec<String> {
        let file = |name: &str| place.join(name).display().to_string();
        let mut outputs = vec!["--html".to_owned(), file("page.html")];
        if ["complete", "trials", "sweep_with_trials"].contains(&self.name) {
            outputs.push("--auto-plot".to_owned());
        }
        if !self.flags.contains("--search") {
            outputs.extend(["--junit".to_owned(), file("junit.xml")]);
        }
        outputs
    }

    fn measure(&self, place: &Path) -> Output {
        let faults = self.fault.iter().map(|fault| Script::parse_fault(fault).unwrap()).collect();
        let ttft = Nanos::from_millis(1.0);
        let script = Script { faults, ttft, ..Script::default() };
        let server = MockServer::start(Config { script, ..Config::default() }).unwrap();
        let flags: Vec<&str> = self.flags.split_whitespace().collect();
        let mut command = profile_command(&server.url(), &place.join("run"), &flags);
        command.args(self.outputs(place)).args(["--random-seed", "7"]);
        // Without the scrapes, a report cannot compute them again.
        command.arg("--no-server-metrics");
        let child = command.spawn().unwrap();
        if let Some(requests) = self.interrupted_after {
            let begun = Instant::now();
            while server.requests_received() < requests {
                assert!(begun.elapsed() < BOUND, "{}: it does not start", self.name);
                thread::sleep(Duration::from_millis(1));
            }
            signal(&child, Signal::INT);
        }
        child.wait_with_output().unwrap()
    }

    /// Returns what differs between the command and the report of its directory.
    fn differences(&self) -> Vec<String> {
        let directory = tempfile::tempdir().unwrap();
        let place = directory.path();
        let measured = self.measure(place);
        let written = contents(place);
        remove_derived(place);
        let mut report = aiperf(&["report"]);
        let reported = report.arg(place.join("run")).args(self.outputs(place)).output().unwrap();
        let again = contents(place);
        let mut found = Vec::new();
        let codes = [&measured, &reported].map(|output| output.status.code());
        if codes != [Some(self.exit_code); 2] {
            let said = [&measured, &reported].map(|it| String::from_utf8_lossy(&it.stderr));
            found.push(format!("exit codes {codes:?}: {said:?}"));
        }
        for name in written.keys().chain(again.keys()) {
            if written.get(name) != again.get(name) {
                let lengths = [&written, &again].map(|files| files.get(name).map(Vec::len));
                found.push(format!("{name}: {lengths:?} bytes"));
            }
        }
        let [live, rebuilt] = [&measured, &reported].map(shown);
        if live != rebuilt {
            found.push(format!("console:\n{live}\n--- report:\n{rebuilt}"));
        }
        found.into_iter().map(|difference| format!("{}: {difference}\n", self.name)).collect()
    }
}

/// Returns the results that were printed, without the list of files: a report does not write the
/// records again.
fn shown(output: &Output) -> String {
    let text = String::from_utf8_lossy(&output.stdout);
    let is_result = |line: &&str| !line.starts_with("  ") && !line.starts_with("Files in ");
    text.lines().filter(is_result).collect::<Vec<_>>().join("\n")
}

/// Returns the content of each file in `directory` that describes results, by its path. Tables of
/// requests have their rows in another order.
fn contents(directory: &Path) -> BTreeMap<String, Vec<u8>> {
    let mut found = BTreeMap::new();
    let mut places = vec![directory.to_owned()];
    while let Some(place) = places.pop() {
        for entry in fs::read_dir(place).unwrap() {
            let path = entry.unwrap().path();
            let name = path.strip_prefix(directory).unwrap().display().to_string();
            let is_kept = ["parquet", "log"].iter().all(|kind| !name.ends_with(kind));
            if path.is_dir() {
                places.push(path);
            } else if is_kept {
                found.insert(name, fs::read(&path).unwrap());
            }
        }
    }
    found
}

/// Removes the files that a report writes, except those that it reads.
fn remove_derived(directory: &Path) {
    for entry in fs::read_dir(directory).unwrap() {
        let path = entry.unwrap().path();
        let name = path.file_name().unwrap().to_str().unwrap();
        let is_kept = ["run_manifest.json", "sweep_plan.json", "inputs.json"].contains(&name);
        let is_read = is_kept || ["jsonl", "parquet", "log"].iter().any(|it| name.ends_with(it));
        if path.is_dir() && ["plots", "aggregate", "sweep_aggregate"].contains(&name) {
            fs::remove_dir_all(path).unwrap();
        } else if path.is_dir() {
            remove_derived(&path);
        } else if !is_read {
            fs::remove_file(path).unwrap();
        }
    }
}
