//! Sweeps of AIPerf's files over the variables of templates: each cell is the file with other variables.

use serde_norway::{Mapping, Value};

use super::templates::Renderer;
use super::values::{members, name_of, scalar, snake_name};
use super::{File, Mapped, read};
use crate::config::aiperf::datasets::quoted;

/// Maximum number of cells, each of which is the whole file.
const MAX_CELLS: usize = 1000;

/// A cell of such a sweep.
pub(super) struct Cell {
    name: String,
    /// The variables that it has in place of the file's.
    variables: Mapping,
    /// Other settings that are varied, by path.
    parameters: Vec<(String, Value)>,
    /// The settings that override those of the file.
    benchmark: Option<Value>,
}

/// Takes what a file sweeps over, if variables are among it.
pub(super) fn taken(document: &mut Mapping) -> Result<Option<Vec<Cell>>, String> {
    let Some(Value::Mapping(sweep)) = document.get_mut("sweep") else { return Ok(None) };
    let has_variables = |run: &Value| run.get("variables").is_some_and(|own| !own.is_null());
    let runs = sweep.get("runs").and_then(Value::as_sequence);
    let parameters = sweep.get("parameters").and_then(Value::as_mapping);
    let is_variable = |key: &Value| key.as_str().is_some_and(|key| variable(key).is_some());
    let cells = match (sweep.get("type").and_then(Value::as_str), runs, parameters) {
        (Some("scenarios"), Some(runs), _) if runs.iter().any(has_variables) => {
            (0..).zip(runs.clone()).map(|(index, run)| of_run(index, run)).collect()
        }
        (kind @ (None | Some("grid" | "zip")), _, Some(parameters))
            if parameters.keys().any(is_variable) =>
        {
            combined(parameters, kind == Some("zip"))
        }
        _ => return Ok(None),
    };
    for key in ["type", "runs", "parameters"] {
        sweep.remove(key);
    }
    cells.map(Some)
}

/// Returns the name of the variable that a parameter of a sweep varies.
fn variable(parameter: &str) -> Option<&str> {
    parameter.trim().strip_prefix("variables.")
}

/// Returns the cell of a run of `sweep.runs`.
fn of_run(index: u64, run: Value) -> Result<Cell, String> {
    let mut run = members(Some(run), "sweep.runs")?;
    let name = name_of_run(index, &mut run)?;
    let variables = members(run.remove("variables"), "sweep.runs.variables")?;
    let benchmark = run.remove("benchmark");
    only_known(&run)?;
    Ok(Cell { name, variables, parameters: Vec::new(), benchmark })
}

/// Takes the name of a run of `sweep.runs`: its own, or else its number. One with `values` has these for a
/// name.
pub(super) fn name_of_run(index: u64, run: &mut Mapping) -> Result<String, String> {
    let values = members(run.remove("values"), "sweep.runs.values")?;
    let own = run.remove("name");
    if !values.is_empty() {
        let values = values.iter().map(|(key, value)| Ok((name_of(key)?, value)));
        return named(&values.collect::<Result<Vec<_>, String>>()?);
    }
    match own {
        Some(name) => scalar(&name).ok_or_else(|| "sweep.runs: the name must be a text".to_owned()),
        None => Ok(format!("scenario_{index}")),
    }
}

/// Refuses what else a run of `sweep.runs` has.
pub(super) fn only_known(run: &Mapping) -> Result<(), String> {
    match run.keys().next() {
        None => Ok(()),
        Some(key) => Err(format!(
            "sweep.runs.{} is not a setting of a run; use name, variables, benchmark or values",
            name_of(key)?
        )),
    }
}

/// Returns the name of a cell with these values, as AIPerf names its directory.
fn named(values: &[(String, &Value)]) -> Result<String, String> {
    let part = |(path, value): &(String, &Value)| {
        let text = scalar(value).ok_or_else(|| format!("{path}: expected a list of values"))?;
        Ok(format!("{}_{text}", path.rsplit('.').next().unwrap_or(path)))
    };
    let parts = values.iter().map(part).collect::<Result<Vec<String>, String>>()?;
    Ok(parts.join("__").chars().filter(|c| !":=".contains(*c)).collect())
}

