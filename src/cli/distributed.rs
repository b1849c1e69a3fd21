//! `--shard` and `--start-at`: one load of several processes.

use clap::Args;
use jiff::Timestamp;

use crate::schedule::Shard;

/// More processes than this nobody starts.
const MOST_SHARDS: u64 = 1 << 16;

/// Which part of the load, and when it starts.
#[derive(Args)]
#[command(next_help_heading = "Distributed")]
pub(super) struct DistributedArgs {
    /// Drive part I, from 0, of N: processes with the same settings, seed and start together are
    /// one run; needs --random-seed and --start-at
    #[arg(long, value_name = "I/N", value_parser = shard)]
    pub(super) shard: Option<Shard>,
    /// When the first phase starts: as in 2026-11-21T15:04:05.5Z, or seconds since 1970
    #[arg(long, value_name = "TIME", value_parser = instant)]
    pub(super) start_at: Option<u64>,
}

/// `i/n`, i below n.
fn shard(text: &str) -> Result<Shard, String> {
    let number = |text: &str| text.trim().parse::<u64>().ok();
    let parts = text.split_once('/').and_then(|(i, n)| number(i).zip(number(n)));
    match parts {
        Some((_, 0)) => Err("there are no parts: give at least 1".to_owned()),
        Some((_, count)) if count > MOST_SHARDS => Err(format!("give at most {MOST_SHARDS} parts")),
        Some((index, count)) if index >= count => {
            Err(format!("parts count from 0: the last of {count} is {}/{count}", count - 1))
        }
        Some((index, count)) => Ok(Shard::new(index, count)),
        None => Err("write the part and how many there are, as in 0/4".to_owned()),
    }
}

/// Nanoseconds since the epoch.
fn instant(text: &str) -> Result<u64, String> {
    let text = text.trim();
    let wrong = || "write it as in 2026-11-21T15:04:05Z, or in seconds since 1970".to_owned();
    if let Some(nanos) = unix_seconds(text) {
        return Ok(nanos);
    }
    let at: Timestamp = text.parse().map_err(|_| wrong())?;
    u64::try_from(at.as_nanosecond()).map_err(|_| wrong())
}

/// Seconds with at most nine decimals, exactly: all processes have to read the same.
fn unix_seconds(text: &str) -> Option<u64> {
    let (whole, fraction) = text.split_once('.').unwrap_or((text, ""));
    let are_digits = |text: &str| text.bytes().all(|byte| byte.is_ascii_digit());
    if whole.is_empty() || !are_digits(whole) || !are_digits(fraction) || fraction.len() > 9 {
        return None;
    }
    let nanos: u64 = format!("{fraction:0<9}").parse().ok()?;
    whole.parse::<u64>().ok()?.checked_mul(1_000_000_000)?.checked_add(nanos)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shards_are_below_their_count() {
        assert_eq!(shard("0/1"), Ok(Shard::new(0, 1)));
        assert_eq!(shard(" 3 / 4 "), Ok(Shard::new(3, 4)));
        for wrong in ["", "1", "/", "1/", "4/4", "0/0", "-1/4", "1/4/5", "0/65537", "a/b"] {
            assert!(shard(wrong).is_err(), "{wrong}");
        }
        assert_eq!(shard("65535/65536"), Ok(Shard::new(65_535, 65_536)));
    }

    #[test]
    fn instants_are_exact() {
        // date -ud 2026-11-21T15:04:05Z +%s
        let seconds = 1_795_273_445;
        let expected = seconds * 1_000_000_000 + 250_000_000;
        for text in ["1795273445.25", "2026-11-21T15:04:05.25Z", "2026-11-21T16:04:05.25+01:00"] {
            assert_eq!(instant(text), Ok(expected), "{text}");
        }
        assert_eq!(instant("1795273445"), Ok(seconds * 1_000_000_000));
        assert_eq!(instant("1795273445.123456789"), Ok(1_795_273_445_123_456_789));
        let wrong = ["", ".", "-1", "soon", "2026-11-21", "1.0123456789", "99999999999999999999"];
        for wrong in wrong {
            assert!(instant(wrong).is_err(), "{wrong}");
        }
    }
}
