//! Requests of traces of agents, compared with a second implementation of their messages.

use std::fs;

use mock_server::Script;
use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;
use serde_json::{Value, json};

use crate::support::load::mock;
use crate::support::python::run_python;
use crate::support::run::{Run, aiperf, profile};

const TOKENIZER: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/golden/tiny-model");
const BLOCK: usize = 16;
/// Number of random traces: each kind of request, cut and sub-agent is in tens of them.
const TRACES: usize = 400;

/// Makes traces whose hash IDs differ between documents.
struct Traces {
    rng: ChaCha8Rng,
    next: usize,
}

impl Traces {
    fn below(&mut self, limit: usize) -> usize {
        self.rng.random_range(0..limit)
    }

    fn new_blocks(&mut self, most: usize) -> Vec<usize> {
        let count = self.below(most + 1);
        self.next += count;
        (self.next - count..self.next).collect()
    }

    /// Returns requests that keep parts of earlier prompts, from the time `t` on, each at the same time as
    /// the one before or later.
    fn requests(&mut self, mut ids: Vec<usize>, mut t: usize) -> Vec<Value> {
        let count = 1 + self.below(5);
        let mut all = Vec::new();
        for _ in 0..count {
            // Full blocks, and then: nothing, a part of one, more blocks without identifiers, or a part
            // of one with an identifier.
            let (extra, more) = match self.below(6) {
                0..3 => (0, Vec::new()),
                3 => (1 + self.below(BLOCK - 1), Vec::new()),
                4 => (BLOCK + self.below(3 * BLOCK), Vec::new()),
                _ => (1 + self.below(BLOCK - 1), vec![self.next]),
            };
            self.next += more.len();
            let extra = if ids.is_empty() { extra.max(1) } else { extra };
            let input = ids.len() * BLOCK + extra;
            let hash_ids = [ids.as_slice(), &more].concat();
            all.push(json!({"t": t as f64 / 1e4, "type": "n", "model": "m", "in": input,
                "out": self.below(4 * BLOCK), "hash_ids": hash_ids}));
            let kept = match self.below(4) {
                0 => self.below(ids.len() + 1),
                _ => ids.len(),
            };
            ids.truncate(kept);
            ids.extend(self.new_blocks(6));
            t += self.below(2);
        }
        all
    }

    fn document(&mut self, number: usize) -> Value {
        let ids = self.new_blocks(6);
        let opening = |ids: &[usize], drawn: usize| drawn % (ids.len() * BLOCK + 1);
        let system = opening(&ids, self.below(40));
        let mut entries = self.requests(ids.clone(), 0);
        if self.below(3) == 0 {
            let at = self.below(entries.len()) + 1;
            let t = self.below(4);
            let shared = if self.below(2) == 0 { ids } else { self.new_blocks(4) };
            let tools = opening(&shared, self.below(40));
            let first = t + self.below(3);
            let requests = self.requests(shared, first);
            entries.insert(
                at,
                json!({"t": t as f64 / 1e4, "type": "subagent", "agent_id": "a",
                "tool_tokens": tools, "requests": requests}),
            );
        }
        json!({"id": format!("trace-{number}"), "block_size": BLOCK, "hash_id_scope": "global",
            "tool_tokens": system / 2, "system_tokens": system - system / 2, "requests": entries})
    }
}

#[test]
fn random_traces_have_the_messages_of_a_second_implementation() {
    let server = mock(Script::default());
    let directory = tempfile::tempdir().unwrap();
    let mut traces = Traces { rng: ChaCha8Rng::seed_from_u64(7), next: 1 };
    let documents: Vec<String> = (0..TRACES).map(|at| traces.document(at).to_string()).collect();
    let trace = directory.path().join("trace.jsonl");
    fs::write(&trace, documents.join("\n")).unwrap();
    let sessions = TRACES.to_string();
    let mut command = aiperf(&["profile", "--model", "m", "--ui", "none"]);
    command.args(["--url", &server.url(), "--tokenizer", TOKENIZER, "--input-file"]).arg(&trace);
    command.args(["--custom-dataset-type", "weka-trace", "--concurrency", "16"]);
    // Short blocks of code may have the same text, since code repeats itself.
    command.args(["--num-sessions", &sessions, "--prompt-corpus", "prose"]);
    command.args(["--export-level", "raw", "--artifact-dir"]).arg(directory.path());
    let run = Run { output: command.output().unwrap(), directory }.succeeded();
    let case = json!({"trace": trace, "tokenizer": TOKENIZER});
    fs::write(run.path("case.json"), case.to_string()).unwrap();
    run_python("tests/agentx_model.py", run.directory.path());
}

/// Makes traces in which the requests of sub-agents are among those of their agent.
struct Flat {
    rng: ChaCha8Rng,
    next: usize,
    /// Number of requests of the document, and how many tokens all of them have at least.
    serial: usize,
    least: usize,
}

impl Flat {
    fn below(&mut self, limit: usize) -> usize {
        self.rng.random_range(0..limit)
    }

