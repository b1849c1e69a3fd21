//! Quantities and the clock.
//!
//! Times inside the program are integer nanoseconds ([`Nanos`]) on the
//! monotonic clock. Wall time appears only where something is exported, by way
//! of the one pairing that [`Clock`] makes when the run starts.

pub mod wall;

use std::fmt;
use std::ops::Add;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use chrono::{DateTime, Utc};
use serde::{Deserialize, Serialize};

use crate::platform::clock;

/// Nanoseconds: either an instant of the monotonic clock or a duration.
#[derive(
    Clone,
    Copy,
    Debug,
    Default,
    PartialEq,
    Eq,
    PartialOrd,
    Ord,
    Hash,
    Serialize,
    Deserialize,
    schemars::JsonSchema,
)]
#[serde(transparent)]
pub struct Nanos(pub u64);

impl Nanos {
    /// The zero duration.
    pub const ZERO: Self = Self(0);

    /// Returns the duration of `seconds`; zero for negative and non-finite values.
    #[must_use]
    pub fn from_seconds(seconds: f64) -> Self {
        if seconds.is_finite() && seconds > 0.0 {
            Self((seconds * 1e9).round() as u64)
        } else {
            Self::ZERO
        }
    }

    /// Returns the duration of `millis` milliseconds; zero for negative and non-finite values.
    #[must_use]
    pub fn from_millis(millis: f64) -> Self {
        Self::from_seconds(millis / 1e3)
    }

    /// Returns the time from the instant `earlier` to this one; zero if `earlier` is later.
    #[must_use]
    pub const fn since(self, earlier: Self) -> Self {
        Self(self.0.saturating_sub(earlier.0))
    }

    /// Returns the duration in seconds.
    #[must_use]
    pub fn as_seconds(self) -> f64 {
        self.0 as f64 / 1e9
    }

    /// Returns the duration in milliseconds.
    #[must_use]
    pub fn as_millis(self) -> f64 {
        self.0 as f64 / 1e6
    }
}

/// Returns the time from now that a `Retry-After` header names, in seconds or as a date (RFC 9110,
/// section 10.2.3); `None` if it is neither. A date that has passed is zero.
#[must_use]
pub fn retry_after(text: &str) -> Option<Duration> {
    let text = text.trim();
    if let Ok(seconds) = text.parse() {
        return Some(Duration::from_secs(seconds));
    }
    let date = DateTime::parse_from_rfc2822(text).ok()?;
    Some((date.to_utc() - Utc::now()).to_std().unwrap_or_default())
}

impl Add for Nanos {
    type Output = Self;

    fn add(self, other: Self) -> Self {
        Self(self.0.saturating_add(other.0))
    }
}

impl From<Duration> for Nanos {
    fn from(duration: Duration) -> Self {
        Self(u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX))
    }
}

impl From<Nanos> for Duration {
    fn from(nanos: Nanos) -> Self {
        Self::from_nanos(nanos.0)
    }
}

/// The monotonic clock, paired once with wall time.
///
/// Every exported timestamp comes from the one pairing, so that a step of the
/// wall clock during a run moves no latency.
#[derive(Clone, Copy, Debug)]
pub struct Clock {
    monotonic_origin: Nanos,
    wall_origin_ns: u64,
}

impl Clock {
    /// Pairs the two clocks now.
    #[must_use]
    pub fn start() -> Self {
        let wall_origin_ns = Self::wall_now_ns();
        Self { monotonic_origin: Self::now(), wall_origin_ns }
    }

    /// Returns the time of the wall clock, in nanoseconds since the Unix epoch.
    #[must_use]
    #[inline]
    #[expect(clippy::disallowed_methods, reason = "the one place that reads the wall clock")]
    pub fn wall_now_ns() -> u64 {
        let wall = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        Nanos::from(wall).0
    }

    /// Returns the time of the monotonic clock.
    #[must_use]
    #[inline]
    pub fn now() -> Nanos {
        Nanos(clock::monotonic_ns())
    }

    /// Returns the CPU time that the calling thread has used.
    #[must_use]
    pub fn thread_cpu() -> Nanos {
        Nanos(clock::thread_cpu_ns())
    }

    /// Time for which the calling thread has waited for a core while it could have run; `None` if it
    /// is not known.
    #[must_use]
    pub fn thread_waited() -> Option<Nanos> {
        clock::thread_waited_ns().map(Nanos)
    }

