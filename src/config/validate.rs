//! Which settings do not go together, and what to do about it.

mod load;
mod many;
mod shard;

use std::path::Path;
use std::{fs, io};

use thiserror::Error;

use super::RunConfig;
use crate::dataset::{MediaKinds, Source, Spread};
use crate::transport::ProxyError;

/// Why a run cannot be configured: what is wrong and what to do.
#[derive(Debug, Error, PartialEq, Eq)]
pub enum ConfigError {
    /// A variable of the environment cannot be read.
    #[error("{name} is {value:?}, which is not {wanted}: correct it or unset it")]
    Environment {
        /// The variable.
        name: String,
        /// What it holds.
        value: String,
        /// What it should hold.
        wanted: &'static str,
    },
    /// A URL cannot be used.
    #[error(
        "{url:?} is not a URL to send requests to, {why}: write it as in http://localhost:8000"
    )]
    Url {
        /// The URL without credentials.
        url: String,
        /// Why it is refused.
        why: String,
    },
    /// The value of a flag cannot be used.
    #[error("{flag}: {why}")]
    Flag {
        /// The flag.
        flag: &'static str,
        /// What is wrong and what to do.
        why: String,
    },
    /// A proxy of the environment cannot be used.
    #[error(transparent)]
    Proxy(ProxyError),
    /// Where telemetry goes cannot be used, or a variable about it.
    #[error("{0}")]
    Telemetry(String),
    /// A file that a flag names cannot be read.
    #[error("{flag}: cannot read {path}: {why}; check the path and its permissions")]
    File {
        /// The flag.
        flag: &'static str,
        /// The file.
        path: String,
        /// Why.
        why: String,
    },
    /// There is no place for the machine's self-check.
    #[error("--save: there is no directory for configuration: set AIPERF_SELFCHECK_FILE or HOME")]
    NoSelfCheckFile,
}

impl ConfigError {
    /// An error about `flag`.
    pub fn flag(flag: &'static str, why: impl Into<String>) -> Self {
        Self::Flag { flag, why: why.into() }
    }
}

impl RunConfig {
    /// Checks everything that can be checked before anything is opened.
    pub fn validate(&self) -> Result<(), ConfigError> {
        self.validate_endpoint()?;
        self.validate_dataset()?;
        load::validate(self)?;
        self.validate_shard()?;
        self.validate_many()?;
        self.validate_transport()
    }

    fn validate_endpoint(&self) -> Result<(), ConfigError> {
        let traits = self.endpoint.endpoint_type.traits();
        if self.endpoint.streaming && !traits.supports_streaming {
            let why = format!("{} responses are never streamed: leave it out", traits.name);
            return Err(ConfigError::flag("--streaming", why));
        }
        if self.metrics.use_server_token_count && !traits.produces_tokens {
            let why = format!("{} produces no tokens: leave it out", traits.name);
            return Err(ConfigError::flag("--use-server-token-count", why));
        }
        if self.apply_chat_template {
            self.validate_chat_template()?;
        }
        if self.dataset.models.is_empty() || self.dataset.models.iter().any(String::is_empty) {
            return Err(ConfigError::flag("--model", "it is needed: name the model to ask"));
        }
        Ok(())
    }

    fn validate_chat_template(&self) -> Result<(), ConfigError> {
        let flag = "--apply-chat-template";
        let traits = self.endpoint.endpoint_type.traits();
        // Where the URL is the whole path, bodies are the user's own.
        if !traits.repeats_history && !traits.path.is_empty() {
            let why = format!("{} requests bear no messages of a chat: leave it out", traits.name);
            return Err(ConfigError::flag(flag, why));
        }
        if self.metrics.use_server_token_count {
            let why = "--use-server-token-count takes the server's word: give one of the two";
            return Err(ConfigError::flag(flag, why));
        }
        if self.tokenizer == crate::tokenizer::Source::Builtin {
            let why = "the builtin tokenizer has no chat template: name the model's own with \
                       --tokenizer";
            return Err(ConfigError::flag(flag, why));
        }
        Ok(())
    }

