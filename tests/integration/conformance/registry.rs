//! The registry as read from its files: `semconv/*.yaml` and the model files of the conventions.
//! The constants that the program was built with are not used here.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::Path;

use serde_norway::Value;

/// Attributes of other conventions 1.41.1 that the registry refers to, with their types.
const ELSEWHERE: [(&str, &str); 36] = [
    ("server.address", "string"),
    ("server.port", "int"),
    ("error.type", "string"),
    ("service.name", "string"),
    ("service.version", "string"),
    ("service.instance.id", "string"),
    ("telemetry.sdk.name", "string"),
    ("telemetry.sdk.language", "string"),
    ("host.name", "string"),
    ("host.arch", "string"),
    ("os.type", "string"),
    ("os.version", "string"),
    ("url.scheme", "string"),
    ("process.pid", "int"),
    ("exception.type", "string"),
    ("exception.message", "string"),
    ("cicd.pipeline.name", "string"),
    ("cicd.pipeline.run.id", "string"),
    ("cicd.pipeline.run.url.full", "string"),
    ("cicd.pipeline.task.name", "string"),
    ("cicd.pipeline.task.run.id", "string"),
    ("cicd.pipeline.task.run.url.full", "string"),
    ("cicd.worker.id", "string"),
    ("cicd.worker.name", "string"),
    ("process.executable.name", "string"),
    ("telemetry.sdk.version", "string"),
    ("vcs.change.id", "string"),
    ("vcs.owner.name", "string"),
    ("vcs.provider.name", "string"),
    ("vcs.ref.base.name", "string"),
    ("vcs.ref.base.revision", "string"),
    ("vcs.ref.head.name", "string"),
    ("vcs.ref.head.revision", "string"),
    ("vcs.ref.type", "string"),
    ("vcs.repository.name", "string"),
    ("vcs.repository.url.full", "string"),
];

/// Prefixes of attributes of further conventions, which spans may refer to.
const FURTHER: [&str; 5] = ["gen_ai.", "http.", "network.", "openai.", "url."];

/// Type and allowed values of an attribute.
#[derive(Debug, Clone, Default)]
pub(crate) struct Kind {
    /// `string`, `int`, `double` or `boolean`.
    pub(crate) of: String,
    /// The allowed values, if they are restricted.
    pub(crate) values: Vec<String>,
}

/// Attributes, with whether each is required.
pub(crate) type Attributes = BTreeMap<String, bool>;

/// The definition of a metric.
#[derive(Debug, Clone)]
pub(crate) struct Entry {
    pub(crate) instrument: String,
    pub(crate) unit: String,
    pub(crate) brief: String,
    pub(crate) boundaries: Vec<f64>,
    pub(crate) attributes: Attributes,
}

/// The definition of a span.
#[derive(Debug, Clone)]
pub(crate) struct SpanEntry {
    pub(crate) kind: String,
    /// The span's name, with attributes in braces.
    pub(crate) name: String,
    pub(crate) attributes: Attributes,
}

/// The contents of all files.
#[derive(Debug, Default)]
pub(crate) struct Registry {
    pub(crate) metrics: BTreeMap<String, Entry>,
    pub(crate) groups: BTreeMap<String, Attributes>,
    pub(crate) spans: BTreeMap<String, SpanEntry>,
    /// Events of spans and of logs.
    pub(crate) events: BTreeMap<String, Attributes>,
    pub(crate) attributes: BTreeMap<String, Kind>,
    /// Errors in the files themselves.
    pub(crate) problems: Vec<String>,
}

fn repository() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

fn read(path: &Path) -> Value {
    serde_norway::from_str(&fs::read_to_string(path).unwrap()).unwrap()
}

fn list<'a>(of: &'a Value, key: &str) -> &'a [Value] {
    of.get(key).and_then(Value::as_sequence).map_or(&[], Vec::as_slice)
}

fn text(of: &Value, key: &str) -> String {
    of.get(key).and_then(Value::as_str).unwrap_or_default().trim().to_owned()
}

fn boundaries(of: &Value) -> Vec<f64> {
    let own = of.get("annotations").and_then(|annotations| annotations.get("aiperf"));
    own.map(|own| list(own, "boundaries").iter().filter_map(Value::as_f64).collect())
        .unwrap_or_default()
}

/// Returns the type and members of an attribute's definition.
fn kind(of: &Value) -> Kind {
    let Some(members) = of.get("type").filter(|kind| kind.is_mapping()) else {
        return Kind { of: text(of, "type"), values: Vec::new() };
    };
    let values = list(members, "members").iter().map(|member| text(member, "value")).collect();
    Kind { of: "string".into(), values }
}

