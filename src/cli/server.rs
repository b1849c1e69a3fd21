//! Which servers a run benchmarks, and how they are asked.

use uuid::Uuid;

use base::environment::InvalidVariable;
use base::input;
use base::redact::Secret;
use base::setting::{InvalidSetting, Named as _};
use base::units::Nanos;
use client::endpoint;
use client::endpoint::EndpointType;
use client::endpoint::dialect::template::PAYLOAD_TEMPLATE;
use client::runner::RequestBuilder;
use client::transport;
use results::artifacts;

use super::control_args::ControlArgs;
use super::profile::{EndpointArgs, OutputArgs, ProfileArgs, TlsArgs};
use super::{CliError, connections, value};
use crate::config::{ConfigError, Environment, IpVersion, ServerConfig, WaitForModel, url};
use crate::server_control;

/// Returns how requests are built.
pub(super) fn endpoint(
    flags: &EndpointArgs,
    extras: &[String],
    environment: Environment<'_>,
) -> Result<endpoint::Config, ConfigError> {
    let mut extra_inputs: Vec<(String, serde_json::Value)> = Vec::new();
    for text in extras {
        let wrong = || {
            let why = "expected name:value, name=value or a JSON object";
            ConfigError::flag("--extra-inputs", why)
        };
        for (name, value) in value::members(text).ok_or_else(wrong)? {
            let is_template =
                flags.endpoint_type == EndpointType::TEMPLATE && name == PAYLOAD_TEMPLATE;
            let value = if is_template { template(value)? } else { value };
            extra_inputs.retain(|(earlier, _)| *earlier != name);
            extra_inputs.push((name, value));
        }
    }
    // Extra inputs that are given take precedence.
    for (name, value) in flags.server_timing.members(flags.streaming) {
        if extra_inputs.iter().all(|(given, _)| *given != name) {
            extra_inputs.push((name, value));
        }
    }
    content_type(flags)?;
    let poll_interval = positive_seconds(environment, "AIPERF_HTTP_VIDEO_POLL_INTERVAL", 0.1)?;
    Ok(endpoint::Config {
        endpoint_type: flags.endpoint_type,
        streaming: flags.streaming,
        path: flags.endpoint.clone().map(Secret::new),
        extra_inputs,
        use_legacy_max_tokens: flags.use_legacy_max_tokens,
        use_server_token_count: flags.use_server_token_count,
        per_chunk_usage: flags.per_chunk_usage,
        video: endpoint::VideoJobs {
            poll_interval: Nanos::from_seconds(poll_interval),
            download: flags.download_video_content,
        },
    })
}

/// The template as given, or the content of the file that it names.
fn template(given: serde_json::Value) -> Result<serde_json::Value, ConfigError> {
    let Some(text) = given.as_str() else { return Ok(given) };
    let path = std::path::Path::new(text);
    let refused = |why: String| ConfigError::File {
        flag: "--extra-inputs payload_template",
        path: text.to_owned(),
        why,
    };
    if path.is_file() {
        let read = input::text(path, input::MAX_PART_BYTES);
        return read.map(Into::into).map_err(|e| refused(e.to_string()));
    }
    match std::fs::metadata(path) {
        Ok(_) => Err(refused("not a file".to_owned())),
        // Text that does not look like a template was meant to be a path.
        Err(error) if !text.contains('{') && text.contains(['.', '/']) => {
            Err(refused(error.to_string()))
        }
        Err(_) => Ok(given),
    }
}

/// Returns an error if `--request-content-type` is not the endpoint type's own.
fn content_type(flags: &EndpointArgs) -> Result<(), ConfigError> {
    let traits = flags.endpoint_type.traits();
    match flags.request_content_type {
        Some(asked) if !traits.content_type.starts_with(asked.name()) => {
            let own = traits.content_type.split(';').next().unwrap_or_default();
            let why = format!("{} requests are always {own}; remove the flag", traits.name);
            Err(ConfigError::Endpoint(InvalidSetting::new("--request-content-type", why)))
        }
        _ => Ok(()),
    }
}

/// A time in seconds from the environment, which must be above 0.
pub(super) fn positive_seconds(
    environment: Environment<'_>,
    name: &'static str,
    default: f64,
) -> Result<f64, ConfigError> {
    match environment.number(name, default)? {
        seconds if seconds > 0.0 => Ok(seconds),
        seconds => Err(InvalidVariable {
            name: name.to_owned(),
            value: seconds.to_string(),
            expected: "a number above 0",
        }
        .into()),
    }
}

