//! The `aiperf` binary.

fn main() {}
