//! Parsers for the values of flags.

use std::ffi::OsStr;
use std::marker::PhantomData;

use clap::builder::{PossibleValue, TypedValueParser};
use clap::error::{ContextKind, ContextValue, ErrorKind};
use serde_json::Value;

use base::setting::Named;
use base::statistics::{NotAPercent, Percent};
use client::schedule::{MAX_CONCURRENCY, check_rate};
use dataset::{Length, LengthPreset};

/// Parses a percentile, such as `99.9`.
pub(super) fn percentile(text: &str) -> Result<Percent, NotAPercent> {
    text.parse()
}

/// Parses one of the names of a setting's values; see [`choice`].
#[derive(Clone)]
pub(super) struct Choice<T>(PhantomData<T>);

/// A parser for the names of a setting's values.
pub(super) const fn choice<T: Named>() -> Choice<T> {
    Choice(PhantomData)
}

impl<T: Named> TypedValueParser for Choice<T> {
    type Value = T;

    fn parse_ref(
        &self,
        command: &clap::Command,
        argument: Option<&clap::Arg>,
        value: &OsStr,
    ) -> Result<T, clap::Error> {
        let text = value.to_string_lossy();
        T::named(&text).ok_or_else(|| {
            let mut error = clap::Error::new(ErrorKind::InvalidValue).with_cmd(command);
            if let Some(argument) = argument {
                let flag = ContextValue::String(argument.to_string());
                error.insert(ContextKind::InvalidArg, flag);
            }
            error.insert(ContextKind::InvalidValue, ContextValue::String(text.into_owned()));
            let names = shown::<T>().collect();
            error.insert(ContextKind::ValidValue, ContextValue::Strings(names));
            error
        })
    }

    fn possible_values(&self) -> Option<Box<dyn Iterator<Item = PossibleValue> + '_>> {
        Some(Box::new(shown::<T>().map(PossibleValue::new)))
    }
}

/// The names as the command line shows them.
pub(super) fn shown<T: Named>() -> impl Iterator<Item = String> {
    T::NAMES.iter().map(|(name, _)| name.replace('_', "-"))
}

/// The error for a list where one number is expected.
const LIST: &str = "does not take a list; use --variant to vary it from run to run";

/// Parses a whole number of at least 0.
pub(super) fn count(text: &str) -> Result<u64, String> {
    if text.contains(',') {
        return Err(LIST.to_owned());
    }
    text.trim().replace('_', "").parse().map_err(|_| "expected a whole number".to_owned())
}

/// Parses a whole number of at least 1.
pub(super) fn positive(text: &str) -> Result<u64, String> {
    match count(text)? {
        0 => Err("must be at least 1".to_owned()),
        number => Ok(number),
    }
}

/// Parses a distribution of input lengths, or the name of a use case.
pub(super) fn input_length(text: &str) -> Result<Length, String> {
    length(text, |preset| preset.input_tokens)
}

/// Parses a distribution of output lengths, or the name of a use case.
pub(super) fn output_length(text: &str) -> Result<Length, String> {
    length(text, |preset| preset.output_tokens)
}

fn length(text: &str, of: fn(LengthPreset) -> u64) -> Result<Length, String> {
    if let Some(preset) = LengthPreset::named(text.trim()) {
        return Ok(Length::exactly(of(preset) as f64));
    }
    // Numbers have the same errors as those of other flags.
    let is_number = text.chars().all(|part| !part.is_ascii_alphabetic() && !";|~:".contains(part));
    if is_number {
        return number(text).map(Length::exactly);
    }
    Length::parse(text).map_err(|why| {
        let names = LengthPreset::ALL.map(|preset| preset.name).join(", ");
        format!("{why}, or a use case: {names}")
    })
}

