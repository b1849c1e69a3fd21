//! Statistics, intervals and tests of plain numbers, which know nothing of requests or metrics.

pub mod anytime;
pub mod backlog;
pub mod change;
pub mod crossing;
pub mod dependent;
mod distribution;
pub mod drift;
pub mod effective;
mod estimate;
pub mod interval;
pub mod isotonic;
pub mod linear;
pub mod normal;
pub mod order;
mod percent;
pub mod percentile;
pub mod proportion;
pub mod rate;
pub mod sequential;
pub mod service_curve;
pub mod signed_rank;
pub mod simulation;
pub mod student_t;
mod sums;

pub use distribution::Distribution;
pub use estimate::{Bounded, Estimate};
pub use percent::{NotAPercent, Percent, Percentiles, further};
