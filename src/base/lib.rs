//! The foundation of aiperf's crates: what depends on the operating system, limits for input that
//! others wrote, statistics of plain numbers, units and clocks, secrets, and the names of telemetry.
//!
//! Nothing here knows of requests or servers.

pub mod lock;

pub mod parallel;

pub mod platform;

pub mod units;

pub mod environment;

pub mod causes;

pub mod input;

pub mod column;

pub mod statistics;

pub mod setting;

pub mod timer;

pub mod interrupt;

pub mod jinja;

pub mod redact;

pub mod semconv;

pub mod png;
