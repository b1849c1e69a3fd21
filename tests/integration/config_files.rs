//! `aiperf config`: templates, and what a file expands to.

use std::fs;
use std::path::Path;
use std::process::Output;

use serde_json::{Value, json};

use crate::support::hub::Hub;
use crate::support::run::aiperf;

fn text(output: &Output) -> String {
    let error = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{error}");
    String::from_utf8(output.stdout.clone()).unwrap()
}

/// Returns what the program prints, in `directory`.
fn printed(directory: &Path, arguments: &[&str]) -> String {
    text(&aiperf(arguments).current_dir(directory).output().unwrap())
}

/// Returns the names of the templates.
fn templates() -> Vec<String> {
    let list = printed(Path::new("."), &["config", "init", "--list"]);
    let names = list.lines().filter_map(|line| line.strip_prefix("  "));
    names.map(|line| line.split(' ').next().unwrap().to_owned()).collect()
}

#[test]
fn each_template_describes_runs_that_send_requests() {
    let names = templates();
    // Those of AIPerf 0.13 except user_files.
    assert_eq!(names.len(), 26, "{names:?}");
    let directory = tempfile::tempdir().unwrap();
    let here = directory.path();
    let question = json!({"question_id": "1", "category": "coding", "messages":
        [{"role": "user", "content": "Reverse a list."}]});
    fs::write(here.join("qualitative.jsonl"), question.to_string()).unwrap();
    let sharegpt = json!([{"conversations": [
        {"from": "human", "value": "Tell me something about the sea."},
        {"from": "gpt", "value": "The sea is large, deep and salty."},
    ]}]);
    let hub = Hub::default().with(
        "anon8231489123/ShareGPT_Vicuna_unfiltered",
        "main",
        "ShareGPT_V3_unfiltered_cleaned_split.json",
        sharegpt.to_string().as_bytes(),
    );
    let hub = format!("http://{}", hub.start());
    for name in names {
        fs::write(here.join("as-it-is.yaml"), printed(here, &["config", "init", "-t", &name]))
            .unwrap();
        printed(here, &["config", "check", "as-it-is.yaml"]);
        let file = format!("{name}.yaml");
        let url = "http://localhost:9";
        let init = ["config", "init", "-t", &name, "-m", "mock-model", "-u", url, "-o", &file];
        assert_eq!(printed(here, &init), "", "{name}");
        assert!(
            !aiperf(&init).current_dir(here).output().unwrap().status.success(),
            "{name} exists"
        );
        let expanded = printed(here, &["config", "expand", "--full", "--format", "json", &file]);
        let expanded: Value = serde_json::from_str(&expanded).unwrap();
        let runs = expanded["variations"].as_array().unwrap();
        let sweeps = [
            ("scenario_workload_profiles", 3),
            ("speed_bench_sweep", 11),
            ("sweep_distributions", 9),
            ("sweep_with_plot", 8),
        ];
        let expected = sweeps.iter().find(|(sweep, _)| *sweep == name).map_or(1, |(_, runs)| *runs);
        assert_eq!(runs.len(), expected, "{name}");
        let first = &runs[0]["benchmark"];
        assert_eq!(first["endpoint"]["urls"], json!([url]), "{name}");
        assert_eq!(first["models"]["items"][0]["name"], "mock-model", "{name}");
        // A dry run is of a single run, which the settings of the first describe.
        let is_single = !fs::read_to_string(here.join(&file)).unwrap().contains("multiRun");
        let single = if runs.len() == 1 && is_single {
            file
        } else {
            let single = json!({ "benchmark": first }).to_string();
            fs::write(here.join("single.json"), single).unwrap();
            "single.json".to_owned()
        };
        let mut run = aiperf(&["profile", "--config", &single]);
        run.args(["--tokenizer", "builtin", "--dry-run=json"]).current_dir(here);
        run.env("HF_ENDPOINT", &hub).env("HF_HUB_CACHE", here.join("cache"));
        let dry: Value = serde_json::from_str(&text(&run.output().unwrap())).unwrap();
        assert!(dry["input_tokens"].as_f64().unwrap() > 0.0, "{name}: {dry}");
    }
}