    /// Returns requests from the millisecond `begin` on, each of which continues the prompt of an earlier one.
    fn requests(&mut self, begin: usize, count: usize) -> Vec<Value> {
        let mut prompts: Vec<Vec<usize>> = vec![vec![1, 2, 3]];
        let mut t = begin;
        let mut all = Vec::new();
        // Some agents send several sub-agents off at once.
        let fans = self.below(4) == 0;
        for _ in 0..count {
            let latest = prompts.len() - 1 - self.below(prompts.len().min(3));
            let from = if fans { prompts.len().min(2) - 1 } else { latest };
            let mut ids = prompts[from].clone();
            match self.below(8) {
                0 => ids.truncate(1 + self.below(ids.len())),
                1 => ids.clear(),
                _ => {}
            }
            for _ in 0..=self.below(3) {
                self.next += 1;
                ids.push(100 + self.next);
            }
            // Another length for each request of a trace.
            self.serial += 1;
            let input = BLOCK * (ids.len() + 40 * self.serial) + self.least;
            let model = if self.below(12) == 0 { "other" } else { "m" };
            let output = [1, 40, 5000][if fans { 2 } else { self.below(3) }];
            all.push(json!({"t": t as f64 / 1e3, "type": "n", "model": model, "in": input,
                "out": output, "hash_ids": ids, "api_time": self.below(6) as f64 / 1e3}));
            prompts.push(ids);
            t += self.below(4);
        }
        all
    }

    fn document(&mut self, number: usize) -> Value {
        (self.next, self.serial, self.least) = (0, 0, 17_600 * self.below(2));
        let count = 2 + self.below(9);
        let mut entries = self.requests(0, count);
        if self.below(2) == 0 {
            let at = 1 + self.below(entries.len());
            let begin = (entries[at - 1]["t"].as_f64().unwrap() * 1e3).round() as usize;
            let begin = begin + self.below(4);
            let count = 1 + self.below(4);
            let requests = self.requests(begin, count);
            let duration = [Value::Null, json!(self.below(12))];
            entries.insert(
                at,
                json!({"t": begin as f64 / 1e3, "type": "subagent", "agent_id": "a",
                    "duration_ms": duration[self.below(2)], "requests": requests}),
            );
        }
        json!({"id": format!("trace-{number}"), "block_size": BLOCK, "hash_id_scope": "local",
            "requests": entries})
    }
}

#[test]
fn random_traces_have_the_conversations_and_times_of_a_second_implementation() {
    let server = mock(Script::default());
    let directory = tempfile::tempdir().unwrap();
    let mut traces = Flat { rng: ChaCha8Rng::seed_from_u64(11), next: 0, serial: 0, least: 0 };
    let documents: Vec<String> = (0..TRACES).map(|at| traces.document(at).to_string()).collect();
    let trace = directory.path().join("trace.jsonl");
    fs::write(&trace, documents.join("\n")).unwrap();
    let sessions = TRACES.to_string();
    let mut command = aiperf(&["profile", "--model", "m", "--ui", "none", "--url", &server.url()]);
    command.args(["--tokenizer", TOKENIZER, "--concurrency", "32", "--num-sessions", &sessions]);
    command.args([
        "--custom-dataset-type",
        "weka-trace",
        "--extra-inputs",
        "max_completion_tokens:1",
    ]);
    command.args(["--input-file"]).arg(&trace).arg("--artifact-dir").arg(directory.path());
    let run = Run { output: command.output().unwrap(), directory }.succeeded();
    fs::write(run.path("case.json"), json!({"trace": trace}).to_string()).unwrap();
    run_python("tests/agentx_times.py", run.directory.path());
}

/// The trace and the values are AIPerf's: blocks of 4 tokens, of which the system message has one.
#[test]
fn a_trace_is_sent_as_whole_messages_without_the_responses_of_the_run() {
    let server = mock(Script::default());
    let request = |t: f64, input: u32, output: u32, ids: &[u32]| {
        json!({"t": t, "api_time": 0.01, "type": "n", "model": "m", "in": input, "out": output,
               "hash_ids": ids})
    };
    let document = json!({"id": "t3", "block_size": 4, "hash_id_scope": "local", "system_tokens": 4,
        "requests": [request(0.0, 10, 4, &[1, 2]), request(0.02, 18, 6, &[1, 2, 3, 4]),
                     request(0.04, 17, 2, &[1, 2, 3, 5])]});
    let directory = tempfile::tempdir().unwrap();
    let trace = directory.path().join("trace.json");
    fs::write(&trace, document.to_string()).unwrap();
    let asked = ["--input-file", trace.to_str().unwrap(), "--export-level", "raw"];
    let run = profile(&server.url(), &asked).succeeded();
    let inputs: Value = serde_json::from_str(&run.text("inputs.json")).unwrap();
    let payloads = inputs["data"][0]["payloads"].as_array().unwrap();
    let said = |at: usize| -> Vec<(&str, &str)> {
        let messages = payloads[at]["messages"].as_array().unwrap().iter();
        messages.map(|it| (it["role"].as_str().unwrap(), it["content"].as_str().unwrap())).collect()
    };
    let roles = |at: usize| said(at).into_iter().map(|(role, _)| role).collect::<Vec<_>>();
    assert_eq!(roles(0), ["system", "user"]);
    assert_eq!(roles(1), ["system", "user", "assistant", "user"]);
    assert_eq!(roles(2), ["system", "user", "assistant", "assistant", "user"]);
    assert_eq!(said(1)[..3], said(2)[..3]);
    let limits: Vec<&Value> = payloads.iter().map(|it| &it["max_completion_tokens"]).collect();
    assert_eq!(limits, [4, 6, 2]);
    let lengths: Vec<f64> = run
        .records()
        .iter()
        .map(|it| it["metrics"]["input_sequence_length"]["value"].as_f64().unwrap())
        .collect();
    assert_eq!(lengths, [10.0, 18.0, 17.0]);
    // 0 of 2, 2 of 4, and 3 of 4 blocks.
    let share = &run.summary()["theoretical_prefix_cache_hit"];
    assert_eq!(share, &json!({"unit": "%", "avg": 50.0, "count": 10, "sum": 5.0}));
}
