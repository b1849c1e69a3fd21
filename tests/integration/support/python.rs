//! External readers: scripts for a Python interpreter with the required libraries.

use std::io::{BufRead, BufReader, Read, Write};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::OnceLock;
use std::time::Duration;

use serde_json::json;
use tempfile::TempDir;

use super::left_out::python;

/// The process that runs the scripts: starting an interpreter for each takes longer than most of them.
struct Readers {
    socket: PathBuf,
    /// It ends when the tests do, with its standard input.
    _process: Child,
    _directory: TempDir,
}

impl Readers {
    fn start(python: impl AsRef<std::ffi::OsStr>) -> Self {
        let directory = tempfile::tempdir().unwrap();
        let socket = directory.path().join("socket");
        let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/serve_readers.py");
        let mut command = Command::new(python);
        command.arg(script).arg(&socket).stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut process = command.spawn().unwrap();
        let mut ready = String::new();
        BufReader::new(process.stdout.take().unwrap()).read_line(&mut ready).unwrap();
        assert_eq!(ready, "ready\n");
        Self { socket, _process: process, _directory: directory }
    }
}

/// Runs a script with the tests' interpreter on a directory; it must succeed.
pub(crate) fn run_python(script: &str, directory: &Path) {
    static READERS: OnceLock<Readers> = OnceLock::new();
    let Some(python) = python() else { return };
    let readers = READERS.get_or_init(|| Readers::start(python));
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join(script);
    let mut connection = UnixStream::connect(&readers.socket).unwrap();
    connection.set_read_timeout(Some(Duration::from_mins(5))).unwrap();
    writeln!(connection, "{}", json!([script, directory])).unwrap();
    let mut said = String::new();
    connection.read_to_string(&mut said).unwrap();
    assert!(said.ends_with("\n0\n"), "{}: {said}", script.display());
}
