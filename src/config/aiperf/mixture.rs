//! Lengths of AIPerf's files that are more than a mean and a standard deviation, as `--seq-dist`.
//!
//! AIPerf draws input and output lengths independently, so that a mixture of each is one of pairs.

use serde_norway::{Mapping, Value};

use super::file::scalar;

/// Members of a distribution that only `--seq-dist` can express.
const MEMBERS: [&str; 3] = ["peaks", "points", "median"];

/// The input length of AIPerf's default.
const DEFAULT_ISL: &str = "550";

/// Returns whether a length in `value`, at any depth, is a mixture or log-normal.
pub(super) fn is_in(value: &Value) -> bool {
    match value {
        Value::Mapping(members) => members.iter().any(|(key, value)| {
            let is_length = key.as_str().is_some_and(|key| ["isl", "osl"].contains(&key));
            let is_mixed = || MEMBERS.iter().any(|member| value.get(*member).is_some());
            is_length && is_mixed() || is_in(value)
        }),
        Value::Sequence(items) => items.iter().any(is_in),
        _ => false,
    }
}

/// The lengths of the file; a scenario has those of the file unless it sets its own.
#[derive(Debug, Clone, Default)]
pub(super) struct Lengths {
    isl: Option<Value>,
    osl: Option<Value>,
}

impl Lengths {
    /// Takes the lengths out of a dataset, and returns them as a value of `--seq-dist`; `None` if it
    /// does not have any.
    pub(super) fn take_from(&mut self, dataset: &mut Mapping) -> Result<Option<String>, String> {
        let mut take = |key: &str| {
            let prompts = dataset.get_mut("prompts").and_then(Value::as_mapping_mut);
            let inner = prompts.and_then(|prompts| prompts.remove(key));
            match (dataset.remove(key), inner) {
                (Some(_), Some(_)) => {
                    Err(format!("dataset.{key} and dataset.prompts.{key} are the same; remove one"))
                }
                (outer, inner) => Ok(outer.or(inner)),
            }
        };
        let (isl, osl) = (take("isl")?, take("osl")?);
        if isl.is_none() && osl.is_none() {
            return Ok(None);
        }
        self.isl = isl.or(self.isl.take());
        self.osl = osl.or(self.osl.take());
        let isl = self.isl.clone().unwrap_or_else(|| DEFAULT_ISL.into());
        let Some(osl) = &self.osl else {
            return Err("dataset.isl: a mixture of input lengths requires an osl".to_owned());
        };
        let (inputs, outputs) = (components(&isl, "isl")?, components(osl, "osl")?);
        let pairs = inputs.iter().flat_map(|(input, share)| {
            let pair = move |(output, other): &(String, f64)| {
                format!("{input},{output}:{}", share * other)
            };
            outputs.iter().map(pair)
        });
        Ok(Some(pairs.collect::<Vec<_>>().join(";")))
    }
}

/// Returns the distributions that a length is a mixture of, each with its share, as in `--seq-dist`.
fn components(length: &Value, key: &str) -> Result<Vec<(String, f64)>, String> {
    let wrong = |what: &str| format!("dataset.prompts.{key}: {what}");
    let list = ["peaks", "points"].into_iter().find_map(|member| length.get(member));
    let Some(list) = list else { return Ok(vec![(component(length, key)?, 1.0)]) };
    let items = list.as_sequence().ok_or_else(|| wrong("expected a list of distributions"))?;
    let weighted = |item: &Value| {
        let weight = item.get("weight").map_or(Some(1.0), Value::as_f64);
        let weight = weight.filter(|weight| weight.is_finite() && *weight >= 0.0);
        let weight = weight.ok_or_else(|| wrong("a weight must be a number of at least 0"))?;
        Ok((component(item.get("distribution").unwrap_or(item), key)?, weight))
    };
    let found: Vec<(String, f64)> = items.iter().map(weighted).collect::<Result<_, String>>()?;
    let all: f64 = found.iter().map(|(_, weight)| weight).sum();
    if all <= 0.0 {
        return Err(wrong("at least one weight must be above 0"));
    }
    let shares = found.into_iter().filter(|(_, weight)| *weight > 0.0);
    Ok(shares.map(|(text, weight)| (text, weight / all)).collect())
}

/// Returns a number, a normal or a log-normal distribution as in `--seq-dist`.
pub(super) fn component(length: &Value, key: &str) -> Result<String, String> {
    let Value::Mapping(members) = length else {
        let value =
            scalar(length).ok_or_else(|| format!("dataset.prompts.{key}: expected a length"))?;
        return Ok(format!("{value}|0"));
    };
    let known = ["mean", "value", "stddev", "median", "weight", "type"];
    let name = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    if let Some(other) = members.keys().map(name).find(|name| !known.contains(&name.as_str())) {
        return Err(format!(
            "aiperf does not support dataset.prompts.{key}.{other} of AIPerf's files; use mean with \
             stddev or median, peaks or points"
        ));
    }
    let member = |name: &str| members.get(name).and_then(scalar);
    let mean = member("mean").or_else(|| member("value"));
    let mean = mean.ok_or_else(|| format!("dataset.prompts.{key}: the mean is missing"))?;
    Ok(match member("median") {
        Some(median) => format!("{mean}~{median}"),
        None => format!("{mean}|{}", member("stddev").unwrap_or_else(|| "0".to_owned())),
    })
}