    /// Returns the CPU time that all threads of the program have used together.
    #[must_use]
    pub fn process_cpu() -> Nanos {
        Nanos(clock::process_cpu_ns())
    }

    /// Nanoseconds since the Unix epoch of the monotonic instant `at`.
    #[must_use]
    pub const fn wall_ns(&self, at: Nanos) -> u64 {
        self.wall_origin_ns.saturating_add(at.0).saturating_sub(self.monotonic_origin.0)
    }

    /// Returns the monotonic instant of a wall time that has just passed, by its age now. It is wrong if
    /// the wall clock was set in between.
    #[must_use]
    pub fn of_recent_wall_ns(wall_ns: u64) -> Option<Nanos> {
        let age = Self::wall_now_ns().checked_sub(wall_ns)?;
        Self::now().0.checked_sub(age).map(Nanos)
    }

    /// Returns the monotonic instant of a wall time; the inverse of [`Clock::wall_ns`].
    #[must_use]
    pub const fn at_wall_ns(&self, wall_ns: u64) -> Nanos {
        Nanos(self.monotonic_origin.0.saturating_add(wall_ns).saturating_sub(self.wall_origin_ns))
    }
}

/// A unit of a metric, as artifacts and console write it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Unit {
    /// `ns`
    Nanoseconds,
    /// `ms`
    Milliseconds,
    /// `sec`
    Seconds,
    /// `tokens`
    Tokens,
    /// `requests`
    Requests,
    /// `count`
    Count,
    /// `ratio`
    Ratio,
    /// `%`
    Percent,
    /// `tokens/sec`
    TokensPerSecond,
    /// `tokens/sec/user`
    TokensPerSecondPerUser,
    /// `requests/sec`
    RequestsPerSecond,
    /// `B`
    Bytes,
    /// `KB`, 1024 bytes
    Kilobytes,
    /// `MB`
    Megabytes,
    /// `images`
    Images,
    /// `images/sec`
    ImagesPerSecond,
    /// `ms/image`
    MillisecondsPerImage,
    /// `W`
    Watts,
    /// `J`
    Joules,
    /// `J*s`
    JouleSeconds,
    /// `joules/request`
    JoulesPerRequest,
    /// `joules/user`
    JoulesPerUser,
    /// `mJ/token`
    MillijoulesPerToken,
    /// `J/Mtoken`
    JoulesPerMillionTokens,
    /// `tokens/J`
    TokensPerJoule,
    /// `requests/sec/W`
    RequestsPerSecondPerWatt,
    /// `good-req/s/W`
    GoodRequestsPerSecondPerWatt,
    /// `tokens/sec/W`
    TokensPerSecondPerWatt,
    /// `tokens/sec/GPU`
    TokensPerSecondPerGpu,
    /// `requests/sec/GPU`
    RequestsPerSecondPerGpu,
    /// `sessions`
    Sessions,
    /// `sessions/sec`
    SessionsPerSecond,
    /// `users/GPU`
    UsersPerGpu,
    /// `price/Mtoken`
    PricePerMillionTokens,
    /// `price/request`
    PricePerRequest,
}

