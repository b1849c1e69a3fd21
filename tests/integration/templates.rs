//! Rankings, bodies from files and templates, and chat templates: over real sockets, and compared
//! with Jinja2.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use base::environment::Environment;
use mock_server::Script;
use serde_json::{Value, json};
use tokens::tokenizer::{Source, TokenCounter};

use crate::support::left_out::python;
use crate::support::load::mock;
use crate::support::run::{Run, aiperf};

const GOLDEN: &str = "tests/golden/chat-templates";
const TINY: &str = "tests/golden/tiny-model";

fn golden(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join(GOLDEN).join(name)
}

fn json_of(path: &Path) -> Value {
    serde_json::from_str(&fs::read_to_string(path).unwrap()).unwrap()
}

fn with_template_of(directory: &str) -> TokenCounter {
    let tiny = Source::Path(TINY.into());
    let template = Source::Path(match directory {
        "tiny-model" => TINY.into(),
        other => golden(other),
    });
    TokenCounter::load(&tiny, Environment::new(&|_| None))
        .unwrap()
        .with_chat_template(&template, Environment::new(&|_| None))
        .unwrap()
}

#[test]
fn chat_templates_make_what_jinja2_makes() {
    let conversations = json_of(&golden("conversations.json"));
    let expected = json_of(&golden("expected.json"));
    let templates = expected.as_object().unwrap();
    assert_eq!(templates.len(), 5);
    for (template, texts) in templates {
        let counter = with_template_of(template);
        for (name, text) in texts.as_object().unwrap() {
            let chat = &conversations[name];
            let made = counter.chat_text(&chat["messages"], &chat["tools"]).unwrap();
            assert_eq!(made.as_deref(), Ok(text.as_str().unwrap()), "{template}: {name}");
        }
    }
    let Some(python) = python() else { return };
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/render_chat_templates.py");
    let output = Command::new(python).arg(script).output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    assert_eq!(serde_json::from_slice::<Value>(&output.stdout).unwrap(), expected);
}

#[test]
fn templated_messages_have_the_tokens_that_transformers_counts() {
    let conversations = json_of(&golden("conversations.json"));
    let counter = with_template_of("tiny-model");
    // From apply_chat_template(messages, tools=…, add_generation_prompt=True) of transformers 5.23.
    for (name, tokens) in [("one", 21), ("system", 54), ("turns", 76), ("tools", 64)] {
        let chat = &conversations[name];
        let text = counter.chat_text(&chat["messages"], &chat["tools"]).unwrap().unwrap();
        assert_eq!(counter.count(&text), tokens, "{name}");
    }
}

/// Runs 3 requests with `endpoint`.
fn run(url: &str, endpoint: &str, extra: &[&str]) -> Run {
    let directory = tempfile::tempdir().unwrap();
    let mut command = aiperf(&["profile", "--model", "mock-model", "--url", url]);
    command.args(["--ui", "none", "--request-count", "3", "--random-seed", "7"]);
    command.args(["--endpoint-type", endpoint]).args(extra);
    if !extra.contains(&"--tokenizer") {
        command.args(["--tokenizer", "builtin"]);
    }
    let output = command.arg("--artifact-dir").arg(directory.path()).output().unwrap();
    Run { output, directory }
}

/// Returns the body of the first request.
fn first_body(run: &Run) -> Value {
    json_of(&run.path("inputs.json"))["data"][0]["payloads"][0].clone()
}

fn input_lengths(run: &Run) -> Vec<u64> {
    let length = |record: &Value| record["metrics"]["input_sequence_length"]["value"].as_u64();
    run.records().iter().map(|record| length(record).unwrap()).collect()
}

#[test]
fn rankings_are_generated_and_answered() {
    let server = mock(Script::default());
    let url = format!("http://{}", server.addr());
    for (endpoint, passages, title) in [
        ("cohere_rankings", "documents", "Ranking Metrics"),
        ("hf_tei_rankings", "texts", "Ranking Metrics"),
        ("nim-rankings", "passages", "Rankings Metrics"),
    ] {
        let flags = "--rankings-passages-mean 4 --rankings-passages-prompt-token-mean 30 \
                     --rankings-query-prompt-token-mean 9";
        let flags: Vec<&str> = flags.split_whitespace().collect();
        let run = run(&url, endpoint, &flags).succeeded();
        assert_eq!(input_lengths(&run), [9 + 4 * 30; 3], "{endpoint}");
        let body = first_body(&run);
        assert_eq!(body[passages].as_array().unwrap().len(), 4, "{body}");
        assert!(!body["query"].is_null(), "{body}");
        assert!(run.text("profile_export_console.txt").contains(title));
        assert!(run.summary()["output_sequence_length"].is_null());
        assert_eq!(run.summary()["request_count"]["avg"], 3.0);
    }
}

