//! Which requests are told of as traces: `--trace-sample`.

use std::fmt;
use std::str::FromStr;

use crate::record::TraceShare;

/// Most traces that `slowest` keeps until the end of the run, at some 3 kB each.
const MOST_SLOWEST: u32 = 10_000;

/// Which requests become traces; at least one part is set.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct TraceSample {
    /// So many of a hundred, chosen by their trace id: above 0, at most 100.
    pub percent: Option<f64>,
    /// As many of the measurement's slowest, told at its end.
    pub slowest: Option<u32>,
    /// Those that failed.
    pub errors: bool,
}

/// Why a `--trace-sample` is refused.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum TraceSampleError {
    /// A part that means nothing.
    #[error("{0:?} is none of `5%`, `slowest:20`, `errors` and `all`; join several by commas")]
    Unknown(String),
    /// A share that is no share.
    #[error("{0:?}: give a percentage above 0 and at most 100, as in `5%`")]
    Percent(String),
    /// A count that is no count.
    #[error("{0:?}: give a number from 1 to {MOST_SLOWEST}, as in `slowest:20`")]
    Slowest(String),
    /// The same part again.
    #[error("{0:?}: give each of share, `slowest` and `errors` once")]
    Twice(String),
}

impl TraceSample {
    /// The share that is sampled whatever becomes of the requests.
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
        .filter(|count| (1..=MOST_SLOWEST).contains(count))
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
            ("", "is none of"),
            ("5", "is none of"),
            ("5%,,errors", "is none of"),
            ("fastest:3", "is none of"),
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
            slowest in proptest::option::of(1..=MOST_SLOWEST),
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
