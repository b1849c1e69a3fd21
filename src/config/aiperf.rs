//! The Python AIPerf, as far as this program reads and writes what is AIPerf's: the settings of its
//! configuration files, and which of its flags and commands there are.
//!
//! Each setting is a row of [`schema`]. A row is walked in two directions: a file's value becomes
//! flags, and a member of a run's configuration becomes the value in `input_config` of the JSON export.
//! So a file whose `benchmark` is the `input_config` of a run has the settings of that run.

mod adaptive;
pub mod commands;
mod datasets;
mod file;
pub mod flags;
mod input_config;
mod mixture;
mod schema;

pub(crate) use datasets::quoted;
#[cfg(test)]
pub(crate) use file::OF_AIPERF;
pub(crate) use file::{Mapped, coerced, is_of_aiperf, is_off, mapped, scalar};
pub(super) use input_config::input_config;
pub(crate) use schema::{Number, Varied, varied};
#[cfg(test)]
pub(crate) use schema::{flags as known_flags, shown as shown_settings};
