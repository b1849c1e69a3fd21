//! The export's settings: flags first, then the standard `OTEL_*` variables.
//!
//! The environment is read through a closure, in this file only.

use std::borrow::Cow;
use std::collections::HashMap;
use std::path::PathBuf;
use std::time::Duration;

use http::{HeaderMap, HeaderName, HeaderValue};
use percent_encoding::percent_decode_str;
use url::Url;

use super::{Config, TelemetryError};

/// How a variable's value is looked up.
type Environment<'a> = &'a dyn Fn(&str) -> Option<String>;

/// Shortest interval between exports that is taken seriously.
const SHORTEST: f64 = 0.001;
/// Longest, likewise.
const LONGEST: f64 = 86_400.0;

/// What flags and environment come to.
pub(super) struct Settings {
    /// The collector, if there is one.
    pub(super) destination: Option<Destination>,
    /// Time between exports.
    pub(super) interval: Duration,
    /// `OTEL_SERVICE_NAME`.
    pub(super) service_name: Option<String>,
    /// `OTEL_RESOURCE_ATTRIBUTES`.
    pub(super) resource_attributes: Vec<(String, String)>,
}

/// A collector and how to talk to it. Not `Debug`: it holds secrets.
pub(super) struct Destination {
    /// Where to: with its path for HTTP, without one for gRPC. Never bears
    /// credentials or a query.
    pub(super) url: Url,
    /// How.
    pub(super) protocol: Protocol,
    /// Sent with every export; values are secrets.
    pub(super) headers: HeaderMap,
    /// Whether exports are compressed.
    pub(super) gzip: bool,
    /// What one export may take, retries included.
    pub(super) timeout: Duration,
    /// Authorities to trust instead of the system's, in PEM.
    pub(super) authorities: Option<Vec<u8>>,
    /// Our own certificate and its key, in PEM.
    pub(super) client: Option<(Vec<u8>, Vec<u8>)>,
}

/// OTLP's transports.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Protocol {
    /// `grpc`
    Grpc,
    /// `http/protobuf`
    Http,
}

impl Settings {
    /// Resolves `config` and `environment`; flags win.
    pub(super) fn resolve(
        config: &Config,
        environment: Environment<'_>,
    ) -> Result<Self, TelemetryError> {
        let given = |name: &str| {
            environment(name).map(|value| value.trim().to_owned()).filter(|value| !value.is_empty())
        };
        let Some((url, origin)) = endpoint(config, &given) else {
            return Ok(Self {
                destination: None,
                interval: Duration::ZERO,
                service_name: None,
                resource_attributes: Vec::new(),
            });
        };
        refuse_delta(&given)?;
        Ok(Self {
            destination: Some(Destination::resolve(&url, origin, config, &given)?),
            interval: duration(
                config.interval_seconds,
                "AIPERF_OTEL_FLUSH_INTERVAL_SECONDS",
                &["OTEL_METRIC_EXPORT_INTERVAL"],
                &given,
            )?,
            service_name: given("OTEL_SERVICE_NAME"),
            resource_attributes: pairs(&given, "OTEL_RESOURCE_ATTRIBUTES")?,
        })
    }
}

/// Where an endpoint was named, which decides what becomes of its path.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Origin {
    /// `--otel-url`.
    Flag,
    /// The variable for metrics: the URL is used as it is.
    Metrics,
    /// The variable for all signals: a base that `v1/metrics` is added to.
    Base,
}

fn endpoint(config: &Config, given: Environment<'_>) -> Option<(String, Origin)> {
    let flag = config.url.as_deref().map(str::trim).filter(|url| !url.is_empty());
    flag.map(|url| (url.to_owned(), Origin::Flag))
        .or_else(|| given("OTEL_EXPORTER_OTLP_METRICS_ENDPOINT").map(|url| (url, Origin::Metrics)))
        .or_else(|| given("OTEL_EXPORTER_OTLP_ENDPOINT").map(|url| (url, Origin::Base)))
}

