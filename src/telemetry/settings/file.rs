//! The configuration file of OpenTelemetry's declarative configuration (`OTEL_CONFIG_FILE`).
//!
//! What the file says is translated to the standard variables, so that there is one way from a
//! setting to its effect. With a file, the process's own `OTEL_*` variables count only where it refers
//! to them.

mod keys;
mod node;
mod part;
mod substitution;

use std::collections::HashMap;
use std::path::PathBuf;

use opentelemetry::{Array, KeyValue, StringValue, Value as Attribute};
use percent_encoding::{NON_ALPHANUMERIC, utf8_percent_encode};
use serde_json::Value;
use url::Url;

use base::environment::Environment;
use base::input;
use base::semconv::Conventions;

use super::endpoint;
use crate::files::{Output, Outputs};
use crate::{TelemetryError, TraceSample};

use self::keys::{
    ATTRIBUTE, BATCH, FILE, GENERAL, GRPC, GRPC_TLS, HTTP, HTTP_TLS, LOGGER_PROVIDER,
    METER_PROVIDER, METRIC_FILE, METRIC_GRPC, METRIC_HTTP, PARENT_BASED, PERIODIC, PROPAGATOR,
    RESOURCE, SEMCONV, TRACER_PROVIDER,
};
use self::node::Node;
use self::part::{Keys, Part};

/// The variable with the path of the file.
pub(super) const NAME: &str = "OTEL_CONFIG_FILE";

/// Time between exports, and timeout of one, in milliseconds, if the file has none.
const INTERVAL: &str = "60000";
const TIMEOUT: &str = "10000";

/// The longest timeout in milliseconds, instead of none.
const LONGEST_TIMEOUT: &str = "86400000";

const TEMPORALITIES: [&str; 3] = ["cumulative", "delta", "low_memory"];
const AGGREGATIONS: [&str; 2] = ["explicit_bucket_histogram", "base2_exponential_bucket_histogram"];
const ATTRIBUTE_TYPES: [&str; 8] =
    ["string", "bool", "int", "double", "string_array", "bool_array", "int_array", "double_array"];

/// The settings in a file.
#[derive(Debug, Default)]
pub(super) struct Declared {
    /// The standard variables with the same meaning. Values may be secret.
    variables: HashMap<String, String>,
    /// The resource attributes that have a type.
    pub(super) attributes: Vec<KeyValue>,
    /// The requests that its sampler selects; `None` if traces are not exported.
    pub(super) sample: Option<TraceSample>,
    /// The GenAI conventions, if it has a setting of their own.
    pub(super) conventions: Option<Conventions>,
    /// The files of the signals.
    pub(super) outputs: Outputs,
    /// The settings without an effect here.
    pub(super) ignored: Vec<String>,
}

impl Declared {
    /// Reads the file that the variable in `given` names; `None` if it is not set.
    ///
    /// # Errors
    ///
    /// If the file cannot be read, or does not have the schema of its version.
    pub(super) fn read(given: Environment<'_>) -> Result<Option<Self>, TelemetryError> {
        let Some(path) = given.trimmed(NAME).map(PathBuf::from) else { return Ok(None) };
        let text = input::text(&path, input::MAX_SETTINGS_BYTES)
            .map_err(|source| TelemetryError::File { name: NAME, path: path.clone(), source })?;
        let refused = |reason| TelemetryError::Setting {
            name: NAME,
            reason: format!("{}: {reason}", path.display()),
        };
        Self::parse(&text, given).map(Some).map_err(refused)
    }

    /// Parses the content of a file. Errors name places in it, but do not quote values.
    pub(super) fn parse(text: &str, given: Environment<'_>) -> Result<Self, String> {
        let written = node::parsed(text)?;
        check_version(&written)?;
        let document = written.substituted(given)?;
        let seen = part::Seen::default();
        let mut declared = Self::default();
        declared.apply(&Part::root(&document, &seen)?)?;
        declared.ignored = seen.rest(&document);
        Ok(declared)
    }

    /// Returns the value of a variable: of a standard one only from the file.
    pub(super) fn variable(&self, name: &str, given: Environment<'_>) -> Option<String> {
        if name.starts_with("OTEL_") { self.variables.get(name).cloned() } else { given.get(name) }
    }

    fn set(&mut self, name: impl Into<String>, value: impl Into<String>) {
        self.variables.insert(name.into(), value.into());
    }

    fn set_from(&mut self, name: impl Into<String>, part: Option<String>) {
        if let Some(value) = part {
            self.set(name, value);
        }
    }

