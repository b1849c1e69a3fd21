//! Pictures of runs: the HTML page, and files of charts.
//!
//! `run`, `cells` and `compared` describe the charts of a run, of several and of two sides, and `trace`
//! those of a trace; `page` and `plot` draw the descriptions without knowing a metric. `index` lists runs.

mod cells;
mod chart;
mod compared;
mod distribution;
mod document;
mod gaps;
mod index;
mod lanes;
mod page;
pub mod plot;
mod requests;
mod run;
mod sample;
mod server;
mod stages;
mod theme;
mod timeline;
mod trace;

use std::io;
use std::path::{Path, PathBuf};

use parquet::errors::ParquetError;

use base::platform::replace::replace;
use dataset::TraceAnalysis;
use measure::judge;
use measure::multi_run::GroupResults;

use crate::artifacts::WriteFailure;
use crate::artifacts::layout::Layout;
use crate::run::RunReport;
use crate::run::listed::Listed;

pub use cells::Comparison;
pub use compared::Side;
use document::Document;
use plot::Charts;
use run::Run;
pub use theme::ThemeName;

/// The file of the page (`--html`).
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum PageFile {
    /// The default file in the directory of the results.
    Default,
    /// This file.
    At(PathBuf),
}

impl PageFile {
    /// Returns the path of the page of the results whose default page is `default`.
    #[must_use]
    pub fn or(&self, default: &Path) -> PathBuf {
        match self {
            Self::Default => default.to_owned(),
            Self::At(path) => path.clone(),
        }
    }
}

/// Writes the page of a run whose files are in `layout`; returns its path.
pub fn write_run(
    file: &PageFile,
    report: &RunReport,
    layout: &Layout,
) -> Result<PathBuf, WriteFailure> {
    let path = file.or(&layout.page);
    let document = Run::read(report, &layout.table).and_then(|run| run.document());
    match document {
        Ok(document) => write(path, &document),
        Err(error) => {
            Err(WriteFailure { path, error: format!("{}: {error}", layout.table.display()) })
        }
    }
}

/// Returns the charts of a run whose table of requests is `table`.
pub fn plots(report: &RunReport, table: &Path) -> Result<Charts, ParquetError> {
    Ok(Run::read(report, table)?.plots())
}

/// Writes the page of the group of runs in `directory`; returns its path.
pub fn write_group(
    file: &PageFile,
    directory: &Path,
    results: &GroupResults,
) -> Result<PathBuf, WriteFailure> {
    let path = file.or(&Layout::new(directory, None).page);
    match Comparison::from_results(directory, results).document() {
        Ok(document) => write(path, &document),
        Err(error) => Err(WriteFailure { path, error: error.to_string() }),
    }
}

/// Writes the page of `comparisons`, those of each directory with the same one, and of the runs of their
/// `sides`, to `path`.
pub fn write_comparison(
    path: PathBuf,
    comparisons: &[Vec<judge::Comparison>],
    sides: &[Side],
) -> Result<PathBuf, WriteFailure> {
    match compared::document(comparisons, sides) {
        Ok(document) => write(path, &document),
        Err(error) => Err(WriteFailure { path, error: error.to_string() }),
    }
}

/// Writes the page of the trace `name` to `path`.
pub fn write_trace(path: &Path, name: &str, analysis: &TraceAnalysis) -> io::Result<()> {
    write_document(path, &trace::document(name, analysis))
}

/// Writes the page with the title `title` that lists `runs`, whose directories are relative to that of
/// `path`.
pub fn write_index(path: &Path, title: &str, runs: &[Listed]) -> io::Result<()> {
    replace(path, |out| index::write(&mut io::BufWriter::new(out), title, runs))
}

fn write_document(path: &Path, document: &Document) -> io::Result<()> {
    replace(path, |out| page::write(&mut io::BufWriter::new(out), document))
}

fn write(path: PathBuf, document: &Document) -> Result<PathBuf, WriteFailure> {
    match write_document(&path, document) {
        Ok(()) => Ok(path),
        Err(error) => Err(WriteFailure { path, error: error.to_string() }),
    }
}