/// Parses a finite number of at least 0.
pub(super) fn number(text: &str) -> Result<f64, String> {
    if text.contains(',') {
        return Err(LIST.to_owned());
    }
    match text.trim().replace('_', "").parse::<f64>() {
        Ok(number) if number.is_finite() && number >= 0.0 => Ok(number),
        Ok(_) => Err("must be a finite number of at least 0".to_owned()),
        Err(_) => Err("expected a number".to_owned()),
    }
}

/// Parses a finite number of at least 1.
pub(super) fn positive_number(text: &str) -> Result<f64, String> {
    match number(text)? {
        number if number >= 1.0 => Ok(number),
        _ => Err("must be at least 1".to_owned()),
    }
}

/// Parses a finite number above 0.
pub(super) fn above_zero(text: &str) -> Result<f64, String> {
    match number(text)? {
        number if number > 0.0 => Ok(number),
        _ => Err("must be above 0".to_owned()),
    }
}

/// Parses a number of concurrent things: a whole number from 1.
pub(super) fn concurrency(text: &str) -> Result<u64, String> {
    match positive(text)? {
        number if number <= MAX_CONCURRENCY => Ok(number),
        _ => Err(format!("must be at most {MAX_CONCURRENCY}")),
    }
}

/// Parses a rate per second.
pub(super) fn rate(text: &str) -> Result<f64, String> {
    let rate = number(text)?;
    check_rate(rate).map(|()| rate)
}

/// Like [`rate`], but accepts `inf` too.
pub(super) fn rate_or_inf(text: &str) -> Result<f64, String> {
    match text.trim().to_ascii_lowercase().as_str() {
        "inf" | "infinity" => Ok(f64::INFINITY),
        _ => rate(text),
    }
}

/// Parses the shape of a gamma distribution.
pub(super) fn shape(text: &str) -> Result<f64, String> {
    match above_zero(text)? {
        // The scale of the intervals is the reciprocal of the shape.
        shape if shape.recip().is_normal() => Ok(shape),
        _ => Err("must be above 0".to_owned()),
    }
}

/// Parses a text that is not empty.
pub(super) fn non_empty(text: &str) -> Result<String, String> {
    match text {
        "" => Err("must not be empty".to_owned()),
        text => Ok(text.to_owned()),
    }
}

/// Parses a path that begins with a slash.
pub(super) fn origin_path(text: &str) -> Result<String, String> {
    if text.starts_with('/') {
        Ok(text.to_owned())
    } else {
        Err("must be a path that begins with a slash".to_owned())
    }
}

/// Parses a percentage above 0 and at most 100.
pub(super) fn percent(text: &str) -> Result<f64, String> {
    match above_zero(text)? {
        number if number <= 100.0 => Ok(number),
        _ => Err("must be at most 100".to_owned()),
    }
}

/// Parses a fraction from 0 to 1.
pub(super) fn ratio(text: &str) -> Result<f64, String> {
    match number(text)? {
        number if number <= 1.0 => Ok(number),
        _ => Err("must be at most 1".to_owned()),
    }
}

/// Parses a fraction above 0 and at most 1.
pub(super) fn share(text: &str) -> Result<f64, String> {
    match ratio(text)? {
        share if share > 0.0 => Ok(share),
        _ => Err("must be above 0".to_owned()),
    }
}

/// Parses an address to listen on: a port of the loopback interface, or a host and a port.
pub(super) fn listening_address(text: &str) -> Result<String, String> {
    if text.parse::<u16>().is_ok() {
        return Ok(format!("127.0.0.1:{text}"));
    }
    let is_valid = text
        .rsplit_once(':')
        .is_some_and(|(host, port)| !host.is_empty() && port.parse::<u16>().is_ok());
    let valid = is_valid.then(|| text.to_owned());
    valid.ok_or_else(|| "expected a port, or a host and a port such as 0.0.0.0:4317".to_owned())
}

/// Parses a duration of at least 0 and returns seconds. A bare number is seconds; other
/// units are accepted, as in `500ms`, `10s` or `1h30m`.
pub(super) fn seconds(text: &str) -> Result<f64, String> {
    time(text, 1.0)
}