    fn apply(&mut self, root: &Part<'_>) -> Result<(), String> {
        root.text("file_format")?;
        self.set_from("OTEL_SDK_DISABLED", root.truth("disabled")?.map(|it| it.to_string()));
        if let Some(resource) = root.get("resource", RESOURCE)? {
            self.set_from("OTEL_RESOURCE_ATTRIBUTES", resource.text("attributes_list")?);
            for attribute in resource.items("attributes", ATTRIBUTE)? {
                self.attributes.extend(typed_attribute(&attribute)?);
            }
        }
        if let Some(meters) = root.get("meter_provider", METER_PROVIDER)? {
            self.meters(&meters)?;
        }
        if let Some(tracers) = root.get("tracer_provider", TRACER_PROVIDER)?
            && self.processors(TRACES, &tracers)?
        {
            let share = match tracers.get("sampler", Keys::One)? {
                Some(sampler) => share(&sampler)?,
                // A request does not have a parent.
                None => Some(1.0),
            };
            let percent = share.filter(|share| *share > 0.0).map(|share| 100.0 * share);
            self.sample = percent
                .map(|percent| TraceSample { percent: Some(percent), ..TraceSample::default() });
        }
        if let Some(loggers) = root.get("logger_provider", LOGGER_PROVIDER)? {
            self.processors(LOGS, &loggers)?;
        }
        if let Some(propagator) = root.get("propagator", PROPAGATOR)? {
            for each in propagator.items("composite", Keys::One)? {
                each.get("tracecontext", Keys::Of(""))?;
            }
        }
        self.conventions(root)
    }

    /// Applies the first reader that exports over OTLP, and the first that exports to a file.
    fn meters(&mut self, meters: &Part<'_>) -> Result<(), String> {
        let filters = ["always_on", "always_off", "trace_based"];
        self.set_from("OTEL_METRICS_EXEMPLAR_FILTER", meters.choice("exemplar_filter", &filters)?);
        let mut applied = Applied::default();
        for reader in meters.required_items("readers")? {
            let Some(reader) = reader.get("periodic", PERIODIC)? else { continue };
            let exporter = reader.get("exporter", Keys::One)?;
            let exporter = reader.required("exporter", exporter)?;
            let is_first = !applied.has_any();
            if applied.add(self, METRICS, &exporter)? && is_first {
                let interval = reader.millis("interval")?.unwrap_or_else(|| INTERVAL.to_owned());
                self.set("OTEL_METRIC_EXPORT_INTERVAL", interval);
            }
        }
        Ok(())
    }

    /// Applies the choice of the GenAI conventions: its own setting overrides the list.
    fn conventions(&mut self, root: &Part<'_>) -> Result<(), String> {
        let instrumentation = root.get("instrumentation/development", Keys::Any)?;
        let Some(instrumentation) = instrumentation else { return Ok(()) };
        let Some(general) = instrumentation.get("general", GENERAL)? else { return Ok(()) };
        let listed = general.text("stability_opt_in_list")?;
        self.set_from("OTEL_SEMCONV_STABILITY_OPT_IN", listed);
        let Some(gen_ai) = general.get("gen_ai", Keys::Of("semconv"))? else { return Ok(()) };
        if let Some(semconv) = gen_ai.get("semconv", SEMCONV)? {
            let is = |key| Ok::<_, String>(semconv.truth(key)?.unwrap_or_default());
            self.conventions = Some(match (is("experimental")?, is("dual_emit")?) {
                (true, true) => Conventions::Both,
                (true, false) => Conventions::Latest,
                (false, _) => Conventions::V1_41,
            });
        }
        Ok(())
    }

    /// Applies the first processor that exports over OTLP, and the first that exports to a file.
    /// Returns whether there is one.
    fn processors(&mut self, signal: &Signal, provider: &Part<'_>) -> Result<bool, String> {
        let mut applied = Applied::default();
        for processor in provider.required_items("processors")? {
            let batch = processor.get("batch", BATCH)?;
            let simple = processor.get("simple", Keys::Of("exporter"))?;
            let Some(found) = batch.or(simple) else { continue };
            let exporter = found.get("exporter", Keys::One)?;
            applied.add(self, signal, &found.required("exporter", exporter)?)?;
        }
        Ok(applied.has_any())
    }