    fn validate_dataset(&self) -> Result<(), ConfigError> {
        let synthetic = match &self.dataset.source {
            Source::Synthetic(synthetic) => synthetic,
            Source::Rankings(rankings) => {
                spread("--rankings-passages-mean", rankings.passages, 1.0)?;
                spread("--rankings-passages-prompt-token-mean", rankings.passage_tokens, 1.0)?;
                return spread("--rankings-query-prompt-token-mean", rankings.query_tokens, 1.0);
            }
            Source::File { path, .. } => return validate_dataset_file(path),
        };
        let at_least_one = |flag, count: usize| match count {
            0 => Err(ConfigError::flag(flag, "0 makes an empty dataset: give at least 1")),
            _ => Ok(()),
        };
        at_least_one("--num-dataset-entries", synthetic.entries)?;
        at_least_one("--batch-size", synthetic.batch_size)?;
        spread("--isl", synthetic.input_tokens, 1.0)?;
        spread("--session-turns-mean", synthetic.turns, 1.0)?;
        spread("--session-turn-delay-mean", synthetic.turn_delay_ms, 0.0)?;
        if let Some(output_tokens) = self.dataset.output_tokens {
            spread("--osl", output_tokens, 1.0)?;
        }
        let traits = self.endpoint.endpoint_type.traits();
        // A dataset that bears videos is not made first: that takes its time.
        if synthetic.video.is_some() && !traits.takes.contains(MediaKinds::VIDEO) {
            let why = format!("{} requests bear no videos: leave it out", traits.name);
            return Err(ConfigError::flag("--video-width", why));
        }
        if synthetic.batch_size > 1 && traits.repeats_history {
            let name = traits.name;
            let why =
                format!("a {name} request asks one prompt: use it with completions or embeddings");
            return Err(ConfigError::flag("--batch-size", why));
        }
        if (synthetic.prefix_pool_size == 0) != (synthetic.prefix_length == 0) {
            let why = "the number of prefix prompts and --prefix-prompt-length need each other: \
                       give both";
            return Err(ConfigError::flag("--num-prefix-prompts", why));
        }
        if synthetic.system_prompt.is_some() && synthetic.shared_system_prompt_length.is_some() {
            let why = "--shared-system-prompt-length generates another one: give one of the two";
            return Err(ConfigError::flag("--system-prompt", why));
        }
        Ok(())
    }

    fn validate_transport(&self) -> Result<(), ConfigError> {
        let transport = &self.transport;
        if transport.urls.is_empty() {
            return Err(ConfigError::flag("--url", "it is needed: name the server"));
        }
        if transport.request_timeout.0 == 0 {
            let why = "0 would fail every request: give a time above 0";
            return Err(ConfigError::flag("--request-timeout-seconds", why));
        }
        let wait = transport.wait_for_model;
        if wait.timeout.0 > 0 && wait.interval.0 == 0 {
            let why = "0 would ask without pause: give a time above 0";
            return Err(ConfigError::flag("--wait-for-model-interval", why));
        }
        for (name, value) in &transport.headers {
            let name_ok = http::HeaderName::try_from(name.as_str()).is_ok();
            if !name_ok || http::HeaderValue::try_from(value.as_str()).is_err() {
                let why = format!("{name:?} is not a header as HTTP allows it");
                return Err(ConfigError::flag("--header", why));
            }
            if self.telemetry.trace_sample.is_some() && name.eq_ignore_ascii_case("traceparent") {
                let why = "with --trace-sample each request has a traceparent of its own: give \
                           one of the two";
                return Err(ConfigError::flag("--header", why));
            }
        }
        match &transport.api_key {
            Some(key) if http::HeaderValue::try_from(key.expose()).is_err() => {
                let why = "it has characters that no header can bear: check for line ends";
                Err(ConfigError::flag("--api-key", why))
            }
            _ => Ok(()),
        }
    }
}

/// A distribution whose mean is at least `least` and whose deviation is no
/// less than 0.
fn spread(flag: &'static str, spread: Spread, least: f64) -> Result<(), ConfigError> {
    if !(spread.mean.is_finite() && spread.mean >= least) {
        let why = format!("{} is too small: give at least {least}", spread.mean);
        return Err(ConfigError::flag(flag, why));
    }
    if !(spread.stddev.is_finite() && spread.stddev >= 0.0) {
        let why = format!("the standard deviation {} is below 0: give at least 0", spread.stddev);
        return Err(ConfigError::flag(flag, why));
    }
    Ok(())
}

/// A dataset may come through a pipe; it is read once.
fn validate_dataset_file(path: &Path) -> Result<(), ConfigError> {
    let why = match fs::metadata(path) {
        Ok(found) if found.is_dir() => "it is a directory".to_owned(),
        Ok(_) => return Ok(()),
        Err(error) if error.kind() == io::ErrorKind::NotFound => "there is no such file".to_owned(),
        Err(error) => error.to_string(),
    };
    Err(ConfigError::File { flag: "--input-file", path: path.display().to_string(), why })
}
