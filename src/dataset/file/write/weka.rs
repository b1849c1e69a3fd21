//! Documents of a `weka_trace`: the requests of a conversation and of its sub-agents, with prompts as
//! numbers of blocks.
//!
//! Beside Weka's members, a document has `timestamp`, and `hash_id_scope` is `global`: numbers of blocks
//! have the same meaning in all documents.

use std::io::{self, Write};

use serde::Serialize;

/// A conversation and the sub-agents that it starts.
#[derive(Debug, Serialize)]
pub struct Document {
    id: String,
    models: Vec<String>,
    block_size: u32,
    hash_id_scope: &'static str,
    tool_tokens: u32,
    system_tokens: u32,
    /// Start in milliseconds after the earliest conversation.
    #[serde(skip_serializing_if = "Option::is_none")]
    timestamp: Option<f64>,
    requests: Vec<Entry>,
}

/// A request, or a sub-agent with its requests.
#[derive(Debug, Serialize)]
#[serde(untagged)]
pub enum Entry {
    /// A request.
    Request(Request),
    /// A sub-agent.
    Agent(Agent),
}

/// A request with its whole prompt.
#[derive(Debug, Serialize)]
pub struct Request {
    #[serde(rename = "type")]
    pub kind: &'static str,
    /// Seconds since the start of the conversation, if responses took no time.
    pub t: f64,
    pub model: String,
    /// Tokens of the prompt.
    #[serde(rename = "in")]
    pub input: u64,
    /// Requested output tokens.
    #[serde(rename = "out")]
    pub output: u32,
    pub hash_ids: Vec<u64>,
    /// Names of the declared tools.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub tools: Vec<String>,
    pub input_types: [&'static str; 1],
    pub output_types: [&'static str; 1],
    pub stop: &'static str,
    /// Tokens after the prompt and the response of the request before it; `None` if the prompt does not
    /// begin with these.
    #[serde(skip)]
    pub added: Option<u64>,
}

impl Default for Request {
    fn default() -> Self {
        Self {
            kind: "n",
            t: 0.0,
            model: String::new(),
            input: 1,
            output: 1,
            hash_ids: Vec::new(),
            tools: Vec::new(),
            input_types: ["text"],
            output_types: ["text"],
            stop: "",
            added: None,
        }
    }
}

/// A sub-agent, for whose end the next request waits.
#[derive(Debug, Serialize)]
pub struct Agent {
    #[serde(rename = "type")]
    kind: &'static str,
    /// Seconds from the start of the conversation to that of the sub-agent.
    t: f64,
    #[serde(rename = "agent_id")]
    pub id: String,
    subagent_type: &'static str,
    status: &'static str,
    models: Vec<String>,
    pub requests: Vec<Entry>,
}

impl Agent {
    /// Creates a sub-agent that starts `t` seconds after its conversation.
    pub fn new(id: String, t: f64, requests: Vec<Entry>) -> Self {
        let (kind, status, models) = ("subagent", "completed", models(&requests));
        Self { kind, t, id, subagent_type: "", status, models, requests }
    }
}

impl Document {
    /// Creates a document whose blocks have `block_tokens` tokens, and that starts `timestamp`
    /// milliseconds after the earliest conversation.
    pub fn new(
        id: String,
        block_tokens: u32,
        timestamp: Option<f64>,
        requests: Vec<Entry>,
    ) -> Self {
        Self {
            id,
            models: models(&requests),
            block_size: block_tokens,
            hash_id_scope: "global",
            tool_tokens: 0,
            system_tokens: 0,
            timestamp,
            requests,
        }
    }

    pub fn id(&self) -> &str {
        &self.id
    }

    /// Returns the requests and the sub-agents, in order.
    pub fn entries(&self) -> &[Entry] {
        &self.requests
    }

    /// Returns when the conversation starts, in seconds after the earliest one.
    pub fn start_seconds(&self) -> Option<f64> {
        self.timestamp.map(|millis| millis / 1e3)
    }

    /// Writes the document as a line.
    pub fn write(&self, out: &mut impl Write) -> io::Result<()> {
        serde_json::to_writer(&mut *out, self)?;
        out.write_all(b"\n")
    }
}

/// Returns the models of requests, each once.
fn models(entries: &[Entry]) -> Vec<String> {
    let mut found: Vec<String> = Vec::new();
    for entry in entries {
        let of: &[String] = match entry {
            Entry::Request(request) => std::slice::from_ref(&request.model),
            Entry::Agent(agent) => &agent.models,
        };
        for model in of {
            if !found.contains(model) {
                found.push(model.clone());
            }
        }
    }
    found
}
