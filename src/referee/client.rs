//! The description of a client: how it is called, where it reports which figure, and how it
//! defines them.

use std::collections::BTreeMap;
use std::ffi::OsStr;
use std::fmt;
use std::path::Path;

use anyhow::{Context, bail, ensure};
use serde::{Deserialize, Serialize};

use base::input;

use super::figure::{Figure, Percentiles, Statistic};
use super::hazard::{Arrivals, Hazard};

/// A client, as described by a TOML file.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Client {
    /// The name in tables.
    pub name: String,
    /// The file name of its program.
    pub program: String,
    /// The command that prints its version.
    #[serde(default)]
    pub(crate) version: Vec<String>,
    /// The page that says how it is called.
    #[serde(default)]
    pub(crate) documentation: String,
    /// The source of its definitions.
    #[serde(default)]
    pub(crate) source: String,
    /// Its definitions in a sentence.
    #[serde(default)]
    pub(crate) says: String,
    /// Whether it uses completions rather than chat completions.
    #[serde(default)]
    pub(crate) completions_only: bool,
    /// Whether it sends more requests than it is asked for, and ends those that are in flight then.
    #[serde(default)]
    pub(crate) overshoots: bool,
    /// Number of requests that it sends before the load and does not report.
    #[serde(default)]
    pub(crate) own_requests: u64,
    /// How it is called.
    #[serde(default)]
    pub(crate) command: Call,
    /// Files that it needs, by name; they are written into its directory.
    #[serde(default)]
    pub(crate) files: BTreeMap<String, String>,
    /// Where its figures are.
    pub(crate) results: Results,
    /// How it defines them.
    #[serde(default)]
    pub(crate) definition: Definition,
    /// Its figures.
    pub(crate) figures: BTreeMap<Figure, Reported>,
}

/// How a client is called.
#[derive(Debug, Clone, Default, PartialEq, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(crate) struct Call {
    /// The command line of a closed loop.
    pub(crate) closed: Vec<String>,
    /// The command line of an open loop.
    pub(crate) open: Vec<String>,
    /// The arguments that add members to the body of each request; empty if it cannot.
    pub(crate) extra_body: Vec<String>,
    /// The arguments if the server's certificate is signed by an authority of its own.
    pub(crate) tls: Vec<String>,
    /// How requests start in an open loop.
    pub(crate) arrivals: OpenArrivals,
    /// Environment variables.
    pub(crate) environment: BTreeMap<String, String>,
}

/// How the requests of an open loop start.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum OpenArrivals {
    /// At equal intervals.
    #[default]
    Constant,
    /// As a Poisson process.
    Poisson,
}

/// Where a client's figures are.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Results {
    /// A path, in which each component may have one `*`, or `stdout`.
    pub(crate) file: String,
    /// The format of the file.
    pub(crate) format: Format,
}

/// A format of results.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Format {
    /// JSON; figures are JSON Pointers.
    Json,
    /// CSV; figures are `/ROW/COLUMN`, by the first column and the header.
    Csv,
    /// Text; figures are regular expressions with a group for the value and possibly one for its
    /// unit.
    Text,
}

/// Where a figure's statistics are, and in which unit.
#[derive(Debug, Clone, PartialEq, Deserialize)]
pub(crate) struct Reported {
    /// The unit of its values, if it is a time; for text, unless the text has it.
    #[serde(default)]
    pub(crate) unit: Option<Unit>,
    /// The value of what is not there; by default it is not reported.
    #[serde(default)]
    pub(crate) absent: Option<f64>,
    /// The places of its statistics.
    #[serde(flatten)]
    pub(crate) places: BTreeMap<Statistic, String>,
}

/// A unit of time.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Unit {
    /// Nanoseconds.
    Ns,
    /// Microseconds.
    Us,
    /// Milliseconds.
    Ms,
    /// Seconds.
    S,
    /// Minutes.
    M,
}

impl Unit {
    /// Returns the unit of this name.
    pub(crate) fn named(name: &str) -> Option<Self> {
        Some(match name {
            "ns" => Self::Ns,
            "us" | "µs" | "μs" => Self::Us,
            "ms" => Self::Ms,
            "s" | "sec" | "secs" => Self::S,
            "m" | "min" => Self::M,
            _ => return None,
        })
    }

    /// The unit in seconds.
    pub(crate) const fn seconds(self) -> f64 {
        match self {
            Self::Ns => 1e-9,
            Self::Us => 1e-6,
            Self::Ms => 1e-3,
            Self::S => 1.0,
            Self::M => 60.0,
        }
    }
}

