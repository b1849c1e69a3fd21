//! The process's environment variables, which tests replace by a function.

use std::fmt;

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
    pub(crate) fn process() -> Self {
        Self::new(&|name| std::env::var(name).ok())
    }

    /// Returns the value of `name`; `None` if it is unset or blank.
    #[must_use]
    pub(crate) fn get(&self, name: &str) -> Option<String> {
        (self.lookup)(name).filter(|value| !value.trim().is_empty())
    }

    /// Returns the value of `name` without blanks around it; `None` if it is unset or blank.
    #[must_use]
    pub(crate) fn trimmed(&self, name: &str) -> Option<String> {
        self.get(name).map(|value| value.trim().to_owned())
    }
}
