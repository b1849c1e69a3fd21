//! Exports to files: one line of OTLP/JSON for each request, as the OTLP file exporter
//! specification defines.

use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::fs::{File, OpenOptions};
use std::io::{self, Write as _};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};

use super::TelemetryError;
use super::json;
use super::send::Answer;
use crate::lock::Lock;

/// A directory with a file for each signal. Lines are appended, so that several runs can share it.
#[derive(Debug)]
pub(super) struct Files {
    directory: PathBuf,
    has_complained: AtomicBool,
    open: Lock<HashMap<&'static str, File>>,
}

impl Files {
    /// Creates the directory. The files are created when something is exported.
    pub(super) fn create(directory: &Path) -> Result<Self, TelemetryError> {
        let failed = |error: io::Error| TelemetryError::Setting {
            name: "--otel-file",
            reason: format!("cannot create the directory {}: {error}", directory.display()),
        };
        std::fs::create_dir_all(directory).map_err(failed)?;
        let directory = std::path::absolute(directory).map_err(failed)?;
        Ok(Self { directory, has_complained: AtomicBool::new(false), open: Lock::default() })
    }

    pub(super) fn directory(&self) -> &Path {
        &self.directory
    }

    /// Warns about a failure, once per run.
    pub(super) fn complain(&self, reason: &str) {
        if !self.has_complained.swap(true, Ordering::AcqRel) {
            tracing::warn!(
                "in {}: {reason}; the export to the collector continues",
                self.directory.display()
            );
        }
    }

    /// Appends an encoded request to the file of its signal.
    pub(super) fn append<A: Answer>(&self, body: &[u8]) -> io::Result<()> {
        let line = json::of(body, A::REQUEST);
        let mut line = line.ok_or_else(|| io::Error::other("the request is not valid"))?;
        line.push('\n');
        let mut open = self.open.lock();
        let file = match open.entry(A::FILE) {
            Entry::Occupied(entry) => entry.into_mut(),
            Entry::Vacant(entry) => {
                let path = self.directory.join(A::FILE);
                entry.insert(OpenOptions::new().create(true).append(true).open(path)?)
            }
        };
        // One call for the line: processes that share the file do not mix their lines.
        file.write_all(line.as_bytes())
    }
}
