//! Settings of the export, from flags and the standard `OTEL_*` variables.
//!
//! Only this module reads them.

mod endpoint;
mod file;

use std::borrow::Cow;
use std::collections::{BTreeMap, HashMap};
use std::path::PathBuf;
use std::sync::Once;
use std::time::Duration;

use http::{HeaderMap, HeaderName, HeaderValue};
use opentelemetry::KeyValue;
use percent_encoding::percent_decode_str;
use url::Url;

use base::environment::Environment;
use base::input;
use base::semconv::Conventions;
use base::setting::Named as _;

use super::exemplars::ExemplarFilter;
use super::files::{Output, Outputs};
use super::resource::ci;
use super::{Config, TelemetryError, Temporality, TraceSample};

use self::endpoint::{BASE_ENDPOINT, LOGS_PATH, METRICS_PATH, TRACES_PATH};
use self::file::Declared;

/// Shortest accepted interval between exports, in seconds.
const SHORTEST: f64 = 0.001;
/// Longest accepted interval between exports, in seconds.
const LONGEST: f64 = 86_400.0;

/// The resolved settings.
pub(super) struct Settings {
    /// The collector for metrics, if any.
    pub(super) destination: Option<Destination>,
    /// The collector for traces, if traces are exported.
    pub(super) traces: Option<Destination>,
    /// The collector for events, if they are exported.
    pub(super) logs: Option<Destination>,
    /// The files to which signals are exported, too.
    pub(super) outputs: Outputs,
    /// Time between exports.
    pub(super) interval: Duration,
    /// Whether histograms are exponential.
    pub(super) exponential: bool,
    /// What exported counters and histograms cover.
    pub(super) temporality: Temporality,
    /// The GenAI conventions whose names are exported.
    pub(super) conventions: Conventions,
    /// The requests whose values may become exemplars.
    pub(super) exemplars: ExemplarFilter,
    /// `OTEL_SERVICE_NAME`.
    pub(super) service_name: Option<String>,
    /// `OTEL_RESOURCE_ATTRIBUTES`, and the resource attributes of the configuration file.
    pub(super) resource_attributes: Vec<KeyValue>,
    /// Places in the configuration file without an effect.
    pub(super) ignored: Vec<String>,
    /// Attributes of the CI job, if aiperf runs in one.
    pub(super) ci: BTreeMap<String, String>,
    /// `TRACEPARENT` and `TRACESTATE`: the span that started the process.
    pub(super) parent: (Option<String>, Option<String>),
}

/// A certificate and its key, in PEM.
type ClientPem = (Vec<u8>, Vec<u8>);

/// A collector and how to reach it. Not `Debug`, since it contains secrets.
pub(super) struct Destination {
    /// The URL: with its path for HTTP, without one for gRPC. Never contains credentials or a
    /// query.
    pub(super) url: Url,
    /// The transport.
    pub(super) protocol: Protocol,
    /// Headers of every export; their values are secret.
    pub(super) headers: HeaderMap,
    /// Whether exports are compressed.
    pub(super) gzip: bool,
    /// Timeout of an export, including retries.
    pub(super) timeout: Duration,
    /// Certificate authorities to trust instead of the system's, in PEM.
    pub(super) authorities: Option<Vec<u8>>,
    /// The client's certificate and its key, in PEM.
    pub(super) client: Option<ClientPem>,
}

/// OTLP's transports.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Protocol {
    /// `grpc`
    Grpc,
    /// `http/protobuf`
    Http,
    /// `http/json`
    HttpJson,
}

impl Settings {
    /// Resolves `config` and the variables that are `given`, or the file that one of them names; flags
    /// take precedence.
    pub(super) fn resolve(config: &Config, given: Environment<'_>) -> Result<Self, TelemetryError> {
        let Some(declared) = Declared::read(given)? else {
            return Self::new(config, given, Outputs::default());
        };
        let lookup = |name: &str| declared.variable(name, given);
        let outputs = declared.outputs.clone();
        let found = Self::new(config, Environment::new(&lookup), outputs);
        let mut settings = found.map_err(|error| {
            let reason = format!("has a setting that is not valid: {error}");
            TelemetryError::Setting { name: file::NAME, reason }
        })?;
        settings.resource_attributes.extend(declared.attributes);
        settings.ignored = declared.ignored;
        if let (None, Some(conventions)) = (config.conventions, declared.conventions) {
            settings.conventions = conventions;
        }
        Ok(settings)
    }

