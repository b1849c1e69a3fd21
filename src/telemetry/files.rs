//! Exports to files and to standard output: one line of OTLP/JSON for each request, as the OTLP file
//! exporter specification defines.

use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::fs::{File, OpenOptions};
use std::io::{self, Read as _, Seek as _, SeekFrom, Write as _};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};

use url::Url;

use base::lock::Lock;
use base::platform;

use super::TelemetryError;
use super::send::Answer;

/// Where the lines of a signal are written.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Output {
    /// A file in this directory, with the name of the signal.
    Directory(PathBuf),
    /// This file.
    File(PathBuf),
    /// Standard output.
    Stdout,
}

/// The outputs of the signals.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Outputs {
    pub(super) metrics: Option<Output>,
    pub(super) traces: Option<Output>,
    pub(super) logs: Option<Output>,
}

impl Outputs {
    /// Writes all signals to the same place.
    pub(super) fn all(output: &Output) -> Self {
        let output = || Some(output.clone());
        Self { metrics: output(), traces: output(), logs: output() }
    }

    /// Returns the outputs of metrics, traces and logs.
    pub(super) const fn each(&self) -> [Option<&Output>; 3] {
        [self.metrics.as_ref(), self.traces.as_ref(), self.logs.as_ref()]
    }

    /// Returns whether nothing is written.
    pub(super) fn is_empty(&self) -> bool {
        self.each().iter().all(Option::is_none)
    }

    /// Returns these outputs, and those of `others` for signals without one.
    pub(super) fn or(self, others: Self) -> Self {
        Self {
            metrics: self.metrics.or(others.metrics),
            traces: self.traces.or(others.traces),
            logs: self.logs.or(others.logs),
        }
    }
}

/// The outputs of the signals. Lines are appended, so that several runs can share files.
#[derive(Debug)]
pub(super) struct Files {
    outputs: Outputs,
    has_complained: AtomicBool,
    open: Lock<HashMap<&'static str, File>>,
}

impl Output {
    /// Makes its path absolute, and creates the directory of its file.
    fn prepared(self) -> io::Result<Self> {
        let (directory, output) = match self {
            Self::Stdout => return Ok(self),
            Self::Directory(path) => {
                let path = std::path::absolute(path)?;
                (path.clone(), Self::Directory(path))
            }
            Self::File(path) => {
                let path = std::path::absolute(path)?;
                (path.parent().unwrap_or(Path::new("/")).to_owned(), Self::File(path))
            }
        };
        std::fs::create_dir_all(directory)?;
        Ok(output)
    }

    /// Returns the place as it is shown.
    fn shown(&self) -> String {
        match self {
            Self::Directory(path) | Self::File(path) => path.display().to_string(),
            Self::Stdout => "standard output".to_owned(),
        }
    }

    /// Returns the place as a URL; `None` if the path is not one that can be written so.
    pub(super) fn url(&self) -> Option<Url> {
        match self {
            Self::Directory(path) => Url::from_directory_path(path).ok(),
            Self::File(path) => Url::from_file_path(path).ok(),
            Self::Stdout => Url::parse("stdout:").ok(),
        }
    }

    /// Opens it for the signal with the file `name`.
    fn open(&self, name: &str) -> io::Result<File> {
        let append = |path: &Path| {
            let file = OpenOptions::new().create(true).append(true).open(path)?;
            end_line(path, &file)?;
            Ok(file)
        };
        match self {
            Self::Directory(path) => append(&path.join(name)),
            Self::File(path) => append(path),
            // The main thread holds the lock of the standard library's.
            Self::Stdout => platform::files::stdout(),
        }
    }
}

/// Ends the last line of a regular file, which a killed run may have cut.
fn end_line(path: &Path, mut file: &File) -> io::Result<()> {
    let about = file.metadata()?;
    if !about.is_file() || about.len() == 0 {
        return Ok(());
    }
    let mut last = [0];
    let mut content = File::open(path)?;
    content.seek(SeekFrom::End(-1))?;
    content.read_exact(&mut last)?;
    if last == *b"\n" { Ok(()) } else { file.write_all(b"\n") }
}

impl Files {
    /// Creates the directories; `None` without outputs. The files are created when something is
    /// exported.
    pub(super) fn create(outputs: Outputs) -> Result<Option<Self>, TelemetryError> {
        if outputs.is_empty() {
            return Ok(None);
        }
        let prepared = |output: Option<Output>| {
            let Some(output) = output else { return Ok(None) };
            let shown = output.shown();
            // Only the configuration file names single files.
            let is_declared = matches!(output, Output::File(_));
            let failed = |error: io::Error| TelemetryError::Setting {
                name: if is_declared { "OTEL_CONFIG_FILE" } else { "--otel-file" },
                reason: format!("cannot create the directory of {shown}: {error}"),
            };
            output.prepared().map(Some).map_err(failed)
        };
        let Outputs { metrics, traces, logs } = outputs;
        let outputs = Outputs {
            metrics: prepared(metrics)?,
            traces: prepared(traces)?,
            logs: prepared(logs)?,
        };
        Ok(Some(Self { outputs, has_complained: AtomicBool::new(false), open: Lock::default() }))
    }

    pub(super) const fn outputs(&self) -> &Outputs {
        &self.outputs
    }

    /// Returns the output of the signal with the file `name`.
    pub(super) fn output(&self, name: &str) -> Option<&Output> {
        match name {
            "metrics.jsonl" => self.outputs.metrics.as_ref(),
            "traces.jsonl" => self.outputs.traces.as_ref(),
            _ => self.outputs.logs.as_ref(),
        }
    }

    /// Warns about a failure, once per run.
    pub(super) fn complain(&self, reason: &str) {
        if !self.has_complained.swap(true, Ordering::AcqRel) {
            tracing::warn!("{reason}; the export to the collector continues");
        }
    }

    /// Appends an encoded request to the output of its signal, if it has one. Errors name the place.
    pub(super) fn append<A: Answer>(&self, body: &[u8]) -> Result<(), String> {
        let Some(output) = self.output(A::FILE) else { return Ok(()) };
        let written = || -> io::Result<()> {
            let line = otlp::to_json(body, A::REQUEST);
            let mut line = line.ok_or_else(|| io::Error::other("the request is not valid"))?;
            line.push('\n');
            let mut open = self.open.lock();
            let file = match open.entry(A::FILE) {
                Entry::Occupied(entry) => entry.into_mut(),
                Entry::Vacant(entry) => entry.insert(output.open(A::FILE)?),
            };
            // One call for the line: processes that share the file do not mix their lines.
            file.write_all(line.as_bytes())
        };
        written()
            .map_err(|error| format!("cannot write {} to {}: {error}", A::FILE, output.shown()))
    }
}
