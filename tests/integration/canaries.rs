//! Canaries: requests whose answers are known from the idle server.

use std::fs;

use base::units::Nanos;
use mock_server::Script;
use serde_json::Value;
use tokens::tokenizer::TokenCounter;

use crate::support::load::{faults, mock};
use crate::support::run::{Run, aiperf, json_lines, profile};

/// The flags of a run of 100 requests, of which 10 are canaries.
fn flags<'a>(extra: &[&'a str]) -> Vec<&'a str> {
    let flags = ["--request-count", "100", "--canaries", "10%", "--random-seed", "5"];
    [&flags, extra].concat()
}

/// The metadata of the records that are canaries.
fn canaries(run: &Run) -> Vec<Value> {
    let metadata = run.records().into_iter().map(|record| record["metadata"].clone());
    metadata.filter(|metadata| !metadata["canary"].is_null()).collect()
}

/// Tokens of the text that a canary of `canaries.jsonl` expects, and of its only known answer.
fn tokens(run: &Run, number: &Value) -> (u64, u64) {
    let canary = &json_lines(&run.path("canaries.jsonl"))[number.as_u64().unwrap() as usize - 1];
    let count = |text: &Value| TokenCounter::builtin().count(text.as_str().unwrap());
    (count(&canary["expected"]), count(&canary["answers"][0]))
}

fn request_count(run: &Run) -> f64 {
    run.summary()["request_count"]["avg"].as_f64().unwrap()
}

#[test]
fn a_server_that_works_answers_as_if_it_were_idle() {
    let server = mock(Script::default());
    let run = profile(&server.url(), &flags(&["--concurrency", "4"])).succeeded();
    let found = canaries(&run);
    // They take turns.
    let mut numbers: Vec<u64> =
        found.iter().map(|metadata| metadata["canary"].as_u64().unwrap()).collect();
    numbers.sort_unstable();
    assert_eq!(numbers, [1, 1, 2, 2, 3, 4, 5, 6, 7, 8]);
    for metadata in &found {
        assert!(metadata["canary_differing_tokens"].is_null(), "{metadata}");
        assert!(metadata["output_faults"].is_null(), "{metadata}");
        let (_, whole) = tokens(&run, &metadata["canary"]);
        assert_eq!(metadata["canary_common_tokens"], whole, "{metadata}");
        assert_eq!(metadata["conversation_id"], format!("canary_{}", metadata["canary"]));
    }
    assert_eq!((run.records().len(), request_count(&run)), (100, 90.0));

    let known = json_lines(&run.path("canaries.jsonl"));
    assert_eq!(known.len(), 8);
    for canary in &known {
        let prompt = canary["prompt"].as_str().unwrap();
        let expected = canary["expected"].as_str().unwrap();
        assert!(prompt.ends_with(expected), "{canary}");
        let [answer] = canary["answers"].as_array().unwrap().as_slice() else { panic!("{canary}") };
        assert!(answer.as_str().unwrap().starts_with(expected), "{canary}");
    }
    assert_eq!(run.summary()["run_info"]["config"]["canaries"]["share"], 0.1);
}

#[test]
fn canaries_count_on_request_and_are_known_from_a_file() {
    let server = mock(Script::default());
    let first = profile(&server.url(), &flags(&["--concurrency", "4"])).succeeded();
    let known = first.path("canaries.jsonl");
    let file = known.to_str().unwrap();
    // A server with another text, whose answers go on differently after the words.
    let other = mock(Script { seed: 9, ..Script::default() });
    let extra = ["--concurrency", "4", "--measure-canaries", "--canary-file", file];
    let run = profile(&other.url(), &flags(&extra)).succeeded();
    assert_eq!(request_count(&run), 100.0);
    let found = canaries(&run);
    assert_eq!(found.len(), 10);
    for metadata in found {
        // The words, and of the four tokens after them at most some.
        let (words, whole) = tokens(&first, &metadata["canary"]);
        let common = metadata["canary_common_tokens"].as_u64().unwrap();
        assert!((words..whole).contains(&common), "{metadata}");
        assert_eq!(metadata["canary_differing_tokens"], whole, "{metadata}");
        assert!(metadata["output_faults"].is_null(), "{metadata}");
    }
    assert_eq!(fs::read(known).unwrap(), fs::read(run.path("canaries.jsonl")).unwrap());
}

#[test]
fn requests_of_canaries_are_greedy_and_lack_markers() {
    let server = mock(Script::default());
    let extra =
        ["--export-level", "raw", "--cache-bust", "first-turn-prefix", "--warmup-request-count"];
    let inputs = ["20", "--extra-inputs", "temperature:0.7", "--extra-inputs", "top_p:0.9"];
    let run = profile(&server.url(), &flags(&[&extra[..], &inputs].concat())).succeeded();
    let prompts: Vec<String> = json_lines(&run.path("canaries.jsonl"))
        .iter()
        .map(|canary| canary["prompt"].as_str().unwrap().to_owned())
        .collect();
    let lines = json_lines(&run.path("profile_export_raw.jsonl"));
    let mut found = 0;
    for line in lines {
        let payload = &line["payload"];
        let prompt = payload["messages"][0]["content"].as_str().unwrap();
        if let Some(number) = line["metadata"]["canary"].as_u64() {
            found += 1;
            assert_eq!(prompt, prompts[number as usize - 1]);
            assert_eq!(payload["max_completion_tokens"], 64);
            assert_eq!(line["metadata"]["benchmark_phase"], "profiling");
        } else {
            assert!(!prompts.iter().any(|known| prompt.contains(&**known)), "{prompt}");
        }
        let temperature = if line["metadata"]["canary"].is_null() { 0.7 } else { 0.0 };
        assert_eq!(payload["temperature"].as_f64(), Some(temperature), "{payload}");
        assert_eq!(payload["top_p"], 0.9);
    }
    assert_eq!(found, 10);
}

