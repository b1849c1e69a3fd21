//! Statistics, intervals and tests of plain numbers, which know nothing of requests or metrics.

pub(crate) mod anytime;
pub(crate) mod bootstrap;
mod distribution;
mod estimate;
pub(crate) mod normal;
pub(crate) mod percentile;
#[cfg(test)]
pub(crate) mod simulation;
pub(crate) mod student_t;

pub use distribution::Distribution;
pub(crate) use estimate::Estimate;