    /// Applies an exporter to a file or to standard output. Returns false if it is another one.
    fn file(&mut self, signal: &Signal, exporter: &Part<'_>) -> Result<bool, String> {
        let Some(it) = exporter.get("otlp_file/development", signal.file)? else {
            return Ok(false);
        };
        let output = match it.text("output_stream")?.as_deref() {
            None | Some("stdout") => Output::Stdout,
            Some(url) => {
                let path = Url::parse(url).ok().filter(|url| url.scheme() == "file");
                let path = path.and_then(|url| url.to_file_path().ok());
                Output::File(path.ok_or_else(|| {
                    let reason = "must be stdout or a URL such as file:///var/tmp/metrics.jsonl";
                    it.wrong_member("output_stream", reason)
                })?)
            }
        };
        let own = match signal.variable {
            "METRICS" => &mut self.outputs.metrics,
            "TRACES" => &mut self.outputs.traces,
            _ => &mut self.outputs.logs,
        };
        *own = Some(output);
        Ok(true)
    }

    /// Applies an exporter over OTLP. Returns false if it is another one.
    fn exporter(&mut self, signal: &Signal, exporter: &Part<'_>) -> Result<bool, String> {
        let grpc = exporter.get("otlp_grpc", signal.grpc)?;
        let is_grpc = grpc.is_some();
        let http = exporter.get("otlp_http", signal.http)?;
        let Some(it) = grpc.or(http) else { return Ok(false) };
        let variable = |name: &str| format!("OTEL_EXPORTER_OTLP_{}_{name}", signal.variable);
        let default = if is_grpc {
            "http://localhost:4317".to_owned()
        } else {
            format!("http://localhost:4318{}", signal.path)
        };
        self.set(variable("ENDPOINT"), it.text("endpoint")?.unwrap_or(default));
        let protocol = match (is_grpc, it.choice("encoding", &["protobuf", "json"])?.as_deref()) {
            (true, _) => "grpc",
            (false, Some("json")) => "http/json",
            (false, _) => "http/protobuf",
        };
        self.set(variable("PROTOCOL"), protocol);
        self.set_from(variable("COMPRESSION"), it.text("compression")?);
        let timeout = it.millis("timeout")?.unwrap_or_else(|| TIMEOUT.to_owned());
        let timeout = if timeout == "0" { LONGEST_TIMEOUT.to_owned() } else { timeout };
        self.set(variable("TIMEOUT"), timeout);
        self.set_from(variable("HEADERS"), headers(&it)?);
        let mut is_insecure = false;
        if let Some(tls) = it.get("tls", if is_grpc { GRPC_TLS } else { HTTP_TLS })? {
            is_insecure = tls.truth("insecure")?.unwrap_or_default();
            for (name, key) in [
                ("CERTIFICATE", "ca_file"),
                ("CLIENT_CERTIFICATE", "cert_file"),
                ("CLIENT_KEY", "key_file"),
            ] {
                self.set_from(variable(name), tls.text(key)?);
            }
        }
        self.set(variable("INSECURE"), is_insecure.to_string());
        let preference = it.choice("temporality_preference", &TEMPORALITIES)?;
        self.set_from(variable("TEMPORALITY_PREFERENCE"), preference);
        let aggregation = it.choice("default_histogram_aggregation", &AGGREGATIONS)?;
        self.set_from(variable("DEFAULT_HISTOGRAM_AGGREGATION"), aggregation);
        Ok(true)
    }
}

/// The exporters of a signal that are applied: one over OTLP, and one to a file.
#[derive(Default)]
struct Applied {
    otlp: bool,
    file: bool,
}

impl Applied {
    const fn has_any(&self) -> bool {
        self.otlp || self.file
    }

    /// Applies the exporter to `declared`, unless one of its kind is. Returns whether it did.
    fn add(
        &mut self,
        declared: &mut Declared,
        signal: &Signal,
        exporter: &Part<'_>,
    ) -> Result<bool, String> {
        if !self.otlp && declared.exporter(signal, exporter)? {
            self.otlp = true;
            return Ok(true);
        }
        let is_file = !self.file && declared.file(signal, exporter)?;
        self.file |= is_file;
        Ok(is_file)
    }
}

/// Returns a reason, if the document does not have a known version: a later minor version is read as the
/// newest one.
fn check_version(document: &Node) -> Result<(), String> {
    let Some(Node::Scalar(Value::String(format))) = document.member("file_format") else {
        return Err("requires file_format: \"1.0\", in quotes".to_owned());
    };
    match format.strip_prefix("1.").and_then(|minor| minor.parse::<u32>().ok()) {
        Some(0 | 1) => {}
        Some(_) => tracing::warn!("{NAME}: aiperf reads the later file_format as 1.1"),
        None => return Err("file_format must be \"1.0\" or \"1.1\"".to_owned()),
    }
    Ok(())
}

