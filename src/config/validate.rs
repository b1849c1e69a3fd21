//! Validation of settings and their combinations.

mod load;
mod many;
mod shard;

use std::path::Path;
use std::{fs, io};

use thiserror::Error;

use super::RunConfig;
use crate::dataset::{MediaKinds, NormalDistribution, Source};
use crate::transport::ProxyError;

/// An invalid configuration: what is wrong and what to do about it.
#[derive(Debug, Error, PartialEq, Eq)]
pub enum ConfigError {
    /// An environment variable has an invalid value.
    #[error("{name} must be {expected}, got {value:?}; correct or unset it")]
    Environment {
        /// The variable's name.
        name: String,
        /// The variable's value.
        value: String,
        /// What the value should be.
        expected: &'static str,
    },
    /// A URL is invalid.
    #[error(
        "{url:?} is not a valid server URL: {why}; expected a URL such as http://localhost:8000"
    )]
    Url {
        /// The URL without credentials.
        url: String,
        /// Why it is invalid.
        why: String,
    },
    /// A flag is invalid.
    #[error("{flag}: {why}")]
    Flag {
        /// The flag.
        flag: &'static str,
        /// What is wrong and what to do about it.
        why: String,
    },
    /// A proxy set in the environment is invalid.
    #[error(transparent)]
    Proxy(ProxyError),
    /// A setting for exporting telemetry is invalid.
    #[error("{0}")]
    Telemetry(String),
    /// A file that a flag names cannot be read.
    #[error("{flag}: cannot read {path:?}: {why}; check the path and its permissions")]
    File {
        /// The flag.
        flag: &'static str,
        /// The file.
        path: String,
        /// Why it cannot be read.
        why: String,
    },
    /// The directory for the self-check is unknown.
    #[error("--save: no configuration directory found; set AIPERF_SELFCHECK_FILE or HOME")]
    NoSelfCheckFile,
}

impl ConfigError {
    /// Returns an error about `flag`.
    pub fn flag(flag: &'static str, why: impl Into<String>) -> Self {
        Self::Flag { flag, why: why.into() }
    }
}

impl RunConfig {
    /// Checks all settings that can be checked before opening files or connections.
    pub fn validate(&self) -> Result<(), ConfigError> {
        self.validate_endpoint()?;
        self.validate_dataset()?;
        load::validate(self)?;
        self.validate_shard()?;
        self.validate_many()?;
        self.validate_server()
    }

    fn validate_endpoint(&self) -> Result<(), ConfigError> {
        let traits = self.endpoint.endpoint_type.traits();
        if self.endpoint.streaming && !traits.supports_streaming {
            let why = format!("{} does not support streaming; remove the flag", traits.name);
            return Err(ConfigError::flag("--streaming", why));
        }
        if self.metrics.use_server_token_count && !traits.produces_tokens {
            let why = format!("{} responses have no tokens to count; remove the flag", traits.name);
            return Err(ConfigError::flag("--use-server-token-count", why));
        }
        if self.apply_chat_template {
            self.validate_chat_template()?;
        }
        if self.dataset.models.is_empty() || self.dataset.models.iter().any(String::is_empty) {
            return Err(ConfigError::flag(
                "--model",
                "must name at least one model, and no empty names",
            ));
        }
        Ok(())
    }

