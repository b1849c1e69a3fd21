//! The phases of AIPerf's files.

use serde_norway::{Mapping, Value};

use super::values::{members, scalar};
use crate::config::aiperf::adaptive;

/// The timing of lanes that replay the traces of agents, and the type of a phase with it.
const AGENTIC: &str = "agentic_replay";

/// Returns the mappings of the phases in `benchmark` that override others.
pub(super) fn phases_in(benchmark: &mut Mapping) -> Vec<&mut Mapping> {
    let key = if benchmark.contains_key("phases") { "phases" } else { "profiling" };
    match benchmark.get_mut(key) {
        Some(Value::Sequence(phases)) => {
            let is_profiling = |phase: &&mut Mapping| {
                phase.get("name").and_then(Value::as_str).is_none_or(|name| name != "warmup")
            };
            phases.iter_mut().filter_map(Value::as_mapping_mut).filter(is_profiling).collect()
        }
        Some(Value::Mapping(phase)) => vec![phase],
        _ => Vec::new(),
    }
}

/// A phase of a file.
pub(super) struct Phase {
    pub(super) name: Option<String>,
    pub(super) is_warmup: bool,
    /// Name of the dataset that it draws from.
    pub(super) dataset: Option<String>,
    /// The settings without its name, its kind and its dataset.
    pub(super) settings: Mapping,
}

/// Returns the phases in order.
pub(super) fn phases_of(phases: Value) -> Result<Vec<Phase>, String> {
    let phases = match phases {
        Value::Sequence(phases) => phases,
        phase => vec![phase],
    };
    let phase = |phase: Value| {
        let mut settings = members(Some(phase), "phases")?;
        let mut of = |key: &str| settings.remove(key).as_ref().and_then(scalar);
        let (name, kind, dataset) = (of("name"), of("kind"), of("dataset"));
        let is_warmup = kind.as_ref().or(name.as_ref()).is_some_and(|kind| kind == "warmup");
        Ok(Phase { name, is_warmup, dataset, settings })
    };
    phases.into_iter().map(phase).collect()
}

/// Takes the phases out of `benchmark`; with `any_form`, also a warmup and a measurement that are not listed.
pub(super) fn phases_in_order(
    benchmark: &mut Mapping,
    any_form: bool,
) -> Result<Option<Vec<Phase>>, String> {
    if let Some(phases) = benchmark.remove("phases") {
        return phases_of(phases).map(Some);
    }
    let mut all = Vec::new();
    for key in ["warmup", "profiling"].into_iter().filter(|_| any_form) {
        if let Some(mut phase) = benchmark.remove(key) {
            if let Value::Mapping(settings) = &mut phase {
                settings.insert("name".into(), key.into());
            }
            all.push(phase);
        }
    }
    if all.is_empty() { Ok(None) } else { phases_of(Value::Sequence(all)).map(Some) }
}

/// Returns whether `phases` are more than a warmup and a measurement.
pub(super) fn is_list(phases: &[Phase]) -> bool {
    let kinds: Vec<bool> = phases.iter().map(|phase| phase.is_warmup).collect();
    kinds.len() > 1 && kinds != [true, false] && kinds != [false, true]
}

/// Removes the settings of a warmup that can only be those of the measurement, if they are.
pub(super) fn share(benchmark: &mut Mapping) {
    let measured = match benchmark.get("profiling") {
        Some(Value::Mapping(measured)) => measured.clone(),
        _ => return,
    };
    if let Some(Value::Mapping(warmup)) = benchmark.get_mut("warmup") {
        // Gamma arrivals have the shape of the measurement, or else 1.
        let shape = measured.get("smoothness").and_then(Value::as_f64).unwrap_or(1.0);
        if warmup.get("smoothness").and_then(Value::as_f64) == Some(shape) {
            warmup.remove("smoothness");
        }
        if warmup.get("end_failed_sessions") == measured.get("end_failed_sessions") {
            warmup.remove("end_failed_sessions");
        }
    }
}

/// Replaces the type of a phase by the settings that it stands for.
pub(super) fn typed(phase: &mut Mapping, load: &str, key: &str) -> Result<(), String> {
    phase.remove("type");
    adaptive::settle(phase, load, key)?;
    let timing = phase.remove("timing_mode").filter(|mode| !mode.is_null());
    let timing = timing.map(|mode| scalar(&mode).unwrap_or_default());
    let of_load = match load {
        "user_centric" => "user_centric_rate",
        "fixed_schedule" | AGENTIC => load,
        _ => "request_rate",
    };
    match timing.as_deref() {
        Some(AGENTIC) if load != AGENTIC => {
            phase.insert("agentic".into(), true.into());
        }
        Some(mode) if mode != of_load => {
            let why = "is not the timing of phases of this type; remove it";
            return Err(format!("{key}.timing_mode: {mode:?} {why}"));
        }
        _ => {}
    }
    match load {
        // A scenario may override a warmup without its type.
        "concurrency" | "" => {}
        AGENTIC => {
            phase.insert("agentic".into(), true.into());
        }
        "poisson" | "gamma" | "constant" => {
            phase.insert("arrivals".into(), load.into());
        }
        "user_centric" => {
            if let Some(rate) = phase.remove("rate") {
                phase.insert("user_rate".into(), rate);
            }
        }
        "fixed_schedule" => {
            phase.insert("fixed_schedule".into(), true.into());
            if !["auto_offset", "start_offset"].iter().any(|it| phase.contains_key(*it)) {
                phase.insert("auto_offset".into(), true.into());
            }
        }
        _ => return Err(format!("{key}.type: {load:?} is not a type of phase")),
    }
    Ok(())
}
