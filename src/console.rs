//! Tables, progress and warnings for the terminal.
//!
//! All output is plain text and means the same without colour. Nothing here prints: callers
//! write what [`render`] returns, and pass the progress line its output stream.

pub(crate) mod capacity;
pub(crate) mod compare;
mod files;
mod format;
pub(crate) mod gates;
mod gpu;
mod headline;
mod health;
pub(crate) mod live;
mod load;
mod panel;
mod run;
pub(crate) mod runs;
mod server_metrics;
mod server_spans;
mod speculation;
mod steady;
mod style;
mod table;
mod time_breakdown;
mod warning;

pub(crate) use files::render_files;
pub(crate) use format::{count, number};
pub use live::Ui;
pub(crate) use live::{DownloadLine, ProgressLine, block};
pub use run::{render, render_file};
pub use style::Style;
pub(crate) use table::figures;

#[cfg(test)]
mod tests;
