//! The catalogue for `aiperf metrics`: as a table, and as JSON.

/// A line for each metric, in columns.
#[must_use]
pub fn table() -> String {
    String::new()
}
