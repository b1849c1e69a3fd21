//! `sweep_plan.json`: the cells of a sweep, written before its first run.

use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use uuid::Uuid;

use measure::multi_run::{Config, Member, Variation};

use super::super::error::WriteFailure;
use super::super::rebuild::{self, Rebuilt, ReportError};
use super::super::whole::{pretty, write_whole};
use super::super::{layout, open};

const SCHEMA_VERSION: &str = "1.0";

/// Settings that do not affect results, as JSON pointers.
const IMMATERIAL: &[&str] = &[
    "/artifacts/directory",
    "/artifacts/has_default_directory",
    "/artifacts/overwrite",
    "/judge/junit",
    "/log_level",
    "/multi_run/cooldown",
    "/multi_run/sweep/cooldown",
    "/multi_run/sweep/has_scenarios",
    "/multi_run/sweep/max_duration",
    "/multi_run/sweep/resumes",
    "/multi_run/sweep/shows_table",
    "/show_files",
    "/show_server_metrics",
    "/ui",
];

/// Maximum number of differences to report.
const MAX_DIFFERENCES: usize = 5;

/// A sweep that was begun.
#[derive(Debug, Serialize, Deserialize)]
pub struct Plan {
    schema_version: String,
    aiperf_version: String,
    pub sweep_id: Uuid,
    /// The seed from which those of the runs are derived; absent in plans of programs that had none.
    #[serde(default)]
    pub seed: Option<u64>,
    cli_command: String,
    pub multi_run: Config,
    /// The settings of the sweep, as those of a cell.
    config: Value,
    pub cells: Vec<PlannedCell>,
}

/// A cell of a sweep.
#[derive(Debug, Serialize, Deserialize)]
pub struct PlannedCell {
    #[serde(flatten)]
    pub variation: Variation,
    /// The settings that affect its results, without secrets.
    config: Value,
}

/// A run of a sweep that was begun.
pub struct PlannedRun {
    pub member: Member,
    /// Its directory, relative to that of the sweep.
    pub directory: PathBuf,
    pub rebuilt: Rebuilt,
}

impl Plan {
    /// Creates the plan of a sweep with the configuration `config` and the seed of the command, without cells.
    pub fn new(
        (sweep_id, seed): (Uuid, u64),
        cli_command: &str,
        multi_run: &Config,
        config: &impl Serialize,
    ) -> serde_json::Result<Self> {
        Ok(Self {
            schema_version: SCHEMA_VERSION.to_owned(),
            aiperf_version: env!("CARGO_PKG_VERSION").to_owned(),
            sweep_id,
            seed: Some(seed),
            cli_command: cli_command.to_owned(),
            multi_run: multi_run.clone(),
            config: material(config)?,
            cells: Vec::new(),
        })
    }

    /// Adds a cell with its configuration.
    pub fn add(
        &mut self,
        variation: &Variation,
        config: &impl Serialize,
    ) -> serde_json::Result<()> {
        let config = material(config)?;
        self.cells.push(PlannedCell { variation: variation.clone(), config });
        Ok(())
    }

    /// Reads the plan in `directory`; `None` if there is none.
    pub fn read(directory: &Path) -> Result<Option<Self>, ReportError> {
        let plan: Option<Self> = rebuild::read_json(&directory.join(layout::SWEEP_PLAN))?;
        Ok(plan.filter(|plan| plan.multi_run.sweep.is_some()))
    }

    /// Writes the plan to `directory`.
    pub fn write(&self, directory: &Path) -> Result<PathBuf, WriteFailure> {
        let path = directory.join(layout::SWEEP_PLAN);
        write_whole(&path, |out| pretty(out, self))
    }

    /// Returns in which settings `other` is another sweep than this one; empty if it can be
    /// continued with them.
    pub fn differences(&self, other: &Self) -> Vec<String> {
        let mut found = Vec::new();
        if self.aiperf_version != other.aiperf_version {
            found.push(changed(
                "aiperf version",
                &json!(self.aiperf_version),
                &json!(other.aiperf_version),
            ));
        }
        let labels = |plan: &Self| -> Value {
            json!(plan.cells.iter().map(|cell| &cell.variation.label).collect::<Vec<_>>())
        };
        if labels(self) != labels(other) {
            found.push(changed("cells", &labels(self), &labels(other)));
            return found;
        }
        let cells = self.cells.iter().zip(&other.cells);
        let cells = cells.map(|(cell, other)| (&cell.config, &other.config));
        // Before the first cell of a search, there are only the settings of the sweep.
        for (config, other) in cells.chain([(&self.config, &other.config)]) {
            let mut differences = Vec::new();
            compare("", config, other, &mut differences);
            found.extend(differences);
        }
        let mut seen = std::collections::BTreeSet::new();
        found.retain(|difference| seen.insert(difference.clone()));
        found.truncate(MAX_DIFFERENCES);
        found
    }

