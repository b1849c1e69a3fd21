//! External readers: scripts for a Python interpreter with the required libraries.

use std::path::Path;
use std::process::Command;

use super::left_out::python;

/// Runs a script with the tests' interpreter on a directory; it must succeed.
pub(crate) fn run_python(script: &str, directory: &Path) {
    let Some(python) = python() else { return };
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join(script);
    let output = Command::new(python).arg(script).arg(directory).output().unwrap();
    let said = String::from_utf8_lossy(&output.stdout);
    let complained = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{said}{complained}");
}