impl Registry {
    /// Reads `semconv/*.yaml` and the conventions.
    pub(crate) fn read() -> Self {
        let mut files: Vec<_> = fs::read_dir(repository().join("semconv"))
            .unwrap()
            .map(|entry| entry.unwrap().path())
            .filter(|path| path.extension().is_some_and(|end| end == "yaml"))
            .filter(|path| path.file_name().unwrap() != "manifest.yaml")
            .collect();
        files.sort();
        let files: Vec<Value> = files.iter().map(|path| read(path)).collect();
        Self::of(&files)
    }

    /// Returns the registry defined by `files` and the conventions.
    pub(crate) fn of(files: &[Value]) -> Self {
        let mut registry = Self::default();
        registry.conventions();
        for file in files {
            if text(file, "file_format") != "definition/2" {
                registry.problems.push("a file is not of the format definition/2".into());
            }
            for attribute in list(file, "attributes") {
                registry.define(attribute);
            }
        }
        // Groups refer to attributes, and metrics to groups.
        for group in files.iter().flat_map(|file| list(file, "attribute_groups")) {
            let attributes = registry.resolve(group);
            let id = text(group, "id");
            if registry.groups.insert(id.clone(), attributes).is_some() {
                registry.problems.push(format!("the group {id} is there twice"));
            }
        }
        for file in files {
            if let Some(imports) = file.get("imports") {
                for name in list(imports, "metrics") {
                    registry.import(name);
                }
            }
            for metric in list(file, "metrics") {
                registry.metric(metric);
            }
        }
        for refinement in files.iter().flat_map(|file| list(file, "metric_refinements")) {
            let (of, more) = (text(refinement, "ref"), registry.resolve(refinement));
            match registry.metrics.get_mut(&of) {
                Some(entry) => entry.attributes.extend(more),
                None => registry.problems.push(format!("{of} is refined but not imported")),
            }
        }
        for span in files.iter().flat_map(|file| list(file, "spans")) {
            registry.span(span);
        }
        for event in files.iter().flat_map(|file| list(file, "events")) {
            let attributes = registry.resolve(event);
            registry.leveled(event, "name");
            registry.events.insert(text(event, "name"), attributes);
        }
        for refinement in files.iter().flat_map(|file| list(file, "event_refinements")) {
            let attributes = registry.resolve(refinement);
            registry.events.insert(text(refinement, "ref"), attributes);
        }
        for entity in files.iter().flat_map(|file| list(file, "entities")) {
            let _ = registry.resolve(entity);
        }
        registry
    }

    /// Adds the attributes of the conventions.
    fn conventions(&mut self) {
        let model = read(&repository().join("tests/golden/semconv-1.41.1/gen-ai-registry.yaml"));
        for attribute in list(&model, "groups").iter().flat_map(|group| list(group, "attributes")) {
            self.attributes.insert(text(attribute, "id"), kind(attribute));
        }
        for (key, of) in ELSEWHERE {
            self.attributes.insert(key.into(), Kind { of: of.into(), values: Vec::new() });
        }
    }

    /// Adds an attribute of aiperf's own, or of conventions that are newer than those it depends on.
    fn define(&mut self, attribute: &Value) {
        let (key, kind) = (text(attribute, "key"), kind(attribute));
        let plain = ["string", "int", "double", "boolean"].contains(&kind.of.as_str());
        let described = !text(attribute, "brief").is_empty()
            && ["development", "stable"].contains(&text(attribute, "stability").as_str());
        let is_own = key.starts_with("aiperf.") || key.starts_with("gen_ai.");
        if !plain || !described || !is_own {
            self.problems.push(format!("the attribute {key} is not well described"));
        }
        let mut seen = BTreeSet::new();
        if !kind.values.iter().all(|value| !value.is_empty() && seen.insert(value)) {
            self.problems.push(format!("the attribute {key} has a member twice"));
        }
        if self.attributes.insert(key.clone(), kind).is_some() {
            self.problems.push(format!("the attribute {key} is there twice"));
        }
    }

    /// Resolves the references of a metric, span, entity or group.
    fn resolve(&mut self, of: &Value) -> Attributes {
        let mut attributes = Attributes::new();
        for key in ["attributes", "identity", "description"] {
            for reference in list(of, key) {
                if reference.get("ref_group").is_some() {
                    let group = text(reference, "ref_group");
                    match self.groups.get(&group) {
                        Some(group) => attributes.extend(group.clone()),
                        None => self.problems.push(format!("the group {group} does not exist")),
                    }
                } else {
                    self.refer(reference, &mut attributes);
                }
            }
        }
        attributes
    }