/// Returns the cells of a grid, the last parameter varying fastest, or of lists in step.
fn combined(parameters: &Mapping, in_step: bool) -> Result<Vec<Cell>, String> {
    let list = |(key, values): (&Value, &Value)| {
        let path = name_of(key)?;
        match values {
            Value::Sequence(values) if !values.is_empty() => Ok((path, values.clone())),
            _ => Err(format!("sweep.parameters.{path}: expected a list of values")),
        }
    };
    let mut axes = parameters.iter().map(list).collect::<Result<Vec<_>, String>>()?;
    axes.sort_by(|(path, _), (other, _)| path.cmp(other));
    let lengths = axes.iter().map(|(_, values)| values.len());
    let count = if in_step {
        let longest = lengths.clone().max().unwrap_or(0);
        if lengths.clone().any(|length| length != longest) {
            return Err("sweep.parameters: the lists of a zip must have the same length".to_owned());
        }
        Some(longest)
    } else {
        lengths.clone().try_fold(1, usize::checked_mul)
    };
    let count = count.filter(|count| *count <= MAX_CELLS);
    let count = count.ok_or_else(|| format!("sweep.parameters: more than {MAX_CELLS} cells"))?;
    let cell = |index: usize| {
        let mut below = count;
        let chosen = axes.iter().map(|(path, values)| {
            let at = if in_step {
                index
            } else {
                below /= values.len();
                index / below % values.len()
            };
            (path.clone(), &values[at])
        });
        let chosen: Vec<(String, &Value)> = chosen.collect();
        let mut cell = Cell {
            name: named(&chosen)?,
            variables: Mapping::new(),
            parameters: Vec::new(),
            benchmark: None,
        };
        for (path, value) in chosen {
            match variable(&path) {
                Some(name) => drop(cell.variables.insert(name.into(), value.clone())),
                None => cell.parameters.push((path, value.clone())),
            }
        }
        Ok(cell)
    };
    (0..count).map(cell).collect()
}

/// Adds the cells to what was read of the file: each has the flags that differ from it in any.
pub(super) fn added(
    file: &mut File,
    document: &Mapping,
    cells: Vec<Cell>,
    renderer: &mut Renderer,
) -> Result<(), String> {
    let of_cell = |cell: Cell| {
        let name = cell.name.clone();
        let flags = flags(document, cell, renderer).map_err(|why| format!("{name}: {why}"))?;
        Ok((name, flags))
    };
    let cells = cells.into_iter().map(of_cell).collect::<Result<Vec<_>, String>>()?;
    let is_common = |mapped: &Mapped| {
        let is_same = |it: &Mapped| it.flag == mapped.flag && it.value == mapped.value;
        let all = || cells.iter().map(|(_, flags)| flags).chain([&file.found]);
        all().all(|flags| flags.iter().any(is_same))
    };
    let is_varied = |mapped: &&Mapped| !is_common(mapped);
    let mut texts = Vec::new();
    for (name, flags) in &cells {
        let is_here = |flag: &str| flags.iter().any(|it| it.flag == flag);
        if let Some(lost) = file.found.iter().find(|own| !is_here(own.flag)) {
            let path = &lost.path;
            return Err(format!(
                "{name}: {path} is missing; each cell needs the settings of the file"
            ));
        }
        let settings = flags.iter().filter(is_varied).map(setting);
        let settings = settings.collect::<Result<Vec<String>, String>>()?;
        if settings.is_empty() {
            return Err("sweep: no template uses the variables that it varies".to_owned());
        }
        texts.push(Value::String(format!("{name}: {}", settings.join(", "))));
    }
    file.put("variant", "sweep", Value::Sequence(texts))
}

/// Returns the flags of a cell.
fn flags(document: &Mapping, cell: Cell, renderer: &mut Renderer) -> Result<Vec<Mapped>, String> {
    let mut document = document.clone();
    let mut variables = members(document.remove("variables"), "variables")?;
    merge(&mut variables, cell.variables);
    document.insert("variables".into(), Value::Mapping(variables));
    let mut file = read(renderer.document(document)?)?;
    file.replaces = true;
    for (path, value) in cell.parameters {
        let value = renderer.value(&format!("sweep.parameters.{path}"), value)?;
        let path = file.parameter(&snake_name(&path));
        file.add(&path, value)?;
    }
    if let Some(benchmark) = cell.benchmark {
        let benchmark = renderer.value("sweep.runs.benchmark", benchmark)?;
        for Mapped { flag, path, value } in file.overridden(benchmark)? {
            file.put(flag, &path, value)?;
        }
    }
    Ok(file.found)
}

/// Puts the members of `other` in place of those of `own`, at any depth.
fn merge(own: &mut Mapping, other: Mapping) {
    for (key, value) in other {
        match (own.get_mut(&key), value) {
            (Some(Value::Mapping(own)), Value::Mapping(other)) => merge(own, other),
            (_, value) => drop(own.insert(key, value)),
        }
    }
}

/// Returns a flag as `--variant` has it.
pub(super) fn setting(mapped: &Mapped) -> Result<String, String> {
    let value = scalar(&mapped.value)
        .ok_or_else(|| format!("sweep: {} must be a single value in a cell", mapped.path))?;
    Ok(format!("{}={}", mapped.flag, quoted(&value)))
}
