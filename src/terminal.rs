//! The terminal of the user: the view of a run's progress, and standard error, which delays nothing.

pub(crate) mod stderr;
mod style;
mod view;

pub(crate) use stderr::Stderr;
pub(crate) use style::{terminal_style, terminal_width};
pub(crate) use view::View;
