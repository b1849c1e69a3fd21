//! The flags of `aiperf chat`.

#![expect(clippy::doc_markdown, reason = "the doc comments are the --help text")]

use std::ffi::OsString;

use clap::Args;

use base::setting::Named as _;
use client::endpoint::EndpointType;

use super::value::{choice, positive, seconds_above_zero};
use crate::config::{ConfigError, RunConfig};

/// The server to chat with.
#[derive(Debug, Args)]
pub(super) struct ChatArgs {
    /// Model to chat with
    #[arg(long, short, value_name = "NAME")]
    model: Option<String>,
    /// Base URL of the server
    #[arg(long, short, value_name = "URL", default_value = "http://localhost:8000")]
    url: String,
    /// API that the server implements: one that generates text
    #[arg(long, value_name = "TYPE", value_parser = choice::<EndpointType>(), default_value = "chat")]
    endpoint_type: EndpointType,
    /// API path to use instead of the endpoint type's default
    #[arg(long, visible_alias = "custom-endpoint", value_name = "PATH")]
    endpoint: Option<String>,
    /// API key [env: AIPERF_API_KEY]
    #[arg(long, value_name = "KEY")]
    api_key: Option<String>,
    /// Headers to add to every request: 'Name: value'
    #[arg(long, short = 'H', value_name = "NAME:VALUE")]
    header: Vec<String>,
    /// Fields to add to every request body: name:value, name=value or a JSON object
    #[arg(long, value_name = "NAME:VALUE")]
    extra_inputs: Vec<String>,
    /// System prompt
    #[arg(long, value_name = "TEXT")]
    system_prompt: Option<String>,
    /// Send this message, print the response and exit, instead of reading messages from stdin
    #[arg(long = "message", short = 'q', visible_alias = "quick", value_name = "MESSAGE")]
    message: Option<String>,
    /// Do not repeat earlier messages and responses in a request
    #[arg(long)]
    no_history: bool,
    /// Maximum number of output tokens of a response [default: the server decides]
    #[arg(long, value_name = "TOKENS", value_parser = positive)]
    max_tokens: Option<u64>,
    /// Tokenizer that counts the output of servers that do not report it, as in aiperf profile
    #[arg(long, value_name = "NAME")]
    tokenizer: Option<String>,
    /// Timeout of each request, in seconds
    #[arg(long, value_name = "SECONDS", value_parser = seconds_above_zero, default_value = "600")]
    request_timeout_seconds: f64,
}

/// A chat.
#[derive(Debug)]
pub struct Chat {
    /// The server, the model and the tokenizer, as of a run.
    pub(crate) config: Box<RunConfig>,
    pub(crate) system_prompt: Option<String>,
    /// The only message; `None` reads messages from stdin.
    pub(crate) message: Option<String>,
    /// Whether requests repeat the earlier messages and responses.
    pub(crate) has_history: bool,
    pub(crate) max_tokens: Option<u32>,
}

impl ChatArgs {
    /// The command line of a run with the same server.
    ///
    /// # Errors
    /// If the endpoint type does not stream text.
    pub(super) fn profile_arguments(&self) -> Result<Vec<OsString>, ConfigError> {
        let traits = self.endpoint_type.traits();
        if !traits.produces_tokens || !traits.supports_streaming || traits.path.is_empty() {
            let why = format!("{} does not stream text; use chat, for example", traits.name);
            return Err(ConfigError::flag("--endpoint-type", why));
        }
        let optional = |name: &str, value: &Option<String>| {
            value.iter().map(|value| format!("--{name}={value}")).collect::<Vec<_>>()
        };
        let each = |name: &str, values: &[String]| {
            values.iter().map(|value| format!("--{name}={value}")).collect::<Vec<_>>()
        };
        let given = [
            format!("--url={}", self.url),
            format!("--endpoint-type={}", self.endpoint_type.name()),
            format!("--request-timeout-seconds={}", self.request_timeout_seconds),
            "--no-server-metrics".to_owned(),
            "--no-gpu-telemetry".to_owned(),
        ];
        let arguments = ["aiperf", "profile", "--streaming"]
            .map(str::to_owned)
            .into_iter()
            .chain(given)
            .chain(optional("model", &self.model))
            .chain(optional("endpoint", &self.endpoint))
            .chain(optional("api-key", &self.api_key))
            .chain(optional("tokenizer", &self.tokenizer))
            .chain(each("header", &self.header))
            .chain(each("extra-inputs", &self.extra_inputs))
            .map(Into::into)
            .collect();
        Ok(arguments)
    }

    /// The chat with the server of `config`.
    pub(super) fn into_chat(self, config: RunConfig) -> Chat {
        Chat {
            config: Box::new(config),
            system_prompt: self.system_prompt,
            message: self.message,
            has_history: !self.no_history,
            max_tokens: self.max_tokens.map(|tokens| u32::try_from(tokens).unwrap_or(u32::MAX)),
        }
    }
}