/// The definitions of a client's figures.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize, Serialize)]
#[serde(deny_unknown_fields, default)]
pub(crate) struct Definition {
    /// When a request starts.
    pub(crate) start: Start,
    /// Which event has the first token.
    pub(crate) first_token: FirstToken,
    /// When a request ends.
    pub(crate) end: End,
    /// When its last token comes, for the inter-token latency; by default when it ends.
    pub(crate) last_token: Option<End>,
    /// When the run ends, beside that of the stream: with the last request by this.
    pub(crate) duration_end: Option<End>,
    /// How several choices of a response are treated.
    pub(crate) choices: Choices,
    /// What counts the output tokens: the first of these that a response allows.
    pub(crate) output_tokens: Countings,
    /// Whether the inter-token latency of a request counts once, or once for each further token.
    pub(crate) inter_token_latency_weights: Weights,
    /// What the inter-chunk latency is between.
    pub(crate) gaps: Gaps,
    /// Whether requests that failed are part of its latencies.
    pub(crate) failed_requests: Failed,
    /// How percentiles are computed.
    pub(crate) percentiles: Percentiles,
}

/// When a request starts.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Start {
    /// At the call, before a connection is made.
    #[default]
    Call,
    /// When its bytes are sent.
    Send,
}

/// Which event has the first token.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum FirstToken {
    /// The first one of the stream.
    Byte,
    /// The first one with a choice, though it may have the role only.
    Choice,
    /// The first one with a text, of content or reasoning, or with a tool call.
    #[default]
    Content,
    /// The first one with a text of content.
    Text,
}

/// When a request ends.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum End {
    /// With the last content.
    #[default]
    Content,
    /// With the last event that has a choice.
    Choice,
    /// With the last event before `[DONE]`.
    Event,
    /// With the stream.
    Stream,
}

/// How several choices of a response are treated.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Choices {
    /// As one sequence of events and tokens.
    #[default]
    Together,
    /// As sequences of their own: the inter-token latency is the time of all sequences by their
    /// tokens after the first ones, TTFT the mean over them, and gaps are within a sequence.
    Each,
}

/// What counts output tokens. A description has the first three; the others are ways to count something
/// else.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Counting {
    /// The usage of the response.
    Usage,
    /// A tokenizer, for all text.
    Text,
    /// A tokenizer, for the content without reasoning and tool calls.
    Content,
    /// The number of events in which the client looks for tokens.
    #[serde(skip)]
    Events,
    /// The number of tokens that was asked for, whatever was sent.
    #[serde(skip)]
    Requested,
}

/// What counts output tokens: the first of these that a response allows.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize, Serialize)]
#[serde(untagged)]
pub(crate) enum Countings {
    /// Only this.
    One(Counting),
    /// The first that is possible.
    First(Vec<Counting>),
}

impl Default for Countings {
    fn default() -> Self {
        Self::First(vec![Counting::Usage, Counting::Text])
    }
}

impl Countings {
    /// Returns what counts the tokens of a response with or without usage.
    pub(crate) fn of(&self, has_usage: bool) -> Option<Counting> {
        let all = match self {
            Self::One(one) => std::slice::from_ref(one),
            Self::First(all) => all,
        };
        all.iter().copied().find(|counting| has_usage || *counting != Counting::Usage)
    }
}

/// How much the value of a request counts.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Weights {
    /// As much as that of any other request.
    #[default]
    Requests,
    /// As much as the request has output tokens after the first.
    Tokens,
}

/// What the inter-chunk latency is between.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Gaps {
    /// Events with output.
    #[default]
    Events,
    /// Tokens: 0 between those of an event.
    Tokens,
}

/// Whether failed requests count.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Failed {
    /// They are left out.
    #[default]
    LeftOut,
    /// They are included.
    Included,
}

/// Maximum size of a description in bytes.
const MAX_DESCRIPTION: u64 = 1 << 20;

/// The descriptions that the program has.
const KNOWN: &[&str] = &[
    include_str!("clients/aiperf.toml"),
    include_str!("clients/vllm.toml"),
    include_str!("clients/vllm-rs.toml"),
    include_str!("clients/sglang.toml"),
    include_str!("clients/guidellm.toml"),
    include_str!("clients/aiperf-python.toml"),
    include_str!("clients/inference-perf.toml"),
    include_str!("clients/genai-bench.toml"),
    include_str!("clients/llmperf.toml"),
    include_str!("clients/mlperf-endpoints.toml"),
    include_str!("clients/oha.toml"),
    include_str!("clients/k6.toml"),
    include_str!("clients/wrk.toml"),
];

impl Client {
    /// Returns the clients whose descriptions the program has, in the order of tables.
    ///
    /// # Errors
    ///
    /// If a description is invalid.
    pub fn known() -> anyhow::Result<Vec<Self>> {
        KNOWN.iter().map(|text| Self::parse(text)).collect()
    }

    /// Parses a description.
    ///
    /// # Errors
    ///
    /// If the text is not TOML, or not a description that can be used.
    pub fn parse(text: &str) -> anyhow::Result<Self> {
        let client: Self =
            toml::from_str(text).context("is not a valid description of a client")?;
        for (figure, Reported { unit, places, .. }) in &client.figures {
            ensure!(!places.is_empty(), "does not say where {} is", figure.label());
            let is_text = client.results.format == Format::Text;
            ensure!(
                !figure.is_time() || unit.is_some() || is_text,
                "does not have the unit of {}; add `unit` (ns, us, ms, s or m)",
                figure.label()
            );
        }
        Ok(client)
    }

