//! The sweeps of AIPerf's files.

use serde_norway::{Mapping, Value};

use super::phases::phases_in;
use super::values::{members, name_of, scalar, snake};
use super::{File, Mapped, cells};
use crate::config::aiperf::schema::{self, Rule::Flag};

/// Names that stand for those of the profiling phase in the parameters of a sweep.
const OF_PROFILING: &[&str] = &[
    "concurrency",
    "concurrency_ramp",
    "duration",
    "grace_period",
    "prefill_concurrency",
    "prefill_ramp",
    "rate",
    "rate_ramp",
    "rate_series",
    "requests",
    "sessions",
    "smoothness",
    "users",
];

impl File {
    /// Takes the parameters of a sweep.
    pub(super) fn sweep(&mut self, mut sweep: Mapping) -> Result<(), String> {
        let kind = sweep.get("type").and_then(Value::as_str).unwrap_or("grid").to_owned();
        let runs = sweep.remove("runs");
        let parameters = sweep.remove("parameters");
        match kind.as_str() {
            "grid" | "zip" => {}
            "scenarios" => {
                sweep.remove("type");
            }
            _ => {
                return Err(
                    "sweep.type: aiperf supports grid, zip and scenarios of AIPerf's files"
                        .to_owned(),
                );
            }
        }
        for (key, value) in sweep {
            self.add(&format!("sweep.{}", name_of(&key)?), value)?;
        }
        self.replaces = true;
        let parameters = members(parameters, "sweep.parameters")?;
        if let Some(scenarios) = self.scenarios_of(&parameters)? {
            self.found.retain(|mapped| mapped.flag != "sweep-type");
            return self.put("variant", "sweep.parameters", Value::Sequence(scenarios));
        }
        for (key, values) in parameters {
            self.add(&self.parameter(&name_of(&key)?), values)?;
        }
        let Some(Value::Sequence(runs)) = runs else { return Ok(()) };
        let scenarios: Result<Vec<Value>, String> = (0..)
            .zip(runs)
            .map(|(index, run)| self.scenario(index, run).map(Value::String))
            .collect();
        self.put("variant", "sweep.runs", Value::Sequence(scenarios?))
    }

    /// Returns the only parameter of a sweep as values of `--variant`, if its flag does not take a
    /// list.
    fn scenarios_of(&self, parameters: &Mapping) -> Result<Option<Vec<Value>>, String> {
        let mut all = parameters.iter();
        let (Some((key, Value::Sequence(values))), None) = (all.next(), all.next()) else {
            return Ok(None);
        };
        let path = self.parameter(&name_of(key)?);
        let is_varied = |flag: &str| schema::varied().iter().any(|varied| varied.flag == flag);
        let flag = match schema::rule(&path) {
            Some(Flag(flag)) if !is_varied(flag) => flag,
            _ => return Ok(None),
        };
        let scenario = |value: &Value| {
            let text = scalar(value).ok_or_else(|| format!("{path}: expected a list of values"))?;
            Ok(Value::String(format!("{text}: {flag}={text}")))
        };
        values.iter().map(scenario).collect::<Result<_, String>>().map(Some)
    }

    /// Returns the path of the setting that a parameter of a sweep names.
    pub(super) fn parameter(&self, path: &str) -> String {
        let path = path.strip_prefix("phases.").unwrap_or(path);
        let mut parts: Vec<&str> = path.split('.').collect();
        if parts.first() == Some(&"datasets") && parts.len() > 2 {
            parts.splice(..2, ["dataset"]);
        }
        if parts.len() == 1 && OF_PROFILING.contains(&parts[0]) {
            parts.insert(0, "profiling");
        }
        if parts == ["profiling", "rate"] && self.load == "user_centric" {
            parts[1] = "user_rate";
        }
        parts.join(".")
    }

    /// Returns a run of `sweep.runs` as a value of `--variant`.
    fn scenario(&self, index: u64, run: Value) -> Result<String, String> {
        let mut run = members(Some(run), "sweep.runs")?;
        let name = cells::name_of_run(index, &mut run)?;
        let benchmark = run.remove("benchmark");
        cells::only_known(&run)?;
        let found = self.overridden(benchmark.unwrap_or_default())?;
        let is_new = |mapped: &&Mapped| {
            let is_same = |own: &Mapped| own.flag == mapped.flag && own.value == mapped.value;
            !self.found.iter().any(is_same)
        };
        let settings: Result<Vec<String>, String> =
            found.iter().filter(is_new).map(cells::setting).collect();
        Ok(format!("{name}: {}", settings?.join(", ")))
    }

    /// Returns the flags of settings that override those of the file.
    pub(super) fn overridden(&self, benchmark: Value) -> Result<Vec<Mapped>, String> {
        let mut benchmark = snake(benchmark)?;
        // The phases of a scenario have the type of the file's unless they say another.
        for phase in phases_in(&mut benchmark) {
            if !phase.contains_key("type") {
                phase.insert("type".into(), self.load.clone().into());
            }
        }
        let mut file = Self { lengths: self.lengths.clone(), ..Self::default() };
        for (key, value) in file.normalize(benchmark)? {
            file.add(&name_of(&key)?, value)?;
        }
        Ok(file.found)
    }
}