impl Unit {
    /// Returns the name of the unit in JSON, CSV and on the console.
    #[must_use]
    pub const fn label(self) -> &'static str {
        match self {
            Self::Nanoseconds => "ns",
            Self::Milliseconds => "ms",
            Self::Seconds => "sec",
            Self::Tokens => "tokens",
            Self::Requests => "requests",
            Self::Count => "count",
            Self::Ratio => "ratio",
            Self::Percent => "%",
            Self::TokensPerSecond => "tokens/sec",
            Self::TokensPerSecondPerUser => "tokens/sec/user",
            Self::RequestsPerSecond => "requests/sec",
            Self::Bytes => "B",
            Self::Kilobytes => "KB",
            Self::Megabytes => "MB",
            Self::Images => "images",
            Self::ImagesPerSecond => "images/sec",
            Self::MillisecondsPerImage => "ms/image",
            Self::Watts => "W",
            Self::Joules => "J",
            Self::JouleSeconds => "J*s",
            Self::JoulesPerRequest => "joules/request",
            Self::JoulesPerUser => "joules/user",
            Self::MillijoulesPerToken => "mJ/token",
            Self::JoulesPerMillionTokens => "J/Mtoken",
            Self::TokensPerJoule => "tokens/J",
            Self::RequestsPerSecondPerWatt => "requests/sec/W",
            Self::GoodRequestsPerSecondPerWatt => "good-req/s/W",
            Self::TokensPerSecondPerWatt => "tokens/sec/W",
            Self::TokensPerSecondPerGpu => "tokens/sec/GPU",
            Self::RequestsPerSecondPerGpu => "requests/sec/GPU",
            Self::Sessions => "sessions",
            Self::SessionsPerSecond => "sessions/sec",
            Self::UsersPerGpu => "users/GPU",
            Self::PricePerMillionTokens => "price/Mtoken",
            Self::PricePerRequest => "price/request",
        }
    }

    /// Returns how many units of `other` one of this unit is; 1 if the two measure different
    /// quantities.
    #[must_use]
    pub fn in_units_of(self, other: Self) -> f64 {
        match (self.scale(), other.scale()) {
            (Some((ours, from)), Some((theirs, to))) if ours == theirs => from / to,
            _ => 1.0,
        }
    }

    /// Converts `value` from this unit to `other`.
    ///
    /// Nanoseconds divide by a whole power of ten, so that a millisecond value
    /// is the correctly rounded quotient, as numpy has it.
    #[must_use]
    pub fn convert(self, value: f64, other: Self) -> f64 {
        let factor = self.in_units_of(other);
        if factor >= 1.0 { value * factor } else { value / other.in_units_of(self) }
    }

    const fn scale(self) -> Option<(Dimension, f64)> {
        match self {
            Self::Nanoseconds => Some((Dimension::Time, 1.0)),
            Self::Milliseconds => Some((Dimension::Time, 1e6)),
            Self::Seconds => Some((Dimension::Time, 1e9)),
            Self::Bytes => Some((Dimension::Data, 1.0)),
            Self::Kilobytes => Some((Dimension::Data, 1024.0)),
            _ => None,
        }
    }
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Dimension {
    Time,
    Data,
}

impl fmt::Display for Unit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.label())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_server_may_ask_for_a_time_or_a_date() {
        assert_eq!(retry_after(" 120 "), Some(Duration::from_mins(2)));
        // The example of RFC 9110.
        assert_eq!(retry_after("Fri, 31 Dec 1999 23:59:59 GMT"), Some(Duration::ZERO));
        // More than a century from the first release of this program.
        let far = retry_after("Thu, 31 Dec 2499 23:59:59 GMT").unwrap();
        assert!(far > Duration::from_hours(24 * 365 * 100), "{far:?}");
        for other in ["", "-1", "soon", "1.5"] {
            assert_eq!(retry_after(other), None, "{other}");
        }
    }

    #[test]
    fn conversions_between_units_of_one_dimension() {
        assert_eq!(Unit::Nanoseconds.convert(1_500_000.0, Unit::Milliseconds), 1.5);
        assert_eq!(Unit::Seconds.convert(2.5, Unit::Milliseconds), 2500.0);
        assert_eq!(Unit::Bytes.convert(512.0, Unit::Kilobytes), 0.5);
        assert_eq!(Unit::Tokens.convert(7.0, Unit::Tokens), 7.0);
    }

    #[test]
    fn a_recent_wall_time_is_converted_by_its_age() {
        let (before, wall_ns) = (Clock::now(), Clock::wall_now_ns());
        assert!(Clock::of_recent_wall_ns(wall_ns).unwrap() >= before);
        // It is not of the past.
        assert_eq!(Clock::of_recent_wall_ns(u64::MAX), None);
    }

    #[test]
    fn wall_time_follows_the_monotonic_clock() {
        let clock = Clock { monotonic_origin: Nanos(1_000), wall_origin_ns: 9_000_000 };
        assert_eq!(clock.wall_ns(Nanos(1_250)), 9_000_250);
        assert_eq!(clock.wall_ns(Nanos(900)), 8_999_900);
        assert_eq!(clock.at_wall_ns(9_000_250), Nanos(1_250));
    }

    #[test]
    fn seconds_that_are_not_a_duration_are_zero() {
        assert_eq!(Nanos::from_seconds(f64::NAN), Nanos::ZERO);
        assert_eq!(Nanos::from_seconds(-1.0), Nanos::ZERO);
        assert_eq!(Nanos::from_seconds(0.000_000_001), Nanos(1));
    }
}
