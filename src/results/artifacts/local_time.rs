//! Local times as the files contain them.

use chrono::{DateTime, Local, NaiveDateTime};

use base::units::wall;

/// Formats local time without a zone, with microseconds: `2026-11-21T01:54:54.681160`.
pub(crate) fn local_time(wall_ns: u64) -> String {
    local(wall_ns).format("%FT%T.%6f").to_string()
}

/// Formats a wall time as local time with its offset from UTC.
pub(super) fn zoned_time(wall_ns: u64) -> String {
    local(wall_ns).format("%FT%T.%6f%:z").to_string()
}

/// Formats a wall time as local time for people, to the minute: `2026-11-21 01:54 +01:00`.
pub(crate) fn local_minute(wall_ns: u64) -> String {
    local(wall_ns).format("%F %R %:z").to_string()
}

/// Formats a wall time as local time for people, to the second: `2026-11-21 01:54:54 +01:00`.
pub(crate) fn local_second(wall_ns: u64) -> String {
    local(wall_ns).format("%F %T %:z").to_string()
}

fn local(wall_ns: u64) -> DateTime<Local> {
    wall::utc(wall_ns).with_timezone(&Local)
}

/// Parses the wall time that [`local_time`] wrote, with microseconds.
pub(super) fn wall_time(local: &str) -> Option<u64> {
    let at = local.parse::<NaiveDateTime>().ok()?.and_local_timezone(Local).earliest()?;
    u64::try_from(wall::since_epoch(&at)).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn local_times_have_microseconds_and_no_zone() {
        let text = local_time(1_795_226_094_681_160_123);
        // Offsets are whole minutes, so seconds are the same in every zone.
        assert!(text.ends_with(":54.681160"), "{text}");
        assert_eq!(text.len(), "2026-11-21T01:54:54.681160".len());
        assert_eq!(wall_time(&text), Some(1_795_226_094_681_160_000));
    }
}
