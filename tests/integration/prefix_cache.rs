//! Runs against a server with a prefix cache: what prompts repeat, what was cached, and a cache that was not
//! cold. Prompts have 400 tokens, so that 24 blocks of 16 tokens, 384 of 400, can be cached.

use std::fmt::Write as _;
use std::path::{Path, PathBuf};

use base::units::Nanos;
use mock_server::{MockServer, PrefixCacheSize, Script, UsageReport};
use serde_json::Value;

use crate::support::load::mock;
use crate::support::run::{Run, aiperf, profile};

/// Words of one token of the o200k vocabulary, alone and after another.
const WORDS: [&str; 8] = ["the", "time", "water", "house", "green", "river", "paper", "table"];

fn server(script: Script) -> MockServer {
    let prefix_cache = Some(PrefixCacheSize { block_tokens: 16, blocks: 100_000 });
    mock(Script { prefix_cache, output_tokens: 2, ..script })
}

/// A prompt of 400 tokens, of which no two begin with the same two words.
fn prompt(number: usize) -> String {
    let pair = [WORDS[number % 8], WORDS[number / 8 % 8]].join(" ");
    vec![pair; 200].join(" ")
}

/// Writes a dataset of `prompts`.
fn dataset(directory: &Path, prompts: &[String]) -> PathBuf {
    let path = directory.join("prompts.jsonl");
    let mut lines = String::new();
    for prompt in prompts {
        writeln!(lines, "{}", serde_json::json!({"text": prompt})).unwrap();
    }
    std::fs::write(&path, lines).unwrap();
    path
}

fn run(server: &MockServer, file: &Path, flags: &[&str]) -> Run {
    let of_dataset = ["--input-file", file.to_str().unwrap(), "--concurrency", "2"];
    profile(&server.url(), &[&of_dataset, flags].concat()).succeeded()
}

fn ratio(cache: &Value, name: &str) -> f64 {
    cache["total"][name].as_f64().unwrap_or_else(|| panic!("{name} of {cache}"))
}

const NOT_COLD: &str =
    "! cache-not-cold: 96.0% of the prompt tokens were cached, but prompts repeat 0.0%";

/// Returns the text with single spaces.
fn words(text: &str) -> String {
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}

#[test]
fn a_second_run_with_the_same_prompts_is_warned_of_and_the_first_is_not() {
    let place = tempfile::tempdir().unwrap();
    let prompts: Vec<String> = (0..20).map(prompt).collect();
    let file = dataset(place.path(), &prompts);
    let server = server(Script::default());
    let flags = ["--request-count", "20", "--html"];
    let first = run(&server, &file, &flags);
    let cache = &first.summary()["prefix_cache"];
    assert_eq!(ratio(cache, "prompt_tokens"), 8000.0);
    assert_eq!([ratio(cache, "cached_ratio"), ratio(cache, "expected_ratio")], [0.0, 0.0]);
    assert!(!first.stdout().contains("cache-not-cold"), "{}", first.stdout());
    assert!(!first.text("report.html").contains("Prefix Cache Was Not Cold"));

    let second = run(&server, &file, &flags);
    let cache = &second.summary()["prefix_cache"];
    assert_eq!([ratio(cache, "cached_ratio"), ratio(cache, "expected_ratio")], [0.96, 0.0]);
    // The server's counters say the same.
    assert_eq!(cache["server"]["metric"], "vllm:prefix_cache_hits");
    assert_eq!(cache["server"]["queried_tokens"], 20.0 * 400.0);
    assert_eq!(cache["server"]["cached_tokens"], 20.0 * 384.0);
    assert!(words(&second.stdout()).contains(NOT_COLD), "{}", second.stdout());
    let said = "Cached prompt tokens: 96.0% of 8,000; prompts repeat 0.0%";
    assert!(words(&second.stdout()).contains(said), "{}", second.stdout());
    assert!(second.text("report.html").contains("Prefix Cache Was Not Cold"));
    // The report of the same run says so too.
    let directory = second.directory.path();
    let again = aiperf(&["report", "--overwrite"]).arg(directory).output().unwrap();
    let stdout = String::from_utf8_lossy(&again.stdout);
    assert!(words(&stdout).contains(NOT_COLD), "{stdout}");

    let reset = run(&server, &file, &[&flags[..], &["--reset-kv-cache"]].concat());
    assert_eq!(ratio(&reset.summary()["prefix_cache"], "cached_ratio"), 0.0);
    assert!(!reset.stdout().contains("cache-not-cold"), "{}", reset.stdout());
}