    fn validate_chat_template(&self) -> Result<(), ConfigError> {
        let flag = "--apply-chat-template";
        let traits = self.endpoint.endpoint_type.traits();
        // Endpoint types without a path of their own have bodies written by the user.
        if !traits.repeats_history && !traits.path.is_empty() {
            let why = format!("{} requests have no chat messages; remove the flag", traits.name);
            return Err(ConfigError::flag(flag, why));
        }
        if self.metrics.use_server_token_count {
            let why = "cannot be combined with --use-server-token-count; remove one of the two";
            return Err(ConfigError::flag(flag, why));
        }
        if self.tokenizer == crate::tokenizer::Source::Builtin {
            let why = "the builtin tokenizer has no chat template; use --tokenizer to select the \
                       model's own";
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
            0 => Err(ConfigError::flag(flag, "must be at least 1, since 0 makes an empty dataset")),
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
        // Checked before generating the videos, which takes time.
        if synthetic.video.is_some() && !traits.takes.contains(MediaKinds::VIDEO) {
            let why = format!("{} does not support videos; remove the flag", traits.name);
            return Err(ConfigError::flag("--video-width", why));
        }
        if synthetic.batch_size > 1 && traits.repeats_history {
            let name = traits.name;
            let why = format!(
                "{name} requests have a single prompt; use completions or embeddings instead"
            );
            return Err(ConfigError::flag("--batch-size", why));
        }
        if (synthetic.prefix_pool_size == 0) != (synthetic.prefix_length == 0) {
            let why = "--num-prefix-prompts and --prefix-prompt-length require each other; give \
                       both";
            return Err(ConfigError::flag("--num-prefix-prompts", why));
        }
        if synthetic.system_prompt.is_some() && synthetic.shared_system_prompt_length.is_some() {
            let why =
                "cannot be combined with --shared-system-prompt-length; remove one of the two";
            return Err(ConfigError::flag("--system-prompt", why));
        }
        Ok(())
    }

    fn validate_server(&self) -> Result<(), ConfigError> {
        let server = &self.server;
        if server.urls.is_empty() {
            return Err(ConfigError::flag("--url", "must name at least one server"));
        }
        if self.transport.request_timeout.0 == 0 {
            let why = "must be above 0, since 0 would fail every request";
            return Err(ConfigError::flag("--request-timeout-seconds", why));
        }
        let wait = server.wait_for_model;
        if wait.timeout.0 > 0 && wait.interval.0 == 0 {
            let why = "must be above 0, since 0 would poll without pause";
            return Err(ConfigError::flag("--wait-for-model-interval", why));
        }
        for (name, value) in &server.headers {
            let name_ok = http::HeaderName::try_from(name.as_str()).is_ok();
            if !name_ok || http::HeaderValue::try_from(value.as_str()).is_err() {
                let why = format!(
                    "{name:?} or its value is not a valid HTTP header; correct or remove it"
                );
                return Err(ConfigError::flag("--header", why));
            }
            if self.telemetry.trace_sample.is_some() && name.eq_ignore_ascii_case("traceparent") {
                let why = "traceparent cannot be combined with --trace-sample, which sets it for \
                           each request; remove one of the two";
                return Err(ConfigError::flag("--header", why));
            }
        }
        match &server.api_key {
            Some(key) if http::HeaderValue::try_from(key.expose()).is_err() => {
                let why =
                    "contains characters that are not valid in a header; check for line breaks";
                Err(ConfigError::flag("--api-key", why))
            }
            _ => Ok(()),
        }
    }
}

/// Checks that a distribution's mean is at least `least` and its standard deviation at
/// least 0.
fn spread(flag: &'static str, spread: NormalDistribution, least: f64) -> Result<(), ConfigError> {
    if !(spread.mean.is_finite() && spread.mean >= least) {
        let why = format!("must be at least {least}, got {}", spread.mean);
        return Err(ConfigError::flag(flag, why));
    }
    if !(spread.stddev.is_finite() && spread.stddev >= 0.0) {
        let why = format!("the standard deviation must be at least 0, got {}", spread.stddev);
        return Err(ConfigError::flag(flag, why));
    }
    Ok(())
}

/// Checks that the file exists. It may be a pipe, since it is read only once.
fn validate_dataset_file(path: &Path) -> Result<(), ConfigError> {
    let why = match fs::metadata(path) {
        Ok(found) if found.is_dir() => "it is a directory".to_owned(),
        Ok(_) => return Ok(()),
        Err(error) if error.kind() == io::ErrorKind::NotFound => "no such file".to_owned(),
        Err(error) => error.to_string(),
    };
    Err(ConfigError::File { flag: "--input-file", path: path.display().to_string(), why })
}
