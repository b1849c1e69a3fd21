//! Tables, progress and warnings for the terminal.
//!
//! All output is plain text and means the same without colour. Nothing here prints: callers
//! write what [`render`] returns, and pass the progress line its output stream.

pub(crate) mod capacity;
mod catalogue;
pub(crate) mod compare;
mod document;
mod explain;
mod files;
pub(crate) mod gates;
mod gpu;
mod headline;
mod health;
mod highlights;
mod layout;
pub(crate) mod list;
pub(crate) mod live;
mod panel;
mod run;
pub(crate) mod runs;
mod server_metrics;
mod server_spans;
mod style;
mod table;
mod vocabulary;

pub(crate) use crate::tables::format::{count, number};
pub(crate) use catalogue::metrics;
pub(crate) use document::render as document;
pub(crate) use explain::{Request, Slow, causes, explained, explained_runs};
pub(crate) use files::{render_files, render_place};
pub(crate) use highlights::highlights;
pub(crate) use layout::{Column, Table, numbers};
pub use live::Ui;
pub(crate) use live::{DownloadLine, ProgressLine, block};
pub(crate) use panel::wrapped_line as wrapped;
pub use run::{render, render_file};
pub use style::Style;
pub(crate) use vocabulary::Term;

#[cfg(test)]
mod tests;