    fn new(
        config: &Config,
        given: Environment<'_>,
        declared: Outputs,
    ) -> Result<Self, TelemetryError> {
        let conventions = conventions(config, given);
        let destination = Destination::find(&METRICS, config, given)?;
        let has_traces = config.trace_sample.is_some() || config.passes_server_spans;
        let traces = if has_traces { Destination::find(&TRACES, config, given)? } else { None };
        let logs = events(config, given)?;
        let outputs = outputs(config, given).or(declared);
        if config.trace_sample.is_some() && traces.is_none() && outputs.traces.is_none() {
            return Err(no_collector());
        }
        if destination.is_none() && traces.is_none() && logs.is_none() && outputs.is_empty() {
            return Ok(Self {
                destination,
                traces,
                logs,
                outputs,
                interval: Duration::ZERO,
                exponential: config.exponential_histograms.unwrap_or(false),
                temporality: Temporality::Cumulative,
                conventions,
                exemplars: ExemplarFilter::AlwaysOff,
                service_name: None,
                resource_attributes: Vec::new(),
                ignored: Vec::new(),
                ci: BTreeMap::new(),
                parent: (None, None),
            });
        }
        Ok(Self {
            destination,
            traces,
            logs,
            outputs,
            interval: duration(
                config.interval_seconds,
                "AIPERF_OTEL_FLUSH_INTERVAL_SECONDS",
                &["OTEL_METRIC_EXPORT_INTERVAL"],
                given,
            )?,
            exponential: exponential(config, given)?,
            temporality: temporality(config, given)?,
            conventions,
            exemplars: exemplars(given)?,
            service_name: given.trimmed("OTEL_SERVICE_NAME"),
            resource_attributes: pairs(given, "OTEL_RESOURCE_ATTRIBUTES")?
                .into_iter()
                .map(|(key, value)| KeyValue::new(key, value))
                .collect(),
            ignored: Vec::new(),
            ci: ci::ci_job(given),
            parent: (given.trimmed("TRACEPARENT"), given.trimmed("TRACESTATE")),
        })
    }
}

/// Warns about places in the configuration file without an effect, once in a process.
pub(super) fn warn_of(ignored: &[String]) {
    static WARNED: Once = Once::new();
    if !ignored.is_empty() {
        WARNED.call_once(|| {
            tracing::warn!("{}: aiperf does not apply {}", file::NAME, ignored.join(", "));
        });
    }
}

/// Checks the content of a configuration file.
pub(super) fn check_file(text: &str, given: Environment<'_>) -> Result<(), String> {
    Declared::parse(text, given).map(drop)
}

/// Returns the requests that the sampler of the configuration file selects, if there is a file that
/// exports traces.
///
/// # Errors
///
/// As [`Declared::read`].
pub(super) fn declared_sample(
    given: Environment<'_>,
) -> Result<Option<TraceSample>, TelemetryError> {
    Ok(Declared::read(given)?.and_then(|declared| declared.sample))
}

/// Returns the destination of events, which are optional: `OTEL_LOGS_EXPORTER=none` turns them off,
/// also with the flag, and general variables that only suit the other signals are not an error.
fn events(config: &Config, given: Environment<'_>) -> Result<Option<Destination>, TelemetryError> {
    if given.trimmed(LOGS.exporter).is_some_and(|value| value.eq_ignore_ascii_case("none")) {
        return Ok(None);
    }
    match Destination::find(&LOGS, config, given) {
        Err(TelemetryError::Setting { name, .. }) if !name.contains("_LOGS_") => Ok(None),
        found => found,
    }
}

/// Returns the files of the signals: those of the flag, in which `-` is standard output, or else those
/// whose variable, such as `OTEL_TRACES_EXPORTER`, has `otlp/stdout`.
fn outputs(config: &Config, given: Environment<'_>) -> Outputs {
    if let Some(path) = &config.files {
        let is_stdout = path.as_os_str() == "-";
        let output = if is_stdout { Output::Stdout } else { Output::Directory(path.clone()) };
        return Outputs::all(&output);
    }
    let stdout_for = |signal| endpoint::is_by_stdout(signal, given).then_some(Output::Stdout);
    Outputs { metrics: stdout_for(&METRICS), traces: stdout_for(&TRACES), logs: stdout_for(&LOGS) }
}

