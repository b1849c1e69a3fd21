//! The process's environment variables, which tests replace by a function.

use std::fmt;

use thiserror::Error;

use crate::units::Nanos;

/// Looks up environment variables.
#[derive(Clone, Copy)]
pub struct Environment<'a> {
    lookup: &'a dyn Fn(&str) -> Option<String>,
}

impl fmt::Debug for Environment<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Environment")
    }
}

impl<'a> Environment<'a> {
    /// Returns an environment with the variables that `lookup` returns.
    pub fn new(lookup: &'a dyn Fn(&str) -> Option<String>) -> Self {
        Self { lookup }
    }

    /// Returns the environment of the process. Variables that are not Unicode are not in it.
    #[must_use]
    pub fn process() -> Self {
        Self::new(&|name| std::env::var(name).ok())
    }

    /// Returns the value of `name`; `None` if it is unset or blank.
    #[must_use]
    pub fn get(&self, name: &str) -> Option<String> {
        (self.lookup)(name).filter(|value| !value.trim().is_empty())
    }

    /// Returns the value of `name` without blanks around it; `None` if it is unset or blank.
    #[must_use]
    pub fn trimmed(&self, name: &str) -> Option<String> {
        self.get(name).map(|value| value.trim().to_owned())
    }
}

/// The value of a variable is not valid.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[error("{name} must be {expected}, got {value:?}; correct or unset it")]
pub struct InvalidVariable {
    /// The variable's name.
    pub name: String,
    /// The variable's value.
    pub value: String,
    /// What the value should be.
    pub expected: &'static str,
}

impl Environment<'_> {
    /// A number of at least 0, or `default` if unset.
    pub fn number(&self, name: &str, default: f64) -> Result<f64, InvalidVariable> {
        self.parse(name, "a number of at least 0", |text| {
            text.parse().ok().filter(|number: &f64| number.is_finite() && *number >= 0.0)
        })
        .map(|found| found.unwrap_or(default))
    }

    /// A duration in seconds, from a millisecond to a day, or `default` if unset.
    pub fn seconds(&self, name: &str, default: Nanos) -> Result<Nanos, InvalidVariable> {
        let found = self.parse(name, "a number from 0.001 to 86400", |text| {
            text.parse().ok().filter(|number| (0.001..=86_400.0).contains(number))
        })?;
        Ok(found.map_or(default, Nanos::from_seconds))
    }

    /// A whole number, or `default` if unset.
    pub fn whole(&self, name: &str, default: u32) -> Result<u32, InvalidVariable> {
        let expected = "a whole number from 0 to 4294967295";
        self.parse(name, expected, |text| text.parse().ok()).map(|found| found.unwrap_or(default))
    }

    /// A whole number of at least 1, or `default` if unset.
    pub fn count(&self, name: &str, default: usize) -> Result<usize, InvalidVariable> {
        self.parse(name, "a whole number of at least 1", |text| {
            text.parse().ok().filter(|number| *number >= 1)
        })
        .map(|found| found.unwrap_or(default))
    }

    /// A boolean: `1`, `true`, `yes`, `on` or `0`, `false`, `no`, `off`; `default` if unset.
    pub fn switch(&self, name: &str, default: bool) -> Result<bool, InvalidVariable> {
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
    pub fn parse<T>(
        &self,
        name: &str,
        expected: &'static str,
        read: impl Fn(&str) -> Option<T>,
    ) -> Result<Option<T>, InvalidVariable> {
        let Some(value) = self.get(name) else { return Ok(None) };
        let name = name.to_owned();
        read(value.trim()).map(Some).ok_or(InvalidVariable { name, value, expected })
    }
}