#[test]
fn prompts_that_a_run_repeats_itself_are_expected() {
    let place = tempfile::tempdir().unwrap();
    let prompts: Vec<String> = (0..4).map(prompt).collect();
    let file = dataset(place.path(), &prompts);
    let server = server(Script::default());
    let run = run(&server, &file, &["--request-count", "40", "--tables", "all"]);
    let cache = &run.summary()["prefix_cache"];
    // Each of four prompts is sent ten times, of which nine find 384 of 400 tokens.
    assert_eq!(ratio(cache, "cached_ratio"), 36.0 * 384.0 / 16_000.0);
    // Nine of ten find all whole blocks of 64 bytes.
    let bytes: usize = prompts.iter().map(String::len).sum();
    let repeated: usize = prompts.iter().map(|prompt| prompt.len() / 64 * 64).sum();
    let expected = 0.9 * repeated as f64 / bytes as f64;
    assert!((ratio(cache, "expected_ratio") - expected).abs() < 1e-12, "{cache}");
    assert!(!run.stdout().contains("cache-not-cold"), "{}", run.stdout());
    let families = cache["by_prefix"].as_array().unwrap();
    assert_eq!(families.len(), 4);
    for family in families {
        assert_eq!(family["cache"]["requests"], 10);
        let start = family["starts_with"].as_str().unwrap();
        let whole = prompts.iter().find(|prompt| prompt.starts_with(start)).unwrap();
        assert_eq!(family["prefix_bytes"], (whole.len() / 64 * 64) as u64);
    }
    assert!(run.stdout().contains("aiperf | Prefix Cache"), "{}", run.stdout());
    assert!(run.stdout().contains("of prefill was repeated work."), "{}", run.stdout());
}

#[test]
fn a_server_that_reports_no_cached_tokens_is_known_by_its_counters() {
    let place = tempfile::tempdir().unwrap();
    let prompts: Vec<String> = (0..20).map(prompt).collect();
    let file = dataset(place.path(), &prompts);
    let server = server(Script { usage: UsageReport::Never, ..Script::default() });
    let flags = ["--request-count", "20"];
    assert!(!run(&server, &file, &flags).stdout().contains("cache-not-cold"));
    let second = run(&server, &file, &flags);
    assert_eq!(second.summary()["prefix_cache"]["total"].get("cached_ratio"), None);
    assert!(words(&second.stdout()).contains(NOT_COLD), "{}", second.stdout());
}

#[test]
fn runs_that_send_the_same_prompts_say_so_before() {
    const SAME: &str = "the runs send the same prompts";
    let server = server(Script::default());
    let runs = ["--request-count", "4", "--num-profile-runs", "2"];
    let said = |flags: &[&str]| {
        let run = profile(&server.url(), &[&runs, flags].concat());
        assert_eq!(run.exit_code(), Some(0), "{}", run.stderr());
        words(&run.stderr())
    };
    assert!(said(&["--set-consistent-seed"]).contains(SAME));
    for others in [
        &[][..],
        &["--vary-seed-per-trial"],
        &["--no-set-consistent-seed"],
        &["--set-consistent-seed", "--reset-kv-cache"],
    ] {
        assert!(!said(others).contains(SAME), "{others:?}");
    }
    let ab = |urls: [&str; 2]| {
        let place = tempfile::tempdir().unwrap();
        let mut command = aiperf(&["ab"]);
        command.args(urls).args(["--block-duration", "0.2", "--settle", "0.1", "--pairs", "1"]);
        command.args(["--", "--model", "mock-model", "--tokenizer", "builtin", "--isl", "20"]);
        command.args(["--osl", "2", "--concurrency", "2", "--ui", "none", "--artifact-dir"]);
        let output = command.arg(place.path().join("ab")).output().unwrap();
        words(&String::from_utf8_lossy(&output.stderr))
    };
    let other = mock(Script::default());
    let same = "both sides send the same prompts to the same server";
    assert!(ab([&server.url(), &server.url()]).contains(same));
    assert!(!ab([&server.url(), &other.url()]).contains(same));
}

/// 400 tokens take 40 ms before the first token, and 16 take 1.6 ms.
#[test]
fn a_warm_cache_is_not_an_improvement() {
    let place = tempfile::tempdir().unwrap();
    let prompts: Vec<String> = (0..60).map(prompt).collect();
    let file = dataset(place.path(), &prompts);
    let server = server(Script { prefill_per_token: Nanos(100_000), ..Script::default() });
    let [cold, warm] = [(); 2].map(|()| run(&server, &file, &["--request-count", "60"]));
    let directories = [cold.directory.path(), warm.directory.path()];
    let flags = ["compare", "--format", "json"];
    let output = aiperf(&flags).args(directories).output().unwrap();
    let found: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(output.status.code(), Some(4), "{found}");
    let comparison = &found["comparisons"][0];
    assert_eq!(comparison["outcome"], "cannot_tell", "{found}");
    let rows = comparison["rows"].as_array().unwrap();
    let ttft = rows.iter().find(|row| row["metric"] == "time_to_first_token").unwrap();
    assert_eq!(ttft["finding"], "cannot_tell", "{ttft}");
}
