//! Values as users write them on the command line.

use std::ffi::OsStr;

use clap::builder::{PossibleValue, TypedValueParser};
use clap::error::{ContextKind, ContextValue, ErrorKind};
use serde_json::Value;

/// One of a few names; `-` and `_` are the same, and so are cases.
#[derive(Clone, Copy)]
pub(super) struct Choice<T: 'static>(pub(super) &'static [(&'static str, T)]);

impl<T: Copy + Send + Sync + 'static> TypedValueParser for Choice<T> {
    type Value = T;

    fn parse_ref(
        &self,
        command: &clap::Command,
        argument: Option<&clap::Arg>,
        value: &OsStr,
    ) -> Result<T, clap::Error> {
        let text = value.to_string_lossy();
        let plain = |name: &str| name.to_ascii_lowercase().replace('_', "-");
        let name = plain(text.trim());
        let found = self.0.iter().find(|(choice, _)| plain(choice) == name);
        found.map(|(_, meaning)| *meaning).ok_or_else(|| {
            let mut error = clap::Error::new(ErrorKind::InvalidValue).with_cmd(command);
            if let Some(argument) = argument {
                let flag = ContextValue::String(argument.to_string());
                error.insert(ContextKind::InvalidArg, flag);
            }
            error.insert(ContextKind::InvalidValue, ContextValue::String(text.into_owned()));
            let names = self.0.iter().map(|(choice, _)| (*choice).to_owned()).collect();
            error.insert(ContextKind::ValidValue, ContextValue::Strings(names));
            error
        })
    }

    fn possible_values(&self) -> Option<Box<dyn Iterator<Item = PossibleValue> + '_>> {
        Some(Box::new(self.0.iter().map(|(choice, _)| PossibleValue::new(*choice))))
    }
}

/// What is said to a list where one number is wanted.
const SWEEP: &str = "a list is a sweep of AIPerf's that aiperf does not have yet: give one value \
                     a run";

/// A whole number of at least 0.
pub(super) fn count(text: &str) -> Result<u64, String> {
    if text.contains(',') {
        return Err(SWEEP.to_owned());
    }
    text.trim().replace('_', "").parse().map_err(|_| "it is not a whole number".to_owned())
}

/// A whole number of at least 1.
pub(super) fn positive(text: &str) -> Result<u64, String> {
    match count(text)? {
        0 => Err("give at least 1".to_owned()),
        number => Ok(number),
    }
}

/// A finite number of at least 0.
pub(super) fn number(text: &str) -> Result<f64, String> {
    if text.contains(',') {
        return Err(SWEEP.to_owned());
    }
    match text.trim().parse::<f64>() {
        Ok(number) if number.is_finite() && number >= 0.0 => Ok(number),
        Ok(_) => Err("give a finite number of at least 0".to_owned()),
        Err(_) => Err("it is not a number".to_owned()),
    }
}

/// A finite number of at least 1.
pub(super) fn positive_number(text: &str) -> Result<f64, String> {
    match number(text)? {
        number if number >= 1.0 => Ok(number),
        _ => Err("give at least 1".to_owned()),
    }
}

/// A finite number above 0.
pub(super) fn above_zero(text: &str) -> Result<f64, String> {
    match number(text)? {
        number if number > 0.0 => Ok(number),
        _ => Err("give a number above 0".to_owned()),
    }
}

/// A finite number above 0, or `inf` for as fast as there is room.
pub(super) fn rate(text: &str) -> Result<f64, String> {
    match text.trim().to_ascii_lowercase().as_str() {
        "inf" | "infinity" => Ok(f64::INFINITY),
        _ => above_zero(text),
    }
}

/// A share in percent: above 0, at most 100.
pub(super) fn percent(text: &str) -> Result<f64, String> {
    match above_zero(text)? {
        number if number <= 100.0 => Ok(number),
        _ => Err("give at most 100".to_owned()),
    }
}

/// A share from 0 to 1.
pub(super) fn ratio(text: &str) -> Result<f64, String> {
    match number(text)? {
        number if number <= 1.0 => Ok(number),
        _ => Err("give at most 1".to_owned()),
    }
}

/// Seconds, or `inf` for no bound.
pub(super) fn seconds(text: &str) -> Result<f64, String> {
    match text.trim().to_ascii_lowercase().as_str() {
        "inf" | "infinity" => Ok(f64::INFINITY),
        _ => number(text),
    }
}

