//! Several datasets in AIPerf's files, from which phases choose by name.

use serde_norway::{Mapping, Value};

use super::file::scalar;

/// Flags of datasets that all phases of a run have in common.
pub(super) const COMMON: [&str; 5] = [
    "cache-bust",
    "ignore-trace-delays",
    "inter-turn-delay-cap-seconds",
    "open-loop-strict",
    "replay-speedup",
];

/// A dataset of a file.
#[derive(Debug, Clone)]
pub(super) struct Dataset {
    pub(super) name: Option<String>,
    /// The settings without its name.
    pub(super) settings: Mapping,
}

/// Returns the datasets of `datasets`: a list, or a mapping of names, or a single dataset.
pub(super) fn all(datasets: Value) -> Result<Vec<Dataset>, String> {
    let one = |name: Option<String>, dataset: Value| match dataset {
        Value::Mapping(mut settings) => {
            let own = settings.remove("name").as_ref().and_then(scalar);
            Ok(Dataset { name: name.or(own), settings })
        }
        _ => Err("datasets: expected settings of datasets".to_owned()),
    };
    match datasets {
        Value::Sequence(items) => items.into_iter().map(|item| one(None, item)).collect(),
        Value::Mapping(members)
            if members.values().all(Value::is_mapping) && has_types(&members) =>
        {
            members.into_iter().map(|(name, item)| one(scalar(&name), item)).collect()
        }
        other => Ok(vec![one(None, other)?]),
    }
}

/// Returns whether each member is a dataset of its own.
fn has_types(members: &Mapping) -> bool {
    members.values().all(|member| member.get("type").is_some())
}

/// Returns that of `datasets` which a phase names.
pub(super) fn named<'a>(
    datasets: &'a [Dataset],
    phase: &str,
    name: Option<&str>,
) -> Result<&'a Dataset, String> {
    let names = || {
        let names = datasets.iter().filter_map(|dataset| dataset.name.as_deref());
        names.collect::<Vec<_>>().join(", ")
    };
    let Some(name) = name else {
        return Err(format!("phases.{phase}: set dataset to one of {}", names()));
    };
    let found = datasets.iter().find(|dataset| dataset.name.as_deref() == Some(name));
    found.ok_or_else(|| {
        format!("phases.{phase}.dataset: no dataset is named {name:?}; use one of {}", names())
    })
}

/// Returns a value as settings with a name have it: one with a comma, or that stands for no value, is a JSON
/// string.
pub(crate) fn quoted(text: &str) -> String {
    let is_nothing = ["none", "null"].contains(&text.to_ascii_lowercase().as_str());
    if is_nothing || text.contains(',') {
        serde_json::Value::from(text).to_string()
    } else {
        text.to_owned()
    }
}
