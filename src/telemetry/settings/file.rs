//! The configuration file of OpenTelemetry's declarative configuration (`OTEL_CONFIG_FILE`).
//!
//! What the file says is translated to the standard variables, so that there is one way from a
//! setting to its effect. With a file, the process's own `OTEL_*` variables count only where it refers
//! to them.

mod part;
mod schema;
mod substitution;

use std::collections::HashMap;
use std::path::PathBuf;

use opentelemetry::{Array, KeyValue, StringValue, Value as Attribute};
use percent_encoding::{NON_ALPHANUMERIC, utf8_percent_encode};
use serde_json::Value;
use url::Url;

use super::endpoint;
use crate::environment::Environment;
use crate::input;
use crate::semconv::Conventions;
use crate::telemetry::files::{Output, Outputs};
use crate::telemetry::{TelemetryError, TraceSample};

use self::part::Part;
use self::schema::Schema;

/// The variable with the path of the file.
pub(super) const NAME: &str = "OTEL_CONFIG_FILE";

/// Time between exports, and timeout of one, in milliseconds, if the file has none.
const INTERVAL: &str = "60000";
const TIMEOUT: &str = "10000";

/// The longest timeout in milliseconds, instead of none.
const LONGEST_TIMEOUT: &str = "86400000";

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
        Self::of(&text, given).map(Some).map_err(refused)
    }

    /// Parses the content of a file. Errors name places in it, but do not quote values.
    pub(super) fn of(text: &str, given: Environment<'_>) -> Result<Self, String> {
        let node = schema::parsed(text)?;
        let document = Schema::of(&node)?.typed(&node.substituted(given)?)?;
        let seen = part::Seen::default();
        let mut declared = Self::default();
        declared.apply(&Part::root(&document, &seen))?;
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
        let _ = root.text("file_format");
        self.set_from("OTEL_SDK_DISABLED", root.text("disabled"));
        if let Some(resource) = root.get("resource") {
            self.set_from("OTEL_RESOURCE_ATTRIBUTES", resource.text("attributes_list"));
            for attribute in resource.items("attributes") {
                self.attributes.extend(typed_attribute(&attribute)?);
            }
        }
        if let Some(meters) = root.get("meter_provider") {
            self.set_from("OTEL_METRICS_EXEMPLAR_FILTER", meters.text("exemplar_filter"));
            let readers = meters.items("readers");
            let mut applied = Applied::default();
            for reader in readers.filter_map(|reader| reader.get("periodic")) {
                let Some(exporter) = reader.get("exporter") else { continue };
                let is_first = !applied.has_any();
                if applied.add(self, METRICS, &exporter)? && is_first {
                    let interval = reader.text("interval").unwrap_or_else(|| INTERVAL.to_owned());
                    self.set("OTEL_METRIC_EXPORT_INTERVAL", interval);
                }
            }
        }
        if let Some(tracers) = root.get("tracer_provider")
            && self.processors(TRACES, &tracers)?
        {
            let share = match tracers.get("sampler") {
                Some(sampler) => share(&sampler),
                // A request does not have a parent.
                None => Some(1.0),
            };
            let percent = share.filter(|share| *share > 0.0).map(|share| 100.0 * share);
            self.sample = percent
                .map(|percent| TraceSample { percent: Some(percent), ..TraceSample::default() });
        }
        if let Some(loggers) = root.get("logger_provider") {
            self.processors(LOGS, &loggers)?;
        }
        if let Some(propagator) = root.get("propagator") {
            propagator.items("composite").for_each(|it| drop(it.get("tracecontext")));
        }
        self.conventions(root);
        Ok(())
    }

    /// Applies the choice of the GenAI conventions: its own setting overrides the list.
    fn conventions(&mut self, root: &Part<'_>) {
        let general = root.get("instrumentation/development").and_then(|it| it.get("general"));
        let Some(general) = general else { return };
        let listed = general.text("stability_opt_in_list");
        self.set_from("OTEL_SEMCONV_STABILITY_OPT_IN", listed);
        if let Some(semconv) = general.get("gen_ai").and_then(|it| it.get("semconv")) {
            let is = |key| semconv.text(key).is_some_and(|it| it == "true");
            self.conventions = Some(match (is("experimental"), is("dual_emit")) {
                (true, true) => Conventions::Both,
                (true, false) => Conventions::Latest,
                (false, _) => Conventions::V1_41,
            });
        }
    }

    /// Applies the first processor that exports over OTLP, and the first that exports to a file.
    /// Returns whether there is one.
    fn processors(&mut self, signal: &Signal, provider: &Part<'_>) -> Result<bool, String> {
        let mut applied = Applied::default();
        for processor in provider.items("processors") {
            let found = processor.get("batch").or_else(|| processor.get("simple"));
            if let Some(exporter) = found.and_then(|it| it.get("exporter")) {
                applied.add(self, signal, &exporter)?;
            }
        }
        Ok(applied.has_any())
    }

    /// Applies an exporter to a file or to standard output. Returns false if it is another one.
    fn file(&mut self, signal: &Signal, exporter: &Part<'_>) -> Result<bool, String> {
        let Some(it) = exporter.get("otlp_file/development") else { return Ok(false) };
        let output = match it.text("output_stream").as_deref() {
            None | Some("stdout") => Output::Stdout,
            Some(url) => {
                let path = Url::parse(url).ok().filter(|url| url.scheme() == "file");
                let path = path.and_then(|url| url.to_file_path().ok());
                Output::File(path.ok_or_else(|| {
                    let place = it.path();
                    format!(
                        "{place}.output_stream must be stdout or a URL such as \
                         file:///var/tmp/metrics.jsonl"
                    )
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
    fn exporter(&mut self, signal: &Signal, exporter: &Part<'_>) -> bool {
        let grpc = exporter.get("otlp_grpc").map(|it| (true, it));
        let Some((is_grpc, it)) = grpc.or_else(|| exporter.get("otlp_http").map(|it| (false, it)))
        else {
            return false;
        };
        let variable = |name: &str| format!("OTEL_EXPORTER_OTLP_{}_{name}", signal.variable);
        let default = if is_grpc {
            "http://localhost:4317".to_owned()
        } else {
            format!("http://localhost:4318{}", signal.path)
        };
        self.set(variable("ENDPOINT"), it.text("endpoint").unwrap_or(default));
        let protocol = match (is_grpc, it.text("encoding").as_deref()) {
            (true, _) => "grpc",
            (false, Some("json")) => "http/json",
            (false, _) => "http/protobuf",
        };
        self.set(variable("PROTOCOL"), protocol);
        self.set_from(variable("COMPRESSION"), it.text("compression"));
        let timeout = it.text("timeout").unwrap_or_else(|| TIMEOUT.to_owned());
        let timeout = if timeout == "0" { LONGEST_TIMEOUT.to_owned() } else { timeout };
        self.set(variable("TIMEOUT"), timeout);
        self.set_from(variable("HEADERS"), headers(&it));
        let tls = it.get("tls");
        let of_tls = |key| tls.as_ref().and_then(|tls| tls.text(key));
        for (name, key) in [
            ("CERTIFICATE", "ca_file"),
            ("CLIENT_CERTIFICATE", "cert_file"),
            ("CLIENT_KEY", "key_file"),
        ] {
            self.set_from(variable(name), of_tls(key));
        }
        let insecure = of_tls("insecure").unwrap_or_else(|| "false".to_owned());
        self.set(variable("INSECURE"), insecure);
        self.set_from(variable("TEMPORALITY_PREFERENCE"), it.text("temporality_preference"));
        self.set_from(
            variable("DEFAULT_HISTOGRAM_AGGREGATION"),
            it.text("default_histogram_aggregation"),
        );
        true
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
        if !self.otlp && declared.exporter(signal, exporter) {
            self.otlp = true;
            return Ok(true);
        }
        let is_file = !self.file && declared.file(signal, exporter)?;
        self.file |= is_file;
        Ok(is_file)
    }
}

/// A signal in the names of variables, and its path over HTTP.
struct Signal {
    variable: &'static str,
    path: &'static str,
}

const METRICS: &Signal = &Signal { variable: "METRICS", path: endpoint::METRICS_PATH };
const TRACES: &Signal = &Signal { variable: "TRACES", path: endpoint::TRACES_PATH };
const LOGS: &Signal = &Signal { variable: "LOGS", path: endpoint::LOGS_PATH };

/// Returns the headers of an exporter as a variable has them: those in the list, then those with names
/// of their own, which override them.
fn headers(exporter: &Part<'_>) -> Option<String> {
    let listed = exporter.text("headers_list");
    let single = exporter.items("headers").filter_map(|header| {
        let (name, value) = (header.text("name")?, header.text("value")?);
        let encoded = |text: &str| utf8_percent_encode(text, NON_ALPHANUMERIC).to_string();
        Some(format!("{}={}", encoded(&name), encoded(&value)))
    });
    let all: Vec<String> = listed.into_iter().chain(single).collect();
    (!all.is_empty()).then(|| all.join(","))
}

/// Returns the share of the traces without a parent that a sampler keeps; `None` if it is another kind
/// of sampler.
fn share(sampler: &Part<'_>) -> Option<f64> {
    let ratio = |key: &str| {
        let ratio = sampler.get(key)?.text("ratio");
        ratio.map_or(Some(1.0), |ratio| ratio.parse().ok())
    };
    let of_root = |key: &str| {
        let root = sampler.get(key)?.get("root");
        root.map_or(Some(1.0), |root| share(&root))
    };
    (sampler.get("always_on").map(|_| 1.0))
        .or_else(|| sampler.get("always_off").map(|_| 0.0))
        .or_else(|| ratio("trace_id_ratio_based"))
        .or_else(|| ratio("probability/development"))
        .or_else(|| ratio("probability"))
        .or_else(|| of_root("parent_based"))
        .or_else(|| of_root("parent_threshold"))
        .or_else(|| share(&sampler.get("composite/development")?))
}

/// Returns a resource attribute; `None` without a value.
fn typed_attribute(part: &Part<'_>) -> Result<Option<KeyValue>, String> {
    let Some(name) = part.text("name") else { return Ok(None) };
    let kind = part.text("type").unwrap_or_else(|| "string".to_owned());
    let refuse = || format!("{}.value is not a value of the type {kind}", part.path());
    let Some(value) = part.value("value").filter(|value| !value.is_null()) else { return Ok(None) };
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