impl Destination {
    fn resolve(
        url: &str,
        origin: Origin,
        config: &Config,
        given: Environment<'_>,
    ) -> Result<Self, TelemetryError> {
        let mut url = parse_url(url)?;
        let protocol = match protocol(given)? {
            Some(protocol) => protocol,
            None if url.path().ends_with("/v1/metrics") || url.port() == Some(4318) => {
                Protocol::Http
            }
            None => Protocol::Grpc,
        };
        match protocol {
            Protocol::Grpc => url.set_path(""),
            Protocol::Http if origin == Origin::Base || url.path() == "/" => {
                let base = url.path().trim_end_matches('/');
                url.set_path(&format!("{base}/v1/metrics"));
            }
            Protocol::Http => {}
        }
        Ok(Self {
            url,
            protocol,
            headers: headers(given)?,
            gzip: gzip(given)?,
            timeout: duration(
                config.timeout_seconds,
                "AIPERF_OTEL_REQUEST_TIMEOUT_SECONDS",
                &["OTEL_EXPORTER_OTLP_METRICS_TIMEOUT", "OTEL_EXPORTER_OTLP_TIMEOUT"],
                given,
            )?,
            authorities: file(given, &CERTIFICATE)?,
            client: file(given, &CLIENT_CERTIFICATE)?.zip(file(given, &CLIENT_KEY)?),
        })
    }
}

/// Reads a collector's URL; without a scheme it is `http`.
fn parse_url(text: &str) -> Result<Url, TelemetryError> {
    let with_scheme = if text.contains("://") { text.to_owned() } else { format!("http://{text}") };
    let refuse = |reason: &str| TelemetryError::Url {
        url: without_credentials(&with_scheme),
        reason: reason.to_owned(),
    };
    let url = Url::parse(&with_scheme)
        .map_err(|e| refuse(&format!("{e}; give one like http://localhost:4317")))?;
    if !matches!(url.scheme(), "http" | "https") {
        return Err(refuse("its scheme must be http or https, for gRPC too"));
    }
    if !url.username().is_empty() || url.password().is_some() || url.query().is_some() {
        return Err(refuse("put credentials in OTEL_EXPORTER_OTLP_HEADERS instead"));
    }
    if url.host_str().is_none_or(str::is_empty) {
        return Err(refuse("it names no host"));
    }
    Ok(url)
}

/// `scheme://host/path` of a URL that may not even parse.
fn without_credentials(url: &str) -> String {
    let (scheme, rest) = url.split_once("://").unwrap_or(("", url));
    let rest = rest.split(['?', '#']).next().unwrap_or_default();
    let host = rest.rsplit_once('@').map_or(rest, |(_, host)| host);
    format!("{scheme}://{host}")
}

fn protocol(given: Environment<'_>) -> Result<Option<Protocol>, TelemetryError> {
    const NAMES: [&str; 2] = ["OTEL_EXPORTER_OTLP_METRICS_PROTOCOL", "OTEL_EXPORTER_OTLP_PROTOCOL"];
    let Some((name, value)) = first(given, &NAMES) else { return Ok(None) };
    match value.to_ascii_lowercase().as_str() {
        "grpc" => Ok(Some(Protocol::Grpc)),
        "http/protobuf" => Ok(Some(Protocol::Http)),
        _ => Err(TelemetryError::Setting {
            name,
            reason: format!("is {value:?}; aiperf speaks grpc and http/protobuf"),
        }),
    }
}

/// The counts and buckets that are compared at the end of the run are
/// cumulative, and what one export misses the next one must bear.
fn refuse_delta(given: Environment<'_>) -> Result<(), TelemetryError> {
    const NAME: &str = "OTEL_EXPORTER_OTLP_METRICS_TEMPORALITY_PREFERENCE";
    match given(NAME) {
        Some(value) if !value.eq_ignore_ascii_case("cumulative") => Err(TelemetryError::Setting {
            name: NAME,
            reason: format!(
                "is {value:?}; aiperf exports cumulative values only: unset it, and convert in \
                 the collector (cumulativetodelta processor) if the backend needs deltas"
            ),
        }),
        _ => Ok(()),
    }
}

fn gzip(given: Environment<'_>) -> Result<bool, TelemetryError> {
    const NAMES: [&str; 2] =
        ["OTEL_EXPORTER_OTLP_METRICS_COMPRESSION", "OTEL_EXPORTER_OTLP_COMPRESSION"];
    let Some((name, value)) = first(given, &NAMES) else { return Ok(false) };
    match value.to_ascii_lowercase().as_str() {
        "gzip" => Ok(true),
        "none" => Ok(false),
        _ => Err(TelemetryError::Setting {
            name,
            reason: format!("is {value:?}; it must be gzip or none"),
        }),
    }
}

