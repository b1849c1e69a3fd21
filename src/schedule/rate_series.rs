//! Files with rates over time.

use serde::Deserialize;
use thiserror::Error;

use super::config::RatePoint;
use crate::units::Nanos;

/// Text that is no rate series.
#[derive(Debug, Error, PartialEq)]
pub enum RateSeriesError {
    /// It does not have the members wanted.
    #[error(
        "it is no rate series: {0}; write {{\"points\":[{{\"time_s\":0,\"qps\":5}},\
         {{\"time_s\":60,\"qps\":20}}]}}"
    )]
    Json(String),
    /// A single rate is none that changes.
    #[error("it needs at least two points; for a constant rate use --request-rate")]
    TooFew,
    /// A point that cannot be on a time axis.
    #[error("point {index}: time_s {time} is below 0 or too great; give seconds from the start")]
    Time {
        /// The point, from 1.
        index: usize,
        /// What it says.
        time: f64,
    },
    /// A point that is not after the one before.
    #[error("point {index}: time_s must be greater than that of the point before")]
    Order {
        /// The point, from 1.
        index: usize,
    },
    /// A point with a rate that nothing can be sent at.
    #[error("point {index}: qps {rate} is not above 0; give requests per second")]
    Rate {
        /// The point, from 1.
        index: usize,
        /// What it says.
        rate: f64,
    },
}

/// Longest time in a series, in seconds: some thirty years.
const MOST_SECONDS: f64 = 1e9;

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Points {
    points: Vec<Point>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Point {
    time_s: f64,
    qps: f64,
}

/// Reads a series as AIPerf has it: JSON with `points`, or their array alone,
/// of `time_s` (seconds, increasing, from 0) and `qps` (requests a second,
/// above 0).
pub fn parse_rate_series(text: &str) -> Result<Vec<RatePoint>, RateSeriesError> {
    let points = if text.trim_start().starts_with('[') {
        serde_json::from_str(text)
    } else {
        serde_json::from_str(text).map(|Points { points }| points)
    };
    let points: Vec<Point> = points.map_err(|error| RateSeriesError::Json(error.to_string()))?;
    if points.len() < 2 {
        return Err(RateSeriesError::TooFew);
    }
    let mut last = None;
    let mut read = |(index, Point { time_s, qps }): (usize, Point)| {
        let index = index + 1;
        if !(0.0..=MOST_SECONDS).contains(&time_s) {
            return Err(RateSeriesError::Time { index, time: time_s });
        }
        if !(qps.is_finite() && qps > 0.0) {
            return Err(RateSeriesError::Rate { index, rate: qps });
        }
        // Times that are one nanosecond apart on paper may be the same here.
        let at = Nanos::from_seconds(time_s);
        if last.replace(at).is_some_and(|last| at <= last) {
            return Err(RateSeriesError::Order { index });
        }
        Ok(RatePoint { at, rate: qps })
    };
    points.into_iter().enumerate().map(&mut read).collect()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn what_is_wrong_in_the_text_is_named() {
        for (text, told) in [
            (r#"[{"time_s":0,"rate":1}]"#, "unknown field `rate`"),
            (r#"{"points":[{"time_s":0}]}"#, "missing field `qps`"),
            (r#"{"timestamp":1000}"#, "unknown field `timestamp`, expected `points`"),
            ("", "EOF"),
        ] {
            let error = parse_rate_series(text).unwrap_err().to_string();
            assert!(error.contains(told), "{error}");
        }
    }

    #[test]
    fn both_forms_are_read() {
        let array = r#"[{"time_s":0,"qps":1},{"time_s":0.5,"qps":7.5}]"#;
        let expected = vec![
            RatePoint { at: Nanos::ZERO, rate: 1.0 },
            RatePoint { at: Nanos(500_000_000), rate: 7.5 },
        ];
        assert_eq!(parse_rate_series(array), Ok(expected.clone()));
        assert_eq!(parse_rate_series(&format!("{{\"points\":{array}}}")), Ok(expected));
    }

    #[test]
    fn what_is_none_is_named() {
        let refusal = |text| parse_rate_series(text).unwrap_err();
        assert_eq!(refusal(r#"[{"time_s":0,"qps":1}]"#), RateSeriesError::TooFew);
        let order = r#"[{"time_s":1,"qps":1},{"time_s":1,"qps":2}]"#;
        assert_eq!(refusal(order), RateSeriesError::Order { index: 2 });
        let rate = r#"[{"time_s":1,"qps":1},{"time_s":2,"qps":0}]"#;
        assert_eq!(refusal(rate), RateSeriesError::Rate { index: 2, rate: 0.0 });
        let time = r#"[{"time_s":-1,"qps":1},{"time_s":2,"qps":1}]"#;
        assert_eq!(refusal(time), RateSeriesError::Time { index: 1, time: -1.0 });
        for text in ["", "{}", "0:1,2:3", r#"{"points":[],"more":1}"#, r#"[{"t":1}]"#] {
            assert!(matches!(refusal(text), RateSeriesError::Json(_)), "{text}");
        }
        assert!(refusal("{}").to_string().contains(r#"{"points":[{"time_s":0,"qps":5}"#));
    }

    proptest! {
        #[test]
        fn any_text_is_read_or_refused(text: String) {
            let _ = parse_rate_series(&text);
        }

        #[test]
        fn what_is_written_is_read(gaps in prop::collection::vec((0.001f64..1e6, 0.001f64..1e6), 2..9)) {
            let mut time = 0.0;
            let points: Vec<(f64, f64)> = gaps.iter().map(|(gap, rate)| {
                time += gap;
                (time, *rate)
            }).collect();
            let written: Vec<String> = points
                .iter()
                .map(|(time, rate)| format!("{{\"time_s\":{time},\"qps\":{rate}}}"))
                .collect();
            let read = parse_rate_series(&format!("[{}]", written.join(","))).unwrap();
            let expected: Vec<RatePoint> = points
                .into_iter()
                .map(|(time, rate)| RatePoint { at: Nanos::from_seconds(time), rate })
                .collect();
            prop_assert_eq!(read, expected);
        }
    }
}