#[test]
fn rankings_are_those_that_aiperf_makes_where_nothing_is_said() {
    let server = mock(Script::default());
    let run = run(&format!("http://{}", server.addr()), "cohere_rankings", &[]).succeeded();
    assert_eq!(first_body(&run)["documents"].as_array().unwrap().len(), 10);
    assert_eq!(input_lengths(&run), [32 + 10 * 128; 3]);
}

#[test]
fn rankings_come_from_a_file() {
    let server = mock(Script::default());
    let url = format!("http://{}", server.addr());
    let file = tempfile::NamedTempFile::new().unwrap();
    let path = file.path().to_str().unwrap().to_owned();
    let line = |texts: Value| json!({"texts": texts}).to_string();
    let query = json!({"name": "query", "contents": ["why?"]});
    let passages = json!({"name": "passages", "contents": ["because", "so"]});
    fs::write(&file, line(json!([query, passages]))).unwrap();
    let found = run(&url, "cohere_rankings", &["--input-file", &path]).succeeded();
    assert_eq!(
        first_body(&found),
        json!({"model": "mock-model", "query": "why?", "documents": ["because", "so"]})
    );
    fs::write(&file, line(json!([query]))).unwrap();
    let refused = run(&url, "cohere_rankings", &["--input-file", &path]);
    assert_eq!(refused.exit_code(), Some(1));
    assert!(
        refused.stderr().contains("a text named `passages` is missing"),
        "{}",
        refused.stderr()
    );
}

#[test]
fn flags_of_rankings_and_of_prompts_exclude_each_other() {
    for (endpoint, flag, why) in [
        ("chat", "--rankings-passages-mean=2", "requires generated rankings"),
        ("cohere_rankings", "--isl=20", "has a query and passages instead of a prompt"),
        (
            "cohere_rankings",
            "--audio-length-mean=2",
            "has a query and passages instead of a prompt",
        ),
        ("cohere_rankings", "--session-turns-mean=2", "one turn"),
        ("cohere_rankings", "--rankings-passages-mean=0", "must be at least 1"),
        ("cohere_rankings", "--streaming", "does not support streaming"),
        ("cohere_rankings", "--apply-chat-template", "do not have chat messages"),
        ("chat", "--apply-chat-template", "the builtin tokenizer does not have a chat template"),
    ] {
        let refused = run("http://127.0.0.1:9", endpoint, &[flag]);
        assert_eq!(refused.exit_code(), Some(2), "{flag}");
        assert!(refused.stderr().contains(why), "{flag}: {}", refused.stderr());
    }
}

#[test]
fn bodies_of_a_file_go_to_the_url_as_they_are() {
    let server = mock(Script::default());
    let file = tempfile::NamedTempFile::new().unwrap();
    let path = file.path().to_str().unwrap().to_owned();
    let flags = ["--input-file", path.as_str(), "--custom-dataset-type", "raw-payload"];
    let bodies = [
        (
            "/v1/chat/completions",
            json!({"messages": [{"role": "user", "content": "one two"}],
                                        "max_tokens": 5, "model": "mock-model"}),
        ),
        ("/v1/completions", json!({"prompt": "one two", "max_tokens": 5, "model": "mock-model"})),
        (
            "/v1/messages",
            json!({"messages": [{"role": "user", "content": "one two"}],
                                "max_tokens": 5, "model": "mock-model"}),
        ),
        ("/generate", json!({"inputs": "one two", "parameters": {"max_new_tokens": 5}})),
        ("/v1/embeddings", json!({"input": "one two", "model": "mock-model"})),
        ("/rerank", json!({"query": "one", "texts": ["two"]})),
    ];
    for (endpoint_path, body) in bodies {
        fs::write(&file, body.to_string()).unwrap();
        let run = run(&format!("http://{}{endpoint_path}", server.addr()), "raw", &flags);
        let run = run.succeeded();
        assert_eq!(first_body(&run), body);
        assert_eq!(run.summary()["request_count"]["avg"], 3.0, "{endpoint_path}");
        let generates = !["/v1/embeddings", "/rerank"].contains(&endpoint_path);
        let output = &run.summary()["output_sequence_length"]["avg"];
        assert_eq!(output.is_number(), generates, "{endpoint_path}: {output}");
    }
    let stream = json!({"messages": [{"role": "user", "content": "a"}], "max_tokens": 5,
                        "stream": true, "model": "mock-model"});
    fs::write(&file, stream.to_string()).unwrap();
    let url = format!("http://{}/v1/chat/completions", server.addr());
    let streamed = run(&url, "raw", &[&flags[..], &["--streaming"]].concat()).succeeded();
    assert!(streamed.summary()["time_to_first_token"]["avg"].is_number());
    let refused = run(&url, "raw", &[]);
    assert_eq!(refused.exit_code(), Some(1));
    assert!(refused.stderr().contains("--custom-dataset-type raw-payload"), "{}", refused.stderr());
}

