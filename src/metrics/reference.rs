//! The metric reference and the registry entries, written from the rows.
