//! The templates in AIPerf's files: `{{ name }}` with the file's `variables` and its own settings.

use std::collections::BTreeMap;
use std::mem;

use serde_norway::{Mapping, Value};

use base::input::yaml::Room;
use base::jinja::Variables;

use super::values::{coerced, members, name_of};

/// Settings that are templates of the bodies of requests.
const OF_REQUESTS: [&str; 3] = ["template", "body", "payload_template"];

/// Files whose templates AIPerf renders when a run starts.
const OF_RUNS: [&str; 4] = [
    "artifacts.user_files",
    "artifacts.userFiles",
    "benchmark.artifacts.user_files",
    "benchmark.artifacts.userFiles",
];

/// Renders the templates of a file. All renderings share their limits.
#[derive(Default)]
pub(super) struct Renderer {
    variables: Variables,
    room: Room,
}

impl Renderer {
    /// Renders all templates of a file, in whose values variables of the environment are replaced
    /// already. What was set for another file is forgotten.
    pub(super) fn document(&mut self, mut document: Mapping) -> Result<Mapping, String> {
        self.variables = mem::take(&mut self.variables).emptied();
        let own = members(document.remove("variables"), "variables")?;
        if own.is_empty() && !document.values().any(has_template) {
            return Ok(document);
        }
        let benchmark = document.get("benchmark").and_then(Value::as_mapping);
        for (key, value) in document.iter().chain(benchmark.into_iter().flatten()) {
            self.variables.set(&name_of(key)?, by_name(value));
        }
        let own = self.resolved(own)?;
        self.variables.set("variables", &own);
        let rendered = self.value("", Value::Mapping(document))?;
        members(Some(rendered), "the file")
    }

    /// Renders the variables, each after those that it uses.
    fn resolved(&mut self, own: Mapping) -> Result<Mapping, String> {
        let mut waiting = BTreeMap::new();
        for (key, value) in own {
            let name = key.as_str().ok_or("variables: a name must be a text")?.to_owned();
            let mut used = Vec::new();
            self.used(&value, &mut used);
            waiting.insert(name, (value, used));
        }
        let mut resolved = Mapping::new();
        while !waiting.is_empty() {
            let is_waiting = |name: &String| waiting.contains_key(name);
            let next = waiting.iter().find(|(_, (_, used))| !used.iter().any(is_waiting));
            let Some(next) = next.map(|(name, _)| name.clone()) else {
                let names: Vec<String> = waiting.into_keys().collect();
                return Err(format!(
                    "variables: {} use each other; write the value of one of them",
                    names.join(", ")
                ));
            };
            let Some((value, _)) = waiting.remove(&next) else { continue };
            let value = self.value(&format!("variables.{next}"), value)?;
            self.variables.set(&next, &value);
            resolved.insert(next.into(), value);
        }
        Ok(resolved)
    }

    /// Adds the names that the templates in `value` use.
    fn used(&self, value: &Value, names: &mut Vec<String>) {
        match value {
            Value::String(text) if is_template(text) => names.extend(self.variables.used(text)),
            Value::Sequence(items) => items.iter().for_each(|item| self.used(item, names)),
            Value::Mapping(members) => members.values().for_each(|item| self.used(item, names)),
            _ => {}
        }
    }

    /// Renders the templates in the value at `path`.
    pub(super) fn value(&mut self, path: &str, value: Value) -> Result<Value, String> {
        let inside = |key: &str| match path {
            "" => key.to_owned(),
            path => format!("{path}.{key}"),
        };
        Ok(match value {
            _ if OF_RUNS.contains(&path) => value,
            Value::String(text) if is_template(&text) => {
                let key = path.rsplit('.').next().unwrap_or(path);
                if OF_REQUESTS.contains(&key) {
                    return Ok(Value::String(text));
                }
                let rendered = self.variables.render(&text);
                let rendered = rendered.and_then(|text| self.room.take(&text).map(|()| text));
                coerced(rendered.map_err(|why| {
                    let path = path.strip_prefix("benchmark.").unwrap_or(path);
                    let hint =
                        if why.ends_with("is not set") { "; add it to variables" } else { "" };
                    format!("{path}: {why}{hint}")
                })?)
            }
            Value::Sequence(items) => {
                let items = (0_usize..).zip(items);
                let items =
                    items.map(|(index, item)| self.value(&inside(&index.to_string()), item));
                Value::Sequence(items.collect::<Result<_, _>>()?)
            }
            Value::Mapping(members) => {
                let member = |(key, value): (Value, Value)| {
                    let value = self.value(&inside(key.as_str().unwrap_or_default()), value)?;
                    Ok((key, value))
                };
                Value::Mapping(members.into_iter().map(member).collect::<Result<_, String>>()?)
            }
            other => other,
        })
    }
}

fn is_template(text: &str) -> bool {
    text.contains("{{") || text.contains("{%")
}

/// Returns whether a text in `value` is a template.
fn has_template(value: &Value) -> bool {
    match value {
        Value::String(text) => is_template(text),
        Value::Sequence(items) => items.iter().any(has_template),
        Value::Mapping(members) => members.values().any(has_template),
        _ => false,
    }
}

/// Returns a list of settings with names by name: `phases.profiling.rate`. Others are as they are.
fn by_name(value: &Value) -> Value {
    let Some(items) = value.as_sequence() else { return value.clone() };
    let named = items.iter().filter_map(|item| {
        let name = item.get("name").filter(|name| name.is_string())?;
        Some((name.clone(), item.clone()))
    });
    let named: Mapping = named.collect();
    if named.is_empty() { value.clone() } else { Value::Mapping(named) }
}
