//! What the tests do not compare because the machine lacks a program.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::sync::{Mutex, PoisonError};

/// Number of comparisons that were left out, by what is missing.
static LEFT_OUT: Mutex<BTreeMap<String, u64>> = Mutex::new(BTreeMap::new());

/// Counts a comparison that needs `missing`.
///
/// # Panics
///
/// If `AIPERF_TEST_ALL` is set, as `scripts/test` does.
pub(crate) fn left_out(missing: &str) {
    let is_allowed = std::env::var_os("AIPERF_TEST_ALL").is_none();
    assert!(is_allowed, "{missing} is missing; run scripts/tools and scripts/readers");
    let mut counts = LEFT_OUT.lock().unwrap_or_else(PoisonError::into_inner);
    *counts.entry(missing.to_owned()).or_default() += 1;
}

/// Returns the interpreter that `AIPERF_TEST_PYTHON` names, which must have the packages that
/// `scripts/readers` installs; counts a comparison that is left out if the variable is not set.
pub(crate) fn python() -> Option<OsString> {
    let python = std::env::var_os("AIPERF_TEST_PYTHON");
    if python.is_none() {
        left_out("AIPERF_TEST_PYTHON=$(scripts/readers)");
    }
    python
}

dtor::declarative::dtor! {
    /// Prints the counts after libtest's own last line.
    #[dtor(unsafe)]
    fn print() {
        let counts = LEFT_OUT.lock().unwrap_or_else(PoisonError::into_inner);
        if counts.is_empty() {
            return;
        }
        let total: u64 = counts.values().sum();
        let each: Vec<String> =
            counts.iter().map(|(missing, count)| format!("{count} without {missing}")).collect();
        eprintln!("comparisons left out: {total} ({})", each.join(", "));
    }
}
