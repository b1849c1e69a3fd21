//! Linux.

pub mod alarm;
pub mod clock;
pub mod cores;
pub mod energy;
pub mod files;
pub mod host;
pub mod limits;
pub mod machine;
pub mod process;
pub(super) mod reads;
pub mod signals;
pub(super) mod tcp;
pub mod terminal;
