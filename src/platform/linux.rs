//! Linux.

pub(crate) mod alarm;
pub(crate) mod clock;
pub(crate) mod cores;
pub(crate) mod energy;
pub(crate) mod files;
pub(crate) mod host;
pub(crate) mod limits;
pub(crate) mod machine;
pub(crate) mod process;
pub(super) mod reads;
pub(crate) mod signals;
pub(super) mod tcp;
pub(crate) mod terminal;
