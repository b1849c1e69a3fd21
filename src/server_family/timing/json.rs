//! Times and counts in JSON.

use serde_json::Value;

/// Nanoseconds in the unit in which a server writes times.
#[derive(Debug, Clone, Copy)]
pub(in crate::server_family) struct Scale(f64);

impl Scale {
    pub(in crate::server_family) const SECONDS: Self = Self(1e9);
    pub(in crate::server_family) const MILLISECONDS: Self = Self(1e6);
    pub(in crate::server_family) const NANOSECONDS: Self = Self(1.0);

    /// Returns the time that the member `name` of `object` has, in nanoseconds; `None` if it is
    /// negative or not a number.
    pub(in crate::server_family) fn of(self, object: &Value, name: &str) -> Option<f64> {
        self.nanos(object.get(name)?.as_f64()?)
    }

    /// Returns the time in `text`, in nanoseconds; `None` if it is negative or not a number.
    pub(in crate::server_family) fn parse(self, text: &str) -> Option<f64> {
        self.nanos(text.trim().parse().ok()?)
    }

    /// Returns `value` in nanoseconds; `None` if it is negative or too large.
    pub(in crate::server_family) fn nanos(self, value: f64) -> Option<f64> {
        Some(value * self.0).filter(|nanos| nanos.is_finite() && *nanos >= 0.0)
    }
}

/// Returns `whole` without `part`; `None` if either is unknown, or if the part is longer.
pub(in crate::server_family) fn rest(whole: Option<f64>, part: Option<f64>) -> Option<f64> {
    Some(whole? - part?).filter(|rest| *rest >= 0.0)
}

/// Returns the whole number that the member `name` of `object` has.
pub(in crate::server_family) fn count(object: &Value, name: &str) -> Option<u64> {
    object.get(name)?.as_u64()
}