fn headers(given: Environment<'_>) -> Result<HeaderMap, TelemetryError> {
    const NAMES: [&str; 2] = ["OTEL_EXPORTER_OTLP_METRICS_HEADERS", "OTEL_EXPORTER_OTLP_HEADERS"];
    let Some((variable, _)) = first(given, &NAMES) else { return Ok(HeaderMap::new()) };
    let mut headers = HeaderMap::new();
    for (index, (name, value)) in pairs(given, variable)?.iter().enumerate() {
        // Neither name nor value is repeated: a mistyped list may have a secret in either.
        let refuse = |what: &str| TelemetryError::Setting {
            name: variable,
            reason: format!("has at place {} a {what} that HTTP does not allow", index + 1),
        };
        let name: HeaderName = name.to_ascii_lowercase().parse().map_err(|_| refuse("name"))?;
        let mut value = HeaderValue::from_str(value).map_err(|_| refuse("value"))?;
        value.set_sensitive(true);
        headers.insert(name, value);
    }
    Ok(headers)
}

/// Reads `key=value,key=value`, percent-decoded, as `OTEL_RESOURCE_ATTRIBUTES`
/// and the header variables are written. A later key overrides an earlier one.
fn pairs(
    given: Environment<'_>,
    name: &'static str,
) -> Result<Vec<(String, String)>, TelemetryError> {
    let text = given(name).unwrap_or_default();
    let mut pairs: Vec<(String, String)> = Vec::new();
    let mut place = HashMap::new();
    for (index, entry) in text.split(',').map(str::trim).enumerate() {
        if entry.is_empty() {
            continue;
        }
        let pair = entry.split_once('=').and_then(|(key, value)| {
            let key = percent_decode(key.trim()).filter(|key| !key.is_empty())?;
            Some((key, percent_decode(value.trim())?))
        });
        let Some((key, value)) = pair else {
            return Err(TelemetryError::Setting {
                name,
                reason: format!("has at place {} no key=value", index + 1),
            });
        };
        let at = *place.entry(key.clone()).or_insert(pairs.len());
        if at == pairs.len() {
            pairs.push((key, value));
        } else {
            pairs[at].1 = value;
        }
    }
    Ok(pairs)
}

/// `None` where the escapes do not make UTF-8. A `%` that is no escape stays.
fn percent_decode(text: &str) -> Option<String> {
    percent_decode_str(text).decode_utf8().ok().map(Cow::into_owned)
}

/// The flag's seconds, unless its own variable `ours` is unset and one of the
/// `standard` variables, in milliseconds, is set.
fn duration(
    seconds: f64,
    ours: &'static str,
    standard: &'static [&'static str],
    given: Environment<'_>,
) -> Result<Duration, TelemetryError> {
    let (name, seconds) = match first(given, standard) {
        Some((name, value)) if given(ours).is_none() => {
            let millis: Result<u32, _> = value.parse();
            let millis = millis.map_err(|_| TelemetryError::Setting {
                name,
                reason: format!("is {value:?}; it must be a number of milliseconds"),
            })?;
            (name, f64::from(millis) / 1e3)
        }
        _ => (ours, seconds),
    };
    if (SHORTEST..=LONGEST).contains(&seconds) {
        return Ok(Duration::from_secs_f64(seconds));
    }
    Err(TelemetryError::Setting {
        name,
        reason: format!("is {seconds} s; it must be between {SHORTEST} and {LONGEST} s"),
    })
}

const CERTIFICATE: [&str; 2] =
    ["OTEL_EXPORTER_OTLP_METRICS_CERTIFICATE", "OTEL_EXPORTER_OTLP_CERTIFICATE"];
const CLIENT_CERTIFICATE: [&str; 2] =
    ["OTEL_EXPORTER_OTLP_METRICS_CLIENT_CERTIFICATE", "OTEL_EXPORTER_OTLP_CLIENT_CERTIFICATE"];
const CLIENT_KEY: [&str; 2] =
    ["OTEL_EXPORTER_OTLP_METRICS_CLIENT_KEY", "OTEL_EXPORTER_OTLP_CLIENT_KEY"];

fn file(given: Environment<'_>, names: &[&'static str]) -> Result<Option<Vec<u8>>, TelemetryError> {
    let Some((name, path)) = first(given, names) else { return Ok(None) };
    let path = PathBuf::from(path);
    match std::fs::read(&path) {
        Ok(content) => Ok(Some(content)),
        Err(source) => Err(TelemetryError::File { name, path, source }),
    }
}

/// The first of `names` that is set, with its value.
fn first(given: Environment<'_>, names: &[&'static str]) -> Option<(&'static str, String)> {
    names.iter().find_map(|name| Some((*name, given(name)?)))
}

#[cfg(test)]
mod tests;
