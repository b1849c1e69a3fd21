//! The files of every kind of run that AIPerf supports, read by AIPerf's own models in
//! `tests/read_with_aiperf.py`.

use std::fs;

use base::units::Nanos;
use mock_server::Script;

use crate::support::hub::{CONVERTED, Hub, golden};
use crate::support::load::{faults, mock};
use crate::support::python::run_python;
use crate::support::run::aiperf;

const FILES: [(&str, &str); 4] = [
    ("single.jsonl", "{\"text\": \"Why is the sky blue?\"}\n{\"text\": \"Name three rivers.\"}\n"),
    ("multi.jsonl", "{\"session_id\": \"x\", \"turns\": [{\"text\": \"a\"}, {\"text\": \"b\"}]}\n"),
    (
        "trace.jsonl",
        "{\"timestamp\": 0, \"input_length\": 60, \"output_length\": 5, \"hash_ids\": [1]}\n\
         {\"timestamp\": 25, \"input_length\": 70, \"output_length\": 3, \"hash_ids\": [1]}\n",
    ),
    (
        "raw.jsonl",
        "{\"model\": \"m\", \"messages\": [{\"role\": \"user\", \"content\": \"hi\"}]}\n",
    ),
];

const TEMPLATE: &str = "payload_template:{\"model\": \"m\", \"messages\": [{\"role\": \"user\", \
                        \"content\": {{ text|tojson }}}]}";

/// Name and flags of each kind of run. `FILE:` stands for the directory of the files.
const KINDS: [(&str, &str); 22] = [
    (
        "everything",
        "--streaming --request-count 12 --warmup-request-count 2 --export-http-trace \
         --show-trace-timing --slice-duration 1 --server-metrics-formats json csv jsonl parquet \
         --goodput time_to_first_token:200 --header X-Custom:a --extra-inputs temperature:0.5 \
         --request-cancellation-rate 20 --random-seed 3 --isl 20 --osl 5 --api-key secret",
    ),
    ("mixed-lengths", "--streaming --request-count 8 --seq-dist 20|2,5:60;30,6:40"),
    ("rate", "--streaming --request-rate 40 --request-count 8 --num-profile-runs 2"),
    (
        "search",
        "--search-recipe max-goodput-under-slo --goodput request_latency:5000 \
                --concurrency-max 2 --request-count 4",
    ),
    (
        "duration",
        "--streaming --benchmark-duration 1 --concurrency 4 \
                  --concurrency-ramp-duration 0.3",
    ),
    ("users", "--streaming --user-centric-rate 40 --num-users 4 --session-turns-mean 2 --isl 20"),
    ("file", "--input-file FILE:single.jsonl --custom-dataset-type single_turn"),
    ("conversations", "--streaming --input-file FILE:multi.jsonl --osl 7"),
    ("schedule", "--streaming --input-file FILE:trace.jsonl --fixed-schedule"),
    (
        "payloads",
        "--input-file FILE:raw.jsonl --custom-dataset-type raw_payload --endpoint-type raw --endpoint /v1/chat/completions",
    ),
    ("public", "--public-dataset spec_al_gsm8k --request-count 2 --osl 5"),
    ("no-records", "--request-count 4 --export-level summary"),
    (
        "media",
        "--request-count 4 --image-width-mean 16 --image-height-mean 16 \
               --num-prefix-prompts 2 --prefix-prompt-length 5",
    ),
    ("completions", "--endpoint-type completions --streaming --request-count 4 --batch-size 2"),
    ("responses", "--endpoint-type responses --streaming --request-count 4"),
    ("messages", "--endpoint-type messages --request-count 4 --system-prompt Be-terse."),
    ("embeddings", "--endpoint-type embeddings --request-count 4"),
    ("rankings", "--endpoint-type nim_rankings --request-count 4"),
    ("images", "--endpoint-type image_generation --request-count 4"),
    ("videos", "--endpoint-type video_generation --request-count 2"),
    (
        "transcriptions",
        "--endpoint-type audio_transcription --audio-length-mean 1 \
                        --request-count 4",
    ),
    (
        "retrieval",
        "--endpoint-type image_retrieval --image-width-mean 16 --image-height-mean 16 \
                   --request-count 4",
    ),
];

/// Number of tests that share the kinds of runs.
const PARTS: usize = 3;

/// Runs every `PARTS`th kind, from the one at `part` on, and reads the files of these runs.
fn aiperf_reads_the_files(part: usize) {
    let itl = Nanos::from_millis(1.0);
    let server = mock(Script { itl, ..Script::default() });
    let faulty = mock(Script { itl, faults: faults(&["every=7:status=500"]), ..Script::default() });
    let directory = tempfile::tempdir().unwrap();
    for (name, content) in FILES {
        fs::write(directory.path().join(name), content).unwrap();
    }
    let gsm8k = golden("gsm8k.parquet");
    let hub = Hub::default().with("openai/gsm8k", CONVERTED, "main/test/0000.parquet", &gsm8k);
    let hub = format!("http://{}", hub.start());
    let folder = format!("{}/", directory.path().display());
    let run = |name: &str, flags: &[&str]| {
        let url = if name == "everything" { faulty.url() } else { server.url() };
        let base = ["profile", "--model", "m", "--tokenizer", "builtin", "--ui", "none"];
        let mut command = aiperf(&[&base[..], &["--url", &url], flags].concat());
        command.env("HF_ENDPOINT", &hub).env("HF_HUB_CACHE", directory.path().join("hub"));
        let output = command.arg("--artifact-dir").arg(directory.path().join(name)).output();
        let output = output.unwrap();
        assert!(output.status.success(), "{name}: {}", String::from_utf8_lossy(&output.stderr));
    };
    for (name, flags) in KINDS.into_iter().skip(part).step_by(PARTS) {
        let flags = flags.replace("FILE:", &folder);
        let mut flags: Vec<&str> = flags.split_whitespace().collect();
        if !flags.contains(&"--export-level") {
            flags.extend(["--export-level", "raw"]);
        }
        run(name, &flags);
    }
    if part == 1 {
        let template = ["--endpoint-type", "template", "--endpoint", "/v1/chat/completions"];
        let rest = ["--extra-inputs", TEMPLATE, "--request-count", "4", "--export-level", "raw"];
        run("template", &[&template[..], &rest].concat());
    }
    run_python("tests/read_with_aiperf.py", directory.path());
}

#[test]
fn aiperf_reads_the_files_of_every_kind_of_run_1_of_3() {
    aiperf_reads_the_files(0);
}

#[test]
fn aiperf_reads_the_files_of_every_kind_of_run_2_of_3() {
    aiperf_reads_the_files(1);
}

#[test]
fn aiperf_reads_the_files_of_every_kind_of_run_3_of_3() {
    aiperf_reads_the_files(2);
}
