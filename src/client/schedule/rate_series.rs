//! Files with a rate over time.

use serde::Deserialize;
use thiserror::Error;

use base::units::Nanos;

use super::check_rate;
use super::config::RatePoint;

/// Error of a rate series.
#[derive(Debug, Error, PartialEq)]
pub enum RateSeriesError {
    /// The JSON does not have the expected members.
    #[error(
        "not a valid rate series: {0}; expected {{\"points\":[{{\"time_s\":0,\"qps\":5}},\
         {{\"time_s\":60,\"qps\":20}}]}}"
    )]
    Json(String),
    /// The series has a single point, so the rate does not change.
    #[error("a rate series must have at least two points; for a constant rate use --request-rate")]
    TooFew,
    /// A point has a time that is not on a time axis.
    #[error("point {index}: time_s {time} is below 0 or too large; use seconds from the start")]
    Time {
        /// Number of the point, from 1.
        index: usize,
        /// The time of the point, in seconds.
        time: f64,
    },
    /// A point is not after the point before it.
    #[error("point {index}: time_s must be greater than that of the previous point")]
    Order {
        /// Number of the point, from 1.
        index: usize,
    },
    /// A point has a rate at which nothing can be sent.
    #[error("point {index}: qps {why}, got {rate}")]
    Rate {
        /// Number of the point, from 1.
        index: usize,
        /// The rate of the point, in requests per second.
        rate: f64,
        /// The values that are valid.
        why: String,
    },
}

/// Latest time in a series, in seconds: about thirty years.
const MAX_SECONDS: f64 = 1e9;

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

/// Parses a series in AIPerf's format: JSON with `points`, or only their array, of `time_s`
/// (seconds, increasing, from 0) and `qps` (requests per second, greater than 0).
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
        if !(0.0..=MAX_SECONDS).contains(&time_s) {
            return Err(RateSeriesError::Time { index, time: time_s });
        }
        check_rate(qps).map_err(|why| RateSeriesError::Rate { index, rate: qps, why })?;
        // Times that differ by a nanosecond in the file may be equal here.
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
        let why = "must be a number of requests per second above 0".to_owned();
        assert_eq!(refusal(rate), RateSeriesError::Rate { index: 2, rate: 0.0, why });
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
