//! Lanes that replay trees of conversations: where they enter them, what marks their prompts, and how long
//! all of them may be idle.
//!
//! The draws are those of AIPerf's agentic replay, so that both enter the same traces at the same times.

mod draw;
mod idle;
mod stats;

pub(crate) use draw::{entry, marker};
pub(crate) use idle::SystemIdle;
pub use stats::ReplayStats;