    /// Returns the client of `program`, as a path or a name: the first word of a command.
    pub fn of_program(clients: &[Self], program: &str) -> Option<Self> {
        let name = Path::new(program).file_name()?.to_str()?;
        clients.iter().find(|client| client.program == name).cloned()
    }

    /// Returns the client of this name among the known ones, or the one that a file describes.
    ///
    /// # Errors
    ///
    /// If there is no such client or file, or the file is not valid.
    pub fn find(known: &[Self], name: &str) -> anyhow::Result<Self> {
        let found = known.iter().find(|client| client.name == name || client.program == name);
        if let Some(client) = found {
            return Ok(client.clone());
        }
        if Path::new(name).extension() != Some(OsStr::new("toml")) {
            let names: Vec<_> = known.iter().map(|client| client.name.as_str()).collect();
            bail!(
                "{name:?} is not a known client; use a description (FILE.toml) or one of: {}",
                names.join(", ")
            );
        }
        let text = input::text(Path::new(name), MAX_DESCRIPTION)
            .with_context(|| format!("cannot read the description {name}"))?;
        Self::parse(&text).with_context(|| format!("the description {name} cannot be used"))
    }

    /// Whether its program is on PATH.
    pub fn is_installed(&self) -> bool {
        let path = std::env::var_os("PATH").unwrap_or_default();
        std::env::split_paths(&path).any(|directory| directory.join(&self.program).is_file())
    }

    /// Returns the command line for a hazard, with placeholders; `Err` has the reason why the client
    /// cannot be asked for it.
    pub(crate) fn arguments(&self, hazard: &Hazard) -> Result<Vec<String>, &'static str> {
        let (line, reason) = match hazard.load.arrivals {
            Arrivals::Closed(_) => {
                (&self.command.closed, "does not have a command with {concurrency}")
            }
            Arrivals::Open(_) => (&self.command.open, "does not have a command with {rate}"),
        };
        if line.is_empty() {
            return Err(reason);
        }
        if hazard.is_of_chats && self.completions_only {
            return Err("does not use chat completions");
        }
        let mut line = line.clone();
        if hazard.extra_body.is_some() {
            let mut texts = line.iter().chain(self.files.values());
            let takes_body = texts.any(|it| it.contains("{body}") || it.contains("{extra_body}"));
            if self.command.extra_body.is_empty() && !takes_body {
                return Err("does not have a place for {extra_body}");
            }
            line.extend(self.command.extra_body.iter().cloned());
        }
        if hazard.tls {
            line.extend(self.command.tls.iter().cloned());
        }
        Ok(line)
    }
}

/// The values of placeholders such as `{url}`.
#[derive(Debug, Clone, Default)]
pub(crate) struct Placeholders(BTreeMap<&'static str, String>);

impl Placeholders {
    /// Sets the value of `{name}`.
    pub(crate) fn set(&mut self, name: &'static str, value: impl fmt::Display) {
        self.0.insert(name, value.to_string());
    }

    /// Returns `text` with each known placeholder replaced; other braces stay.
    pub(crate) fn fill(&self, text: &str) -> String {
        let mut filled = String::with_capacity(text.len());
        let mut rest = text;
        while let Some(at) = rest.find('{') {
            filled.push_str(&rest[..at]);
            let name = rest[at + 1..].split('}').next().unwrap_or_default();
            if let Some(value) = self.0.get(name) {
                filled.push_str(value);
                rest = &rest[at + name.len() + 2..];
            } else {
                filled.push('{');
                rest = &rest[at + 1..];
            }
        }
        filled.push_str(rest);
        filled
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn all_descriptions_are_valid() {
        let known = Client::known().unwrap();
        let names: Vec<_> = known.iter().map(|client| client.name.as_str()).collect();
        assert_eq!((names.len(), names[0]), (13, "aiperf"));
        for client in known {
            assert_eq!(client.command.closed.first(), Some(&client.program), "{}", client.name);
            assert!(!client.says.is_empty() && !client.says.ends_with('.'), "{}", client.name);
        }
    }

    #[test]
    fn placeholders_are_replaced_and_other_braces_stay() {
        let mut values = Placeholders::default();
        values.set("rate", 20.0);
        values.set("url", "http://a");
        assert_eq!(values.fill("{url}/v1?{x}={rate}&${url} {"), "http://a/v1?{x}=20&$http://a {");
        assert_eq!(values.fill(r#"{"a": {"b": {rate}}}"#), r#"{"a": {"b": 20}}"#);
    }

    proptest! {
        #[test]
        fn no_description_panics(text in ".*", key in "[a-z_]{1,12}", value in ".{0,20}") {
            let _ = Client::parse(&text);
            let _ = Client::parse(&format!("name = \"a\"\nprogram = \"a\"\n{key} = {value}"));
        }
    }
}
