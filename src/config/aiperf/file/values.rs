//! Values of AIPerf's files, and their names.

use percent_encoding::{NON_ALPHANUMERIC, utf8_percent_encode};
use serde_norway::{Mapping, Value};

use crate::config::aiperf::mixture;

/// Returns the members of a mapping; none if it is absent.
pub(super) fn members(value: Option<Value>, path: &str) -> Result<Mapping, String> {
    match value {
        None | Some(Value::Null) => Ok(Mapping::new()),
        Some(Value::Mapping(members)) => Ok(members),
        Some(_) => Err(format!("{path}: expected settings")),
    }
}

pub(super) fn name_of(key: &Value) -> Result<String, String> {
    match key.as_str() {
        Some(key) => Ok(key.trim().replace('-', "_")),
        None => Err("the name of a setting must be a text".to_owned()),
    }
}

/// Returns a value that is neither a list nor a mapping as the command line has it.
pub(crate) fn scalar(value: &Value) -> Option<String> {
    match value {
        Value::String(text) => Some(text.clone()),
        Value::Number(number) => Some(number.to_string()),
        Value::Bool(is_on) => Some(is_on.to_string()),
        _ => None,
    }
}

/// Returns what AIPerf reads in a text that replaces a variable or a template: true, false, a number, or the
/// text itself. A number that would be written in another way stays a text, such as 007.
pub(crate) fn coerced(text: String) -> Value {
    let digits = text.strip_prefix('-').unwrap_or(&text);
    let is_plain = digits.chars().all(|c| c.is_ascii_digit() || c == '.')
        && (digits == "0" || digits.starts_with("0.") || !digits.starts_with('0'));
    match text.to_ascii_lowercase().as_str() {
        "true" => Value::Bool(true),
        "false" => Value::Bool(false),
        _ if !is_plain => Value::String(text),
        _ => match (text.parse::<i64>(), text.parse::<f64>()) {
            (Ok(whole), _) => whole.into(),
            (_, Ok(number)) if text.contains('.') => number.into(),
            _ => Value::String(text),
        },
    }
}

/// Brings the names of settings into snake case. What users name themselves stays: headers, bodies,
/// objectives, and the parameters of sweeps.
pub(super) fn snake(value: Value) -> Result<Mapping, String> {
    fn inside(value: Value) -> Value {
        const NAMED_BY_USERS: &[&str] = &[
            "headers",
            "extra",
            "filters",
            "slos",
            "custom_resource_attributes",
            "variables",
            "tags",
        ];
        match value {
            Value::Sequence(items) => Value::Sequence(items.into_iter().map(inside).collect()),
            Value::Mapping(members) => {
                let member = |(key, value): (Value, Value)| {
                    let key = key.as_str().map_or(key.clone(), |key| snake_name(key).into());
                    let is_named = key.as_str().is_some_and(|key| NAMED_BY_USERS.contains(&key));
                    (key, if is_named { value } else { inside(value) })
                };
                Value::Mapping(members.into_iter().map(member).collect())
            }
            other => other,
        }
    }
    members(Some(inside(value)), "the file")
}

/// Returns `rate_ramp` for `rateRamp`.
pub(super) fn snake_name(name: &str) -> String {
    let mut text = String::with_capacity(name.len() + 4);
    for c in name.chars() {
        if c.is_ascii_uppercase() && !text.is_empty() && !text.ends_with(['_', '.']) {
            text.push('_');
        }
        text.push(c.to_ascii_lowercase());
    }
    text
}

/// Returns whether `value` turns off what it is a setting of.
pub(crate) fn is_off(value: &Value) -> bool {
    let off = Value::Bool(false);
    *value == off || value.get("enabled") == Some(&off)
}

/// Returns a time, or a list of times, in seconds. The time of a ramp may be its only member.
pub(super) fn seconds(value: Value) -> Option<Value> {
    match value {
        Value::Mapping(mut ramp) if ramp.len() == 1 => seconds(ramp.remove("duration")?),
        Value::Sequence(items) => {
            items.into_iter().map(seconds).collect::<Option<_>>().map(Value::Sequence)
        }
        Value::String(text) => {
            let text = text.trim();
            let units = [("s", 1.0), ("m", 60.0), ("h", 3600.0)];
            let in_unit = |(unit, factor): &(&str, f64)| {
                let number: f64 = text.strip_suffix(unit)?.trim().parse().ok()?;
                Some(Value::String((number * factor).to_string()))
            };
            units.iter().find_map(in_unit).or_else(|| Some(Value::String(text.to_owned())))
        }
        value => scalar(&value).map(|_| value),
    }
}

/// Returns a value of which objects are JSON.
pub(super) fn json(value: Value) -> Option<Value> {
    match value {
        Value::Mapping(_) => serde_json::to_string(&value).ok().map(Value::String),
        value => Some(value),
    }
}

/// Returns a list of requests as a data URL with a line for each.
pub(super) fn records(list: &Value) -> Option<Value> {
    let line = |record: &Value| serde_json::to_string(record).ok();
    let lines: Option<Vec<String>> = list.as_sequence()?.iter().map(line).collect();
    let text = lines?.join("\n");
    Some(format!("data:,{}", utf8_percent_encode(&text, NON_ALPHANUMERIC)).into())
}

/// Returns a list of lengths with probabilities as in `--seq-dist`: `128|10,64|5:60;512,128:40`.
pub(super) fn pairs(list: &Value) -> Option<Value> {
    let pair = |item: &Value| {
        let member = |key: &str| item.get(key).and_then(scalar);
        let length = |key: &str, stddev: &str| {
            if let Some(length @ Value::Mapping(_)) = item.get(key) {
                return mixture::component(length, key).ok();
            }
            let length = member(key)?;
            Some(member(stddev).map_or(length.clone(), |stddev| format!("{length}|{stddev}")))
        };
        let (isl, osl) = (length("isl", "isl_stddev")?, length("osl", "osl_stddev")?);
        Some(format!("{isl},{osl}:{}", member("probability")?))
    };
    let pairs: Option<Vec<String>> = list.as_sequence()?.iter().map(pair).collect();
    pairs.map(|pairs| pairs.join(";").into())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_have_units() {
        let text = |time: &str| scalar(&seconds(time.into()).unwrap()).unwrap();
        for (time, expected) in
            [("30s", "30"), ("5m", "300"), ("2h", "7200"), ("1.5 h", "5400"), ("7", "7")]
        {
            assert_eq!(text(time), expected, "{time}");
        }
        assert_eq!(snake_name("prefixLenMultiplier"), "prefix_len_multiplier");
        assert_eq!(snake_name("datasets.main.prompts.isl"), "datasets.main.prompts.isl");
    }
}
