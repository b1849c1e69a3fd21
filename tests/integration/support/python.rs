//! External readers: scripts for a Python interpreter with the required libraries.

use std::path::Path;
use std::process::Command;

/// Runs a script with the interpreter in `AIPERF_TEST_PYTHON`, which must have the packages that
/// `.ci/run` installs; prints a message if the variable is not set.
pub(crate) fn run_python(script: &str, directory: &Path) {
    let Some(python) = std::env::var_os("AIPERF_TEST_PYTHON") else {
        eprintln!("{script} was not run: AIPERF_TEST_PYTHON names no interpreter");
        return;
    };
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join(script);
    let output = Command::new(python).arg(script).arg(directory).output().unwrap();
    let said = String::from_utf8_lossy(&output.stdout);
    let complained = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{said}{complained}");
}
