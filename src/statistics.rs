//! Statistics, intervals and tests of plain numbers, which know nothing of requests or metrics.

pub(crate) mod anytime;
pub(crate) mod backlog;
pub(crate) mod change;
pub(crate) mod crossing;
pub(crate) mod dependent;
mod distribution;
pub(crate) mod drift;
pub(crate) mod effective;
mod estimate;
pub(crate) mod interval;
pub(crate) mod isotonic;
pub(crate) mod linear;
pub(crate) mod normal;
pub(crate) mod order;
mod percent;
pub(crate) mod percentile;
pub(crate) mod proportion;
pub(crate) mod rate;
pub(crate) mod sequential;
pub(crate) mod service_curve;
pub(crate) mod signed_rank;
#[cfg(test)]
pub(crate) mod simulation;
pub(crate) mod student_t;
mod sums;

pub use distribution::Distribution;
pub(crate) use estimate::{Bounded, Estimate};
pub(crate) use percent::further;
pub use percent::{NotAPercent, Percent, Percentiles};
