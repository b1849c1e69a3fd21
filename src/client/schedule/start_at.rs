//! The start time of a run (`--start-at`).

use chrono::{NaiveDate, NaiveDateTime};
use thiserror::Error;

use base::units::wall;

/// Error of a start time.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
pub enum StartAtError {
    /// The text is not a time.
    #[error("expected a time such as 2026-11-21T15:04:05Z, or Unix time in seconds")]
    Form,
    /// The time does not have a UTC offset.
    #[error("the time zone is missing; append Z for UTC, or an offset such as +01:00")]
    NoOffset,
    /// The time has more than nine decimal places.
    #[error("at most nine decimals (nanoseconds) are supported")]
    Decimals,
    /// The time is before the epoch.
    #[error("the time is before 1970")]
    Early,
    /// The time has more nanoseconds than 64 bits hold.
    #[error(
        "the time is after the year 2554; Unix time in seconds has ten digits, in milliseconds \
         thirteen"
    )]
    Late,
}

/// Parses a time in the format of RFC 3339 or as Unix time, into nanoseconds since the epoch. The
/// result is exact, so that all processes of a run read the same time. A leap second is read as the
/// second before it.
pub fn start_at(text: &str) -> Result<u64, StartAtError> {
    let text = text.trim();
    match unix_seconds(text) {
        Some(nanos) => nanos,
        None => timestamp(text),
    }
}

/// Parses Unix time; returns `None` if the text is not a number.
fn unix_seconds(text: &str) -> Option<Result<u64, StartAtError>> {
    let is_early = text.starts_with('-');
    let digits = text.strip_prefix(['-', '+']).unwrap_or(text);
    let (whole, fraction) = digits.split_once('.').unwrap_or((digits, ""));
    let are_digits = |text: &str| text.bytes().all(|byte| byte.is_ascii_digit());
    if whole.is_empty() || !are_digits(whole) || !are_digits(fraction) {
        return None;
    }
    if is_early {
        return Some(Err(StartAtError::Early));
    }
    if fraction.len() > 9 {
        return Some(Err(StartAtError::Decimals));
    }
    let nanos = || {
        let seconds: u64 = whole.parse().ok()?;
        let rest: u64 = format!("{fraction:0<9}").parse().ok()?;
        seconds.checked_mul(1_000_000_000)?.checked_add(rest)
    };
    Some(nanos().ok_or(StartAtError::Late))
}

fn timestamp(text: &str) -> Result<u64, StartAtError> {
    let Some(nanos) = wall::parsed(text) else {
        let is_time = text.parse::<NaiveDateTime>().is_ok() || text.parse::<NaiveDate>().is_ok();
        return Err(if is_time { StartAtError::NoOffset } else { StartAtError::Form });
    };
    let beyond = if nanos < 0 { StartAtError::Early } else { StartAtError::Late };
    u64::try_from(nanos).map_err(|_| beyond)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// date -ud 2026-11-21T15:04:05Z +%s
    const SECONDS: u64 = 1_795_273_445;

    #[test]
    fn instants_are_exact() {
        let expected = SECONDS * 1_000_000_000 + 250_000_000;
        for text in [
            "1795273445.25",
            " +1795273445.250 ",
            "2026-11-21T15:04:05.25Z",
            "2026-11-21t15:04:05.250000000z",
            "2026-11-21 15:04:05.25Z",
            "2026-11-21T16:04:05.25+01:00",
            "2026-11-21T09:34:05.25-05:30",
            "2026-11-21T15:04:05.25-00:00",
        ] {
            assert_eq!(start_at(text), Ok(expected), "{text}");
        }
        assert_eq!(start_at("1795273445"), Ok(SECONDS * 1_000_000_000));
        assert_eq!(start_at("1795273445.123456789"), Ok(1_795_273_445_123_456_789));
        assert_eq!(start_at("0"), Ok(0));
    }

    #[test]
    fn a_leap_second_is_the_second_before() {
        // date -ud 2016-12-31T23:59:59Z +%s
        assert_eq!(start_at("2016-12-31T23:59:60Z"), Ok(1_483_228_799_000_000_000));
    }

    #[test]
    fn what_is_wrong_is_said() {
        use StartAtError::{Decimals, Early, Form, Late, NoOffset};
        for (text, wrong) in [
            ("", Form),
            (".", Form),
            (".5", Form),
            ("-", Form),
            ("soon", Form),
            ("NaN", Form),
            ("inf", Form),
            ("1e300", Form),
            ("1e9", Form),
            ("0x10", Form),
            ("1_000", Form),
            ("\u{0661}", Form),
            ("15:04:05", Form),
            ("2026-13-01T00:00:00Z", Form),
            ("2026-02-29T00:00:00Z", Form),
            ("2026-11-21T25:00:00Z", Form),
            ("2026-11-21", NoOffset),
            ("2026-11-21T15:04:05", NoOffset),
            ("1.0123456789", Decimals),
            ("-1", Early),
            ("-0.5", Early),
            ("1969-12-31T23:59:59Z", Early),
            ("1795273445000", Late),
            ("99999999999999999999999999", Late),
            // 2^64 ns is 18446744073.709551616 s.
            ("18446744073.709551616", Late),
            ("2554-07-21T23:34:33.709551616Z", Late),
            ("9999-12-30T00:00:00Z", Late),
        ] {
            assert_eq!(start_at(text), Err(wrong), "{text}");
        }
        assert_eq!(start_at("18446744073.709551615"), Ok(u64::MAX));
        assert_eq!(start_at("2554-07-21T23:34:33.709551615Z"), Ok(u64::MAX));
    }

    proptest! {
        #[test]
        fn any_text_is_read_or_refused(text in ".*") {
            let _ = start_at(&text);
        }

        #[test]
        fn what_looks_like_a_time_is_read_or_refused(text in "[-+0-9TtZz:.,e \\[\\]/]{0,40}") {
            let _ = start_at(&text);
        }

        #[test]
        fn both_forms_say_the_same(nanos in any::<u64>(), hours in -23_i32..=23, minutes in 0..60) {
            let (whole, rest) = (nanos / 1_000_000_000, nanos % 1_000_000_000);
            prop_assert_eq!(start_at(&format!("{whole}.{rest:09}")), Ok(nanos));
            let seconds = hours * 3600 + hours.signum() * minutes * 60;
            let offset = chrono::FixedOffset::east_opt(seconds).unwrap();
            let shown = wall::utc(nanos).with_timezone(&offset).to_rfc3339();
            prop_assert_eq!(start_at(&shown), Ok(nanos), "{}", shown);
        }
    }
}
