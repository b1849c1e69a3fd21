//! The URL and protocol of a signal according to OpenTelemetry's "OTLP Exporter Configuration": the
//! variable for all signals is a base that the signal's path is appended to, and a signal's own
//! variable is used unchanged. The flag accepts either.

use url::Url;

use base::redact::ShownUrl;

use super::{Environment, Protocol, Signal, first};
use crate::TelemetryError;

/// End of a collector's URL for metrics over HTTP.
pub(super) const METRICS_PATH: &str = "/v1/metrics";
/// End of a collector's URL for traces over HTTP.
pub(super) const TRACES_PATH: &str = "/v1/traces";

/// End of a collector's URL for logs over HTTP.
pub(super) const LOGS_PATH: &str = "/v1/logs";

/// The exporter that writes lines of OTLP/JSON to standard output, in OpenTelemetry's variables.
const STDOUT: &str = "otlp/stdout";

/// The variable with the base endpoint of all signals.
pub(super) const BASE_ENDPOINT: &str = "OTEL_EXPORTER_OTLP_ENDPOINT";

/// Port of OTLP over gRPC. Any other port implies HTTP, OpenTelemetry's default.
const GRPC_PORT: u16 = 4317;

/// The source of an endpoint, which determines how its path is used.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Origin {
    /// `--otel-url`: a base, or the URL of one signal, from which those of the others are derived.
    Flag,
    /// The signal's own variable; the URL is used unchanged.
    Signal,
    /// The variable for all signals, a base.
    Base,
}

/// An endpoint as given.
struct Named {
    text: String,
    origin: Origin,
    /// The flag or variable.
    by: &'static str,
}

/// Returns the URL and transport of `signal`, if the flag or a variable sets them.
pub(super) fn find(
    signal: &'static Signal,
    flag: Option<&str>,
    given: Environment<'_>,
) -> Result<Option<(Url, Protocol)>, TelemetryError> {
    let Some(named) = named(signal, flag, given)? else { return Ok(None) };
    let mut url =
        named.parse(first(given, &signal.insecure).is_some_and(|(_, it)| !is_true(&it)))?;
    let path = url.path().trim_end_matches('/').to_owned();
    let protocol = match protocol(signal, given)? {
        Some((variable, Protocol::Grpc)) if !path.is_empty() => {
            return Err(named.grpc_has_no_path(&url, variable));
        }
        Some((_, protocol)) => protocol,
        None if path.is_empty() && url.port() == Some(GRPC_PORT) => Protocol::Grpc,
        None => Protocol::Http,
    };
    let path = match protocol {
        Protocol::Grpc => path,
        Protocol::Http | Protocol::HttpJson => named.http_path(&url, &path, signal)?,
    };
    url.set_path(&path);
    Ok(Some((url, protocol)))
}

/// Returns the endpoint of `signal`: that of the flag, or else that of the variables, unless other
/// variables disable the export.
fn named(
    signal: &Signal,
    flag: Option<&str>,
    given: Environment<'_>,
) -> Result<Option<Named>, TelemetryError> {
    if let Some(url) = flag.map(str::trim).filter(|url| !url.is_empty()) {
        return Ok(Some(Named { text: url.to_owned(), origin: Origin::Flag, by: "--otel-url" }));
    }
    let Some((by, text)) = first(given, &[signal.endpoint, BASE_ENDPOINT]) else { return Ok(None) };
    if given.trimmed("OTEL_SDK_DISABLED").is_some_and(|it| is_true(&it))
        || !is_by_otlp(signal, given)?
    {
        return Ok(None);
    }
    let origin = if by == BASE_ENDPOINT { Origin::Base } else { Origin::Signal };
    Ok(Some(Named { text, origin, by }))
}

/// Parses a boolean as OpenTelemetry does: everything except `true`, in any case, is false.
fn is_true(value: &str) -> bool {
    value.eq_ignore_ascii_case("true")
}

/// Returns whether the signal's variable, such as `OTEL_METRICS_EXPORTER`, selects OTLP.
fn is_by_otlp(signal: &Signal, given: Environment<'_>) -> Result<bool, TelemetryError> {
    let name = signal.exporter;
    let Some(value) = given.trimmed(name) else { return Ok(true) };
    if ["otlp", STDOUT, "none"].iter().any(|known| lists(&value, known)) {
        return Ok(lists(&value, "otlp"));
    }
    let reason =
        format!("must be otlp, {STDOUT} or none, got {value:?}; for files, use --otel-file");
    Err(TelemetryError::Setting { name, reason })
}

