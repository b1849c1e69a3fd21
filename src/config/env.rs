//! Values of environment variables.

use super::{ConfigError, Environment};
use crate::units::Nanos;

impl Environment<'_> {
    /// A number of at least 0, or `default` if unset.
    pub(crate) fn number(&self, name: &str, default: f64) -> Result<f64, ConfigError> {
        self.parse(name, "a number of at least 0", |text| {
            text.parse().ok().filter(|number: &f64| number.is_finite() && *number >= 0.0)
        })
        .map(|found| found.unwrap_or(default))
    }

    /// A duration in seconds, from a millisecond to a day, or `default` if unset.
    pub(crate) fn seconds(&self, name: &str, default: Nanos) -> Result<Nanos, ConfigError> {
        let found = self.parse(name, "a number from 0.001 to 86400", |text| {
            text.parse().ok().filter(|number| (0.001..=86_400.0).contains(number))
        })?;
        Ok(found.map_or(default, Nanos::from_seconds))
    }

    /// A whole number, or `default` if unset.
    pub(crate) fn whole(&self, name: &str, default: u32) -> Result<u32, ConfigError> {
        let expected = "a whole number from 0 to 4294967295";
        self.parse(name, expected, |text| text.parse().ok()).map(|found| found.unwrap_or(default))
    }

    /// A whole number of at least 1, or `default` if unset.
    pub(crate) fn count(&self, name: &str, default: usize) -> Result<usize, ConfigError> {
        self.parse(name, "a whole number of at least 1", |text| {
            text.parse().ok().filter(|number| *number >= 1)
        })
        .map(|found| found.unwrap_or(default))
    }

    /// A boolean: `1`, `true`, `yes`, `on` or `0`, `false`, `no`, `off`; `default` if unset.
    pub(crate) fn switch(&self, name: &str, default: bool) -> Result<bool, ConfigError> {
        self.parse(name, "true or false", |text| match text.to_ascii_lowercase().as_str() {
            "1" | "true" | "yes" | "on" | "t" | "y" => Some(true),
            "0" | "false" | "no" | "off" | "f" | "n" => Some(false),
            _ => None,
        })
        .map(|found| found.unwrap_or(default))
    }

    /// Parses the variable `name` with `read`; `None` if it is unset.
    ///
    /// # Errors
    /// If `read` returns `None`; the message says what is `expected`.
    pub(crate) fn parse<T>(
        &self,
        name: &str,
        expected: &'static str,
        read: impl Fn(&str) -> Option<T>,
    ) -> Result<Option<T>, ConfigError> {
        let Some(value) = self.get(name) else { return Ok(None) };
        let name = name.to_owned();
        read(value.trim()).map(Some).ok_or(ConfigError::Environment { name, value, expected })
    }
}