/// A signal in the names of variables, its path over HTTP, and the keys of its exporters.
struct Signal {
    variable: &'static str,
    path: &'static str,
    grpc: Keys,
    http: Keys,
    file: Keys,
}

const METRICS: &Signal = &Signal {
    variable: "METRICS",
    path: endpoint::METRICS_PATH,
    grpc: METRIC_GRPC,
    http: METRIC_HTTP,
    file: METRIC_FILE,
};
const TRACES: &Signal =
    &Signal { variable: "TRACES", path: endpoint::TRACES_PATH, grpc: GRPC, http: HTTP, file: FILE };
const LOGS: &Signal = &Signal { variable: "LOGS", path: endpoint::LOGS_PATH, ..*TRACES };

/// Returns the headers of an exporter as a variable has them: those in the list, then those with names
/// of their own, which override them.
fn headers(exporter: &Part<'_>) -> Result<Option<String>, String> {
    let mut all: Vec<String> = exporter.text("headers_list")?.into_iter().collect();
    let encoded = |text: &str| utf8_percent_encode(text, NON_ALPHANUMERIC).to_string();
    for header in exporter.items("headers", Keys::Of("name value"))? {
        let name = header.required("name", header.text("name")?)?;
        if let Some(value) = header.text("value")? {
            all.push(format!("{}={}", encoded(&name), encoded(&value)));
        }
    }
    Ok((!all.is_empty()).then(|| all.join(",")))
}

/// Returns the share of the traces without a parent that a sampler keeps; `None` if it is another kind
/// of sampler.
fn share(sampler: &Part<'_>) -> Result<Option<f64>, String> {
    let none = Keys::Of("");
    if sampler.get("always_on", none)?.is_some() {
        return Ok(Some(1.0));
    }
    if sampler.get("always_off", none)?.is_some() {
        return Ok(Some(0.0));
    }
    for key in ["trace_id_ratio_based", "probability/development", "probability"] {
        if let Some(ratio) = sampler.get(key, Keys::Of("ratio"))? {
            return Ok(Some(ratio.share("ratio")?.unwrap_or(1.0)));
        }
    }
    for (key, keys) in [("parent_based", PARENT_BASED), ("parent_threshold", Keys::Of("root"))] {
        if let Some(parent) = sampler.get(key, keys)? {
            return parent.get("root", Keys::One)?.map_or(Ok(Some(1.0)), |root| share(&root));
        }
    }
    sampler.get("composite/development", Keys::One)?.map_or(Ok(None), |it| share(&it))
}

/// Returns a resource attribute; `None` without a value.
fn typed_attribute(part: &Part<'_>) -> Result<Option<KeyValue>, String> {
    let name = part.required("name", part.text("name")?)?;
    let kind = part.choice("type", &ATTRIBUTE_TYPES)?.unwrap_or_else(|| "string".to_owned());
    let refuse = || part.wrong_member("value", &format!("is not a value of the type {kind}"));
    let value = &part.value("value")?;
    if value.is_null() {
        return Ok(None);
    }
    let texts = |values: &[Value]| values.iter().map(part::plain).map(StringValue::from).collect();
    let number = |value: &Value| value.as_f64().or_else(|| value.as_str()?.parse().ok());
    let whole = |value: &Value| value.as_i64().or_else(|| value.as_str()?.parse().ok());
    let truth = |value: &Value| value.as_bool().or_else(|| value.as_str()?.parse().ok());
    let list = |values: &Value| -> Option<Array> {
        let values = values.as_array()?;
        Some(match kind.as_str() {
            "string_array" => Array::String(texts(values)),
            "bool_array" => Array::Bool(values.iter().map(truth).collect::<Option<_>>()?),
            "int_array" => Array::I64(values.iter().map(whole).collect::<Option<_>>()?),
            "double_array" => Array::F64(values.iter().map(number).collect::<Option<_>>()?),
            _ => return None,
        })
    };
    let found = match kind.as_str() {
        "string" if !value.is_array() => Some(Attribute::String(part::plain(value).into())),
        "bool" => truth(value).map(Attribute::Bool),
        "int" => whole(value).map(Attribute::I64),
        "double" => number(value).map(Attribute::F64),
        _ => list(value).map(Attribute::Array),
    };
    Ok(Some(KeyValue::new(name, found.ok_or_else(refuse)?)))
}

#[cfg(test)]
mod tests;
