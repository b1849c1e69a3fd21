//! The terminal of the user: the view of a run's progress, and standard error, which delays nothing.

pub mod stderr;
mod style;
mod view;

pub use stderr::Stderr;
pub use style::{terminal_style, terminal_width};
pub use view::View;