/// A length of time: seconds, or a number with `ms`, `us` or `s`.
pub(super) fn duration(text: &str) -> Result<crate::units::Nanos, String> {
    match number(text) {
        Ok(seconds) => Ok(crate::units::Nanos::from_seconds(seconds)),
        Err(_) => crate::mock_server::parse_duration(text).map_err(|error| error.to_string()),
    }
}

/// `name:value` or `name=value`, split at whichever comes first.
pub(super) fn pair(text: &str) -> Option<(&str, &str)> {
    let at = text.find([':', '='])?;
    let (name, value) = (text[..at].trim(), text[at + 1..].trim());
    (!name.is_empty()).then_some((name, value))
}

/// Members for request bodies: a JSON object, or `name:value` pairs, several in
/// one text only if a comma is followed by another name. A value that is JSON
/// is taken as such, every other as text.
pub(super) fn members(text: &str) -> Option<Vec<(String, Value)>> {
    let text = text.trim();
    if text.starts_with('{') {
        let object: serde_json::Map<String, Value> = serde_json::from_str(text).ok()?;
        return Some(object.into_iter().collect());
    }
    let mut pairs: Vec<(String, String)> = Vec::new();
    for part in text.split(',') {
        let may_begin = pairs.last().is_none_or(|(_, value)| is_closed(value));
        match (pair(part), pairs.last_mut()) {
            (Some((name, value)), _) if may_begin && is_name(name) => {
                pairs.push((name.to_owned(), value.to_owned()));
            }
            (_, Some((_, value))) => {
                value.push(',');
                value.push_str(part);
            }
            _ => return None,
        }
    }
    Some(pairs.into_iter().map(|(name, value)| (name, scalar(&value))).collect())
}

fn is_name(text: &str) -> bool {
    text.chars().all(|c| c.is_ascii_alphanumeric() || "_-.".contains(c))
}

/// Whether a comma after `value` may begin another pair: not inside a JSON
/// object, array or string.
fn is_closed(value: &str) -> bool {
    !value.starts_with(['{', '[', '"']) || serde_json::from_str::<Value>(value).is_ok()
}

fn scalar(text: &str) -> Value {
    match text.to_ascii_lowercase().as_str() {
        "true" => Value::Bool(true),
        "false" => Value::Bool(false),
        "none" | "null" => Value::Null,
        _ => serde_json::from_str(text).unwrap_or_else(|_| Value::from(text)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use serde_json::json;

    fn object(text: &str) -> Value {
        Value::Object(members(text).unwrap().into_iter().collect())
    }

    #[test]
    fn extra_inputs_in_every_form() {
        assert_eq!(object("temperature:0.7"), json!({"temperature": 0.7}));
        assert_eq!(object("ignore_eos=True"), json!({"ignore_eos": true}));
        assert_eq!(object("a:1,b:text"), json!({"a": 1, "b": "text"}));
        assert_eq!(object("stop:x,y"), json!({"stop": "x,y"}));
        assert_eq!(object(r#"{"top_p":0.5,"n":null}"#), json!({"top_p": 0.5, "n": null}));
        assert_eq!(object(r#"opts:{"a":1,"b":2},c:3"#), json!({"opts": {"a": 1, "b": 2}, "c": 3}));
        for wrong in ["", "temperature", "{not json", ":1"] {
            assert_eq!(members(wrong), None, "{wrong}");
        }
    }

    #[test]
    fn numbers_refuse_what_is_none() {
        assert_eq!(count("1_000"), Ok(1000));
        assert!(count("10,20").unwrap_err().contains("sweep"));
        assert!(count("-1").is_err() && positive("0").is_err() && number("nan").is_err());
        assert_eq!((percent("100"), ratio("0")), (Ok(100.0), Ok(0.0)));
        assert!(percent("0").is_err() && percent("101").is_err() && ratio("1.01").is_err());
        assert!(above_zero("0").is_err() && number("-0.5").is_err());
        assert_eq!((seconds("inf"), rate("Infinity")), (Ok(f64::INFINITY), Ok(f64::INFINITY)));
        assert!(rate("0").is_err() && rate("nan").is_err() && rate("-inf").is_err());
    }

    proptest! {
        #[test]
        fn any_text_is_read_or_refused(text: String) {
            let _ = (members(&text), pair(&text), count(&text), seconds(&text), duration(&text), rate(&text));
        }
    }
}