/// Like [`seconds`], up to 1000.
pub(super) fn stats_interval(text: &str) -> Result<f64, String> {
    match seconds(text)? {
        seconds if seconds <= 1000.0 => Ok(seconds),
        _ => Err("must be at most 1000".to_owned()),
    }
}

/// Like [`seconds`], but rejects 0.
pub(super) fn seconds_above_zero(text: &str) -> Result<f64, String> {
    some_time(seconds(text)?)
}

/// Like [`seconds`], but accepts `inf` too.
pub(super) fn seconds_or_inf(text: &str) -> Result<f64, String> {
    match text.trim().to_ascii_lowercase().as_str() {
        "inf" | "infinity" => Ok(f64::INFINITY),
        _ => seconds(text),
    }
}

/// Parses a duration of at least 0 and returns milliseconds. A bare number is
/// milliseconds; other units are accepted, as in `2s`.
pub(super) fn millis(text: &str) -> Result<f64, String> {
    time(text, 1e3)
}

/// Like [`millis`], but rejects 0.
pub(super) fn millis_above_zero(text: &str) -> Result<f64, String> {
    some_time(millis(text)?)
}

/// Parses a duration in a unit of which `per_second` make a second.
fn time(text: &str, per_second: f64) -> Result<f64, String> {
    let is_plain = text.trim().parse::<f64>().is_ok() || text.contains(',');
    if is_plain {
        return number(text);
    }
    let text = text.trim();
    match with_units(text.strip_prefix('-').unwrap_or(text)) {
        Some(_) if text.starts_with('-') => Err("must be at least 0".to_owned()),
        Some(found) => Ok(found * per_second),
        None => Err("expected a number, or a duration such as 10s or 500ms".to_owned()),
    }
}

/// Returns a duration such as `1h 30m` in seconds; `None` if a number does not have a known unit.
fn with_units(text: &str) -> Option<f64> {
    let (mut rest, mut nanos) = (text, 0.0);
    while !rest.is_empty() {
        let is_digit = |it: char| it.is_ascii_digit() || it == '.';
        let (number, more) = rest.split_at(rest.find(|it| !is_digit(it))?);
        let more = more.trim_start();
        let (unit, more) =
            more.split_at(more.find(|it| !char::is_alphabetic(it)).unwrap_or(more.len()));
        let scale = match unit {
            "h" | "hr" | "hrs" | "hour" | "hours" => 3.6e12,
            "m" | "min" | "mins" | "minute" | "minutes" => 6e10,
            "s" | "sec" | "secs" | "second" | "seconds" => 1e9,
            "ms" => 1e6,
            "us" | "µs" => 1e3,
            "ns" => 1.0,
            _ => return None,
        };
        nanos += number.parse::<f64>().ok()? * scale;
        rest = more.trim_start();
    }
    (!text.is_empty()).then_some(nanos / 1e9)
}

fn some_time(time: f64) -> Result<f64, String> {
    if time > 0.0 { Ok(time) } else { Err("must be above 0".to_owned()) }
}

/// Like [`seconds`], but returns nanoseconds.
pub(super) fn duration(text: &str) -> Result<base::units::Nanos, String> {
    seconds(text).map(base::units::Nanos::from_seconds)
}

/// Splits `name:value` or `name=value` at whichever separator comes first.
pub(super) fn pair(text: &str) -> Option<(&str, &str)> {
    let at = text.find([':', '='])?;
    let (name, value) = (text[..at].trim(), text[at + 1..].trim());
    (!name.is_empty()).then_some((name, value))
}

/// Parses fields for request bodies: a JSON object, or comma-separated `name:value` pairs. A
/// comma that no other name follows is part of the value. A value that is valid JSON is
/// parsed as JSON, any other is text.
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

