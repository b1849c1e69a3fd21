//! Lanes that replay trees of conversations: where they enter them, what marks their prompts, how long all of
//! them may be idle, and what they do.
//!
//! The draws are those of AIPerf's agentic replay, so that both enter the same traces at the same times.

mod draw;
mod idle;
mod load;
mod stats;

pub use draw::{entry, marker};
pub(crate) use idle::SystemIdle;
pub(crate) use load::LaneCounts;
pub use load::LaneLoad;
pub use stats::ReplayStats;
