//! Tests of the parent.