#[test]
fn bodies_are_made_of_a_template() {
    let server = mock(Script::default());
    let url = format!("http://{}/v1/completions", server.addr());
    let file = tempfile::NamedTempFile::new().unwrap();
    let from_file = format!("payload_template:{}", file.path().display());
    fs::write(
        &file,
        "{\"prompt\": {{ text|tojson }},\n \"model\": {{ model|tojson }}, \"max_tokens\": 5}",
    )
    .unwrap();
    let run_with = |template: &str, extra: &[&str]| {
        let flags = ["--isl", "12", "--extra-inputs", template];
        run(&url, "template", &[&flags[..], extra].concat())
    };
    let made = run_with(&from_file, &["--extra-inputs", "response_field:choices[0].text"]);
    let made = made.succeeded();
    let body = first_body(&made);
    assert_eq!(body["max_tokens"], 5);
    assert_eq!(input_lengths(&made), [12; 3]);
    assert!(made.summary()["output_sequence_length"]["avg"].is_number());
    let inline = r#"payload_template:{"prompt": {{ text|tojson }}, "model": "mock-model"}"#;
    run_with(inline, &[]).succeeded();
    for (template, why) in [
        ("{\n\"prompt\": {{ promt }}}", "line 2: undefined value: unknown variable \"promt\""),
        ("{\"prompt\": {{ promt|tojson }}}", "line 1: undefined value: unknown variable"),
        ("{{ text", "line 1: syntax error"),
        ("{\"prompt\": {{ text }}}", "it does not render valid JSON"),
        ("{% for a in range(99999) %}{% for b in range(99999) %}{% endfor %}{% endfor %}", "steps"),
    ] {
        fs::write(&file, template).unwrap();
        let refused = run_with(&from_file, &[]);
        assert_eq!(refused.exit_code(), Some(1), "{template}");
        assert!(refused.stderr().contains(why), "{template}: {}", refused.stderr());
    }
    for (named, why) in
        [("none.jinja", "cannot read \"none.jinja\": No such file"), ("/", "not a file")]
    {
        let refused = run_with(&format!("payload_template:{named}"), &[]);
        assert_eq!(refused.exit_code(), Some(2), "{named}");
        assert!(refused.stderr().contains(why), "{named}: {}", refused.stderr());
    }
    let misspelt = run_with(inline, &["--extra-inputs", "response_field:choice"]);
    assert_eq!(misspelt.exit_code(), Some(1));
    assert!(misspelt.stdout().contains("EmptyResponse"), "{}", misspelt.stdout());
}

#[test]
fn the_chat_template_counts_input() {
    let server = mock(Script::default());
    let url = format!("http://{}", server.addr());
    let flags = ["--tokenizer", TINY, "--isl", "40", "--osl", "4"];
    let plain = run(&url, "chat", &flags).succeeded();
    assert_eq!(input_lengths(&plain), [40; 3]);
    let with_template = [&flags[..], &["--apply-chat-template"]].concat();
    let counter = with_template_of("tiny-model");
    for endpoint in ["chat", "responses", "messages", "gemini"] {
        let run = run(&url, endpoint, &with_template).succeeded();
        // The prompt is shorter by the tokens that the template adds.
        for length in input_lengths(&run) {
            assert!(length.abs_diff(40) <= 2, "{endpoint}: {length}");
        }
    }
    let chat = run(&url, "chat", &with_template).succeeded();
    let messages = first_body(&chat)["messages"].clone();
    let text = counter.chat_text(&messages, &Value::Null).unwrap().unwrap();
    assert!(input_lengths(&chat).contains(&counter.count(&text)));
}

#[test]
fn a_chat_template_that_refuses_ends_the_run_before_it_starts() {
    let directory = tempfile::tempdir().unwrap();
    fs::copy(Path::new(TINY).join("tokenizer.json"), directory.path().join("tokenizer.json"))
        .unwrap();
    let tokenizer = directory.path().to_str().unwrap().to_owned();
    let flags = ["--tokenizer", tokenizer.as_str(), "--isl", "40", "--apply-chat-template"];
    let missing = run("http://127.0.0.1:9", "chat", &flags);
    assert_eq!(missing.exit_code(), Some(1));
    assert!(missing.stderr().contains("contains a chat template"), "{}", missing.stderr());
    let template = directory.path().join("chat_template.jinja");
    fs::write(template, "\n{{ raise_exception('no users') }}").unwrap();
    let refused = run("http://127.0.0.1:9", "chat", &flags);
    assert_eq!(refused.exit_code(), Some(1));
    let said = refused.stderr();
    assert!(said.contains("conversation 1: line 2: ") && said.contains("no users"), "{said}");
}