/// The variables of a signal, which take precedence over those for all signals.
struct Signal {
    endpoint: &'static str,
    /// The variable that selects exporters: `otlp` or `none`.
    exporter: &'static str,
    insecure: [&'static str; 2],
    protocol: [&'static str; 2],
    compression: [&'static str; 2],
    headers: [&'static str; 2],
    timeout: [&'static str; 2],
    certificate: [&'static str; 2],
    client_certificate: [&'static str; 2],
    client_key: [&'static str; 2],
    /// Path over HTTP, relative to the base.
    path: &'static str,
}

/// Composes the names of a signal's variables.
macro_rules! signal {
    ($signal:literal, $path:expr) => {
        signal!($signal, $path,
            insecure: "INSECURE",
            protocol: "PROTOCOL",
            compression: "COMPRESSION",
            headers: "HEADERS",
            timeout: "TIMEOUT",
            certificate: "CERTIFICATE",
            client_certificate: "CLIENT_CERTIFICATE",
            client_key: "CLIENT_KEY",
        )
    };
    ($signal:literal, $path:expr, $($member:ident: $name:literal,)+) => {
        Signal {
            endpoint: concat!("OTEL_EXPORTER_OTLP_", $signal, "_ENDPOINT"),
            exporter: concat!("OTEL_", $signal, "_EXPORTER"),
            path: $path,
            $($member: [
                concat!("OTEL_EXPORTER_OTLP_", $signal, "_", $name),
                concat!("OTEL_EXPORTER_OTLP_", $name),
            ],)+
        }
    };
}

const METRICS: Signal = signal!("METRICS", METRICS_PATH);
const TRACES: Signal = signal!("TRACES", TRACES_PATH);
const LOGS: Signal = signal!("LOGS", LOGS_PATH);

fn no_collector() -> TelemetryError {
    TelemetryError::Setting {
        name: "--trace-sample",
        reason: format!(
            "requires a collector or files; use --otel-url or --otel-file, or set {BASE_ENDPOINT} \
             and do not disable traces with OTEL_SDK_DISABLED or OTEL_TRACES_EXPORTER"
        ),
    }
}

impl Destination {
    /// Returns the destination of `signal`, if one is configured.
    fn find(
        signal: &'static Signal,
        config: &Config,
        given: Environment<'_>,
    ) -> Result<Option<Self>, TelemetryError> {
        let found =
            endpoint::find(signal, config.url.as_ref().map(|url| url.expose().as_str()), given)?;
        let Some((url, protocol)) = found else { return Ok(None) };
        Ok(Some(Self {
            url,
            protocol,
            headers: headers(signal, given)?,
            gzip: gzip(signal, given)?,
            timeout: duration(
                config.timeout_seconds,
                "AIPERF_OTEL_REQUEST_TIMEOUT_SECONDS",
                &signal.timeout,
                given,
            )?,
            authorities: file(given, &signal.certificate)?,
            client: client(signal, given)?,
        }))
    }

    /// Returns whether one connection can serve both: the same server, reached in the same way.
    pub(super) fn is_reached_like(&self, other: &Self) -> bool {
        self.url.origin() == other.url.origin()
            && self.protocol == other.protocol
            && self.timeout == other.timeout
            && self.authorities == other.authorities
            && self.client == other.client
    }
}

/// Returns the temporality, from the flag or else the variable.
fn temporality(config: &Config, given: Environment<'_>) -> Result<Temporality, TelemetryError> {
    const NAME: &str = "OTEL_EXPORTER_OTLP_METRICS_TEMPORALITY_PREFERENCE";
    if let Some(temporality) = config.temporality {
        return Ok(temporality);
    }
    let Some(value) = given.trimmed(NAME) else { return Ok(Temporality::default()) };
    Temporality::named(&value).ok_or_else(|| TelemetryError::Setting {
        name: NAME,
        reason: format!("must be cumulative, delta or lowmemory, got {value:?}"),
    })
}

/// Returns the GenAI conventions, from the flag or else the variable, which lists what instruments
/// of several kinds have opted into.
fn conventions(config: &Config, given: Environment<'_>) -> Conventions {
    let listed = given.trimmed("OTEL_SEMCONV_STABILITY_OPT_IN").unwrap_or_default();
    let is_latest = listed.split(',').any(|one| one.trim() == "gen_ai_latest_experimental");
    let by_variable = if is_latest { Conventions::Latest } else { Conventions::default() };
    config.conventions.unwrap_or(by_variable)
}

/// Returns the filter of exemplars.
fn exemplars(given: Environment<'_>) -> Result<ExemplarFilter, TelemetryError> {
    const NAME: &str = "OTEL_METRICS_EXEMPLAR_FILTER";
    let Some(value) = given.trimmed(NAME) else { return Ok(ExemplarFilter::default()) };
    ExemplarFilter::named(&value).ok_or_else(|| TelemetryError::Setting {
        name: NAME,
        reason: format!("must be always_on, always_off or trace_based, got {value:?}"),
    })
}

/// Returns whether histograms are exponential, from the flag or else the variable.
fn exponential(config: &Config, given: Environment<'_>) -> Result<bool, TelemetryError> {
    const NAME: &str = "OTEL_EXPORTER_OTLP_METRICS_DEFAULT_HISTOGRAM_AGGREGATION";
    let Some(value) = given.trimmed(NAME).filter(|_| config.exponential_histograms.is_none())
    else {
        return Ok(config.exponential_histograms.unwrap_or(false));
    };
    match value.to_ascii_lowercase().as_str() {
        "explicit_bucket_histogram" => Ok(false),
        "base2_exponential_bucket_histogram" => Ok(true),
        _ => Err(TelemetryError::Setting {
            name: NAME,
            reason: format!(
                "must be explicit_bucket_histogram or \
                 base2_exponential_bucket_histogram, got {value:?}"
            ),
        }),
    }
}

fn gzip(signal: &'static Signal, given: Environment<'_>) -> Result<bool, TelemetryError> {
    let Some((name, value)) = first(given, &signal.compression) else { return Ok(false) };
    match value.to_ascii_lowercase().as_str() {
        "gzip" => Ok(true),
        "none" => Ok(false),
        _ => Err(TelemetryError::Setting {
            name,
            reason: format!("must be gzip or none, got {value:?}"),
        }),
    }
}

fn headers(signal: &'static Signal, given: Environment<'_>) -> Result<HeaderMap, TelemetryError> {
    let Some((variable, _)) = first(given, &signal.headers) else { return Ok(HeaderMap::new()) };
    let mut headers = HeaderMap::new();
    for (index, (name, value)) in pairs(given, variable)?.iter().enumerate() {
        // Neither name nor value is quoted, since a mistyped list may contain a secret in either.
        let refuse = |what: &str| TelemetryError::Setting {
            name: variable,
            reason: format!("has a {what} at position {} that is not valid in HTTP", index + 1),
        };
        let name: HeaderName = name.to_ascii_lowercase().parse().map_err(|_| refuse("name"))?;
        let mut value = HeaderValue::from_str(value).map_err(|_| refuse("value"))?;
        value.set_sensitive(true);
        headers.insert(name, value);
    }
    Ok(headers)
}

/// Parses `key=value,key=value` with percent-encoding, the format of `OTEL_RESOURCE_ATTRIBUTES` and
/// the header variables. A later key overrides an earlier one.
fn pairs(
    given: Environment<'_>,
    name: &'static str,
) -> Result<Vec<(String, String)>, TelemetryError> {
    let text = given.trimmed(name).unwrap_or_default();
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
                reason: format!("does not have a key=value pair at position {}", index + 1),
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

/// Decodes percent-encoding; `None` if the result is not UTF-8. A `%` that does not begin an escape
/// is kept.
fn percent_decode(text: &str) -> Option<String> {
    percent_decode_str(text).decode_utf8().ok().map(Cow::into_owned)
}

/// Returns the flag's seconds, unless its own variable `ours` is unset and one of the `standard`
/// variables, in milliseconds, is set.
fn duration(
    seconds: f64,
    ours: &'static str,
    standard: &'static [&'static str],
    given: Environment<'_>,
) -> Result<Duration, TelemetryError> {
    let (name, seconds) = match first(given, standard) {
        Some((name, value)) if given.trimmed(ours).is_none() => {
            let millis: Result<u32, _> = value.parse();
            let millis = millis.map_err(|_| TelemetryError::Setting {
                name,
                reason: format!("must be a number of milliseconds, got {value:?}"),
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
        reason: format!("must be between {SHORTEST} and {LONGEST} s, got {seconds} s"),
    })
}

/// Reads a certificate and its key, which must be set together.
fn client(
    signal: &'static Signal,
    given: Environment<'_>,
) -> Result<Option<ClientPem>, TelemetryError> {
    let half = |have: &[&'static str; 2], lacks: &[&'static str; 2]| {
        let name = first(given, have).map_or(have[1], |(name, _)| name);
        let reason = format!("requires {}; set both or neither", lacks[1]);
        Err(TelemetryError::Setting { name, reason })
    };
    match (file(given, &signal.client_certificate)?, file(given, &signal.client_key)?) {
        (Some(certificate), Some(key)) => Ok(Some((certificate, key))),
        (None, None) => Ok(None),
        (Some(_), None) => half(&signal.client_certificate, &signal.client_key),
        (None, Some(_)) => half(&signal.client_key, &signal.client_certificate),
    }
}

fn file(given: Environment<'_>, names: &[&'static str]) -> Result<Option<Vec<u8>>, TelemetryError> {
    let Some((name, path)) = first(given, names) else { return Ok(None) };
    let path = PathBuf::from(path);
    match input::bytes(&path, input::MAX_SETTINGS_BYTES) {
        Ok(content) => Ok(Some(content)),
        Err(source) => Err(TelemetryError::File { name, path, source }),
    }
}

/// Returns the first of `names` that is set, with its value.
fn first(given: Environment<'_>, names: &[&'static str]) -> Option<(&'static str, String)> {
    names.iter().find_map(|name| Some((*name, given.trimmed(name)?)))
}

#[cfg(test)]
mod tests;