    fn refer(&mut self, reference: &Value, attributes: &mut Attributes) {
        let key = text(reference, "ref");
        let further = FURTHER.iter().any(|prefix| key.starts_with(prefix));
        if !self.attributes.contains_key(&key) && (key.starts_with("gen_ai.") || !further) {
            self.problems.push(format!("the attribute {key} does not exist"));
        }
        let level = reference.get("requirement_level");
        let known = level.is_none_or(|level| match level.as_str() {
            Some(level) => ["required", "recommended", "opt_in"].contains(&level),
            None => ["conditionally_required", "recommended"]
                .iter()
                .any(|word| !text(level, word).is_empty()),
        });
        if !known {
            self.problems.push(format!("{key} has an unknown requirement level"));
        }
        if let Some(own) = reference.get("annotations").and_then(|a| a.get("aiperf")) {
            let values = list(own, "values").iter().filter_map(Value::as_str).map(str::to_owned);
            if let Some(kind) = self.attributes.get_mut(&key) {
                kind.values = values.collect();
            }
        }
        attributes.insert(key, level.and_then(Value::as_str) == Some("required"));
    }

    /// Adds a span; its name is in backticks in its note.
    fn span(&mut self, span: &Value) {
        let attributes = self.resolve(span);
        self.leveled(span, "type");
        let (id, kind) = (text(span, "type"), text(span, "kind"));
        let note = span.get("name").map(|name| text(name, "note")).unwrap_or_default();
        let name = note.trim_matches('`').to_owned();
        let kinds = ["client", "server", "internal", "producer", "consumer"];
        if name.is_empty() || !kinds.contains(&kind.as_str()) || text(span, "brief").is_empty() {
            self.problems.push(format!("the span {id} is not well described"));
        }
        let entry = SpanEntry { kind, name, attributes };
        if self.spans.insert(id.clone(), entry).is_some() {
            self.problems.push(format!("the span {id} is there twice"));
        }
    }

    /// Adds a metric of aiperf's own.
    fn metric(&mut self, metric: &Value) {
        let attributes = self.resolve(metric);
        let entry = Entry {
            instrument: text(metric, "instrument"),
            unit: text(metric, "unit"),
            brief: text(metric, "brief"),
            boundaries: boundaries(metric),
            attributes,
        };
        self.leveled(metric, "name");
        self.insert(&text(metric, "name"), entry, &text(metric, "stability"));
    }

    /// Everything that is exported has a requirement level.
    fn leveled(&mut self, signal: &Value, name: &str) {
        let levels = ["required", "recommended", "opt_in"];
        if !levels.contains(&text(signal, "requirement_level").as_str()) {
            self.problems.push(format!("{} lacks a requirement level", text(signal, name)));
        }
    }

    fn insert(&mut self, name: &str, entry: Entry, stability: &str) {
        let instruments = ["histogram", "counter", "updowncounter", "gauge"];
        let sound = instruments.contains(&entry.instrument.as_str())
            && !entry.brief.is_empty()
            && is_ucum(&entry.unit)
            && ["development", "stable"].contains(&stability)
            && entry.boundaries.is_empty() == (entry.instrument != "histogram")
            && entry.boundaries.windows(2).all(|pair| pair[0] < pair[1]);
        if !sound {
            self.problems.push(format!("the metric {name} is not well described: {entry:?}"));
        }
        if self.metrics.insert(name.to_owned(), entry).is_some() {
            self.problems.push(format!("the metric {name} is there twice"));
        }
    }

    /// Adds a metric of the conventions. Its boundaries are only in their text: 0.01 s, doubled up
    /// to 81.92 s, and powers of 4 up to 67,108,864 tokens.
    fn import(&mut self, name: &Value) {
        let model = read(&repository().join("tests/golden/semconv-1.41.1/gen-ai-metrics.yaml"));
        let groups = list(&model, "groups");
        let find = |key: &str, value: &str| groups.iter().find(|group| text(group, key) == value);
        let name = name.as_str().unwrap_or_default();
        let Some(metric) = find("metric_name", name) else {
            self.problems.push(format!("the conventions do not define the metric {name}"));
            return;
        };
        let mut attributes = self.resolve(metric);
        if let Some(base) = find("id", &text(metric, "extends")) {
            attributes.extend(self.resolve(base));
        }
        let unit = text(metric, "unit");
        let boundaries = match unit.as_str() {
            "s" => (0..14).map(|n| f64::from(1u32 << n) / 100.0).collect(),
            _ => (0..14).map(|n| 4f64.powi(n)).collect(),
        };
        let brief = text(metric, "brief").trim_end_matches('.').to_owned();
        let instrument = text(metric, "instrument");
        let entry = Entry { instrument, unit, brief, boundaries, attributes };
        self.insert(name, entry, &text(metric, "stability"));
    }
}

/// Returns whether the unit is one of the UCUM units used here, or an annotation in braces.
fn is_ucum(unit: &str) -> bool {
    let part = |part: &str| {
        ["s", "By", "1", "%", "W", "J", "J.s"].contains(&part)
            || part.strip_prefix('{').and_then(|part| part.strip_suffix('}')).is_some_and(|word| {
                !word.is_empty() && word.chars().all(|c| c.is_ascii_lowercase() || c == '_')
            })
    };
    unit.split('/').count() <= 2 && unit.split('/').all(part)
}