/// Names and values of settings.
type Members = Vec<(String, Value)>;

/// Parses settings that have a name, which may be omitted: `name: flag=value, flag=value`.
pub(super) fn scenario(text: &str) -> Option<(Option<String>, Members)> {
    let is_name = |before: &str| !before.contains('=');
    let (name, settings) = match text.split_once(':').filter(|(it, _)| is_name(it)) {
        Some((name, settings)) => (Some(name.trim().to_owned()), settings),
        None => (None, text),
    };
    Some((name, members(settings)?))
}

fn is_name(text: &str) -> bool {
    text.chars().all(|c| c.is_ascii_alphanumeric() || "_-.".contains(c))
}

/// Whether a comma after `value` may start another pair: not inside a JSON object, array or
/// string.
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
        assert!(count("10,20").unwrap_err().contains("list"));
        assert!(count("-1").is_err() && positive("0").is_err() && number("nan").is_err());
        assert_eq!((percent("100"), ratio("0")), (Ok(100.0), Ok(0.0)));
        assert!(percent("0").is_err() && percent("101").is_err() && ratio("1.01").is_err());
        assert!(above_zero("0").is_err() && number("-0.5").is_err());
        assert_eq!(
            (seconds_or_inf("inf"), rate_or_inf("Infinity")),
            (Ok(f64::INFINITY), Ok(f64::INFINITY))
        );
        assert!(rate("0").is_err() && rate("inf").is_err() && rate("1e7").is_err());
        assert!(rate_or_inf("nan").is_err() && rate_or_inf("-inf").is_err());
        assert!(concurrency("16777216").is_ok() && concurrency("16777217").is_err());
        assert!(shape("1e-320").is_err() && non_empty("").is_err());
    }

    #[test]
    fn lengths_are_numbers_or_use_cases() {
        let tokens = |tokens| Ok(Length::exactly(tokens));
        assert_eq!([input_length("rag"), output_length(" rag ")], [tokens(4096.0), tokens(512.0)]);
        assert_eq!([input_length("1_024"), output_length("0.5")], [tokens(1024.0), tokens(0.5)]);
        assert_eq!(input_length("512~192"), Length::parse("lognormal:mean=512,median=192"));
        let error = input_length("poetry").unwrap_err();
        assert!(error.ends_with("a use case: chat, rag, summarize, code"), "{error}");
        assert!(output_length("-1").is_err() && input_length("10,20").is_err());
    }

    #[test]
    fn times_have_units_of_their_own_or_the_flags() {
        assert_eq!(
            (seconds("10"), seconds("10s"), seconds("500ms")),
            (Ok(10.0), Ok(10.0), Ok(0.5))
        );
        assert_eq!(
            (seconds("1h30m"), seconds("1m 30s"), seconds("250us")),
            (Ok(5400.0), Ok(90.0), Ok(0.00025))
        );
        assert_eq!((seconds("2.5s"), seconds("0")), (Ok(2.5), Ok(0.0)));
        assert_eq!((millis("10"), millis("2s"), millis("1.5ms")), (Ok(10.0), Ok(2000.0), Ok(1.5)));
        assert_eq!(duration("1ms"), Ok(base::units::Nanos(1_000_000)));
        for wrong in ["-1", "-5s", "10x", "s", "", "nan", "inf"] {
            assert!(seconds(wrong).is_err(), "{wrong}");
        }
        for wrong in ["0", "0s", "0ms"] {
            assert!(seconds_above_zero(wrong).is_err() && millis_above_zero(wrong).is_err());
        }
        assert_eq!((number("100_000"), count("100_000")), (Ok(100_000.0), Ok(100_000)));
    }

    proptest! {
        #[test]
        fn any_text_is_read_or_refused(text: String) {
            let _ = (members(&text), pair(&text), count(&text), seconds_or_inf(&text), duration(&text), millis(&text), rate(&text));
        }
    }
}
