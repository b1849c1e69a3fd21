//! `--mlflow-…`: the run on an MLflow server.

#![expect(clippy::doc_markdown, reason = "the doc comments are the --help text")]

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use clap::Args;
use http::HeaderValue;
use percent_encoding::percent_decode_str;
use url::Url;

use base::environment::InvalidVariable;
use base::redact::Secret;
use base::units::Nanos;
use results::mlflow::Config;

use super::value::{non_empty, pair};
use crate::config::{ConfigError, Environment};

/// The variables with a token, or with a name and a password.
const TOKEN: &str = "MLFLOW_TRACKING_TOKEN";
const USERNAME: &str = "MLFLOW_TRACKING_USERNAME";
const PASSWORD: &str = "MLFLOW_TRACKING_PASSWORD";

/// Which MLflow server the run is written to, and how.
#[derive(Args, Clone)]
#[command(next_help_heading = "MLflow")]
#[expect(clippy::struct_field_names, reason = "the names of flags begin with that of the server")]
pub(super) struct MlflowArgs {
    /// MLflow server to write the run to, such as http://localhost:5000
    #[arg(long, value_name = "URL", value_parser = server)]
    mlflow_tracking_uri: Option<Url>,
    /// Experiment of the run, which is created if necessary [default: aiperf]
    #[arg(long, value_name = "NAME", value_parser = non_empty, requires = "mlflow_tracking_uri")]
    mlflow_experiment: Option<String>,
    /// Name of the run on the server [default: aiperf- and the start of the benchmark ID]
    #[arg(long, value_name = "NAME", value_parser = non_empty, requires = "mlflow_tracking_uri")]
    mlflow_run_name: Option<String>,
    /// Tags of the run: name:value
    #[arg(long, value_name = "NAME:VALUE", num_args = 1.., requires = "mlflow_tracking_uri")]
    mlflow_tag: Vec<String>,
    /// ID of the run that this one is part of
    #[arg(long, value_name = "ID", value_parser = non_empty, requires = "mlflow_tracking_uri")]
    mlflow_parent_run_id: Option<String>,
    /// Files to upload, as patterns relative to the artifact directory [default: JSON, CSV, JSONL and
    /// Parquet files, pictures and pages]
    #[arg(long, value_name = "PATTERN", num_args = 1.., value_parser = non_empty,
          requires = "mlflow_tracking_uri")]
    mlflow_artifact_glob: Vec<String>,
}

impl MlflowArgs {
    /// Returns the configuration, with credentials from the environment; `None` without a server.
    pub(super) fn config(
        &self,
        environment: Environment<'_>,
    ) -> Result<Option<Config>, ConfigError> {
        let timeout = environment.number("AIPERF_MLFLOW_EXPORT_TIMEOUT_SECONDS", 30.0)?;
        let Some(mut server) = self.mlflow_tracking_uri.clone() else { return Ok(None) };
        let own = own_authorization(&mut server)?;
        let authorization = match own {
            None => authorization(environment)?,
            own => own,
        };
        let tag = |text: &String| {
            let why = "expected tags such as name:value";
            let (name, value) = pair(text).ok_or_else(|| ConfigError::flag("--mlflow-tag", why))?;
            Ok::<_, ConfigError>((name.to_owned(), value.to_owned()))
        };
        Ok(Some(Config {
            server: Secret::new(server),
            experiment: self.mlflow_experiment.clone().unwrap_or_else(|| "aiperf".to_owned()),
            run_name: self.mlflow_run_name.clone(),
            tags: self.mlflow_tag.iter().map(tag).collect::<Result<_, _>>()?,
            parent_run_id: self.mlflow_parent_run_id.clone(),
            artifact_globs: self.mlflow_artifact_glob.clone(),
            authorization,
            timeout: Nanos::from_seconds(timeout),
        }))
    }
}

/// Accepts the URL of a server.
fn server(text: &str) -> Result<Url, String> {
    let expected = "expected the URL of a server, such as http://localhost:5000; `mlflow server` \
                    starts one for local files";
    let url = Url::parse(text).map_err(|_| expected.to_owned())?;
    let is_server = matches!(url.scheme(), "http" | "https") && url.has_host();
    if is_server { Ok(url) } else { Err(expected.to_owned()) }
}

/// Removes the name and the password from `server`, and returns their `Authorization` header.
fn own_authorization(server: &mut Url) -> Result<Option<HeaderValue>, ConfigError> {
    if server.username().is_empty() {
        return Ok(None);
    }
    let decoded = |text: &str| percent_decode_str(text).decode_utf8_lossy().into_owned();
    let basic = basic(&decoded(server.username()), &decoded(server.password().unwrap_or_default()));
    // Fails only for URLs that cannot have any.
    let _ = server.set_username("").and_then(|()| server.set_password(None));
    header("--mlflow-tracking-uri", &basic).map(Some)
}

fn basic(user: &str, password: &str) -> String {
    format!("Basic {}", STANDARD.encode(format!("{user}:{password}")))
}

fn header(name: &str, text: &str) -> Result<HeaderValue, ConfigError> {
    let mut value = HeaderValue::from_str(text).map_err(|_| InvalidVariable {
        name: name.to_owned(),
        value: "<redacted>".to_owned(),
        expected: "characters that are valid in a header",
    })?;
    value.set_sensitive(true);
    Ok(value)
}

/// Returns the `Authorization` header of the environment: a name and a password, or a token.
fn authorization(environment: Environment<'_>) -> Result<Option<HeaderValue>, ConfigError> {
    let set = |name| environment.get(name).filter(|value| !value.is_empty());
    let (name, text) = match (set(USERNAME), set(TOKEN)) {
        (Some(user), _) => (USERNAME, basic(&user, &set(PASSWORD).unwrap_or_default())),
        (None, Some(token)) => (TOKEN, format!("Bearer {}", token.trim())),
        (None, None) => return Ok(None),
    };
    header(name, &text).map(Some)
}