#[test]
fn a_file_expands_to_its_runs_without_secrets() {
    let directory = tempfile::tempdir().unwrap();
    let here = directory.path();
    let file = "variables: {n: 4}\n\
        sweep: {type: scenarios, runs: [{name: a, variables: {n: 5}}, {name: b, variables: {n: 6}}]}\n\
        benchmark:\n  model: m\n  endpoint: {url: 'http://u:${PASSWORD}@h:1', apiKey: '${SERVER_KEY}', \
        headers: {X-Team: '${SERVER_KEY}'}, extra: {note: 'is {{ \"${SERVER_KEY}\" }}'}}\n  \
        dataset: {type: synthetic, isl: '{{ n * 10 }}', osl: 2}\n  \
        phases: {type: concurrency, concurrency: '{{ n }}', requests: 8}\n";
    fs::write(here.join("f.yaml"), file).unwrap();
    let expand = |flags: &[&str]| {
        let mut command = aiperf(&[&["config", "expand", "f.yaml"], flags].concat());
        let command = command.env("SERVER_KEY", "hunter2").env("PASSWORD", "pa55word");
        let output = command.current_dir(here).output().unwrap();
        for stream in [&output.stdout, &output.stderr] {
            let shown = String::from_utf8_lossy(stream);
            assert!(!shown.contains("hunter2") && !shown.contains("pa55word"), "{shown}");
        }
        output
    };
    assert_eq!(
        text(&expand(&[])),
        "Sweep type: ScenarioSweep (2 variations)\n\n[0] dir=a  label=a\n[1] dir=b  label=b\n"
    );
    let second = text(&expand(&["--index", "1"]));
    assert!(
        second.starts_with("Sweep type: ScenarioSweep (showing 1 of 2)\n\n[1] dir=b"),
        "{second}"
    );
    assert!(second.contains("\n    phases:\n") && second.contains("concurrency: 6\n"), "{second}");
    let all: Value = serde_json::from_str(&text(&expand(&["-F", "-f", "json"]))).unwrap();
    assert_eq!(all["sweep_type"], "ScenarioSweep");
    let lengths: Vec<&Value> = (0..2)
        .map(|run| &all["variations"][run]["benchmark"]["datasets"][0]["prompts"]["isl"]["mean"])
        .collect();
    assert_eq!(lengths, [&json!(50.0), &json!(60.0)]);
    let yaml = text(&expand(&["--format", "yaml"]));
    assert!(yaml.starts_with("sweep_type: ScenarioSweep\nvariations:\n- index: 0\n"), "{yaml}");
    assert!(!yaml.contains("benchmark:"), "{yaml}");
    let beyond = expand(&["--index", "2"]);
    assert_eq!(beyond.status.code(), Some(2));
    let error = String::from_utf8_lossy(&beyond.stderr);
    assert!(error.contains("--index 2: the file has 2 runs"), "{error}");
    // An error of a template, which has the secret in it.
    fs::write(here.join("f.yaml"), "benchmark: {model: '{{ ${SERVER_KEY} }}'}").unwrap();
    let error = expand(&[]);
    assert_eq!(error.status.code(), Some(2));
    let error = String::from_utf8_lossy(&error.stderr);
    assert!(error.contains("--config: f.yaml: model: <redacted> is not set"), "{error}");
}

#[test]
fn templates_are_found_by_word_and_category() {
    let here = Path::new(".");
    let soak = printed(here, &["config", "init", "--search", "DRIFT", "--verbose"]);
    let lines: Vec<&str> = soak.lines().collect();
    assert_eq!(lines[0], "Load Testing:");
    assert!(lines[1].starts_with("  time_based_soak  A constant load for an hour"), "{soak}");
    assert!(lines[2].ends_with("intermediate: soak, stability, duration, sla, drift"), "{soak}");
    let datasets = printed(here, &["config", "init", "--category", "datasets"]);
    assert_eq!(datasets.lines().filter(|line| line.starts_with("  ")).count(), 4, "{datasets}");
    for (arguments, why) in [
        (&["--search", "zzz"][..], "no template matches"),
        (&["--template", "minimum"], "did you mean minimal?"),
        (&["--template", "minimal", "--list"], "cannot be used with"),
        (&["--model", "m"], "--template"),
    ] {
        let output = aiperf(&[&["config", "init"], arguments].concat()).output().unwrap();
        let error = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.code() == Some(2) && error.contains(why), "{arguments:?}: {error}");
    }
}