/// Returns the servers, and what requests to them have in common.
pub(super) fn config(
    flags: &EndpointArgs,
    control: &ControlArgs,
    header: &[String],
    environment: Environment<'_>,
) -> Result<ServerConfig, ConfigError> {
    let mut headers = headers(header)?;
    if let Some((name, value)) = flags.server_timing.header()
        && !headers.iter().any(|(given, _)| given.eq_ignore_ascii_case(name))
    {
        headers.push((name.to_owned(), value.to_owned()));
    }
    Ok(ServerConfig {
        urls: flags.url.iter().map(|text| url::parse(text)).collect::<Result<_, _>>()?,
        headers,
        api_key: flags
            .api_key
            .clone()
            .or_else(|| environment.get("AIPERF_API_KEY"))
            .map(Secret::new),
        session_header: flags.session_header.clone(),
        session_copies: session_copies(flags, environment)?,
        control: control.config(),
        wait_for_model: WaitForModel {
            timeout: Nanos::from_seconds(flags.wait_for_model_timeout),
            mode: flags.wait_for_model_mode,
            interval: Nanos::from_seconds(flags.wait_for_model_interval),
        },
    })
}

/// Variables that repeat the session ID in a further header, the header, and whether they are on by
/// default.
const SESSION_COPIES: [(&str, &str, bool); 4] = [
    ("AIPERF_HTTP_X_SESSION_ID_FROM_CORRELATION_ID", "x-session-id", false),
    ("AIPERF_HTTP_X_SESSION_AFFINITY_FROM_CORRELATION_ID", "x-session-affinity", true),
    ("AIPERF_HTTP_X_SMG_ROUTING_KEY_FROM_CORRELATION_ID", "x-smg-routing-key", false),
    ("AIPERF_HTTP_X_DYNAMO_SESSION_ID_FROM_CORRELATION_ID", DYNAMO_SESSION, false),
];

/// The header with the session ID that Dynamo routes by.
const DYNAMO_SESSION: &str = "x-dynamo-session-id";

/// Further headers with the session ID.
fn session_copies(
    flags: &EndpointArgs,
    environment: Environment<'_>,
) -> Result<Vec<&'static str>, ConfigError> {
    let mut copies = Vec::new();
    for (variable, header, default) in SESSION_COPIES {
        let is_asked = header == DYNAMO_SESSION && flags.use_dynamo_conv_aware_routing;
        if environment.switch(variable, default)? || is_asked {
            copies.push(header);
        }
    }
    Ok(copies)
}

fn headers(given: &[String]) -> Result<Vec<(String, String)>, ConfigError> {
    given
        .iter()
        .map(|text| {
            // The text may contain a secret, so the message does not repeat it.
            let (name, value) = value::pair(text).ok_or_else(|| {
                ConfigError::flag("--header", "expected a header such as 'Name: value'")
            })?;
            Ok((name.to_owned(), value.to_owned()))
        })
        .collect()
}

/// Returns how requests are sent.
pub(super) fn transport(
    endpoint: &EndpointArgs,
    tls: &TlsArgs,
    output: &OutputArgs,
    environment: Environment<'_>,
) -> Result<transport::Config, ConfigError> {
    let reuse = endpoint.connection_reuse_strategy;
    Ok(transport::Config {
        request_timeout: Nanos::from_seconds(endpoint.request_timeout_seconds),
        connections: connections::connections(reuse, tls, environment)?,
        quick_ack: environment.switch("AIPERF_HTTP_QUICK_ACK", true)?,
        kernel_timestamps: environment.switch("AIPERF_HTTP_KERNEL_TIMESTAMPS", true)?,
        ip_version: ip_version(environment)?,
        keep_chunks: output.export_http_trace,
        keep_headers: output.export_http_trace
            || output.export_level == artifacts::ExportLevel::Raw,
        ..transport::Config::default()
    })
}

fn ip_version(environment: Environment<'_>) -> Result<IpVersion, ConfigError> {
    let found = environment.parse("AIPERF_HTTP_IP_VERSION", "4, 6 or auto", IpVersion::named)?;
    Ok(found.unwrap_or(IpVersion::V4))
}

/// Asks the server that `flags` and `environment` describe for its only model.
///
/// # Errors
/// If a flag is invalid, or if the server does not respond with one model.
pub(super) fn only_model(
    flags: &ProfileArgs,
    environment: Environment<'_>,
) -> Result<String, CliError> {
    let endpoint = endpoint(&flags.endpoint, &flags.input.extra_inputs, environment)?;
    let transport = transport(&flags.endpoint, &flags.tls, &flags.output, environment)?;
    let server = config(&flags.endpoint, &flags.control, &flags.input.header, environment)?;
    let api_key = server.api_key.as_ref().map(|key| key.expose().as_str());
    let traits = endpoint.endpoint_type.traits();
    let builder = RequestBuilder::new(traits, endpoint.streaming, api_key, &server.headers)
        .map_err(|error| ConfigError::flag("--header", error.to_string()))?;
    let headers = builder.headers(Uuid::new_v4(), Uuid::new_v4());
    server_control::only_model(&server, &transport.connections, headers)
        .map_err(|why| CliError::Usage(format!("error: {why}")))
}
