//! The schemas in `docs/schema`, which the files of every run must match.

use std::fs;
use std::path::Path;
use std::sync::LazyLock;

use jsonschema::Validator;
use serde_json::Value;

/// A file that has a schema.
pub(crate) struct Schema {
    /// Name of the files that it describes.
    file: &'static str,
    validator: LazyLock<Validator>,
}

macro_rules! schemas {
    ($($name:ident = $schema:literal of $file:literal;)+) => {
        $(pub(crate) static $name: Schema =
            Schema { file: $file, validator: LazyLock::new(|| validator($schema)) };)+
        static ALL: &[&Schema] = &[$(&$name),+];
    };
}

schemas! {
    SUMMARY = "profile_export_aiperf" of "profile_export_aiperf.json";
    RECORD = "profile_export" of "profile_export.jsonl";
    SESSION = "profile_export_sessions" of "profile_export_sessions.jsonl";
    RAW_RECORD = "profile_export_raw" of "profile_export_raw.jsonl";
    SERVER_METRICS = "server_metrics_export" of "server_metrics_export.json";
    AGGREGATE = "profile_export_aiperf_aggregate" of "profile_export_aiperf_aggregate.json";
    COLLATED = "profile_export_aiperf_collated" of "profile_export_aiperf_collated.json";
    SWEEP = "profile_export_aiperf_sweep" of "profile_export_aiperf_sweep.json";
    SEARCH = "search_history" of "search_history.json";
    FLAT_SERVER_METRICS = "server_metrics_export_flat" of "server_metrics_export.json";
}

fn validator(name: &str) -> Validator {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join(format!("docs/schema/{name}.json"));
    let schema: Value = serde_json::from_str(&fs::read_to_string(path).unwrap()).unwrap();
    jsonschema::draft202012::new(&schema).unwrap()
}

impl Schema {
    /// Returns what is wrong with `value`, with the place of each mistake in it.
    pub(crate) fn mistakes(&self, value: &Value) -> Vec<String> {
        let errors = self.validator.iter_errors(value);
        errors.map(|error| format!("{}: {error}", error.instance_path())).collect()
    }

    /// Checks that `value` matches.
    pub(crate) fn check(&self, value: &Value) {
        let mistakes = self.mistakes(value);
        assert!(mistakes.is_empty(), "{}: {mistakes:#?}", self.file);
    }
}

/// Checks the files of the runs in `directory`, also those in directories within it.
pub(crate) fn check_files(directory: &Path) {
    for entry in fs::read_dir(directory).into_iter().flatten().map(Result::unwrap) {
        if entry.file_type().unwrap().is_dir() {
            check_files(&entry.path());
        }
        let name = entry.file_name().into_string().unwrap_or_default();
        let plain = name.strip_suffix(".zst").unwrap_or(&name);
        let Some(schema) = ALL.iter().find(|schema| schema.file == plain) else { continue };
        let values = values(&entry.path());
        // The nested layout has a version, the flat one has none.
        let is_flat =
            plain == FLAT_SERVER_METRICS.file && values[0].get("schema_version").is_none();
        let schema = if is_flat { &FLAT_SERVER_METRICS } else { schema };
        for value in &values {
            schema.check(value);
        }
    }
}

/// Returns the values of a JSON or JSONL file, which may be compressed.
fn values(path: &Path) -> Vec<Value> {
    let mut text = fs::read(path).unwrap();
    if path.extension().is_some_and(|extension| extension == "zst") {
        text = zstd::decode_all(&*text).unwrap();
    }
    serde_json::Deserializer::from_slice(&text).into_iter().map(Result::unwrap).collect()
}