    /// Rebuilds the reports of the runs of the cell `variation` in `directory`.
    pub fn rebuilt(&self, directory: &Path, variation: &Variation) -> Vec<PlannedRun> {
        let run = |trial| {
            let member = Member::new(self.sweep_id, trial, Some(variation.clone()));
            let place = self.multi_run.directory(Some(variation), trial);
            let rebuilt = rebuild::rebuild(&directory.join(&place)).ok()?;
            let is_it = rebuilt.report.run.member.as_ref() == Some(&member);
            is_it.then_some(PlannedRun { member, directory: place, rebuilt })
        };
        (0..self.multi_run.most_runs()).filter_map(run).collect()
    }

    /// Iterates over the directories that the runs leave in that of the sweep.
    pub(in crate::artifacts) fn directories(directory: &Path) -> Vec<PathBuf> {
        #[derive(Deserialize)]
        struct Cells {
            cells: Vec<Cell>,
        }
        #[derive(Deserialize)]
        struct Cell {
            directory: String,
        }
        let bytes = open::read(&directory.join(layout::SWEEP_PLAN)).unwrap_or_default();
        let cells =
            serde_json::from_slice::<Cells>(&bytes).map_or_else(|_| Vec::new(), |it| it.cells);
        // A name, not a path to elsewhere.
        let is_name = |name: &&String| Path::new(name).components().count() == 1 && *name != "..";
        let names = cells.iter().map(|cell| &cell.directory).filter(is_name);
        names.map(|name| directory.join(name)).collect()
    }
}

/// Returns the settings in `config` that affect results.
fn material(config: &impl Serialize) -> serde_json::Result<Value> {
    let mut config = serde_json::to_value(config)?;
    for &pointer in IMMATERIAL {
        remove(&mut config, pointer);
    }
    Ok(config)
}

/// Removes the member at `pointer`, if it exists.
fn remove(value: &mut Value, pointer: &str) {
    let Some((parent, name)) = pointer.rsplit_once('/') else { return };
    if let Some(members) = value.pointer_mut(parent).and_then(Value::as_object_mut) {
        members.shift_remove(name);
    }
}

/// Adds each difference between two settings to `found`.
fn compare(at: &str, old: &Value, new: &Value, found: &mut Vec<String>) {
    match (old, new) {
        (Value::Object(old), Value::Object(new)) => {
            let names = old.keys().chain(new.keys().filter(|name| !old.contains_key(*name)));
            for name in names {
                let at = if at.is_empty() { name.clone() } else { format!("{at}.{name}") };
                let value = |members: &serde_json::Map<String, Value>| {
                    members.get(name).cloned().unwrap_or(Value::Null)
                };
                compare(&at, &value(old), &value(new), found);
            }
        }
        (Value::Array(old), Value::Array(new)) if old.len() == new.len() => {
            for (index, (old, new)) in old.iter().zip(new).enumerate() {
                compare(&format!("{at}[{index}]"), old, new, found);
            }
        }
        (old, new) if old != new => found.push(changed(at, old, new)),
        _ => {}
    }
}

fn changed(what: &str, old: &Value, new: &Value) -> String {
    format!("{what} was {old}, now {new}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn differences_are_named_by_their_paths() {
        let mut found = Vec::new();
        let old = json!({"a": {"b": [1, {"c": 2}], "d": 3}, "same": 1});
        let new = json!({"a": {"b": [1, {"c": 5}]}, "same": 1, "e": true});
        compare("", &old, &new, &mut found);
        assert_eq!(found, ["a.b[1].c was 2, now 5", "a.d was 3, now null", "e was null, now true"]);
    }

    #[test]
    fn what_does_not_affect_results_is_not_compared() {
        let mut config = json!({"ui": "none", "artifacts": {"directory": "x", "prefix": null}});
        for &pointer in IMMATERIAL {
            remove(&mut config, pointer);
        }
        assert_eq!(config, json!({"artifacts": {"prefix": null}}));
    }
}
