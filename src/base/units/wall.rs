//! Wall time as text.

use chrono::{DateTime, SecondsFormat, TimeZone, Utc};

/// Returns an instant in nanoseconds since the epoch.
pub fn utc(wall_ns: u64) -> DateTime<Utc> {
    let (seconds, rest) = (wall_ns / 1_000_000_000, wall_ns % 1_000_000_000);
    DateTime::from_timestamp(seconds.cast_signed(), rest as u32).unwrap_or_default()
}

/// Formats an instant in nanoseconds since the epoch: `2026-11-21T15:04:05Z`.
pub fn shown(wall_ns: u64) -> String {
    utc(wall_ns).to_rfc3339_opts(SecondsFormat::AutoSi, true)
}

/// Returns the nanoseconds since the epoch. A leap second is the second before it.
pub fn since_epoch<Z: TimeZone>(at: &DateTime<Z>) -> i128 {
    let rest = at.timestamp_subsec_nanos() % 1_000_000_000;
    i128::from(at.timestamp()) * 1_000_000_000 + i128::from(rest)
}

/// Parses a time in the format of RFC 3339, into nanoseconds since the epoch.
pub fn parsed(text: &str) -> Option<i128> {
    DateTime::parse_from_rfc3339(text).ok().map(|at| since_epoch(&at))
}