#[test]
fn what_the_idle_server_was_asked_is_shown() {
    let server = mock(Script::default());
    let directory = tempfile::tempdir().unwrap();
    let shown = |name: &str, extra: &[&str]| {
        let mut command = aiperf(&["profile", "-m", "m", "--tokenizer", "builtin", "--url"]);
        command.args([&server.url(), "--request-count", "4", "--ui", "simple"]);
        command.args(["--canaries", "50%", "--artifact-dir"]).arg(directory.path().join(name));
        let output = command.args(extra).output().unwrap();
        assert!(output.status.success(), "{name}");
        let text = String::from_utf8(output.stderr).unwrap();
        text.lines().find(|line| line.starts_with("asked")).map(str::to_owned)
    };
    let expected = "asked the idle server 8 canaries, 3 times each: 8 always had the same answer";
    assert_eq!(shown("standard", &[]).as_deref(), Some(expected));
    let known = directory.path().join("standard/canaries.jsonl");
    assert_eq!(shown("known", &["--canary-file", known.to_str().unwrap()]), None);
    // One is known, and one is not what the server answers.
    let mixed = directory.path().join("mixed.jsonl");
    let other = "{\"prompt\": \"Name a color.\", \"expected\": \"vermilion\", \"max_tokens\": 4}\n";
    let first = fs::read_to_string(&known).unwrap().lines().next().unwrap().to_owned();
    fs::write(&mixed, format!("{first}\n{other}")).unwrap();
    let expected = "asked the idle server 1 canary, 3 times each: 1 always had the same answer; 1 not as expected";
    assert_eq!(
        shown("mixed", &["--canary-file", mixed.to_str().unwrap()]).as_deref(),
        Some(expected)
    );
}

#[test]
fn wrong_answers_under_load_are_found() {
    // The idle server is asked at most 8 at the same time.
    let faults = faults(&["rate=100%,above=9:corrupt=script"]);
    let ttft = Nanos::from_millis(50.0);
    let server = mock(Script { faults, ttft, ..Script::default() });
    let run = profile(&server.url(), &flags(&["--concurrency", "16"])).succeeded();
    let found = canaries(&run);
    assert_eq!(found.len(), 10);
    let is_wrong = |metadata: &&Value| {
        let faults = metadata["output_faults"].as_str().unwrap_or_default();
        faults.split(',').any(|fault| fault == "canary_wrong")
    };
    let wrong: Vec<_> = found.iter().filter(is_wrong).collect();
    assert!(!wrong.is_empty(), "{found:?}");
    let known = json_lines(&run.path("canaries.jsonl"));
    for metadata in wrong {
        // Of the 20 words of the answer, the first 10 are left.
        let number = metadata["canary"].as_u64().unwrap() as usize;
        let expected = known[number - 1]["expected"].as_str().unwrap();
        let left = expected.split(' ').take(10).collect::<Vec<_>>().join(" ");
        assert_eq!(metadata["canary_common_tokens"], TokenCounter::builtin().count(&left));
        assert!(metadata["canary_differing_tokens"].is_u64(), "{metadata}");
    }
    for canary in known {
        assert_eq!(canary["answers"].as_array().unwrap().len(), 1, "{canary}");
    }
}

#[test]
fn a_server_that_does_not_answer_is_not_loaded() {
    let server = mock(Script { faults: faults(&["every=1:status=503"]), ..Script::default() });
    let run = profile(&server.url(), &flags(&[]));
    assert_eq!(run.exit_code(), Some(1), "{}", run.stderr());
    let expected = "the server did not answer canary 1 before the load: it returned status 503";
    assert!(run.stderr().contains(expected), "{}", run.stderr());
    assert!(!run.path("profile_export.jsonl").exists());
}

#[test]
fn flags_that_do_not_go_with_canaries_are_refused() {
    let refusal = |flags: &str| {
        let mut command = aiperf(&["profile", "-m", "m", "--tokenizer", "builtin"]);
        command.args(["--url", "http://127.0.0.1:1"]).args(flags.split(' '));
        let output = command.output().unwrap();
        assert!(!output.status.success(), "{flags}");
        String::from_utf8(output.stderr).unwrap()
    };
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("canaries.jsonl");
    fs::write(&file, "{\"prompt\": \"a\"}\n{\"text\": \"b\"}\n").unwrap();
    let file = file.display();
    for (flags, why) in [
        ("--canaries 0", "must be above 0 and at most 50%"),
        ("--canaries 60%", "must be above 0 and at most 50%"),
        ("--canaries few", "expected a share such as 1% or 0.01"),
        ("--measure-canaries", "--canaries <SHARE>"),
        ("--canary-file x", "--canaries <SHARE>"),
        (
            "--canaries 1% --endpoint-type embeddings",
            "embeddings requests do not have text in and out",
        ),
        (
            "--canaries 1% --user-centric-rate 1 --num-users 2 --session-turns-mean 2",
            "use --request-rate instead",
        ),
        (
            &format!("--canaries 1% --canary-file {file}"),
            "canaries.jsonl, line 2: unknown field `text`",
        ),
        ("--canaries 1% --canary-file /none", "cannot read"),
    ] {
        let said = refusal(flags);
        assert!(said.contains(why), "{flags}: {said}");
    }
    // The timestamps of a file are a schedule.
    let trace = directory.path().join("trace.jsonl");
    fs::write(&trace, "{\"text\": \"a\", \"timestamp\": 0}\n").unwrap();
    let said = refusal(&format!("--canaries 1% --fixed-schedule --input-file {}", trace.display()));
    assert!(said.contains("--canaries: each request of a fixed schedule has its time"), "{said}");
}
