//! The requests that are exported as traces: `--trace-sample`.

use std::fmt;
use std::str::FromStr;

use client::record::TraceShare;
use serde::Serialize;

/// Maximum number of traces that `slowest` keeps until the end of the run, at about 3 kB each.
const MAX_SLOWEST: u32 = 10_000;

/// The requests that become traces; at least one criterion is set.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize)]
pub struct TraceSample {
    /// Percentage of requests, selected by their trace ID: above 0, at most 100.
    pub percent: Option<f64>,
    /// Number of the slowest requests of the measurement, exported at its end.
    pub slowest: Option<u32>,
    /// Whether failed requests are exported.
    pub errors: bool,
}

/// The reason why a `--trace-sample` is rejected.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum TraceSampleError {
    /// An unknown criterion.
    #[error(
        "{0:?} is not valid; expected `5%`, `slowest:20`, `errors` or `all`, or several of them \
         separated by commas"
    )]
    Unknown(String),
    /// An invalid percentage.
    #[error("{0:?} is not valid; expected a percentage above 0 and at most 100, such as `5%`")]
    Percent(String),
    /// An invalid count.
    #[error("{0:?} is not valid; expected a number from 1 to {MAX_SLOWEST}, such as `slowest:20`")]
    Slowest(String),
    /// A repeated criterion.
    #[error("{0:?} repeats an item; use a percentage, `slowest` and `errors` at most once each")]
    Twice(String),
}

impl TraceSample {
    /// Returns the share of requests that is sampled regardless of their outcome.
    #[must_use]
    pub fn share(&self) -> TraceShare {
        self.percent.map_or(TraceShare::NONE, TraceShare::of_percent)
    }
}

impl FromStr for TraceSample {
    type Err = TraceSampleError;

    fn from_str(text: &str) -> Result<Self, TraceSampleError> {
        let mut sample = Self::default();
        for part in text.split(',').map(str::trim) {
            let is_new = if part == "errors" {
                !std::mem::replace(&mut sample.errors, true)
            } else if let Some(count) = part.strip_prefix("slowest:") {
                sample.slowest.replace(slowest(part, count)?).is_none()
            } else if part == "all" {
                sample.percent.replace(100.0).is_none()
            } else if let Some(number) = part.strip_suffix('%') {
                sample.percent.replace(percent(part, number)?).is_none()
            } else {
                return Err(TraceSampleError::Unknown(part.to_owned()));
            };
            if !is_new {
                return Err(TraceSampleError::Twice(part.to_owned()));
            }
        }
        Ok(sample)
    }
}

fn percent(part: &str, number: &str) -> Result<f64, TraceSampleError> {
    let percent = number.trim_end().parse().ok();
    percent
        .filter(|percent| *percent > 0.0 && *percent <= 100.0)
        .ok_or_else(|| TraceSampleError::Percent(part.to_owned()))
}

fn slowest(part: &str, count: &str) -> Result<u32, TraceSampleError> {
    let count = count.trim_start().parse().ok();
    count
        .filter(|count| (1..=MAX_SLOWEST).contains(count))
        .ok_or_else(|| TraceSampleError::Slowest(part.to_owned()))
}

impl fmt::Display for TraceSample {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let percent = self.percent.map(|percent| format!("{percent}%"));
        let slowest = self.slowest.map(|count| format!("slowest:{count}"));
        let errors = self.errors.then(|| "errors".to_owned());
        let parts: Vec<_> = [percent, slowest, errors].into_iter().flatten().collect();
        f.write_str(&parts.join(","))
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn each_part_may_be_given_and_none_twice() {
        let sample = |percent, slowest, errors| TraceSample { percent, slowest, errors };
        let table = [
            ("5%,slowest:20,errors", sample(Some(5.0), Some(20), true)),
            (" errors , 0.1 % ", sample(Some(0.1), None, true)),
            ("slowest:10000", sample(None, Some(10_000), false)),
            ("all", sample(Some(100.0), None, false)),
            ("100%", sample(Some(100.0), None, false)),
        ];
        for (text, expected) in table {
            assert_eq!(text.parse(), Ok(expected), "{text}");
        }
    }

    #[test]
    fn what_is_wrong_is_said() {
        let table = [
            ("", "is not valid"),
            ("5", "is not valid"),
            ("5%,,errors", "is not valid"),
            ("fastest:3", "is not valid"),
            ("0%", "above 0"),
            ("101%", "at most 100"),
            ("-1%", "above 0"),
            ("NaN%", "above 0"),
            ("x%", "above 0"),
            ("slowest:0", "from 1 to 10000"),
            ("slowest:10001", "from 1 to 10000"),
            ("slowest:", "from 1 to 10000"),
            ("slowest:2.5", "from 1 to 10000"),
            ("all,5%", "once"),
            ("errors,errors", "once"),
            ("slowest:1,slowest:2", "once"),
        ];
        for (text, why) in table {
            let error = text.parse::<TraceSample>().expect_err(text).to_string();
            assert!(error.contains(why), "{text}: {error}");
        }
    }

    proptest! {
        #[test]
        fn what_is_written_reads_the_same(
            percent in proptest::option::of(1e-9..=100.0),
            slowest in proptest::option::of(1..=MAX_SLOWEST),
            errors: bool,
        ) {
            let sample = TraceSample { percent, slowest, errors };
            prop_assume!(sample != TraceSample::default());
            prop_assert_eq!(sample.to_string().parse(), Ok(sample));
        }

        #[test]
        fn any_text_is_refused_or_asks_for_something(text in "[0-9a-z%:,. -]{0,24}|.{0,24}") {
            if let Ok(sample) = text.parse::<TraceSample>() {
                prop_assert_ne!(sample, TraceSample::default());
                prop_assert_eq!(sample.to_string().parse(), Ok(sample));
            }
        }
    }
}