/// Returns whether the signal's variable selects lines of OTLP/JSON on standard output. Without a
/// collector, exporters that aiperf does not have are not an error.
pub(super) fn is_by_stdout(signal: &Signal, given: Environment<'_>) -> bool {
    let is_off = given.trimmed("OTEL_SDK_DISABLED").is_some_and(|it| is_true(&it));
    !is_off && given.trimmed(signal.exporter).is_some_and(|value| lists(&value, STDOUT))
}

/// Returns whether a list of exporters has one, in any case.
fn lists(value: &str, wanted: &str) -> bool {
    value.split(',').any(|it| it.trim().eq_ignore_ascii_case(wanted))
}

fn protocol(
    signal: &'static Signal,
    given: Environment<'_>,
) -> Result<Option<(&'static str, Protocol)>, TelemetryError> {
    let Some((name, value)) = first(given, &signal.protocol) else { return Ok(None) };
    match value.to_ascii_lowercase().as_str() {
        "grpc" => Ok(Some((name, Protocol::Grpc))),
        "http/protobuf" => Ok(Some((name, Protocol::Http))),
        "http/json" => Ok(Some((name, Protocol::HttpJson))),
        _ => Err(TelemetryError::Setting {
            name,
            reason: format!("must be grpc, http/protobuf or http/json, got {value:?}"),
        }),
    }
}

impl Named {
    /// Parses the URL; without a scheme it is `http`, unless `is_secure`.
    fn parse(&self, is_secure: bool) -> Result<Url, TelemetryError> {
        let scheme = if is_secure { "https" } else { "http" };
        let text = &self.text;
        let with_scheme =
            if text.contains("://") { text.clone() } else { format!("{scheme}://{text}") };
        let refuse = |reason: &str| TelemetryError::Url {
            url: ShownUrl::new(&with_scheme),
            reason: reason.to_owned(),
        };
        let url = Url::parse(&with_scheme)
            .map_err(|e| refuse(&format!("{e}; expected a URL such as http://localhost:4317")))?;
        if !matches!(url.scheme(), "http" | "https") {
            return Err(refuse("the scheme must be http or https, also for gRPC"));
        }
        let has_more = url.query().is_some() || url.fragment().is_some();
        if !url.username().is_empty() || url.password().is_some() || has_more {
            return Err(refuse(
                "user, query and fragment are not supported; use OTEL_EXPORTER_OTLP_HEADERS for \
                 credentials",
            ));
        }
        if *ShownUrl::new(url.as_str()) != *url.as_str() {
            return Err(refuse("the path contains credentials; check the scheme"));
        }
        if url.host_str().is_none_or(str::is_empty) {
            return Err(refuse("the host is missing"));
        }
        Ok(url)
    }

    /// Returns the HTTP path of `signal`; `path` is that of `url` without a trailing slash.
    fn http_path(&self, url: &Url, path: &str, signal: &Signal) -> Result<String, TelemetryError> {
        let own = signal.path;
        let of_signal =
            [METRICS_PATH, TRACES_PATH, LOGS_PATH].into_iter().find(|end| path.ends_with(end));
        let base = of_signal.and_then(|end| path.strip_suffix(end)).unwrap_or(path);
        match (self.origin, of_signal) {
            (Origin::Base, Some(_)) => Err(refuse(
                url,
                format!(
                    "{BASE_ENDPOINT} is a base URL, to which {own} is appended; set it to {}, or \
                     set {} to the full URL",
                    with_path(url, base),
                    signal.endpoint,
                ),
            )),
            (Origin::Signal, Some(end)) if end != own => Err(refuse(
                url,
                format!("{} is used unchanged; set it to {}", self.by, at(url, base, own)),
            )),
            (Origin::Signal, _) => Ok(url.path().to_owned()),
            (Origin::Flag | Origin::Base, _) => Ok(format!("{base}{own}")),
        }
    }

    fn grpc_has_no_path(&self, url: &Url, variable: &str) -> TelemetryError {
        let root = with_path(url, "");
        let reason = format!(
            "{variable} is grpc, which does not use paths; write {root} as {}, or set {variable} to \
             http/protobuf",
            self.by
        );
        refuse(url, reason)
    }
}

fn refuse(url: &Url, reason: String) -> TelemetryError {
    TelemetryError::Url { url: ShownUrl::new(url.as_str()), reason }
}

/// Returns `url` with another path, without a trailing slash.
fn with_path(url: &Url, path: &str) -> String {
    let mut url = url.clone();
    url.set_path(path);
    url.as_str().trim_end_matches('/').to_owned()
}

fn at(url: &Url, base: &str, own: &str) -> String {
    with_path(url, &format!("{base}{own}"))
}
