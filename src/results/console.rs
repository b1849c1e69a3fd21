//! Tables, progress and warnings for the terminal.
//!
//! All output is plain text and means the same without colour. Nothing here prints: callers
//! write what [`render`] returns, and pass the progress line its output stream.

pub mod capacity;
mod catalogue;
pub mod compare;
mod document;
mod explain;
mod failed;
mod files;
pub mod gates;
mod gpu;
mod groups;
mod headline;
mod health;
mod highlights;
mod layout;
pub mod list;
pub mod live;
mod panel;
mod run;
pub mod runs;
mod screen;
mod server_metrics;
mod server_spans;
mod style;
mod table;
mod vocabulary;
mod words;

pub use crate::tables::format::{count, number};
pub use catalogue::metrics;
pub use document::render as document;
pub use explain::{Request, Slow, causes, explained, explained_runs};
pub use files::{render_files, render_pictures, render_place};
pub use highlights::highlights;
pub use layout::{Column, Table, numbers};
pub use live::{DownloadLine, ProgressLine, Ui, block};
pub use panel::wrapped_line;
pub use run::{render, render_file};
pub use style::Style;
pub use vocabulary::Term;
pub use words::WORDS;

#[cfg(test)]
mod tests;
